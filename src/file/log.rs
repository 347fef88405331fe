//! Which logs a recovery reads after a snapshot, and whether they follow on one another.
//!
//! ```text
//! 100.snap                  VClock {1: 100}
//!  60.xlog                  VClock {1: 60}     the last one at or before the snapshot: its later rows are needed
//! 130.xlog  PrevVClock {1: 60}  {1: 130}       begins where the one before ends
//! 150.xlog  PrevVClock {1: 130} {1: 150}       the last: may be torn, empty, or not have got its header yet
//! ```
//!
//! Logs before those are not opened, nothing about them matters. Here only text headers are read; that the rows of a
//! log reach to where the next begins is seen when they are read (`transaction`).
//!
//! A fault in a header is told at once, unless replay is to stop somewhere: then it may well stop before the fault,
//! which is why anybody wants to, so the fault waits at its place in the chain.

use super::directory::{Folder, NamedFile, check_instance, header_notices, open_indexed, out_of_order};
use super::disk::{Disk, is_zero_from, read_full};
use super::header::{FileType, TextHeader};
use super::source::ContainerFile;
use super::stop::{Lookout, Stop};
use super::vclock::Vclock;
use crate::error::{Error, ErrorKind};
use crate::limits::TEXT_HEADER_BYTES_MAX;
use std::path::{Path, PathBuf};

/// A log whose header has been read and found good. It is opened again when its turn comes: there may be more logs than
/// a process may have open files.
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    pub(crate) header: TextHeader,
    /// Bytes of the file when it was looked at.
    pub(crate) bytes: u64,
}

impl LogFile {
    pub(super) fn new(file: &ContainerFile) -> Self {
        Self { path: file.path.clone(), header: file.header.clone(), bytes: file.bytes() }
    }

    pub(super) fn open(&self, disk: &dyn Disk) -> Result<ContainerFile, Error> {
        let file = ContainerFile::open_as(disk, &self.path, FileType::Xlog)?;
        if file.header == self.header {
            return Ok(file);
        }
        Err(Error::new(ErrorKind::Container, "text header")
            .expected(format_args!("what it was a moment ago, with the vclock {}", self.header.vclock))
            .found(format_args!("another, with {}", file.header.vclock))
            .file(&self.path))
    }
}

/// The logs that a recovery from a snapshot reads, in their order.
pub(crate) struct LogChain {
    pub(crate) files: Vec<LogFile>,
    /// The vclock of the snapshot: rows up to it are skipped.
    pub(crate) covered: Vclock,
    /// A last log that has no whole header, and so no rows: what a crash leaves of a log that was just begun.
    pub(super) unfinished: Option<NamedFile>,
    /// What is wrong behind the last of `files`.
    pub(super) fault: Option<Error>,
    pub(super) stop: Stop,
    pub(crate) notices: Vec<String>,
}

impl LogChain {
    /// A log alone, from its own beginning.
    pub(super) fn of(file: &ContainerFile) -> Self {
        let (covered, files) = (file.header.vclock, vec![LogFile::new(file)]);
        Self { files, covered, unfinished: None, fault: None, stop: Stop::default(), notices: Vec::new() }
    }

    /// Bytes of the logs together.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Finds the logs in `folder` that follow `snapshot`, up to the point where replay is to stop.
///
/// # Errors
/// A log that cannot be opened, was written by another instance, or does not follow on the one before by its header; a
/// snapshot that holds more than the state at the point asked for.
pub(crate) fn chain(
    disk: &dyn Disk,
    folder: &Path,
    snapshot: &ContainerFile,
    stop: &Stop,
) -> Result<LogChain, Error> {
    let covered = snapshot.header.vclock;
    let lookout = Lookout::new(stop, &covered)?;
    if lookout.is_before_vclock(&covered) {
        return Err(beyond_snapshot(&covered.to_string()).file(&snapshot.path));
    }
    let Folder { logs, notices, .. } = Folder::list(disk, folder)?;
    // What was left alone in the snapshot's own folder has been told when the snapshot was looked for.
    let notices = if snapshot.path.parent() == Some(folder) { Vec::new() } else { notices };
    let (files, stop) = (Vec::new(), stop.clone());
    let mut chain = LogChain { files, covered, unfinished: None, fault: None, stop, notices };
    let found = chain.find(disk, logs, snapshot, &lookout);
    match found {
        Err(error) if chain.stop.is_nowhere() => Err(error),
        found => {
            chain.fault = found.err();
            Ok(chain)
        }
    }
}

/// A snapshot that holds more than the state at the point where replay is to stop.
pub(super) fn beyond_snapshot(found: &str) -> Error {
    Error::new(ErrorKind::Usage, "the point to stop at")
        .expected("one that is not before the snapshot; an older snapshot may do")
        .found(format_args!("one before {found}"))
}

impl LogChain {
    fn find(
        &mut self,
        disk: &dyn Disk,
        mut logs: Vec<NamedFile>,
        snapshot: &ContainerFile,
        lookout: &Lookout,
    ) -> Result<(), Error> {
        if let Some(last) = logs.pop_if(|last| is_unfinished(disk, &last.path)) {
            self.notices.push(format!(
                "{}: the log has no whole text header, and so no rows: it had just been begun",
                last.path.display()
            ));
            self.unfinished = Some(last);
        }
        // From the last log that may begin at or before the snapshot back to one that does.
        let mut first = logs.partition_point(|log| log.signature <= self.covered.signature());
        while first > 0 {
            first -= 1;
            if open_log(disk, &logs[first], snapshot)?.header.vclock.is_covered_by(&self.covered) {
                break;
            }
        }
        for log in &logs[first..] {
            let file = open_log(disk, log, snapshot)?;
            self.check_order(&file, snapshot)?;
            self.notices.extend(header_notices(&file));
            self.files.push(LogFile::new(&file));
            // By its rows the log before leads beyond the point; this one shows how far.
            if lookout.is_before_vclock(&file.header.vclock) {
                break;
            }
        }
        Ok(())
    }

    /// Compares a log's header with the one before, or with the snapshot.
    fn check_order(&self, file: &ContainerFile, snapshot: &ContainerFile) -> Result<(), Error> {
        let (vclock, before) = (&file.header.vclock, file.header.prev_vclock);
        let missing = |from: &Vclock, begins: &str| {
            let error = Error::new(ErrorKind::Missing, "a log before this one").file(&file.path);
            let error = match before {
                Some(before) => {
                    error.expected(format_args!("{:020}.xlog, which begins at {before}", before.signature()))
                }
                None => error.expected(format_args!("one that begins at or before {from}")),
            };
            error.found(format_args!("{begins}, so that {} are in no log", lsns_between(from, vclock)))
        };
        match self.files.last() {
            None if vclock.is_covered_by(&self.covered) => Ok(()),
            None => Err(missing(&self.covered, &format!("none after {}", snapshot.path.display()))),
            Some(last) if !last.header.vclock.is_before(vclock) => {
                Err(out_of_order((&last.path, &last.header), (&file.path, &file.header)))
            }
            Some(last) if before.is_some_and(|before| before != last.header.vclock) => {
                Err(missing(&before.unwrap_or_default(), &last.path.display().to_string()))
            }
            Some(_) => Ok(()),
        }
    }
}

fn open_log(disk: &dyn Disk, log: &NamedFile, snapshot: &ContainerFile) -> Result<ContainerFile, Error> {
    let file = open_indexed(disk, log, FileType::Xlog)?;
    check_instance(&file, snapshot)?;
    Ok(file)
}

/// Whether a file is the beginning of a log's text header and nothing else, or zeros, or nothing.
fn is_unfinished(disk: &dyn Disk, path: &Path) -> bool {
    let look = || -> std::io::Result<bool> {
        let source = disk.open(path)?;
        let mut bytes = vec![0; source.len().min(TEXT_HEADER_BYTES_MAX as u64) as usize];
        let read = read_full(&*source, &mut bytes, 0)?;
        let text_bytes = bytes[..read].iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let text = &bytes[..text_bytes];
        let is_beginning = b"XLOG\n".starts_with(text) || text.starts_with(b"XLOG\n");
        // Were the empty line damaged, blocks would stand there.
        let is_text = text.iter().all(|&byte| byte == b'\n' || (b' '..=b'~').contains(&byte));
        Ok(is_beginning
            && is_text
            && TextHeader::parse(text).is_err_and(|error| error.kind() == ErrorKind::Truncated)
            && (text_bytes as u64 == source.len() || is_zero_from(&*source, text_bytes as u64)?))
    };
    // Whatever the disk has to say about it, it says again when the file is opened as a log.
    look().unwrap_or(false)
}

/// The LSNs that lead from one vclock to another, in words.
pub(super) fn lsns_between(from: &Vclock, to: &Vclock) -> String {
    let between = to.iter().filter(|&(id, last)| last > from.get(id)).map(|(id, last)| {
        let of = if id == 0 { "local spaces".into() } else { format!("replica {id}") };
        match from.get(id) + 1 {
            first if first == last => format!("LSN {last} of {of}"),
            first => format!("LSNs {first} to {last} of {of}"),
        }
    });
    let between: Vec<String> = between.collect();
    if between.is_empty() { "rows".into() } else { between.join(" and ") }
}
