//! MsgPack by hand: as little as the tests need, checked, and without the library's tables.

/// The offset after the value at `at`; `None` where it is not whole or no MsgPack.
pub fn skip(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut owed = 1u64;
    while owed > 0 {
        owed -= 1;
        let first = *bytes.get(at)?;
        let number = |size: usize| -> Option<u64> {
            let digits = bytes.get(at + 1..at + 1 + size)?;
            Some(digits.iter().fold(0, |number, &digit| number << 8 | u64::from(digit)))
        };
        let (size, values) = match first {
            0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (1, 0),
            0x80..=0x8f => (1, 2 * u64::from(first & 15)),
            0x90..=0x9f => (1, u64::from(first & 15)),
            0xa0..=0xbf => (1 + u64::from(first & 31), 0),
            0xc1 => return None,
            0xc4 | 0xd9 => (2 + number(1)?, 0),
            0xc5 | 0xda => (3 + number(2)?, 0),
            0xc6 | 0xdb => (5 + number(4)?, 0),
            0xc7 => (3 + number(1)?, 0),
            0xc8 => (4 + number(2)?, 0),
            0xc9 => (6 + number(4)?, 0),
            0xcc | 0xd0 => (2, 0),
            0xcd | 0xd1 => (3, 0),
            0xca | 0xce | 0xd2 => (5, 0),
            0xcb | 0xcf | 0xd3 => (9, 0),
            0xd4 => (3, 0),
            0xd5 => (4, 0),
            0xd6 => (6, 0),
            0xd7 => (10, 0),
            0xd8 => (18, 0),
            0xdc => (3, number(2)?),
            0xdd => (5, number(4)?),
            0xde => (3, 2 * number(2)?),
            0xdf => (5, 2 * number(4)?),
        };
        let end = at as u64 + size;
        if end > bytes.len() as u64 {
            return None;
        }
        at = end as usize;
        owed += values;
    }
    Some(at)
}

/// The value at `at` alone.
pub fn value(bytes: &[u8], at: usize) -> Option<&[u8]> {
    Some(&bytes[at..skip(bytes, at)?])
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &digit| number << 8 | u64::from(digit))
}

/// An integer in any encoding, and the offset after it.
pub fn int(bytes: &[u8], at: usize) -> Option<(i128, usize)> {
    let value = value(bytes, at)?;
    let digits = &value[1..];
    let number = match value[0] {
        byte @ 0x00..=0x7f => i128::from(byte),
        byte @ 0xe0..=0xff => i128::from(byte as i8),
        0xcc..=0xcf => i128::from(big_endian(digits)),
        0xd0 => i128::from(digits[0] as i8),
        0xd1 => i128::from(big_endian(digits) as i16),
        0xd2 => i128::from(big_endian(digits) as i32),
        0xd3 => i128::from(big_endian(digits) as i64),
        _ => return None,
    };
    Some((number, at + value.len()))
}

/// Elements of an array or pairs of a map, and the offset of the first.
fn container(bytes: &[u8], at: usize, fix: u8, short: u8, long: u8) -> Option<(u32, usize)> {
    let first = *bytes.get(at)?;
    if first & 0xf0 == fix {
        Some((u32::from(first & 15), at + 1))
    } else if first == short {
        Some((big_endian(bytes.get(at + 1..at + 3)?) as u32, at + 3))
    } else if first == long {
        Some((big_endian(bytes.get(at + 1..at + 5)?) as u32, at + 5))
    } else {
        None
    }
}

pub fn array(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    container(bytes, at, 0x90, 0xdc, 0xdd)
}

pub fn map(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    container(bytes, at, 0x80, 0xde, 0xdf)
}

/// The content of a string.
pub fn str(value: &[u8]) -> Option<&[u8]> {
    match value[0] {
        0xa0..=0xbf => Some(&value[1..]),
        0xd9 => Some(&value[2..]),
        0xda => Some(&value[3..]),
        0xdb => Some(&value[5..]),
        _ => None,
    }
}

/// The content of a binary value.
pub fn bin(value: &[u8]) -> Option<&[u8]> {
    match value[0] {
        0xc4 => Some(&value[2..]),
        0xc5 => Some(&value[3..]),
        0xc6 => Some(&value[5..]),
        _ => None,
    }
}

/// Type and payload of an extension.
pub fn ext(value: &[u8]) -> Option<(i8, &[u8])> {
    let head = match value[0] {
        0xd4..=0xd8 => 1,
        0xc7 => 2,
        0xc8 => 3,
        0xc9 => 5,
        _ => return None,
    };
    Some((value[head] as i8, &value[head + 1..]))
}

/// The elements of an array.
pub fn elements(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, mut at) = array(bytes, 0)?;
    let mut elements = Vec::new();
    for _ in 0..count {
        let element = value(bytes, at)?;
        at += element.len();
        elements.push(element);
    }
    Some(elements)
}

/// Keys and values of a map.
pub fn pairs(bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let (count, mut at) = map(bytes, 0)?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let key = value(bytes, at)?;
        at += key.len();
        let value = value(bytes, at)?;
        at += value.len();
        pairs.push((key, value));
    }
    Some(pairs)
}

/// An array of values that are MsgPack already.
pub fn array_of<'a>(values: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let count = values.len();
    let mut bytes = match count {
        0..=15 => vec![0x90 | count as u8],
        _ => vec![0xdc, (count >> 8) as u8, count as u8],
    };
    values.for_each(|value| bytes.extend_from_slice(value));
    bytes
}

/// An unsigned number in its shortest form.
pub fn uint(bytes: &mut Vec<u8>, number: u64) {
    match number {
        0..=0x7f => bytes.push(number as u8),
        0x80..=0xff => bytes.extend([0xcc, number as u8]),
        0x100..=0xffff => {
            bytes.push(0xcd);
            bytes.extend((number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            bytes.push(0xce);
            bytes.extend((number as u32).to_be_bytes());
        }
        _ => {
            bytes.push(0xcf);
            bytes.extend(number.to_be_bytes());
        }
    }
}
