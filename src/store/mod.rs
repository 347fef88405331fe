//! The running whole: a store that has been recovered from a folder, and ways to its tuples.

mod batch;
pub(crate) mod diff;
pub(crate) mod export;
mod lenient;
mod limbo;
pub(crate) mod options;
mod recover;
mod replay;
pub(crate) mod report;
mod rows;
pub(crate) mod salvage;
mod sequences;
pub(crate) mod snapshot;
pub(crate) mod stats;
mod synchro;
#[expect(unsafe_code, reason = "getrusage fills a C struct")]
mod usage;

use std::fmt;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};
use crate::index::iterator::IteratorType;
use crate::msgpack::{print, read, skip};
use crate::space::catalog::Schema;
use crate::space::definition::{IndexDef, SpaceDef};
use crate::space::table::{self, IndexData, Table};
use crate::tuple::field_map::StoredTuple;
use options::{Options, SpaceSelector};
use report::LoadReport;

/// A store in memory, opened from what Tarantool wrote.
///
/// It is read-only; look-ups and scans may come from any number of threads at once.
///
/// ```
/// let store = lycosa::Store::open("snapshots/2.6/02-one-space")?;
/// let users = store.space("users")?;
/// let tuple = users.primary()?.get(&(14,))?.expect("the sample has a user 14");
/// let (id, name, age): (u64, String, u32) = tuple.decode()?;
/// assert_eq!((id, name.as_str(), age), (14, "dqsxi", 34));
/// # Ok::<(), lycosa::Error>(())
/// ```
pub struct Store {
    schema: Schema,
    tables: Vec<Table>,
    report: LoadReport,
    origin: recover::Origin,
}

impl Store {
    /// Opens a data folder: its newest snapshot, and every transaction that its logs hold after that; or a lone `.snap`
    /// file.
    ///
    /// # Errors
    /// Whatever is wrong with a file, with its place. The end of the last log may be torn, as a crash leaves it: it is left
    /// out, and the report tells.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &Options::new())
    }

    /// Opens with options.
    ///
    /// # Errors
    /// As [`Store::open`]; `Memory` where a limit is reached, `NoSuchSpace` and `Absent` for spaces asked for.
    pub fn open_with(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let recover::Recovered { schema, tables, report, origin } = recover::recover(path.as_ref(), options)?;
        Ok(Self { schema, tables, report, origin })
    }

    /// The definitions of all spaces, also of those that were not loaded.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What opening the store did and cost.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// The spaces in memory, by id; the system spaces among them.
    pub fn spaces(&self) -> impl Iterator<Item = Space<'_>> {
        self.tables.iter().map(|table| Space { table })
    }

    /// A space in memory.
    ///
    /// # Errors
    /// `NoSuchSpace`: nothing of that name or id. `Absent`: it is defined, but its data is not in memory; the error
    /// says why.
    pub fn space(&self, selector: impl Into<SpaceSelector>) -> Result<Space<'_>> {
        let def = rows::find(&self.schema, &selector.into())?;
        match self.tables.binary_search_by_key(&def.id, |table| table.def.id) {
            Ok(at) => Ok(Space { table: &self.tables[at] }),
            Err(_) => {
                let why = def.absent.as_deref().unwrap_or("not among the spaces that were to be loaded");
                Err(Error::new(ErrorKind::Absent, why).space(&def.name))
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.spaces()).finish()
    }
}

impl Schema {
    /// Reads the definitions alone, from the newest snapshot of a folder or a lone `.snap` file.
    ///
    /// # Errors
    /// As [`Store::open`], for the part of the file that holds definitions.
    pub fn read(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        recover::read_schema(path.as_ref(), options)
    }
}

/// A space of a [`Store`].
#[derive(Clone, Copy)]
pub struct Space<'a> {
    table: &'a Table,
}

impl fmt::Debug for Space<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("name", &self.def().name)
            .field("tuples", &self.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Space<'a> {
    /// Its definition.
    pub fn def(&self) -> &'a SpaceDef {
        &self.table.def
    }

    /// Number of tuples.
    pub fn len(&self) -> u64 {
        self.table.tuples
    }

    /// Whether there is no tuple.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the tuples' MsgPack.
    pub fn bytes(&self) -> u64 {
        self.table.bytes
    }

    /// CRC-32 of the tuples in the order of the primary key; where that is a HASH, the sum of each tuple's CRC-32.
    pub fn fingerprint(&self) -> Option<u32> {
        self.table.fingerprint
    }

    /// The primary index.
    ///
    /// # Errors
    /// `Absent`, with the reason.
    pub fn primary(&self) -> Result<Index<'a>> {
        self.index_by_id(0)
    }

    /// The index of this name.
    ///
    /// # Errors
    /// `NoSuchIndex`; `Absent`, with the reason.
    pub fn index(&self, name: &str) -> Result<Index<'a>> {
        self.find(|index| index.name == name, || format!("no index {name:?}"))
    }

    /// The index of this id.
    ///
    /// # Errors
    /// `NoSuchIndex`; `Absent`, with the reason.
    pub fn index_by_id(&self, id: u32) -> Result<Index<'a>> {
        self.find(|index| index.id == id, || format!("no index {id}"))
    }

    fn find(&self, is: impl Fn(&IndexDef) -> bool, none: impl Fn() -> String) -> Result<Index<'a>> {
        let table = self.table;
        let in_space = |error: Error| error.space(&table.def.name);
        let Some(number) = table.def.indexes.iter().position(is) else {
            return Err(in_space(Error::new(ErrorKind::NoSuchIndex, none())));
        };
        let def = &table.def.indexes[number];
        match &table.indexes[number] {
            Some(data) => Ok(Index { table, def, data }),
            None => {
                let why = def.absent.as_deref().unwrap_or_default();
                Err(in_space(Error::new(ErrorKind::Absent, format!("index {} is absent: {why}", def.name))))
            }
        }
    }
}

/// An index of a [`Space`].
#[derive(Clone, Copy)]
pub struct Index<'a> {
    table: &'a Table,
    def: &'a IndexDef,
    data: &'a IndexData,
}

impl fmt::Debug for Index<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut index = f.debug_struct("Index");
        index
            .field("space", &self.table.def.name)
            .field("name", &self.def.name)
            .field("entries", &self.len());
        index.finish_non_exhaustive()
    }
}

impl<'a> Index<'a> {
    /// Its definition.
    pub fn def(&self) -> &'a IndexDef {
        self.def
    }

    /// Number of entries: more than tuples in a multikey index, fewer where nil is excluded.
    pub fn len(&self) -> u64 {
        self.data.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of its nodes.
    pub fn bytes(&self) -> u64 {
        self.data.bytes()
    }

    /// The one tuple with a key; the key is any value that serialises as an array: `&(5,)`, `&("a", 1)`.
    ///
    /// # Errors
    /// `Key`: the key is not a whole one of the right types, or the index is not unique.
    pub fn get<K: Serialize + ?Sized>(&self, key: &K) -> Result<Option<Tuple<'a>>> {
        self.get_raw(&encode(key)?)
    }

    /// The one tuple with a key that is given as MsgPack: an array of the parts' values.
    ///
    /// # Errors
    /// As [`Index::get`].
    pub fn get_raw(&self, key: &[u8]) -> Result<Option<Tuple<'a>>> {
        let found = self.data.get(key).map_err(|error| self.placed(error))?;
        Ok(found.map(|stored| Tuple { table: self.table, stored }))
    }

    /// The tuples that an iterator meets from a key on; the key may have fewer parts than the index.
    ///
    /// # Errors
    /// `Key`: the key has too many parts or wrong types, or the index does not have the iterator.
    pub fn select<K: Serialize + ?Sized>(&self, iterator: IteratorType, key: &K) -> Result<Select<'a>> {
        self.select_raw(iterator, &encode(key)?)
    }

    /// As [`Index::select`], with the key as MsgPack.
    ///
    /// # Errors
    /// As [`Index::select`].
    pub fn select_raw(&self, iterator: IteratorType, key: &[u8]) -> Result<Select<'a>> {
        let select = self.data.select(iterator, key).map_err(|error| self.placed(error))?;
        Ok(Select { table: self.table, select })
    }

    /// All tuples in the order of the index; a tuple once for each of its keys.
    pub fn iter(&self) -> Select<'a> {
        Select { table: self.table, select: self.data.all() }
    }

    /// Reads a search key from JSON, an array: numbers by the part's type; strings for string, decimal, uuid and
    /// datetime (RFC 3339) parts; `{"hex": "..."}` for varbinary; null.
    ///
    /// # Errors
    /// `Key`, with the part and what was expected.
    pub fn key_from_json(&self, text: &str) -> Result<Vec<u8>> {
        self.def.key_from_json(text).map_err(|error| self.placed(error))
    }

    fn placed(&self, error: Error) -> Error {
        error.space(format_args!("{}, index {}", self.table.def.name, self.def.name))
    }
}

fn encode<K: Serialize + ?Sized>(key: &K) -> Result<Vec<u8>> {
    rmp_serde::to_vec(key)
        .map_err(|error| Error::new(ErrorKind::Key, format!("the key cannot be serialised: {error}")))
}

/// Tuples of an index, one after the other.
pub struct Select<'a> {
    table: &'a Table,
    select: table::Select<'a>,
}

impl<'a> Iterator for Select<'a> {
    type Item = Tuple<'a>;

    #[inline]
    fn next(&mut self) -> Option<Tuple<'a>> {
        let stored = self.select.next()?;
        Some(Tuple { table: self.table, stored })
    }
}

/// A tuple of a [`Space`]; its bytes are those that Tarantool wrote.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    table: &'a Table,
    stored: StoredTuple<'a>,
}

impl fmt::Debug for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

impl<'a> Tuple<'a> {
    /// The tuple as MsgPack: an array.
    pub fn bytes(&self) -> &'a [u8] {
        self.stored.data()
    }

    /// Number of fields.
    pub fn len(&self) -> u32 {
        read::array(self.bytes(), 0).map_or(0, |(count, _)| count)
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The MsgPack of a field, counted from 0. A field that an index reaches is found at once, another one by
    /// skipping from the nearest such field before it.
    pub fn field(&self, field: u32) -> Option<&'a [u8]> {
        let data = self.bytes();
        let at = self.stored.field(&self.table.format, field)?;
        let end = skip::skip(data, at).ok()?;
        Some(&data[at..end])
    }

    /// Decodes the whole tuple.
    ///
    /// # Errors
    /// `MsgPack`: the type does not fit.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        rmp_serde::from_slice(self.bytes()).map_err(|error| {
            Error::new(ErrorKind::MsgPack, format!("decoding a tuple: {error}")).space(&self.table.def.name)
        })
    }

    /// The tuple as one line of JSON; see the README for how binary data, extensions and the like are written.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        // A stored tuple has been checked; a fault would only cut the text short.
        let _ = print::json(&mut out, self.bytes(), 0);
        out
    }
}
