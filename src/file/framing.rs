//! Framing: from rows in the order of the logs to transactions, with all that shows whether they are whole.
//!
//! ```text
//! row of replica   LSN   key 8   TSN = LSN - key 8   COMMIT
//!              1    14       0                  14               three rows of one transaction
//!              1    15       1                  14
//!              1    16       2                  14        x
//!              1    17                   (its LSN)       (x)     a transaction of one row needs no key 8
//!      0, local      2   2^64-16                18               its TSN is the LSN of the first row that is replicated,
//!              1    18                   (its LSN)       (x)     which here closes the transaction without key 8
//! ```
//!
//! A row that says no TSN has its LSN for it, and ends its transaction; others end it by the flag COMMIT. As long as a
//! transaction is open every row must have its TSN, and one of them must have that TSN for its LSN: the first that
//! is replicated, or the first of all if none is. Rows of RAFT and of synchronous replication stand alone.
//!
//! The LSNs of each replica go up by one from the log's vclock on, and from log to log. That is how a block is noticed
//! that is missing, doubled or swapped, and the end of a log that was lost before another one.
//!
//! Older writers did one thing and another differently (`habits`).
//!
//! Rows up to the snapshot's vclock are skipped one by one, as Tarantool does. A transaction that the snapshot holds by
//! half, which no checkpoint leaves, is given without those rows, and a notice tells of it.

use super::compress::BUFFER_BYTES_KEPT;
use super::habits::Habits;
use super::log::{LogChain, beyond_snapshot};
use super::log_row::{LogRow, Record};
use super::row::kind_text;
use super::segment::{BlockPlace, Segment, Then};
use super::stop::Lookout;
use super::transaction::{LogEnd, RowFault, RowPlace, Transaction};
use super::vclock::Vclock;
use crate::error::{Error, ErrorKind};
use crate::limits::{BLOCK_UNPACKED_BYTES_MAX, VCLOCK_COMPONENTS};
use std::ops::{ControlFlow, Range};

/// A transaction of which not all rows have come.
pub(super) struct Open {
    pub(super) tsn: u64,
    /// Whether a row whose LSN is the TSN has come, where it should be.
    is_anchored: bool,
    /// Whether a row has come that is replicated.
    has_global: bool,
    pub(super) rows: u64,
    covered_rows: u64,
    /// Its first row.
    pub(super) place: RowPlace,
    /// Before its first row.
    pub(super) clock: Vclock,
}

/// Rows of a transaction that began in an earlier block, copied together.
#[derive(Default)]
pub(super) struct Kept {
    rows: Vec<Record>,
    bytes: Vec<u8>,
    blocks: Vec<(usize, BlockPlace)>,
}

impl Kept {
    pub(super) fn clear(&mut self) {
        if self.bytes.capacity() + self.rows.capacity() * size_of::<Record>() > BUFFER_BYTES_KEPT {
            *self = Self::default();
        }
        self.rows.clear();
        self.bytes.clear();
        self.blocks.clear();
    }
}

/// What may happen often and is told once.
#[derive(Default)]
pub(super) struct Tally {
    count: u64,
    first: String,
}

impl Tally {
    fn add(&mut self, text: impl FnOnce() -> String) {
        if self.count == 0 {
            self.first = text();
        }
        self.count += 1;
    }

    pub(super) fn tell(&mut self, notices: &mut Vec<String>) {
        match std::mem::take(self) {
            Self { count: 0, .. } => {}
            Self { count: 1, first } => notices.push(first),
            Self { count, first } => notices.push(format!("{first}; {} more of the kind", count - 1)),
        }
    }
}

/// Whether to go on.
pub(super) type Flow = Result<ControlFlow<()>, Error>;

pub(super) const GO_ON: Flow = Ok(ControlFlow::Continue(()));
const STOP: Flow = Ok(ControlFlow::Break(()));

pub(super) struct Framer<'a> {
    pub(super) chain: &'a LogChain,
    pub(super) lookout: Lookout,
    kept_bytes_max: usize,
    /// The log that is being read; none yet.
    log: Option<usize>,
    pub(super) habits: Habits,
    /// Up to the last row read.
    pub(super) clock: Vclock,
    pub(super) open: Option<Open>,
    pub(super) kept: Kept,
    pub(super) gaps: Tally,
    pub(super) halves: Tally,
    pub(super) end: LogEnd,
}

impl<'a> Framer<'a> {
    pub(super) fn new(chain: &'a LogChain, kept_bytes_max: usize) -> Result<Self, Error> {
        Ok(Self {
            chain,
            lookout: Lookout::new(&chain.stop, &chain.covered)?,
            kept_bytes_max: kept_bytes_max.min(BLOCK_UNPACKED_BYTES_MAX),
            log: None,
            habits: Habits { gaps: false, late_tsn: false },
            clock: chain.files.first().map_or(chain.covered, |first| first.header.vclock),
            open: None,
            kept: Kept::default(),
            gaps: Tally::default(),
            halves: Tally::default(),
            end: LogEnd::default(),
        })
    }

    /// The state of the last whole transaction.
    pub(super) fn reached(&self) -> Vclock {
        let clock = self.open.as_ref().map_or(&self.clock, |open| &open.clock);
        self.chain.covered.joined(clock)
    }

    pub(super) fn stop(&mut self, place: Option<RowPlace>) -> Flow {
        (self.end.is_stopped, self.end.stopped_before) = (true, place);
        STOP
    }

    /// Takes the rows of a segment.
    pub(super) fn segment<F>(&mut self, segment: &Segment, take: &mut F) -> Flow
    where
        F: FnMut(&Transaction<'_>) -> Result<(), RowFault>,
    {
        let file = &self.chain.files[segment.log];
        if self.log != Some(segment.log) {
            self.log = Some(segment.log);
            self.habits = Habits::of(file.header.writer.as_deref());
        }
        self.end.bytes += segment.file_bytes();
        for (place, payload, rows) in segment.blocks() {
            let block = BlockRows { log: segment.log, place: [(0, place)], payload, rows };
            let flow = self
                .block(&block, take)
                .map_err(|error| error.block(place.index, place.byte).file(&file.path))?;
            if flow.is_break() {
                return STOP;
            }
        }
        match &segment.then {
            Then::More => GO_ON,
            Then::End(end) => self.end_of(segment.log, *end),
            Then::Fault(error) => self.fault(error),
        }
    }

    /// Something is wrong behind what has been read. Who stops right before it need not know.
    pub(super) fn fault(&mut self, error: &Error) -> Flow {
        if self.lookout.is_met(&self.reached()) { self.stop(None) } else { Err(error.clone()) }
    }

    fn block<F>(&mut self, block: &BlockRows<'_>, take: &mut F) -> Flow
    where
        F: FnMut(&Transaction<'_>) -> Result<(), RowFault>,
    {
        // The first row here of the open transaction.
        let mut start = 0;
        for (number, row) in block.rows.iter().enumerate() {
            let placed = |error: Error| error.row(row.number.into());
            let before = self.clock.get(row.replica_id);
            if !self.clock.step(row.replica_id, row.lsn) && self.odd_lsn(block, row).map_err(placed)? {
                return self.stop(Some(block.place_of(row)));
            }
            let is_covered = row.lsn <= self.chain.covered.get(row.replica_id);
            if self.lookout.is_passed_by(row.replica_id, row.lsn, row.timestamp()).map_err(placed)? {
                if is_covered {
                    return Err(placed(beyond_snapshot("rows that are later, as this one")));
                }
                self.clock = self.clock.with(row.replica_id, before);
                return self.stop(Some(block.place_of(row)));
            }
            if self.open.is_none() && row.is_last && row.tsn == row.lsn {
                if is_covered {
                    self.end.covered_rows += 1;
                } else {
                    self.give(&block.transaction(number..number + 1), take)?;
                }
                continue;
            }
            if self.open.is_none() {
                start = number;
            }
            let next = block.rows.get(number + 1);
            if self.join(block, row, before, next).map_err(placed)? {
                self.close(block, start..number + 1, take)?;
            }
        }
        if let Some(open) = &self.open {
            let place = open.place;
            self.keep(block, start..block.rows.len()).map_err(|error| self.at(place, error))?;
        }
        GO_ON
    }

    /// The error with its place.
    pub(super) fn at(&self, place: RowPlace, error: Error) -> Error {
        error.row(place.row).block(place.block, place.byte).file(&self.chain.files[place.log].path)
    }

    /// An LSN that is not the next one of its replica. Gives whether the point to stop at lies before it.
    #[cold]
    #[inline(never)]
    fn odd_lsn(&mut self, block: &BlockRows<'_>, row: &Record) -> Result<bool, Error> {
        let (id, lsn) = (row.replica_id, row.lsn);
        if id as usize >= VCLOCK_COMPONENTS {
            return Err(Error::new(ErrorKind::Row, "replica id")
                .expected(format_args!("less than {VCLOCK_COMPONENTS}"))
                .found(id));
        }
        let expected = |next: u64| match id {
            0 => format!("LSN {next} of local spaces"),
            _ => format!("LSN {next} of replica {id}"),
        };
        let last = self.clock.get(id);
        if lsn <= last {
            let what = if lsn == 0 { "row of a log" } else { "a row is there twice, or too late" };
            let found = if lsn == 0 { "none".into() } else { lsn.to_string() };
            let next = last.saturating_add(1);
            return Err(Error::new(ErrorKind::RowNumber, what).expected(expected(next)).found(found));
        }
        let covered = self.chain.covered.get(id);
        let next = last.max(covered).saturating_add(1);
        // Rows that the snapshot holds may be missing.
        if lsn > next {
            if self.lookout.is_before(id, next) {
                return Ok(true);
            }
            if !self.habits.gaps {
                return Err(Error::new(ErrorKind::RowNumber, "rows are missing")
                    .expected(expected(next))
                    .found(lsn));
            }
        }
        let path = self.chain.files[block.log].path.display();
        self.gaps.add(|| {
            let why = if lsn > next {
                "as its writer left them where a write failed"
            } else {
                "which the snapshot holds"
            };
            let place = block.place[0].1;
            format!(
                "{path}, block {} at byte {}, row {}: {} is missing before LSN {lsn}, {why}",
                place.index,
                place.byte,
                row.number,
                expected(last + 1)
            )
        });
        self.clock.raise(id, lsn);
        Ok(false)
    }

    /// Takes a row into the open transaction, or opens one. Gives whether the transaction is whole. `before`: the LSN
    /// before the row's; `next`: the row after it in the same block.
    fn join(
        &mut self,
        block: &BlockRows<'_>,
        row: &Record,
        before: u64,
        next: Option<&Record>,
    ) -> Result<bool, Error> {
        let open = self.open.get_or_insert_with(|| Open {
            tsn: row.tsn,
            is_anchored: false,
            has_global: false,
            rows: 0,
            covered_rows: 0,
            place: block.place_of(row),
            clock: self.clock.with(row.replica_id, before),
        });
        let fault = |what: &str| Error::new(ErrorKind::Row, what);
        if row.tsn != open.tsn {
            return Err(fault("transaction without its last row")
                .expected(format_args!("a row with the TSN {}", open.tsn))
                .found(format_args!("the TSN {}", row.tsn)));
        }
        let is_first = open.rows == 0;
        if row.is_alone() && !(is_first && row.is_last) {
            return Err(fault("transaction")
                .expected("rows that change data, or nothing")
                .found(format_args!("{}, which stands alone", kind_text(block.row(row).kind()))));
        }
        let is_anchor = row.lsn == row.tsn;
        if self.habits.late_tsn {
            open.is_anchored |= is_anchor;
        } else if is_first || (!row.is_local && !open.has_global) {
            open.is_anchored = is_anchor;
        }
        open.has_global |= !row.is_local;
        open.rows += 1;
        open.covered_rows += u64::from(row.lsn <= self.chain.covered.get(row.replica_id));
        if !row.is_last {
            return Ok(false);
        }
        let goes_on = self.habits.late_tsn && next.is_some_and(|next| next.tsn == row.tsn);
        if !open.is_anchored && !goes_on {
            return Err(fault("transaction without its first row")
                .expected(format_args!("one whose LSN is the TSN {}", open.tsn))
                .found(format_args!("none among {}, up to LSN {}", open.rows, row.lsn)));
        }
        Ok(open.is_anchored)
    }

    /// Gives the open transaction, which ends here.
    fn close<F>(&mut self, block: &BlockRows<'_>, rows: Range<usize>, take: &mut F) -> Result<(), Error>
    where
        F: FnMut(&Transaction<'_>) -> Result<(), RowFault>,
    {
        let open = self.open.take().expect("a transaction that ends has begun");
        self.end.covered_rows += open.covered_rows;
        if self.kept.rows.is_empty() && open.covered_rows == 0 {
            return self.give(&block.transaction(rows), take);
        }
        self.keep(block, rows.start..rows.end).map_err(|error| self.at(open.place, error))?;
        if open.covered_rows != 0 && open.covered_rows != open.rows {
            let place = self.at(open.place, Error::new(ErrorKind::Row, "transaction"));
            self.halves.add(|| {
                format!("{place}: {} of its {} rows are in the snapshot", open.covered_rows, open.rows)
            });
        }
        let mut kept = std::mem::take(&mut self.kept);
        if !kept.rows.is_empty() {
            let Kept { rows, bytes, blocks } = &kept;
            self.give(&Transaction { log: block.log, rows, bytes, blocks }, take)?;
        }
        kept.clear();
        self.kept = kept;
        Ok(())
    }

    /// Copies rows of the open transaction, those alone that the snapshot does not hold.
    fn keep(&mut self, block: &BlockRows<'_>, rows: Range<usize>) -> Result<(), Error> {
        let kept = &mut self.kept;
        kept.blocks.push((kept.rows.len(), block.place[0].1));
        for row in &block.rows[rows] {
            if row.lsn <= self.chain.covered.get(row.replica_id) {
                continue;
            }
            let bytes = row.bytes(block.payload);
            let needed = kept.bytes.len() + bytes.len() + (kept.rows.len() + 1) * size_of::<Record>();
            if needed > self.kept_bytes_max
                || kept.bytes.try_reserve(bytes.len()).is_err()
                || kept.rows.try_reserve(1).is_err()
            {
                return Err(Error::new(ErrorKind::Memory, "memory for a transaction of several blocks")
                    .expected(format_args!("at most {} bytes", self.kept_bytes_max))
                    .found(format_args!("{needed}, and more rows to come")));
            }
            kept.rows.push(row.moved(kept.bytes.len()));
            kept.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }

    #[inline]
    fn give<F>(&mut self, transaction: &Transaction<'_>, take: &mut F) -> Result<(), Error>
    where
        F: FnMut(&Transaction<'_>) -> Result<(), RowFault>,
    {
        take(transaction).map_err(|(row, error)| self.at(transaction.place(row), error))?;
        self.end.transactions += 1;
        self.end.rows += transaction.rows.len() as u64;
        let timestamp = transaction.rows[0].timestamp();
        self.end.first_timestamp = self.end.first_timestamp.or(timestamp);
        self.end.last_timestamp = timestamp.or(self.end.last_timestamp);
        Ok(())
    }
}

/// The rows of a block.
struct BlockRows<'a> {
    log: usize,
    /// Of the block, as a transaction in it names its blocks.
    place: [(usize, BlockPlace); 1],
    payload: &'a [u8],
    rows: &'a [Record],
}

impl BlockRows<'_> {
    fn place_of(&self, row: &Record) -> RowPlace {
        let BlockPlace { index, byte } = self.place[0].1;
        RowPlace { log: self.log, block: index, byte, row: row.number.into() }
    }

    fn row<'a>(&'a self, record: &'a Record) -> LogRow<'a> {
        LogRow::new(record, self.payload)
    }

    #[inline]
    fn transaction(&self, rows: Range<usize>) -> Transaction<'_> {
        Transaction { log: self.log, rows: &self.rows[rows], bytes: self.payload, blocks: &self.place }
    }
}
