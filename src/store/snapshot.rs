//! From a store to a snapshot: the way back.
//!
//! ```text
//! system spaces, by id        all their rows as they are, but those about spaces that are left out
//! user spaces, by id          each in the order of its primary key
//! RAFT, RAFT_PROMOTE          where they were read
//! ```
//!
//! What Tarantool leaves out of snapshots is left out: tuples of temporary spaces, of views, of other engines. What it would
//! write and is not in memory is an error.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Store;
use super::options::{Progress, ProgressCallback, SpaceSelector, Stage};
use super::recover::Origin;
use super::report::StageReport;
use super::rows;
use super::synchro::Synchro;
use super::usage::Usage;
use super::view::ReadView;
use crate::error::{Error, ErrorKind, Result};
use crate::file::disk::{Disk, RealDisk};
use crate::file::header::{FileType, TextHeader};
use crate::file::new_file::ensure_folder;
use crate::file::row::RowOut;
use crate::file::writer::{SnapshotStyle, write_snapshot};
use crate::limits::SYSTEM_SPACE_ID_END;
use crate::parallel;
use crate::space::definition::SpaceDef;
use crate::space::left_out::{FK_CONSTRAINT_ID, LeftOut};
use crate::space::system;
use crate::space::table::{IndexData, Table};

/// Levels of zstd.
const LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

/// How a snapshot is written.
///
/// ```
/// let options = lycosa::SnapshotOptions::new().threads(2).level(3).space("users");
/// ```
#[derive(Clone)]
pub struct SnapshotOptions {
    level: i32,
    threads: usize,
    spaces: Vec<SpaceSelector>,
    progress: Option<ProgressCallback>,
    time: Option<f64>,
    skips_absent: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { level: 1, threads: 0, spaces: Vec::new(), progress: None, time: None, skips_absent: false }
    }
}

impl SnapshotOptions {
    /// All spaces, all cores, zstd level 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// Level of zstd, 1 to 22. On rows of snapshots 1 is faster than Tarantool's 3 and its files are no larger.
    pub fn level(mut self, level: i32) -> Self {
        self.level = level;
        self
    }

    /// Threads that compress; 0 means all cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Writes only this space (repeatable), and the system spaces without what they say of others.
    pub fn space(mut self, space: impl Into<SpaceSelector>) -> Self {
        self.spaces.push(space.into());
        self
    }

    /// Calls `callback` while the snapshot is being written, once a block.
    pub fn progress(mut self, callback: ProgressCallback) -> Self {
        self.progress = Some(callback);
        self
    }

    /// Spaces whose tuples are not in memory are written without any.
    pub(super) fn skips_absent(mut self) -> Self {
        self.skips_absent = true;
        self
    }

    /// The time that the rows are to have, in seconds since 1970; the present one if none is given.
    pub fn time(mut self, seconds: f64) -> Self {
        self.time = Some(seconds);
        self
    }
}

impl fmt::Debug for SnapshotOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotOptions")
            .field("level", &self.level)
            .field("threads", &self.threads)
            .field("spaces", &self.spaces)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// What a snapshot holds, and what writing it cost.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SnapshotReport {
    /// The file.
    pub path: PathBuf,
    /// Rows, those of system spaces among them.
    pub rows: u64,
    /// Bytes of the rows before they were compressed.
    pub row_bytes: u64,
    /// Blocks.
    pub blocks: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Threads that compressed.
    pub threads: usize,
    /// Time, CPU time and page faults.
    pub cost: StageReport,
    /// What the caller should know: spaces whose data is not in snapshots.
    pub notices: Vec<String>,
}

/// The rows of a table that go into a snapshot.
struct Dump<'a> {
    space: &'a SpaceDef,
    index: &'a IndexData,
    bytes: u64,
}

impl Store {
    /// Writes a snapshot of the store that Tarantool opens, into a folder, which is made if it is not there. Its name is the
    /// number that the vclock of the store adds up to. The file is whole or not there, survives a loss of power once this
    /// returns, and never replaces another.
    ///
    /// ```
    /// use lycosa::{SnapshotOptions, Store};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let store = Store::open("snapshots/2.6/36-xlog-ops/data")?;
    /// let report = store.write_snapshot(folder.path(), &SnapshotOptions::new())?;
    /// let again = Store::open(&report.path)?;
    /// assert_eq!(again.report().vclock, store.report().vclock);
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Exists`: the folder has a snapshot of this name. `Absent`: tuples that belong into the snapshot are not in memory.
    /// `NoSuchSpace`. `Usage`: a foreign key of a space that is to be written refers to one that is not; synchronous
    /// transactions that nobody has confirmed are part of the state, and a snapshot would make them final. `Io`.
    pub fn write_snapshot(
        &self,
        folder: impl AsRef<Path>,
        options: &SnapshotOptions,
    ) -> Result<SnapshotReport> {
        self.read_view().write_snapshot(folder, options)
    }
}

impl ReadView {
    /// As [`Store::write_snapshot`], of what the view sees, while others write.
    ///
    /// # Errors
    /// As there.
    pub fn write_snapshot(
        &self,
        folder: impl AsRef<Path>,
        options: &SnapshotOptions,
    ) -> Result<SnapshotReport> {
        self.write_snapshot_on(&RealDisk, folder.as_ref(), options)
    }

    pub(super) fn write_snapshot_on(
        &self,
        disk: &dyn Disk,
        folder: &Path,
        options: &SnapshotOptions,
    ) -> Result<SnapshotReport> {
        let (begun, usage) = (Instant::now(), Usage::of_process());
        if !LEVELS.contains(&options.level) {
            return Err(Error::new(ErrorKind::Usage, "level of zstd")
                .expected(format_args!("{} to {}", LEVELS.start(), LEVELS.end()))
                .found(options.level));
        }
        let Origin { instance, synchro, unconfirmed } = &*self.state.origin;
        if *unconfirmed > 0 {
            return Err(Error::new(ErrorKind::Usage, "a snapshot makes all transactions final")
                .expected("none that wait for a quorum (Options::drop_unconfirmed leaves them out)")
                .found(unconfirmed));
        }
        let left_out = self.left_out(options)?;
        let mut notices = Vec::new();
        let dumps = self.dumps(options, &left_out, &mut notices)?;
        let vclock = self.state.vclock;
        if instance.is_none() {
            notices.push("no instance is known, and Tarantool does not open a snapshot of none".into());
        }
        let path = folder.join(format!("{:020}.{}", vclock.signature(), FileType::Snap.extension()));
        let header = TextHeader::new(FileType::Snap, instance.clone(), vclock);
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
        let style = SnapshotStyle {
            level: options.level,
            threads: parallel::threads_for(options.threads, usize::MAX),
            time: options.time.unwrap_or_else(now),
        };
        let bodies = synchro.bodies();
        let rows =
            dumps.iter().flat_map(|dump| dump.rows(&left_out)).chain(bodies.iter().map(Synchro::row_out));
        let bytes_total = dumps.iter().map(|dump| dump.bytes).sum();
        let mut progress = Progress { stage: Stage::Write, rows: 0, bytes: 0, bytes_total };
        ensure_folder(disk, folder)?;
        let written = write_snapshot(disk, &path, &header, &style, rows, |rows, bytes| {
            (progress.rows, progress.bytes) = (progress.rows + rows, progress.bytes + bytes);
            options.progress.iter().for_each(|callback| callback(&progress));
        })?;
        let (name, end, wall) = (Stage::Write.name(), Usage::of_process(), begun.elapsed());
        let cost = usage.report(name, end, wall, written.rows, written.bytes);
        Ok(SnapshotReport {
            path,
            rows: written.rows,
            row_bytes: written.row_bytes,
            blocks: written.blocks,
            bytes: written.bytes,
            threads: style.threads,
            cost,
            notices,
        })
    }

    /// The user spaces that nobody asks for, if anybody asks for some.
    fn left_out(&self, options: &SnapshotOptions) -> Result<LeftOut> {
        if options.spaces.is_empty() {
            return Ok(LeftOut::default());
        }
        for selector in &options.spaces {
            rows::find(&self.state.schema, selector)?;
        }
        let is_asked_for = |space: &SpaceDef| options.spaces.iter().any(|selector| rows::is(space, selector));
        let is_left_out = |space: &&SpaceDef| space.id >= SYSTEM_SPACE_ID_END && !is_asked_for(space);
        let spaces: BTreeSet<u32> =
            self.state.schema.spaces().iter().filter(is_left_out).map(|space| space.id).collect();
        let tuples = |id| self.table(id).and_then(Table::whole).into_iter().flat_map(|index| index.all());
        let left_out = LeftOut::new(spaces, tuples(system::SPACE_SEQUENCE_ID).map(|tuple| tuple.data()));
        for id in [system::SPACE_ID, FK_CONSTRAINT_ID] {
            let missed = tuples(id).find_map(|tuple| left_out.missed_by(id, tuple.data()));
            if let Some(missed) = missed {
                let name = self
                    .state
                    .schema
                    .space_by_id(missed)
                    .map_or_else(|| missed.to_string(), |s| s.name.clone());
                return Err(Error::new(ErrorKind::Usage, "spaces to be written")
                    .expected("those as well that their foreign keys refer to")
                    .found(format_args!("none called {name}")));
            }
        }
        Ok(left_out)
    }

    fn table(&self, id: u32) -> Option<&Table> {
        self.state.tables.get(id).map(|table| &**table)
    }

    /// What is to be written of each space, by id.
    fn dumps(
        &self,
        options: &SnapshotOptions,
        left_out: &LeftOut,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Dump<'_>>> {
        let mut dumps = Vec::new();
        for space in self.state.schema.spaces().iter().filter(|space| !left_out.has(space.id)) {
            if !keeps_tuples_in_snapshots(space) {
                if space.engine == "vinyl" && space.primary().is_some() {
                    let what = "only its definition is in the snapshot, its data is in vinyl's own files";
                    notices.push(format!("space {}: {what}", space.name));
                }
                continue;
            }
            let (table, whole) = match self.written_by(space) {
                Ok(found) => found,
                Err(error) if options.skips_absent => {
                    notices.push(error.to_string());
                    continue;
                }
                Err(error) => return Err(error),
            };
            if table.primary().is_none() {
                let what = "its primary index is not in memory: its rows are in the order of another one";
                notices.push(format!("space {}: {what}", space.name));
            }
            dumps.push(Dump { space, index: whole, bytes: table.bytes });
        }
        Ok(dumps)
    }

    /// A space's table and the index that it is written by.
    fn written_by(&self, space: &SpaceDef) -> Result<(&Table, &IndexData)> {
        let absent = |why: &str| {
            Error::new(ErrorKind::Absent, format!("its tuples cannot be written: {why}")).space(&space.name)
        };
        if let Some(why) = &space.absent {
            return Err(absent(why));
        }
        let table = self.table(space.id).ok_or_else(|| absent("it was not among the spaces to be loaded"))?;
        let why = || space.primary().and_then(|primary| primary.absent.as_deref()).unwrap_or_default();
        table.whole().map(|whole| (table, whole)).ok_or_else(|| absent(why()))
    }
}

/// Whether Tarantool writes the tuples of a space to snapshots.
pub(super) fn keeps_tuples_in_snapshots(space: &SpaceDef) -> bool {
    space.engine == "memtx" && !space.is_view && !space.is_temporary && space.primary().is_some()
}

impl<'a> Dump<'a> {
    fn rows(&self, left_out: &'a LeftOut) -> impl Iterator<Item = RowOut<'a>> + use<'a> {
        let (id, is_local, index) = (self.space.id, self.space.is_local, self.index);
        let tuples = index.all().map(|tuple| tuple.data());
        tuples
            .filter(move |tuple| id >= SYSTEM_SPACE_ID_END || !left_out.takes(id, tuple))
            .map(move |tuple| RowOut::insert(id, is_local, tuple))
    }
}
