//! The published state of a store, and who looks at which.
//!
//! ```text
//! writer --> publishes --> current ---+
//!                                     |            live views, by version
//! read_view() takes current, and enters it here: [ 3: 2 views ] [ 7: 1 view ] [ 12: 1 view ]
//!                                                       ^ what died after 7 and was born before it stays
//! ```
//!
//! A state is immutable: definitions, and the version of each space's table, which is a root of each of its trees. To take
//! one costs a short lock and a counter, whatever the store holds. The lock is held for some dozen instructions on either
//! side, never while anything is read, written or freed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::recover::Origin;
use crate::file::vclock::Vclock;
use crate::space::catalog::Schema;
use crate::space::table::Table;

/// Tables of a chunk, at most: what a commit copies of the list for each space that it changed.
const CHUNK_TABLES_MAX: usize = 16;

/// A state of the whole store.
#[derive(Clone)]
pub(super) struct State {
    /// Number of the state; nodes and tuples that it has were born in this version or earlier.
    pub(super) version: u64,
    pub(super) vclock: Vclock,
    pub(super) schema: Arc<Schema>,
    pub(super) tables: Tables,
    pub(super) origin: Arc<Origin>,
}

/// The tables of a state, by id; copied by chunks.
#[derive(Clone, Default)]
pub(super) struct Tables {
    /// None is empty.
    chunks: Vec<Arc<Vec<Arc<Table>>>>,
}

impl Tables {
    /// `tables` stand in the order of their ids.
    pub(super) fn new(tables: Vec<Table>) -> Self {
        let mut chunks = Vec::new();
        let mut tables = tables.into_iter().map(Arc::new).peekable();
        while tables.peek().is_some() {
            chunks.push(Arc::new(tables.by_ref().take(CHUNK_TABLES_MAX).collect()));
        }
        Self { chunks }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    pub(super) fn get(&self, id: u32) -> Option<&Arc<Table>> {
        let chunk = self.chunks.get(self.chunk_of(id)?)?;
        chunk.binary_search_by_key(&id, |table| table.def.id).ok().map(|at| &chunk[at])
    }

    /// The chunk that has this id if any has.
    fn chunk_of(&self, id: u32) -> Option<usize> {
        let behind = self.chunks.partition_point(|chunk| chunk[0].def.id <= id);
        behind.checked_sub(1)
    }

    /// Puts a version of a table in the place of an earlier one, if there is one.
    pub(super) fn set(&mut self, table: Arc<Table>) {
        let id = table.def.id;
        if self.chunks.is_empty() {
            self.chunks.push(Arc::new(vec![table]));
            return;
        }
        let number = self.chunk_of(id).unwrap_or(0);
        let chunk = Arc::make_mut(&mut self.chunks[number]);
        match chunk.binary_search_by_key(&id, |table| table.def.id) {
            Ok(at) => chunk[at] = table,
            Err(at) => chunk.insert(at, table),
        }
        if chunk.len() > CHUNK_TABLES_MAX {
            let behind = chunk.split_off(chunk.len() / 2);
            self.chunks.insert(number + 1, Arc::new(behind));
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Some(number) = self.chunk_of(id) else { return };
        if !self.chunks[number].iter().any(|table| table.def.id == id) {
            return;
        }
        let chunk = Arc::make_mut(&mut self.chunks[number]);
        chunk.retain(|table| table.def.id != id);
        if chunk.is_empty() {
            self.chunks.remove(number);
        }
    }
}

/// The current state and the live views.
pub(super) struct Registry {
    shelf: Mutex<Shelf>,
}

struct Shelf {
    current: Arc<State>,
    /// By version.
    live: BTreeMap<u64, Live>,
    /// Versions have come to `live` or left it since the writer last asked.
    has_changed: bool,
}

/// A state that views look at.
struct Live {
    state: Arc<State>,
    views: usize,
    since: Instant,
}

/// What can be told of the live views.
pub(super) struct Census {
    pub(super) views: usize,
    /// Different states that they look at.
    pub(super) states: usize,
    pub(super) oldest: Option<(u64, Instant)>,
}

impl Registry {
    pub(super) fn new(state: State) -> Self {
        let shelf = Shelf { current: Arc::new(state), live: BTreeMap::new(), has_changed: false };
        Self { shelf: Mutex::new(shelf) }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn current(&self) -> Arc<State> {
        self.lock().current.clone()
    }

    /// Takes the current state for a view; to be given back by `leave`.
    pub(super) fn enter(&self) -> Arc<State> {
        let mut shelf = self.lock();
        let state = shelf.current.clone();
        shelf.enter(&state);
        state
    }

    /// Another view of a state that has one.
    pub(super) fn enter_again(&self, state: &Arc<State>) {
        self.lock().enter(state);
    }

    /// A view of this version is gone.
    pub(super) fn leave(&self, version: u64) {
        let mut shelf = self.lock();
        let Some(live) = shelf.live.get_mut(&version) else { return };
        live.views -= 1;
        if live.views == 0 {
            let gone = shelf.live.remove(&version);
            shelf.has_changed = true;
            // What the state alone holds is freed without the lock.
            drop(shelf);
            drop(gone);
        }
    }

    /// Puts a state in the place of the current one. Gives the versions that views look at, oldest first, if others than
    /// at the last call: no view of an earlier state comes after this.
    pub(super) fn publish(&self, state: State) -> Option<Vec<u64>> {
        let state = Arc::new(state);
        let (old, live) = {
            let mut shelf = self.lock();
            let old = std::mem::replace(&mut shelf.current, state);
            let has_changed = std::mem::take(&mut shelf.has_changed);
            (old, has_changed.then(|| shelf.live.keys().copied().collect()))
        };
        drop(old);
        live
    }

    /// Versions that views look at, oldest first.
    pub(super) fn live_versions(&self) -> Vec<u64> {
        let mut shelf = self.lock();
        shelf.has_changed = false;
        shelf.live.keys().copied().collect()
    }

    /// The state of a version that views look at.
    pub(super) fn live(&self, version: u64) -> Option<Arc<State>> {
        self.lock().live.get(&version).map(|live| live.state.clone())
    }

    pub(super) fn census(&self) -> Census {
        let shelf = self.lock();
        Census {
            views: shelf.live.values().map(|live| live.views).sum(),
            states: shelf.live.len(),
            oldest: shelf.live.iter().next().map(|(&version, live)| (version, live.since)),
        }
    }
}

impl Shelf {
    fn enter(&mut self, state: &Arc<State>) {
        let Self { live, has_changed, .. } = self;
        let live = live.entry(state.version).or_insert_with(|| {
            *has_changed = true;
            Live { state: state.clone(), views: 0, since: Instant::now() }
        });
        live.views += 1;
    }
}
