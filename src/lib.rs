//! Lycosa (skeleton while it is being put together).
#![allow(dead_code)]

mod error;
mod limits;
mod msgpack;
mod tuple;

pub use error::{Error, ErrorKind, Place, Result};
mod space;

pub use space::{IndexDef, IndexKind, Schema, SpaceDef};
