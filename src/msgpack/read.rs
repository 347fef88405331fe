//! Typed reads of one value at an offset. Each gives the value and the offset after it, or a fault that names what
//! was expected. Every encoding is legal input: `cf 00 … 01` is the number 1.

use super::{Fault, FaultKind, HEADS};

pub(crate) type Read<T> = Result<(T, usize), Fault>;

#[inline]
fn cut(at: usize) -> Fault {
    Fault::new(at, FaultKind::Cut)
}

#[inline]
fn first(bytes: &[u8], at: usize) -> Result<u8, Fault> {
    bytes.get(at).copied().ok_or_else(|| cut(at))
}

#[inline]
fn fixed<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Fault> {
    match bytes.get(at + 1..at + 1 + N) {
        Some(slice) => Ok(slice.try_into().expect("the slice has N bytes")),
        None => Err(cut(at)),
    }
}

/// An unsigned integer, in any encoding without a sign.
#[inline]
pub(crate) fn uint(bytes: &[u8], at: usize) -> Read<u64> {
    Ok(match first(bytes, at)? {
        byte @ 0..=0x7f => (u64::from(byte), at + 1),
        0xcc => (u64::from(fixed::<1>(bytes, at)?[0]), at + 2),
        0xcd => (u64::from(u16::from_be_bytes(fixed(bytes, at)?)), at + 3),
        0xce => (u64::from(u32::from_be_bytes(fixed(bytes, at)?)), at + 5),
        0xcf => (u64::from_be_bytes(fixed(bytes, at)?), at + 9),
        _ => return Err(Fault::new(at, FaultKind::Class("unsigned"))),
    })
}

/// How far the 8 bytes that hold an unsigned integer at their top are to be shifted down; 64 for other values.
static UINT_SHIFTS: [u8; 256] = {
    let mut shifts = [64; 256];
    let mut byte = 0;
    while byte <= 0x7f {
        shifts[byte] = 56;
        byte += 1;
    }
    (shifts[0xcc], shifts[0xcd], shifts[0xce], shifts[0xcf]) = (56, 48, 32, 0);
    shifts
};

/// The number that [`uint`] gives, if there is one: without a branch on its width, for where widths change from row to
/// row. Near the end of the bytes it is `uint` itself.
#[inline]
pub(crate) fn uint_or_none(bytes: &[u8], at: usize) -> Option<u64> {
    let Some(&[first, number @ ..]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<9>) else {
        return uint(bytes, at).ok().map(|(number, _)| number);
    };
    let shift = UINT_SHIFTS[usize::from(first)];
    let number = if first < 0x80 { u64::from(first) << 56 } else { u64::from_be_bytes(number) };
    (shift < 64).then(|| number >> shift)
}

/// An integer in any encoding; between -2^63 and 2^64 - 1.
#[inline]
pub(crate) fn int(bytes: &[u8], at: usize) -> Read<i128> {
    Ok(match first(bytes, at)? {
        byte @ 0xe0..=0xff => (i128::from(byte as i8), at + 1),
        0xd0 => (i128::from(fixed::<1>(bytes, at)?[0] as i8), at + 2),
        0xd1 => (i128::from(i16::from_be_bytes(fixed(bytes, at)?)), at + 3),
        0xd2 => (i128::from(i32::from_be_bytes(fixed(bytes, at)?)), at + 5),
        0xd3 => (i128::from(i64::from_be_bytes(fixed(bytes, at)?)), at + 9),
        _ => {
            let (value, end) = uint(bytes, at).map_err(|fault| match fault.kind {
                FaultKind::Class(_) => Fault::new(at, FaultKind::Class("integer")),
                _ => fault,
            })?;
            (i128::from(value), end)
        }
    })
}

/// A float of either width, widened to a double.
#[inline]
pub(crate) fn float(bytes: &[u8], at: usize) -> Read<f64> {
    Ok(match first(bytes, at)? {
        0xca => (f64::from(f32::from_be_bytes(fixed(bytes, at)?)), at + 5),
        0xcb => (f64::from_be_bytes(fixed(bytes, at)?), at + 9),
        _ => return Err(Fault::new(at, FaultKind::Class("double"))),
    })
}

#[inline]
pub(crate) fn boolean(bytes: &[u8], at: usize) -> Read<bool> {
    match first(bytes, at)? {
        byte @ 0xc2..=0xc3 => Ok((byte == 0xc3, at + 1)),
        _ => Err(Fault::new(at, FaultKind::Class("boolean"))),
    }
}

/// Whether the value at `at` is nil.
#[inline]
pub(crate) fn is_nil(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&0xc0)
}

#[inline]
fn body(bytes: &[u8], at: usize, head: usize, length: usize) -> Read<&[u8]> {
    let start = at + head;
    match bytes.get(start..start + length) {
        Some(body) => Ok((body, start + length)),
        None => Err(cut(at)),
    }
}

/// The bytes of a string; they need not be UTF-8.
#[inline]
pub(crate) fn str(bytes: &[u8], at: usize) -> Read<&[u8]> {
    match first(bytes, at)? {
        byte @ 0xa0..=0xbf => body(bytes, at, 1, usize::from(byte & 0x1f)),
        0xd9 => body(bytes, at, 2, usize::from(fixed::<1>(bytes, at)?[0])),
        0xda => body(bytes, at, 3, usize::from(u16::from_be_bytes(fixed(bytes, at)?))),
        0xdb => body(bytes, at, 5, u32::from_be_bytes(fixed(bytes, at)?) as usize),
        _ => Err(Fault::new(at, FaultKind::Class("string"))),
    }
}

/// The bytes of a binary value.
#[inline]
pub(crate) fn bin(bytes: &[u8], at: usize) -> Read<&[u8]> {
    match first(bytes, at)? {
        0xc4 => body(bytes, at, 2, usize::from(fixed::<1>(bytes, at)?[0])),
        0xc5 => body(bytes, at, 3, usize::from(u16::from_be_bytes(fixed(bytes, at)?))),
        0xc6 => body(bytes, at, 5, u32::from_be_bytes(fixed(bytes, at)?) as usize),
        _ => Err(Fault::new(at, FaultKind::Class("varbinary"))),
    }
}

/// Type and payload of an extension, in any of its eight encodings.
#[inline]
pub(crate) fn ext(bytes: &[u8], at: usize) -> Read<(i8, &[u8])> {
    let (head, length) = match first(bytes, at)? {
        byte @ 0xd4..=0xd8 => (1, 1usize << (byte - 0xd4)),
        0xc7 => (2, usize::from(fixed::<1>(bytes, at)?[0])),
        0xc8 => (3, usize::from(u16::from_be_bytes(fixed(bytes, at)?))),
        0xc9 => (5, u32::from_be_bytes(fixed(bytes, at)?) as usize),
        _ => return Err(Fault::new(at, FaultKind::Class("extension"))),
    };
    let (body, end) = body(bytes, at, head, 1 + length)?;
    Ok(((body[0] as i8, &body[1..]), end))
}

/// Elements that an array's head announces; the offset is that of the first one.
#[inline]
pub(crate) fn array(bytes: &[u8], at: usize) -> Read<u32> {
    Ok(match first(bytes, at)? {
        byte @ 0x90..=0x9f => (u32::from(byte & 0x0f), at + 1),
        0xdc => (u32::from(u16::from_be_bytes(fixed(bytes, at)?)), at + 3),
        0xdd => (u32::from_be_bytes(fixed(bytes, at)?), at + 5),
        _ => return Err(Fault::new(at, FaultKind::Class("array"))),
    })
}

/// Pairs that a map's head announces; the offset is that of the first key.
#[inline]
pub(crate) fn map(bytes: &[u8], at: usize) -> Read<u32> {
    Ok(match first(bytes, at)? {
        byte @ 0x80..=0x8f => (u32::from(byte & 0x0f), at + 1),
        0xde => (u32::from(u16::from_be_bytes(fixed(bytes, at)?)), at + 3),
        0xdf => (u32::from_be_bytes(fixed(bytes, at)?), at + 5),
        _ => return Err(Fault::new(at, FaultKind::Class("map"))),
    })
}

/// The class bit of the value at `at`; 0 at the end of the bytes.
#[inline]
pub(crate) fn class_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at).map_or(0, |&byte| HEADS[byte as usize].class)
}

/// Whether the value at `at` is of one of the classes in `mask`.
#[inline]
pub(crate) fn is(bytes: &[u8], at: usize, mask: u16) -> bool {
    class_at(bytes, at) & mask != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_of_a_number_is_read() {
        let one: &[&[u8]] = &[
            &[1],
            &[0xcc, 1],
            &[0xcd, 0, 1],
            &[0xce, 0, 0, 0, 1],
            &[0xcf, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0xd0, 1],
        ];
        for bytes in one {
            assert_eq!(int(bytes, 0), Ok((1, bytes.len())));
        }
        assert_eq!(int(&[0xff], 0), Ok((-1, 1)));
        assert_eq!(int(&[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], 0), Ok((i128::from(i64::MIN), 9)));
        assert_eq!(uint(&[0xd0, 5], 0), Err(Fault::new(0, FaultKind::Class("unsigned"))));
        assert_eq!(float(&[0xca, 0x3f, 0xc0, 0, 0], 0), Ok((1.5, 5)));
    }

    #[test]
    fn an_unsigned_number_without_branches_is_the_same() {
        let mut random = fastrand::Rng::with_seed(1);
        for first in 0..=255 {
            for rest in 0..12 {
                let mut bytes: Vec<u8> = vec![0xc0, first];
                bytes.extend((0..rest).map(|_| random.u8(..)));
                for at in 0..bytes.len() + 1 {
                    assert_eq!(uint_or_none(&bytes, at), uint(&bytes, at).ok().map(|(number, _)| number));
                }
            }
        }
    }

    #[test]
    fn every_encoding_of_an_extension_is_read() {
        assert_eq!(ext(&[0xd4, 1, 9], 0), Ok(((1, &[9][..]), 3)));
        assert_eq!(ext(&[0xc7, 0, 5], 0), Ok(((5, &[][..]), 3)));
        assert_eq!(ext(&[0xc8, 0, 1, 0xff, 7], 0), Ok(((-1, &[7][..]), 5)));
        assert_eq!(ext(&[0xc9, 0xff, 0xff, 0xff, 0xff, 1], 0), Err(Fault::new(0, FaultKind::Cut)));
    }
}
