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
//! Where no piece of the size is left, a larger one is cut in two; and before a new slab is taken while much has died,
//! pieces that touch are joined. What a writer leaves of its last slab, and its pieces, the next writer takes over.
//!
//! Above 1024 bytes a tuple put gets the whole room of the next class up, and its head says so; one that recovery
//! appended has just its own, and goes to the class below when it dies.
//! Slabs begin small and grow ([`next_slab_bytes`]), so that ten thousand tiny spaces
//! stay tiny; a tuple larger than the next slab gets a slab of its own size.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::field_map::{self, FieldMapBuf, StoredTuple};
use super::slab::{Budget, Handle, Slabs, next_slab_bytes};
use crate::error::Result;
use crate::limits::{HANDLE_UNIT_BITS, SLAB_BITS};
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

/// Pieces are joined when what died since is one part in so many of the arena.
const JOINED_SHARE: usize = 4;

/// How far ahead tuples are asked for.
const TUPLES_AHEAD: usize = 12;

/// The tuples of one space.
pub(crate) struct Arena {
    slabs: Slabs,
    /// Pieces that writers have left behind, with their units.
    left: Mutex<Vec<Piece>>,
}

/// Room that nobody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    at: Handle,
    units: usize,
}

impl Arena {
    pub(crate) fn new(budget: Arc<Budget>) -> Self {
        Self { slabs: Slabs::new(budget), left: Mutex::default() }
    }

    /// Bytes of memory that the slabs take.
    pub(crate) fn bytes(&self) -> u64 {
        self.slabs.bytes()
    }

    fn left(&self) -> MutexGuard<'_, Vec<Piece>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The first piece of each class; no classes before the first piece.
    free: Vec<Option<Handle>>,
    /// A bit a class: whether it has pieces.
    occupied: [u64; CLASSES.div_ceil(64)],
    /// Units of tuples that died since pieces were last joined.
    died_units: usize,
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
            occupied: [0; CLASSES.div_ceil(64)],
            died_units: 0,
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
            None => (self.take_fresh(rounded)?, rounded != units),
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
        self.died_units += units;
        self.add_piece(Piece { at: handle, units });
    }

    fn add_piece(&mut self, piece: Piece) {
        let Piece { at: handle, units } = piece;
        if self.free.is_empty() {
            self.free.resize(CLASSES, None);
        }
        let class = class_below(units);
        let next = self.free[class].replace(handle).map_or(0, |next| 1 + u64::from(next.0));
        self.occupied[class / 64] |= 1 << (class % 64);
        let at = self.at(handle);
        // SAFETY: the piece is aligned to 8, has 8 bytes, or 16 where units are written, and nobody knows it.
        unsafe {
            at.cast::<u64>().write(next);
            if units >= EXACT_UNITS_MAX {
                at.add(8).cast::<u32>().write(units as u32);
            }
        }
    }

    /// Room for so many units, those of a class, where there is no piece of that class.
    #[cold]
    fn take_fresh(&mut self, units: usize) -> Result<Handle> {
        let room = units * UNIT;
        if self.slab_bytes - self.used_bytes < room {
            self.take_over();
            if let Some(handle) = self.cut(units) {
                return Ok(handle);
            }
            if self.died_units * UNIT * JOINED_SHARE >= self.arena.bytes() as usize {
                self.join();
                if let Some(handle) = self.pop_piece(class_below(units)).or_else(|| self.cut(units)) {
                    return Ok(handle);
                }
            }
            self.next_slab(room)?;
        }
        self.used_bytes += room;
        Ok(Handle::new(self.slab, self.used_bytes - room))
    }

    /// Takes so many units off a larger piece, of which the rest stays.
    fn cut(&mut self, units: usize) -> Option<Handle> {
        let mut class = class_below(units) + 1;
        loop {
            let bits = self.occupied.get(class / 64)? >> (class % 64);
            if bits == 0 {
                class = (class / 64 + 1) * 64;
                continue;
            }
            class += bits.trailing_zeros() as usize;
            let piece = self.piece(self.free[class]?, class);
            // A slab of one huge tuple has places that no handle can name.
            let rest_at = piece.at.offset_bytes() + units * UNIT;
            if rest_at >= 1 << SLAB_BITS {
                class += 1;
                continue;
            }
            self.pop_piece(class);
            self.add_piece(Piece { at: Handle::new(piece.at.slab(), rest_at), units: piece.units - units });
            return Some(piece.at);
        }
    }

    /// A free piece of a class.
    fn piece(&self, at: Handle, class: usize) -> Piece {
        let units = match class < EXACT_UNITS_MAX {
            true => class,
            // SAFETY: a free piece of `EXACT_UNITS_MAX` units or more holds their number there.
            false => unsafe { self.at(at).add(8).cast::<u32>().read() as usize },
        };
        Piece { at, units }
    }

    /// All pieces; none is left.
    fn take_pieces(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for class in 0..self.free.len() {
            while let Some(at) = self.free[class] {
                pieces.push(self.piece(at, class));
                self.pop_piece(class);
            }
        }
        pieces
    }

    /// Joins pieces that touch.
    fn join(&mut self) {
        self.died_units = 0;
        let mut pieces = self.take_pieces();
        pieces.sort_unstable();
        pieces.dedup_by(|next, piece| {
            let touches = next.at.slab() == piece.at.slab()
                && next.at.offset_bytes() == piece.at.offset_bytes() + piece.units * UNIT;
            if touches {
                piece.units += next.units;
            }
            touches
        });
        // Those in front are used first.
        pieces.into_iter().rev().for_each(|piece| self.add_piece(piece));
    }

    /// Takes over what other writers have left.
    fn take_over(&mut self) {
        let left = std::mem::take(&mut *self.arena.left());
        left.into_iter().for_each(|piece| self.add_piece(piece));
    }

    /// What is left of the slab.
    fn rest(&self) -> Option<Piece> {
        let units = (self.slab_bytes - self.used_bytes) / UNIT;
        let is_nameable = self.used_bytes < 1 << SLAB_BITS;
        (units > 0 && is_nameable).then(|| Piece { at: Handle::new(self.slab, self.used_bytes), units })
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
        if next.is_none() {
            self.occupied[class / 64] &= !(1 << (class % 64));
        }
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
        if let Some(rest) = self.rest() {
            self.add_piece(rest);
        }
        (self.slab, self.base) = (slab, base.as_ptr());
        (self.used_bytes, self.slab_bytes) = (0, bytes);
        self.taken_bytes += bytes;
        Ok(())
    }
}

impl Drop for ArenaWriter {
    fn drop(&mut self) {
        let rest = self.rest();
        let mut pieces = self.take_pieces();
        pieces.extend(rest);
        self.arena.left().append(&mut pieces);
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

    /// Random tuples, each time replaced by a longer one, up to fifty times as long; then shorter ones again.
    #[test]
    fn tuples_that_grow_and_shrink_take_a_bounded_multiple_of_what_lives() {
        let format = Format::new(&[], 0, &[&[PartDef::new(0, FieldType::Unsigned)]], false).unwrap();
        let mut map = FieldMapBuf::new();
        let mut random = fastrand::Rng::with_seed(5);
        let arena = Arc::new(Arena::new(Arc::default()));
        let count = if cfg!(miri) { 200 } else { 20_000 };
        let mut put = |writer: &mut ArenaWriter, length: u16| {
            let mut tuple = vec![0x92, 1, 0xda];
            tuple.extend(length.to_be_bytes());
            tuple.resize(tuple.len() + usize::from(length), b'.');
            format.walk(&tuple, 0, &mut map).unwrap();
            (writer.put(&tuple, &map).unwrap(), tuple.len())
        };
        let mut writer = ArenaWriter::new(arena.clone());
        let mut live: Vec<(Handle, usize)> = (0..count).map(|_| put(&mut writer, 20)).collect();
        let lengths = [30, 45, 80, 140, 260, 500, 1000, 900, 400, 100, 20];
        for (round, length) in lengths.into_iter().enumerate() {
            if round % 3 == 2 {
                // Another writer goes on.
                writer = ArenaWriter::new(arena.clone());
            }
            for _ in 0..3 * count {
                let at = random.usize(..live.len());
                writer.free(live[at].0);
                live[at] = put(&mut writer, length + random.u16(..length / 4));
            }
            let bytes: usize = live.iter().map(|(_, bytes)| bytes + 16).sum();
            let peak = live.len() * 1300;
            let most = if round < 7 { bytes * 5 / 2 } else { peak * 5 / 2 } + (4 << 20);
            assert!(arena.bytes() as usize <= most, "{length}: {} of at most {most}", arena.bytes());
            live.iter().for_each(|&(handle, bytes)| assert_eq!(arena.get(handle).data().len(), bytes));
        }
    }
}
