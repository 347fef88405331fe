//! What opening a store did and cost: per stage and per space.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::options::Stage;
use super::usage::Usage;
use crate::file::vclock::Vclock;

/// What opening a store did and cost.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadReport {
    /// The snapshot that was read.
    pub snapshot: PathBuf,
    /// UUID of the instance that wrote it.
    pub instance: Option<String>,
    /// The vclock of the state, as Tarantool writes it: `{1: 1004}`.
    pub vclock: String,
    /// What was replayed of the logs; `None` where they were not looked at.
    pub logs: Option<LogReport>,
    /// The stages in the order in which they ran.
    pub stages: Vec<StageReport>,
    /// All stages together.
    pub total: StageReport,
    /// The spaces that were loaded, by id.
    pub spaces: Vec<SpaceReport>,
    /// What the caller should know of: oddities of the file, spaces that had to be sorted.
    pub notices: Vec<String>,
    /// Bytes that tuples and indexes take.
    pub memory_bytes: u64,
    /// The most memory that the process has had resident, in bytes.
    pub peak_memory_bytes: u64,
    /// Threads that read rows.
    pub threads: usize,
    /// What hints left to be compared in full.
    pub counters: Counters,
}

/// What was replayed of the logs.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct LogReport {
    /// Logs that were read.
    pub files: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Transactions that the snapshot did not hold, and their rows.
    pub transactions: u64,
    /// Rows of those transactions.
    pub rows: u64,
    /// Rows that the snapshot holds already.
    pub covered_rows: u64,
    /// Rows of spaces that are not in memory.
    pub skipped_rows: u64,
    /// Rows of request types that nobody knows, skipped because the caller asked for it.
    pub unknown_rows: u64,
    /// Operations of UPSERT that failed and were left out, as they were when they were written.
    pub failed_operations: u64,
    /// UPSERTs left out as a whole, because they would have changed the primary key.
    pub ignored_upserts: u64,
    /// Synchronous transactions, and those behind them, that were rolled back.
    pub rolled_back_transactions: u64,
    /// Synchronous transactions, and those behind them, that nobody has confirmed up to the end of the logs.
    pub unconfirmed_transactions: u64,
    /// Whether the unconfirmed ones are part of the state.
    pub holds_unconfirmed: bool,
    /// When the first and the last row were written, in seconds since 1970.
    pub first_timestamp: Option<f64>,
    /// See `first_timestamp`.
    pub last_timestamp: Option<f64>,
    /// Replay stopped at the point asked for, before the end of the logs.
    pub is_stopped: bool,
    /// Bytes of a block and rows of a transaction that were never finished, at the end of the last log.
    pub torn_bytes: u64,
    /// See `torn_bytes`.
    pub torn_rows: u64,
}

/// What one stage did and cost.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StageReport {
    /// The stage's name.
    pub name: &'static str,
    /// Rows that went through the stage; entries in the stages of indexes.
    pub rows: u64,
    /// Bytes that went through: of the file in `scan`, `schema`, `sample` and `rows`.
    pub bytes: u64,
    /// Time on the wall.
    pub wall: Duration,
    /// CPU time in the process, all threads.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Page faults served without reading: mostly first touches of memory.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
}

/// What was loaded of one space.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SpaceReport {
    /// Id of the space.
    pub id: u32,
    /// Name of the space.
    pub name: String,
    /// Tuples.
    pub tuples: u64,
    /// Bytes of the tuples' MsgPack.
    pub bytes: u64,
    /// Bytes of memory that tuples and indexes take, with what is not used yet of their slabs.
    pub memory_bytes: u64,
    /// CRC-32 of the tuples in primary order, for HASH primaries the sum of each tuple's CRC-32.
    pub fingerprint: Option<u32>,
    /// The rows were not in the order of the primary key and had to be sorted.
    pub sorted: bool,
    /// The indexes, by id.
    pub indexes: Vec<IndexReport>,
}

/// What was built of one index.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IndexReport {
    /// Id of the index.
    pub id: u32,
    /// Name of the index.
    pub name: String,
    /// Entries; more than tuples in a multikey index, fewer where nil is excluded.
    pub entries: u64,
    /// Bytes of its nodes.
    pub bytes: u64,
    /// Why it was not built.
    pub absent: Option<String>,
}

/// What hints left to be compared in full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Entries whose hint tied with another one's.
    pub ties: u64,
    /// Tuples that full comparisons looked at.
    pub tuple_touches: u64,
}

/// Measures stages as they pass.
pub(crate) struct Stages {
    begun: Instant,
    first: Usage,
    at: (Instant, Usage),
    done: Vec<StageReport>,
}

impl Stages {
    pub(crate) fn begin() -> Self {
        let (now, usage) = (Instant::now(), Usage::of_process());
        Self { begun: now, first: usage, at: (now, usage), done: Vec::new() }
    }

    /// Ends a stage that began where the one before ended.
    pub(crate) fn end(&mut self, stage: Stage, rows: u64, bytes: u64) {
        let now = (Instant::now(), Usage::of_process());
        let wall = now.0 - self.at.0;
        self.done.push(self.at.1.report(stage.name(), now.1, wall, rows, bytes));
        self.at = now;
    }

    /// All stages, and their total.
    pub(crate) fn finish(self, rows: u64, bytes: u64) -> (Vec<StageReport>, StageReport) {
        let total = self.first.report("total", self.at.1, self.at.0 - self.begun, rows, bytes);
        (self.done, total)
    }
}

impl LoadReport {
    pub(crate) fn new(snapshot: &Path, instance: Option<String>, vclock: &Vclock, threads: usize) -> Self {
        Self {
            snapshot: snapshot.into(),
            instance,
            vclock: vclock.to_string(),
            logs: None,
            stages: Vec::new(),
            total: StageReport::default(),
            spaces: Vec::new(),
            notices: Vec::new(),
            memory_bytes: 0,
            peak_memory_bytes: 0,
            threads,
            counters: Counters::default(),
        }
    }
}
