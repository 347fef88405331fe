//! What is stored where: the definitions of spaces and indexes, and how the system spaces tell them.
//!
//! - `definition`: what a space and an index are, as a user of the crate sees them.
//! - `system`: one row of a system space as one definition, in every shape that the versions wrote.
//! - `catalog`: all of them together as a [`Schema`]: cross checks, and what is absent and why.

pub(crate) mod catalog;
pub(crate) mod definition;
pub(crate) mod system;

pub use catalog::Schema;
pub use definition::{IndexDef, IndexKind, SpaceDef};
