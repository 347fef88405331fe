//! Blocks: what stands between the text header and the end of a file.
//!
//! ```text
//! 0        4          4+a          4+a+b      4+a+b+c          19              19+length
//! +--------+----------+------------+----------+----------------+---------------+
//! | magic  | length   | unused     | crc-32c  | padding        | payload       |   any number of these
//! | 4 raw  | mp uint  | mp uint    | mp uint  | one mp value   | length bytes  |
//! +--------+----------+------------+----------+----------------+---------------+
//! | d5 10 ad ed: the end; nothing follows |
//! +----------------------------------------+
//!
//! magic    d5 ba 0b ab: the payload is rows; d5 ba 0b ba: it is zstd frames of rows
//! length   of the payload as stored, 1 to 2 GiB
//! crc-32c  over the payload as stored
//! padding  a string that fills the 19 bytes, or nothing; its content means nothing
//! ```

use crate::error::{Error, ErrorKind};
use crate::limits::{BLOCK_HEAD_BYTES, BLOCK_STORED_BYTES_MAX};
use crate::msgpack::{read, skip, write};

pub(crate) const MAGIC_PLAIN: [u8; 4] = [0xd5, 0xba, 0x0b, 0xab];
pub(crate) const MAGIC_ZSTD: [u8; 4] = [0xd5, 0xba, 0x0b, 0xba];
pub(crate) const MAGIC_END: [u8; 4] = [0xd5, 0x10, 0xad, 0xed];

/// A block's head, checked: its payload lies inside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHead {
    /// Where the head begins in the file.
    pub(crate) byte: u64,
    /// Number of the block in the file, from 0.
    pub(crate) index: u64,
    /// Bytes of the payload as stored.
    pub(crate) stored_bytes: u32,
    /// The checksum that the payload should have.
    pub(crate) crc: u32,
    /// Whether the payload is compressed.
    pub(crate) compressed: bool,
}

impl BlockHead {
    /// Where the payload begins in the file.
    #[inline]
    pub(crate) fn payload_at(&self) -> u64 {
        self.byte + BLOCK_HEAD_BYTES as u64
    }

    /// Where the next head begins in the file.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.payload_at() + u64::from(self.stored_bytes)
    }
}

/// What begins where a block should.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Block(BlockHead),
    /// The end marker, with nothing behind it.
    End,
}

/// The block head or end marker at `byte` of a file of `file_bytes`. `bytes` begins there and holds the
/// head's 19 bytes, or what is left of the file.
pub(crate) fn mark(bytes: &[u8], byte: u64, index: u64, file_bytes: u64) -> Result<Mark, Error> {
    let left = file_bytes.saturating_sub(byte);
    let fault = |kind, what: &str| Error::new(kind, what).block(index, byte);
    let Some(&magic) = bytes.first_chunk::<4>() else {
        let cut = [MAGIC_PLAIN, MAGIC_ZSTD, MAGIC_END].iter().any(|magic| magic.starts_with(bytes));
        let kind = if cut { ErrorKind::Truncated } else { ErrorKind::Container };
        let found =
            if left == 0 { "the end of the file".into() } else { format!("{left} bytes: {}", hex(bytes)) };
        return Err(fault(kind, "end marker").expected(hex(&MAGIC_END)).found(found));
    };
    let compressed = match magic {
        MAGIC_PLAIN => false,
        MAGIC_ZSTD => true,
        MAGIC_END if left == 4 => return Ok(Mark::End),
        MAGIC_END => {
            return Err(fault(ErrorKind::Container, "end marker")
                .expected("nothing behind it")
                .found(format_args!("{} bytes", left - 4)));
        }
        _ => {
            return Err(fault(ErrorKind::Container, "magic")
                .expected(format_args!("{}, {} or {}", hex(&MAGIC_PLAIN), hex(&MAGIC_ZSTD), hex(&MAGIC_END)))
                .found(hex(&magic)));
        }
    };
    let Some(head) = bytes.first_chunk::<BLOCK_HEAD_BYTES>() else {
        return Err(fault(ErrorKind::Truncated, "block head")
            .expected(format_args!("{BLOCK_HEAD_BYTES} bytes"))
            .found(format_args!("{left}, then the end of the file")));
    };
    let (length, crc) = numbers(head).ok_or_else(|| {
        fault(ErrorKind::Container, "block head")
            .expected("length, unused number, checksum and padding that end with the head's 19 bytes")
            .found(hex(&head[4..]))
    })?;
    if length == 0 {
        return Err(fault(ErrorKind::Container, "payload length").expected("at least 1 byte").found("0"));
    }
    if length > BLOCK_STORED_BYTES_MAX {
        return Err(fault(ErrorKind::Limit, "payload length")
            .expected(format_args!("at most {BLOCK_STORED_BYTES_MAX} bytes"))
            .found(length));
    }
    let left = left - BLOCK_HEAD_BYTES as u64;
    if length > left {
        return Err(fault(ErrorKind::Truncated, "payload")
            .expected(format_args!("{length} bytes"))
            .found(format_args!("{left}, then the end of the file")));
    }
    let stored_bytes = u32::try_from(length).expect("the limit fits in 32 bits");
    Ok(Mark::Block(BlockHead { byte, index, stored_bytes, crc, compressed }))
}

/// The head at `byte` as if its payload went to the end of a file of `file_bytes`, whatever its length says.
pub(crate) fn reaching(
    head: &[u8; BLOCK_HEAD_BYTES],
    byte: u64,
    index: u64,
    file_bytes: u64,
) -> Option<BlockHead> {
    let compressed = head.starts_with(&MAGIC_ZSTD);
    let (_, crc) = numbers(head).filter(|_| compressed || head.starts_with(&MAGIC_PLAIN))?;
    let stored_bytes = file_bytes.checked_sub(byte + BLOCK_HEAD_BYTES as u64)?;
    let stored_bytes = u32::try_from(stored_bytes).ok().filter(|&bytes| bytes > 0)?;
    Some(BlockHead { byte, index, stored_bytes, crc, compressed })
}

/// Length and checksum of a head whose parts are what they should be.
fn numbers(head: &[u8; BLOCK_HEAD_BYTES]) -> Option<(u64, u32)> {
    let (length, at) = read::uint(head, 4).ok()?;
    let (_unused, at) = read::uint(head, at).ok()?;
    let (crc, at) = read::uint(head, at).ok()?;
    let end = if at == head.len() { at } else { skip::skip(head, at).ok()? };
    if end != head.len() {
        return None;
    }
    Some((length, u32::try_from(crc).ok()?))
}

/// The head of a block, as Tarantool writes it: numbers in their shortest form, zeros for padding.
pub(crate) fn head(magic: [u8; 4], stored_bytes: u32, crc: u32) -> [u8; BLOCK_HEAD_BYTES] {
    let mut numbers = Vec::with_capacity(BLOCK_HEAD_BYTES);
    write::uint(&mut numbers, stored_bytes.into());
    write::uint(&mut numbers, 0);
    write::uint(&mut numbers, crc.into());
    let mut head = [0; BLOCK_HEAD_BYTES];
    let (start, end) = (magic.len(), magic.len() + numbers.len());
    head[..start].copy_from_slice(&magic);
    head[start..end].copy_from_slice(&numbers);
    // The longest numbers leave four bytes.
    head[end] = 0xa0 + (BLOCK_HEAD_BYTES - end - 1) as u8;
    head
}

/// CRC-32C as Tarantool computes it: from 0 and without the final inversion of the usual one. Leading zero
/// bytes leave it as it is.
#[inline]
pub(crate) fn checksum(payload: &[u8]) -> u32 {
    !crc32c::crc32c_append(!0, payload)
}

/// [`checksum`] of a payload that comes in parts.
pub(crate) struct Checksum(u32);

impl Checksum {
    pub(crate) fn new() -> Self {
        Self(!0)
    }

    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, part);
    }

    fn value(&self) -> u32 {
        !self.0
    }

    /// Compares the sum with that of a block's head.
    pub(crate) fn check(&self, head: &BlockHead) -> Result<(), Error> {
        compare(head, self.value())
    }
}

/// Compares a payload with its head.
#[inline]
pub(crate) fn check(head: &BlockHead, payload: &[u8]) -> Result<(), Error> {
    compare(head, checksum(payload))
}

#[inline]
fn compare(head: &BlockHead, computed: u32) -> Result<(), Error> {
    if computed == head.crc {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Checksum, "checksum")
        .expected(format_args!("{:#010x}", head.crc))
        .found(format_args!("{computed:#010x}"))
        .block(head.index, head.byte))
}

/// Bytes as they stand in messages.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().enumerate().fold(String::new(), |mut text, (place, byte)| {
        let separator = if place == 0 { "" } else { " " };
        let _ = write!(text, "{separator}{byte:02x}");
        text
    })
}

/// What tests build files from.
#[cfg(test)]
pub(crate) mod build {
    use super::*;

    /// A head whose length need not be true.
    pub(crate) fn head(magic: [u8; 4], length: u64, crc: u32) -> Vec<u8> {
        super::head(magic, u32::try_from(length).unwrap(), crc).to_vec()
    }

    /// A whole block around a payload as stored.
    pub(crate) fn block(magic: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let head = head(magic, payload.len() as u64, checksum(payload));
        [&head, payload].concat()
    }

    pub(crate) fn plain(rows: &[u8]) -> Vec<u8> {
        block(MAGIC_PLAIN, rows)
    }

    pub(crate) fn zstd(rows: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(rows.len()));
        zstd_safe::compress(&mut frame, rows, 3).unwrap();
        block(MAGIC_ZSTD, &frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::unhex as bytes;

    #[test]
    fn the_checksum_is_that_of_tarantool() {
        let row = bytes("8400020201030404cb41dac3785c15f6268210cd0200219201a26131");
        assert_eq!(checksum(b""), 0);
        assert_eq!(checksum(&[0; 77]), 0);
        assert_eq!(checksum(b"a"), 0x93ad_1061);
        assert_eq!(checksum(b"123456789"), 0x58e3_fa20);
        assert_eq!(checksum(&[0xff; 32]), 0xe839_9de9);
        assert_eq!(checksum(&row), 0x0f9f_d9cc);
        let mut parts = Checksum::new();
        row.chunks(5).for_each(|part| parts.add(part));
        assert_eq!(parts.value(), 0x0f9f_d9cc);
    }

    #[test]
    fn a_real_block_walks_along_the_drawing() {
        let file = bytes(
            "d5ba0bab 1c 00 ce0f9fd9cc a700000000000000
             8400020201030404cb41dac3785c15f6268210cd0200219201a26131",
        );
        let at = [0, 4, 5, 6, 11, 19, 47];
        assert_eq!(file[at[0]..at[1]], MAGIC_PLAIN);
        assert_eq!(read::uint(&file, at[1]), Ok((0x1c, at[2])));
        assert_eq!(read::uint(&file, at[2]), Ok((0, at[3])));
        assert_eq!(read::uint(&file, at[3]), Ok((0x0f9f_d9cc, at[4])));
        assert_eq!(read::str(&file, at[4]), Ok((&[0; 7][..], at[5])));
        assert_eq!(at[5] + 0x1c, at[6]);
        let head = BlockHead { byte: 0, index: 3, stored_bytes: 0x1c, crc: 0x0f9f_d9cc, compressed: false };
        assert_eq!(mark(&file, 0, 3, 47).unwrap(), Mark::Block(head));
        assert_eq!((head.payload_at(), head.end()), (19, 47));
        check(&head, &file[19..]).unwrap();
        assert_eq!(check(&head, &file[20..]).unwrap_err().kind(), ErrorKind::Checksum);
        assert_eq!(build::plain(&file[19..]), file);
    }

    #[test]
    fn every_width_of_the_numbers_and_any_content_of_the_padding_is_read() {
        let heads = [
            "d5ba0bba 1c 00 ce0f9fd9cc a7ffffffffffffff",
            "d5ba0bba cd001c cc00 ce0f9fd9cc a400000000",
            "d5ba0bba cf000000000000001c 00 ce0f9fd9cc",
            "d5ba0bba 1c cf0000000000000000 03 93c0c0c0",
        ];
        for text in heads {
            let head = bytes(text);
            assert_eq!(head.len(), 19);
            let Ok(Mark::Block(head)) = mark(&head, 100, 0, 147) else { panic!("{text}") };
            assert!(head.compressed);
            assert_eq!(head.stored_bytes, 0x1c);
        }
    }

    #[test]
    fn a_wrong_mark_is_refused_for_its_own_reason() {
        let cases = [
            ("", 0, ErrorKind::Truncated),
            ("d510", 2, ErrorKind::Truncated),
            ("d5ba0b", 3, ErrorKind::Truncated),
            ("d511", 2, ErrorKind::Container),
            ("00000000", 4, ErrorKind::Container),
            ("d510aded", 5, ErrorKind::Container),
            ("d5ba0bab 1c 00", 6, ErrorKind::Truncated),
            ("d5ba0bab 1c 00 ce0f9fd9cc a700000000000000", 46, ErrorKind::Truncated),
            ("d5ba0bab 00 00 ce0f9fd9cc a700000000000000", 47, ErrorKind::Container),
            ("d5ba0bab 1c 00 ce0f9fd9cc a600000000000000", 47, ErrorKind::Container),
            ("d5ba0bab 1c 00 ce0f9fd9cc a800000000000000", 47, ErrorKind::Container),
            ("d5ba0bab 1c 00 ce0f9fd9cc c100000000000000", 47, ErrorKind::Container),
            ("d5ba0bab 1c 00 cb0f9fd9cc a700000000000000", 47, ErrorKind::Container),
            ("d5ba0bab 1c 00 cf0f9fd9cc0f9fd9cc a3000000", 47, ErrorKind::Container),
            ("d5ba0bab ce80000001 00 ce0f9fd9cc a3000000", 47, ErrorKind::Limit),
            ("d5ba0bab cfffffffffffffffff 00 01 a3000000", 47, ErrorKind::Limit),
            ("d5ba0bab ce80000000 00 ce0f9fd9cc a3000000", 47, ErrorKind::Truncated),
        ];
        for (text, left, kind) in cases {
            let error = mark(&bytes(text), 1000, 7, 1000 + left).unwrap_err();
            assert_eq!(error.kind(), kind, "{text}: {error}");
            assert!(error.to_string().starts_with("block 7 at byte 1000: "), "{error}");
        }
        assert_eq!(mark(&MAGIC_END, 1000, 7, 1004).unwrap(), Mark::End);
    }
}
