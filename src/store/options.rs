//! What the caller can choose when a store is opened.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::file::stop::{Stop, StopLsn};
use crate::file::vclock::Vclock;
use crate::limits::TUPLE_BYTES_MAX;

/// Names a space of a store, whatever it is called: its id, and which of the spaces that had that id one after the other.
///
/// To find a space by a handle is faster than by its name. When the space is dropped, the handle finds nothing any more, even
/// if another space gets its id; in views from before it finds what it always did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpaceHandle {
    pub(crate) id: u32,
    pub(crate) generation: u64,
}

impl SpaceHandle {
    /// The id of the space.
    pub fn id(self) -> u32 {
        self.id
    }
}

impl From<SpaceHandle> for SpaceSelector {
    fn from(handle: SpaceHandle) -> Self {
        Self::Handle(handle)
    }
}

impl From<&SpaceHandle> for SpaceSelector {
    fn from(handle: &SpaceHandle) -> Self {
        Self::Handle(*handle)
    }
}

/// Names a space by id or by name.
///
/// ```
/// use lycosa::SpaceSelector;
/// assert_eq!("512".parse(), Ok(SpaceSelector::Id(512)));
/// assert_eq!("name:512".parse(), Ok(SpaceSelector::Name("512".into())));
/// assert_eq!("users".parse(), Ok(SpaceSelector::Name("users".into())));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SpaceSelector {
    /// By id.
    Id(u32),
    /// By name.
    Name(String),
    /// By handle.
    Handle(SpaceHandle),
}

impl FromStr for SpaceSelector {
    type Err = std::convert::Infallible;

    /// Only digits are an id; `name:` before a name forces a name.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(name) = text.strip_prefix("name:") {
            return Ok(Self::Name(name.into()));
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        Ok(match text.parse() {
            Ok(id) if is_number => Self::Id(id),
            _ => Self::Name(text.into()),
        })
    }
}

impl From<&str> for SpaceSelector {
    fn from(name: &str) -> Self {
        let Ok(selector) = name.parse();
        selector
    }
}

impl From<u32> for SpaceSelector {
    fn from(id: u32) -> Self {
        Self::Id(id)
    }
}

impl fmt::Display for SpaceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) | Self::Handle(SpaceHandle { id, .. }) => write!(f, "{id}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// A stage of opening a store, in the order in which they come, or of writing a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Hopping over the block heads of the file.
    Scan,
    /// Reading the rows of the system spaces.
    Schema,
    /// Unpacking some blocks to learn the ranges of keys.
    Sample,
    /// Every block: checksum, unpacking, rows, tuples, primary keys, hints of secondary keys.
    Rows,
    /// Joining what the threads have read; spaces too small to be sampled are indexed here.
    Join,
    /// Sorting the secondary keys.
    Secondary,
    /// Replaying the logs.
    Logs,
    /// Summing up the spaces that the logs have changed.
    Sums,
    /// Writing a snapshot.
    Write,
}

impl Stage {
    /// The stage's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Schema => "schema",
            Self::Sample => "sample",
            Self::Rows => "rows",
            Self::Join => "join",
            Self::Secondary => "secondary",
            Self::Logs => "logs",
            Self::Sums => "sums",
            Self::Write => "write",
        }
    }
}

/// How far opening a store, or writing a snapshot, has come.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress {
    /// The stage that is under way.
    pub stage: Stage,
    /// Rows read so far, or written.
    pub rows: u64,
    /// Bytes of the file read so far; where a snapshot is written, of tuples.
    pub bytes: u64,
    /// Bytes of the file, or of all tuples.
    pub bytes_total: u64,
}

/// A callback for [`Progress`]; called from several threads, some hundred times in all.
pub type ProgressCallback = Arc<dyn Fn(&Progress) + Send + Sync>;

/// How a store is opened.
///
/// ```
/// let options = lycosa::Options::new().threads(2).max_memory(8 << 30).space("users");
/// assert!(lycosa::Store::open_with("no/such/folder", &options).is_err());
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) snapshot_only: bool,
    pub(crate) wal_dir: Option<PathBuf>,
    pub(crate) stop: Stop,
    pub(crate) skip_unknown: bool,
    pub(crate) drop_unconfirmed: bool,
    pub(crate) threads: usize,
    pub(crate) max_memory: Option<u64>,
    pub(crate) max_tuple_bytes: usize,
    pub(crate) spaces: Vec<SpaceSelector>,
    pub(crate) system_spaces: bool,
    pub(crate) hints: bool,
    pub(crate) nested: bool,
    pub(crate) fingerprint: bool,
    pub(crate) progress: Option<ProgressCallback>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            snapshot_only: false,
            wal_dir: None,
            stop: Stop::default(),
            skip_unknown: false,
            drop_unconfirmed: false,
            threads: 0,
            max_memory: None,
            max_tuple_bytes: TUPLE_BYTES_MAX,
            spaces: Vec::new(),
            system_spaces: false,
            hints: true,
            nested: false,
            fingerprint: true,
            progress: None,
        }
    }
}

impl Options {
    /// All cores, all spaces, no limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the snapshot alone, whatever logs hold.
    pub fn snapshot_only(mut self, yes: bool) -> Self {
        self.snapshot_only = yes;
        self
    }

    /// Logs (`.xlog`) that live in a folder apart from the snapshots.
    pub fn wal_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.wal_dir = Some(dir.into());
        self
    }

    /// Replays the logs up to this LSN of the replica that writes, whole transactions only. Where rows of several
    /// replicas are in the logs it could be any of theirs, and is an error of kind `Usage`: see [`Options::to_lsn_of`].
    pub fn to_lsn(mut self, lsn: u64) -> Self {
        self.stop.lsn = Some(StopLsn { replica_id: None, lsn });
        self
    }

    /// Replays the logs up to this LSN of a replica.
    pub fn to_lsn_of(mut self, replica_id: u32, lsn: u64) -> Self {
        self.stop.lsn = Some(StopLsn { replica_id: Some(replica_id), lsn });
        self
    }

    /// Replays the logs up to this vclock.
    pub fn to_vclock(mut self, vclock: Vclock) -> Self {
        self.stop.vclock = Some(vclock);
        self
    }

    /// Replays the logs up to the first transaction that was written later than this, in seconds since 1970.
    pub fn to_time(mut self, seconds: f64) -> Self {
        self.stop.time = Some(seconds);
        self
    }

    /// Skips rows of request types that are not known, instead of refusing them; the report counts them.
    pub fn skip_unknown(mut self, yes: bool) -> Self {
        self.skip_unknown = yes;
        self
    }

    /// Leaves out synchronous transactions that nobody has confirmed up to the end of the logs. Tarantool keeps them,
    /// visible to itself, until it hears of a quorum; so does a store, unless this is set.
    pub fn drop_unconfirmed(mut self, yes: bool) -> Self {
        self.drop_unconfirmed = yes;
        self
    }

    /// Threads to use; 0 means all cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The most bytes that tuples and indexes may take. Opening and writing fail with [`ErrorKind::Memory`] when it is
    /// reached; a statement that fails so has changed nothing.
    ///
    /// [`ErrorKind::Memory`]: crate::ErrorKind::Memory
    pub fn max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// The most bytes that a tuple that is written may have: 1 MiB if nothing else is said, as in Tarantool. What files
    /// hold may be larger.
    pub fn max_tuple_bytes(mut self, bytes: usize) -> Self {
        self.max_tuple_bytes = bytes;
        self
    }

    /// Loads only this space (repeatable). The others stay known by their definitions.
    pub fn space(mut self, space: impl Into<SpaceSelector>) -> Self {
        self.spaces.push(space.into());
        self
    }

    /// Loads the system spaces besides those asked for: what writing a snapshot of them needs.
    pub fn system_spaces(mut self, yes: bool) -> Self {
        self.system_spaces = yes;
        self
    }

    /// Whether indexes are built with hints (they are, unless somebody wants to measure what hints are worth).
    pub fn hints(mut self, yes: bool) -> Self {
        self.hints = yes;
        self
    }

    /// Sends every format through the general nested path, to measure what the plain one is worth.
    pub fn nested(mut self, yes: bool) -> Self {
        self.nested = yes;
        self
    }

    /// Whether each space's tuples are summed up in a CRC-32 that two loads can be compared by.
    pub fn fingerprint(mut self, yes: bool) -> Self {
        self.fingerprint = yes;
        self
    }

    /// Calls `callback` while the store is being opened.
    pub fn progress(mut self, callback: ProgressCallback) -> Self {
        self.progress = Some(callback);
        self
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("snapshot_only", &self.snapshot_only)
            .field("wal_dir", &self.wal_dir)
            .field("stop", &self.stop)
            .field("skip_unknown", &self.skip_unknown)
            .field("drop_unconfirmed", &self.drop_unconfirmed)
            .field("threads", &self.threads)
            .field("max_memory", &self.max_memory)
            .field("max_tuple_bytes", &self.max_tuple_bytes)
            .field("spaces", &self.spaces)
            .field("system_spaces", &self.system_spaces)
            .field("hints", &self.hints)
            .field("nested", &self.nested)
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}
