//! The one way in which a space changes: a tuple dies, a tuple is born, in the table and all its indexes at once.
//!
//! Every statement comes down to `old` and `new`, one of which may be missing, and goes
//!
//! ```text
//! walk the new tuple         its format
//! put it in the arena        its room
//! look at the primary index  who is old?
//! look at every other index  is there another one with a key that must be unique?
//! reserve nodes              for all edits
//! ------------------------------------------------------ up to here a fault leaves everything as it was
//! apply to every index       cannot fail
//! count; free what died
//! ```
//!
//! The writing side is one value a table, kept across statements: its buffers are used again, so that a statement
//! allocates nothing but the tuple's room and now and then a node.
//!
//! While nobody reads (the replay of logs) what died is used again from the next statement on. In a living store it is
//! listed for whoever knows when the last reader is gone, and what was born is listed for a rollback; see
//! `space::versions`.

use super::loader::duplicate;
use super::room::{New, Room};
use super::table::{IndexData, Table, check_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::index::build::{Built, RECOVERY_TXN};
use crate::index::change::{Order, Spot};
use crate::index::key::Key;
use crate::index::tree::Tree;
use crate::index::tree::edit::Edit;
use crate::index::tree::node::{NODE_BYTES, NodeId, NodeWriter};
use crate::tuple::slab::Handle;

/// The writing side of a table. See the head of this file.
pub(crate) struct TableWriter {
    nodes: NodeWriter,
    /// Where tuples get their room: the first is this writer's, the others are those of threads that help.
    rooms: Vec<Room>,
    /// What is known of each index of the definition's list.
    spots: Vec<Spot>,
    /// Offsets of the values of the statement's keys.
    begin_values: Vec<Option<usize>>,
    end_values: Vec<Option<usize>>,
    /// The tuples of a range.
    range: Vec<Handle>,
    /// The running transaction; nodes that were born in it are edited in place.
    pub(crate) txn: u64,
    /// Nobody sees an earlier version: what dies is used again after the statement.
    pub(crate) free_at_once: bool,
    /// What died and was born in this transaction, unless it is freed at once.
    pub(crate) traces: Traces,
}

/// What a transaction has left behind in a table.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    /// Nodes and tuples that the newest version does not use; they may be older than the transaction or its own.
    pub(crate) retired_nodes: Vec<NodeId>,
    pub(crate) retired_tuples: Vec<Handle>,
    /// Tuples that were put into indexes, each once, dead or alive.
    pub(crate) born_tuples: Vec<Handle>,
}

pub(super) fn order(index: &IndexData) -> Order<'_> {
    Order { key_def: &index.key_def, hints: &index.hints, arena: &index.arena }
}

/// The primary index, which every statement goes by.
pub(super) fn primary(table: &Table) -> Result<&IndexData> {
    let first = table.indexes.first().and_then(Option::as_ref);
    let is_usable = |index: &&IndexData| {
        table.def.primary().is_some() && index.key_def.unique && index.key_def.elements.is_none()
    };
    first.filter(is_usable).ok_or_else(|| {
        Error::new(ErrorKind::Absent, "the primary index, without which a space cannot be changed")
            .space(&table.def.name)
    })
}

impl Table {
    /// Whether this very tuple is one of the table's.
    pub(crate) fn holds(&self, handle: Handle) -> bool {
        primary(self).is_ok_and(|index| order(index).holds(&index.built, handle))
    }
}

impl TableWriter {
    /// For the replay of logs; `txn` and `free_at_once` may be set otherwise.
    pub(crate) fn new(table: &Table) -> Self {
        Self {
            nodes: NodeWriter::new(table.pool.clone()),
            rooms: vec![Room::new(table)],
            spots: table.indexes.iter().map(|_| Spot::default()).collect(),
            begin_values: Vec::new(),
            end_values: Vec::new(),
            range: Vec::new(),
            txn: RECOVERY_TXN,
            free_at_once: true,
            traces: Traces::default(),
        }
    }

    /// Writes a version of the table that others do not see, besides one that they do.
    pub(crate) fn begin(&mut self, txn: u64) {
        (self.txn, self.free_at_once) = (txn, false);
    }

    /// Tuples may have so many bytes, at most.
    pub(crate) fn limit_tuples(&mut self, bytes_max: usize) {
        self.room().tuple_bytes_max = bytes_max;
    }

    /// Fits the writer to a table of the same tuples with other indexes.
    pub(super) fn fit(&mut self, table: &Table) {
        self.spots.clear();
        self.spots.resize_with(table.indexes.len(), Spot::default);
    }

    /// An index goes, with all its nodes.
    pub(super) fn retire(&mut self, built: Built) {
        match self.free_at_once {
            true => built.free(),
            false => built.list_born_since(RECOVERY_TXN, &mut self.traces.retired_nodes),
        }
    }

    /// Takes back a node and a tuple that nobody looks at.
    pub(crate) fn free_node(&mut self, id: NodeId) {
        self.nodes.recycle(id);
    }

    pub(crate) fn free_tuple(&mut self, handle: Handle) {
        self.room().free(handle);
    }

    /// The transaction a node of this table was born in.
    pub(crate) fn birth(&self, id: NodeId) -> u64 {
        // Heads are alike in all kinds of nodes.
        self.nodes.pool().node::<false>(id).txn()
    }

    /// Checks a tuple and gives it room, where no index knows it yet.
    ///
    /// # Errors
    /// `MsgPack` and `TupleFormat` for the tuple; `Memory`; `Absent` without a primary index.
    pub(crate) fn put(&mut self, table: &Table, tuple: &[u8]) -> Result<New> {
        self.room().put(table, tuple)
    }

    #[inline]
    pub(super) fn room(&mut self) -> &mut Room {
        &mut self.rooms[0]
    }

    /// Checks a whole key of the primary index.
    ///
    /// # Errors
    /// `Key`, `Absent`.
    pub(crate) fn key_hint(&mut self, table: &Table, key: &[u8]) -> Result<u64> {
        let index = primary(table)?;
        let in_space = |error: Error| error.space(&table.def.name);
        Key::check(&index.key_def, key, &mut self.begin_values).map_err(in_space)?;
        check_whole(&index.key_def, &self.begin_values).map_err(in_space)?;
        Ok(order(index).key_hint(&index.built, key, &self.begin_values))
    }

    /// The tuple with this whole primary key, whose hint is known.
    ///
    /// # Errors
    /// `Key` for the key, `Absent`.
    pub(crate) fn find(&mut self, table: &Table, key: &[u8], hint: u64) -> Result<Option<Handle>> {
        let index = primary(table)?;
        Key::check(&index.key_def, key, &mut self.begin_values)
            .map_err(|error| error.space(&table.def.name))?;
        let (place, old) = order(index).seek_key(&index.built, key, &self.begin_values, hint);
        if let Some(old) = old {
            self.spots[0].found(place, old);
        }
        Ok(old)
    }

    /// The bytes of the stored tuple with the primary key of this one.
    ///
    /// # Errors
    /// `Absent`.
    pub(crate) fn find_present(&mut self, table: &Table, new: New) -> Result<Option<Vec<u8>>> {
        Ok(self.look_for(table, new)?.map(|handle| table.arena.get(handle).data().to_vec()))
    }

    /// The stored tuple with the primary key of this one, which is not needed any more.
    ///
    /// # Errors
    /// `Absent`.
    pub(crate) fn find_twin(&mut self, table: &Table, new: New) -> Result<Option<Handle>> {
        let found = self.look_for(table, new);
        self.room().free(new.handle);
        found
    }

    /// Removes the stored tuple with the primary key of this one, which is not needed any more.
    ///
    /// # Errors
    /// `Absent`, `Memory`.
    pub(crate) fn remove_twin(&mut self, table: &mut Table, new: New) -> Result<()> {
        let found = self.look_for(table, new);
        self.room().free(new.handle);
        match found? {
            None => Ok(()),
            old => self.change(table, old, None),
        }
    }

    /// The tree of the primary index, if its entries may be merged with changes: it has hints that tell keys apart, there
    /// is no other index, and nobody sees an earlier version. To be given back by `put_primary`.
    pub(crate) fn take_primary(&self, table: &mut Table) -> Option<Tree<false>> {
        primary(table).ok()?;
        let [Some(first), rest @ ..] = &mut table.indexes[..] else { return None };
        let may_be = self.free_at_once && !first.hints.is_none() && rest.iter().all(Option::is_none);
        match &mut first.built {
            Built::Tree(tree) if may_be => Some(tree.take()),
            _ => None,
        }
    }

    pub(crate) fn put_primary(&self, table: &mut Table, tree: Tree<false>) {
        if let Some(Some(IndexData { built: Built::Tree(place), .. })) = table.indexes.first_mut() {
            *place = tree;
        }
    }

    /// So many rooms, each for a thread; to be given back.
    pub(crate) fn take_rooms(&mut self, table: &Table, count: usize) -> Vec<Room> {
        self.rooms.resize_with(count.max(self.rooms.len()), || Room::new(table));
        self.rooms.drain(..count).collect()
    }

    /// The rooms come back, and what died in them is used again by this writer in turn.
    pub(crate) fn put_rooms(&mut self, table: &Table, rooms: Vec<Room>) {
        self.rooms.extend(rooms);
        match self.rooms.len() {
            0 => self.rooms.push(Room::new(table)),
            _ => self.rooms.rotate_left(1),
        }
    }

    /// Asks for what a statement about a key with this hint will look at.
    #[inline]
    pub(crate) fn prefetch(&self, table: &Table, hint: u64) {
        if let Ok(index) = primary(table) {
            order(index).prefetch(&index.built, hint);
        }
    }

    /// Deletes the tuples that an index has from one key up to, but without, another, in the order of the index. A key
    /// may have fewer parts than the index; one of none is no bound. Gives the number of tuples.
    ///
    /// # Errors
    /// `NoSuchIndex`, `Absent`; `Key` for the keys, and if the index has no order; `Memory`.
    pub(crate) fn delete_range(
        &mut self,
        table: &mut Table,
        index_id: u32,
        begin: &[u8],
        end: &[u8],
    ) -> Result<u64> {
        primary(table)?;
        self.list_range(table, index_id, begin, end).map_err(|error| error.space(&table.def.name))?;

        let mut range = std::mem::take(&mut self.range);
        let needed = table.indexes.iter().flatten().map(|index| {
            let entries = match index.key_def.elements {
                Some(_) => usize::MAX / 64,
                None => range.len(),
            };
            index.built.nodes_needed(0, entries, self.nodes_in_use(table))
        });
        let needed: usize = needed.sum();
        let count = range.len() as u64;
        let outcome = self.nodes.reserve(needed).map_err(|error| error.space(&table.def.name));
        if outcome.is_ok() {
            for &old in &range {
                self.look_for_old(table, old);
                self.apply(table, Some(old), None);
            }
        }
        range.clear();
        self.range = range;
        outcome.map(|()| count)
    }

    /// The tuples of a range, each once, to `self.range`.
    fn list_range(&mut self, table: &Table, index_id: u32, begin: &[u8], end: &[u8]) -> Result<()> {
        let Some(number) = table.def.indexes.iter().position(|index| index.id == index_id) else {
            return Err(Error::new(ErrorKind::NoSuchIndex, "index of a range").found(index_id));
        };
        let name = || format!("index {}", table.def.indexes[number].name);
        let Some(index) = &table.indexes[number] else { return Err(Error::new(ErrorKind::Absent, name())) };
        Key::check(&index.key_def, begin, &mut self.begin_values)?;
        Key::check(&index.key_def, end, &mut self.end_values)?;
        let (begin, end) = ((begin, &self.begin_values[..]), (end, &self.end_values[..]));
        self.range.clear();
        match &index.built {
            Built::Tree(tree) => order(index).list_range(tree, begin, end, &mut self.range),
            Built::MultikeyTree(tree) => order(index).list_range(tree, begin, end, &mut self.range),
            Built::Hash(..) => {
                return Err(Error::new(ErrorKind::Key, name()).expected("an order").found("a HASH index"));
            }
        }
        if index.key_def.elements.is_some() {
            self.range.sort_unstable();
            self.range.dedup();
        }
        Ok(())
    }

    /// The stored tuple with the primary key of a new one; the place of both is kept for the change.
    pub(super) fn look_for(&mut self, table: &Table, new: New) -> Result<Option<Handle>> {
        let index = primary(table)?;
        Ok(self.spots[0].look_at(order(index), &index.built, new.handle, new.hint))
    }

    /// Changes all indexes, or none, where the old tuple, or none with the new one's key, has just been found.
    pub(super) fn change(&mut self, table: &mut Table, old: Option<Handle>, new: Option<New>) -> Result<()> {
        self.spots[0].set_new(new.map(|new| (new.handle, new.hint)));
        let new = new.map(|new| new.handle);
        let in_use = self.nodes_in_use(table);
        let mut needed = 0;
        for (number, (index, spot)) in table.indexes.iter().zip(&mut self.spots).enumerate() {
            let Some(index) = index else { continue };
            if number > 0 {
                spot.look(order(index), &index.built, old, new)
                    .map_err(|twin| conflict(table, number, twin, new.unwrap_or(twin)))?;
            } else {
                spot.look_for_old(order(index), &index.built, old);
            }
            needed += spot.nodes_needed(&index.built, old, in_use);
        }
        self.nodes.reserve(needed).map_err(|error| error.space(&table.def.name))?;
        self.apply(table, old, new);
        Ok(())
    }

    fn look_for_old(&mut self, table: &Table, old: Handle) {
        for (index, spot) in table.indexes.iter().zip(&mut self.spots) {
            let Some(index) = index else { continue };
            spot.look(order(index), &index.built, Some(old), None).expect("a tuple that goes hinders nobody");
        }
    }

    fn nodes_in_use(&self, table: &Table) -> usize {
        table.pool.bytes() as usize / NODE_BYTES - self.nodes.available()
    }

    /// The part of a statement that cannot fail: nodes are in reserve.
    fn apply(&mut self, table: &mut Table, old: Option<Handle>, new: Option<Handle>) {
        let retired = &mut self.traces.retired_nodes;
        let mut edit = Edit { txn: self.txn, writer: &mut self.nodes, retired };
        for (index, spot) in table.indexes.iter_mut().zip(&self.spots) {
            let Some(IndexData { key_def, hints, built, arena }) = index else { continue };
            spot.apply(Order { key_def, hints, arena }, built, old, new, &mut edit);
        }
        self.count(table, old, new);
        if self.free_at_once {
            self.traces.retired_nodes.drain(..).for_each(|id| self.nodes.recycle(id));
        }
    }

    /// A tuple is in the indexes, another one no longer.
    pub(super) fn count(&mut self, table: &mut Table, old: Option<Handle>, new: Option<Handle>) {
        if let Some(new) = new {
            table.tuples += 1;
            table.bytes += table.arena.get(new).data().len() as u64;
            if !self.free_at_once {
                self.traces.born_tuples.push(new);
            }
        }
        if let Some(old) = old {
            table.tuples -= 1;
            table.bytes -= table.arena.get(old).data().len() as u64;
            if self.free_at_once {
                self.room().free(old);
            } else {
                self.traces.retired_tuples.push(old);
            }
        }
        table.fingerprint = None;
    }
}

#[cold]
pub(super) fn conflict(table: &Table, number: usize, twin: Handle, new: Handle) -> Error {
    duplicate(&table.def, number, table.arena.get(twin).data(), table.arena.get(new).data())
}
