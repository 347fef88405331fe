//! A row of a system space as a definition, in every shape that Tarantool's versions wrote.
//!
//! ```text
//! _space      [id, owner, name, engine, field_count, flags, format]   1.6: may end after field_count or flags;
//!                                                                     flags a string
//! _index      [space_id, id, name, type, options, parts]
//!   <= 1.6.5  [space_id, id, name, type, is_unique, part_count, field, type, field, type, ...]
//!   a part    [field, type, ...]   or   {field, type, collation, is_nullable, path, sort_order, ...}
//! _collation  [id, name, owner, type, locale, options]
//! _schema     ['version', major, minor, patch]        ['cluster' or 'replicaset_uuid', uuid]
//! _cluster    [replica id, uuid, name?]
//! ```
//!
//! What a newer version may have added (a flag of a space, an option of an index, a key of a part) is not an error:
//! it stays as it is in the row and becomes a notice. What cannot be is an error of kind `Schema`.

use std::collections::HashSet;

use super::catalog::Notices;
use super::definition::{IndexDef, IndexKind, SpaceDef};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::msgpack::{Fault, FaultKind, class, read, skip};
use crate::tuple::field_type::FieldType;
use crate::tuple::part::{FieldDef, NullableAction, PartDef};
use crate::tuple::path::Path;

pub(crate) const SCHEMA_ID: u32 = 272;
pub(crate) const COLLATION_ID: u32 = 276;
pub(crate) const SPACE_ID: u32 = 280;
pub(crate) const SEQUENCE_ID: u32 = 284;
pub(crate) const SEQUENCE_DATA_ID: u32 = 285;
pub(crate) const INDEX_ID: u32 = 288;
pub(crate) const CLUSTER_ID: u32 = 320;
pub(crate) const TRUNCATE_ID: u32 = 330;
pub(crate) const SPACE_SEQUENCE_ID: u32 = 340;

/// Whether rows of this space say how other rows are to be read.
pub(crate) fn defines(space_id: u32) -> bool {
    matches!(space_id, COLLATION_ID | SPACE_ID | INDEX_ID)
}

/// Whether definitions follow the rows of this space while logs are replayed.
pub(crate) fn is_followed(space_id: u32) -> bool {
    matches!(space_id, SCHEMA_ID | COLLATION_ID | SPACE_ID | INDEX_ID | CLUSTER_ID | TRUNCATE_ID)
}

/// Bytes of a name (`BOX_NAME_MAX`).
const NAME_BYTES_MAX: usize = 65_000;

/// A row of `_collation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collation {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// Compares bytes: type `BINARY`. All others are ICU's.
    pub(crate) is_binary: bool,
}

/// What is of use in a row of `_schema`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SchemaRow {
    Version(u32, u32, u32),
    Replicaset(String),
    Other,
}

/// The fields of one row, read one after another.
struct Fields<'a> {
    system_space: &'static str,
    bytes: &'a [u8],
    /// Offset of the next field.
    at: usize,
    /// Fields left.
    left: u32,
    /// Number of the next field, from 1.
    number: u32,
}

impl<'a> Fields<'a> {
    fn new(system_space: &'static str, bytes: &'a [u8]) -> Result<Self> {
        let whole = || -> Result<(u32, usize), Fault> {
            let (left, at) = read::array(bytes, 0)?;
            let end = skip::skip(bytes, 0)?;
            if end != bytes.len() {
                return Err(Fault::new(end, FaultKind::Trailing));
            }
            Ok((left, at))
        };
        let (left, at) = whole().map_err(|fault| faulty(fault, bytes).space(system_space))?;
        Ok(Self { system_space, bytes, at, left, number: 1 })
    }

    fn is_at_end(&self) -> bool {
        self.left == 0
    }

    fn place(&self, number: u32, name: &str) -> String {
        format!("{number} ({name}) of the row in {}", self.system_space)
    }

    fn class(&self) -> u16 {
        if self.is_at_end() { 0 } else { read::class_at(self.bytes, self.at) }
    }

    fn next<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a [u8], usize) -> Result<(T, usize), Fault>,
    ) -> Result<T> {
        let place = |error: Error| error.field(self.place(self.number, name));
        if self.left == 0 {
            return Err(place(schema("row").expected("a value").found("the end of the row")));
        }
        let (value, end) = read(self.bytes, self.at).map_err(|fault| place(faulty(fault, self.bytes)))?;
        self.at = end;
        self.left -= 1;
        self.number += 1;
        Ok(value)
    }

    fn uint(&mut self, name: &str, max: u32) -> Result<u32> {
        let number = self.number;
        let value = self.next(name, read::uint)?;
        u32::try_from(value).ok().filter(|&value| value <= max).ok_or_else(|| {
            schema("number")
                .expected(format_args!("at most {max}"))
                .found(value)
                .field(self.place(number, name))
        })
    }

    fn str(&mut self, name: &str) -> Result<&'a [u8]> {
        self.next(name, read::str)
    }

    /// A string that names something.
    fn name(&mut self, name: &str) -> Result<String> {
        let number = self.number;
        let value = self.str(name)?;
        text(value, "name").map_err(|error| error.field(self.place(number, name)))
    }

    /// A value as it is.
    fn raw(&mut self, name: &str) -> Result<&'a [u8]> {
        self.next(name, raw)
    }
}

fn raw(bytes: &[u8], at: usize) -> Result<(&[u8], usize), Fault> {
    let end = skip::skip(bytes, at)?;
    Ok((&bytes[at..end], end))
}

/// An impossible definition.
pub(super) fn schema(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Schema, what)
}

/// A value of another class than the row should have makes an impossible definition; anything else is bad MsgPack.
fn faulty(fault: Fault, bytes: &[u8]) -> Error {
    let (kind, what) = match fault.kind {
        FaultKind::Class(_) => (ErrorKind::Schema, "row"),
        _ => (ErrorKind::MsgPack, "MsgPack"),
    };
    Error::new(kind, what).expected(fault.expected()).found(fault.found(bytes))
}

/// A name as text: 1 to 65 000 bytes of UTF-8.
fn text(bytes: &[u8], what: &str) -> Result<String> {
    if bytes.is_empty() || bytes.len() > NAME_BYTES_MAX {
        return Err(schema(what)
            .expected(format_args!("1 to {NAME_BYTES_MAX} bytes"))
            .found(format_args!("{} bytes", bytes.len())));
    }
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| schema(what).expected("UTF-8").found(format_args!("{:?}", lossy(bytes))))
}

/// Foreign text for a message: short, and with nothing that a terminal would act on.
fn lossy(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let mut shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).into_owned();
    if bytes.len() > SHOWN {
        shown.push('…');
    }
    shown
}

/// The pairs of a map whose keys are strings; a pair with another key is handed over with an empty key.
fn pairs<'a>(map: &'a [u8], mut each: impl FnMut(&'a [u8], &'a [u8]) -> Result<()>) -> Result<()> {
    let (count, mut at) = read::map(map, 0).map_err(|fault| faulty(fault, map))?;
    for _ in 0..count {
        let (key, after) = raw(map, at).map_err(|fault| faulty(fault, map))?;
        let (value, end) = raw(map, after).map_err(|fault| faulty(fault, map))?;
        each(read::str(key, 0).map_or(&[][..], |(key, _)| key), value)?;
        at = end;
    }
    Ok(())
}

/// The value of the key `key`, by one of the typed reads.
fn value<'a, T>(
    key: &[u8],
    bytes: &'a [u8],
    read: impl FnOnce(&'a [u8], usize) -> Result<(T, usize), Fault>,
) -> Result<T> {
    read(bytes, 0).map(|(value, _)| value).map_err(|fault| {
        schema(format!("key {:?}", lossy(key))).expected(fault.expected()).found(fault.found(bytes))
    })
}

fn value_u32(key: &[u8], bytes: &[u8], max: u32) -> Result<u32> {
    let number = value(key, bytes, read::uint)?;
    u32::try_from(number).ok().filter(|&number| number <= max).ok_or_else(|| {
        schema(format!("key {:?}", lossy(key))).expected(format_args!("at most {max}")).found(number)
    })
}

/// A row of `_space`.
pub(crate) fn space(row: &[u8], notices: &mut Notices) -> Result<SpaceDef> {
    let mut fields = Fields::new("_space", row)?;
    let id = fields.uint("id", limits::SPACE_ID_MAX).map_err(|error| error.space("_space"))?;
    let owner = fields.uint("owner", u32::MAX).map_err(|error| error.space(id))?;
    let name = fields.name("name").map_err(|error| error.space(id))?;
    let engine = fields.name("engine").map_err(|error| error.space(&name))?;
    let field_count = fields.uint("field_count", u32::MAX).map_err(|error| error.space(&name))?;
    let mut space = SpaceDef {
        id,
        owner,
        name,
        engine,
        field_count,
        format: Vec::new(),
        indexes: Vec::new(),
        is_local: false,
        is_temporary: false,
        is_sync: false,
        is_view: false,
        flags_raw: vec![0x80],
        absent: None,
    };
    if !fields.is_at_end() {
        let flags = fields.raw("flags").map_err(|error| error.space(&space.name))?;
        space.flags_raw = flags.to_vec();
        let set = if read::is(flags, 0, class::STR) {
            old_flags(&mut space, flags)
        } else {
            space_flags(&mut space, flags, notices)
        };
        set.map_err(|error| error.space(&space.name).field("6 (flags) of the row in _space"))?;
    }
    if !fields.is_at_end() {
        let format = fields.raw("format").map_err(|error| error.space(&space.name))?;
        self::format(&mut space, format, notices).map_err(|error| error.space(&space.name))?;
    }
    let count = space.format.len();
    if space.field_count != 0 && count > space.field_count as usize {
        return Err(schema("field_count")
            .expected(format_args!("0 or at least the format's {count} fields"))
            .found(space.field_count)
            .space(&space.name));
    }
    Ok(space)
}

/// Flags before 1.7: nothing, or the names of flags with commas between.
fn old_flags(space: &mut SpaceDef, flags: &[u8]) -> Result<()> {
    let flags = value(b"flags", flags, read::str)?;
    space.is_temporary = flags.split(|&byte| byte == b',').any(|flag| flag.trim_ascii() == b"temporary");
    Ok(())
}

fn space_flags(space: &mut SpaceDef, flags: &[u8], notices: &mut Notices) -> Result<()> {
    pairs(flags, |key, bytes| {
        match key {
            b"group_id" => space.is_local = value_u32(key, bytes, 1)? == 1,
            b"temporary" => space.is_temporary |= value(key, bytes, read::boolean)?,
            b"type" => {
                let kind = value(key, bytes, read::str)?;
                match kind.to_ascii_lowercase().as_slice() {
                    b"normal" => {}
                    b"data-temporary" | b"temporary" => space.is_temporary = true,
                    _ => {
                        space.absent = Some(format!("unknown type of space {:?}", lossy(kind)));
                    }
                }
            }
            b"view" => space.is_view = value(key, bytes, read::boolean)?,
            b"is_sync" => space.is_sync = value(key, bytes, read::boolean)?,
            b"defer_deletes" | b"sql" | b"checks" | b"constraint" | b"foreign_key" | b"upgrade" => {}
            _ => notices.push(|| {
                let SpaceDef { id, name, .. } = &*space;
                format!("space {name} ({id}): unknown flag {:?} is kept and has no effect", lossy(key))
            }),
        }
        Ok(())
    })
}

fn format(space: &mut SpaceDef, format: &[u8], notices: &mut Notices) -> Result<()> {
    let (count, mut at) = read::array(format, 0)
        .map_err(|fault| faulty(fault, format).field("7 (format) of the row in _space"))?;
    let mut names = HashSet::new();
    for number in 1..=count {
        let place = |error: Error| error.field(format_args!("{number} of the format"));
        let (field, end) = raw(format, at).map_err(|fault| place(faulty(fault, format)))?;
        at = end;
        let field = if read::is(field, 0, class::ARRAY) { old_field(field) } else { self::field(field) };
        let (field, unknown_type) = field.map_err(place)?;
        if let Some(unknown) = unknown_type {
            notices.push(|| {
                let SpaceDef { id, name: space, .. } = &*space;
                let field = &field.name;
                format!("space {space} ({id}), field {number} ({field}): type {unknown:?} is unknown, nothing is checked")
            });
        }
        if !names.insert(field.name.clone()) {
            return Err(place(
                schema("field name")
                    .expected("a name used once")
                    .found(format_args!("{:?} twice", field.name)),
            ));
        }
        space.format.push(field);
    }
    Ok(())
}

/// A field of the format before 1.7: `[name, type]`.
fn old_field(field: &[u8]) -> Result<(FieldDef, Option<String>)> {
    let (count, at) = read::array(field, 0).map_err(|fault| faulty(fault, field))?;
    if count == 0 {
        return Err(schema("field").expected("a name").found("an empty array"));
    }
    let (name, at) = read::str(field, at).map_err(|fault| faulty(fault, field))?;
    let mut def = FieldDef::new(&text(name, "field name")?, FieldType::Any);
    let mut unknown = None;
    if count > 1 {
        let (name, _) = read::str(field, at).map_err(|fault| faulty(fault, field))?;
        match field_type(name) {
            Some(known) => def.field_type = known,
            None => unknown = Some(lossy(name)),
        }
    }
    Ok((def, unknown))
}

/// A field of the format: a map. Unknown keys are skipped, as Tarantool does. The second value is a type that no known
/// version has.
fn field(field: &[u8]) -> Result<(FieldDef, Option<String>)> {
    let mut name = None;
    let mut def = FieldDef::new("", FieldType::Any);
    let mut unknown = None;
    let mut nullable = Nullable::default();
    pairs(field, |key, bytes| {
        match key {
            b"name" => name = Some(text(value(key, bytes, read::str)?, "field name")?),
            b"type" => {
                let type_name = value(key, bytes, read::str)?;
                unknown = None;
                match field_type(type_name) {
                    Some(known) => def.field_type = known,
                    None => unknown = Some(lossy(type_name)),
                }
            }
            b"is_nullable" | b"nullable_action" => nullable.set(key, bytes)?,
            b"collation" => def.collation = collation_id(key, bytes)?,
            b"default" | b"default_func" => def.has_default = true,
            b"scale" => def.scale = Some(scale(key, bytes)?),
            _ => {}
        }
        Ok(())
    })?;
    def.name = name.ok_or_else(|| schema("field").expected("a name").found("none"))?;
    (def.is_nullable, def.nullable_action) = nullable.finish()?;
    check_scale(def.field_type, def.scale)?;
    Ok((def, unknown))
}

/// `is_nullable` and `nullable_action`: the same said twice, so that the two can contradict each other.
#[derive(Default)]
struct Nullable {
    said: Option<bool>,
    action: Option<NullableAction>,
}

impl Nullable {
    fn set(&mut self, key: &[u8], bytes: &[u8]) -> Result<()> {
        if key == b"is_nullable" {
            self.said = Some(value(key, bytes, read::boolean)?);
            return Ok(());
        }
        let action = value(key, bytes, read::str)?;
        self.action =
            Some(std::str::from_utf8(action).ok().and_then(NullableAction::parse).ok_or_else(|| {
                schema("nullable_action")
                    .expected("none, rollback, abort, fail, ignore, replace or default")
                    .found(format_args!("{:?}", lossy(action)))
            })?);
        Ok(())
    }

    fn finish(&self) -> Result<(bool, NullableAction)> {
        use NullableAction::{Default, None as Nothing};
        match (self.said, self.action) {
            (Some(said), Some(action)) if said != (action == Nothing) => Err(schema("nullable_action")
                .expected(if said {
                    "none, as is_nullable is true"
                } else {
                    "not none, as is_nullable is false"
                })
                .found(action.name())),
            (_, Some(action)) => Ok((action == Nothing, action)),
            (Some(true), None) => Ok((true, Nothing)),
            (Some(false) | None, None) => Ok((false, Default)),
        }
    }
}

fn field_type(name: &[u8]) -> Option<FieldType> {
    std::str::from_utf8(name).ok().and_then(FieldType::parse)
}

/// Collation 0 is `none`: the same as no collation, and reported as such.
fn collation_id(key: &[u8], bytes: &[u8]) -> Result<Option<u32>> {
    Ok(Some(value_u32(key, bytes, u32::MAX)?).filter(|&id| id != 0))
}

fn scale(key: &[u8], bytes: &[u8]) -> Result<i32> {
    let number = value(key, bytes, read::int)?;
    i32::try_from(number).map_err(|_| schema("scale").expected("a number of 32 bits").found(number))
}

fn check_scale(field_type: FieldType, scale: Option<i32>) -> Result<()> {
    let fixed = matches!(
        field_type,
        FieldType::Decimal32 | FieldType::Decimal64 | FieldType::Decimal128 | FieldType::Decimal256
    );
    match (fixed, scale) {
        (true, None) => {
            Err(schema("scale").expected(format_args!("one for {}", field_type.name())).found("none"))
        }
        (false, Some(scale)) => {
            Err(schema("scale").expected(format_args!("none for {}", field_type.name())).found(scale))
        }
        _ => Ok(()),
    }
}

/// A row of `_index`: the id of its space, and the index. Whether it fits its space is for the catalog to say.
pub(crate) fn index(row: &[u8], notices: &mut Notices) -> Result<(u32, IndexDef)> {
    let mut fields = Fields::new("_index", row)?;
    let space_id = fields.uint("space_id", limits::SPACE_ID_MAX).map_err(|error| error.space("_index"))?;
    let id = fields.uint("index_id", limits::INDEXES_MAX - 1).map_err(|error| error.space(space_id))?;
    let name = fields.name("name").map_err(|error| error.space(space_id))?;
    let label = format!("index {name} ({id})");
    let mut index = IndexDef {
        id,
        name,
        kind: IndexKind::Unknown,
        unique: true,
        parts: Vec::new(),
        options_raw: Vec::new(),
        absent: None,
    };
    let mut note = |text: String| notices.push(|| format!("space {space_id}, {label}: {text}"));
    index_fields(&mut index, &mut fields, &mut note)
        .map_err(|error| error.space(space_id).field(format_args!("of {label}")))?;
    Ok((space_id, index))
}

fn index_fields(index: &mut IndexDef, fields: &mut Fields<'_>, note: &mut dyn FnMut(String)) -> Result<()> {
    let kind = fields.str("type")?;
    index.kind = IndexKind::from_name(kind);
    if index.kind == IndexKind::Unknown {
        index.absent = Some(format!("unknown kind of index {:?}", lossy(kind)));
    }
    if fields.class() & class::INTEGERS != 0 {
        return old_index(index, fields, note);
    }
    let options = fields.raw("opts")?;
    index.options_raw = options.to_vec();
    index_options(index, options, note)?;
    let parts = fields.raw("parts")?;
    let (count, mut at) = read::array(parts, 0).map_err(|fault| faulty(fault, parts))?;
    check_part_count(count)?;
    let in_arrays = read::is(parts, at, class::ARRAY);
    for number in 1..=count {
        let (bytes, end) = raw(parts, at).map_err(|fault| faulty(fault, parts))?;
        at = end;
        let mut unusual = None;
        let part = if in_arrays {
            array_part(bytes, &mut unusual)
        } else {
            map_part(bytes, &mut unusual, note, number)
        };
        let part =
            part.map_err(|error| error.field(format_args!("part {number} of index {}", index.name)))?;
        if let (None, Some(reason)) = (&index.absent, unusual) {
            index.absent = Some(format!("part {number}: {reason}"));
        }
        index.parts.push(part);
    }
    if !fields.is_at_end() {
        note(format!("{} unknown fields at the end of its row are kept and have no effect", fields.left));
    }
    Ok(())
}

fn check_part_count(count: u32) -> Result<()> {
    if count == 0 || count as usize > limits::INDEX_PARTS_MAX {
        return Err(schema("parts").expected(format_args!("1 to {}", limits::INDEX_PARTS_MAX)).found(count));
    }
    Ok(())
}

/// What follows the type in files of 1.6.5 and before: `is_unique, part_count, field, type, field, type, …`.
fn old_index(index: &mut IndexDef, fields: &mut Fields<'_>, note: &mut dyn FnMut(String)) -> Result<()> {
    let is_unique = fields.raw("is_unique")?;
    index.options_raw = is_unique.to_vec();
    index.unique = value(b"is_unique", is_unique, read::uint)? != 0;
    let count = fields.uint("part_count", u32::MAX)?;
    check_part_count(count)?;
    for number in 1..=count {
        let field = fields.uint("field of a part", limits::INDEX_FIELD_MAX)?;
        let type_name = fields.str("type of a part")?;
        let known = field_type(type_name);
        if let (None, None) = (&index.absent, known) {
            index.absent = Some(format!("part {number}: unknown type {:?}", lossy(type_name)));
        }
        index.parts.push(PartDef::new(field, known.unwrap_or(FieldType::Any)));
    }
    if !fields.is_at_end() {
        note(format!("{} unknown fields at the end of its row are kept and have no effect", fields.left));
    }
    Ok(())
}

fn index_options(index: &mut IndexDef, options: &[u8], note: &mut dyn FnMut(String)) -> Result<()> {
    pairs(options, |key, bytes| {
        match key {
            b"unique" => index.unique = value(key, bytes, read::boolean)?,
            b"func" => {
                if value_u32(key, bytes, u32::MAX)? != 0 {
                    index.absent = Some("functional index: its Lua function cannot be run".into());
                }
            }
            b"dimension"
            | b"distance"
            | b"hint"
            | b"range_size"
            | b"page_size"
            | b"run_count_per_level"
            | b"run_size_ratio"
            | b"bloom_fpr"
            | b"lsn"
            | b"covers"
            | b"layout"
            | b"aggregates"
            | b"sql" => {}
            _ => note(format!("unknown option {:?} is kept and has no effect", lossy(key))),
        }
        Ok(())
    })
}

/// `[field, type, …]`: whatever follows is ignored, as Tarantool does. Never nullable: the format's nullability is not
/// inherited in effect, a nil is refused.
fn array_part(bytes: &[u8], unusual: &mut Option<String>) -> Result<PartDef> {
    let fault = |fault| faulty(fault, bytes);
    let (count, at) = read::array(bytes, 0).map_err(fault)?;
    if count < 2 {
        return Err(schema("part")
            .expected("a field number and a type")
            .found(format_args!("{count} values")));
    }
    let (field, at) = read::uint(bytes, at).map_err(fault)?;
    let (type_name, _) = read::str(bytes, at).map_err(fault)?;
    let part = PartDef::new(part_field(field)?, part_type(type_name, unusual));
    check_scale(part.field_type, part.scale)?;
    Ok(part)
}

fn part_field(field: u64) -> Result<u32> {
    u32::try_from(field).ok().filter(|&field| field <= limits::INDEX_FIELD_MAX).ok_or_else(|| {
        schema("field number").expected(format_args!("at most {}", limits::INDEX_FIELD_MAX)).found(field)
    })
}

/// A type that no known version has leaves the index out: its order is not known.
fn part_type(name: &[u8], unusual: &mut Option<String>) -> FieldType {
    field_type(name).unwrap_or_else(|| {
        unusual.get_or_insert_with(|| format!("unknown type {:?}", lossy(name)));
        FieldType::Any
    })
}

fn map_part(
    bytes: &[u8],
    unusual: &mut Option<String>,
    note: &mut dyn FnMut(String),
    number: u32,
) -> Result<PartDef> {
    let mut field = None;
    let mut part = PartDef::new(0, FieldType::Any);
    let mut has_type = false;
    let mut nullable = Nullable::default();
    pairs(bytes, |key, bytes| {
        match key {
            b"field" => field = Some(part_field(value(key, bytes, read::uint)?)?),
            b"type" => {
                part.field_type = part_type(value(key, bytes, read::str)?, unusual);
                has_type = true;
            }
            b"collation" => part.collation = collation_id(key, bytes)?,
            b"is_nullable" | b"nullable_action" => nullable.set(key, bytes)?,
            b"exclude_null" => part.exclude_null = value(key, bytes, read::boolean)?,
            b"sort_order" => {
                let order = value(key, bytes, read::str)?;
                match order.to_ascii_lowercase().as_slice() {
                    b"asc" | b"undef" => part.descending = false,
                    b"desc" => part.descending = true,
                    _ => {
                        unusual.get_or_insert_with(|| format!("unknown sort order {:?}", lossy(order)));
                    }
                }
            }
            b"path" => part.path = path(value(key, bytes, read::str)?)?,
            b"scale" => part.scale = Some(scale(key, bytes)?),
            _ => note(format!("part {number}: unknown key {:?} is kept and has no effect", lossy(key))),
        }
        Ok(())
    })?;
    part.field = field.ok_or_else(|| schema("part").expected("a field number").found("none"))?;
    if !has_type {
        return Err(schema("part").expected("a type").found("none"));
    }
    (part.is_nullable, part.nullable_action) = nullable.finish()?;
    if part.exclude_null && !part.is_nullable {
        return Err(schema("exclude_null").expected("a nullable part").found("one that is not"));
    }
    if unusual.is_none() {
        check_scale(part.field_type, part.scale)?;
    }
    Ok(part)
}

fn path(text: &[u8]) -> Result<Option<Path>> {
    Path::parse(text).map_err(|fault| {
        schema("path").expected("a JSON path").found(format_args!(
            "{:?}, wrong at symbol {}",
            lossy(text),
            fault.symbol
        ))
    })
}

/// A row of `_collation`.
pub(crate) fn collation(row: &[u8]) -> Result<Collation> {
    let read = || {
        let mut fields = Fields::new("_collation", row)?;
        let id = fields.uint("id", u32::MAX)?;
        let name = fields.name("name")?;
        fields.raw("owner")?;
        let kind = fields.str("type")?;
        Ok(Collation { id, name, is_binary: kind.eq_ignore_ascii_case(b"BINARY") })
    };
    read().map_err(|error: Error| error.space("_collation"))
}

/// A row of `_schema`.
pub(crate) fn schema_row(row: &[u8]) -> Result<SchemaRow> {
    let read = || {
        let mut fields = Fields::new("_schema", row)?;
        match fields.str("key")? {
            b"version" => {
                let major = fields.uint("value", u32::MAX)?;
                let minor = fields.uint("value", u32::MAX)?;
                let patch = if fields.is_at_end() { 0 } else { fields.uint("value", u32::MAX)? };
                Ok(SchemaRow::Version(major, minor, patch))
            }
            b"cluster" | b"replicaset_uuid" => Ok(SchemaRow::Replicaset(fields.name("value")?)),
            _ => Ok(SchemaRow::Other),
        }
    };
    read().map_err(|error: Error| error.space("_schema"))
}

/// A row of `_cluster`: replica id and UUID.
pub(crate) fn replica(row: &[u8]) -> Result<(u32, String)> {
    let read = || {
        let mut fields = Fields::new("_cluster", row)?;
        Ok((fields.uint("id", u32::MAX)?, fields.name("uuid")?))
    };
    read().map_err(|error: Error| error.space("_cluster"))
}

/// The space that a row of `_space`, `_index` or `_truncate` is about.
pub(crate) fn subject(row: &[u8]) -> Result<u32> {
    Fields::new("a system space", row)?.uint("id", u32::MAX)
}

/// Whether a row of `_index` is about a primary index.
pub(crate) fn is_of_primary(row: &[u8]) -> Result<bool> {
    let mut fields = Fields::new("_index", row)?;
    fields.uint("space_id", u32::MAX)?;
    Ok(fields.uint("id", u32::MAX)? == 0)
}

/// The system spaces that exist before any row is read: name, kind and parts of the primary key. Their own rows in
/// `_space` and `_index`, where a file has them, say more.
pub(crate) fn stub(id: u32) -> Option<SpaceDef> {
    use FieldType::{String, Unsigned};
    const U0: &[(u32, FieldType)] = &[(0, Unsigned)];
    const S0: &[(u32, FieldType)] = &[(0, String)];
    const U01: &[(u32, FieldType)] = &[(0, Unsigned), (1, Unsigned)];
    let (name, parts) = match id {
        SCHEMA_ID => ("_schema", S0),
        COLLATION_ID => ("_collation", U0),
        SPACE_ID => ("_space", U0),
        284 => ("_sequence", U0),
        285 => ("_sequence_data", U0),
        INDEX_ID => ("_index", U01),
        296 => ("_func", U0),
        304 => ("_user", U0),
        312 => ("_priv", &[(1, Unsigned), (2, String), (3, FieldType::Scalar)][..]),
        CLUSTER_ID => ("_cluster", U0),
        328 => ("_trigger", S0),
        TRUNCATE_ID => ("_truncate", U0),
        340 => ("_space_sequence", U0),
        356 => ("_fk_constraint", &[(0, String), (1, Unsigned)][..]),
        364 => ("_ck_constraint", &[(0, Unsigned), (1, String)][..]),
        372 => ("_func_index", U01),
        388 => ("_gc_consumers", S0),
        396 => ("_recovery_point", &[(0, Unsigned), (1, Unsigned), (2, Unsigned)][..]),
        _ => return None,
    };
    let primary = IndexDef {
        id: 0,
        name: "primary".into(),
        kind: if id == 285 { IndexKind::Hash } else { IndexKind::Tree },
        unique: true,
        parts: parts.iter().map(|&(field, field_type)| PartDef::new(field, field_type)).collect(),
        options_raw: b"\x81\xa6unique\xc3".to_vec(),
        absent: None,
    };
    Some(SpaceDef {
        id,
        owner: 1,
        name: name.into(),
        engine: "memtx".into(),
        field_count: 0,
        format: Vec::new(),
        indexes: vec![primary],
        is_local: id == 388,
        is_temporary: false,
        is_sync: false,
        is_view: false,
        flags_raw: vec![0x80],
        absent: None,
    })
}
