//! A space in memory: its tuples and its indexes, ready for look-ups by any number of threads.

use std::sync::Arc;

use super::definition::{IndexDef, SpaceDef};
use crate::error::{Error, ErrorKind, Result};
use crate::index::build::{Built, Cost};
use crate::index::hash::HashIndex;
use crate::index::hash_key::Hasher;
use crate::index::hint::Hints;
use crate::index::iterator::IteratorType;
use crate::index::key::Key;
use crate::index::key_def::{Entry as Position, KeyDef};
use crate::index::tree::Tree;
use crate::index::tree::cursor::Cursor;
use crate::index::tree::node::{Entry, NodePool};
use crate::index::tree::search::Probe;
use crate::tuple::arena::Arena;
use crate::tuple::field_map::StoredTuple;
use crate::tuple::format::Format;
use crate::tuple::slab::Handle;

/// A version of a space in memory; `clone` is another name for the same version, at little cost.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) def: Arc<SpaceDef>,
    pub(crate) format: Arc<Format>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) pool: Arc<NodePool>,
    /// By position in the definition's list; `None` where the index is absent.
    pub(crate) indexes: Vec<Option<IndexData>>,
    pub(crate) tuples: u64,
    pub(crate) bytes: u64,
    /// None: not asked for, or out of date since a change ([`Table::scan_fingerprint`] makes it anew).
    pub(crate) fingerprint: Option<u32>,
    pub(crate) cost: Cost,
    /// The version of the store in which the space was made: ids are used again.
    pub(crate) generation: u64,
}

impl Table {
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.arena.bytes() + self.pool.bytes()
    }

    /// Whether it has all its indexes, so that what is written to it is in all of them.
    #[inline]
    pub(crate) fn is_writable(&self) -> bool {
        self.indexes.iter().all(Option::is_some)
    }

    /// The rows did not come in the order of the primary key.
    pub(crate) fn was_sorted(&self) -> bool {
        self.cost.sorted > 0
    }

    /// The primary index, if it is there.
    pub(crate) fn primary(&self) -> Option<&IndexData> {
        match (self.def.indexes.first(), self.indexes.first()) {
            (Some(def), Some(data)) if def.id == 0 => data.as_ref(),
            _ => None,
        }
    }

    /// An index with each tuple once: the primary one, or where it is not there the first of the others.
    pub(crate) fn whole(&self) -> Option<&IndexData> {
        let is_whole =
            |def: &IndexDef| !def.has_multikey() && !def.parts.iter().any(|part| part.exclude_null);
        let mut indexes = self.def.indexes.iter().zip(&self.indexes);
        indexes.find_map(|(def, data)| data.as_ref().filter(|_| is_whole(def)))
    }

    /// The fingerprint by a scan: CRC-32 over the tuples in the order of the primary key; where that is a HASH, the sum
    /// of each tuple's CRC-32.
    pub(crate) fn scan_fingerprint(&self) -> u32 {
        let Some(Some(primary)) = self.indexes.first() else { return crc32fast::hash(&[]) };
        let handles = primary.handles();
        let tuples = self.arena.tuples(&handles);
        if matches!(primary.built, Built::Hash(..)) {
            return tuples.fold(0, |sum, (_, tuple)| sum.wrapping_add(crc32fast::hash(tuple.data())));
        }
        let mut crc = crc32fast::Hasher::new();
        tuples.for_each(|(_, tuple)| crc.update(tuple.data()));
        crc.finalize()
    }
}

/// One index of a table.
#[derive(Clone)]
pub(crate) struct IndexData {
    pub(crate) key_def: Arc<KeyDef>,
    pub(crate) hints: Arc<Hints>,
    pub(crate) built: Built,
    pub(crate) arena: Arc<Arena>,
}

impl IndexData {
    pub(crate) fn len(&self) -> u64 {
        match &self.built {
            Built::Tree(tree) => tree.len(),
            Built::MultikeyTree(tree) => tree.len(),
            Built::Hash(hash, _) => hash.len(),
        }
    }

    /// Bytes of the nodes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.built {
            Built::Tree(tree) => tree.bytes(),
            Built::MultikeyTree(tree) => tree.bytes(),
            Built::Hash(hash, _) => hash.tree().bytes(),
        }
    }

    /// The one tuple with this key.
    ///
    /// # Errors
    /// `Key`: the key does not fit, is not a whole one or holds a nil, or the index is not unique.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<StoredTuple<'_>>> {
        let key = Key::new(&self.key_def, key)?;
        check_whole(&self.key_def, &key.values)?;
        Ok(match &self.built {
            Built::Hash(hash, hasher) => self.find(hash, hasher, &key).map(|handle| self.arena.get(handle)),
            Built::Tree(tree) => self.first_equal(tree, &key),
            Built::MultikeyTree(tree) => self.first_equal(tree, &key),
        })
    }

    fn find(&self, hash: &HashIndex, hasher: &Hasher, key: &Key) -> Option<Handle> {
        hash.get(hasher.key(key.bytes(), &key.values), |handle| {
            hasher.matches(&self.key_def, &self.arena.get(handle), key.bytes(), &key.values)
        })
    }

    fn first_equal<const MULTI: bool>(&self, tree: &Tree<MULTI>, key: &Key) -> Option<StoredTuple<'_>> {
        let entry = tree.lower_bound(&self.probe(key, false)).next()?;
        let position = self.position(entry);
        key.compare(&self.key_def, position).is_eq().then_some(position.tuple)
    }

    fn position(&self, entry: Entry) -> Position<'_> {
        Position { tuple: self.arena.get(entry.handle), element: entry.element }
    }

    fn probe<'a>(&'a self, key: &'a Key, after: bool) -> KeyProbe<'a> {
        KeyProbe { index: self, key, hints: self.hints.range(key.bytes(), &key.values), after }
    }

    /// The handles of all entries, in the order of the index.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        let handle = |entry: Entry| entry.handle;
        match &self.built {
            Built::Tree(tree) => tree.begin().map(handle).collect(),
            Built::MultikeyTree(tree) => tree.begin().map(handle).collect(),
            Built::Hash(hash, _) => hash.tree().begin().map(handle).collect(),
        }
    }

    /// All tuples, in the order of the index.
    pub(crate) fn all(&self) -> Select<'_> {
        self.walk(None, IteratorType::All)
    }

    /// The tuples that the iterator meets from the key on.
    ///
    /// # Errors
    /// `Key`: the key does not fit, or the index does not have the iterator.
    pub(crate) fn select(&self, iterator: IteratorType, key: &[u8]) -> Result<Select<'_>> {
        let key = Key::new(&self.key_def, key)?;
        if let Built::Hash(hash, hasher) = &self.built {
            return self.select_hash(hash, hasher, iterator, &key);
        }
        let key = (!key.values.is_empty()).then_some(key);
        Ok(self.walk(key, iterator))
    }

    /// The tuples that the iterator meets from the key on, behind those up to a tuple that it has met before.
    ///
    /// # Errors
    /// As `select`; `Key` also for a tuple that the iterator does not meet; `Unsupported` for HASH and multikey indexes.
    pub(crate) fn select_after(
        &self,
        iterator: IteratorType,
        key: &[u8],
        after: StoredTuple<'_>,
    ) -> Result<Select<'_>> {
        use IteratorType::{All, Eq, Ge, Gt, Le, Lt, Req};
        let Built::Tree(tree) = &self.built else {
            let what = "to go on behind a tuple in a HASH or a multikey index";
            return Err(Error::new(ErrorKind::Unsupported, what));
        };
        let key = Key::new(&self.key_def, key)?;
        let position = Position { tuple: after, element: 0 };
        let order = key.compare(&self.key_def, position);
        let is_met = match iterator {
            _ if key.values.is_empty() => true,
            Eq | Req => order.is_eq(),
            All | Ge => order.is_ge(),
            Gt => order.is_gt(),
            Le => order.is_le(),
            Lt => order.is_lt(),
        };
        if !is_met {
            return Err(Error::new(ErrorKind::Key, "tuple to go on behind")
                .expected(format!("one that {iterator} meets from the key on"))
                .found("another"));
        }
        let backward = matches!(iterator, Req | Lt | Le);
        let hint = self.hints.of(&self.key_def, &after, 0);
        let probe = TupleProbe { index: self, position, hint, after: !backward };
        let cursor = tree.lower_bound(&probe);
        let equal = (matches!(iterator, Eq | Req) && !key.values.is_empty()).then_some(key);
        let walk = Walk { cursor, backward, equal, done: false };
        Ok(Select { index: self, state: State::Tree(walk) })
    }

    /// Some tuple.
    pub(crate) fn random(&self, seed: u64) -> Option<StoredTuple<'_>> {
        let entry = match &self.built {
            Built::Tree(tree) => tree.random(seed),
            Built::MultikeyTree(tree) => tree.random(seed),
            Built::Hash(hash, _) => hash.tree().random(seed),
        };
        entry.map(|entry| self.arena.get(entry.handle))
    }

    fn select_hash(
        &self,
        hash: &HashIndex,
        hasher: &Hasher,
        iterator: IteratorType,
        key: &Key,
    ) -> Result<Select<'_>> {
        let whole = key.values.len() == self.key_def.own;
        match iterator {
            IteratorType::All => Ok(self.all()),
            IteratorType::Gt if key.values.is_empty() => Ok(self.all()),
            IteratorType::Eq if whole => {
                Ok(Select { index: self, state: State::One(self.find(hash, hasher, key)) })
            }
            IteratorType::Eq => Err(Error::new(ErrorKind::Key, "a HASH index is searched by whole keys")
                .expected(format!("{} parts", self.key_def.own))
                .found(key.values.len())),
            _ => Err(Error::new(ErrorKind::Key, "iterator of a HASH index")
                .expected("EQ or ALL")
                .found(iterator)),
        }
    }

    fn walk(&self, key: Option<Key>, iterator: IteratorType) -> Select<'_> {
        let state = match &self.built {
            Built::Tree(tree) => State::Tree(Walk::new(self, tree, key, iterator)),
            Built::MultikeyTree(tree) => State::MultikeyTree(Walk::new(self, tree, key, iterator)),
            Built::Hash(hash, _) => State::Tree(Walk::new(self, hash.tree(), None, IteratorType::All)),
        };
        Select { index: self, state }
    }
}

/// Checks that a key is one of a unique index, has all parts, and no nil.
pub(super) fn check_whole(key_def: &KeyDef, values: &[Option<usize>]) -> Result<()> {
    if !key_def.unique || values.len() != key_def.own {
        return Err(Error::new(ErrorKind::Key, "get")
            .expected(format!("a whole key ({} parts) of a unique index", key_def.own))
            .found(match key_def.unique {
                true => format!("{} parts", values.len()),
                false => "an index that is not unique".into(),
            }));
    }
    if values.iter().any(Option::is_none) {
        return Err(Error::new(ErrorKind::Key, "get").expected("values").found("a nil in the key"));
    }
    Ok(())
}

/// Finds the place of a search key among entries.
struct KeyProbe<'a> {
    index: &'a IndexData,
    key: &'a Key,
    hints: (u64, u64),
    /// The place after the entries that begin with the key, not before them.
    after: bool,
}

impl Probe for KeyProbe<'_> {
    #[inline]
    fn hints(&self) -> (u64, u64) {
        self.hints
    }

    #[inline]
    fn before(&self, entry: Entry) -> bool {
        let order = self.key.compare(&self.index.key_def, self.index.position(entry));
        order.is_lt() || (self.after && order.is_eq())
    }
}

/// Finds the place before or after a tuple that may not be there any more.
struct TupleProbe<'a> {
    index: &'a IndexData,
    position: Position<'a>,
    hint: u64,
    after: bool,
}

impl Probe for TupleProbe<'_> {
    fn hints(&self) -> (u64, u64) {
        (self.hint, self.hint)
    }

    fn before(&self, entry: Entry) -> bool {
        let order = self.index.key_def.compare(self.index.position(entry), self.position);
        order.is_lt() || (self.after && order.is_eq())
    }
}

/// Tuples of an index, one after the other.
pub(crate) struct Select<'a> {
    index: &'a IndexData,
    state: State<'a>,
}

enum State<'a> {
    Tree(Walk<'a, false>),
    MultikeyTree(Walk<'a, true>),
    One(Option<Handle>),
}

impl<'a> Iterator for Select<'a> {
    type Item = StoredTuple<'a>;

    #[inline]
    fn next(&mut self) -> Option<StoredTuple<'a>> {
        match &mut self.state {
            State::Tree(walk) => walk.next(self.index),
            State::MultikeyTree(walk) => walk.next(self.index),
            State::One(handle) => Some(self.index.arena.get(handle.take()?)),
        }
    }
}

/// A walk over a tree in one direction.
struct Walk<'a, const MULTI: bool> {
    cursor: Cursor<'a, MULTI>,
    backward: bool,
    /// Go on only while entries begin with this key.
    equal: Option<Key>,
    done: bool,
}

impl<'a, const MULTI: bool> Walk<'a, MULTI> {
    fn new(index: &'a IndexData, tree: &'a Tree<MULTI>, key: Option<Key>, iterator: IteratorType) -> Self {
        use IteratorType::{All, Eq, Ge, Gt, Le, Lt, Req};
        let backward = matches!(iterator, Req | Lt | Le);
        let cursor = match (&key, iterator) {
            (None, _) if backward => tree.end(),
            (None, _) => tree.begin(),
            (Some(key), Eq | Ge | All | Lt) => tree.lower_bound(&index.probe(key, false)),
            (Some(key), Req | Gt | Le) => tree.lower_bound(&index.probe(key, true)),
        };
        let equal = key.filter(|_| matches!(iterator, Eq | Req));
        Self { cursor, backward, equal, done: false }
    }

    #[inline]
    fn next(&mut self, index: &'a IndexData) -> Option<StoredTuple<'a>> {
        if self.done {
            return None;
        }
        let entry = if self.backward { self.cursor.prev() } else { self.cursor.next() };
        let Some(position) = entry.map(|entry| index.position(entry)) else {
            self.done = true;
            return None;
        };
        self.done = self.equal.as_ref().is_some_and(|key| key.compare(&index.key_def, position).is_ne());
        (!self.done).then_some(position.tuple)
    }
}
