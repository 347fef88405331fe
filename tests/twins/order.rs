//! The order of values, slowly: MsgPack by hand, every number as exact decimal digits, so that integers, floats and
//! decimals compare as what they are. Written apart from the library's comparison, by the rules alone.

use std::cmp::Ordering;

use num_bigint::BigUint;

/// A value that a key can hold. The order of the variants is the order of the classes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slow {
    Nil,
    Bool(bool),
    Number(Number),
    Str(Vec<u8>),
    Bin(Vec<u8>),
    Uuid(Vec<u8>),
    /// Seconds, nanoseconds; the zone has no say.
    Datetime(i64, i64),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Number {
    Nan,
    MinusInfinity,
    Finite(Finite),
    Infinity,
}

/// `0.d1 d2 d3… * 10^magnitude`; neither the first nor the last digit is zero. No digits: zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finite {
    negative: bool,
    magnitude: i128,
    digits: Vec<u8>,
}

impl Finite {
    /// `digits * 10^-scale`.
    fn new(negative: bool, digits: &[u8], scale: i128) -> Self {
        let first = digits.iter().position(|&digit| digit != 0).unwrap_or(digits.len());
        let last = digits.iter().rposition(|&digit| digit != 0).map_or(first, |last| last + 1);
        if first == last {
            return Self { negative: false, magnitude: 0, digits: Vec::new() };
        }
        Self {
            negative,
            magnitude: (digits.len() - first) as i128 - scale,
            digits: digits[first..last].to_vec(),
        }
    }

    fn sign(&self) -> i32 {
        if self.digits.is_empty() { 0 } else { 1 - 2 * i32::from(self.negative) }
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = || (self.magnitude, &self.digits).cmp(&(other.magnitude, &other.digits));
        match self.sign().cmp(&other.sign()) {
            Ordering::Equal if self.negative => size().reverse(),
            Ordering::Equal => size(),
            order => order,
        }
    }
}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The integer at the start, and its length in bytes.
fn int(bytes: &[u8]) -> Option<(i128, usize)> {
    let signed = |width: usize| {
        let shift = 64 - 8 * width as u32;
        ((big_endian(&bytes[1..=width]) << shift) as i64 >> shift, 1 + width)
    };
    let (number, length) = match bytes[0] {
        byte @ 0..=0x7f => (i64::from(byte), 1),
        byte @ 0xe0.. => (i64::from(byte as i8), 1),
        0xcc => return Some((big_endian(&bytes[1..2]).into(), 2)),
        0xcd => return Some((big_endian(&bytes[1..3]).into(), 3)),
        0xce => return Some((big_endian(&bytes[1..5]).into(), 5)),
        0xcf => return Some((big_endian(&bytes[1..9]).into(), 9)),
        0xd0 => signed(1),
        0xd1 => signed(2),
        0xd2 => signed(4),
        0xd3 => signed(8),
        _ => return None,
    };
    Some((number.into(), length))
}

/// The number as digits; the sign apart.
fn digits_of(number: u128) -> Vec<u8> {
    number.to_string().bytes().map(|digit| digit - b'0').collect()
}

/// A float by its parts: sign, stored exponent, fraction; `top` is the exponent of infinities.
fn float(negative: bool, stored: i32, fraction: u64, top: i32, fraction_bits: i32) -> Number {
    if stored == top {
        return match (fraction, negative) {
            (0, true) => Number::MinusInfinity,
            (0, false) => Number::Infinity,
            _ => Number::Nan,
        };
    }
    let mantissa = BigUint::from(if stored == 0 { fraction } else { fraction | 1 << fraction_bits });
    let power = stored.max(1) - top / 2 - fraction_bits;
    // What is a power of two below the point is a power of five times one of ten.
    let (whole, scale) = match power {
        0.. => (mantissa << power.unsigned_abs(), 0),
        _ => (mantissa * BigUint::from(5u8).pow(power.unsigned_abs()), -power),
    };
    Number::Finite(Finite::new(negative, &whole.to_radix_be(10), scale.into()))
}

/// A scale as MsgPack, then digits of half a byte each, the last half a sign.
fn decimal(payload: &[u8]) -> Number {
    let (scale, at) = int(payload).expect("a decimal begins with its scale");
    let mut halves: Vec<u8> = payload[at..].iter().flat_map(|byte| [byte >> 4, byte & 0xf]).collect();
    let sign = halves.pop().expect("a decimal has a sign");
    Number::Finite(Finite::new(sign == 0xb || sign == 0xd, &halves, scale))
}

/// The value of a key's part.
pub fn slow(bytes: &[u8]) -> Slow {
    match bytes[0] {
        0xc0 => Slow::Nil,
        0xc2 => Slow::Bool(false),
        0xc3 => Slow::Bool(true),
        0xca => {
            let bits = big_endian(&bytes[1..5]);
            Slow::Number(float(bits >> 31 == 1, (bits >> 23 & 0xff) as i32, bits & 0x7f_ffff, 0xff, 23))
        }
        0xcb => {
            let bits = big_endian(&bytes[1..9]);
            let (stored, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & 0xf_ffff_ffff_ffff);
            Slow::Number(float(bits >> 63 == 1, stored, fraction, 0x7ff, 52))
        }
        0xa0..=0xbf | 0xd9..=0xdb => Slow::Str(body(bytes).to_vec()),
        0xc4..=0xc6 => Slow::Bin(body(bytes).to_vec()),
        0xc7..=0xc9 | 0xd4..=0xd8 => {
            let payload = body(bytes);
            let (kind, payload) = payload.split_first().expect("an extension has a type");
            match kind {
                1 => Slow::Number(decimal(payload)),
                2 => Slow::Uuid(payload.to_vec()),
                4 => {
                    let seconds = i64::from_le_bytes(payload[..8].try_into().unwrap());
                    let nanoseconds =
                        payload.get(8..12).map_or(0, |four| i32::from_le_bytes(four.try_into().unwrap()));
                    Slow::Datetime(seconds, nanoseconds.into())
                }
                _ => panic!("extension {kind} in a key"),
            }
        }
        _ => {
            let (number, _) = int(bytes).expect("what is left are integers");
            let digits = digits_of(number.unsigned_abs());
            Slow::Number(Number::Finite(Finite::new(number < 0, &digits, 0)))
        }
    }
}

/// What a HASH index takes for equal: an integer in any encoding, also as a float; strings by their bytes; all else by
/// its encoding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hashed {
    Integer(i128),
    Str(Vec<u8>),
    Raw(Vec<u8>),
}

pub fn hashed(bytes: &[u8]) -> Hashed {
    let float = match bytes[0] {
        0xca => Some(f64::from(f32::from_bits(big_endian(&bytes[1..5]) as u32))),
        0xcb => Some(f64::from_bits(big_endian(&bytes[1..9]))),
        _ => None,
    };
    if let Some(float) = float {
        let is_integer = float == float.trunc() && (-(2f64.powi(63))..2f64.powi(64)).contains(&float);
        return if is_integer { Hashed::Integer(float as i128) } else { Hashed::Raw(bytes.to_vec()) };
    }
    match (int(bytes), bytes[0]) {
        (Some((number, _)), _) => Hashed::Integer(number),
        (None, 0xa0..=0xbf | 0xd9..=0xdb) => Hashed::Str(body(bytes).to_vec()),
        _ => Hashed::Raw(bytes.to_vec()),
    }
}

/// The bytes of a string or binary; of an extension its type and payload.
pub fn body(bytes: &[u8]) -> &[u8] {
    let (head, length) = head(bytes);
    &bytes[head..head + length]
}

/// Bytes before the body, and of the body, of a value that is no container.
fn head(bytes: &[u8]) -> (usize, usize) {
    let counted = |width: usize| (1 + width, big_endian(&bytes[1..=width]) as usize);
    match bytes[0] {
        0..=0x7f | 0xe0.. | 0xc0 | 0xc2 | 0xc3 => (1, 0),
        0xcc | 0xd0 => (1, 1),
        0xcd | 0xd1 => (1, 2),
        0xce | 0xd2 | 0xca => (1, 4),
        0xcf | 0xd3 | 0xcb => (1, 8),
        byte @ 0xa0..=0xbf => (1, usize::from(byte & 0x1f)),
        0xd9 | 0xc4 => counted(1),
        0xda | 0xc5 => counted(2),
        0xdb | 0xc6 => counted(4),
        byte @ 0xd4..=0xd8 => (1, 1 + (1 << (byte - 0xd4))),
        byte @ 0xc7..=0xc9 => {
            let (head, length) = counted(1 << (byte - 0xc7));
            (head, length + 1)
        }
        byte => panic!("{byte:#x} is no value, or a container"),
    }
}

/// Values in the container at the start (of a map twice its pairs), and the offset of the first.
fn container(bytes: &[u8]) -> Option<(usize, usize)> {
    Some(match bytes[0] {
        byte @ 0x90..=0x9f => (usize::from(byte & 0xf), 1),
        0xdc => (big_endian(&bytes[1..3]) as usize, 3),
        0xdd => (big_endian(&bytes[1..5]) as usize, 5),
        byte @ 0x80..=0x8f => (2 * usize::from(byte & 0xf), 1),
        0xde => (2 * big_endian(&bytes[1..3]) as usize, 3),
        0xdf => (2 * big_endian(&bytes[1..5]) as usize, 5),
        _ => return None,
    })
}

/// The length of the value at the start.
fn length(bytes: &[u8]) -> usize {
    match container(bytes) {
        Some((count, mut at)) => {
            for _ in 0..count {
                at += length(&bytes[at..]);
            }
            at
        }
        None => {
            let (head, length) = head(bytes);
            head + length
        }
    }
}

/// The values in an array, or keys and values in turn of a map; nothing where it is neither.
pub fn elements(bytes: &[u8]) -> Vec<&[u8]> {
    let Some((count, mut at)) = container(bytes) else { return Vec::new() };
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let end = at + length(&bytes[at..]);
        elements.push(&bytes[at..end]);
        at = end;
    }
    elements
}
