//! A plain reader and writer of snapshots, by the format's description alone: text header, blocks, rows.

use super::mp;

pub const MAGIC_PLAIN: [u8; 4] = *b"\xd5\xba\x0b\xab";
pub const MAGIC_ZSTD: [u8; 4] = *b"\xd5\xba\x0b\xba";
pub const MAGIC_END: [u8; 4] = *b"\xd5\x10\xad\xed";

/// Tarantool's CRC-32C: from 0, without inversion at the ends.
pub fn crc(bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!0, bytes)
}

/// A snapshot taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// With the empty line.
    pub text: Vec<u8>,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub packed: bool,
    /// As it is in the file: of a packed block the zstd frame.
    pub stored: Vec<u8>,
}

impl Block {
    /// A block of these rows.
    pub fn new(rows: &[u8], packed: bool) -> Self {
        let stored = if packed { pack(rows) } else { rows.to_vec() };
        Self { packed, stored }
    }

    /// The rows' bytes; `None` if zstd refuses.
    pub fn rows(&self) -> Option<Vec<u8>> {
        if self.packed { unpack(&self.stored) } else { Some(self.stored.clone()) }
    }
}

pub fn pack(rows: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(zstd_safe::compress_bound(rows.len()));
    zstd_safe::compress(&mut packed, rows, 3).expect("zstd packs everything");
    packed
}

/// Unpacks one frame or several, to at most 64 MiB.
pub fn unpack(stored: &[u8]) -> Option<Vec<u8>> {
    [1 << 20, 64 << 20].into_iter().find_map(|most| {
        let mut rows = Vec::with_capacity(most);
        zstd_safe::decompress(&mut rows, stored).ok()?;
        Some(rows)
    })
}

impl Parts {
    /// Takes a snapshot apart; `None` where it is not as the format says.
    pub fn of(file: &[u8]) -> Option<Self> {
        let text = file.windows(2).position(|two| two == b"\n\n")? + 2;
        let (mut at, mut blocks) = (text, Vec::new());
        loop {
            let magic: [u8; 4] = file.get(at..at + 4)?.try_into().ok()?;
            if magic == MAGIC_END {
                return (at + 4 == file.len()).then(|| Self { text: file[..text].to_vec(), blocks });
            }
            if magic != MAGIC_PLAIN && magic != MAGIC_ZSTD {
                return None;
            }
            let head = file.get(at..at + 19)?;
            let (length, next) = mp::int(head, 4)?;
            let (_, next) = mp::int(head, next)?;
            let (sum, _) = mp::int(head, next)?;
            let stored = file.get(at + 19..(at as i128 + 19 + length).try_into().ok()?)?.to_vec();
            if i128::from(crc(&stored)) != sum {
                return None;
            }
            at += 19 + stored.len();
            blocks.push(Block { packed: magic == MAGIC_ZSTD, stored });
        }
    }

    /// Puts a snapshot together, with right lengths and checksums.
    pub fn file(&self) -> Vec<u8> {
        let mut file = self.text.clone();
        for block in &self.blocks {
            let mut head = if block.packed { MAGIC_ZSTD } else { MAGIC_PLAIN }.to_vec();
            mp::uint(&mut head, block.stored.len() as u64);
            head.push(0);
            mp::uint(&mut head, u64::from(crc(&block.stored)));
            let padding = 19 - head.len();
            head.push(0xa0 | (padding - 1) as u8);
            head.resize(19, 0);
            file.extend(head);
            file.extend(&block.stored);
        }
        file.extend(MAGIC_END);
        file
    }

    /// The INSERT rows: space and tuple. `None` where something is not as the format says.
    pub fn inserts(&self) -> Option<Vec<(u32, Vec<u8>)>> {
        let mut rows = Vec::new();
        for block in &self.blocks {
            let bytes = block.rows()?;
            let mut at = 0;
            while at < bytes.len() {
                let header = mp::pairs(mp::value(&bytes, at)?)?;
                at = mp::skip(&bytes, at)?;
                let kind =
                    header.iter().rev().find(|(key, _)| mp::int(key, 0).map(|key| key.0) == Some(0))?.1;
                const NOP: i128 = 12;
                let kind = mp::int(kind, 0)?.0;
                if kind == NOP {
                    continue;
                }
                let body = mp::pairs(mp::value(&bytes, at)?)?;
                at = mp::skip(&bytes, at)?;
                const INSERT: i128 = 2;
                if kind == INSERT {
                    let find = |wanted: i128| {
                        body.iter().rev().find(|(key, _)| mp::int(key, 0).map(|key| key.0) == Some(wanted))
                    };
                    let space = mp::int(find(0x10)?.1, 0)?.0.try_into().ok()?;
                    rows.push((space, find(0x21)?.1.to_vec()));
                }
            }
        }
        Some(rows)
    }
}

/// Rows as a snapshot holds them, numbered from `first`.
pub fn rows(rows: &[(u32, Vec<u8>)], first: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, (space, tuple)) in (first..).zip(rows) {
        bytes.extend([if number == 0 { 0x82 } else { 0x83 }, 0, 2]);
        if number != 0 {
            bytes.push(3);
            mp::uint(&mut bytes, number);
        }
        bytes.extend([4, 0xcb, 0x41, 0xda, 0xc3, 0x78, 0x5c, 0x15, 0xf6, 0x26]);
        bytes.extend([0x82, 0x10, 0xce]);
        bytes.extend(space.to_be_bytes());
        bytes.push(0x21);
        bytes.extend(tuple);
    }
    bytes
}

/// The UUID of the instance that "wrote" the snapshots made here.
pub const INSTANCE: &str = "78e0015e-511c-44a5-88b2-181e67295f91";

pub fn text() -> Vec<u8> {
    format!("SNAP\n0.13\nVersion: 2.6.0-0-g47aa4e01e\nInstance: {INSTANCE}\nVClock: {{}}\n\n").into_bytes()
}

/// The name that belongs to an empty vclock.
pub const NAME: &str = "00000000000000000000.snap";

/// The smallest snapshot that Tarantool itself boots from: one space, one index, one tuple.
pub fn minimal() -> Vec<u8> {
    let mut payload = Vec::new();
    let mut row = |space: u16, tuple: &[u8]| {
        payload.extend([0x81, 0, 2, 0x82, 0x10, 0xcd]);
        payload.extend(space.to_be_bytes());
        payload.push(0x21);
        payload.extend(tuple);
    };
    row(272, b"\x94\xa7version\x02\x03\x01");
    row(280, b"\x97\xcd\x02\x00\x01\xa1t\xa5memtx\x00\x80\x90");
    row(288, b"\x96\xcd\x02\x00\x00\xa2pk\xa4tree\x81\xa6unique\xc3\x91\x92\x00\xa8unsigned");
    row(320, &[b"\x92\x01\xda\x00\x24", INSTANCE.as_bytes()].concat());
    row(512, b"\x92\x01\xa3one");
    let block = Block { packed: false, stored: payload };
    Parts { text: text(), blocks: vec![block] }.file()
}
