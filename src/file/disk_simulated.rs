//! A disk in memory with faults on order: what `disk` is in tests.
//!
//! It knows what a loss of power leaves: of a file what was synced, of a folder the names that were synced with it.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files by path; every call counts, and the one with the number `fail_at` (from 0) fails.
#[derive(Default)]
pub(crate) struct SimulatedDisk {
    names: Mutex<Names>,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Names {
    files: BTreeMap<PathBuf, Content>,
    /// As they were when their folder was last synced.
    synced: BTreeMap<PathBuf, Content>,
    folders: BTreeSet<PathBuf>,
}

/// Bytes of a file, and how many of them were synced.
type Content = Arc<Mutex<(Vec<u8>, usize)>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A file that has always been there.
    pub(crate) fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        let content: Content = Arc::new(Mutex::new((bytes.clone(), bytes.len())));
        let mut names = lock(&self.names);
        names.files.insert(path.into(), content.clone());
        names.synced.insert(path.into(), content);
    }

    /// The bytes of a file, if there is one of this name.
    pub(crate) fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.names).files.get(Path::new(path)).map(|content| lock(content).0.clone())
    }

    /// The power goes off: files lose what was not synced. So do folders, unless they were quick.
    pub(crate) fn lose_power(&self, folders_were_quick: bool) {
        let mut names = lock(&self.names);
        if !folders_were_quick {
            names.files = names.synced.clone();
        }
        for content in names.files.values() {
            let (bytes, synced) = &mut *lock(content);
            bytes.truncate(*synced);
        }
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }
}

struct SimulatedSource {
    bytes: Vec<u8>,
    faults: Arc<Faults>,
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Box<dyn Source>> {
        self.faults.call()?;
        let names = lock(&self.names);
        let content = names.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        let bytes = lock(content).0.clone();
        Ok(Box::new(SimulatedSource { bytes, faults: self.faults.clone() }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Entry>> {
        self.faults.call()?;
        let names = lock(&self.names);
        let inside = names.files.keys().filter_map(|path| path.strip_prefix(folder).ok());
        let entries: Vec<_> = inside
            .filter_map(|path| {
                let mut parts = path.iter();
                let name = parts.next()?.to_os_string();
                let kind = if parts.next().is_some() { PathKind::Folder } else { PathKind::File };
                Some(Entry { name, kind })
            })
            .collect();
        let is_there = !entries.is_empty() || names.folders.contains(folder);
        if is_there { Ok(entries) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn kind(&self, path: &Path) -> io::Result<PathKind> {
        self.faults.call()?;
        let names = lock(&self.names);
        if names.files.contains_key(path) {
            Ok(PathKind::File)
        } else if names.folders.contains(path) || names.files.keys().any(|file| file.starts_with(path)) {
            Ok(PathKind::Folder)
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn Target>> {
        self.faults.call()?;
        let mut names = lock(&self.names);
        if names.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        names.files.insert(path.into(), content.clone());
        Ok(Box::new(SimulatedTarget { content, faults: self.faults.clone() }))
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.faults.call()?;
        lock(&self.names).folders.insert(path.into());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.faults.call()?;
        let mut names = lock(&self.names);
        let content = names.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.files.insert(to.into(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.faults.call()?;
        lock(&self.names).files.remove(path).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.faults.call()?;
        let mut names = lock(&self.names);
        let is_inside = |path: &PathBuf| path.parent() == Some(folder);
        let Names { files, synced, .. } = &mut *names;
        synced.retain(|path, _| !is_inside(path));
        synced.extend(files.iter().filter(|(path, _)| is_inside(path)).map(|(p, c)| (p.clone(), c.clone())));
        Ok(())
    }
}

struct SimulatedTarget {
    content: Content,
    faults: Arc<Faults>,
}

impl Target for SimulatedTarget {
    /// A call that fails has written half.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let outcome = self.faults.call();
        let count = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 };
        lock(&self.content).0.extend_from_slice(&bytes[..count]);
        outcome.map(|_| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.faults.call()?;
        let (bytes, synced) = &mut *lock(&self.content);
        *synced = bytes.len();
        Ok(())
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
