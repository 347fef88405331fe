//! Looking at every node of a tree and saying what is wrong with it, for tests and for `verify`.

use std::cmp::Ordering;

use super::Tree;
use super::node::{Entry, NodeId};

/// What has been seen so far, in order.
struct Walk<'a, Order> {
    order: &'a mut Order,
    last: Option<Entry>,
    entries: u64,
    nodes: Vec<NodeId>,
}

impl<const MULTI: bool> Tree<MULTI> {
    /// Checks levels, separators, births, order (strictly ascending by `order`, and by hints nowhere
    /// descending) and the number of entries. Gives all nodes of the tree, or a sentence about the first
    /// fault.
    pub(crate) fn check(
        &self,
        mut order: impl FnMut(Entry, Entry) -> Ordering,
    ) -> Result<Vec<NodeId>, String> {
        let mut walk = Walk { order: &mut order, last: None, entries: 0, nodes: Vec::new() };
        if self.root.is_some() != (self.levels > 0) {
            return Err(format!("a tree of {} levels, its root is {:?}", self.levels, self.root));
        }
        if let Some(root) = self.root {
            self.check_node(root, self.levels - 1, &mut walk)?;
        }
        if walk.entries != self.len {
            return Err(format!("number of entries: expected {}, found {}", self.len, walk.entries));
        }
        Ok(walk.nodes)
    }

    /// Goes no deeper than the tree's levels.
    fn check_node(
        &self,
        id: NodeId,
        level: usize,
        walk: &mut Walk<'_, impl FnMut(Entry, Entry) -> Ordering>,
    ) -> Result<(), String> {
        let node = self.pool.node::<MULTI>(id);
        walk.nodes.push(id);
        if node.level() != level {
            return Err(format!("{id:?}: level: expected {level}, found {}", node.level()));
        }
        if node.len() == 0 || node.len() > node.capacity() {
            return Err(format!("{id:?}: rows: expected 1 to {}, found {}", node.capacity(), node.len()));
        }
        for row in 0..node.len() {
            let entry = node.entry(row);
            if level > 0 {
                let child = self.pool.node::<MULTI>(node.child(row));
                if child.len() == 0 || child.entry(0) != entry {
                    return Err(format!(
                        "{id:?}, row {row}: separator {entry:?} is not the child's least entry"
                    ));
                }
                if child.txn() > node.txn() {
                    return Err(format!(
                        "{id:?}, row {row}: born in {}, child in {}",
                        node.txn(),
                        child.txn()
                    ));
                }
                self.check_node(node.child(row), level - 1, walk)?;
                continue;
            }
            if let Some(last) = walk.last {
                let ordered = last.hint <= entry.hint && (walk.order)(last, entry) == Ordering::Less;
                if !ordered {
                    return Err(format!("{id:?}, row {row}: order: {entry:?} comes after {last:?}"));
                }
            }
            walk.last = Some(entry);
            walk.entries += 1;
        }
        Ok(())
    }
}
