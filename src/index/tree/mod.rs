//! A B+ tree of copy-on-write nodes.
//!
//! ```text
//!                      +------------------------------+
//!        root          | least entry of each child    |   level 2
//!                      +------------------------------+
//!                        |            |             |
//!               +-----------+  +-----------+  +-----------+
//!               | least ... |  | least ... |  | least ... |   level 1
//!               +-----------+  +-----------+  +-----------+
//!                 |   |   |      |   |   |      |   |   |
//!              leaves: hint, handle (and the element's number in a multikey index), in order
//! ```
//!
//! - `node` is the layout, `bulk` builds whole trees, `search` finds a place, `cursor` walks from there,
//!   `edit` inserts and removes, `check` looks at every node.
//! - Nodes have no links to their siblings: a copied node would have to be copied into all of them. A cursor
//!   keeps the path from the root instead.
//! - A node's head says in which transaction it was born. A node of the running transaction is edited in
//!   place; any other is copied, and so is the path above it. Whoever holds the old root sees the old tree,
//!   whole, for as long as the nodes that were reported as retired are kept.
//! - The entry that stands for a child is exactly the least entry of that child. So a separator never names a
//!   tuple that is gone, and comparisons in inner nodes look at the same tuples as those in leaves.
//! - The tree compares nothing by itself: order is what the caller's [`Probe`](search::Probe) and the order
//!   of insertion say.

#[expect(unsafe_code, reason = "writes entries to open leaves without a check a store, sixty million times")]
pub(crate) mod bulk;
#[cfg_attr(not(test), expect(dead_code, reason = "tests look at edited trees; `verify` will"))]
pub(crate) mod check;
pub(crate) mod cursor;
pub(crate) mod edit;
#[expect(unsafe_code, reason = "turns the numbers of nodes into slices")]
pub(crate) mod node;
pub(crate) mod search;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use node::{NodeId, NodePool};

/// Levels that a tree can have: nodes have 14 children or more but for a few at the edges, and 14^9 is over
/// 2^32.
pub(crate) const LEVELS_MAX: usize = 12;

/// A version of a tree; `clone` is another name for the same version, at no cost.
///
/// `MULTI` says whether entries carry the number of a multikey element.
#[derive(Clone)]
pub(crate) struct Tree<const MULTI: bool> {
    pool: Arc<NodePool>,
    root: Option<NodeId>,
    /// Levels of nodes: 0 without a root, 1 when the root is a leaf.
    levels: usize,
    len: u64,
}

impl<const MULTI: bool> Tree<MULTI> {
    /// The number of entries.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Gives all nodes back, which nobody else may know.
    pub(crate) fn free(self) {
        fn free<const MULTI: bool>(pool: &NodePool, id: NodeId, freed: &mut Vec<NodeId>) {
            let node = pool.node::<MULTI>(id);
            if !node.is_leaf() {
                node.children().iter().for_each(|&child| free::<MULTI>(pool, child, freed));
            }
            freed.push(id);
        }
        let mut freed = Vec::new();
        if let Some(root) = self.root {
            free::<MULTI>(&self.pool, root, &mut freed);
        }
        self.pool.give_back(&mut freed);
    }

    /// The nodes that were born in this transaction or later. Above such a node there are only such nodes.
    pub(crate) fn list_born_since(&self, txn: u64, nodes: &mut Vec<NodeId>) {
        fn list<const MULTI: bool>(pool: &NodePool, id: NodeId, txn: u64, nodes: &mut Vec<NodeId>) {
            let node = pool.node::<MULTI>(id);
            if node.txn() < txn {
                return;
            }
            node.children().iter().for_each(|&child| list::<MULTI>(pool, child, txn, nodes));
            nodes.push(id);
        }
        if let Some(root) = self.root {
            list::<MULTI>(&self.pool, root, txn, nodes);
        }
    }

    /// The tree itself; an empty one is left.
    pub(crate) fn take(&mut self) -> Self {
        let empty = Self { pool: self.pool.clone(), root: None, levels: 0, len: 0 };
        std::mem::replace(self, empty)
    }

    /// The leaves, in order, which are the caller's from now on; the tree is empty, and its inner nodes are given back.
    /// Nobody else may know them.
    pub(crate) fn take_leaves(&mut self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.root.take().into_iter().collect();
        for _ in 1..self.levels {
            let below = nodes.iter().flat_map(|&id| self.pool.node::<MULTI>(id).children());
            let below = below.copied().collect();
            self.pool.give_back(&mut std::mem::replace(&mut nodes, below));
        }
        (self.levels, self.len) = (0, 0);
        nodes
    }

    /// Bytes of all nodes.
    pub(crate) fn bytes(&self) -> u64 {
        fn nodes<const MULTI: bool>(pool: &NodePool, id: NodeId) -> u64 {
            let node = pool.node::<MULTI>(id);
            match node.level() {
                0 => 1,
                1 => 1 + node.len() as u64,
                _ => 1 + node.children().iter().map(|&child| nodes::<MULTI>(pool, child)).sum::<u64>(),
            }
        }
        self.root.map_or(0, |root| nodes::<MULTI>(&self.pool, root) * node::NODE_BYTES as u64)
    }
}
