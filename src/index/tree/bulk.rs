//! Building whole trees: entries go straight into leaves, and the leaves get their inner nodes at the end.
//!
//! ```text
//! rows in order:  LeafWriter   push push push ... cut -> Leaves     (one list a block; joined in order)
//!
//! in any order:   BucketWriter push(bucket, ...)  ... finish -> a Leaves a bucket
//!
//!   worker 0   bucket 0: [leaf][leaf][le ]   bucket 1: [leaf][l  ]   ...
//!   worker 1   bucket 0: [leaf][lea ]        bucket 1: [leaf][leaf][f  ]
//!                         |  append, read
//!                         v
//!              bucket 0 in a buffer that fits the second cache level, sorted by the caller
//!                         |  write
//!                         v
//!              bucket 0: [leaf][leaf][leaf][leaf][l   ]     one leaf or two are spare
//! ```
//!
//! So there is no separate array to sort, and the peak of memory is what stays.
//!
//! `push` is the hottest line of a recovery. It touches two cache lines of the open leaf and the 16 bytes
//! that say where the open leaf is; the leaf's own head is written twice in its life. With 512 buckets all
//! that is written at a time are some 70 KiB.

use std::sync::Arc;

use super::Tree;
use super::node::{ALL_LINES, Entry, Head, NodeId, NodePool, NodeWriter, Shapes};
use crate::error::Result;
use crate::tuple::slab::Handle;

/// Leaves that nobody else knows: the list is the right to write them.
pub(crate) struct Leaves<const MULTI: bool> {
    ids: Vec<NodeId>,
}

/// An entry as it is sorted: `(hint, handle)`, in a multikey index `(hint, handle, element)`. 16 bytes either
/// way.
pub(crate) trait BulkEntry<const MULTI: bool>: Copy {
    fn new(hint: u64, handle: Handle, element: u32) -> Self;
    fn entry(self) -> Entry;
}

impl BulkEntry<false> for (u64, u32) {
    #[inline]
    fn new(hint: u64, handle: Handle, _: u32) -> Self {
        (hint, handle.0)
    }

    #[inline]
    fn entry(self) -> Entry {
        Entry { hint: self.0, handle: Handle(self.1), element: 0 }
    }
}

impl BulkEntry<true> for (u64, u32, u32) {
    #[inline]
    fn new(hint: u64, handle: Handle, element: u32) -> Self {
        (hint, handle.0, element)
    }

    #[inline]
    fn entry(self) -> Entry {
        Entry { hint: self.0, handle: Handle(self.1), element: self.2 }
    }
}

impl<const MULTI: bool> Default for Leaves<MULTI> {
    fn default() -> Self {
        Self { ids: Vec::new() }
    }
}

impl<const MULTI: bool> Leaves<MULTI> {
    /// Puts `others` behind these.
    pub(crate) fn append(&mut self, mut others: Self) {
        if self.ids.is_empty() {
            self.ids = others.ids;
        } else {
            self.ids.append(&mut others.ids);
        }
    }

    /// The number of entries in all leaves.
    pub(crate) fn entries(&self, pool: &NodePool) -> u64 {
        self.ids.iter().map(|&id| pool.node::<MULTI>(id).len() as u64).sum()
    }

    /// Appends all entries to `out`, leaf after leaf.
    pub(crate) fn read<E: BulkEntry<MULTI>>(&self, pool: &NodePool, out: &mut Vec<E>) {
        out.reserve(self.ids.len() * Shapes::<MULTI>::LEAF.capacity);
        for (number, &id) in self.ids.iter().enumerate() {
            if let Some(&next) = self.ids.get(number + 1) {
                pool.prefetch(next, ALL_LINES);
            }
            let leaf = pool.node::<MULTI>(id);
            let rows = leaf.hints().iter().zip(leaf.handles());
            if MULTI {
                let rows = rows.zip(leaf.elements());
                out.extend(rows.map(|((&hint, &handle), &element)| E::new(hint, handle, element)));
            } else {
                out.extend(rows.map(|(&hint, &handle)| E::new(hint, handle, 0)));
            }
        }
    }

    /// Writes `entries` over what the leaves hold, filling each before the next; there must be no more of
    /// them than fit. Leaves that are not needed leave the list for `spare`.
    pub(crate) fn write<E: BulkEntry<MULTI>>(
        &mut self,
        pool: &NodePool,
        entries: &[E],
        spare: &mut Vec<NodeId>,
    ) {
        let shape = &Shapes::<MULTI>::LEAF;
        let needed = entries.len().div_ceil(shape.capacity);
        assert!(needed <= self.ids.len(), "{} entries for {} leaves", entries.len(), self.ids.len());
        for (&id, rows) in self.ids.iter().zip(entries.chunks(shape.capacity)) {
            let at = pool.at(id);
            let mut leaf = OpenLeaf { at, len: 0 };
            for row in rows {
                // SAFETY: the list owns its leaves, and a chunk has no more rows than a leaf.
                unsafe { leaf.put::<MULTI>(row.entry()) };
            }
            // SAFETY: the list owns its leaves.
            unsafe { leaf.close() };
        }
        spare.extend(self.ids.drain(needed..));
    }
}

/// The leaf that is being filled. Its head's `len` is set to the full capacity when it is begun, so that a
/// leaf that gets full is done; only one that stays open has to be closed.
#[derive(Clone, Copy)]
struct OpenLeaf {
    /// Null before the first leaf, and then `len` says full.
    at: *mut u8,
    len: usize,
}

// SAFETY: the leaf is known to nobody but the writer that fills it, which also holds its pool; memory of a pool is
// not bound to a thread. Said of this pointer alone, so that the writers' other fields are still looked at.
unsafe impl Send for OpenLeaf {}

impl OpenLeaf {
    const fn none<const MULTI: bool>() -> Self {
        Self { at: std::ptr::null_mut(), len: Shapes::<MULTI>::LEAF.capacity }
    }

    #[inline(always)]
    const fn is_full<const MULTI: bool>(&self) -> bool {
        self.len == Shapes::<MULTI>::LEAF.capacity
    }

    /// # Safety
    ///
    /// `at` is a leaf that the caller alone knows, and it is not full.
    #[inline(always)]
    unsafe fn put<const MULTI: bool>(&mut self, entry: Entry) {
        let shape = const { &Shapes::<MULTI>::LEAF };
        debug_assert!(self.len < shape.capacity && !self.at.is_null());
        // SAFETY: the caller's promise; each column is aligned for its type and has `capacity` rows.
        unsafe {
            self.at.add(shape.hints_at).cast::<u64>().add(self.len).write(entry.hint);
            self.at.add(shape.handles_at).cast::<Handle>().add(self.len).write(entry.handle);
            if MULTI {
                self.at.add(shape.elements_at).cast::<u32>().add(self.len).write(entry.element);
            }
        }
        self.len += 1;
    }

    /// Says in the leaf's head how many entries it got.
    ///
    /// # Safety
    ///
    /// `at` is a leaf that the caller alone knows.
    unsafe fn close(&self) {
        // SAFETY: the caller's promise; a leaf begins with its head.
        unsafe { (*self.at.cast::<Head>()).len = self.len as u16 }
    }

    /// Begins a new leaf.
    fn begin<const MULTI: bool>(&mut self, writer: &mut NodeWriter, txn: u64) -> Result<NodeId> {
        let id = writer.take()?;
        let len = Shapes::<MULTI>::LEAF.capacity as u16;
        let at = writer.pool().at(id);
        // SAFETY: the block is the writer's alone, and aligned to 64.
        unsafe { at.cast::<Head>().write(Head { txn, len, level: 0, flags: 0, spare: 0 }) };
        *self = Self { at, len: 0 };
        Ok(id)
    }
}

/// Fills leaves with entries in the order in which they come.
pub(crate) struct LeafWriter<const MULTI: bool> {
    open: OpenLeaf,
    leaves: Vec<NodeId>,
    txn: u64,
    writer: NodeWriter,
}

impl<const MULTI: bool> LeafWriter<MULTI> {
    pub(crate) fn new(writer: NodeWriter, txn: u64) -> Self {
        Self { open: OpenLeaf::none::<MULTI>(), leaves: Vec::new(), txn, writer }
    }

    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push_entry(&mut self, entry: Entry) -> Result<()> {
        if self.open.is_full::<MULTI>() {
            self.turn()?;
        }
        // SAFETY: the open leaf is ours and, after the check, not full.
        unsafe { self.open.put::<MULTI>(entry) };
        Ok(())
    }

    /// What was pushed since the last cut; the next entry begins a new leaf.
    pub(crate) fn cut(&mut self) -> Leaves<MULTI> {
        if !self.open.at.is_null() {
            // SAFETY: the open leaf is ours.
            unsafe { self.open.close() };
            self.open = OpenLeaf::none::<MULTI>();
        }
        Leaves { ids: std::mem::take(&mut self.leaves) }
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self) -> Result<()> {
        let id = self.open.begin::<MULTI>(&mut self.writer, self.txn)?;
        self.leaves.push(id);
        Ok(())
    }
}

impl LeafWriter<false> {
    /// Appends an entry.
    #[inline(always)]
    pub(crate) fn push(&mut self, hint: u64, handle: Handle) -> Result<()> {
        self.push_entry(Entry { hint, handle, element: 0 })
    }
}

/// Throws entries into buckets, each with an open leaf of its own.
pub(crate) struct BucketWriter<const MULTI: bool> {
    /// As many as the next power of two, so that a mask can stand for the check of the index.
    open: Box<[OpenLeaf]>,
    mask: usize,
    leaves: Vec<Vec<NodeId>>,
    txn: u64,
    writer: NodeWriter,
}

impl<const MULTI: bool> BucketWriter<MULTI> {
    /// A writer to `buckets` buckets, at least one.
    pub(crate) fn new(writer: NodeWriter, txn: u64, buckets: usize) -> Self {
        assert!(buckets > 0);
        let slots = buckets.next_power_of_two();
        Self {
            open: vec![OpenLeaf::none::<MULTI>(); slots].into_boxed_slice(),
            mask: slots - 1,
            leaves: vec![Vec::new(); buckets],
            txn,
            writer,
        }
    }

    /// Appends an entry to a bucket below the number given to `new`.
    #[inline(always)]
    pub(crate) fn push_entry(&mut self, bucket: usize, entry: Entry) -> Result<()> {
        debug_assert!(bucket < self.leaves.len());
        let slot = bucket & self.mask;
        // SAFETY: there are `mask + 1` slots.
        if unsafe { self.open.get_unchecked(slot) }.is_full::<MULTI>() {
            self.turn(slot)?;
        }
        // SAFETY: as above; the open leaf is ours and, after the check, not full.
        unsafe { self.open.get_unchecked_mut(slot).put::<MULTI>(entry) };
        Ok(())
    }

    /// The leaves of each bucket, and the writer.
    pub(crate) fn finish(self) -> (Vec<Leaves<MULTI>>, NodeWriter) {
        for open in &self.open {
            if !open.at.is_null() {
                // SAFETY: open leaves are ours.
                unsafe { open.close() };
            }
        }
        (self.leaves.into_iter().map(|ids| Leaves { ids }).collect(), self.writer)
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self, bucket: usize) -> Result<()> {
        let leaves = &mut self.leaves[bucket];
        leaves.push(self.open[bucket].begin::<MULTI>(&mut self.writer, self.txn)?);
        Ok(())
    }
}

impl BucketWriter<false> {
    /// Appends an entry to a bucket below the number given to `new`.
    #[inline(always)]
    pub(crate) fn push(&mut self, bucket: usize, hint: u64, handle: Handle) -> Result<()> {
        self.push_entry(bucket, Entry { hint, handle, element: 0 })
    }
}

impl<const MULTI: bool> Tree<MULTI> {
    /// A tree over leaves that are in order; they may be partly filled. Reads the first entry of each leaf,
    /// and takes its inner nodes from `writer`.
    pub(crate) fn from_leaves(leaves: Leaves<MULTI>, writer: &mut NodeWriter, txn: u64) -> Result<Self> {
        let pool: Arc<NodePool> = writer.pool().clone();
        let len = leaves.entries(&pool);
        let mut nodes = leaves.ids;
        nodes.retain(|&id| pool.node::<MULTI>(id).len() != 0);
        let mut levels = usize::from(!nodes.is_empty());
        while nodes.len() > 1 {
            // As many children for each parent as for the next, give or take one: no parent is nearly empty.
            let parents = nodes.len().div_ceil(Shapes::<MULTI>::INNER.capacity);
            let mut above = Vec::with_capacity(parents);
            let shape = if levels == 1 { &Shapes::<MULTI>::LEAF } else { &Shapes::<MULTI>::INNER };
            let first_handle_line = shape.handles_at / 64;
            let mut first = 0;
            for number in 1..=parents {
                let end = (nodes.len() as u64 * number as u64 / parents as u64) as usize;
                let id = writer.begin::<MULTI>(levels, txn)?;
                let mut parent = writer.edit::<MULTI>(id);
                parent.open_gap(0, end - first);
                for (row, &child) in nodes[first..end].iter().enumerate() {
                    if let Some(&soon) = nodes.get(first + row + 16) {
                        pool.prefetch(soon, 0..1);
                        pool.prefetch(soon, first_handle_line..first_handle_line + 1);
                    }
                    parent.set_entry(row, pool.node::<MULTI>(child).entry(0));
                    parent.set_child(row, child);
                }
                above.push(id);
                first = end;
            }
            nodes = above;
            levels += 1;
        }
        Ok(Self { pool, root: nodes.first().copied(), levels, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Arc<NodePool> {
        NodePool::new(Arc::default())
    }

    #[test]
    fn a_bucket_of_several_workers_is_read_and_written_back_in_order() {
        let pool = pool();
        let mut random = fastrand::Rng::with_seed(1);
        let mut workers: Vec<_> =
            (0..3).map(|_| BucketWriter::<false>::new(NodeWriter::new(pool.clone()), 7, 5)).collect();
        let mut expected = vec![Vec::new(); 5];
        for number in 0..20_000 {
            let (bucket, hint) = (random.usize(0..4), random.u64(..));
            workers[random.usize(0..3)].push(bucket, hint, Handle(number)).unwrap();
            expected[bucket].push((hint, number));
        }
        let mut buckets: Vec<Leaves<false>> = (0..5).map(|_| Leaves::default()).collect();
        for worker in workers {
            for (bucket, leaves) in buckets.iter_mut().zip(worker.finish().0) {
                bucket.append(leaves);
            }
        }
        let mut spare = Vec::new();
        let mut buffer: Vec<(u64, u32)> = Vec::new();
        for (mut leaves, mut expected) in buckets.into_iter().zip(expected) {
            let before = leaves.ids.len();
            buffer.clear();
            leaves.read(&pool, &mut buffer);
            buffer.sort_unstable();
            expected.sort_unstable();
            assert_eq!(buffer, expected);
            leaves.write(&pool, &buffer, &mut spare);
            assert_eq!(leaves.ids.len(), expected.len().div_ceil(62));
            assert!(before - leaves.ids.len() <= 2);
            assert_eq!(leaves.entries(&pool), expected.len() as u64);
            buffer.clear();
            leaves.read(&pool, &mut buffer);
            assert_eq!(buffer, expected);
        }
        assert!(!spare.is_empty());
        pool.give_back(&mut spare);
    }

    #[test]
    fn a_cut_closes_the_open_leaf_and_an_empty_cut_is_empty() {
        let pool = pool();
        let mut writer = LeafWriter::<true>::new(NodeWriter::new(pool.clone()), 1);
        assert!(writer.cut().ids.is_empty());
        for (cut, count) in [1u32, 46, 47, 48, 94, 95].into_iter().enumerate() {
            let rows: Vec<(u64, u32, u32)> =
                (0..count).map(|number| (u64::from(number) << 40, number, cut as u32)).collect();
            for row in &rows {
                writer.push_entry(row.entry()).unwrap();
            }
            let leaves = writer.cut();
            assert_eq!(leaves.ids.len(), count.div_ceil(47) as usize);
            let mut read: Vec<(u64, u32, u32)> = Vec::new();
            leaves.read(&pool, &mut read);
            assert_eq!(read, rows);
        }
    }

    #[test]
    fn a_push_that_finds_no_memory_is_an_error_and_changes_nothing() {
        let pool = NodePool::new(Arc::new(crate::tuple::slab::Budget::new(Some(4096))));
        let mut writer = BucketWriter::<false>::new(NodeWriter::new(pool.clone()), 1, 1);
        let fits = 4096 / 768 * 62;
        for number in 0..fits {
            writer.push(0, u64::from(number), Handle(number)).unwrap();
        }
        writer.push(0, 0, Handle(0)).unwrap_err();
        writer.push(0, 0, Handle(0)).unwrap_err();
        let (buckets, _) = writer.finish();
        assert_eq!(buckets[0].entries(&pool), u64::from(fits));
    }
}
