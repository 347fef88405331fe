//! Changing a space: its tuples and all its indexes, in step. The one way in which they change after they were built.
//!
//! ```text
//! walk    the tuple's types are checked, its field map made
//! store   into the arena: from here on it can be compared with others, and nobody knows it
//! check   in every unique index: is the key free, or that of the tuple that goes?
//! reserve the nodes that the edits below may need
//! apply   each index: the old entry replaced in its place where the key is the same, or removed, and the new one inserted
//! free    the tuple that went
//! ```
//!
//! Whatever fails does so before `apply`: a statement is in all indexes or in none, and the tuple that was stored for it
//! is given back.

use std::cmp::Ordering;

use super::table::{IndexData, Table, duplicate_key};
use crate::error::{Error, ErrorKind, Result};
use crate::index::build::{Built, RECOVERY_TXN};
use crate::index::key_def::{Entry as Position, KeyDef};
use crate::index::multikey;
use crate::index::tree::edit::Edit;
use crate::index::tree::node::{Entry, NodeId, NodeWriter};
use crate::index::tree::search::Probe;
use crate::index::tree::{LEVELS_MAX, Tree};
use crate::tuple::arena::{Arena, ArenaWriter};
use crate::tuple::field_map::FieldMapBuf;
use crate::tuple::slab::Handle;

/// The writing side of a table. There is one of it, and while it is used nobody else looks at the table.
pub(crate) struct TableWriter {
    arena: ArenaWriter,
    nodes: NodeWriter,
    map: FieldMapBuf,
    /// Nodes that an edit has put out of use.
    retired: Vec<NodeId>,
    /// Elements of a tuple's entries in a multikey index.
    elements: Vec<u32>,
}

impl TableWriter {
    pub(crate) fn new(table: &Table) -> Self {
        Self {
            arena: ArenaWriter::new(table.arena.clone()),
            nodes: NodeWriter::new(table.pool.clone()),
            map: FieldMapBuf::default(),
            retired: Vec::new(),
            elements: Vec::new(),
        }
    }

    /// Inserts a tuple.
    ///
    /// # Errors
    /// `MsgPack`, `TupleFormat`; `DuplicateKey`: a unique index has its key; `Memory`.
    pub(crate) fn insert(&mut self, table: &mut Table, tuple: &[u8]) -> Result<()> {
        let new = self.store(table, tuple)?;
        self.give_back_on_error(new, |writer| match primary(table)?.find_equal(new, 0) {
            None => writer.put(table, None, new),
            Some(other) => {
                Err(duplicate_key(&table.def, 0, table.arena.get(other).data(), table.arena.get(new).data()))
            }
        })
    }

    /// Puts a tuple in the place of the one with the same primary key, if there is one.
    ///
    /// # Errors
    /// As [`Self::insert`]; `DuplicateKey` only where another tuple than the one that goes has a key.
    pub(crate) fn replace(&mut self, table: &mut Table, tuple: &[u8]) -> Result<()> {
        let new = self.store(table, tuple)?;
        self.give_back_on_error(new, |writer| {
            let old = primary(table)?.find_equal(new, 0);
            writer.put(table, old, new)
        })
    }

    /// Removes the tuple with this primary key; `false`: there is none.
    ///
    /// # Errors
    /// `Key`: it is not a whole primary key.
    pub(crate) fn delete(&mut self, table: &mut Table, key: &[u8]) -> Result<bool> {
        match self.find(table, key)? {
            Some(old) => self.remove(table, old).map(|()| true),
            None => Ok(false),
        }
    }

    /// The tuple with this primary key.
    ///
    /// # Errors
    /// `Key`: it is not a whole primary key.
    pub(crate) fn find(&self, table: &Table, key: &[u8]) -> Result<Option<Handle>> {
        primary(table)?.find(key).map_err(|error| error.space(&table.def.name))
    }

    /// The stored tuple with the primary key of a tuple that need not be stored, but has to fit the format.
    ///
    /// # Errors
    /// `MsgPack`, `TupleFormat`, `Memory`.
    pub(crate) fn find_tuple(&mut self, table: &Table, tuple: &[u8]) -> Result<Option<Handle>> {
        let new = self.store(table, tuple)?;
        let found = primary(table).map(|primary| primary.find_equal(new, 0));
        self.arena.free(new);
        found
    }

    /// Puts what an update has made of `old` in its place; `false`, and nothing done: its primary key is another one.
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub(crate) fn put_updated(&mut self, table: &mut Table, old: Handle, tuple: &[u8]) -> Result<bool> {
        let new = self.store(table, tuple)?;
        self.give_back_on_error(new, |writer| {
            if !primary(table)?.has_equal_keys(old, new) {
                writer.arena.free(new);
                return Ok(false);
            }
            writer.put(table, Some(old), new).map(|()| true)
        })
    }

    /// Removes the tuples of an index from one key (included) to another (not included), in the index's order; an empty
    /// key is no bound. Gives how many they were.
    ///
    /// # Errors
    /// `Key`: a key does not fit; `NoSuchIndex`, `Absent`, `Memory`: some tuples may be gone.
    pub(crate) fn delete_range(
        &mut self,
        table: &mut Table,
        index_id: u32,
        begin: &[u8],
        end: &[u8],
    ) -> Result<u64> {
        let number = table.def.indexes.iter().position(|index| index.id == index_id);
        let Some(index) = number.and_then(|number| table.indexes[number].as_ref()) else {
            return Err(Error::new(ErrorKind::Absent, format!("index {index_id} of a DELETE_RANGE"))
                .expected("one in memory")
                .found("none")
                .space(&table.def.name));
        };
        let mut handles = index.handles_between(begin, end).map_err(|error| error.space(&table.def.name))?;
        // A tuple may have several entries.
        handles.sort_unstable();
        handles.dedup();
        handles.iter().try_for_each(|&handle| self.remove(table, handle))?;
        Ok(handles.len() as u64)
    }

    /// Checks a tuple and stores it, known to no index.
    fn store(&mut self, table: &Table, tuple: &[u8]) -> Result<Handle> {
        let in_space = |error: Error| error.space(&table.def.name);
        let end = table.format.walk(tuple, 0, &mut self.map).map_err(|fault| in_space(fault.into_error()))?;
        debug_assert_eq!(end, tuple.len());
        self.arena.push_again(tuple, &self.map).map_err(in_space)
    }

    fn give_back_on_error<T>(
        &mut self,
        new: Handle,
        change: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let outcome = change(self);
        if outcome.is_err() {
            self.arena.free(new);
        }
        outcome
    }

    /// Puts a stored tuple into all indexes, in the place of `old` if there is one, which has the same primary key.
    fn put(&mut self, table: &mut Table, old: Option<Handle>, new: Handle) -> Result<()> {
        let mut nodes = 0;
        for (number, index) in table.indexes.iter().enumerate() {
            let Some(index) = index else { continue };
            if number > 0
                && index.key_def.unique
                && let Some(other) = self.find_conflict(index, old, new)
            {
                let data = |handle| table.arena.get(handle).data();
                return Err(duplicate_key(&table.def, number, data(other), data(new)));
            }
            nodes += Self::nodes_for(index, old) + Self::nodes_for(index, Some(new));
        }
        self.nodes.reserve(nodes).map_err(|error| error.space(&table.def.name))?;
        for index in table.indexes.iter_mut().flatten() {
            self.apply(index, old, Some(new));
        }
        table.bytes += table.arena.get(new).data().len() as u64;
        match old {
            Some(old) => self.forget(table, old),
            None => table.tuples += 1,
        }
        table.fingerprint = None;
        Ok(())
    }

    /// Takes a tuple out of all indexes.
    fn remove(&mut self, table: &mut Table, old: Handle) -> Result<()> {
        let nodes = table.indexes.iter().flatten().map(|index| Self::nodes_for(index, Some(old))).sum();
        self.nodes.reserve(nodes).map_err(|error| error.space(&table.def.name))?;
        for index in table.indexes.iter_mut().flatten() {
            self.apply(index, Some(old), None);
        }
        table.tuples -= 1;
        self.forget(table, old);
        table.fingerprint = None;
        Ok(())
    }

    /// A tuple is in no index any more.
    fn forget(&mut self, table: &mut Table, old: Handle) {
        table.bytes -= table.arena.get(old).data().len() as u64;
        self.arena.free(old);
        self.retired.drain(..).for_each(|id| self.nodes.recycle(id));
    }

    /// Another tuple than `old` that has a key of `new` in a unique index.
    fn find_conflict(&mut self, index: &IndexData, old: Option<Handle>, new: Handle) -> Option<Handle> {
        self.list_elements(index, new);
        let mut elements = self.elements.iter();
        elements.find_map(|&element| index.find_equal(new, element).filter(|&other| Some(other) != old))
    }

    /// Nodes that inserting or removing the entries of a tuple may need.
    fn nodes_for(index: &IndexData, handle: Option<Handle>) -> usize {
        let Some(handle) = handle else { return 0 };
        let entries = match index.key_def.elements {
            None => 1,
            Some(slot) => index.arena.get(handle).elements(slot).unwrap_or(0) as usize,
        };
        // An edit copies and splits, or copies and fills up, a node a level; several may add a level.
        let levels = match &index.built {
            Built::Tree(tree) => tree.levels(),
            Built::MultikeyTree(tree) => {
                (tree.levels() + entries.max(1).ilog2() as usize / 4 + 1).min(LEVELS_MAX)
            }
            Built::Hash(hash, _) => hash.tree().levels(),
        };
        entries * (2 * levels + 1)
    }

    /// The elements of the entries that a tuple has in an index.
    fn list_elements(&mut self, index: &IndexData, handle: Handle) {
        self.elements.clear();
        multikey::for_each_entry(&index.key_def, &index.arena.get(handle), |element| {
            self.elements.push(element)
        });
    }

    /// Changes one index; nothing of it can fail any more.
    fn apply(&mut self, index: &mut IndexData, old: Option<Handle>, new: Option<Handle>) {
        if index.key_def.elements.is_some() {
            for (handle, is_new) in [(old, false), (new, true)] {
                let Some(handle) = handle else { continue };
                self.list_elements(index, handle);
                for at in 0..self.elements.len() {
                    let entry = index.entry(handle, self.elements[at]);
                    let mut edit =
                        Edit { txn: RECOVERY_TXN, writer: &mut self.nodes, retired: &mut self.retired };
                    if is_new { index.insert(entry, &mut edit) } else { index.remove(entry, &mut edit) }
                }
            }
            return;
        }
        let entry = |handle: Option<Handle>| {
            let handle = handle?;
            let excludes = index.key_def.excludes;
            let is_there = !excludes || !multikey::is_excluded(&index.key_def, &index.arena.get(handle), 0);
            is_there.then(|| index.entry(handle, 0))
        };
        let (old, new) = (entry(old), entry(new));
        let mut edit = Edit { txn: RECOVERY_TXN, writer: &mut self.nodes, retired: &mut self.retired };
        match (old, new) {
            (Some(old), Some(new)) if index.is_same_place(old, new) => index.replace(old, new, &mut edit),
            (old, new) => {
                if let Some(old) = old {
                    index.remove(old, &mut edit);
                }
                if let Some(new) = new {
                    index.insert(new, &mut edit);
                }
            }
        }
    }
}

/// The primary index, without which nothing can be found.
fn primary(table: &Table) -> Result<&IndexData> {
    table.primary().ok_or_else(|| {
        let why = table.def.primary().and_then(|index| index.absent.as_deref()).unwrap_or("it has none");
        Error::new(ErrorKind::Absent, format!("the primary index is absent: {why}")).space(&table.def.name)
    })
}

const PROMISED: &str = "nodes are reserved before anything is changed";
const IN_STEP: &str = "a tuple is in every index or in none";

/// The place of a stored tuple's entry among the others.
struct EntryProbe<'a> {
    key_def: &'a KeyDef,
    arena: &'a Arena,
    hint: u64,
    position: Position<'a>,
}

impl<'a> EntryProbe<'a> {
    #[inline]
    fn new(key_def: &'a KeyDef, arena: &'a Arena, entry: Entry) -> Self {
        let position = Position { tuple: arena.get(entry.handle), element: entry.element };
        Self { key_def, arena, hint: entry.hint, position }
    }

    #[inline]
    fn compare(&self, other: Entry) -> Ordering {
        let other = Position { tuple: self.arena.get(other.handle), element: other.element };
        self.key_def.compare(other, self.position)
    }

    /// The entry of a tree that has the same key.
    #[inline]
    fn find<const MULTI: bool>(&self, tree: &Tree<MULTI>) -> Option<Handle> {
        let found = tree.lower_bound(self).entry()?;
        (found.hint == self.hint && self.compare(found).is_eq()).then_some(found.handle)
    }
}

impl Probe for EntryProbe<'_> {
    #[inline]
    fn hints(&self) -> (u64, u64) {
        (self.hint, self.hint)
    }

    #[inline]
    fn before(&self, entry: Entry) -> bool {
        self.compare(entry).is_lt()
    }
}

/// Looking for, and changing, the entries of stored tuples.
impl IndexData {
    /// The entry of a stored tuple; in a HASH index its hint is the hash.
    #[inline]
    fn entry(&self, handle: Handle, element: u32) -> Entry {
        let tuple = self.arena.get(handle);
        let hint = match &self.built {
            Built::Hash(_, hasher) => hasher.tuple(&self.key_def, &tuple),
            _ => self.hints.of(&self.key_def, &tuple, element),
        };
        Entry { hint, handle, element }
    }

    /// The tuple in the index that has the key of this one.
    #[inline]
    fn find_equal(&self, handle: Handle, element: u32) -> Option<Handle> {
        let entry = self.entry(handle, element);
        let probe = EntryProbe::new(&self.key_def, &self.arena, entry);
        match &self.built {
            Built::Tree(tree) => probe.find(tree),
            Built::MultikeyTree(tree) => probe.find(tree),
            Built::Hash(hash, _) => hash.get(entry.hint, |other| self.has_equal_keys(other, handle)),
        }
    }

    /// Whether two stored tuples have the same key.
    fn has_equal_keys(&self, a: Handle, b: Handle) -> bool {
        let (a, b) = (self.arena.get(a), self.arena.get(b));
        match &self.built {
            Built::Hash(_, hasher) => hasher.equal(&self.key_def, &a, &b),
            _ => {
                let position = |tuple| Position { tuple, element: 0 };
                self.key_def.compare_own(position(a), position(b)).0.is_eq()
            }
        }
    }

    /// Whether an entry can stand where the other does.
    fn is_same_place(&self, old: Entry, new: Entry) -> bool {
        old.hint == new.hint
            && match &self.built {
                Built::Hash(..) => self.has_equal_keys(old.handle, new.handle),
                _ => EntryProbe::new(&self.key_def, &self.arena, old).compare(new).is_eq(),
            }
    }

    fn insert(&mut self, entry: Entry, edit: &mut Edit<'_>) {
        let probe = EntryProbe::new(&self.key_def, &self.arena, entry);
        match &mut self.built {
            Built::Tree(tree) => tree.insert(entry, &probe, edit),
            Built::MultikeyTree(tree) => tree.insert(entry, &probe, edit),
            Built::Hash(hash, _) => hash.insert(entry.hint, entry.handle, edit),
        }
        .expect(PROMISED);
    }

    fn remove(&mut self, entry: Entry, edit: &mut Edit<'_>) {
        fn from<const MULTI: bool>(
            tree: &mut Tree<MULTI>,
            probe: &EntryProbe<'_>,
            edit: &mut Edit<'_>,
        ) -> Result<Option<Handle>> {
            let place = tree.lower_bound(probe).place();
            Ok(tree.remove_at(place, edit)?.map(|entry| entry.handle))
        }
        let probe = EntryProbe::new(&self.key_def, &self.arena, entry);
        let removed = match &mut self.built {
            Built::Tree(tree) => from(tree, &probe, edit),
            Built::MultikeyTree(tree) => from(tree, &probe, edit),
            Built::Hash(hash, _) => hash.remove(entry.hint, |handle| handle == entry.handle, edit),
        };
        assert_eq!(removed.expect(PROMISED), Some(entry.handle), "{IN_STEP}");
    }

    fn replace(&mut self, old: Entry, new: Entry, edit: &mut Edit<'_>) {
        let probe = EntryProbe::new(&self.key_def, &self.arena, old);
        let replaced = match &mut self.built {
            Built::Tree(tree) => {
                let place = tree.lower_bound(&probe).place();
                tree.replace_at(place, new, edit).map(|entry| entry.map(|entry| entry.handle))
            }
            Built::Hash(hash, _) => hash.replace(old.hint, new.handle, |handle| handle == old.handle, edit),
            Built::MultikeyTree(_) => unreachable!("entries of a multikey index are removed and inserted"),
        };
        assert_eq!(replaced.expect(PROMISED), Some(old.handle), "{IN_STEP}");
    }
}
