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

pub(crate) mod block;
pub(crate) mod compress;
pub(crate) mod directory;
pub(crate) mod disk;
pub(crate) mod header;
pub(crate) mod heads;
pub(crate) mod info;
pub(crate) mod pipeline;
pub(crate) mod reader;
pub(crate) mod row;
pub(crate) mod source;
pub(crate) mod vclock;
