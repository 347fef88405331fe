//! Requests: what becomes of the tuple with a key, whoever finds it.
//!
//! | request | there is a tuple with the key | there is none |
//! |---|---|---|
//! | INSERT | an error | the new one |
//! | REPLACE | the new one | the new one |
//! | UPDATE | what the operations make of it; an error if they cannot, or would change the key | nothing |
//! | DELETE | none | nothing |
//! | UPSERT | what those operations make of it that can be; nothing if they would change the key | the new one |
//!
//! [`TableWriter::execute`] finds the tuple by a search and changes the indexes; the replay of logs finds many at once,
//! by a merge, where [`Room::fold`] follows one key through all its requests.

use std::cmp::Ordering;

use super::change::{TableWriter, conflict, order, primary};
use super::room::{New, Room};
use super::table::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::index::change::Subject;
use crate::tuple::slab::Handle;
use crate::tuple::update::{self, Fields, Rules};

/// A request that has been checked as far as it can be without the tuple it is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Request<'a> {
    Insert(New),
    Replace(New),
    Delete,
    Update(Operations<'a>),
    Upsert(New, Operations<'a>),
}

/// Update operations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operations<'a> {
    /// An array.
    pub(crate) ops: &'a [u8],
    /// What they count fields from.
    pub(crate) base: u32,
    pub(crate) fields: &'a Fields,
    pub(crate) rules: &'a Rules,
}

/// What of a request a person should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Told {
    /// Operations of UPSERTs that were left out.
    pub(crate) failed_operations: u64,
    /// UPSERTs that were left out because they would have changed the primary key.
    pub(crate) ignored_upserts: u64,
}

/// What becomes of a tuple.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Nothing,
    Put(New),
    Removed,
}

impl Request<'_> {
    fn tuple(&self) -> Option<New> {
        match *self {
            Self::Insert(new) | Self::Replace(new) | Self::Upsert(new, _) => Some(new),
            Self::Update(_) | Self::Delete => None,
        }
    }
}

impl TableWriter {
    /// Does a request in all indexes or in none. `key`: of an UPDATE or DELETE, a whole one of the primary index; `hint`:
    /// that of its key.
    ///
    /// # Errors
    /// `DuplicateKey` for a key that a unique index has, naming both tuples; `Update`; `MsgPack` and `TupleFormat` for
    /// what operations make of a tuple; `Key` for the key; `Memory`. Nothing has changed then.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        table: &mut Table,
        request: &Request<'_>,
        (key, hint): (&[u8], u64),
        told: &mut Told,
    ) -> Result<()> {
        let old = match request.tuple() {
            Some(new) => self.look_for(table, new)?,
            None => self.find(table, key, hint)?,
        };
        match self.room().decide(table, request, hint, old, told)? {
            Outcome::Nothing => Ok(()),
            Outcome::Removed => self.change(table, old, None),
            Outcome::Put(new) => {
                self.change(table, old, Some(new)).inspect_err(|_| self.room().free(new.handle))
            }
        }
    }
}

/// How many tuples and bytes more, or less, there are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Growth {
    tuples: i64,
    bytes: i64,
}

impl Growth {
    pub(crate) fn add_to(self, table: &mut Table) {
        table.tuples = table.tuples.wrapping_add_signed(self.tuples);
        table.bytes = table.bytes.wrapping_add_signed(self.bytes);
        table.fingerprint = None;
    }
}

impl Room {
    /// Does a request to the tuple that has its key, and that no index has but the one that is being merged; gives the
    /// one that has the key then.
    ///
    /// # Errors
    /// As `execute`; the tuple is as it was.
    #[inline]
    pub(crate) fn fold(
        &mut self,
        table: &Table,
        request: &Request<'_>,
        hint: u64,
        old: Option<Handle>,
        (told, growth): (&mut Told, &mut Growth),
    ) -> Result<Option<Handle>> {
        let new = match self.decide(table, request, hint, old, told)? {
            Outcome::Nothing => return Ok(old),
            Outcome::Removed => None,
            Outcome::Put(new) => Some(new.handle),
        };
        let bytes = |handle| table.arena.get(handle).data().len() as i64;
        if let Some(new) = new {
            growth.tuples += 1;
            growth.bytes += bytes(new);
        }
        if let Some(old) = old {
            growth.tuples -= 1;
            growth.bytes -= bytes(old);
            self.free(old);
        }
        Ok(new)
    }

    /// What becomes of the tuple with the request's key. A new tuple that does not become it is freed.
    #[inline]
    fn decide(
        &mut self,
        table: &Table,
        request: &Request<'_>,
        hint: u64,
        old: Option<Handle>,
        told: &mut Told,
    ) -> Result<Outcome> {
        let outcome = match (*request, old) {
            (Request::Insert(new), Some(twin)) => Err(conflict(table, 0, twin, new.handle)),
            (Request::Insert(new) | Request::Replace(new), _) => Ok(Outcome::Put(new)),
            (Request::Delete, Some(_)) => Ok(Outcome::Removed),
            (Request::Delete | Request::Update(_), None) => Ok(Outcome::Nothing),
            (Request::Update(operations), Some(old)) => self.update(table, operations, hint, old),
            (Request::Upsert(new, operations), None) => operations.check(table).map(|()| Outcome::Put(new)),
            (Request::Upsert(_, operations), Some(old)) => self.upsert(table, operations, hint, old, told),
        };
        if let Some(new) = request.tuple()
            && !matches!(outcome, Ok(Outcome::Put(put)) if put.handle == new.handle)
        {
            self.free(new.handle);
        }
        outcome
    }

    fn update(
        &mut self,
        table: &Table,
        operations: Operations<'_>,
        hint: u64,
        old: Handle,
    ) -> Result<Outcome> {
        let Operations { ops, base, fields, rules } = operations;
        let data = table.arena.get(old).data();
        update::update(&mut self.updated, data, ops, base, (fields, &table.format), rules)
            .map_err(|error| error.space(&table.def.name))?;
        match self.put_updated(table, hint, old)? {
            Some(new) => Ok(Outcome::Put(new)),
            None => Err(Error::new(ErrorKind::Update, "UPDATE of the primary key (error 94)")
                .expected("the key as it was")
                .found("another")
                .space(&table.def.name)),
        }
    }

    fn upsert(
        &mut self,
        table: &Table,
        operations: Operations<'_>,
        hint: u64,
        old: Handle,
        told: &mut Told,
    ) -> Result<Outcome> {
        let Operations { ops, base, fields, rules } = operations;
        let data = table.arena.get(old).data();
        told.failed_operations +=
            update::upsert(&mut self.updated, data, ops, base, (fields, &table.format), rules)
                .map_err(|error| error.space(&table.def.name))?;
        let new = self.put_updated(table, hint, old)?;
        told.ignored_upserts += u64::from(new.is_none());
        Ok(new.map_or(Outcome::Nothing, Outcome::Put))
    }

    /// Gives room to what operations have made of a tuple; `None` if its primary key has changed.
    fn put_updated(&mut self, table: &Table, hint: u64, old: Handle) -> Result<Option<New>> {
        let updated = std::mem::take(&mut self.updated);
        let put = self.put(table, &updated);
        self.updated = updated;
        let new = put?;
        let index = primary(table)?;
        if new.hint == hint && order(index).has_same_key(&index.built, hint, old, new.handle) {
            return Ok(Some(new));
        }
        self.free(new.handle);
        Ok(None)
    }
}

impl Operations<'_> {
    /// That they are well-formed.
    fn check(&self, table: &Table) -> Result<()> {
        update::check(self.ops, self.base, self.fields, self.rules)
            .map_err(|error| error.space(&table.def.name))
    }
}

/// Whether only one primary key has this hint.
#[inline]
pub(crate) fn tells_all(table: &Table, hint: u64) -> bool {
    primary(table).is_ok_and(|index| index.hints.tells_all(hint))
}

/// The order of what requests are about, by the primary key.
#[inline]
pub(crate) fn compare(table: &Table, a: Subject<'_>, b: Subject<'_>) -> Ordering {
    primary(table).map_or(Ordering::Equal, |index| order(index).compare_subjects(a, b))
}
