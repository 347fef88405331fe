//! The order of index entries, slowly: every key is taken apart into values whose order can be read off the page.
//!
//! An index is the list of its entries, sorted by key and then by primary key; a multikey index has an entry for each
//! distinct key of a tuple. Numbers become decimal digits, so that integers, doubles and decimals compare as what they
//! are. Collations are left out: indexes with one are absent.

use std::cmp::Ordering;

use lycosa::{IndexDef, IndexKind, PartDef, SpaceDef};
use num_bigint::BigUint;

use super::mp;

/// A value that a key can hold. The order of the variants is the order of the classes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Nil,
    Bool(bool),
    Number(Number),
    Str(Vec<u8>),
    Bin(Vec<u8>),
    Uuid(Vec<u8>),
    /// Seconds and nanoseconds; the zone has no say.
    Datetime(i64, i32),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Number {
    NaN,
    NegativeInfinity,
    Finite(Finite),
    Infinity,
}

/// `0.d1 d2 d3 … * 10^exponent`, the first and the last digit not zero; no digits: zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finite {
    negative: bool,
    exponent: i128,
    digits: Vec<u8>,
}

impl Finite {
    /// `digits * 10^-scale`.
    fn new(negative: bool, digits: &[u8], scale: i128) -> Self {
        let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
        let mut digits = digits[zeros..].to_vec();
        let exponent = digits.len() as i128 - scale;
        while digits.last() == Some(&0) {
            digits.pop();
        }
        if digits.is_empty() {
            return Self { negative: false, exponent: 0, digits };
        }
        Self { negative, exponent, digits }
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Finite {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sign().cmp(&other.sign()).then_with(|| {
            let size = self.exponent.cmp(&other.exponent).then_with(|| self.digits.cmp(&other.digits));
            if self.negative { size.reverse() } else { size }
        })
    }
}

impl PartialOrd for Finite {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn integer(number: i128) -> Number {
    let digits: Vec<u8> = number.unsigned_abs().to_string().bytes().map(|digit| digit - b'0').collect();
    Number::Finite(Finite::new(number < 0, &digits, 0))
}

/// The exact value of a double: its mantissa times a power of two, which times a power of five is one of ten.
fn double(number: f64) -> Number {
    if number.is_nan() {
        return Number::NaN;
    }
    if number.is_infinite() {
        return if number < 0.0 { Number::NegativeInfinity } else { Number::Infinity };
    }
    let bits = number.to_bits();
    let stored = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, power) = if stored == 0 { (fraction, -1074) } else { (fraction | 1 << 52, stored - 1075) };
    let mantissa = BigUint::from(mantissa);
    let (whole, scale) = if power >= 0 {
        (mantissa << power as u32, 0)
    } else {
        (mantissa * BigUint::from(5u8).pow(-power as u32), i128::from(-power))
    };
    Number::Finite(Finite::new(number < 0.0, &whole.to_radix_be(10), scale))
}

/// A scale as MsgPack, then digits of half a byte each, the last of which is the sign.
fn decimal(payload: &[u8]) -> Option<Number> {
    let (scale, at) = mp::int(payload, 0)?;
    let mut halves: Vec<u8> = payload[at..].iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
    let negative = match halves.pop()? {
        0xa | 0xc | 0xe | 0xf => false,
        0xb | 0xd => true,
        _ => return None,
    };
    halves.iter().all(|&digit| digit < 10).then(|| Number::Finite(Finite::new(negative, &halves, scale)))
}

/// The value of a field that a key may hold.
pub fn value(bytes: &[u8]) -> Option<Value> {
    Some(match bytes[0] {
        0xc0 => Value::Nil,
        0xc2 => Value::Bool(false),
        0xc3 => Value::Bool(true),
        0xca => Value::Number(double(f32::from_be_bytes(bytes[1..5].try_into().ok()?).into())),
        0xcb => Value::Number(double(f64::from_be_bytes(bytes[1..9].try_into().ok()?))),
        0xa0..=0xbf | 0xd9..=0xdb => Value::Str(mp::str(bytes)?.to_vec()),
        0xc4..=0xc6 => Value::Bin(mp::bin(bytes)?.to_vec()),
        0xc7..=0xc9 | 0xd4..=0xd8 => match mp::ext(bytes)? {
            (1, payload) => Value::Number(decimal(payload)?),
            (2, payload) => Value::Uuid(payload.to_vec()),
            (4, payload) => {
                let seconds = i64::from_le_bytes(payload.get(..8)?.try_into().ok()?);
                let nanoseconds =
                    payload.get(8..12).map_or(0, |four| i32::from_le_bytes(four.try_into().unwrap()));
                Value::Datetime(seconds, nanoseconds)
            }
            _ => return None,
        },
        _ => Value::Number(integer(mp::int(bytes, 0)?.0)),
    })
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(Vec<u8>),
    /// From 0.
    Element(usize),
    All,
}

/// A path that is known to be valid, in steps.
fn steps(path: &str) -> Vec<Step> {
    let (mut rest, mut steps) = (path, Vec::new());
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let quote = inside.chars().next().unwrap();
            if quote == '"' || quote == '\'' {
                let end = inside[1..].find(quote).unwrap() + 1;
                steps.push(Step::Key(inside[1..end].into()));
                rest = &inside[end + 2..];
            } else {
                let end = inside.find(']').unwrap();
                steps.push(match &inside[..end] {
                    "*" => Step::All,
                    digits => Step::Element(digits.parse::<usize>().unwrap() - 1),
                });
                rest = &inside[end + 1..];
            }
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(Step::Key(rest[..end].into()));
            rest = &rest[end..];
        }
    }
    steps
}

const NIL: &[u8] = b"\xc0";

/// The values below `bytes` at the end of `steps`: one, or one for every element where a step says so. What is not
/// there is nil; no array, or nil in its place, has no elements.
fn walk<'a>(bytes: &'a [u8], steps: &[Step]) -> Vec<&'a [u8]> {
    let Some((step, further)) = steps.split_first() else { return vec![bytes] };
    match step {
        Step::All => {
            let elements = mp::elements(bytes).unwrap_or_default();
            elements.into_iter().flat_map(|element| walk(element, further)).collect()
        }
        Step::Element(number) => {
            let elements = mp::elements(bytes).unwrap_or_default();
            walk(elements.get(*number).copied().unwrap_or(NIL), further)
        }
        // Of a key that is there twice the last one counts.
        Step::Key(key) => {
            let pairs = mp::pairs(bytes).unwrap_or_default();
            let found = pairs.iter().rev().find(|(name, _)| mp::str(name) == Some(key));
            walk(found.map_or(NIL, |(_, value)| value), further)
        }
    }
}

/// A key: for each part its bytes and its value.
#[derive(Debug, Clone)]
pub struct Key<'a> {
    pub parts: Vec<(&'a [u8], Value)>,
}

impl Key<'_> {
    pub fn has_nil(&self) -> bool {
        self.parts.iter().any(|(_, value)| *value == Value::Nil)
    }

    /// The first `parts` of the key, as a key to search with.
    pub fn encode(&self, parts: usize) -> Vec<u8> {
        mp::array_of(self.parts[..parts].iter().map(|(bytes, _)| *bytes))
    }
}

/// Compares the first `parts` parts of two keys of an index with these parts.
pub fn compare(defs: &[PartDef], one: &Key<'_>, other: &Key<'_>, parts: usize) -> Ordering {
    for (number, def) in defs.iter().enumerate().take(parts) {
        let order = one.parts[number].1.cmp(&other.parts[number].1);
        let order = if def.descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// The keys of a tuple in an index: distinct ones, with those left out that the index leaves out.
fn keys<'a>(parts: &[PartDef], tuple: &'a [u8]) -> Vec<Key<'a>> {
    let fields = mp::elements(tuple).expect("a tuple is an array");
    let columns: Vec<(bool, Vec<&[u8]>)> = parts
        .iter()
        .map(|part| {
            let field = fields.get(part.field as usize).copied().unwrap_or(NIL);
            let steps = part.path.as_ref().map_or_else(Vec::new, |path| steps(path.text()));
            (steps.contains(&Step::All), walk(field, &steps))
        })
        .collect();
    let many = columns.iter().find(|(many, _)| *many).map(|(_, values)| values.len());
    let mut keys: Vec<Key<'_>> = (0..many.unwrap_or(1))
        .map(|number| {
            let parts = columns.iter().map(|(many, values)| values[if *many { number } else { 0 }]);
            Key { parts: parts.map(|bytes| (bytes, value(bytes).expect("a value with an order"))).collect() }
        })
        .collect();
    keys.retain(|key| {
        !parts.iter().zip(&key.parts).any(|(part, (_, value))| part.exclude_null && *value == Value::Nil)
    });
    keys.sort_by(|one, other| compare(parts, one, other, parts.len()));
    keys.dedup_by(|one, other| compare(parts, one, other, parts.len()).is_eq());
    keys
}

/// An entry of an index.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    pub key: Key<'a>,
    /// The parts of the primary key; empty where the order does not need them.
    tail: Option<Key<'a>>,
    pub tuple: &'a [u8],
}

/// All entries of an index over these tuples, in its order; for HASH in some order.
pub fn entries<'a>(space: &SpaceDef, index: &IndexDef, tuples: &[&'a [u8]]) -> Vec<Entry<'a>> {
    let primary = space.primary().expect("a space with tuples has a primary index");
    let ties = !index.unique || index.parts.iter().any(|part| part.is_nullable);
    let mut entries = Vec::new();
    for &tuple in tuples {
        for key in keys(&index.parts, tuple) {
            let tail = ties.then(|| keys(&primary.parts, tuple).remove(0));
            entries.push(Entry { key, tail, tuple });
        }
    }
    if index.kind == IndexKind::Tree {
        entries.sort_by(|one, other| {
            compare(&index.parts, &one.key, &other.key, index.parts.len()).then_with(|| {
                match (&one.tail, &other.tail) {
                    (Some(one), Some(other)) => compare(&primary.parts, one, other, primary.parts.len()),
                    _ => Ordering::Equal,
                }
            })
        });
    }
    entries
}

/// The first two entries with one key in a unique index.
pub fn duplicates<'e, 'a>(
    index: &IndexDef,
    entries: &'e [Entry<'a>],
) -> Option<(&'e Entry<'a>, &'e Entry<'a>)> {
    if !index.unique || index.kind != IndexKind::Tree {
        return None;
    }
    entries.windows(2).map(|pair| (&pair[0], &pair[1])).find(|(one, other)| {
        !one.key.has_nil() && compare(&index.parts, &one.key, &other.key, index.parts.len()).is_eq()
    })
}

/// An index that holds every tuple once: the primary one, or where that is absent another of its kind.
pub fn whole(space: &SpaceDef) -> Option<&IndexDef> {
    let is_whole = |index: &&IndexDef| index.id == 0 || (!index.is_nullable() && !index.has_multikey());
    space.indexes.iter().filter(|index| index.absent.is_none()).find(is_whole)
}

/// Whether a key, or a primary key that orders ties, holds an unsigned number in another encoding than the shortest:
/// 2.6.0 compares the first bytes of such numbers before their values, where no hint has decided already.
pub fn has_long_unsigned(entries: &[Entry<'_>]) -> bool {
    let parts = entries
        .iter()
        .flat_map(|entry| entry.key.parts.iter().chain(entry.tail.iter().flat_map(|key| &key.parts)));
    parts.map(|(bytes, _)| bytes).any(|bytes| {
        let mut shortest = Vec::new();
        let number = mp::int(bytes, 0).and_then(|(number, _)| u64::try_from(number).ok());
        number.is_some_and(|number| {
            mp::uint(&mut shortest, number);
            shortest != *bytes
        })
    })
}
