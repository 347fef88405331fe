//! Logs in segments: runs of blocks that one thread reads with one call, checks, unpacks and takes apart.
//!
//! The blocks of a log are as small as its transactions, often a row each, so a block is no unit of work: what is
//! asked of the system and what passes between threads is a segment.
//!
//! ```text
//! Segments::next (one thread at a time)   open the next log, hop over heads         -> which blocks, or how it ends
//! Segment::read  (all at once)            pread, checksum, zstd, records of rows    -> payloads and rows
//! ```
//!
//! A fault ends a segment, and what comes before it is there all the same: whether anybody gets that far is decided
//! by whoever takes the rows in order. Memory: a segment's payloads are some hundred kilobytes, or one large block.

use super::block::{self, BlockHead};
use super::compress::{BUFFER_BYTES_KEPT, Unpacker, no_memory};
use super::disk::{Disk, RealDisk};
use super::heads::{End, HeadReader, Next};
use super::log::LogFile;
use super::log_row::Record;
use super::row_file::RowPosition;
use super::source::ContainerFile;
use crate::error::{Error, ErrorKind};
use crate::limits::BLOCK_UNPACKED_BYTES_MAX;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// About as many bytes of payload make a segment: they, and their records, should stay in a core's cache.
const SEGMENT_BYTES: u64 = 256 << 10;

/// How much larger a compressed payload is thought to be when it is unpacked. Rows are seldom packed better.
const UNPACKED_RATIO: u64 = 8;

/// What a compressed payload counts at least, so that few of those that unpack to a great deal are in one segment.
const UNPACKED_BYTES_MIN: u64 = SEGMENT_BYTES / 16;

/// What comes after a segment's blocks.
#[derive(Debug)]
pub(super) enum Then {
    /// More blocks of the same log.
    More,
    /// The log ends.
    End(End),
    /// Something that is wrong.
    Fault(Error),
}

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockPlace {
    /// Number of the block in its file.
    pub(super) index: u64,
    /// Of its head.
    pub(super) byte: u64,
}

/// A block whose rows are known.
#[derive(Debug)]
struct Block {
    place: BlockPlace,
    is_unpacked: bool,
    /// Its payload, in one of the segment's buffers.
    bytes: Range<usize>,
    /// Its rows, among those of the segment.
    rows: Range<usize>,
}

/// A run of blocks.
pub(super) struct Segment {
    /// Number of the log in its chain.
    pub(super) log: usize,
    file: Option<Arc<ContainerFile>>,
    heads: Vec<BlockHead>,
    stored: Vec<u8>,
    unpacked: Vec<u8>,
    blocks: Vec<Block>,
    rows: Vec<Record>,
    pub(super) then: Then,
}

impl Segment {
    fn new() -> Self {
        Self {
            log: 0,
            file: None,
            heads: Vec::new(),
            stored: Vec::new(),
            unpacked: Vec::new(),
            blocks: Vec::new(),
            rows: Vec::new(),
            then: Then::More,
        }
    }

    /// Behind the segment's last block, if it has blocks.
    pub(super) fn end(&self) -> Option<RowPosition> {
        self.heads.last().map(|last| RowPosition { byte: last.end(), block: last.index + 1 })
    }

    /// Bytes of the segment in its file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.heads.last().map_or(0, |last| last.end() - self.heads[0].byte)
    }

    /// The blocks: where each is, its payload, and its rows.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (BlockPlace, &[u8], &[Record])> {
        self.blocks.iter().map(|block| {
            let buffer = if block.is_unpacked { &self.unpacked } else { &self.stored };
            (block.place, &buffer[block.bytes.clone()], &self.rows[block.rows.clone()])
        })
    }

    /// Reads the blocks that have been chosen. `bytes_max`: what the records of one block may take, if that is more than
    /// is kept anyway.
    pub(super) fn read(&mut self, unpacker: &mut Unpacker, bytes_max: usize) {
        if let Err(error) = self.try_read(unpacker, bytes_max) {
            let file = self.file.as_ref().expect("there are blocks, so there is a file");
            self.then = Then::Fault(file.place(error));
        }
    }

    fn try_read(&mut self, unpacker: &mut Unpacker, bytes_max: usize) -> Result<(), Error> {
        let Some((&first, file)) = self.heads.first().zip(self.file.as_ref()) else { return Ok(()) };
        let (from, bytes) = (first.byte, self.file_bytes() as usize);
        let placed = |error: Error, head: &BlockHead| error.block(head.index, head.byte);
        if self.stored.len() < bytes {
            let room = bytes - self.stored.len();
            self.stored.try_reserve_exact(room).map_err(|_| placed(no_memory(bytes), &first))?;
            self.stored.resize(bytes, 0);
        }
        file.read_exact_at(&mut self.stored[..bytes], from).map_err(|error| placed(error, &first))?;
        for head in &self.heads {
            let payload = (head.payload_at() - from) as usize..(head.end() - from) as usize;
            block::check(head, &self.stored[payload.clone()])?;
            let bytes = if head.compressed {
                let start = self.unpacked.len();
                let rows = unpacker.unpack(&self.stored[payload]).map_err(|error| placed(error, head))?;
                self.unpacked.try_reserve(rows.len()).map_err(|_| placed(no_memory(rows.len()), head))?;
                self.unpacked.extend_from_slice(rows);
                start..self.unpacked.len()
            } else {
                payload
            };
            let start = self.rows.len();
            let buffer = if head.compressed { &self.unpacked } else { &self.stored };
            let decoded = decode(&buffer[bytes.clone()], &mut self.rows, bytes_max);
            let place = BlockPlace { index: head.index, byte: head.byte };
            let rows = start..self.rows.len();
            self.blocks.push(Block { place, is_unpacked: head.compressed, bytes, rows });
            decoded.map_err(|error| placed(error, head))?;
        }
        Ok(())
    }

    /// Makes the segment ready for other blocks, and gives back what an unusually large one needed.
    fn clear(&mut self) {
        self.file = None;
        self.heads.clear();
        self.blocks.clear();
        self.rows.clear();
        self.unpacked.clear();
        for buffer in [&mut self.stored, &mut self.unpacked] {
            if buffer.capacity() > BUFFER_BYTES_KEPT {
                *buffer = Vec::new();
            }
        }
        if self.rows.capacity() * size_of::<Record>() > BUFFER_BYTES_KEPT {
            self.rows = Vec::new();
        }
        self.then = Then::More;
    }
}

/// Appends the rows of a payload to `rows`, as far as they can be read.
fn decode(payload: &[u8], rows: &mut Vec<Record>, bytes_max: usize) -> Result<(), Error> {
    let bytes_max = bytes_max.clamp(BUFFER_BYTES_KEPT, BLOCK_UNPACKED_BYTES_MAX);
    let rows_max = bytes_max / size_of::<Record>();
    let (mut at, mut number) = (0, 0);
    while at < payload.len() {
        if number as usize >= rows_max || rows.try_reserve(1).is_err() {
            return Err(Error::new(ErrorKind::Memory, "memory for the rows of a block")
                .expected(format_args!("at most {rows_max} rows"))
                .found("more"));
        }
        let row = Record::decode(payload, at, number).map_err(|error| error.row(number.into()))?;
        at = row.end();
        number += 1;
        rows.push(row);
    }
    Ok(())
}

/// Segments that have been used up, to be filled again.
#[derive(Default)]
pub(super) struct Spares(Mutex<Vec<Segment>>);

impl Spares {
    pub(super) fn put(&self, mut segment: Segment) {
        segment.clear();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(segment);
    }

    fn take(&self) -> Segment {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_else(Segment::new)
    }
}

/// Goes through logs, one after another, and says which blocks make a segment.
pub(super) struct Segments<'a> {
    disk: &'a dyn Disk,
    logs: &'a [LogFile],
    spares: &'a Spares,
    /// The log that is being read, or comes next.
    log: usize,
    open: Option<(Arc<ContainerFile>, HeadReader<Arc<ContainerFile>>)>,
}

impl<'a> Segments<'a> {
    pub(super) fn new(disk: &'a dyn Disk, logs: &'a [LogFile], spares: &'a Spares) -> Self {
        Self { disk, logs, spares, log: 0, open: None }
    }

    /// The blocks of one open file, from a position on.
    pub(super) fn of_file(file: Arc<ContainerFile>, from: RowPosition, spares: &'a Spares) -> Self {
        let heads = HeadReader::from(file.clone(), from.byte, from.block);
        Self { disk: &RealDisk, logs: &[], spares, log: 0, open: Some((file, heads)) }
    }

    /// The next segment, with its blocks chosen and not yet read; none after the last log, or after a fault.
    pub(super) fn next(&mut self) -> Option<Segment> {
        if self.open.is_none() && self.log >= self.logs.len() {
            return None;
        }
        let mut segment = self.spares.take();
        segment.log = self.log;
        if let Err(error) = self.choose(&mut segment) {
            segment.then = Then::Fault(error);
            (self.log, self.open) = (self.logs.len(), None);
        }
        Some(segment)
    }

    fn choose(&mut self, segment: &mut Segment) -> Result<(), Error> {
        let (file, heads) = match &mut self.open {
            Some(open) => open,
            None => {
                let file = Arc::new(self.logs[self.log].open(self.disk)?);
                self.open.insert((file.clone(), HeadReader::new(file)))
            }
        };
        segment.file = Some(file.clone());
        let mut bytes = 0;
        while bytes < SEGMENT_BYTES {
            match heads.next()? {
                Next::Block(head) => {
                    let stored_bytes = u64::from(head.stored_bytes);
                    bytes += match head.compressed {
                        false => stored_bytes,
                        true => (stored_bytes * UNPACKED_RATIO).max(UNPACKED_BYTES_MIN),
                    };
                    segment.heads.push(head);
                }
                Next::End(end) => {
                    segment.then = Then::End(end);
                    self.open = None;
                    self.log += 1;
                    break;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::{MAGIC_END, build};
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;
    use std::path::Path;

    /// The shortest rows: NOPs without LSNs.
    fn nops(count: usize) -> Vec<u8> {
        [0x81, 0x00, 0x0c].repeat(count)
    }

    #[test]
    fn small_blocks_share_a_segment_and_a_fault_leaves_those_before_it() {
        let mut bytes = b"XLOG\n0.13\nVClock: {}\n\n".to_vec();
        for number in 0..2000 {
            let rows = nops(number % 7 + 1);
            bytes.extend(if number % 50 == 0 { build::zstd(&rows) } else { build::plain(&rows) });
        }
        bytes.extend(build::plain(&nops(200_000)));
        bytes.extend(build::plain(&nops(3)));
        let whole = [&bytes[..], &MAGIC_END].concat();
        let read = |bytes: Vec<u8>| {
            let disk = SimulatedDisk::with("1.xlog", bytes);
            let file = ContainerFile::open(&disk, Path::new("1.xlog")).unwrap();
            let logs = [LogFile::new(&file)];
            let (spares, mut unpacker) = (Spares::default(), Unpacker::new(usize::MAX));
            let mut segments = Segments::new(&disk, &logs, &spares);
            let (mut count, mut blocks, mut then) = (0, Vec::new(), Then::More);
            while let Some(mut segment) = segments.next() {
                segment.read(&mut unpacker, usize::MAX);
                for (place, payload, rows) in segment.blocks() {
                    assert_eq!(payload.len(), 3 * rows.len());
                    assert!(rows.iter().enumerate().all(|(number, row)| row.number as usize == number));
                    blocks.push((place.index, rows.len()));
                }
                count += 1;
                then = std::mem::replace(&mut segment.then, Then::More);
                spares.put(segment);
                if matches!(then, Then::Fault(_)) {
                    break;
                }
            }
            (count, blocks, then)
        };
        let expected = (0..2000).map(|number| (number, number as usize % 7 + 1));
        let expected: Vec<_> = expected.chain([(2000, 200_000), (2001, 3)]).collect();
        let (count, blocks, then) = read(whole.clone());
        assert!((2..10).contains(&count), "{count} segments");
        assert_eq!(blocks, expected);
        assert!(matches!(then, Then::End(End::Marker)), "{then:?}");
        let mut damaged = whole;
        let at = damaged.len() - 4 - 9 - 19 - 100;
        damaged[at] ^= 1;
        let (_, blocks, then) = read(damaged);
        assert_eq!(blocks, expected[..2000]);
        let Then::Fault(error) = then else { panic!("{then:?}") };
        assert_eq!((error.kind(), error.place().block), (ErrorKind::Checksum, Some(2000)), "{error}");
    }

    #[test]
    fn a_block_of_many_tiny_rows_takes_no_more_memory_than_it_may() {
        let rows_max = BUFFER_BYTES_KEPT / size_of::<Record>();
        let mut rows = Vec::new();
        decode(&nops(rows_max), &mut rows, 1000).unwrap();
        let error = decode(&nops(rows_max + 1), &mut Vec::new(), 1000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
        decode(&nops(rows_max + 1), &mut Vec::new(), usize::MAX).unwrap();
    }
}
