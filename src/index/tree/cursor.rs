//! Walking a tree in both directions.
//!
//! A cursor stands in a gap between two entries; `next` gives the one behind the gap and steps over it,
//! `prev` the one before it. It holds the path from the root, a row a level:
//!
//! ```text
//!   level 2   row 1 of 3          the gap is in that child
//!   level 1   row 0 of 40
//!   level 0   row 17 of 62        the gap is before row 17; row 62 of 62 is the end of the leaf
//! ```
//!
//! The end of a leaf and the beginning of the next are the same gap; which of the two a cursor says depends
//! on where it came from.

use super::node::{Entry, NodeId, NodeRef};
use super::{LEVELS_MAX, Tree};

/// The way to a gap in a tree, the leaf first. It is of use with the version of the tree that it came from.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(super) steps: [Step; LEVELS_MAX],
    pub(super) levels: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) node: NodeId,
    pub(super) row: u32,
}

/// A gap between two entries of a version of a tree.
#[derive(Clone)]
pub(crate) struct Cursor<'a, const MULTI: bool> {
    tree: &'a Tree<MULTI>,
    /// None in an empty tree.
    at: Option<At<'a, MULTI>>,
}

#[derive(Clone)]
struct At<'a, const MULTI: bool> {
    /// Its row in the leaf is out of date; the true one is `row`.
    place: Place,
    leaf: NodeRef<'a, MULTI>,
    row: usize,
}

impl<const MULTI: bool> Tree<MULTI> {
    /// The gap before the first entry.
    pub(crate) fn begin(&self) -> Cursor<'_, MULTI> {
        self.edge(|_| 0)
    }

    /// The gap behind the last entry.
    pub(crate) fn end(&self) -> Cursor<'_, MULTI> {
        self.edge(|node| if node.is_leaf() { node.len() } else { node.len() - 1 })
    }

    fn edge(&self, row: impl Fn(NodeRef<'_, MULTI>) -> usize) -> Cursor<'_, MULTI> {
        let place = self.root.map(|root| {
            let mut place = Place { steps: [Step { node: root, row: 0 }; LEVELS_MAX], levels: self.levels };
            self.descend(&mut place, self.levels - 1, root, row);
            place
        });
        Cursor::new(self, place)
    }

    /// Fills the steps from `level` down to the leaf.
    fn descend(
        &self,
        place: &mut Place,
        level: usize,
        mut node: NodeId,
        row: impl Fn(NodeRef<'_, MULTI>) -> usize,
    ) {
        for level in (0..=level).rev() {
            let content = self.pool.node::<MULTI>(node);
            let row = row(content);
            place.steps[level] = Step { node, row: row as u32 };
            if level > 0 {
                node = content.child(row);
            }
        }
    }
}

impl<'a, const MULTI: bool> Cursor<'a, MULTI> {
    /// A place of this version of the tree.
    pub(super) fn new(tree: &'a Tree<MULTI>, place: Option<Place>) -> Self {
        let at = place.map(|place| At {
            place,
            leaf: tree.pool.node(place.steps[0].node),
            row: place.steps[0].row as usize,
        });
        Self { tree, at }
    }

    /// The entry behind the gap, without a step.
    #[inline]
    pub(crate) fn entry(&mut self) -> Option<Entry> {
        let at = self.at.as_mut()?;
        if at.row == at.leaf.len() && !at.next_leaf(self.tree) {
            return None;
        }
        Some(at.leaf.entry(at.row))
    }

    /// The entry before the gap; the cursor steps back over it.
    #[inline]
    pub(crate) fn prev(&mut self) -> Option<Entry> {
        let at = self.at.as_mut()?;
        if at.row == 0 && !at.prev_leaf(self.tree) {
            return None;
        }
        at.row -= 1;
        Some(at.leaf.entry(at.row))
    }

    /// Where this is, for `insert_at` and the like. None in an empty tree.
    pub(crate) fn place(&self) -> Option<Place> {
        let at = self.at.as_ref()?;
        let mut place = at.place;
        place.steps[0].row = at.row as u32;
        Some(place)
    }

    /// The handles of the rest of a leaf, which the cursor steps over: the fastest way through many entries.
    #[inline]
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn next_handles(&mut self) -> Option<&'a [crate::tuple::slab::Handle]> {
        let at = self.at.as_mut()?;
        if at.row == at.leaf.len() && !at.next_leaf(self.tree) {
            return None;
        }
        let handles = &at.leaf.handles()[at.row..];
        at.row = at.leaf.len();
        Some(handles)
    }
}

impl<const MULTI: bool> Iterator for Cursor<'_, MULTI> {
    type Item = Entry;

    /// The entry behind the gap; the cursor steps over it. After the last one, `prev` still works.
    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let entry = self.entry()?;
        if let Some(at) = &mut self.at {
            at.row += 1;
        }
        Some(entry)
    }
}

impl<'a, const MULTI: bool> At<'a, MULTI> {
    /// Goes to the beginning of the next leaf, if there is one.
    fn next_leaf(&mut self, tree: &'a Tree<MULTI>) -> bool {
        for level in 1..self.place.levels {
            let Step { node, row } = self.place.steps[level];
            let node = tree.pool.node::<MULTI>(node);
            if row as usize + 1 < node.len() {
                self.place.steps[level].row += 1;
                tree.descend(&mut self.place, level - 1, node.child(row as usize + 1), |_| 0);
                self.arrive(tree);
                return true;
            }
        }
        false
    }

    /// Goes to the end of the leaf before, if there is one.
    fn prev_leaf(&mut self, tree: &'a Tree<MULTI>) -> bool {
        for level in 1..self.place.levels {
            let Step { node, row } = self.place.steps[level];
            if row > 0 {
                self.place.steps[level].row -= 1;
                let child = tree.pool.node::<MULTI>(node).child(row as usize - 1);
                let last =
                    |node: NodeRef<'_, MULTI>| if node.is_leaf() { node.len() } else { node.len() - 1 };
                tree.descend(&mut self.place, level - 1, child, last);
                self.arrive(tree);
                return true;
            }
        }
        false
    }

    fn arrive(&mut self, tree: &'a Tree<MULTI>) {
        let Step { node, row } = self.place.steps[0];
        self.leaf = tree.pool.node(node);
        self.row = row as usize;
    }
}
