//! `lycosa dump DIR --space S`: every tuple of a space, in the order of one of its indexes.

use std::io::Write;

use lycosa::{ErrorKind, Index, Options, Schema, Space, SpaceDef, SpaceSelector, Store, Tuple};

use crate::args::{DumpArguments, IndexArguments, OpenArguments, TupleFormat};
use crate::failure::Failure;
use crate::print::{self, Output};
use crate::progress::Bar;

pub fn run(arguments: &DumpArguments, json: bool) -> Result<(), Failure> {
    let format = arguments.index.format(json)?;
    with_index(&arguments.open, &arguments.index, json, |index| write(index.iter(), format))
}

/// Loads the one space that is asked for and lets `act` work on the index that is asked for.
///
/// A space whose data is not kept, and an index that is not built, are errors that say why. A temporary space is not
/// such a one: that it is empty after a restart is how it should be, so there is nothing to act on.
pub fn with_index(
    open: &OpenArguments,
    arguments: &IndexArguments,
    json: bool,
    act: impl FnOnce(Index<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let selector = arguments.space();
    let options = open.options().space(selector.clone()).fingerprint(false);
    let bar = Bar::bytes(!json);
    let opened = Store::open_with(&open.path, &bar.follow(options.clone()));
    bar.clear();
    let found = opened.map(|store| store.read_view()).and_then(|view| {
        view.space(selector.clone())?;
        Ok(view)
    });
    let view = match found {
        Ok(view) => view,
        Err(error) if error.kind() == ErrorKind::Absent => {
            return match is_temporary(open, &options, &selector, arguments)? {
                true => Ok(()),
                false => Err(error.into()),
            };
        }
        Err(error) => return Err(error.into()),
    };
    act(find(&view.space(selector)?, arguments)?)?;
    // The process ends here: giving back millions of tuples piece by piece would only take time.
    std::mem::forget(view);
    Ok(())
}

fn find<'a>(space: &Space<'a>, arguments: &IndexArguments) -> Result<Index<'a>, Failure> {
    Ok(match arguments.index() {
        None => space.primary()?,
        Some(SpaceSelector::Id(id)) => space.index_by_id(id)?,
        Some(SpaceSelector::Name(name)) => space.index(&name)?,
        Some(other) => return Err(Failure::usage(format!("no index {other}"))),
    })
}

/// Whether the space is a temporary one, with the index that is asked for.
fn is_temporary(
    open: &OpenArguments,
    options: &Options,
    selector: &SpaceSelector,
    arguments: &IndexArguments,
) -> Result<bool, Failure> {
    let schema = Schema::read(&open.path, options)?;
    let space: Option<&SpaceDef> = match selector {
        SpaceSelector::Id(id) => schema.space_by_id(*id),
        SpaceSelector::Name(name) => schema.space_by_name(name),
        _ => None,
    };
    let Some(space) = space.filter(|space| space.is_temporary && space.engine == "memtx" && !space.is_view)
    else {
        return Ok(false);
    };
    let is_there = match arguments.index() {
        None => true,
        Some(SpaceSelector::Id(id)) => space.indexes.iter().any(|index| index.id == id),
        Some(SpaceSelector::Name(name)) => space.indexes.iter().any(|index| index.name == name),
        Some(_) => false,
    };
    if is_there { Ok(true) } else { Err(Failure::usage(format!("space {}: no such index", space.name))) }
}

/// One tuple a line.
pub fn write<'a>(tuples: impl Iterator<Item = Tuple<'a>>, format: TupleFormat) -> Result<(), Failure> {
    let mut out = Output::new()?;
    let mut line = Vec::new();
    for tuple in tuples {
        match format {
            TupleFormat::Hex => {
                line.clear();
                print::hex(&mut line, tuple.bytes());
                line.push(b'\n');
                out.write_all(&line)?;
            }
            TupleFormat::Json => {
                out.write_all(tuple.to_json().as_bytes())?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(out.finish()?)
}
