//! An opened file: its path, its text header, and a way to its bytes.

use super::disk::{Disk, Source, is_zero_from, read_full};
use super::header::{FileType, TextHeader};
use crate::error::{Error, ErrorKind};
use crate::limits::TEXT_HEADER_BYTES_MAX;
use std::path::{Path, PathBuf};

/// A file whose text header has been read and found good.
pub(crate) struct ContainerFile {
    pub(crate) path: PathBuf,
    pub(crate) header: TextHeader,
    source: Box<dyn Source>,
}

impl ContainerFile {
    /// Opens a file of any type of the container.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, Error> {
        let source = disk.open(path).map_err(|error| Error::io(path, "cannot open", &error))?;
        // The file is at hand as a whole unless it is longer than any header: `parse` tells a cut from a
        // fault by it.
        let mut bytes = vec![0; source.len().min(TEXT_HEADER_BYTES_MAX as u64) as usize];
        let read =
            read_full(&*source, &mut bytes, 0).map_err(|error| Error::io(path, "cannot read", &error))?;
        let header = TextHeader::parse(&bytes[..read]).map_err(|error| error.file(path))?;
        Ok(Self { path: path.to_path_buf(), header, source })
    }

    /// Opens a file whatever its header says, of which only the lines that make sense are taken; gives what is wrong
    /// with it as well.
    ///
    /// # Errors
    /// `Io`, `Missing`.
    pub(crate) fn open_damaged(
        disk: &dyn Disk,
        path: &Path,
        filetype: FileType,
    ) -> Result<(Self, Option<Error>), Error> {
        let fault = match Self::open_as(disk, path, filetype) {
            Ok(file) => return Ok((file, None)),
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Missing) => return Err(error),
            Err(error) => error,
        };
        let source = disk.open(path).map_err(|error| Error::io(path, "cannot open", &error))?;
        let mut bytes = vec![0; source.len().min(TEXT_HEADER_BYTES_MAX as u64) as usize];
        let read =
            read_full(&*source, &mut bytes, 0).map_err(|error| Error::io(path, "cannot read", &error))?;
        let header = TextHeader::of_damaged(&bytes[..read], filetype);
        Ok((Self { path: path.to_path_buf(), header, source }, Some(fault)))
    }

    /// A file that is in memory.
    pub(crate) fn of_bytes(bytes: &'static [u8]) -> Result<Self, Error> {
        let header = TextHeader::parse(bytes)?;
        Ok(Self { path: PathBuf::new(), header, source: Box::new(bytes) })
    }

    /// The same file with other bytes in some places.
    pub(crate) fn patched(mut self, mut patches: Vec<Patch>) -> Self {
        if !patches.is_empty() {
            patches.sort_by_key(|patch| patch.at);
            self.source = Box::new(Patched { source: self.source, patches });
        }
        self
    }

    /// Opens a file that must be of one type.
    pub(crate) fn open_as(disk: &dyn Disk, path: &Path, filetype: FileType) -> Result<Self, Error> {
        let file = Self::open(disk, path)?;
        if file.header.filetype != filetype {
            return Err(Error::new(ErrorKind::NotSuchFile, "file type")
                .expected(filetype)
                .found(file.header.filetype)
                .file(path));
        }
        Ok(file)
    }

    /// Bytes of the file when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.source.len()
    }

    /// Where the first block begins.
    pub(crate) fn blocks_at(&self) -> u64 {
        self.header.bytes as u64
    }

    /// Fills `buffer`; that the file has so many bytes was known when it was opened.
    pub(crate) fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Error> {
        let read = read_full(&*self.source, buffer, at)
            .map_err(|error| Error::io(&self.path, "cannot read", &error).byte(at))?;
        if read < buffer.len() {
            return Err(Error::new(ErrorKind::Truncated, "the file became shorter while it was read")
                .expected(format_args!("{} bytes", self.bytes()))
                .found(at + read as u64)
                .file(&self.path)
                .byte(at));
        }
        Ok(())
    }

    /// Whether there is nothing but zeros from `byte` to the end of the file, and at least one.
    pub(crate) fn is_zero_from(&self, byte: u64) -> Result<bool, Error> {
        is_zero_from(&*self.source, byte)
            .map_err(|error| Error::io(&self.path, "cannot read", &error).byte(byte))
    }

    /// An error of this file: `map_err(|error| file.place(error))`.
    pub(crate) fn place(&self, error: Error) -> Error {
        error.file(&self.path)
    }
}

impl Source for &'static [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }
}

/// Bytes that a file should have in the place of those it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Patch {
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A file with patches, by place, none of which overlap.
struct Patched {
    source: Box<dyn Source>,
    patches: Vec<Patch>,
}

impl Source for Patched {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> std::io::Result<usize> {
        let read = self.source.read_at(buffer, at)?;
        let end = at + read as u64;
        let first = self.patches.partition_point(|patch| patch.at + patch.bytes.len() as u64 <= at);
        for patch in self.patches[first..].iter().take_while(|patch| patch.at < end) {
            for (place, &byte) in (patch.at..).zip(&patch.bytes) {
                if (at..end).contains(&place) {
                    buffer[(place - at) as usize] = byte;
                }
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;

    #[test]
    fn a_patched_file_has_the_bytes_of_its_patches_wherever_reading_begins() {
        let text = b"SNAP\n0.13\nVClock: {}\n\n0123456789";
        let disk = SimulatedDisk::with("f", *text);
        let patch = |at, bytes: &[u8]| Patch { at, bytes: bytes.to_vec() };
        let file = ContainerFile::open(&disk, Path::new("f")).unwrap();
        let file = file.patched(vec![patch(28, b"xyz"), patch(23, b"a")]);
        let whole = b"SNAP\n0.13\nVClock: {}\n\n0a2345xyz9";
        for start in 0..whole.len() {
            for end in start..=whole.len() {
                let mut bytes = vec![0; end - start];
                file.read_exact_at(&mut bytes, start as u64).unwrap();
                assert_eq!(bytes, whole[start..end]);
            }
        }
    }

    #[test]
    fn a_file_of_another_type_is_refused_with_its_name() {
        let disk = SimulatedDisk::with("d/1.snap", *b"XLOG\n0.13\nVClock: {}\n\n");
        let path = Path::new("d/1.snap");
        assert_eq!(ContainerFile::open(&disk, path).unwrap().blocks_at(), 22);
        let error = ContainerFile::open_as(&disk, path, FileType::Snap).err().unwrap();
        assert_eq!(error.to_string(), "d/1.snap: file type: expected SNAP, found XLOG");
        assert_eq!(
            ContainerFile::open(&disk, Path::new("d/2.snap")).err().unwrap().kind(),
            ErrorKind::Missing
        );
    }
}
