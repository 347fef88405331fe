//! What died and may still be seen by views, until no view does.
//!
//! ```text
//! live views of versions            3                7                        12 (the newest)
//! a node, born in 5, dead in 14     .                sees it                  sees it      -> waits for 12
//!   12 closes                       .                sees it                               -> waits for 7
//!   7 closes                        born later       ------------------------------------> free, whatever 3 does
//! ```
//!
//! What died waits for the newest view that sees it. When that one closes, the next older one is asked; when one is found
//! that does not see it, none does. A node says when it was born; a tuple does not, so the view's own primary index is
//! asked whether it has it.
//!
//! When a view closes that much waited for, it is looked at bit by bit, with each commit that follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::Registry;
use crate::index::tree::node::{NODE_BYTES, NodeId};
use crate::space::alter::{Catalog, Living};
use crate::tuple::arena::Arena;
use crate::tuple::slab::Handle;

/// Nodes and tuples that a commit looks at again, besides as many as it has made itself.
const SLICE: usize = 4096;

/// See the head of this file.
#[derive(Default)]
pub(super) struct Garbage {
    /// Versions that views look at, oldest first.
    live: Vec<u64>,
    /// By the version of the newest view that sees it.
    waiting: BTreeMap<u64, Vec<Lot>>,
    /// What a view saw that is closed.
    loose: Vec<(u64, Lot)>,
    pub(super) held: Held,
}

/// Of one space.
struct Lot {
    space: u32,
    /// Tells the table from others that have the same id.
    arena: Arc<Arena>,
    nodes: Vec<NodeId>,
    tuples: Vec<Handle>,
}

/// How much waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Held {
    pub(super) nodes: u64,
    pub(super) tuples: u64,
    pub(super) tuple_bytes: u64,
}

impl Held {
    pub(super) fn bytes(&self) -> u64 {
        self.nodes * NODE_BYTES as u64 + self.tuple_bytes
    }
}

impl Garbage {
    /// A transaction has been published. `live`: the versions that views look at, if they are others than before.
    pub(super) fn committed(
        &mut self,
        catalog: &mut Catalog<'_>,
        registry: &Registry,
        live: Option<Vec<u64>>,
    ) {
        if let Some(live) = live {
            self.live = live;
            self.loosen();
        }
        if catalog.has_shelved() {
            self.forget_tables(catalog);
        }
        let newest = self.live.last().copied();
        let changed: Vec<u32> = catalog.changed().collect();
        let mut died = 0;
        for space in changed {
            let Some(living) = catalog.living_table(space) else { continue };
            let traces = &mut living.writer.traces;
            traces.born_tuples.clear();
            died += traces.retired_nodes.len() + traces.retired_tuples.len();
            if newest.is_none() {
                living.free_retired();
                continue;
            }
            let nodes = std::mem::take(&mut traces.retired_nodes);
            let tuples = std::mem::take(&mut traces.retired_tuples);
            let lot = Lot { space, arena: living.table.arena.clone(), nodes, tuples };
            self.held.nodes += lot.nodes.len() as u64;
            self.held.tuples += lot.tuples.len() as u64;
            self.held.tuple_bytes += lot.tuple_bytes();
            self.settle(living, registry, lot, newest);
        }
        self.look_again(catalog, registry, SLICE + died);
    }

    /// Looks at everything that may be free by now.
    pub(super) fn collect(&mut self, catalog: &mut Catalog<'_>, registry: &Registry) {
        self.live = registry.live_versions();
        self.loosen();
        self.look_again(catalog, registry, usize::MAX);
    }

    /// What closed views saw is loose.
    fn loosen(&mut self) {
        let Self { live, waiting, loose, .. } = self;
        waiting.retain(|version, lots| {
            let stays = live.binary_search(version).is_ok();
            if !stays {
                loose.extend(lots.drain(..).map(|lot| (*version, lot)));
            }
            stays
        });
    }

    /// Tables that were dropped take their memory with them.
    fn forget_tables(&mut self, catalog: &Catalog<'_>) {
        let Self { waiting, loose, held, .. } = self;
        let mut stays = |lot: &Lot| {
            let table = catalog.look(lot.space);
            let stays = table.is_some_and(|table| Arc::ptr_eq(&table.arena, &lot.arena));
            if !stays {
                lot.leaves(held);
            }
            stays
        };
        waiting.values_mut().for_each(|lots| lots.retain(&mut stays));
        loose.retain(|(_, lot)| stays(lot));
    }

    fn look_again(&mut self, catalog: &mut Catalog<'_>, registry: &Registry, mut slice: usize) {
        while slice > 0
            && let Some((version, mut lot)) = self.loose.pop()
        {
            if lot.nodes.len() + lot.tuples.len() > slice {
                let nodes = lot.nodes.split_off(lot.nodes.len().saturating_sub(slice));
                let left = slice - nodes.len();
                let tuples = lot.tuples.split_off(lot.tuples.len().saturating_sub(left));
                let (space, arena) = (lot.space, lot.arena.clone());
                self.loose.push((version, lot));
                lot = Lot { space, arena, nodes, tuples };
            }
            slice -= lot.nodes.len() + lot.tuples.len();
            let older = self.live[..self.live.partition_point(|&live| live < version)].last().copied();
            match catalog.living_table(lot.space) {
                Some(living) => self.settle(living, registry, lot, older),
                None => lot.leaves(&mut self.held),
            }
        }
    }

    /// What this view sees waits for it; the rest is used again.
    fn settle(&mut self, living: &mut Living, registry: &Registry, lot: Lot, view: Option<u64>) {
        let state = view.and_then(|version| Some((version, registry.live(version)?)));
        let Some((version, state)) = state else {
            // No view, or one that has just closed: then the next one is asked.
            return match view {
                Some(version) => self.loose.push((version, lot)),
                None => {
                    lot.leaves(&mut self.held);
                    lot.nodes.into_iter().for_each(|id| living.writer.free_node(id));
                    lot.tuples.into_iter().for_each(|handle| living.writer.free_tuple(handle));
                }
            };
        };
        let table = state.tables.get(lot.space).filter(|table| Arc::ptr_eq(&table.arena, &lot.arena));
        let Lot { space, arena, nodes, tuples } = lot;
        let is_seen = |id: &NodeId| table.is_some() && living.writer.birth(*id) <= version;
        let (nodes, free_nodes): (Vec<_>, Vec<_>) = nodes.into_iter().partition(is_seen);
        let is_seen = |handle: &Handle| table.is_some_and(|table| table.holds(*handle));
        let (tuples, free_tuples): (Vec<_>, Vec<_>) = tuples.into_iter().partition(is_seen);
        let free = Lot { space, arena: arena.clone(), nodes: free_nodes, tuples: free_tuples };
        free.leaves(&mut self.held);
        free.nodes.into_iter().for_each(|id| living.writer.free_node(id));
        free.tuples.into_iter().for_each(|handle| living.writer.free_tuple(handle));
        if nodes.is_empty() && tuples.is_empty() {
            return;
        }
        let lots = self.waiting.entry(version).or_default();
        match lots.iter_mut().rfind(|lot| lot.space == space && Arc::ptr_eq(&lot.arena, &arena)) {
            Some(lot) => {
                lot.nodes.extend(nodes);
                lot.tuples.extend(tuples);
            }
            None => lots.push(Lot { space, arena, nodes, tuples }),
        }
    }
}

impl Lot {
    fn tuple_bytes(&self) -> u64 {
        self.tuples.iter().map(|&handle| self.arena.get(handle).data().len() as u64).sum()
    }

    /// It waits no longer.
    fn leaves(&self, held: &mut Held) {
        held.nodes -= self.nodes.len() as u64;
        held.tuples -= self.tuples.len() as u64;
        held.tuple_bytes -= self.tuple_bytes();
    }
}
