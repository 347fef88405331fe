//! A file that is whole or not there: written under another name, which it loses when all of it is on the disk.
//!
//! ```text
//! NAME.inprogress   made anew: who else wants to write NAME finds it there and gives up
//!   append, append, ...
//!   sync            the content survives a loss of power
//! NAME              renamed; a file that is there is never replaced
//!   sync of the folder: so does the name
//! ```
//!
//! Whatever fails before the new name, the file under the old one is removed again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::disk::{Disk, PathKind, Target};
use crate::error::{Error, ErrorKind};

/// What the name of a file that is being written ends in.
const UNFINISHED: &str = ".inprogress";

/// A file that is being written.
pub(crate) struct NewFile<'a> {
    disk: &'a dyn Disk,
    target: Box<dyn Target>,
    path: PathBuf,
    /// The file while it is unfinished; `None`: it has its own name.
    unfinished: Option<PathBuf>,
    bytes: u64,
}

impl<'a> NewFile<'a> {
    /// Begins a file in a folder that is there.
    ///
    /// # Errors
    /// `Exists`: the file is there, or somebody is writing it. `Io`.
    pub(crate) fn create(disk: &'a dyn Disk, path: &Path) -> Result<Self, Error> {
        let mut unfinished = OsString::from(path);
        unfinished.push(UNFINISHED);
        let unfinished = PathBuf::from(unfinished);
        let target =
            disk.create(&unfinished).map_err(|error| Error::io(&unfinished, "cannot create", &error))?;
        let file = Self { disk, target, path: path.into(), unfinished: Some(unfinished), bytes: 0 };
        file.check_absent()?;
        Ok(file)
    }

    fn check_absent(&self) -> Result<(), Error> {
        match self.disk.kind(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io(&self.path, "cannot look at", &error)),
            Ok(kind) => Err(Error::new(ErrorKind::Exists, "target")
                .expected("nothing of this name")
                .found(if kind == PathKind::Folder { "a folder" } else { "a file" })
                .file(&self.path)),
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `Io`: the disk is full, or broken.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let at = self.bytes;
        self.bytes += bytes.len() as u64;
        self.target.append(bytes).map_err(|error| self.failed("cannot write", &error).byte(at))
    }

    /// Gives the file its name, for good. Gives its bytes.
    ///
    /// # Errors
    /// `Io`, `Exists`. If only the last step fails, the file is there, but a loss of power may still take its name.
    pub(crate) fn finish(mut self) -> Result<u64, Error> {
        self.target.sync().map_err(|error| self.failed("cannot sync", &error))?;
        self.check_absent()?;
        if let Some(unfinished) = &self.unfinished {
            self.disk.rename(unfinished, &self.path).map_err(|error| self.failed("cannot rename", &error))?;
        }
        self.unfinished = None;
        let folder = folder_of(&self.path);
        self.disk.sync_folder(folder).map_err(|error| Error::io(folder, "cannot sync", &error))?;
        Ok(self.bytes)
    }

    fn failed(&self, doing: &str, error: &std::io::Error) -> Error {
        Error::io(self.unfinished.as_ref().unwrap_or(&self.path), doing, error)
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // What made writing fail is told; a file that stays behind as well is never read.
            let _ = self.disk.remove(unfinished);
        }
    }
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes a folder if it is not there, with a name that survives a loss of power.
///
/// # Errors
/// `Io`, `Missing`.
pub(crate) fn ensure_folder(disk: &dyn Disk, path: &Path) -> Result<(), Error> {
    match disk.kind(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(path, "cannot look at", &error)),
    }
    disk.create_folder(path).map_err(|error| Error::io(path, "cannot create", &error))?;
    let above = folder_of(path);
    disk.sync_folder(above).map_err(|error| Error::io(above, "cannot sync", &error))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::disk::simulated::SimulatedDisk;
    use super::*;

    const NAME: &str = "d/new/1.snap";
    const WHOLE: &[u8] = b"one two three";

    fn write(disk: &SimulatedDisk) -> Result<(), Error> {
        ensure_folder(disk, Path::new("d/new"))?;
        let mut file = NewFile::create(disk, Path::new(NAME))?;
        WHOLE.split_inclusive(|&byte| byte == b' ').try_for_each(|part| file.append(part))?;
        assert_eq!(file.finish()?, WHOLE.len() as u64);
        Ok(())
    }

    #[test]
    fn whichever_call_fails_and_whenever_the_power_goes_the_file_is_whole_or_absent() {
        let disk = SimulatedDisk::default();
        write(&disk).unwrap();
        assert_eq!(disk.bytes(NAME).as_deref(), Some(WHOLE));
        let calls = disk.faults().calls.load(Ordering::Relaxed);
        assert!(calls >= 11, "{calls}");
        for call in 0..calls {
            for power in [None, Some(false), Some(true)] {
                let disk = SimulatedDisk::default();
                disk.faults().fail_at.store(call, Ordering::Relaxed);
                write(&disk).unwrap_err();
                assert_eq!(disk.bytes("d/new/1.snap.inprogress"), None, "call {call}");
                power.into_iter().for_each(|quick| disk.lose_power(quick));
                let left = disk.bytes(NAME);
                assert!(left.is_none() || left.as_deref() == Some(WHOLE), "call {call}: {left:?}");
            }
        }
        disk.lose_power(false);
        assert_eq!(disk.bytes(NAME).as_deref(), Some(WHOLE));
    }

    #[test]
    fn a_file_that_is_there_or_is_being_written_stays_as_it_is() {
        for name in [NAME, "d/new/1.snap.inprogress"] {
            let disk = SimulatedDisk::with(name, *b"old");
            let error = write(&disk).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
            assert_eq!(disk.bytes(name).as_deref(), Some(&b"old"[..]));
            assert_eq!(disk.bytes(NAME).is_some(), name == NAME);
        }
    }
}
