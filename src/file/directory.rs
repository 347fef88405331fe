//! A data folder: its snapshots and logs by their names, and which snapshot is the newest.
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

use super::disk::{Disk, Entry, PathKind};
use super::header::{FileType, TextHeader};
use super::source::ContainerFile;
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

/// The newest snapshot of a folder; or, if `path` is a file, that one.
pub(crate) fn newest_snapshot(disk: &dyn Disk, path: &Path) -> Result<Snapshot, Error> {
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
    let Some((newest, older)) = snapshots.split_last() else {
        return Err(Error::new(ErrorKind::Missing, "snapshot")
            .expected("a file with a name of 20 digits and .snap")
            .found(match notices.first() {
                None => "none in the folder".into(),
                Some(notice) => format!("none in the folder ({notice})"),
            })
            .file(path));
    };
    let file = open_indexed(disk, newest, FileType::Snap)?;
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

#[cfg(test)]
mod tests {
    use super::super::block::MAGIC_END;
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;

    const A: &str = "78e0015e-511c-44a5-88b2-181e67295f91";

    fn header(filetype: &str, instance: &str, vclock: &str) -> Vec<u8> {
        format!("{filetype}\n0.13\nInstance: {instance}\nVClock: {vclock}\n\n").into_bytes()
    }

    fn snap(vclock: &str) -> Vec<u8> {
        [header("SNAP", A, vclock), MAGIC_END.to_vec()].concat()
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
        let snapshot = newest_snapshot(disk, Path::new("d"))?;
        Ok((snapshot.file.header.vclock.signature(), snapshot.notices))
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
        let error = newest_snapshot(&disk(&files), Path::new("elsewhere")).err().unwrap();
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
        let lone = |path: &str| newest_snapshot(&disk(&[(path.into(), snap("{1: 5}"))]), Path::new(path));
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
}
