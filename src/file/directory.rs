//! A data folder: which of its files is the newest snapshot, and whether logs hold more than it does.
//!
//! ```text
//! 00000000000000000054.snap       20 digits: the sum of the vclock in the file's header
//! 00000000000000000054.xlog       a log that begins where that snapshot ends
//! ....snap.inprogress             being written, or left over from a crash: never read
//! ....xlog.corrupted              set aside by Tarantool: never read
//! ```
//!
//! What a name ends in is what follows its *first* dot. Names that Tarantool would skip, or stumble over, are
//! left alone here as well, and told as notices.

use super::block::BlockHead;
use super::disk::{Disk, Entry, PathKind};
use super::header::{FileType, TextHeader};
use super::heads::End;
use super::reader::BlockReader;
use super::row::{Row, kind, kind_text};
use super::source::ContainerFile;
use super::stop::Stop;
use super::vclock::Vclock;
use crate::error::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// A file by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedFile {
    /// The number that the name is.
    pub(crate) signature: u64,
    pub(crate) path: PathBuf,
}

/// The files of a folder that matter, by ascending number.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) snapshots: Vec<NamedFile>,
    pub(crate) logs: Vec<NamedFile>,
    /// What was left alone and why, a sentence each.
    pub(crate) notices: Vec<String>,
}

impl Folder {
    pub(crate) fn list(disk: &dyn Disk, path: &Path) -> Result<Self, Error> {
        let mut entries = disk.list(path).map_err(|error| Error::io(path, "cannot list", &error))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut folder = Self::default();
        for entry in &entries {
            folder.add(path, entry);
        }
        Ok(folder)
    }

    fn add(&mut self, path: &Path, entry: &Entry) {
        // Names that are no text have no dot and digits that we would know.
        let Some(name) = entry.name.to_str() else { return };
        let Some((stem, extension)) = name.split_once('.') else { return };
        let mut notice = |why: &str| self.notices.push(format!("{}: {why}", path.join(name).display()));
        let last = extension.rsplit('.').next().unwrap_or(extension);
        let files = match extension {
            "snap" => &mut self.snapshots,
            "xlog" => &mut self.logs,
            _ => {
                match last {
                    "inprogress" => notice("left alone: a file that was never finished"),
                    "corrupted" => notice("left alone: set aside by Tarantool as damaged"),
                    "snap" | "xlog" => notice("left alone: not a name of 20 digits"),
                    _ => {}
                }
                return;
            }
        };
        match number(stem) {
            None => notice("left alone: not a name of 20 digits"),
            Some(_) if entry.kind != PathKind::File => notice("left alone: not a regular file"),
            Some(signature) => files.push(NamedFile { signature, path: path.join(name) }),
        }
    }
}

/// The number that a canonical name is.
fn number(stem: &str) -> Option<u64> {
    let digits = stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit());
    if digits { stem.parse().ok() } else { None }
}

/// A snapshot that was found, its header read and checked.
pub(crate) struct Snapshot {
    pub(crate) file: ContainerFile,
    /// The folder that it was found in; none if the file itself was given.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) notices: Vec<String>,
}

/// The newest snapshot of a folder from which `stop` can be reached; or, if `path` is a file, that one.
pub(crate) fn newest_snapshot(disk: &dyn Disk, path: &Path, stop: &Stop) -> Result<Snapshot, Error> {
    let kind = disk.kind(path).map_err(|error| Error::io(path, "cannot open", &error))?;
    if kind != PathKind::Folder {
        let file = ContainerFile::open_as(disk, path, FileType::Snap)?;
        // A copy may have any name; one that is a number must be the right one.
        let named = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split_once('.'));
        if let Some(signature) = named.filter(|name| name.1 == "snap").and_then(|name| number(name.0)) {
            check_signature(&file, signature)?;
        }
        let notices = header_notices(&file);
        return Ok(Snapshot { file, folder: None, notices });
    }
    let Folder { snapshots, mut notices, .. } = Folder::list(disk, path)?;
    let Some((mut newest, mut older)) = snapshots.split_last() else {
        return Err(Error::new(ErrorKind::Missing, "snapshot")
            .expected("a file with a name of 20 digits and .snap")
            .found(match notices.first() {
                None => "none in the folder".into(),
                Some(notice) => format!("none in the folder ({notice})"),
            })
            .file(path));
    };
    let mut file = open_indexed(disk, newest, FileType::Snap)?;
    while !stop.is_nowhere() && !stop.is_reached_from(&file)? {
        let Some(before) = older.split_last() else {
            return Err(Error::new(ErrorKind::Missing, "snapshot")
                .expected("one at or before the point to stop at")
                .found(format_args!("the oldest at {}", file.header.vclock))
                .file(&newest.path));
        };
        (newest, older) = before;
        file = open_indexed(disk, newest, FileType::Snap)?;
    }
    for older in older {
        // An older one is read for its vclock alone; that it cannot be read does not make the newest less
        // new.
        match open_indexed(disk, older, FileType::Snap) {
            Ok(older) if older.header.vclock.is_before(&file.header.vclock) => {}
            Ok(older) => {
                return Err(out_of_order((&older.path, &older.header), (&file.path, &file.header)));
            }
            Err(error) => notices.push(format!("an older snapshot is not whole: {error}")),
        }
    }
    notices.extend(header_notices(&file));
    Ok(Snapshot { file, folder: Some(path.to_path_buf()), notices })
}

/// Lines of a text header that nobody knows.
pub(super) fn header_notices(file: &ContainerFile) -> Vec<String> {
    let lines = file.header.unknown.iter();
    lines
        .map(|(key, value)| {
            format!(
                "{}: unknown key in the text header: {key:?} with the value {value:?}",
                file.path.display()
            )
        })
        .collect()
}

/// Opens a file of a folder and compares it with its name.
pub(super) fn open_indexed(
    disk: &dyn Disk,
    named: &NamedFile,
    filetype: FileType,
) -> Result<ContainerFile, Error> {
    let file = ContainerFile::open_as(disk, &named.path, filetype)?;
    check_signature(&file, named.signature)?;
    Ok(file)
}

fn check_signature(file: &ContainerFile, signature: u64) -> Result<(), Error> {
    let sum = file.header.vclock.signature();
    if sum == signature {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Container, "the sum of the vclock")
        .expected(format_args!("{signature}, as the name says"))
        .found(format_args!("{sum}, of {}", file.header.vclock))
        .file(&file.path))
}

pub(super) fn out_of_order(older: (&Path, &TextHeader), newer: (&Path, &TextHeader)) -> Error {
    Error::new(ErrorKind::Container, "order of vclocks")
        .expected(format_args!("one before that of {}, {}", newer.0.display(), newer.1.vclock))
        .found(older.1.vclock)
        .file(older.0)
}

/// The first row of the logs that the snapshot does not hold and that changes data.
#[derive(Debug, Clone)]
pub(crate) struct NewerRow {
    pub(crate) file: PathBuf,
    /// Block, its byte and the row in it; none where the log that should hold the row is missing.
    pub(crate) place: Option<(u64, u64, u64)>,
    /// The request type.
    pub(crate) kind: u64,
    pub(crate) lsn: u64,
    /// The replica that wrote it; 0: a row of a local space.
    pub(crate) replica_id: u32,
    /// Where the log begins, if rows between the snapshot and it are missing.
    pub(crate) gap_to: Option<Vclock>,
}

impl NewerRow {
    /// The refusal to open a snapshot alone that has such a row after it.
    pub(crate) fn into_error(self, snapshot: &ContainerFile) -> Error {
        let error = Error::new(ErrorKind::NewerLogs, "logs newer than the snapshot").expected(format_args!(
            "nothing after {}, vclock {}",
            snapshot.path.display(),
            snapshot.header.vclock
        ));
        let error = match (&self.gap_to, self.place) {
            (Some(vclock), _) => error.found(format_args!("a log that begins at {vclock}")),
            (None, _) => error.found(format_args!(
                "{} with LSN {} of replica {}",
                kind_text(self.kind),
                self.lsn,
                self.replica_id
            )),
        };
        match self.place {
            Some((block, byte, row)) => error.file(&self.file).block(block, byte).row(row),
            None => error.file(&self.file),
        }
    }
}

/// What the logs hold beyond a snapshot.
#[derive(Debug, Default)]
pub(crate) struct LogsAfter {
    /// The first row that changes data; the logs are not read further than to it.
    pub(crate) newer: Option<NewerRow>,
    /// Rows beyond the snapshot that change no data: NOP and those of RAFT and of synchronous replication.
    pub(crate) idle_rows: u64,
    pub(crate) notices: Vec<String>,
}

/// Reads the logs in `folder` that a recovery from `snapshot` would read: from the last one that begins at or
/// before the snapshot's vclock on. Older ones are not opened, so nothing about them matters.
///
/// # Errors
/// A log that cannot be read or is damaged, was written by another instance, or does not follow on the one
/// before; a torn tail is no error at the end of the last log, nor where the next log goes on from the same
/// vclock.
pub(crate) fn logs_after(
    disk: &dyn Disk,
    folder: &Path,
    snapshot: &ContainerFile,
) -> Result<LogsAfter, Error> {
    let Folder { logs, notices, .. } = Folder::list(disk, folder)?;
    let mut after = LogsAfter::default();
    // What was left alone in the snapshot's own folder has been told when the snapshot was looked for.
    if snapshot.path.parent() != Some(folder) {
        after.notices = notices;
    }
    let covered = snapshot.header.vclock;
    let mut files: Vec<ContainerFile> = Vec::new();
    for log in logs.iter().rev() {
        let file = open_indexed(disk, log, FileType::Xlog)?;
        check_instance(&file, snapshot)?;
        if let Some(next) = files.last().filter(|next| !file.header.vclock.is_before(&next.header.vclock)) {
            return Err(out_of_order((&file.path, &file.header), (&next.path, &next.header)));
        }
        let begins_before = file.header.vclock.is_covered_by(&covered);
        files.push(file);
        if begins_before {
            break;
        }
    }
    files.reverse();
    if let Some(first) = files.first().filter(|first| !first.header.vclock.is_covered_by(&covered)) {
        after.newer = Some(NewerRow {
            file: first.path.clone(),
            place: None,
            kind: 0,
            lsn: first.header.vclock.signature(),
            replica_id: 0,
            gap_to: Some(first.header.vclock),
        });
        return Ok(after);
    }
    for (place, file) in files.iter().enumerate() {
        after.notices.extend(header_notices(file));
        let end = after.read(file, &covered)?;
        if after.newer.is_some() {
            break;
        }
        after.check_end(file, end, files.get(place + 1))?;
    }
    Ok(after)
}

pub(super) fn check_instance(log: &ContainerFile, snapshot: &ContainerFile) -> Result<(), Error> {
    let (Some(expected), found) = (&snapshot.header.instance, &log.header.instance) else { return Ok(()) };
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Container, "instance")
        .expected(format_args!("{expected}, as in {}", snapshot.path.display()))
        .found(found.as_deref().unwrap_or("none"))
        .file(&log.path))
}

impl LogsAfter {
    /// Reads one log, up to its first row beyond `covered` that changes data. Gives where the log ends: its
    /// last vclock and how.
    fn read(&mut self, file: &ContainerFile, covered: &Vclock) -> Result<(Vclock, Option<End>), Error> {
        let mut vclock = file.header.vclock;
        let mut reader = BlockReader::new(file, usize::MAX);
        while let Some((head, rows)) = reader.next()? {
            for (number, row) in (0..).zip(rows) {
                let row = row.map_err(|error| file.place(error.block(head.index, head.byte)))?;
                self.take(file, &head, number, &row, covered);
                if self.newer.is_some() {
                    return Ok((vclock, None));
                }
                vclock.raise(row.head.replica_id, row.head.lsn.unwrap_or(0));
            }
        }
        Ok((vclock, reader.end()))
    }

    fn take(
        &mut self,
        file: &ContainerFile,
        block: &BlockHead,
        number: u64,
        row: &Row<'_>,
        covered: &Vclock,
    ) {
        let lsn = row.head.lsn.unwrap_or(0);
        let replica_id = row.head.replica_id;
        if lsn <= covered.get(replica_id) {
            return;
        }
        if changes_no_data(row.head.kind) {
            self.idle_rows += 1;
            return;
        }
        self.newer = Some(NewerRow {
            file: file.path.clone(),
            place: Some((block.index, block.byte, number)),
            kind: row.head.kind,
            lsn,
            replica_id,
            gap_to: None,
        });
    }

    /// A torn tail is a crash's trace only if nothing went lost behind it.
    fn check_end(
        &mut self,
        file: &ContainerFile,
        (vclock, end): (Vclock, Option<End>),
        next: Option<&ContainerFile>,
    ) -> Result<(), Error> {
        let Some(End::Open { byte, torn_bytes }) =
            end.filter(|end| !matches!(end, End::Open { torn_bytes: 0, .. }))
        else {
            return Ok(());
        };
        if let Some(next) = next.filter(|next| next.header.vclock != vclock) {
            return Err(Error::new(ErrorKind::Truncated, "log cut short before others")
                .expected(format_args!(
                    "rows up to {}, where {} begins",
                    next.header.vclock,
                    next.path.display()
                ))
                .found(format_args!("rows up to {vclock}, then {torn_bytes} bytes of a block"))
                .file(&file.path)
                .byte(byte));
        }
        self.notices.push(format!(
            "{}, byte {byte}: the log ends in {torn_bytes} bytes of a block that was never finished",
            file.path.display()
        ));
        Ok(())
    }
}

fn changes_no_data(row_kind: u64) -> bool {
    matches!(
        row_kind,
        kind::NOP
            | kind::RAFT
            | kind::RAFT_PROMOTE
            | kind::RAFT_DEMOTE
            | kind::RAFT_CONFIRM
            | kind::RAFT_ROLLBACK
    )
}

#[cfg(test)]
mod tests {
    use super::super::block::{MAGIC_END, build};
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;

    const A: &str = "78e0015e-511c-44a5-88b2-181e67295f91";
    const B: &str = "88e0015e-511c-44a5-88b2-181e67295f91";

    fn header(filetype: &str, instance: &str, vclock: &str) -> Vec<u8> {
        format!("{filetype}\n0.13\nInstance: {instance}\nVClock: {vclock}\n\n").into_bytes()
    }

    fn snap(vclock: &str) -> Vec<u8> {
        [header("SNAP", A, vclock), MAGIC_END.to_vec()].concat()
    }

    /// A block of a log: one row of replica 1.
    fn row(kind: u8, lsn: u8) -> Vec<u8> {
        let mut row = vec![0x83, 0x00, kind, 0x02, 0x01, 0x03, lsn];
        match u64::from(kind) {
            kind::NOP => {}
            kind::INSERT => row.extend([0x82, 0x10, 0xcd, 0x02, 0x00, 0x21, 0x90]),
            _ => row.push(0x80),
        }
        build::plain(&row)
    }

    fn log(vclock: &str, blocks: &[Vec<u8>]) -> Vec<u8> {
        [header("XLOG", A, vclock), blocks.concat(), MAGIC_END.to_vec()].concat()
    }

    fn name(number: u64, extension: &str) -> String {
        format!("d/{number:020}.{extension}")
    }

    fn disk(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
        let mut disk = SimulatedDisk::default();
        files.iter().for_each(|(name, bytes)| disk.add(name, bytes.clone()));
        disk
    }

    fn newest(disk: &SimulatedDisk) -> Result<(u64, Vec<String>), Error> {
        let snapshot = newest_snapshot(disk, Path::new("d"), &Stop::default())?;
        Ok((snapshot.file.header.vclock.signature(), snapshot.notices))
    }

    fn after(disk: &SimulatedDisk) -> Result<LogsAfter, Error> {
        let snapshot = newest_snapshot(disk, Path::new("d"), &Stop::default())?;
        logs_after(disk, Path::new("d"), &snapshot.file)
    }

    #[test]
    fn the_newest_snapshot_is_found_among_files_that_do_not_count() {
        let mut files = vec![
            (name(0, "snap"), snap("{}")),
            (name(7, "snap"), snap("{1: 5, 2: 2}")),
            (name(3, "snap"), snap("{1: 3}")),
            (name(9, "xlog"), log("{1: 9}", &[])),
            (name(9, "snap.inprogress"), snap("{1: 9}")),
            (name(9, "xlog.corrupted"), vec![]),
            ("d/9.snap".into(), snap("{1: 9}")),
            ("d/x.snap".into(), snap("{1: 9}")),
            ("d/00000000000000000099.copy.snap".into(), snap("{1: 99}")),
            ("d/tarantool.log".into(), vec![]),
            (name(98, "snap") + "/inside", vec![]),
        ];
        let (signature, notices) = newest(&disk(&files)).unwrap();
        assert_eq!(signature, 7);
        assert_eq!(notices.len(), 6, "{notices:#?}");
        files.retain(|(name, _)| {
            !name.ends_with("0000.snap") && !name.ends_with("7.snap") && !name.ends_with("3.snap")
        });
        let error = newest(&disk(&files)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Missing);
        let error = newest_snapshot(&disk(&files), Path::new("elsewhere"), &Stop::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Missing);
        assert!(error.to_string().starts_with("elsewhere: "));
    }

    #[test]
    fn a_name_that_is_not_the_sum_of_the_vclock_is_refused() {
        let error = newest(&disk(&[(name(7, "snap"), snap("{1: 5}"))])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "d/00000000000000000007.snap: the sum of the vclock: expected 7, as the name says, \
             found 5, of {1: 5}"
        );
        let lone = |path: &str| {
            newest_snapshot(&disk(&[(path.into(), snap("{1: 5}"))]), Path::new(path), &Stop::default())
        };
        assert!(lone("d/00000000000000000007.snap").is_err());
        assert!(lone("d/00000000000000000005.snap").is_ok());
        assert!(lone("d/monday.snap").is_ok());
        assert!(lone("d/7.snap").is_ok());
    }

    #[test]
    fn snapshots_that_have_no_order_are_refused_and_a_broken_older_one_is_told() {
        let files = [(name(7, "snap"), snap("{1: 7}")), (name(3, "snap"), snap("{2: 3}"))];
        assert_eq!(newest(&disk(&files)).unwrap_err().what(), "order of vclocks");
        let (signature, notices) =
            newest(&disk(&[(name(7, "snap"), snap("{1: 7}")), (name(3, "snap"), vec![])])).unwrap();
        assert_eq!((signature, notices.len()), (7, 1));
        let files = [(name(7, "snap"), vec![]), (name(3, "snap"), snap("{1: 3}"))];
        assert_eq!(newest(&disk(&files)).unwrap_err().kind(), ErrorKind::Truncated);
    }

    #[test]
    fn rows_that_the_snapshot_holds_are_not_newer() {
        let files = [
            (name(5, "snap"), snap("{1: 5}")),
            (name(0, "xlog"), b"not looked at".to_vec()),
            (name(2, "xlog"), log("{1: 2}", &[row(2, 3), row(2, 4), row(2, 5)])),
        ];
        let found = after(&disk(&files)).unwrap();
        assert!(found.newer.is_none() && found.idle_rows == 0 && found.notices.is_empty());
    }

    #[test]
    fn the_first_newer_row_is_named() {
        let mut files = vec![
            (name(5, "snap"), snap("{1: 5}")),
            (name(2, "xlog"), log("{1: 2}", &[row(2, 3), row(2, 4), row(2, 5), row(2, 6), row(2, 7)])),
            (name(7, "xlog"), log("{1: 7}", &[])),
        ];
        let disk_ = disk(&files);
        let newer = after(&disk_).unwrap().newer.unwrap();
        let snapshot = newest_snapshot(&disk_, Path::new("d"), &Stop::default()).unwrap();
        assert_eq!(
            newer.into_error(&snapshot.file).to_string(),
            "d/00000000000000000002.xlog, block 3 at byte 172, row 0: logs newer than the snapshot: \
             expected nothing after d/00000000000000000005.snap, vclock {1: 5}, \
             found INSERT with LSN 6 of replica 1"
        );
        // A log that is missing between counts as well.
        files.remove(1);
        let newer = after(&disk(&files)).unwrap().newer.unwrap();
        assert_eq!(newer.gap_to.unwrap().to_string(), "{1: 7}");
    }

    #[test]
    fn rows_that_change_no_data_are_counted_only() {
        let files = [
            (name(5, "snap"), snap("{1: 5}")),
            (name(5, "xlog"), log("{1: 5}", &[row(12, 6), row(31, 7), row(40, 8)])),
        ];
        let found = after(&disk(&files)).unwrap();
        assert!(found.newer.is_none());
        assert_eq!(found.idle_rows, 3);
    }

    #[test]
    fn a_log_of_another_instance_is_refused_with_both_names() {
        let mut other = header("XLOG", B, "{1: 5}");
        other.extend(MAGIC_END);
        let error = after(&disk(&[(name(5, "snap"), snap("{1: 5}")), (name(5, "xlog"), other)])).unwrap_err();
        assert!(error.to_string().contains(A) && error.to_string().contains(B), "{error}");
    }

    #[test]
    fn a_torn_tail_is_let_pass_where_nothing_is_lost() {
        let torn = |rows: &[Vec<u8>]| {
            [header("XLOG", A, "{1: 3}"), rows.concat(), row(2, 9)[..25].to_vec()].concat()
        };
        let mut files =
            vec![(name(5, "snap"), snap("{1: 5}")), (name(3, "xlog"), torn(&[row(2, 4), row(2, 5)]))];
        assert_eq!(after(&disk(&files)).unwrap().notices.len(), 1);
        files.push((name(5, "xlog"), log("{1: 5}", &[])));
        assert!(after(&disk(&files)).unwrap().notices.is_empty(), "the torn log is not looked at");
        // Read, and not the last: the next log must go on where it ends.
        let mut files = vec![
            (name(3, "snap"), snap("{1: 3}")),
            (name(3, "xlog"), torn(&[row(12, 4)])),
            (name(4, "xlog"), log("{1: 4}", &[])),
        ];
        assert_eq!(after(&disk(&files)).unwrap().notices.len(), 1);
        files[2] = (name(5, "xlog"), log("{1: 5}", &[]));
        assert_eq!(after(&disk(&files)).unwrap_err().kind(), ErrorKind::Truncated);
    }

    #[test]
    fn every_failing_call_is_an_error() {
        let files = [
            (name(5, "snap"), snap("{1: 5}")),
            (name(0, "xlog"), log("{}", &[row(2, 1), row(2, 5)])),
            (name(5, "xlog"), log("{1: 5}", &[row(12, 6)])),
        ];
        let whole = disk(&files);
        after(&whole).unwrap();
        let calls = whole.faults().calls.load(std::sync::atomic::Ordering::Relaxed);
        for call in 0..calls {
            let disk = disk(&files);
            disk.faults().fail_at.store(call, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(after(&disk).unwrap_err().kind(), ErrorKind::Io, "call {call}");
        }
    }
}
