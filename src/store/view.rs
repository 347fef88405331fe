//! A view of a store: definitions, spaces, indexes and tuples as they were at one moment.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::options::{SpaceHandle, SpaceSelector};
use super::rows;
use super::state::{Registry, State};
use crate::error::{Error, ErrorKind, Result};
use crate::index::iterator::IteratorType;
use crate::msgpack::{print, read, skip};
use crate::space::catalog::Schema;
use crate::space::definition::{IndexDef, SpaceDef};
use crate::space::table::{self, IndexData, Table};
use crate::tuple::field_map::{self, FieldMapBuf, StoredTuple, encoded_bytes};

/// A store as it was at one moment, whatever is written meanwhile.
///
/// To make one costs the same whatever the store holds, and so does to clone it. It may be held for as long as one likes
/// and moved to any thread. What it costs is the memory of what it alone still sees.
///
/// ```
/// let store = lycosa::Store::open("snapshots/2.6/02-one-space")?;
/// let view = store.read_view();
/// let users = view.space("users")?;
/// let tuple = users.primary()?.get((14,))?.expect("the sample has a user 14");
/// let (id, name, age): (u64, &str, u32) = tuple.decode()?;
/// assert_eq!((id, name, age), (14, "dqsxi", 34));
/// # Ok::<(), lycosa::Error>(())
/// ```
pub struct ReadView {
    pub(super) state: Arc<State>,
    registry: Arc<Registry>,
}

impl ReadView {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        Self { state: registry.enter(), registry: registry.clone() }
    }

    /// The definitions of all spaces, also of those that are not in memory.
    pub fn schema(&self) -> &Schema {
        &self.state.schema
    }

    /// The vclock of the last transaction that the view has: `{1: 100}`.
    pub fn vclock(&self) -> String {
        self.state.vclock.to_string()
    }

    /// The spaces in memory, by id; the system spaces among them.
    pub fn spaces(&self) -> impl Iterator<Item = Space<'_>> {
        self.state.tables.iter().map(|table| Space { table })
    }

    /// A space in memory.
    ///
    /// # Errors
    /// `NoSuchSpace`: nothing of that name or id. `StaleSpace`: the space of that handle was dropped. `Absent`: it is
    /// defined, but its data is not in memory; the error says why.
    pub fn space(&self, selector: impl Into<SpaceSelector>) -> Result<Space<'_>> {
        find(&self.state.schema, &selector.into(), |id| self.state.tables.get(id).map(|table| &**table))
    }

    /// The one tuple with a key of the primary index: [`Index::get`].
    ///
    /// # Errors
    /// As [`ReadView::space`] and [`Index::get`].
    pub fn get(&self, space: impl Into<SpaceSelector>, key: impl Serialize) -> Result<Option<Tuple<'_>>> {
        self.space(space)?.primary()?.get(key)
    }

    /// The tuples that an iterator meets in an index: [`Index::select`].
    ///
    /// # Errors
    /// As [`ReadView::space`], [`Space::index`] and [`Index::select`].
    pub fn select(
        &self,
        space: impl Into<SpaceSelector>,
        index: &str,
        iterator: IteratorType,
        key: impl Serialize,
    ) -> Result<Select<'_>> {
        self.space(space)?.index(index)?.select(iterator, key)
    }
}

impl Clone for ReadView {
    fn clone(&self) -> Self {
        self.registry.enter_again(&self.state);
        Self { state: self.state.clone(), registry: self.registry.clone() }
    }
}

impl Drop for ReadView {
    fn drop(&mut self) {
        self.registry.leave(self.state.version);
    }
}

impl fmt::Debug for ReadView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.spaces()).finish()
    }
}

/// The space that a selector names.
pub(super) fn find<'a>(
    schema: &Schema,
    selector: &SpaceSelector,
    table: impl Fn(u32) -> Option<&'a Table>,
) -> Result<Space<'a>> {
    let def = rows::find(schema, selector)?;
    let Some(table) = table(def.id) else {
        let why = def.absent.as_deref().unwrap_or("not among the spaces that were to be loaded");
        return Err(Error::new(ErrorKind::Absent, why).space(&def.name));
    };
    match selector {
        SpaceSelector::Handle(handle) if handle.generation != table.generation => Err(stale(&def.name)),
        _ => Ok(Space { table }),
    }
}

/// A handle is of a space that is gone.
#[cold]
pub(super) fn stale(name: &str) -> Error {
    Error::new(ErrorKind::StaleSpace, "space of a handle")
        .expected("the space that the handle was made for")
        .found("another one with its id")
        .space(name)
}

/// A space, as a [`ReadView`] or a [`Transaction`](crate::Transaction) sees it.
#[derive(Clone, Copy)]
pub struct Space<'a> {
    pub(super) table: &'a Table,
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

    /// A name for it that is found faster than any other, and that no other space will ever have.
    pub fn handle(&self) -> SpaceHandle {
        SpaceHandle { id: self.table.def.id, generation: self.table.generation }
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

    /// CRC-32 of the tuples in the order of the primary key; where that is a HASH, the sum of each tuple's CRC-32. It is
    /// made when a store is opened; once the space has been written to there is none.
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
    pub(super) table: &'a Table,
    def: &'a IndexDef,
    pub(super) data: &'a IndexData,
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

    /// The one tuple with a key; the key is any value that serialises as an array: `(5,)`, `("a", 1)`; `()`
    /// has no parts.
    ///
    /// # Errors
    /// `Key`: the key is not a whole one of the right types, or the index is not unique.
    pub fn get(&self, key: impl Serialize) -> Result<Option<Tuple<'a>>> {
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
    pub fn select(&self, iterator: IteratorType, key: impl Serialize) -> Result<Select<'a>> {
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

    /// As [`Index::select`], from behind a tuple on that the iterator has met: the next page. The tuple is MsgPack, and need
    /// not be there any more.
    ///
    /// ```
    /// use lycosa::IteratorType::Ge;
    ///
    /// let view = lycosa::Store::open("snapshots/2.6/02-one-space")?.read_view();
    /// let index = view.space("users")?.primary()?;
    /// let first: Vec<_> = index.select(Ge, (10,))?.take(6).collect();
    /// let page = index.select_after(Ge, (10,), first[2].bytes())?.take(3);
    /// assert!(page.map(|tuple| tuple.bytes()).eq(first[3..].iter().map(|tuple| tuple.bytes())));
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Index::select`]; `Key` if the iterator does not meet the tuple; `MsgPack` and `TupleFormat` for the tuple;
    /// `Unsupported` in a HASH or a multikey index.
    pub fn select_after(
        &self,
        iterator: IteratorType,
        key: impl Serialize,
        after: &[u8],
    ) -> Result<Select<'a>> {
        self.select_after_raw(iterator, &encode(key)?, after)
    }

    /// As [`Index::select_after`], with the key as MsgPack.
    ///
    /// # Errors
    /// As [`Index::select_after`].
    pub fn select_after_raw(&self, iterator: IteratorType, key: &[u8], after: &[u8]) -> Result<Select<'a>> {
        let mut map = FieldMapBuf::default();
        let end =
            self.table.format.walk(after, 0, &mut map).map_err(|fault| self.placed(fault.into_error()))?;
        let mut stored = vec![0; encoded_bytes(end, &map)];
        field_map::encode(&mut stored, &after[..end], &map);
        let select = self.data.select_after(iterator, key, StoredTuple::new(&stored));
        Ok(Select { table: self.table, select: select.map_err(|error| self.placed(error))? })
    }

    /// The number of tuples that [`Index::select`] would give, by walking over them.
    ///
    /// # Errors
    /// As [`Index::select`].
    pub fn count(&self, iterator: IteratorType, key: impl Serialize) -> Result<u64> {
        Ok(self.select(iterator, key)?.count() as u64)
    }

    /// The first tuple in the order of the index; of a HASH index any.
    pub fn min(&self) -> Option<Tuple<'a>> {
        self.iter().next()
    }

    /// The last tuple in the order of the index.
    ///
    /// # Errors
    /// `Key`: a HASH index has none.
    pub fn max(&self) -> Result<Option<Tuple<'a>>> {
        Ok(self.select_raw(IteratorType::Le, &[0x90])?.next())
    }

    /// Some tuple, by a seed; the same one for the same seed, as long as nothing changes. All are about equally likely.
    pub fn random(&self, seed: u64) -> Option<Tuple<'a>> {
        self.data.random(seed).map(|stored| Tuple { table: self.table, stored })
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

/// A key as MsgPack; `()` and nothing at all are the key of no parts.
pub(super) fn encode(key: impl Serialize) -> Result<Vec<u8>> {
    const NIL: &[u8] = &[0xc0];
    match rmp_serde::to_vec(&key) {
        Ok(key) if key == NIL => Ok(vec![0x90]),
        Ok(key) => Ok(key),
        Err(error) => Err(Error::new(ErrorKind::Key, format!("the key cannot be serialised: {error}"))),
    }
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

/// A tuple of a [`Space`]; its bytes are those that were written.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    pub(super) table: &'a Table,
    pub(super) stored: StoredTuple<'a>,
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

    /// The MsgPack of a field by its name in the space's format, or of what is inside one by a path, as Tarantool writes
    /// it: `name`, `[2].street`, `tags[1]`. Numbers in paths count from 1.
    ///
    /// ```
    /// let view = lycosa::Store::open("snapshots/2.6/02-one-space")?.read_view();
    /// let tuple = view.get("users", (14,))?.expect("the sample has a user 14");
    /// assert_eq!(tuple.at("name"), tuple.field(1));
    /// assert_eq!(tuple.at("[1]"), tuple.field(0));
    /// assert_eq!(tuple.at("nobody"), None);
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    pub fn at(&self, path: &str) -> Option<&'a [u8]> {
        let (field, below) = self.table.def.locate(path)?;
        let Some(below) = below else { return self.field(field) };
        let data = self.bytes();
        let at = below.place_in(data, self.stored.field(&self.table.format, field)?)?;
        Some(&data[at..skip::skip(data, at).ok()?])
    }

    /// Decodes the whole tuple. Strings and binary data may be borrowed from it.
    ///
    /// # Errors
    /// `MsgPack`: the type does not fit.
    pub fn decode<T: Deserialize<'a>>(&self) -> Result<T> {
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
