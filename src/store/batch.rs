//! Rows of logs, gathered and applied in the order of their keys.
//!
//! A log goes through a space at random: every row finds its way through a tree and to a tuple that no cache holds. But
//! rows of different keys do not depend on each other, as long as no unique secondary index stands between them. So rows
//! are taken in as they come, and applied, some hundred thousand at a time, key by key:
//!
//! ```text
//! add      a new tuple is checked and put in the arena; a key is checked and kept, as are operations
//!                                                            -> statement, and (hint of its key, its number)
//! flush    many beside the tuples: merged with the leaves of the primary index, by several threads (`index::merge`)
//!          few: sorted by keys, and a search each
//!          the statements of one key as they came
//! ```
//!
//! What comes out is the same, to the byte, as row by row: tuples, errors and what is told of them. Of several rows that
//! cannot be applied, the first in the log is the one to tell of. Whoever needs the state between two rows (a change of
//! definitions, a range to delete, a space with a unique secondary index) has the batch flushed before.

use std::cmp::Ordering;

use super::report::LogReport;
use crate::error::{Error, ErrorKind, Result};
use crate::file::log_row::LogRow;
use crate::file::row::kind;
use crate::file::transaction::RowPlace;
use crate::index::change::Subject;
use crate::index::merge::{Change, Changes, Shares, merge};
use crate::index::sort::Buffers;
use crate::index::tree::Tree;
use crate::index::tree::bulk::Leaves;
use crate::index::tree::node::NodeWriter;
use crate::parallel;
use crate::prefetch;
use crate::space::alter::{Catalog, Living};
use crate::space::change::TableWriter;
use crate::space::request::{self, Growth, Operations, Request, Told};
use crate::space::room::{New, Room};
use crate::space::table::Table;
use crate::tuple::slab::Handle;
use crate::tuple::update::{Fields, Rules};

/// Statements of a batch: enough that neighbours among them share leaves of a tree of millions of tuples.
const STATEMENTS_MAX: usize = 1 << 18;

/// Bytes of tuples, keys and operations that a batch holds, about: they come on top of what the store keeps.
const BYTES_MAX: usize = 16 << 20;

/// A space with fewer tuples than this waits for so many statements, whatever it has.
const PENDING_MIN: usize = 1 << 10;

/// Statements are merged with all entries of the primary index, unless these are so many times more.
const MERGED_SHARE: u64 = 16;

/// How far ahead of the statement that is applied those to come are asked for, and the tuples that they are about.
const STATEMENTS_AHEAD: usize = 32;
const TUPLES_AHEAD: usize = 8;

/// A row that has been checked; what is left is to apply it.
#[derive(Clone, Copy)]
struct Statement {
    kind: Kind,
    /// What operations count fields from.
    base: u32,
    /// The new tuple of an INSERT, REPLACE or UPSERT.
    new: Handle,
    /// Key, then operations, in the batch's bytes.
    start: usize,
    key_bytes: u32,
    ops_bytes: u32,
    /// The row's number in its block.
    row: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    Insert,
    Replace,
    Update,
    Delete,
    Upsert,
}

/// Rows that have been taken in.
#[derive(Default)]
struct Statements {
    list: Vec<Statement>,
    /// Keys and operations.
    bytes: Vec<u8>,
    tuple_bytes: usize,
    /// The blocks that the rows stand in: of each the number of its first statement here.
    blocks: Vec<(usize, RowPlace)>,
}

/// See the head of this file.
pub(super) struct Batch {
    statements: Statements,
    /// Spaces with pending statements.
    spaces: Vec<u32>,
    threads: usize,
}

/// A row that cannot be applied.
type Fault = (RowPlace, Error);

impl Batch {
    /// `threads`: that apply it.
    pub(super) fn new(threads: usize) -> Self {
        Self { statements: Statements::default(), spaces: Vec::new(), threads }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.statements.list.is_empty()
    }

    /// Number of the log that the rows are of, of which there is at least one.
    pub(super) fn log(&self) -> Option<usize> {
        self.statements.blocks.first().map(|(_, place)| place.log)
    }

    /// Takes in a row that inserts, replaces, updates, deletes or upserts; all rows of a batch are of one log. Gives
    /// whether the batch is to be flushed.
    ///
    /// # Errors
    /// `Row`, `MsgPack`, `TupleFormat`, `Key`: what is wrong with the row. `Memory`.
    #[inline]
    pub(super) fn add(&mut self, living: &mut Living, row: &LogRow<'_>, place: RowPlace) -> Result<bool> {
        let missing = |what: &str| Error::new(ErrorKind::Row, "row body").expected(what).found("none");
        let tuple = || row.tuple().ok_or_else(|| missing("a tuple"));
        let key = || row.key().ok_or_else(|| missing("a key"));
        let (kind, tuple, key, ops): (_, _, _, &[u8]) = match row.kind() {
            kind::INSERT => (Kind::Insert, Some(tuple()?), None, &[]),
            kind::REPLACE => (Kind::Replace, Some(tuple()?), None, &[]),
            kind::UPSERT => {
                let ops = row.ops().ok_or_else(|| missing("operations"))?;
                (Kind::Upsert, Some(tuple()?), None, ops)
            }
            // By another index nothing was found when it was written: what is found is logged by its primary key.
            _ if row.index_id() != 0 => return Ok(false),
            kind::DELETE => (Kind::Delete, None, Some(key()?), &[]),
            _ => {
                let ops = row.tuple().ok_or_else(|| missing("operations"))?;
                (Kind::Update, None, Some(key()?), ops)
            }
        };
        let Living { table, writer, pending, .. } = living;
        let key = key.unwrap_or_default();
        let New { handle, hint } = match tuple {
            Some(tuple) => writer.put(table, tuple)?,
            None => New { handle: Handle::new(0, 0), hint: writer.key_hint(table, key)? },
        };
        if self
            .statements
            .blocks
            .last()
            .is_none_or(|(_, last)| (last.log, last.block) != (place.log, place.block))
        {
            self.statements.blocks.push((self.statements.list.len(), place));
        }
        if pending.is_empty() {
            self.spaces.push(table.def.id);
        }
        pending.push((hint, self.statements.list.len() as u32));
        self.statements.list.push(Statement {
            kind,
            base: row.index_base(),
            new: handle,
            start: self.statements.bytes.len(),
            key_bytes: key.len() as u32,
            ops_bytes: ops.len() as u32,
            row: place.row as u32,
        });
        self.statements.bytes.extend_from_slice(key);
        self.statements.bytes.extend_from_slice(ops);
        self.statements.tuple_bytes += tuple.map_or(0, <[u8]>::len);
        // A small table has no use for large batches, and hints that are learnt anew as it grows.
        let pending_max = PENDING_MIN.max(usize::try_from(table.tuples).unwrap_or(usize::MAX));
        Ok(!living.takes_any_order
            || pending.len() >= pending_max
            || self.statements.list.len() >= STATEMENTS_MAX
            || self.statements.bytes.len() + self.statements.tuple_bytes >= BYTES_MAX)
    }

    /// Applies all that was gathered.
    ///
    /// # Errors
    /// The first row in the log that cannot be applied.
    pub(super) fn flush(
        &mut self,
        catalog: &mut Catalog<'_>,
        rules: &Rules,
        report: &mut LogReport,
    ) -> Result<(), Fault> {
        let mut told = Told::default();
        let mut first: Option<(u32, Error)> = None;
        for id in std::mem::take(&mut self.spaces) {
            // Whoever changes definitions has flushed before, so the space is the one that took the statements in.
            let Some(living) = catalog.table(id) else { continue };
            let mut pending = std::mem::take(&mut living.pending);
            let Living { table, writer, fields, .. } = &mut *living;
            let run = Run { statements: &self.statements, fields, rules, threads: self.threads };
            let outcome = match run.merge(table, writer, &mut pending) {
                None => Ok(run.one_by_one(table, writer, &mut pending)),
                Some(outcome) => outcome,
            };
            let Outcome { told: more, fault } = outcome.unwrap_or_else(|error| {
                // Of no row, but of all together.
                let last = pending.iter().map(|&(_, number)| number).max().unwrap_or(0);
                Outcome { fault: Some((last, error)), ..Outcome::default() }
            });
            told.failed_operations += more.failed_operations;
            told.ignored_upserts += more.ignored_upserts;
            first = earlier(first, fault);
            pending.clear();
            living.pending = pending;
            living.grown();
        }
        report.failed_operations += told.failed_operations;
        report.ignored_upserts += told.ignored_upserts;
        let fault = first.map(|(number, error)| (self.statements.place(number as usize), error));
        self.statements.clear();
        fault.map_or(Ok(()), Err)
    }
}

impl Statements {
    fn clear(&mut self) {
        self.list.clear();
        self.bytes.clear();
        self.blocks.clear();
        self.tuple_bytes = 0;
    }

    fn place(&self, number: usize) -> RowPlace {
        let block = self.blocks.partition_point(|&(first, _)| first <= number) - 1;
        RowPlace { row: self.list[number].row.into(), ..self.blocks[block].1 }
    }

    #[inline]
    fn key(&self, number: u32) -> &[u8] {
        let Statement { start, key_bytes, .. } = self.list[number as usize];
        &self.bytes[start..][..key_bytes as usize]
    }

    #[inline]
    fn request<'a>(&'a self, number: u32, hint: u64, fields: &'a Fields, rules: &'a Rules) -> Request<'a> {
        let Statement { kind, base, new, start, key_bytes, ops_bytes, .. } = self.list[number as usize];
        let new = New { handle: new, hint };
        let ops = &self.bytes[start + key_bytes as usize..][..ops_bytes as usize];
        let operations = Operations { ops, base, fields, rules };
        match kind {
            Kind::Insert => Request::Insert(new),
            Kind::Replace => Request::Replace(new),
            Kind::Delete => Request::Delete,
            Kind::Update => Request::Update(operations),
            Kind::Upsert => Request::Upsert(new, operations),
        }
    }
}

/// What came of statements.
#[derive(Default)]
struct Outcome {
    told: Told,
    /// The first statement, in the order of the log, that failed.
    fault: Option<(u32, Error)>,
}

fn earlier(a: Option<(u32, Error)>, b: Option<(u32, Error)>) -> Option<(u32, Error)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if a.0 <= b.0 { a } else { b }),
        (a, b) => a.or(b),
    }
}

impl Outcome {
    /// Whether a statement of a row before this one has failed already.
    #[inline]
    fn is_beyond_fault(&self, number: u32) -> bool {
        self.fault.as_ref().is_some_and(|&(fault, _)| fault < number)
    }
}

/// What a space's statements are applied with.
#[derive(Clone, Copy)]
struct Run<'a> {
    statements: &'a Statements,
    fields: &'a Fields,
    rules: &'a Rules,
    threads: usize,
}

impl Run<'_> {
    /// Applies what is pending by a search each, in the order of their keys.
    fn one_by_one(&self, table: &mut Table, writer: &mut TableWriter, pending: &mut [Change]) -> Outcome {
        let mut outcome = Outcome::default();
        pending.sort_unstable();
        for (at, &(hint, number)) in pending.iter().enumerate() {
            pending.get(at + STATEMENTS_AHEAD).iter().for_each(|change| self.statements.prefetch(change.1));
            if let Some(&(hint, soon)) = pending.get(at + TUPLES_AHEAD) {
                self.statements.prefetch_more(soon, table);
                writer.prefetch(table, hint);
            }
            if outcome.is_beyond_fault(number) {
                continue;
            }
            let request = self.statements.request(number, hint, self.fields, self.rules);
            let key = (self.statements.key(number), hint);
            let done = writer.execute(table, &request, key, &mut outcome.told);
            done.unwrap_or_else(|error| outcome.fault = Some((number, error)));
        }
        outcome
    }

    /// Applies what is pending by a merge with all entries, if they are few enough and nothing else speaks against it.
    fn merge(
        &self,
        table: &mut Table,
        writer: &mut TableWriter,
        pending: &mut [Change],
    ) -> Option<Result<Outcome>> {
        if (pending.len() as u64) < table.tuples / MERGED_SHARE {
            return None;
        }
        let mut tree = writer.take_primary(table)?;
        let (pool, txn) = (table.pool.clone(), writer.txn);
        let Shares { list, mut between } = Shares::new(&mut tree, &pool, pending, self.threads);
        let rooms = writer.take_rooms(table, list.len());
        let parts = list.into_iter().zip(rooms).collect();
        let whole: &Table = table;
        let merged = parallel::each(self.threads, parts, |(share, room)| {
            let (outcome, growth) = (Outcome::default(), Growth::default());
            let mut part = Part { run: *self, table: whole, room, outcome, growth };
            let leaves = merge(share, &pool, txn, &mut Buffers::default(), &mut part)?;
            Ok((leaves, part.room, part.outcome, part.growth))
        });
        pool.give_back(&mut between);
        let (mut all, mut rooms, mut whole) = (Leaves::default(), Vec::new(), Outcome::default());
        let built = merged.and_then(|parts| {
            for (leaves, room, outcome, growth) in parts {
                all.append(leaves);
                rooms.push(room);
                whole.told.failed_operations += outcome.told.failed_operations;
                whole.told.ignored_upserts += outcome.told.ignored_upserts;
                whole.fault = earlier(whole.fault.take(), outcome.fault);
                growth.add_to(table);
            }
            Tree::from_leaves(all, &mut NodeWriter::new(pool), txn)
        });
        writer.put_rooms(table, rooms);
        Some(match built {
            Ok(tree) => {
                writer.put_primary(table, tree);
                Ok(whole)
            }
            Err(error) => Err(error.space(&table.def.name)),
        })
    }
}

impl Statements {
    #[inline]
    fn prefetch(&self, number: u32) {
        prefetch::line(&raw const self.list[number as usize]);
    }

    #[inline]
    fn prefetch_more(&self, number: u32, table: &Table) {
        let Statement { kind, new, start, .. } = self.list[number as usize];
        match kind {
            Kind::Insert | Kind::Replace => table.arena.prefetch(new),
            Kind::Update | Kind::Delete | Kind::Upsert => {
                prefetch::line(self.bytes.as_ptr().wrapping_add(start));
            }
        }
    }

    fn subject(&self, number: u32) -> Subject<'_> {
        let statement = &self.list[number as usize];
        match statement.kind {
            Kind::Insert | Kind::Replace | Kind::Upsert => Subject::Tuple(statement.new),
            Kind::Update | Kind::Delete => Subject::Key(self.key(number)),
        }
    }
}

/// One thread's part of a merge.
struct Part<'a> {
    run: Run<'a>,
    table: &'a Table,
    room: Room,
    outcome: Outcome,
    growth: Growth,
}

impl Changes for Part<'_> {
    #[inline]
    fn tells_all(&self, hint: u64) -> bool {
        request::tells_all(self.table, hint)
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        let statements = self.run.statements;
        request::compare(self.table, statements.subject(a), statements.subject(b))
    }

    #[inline]
    fn compare_with(&self, change: u32, tuple: Handle) -> Ordering {
        request::compare(self.table, self.run.statements.subject(change), Subject::Tuple(tuple))
    }

    #[inline]
    fn apply(&mut self, changes: &[Change], mut old: Option<Handle>) -> Option<Handle> {
        let Run { statements, fields, rules, .. } = self.run;
        for &(hint, number) in changes {
            if self.outcome.is_beyond_fault(number) {
                continue;
            }
            let request = statements.request(number, hint, fields, rules);
            let told = (&mut self.outcome.told, &mut self.growth);
            match self.room.fold(self.table, &request, hint, old, told) {
                Ok(new) => old = new,
                Err(error) => self.outcome.fault = Some((number, error)),
            }
        }
        old
    }

    #[inline]
    fn prefetch_tuple(&self, tuple: Handle) {
        self.table.arena.prefetch(tuple);
    }

    #[inline]
    fn prefetch(&self, change: u32) {
        self.run.statements.prefetch(change);
    }

    #[inline]
    fn prefetch_more(&self, change: u32) {
        self.run.statements.prefetch_more(change, self.table);
    }
}
