//! `lycosa salvage SOURCE TARGET`: everything that can be saved of damaged files, and a report of what is lost.

use std::io::Write;
use std::ops::Range;

use lycosa::{Loss, SalvageOptions, SalvageReport, salvage};
use serde_json::{Value, json};

use crate::args::SalvageArguments;
use crate::compact::check_new;
use crate::failure::{self, DAMAGED, Failure};
use crate::print::{self, Output};

pub fn run(arguments: &SalvageArguments, json: bool) -> Result<(), Failure> {
    check_new(&arguments.source, &arguments.target)?;
    let mut options = SalvageOptions::new()
        .threads(usize::from(arguments.threads))
        .level(arguments.level)
        .checked_only(arguments.checked_only)
        .keep_doubtful(arguments.keep_doubtful);
    if let Some(bytes) = arguments.max_memory {
        options = options.max_memory(bytes);
    }
    if let Some(dir) = &arguments.wal_dir {
        options = options.wal_dir(dir);
    }
    let report = salvage(&arguments.source, &arguments.target, &options)?;
    if json {
        print::document(&as_json(&report))?;
    } else {
        report.notices.iter().for_each(|notice| failure::say(notice));
        write(&report)?;
    }
    if report.is_complete() { Ok(()) } else { Err(Failure::Reported { code: DAMAGED }) }
}

/// The first and the last of a range.
fn ends(range: Option<&Range<u64>>) -> [Option<u64>; 2] {
    match range.filter(|range| !range.is_empty()) {
        None => [None, None],
        Some(range) => [Some(range.start), Some(range.end - 1)],
    }
}

fn loss(loss: &Loss) -> Value {
    let [first_byte, last_byte] = ends(Some(&loss.bytes));
    let [first_row, last_row] = ends(loss.row_numbers.as_ref());
    let [first_lsn, last_lsn] = ends(loss.lsns.as_ref().map(|(_, lsns)| lsns));
    json!({
        "file": loss.place.file.as_ref().map(|file| file.display().to_string()),
        "block": loss.place.block,
        "row": loss.place.row,
        "first_byte": first_byte,
        "last_byte": last_byte,
        "reason": loss.reason,
        "repaired": loss.repaired,
        "is_loss": loss.is_loss(),
        "cost": loss.cost(),
        "read_rows": loss.read_rows,
        "first_row": first_row,
        "last_row": last_row,
        "replica": loss.lsns.as_ref().map(|(replica, _)| replica),
        "first_lsn": first_lsn,
        "last_lsn": last_lsn,
        "space_before": loss.spaces.0,
        "space_behind": loss.spaces.1,
        "key_before": loss.keys.0,
        "key_behind": loss.keys.1,
    })
}

fn as_json(report: &SalvageReport) -> Value {
    let written = report.written.as_ref();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "snapshot": report.snapshot.as_ref().map(|path| path.display().to_string()),
        "logs": report.logs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "skipped_files": report.skipped_files.iter().map(|(path, why)| json!({
            "path": path.display().to_string(),
            "reason": why,
        })).collect::<Vec<_>>(),
        "losses": report.losses.iter().map(loss).collect::<Vec<_>>(),
        "more_losses": report.more_losses,
        "rows": report.rows,
        "unchecked_rows": report.unchecked_rows,
        "dropped_rows": report.dropped_rows,
        "foreign_rows": report.foreign_rows,
        "side_file": report.side_file.as_ref().map(|path| path.display().to_string()),
        "spaces": report.spaces.iter().map(|space| json!({
            "id": space.id,
            "name": space.name,
            "tuples": space.tuples,
            "is_guessed": space.is_guessed,
        })).collect::<Vec<_>>(),
        "is_complete": report.is_complete(),
        "target": written.map(|written| written.path.display().to_string()),
        "target_rows": written.map(|written| written.rows),
        "target_bytes": written.map(|written| written.bytes),
        "notices": report.notices.iter().chain(written.iter().flat_map(|written| &written.notices))
            .collect::<Vec<_>>(),
    })
}

fn write(report: &SalvageReport) -> Result<(), Failure> {
    let mut out = Output::new()?;
    for loss in &report.losses {
        let what = match (&loss.repaired, loss.cost()) {
            (Some(how), _) => format!("repaired  {}; {how}", loss.reason),
            (None, Some(cost)) => format!("lost      {}; costs {cost}", loss.reason),
            (None, None) => format!("harmless  {}; no row is missing", loss.reason),
        };
        writeln!(out, "{}", print::visible(&what))?;
    }
    if report.more_losses > 0 {
        writeln!(out, "lost      and {} more stretches", print::count(report.more_losses))?;
    }
    for (path, why) in &report.skipped_files {
        writeln!(out, "skipped   {}", print::visible(&format!("{}: {why}", path.display())))?;
    }
    if let Some(snapshot) = &report.snapshot {
        writeln!(out, "snapshot  {}", print::visible(&snapshot.display().to_string()))?;
    }
    for log in &report.logs {
        writeln!(out, "log       {}", print::visible(&log.display().to_string()))?;
    }
    for space in &report.spaces {
        let guessed = if space.is_guessed { ", whose definition is a guess" } else { "" };
        let name = print::visible(&space.name).into_owned();
        writeln!(out, "space     {name} ({}): {} tuples{guessed}", space.id, print::count(space.tuples))?;
    }
    let mut rows = format!("rows      {} applied", print::count(report.rows));
    for (count, what) in [
        (report.unchecked_rows, "of them unchecked"),
        (report.dropped_rows, "dropped"),
        (report.foreign_rows, "of other engines"),
    ] {
        if count > 0 {
            rows += &format!(", {} {what}", print::count(count));
        }
    }
    writeln!(out, "{rows}")?;
    if let Some(side_file) = &report.side_file {
        writeln!(out, "dropped   {}", print::visible(&side_file.display().to_string()))?;
    }
    if let Some(written) = &report.written {
        let path = written.path.display().to_string();
        writeln!(out, "target    {} ({})", print::visible(&path), print::bytes(written.bytes))?;
    }
    let verdict =
        if report.is_complete() { "nothing is lost" } else { "not everything could be saved as it was" };
    writeln!(out, "{verdict}")?;
    Ok(out.finish()?)
}
