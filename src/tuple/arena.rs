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

/// Rooms of up to so many units have a class of their own; 1 KiB.
const EXACT_UNITS: usize = 128;

/// Classes of larger rooms between one power of two and the next.
const STEP_BITS: u32 = 3;

/// A class of rooms of one size: every number of units up to [`EXACT_UNITS`], then eight for every doubling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class(usize);

impl Class {
    /// The largest class whose rooms fit into `units`.
    fn held_by(units: usize) -> Self {
        if units <= EXACT_UNITS {
            return Self(units);
        }
        let step_bits = units.ilog2() - STEP_BITS;
        let doublings = (units.ilog2() - EXACT_UNITS.ilog2()) as usize;
        Self(EXACT_UNITS + (doublings << STEP_BITS) + (units >> step_bits) - (1 << STEP_BITS))
    }

    /// The smallest class whose rooms hold `units`.
    fn holding(units: usize) -> Self {
        let class = Self::held_by(units);
        if class.units() == units { class } else { Self(class.0 + 1) }
    }

    fn units(self) -> usize {
        if self.0 <= EXACT_UNITS {
            return self.0;
        }
        let beyond = self.0 - EXACT_UNITS;
        ((1 << STEP_BITS) + beyond % (1 << STEP_BITS))
            << (EXACT_UNITS.ilog2() - STEP_BITS)
            << (beyond >> STEP_BITS)
    }
}

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
    /// Room that tuples have left, by class.
    free: Vec<Vec<Handle>>,
}

// SAFETY: `base` points into a slab of `arena` that this writer alone writes to; the slab lives as long as the arena,
// which the writer keeps alive, and is not bound to a thread.
unsafe impl Send for ArenaWriter {}

impl ArenaWriter {
    pub(crate) fn new(arena: Arc<Arena>) -> Self {
        Self {
            arena,
            slab: 0,
            base: std::ptr::null_mut(),
            used_bytes: 0,
            slab_bytes: 0,
            taken_bytes: 0,
            free: Vec::new(),
        }
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

    /// As [`Self::push`], for tuples that come and go: takes the room that one has left, if there is any of its class.
    pub(crate) fn push_again(&mut self, tuple: &[u8], map: &FieldMapBuf) -> Result<Handle> {
        let bytes = field_map::encoded_bytes(tuple.len(), map);
        let class = Class::holding(bytes.div_ceil(UNIT));
        let room = class.units() * UNIT;
        let handle = match self.free.get_mut(class.0).and_then(Vec::pop) {
            Some(handle) => handle,
            None => {
                if self.slab_bytes - self.used_bytes < room {
                    self.next_slab(room)?;
                }
                let handle = Handle::new(self.slab, self.used_bytes);
                self.used_bytes += room;
                handle
            }
        };
        // SAFETY: as in `push` for room that was never used; else it was given back to this writer by `free`, whose
        // caller promises that nobody knows the tuple there any more, and tuples of the class have at least `bytes`.
        let target = unsafe {
            std::slice::from_raw_parts_mut(
                self.arena.slabs.base(handle.slab()).add(handle.offset_bytes()),
                bytes,
            )
        };
        field_map::encode(target, tuple, map);
        if class.0 > EXACT_UNITS {
            field_map::mark_rounded(target);
        }
        Ok(handle)
    }

    /// Takes back the room of a tuple that nobody knows any more: neither an index nor a borrow.
    pub(crate) fn free(&mut self, handle: Handle) {
        let tuple = self.arena.get(handle);
        let units = tuple.stored_bytes().div_ceil(UNIT);
        let class = if tuple.is_rounded() { Class::holding(units) } else { Class::held_by(units) };
        if self.free.len() <= class.0 {
            self.free.resize_with(class.0 + 1, Vec::new);
        }
        self.free[class.0].push(handle);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_what_it_says_and_wastes_an_eighth_at_most() {
        for units in 1..100_000 {
            let (below, above) = (Class::held_by(units), Class::holding(units));
            assert!(below.units() <= units && units <= above.units(), "{units}: {below:?} {above:?}");
            assert!(above.0 - below.0 <= 1 && (above.units() - units) * 8 <= units, "{units}: {above:?}");
            assert_eq!(Class::held_by(above.units()), above);
            assert_eq!(Class(below.0 + 1).units() > units, true, "{units}");
        }
    }
}
