//! A door to the stages of recovery for `benches/`, one by one.
//!
//! It is behind the feature `bench`, hidden from the documentation and no part of the API: whatever is here may change
//! or go with any release. Each function is the thinnest cover over what recovery itself calls; nothing is measured
//! here.
//!
//! ```text
//! Blocks           pread, checksum, unpacking               file::pipeline
//! row              one row of a snapshot                    file::row
//! skip             one value, whatever it is                msgpack::skip
//! Shape, walk      a format and its walk, either way        tuple::format
//! Tuples, Ref      tuples in an arena, fields by number     tuple::arena, tuple::field_map
//! Build, Fed       a primary or secondary tree in bulk      index::build
//! ```

use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file::block::BlockHead;
use crate::file::disk::RealDisk;
use crate::file::header::FileType;
use crate::file::heads::scan_heads;
use crate::file::pipeline::BlockLoader;
use crate::file::row::{SnapRow, snapshot_row};
use crate::file::source::ContainerFile;
use crate::index::build::{Built, Cost, Failure, Feed, Part, Plan, Scratch, Unfinished};
use crate::index::hint::Hints;
use crate::index::key_def::KeyDef;
use crate::index::tree::node::NodePool;
use crate::msgpack;
use crate::tuple::arena::{Arena, ArenaWriter};
use crate::tuple::field_map::{FieldMapBuf, StoredTuple};
use crate::tuple::field_type::FieldType;
use crate::tuple::format::Format;
use crate::tuple::part::PartDef;
use crate::tuple::slab::{Budget, Handle};

/// The blocks of a snapshot.
pub struct Blocks {
    file: ContainerFile,
    heads: Vec<BlockHead>,
}

impl Blocks {
    /// Finds the blocks of a `.snap` file.
    pub fn open(path: &Path) -> Result<Self> {
        let file = ContainerFile::open_as(&RealDisk, path, FileType::Snap)?;
        let heads = scan_heads(&file, |_| {})?.heads;
        Ok(Self { file, heads })
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Loads block after block: the rows of each.
    pub fn for_each(&self, mut rows: impl FnMut(&[u8])) -> Result<()> {
        let mut loader = BlockLoader::new(&self.file, usize::MAX);
        self.heads.iter().try_for_each(|head| {
            rows(loader.load(head)?);
            Ok(())
        })
    }
}

/// What the head of a row tells.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The row's number in the snapshot.
    pub number: u64,
    /// The tuple's space; `None`: a row without a tuple.
    pub space_id: Option<u32>,
    /// Where the tuple begins.
    pub tuple_at: usize,
    /// Where the row ends; `None`: where its tuple does.
    pub end: Option<usize>,
}

/// The row at `at`.
#[inline]
pub fn row(bytes: &[u8], at: usize) -> Result<Row> {
    Ok(match snapshot_row(bytes, at)? {
        SnapRow::Insert { space_id, lsn, tuple_at, row_end } => {
            Row { number: lsn.unwrap_or(0), space_id: Some(space_id), tuple_at, end: row_end }
        }
        SnapRow::Other { lsn, row_end, .. } => {
            Row { number: lsn.unwrap_or(0), space_id: None, tuple_at: row_end, end: Some(row_end) }
        }
    })
}

/// The offset after the value at `at`.
#[inline]
pub fn skip(bytes: &[u8], at: usize) -> Result<usize> {
    msgpack::skip::skip(bytes, at).map_err(|fault| fault.error(bytes))
}

/// A key: fields, from 0, and their types.
pub type Key<'a> = &'a [(u32, FieldType)];

fn parts(key: Key<'_>) -> Vec<PartDef> {
    key.iter().map(|&(field, field_type)| PartDef::new(field, field_type)).collect()
}

/// A compiled format of a space without named fields.
pub struct Shape(Format);

impl Shape {
    /// The format of a space with these keys. `nested` sends it through the nested path, though no key needs it.
    pub fn new(keys: &[Key<'_>], nested: bool) -> Result<Self> {
        let keys: Vec<Vec<PartDef>> = keys.iter().map(|key| parts(key)).collect();
        let keys: Vec<&[PartDef]> = keys.iter().map(Vec::as_slice).collect();
        Format::new(&[], 0, &keys, nested).map(Self)
    }

    /// Whether tuples take the plain path.
    pub fn is_plain(&self) -> bool {
        self.0.is_plain()
    }

    /// Slots of a tuple.
    pub fn slots(&self) -> usize {
        usize::from(self.0.slots())
    }
}

/// The field map of the tuple that was last walked over.
#[derive(Default)]
pub struct Map(FieldMapBuf);

impl Map {
    /// The offsets of the fields with a slot.
    pub fn slots(&self) -> &[u32] {
        self.0.slots()
    }
}

/// Walks over the tuple at `at`: the offset after it, and its field map.
#[inline]
pub fn walk(shape: &Shape, bytes: &[u8], at: usize, map: &mut Map) -> Result<usize> {
    match shape.0.walk(bytes, at, &mut map.0) {
        Ok(end) => Ok(end),
        Err(fault) => Err(fault.into_error()),
    }
}

/// Tuples in an arena, in the order in which they came.
pub struct Tuples {
    arena: Arc<Arena>,
    handles: Vec<Handle>,
}

impl Tuples {
    /// Stores the tuples that stand one after the other in `bytes`.
    pub fn store(shape: &Shape, bytes: &[u8]) -> Result<Self> {
        let arena = Arc::new(Arena::new(Arc::new(Budget::new(None))));
        let mut writer = ArenaWriter::new(arena.clone());
        let (mut handles, mut map, mut at) = (Vec::new(), Map::default(), 0);
        while at < bytes.len() {
            let end = walk(shape, bytes, at, &mut map)?;
            handles.push(writer.push(&bytes[at..end], &map.0)?);
            at = end;
        }
        Ok(Self { arena, handles })
    }

    /// Names the tuples in their order, as [`Finished::order`] does in an index's.
    pub fn names(&self) -> impl Iterator<Item = u32> {
        self.handles.iter().map(|handle| handle.0)
    }

    /// All of them, without the way through their handles.
    pub fn refs(&self) -> Vec<Ref<'_>> {
        self.handles.iter().map(|&handle| Ref(self.arena.get(handle))).collect()
    }

    /// The tuple of that number, through its handle.
    #[inline]
    pub fn get(&self, number: usize) -> Ref<'_> {
        Ref(self.arena.get(self.handles[number]))
    }
}

/// A tuple in an arena.
#[derive(Clone, Copy)]
pub struct Ref<'a>(StoredTuple<'a>);

impl<'a> Ref<'a> {
    /// The MsgPack.
    #[inline]
    pub fn data(self) -> &'a [u8] {
        self.0.data()
    }

    /// Offset in the MsgPack of a field, from 0.
    #[inline]
    pub fn field(self, shape: &Shape, field: u32) -> Option<usize> {
        self.0.field(&shape.0, field)
    }
}

/// How a tree is to be built over some tuples.
pub struct Build<'a> {
    tuples: &'a Tuples,
    plan: Plan,
}

impl<'a> Build<'a> {
    /// A primary tree: the tuples are fed to leaves in their order.
    pub fn primary(tuples: &'a Tuples, shape: &Shape, key: Key<'_>, hints: bool) -> Self {
        let key_def = Arc::new(KeyDef::new(&shape.0, &parts(key), true, &[], false));
        let hints = if hints { Hints::sample(&key_def, &sample(tuples)) } else { Hints::none() };
        Self { tuples, plan: Plan::ordered(key_def, hints) }
    }

    /// A secondary tree, not unique: buckets, each sorted and written back.
    pub fn secondary(tuples: &'a Tuples, shape: &Shape, key: Key<'_>, primary: Key<'_>, hints: bool) -> Self {
        let key_def = Arc::new(KeyDef::new(&shape.0, &parts(key), false, &parts(primary), false));
        let sample = sample(tuples);
        let hints = if hints { Hints::sample(&key_def, &sample) } else { Hints::none() };
        Self { tuples, plan: Plan::buckets(key_def, hints, &sample, tuples.handles.len() as u64) }
    }

    /// Feeds all tuples, as one worker does.
    pub fn feed(&self) -> Result<Fed<'_>> {
        let pool = NodePool::new(Arc::new(Budget::new(None)));
        let mut feed = Feed::new(&self.plan, &pool);
        let arena = &self.tuples.arena;
        feed.add(&self.plan, arena, &self.tuples.handles).map_err(|(_, failure)| failed(failure))?;
        feed.end_run(0);
        Ok(Fed { build: self, pool, feed })
    }
}

/// Some tuples, of those all over.
fn sample(tuples: &Tuples) -> Vec<StoredTuple<'_>> {
    /// As many as recovery takes of a file of a million rows.
    const SAMPLE_TUPLES: usize = 100_000;
    let step = tuples.handles.len().div_ceil(SAMPLE_TUPLES).max(1);
    tuples.handles.iter().step_by(step).map(|&handle| tuples.arena.get(handle)).collect()
}

fn failed(failure: Failure) -> Error {
    match failure {
        Failure::Error(error) => error,
        Failure::Duplicate(_) => Error::new(ErrorKind::DuplicateKey, "the same key twice"),
    }
}

/// A tree whose entries are all there, but not in order.
pub struct Fed<'a> {
    build: &'a Build<'a>,
    pool: Arc<NodePool>,
    feed: Feed,
}

impl Fed<'_> {
    /// Sorts what is to be sorted, writes it back, and makes the inner nodes: all on this thread.
    pub fn finish(self) -> Result<Finished> {
        let Self { build: Build { tuples, plan }, pool, feed } = self;
        let unfinished = Unfinished::join(vec![feed]);
        let (mut scratch, mut cost) = (Scratch::default(), Cost::default());
        let mut parts: Vec<Part> = Vec::with_capacity(unfinished.jobs());
        for job in 0..unfinished.jobs() {
            let (part, of_job) =
                unfinished.job(job, plan, &tuples.arena, &pool, &mut scratch).map_err(failed)?;
            parts.push(part);
            cost.add(of_job);
        }
        let built = Unfinished::finish(plan, &pool, parts)?;
        Ok(Finished { built, ties: cost.ties, touches: cost.touches })
    }
}

/// A finished tree.
pub struct Finished {
    built: Built,
    /// Entries whose hint tied with another one's.
    pub ties: u64,
    /// Tuples that full comparisons looked at.
    pub touches: u64,
}

impl Finished {
    /// The names of the tuples in the order of the tree.
    pub fn order(&self) -> Vec<u32> {
        let mut order = Vec::new();
        if let Built::Tree(tree) = &self.built {
            let mut cursor = tree.begin();
            while let Some(handles) = cursor.next_handles() {
                order.extend(handles.iter().map(|handle| handle.0));
            }
        }
        order
    }
}
