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
    let (Some(&first), Some(&second)) = (a.get(a_at), b.get(b_at)) else {
        return compare_any(a, a_at, b, b_at);
    };
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
            EXT_DECIMAL => {
                Decimal::from_payload(payload).ok().map(|decimal| Value::Number(Number::Decimal(decimal)))
            }
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
        class::FLOAT32 | class::FLOAT64 => {
            read::float(bytes, at).ok().map(|(double, _)| Number::Double(double))
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::write;
    use num_bigint::BigInt;

    /// A number as a slow reader sees it, straight from the bytes: a fraction of whole numbers of any size.
    #[derive(Debug)]
    enum Slow {
        NotANumber,
        MinusInfinity,
        Fraction(BigInt, BigInt),
        Infinity,
    }

    impl Slow {
        fn read(bytes: &[u8]) -> Self {
            let whole = |number: BigInt| Slow::Fraction(number, BigInt::from(1));
            let big = |bytes: &[u8], signed: bool| {
                let number = BigInt::from_bytes_be(num_bigint::Sign::Plus, bytes);
                let end = BigInt::from(1) << (8 * bytes.len());
                if signed && bytes[0] >= 0x80 { number - end } else { number }
            };
            match bytes[0] {
                0..=0x7f => whole(BigInt::from(bytes[0])),
                0xe0..=0xff => whole(BigInt::from(bytes[0] as i8)),
                0xcc..=0xcf => whole(big(&bytes[1..], false)),
                0xd0..=0xd3 => whole(big(&bytes[1..], true)),
                0xca => Self::float(u64::from(u32::from_be_bytes(bytes[1..].try_into().unwrap())), 8, 23),
                0xcb => Self::float(u64::from_be_bytes(bytes[1..].try_into().unwrap()), 11, 52),
                _ => {
                    let payload = match bytes[0] {
                        0xc7 => &bytes[3..],
                        _ => &bytes[2..],
                    };
                    let scale_bytes = match payload[0] {
                        0xcc | 0xd0 => 2,
                        0xcd | 0xd1 => 3,
                        0xce | 0xd2 => 5,
                        _ => 1,
                    };
                    let Slow::Fraction(scale, _) = Self::read(&payload[..scale_bytes]) else { panic!() };
                    let mut number = BigInt::from(0);
                    let mut sign = 0;
                    for byte in &payload[scale_bytes..] {
                        for nibble in [byte >> 4, byte & 15] {
                            if nibble < 10 { number = number * 10 + nibble } else { sign = nibble }
                        }
                    }
                    if sign == 0xd || sign == 0xb {
                        number = -number;
                    }
                    let scale: i64 = scale.to_string().parse().unwrap();
                    let power = BigInt::from(10).pow(scale.unsigned_abs() as u32);
                    if scale < 0 { whole(number * power) } else { Slow::Fraction(number, power) }
                }
            }
        }

        fn float(bits: u64, exponent_bits: u32, fraction_bits: u32) -> Self {
            let negative = bits >> (exponent_bits + fraction_bits) == 1;
            let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i64;
            let fraction = bits & ((1 << fraction_bits) - 1);
            let top = (1 << exponent_bits) - 1;
            if exponent == top {
                return match (fraction, negative) {
                    (0, true) => Slow::MinusInfinity,
                    (0, false) => Slow::Infinity,
                    _ => Slow::NotANumber,
                };
            }
            let mantissa = if exponent == 0 { fraction } else { fraction | 1 << fraction_bits };
            let power = exponent.max(1) - (top / 2) - i64::from(fraction_bits);
            let number = BigInt::from(mantissa) * if negative { -1 } else { 1 };
            let two = BigInt::from(1) << power.unsigned_abs();
            if power < 0 {
                Slow::Fraction(number, two)
            } else {
                Slow::Fraction(number * two, BigInt::from(1))
            }
        }

        fn rank(&self) -> u8 {
            match self {
                Slow::NotANumber => 0,
                Slow::MinusInfinity => 1,
                Slow::Fraction(..) => 2,
                Slow::Infinity => 3,
            }
        }

        fn compare(&self, other: &Self) -> Ordering {
            match (self, other) {
                (Slow::Fraction(a, b), Slow::Fraction(c, d)) => (a * d).cmp(&(c * b)),
                _ => self.rank().cmp(&other.rank()),
            }
        }
    }

    fn decimal(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::decimal(&mut out, &text.parse().unwrap());
        out
    }

    fn double(value: f64) -> Vec<u8> {
        let mut out = Vec::new();
        write::double(&mut out, value);
        out
    }

    fn float(value: f32) -> Vec<u8> {
        let mut out = Vec::new();
        write::float(&mut out, value);
        out
    }

    fn int(value: i128) -> Vec<u8> {
        let mut out = Vec::new();
        write::int(&mut out, value);
        out
    }

    /// Checks that each value is below those of all later groups and equal to those of its own.
    fn check_line(groups: &[Vec<Vec<u8>>]) {
        for (i, group) in groups.iter().enumerate() {
            for (j, other) in groups.iter().enumerate() {
                for a in group {
                    for b in other {
                        // Not at the start of the bytes, so that the offsets are seen to count.
                        let (a, b) = ([&[0xc1], &a[..]].concat(), [&[0xc1, 0xc1], &b[..]].concat());
                        assert_eq!(compare(&a, 1, &b, 2), i.cmp(&j), "{a:x?} {b:x?}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_of_all_kinds_stand_in_one_line() {
        let two_to = |power: i32| 2f64.powi(power);
        check_line(&[
            vec![vec![0xc0]],
            vec![vec![0xc2]],
            vec![vec![0xc3]],
            vec![
                double(f64::from_bits(0x7ff0_0000_0000_0001)),
                double(f64::NAN),
                double(-f64::NAN),
                float(f32::NAN),
            ],
            vec![double(f64::NEG_INFINITY), float(f32::NEG_INFINITY)],
            vec![decimal("-1e500")],
            vec![double(f64::MIN)],
            vec![
                int(-(1 << 63)),
                double(-two_to(63)),
                float(-two_to(63) as f32),
                decimal("-9223372036854775808"),
            ],
            vec![decimal("-1"), int(-1), vec![0xd3, 255, 255, 255, 255, 255, 255, 255, 255], double(-1.0)],
            vec![double(-f64::from_bits(1))],
            vec![
                int(0),
                double(-0.0),
                double(0.0),
                float(-0.0),
                decimal("0"),
                decimal("-0"),
                decimal("0.00"),
                decimal("0e999999"),
                vec![0xcf, 0, 0, 0, 0, 0, 0, 0, 0],
                vec![0xd0, 0],
            ],
            vec![decimal("1e-500")],
            vec![double(f64::from_bits(1))],
            vec![decimal("0.1")],
            vec![double(0.1)],
            vec![double(0.1f64.next_up())],
            vec![float(0.1)],
            vec![
                int(1),
                double(1.0),
                float(1.0),
                decimal("1"),
                decimal("1.000"),
                vec![0xd1, 0, 1],
                vec![0xcd, 0, 1],
            ],
            vec![float(1.5), decimal("1.5"), double(1.5)],
            vec![int((1 << 53) - 1), decimal("9007199254740991")],
            vec![int(1 << 53), double(two_to(53))],
            vec![int((1 << 53) + 1), decimal("9007199254740993")],
            vec![int(1 << 63), double(two_to(63))],
            vec![int((1 << 64) - 1), decimal("18446744073709551615")],
            vec![double(two_to(64)), float(two_to(64) as f32), decimal("18446744073709551616")],
            vec![decimal("1e39")],
            vec![decimal("1e40")],
            vec![double(1e40)],
            vec![double(f64::MAX)],
            vec![decimal("1e999999")],
            vec![double(f64::INFINITY), float(f32::INFINITY)],
            vec![vec![0xa0], vec![0xd9, 0], vec![0xdb, 0, 0, 0, 0]],
            vec![vec![0xa1, b'A']],
            vec![vec![0xa1, b'a'], vec![0xda, 0, 1, b'a']],
            vec![vec![0xa2, b'a', 0]],
            vec![vec![0xa2, b'a', b'b']],
            vec![vec![0xa1, 0xff]],
            vec![vec![0xc4, 0], vec![0xc5, 0, 0]],
            vec![vec![0xc4, 1, b'a']],
            vec![[&[0xd8, 2][..], &[0; 16]].concat(), [&[0xc7, 16, 2][..], &[0; 16]].concat()],
            vec![[&[0xd8, 2][..], &[0xff; 16]].concat(), [&[0xc9, 0, 0, 0, 16, 2][..], &[0xff; 16]].concat()],
            vec![[&[0xd7, 4][..], &(-1i64).to_le_bytes()].concat()],
            vec![[&[0xd8, 4][..], &(-1i64).to_le_bytes(), &[1, 0, 0, 0, 0, 0, 0, 0]].concat()],
            vec![
                [&[0xd7, 4][..], &[0; 8]].concat(),
                [&[0xd8, 4][..], &[0; 8], &[0, 0, 0, 0, 180, 0, 0xb3, 3]].concat(),
            ],
            // What cannot be part of a key.
            vec![vec![0xd4, 6, 0]],
            vec![vec![0xc7, 3, 6, 1, 8, 1]],
            vec![vec![0xd4, 0xff, 9]],
            vec![vec![0xc7, 0, 1]],
            vec![vec![0xd5, 1, 0, 0x10]],
            vec![vec![0xd4, 2, 1]],
            vec![vec![0xd4, 4, 1]],
            vec![vec![0xd4, 77, 1]],
            vec![vec![0x90]],
            vec![vec![0x91, 1]],
            vec![vec![0x91, 0xc0]],
            vec![vec![0x80]],
            vec![vec![0x81, 1, 1]],
            vec![vec![]],
            vec![vec![0xa2, 1]],
            vec![vec![0xc1]],
            vec![vec![0xcf, 1]],
            vec![vec![0xdd, 0, 0]],
        ]);
    }

    fn random_number(random: &mut fastrand::Rng) -> Vec<u8> {
        let near = |random: &mut fastrand::Rng| {
            let power = random.u32(..65);
            ((1i128 << power) + i128::from(random.i8(-2..=2))) * if random.bool() { 1 } else { -1 }
        };
        match random.u8(..8) {
            0 => int(near(random).clamp(-(1 << 63), (1 << 64) - 1)),
            1 => double(f64::from_bits(random.u64(..))),
            2 => double(near(random) as f64 * [1.0, 0.5, 0.1, 1e-10][random.usize(..4)]),
            3 => float(f32::from_bits(random.u32(..))),
            4 => decimal(&near(random).to_string()),
            5 => {
                let digits: String = (0..random.usize(1..=76)).map(|_| random.digit(10)).collect();
                let sign = if random.bool() { "-" } else { "" };
                let exponent = match random.u8(..3) {
                    0 => random.i32(-5..5),
                    1 => random.i32(-80..80),
                    _ => random.i32(-420..330),
                };
                decimal(&format!("{sign}{digits}e{exponent}"))
            }
            6 => {
                // The first 76 digits of a double: equal to it where it has no more.
                decimal(&format!("{:.75e}", near(random) as f64 / 2f64.powi(random.i32(0..60))))
            }
            _ => int(i128::from(random.i8(..))),
        }
    }

    #[test]
    fn numbers_compare_as_fractions_of_whole_numbers_do() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let numbers: Vec<Vec<u8>> = (0..700).map(|_| random_number(&mut random)).collect();
        let slow: Vec<Slow> = numbers.iter().map(|number| Slow::read(number)).collect();
        for (a, slow_a) in numbers.iter().zip(&slow) {
            for (b, slow_b) in numbers.iter().zip(&slow) {
                assert_eq!(compare(a, 0, b, 0), slow_a.compare(slow_b), "{a:x?} {b:x?}");
            }
        }
    }

    #[test]
    fn a_decimal_next_to_a_double_compares_as_fractions_do() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let value = f64::from_bits(random.u64(..) & 0x7fff_ffff_ffff_ffff);
            if value.is_finite() && value > 0.0 {
                let a = decimal(&format!("{value:.*e}", random.usize(..76)));
                for near in [value.next_down(), value, value.next_up()] {
                    let b = double(near);
                    let order = Slow::read(&a).compare(&Slow::read(&b));
                    assert_eq!(compare(&a, 0, &b, 0), order, "{a:x?} {b:x?}");
                    assert_eq!(compare(&b, 0, &a, 0), order.reverse());
                }
            }
        }
    }

    #[test]
    fn any_bytes_have_an_order_that_is_total() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut values: Vec<Vec<u8>> = (0..400)
            .map(|_| {
                let length = random.usize(..12);
                let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
                if let (Some(first), true) = (bytes.first_mut(), random.bool()) {
                    *first = random.u8(0xc0..=0xdf);
                }
                if bytes.len() > 2 && random.bool() {
                    bytes[1] = random.u8(..9);
                }
                bytes
            })
            .collect();
        values.extend((0..100).map(|_| random_number(&mut random)));
        values.sort_by(|a, b| compare(a, 0, b, 0));
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                let order = compare(a, 0, b, 0);
                assert_eq!(order, compare(b, 0, a, 0).reverse(), "{a:x?} {b:x?}");
                assert!(order == i.cmp(&j) || order == Ordering::Equal, "{a:x?} {b:x?}");
                if order == Ordering::Equal && i < j {
                    for between in &values[i..j] {
                        assert_eq!(compare(a, 0, between, 0), Ordering::Equal, "{a:x?} {between:x?}");
                    }
                }
            }
        }
    }
}
