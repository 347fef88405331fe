//! Versions of all tables and definitions: what a transaction changes, and the way back.
//!
//! ```text
//! published      version 7                                          readers are here
//! transaction    version 8        savepoint -> version 9 ...        the writer is here
//! ```
//!
//! A transaction writes nodes that nobody else sees, beside those that others do. To go back to a savepoint, or to where
//! the transaction began, is to take the roots from there again and to give back what was born since: those nodes of the
//! newest trees that are young enough, and the tuples that each table lists. A savepoint ends a version, so that no node
//! that it needs is edited in place.
//!
//! A table that is dropped, truncated or replaced by a copy stays on a shelf until the transaction ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::alter::{Catalog, Living};
use super::catalog::Schema;
use super::change::Traces;
use super::definition::SpaceDef;
use super::loader::LoadOptions;
use super::table::Table;
use crate::index::build::RECOVERY_TXN;
use crate::tuple::slab::Budget;

/// What a living store knows of the running transaction.
#[derive(Default)]
pub(crate) struct Versions {
    /// The version that is being written.
    pub(super) version: u64,
    /// Spaces that the transaction has changed, made or dropped.
    changed: BTreeSet<u32>,
    shelved: Vec<Living>,
    /// Threads that build indexes.
    pub(super) threads: usize,
    /// Bytes that a tuple may have.
    tuple_bytes_max: usize,
}

/// A state to go back to, within a transaction.
pub(crate) struct Mark {
    /// What was born in this version or later is younger than the mark.
    version: u64,
    schema: Arc<Schema>,
    /// Those that the transaction had changed; `None`: there was none.
    tables: BTreeMap<u32, Option<(Table, Lengths)>>,
}

/// How much a transaction had left behind in a table.
#[derive(Clone, Copy, Default)]
struct Lengths {
    retired_nodes: usize,
    retired_tuples: usize,
    born_tuples: usize,
}

impl Lengths {
    fn of(traces: &Traces) -> Self {
        Self {
            retired_nodes: traces.retired_nodes.len(),
            retired_tuples: traces.retired_tuples.len(),
            born_tuples: traces.born_tuples.len(),
        }
    }
}

impl Catalog<'static> {
    /// All tables and definitions of a store that is written to.
    pub(crate) fn living(
        schema: Arc<Schema>,
        tables: impl Iterator<Item = Table>,
        budget: Arc<Budget>,
        options: LoadOptions,
        threads: usize,
        tuple_bytes_max: usize,
    ) -> Self {
        let all = &|_: &SpaceDef| true;
        let mut catalog = Catalog::new(Schema::default(), tables.collect(), all, budget, options, 0);
        catalog.schema = schema;
        catalog.versions = Some(Versions { threads, tuple_bytes_max, ..Versions::default() });
        catalog
    }
}

impl Catalog<'_> {
    fn versions(&mut self) -> &mut Versions {
        self.versions.get_or_insert_default()
    }

    /// From now on `version` is written, the next one after what others see.
    pub(crate) fn begin(&mut self, version: u64) {
        self.versions().version = version;
    }

    pub(crate) fn version(&self) -> u64 {
        self.versions.as_ref().map_or(0, |versions| versions.version)
    }

    /// A table to change in the running transaction.
    #[inline]
    pub(crate) fn change(&mut self, id: u32) -> Option<&mut Living> {
        let Self { tables, versions: Some(versions), .. } = self else { return None };
        let living = tables.get_mut(&id).filter(|living| living.table.primary().is_some())?;
        if living.writer.txn != versions.version || living.writer.free_at_once {
            versions.changed.insert(id);
            living.writer.begin(versions.version);
            living.writer.limit_tuples(versions.tuple_bytes_max);
        }
        Some(living)
    }

    /// A table as the running transaction sees it.
    pub(crate) fn look(&self, id: u32) -> Option<&Table> {
        self.tables.get(&id).map(|living| &living.table)
    }

    /// The running transaction changes this space, or makes it.
    pub(super) fn note(&mut self, id: u32) {
        if let Some(versions) = &mut self.versions {
            versions.changed.insert(id);
            if let Some(living) = self.tables.get_mut(&id) {
                living.writer.begin(versions.version);
            }
        }
    }

    /// A table goes; in a living store for the time being.
    pub(super) fn shelve(&mut self, id: u32) {
        self.note(id);
        if let (Some(living), Some(versions)) = (self.tables.remove(&id), &mut self.versions) {
            versions.shelved.push(living);
        }
    }

    /// Spaces that the running transaction has changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> {
        self.versions.iter().flat_map(|versions| versions.changed.iter().copied())
    }

    /// Whether it has dropped a table, or put another one in its place.
    pub(crate) fn has_shelved(&self) -> bool {
        self.versions.as_ref().is_some_and(|versions| !versions.shelved.is_empty())
    }

    /// A table as it is now, with its writing side.
    pub(crate) fn living_table(&mut self, id: u32) -> Option<&mut Living> {
        self.tables.get_mut(&id)
    }

    /// The state as it is now, to go back to.
    pub(crate) fn mark(&mut self) -> Mark {
        let kept = |living: &Living| (living.table.clone(), Lengths::of(&living.writer.traces));
        let tables = self.changed().map(|id| (id, self.tables.get(&id).map(kept))).collect();
        let schema = self.schema.clone();
        let versions = self.versions();
        versions.version += 1;
        Mark { version: versions.version, schema, tables }
    }

    /// Where the running transaction began: nothing is changed.
    pub(crate) fn mark_of_begin(schema: Arc<Schema>, version: u64) -> Mark {
        Mark { version, schema, tables: BTreeMap::new() }
    }

    /// Goes back to a mark. `published`: tables that the transaction had not changed then.
    pub(crate) fn roll_back(&mut self, mark: &Mark, published: impl Fn(u32) -> Option<Table>) {
        let Versions { changed, shelved, .. } = self.versions();
        let (changed, mut spare) = (std::mem::take(changed), std::mem::take(shelved));
        spare.extend(changed.iter().filter_map(|id| self.tables.remove(id)));
        for id in changed {
            let (table, lengths) = match mark.tables.get(&id) {
                Some(None) => continue,
                Some(Some((table, lengths))) => (table.clone(), *lengths),
                None => match published(id) {
                    Some(table) => (table, Lengths::default()),
                    None => continue,
                },
            };
            let is_it = |living: &Living| Arc::ptr_eq(&living.table.arena, &table.arena);
            let living = match spare.iter().position(is_it) {
                Some(at) => spare.swap_remove(at).back_to(table, lengths, mark.version),
                None => Living::new(table, false),
            };
            self.tables.insert(id, living);
        }
        self.dirty.clear();
        self.schema = mark.schema.clone();
        let versions = self.versions();
        versions.changed = mark.tables.keys().copied().collect();
        versions.shelved = spare;
    }

    /// The running transaction is over, either way.
    pub(crate) fn end(&mut self) {
        let Versions { changed, shelved, .. } = self.versions();
        let (changed, shelved) = (std::mem::take(changed), std::mem::take(shelved));
        drop(shelved);
        for id in changed {
            if let Some(living) = self.tables.get_mut(&id) {
                // Where nothing was published the next transaction has the same version.
                living.writer.begin(RECOVERY_TXN);
            }
        }
    }
}

impl Living {
    /// What has died in it is used again.
    pub(crate) fn free_retired(&mut self) {
        let mut traces = std::mem::take(&mut self.writer.traces);
        traces.retired_nodes.drain(..).for_each(|id| self.writer.free_node(id));
        traces.retired_tuples.drain(..).for_each(|handle| self.writer.free_tuple(handle));
        traces.born_tuples.clear();
        self.writer.traces = traces;
    }

    /// The same tuples as in an earlier version, `table`; what was born in the version `since` or later is given back.
    fn back_to(self, table: Table, lengths: Lengths, since: u64) -> Self {
        let Self { table: newest, mut writer, .. } = self;
        let mut nodes = Vec::new();
        for index in newest.indexes.iter().flatten() {
            index.built.list_born_since(since, &mut nodes);
        }
        let traces = &mut writer.traces;
        let retired = traces.retired_nodes.split_off(lengths.retired_nodes);
        let tuples = traces.born_tuples.split_off(lengths.born_tuples);
        traces.retired_tuples.truncate(lengths.retired_tuples);
        nodes.extend(retired.into_iter().filter(|&id| writer.birth(id) >= since));
        nodes.into_iter().for_each(|id| writer.free_node(id));
        tuples.into_iter().for_each(|handle| writer.free_tuple(handle));
        let mut living = Self { writer, ..Self::new(table, false) };
        living.writer.fit(&living.table);
        // The transaction has not changed it yet, as far as this version goes.
        living.writer.begin(RECOVERY_TXN);
        living
    }
}
