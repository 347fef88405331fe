//! Arithmetic of update operations: what number comes out, and as what it is stored.
//!
//! ```text
//! integers                  exact, must fit from -2^63 to 2^64 - 1; stored in the shortest form
//! a float among them        as doubles; stored as a float of 4 bytes if that is exact, as the field's type demands if
//!                           the field has one of its own
//! a decimal among them      as decimals, doubles by their 15 digits
//! ```

use super::{Fault, Rules};
use crate::msgpack::decimal::Decimal;
use crate::msgpack::ext::EXT_DECIMAL;
use crate::msgpack::{class, read, write};
use crate::tuple::field_type::FieldType;
use crate::tuple::format::TypeNode;

/// A number of a tuple or of an operation.
#[derive(Clone, Copy)]
pub(super) enum Number {
    Integer(i128),
    Double(f64),
    Decimal(Decimal),
}

/// The number at `at`, if there is one.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<Number> {
    match read::class_at(bytes, at) {
        class::UINT | class::INT => Some(Number::Integer(read::int(bytes, at).ok()?.0)),
        class::FLOAT32 | class::FLOAT64 => Some(Number::Double(read::float(bytes, at).ok()?.0)),
        class::EXT => match read::ext(bytes, at).ok()?.0 {
            (EXT_DECIMAL, payload) => Decimal::from_payload(payload).ok().map(Number::Decimal),
            _ => None,
        },
        _ => None,
    }
}

impl Number {
    fn to_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Double(value) => value,
            Self::Decimal(_) => unreachable!("decimals are not added as doubles"),
        }
    }

    fn to_decimal(self) -> Option<Decimal> {
        match self {
            Self::Integer(value) => Some(Decimal::from(value)),
            Self::Double(value) => Decimal::from_f64_by_15_digits(value),
            Self::Decimal(value) => Some(value),
        }
    }
}

/// `a + b`, or `a - b`.
pub(super) fn add((a, b): (Number, Number), subtracts: bool, rules: &Rules) -> Result<Number, Fault> {
    match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => {
            let sum = if subtracts { a - b } else { a + b };
            if sum < i128::from(i64::MIN) || sum > i128::from(u64::MAX) {
                return Err(Fault::new(95, "a sum from -2^63 to 2^64 - 1", sum));
            }
            Ok(Number::Integer(sum))
        }
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            let operand = |number: Number| {
                let decimal = number.to_decimal();
                let decimal = decimal.map(|decimal| match rules.decimals_are_short {
                    true => decimal.with_scale_up_to(rules.decimal_digits),
                    false => decimal,
                });
                decimal.ok_or_else(|| Fault::new(26, "a number that a decimal can be", "another"))
            };
            let (a, b) = (operand(a)?, operand(b)?);
            let sum = a.add(&if subtracts { b.negated() } else { b }, rules.decimal_digits);
            let fits = |sum: &Decimal| {
                !rules.decimals_are_short || sum.whole_digits() <= rules.decimal_digits as i32
            };
            let sum = sum.filter(fits);
            sum.map(Number::Decimal)
                .ok_or_else(|| Fault::new(160, "a sum that a decimal can hold", "a larger one"))
        }
        _ => {
            let (a, b) = (a.to_f64(), b.to_f64());
            Ok(Number::Double(add_doubles(a, b, subtracts)))
        }
    }
}

/// The sum, and where it is no number the bits that x86 gives it: those of the operand that was none, made quiet. What the
/// compiler makes of `a - b` may turn the sign of such a `b`.
fn add_doubles(a: f64, b: f64, subtracts: bool) -> f64 {
    const QUIET: u64 = 1 << 51;
    const INDEFINITE: u64 = 0xfff8 << 48;
    let quiet = |value: f64| f64::from_bits(value.to_bits() | QUIET);
    match (a.is_nan(), b.is_nan()) {
        (true, _) => quiet(a),
        (_, true) => quiet(b),
        _ => {
            let sum = if subtracts { a - b } else { a + b };
            if sum.is_nan() { f64::from_bits(INDEFINITE) } else { sum }
        }
    }
}

/// Writes a result, as its field's type has it.
pub(super) fn write(out: &mut Vec<u8>, number: Number, place: Option<TypeNode<'_>>) {
    match number {
        Number::Integer(value) => write::int(out, value),
        Number::Decimal(value) => write::decimal(out, &value),
        Number::Double(value) => match place.map(TypeNode::field_type) {
            Some(FieldType::Double | FieldType::Float64) => write::double(out, value),
            Some(FieldType::Float32) => write::float(out, value as f32),
            _ if f64::from(value as f32) == value && value.is_finite() => write::float(out, value as f32),
            _ => write::double(out, value),
        },
    }
}
