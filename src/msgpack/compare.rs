//! The order of values: Tarantool's order of scalars, made total.
//!
//! ```text
//! nil < false < true < numbers < strings < binary < uuid < datetime
//!     < interval < other extensions < arrays < maps < what is no value
//! ```
//!
//! Numbers compare by their exact value, whatever their encoding and kind: integers, floats of both widths and
//! decimals in one line. -0 is 0; every NaN is the same number, below all others. Strings and binary compare by
//! bytes, then by length. Datetimes compare by the moment.
//!
//! Only what stands in the first line can be part of a key. The rest has an order so that a comparison never fails,
//! whatever it is handed: extensions by type and payload (a decimal, uuid or datetime whose payload is not one is
//! such an extension), containers by their bytes.
//!
//! Two values of one usual class are compared at once; everything else goes through [`Value`].

use std::cmp::Ordering;

use super::decimal::Decimal;
use super::ext::{self, Datetime, EXT_DATETIME, EXT_DECIMAL, EXT_INTERVAL, EXT_UUID};
use super::{HEADS, class, read, skip};

/// Compares the value at `a_at` in `a` with that at `b_at` in `b`.
#[inline]
pub(crate) fn compare(a: &[u8], a_at: usize, b: &[u8], b_at: usize) -> Ordering {
    let (Some(&first), Some(&second)) = (a.get(a_at), b.get(b_at)) else { return compare_any(a, a_at, b, b_at) };
    if first <= 0x7f && second <= 0x7f {
        return first.cmp(&second);
    }
    match (HEADS[first as usize].class, HEADS[second as usize].class) {
        (class::UINT, class::UINT) => {
            if let (Ok((a, _)), Ok((b, _))) = (read::uint(a, a_at), read::uint(b, b_at)) {
                return a.cmp(&b);
            }
        }
        (class::UINT | class::INT, class::UINT | class::INT) => {
            if let (Ok((a, _)), Ok((b, _))) = (read::int(a, a_at), read::int(b, b_at)) {
                return a.cmp(&b);
            }
        }
        (class::STR, class::STR) => {
            if let (Ok((a, _)), Ok((b, _))) = (read::str(a, a_at), read::str(b, b_at)) {
                return a.cmp(b);
            }
        }
        (class::FLOAT32 | class::FLOAT64, class::FLOAT32 | class::FLOAT64) => {
            if let (Ok((a, _)), Ok((b, _))) = (read::float(a, a_at), read::float(b, b_at)) {
                return compare_doubles(a, b);
            }
        }
        _ => {}
    }
    compare_any(a, a_at, b, b_at)
}

#[inline(never)]
fn compare_any(a: &[u8], a_at: usize, b: &[u8], b_at: usize) -> Ordering {
    let (a, b) = (Value::at(a, a_at), Value::at(b, b_at));
    match (&a, &b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::Str(a), Value::Str(b)) => a.cmp(b),
        (Value::Bin(a), Value::Bin(b)) => a.cmp(b),
        (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
        (Value::Datetime(a), Value::Datetime(b)) => a.cmp(b),
        (Value::Interval(a), Value::Interval(b)) => a.cmp(b),
        (Value::Ext(a), Value::Ext(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => a.cmp(b),
        (Value::Map(a), Value::Map(b)) => a.cmp(b),
        (Value::Broken(a), Value::Broken(b)) => a.cmp(b),
        _ => a.rank().cmp(&b.rank()),
    }
}

/// A value as far as its order needs it.
enum Value<'a> {
    Nil,
    Bool(bool),
    Number(Number),
    Str(&'a [u8]),
    Bin(&'a [u8]),
    Uuid([u8; 16]),
    Datetime(Datetime),
    Interval(&'a [u8]),
    Ext((i8, &'a [u8])),
    Array(&'a [u8]),
    Map(&'a [u8]),
    Broken(&'a [u8]),
}

impl<'a> Value<'a> {
    fn at(bytes: &'a [u8], at: usize) -> Self {
        let whole = || skip::skip(bytes, at).ok().map(|end| &bytes[at..end]);
        let value = match read::class_at(bytes, at) {
            class::NIL => Some(Value::Nil),
            class::BOOL => Some(Value::Bool(bytes[at] == 0xc3)),
            class::STR => read::str(bytes, at).ok().map(|(body, _)| Value::Str(body)),
            class::BIN => read::bin(bytes, at).ok().map(|(body, _)| Value::Bin(body)),
            class::EXT => read::ext(bytes, at).ok().map(|((kind, payload), _)| Self::ext(kind, payload)),
            class::ARRAY => whole().map(Value::Array),
            class::MAP => whole().map(Value::Map),
            _ => number(bytes, at).map(Value::Number),
        };
        value.unwrap_or(Value::Broken(bytes.get(at..).unwrap_or_default()))
    }

    fn ext(kind: i8, payload: &'a [u8]) -> Self {
        let value = match kind {
            EXT_DECIMAL => Decimal::from_payload(payload).ok().map(|decimal| Value::Number(Number::Decimal(decimal))),
            EXT_UUID => ext::uuid(payload).ok().map(Value::Uuid),
            EXT_DATETIME => Datetime::from_payload(payload).ok().map(Value::Datetime),
            EXT_INTERVAL => Some(Value::Interval(payload)),
            _ => None,
        };
        value.unwrap_or(Value::Ext((kind, payload)))
    }

    /// The place of the class in the order.
    fn rank(&self) -> u8 {
        match self {
            Value::Nil => 0,
            Value::Bool(_) => 1,
            Value::Number(_) => 2,
            Value::Str(_) => 3,
            Value::Bin(_) => 4,
            Value::Uuid(_) => 5,
            Value::Datetime(_) => 6,
            Value::Interval(_) => 7,
            Value::Ext(_) => 8,
            Value::Array(_) => 9,
            Value::Map(_) => 10,
            Value::Broken(_) => 11,
        }
    }
}

/// A number of any kind; floats are widened, which changes nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    /// Between -2^63 and 2^64 - 1 where it comes from MsgPack.
    Int(i128),
    Double(f64),
    Decimal(Decimal),
}

/// The number at `at`; none where there is another class, or a decimal whose payload is not one.
#[inline]
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<Number> {
    match read::class_at(bytes, at) {
        class::UINT | class::INT => read::int(bytes, at).ok().map(|(int, _)| Number::Int(int)),
        class::FLOAT32 | class::FLOAT64 => read::float(bytes, at).ok().map(|(double, _)| Number::Double(double)),
        class::EXT => match read::ext(bytes, at) {
            Ok(((EXT_DECIMAL, payload), _)) => Decimal::from_payload(payload).ok().map(Number::Decimal),
            _ => None,
        },
        _ => None,
    }
}

/// Compares two numbers by their exact values.
#[inline]
pub(crate) fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.cmp(b),
        (Number::Double(a), Number::Double(b)) => compare_doubles(*a, *b),
        (Number::Decimal(a), Number::Decimal(b)) => a.cmp(b),
        (Number::Int(a), Number::Double(b)) => compare_int_double(*a, *b),
        (Number::Double(a), Number::Int(b)) => compare_int_double(*b, *a).reverse(),
        (Number::Decimal(a), Number::Int(b)) => a.compare_int(*b),
        (Number::Int(a), Number::Decimal(b)) => b.compare_int(*a).reverse(),
        (Number::Decimal(a), Number::Double(b)) => a.compare_f64(*b),
        (Number::Double(a), Number::Decimal(b)) => b.compare_f64(*a).reverse(),
    }
}

/// -0 is 0, and every NaN is one number below all others.
#[inline]
pub(crate) fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

/// Compares an integer with the exact value of a double.
#[inline]
pub(crate) fn compare_int_double(int: i128, double: f64) -> Ordering {
    /// 2^127, the first double above every `i128`.
    const END: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    if double.is_nan() || double < -END {
        return Ordering::Greater;
    }
    if double >= END {
        return Ordering::Less;
    }
    let whole = double.trunc();
    int.cmp(&(whole as i128)).then_with(|| 0.0f64.partial_cmp(&(double - whole)).unwrap_or(Ordering::Equal))
}
