//! Where tuples live: slabs of memory that only grow, and handles that name what is in them.
//!
//! A tuple is `[head][field map][MsgPack]` ([`field_map`] draws it), immutable once written, 8-byte
//! aligned, named by a [`Handle`]: slab number and offset in units of 8 bytes. One arena a space, so that dropping a
//! space gives back slabs, not tuples. A worker writes to slabs of its own and shares nothing but the slab table.
//!
//! Recovery appends ([`ArenaWriter::push`]). Changes take the room of tuples that died before ([`ArenaWriter::put`],
//! [`ArenaWriter::free`]): the pieces of one size class are a list through their own first bytes, so that keeping them
//! costs nothing.
//!
//! ```text
//! classes   8, 16, 24, ... 1024 bytes, exactly; above, eight to each doubling: 1152, 1280, ... 2048, 2304, ...
//! piece     0            8           12                  at least as large as its class
//!           +------------+-----------+----------
//!           | 1 + handle | units     |                   of the next piece, 0 at the end; units only in pieces
//!           | u64        | u32       |                   from 1024 bytes on
//!           +------------+-----------+----------
//! ```
//!
//! Above 1024 bytes a tuple put gets the whole room of the next class up, and its head says so; one that recovery
//! appended has just its own, and goes to the class below when it dies.
//! Slabs begin small and grow ([`next_slab_bytes`]), so that ten thousand tiny spaces
//! stay tiny; a tuple larger than the next slab gets a slab of its own size.

use std::sync::Arc;

use super::field_map::{self, FieldMapBuf, StoredTuple};
use super::slab::{Budget, Handle, Slabs, next_slab_bytes};
use crate::error::Result;
use crate::limits::HANDLE_UNIT_BITS;
use crate::prefetch;

const UNIT: usize = 1 << HANDLE_UNIT_BITS;

/// Classes up to this many units hold pieces of exactly one size.
const EXACT_UNITS_MAX: usize = 1024 / UNIT;

/// A tuple has less than 2^33 bytes in memory, 2^30 units.
const CLASSES: usize = class_below(1 << 30) + 1;

/// The largest class whose pieces need not have more than so many units.
#[inline]
const fn class_below(units: usize) -> usize {
    if units <= EXACT_UNITS_MAX {
        return units;
    }
    let doublings = (units.ilog2() - EXACT_UNITS_MAX.ilog2()) as usize;
    EXACT_UNITS_MAX + doublings * 8 + (units >> (units.ilog2() - 3)) - 8
}

/// Units of the smallest class that so many fit.
#[inline]
const fn rounded_units(units: usize) -> usize {
    if units <= EXACT_UNITS_MAX { units } else { units.next_multiple_of(1 << (units.ilog2() - 3)) }
}

/// How far ahead tuples are asked for.
const TUPLES_AHEAD: usize = 12;

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
    /// Handles come from an [`ArenaWriter`] of this arena and stay valid until the tuple is freed; a handle of another
    /// arena is a broken promise of our own, not of foreign bytes.
    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> StoredTuple<'_> {
        // SAFETY: the handle was made by `ArenaWriter::push` or `put` of this arena, which wrote a whole tuple there
        // before it gave the handle out; slabs are neither moved nor freed while the arena is borrowed, and whoever
        // frees a tuple promises that nobody looks at it any more.
        unsafe { StoredTuple::from_head(self.slabs.base(handle.slab()).add(handle.offset_bytes())) }
    }
}

impl Arena {
    /// Tuples that many handles name, one after the other, each asked for some time before it is there.
    #[inline]
    pub(crate) fn tuples<'a>(
        &'a self,
        handles: &'a [Handle],
    ) -> impl Iterator<Item = (Handle, StoredTuple<'a>)> {
        handles.iter().enumerate().map(|(number, &handle)| {
            handles.get(number + TUPLES_AHEAD).iter().for_each(|&&soon| self.prefetch(soon));
            (handle, self.get(handle))
        })
    }

    /// Asks for a tuple's first cache line, which will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, handle: Handle) {
        // SAFETY: as for `get`.
        prefetch::line(unsafe { self.slabs.base(handle.slab()) }.wrapping_add(handle.offset_bytes()));
    }
}

/// Writes tuples to an arena, through slabs that no one else writes to and the room of tuples that died.
pub(crate) struct ArenaWriter {
    arena: Arc<Arena>,
    slab: u32,
    base: *mut u8,
    used_bytes: usize,
    slab_bytes: usize,
    /// Bytes of all slabs that this writer has had.
    taken_bytes: usize,
    /// The first piece of each class; no classes before the first tuple is freed.
    free: Vec<Option<Handle>>,
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

    /// The same, in the room of a tuple that died if there is one of the size.
    ///
    /// # Errors
    /// As `push`.
    pub(crate) fn put(&mut self, tuple: &[u8], map: &FieldMapBuf) -> Result<Handle> {
        let bytes = field_map::encoded_bytes(tuple.len(), map);
        let units = bytes.div_ceil(UNIT);
        let rounded = rounded_units(units);
        let (handle, is_whole) = match self.take_piece(units, rounded) {
            Some(piece) => piece,
            None => {
                let room = rounded * UNIT;
                if self.slab_bytes - self.used_bytes < room {
                    self.next_slab(room)?;
                }
                self.used_bytes += room;
                (Handle::new(self.slab, self.used_bytes - room), rounded != units)
            }
        };
        // SAFETY: the piece has at least `bytes` bytes, which nobody knows, and is initialised (slabs come zeroed).
        let target = unsafe { std::slice::from_raw_parts_mut(self.at(handle), bytes) };
        field_map::encode(target, tuple, map);
        if is_whole {
            field_map::mark_whole_room(target);
        }
        Ok(handle)
    }

    /// Takes the room of a tuple, of whichever writer of this arena, that nobody knows any more: no index has it, no
    /// reader looks at it, and the handle is not used again.
    pub(crate) fn free(&mut self, handle: Handle) {
        let tuple = self.arena.get(handle);
        let units = tuple.stored_bytes().div_ceil(UNIT);
        let units = if tuple.has_whole_room() { rounded_units(units) } else { units };
        if self.free.is_empty() {
            self.free.resize(CLASSES, None);
        }
        let next = self.free[class_below(units)].replace(handle).map_or(0, |next| 1 + u64::from(next.0));
        let piece = self.at(handle);
        // SAFETY: the piece is aligned to 8, has 8 bytes, or 16 where units are written, and nobody knows it.
        unsafe {
            piece.cast::<u64>().write(next);
            if units >= EXACT_UNITS_MAX {
                piece.add(8).cast::<u32>().write(units as u32);
            }
        }
    }

    /// A free piece for so many units, and whether it is to be the whole room of the class that `rounded` units make.
    #[inline]
    fn take_piece(&mut self, units: usize, rounded: usize) -> Option<(Handle, bool)> {
        // A room that recovery left may be just right although its class is the one below.
        let below = class_below(units);
        if rounded != units
            && let Some(&Some(first)) = self.free.get(below)
            // SAFETY: a free piece of `EXACT_UNITS_MAX` units or more holds their number there.
            && unsafe { self.at(first).add(8).cast::<u32>().read() } as usize >= units
        {
            return Some((self.pop_piece(below)?, false));
        }
        Some((self.pop_piece(class_below(rounded))?, rounded != units))
    }

    #[inline]
    fn pop_piece(&mut self, class: usize) -> Option<Handle> {
        let first = (*self.free.get(class)?)?;
        // SAFETY: a free piece begins with the name of the next one.
        let next = unsafe { self.at(first).cast::<u64>().read() };
        let next = next.checked_sub(1).map(|next| Handle(next as u32));
        // It is read when the next tuple of the size comes.
        next.into_iter().for_each(|next| prefetch::line(self.at(next)));
        self.free[class] = next;
        Some(first)
    }

    #[inline]
    fn at(&self, handle: Handle) -> *mut u8 {
        // SAFETY: the handle is one of this arena, and its offset is within its slab.
        unsafe { self.arena.slabs.base(handle.slab()).add(handle.offset_bytes()) }
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
    use crate::tuple::field_type::FieldType;
    use crate::tuple::format::Format;
    use crate::tuple::part::PartDef;

    #[test]
    fn classes_ascend_without_holes_and_a_rounded_size_is_that_of_its_class() {
        let mut last = 0;
        for units in 1..1 << 20 {
            let (class, rounded) = (class_below(units), rounded_units(units));
            assert!(class == last || class == last + 1, "{units}");
            last = class;
            assert!(rounded >= units && rounded - units <= units / 8, "{units}");
            assert_eq!(rounded_units(rounded), rounded);
            // The first size of its class, which is that of the size or the next one.
            assert_eq!(class_below(rounded), class + usize::from(rounded != units));
            assert_eq!(class_below(rounded - 1) + 1, class_below(rounded));
        }
        assert!(class_below(rounded_units(u32::MAX as usize / UNIT + 8)) < CLASSES);
    }

    #[test]
    fn tuples_keep_their_bytes_and_the_room_of_dead_ones_is_used_again() {
        for seed in 1..if cfg!(miri) { 2 } else { 5 } {
            println!("seed {seed}");
            let mut random = fastrand::Rng::with_seed(seed);
            let format = Format::new(&[], 0, &[&[PartDef::new(0, FieldType::Unsigned)]], false).unwrap();
            let mut map = FieldMapBuf::new();
            let arena = Arc::new(Arena::new(Arc::default()));
            let mut writer = ArenaWriter::new(arena.clone());
            let tuple = |random: &mut fastrand::Rng| {
                let most = [20, 200, 2000, 5000][random.usize(..4)];
                let mut tuple = vec![0x92, random.u8(..100), 0xdb, 0, 0];
                let length = random.u16(..most);
                tuple.extend(length.to_be_bytes());
                let mark = tuple[1];
                tuple.extend((0..length).map(|at| at as u8 ^ mark));
                tuple
            };
            // Some come from recovery.
            let mut store = |writer: &mut ArenaWriter, tuple: &[u8], is_recovered: bool| {
                format.walk(tuple, 0, &mut map).unwrap();
                if is_recovered { writer.push(tuple, &map) } else { writer.put(tuple, &map) }.unwrap()
            };
            let mut live: Vec<(Handle, Vec<u8>)> = Vec::new();
            for _ in 0..400 {
                let tuple = tuple(&mut random);
                live.push((store(&mut writer, &tuple, true), tuple));
            }
            let mut settled_bytes = 0;
            let rounds = if cfg!(miri) { 2_000 } else { 200_000 };
            for round in 0..rounds {
                let at = random.usize(..live.len());
                assert_eq!(arena.get(live[at].0).data(), live[at].1);
                writer.free(live[at].0);
                // Half of them of the same length as before.
                let tuple = if random.bool() { tuple(&mut random) } else { live[at].1.clone() };
                live[at] = (store(&mut writer, &tuple, false), tuple);
                if round == rounds / 2 {
                    settled_bytes = arena.bytes();
                }
            }
            live.iter().for_each(|(handle, tuple)| assert_eq!(arena.get(*handle).data(), tuple));
            assert!(
                cfg!(miri) || arena.bytes() <= settled_bytes * 5 / 4,
                "{settled_bytes} {}",
                arena.bytes()
            );
        }
    }

    #[test]
    fn replacing_what_recovery_left_by_the_like_takes_no_memory() {
        let format = Format::new(&[], 0, &[&[PartDef::new(0, FieldType::Unsigned)]], false).unwrap();
        let mut map = FieldMapBuf::new();
        for length in [10u16, 1500, 5000] {
            let arena = Arc::new(Arena::new(Arc::default()));
            let mut writer = ArenaWriter::new(arena.clone());
            let mut tuple = vec![0x92, 1, 0xda];
            tuple.extend(length.to_be_bytes());
            tuple.resize(tuple.len() + usize::from(length), b'.');
            format.walk(&tuple, 0, &mut map).unwrap();
            let mut live: Vec<Handle> = (0..100).map(|_| writer.push(&tuple, &map).unwrap()).collect();
            let bytes = arena.bytes();
            for turn in 0..1000 {
                writer.free(live[turn % 100]);
                live[turn % 100] = writer.put(&tuple, &map).unwrap();
            }
            assert_eq!(arena.bytes(), bytes, "{length}");
        }
    }
}
