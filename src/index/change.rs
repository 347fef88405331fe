//! One index under a statement: the entries of a tuple that dies and of one that is born.
//!
//! In two steps. [`Spot::look`] changes nothing: it finds the place of the new tuple's entry and who stands there, and
//! says how many edits there will be, so that their nodes can be reserved. [`Spot::apply`] then cannot fail.
//!
//! ```text
//!   new entry's place, among the old tuple's and others    edits
//!   ... a  [old]  d ...     the gap is before old           old is overwritten: one edit, the same key or not
//!   ... a  .  d  ... [old]  elsewhere                       insert at the place; search for old; remove
//! ```
//!
//! An entry put over the old one keeps the order even where the keys differ, since nothing stands between the gap and
//! the old entry. In a multikey index the same is done entry by entry: what of the old tuple has not been overwritten
//! when all new entries are in is removed.

use std::cmp::Ordering;

use super::build::Built;
use super::hash::HashIndex;
use super::hash_key::Hasher;
use super::hint::Hints;
use super::key;
use super::key_def::{Entry as Position, KeyDef};
use super::multikey;
use super::tree::Tree;
use super::tree::cursor::Place;
use super::tree::edit::Edit;
use super::tree::node::Entry;
use super::tree::search::Probe;
use crate::tuple::arena::Arena;
use crate::tuple::slab::Handle;

impl Built {
    /// Nodes that so many inserts and then so many removals may take, of a pool with so many in use.
    pub(crate) fn nodes_needed(&self, inserts: usize, removals: usize, in_use: usize) -> usize {
        match self {
            Self::Tree(tree) => tree.nodes_needed(inserts, removals, in_use),
            Self::Hash(hash, _) => hash.tree().nodes_needed(inserts, removals, in_use),
            Self::MultikeyTree(tree) => tree.nodes_needed(inserts, removals, in_use),
        }
    }
}

/// How the entries of an index are ordered, and where their tuples are.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) key_def: &'a KeyDef,
    pub(crate) hints: &'a Hints,
    pub(crate) arena: &'a Arena,
}

impl<'a> Order<'a> {
    fn position(self, entry: Entry) -> Position<'a> {
        Position { tuple: self.arena.get(entry.handle), element: entry.element }
    }

    fn entry(self, handle: Handle, element: u32) -> Entry {
        Entry { hint: self.hints.of(self.key_def, &self.arena.get(handle), element), handle, element }
    }

    fn hashed(self, hasher: &Hasher, handle: Handle) -> Entry {
        Entry { hint: hasher.tuple(self.key_def, &self.arena.get(handle)), handle, element: 0 }
    }

    fn excludes(self, handle: Handle) -> bool {
        self.key_def.excludes && multikey::is_excluded(self.key_def, &self.arena.get(handle), 0)
    }

    fn list_entries(self, handle: Handle, elements: &mut Vec<u32>) {
        multikey::list_entries(self.key_def, &self.arena.get(handle), elements);
    }

    /// The place of an entry and what stands behind it.
    fn seek<const MULTI: bool>(self, tree: &Tree<MULTI>, entry: Entry) -> (Option<Place>, Option<Entry>) {
        let probe = EntryProbe { order: self, entry, position: self.position(entry) };
        let mut cursor = tree.lower_bound(&probe);
        let place = cursor.place();
        (place, cursor.entry())
    }

    /// The place behind all entries, if the entry belongs there.
    fn seek_end(self, tree: &Tree<false>, entry: Entry) -> Option<Option<Place>> {
        let mut cursor = tree.end();
        let place = cursor.place();
        let last = cursor.prev()?;
        let probe = EntryProbe { order: self, entry, position: self.position(entry) };
        (last.hint < entry.hint || last.hint == entry.hint && probe.before(last)).then_some(place)
    }

    /// Whether an entry that stands where the other belongs has the same key.
    fn is_same(self, there: Entry, entry: Entry) -> bool {
        there.hint == entry.hint && self.key_def.compare(self.position(there), self.position(entry)).is_eq()
    }

    /// Asks for the tuple whose entry has this hint, if one has.
    #[inline]
    pub(crate) fn prefetch(self, built: &Built, hint: u64) {
        let tree = match built {
            Built::Tree(tree) => tree,
            Built::Hash(hash, _) => hash.tree(),
            Built::MultikeyTree(_) => return,
        };
        if let Some(handle) = tree.find_hint(hint) {
            self.arena.prefetch(handle);
        }
    }

    /// What the entry of a tuple has for a hint; not for multikey indexes.
    pub(crate) fn hint(self, built: &Built, handle: Handle) -> u64 {
        match built {
            Built::Tree(_) | Built::MultikeyTree(_) => {
                self.hints.of(self.key_def, &self.arena.get(handle), 0)
            }
            Built::Hash(_, hasher) => hasher.tuple(self.key_def, &self.arena.get(handle)),
        }
    }

    /// What the entry of a tuple with this whole key of a unique index without nil has for a hint.
    pub(crate) fn key_hint(self, built: &Built, key: &[u8], values: &[Option<usize>]) -> u64 {
        match built {
            Built::Tree(_) | Built::MultikeyTree(_) => self.hints.range(key, values).0,
            Built::Hash(_, hasher) => hasher.key(key, values),
        }
    }

    /// Whether the index has an entry of this very tuple; not for indexes that leave tuples out, nor for multikey ones.
    pub(crate) fn holds(self, built: &Built, handle: Handle) -> bool {
        match built {
            Built::Tree(tree) => {
                let there = self.seek(tree, self.entry(handle, 0)).1;
                there.is_some_and(|there| there.handle == handle)
            }
            Built::Hash(hash, hasher) => {
                let hash_of_it = self.hashed(hasher, handle).hint;
                hash.get(hash_of_it, |there| there == handle).is_some()
            }
            Built::MultikeyTree(_) => false,
        }
    }

    /// Whether two tuples whose entries have this same hint have the same key.
    pub(crate) fn has_same_key(self, built: &Built, hint: u64, a: Handle, b: Handle) -> bool {
        match built {
            Built::Tree(_) if self.hints.tells_all(hint) => true,
            Built::Hash(_, hasher) => hasher.equal(self.key_def, &self.arena.get(a), &self.arena.get(b)),
            Built::Tree(_) | Built::MultikeyTree(_) => self.compare(a, b).is_eq(),
        }
    }

    /// The order of two tuples.
    pub(crate) fn compare(self, a: Handle, b: Handle) -> Ordering {
        let position = |handle| Position { tuple: self.arena.get(handle), element: 0 };
        self.key_def.compare(position(a), position(b))
    }

    /// The order of tuples and whole keys of an index without multikey parts.
    #[inline]
    pub(crate) fn compare_subjects(self, a: Subject<'_>, b: Subject<'_>) -> Ordering {
        match (a, b) {
            (Subject::Tuple(a), Subject::Tuple(b)) => self.compare(a, b),
            (Subject::Tuple(a), Subject::Key(b)) => self.compare_key(b, a).reverse(),
            (Subject::Key(a), Subject::Tuple(b)) => self.compare_key(a, b),
            (Subject::Key(a), Subject::Key(b)) => {
                let mut values = (key::Values::new(a), key::Values::new(b));
                let parts = self.key_def.own().iter();
                let compared = parts.map(|part| part.compare(a, values.0.next(), b, values.1.next()));
                first_difference(compared)
            }
        }
    }

    fn compare_key(self, key: &[u8], tuple: Handle) -> Ordering {
        let (tuple, mut values) = (self.arena.get(tuple), key::Values::new(key));
        let parts = self.key_def.own().iter();
        let compared = parts.map(|part| part.compare(key, values.next(), tuple.data(), part.find(&tuple, 0)));
        first_difference(compared)
    }

    /// The tuple with a whole key, whose hint is known, and the place before it.
    pub(crate) fn seek_key(
        self,
        built: &Built,
        key: &[u8],
        values: &[Option<usize>],
        hint: u64,
    ) -> (Option<Place>, Option<Handle>) {
        match built {
            Built::Tree(tree) => {
                let mut cursor =
                    tree.lower_bound(&KeyProbe { order: self, key, values, hints: (hint, hint) });
                let place = cursor.place();
                let is_it =
                    |entry: &Entry| key::compare(self.key_def, self.position(*entry), key, values).is_eq();
                (place, cursor.entry().filter(is_it).map(|entry| entry.handle))
            }
            Built::MultikeyTree(_) => (None, None),
            Built::Hash(hash, hasher) => {
                hash.seek(hint, |handle| hasher.matches(self.key_def, &self.arena.get(handle), key, values))
            }
        }
    }

    /// The tuples from the entries that begin with one key up to, but without, those that begin with another; a key
    /// without values is no bound. A tuple with several entries comes several times.
    pub(crate) fn list_range<const MULTI: bool>(
        self,
        tree: &Tree<MULTI>,
        (begin, begin_values): (&[u8], &[Option<usize>]),
        (end, end_values): (&[u8], &[Option<usize>]),
        handles: &mut Vec<Handle>,
    ) {
        let mut cursor = match begin_values {
            [] => tree.begin(),
            _ => tree.lower_bound(&KeyProbe::new(self, begin, begin_values)),
        };
        let is_before = |entry: Entry| {
            end_values.is_empty() || key::compare(self.key_def, self.position(entry), end, end_values).is_lt()
        };
        handles.extend(
            std::iter::from_fn(|| cursor.next().filter(|&entry| is_before(entry))).map(|entry| entry.handle),
        );
    }
}

/// What a statement is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    Tuple(Handle),
    /// A checked key with all its parts.
    Key(&'a [u8]),
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Finds the place of an entry among others.
struct EntryProbe<'a> {
    order: Order<'a>,
    entry: Entry,
    position: Position<'a>,
}

impl Probe for EntryProbe<'_> {
    #[inline]
    fn hints(&self) -> (u64, u64) {
        (self.entry.hint, self.entry.hint)
    }

    #[inline]
    fn before(&self, entry: Entry) -> bool {
        // Itself is not before itself: no need to look at the tuple.
        entry != self.entry && self.order.key_def.compare(self.order.position(entry), self.position).is_lt()
    }
}

/// Finds the place before the entries that begin with a key.
struct KeyProbe<'a> {
    order: Order<'a>,
    key: &'a [u8],
    values: &'a [Option<usize>],
    hints: (u64, u64),
}

impl<'a> KeyProbe<'a> {
    fn new(order: Order<'a>, key: &'a [u8], values: &'a [Option<usize>]) -> Self {
        Self { order, key, values, hints: order.hints.range(key, values) }
    }
}

impl Probe for KeyProbe<'_> {
    #[inline]
    fn hints(&self) -> (u64, u64) {
        self.hints
    }

    #[inline]
    fn before(&self, entry: Entry) -> bool {
        let Order { key_def, .. } = self.order;
        key::compare(key_def, self.order.position(entry), self.key, self.values).is_lt()
    }
}

/// What is known of an index between the two steps of a statement.
#[derive(Default)]
pub(crate) struct Spot {
    place: Option<Place>,
    /// The tuple behind the place: in a tree of any key, in a HASH index only one of the same key.
    there: Option<Handle>,
    /// The new tuple's entry, if it has one; not for multikey indexes.
    entry: Option<Entry>,
    /// The old tuple has an entry; not for multikey indexes.
    has_old: bool,
    /// Multikey: the elements of the new tuple and of the old one that have entries.
    new_elements: Vec<u32>,
    old_elements: Vec<u32>,
    /// The last place was behind all entries, so the next one may be, too.
    appends: bool,
}

impl Spot {
    /// The old tuple and its place have been found by a search: what `look` would say without a new tuple.
    pub(crate) fn found(&mut self, place: Option<Place>, old: Handle) {
        (self.place, self.there, self.entry, self.has_old) = (place, Some(old), None, true);
    }

    /// The tuple with the key of a new one, and the place of both; `hint` is that of the new one's entry. For the
    /// primary index, which excludes nothing: who is old is not known yet.
    pub(crate) fn look_at(
        &mut self,
        order: Order<'_>,
        built: &Built,
        new: Handle,
        hint: u64,
    ) -> Option<Handle> {
        let entry = Entry { hint, handle: new, element: 0 };
        self.entry = Some(entry);
        match built {
            Built::Tree(tree) => {
                let there = self.look_in_tree(order, tree, entry);
                there.filter(|&there| order.is_same(there, entry)).map(|there| there.handle)
            }
            Built::Hash(hash, hasher) => self.look_in_hash(order, hash, hasher, entry),
            Built::MultikeyTree(_) => None,
        }
    }

    /// What takes the place that has been found: a new tuple and the hint of its entry.
    pub(crate) fn set_new(&mut self, new: Option<(Handle, u64)>) {
        self.entry = new.map(|(handle, hint)| Entry { hint, handle, element: 0 });
    }

    /// The place of a new entry, and what stands behind it.
    fn look_in_tree(&mut self, order: Order<'_>, tree: &Tree<false>, entry: Entry) -> Option<Entry> {
        if self.appends
            && let Some(place) = order.seek_end(tree, entry)
        {
            (self.place, self.there) = (place, None);
            return None;
        }
        let (place, there) = order.seek(tree, entry);
        (self.place, self.there) = (place, there.map(|there| there.handle));
        self.appends = there.is_none();
        there
    }

    /// The place of a new entry, and the tuple with its key.
    fn look_in_hash(
        &mut self,
        order: Order<'_>,
        hash: &HashIndex,
        hasher: &Hasher,
        entry: Entry,
    ) -> Option<Handle> {
        let tuple = order.arena.get(entry.handle);
        let is_same = |handle| hasher.equal(order.key_def, &tuple, &order.arena.get(handle));
        (self.place, self.there) = hash.seek(entry.hint, is_same);
        self.there
    }

    /// Finds out what is to be done.
    ///
    /// # Errors
    /// The tuple that has the new one's key in a unique index, unless it is the old one.
    pub(crate) fn look(
        &mut self,
        order: Order<'_>,
        built: &Built,
        old: Option<Handle>,
        new: Option<Handle>,
    ) -> Result<(), Handle> {
        self.look_for_old(order, built, old);
        let is_other = |handle: &Handle| Some(*handle) != old;
        (self.there, self.entry) = (None, None);
        self.new_elements.clear();
        let Some(new) = new else { return Ok(()) };
        match built {
            Built::Tree(tree) => {
                if order.excludes(new) {
                    return Ok(());
                }
                let entry = order.entry(new, 0);
                self.entry = Some(entry);
                let there = self.look_in_tree(order, tree, entry);
                match there.filter(|there| is_other(&there.handle)) {
                    Some(there) if order.key_def.unique && order.is_same(there, entry) => Err(there.handle),
                    _ => Ok(()),
                }
            }
            Built::MultikeyTree(tree) => {
                order.list_entries(new, &mut self.new_elements);
                let looked_at: &[u32] = if order.key_def.unique { &self.new_elements } else { &[] };
                looked_at.iter().try_for_each(|&element| {
                    let entry = order.entry(new, element);
                    match order.seek(tree, entry).1.filter(|there| is_other(&there.handle)) {
                        Some(there) if order.is_same(there, entry) => Err(there.handle),
                        _ => Ok(()),
                    }
                })
            }
            Built::Hash(hash, hasher) => {
                let entry = order.hashed(hasher, new);
                self.entry = Some(entry);
                self.look_in_hash(order, hash, hasher, entry).filter(is_other).map_or(Ok(()), Err)
            }
        }
    }

    /// The part of `look` that is about the old tuple.
    pub(crate) fn look_for_old(&mut self, order: Order<'_>, built: &Built, old: Option<Handle>) {
        self.old_elements.clear();
        self.has_old = false;
        let Some(old) = old else { return };
        match built {
            Built::Tree(_) => self.has_old = !order.excludes(old),
            Built::MultikeyTree(_) => order.list_entries(old, &mut self.old_elements),
            Built::Hash(..) => self.has_old = true,
        }
    }

    /// Nodes that `apply` may take, of a pool with so many in use.
    pub(crate) fn nodes_needed(&self, built: &Built, old: Option<Handle>, in_use: usize) -> usize {
        let (inserts, removals) = (usize::from(self.entry.is_some()), usize::from(self.has_old));
        // A replacement takes no more than a removal.
        let inserts = if self.is_at(old) { 0 } else { inserts };
        // What is empty counts nothing.
        built.nodes_needed(inserts + self.new_elements.len(), removals + self.old_elements.len(), in_use)
    }

    /// Whether the old tuple's entry is the one behind the place.
    fn is_at(&self, old: Option<Handle>) -> bool {
        old.is_some() && self.there == old
    }

    /// Does what `look` has found out. The edit's writer has the nodes that it needs in reserve.
    pub(crate) fn apply(
        &self,
        order: Order<'_>,
        built: &mut Built,
        old: Option<Handle>,
        new: Option<Handle>,
        edit: &mut Edit<'_>,
    ) {
        match built {
            Built::Tree(tree) => {
                let find_old = |tree: &Tree<false>, old| order.seek(tree, order.entry(old, 0)).0;
                self.apply_one(tree, old, find_old, edit);
            }
            Built::Hash(hash, hasher) => {
                if let Some(old_left) = self.put(hash.tree_mut(), old, edit) {
                    let entry = order.hashed(hasher, old_left);
                    let place = hash.seek(entry.hint, |handle| handle == old_left).0;
                    remove(hash.tree_mut(), place, old_left, edit);
                }
            }
            Built::MultikeyTree(tree) => self.apply_each(order, tree, old, new, edit),
        }
    }

    fn apply_one(
        &self,
        tree: &mut Tree<false>,
        old: Option<Handle>,
        find_old: impl Fn(&Tree<false>, Handle) -> Option<Place>,
        edit: &mut Edit<'_>,
    ) {
        if let Some(old_left) = self.put(tree, old, edit) {
            let place = find_old(tree, old_left);
            remove(tree, place, old_left, edit);
        }
    }

    /// The edit at the place; gives the old tuple if its entry is still to be removed.
    fn put(&self, tree: &mut Tree<false>, old: Option<Handle>, edit: &mut Edit<'_>) -> Option<Handle> {
        let outcome = match self.entry {
            Some(entry) if self.is_at(old) => tree.replace_at(self.place, entry, edit).map(|_| None),
            None if self.is_at(old) => tree.remove_at(self.place, edit).map(|_| None),
            Some(entry) => tree.insert_at(self.place, entry, edit).map(|()| old),
            None => Ok(old),
        };
        outcome.expect(RESERVED).filter(|_| self.has_old)
    }

    fn apply_each(
        &self,
        order: Order<'_>,
        tree: &mut Tree<true>,
        old: Option<Handle>,
        new: Option<Handle>,
        edit: &mut Edit<'_>,
    ) {
        for (&element, new) in self.new_elements.iter().zip(std::iter::repeat(new).flatten()) {
            let entry = order.entry(new, element);
            match order.seek(tree, entry) {
                (place, Some(there)) if Some(there.handle) == old => {
                    tree.replace_at(place, entry, edit).expect(RESERVED);
                }
                (place, _) => tree.insert_at(place, entry, edit).expect(RESERVED),
            }
        }
        for (&element, old) in self.old_elements.iter().zip(std::iter::repeat(old).flatten()) {
            // Another entry of the old tuple may stand there; it has to go as well.
            let (place, there) = order.seek(tree, order.entry(old, element));
            if there.is_some_and(|there| there.handle == old) {
                tree.remove_at(place, edit).expect(RESERVED);
            }
        }
    }
}

const RESERVED: &str = "the statement has reserved its nodes";

fn remove(tree: &mut Tree<false>, place: Option<Place>, old: Handle, edit: &mut Edit<'_>) {
    let gone = tree.remove_at(place, edit).expect(RESERVED);
    assert!(
        gone.is_some_and(|entry| entry.handle == old),
        "an index without an entry of a tuple of the space"
    );
}
