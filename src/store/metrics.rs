//! What a store takes of memory, and who holds it.

use std::time::Duration;

use super::Store;

/// What a store holds, in bytes and numbers.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Taken from the system for tuples and indexes, used or not; what [`Options::max_memory`](crate::Options::max_memory)
    /// limits.
    pub memory_bytes: u64,
    /// Of that, rooms of tuples.
    pub arena_bytes: u64,
    /// Of that, nodes of indexes.
    pub node_bytes: u64,
    /// Bytes of the MsgPack of all tuples, as a view made now sees them.
    pub tuple_bytes: u64,
    /// Number of these tuples.
    pub tuples: u64,
    /// Live views.
    pub views: usize,
    /// Different states that they see.
    pub states: usize,
    /// How long ago the oldest view was made of its state.
    pub oldest_view: Option<Duration>,
    /// What died and is kept for views, or not looked at yet since they closed.
    pub garbage_bytes: u64,
    /// Of that, nodes.
    pub garbage_nodes: u64,
    /// Of that, tuples.
    pub garbage_tuples: u64,
}

impl Store {
    /// What the store holds. Waits for a transaction that is under way on another thread; on the thread that has one, what is
    /// known of garbage is left out.
    ///
    /// ```
    /// let store = lycosa::Store::open("snapshots/2.6/02-one-space")?;
    /// let view = store.read_view();
    /// store.write(|tx| tx.delete("users", (14,)))?;
    /// let metrics = store.metrics();
    /// assert_eq!((metrics.views, metrics.garbage_tuples), (1, 1));
    /// drop(view);
    /// store.collect_garbage();
    /// assert_eq!(store.metrics().garbage_bytes, 0);
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    pub fn metrics(&self) -> Metrics {
        let held = self.garbage_held();
        let census = self.registry.census();
        let mut metrics = Metrics {
            memory_bytes: self.settings.budget.used_bytes(),
            views: census.views,
            states: census.states,
            oldest_view: census.oldest.map(|(_, since)| since.elapsed()),
            garbage_bytes: held.bytes(),
            garbage_nodes: held.nodes,
            garbage_tuples: held.tuples,
            ..Metrics::default()
        };
        for table in self.registry.current().tables.iter() {
            metrics.arena_bytes += table.arena.bytes();
            metrics.node_bytes += table.pool.bytes();
            metrics.tuple_bytes += table.bytes;
            metrics.tuples += table.tuples;
        }
        metrics
    }
}
