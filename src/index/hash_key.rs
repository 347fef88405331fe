//! Hash and equality of keys in a HASH index.
//!
//! Equality there is Tarantool's: values are equal if what is hashed of them is. An integer is one key in any encoding,
//! and so is a float with an integral value; strings are their bytes; everything else (decimals, other floats,
//! binaries, uuids) is its MsgPack as it stands, so that the decimals 1 and 1.0 and the integer 1 are three keys.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::key_def::KeyDef;
use crate::msgpack::{class, read, skip};
use crate::tuple::field_map::StoredTuple;

/// What is hashed of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Canonical<'a> {
    Nil,
    Integer(i128),
    String(&'a [u8]),
    Raw(&'a [u8]),
}

/// Hashes keys with a seed of its own, so that a hostile file cannot aim at one hash.
#[derive(Debug, Clone)]
pub(crate) struct Hasher {
    seed: u64,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        Self { seed: RandomState::new().hash_one(0u64) }
    }

    /// The hash of a tuple's key.
    #[inline]
    pub(crate) fn tuple(&self, key_def: &KeyDef, tuple: &StoredTuple<'_>) -> u64 {
        let data = tuple.data();
        let values = key_def.own().iter().map(|part| canonical(data, part.find(tuple, 0)));
        values.fold(self.seed, mix_value)
    }

    /// The hash of a search key whose values are at `values` in `key`.
    pub(crate) fn key(&self, key: &[u8], values: &[Option<usize>]) -> u64 {
        values.iter().map(|&at| canonical(key, at)).fold(self.seed, mix_value)
    }

    /// Whether two tuples have the same key.
    pub(crate) fn equal(&self, key_def: &KeyDef, a: &StoredTuple<'_>, b: &StoredTuple<'_>) -> bool {
        key_def
            .own()
            .iter()
            .all(|part| canonical(a.data(), part.find(a, 0)) == canonical(b.data(), part.find(b, 0)))
    }

    /// Whether a tuple has the key whose values are at `values` in `key`.
    pub(crate) fn matches(
        &self,
        key_def: &KeyDef,
        tuple: &StoredTuple<'_>,
        key: &[u8],
        values: &[Option<usize>],
    ) -> bool {
        let mut parts = key_def.own().iter().zip(values);
        parts.all(|(part, &at)| canonical(tuple.data(), part.find(tuple, 0)) == canonical(key, at))
    }
}

fn canonical(data: &[u8], at: Option<usize>) -> Canonical<'_> {
    let Some(at) = at else { return Canonical::Nil };
    let raw = || skip::skip(data, at).map_or(Canonical::Nil, |end| Canonical::Raw(&data[at..end]));
    match read::class_at(data, at) {
        class::NIL => Canonical::Nil,
        class::UINT | class::INT => {
            read::int(data, at).map_or(Canonical::Nil, |(value, _)| Canonical::Integer(value))
        }
        class::STR => read::str(data, at).map_or(Canonical::Nil, |(string, _)| Canonical::String(string)),
        class::FLOAT32 | class::FLOAT64 => match read::float(data, at) {
            // From -2^63 to 2^64, what an integer of MsgPack can be.
            Ok((value, _)) if value.fract() == 0.0 && (-TWO_63..2.0 * TWO_63).contains(&value) => {
                Canonical::Integer(value as i128)
            }
            _ => raw(),
        },
        _ => raw(),
    }
}

const TWO_63: f64 = 9_223_372_036_854_775_808.0;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Folds the 128-bit product, which spreads every bit of both over the whole word.
#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn mix_value(state: u64, value: Canonical<'_>) -> u64 {
    match value {
        Canonical::Nil => mix(state ^ 0x6e69_6c00, MULTIPLIER),
        Canonical::Integer(value) => mix(state ^ value as u64, MULTIPLIER ^ u64::from(value < 0)),
        Canonical::String(bytes) => mix_bytes(state ^ 0x7374_7200, bytes),
        Canonical::Raw(bytes) => mix_bytes(state ^ 0x7261_7700, bytes),
    }
}

fn mix_bytes(state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words
        .iter()
        .fold(state ^ bytes.len() as u64, |state, &word| mix(state ^ u64::from_le_bytes(word), MULTIPLIER));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(state ^ u64::from_le_bytes(last), MULTIPLIER ^ state.rotate_left(32))
}
