//! Rows of logs in a compact form: what framing and replay ask of a row, as numbers and offsets into its payload.
//!
//! ```text
//! a row of a log, as Tarantool writes most of them, with numbers of any width:
//! 8x 00 type [02 replica] [07 group] 03 lsn 04 cb tttttttttttttttt [08 tsn] [09 flags]
//! 8x 10 space [11 index] [15 base] [20 <key>] [28 <operations>] [21 <tuple or operations>]    no body: type NOP
//! ```
//!
//! A [`Record`] owns nothing, so that a thread decodes block after block into one vector and gives it away whole.
//! [`Record::decode`] knows the form above and hands the rest to [`Row::decode`], which knows all rows; a test
//! marries the two. What a record leaves out (bodies of RAFT and of synchronous replication, keys that are not
//! known) is read again from the row's bytes by those few who need it: [`LogRow::whole`].

use super::row::{Row, kind};
use crate::error::Error;
use crate::msgpack::{class, read, skip};

/// A flag of a row: it is the last of its transaction.
pub(super) const COMMIT: u64 = 1;

/// Where a value stands in its payload; no value: nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        // A payload has at most 2 GiB.
        Self { start: start as u32, end: end as u32 }
    }

    /// Where `value`, a slice of `bytes`, stands in it.
    fn of(bytes: &[u8], value: Option<&[u8]>) -> Self {
        value.map_or_else(Self::default, |value| {
            let start = value.as_ptr().addr() - bytes.as_ptr().addr();
            Self::new(start, start + value.len())
        })
    }

    #[inline]
    fn is_some(self) -> bool {
        self.end != 0
    }

    #[inline]
    fn get(self, bytes: &[u8]) -> Option<&[u8]> {
        self.is_some().then(|| &bytes[self.start as usize..self.end as usize])
    }

    fn moved(self, from: u32, to: u32) -> Self {
        if !self.is_some() {
            return self;
        }
        Self { start: self.start - from + to, end: self.end - from + to }
    }
}

/// A kind that takes more than 32 bits: nobody knows one.
const KIND_BEYOND: u32 = u32::MAX;

/// No time: bits of a NaN that nobody writes.
const NO_TIME: u64 = u64::MAX;

/// A row of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// 0: none.
    pub(super) lsn: u64,
    pub(super) tsn: u64,
    timestamp: u64,
    kind: u32,
    pub(super) replica_id: u32,
    space_id: u32,
    index_id: u32,
    index_base: u32,
    key: Span,
    tuple: Span,
    ops: Span,
    /// The whole row.
    row: Span,
    /// Number of the row in its block, from 0.
    pub(super) number: u32,
    flags: u8,
    pub(super) is_local: bool,
    /// Whether it ends its transaction.
    pub(super) is_last: bool,
    has_space: bool,
    /// It has the usual form, so that these are all the keys it has.
    is_usual: bool,
}

/// There are as many in memory as a block has rows, and a row may have three bytes.
const _: () = assert!(size_of::<Record>() <= 88);

const NOTHING: Record = Record {
    lsn: 0,
    tsn: 0,
    timestamp: NO_TIME,
    kind: 0,
    replica_id: 0,
    space_id: 0,
    index_id: 0,
    index_base: 0,
    key: Span { start: 0, end: 0 },
    tuple: Span { start: 0, end: 0 },
    ops: Span { start: 0, end: 0 },
    row: Span { start: 0, end: 0 },
    number: 0,
    flags: 0,
    is_local: false,
    is_last: true,
    has_space: false,
    is_usual: false,
};

impl Record {
    /// The row at `at` of a payload, the row of that `number` in its block.
    #[inline]
    pub(super) fn decode(bytes: &[u8], at: usize, number: u32) -> Result<Self, Error> {
        let mut record = match usual(bytes, at) {
            Some(record) => Self { is_usual: true, ..record },
            None => Self::decode_in_general(bytes, at)?,
        };
        record.number = number;
        Ok(record)
    }

    /// The slow twin of [`usual`], for rows of any form.
    #[cold]
    #[inline(never)]
    fn decode_in_general(bytes: &[u8], at: usize) -> Result<Self, Error> {
        let Row { head, body, start, end } = Row::decode(bytes, at)?;
        let body = body.unwrap_or_default();
        let lsn = head.lsn.unwrap_or(0);
        Ok(Self {
            lsn,
            tsn: head.tsn.unwrap_or(lsn),
            timestamp: head.timestamp.map_or(NO_TIME, f64::to_bits),
            kind: u32::try_from(head.kind).unwrap_or(KIND_BEYOND),
            replica_id: head.replica_id,
            space_id: body.space_id.unwrap_or(0),
            index_id: body.index_id.unwrap_or(0),
            index_base: body.index_base.unwrap_or(0),
            key: Span::of(bytes, body.key),
            tuple: Span::of(bytes, body.tuple),
            ops: Span::of(bytes, body.ops),
            row: Span::new(start, end),
            number: 0,
            flags: head.flags as u8,
            is_local: head.group_id == 1,
            is_last: head.tsn.is_none() || head.flags & COMMIT != 0,
            has_space: body.space_id.is_some(),
            is_usual: false,
        })
    }

    /// Where the next row of the payload begins.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.row.end as usize
    }

    /// Bytes of the row.
    pub(super) fn bytes<'a>(&self, payload: &'a [u8]) -> &'a [u8] {
        &payload[self.row.start as usize..self.row.end as usize]
    }

    /// The record of the same row, copied to `to` in another buffer.
    pub(super) fn moved(self, to: usize) -> Self {
        let (from, to) = (self.row.start, to as u32);
        let moved = |span: Span| span.moved(from, to);
        Self {
            key: moved(self.key),
            tuple: moved(self.tuple),
            ops: moved(self.ops),
            row: moved(self.row),
            ..self
        }
    }

    /// Seconds since 1970.
    #[inline]
    pub(super) fn timestamp(&self) -> Option<f64> {
        (self.timestamp != NO_TIME).then(|| f64::from_bits(self.timestamp))
    }

    /// Whether the row is of RAFT or of synchronous replication: those are transactions of their own.
    pub(super) fn is_alone(&self) -> bool {
        matches!(
            self.kind.into(),
            kind::RAFT | kind::RAFT_PROMOTE | kind::RAFT_DEMOTE | kind::RAFT_CONFIRM | kind::RAFT_ROLLBACK
        )
    }
}

/// The row at `at` if it has the usual form, with its keys in the order in which Tarantool writes them: then it is a
/// few comparisons that always end alike, and no choice among keys.
#[inline]
fn usual(bytes: &[u8], at: usize) -> Option<Record> {
    let mut record = NOTHING;
    let mut head = Pairs::new(bytes, at)?;
    head.has(0x00).then_some(())?;
    record.kind = head.uint32()?;
    // A key with the value that its absence means is not usual: what is usual can be written again from the record.
    if head.has(0x02) {
        record.replica_id = head.uint32().filter(|&id| id != 0)?;
    }
    if head.has(0x07) {
        record.is_local = head.uint().filter(|&group| group == 1).is_some();
        record.is_local.then_some(())?;
    }
    if head.has(0x03) {
        record.lsn = head.uint().filter(|&lsn| lsn != 0)?;
    }
    if head.has(0x04) {
        record.timestamp = head.double()?;
    }
    record.tsn = record.lsn;
    if head.has(0x08) {
        record.tsn = record.lsn.wrapping_sub(head.uint()?);
        record.is_last = false;
    }
    if head.has(0x09) {
        record.flags = u8::try_from(head.uint()?).ok().filter(|&flags| flags != 0)?;
        let commits = u64::from(record.flags) & COMMIT != 0;
        (!commits || !record.is_last).then_some(())?;
        record.is_last |= commits;
    }
    let end = head.end()?;
    let end = if u64::from(record.kind) == kind::NOP { end } else { usual_body(bytes, end, &mut record)? };
    record.row = Span::new(at, end);
    Some(record)
}

#[inline]
fn usual_body(bytes: &[u8], at: usize, record: &mut Record) -> Option<usize> {
    let mut body = Pairs::new(bytes, at)?;
    body.has(0x10).then_some(())?;
    (record.space_id, record.has_space) = (body.uint32()?, true);
    if body.has(0x11) {
        record.index_id = body.uint32().filter(|&id| id != 0)?;
    }
    if body.has(0x15) {
        record.index_base = body.uint32().filter(|&base| base != 0)?;
    }
    if body.has(0x20) {
        record.key = body.array()?;
    }
    if body.has(0x28) {
        record.ops = body.array()?;
    }
    if body.has(0x21) {
        record.tuple = body.array()?;
    }
    let has_all = match u64::from(record.kind) {
        kind::INSERT | kind::REPLACE => record.tuple.is_some(),
        kind::UPDATE => record.key.is_some() && record.tuple.is_some(),
        kind::DELETE => record.key.is_some(),
        kind::UPSERT => record.ops.is_some() && record.tuple.is_some(),
        _ => false,
    };
    body.end().filter(|_| has_all)
}

/// The pairs of a short map, one after another.
struct Pairs<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u8,
}

impl<'a> Pairs<'a> {
    #[inline]
    fn new(bytes: &'a [u8], at: usize) -> Option<Self> {
        match *bytes.get(at)? {
            map @ 0x80..=0x8f => Some(Self { bytes, at: at + 1, left: map & 0x0f }),
            _ => None,
        }
    }

    /// Takes the next key if it is this one.
    #[inline]
    fn has(&mut self, key: u8) -> bool {
        if self.left == 0 || self.bytes.get(self.at) != Some(&key) {
            return false;
        }
        self.at += 1;
        self.left -= 1;
        true
    }

    #[inline(always)]
    fn uint(&mut self) -> Option<u64> {
        let (number, end) = read::uint(self.bytes, self.at).ok()?;
        self.at = end;
        Some(number)
    }

    #[inline]
    fn uint32(&mut self) -> Option<u32> {
        u32::try_from(self.uint()?).ok()
    }

    /// The bits of a double.
    #[inline]
    fn double(&mut self) -> Option<u64> {
        let bytes = self.bytes.get(self.at..)?.first_chunk::<9>()?;
        self.at += bytes.len();
        (bytes[0] == 0xcb).then_some(u64::from_be_bytes(*bytes.last_chunk()?))
    }

    #[inline]
    fn array(&mut self) -> Option<Span> {
        let start = self.at;
        if !read::is(self.bytes, start, class::ARRAY) {
            return None;
        }
        self.at = skip::skip(self.bytes, start).ok()?;
        Some(Span::new(start, self.at))
    }

    /// Where the map ends, if no pair is left.
    #[inline]
    fn end(&self) -> Option<usize> {
        (self.left == 0).then_some(self.at)
    }
}

/// A row of a log with its bytes at hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogRow<'a> {
    record: &'a Record,
    bytes: &'a [u8],
}

impl<'a> LogRow<'a> {
    /// `bytes`: those that the record's offsets count from.
    pub(super) fn new(record: &'a Record, bytes: &'a [u8]) -> Self {
        Self { record, bytes }
    }

    /// The request type.
    #[inline]
    pub(crate) fn kind(&self) -> u64 {
        match self.record.kind {
            KIND_BEYOND => self.whole().map_or(KIND_BEYOND.into(), |row| row.head.kind),
            kind => kind.into(),
        }
    }

    /// Who wrote the row; 0: a row of a local space.
    #[inline]
    pub(crate) fn replica_id(&self) -> u32 {
        self.record.replica_id
    }

    #[inline]
    pub(crate) fn lsn(&self) -> u64 {
        self.record.lsn
    }

    /// Seconds since 1970.
    #[inline]
    pub(crate) fn timestamp(&self) -> Option<f64> {
        self.record.timestamp()
    }

    /// Of its transaction.
    #[inline]
    pub(crate) fn tsn(&self) -> u64 {
        self.record.tsn
    }

    /// Header and body.
    #[inline]
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.record.bytes(self.bytes)
    }

    /// Whether the row is all that can be asked of it here.
    #[inline]
    pub(super) fn is_usual(&self) -> bool {
        self.record.is_usual
    }

    /// Whether a usual row says a TSN.
    #[inline]
    pub(super) fn says_tsn(&self) -> bool {
        !self.record.is_last || u64::from(self.record.flags) & COMMIT != 0
    }

    /// Whether the row is of a local space, which is not replicated.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.record.is_local
    }

    /// Bit 0: the row ends its transaction (it may do so without the bit); 1: the transaction waits for the queue of
    /// synchronous ones; 2: it needs a quorum itself.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.record.flags
    }

    /// Requests that change data have one.
    #[inline]
    pub(crate) fn space_id(&self) -> Option<u32> {
        self.record.has_space.then_some(self.record.space_id)
    }

    #[inline]
    pub(crate) fn index_id(&self) -> u32 {
        self.record.index_id
    }

    /// What operations count fields from.
    #[inline]
    pub(crate) fn index_base(&self) -> u32 {
        self.record.index_base
    }

    /// Of an UPDATE or DELETE: an array.
    #[inline]
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        self.record.key.get(self.bytes)
    }

    /// Of an INSERT, REPLACE or UPSERT the tuple, of an UPDATE the operations: an array.
    #[inline]
    pub(crate) fn tuple(&self) -> Option<&'a [u8]> {
        self.record.tuple.get(self.bytes)
    }

    /// The operations of an UPSERT: an array.
    #[inline]
    pub(crate) fn ops(&self) -> Option<&'a [u8]> {
        self.record.ops.get(self.bytes)
    }

    /// The row with all that it holds; offsets in it count from the row's first byte.
    pub(crate) fn whole(&self) -> Result<Row<'a>, Error> {
        Row::decode(self.record.bytes(self.bytes), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::unhex;

    const TIME: &str = "04cb41dac3785c15f626";

    /// Rows in the usual form, of all kinds that have one.
    fn usual_rows() -> Vec<Vec<u8>> {
        let heads = |kind: u8| {
            [
                format!("84 00{kind:02x} 0201 030d {TIME}"),
                format!("85 00{kind:02x} 0201 03cd0100 {TIME} 0800"),
                format!("86 00{kind:02x} 0201 03ce00010000 {TIME} 0801 0901"),
                format!("86 00{kind:02x} 0701 03cf0000000100000000 {TIME} 08cffffffffffffffff4 0901"),
                format!("85 00{kind:02x} 021f 030d {TIME} 0906"),
                format!("81 00{kind:02x}"),
            ]
        };
        let bodies: &[(u8, &[&str])] = &[
            (2, &["82 10cd0200 21 9101", "83 10ce00000200 1101 21 92a16181a162c0"]),
            (3, &["82 1005 21 90", "82 10cd0200 21 dc000101"]),
            (4, &["83 10cd0200 20 9101 21 9193a12b0201", "85 10cd0200 1102 1501 20 9101 21 90"]),
            (5, &["82 10cd0200 20 9101", "83 10cd0200 1101 20 92a1610c"]),
            (9, &["84 10cd0200 1501 28 9193a12b0201 21 920102", "83 10cd0200 28 90 21 90"]),
            (12, &[""]),
        ];
        let mut rows = Vec::new();
        for &(kind, bodies) in bodies {
            for head in heads(kind) {
                rows.extend(bodies.iter().map(|body| unhex(&format!("{head} {body}"))));
            }
        }
        rows
    }

    /// `usual` says nothing about `bytes`, or what its slow twin says.
    fn marry(bytes: &[u8]) -> bool {
        let Some(fast) = usual(bytes, 0) else { return false };
        assert_eq!(fast, Record::decode_in_general(bytes, 0).unwrap(), "{bytes:x?}");
        true
    }

    #[test]
    fn the_fast_and_the_general_way_through_a_row_agree() {
        for row in usual_rows() {
            assert!(marry(&row), "{row:x?}");
            // Elsewhere in a payload, and with another row behind it.
            let moved = [&[0xc1; 7], &row[..], &[0x81, 0x00, 0x0c]].concat();
            let record = Record::decode(&moved, 7, 3).unwrap();
            assert_eq!(
                record,
                Record { number: 3, is_usual: true, ..Record::decode_in_general(&moved, 7).unwrap() }
            );
            assert_eq!((record.bytes(&moved), record.end()), (&row[..], 7 + row.len()));
            assert_eq!(record.moved(0).number, 3);
            assert_eq!(record.moved(0).end(), row.len());
            let (here, there) = (record.moved(0), record);
            let (here, there) = (LogRow::new(&here, &row), LogRow::new(&there, &moved));
            assert_eq!((here.key(), here.tuple(), here.ops()), (there.key(), there.tuple(), there.ops()));
            assert_eq!(here.whole().unwrap(), there.whole().unwrap());
        }
    }

    #[test]
    fn any_change_of_one_byte_and_any_cut_leave_the_two_ways_in_agreement() {
        let mut usual = 0;
        for row in usual_rows() {
            for at in 0..row.len() {
                usual += usize::from(marry(&row[..at]));
                let mut row = row.clone();
                for byte in 0..=255 {
                    row[at] = byte;
                    usual += usize::from(marry(&row));
                }
            }
        }
        assert!(usual > 10_000, "{usual}");
    }

    #[test]
    fn a_record_says_what_the_row_says() {
        let bytes = unhex(&format!(
            "86 0004 0201 030f {TIME} 0802 0907 85 10cd0200 1102 1501 20 9101 21 9193a12b0201"
        ));
        let record = Record::decode(&bytes, 0, 9).unwrap();
        assert_eq!((record.lsn, record.tsn, record.number), (15, 13, 9));
        assert!(record.is_last && !record.is_local && !record.is_alone());
        let row = LogRow::new(&record, &bytes);
        assert_eq!((row.kind(), row.replica_id(), row.lsn(), row.flags()), (4, 1, 15, 7));
        assert_eq!((row.space_id(), row.index_id(), row.index_base()), (Some(512), 2, 1));
        assert_eq!(row.timestamp(), Some(f64::from_bits(0x41da_c378_5c15_f626)));
        assert_eq!(row.key(), Some(&[0x91, 1][..]));
        assert_eq!(row.tuple(), Some(&unhex("9193a12b0201")[..]));
        assert_eq!(row.ops(), None);
    }

    #[test]
    fn rows_of_other_forms_take_the_general_way() {
        for text in [
            format!("84 001e 0701 0305 {TIME} 82 0003 0101"),
            format!("84 0028 0201 0316 {TIME} 82 0201 0315"),
            format!("84 0012 0201 0316 {TIME} 83 10cd0200 3790 3890"),
            format!("85 0002 0201 030d {TIME} a16101 82 10cd0200 21 9101"),
            format!("84 0002 0201 030d {TIME} 83 10cd0200 21 9101 2a80"),
            format!("84 0003 0201 030d {TIME} 82 21 9101 10cd0200"),
            format!("84 0201 030d 0003 {TIME} 82 10cd0200 21 9101"),
            format!("de0004 0002 0201 030d {TIME} 82 10cd0200 21 9101"),
            format!("84 00cd03e8 0201 030d {TIME}"),
        ] {
            let bytes = unhex(&text);
            assert_eq!(usual(&bytes, 0), None, "{text}");
            let record = Record::decode(&bytes, 0, 0).unwrap();
            assert_eq!(record.end(), bytes.len(), "{text}");
            // What follows the row does not become its body.
            let payload = [&bytes[..], &[0x80]].concat();
            let row = LogRow::new(&record, &payload).whole().unwrap();
            assert_eq!(row, Row::decode(&bytes, 0).unwrap(), "{text}");
        }
        let row = unhex(&format!("84 0028 0201 0316 {TIME} 82 0201 0315"));
        let record = Record::decode(&row, 0, 0).unwrap();
        assert!(record.is_alone());
        assert_eq!(LogRow::new(&record, &row).whole().unwrap().body.unwrap().lsn, Some(21));
    }
}
