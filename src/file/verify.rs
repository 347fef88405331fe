//! All that is wrong with a file, or with the files of a folder: not the first fault alone, for whoever has to decide what
//! to do about a damaged file wants to know how much of it is left.
//!
//! ```text
//! heads     from block to block; where none begins, on at the next whole one (`heads`)
//! blocks    in many threads: checksum, unpacking, every row in its shape
//! numbers   a snapshot's rows are numbered from 0; what is missing is what a damaged block costs
//! logs      as transactions (`transaction`): LSNs, first and last rows; each log alone, and all after the newest snapshot
//! ```
//!
//! Nothing is known of schemas here: whether tuples fit their formats, and keys are unique, opening a store tells.

use super::block::{self, BlockHead};
use super::directory::{Folder, header_notices, open_indexed};
use super::disk::{Disk, PathKind, RealDisk};
use super::header::FileType;
use super::heads::{End, Gap, Survey, survey};
use super::log::{self, LogChain};
use super::pipeline::{BlockLoader, in_order};
use super::rewind::snapshot_up_to;
use super::row::Rows;
use super::source::ContainerFile;
use super::stop::Stop;
use super::transaction::for_each_transaction;
use crate::error::{Error, ErrorKind, Place};
use crate::limits::{BLOCK_HEAD_BYTES, BLOCK_UNPACKED_BYTES_MAX};
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

/// Findings of a file that are kept; further ones are counted. Every byte of a hostile file could be one.
const FINDINGS_MAX: usize = 1000;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Unusual but harmless, or what a crash leaves at the end of a log.
    Notice,
    /// Something is lost, or stops the file from being opened.
    Fault,
}

/// Something about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where it is.
    pub place: Place,
    /// A sentence, place and all.
    pub text: String,
    /// What it costs, where that is known.
    pub cost: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.cost.iter().try_for_each(|cost| write!(f, "; costs {cost}"))
    }
}

/// What was seen of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileVerdict {
    /// The file.
    pub path: PathBuf,
    /// What it is, as far as its header can be read.
    pub filetype: Option<FileType>,
    /// Its bytes.
    pub bytes: u64,
    /// Whole blocks.
    pub blocks: u64,
    /// Rows of whole blocks.
    pub rows: u64,
}

/// What was found in a file, or in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// The files that were read.
    pub files: Vec<FileVerdict>,
    /// What was found, file by file.
    pub findings: Vec<Finding>,
    /// Notices beyond those that are kept.
    pub more_notices: u64,
    /// Faults beyond those that are kept.
    pub more_faults: u64,
}

impl Verdict {
    /// Reads a file of the container, or all snapshots and logs of a folder, to the last byte.
    ///
    /// ```
    /// let verdict = lycosa::Verdict::read("snapshots/damaged/damaged-snap-bitflip-data");
    /// assert_eq!(verdict.faults(), 1);
    /// let fault = verdict.findings[0].to_string();
    /// assert!(fault.contains("; costs rows 599 to 714 (116)"), "{fault}");
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::read_on(&RealDisk, path.as_ref(), threads)
    }

    /// The same with a number of threads.
    pub fn read_with(path: impl AsRef<Path>, threads: usize) -> Self {
        Self::read_on(&RealDisk, path.as_ref(), threads.max(1))
    }

    /// Number of faults.
    pub fn faults(&self) -> u64 {
        let faults = self.findings.iter().filter(|finding| finding.severity == Severity::Fault).count();
        faults as u64 + self.more_faults
    }

    /// Adds what opening the whole as a store said: an error is a fault, unless it is known already.
    pub fn add_opening(&mut self, opened: Result<&[String], &Error>) {
        match opened {
            Ok(notices) => notices.iter().for_each(|notice| self.notice(Place::default(), notice.clone())),
            Err(error) => self.fault(error.clone()),
        }
    }

    /// Adds a row that cannot be applied.
    pub(crate) fn add_row(&mut self, place: Place, why: &str) {
        let text = format!("{place}: the row does not fit: {why}");
        self.push(Severity::Fault, place, text);
    }

    /// Adds a loss, unless a fault of the same block tells of it.
    pub(crate) fn add_loss(&mut self, place: Place, text: String, cost: Option<String>) {
        let is_known = |other: &Finding| {
            other.severity == Severity::Fault
                && other.place.file == place.file
                && (other.place.block, other.place.byte) == (place.block, place.byte)
        };
        if !self.findings.iter().any(is_known) {
            self.push(Severity::Fault, place, text);
            self.findings.last_mut().into_iter().for_each(|finding| finding.cost = cost.clone());
        }
    }

    fn read_on(disk: &dyn Disk, path: &Path, threads: usize) -> Self {
        let mut verdict = Self::default();
        if let Ok(PathKind::Folder) = disk.kind(path) {
            verdict.folder(disk, path, threads);
        } else {
            verdict.file(disk, path, threads);
        }
        verdict
    }

    fn push(&mut self, severity: Severity, place: Place, text: String) {
        if self.findings.iter().any(|other| other.text == text) {
            return;
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding { severity, place, text, cost: None });
        } else {
            let more = match severity {
                Severity::Notice => &mut self.more_notices,
                Severity::Fault => &mut self.more_faults,
            };
            *more += 1;
        }
    }

    fn notice(&mut self, place: Place, text: String) {
        self.push(Severity::Notice, place, text);
    }

    /// A fault; one at the same place, of which this is the other side, is enough.
    fn fault(&mut self, error: Error) {
        let place = error.place();
        let is_known = |other: &Finding| {
            other.severity == Severity::Fault
                && other.place.file == place.file
                && (other.place.block, other.place.byte) == (place.block, place.byte)
        };
        if place.file.is_none() || !self.findings.iter().any(is_known) {
            self.push(Severity::Fault, place.clone(), error.to_string());
        }
    }

    fn folder(&mut self, disk: &dyn Disk, path: &Path, threads: usize) {
        let folder = match Folder::list(disk, path) {
            Ok(folder) => folder,
            Err(error) => return self.fault(error),
        };
        folder.notices.iter().for_each(|notice| self.notice(Place::default(), notice.clone()));
        let snapshots = folder.snapshots.iter().map(|named| (named, FileType::Snap));
        let logs = folder.logs.iter().map(|named| (named, FileType::Xlog));
        let newest_log = folder.logs.last().map(|log| log.path.clone());
        for (named, filetype) in snapshots.chain(logs) {
            // A log that was just begun may not have got its header.
            let is_last = Some(&named.path) == newest_log.as_ref();
            match open_indexed(disk, named, filetype) {
                Err(error) if is_last && error.kind() == ErrorKind::Truncated => {
                    self.notice(
                        error.place().clone(),
                        format!("{error}: a log that has only just been begun"),
                    );
                }
                Err(error) => self.fault(error),
                Ok(_) => self.file(disk, &named.path, threads),
            }
        }
        // Whether they follow on one another.
        let outcome = snapshot_up_to(disk, path, None, &Stop::default()).and_then(|snapshot| {
            let chain = log::chain(disk, path, &snapshot.file, &Stop::default())?;
            let end = for_each_transaction(disk, &chain, threads, BLOCK_UNPACKED_BYTES_MAX, |_| Ok(()))?;
            Ok([snapshot.notices, chain.notices, end.notices].concat())
        });
        match outcome {
            Err(error) => self.fault(error),
            Ok(notices) => notices.into_iter().for_each(|notice| self.notice(Place::default(), notice)),
        }
    }

    fn file(&mut self, disk: &dyn Disk, path: &Path, threads: usize) {
        let file = match ContainerFile::open(disk, path) {
            Ok(file) => file,
            Err(error) => {
                self.files.push(FileVerdict {
                    path: path.into(),
                    filetype: None,
                    bytes: 0,
                    blocks: 0,
                    rows: 0,
                });
                return self.fault(error);
            }
        };
        let (filetype, bytes) = (Some(file.header.filetype), file.bytes());
        header_notices(&file).into_iter().for_each(|notice| self.notice(Place::default(), notice));
        let heads = self.heads(&file);
        let (blocks, rows) = self.blocks(&file, &heads, threads);
        self.files.push(FileVerdict { path: path.into(), filetype, bytes, blocks, rows });
        if file.header.filetype == FileType::Xlog {
            let chain = LogChain::of(&file);
            match for_each_transaction(disk, &chain, threads, BLOCK_UNPACKED_BYTES_MAX, |_| Ok(())) {
                Err(error) => self.fault(error),
                Ok(end) => end.notices.into_iter().for_each(|notice| self.notice(Place::default(), notice)),
            }
        }
    }

    /// All blocks that begin where one should, or are whole.
    fn heads(&mut self, file: &ContainerFile) -> Vec<BlockHead> {
        let Survey { heads, gaps, end } = match survey(file, FINDINGS_MAX) {
            Ok(survey) => survey,
            Err(error) => {
                self.fault(error);
                return Vec::new();
            }
        };
        for Gap { bytes, error, .. } in gaps {
            self.fault(error);
            self.cost(format!("bytes {} to {}", bytes.start, bytes.end.saturating_sub(1).max(bytes.start)));
        }
        if let Some(End::Open { byte, torn_bytes: 0 }) = end {
            let place = Place { file: Some(file.path.clone()), byte: Some(byte), ..Place::default() };
            self.notice(place.clone(), format!("{place}: the log is open: it has no end marker"));
        }
        heads
    }

    /// The last finding costs this.
    fn cost(&mut self, cost: String) {
        if let Some(finding) = self.findings.last_mut() {
            finding.cost = Some(cost);
        }
    }

    /// Every block; gives how many are whole, and their rows.
    fn blocks(&mut self, file: &ContainerFile, heads: &[BlockHead], threads: usize) -> (u64, u64) {
        let mut jobs = heads.iter();
        let (mut blocks, mut rows) = (0, 0);
        let (mut odd_heads, mut first_odd) = (0u64, None::<BlockHead>);
        let is_compared = file.header.filetype == FileType::Snap;
        let mut numbers = Numbers { is_compared, next: 0, byte: file.blocks_at(), space_id: None };
        let outcome = in_order(
            if threads == 1 { 0 } else { threads },
            || jobs.next(),
            || BlockLoader::new(file, usize::MAX),
            |loader, head| {
                let is_odd = is_odd_head(file, head);
                (head, is_odd, loader.load(head).map(|payload| Block::of(payload, file.header.filetype)))
            },
            |(head, is_odd, block)| {
                if is_odd {
                    odd_heads += 1;
                    first_odd.get_or_insert(*head);
                }
                let block = match block {
                    Err(error) => {
                        self.fault(error);
                        return Ok(ControlFlow::Continue(()));
                    }
                    Ok(block) => block,
                };
                self.numbers(&mut numbers, file, head, &block);
                rows += block.rows;
                match block.fault {
                    None => blocks += 1,
                    Some(error) => {
                        self.fault(file.place(error.block(head.index, head.byte)));
                    }
                }
                Ok(ControlFlow::Continue(()))
            },
        );
        if let Some(head) = first_odd {
            let (file, block, byte) = (Some(file.path.clone()), Some(head.index), Some(head.byte));
            let place = Place { file, block, byte, ..Place::default() };
            let more = if odd_heads > 1 {
                format!(", and {} more such heads", odd_heads - 1)
            } else {
                String::new()
            };
            let text = format!(
                "{place}: widths, unused number or padding of the head are not those of Tarantool{more}"
            );
            self.notice(place, text);
        }
        if let Err(error) = outcome {
            self.fault(error);
        }
        (blocks, rows)
    }

    /// Compares the numbers of a block's rows with those before.
    fn numbers(&mut self, numbers: &mut Numbers, file: &ContainerFile, head: &BlockHead, block: &Block) {
        if block.rows == 0 {
            return;
        }
        let Some(first) = block.first.filter(|_| numbers.is_compared) else {
            // Nobody can tell any more.
            numbers.is_compared = false;
            return;
        };
        if first != numbers.next {
            let lost = numbers.lost(first, block);
            let between = numbers.byte..head.byte;
            let known = self.findings.iter_mut().rfind(|finding| finding.is_fault_in(file, &between));
            if let (Some(finding), true) = (known, lost.is_some()) {
                finding.cost = lost;
            } else {
                let what = if lost.is_some() {
                    "rows are missing before this block"
                } else {
                    "rows are there twice"
                };
                let error = Error::new(ErrorKind::RowNumber, what)
                    .expected(format_args!("row number {}", numbers.next))
                    .found(first)
                    .block(head.index, head.byte);
                self.fault(file.place(error));
                lost.into_iter().for_each(|lost| self.cost(lost));
            }
        }
        *numbers = Numbers {
            is_compared: true,
            next: first.saturating_add(block.rows),
            byte: head.byte,
            space_id: block.spaces.map(|ids| ids.1),
        };
    }
}

impl Finding {
    /// Whether it is a fault of the file in this range of bytes.
    fn is_fault_in(&self, file: &ContainerFile, bytes: &Range<u64>) -> bool {
        self.severity == Severity::Fault
            && self.place.file.as_ref() == Some(&file.path)
            && self.place.byte.is_some_and(|byte| bytes.contains(&byte))
    }
}

/// How far the rows of a snapshot have been counted.
struct Numbers {
    /// Rows have numbers to be compared.
    is_compared: bool,
    next: u64,
    /// Of the last whole block.
    byte: u64,
    /// Of its last row.
    space_id: Option<u32>,
}

impl Numbers {
    /// The rows that are missing before a block whose first row has the number `first`.
    fn lost(&self, first: u64, block: &Block) -> Option<String> {
        let count = first.checked_sub(self.next).filter(|&count| count > 0)?;
        let spaces = match (self.space_id, block.spaces.map(|ids| ids.0)) {
            (Some(before), Some(after)) if before == after => format!(" of space {before}"),
            (Some(before), Some(after)) => format!(" of spaces from {before} to {after}"),
            _ => String::new(),
        };
        Some(format!("rows {} to {} ({count}){spaces}", self.next, first - 1))
    }
}

/// What one block holds.
struct Block {
    rows: u64,
    /// Number of its first row, if all its rows are numbered one after the other.
    first: Option<u64>,
    /// Of its first and its last row that name one.
    spaces: Option<(u32, u32)>,
    fault: Option<Error>,
}

impl Block {
    fn of(payload: &[u8], filetype: FileType) -> Self {
        let mut block = Self { rows: 0, first: None, spaces: None, fault: None };
        for row in Rows::new(payload, filetype) {
            match row {
                Err(error) => {
                    block.fault = Some(error);
                    break;
                }
                Ok(row) => {
                    let number = row.head.lsn.unwrap_or(0);
                    if block.rows == 0 {
                        block.first = Some(number);
                    } else if block.first.and_then(|first| first.checked_add(block.rows)) != Some(number) {
                        block.first = None;
                    }
                    block.rows += 1;
                    if let Some(id) = row.body.and_then(|body| body.space_id) {
                        block.spaces = Some((block.spaces.map_or(id, |ids| ids.0), id));
                    }
                }
            }
        }
        block
    }
}

/// Whether a head is not as writers write it, in what nobody looks at.
fn is_odd_head(file: &ContainerFile, head: &BlockHead) -> bool {
    let mut found = [0; BLOCK_HEAD_BYTES];
    let magic = if head.compressed { block::MAGIC_ZSTD } else { block::MAGIC_PLAIN };
    file.read_exact_at(&mut found, head.byte).is_ok()
        && found != block::head(magic, head.stored_bytes, head.crc)
}
