//! Lycosa is an embedded, in-memory tuple store that is file-compatible with Tarantool's memtx engine: it opens the
//! `.snap` and `.xlog` files that a real Tarantool wrote as fast as the hardware allows, and serves their tuples from
//! memory through primary and secondary indexes.
//!
//! ```
//! use lycosa::{IteratorType, Store};
//!
//! let view = Store::open("snapshots/2.6/03-int4-string")?.read_view();
//! for space in view.spaces().filter(|space| space.def().id >= 512) {
//!     println!("{}: {} tuples", space.def().name, space.len());
//!     for tuple in space.primary()?.select(IteratorType::Ge, (990,))? {
//!         println!("{}", tuple.to_json());
//!     }
//! }
//! # Ok::<(), lycosa::Error>(())
//! ```
//!
//! # The journey of the data
//!
//! Folders stand in the order in which data travels, and each uses only those before it:
//!
//! | folder | what it is about | what it does not know |
//! |---|---|---|
//! | `msgpack` | values as bytes: skip, read, compare, print | rows, tuples, files |
//! | `file` | bytes, blocks, rows; folders of files | tuples and schemas |
//! | `tuple` | a row's array as a record of a known shape: formats, field maps, the arena | files |
//! | `index` | order: key definitions, hints, trees, hash indexes, building them in bulk | files |
//! | `space` | tuples and indexes, always in step; definitions; the system spaces | files |
//! | `store` | the running whole: recovery, reports, the API | |
//!
//! The page to read first is `store/recover.rs`: the pipeline from snapshot to store; then `store/replay.rs`, from logs
//! to the state after them; then `store/transaction.rs`, what changes a store that runs, and `store/reclaim.rs`, what views
//! keep alive.
//!
//! The library never prints, never exits, and reads no environment.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod counts;
mod error;
mod file;
mod index;
mod limits;
mod msgpack;
mod parallel;
#[expect(unsafe_code, reason = "the prefetch instruction")]
mod prefetch;
mod space;
mod store;
mod tuple;

pub use error::{Error, ErrorKind, Place, Result};
pub use file::header::{FileType, TextHeader};
pub use file::info::{EndInfo, FileInfo, KindInfo, SpaceInfo, UnknownKeyInfo};
pub use file::row_file::{FileRow, RowFile, RowPair, RowPosition, RowRun, RowsEnd};
pub use file::row_print::RowPrinter;
pub use file::vclock::Vclock;
pub use file::verify::{FileVerdict, Finding, Severity, Verdict};
pub use index::iterator::IteratorType;
pub use msgpack::value::Value;
pub use space::catalog::Schema;
pub use space::definition::{IndexDef, IndexKind, SpaceDef};
pub use store::Store;
pub use store::define::{IndexSpec, PartSpec, SpaceSpec};
pub use store::diff::{Change, SpaceDiff};
pub use store::export::{BytesForm, ExportFormat, ExportOptions, Exporter};
pub use store::metrics::Metrics;
pub use store::op::{Op, Target};
pub use store::options::{Options, Progress, ProgressCallback, SpaceHandle, SpaceSelector, Stage};
pub use store::report::{Counters, IndexReport, LoadReport, LogReport, SpaceReport, StageReport};
pub use store::salvage::{Loss, SalvageOptions, SalvageReport, SavedSpace, salvage};
pub use store::snapshot::{SnapshotOptions, SnapshotReport};
pub use store::stats::{FieldStats, SpaceStats};
pub use store::transaction::{Savepoint, Transaction};
pub use store::view::{Index, ReadView, Select, Space, Tuple};
pub use tuple::field_type::FieldType;
pub use tuple::part::{FieldDef, NullableAction, PartDef};
pub use tuple::path::Path;
