//! `lycosa load DIR`: recovers a folder and tells what it took.
//!
//! Its JSON report is also what `bench load` collects: each run of a benchmark is a `lycosa load --json` of its own,
//! so that peak memory, CPU time and page faults are those of one load and nothing else.

use std::io::Write;

use lycosa::{LogReport, ReadView, SpaceDef, SpaceReport, StageReport, Store};
use serde_json::{Value, json};

use crate::args::LoadArguments;
use crate::failure::{self, Failure};
use crate::machine;
use crate::print::{self, Output, Table};
use crate::progress::Bar;

/// Ids below belong to Tarantool's own spaces.
pub const USER_SPACE_ID_MIN: u32 = 512;

pub fn run(arguments: &LoadArguments, json: bool) -> Result<(), Failure> {
    let bar = Bar::bytes(!json);
    let options =
        arguments.open.options().hints(!arguments.no_hints).nested(arguments.nested).fingerprint(true);
    let store = Store::open_with(&arguments.open.path, &bar.follow(options))?;
    bar.clear();
    let resident_bytes = machine::resident_bytes();
    if json {
        print::document(&as_json(&store, resident_bytes))?;
    } else {
        for notice in &store.report().notices {
            failure::say(notice);
        }
        write(&store, resident_bytes, arguments.system)?;
    }
    // The process ends here: giving back millions of tuples piece by piece would only take time.
    std::mem::forget(store);
    Ok(())
}

fn as_json(store: &Store, resident_bytes: Option<u64>) -> Value {
    let report = store.report();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "snapshot": report.snapshot.display().to_string(),
        "instance": report.instance,
        "vclock": print::vclock(&report.vclock),
        "threads": report.threads,
        "stages": report.stages.iter().map(stage).collect::<Vec<_>>(),
        "total": stage(&report.total),
        "peak_memory_bytes": report.peak_memory_bytes,
        "resident_memory_bytes": resident_bytes,
        "memory_bytes": report.memory_bytes,
        "counters": {
            "ties": report.counters.ties,
            "tuple_touches": report.counters.tuple_touches,
        },
        "spaces": report.spaces.iter().map(space).collect::<Vec<_>>(),
        "absent_spaces": absent(&store.read_view()).map(|(space, reason)| json!({
            "id": space.id,
            "name": space.name,
            "absent": reason,
        })).collect::<Vec<_>>(),
        "logs": report.logs.as_ref().map(logs),
        "notices": report.notices,
    })
}

fn logs(logs: &LogReport) -> Value {
    json!({
        "files": logs.files,
        "bytes": logs.bytes,
        "transactions": logs.transactions,
        "rows": logs.rows,
        "covered_rows": logs.covered_rows,
        "skipped_rows": logs.skipped_rows,
        "unknown_rows": logs.unknown_rows,
        "failed_operations": logs.failed_operations,
        "ignored_upserts": logs.ignored_upserts,
        "rolled_back_transactions": logs.rolled_back_transactions,
        "unconfirmed_transactions": logs.unconfirmed_transactions,
        "holds_unconfirmed": logs.holds_unconfirmed,
        "first_timestamp": logs.first_timestamp,
        "last_timestamp": logs.last_timestamp,
        "is_stopped": logs.is_stopped,
        "torn_bytes": logs.torn_bytes,
        "torn_rows": logs.torn_rows,
    })
}

/// The spaces that are defined but hold no data here, each with the reason.
fn absent(view: &ReadView) -> impl Iterator<Item = (&SpaceDef, &str)> {
    view.schema().spaces().iter().filter_map(|space| Some((space, space.absent.as_deref()?)))
}

/// What a stage did and cost.
pub fn stage(stage: &StageReport) -> Value {
    json!({
        "name": stage.name,
        "rows": stage.rows,
        "bytes": stage.bytes,
        "wall_seconds": print::seconds(stage.wall),
        "user_seconds": print::seconds(stage.user),
        "system_seconds": print::seconds(stage.system),
        "minor_faults": stage.minor_faults,
        "major_faults": stage.major_faults,
    })
}

fn space(space: &SpaceReport) -> Value {
    json!({
        "id": space.id,
        "name": space.name,
        "tuples": space.tuples,
        "bytes": space.bytes,
        "memory_bytes": space.memory_bytes,
        "fingerprint": space.fingerprint.map(|fingerprint| format!("{fingerprint:08x}")),
        "sorted": space.sorted,
        "indexes": space.indexes.iter().map(|index| json!({
            "id": index.id,
            "name": index.name,
            "entries": index.entries,
            "bytes": index.bytes,
            "absent": index.absent,
        })).collect::<Vec<_>>(),
    })
}

fn write(store: &Store, resident_bytes: Option<u64>, system: bool) -> Result<(), Failure> {
    let report = store.report();
    let mut out = Output::new()?;
    writeln!(out, "snapshot  {}", print::visible(&report.snapshot.display().to_string()))?;
    if let Some(instance) = &report.instance {
        writeln!(out, "instance  {}", print::visible(instance))?;
    }
    writeln!(out, "vclock    {}", report.vclock)?;
    if let Some(logs) = &report.logs {
        writeln!(
            out,
            "logs      {} rows of {} transactions from {} files{}",
            print::count(logs.rows),
            print::count(logs.transactions),
            print::count(logs.files),
            if logs.is_stopped { ", up to the point asked for" } else { "" }
        )?;
    }
    writeln!(out, "threads   {}\n", report.threads)?;

    let mut stages = Table::new(&[
        "stage",
        ">rows",
        ">bytes",
        ">wall s",
        ">user s",
        ">system s",
        ">faults",
        ">rows/s",
        ">bytes/s",
    ]);
    for stage in report.stages.iter().chain([&report.total]) {
        let wall = stage.wall.as_secs_f64();
        stages.row(vec![
            stage.name.to_string(),
            print::count(stage.rows),
            print::bytes(stage.bytes),
            format!("{wall:.3}"),
            format!("{:.3}", stage.user.as_secs_f64()),
            format!("{:.3}", stage.system.as_secs_f64()),
            print::count(stage.minor_faults + stage.major_faults),
            print::rate(stage.rows, wall).map_or_else(String::new, print::count),
            print::rate(stage.bytes, wall).map_or_else(String::new, print::bytes),
        ]);
    }
    stages.write(&mut out, "")?;

    writeln!(out, "\npeak memory  {}", print::bytes(report.peak_memory_bytes))?;
    if let Some(resident_bytes) = resident_bytes {
        writeln!(out, "at rest      {}", print::bytes(resident_bytes))?;
    }
    writeln!(out, "of the store {}", print::bytes(report.memory_bytes))?;
    writeln!(
        out,
        "hint ties    {}, tuples touched {}\n",
        print::count(report.counters.ties),
        print::count(report.counters.tuple_touches)
    )?;

    let mut spaces =
        Table::new(&[">id", "space", "index", ">tuples", ">bytes", "fingerprint", ">memory", ""]);
    let mut hidden = (0, 0);
    for space in &report.spaces {
        if space.id < USER_SPACE_ID_MIN && !system {
            hidden = (hidden.0 + 1, hidden.1 + space.tuples);
            continue;
        }
        spaces.row(vec![
            space.id.to_string(),
            space.name.clone(),
            String::new(),
            print::count(space.tuples),
            print::bytes(space.bytes),
            space.fingerprint.map_or_else(String::new, |fingerprint| format!("{fingerprint:08x}")),
            print::bytes(space.memory_bytes),
            if space.sorted { "rows were out of order, sorted".into() } else { String::new() },
        ]);
        for index in &space.indexes {
            let (entries, memory) = match index.absent {
                None => (print::count(index.entries), print::bytes(index.bytes)),
                Some(_) => (String::new(), String::new()),
            };
            spaces.row(vec![
                String::new(),
                String::new(),
                format!("{} {}", index.id, index.name),
                entries,
                String::new(),
                String::new(),
                memory,
                index.absent.as_ref().map_or_else(String::new, |reason| format!("absent: {reason}")),
            ]);
        }
    }
    for (space, reason) in
        absent(&store.read_view()).filter(|(space, _)| space.id >= USER_SPACE_ID_MIN || system)
    {
        let mut cells = vec![String::new(); 8];
        cells[0] = space.id.to_string();
        cells[1] = space.name.clone();
        cells[7] = format!("absent: {reason}");
        spaces.row(cells);
    }
    spaces.write(&mut out, "")?;
    if hidden.0 > 0 {
        writeln!(
            out,
            "and {} system spaces with {} rows (--system lists them)",
            hidden.0,
            print::count(hidden.1)
        )?;
    }
    Ok(out.finish()?)
}
