//! Decimals as Tarantool stores them (extension 1): exact to 76 digits, with an exponent of their own.
//!
//! The payload is a scale (the digits after the point, as a MsgPack integer; negative where the exponent is positive),
//! then packed digits, two a byte, the last nibble the sign:
//!
//! ```text
//! -123.45        02        12 34 5d               1e3         fd        1c
//!                scale 2   digits 12345, minus                scale -3  digit 1, plus
//! ```
//!
//! In memory the digits are one 256-bit integer (10^76 < 2^253), so that
//! `value = ±coefficient * 10^exponent`. Two decimals compare by where their first digit stands; where that is
//! the same, the one with fewer digits is multiplied up to the other's count, which still fits into 256 bits.
//! No step costs more than a few multiplications, however far apart the exponents are: they are numbers here,
//! never a count of zeros.
//!
//! Against doubles the comparison is exact too, unlike Tarantool's, which rounds the double to 15 digits first.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::read;

/// The most digits that a decimal has, leading zeros aside.
pub(crate) const DIGITS_MAX: u32 = 76;

/// Bounds of the adjusted exponent (that of the first digit).
const ADJUSTED_MAX: i32 = 999_999;
const ADJUSTED_MIN: i32 = -999_999;

/// Below `ADJUSTED_MIN` a decimal may still go on, with fewer digits, down to this exponent.
const EXPONENT_MIN: i32 = ADJUSTED_MIN - (DIGITS_MAX as i32 - 1);

const TOO_MANY_DIGITS: &str = "a decimal of at most 76 digits";
const OUT_OF_BOUNDS: &str = "a decimal with an exponent between -999999 and 999999";

/// An exact decimal number. `1`, `1.0` and `1e0` are equal but kept apart, as they are in the payload.
#[derive(Clone, Copy)]
pub(crate) struct Decimal {
    negative: bool,
    /// Digits of the coefficient; 0 for zero.
    digits: u8,
    exponent: i32,
    coefficient: Wide,
}

/// 256 bits, least limb first.
type Wide = [u64; 4];

/// Powers of ten that fit into a limb.
const TENS: [u64; 20] = {
    let mut tens = [1; 20];
    let mut n = 1;
    while n < 20 {
        tens[n] = tens[n - 1] * 10;
        n += 1;
    }
    tens
};

/// `limbs = limbs * factor + add`; gives what does not fit.
#[inline]
fn multiply(limbs: &mut [u64], factor: u64, add: u64) -> u64 {
    let mut carry = add;
    for limb in limbs {
        let product = u128::from(*limb) * u128::from(factor) + u128::from(carry);
        *limb = product as u64;
        carry = (product >> 64) as u64;
    }
    carry
}

/// `limbs = limbs / divisor`; gives the remainder.
fn divide(limbs: &mut [u64], divisor: u64) -> u64 {
    let mut rest = 0u64;
    for limb in limbs.iter_mut().rev() {
        let part = u128::from(rest) << 64 | u128::from(*limb);
        *limb = (part / u128::from(divisor)) as u64;
        rest = (part % u128::from(divisor)) as u64;
    }
    rest
}

fn multiply_by_ten_to(limbs: &mut Wide, mut power: u32) {
    while power > 0 {
        let step = power.min(19);
        let carry = multiply(limbs, TENS[step as usize], 0);
        debug_assert_eq!(carry, 0, "at most 76 digits fit into 256 bits");
        power -= step;
    }
}

#[inline]
fn compare_limbs(a: &[u64], b: &[u64]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

impl Decimal {
    /// The decimal in an extension's payload, or what was expected there. Any width of the scale, any count of
    /// leading zeros and all six sign nibbles are legal.
    pub(crate) fn from_payload(payload: &[u8]) -> Result<Self, &'static str> {
        let (scale, start) =
            read::int(payload, 0).map_err(|_| "a decimal that begins with an integer scale")?;
        let Some((&last, front)) = payload[start..].split_last() else { return Err("a decimal with digits") };
        let negative = match last & 0x0f {
            0x0a | 0x0c | 0x0e | 0x0f => false,
            0x0b | 0x0d => true,
            _ => return Err("a decimal that ends with a sign"),
        };
        let front = &front[front.iter().position(|&byte| byte != 0).unwrap_or(front.len())..];
        let top = last >> 4;
        let digits = match front.first() {
            Some(&first) => 2 * front.len() + usize::from(first >= 0x10),
            None => usize::from(top != 0),
        };
        if digits > DIGITS_MAX as usize {
            return Err(TOO_MANY_DIGITS);
        }
        let mut coefficient: Wide = [0; 4];
        let mut bad = top > 9;
        // Nine bytes a time: 18 digits fit into a limb, and with the last one 19.
        let mut chunks = front.chunks_exact(9);
        for chunk in &mut chunks {
            multiply(&mut coefficient, TENS[18], pack(chunk, &mut bad));
        }
        let rest = chunks.remainder();
        let tail = pack(rest, &mut bad) * 10 + u64::from(top);
        if front.len() < 9 {
            coefficient[0] = tail;
        } else {
            multiply(&mut coefficient, TENS[2 * rest.len() + 1], tail);
        }
        if bad {
            return Err("a decimal with digits from 0 to 9");
        }
        let exponent = i32::try_from(-scale).map_err(|_| OUT_OF_BOUNDS)?;
        Self { negative, digits: digits as u8, exponent, coefficient }.bounded()
    }

    /// The decimal if its exponent is one that Tarantool allows.
    fn bounded(self) -> Result<Self, &'static str> {
        let adjusted = i64::from(self.exponent) + i64::from(self.digits.max(1)) - 1;
        let small_enough = adjusted <= i64::from(ADJUSTED_MAX);
        let great_enough = adjusted >= i64::from(ADJUSTED_MIN) || self.exponent >= EXPONENT_MIN;
        if small_enough && great_enough { Ok(self) } else { Err(OUT_OF_BOUNDS) }
    }

    /// Appends the payload: the shortest scale, then the digits.
    pub(crate) fn write_payload(&self, out: &mut Vec<u8>) {
        super::write::int(out, -i128::from(self.exponent));
        let mut buffer = [0; DIGITS_MAX as usize];
        let digits = self.text(&mut buffer);
        let sign = if self.negative { 0x0d } else { 0x0c };
        // An odd count of digits fills whole bytes together with the sign.
        let (single, pairs) = digits.split_at(1 - digits.len() % 2);
        let mut nibbles = single.iter().chain(pairs).map(|digit| digit - b'0');
        if digits.len().is_multiple_of(2) {
            out.push(nibbles.next().unwrap_or(0));
        }
        loop {
            match (nibbles.next(), nibbles.next()) {
                (Some(high), Some(low)) => out.push(high << 4 | low),
                (Some(high), None) => break out.push(high << 4 | sign),
                (None, _) => break,
            }
        }
    }

    /// The coefficient's digits as text, "0" for zero.
    fn text<'a>(&self, buffer: &'a mut [u8; DIGITS_MAX as usize]) -> &'a [u8] {
        let count = usize::from(self.digits.max(1));
        let mut rest = self.coefficient;
        let mut end = count;
        while end > 0 {
            let mut part = divide(&mut rest, TENS[19]);
            let start = end.saturating_sub(19);
            for digit in buffer[start..end].iter_mut().rev() {
                *digit = b'0' + (part % 10) as u8;
                part /= 10;
            }
            end = start;
        }
        &buffer[..count]
    }

    /// Sign, digits (a single 0 for zero), and the exponent of the last digit.
    pub(super) fn parts(&self) -> (bool, Vec<u8>, i32) {
        let mut buffer = [0; DIGITS_MAX as usize];
        let digits = self.text(&mut buffer).iter().map(|digit| digit - b'0').collect();
        (self.negative, digits, self.exponent)
    }

    /// From digits, leading zeros allowed.
    pub(super) fn of_digits(negative: bool, digits: &[u8], exponent: i64) -> Result<Self, &'static str> {
        Self::from_digits(negative, digits.iter().map(|digit| b'0' + digit), exponent)
    }

    /// The number of digits before the point; less than 1 for small numbers.
    pub(crate) fn whole_digits(&self) -> i32 {
        if self.is_zero() { 0 } else { self.magnitude() }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// Whether the number fits a fixed-point type: trailing zeros do not count, and zero always fits.
    pub(crate) fn fits(&self, precision: u32, scale: i32) -> bool {
        if self.is_zero() {
            return true;
        }
        let mut buffer = [0; DIGITS_MAX as usize];
        let zeros = self.text(&mut buffer).iter().rev().take_while(|&&digit| digit == b'0').count() as i64;
        let exponent = i64::from(self.exponent) + zeros + i64::from(scale);
        let digits = i64::from(self.digits) - zeros;
        exponent >= 0 && digits + exponent <= i64::from(precision)
    }

    /// -1, 0 or 1.
    #[inline]
    fn sign(&self) -> i8 {
        match (self.digits, self.negative) {
            (0, _) => 0,
            (_, false) => 1,
            (_, true) => -1,
        }
    }

    /// Digits before the point: the value is below ten to this power, and not below a tenth of that.
    #[inline]
    fn magnitude(&self) -> i32 {
        self.exponent + i32::from(self.digits)
    }

    /// The order of the absolute values; neither is zero.
    fn compare_absolute(&self, other: &Self) -> Ordering {
        let order = self.magnitude().cmp(&other.magnitude());
        if order != Ordering::Equal {
            return order;
        }
        let (mut a, mut b) = (self.coefficient, other.coefficient);
        match self.digits.cmp(&other.digits) {
            Ordering::Less => multiply_by_ten_to(&mut a, u32::from(other.digits - self.digits)),
            Ordering::Greater => multiply_by_ten_to(&mut b, u32::from(self.digits - other.digits)),
            Ordering::Equal => {}
        }
        compare_limbs(&a, &b)
    }

    pub(crate) fn compare_int(&self, other: i128) -> Ordering {
        self.cmp(&Self::from(other))
    }

    /// Compares with the exact value of a double; NaN is below everything.
    pub(crate) fn compare_f64(&self, other: f64) -> Ordering {
        if other.is_nan() {
            return Ordering::Greater;
        }
        let sign = if other > 0.0 { 1 } else { -i8::from(other < 0.0) };
        match (self.sign().cmp(&sign), sign) {
            (Ordering::Equal, 0) => Ordering::Equal,
            (Ordering::Equal, 1) => self.compare_absolute_f64(other),
            (Ordering::Equal, _) => self.compare_absolute_f64(-other).reverse(),
            (order, _) => order,
        }
    }

    /// The order of the absolute value and a double above zero; this is not zero.
    fn compare_absolute_f64(&self, other: f64) -> Ordering {
        // Doubles lie between 4.9e-324 and 1.8e308.
        if self.magnitude() <= -324 {
            return Ordering::Less;
        }
        if self.magnitude() > 309 && other != f64::INFINITY {
            return Ordering::Greater;
        }
        if other == f64::INFINITY {
            return Ordering::Less;
        }
        // Both sides times the powers of five and two that make them whole:
        // coefficient * 5^e * 2^e  against  mantissa * 2^q.
        let (mantissa, power) = split(other);
        let mut a = Big::new(&self.coefficient);
        let mut b = Big::new(&[mantissa]);
        let fives = self.exponent.unsigned_abs();
        if self.exponent >= 0 {
            a.multiply_by_five_to(fives)
        } else {
            b.multiply_by_five_to(fives)
        }
        let shift = self.exponent - power;
        let order = (a.bits() as i32 + shift).cmp(&(b.bits() as i32));
        if order != Ordering::Equal {
            return order;
        }
        if shift >= 0 {
            a.shift_left(shift as u32)
        } else {
            b.shift_left(shift.unsigned_abs())
        }
        compare_limbs(&a.limbs, &b.limbs)
    }

    /// The greatest double that is not above the number, and whether it is the number itself. It never decreases
    /// while numbers grow. Zero is 0.0, whatever its sign.
    pub(crate) fn floor_f64(&self) -> (f64, bool) {
        if self.is_zero() {
            return (0.0, true);
        }
        let near = self.nearest_f64();
        match self.compare_f64(near) {
            Ordering::Equal => (near, true),
            Ordering::Greater => (near, false),
            Ordering::Less => (near.next_down(), false),
        }
    }

    fn nearest_f64(&self) -> f64 {
        let exponent = self.exponent.unsigned_abs() as usize;
        let [low, rest @ ..] = self.coefficient;
        // Whole numbers below 2^53 and powers of ten up to 10^22 are exact doubles: one rounding in all.
        let absolute = if rest == [0; 3] && low < 1 << 53 && exponent < TENS.len() {
            let power = TENS[exponent] as f64;
            if self.exponent < 0 { low as f64 / power } else { low as f64 * power }
        } else {
            let mut buffer = [0; DIGITS_MAX as usize];
            let digits = str::from_utf8(self.text(&mut buffer)).expect("digits are ASCII");
            format!("{digits}e{}", self.exponent).parse().expect("digits and an exponent are a number")
        };
        if self.negative { -absolute } else { absolute }
    }

    /// From ASCII digits, leading zeros allowed.
    fn from_digits(
        negative: bool,
        text: impl Iterator<Item = u8>,
        exponent: i64,
    ) -> Result<Self, &'static str> {
        let mut coefficient: Wide = [0; 4];
        let mut digits = 0u8;
        for digit in text {
            if u32::from(digits) == DIGITS_MAX {
                return Err(TOO_MANY_DIGITS);
            }
            if digits > 0 || digit != b'0' {
                digits += 1;
                multiply(&mut coefficient, 10, u64::from(digit - b'0'));
            }
        }
        let exponent = i32::try_from(exponent).map_err(|_| OUT_OF_BOUNDS)?;
        Self { negative, digits, exponent, coefficient }.bounded()
    }
}

/// The number in packed digits, `bad` if one of them is none. At most nine bytes.
#[inline]
fn pack(bytes: &[u8], bad: &mut bool) -> u64 {
    bytes.iter().fold(0, |number, &byte| {
        let (high, low) = (byte >> 4, byte & 0x0f);
        *bad |= high > 9 || low > 9;
        number * 100 + u64::from(high) * 10 + u64::from(low)
    })
}

/// A positive finite double as `mantissa * 2^power`.
fn split(double: f64) -> (u64, i32) {
    let bits = double.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, power) = match (bits >> 52) as i32 & 0x7ff {
        0 => (fraction, -1074),
        exponent => (fraction | 1 << 52, exponent - 1075),
    };
    let zeros = mantissa.trailing_zeros();
    (mantissa >> zeros, power + zeros as i32)
}

/// Limbs of a [`Big`]. With the magnitudes that reach it no product is above 10^309 * 2^1382 < 2^2410 on the side
/// of the decimal, or 2^53 * 5^399 * 2^1370 < 2^2350 on that of the double.
const BIG_LIMBS: usize = 40;

/// A whole number that is wide enough for the comparison of any decimal with any double.
struct Big {
    limbs: [u64; BIG_LIMBS],
    /// Limbs in use: those above are 0.
    used: usize,
}

impl Big {
    fn new(low: &[u64]) -> Self {
        let mut limbs = [0; BIG_LIMBS];
        limbs[..low.len()].copy_from_slice(low);
        let used = low.iter().rposition(|&limb| limb != 0).map_or(0, |last| last + 1);
        Self { limbs, used }
    }

    fn multiply_by_five_to(&mut self, mut power: u32) {
        while power > 0 {
            // 5^27 is the greatest power of five in a limb.
            let step = power.min(27);
            let carry = multiply(&mut self.limbs[..self.used], 5u64.pow(step), 0);
            if carry != 0 {
                self.limbs[self.used] = carry;
                self.used += 1;
            }
            power -= step;
        }
    }

    fn bits(&self) -> u32 {
        match self.used {
            0 => 0,
            used => 64 * used as u32 - self.limbs[used - 1].leading_zeros(),
        }
    }

    fn shift_left(&mut self, bits: u32) {
        let (whole, part) = ((bits / 64) as usize, bits % 64);
        for at in (whole..BIG_LIMBS).rev() {
            let high = self.limbs[at - whole] << part;
            let low = match (part, at - whole) {
                (0, _) | (_, 0) => 0,
                (_, from) => self.limbs[from - 1] >> (64 - part),
            };
            self.limbs[at] = high | low;
        }
        self.limbs[..whole].fill(0);
    }
}

impl From<i128> for Decimal {
    fn from(number: i128) -> Self {
        let absolute = number.unsigned_abs();
        let digits = absolute.checked_ilog10().map_or(0, |log| log + 1) as u8;
        let coefficient = [absolute as u64, (absolute >> 64) as u64, 0, 0];
        Self { negative: number < 0, digits, exponent: 0, coefficient }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = self.sign();
        match (sign.cmp(&other.sign()), sign) {
            (Ordering::Equal, 0) => Ordering::Equal,
            (Ordering::Equal, 1) => self.compare_absolute(other),
            (Ordering::Equal, _) => other.compare_absolute(self),
            (order, _) => order,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

/// The form of the General Decimal Arithmetic (`to-scientific-string`), which Tarantool prints too. It keeps
/// everything: `1.50`, `0.0`, `-0`, `1E+3`, `1E-20` are read back as they were.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; DIGITS_MAX as usize];
        let digits = str::from_utf8(self.text(&mut buffer)).expect("digits are ASCII");
        if self.negative {
            f.write_str("-")?;
        }
        let adjusted = self.exponent + digits.len() as i32 - 1;
        if self.exponent == 0 {
            f.write_str(digits)
        } else if self.exponent < 0 && adjusted >= 0 {
            let (whole, fraction) = digits.split_at(adjusted as usize + 1);
            write!(f, "{whole}.{fraction}")
        } else if self.exponent < 0 && adjusted >= -6 {
            write!(f, "0.{:0>1$}", digits, self.exponent.unsigned_abs() as usize)
        } else {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            write!(f, "{first}{point}{rest}E{adjusted:+}")
        }
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `-12.50`, `.5`, `5.`, `1e3`, `1.5E-20`. The error says what was expected.
impl FromStr for Decimal {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a decimal such as -12.50 or 1.5e-20";
        let (negative, unsigned) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (number, power) = match unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&unsigned[..at], exponent(&unsigned[at + 1..]).ok_or(FORM)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match number.iter().position(|&byte| byte == b'.') {
            Some(at) => (&number[..at], &number[at + 1..]),
            None => (number, &[][..]),
        };
        let digits = || whole.iter().chain(fraction).copied();
        if whole.len() + fraction.len() == 0 || !digits().all(|byte| byte.is_ascii_digit()) {
            return Err(FORM);
        }
        Self::from_digits(negative, digits(), power - fraction.len() as i64)
    }
}

/// A signed number; one that is too great for any decimal stays too great.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        digits.iter().fold(0i64, |number, digit| (number * 10 + i64::from(digit - b'0')).min(i64::MAX / 100));
    Some(if negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::unhex as hex;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn the_payloads_that_tarantool_writes_are_read_and_written() {
        let nines = format!("14 {}9c", "99".repeat(37));
        let vectors = [
            ("0", "00 0c"),
            ("-0", "00 0d"),
            ("0.0", "01 0c"),
            ("1", "00 1c"),
            ("12", "00 01 2c"),
            ("100", "00 10 0c"),
            ("-123.45", "02 12 34 5d"),
            ("1.50", "02 15 0c"),
            ("0.001", "03 1c"),
            ("1E+3", "fd 1c"),
            ("1E+10", "f6 1c"),
            ("1E-20", "14 1c"),
            ("0E+2", "fe 0c"),
            ("1E+200", "d1 ff 38 1c"),
            ("1E-200", "cc c8 1c"),
            ("0.000001", "06 1c"),
            ("1E-7", "07 1c"),
        ];
        for (text, bytes) in vectors {
            let bytes = hex(bytes);
            let read = Decimal::from_payload(&bytes).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(decimal(text).to_string(), text);
            for number in [read, decimal(text)] {
                let mut written = Vec::new();
                number.write_payload(&mut written);
                assert_eq!(written, bytes, "{text}");
            }
        }
        let mut written = Vec::new();
        let long = Decimal::from_payload(&hex(&nines)).unwrap();
        long.write_payload(&mut written);
        assert_eq!(written, hex(&nines));
        assert_eq!((long.digits, long.exponent), (75, -20));
    }

    #[test]
    fn every_way_to_write_a_decimal_is_read() {
        for payload in
            ["00 1a", "00 1c", "00 1e", "00 1f", "cc00 1c", "d10000 1c", "00 00 00 00 1c", "00 00 01 0c"]
        {
            let expected = if payload.ends_with("0c") { 10 } else { 1 };
            assert_eq!(Decimal::from_payload(&hex(payload)).unwrap(), Decimal::from(expected), "{payload}");
        }
        for payload in ["00 1b", "00 1d", "d000 1b"] {
            assert_eq!(Decimal::from_payload(&hex(payload)).unwrap(), decimal("-1"), "{payload}");
        }
        let mut padded = vec![0; 100_000];
        padded.extend_from_slice(&[0x12, 0x3d]);
        assert_eq!(Decimal::from_payload(&padded).unwrap(), decimal("-123"));
        assert_eq!(Decimal::from_payload(&hex("d0ff 1c")).unwrap(), decimal("10"));
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        let payloads = [
            "",
            "00",
            "0c",
            "c0 1c",
            "a1 61",
            "cb 3ff0000000000000 1c",
            "cd 00",
            "00 10",
            "00 15",
            "00 c1 0c",
            "00 1c 1c",
            "00 a0 0c",
            "00 0a 0c",
            "00 ac",
            "00 fc",
            "00 ff ff ff ff ff ff ff ff ff 1c",
            "cf ffffffffffffffff 1c",
            "d3 8000000000000000 1c",
            "ce 7fffffff 1c",
            "d2 80000000 1c",
            "d2 fff0bdc0 1c",
            "ce 000f42ab 1c",
            "d2 fff0bdc1 01 0c",
        ];
        for payload in payloads {
            assert!(Decimal::from_payload(&hex(payload)).is_err(), "{payload}");
        }
        let digits = |count: usize| {
            hex(&format!("00 {}{}c", if count.is_multiple_of(2) { "0" } else { "" }, "7".repeat(count)))
        };
        assert_eq!(Decimal::from_payload(&digits(76)).unwrap().digits, 76);
        assert!(Decimal::from_payload(&digits(77)).is_err());
        assert!(Decimal::from_payload(&digits(200_001)).is_err());
        let texts = [
            "",
            "-",
            ".",
            "1e",
            "e1",
            "1e+",
            "1.2.3",
            "0x1",
            " 1",
            "1 ",
            "nan",
            "inf",
            "1e1000000",
            "--1",
            "1-",
        ];
        for text in texts {
            assert!(text.parse::<Decimal>().is_err(), "{text:?}");
        }
        assert!("1e99999999999999999999999".parse::<Decimal>().is_err());
        assert!("7".repeat(77).parse::<Decimal>().is_err());
    }

    #[test]
    fn the_exponent_is_bounded_as_in_tarantool() {
        assert_eq!(decimal("1e999999").to_string(), "1E+999999");
        assert_eq!(decimal("9.99e999999").exponent, 999_997);
        assert!("1e1000000".parse::<Decimal>().is_err());
        assert_eq!(decimal("1e-999999").exponent, -999_999);
        // Below it the digits become fewer.
        assert_eq!(decimal("1.5e-1000000").digits, 2);
        assert_eq!(decimal("1e-1000074").exponent, -1_000_074);
        assert!("1e-1000075".parse::<Decimal>().is_err());
        assert!("1.5e-1000074".parse::<Decimal>().is_err());
    }

    #[test]
    fn decimals_compare_by_value() {
        let line = [
            "-1e999999",
            "-2",
            "-1.50",
            "-1.5e-1000000",
            "0",
            "1e-1000074",
            "0.1",
            "0.10000000000000000000000000000000001",
            "1",
            "1.000000000000000000000000000000000000000000000000000000000000000000000000001",
            "2",
            "10",
            "1e2",
            "101",
            "1e75",
            "9999999999999999999999999999999999999999999999999999999999999999999999999999",
            "1e76",
            "1e999999",
        ];
        for (i, a) in line.iter().enumerate() {
            for (j, b) in line.iter().enumerate() {
                assert_eq!(decimal(a).cmp(&decimal(b)), i.cmp(&j), "{a} {b}");
            }
        }
        for (a, b) in [("1", "1.00"), ("0", "-0"), ("0.0", "0e999999"), ("1e3", "1000"), ("-120", "-1.2e2")] {
            assert_eq!(decimal(a), decimal(b));
        }
        let padded = format!("1{}", "0".repeat(75));
        assert_eq!(decimal("1e75"), decimal(&padded));
    }

    #[test]
    fn a_double_compares_by_its_exact_value() {
        // The double nearest to 0.1 is a little more than that.
        assert_eq!(decimal("0.1").compare_f64(0.1), Ordering::Less);
        assert_eq!(
            decimal("0.1000000000000000055511151231257827021181583404541015625").compare_f64(0.1),
            Ordering::Equal
        );
        assert_eq!(decimal("9007199254740993").compare_f64(9007199254740992.0), Ordering::Greater);
        assert_eq!(decimal("0.5").compare_f64(0.5), Ordering::Equal);
        assert_eq!(decimal("-0.50").compare_f64(-0.5), Ordering::Equal);
        assert_eq!(decimal("-0").compare_f64(0.0), Ordering::Equal);
        assert_eq!(decimal("0").compare_f64(-0.0), Ordering::Equal);
        for number in ["-1e999999", "0", "1e999999", "-5", "1e-1000000"] {
            assert_eq!(decimal(number).compare_f64(f64::NAN), Ordering::Greater);
            assert_eq!(decimal(number).compare_f64(f64::INFINITY), Ordering::Less);
            assert_eq!(decimal(number).compare_f64(f64::NEG_INFINITY), Ordering::Greater);
        }
        assert_eq!(decimal("1e309").compare_f64(f64::MAX), Ordering::Greater);
        assert_eq!(decimal("1.7976931348623157e308").compare_f64(f64::MAX), Ordering::Less);
        assert_eq!(decimal("1.7976931348623158e308").compare_f64(f64::MAX), Ordering::Greater);
        assert_eq!(decimal("4.9e-324").compare_f64(f64::from_bits(1)), Ordering::Less);
        assert_eq!(decimal("5e-324").compare_f64(f64::from_bits(1)), Ordering::Greater);
        assert_eq!(decimal("1e-399").compare_f64(f64::from_bits(1)), Ordering::Less);
    }

    #[test]
    fn the_double_below_a_decimal_is_the_nearest_one_and_grows_with_it() {
        let exact = |text: &str, double: f64| assert_eq!(decimal(text).floor_f64(), (double, true), "{text}");
        exact("0", 0.0);
        exact("-0.00", 0.0);
        exact("1.50", 1.5);
        exact("-3e5", -3e5);
        exact("9007199254740992", 9007199254740992.0);
        exact("1e22", 1e22);
        let below = |text: &str, double: f64| {
            assert_eq!(decimal(text).floor_f64(), (double, false), "{text}");
        };
        below("9007199254740993", 9007199254740992.0);
        below("0.1", 0.1f64.next_down());
        below("-0.1", -0.1);
        below("0.3", 0.3);
        below("1e999999", f64::MAX);
        below("-1e999999", f64::NEG_INFINITY);
        below("1e-1000000", 0.0);
        below("-1e-1000000", -f64::from_bits(1));
        below("5e-324", f64::from_bits(1));
        below("4.9e-324", 0.0);
        below("0.10000000000000000555111512312578270211815834045410156250001", 0.1);
    }

    #[test]
    fn fixed_point_types_hold_what_fits_without_trailing_zeros() {
        assert!(decimal("123.45").fits(5, 2));
        assert!(!decimal("123.45").fits(4, 2));
        assert!(!decimal("123.45").fits(9, 1));
        assert!(decimal("123.450000").fits(5, 2));
        assert!(decimal("1e3").fits(4, 0));
        assert!(!decimal("1e4").fits(4, 0));
        assert!(decimal("1000").fits(1, -3));
        assert!(!decimal("100").fits(1, -3));
        assert!(decimal("0").fits(2, 2) && decimal("0e999999").fits(9, 9) && decimal("-0.000").fits(1, 0));
        assert!(decimal("1e999999").fits(u32::MAX, 0) && !decimal("1e999999").fits(76, -5));
    }

    #[test]
    fn text_is_read_in_every_form() {
        for (text, plain) in [
            ("+5", "5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1E+3"),
            ("1.5E+3", "1.5E+3"),
            ("00012", "12"),
            ("0001.20e-1", "0.120"),
        ] {
            assert_eq!(decimal(text).to_string(), plain);
        }
        assert_eq!(decimal(&format!("{}1", "0".repeat(1000))), Decimal::from(1));
    }

    #[test]
    fn random_payloads_never_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100_000 {
            let length = random.usize(..48);
            let mut payload: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            if random.bool() {
                // Mostly good digits, so that what follows the checks is reached.
                payload.iter_mut().for_each(|byte| *byte = (((*byte >> 4) % 10) << 4) | ((*byte & 15) % 10));
                if let Some(last) = payload.last_mut() {
                    *last |= 0x0c;
                }
            }
            if let Ok(number) = Decimal::from_payload(&payload) {
                assert_eq!(decimal(&number.to_string()).to_string(), number.to_string());
                let mut again = Vec::new();
                number.write_payload(&mut again);
                assert_eq!(Decimal::from_payload(&again).unwrap().to_string(), number.to_string());
                let (floor, exact) = number.floor_f64();
                assert_eq!(
                    number.compare_f64(floor),
                    if exact { Ordering::Equal } else { Ordering::Greater }
                );
                assert!(floor == f64::MAX || exact || number.compare_f64(floor.next_up()) == Ordering::Less);
            }
        }
    }
}
