//! One shape of error for everything that can be wrong with a file, a schema or a request.
//!
//! An error is a sentence for a person and a kind for a program:
//!
//! ```text
//! 00000000000000001004.snap, block 7 at byte 917504: checksum: expected 0x4e7e4937, found 0x67f54a6c
//! ```
//!
//! `FILE, block N at byte B, row R, space S, field F: what: expected X, found Y`; what is not known is left out.
//! Layers that do not know files (`msgpack`, `tuple`) have small faults of their own, which the layer that does
//! know turns into an [`Error`] by adding the place.

use std::fmt;
use std::path::{Path, PathBuf};

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of thing went wrong; for programs that act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read or list a file.
    Io,
    /// A file or folder that should be there is not: no such path, no snapshot in the folder.
    Missing,
    /// What is to be written is there already, or somebody else is writing it.
    Exists,
    /// The file is not of the kind that its name or place promises.
    NotSuchFile,
    /// The file's format version is not one of 0.12 and 0.13.
    Version,
    /// The file ends before its end marker, or inside a block.
    Truncated,
    /// A block's payload does not fit its CRC-32C.
    Checksum,
    /// The container is damaged: a bad magic, a bad block head, bytes after the end marker, a bad text header.
    Container,
    /// A compressed block that zstd cannot unpack.
    Compression,
    /// A length, count or size over what is allowed; a decompression bomb.
    Limit,
    /// Bytes that are not MsgPack.
    MsgPack,
    /// A row whose header or body is not what its type demands.
    Row,
    /// Rows are missing, or there twice, by their row numbers.
    RowNumber,
    /// A row of a system space that defines something impossible, or a space that is used but not defined.
    Schema,
    /// The snapshot holds no rows of the system spaces.
    NoSystemRows,
    /// A tuple that violates its space's format.
    TupleFormat,
    /// Two tuples with the same key in a unique index.
    DuplicateKey,
    /// An operation of UPDATE or UPSERT that cannot be, or not on this tuple.
    Update,
    /// No space of that name or id.
    NoSuchSpace,
    /// The space of a handle was dropped, and another one has its id.
    StaleSpace,
    /// No index of that name or id.
    NoSuchIndex,
    /// The index, or the data of the space, is not kept in memory; the message says why.
    Absent,
    /// A search key that does not fit the index, or an iterator that the index does not have.
    Key,
    /// The memory limit, or the space of handles, is used up.
    Memory,
    /// Valid, but not built in this version.
    Unsupported,
    /// Options that contradict each other or make no sense.
    Usage,
}

/// Where something went wrong, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The file.
    pub file: Option<PathBuf>,
    /// Number of the block in the file, from 0.
    pub block: Option<u64>,
    /// Byte offset in the file: of the block's head, or of the fault itself outside blocks.
    pub byte: Option<u64>,
    /// Number of the row in the block, from 0.
    pub row: Option<u64>,
    /// Name of the space, or its id where the name is not known.
    pub space: Option<String>,
    /// The field, as Tarantool spells it: `2`, `2 (name)`, `[2]["a"]["b"]`.
    pub field: Option<String>,
}

/// An error with its kind, its place, and what was expected and found.
///
/// ```
/// let error = lycosa::Store::open("no/such/folder").unwrap_err();
/// assert_eq!(error.kind(), lycosa::ErrorKind::Missing);
/// assert!(error.to_string().starts_with("no/such/folder: "));
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    place: Place,
    what: String,
    expected: Option<String>,
    found: Option<String>,
}

impl Error {
    /// An error without a place yet: `what` is a noun phrase ("checksum", "row header").
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            place: Place::default(),
            what: what.into(),
            expected: None,
            found: None,
        }))
    }

    /// An error of the operating system about `path`.
    pub(crate) fn io(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::Missing,
            std::io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{doing}: {error}")).file(path)
    }

    pub(crate) fn expected(mut self, expected: impl fmt::Display) -> Self {
        self.0.expected = Some(expected.to_string());
        self
    }

    pub(crate) fn found(mut self, found: impl fmt::Display) -> Self {
        self.0.found = Some(found.to_string());
        self
    }

    pub(crate) fn file(mut self, file: &Path) -> Self {
        self.0.place.file.get_or_insert_with(|| file.to_path_buf());
        self
    }

    pub(crate) fn block(mut self, block: u64, byte: u64) -> Self {
        self.0.place.block.get_or_insert(block);
        self.0.place.byte.get_or_insert(byte);
        self
    }

    pub(crate) fn byte(mut self, byte: u64) -> Self {
        self.0.place.byte.get_or_insert(byte);
        self
    }

    pub(crate) fn row(mut self, row: u64) -> Self {
        self.0.place.row.get_or_insert(row);
        self
    }

    pub(crate) fn space(mut self, space: impl fmt::Display) -> Self {
        self.0.place.space.get_or_insert_with(|| space.to_string());
        self
    }

    pub(crate) fn field(mut self, field: impl fmt::Display) -> Self {
        self.0.place.field.get_or_insert_with(|| field.to_string());
        self
    }

    /// What kind of error it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// What is wrong, without place, expectation and finding.
    pub fn what(&self) -> &str {
        &self.0.what
    }

    /// What should have been there.
    pub fn expectation(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// What was there.
    pub fn finding(&self) -> Option<&str> {
        self.0.found.as_deref()
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.to_string();
        if !place.is_empty() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.what)?;
        match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => write!(f, ": expected {expected}, found {found}"),
            (Some(expected), None) => write!(f, ": expected {expected}"),
            (None, Some(found)) => write!(f, ": found {found}"),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut part = |f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>| {
            write!(f, "{separator}{text}")?;
            separator = ", ";
            Ok(())
        };
        if let Some(file) = &self.file {
            part(f, format_args!("{}", file.display()))?;
        }
        match (self.block, self.byte) {
            (Some(block), Some(byte)) => part(f, format_args!("block {block} at byte {byte}"))?,
            (Some(block), None) => part(f, format_args!("block {block}"))?,
            (None, Some(byte)) => part(f, format_args!("byte {byte}"))?,
            (None, None) => {}
        }
        if let Some(row) = self.row {
            part(f, format_args!("row {row}"))?;
        }
        if let Some(space) = &self.space {
            part(f, format_args!("space {space}"))?;
        }
        if let Some(field) = &self.field {
            part(f, format_args!("field {field}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_place_what_expected_found() {
        let error = Error::new(ErrorKind::Checksum, "checksum")
            .expected("0x4e7e4937")
            .found("0x67f54a6c")
            .file(Path::new("00000000000000001004.snap"))
            .block(7, 917_504);
        assert_eq!(
            error.to_string(),
            "00000000000000001004.snap, block 7 at byte 917504: checksum: expected 0x4e7e4937, found 0x67f54a6c"
        );
    }

    #[test]
    fn the_innermost_place_wins() {
        let error = Error::new(ErrorKind::Row, "row").row(3).row(4).space("a").space("b").field(1);
        assert_eq!(error.to_string(), "row 3, space a, field 1: row");
    }
}
