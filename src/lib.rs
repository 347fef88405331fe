//! Lycosa (skeleton while it is being put together).
#![allow(dead_code)]

mod error;
mod file;
mod limits;
mod msgpack;
mod tuple;

pub use error::{Error, ErrorKind, Place, Result};
pub use file::header::{FileType, TextHeader};
pub use file::info::{EndInfo, FileInfo, KindInfo, SpaceInfo, UnknownKeyInfo};
pub use file::vclock::Vclock;
