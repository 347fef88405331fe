//! Skipping a value and validating it, in one pass and without recursion.
//!
//! A counter of the values still owed replaces the stack: a container adds what it announces. Each step eats at least
//! one byte, so a header that promises four billion elements costs no more than the bytes that are there, and no
//! depth of nesting costs anything. Values that nobody asked for are checked in their shape alone: extensions keep
//! their payload whatever it is.

use super::{Fault, FaultKind, HEADS};

/// The offset after the value at `at`.
#[inline]
pub(crate) fn skip(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    skip_many(bytes, at, 1)
}

/// The offset after the `owed` values that begin at `at`.
#[inline]
pub(crate) fn skip_many(bytes: &[u8], mut at: usize, mut owed: u64) -> Result<usize, Fault> {
    while owed != 0 {
        let Some(&first) = bytes.get(at) else { return Err(Fault::new(at, FaultKind::Cut)) };
        let head = HEADS[first as usize];
        if head.bytes != 0 {
            let end = at + head.bytes as usize;
            if end > bytes.len() {
                return Err(Fault::new(at, FaultKind::Cut));
            }
            at = end;
            owed = owed - 1 + u64::from(head.children);
        } else {
            let (end, children) = variable(bytes, at)?;
            at = end;
            owed = owed - 1 + children;
        }
    }
    Ok(at)
}

/// The end of a value (of a container: of its head) whose length or count follows its first byte, and how many values
/// it announces.
pub(crate) fn variable(bytes: &[u8], at: usize) -> Result<(usize, u64), Fault> {
    let cut = || Fault::new(at, FaultKind::Cut);
    let number = |size: usize| -> Result<u64, Fault> {
        let digits = bytes.get(at + 1..at + 1 + size).ok_or_else(cut)?;
        Ok(digits.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    };
    let body = |size: usize, extra: u64| -> Result<(usize, u64), Fault> {
        let end = (at + 1 + size) as u64 + extra + number(size)?;
        if end > bytes.len() as u64 { Err(cut()) } else { Ok((end as usize, 0)) }
    };
    match bytes[at] {
        0xc4 | 0xd9 => body(1, 0),
        0xc5 | 0xda => body(2, 0),
        0xc6 | 0xdb => body(4, 0),
        0xc7 => body(1, 1),
        0xc8 => body(2, 1),
        0xc9 => body(4, 1),
        0xdc => Ok((at + 3, number(2)?)),
        0xdd => Ok((at + 5, number(4)?)),
        0xde => Ok((at + 3, 2 * number(2)?)),
        0xdf => Ok((at + 5, 2 * number(4)?)),
        _ => Err(Fault::new(at, FaultKind::Reserved)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_of_a_value_is_noticed() {
        let values: &[&[u8]] = &[
            &[0x93, 1, 0xcd, 1, 2, 0xa2, b'a', b'b'],
            &[0xdc, 0, 2, 0xc0, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x81, 0xd9, 1, b'a', 0xc7, 2, 1, 0, 0x0c],
            &[0xdf, 0, 0, 0, 1, 1, 0xc6, 0, 0, 0, 1, 9],
            &[0xc9, 0, 0, 0, 1, 5, 9],
        ];
        for value in values {
            assert_eq!(skip(value, 0), Ok(value.len()));
            for end in 0..value.len() {
                assert!(skip(&value[..end], 0).is_err(), "{value:x?} cut at {end}");
            }
        }
    }

    #[test]
    fn a_promise_of_four_billion_elements_costs_nothing() {
        let bytes = [0xdf, 0xff, 0xff, 0xff, 0xff, 0xdd, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(skip(&bytes, 0), Err(Fault::new(10, FaultKind::Cut)));
    }

    #[test]
    fn a_million_levels_of_nesting_are_skipped() {
        let mut bytes = vec![0x91; 1_000_000];
        bytes.push(0xc0);
        assert_eq!(skip(&bytes, 0), Ok(bytes.len()));
        bytes.pop();
        assert_eq!(skip(&bytes, 0).unwrap_err().kind, FaultKind::Cut);
    }

    #[test]
    fn the_unused_byte_is_a_fault() {
        assert_eq!(skip(&[0x92, 1, 0xc1], 0), Err(Fault::new(2, FaultKind::Reserved)));
    }
}
