//! Finding blocks: from head to head through a file, to its end marker or to what stands in its place.
//!
//! A snapshot, a run or an index ends with its marker or is not whole. A log that is in use, or whose writer
//! was killed, has none, and its last block may be torn: that is [`End::Open`]. A torn block is the *last*
//! thing in a file, though: where a length field was damaged so that it points past the end, whole blocks
//! follow, and to call that a torn tail would drop them silently. So before a block that runs past the end is
//! called torn, the rest of the file is searched for what shows that it is none: a whole block (magic, head and
//! checksum), the end marker, or a payload that fits the checksum as it is.
//!
//! Zeros from where a block should begin to the end of a log are a torn tail as well: a file system may make a file
//! longer before what was written into it is on the disk, and writers before 2.1.2 did so themselves.

use super::block::{self, BlockHead, Mark};
use super::header::FileType;
use super::source::ContainerFile;
use crate::error::{Error, ErrorKind};
use crate::limits::BLOCK_HEAD_BYTES;
use std::ops::{Deref, Range};

/// Where blocks are large, one small read finds the next head.
const HOP_BYTES_MIN: usize = 64;

/// Where blocks are small (files of 0.12 have a block a row), one read finds many heads.
const HOP_BYTES_MAX: usize = 64 << 10;

/// Heads between two calls of `progress`.
const PROGRESS_HEADS: u64 = 256;

/// Bytes that the search behind a torn block reads at once.
const SEARCH_BYTES: usize = 256 << 10;

/// Bytes that the search may check sums of, over twice the file's size: a hostile file could be full of
/// heads.
const SEARCH_SUM_BYTES_MIN: u64 = 64 << 20;

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With the end marker, and nothing behind it.
    Marker,
    /// Of a log alone: without one. Whole blocks go up to `byte`; `torn_bytes` of a block cut short, or of zeros, follow.
    Open { byte: u64, torn_bytes: u64 },
}

/// All blocks of a file.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    pub(crate) heads: Vec<BlockHead>,
    /// Bytes of all payloads as stored.
    pub(crate) stored_bytes: u64,
    /// Always [`End::Marker`] unless the file is a log.
    pub(crate) end: End,
}

/// What comes next in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Block(BlockHead),
    End(End),
}

/// Reads block heads of a file one after another, through a window that grows where blocks are small.
pub(crate) struct HeadReader<F> {
    /// The file, or a reference to it.
    file: F,
    window: Vec<u8>,
    /// The part of the file that the window holds.
    held: Range<u64>,
    hop_bytes: usize,
    /// Where the next head is, and its number.
    byte: u64,
    index: u64,
    before: Option<BlockHead>,
}

impl<F: Deref<Target = ContainerFile>> HeadReader<F> {
    pub(crate) fn new(file: F) -> Self {
        let byte = file.blocks_at();
        Self::from(file, byte, 0)
    }

    /// From the block of that number, whose head is at `byte`.
    pub(crate) fn from(file: F, byte: u64, index: u64) -> Self {
        Self {
            file,
            window: vec![0; HOP_BYTES_MAX],
            held: 0..0,
            hop_bytes: HOP_BYTES_MIN,
            byte,
            index,
            before: None,
        }
    }

    /// The next block, or the end; after an error or the end, the same again.
    pub(crate) fn next(&mut self) -> Result<Next, Error> {
        let byte = self.byte;
        self.hold(byte)?;
        let file = &*self.file;
        let from = (byte - self.held.start) as usize;
        let until = (self.held.end - self.held.start) as usize;
        match block::mark(&self.window[from..until], byte, self.index, file.bytes()) {
            Ok(Mark::End) => Ok(Next::End(End::Marker)),
            Ok(Mark::Block(head)) => {
                let small = (head.stored_bytes as usize) < HOP_BYTES_MAX / 4;
                self.hop_bytes = if small { HOP_BYTES_MAX } else { HOP_BYTES_MIN };
                self.byte = head.end();
                self.index += 1;
                self.before = Some(head);
                Ok(Next::Block(head))
            }
            Err(error) if may_be_open(file.header.filetype) && is_torn(file, byte, &error)? => {
                match self.what_follows(byte)? {
                    None => Ok(Next::End(End::Open { byte, torn_bytes: file.bytes() - byte })),
                    Some(found) => Err(file.place(
                        Error::new(ErrorKind::Container, "block past the end of the file")
                            .expected("nothing behind it, as behind a torn block")
                            .found(found)
                            .block(self.index, byte),
                    )),
                }
            }
            Err(error) => {
                // What is found here may be no head at all, but the middle of a block before whose length is
                // damaged.
                if let Some(before) = &self.before {
                    check(file, before)?;
                }
                Err(file.place(error))
            }
        }
    }

    /// Goes on at a block that was found elsewhere, which gets this number.
    fn jump(&mut self, byte: u64, index: u64) {
        (self.byte, self.index, self.before) = (byte, index, None);
    }

    /// What shows that the block at `byte`, which runs past the end of the file, was not torn.
    fn what_follows(&self, byte: u64) -> Result<Option<String>, Error> {
        let file = &*self.file;
        if let Some(other) = whole_block_after(file, byte, &mut search_budget(file))? {
            return Ok(Some(format!("a whole block at byte {other}")));
        }
        let marker_at = file.bytes().saturating_sub(block::MAGIC_END.len() as u64);
        let mut marker = [0; block::MAGIC_END.len()];
        if marker_at > byte {
            file.read_exact_at(&mut marker, marker_at)?;
        }
        if marker == block::MAGIC_END {
            return Ok(Some(format!("the end marker at byte {marker_at}")));
        }
        // `hold` has read the head, if there is room for one.
        let head = (self.held.end - byte >= BLOCK_HEAD_BYTES as u64)
            .then(|| self.window[(byte - self.held.start) as usize..].first_chunk())
            .flatten();
        let Some(head) = head.and_then(|head| block::reaching(head, byte, self.index, file.bytes())) else {
            return Ok(None);
        };
        match check(file, &head) {
            Ok(()) => Ok(Some(format!("{} bytes, which fit the checksum", head.stored_bytes))),
            Err(error) if error.kind() == ErrorKind::Checksum => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the window hold a head's bytes at `byte`, as far as the file has them.
    fn hold(&mut self, byte: u64) -> Result<(), Error> {
        let file_bytes = self.file.bytes();
        let needed = file_bytes.saturating_sub(byte).min(BLOCK_HEAD_BYTES as u64);
        if byte < self.held.start || byte + needed > self.held.end {
            let count = file_bytes.saturating_sub(byte).min(self.hop_bytes as u64);
            self.file.read_exact_at(&mut self.window[..count as usize], byte)?;
            self.held = byte..byte + count;
        }
        Ok(())
    }
}

/// Whether a file of this type may lack its end marker.
fn may_be_open(filetype: FileType) -> bool {
    matches!(filetype, FileType::Xlog | FileType::Vylog)
}

/// Whether what stands at `byte`, and is neither a block nor the end marker, looks like a block cut short.
fn is_torn(file: &ContainerFile, byte: u64, error: &Error) -> Result<bool, Error> {
    match error.kind() {
        ErrorKind::Truncated => Ok(true),
        ErrorKind::Container => file.is_zero_from(byte),
        _ => Ok(false),
    }
}

/// Bytes that searches in a file may compute sums of.
fn search_budget(file: &ContainerFile) -> u64 {
    SEARCH_SUM_BYTES_MIN + 2 * file.bytes()
}

/// The first whole block that begins after `byte`.
fn whole_block_after(
    file: &ContainerFile,
    byte: u64,
    sum_bytes_left: &mut u64,
) -> Result<Option<u64>, Error> {
    let file_bytes = file.bytes();
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut from = byte + 1;
    // A head and one byte of payload: what is shorter is no block.
    while from + (BLOCK_HEAD_BYTES as u64) < file_bytes {
        let count = (file_bytes - from).min(SEARCH_BYTES as u64) as usize;
        let bytes = &mut buffer[..count];
        file.read_exact_at(bytes, from)?;
        for at in 0..=count - BLOCK_HEAD_BYTES {
            if bytes[at] != block::MAGIC_PLAIN[0] {
                continue;
            }
            let candidate = from + at as u64;
            let Ok(Mark::Block(head)) = block::mark(&bytes[at..], candidate, 0, file_bytes) else { continue };
            *sum_bytes_left = sum_bytes_left.checked_sub(head.stored_bytes.into()).ok_or_else(|| {
                file.place(
                    Error::new(ErrorKind::Container, "search for whole blocks behind a torn one")
                        .expected("few places that look like one")
                        .found(format_args!("too many of them up to byte {candidate}"))
                        .byte(byte),
                )
            })?;
            match check(file, &head) {
                Ok(()) => return Ok(Some(candidate)),
                Err(error) if error.kind() == ErrorKind::Checksum => {}
                Err(error) => return Err(error),
            }
        }
        // The next part begins where no head had room in this one.
        from += (count - BLOCK_HEAD_BYTES + 1) as u64;
    }
    Ok(None)
}

/// Compares the payload of a block with its head, read in parts, for the length is doubtful.
fn check(file: &ContainerFile, head: &BlockHead) -> Result<(), Error> {
    let mut buffer = vec![0; SEARCH_BYTES.min(head.stored_bytes as usize)];
    let mut sum = block::Checksum::new();
    let mut at = head.payload_at();
    while at < head.end() {
        let part = &mut buffer[..(head.end() - at).min(SEARCH_BYTES as u64) as usize];
        file.read_exact_at(part, at)?;
        sum.add(part);
        at += part.len() as u64;
    }
    sum.check(head).map_err(|error| file.place(error))
}

/// Finds all blocks of a file, strictly: whatever is neither a block nor an end that its type may have is an
/// error. `progress` hears from time to time how many bytes of the file lie behind.
pub(crate) fn scan_heads(file: &ContainerFile, mut progress: impl FnMut(u64)) -> Result<BlockIndex, Error> {
    let mut reader = HeadReader::new(file);
    let mut heads = Vec::new();
    let mut stored_bytes = 0;
    loop {
        match reader.next()? {
            Next::Block(head) => {
                if head.index % PROGRESS_HEADS == 0 {
                    progress(head.byte);
                }
                stored_bytes += u64::from(head.stored_bytes);
                heads.push(head);
            }
            Next::End(end) => {
                progress(file.bytes());
                return Ok(BlockIndex { heads, stored_bytes, end });
            }
        }
    }
}

/// A stretch of a file that is neither a block nor an end it may have.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) bytes: Range<u64>,
    /// Number of the block that should be here.
    pub(crate) index: u64,
    pub(crate) error: Error,
}

/// What there is in a file that may be damaged.
#[derive(Debug)]
pub(crate) struct Survey {
    /// Blocks that begin where one should, or are whole.
    pub(crate) heads: Vec<BlockHead>,
    pub(crate) gaps: Vec<Gap>,
    /// If the file has one.
    pub(crate) end: Option<End>,
}

/// Finds all blocks of a file, whatever is between them; beyond `gaps_max` gaps the rest of the file is one.
///
/// # Errors
/// `Io`.
pub(crate) fn survey(file: &ContainerFile, gaps_max: usize) -> Result<Survey, Error> {
    let mut reader = HeadReader::new(file);
    let mut found = Survey { heads: Vec::new(), gaps: Vec::new(), end: None };
    let mut budget = search_budget(file);
    loop {
        match reader.next() {
            Ok(Next::Block(head)) => found.heads.push(head),
            Ok(Next::End(end)) => {
                found.end = Some(end);
                return Ok(found);
            }
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(error) => {
                // It may be the block before, whose length is damaged.
                let byte = error.place().byte.unwrap_or_else(|| file.bytes());
                let index = error.place().block.unwrap_or(0);
                while found.heads.pop_if(|head| head.byte >= byte).is_some() {}
                let next = match found.gaps.len() + 1 < gaps_max {
                    true => whole_block_after(file, byte, &mut budget),
                    false => Ok(None),
                };
                let next = match next {
                    Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                    // No file is worth more searching.
                    Err(_) => None,
                    Ok(next) => next,
                };
                let end = next.unwrap_or_else(|| file.bytes());
                found.gaps.push(Gap { bytes: byte..end.max(byte), index, error });
                match next {
                    Some(next) => reader.jump(next, index + 1),
                    None => return Ok(found),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::build;
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;
    use std::path::Path;

    fn scan(filetype: &str, blocks: &[u8]) -> Result<BlockIndex, Error> {
        let bytes = [format!("{filetype}\n0.13\nVClock: {{}}\n\n").as_bytes(), blocks].concat();
        let disk = SimulatedDisk::with("f", bytes);
        let file = ContainerFile::open(&disk, Path::new("f"))?;
        scan_heads(&file, |_| {})
    }

    #[test]
    fn a_log_may_end_anywhere_but_a_snapshot_may_not() {
        let first = build::plain(b"some rows");
        let both = [&first[..], &build::zstd(b"other rows"), &block::MAGIC_END].concat();
        for end in 0..both.len() {
            let index = scan("XLOG", &both[..end]).unwrap();
            let End::Open { byte, torn_bytes } = index.end else { panic!("cut at {end}") };
            assert_eq!(byte + torn_bytes, 22 + end as u64);
            assert_eq!(index.heads.last().map_or(22, BlockHead::end), byte);
            assert_eq!(index.heads.is_empty(), end < first.len());
            assert_eq!(scan("SNAP", &both[..end]).unwrap_err().kind(), ErrorKind::Truncated);
            assert_eq!(scan("RUN", &both[..end]).err().map(|error| error.kind()), Some(ErrorKind::Truncated));
        }
        assert_eq!(scan("XLOG", &both).unwrap().end, End::Marker);
    }

    #[test]
    fn a_length_that_points_past_the_end_hides_no_block() {
        let damaged = |length| {
            let mut bytes = build::head(block::MAGIC_PLAIN, length, block::checksum(b"rows"));
            bytes.extend_from_slice(b"rows");
            bytes
        };
        for length in [1000, 1 << 20, 1 << 31] {
            for gap in [0, 1, SEARCH_BYTES - 30, SEARCH_BYTES + 3] {
                let blocks =
                    [damaged(length + (1 << 19)), vec![0xd5; gap], build::plain(b"more"), vec![]].concat();
                let error = scan("XLOG", &blocks);
                if length + (1 << 19) > 1 << 31 {
                    assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit);
                    continue;
                }
                let error = error.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Container, "{error}");
                let text = error.to_string();
                assert!(text.ends_with(&format!("found a whole block at byte {}", 22 + 23 + gap)), "{text}");
            }
        }
        // The last block, whole but for its length; and one that is really cut.
        let blocks = [build::plain(b"more"), damaged(1000)].concat();
        let error = scan("XLOG", &blocks).unwrap_err();
        assert!(error.to_string().ends_with("found 4 bytes, which fit the checksum"), "{error}");
        let error = scan("XLOG", &[&blocks[..], &block::MAGIC_END].concat()).unwrap_err();
        assert!(error.to_string().ends_with("found the end marker at byte 68"), "{error}");
        let index = scan("XLOG", &blocks[..blocks.len() - 1]).unwrap();
        assert_eq!(index.end, End::Open { byte: 22 + 23, torn_bytes: 22 });
    }

    #[test]
    fn zeros_up_to_the_end_are_a_torn_tail_of_a_log_and_of_nothing_else() {
        let first = build::plain(b"some rows");
        for zeros in [1, 3, 4, 30, 5000] {
            let blocks = [&first[..], &vec![0; zeros]].concat();
            let end = scan("XLOG", &blocks).unwrap().end;
            assert_eq!(end, End::Open { byte: 22 + first.len() as u64, torn_bytes: zeros as u64 });
            let kind = |blocks: &[u8], filetype| scan(filetype, blocks).unwrap_err().kind();
            assert_eq!(kind(&blocks, "SNAP"), ErrorKind::Container);
            assert_eq!(kind(&[&blocks[..], b"x"].concat(), "XLOG"), ErrorKind::Container);
            assert_eq!(kind(&[&blocks[..], &build::plain(b"more")].concat(), "XLOG"), ErrorKind::Container);
            let behind_the_end = [&first[..], &block::MAGIC_END, &vec![0; zeros]].concat();
            assert_eq!(kind(&behind_the_end, "XLOG"), ErrorKind::Container);
        }
    }

    #[test]
    fn a_length_that_points_into_the_next_block_is_told_of_the_block_that_has_it() {
        let mut blocks = [build::plain(b"rows"), build::plain(b"more"), block::MAGIC_END.to_vec()].concat();
        blocks[4] += 3;
        for filetype in ["SNAP", "XLOG"] {
            let error = scan(filetype, &blocks).unwrap_err();
            assert_eq!((error.kind(), error.place().block), (ErrorKind::Checksum, Some(0)), "{error}");
        }
    }

    #[test]
    fn a_file_full_of_heads_does_not_take_for_ever() {
        // Each head claims nearly all that follows; none has the right checksum.
        let mut blocks = Vec::new();
        for number in 0..20_000u64 {
            blocks.extend(build::head(block::MAGIC_PLAIN, (19_999 - number) * 19 + 1, 1));
        }
        blocks.extend_from_slice(b"d");
        blocks.splice(0..0, build::head(block::MAGIC_PLAIN, 1 << 30, 1));
        let error = scan("XLOG", &blocks).unwrap_err();
        assert!(error.what().starts_with("search"), "{error}");
    }
}
