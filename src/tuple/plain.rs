//! The plain walk: tuples of spaces whose indexes have no JSON paths.
//!
//! ```text
//! count = the array's head; is it the number that the space demands, are the required fields inside?
//! for each field that is both there and known:
//!     step = STEPS[first byte]                     class and size at once
//!     slots[rule.slot] = offset                    fields without a slot share a spare cell
//!     the class is accepted outright? next field   what has no fixed size has no class here
//!     a string with one byte of length? next field
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
use crate::msgpack::{HEADS, class, read, skip};

/// What the first byte of a value tells, as far as it settles the field.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The class, if the value has a fixed size and nothing inside; no class otherwise, so that one test asks for all.
    pub(super) class: u16,
    /// Bytes of the value.
    pub(super) bytes: u16,
}

pub(super) static STEPS: [Step; 256] = {
    let mut steps = [Step { class: 0, bytes: 0 }; 256];
    let mut byte = 0;
    while byte < 256 {
        let head = HEADS[byte];
        if head.bytes != 0 && head.children == 0 {
            steps[byte] = Step { class: head.class, bytes: head.bytes as u16 };
        }
        byte += 1;
    }
    steps
};

/// The first byte of a string of 32 to 255 bytes, as a rule.
pub(super) const STR_8: u8 = 0xd9;

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
    // From here on places are offsets from the tuple's first byte: what the slots hold.
    let tuple = &bytes[at..];
    let mut here = first - at;
    for rule in present {
        let Some(&byte) = tuple.get(here) else { return Err(format.bad_msgpack(bytes, at)) };
        slots[usize::from(rule.slot)] = here as u32;
        let step = STEPS[usize::from(byte)];
        here = if step.class & rule.outright != 0 {
            here + usize::from(step.bytes)
        } else if byte == STR_8 && rule.outright & class::STR != 0 {
            let Some(&length) = tuple.get(here + 1) else { return Err(format.bad_msgpack(bytes, at)) };
            here + 2 + usize::from(length)
        } else {
            longer(format, rule, bytes, at + here)? - at
        };
    }
    for rule in absent {
        slots[usize::from(rule.slot)] = 0;
    }
    let mut unknown = count as usize - known;
    while unknown != 0 {
        let Some(&byte) = tuple.get(here) else { return Err(format.bad_msgpack(bytes, at)) };
        let step = STEPS[usize::from(byte)];
        if step.class == 0 {
            here = skip::skip_many(tuple, here, unknown as u64).map_err(|_| format.bad_msgpack(bytes, at))?;
            break;
        }
        here += usize::from(step.bytes);
        unknown -= 1;
    }
    if here > tuple.len() {
        return Err(format.bad_msgpack(bytes, at));
    }
    Ok(at + here)
}

/// The end of a value that is longer than its first byte tells, or not accepted outright.
#[inline(never)]
fn longer(format: &Format, rule: &Rule, bytes: &[u8], at: usize) -> Result<usize, TupleFault> {
    let head = HEADS[usize::from(bytes[at])];
    if head.class & rule.outright == 0 {
        return format.look(rule.node, bytes, at);
    }
    skip::skip(bytes, at).map_err(|fault| TupleFault::msgpack(fault, bytes))
}

#[cfg(test)]
mod tests {
    use super::super::fault::TupleFaultKind;
    use super::super::field_type::FieldType::{self, *};
    use super::super::part::{FieldDef, PartDef};
    use super::*;
    use crate::error::ErrorKind;

    fn format(defined: &[FieldDef], exact: u32, keys: &[&[PartDef]]) -> Format {
        Format::new(defined, exact, keys, false).unwrap()
    }

    fn walked(format: &Format, tuple: &[u8]) -> Result<Vec<u32>, std::string::String> {
        let mut map = FieldMapBuf::new();
        let end = format.walk(tuple, 0, &mut map).map_err(|fault| fault.into_error().to_string())?;
        assert_eq!(end, tuple.len());
        Ok(map.slots().to_vec())
    }

    fn part(field: u32, field_type: FieldType) -> PartDef {
        PartDef::new(field, field_type)
    }

    #[test]
    fn offsets_of_the_fields_are_noted_and_absent_ones_are_zero() {
        let pk = [part(0, Unsigned)];
        let sk = [part(3, Unsigned).nullable(), part(1, String)];
        let format = format(&[], 0, &[&pk, &sk]);
        assert_eq!(walked(&format, &[0x94, 1, 0xa1, b'x', 0xc0, 7]), Ok(vec![5, 2]));
        assert_eq!(walked(&format, &[0x92, 0xcd, 0, 1, 0xa1, b'x']), Ok(vec![0, 4]));
        // The third field is any, beyond the fourth nobody looks; strings and containers may be long.
        let mut long = vec![0xdc, 0, 6, 1, 0xd9, 40];
        long.extend([b'x'; 40]);
        long.extend([0x92, 1, 0x91, 2, 9, 0x81, 1, 0xc4, 1, 0, 0xd4, 0xff, 0]);
        assert_eq!(walked(&format, &long), Ok(vec![50, 4]));
    }

    #[test]
    fn a_reused_map_keeps_nothing_of_the_tuple_before() {
        let format = format(&[], 0, &[&[part(0, Unsigned)], &[part(1, Unsigned).nullable()]]);
        let mut map = FieldMapBuf::new();
        format.walk(&[0x92, 1, 2], 0, &mut map).unwrap();
        assert_eq!(map.slots(), [2]);
        format.walk(&[0xff, 0x91, 1], 1, &mut map).unwrap();
        assert_eq!(map.slots(), [0]);
    }

    #[test]
    fn what_the_format_forbids_is_named_with_its_field() {
        let defined = [
            FieldDef::new("id", Unsigned),
            FieldDef::new("name", String),
            FieldDef::new("age", Int8).nullable(),
            FieldDef::new("tag", Scalar).nullable(),
        ];
        let format_4 = format(&defined, 0, &[&[part(0, Unsigned)]]);
        let cases: [(&[u8], &str); 9] = [
            (&[0x90], "field 1 (id): required field: expected unsigned, found nothing"),
            (&[0x91, 1], "field 2 (name): required field: expected string, found nothing"),
            (&[0x92, 1, 2], "field 2 (name): type of the field: expected string, found unsigned (byte 0x02)"),
            (&[0x92, 1, 0xc0], "field 2 (name): type of the field: expected string, found nil (byte 0xc0)"),
            (
                &[0x92, 0xff, 0xc0],
                "field 1 (id): type of the field: expected unsigned, found integer (byte 0xff)",
            ),
            (
                &[0x93, 1, 0xa0, 0xcc, 200],
                "field 3 (age): value of the field: expected int8: -128 to 127, found 200",
            ),
            (
                &[0x94, 1, 0xa0, 0xc0, 0xd4, 9, 0],
                "field 4 (tag): type of the field: expected scalar, found extension 9",
            ),
            (
                &[0x94, 1, 0xa0, 0xc0, 0xd4, 2, 0],
                "field 4 (tag): content of the field: expected a uuid of 16 bytes, found the bytes d40200",
            ),
            (&[0x81, 1, 2], "tuple: expected array, found map (byte 0x81)"),
        ];
        for (tuple, message) in cases {
            assert_eq!(walked(&format_4, tuple), Err(message.into()), "{tuple:x?}");
        }
        assert_eq!(walked(&format_4, &[0x92, 1, 0xa0]), Ok(vec![]));
        assert_eq!(walked(&format_4, &[0x95, 1, 0xa0, 0xc0, 0xc0, 0xd4, 0, 0]), Ok(vec![]));

        let exact = format(&[], 2, &[]);
        assert_eq!(walked(&exact, &[0x92, 1, 2]), Ok(vec![]));
        assert_eq!(walked(&exact, &[0x91, 1]), Err("number of fields: expected exactly 2, found 1".into()));
        assert_eq!(
            walked(&exact, &[0x93, 1, 2, 3]),
            Err("number of fields: expected exactly 2, found 3".into())
        );
    }

    #[test]
    fn every_cut_and_every_reserved_byte_is_noticed() {
        let keys: [&[PartDef]; 2] = [&[part(0, Unsigned)], &[part(2, Any), part(4, Any)]];
        let format = format(&[], 0, &keys);
        let tuple =
            [0x97, 1, 0xa2, b'a', b'b', 0x92, 1, 0xcd, 1, 2, 0xc0, 0xd9, 1, b'x', 0x81, 1, 2, 0xcc, 9];
        let mut map = FieldMapBuf::new();
        assert_eq!(format.walk(&tuple, 0, &mut map), Ok(tuple.len()));
        for end in 0..tuple.len() {
            let fault = format.walk(&tuple[..end], 0, &mut map).unwrap_err();
            let expected = skip::skip(&tuple[..end], 0).unwrap_err();
            assert_eq!(fault.kind(), TupleFaultKind::MsgPack(expected), "cut at {end}");
            assert_eq!(fault.into_error().kind(), ErrorKind::MsgPack);
        }
        for at in [1, 2, 5, 6, 10, 11, 14, 15, 17] {
            let mut bad = tuple;
            bad[at] = 0xc1;
            assert!(format.walk(&bad, 0, &mut map).is_err(), "reserved at {at}");
        }
        let promise = [0xdd, 0xff, 0xff, 0xff, 0xff, 1];
        assert!(format.walk(&promise, 0, &mut map).is_err());
    }
}
