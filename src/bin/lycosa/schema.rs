//! `lycosa schema DIR`: spaces, formats and indexes, from the system rows alone.

use std::io::Write;

use lycosa::{FieldDef, IndexDef, PartDef, Schema, SpaceDef};
use serde_json::{Value, json};

use crate::args::SchemaArguments;
use crate::failure::{self, Failure};
use crate::load::USER_SPACE_ID_MIN;
use crate::print::{self, Output};

pub fn run(arguments: &SchemaArguments, json: bool) -> Result<(), Failure> {
    let schema = Schema::read(&arguments.open.path, &arguments.open.options())?;
    if json {
        let spaces: Vec<Value> = schema.spaces().iter().map(|space| space_json(&schema, space)).collect();
        let notices = schema.notices();
        let document = json!({"version": env!("CARGO_PKG_VERSION"), "spaces": spaces, "notices": notices});
        return Ok(print::document(&document)?);
    }
    schema.notices().iter().for_each(|notice| failure::say(notice));
    let mut out = Output::new()?;
    let mut hidden = 0;
    for space in schema.spaces() {
        if space.id < USER_SPACE_ID_MIN && !arguments.system {
            hidden += 1;
        } else {
            write_space(&mut out, &schema, space)?;
        }
    }
    if hidden > 0 {
        writeln!(out, "and {hidden} system spaces (--system lists them)")?;
    }
    Ok(out.finish()?)
}

fn space_json(schema: &Schema, space: &SpaceDef) -> Value {
    json!({
        "id": space.id,
        "name": space.name,
        "engine": space.engine,
        "field_count": space.field_count,
        "is_local": space.is_local,
        "is_temporary": space.is_temporary,
        "is_sync": space.is_sync,
        "is_view": space.is_view,
        "format": space.format.iter().map(|field| field_json(schema, field)).collect::<Vec<_>>(),
        "indexes": space.indexes.iter().map(|index| index_json(schema, index)).collect::<Vec<_>>(),
        "absent": space.absent,
    })
}

fn field_json(schema: &Schema, field: &FieldDef) -> Value {
    json!({
        "name": field.name,
        "type": field.field_type.name(),
        "is_nullable": field.is_nullable,
        "collation": collation(schema, field.collation),
        "scale": field.scale,
    })
}

fn index_json(schema: &Schema, index: &IndexDef) -> Value {
    json!({
        "id": index.id,
        "name": index.name,
        "type": index.kind.name(),
        "unique": index.unique,
        "parts": index.parts.iter().map(|part| part_json(schema, part)).collect::<Vec<_>>(),
        "absent": index.absent,
    })
}

fn part_json(schema: &Schema, part: &PartDef) -> Value {
    json!({
        "fieldno": u64::from(part.field) + 1,
        "type": part.field_type.name(),
        "path": part.path.as_ref().map(|path| path.text()),
        "is_nullable": part.is_nullable,
        "exclude_null": part.exclude_null,
        "sort_order": if part.descending { "desc" } else { "asc" },
        "collation": collation(schema, part.collation),
        "scale": part.scale,
    })
}

/// The collation's name; its id where `_collation` does not know it.
fn collation(schema: &Schema, id: Option<u32>) -> Value {
    match id {
        None => Value::Null,
        Some(id) => schema.collation_name(id).map_or_else(|| json!(id), |name| json!(name)),
    }
}

fn write_space(out: &mut Output, schema: &Schema, space: &SpaceDef) -> Result<(), Failure> {
    let mut line = format!("{} {}: {}", space.id, space.name, space.engine);
    if space.field_count > 0 {
        line += &format!(", exactly {} fields", space.field_count);
    }
    for (holds, word) in [
        (space.is_local, "local"),
        (space.is_temporary, "temporary"),
        (space.is_sync, "synchronous"),
        (space.is_view, "view"),
    ] {
        if holds {
            line += ", ";
            line += word;
        }
    }
    if let Some(reason) = &space.absent {
        line += &format!(" (data absent: {reason})");
    }
    writeln!(out, "{}", print::visible(&line))?;

    let fields: Vec<String> = space.format.iter().map(|field| field_text(schema, field)).collect();
    if !fields.is_empty() {
        writeln!(out, "  format  {}", print::visible(&fields.join(", ")))?;
    }
    for index in &space.indexes {
        let unique = if index.unique { "unique" } else { "not unique" };
        let parts: Vec<String> = index.parts.iter().map(|part| part_text(schema, part)).collect();
        let mut line =
            format!("{} {}: {} {unique} ({})", index.id, index.name, index.kind.name(), parts.join(", "));
        if let Some(reason) = &index.absent {
            line += &format!(" absent: {reason}");
        }
        writeln!(out, "  index   {}", print::visible(&line))?;
    }
    Ok(writeln!(out)?)
}

fn field_text(schema: &Schema, field: &FieldDef) -> String {
    let mut text = format!("{} {}", field.name, field.field_type.name());
    append(&mut text, schema, field.scale, field.collation, field.is_nullable);
    text
}

fn part_text(schema: &Schema, part: &PartDef) -> String {
    let mut text = (u64::from(part.field) + 1).to_string();
    if let Some(path) = &part.path {
        let path = path.text();
        if !path.starts_with(['.', '[']) {
            text.push('.');
        }
        text += path;
    }
    text.push(' ');
    text += part.field_type.name();
    append(&mut text, schema, part.scale, part.collation, part.is_nullable);
    if part.exclude_null {
        text += " exclude_null";
    }
    if part.descending {
        text += " desc";
    }
    text
}

fn append(text: &mut String, schema: &Schema, scale: Option<i32>, collation: Option<u32>, is_nullable: bool) {
    if let Some(scale) = scale {
        *text += &format!(" scale {scale}");
    }
    match collation.map(|id| (id, schema.collation_name(id))) {
        None => {}
        Some((_, Some(name))) => *text += &format!(" collation {name}"),
        Some((id, None)) => *text += &format!(" collation {id} (unknown)"),
    }
    if is_nullable {
        *text += " nullable";
    }
}
