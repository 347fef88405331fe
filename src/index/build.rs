//! Building indexes from the stream of tuples that recovery makes.
//!
//! Each worker feeds its tuples, in the order of its blocks, to one feed an index:
//!
//! - **Ordered** (the primary tree): entries are appended to leaves that are final if the keys ascend. The edges of the
//!   runs of different workers are compared when they are joined. Keys that do not ascend are sorted afterwards.
//! - **Buckets** (a secondary tree): splitters from the sample cut the range of hints into buckets that fit the cache;
//!   an entry goes straight into the open leaf of its bucket. When all rows are in, each bucket is read out, sorted in
//!   cache and written back into its own leaves: there is no separate array to sort.
//! - **Hashed** (a hash index, which is a tree in the order of hashes): the same, with the hash for a hint; hashes are
//!   spread evenly, so the splitters need no sample.
//!
//! Sorting compares hints; only entries whose hints tie are compared in full, and only there can keys be equal, because
//! equal keys have equal hints. Where many tie (keys outside the sampled ranges, long strings that begin alike), hints
//! that are learnt from the tying entries themselves order them first, with one look at each tuple instead of many.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::hash::{HashIndex, Twins, find_twins};
use super::hash_key::Hasher;
use super::hint::Hints;
use super::key_def::{Entry as Position, KeyDef};
use super::multikey;
use super::sort;
use super::tree::Tree;
use super::tree::bulk::{BucketWriter, BulkEntry, LeafWriter, Leaves};
use super::tree::node::{Entry, NodeId, NodePool, NodeWriter};
use crate::error::Result;
use crate::tuple::arena::Arena;
use crate::tuple::field_map::StoredTuple;
use crate::tuple::slab::Handle;

/// Entries that a bucket should have: with 16 bytes each while sorted, about a megabyte, which the second-level cache
/// holds.
const BUCKET_ENTRIES: u64 = 50_000;

/// The most buckets: each has an open leaf a worker, and all of them should stay in the cache.
const BUCKETS_MAX: u64 = 1024;

/// Fewer entries that tie are compared in full at once.
const REHINT_ENTRIES_MIN: usize = 64;

/// Tuples that new hints are learnt from.
const REHINT_SAMPLE: usize = 1000;

/// How often ties among ties get new hints: each time they reach some 8 bytes further into a key.
const REHINT_DEPTH_MAX: usize = 32;

/// The transaction that recovered nodes are born in.
pub(crate) const RECOVERY_TXN: u64 = 0;

/// Why an index could not be finished.
pub(crate) enum Failure {
    /// Two tuples have the same key in a unique index.
    Duplicate(Twins),
    Error(crate::Error),
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::Error(error)
    }
}

/// What the work on one index cost beyond the streams of hints.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Entries whose hint tied with another one's.
    pub(crate) ties: u64,
    /// Tuples that full comparisons looked at.
    pub(crate) touches: u64,
    /// Entries of a primary key that did not come in order and had to be sorted.
    pub(crate) sorted: u64,
}

impl Cost {
    pub(crate) fn add(&mut self, other: Self) {
        self.ties += other.ties;
        self.touches += other.touches;
        self.sorted += other.sorted;
    }
}

/// How an index is built; shared by the workers.
pub(crate) struct Plan {
    pub(crate) key_def: Arc<KeyDef>,
    pub(crate) hints: Hints,
    shape: Shape,
    /// The transaction that the nodes are born in.
    txn: u64,
}

enum Shape {
    Ordered,
    Buckets(Splitters),
    Hashed { hasher: Hasher, bucket_bits: u32 },
}

impl Plan {
    /// A primary tree: tuples are expected in its order.
    pub(crate) fn ordered(key_def: Arc<KeyDef>, hints: Hints) -> Self {
        Self { key_def, hints, shape: Shape::Ordered, txn: RECOVERY_TXN }
    }

    /// A secondary tree of about `entries` entries, cut into buckets by what the sample holds.
    pub(crate) fn buckets(
        key_def: Arc<KeyDef>,
        hints: Hints,
        sample: &[StoredTuple<'_>],
        entries: u64,
    ) -> Self {
        let mut sampled = Vec::with_capacity(sample.len());
        for tuple in sample {
            multikey::for_each_entry(&key_def, tuple, |element| {
                sampled.push(hints.of(&key_def, tuple, element))
            });
        }
        let shape = Shape::Buckets(Splitters::new(sampled, buckets_for(entries)));
        Self { key_def, hints, shape, txn: RECOVERY_TXN }
    }

    /// A hash index of about `entries` entries.
    pub(crate) fn hashed(key_def: Arc<KeyDef>, entries: u64) -> Self {
        let bucket_bits = buckets_for(entries).next_power_of_two().ilog2();
        let shape = Shape::Hashed { hasher: Hasher::new(), bucket_bits };
        Self { key_def, hints: Hints::none(), shape, txn: RECOVERY_TXN }
    }

    /// The same, with nodes that are born in another transaction than recovery's.
    pub(crate) fn born_in(mut self, txn: u64) -> Self {
        self.txn = txn;
        self
    }
}

fn buckets_for(entries: u64) -> usize {
    entries.div_ceil(BUCKET_ENTRIES).clamp(1, BUCKETS_MAX) as usize
}

/// Cuts the range of hints into buckets of about equal numbers of entries.
struct Splitters {
    /// Bucket i holds the hints from `at[i - 1]` on and below `at[i]`.
    at: Vec<u64>,
    /// For each of 4096 equal slices of the range of splitters: the first one that may be above a hint of the slice.
    slices: Vec<u16>,
    least: u64,
    shift: u32,
}

impl Splitters {
    const SLICE_BITS: u32 = 12;

    fn new(mut sampled: Vec<u64>, buckets: usize) -> Self {
        sampled.sort_unstable();
        let mut at: Vec<u64> = match sampled.len() {
            0 => Vec::new(),
            count => (1..buckets).map(|bucket| sampled[bucket * count / buckets]).collect(),
        };
        at.dedup();
        let (least, greatest) = (at.first().copied().unwrap_or(0), at.last().copied().unwrap_or(0));
        let bits = u64::BITS - (greatest - least).leading_zeros();
        let shift = bits.saturating_sub(Self::SLICE_BITS);
        let slices = (0..1u64 << Self::SLICE_BITS)
            .map(|slice| {
                let start = u128::from(least) + (u128::from(slice) << shift);
                at.partition_point(|&splitter| u128::from(splitter) <= start) as u16
            })
            .collect();
        Self { at, slices, least, shift }
    }

    fn buckets(&self) -> usize {
        self.at.len() + 1
    }

    /// The number of splitters at or below `hint`.
    #[inline]
    fn bucket(&self, hint: u64) -> usize {
        let Some(above) = hint.checked_sub(self.least) else { return 0 };
        let slice = (above >> self.shift).min((1 << Self::SLICE_BITS) - 1) as usize;
        let mut bucket = self.slices[slice] as usize;
        while bucket < self.at.len() && self.at[bucket] <= hint {
            bucket += 1;
        }
        bucket
    }
}

/// One worker's side of one index.
pub(crate) enum Feed {
    Ordered(OrderedFeed),
    Buckets(BucketWriter<false>),
    MultikeyBuckets(BucketWriter<true>),
}

impl Feed {
    pub(crate) fn new(plan: &Plan, pool: &Arc<NodePool>) -> Self {
        let writer = || NodeWriter::new(pool.clone());
        match &plan.shape {
            Shape::Ordered => Self::Ordered(OrderedFeed::new(writer(), plan.txn)),
            Shape::Buckets(splitters) if plan.key_def.elements.is_some() => {
                Self::MultikeyBuckets(BucketWriter::new(writer(), plan.txn, splitters.buckets()))
            }
            Shape::Buckets(splitters) => {
                Self::Buckets(BucketWriter::new(writer(), plan.txn, splitters.buckets()))
            }
            Shape::Hashed { bucket_bits, .. } => {
                Self::Buckets(BucketWriter::new(writer(), plan.txn, 1 << bucket_bits))
            }
        }
    }

    /// Takes in tuples that have just been stored. What kind of index it is, is asked once for all of them.
    ///
    /// # Errors
    /// The failure, and which of the tuples it is about.
    pub(crate) fn add(
        &mut self,
        plan: &Plan,
        arena: &Arena,
        handles: &[Handle],
    ) -> Result<(), (usize, Failure)> {
        let Plan { key_def, hints, shape, .. } = plan;
        let tuples = arena.tuples(handles).enumerate();
        match (self, shape) {
            (Self::Ordered(feed), Shape::Ordered) => {
                for (at, (handle, tuple)) in tuples {
                    let hint = hints.of(key_def, &tuple, 0);
                    feed.add(key_def, arena, hint, handle).map_err(|failure| (at, failure))?;
                }
            }
            (Self::Buckets(feed), Shape::Buckets(splitters)) => {
                for (at, (handle, tuple)) in tuples {
                    if key_def.excludes && multikey::is_excluded(key_def, &tuple, 0) {
                        continue;
                    }
                    let hint = hints.of(key_def, &tuple, 0);
                    feed.push(splitters.bucket(hint), hint, handle).map_err(|error| (at, error.into()))?;
                }
            }
            (Self::MultikeyBuckets(feed), Shape::Buckets(splitters)) => {
                for (at, (handle, tuple)) in tuples {
                    let mut outcome = Ok(());
                    multikey::for_each_entry(key_def, &tuple, |element| {
                        let hint = hints.of(key_def, &tuple, element);
                        if outcome.is_ok() {
                            outcome =
                                feed.push_entry(splitters.bucket(hint), Entry { hint, handle, element });
                        }
                    });
                    outcome.map_err(|error| (at, error.into()))?;
                }
            }
            (Self::Buckets(feed), Shape::Hashed { hasher, bucket_bits }) => {
                for (at, (handle, tuple)) in tuples {
                    let hash = hasher.tuple(key_def, &tuple);
                    // Two shifts, because one by all 64 bits is none.
                    feed.push((hash >> 1 >> (63 - bucket_bits)) as usize, hash, handle)
                        .map_err(|error| (at, error.into()))?;
                }
            }
            _ => unreachable!("a feed is made from its plan"),
        }
        Ok(())
    }

    /// Ends a run: what comes next is not the file's next tuple. `number` is the run's place in the file.
    pub(crate) fn end_run(&mut self, number: usize) {
        if let Self::Ordered(feed) = self {
            feed.end_run(number);
        }
    }
}

/// Appends entries that should ascend to leaves.
pub(crate) struct OrderedFeed {
    writer: LeafWriter<false>,
    /// The first entry of the run.
    first: Option<Entry>,
    /// The last one, once there is a first; apart, because a struct written in pieces is slow to read as a whole.
    last_hint: u64,
    last_handle: Handle,
    runs: Vec<Run>,
    /// Keys went back somewhere within a run.
    unordered: bool,
    touches: u64,
}

/// The leaves of some blocks that follow each other in the file.
struct Run {
    number: usize,
    leaves: Leaves<false>,
    first: Entry,
    last: Entry,
}

impl OrderedFeed {
    fn new(writer: NodeWriter, txn: u64) -> Self {
        let writer = LeafWriter::new(writer, txn);
        let (last_hint, last_handle) = (0, Handle(0));
        Self { writer, first: None, last_hint, last_handle, runs: Vec::new(), unordered: false, touches: 0 }
    }

    #[inline(always)]
    fn add(&mut self, key_def: &KeyDef, arena: &Arena, hint: u64, handle: Handle) -> Result<(), Failure> {
        if hint <= self.last_hint || self.first.is_none() {
            self.look(key_def, arena, Entry { hint, handle, element: 0 })?;
        }
        (self.last_hint, self.last_handle) = (hint, handle);
        Ok(self.writer.push(hint, handle)?)
    }

    /// The hint alone does not tell that the entry is after the last one.
    #[cold]
    fn look(&mut self, key_def: &KeyDef, arena: &Arena, entry: Entry) -> Result<(), Failure> {
        if self.first.is_none() {
            self.first = Some(entry);
            return Ok(());
        }
        let last = self.last();
        self.touches += 2 * u64::from(last.hint == entry.hint);
        match order(key_def, arena, last, entry) {
            Ordering::Less => {}
            Ordering::Equal => return Err(duplicate(last, entry)),
            Ordering::Greater => self.unordered = true,
        }
        Ok(())
    }

    fn last(&self) -> Entry {
        Entry { hint: self.last_hint, handle: self.last_handle, element: 0 }
    }

    fn end_run(&mut self, number: usize) {
        if let Some(first) = self.first.take() {
            self.runs.push(Run { number, leaves: self.writer.cut(), first, last: self.last() });
        }
    }
}

/// A finished index, a version of it; `clone` is another name for the same version, at no cost.
#[derive(Clone)]
pub(crate) enum Built {
    Tree(Tree<false>),
    MultikeyTree(Tree<true>),
    Hash(HashIndex, Hasher),
}

impl Built {
    /// Gives all nodes back, which nobody else may know.
    pub(crate) fn free(self) {
        match self {
            Self::Tree(tree) => tree.free(),
            Self::MultikeyTree(tree) => tree.free(),
            Self::Hash(hash, _) => hash.free(),
        }
    }

    /// The nodes that were born in this transaction or later.
    pub(crate) fn list_born_since(&self, txn: u64, nodes: &mut Vec<NodeId>) {
        match self {
            Self::Tree(tree) => tree.list_born_since(txn, nodes),
            Self::MultikeyTree(tree) => tree.list_born_since(txn, nodes),
            Self::Hash(hash, _) => hash.tree().list_born_since(txn, nodes),
        }
    }
}

/// An index between "all rows are in" and "finished": jobs that any thread may do, in any order.
pub(crate) enum Unfinished {
    Ordered(Mutex<Vec<OrderedFeed>>),
    Buckets(Vec<Mutex<Leaves<false>>>),
    MultikeyBuckets(Vec<Mutex<Leaves<true>>>),
}

/// What a job leaves behind.
pub(crate) enum Part {
    Leaves(Leaves<false>),
    MultikeyLeaves(Leaves<true>),
}

impl Unfinished {
    /// Joins what the workers have fed; there is at least one.
    pub(crate) fn join(feeds: Vec<Feed>) -> Self {
        let (mut ordered, mut buckets, mut multikey) = (Vec::new(), Vec::new(), Vec::new());
        for feed in feeds {
            match feed {
                Feed::Ordered(feed) => ordered.push(feed),
                Feed::Buckets(writer) => append(&mut buckets, writer),
                Feed::MultikeyBuckets(writer) => append(&mut multikey, writer),
            }
        }
        if !ordered.is_empty() {
            Self::Ordered(Mutex::new(ordered))
        } else if !multikey.is_empty() {
            Self::MultikeyBuckets(multikey)
        } else {
            Self::Buckets(buckets)
        }
    }

    /// Jobs that are left.
    pub(crate) fn jobs(&self) -> usize {
        match self {
            Self::Ordered(_) => 1,
            Self::Buckets(buckets) => buckets.len(),
            Self::MultikeyBuckets(buckets) => buckets.len(),
        }
    }

    /// Does one job, which takes its input away. `scratch` is the thread's own and reused.
    pub(crate) fn job(
        &self,
        job: usize,
        plan: &Plan,
        arena: &Arena,
        pool: &Arc<NodePool>,
        scratch: &mut Scratch,
    ) -> Result<(Part, Cost), Failure> {
        let depth_max = if plan.hints.is_none() { 0 } else { REHINT_DEPTH_MAX };
        let mut sort = Sort { key_def: &plan.key_def, arena, pool, depth_max, cost: Cost::default() };
        let part = match self {
            Self::Ordered(feeds) => Part::Leaves(sort.join(take(feeds), &mut scratch.plain)?),
            Self::Buckets(buckets) => {
                let leaves = take(&buckets[job]);
                Part::Leaves(sort.bucket(leaves, &mut scratch.plain, |sort, room| match &plan.shape {
                    Shape::Hashed { hasher, .. } => sort.sort_hashes(room, hasher),
                    _ => sort.sort(room),
                })?)
            }
            Self::MultikeyBuckets(buckets) => {
                Part::MultikeyLeaves(sort.bucket(take(&buckets[job]), &mut scratch.multikey, Sort::sort)?)
            }
        };
        Ok((part, sort.cost))
    }

    /// Puts the parts, in the order of jobs, together.
    pub(crate) fn finish(plan: &Plan, pool: &Arc<NodePool>, parts: Vec<Part>) -> Result<Built> {
        let (mut leaves, mut multikey) = (Leaves::default(), None::<Leaves<true>>);
        for part in parts {
            match part {
                Part::Leaves(more) => leaves.append(more),
                Part::MultikeyLeaves(more) => multikey.get_or_insert_default().append(more),
            }
        }
        let mut writer = NodeWriter::new(pool.clone());
        Ok(match (multikey, &plan.shape) {
            (Some(leaves), _) => Built::MultikeyTree(Tree::from_leaves(leaves, &mut writer, plan.txn)?),
            (None, Shape::Hashed { hasher, .. }) => {
                Built::Hash(HashIndex::from_leaves(leaves, &mut writer, plan.txn)?, hasher.clone())
            }
            (None, _) => Built::Tree(Tree::from_leaves(leaves, &mut writer, plan.txn)?),
        })
    }
}

/// Puts a worker's buckets behind those of the workers before it.
fn append<const MULTI: bool>(buckets: &mut Vec<Mutex<Leaves<MULTI>>>, writer: BucketWriter<MULTI>) {
    let (leaves, _) = writer.finish();
    buckets.resize_with(leaves.len(), Mutex::default);
    for (bucket, more) in buckets.iter_mut().zip(leaves) {
        bucket.get_mut().unwrap_or_else(PoisonError::into_inner).append(more);
    }
}

fn take<T: Default>(shared: &Mutex<T>) -> T {
    std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A thread's buffers for the entries of a bucket.
#[derive(Default)]
pub(crate) struct Scratch {
    plain: Room<(u64, u32)>,
    multikey: Room<(u64, u32, u32)>,
}

/// Room for the entries of a bucket and for sorting them.
#[derive(Default)]
struct Room<E> {
    entries: Vec<E>,
    buffers: sort::Buffers<E>,
}

fn order(key_def: &KeyDef, arena: &Arena, a: Entry, b: Entry) -> Ordering {
    match a.hint.cmp(&b.hint) {
        Ordering::Equal => key_def.compare(position(arena, a), position(arena, b)),
        order => order,
    }
}

fn position(arena: &Arena, entry: Entry) -> Position<'_> {
    Position { tuple: arena.get(entry.handle), element: entry.element }
}

fn duplicate(first: Entry, second: Entry) -> Failure {
    Failure::Duplicate(Twins(first.handle, second.handle))
}

struct Sort<'a> {
    key_def: &'a KeyDef,
    arena: &'a Arena,
    pool: &'a Arc<NodePool>,
    /// 0: no hints are wanted.
    depth_max: usize,
    cost: Cost,
}

impl Sort<'_> {
    /// Sorts the entries by hint, then those that tie in full; finds equal keys.
    fn sort<const MULTI: bool, E: BulkEntry<MULTI>>(&mut self, room: &mut Room<E>) -> Result<(), Failure> {
        sort::by_hint(&mut room.entries, &mut room.buffers, |entry| entry.entry().hint);
        for ties in room.entries.chunk_by_mut(|a, b| a.entry().hint == b.entry().hint) {
            if ties.len() > 1 {
                self.cost.ties += ties.len() as u64;
                self.sort_ties(ties, 0)?;
            }
        }
        Ok(())
    }

    /// Sorts entries whose hints tie; they have had new hints `depth` times.
    fn sort_ties<const MULTI: bool, E: BulkEntry<MULTI>>(
        &mut self,
        ties: &mut [E],
        depth: usize,
    ) -> Result<(), Failure> {
        if ties.len() < REHINT_ENTRIES_MIN || depth >= self.depth_max {
            return self.sort_in_full(ties);
        }
        let step = ties.len().div_ceil(REHINT_SAMPLE);
        let sample: Vec<_> =
            ties.iter().step_by(step).map(|tie| self.arena.get(tie.entry().handle)).collect();
        let hints = Hints::sample(self.key_def, &sample);
        let mut hinted: Vec<(u64, E)> = ties
            .iter()
            .map(|&tie| {
                let Position { tuple, element } = position(self.arena, tie.entry());
                (hints.of(self.key_def, &tuple, element), tie)
            })
            .collect();
        self.cost.touches += (sample.len() + ties.len()) as u64;
        hinted.sort_unstable_by_key(|&(hint, _)| hint);
        ties.iter_mut().zip(&hinted).for_each(|(tie, &(_, hinted))| *tie = hinted);
        let mut groups = Vec::new();
        let mut start = 0;
        for group in hinted.chunk_by(|a, b| a.0 == b.0) {
            if group.len() > 1 {
                groups.push(start..start + group.len());
            }
            start += group.len();
        }
        // Before it goes deeper, so that depth costs no memory.
        drop(hinted);
        for group in groups {
            if group.len() == ties.len() {
                self.sort_in_full(ties)?;
            } else {
                self.sort_ties(&mut ties[group], depth + 1)?;
            }
        }
        Ok(())
    }

    /// Sorts by comparing keys; finds equal ones.
    fn sort_in_full<const MULTI: bool, E: BulkEntry<MULTI>>(
        &mut self,
        ties: &mut [E],
    ) -> Result<(), Failure> {
        let mut touches = 0;
        ties.sort_unstable_by(|a, b| {
            touches += 2;
            let (a, b) = (a.entry(), b.entry());
            // Equal keys of a unique index keep the order of handles, so that the report is the same every time.
            order(self.key_def, self.arena, a, b).then(a.handle.cmp(&b.handle))
        });
        if self.key_def.unique {
            for pair in ties.windows(2) {
                touches += 2;
                let (first, second) = (pair[0].entry(), pair[1].entry());
                if self.key_def.conflict(position(self.arena, first), position(self.arena, second)) {
                    return Err(duplicate(first, second));
                }
            }
        }
        self.cost.touches += touches;
        Ok(())
    }

    /// Sorts by hash; finds what the hasher calls equal.
    fn sort_hashes(&mut self, room: &mut Room<(u64, u32)>, hasher: &Hasher) -> Result<(), Failure> {
        sort::by_hint(&mut room.entries, &mut room.buffers, |entry| entry.0);
        let equal = |a, b| hasher.equal(self.key_def, &self.arena.get(a), &self.arena.get(b));
        find_twins(&room.entries, equal).map_or(Ok(()), |twins| Err(Failure::Duplicate(twins)))
    }

    /// Reads the entries out of `leaves`, sorts them with `sort`, and writes them back into as many of the leaves as
    /// are needed.
    fn bucket<const MULTI: bool, E: BulkEntry<MULTI>>(
        &mut self,
        mut leaves: Leaves<MULTI>,
        room: &mut Room<E>,
        sort: impl FnOnce(&mut Self, &mut Room<E>) -> Result<(), Failure>,
    ) -> Result<Leaves<MULTI>, Failure> {
        room.entries.clear();
        leaves.read(self.pool, &mut room.entries);
        sort(self, room)?;
        let mut spare = Vec::new();
        leaves.write(self.pool, &room.entries, &mut spare);
        self.pool.give_back(&mut spare);
        Ok(leaves)
    }

    /// Joins runs into one list of leaves; sorts all of them if they are not in order.
    fn join(
        &mut self,
        feeds: Vec<OrderedFeed>,
        room: &mut Room<(u64, u32)>,
    ) -> Result<Leaves<false>, Failure> {
        let mut in_order = true;
        let mut runs = Vec::new();
        for feed in feeds {
            self.cost.touches += feed.touches;
            in_order &= !feed.unordered;
            runs.extend(feed.runs);
        }
        runs.sort_unstable_by_key(|run| run.number);
        for pair in runs.windows(2) {
            match order(self.key_def, self.arena, pair[0].last, pair[1].first) {
                Ordering::Less => {}
                Ordering::Equal => return Err(duplicate(pair[0].last, pair[1].first)),
                Ordering::Greater => in_order = false,
            }
        }
        let mut leaves = Leaves::default();
        runs.into_iter().for_each(|run| leaves.append(run.leaves));
        if in_order {
            return Ok(leaves);
        }
        let leaves = self.bucket(leaves, room, Sort::sort)?;
        self.cost.sorted += leaves.entries(self.pool);
        Ok(leaves)
    }
}
