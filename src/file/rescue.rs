//! A damaged file, as far as it can be read: what is whole, what can be put right, and what may be left of the rest.
//!
//! ```text
//! text header   line by line: one that makes no sense is left out
//! survey        from block to block; where none begins, on at the next whole one
//! sums          every block against its checksum, in many threads
//! repair        a wrong byte that the sum tells of; a head whose checksum fits what stands behind it  -> patches
//! the rest      the first rows of a block that was cut; rows under a wrong sum
//! ```
//!
//! What was put right is whole again for whoever reads the file through [`Rescued::file`]; on the disk nothing changes.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use super::block::{self, BlockHead};
use super::compress::Unpacker;
use super::disk::Disk;
use super::header::FileType;
use super::heads::{End, Gap, Survey, survey};
use super::log_row::{LogRow, Record};
use super::pipeline::{BlockLoader, in_order};
use super::repair::{WrongByte, head_bytes, head_of, wrong_bytes};
use super::row::Rows;
use super::row_file::FileRow;
use super::row_print::RowPrinter;
use super::source::{ContainerFile, Patch};
use crate::error::{Error, ErrorKind};
use crate::limits::BLOCK_HEAD_BYTES;

/// Stretches without a block that are looked at one by one; the rest of a file with more is given up.
const GAPS_MAX: usize = 100_000;

/// Bytes without a block that are read to see what they were; a block that Tarantool writes has far fewer.
const GAP_BYTES_MAX: u64 = 64 << 20;

/// How much a row can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// It fits its checksum.
    Whole,
    /// It stands before the place where its block was cut, so that there is no checksum to compare.
    Cut,
    /// Its checksum is wrong, and what is wrong may be elsewhere in the block: behind it, if something there makes no
    /// sense.
    Unchecked,
    /// Its checksum is wrong, and it was unpacked all the same: much of the block may be other than it was.
    Doubtful,
}

/// What was done about a damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// It was put right: how.
    Repaired(String),
    /// Rows can be read, but not all believed.
    Rows(Trust),
    /// There is no block here, and nothing that could be rows.
    Nothing,
}

/// A stretch of a file that is not as it was written.
#[derive(Debug)]
pub(crate) struct Damage {
    pub(crate) bytes: Range<u64>,
    /// Number of the block that is, or should be, here.
    pub(crate) index: u64,
    pub(crate) error: Error,
    pub(crate) remedy: Remedy,
}

/// See the head of this file.
pub(crate) struct Rescued {
    /// The file, and what was put right in it.
    pub(crate) file: Arc<ContainerFile>,
    pub(crate) header_fault: Option<Error>,
    /// Blocks that fit their checksums, by place.
    pub(crate) heads: Vec<BlockHead>,
    /// By place.
    pub(crate) damages: Vec<Damage>,
}

/// Reads a file that should be of this type. `unpacked_bytes_max`: the most that a block may unpack to.
///
/// # Errors
/// `Io`, `Missing`.
pub(crate) fn rescue(
    disk: &dyn Disk,
    path: &Path,
    filetype: FileType,
    threads: usize,
    unpacked_bytes_max: usize,
) -> Result<Rescued, Error> {
    let (file, header_fault) = ContainerFile::open_damaged(disk, path, filetype)?;
    let Survey { heads, gaps, end } = survey(&file, GAPS_MAX)?;
    let (mut whole, mut damages, mut patches) = (Vec::new(), Vec::new(), Vec::new());
    let mut jobs = heads.iter();
    in_order(
        if threads == 1 { 0 } else { threads },
        || jobs.next(),
        || Judge { file: &file, stored: Vec::new(), unpacker: Unpacker::new(unpacked_bytes_max) },
        |judge, head| judge.block(head).map(|verdict| (*head, verdict)),
        |judged| {
            let (head, verdict) = judged?;
            match verdict {
                None => whole.push(head),
                Some((error, repaired, rest)) => {
                    let bytes = head.byte..head.end();
                    let remedy = take(repaired, rest, &mut whole, &mut patches);
                    damages.push(Damage { bytes, index: head.index, error, remedy });
                }
            }
            Ok(ControlFlow::Continue(()))
        },
    )?;
    let mut judge = Judge { file: &file, stored: Vec::new(), unpacker: Unpacker::new(unpacked_bytes_max) };
    for Gap { bytes, index, error } in gaps {
        if let Some(how) = judge.marker(&bytes)? {
            damages.push(Damage { bytes, index, error, remedy: Remedy::Repaired(how) });
            continue;
        }
        let repaired = judge.gap(&bytes, index)?;
        let is_cut = bytes.end == file.bytes() && error.kind() == ErrorKind::Truncated;
        let rest = if is_cut { Trust::Cut } else { judge.trust(&bytes)? };
        let mut remedy = take(repaired, rest, &mut whole, &mut patches);
        if remedy == Remedy::Rows(rest) && judge.first_rows(&bytes)?.is_empty() {
            remedy = Remedy::Nothing;
        }
        damages.push(Damage { bytes, index, error, remedy });
    }
    if let Some(End::Open { byte, torn_bytes }) = end
        && torn_bytes > 0
    {
        let bytes = byte..byte + torn_bytes;
        let error = Error::new(ErrorKind::Truncated, "block")
            .expected("its end")
            .found(format_args!("{torn_bytes} bytes, then the end of the file"))
            .byte(byte);
        let remedy = if let Some(how) = judge.marker(&bytes)? {
            Remedy::Repaired(how)
        } else if file.is_zero_from(byte)? {
            Remedy::Repaired("it is zeros: nothing was written there".into())
        } else if judge.first_rows(&bytes)?.is_empty() {
            Remedy::Nothing
        } else {
            Remedy::Rows(Trust::Cut)
        };
        damages.push(Damage { bytes, index: heads.len() as u64, error: file.place(error), remedy });
    }
    whole.sort_by_key(|head| head.byte);
    damages.sort_by_key(|damage| damage.bytes.start);
    Ok(Rescued { file: Arc::new(file.patched(patches)), header_fault, heads: whole, damages })
}

/// A block that was put right is whole; of another the rest may be of use.
fn take(
    repaired: Option<Repaired>,
    rest: Trust,
    whole: &mut Vec<BlockHead>,
    patches: &mut Vec<Patch>,
) -> Remedy {
    match repaired {
        None => Remedy::Rows(rest),
        Some(Repaired { how, head, patch }) => {
            whole.push(head);
            patches.push(patch);
            Remedy::Repaired(how)
        }
    }
}

/// A block that is whole with a patch.
struct Repaired {
    how: String,
    head: BlockHead,
    patch: Patch,
}

/// Looks at blocks one after another.
struct Judge<'a> {
    file: &'a ContainerFile,
    stored: Vec<u8>,
    unpacker: Unpacker,
}

impl Judge<'_> {
    /// Nothing, if a block fits its sum; else what is wrong, and what makes it whole.
    #[allow(clippy::type_complexity, reason = "an error that is no failure, and what goes with it")]
    fn block(&mut self, head: &BlockHead) -> Result<Option<(Error, Option<Repaired>, Trust)>, Error> {
        self.read(head.payload_at()..head.end())?;
        let Err(error) = block::check(head, &self.stored) else { return Ok(None) };
        let mut found = None;
        for wrong in wrong_bytes(&self.stored, head.crc) {
            if self.makes_sense(wrong, head.compressed) && found.replace(wrong).is_some() {
                // Two ways to put it right are none.
                return Ok(Some((self.file.place(error), None, Trust::Doubtful)));
            }
        }
        let repaired = found.map(|WrongByte { at, bits }| match at {
            None => {
                let head = BlockHead { crc: block::checksum(&self.stored), ..*head };
                let patch = Patch { at: head.byte, bytes: head_bytes(&head).to_vec() };
                Repaired { how: format!("the checksum had wrong bits, {bits:#04x}"), head, patch }
            }
            Some(at) => {
                let byte = head.payload_at() + at as u64;
                let patch = Patch { at: byte, bytes: vec![self.stored[at] ^ bits] };
                let how = format!("byte {byte} had wrong bits, {bits:#04x}, by its checksum");
                Repaired { how, head: *head, patch }
            }
        });
        let is_unpacked = head.compressed && self.unpacker.unpack(&self.stored).is_ok();
        let rest = if is_unpacked { Trust::Doubtful } else { Trust::Unchecked };
        Ok(Some((self.file.place(error), repaired, rest)))
    }

    /// Whether a payload is rows, and nothing else, once a byte is put right.
    fn makes_sense(&mut self, WrongByte { at, bits }: WrongByte, compressed: bool) -> bool {
        let invert = |stored: &mut Vec<u8>| {
            if let Some(at) = at {
                stored[at] ^= bits;
            }
        };
        invert(&mut self.stored);
        let rows = if compressed { self.unpacker.unpack(&self.stored).ok() } else { Some(&self.stored[..]) };
        let filetype = self.file.header.filetype;
        let makes_sense = rows.is_some_and(|rows| are_whole(rows, filetype));
        invert(&mut self.stored);
        makes_sense
    }

    /// A stretch without a block, if it is one whose head alone is damaged.
    fn gap(&mut self, bytes: &Range<u64>, index: u64) -> Result<Option<Repaired>, Error> {
        if bytes.end - bytes.start > GAP_BYTES_MAX {
            return Ok(None);
        }
        // What ends a file may be the end marker, or what was one.
        let marker = block::MAGIC_END.len() as u64;
        for end in [bytes.end, bytes.end.saturating_sub(marker).max(bytes.start)] {
            self.read(bytes.start..end)?;
            let Some(head) = head_of(&self.stored, bytes.start, index) else { continue };
            let payload = &self.stored[BLOCK_HEAD_BYTES..];
            let rows = if head.compressed { self.unpacker.unpack(payload).ok() } else { Some(payload) };
            if rows.is_some_and(|rows| are_whole(rows, self.file.header.filetype)) {
                let patch = Patch { at: head.byte, bytes: head_bytes(&head).to_vec() };
                let how = "its head was damaged, and its checksum fits what stands behind it".into();
                return Ok(Some(Repaired { how, head, patch }));
            }
        }
        Ok(None)
    }

    /// What is behind the last block, if it is an end marker whose bytes are not all there or not all right, or with
    /// something behind it.
    fn marker(&mut self, bytes: &Range<u64>) -> Result<Option<String>, Error> {
        if bytes.end != self.file.bytes() || bytes.is_empty() {
            return Ok(None);
        }
        let marker = block::MAGIC_END;
        self.read(bytes.start..bytes.end.min(bytes.start + marker.len() as u64))?;
        let found = &self.stored[..];
        let wrong_bits: u32 = found.iter().zip(&marker).map(|(a, b)| (a ^ b).count_ones()).sum();
        Ok(match bytes.end - bytes.start {
            // `d5` alone could be the beginning of a block.
            2..=3 if wrong_bits == 0 => Some("it is the beginning of the end marker".into()),
            4 if wrong_bits <= 8 => Some("it is the end marker with wrong bits".into()),
            5.. if wrong_bits == 0 => {
                Some("the end marker is there, and what follows it does not count".into())
            }
            _ => None,
        })
    }

    /// How much the rows of a stretch can be believed, if there are any.
    fn trust(&mut self, bytes: &Range<u64>) -> Result<Trust, Error> {
        self.read(bytes.start..bytes.end.min(bytes.start + GAP_BYTES_MAX))?;
        let payload = self.stored.get(BLOCK_HEAD_BYTES..).unwrap_or_default();
        let is_unpacked =
            self.stored.starts_with(&block::MAGIC_ZSTD) && self.unpacker.unpack(payload).is_ok();
        Ok(if is_unpacked { Trust::Doubtful } else { Trust::Unchecked })
    }

    /// The rows that a stretch begins with, if it is a block.
    fn first_rows(&mut self, bytes: &Range<u64>) -> Result<Vec<u8>, Error> {
        let end = bytes.end.min(bytes.start + GAP_BYTES_MAX);
        self.read(bytes.start..end)?;
        let rows = first_rows(&self.stored, &mut self.unpacker);
        let filetype = self.file.header.filetype;
        Ok(if Rows::new(&rows, filetype).next().is_some_and(|row| row.is_ok()) { rows } else { Vec::new() })
    }

    fn read(&mut self, bytes: Range<u64>) -> Result<(), Error> {
        let count = (bytes.end - bytes.start) as usize;
        self.stored.clear();
        self.stored
            .try_reserve_exact(count)
            .map_err(|_| self.file.place(super::compress::no_memory(count).byte(bytes.start)))?;
        self.stored.resize(count, 0);
        self.file.read_exact_at(&mut self.stored, bytes.start)
    }
}

/// What stands behind a head, unpacked as far as it can be, whatever its sum.
fn first_rows(block: &[u8], unpacker: &mut Unpacker) -> Vec<u8> {
    let Some((head, payload)) = block.split_at_checked(BLOCK_HEAD_BYTES) else { return Vec::new() };
    if head.starts_with(&block::MAGIC_ZSTD) { unpacker.unpack_head(payload) } else { payload.to_vec() }
}

/// Gives every row of a payload and its number; and the error of the first bytes that are no row, behind which nothing can
/// be told apart.
pub(crate) fn for_each_row(
    payload: &[u8],
    mut take: impl FnMut(&LogRow<'_>, u64) -> Result<(), Error>,
) -> Result<Option<Error>, Error> {
    let (mut at, mut number) = (0, 0);
    while at < payload.len() {
        let record = match Record::decode(payload, at, number) {
            Ok(record) => record,
            Err(error) => return Ok(Some(error.row(number.into()))),
        };
        at = record.end();
        take(&LogRow::new(&record, payload), number.into())?;
        number += 1;
    }
    Ok(None)
}

/// The tuples of a snapshot in memory, each with the id of its space.
pub(crate) fn tuples_of(snapshot: &'static [u8]) -> Result<Vec<(u32, Vec<u8>)>, Error> {
    let file = ContainerFile::of_bytes(snapshot)?;
    let mut loader = BlockLoader::new(&file, usize::MAX);
    let mut tuples = Vec::new();
    for head in &survey(&file, 1)?.heads {
        for_each_row(loader.load(head)?, |row, _| {
            tuples.extend(row.space_id().zip(row.tuple().map(<[u8]>::to_vec)));
            Ok(())
        })?;
    }
    Ok(tuples)
}

/// A row as an object of JSON; `None`: it is none.
pub(crate) fn row_json(bytes: &[u8]) -> Option<String> {
    let record = Record::decode(bytes, 0, 0).ok()?;
    let mut text = String::new();
    RowPrinter::new().write_json(&mut text, &FileRow { row: LogRow::new(&record, bytes) });
    text.truncate(text.trim_end().len());
    Some(text)
}

/// Whether a payload is rows from its first byte to its last; those of a snapshot are numbered.
fn are_whole(payload: &[u8], filetype: FileType) -> bool {
    let (mut next, mut count) = (None::<u64>, 0);
    for row in Rows::new(payload, filetype) {
        let Ok(row) = row else { return false };
        let number = row.head.lsn.unwrap_or(0);
        if filetype == FileType::Snap && next.is_some_and(|next| next != number) {
            return false;
        }
        next = number.checked_add(1);
        count += 1;
    }
    count > 0
}

/// A stretch of a file that rows can be read from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stretch<'a> {
    Block(&'a BlockHead),
    Damage(&'a Damage, Trust),
}

impl Stretch<'_> {
    pub(crate) fn byte(&self) -> u64 {
        match self {
            Self::Block(head) => head.byte,
            Self::Damage(damage, _) => damage.bytes.start,
        }
    }

    pub(crate) fn index(&self) -> u64 {
        match self {
            Self::Block(head) => head.index,
            Self::Damage(damage, _) => damage.index,
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        match self {
            Self::Block(_) => Trust::Whole,
            Self::Damage(_, trust) => *trust,
        }
    }
}

impl Rescued {
    /// All stretches that rows can be read from, by place.
    pub(crate) fn stretches(&self) -> Vec<Stretch<'_>> {
        let mut all: Vec<Stretch<'_>> = self.heads.iter().map(Stretch::Block).collect();
        all.extend(self.damages.iter().filter_map(|damage| match damage.remedy {
            Remedy::Rows(trust) => Some(Stretch::Damage(damage, trust)),
            _ => None,
        }));
        all.sort_by_key(Stretch::byte);
        all
    }

    /// The rows of a stretch as far as they can be read, and what stops there.
    pub(crate) fn payload(
        &self,
        stretch: &Stretch<'_>,
        unpacker: &mut Unpacker,
    ) -> Result<(Vec<u8>, Option<Error>), Error> {
        match stretch {
            Stretch::Block(head) => self.rows_of(head, unpacker),
            Stretch::Damage(damage, _) => self.rows_in(damage, unpacker).map(|rows| (rows, None)),
        }
    }

    /// The rows of a whole block; where its sum fits, but not its content, those before.
    fn rows_of(&self, head: &BlockHead, unpacker: &mut Unpacker) -> Result<(Vec<u8>, Option<Error>), Error> {
        let mut stored = vec![0; head.stored_bytes as usize];
        self.file.read_exact_at(&mut stored, head.payload_at())?;
        if !head.compressed {
            return Ok((stored, None));
        }
        match unpacker.unpack(&stored) {
            Ok(rows) => Ok((rows.to_vec(), None)),
            Err(error) => {
                let rows = unpacker.unpack_head(&stored);
                Ok((rows, Some(self.file.place(error.block(head.index, head.byte)))))
            }
        }
    }

    /// The rows of a damage that could not be put right, as far as they can be read.
    fn rows_in(&self, damage: &Damage, unpacker: &mut Unpacker) -> Result<Vec<u8>, Error> {
        let bytes = &damage.bytes;
        let mut stored = vec![0; (bytes.end - bytes.start).min(GAP_BYTES_MAX) as usize];
        self.file.read_exact_at(&mut stored, bytes.start)?;
        Ok(first_rows(&stored, unpacker))
    }
}
