//! The reference data of `tarantool/generate.lua`, made in the process: the same shapes and ranges, not the same numbers.
//!
//! ```text
//! tuple      [id, a, b, c, d, s, small]    id from 1, a to d unsigned, s a string, small = id % 7
//! index pk   unique, on id                 index sk   not unique, on a, b, c, d, s
//!
//!        a          b, c, d                  s                         what it is about
//! wide   0..999999  0..999999                20 random letters         the first key part decides
//! tens   0..9       0..9                     20 random letters         no hint of one part decides
//! mixed  0..99      1e4, 1e6, 1e9 wide       16 hexadecimal digits     the usual
//! same   7          7                        60 equal, 12 random       a long common prefix: the last part decides
//! ```

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use lycosa::FieldType;
use lycosa::bench::Key;
use rmp::encode;

/// The space, as `generate.lua` numbers it.
const SPACE_ID: u32 = 512;

/// Rows that a block gathers before it is closed, as Tarantool does.
pub const BLOCK_BYTES: usize = 128 << 10;

/// Blocks that a file has at least, if it is small: in one of fewer, recovery learns nothing from a sample.
const BLOCKS_MIN: usize = 120;

/// Key of the primary index.
pub const PRIMARY: Key<'static> = &[(0, FieldType::Unsigned)];

/// Key of the secondary index.
pub const SECONDARY: Key<'static> = &[
    (1, FieldType::Unsigned),
    (2, FieldType::Unsigned),
    (3, FieldType::Unsigned),
    (4, FieldType::Unsigned),
    (5, FieldType::String),
];

/// Which values the fields have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    Wide,
    Tens,
    Mixed,
    Same,
}

impl Distribution {
    pub const ALL: [Self; 4] = [Self::Wide, Self::Tens, Self::Mixed, Self::Same];

    pub fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Tens => "tens",
            Self::Mixed => "mixed",
            Self::Same => "same",
        }
    }
}

/// Tuples one after the other.
pub struct Data {
    pub bytes: Vec<u8>,
    pub rows: u64,
    /// Offset of each tuple, and of the end.
    starts: Vec<usize>,
}

impl Data {
    pub fn generate(distribution: Distribution, rows: u64, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let letters =
            |random: &mut Rng, count| -> String { (0..count).map(|_| random.char('a'..='z')).collect() };
        let same = letters(&mut random, 60);
        let mut data = Self { bytes: Vec::new(), rows, starts: Vec::with_capacity(rows as usize + 1) };
        for id in 1..=rows {
            let random = &mut random;
            let (numbers, text) = match distribution {
                Distribution::Wide => ([(); 4].map(|()| random.u64(..=999_999)), letters(random, 20)),
                Distribution::Tens => ([(); 4].map(|()| random.u64(..=9)), letters(random, 20)),
                Distribution::Mixed => {
                    let numbers = [99, 9_999, 999_999, 1_000_000_000].map(|max| random.u64(..=max));
                    let mut half = || random.u32(..=1 << 31);
                    (numbers, format!("{:08x}{:08x}", half(), half()))
                }
                Distribution::Same => ([7; 4], format!("{same}{}", letters(random, 12))),
            };
            data.starts.push(data.bytes.len());
            let out = &mut data.bytes;
            array(out, 7);
            uint(out, id);
            numbers.into_iter().for_each(|number| uint(out, number));
            str(out, &text);
            uint(out, id % 7);
        }
        data.starts.push(data.bytes.len());
        data
    }

    pub fn tuple(&self, number: usize) -> &[u8] {
        &self.bytes[self.starts[number]..self.starts[number + 1]]
    }

    pub fn tuples(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.windows(2).map(|ends| &self.bytes[ends[0]..ends[1]])
    }

    /// CRC-32 over all tuples: what a store must say of the space.
    pub fn fingerprint(&self) -> u32 {
        crc32fast::hash(&self.bytes)
    }

    /// The numbers of the tuples in the order of the secondary key, by means that share nothing with the library.
    pub fn in_secondary_order(&self) -> Vec<u32> {
        type Tuple<'a> = (u64, u64, u64, u64, u64, &'a str, u64);
        let keys: Vec<_> = self
            .tuples()
            .map(|tuple| {
                let (id, a, b, c, d, s, _): Tuple<'_> =
                    rmp_serde::from_slice(tuple).expect("a tuple that was made above");
                (a, b, c, d, s, id)
            })
            .collect();
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|&number| keys[number as usize]);
        order
    }

    /// All rows of the space as a snapshot has them, and where each begins. `usual`: as Tarantool writes them;
    /// otherwise with the tuple before the space's id, which is as legal.
    pub fn snapshot_rows(&self, usual: bool) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut starts) = (Vec::with_capacity(self.bytes.len() * 3 / 2), Vec::new());
        for (number, tuple) in (1..).zip(self.tuples()) {
            starts.push(bytes.len());
            row(&mut bytes, SPACE_ID, number, tuple, usual);
        }
        (bytes, starts)
    }

    /// Writes a snapshot of a space with this data and two indexes; gives its path.
    pub fn write_snapshot(&self, folder: &Path, compressed: bool) -> io::Result<PathBuf> {
        let path = folder.join("00000000000000000000.snap");
        let mut file = io::BufWriter::new(std::fs::File::create(&path)?);
        file.write_all(b"SNAP\n0.13\nVersion: 2.6.0-0-g47aa4e01e\n")?;
        file.write_all(b"Instance: 6c3b7d9c-2f1e-4b7a-9d52-0d4c9a1e8f30\nVClock: {}\n\n")?;
        let block_bytes = (self.bytes.len() / BLOCKS_MIN).clamp(1, BLOCK_BYTES);
        let (mut block, mut number) = (Vec::new(), 0);
        let defined = definitions();
        let definitions = defined.iter().map(|(space_id, tuple)| (*space_id, tuple.as_slice()));
        for (space_id, tuple) in definitions.chain(self.tuples().map(|tuple| (SPACE_ID, tuple))) {
            row(&mut block, space_id, number, tuple, true);
            number += 1;
            if block.len() >= block_bytes {
                write_block(&mut file, &block, compressed)?;
                block.clear();
            }
        }
        if !block.is_empty() {
            write_block(&mut file, &block, compressed)?;
        }
        file.write_all(&[0xd5, 0x10, 0xad, 0xed])?;
        file.flush()?;
        Ok(path)
    }
}

/// The rows of system spaces, with the spaces' ids: `_schema`, `_space`, `_index`.
fn definitions() -> Vec<(u32, Vec<u8>)> {
    let part = |&(field, field_type): &(u32, FieldType)| serde_json::json!([field, field_type.to_string()]);
    let parts = |key: Key<'_>| -> Vec<_> { key.iter().map(part).collect() };
    let rows = [
        (272, serde_json::json!(["version", 2, 6, 0])),
        (280, serde_json::json!([SPACE_ID, 1, "bench", "memtx", 0, {}, []])),
        (288, serde_json::json!([SPACE_ID, 0, "pk", "tree", {"unique": true}, parts(PRIMARY)])),
        (288, serde_json::json!([SPACE_ID, 1, "sk", "tree", {"unique": false}, parts(SECONDARY)])),
    ];
    rows.map(|(id, row)| (id, rmp_serde::to_vec(&row).expect("JSON is MsgPack"))).into()
}

/// A row of a snapshot: `83 00 02 03 number 04 cb time`, `82 10 ce space 21 tuple`; the first one has no number.
fn row(out: &mut Vec<u8>, space_id: u32, number: u64, tuple: &[u8], usual: bool) {
    if number == 0 {
        out.extend([0x82, 0x00, 0x02]);
    } else {
        out.extend([0x83, 0x00, 0x02, 0x03]);
        uint(out, number);
    }
    out.extend([0x04, 0xcb]);
    out.extend(1_606_000_000.25_f64.to_be_bytes());
    let space = |out: &mut Vec<u8>| {
        out.extend([0x10, 0xce]);
        out.extend(space_id.to_be_bytes());
    };
    out.push(0x82);
    if usual {
        space(out);
    }
    out.push(0x21);
    out.extend_from_slice(tuple);
    if !usual {
        space(out);
    }
}

/// A block: 19 bytes of magic, length, an unused number, CRC-32C and padding, then the rows.
fn write_block(file: &mut impl io::Write, rows: &[u8], compressed: bool) -> io::Result<()> {
    /// Tarantool's own level.
    const ZSTD_LEVEL: i32 = 3;
    /// Shorter blocks Tarantool leaves as they are.
    const COMPRESSED_BYTES_MIN: usize = 2 << 10;
    let mut frame = Vec::new();
    let compressed = compressed && rows.len() >= COMPRESSED_BYTES_MIN;
    if compressed {
        frame.reserve(zstd_safe::compress_bound(rows.len()));
        zstd_safe::compress(&mut frame, rows, ZSTD_LEVEL)
            .map_err(|code| io::Error::other(zstd_safe::get_error_name(code)))?;
    }
    let payload = if compressed { &frame } else { rows };
    let mut head = vec![0xd5, 0xba, 0x0b, if compressed { 0xba } else { 0xab }];
    uint(&mut head, payload.len() as u64);
    uint(&mut head, 0);
    // From 0 and without the final inversion of the usual CRC-32C.
    uint(&mut head, u64::from(!crc32c::crc32c_append(!0, payload)));
    if let Some(padding) = 18_usize.checked_sub(head.len()) {
        head.push(0xa0 + padding as u8);
        head.resize(19, 0);
    }
    file.write_all(&head)?;
    file.write_all(payload)
}

fn array(out: &mut Vec<u8>, count: u32) {
    encode::write_array_len(out, count).expect("a Vec takes all bytes");
}

fn uint(out: &mut Vec<u8>, number: u64) {
    encode::write_uint(out, number).expect("a Vec takes all bytes");
}

fn str(out: &mut Vec<u8>, text: &str) {
    encode::write_str(out, text).expect("a Vec takes all bytes");
}
