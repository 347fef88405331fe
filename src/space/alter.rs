//! Definitions that change while rows arrive, and tables that follow them.
//!
//! ```text
//! a row of _space or _index     the space it is about becomes dirty
//! a row of _truncate            the table becomes empty
//! a data row of a dirty space,
//! or the transaction's end      the space is settled: its definition is read anew from its rows, and the table follows
//! ```
//!
//! A definition changes by several rows, and what stands between them need not make sense; so a dirty space waits until
//! somebody asks for it. What cannot wait: a space or its primary index that is dropped takes the tuples with it, even
//! if it is made anew in the same transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::catalog::Schema;
use super::change::TableWriter;
use super::definition::SpaceDef;
use super::loader::{Adopted, LoadOptions, SAMPLE_TUPLES_MIN, SpaceLoader, duplicate};
use super::request::{Request, Told};
use super::system;
use super::table::{IndexData, Table};
use super::versions::Versions;
use crate::error::{Error, ErrorKind, Result};
use crate::index::build::{Built, Failure, Feed, Part, Plan, Scratch, Unfinished};
use crate::index::hash::Twins;
use crate::index::hint::{GROWTH, Hints};
use crate::index::iterator::IteratorType;
use crate::index::key_def::KeyDef;
use crate::index::tree::node::NodePool;
use crate::msgpack::write;
use crate::parallel;
use crate::tuple::arena::Arena;
use crate::tuple::field_map::{FieldMapBuf, StoredTuple};
use crate::tuple::slab::{Budget, Handle};
use crate::tuple::update::Fields;

/// A table of no tuples.
fn empty(def: Arc<SpaceDef>, budget: &Arc<Budget>, options: LoadOptions) -> Result<Table> {
    let none = Arena::new(budget.clone());
    SpaceLoader::new(def, budget, options)?.load(&none, &[], 1)
}

/// The table under another definition, and the indexes that it has no longer. Its tuples are checked where the format is
/// another one. Where an index is new or different, it is a table of copies.
///
/// # Errors
/// `TupleFormat`, `DuplicateKey`: a tuple, or two, that the new definition does not allow.
fn alter(
    table: &Table,
    def: Arc<SpaceDef>,
    budget: &Arc<Budget>,
    options: LoadOptions,
    threads: usize,
) -> Result<Adopted> {
    let rules = |def: &SpaceDef| -> Vec<_> {
        def.indexes.iter().map(|index| (index.id, index.parts.clone())).collect()
    };
    let same_format = table.def.format == def.format
        && table.def.field_count == def.field_count
        && rules(&table.def) == rules(&def);
    let (mut altered, gone) = match SpaceLoader::new(def, budget, options)?.adopt(table.clone()) {
        Ok((altered, gone)) => {
            if !same_format {
                check_tuples(&altered)?;
            }
            (altered, gone)
        }
        Err(both) => {
            let (loader, table) = *both;
            let handles = table.primary().map(IndexData::handles).unwrap_or_default();
            (loader.load(&table.arena, &handles, threads)?, Vec::new())
        }
    };
    // That the rows of the snapshot had to be sorted is told of the snapshot.
    (altered.cost, altered.generation) = (table.cost, table.generation);
    Ok((altered, gone))
}

/// Learns the hints of all indexes anew and builds them again; an index for which there is no memory stays as it is.
fn learn_again(table: &mut Table, writer: &mut TableWriter) {
    let Some(primary) = table.primary() else { return };
    let handles = primary.handles();
    let arena = table.arena.clone();
    let sample = sample(&handles, &arena);
    for (number, index) in table.indexes.iter_mut().enumerate() {
        let Some(index) = index.as_mut().filter(|index| !index.hints.is_none()) else { continue };
        let plan = plan(&index.key_def, number == 0, false, &sample, handles.len()).born_in(writer.txn);
        if let Ok(built) = build(&plan, &arena, &table.pool, &handles, 1) {
            index.hints = Arc::new(plan.hints);
            writer.retire(std::mem::replace(&mut index.built, built));
        }
    }
}

fn sample<'a>(handles: &[Handle], arena: &'a Arena) -> Vec<StoredTuple<'a>> {
    let step = handles.len().div_ceil(SAMPLE_TUPLES_MIN).max(1);
    handles.iter().step_by(step).map(|&handle| arena.get(handle)).collect()
}

fn plan(
    key_def: &Arc<KeyDef>,
    is_primary: bool,
    has_none: bool,
    sample: &[StoredTuple<'_>],
    tuples: usize,
) -> Plan {
    let key_def = key_def.clone();
    let hints = if has_none { Hints::none() } else { Hints::sample_growing(&key_def, sample) };
    match is_primary {
        true => Plan::ordered(key_def, hints),
        false => Plan::buckets(key_def, hints, sample, tuples as u64),
    }
}

/// Builds an index of tuples that stand in the order of the primary key.
fn build(
    plan: &Plan,
    arena: &Arena,
    pool: &Arc<NodePool>,
    handles: &[Handle],
    threads: usize,
) -> Result<Built, Failure> {
    let mut feed = Feed::new(plan, pool);
    feed.add(plan, arena, handles).map_err(|(_, failure)| failure)?;
    feed.end_run(0);
    let unfinished = Unfinished::join(vec![feed]);
    let jobs = unfinished.jobs();
    let scratch = (0..parallel::threads_for(threads, jobs)).map(|_| Scratch::default()).collect();
    let parts = parallel::map(scratch, jobs, |scratch: &mut Scratch, job| {
        // A failure of one job is one of the index; it goes through the results, because it is no error yet.
        Ok(unfinished.job(job, plan, arena, pool, scratch).map(|(part, _)| part))
    })?;
    let parts = parts.into_iter().collect::<Result<Vec<Part>, Failure>>()?;
    Ok(Unfinished::finish(plan, pool, parts)?)
}

/// A secondary index that is built when all rows are in.
pub(super) struct Deferred {
    /// Position in the definition's list.
    number: usize,
    key_def: Arc<KeyDef>,
    is_hash: bool,
    has_hints: bool,
}

/// Takes the secondary indexes away; rows are applied by the primary key alone.
fn defer(table: &mut Table) -> Vec<Deferred> {
    let mut deferred = Vec::new();
    for (number, index) in table.indexes.iter_mut().enumerate().skip(1) {
        let Some(IndexData { key_def, hints, built, .. }) = index.take() else { continue };
        let is_hash = matches!(built, Built::Hash(..));
        deferred.push(Deferred { number, key_def, is_hash, has_hints: !hints.is_none() });
        built.free();
    }
    deferred
}

fn check_tuples(table: &Table) -> Result<()> {
    let mut map = FieldMapBuf::default();
    for tuple in table.primary().into_iter().flat_map(|primary| primary.all()) {
        if let Err(fault) = table.format.walk(tuple.data(), 0, &mut map) {
            return Err(fault.into_error().space(&table.def.name));
        }
    }
    Ok(())
}

/// A table and what changes it.
pub(crate) struct Living {
    pub(crate) table: Table,
    pub(crate) writer: TableWriter,
    /// What update operations know of the fields.
    pub(crate) fields: Fields,
    /// Statements that wait, each with the hint of its primary key: whoever gathers them has them here.
    pub(crate) pending: Vec<(u64, u32)>,
    /// Statements of different primary keys may be applied in any order.
    pub(crate) takes_any_order: bool,
    /// Indexes that are built when all rows are in, or when somebody asks for them.
    pub(super) deferred: Vec<Deferred>,
    /// With so many tuples hints are learnt anew: what they were learnt from is too little by then.
    pub(super) learn_at: u64,
}

impl Living {
    pub(super) fn new(mut table: Table, defers: bool) -> Self {
        let learn_at = learn_at(&table);
        let deferred = if defers && table.primary().is_some() { defer(&mut table) } else { Vec::new() };
        let (writer, fields) = (TableWriter::new(&table), Fields::new(&table.def.format));
        let takes_any_order = takes_any_order(&table);
        Self { writer, fields, pending: Vec::new(), takes_any_order, deferred, learn_at, table }
    }

    /// What changes a table of this definition instead, over the same tuples; `gone` are indexes of this one that it has
    /// no longer.
    fn follow(self, table: Table, gone: Vec<Built>, defers: bool) -> Self {
        let mut living = Self { writer: self.writer, ..Self::new(table, defers) };
        living.writer.fit(&living.table);
        gone.into_iter().for_each(|built| living.writer.retire(built));
        living
    }

    /// Builds what was deferred.
    ///
    /// # Errors
    /// `DuplicateKey`: rows have brought two tuples with the same key in a unique index. `Memory`.
    pub(crate) fn complete(&mut self, threads: usize) -> Result<()> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let table = &mut self.table;
        let handles = table.primary().map(IndexData::handles).unwrap_or_default();
        let arena = table.arena.clone();
        let sample = sample(&handles, &arena);
        for Deferred { number, key_def, is_hash, has_hints } in self.deferred.drain(..) {
            let plan = match is_hash {
                true => Plan::hashed(key_def.clone(), handles.len() as u64),
                false => plan(&key_def, false, !has_hints, &sample, handles.len()),
            };
            let built = match build(&plan, &arena, &table.pool, &handles, threads) {
                Ok(built) => built,
                Err(Failure::Error(error)) => return Err(error.space(&table.def.name)),
                Err(Failure::Duplicate(Twins(first, second))) => {
                    let data = |handle| arena.get(handle).data();
                    return Err(duplicate(&table.def, number, data(first), data(second)));
                }
            };
            let index = IndexData { key_def, hints: Arc::new(plan.hints), built, arena: arena.clone() };
            table.indexes[number] = Some(index);
        }
        self.writer = TableWriter::new(table);
        self.takes_any_order = takes_any_order(table);
        Ok(())
    }

    /// Puts a tuple in the place of the one with its primary key.
    ///
    /// # Errors
    /// As for a REPLACE.
    pub(crate) fn replace(&mut self, tuple: &[u8]) -> Result<()> {
        let Self { table, writer, .. } = self;
        let new = writer.put(table, tuple)?;
        writer.execute(table, &Request::Replace(new), (&[], new.hint), &mut Told::default())
    }

    /// Removes the tuple with the primary key of this one.
    ///
    /// # Errors
    /// As for a DELETE.
    pub(crate) fn remove(&mut self, tuple: &[u8]) -> Result<()> {
        let Self { table, writer, .. } = self;
        let new = writer.put(table, tuple)?;
        writer.remove_twin(table, new)
    }

    /// To be called when tuples have been added.
    #[inline]
    pub(crate) fn grown(&mut self) {
        if self.table.tuples >= self.learn_at {
            learn_again(&mut self.table, &mut self.writer);
            self.learn_at = learn_at(&self.table);
        }
    }
}

/// In a unique secondary index it matters whether a key goes before it comes again.
fn takes_any_order(table: &Table) -> bool {
    !table.indexes.iter().skip(1).flatten().any(|index| index.key_def.unique)
}

/// Tuples of a table whose hints are worth learning: fewer are in the cache anyway.
const LEARN_TUPLES_MIN: u64 = 1000;

fn learn_at(table: &Table) -> u64 {
    (table.tuples.saturating_mul(GROWTH)).max(LEARN_TUPLES_MIN)
}

/// What there is of a space.
pub(crate) enum Found<'a> {
    Table(&'a mut Living),
    /// It is defined, but not in memory.
    Absent,
    Undefined,
}

/// All tables and all definitions, in step.
pub(crate) struct Catalog<'a> {
    pub(crate) schema: Arc<Schema>,
    pub(super) tables: BTreeMap<u32, Living>,
    pub(super) dirty: BTreeSet<u32>,
    /// Of a living store.
    pub(super) versions: Option<Versions>,
    has_sync_spaces: bool,
    /// Whether a space is to be in memory, as far as the caller has a say.
    is_wanted: &'a (dyn Fn(&SpaceDef) -> bool + Sync),
    budget: Arc<Budget>,
    options: LoadOptions,
    /// Secondary indexes are built when all rows are in.
    defers: bool,
}

impl<'a> Catalog<'a> {
    /// `rows`: about how many are to come. Secondary indexes are deferred where that is a good part of the tuples: to
    /// build one costs a tenth of what it costs to keep it in step with as many rows.
    pub(crate) fn new(
        schema: Schema,
        tables: Vec<Table>,
        is_wanted: &'a (dyn Fn(&SpaceDef) -> bool + Sync),
        budget: Arc<Budget>,
        options: LoadOptions,
        rows: u64,
    ) -> Self {
        let tuples: u64 = tables.iter().map(|table| table.tuples).sum();
        let defers = rows > tuples / 8;
        let living = |table: Table| (table.def.id, Living::new(table, defers));
        let tables = tables.into_iter().map(living).collect();
        let has_sync_spaces = schema.spaces().iter().any(|space| space.is_sync);
        Self {
            schema: Arc::new(schema),
            tables,
            dirty: BTreeSet::new(),
            versions: None,
            has_sync_spaces,
            is_wanted,
            budget,
            options,
            defers,
        }
    }

    /// The space of this id, by its definition as it is now.
    pub(crate) fn find(&mut self, id: u32) -> Result<Found<'_>> {
        if !self.dirty.is_empty() && self.dirty.remove(&id) {
            self.settle(id)?;
        }
        if self.table(id).is_none() {
            if self.tables.contains_key(&id) {
                self.give_up(id);
                return Ok(Found::Absent);
            }
            if self.schema.space_by_id(id).is_some() {
                return Ok(Found::Absent);
            }
            let Some(def) = Arc::make_mut(&mut self.schema).add_stub(id) else { return Ok(Found::Undefined) };
            let table = empty(Arc::new(def.clone()), &self.budget, self.options)?;
            self.tables.insert(id, Living::new(table, self.defers));
        }
        Ok(self.table(id).map_or(Found::Absent, Found::Table))
    }

    /// The space of this id, if it is in memory and can be changed, and no definition is on its way.
    #[inline]
    pub(crate) fn table(&mut self, id: u32) -> Option<&mut Living> {
        self.tables.get_mut(&id).filter(|living| living.table.primary().is_some())
    }

    /// A space without its primary index can be read, but not changed: what the logs make of it nobody knows.
    #[cold]
    fn give_up(&mut self, id: u32) {
        self.tables.remove(&id);
        Arc::make_mut(&mut self.schema).give_up(id);
    }

    /// Why the tuples of a space that is in memory cannot be changed, if they cannot.
    pub(crate) fn lacks_order(&self, id: u32) -> Option<&str> {
        let table = &self.tables.get(&id)?.table;
        let why = table.def.primary().and_then(|primary| primary.absent.as_deref());
        why.filter(|_| table.primary().is_none())
    }

    /// Whether a space is in memory with an index that has each tuple.
    pub(crate) fn has_whole(&self, id: u32) -> bool {
        self.tables.get(&id).is_some_and(|living| living.table.whole().is_some())
    }

    /// All tuples of a space that is in memory with its primary index; none of another.
    pub(crate) fn rows(&self, id: u32) -> impl Iterator<Item = &[u8]> {
        let primary = self.tables.get(&id).and_then(|living| living.table.primary());
        primary.into_iter().flat_map(|primary| primary.all()).map(|tuple| tuple.data())
    }

    /// The table of a space that is known to be there.
    fn tuples(&self, id: u32, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Some(primary) = self.tables.get(&id).and_then(|living| living.table.primary()) else {
            return Ok(Vec::new());
        };
        let tuples = primary.select(IteratorType::Eq, key)?;
        Ok(tuples.map(|tuple| tuple.data().to_vec()).collect())
    }

    /// Definitions follow a row of a system space that has changed its table. `is_insert`: it was an INSERT.
    pub(crate) fn follow(
        &mut self,
        space_id: u32,
        old: Option<&[u8]>,
        new: Option<&[u8]>,
        is_insert: bool,
    ) -> Result<()> {
        let Some(row) = new.or(old) else { return Ok(()) };
        match space_id {
            system::SPACE_ID => {
                let id = system::subject(row)?;
                if new.is_none() {
                    self.shelve(id);
                }
                self.dirty.insert(id);
            }
            system::INDEX_ID => {
                let id = system::subject(row)?;
                if new.is_none() && system::is_of_primary(row)? {
                    self.shelve(id);
                }
                self.dirty.insert(id);
            }
            // The row that says that a space was never truncated is inserted.
            system::TRUNCATE_ID if new.is_some() && !is_insert => self.truncate(system::subject(row)?)?,
            system::SCHEMA_ID | system::COLLATION_ID | system::CLUSTER_ID => {
                Arc::make_mut(&mut self.schema).row(space_id, old, new)?
            }
            _ => {}
        }
        Ok(())
    }

    fn truncate(&mut self, id: u32) -> Result<()> {
        if let Found::Table(living) = self.find(id)? {
            let (def, generation) = (living.table.def.clone(), living.table.generation);
            let table = Table { generation, ..empty(def, &self.budget, self.options)? };
            self.shelve(id);
            self.tables.insert(id, Living::new(table, self.defers));
        }
        Ok(())
    }

    /// Every space follows its rows.
    pub(crate) fn settle_all(&mut self) -> Result<()> {
        if self.dirty.is_empty() {
            return Ok(());
        }
        let dirty = std::mem::take(&mut self.dirty);
        dirty.iter().try_for_each(|&id| self.settle(id))?;
        self.has_sync_spaces = self.schema.spaces().iter().any(|space| space.is_sync);
        dirty.iter().try_for_each(|&id| self.schema.check_name(id))
    }

    /// The space of this id follows its rows.
    ///
    /// # Errors
    /// They make no sense together, or not with the tuples that are there. The tuples stay; the definition is of no use
    /// until the rows change again.
    pub(crate) fn settle_one(&mut self, id: u32) -> Result<()> {
        if self.dirty.remove(&id) {
            self.settle(id)?;
        }
        Ok(())
    }

    fn settle(&mut self, id: u32) -> Result<()> {
        let mut key = Vec::new();
        write::array(&mut key, 1);
        write::uint(&mut key, u64::from(id));
        let row = self.tuples(system::SPACE_ID, &key)?;
        let index_rows = self.tuples(system::INDEX_ID, &key)?;
        // Tables that were there before; one that was dropped on the way is made anew.
        let was_left_out = !self.tables.contains_key(&id)
            && self.schema.space_by_id(id).is_some_and(|def| def.absent.is_none() && !(self.is_wanted)(def));
        let schema = Arc::make_mut(&mut self.schema);
        schema.redefine(id, row.first().map(Vec::as_slice), index_rows.iter().map(Vec::as_slice))?;
        let has_no_order = |def: &SpaceDef| def.primary().is_some_and(|primary| primary.absent.is_some());
        if schema.space_by_id(id).is_some_and(has_no_order) {
            schema.give_up(id);
        }
        let def = self.schema.space_by_id(id).filter(|def| def.absent.is_none());
        let Some(def) = def else {
            self.shelve(id);
            return Ok(());
        };
        let threads = self.versions.as_ref().map_or(1, |versions| versions.threads);
        let living = match self.tables.get_mut(&id) {
            Some(living) if *living.table.def == *def => return Ok(()),
            Some(living) => {
                living.complete(1)?;
                // Once is enough: who changes definitions again and again would build indexes again and again.
                let defers = self.defers && living.table.tuples == 0;
                let def = Arc::new(def.clone());
                let (table, gone) = alter(&living.table, def, &self.budget, self.options, threads)?;
                if Arc::ptr_eq(&table.arena, &living.table.arena) {
                    self.note(id);
                    let living = self.tables.remove(&id).expect("it has just been looked at");
                    living.follow(table, gone, defers)
                } else {
                    self.shelve(id);
                    Living::new(table, defers)
                }
            }
            None if !(self.is_wanted)(def) => return Ok(()),
            None if was_left_out => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "a space that gets the name of one to be loaded",
                )
                .expected("a space chosen by its id")
                .found("a choice by name")
                .space(&def.name));
            }
            None => {
                let generation = self.versions.as_ref().map_or(0, |versions| versions.version);
                let table = empty(Arc::new(def.clone()), &self.budget, self.options)?;
                self.note(id);
                Living::new(Table { generation, ..table }, self.defers)
            }
        };
        self.tables.insert(id, living);
        Ok(())
    }

    /// Whether any space is replicated synchronously.
    pub(crate) fn has_sync_spaces(&self) -> bool {
        self.has_sync_spaces
    }

    /// The definitions and the tables, by id, with all their indexes.
    ///
    /// # Errors
    /// As [`Living::complete`].
    pub(crate) fn finish(mut self, threads: usize) -> Result<(Schema, Vec<Table>)> {
        self.tables.values_mut().try_for_each(|living| living.complete(threads))?;
        let schema = Arc::unwrap_or_clone(self.schema);
        Ok((schema, self.tables.into_values().map(|living| living.table).collect()))
    }
}
