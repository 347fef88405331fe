//! `lycosa compact DIR TARGET`: snapshot and logs as one fresh snapshot in a new folder.

use std::fs;
use std::io::{ErrorKind as IoKind, Write};
use std::path::Path;

use lycosa::{ReadView, SnapshotOptions, SnapshotReport, SpaceDef, SpaceSelector, Store};
use serde_json::{Value, json};

use crate::args::CompactArguments;
use crate::failure::{self, Failure};
use crate::load::stage;
use crate::print::{self, Output};
use crate::progress::Bar;

pub fn run(arguments: &CompactArguments, json: bool) -> Result<(), Failure> {
    check_new(&arguments.open.path, &arguments.target)?;
    let bar = Bar::bytes(!json);
    let mut open = arguments.open.options().fingerprint(false);
    let mut options =
        SnapshotOptions::new().level(arguments.level).threads(usize::from(arguments.open.threads));
    for space in &arguments.space {
        let space = SpaceSelector::from(space.as_str());
        open = open.space(space.clone()).system_spaces(true);
        options = options.space(space);
    }
    let store = Store::open_with(&arguments.open.path, &bar.follow(open))?;
    if arguments.space.is_empty() {
        check_memtx(&store.read_view())?;
    }
    let written = store.write_snapshot(&arguments.target, &bar.follow_writing(options))?;
    bar.clear();
    if json {
        print::document(&as_json(&store, &written))?;
    } else {
        store.report().notices.iter().chain(&written.notices).for_each(|notice| failure::say(notice));
        write(&store, &written)?;
    }
    // The process ends here: giving back millions of tuples piece by piece would only take time.
    std::mem::forget(store);
    Ok(())
}

/// That the target is not there yet, or is an empty folder, and does not lie in the source, which must stay as it is.
pub fn check_new(source: &Path, target: &Path) -> Result<(), Failure> {
    let shown = target.display();
    let above = target.ancestors().find_map(|folder| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        folder.canonicalize().ok()
    });
    if let (Some(above), Ok(source)) = (above, source.canonicalize())
        && source.is_dir()
        && above.starts_with(&source)
    {
        return Err(Failure::cannot(format!("{shown}: target: expected a folder outside the source")));
    }
    match fs::read_dir(target).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(Failure::cannot(format!(
            "{shown}: target: expected a new or empty folder, found files in it"
        ))),
        Err(error) if error.kind() == IoKind::NotFound => Ok(()),
        Err(error) => Err(Failure::cannot(format!("{shown}: target: {error}"))),
    }
}

/// That all data is in snapshots: Tarantool does not open one that defines spaces of vinyl without vinyl's own files.
fn check_memtx(view: &ReadView) -> Result<(), Failure> {
    let is_vinyl = |space: &&SpaceDef| space.engine == "vinyl" && space.primary().is_some();
    match view.schema().spaces().iter().find(is_vinyl) {
        None => Ok(()),
        Some(space) => Err(Failure::cannot(format!(
            "space {}: its data is in vinyl's own files, which a snapshot does not hold; choose others with --space",
            space.name
        ))),
    }
}

fn as_json(store: &Store, written: &SnapshotReport) -> Value {
    let report = store.report();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "source": report.snapshot.display().to_string(),
        "target": written.path.display().to_string(),
        "instance": report.instance,
        "vclock": print::vclock(&report.vclock),
        "replayed_rows": report.logs.as_ref().map(|logs| logs.rows),
        "is_stopped": report.logs.as_ref().map(|logs| logs.is_stopped),
        "rows": written.rows,
        "row_bytes": written.row_bytes,
        "blocks": written.blocks,
        "bytes": written.bytes,
        "threads": written.threads,
        "load": stage(&report.total),
        "write": stage(&written.cost),
        "notices": report.notices.iter().chain(&written.notices).collect::<Vec<_>>(),
    })
}

fn write(store: &Store, written: &SnapshotReport) -> Result<(), Failure> {
    let report = store.report();
    let mut out = Output::new()?;
    writeln!(out, "source    {}", print::visible(&report.snapshot.display().to_string()))?;
    if let Some(logs) = &report.logs {
        let stopped = if logs.is_stopped { ", up to the point asked for" } else { "" };
        writeln!(out, "logs      {} rows{stopped}", print::count(logs.rows))?;
    }
    writeln!(out, "target    {}", print::visible(&written.path.display().to_string()))?;
    writeln!(out, "vclock    {}", report.vclock)?;
    writeln!(
        out,
        "rows      {}, {} in {} blocks, {} as stored",
        print::count(written.rows),
        print::bytes(written.row_bytes),
        print::count(written.blocks),
        print::bytes(written.bytes)
    )?;
    let wall = written.cost.wall.as_secs_f64();
    writeln!(
        out,
        "seconds   {:.3} to load, {wall:.3} to write ({:.3} of user CPU, {} threads){}",
        report.total.wall.as_secs_f64(),
        written.cost.user.as_secs_f64(),
        written.threads,
        print::rate(written.rows, wall)
            .map_or_else(String::new, |rate| format!(", {} rows/s", print::count(rate)))
    )?;
    Ok(out.finish()?)
}
