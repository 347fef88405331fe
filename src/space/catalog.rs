//! All definitions of a file together: the [`Schema`].
//!
//! Rows of system spaces are given one by one, in any order; when all are in, indexes join their spaces, definitions
//! that contradict each other or themselves are errors, and everything that will not be in memory is told why:
//!
//! ```text
//! a space   absent   its engine is not memtx; a view; temporary; it has no primary index
//! an index  absent   its space is; RTREE, BITSET; functional; a part's collation is ICU's; a part's type, its sort
//!                    order or the index's kind is unknown; equal keys follow the primary key, and that holds a part
//!                    which cannot be compared
//! ```
//!
//! The last line is about indexes whose equal keys stand side by side (not unique, or nullable): their order is that
//! of the primary key, so they need it to be comparable. A unique index without nullable parts does not, and is kept
//! even where the primary one is absent.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::definition::{IndexDef, IndexKind, SpaceDef};
use super::system::{self, Collation, SchemaRow};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::tuple::field_type::FieldType;
use crate::tuple::part::PartDef;
use crate::tuple::path::Path;

/// Notices that are kept as text; further ones are counted. A hostile row can make one of every two bytes.
const NOTICES_MAX: usize = 256;

/// The spaces and indexes that a snapshot defines.
///
/// ```no_run
/// let schema = lycosa::Schema::read("snapshots/2.6/02-one-space", &lycosa::Options::new())?;
/// for space in schema.spaces() {
///     println!("{} {}", space.id, space.name);
/// }
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Schema {
    spaces: Vec<SpaceDef>,
    names: HashMap<String, usize>,
    collations: BTreeMap<u32, Collation>,
    version: Option<(u32, u32, u32)>,
    replicaset: Option<String>,
    replicas: BTreeMap<u32, String>,
    notices: Vec<String>,
}

impl Schema {
    /// All spaces in the order of their ids, the system spaces among them.
    pub fn spaces(&self) -> &[SpaceDef] {
        &self.spaces
    }

    /// The space of this id.
    pub fn space_by_id(&self, id: u32) -> Option<&SpaceDef> {
        self.spaces.binary_search_by_key(&id, |space| space.id).ok().map(|at| &self.spaces[at])
    }

    /// The space of this name.
    pub fn space_by_name(&self, name: &str) -> Option<&SpaceDef> {
        self.names.get(name).map(|&at| &self.spaces[at])
    }

    /// The name of a collation, by the number that parts and fields hold.
    pub fn collation_name(&self, id: u32) -> Option<&str> {
        match (self.collations.get(&id), id) {
            (Some(collation), _) => Some(&collation.name),
            (None, 0) => Some("none"),
            (None, 3) => Some("binary"),
            (None, _) => None,
        }
    }

    /// The version of the schema, as Tarantool's upgrades count it: 2.6.0 writes 2.3.1. `None` where the file does
    /// not say.
    pub fn version(&self) -> Option<(u32, u32, u32)> {
        self.version
    }

    /// The UUID of the replica set.
    pub fn replicaset_uuid(&self) -> Option<&str> {
        self.replicaset.as_deref()
    }

    /// The members of the replica set: number and UUID.
    pub fn replicas(&self) -> impl Iterator<Item = (u32, &str)> {
        self.replicas.iter().map(|(&id, uuid)| (id, uuid.as_str()))
    }

    /// What is unusual but stops nothing: flags, options and types that this version does not know.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

/// Texts about unusual things, as many as are worth keeping.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    texts: Vec<String>,
    more: u64,
}

impl Notices {
    pub(crate) fn push(&mut self, text: impl FnOnce() -> String) {
        if self.texts.len() < NOTICES_MAX {
            self.texts.push(text());
        } else {
            self.more += 1;
        }
    }

    fn finish(mut self) -> Vec<String> {
        if self.more != 0 {
            self.texts.push(format!("and {} more such notices", self.more));
        }
        self.texts
    }
}

/// Takes rows of system spaces and makes a [`Schema`] of them.
#[derive(Debug, Default)]
pub(crate) struct SchemaBuilder {
    spaces: BTreeMap<u32, SpaceDef>,
    indexes: BTreeMap<(u32, u32), IndexDef>,
    collations: BTreeMap<u32, Collation>,
    version: Option<(u32, u32, u32)>,
    replicaset: Option<String>,
    replicas: BTreeMap<u32, String>,
    /// System spaces that have rows: those without a definition in the file get a built-in one.
    used: BTreeSet<u32>,
    notices: Notices,
}

impl SchemaBuilder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Takes the row `tuple` of the space `space_id`; rows of other than the defining spaces change nothing.
    pub(crate) fn row(&mut self, space_id: u32, tuple: &[u8]) -> Result<()> {
        if space_id < limits::SYSTEM_SPACE_ID_END {
            self.used.insert(space_id);
        }
        match space_id {
            system::SPACE_ID => {
                let space = system::space(tuple, &mut self.notices)?;
                let (id, name) = (space.id, space.name.clone());
                if let Some(other) = self.spaces.insert(id, space) {
                    return Err(twice("_space", "primary", id, &other.name, &name));
                }
            }
            system::INDEX_ID => {
                let (space_id, index) = system::index(tuple, &mut self.notices)?;
                let (key, name) = ((space_id, index.id), index.name.clone());
                if let Some(other) = self.indexes.insert(key, index) {
                    let key = format!("{space_id}, {}", key.1);
                    return Err(twice("_index", "primary", key, &other.name, &name));
                }
            }
            system::COLLATION_ID => {
                let collation = system::collation(tuple)?;
                let (id, name) = (collation.id, collation.name.clone());
                if let Some(other) = self.collations.insert(id, collation) {
                    return Err(twice("_collation", "primary", id, &other.name, &name));
                }
            }
            system::SCHEMA_ID => match system::schema_row(tuple)? {
                SchemaRow::Version(major, minor, patch) => self.version = Some((major, minor, patch)),
                SchemaRow::Replicaset(uuid) => self.replicaset = Some(uuid),
                SchemaRow::Other => {}
            },
            system::CLUSTER_ID => {
                let (id, uuid) = system::replica(tuple)?;
                let now = uuid.clone();
                if let Some(other) = self.replicas.insert(id, uuid) {
                    return Err(twice("_cluster", "primary", id, &other, &now));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Joins, checks, and says what is absent.
    ///
    /// # Errors
    ///
    /// `NoSystemRows` where no row of a system space was given; `Schema` where definitions are impossible.
    pub(crate) fn finish(mut self) -> Result<Schema> {
        if self.used.is_empty() {
            return Err(Error::new(ErrorKind::NoSystemRows, "snapshot")
                .expected("rows of the system spaces, which define all others")
                .found("none"));
        }
        self.add_stubs()?;
        for ((space_id, id), index) in std::mem::take(&mut self.indexes) {
            let Some(space) = self.spaces.get_mut(&space_id) else {
                return Err(schema(format!("index {} ({id})", index.name))
                    .expected("a row in _space for its space")
                    .found("none")
                    .space(space_id));
            };
            // A built-in primary index gives way to the file's own.
            space.indexes.retain(|other| other.id != id);
            space.indexes.push(index);
        }
        for space in self.spaces.values_mut() {
            space.indexes.sort_by_key(|index| index.id);
            check_names(space)?;
            space.absent = space.absent.take().or_else(|| why_absent(space));
            if space.engine == "memtx" && !space.view {
                for index in &space.indexes {
                    check_index(index).map_err(|error| error.space(&space.name))?;
                }
            }
            decide_indexes(space, &self.collations);
        }
        let spaces: Vec<SpaceDef> = self.spaces.into_values().collect();
        let mut names = HashMap::with_capacity(spaces.len());
        for (at, space) in spaces.iter().enumerate() {
            if let Some(other) = names.insert(space.name.clone(), at) {
                let other: &SpaceDef = &spaces[other];
                return Err(twice("_space", "name", &space.name, other.id, space.id));
            }
        }
        Ok(Schema {
            spaces,
            names,
            collations: self.collations,
            version: self.version,
            replicaset: self.replicaset,
            replicas: self.replicas,
            notices: self.notices.finish(),
        })
    }

    /// Gives system spaces that are used but not (wholly) defined in the file their built-in definition.
    fn add_stubs(&mut self) -> Result<()> {
        let defined = self.spaces.range(..limits::SYSTEM_SPACE_ID_END).map(|(&id, _)| id);
        let ids: BTreeSet<u32> = self.used.iter().copied().chain(defined).collect();
        for id in ids {
            let stub = system::stub(id);
            match (self.spaces.get_mut(&id), stub) {
                (Some(space), Some(stub)) => space.indexes = stub.indexes,
                (Some(_), None) => {}
                (None, Some(stub)) => {
                    self.spaces.insert(id, stub);
                }
                (None, None) => {
                    return Err(schema("rows")
                        .expected("a row in _space for their space")
                        .found("none")
                        .space(id));
                }
            }
        }
        Ok(())
    }
}

fn schema(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Schema, what)
}

/// Two rows of a system space under one key.
fn twice(
    space: &str,
    index: &str,
    key: impl std::fmt::Display,
    first: impl std::fmt::Display,
    second: impl std::fmt::Display,
) -> Error {
    Error::new(ErrorKind::DuplicateKey, format!("duplicate key in index {index}"))
        .expected(format_args!("one row for [{key}]"))
        .found(format_args!("two: {first} and {second}"))
        .space(space)
}

fn check_names(space: &SpaceDef) -> Result<()> {
    let mut names = HashMap::new();
    for index in &space.indexes {
        if let Some(other) = names.insert(&index.name, index.id) {
            return Err(twice(
                "_index",
                "name",
                format_args!("{}, {}", space.id, index.name),
                other,
                index.id,
            ));
        }
    }
    Ok(())
}

fn why_absent(space: &SpaceDef) -> Option<String> {
    match space.engine.as_str() {
        _ if space.view => Some("view: it has no tuples of its own".into()),
        "memtx" if space.is_temporary => Some("temporary: its tuples are not in files".into()),
        "memtx" if space.primary().is_none() => Some("no primary index: it cannot hold tuples".into()),
        "memtx" => None,
        engine @ ("sysview" | "blackhole" | "service") => {
            Some(format!("engine {engine}: it keeps no tuples"))
        }
        engine => Some(format!("engine {engine}: its tuples are not in the snapshot")),
    }
}

/// What no version of Tarantool would have let pass.
fn check_index(index: &IndexDef) -> Result<()> {
    let place = |error: Error| error.field(format_args!("of index {} ({})", index.name, index.id));
    let refuse =
        |what: &str, expected: &str, found: String| Err(place(schema(what).expected(expected).found(found)));
    let is_primary = index.id == 0;
    if is_primary && !index.unique {
        return refuse("primary index", "a unique one", "one that is not".into());
    }
    if is_primary && matches!(index.kind, IndexKind::Rtree | IndexKind::Bitset) {
        return refuse("primary index", "TREE or HASH", index.kind.name().into());
    }
    if index.kind == IndexKind::Hash && !index.unique {
        return refuse("HASH index", "a unique one", "one that is not".into());
    }
    let is_ordered = matches!(index.kind, IndexKind::Tree | IndexKind::Hash);
    for (at, part) in index.parts.iter().enumerate() {
        let number = at + 1;
        if is_primary && part.is_nullable {
            return refuse(
                "primary index",
                "parts that are not nullable",
                format!("a nullable part {number}"),
            );
        }
        if index.kind == IndexKind::Hash && part.is_nullable {
            return refuse("HASH index", "parts that are not nullable", format!("a nullable part {number}"));
        }
        if (is_primary || index.kind == IndexKind::Hash) && part.has_multikey() {
            return refuse("index", "no path with [*]", format!("one in part {number}"));
        }
        // An index that is absent for a type of its own holds `any` in that type's place.
        let is_comparable = !matches!(
            part.field_type,
            FieldType::Any | FieldType::Array | FieldType::Map | FieldType::Interval
        );
        if is_ordered && !is_comparable && index.absent.is_none() {
            return refuse(
                "index",
                "parts of types that have an order",
                format!("part {number} of type {}", part.field_type.name()),
            );
        }
        if part.collation.is_some() && !matches!(part.field_type, FieldType::String | FieldType::Scalar) {
            return refuse(
                "index",
                "collations on parts of type string or scalar alone",
                format!("one on part {number} of type {}", part.field_type.name()),
            );
        }
        let other = index.parts[..at].iter().find(|other| other.has_multikey());
        if let (Some(other), Some(path)) = (other, part.path.as_ref().filter(|path| path.has_multikey())) {
            let prefix = other.path.as_ref().map(Path::prefix);
            if other.field != part.field || prefix != Some(path.prefix()) {
                let expected = "one array under all its paths with [*]";
                return refuse("index", expected, format!("another in part {number}"));
            }
        }
        if index.parts[..at].iter().any(|other| same_place(other, part)) {
            return refuse("index", "each field once", format!("part {number} again"));
        }
    }
    if is_primary && index.absent.as_deref().is_some_and(|reason| reason.starts_with("functional")) {
        return refuse("primary index", "one over the tuple's fields", "a functional one".into());
    }
    Ok(())
}

fn same_place(one: &PartDef, other: &PartDef) -> bool {
    one.field == other.field && one.path == other.path
}

fn decide_indexes(space: &mut SpaceDef, collations: &BTreeMap<u32, Collation>) {
    if let Some(reason) = &space.absent {
        for index in &mut space.indexes {
            index.absent.get_or_insert_with(|| reason.clone());
        }
        return;
    }
    let primary = space.indexes[0].clone();
    for index in &mut space.indexes {
        if index.absent.is_none() {
            index.absent = why_index_absent(index, &primary, collations);
        }
    }
}

fn why_index_absent(
    index: &IndexDef,
    primary: &IndexDef,
    collations: &BTreeMap<u32, Collation>,
) -> Option<String> {
    if matches!(index.kind, IndexKind::Rtree | IndexKind::Bitset) {
        return Some(format!("{} is not built yet", index.kind));
    }
    if let Some(reason) = index.parts.iter().find_map(|part| why_not_ordered(part, collations)) {
        return Some(reason);
    }
    if index.id == 0 || !index.has_ties() {
        return None;
    }
    // Parts that the key has already are not compared again.
    let mut tail = primary.parts.iter().filter(|part| !index.parts.iter().any(|own| same_place(own, part)));
    let reason = match &primary.absent {
        Some(reason) => tail.next().map(|_| reason.clone()),
        None => tail.find_map(|part| why_not_ordered(part, collations)),
    }?;
    Some(format!("its equal keys follow the primary key: {reason}"))
}

fn why_not_ordered(part: &PartDef, collations: &BTreeMap<u32, Collation>) -> Option<String> {
    match (part.collation?, collations.get(&part.collation?)) {
        (_, Some(collation)) if collation.is_binary => None,
        (_, Some(collation)) => Some(format!("collation {} is not built yet", collation.name)),
        (3, None) => None,
        (id, None) => Some(format!("collation {id} is not defined")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::msgpack::{read, skip};

    /// A row as MsgPack, written as JSON.
    fn row(value: Value) -> Vec<u8> {
        rmp_serde::to_vec(&value).unwrap()
    }

    fn build(rows: &[(u32, Value)]) -> Result<Schema> {
        let mut builder = SchemaBuilder::new();
        for (space_id, value) in rows {
            builder.row(*space_id, &row(value.clone()))?;
        }
        builder.finish()
    }

    fn space_row(id: u32, name: &str, format: Value) -> (u32, Value) {
        (280, json!([id, 1, name, "memtx", 0, {}, format]))
    }

    fn plain_index(space: u32, id: u32, name: &str) -> (u32, Value) {
        (288, json!([space, id, name, "tree", {"unique": true}, [[id, "unsigned"]]]))
    }

    fn message(rows: &[(u32, Value)]) -> String {
        build(rows).unwrap_err().to_string()
    }

    #[test]
    fn the_rows_of_a_space_and_its_indexes_make_its_definition() {
        let schema = build(&[
            (272, json!(["version", 2, 3, 1])),
            (272, json!(["cluster", "d47acdf9-695d-4462-b77d-c7d0b1ac67e7"])),
            (276, json!([1, "unicode", 1, "ICU", "", {"strength": "tertiary"}])),
            (320, json!([1, "50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9"])),
            space_row(512, "t", json!([{"name": "id", "type": "NUM"}, {"name": "s", "type": "string", "is_nullable": true}])),
            // The order of rows does not matter.
            (288, json!([512, 1, "sk", "TREE", {"unique": false, "hint": true}, [
                {"field": 1, "type": "string", "is_nullable": true, "sort_order": "desc", "exclude_null": true},
                {"field": 2, "type": "unsigned", "path": "[*].a"},
            ]])),
            plain_index(512, 0, "pk"),
        ])
        .unwrap();
        assert_eq!(schema.version(), Some((2, 3, 1)));
        assert_eq!(schema.replicaset_uuid(), Some("d47acdf9-695d-4462-b77d-c7d0b1ac67e7"));
        assert_eq!(schema.replicas().collect::<Vec<_>>(), [(1, "50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9")]);
        assert_eq!(schema.notices(), &[] as &[String]);
        assert_eq!(
            [0, 1, 2, 3].map(|id| schema.collation_name(id)),
            [Some("none"), Some("unicode"), None, Some("binary")]
        );
        let space = schema.space_by_name("t").unwrap();
        assert_eq!(space.id, 512);
        assert_eq!(space.absent, None);
        assert_eq!(space.format[0].field_type, FieldType::Unsigned);
        assert!(space.format[1].is_nullable && !space.format[0].is_nullable);
        assert_eq!(space.indexes.iter().map(|index| index.id).collect::<Vec<_>>(), [0, 1]);
        let secondary = &space.indexes[1];
        assert_eq!(
            (secondary.kind, secondary.unique, secondary.absent.as_deref()),
            (IndexKind::Tree, false, None)
        );
        assert!(secondary.parts[0].descending && secondary.parts[0].exclude_null);
        assert!(secondary.has_multikey() && secondary.is_nullable());
        // Built-in definitions stand for the system spaces that the file uses and does not define.
        assert_eq!(
            schema.spaces().iter().map(|space| space.name.as_str()).collect::<Vec<_>>(),
            ["_schema", "_collation", "_space", "_index", "_cluster", "t"]
        );
    }

    #[test]
    fn rows_of_old_versions_are_read() {
        let schema = build(&[
            (272, json!(["version", 1, 6])),
            (280, json!([512, 1, "five", "memtx", 0])),
            (280, json!([513, 1, "six", "memtx", 0, "temporary"])),
            (280, json!([514, 1, "pairs", "memtx", 0, "", [["a", "num"], ["b", "str"], ["c"]]])),
            (288, json!([512, 0, "pk", "tree", 1, 2, 0, "num", 2, "str"])),
            (288, json!([512, 1, "sk", "tree", 0, 1, 1, "STR"])),
            (288, json!([513, 0, "pk", "hash", 1, 1, 0, "num"])),
            (288, json!([514, 0, "pk", "tree", {}, [[0, "num", "ignored", 7]]])),
        ])
        .unwrap();
        assert_eq!(schema.version(), Some((1, 6, 0)));
        let five = schema.space_by_id(512).unwrap();
        assert!(five.indexes[0].unique && !five.indexes[1].unique);
        assert_eq!(
            (five.indexes[0].parts[1].field, five.indexes[0].parts[1].field_type),
            (2, FieldType::String)
        );
        assert_eq!(
            schema.space_by_id(513).unwrap().absent.as_deref(),
            Some("temporary: its tuples are not in files")
        );
        let pairs = schema.space_by_id(514).unwrap();
        assert_eq!(
            pairs.format.iter().map(|field| field.field_type).collect::<Vec<_>>(),
            [FieldType::Unsigned, FieldType::String, FieldType::Any]
        );
    }

    #[test]
    fn what_a_newer_version_may_have_added_is_a_notice() {
        let schema = build(&[
            (280, json!([512, 1, "t", "memtx", 0, {"shiny": 1}, [{"name": "a", "type": "int128", "hue": "red"}]])),
            (288, json!([512, 0, "pk", "tree", {"unique": true, "fast": true}, [
                {"field": 0, "type": "unsigned", "weight": 3},
            ], "more"])),
            (288, json!([512, 1, "sk", "tree", {}, [{"field": 0, "type": "int128"}]])),
            (288, json!([512, 2, "lsm", "lsm", {}, [[0, "unsigned"]]])),
            (288, json!([512, 3, "up", "tree", {}, [{"field": 0, "type": "unsigned", "sort_order": "up"}]])),
        ])
        .unwrap();
        let space = schema.space_by_id(512).unwrap();
        assert_eq!(space.flags_raw, row(json!({"shiny": 1})));
        assert_eq!(space.indexes[0].options_raw, row(json!({"unique": true, "fast": true})));
        assert_eq!(space.indexes[0].absent, None);
        assert_eq!(space.indexes[1].absent.as_deref(), Some("part 1: unknown type \"int128\""));
        assert_eq!(space.indexes[2].absent.as_deref(), Some("unknown kind of index \"lsm\""));
        assert_eq!(space.indexes[3].absent.as_deref(), Some("part 1: unknown sort order \"up\""));
        assert_eq!(
            schema.notices(),
            [
                "space t (512): unknown flag \"shiny\" is kept and has no effect",
                "space t (512), field 1 (a): type \"int128\" is unknown, nothing is checked",
                "space 512, index pk (0): unknown option \"fast\" is kept and has no effect",
                "space 512, index pk (0): part 1: unknown key \"weight\" is kept and has no effect",
                "space 512, index pk (0): 1 unknown fields at the end of its row are kept and have no effect",
            ]
        );
    }

    #[test]
    fn notices_of_a_hostile_row_are_counted_not_kept() {
        let flags: serde_json::Map<String, Value> = (0..1000).map(|n| (format!("x{n}"), json!(0))).collect();
        let schema = build(&[(280, json!([512, 1, "t", "memtx", 0, flags, []]))]).unwrap();
        assert_eq!(schema.notices().len(), NOTICES_MAX + 1);
        assert_eq!(schema.notices().last().unwrap(), "and 744 more such notices");
    }

    #[test]
    fn spaces_whose_tuples_are_not_in_memory_say_why() {
        let space =
            |id, name: &str, engine: &str, flags: Value| (280, json!([id, 1, name, engine, 0, flags, []]));
        let schema = build(&[
            space(512, "view", "memtx", json!({"view": true, "sql": "SELECT 1"})),
            space(513, "vinyl", "vinyl", json!({})),
            space(514, "sysview", "sysview", json!({})),
            space(515, "temporary", "memtx", json!({"temporary": true})),
            space(516, "data", "memtx", json!({"type": "data-temporary"})),
            space(517, "bare", "memtx", json!({"type": "normal"})),
            space(518, "new", "memtx", json!({"type": "ethereal"})),
            space(519, "local", "memtx", json!({"group_id": 1, "is_sync": true})),
            plain_index(513, 0, "pk"),
            plain_index(518, 0, "pk"),
            plain_index(519, 0, "pk"),
        ])
        .unwrap();
        let absent: Vec<_> = schema.spaces()[2..].iter().map(|space| space.absent.as_deref()).collect();
        assert_eq!(
            absent,
            [
                Some("view: it has no tuples of its own"),
                Some("engine vinyl: its tuples are not in the snapshot"),
                Some("engine sysview: it keeps no tuples"),
                Some("temporary: its tuples are not in files"),
                Some("temporary: its tuples are not in files"),
                Some("no primary index: it cannot hold tuples"),
                Some("unknown type of space \"ethereal\""),
                None,
            ]
        );
        let vinyl = schema.space_by_id(513).unwrap();
        assert_eq!(vinyl.indexes[0].absent, vinyl.absent);
        let local = schema.space_by_id(519).unwrap();
        assert!(local.is_local && local.is_sync);
    }

    #[test]
    fn indexes_that_are_not_built_say_why_and_the_others_stay() {
        let ci = |field: u32| json!({"field": field, "type": "string", "collation": 2});
        let (ci, ci_in_key) = (ci(1), ci(1));
        let schema = build(&[
            (276, json!([2, "unicode_ci", 1, "ICU", "", {"strength": "primary"}])),
            (276, json!([3, "binary", 1, "BINARY", "", {}])),
            space_row(512, "t", json!([])),
            plain_index(512, 0, "pk"),
            (288, json!([512, 1, "rtree", "rtree", {"unique": false}, [[1, "array"]]])),
            (288, json!([512, 2, "bitset", "BITSET", {"unique": false}, [[1, "unsigned"]]])),
            (288, json!([512, 3, "func", "tree", {"func": 68}, [[0, "string"]]])),
            (288, json!([512, 4, "ci", "tree", {}, [ci]])),
            (288, json!([512, 5, "binary", "tree", {}, [{"field": 1, "type": "string", "collation": 3}]])),
            (288, json!([512, 6, "lost", "tree", {}, [{"field": 1, "type": "string", "collation": 77}]])),
            space_row(513, "u", json!([])),
            (288, json!([513, 0, "pk", "tree", {}, [{"field": 0, "type": "unsigned"}, ci_in_key]])),
            (288, json!([513, 1, "unique", "tree", {}, [[2, "unsigned"]]])),
            (288, json!([513, 2, "ties", "tree", {"unique": false}, [[2, "unsigned"]]])),
            (288, json!([513, 3, "nullable", "tree", {}, [{"field": 2, "type": "unsigned", "is_nullable": true}]])),
            // Holds the primary key's text field itself, compared as bytes: the order needs no collation.
            (288, json!([513, 4, "own", "tree", {"unique": false}, [[2, "unsigned"], [1, "string"]]])),
        ])
        .unwrap();
        let absent = |id| -> Vec<_> {
            let space = schema.space_by_id(id).unwrap();
            assert_eq!(space.absent, None);
            space.indexes.iter().map(|index| index.absent.as_deref()).collect()
        };
        assert_eq!(
            absent(512),
            [
                None,
                Some("RTREE is not built yet"),
                Some("BITSET is not built yet"),
                Some("functional index: its Lua function cannot be run"),
                Some("collation unicode_ci is not built yet"),
                None,
                Some("collation 77 is not defined"),
            ]
        );
        let ties = "its equal keys follow the primary key: collation unicode_ci is not built yet";
        assert_eq!(
            absent(513),
            [Some("collation unicode_ci is not built yet"), None, Some(ties), Some(ties), None]
        );
    }

    #[test]
    fn impossible_definitions_are_errors_that_name_the_space() {
        let in_space =
            |more: Value| vec![space_row(512, "t", json!([])), plain_index(512, 0, "pk"), (288, more)];
        let tree = |options: Value, parts: Value| in_space(json!([512, 1, "i", "tree", options, parts]));
        let primary = |kind: &str, options: Value, parts: Value| {
            vec![space_row(512, "t", json!([])), (288, json!([512, 0, "pk", kind, options, parts]))]
        };
        let cases: Vec<(Vec<(u32, Value)>, &str)> = vec![
            (vec![(280, json!({"a": 1}))], "space _space: row: expected array, found map (byte 0x81)"),
            (
                vec![(280, json!([512, 1, "t"]))],
                "space t, field 4 (engine) of the row in _space: row: expected a value, found the end of the row",
            ),
            (
                vec![(280, json!([512, 1, "", "memtx", 0]))],
                "space 512, field 3 (name) of the row in _space: name: expected 1 to 65000 bytes, found 0 bytes",
            ),
            (
                vec![(280, json!([4294967295u32, 1, "t", "memtx", 0]))],
                "space _space, field 1 (id) of the row in _space: number: expected at most 2147483647, found 4294967295",
            ),
            (
                vec![(280, json!([512, 1, "t", "memtx", 0, {"view": 1}, []]))],
                "space t, field 6 (flags) of the row in _space: key \"view\": expected boolean, found unsigned (byte 0x01)",
            ),
            (
                vec![(280, json!([512, 1, "t", "memtx", 1, {}, [{"name": "a"}, {"name": "b"}]]))],
                "space t: field_count: expected 0 or at least the format's 2 fields, found 1",
            ),
            (
                vec![space_row(512, "t", json!([{"type": "any"}]))],
                "space t, field 1 of the format: field: expected a name, found none",
            ),
            (
                vec![space_row(512, "t", json!([{"name": "a"}, {"name": "a"}]))],
                "space t, field 2 of the format: field name: expected a name used once, found \"a\" twice",
            ),
            (
                vec![space_row(512, "t", json!([{"name": "a", "type": "decimal64"}]))],
                "space t, field 1 of the format: scale: expected one for decimal64, found none",
            ),
            (
                vec![space_row(
                    512,
                    "t",
                    json!([{"name": "a", "is_nullable": true, "nullable_action": "abort"}]),
                )],
                "space t, field 1 of the format: nullable_action: expected none, as is_nullable is true, found abort",
            ),
            (
                vec![plain_index(512, 0, "pk")],
                "space 512: index pk (0): expected a row in _space for its space, found none",
            ),
            (
                vec![(400, json!([1]))],
                "space 400: rows: expected a row in _space for their space, found none",
            ),
            (
                in_space(json!([512, 128, "i", "tree", {}, [[0, "unsigned"]]])),
                "space 512, field 2 (index_id) of the row in _index: number: expected at most 127, found 128",
            ),
            (
                tree(json!({}), json!([])),
                "space 512, field of index i (1): parts: expected 1 to 255, found 0",
            ),
            (
                tree(json!({}), json!([[0, "unsigned"], {"field": 1, "type": "unsigned"}])),
                "space 512, field part 2 of index i: row: expected array, found map (byte 0x82)",
            ),
            (
                tree(json!({}), json!([{"field": 0}])),
                "space 512, field part 1 of index i: part: expected a type, found none",
            ),
            (
                tree(json!({}), json!([[40000, "unsigned"]])),
                "space 512, field part 1 of index i: field number: expected at most 32767, found 40000",
            ),
            (
                tree(json!({}), json!([{"field": 0, "type": "unsigned", "path": "a..b"}])),
                "space 512, field part 1 of index i: path: expected a JSON path, found \"a..b\", wrong at symbol 3",
            ),
            (
                tree(json!({}), json!([{"field": 0, "type": "unsigned", "exclude_null": true}])),
                "space 512, field part 1 of index i: exclude_null: expected a nullable part, found one that is not",
            ),
            (
                tree(json!({}), json!([[1, "map"]])),
                "space t, field of index i (1): index: expected parts of types that have an order, found part 1 of type map",
            ),
            (
                tree(json!({}), json!([[1, "unsigned"], [1, "unsigned"]])),
                "space t, field of index i (1): index: expected each field once, found part 2 again",
            ),
            (
                tree(
                    json!({}),
                    json!([
                        {"field": 1, "type": "unsigned", "path": "[*].a"},
                        {"field": 1, "type": "unsigned", "path": "a[*]"},
                    ]),
                ),
                "space t, field of index i (1): index: expected one array under all its paths with [*], found another in part 2",
            ),
            (
                tree(json!({}), json!([{"field": 1, "type": "unsigned", "collation": 1}])),
                "space t, field of index i (1): index: expected collations on parts of type string or scalar alone, \
                 found one on part 1 of type unsigned",
            ),
            (
                primary("tree", json!({"unique": false}), json!([[0, "unsigned"]])),
                "space t, field of index pk (0): primary index: expected a unique one, found one that is not",
            ),
            (
                primary("rtree", json!({}), json!([[0, "array"]])),
                "space t, field of index pk (0): primary index: expected TREE or HASH, found RTREE",
            ),
            (
                primary("tree", json!({"func": 1}), json!([[0, "unsigned"]])),
                "space t, field of index pk (0): primary index: expected one over the tuple's fields, found a functional one",
            ),
            (
                primary("tree", json!({}), json!([{"field": 0, "type": "unsigned", "is_nullable": true}])),
                "space t, field of index pk (0): primary index: expected parts that are not nullable, found a nullable part 1",
            ),
            (
                primary("hash", json!({}), json!([{"field": 0, "type": "unsigned", "path": "[*]"}])),
                "space t, field of index pk (0): index: expected no path with [*], found one in part 1",
            ),
        ];
        for (rows, expected) in cases {
            assert_eq!(message(&rows), expected);
        }
    }

    #[test]
    fn what_is_defined_twice_is_a_duplicate() {
        let two = |row: (u32, Value), other: (u32, Value)| {
            let error = build(&[row, other]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DuplicateKey);
            error.to_string()
        };
        assert_eq!(
            two(space_row(512, "a", json!([])), space_row(512, "b", json!([]))),
            "space _space: duplicate key in index primary: expected one row for [512], found two: a and b"
        );
        assert_eq!(
            two(space_row(512, "a", json!([])), space_row(513, "a", json!([]))),
            "space _space: duplicate key in index name: expected one row for [a], found two: 512 and 513"
        );
        let error =
            build(&[space_row(512, "a", json!([])), plain_index(512, 0, "pk"), plain_index(512, 1, "pk")])
                .unwrap_err();
        assert_eq!(
            error.to_string(),
            "space _index: duplicate key in index name: expected one row for [512, pk], found two: 0 and 1"
        );
    }

    #[test]
    fn no_system_rows_is_an_error_of_its_own() {
        assert_eq!(build(&[]).unwrap_err().kind(), ErrorKind::NoSystemRows);
        assert_eq!(build(&[(512, json!([1]))]).unwrap_err().kind(), ErrorKind::NoSystemRows);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_of_a_row_is_an_error_or_a_definition() {
        let rows = [
            (
                280,
                row(json!([512, 1, "t", "memtx", 2, {"group_id": 1, "temporary": false}, [
                    {"name": "a", "type": "unsigned"}, {"name": "b", "type": "string", "is_nullable": true},
                ]])),
            ),
            (
                288,
                row(json!([512, 1, "sk", "tree", {"unique": false}, [
                    {"field": 1, "type": "string", "is_nullable": true, "path": "a[*]", "nullable_action": "none"},
                ]])),
            ),
            (288, row(json!([512, 2, "old", "tree", 0, 2, 0, "num", 2, "str"]))),
            (276, row(json!([1, "unicode", 1, "ICU", "", {}]))),
            (272, row(json!(["version", 2, 3, 1]))),
            (320, row(json!([1, "50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9"]))),
        ];
        for (space_id, row) in rows {
            for end in 0..row.len() {
                assert!(SchemaBuilder::new().row(space_id, &row[..end]).is_err());
            }
            for bit in 0..row.len() * 8 {
                let mut row = row.clone();
                row[bit / 8] ^= 1 << (bit % 8);
                let mut builder = SchemaBuilder::new();
                if builder.row(space_id, &row).is_ok() {
                    let _ = builder.finish();
                }
            }
        }
    }

    #[test]
    fn promises_of_four_billion_fields_cost_nothing() {
        let mut row = row(json!([512, 1, "t", "memtx", 0, {}]));
        row[0] = 0x97;
        row.extend([0xdd, 0xff, 0xff, 0xff, 0xff]);
        let error = SchemaBuilder::new().row(280, &row).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::MsgPack);
    }

    /// The rows `(space id, tuple)` of a snapshot: a plain reader for whole and sound files.
    fn rows_of(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let mut at = 2 + file.windows(2).position(|two| two == b"\n\n").unwrap();
        let mut rows = Vec::new();
        while file[at..] != *b"\xd5\x10\xad\xed" {
            let is_packed = file[at + 3] == 0xba;
            let length = read::uint(file, at + 4).unwrap().0 as usize;
            let stored = &file[at + 19..at + 19 + length];
            at += 19 + length;
            let mut block = stored.to_vec();
            if is_packed {
                block = Vec::with_capacity(1 << 22);
                zstd_safe::decompress(&mut block, stored).unwrap();
            }
            let mut at = 0;
            while at < block.len() {
                let body = skip::skip(&block, at).unwrap();
                if block[at + 2] != 2 {
                    // RAFT and PROMOTE rows are no INSERT.
                    at = skip::skip(&block, body).unwrap();
                    continue;
                }
                // The fixed template of snapshot rows: `82 10 ce <space id> 21 <tuple>`.
                assert_eq!(block[body + 1], 0x10);
                let (space_id, after) = read::uint(&block, body + 2).unwrap();
                at = skip::skip(&block, body).unwrap();
                if block[after] == 0x21 {
                    rows.push((space_id as u32, block[after + 1..at].to_vec()));
                }
            }
        }
        rows
    }

    /// Space, index and part of `expected/schema.json` that are the same in every version, as text.
    fn told_by_tarantool(expected: &Value) -> Vec<String> {
        let mut lines = Vec::new();
        for space in expected["spaces"].as_array().unwrap() {
            lines.push(format!(
                "{} {} {} {}",
                space["id"], space["name"], space["engine"], space["field_count"]
            ));
            for index in space["indexes"].as_array().unwrap() {
                // RTREE is reported without.
                let unique = index["unique"].as_bool().unwrap_or(false);
                lines.push(format!("  {} {} {} {unique}", index["id"], index["name"], index["type"]));
                for part in index["parts"].as_array().unwrap() {
                    lines.push(format!(
                        "    {} {} nullable {} exclude {} desc {} {} {} {}",
                        part["fieldno"],
                        part["type"],
                        part["is_nullable"].as_bool().unwrap_or(false),
                        part["exclude_null"].as_bool().unwrap_or(false),
                        part["sort_order"] == "desc",
                        part["path"].as_str().unwrap_or(""),
                        part["collation"].as_str().unwrap_or(""),
                        part["scale"]
                    ));
                }
            }
        }
        lines
    }

    /// One case has a user's space with an id of the system's range.
    fn is_a_users(space: &&SpaceDef) -> bool {
        space.id >= limits::SYSTEM_SPACE_ID_END || space.name == "id_400"
    }

    fn told_by_us(schema: &Schema) -> Vec<String> {
        let mut lines = Vec::new();
        for space in schema.spaces().iter().filter(is_a_users) {
            let text = |text: &str| json!(text).to_string();
            let (name, engine) = (text(&space.name), text(&space.engine));
            lines.push(format!("{} {name} {engine} {}", space.id, space.field_count));
            for index in &space.indexes {
                let (name, kind) = (text(&index.name), text(index.kind.name()));
                lines.push(format!("  {} {name} {kind} {}", index.id, index.unique));
                for part in &index.parts {
                    lines.push(format!(
                        "    {} {} nullable {} exclude {} desc {} {} {} {}",
                        part.field + 1,
                        text(part.field_type.name()),
                        part.is_nullable,
                        part.exclude_null,
                        part.descending,
                        part.path.as_ref().map_or("", |path| path.text()),
                        part.collation.map_or("", |id| schema.collation_name(id).unwrap()),
                        json!(part.scale)
                    ));
                }
            }
        }
        lines
    }

    #[test]
    fn system_rows_of_real_snapshots_give_the_schema_that_tarantool_reports() {
        let mut cases = 0;
        for version in ["2.6", "3.9", "random"] {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(version);
            for case in std::fs::read_dir(folder).unwrap() {
                let case = case.unwrap().path();
                let is_snapshot =
                    |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "snap");
                let mut files = std::fs::read_dir(&case).unwrap().map(|file| file.unwrap().path());
                let file = std::fs::read(files.find(is_snapshot).unwrap()).unwrap();
                let mut builder = SchemaBuilder::new();
                for (space_id, tuple) in rows_of(&file) {
                    builder.row(space_id, &tuple).unwrap();
                }
                let schema = builder.finish().unwrap();
                assert_eq!(schema.notices(), &[] as &[String], "{case:?}");
                assert_eq!(schema.collation_name(0), Some("none"), "{case:?}");
                let expected = std::fs::read(case.join("expected/schema.json")).unwrap();
                let expected: Value = serde_json::from_slice(&expected).unwrap();
                let told = told_by_us(&schema);
                for (ours, theirs) in told.iter().zip(told_by_tarantool(&expected)) {
                    assert_eq!(*ours, theirs, "{case:?}");
                }
                assert_eq!(told.len(), told_by_tarantool(&expected).len(), "{case:?}");
                cases += 1;
            }
        }
        assert!(cases > 100, "{cases}");
    }
}
