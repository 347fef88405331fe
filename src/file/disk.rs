//! The seam to the operating system: the one module that touches `std::fs`.
//!
//! Everything above asks a [`Disk`] for folders and a [`Source`] for bytes at an offset. Files are read with
//! `pread` into buffers of ours and never mapped: a mapped file that another process cuts short kills the
//! process by a signal, while here it is an error with a place.
//!
//! Tests put a `simulated` twin in its place, whose Nth call fails or whose files shrink while they are
//! read.

use std::fs;
use std::io;
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
pub(crate) mod simulated {
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Files by path; every call counts, and the one with the number `fail_at` (from 0) fails.
    #[derive(Default)]
    pub(crate) struct SimulatedDisk {
        files: BTreeMap<PathBuf, Arc<Vec<u8>>>,
        faults: Arc<Faults>,
    }

    pub(crate) struct Faults {
        pub(crate) calls: AtomicU64,
        pub(crate) fail_at: AtomicU64,
        /// The call from which on every file has lost its bytes from `shrunk_to` on.
        pub(crate) shrink_at: AtomicU64,
        pub(crate) shrunk_to: AtomicU64,
        /// The most bytes that one read gives.
        pub(crate) read_bytes_max: AtomicU64,
    }

    impl Default for Faults {
        fn default() -> Self {
            let never = || AtomicU64::new(u64::MAX);
            Self {
                calls: AtomicU64::new(0),
                fail_at: never(),
                shrink_at: never(),
                shrunk_to: never(),
                read_bytes_max: never(),
            }
        }
    }

    impl Faults {
        fn call(&self) -> io::Result<u64> {
            let call = self.calls.fetch_add(1, Ordering::Relaxed);
            if call == self.fail_at.load(Ordering::Relaxed) {
                return Err(io::Error::other("a fault on order"));
            }
            Ok(call)
        }
    }

    impl SimulatedDisk {
        pub(crate) fn with(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
            let mut disk = Self::default();
            disk.add(path, bytes);
            disk
        }

        pub(crate) fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
            self.files.insert(path.into(), Arc::new(bytes.into()));
        }

        pub(crate) fn faults(&self) -> &Faults {
            &self.faults
        }
    }

    struct SimulatedSource {
        bytes: Arc<Vec<u8>>,
        faults: Arc<Faults>,
    }

    impl Disk for SimulatedDisk {
        fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
            self.faults.call()?;
            let bytes = self.files.get(path).ok_or(io::ErrorKind::NotFound)?;
            Ok(Box::new(SimulatedSource { bytes: bytes.clone(), faults: self.faults.clone() }))
        }

        fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
            self.faults.call()?;
            let inside = self.files.keys().filter_map(|path| path.strip_prefix(folder).ok());
            let entries: Vec<_> = inside
                .filter_map(|path| {
                    let mut parts = path.iter();
                    let name = parts.next()?.to_os_string();
                    let kind = if parts.next().is_some() { PathKind::Folder } else { PathKind::File };
                    Some(Entry { name, kind })
                })
                .collect();
            if entries.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(entries) }
        }

        fn kind(&self, path: &Path) -> io::Result<PathKind> {
            self.faults.call()?;
            if self.files.contains_key(path) {
                Ok(PathKind::File)
            } else if self.files.keys().any(|file| file.starts_with(path)) {
                Ok(PathKind::Folder)
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        }
    }

    impl Source for SimulatedSource {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            let call = self.faults.call()?;
            let mut end = self.bytes.len() as u64;
            if call >= self.faults.shrink_at.load(Ordering::Relaxed) {
                end = end.min(self.faults.shrunk_to.load(Ordering::Relaxed));
            }
            let bytes_max = self.faults.read_bytes_max.load(Ordering::Relaxed).min(buffer.len() as u64);
            let count = bytes_max.min(end.saturating_sub(at)) as usize;
            let at = at.min(end) as usize;
            buffer[..count].copy_from_slice(&self.bytes[at..at + count]);
            Ok(count)
        }
    }
}

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
