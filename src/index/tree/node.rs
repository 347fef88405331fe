//! The layout of a tree's nodes.
//!
//! ```text
//!            0     8     10      11      12      16
//!            +-----+-----+-------+-------+-------+----------+----------+-----------+-----------+
//!            | txn | len | level | flags | spare | hints    | handles  | elements  | children  |
//!            +-----+-----+-------+-------+-------+----------+----------+-----------+-----------+
//!                                                | 8 bytes  | 4 bytes  | 4 bytes   | 4 bytes   |
//!   leaf                                         | 62       | 62       |           |           | ends at 760
//!   inner                                        | 47       | 47       |           | 47        |         768
//!   leaf, multikey                               | 47       | 47       | 47        |           |         768
//!   inner, multikey                              | 37       | 37       | 37        | 37        |         756
//! ```
//!
//! 768 bytes, twelve cache lines: a node copied costs about as much as the search that led to it, and a
//! search touches few of its lines, because the hints stand side by side and decide nearly everything.
//!
//! Columns rather than records: a search reads hints only, a scan reads handles only.
//!
//! This file turns node numbers into slices. That is right as long as numbers stay with their pool and nodes
//! that others can see are not written; both are promises of this folder's files (see `index::pool`).

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::slice;

use crate::index::pool::{BlockId, Pool, Writer};
use crate::prefetch;
use crate::tuple::slab::Handle;

pub(crate) const NODE_BYTES: usize = 768;

/// The cache lines of a node.
pub(super) const ALL_LINES: Range<usize> = 0..NODE_BYTES / 64;

/// Those with its head and most of its hints.
pub(super) const HINT_LINES: Range<usize> = 0..6;

pub(crate) type NodeId = BlockId;
pub(crate) type NodePool = Pool<NODE_BYTES>;
pub(crate) type NodeWriter = Writer<NODE_BYTES>;

/// What a leaf holds for each tuple (of a multikey index: for each element of a tuple).
///
/// The hint is a digest of the key whose order never contradicts the keys' order; equal hints say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) hint: u64,
    pub(crate) handle: Handle,
    /// Number of the multikey element; 0 in other indexes.
    pub(crate) element: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Head {
    /// The transaction that the node was born in.
    pub(super) txn: u64,
    pub(super) len: u16,
    /// 0 for a leaf; a parent is one above its children.
    pub(super) level: u8,
    pub(super) flags: u8,
    pub(super) spare: u32,
}

const HEAD_BYTES: usize = 16;
const _: () = assert!(size_of::<Head>() == HEAD_BYTES);
const _: () = assert!(size_of::<Handle>() == 4 && size_of::<NodeId>() == 4);

/// Where the columns of a kind of node begin, and how many rows they have.
pub(super) struct Shape {
    pub(super) capacity: usize,
    pub(super) hints_at: usize,
    pub(super) handles_at: usize,
    pub(super) elements_at: usize,
    children_at: usize,
    /// Offset and width of every column; a width of 0 is a column that this kind does not have.
    columns: [(usize, usize); 4],
}

impl Shape {
    const fn new(multi: bool, inner: bool) -> Self {
        let element = if multi { 4 } else { 0 };
        let child = if inner { 4 } else { 0 };
        let capacity = (NODE_BYTES - HEAD_BYTES) / (8 + 4 + element + child);
        let hints_at = HEAD_BYTES;
        let handles_at = hints_at + capacity * 8;
        let elements_at = handles_at + capacity * 4;
        let children_at = elements_at + capacity * element;
        let columns = [(hints_at, 8), (handles_at, 4), (elements_at, element), (children_at, child)];
        Self { capacity, hints_at, handles_at, elements_at, children_at, columns }
    }

    /// Where the last column ends.
    const fn end(&self) -> usize {
        self.children_at + self.capacity * self.columns[3].1
    }
}

/// The shapes of a tree's nodes.
pub(super) struct Shapes<const MULTI: bool>;

impl<const MULTI: bool> Shapes<MULTI> {
    pub(super) const LEAF: Shape = Shape::new(MULTI, false);
    pub(super) const INNER: Shape = Shape::new(MULTI, true);
}

const _: () = assert!(Shapes::<false>::LEAF.capacity == 62 && Shapes::<false>::INNER.capacity == 47);
const _: () = assert!(Shapes::<true>::LEAF.capacity == 47 && Shapes::<true>::INNER.capacity == 37);
const _: () = assert!(Shapes::<false>::LEAF.end() == 760 && Shapes::<false>::INNER.end() == 768);
const _: () = assert!(Shapes::<true>::LEAF.end() == 768 && Shapes::<true>::INNER.end() == 756);

/// A node to read.
#[derive(Clone, Copy)]
pub(crate) struct NodeRef<'a, const MULTI: bool> {
    at: *const u8,
    pool: PhantomData<&'a NodePool>,
}

// SAFETY: it is a shared reference to a node and to its pool, which any thread may have: nobody writes a node while it is
// shared.
unsafe impl<const MULTI: bool> Send for NodeRef<'_, MULTI> {}

impl NodePool {
    /// The node `id`, which has been begun with `NodeMut::begin`.
    #[inline]
    pub(crate) fn node<const MULTI: bool>(&self, id: NodeId) -> NodeRef<'_, MULTI> {
        NodeRef { at: self.at(id), pool: PhantomData }
    }

    /// Asks for a whole node, which will be read soon.
    #[inline]
    pub(crate) fn prefetch_all(&self, id: NodeId) {
        self.prefetch(id, ALL_LINES);
    }

    /// Asks for some of the node's cache lines, which will be read soon.
    #[inline]
    pub(super) fn prefetch(&self, id: NodeId, lines: Range<usize>) {
        debug_assert!(lines.end <= NODE_BYTES / 64);
        lines.for_each(|line| prefetch::line(self.at(id).wrapping_add(line * 64)));
    }
}

impl<'a, const MULTI: bool> NodeRef<'a, MULTI> {
    #[inline]
    fn head(self) -> Head {
        // SAFETY: every node begins with a head, aligned to 64, which nobody writes while it is shared.
        unsafe { self.at.cast::<Head>().read() }
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        let Head { len, .. } = self.head();
        debug_assert!(
            usize::from(len) <= self.capacity(),
            "{len} rows: no node, or one of another kind of tree"
        );
        usize::from(len)
    }

    /// 0 for a leaf.
    #[inline]
    pub(crate) fn level(self) -> usize {
        self.head().level as usize
    }

    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.level() == 0
    }

    /// The transaction that the node was born in.
    #[inline]
    pub(crate) fn txn(self) -> u64 {
        self.head().txn
    }

    /// Rows that a node of this kind can hold.
    #[inline]
    pub(crate) fn capacity(self) -> usize {
        self.shape().capacity
    }

    #[inline]
    fn shape(self) -> &'static Shape {
        if self.is_leaf() { &Shapes::<MULTI>::LEAF } else { &Shapes::<MULTI>::INNER }
    }

    #[inline]
    pub(crate) fn hints(self) -> &'a [u64] {
        // SAFETY: the column begins at a multiple of 8 inside the node and has at least `len` rows, all
        // initialized (blocks are zero from the start); nobody writes the node while it is shared.
        unsafe { slice::from_raw_parts(self.at.add(HEAD_BYTES).cast(), self.len()) }
    }

    #[inline]
    pub(crate) fn handles(self) -> &'a [Handle] {
        // SAFETY: as for `hints`, at a multiple of 4; a handle is any 4 bytes.
        unsafe { slice::from_raw_parts(self.at.add(self.shape().handles_at).cast(), self.len()) }
    }

    /// Empty in trees without elements.
    #[inline]
    pub(crate) fn elements(self) -> &'a [u32] {
        let len = if MULTI { self.len() } else { 0 };
        // SAFETY: as for `hints`, at a multiple of 4.
        unsafe { slice::from_raw_parts(self.at.add(self.shape().elements_at).cast(), len) }
    }

    /// Empty in leaves.
    #[inline]
    pub(crate) fn children(self) -> &'a [NodeId] {
        let len = if self.is_leaf() { 0 } else { self.len() };
        // SAFETY: as for `hints`, at a multiple of 4; inner nodes are written with a child for each row.
        unsafe { slice::from_raw_parts(self.at.add(self.shape().children_at).cast(), len) }
    }

    /// The entry in `row`: of a leaf its own, of an inner node the least of that child.
    #[inline]
    pub(crate) fn entry(self, row: usize) -> Entry {
        Entry {
            hint: self.hints()[row],
            handle: self.handles()[row],
            element: if MULTI { self.elements()[row] } else { 0 },
        }
    }

    #[inline]
    pub(crate) fn child(self, row: usize) -> NodeId {
        self.children()[row]
    }
}

/// A node to write: one that only the holder of its writer knows, or one of the running transaction.
pub(crate) struct NodeMut<'a, const MULTI: bool> {
    at: *mut u8,
    writer: PhantomData<&'a mut NodeWriter>,
}

impl NodeWriter {
    /// A new node without rows.
    pub(crate) fn begin<const MULTI: bool>(
        &mut self,
        level: usize,
        txn: u64,
    ) -> crate::error::Result<NodeId> {
        let id = self.take()?;
        let head = Head { txn, len: 0, level: level as u8, flags: 0, spare: 0 };
        // SAFETY: the block is the caller's alone, and aligned to 64.
        unsafe { self.pool().at(id).cast::<Head>().write(head) };
        Ok(id)
    }

    /// The node `id`, born in the running transaction, hence seen by nobody else.
    #[inline]
    pub(super) fn edit<const MULTI: bool>(&mut self, id: NodeId) -> NodeMut<'_, MULTI> {
        NodeMut { at: self.pool().at(id), writer: PhantomData }
    }
}

impl<const MULTI: bool> NodeMut<'_, MULTI> {
    /// Must not be kept over a write.
    #[inline]
    pub(super) fn read(&self) -> NodeRef<'_, MULTI> {
        NodeRef { at: self.at, pool: PhantomData }
    }

    fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.read().capacity());
        // SAFETY: the head is at the node's beginning, and the node is written here alone.
        unsafe { (*self.at.cast::<Head>()).len = len as u16 }
    }

    /// Writes an entry over the one in `row`.
    pub(super) fn set_entry(&mut self, row: usize, entry: Entry) {
        let shape = self.read().shape();
        assert!(row < shape.capacity);
        // SAFETY: each column is aligned for its type and has `capacity` rows.
        unsafe {
            self.at.add(shape.hints_at).cast::<u64>().add(row).write(entry.hint);
            self.at.add(shape.handles_at).cast::<Handle>().add(row).write(entry.handle);
            if MULTI {
                self.at.add(shape.elements_at).cast::<u32>().add(row).write(entry.element);
            }
        }
    }

    /// Writes a child over the one in `row` of an inner node.
    pub(super) fn set_child(&mut self, row: usize, child: NodeId) {
        let shape = self.read().shape();
        assert!(row < shape.capacity && !self.read().is_leaf());
        // SAFETY: as in `set_entry`; inner nodes have this column.
        unsafe { self.at.add(shape.children_at).cast::<NodeId>().add(row).write(child) }
    }

    /// Makes room for `count` rows before `row`; what they hold is left over and must be written.
    pub(super) fn open_gap(&mut self, row: usize, count: usize) {
        let (shape, len) = (self.read().shape(), self.read().len());
        assert!(row <= len && len + count <= shape.capacity);
        for &(column_at, width) in &shape.columns {
            // SAFETY: source and target lie inside the column, by the assertion.
            unsafe {
                let from = self.at.add(column_at + row * width);
                ptr::copy(from, from.add(count * width), (len - row) * width);
            }
        }
        self.set_len(len + count);
    }

    /// Removes `count` rows from `row` on.
    pub(super) fn close_gap(&mut self, row: usize, count: usize) {
        let (shape, len) = (self.read().shape(), self.read().len());
        assert!(row + count <= len);
        for &(column_at, width) in &shape.columns {
            // SAFETY: source and target lie inside the column, by the assertion.
            unsafe {
                let to = self.at.add(column_at + row * width);
                ptr::copy(to.add(count * width), to, (len - row - count) * width);
            }
        }
        self.set_len(len - count);
    }

    /// Writes rows `first..first + count` of another node of the same kind over those from `row` on.
    pub(super) fn copy(&mut self, row: usize, source: NodeRef<'_, MULTI>, first: usize, count: usize) {
        let (shape, len) = (self.read().shape(), self.read().len());
        assert!(source.is_leaf() == self.read().is_leaf() && !ptr::eq(source.at, self.at));
        assert!(first + count <= source.len() && row + count <= len);
        for &(column_at, width) in &shape.columns {
            // SAFETY: two different blocks, and both ranges lie inside the column, by the assertions.
            unsafe {
                let from = source.at.add(column_at + first * width);
                ptr::copy_nonoverlapping(from, self.at.add(column_at + row * width), count * width);
            }
        }
    }
}
