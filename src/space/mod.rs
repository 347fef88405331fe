//! Tuples and indexes, always in step.
//!
//! - `definition`: what a space and an index are, as a user of the crate sees them.
//! - `system`: one row of a system space as one definition, in every shape that the versions wrote.
//! - `catalog`: all of them together as a [`Schema`](catalog::Schema): cross checks, and what is absent and why.
//! - `loader`: a space while a snapshot is replayed into it.
//! - `table`: a space in memory: look-ups and walks.
//! - `left_out`: which rows of system spaces go with spaces that are left out of a snapshot.
//! - `change`: a tuple put in, replaced or deleted in a table and all its indexes; `request`: what an INSERT, an UPSERT or
//!   the like makes of a tuple; `room`: where new tuples get their place.
//! - `alter`: definitions that change, and tables that follow them.
//! - `versions`: transactions, savepoints and rollbacks over all tables.

pub(crate) mod alter;
pub(crate) mod catalog;
pub(crate) mod change;
#[cfg(test)]
mod change_tests;
pub(crate) mod definition;
pub(crate) mod left_out;
pub(crate) mod loader;
pub(crate) mod request;
pub(crate) mod room;
pub(crate) mod system;
pub(crate) mod table;
pub(crate) mod versions;
