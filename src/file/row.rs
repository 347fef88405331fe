//! Rows: what the payload of a block holds, one after another.
//!
//! ```text
//! +--------------------------+--------------------------+
//! | header: map              | body: map                |   no body: type NOP, or the payload ends
//! +--------------------------+--------------------------+
//! a row of a snapshot, as Tarantool writes all of them:
//! 8x 00 02 [07 01] [03 n] 04 cb tttttttttttttttt   82 10 ce ssssssss 21 <tuple>
//!    type   group  number time                        space id       tuple
//! ```
//!
//! [`Row::decode`] reads any row and loses nothing: keys and types that are not known stay at hand as they
//! stand. [`snapshot_row`] is for the millions of rows of a snapshot: it recognises the form above by
//! comparing bytes and stops at the tuple's first byte, for whoever walks the tuple finds the end of the row
//! on the way. Any other form takes the general way; a test marries the two.
//!
//! Errors name row, block and file only where the caller knows them; offsets in their texts count from the
//! start of the unpacked block.

use super::header::FileType;
use crate::error::{Error, ErrorKind};
use crate::msgpack::{Fault, FaultKind, class, read, skip, write};

/// Request types: what a row is.
pub(crate) mod kind {
    pub(crate) const INSERT: u64 = 2;
    pub(crate) const REPLACE: u64 = 3;
    pub(crate) const UPDATE: u64 = 4;
    pub(crate) const DELETE: u64 = 5;
    pub(crate) const UPSERT: u64 = 9;
    pub(crate) const NOP: u64 = 12;
    pub(crate) const INSERT_ARROW: u64 = 17;
    pub(crate) const DELETE_RANGE: u64 = 18;
    pub(crate) const RAFT: u64 = 30;
    pub(crate) const RAFT_PROMOTE: u64 = 31;
    pub(crate) const RAFT_DEMOTE: u64 = 32;
    pub(crate) const RAFT_CONFIRM: u64 = 40;
    pub(crate) const RAFT_ROLLBACK: u64 = 41;
    pub(crate) const VINYL_RUN_INFO: u64 = 100;
    pub(crate) const VINYL_PAGE_INFO: u64 = 101;
    pub(crate) const VINYL_ROW_INDEX: u64 = 102;

    /// Tarantool's name of a type that occurs in files.
    pub(crate) fn name(kind: u64) -> Option<&'static str> {
        Some(match kind {
            INSERT => "INSERT",
            REPLACE => "REPLACE",
            UPDATE => "UPDATE",
            DELETE => "DELETE",
            UPSERT => "UPSERT",
            NOP => "NOP",
            INSERT_ARROW => "INSERT_ARROW",
            DELETE_RANGE => "DELETE_RANGE",
            RAFT => "RAFT",
            RAFT_PROMOTE => "RAFT_PROMOTE",
            RAFT_DEMOTE => "RAFT_DEMOTE",
            RAFT_CONFIRM => "RAFT_CONFIRM",
            RAFT_ROLLBACK => "RAFT_ROLLBACK",
            VINYL_RUN_INFO => "RUN_INFO",
            VINYL_PAGE_INFO => "PAGE_INFO",
            VINYL_ROW_INDEX => "ROW_INDEX",
            _ => return None,
        })
    }
}

/// Header keys.
mod head_key {
    pub(super) const REQUEST_TYPE: u64 = 0x00;
    pub(super) const SYNC: u64 = 0x01;
    pub(super) const REPLICA_ID: u64 = 0x02;
    pub(super) const LSN: u64 = 0x03;
    pub(super) const TIMESTAMP: u64 = 0x04;
    pub(super) const SCHEMA_VERSION: u64 = 0x05;
    pub(super) const SERVER_VERSION: u64 = 0x06;
    pub(super) const GROUP_ID: u64 = 0x07;
    pub(super) const TSN: u64 = 0x08;
    pub(super) const FLAGS: u64 = 0x09;
    pub(super) const STREAM_ID: u64 = 0x0a;
    pub(super) const THREAD_ID: u64 = 0x0b;
}

/// Body keys, by the types of request that use them.
pub(crate) mod body_key {
    pub(super) const SPACE_ID: u64 = 0x10;
    pub(super) const INDEX_ID: u64 = 0x11;
    pub(super) const INDEX_BASE: u64 = 0x15;
    pub(super) const KEY: u64 = 0x20;
    pub(super) const TUPLE: u64 = 0x21;
    pub(super) const OPS: u64 = 0x28;
    pub(super) const TUPLE_META: u64 = 0x2a;
    pub(super) const OLD_TUPLE: u64 = 0x2c;
    pub(super) const NEW_TUPLE: u64 = 0x2d;
    pub(super) const ARROW: u64 = 0x36;
    pub(super) const BEGIN_KEY: u64 = 0x37;
    pub(super) const END_KEY: u64 = 0x38;

    pub(crate) const SYNCHRO_REPLICA_ID: u64 = 0x02;
    pub(crate) const SYNCHRO_LSN: u64 = 0x03;
    pub(crate) const SYNCHRO_VCLOCK: u64 = 0x26;
    pub(crate) const SYNCHRO_TERM: u64 = 0x53;

    pub(crate) const RAFT_TERM: u64 = 0x00;
    pub(crate) const RAFT_VOTE: u64 = 0x01;
}

/// A half of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Header,
    Body,
}

/// Tarantool's name of a key in a row of type `kind`, in small letters.
pub(crate) fn key_name(part: Part, kind: u64, key: u64) -> Option<&'static str> {
    Some(match part {
        Part::Header => match key {
            head_key::REQUEST_TYPE => "type",
            head_key::SYNC => "sync",
            head_key::REPLICA_ID => "replica_id",
            head_key::LSN => "lsn",
            head_key::TIMESTAMP => "timestamp",
            head_key::SCHEMA_VERSION => "schema_version",
            head_key::SERVER_VERSION => "server_version",
            head_key::GROUP_ID => "group_id",
            head_key::TSN => "tsn",
            head_key::FLAGS => "flags",
            head_key::STREAM_ID => "stream_id",
            head_key::THREAD_ID => "thread_id",
            _ => return None,
        },
        Part::Body => match kind {
            kind::INSERT
            | kind::REPLACE
            | kind::UPDATE
            | kind::DELETE
            | kind::UPSERT
            | kind::INSERT_ARROW
            | kind::DELETE_RANGE => match key {
                body_key::SPACE_ID => "space_id",
                body_key::INDEX_ID => "index_id",
                body_key::INDEX_BASE => "index_base",
                body_key::KEY => "key",
                body_key::TUPLE => "tuple",
                body_key::OPS => "operations",
                body_key::TUPLE_META => "tuple_meta",
                body_key::OLD_TUPLE => "old_tuple",
                body_key::NEW_TUPLE => "new_tuple",
                body_key::ARROW => "arrow",
                body_key::BEGIN_KEY => "begin_key",
                body_key::END_KEY => "end_key",
                _ => return None,
            },
            kind::RAFT_PROMOTE | kind::RAFT_DEMOTE | kind::RAFT_CONFIRM | kind::RAFT_ROLLBACK => match key {
                body_key::SYNCHRO_REPLICA_ID => "replica_id",
                body_key::SYNCHRO_LSN => "lsn",
                body_key::SYNCHRO_VCLOCK => "vclock",
                body_key::SYNCHRO_TERM => "term",
                _ => return None,
            },
            kind::RAFT => match key {
                body_key::RAFT_TERM => "term",
                body_key::RAFT_VOTE => "vote",
                _ => return None,
            },
            _ => return None,
        },
    })
}

/// Ext type of an Arrow payload.
const EXT_ARROW: i8 = 8;

/// A pair of a map that is not known, as it stands in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownPair<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// A row's header; what is absent in it has Tarantool's default.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RowHead<'a> {
    /// The request type.
    pub(crate) kind: u64,
    /// Who wrote the row, and so the vclock's component that counts it: 0 for a local space, which had its
    /// writer's id up to 1.10.5 and 2.3.1.
    pub(crate) replica_id: u32,
    pub(crate) lsn: Option<u64>,
    /// Seconds since 1970.
    pub(crate) timestamp: Option<f64>,
    /// 0: replicated; 1: a local space.
    pub(crate) group_id: u32,
    /// Number of the transaction; absent: the row's own LSN, and the row ends its transaction.
    pub(crate) tsn: Option<u64>,
    /// Bit 0: the row ends its transaction.
    pub(crate) flags: u64,
    pub(crate) unknown: Vec<UnknownPair<'a>>,
}

/// A row's body. Which of these a row has depends on its type; values are slices of whole MsgPack values,
/// whose class has been checked, and their content skipped over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Body<'a> {
    pub(crate) space_id: Option<u32>,
    pub(crate) index_id: Option<u32>,
    pub(crate) index_base: Option<u32>,
    pub(crate) key: Option<&'a [u8]>,
    /// The tuple; of an UPDATE its operations.
    pub(crate) tuple: Option<&'a [u8]>,
    /// Where the tuple begins.
    pub(crate) tuple_at: usize,
    pub(crate) ops: Option<&'a [u8]>,
    pub(crate) tuple_meta: Option<&'a [u8]>,
    pub(crate) old_tuple: Option<&'a [u8]>,
    pub(crate) new_tuple: Option<&'a [u8]>,
    /// Payload of the Arrow extension.
    pub(crate) arrow: Option<&'a [u8]>,
    pub(crate) begin_key: Option<&'a [u8]>,
    pub(crate) end_key: Option<&'a [u8]>,
    /// Of synchro bodies: the owner of the queue.
    pub(crate) replica_id: Option<u32>,
    /// Of synchro bodies: up to where it is confirmed or rolled back.
    pub(crate) lsn: Option<u64>,
    /// Of synchro and RAFT bodies.
    pub(crate) term: Option<u64>,
    /// Of RAFT bodies.
    pub(crate) vote: Option<u64>,
    /// Of synchro bodies.
    pub(crate) vclock: Option<&'a [u8]>,
    /// Pairs of other keys; all pairs where the type itself is not known.
    pub(crate) unknown: Vec<UnknownPair<'a>>,
}

/// A row of any kind.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row<'a> {
    pub(crate) head: RowHead<'a>,
    pub(crate) body: Option<Body<'a>>,
    /// Where the row begins and ends in its payload.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'a> Row<'a> {
    /// The row of a snapshot or a log at `at`: classes of known keys, required keys and whole values are
    /// checked.
    pub(crate) fn decode(bytes: &'a [u8], at: usize) -> Result<Self, Error> {
        let row = Self::decode_shape(bytes, at)?;
        match row.body.as_ref().and_then(|body| body.missing(row.head.kind)) {
            None => Ok(row),
            Some((key, name)) => {
                Err(Error::new(ErrorKind::Row, format!("body of {}", kind_text(row.head.kind)))
                    .expected(format_args!("{name}, key {key:#04x}"))
                    .found(format_args!("none in the row at byte {at} of the unpacked block")))
            }
        }
    }

    /// Like [`Row::decode`], for any file: rows of vinyl's files name no space.
    pub(crate) fn decode_shape(bytes: &'a [u8], at: usize) -> Result<Self, Error> {
        let (head, body_at) = head(bytes, at)?;
        let has_body = head.kind != kind::NOP && (body_at < bytes.len() || kind::name(head.kind).is_some());
        let (body, end) = if has_body {
            let (body, end) = body(bytes, body_at, head.kind)?;
            (Some(body), end)
        } else {
            (None, body_at)
        };
        Ok(Self { head, body, start: at, end })
    }
}

/// The rows of a payload in their order; ends after the first error.
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    /// Whether rows must have the keys that those of snapshots and logs have.
    complete: bool,
    at: usize,
    index: u64,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(payload: &'a [u8], filetype: FileType) -> Self {
        let complete = matches!(filetype, FileType::Snap | FileType::Xlog);
        Self { bytes: payload, complete, at: 0, index: 0 }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let decode = if self.complete { Row::decode } else { Row::decode_shape };
        let row = decode(self.bytes, self.at).map_err(|error| error.row(self.index));
        self.at = row.as_ref().map_or(self.bytes.len(), |row| row.end);
        self.index += 1;
        Some(row)
    }
}

/// A row of a snapshot, no further read than needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SnapRow {
    Insert {
        space_id: u32,
        /// The row's number in the snapshot, counted from 0; Tarantool leaves it out in the first row.
        lsn: Option<u64>,
        /// Where the tuple begins; its first byte is an array's.
        tuple_at: usize,
        /// Where the row ends, if other keys follow the tuple. Usually the tuple ends it, and nobody has looked yet
        /// where that is.
        row_end: Option<usize>,
    },
    /// A row that brings no tuple: of RAFT, or of a type that does not belong into a snapshot.
    Other { kind: u64, lsn: Option<u64>, row_end: usize },
}

/// The row of a snapshot at `at`. Always inlined, because a result that goes through memory costs more than the rest.
#[inline(always)]
pub(crate) fn snapshot_row(bytes: &[u8], at: usize) -> Result<SnapRow, Error> {
    match usual_row(bytes, at, &[0x83, 0x00, 0x02, 0x03]) {
        Some(row) => Ok(row),
        None => snapshot_row_of_other_form(bytes, at),
    }
}

#[inline(never)]
fn snapshot_row_of_other_form(bytes: &[u8], at: usize) -> Result<SnapRow, Error> {
    // A local space may be as large as any other.
    match usual_row(bytes, at, &[0x84, 0x00, 0x02, 0x07, 0x01, 0x03]) {
        Some(row) => Ok(row),
        None => snapshot_row_in_general(bytes, at),
    }
}

/// Bytes of `04 cb tttttttttttttttt 82 10 ce ssssssss 21` and the tuple's first byte.
const TAIL_BYTES: usize = 19;

/// Bytes of the row's number, at most five here, and the tail.
const USUAL_BYTES: usize = 5 + TAIL_BYTES;

/// The row at `at` if it is `prefix`, a number of up to 32 bits, and the usual tail: one look at the bounds,
/// and then all offsets are constants.
#[inline(always)]
fn usual_row<const PREFIX: usize>(bytes: &[u8], at: usize, prefix: &[u8; PREFIX]) -> Option<SnapRow> {
    let row = bytes.get(at..)?;
    let usual: &[u8; USUAL_BYTES] = row.get(PREFIX..)?.first_chunk()?;
    if row.first_chunk::<PREFIX>()? != prefix {
        return None;
    }
    let [first, b1, b2, b3, b4, ..] = *usual;
    let (lsn, tail_at, space_id) = match first {
        0xce => (u64::from(u32::from_be_bytes([b1, b2, b3, b4])), 5, tail::<5>(usual)?),
        0xcd => (u64::from(u16::from_be_bytes([b1, b2])), 3, tail::<3>(usual)?),
        0xcc => (u64::from(b1), 2, tail::<2>(usual)?),
        number @ 0..=0x7f => (u64::from(number), 1, tail::<1>(usual)?),
        _ => return None,
    };
    let tuple_at = at + PREFIX + tail_at + TAIL_BYTES - 1;
    Some(SnapRow::Insert { space_id, lsn: Some(lsn), tuple_at, row_end: None })
}

/// The space id from the tail of a usual row; none if the tail is another.
#[inline(always)]
fn tail<const AT: usize>(usual: &[u8; USUAL_BYTES]) -> Option<u32> {
    let tail: &[u8; TAIL_BYTES] = usual[AT..].first_chunk()?;
    let is_usual = tail[0..2] == [0x04, 0xcb]
        && tail[10..13] == [0x82, 0x10, 0xce]
        && tail[17] == 0x21
        && matches!(tail[18], 0x90..=0x9f | 0xdc..=0xdd);
    is_usual.then(|| u32::from_be_bytes([tail[13], tail[14], tail[15], tail[16]]))
}

/// The slow twin of [`usual_row`], for rows of any form.
#[cold]
#[inline(never)]
fn snapshot_row_in_general(bytes: &[u8], at: usize) -> Result<SnapRow, Error> {
    let row = Row::decode(bytes, at)?;
    let lsn = row.head.lsn;
    match row.body {
        Some(Body { space_id: Some(space_id), tuple: Some(tuple), tuple_at, .. })
            if row.head.kind == kind::INSERT =>
        {
            let row_end = (tuple_at + tuple.len() != row.end).then_some(row.end);
            Ok(SnapRow::Insert { space_id, lsn, tuple_at, row_end })
        }
        _ => Ok(SnapRow::Other { kind: row.head.kind, lsn, row_end: row.end }),
    }
}

/// The header at `at` and where it ends.
fn head(bytes: &[u8], at: usize) -> Result<(RowHead<'_>, usize), Error> {
    let start = at;
    let (pairs, mut at) = read::map(bytes, at).map_err(|fault| whole(bytes, "row header", fault))?;
    let mut head = RowHead::default();
    let mut kind = None;
    let mut tsn_delta = None;
    for _ in 0..pairs {
        let pair = Pair::read(bytes, at, "row header")?;
        at = pair.end;
        match pair.key.unwrap_or(u64::MAX) {
            head_key::REQUEST_TYPE => kind = Some(pair.uint()?),
            head_key::REPLICA_ID => head.replica_id = pair.uint32()?,
            head_key::LSN => head.lsn = Some(pair.uint()?),
            head_key::TIMESTAMP => head.timestamp = Some(pair.double()?),
            head_key::GROUP_ID => head.group_id = pair.uint32()?,
            head_key::TSN => tsn_delta = Some(pair.uint()?),
            head_key::FLAGS => head.flags = pair.uint()?,
            // Known, but never in files: kept like those that are not known, once their class is checked.
            head_key::SYNC
            | head_key::SCHEMA_VERSION
            | head_key::SERVER_VERSION
            | head_key::STREAM_ID
            | head_key::THREAD_ID => {
                pair.uint()?;
                head.unknown.push(pair.unknown());
            }
            _ => head.unknown.push(pair.unknown()),
        }
    }
    head.kind = kind.ok_or_else(|| {
        Error::new(ErrorKind::Row, "row header")
            .expected("a request type, key 0x00")
            .found(format_args!("none in the header at byte {start} of the unpacked block"))
    })?;
    // Stored is how far the row is from the transaction's first one, modulo 2^64.
    head.tsn = tsn_delta.map(|delta| head.lsn.unwrap_or(0).wrapping_sub(delta));
    Ok((head, at))
}

/// The body at `at` of a row of type `kind`, and where it ends.
fn body(bytes: &[u8], at: usize, kind: u64) -> Result<(Body<'_>, usize), Error> {
    let (pairs, mut at) = read::map(bytes, at).map_err(|fault| whole(bytes, "row body", fault))?;
    let mut body = Body::default();
    for _ in 0..pairs {
        let pair = Pair::read(bytes, at, "row body")?;
        at = pair.end;
        let taken = match kind {
            kind::INSERT
            | kind::REPLACE
            | kind::UPDATE
            | kind::DELETE
            | kind::UPSERT
            | kind::INSERT_ARROW
            | kind::DELETE_RANGE => body.request(&pair)?,
            kind::RAFT_PROMOTE | kind::RAFT_DEMOTE | kind::RAFT_CONFIRM | kind::RAFT_ROLLBACK => {
                body.synchro(&pair)?
            }
            kind::RAFT => body.raft(&pair)?,
            _ => false,
        };
        if !taken {
            body.unknown.push(pair.unknown());
        }
    }
    Ok((body, at))
}

impl<'a> Body<'a> {
    /// Takes a pair of a request that changes data; false: not one of those known.
    fn request(&mut self, pair: &Pair<'a>) -> Result<bool, Error> {
        match pair.key.unwrap_or(u64::MAX) {
            body_key::SPACE_ID => self.space_id = Some(pair.uint32()?),
            body_key::INDEX_ID => self.index_id = Some(pair.uint32()?),
            body_key::INDEX_BASE => self.index_base = Some(pair.uint32()?),
            body_key::KEY => self.key = Some(pair.of(class::ARRAY, "array")?),
            body_key::TUPLE => {
                self.tuple = Some(pair.of(class::ARRAY, "array")?);
                self.tuple_at = pair.value_at;
            }
            body_key::OPS => self.ops = Some(pair.of(class::ARRAY, "array")?),
            body_key::TUPLE_META => self.tuple_meta = Some(pair.of(class::MAP, "map")?),
            body_key::OLD_TUPLE => self.old_tuple = Some(pair.of(class::ARRAY, "array")?),
            body_key::NEW_TUPLE => self.new_tuple = Some(pair.of(class::ARRAY, "array")?),
            body_key::ARROW => self.arrow = Some(pair.ext(EXT_ARROW, "extension of type 8")?),
            body_key::BEGIN_KEY => self.begin_key = Some(pair.of(class::ARRAY, "array")?),
            body_key::END_KEY => self.end_key = Some(pair.of(class::ARRAY, "array")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn synchro(&mut self, pair: &Pair<'a>) -> Result<bool, Error> {
        match pair.key.unwrap_or(u64::MAX) {
            body_key::SYNCHRO_REPLICA_ID => self.replica_id = Some(pair.uint32()?),
            body_key::SYNCHRO_LSN => self.lsn = Some(pair.uint()?),
            body_key::SYNCHRO_TERM => self.term = Some(pair.uint()?),
            body_key::SYNCHRO_VCLOCK => self.vclock = Some(pair.of(class::MAP, "map")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn raft(&mut self, pair: &Pair<'a>) -> Result<bool, Error> {
        match pair.key.unwrap_or(u64::MAX) {
            body_key::RAFT_TERM => self.term = Some(pair.uint()?),
            body_key::RAFT_VOTE => self.vote = Some(pair.uint()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The first required key that the body of a row of type `kind` lacks.
    fn missing(&self, kind: u64) -> Option<(u64, &'static str)> {
        let space_id = (body_key::SPACE_ID, "space id", self.space_id.is_some());
        let key = (body_key::KEY, "key", self.key.is_some());
        let tuple = (body_key::TUPLE, "tuple", self.tuple.is_some());
        let operations = (body_key::TUPLE, "operations", self.tuple.is_some());
        let ops = (body_key::OPS, "operations", self.ops.is_some());
        let arrow = (body_key::ARROW, "arrow", self.arrow.is_some());
        let begin_key = (body_key::BEGIN_KEY, "begin key", self.begin_key.is_some());
        let end_key = (body_key::END_KEY, "end key", self.end_key.is_some());
        let required: &[(u64, &'static str, bool)] = match kind {
            kind::INSERT | kind::REPLACE => &[space_id, tuple],
            kind::UPDATE => &[space_id, key, operations],
            kind::DELETE => &[space_id, key],
            kind::UPSERT => &[space_id, ops, tuple],
            kind::INSERT_ARROW => &[space_id, arrow],
            kind::DELETE_RANGE => &[space_id, begin_key, end_key],
            _ => &[],
        };
        required.iter().find(|(.., there)| !there).map(|&(key, name, _)| (key, name))
    }
}

/// A pair of a header or body map.
struct Pair<'a> {
    bytes: &'a [u8],
    /// "row header" or "row body".
    part: &'static str,
    key_at: usize,
    /// The key, if it is an unsigned number; others are never known.
    key: Option<u64>,
    value_at: usize,
    end: usize,
}

impl<'a> Pair<'a> {
    fn read(bytes: &'a [u8], at: usize, part: &'static str) -> Result<Self, Error> {
        let (key, value_at) = match read::uint(bytes, at) {
            Ok((key, value_at)) => (Some(key), value_at),
            Err(_) => (None, skip::skip(bytes, at).map_err(|fault| whole(bytes, part, fault))?),
        };
        let end = skip::skip(bytes, value_at).map_err(|fault| whole(bytes, part, fault))?;
        Ok(Self { bytes, part, key_at: at, key, value_at, end })
    }

    fn value(&self) -> &'a [u8] {
        &self.bytes[self.value_at..self.end]
    }

    fn unknown(&self) -> UnknownPair<'a> {
        UnknownPair { key: &self.bytes[self.key_at..self.value_at], value: self.value() }
    }

    fn wrong(&self, expected: &'static str) -> Error {
        let what = match self.key {
            Some(key) => format!("{}, key {key:#04x}", self.part),
            None => self.part.into(),
        };
        whole(self.bytes, &what, Fault::new(self.value_at, FaultKind::Class(expected)))
    }

    fn uint(&self) -> Result<u64, Error> {
        read::uint(self.bytes, self.value_at).map(|(number, _)| number).map_err(|_| self.wrong("unsigned"))
    }

    fn uint32(&self) -> Result<u32, Error> {
        u32::try_from(self.uint()?).map_err(|_| self.wrong("unsigned of 32 bits"))
    }

    fn double(&self) -> Result<f64, Error> {
        if !read::is(self.bytes, self.value_at, class::FLOAT64) {
            return Err(self.wrong("double"));
        }
        read::float(self.bytes, self.value_at).map(|(number, _)| number).map_err(|_| self.wrong("double"))
    }

    fn of(&self, mask: u16, expected: &'static str) -> Result<&'a [u8], Error> {
        if read::is(self.bytes, self.value_at, mask) { Ok(self.value()) } else { Err(self.wrong(expected)) }
    }

    fn ext(&self, ext_type: i8, expected: &'static str) -> Result<&'a [u8], Error> {
        match read::ext(self.bytes, self.value_at) {
            Ok(((found, payload), _)) if found == ext_type => Ok(payload),
            _ => Err(self.wrong(expected)),
        }
    }
}

/// An error about a part of a row from a fault of its MsgPack.
#[cold]
fn whole(bytes: &[u8], what: &str, fault: Fault) -> Error {
    let kind = match fault.kind {
        FaultKind::Class(_) => ErrorKind::Row,
        _ => ErrorKind::MsgPack,
    };
    let found = match bytes.get(fault.at) {
        Some(_) => fault.found(bytes),
        None => "the end of the block".into(),
    };
    Error::new(kind, what)
        .expected(fault.expected())
        .found(format_args!("{found} at byte {} of the unpacked block", fault.at))
}

/// A row that is to be written to a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowOut<'a> {
    kind: u64,
    /// Of a local space, or a row that concerns its instance alone.
    is_local: bool,
    /// Present where the body is a tuple of this space.
    space_id: Option<u32>,
    /// The tuple, or the whole body.
    bytes: &'a [u8],
}

impl<'a> RowOut<'a> {
    /// A tuple of a space.
    pub(crate) fn insert(space_id: u32, is_local: bool, tuple: &'a [u8]) -> Self {
        Self { kind: kind::INSERT, is_local, space_id: Some(space_id), bytes: tuple }
    }

    /// A row of a type that brings no tuple.
    pub(crate) fn other(kind: u64, is_local: bool, body: &'a [u8]) -> Self {
        Self { kind, is_local, space_id: None, bytes: body }
    }

    /// Bytes of its tuple, if it brings one.
    pub(crate) fn tuple_bytes(&self) -> u64 {
        self.space_id.map_or(0, |_| self.bytes.len() as u64)
    }

    /// Bytes of the row as the one of this number.
    pub(crate) fn snapshot_bytes(&self, number: u64) -> usize {
        let number_bytes = match number {
            0 => 0,
            1..=0x7f => 2,
            0x80..=0xff => 3,
            0x100..=0xffff => 4,
            0x1_0000..=0xffff_ffff => 6,
            _ => 10,
        };
        let local_bytes = if self.is_local { 2 } else { 0 };
        let space_bytes = if self.space_id.is_some() { 8 } else { 0 };
        1 + 2 + local_bytes + number_bytes + 10 + space_bytes + self.bytes.len()
    }

    /// Writes the row as Tarantool writes it to a snapshot: the first row goes without its number, which is 0.
    #[inline]
    pub(crate) fn write_to_snapshot(&self, out: &mut Vec<u8>, number: u64, time: f64) {
        let pairs = 2 + u32::from(self.is_local) + u32::from(number != 0);
        write::map(out, pairs);
        let mut pair = |key: u64, value: u64| {
            write::uint(out, key);
            write::uint(out, value);
        };
        pair(head_key::REQUEST_TYPE, self.kind);
        if self.is_local {
            pair(head_key::GROUP_ID, 1);
        }
        if number != 0 {
            pair(head_key::LSN, number);
        }
        write::uint(out, head_key::TIMESTAMP);
        write::double(out, time);
        if let Some(space_id) = self.space_id {
            out.extend_from_slice(&[0x82, body_key::SPACE_ID as u8, 0xce]);
            out.extend_from_slice(&space_id.to_be_bytes());
            out.push(body_key::TUPLE as u8);
        }
        out.extend_from_slice(self.bytes);
    }
}

/// The name of a request type, or its number.
pub(crate) fn kind_text(kind: u64) -> String {
    kind::name(kind).map_or_else(|| format!("type {kind}"), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::unhex as bytes;

    const TIME: &str = "04 cb41dac3785c15f626";

    #[test]
    fn a_row_of_a_log_is_read_key_by_key() {
        let row = bytes("8600020201030f 04cb41dac3785c15f626 0801 0901 8310cd020020910121920102");
        let row = Row::decode(&row, 0).unwrap();
        assert_eq!(row.head.kind, kind::INSERT);
        assert_eq!((row.head.replica_id, row.head.lsn, row.head.tsn), (1, Some(15), Some(14)));
        assert_eq!(row.head.flags, 1);
        let body = row.body.unwrap();
        assert_eq!(body.space_id, Some(512));
        assert_eq!(body.key, Some(&[0x91, 1][..]));
        assert_eq!((body.tuple, body.tuple_at), (Some(&[0x92, 1, 2][..]), 30));
        assert_eq!(row.end, 33);
    }

    #[test]
    fn a_transaction_number_may_be_ahead_of_its_row() {
        // lsn 2, tsn 22
        let row = bytes("84 000c 0701 0302 08cfffffffffffffffec");
        let head = Row::decode(&row, 0).unwrap().head;
        assert_eq!((head.tsn, head.flags, head.replica_id), (Some(22), 0, 0));
    }

    #[test]
    fn the_drawing_of_a_snapshot_row_holds() {
        let row = bytes(&format!("84 0002 0701 0305 {TIME} 82 10 ce00000200 21 9101"));
        let expected = SnapRow::Insert { space_id: 512, lsn: Some(5), tuple_at: 25, row_end: None };
        assert_eq!(snapshot_row(&row, 0).unwrap(), expected);
    }

    /// `snapshot_row` and its slow twin agree on `row` at any place.
    fn marry(row: &[u8]) -> SnapRow {
        let fast = snapshot_row(row, 0).unwrap();
        assert_eq!(fast, snapshot_row_in_general(row, 0).unwrap(), "{row:x?}");
        let moved = [&[0xc1; 7], row].concat();
        assert_eq!(snapshot_row(&moved, 7).unwrap(), snapshot_row_in_general(&moved, 7).unwrap());
        fast
    }

    #[test]
    fn the_fast_and_the_general_way_through_a_row_agree() {
        let numbers = [
            ("", 0u64, None),
            ("0300", 1, Some(0)),
            ("037f", 1, Some(127)),
            ("03cc80", 1, Some(128)),
            ("03cd0100", 1, Some(256)),
            ("03ce00010000", 1, Some(65_536)),
            ("03cf0000000100000000", 1, Some(1 << 32)),
        ];
        for (number, keys, lsn) in numbers {
            for (group, group_keys) in [("", 0), ("0701", 1), ("0700", 1), ("0702", 1)] {
                for tuple in ["90", "9101", "dc000101", "dd0000000101", "91a161", "92c0d9020000"] {
                    let keys = 0x82 + keys + group_keys;
                    let text = format!("{keys:02x} 0002 {group} {number} {TIME} 82 10 ce00000119 21 {tuple}");
                    let row = bytes(&text);
                    let found = marry(&row);
                    let SnapRow::Insert { space_id: 281, lsn: found_lsn, tuple_at, row_end: None } = found
                    else {
                        panic!("{text}: {found:?}")
                    };
                    assert_eq!(found_lsn, lsn);
                    assert_eq!(row[tuple_at..], bytes(tuple));
                }
            }
        }
        // Other forms, which only the general way knows.
        for text in [
            "810002 8210cd011021 94a776657273696f6e020301".to_string(),
            format!("83 0002 0305 {TIME} 82 21 91a161 10 ce00000200"),
            format!("83 0305 0002 {TIME} 82 10 ce00000200 21 9101"),
            format!("83 0002 0305 {TIME} 83 10 ce00000200 21 9101 2a 80"),
            format!("83 0002 0305 {TIME} 83 10 ce00000200 21 9102 21 9101"),
            format!("84 0002 0305 {TIME} 7f a161 82 10 ce00000200 21 9101"),
            format!("84 001e 0701 03cd0201 {TIME} 810001"),
            format!("83 001f 03cd0201 {TIME} 84 0200 0300 5300 2680"),
            format!("83 0003 03cd0201 {TIME} 82 10 ce00000200 21 9101"),
            "81 00 cd1000".to_string(),
        ] {
            marry(&bytes(&text));
        }
    }

    #[test]
    fn any_change_of_one_byte_leaves_the_two_ways_in_agreement() {
        let row = bytes(&format!("83 0002 03ce00010000 {TIME} 82 10 ce00000119 21 93a161cd0100c0"));
        for at in 0..row.len() {
            for byte in 0..=255 {
                let mut row = row.clone();
                row[at] = byte;
                if let Some(fast) = usual_row(&row, 0, &[0x83, 0x00, 0x02, 0x03]) {
                    // The fast way leaves the tuple to the caller's walk.
                    match snapshot_row_in_general(&row, 0) {
                        Ok(general) => assert_eq!(fast, general),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::MsgPack, "{error}"),
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_that_goes_on_after_its_tuple_says_where_it_ends() {
        let row = bytes(&format!("83 0002 0305 {TIME} 82 21 91a161 10 ce00000200"));
        let SnapRow::Insert { space_id: 512, tuple_at, row_end: Some(row_end), .. } = marry(&row) else {
            panic!()
        };
        assert_eq!(row[tuple_at], 0x91);
        assert_eq!(row_end, row.len());
    }

    #[test]
    fn the_odd_rows_are_read() {
        let raft = bytes(&format!("84 001e 0701 0305 {TIME} 82 0003 0101"));
        let body = Row::decode(&raft, 0).unwrap().body.unwrap();
        assert_eq!((body.term, body.vote), (Some(3), Some(1)));
        let promote = bytes(&format!("83 001f 0305 {TIME} 84 0200 0300 5300 2680"));
        let body = Row::decode(&promote, 0).unwrap().body.unwrap();
        assert_eq!(
            (body.replica_id, body.lsn, body.term, body.vclock),
            (Some(0), Some(0), Some(0), Some(&[0x80][..]))
        );
        let confirm = bytes(&format!("83 0028 0305 {TIME} 82 0201 0307"));
        assert_eq!(Row::decode(&confirm, 0).unwrap().body.unwrap().lsn, Some(7));
    }

    #[test]
    fn a_nop_has_no_body_and_the_next_row_follows() {
        let payload = bytes("83 000c 0201 0307 83 0002 0201 0308 82 10 cd0200 21 9101");
        let rows: Vec<_> = Rows::new(&payload, FileType::Xlog).collect::<Result<_, _>>().unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].head.kind, rows[0].body.is_none(), rows[0].end), (kind::NOP, true, 7));
        assert_eq!(rows[1].start, 7);
    }

    #[test]
    fn unknown_keys_and_types_are_kept() {
        let row = bytes("83 00cd0200 a16b93010203 0c c3 82 10 01 a178 80");
        let row = Row::decode(&row, 0).unwrap();
        assert_eq!(row.head.kind, 512);
        let [named, numbered] = row.head.unknown[..] else { panic!() };
        assert_eq!((named.key, named.value), (&[0xa1, 0x6b][..], &[0x93, 1, 2, 3][..]));
        assert_eq!((numbered.key, numbered.value), (&[0x0c][..], &[0xc3][..]));
        assert_eq!(row.body.unwrap().unknown.len(), 2);
        assert!(Row::decode(&bytes("81 00cd0200"), 0).unwrap().body.is_none());
    }

    #[test]
    fn rows_of_vinyl_name_no_space() {
        let payload = bytes("81 0002 8121 9101");
        assert!(Rows::new(&payload, FileType::Vylog).all(|row| row.is_ok()));
        assert!(Rows::new(&payload, FileType::Xlog).any(|row| row.is_err()));
    }

    #[test]
    fn a_bad_row_says_what_was_expected() {
        let cases = [
            ("91", "row header: expected map, found array (byte 0x91) at byte 0"),
            ("80", "row header: expected a request type, key 0x00, found none in the header at byte 0"),
            ("81 00 a0", "row header, key 0x00: expected unsigned, found string (byte 0xa0) at byte 2"),
            (
                "82 0002 04 ca00000000 8210 01 21 90",
                "row header, key 0x04: expected double, found float (byte 0xca) at byte 4",
            ),
            ("81 0002", "row body: expected a whole MsgPack value, found the end of the block at byte 3"),
            ("81 0002 90", "row body: expected map, found array (byte 0x90) at byte 3"),
            ("81 0002 8110 01", "body of INSERT: expected tuple, key 0x21, found none in the row at byte 0"),
            (
                "81 0002 8121 90",
                "body of INSERT: expected space id, key 0x10, found none in the row at byte 0",
            ),
            ("81 0002 8210 01 21 80", "row body, key 0x21: expected array, found map (byte 0x80) at byte 7"),
            (
                "81 0002 8210 cf0000000100000000 21 90",
                "row body, key 0x10: expected unsigned of 32 bits, found unsigned (byte 0xcf) at byte 5",
            ),
            (
                "81 0004 8310 01 20 90 28 90",
                "body of UPDATE: expected operations, key 0x21, found none in the row at byte 0",
            ),
            (
                "81 0002 8210 01 21 91c1",
                "row body: expected the first byte of a MsgPack value, found no MsgPack value (byte 0xc1) \
                 at byte 8",
            ),
        ];
        for (text, message) in cases {
            let row = bytes(text);
            let message = format!("{message} of the unpacked block");
            assert_eq!(Row::decode(&row, 0).unwrap_err().to_string(), message);
            assert_eq!(snapshot_row(&row, 0).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn every_cut_of_a_row_is_an_error() {
        let row = bytes(&format!("84 0002 0701 0305 {TIME} 83 10 ce00000200 11 01 21 92a16101"));
        for end in 0..row.len() {
            assert!(Row::decode(&row[..end], 0).is_err(), "cut at {end}");
            assert!(snapshot_row(&row[..end], 0).is_err(), "cut at {end}");
        }
    }
}
