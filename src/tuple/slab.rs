//! Slabs: the large pieces of memory under the arena of tuples and the nodes of the indexes, and the handles
//! that name a place inside them.
//!
//! ```text
//! Handle   31        22 21                    0          table (replaced whole when it is full)
//!          +-----------+-----------------------+         +------+------+------+--
//!          | slab      | offset in units of 8  |         | base | base | base |  ...
//!          +-----------+-----------------------+         +--|---+--|---+------+--
//!                 |                |                        |      +--> slab 1: 16 KiB
//!                 +-> table[slab] -+-> base + offset * 8    +---------> slab 0: 4 KiB
//! ```
//!
//! A handle is half as wide as a pointer and stays right when memory is written out and mapped elsewhere. The
//! price is one table look-up, from a table that fits the first cache level.
//!
//! Slabs are only ever added; all of them go when their owner goes. Anybody may read the table while a slab
//! is added: when it is full, a copy of twice its size takes its place, and the old one stays until the end,
//! for whoever just loaded its address. All tables together are smaller than twice the last one.
//!
//! The first slabs are small, so that ten thousand tiny spaces stay tiny; each next one of a
//! writer is as large as all it has had, up to 32 MiB. Large ones are anonymous maps, which the kernel is asked to back with huge pages: first touch of
//! memory costs more than sorting what is put there. Their memory is zero until somebody writes to it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::limits::{HANDLE_UNIT_BITS, SLAB_BITS, SLABS_MAX};

/// The name of a tuple: its slab and its offset there in units of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct Handle(pub(crate) u32);

impl Handle {
    const OFFSET_BITS: u32 = SLAB_BITS - HANDLE_UNIT_BITS;

    /// The handle of what begins `offset_bytes` into `slab`; a multiple of 8 below 32 MiB.
    #[inline]
    pub(crate) fn new(slab: u32, offset_bytes: usize) -> Self {
        debug_assert!(slab < SLABS_MAX && offset_bytes < 1 << SLAB_BITS && offset_bytes.is_multiple_of(8));
        Self(slab << Self::OFFSET_BITS | (offset_bytes >> HANDLE_UNIT_BITS) as u32)
    }

    #[inline]
    pub(crate) fn slab(self) -> u32 {
        self.0 >> Self::OFFSET_BITS
    }

    #[inline]
    pub(crate) fn offset_bytes(self) -> usize {
        ((self.0 & ((1 << Self::OFFSET_BITS) - 1)) as usize) << HANDLE_UNIT_BITS
    }
}

/// What all slabs of a store may take together.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    limit_bytes: Option<u64>,
    used_bytes: AtomicU64,
    /// One more than the calls of `take` until one is refused; 0: none will be.
    #[cfg(test)]
    refused_in: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit_bytes: Option<u64>) -> Self {
        Self { limit_bytes, ..Self::default() }
    }

    /// Refuses one `take` after so many others.
    #[cfg(test)]
    pub(crate) fn refuse_after(&self, takes: u64) {
        self.refused_in.store(takes + 1, Ordering::Relaxed);
    }

    /// Whether `refuse_after` has not come to it yet.
    #[cfg(test)]
    pub(crate) fn still_refuses(&self) -> bool {
        self.refused_in.load(Ordering::Relaxed) != 0
    }

    /// Books `bytes`, or says that they would go over the limit and books nothing.
    pub(crate) fn take(&self, bytes: u64) -> Result<()> {
        let limit = self.limit_bytes.unwrap_or(u64::MAX);
        #[cfg(test)]
        let limit = match self.refused_in.load(Ordering::Relaxed) {
            0 => limit,
            left => {
                self.refused_in.store(left - 1, Ordering::Relaxed);
                if left == 1 { 0 } else { limit }
            }
        };
        let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= limit);
        match self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(used) => Err(Error::new(ErrorKind::Memory, "memory limit")
                .expected(format_args!("at most {limit} bytes"))
                .found(format_args!("{} bytes", u128::from(used) + u128::from(bytes)))),
        }
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// The size of the next slab of a writer that has taken `taken_bytes` from a set of `slabs` slabs: as much again, from
/// 4 KiB to 32 MiB, so that no more than half of what a writer takes is ever unused. Where many writers have taken a
/// quarter of the numbers that there are, all of the rest are large.
pub(crate) fn next_slab_bytes(taken_bytes: usize, slabs: u32) -> usize {
    let largest = 1 << SLAB_BITS;
    if slabs >= SLABS_MAX / 4 { largest } else { taken_bytes.next_power_of_two().clamp(4096, largest) }
}

/// Slabs of at least this size are maps of their own, smaller ones come from the global allocator.
const MAP_BYTES_MIN: usize = 1 << 20;

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The alignment of every slab: a cache line, as the nodes ask for.
const SLAB_ALIGN_BYTES: usize = 64;

const FIRST_TABLE_SLABS: usize = 8;

/// A growing set of slabs, numbered from 0 in the order in which they were added.
pub(crate) struct Slabs {
    /// The newest table; entries below the number of slabs are set and never change.
    table: AtomicPtr<AtomicPtr<u8>>,
    grown: Mutex<Grown>,
    count: AtomicU32,
    bytes: AtomicU64,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct Grown {
    slabs: Vec<Memory>,
    /// Every table that there was, the newest last.
    tables: Vec<Table>,
}

impl Slabs {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self {
            table: AtomicPtr::new(ptr::null_mut()),
            grown: Mutex::default(),
            count: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            budget,
        }
    }

    /// A new slab of `bytes` bytes, all zero: its number and where it begins.
    pub(crate) fn add(&self, bytes: usize) -> Result<(u32, NonNull<u8>)> {
        self.add_to(self.lock(), bytes)
    }

    /// A new slab for a writer that has taken `taken_bytes`: its number, where it begins, and its bytes.
    pub(crate) fn add_next(&self, taken_bytes: usize) -> Result<(u32, NonNull<u8>, usize)> {
        let grown = self.lock();
        let bytes = next_slab_bytes(taken_bytes, grown.slabs.len() as u32);
        self.add_to(grown, bytes).map(|(slab, base)| (slab, base, bytes))
    }

    /// The bytes of all slabs, touched or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of slabs.
    pub(crate) fn len(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Where `slab` begins.
    ///
    /// # Safety
    ///
    /// `slab` is a number that `add` of this very `Slabs` has returned, and came to this thread from there
    /// (through a lock, a channel or an atomic pointer, as any other value does).
    #[inline]
    pub(crate) unsafe fn base(&self, slab: u32) -> *mut u8 {
        debug_assert!(slab < self.len(), "slab {slab} is not of this set");
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: the table was published after the slab's entry was set in it, and the caller has the number
        // from after that, so this load gave that table or a later copy; each holds the entry. Tables live as
        // long as self.
        unsafe { (*table.add(slab as usize)).load(Ordering::Relaxed) }
    }

    fn lock(&self) -> MutexGuard<'_, Grown> {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_to(&self, mut grown: MutexGuard<'_, Grown>, bytes: usize) -> Result<(u32, NonNull<u8>)> {
        let slab = grown.slabs.len();
        if slab >= SLABS_MAX as usize {
            return Err(Error::new(ErrorKind::Memory, "slabs that 4-byte handles can name")
                .expected(format_args!("at most {SLABS_MAX} of {} MiB", (1 << SLAB_BITS) >> 20))
                .found("one more"));
        }
        self.budget.take(bytes as u64)?;
        let memory = Memory::new(bytes).inspect_err(|_| self.budget.give_back(bytes as u64))?;
        let base = memory.base;
        grown.slabs.push(memory);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);

        let full = grown.tables.last().is_none_or(|table| table.slabs == slab);
        if full {
            let wider = Table::copy(grown.tables.last(), (2 * slab).max(FIRST_TABLE_SLABS));
            grown.tables.push(wider);
        }
        let table = &grown.tables[grown.tables.len() - 1];
        table.entries()[slab].store(base.as_ptr(), Ordering::Relaxed);
        self.table.store(table.first.as_ptr(), Ordering::Release);
        self.count.store(slab as u32 + 1, Ordering::Relaxed);
        Ok((slab as u32, base))
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        self.budget.give_back(*self.bytes.get_mut());
    }
}

/// An array of base addresses, held by a raw pointer because readers hold one too.
struct Table {
    first: NonNull<AtomicPtr<u8>>,
    slabs: usize,
}

impl Table {
    fn copy(old: Option<&Table>, slabs: usize) -> Self {
        let mut entries: Vec<AtomicPtr<u8>> = Vec::with_capacity(slabs);
        if let Some(old) = old {
            entries.extend(old.entries().iter().map(|base| AtomicPtr::new(base.load(Ordering::Relaxed))));
        }
        entries.resize_with(slabs, AtomicPtr::default);
        Self { first: NonNull::from(Box::leak(entries.into_boxed_slice())).cast(), slabs }
    }

    fn entries(&self) -> &[AtomicPtr<u8>] {
        // SAFETY: `copy` leaked a boxed slice of this length, which lives until `drop`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.slabs) }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let entries = ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.slabs);
        // SAFETY: `copy` leaked this very boxed slice, and only `Slabs` drops tables, when nobody can read
        // any more.
        drop(unsafe { Box::from_raw(entries) });
    }
}

// SAFETY: a table is an array of atomics on the heap, owned by nobody else.
unsafe impl Send for Table {}

/// The memory of one slab.
struct Memory {
    base: NonNull<u8>,
    source: Source,
}

enum Source {
    Map(#[expect(dead_code, reason = "held for its drop, which unmaps")] memmap2::MmapMut),
    Heap(Layout),
}

// SAFETY: the memory belongs to this value alone; who may touch which part of it is the business of those who
// got a place in it.
unsafe impl Send for Memory {}

impl Memory {
    fn new(bytes: usize) -> Result<Self> {
        let refused = |why: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Memory, format!("memory of a slab: {bytes} bytes: {why}"))
        };
        if bytes >= MAP_BYTES_MIN && !cfg!(miri) {
            Self::map(bytes).map_err(|error| refused(&error))
        } else {
            let layout =
                Layout::from_size_align(bytes.max(1), SLAB_ALIGN_BYTES).map_err(|error| refused(&error))?;
            // SAFETY: the layout's size is not 0.
            let base = unsafe { alloc_zeroed(layout) };
            let base = NonNull::new(base).ok_or_else(|| refused(&"the allocator has none"))?;
            Ok(Self { base, source: Source::Heap(layout) })
        }
    }

    /// An anonymous map; one of a huge page or more begins at a huge page's border.
    fn map(bytes: usize) -> std::io::Result<Self> {
        let mut map = memmap2::MmapMut::map_anon(bytes)?;
        let mut skipped = 0;
        if bytes >= HUGE_PAGE_BYTES {
            let beyond = |map: &memmap2::MmapMut| map.as_ptr().align_offset(HUGE_PAGE_BYTES);
            if beyond(&map) != 0 {
                // What is never touched takes no memory, so the piece skipped costs addresses only.
                map = memmap2::MmapMut::map_anon(bytes + HUGE_PAGE_BYTES)?;
                skipped = beyond(&map);
            }
            // Without huge pages it works as well, only slower: a refusal is no error.
            #[cfg(target_os = "linux")]
            let _ = map.advise_range(memmap2::Advice::HugePage, skipped, bytes);
        }
        let base = NonNull::from(&mut map[skipped..]).cast();
        Ok(Self { base, source: Source::Map(map) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Source::Heap(layout) = self.source {
            // SAFETY: allocated in `new` with this layout.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_gives_back_its_slab_and_offset() {
        for (slab, offset) in [(0, 0), (0, 8), (1, 0), (7, 4096), (1023, (1 << 25) - 8)] {
            let handle = Handle::new(slab, offset);
            assert_eq!((handle.slab(), handle.offset_bytes()), (slab, offset));
        }
    }

    #[test]
    fn slabs_begin_small_and_end_at_the_size_that_a_handle_can_reach() {
        let mut taken = 0;
        let sizes: Vec<usize> = (0..16)
            .map(|_| {
                let bytes = next_slab_bytes(taken, 0);
                taken += bytes;
                bytes
            })
            .collect();
        assert_eq!(sizes[..5], [4096, 4096, 8192, 16384, 32768]);
        assert_eq!(sizes[13..], [16 << 20, 1 << SLAB_BITS, 1 << SLAB_BITS]);
        assert_eq!(next_slab_bytes(0, SLABS_MAX / 4), 1 << SLAB_BITS);
    }

    #[test]
    fn slabs_keep_their_place_and_their_zeroes_while_the_table_grows() {
        let budget = Arc::new(Budget::new(None));
        let slabs = Slabs::new(budget.clone());
        let mut bases = Vec::new();
        for number in 0..40 {
            let bytes = if number == 20 { 4 << 20 } else { 4096 };
            let (slab, base) = slabs.add(bytes).unwrap();
            assert_eq!(slab, number);
            assert!(base.as_ptr().align_offset(if bytes > 4096 && !cfg!(miri) { 2 << 20 } else { 64 }) == 0);
            // SAFETY: the slab has that many bytes, and nobody else knows it yet.
            unsafe {
                assert_eq!(base.add(bytes - 1).read(), 0);
                base.write(number as u8 + 1);
            }
            bases.push(base.as_ptr());
        }
        for (slab, &base) in bases.iter().enumerate() {
            // SAFETY: number and memory come from `add` above.
            unsafe {
                assert_eq!(slabs.base(slab as u32), base);
                assert_eq!(base.read(), slab as u8 + 1);
            }
        }
        assert_eq!((slabs.len(), slabs.bytes()), (40, 39 * 4096 + (4 << 20)));
        assert_eq!(budget.used_bytes(), slabs.bytes());
        drop(slabs);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_slab_over_the_limit_is_refused_with_both_numbers_and_books_nothing() {
        let budget = Arc::new(Budget::new(Some(10_000)));
        let slabs = Slabs::new(budget.clone());
        slabs.add(4096).unwrap();
        let error = slabs.add(8192).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert_eq!(error.to_string(), "memory limit: expected at most 10000 bytes, found 12288 bytes");
        assert_eq!(budget.used_bytes(), 4096);
        slabs.add(4096).unwrap();
    }

    #[test]
    fn more_slabs_than_a_handle_can_name_are_refused() {
        let slabs = Slabs::new(Arc::default());
        for _ in 0..SLABS_MAX {
            slabs.add(64).unwrap();
        }
        let error = slabs.add(64).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.to_string().contains("at most 1024 of 32 MiB"), "{error}");
    }

    #[test]
    fn readers_follow_handles_while_slabs_are_added() {
        let slabs = Slabs::new(Arc::default());
        let newest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let count = newest.load(Ordering::Acquire) as u32;
                        for slab in 0..count {
                            // SAFETY: the number came from `add` through `newest`; what it names is written
                            // no more.
                            assert_eq!(unsafe { slabs.base(slab).cast::<u32>().read() }, slab);
                        }
                        if count == 100 {
                            break;
                        }
                    }
                });
            }
            for _ in 0..100 {
                let (slab, base) = slabs.add(256).unwrap();
                // SAFETY: a fresh slab of 256 bytes, aligned to 64.
                unsafe { base.cast::<u32>().write(slab) };
                newest.store(u64::from(slab) + 1, Ordering::Release);
            }
        });
    }
}
