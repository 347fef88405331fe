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
//! logs       does a log hold anything newer?
//! ```
//!
//! Nothing is written, locked or changed. Memory beyond what the store keeps is a few blocks a thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::options::{Options, Progress, Stage};
use super::report::{IndexReport, LoadReport, SpaceReport, Stages};
use super::rows::{self, Spaces, Task, Worker};
use super::usage::Usage;
use crate::error::{Error, Result};
use crate::file::block::BlockHead;
use crate::file::directory;
use crate::file::disk::RealDisk;
use crate::file::heads::scan_heads;
use crate::file::pipeline::BlockLoader;
use crate::file::row::{SnapRow, snapshot_row};
use crate::file::source::ContainerFile;
use crate::index::build::{Cost, Part, Scratch};
use crate::limits::{BLOCK_UNPACKED_BYTES_MAX, SYSTEM_SPACE_ID_END};
use crate::msgpack::skip;
use crate::parallel;
use crate::space::catalog::{Schema, SchemaBuilder};
use crate::space::definition::IndexDef;
use crate::space::loader::{Gathered, SAMPLE_TUPLES_MIN};
use crate::space::table::{IndexData, Table};
use crate::tuple::slab::Budget;

/// Blocks that are unpacked to learn the ranges of keys; spread over the file, because keys often ascend with it.
const SAMPLE_BLOCKS: usize = 48;

/// In a file of fewer blocks everything is small: spaces are sampled from their own tuples when all rows are in.
const SAMPLE_BLOCKS_MIN: usize = 96;

/// Blocks that a thread takes at a time, so that the leaves of a primary key are cut less often.
const JOB_BLOCKS: usize = 8;

/// What recovery gives.
pub(crate) struct Recovered {
    pub(crate) schema: Schema,
    /// The loaded spaces, by id.
    pub(crate) tables: Vec<Table>,
    pub(crate) report: LoadReport,
}

/// Reads the definitions alone.
pub(crate) fn read_schema(path: &Path, options: &Options) -> Result<Schema> {
    let snapshot = Snapshot::open(path, options)?;
    let schema = snapshot.schema(Definitions::First)?.schema;
    snapshot.check_logs(options)?;
    Ok(schema)
}

/// Opens the newest snapshot of a folder, or a lone snapshot.
pub(crate) fn recover(path: &Path, options: &Options) -> Result<Recovered> {
    let mut stages = Stages::begin();
    let snapshot = Snapshot::open(path, options)?;
    stages.end(Stage::Scan, 0, snapshot.file.bytes());
    let late = AtomicBool::new(false);
    let mut loaded = snapshot.load(options, Definitions::First, &late, &mut stages);
    if loaded.is_err() && late.load(Ordering::Relaxed) {
        // A definition stands behind rows of user spaces: no Tarantool writes that, but some read it.
        loaded = snapshot.load(options, Definitions::Everywhere, &late, &mut stages);
    }
    let Loaded { schema, tables, threads, rows, notices } = loaded?;
    let log_notices = snapshot.check_logs(options)?;
    stages.end(Stage::Logs, 0, 0);

    let header = &snapshot.file.header;
    let mut report = LoadReport::new(&snapshot.file.path, header.instance.clone(), &header.vclock, threads);
    report.notices.extend_from_slice(&snapshot.notices);
    report.notices.extend_from_slice(schema.notices());
    report.notices.extend(header.instance.as_deref().and_then(|instance| schema.instance_notice(instance)));
    report.notices.extend(notices);
    report.notices.extend(log_notices);
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
    (report.stages, report.total) = stages.finish(rows, snapshot.file.bytes());
    report.peak_memory_bytes = Usage::of_process().peak_bytes;
    Ok(Recovered { schema, tables, report })
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
    file: ContainerFile,
    heads: Vec<BlockHead>,
    /// The folder that it was found in.
    folder: Option<PathBuf>,
    notices: Vec<String>,
    /// The most that a block may unpack to: as much as the store may take, for it would hold the block's tuples.
    unpacked_bytes_max: usize,
}

/// The definitions, and the first block with a row of a user space.
struct SchemaRows {
    schema: Schema,
    rows: u64,
    user_block: usize,
}

struct Loaded {
    schema: Schema,
    tables: Vec<Table>,
    threads: usize,
    rows: u64,
    notices: Vec<String>,
}

impl Snapshot {
    fn open(path: &Path, options: &Options) -> Result<Self> {
        let directory::Snapshot { file, folder, notices } = directory::newest_snapshot(&RealDisk, path)?;
        let heads = scan_heads(&file, |_| {})?.heads;
        let limit =
            options.max_memory.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let unpacked_bytes_max = limit.min(BLOCK_UNPACKED_BYTES_MAX);
        Ok(Self { file, heads, folder, notices, unpacked_bytes_max })
    }

    /// Refuses logs that hold more than the snapshot, unless the caller wants that alone. Gives notices.
    fn check_logs(&self, options: &Options) -> Result<Vec<String>> {
        let folder = match options.wal_dir.as_ref().or(self.folder.as_ref()) {
            Some(folder) if !options.snapshot_only => folder,
            _ => return Ok(Vec::new()),
        };
        let logs = directory::logs_after(&RealDisk, folder, &self.file)?;
        match logs.newer {
            Some(newer) => Err(newer.into_error(&self.file)),
            None => Ok(logs.notices),
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
        definitions: Definitions,
        late: &AtomicBool,
        stages: &mut Stages,
    ) -> Result<Loaded> {
        let placed = |error: Error| self.file.place(error);
        let SchemaRows { schema, rows, user_block } = self.schema(definitions)?;
        let budget = Arc::new(Budget::new(options.max_memory));
        let mut spaces = Spaces::new(&schema, options, &budget).map_err(placed)?;
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
        let meter =
            Meter { options, rows: AtomicU64::new(0), bytes: AtomicU64::new(0), total: self.file.bytes() };
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
        let mut numbers = Vec::new();
        for worker in workers {
            let (space_workers, block_numbers) = worker.finish();
            numbers.extend(block_numbers);
            by_space.iter_mut().zip(space_workers).for_each(|(all, worker)| all.extend(worker));
        }
        let mut notices = Vec::new();
        rows::check_numbers(numbers, &mut notices).map_err(placed)?;
        let gathered = spaces.loaders.into_iter().zip(by_space).collect();
        let gathered =
            parallel::each(options.threads, gathered, |(loader, workers)| Gathered::new(loader, workers))
                .map_err(placed)?;
        stages.end(Stage::Join, rows, 0);

        let tables = finish(gathered, options.threads).map_err(placed)?;
        let entries =
            tables.iter().flat_map(|table| table.indexes.iter().skip(1).flatten()).map(|index| index.len());
        stages.end(Stage::Secondary, entries.sum(), 0);
        Ok(Loaded { schema, tables, threads, rows, notices })
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

impl Meter<'_> {
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
