//! Many changes to a tree at once: its leaves and the changes, both in order, are merged into new leaves.
//!
//! ```text
//! old leaves   2 5 7 | 8 9 12 15 | ...            read from left to right, each given back when it is read
//! changes      5: delete   8: update   11: insert  sorted by the hint of their keys
//! new leaves   2 7 8' 9 11 12 15 ...
//! ```
//!
//! Entry by entry this is far cheaper than a search, but it goes through all entries: worth it when changes are many
//! beside them. The slow twin is one statement after the other, by [`super::change`].

use std::cmp::Ordering;
use std::sync::Arc;

use super::sort;
use super::tree::Tree;
use super::tree::bulk::LeafWriter;
use super::tree::node::{NodeId, NodePool, NodeWriter};
use crate::error::Result;
use crate::tuple::slab::Handle;

/// The hint of a key, and the number of a change of the entry with that key.
pub(crate) type Change = (u64, u32);

/// What changes do; the merge knows hints and numbers alone.
pub(crate) trait Changes {
    /// Whether only one key has this hint.
    fn tells_all(&self, hint: u64) -> bool;

    /// The order of the keys of two changes.
    fn compare(&self, a: u32, b: u32) -> Ordering;

    /// The order of a change's key and that of a tuple.
    fn compare_with(&self, change: u32, tuple: Handle) -> Ordering;

    /// Applies the changes of one key, in the order of their numbers, to the tuple that has the key. Gives the one that
    /// has it then.
    fn apply(&mut self, changes: &[Change], old: Option<Handle>) -> Option<Handle>;

    /// A tuple will be looked at soon.
    fn prefetch_tuple(&self, tuple: Handle);

    /// A change will be looked at soon, and then very soon.
    fn prefetch(&self, change: u32);
    fn prefetch_more(&self, change: u32);
}

/// How far ahead changes are asked for.
const CHANGES_AHEAD: usize = 32;
const CHANGES_NEAR: usize = 12;

/// Makes the changes. They come in any order. On an error, which is one of memory, the tree has lost its entries.
pub(crate) fn merge(
    tree: &mut Tree<false>,
    pool: &Arc<NodePool>,
    txn: u64,
    changes: &mut [Change],
    buffers: &mut sort::Buffers<Change>,
    by: &mut impl Changes,
) -> Result<()> {
    if !changes.is_sorted_by_key(|&(hint, _)| hint) {
        sort::by_hint(changes, buffers, |&(hint, _)| hint);
    }
    let mut old = Old::new(tree, pool);
    let mut new = LeafWriter::<false>::new(NodeWriter::new(pool.clone()), txn);
    old.enter(changes, by);
    let mut from = 0;
    while let Some(&(hint, _)) = changes.get(from) {
        let mut end = from + 1;
        while changes.get(end).is_some_and(|&(other, _)| other == hint) {
            end += 1;
        }
        // Then all are about one key, and so is the entry, if there is one.
        let is_one = by.tells_all(hint);
        if end > from + 1 {
            let order = |a, b| if is_one { Ordering::Equal } else { by.compare(a, b) };
            changes[from..end].sort_unstable_by(|&(_, a), &(_, b)| order(a, b).then(a.cmp(&b)));
        }
        while let Some((below, handle)) = old.below(hint, &changes[from..], by) {
            new.push(below, handle)?;
        }
        while from < end {
            let (_, first) = changes[from];
            let mut same = from + 1;
            while same < end && (is_one || by.compare(first, changes[same].1).is_eq()) {
                same += 1;
            }
            for ahead in from..same {
                changes.get(ahead + CHANGES_AHEAD).iter().for_each(|change| by.prefetch(change.1));
                changes.get(ahead + CHANGES_NEAR).iter().for_each(|change| by.prefetch_more(change.1));
            }
            let mut found = None;
            while let Some(handle) = old.peek(&changes[from..], by).filter(|entry| entry.0 == hint) {
                match if is_one { Ordering::Equal } else { by.compare_with(first, handle.1) } {
                    Ordering::Greater => new.push(hint, handle.1)?,
                    Ordering::Equal => found = Some(handle.1),
                    Ordering::Less => break,
                }
                old.row += 1;
                if found.is_some() {
                    break;
                }
            }
            if let Some(handle) = by.apply(&changes[from..same], found) {
                new.push(hint, handle)?;
            }
            from = same;
        }
    }
    while let Some((hint, handle)) = old.peek(&[], by) {
        new.push(hint, handle)?;
        old.row += 1;
    }
    *tree = new.finish()?;
    Ok(())
}

/// The leaves that are read.
struct Old<'a> {
    pool: &'a NodePool,
    leaves: std::vec::IntoIter<NodeId>,
    leaf: Option<NodeId>,
    hints: &'a [u64],
    handles: &'a [Handle],
    row: usize,
    freed: Vec<NodeId>,
}

/// Leaves that are given back together.
const FREED_AT_ONCE: usize = 64;

impl<'a> Old<'a> {
    fn new(tree: &mut Tree<false>, pool: &'a NodePool) -> Self {
        let leaves = tree.take_leaves().into_iter();
        Self { pool, leaves, leaf: None, hints: &[], handles: &[], row: 0, freed: Vec::new() }
    }

    /// Goes to the next leaf, and asks for the tuples whose entries the changes to come may concern.
    #[inline(never)]
    fn enter(&mut self, changes: &[Change], by: &impl Changes) -> bool {
        self.freed.extend(self.leaf.take());
        if self.freed.len() >= FREED_AT_ONCE {
            self.pool.give_back(&mut self.freed);
        }
        (self.hints, self.handles, self.row) = (&[], &[], 0);
        let Some(id) = self.leaves.next() else { return false };
        self.leaves.as_slice().first().into_iter().for_each(|&next| self.pool.prefetch_all(next));
        self.leaf = Some(id);
        let node = self.pool.node::<false>(id);
        (self.hints, self.handles) = (node.hints(), node.handles());
        let mut row = 0;
        for &(hint, _) in changes {
            while self.hints.get(row).is_some_and(|&other| other < hint) {
                row += 1;
            }
            match self.hints.get(row) {
                None => break,
                Some(&other) if other == hint => by.prefetch_tuple(self.handles[row]),
                Some(_) => {}
            }
        }
        true
    }

    /// The next entry.
    #[inline]
    fn peek(&mut self, changes: &[Change], by: &impl Changes) -> Option<(u64, Handle)> {
        while self.row == self.hints.len() {
            if !self.enter(changes, by) {
                return None;
            }
        }
        Some((self.hints[self.row], self.handles[self.row]))
    }

    /// The next entry if it is below a hint, stepping over it.
    #[inline]
    fn below(&mut self, hint: u64, changes: &[Change], by: &impl Changes) -> Option<(u64, Handle)> {
        let entry = self.peek(changes, by).filter(|entry| entry.0 < hint)?;
        self.row += 1;
        Some(entry)
    }
}

impl Drop for Old<'_> {
    fn drop(&mut self) {
        self.freed.extend(self.leaf.take());
        self.freed.extend(self.leaves.by_ref());
        self.pool.give_back(&mut self.freed);
    }
}
