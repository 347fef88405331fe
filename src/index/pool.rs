//! Blocks of one size on slabs, named by 4-byte numbers: the memory of tree nodes.
//!
//! ```text
//! BlockId  31         16 15          0
//!          +------------+-------------+      the block begins at base(slab) + number * BYTES
//!          | slab       | number in it|
//!          +------------+-------------+
//! ```
//!
//! A pool is shared; what hands out its blocks is a [`Writer`], one a thread, which takes a whole slab at a
//! time and so needs no lock for the next million blocks. A writer that is dropped leaves what it has not
//! used to the next one.
//!
//! Who may touch a block: whoever took it from a writer writes it, alone, until others get to know its
//! number; from then on it is only read, until it is given back. The users of this file (nodes and
//! bulk building) keep that promise; blocks of one pool never meet another pool, because whoever holds
//! block numbers (a tree, a list of leaves) holds them beside their pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::limits::{SLAB_BITS, SLABS_MAX};
use crate::tuple::slab::{Budget, Slabs};

/// The number of a block in its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct BlockId(u32);

impl BlockId {
    const NUMBER_BITS: u32 = 16;

    #[inline]
    fn new(slab: u32, number: u32) -> Self {
        Self(slab << Self::NUMBER_BITS | number)
    }

    #[inline]
    fn slab(self) -> u32 {
        self.0 >> Self::NUMBER_BITS
    }

    #[inline]
    fn number(self) -> usize {
        (self.0 & ((1 << Self::NUMBER_BITS) - 1)) as usize
    }
}

const _: () = assert!(SLABS_MAX <= 1 << (32 - BlockId::NUMBER_BITS));

/// Blocks of `BYTES` bytes each.
pub(crate) struct Pool<const BYTES: usize> {
    slabs: Slabs,
    left: Mutex<Left>,
}

/// What dropped writers left behind.
#[derive(Default)]
struct Left {
    runs: Vec<Run>,
    free: Vec<BlockId>,
    /// Blocks of all slabs.
    #[cfg(test)]
    made: usize,
}

/// Blocks of one slab that were never handed out: `next..end`.
#[derive(Clone, Copy)]
struct Run {
    slab: u32,
    next: u32,
    end: u32,
}

impl<const BYTES: usize> Pool<BYTES> {
    const FITS: () =
        assert!(BYTES.is_multiple_of(64) && (1 << SLAB_BITS) / BYTES <= 1 << BlockId::NUMBER_BITS);

    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        const { Self::FITS };
        Arc::new(Self { slabs: Slabs::new(budget), left: Mutex::default() })
    }

    /// The bytes of all slabs, with blocks that are not in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.slabs.bytes()
    }

    /// Where the block begins: `BYTES` bytes, aligned to 64.
    #[inline]
    pub(crate) fn at(&self, id: BlockId) -> *mut u8 {
        debug_assert!((id.number() + 1) * BYTES <= 1 << SLAB_BITS, "{id:?} is not of this pool");
        // SAFETY: numbers of blocks are made by `Writer::take` alone, from slabs of its own pool, and stay
        // with it.
        unsafe { self.slabs.base(id.slab()) }.wrapping_add(id.number() * BYTES)
    }

    /// Takes back blocks that nobody knows any more.
    pub(crate) fn give_back(&self, blocks: &mut Vec<BlockId>) {
        self.left().free.append(blocks);
    }

    /// The blocks that exist and those that nobody has, while there is no writer.
    #[cfg(test)]
    pub(crate) fn census(&self) -> (usize, usize) {
        let left = self.left();
        (
            left.made,
            left.free.len() + left.runs.iter().map(|run| (run.end - run.next) as usize).sum::<usize>(),
        )
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands out the blocks of a pool to one thread.
pub(crate) struct Writer<const BYTES: usize> {
    pool: Arc<Pool<BYTES>>,
    run: Run,
    free: Vec<BlockId>,
    /// Bytes of the slabs that this writer has had made.
    taken_bytes: usize,
}

impl<const BYTES: usize> Writer<BYTES> {
    pub(crate) fn new(pool: Arc<Pool<BYTES>>) -> Self {
        Self { pool, run: Run { slab: 0, next: 0, end: 0 }, free: Vec::new(), taken_bytes: 0 }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool<BYTES>> {
        &self.pool
    }

    /// A block for the caller alone. Its bytes are zero, or what an earlier owner left there.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<BlockId> {
        if let Some(id) = self.free.pop() {
            return Ok(id);
        }
        if self.run.next == self.run.end {
            self.refill()?;
            if let Some(id) = self.free.pop() {
                return Ok(id);
            }
        }
        let id = BlockId::new(self.run.slab, self.run.next);
        self.run.next += 1;
        Ok(id)
    }

    /// Gets blocks from what others left, else from a new slab.
    #[cold]
    fn refill(&mut self) -> Result<()> {
        {
            let mut left = self.pool.left();
            if let Some(run) = left.runs.pop() {
                self.run = run;
                return Ok(());
            }
            if !left.free.is_empty() {
                self.free.append(&mut left.free);
                return Ok(());
            }
        }
        let (slab, _, bytes) = self.pool.slabs.add_next(self.taken_bytes)?;
        self.taken_bytes += bytes;
        #[cfg(test)]
        {
            self.pool.left().made += bytes / BYTES;
        }
        self.run = Run { slab, next: 0, end: (bytes / BYTES) as u32 };
        Ok(())
    }

    /// Makes sure that the next `blocks` calls of `take` succeed.
    pub(crate) fn reserve(&mut self, blocks: usize) -> Result<()> {
        while self.available() < blocks {
            // The rest of the run is shorter than `blocks`, a few dozen.
            while self.run.next != self.run.end {
                self.free.push(BlockId::new(self.run.slab, self.run.next));
                self.run.next += 1;
            }
            self.refill()?;
        }
        Ok(())
    }

    /// How many calls of `take` are sure to succeed.
    pub(crate) fn available(&self) -> usize {
        self.free.len() + (self.run.end - self.run.next) as usize
    }

    /// Takes back a block that nobody else knows.
    #[inline]
    pub(crate) fn recycle(&mut self, id: BlockId) {
        self.free.push(id);
    }
}

impl<const BYTES: usize> Drop for Writer<BYTES> {
    fn drop(&mut self) {
        let mut left = self.pool.left();
        left.free.append(&mut self.free);
        if self.run.next != self.run.end {
            left.runs.push(self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_block_is_handed_out_twice_and_leftovers_are_used_first() {
        let pool = Pool::<768>::new(Arc::default());
        let mut seen = HashSet::new();
        for round in 0..10 {
            let mut writers = [Writer::new(pool.clone()), Writer::new(pool.clone())];
            for turn in 0..2 + round * 7 {
                assert!(seen.insert(writers[turn % 2].take().unwrap()));
            }
        }
        let bytes = pool.bytes();
        let mut blocks: Vec<BlockId> = seen.iter().copied().collect();
        pool.give_back(&mut blocks);
        let mut writer = Writer::new(pool.clone());
        let again: HashSet<BlockId> = (0..seen.len()).map(|_| writer.take().unwrap()).collect();
        assert_eq!(again.len(), seen.len());
        assert_eq!(pool.bytes(), bytes);
    }

    #[test]
    fn blocks_do_not_overlap() {
        let pool = Pool::<4096>::new(Arc::default());
        let mut writer = Writer::new(pool.clone());
        let ids: Vec<BlockId> = (0..40).map(|_| writer.take().unwrap()).collect();
        let mut places: Vec<usize> = ids.iter().map(|&id| pool.at(id) as usize).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 4096));
        assert!(places.iter().all(|place| place.is_multiple_of(64)));
    }

    #[test]
    fn reserved_blocks_are_there_when_the_budget_is_used_up() {
        let budget = Arc::new(Budget::new(Some(4096 + 4096 + 8192)));
        let pool = Pool::<768>::new(budget);
        let mut writer = Writer::new(pool);
        writer.take().unwrap();
        writer.reserve(12).unwrap();
        assert!((0..12).all(|_| writer.take().is_ok()));
        writer.reserve(100).unwrap_err();
        let rest = std::iter::from_fn(|| writer.take().ok()).count();
        assert_eq!(1 + 12 + rest, 2 * (4096 / 768) + 8192 / 768);
    }
}
