//! The rows of a file, one after another, without knowing what they mean: for whoever prints, searches or converts them.
//!
//! ```text
//! Segments --> [ worker: Segment::read, then the caller's `map` ] --> in order --> the caller's `sink`
//! ```

use super::compress::Unpacker;
use super::directory::Folder;
use super::disk::RealDisk;
use super::header::{FileType, TextHeader};
use super::heads::End;
use super::info::EndInfo;
use super::log_row::LogRow;
use super::pipeline::in_order;
use super::row::{self, Part};
use super::row_print::pairs;
use super::segment::{Segment, Segments, Spares, Then};
use super::source::ContainerFile;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::BLOCK_UNPACKED_BYTES_MAX;
use crate::msgpack::value::Value;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A snapshot or log whose rows can be read.
///
/// ```
/// use std::ops::ControlFlow;
/// use lycosa::RowFile;
///
/// let mut rows = 0;
/// for log in RowFile::logs_of("snapshots/2.6/36-xlog-ops/data")? {
///     let file = RowFile::open(log)?;
///     file.for_each_run(None, 2, None, |run| run.rows().count(), |count| {
///         rows += count;
///         ControlFlow::Continue(())
///     })?;
/// }
/// assert!(rows > 100);
/// # Ok::<(), lycosa::Error>(())
/// ```
pub struct RowFile {
    file: Arc<ContainerFile>,
}

/// A place between two blocks of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowPosition {
    pub(super) byte: u64,
    pub(super) block: u64,
}

/// How the reading of a file's rows ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowsEnd {
    /// How the file ends; `None`: the sink broke it off before.
    pub end: Option<EndInfo>,
    /// Behind the last whole block: from where to go on when the file has grown.
    pub position: RowPosition,
}

impl RowFile {
    /// Opens a file of any type of the container.
    ///
    /// # Errors
    /// The file cannot be read, or is not such a file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let file = ContainerFile::open(&RealDisk, path.as_ref())?;
        if !matches!(file.header.filetype, FileType::Snap | FileType::Xlog) {
            return Err(Error::new(ErrorKind::Unsupported, "rows of this type of file")
                .expected("SNAP or XLOG")
                .found(file.header.filetype)
                .file(&file.path));
        }
        Ok(Self { file: Arc::new(file) })
    }

    /// The logs of a folder, in the order of their names, which is that of their rows.
    ///
    /// # Errors
    /// The path is no folder that can be listed.
    pub fn logs_of(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
        let folder = Folder::list(&RealDisk, folder.as_ref())?;
        Ok(folder.logs.into_iter().map(|log| log.path).collect())
    }

    /// The text header.
    pub fn header(&self) -> &TextHeader {
        &self.file.header
    }

    /// Gives all rows, from a position on, in runs of some thousand: each to `map`, in one of `threads` threads, and what
    /// that makes of it to `sink`, in the order of the file. `block_bytes_max`: what one block may unpack to, if that is
    /// less than the format's 2 GiB; memory is a few such blocks a thread.
    ///
    /// # Errors
    /// What is damaged, where it is; all rows before it have been given to `sink`.
    pub fn for_each_run<T: Send>(
        &self,
        from: Option<RowPosition>,
        threads: usize,
        block_bytes_max: Option<u64>,
        map: impl Fn(&RowRun<'_>) -> T + Sync,
        mut sink: impl FnMut(T) -> ControlFlow<()>,
    ) -> Result<RowsEnd> {
        let bytes_max = block_bytes_max.and_then(|bytes| usize::try_from(bytes).ok());
        let bytes_max = bytes_max.unwrap_or(BLOCK_UNPACKED_BYTES_MAX).min(BLOCK_UNPACKED_BYTES_MAX);
        let start = from.unwrap_or(RowPosition { byte: self.file.blocks_at(), block: 0 });
        let spares = Spares::default();
        let mut segments = Segments::of_file(self.file.clone(), start, &spares);
        let mut outcome = RowsEnd { end: None, position: start };
        in_order(
            if threads <= 1 { 0 } else { threads },
            || segments.next(),
            || Unpacker::new(bytes_max),
            |unpacker, mut segment| {
                segment.read(unpacker, bytes_max);
                let mapped = map(&RowRun { segment: &segment });
                (segment, mapped)
            },
            |(mut segment, mapped)| {
                let flow = sink(mapped);
                let then = std::mem::replace(&mut segment.then, Then::More);
                outcome.position = segment.end().unwrap_or(outcome.position);
                spares.put(segment);
                match then {
                    Then::Fault(error) => return Err(error),
                    Then::End(end) if flow.is_continue() => {
                        outcome.end = Some(match end {
                            End::Marker => EndInfo::Marker,
                            End::Open { byte, torn_bytes } => EndInfo::Open { byte, torn_bytes },
                        });
                    }
                    Then::End(_) | Then::More => {}
                }
                Ok(flow)
            },
        )?;
        Ok(outcome)
    }
}

/// Some rows that follow on one another.
pub struct RowRun<'a> {
    segment: &'a Segment,
}

impl<'a> RowRun<'a> {
    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = FileRow<'a>> {
        let segment = self.segment;
        let blocks = segment.blocks();
        blocks.flat_map(|(_, payload, rows)| {
            rows.iter().map(move |row| FileRow { row: LogRow::new(row, payload) })
        })
    }
}

/// A row, as it stands in its file.
#[derive(Clone, Copy)]
pub struct FileRow<'a> {
    pub(super) row: LogRow<'a>,
}

/// A pair of a row's header or body.
#[derive(Clone, Copy)]
pub struct RowPair<'a> {
    /// Its name, where the key is known for the type of the row.
    pub name: Option<&'static str>,
    /// The key.
    pub key: Value<'a>,
    /// The value.
    pub value: Value<'a>,
}

impl FileRow<'_> {
    /// The number of a request type by its name, in any case.
    pub fn type_by_name(name: &str) -> Option<u64> {
        let has_name = |known: &str| known.eq_ignore_ascii_case(name);
        (0..=u64::from(u8::MAX)).find(|&kind| row::kind::name(kind).is_some_and(has_name))
    }
}

impl<'a> FileRow<'a> {
    /// The request type: its number.
    #[inline]
    pub fn request_type(&self) -> u64 {
        self.row.kind()
    }

    /// The request type: its name, if it is known.
    #[inline]
    pub fn type_name(&self) -> Option<&'static str> {
        row::kind::name(self.row.kind())
    }

    /// Who wrote the row; 0: nobody, or it is of a local space.
    #[inline]
    pub fn replica_id(&self) -> u32 {
        self.row.replica_id()
    }

    /// The log sequence number; 0: none.
    #[inline]
    pub fn lsn(&self) -> u64 {
        self.row.lsn()
    }

    /// Seconds since 1970.
    #[inline]
    pub fn timestamp(&self) -> Option<f64> {
        self.row.timestamp()
    }

    /// The number of the transaction, where the row says one: the LSN of its first row.
    #[inline]
    pub fn tsn(&self) -> u64 {
        self.row.tsn()
    }

    /// The space, for requests that change data.
    #[inline]
    pub fn space_id(&self) -> Option<u32> {
        self.row.space_id()
    }

    /// The index; the primary one unless the row says another.
    #[inline]
    pub fn index_id(&self) -> u32 {
        self.row.index_id()
    }

    /// What update operations count fields from.
    #[inline]
    pub fn index_base(&self) -> u32 {
        self.row.index_base()
    }

    /// The key of an UPDATE or DELETE.
    #[inline]
    pub fn key(&self) -> Option<Value<'a>> {
        self.row.key().map(Value::of_checked)
    }

    /// The tuple of an INSERT, REPLACE or UPSERT; the operations of an UPDATE.
    #[inline]
    pub fn tuple(&self) -> Option<Value<'a>> {
        self.row.tuple().map(Value::of_checked)
    }

    /// The operations of an UPSERT.
    #[inline]
    pub fn operations(&self) -> Option<Value<'a>> {
        self.row.ops().map(Value::of_checked)
    }

    /// The row's bytes: its header and, if it has one, its body.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.row.bytes()
    }

    /// All pairs of the header, as they stand; the TSN is stored as the LSN less it.
    pub fn header(&self) -> impl Iterator<Item = RowPair<'a>> {
        let (header, _) = self.parts();
        pairs(header, Part::Header, 0)
    }

    /// All pairs of the body, as they stand; none where there is no body.
    pub fn body(&self) -> impl Iterator<Item = RowPair<'a>> {
        let (_, body) = self.parts();
        pairs(body.map_or(Value::EMPTY_MAP, |body| body), Part::Body, self.request_type())
    }

    fn parts(&self) -> (Value<'a>, Option<Value<'a>>) {
        let (header, body) = self.bytes().split_at(Value::first_bytes(self.bytes()));
        (Value::of_checked(header), (!body.is_empty()).then(|| Value::of_checked(body)))
    }
}
