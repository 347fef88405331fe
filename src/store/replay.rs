//! From logs to the state after them: every transaction that the snapshot does not hold, in order.
//!
//! ```text
//! transaction --> waits for a quorum, or behind others? --> Limbo --> CONFIRM: as if it came now; ROLLBACK: never was
//!             --> each row: find the space --> change its table (space::change)
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

use super::limbo::{Limbo, Waits};
use super::report::LogReport;
use super::sequences::{Sequences, is_about_sequences};
use super::synchro::{Promote, Synchro};
use crate::error::{Error, ErrorKind, Result};
use crate::file::habits::version;
use crate::file::log::LogChain;
use crate::file::log_row::LogRow;
use crate::file::row::{kind, kind_text};
use crate::file::transaction::{OwnedTransaction, RowFault, Transaction};
use crate::space::alter::{Catalog, Found, Living};
use crate::space::system;
use crate::tuple::slab::Budget;
use crate::tuple::update::{self, Rules};

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
    /// The result of an UPDATE or UPSERT.
    updated: Vec<u8>,
    pub(super) report: LogReport,
}

impl<'a> Replay<'a> {
    /// `synchro`: as the snapshot has it.
    pub(super) fn new(
        catalog: Catalog<'a>,
        chain: &LogChain,
        synchro: Synchro,
        budget: Arc<Budget>,
        skips_unknown: bool,
    ) -> Self {
        let dialect = |writer: &Option<String>| {
            let version = writer.as_deref().and_then(version);
            Dialect {
                rules: Rules::of_version(version.map(|[major, minor, patch]| (major, minor, patch))),
                has_flags: version.is_none_or(|version| version >= FLAGS_SINCE),
            }
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
            updated: Vec::new(),
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
        self.sequences.give_back(&mut self.catalog)
    }

    fn apply(&mut self, transaction: &Transaction<'_>) -> Result<(), RowFault> {
        let log = transaction.log();
        for (number, row) in transaction.rows().enumerate() {
            self.row(log, &row).map_err(|error| (number, error))?;
        }
        self.catalog.settle_all().map_err(|error| (transaction.len() - 1, error))
    }

    #[inline]
    fn row(&mut self, log: usize, row: &LogRow<'_>) -> Result<()> {
        match row.kind() {
            kind::INSERT
            | kind::REPLACE
            | kind::UPDATE
            | kind::DELETE
            | kind::UPSERT
            | kind::DELETE_RANGE => {}
            kind::NOP => return Ok(()),
            kind::RAFT => {
                let body = row.whole()?.body.unwrap_or_default();
                return self.synchro.take(kind::RAFT, &body);
            }
            other => return self.other(row, other),
        }
        let Some(space_id) = row.space_id() else {
            return Err(Error::new(ErrorKind::Row, "row body").expected("a space id").found("none"));
        };
        if is_about_sequences(space_id) {
            self.sequences.give_back(&mut self.catalog)?;
        }
        let living = match self.catalog.find(space_id)? {
            Found::Table(living) => living,
            Found::Absent => {
                self.report.skipped_rows += 1;
                return Ok(());
            }
            Found::Undefined if space_id == VINYL_DEFERRED_DELETE_ID => return Ok(()),
            Found::Undefined => {
                return Err(Error::new(ErrorKind::Schema, "a row of a space that is not defined")
                    .expected("a row in _space before it")
                    .found("none")
                    .space(space_id));
            }
        };
        let rules = &self.dialects[log].rules;
        let (report, updated) = (&mut self.report, &mut self.updated);
        if !system::is_followed(space_id) {
            change(living, row, rules, updated, report)?;
            living.grown();
            if let (kind::INSERT | kind::REPLACE, Some(tuple)) = (row.kind(), row.tuple()) {
                self.sequences.follow(&self.catalog, space_id, tuple);
            }
            return Ok(());
        }
        let old = present(living, row)?;
        change(living, row, rules, updated, report)?;
        let new = present(living, row)?;
        self.catalog.follow(space_id, old.as_deref(), new.as_deref(), row.kind() == kind::INSERT)
    }

    #[cold]
    fn other(&mut self, row: &LogRow<'_>, found: u64) -> Result<()> {
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

/// The tuple that a row of a followed system space is about, as it is now.
fn present(living: &mut Living, row: &LogRow<'_>) -> Result<Option<Vec<u8>>> {
    let Living { table, writer, .. } = living;
    let handle = match (row.kind(), row.tuple(), row.key()) {
        (kind::INSERT | kind::REPLACE | kind::UPSERT, Some(tuple), _) => writer.find_tuple(table, tuple)?,
        (kind::UPDATE | kind::DELETE, _, Some(key)) if row.index_id() == 0 => writer.find(table, key)?,
        (kind::DELETE_RANGE, ..) => {
            return Err(
                Error::new(ErrorKind::Unsupported, "DELETE_RANGE in a system space").space(&table.def.name)
            );
        }
        _ => None,
    };
    Ok(handle.map(|handle| table.arena.get(handle).data().to_vec()))
}

/// Changes a table by a row.
#[inline]
fn change(
    living: &mut Living,
    row: &LogRow<'_>,
    rules: &Rules,
    updated: &mut Vec<u8>,
    report: &mut LogReport,
) -> Result<()> {
    if row.kind() == kind::DELETE_RANGE && row.index_id() != 0 {
        living.complete(1)?;
    }
    let Living { table, writer, fields, .. } = living;
    let missing = |what: &str| Error::new(ErrorKind::Row, "row body").expected(what).found("none");
    let tuple = || row.tuple().ok_or_else(|| missing("a tuple"));
    let key = || row.key().ok_or_else(|| missing("a key"));
    match row.kind() {
        kind::INSERT => writer.insert(table, tuple()?),
        kind::REPLACE => writer.replace(table, tuple()?),
        // By another index nothing was found when it was written: what is found is logged by its primary key.
        kind::UPDATE | kind::DELETE if row.index_id() != 0 => Ok(()),
        kind::DELETE => writer.delete(table, key()?).map(|_| ()),
        kind::UPDATE => {
            let operations = row.tuple().ok_or_else(|| missing("operations"))?;
            let Some(old) = writer.find(table, key()?)? else { return Ok(()) };
            let in_space = |error: Error| error.space(&table.def.name);
            let data = table.arena.get(old).data();
            update::update(updated, data, operations, row.index_base(), (fields, &table.format), rules)
                .map_err(in_space)?;
            if writer.put_updated(table, old, updated)? {
                return Ok(());
            }
            Err(Error::new(ErrorKind::Update, "UPDATE of the primary key (error 94)")
                .expected("the key as it was")
                .found("another")
                .space(&table.def.name))
        }
        kind::UPSERT => {
            let operations = row.ops().ok_or_else(|| missing("operations"))?;
            let in_space = |error: Error| error.space(&table.def.name);
            let Some(old) = writer.find_tuple(table, tuple()?)? else {
                update::check(operations, row.index_base(), fields, rules).map_err(in_space)?;
                return writer.insert(table, tuple()?);
            };
            let (data, known) = (table.arena.get(old).data(), (&*fields, &*table.format));
            report.failed_operations +=
                update::upsert(updated, data, operations, row.index_base(), known, rules)
                    .map_err(in_space)?;
            report.ignored_upserts += u64::from(!writer.put_updated(table, old, updated)?);
            Ok(())
        }
        _ => {
            let whole = row.whole()?;
            let body = whole.body.unwrap_or_default();
            let end = |key: Option<&[u8]>| key.map_or_else(|| vec![0x90], <[u8]>::to_vec);
            writer.delete_range(table, row.index_id(), &end(body.begin_key), &end(body.end_key)).map(|_| ())
        }
    }
}
