//! What is in a file, without knowing what it means: for a snapshot, a log or any other file of the
//! container.
//!
//! Every block is read, checked and unpacked, every row decoded; a file that passes is whole as a container.
//! Types and keys that are not known are counted, not refused.

use super::disk::{Disk, RealDisk};
use super::header::{FileType, TextHeader};
use super::heads::{End, scan_heads};
use super::pipeline::for_each_block_in_order;
use super::row::{self, Row, Rows, UnknownPair};
use super::source::ContainerFile;
use crate::error::Error;
use crate::msgpack::print;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What one file holds: header, blocks, rows by type and by space.
///
/// ```no_run
/// let info = lycosa::FileInfo::read("00000000000000001004.snap")?;
/// println!("{} rows in {} blocks", info.rows, info.blocks());
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FileInfo {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// Its text header.
    pub header: TextHeader,
    /// Blocks stored as they are.
    pub plain_blocks: u64,
    /// Blocks stored compressed.
    pub compressed_blocks: u64,
    /// Bytes of all payloads as stored.
    pub stored_bytes: u64,
    /// Bytes of all payloads once unpacked: the rows.
    pub row_bytes: u64,
    /// Rows in all.
    pub rows: u64,
    /// Rows by request type, in the order of the types' numbers.
    pub kinds: Vec<KindInfo>,
    /// Rows that name a space, by the space's id.
    pub spaces: Vec<SpaceInfo>,
    /// The least log sequence number of a row; in a snapshot it is the row's number.
    pub lsn_least: Option<u64>,
    /// The greatest log sequence number of a row.
    pub lsn_greatest: Option<u64>,
    /// The least time of a row, in seconds since 1970.
    pub time_least: Option<f64>,
    /// The greatest time of a row, in seconds since 1970.
    pub time_greatest: Option<f64>,
    /// Keys in row headers and bodies that are not known.
    pub unknown_keys: Vec<UnknownKeyInfo>,
    /// How the file ends.
    pub end: EndInfo,
}

/// Rows of one request type.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindInfo {
    /// The type's number.
    pub kind: u64,
    /// Tarantool's name of the type, if it is known.
    pub name: Option<&'static str>,
    /// Rows of this type.
    pub rows: u64,
    /// Their bytes, headers and all.
    pub bytes: u64,
}

/// Rows of one space.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceInfo {
    /// The space's id.
    pub space_id: u32,
    /// Rows that name it.
    pub rows: u64,
    /// Their bytes, headers and all.
    pub bytes: u64,
}

/// A key that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKeyInfo {
    /// `header`, or `body of` and the request type.
    pub part: String,
    /// The key's MsgPack in hexadecimal digits; its first 32 bytes, then "...", where it is longer.
    pub key: String,
    /// Rows that have it.
    pub rows: u64,
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndInfo {
    /// With its end marker.
    Marker,
    /// Without one, as a log that is in use, or whose writer was killed.
    Open {
        /// Where the last whole block ends.
        byte: u64,
        /// Bytes of a block cut short that follow there.
        torn_bytes: u64,
    },
}

impl FileInfo {
    /// Reads a file of any type of the container: `.snap`, `.xlog`, `.vylog`, `.run`, `.index`.
    ///
    /// # Errors
    /// Whatever makes the file less than whole: it cannot be read, it is not such a file, a block or row is
    /// damaged, the end marker is missing where the type demands one.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::read_on(&RealDisk, path.as_ref(), threads)
    }

    pub(crate) fn read_on(disk: &dyn Disk, path: &Path, threads: usize) -> Result<Self, Error> {
        let file = ContainerFile::open(disk, path)?;
        let index = scan_heads(&file, |_| {})?;
        let mut tally = Tally::default();
        for_each_block_in_order(
            &file,
            &index.heads,
            threads,
            usize::MAX,
            |_, payload| Tally::of(payload, file.header.filetype),
            |_, block| {
                tally.add(block);
                Ok(())
            },
        )?;
        let compressed_blocks = index.heads.iter().filter(|head| head.compressed).count() as u64;
        let kinds = tally.kinds.into_iter();
        let spaces = tally.spaces.into_iter();
        let unknown_keys = tally.unknown_keys.into_iter();
        Ok(Self {
            path: path.to_path_buf(),
            bytes: file.bytes(),
            header: file.header,
            plain_blocks: index.heads.len() as u64 - compressed_blocks,
            compressed_blocks,
            stored_bytes: index.stored_bytes,
            row_bytes: tally.bytes,
            rows: tally.rows,
            kinds: kinds
                .map(|(kind, count)| KindInfo {
                    kind,
                    name: row::kind::name(kind),
                    rows: count.rows,
                    bytes: count.bytes,
                })
                .collect(),
            spaces: spaces
                .map(|(space_id, count)| SpaceInfo { space_id, rows: count.rows, bytes: count.bytes })
                .collect(),
            lsn_least: tally.lsn.least,
            lsn_greatest: tally.lsn.greatest,
            time_least: tally.time.least,
            time_greatest: tally.time.greatest,
            unknown_keys: unknown_keys
                .map(|((part, key), rows)| UnknownKeyInfo { part, key, rows })
                .collect(),
            end: match index.end {
                End::Marker => EndInfo::Marker,
                End::Open { byte, torn_bytes } => EndInfo::Open { byte, torn_bytes },
            },
        })
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.plain_blocks + self.compressed_blocks
    }
}

/// The most unknown keys that are told apart; a hostile row could have millions.
const UNKNOWN_KEYS_MAX: usize = 1000;

/// What has been counted. Types and spaces need no bound: there are no more of them than rows, which are longer than
/// what is kept of them.
#[derive(Default)]
struct Tally {
    rows: u64,
    bytes: u64,
    kinds: BTreeMap<u64, Count>,
    spaces: BTreeMap<u32, Count>,
    unknown_keys: BTreeMap<(String, String), u64>,
    lsn: Range<u64>,
    time: Range<f64>,
}

#[derive(Default)]
struct Count {
    rows: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

struct Range<T> {
    least: Option<T>,
    greatest: Option<T>,
}

impl<T> Default for Range<T> {
    fn default() -> Self {
        Self { least: None, greatest: None }
    }
}

impl<T: PartialOrd + Copy> Range<T> {
    fn add(&mut self, value: T) {
        if self.least.is_none_or(|least| value < least) {
            self.least = Some(value);
        }
        if self.greatest.is_none_or(|greatest| value > greatest) {
            self.greatest = Some(value);
        }
    }
}

impl Tally {
    /// The rows of one block.
    fn of(payload: &[u8], filetype: FileType) -> Result<Self, Error> {
        let mut tally = Self::default();
        for row in Rows::new(payload, filetype) {
            tally.row(&row?);
        }
        Ok(tally)
    }

    fn row(&mut self, row: &Row<'_>) {
        let count = Count { rows: 1, bytes: (row.end - row.start) as u64 };
        self.rows += 1;
        self.bytes += count.bytes;
        self.kinds.entry(row.head.kind).or_default().add(&count);
        if let Some(lsn) = row.head.lsn {
            self.lsn.add(lsn);
        }
        if let Some(time) = row.head.timestamp {
            self.time.add(time);
        }
        self.unknown(|| "header".into(), &row.head.unknown);
        let Some(body) = &row.body else { return };
        if let Some(space_id) = body.space_id {
            self.spaces.entry(space_id).or_default().add(&count);
        }
        // What vinyl keeps of its runs is known to vinyl.
        if (row::kind::VINYL_RUN_INFO..=row::kind::VINYL_ROW_INDEX).contains(&row.head.kind) {
            return;
        }
        self.unknown(|| format!("body of {}", row::kind_text(row.head.kind)), &body.unknown);
    }

    fn unknown(&mut self, part: impl Fn() -> String, pairs: &[UnknownPair<'_>]) {
        for pair in pairs {
            // A key may be as long as the row.
            self.unknown_key((part(), print::short_hex(pair.key)), 1);
        }
    }

    fn unknown_key(&mut self, key: (String, String), rows: u64) {
        if self.unknown_keys.len() < UNKNOWN_KEYS_MAX || self.unknown_keys.contains_key(&key) {
            *self.unknown_keys.entry(key).or_default() += rows;
        } else {
            *self.unknown_keys.entry(("elsewhere".into(), "others".into())).or_default() += rows;
        }
    }

    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        other.kinds.into_iter().for_each(|(kind, count)| self.kinds.entry(kind).or_default().add(&count));
        other.spaces.into_iter().for_each(|(space, count)| self.spaces.entry(space).or_default().add(&count));
        other.unknown_keys.into_iter().for_each(|(key, rows)| self.unknown_key(key, rows));
        [other.lsn.least, other.lsn.greatest].into_iter().flatten().for_each(|lsn| self.lsn.add(lsn));
        [other.time.least, other.time.greatest].into_iter().flatten().for_each(|time| self.time.add(time));
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{MAGIC_END, build};
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;
    use crate::error::ErrorKind;

    fn read(bytes: Vec<u8>) -> Result<FileInfo, Error> {
        FileInfo::read_on(&SimulatedDisk::with("f", bytes), Path::new("f"), 2)
    }

    #[test]
    fn rows_are_counted_by_type_and_space() {
        let insert = [0x83, 0, 2, 2, 1, 3, 7, 0x82, 0x10, 0xcd, 2, 0, 0x21, 0x91, 1];
        let delete = [0x83, 0, 5, 2, 1, 3, 9, 0x82, 0x10, 0xcd, 2, 1, 0x20, 0x91, 1];
        let nop = [0x83, 0, 12, 2, 1, 3, 8];
        let strange = [0x82, 0, 0x4d, 0x0c, 1, 0x81, 0xa1, b'x', 1];
        let blocks = [
            build::plain(&[&insert[..], &delete].concat()),
            build::zstd(&[&insert[..], &nop, &strange].concat()),
        ];
        let file = [&b"XLOG\n0.13\nVClock: {1: 6}\n\n"[..], &blocks.concat()].concat();
        let end = file.len() as u64;
        let info = read([&file[..], &blocks[0][..20]].concat()).unwrap();
        assert_eq!((info.plain_blocks, info.compressed_blocks, info.blocks(), info.rows), (1, 1, 2, 5));
        assert_eq!(info.row_bytes, 3 * 15 + 7 + 9);
        let kinds: Vec<_> =
            info.kinds.iter().map(|kind| (kind.kind, kind.name, kind.rows, kind.bytes)).collect();
        assert_eq!(
            kinds,
            [
                (2, Some("INSERT"), 2, 30),
                (5, Some("DELETE"), 1, 15),
                (12, Some("NOP"), 1, 7),
                (0x4d, None, 1, 9)
            ]
        );
        let spaces: Vec<_> = info.spaces.iter().map(|space| (space.space_id, space.rows)).collect();
        assert_eq!(spaces, [(512, 2), (513, 1)]);
        assert_eq!((info.lsn_least, info.lsn_greatest), (Some(7), Some(9)));
        let unknown: Vec<_> = info.unknown_keys.iter().map(|key| (&key.part[..], &key.key[..])).collect();
        assert_eq!(unknown, [("body of type 77", "a178"), ("header", "0c")]);
        assert_eq!(info.end, EndInfo::Open { byte: end, torn_bytes: 20 });
    }

    #[test]
    fn damage_in_a_row_is_told_with_its_place() {
        let good = build::plain(&[0x81, 0, 12]);
        let bad = build::plain(&[0x81, 0, 12, 0x81, 0, 2, 0x80]);
        let file = [&b"SNAP\n0.13\n\n"[..], &good, &bad, &MAGIC_END].concat();
        let error = read(file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Row);
        assert!(error.to_string().starts_with("f, block 1 at byte 33, row 1: body of INSERT: "), "{error}");
    }
}
