//! Adding decimals: exact as long as the sum has at most so many digits, else rounded half up to them.

use super::decimal::{DIGITS_MAX, Decimal};

/// The digits of a number, most significant first, and the exponent of the last one.
struct Digits {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Digits {
    fn of(decimal: &Decimal) -> Self {
        let (negative, digits, exponent) = decimal.parts();
        Self { negative, digits, exponent: exponent.into() }
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|&digit| digit == 0)
    }

    /// The exponent of the first digit.
    fn adjusted(&self) -> i64 {
        self.exponent + self.digits.len() as i64 - 1
    }

    /// Lowers the exponent by zeros behind the last digit.
    fn extend_to(&mut self, exponent: i64) {
        let zeros = (self.exponent - exponent).max(0);
        self.digits.resize(self.digits.len() + zeros as usize, 0);
        self.exponent -= zeros;
    }
}

impl Decimal {
    /// The sum, rounded half up to `precision` digits where it has more; nothing where it is too large.
    pub(crate) fn add(&self, other: &Self, precision: u32) -> Option<Self> {
        debug_assert!(precision <= DIGITS_MAX);
        let (mut a, mut b) = (Digits::of(self), Digits::of(other));
        if a.adjusted() < b.adjusted() && !b.is_zero() || a.is_zero() {
            std::mem::swap(&mut a, &mut b);
        }
        let exponent = a.exponent.min(b.exponent);
        // No digit below this one has a say: a is at least ten to the power of its first digit.
        let lowest = a.adjusted() - i64::from(precision) - 3;
        if a.is_zero() {
            // Both are: the sum has the lower exponent, and no sign.
            return Self::of_digits(false, &[], exponent).ok();
        }
        if b.is_zero() {
            a.extend_to(exponent.max(a.adjusted() - i64::from(precision) + 1));
            return round(a, precision);
        }
        if b.adjusted() < lowest {
            // All that matters of b is that it is there, and its sign.
            b = Digits { negative: b.negative, digits: vec![1], exponent: lowest };
        }
        let exponent = a.exponent.min(b.exponent);
        a.extend_to(exponent);
        b.extend_to(exponent);
        let length = a.digits.len().max(b.digits.len()) + 1;
        for number in [&mut a, &mut b] {
            let zeros = length - number.digits.len();
            number.digits.splice(..0, std::iter::repeat_n(0, zeros));
        }
        if a.negative != b.negative && a.digits < b.digits {
            std::mem::swap(&mut a, &mut b);
        }
        let subtracts = a.negative != b.negative;
        let mut carry = 0i8;
        for (digit, &other) in a.digits.iter_mut().zip(&b.digits).rev() {
            let sum = *digit as i8 + if subtracts { -(other as i8) } else { other as i8 } + carry;
            carry = sum.div_euclid(10);
            *digit = sum.rem_euclid(10) as u8;
        }
        a.negative &= !a.is_zero();
        round(a, precision)
    }

    /// The number rounded half up to so many digits after the point, if it has more.
    pub(crate) fn with_scale_up_to(&self, scale: u32) -> Self {
        let Digits { negative, mut digits, exponent } = Digits::of(self);
        let dropped = (-i64::from(scale) - exponent).max(0) as usize;
        if dropped == 0 {
            return *self;
        }
        // A digit before the first one may come out of the rounding.
        let kept = digits.len().saturating_sub(dropped);
        let rounds_up = dropped <= digits.len() && digits[kept] >= 5;
        digits.truncate(kept);
        digits.insert(0, 0);
        if rounds_up {
            increment(&mut digits);
        }
        Self::of_digits(negative && digits.iter().any(|&digit| digit != 0), &digits, -i64::from(scale))
            .expect("no more digits than before, and one")
    }

    /// The number with the other sign.
    pub(crate) fn negated(&self) -> Self {
        let (negative, digits, exponent) = self.parts();
        Self::of_digits(!negative, &digits, exponent.into()).expect("it has the digits of a decimal")
    }

    /// A double by its 15 significant digits; nothing for what is no number.
    pub(crate) fn from_f64_by_15_digits(value: f64) -> Option<Self> {
        if !value.is_finite() {
            return None;
        }
        let text = format!("{:.14e}", value.abs());
        let (mantissa, exponent) = text.split_once('e')?;
        let mut digits: Vec<u8> =
            mantissa.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
        while digits.len() > 1 && digits.last() == Some(&0) {
            digits.pop();
        }
        let first: i64 = exponent.parse().ok()?;
        let mut last = first - (digits.len() as i64 - 1);
        // Written without an exponent, as C does where 15 digits suffice.
        if last > 0 && first < 15 {
            digits.resize(digits.len() + last as usize, 0);
            last = 0;
        }
        Self::of_digits(value.is_sign_negative() && value != 0.0, &digits, last).ok()
    }
}

/// Adds one to the last digit; there is one that is no 9.
fn increment(digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if *digit == 9 {
            *digit = 0;
        } else {
            *digit += 1;
            break;
        }
    }
}

/// The decimal, rounded half up to `precision` digits.
fn round(mut number: Digits, precision: u32) -> Option<Decimal> {
    let zeros = number.digits.iter().take_while(|&&digit| digit == 0).count();
    number.digits.drain(..zeros);
    while number.digits.len() > precision as usize {
        let dropped = number.digits.len() - precision as usize;
        let rounds_up = number.digits[precision as usize] >= 5;
        number.digits.truncate(precision as usize);
        number.exponent += dropped as i64;
        if rounds_up {
            match number.digits.iter_mut().rev().find(|digit| **digit != 9) {
                Some(_) => increment(&mut number.digits),
                None => {
                    number.digits.fill(0);
                    number.digits.insert(0, 1);
                }
            }
        }
    }
    Decimal::of_digits(number.negative, &number.digits, number.exponent).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str, precision: u32) -> Option<String> {
        let [a, b] = [a, b].map(|text| text.parse::<Decimal>().unwrap());
        let sum = a.add(&b, precision)?;
        let (negative, digits, exponent) = sum.parts();
        let digits: String = digits.iter().map(|&digit| char::from(b'0' + digit)).collect();
        Some(format!("{}{digits}e{exponent}", if negative { "-" } else { "" }))
    }

    #[test]
    fn sums_keep_the_finer_scale_and_are_rounded_half_up() {
        for (a, b, precision, expected) in [
            ("1.50", "1", 38, "250e-2"),
            ("1", "-1.0", 38, "0e-1"),
            ("0", "0.00", 38, "0e-2"),
            ("5", "0.00", 38, "500e-2"),
            ("-5", "3", 38, "-2e0"),
            ("3", "-5.5", 38, "-25e-1"),
            ("999", "1", 38, "1000e0"),
            ("99995", "0.5", 5, "99996e0"),
            ("99999", "0.5", 5, "10000e1"),
            ("1e10", "1", 5, "10000e6"),
            ("1e50", "-1", 5, "10000e46"),
            ("1e500", "1e-500", 5, "10000e496"),
            ("9999", "1e-500", 4, "9999e0"),
        ] {
            assert_eq!(sum(a, b, precision).as_deref(), Some(expected), "{a} + {b}");
            assert_eq!(sum(b, a, precision).as_deref(), Some(expected), "{b} + {a}");
        }
    }

    #[test]
    fn a_scale_may_be_bounded() {
        for (number, scale, expected) in [
            ("1.25", 2, "125e-2"),
            ("1.25", 1, "13e-1"),
            ("9.96", 1, "100e-1"),
            ("-0.04", 1, "0e-1"),
            ("0.06", 1, "1e-1"),
            ("6e-39", 38, "1e-38"),
            ("1e-300", 38, "0e-38"),
            ("5e3", 38, "5e3"),
        ] {
            let bounded = number.parse::<Decimal>().unwrap().with_scale_up_to(scale);
            let (negative, digits, exponent) = bounded.parts();
            let digits: String = digits.iter().map(|&digit| char::from(b'0' + digit)).collect();
            assert_eq!(
                format!("{}{digits}e{exponent}", if negative { "-" } else { "" }),
                expected,
                "{number}"
            );
        }
    }

    #[test]
    fn doubles_are_taken_by_15_digits() {
        for (value, expected) in [
            (0.1, "1e-1"),
            (100_000.0, "100000e0"),
            (1e20, "1e20"),
            (-2.5, "-25e-1"),
            (0.1 + 0.2, "3e-1"),
            (1e-7, "1e-7"),
            (0.0, "0e0"),
        ] {
            let (negative, digits, exponent) = Decimal::from_f64_by_15_digits(value).unwrap().parts();
            let digits: String = digits.iter().map(|&digit| char::from(b'0' + digit)).collect();
            assert_eq!(format!("{}{digits}e{exponent}", if negative { "-" } else { "" }), expected);
        }
        assert!(Decimal::from_f64_by_15_digits(f64::NAN).is_none());
    }
}
