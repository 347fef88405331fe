//! From rows to spaces: one worker's side of a space while a snapshot is replayed, and the putting together.
//!
//! A row's tuple is walked over once (its types checked, its field map made), copied into the worker's slab, and fed to
//! every index. A space of which the sample has too little is only stored at first; it is fed, by one thread and in the
//! order of the file, when all rows are in and it can be sampled itself.

use std::sync::Arc;

use crc32fast::Hasher as Crc32;

use super::definition::{IndexKind, SpaceDef};
use super::table::{IndexData, Table};
use crate::error::{Error, ErrorKind, Result};
use crate::index::build::{Built, Cost, Failure, Feed, Part, Plan, Scratch, Unfinished};
use crate::index::hash::Twins;
use crate::index::hint::Hints;
use crate::index::key_def::KeyDef;
use crate::index::tree::node::NodePool;
use crate::msgpack::print;
use crate::parallel;
use crate::tuple::arena::{Arena, ArenaWriter};
use crate::tuple::field_map::{FieldMapBuf, StoredTuple};
use crate::tuple::format::Format;
use crate::tuple::slab::{Budget, Handle};

/// Tuples that a sample keeps: more than its blocks hold, unless tuples are of a few bytes each.
const SAMPLE_TUPLES_MAX: usize = 400_000;

/// A space with fewer sampled tuples than this one is sampled again when all its rows are in.
pub(crate) const SAMPLE_TUPLES_MIN: usize = 2_000;

/// Characters of a tuple that a message shows.
const SHORT_CHARS: usize = 200;

/// Bytes of tuples that are gathered before they are summed: the CRC is three times faster over long runs, and these
/// are still in the first-level cache.
const SUM_BUFFER_BYTES: usize = 16 << 10;

/// Tuples that a thread takes at a time where a table is made of another one's.
const LOAD_TUPLES: usize = 16 << 10;

/// Tuples that are stored before the indexes get them: they are still in the first-level cache then.
const FEED_TUPLES: usize = 256;

/// What of loading is the caller's choice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadOptions {
    pub(crate) hints: bool,
    pub(crate) nested: bool,
    pub(crate) fingerprint: bool,
}

/// A table under another definition, and the indexes that it has no longer.
pub(super) type Adopted = (Table, Vec<Built>);

/// A space that is being loaded; shared by the workers.
pub(crate) struct SpaceLoader {
    def: Arc<SpaceDef>,
    format: Arc<Format>,
    arena: Arc<Arena>,
    pool: Arc<NodePool>,
    keys: Vec<IndexKey>,
    /// The primary key is a tree, so that its order can be followed.
    has_order: bool,
    options: LoadOptions,
    budget: Arc<Budget>,
    /// Present once the space has been sampled.
    plans: Option<Vec<Plan>>,
}

/// An index that is built, in the order of ids: the primary first.
struct IndexKey {
    /// Position in the definition's list.
    number: usize,
    kind: IndexKind,
    key_def: Arc<KeyDef>,
}

impl SpaceLoader {
    /// Compiles the space's format and key definitions.
    ///
    /// # Errors
    /// `Schema` where definitions contradict each other.
    pub(crate) fn new(def: Arc<SpaceDef>, budget: &Arc<Budget>, options: LoadOptions) -> Result<Self> {
        let built = || def.indexes.iter().enumerate().filter(|(_, index)| index.absent.is_none());
        let parts: Vec<&[_]> = built().map(|(_, index)| &index.parts[..]).collect();
        let format = Format::new(&def.format, def.field_count, &parts, options.nested)
            .map_err(|error| error.space(&def.name))?;
        let (primary, hashed) = match built().next() {
            Some((_, index)) if index.id == 0 => (&index.parts[..], index.kind == IndexKind::Hash),
            _ => (&[][..], false),
        };
        let keys: Vec<IndexKey> = built()
            .map(|(number, index)| {
                let tail = if index.id == 0 { &[] } else { primary };
                let key_def = Arc::new(KeyDef::new(&format, &index.parts, index.unique, tail, hashed));
                IndexKey { number, kind: index.kind, key_def }
            })
            .collect();
        let format = Arc::new(format);
        let has_order =
            keys.first().is_some_and(|key| def.indexes[key.number].id == 0 && key.kind == IndexKind::Tree);
        let (arena, pool) = (Arc::new(Arena::new(budget.clone())), NodePool::new(budget.clone()));
        let budget = budget.clone();
        Ok(Self { def, format, arena, pool, keys, has_order, options, budget, plans: None })
    }

    /// Decides how the indexes are built from tuples of a sample, `entries` of them expected in all.
    pub(crate) fn plan(&mut self, sample: &Sample, entries: u64) {
        self.plans = Some(self.plans_from(&sample.tuples(), entries));
    }

    fn plans_from(&self, sample: &[StoredTuple<'_>], entries: u64) -> Vec<Plan> {
        let plan = |key: &IndexKey| {
            let key_def = key.key_def.clone();
            if key.kind == IndexKind::Hash {
                return Plan::hashed(key_def, entries);
            }
            let hints = match self.options.hints {
                // Primary keys are what goes on growing.
                true if self.is_primary(key) => Hints::sample_growing(&key_def, sample),
                true => Hints::sample(&key_def, sample),
                false => Hints::none(),
            };
            if self.is_primary(key) {
                Plan::ordered(key_def, hints)
            } else {
                Plan::buckets(key_def, hints, sample, entries)
            }
        };
        self.keys.iter().map(plan).collect()
    }

    fn is_primary(&self, key: &IndexKey) -> bool {
        self.def.indexes[key.number].id == 0
    }

    /// The table with the new definition and its tuples as they are, if every index that is to be there is there already
    /// and finds its keys where the new format has them; and the indexes that are not to be there. Otherwise gives both
    /// back.
    pub(super) fn adopt(self, mut table: Table) -> Result<Adopted, Box<(Self, Table)>> {
        let find = |key: &IndexKey| {
            let def = &self.def.indexes[key.number];
            let number = table.def.indexes.iter().position(|old| old.id == def.id && old.kind == def.kind)?;
            let data = table.indexes[number].as_ref()?;
            (data.key_def == key.key_def).then_some(number)
        };
        let numbers: Option<Vec<usize>> = self.keys.iter().map(find).collect();
        let same_slots = table.format.slots() == self.format.slots();
        let Some(numbers) = numbers.filter(|_| same_slots) else { return Err(Box::new((self, table))) };
        let mut indexes: Vec<Option<IndexData>> = self.def.indexes.iter().map(|_| None).collect();
        for (key, number) in self.keys.iter().zip(numbers) {
            indexes[key.number] = table.indexes[number].take();
        }
        let gone = table.indexes.drain(..).flatten().map(|index| index.built).collect();
        Ok((Table { def: self.def, format: self.format, indexes, ..table }, gone))
    }

    /// A table of copies of these tuples of another one, in this order.
    pub(super) fn load(mut self, from: &Arena, handles: &[Handle], threads: usize) -> Result<Table> {
        let runs: Vec<&[Handle]> = handles.chunks(LOAD_TUPLES).collect();
        if runs.len() > 1 {
            let mut sample = Sample::new(&self.budget);
            for &handle in handles.iter().step_by(handles.len().div_ceil(SAMPLE_TUPLES_MIN)) {
                let added = sample.add(&self, from.get(handle).data(), 0);
                if added.is_none() {
                    // Whoever loads it says what is wrong with it.
                    break;
                }
            }
            self.plan(&sample, handles.len() as u64);
        }
        let workers = (0..parallel::threads_for(threads, runs.len())).map(|_| SpaceWorker::new(&self));
        let workers = parallel::run(workers.collect(), runs.len(), |worker: &mut SpaceWorker, run| {
            for near in runs[run].chunks(FEED_TUPLES) {
                near.iter()
                    .try_for_each(|&handle| worker.add(&self, from.get(handle).data(), 0).map(drop))?;
                worker.feed(&self).map_err(|(_, error)| error)?;
            }
            worker.end_run(run);
            Ok(())
        })?;
        let gathered = Gathered::new(self, workers)?;
        let jobs: Vec<usize> = gathered.jobs().collect();
        let parts = jobs.into_iter().enumerate().map(|(index, jobs)| {
            let scratch = (0..parallel::threads_for(threads, jobs)).map(|_| Scratch::default()).collect();
            parallel::map(scratch, jobs, |scratch: &mut Scratch, job| gathered.job(index, job, scratch))
        });
        let parts = parts.collect::<Result<_>>()?;
        gathered.finish(parts)
    }

    fn in_space(&self, error: Error) -> Error {
        error.space(&self.def.name)
    }

    fn failed(&self, key: &IndexKey, failure: Failure) -> Error {
        match failure {
            Failure::Error(error) => self.in_space(error),
            Failure::Duplicate(Twins(first, second)) => {
                duplicate(&self.def, key.number, self.arena.get(first).data(), self.arena.get(second).data())
            }
        }
    }
}

/// Two tuples have one key in an index; `number` is its position in the definition's list.
#[cold]
pub(super) fn duplicate(def: &SpaceDef, number: usize, first: &[u8], second: &[u8]) -> Error {
    let what = format!("duplicate key in unique index {}", def.indexes[number].name);
    Error::new(ErrorKind::DuplicateKey, what)
        .expected("one tuple")
        .found(format!("{} and {}", short(first), short(second)))
        .space(&def.name)
}

/// A tuple as JSON, as much of it as fits a message.
fn short(tuple: &[u8]) -> String {
    let mut text = String::new();
    // What was stored has been checked; a fault would only cut the text short.
    let _ = print::json(&mut text, tuple, 0);
    match text.char_indices().nth(SHORT_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Tuples of one space from blocks all over the file.
pub(crate) struct Sample {
    arena: Arc<Arena>,
    writer: ArenaWriter,
    handles: Vec<Handle>,
    map: FieldMapBuf,
    /// Tuples that were seen, also those beyond what is kept.
    pub(crate) seen: u64,
}

impl Sample {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let arena = Arc::new(Arena::new(budget.clone()));
        let writer = ArenaWriter::new(arena.clone());
        Self { arena, writer, handles: Vec::new(), map: FieldMapBuf::default(), seen: 0 }
    }

    /// Takes in the tuple at `at`; gives its end. `None`: it does not fit the format, which the load itself will tell.
    pub(crate) fn add(&mut self, space: &SpaceLoader, bytes: &[u8], at: usize) -> Option<usize> {
        let end = space.format.walk(bytes, at, &mut self.map).ok()?;
        self.seen += 1;
        if self.handles.len() < SAMPLE_TUPLES_MAX {
            self.handles.push(self.writer.push(&bytes[at..end], &self.map).ok()?);
        }
        Some(end)
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    fn tuples(&self) -> Vec<StoredTuple<'_>> {
        self.handles.iter().map(|&handle| self.arena.get(handle)).collect()
    }
}

/// One worker's side of a space.
pub(crate) struct SpaceWorker {
    writer: ArenaWriter,
    map: FieldMapBuf,
    /// Empty while there are no plans; then `handles` are kept until the end of the run.
    feeds: Vec<Feed>,
    /// Tuples that are stored and not in the indexes yet.
    handles: Vec<Handle>,
    sum: Sum,
    runs: Vec<Run>,
    tuples: u64,
    bytes: u64,
}

/// Tuples that follow each other in the file.
struct Run {
    number: usize,
    handles: Vec<Handle>,
    crc: Crc32,
}

impl SpaceWorker {
    pub(crate) fn new(space: &SpaceLoader) -> Self {
        Self {
            writer: ArenaWriter::new(space.arena.clone()),
            map: FieldMapBuf::default(),
            feeds: space.plans.iter().flatten().map(|plan| Feed::new(plan, &space.pool)).collect(),
            handles: Vec::new(),
            sum: Sum::default(),
            runs: Vec::new(),
            tuples: 0,
            bytes: 0,
        }
    }

    /// Stores the tuple at `at` in `bytes`; gives the offset after it. The indexes get it with the next `feed`.
    ///
    /// # Errors
    /// `MsgPack` and `TupleFormat` for the tuple, `Memory`.
    #[inline(always)]
    pub(crate) fn add(&mut self, space: &SpaceLoader, bytes: &[u8], at: usize) -> Result<usize> {
        let end = match space.format.walk(bytes, at, &mut self.map) {
            Ok(end) => end,
            Err(fault) => return Err(space.in_space(fault.into_error())),
        };
        let data = &bytes[at..end];
        let handle = self.writer.push(data, &self.map).map_err(|error| space.in_space(error))?;
        self.handles.push(handle);
        self.tuples += 1;
        self.bytes += data.len() as u64;
        if space.options.fingerprint {
            self.sum.add(data, space.has_order);
        }
        Ok(end)
    }

    /// Feeds the tuples stored since the last call to every index: one index after the other, so that each has a
    /// short loop of its own, while the tuples are still in the cache.
    ///
    /// # Errors
    /// `DuplicateKey`, `Memory`; and how many tuples were stored from the one at fault on.
    #[inline(never)]
    pub(crate) fn feed(&mut self, space: &SpaceLoader) -> Result<(), (usize, Error)> {
        let Some(plans) = &space.plans else { return Ok(()) };
        feed(&mut self.feeds, space, plans, &self.handles)?;
        self.handles.clear();
        Ok(())
    }

    /// Ends a run of the file's tuples; `number` is its place in the file.
    pub(crate) fn end_run(&mut self, number: usize) {
        for feed in &mut self.feeds {
            feed.end_run(number);
        }
        let handles = std::mem::take(&mut self.handles);
        self.runs.push(Run { number, handles, crc: self.sum.take() });
    }
}

/// Feeds stored tuples to every index.
fn feed(
    feeds: &mut [Feed],
    space: &SpaceLoader,
    plans: &[Plan],
    handles: &[Handle],
) -> Result<(), (usize, Error)> {
    for (number, (feed, plan)) in feeds.iter_mut().zip(plans).enumerate() {
        feed.add(plan, &space.arena, handles)
            .map_err(|(at, failure)| (handles.len() - at, space.failed(&space.keys[number], failure)))?;
    }
    Ok(())
}

/// The sum over tuples: of their bytes one after the other, or, where they have no order, the sum of each one's CRC.
#[derive(Default)]
struct Sum {
    buffer: Vec<u8>,
    crc: Crc32,
    unordered: u32,
}

impl Sum {
    #[inline]
    fn add(&mut self, tuple: &[u8], ordered: bool) {
        if !ordered {
            self.unordered = self.unordered.wrapping_add(crc32fast::hash(tuple));
        } else if tuple.len() > SUM_BUFFER_BYTES {
            self.flush();
            self.crc.update(tuple);
        } else {
            if self.buffer.len() + tuple.len() > SUM_BUFFER_BYTES {
                self.flush();
            }
            self.buffer.extend_from_slice(tuple);
        }
    }

    fn flush(&mut self) {
        self.crc.update(&self.buffer);
        self.buffer.clear();
    }

    /// The CRC since the last call.
    fn take(&mut self) -> Crc32 {
        self.flush();
        std::mem::take(&mut self.crc)
    }
}

/// A space whose rows are all in.
pub(crate) struct Gathered {
    space: SpaceLoader,
    indexes: Vec<Unfinished>,
    tuples: u64,
    bytes: u64,
    fingerprint: Option<u32>,
}

impl Gathered {
    /// Joins what the workers have gathered. A space that was not sampled is sampled and fed now.
    pub(crate) fn new(mut space: SpaceLoader, mut workers: Vec<SpaceWorker>) -> Result<Self> {
        let (tuples, bytes) = workers
            .iter()
            .fold((0, 0), |(tuples, bytes), worker| (tuples + worker.tuples, bytes + worker.bytes));
        let mut runs: Vec<Run> =
            workers.iter_mut().flat_map(|worker| std::mem::take(&mut worker.runs)).collect();
        runs.sort_unstable_by_key(|run| run.number);
        let fingerprint = space.options.fingerprint.then(|| {
            if space.has_order {
                let mut crc = Crc32::new();
                runs.iter().for_each(|run| crc.combine(&run.crc));
                crc.finalize()
            } else {
                workers.iter().fold(0u32, |sum, worker| sum.wrapping_add(worker.sum.unordered))
            }
        });
        if space.plans.is_none() {
            let handles: Vec<Handle> = runs.into_iter().flat_map(|run| run.handles).collect();
            workers = vec![feed_later(&mut space, &handles)?];
        }
        let mut by_index: Vec<Vec<Feed>> = space.keys.iter().map(|_| Vec::new()).collect();
        for worker in workers {
            for (index, feed) in by_index.iter_mut().zip(worker.feeds) {
                index.push(feed);
            }
        }
        let indexes = by_index.into_iter().map(Unfinished::join).collect();
        Ok(Self { space, indexes, tuples, bytes, fingerprint })
    }

    /// Jobs of each index that are left.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = usize> {
        self.indexes.iter().map(Unfinished::jobs)
    }

    /// Does a job of an index.
    pub(crate) fn job(&self, index: usize, job: usize, scratch: &mut Scratch) -> Result<(Part, Cost)> {
        let Self { space, indexes, .. } = self;
        let plans = space.plans.as_ref().expect("planned when the rows were gathered");
        indexes[index]
            .job(job, &plans[index], &space.arena, &space.pool, scratch)
            .map_err(|failure| space.failed(&space.keys[index], failure))
    }

    /// Puts everything together. `parts` are the results of all jobs, by index and in order.
    pub(crate) fn finish(self, parts: Vec<Vec<(Part, Cost)>>) -> Result<Table> {
        let Self { space, tuples, bytes, fingerprint, .. } = self;
        let plans = space.plans.expect("planned when the rows were gathered");
        let mut data: Vec<Option<IndexData>> = space.def.indexes.iter().map(|_| None).collect();
        let mut cost = Cost::default();
        for ((key, plan), parts) in space.keys.iter().zip(plans).zip(parts) {
            let (parts, costs): (Vec<Part>, Vec<Cost>) = parts.into_iter().unzip();
            costs.into_iter().for_each(|job| cost.add(job));
            let built =
                Unfinished::finish(&plan, &space.pool, parts).map_err(|e| e.space(&space.def.name))?;
            data[key.number] = Some(IndexData {
                key_def: key.key_def.clone(),
                hints: Arc::new(plan.hints),
                built,
                arena: space.arena.clone(),
            });
        }
        let mut table = Table {
            def: space.def,
            format: space.format,
            arena: space.arena,
            pool: space.pool,
            indexes: data,
            tuples,
            bytes,
            fingerprint,
            cost,
            generation: 0,
        };
        if table.was_sorted() && fingerprint.is_some() {
            table.fingerprint = Some(table.scan_fingerprint());
        }
        Ok(table)
    }
}

/// Samples the space's own tuples and feeds them in the order of the file.
fn feed_later(space: &mut SpaceLoader, handles: &[Handle]) -> Result<SpaceWorker> {
    let step = handles.len().div_ceil(SAMPLE_TUPLES_MIN).max(1);
    let sample: Vec<StoredTuple<'_>> =
        handles.iter().step_by(step).map(|&handle| space.arena.get(handle)).collect();
    let plans = space.plans_from(&sample, handles.len() as u64);
    drop(sample);
    space.plans = Some(plans);
    let mut worker = SpaceWorker::new(space);
    let plans = space.plans.as_ref().expect("just made");
    feed(&mut worker.feeds, space, plans, handles).map_err(|(_, error)| error)?;
    worker.end_run(0);
    Ok(worker)
}
