//! The usual operations in one pass: setting fields and adding integers to fields, by number, each field once.
//!
//! ```text
//! places of the operations, by field             at most 8
//! the tuple:  head | field 0 | field 1 | ...     copied up to the next field that changes; that one is written anew
//! ```
//!
//! Anything else is left to the general way, before anything is written: another operation, a field that is not there or
//! comes twice, a number that is no integer, a sum that overflows.

use crate::msgpack::{class, read, skip, write};

/// Operations that are taken at once.
const AT_ONCE: usize = 8;

#[derive(Clone, Copy, Default)]
struct Change {
    field: u32,
    operator: u8,
    argument_at: usize,
    argument_end: usize,
}

/// Applies the operations; `None`: they are not all usual ones, and `target` means nothing.
#[inline]
pub(super) fn update(target: &mut Vec<u8>, tuple: &[u8], ops: &[u8], base: u32) -> Option<()> {
    let (fields, first_at) = read::array(tuple, 0).ok()?;
    let mut room = [Change::default(); AT_ONCE];
    let changes = read_changes(&mut room, ops, base, fields)?;
    target.clear();
    write::array(target, fields);
    // What has been copied reaches to `from`; field `field` begins at `at`.
    let (mut from, mut at, mut field) = (first_at, first_at, 0);
    for change in changes {
        at = skip::skip_many(tuple, at, u64::from(change.field - field)).ok()?;
        let end = skip::skip(tuple, at).ok()?;
        let argument = &ops[change.argument_at..change.argument_end];
        target.extend_from_slice(&tuple[from..at]);
        if change.operator == b'=' {
            target.extend_from_slice(argument);
        } else {
            let old = integer(tuple, at)?;
            let by = integer(argument, 0)?;
            let sum = if change.operator == b'+' { old + by } else { old - by };
            if sum < i128::from(i64::MIN) || sum > i128::from(u64::MAX) {
                return None;
            }
            write::int(target, sum);
        }
        (from, at, field) = (end, end, change.field + 1);
    }
    target.extend_from_slice(&tuple[from..]);
    Some(())
}

#[inline]
fn integer(bytes: &[u8], at: usize) -> Option<i128> {
    read::is(bytes, at, class::INTEGERS).then(|| read::int(bytes, at).ok().map(|(value, _)| value))?
}

/// The operations by field.
fn read_changes<'a>(
    room: &'a mut [Change; AT_ONCE],
    ops: &[u8],
    base: u32,
    fields: u32,
) -> Option<&'a [Change]> {
    let (count, mut at) = read::array(ops, 0).ok()?;
    let changes = room.get_mut(..count as usize)?;
    for change in &mut *changes {
        let &[0x93, 0xa1, operator @ (b'=' | b'+' | b'-'), ..] = ops.get(at..)? else { return None };
        let (number, argument_at) = read::uint(ops, at + 3).ok()?;
        let field = u32::try_from(number).ok()?.checked_sub(base).filter(|&field| field < fields)?;
        let argument_end = skip::skip(ops, argument_at).ok()?;
        *change = Change { field, operator, argument_at, argument_end };
        at = argument_end;
    }
    changes.sort_unstable_by_key(|change| change.field);
    changes.windows(2).all(|pair| pair[0].field != pair[1].field).then_some(changes)
}
