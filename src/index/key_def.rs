//! A key definition: which fields order an index, of what kind, in which direction. Compiled once when the index is
//! made; nothing about it is decided again for a row.
//!
//! The entries of an index are ordered by its own parts and then, where those may be equal, by the parts of the
//! primary key that are not among them (`cmp_def` in Tarantool). A unique index orders by its own parts alone, except
//! that keys with a nil are never equal, so that there the primary key's parts decide as well. A primary key that is a
//! HASH tells apart what this order does not (the decimals 1 and 1.0), so that in the end its values' bytes decide: no
//! two entries are equal, and the order does not hang on who came first.

use std::cmp::Ordering;

use crate::msgpack::parse::KeyKind as Kind;
use crate::msgpack::{read, skip};
use crate::tuple::field_map::StoredTuple;
use crate::tuple::field_type::FieldType;
use crate::tuple::format::Format;
use crate::tuple::part::PartDef;

use super::compare::compare_values;

/// How the values of a part of this type are compared and hinted.
pub(crate) fn kind_of(field_type: FieldType) -> Kind {
    use FieldType as T;
    match field_type {
        T::Unsigned | T::Uint8 | T::Uint16 | T::Uint32 | T::Uint64 => Kind::Unsigned,
        T::Integer | T::Int8 | T::Int16 | T::Int32 | T::Int64 => Kind::Integer,
        T::Double | T::Float32 | T::Float64 => Kind::Double,
        T::Number => Kind::Number,
        T::Decimal | T::Decimal32 | T::Decimal64 | T::Decimal128 | T::Decimal256 => Kind::Decimal,
        T::String => Kind::String,
        T::Varbinary => Kind::Varbinary,
        T::Boolean => Kind::Boolean,
        T::Uuid => Kind::Uuid,
        T::Datetime => Kind::Datetime,
        // The last four cannot be parts (`space::catalog` says so); whatever they hold has an order all the same.
        T::Scalar | T::Any | T::Array | T::Map | T::Interval => Kind::Scalar,
    }
}

/// Where a part's value is found in a tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The field map's slot.
    Slot(u16),
    /// The multikey slot: one value an element.
    Elements(u16),
    /// No slot: walk over so many fields from the start of the tuple.
    Walk(u32),
}

/// One part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyPart {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// Values are decimals too, although the part's type is double: what Tarantool makes of a field of that type where
    /// a later index has a part of type number.
    pub(crate) takes_decimals: bool,
    /// The value may be nil or missing.
    pub(crate) is_nullable: bool,
    pub(crate) exclude_null: bool,
    pub(crate) descending: bool,
}

/// The definition of an index's order. See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyDef {
    /// The index's own parts, then those of the primary key that are not among them.
    pub(crate) parts: Box<[KeyPart]>,
    /// How many of them are the index's own.
    pub(crate) own: usize,
    pub(crate) unique: bool,
    /// The parts of a primary key that is a HASH.
    hashed: Box<[KeyPart]>,
    /// Some own part is multikey; its elements are counted in this slot.
    pub(crate) elements: Option<u16>,
    /// Some own part leaves tuples without a value out of the index.
    pub(crate) excludes: bool,
}

impl KeyDef {
    /// Compiles the parts of an index. `primary` is empty for the primary key itself, and where there is none that
    /// can be used; then a non-unique index is ordered by its own parts alone. `hashed`: the primary key is a HASH.
    pub(crate) fn new(
        format: &Format,
        parts: &[PartDef],
        unique: bool,
        primary: &[PartDef],
        hashed: bool,
    ) -> Self {
        let tail = primary.iter().filter(|tail| !parts.iter().any(|part| part.has_place_of(tail)));
        let compiled: Box<[KeyPart]> = parts.iter().chain(tail).map(|part| key_part(format, part)).collect();
        let elements = compiled[..parts.len()].iter().find_map(|part| match part.place {
            Place::Elements(slot) => Some(slot),
            _ => None,
        });
        let excludes = parts.iter().any(|part| part.exclude_null);
        let hashed = if hashed { primary } else { &[] };
        let hashed = hashed.iter().map(|part| key_part(format, part)).collect();
        Self { parts: compiled, own: parts.len(), unique, hashed, elements, excludes }
    }

    pub(crate) fn own(&self) -> &[KeyPart] {
        &self.parts[..self.own]
    }

    /// The primary key's parts that decide between entries whose own parts are equal.
    pub(crate) fn tail(&self) -> &[KeyPart] {
        &self.parts[self.own..]
    }

    /// The order of two entries: by the own parts, then by the tail unless the index is unique and no part was nil.
    pub(crate) fn compare<'a>(&self, a: Entry<'a>, b: Entry<'a>) -> Ordering {
        match self.compare_own(a, b) {
            (Ordering::Equal, nil) if nil || !self.unique => {
                self.compare_parts(self.tail(), a, b).0.then_with(|| self.compare_hashed(a, b))
            }
            (order, _) => order,
        }
    }

    /// The order of two entries by the own parts alone, and whether a part of both was nil before they differed.
    pub(crate) fn compare_own<'a>(&self, a: Entry<'a>, b: Entry<'a>) -> (Ordering, bool) {
        self.compare_parts(self.own(), a, b)
    }

    /// Whether the two entries cannot both be in the index.
    pub(crate) fn conflict<'a>(&self, a: Entry<'a>, b: Entry<'a>) -> bool {
        self.unique && self.compare_own(a, b) == (Ordering::Equal, false)
    }

    /// The order of the bytes that the values of a HASH primary key are written in.
    fn compare_hashed<'a>(&self, a: Entry<'a>, b: Entry<'a>) -> Ordering {
        let value = |part: &KeyPart, entry: Entry<'a>| {
            let data = entry.tuple.data();
            let at = part.find(&entry.tuple, entry.element)?;
            Some(&data[at..skip::skip(data, at).ok()?])
        };
        self.hashed
            .iter()
            .map(|part| value(part, a).cmp(&value(part, b)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    fn compare_parts<'a>(&self, parts: &[KeyPart], a: Entry<'a>, b: Entry<'a>) -> (Ordering, bool) {
        let mut any_nil = false;
        for part in parts {
            let a_at = part.find(&a.tuple, a.element);
            let b_at = part.find(&b.tuple, b.element);
            let order = part.compare(a.tuple.data(), a_at, b.tuple.data(), b_at);
            if order != Ordering::Equal {
                return (order, any_nil);
            }
            any_nil |= a_at.is_none();
        }
        (Ordering::Equal, any_nil)
    }
}

fn key_part(format: &Format, part: &PartDef) -> KeyPart {
    let slot = format.slot(part.field, part.path.as_ref());
    let is_multikey = part.path.as_ref().is_some_and(|path| path.has_multikey());
    let place = match slot {
        Some(slot) if is_multikey => Place::Elements(slot),
        Some(slot) => Place::Slot(slot),
        None => Place::Walk(part.field),
    };
    let kind = kind_of(part.field_type);
    let held = format.type_of(part.field, part.path.as_ref()).map_or(kind, kind_of);
    KeyPart {
        place,
        kind,
        takes_decimals: kind == Kind::Double && matches!(held, Kind::Number | Kind::Decimal),
        is_nullable: part.is_nullable,
        exclude_null: part.exclude_null,
        descending: part.descending,
    }
}

/// A tuple and, in a multikey index, the number of the array's element; what an index entry stands for.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) tuple: StoredTuple<'a>,
    pub(crate) element: u32,
}

impl KeyPart {
    /// Offset of the part's value; `None` where it is nil or missing, which are the same to an index.
    #[inline(always)]
    pub(crate) fn find(&self, tuple: &StoredTuple<'_>, element: u32) -> Option<usize> {
        let at = match self.place {
            Place::Slot(slot) => tuple.slot(slot)? as usize,
            Place::Elements(slot) => tuple.extent(slot, element)? as usize,
            Place::Walk(fields) => walk(tuple.data(), fields)?,
        };
        if self.is_nullable && read::is_nil(tuple.data(), at) { None } else { Some(at) }
    }

    /// The order of two values that the part has, in the part's direction; `None` is nil.
    #[inline]
    pub(crate) fn compare(&self, a: &[u8], a_at: Option<usize>, b: &[u8], b_at: Option<usize>) -> Ordering {
        let order = compare_values(self.kind, a, a_at, b, b_at);
        if self.descending { order.reverse() } else { order }
    }
}

/// Offset of a field that has no slot. The first one is right behind the array's head, and the usual primary key.
#[inline(always)]
fn walk(data: &[u8], field: u32) -> Option<usize> {
    if field == 0 && data.first().is_some_and(|head| matches!(head, 0x91..=0x9f)) {
        return Some(1);
    }
    walk_on(data, field)
}

#[inline(never)]
fn walk_on(data: &[u8], field: u32) -> Option<usize> {
    let (count, at) = read::array(data, 0).ok()?;
    if field >= count {
        return None;
    }
    skip::skip_many(data, at, u64::from(field)).ok()
}
