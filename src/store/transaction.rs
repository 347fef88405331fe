//! Transactions: statements that are done together or not at all.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use serde::Serialize;

use super::op::{self, Op};
use super::options::SpaceSelector;
use super::reclaim::{Garbage, Held};
use super::state::State;
use super::view::{self, Select, Space, Tuple};
use super::{Store, rows};
use crate::error::{Error, ErrorKind, Result};
use crate::index::iterator::IteratorType;
use crate::limits::SYSTEM_SPACE_ID_END;
use crate::parallel;
use crate::space::alter::{Catalog, Living};
use crate::space::request::{Operations, Request, Told};
use crate::space::versions::Mark;
use crate::tuple::update::Rules;

/// The version of Tarantool whose rules update operations follow.
const RULES_VERSION: [u32; 3] = [3, 9, 0];

/// What changes a store.
pub(super) struct Writer {
    pub(super) catalog: Catalog<'static>,
    pub(super) garbage: Garbage,
    rules: Rules,
    /// Whose rows the transactions are.
    replica_id: u32,
    /// The tuple or key of the statement, as MsgPack.
    buffer: Vec<u8>,
}

/// Rows that a transaction adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rows {
    replicated: u64,
    local: u64,
}

/// A transaction: it sees what it has changed, and nobody else does until it is committed. A panic or an early end rolls it
/// back.
///
/// ```
/// # let store = lycosa::Store::open("snapshots/2.6/02-one-space")?;
/// let mut tx = store.begin()?;
/// tx.replace("users", (14, "Ann", 34))?;
/// let savepoint = tx.savepoint();
/// assert!(tx.delete("users", (14,))?);
/// tx.rollback_to(savepoint)?;
/// assert!(tx.get("users", (14,))?.is_some());
/// tx.commit();
/// # Ok::<(), lycosa::Error>(())
/// ```
pub struct Transaction<'s> {
    store: &'s Store,
    /// What it began with.
    began: Arc<State>,
    rows: Rows,
    savepoints: Vec<(Savepoint, Mark, Rows)>,
    next_savepoint: u64,
    is_open: bool,
    writer: MutexGuard<'s, Option<Writer>>,
}

/// A place in a transaction to go back to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    /// The version that the transaction began to write.
    transaction: u64,
    number: u64,
}

/// A number of the thread, other than 0.
fn thread_mark() -> usize {
    thread_local!(static MARK: Cell<u8> = const { Cell::new(0) });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

impl Store {
    /// Does a transaction: `statements` are done together, or not at all if they give an error or panic.
    ///
    /// ```
    /// # let store = lycosa::Store::open("snapshots/2.6/02-one-space")?;
    /// let moved = store.write(|tx| {
    ///     let name = tx.get("users", (14,))?.map(|tuple| tuple.decode::<(u64, String, u32)>()).transpose()?;
    ///     tx.delete("users", (14,))
    /// })?;
    /// assert!(moved);
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Store::begin`], and those of `statements`.
    pub fn write<R>(&self, statements: impl FnOnce(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        let mut transaction = self.begin()?;
        let outcome = statements(&mut transaction)?;
        transaction.commit();
        Ok(outcome)
    }

    /// Begins a transaction, as soon as no other thread has one.
    ///
    /// # Errors
    /// `Usage`: this thread has one already. `Unsupported`: the store was opened with some of its spaces alone.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        if self.writing.load(Ordering::Relaxed) == thread_mark() {
            return Err(Error::new(ErrorKind::Usage, "a transaction")
                .expected("the end of the one that this thread has begun")
                .found("another beginning"));
        }
        if self.settings.is_partial {
            return Err(Error::new(ErrorKind::Unsupported, "writing to a store of some spaces alone"));
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let began = self.registry.current();
        let Writer { catalog, .. } = writer.get_or_insert_with(|| Writer::new(self, &began));
        catalog.begin(began.version + 1);
        self.writing.store(thread_mark(), Ordering::Relaxed);
        Ok(Transaction {
            store: self,
            began,
            rows: Rows::default(),
            savepoints: Vec::new(),
            next_savepoint: 0,
            is_open: true,
            writer,
        })
    }

    /// What waits for views to close, unless this thread is in a transaction.
    pub(super) fn garbage_held(&self) -> Held {
        if self.writing.load(Ordering::Relaxed) == thread_mark() {
            return Held::default();
        }
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.as_ref().map_or_else(Held::default, |writer| writer.garbage.held)
    }

    /// Frees all that closed views have seen, which else goes bit by bit with the transactions that follow. Does nothing
    /// while there is a transaction.
    pub fn collect_garbage(&self) {
        let Ok(mut writer) = self.writer.try_lock() else { return };
        if let Some(Writer { catalog, garbage, .. }) = &mut *writer {
            garbage.collect(catalog, &self.registry);
        }
    }
}

impl Writer {
    fn new(store: &Store, state: &State) -> Self {
        let settings = &store.settings;
        let threads = parallel::threads_for(settings.threads, usize::MAX);
        let tables = state.tables.iter().map(|table| (**table).clone());
        let (budget, limit) = (settings.budget.clone(), settings.tuple_bytes_max);
        let catalog = Catalog::living(state.schema.clone(), tables, budget, settings.load, threads, limit);
        let instance = state.origin.instance.as_deref();
        let is_own = |uuid: &str| instance.is_some_and(|own| own.eq_ignore_ascii_case(uuid));
        let replica_id = state.schema.replicas().find(|(_, uuid)| is_own(uuid)).map_or(1, |(id, _)| id);
        let rules = Rules::of_version(RULES_VERSION);
        Self { catalog, garbage: Garbage::default(), rules, replica_id, buffer: Vec::new() }
    }
}

/// A statement's table, and what else of the writer it needs.
struct Statement<'t> {
    living: &'t mut Living,
    rules: &'t Rules,
    buffer: &'t mut Vec<u8>,
    rows: &'t mut Rows,
}

impl<'s> Transaction<'s> {
    pub(super) fn writer(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("made when the transaction began")
    }

    pub(super) fn catalog(&mut self) -> &mut Catalog<'static> {
        &mut self.writer().catalog
    }

    fn seen(&self) -> &Catalog<'static> {
        &self.writer.as_ref().expect("made when the transaction began").catalog
    }

    /// The table that a statement is about.
    fn statement(&mut self, selector: &SpaceSelector) -> Result<Statement<'_>> {
        let Self { writer, rows, .. } = self;
        let Writer { catalog, rules, buffer, .. } = writer.as_mut().expect("made when the transaction began");
        let id = match selector {
            SpaceSelector::Handle(handle) => handle.id,
            _ => rows::find(&catalog.schema, selector)?.id,
        };
        if id < SYSTEM_SPACE_ID_END {
            return Err(Error::new(ErrorKind::Unsupported, "a statement about a system space")
                .expected("definitions changed by the functions that are there for it")
                .space(id));
        }
        if catalog.look(id).is_none_or(|table| !table.is_writable()) {
            return Err(not_writable(catalog, selector));
        }
        let living = match catalog.change(id) {
            Some(living) => living,
            None => return Err(Error::new(ErrorKind::Absent, "the primary index").space(id)),
        };
        if let SpaceSelector::Handle(handle) = selector
            && handle.generation != living.table.generation
        {
            return Err(view::stale(&living.table.def.name));
        }
        Ok(Statement { living, rules, buffer, rows })
    }

    /// Inserts a tuple: any value that serialises as an array.
    ///
    /// # Errors
    /// `DuplicateKey`: a unique index has its key. `MsgPack` and `TupleFormat` for the tuple; `Limit`: it is larger than
    /// [`Options::max_tuple_bytes`](crate::Options::max_tuple_bytes). `NoSuchSpace`, `StaleSpace`, `Absent`, `Unsupported`
    /// for the space. `Memory`. The statement has changed nothing then; the transaction goes on.
    pub fn insert(&mut self, space: impl Into<SpaceSelector>, tuple: impl Serialize) -> Result<()> {
        self.statement(&space.into())?.encoded(tuple, |statement, tuple| statement.put(tuple, true))
    }

    /// As [`Transaction::insert`], of a tuple that is MsgPack.
    ///
    /// # Errors
    /// As there.
    pub fn insert_raw(&mut self, space: impl Into<SpaceSelector>, tuple: &[u8]) -> Result<()> {
        self.statement(&space.into())?.put(tuple, true)
    }

    /// Inserts a tuple, or puts it in the place of the one with its primary key.
    ///
    /// # Errors
    /// As [`Transaction::insert`]; `DuplicateKey`: another unique index than the primary one has its key in another tuple.
    pub fn replace(&mut self, space: impl Into<SpaceSelector>, tuple: impl Serialize) -> Result<()> {
        self.statement(&space.into())?.encoded(tuple, |statement, tuple| statement.put(tuple, false))
    }

    /// As [`Transaction::replace`], of a tuple that is MsgPack.
    ///
    /// # Errors
    /// As there.
    pub fn replace_raw(&mut self, space: impl Into<SpaceSelector>, tuple: &[u8]) -> Result<()> {
        self.statement(&space.into())?.put(tuple, false)
    }

    /// Changes the tuple with a primary key; says whether there is one.
    ///
    /// # Errors
    /// `Key` for the key; `Update`: an operation cannot be, or would change the key; and as [`Transaction::insert`] for
    /// what they make of the tuple.
    pub fn update(
        &mut self,
        space: impl Into<SpaceSelector>,
        key: impl Serialize,
        ops: impl IntoIterator<Item = Op>,
    ) -> Result<bool> {
        let ops = op::encode(ops)?;
        self.statement(&space.into())?.encoded(key, |statement, key| statement.update(key, &ops))
    }

    /// As [`Transaction::update`], with key and operations as MsgPack: `[["+", 2, 1]]`. Fields count from 0.
    ///
    /// # Errors
    /// As there.
    pub fn update_raw(&mut self, space: impl Into<SpaceSelector>, key: &[u8], ops: &[u8]) -> Result<bool> {
        self.statement(&space.into())?.update(key, ops)
    }

    /// Inserts a tuple, or changes the one that has its primary key by operations; those of them that cannot be are left
    /// out, as Tarantool does.
    ///
    /// # Errors
    /// As [`Transaction::insert`]; `Update`: operations that cannot be, whatever the tuple.
    pub fn upsert(
        &mut self,
        space: impl Into<SpaceSelector>,
        tuple: impl Serialize,
        ops: impl IntoIterator<Item = Op>,
    ) -> Result<()> {
        let ops = op::encode(ops)?;
        self.statement(&space.into())?.encoded(tuple, |statement, tuple| statement.upsert(tuple, &ops))
    }

    /// As [`Transaction::upsert`], with tuple and operations as MsgPack.
    ///
    /// # Errors
    /// As there.
    pub fn upsert_raw(&mut self, space: impl Into<SpaceSelector>, tuple: &[u8], ops: &[u8]) -> Result<()> {
        self.statement(&space.into())?.upsert(tuple, ops)
    }

    /// Deletes the tuple with a primary key; says whether there was one.
    ///
    /// # Errors
    /// `Key` for the key; and as [`Transaction::insert`] for the space; `Memory`.
    pub fn delete(&mut self, space: impl Into<SpaceSelector>, key: impl Serialize) -> Result<bool> {
        self.statement(&space.into())?.encoded(key, |statement, key| statement.delete(key))
    }

    /// As [`Transaction::delete`], with the key as MsgPack.
    ///
    /// # Errors
    /// As there.
    pub fn delete_raw(&mut self, space: impl Into<SpaceSelector>, key: &[u8]) -> Result<bool> {
        self.statement(&space.into())?.delete(key)
    }

    /// Deletes the tuples that an index has from the key `begin` up to, but without, `end`; a key of no parts is no bound.
    /// Gives their number.
    ///
    /// # Errors
    /// `NoSuchIndex`; `Key` for the keys, or if the index is a HASH; and as [`Transaction::delete`].
    pub fn delete_range(
        &mut self,
        space: impl Into<SpaceSelector>,
        index: &str,
        begin: impl Serialize,
        end: impl Serialize,
    ) -> Result<u64> {
        let (begin, end) = (view::encode(begin)?, view::encode(end)?);
        let Statement { living, rows, .. } = self.statement(&space.into())?;
        let Living { table, writer, .. } = living;
        let Some(id) = table.def.index_by_name(index).map(|index| index.id) else {
            let error = Error::new(ErrorKind::NoSuchIndex, format!("no index {index:?}"));
            return Err(error.space(&table.def.name));
        };
        let count = writer.delete_range(table, id, &begin, &end)?;
        rows.add(table.def.is_local, count);
        Ok(count)
    }

    /// A space as the transaction sees it.
    ///
    /// # Errors
    /// As [`ReadView::space`](crate::ReadView::space).
    pub fn space(&self, selector: impl Into<SpaceSelector>) -> Result<Space<'_>> {
        let catalog = self.seen();
        view::find(&catalog.schema, &selector.into(), |id| catalog.look(id))
    }

    /// The one tuple with a key of the primary index.
    ///
    /// # Errors
    /// As [`Transaction::space`] and [`Index::get`](crate::Index::get).
    pub fn get(&self, space: impl Into<SpaceSelector>, key: impl Serialize) -> Result<Option<Tuple<'_>>> {
        self.space(space)?.primary()?.get(key)
    }

    /// The tuples that an iterator meets in an index.
    ///
    /// # Errors
    /// As [`Transaction::space`] and [`Index::select`](crate::Index::select).
    pub fn select(
        &self,
        space: impl Into<SpaceSelector>,
        index: &str,
        iterator: IteratorType,
        key: impl Serialize,
    ) -> Result<Select<'_>> {
        self.space(space)?.index(index)?.select(iterator, key)
    }

    /// Marks the present state, to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        let savepoint = Savepoint { transaction: self.began.version + 1, number: self.next_savepoint };
        self.next_savepoint += 1;
        let mark = self.catalog().mark();
        self.savepoints.push((savepoint, mark, self.rows));
        savepoint
    }

    /// Undoes everything since a savepoint; those made after it are gone, it can be gone back to again.
    ///
    /// # Errors
    /// `Usage`: the savepoint is another transaction's, or gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let Some(at) = self.savepoints.iter().position(|(other, ..)| *other == savepoint) else {
            return Err(Error::new(ErrorKind::Usage, "savepoint")
                .expected("one of this transaction")
                .found("another's, or one that is gone"));
        };
        self.savepoints.truncate(at + 1);
        let (_, mark, rows) = self.savepoints.remove(at);
        self.undo(&mark);
        self.rows = rows;
        self.savepoints.push((savepoint, mark, rows));
        Ok(())
    }

    /// Everything is as it was at a mark.
    fn undo(&mut self, mark: &Mark) {
        let began = self.began.clone();
        self.catalog().roll_back(mark, |id| began.tables.get(id).map(|table| (**table).clone()));
    }

    /// Does something that may take several steps; if one fails, none is done.
    pub(super) fn whole<R>(&mut self, steps: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let (mark, rows) = (self.catalog().mark(), self.rows);
        let outcome = steps(self);
        if outcome.is_err() {
            self.undo(&mark);
            self.rows = rows;
        }
        outcome
    }

    /// A row of a system space has been written.
    pub(super) fn count_row(&mut self) {
        self.rows.replicated += 1;
    }

    /// Ends the transaction: views made from now on see what it has done.
    pub fn commit(mut self) {
        self.is_open = false;
        let Self { store, began, rows, writer, .. } = &mut self;
        let Writer { catalog, garbage, replica_id, .. } =
            writer.as_mut().expect("made when the transaction began");
        if *rows != Rows::default() {
            let mut state = State::clone(began);
            state.version = catalog.version();
            state.schema = catalog.schema.clone();
            for id in catalog.changed() {
                match catalog.look(id) {
                    Some(table) => state.tables.set(Arc::new(table.clone())),
                    None => state.tables.remove(id),
                }
            }
            for (replica, count) in [(*replica_id, rows.replicated), (0, rows.local)] {
                state.vclock.raise(replica, state.vclock.get(replica) + count);
            }
            let live = store.registry.publish(state);
            garbage.committed(catalog, &store.registry, live);
        }
        catalog.end();
    }

    /// Ends the transaction and undoes everything that it has done, as dropping it does.
    pub fn rollback(self) {}
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let State { schema, version, .. } = &*self.began;
            let mark = Catalog::mark_of_begin(schema.clone(), version + 1);
            self.undo(&mark);
            self.catalog().end();
        }
        self.store.writing.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Rows {
    fn add(&mut self, is_local: bool, count: u64) {
        *(if is_local { &mut self.local } else { &mut self.replicated }) += count;
    }
}

/// Why a space cannot be written to.
#[cold]
fn not_writable(catalog: &Catalog<'_>, selector: &SpaceSelector) -> Error {
    match view::find(&catalog.schema, selector, |id| catalog.look(id)) {
        Err(error) => error,
        Ok(space) => {
            let def = space.def();
            let absent = def.indexes.iter().find_map(|index| Some((&index.name, index.absent.as_deref()?)));
            let why = absent.map(|(name, why)| format!("index {name} is absent: {why}"));
            let what = format!("writing to a space without all its indexes: {}", why.unwrap_or_default());
            Error::new(ErrorKind::Unsupported, what).space(&def.name)
        }
    }
}

impl Statement<'_> {
    /// Does a statement with a value as MsgPack.
    fn encoded<R>(
        mut self,
        value: impl Serialize,
        does: impl FnOnce(&mut Self, &[u8]) -> Result<R>,
    ) -> Result<R> {
        let mut buffer = std::mem::take(self.buffer);
        buffer.clear();
        let outcome = match rmp_serde::encode::write(&mut buffer, &value) {
            Ok(()) => does(&mut self, &buffer),
            Err(error) => {
                let what = format!("a value cannot be serialised: {error}");
                Err(Error::new(ErrorKind::MsgPack, what).space(&self.living.table.def.name))
            }
        };
        *self.buffer = buffer;
        outcome
    }

    fn put(&mut self, tuple: &[u8], is_insert: bool) -> Result<()> {
        let Living { table, writer, .. } = &mut *self.living;
        let new = writer.put(table, tuple)?;
        let request = if is_insert { Request::Insert(new) } else { Request::Replace(new) };
        writer.execute(table, &request, (&[], new.hint), &mut Told::default())?;
        self.done();
        Ok(())
    }

    fn update(&mut self, key: &[u8], ops: &[u8]) -> Result<bool> {
        let Living { table, writer, fields, .. } = &mut *self.living;
        let born = writer.traces.born_tuples.len();
        let hint = writer.key_hint(table, key)?;
        let request = Request::Update(Operations { ops, base: 0, fields, rules: self.rules });
        writer.execute(table, &request, (key, hint), &mut Told::default())?;
        let is_there = writer.traces.born_tuples.len() > born;
        if is_there {
            self.done();
        }
        Ok(is_there)
    }

    fn upsert(&mut self, tuple: &[u8], ops: &[u8]) -> Result<()> {
        let Living { table, writer, fields, .. } = &mut *self.living;
        let new = writer.put(table, tuple)?;
        let request = Request::Upsert(new, Operations { ops, base: 0, fields, rules: self.rules });
        writer.execute(table, &request, (&[], new.hint), &mut Told::default())?;
        self.done();
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let Living { table, writer, .. } = &mut *self.living;
        let tuples = table.tuples;
        let hint = writer.key_hint(table, key)?;
        writer.execute(table, &Request::Delete, (key, hint), &mut Told::default())?;
        let was_there = table.tuples < tuples;
        if was_there {
            self.done();
        }
        Ok(was_there)
    }

    fn done(&mut self) {
        self.rows.add(self.living.table.def.is_local, 1);
        self.living.grown();
    }
}

#[cfg(test)]
#[path = "transaction_tests.rs"]
mod tests;
