//! From logs to the state after them: every transaction that the snapshot does not hold, in order.
//!
//! ```text
//! transaction --> waits for a quorum, or behind others? --> Limbo --> CONFIRM: as if it came now; ROLLBACK: never was
//!             --> each row: find the space --> gather, then change its table (batch, space::change)
//!                                          --> a row of _space, _index, ...: definitions follow (space::alter)
//!             --> all its rows are in: spaces whose definitions changed follow
//! ```
//!
//! A row that cannot be applied ends the replay: a log holds nothing but what Tarantool has applied itself, so such a row
//! shows that the log is damaged or does not belong to the snapshot. What is no fault:
//!
//! | row | |
//! |---|---|
//! | UPDATE or DELETE of a key that is not there, or by another index than the primary one | nothing to do; logged all the same |
//! | UPSERT with operations that fail | those are left out, as they were when it was written |
//! | UPSERT that would change the primary key | left out as a whole |
//! | a row of a space that is not in memory (vinyl, temporary, not asked for) | skipped |

use std::path::PathBuf;
use std::sync::Arc;

use super::batch::Batch;
use super::limbo::{Limbo, Waits};
use super::report::LogReport;
use super::sequences::{Sequences, is_about_sequences};
use super::synchro::{Promote, Synchro};
use crate::error::{Error, ErrorKind, Result};
use crate::file::habits::version_of;
use crate::file::log::LogChain;
use crate::file::log_row::LogRow;
use crate::file::row::{kind, kind_text};
use crate::file::transaction::{OwnedTransaction, RowFault, RowPlace, Transaction};
use crate::space::alter::{Catalog, Found, Living};
use crate::space::system;
use crate::tuple::slab::Budget;
use crate::tuple::update::Rules;

/// Bit of a row's flags: the transaction waits until those before it are final.
const WAIT_SYNC: u8 = 2;

/// Bit of a row's flags: the transaction needs a quorum of its own.
const WAIT_ACK: u8 = 4;

/// The first version that says in the rows which transactions wait.
const FLAGS_SINCE: [u32; 3] = [2, 8, 1];

/// Rows of deferred deletes of vinyl: the space is known to Tarantool without being defined.
const VINYL_DEFERRED_DELETE_ID: u32 = 257;

/// What is special about a log, by its writer's version.
struct Dialect {
    rules: Rules,
    /// Its rows say which transactions wait.
    has_flags: bool,
}

/// A replay under way.
pub(super) struct Replay<'a> {
    pub(super) catalog: Catalog<'a>,
    limbo: Limbo<OwnedTransaction>,
    pub(super) synchro: Synchro,
    sequences: Sequences,
    budget: Arc<Budget>,
    dialects: Vec<Dialect>,
    files: Vec<PathBuf>,
    skips_unknown: bool,
    batch: Batch,
    pub(super) report: LogReport,
}

impl<'a> Replay<'a> {
    /// `synchro`: as the snapshot has it. `threads`: that apply rows.
    pub(super) fn new(
        catalog: Catalog<'a>,
        chain: &LogChain,
        synchro: Synchro,
        budget: Arc<Budget>,
        skips_unknown: bool,
        threads: usize,
    ) -> Self {
        let dialect = |writer: &Option<String>| {
            let version = version_of(writer.as_deref());
            Dialect { rules: Rules::of_version(version), has_flags: version >= FLAGS_SINCE }
        };
        Self {
            catalog,
            limbo: Limbo::new(synchro.promote.unwrap_or_default()),
            synchro,
            sequences: Sequences::default(),
            budget,
            dialects: chain.files.iter().map(|file| dialect(&file.header.writer)).collect(),
            files: chain.files.iter().map(|file| file.path.clone()).collect(),
            skips_unknown,
            batch: Batch::new(threads),
            report: LogReport::default(),
        }
    }

    /// Takes in the next transaction of the logs.
    pub(super) fn take(&mut self, transaction: &Transaction<'_>) -> Result<(), RowFault> {
        let last = transaction.row(transaction.len() - 1);
        match last.kind() {
            kind::RAFT_CONFIRM | kind::RAFT_ROLLBACK | kind::RAFT_PROMOTE | kind::RAFT_DEMOTE => {
                return self.decide(&last).map_err(|error| (transaction.len() - 1, error));
            }
            _ => {}
        }
        let waits = self.waits(transaction, last.flags());
        if !self.limbo.holds(waits) {
            return self.apply(transaction);
        }
        let owned = transaction.kept();
        self.budget.take(owned.bytes()).map_err(|error| (0, error))?;
        self.limbo.push(last.replica_id(), last.lsn(), waits.for_quorum, owned);
        Ok(())
    }

    fn waits(&self, transaction: &Transaction<'_>, flags: u8) -> Waits {
        if self.dialects[transaction.log()].has_flags {
            return Waits { for_quorum: flags & WAIT_ACK != 0, for_others: flags & WAIT_SYNC != 0 };
        }
        let is_sync = |id| self.catalog.schema.space_by_id(id).is_some_and(|space| space.is_sync);
        let for_quorum = self.catalog.has_sync_spaces()
            && transaction.rows().filter_map(|row| row.space_id()).any(is_sync);
        Waits { for_quorum, for_others: true }
    }

    /// A row of synchronous replication: what waits is decided.
    fn decide(&mut self, row: &LogRow<'_>) -> Result<()> {
        let whole = row.whole()?;
        let Some(body) = whole.body else { return Ok(()) };
        let (owner, lsn) = (body.replica_id.unwrap_or(0), body.lsn.unwrap_or(0));
        let (confirmed, rolled_back) = match row.kind() {
            kind::RAFT_CONFIRM => (self.limbo.confirm(owner, lsn), Vec::new()),
            kind::RAFT_ROLLBACK => (Vec::new(), self.limbo.roll_back(owner, lsn)),
            promotion => {
                let new_owner = if promotion == kind::RAFT_PROMOTE { row.replica_id() } else { 0 };
                let decided = self.limbo.promote(owner, lsn, body.term.unwrap_or(0), new_owner);
                (decided.confirmed, decided.rolled_back)
            }
        };
        for owned in &rolled_back {
            self.budget.give_back(owned.bytes());
            self.report.rolled_back_transactions += 1;
        }
        confirmed.iter().try_for_each(|owned| self.apply_late(owned))
    }

    /// A transaction that has waited.
    fn apply_late(&mut self, owned: &OwnedTransaction) -> Result<()> {
        self.budget.give_back(owned.bytes());
        let transaction = owned.as_transaction();
        self.apply(&transaction).map_err(|(row, error)| {
            let place = transaction.place(row);
            error.row(place.row).block(place.block, place.byte).file(&self.files[place.log])
        })
    }

    /// What still waits at the end of the logs is applied, as Tarantool shows it to itself, or left out.
    pub(super) fn finish(&mut self, drop_unconfirmed: bool) -> Result<()> {
        self.synchro.promote = self.limbo.promote_row(self.synchro.promote);
        let limbo = std::mem::replace(&mut self.limbo, Limbo::new(Promote::default()));
        for owned in limbo.finish() {
            self.report.unconfirmed_transactions += 1;
            if !drop_unconfirmed {
                self.apply_late(&owned)?;
            }
        }
        self.flush()?;
        self.sequences.give_back(&mut self.catalog)
    }

    fn apply(&mut self, transaction: &Transaction<'_>) -> Result<(), RowFault> {
        let log = transaction.log();
        if self.batch.log().is_some_and(|other| other != log) {
            self.flush().map_err(|error| (0, error))?;
        }
        let mut number = 0;
        while number < transaction.len() {
            if let Err(error) = self.rows(transaction, &mut number) {
                // What waits stands before it in the log.
                self.flush().map_err(|earlier| (number, earlier))?;
                return Err((number, error));
            }
        }
        self.catalog.settle_all().map_err(|error| (transaction.len() - 1, error))
    }

    /// Applies what has been gathered; an error has its place.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(log) = self.batch.log() else { return Ok(()) };
        let rules = &self.dialects[log].rules;
        self.batch.flush(&mut self.catalog, rules, &mut self.report).map_err(|(place, error)| {
            error.row(place.row).block(place.block, place.byte).file(&self.files[place.log])
        })
    }

    /// Takes in the row of a number, and those behind it that are like it; the number is then that of the next one.
    fn rows(&mut self, transaction: &Transaction<'_>, number: &mut usize) -> Result<()> {
        let row = transaction.row(*number);
        if !changes_a_tuple(row.kind()) {
            self.other(&row)?;
            *number += 1;
            return Ok(());
        }
        let Self { catalog, batch, report, sequences, .. } = self;
        sequences.prepare(catalog);
        let (space_id, living) = match living(catalog, &row, report)? {
            Some((space_id, living)) if !system::is_followed(space_id) && !is_about_sequences(space_id) => {
                (space_id, living)
            }
            found => {
                if found.is_some() {
                    self.definition(&row, transaction.place(*number))?;
                }
                *number += 1;
                return Ok(());
            }
        };
        loop {
            let row = transaction.row(*number);
            let is_full = match batch.add(living, &row, transaction.place(*number)) {
                // What waits gives room when it is applied; then it is tried again.
                Err(error) if error.kind() == ErrorKind::Memory && !batch.is_empty() => return self.flush(),
                outcome => outcome?,
            };
            if let (kind::INSERT | kind::REPLACE, Some(tuple)) = (row.kind(), row.tuple()) {
                sequences.follow(space_id, tuple);
            }
            *number += 1;
            if is_full {
                return self.flush();
            }
            let is_like = |row: LogRow<'_>| changes_a_tuple(row.kind()) && row.space_id() == Some(space_id);
            if *number == transaction.len() || !is_like(transaction.row(*number)) {
                return Ok(());
            }
        }
    }

    /// A row of a system space that definitions or counters of sequences follow.
    #[cold]
    fn definition(&mut self, row: &LogRow<'_>, place: RowPlace) -> Result<()> {
        self.flush()?;
        self.sequences.give_back(&mut self.catalog)?;
        let Self { catalog, batch, report, .. } = self;
        let Some((space_id, living)) = living(catalog, row, report)? else { return Ok(()) };
        let old = present(living, row)?;
        batch.add(living, row, place)?;
        self.flush()?;
        let new = match self.catalog.table(space_id) {
            Some(living) => present(living, row)?,
            None => None,
        };
        self.catalog.follow(space_id, old.as_deref(), new.as_deref(), row.kind() == kind::INSERT)
    }

    /// A DELETE_RANGE.
    #[cold]
    fn range(&mut self, row: &LogRow<'_>) -> Result<()> {
        self.flush()?;
        let Self { catalog, report, .. } = self;
        let Some((space_id, living)) = living(catalog, row, report)? else { return Ok(()) };
        if system::is_followed(space_id) {
            return Err(Error::new(ErrorKind::Unsupported, "DELETE_RANGE in a system space")
                .space(&living.table.def.name));
        }
        if row.index_id() != 0 {
            living.complete(1)?;
        }
        delete_range(living, row)
    }

    /// A row that changes no tuple, or many.
    #[cold]
    fn other(&mut self, row: &LogRow<'_>) -> Result<()> {
        let found = row.kind();
        match found {
            kind::NOP => return Ok(()),
            kind::RAFT => {
                let body = row.whole()?.body.unwrap_or_default();
                return self.synchro.take(kind::RAFT, &body);
            }
            kind::DELETE_RANGE => return self.range(row),
            _ => {}
        }
        if kind::name(found).is_none() && self.skips_unknown {
            self.report.unknown_rows += 1;
            return Ok(());
        }
        // Data of other engines is not ours to understand.
        if let Some(space_id) = row.space_id()
            && matches!(self.catalog.find(space_id)?, Found::Absent)
        {
            self.report.skipped_rows += 1;
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unsupported, "request type")
            .expected("one that changes the data of a memtx space, or none")
            .found(kind_text(found)))
    }
}

#[inline]
fn changes_a_tuple(request: u64) -> bool {
    matches!(request, kind::INSERT | kind::REPLACE | kind::UPDATE | kind::DELETE | kind::UPSERT)
}

/// Does what a DELETE_RANGE asks for.
pub(super) fn delete_range(living: &mut Living, row: &LogRow<'_>) -> Result<()> {
    let whole = row.whole()?;
    let body = whole.body.unwrap_or_default();
    let end = |key: Option<&[u8]>| key.map_or_else(|| vec![0x90], <[u8]>::to_vec);
    let Living { table, writer, .. } = living;
    writer.delete_range(table, row.index_id(), &end(body.begin_key), &end(body.end_key)).map(drop)
}

/// The space that a row is of; `None` if it is not in memory.
#[inline]
fn living<'a>(
    catalog: &'a mut Catalog<'_>,
    row: &LogRow<'_>,
    report: &mut LogReport,
) -> Result<Option<(u32, &'a mut Living)>> {
    let Some(space_id) = row.space_id() else {
        return Err(Error::new(ErrorKind::Row, "row body").expected("a space id").found("none"));
    };
    match catalog.find(space_id)? {
        Found::Table(living) => Ok(Some((space_id, living))),
        Found::Absent => {
            report.skipped_rows += 1;
            Ok(None)
        }
        Found::Undefined if space_id == VINYL_DEFERRED_DELETE_ID => Ok(None),
        Found::Undefined => Err(Error::new(ErrorKind::Schema, "a row of a space that is not defined")
            .expected("a row in _space before it")
            .found("none")
            .space(space_id)),
    }
}

/// The tuple that a row of a followed system space is about, as it is now.
pub(super) fn present(living: &mut Living, row: &LogRow<'_>) -> Result<Option<Vec<u8>>> {
    let Living { table, writer, .. } = living;
    let handle = match (row.kind(), row.tuple(), row.key()) {
        (kind::INSERT | kind::REPLACE | kind::UPSERT, Some(tuple), _) => {
            let new = writer.put(table, tuple)?;
            writer.find_twin(table, new)?
        }
        (_, _, Some(key)) if row.index_id() == 0 => {
            let hint = writer.key_hint(table, key)?;
            writer.find(table, key, hint)?
        }
        _ => None,
    };
    Ok(handle.map(|handle| table.arena.get(handle).data().to_vec()))
}
