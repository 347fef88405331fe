//! Inserting, replacing and removing entries.
//!
//! ```text
//!        before              after inserting x in transaction 9          what the old root's holder sees
//!
//!         [a  g]  txn 4           [a  g]  txn 9                                  [a  g]
//!        /     \                 /     \                                        /     \
//!     [a c]   [g k]           [a c]   [g k x]  txn 9                         [a c]   [g k]
//! ```
//!
//! A change begins at the leaf and goes up while there is something to say to the parent: the child has
//! another number (it was copied), another least entry, a new sibling (it was full) or none at all (it is
//! empty). In a node of the running transaction that is usually nothing, and the change ends in the leaf.
//!
//! A full node is split in the middle; at the tree's right edge the new entry alone goes to the new node, so
//! that entries that arrive in order fill the nodes. A node that fell under two fifths is merged with its
//! neighbour or, where both together are too many for one, shares the neighbour's rows evenly.
//!
//! Every edit first makes sure of the nodes that it may need, so that a memory limit strikes before anything
//! is changed, never in the middle.

use super::cursor::{Cursor, Place, Step};
use super::node::{Entry, NodeId, NodePool, NodeWriter};
use super::{LEVELS_MAX, Tree};
use crate::error::Result;

/// The running transaction, as far as trees need to know it.
pub(crate) struct Edit<'a> {
    /// Its number; greater than that of any transaction whose nodes others may see.
    pub(crate) txn: u64,
    /// Of the pool of the tree that is edited.
    pub(crate) writer: &'a mut NodeWriter,
    /// Gets the nodes of earlier transactions that the edited tree no longer uses.
    pub(crate) retired: &'a mut Vec<NodeId>,
}

impl<const MULTI: bool> Tree<MULTI> {
    /// A tree without entries.
    #[cfg(test)]
    pub(crate) fn new(pool: std::sync::Arc<NodePool>) -> Self {
        Self { pool, root: None, levels: 0, len: 0 }
    }

    /// Inserts an entry where the probe says.
    #[cfg(test)]
    pub(crate) fn insert(
        &mut self,
        entry: Entry,
        probe: &impl super::search::Probe,
        edit: &mut Edit<'_>,
    ) -> Result<()> {
        let place = self.lower_bound(probe).place();
        self.insert_at(place, entry, edit)
    }

    /// Inserts an entry into a gap of this version of the tree (`Cursor::place`).
    pub(crate) fn insert_at(
        &mut self,
        place: Option<Place>,
        entry: Entry,
        edit: &mut Edit<'_>,
    ) -> Result<()> {
        self.check_place(place.as_ref(), edit);
        let Some(Place { steps, .. }) = place else {
            let id = edit.writer.begin::<MULTI>(0, edit.txn)?;
            insert_row::<MULTI>(edit.writer, id, 0, entry, None);
            (self.root, self.levels, self.len) = (Some(id), 1, 1);
            return Ok(());
        };
        // A copy and a split a level, and a new root.
        edit.writer.reserve(2 * self.levels + 1)?;
        self.len += 1;

        let appends = || self.is_right_edge(&steps);
        // What there is to say to the level above: the node's number, whether its least entry is another one,
        // and its new sibling.
        let mut below = steps[0].node;
        let mut least_moved = true;
        let mut sibling = None;
        for (level, step) in steps[..self.levels].iter().enumerate() {
            let row = step.row as usize;
            let (id, copied) = edit.own::<MULTI>(&self.pool, step.node);
            let (at, new) = if level == 0 {
                (row, Some((entry, None)))
            } else {
                set_child::<MULTI>(edit.writer, id, row, below);
                (row + 1, sibling.take().map(|id| (least::<MULTI>(&self.pool, id), Some(id))))
            };
            least_moved &= row == 0;
            if let Some((entry, child)) = new {
                sibling = insert_or_split::<MULTI>(edit, &self.pool, id, (at, entry, child), &appends);
            }
            if !copied && !least_moved && sibling.is_none() {
                return Ok(());
            }
            below = id;
        }
        if let Some(right) = sibling {
            assert!(self.levels < LEVELS_MAX, "a tree of {LEVELS_MAX} levels has no place in memory");
            let root = begin_reserved::<MULTI>(edit, self.levels);
            for (row, child) in [below, right].into_iter().enumerate() {
                insert_row::<MULTI>(edit.writer, root, row, least::<MULTI>(&self.pool, child), Some(child));
            }
            below = root;
            self.levels += 1;
        }
        self.root = Some(below);
        Ok(())
    }

    /// Puts an entry in the place of the one behind the gap, which it must equal in order; gives the old one,
    /// or None where there is none.
    pub(crate) fn replace_at(
        &mut self,
        place: Option<Place>,
        entry: Entry,
        edit: &mut Edit<'_>,
    ) -> Result<Option<Entry>> {
        let Some((steps, old)) = self.settle(place, edit) else { return Ok(None) };
        edit.writer.reserve(self.levels)?;
        let mut below = steps[0].node;
        let mut least_moved = true;
        for (level, step) in steps[..self.levels].iter().enumerate() {
            let row = step.row as usize;
            let (id, copied) = edit.own::<MULTI>(&self.pool, step.node);
            if level == 0 {
                edit.writer.edit::<MULTI>(id).set_entry(row, entry);
            } else {
                set_child::<MULTI>(edit.writer, id, row, below);
            }
            least_moved &= row == 0;
            if !copied && !least_moved {
                return Ok(Some(old));
            }
            below = id;
        }
        self.root = Some(below);
        Ok(Some(old))
    }

    /// Removes the entry behind the gap and gives it, or None where there is none.
    pub(crate) fn remove_at(&mut self, place: Option<Place>, edit: &mut Edit<'_>) -> Result<Option<Entry>> {
        let Some((steps, old)) = self.settle(place, edit) else { return Ok(None) };
        // A copy of the node and one of its neighbour a level.
        edit.writer.reserve(2 * self.levels)?;
        self.len -= 1;

        // The node below, if there is still one. Below a leaf there is none: its row goes like that of an
        // empty child.
        let mut below = None;
        let mut least_moved = true;
        for step in &steps[..self.levels] {
            let row = step.row as usize;
            let (id, copied) = edit.own::<MULTI>(&self.pool, step.node);
            match below {
                Some(child) => {
                    set_child::<MULTI>(edit.writer, id, row, child);
                    if is_sparse::<MULTI>(&self.pool, child) {
                        edit.fill_up::<MULTI>(&self.pool, id, row);
                    }
                }
                None => edit.writer.edit::<MULTI>(id).close_gap(row, 1),
            }
            least_moved &= row == 0;
            let empty = self.pool.node::<MULTI>(id).len() == 0;
            if !copied && !least_moved && !empty && !is_sparse::<MULTI>(&self.pool, id) {
                return Ok(Some(old));
            }
            if empty {
                edit.writer.recycle(id);
            }
            below = (!empty).then_some(id);
        }
        self.root = below;
        if self.root.is_none() {
            self.levels = 0;
        }
        // A root of one child is none.
        while let Some(root) = self.root
            && self.levels > 1
            && self.pool.node::<MULTI>(root).len() == 1
        {
            self.root = Some(self.pool.node::<MULTI>(root).child(0));
            self.levels -= 1;
            edit.drop_node::<MULTI>(root);
        }
        Ok(Some(old))
    }

    /// The way to the entry behind the gap, and that entry.
    fn settle(&self, place: Option<Place>, edit: &Edit<'_>) -> Option<([Step; LEVELS_MAX], Entry)> {
        self.check_place(place.as_ref(), edit);
        let mut cursor = Cursor::new(self, place);
        let entry = cursor.entry()?;
        Some((cursor.place()?.steps, entry))
    }

    /// Whether a place is behind the last entry.
    fn is_right_edge(&self, steps: &[Step; LEVELS_MAX]) -> bool {
        let last = |(level, step): (usize, &Step)| {
            let end = self.pool.node::<MULTI>(step.node).len();
            step.row as usize + usize::from(level > 0) == end
        };
        steps[..self.levels].iter().enumerate().all(last)
    }

    fn check_place(&self, place: Option<&Place>, edit: &Edit<'_>) {
        let root = place.map(|place| place.steps[place.levels - 1].node);
        assert!(root == self.root, "a place of another version of the tree");
        assert!(std::ptr::eq(&*self.pool, &**edit.writer.pool()), "a writer of another pool");
    }
}

impl<const MULTI: bool> Tree<MULTI> {
    /// Nodes that so many inserts and then so many removals may take. With as many in reserve none of them fails.
    ///
    /// One by one each may copy and split a node a level, and the inserts may add a level or more. Where they are
    /// many, they share: each of the `in_use` nodes is copied once at most and split once at most, and then only
    /// every 18th insert splits again (a node that was split is half full).
    pub(crate) fn nodes_needed(&self, inserts: usize, removals: usize, in_use: usize) -> usize {
        if inserts + removals <= 1 {
            return inserts * (2 * self.levels + 1) + removals * 2 * self.levels;
        }
        const FEW: usize = 16;
        let levels = if inserts <= FEW { self.levels + usize::from(inserts > 0) } else { LEVELS_MAX };
        let one_by_one = inserts * (2 * levels + 1) + removals * 2 * levels;
        // An edit asks for all that it alone might take, even if there is little left to copy or split.
        let splits = if inserts == 0 { 0 } else { 2 * in_use + inserts / 16 };
        let shared = in_use + splits + 4 * LEVELS_MAX;
        one_by_one.min(shared)
    }
}

impl Edit<'_> {
    /// The node to edit in place of `id`, and whether it is a copy. The writer has a node in reserve.
    fn own<const MULTI: bool>(&mut self, pool: &NodePool, id: NodeId) -> (NodeId, bool) {
        let node = pool.node::<MULTI>(id);
        if node.txn() == self.txn {
            return (id, false);
        }
        let copy = begin_reserved::<MULTI>(self, node.level());
        let mut target = self.writer.edit::<MULTI>(copy);
        target.open_gap(0, node.len());
        target.copy(0, node, 0, node.len());
        self.retired.push(id);
        (copy, true)
    }

    /// A node that the tree no longer uses.
    fn drop_node<const MULTI: bool>(&mut self, id: NodeId) {
        if self.writer.pool().node::<MULTI>(id).txn() == self.txn {
            self.writer.recycle(id);
        } else {
            self.retired.push(id);
        }
    }

    /// Brings the sparse child in `row` together with a neighbour. Parent and child are of this transaction.
    fn fill_up<const MULTI: bool>(&mut self, pool: &NodePool, parent: NodeId, row: usize) {
        let count = pool.node::<MULTI>(parent).len();
        if count < 2 {
            return;
        }
        let left_row = if row + 1 < count { row } else { row - 1 };
        let is_left = row == left_row;
        let left = pool.node::<MULTI>(parent).child(left_row);
        let right = pool.node::<MULTI>(parent).child(left_row + 1);
        let left_len = pool.node::<MULTI>(left).len();
        let right_len = pool.node::<MULTI>(right).len();

        if left_len + right_len <= pool.node::<MULTI>(left).capacity() {
            // Into the one that is ours already; the other goes.
            let (kept, gone) = if is_left { (left, right) } else { (right, left) };
            let source = pool.node::<MULTI>(gone);
            let mut target = self.writer.edit::<MULTI>(kept);
            let at = if is_left { left_len } else { 0 };
            target.open_gap(at, source.len());
            target.copy(at, source, 0, source.len());
            self.drop_node::<MULTI>(gone);
            let mut parent = self.writer.edit::<MULTI>(parent);
            parent.set_child(left_row, kept);
            parent.close_gap(left_row + 1, 1);
        } else if is_left {
            let (right, _) = self.own::<MULTI>(pool, right);
            let count = (right_len - left_len) / 2;
            let mut target = self.writer.edit::<MULTI>(left);
            target.open_gap(left_len, count);
            target.copy(left_len, pool.node(right), 0, count);
            self.writer.edit::<MULTI>(right).close_gap(0, count);
            set_child::<MULTI>(self.writer, parent, left_row + 1, right);
        } else {
            let (left, _) = self.own::<MULTI>(pool, left);
            let count = (left_len - right_len) / 2;
            let mut target = self.writer.edit::<MULTI>(right);
            target.open_gap(0, count);
            target.copy(0, pool.node(left), left_len - count, count);
            self.writer.edit::<MULTI>(left).close_gap(left_len - count, count);
            set_child::<MULTI>(self.writer, parent, left_row, left);
            set_child::<MULTI>(self.writer, parent, left_row + 1, right);
        }
    }
}

/// The least entry of a node and all below it.
fn least<const MULTI: bool>(pool: &NodePool, id: NodeId) -> Entry {
    pool.node::<MULTI>(id).entry(0)
}

/// Whether a node has fewer rows than is worth a node.
fn is_sparse<const MULTI: bool>(pool: &NodePool, id: NodeId) -> bool {
    let node = pool.node::<MULTI>(id);
    node.len() < node.capacity() * 2 / 5
}

/// Says in a parent's row which child it has and what its least entry is.
fn set_child<const MULTI: bool>(writer: &mut NodeWriter, parent: NodeId, row: usize, child: NodeId) {
    let entry = least::<MULTI>(writer.pool(), child);
    let mut parent = writer.edit::<MULTI>(parent);
    parent.set_entry(row, entry);
    parent.set_child(row, child);
}

fn insert_row<const MULTI: bool>(
    writer: &mut NodeWriter,
    id: NodeId,
    row: usize,
    entry: Entry,
    child: Option<NodeId>,
) {
    let mut node = writer.edit::<MULTI>(id);
    node.open_gap(row, 1);
    node.set_entry(row, entry);
    if let Some(child) = child {
        node.set_child(row, child);
    }
}

/// Inserts a row into a node of this transaction; if it was full, gives the new node behind it.
fn insert_or_split<const MULTI: bool>(
    edit: &mut Edit<'_>,
    pool: &NodePool,
    id: NodeId,
    (row, entry, child): (usize, Entry, Option<NodeId>),
    appends: &impl Fn() -> bool,
) -> Option<NodeId> {
    let node = pool.node::<MULTI>(id);
    let (len, level) = (node.len(), node.level());
    if len < node.capacity() {
        insert_row::<MULTI>(edit.writer, id, row, entry, child);
        return None;
    }
    let right = begin_reserved::<MULTI>(edit, level);
    if row == len && appends() {
        insert_row::<MULTI>(edit.writer, right, 0, entry, child);
        return Some(right);
    }
    let middle = len / 2;
    let mut target = edit.writer.edit::<MULTI>(right);
    target.open_gap(0, len - middle);
    target.copy(0, node, middle, len - middle);
    edit.writer.edit::<MULTI>(id).close_gap(middle, len - middle);
    if row <= middle {
        insert_row::<MULTI>(edit.writer, id, row, entry, child);
    } else {
        insert_row::<MULTI>(edit.writer, right, row - middle, entry, child);
    }
    Some(right)
}

fn begin_reserved<const MULTI: bool>(edit: &mut Edit<'_>, level: usize) -> NodeId {
    edit.writer.begin::<MULTI>(level, edit.txn).expect("the edit has reserved its nodes")
}
