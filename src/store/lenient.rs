//! Rows that may not fit together: each is applied if it can be, and told of if it cannot.
//!
//! Where replay stops at the first row that makes no sense, this goes on: the row changes nothing, and its error goes to the
//! caller. Rows about definitions cannot be judged alone, for a space changes by several of them. They are judged when
//! somebody asks for the space, or their transaction ends; if they make no sense together, the last ones are taken back
//! until the others do.

use std::collections::BTreeMap;

use super::replay::{delete_range, present};
use super::sequences::{Sequences, is_about_sequences};
use super::synchro::Synchro;
use crate::error::{Error, ErrorKind, Result};
use crate::file::log_row::LogRow;
use crate::file::row::{kind, kind_text};
use crate::space::alter::{Catalog, Found, Living};
use crate::space::request::{Operations, Request, Told};
use crate::space::system;
use crate::tuple::update::Rules;

/// What becomes of a row that is not applied, and changes nothing.
#[derive(Debug)]
pub(super) enum Unapplied {
    /// It cannot be applied.
    Unfit(Error),
    /// It is of a space whose tuples are not in memory.
    NotHere,
    /// It is of a space that is not defined.
    Undefined,
}

/// A row about definitions that was taken back.
#[derive(Debug)]
pub(super) struct TakenBack<P> {
    pub(super) place: P,
    pub(super) row: Vec<u8>,
    pub(super) error: Error,
}

/// A change of a row of `_space` or `_index`.
struct Change<P> {
    place: P,
    row: Vec<u8>,
    /// The space that the row is of, and what it was and is.
    space_id: u32,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

/// See the head of this file. `P` is whatever the caller wants to know of a row's place.
pub(super) struct Lenient<'a, P> {
    pub(super) catalog: Catalog<'a>,
    pub(super) synchro: Synchro,
    sequences: Sequences,
    /// Changes that have not been judged, by the space that they are about.
    changes: BTreeMap<u32, Vec<Change<P>>>,
    pub(super) taken_back: Vec<TakenBack<P>>,
}

impl<'a, P: Copy> Lenient<'a, P> {
    pub(super) fn new(catalog: Catalog<'a>, synchro: Synchro) -> Self {
        let (changes, taken_back) = (BTreeMap::new(), Vec::new());
        Self { catalog, synchro, sequences: Sequences::default(), changes, taken_back }
    }

    /// Applies a row, or says why it changes nothing.
    ///
    /// # Errors
    /// `Memory`.
    pub(super) fn apply(&mut self, row: &LogRow<'_>, place: P, rules: &Rules) -> Result<Option<Unapplied>> {
        let outcome = match row.kind() {
            kind::NOP => Ok(None),
            kind::RAFT => match row.whole() {
                Ok(whole) => self.synchro.take(kind::RAFT, &whole.body.unwrap_or_default()).map(|()| None),
                Err(error) => Err(error),
            },
            kind::INSERT | kind::REPLACE | kind::UPDATE | kind::DELETE | kind::UPSERT => {
                self.change(row, place, rules)
            }
            kind::DELETE_RANGE => self.range(row),
            other => Err(Error::new(ErrorKind::Unsupported, "request type")
                .expected("one that changes the data of a memtx space, or none")
                .found(kind_text(other))),
        };
        outcome.or_else(|error| match error.kind() {
            ErrorKind::Memory => Err(error),
            _ => Ok(Some(Unapplied::Unfit(error))),
        })
    }

    fn change(&mut self, row: &LogRow<'_>, place: P, rules: &Rules) -> Result<Option<Unapplied>> {
        let Some(space_id) = row.space_id() else {
            return Err(Error::new(ErrorKind::Row, "row body").expected("a space id").found("none"));
        };
        self.judge(space_id)?;
        if is_about_sequences(space_id) {
            self.sequences.give_back(&mut self.catalog)?;
        }
        self.sequences.prepare(&self.catalog);
        if let Some(why) = self.catalog.lacks_order(space_id) {
            return Err(Error::new(ErrorKind::Absent, format!("its primary index is absent: {why}")));
        }
        let living = match self.catalog.find(space_id)? {
            Found::Table(living) => living,
            Found::Absent => return Ok(Some(Unapplied::NotHere)),
            Found::Undefined => return Ok(Some(Unapplied::Undefined)),
        };
        let is_followed = system::is_followed(space_id);
        let old = if is_followed { present(living, row)? } else { None };
        execute(living, row, rules)?;
        living.grown();
        if let (kind::INSERT | kind::REPLACE, Some(tuple)) = (row.kind(), row.tuple()) {
            self.sequences.follow(space_id, tuple);
        }
        if !is_followed {
            return Ok(None);
        }
        let new = present(living, row)?;
        if let Err(error) = self.follow(space_id, old.as_deref(), new.as_deref(), row, place) {
            self.put_back(space_id, old.as_deref(), new.as_deref())?;
            return Err(error);
        }
        Ok(None)
    }

    fn follow(
        &mut self,
        space_id: u32,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        row: &LogRow<'_>,
        place: P,
    ) -> Result<()> {
        let subject = match (space_id, new.or(old)) {
            (system::SPACE_ID | system::INDEX_ID, Some(tuple)) => Some(system::subject(tuple)?),
            _ => None,
        };
        self.catalog.follow(space_id, old, new, row.kind() == kind::INSERT)?;
        if let Some(subject) = subject {
            let owned = |tuple: Option<&[u8]>| tuple.map(<[u8]>::to_vec);
            let (row, old, new) = (row.bytes().to_vec(), owned(old), owned(new));
            self.changes.entry(subject).or_default().push(Change { place, row, space_id, old, new });
        }
        Ok(())
    }

    /// To be called where a transaction ends: all definitions are judged.
    ///
    /// # Errors
    /// `Memory`.
    pub(super) fn end_transaction(&mut self) -> Result<()> {
        while let Some((&subject, _)) = self.changes.first_key_value() {
            self.judge(subject)?;
        }
        self.catalog.settle_all()
    }

    /// Whether the changes of a space's definition make sense together; those that do not are taken back.
    fn judge(&mut self, id: u32) -> Result<()> {
        let Some(mut mine) = self.changes.remove(&id) else { return Ok(()) };
        let mut later = Vec::new();
        let mut outcome = self.catalog.settle_one(id);
        while let (Err(error), Some(change)) = (&outcome, mine.pop()) {
            if error.kind() == ErrorKind::Memory {
                break;
            }
            self.undo(&change)?;
            let error = error.clone();
            outcome = self.catalog.settle_one(id);
            later.push((change, error));
        }
        outcome?;
        // The last one that was taken back was one too many; those behind it may be good without it.
        if let Some((Change { place, row, .. }, error)) = later.pop() {
            self.taken_back.push(TakenBack { place, row, error });
        }
        for (change, _) in later.into_iter().rev() {
            self.redo(&change)?;
            if let Err(error) = self.catalog.settle_one(id) {
                self.undo(&change)?;
                self.catalog.settle_one(id)?;
                let Change { place, row, .. } = change;
                self.taken_back.push(TakenBack { place, row, error });
            }
        }
        Ok(())
    }

    fn undo(&mut self, change: &Change<P>) -> Result<()> {
        self.put_back(change.space_id, change.old.as_deref(), change.new.as_deref())?;
        self.catalog.follow(change.space_id, change.new.as_deref(), change.old.as_deref(), false)
    }

    fn redo(&mut self, change: &Change<P>) -> Result<()> {
        self.put_back(change.space_id, change.new.as_deref(), change.old.as_deref())?;
        self.catalog.follow(change.space_id, change.old.as_deref(), change.new.as_deref(), false)
    }

    /// Makes a system space have the row `old` again, in the place of `new`.
    fn put_back(&mut self, space_id: u32, old: Option<&[u8]>, new: Option<&[u8]>) -> Result<()> {
        let Found::Table(living) = self.catalog.find(space_id)? else { return Ok(()) };
        match (old, new) {
            (Some(old), _) => living.replace(old),
            (None, Some(new)) => living.remove(new),
            (None, None) => Ok(()),
        }
    }

    fn range(&mut self, row: &LogRow<'_>) -> Result<Option<Unapplied>> {
        let space_id = row.space_id().unwrap_or(0);
        self.judge(space_id)?;
        if let Some(why) = self.catalog.lacks_order(space_id) {
            return Err(Error::new(ErrorKind::Absent, format!("its primary index is absent: {why}")));
        }
        let living = match self.catalog.find(space_id)? {
            Found::Table(living) => living,
            Found::Absent => return Ok(Some(Unapplied::NotHere)),
            Found::Undefined => return Ok(Some(Unapplied::Undefined)),
        };
        if system::is_followed(space_id) {
            return Err(Error::new(ErrorKind::Unsupported, "DELETE_RANGE in a system space")
                .space(&living.table.def.name));
        }
        delete_range(living, row)?;
        Ok(None)
    }

    /// All is applied: the counters of sequences go back to their space.
    ///
    /// # Errors
    /// `Memory`.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.end_transaction()?;
        self.sequences.give_back(&mut self.catalog)
    }
}

/// Does what a row asks for, at once and in all indexes.
fn execute(living: &mut Living, row: &LogRow<'_>, rules: &Rules) -> Result<()> {
    let missing = |what: &str| Error::new(ErrorKind::Row, "row body").expected(what).found("none");
    let tuple = || row.tuple().ok_or_else(|| missing("a tuple"));
    let Living { table, writer, fields, .. } = living;
    let operations = |ops| Operations { ops, base: row.index_base(), fields, rules };
    let (request, (key, hint)): (_, (&[u8], _)) = match row.kind() {
        kind::INSERT | kind::REPLACE | kind::UPSERT => {
            let new = writer.put(table, tuple()?)?;
            let request = match row.kind() {
                kind::INSERT => Request::Insert(new),
                kind::REPLACE => Request::Replace(new),
                _ => Request::Upsert(new, operations(row.ops().ok_or_else(|| missing("operations"))?)),
            };
            (request, (&[], new.hint))
        }
        // By another index nothing was found when it was written: what is found is logged by its primary key.
        _ if row.index_id() != 0 => return Ok(()),
        other => {
            let key = row.key().ok_or_else(|| missing("a key"))?;
            let request = match other {
                kind::DELETE => Request::Delete,
                _ => Request::Update(operations(row.tuple().ok_or_else(|| missing("operations"))?)),
            };
            (request, (key, writer.key_hint(table, key)?))
        }
    };
    writer.execute(table, &request, (key, hint), &mut Told::default())
}
