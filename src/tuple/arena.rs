//! Where tuples live: slabs of memory that only grow, and handles that name what is in them.
//!
//! A tuple is `[head][field map][MsgPack]` ([`field_map`] draws it), immutable once written, 8-byte
//! aligned, named by a [`Handle`]: slab number and offset in units of 8 bytes. One arena a space, so that dropping a
//! space gives back slabs, not tuples. A worker writes to slabs of its own and shares nothing but the slab table.
//! Slabs begin small and grow ([`next_slab_bytes`]), so that ten thousand tiny spaces
//! stay tiny; a tuple larger than the next slab gets a slab of its own size.

use std::sync::Arc;

use super::field_map::{self, FieldMapBuf, StoredTuple};
use super::slab::{Budget, Handle, Slabs, next_slab_bytes};
use crate::error::Result;
use crate::limits::HANDLE_UNIT_BITS;

const UNIT: usize = 1 << HANDLE_UNIT_BITS;

/// The tuples of one space.
pub(crate) struct Arena {
    slabs: Slabs,
}

impl Arena {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { slabs: Slabs::new(budget) }
    }

    /// Bytes of memory that the slabs take.
    pub(crate) fn bytes(&self) -> u64 {
        self.slabs.bytes()
    }

    /// The tuple that `handle` names.
    ///
    /// Handles come from an [`ArenaWriter`] of this arena and stay valid as long as it lives; a handle of another
    /// arena is a broken promise of our own, not of foreign bytes.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> StoredTuple<'_> {
        // SAFETY: the handle was made by `ArenaWriter::push` of this arena, which wrote a whole tuple there before it
        // gave the handle out; slabs are neither moved nor freed nor written again while the arena is borrowed.
        unsafe { StoredTuple::from_head(self.slabs.base(handle.slab()).add(handle.offset_bytes())) }
    }
}

/// Appends tuples to an arena, through slabs that no one else writes to.
pub(crate) struct ArenaWriter {
    arena: Arc<Arena>,
    slab: u32,
    base: *mut u8,
    used_bytes: usize,
    slab_bytes: usize,
    /// Bytes of all slabs that this writer has had.
    taken_bytes: usize,
}

// SAFETY: `base` points into a slab of `arena` that this writer alone writes to; the slab lives as long as the arena,
// which the writer keeps alive, and is not bound to a thread.
unsafe impl Send for ArenaWriter {}

impl ArenaWriter {
    pub(crate) fn new(arena: Arc<Arena>) -> Self {
        Self { arena, slab: 0, base: std::ptr::null_mut(), used_bytes: 0, slab_bytes: 0, taken_bytes: 0 }
    }

    /// Writes a tuple with the field map that a walk over it made.
    ///
    /// # Errors
    /// `Memory` when the memory limit or the space of handles is used up.
    #[inline]
    pub(crate) fn push(&mut self, tuple: &[u8], map: &FieldMapBuf) -> Result<Handle> {
        let bytes = field_map::encoded_bytes(tuple.len(), map);
        let room = bytes.next_multiple_of(UNIT);
        if self.slab_bytes - self.used_bytes < room {
            self.next_slab(room)?;
        }
        // SAFETY: `room` bytes from `used_bytes` on are inside the slab, were handed to nobody, and are initialised
        // (slabs come zeroed).
        let target = unsafe { std::slice::from_raw_parts_mut(self.base.add(self.used_bytes), bytes) };
        field_map::encode(target, tuple, map);
        let handle = Handle::new(self.slab, self.used_bytes);
        self.used_bytes += room;
        Ok(handle)
    }

    #[cold]
    fn next_slab(&mut self, room: usize) -> Result<()> {
        let bytes = next_slab_bytes(self.taken_bytes, self.arena.slabs.len()).max(room);
        let (slab, base) = self.arena.slabs.add(bytes)?;
        (self.slab, self.base) = (slab, base.as_ptr());
        (self.used_bytes, self.slab_bytes) = (0, bytes);
        self.taken_bytes += bytes;
        Ok(())
    }
}
