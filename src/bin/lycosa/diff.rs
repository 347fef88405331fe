//! `lycosa diff A B`: what two folders or snapshots do not have in common.

use std::io::Write;
use std::path::PathBuf;

use lycosa::{Change, Options, Schema, SpaceDef, SpaceDiff, SpaceSelector, Store, Tuple, Value};
use serde_json::json;

use crate::args::DiffArguments;
use crate::failure::{CANNOT_OPEN, DAMAGED, Failure};
use crate::print::{self, Output};
use crate::progress::Bar;

/// `_schema`, which every file has.
const SCHEMA_ID: u32 = 272;

pub fn run(arguments: &DiffArguments, json: bool) -> Result<(), Failure> {
    let bar = Bar::bytes(!json);
    let sides = [&arguments.a, &arguments.b];
    let options = arguments.options();
    let wanted = wanted(arguments, sides, &options)?;
    let mut views = Vec::new();
    for ((path, options), wanted) in sides.into_iter().zip(options).zip(wanted) {
        let options = wanted.into_iter().fold(options, Options::space);
        views.push(Store::open_with(path, &bar.follow(options.system_spaces(arguments.system)))?.read_view());
    }
    let [a, b] = &views[..] else { unreachable!("there are two") };
    bar.clear();
    let mut lines = Lines { out: Output::new()?, json, limit: arguments.limit, space: None, printed: 0 };
    let diffs = a.diff(b, arguments.system, |space, change| lines.change(space, change))?;
    let diffs: Vec<&SpaceDiff> = diffs.iter().filter(|diff| is_asked_for(arguments, diff)).collect();
    for diff in &diffs {
        lines.sum(diff)?;
    }
    lines.out.finish()?;
    // The process ends here: giving back millions of tuples piece by piece would only take time.
    let (differs, is_partial) =
        (diffs.iter().any(|diff| !diff.is_same()), diffs.iter().any(|diff| diff.not_compared.is_some()));
    std::mem::forget(views);
    if differs {
        return Err(Failure::Reported { code: DAMAGED });
    }
    if is_partial {
        return Err(Failure::Reported { code: CANNOT_OPEN });
    }
    Ok(())
}

/// The spaces that are to be loaded of each side: those asked for that it has. An empty list means all.
fn wanted(
    arguments: &DiffArguments,
    sides: [&PathBuf; 2],
    options: &[Options; 2],
) -> Result<[Vec<SpaceSelector>; 2], Failure> {
    let mut found = [Vec::new(), Vec::new()];
    if arguments.space.is_empty() {
        return Ok(found);
    }
    let mut unknown = arguments.space.clone();
    for ((path, options), found) in sides.into_iter().zip(options).zip(&mut found) {
        let schema = Schema::read(path, options)?;
        for text in &arguments.space {
            let selector = SpaceSelector::from(text.as_str());
            let is_there = match &selector {
                SpaceSelector::Id(id) => schema.space_by_id(*id).is_some(),
                SpaceSelector::Name(name) => schema.space_by_name(name).is_some(),
                _ => false,
            };
            if is_there {
                found.push(selector);
                unknown.retain(|other| other != text);
            }
        }
        if found.is_empty() {
            // None of them: then the least there is.
            found.push(SpaceSelector::Id(SCHEMA_ID));
        }
    }
    match unknown.first() {
        None => Ok(found),
        Some(space) => Err(Failure::usage(format!("no space {space:?} in either"))),
    }
}

fn is_asked_for(arguments: &DiffArguments, diff: &SpaceDiff) -> bool {
    let is = |space: &String| {
        let id = space.parse().ok();
        let name = space.strip_prefix("name:").unwrap_or(space);
        diff.name == name || (id.is_some() && (diff.id == id || diff.other_id == id))
    };
    arguments.space.is_empty() || arguments.space.iter().any(is)
}

/// Prints differences as they are found.
struct Lines {
    out: Output,
    json: bool,
    limit: u64,
    /// The space whose differences are being printed, and how many have been.
    space: Option<u32>,
    printed: u64,
}

impl Lines {
    fn change(&mut self, space: &SpaceDef, change: Change<'_>) -> Result<(), Failure> {
        if self.space != Some(space.id) {
            (self.space, self.printed) = (Some(space.id), 0);
        }
        self.printed += 1;
        if self.printed > self.limit {
            return Ok(());
        }
        if self.json {
            let (what, old, new) = match change {
                Change::Added(new) => ("added", None, Some(new)),
                Change::Removed(old) => ("removed", Some(old), None),
                Change::Changed(old, new) => ("changed", Some(old), Some(new)),
            };
            let text =
                |tuple: Option<Tuple<'_>>| tuple.map_or_else(|| "null".into(), |tuple| tuple.to_json());
            let fields: Vec<u32> = match (old, new) {
                (Some(old), Some(new)) => fields(old, new).map(|field| field.number + 1).collect(),
                _ => Vec::new(),
            };
            writeln!(
                self.out,
                "{{\"change\":\"{what}\",\"space_id\":{},\"space\":{},\"fields\":{},\"a\":{},\"b\":{}}}",
                space.id,
                json!(space.name),
                json!(fields),
                text(old),
                text(new)
            )?;
            return Ok(());
        }
        let name = print::visible(&space.name).into_owned();
        match change {
            Change::Added(new) => writeln!(self.out, "+ {name} {}", new.to_json())?,
            Change::Removed(old) => writeln!(self.out, "- {name} {}", old.to_json())?,
            Change::Changed(old, new) => {
                write!(self.out, "~ {name} {}", key(space, new))?;
                for field in fields(old, new) {
                    let named = space.format.get(field.number as usize).map(|field| field.name.as_str());
                    let named = named.map_or_else(String::new, |name| format!(" ({})", print::visible(name)));
                    write!(self.out, "  {}{named}: {} -> {}", field.number + 1, field.old, field.new)?;
                }
                writeln!(self.out)?;
            }
        }
        Ok(())
    }

    /// What a space comes to.
    fn sum(&mut self, diff: &SpaceDiff) -> Result<(), Failure> {
        if self.json {
            let document = json!({
                "space": diff.name,
                "id": diff.id,
                "other_id": diff.other_id,
                "schema": diff.schema,
                "added": diff.added,
                "removed": diff.removed,
                "changed": diff.changed,
                "same": diff.same,
                "not_compared": diff.not_compared,
                "is_same": diff.is_same(),
            });
            writeln!(self.out, "{document}")?;
            return Ok(());
        }
        let name = print::visible(&diff.name).into_owned();
        for line in &diff.schema {
            writeln!(self.out, "! {name}: {}", print::visible(line))?;
        }
        match &diff.not_compared {
            Some(why) => writeln!(self.out, "{name}: tuples not compared: {}", print::visible(why))?,
            None => writeln!(
                self.out,
                "{name}: {} added, {} removed, {} changed, {} the same",
                print::count(diff.added),
                print::count(diff.removed),
                print::count(diff.changed),
                print::count(diff.same)
            )?,
        }
        Ok(())
    }
}

/// A field that two tuples do not have in common.
struct Field {
    number: u32,
    old: String,
    new: String,
}

/// The fields that differ.
fn fields<'a>(old: Tuple<'a>, new: Tuple<'a>) -> impl Iterator<Item = Field> {
    let values =
        |tuple: Tuple<'a>| Value::new(tuple.bytes()).ok().map(|value| value.elements().collect::<Vec<_>>());
    let (old, new) = (values(old).unwrap_or_default(), values(new).unwrap_or_default());
    let text = |value: Option<&Value<'_>>| {
        let mut text = String::new();
        match value {
            Some(value) => value.write_json(&mut text),
            None => text.push_str("nothing"),
        }
        text
    };
    (0..old.len().max(new.len())).filter_map(move |number| {
        let (old, new) = (old.get(number), new.get(number));
        let is_same = old.map(|value| value.bytes()) == new.map(|value| value.bytes());
        (!is_same).then(|| Field { number: number as u32, old: text(old), new: text(new) })
    })
}

/// The primary key of a tuple, as far as it is made of whole fields.
fn key(space: &SpaceDef, tuple: Tuple<'_>) -> String {
    let parts = space.primary().map(|primary| primary.parts.as_slice()).unwrap_or_default();
    let fields =
        parts.iter().filter_map(|part| tuple.field(part.field)).filter_map(|field| Value::new(field).ok());
    let mut text = String::from("[");
    for field in fields {
        text.push_str(if text.len() > 1 { "," } else { "" });
        field.write_json(&mut text);
    }
    text.push(']');
    text
}
