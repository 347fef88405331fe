//! Everything that can be saved of a damaged folder, as one fresh snapshot.
//!
//! ```text
//! snapshot    the newest one that can be read; if it is damaged and an older one with all logs since then is not, that one
//! whole       its whole blocks, and those that were put right, all at once as always; one row after the other, each for
//!             itself, where that fails
//! the rest    rows of damaged blocks
//! logs        each row for itself, by its LSN; what is in the snapshot, or was there already, is skipped
//! TARGET      NNN.snap, and lost.jsonl: a line for every row that could be read and is not in it, and why
//! ```
//!
//! What is lost is told stretch by stretch, with the rows, LSNs and keys between which it was, as far as what is left beside
//! it shows.

mod infer;
mod logs;
mod loss;
mod run;

use std::path::{Path, PathBuf};

use super::snapshot::{SnapshotOptions, SnapshotReport};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::file::directory::{Folder, NamedFile};
use crate::file::disk::{Disk, PathKind, RealDisk};
use crate::file::new_file::{NewFile, ensure_folder};
use crate::file::verify::Verdict;
pub use loss::Loss;
use run::{At, Dropped, Known, Run};

/// The side file.
const LOST: &str = "lost.jsonl";

/// Runs, until what was guessed of the definitions of spaces is good.
const RUNS_MAX: usize = 10;

/// What [`salvage`] may do.
///
/// ```
/// let options = lycosa::SalvageOptions::new().threads(2).checked_only(true);
/// ```
#[derive(Debug, Clone)]
pub struct SalvageOptions {
    threads: usize,
    max_memory: Option<u64>,
    wal_dir: Option<PathBuf>,
    level: i32,
    checked_only: bool,
    keeps_doubtful: bool,
}

impl Default for SalvageOptions {
    fn default() -> Self {
        Self {
            threads: 0,
            max_memory: None,
            wal_dir: None,
            level: 1,
            checked_only: false,
            keeps_doubtful: false,
        }
    }
}

impl SalvageOptions {
    /// All cores. Of blocks under a wrong checksum rows are taken up to where the first one makes no sense; but none of
    /// compressed ones that unpack all the same, where nothing shows how far they are right.
    pub fn new() -> Self {
        Self::default()
    }

    /// Threads; 0 means all cores.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Most bytes that tuples and indexes may take.
    pub fn max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// The folder of the logs, where they live apart.
    pub fn wal_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.wal_dir = Some(dir.into());
        self
    }

    /// Level of zstd for what is written, 1 to 22.
    pub fn level(mut self, level: i32) -> Self {
        self.level = level;
        self
    }

    /// Takes no row that does not fit a checksum; those that can be read are in the side file.
    pub fn checked_only(mut self, yes: bool) -> Self {
        self.checked_only = yes;
        self
    }

    /// Takes rows of compressed blocks under a wrong checksum even where zstd unpacks all of it: values may be wrong then.
    pub fn keep_doubtful(mut self, yes: bool) -> Self {
        self.keeps_doubtful = yes;
        self
    }
}

/// What was saved of one space.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SavedSpace {
    /// Id of the space.
    pub id: u32,
    /// Name of the space.
    pub name: String,
    /// Tuples that were saved.
    pub tuples: u64,
    /// The definition was lost, and is guessed.
    pub is_guessed: bool,
}

/// What was saved, and what was not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SalvageReport {
    /// The snapshot that was taken; `None`: there was none to be read.
    pub snapshot: Option<PathBuf>,
    /// Logs whose rows were taken.
    pub logs: Vec<PathBuf>,
    /// Files that were left alone, and why.
    pub skipped_files: Vec<(PathBuf, String)>,
    /// Damaged stretches, file by file.
    pub losses: Vec<Loss>,
    /// Stretches beyond those that are described.
    pub more_losses: u64,
    /// Rows that were applied.
    pub rows: u64,
    /// Of those, rows that no checksum vouches for.
    pub unchecked_rows: u64,
    /// Rows that could be read and were not applied: they are in the side file.
    pub dropped_rows: u64,
    /// The side file, if there is any such row.
    pub side_file: Option<PathBuf>,
    /// Rows of spaces whose data is not in snapshots and logs alone, such as those of vinyl.
    pub foreign_rows: u64,
    /// User spaces, by id.
    pub spaces: Vec<SavedSpace>,
    /// What else there is to know.
    pub notices: Vec<String>,
    /// What was written; `None`: nothing was to be.
    pub written: Option<SnapshotReport>,
}

impl SalvageReport {
    /// Whether nothing is lost, as far as what is left shows, and a checksum vouches for every row.
    pub fn is_complete(&self) -> bool {
        self.dropped_rows == 0
            && self.unchecked_rows == 0
            && self.more_losses == 0
            && self.skipped_files.is_empty()
            && self.losses.iter().all(|loss| loss.repaired.is_some() || !loss.is_loss())
    }
}

/// Saves what can be saved of a damaged data folder, or of a lone file, into a fresh snapshot in a new or empty folder.
///
/// ```
/// let target = tempfile::tempdir().unwrap();
/// let options = lycosa::SalvageOptions::new();
/// let report = lycosa::salvage("snapshots/damaged/damaged-snap-bitflip-data", target.path(), &options)?;
/// // One bit was wrong, and the checksum tells which.
/// assert!(report.is_complete() && report.losses[0].repaired.is_some());
/// lycosa::Store::open(target.path())?;
/// # Ok::<(), lycosa::Error>(())
/// ```
///
/// # Errors
/// `Missing`: no file can be read at all. `Exists`: the target has files. `Memory`, `Io`.
pub fn salvage(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &SalvageOptions,
) -> Result<SalvageReport> {
    salvage_on(&RealDisk, source.as_ref(), target.as_ref(), options)
}

fn salvage_on(
    disk: &dyn Disk,
    source: &Path,
    target: &Path,
    options: &SalvageOptions,
) -> Result<SalvageReport> {
    ensure_folder(disk, target)?;
    let entries = disk.list(target).map_err(|error| Error::io(target, "cannot list", &error))?;
    if let Some(entry) = entries.first() {
        return Err(Error::new(ErrorKind::Exists, "target")
            .expected("a new or empty folder")
            .found(entry.name.to_string_lossy())
            .file(target));
    }
    let sources = Sources::find(disk, source, options)?;
    let mut known = Known::default();
    for _ in 0..RUNS_MAX {
        let mut side = NewFile::create(disk, &target.join(LOST))?;
        let mut drop = |dropped: &Dropped<'_>| side.append(dropped.to_json().as_bytes());
        let mut run = Run::new(disk, options, known, &mut drop);
        let store = run.run(&sources)?;
        if let Some(more) = run.again() {
            known = more;
            continue;
        }
        let mut report = run.finish(&store);
        let writing = SnapshotOptions::new().level(options.level).threads(options.threads).skips_absent();
        report.written = Some(store.read_view().write_snapshot_on(disk, target, &writing)?);
        if report.dropped_rows > 0 {
            side.finish()?;
            report.side_file = Some(target.join(LOST));
        }
        return Ok(report);
    }
    Err(Error::new(ErrorKind::Schema, "primary keys of spaces whose definitions are lost")
        .expected("first fields that tell all tuples apart")
        .found("none")
        .file(source))
}

impl Verdict {
    /// Adds every row that does not fit, where opening stops at the first: rows that cannot be applied, each for itself,
    /// by definitions, formats and unique keys.
    ///
    /// ```
    /// use lycosa::{SalvageOptions, Verdict};
    ///
    /// let mut verdict = Verdict::read("snapshots/damaged/damaged-snap-block-twice");
    /// verdict.examine("snapshots/damaged/damaged-snap-block-twice", &SalvageOptions::new())?;
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`salvage`], but for the target.
    pub fn examine(&mut self, path: impl AsRef<Path>, options: &SalvageOptions) -> Result<()> {
        let sources = Sources::find(&RealDisk, path.as_ref(), options)?;
        let mut drop = |dropped: &Dropped<'_>| {
            let At { block, byte, row, .. } = dropped.at;
            let place = Place {
                file: Some(dropped.file.to_path_buf()),
                block: Some(block),
                byte: Some(byte),
                row: Some(row),
                ..Place::default()
            };
            self.add_row(place, dropped.why);
            Ok(())
        };
        let has_rollbacks = true;
        let mut run = Run::new(&RealDisk, options, Known { has_rollbacks, ..Known::default() }, &mut drop);
        run.examines = true;
        let store = run.run(&sources)?;
        let report = run.finish(&store);
        let lost = report.losses.into_iter().filter(Loss::is_loss);
        lost.for_each(|loss| self.add_loss(loss.place.clone(), loss.reason.clone(), loss.cost()));
        Ok(())
    }
}

/// The files that there are.
#[derive(Default)]
struct Sources {
    /// By ascending number.
    snapshots: Vec<NamedFile>,
    logs: Vec<NamedFile>,
    /// Where the logs are; `None`: nobody knows of any.
    wal_dir: Option<PathBuf>,
    notices: Vec<String>,
}

impl Sources {
    fn find(disk: &dyn Disk, source: &Path, options: &SalvageOptions) -> Result<Self> {
        let what = disk.kind(source).map_err(|error| Error::io(source, "cannot open", &error))?;
        let mut found = Self::default();
        if what == PathKind::Folder {
            let folder = Folder::list(disk, source)?;
            (found.snapshots, found.logs, found.notices) = (folder.snapshots, folder.logs, folder.notices);
            found.wal_dir = Some(source.to_path_buf());
        } else {
            let name = source.file_stem().and_then(|stem| stem.to_str());
            let signature = name.and_then(|name| name.parse().ok()).unwrap_or(0);
            let file = NamedFile { signature, path: source.to_path_buf() };
            match source.extension().and_then(|extension| extension.to_str()) {
                Some("xlog") => found.logs.push(file),
                _ => found.snapshots.push(file),
            }
        }
        if let Some(wal_dir) = &options.wal_dir {
            let folder = Folder::list(disk, wal_dir)?;
            (found.logs, found.wal_dir) = (folder.logs, Some(wal_dir.clone()));
        }
        if found.snapshots.is_empty() && found.logs.is_empty() {
            return Err(Error::new(ErrorKind::Missing, "files to save")
                .expected("names of 20 digits and .snap or .xlog")
                .found("none")
                .file(source));
        }
        Ok(found)
    }
}
