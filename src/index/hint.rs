//! Hints: 64 bits that order entries like their keys, as far as they go.
//!
//! A hint never lies: if `hint(a) < hint(b)` then a is before b. It may tie. It holds the whole key, not its first
//! part, because a sample of the data tells how many bits each part needs:
//!
//! ```text
//! value  -- image -->  u64, monotone; "exact" if only equal values share it
//! image  -- code  -->  width bits:  nil | 0 below the sampled range | 1.. inside | top above
//! codes  -- hint  -->  | part 0 | part 1 | ... | first bits of the part that no longer fits |
//! ```
//!
//! After a code that is not exact (a long string, a value outside the range, a part cut short) the rest of the hint is
//! zero: later parts must not speak where an earlier one may still differ. So a hint stays right for any key that comes
//! later, however far from the sample; it only ties more often. Descending parts are coded in complement. In a
//! non-unique index the primary key's parts follow, or an index of few values would be all ties; in a unique one they
//! follow only where an own part is nil, because only there do they decide.
//!
//! Strings are coded by the bytes after the longest common prefix of the sample: 8 bytes, or, where all are short, 7
//! bytes and the length, which is exact.
//!
//! Most keys are made of unsigned numbers and strings that ascend and are never nil. For those there is a straight way
//! ([`Lean`]) that gives up, and leaves the tuple to the general one, at whatever it was not made for.

use super::key_def::{KeyDef, KeyPart, Place};
use crate::msgpack::compare::{Number, number};
use crate::msgpack::parse::KeyKind as Kind;
use crate::msgpack::{class, ext, read};
use crate::tuple::field_map::StoredTuple;

/// By how much the range of numbers may grow before hints have to be learnt anew.
pub(crate) const GROWTH: u64 = 4;

/// How hints of one index are made. See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Hints {
    own: Box<[Coder]>,
    tail: Box<[Coder]>,
    /// The tail follows only where an own part is nil.
    tail_if_nil: bool,
    /// The parts that make up a hint, if all of them are simple.
    lean: Option<Box<[Lean]>>,
}

/// A part of unsigned numbers or strings, not nullable, ascending.
#[derive(Debug, Clone)]
struct Lean {
    /// `None`: the first field.
    slot: Option<u16>,
    least: u64,
    /// Greatest less least.
    span: u64,
    /// The code's place in the hint: bits up, or down where its low bits have no room.
    up: u32,
    down: u32,
    /// A string, by 8 bytes after this prefix.
    prefix: Option<Box<[u8]>>,
}

/// How one part is coded.
#[derive(Debug, Clone)]
struct Coder {
    image: ImageKind,
    /// Sampled range of images, with some room on both sides.
    least: u64,
    greatest: u64,
    /// The code of "below the range": 1 where nil has code 0.
    below: u64,
    /// Bits of a code.
    width: u32,
    is_nullable: bool,
    descending: bool,
    /// What all sampled strings begin with.
    prefix: Box<[u8]>,
}

/// From a value to its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImageKind {
    Unsigned,
    Integer,
    Double,
    Number,
    /// Strings or binaries of at most 7 bytes after the prefix: 7 bytes and the length.
    Short,
    /// Strings or binaries: 8 bytes.
    Long,
    Boolean,
    Uuid,
    Datetime,
    Scalar,
}

/// An image, and whether only equal values have it.
type Image = (u64, bool);

/// The code of a part, and whether later parts may follow it.
type Code = (u64, bool);

impl Hints {
    /// Hints that always tie: every comparison is a full one.
    pub(crate) fn none() -> Self {
        Self { own: Box::new([]), tail: Box::new([]), tail_if_nil: false, lean: None }
    }

    /// Whether these are the hints that always tie.
    pub(crate) fn is_none(&self) -> bool {
        self.own.is_empty()
    }

    /// Learns the ranges from a sample of tuples. An empty sample gives ranges that everything is outside of.
    pub(crate) fn sample(key_def: &KeyDef, sample: &[StoredTuple<'_>]) -> Self {
        Self::learn(key_def, sample, false)
    }

    /// The same with room above for numbers that grow, such as the keys of rows to come.
    pub(crate) fn sample_growing(key_def: &KeyDef, sample: &[StoredTuple<'_>]) -> Self {
        Self::learn(key_def, sample, true)
    }

    fn learn(key_def: &KeyDef, sample: &[StoredTuple<'_>], grows: bool) -> Self {
        let coders = |parts: &[KeyPart]| -> Box<[Coder]> {
            parts.iter().map(|part| Coder::sample(part, key_def.elements, sample, grows)).collect()
        };
        let (own, tail, tail_if_nil) = (coders(key_def.own()), coders(key_def.tail()), key_def.unique);
        let tail_coded = if tail_if_nil { 0 } else { tail.len() };
        let coded = own.iter().zip(key_def.own()).chain(tail[..tail_coded].iter().zip(key_def.tail()));
        let lean = lean_parts(coded);
        Self { own, tail, tail_if_nil, lean }
    }

    /// The hint of a tuple, in a multikey index of one of its elements.
    #[inline]
    pub(crate) fn of(&self, key_def: &KeyDef, tuple: &StoredTuple<'_>, element: u32) -> u64 {
        let lean = self.lean.as_ref().and_then(|parts| match tuple.narrow() {
            Some((data, cells)) => lean_hint(parts, data, |slot| cells.get(usize::from(slot)).copied()),
            None => lean_hint(parts, tuple.data(), |slot| tuple.slot(slot)),
        });
        lean.unwrap_or_else(|| self.of_any(key_def, tuple, element))
    }

    /// The general way; the slow twin of [`lean_hint`].
    #[inline(never)]
    pub(super) fn of_any(&self, key_def: &KeyDef, tuple: &StoredTuple<'_>, element: u32) -> u64 {
        let mut packer = Packer::new();
        let mut any_nil = false;
        for (coder, part) in self.own.iter().zip(key_def.own()) {
            let at = part.find(tuple, element);
            any_nil |= at.is_none();
            if !packer.push(coder, coder.code(tuple.data(), at)) {
                return packer.hint;
            }
        }
        if any_nil || !self.tail_if_nil {
            for (coder, part) in self.tail.iter().zip(key_def.tail()) {
                let at = part.find(tuple, element);
                if !packer.push(coder, coder.code(tuple.data(), at)) {
                    return packer.hint;
                }
            }
        }
        packer.low()
    }

    /// Whether only entries with the same own parts have this hint: all of them are unsigned numbers inside the sampled
    /// range, and have room for all their bits.
    #[inline]
    pub(crate) fn tells_all(&self, hint: u64) -> bool {
        let Some(parts) = self.lean.as_ref().filter(|parts| parts.len() >= self.own.len()) else {
            return false;
        };
        let mut left = u64::BITS;
        parts[..self.own.len()].iter().all(|part| {
            let code = (hint & low_bits(left)) >> part.up;
            left = part.up;
            part.prefix.is_none() && part.down == 0 && code.wrapping_sub(1) <= part.span
        })
    }

    /// The least and the greatest hint that an entry beginning with the values of a search key can have. `values` are
    /// offsets in `key`; `None` is nil.
    pub(crate) fn range(&self, key: &[u8], values: &[Option<usize>]) -> (u64, u64) {
        let mut packer = Packer::new();
        for (coder, &at) in self.own.iter().zip(values) {
            if !packer.push(coder, coder.code(key, at)) {
                return (packer.hint, packer.hint);
            }
        }
        (packer.low(), packer.high())
    }
}

/// The parts that make up a hint, the last one perhaps in part; nothing if one of them is not simple.
fn lean_parts<'a>(coded: impl Iterator<Item = (&'a Coder, &'a KeyPart)>) -> Option<Box<[Lean]>> {
    let mut lean = Vec::new();
    let mut left = u64::BITS;
    for (coder, part) in coded {
        lean.push(coder.lean(part, left)?);
        left = left.saturating_sub(coder.width);
        // Equal images of strings need not be equal strings.
        if left == 0 || coder.image == ImageKind::Long {
            break;
        }
    }
    Some(lean.into())
}

/// The hint of a tuple whose values are all in the sampled ranges and of the usual forms.
#[inline(always)]
fn lean_hint<C: Into<u32>>(parts: &[Lean], data: &[u8], cell: impl Fn(u16) -> Option<C>) -> Option<u64> {
    let mut hint = 0;
    for part in parts {
        let at = match part.slot {
            // 0 where the field is absent.
            Some(slot) => match cell(slot)?.into() as usize {
                0 => return None,
                at => at,
            },
            None if matches!(data.first(), Some(0x91..=0x9f)) => 1,
            None => return None,
        };
        let image = match &part.prefix {
            None => read::uint_or_none(data, at)?,
            Some(prefix) => {
                let rest = read::str(data, at).ok()?.0.strip_prefix(&**prefix)?;
                u64::from_be_bytes(*rest.first_chunk()?)
            }
        };
        let above = image.wrapping_sub(part.least);
        if above > part.span {
            return None;
        }
        hint |= (above + 1) << part.up >> part.down;
    }
    Some(hint)
}

/// Puts codes side by side, most significant first.
struct Packer {
    hint: u64,
    left: u32,
}

impl Packer {
    fn new() -> Self {
        Self { hint: 0, left: u64::BITS }
    }

    /// Adds a code; `false`: the hint is complete, its other bits are zero.
    #[inline(always)]
    fn push(&mut self, coder: &Coder, (code, exact): Code) -> bool {
        if coder.width <= self.left {
            self.left -= coder.width;
            // A width of 64 comes only first, with `left` 0 after it.
            self.hint |= code << self.left;
            exact && self.left != 0
        } else {
            self.hint |= code >> (coder.width - self.left);
            self.left = 0;
            false
        }
    }

    fn low(&self) -> u64 {
        self.hint
    }

    fn high(&self) -> u64 {
        self.hint | low_bits(self.left)
    }
}

#[inline]
fn low_bits(count: u32) -> u64 {
    if count == u64::BITS { u64::MAX } else { (1 << count) - 1 }
}

/// What an image cannot be made of: the value is before or after all that have one.
enum Outside {
    Below,
    Above,
}

impl Coder {
    fn sample(part: &KeyPart, elements: Option<u16>, sample: &[StoredTuple<'_>], grows: bool) -> Self {
        let values = || {
            sample.iter().flat_map(move |tuple| {
                let count = elements.map_or(1, |slot| tuple.elements(slot).unwrap_or(0));
                (0..count).filter_map(move |element| Some((tuple.data(), part.find(tuple, element)?)))
            })
        };
        let mut coder = Self {
            image: if part.takes_decimals { ImageKind::Number } else { ImageKind::of(part.kind) },
            least: u64::MAX,
            greatest: 0,
            below: u64::from(part.is_nullable),
            width: 0,
            is_nullable: part.is_nullable,
            descending: part.descending,
            prefix: Box::new([]),
        };
        if coder.image == ImageKind::Long {
            let mut strings = values().map(|(data, at)| text(data, at));
            if let Some(first) = strings.next() {
                let common = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
                let (mut shared, mut longest) = (first.len(), first.len());
                for string in strings {
                    shared = shared.min(common(first, string));
                    longest = longest.max(string.len());
                }
                coder.prefix = first[..shared].into();
                if longest - shared <= 7 {
                    coder.image = ImageKind::Short;
                }
            }
        }
        for (data, at) in values() {
            if let Ok((image, _)) = coder.image_of(data, at) {
                coder.least = coder.least.min(image);
                coder.greatest = coder.greatest.max(image);
            }
        }
        coder.fix_width(grows);
        coder
    }

    /// The same for the straight way, if the part is simple enough; the hint has `left` bits for it.
    fn lean(&self, part: &KeyPart, left: u32) -> Option<Lean> {
        let slot = match part.place {
            Place::Slot(slot) => Some(slot),
            Place::Walk(0) => None,
            Place::Walk(_) | Place::Elements(_) => return None,
        };
        let prefix = match self.image {
            ImageKind::Unsigned => None,
            ImageKind::Long => Some(self.prefix.clone()),
            _ => return None,
        };
        let simple = !self.is_nullable && !self.descending;
        let (least, span) = (self.least, self.greatest - self.least);
        let (up, down) = (left.saturating_sub(self.width), self.width.saturating_sub(left));
        simple.then_some(Lean { slot, least, span, up, down, prefix })
    }

    /// Gives the sampled range some room and counts the bits of its codes.
    fn fix_width(&mut self, grows: bool) {
        if self.least > self.greatest {
            (self.least, self.greatest) = (0, 0);
        }
        let room = (self.greatest - self.least) / 1024;
        self.least = self.least.saturating_sub(room);
        use ImageKind::{Datetime, Double, Integer, Number, Unsigned};
        let above = match self.image {
            Unsigned | Integer | Double | Number | Datetime if grows => {
                (self.greatest - self.least).saturating_mul(GROWTH - 1)
            }
            _ => room,
        };
        self.greatest = self.greatest.saturating_add(above);
        // Codes run to greatest - least + 2 + below; a range that is too wide for 64 bits gives up its ends.
        if self.greatest - self.least > u64::MAX - 4 {
            (self.least, self.greatest) = (self.least.max(2), self.greatest.min(u64::MAX - 2));
        }
        self.width = u64::BITS - self.top().leading_zeros();
    }

    /// The code of "above the range".
    #[inline]
    fn top(&self) -> u64 {
        self.greatest - self.least + 2 + self.below
    }

    #[inline(always)]
    fn code(&self, data: &[u8], at: Option<usize>) -> Code {
        let (code, exact) = match at {
            None if self.is_nullable => (0, true),
            // Nothing but a nullable part has no value; below everything, should it happen.
            None => (self.below, false),
            Some(at) => match self.image_of(data, at) {
                Ok((image, exact)) if image >= self.least && image <= self.greatest => {
                    (image - self.least + 1 + self.below, exact)
                }
                Ok((image, _)) if image < self.least => (self.below, false),
                Err(Outside::Below) => (self.below, false),
                Ok(_) | Err(Outside::Above) => (self.top(), false),
            },
        };
        if self.descending { (low_bits(self.width) - code, exact) } else { (code, exact) }
    }

    #[inline(always)]
    fn image_of(&self, data: &[u8], at: usize) -> Result<Image, Outside> {
        match self.image {
            ImageKind::Unsigned => Ok(match read::uint(data, at) {
                Ok((value, _)) => (value, true),
                Err(_) => (0, false),
            }),
            ImageKind::Long | ImageKind::Short => self.text_image(text(data, at)),
            _ => Ok(other_image(self.image, data, at)),
        }
    }

    #[inline(always)]
    fn text_image(&self, string: &[u8]) -> Result<Image, Outside> {
        let prefix = &*self.prefix;
        let rest = match string.strip_prefix(prefix) {
            Some(rest) => rest,
            None if string < prefix => return Err(Outside::Below),
            None => return Err(Outside::Above),
        };
        let bytes = first_bytes(rest);
        Ok(match self.image {
            ImageKind::Short => (bytes & !0xff | rest.len().min(8) as u64, rest.len() <= 7),
            _ => (bytes, false),
        })
    }
}

impl ImageKind {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Unsigned => Self::Unsigned,
            Kind::Integer => Self::Integer,
            Kind::Double => Self::Double,
            Kind::Number | Kind::Decimal => Self::Number,
            Kind::String | Kind::Varbinary => Self::Long,
            Kind::Boolean => Self::Boolean,
            Kind::Uuid => Self::Uuid,
            Kind::Datetime => Self::Datetime,
            Kind::Scalar => Self::Scalar,
        }
    }
}

/// The bytes of a string or binary.
#[inline(always)]
fn text(data: &[u8], at: usize) -> &[u8] {
    match read::str(data, at) {
        Ok((string, _)) => string,
        Err(_) => binary(data, at),
    }
}

#[inline(never)]
fn binary(data: &[u8], at: usize) -> &[u8] {
    read::bin(data, at).map_or(&[], |(binary, _)| binary)
}

/// The first 8 bytes as a big-endian number, zeros where there are fewer.
#[inline(always)]
fn first_bytes(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(&eight) => u64::from_be_bytes(eight),
        None => few_bytes(bytes),
    }
}

#[inline(never)]
fn few_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().enumerate().fold(0, |image, (i, &byte)| image | u64::from(byte) << (56 - 8 * i))
}

#[inline(never)]
fn other_image(kind: ImageKind, data: &[u8], at: usize) -> Image {
    match kind {
        ImageKind::Integer => integer_image(data, at),
        ImageKind::Double => double_image(data, at),
        ImageKind::Number => number_image_of(data, at),
        ImageKind::Boolean => (read::boolean(data, at).map_or(0, |(value, _)| u64::from(value)), true),
        ImageKind::Uuid => (uuid_image(data, at), false),
        ImageKind::Datetime => datetime_image(data, at),
        ImageKind::Scalar => scalar_image(data, at),
        ImageKind::Unsigned | ImageKind::Long | ImageKind::Short => {
            unreachable!("coded by `image_of` itself")
        }
    }
}

/// Integers from -2^63, clamped where they no longer fit.
fn integer_image(data: &[u8], at: usize) -> Image {
    let Ok((value, _)) = read::int(data, at) else { return (0, false) };
    let shifted = value + (1 << 63);
    if shifted < i128::from(u64::MAX) { (shifted as u64, true) } else { (u64::MAX, false) }
}

/// The bits of a double in an order that is the numbers' order: NaN 0, then from -inf to +inf.
fn ordered_bits(value: f64) -> u64 {
    if value.is_nan() {
        return 0;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Numbers below this one are doubles exactly, and no two of them share a double.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// Doubles and integers: the nearest double; exact where no integer rounds to it.
fn double_image(data: &[u8], at: usize) -> Image {
    let value = match read::float(data, at) {
        Ok((value, _)) => value,
        Err(_) => match read::int(data, at) {
            Ok((value, _)) => value as f64,
            Err(_) => return (0, false),
        },
    };
    (ordered_bits(value), value.is_nan() || value.abs() < EXACT_INTEGERS)
}

/// Numbers of every kind: the greatest double that is not above the number, its last bit replaced by "or a little
/// more". So a decimal between two doubles is after the one and before the other.
fn number_image_of(data: &[u8], at: usize) -> Image {
    let (floor, exact) = match number(data, at) {
        None => return (0, false),
        Some(Number::Double(value)) => (value, true),
        Some(Number::Int(value)) => floor_of_int(value),
        Some(Number::Decimal(value)) => value.floor_f64(),
    };
    let bits = ordered_bits(floor);
    let whole = exact && bits & 1 == 0;
    (bits & !1 | u64::from(!whole), whole)
}

fn floor_of_int(value: i128) -> (f64, bool) {
    let nearest = value as f64;
    // Integers are within 65 bits, so the cast back is exact.
    match (nearest as i128).cmp(&value) {
        std::cmp::Ordering::Equal => (nearest, true),
        std::cmp::Ordering::Less => (nearest, false),
        std::cmp::Ordering::Greater => (nearest.next_down(), false),
    }
}

fn uuid_image(data: &[u8], at: usize) -> u64 {
    read::ext(data, at).map_or(0, |((_, payload), _)| first_bytes(payload))
}

/// Seconds in 34 bits around 1970 (from 1697 to 2242), nanoseconds in 30. The first second is not told from what is
/// before it, so that the least image, which is not exact, belongs to no value that is.
fn datetime_image(data: &[u8], at: usize) -> Image {
    let datetime =
        read::ext(data, at).ok().and_then(|((_, payload), _)| ext::Datetime::from_payload(payload).ok());
    let Some(datetime) = datetime else { return (0, false) };
    let half = 1i64 << 33;
    if datetime.seconds <= -half {
        (0, false)
    } else if datetime.seconds >= half {
        (u64::MAX, false)
    } else {
        (((datetime.seconds + half) as u64) << 30 | datetime.nanoseconds as u64, true)
    }
}

/// The class in 4 bits, in the order of classes, then the class's own image without its last 5 bits. As with numbers,
/// the bit in their place is "or a little more", so that only a value without any has its image for itself.
fn scalar_image(data: &[u8], at: usize) -> Image {
    let (rank, (image, exact)) = match read::class_at(data, at) {
        class::NIL => (0, (0, true)),
        class::BOOL => (1, (read::boolean(data, at).map_or(0, |(value, _)| u64::from(value)) << 5, true)),
        class::UINT | class::INT | class::FLOAT32 | class::FLOAT64 => (2, number_image_of(data, at)),
        class::STR => (3, (first_bytes(text(data, at)), false)),
        class::BIN => (4, (first_bytes(text(data, at)), false)),
        class::EXT => match read::ext(data, at).map_or(0, |((kind, _), _)| kind) {
            ext::EXT_DECIMAL if number(data, at).is_some() => (2, number_image_of(data, at)),
            ext::EXT_UUID => (5, (uuid_image(data, at), false)),
            ext::EXT_DATETIME => (6, datetime_image(data, at)),
            _ => return (15 << 60, false),
        },
        _ => return (15 << 60, false),
    };
    let whole = exact && image & 0x1f == 0;
    (rank << 60 | image >> 5 << 1 | u64::from(!whole), whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::ext::Datetime;
    use crate::msgpack::write;

    /// Images of ascending values ascend, and an exact one is its value's alone.
    fn images_fit(kind: ImageKind, values: &[Vec<u8>]) {
        let images: Vec<Image> = values.iter().map(|value| other_image(kind, value, 0)).collect();
        for (i, &(less, less_exact)) in images.iter().enumerate() {
            for (j, &(more, more_exact)) in images.iter().enumerate().skip(i + 1) {
                assert!(
                    less < more || less == more && !less_exact && !more_exact,
                    "{kind:?}: {:x?} has {:x?}, {:x?} has {:x?}",
                    values[i],
                    images[i],
                    values[j],
                    images[j]
                );
            }
        }
    }

    fn encoded<T>(values: &[T], write: impl Fn(&mut Vec<u8>, &T)) -> Vec<Vec<u8>> {
        let one = |value| {
            let mut out = Vec::new();
            write(&mut out, value);
            out
        };
        values.iter().map(one).collect()
    }

    #[test]
    fn an_exact_image_is_shared_with_no_neighbour() {
        let mut doubles = vec![f64::NAN, f64::NEG_INFINITY, f64::MIN, -1.0, 0.0];
        for start in [0.0, 0.1, 1.0, 1.6e9, 9_007_199_254_740_990.0, 1e300] {
            let mut value: f64 = start;
            for _ in 0..40 {
                value = value.next_up();
                doubles.push(value);
            }
        }
        doubles.extend([f64::MAX, f64::INFINITY]);
        let doubles = encoded(&doubles, |out, &value| write::double(out, value));

        let mut integers = Vec::new();
        for power in [5, 31, 52, 53, 54, 56, 60, 62] {
            integers.extend((-40..40).map(|off| (1i128 << power) + off));
        }
        integers.extend((0..40).map(|off| i128::from(u64::MAX) - off));
        integers
            .extend(integers.clone().into_iter().map(|value| -value).filter(|&v| v >= i128::from(i64::MIN)));
        integers.sort_unstable();
        integers.dedup();
        let integers = encoded(&integers, |out, &value| write::int(out, value));

        let mut datetimes = Vec::new();
        for seconds in [-(1 << 33) - 1, -(1 << 33), -1, 0, 1_600_000_000, (1 << 33) - 1, 1 << 33] {
            for nanoseconds in (0..40).chain([999_999_999]) {
                datetimes.push(Datetime { seconds, nanoseconds, offset_minutes: 0, zone: 0 });
            }
        }
        let datetimes = encoded(&datetimes, write::datetime);

        for (kind, values) in [
            (ImageKind::Double, &doubles),
            (ImageKind::Number, &doubles),
            (ImageKind::Scalar, &doubles),
            (ImageKind::Integer, &integers),
            (ImageKind::Double, &integers),
            (ImageKind::Number, &integers),
            (ImageKind::Scalar, &integers),
            (ImageKind::Datetime, &datetimes),
            (ImageKind::Scalar, &datetimes),
        ] {
            images_fit(kind, values);
        }
    }
}
