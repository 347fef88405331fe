//! The field map: where in a tuple the fields begin that indexes need to reach; and the form in which a tuple stands
//! in memory, with its map in front of it.
//!
//! ```text
//! small head                                       large head
//! 0       1       2           4                    0       1      2           4            8           12
//! +-------+-------+-----------+------+---------+   +-------+------+-----------+------------+-----------+-...
//! | flags | slots | length    | map  | MsgPack |   | flags | none | slots     | length     | map bytes | map
//! | u8    | u8    | u16       |      | array   |   | u8    |      | u16       | u32        | u32       |
//! +-------+-------+-----------+------+---------+   +-------+------+-----------+------------+-----------+-...
//!
//! flags   bit 0: the head is large; bits 1 and 2: log2 of the bytes of a cell of the map; bit 3: the arena gave the
//!         tuple the whole room of its size class (never with a small tuple)
//! length  bytes of the MsgPack array
//! map     slot 0, slot 1, ..., then the extents; a cell is 1, 2 or 4 bytes, as narrow as the tuple allows
//! ```
//!
//! Numbers are little-endian. A slot holds the offset of a field from the first byte of the MsgPack array, or 0 if the
//! tuple lacks the field (nothing can begin at 0: there is the array's own head). The slot of a value under `[*]` holds
//! 1 + the place of its extent among the extents' cells, or 0 if there is no array:
//!
//! ```text
//! extent := count, offset of the value in element 0, in element 1, ...     0: the element lacks it
//! ```
//!
//! Slots are append-only: a tuple knows how many it has, and one made before an index was added has fewer than the
//! format. What has no slot is found by skipping from the nearest field that has one.

use super::format::Format;
use crate::msgpack::{read, skip};

/// No slot of any tuple.
pub(crate) const NO_SLOT: u16 = u16::MAX;

const SMALL_HEAD_BYTES: usize = 4;
const LARGE_HEAD_BYTES: usize = 12;

const LARGE: u8 = 1;
const WIDTH_SHIFT: u32 = 1;
const WHOLE_ROOM: u8 = 1 << 3;

/// The longest tuple whose offsets fit one byte.
const LENGTH_OF_1_BYTE_MAX: usize = 1 << 8;
/// The longest tuple whose length fits a small head; its offsets fit two bytes.
const LENGTH_OF_SMALL_MAX: usize = u16::MAX as usize;

/// A field map while a tuple is walked; reused from tuple to tuple.
#[derive(Debug, Default)]
pub(crate) struct FieldMapBuf {
    /// The slots, and one cell more, to which offsets go that nobody needs.
    slots: Vec<u32>,
    pub(super) extents: Vec<u32>,
    #[cfg(not(lycosa_plain_only))]
    pub(super) scratch: super::nested::Scratch,
}

impl FieldMapBuf {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Offsets of the fields, 0 where one is absent; of values under `[*]` see the head of the file.
    #[inline]
    pub(crate) fn slots(&self) -> &[u32] {
        &self.slots[..self.slots.len().saturating_sub(1)]
    }

    #[cfg(test)]
    pub(crate) fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// Room for `slots` slots and the spare cell, with whatever was there before.
    #[inline]
    pub(super) fn prepare(&mut self, slots: u16) -> &mut [u32] {
        if self.slots.len() != usize::from(slots) + 1 {
            self.resize(slots);
        }
        self.extents.clear();
        &mut self.slots
    }

    #[cold]
    #[inline(never)]
    fn resize(&mut self, slots: u16) {
        self.slots.clear();
        self.slots.resize(usize::from(slots) + 1, 0);
    }

    /// Room for `slots` slots and the spare cell, all of them 0.
    #[cfg(not(lycosa_plain_only))]
    #[inline]
    pub(super) fn parts(&mut self, slots: u16) -> (&mut [u32], &mut Vec<u32>, &mut super::nested::Scratch) {
        self.prepare(slots);
        self.slots.fill(0);
        (&mut self.slots, &mut self.extents, &mut self.scratch)
    }

    /// Log2 of the bytes of a cell, and whether a small head will do.
    #[inline]
    fn shape(&self, length: usize) -> (u32, bool) {
        if self.extents.is_empty() && length <= LENGTH_OF_SMALL_MAX && self.slots.len() <= 256 {
            return (u32::from(length > LENGTH_OF_1_BYTE_MAX), true);
        }
        // Offsets are less than the length, places of extents at most their number.
        let greatest = (length - 1).max(self.extents.len());
        let width = if greatest < 1 << 8 {
            0
        } else if greatest < 1 << 16 {
            1
        } else {
            2
        };
        (width, false)
    }
}

/// Bytes in memory of a tuple of `length` bytes with this map.
#[inline]
pub(crate) fn encoded_bytes(length: usize, map: &FieldMapBuf) -> usize {
    let (width, small) = map.shape(length);
    let head = if small { SMALL_HEAD_BYTES } else { LARGE_HEAD_BYTES };
    head + ((map.slots().len() + map.extents.len()) << width) + length
}

/// Writes head, map and tuple into `target`, which has [`encoded_bytes`] bytes.
#[inline]
pub(crate) fn encode(target: &mut [u8], tuple: &[u8], map: &FieldMapBuf) {
    let (width, small) = map.shape(tuple.len());
    let slots = map.slots();
    if small && width == 0 {
        // The usual tuple; the same as below, but straight.
        let (head, rest) = target.split_at_mut(SMALL_HEAD_BYTES);
        head[0] = 0;
        head[1] = slots.len() as u8;
        head[2..].copy_from_slice(&(tuple.len() as u16).to_le_bytes());
        let (cells, data) = rest.split_at_mut(slots.len());
        for (cell, &slot) in cells.iter_mut().zip(slots) {
            *cell = slot as u8;
        }
        data.copy_from_slice(tuple);
        return;
    }
    let map_bytes = (slots.len() + map.extents.len()) << width;
    let head_bytes = if small { SMALL_HEAD_BYTES } else { LARGE_HEAD_BYTES };
    let (head, rest) = target.split_at_mut(head_bytes);
    head[0] = (width << WIDTH_SHIFT) as u8 | if small { 0 } else { LARGE };
    if small {
        head[1] = slots.len() as u8;
        head[2..].copy_from_slice(&(tuple.len() as u16).to_le_bytes());
    } else {
        head[1] = 0;
        head[2..4].copy_from_slice(&(slots.len() as u16).to_le_bytes());
        head[4..8].copy_from_slice(&(tuple.len() as u32).to_le_bytes());
        head[8..12].copy_from_slice(&(map_bytes as u32).to_le_bytes());
    }
    let (cells, data) = rest.split_at_mut(map_bytes);
    let numbers = slots.iter().chain(&map.extents);
    match width {
        0 => cells.iter_mut().zip(numbers).for_each(|(cell, &number)| *cell = number as u8),
        1 => {
            for (cell, &number) in cells.chunks_exact_mut(2).zip(numbers) {
                cell.copy_from_slice(&(number as u16).to_le_bytes());
            }
        }
        _ => {
            for (cell, &number) in cells.chunks_exact_mut(4).zip(numbers) {
                cell.copy_from_slice(&number.to_le_bytes());
            }
        }
    }
    data.copy_from_slice(tuple);
}

/// Notes in the head of an encoded tuple that it has the whole room of its size class.
#[inline]
pub(super) fn mark_whole_room(target: &mut [u8]) {
    target[0] |= WHOLE_ROOM;
}

/// A tuple as it stands in memory: `[head][field map][MsgPack]`, valid by the format that made it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoredTuple<'a> {
    bytes: &'a [u8],
}

impl<'a> StoredTuple<'a> {
    /// `bytes` begin with the head that [`encode`] wrote; what comes after the tuple does not matter.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The tuple whose head is at `head`.
    ///
    /// # Safety
    /// [`encode`] has written a whole tuple at `head`, which nobody writes as long as `'a` lasts.
    #[inline]
    pub(crate) unsafe fn from_head(head: *const u8) -> Self {
        // SAFETY: by the caller's promise at least the head that its first byte tells is there, and behind it the
        // bytes that the head counts.
        unsafe {
            let large = *head & LARGE != 0;
            let head_bytes = if large { LARGE_HEAD_BYTES } else { SMALL_HEAD_BYTES };
            let tuple = Self { bytes: std::slice::from_raw_parts(head, head_bytes) };
            let stored = tuple.stored_bytes();
            Self { bytes: std::slice::from_raw_parts(head, stored) }
        }
    }

    /// The usual tuple taken apart: its MsgPack, and the cells of its field map, a byte each. Nothing where offsets take
    /// more room, or there are values under `[*]`.
    #[inline(always)]
    pub(crate) fn narrow(self) -> Option<(&'a [u8], &'a [u8])> {
        if self.bytes[0] != 0 {
            return None;
        }
        let (cells, data) = self.bytes[SMALL_HEAD_BYTES..].split_at(usize::from(self.bytes[1]));
        Some((data, cells))
    }

    #[inline]
    fn u16_at(self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    #[inline]
    fn u32_at(self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    #[inline]
    fn is_large(self) -> bool {
        self.bytes[0] & LARGE != 0
    }

    #[inline]
    fn width(self) -> u32 {
        u32::from(self.bytes[0]) >> WIDTH_SHIFT & 3
    }

    /// Where the MsgPack is: first byte and length.
    #[inline]
    fn extent_of_data(self) -> (usize, usize) {
        if self.is_large() {
            (LARGE_HEAD_BYTES + self.u32_at(8) as usize, self.u32_at(4) as usize)
        } else {
            let map_bytes = usize::from(self.bytes[1]) << self.width();
            (SMALL_HEAD_BYTES + map_bytes, usize::from(self.u16_at(2)))
        }
    }

    /// The tuple's MsgPack, without head and map.
    #[inline]
    pub(crate) fn data(self) -> &'a [u8] {
        let (start, length) = self.extent_of_data();
        &self.bytes[start..start + length]
    }

    /// Bytes of head, map and MsgPack.
    #[inline]
    pub(crate) fn stored_bytes(self) -> usize {
        let (start, length) = self.extent_of_data();
        start + length
    }

    /// Whether the tuple has the whole room of its size class.
    #[inline]
    pub(super) fn has_whole_room(self) -> bool {
        self.bytes[0] & WHOLE_ROOM != 0
    }

    /// Slots that the tuple has; those that the format has got since are beyond.
    #[inline]
    pub(crate) fn slots(self) -> u16 {
        if self.is_large() { self.u16_at(2) } else { u16::from(self.bytes[1]) }
    }

    #[inline]
    fn cell(self, map: usize, number: usize) -> u32 {
        match self.width() {
            0 => u32::from(self.bytes[map + number]),
            1 => u32::from(self.u16_at(map + 2 * number)),
            _ => self.u32_at(map + 4 * number),
        }
    }

    /// What the slot holds: the field's offset in [`StoredTuple::data`]. Nothing where the field is absent, or the
    /// tuple older than the slot.
    #[inline]
    pub(crate) fn slot(self, slot: u16) -> Option<u32> {
        let (slots, map) = if self.is_large() {
            (self.u16_at(2), LARGE_HEAD_BYTES)
        } else {
            (u16::from(self.bytes[1]), SMALL_HEAD_BYTES)
        };
        if slot >= slots {
            return None;
        }
        match self.cell(map, usize::from(slot)) {
            0 => None,
            offset => Some(offset),
        }
    }

    /// Elements of the array over which a value under `[*]` ranges; nothing where there is no array.
    #[inline]
    pub(crate) fn elements(self, slot: u16) -> Option<u32> {
        let place = self.slot(slot)? as usize - 1;
        Some(self.cell(LARGE_HEAD_BYTES, usize::from(self.slots()) + place))
    }

    /// Offset in [`StoredTuple::data`] of the value under `[*]` in the `element`-th element, from 0. Nothing where the
    /// array is not there or shorter, or the element lacks the value.
    #[inline]
    pub(crate) fn extent(self, slot: u16, element: u32) -> Option<u32> {
        let place = usize::from(self.slots()) + self.slot(slot)? as usize - 1;
        if element >= self.cell(LARGE_HEAD_BYTES, place) {
            return None;
        }
        match self.cell(LARGE_HEAD_BYTES, place + 1 + element as usize) {
            0 => None,
            offset => Some(offset),
        }
    }

    /// Offset in [`StoredTuple::data`] of a field by its number, from 0; nothing where the tuple lacks it.
    #[inline]
    pub(crate) fn field(self, format: &Format, field: u32) -> Option<usize> {
        let slot = format.slot_of_field(field);
        if slot < self.slots() {
            return self.slot(slot).map(|offset| offset as usize);
        }
        self.field_by_skipping(format, field)
    }

    /// The way for fields without a slot: from the nearest slot before them, or from the start.
    fn field_by_skipping(self, format: &Format, field: u32) -> Option<usize> {
        let data = self.data();
        let (count, first) = read::array(data, 0).expect("a stored tuple is an array");
        if field >= count {
            return None;
        }
        let nearest = format.slots_before(field).find(|&(_, slot)| slot < self.slots());
        let (from, at) = match nearest {
            Some((from, slot)) => (from, self.slot(slot)? as usize),
            None => (0, first),
        };
        Some(skip::skip_many(data, at, u64::from(field - from)).expect("a stored tuple is valid"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::field_type::FieldType::*;
    use super::super::part::{FieldDef, PartDef};
    use super::*;

    fn stored(format: &Format, tuple: &[u8]) -> Vec<u8> {
        let mut map = FieldMapBuf::new();
        assert_eq!(format.walk(tuple, 0, &mut map), Ok(tuple.len()));
        let mut stored = vec![0xee; encoded_bytes(tuple.len(), &map)];
        encode(&mut stored, tuple, &map);
        assert_eq!(StoredTuple::new(&stored).stored_bytes(), stored.len());
        // What is behind a tuple in its slab is another tuple.
        stored.extend([0xee; 8]);
        stored
    }

    /// A tuple of `length` bytes: a number, a string that fills, a number, a string.
    fn tuple_of(length: usize) -> Vec<u8> {
        let mut tuple = vec![0x94, 1, 0xdb];
        let filling = length - tuple.len() - 4 - 3;
        tuple.extend((filling as u32).to_be_bytes());
        tuple.resize(tuple.len() + filling, b'x');
        tuple.extend([5, 0xa1, b'y']);
        assert_eq!(tuple.len(), length);
        tuple
    }

    #[test]
    fn the_drawing_is_true_around_every_width() {
        let keys: [&[PartDef]; 2] =
            [&[PartDef::new(0, Unsigned)], &[PartDef::new(3, String), PartDef::new(2, Unsigned)]];
        let format = Format::new(&[], 0, &keys, false).unwrap();
        for (length, head, width) in [
            (12, 4, 1),
            (255, 4, 1),
            (256, 4, 1),
            (257, 4, 2),
            (65_535, 4, 2),
            (65_536, 12, 2),
            (65_537, 12, 4),
        ] {
            let tuple = tuple_of(length);
            let bytes = stored(&format, &tuple);
            assert_eq!(bytes.len() - 8, head + 2 * width + length, "{length}");
            assert_eq!(usize::from(bytes[0] & 1), usize::from(head == 12), "{length}");
            assert_eq!(1 << (bytes[0] >> 1 & 3), width, "{length}");
            let number = |at: usize, size: usize| {
                bytes[at..at + size].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
            };
            if head == 4 {
                assert_eq!((number(1, 1), number(2, 2)), (2, length));
            } else {
                assert_eq!((number(2, 2), number(4, 4), number(8, 4)), (2, length, 2 * width));
            }
            assert_eq!((number(head, width), number(head + width, width)), (length - 2, length - 3));

            let stored = StoredTuple::new(&bytes);
            assert_eq!((stored.data(), stored.slots()), (&tuple[..], 2));
            let slots: Vec<_> = (0..4).map(|slot| stored.slot(slot)).collect();
            assert_eq!(slots, [Some(length as u32 - 2), Some(length as u32 - 3), None, None]);
            let fields: Vec<_> = (0..5).map(|field| stored.field(&format, field)).collect();
            assert_eq!(fields, [Some(1), Some(2), Some(length - 3), Some(length - 2), None]);
        }
    }

    #[cfg(not(lycosa_plain_only))]
    #[test]
    fn extents_are_as_wide_as_the_tuple_or_their_number_demands() {
        let path = |text: &str| super::super::path::Path::parse(text.as_bytes()).unwrap().unwrap();
        let parts: Vec<PartDef> =
            ["[*].a", "[*].b", "[*].c"].map(|text| PartDef::new(1, Any).nullable().at(path(text))).to_vec();
        let format = Format::new(&[], 0, &[&[PartDef::new(0, Unsigned)], &parts], false).unwrap();
        let slots = ["[*].a", "[*].b", "[*].c"].map(|text| format.slot(1, Some(&path(text))).unwrap());
        let array = format.slot(1, None).unwrap();
        // So many elements {}, and {b: 7} as the last one: 3 bytes more.
        for (elements, width) in [(1, 1), (84, 1), (85, 2), (250, 2), (21_844, 2), (21_846, 4), (65_600, 4)] {
            let mut tuple = vec![0x92, 1, 0xdd];
            tuple.extend((elements as u32).to_be_bytes());
            tuple.resize(tuple.len() + elements - 1, 0x80);
            tuple.extend([0x81, 0xa1, b'b', 7]);
            let bytes = stored(&format, &tuple);
            assert_eq!(bytes.len() - 8, 12 + (4 + 3 * (elements + 1)) * width + tuple.len(), "{elements}");
            let stored = StoredTuple::new(&bytes);
            assert_eq!(stored.data(), tuple);
            assert_eq!(stored.slot(array), Some(2));
            assert_eq!(slots.map(|slot| stored.elements(slot)), [Some(elements as u32); 3]);
            let last = elements as u32 - 1;
            assert_eq!(stored.extent(slots[1], last), Some(tuple.len() as u32 - 1));
            assert_eq!(stored.extent(slots[1], last + 1), None);
            assert_eq!(stored.extent(slots[0], last), None);
            assert!(elements == 1 || stored.extent(slots[1], 0).is_none());
        }
        let bytes = stored(&format, &[0x91, 1]);
        assert_eq!(StoredTuple::new(&bytes).elements(slots[0]), None);
        assert_eq!(StoredTuple::new(&bytes).extent(slots[0], 0), None);
    }

    #[test]
    fn a_tuple_older_than_a_slot_is_read_by_skipping() {
        let (pk, old, new) =
            ([PartDef::new(0, Any)], [PartDef::new(2, Any).nullable()], [PartDef::new(4, Any).nullable()]);
        let before = Format::new(&[], 0, &[&pk, &old], false).unwrap();
        let after = Format::new(&[], 0, &[&pk, &old, &new], false).unwrap();
        for count in 1..8u8 {
            let mut tuple = vec![0x90 | count];
            (0..count).for_each(|field| tuple.extend([0xcc, field]));
            let (old, new) = (stored(&before, &tuple), stored(&after, &tuple));
            for field in 0..9 {
                let expected = (field < u32::from(count)).then_some(1 + 2 * field as usize);
                assert_eq!(StoredTuple::new(&old).field(&after, field), expected);
                assert_eq!(StoredTuple::new(&old).field(&before, field), expected);
                assert_eq!(StoredTuple::new(&new).field(&after, field), expected);
            }
        }
    }

    #[test]
    fn more_than_255_slots_take_a_large_head() {
        for slots in [254u32, 255, 256, 300] {
            let key: Vec<PartDef> = (1..=slots).map(|field| PartDef::new(field, Any).nullable()).collect();
            let defined = vec![FieldDef::new("", Any).nullable(); 1 + slots as usize];
            let format = Format::new(&defined, 0, &[&[PartDef::new(0, Any)], &key], false).unwrap();
            let bytes = stored(&format, &[0x93, 1, 2, 3]);
            let tuple = StoredTuple::new(&bytes);
            assert_eq!(u32::from(tuple.slots()), slots);
            assert_eq!((tuple.slot(0), tuple.slot(1), tuple.slot(2)), (Some(2), Some(3), None));
            assert_eq!(tuple.data(), [0x93, 1, 2, 3]);
        }
    }
}
