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
use super::system::{self, Collation, SchemaRow, schema};
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
    /// By id.
    spaces: Vec<SpaceDef>,
    names: HashMap<String, u32>,
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
        self.space_by_id(*self.names.get(name)?)
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

    /// What is odd about the instance that the text header names: every instance is a member of its own replica set.
    /// Files without members say nothing.
    pub(crate) fn instance_notice(&self, instance: &str) -> Option<String> {
        let is_member = self.replicas.values().any(|uuid| uuid.eq_ignore_ascii_case(instance));
        (!is_member && !self.replicas.is_empty()).then(|| {
            let members: Vec<&str> = self.replicas.values().map(String::as_str).collect();
            format!(
                "instance {instance} of the text header is not in _cluster, which has {}",
                members.join(", ")
            )
        })
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
        let mut names = HashMap::with_capacity(self.spaces.len());
        let mut indexes = std::mem::take(&mut self.indexes).into_iter().peekable();
        for (&id, space) in &mut self.spaces {
            if let Some(((space_id, _), index)) = indexes.next_if(|((space_id, _), _)| *space_id < id) {
                return Err(homeless(&index, space_id));
            }
            let own = std::iter::from_fn(|| indexes.next_if(|((space_id, _), _)| *space_id == id));
            complete(space, own.map(|(_, index)| index), &self.collations)?;
            if let Some(other) = names.insert(space.name.clone(), id) {
                return Err(twice("_space", "name", &space.name, other, id));
            }
        }
        if let Some(((space_id, _), index)) = indexes.next() {
            return Err(homeless(&index, space_id));
        }
        let spaces: Vec<SpaceDef> = self.spaces.into_values().collect();
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

/// Definitions that follow the rows of system spaces one by one, while a log is replayed.
impl Schema {
    /// Defines a space by the rows that it has now in `_space` and `_index`; without any it is gone.
    ///
    /// # Errors
    /// As where a snapshot is read; nothing has changed then.
    pub(crate) fn redefine<'a>(
        &mut self,
        id: u32,
        row: Option<&[u8]>,
        index_rows: impl Iterator<Item = &'a [u8]>,
    ) -> Result<()> {
        let mut notices = Notices::default();
        let stub = system::stub(id);
        let mut space = row.map(|row| system::space(row, &mut notices)).transpose()?;
        if let (Some(space), Some(stub)) = (&mut space, stub) {
            space.indexes = stub.indexes;
        }
        let indexes: Vec<IndexDef> = index_rows
            .map(|row| system::index(row, &mut notices).map(|(_, index)| index))
            .collect::<Result<_>>()?;
        let place = self.spaces.binary_search_by_key(&id, |space| space.id);
        let Some(mut space) = space else {
            if let Some(index) = indexes.first() {
                return Err(homeless(index, id));
            }
            if let Ok(at) = place {
                self.forget_name(at);
                self.spaces.remove(at);
            }
            return Ok(());
        };
        complete(&mut space, indexes.into_iter(), &self.collations)?;
        if let Ok(at) = place {
            self.forget_name(at);
        }
        self.names.insert(space.name.clone(), id);
        match place {
            Ok(at) => self.spaces[at] = space,
            Err(at) => self.spaces.insert(at, space),
        }
        self.notices.extend(notices.finish());
        Ok(())
    }

    /// The space at `at` gives up its name, unless another has taken it: in one transaction two may change names.
    fn forget_name(&mut self, at: usize) {
        let SpaceDef { id, name, .. } = &self.spaces[at];
        if self.names.get(name) == Some(id) {
            self.names.remove(name);
        }
    }

    /// Whether the space of this id is the one that its name finds.
    ///
    /// # Errors
    /// `DuplicateKey`: another space has the same name.
    pub(crate) fn check_name(&self, id: u32) -> Result<()> {
        let Some(space) = self.space_by_id(id) else { return Ok(()) };
        match self.names.get(&space.name) {
            Some(&other) if other != id => Err(twice("_space", "name", &space.name, other, id)),
            _ => Ok(()),
        }
    }

    /// Defines a system space that the file has no row for, if it is known what it is like.
    pub(crate) fn add_stub(&mut self, id: u32) -> Option<&SpaceDef> {
        let at = self.spaces.binary_search_by_key(&id, |space| space.id).err()?;
        let mut stub = system::stub(id)?;
        complete(&mut stub, std::iter::empty(), &self.collations).ok()?;
        self.names.entry(stub.name.clone()).or_insert(id);
        self.spaces.insert(at, stub);
        self.spaces.get(at)
    }

    /// A space that logs change, and that cannot be changed without its primary index, is absent.
    pub(crate) fn give_up(&mut self, id: u32) {
        let Ok(at) = self.spaces.binary_search_by_key(&id, |space| space.id) else { return };
        let space = &mut self.spaces[at];
        let why = space.primary().and_then(|primary| primary.absent.clone()).unwrap_or_default();
        let why = format!("logs change it, and its primary index is absent: {why}");
        space.indexes.iter_mut().for_each(|index| {
            index.absent.get_or_insert_with(|| why.clone());
        });
        space.absent.get_or_insert(why);
    }

    /// Takes a row of `_schema`, `_collation` or `_cluster`, spaces whose rows stand for themselves: what it was and what
    /// it is now.
    pub(crate) fn row(&mut self, space_id: u32, old: Option<&[u8]>, new: Option<&[u8]>) -> Result<()> {
        match space_id {
            system::COLLATION_ID => {
                if let Some(old) = old {
                    self.collations.remove(&system::collation(old)?.id);
                }
                if let Some(new) = new {
                    let collation = system::collation(new)?;
                    self.collations.insert(collation.id, collation);
                }
            }
            system::SCHEMA_ID => {
                let old = old.map(system::schema_row).transpose()?;
                match (old, new.map(system::schema_row).transpose()?) {
                    (_, Some(SchemaRow::Version(major, minor, patch))) => {
                        self.version = Some((major, minor, patch))
                    }
                    (_, Some(SchemaRow::Replicaset(uuid))) => self.replicaset = Some(uuid),
                    (Some(SchemaRow::Version(..)), None) => self.version = None,
                    (Some(SchemaRow::Replicaset(_)), None) => self.replicaset = None,
                    _ => {}
                }
            }
            system::CLUSTER_ID => {
                if let Some(old) = old {
                    self.replicas.remove(&system::replica(old)?.0);
                }
                if let Some(new) = new {
                    let (id, uuid) = system::replica(new)?;
                    self.replicas.insert(id, uuid);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// An index of a space that is not defined.
fn homeless(index: &IndexDef, space_id: u32) -> Error {
    schema(format!("index {} ({})", index.name, index.id))
        .expected("a row in _space for its space")
        .found("none")
        .space(space_id)
}

/// Gives a space its indexes, in any order; checks all, and decides what is absent.
fn complete(
    space: &mut SpaceDef,
    indexes: impl Iterator<Item = IndexDef>,
    collations: &BTreeMap<u32, Collation>,
) -> Result<()> {
    for index in indexes {
        // A built-in primary index gives way to the file's own.
        space.indexes.retain(|other| other.id != index.id);
        space.indexes.push(index);
    }
    space.indexes.sort_by_key(|index| index.id);
    check_names(space)?;
    space.absent = space.absent.take().or_else(|| why_absent(space));
    if space.engine == "memtx" && !space.is_view {
        for index in &space.indexes {
            check_index(index).map_err(|error| error.space(&space.name))?;
        }
    }
    decide_indexes(space, collations);
    Ok(())
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
        _ if space.is_view => Some("view: it has no tuples of its own".into()),
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
        if index.parts[..at].iter().any(|other| other.has_place_of(part)) {
            return refuse("index", "each field once", format!("part {number} again"));
        }
    }
    if is_primary && index.absent.as_deref().is_some_and(|reason| reason.starts_with("functional")) {
        return refuse("primary index", "one over the tuple's fields", "a functional one".into());
    }
    Ok(())
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
    let mut tail = primary.parts.iter().filter(|part| !index.parts.iter().any(|own| own.has_place_of(part)));
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
#[path = "catalog_tests.rs"]
mod tests;
