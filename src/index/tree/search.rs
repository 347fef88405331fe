//! Finding a place in a tree.
//!
//! A place is a gap between two entries: everything before it is before what is looked for, by the
//! [`Probe`]'s word. The same search so gives "first not less" and "first greater"; they differ in what the
//! probe calls before.
//!
//! In a node, hints alone narrow the rows down to those that may tie, by a binary search without branches to
//! guess; the probe, which may have to look at tuples, decides among the few that are left. In an inner node
//! the place is inside the last child whose least entry is before it.

use super::cursor::{Cursor, Place, Step};
use super::node::{Entry, HINT_LINES, NodeRef};
use super::{LEVELS_MAX, Tree};
use crate::tuple::slab::Handle;

/// What is looked for.
pub(crate) trait Probe {
    /// Entries with a hint below the first are before the place, those with a hint above the second are not;
    /// those between, both included, have to be asked.
    fn hints(&self) -> (u64, u64);

    /// Whether an entry is before the place. It must be so for a first stretch of the entries and for no
    /// other.
    fn before(&self, entry: Entry) -> bool;
}

impl<const MULTI: bool> Tree<MULTI> {
    /// The place before the first entry that the probe does not call before.
    pub(crate) fn lower_bound(&self, probe: &impl Probe) -> Cursor<'_, MULTI> {
        let Some(root) = self.root else { return Cursor::new(self, None) };
        let hints = probe.hints();
        let mut steps = [Step { node: root, row: 0 }; LEVELS_MAX];
        let mut id = root;
        for level in (1..self.levels).rev() {
            let node = self.pool.node::<MULTI>(id);
            // In the leftmost child if no separator is before.
            let row = rows_before(node, hints, probe).saturating_sub(1);
            steps[level] = Step { node: id, row: row as u32 };
            id = node.child(row);
            // A binary search in lines that are not there yet would wait for each of them in turn: with
            // 16 million entries this is 480 ns a search rather than 735.
            self.pool.prefetch(id, HINT_LINES);
        }
        let row = rows_before(self.pool.node::<MULTI>(id), hints, probe);
        steps[0] = Step { node: id, row: row as u32 };
        Cursor::new(self, Some(Place { steps, levels: self.levels }))
    }
}

impl Tree<false> {
    /// The tuple of some entry with this hint, if one is near where it would be looked for: of use to prefetch it.
    #[inline]
    pub(crate) fn find_hint(&self, hint: u64) -> Option<Handle> {
        let mut id = self.root?;
        for _ in 1..self.levels {
            let node = self.pool.node::<false>(id);
            id = node.child(node.hints().partition_point(|&least| least < hint).saturating_sub(1));
        }
        let leaf = self.pool.node::<false>(id);
        let row = leaf.hints().partition_point(|&other| other < hint);
        (leaf.hints().get(row) == Some(&hint)).then(|| leaf.handles()[row])
    }
}

impl<const MULTI: bool> Tree<MULTI> {
    /// Some entry: a child by chance on each level, so that those in full nodes are a little less likely.
    pub(crate) fn random(&self, mut seed: u64) -> Option<Entry> {
        let mut node = self.pool.node::<MULTI>(self.root?);
        loop {
            // A step of SplitMix64.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let row = ((u128::from(mixed ^ (mixed >> 31)) * node.len() as u128) >> 64) as usize;
            if node.is_leaf() {
                return Some(node.entry(row));
            }
            node = self.pool.node::<MULTI>(node.child(row));
        }
    }
}

/// How many rows of a node are before the place.
#[inline]
fn rows_before<const MULTI: bool>(
    node: NodeRef<'_, MULTI>,
    (low, high): (u64, u64),
    probe: &impl Probe,
) -> usize {
    let hints = node.hints();
    let mut first = hints.partition_point(|&hint| hint < low);
    if hints.get(first).is_none_or(|&hint| hint > high) {
        return first;
    }
    let mut end = first + hints[first..].partition_point(|&hint| hint <= high);
    while first < end {
        let middle = first.midpoint(end);
        if probe.before(node.entry(middle)) { first = middle + 1 } else { end = middle }
    }
    first
}
