//! `lycosa export DIR --space S`: a space's tuples as rows of other people's formats.

use std::fs::File;
use std::io::{self, Write};

use lycosa::{Exporter, SpaceSelector, Store};

use crate::args::{ExportArguments, ExportAs};
use crate::failure::{self, Failure};
use crate::print::{self, Output};
use crate::progress::Bar;

pub fn run(arguments: &ExportArguments, json: bool) -> Result<(), Failure> {
    if json && !matches!(arguments.format, ExportAs::JsonEachRow | ExportAs::JsonCompact) {
        return Err(Failure::usage("--json and another --format contradict each other"));
    }
    let bar = Bar::bytes(arguments.output.is_some());
    let selector = SpaceSelector::from(arguments.space.as_str());
    let options = arguments.open.options().space(selector.clone()).fingerprint(false);
    let store = Store::open_with(&arguments.open.path, &bar.follow(options))?;
    bar.clear();
    let view = store.read_view();
    let space = view.space(selector)?;
    let index = match arguments.index.as_deref().map(SpaceSelector::from) {
        None => space.primary()?,
        Some(SpaceSelector::Id(id)) => space.index_by_id(id)?,
        Some(SpaceSelector::Name(name)) => space.index(&name)?,
        Some(other) => return Err(Failure::usage(format!("no index {other}"))),
    };
    let exporter = Exporter::new(&index, arguments.options());
    let threads = usize::from(arguments.open.threads);
    match &arguments.output {
        None => {
            let mut out = Output::new()?;
            index.export(&exporter, threads, |text| out.write_all(text))?;
            out.finish()?;
        }
        Some(path) => {
            let cannot = |error: io::Error| Failure::cannot(format!("{}: {error}", path.display()));
            let mut file = File::create_new(path).map_err(cannot)?;
            let tuples = index.export(&exporter, threads, |text| file.write_all(text)).map_err(cannot)?;
            file.sync_all().map_err(cannot)?;
            failure::say(&format!("{}: {} tuples", path.display(), print::count(tuples)));
        }
    }
    // The process ends here: giving back millions of tuples piece by piece would only take time.
    std::mem::forget(store);
    Ok(())
}
