//! The transactions of a chain of logs, in order: whoever replays them begins here.
//!
//! ```text
//! Segments --> [ worker: Segment::read ] --> in order --> Framer, in the caller's thread --> take(&Transaction)
//! ```
//!
//! Rows of a transaction that lies in one block, as nearly all do, are given where they stand, so nothing is copied; of
//! one that does not, they are copied together within a limit. Memory is that of a few segments a thread.

use super::compress::Unpacker;
use super::disk::Disk;
use super::framing::Framer;
use super::log::LogChain;
use super::log_row::{LogRow, Record};
use super::pipeline::in_order;
use super::segment::{BlockPlace, Segments, Spares};
use super::vclock::Vclock;
use crate::error::Error;
use std::fmt;
use std::path::PathBuf;

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowPlace {
    /// Number of the log in its chain.
    pub(crate) log: usize,
    /// Number of the block in its log, and the byte of its head.
    pub(crate) block: u64,
    pub(crate) byte: u64,
    /// Number of the row in its block.
    pub(crate) row: u64,
}

/// Rows that were committed together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transaction<'a> {
    pub(super) log: usize,
    /// At least one.
    pub(super) rows: &'a [Record],
    /// What the rows' offsets count from.
    pub(super) bytes: &'a [u8],
    /// The blocks that the rows stand in: of each the number of its first row here.
    pub(super) blocks: &'a [(usize, BlockPlace)],
}

impl<'a> Transaction<'a> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// A row by its number in the transaction.
    #[inline]
    pub(crate) fn row(&self, number: usize) -> LogRow<'a> {
        LogRow::new(&self.rows[number], self.bytes)
    }

    #[inline]
    pub(crate) fn rows(&self) -> impl Iterator<Item = LogRow<'a>> {
        self.rows.iter().map(|row| LogRow::new(row, self.bytes))
    }

    pub(crate) fn place(&self, number: usize) -> RowPlace {
        let block = self.blocks.partition_point(|&(first, _)| first <= number) - 1;
        let BlockPlace { index, byte } = self.blocks[block].1;
        RowPlace { log: self.log, block: index, byte, row: self.rows[number].number.into() }
    }
}

impl Transaction<'_> {
    /// Number of the log in its chain; of the last row, if there are several.
    #[inline]
    pub(crate) fn log(&self) -> usize {
        self.log
    }

    /// A copy that outlives the block.
    pub(crate) fn kept(&self) -> OwnedTransaction {
        let mut bytes = Vec::with_capacity(self.rows.iter().map(|row| row.bytes(self.bytes).len()).sum());
        let rows = self.rows.iter().map(|row| {
            let moved = row.moved(bytes.len());
            bytes.extend_from_slice(row.bytes(self.bytes));
            moved
        });
        OwnedTransaction { log: self.log, rows: rows.collect(), blocks: self.blocks.to_vec(), bytes }
    }
}

/// A transaction apart from the block that it was read from.
#[derive(Debug)]
pub(crate) struct OwnedTransaction {
    log: usize,
    rows: Vec<Record>,
    bytes: Vec<u8>,
    blocks: Vec<(usize, BlockPlace)>,
}

impl OwnedTransaction {
    /// Bytes of memory, as near as matters.
    pub(crate) fn bytes(&self) -> u64 {
        (self.bytes.len() + self.rows.len() * size_of::<Record>() + size_of::<Self>()) as u64
    }

    pub(crate) fn as_transaction(&self) -> Transaction<'_> {
        Transaction { log: self.log, rows: &self.rows, bytes: &self.bytes, blocks: &self.blocks }
    }
}

/// What is wrong with a transaction: the number of the row in it, and the error, whose place is added.
pub(crate) type RowFault = (usize, Error);

/// What a log ended in that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Torn {
    pub(crate) file: PathBuf,
    /// From where on nothing is of use.
    pub(crate) byte: u64,
    /// Bytes of a block that was never finished.
    pub(crate) bytes: u64,
    /// Rows of a transaction that was never finished.
    pub(crate) rows: u64,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, byte, bytes, rows } = self;
        let rows_text = format!("{rows} rows of a transaction without its last row");
        let bytes_text = format!("{bytes} bytes that are no whole block");
        let what = match (rows, bytes) {
            (0, _) => bytes_text,
            (_, 0) => rows_text,
            _ => format!("{rows_text} and {bytes_text}"),
        };
        write!(f, "{}, byte {byte}: the log ends in {what}; they are left out", file.display())
    }
}

/// What has been read of the logs.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct LogEnd {
    /// Of the state after the last transaction.
    pub(crate) vclock: Vclock,
    /// Given to the caller.
    pub(crate) transactions: u64,
    pub(crate) rows: u64,
    /// Skipped, because the snapshot holds them.
    pub(crate) covered_rows: u64,
    /// Of blocks, as they stand in the files.
    pub(crate) bytes: u64,
    /// Seconds since 1970, of the first row and of the last one that were given.
    pub(crate) first_timestamp: Option<f64>,
    pub(crate) last_timestamp: Option<f64>,
    /// Whether it was stopped at the point asked for, and the first row that lies beyond, if it has been seen.
    pub(crate) is_stopped: bool,
    pub(crate) stopped_before: Option<RowPlace>,
    pub(crate) torn: Option<Torn>,
    pub(crate) notices: Vec<String>,
}

/// Gives every transaction of the logs that the snapshot does not hold to `take`, in the order of the logs; rows of
/// several replicas stand as they stand there. `threads`: with the caller's, which puts transactions together and
/// takes them. `unpacked_bytes_max`: as for [`Unpacker::new`], and the most that is copied of one transaction.
///
/// # Errors
/// Damage, where it is: all transactions before it have been taken. Not so the end of the last log that a crash has
/// left torn, which is left out and told in [`LogEnd`].
pub(crate) fn for_each_transaction(
    disk: &dyn Disk,
    chain: &LogChain,
    threads: usize,
    unpacked_bytes_max: usize,
    mut take: impl FnMut(&Transaction<'_>) -> Result<(), RowFault>,
) -> Result<LogEnd, Error> {
    let spares = Spares::default();
    let mut segments = Segments::new(disk, &chain.files, &spares);
    let mut framer = Framer::new(chain, unpacked_bytes_max)?;
    in_order(
        threads.saturating_sub(1),
        || segments.next(),
        || Unpacker::new(unpacked_bytes_max),
        |unpacker, mut segment| {
            segment.read(unpacker, unpacked_bytes_max);
            segment
        },
        |segment| {
            let flow = framer.segment(&segment, &mut take);
            spares.put(segment);
            flow
        },
    )?;
    framer.finish()
}
