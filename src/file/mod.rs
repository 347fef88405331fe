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
//! ends. Two ways lead through a file: `heads` goes from block to block, `pipeline` takes blocks in any order
//! in many threads. `directory` knows which files of a folder matter, `info` tells what is in one, `verify` all
//! that is wrong with it.
//!
//! Of a damaged file `rescue` reads what can be read, and `repair` knows what checksums tell of damage.
//!
//! The way back: `writer` makes blocks of rows in many threads, `new_file` a file that is whole or not there.
//!
//! Logs are read as transactions: `log` says which follow a snapshot; `segment` reads them in many threads and takes them
//! apart into the compact rows of `log_row`; `framing` puts those together again, with an eye for what `habits`
//! writers had, and `log_end` looks from log to log; `transaction` gives them to the caller, up to the point of
//! `stop`. `rewind` finds the snapshot to begin with for such a point.

pub(crate) mod block;
pub(crate) mod compress;
pub(crate) mod directory;
pub(crate) mod disk;
mod framing;
pub(crate) mod habits;
pub(crate) mod header;
pub(crate) mod heads;
pub(crate) mod info;
pub(crate) mod log;
mod log_end;
pub(crate) mod log_row;
pub(crate) mod new_file;
pub(crate) mod pipeline;
mod repair;
pub(crate) mod rescue;
pub(crate) mod rewind;
pub(crate) mod row;
pub(crate) mod row_file;
pub(crate) mod row_print;
mod segment;
pub(crate) mod source;
pub(crate) mod stop;
pub(crate) mod transaction;
#[cfg(test)]
mod transaction_tests;
pub(crate) mod vclock;
pub(crate) mod verify;
pub(crate) mod writer;
