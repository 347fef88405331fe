//! Definitions made by a program: spaces and indexes, as rows of the system spaces.
//!
//! ```text
//! SpaceSpec, IndexSpec --> rows of _space, _index, _truncate --> definitions follow (space::alter) --> tables follow them
//! ```
//!
//! Rows are those that Tarantool 2.6 writes for the same definition.

use super::options::{SpaceHandle, SpaceSelector};
use super::transaction::Transaction;
use super::{Store, rows};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{INDEXES_MAX, SPACE_ID_MAX, SYSTEM_SPACE_ID_END};
use crate::msgpack::{look, read, skip, write};
use crate::space::alter::Living;
use crate::space::definition::{IndexDef, IndexKind, SpaceDef};
use crate::space::left_out::{FK_CONSTRAINT_ID, LeftOut, about_spaces};
use crate::space::request::{Request, Told};
use crate::space::system;
use crate::tuple::field_type::FieldType;
use crate::tuple::path::Path;

/// The user `admin`, who owns what a program makes.
const ADMIN: u64 = 1;

/// A space to be made.
///
/// ```
/// use lycosa::{FieldType, IndexSpec, PartSpec, SpaceSpec, Store};
///
/// let store = Store::in_memory();
/// store.create_space(
///     SpaceSpec::new("visits")
///         .field("id", FieldType::Unsigned)
///         .field("tags", FieldType::Array)
///         .nullable_field("city", FieldType::String)
///         .index(IndexSpec::tree("pk").part("id"))
///         .index(IndexSpec::tree("by_city").part("city").non_unique())
///         .index(IndexSpec::tree("by_tag").part(PartSpec::new("tags[*]").field_type(FieldType::String)).non_unique()),
/// )?;
/// store.write(|tx| tx.insert("visits", (1, ["a", "b"], "Ulm")))?;
/// assert_eq!(store.read_view().space("visits")?.index("by_tag")?.len(), 2);
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SpaceSpec {
    name: String,
    id: Option<u32>,
    field_count: u32,
    is_local: bool,
    fields: Vec<FieldSpec>,
    indexes: Vec<IndexSpec>,
}

#[derive(Debug, Clone)]
struct FieldSpec {
    name: String,
    field_type: FieldType,
    is_nullable: bool,
}

impl SpaceSpec {
    /// A space of this name, without fields and indexes yet. Without an index it cannot hold tuples.
    pub fn new(name: impl Into<String>) -> Self {
        let (fields, indexes) = (Vec::new(), Vec::new());
        Self { name: name.into(), id: None, field_count: 0, is_local: false, fields, indexes }
    }

    /// An id of one's own, from 512 on; else it is one more than any so far.
    pub fn id(mut self, id: u32) -> Self {
        self.id = Some(id);
        self
    }

    /// Every tuple has exactly so many fields.
    pub fn field_count(mut self, count: u32) -> Self {
        self.field_count = count;
        self
    }

    /// It is not replicated.
    pub fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// The next field of every tuple.
    pub fn field(self, name: impl Into<String>, field_type: FieldType) -> Self {
        self.any_field(name.into(), field_type, false)
    }

    /// The next field of a tuple, which may be nil, and be missing at its end.
    pub fn nullable_field(self, name: impl Into<String>, field_type: FieldType) -> Self {
        self.any_field(name.into(), field_type, true)
    }

    fn any_field(mut self, name: String, field_type: FieldType, is_nullable: bool) -> Self {
        self.fields.push(FieldSpec { name, field_type, is_nullable });
        self
    }

    /// The next index; the first one is the primary one.
    pub fn index(mut self, index: IndexSpec) -> Self {
        self.indexes.push(index);
        self
    }

    /// The row of `_space`.
    fn row(&self, id: u32) -> Vec<u8> {
        let mut row = Vec::new();
        write::array(&mut row, 7);
        write::uint(&mut row, id.into());
        write::uint(&mut row, ADMIN);
        write::str(&mut row, self.name.as_bytes());
        write::str(&mut row, b"memtx");
        write::uint(&mut row, self.field_count.into());
        write::map(&mut row, self.is_local.into());
        if self.is_local {
            write::str(&mut row, b"group_id");
            write::uint(&mut row, 1);
        }
        row.extend_from_slice(&self.format());
        row
    }

    fn format(&self) -> Vec<u8> {
        let mut format = Vec::new();
        write::array(&mut format, self.fields.len() as u32);
        for field in &self.fields {
            write::map(&mut format, 2 + u32::from(field.is_nullable));
            write::str(&mut format, b"name");
            write::str(&mut format, field.name.as_bytes());
            write::str(&mut format, b"type");
            write::str(&mut format, field.field_type.name().as_bytes());
            if field.is_nullable {
                write::str(&mut format, b"is_nullable");
                write::boolean(&mut format, true);
            }
        }
        format
    }
}

/// An index to be made.
#[derive(Debug, Clone)]
pub struct IndexSpec {
    name: String,
    kind: IndexKind,
    unique: bool,
    parts: Vec<PartSpec>,
}

impl IndexSpec {
    /// An ordered index.
    pub fn tree(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: IndexKind::Tree, unique: true, parts: Vec::new() }
    }

    /// An index by hashes of whole keys.
    pub fn hash(name: impl Into<String>) -> Self {
        Self { kind: IndexKind::Hash, ..Self::tree(name) }
    }

    /// The next part of the key: a field by its name or a path into it, or a [`PartSpec`].
    pub fn part(mut self, part: impl Into<PartSpec>) -> Self {
        self.parts.push(part.into());
        self
    }

    /// Tuples may have the same key.
    pub fn non_unique(mut self) -> Self {
        self.unique = false;
        self
    }

    /// The row of `_index`.
    fn row(&self, space: &SpaceDef, id: u32) -> Result<Vec<u8>> {
        let mut row = Vec::new();
        write::array(&mut row, 6);
        write::uint(&mut row, space.id.into());
        write::uint(&mut row, id.into());
        write::str(&mut row, self.name.as_bytes());
        write::str(&mut row, self.kind.name().to_ascii_lowercase().as_bytes());
        write::map(&mut row, 1);
        write::str(&mut row, b"unique");
        write::boolean(&mut row, self.unique);
        write::array(&mut row, self.parts.len() as u32);
        let in_index = |error: Error| error.field(format_args!("of index {}", self.name)).space(&space.name);
        let parts: Vec<Part> =
            self.parts.iter().map(|part| part.resolve(space)).collect::<Result<_>>().map_err(in_index)?;
        // All parts are written alike.
        let as_map = parts.iter().any(|part| part.options() > 0);
        parts.iter().for_each(|part| part.write(&mut row, as_map));
        Ok(row)
    }
}

/// A part of an index's key.
#[derive(Debug, Clone)]
pub struct PartSpec {
    place: String,
    field_type: Option<FieldType>,
    is_nullable: Option<bool>,
    exclude_null: bool,
    collation: Option<u32>,
}

impl PartSpec {
    /// A field by its name, or a path: `address.street`, `[3]`, `tags[*]`. Numbers in paths count from 1.
    pub fn new(place: impl Into<String>) -> Self {
        let place = place.into();
        Self { place, field_type: None, is_nullable: None, exclude_null: false, collation: None }
    }

    /// Its type; that of the format's field if none is given. A path into a field needs one.
    pub fn field_type(mut self, field_type: FieldType) -> Self {
        self.field_type = Some(field_type);
        self
    }

    /// Whether it may be nil or missing; as the format's field if nothing is said.
    pub fn nullable(mut self, yes: bool) -> Self {
        self.is_nullable = Some(yes);
        self
    }

    /// Tuples where it is nil or missing are not in the index.
    pub fn exclude_null(mut self) -> Self {
        self.exclude_null = true;
        self
    }

    /// The number of the collation that strings compare by.
    pub fn collation(mut self, id: u32) -> Self {
        self.collation = Some(id);
        self
    }

    /// What it is by the format: its field, the path in that, and its type.
    fn resolve(&self, space: &SpaceDef) -> Result<Part> {
        let wrong = |expected: &str| {
            Error::new(ErrorKind::Schema, "part of a key")
                .expected(expected)
                .found(format_args!("{:?}", self.place))
        };
        let (field, path) = space
            .locate(&self.place)
            .ok_or_else(|| wrong("the name of a field, or a path that begins with one"))?;
        let of_field = space.format.get(field as usize).filter(|_| path.is_none());
        let field_type = self.field_type.or(of_field.map(|field| field.field_type));
        let field_type =
            field_type.ok_or_else(|| wrong("a type, which the format does not give for this"))?;
        let is_nullable =
            self.exclude_null || self.is_nullable.unwrap_or(of_field.is_some_and(|field| field.is_nullable));
        let Self { exclude_null, collation, .. } = *self;
        Ok(Part { field, field_type, is_nullable, path, exclude_null, collation })
    }
}

/// A part as a row has it.
struct Part {
    field: u32,
    field_type: FieldType,
    is_nullable: bool,
    path: Option<Path>,
    exclude_null: bool,
    collation: Option<u32>,
}

impl Part {
    /// Number of things that only a map can say.
    fn options(&self) -> u32 {
        u32::from(self.is_nullable)
            + u32::from(self.path.is_some())
            + u32::from(self.exclude_null)
            + u32::from(self.collation.is_some())
    }

    fn write(&self, row: &mut Vec<u8>, as_map: bool) {
        if !as_map {
            write::array(row, 2);
            write::uint(row, self.field.into());
            write::str(row, self.field_type.name().as_bytes());
            return;
        }
        write::map(row, 2 + self.options());
        write::str(row, b"field");
        write::uint(row, self.field.into());
        write::str(row, b"type");
        write::str(row, self.field_type.name().as_bytes());
        if self.is_nullable {
            write::str(row, b"is_nullable");
            write::boolean(row, true);
        }
        if let Some(path) = &self.path {
            write::str(row, b"path");
            write::str(row, path.text().as_bytes());
        }
        if self.exclude_null {
            write::str(row, b"exclude_null");
            write::boolean(row, true);
        }
        if let Some(collation) = self.collation {
            write::str(row, b"collation");
            write::uint(row, collation.into());
        }
    }
}

impl From<&str> for PartSpec {
    fn from(place: &str) -> Self {
        Self::new(place)
    }
}

impl From<String> for PartSpec {
    fn from(place: String) -> Self {
        Self::new(place)
    }
}

/// A row with another value in one field.
fn with_field(row: &[u8], field: u32, value: &[u8]) -> Vec<u8> {
    let (count, _) = read::array(row, 0).unwrap_or_default();
    let mut out = Vec::new();
    write::array(&mut out, count);
    for number in 0..count {
        let at = look::element(row, 0, number).unwrap_or(row.len());
        let end = look::element(row, 0, number + 1).unwrap_or(row.len());
        out.extend_from_slice(if number == field { value } else { &row[at..end] });
    }
    out
}

impl Transaction<'_> {
    /// Makes a space with its indexes.
    ///
    /// # Errors
    /// `Schema`: a definition that makes no sense. `DuplicateKey`: the name or the id is taken. `Unsupported`: an index that
    /// this version does not keep. Nothing has changed then.
    pub fn create_space(&mut self, spec: SpaceSpec) -> Result<SpaceHandle> {
        self.whole(|tx| {
            let id = tx.id_for(&spec)?;
            tx.put_row(system::SPACE_ID, &spec.row(id), true)?;
            tx.catalog().settle_all()?;
            for (number, index) in spec.indexes.iter().enumerate() {
                let row = index.row(tx.def(id)?, number as u32)?;
                tx.put_row(system::INDEX_ID, &row, true)?;
            }
            tx.catalog().settle_all()?;
            tx.check_kept(id)?;
            let generation = tx.catalog().look(id).map_or(0, |table| table.generation);
            Ok(SpaceHandle { id, generation })
        })
    }

    /// Drops a space with its tuples and all that the system spaces say of it.
    ///
    /// # Errors
    /// `NoSuchSpace`, `StaleSpace`; `Usage`: a foreign key refers to it.
    pub fn drop_space(&mut self, space: impl Into<SpaceSelector>) -> Result<()> {
        let id = self.user_space(&space.into())?;
        self.whole(|tx| {
            let sequences: Vec<Vec<u8>> =
                tx.catalog().rows(system::SPACE_SEQUENCE_ID).map(<[u8]>::to_vec).collect();
            let gone = LeftOut::new([id].into(), sequences.iter().map(Vec::as_slice));
            for referring in [system::SPACE_ID, FK_CONSTRAINT_ID] {
                if tx.catalog().rows(referring).any(|row| gone.missed_by(referring, row).is_some()) {
                    return Err(Error::new(ErrorKind::Usage, "a space to be dropped")
                        .expected("none that a foreign key refers to")
                        .space(id));
                }
            }
            for system_id in about_spaces() {
                let rows: Vec<Vec<u8>> = tx
                    .catalog()
                    .rows(system_id)
                    .filter(|row| gone.takes(system_id, row))
                    .map(<[u8]>::to_vec)
                    .collect();
                // The primary index goes last.
                rows.iter().rev().try_for_each(|row| tx.remove_row(system_id, row))?;
            }
            tx.catalog().settle_all()
        })
    }

    /// Makes a space empty. Views see what they saw.
    ///
    /// # Errors
    /// `NoSuchSpace`, `StaleSpace`.
    pub fn truncate(&mut self, space: impl Into<SpaceSelector>) -> Result<()> {
        let id = self.user_space(&space.into())?;
        self.whole(|tx| {
            let times = tx.row_of(system::TRUNCATE_ID, &[id]).and_then(|row| look::id(&row, 1)).unwrap_or(0);
            let mut row = Vec::new();
            write::array(&mut row, 2);
            write::uint(&mut row, id.into());
            write::uint(&mut row, times.saturating_add(1).into());
            tx.put_row(system::TRUNCATE_ID, &row, false)?;
            tx.catalog().settle_all()
        })
    }

    /// Gives a space another name.
    ///
    /// # Errors
    /// `NoSuchSpace`, `StaleSpace`; `DuplicateKey`: the name is taken.
    pub fn rename_space(&mut self, space: impl Into<SpaceSelector>, name: &str) -> Result<()> {
        let mut value = Vec::new();
        write::str(&mut value, name.as_bytes());
        self.alter_space(&space.into(), 2, &value)
    }

    /// Gives a space the fields of `spec` as its format; nothing else of it counts. All tuples are checked.
    ///
    /// # Errors
    /// `NoSuchSpace`, `StaleSpace`; `Schema`: an index does not fit the format; `TupleFormat`: a tuple does not.
    pub fn set_format(&mut self, space: impl Into<SpaceSelector>, spec: &SpaceSpec) -> Result<()> {
        self.alter_space(&space.into(), 6, &spec.format())
    }

    fn alter_space(&mut self, space: &SpaceSelector, field: u32, value: &[u8]) -> Result<()> {
        let id = self.user_space(space)?;
        self.whole(|tx| {
            let row = tx.row_of(system::SPACE_ID, &[id]).ok_or_else(|| no_row(id))?;
            tx.put_row(system::SPACE_ID, &with_field(&row, field, value), false)?;
            tx.catalog().settle_all()?;
            tx.check_kept(id)
        })
    }

    /// Makes another index of a space. It is built by all threads that the options allow.
    ///
    /// # Errors
    /// `NoSuchSpace`, `StaleSpace`; `Schema`, `Unsupported` for the definition; `DuplicateKey`: the name is taken, or two
    /// tuples have the same key; `TupleFormat`: a tuple has no such key; `Limit`: too many indexes. `Memory`.
    pub fn create_index(&mut self, space: impl Into<SpaceSelector>, spec: IndexSpec) -> Result<()> {
        let id = self.user_space(&space.into())?;
        self.whole(|tx| {
            let def = tx.def(id)?;
            let free = (0..INDEXES_MAX).find(|&number| def.index_by_id(number).is_none());
            let number =
                free.ok_or_else(|| Error::new(ErrorKind::Limit, "indexes of a space").found(INDEXES_MAX))?;
            let row = spec.row(def, number)?;
            tx.put_row(system::INDEX_ID, &row, true)?;
            tx.catalog().settle_all()?;
            tx.check_kept(id)
        })
    }

    /// Defines an index anew, under the name that `spec` has.
    ///
    /// # Errors
    /// `NoSuchIndex`; and as [`Transaction::create_index`].
    pub fn alter_index(
        &mut self,
        space: impl Into<SpaceSelector>,
        name: &str,
        spec: IndexSpec,
    ) -> Result<()> {
        let id = self.user_space(&space.into())?;
        self.whole(|tx| {
            let def = tx.def(id)?;
            let row = spec.row(def, index_named(def, name)?.id)?;
            tx.put_row(system::INDEX_ID, &row, false)?;
            tx.catalog().settle_all()?;
            tx.check_kept(id)
        })
    }

    /// Drops an index; the primary one, with all tuples, only as the last.
    ///
    /// # Errors
    /// `NoSuchSpace`, `StaleSpace`, `NoSuchIndex`; `Schema`: the primary index of a space that has others.
    pub fn drop_index(&mut self, space: impl Into<SpaceSelector>, name: &str) -> Result<()> {
        let id = self.user_space(&space.into())?;
        self.whole(|tx| {
            let def = tx.def(id)?;
            let index = index_named(def, name)?;
            if index.id == 0 && def.indexes.len() > 1 {
                return Err(Error::new(ErrorKind::Schema, "the primary index")
                    .expected("to be dropped after all others")
                    .space(&def.name));
            }
            let key = [id, index.id];
            let row = tx.row_of(system::INDEX_ID, &key).ok_or_else(|| no_row(id))?;
            tx.remove_row(system::INDEX_ID, &row)?;
            tx.catalog().settle_all()
        })
    }

    fn def(&mut self, id: u32) -> Result<&SpaceDef> {
        self.catalog().schema.space_by_id(id).ok_or_else(|| no_row(id))
    }

    /// The id of a space that a definition is about.
    fn user_space(&mut self, selector: &SpaceSelector) -> Result<u32> {
        let id = rows::find(&self.catalog().schema, selector)?.id;
        if let SpaceSelector::Handle(_) = selector {
            // A space without a primary index has no table, and no handle of its own either.
            self.space(selector.clone())?;
        }
        if id < SYSTEM_SPACE_ID_END {
            return Err(
                Error::new(ErrorKind::Unsupported, "to change the definition of a system space").space(id)
            );
        }
        Ok(id)
    }

    /// An id for a new space; `_schema` knows the greatest that there ever was.
    fn id_for(&mut self, spec: &SpaceSpec) -> Result<u32> {
        if let Some(id) = spec.id {
            return match id {
                SYSTEM_SPACE_ID_END..=SPACE_ID_MAX => Ok(id),
                _ => Err(Error::new(ErrorKind::Schema, "id of a space")
                    .expected(format_args!("{SYSTEM_SPACE_ID_END} to {SPACE_ID_MAX}"))
                    .found(id)),
            };
        }
        let catalog = self.catalog();
        let known = catalog.rows(system::SCHEMA_ID).find(|row| look::text(row, 0) == Some("max_id"));
        let known = known.and_then(|row| look::id(row, 1)).unwrap_or(SYSTEM_SPACE_ID_END - 1);
        let greatest = catalog.schema.spaces().last().map_or(0, |space| space.id);
        let id = known.max(greatest).max(SYSTEM_SPACE_ID_END - 1) + 1;
        if id > SPACE_ID_MAX {
            return Err(Error::new(ErrorKind::Limit, "ids of spaces")
                .expected(format_args!("at most {SPACE_ID_MAX}")));
        }
        let mut row = Vec::new();
        write::array(&mut row, 2);
        write::str(&mut row, b"max_id");
        write::uint(&mut row, id.into());
        self.put_row(system::SCHEMA_ID, &row, false)?;
        Ok(id)
    }

    /// That all indexes of a space are ones that this version keeps.
    fn check_kept(&mut self, id: u32) -> Result<()> {
        let def = self.def(id)?;
        match def.indexes.iter().find_map(|index| Some((index, index.absent.as_deref()?))) {
            Some((index, why)) => {
                Err(Error::new(ErrorKind::Unsupported, format!("index {}: {why}", index.name))
                    .space(&def.name))
            }
            None => Ok(()),
        }
    }

    /// The row of a system space with a primary key of numbers.
    fn row_of(&mut self, system_id: u32, parts: &[u32]) -> Option<Vec<u8>> {
        let is_it =
            |row: &&[u8]| parts.iter().zip(0..).all(|(&part, field)| look::id(row, field) == Some(part));
        self.catalog().rows(system_id).find(is_it).map(<[u8]>::to_vec)
    }

    /// Puts a row into a system space; definitions follow.
    fn put_row(&mut self, system_id: u32, row: &[u8], is_insert: bool) -> Result<()> {
        let Living { table, writer, .. } =
            self.catalog().change(system_id).ok_or_else(|| no_row(system_id))?;
        let new = writer.put(table, row)?;
        let old = writer.find_present(table, new)?;
        let request = if is_insert { Request::Insert(new) } else { Request::Replace(new) };
        writer.execute(table, &request, (&[], new.hint), &mut Told::default())?;
        self.count_row();
        self.catalog().follow(system_id, old.as_deref(), Some(row), is_insert)
    }

    /// Removes the row with the primary key of this one from a system space; definitions follow.
    fn remove_row(&mut self, system_id: u32, row: &[u8]) -> Result<()> {
        let Living { table, .. } = self.catalog().change(system_id).ok_or_else(|| no_row(system_id))?;
        let primary = table.def.primary().map(|index| index.parts.clone()).unwrap_or_default();
        let mut key = Vec::new();
        write::array(&mut key, primary.len() as u32);
        for part in &primary {
            let at = part.place_in(row).ok_or_else(|| no_row(system_id))?;
            let end = skip::skip(row, at).map_err(|fault| fault.error(row))?;
            key.extend_from_slice(&row[at..end]);
        }
        let Living { table, writer, .. } =
            self.catalog().change(system_id).ok_or_else(|| no_row(system_id))?;
        let hint = writer.key_hint(table, &key)?;
        let Some(old) = writer.find(table, &key, hint)? else { return Ok(()) };
        let old = table.arena.get(old).data().to_vec();
        writer.execute(table, &Request::Delete, (&key, hint), &mut Told::default())?;
        self.count_row();
        self.catalog().follow(system_id, Some(&old), None, false)
    }
}

fn no_row(id: u32) -> Error {
    Error::new(ErrorKind::NoSuchSpace, format!("no space {id}"))
}

fn index_named<'a>(def: &'a SpaceDef, name: &str) -> Result<&'a IndexDef> {
    def.index_by_name(name)
        .ok_or_else(|| Error::new(ErrorKind::NoSuchIndex, format!("no index {name:?}")).space(&def.name))
}

impl Store {
    /// [`Transaction::create_space`] in a transaction of its own.
    ///
    /// # Errors
    /// As there.
    pub fn create_space(&self, spec: SpaceSpec) -> Result<SpaceHandle> {
        self.write(|tx| tx.create_space(spec))
    }

    /// [`Transaction::drop_space`] in a transaction of its own.
    ///
    /// # Errors
    /// As there.
    pub fn drop_space(&self, space: impl Into<SpaceSelector>) -> Result<()> {
        self.write(|tx| tx.drop_space(space))
    }

    /// [`Transaction::truncate`] in a transaction of its own.
    ///
    /// # Errors
    /// As there.
    pub fn truncate(&self, space: impl Into<SpaceSelector>) -> Result<()> {
        self.write(|tx| tx.truncate(space))
    }

    /// [`Transaction::create_index`] in a transaction of its own.
    ///
    /// # Errors
    /// As there.
    pub fn create_index(&self, space: impl Into<SpaceSelector>, spec: IndexSpec) -> Result<()> {
        self.write(|tx| tx.create_index(space, spec))
    }

    /// [`Transaction::drop_index`] in a transaction of its own.
    ///
    /// # Errors
    /// As there.
    pub fn drop_index(&self, space: impl Into<SpaceSelector>, name: &str) -> Result<()> {
        self.write(|tx| tx.drop_index(space, name))
    }
}
