//! `lycosa verify PATH...`: everything that is wrong with files and folders, and a verdict on each.

use std::io::Write;
use std::path::Path;

use lycosa::{FileType, Finding, Options, SalvageOptions, Severity, Store, Verdict};
use serde_json::{Value, json};

use crate::args::VerifyArguments;
use crate::failure::{DAMAGED, Failure};
use crate::print::{self, Output};

pub fn run(arguments: &VerifyArguments, json: bool) -> Result<(), Failure> {
    let mut out = Output::new()?;
    let mut documents = Vec::new();
    let mut is_faulty = false;
    for path in &arguments.paths {
        let (verdict, opens) = judge(path, arguments);
        is_faulty |= verdict.faults() > 0;
        if json {
            documents.push(as_json(path, &verdict, opens));
        } else {
            write(&mut out, path, &verdict, opens)?;
        }
    }
    if json {
        print::document(&json!({"version": env!("CARGO_PKG_VERSION"), "paths": documents}))?;
    } else {
        out.finish()?;
    }
    if is_faulty { Err(Failure::Reported { code: DAMAGED }) } else { Ok(()) }
}

/// The verdict on a path, and whether it opens, if that was tried.
fn judge(path: &Path, arguments: &VerifyArguments) -> (Verdict, Option<bool>) {
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => usize::from(threads),
    };
    let mut verdict = Verdict::read_with(path, threads);
    let is_store = path.is_dir() || verdict.files.iter().any(|file| file.filetype == Some(FileType::Snap));
    if !arguments.deep || !is_store {
        return (verdict, None);
    }
    let opened = Store::open_with(path, &Options::new().threads(threads));
    match &opened {
        Ok(store) => verdict.add_opening(Ok(&store.report().notices)),
        Err(error) => {
            // It is the first of maybe many.
            if let Err(other) = verdict.examine(path, &SalvageOptions::new().threads(threads)) {
                verdict.add_opening(Err(&other));
            }
            verdict.add_opening(Err(error));
        }
    }
    let opens = opened.is_ok();
    // Giving back millions of tuples piece by piece would only take time, but there may be another path.
    drop(opened);
    (verdict, Some(opens))
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Notice => "notice",
        Severity::Fault => "fault",
    }
}

fn as_json(path: &Path, verdict: &Verdict, opens: Option<bool>) -> Value {
    let finding = |finding: &Finding| {
        let place = &finding.place;
        json!({
            "severity": word(finding.severity),
            "text": finding.text,
            "file": place.file.as_ref().map(|file| file.display().to_string()),
            "block": place.block,
            "byte": place.byte,
            "row": place.row,
            "space": place.space,
            "cost": finding.cost,
        })
    };
    json!({
        "path": path.display().to_string(),
        "files": verdict.files.iter().map(|file| json!({
            "path": file.path.display().to_string(),
            "filetype": file.filetype.map(FileType::name),
            "bytes": file.bytes,
            "blocks": file.blocks,
            "rows": file.rows,
        })).collect::<Vec<_>>(),
        "findings": verdict.findings.iter().map(finding).collect::<Vec<_>>(),
        "more_notices": verdict.more_notices,
        "more_faults": verdict.more_faults,
        "faults": verdict.faults(),
        "opens": opens,
    })
}

fn write(out: &mut Output, path: &Path, verdict: &Verdict, opens: Option<bool>) -> Result<(), Failure> {
    for finding in &verdict.findings {
        writeln!(out, "{:<7} {}", word(finding.severity), print::visible(&finding.to_string()))?;
    }
    for (more, word) in [(verdict.more_faults, "faults"), (verdict.more_notices, "notices")] {
        if more > 0 {
            writeln!(out, "and {} more {word}", print::count(more))?;
        }
    }
    let sum = |count: fn(&lycosa::FileVerdict) -> u64| print::count(verdict.files.iter().map(count).sum());
    let read = format!(
        "{} files, {} bytes, {} whole blocks, {} rows",
        verdict.files.len(),
        sum(|file| file.bytes),
        sum(|file| file.blocks),
        sum(|file| file.rows)
    );
    let judged = match verdict.faults() {
        0 => "no fault".to_owned(),
        1 => "1 fault".to_owned(),
        faults => format!("{} faults", print::count(faults)),
    };
    let opens = match opens {
        None => "",
        Some(true) => "; opens",
        Some(false) => "; does not open",
    };
    writeln!(out, "{}: {judged}{opens} ({read})", print::visible(&path.display().to_string()))?;
    Ok(())
}
