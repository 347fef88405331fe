//! `lycosa info FILE...`: what is in files, read as containers; no schema is needed.
//!
//! A bad file is told on standard error and the others are still shown; the exit code is that of the worst.

use std::io::Write;
use std::path::Path;

use lycosa::{EndInfo, FileInfo};
use serde_json::{Value, json};

use crate::args::InfoArguments;
use crate::failure::{self, Failure};
use crate::print::{self, Output, Table};

pub fn run(arguments: &InfoArguments, json: bool) -> Result<(), Failure> {
    let mut out = Output::new()?;
    let mut failed = None;
    for (at, path) in arguments.files.iter().enumerate() {
        match FileInfo::read(path) {
            Ok(info) if json => {
                serde_json::to_writer(&mut out, &as_json(path, &info))?;
                out.write_all(b"\n")?;
            }
            Ok(info) => {
                if at > 0 {
                    writeln!(out)?;
                }
                write(&mut out, path, &info)?;
            }
            Err(error) => {
                out.flush()?; // so that on a terminal the message stands where the file would
                failure::say(&error.to_string());
                failed = failed.max(Some(Failure::from(error).code()));
            }
        }
    }
    out.finish()?;
    failed.map_or(Ok(()), |code| Err(Failure::Reported { code }))
}

fn as_json(path: &Path, info: &FileInfo) -> Value {
    let header = &info.header;
    let (end_marker, end_byte, torn_bytes) = end(info);
    json!({
        "path": path.display().to_string(),
        "filetype": header.filetype.name(),
        "format_version": header.version,
        "writer": header.writer,
        "instance": header.instance,
        "vclock": print::vclock(&header.vclock.to_string()),
        "prev_vclock": header.prev_vclock.as_ref().map(|vclock| print::vclock(&vclock.to_string())),
        "unknown_lines": header.unknown.iter().map(|(key, value)| json!({
            "key": key,
            "value": value,
        })).collect::<Vec<_>>(),
        "file_bytes": info.bytes,
        "header_bytes": header.bytes,
        "plain_blocks": info.plain_blocks,
        "compressed_blocks": info.compressed_blocks,
        "stored_bytes": info.stored_bytes,
        "row_bytes": info.row_bytes,
        "rows": info.rows,
        "types": info.kinds.iter().map(|kind| json!({
            "type": kind.kind,
            "name": kind.name,
            "rows": kind.rows,
            "bytes": kind.bytes,
        })).collect::<Vec<_>>(),
        "spaces": info.spaces.iter().map(|space| json!({
            "id": space.space_id,
            "rows": space.rows,
            "bytes": space.bytes,
        })).collect::<Vec<_>>(),
        "lsn_least": info.lsn_least,
        "lsn_greatest": info.lsn_greatest,
        "time_least": info.time_least,
        "time_greatest": info.time_greatest,
        "unknown_keys": info.unknown_keys.iter().map(|key| json!({
            "part": key.part,
            "key": key.key,
            "rows": key.rows,
        })).collect::<Vec<_>>(),
        "end_marker": end_marker,
        "end_byte": end_byte,
        "torn_bytes": torn_bytes,
    })
}

/// Whether the end marker is there; else where the last whole block ends, and the bytes of a torn one after it.
fn end(info: &FileInfo) -> (bool, Option<u64>, Option<u64>) {
    match info.end {
        EndInfo::Open { byte, torn_bytes } => (false, Some(byte), Some(torn_bytes)),
        _ => (true, None, None),
    }
}

fn write(out: &mut Output, path: &Path, info: &FileInfo) -> Result<(), Failure> {
    let header = &info.header;
    let mut facts = vec![
        ("file", format!("{} ({})", path.display(), print::bytes(info.bytes))),
        ("type", format!("{} {}", header.filetype.name(), header.version)),
    ];
    facts.extend(header.writer.iter().map(|writer| ("written by", format!("Tarantool {writer}"))));
    facts.extend(header.instance.iter().map(|instance| ("instance", instance.clone())));
    facts.push(("vclock", header.vclock.to_string()));
    facts.extend(header.prev_vclock.iter().map(|vclock| ("prev vclock", vclock.to_string())));
    facts.extend(header.unknown.iter().map(|(key, value)| ("not known", format!("line {key}: {value}"))));
    facts.push(("blocks", format!("{} compressed, {} plain", info.compressed_blocks, info.plain_blocks)));
    let (stored, rows) = (print::bytes(info.stored_bytes), print::bytes(info.row_bytes));
    facts.push(("bytes", format!("{stored} stored, {rows} of rows")));
    facts.push(("rows", print::count(info.rows)));
    if let (Some(least), Some(greatest)) = (info.lsn_least, info.lsn_greatest) {
        facts.push(("LSN", format!("{least} to {greatest}")));
    }
    if let (Some(least), Some(greatest)) = (info.time_least, info.time_greatest) {
        facts.push(("time", format!("{least:.3} to {greatest:.3} (seconds since 1970)")));
    }
    facts.extend(info.unknown_keys.iter().map(|unknown| {
        let rows = print::count(unknown.rows);
        ("not known", format!("key {} in {} of {rows} rows", unknown.key, unknown.part))
    }));
    facts.push(match end(info) {
        (true, ..) => ("end marker", "there".to_owned()),
        (false, byte, torn) => {
            let (byte, torn) = (byte.unwrap_or(0), torn.unwrap_or(0));
            ("end marker", format!("missing: open at byte {byte}, {torn} bytes of a torn block after it"))
        }
    });
    for (name, fact) in facts {
        writeln!(out, "{name:<12}{}", print::visible(&fact))?;
    }
    let mut types = Table::new(&["type", ">rows", ">bytes"]);
    for kind in &info.kinds {
        let name = kind.name.map_or_else(|| format!("{} (unknown)", kind.kind), str::to_owned);
        types.row(vec![name, print::count(kind.rows), print::bytes(kind.bytes)]);
    }
    let mut spaces = Table::new(&["space", ">rows", ">bytes"]);
    for space in &info.spaces {
        spaces.row(vec![space.space_id.to_string(), print::count(space.rows), print::bytes(space.bytes)]);
    }
    for (table, is_empty) in [(types, info.kinds.is_empty()), (spaces, info.spaces.is_empty())] {
        if !is_empty {
            writeln!(out)?;
            table.write(out, "  ")?;
        }
    }
    Ok(())
}
