//! The few encoders that the crate needs, on top of `rmp`: each appends one value in its shortest form.
//!
//! None is on a hot path: tuples that were read are never encoded again, their bytes stay as they came.

use super::decimal::Decimal;
use super::ext::{Datetime, EXT_DATETIME, EXT_DECIMAL, EXT_INTERVAL, EXT_UUID, Interval};

/// Writing into memory does not fail.
const MEMORY: &str = "a vector takes all bytes";

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a MsgPack value is shorter than 4 GiB")
}

pub(crate) fn nil(out: &mut Vec<u8>) {
    out.push(0xc0);
}

pub(crate) fn boolean(out: &mut Vec<u8>, value: bool) {
    out.push(0xc2 | u8::from(value));
}

pub(crate) fn uint(out: &mut Vec<u8>, value: u64) {
    rmp::encode::write_uint(out, value).expect(MEMORY);
}

/// An integer between -2^63 and 2^64 - 1, without a sign where it has none.
pub(crate) fn int(out: &mut Vec<u8>, value: i128) {
    if let Ok(value) = u64::try_from(value) {
        uint(out, value);
    } else {
        let value = i64::try_from(value).expect("the integer fits into 64 bits");
        rmp::encode::write_sint(out, value).expect(MEMORY);
    }
}

pub(crate) fn double(out: &mut Vec<u8>, value: f64) {
    rmp::encode::write_f64(out, value).expect(MEMORY);
}

pub(crate) fn float(out: &mut Vec<u8>, value: f32) {
    rmp::encode::write_f32(out, value).expect(MEMORY);
}

/// A string; the bytes need not be UTF-8.
pub(crate) fn str(out: &mut Vec<u8>, value: &[u8]) {
    rmp::encode::write_str_len(out, count(value.len())).expect(MEMORY);
    out.extend_from_slice(value);
}

pub(crate) fn bin(out: &mut Vec<u8>, value: &[u8]) {
    rmp::encode::write_bin(out, value).expect(MEMORY);
}

/// The head of an array of that many values.
pub(crate) fn array(out: &mut Vec<u8>, values: u32) {
    rmp::encode::write_array_len(out, values).expect(MEMORY);
}

/// The head of a map of that many pairs.
pub(crate) fn map(out: &mut Vec<u8>, pairs: u32) {
    rmp::encode::write_map_len(out, pairs).expect(MEMORY);
}

/// An extension of any type: `rmp` promises to panic on negative ones, which a text may name, so the head is made here.
pub(crate) fn ext(out: &mut Vec<u8>, kind: i8, payload: &[u8]) {
    match payload.len() {
        length @ (1 | 2 | 4 | 8 | 16) => out.push(0xd4 + length.trailing_zeros() as u8),
        length @ 0..=0xff => out.extend_from_slice(&[0xc7, length as u8]),
        length @ 0x100..=0xffff => {
            out.push(0xc8);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(0xc9);
            out.extend_from_slice(&count(length).to_be_bytes());
        }
    }
    out.push(kind as u8);
    out.extend_from_slice(payload);
}

pub(crate) fn decimal(out: &mut Vec<u8>, value: &Decimal) {
    let mut payload = Vec::with_capacity(48);
    value.write_payload(&mut payload);
    ext(out, EXT_DECIMAL, &payload);
}

pub(crate) fn uuid(out: &mut Vec<u8>, value: &[u8; 16]) {
    ext(out, EXT_UUID, value);
}

pub(crate) fn datetime(out: &mut Vec<u8>, value: &Datetime) {
    let mut payload = Vec::with_capacity(16);
    value.write_payload(&mut payload);
    ext(out, EXT_DATETIME, &payload);
}

pub(crate) fn interval(out: &mut Vec<u8>, value: &Interval) {
    let mut payload = Vec::with_capacity(32);
    value.write_payload(&mut payload);
    ext(out, EXT_INTERVAL, &payload);
}
