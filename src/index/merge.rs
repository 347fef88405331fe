//! Many changes to a tree at once: its leaves and the changes, both in order, are merged into new leaves.
//!
//! ```text
//! old leaves   2 5 7 | 8 9 12 15 | ...            read from left to right, each given back when it is read
//! changes      5: delete   8: update   11: insert  sorted by the hint of their keys
//! new leaves   2 7 8' 9 11 12 15 ...
//! ```
//!
//! Entry by entry this is far cheaper than a search, but it goes through all entries: worth it when changes are many
//! beside them. Several threads take a share each, cut at hints, with as many changes as the next one. The slow twin is one
//! statement after the other, by [`super::change`].

use std::cmp::Ordering;
use std::sync::Arc;

use super::sort;
use super::tree::Tree;
use super::tree::bulk::{LeafWriter, Leaves};
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

/// A part of a tree and the changes that concern it.
pub(crate) struct Share<'c> {
    leaves: Vec<NodeId>,
    /// Entries below are another share's.
    from: u64,
    /// So are those from here on.
    until: Option<u64>,
    changes: &'c mut [Change],
}

/// A tree taken apart.
pub(crate) struct Shares<'c> {
    pub(crate) list: Vec<Share<'c>>,
    /// Leaves of which two shares have a part; they are given back when both have been merged.
    pub(crate) between: Vec<NodeId>,
}

impl<'c> Shares<'c> {
    /// Takes a tree apart into at most so many shares. Changes come in any order.
    pub(crate) fn new(
        tree: &mut Tree<false>,
        pool: &NodePool,
        mut changes: &'c mut [Change],
        count: usize,
    ) -> Self {
        let mut leaves = tree.take_leaves();
        let (mut list, mut between) = (Vec::new(), Vec::new());
        let mut from = 0;
        for left in (2..=count).rev() {
            let middle = changes.len() / left;
            if changes.len() < CHANGES_MIN {
                break;
            }
            let (_, &mut (until, _), _) = changes.select_nth_unstable_by_key(middle, |&(hint, _)| hint);
            // All changes of one hint are in one share.
            let mut below = 0;
            for at in 0..middle {
                if changes[at].0 < until {
                    changes.swap(below, at);
                    below += 1;
                }
            }
            if below == 0 {
                continue;
            }
            let (ours, rest) = changes.split_at_mut(below);
            let end = leaves.partition_point(|&id| pool.node::<false>(id).entry(0).hint < until);
            let rest_of_leaves = leaves.split_off(end);
            let ours_of_leaves = std::mem::replace(&mut leaves, rest_of_leaves);
            if let Some(&last) = ours_of_leaves.last()
                && pool.node::<false>(last).hints().last().is_some_and(|&hint| hint >= until)
            {
                leaves.insert(0, last);
                between.push(last);
            }
            list.push(Share { leaves: ours_of_leaves, from, until: Some(until), changes: ours });
            (from, changes) = (until, rest);
        }
        list.push(Share { leaves, from, until: None, changes });
        between.dedup();
        Self { list, between }
    }
}

/// Fewer changes are not worth a share of their own.
const CHANGES_MIN: usize = if cfg!(test) { 64 } else { 1 << 12 };

/// Makes the changes of a share: the leaves of what becomes of its part of the tree. On an error, which is one of memory,
/// its entries are lost.
pub(crate) fn merge(
    share: Share<'_>,
    pool: &Arc<NodePool>,
    txn: u64,
    buffers: &mut sort::Buffers<Change>,
    by: &mut impl Changes,
) -> Result<Leaves<false>> {
    let Share { leaves, from, until, changes } = share;
    if !changes.is_sorted_by_key(|&(hint, _)| hint) {
        sort::by_hint(changes, buffers, |&(hint, _)| hint);
    }
    let mut old = Old::new(leaves, (from, until), pool);
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
    Ok(new.cut())
}

/// The leaves that are read.
struct Old<'a> {
    pool: &'a NodePool,
    leaves: std::vec::IntoIter<NodeId>,
    /// The leaf that is read, if nobody else reads it.
    leaf: Option<NodeId>,
    from: u64,
    until: Option<u64>,
    hints: &'a [u64],
    handles: &'a [Handle],
    row: usize,
    freed: Vec<NodeId>,
}

/// Leaves that are given back together.
const FREED_AT_ONCE: usize = 64;

impl<'a> Old<'a> {
    fn new(leaves: Vec<NodeId>, (from, until): (u64, Option<u64>), pool: &'a NodePool) -> Self {
        let leaves = leaves.into_iter();
        Self { pool, leaves, leaf: None, from, until, hints: &[], handles: &[], row: 0, freed: Vec::new() }
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
        let node = self.pool.node::<false>(id);
        let (hints, handles) = (node.hints(), node.handles());
        let start = hints.partition_point(|&hint| hint < self.from);
        let end = self.until.map_or(hints.len(), |until| hints.partition_point(|&hint| hint < until));
        (self.hints, self.handles) = (&hints[start..end], &handles[start..end]);
        self.leaf = (end - start == hints.len()).then_some(id);
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

// Leaves that were not read, after an error, stay with their tree's pool.
impl Drop for Old<'_> {
    fn drop(&mut self) {
        self.freed.extend(self.leaf.take());
        self.pool.give_back(&mut self.freed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::parallel;

    /// Changes of keys that are handles; three keys share a hint. An even number inserts or keeps, an odd one deletes.
    #[derive(Clone)]
    struct ByKey {
        keys: Vec<u32>,
    }

    fn hint(key: u32) -> u64 {
        u64::from(key / 3)
    }

    impl Changes for ByKey {
        fn tells_all(&self, hint: u64) -> bool {
            // Every other hint has one key alone: `key` sees to that.
            hint.is_multiple_of(2)
        }

        fn compare(&self, a: u32, b: u32) -> Ordering {
            self.keys[a as usize].cmp(&self.keys[b as usize])
        }

        fn compare_with(&self, change: u32, tuple: Handle) -> Ordering {
            self.keys[change as usize].cmp(&tuple.0)
        }

        fn apply(&mut self, changes: &[Change], old: Option<Handle>) -> Option<Handle> {
            assert!(changes.is_sorted_by_key(|change| change.1));
            let key = self.keys[changes[0].1 as usize];
            assert!(changes.iter().all(|change| self.keys[change.1 as usize] == key));
            assert!(old.is_none_or(|old| old.0 == key));
            let last = changes.last().expect("there are some").1;
            last.is_multiple_of(2).then_some(Handle(key))
        }

        fn prefetch_tuple(&self, _: Handle) {}
        fn prefetch(&self, _: u32) {}
        fn prefetch_more(&self, _: u32) {}
    }

    fn key(random: &mut fastrand::Rng, range: u32) -> u32 {
        let key = random.u32(..range);
        if hint(key).is_multiple_of(2) { key / 3 * 3 } else { key }
    }

    #[test]
    fn merging_in_any_number_of_shares_is_one_change_after_the_other() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for round in 0..if cfg!(miri) { 3 } else { 200 } {
            let pool = NodePool::new(Arc::default());
            let bits = random.u32(1..18);
            let range = 1 + random.u32(..1 << bits);
            let mut model: BTreeSet<u32> = (0..random.u32(..4000)).map(|_| key(&mut random, range)).collect();
            let mut leaves = LeafWriter::<false>::new(NodeWriter::new(pool.clone()), 0);
            let mut cuts = Leaves::default();
            for &key in &model {
                leaves.push(hint(key), Handle(key)).unwrap();
                // Leaves are seldom full.
                if random.u8(..30) == 0 {
                    cuts.append(leaves.cut());
                }
            }
            cuts.append(leaves.cut());
            drop(leaves);
            let mut tree = Tree::from_leaves(cuts, &mut NodeWriter::new(pool.clone()), 0).unwrap();
            for _ in 0..3 {
                let keys: Vec<u32> =
                    (0..random.usize(..3 * CHANGES_MIN)).map(|_| key(&mut random, range)).collect();
                for (number, &key) in keys.iter().enumerate() {
                    if number % 2 == 0 {
                        model.insert(key)
                    } else {
                        model.remove(&key)
                    };
                }
                let mut changes: Vec<Change> =
                    (0..).zip(&keys).map(|(number, &key)| (hint(key), number)).collect();
                let threads = random.usize(1..6);
                let Shares { list, mut between } = Shares::new(&mut tree, &pool, &mut changes, threads);
                let by = ByKey { keys };
                let parts = parallel::each(threads, list, |share| {
                    merge(share, &pool, 0, &mut sort::Buffers::default(), &mut by.clone())
                });
                pool.give_back(&mut between);
                let mut all = Leaves::default();
                parts.unwrap().into_iter().for_each(|leaves| all.append(leaves));
                tree = Tree::from_leaves(all, &mut NodeWriter::new(pool.clone()), 0).unwrap();
                let found: Vec<u32> = tree.begin().map(|entry| entry.handle.0).collect();
                assert_eq!(found, model.iter().copied().collect::<Vec<_>>(), "round {round}");
            }
            tree.free();
            let (made, free) = pool.census();
            assert_eq!(made, free, "round {round}: nodes are lost");
        }
    }
}
