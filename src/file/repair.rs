//! What a checksum tells of a block that does not fit it.
//!
//! CRC-32C says more than that something is wrong. It is linear: the sum of what was written and that of what is read
//! differ by the sum of the damage alone, and damage of one byte has a sum that no other byte's has at these lengths. So
//! where one byte was changed (a bit that flipped in memory or on the disk, as most do), the two sums tell which byte it
//! was and what it was before:
//!
//! ```text
//! difference of the sums, taken back byte by byte from the end of the payload until one byte alone is left of it:
//! that byte is the damage, and how often it was taken back is where it is
//! ```
//!
//! Other damage looks like that of one byte by chance: once in 2^32 / (255 * length). What is proposed here has to make
//! sense as rows as well before anybody believes it.

use super::block::{self, BlockHead, MAGIC_PLAIN, MAGIC_ZSTD};
use crate::limits::{BLOCK_HEAD_BYTES, BLOCK_STORED_BYTES_MAX};
use crate::msgpack::write;

/// The polynomial of CRC-32C, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Payloads up to this length are taken to have one wrong byte; longer ones, where chance is more likely, one wrong bit.
const BYTE_DAMAGE_MAX: usize = 64 << 10;

/// Proposals for one payload: more, and none of them means anything.
const PROPOSALS_MAX: usize = 4;

/// The sum of each byte.
const TABLE: [u32; 256] = {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u32, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// The byte whose sum has this first byte; sums differ in it.
const BACK: [u8; 256] = {
    let (mut back, mut byte) = ([0; 256], 0);
    while byte < 256 {
        back[(TABLE[byte] >> 24) as usize] = byte as u8;
        byte += 1;
    }
    back
};

/// A byte of a block that may have been another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongByte {
    /// Its offset in the payload; `None`: it is in the checksum, and the payload is whole.
    pub(crate) at: Option<usize>,
    /// The bits that are wrong.
    pub(crate) bits: u8,
}

/// Single bytes that, if they were wrong, would explain that the payload has another sum than its head says.
pub(crate) fn wrong_bytes(payload: &[u8], crc: u32) -> Vec<WrongByte> {
    let difference = block::checksum(payload) ^ crc;
    let mut found = Vec::new();
    if difference == 0 {
        return found;
    }
    let in_sum: Vec<u8> = difference.to_be_bytes().into_iter().filter(|&byte| byte != 0).collect();
    if let [bits] = in_sum[..] {
        found.push(WrongByte { at: None, bits });
    }
    let takes_bytes = payload.len() <= BYTE_DAMAGE_MAX;
    let mut sum = difference;
    for at in (0..payload.len()).rev() {
        let byte = BACK[(sum >> 24) as usize];
        sum = ((sum ^ TABLE[usize::from(byte)]) << 8) | u32::from(byte);
        if sum < 256 && (takes_bytes || sum.is_power_of_two()) {
            found.push(WrongByte { at: Some(at), bits: sum as u8 });
            if found.len() > PROPOSALS_MAX {
                return Vec::new();
            }
        }
    }
    found
}

/// The head of a block whose bytes are these, up to where the next one begins, if its checksum is there and right: then
/// only what stands beside it is damaged.
pub(crate) fn head_of(bytes: &[u8], byte: u64, index: u64) -> Option<BlockHead> {
    let (head, payload) = bytes.split_first_chunk::<BLOCK_HEAD_BYTES>()?;
    let stored_bytes = u32::try_from(payload.len()).ok()?;
    if payload.is_empty() || u64::from(stored_bytes) > BLOCK_STORED_BYTES_MAX {
        return None;
    }
    let crc = block::checksum(payload);
    let mut written = Vec::new();
    write::uint(&mut written, crc.into());
    // A short number could be there by chance.
    let is_there = written.len() == 5 && head.windows(written.len()).any(|part| part == written);
    let compressed = payload.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    is_there.then_some(BlockHead { byte, index, stored_bytes, crc, compressed })
}

/// The bytes of a head that says what this one is.
pub(crate) fn head_bytes(head: &BlockHead) -> [u8; BLOCK_HEAD_BYTES] {
    block::head(if head.compressed { MAGIC_ZSTD } else { MAGIC_PLAIN }, head.stored_bytes, head.crc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::twin_tests::rounds::for_each_round;

    #[test]
    fn any_single_wrong_byte_is_found_and_told() {
        for_each_round(300, |random| {
            let length = random.usize(1..3000);
            let payload: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let crc = block::checksum(&payload);
            assert_eq!(wrong_bytes(&payload, crc), []);
            let (at, bits) = (random.usize(..length), random.u8(1..));
            let mut damaged = payload.clone();
            damaged[at] ^= bits;
            let found = wrong_bytes(&damaged, crc);
            assert!(found.contains(&WrongByte { at: Some(at), bits }), "{at} {bits}: {found:?}");
            assert!(found.len() <= 2, "{found:?}");
            let shift = 8 * random.u32(0..4);
            let found = wrong_bytes(&payload, crc ^ u32::from(bits) << shift);
            assert!(found.contains(&WrongByte { at: None, bits }), "{found:?}");
        });
    }

    #[test]
    fn other_damage_is_seldom_taken_for_that_of_one_byte() {
        let mut proposals = 0;
        for_each_round(300, |random| {
            let payload: Vec<u8> = (0..4000).map(|_| random.u8(..)).collect();
            proposals += wrong_bytes(&payload, random.u32(..)).len();
        });
        assert!(proposals <= 3, "{proposals}: about 0.07 were to be expected");
    }

    #[test]
    fn a_head_is_made_again_from_its_checksum_alone() {
        let whole = block::build::plain(b"rows and more rows");
        let head = head_of(&whole, 7, 3).unwrap();
        assert_eq!((head.byte, head.index, head.stored_bytes, head.compressed), (7, 3, 18, false));
        assert_eq!(head_bytes(&head)[..], whole[..BLOCK_HEAD_BYTES]);
        for at in 0..9 {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            // Magic, length and the unused number; the checksum stands behind them.
            assert_eq!(head_of(&damaged, 7, 3).is_some(), at < 6, "byte {at}");
        }
        assert_eq!(head_of(&whole[..whole.len() - 1], 7, 3), None);
        assert!(head_of(&block::build::zstd(b"rows"), 0, 0).unwrap().compressed);
    }
}
