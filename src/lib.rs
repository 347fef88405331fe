//! Lycosa (skeleton while it is being put together).
#![allow(dead_code)]

mod error;
mod index;
mod limits;
mod msgpack;
mod tuple;

pub use error::{Error, ErrorKind, Place, Result};
