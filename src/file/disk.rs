//! The seam to the operating system: the one module that touches `std::fs`.
//!
//! Everything above asks a [`Disk`] for folders and a [`Source`] for bytes at an offset. Files are read with
//! `pread` into buffers of ours and never mapped: a mapped file that another process cuts short kills the
//! process by a signal, while here it is an error with a place.
//!
//! What is written is new: a [`Target`] is a file that was not there before.
//!
//! Tests put a `simulated` twin in its place, whose Nth call fails, whose files shrink while they are read, and whose
//! power goes off.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    File,
    Folder,
    /// A socket, a device: nothing that holds data of ours.
    Other,
}

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: std::ffi::OsString,
    pub(crate) kind: PathKind,
}

pub(crate) trait Disk: Send + Sync {
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>>;
    /// The names in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>>;
    /// What a path leads to, links followed.
    fn kind(&self, path: &Path) -> io::Result<PathKind>;
    /// Makes a file for writing; one of this name must not be there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Target>>;
    /// Makes a folder in one that is there.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name in the same folder. A file that had the name is gone.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder survive a loss of power.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file that is being written, from its beginning to its end.
pub(crate) trait Target {
    /// Appends all of the bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was appended survive a loss of power.
    fn sync(&mut self) -> io::Result<()>;
}

/// An open file.
pub(crate) trait Source: Send + Sync {
    /// The file's length in bytes when it was opened. A log in use may have grown since; nothing behind this
    /// length is looked at.
    fn len(&self) -> u64;
    /// Reads some of the bytes at `at`; 0: there are none.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// Fills `buffer` with the bytes at `at` as far as there are any, and says how many there were.
pub(crate) fn read_full(source: &dyn Source, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match source.read_at(&mut buffer[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Whether there is nothing but zeros from `at` to the end of a file, and at least one.
pub(crate) fn is_zero_from(source: &dyn Source, at: u64) -> io::Result<bool> {
    let (mut next, mut buffer) = (at, [0; 4096]);
    loop {
        let read = read_full(source, &mut buffer, next)?;
        if buffer[..read].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        next += read as u64;
        if read < buffer.len() {
            return Ok(next > at);
        }
    }
}

/// The operating system's files.
pub(crate) struct RealDisk;

struct RealSource {
    file: fs::File,
    len: u64,
}

fn kind_of(kind: fs::FileType) -> PathKind {
    if kind.is_file() {
        PathKind::File
    } else if kind.is_dir() {
        PathKind::Folder
    } else {
        PathKind::Other
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        // Asked before opening: to open a pipe would wait for somebody to write into it.
        if kind_of(fs::metadata(path)?.file_type()) != PathKind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = fs::File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Box::new(RealSource { file, len }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // A link is followed. One that leads nowhere counts as a file, so that opening it tells: the newest
            // snapshot must not pass for absent.
            let kind = match entry.file_type()? {
                kind if kind.is_symlink() => {
                    fs::metadata(entry.path()).map_or(PathKind::File, |m| kind_of(m.file_type()))
                }
                kind => kind_of(kind),
            };
            entries.push(Entry { name: entry.file_name(), kind });
        }
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> io::Result<PathKind> {
        Ok(kind_of(fs::metadata(path)?.file_type()))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Target>> {
        Ok(Box::new(RealTarget(fs::File::create_new(path)?)))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }
}

struct RealTarget(fs::File);

impl Target for RealTarget {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

impl Source for RealSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }
}

/// A disk in memory with faults on order, for tests.
#[cfg(test)]
#[path = "disk_simulated.rs"]
pub(crate) mod simulated;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_file_is_read_at_any_offset_and_ends_where_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"0123456789").unwrap();
        let source = RealDisk.open(&path).unwrap();
        assert_eq!(source.len(), 10);
        let mut buffer = [0; 4];
        assert_eq!(read_full(&*source, &mut buffer, 3).unwrap(), 4);
        assert_eq!(&buffer, b"3456");
        assert_eq!(read_full(&*source, &mut buffer, 8).unwrap(), 2);
        assert_eq!(read_full(&*source, &mut buffer, 99).unwrap(), 0);
        assert_eq!(RealDisk.kind(folder.path()).unwrap(), PathKind::Folder);
        assert!(RealDisk.open(folder.path()).is_err());
        let entries = RealDisk.list(folder.path()).unwrap();
        assert_eq!(entries, [Entry { name: "file".into(), kind: PathKind::File }]);
    }

    #[test]
    fn short_reads_are_joined() {
        let disk = simulated::SimulatedDisk::with("file", *b"0123456789");
        disk.faults().read_bytes_max.store(3, std::sync::atomic::Ordering::Relaxed);
        let mut buffer = [0; 10];
        assert_eq!(read_full(&*disk.open(Path::new("file")).unwrap(), &mut buffer, 0).unwrap(), 10);
        assert_eq!(&buffer, b"0123456789");
    }
}
