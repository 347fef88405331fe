//! Rows to a file: the way back through the container, in many threads.
//!
//! ```text
//! rows --> cut into batches, a block's worth each, numbered --> [ worker: rows as bytes, zstd, CRC, head ]
//!                                                                             |
//!          NewFile: text header, blocks in their order, end marker <----------+
//! ```
//!
//! A block is closed as Tarantool closes it: when head and rows have 128 KiB; and compressed if they have 2 KiB. The number
//! of batches on their way is bounded (`pipeline::in_order`), and what they hold is slices of tuples. The bytes of the file
//! do not depend on the number of threads.

use std::ops::ControlFlow;
use std::path::Path;

use super::block::{self, MAGIC_END, MAGIC_PLAIN, MAGIC_ZSTD};
use super::compress::{BUFFER_BYTES_KEPT, Packer};
use super::disk::Disk;
use super::header::TextHeader;
use super::new_file::NewFile;
use super::pipeline::in_order;
use super::row::RowOut;
use crate::error::{Error, ErrorKind};
use crate::limits::{
    BLOCK_COMPRESSED_BYTES_MIN, BLOCK_HEAD_BYTES, BLOCK_STORED_BYTES_MAX, BLOCK_USUAL_BYTES,
};

/// How a snapshot is written.
pub(crate) struct SnapshotStyle {
    /// Of zstd.
    pub(crate) level: i32,
    pub(crate) threads: usize,
    /// The time that every row has, in seconds since 1970.
    pub(crate) time: f64,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) blocks: u64,
    /// Bytes of the rows.
    pub(crate) row_bytes: u64,
    /// Bytes of the file.
    pub(crate) bytes: u64,
}

/// Rows for one block.
struct Batch<'a> {
    /// Number of its first row.
    first: u64,
    rows: Vec<RowOut<'a>>,
    bytes: usize,
    /// Bytes of the tuples alone.
    tuple_bytes: u64,
}

/// Takes rows as long as a block takes them.
struct Batches<I> {
    rows: I,
    next: u64,
}

impl<'a, I: Iterator<Item = RowOut<'a>>> Iterator for Batches<I> {
    type Item = Batch<'a>;

    fn next(&mut self) -> Option<Batch<'a>> {
        let mut batch = Batch { first: self.next, rows: Vec::new(), bytes: 0, tuple_bytes: 0 };
        while BLOCK_HEAD_BYTES + batch.bytes < BLOCK_USUAL_BYTES {
            let Some(row) = self.rows.next() else { break };
            batch.bytes += row.snapshot_bytes(self.next);
            batch.tuple_bytes += row.tuple_bytes();
            batch.rows.push(row);
            self.next += 1;
        }
        (!batch.rows.is_empty()).then_some(batch)
    }
}

/// One thread's buffers.
struct Worker {
    packer: Packer,
    rows: Vec<u8>,
    block: Vec<u8>,
}

impl Worker {
    fn new(level: i32) -> Self {
        Self { packer: Packer::new(level), rows: Vec::new(), block: Vec::new() }
    }

    /// A batch as a block.
    fn block(&mut self, batch: &Batch<'_>, time: f64) -> Result<Vec<u8>, Error> {
        for buffer in [&mut self.rows, &mut self.block] {
            if buffer.capacity() > BUFFER_BYTES_KEPT {
                *buffer = Vec::new();
            }
            buffer.clear();
        }
        self.rows.reserve(batch.bytes);
        for (number, row) in (batch.first..).zip(&batch.rows) {
            row.write_to_snapshot(&mut self.rows, number, time);
        }
        debug_assert_eq!(self.rows.len(), batch.bytes, "a row has the bytes that were counted");
        self.block.resize(BLOCK_HEAD_BYTES, 0);
        let magic = if BLOCK_HEAD_BYTES + self.rows.len() >= BLOCK_COMPRESSED_BYTES_MIN {
            self.packer.pack(&self.rows, &mut self.block)?;
            MAGIC_ZSTD
        } else {
            self.block.extend_from_slice(&self.rows);
            MAGIC_PLAIN
        };
        let payload = &self.block[BLOCK_HEAD_BYTES..];
        let stored_bytes = u32::try_from(payload.len())
            .ok()
            .filter(|&bytes| u64::from(bytes) <= BLOCK_STORED_BYTES_MAX)
            .ok_or_else(|| {
                Error::new(ErrorKind::Limit, "payload length")
                    .expected(format_args!("at most {BLOCK_STORED_BYTES_MAX} bytes"))
                    .found(payload.len())
            })?;
        let head = block::head(magic, stored_bytes, block::checksum(payload));
        self.block[..BLOCK_HEAD_BYTES].copy_from_slice(&head);
        Ok(self.block.clone())
    }
}

/// Writes a snapshot; it is whole or not there. `progress` is told how many rows, and bytes of tuples, each block brought.
///
/// # Errors
/// `Exists`: the file is there, or somebody is writing it. `Io`.
pub(crate) fn write_snapshot<'a>(
    disk: &dyn Disk,
    path: &Path,
    header: &TextHeader,
    style: &SnapshotStyle,
    rows: impl Iterator<Item = RowOut<'a>> + Send,
    mut progress: impl FnMut(u64, u64),
) -> Result<Written, Error> {
    let mut file = NewFile::create(disk, path)?;
    file.append(header.to_text().as_bytes())?;
    let mut written = Written::default();
    let mut batches = Batches { rows, next: 0 };
    in_order(
        if style.threads == 1 { 0 } else { style.threads },
        || batches.next(),
        || Worker::new(style.level),
        |worker, batch| {
            let block = worker.block(&batch, style.time);
            (batch.rows.len() as u64, batch.bytes as u64, batch.tuple_bytes, block)
        },
        |(rows, row_bytes, tuple_bytes, block)| {
            file.append(&block.map_err(|error| error.file(path))?)?;
            written.rows += rows;
            written.row_bytes += row_bytes;
            written.blocks += 1;
            progress(rows, tuple_bytes);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    file.append(&MAGIC_END)?;
    written.bytes = file.finish()?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::disk::simulated::SimulatedDisk;
    use super::super::header::FileType;
    use super::super::heads::scan_heads;
    use super::super::pipeline::BlockLoader;
    use super::super::row::{Rows, SnapRow, kind, snapshot_row};
    use super::super::source::ContainerFile;
    use super::super::vclock::Vclock;
    use super::*;

    const NAME: &str = "d/00000000000000000009.snap";
    const TIME: f64 = 1_700_000_000.25;

    fn write(
        disk: &SimulatedDisk,
        rows: &[RowOut<'_>],
        threads: usize,
        level: i32,
    ) -> Result<Written, Error> {
        let vclock: Vclock = "{1: 9}".parse().unwrap();
        let header = TextHeader::new(FileType::Snap, None, vclock);
        let style = SnapshotStyle { level, threads, time: TIME };
        let mut told = (0, 0);
        let written =
            write_snapshot(disk, Path::new(NAME), &header, &style, rows.iter().copied(), |rows, bytes| {
                told = (told.0 + rows, told.1 + bytes);
            })?;
        assert_eq!(told, (written.rows, rows.iter().map(RowOut::tuple_bytes).sum()));
        Ok(written)
    }

    /// Tuples `[string]` of these lengths, in spaces of both kinds.
    fn tuples(lengths: impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
        lengths
            .map(|length| {
                let mut tuple = vec![0x91];
                crate::msgpack::write::str(&mut tuple, &vec![b'x'; length]);
                tuple
            })
            .collect()
    }

    fn rows(tuples: &[Vec<u8>]) -> Vec<RowOut<'_>> {
        tuples
            .iter()
            .enumerate()
            .map(|(number, tuple)| RowOut::insert(512 + number as u32 % 3, number % 3 == 1, tuple))
            .collect()
    }

    #[test]
    fn what_is_written_is_read_again_whatever_the_number_of_threads() {
        let tuples = tuples((0..70_000).map(|number| number % 97).chain([300_000, 1, 200_000]));
        let rows = rows(&tuples);
        let disk = SimulatedDisk::default();
        let written = write(&disk, &rows, 1, 1).unwrap();
        let bytes = disk.bytes(NAME).unwrap();
        assert_eq!((written.rows, written.bytes), (rows.len() as u64, bytes.len() as u64));
        for threads in [2, 5] {
            let disk = SimulatedDisk::default();
            assert_eq!(write(&disk, &rows, threads, 1).unwrap(), written);
            assert!(disk.bytes(NAME).unwrap() == bytes);
        }
        let file = ContainerFile::open(&disk, Path::new(NAME)).unwrap();
        assert_eq!(file.header.vclock.to_string(), "{1: 9}");
        let heads = scan_heads(&file, |_| {}).unwrap().heads;
        assert_eq!(heads.len() as u64, written.blocks);
        let mut loader = BlockLoader::new(&file, usize::MAX);
        let mut number = 0;
        for (block, head) in heads.iter().enumerate() {
            let payload = loader.load(head).unwrap();
            let is_last = block + 1 == heads.len();
            assert!(is_last || payload.len() + BLOCK_HEAD_BYTES >= BLOCK_USUAL_BYTES);
            assert!(head.compressed || payload.len() + BLOCK_HEAD_BYTES < BLOCK_COMPRESSED_BYTES_MIN);
            for row in Rows::new(payload, FileType::Snap) {
                let row = row.unwrap();
                let body = row.body.as_ref().unwrap();
                assert_eq!(row.head.lsn, (number > 0).then_some(number as u64));
                assert_eq!((row.head.timestamp, row.head.group_id), (Some(TIME), u32::from(number % 3 == 1)));
                assert_eq!(body.space_id, Some(512 + number as u32 % 3));
                assert!(body.tuple == Some(&tuples[number]));
                assert!(matches!(
                    snapshot_row(payload, row.start).unwrap(),
                    SnapRow::Insert { row_end: None, .. }
                ));
                number += 1;
            }
        }
        assert_eq!(number, tuples.len());
    }

    #[test]
    fn rows_of_other_types_and_no_rows_at_all_are_written_as_well() {
        let disk = SimulatedDisk::default();
        assert_eq!(write(&disk, &[], 2, 1).unwrap().blocks, 0);
        let disk = SimulatedDisk::default();
        let tuple = vec![0x90];
        let rows = [
            RowOut::insert(272, false, &tuple),
            RowOut::other(kind::RAFT, true, &[0x81, 0x00, 0x01]),
            RowOut::other(kind::RAFT_PROMOTE, false, &[0x80]),
        ];
        write(&disk, &rows, 1, 1).unwrap();
        let file = ContainerFile::open(&disk, Path::new(NAME)).unwrap();
        let heads = scan_heads(&file, |_| {}).unwrap().heads;
        let mut loader = BlockLoader::new(&file, usize::MAX);
        let payload = loader.load(&heads[0]).unwrap();
        let read: Vec<_> = Rows::new(payload, FileType::Snap).map(Result::unwrap).collect();
        let heads: Vec<_> = read.iter().map(|row| (row.head.kind, row.head.group_id, row.head.lsn)).collect();
        assert_eq!(heads, [(2, 0, None), (30, 1, Some(1)), (31, 0, Some(2))]);
        assert_eq!(read[1].body.as_ref().unwrap().term, Some(1));
    }

    #[test]
    fn whichever_call_fails_the_file_is_whole_or_absent() {
        let tuples = tuples((0..30_000).map(|number| number % 50));
        let rows = rows(&tuples);
        let disk = SimulatedDisk::default();
        write(&disk, &rows, 1, 1).unwrap();
        let (whole, calls) = (disk.bytes(NAME), disk.faults().calls.load(Ordering::Relaxed));
        assert!(calls > 12, "{calls}");
        for call in 0..calls {
            for threads in [1, 3] {
                let disk = SimulatedDisk::default();
                disk.faults().fail_at.store(call, Ordering::Relaxed);
                let error = write(&disk, &rows, threads, 1).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}");
                let left = disk.bytes(NAME);
                assert!(left.is_none() || left == whole, "call {call}");
                assert_eq!(disk.bytes(&format!("{NAME}.inprogress")), None);
            }
        }
    }
}
