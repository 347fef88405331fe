//! From a snapshot to a store: the journey on one page.
//!
//! ```text
//! scan       hop over the block heads: every block lies inside the file, the end marker is there
//! schema     the rows of the system spaces, which come first -> definitions -> formats, key definitions
//! sample     unpack some blocks spread over the file -> ranges of keys, buckets
//! rows       all threads, block by block: pread, CRC, zstd, rows; one walk a tuple (types, field map); into the slab;
//!            primary leaves, hints of secondary keys into buckets
//! join       the edges of what the threads have read; small spaces are indexed
//! secondary  each bucket sorted in cache and written back into its own leaves; inner nodes
//! logs       every transaction that the snapshot does not hold, in order: `replay`
//! ```
//!
//! Nothing is written, locked or changed. Memory beyond what the store keeps is a few blocks a thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::options::{Options, Progress, Stage};
use super::replay::Replay;
use super::report::{IndexReport, LoadReport, LogReport, SpaceReport, Stages};
use super::rows::{self, Numbers, Spaces, Task, Worker};
use super::synchro::Synchro;
use super::usage::Usage;
use crate::error::{Error, ErrorKind, Result};
use crate::file::block::BlockHead;
use crate::file::directory;
use crate::file::disk::RealDisk;
use crate::file::heads::scan_heads;
use crate::file::log::{self, LogChain};
use crate::file::pipeline::BlockLoader;
use crate::file::rewind::snapshot_up_to;
use crate::file::row::{SnapRow, snapshot_row};
use crate::file::source::ContainerFile;
use crate::file::transaction::{LogEnd, for_each_transaction};
use crate::file::vclock::Vclock;
use crate::index::build::{Cost, Part, Scratch};
use crate::limits::{BLOCK_UNPACKED_BYTES_MAX, SYSTEM_SPACE_ID_END};
use crate::msgpack::skip;
use crate::parallel;
use crate::space::alter::Catalog;
use crate::space::catalog::{Schema, SchemaBuilder};
use crate::space::definition::{IndexDef, SpaceDef};
use crate::space::loader::{Gathered, LoadOptions, SAMPLE_TUPLES_MIN};
use crate::space::system;
use crate::space::table::{IndexData, Table};
use crate::tuple::slab::Budget;

/// Blocks that are unpacked to learn the ranges of keys; spread over the file, because keys often ascend with it.
const SAMPLE_BLOCKS: usize = 48;

/// In a file of fewer blocks everything is small: spaces are sampled from their own tuples when all rows are in.
const SAMPLE_BLOCKS_MIN: usize = 96;

/// Blocks that a thread takes at a time, so that the leaves of a primary key are cut less often.
const JOB_BLOCKS: usize = 8;

/// What a row takes of a log, where compression works well: for a guess at how many there are.
const LOG_BYTES_PER_ROW: u64 = 20;

/// What recovery gives.
pub(crate) struct Recovered {
    pub(crate) schema: Schema,
    /// The loaded spaces, by id.
    pub(crate) tables: Vec<Table>,
    pub(crate) report: LoadReport,
    pub(crate) origin: Origin,
    /// Of the last transaction.
    pub(crate) vclock: Vclock,
    pub(crate) budget: Arc<Budget>,
}

/// Of a state, what is neither a definition nor a tuple: where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// UUID of the instance.
    pub(crate) instance: Option<String>,
    pub(super) synchro: Synchro,
    /// Synchronous transactions that are part of the state, although nobody has confirmed them.
    pub(super) unconfirmed: u64,
}

/// Reads the definitions alone.
pub(crate) fn read_schema(path: &Path, options: &Options) -> Result<Schema> {
    let snapshot = Snapshot::open(path, options)?;
    let schema = snapshot.schema(Definitions::First)?.schema;
    let Some(chain) = snapshot.chain(options)? else { return Ok(schema) };
    if !has_rows(&chain)? {
        return Ok(schema);
    }
    // Definitions may have changed: then the system spaces are all that is needed.
    let system = |space: &SpaceDef| system::is_followed(space.id);
    let recovered = recover_from(snapshot, Some(Ok(chain)), options, &system, Stages::begin())?;
    Ok(recovered.schema)
}

/// Opens the newest snapshot of a folder and replays the logs after it, or opens a lone snapshot.
pub(crate) fn recover(path: &Path, options: &Options) -> Result<Recovered> {
    let stages = Stages::begin();
    let snapshot = Snapshot::open(path, options)?;
    // What is wrong with a log is told after what is wrong with the snapshot.
    let chain = snapshot.chain(options).transpose();
    let recovered = recover_from(snapshot, chain, options, &|space| rows::is_wanted(space, options), stages)?;
    rows::check_wanted(&recovered.schema, options)?;
    Ok(recovered)
}

/// What a snapshot holds, without its logs.
pub(super) struct Loaded {
    pub(super) schema: Schema,
    pub(super) tables: Vec<Table>,
    threads: usize,
    pub(super) rows: u64,
    pub(super) synchro: Synchro,
    pub(super) budget: Arc<Budget>,
    notices: Vec<String>,
    pub(super) numbers: Vec<Numbers>,
}

/// Loads those blocks of a snapshot that are whole. `first_lost`: where the first one was that is not; if that is among
/// the definitions, nothing is loaded.
pub(super) fn load_rescued(
    file: &Arc<ContainerFile>,
    heads: &[BlockHead],
    first_lost: Option<u64>,
    unpacked_bytes_max: usize,
    options: &Options,
) -> Result<Option<Loaded>> {
    let snapshot = Snapshot {
        file: file.clone(),
        heads: heads.to_vec(),
        folder: None,
        notices: Vec::new(),
        unpacked_bytes_max,
        is_whole: false,
    };
    let user_block = snapshot.schema(Definitions::First)?.user_block;
    if first_lost.is_some_and(|byte| heads.get(user_block).is_none_or(|head| byte < head.byte)) {
        return Ok(None);
    }
    let is_loaded = |space: &SpaceDef| rows::is_wanted(space, options);
    let late = AtomicBool::new(false);
    snapshot.load(options, &is_loaded, Definitions::First, &late, &mut Stages::begin()).map(Some)
}

fn unpacked_bytes_max(options: &Options) -> usize {
    let limit = options.max_memory.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    limit.min(BLOCK_UNPACKED_BYTES_MAX)
}

/// Whether there is any transaction that the snapshot does not hold.
fn has_rows(chain: &LogChain) -> Result<bool> {
    let mut found = false;
    let outcome = for_each_transaction(&RealDisk, chain, 1, BLOCK_UNPACKED_BYTES_MAX, |_| {
        found = true;
        Err((0, Error::new(ErrorKind::Usage, "the first transaction is enough")))
    });
    match outcome {
        _ if found => Ok(true),
        outcome => outcome.map(|_| false),
    }
}

fn recover_from(
    snapshot: Snapshot,
    chain: Option<Result<LogChain>>,
    options: &Options,
    is_wanted: &(dyn Fn(&SpaceDef) -> bool + Sync),
    mut stages: Stages,
) -> Result<Recovered> {
    stages.end(Stage::Scan, 0, snapshot.file.bytes());
    // Whatever is asked for, definitions that change in the logs are read from the system spaces.
    let is_replayed = chain.is_some();
    let is_loaded = |space: &SpaceDef| is_wanted(space) || (is_replayed && system::is_followed(space.id));
    let late = AtomicBool::new(false);
    let mut load = |definitions| snapshot.load(options, &is_loaded, definitions, &late, &mut stages);
    let mut loaded = load(Definitions::First);
    if loaded.is_err() && late.load(Ordering::Relaxed) {
        // A definition stands behind rows of user spaces: no Tarantool writes that, but some read it.
        loaded = load(Definitions::Everywhere);
    }
    let Loaded { mut schema, mut tables, threads, mut rows, synchro, budget, notices, .. } = loaded?;

    let header = &snapshot.file.header;
    let mut report = LoadReport::new(&snapshot.file.path, header.instance.clone(), &header.vclock, threads);
    report.notices.extend_from_slice(&snapshot.notices);
    report.notices.extend_from_slice(schema.notices());
    report.notices.extend(header.instance.as_deref().and_then(|instance| schema.instance_notice(instance)));
    report.notices.extend(notices);
    let mut vclock = header.vclock;
    let mut origin = Origin { instance: header.instance.clone(), synchro, unconfirmed: 0 };
    if let Some(chain) = chain {
        let chain = chain?;
        let noticed = schema.notices().len();
        let rows_to_come = chain.bytes() / LOG_BYTES_PER_ROW;
        let replay_threads = parallel::threads_for(options.threads, usize::MAX);
        let catalog =
            Catalog::new(schema, tables, &is_loaded, budget.clone(), load_options(options), rows_to_come);
        let synchro = origin.synchro.clone();
        let mut replay =
            Replay::new(catalog, &chain, synchro, budget.clone(), options.skip_unknown, replay_threads);
        let end = replay_logs(&mut replay, &chain, options, &snapshot)?;
        let mut logs = std::mem::take(&mut replay.report);
        (vclock, origin.synchro) = (end.vclock, replay.synchro);
        (schema, tables) = replay.catalog.finish(options.threads)?;
        report.vclock = end.vclock.to_string();
        report.notices.extend_from_slice(&schema.notices()[noticed..]);
        report.notices.extend(log_notices(&chain, &end, &logs));
        tell(&mut logs, &chain, end, options);
        rows += logs.rows;
        origin.unconfirmed = if logs.holds_unconfirmed { logs.unconfirmed_transactions } else { 0 };
        stages.end(Stage::Logs, logs.rows, logs.bytes);
        report.logs = Some(logs);
        tables.retain(|table| is_wanted(&table.def));
        if options.fingerprint {
            let stale: Vec<&mut Table> =
                tables.iter_mut().filter(|table| table.fingerprint.is_none()).collect();
            parallel::each(options.threads, stale, |table| {
                table.fingerprint = Some(table.scan_fingerprint());
                Ok(())
            })?;
            stages.end(Stage::Sums, tables.iter().map(|table| table.tuples).sum(), 0);
        }
    }
    for table in &tables {
        if table.was_sorted() {
            let name = &table.def.name;
            let what = "its rows were not in the order of the primary key and have been sorted";
            report.notices.push(format!("space {name}: {what}"));
        }
        report.counters.ties += table.cost.ties;
        report.counters.tuple_touches += table.cost.touches;
        report.memory_bytes += table.memory_bytes();
        report.spaces.push(space_report(table));
    }
    let log_bytes = report.logs.as_ref().map_or(0, |logs| logs.bytes);
    (report.stages, report.total) = stages.finish(rows, snapshot.file.bytes() + log_bytes);
    report.peak_memory_bytes = Usage::of_process().peak_bytes;
    Ok(Recovered { schema, tables, report, origin, vclock, budget })
}

fn replay_logs(
    replay: &mut Replay<'_>,
    chain: &LogChain,
    options: &Options,
    snapshot: &Snapshot,
) -> Result<LogEnd> {
    let threads = parallel::threads_for(options.threads, usize::MAX);
    let meter = Meter::new(options, chain.bytes());
    let read = for_each_transaction(&RealDisk, chain, threads, snapshot.unpacked_bytes_max, |transaction| {
        meter.add(Stage::Logs, transaction.len() as u64, 0);
        replay.take(transaction)
    });
    // Of rows that wait one may be at fault, and it stands before what the reader found.
    replay.flush()?;
    let end = read?;
    replay.finish(options.drop_unconfirmed)?;
    Ok(end)
}

pub(super) fn load_options(options: &Options) -> LoadOptions {
    LoadOptions { hints: options.hints, nested: options.nested, fingerprint: options.fingerprint }
}

/// What of a replay a person should know.
fn log_notices(chain: &LogChain, end: &LogEnd, logs: &LogReport) -> Vec<String> {
    let mut notices = chain.notices.clone();
    notices.extend_from_slice(&end.notices);
    let mut count = |number: u64, what: &str| {
        if number > 0 {
            notices.push(format!("logs: {number} {what}"));
        }
    };
    count(logs.unknown_rows, "rows of unknown request types were skipped");
    count(logs.failed_operations, "operations of UPSERT failed and were left out, as when they were written");
    count(logs.ignored_upserts, "UPSERTs would have changed the primary key and were left out");
    count(
        logs.unconfirmed_transactions,
        "synchronous transactions, or such behind them, were never confirmed",
    );
    notices
}

/// The rest of the report on logs.
fn tell(logs: &mut LogReport, chain: &LogChain, end: LogEnd, options: &Options) {
    logs.files = chain.files.len() as u64;
    (logs.bytes, logs.transactions, logs.rows) = (end.bytes, end.transactions, end.rows);
    logs.covered_rows = end.covered_rows;
    (logs.first_timestamp, logs.last_timestamp) = (end.first_timestamp, end.last_timestamp);
    logs.is_stopped = end.is_stopped;
    logs.holds_unconfirmed = logs.unconfirmed_transactions > 0 && !options.drop_unconfirmed;
    (logs.torn_bytes, logs.torn_rows) = end.torn.map_or((0, 0), |torn| (torn.bytes, torn.rows));
}

/// Which rows define spaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Definitions {
    /// Those before the first row of a user space.
    First,
    /// All in the file.
    Everywhere,
}

/// A snapshot whose blocks are known.
struct Snapshot {
    file: Arc<ContainerFile>,
    heads: Vec<BlockHead>,
    /// The folder that it was found in.
    folder: Option<PathBuf>,
    notices: Vec<String>,
    /// The most that a block may unpack to: as much as the store may take, for it would hold the block's tuples.
    unpacked_bytes_max: usize,
    /// No block may be missing.
    is_whole: bool,
}

/// The definitions, and the first block with a row of a user space.
struct SchemaRows {
    schema: Schema,
    rows: u64,
    user_block: usize,
}

impl Snapshot {
    fn open(path: &Path, options: &Options) -> Result<Self> {
        let directory::Snapshot { file, folder, notices } =
            snapshot_up_to(&RealDisk, path, options.wal_dir.as_deref(), &options.stop)?;
        let heads = scan_heads(&file, |_| {})?.heads;
        let unpacked_bytes_max = unpacked_bytes_max(options);
        Ok(Self { file: Arc::new(file), heads, folder, notices, unpacked_bytes_max, is_whole: true })
    }

    /// The logs after the snapshot; `None`: nobody wants them, or knows where they are.
    fn chain(&self, options: &Options) -> Result<Option<LogChain>> {
        match options.wal_dir.as_ref().or(self.folder.as_ref()) {
            Some(folder) if !options.snapshot_only => {
                log::chain(&RealDisk, folder, &self.file, &options.stop).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads the rows of the system spaces.
    fn schema(&self, definitions: Definitions) -> Result<SchemaRows> {
        let mut builder = SchemaBuilder::new();
        let mut loader = BlockLoader::new(&self.file, self.unpacked_bytes_max);
        let (mut rows, mut user_block) = (0, self.heads.len());
        'blocks: for (number, head) in self.heads.iter().enumerate() {
            let payload = loader.load(head)?;
            let (mut at, mut row) = (0, 0);
            while at < payload.len() {
                let placed = |error: Error| self.file.place(error.row(row).block(head.index, head.byte));
                at = match snapshot_row(payload, at).map_err(placed)? {
                    SnapRow::Insert { space_id, tuple_at, row_end, .. } => {
                        let is_user = space_id >= SYSTEM_SPACE_ID_END;
                        if is_user {
                            user_block = user_block.min(number);
                        }
                        if is_user && definitions == Definitions::First {
                            break 'blocks;
                        }
                        let tuple_end =
                            skip::skip(payload, tuple_at).map_err(|fault| placed(fault.error(payload)))?;
                        if !is_user {
                            builder.row(space_id, &payload[tuple_at..tuple_end]).map_err(placed)?;
                        }
                        row_end.unwrap_or(tuple_end)
                    }
                    SnapRow::Other { row_end, .. } => row_end,
                };
                row += 1;
            }
            rows += row;
        }
        let schema = builder.finish().map_err(|error| self.file.place(error))?;
        Ok(SchemaRows { schema, rows, user_block })
    }

    fn load(
        &self,
        options: &Options,
        is_loaded: &(dyn Fn(&SpaceDef) -> bool + Sync),
        definitions: Definitions,
        late: &AtomicBool,
        stages: &mut Stages,
    ) -> Result<Loaded> {
        let placed = |error: Error| self.file.place(error);
        let SchemaRows { schema, rows, user_block } = self.schema(definitions)?;
        let budget = Arc::new(Budget::new(options.max_memory));
        let mut spaces = Spaces::new(&schema, is_loaded, load_options(options), &budget).map_err(placed)?;
        stages.end(Stage::Schema, rows, self.bytes_before(user_block));

        self.sample(&mut spaces, user_block, &budget, stages);

        let late = (definitions == Definitions::First).then_some(late);
        let task = Task {
            file: &self.file,
            heads: &self.heads,
            schema: &schema,
            spaces: &spaces,
            user_block,
            late,
            unpacked_bytes_max: self.unpacked_bytes_max,
        };
        let jobs = self.heads.len().div_ceil(JOB_BLOCKS);
        let threads = parallel::threads_for(options.threads, jobs);
        let meter = Meter::new(options, self.file.bytes());
        let workers = (0..threads).map(|_| Worker::new(&task)).collect();
        let workers = parallel::run(workers, jobs, |worker: &mut Worker<'_>, job| {
            let blocks = job * JOB_BLOCKS..self.heads.len().min((job + 1) * JOB_BLOCKS);
            let (rows, bytes) = worker.blocks(job, blocks)?;
            meter.add(Stage::Rows, rows, bytes);
            Ok(())
        })?;
        let rows = meter.rows.into_inner();
        stages.end(Stage::Rows, rows, self.file.bytes());

        let mut by_space: Vec<Vec<_>> = spaces.loaders.iter().map(|_| Vec::new()).collect();
        let (mut numbers, mut synchro) = (Vec::new(), Synchro::default());
        for worker in workers {
            let (space_workers, block_numbers, rows) = worker.finish();
            numbers.extend(block_numbers);
            synchro.raft = synchro.raft.or(rows.raft);
            synchro.promote = synchro.promote.or(rows.promote);
            by_space.iter_mut().zip(space_workers).for_each(|(all, worker)| all.extend(worker));
        }
        let mut notices = Vec::new();
        numbers.retain(|block| block.rows > 0);
        if self.is_whole {
            rows::check_numbers(&mut numbers, &mut notices).map_err(placed)?;
        }
        let gathered = spaces.loaders.into_iter().zip(by_space).collect();
        let gathered =
            parallel::each(options.threads, gathered, |(loader, workers)| Gathered::new(loader, workers))
                .map_err(placed)?;
        stages.end(Stage::Join, rows, 0);

        let tables = finish(gathered, options.threads).map_err(placed)?;
        let entries =
            tables.iter().flat_map(|table| table.indexes.iter().skip(1).flatten()).map(|index| index.len());
        stages.end(Stage::Secondary, entries.sum(), 0);
        Ok(Loaded { schema, tables, threads, rows, synchro, budget, notices, numbers })
    }

    /// Learns the ranges of keys of the spaces that fill much of the file.
    fn sample(&self, spaces: &mut Spaces, user_block: usize, budget: &Arc<Budget>, stages: &mut Stages) {
        let blocks = &self.heads[user_block.min(self.heads.len())..];
        let (mut rows, mut bytes) = (0, 0);
        if blocks.len() >= SAMPLE_BLOCKS_MIN {
            // The first and the last are among them, for a key that ascends has its ends there.
            let chosen =
                (0..SAMPLE_BLOCKS).map(|number| &blocks[number * (blocks.len() - 1) / (SAMPLE_BLOCKS - 1)]);
            let times = blocks.len() as f64 / SAMPLE_BLOCKS as f64;
            let sampled = rows::sample(&self.file, chosen, spaces, budget, self.unpacked_bytes_max);
            (rows, bytes) = (sampled.rows, sampled.bytes);
            for (loader, sample) in spaces.loaders.iter_mut().zip(&sampled.samples) {
                if sample.len() >= SAMPLE_TUPLES_MIN {
                    loader.plan(sample, (sample.seen as f64 * times) as u64);
                }
            }
        }
        stages.end(Stage::Sample, rows, bytes);
    }

    /// Bytes of the blocks before `block`.
    fn bytes_before(&self, block: usize) -> u64 {
        self.heads.get(block).map_or(self.file.bytes(), |head| head.byte) - self.file.blocks_at()
    }
}

/// Counts what the threads have done, and tells the caller.
struct Meter<'a> {
    options: &'a Options,
    rows: AtomicU64,
    bytes: AtomicU64,
    total: u64,
}

impl<'a> Meter<'a> {
    fn new(options: &'a Options, total: u64) -> Self {
        Self { options, rows: AtomicU64::new(0), bytes: AtomicU64::new(0), total }
    }

    fn add(&self, stage: Stage, rows: u64, bytes: u64) {
        let rows = self.rows.fetch_add(rows, Ordering::Relaxed) + rows;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(callback) = &self.options.progress {
            callback(&Progress { stage, rows, bytes, bytes_total: self.total });
        }
    }
}

/// Does the jobs that are left of all indexes of all spaces, and puts the spaces together.
fn finish(gathered: Vec<Gathered>, threads: usize) -> Result<Vec<Table>> {
    let jobs: Vec<(usize, usize, usize)> = gathered
        .iter()
        .enumerate()
        .flat_map(|(space, gathered)| {
            let indexes = gathered.jobs().enumerate();
            indexes.flat_map(move |(index, jobs)| (0..jobs).map(move |job| (space, index, job)))
        })
        .collect();
    let scratch = (0..parallel::threads_for(threads, jobs.len())).map(|_| Scratch::default()).collect();
    let done = parallel::map(scratch, jobs.len(), |scratch: &mut Scratch, number| {
        let (space, index, job) = jobs[number];
        gathered[space].job(index, job, scratch)
    })?;
    let mut parts: Vec<Vec<Vec<(Part, Cost)>>> =
        gathered.iter().map(|gathered| gathered.jobs().map(|_| Vec::new()).collect()).collect();
    for ((space, index, _), part) in jobs.into_iter().zip(done) {
        parts[space][index].push(part);
    }
    let all = gathered.into_iter().zip(parts).collect();
    parallel::each(threads, all, |(gathered, parts): (Gathered, _)| gathered.finish(parts))
}

fn space_report(table: &Table) -> SpaceReport {
    let index = |(def, data): (&IndexDef, &Option<IndexData>)| {
        let data = data.as_ref();
        IndexReport {
            id: def.id,
            name: def.name.clone(),
            entries: data.map_or(0, |data| data.len()),
            bytes: data.map_or(0, |data| data.bytes()),
            absent: def.absent.clone(),
        }
    };
    SpaceReport {
        id: table.def.id,
        name: table.def.name.clone(),
        tuples: table.tuples,
        bytes: table.bytes,
        memory_bytes: table.memory_bytes(),
        fingerprint: table.fingerprint,
        sorted: table.was_sorted(),
        indexes: table.def.indexes.iter().zip(&table.indexes).map(index).collect(),
    }
}
