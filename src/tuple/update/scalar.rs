//! A value under arithmetic, bit operations and splices.

use super::arith::{self, Number};
use super::{Action, Fault, Rules};
use crate::msgpack::{class, name, read, write};
use crate::tuple::format::TypeNode;

pub(super) enum Scalar<'a> {
    Number(Number),
    String {
        bytes: Vec<u8>,
        is_bin: bool,
    },
    /// Something else, by its name.
    Other(&'a str),
}

impl Default for Scalar<'_> {
    fn default() -> Self {
        Self::Other("nothing")
    }
}

impl<'a> Scalar<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Self {
        match read::class_at(bytes, 0) {
            class::STR => read::str(bytes, 0).ok().map(|(text, _)| (text, false)),
            class::BIN => read::bin(bytes, 0).ok().map(|(text, _)| (text, true)),
            _ => match arith::number(bytes, 0) {
                Some(number) => return Self::Number(number),
                None => None,
            },
        }
        .map_or(Self::Other(name(bytes[0])), |(text, is_bin)| Self::String { bytes: text.into(), is_bin })
    }

    /// What becomes of it; where an operation cannot be, it comes back.
    pub(super) fn changed(self, action: &Action<'_>, rules: &Rules) -> Result<Self, (Fault, Self)> {
        match self.try_change(action, rules) {
            Ok(changed) => Ok(changed),
            Err(fault) => Err((fault, self)),
        }
    }

    fn try_change(&self, action: &Action<'_>, rules: &Rules) -> Result<Self, Fault> {
        match (*action, self) {
            (Action::Add { argument, subtracts }, Self::Number(old)) => {
                let by = arith::number(argument, 0).expect("asked when the operation was read");
                arith::add((*old, by), subtracts, rules).map(Self::Number)
            }
            (Action::Add { .. }, _) => Err(self.is_no("a number")),
            (Action::Bits { operator, argument }, &Self::Number(Number::Integer(old @ 0..))) => {
                let argument = i128::from(argument);
                Ok(Self::Number(Number::Integer(match operator {
                    b'&' => old & argument,
                    b'|' => old | argument,
                    _ => old ^ argument,
                })))
            }
            (Action::Bits { .. }, _) => Err(self.is_no("a positive integer")),
            (Action::Splice { offset, cut, paste }, Self::String { bytes, is_bin })
                if !is_bin || rules.splices_bin =>
            {
                let (start, end) = splice_range(bytes.len(), offset, cut)?;
                let bytes = [&bytes[..start], paste, &bytes[end..]].concat();
                Ok(Self::String { bytes, is_bin: *is_bin })
            }
            (Action::Splice { .. }, _) => Err(self.is_no("a string")),
            (Action::Set(_) | Action::Insert(_) | Action::Delete(_), _) => {
                unreachable!("these do not ask what was there")
            }
        }
    }

    fn is_no(&self, expected: &str) -> Fault {
        let found = match self {
            Self::Number(_) => "a number",
            Self::String { .. } => "a string or binary data",
            Self::Other(name) => name,
        };
        Fault::new(26, expected, found)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, place: Option<TypeNode<'_>>) {
        match self {
            Self::Number(number) => arith::write(out, *number, place),
            Self::String { bytes, is_bin: false } => write::str(out, bytes),
            Self::String { bytes, is_bin: true } => write::bin(out, bytes),
            Self::Other(_) => unreachable!("no operation makes one"),
        }
    }
}

/// From where to where a string of `length` bytes is cut out.
fn splice_range(length: usize, offset: i64, cut: i64) -> Result<(usize, usize), Fault> {
    let length = length as i64;
    let start = if offset < 0 { length + 1 + offset } else { offset.min(length) };
    if start < 0 {
        return Err(Fault::new(25, format!("an offset inside {length} bytes"), offset));
    }
    let rest = length - start;
    let cut = if cut < 0 { (rest + cut).max(0) } else { cut.min(rest) };
    Ok((start as usize, (start + cut) as usize))
}
