//! `lycosa bench load DIR...`: the same loads again and again, interleaved, and what they took.
//!
//! ```text
//! for each round                       every second one backwards, so that no arm always follows the same other
//!   for each folder, threads, arm      = a cell of the benchmark
//!     [--cold: drop the snapshot from the page cache]
//!     [--touch-memory: another process touches and frees as much memory as this cell needed last time]
//!     lycosa load --json ...           a process of its own: its peak memory, CPU and faults are those of one load
//!     compare counts and fingerprints with the folder's first run
//! ```
//!
//! The arms are the usual load, and one for each of `--no-hints` and `--nested`: each differs from the usual one in one
//! thing. A spread of wall time on a shared machine is wide; judge by the least, and by user CPU.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::args::BenchLoadArguments;
use crate::failure::{CANNOT_OPEN, Failure};
use crate::machine::{self, Machine};
use crate::print::{self, Output, Spread, Table};
use crate::progress::Bar;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Usual,
    NoHints,
    Nested,
}

impl Arm {
    fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::NoHints => "no-hints",
            Self::Nested => "nested",
        }
    }
}

/// A folder, a number of threads, an arm, and the reports of its runs.
struct Cell<'a> {
    path: &'a Path,
    threads: u16,
    arm: Arm,
    reports: Vec<Value>,
}

impl Cell<'_> {
    fn name(&self) -> String {
        let threads = if self.threads == 0 { "all".to_owned() } else { self.threads.to_string() };
        format!("{}, threads {threads}, {}", self.path.display(), self.arm.name())
    }

    /// The spread of one number over the runs.
    fn spread(&self, number: impl Fn(&Value) -> f64) -> Spread {
        Spread::of(self.reports.iter().map(number).collect())
    }

    fn total(&self, key: &str) -> Spread {
        self.spread(|report| number(&report["total"][key]))
    }

    fn stage(&self, stage: usize, key: &str) -> Spread {
        self.spread(|report| number(&report["stages"][stage][key]))
    }

    fn first(&self) -> &Value {
        &self.reports[0]
    }

    /// The threads that were asked for; what a small file leaves idle is not another arm.
    fn threads(&self) -> u64 {
        match self.threads {
            0 => number(&self.first()["threads"]) as u64,
            threads => u64::from(threads),
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

pub fn run(arguments: &BenchLoadArguments, json: bool) -> Result<(), Failure> {
    if arguments.how.wal_dir.is_some() && arguments.paths.len() > 1 {
        return Err(Failure::usage("--wal-dir is the logs' folder of one DIR, but several are given"));
    }
    let mut cells = cells(arguments);
    let bar = Bar::runs(!json, u64::from(arguments.runs) * cells.len() as u64);
    for round in 0..arguments.runs {
        for step in 0..cells.len() {
            let at = if round % 2 == 0 { step } else { cells.len() - 1 - step };
            let report = run_cell(arguments, &cells[at])?;
            // The first run of the folder, whichever cell it was in, is what all others must agree with.
            let first = cells.iter().find(|cell| cell.path == cells[at].path && !cell.reports.is_empty());
            if let Some(first) = first {
                compare(first, &cells[at], &report)?;
            }
            cells[at].reports.push(report);
            bar.step(cells[at].name());
        }
    }
    bar.clear();
    let machine = Machine::look();
    if json { print_json(arguments, &machine, &cells) } else { print_tables(arguments, &machine, &cells) }
}

fn cells(arguments: &BenchLoadArguments) -> Vec<Cell<'_>> {
    let mut arms = vec![Arm::Usual];
    arms.extend(arguments.no_hints.then_some(Arm::NoHints));
    arms.extend(arguments.nested.then_some(Arm::Nested));
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for path in &arguments.paths {
        for &threads in &arguments.threads {
            for &arm in &arms {
                let twice =
                    cells.iter().any(|cell| (cell.path, cell.threads, cell.arm) == (path, threads, arm));
                if !twice {
                    cells.push(Cell { path, threads, arm, reports: Vec::new() });
                }
            }
        }
    }
    cells
}

/// One load in a process of its own; its report.
fn run_cell(arguments: &BenchLoadArguments, cell: &Cell<'_>) -> Result<Value, Failure> {
    if arguments.touch_memory {
        let bytes = cell.reports.last().map_or(0, |report| number(&report["peak_memory_bytes"]) as u64);
        let bytes = if bytes == 0 { memory_guess_bytes(cell.path) } else { bytes };
        child(own("touch-memory")?.arg(bytes.to_string()), "touching memory")?;
    }
    if arguments.cold {
        machine::drop_from_cache(cell.path).map_err(|error| {
            Failure::cannot(format!("{}: cannot drop from the page cache: {error}", cell.path.display()))
        })?;
    }
    let mut command = own("load")?;
    command.arg("--json").arg("--threads").arg(cell.threads.to_string());
    if arguments.how.snapshot_only {
        command.arg("--snapshot-only");
    }
    if let Some(folder) = &arguments.how.wal_dir {
        command.arg("--wal-dir").arg(folder);
    }
    if let Some(bytes) = arguments.how.max_memory {
        command.arg("--max-memory").arg(bytes.to_string());
    }
    match cell.arm {
        Arm::Usual => {}
        Arm::NoHints => _ = command.arg("--no-hints"),
        Arm::Nested => _ = command.arg("--nested"),
    }
    command.arg("--").arg(cell.path);
    let output = child(&mut command, &cell.name())?;
    serde_json::from_slice(&output).map_err(|error| {
        Failure::cannot(format!("{}: the run's report cannot be read: {error}", cell.name()))
    })
}

/// This very program, with a command.
fn own(command: &str) -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::cannot(format!("cannot find this program to run it again: {error}")))?;
    let mut child = Command::new(program);
    child.arg(command).stdin(Stdio::null());
    Ok(child)
}

/// Runs a child to its end. What it says on standard error is passed on, and so is its exit code.
fn child(command: &mut Command, what: &str) -> Result<Vec<u8>, Failure> {
    let output = command
        .output()
        .map_err(|error| Failure::cannot(format!("{what}: cannot start a process: {error}")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().strip_prefix("lycosa: ").unwrap_or(said.trim());
    Err(match output.status.code() {
        Some(code) => {
            Failure::Said { code: u8::try_from(code).unwrap_or(CANNOT_OPEN), text: said.to_owned() }
        }
        // No code: a signal ended it, most likely for want of memory.
        None => Failure::cannot(format!("{what}: the run was ended ({}) {said}", output.status)),
    })
}

/// Before anything is known about a folder: loaded data is about three times as large as a compressed snapshot.
fn memory_guess_bytes(path: &Path) -> u64 {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let snapshots = match fs::read_dir(path) {
        Err(_) => vec![path.to_path_buf()],
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
    };
    let largest =
        snapshots.iter().filter(|path| path.extension().is_some_and(|extension| extension == "snap"));
    largest.map(|path| bytes(path)).max().unwrap_or(0).saturating_mul(3)
}

/// What must be the same however a folder is loaded.
fn content(report: &Value) -> Vec<(Value, Value)> {
    let mut content = vec![("snapshot".into(), report["snapshot"].clone())];
    for space in report["spaces"].as_array().into_iter().flatten() {
        let indexes: Vec<Value> = space["indexes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|index| json!([index["id"], index["entries"], index["absent"].is_null()]))
            .collect();
        content.push((
            space["name"].clone(),
            json!({
                "id": space["id"],
                "tuples": space["tuples"],
                "bytes": space["bytes"],
                "fingerprint": space["fingerprint"],
                "indexes": indexes,
            }),
        ));
    }
    content
}

/// A benchmark of loads that do not hold the same is worth nothing.
fn compare(first: &Cell<'_>, cell: &Cell<'_>, report: &Value) -> Result<(), Failure> {
    let (expected, found) = (content(first.first()), content(report));
    if expected == found {
        return Ok(());
    }
    let what = match expected.iter().zip(&found).find(|(expected, found)| expected != found) {
        Some(((name, expected), (_, found))) => format!("{name}: expected {expected}, found {found}"),
        None => format!("expected {} spaces, found {}", expected.len() - 1, found.len() - 1),
    };
    Err(Failure::damaged(format!(
        "two loads differ: run 1 ({}) and run {} ({}): {what}",
        first.name(),
        cell.reports.len() + 1,
        cell.name()
    )))
}

fn print_json(arguments: &BenchLoadArguments, machine: &Machine, cells: &[Cell<'_>]) -> Result<(), Failure> {
    let results: Vec<Value> = cells.iter().map(cell_json).collect();
    Ok(print::document(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "machine": machine.json(),
        "runs": arguments.runs,
        "cold": arguments.cold,
        "touch_memory": arguments.touch_memory,
        "results": results,
    }))?)
}

fn cell_json(cell: &Cell<'_>) -> Value {
    let first = cell.first();
    let timed = |rows: &Value, bytes: &Value, spread: &dyn Fn(&str) -> Spread| {
        let wall = spread("wall_seconds");
        json!({
            "rows": rows,
            "bytes": bytes,
            "wall_seconds": wall.json(),
            "user_seconds": spread("user_seconds").json(),
            "system_seconds": spread("system_seconds").json(),
            "minor_faults": spread("minor_faults").json(),
            "major_faults": spread("major_faults").json(),
            "rows_per_second": print::rate(number(rows) as u64, wall.min),
            "bytes_per_second": print::rate(number(bytes) as u64, wall.min),
        })
    };
    let stages: Vec<Value> = stages(first)
        .iter()
        .enumerate()
        .map(|(at, stage)| {
            let mut named = json!({"name": stage["name"]});
            let timed = timed(&stage["rows"], &stage["bytes"], &|key| cell.stage(at, key));
            if let (Some(named), Value::Object(timed)) = (named.as_object_mut(), timed) {
                named.extend(timed);
            }
            named
        })
        .collect();
    json!({
        "path": cell.path.display().to_string(),
        "snapshot": first["snapshot"],
        "snapshot_bytes": snapshot_bytes(first),
        "threads": cell.threads(),
        "arm": cell.arm.name(),
        "stages": stages,
        "total": timed(&first["total"]["rows"], &first["total"]["bytes"], &|key| cell.total(key)),
        "peak_memory_bytes": cell.spread(|report| number(&report["peak_memory_bytes"])).json(),
        "resident_memory_bytes": cell.spread(|report| number(&report["resident_memory_bytes"])).json(),
        "memory_bytes": first["memory_bytes"],
        "counters": {
            "ties": counter(cell, "ties").json(),
            "tuple_touches": counter(cell, "tuple_touches").json(),
        },
        "spaces": first["spaces"],
    })
}

fn stages(report: &Value) -> &[Value] {
    report["stages"].as_array().map_or(&[], Vec::as_slice)
}

fn counter(cell: &Cell<'_>, name: &str) -> Spread {
    cell.spread(|report| number(&report["counters"][name]))
}

fn snapshot_bytes(report: &Value) -> Option<u64> {
    Some(fs::metadata(report["snapshot"].as_str()?).ok()?.len())
}

fn print_tables(
    arguments: &BenchLoadArguments,
    machine: &Machine,
    cells: &[Cell<'_>],
) -> Result<(), Failure> {
    let mut out = Output::new()?;
    writeln!(out, "machine  {}", print::visible(&machine.text()))?;
    let words = [
        (arguments.cold, ", snapshot dropped from the page cache before each"),
        (arguments.touch_memory, ", as much memory touched and freed before each"),
    ];
    let words: String = words.iter().filter(|(holds, _)| *holds).map(|(_, words)| *words).collect();
    writeln!(out, "runs     {} each, interleaved, a process each{words}", arguments.runs)?;
    writeln!(out, "shown    least, median, greatest; rates by the least wall time")?;

    for cell in cells {
        let first = cell.first();
        let name = print::visible(&cell.name()).into_owned();
        let stored = snapshot_bytes(first)
            .map_or_else(String::new, |bytes| format!(" ({} stored)", print::bytes(bytes)));
        writeln!(out, "\n{name}{stored}")?;
        let mut table = Table::new(&[
            "stage",
            ">rows",
            ">wall s",
            ">user s",
            ">system s",
            ">faults",
            ">rows/s",
            ">bytes/s",
        ]);
        let mut row = |name: &str, rows: &Value, bytes: &Value, spread: &dyn Fn(&str) -> Spread| {
            let wall = spread("wall_seconds");
            let faults = (spread("minor_faults"), spread("major_faults"));
            table.row(vec![
                name.to_owned(),
                print::count(number(rows) as u64),
                wall.seconds(),
                spread("user_seconds").seconds(),
                spread("system_seconds").seconds(),
                print::count((faults.0.median + faults.1.median).round() as u64),
                print::rate(number(rows) as u64, wall.min).map_or_else(String::new, print::count),
                print::rate(number(bytes) as u64, wall.min).map_or_else(String::new, print::bytes),
            ]);
        };
        for (at, stage) in stages(first).iter().enumerate() {
            let name = stage["name"].as_str().unwrap_or_default();
            row(name, &stage["rows"], &stage["bytes"], &|key| cell.stage(at, key));
        }
        row("total", &first["total"]["rows"], &first["total"]["bytes"], &|key| cell.total(key));
        table.write(&mut out, "  ")?;
        let memory = |key: &str| {
            let spread = cell.spread(|report| number(&report[key]));
            [spread.min, spread.median, spread.max].map(|value| print::bytes(value as u64)).join(" ")
        };
        writeln!(
            out,
            "  peak memory {}; at rest {}",
            memory("peak_memory_bytes"),
            memory("resident_memory_bytes")
        )?;
        writeln!(
            out,
            "  hint ties {}; tuple touches {}",
            counter(cell, "ties").counts(),
            counter(cell, "tuple_touches").counts()
        )?;
    }

    writeln!(out, "\nall runs of a folder held the same tuples and entries; least of each:")?;
    let mut table =
        Table::new(&["folder", ">threads", "arm", ">wall s", ">user s", ">user ns/row", ">peak memory"]);
    for cell in cells {
        let (wall, user) = (cell.total("wall_seconds").min, cell.total("user_seconds").min);
        let rows = number(&cell.first()["total"]["rows"]);
        table.row(vec![
            cell.path.display().to_string(),
            cell.threads().to_string(),
            cell.arm.name().to_owned(),
            format!("{wall:.3}"),
            format!("{user:.3}"),
            if rows > 0.0 { format!("{:.1}", user * 1e9 / rows) } else { String::new() },
            print::bytes(cell.spread(|report| number(&report["peak_memory_bytes"])).min as u64),
        ]);
    }
    table.write(&mut out, "  ")?;
    Ok(out.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(fingerprint: &str) -> Value {
        json!({
            "snapshot": "a.snap",
            "spaces": [{"id": 512, "name": "s", "tuples": 2, "bytes": 9, "fingerprint": fingerprint,
                        "indexes": [{"id": 0, "entries": 2, "absent": null}]}],
        })
    }

    #[test]
    fn loads_that_do_not_hold_the_same_fail_the_bench() {
        let path = Path::new("dir");
        let first = Cell { path, threads: 1, arm: Arm::Usual, reports: vec![report("aa")] };
        let second = Cell { path, threads: 2, arm: Arm::Nested, reports: vec![] };
        assert!(compare(&first, &second, &report("aa")).is_ok());
        let failure = compare(&first, &second, &report("bb")).unwrap_err();
        assert_eq!(failure.code(), 1);
        let Failure::Said { text, .. } = failure else { panic!("the tool says it itself") };
        assert!(text.contains("run 1 (dir, threads 1, usual) and run 1 (dir, threads 2, nested)"), "{text}");
        assert!(text.contains("\"aa\"") && text.contains("\"bb\""), "{text}");
    }

    #[test]
    fn each_arm_differs_from_the_usual_one_in_one_thing() {
        let arguments = BenchLoadArguments {
            paths: vec!["a".into(), "b".into(), "a".into()],
            how: crate::args::HowArguments::default(),
            runs: 1,
            threads: vec![1, 2],
            no_hints: true,
            nested: true,
            cold: false,
            touch_memory: false,
        };
        assert_eq!(cells(&arguments).len(), 2 * 2 * 3);
    }
}
