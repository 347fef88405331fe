//! Rows of logs, gathered and applied in the order of their keys.
//!
//! A log goes through a space at random: every row finds its way through a tree and to a tuple that no cache holds. But
//! rows of different keys do not depend on each other, as long as no unique secondary index stands between them. So rows
//! are taken in as they come, and applied, some hundred thousand at a time, key by key:
//!
//! ```text
//! add      a new tuple is checked and put in the arena; a key is checked and kept, as are operations
//!                                                            -> statement, and (hint of its key, its number)
//! flush    each space's pairs sorted: keys in the order of the tree, the statements of one key as they came
//!                                                            -> the tree is walked from left to right
//! ```
//!
//! What comes out is the same, to the byte, as row by row: tuples, errors and what is told of them. Of several rows that
//! cannot be applied, the first in the log is the one to tell of. Whoever needs the state between two rows (a change of
//! definitions, a range to delete, a space with a unique secondary index) has the batch flushed before.

use super::report::LogReport;
use crate::error::{Error, ErrorKind, Result};
use crate::file::log_row::LogRow;
use crate::file::row::kind;
use crate::file::transaction::RowPlace;
use crate::prefetch;
use crate::space::alter::{Catalog, Living};
use crate::space::change::New;
use crate::tuple::slab::Handle;
use crate::tuple::update::{self, Rules};

/// Statements of a batch: enough that neighbours among them share leaves of a tree of millions of tuples.
const STATEMENTS_MAX: usize = 1 << 18;

/// Bytes of tuples, keys and operations that a batch holds, about: they come on top of what the store keeps.
const BYTES_MAX: usize = 16 << 20;

/// A space with fewer tuples than this waits for so many statements, whatever it has.
const PENDING_MIN: usize = 1 << 10;

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

/// See the head of this file.
#[derive(Default)]
pub(super) struct Batch {
    statements: Vec<Statement>,
    bytes: Vec<u8>,
    tuple_bytes: usize,
    /// The blocks that the rows stand in: of each the number of its first statement here.
    blocks: Vec<(usize, RowPlace)>,
    /// Spaces with pending statements.
    spaces: Vec<u32>,
    /// The result of an UPDATE or UPSERT.
    updated: Vec<u8>,
}

/// A row that cannot be applied.
type Fault = (RowPlace, Error);

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Number of the log that the rows are of, of which there is at least one.
    pub(super) fn log(&self) -> Option<usize> {
        self.blocks.first().map(|(_, place)| place.log)
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
        if self.blocks.last().is_none_or(|(_, last)| (last.log, last.block) != (place.log, place.block)) {
            self.blocks.push((self.statements.len(), place));
        }
        if pending.is_empty() {
            self.spaces.push(table.def.id);
        }
        pending.push((hint, self.statements.len() as u32));
        self.statements.push(Statement {
            kind,
            base: row.index_base(),
            new: handle,
            start: self.bytes.len(),
            key_bytes: key.len() as u32,
            ops_bytes: ops.len() as u32,
            row: place.row as u32,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(ops);
        self.tuple_bytes += tuple.map_or(0, <[u8]>::len);
        // A small table has no use for large batches, and hints that are learnt anew as it grows.
        let pending_max = PENDING_MIN.max(usize::try_from(table.tuples).unwrap_or(usize::MAX));
        Ok(!living.takes_any_order
            || pending.len() >= pending_max
            || self.statements.len() >= STATEMENTS_MAX
            || self.bytes.len() + self.tuple_bytes >= BYTES_MAX)
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
        let mut first: Option<(u32, Error)> = None;
        for id in std::mem::take(&mut self.spaces) {
            // Whoever changes definitions has flushed before, so the space is the one that took the statements in.
            let Some(living) = catalog.table(id) else { continue };
            let mut pending = std::mem::take(&mut living.pending);
            pending.sort_unstable();
            for (at, &(hint, number)) in pending.iter().enumerate() {
                if let Some(&(_, soon)) = pending.get(at + STATEMENTS_AHEAD) {
                    prefetch::line(&raw const self.statements[soon as usize]);
                }
                if let Some(&(hint, soon)) = pending.get(at + TUPLES_AHEAD) {
                    self.prefetch_tuples(living, soon, hint);
                }
                if first.as_ref().is_some_and(|&(fault, _)| fault < number) {
                    continue;
                }
                if let Err(error) = self.apply(living, number, hint, rules, report) {
                    first = Some((number, error));
                }
            }
            pending.clear();
            living.pending = pending;
            living.grown();
        }
        let fault = first.map(|(number, error)| (self.place(number as usize), error));
        self.statements.clear();
        self.bytes.clear();
        self.blocks.clear();
        self.tuple_bytes = 0;
        fault.map_or(Ok(()), Err)
    }

    /// Asks for what a statement that comes soon needs: its own bytes, and the tuples that it is about.
    #[inline]
    fn prefetch_tuples(&self, living: &Living, number: u32, hint: u64) {
        let Statement { kind, new, start, .. } = self.statements[number as usize];
        match kind {
            // There should be no other tuple.
            Kind::Insert => living.table.arena.prefetch(new),
            Kind::Replace => {
                living.table.arena.prefetch(new);
                living.writer.prefetch(&living.table, hint);
            }
            Kind::Update | Kind::Delete | Kind::Upsert => {
                prefetch::line(self.bytes.as_ptr().wrapping_add(start));
                living.writer.prefetch(&living.table, hint);
            }
        }
    }

    fn place(&self, number: usize) -> RowPlace {
        let block = self.blocks.partition_point(|&(first, _)| first <= number) - 1;
        RowPlace { row: self.statements[number].row.into(), ..self.blocks[block].1 }
    }

    #[inline]
    fn apply(
        &mut self,
        living: &mut Living,
        number: u32,
        hint: u64,
        rules: &Rules,
        report: &mut LogReport,
    ) -> Result<()> {
        let Statement { kind, base, new, start, key_bytes, ops_bytes, .. } = self.statements[number as usize];
        let (key, ops) = self.bytes[start..][..(key_bytes + ops_bytes) as usize].split_at(key_bytes as usize);
        let new = New { handle: new, hint };
        let updated = &mut self.updated;
        let Living { table, writer, fields, .. } = living;
        match kind {
            Kind::Insert => writer.insert(table, new),
            Kind::Replace => writer.replace(table, new),
            Kind::Delete => writer.delete(table, key, hint).map(drop),
            Kind::Update => {
                let Some(old) = writer.find(table, key, hint)? else { return Ok(()) };
                let (data, known) = (table.arena.get(old).data(), (&*fields, &*table.format));
                update::update(updated, data, ops, base, known, rules)
                    .map_err(|error| error.space(&table.def.name))?;
                if writer.put_updated(table, old, updated)? {
                    return Ok(());
                }
                Err(Error::new(ErrorKind::Update, "UPDATE of the primary key (error 94)")
                    .expected("the key as it was")
                    .found("another")
                    .space(&table.def.name))
            }
            Kind::Upsert => {
                let in_space = |error: Error| error.space(&table.def.name);
                update::check(ops, base, fields, rules).map_err(in_space)?;
                let Some(old) = writer.insert_or_find(table, new)? else { return Ok(()) };
                let (data, known) = (table.arena.get(old).data(), (&*fields, &*table.format));
                report.failed_operations += update::upsert(updated, data, ops, base, known, rules)
                    .map_err(|error| error.space(&table.def.name))?;
                report.ignored_upserts += u64::from(!writer.put_updated(table, old, updated)?);
                Ok(())
            }
        }
    }
}
