//! The file container: bytes, blocks, rows. Knows of no tuples and no schema.
//!
//! ```text
//! +---------------+---------+---------+- ... -+-----+
//! | text header   | block   | block   |       | end |      .snap, .xlog and vinyl's files
//! +---------------+---------+---------+- ... -+-----+
//!   header.rs       block.rs -> compress.rs -> row.rs
//! ```
//!
//! `disk` is the seam to the operating system, `source` an opened file; `heads` finds blocks and how a file
//! ends. Two ways lead through a file: `reader` goes from front to back, `pipeline` takes blocks in any order
//! in many threads. `directory` knows which files of a folder matter, `info` tells what is in one.
//!
//! Logs are read as transactions: `log` says which follow a snapshot, `segment` reads them in many threads and takes
//! them apart into the compact rows of `log_row`, `transaction` puts those together again, up to the point of `stop`.

pub(crate) mod block;
pub(crate) mod compress;
pub(crate) mod directory;
pub(crate) mod disk;
mod framing;
pub(crate) mod header;
pub(crate) mod heads;
pub(crate) mod info;
pub(crate) mod log;
pub(crate) mod log_row;
pub(crate) mod pipeline;
pub(crate) mod reader;
pub(crate) mod row;
mod segment;
pub(crate) mod source;
pub(crate) mod stop;
pub(crate) mod transaction;
#[cfg(test)]
mod transaction_tests;
pub(crate) mod vclock;
