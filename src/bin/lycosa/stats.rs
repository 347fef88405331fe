//! `lycosa stats DIR`: what the tuples of each space are like, field by field.

use std::io::Write;

use lycosa::{FieldStats, SpaceSelector, SpaceStats, Store, Value};
use serde_json::json;

use crate::args::StatsArguments;
use crate::failure::{self, Failure};
use crate::print::{self, Output};
use crate::progress::Bar;

/// Characters of a value that are printed on a terminal.
const VALUE_CHARS_MAX: usize = 40;

pub fn run(arguments: &StatsArguments, json: bool) -> Result<(), Failure> {
    let bar = Bar::bytes(!json);
    let mut options = arguments.open.options().fingerprint(false).system_spaces(arguments.system);
    for space in &arguments.space {
        options = options.space(SpaceSelector::from(space.as_str()));
    }
    let store = Store::open_with(&arguments.open.path, &bar.follow(options))?;
    bar.clear();
    let mut out = Output::new()?;
    let mut documents = Vec::new();
    let view = store.read_view();
    for space in
        view.spaces().filter(|space| arguments.system || !arguments.space.is_empty() || space.def().id >= 512)
    {
        let stats = view.stats(&space, arguments.top, usize::from(arguments.open.threads));
        if json {
            documents.push(as_json(&stats));
        } else {
            write(&mut out, &stats)?;
        }
    }
    if json {
        print::document(&json!({"version": env!("CARGO_PKG_VERSION"), "spaces": documents}))?;
    } else {
        store.report().notices.iter().for_each(|notice| failure::say(notice));
        out.finish()?;
    }
    // The process ends here: giving back millions of tuples piece by piece would only take time.
    std::mem::forget(store);
    Ok(())
}

fn text(value: &[u8]) -> String {
    let mut text = String::new();
    if let Ok(value) = Value::new(value) {
        value.write_json(&mut text);
    }
    text
}

/// A value as JSON; where that has forms of its own for what JSON lacks, those.
fn value(value: &[u8]) -> serde_json::Value {
    serde_json::from_str(&text(value)).unwrap_or(serde_json::Value::Null)
}

fn field_json(field: &FieldStats) -> serde_json::Value {
    let types: serde_json::Map<String, serde_json::Value> =
        field.types.iter().map(|&(name, count)| (name.to_owned(), count.into())).collect();
    json!({
        "fieldno": field.field + 1,
        "name": field.name,
        "values": field.values,
        "missing": field.missing,
        "types": types,
        "distinct": field.distinct,
        "is_distinct_exact": field.is_distinct_exact,
        "min": field.min.as_deref().map(value),
        "max": field.max.as_deref().map(value),
        "length_min": field.lengths.map(|lengths| lengths.0),
        "length_max": field.lengths.map(|lengths| lengths.1),
        "length_sum": field.lengths.map(|lengths| lengths.2),
        "top": field.top.iter().map(|(top, count)| json!({"value": value(top), "count": count})).collect::<Vec<_>>(),
        "top_error": field.top_error,
    })
}

fn as_json(stats: &SpaceStats) -> serde_json::Value {
    json!({
        "id": stats.id,
        "name": stats.name,
        "tuples": stats.tuples,
        "bytes": stats.bytes,
        "overhead_bytes": stats.overhead_bytes,
        "indexes": stats.index_bytes.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect::<Vec<_>>(),
        "sizes": stats.sizes.iter().map(|(bytes, tuples)| json!({"up_to": bytes, "tuples": tuples})).collect::<Vec<_>>(),
        "fields": stats.fields.iter().map(field_json).collect::<Vec<_>>(),
        "longer_tuples": stats.longer_tuples,
    })
}

fn short(bytes: &[u8]) -> String {
    let text = text(bytes);
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

fn write(out: &mut Output, stats: &SpaceStats) -> Result<(), Failure> {
    let indexes: Vec<String> = stats
        .index_bytes
        .iter()
        .map(|(name, bytes)| format!("{} {}", print::visible(name), print::bytes(*bytes)))
        .collect();
    writeln!(
        out,
        "{} ({}): {} tuples, {} of MsgPack, {} beside them, indexes: {}",
        print::visible(&stats.name),
        stats.id,
        print::count(stats.tuples),
        print::bytes(stats.bytes),
        print::bytes(stats.overhead_bytes),
        if indexes.is_empty() { "none".into() } else { indexes.join(", ") }
    )?;
    let sizes: Vec<String> = stats
        .sizes
        .iter()
        .map(|&(bytes, tuples)| format!("{} of up to {}", print::count(tuples), print::bytes(bytes)))
        .collect();
    if !sizes.is_empty() {
        writeln!(out, "  sizes: {}", sizes.join(", "))?;
    }
    for field in &stats.fields {
        write_field(out, field)?;
    }
    if stats.longer_tuples > 0 {
        writeln!(out, "  {} tuples have more fields", print::count(stats.longer_tuples))?;
    }
    Ok(())
}

fn write_field(out: &mut Output, field: &FieldStats) -> Result<(), Failure> {
    let name = field.name.as_deref().map_or_else(String::new, |name| format!(" {}", print::visible(name)));
    let types: Vec<String> =
        field.types.iter().map(|&(name, count)| format!("{name} {}", print::count(count))).collect();
    let about = if field.is_distinct_exact { "" } else { "about " };
    write!(
        out,
        "  {}{name}: {}; {about}{} distinct",
        field.field + 1,
        types.join(", "),
        print::count(field.distinct)
    )?;
    if field.missing > 0 {
        write!(out, "; missing in {}", print::count(field.missing))?;
    }
    if let (Some(min), Some(max)) = (&field.min, &field.max) {
        write!(out, "; {} to {}", print::visible(&short(min)), print::visible(&short(max)))?;
    }
    if let Some((min, max, sum)) = field.lengths {
        let of_types = ["string", "binary", "array", "map"];
        let values: u64 =
            field.types.iter().filter(|(name, _)| of_types.contains(name)).map(|(_, count)| count).sum();
        write!(out, "; length {min} to {max}, on average {:.1}", sum as f64 / values.max(1) as f64)?;
    }
    writeln!(out)?;
    // What is there once is not frequent.
    let top: Vec<String> = field
        .top
        .iter()
        .filter(|(_, count)| *count > 1)
        .map(|(value, count)| format!("{} x {}", print::count(*count), print::visible(&short(value))))
        .collect();
    if !top.is_empty() {
        let at_least = if field.top_error > 0 { "at least " } else { "" };
        writeln!(out, "      most frequent: {at_least}{}", top.join(", "))?;
    }
    Ok(())
}
