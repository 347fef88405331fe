//! Where new tuples of a table get their room, and dead ones leave it: one thread's share of the arena, with the buffers
//! that making a tuple needs.

use super::change::{order, primary};
use super::table::Table;
use crate::error::{Error, ErrorKind, Result};
use crate::tuple::arena::ArenaWriter;
use crate::tuple::field_map::FieldMapBuf;
use crate::tuple::slab::Handle;

/// A tuple in the arena that no index knows yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct New {
    pub(crate) handle: Handle,
    /// Of its entry in the primary index: that of its key.
    pub(crate) hint: u64,
}

/// See the head of this file.
pub(crate) struct Room {
    tuples: ArenaWriter,
    map: FieldMapBuf,
    /// What operations make of a tuple.
    pub(super) updated: Vec<u8>,
    /// What a tuple may have, at most. What files hold has been allowed by somebody.
    pub(super) tuple_bytes_max: usize,
}

impl Room {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            tuples: ArenaWriter::new(table.arena.clone()),
            map: FieldMapBuf::default(),
            updated: Vec::new(),
            tuple_bytes_max: usize::MAX,
        }
    }

    /// Checks a tuple and gives it room, where no index knows it yet.
    ///
    /// # Errors
    /// `MsgPack` and `TupleFormat` for the tuple; `Memory`; `Absent` without a primary index.
    #[inline]
    pub(super) fn put(&mut self, table: &Table, tuple: &[u8]) -> Result<New> {
        let index = primary(table)?;
        let in_space = |error: Error| error.space(&table.def.name);
        if tuple.len() > self.tuple_bytes_max {
            return Err(in_space(
                Error::new(ErrorKind::Limit, "bytes of a tuple")
                    .expected(format!("at most {}", self.tuple_bytes_max))
                    .found(tuple.len()),
            ));
        }
        let end = table.format.walk(tuple, 0, &mut self.map).map_err(|fault| in_space(fault.into_error()))?;
        if end != tuple.len() {
            return Err(in_space(
                Error::new(ErrorKind::MsgPack, "tuple's MsgPack")
                    .expected(format!("{end} bytes"))
                    .found(tuple.len()),
            ));
        }
        let handle = self.tuples.put(tuple, &self.map).map_err(in_space)?;
        Ok(New { handle, hint: order(index).hint(&index.built, handle) })
    }

    /// Takes back the room of a tuple that nobody knows.
    #[inline]
    pub(super) fn free(&mut self, handle: Handle) {
        self.tuples.free(handle);
    }
}
