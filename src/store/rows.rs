//! The rows of a snapshot on their way into spaces: one worker a thread, a few blocks at a time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::options::{Options, SpaceHandle, SpaceSelector};
use super::synchro::Synchro;
use crate::error::{Error, ErrorKind, Result};
use crate::file::block::BlockHead;
use crate::file::pipeline::BlockLoader;
use crate::file::row::{Row, SnapRow, kind, kind_text, snapshot_row};
use crate::file::source::ContainerFile;
use crate::limits::SYSTEM_SPACE_ID_END;
use crate::msgpack::skip;
use crate::space::catalog::Schema;
use crate::space::loader::{LoadOptions, Sample, SpaceLoader, SpaceWorker};
use crate::space::{definition::SpaceDef, system};
use crate::tuple::slab::Budget;

/// Rows that are stored before the indexes get them: their tuples are still in the first-level cache then.
const FEED_ROWS: u64 = 256;

/// What happens to the rows of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// They go to the loader of this number.
    Load(usize),
    /// They are checked in their shape and left out.
    Skip,
}

/// The spaces of a schema, and which of them are loaded.
pub(super) struct Spaces {
    pub(super) loaders: Vec<SpaceLoader>,
    fates: HashMap<u32, Fate>,
}

impl Spaces {
    /// # Errors
    /// `Schema`: a format that contradicts itself.
    pub(super) fn new(
        schema: &Schema,
        is_loaded: &(dyn Fn(&SpaceDef) -> bool + Sync),
        options: LoadOptions,
        budget: &Arc<Budget>,
    ) -> Result<Self> {
        let mut spaces = Self { loaders: Vec::new(), fates: HashMap::new() };
        for space in schema.spaces().iter().filter(|space| space.absent.is_none()) {
            let fate = if is_loaded(space) {
                spaces.loaders.push(SpaceLoader::new(Arc::new(space.clone()), budget, options)?);
                Fate::Load(spaces.loaders.len() - 1)
            } else {
                Fate::Skip
            };
            spaces.fates.insert(space.id, fate);
        }
        Ok(spaces)
    }

    fn fate(&self, schema: &Schema, space_id: u32) -> Result<Fate> {
        self.fates.get(&space_id).copied().ok_or_else(|| match schema.space_by_id(space_id) {
            Some(space) => Error::new(ErrorKind::Schema, "a row of a space that keeps none in snapshots")
                .found(space.absent.as_deref().unwrap_or_default())
                .space(&space.name),
            None => Error::new(ErrorKind::Schema, "a row of a space that is not defined")
                .expected("a row in _space before it")
                .found("none")
                .space(space_id),
        })
    }
}

/// Whether a space is among those that the options ask for.
pub(super) fn is_wanted(space: &SpaceDef, options: &Options) -> bool {
    options.spaces.is_empty()
        || options.spaces.iter().any(|selector| is(space, selector))
        || (options.system_spaces && space.id < SYSTEM_SPACE_ID_END)
}

/// That there is each space that the options ask for, with its data.
///
/// # Errors
/// `NoSuchSpace`, `Absent`.
pub(super) fn check_wanted(schema: &Schema, options: &Options) -> Result<()> {
    for selector in &options.spaces {
        let space = find(schema, selector)?;
        if let Some(why) = &space.absent {
            return Err(Error::new(ErrorKind::Absent, why.clone()).space(&space.name));
        }
    }
    Ok(())
}

pub(super) fn is(space: &SpaceDef, selector: &SpaceSelector) -> bool {
    match selector {
        SpaceSelector::Id(id) | SpaceSelector::Handle(SpaceHandle { id, .. }) => space.id == *id,
        SpaceSelector::Name(name) => space.name == *name,
    }
}

/// The space that a selector names.
pub(super) fn find<'a>(schema: &'a Schema, selector: &SpaceSelector) -> Result<&'a SpaceDef> {
    let space = match selector {
        SpaceSelector::Id(id) | SpaceSelector::Handle(SpaceHandle { id, .. }) => schema.space_by_id(*id),
        SpaceSelector::Name(name) => schema.space_by_name(name),
    };
    space.ok_or_else(|| Error::new(ErrorKind::NoSuchSpace, format!("no space {selector}")))
}

/// Tuples of each loaded space from blocks all over the file, and what was read for them.
pub(super) struct Sampled {
    pub(super) samples: Vec<Sample>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// Reads `blocks` for a sample. What is wrong in them stays for the load itself to find.
pub(super) fn sample<'a>(
    file: &ContainerFile,
    blocks: impl Iterator<Item = &'a BlockHead>,
    spaces: &Spaces,
    budget: &Arc<Budget>,
    unpacked_bytes_max: usize,
) -> Sampled {
    let samples = spaces.loaders.iter().map(|_| Sample::new(budget)).collect();
    let mut sampled = Sampled { samples, rows: 0, bytes: 0 };
    let mut loader = BlockLoader::new(file, unpacked_bytes_max);
    for head in blocks {
        sampled.bytes += u64::from(head.stored_bytes);
        if let Ok(payload) = loader.load(head) {
            sample_block(payload, spaces, &mut sampled);
        }
    }
    sampled
}

fn sample_block(payload: &[u8], spaces: &Spaces, sampled: &mut Sampled) -> Option<()> {
    let mut at = 0;
    while at < payload.len() {
        at = match snapshot_row(payload, at).ok()? {
            SnapRow::Insert { space_id, tuple_at, row_end, .. } => {
                let tuple_end = match spaces.fates.get(&space_id) {
                    Some(&Fate::Load(number)) => {
                        sampled.samples[number].add(&spaces.loaders[number], payload, tuple_at)?
                    }
                    _ => skip::skip(payload, tuple_at).ok()?,
                };
                row_end.unwrap_or(tuple_end)
            }
            SnapRow::Other { row_end, .. } => row_end,
        };
        sampled.rows += 1;
    }
    Some(())
}

/// What all workers know.
pub(super) struct Task<'a> {
    pub(super) file: &'a ContainerFile,
    pub(super) heads: &'a [BlockHead],
    pub(super) schema: &'a Schema,
    pub(super) spaces: &'a Spaces,
    /// The first block with a row of a user space; definitions behind it come late.
    pub(super) user_block: usize,
    /// Set when a definition comes late, unless the whole file has been read for them before.
    pub(super) late: Option<&'a AtomicBool>,
    /// The most that a block may unpack to.
    pub(super) unpacked_bytes_max: usize,
}

/// One thread's side of the file.
pub(super) struct Worker<'a> {
    loader: BlockLoader<'a>,
    sink: Sink<'a>,
    numbers: Vec<Numbers>,
}

/// One thread's side of all spaces.
struct Sink<'a> {
    task: &'a Task<'a>,
    spaces: Vec<Option<SpaceWorker>>,
    /// Loaders that the current job has brought tuples to.
    touched: Vec<usize>,
    /// The space of the last row.
    last: Option<(u32, Fate)>,
    block: usize,
    synchro: Synchro,
}

impl<'a> Worker<'a> {
    pub(super) fn new(task: &'a Task<'a>) -> Self {
        let spaces = task.spaces.loaders.iter().map(|_| None).collect();
        Self {
            loader: BlockLoader::new(task.file, task.unpacked_bytes_max),
            sink: Sink {
                task,
                spaces,
                touched: Vec::new(),
                last: None,
                block: 0,
                synchro: Synchro::default(),
            },
            numbers: Vec::new(),
        }
    }

    /// Loads some blocks that follow each other; `job` is their place in the file. Gives rows and bytes.
    pub(super) fn blocks(&mut self, job: usize, blocks: Range<usize>) -> Result<(u64, u64)> {
        let task = self.sink.task;
        let (mut rows, mut bytes) = (0, 0);
        for block in blocks {
            let head = &task.heads[block];
            let payload = self.loader.load(head)?;
            self.sink.block = block;
            let mut numbers = Numbers::new(head);
            self.sink
                .block(payload, &mut numbers)
                .map_err(|error| task.file.place(error.row(numbers.rows).block(head.index, head.byte)))?;
            rows += numbers.rows;
            bytes += head.end() - head.byte;
            self.numbers.push(numbers);
        }
        self.sink.end_job(job);
        Ok((rows, bytes))
    }

    /// What the worker has gathered of each space, the row numbers of its blocks, and rows that bring no tuples.
    pub(super) fn finish(self) -> (Vec<Option<SpaceWorker>>, Vec<Numbers>, Synchro) {
        (self.sink.spaces, self.numbers, self.sink.synchro)
    }
}

impl Sink<'_> {
    /// Takes in a block's rows, and gives them to the indexes a few hundred at a time.
    fn block(&mut self, payload: &[u8], numbers: &mut Numbers) -> Result<()> {
        let mut at = 0;
        while at < payload.len() {
            at = self.row(payload, at, numbers)?;
            if numbers.rows.is_multiple_of(FEED_ROWS) {
                self.feed(numbers)?;
            }
        }
        self.feed(numbers)
    }

    /// Gives the last rows, all of one space, to its indexes.
    fn feed(&mut self, numbers: &Numbers) -> Result<()> {
        let Some((_, Fate::Load(space))) = self.last else { return Ok(()) };
        let worker = self.spaces[space].as_mut().expect("made when the space was entered");
        worker
            .feed(&self.task.spaces.loaders[space])
            .map_err(|(back, error)| error.row(numbers.rows - back as u64))
    }

    /// Takes in the row at `at`; gives the offset after it.
    #[inline]
    fn row(&mut self, payload: &[u8], at: usize, numbers: &mut Numbers) -> Result<usize> {
        let (end, number) = match snapshot_row(payload, at)? {
            SnapRow::Insert { space_id, lsn, tuple_at, row_end } => {
                let fate = match self.last {
                    Some((last, fate)) if last == space_id => fate,
                    _ => {
                        self.feed(numbers)?;
                        self.enter(space_id)?
                    }
                };
                let tuple_end = match fate {
                    Fate::Load(space) => {
                        let worker = self.spaces[space].as_mut().expect("made when the space was entered");
                        worker.add(&self.task.spaces.loaders[space], payload, tuple_at)?
                    }
                    Fate::Skip => skip::skip(payload, tuple_at).map_err(|fault| fault.error(payload))?,
                };
                (row_end.unwrap_or(tuple_end), lsn)
            }
            SnapRow::Other { kind: kind @ (kind::RAFT | kind::RAFT_PROMOTE), lsn, row_end } => {
                let body = Row::decode(payload, at)?.body.unwrap_or_default();
                self.synchro.take(kind, &body)?;
                (row_end, lsn)
            }
            SnapRow::Other { kind, .. } => {
                return Err(Error::new(ErrorKind::Row, "request type")
                    .expected("INSERT, RAFT or RAFT_PROMOTE")
                    .found(kind_text(kind)));
            }
        };
        numbers.count(number);
        Ok(end)
    }

    /// The rows that follow are of another space than those before.
    #[cold]
    fn enter(&mut self, space_id: u32) -> Result<Fate> {
        let is_late = system::defines(space_id) && self.block > self.task.user_block;
        if let Some(late) = self.task.late.filter(|_| is_late) {
            late.store(true, Ordering::Relaxed);
            return Err(
                Error::new(ErrorKind::Schema, "a definition behind rows of user spaces").space(space_id)
            );
        }
        let fate = self.task.spaces.fate(self.task.schema, space_id)?;
        if let Fate::Load(space) = fate {
            self.spaces[space].get_or_insert_with(|| SpaceWorker::new(&self.task.spaces.loaders[space]));
            if !self.touched.contains(&space) {
                self.touched.push(space);
            }
        }
        self.last = Some((space_id, fate));
        Ok(fate)
    }

    fn end_job(&mut self, job: usize) {
        for space in self.touched.drain(..) {
            self.spaces[space].iter_mut().for_each(|worker| worker.end_run(job));
        }
        self.last = None;
    }
}

/// The row numbers of a block: Tarantool counts the rows of a snapshot from 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) block: u64,
    pub(super) byte: u64,
    /// Of the block's first row.
    pub(super) first: u64,
    pub(super) rows: u64,
    /// Each row's number is one more than that of the row before.
    pub(super) consecutive: bool,
}

impl Numbers {
    fn new(head: &BlockHead) -> Self {
        Self { block: head.index, byte: head.byte, first: 0, rows: 0, consecutive: true }
    }

    /// The next row has this number. Only the file's first row may be without one: its number is 0.
    #[inline]
    fn count(&mut self, number: Option<u64>) {
        if self.rows == 0 {
            self.first = number.unwrap_or(0);
            self.consecutive = number.is_some() || self.block == 0;
        } else {
            self.consecutive &= number == Some(self.first.wrapping_add(self.rows));
        }
        self.rows += 1;
    }
}

/// Whether every row is there once; blocks have at least one. In a file where a block's rows are not numbered one after the other nobody can tell.
///
/// # Errors
/// `RowNumber`: rows are missing or there twice, though every block by itself is whole.
pub(super) fn check_numbers(blocks: &mut [Numbers], notices: &mut Vec<String>) -> Result<()> {
    if blocks.iter().any(|block| !block.consecutive) {
        notices.push("rows are not numbered from 0, so missing blocks cannot be noticed".into());
        return Ok(());
    }
    blocks.sort_unstable_by_key(|block| (block.first, block.block));
    let mut next = 0;
    for block in &*blocks {
        if block.first != next {
            let what = if block.first > next {
                "rows are missing before this block"
            } else {
                "rows are there twice"
            };
            return Err(Error::new(ErrorKind::RowNumber, what)
                .expected(format!("row number {next}"))
                .found(block.first)
                .block(block.block, block.byte));
        }
        next += block.rows;
    }
    if let Some(pair) = blocks.windows(2).find(|pair| pair[0].block > pair[1].block) {
        notices.push(format!(
            "blocks are not in the order of their rows: block {} belongs before block {}",
            pair[0].block, pair[1].block
        ));
    }
    Ok(())
}
