//! The plain walk: tuples of spaces whose indexes have no JSON paths.
//!
//! ```text
//! count = the array's head; is it the number that the space demands, are the required fields inside?
//! for each field that is both there and known:
//!     head = HEADS[first byte]                     class and size at once
//!     slots[rule.slot] = offset                    fields without a slot share a spare cell
//!     the class is accepted outright, the size fixed? next field
//!     else: read a length, look into the value, skip what a container holds, or refuse
//! fields that are known, but not there: their slots become 0
//! fields that are there, but not known: skipped
//! ```
//!
//! The time is that of a bare skip: what bounds both is the way from a value's first byte through the table to the
//! next one's, and the tests and the store stand beside that way, not in it. No tree, no set of required fields, no
//! question about paths. Bounds are checked once a value, where the next one is read; what runs past the end is found
//! there, or at the last.

use super::fault::TupleFault;
use super::field_map::FieldMapBuf;
use super::format::{Format, Rule};
use crate::msgpack::{HEADS, read, skip};

/// See [`Format::walk`].
#[inline]
pub(super) fn walk(
    format: &Format,
    bytes: &[u8],
    at: usize,
    map: &mut FieldMapBuf,
) -> Result<usize, TupleFault> {
    let (count, first) = read::array(bytes, at).map_err(|fault| format.no_array(fault, bytes))?;
    if count < format.min_field_count || format.exact_field_count != 0 && count != format.exact_field_count {
        return Err(format.wrong_count(count));
    }
    let slots = map.prepare(format.slots);
    let known = (count as usize).min(format.rules.len());
    let (present, absent) = format.rules.split_at(known);
    let mut here = first;
    for (field, rule) in present.iter().enumerate() {
        let Some(&byte) = bytes.get(here) else { return Err(format.bad_msgpack(bytes, at)) };
        slots[usize::from(rule.slot)] = (here - at) as u32;
        let head = HEADS[usize::from(byte)];
        if head.class & rule.outright != 0 && head.bytes != 0 && head.children == 0 {
            here += usize::from(head.bytes);
        } else {
            here = longer(format, field as u32, rule, bytes, here)?;
        }
    }
    for rule in absent {
        slots[usize::from(rule.slot)] = 0;
    }
    if count as usize != known {
        here = skip::skip_many(bytes, here, u64::from(count) - known as u64)
            .map_err(|_| format.bad_msgpack(bytes, at))?;
    }
    if here > bytes.len() {
        return Err(format.bad_msgpack(bytes, at));
    }
    Ok(here)
}

/// The end of a value that is longer than its first byte tells, or not accepted outright.
#[inline(never)]
fn longer(format: &Format, field: u32, rule: &Rule, bytes: &[u8], at: usize) -> Result<usize, TupleFault> {
    let head = HEADS[usize::from(bytes[at])];
    if head.class & rule.outright == 0 {
        return format.look(field, bytes, at);
    }
    skip::skip(bytes, at).map_err(|fault| TupleFault::msgpack(fault, bytes))
}
