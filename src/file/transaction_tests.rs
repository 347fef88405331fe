//! Logs as transactions: the rules one by one, and every cut and every flipped bit of small folders.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::block::{MAGIC_END, build};
use super::directory::newest_snapshot;
use super::disk::Disk;
use super::disk::simulated::SimulatedDisk;
use super::log::chain;
use super::stop::{Stop, StopLsn};
use super::transaction::{LogEnd, RowFault, Torn, Transaction, for_each_transaction};
use super::vclock::Vclock;
use crate::error::{Error, ErrorKind};
use crate::msgpack::unhex;

const A: &str = "78e0015e-511c-44a5-88b2-181e67295f91";
const B: &str = "88e0015e-511c-44a5-88b2-181e67295f91";
const NOW: &str = "3.7.0-0-g1234567";
const OLD: &str = "2.6.0-0-g47aa4e01e";

/// Rows of a transaction: replica, LSN, bytes.
type Rows = Vec<(u32, u64, Vec<u8>)>;

/// A row of a log: its header's pairs after the type, in hex, around the time.
fn row(kind: u8, head: &str, tail: &str, body: &str) -> Vec<u8> {
    let pairs = |text: &str| -> Vec<u8> { unhex(text) };
    let count = |bytes: &[u8]| {
        let (mut at, mut values) = (0, 0);
        while at < bytes.len() {
            at = crate::msgpack::skip::skip(bytes, at).unwrap();
            values += 1;
        }
        values / 2
    };
    let (head, tail) = (pairs(head), pairs(tail));
    let mut row = vec![0x80 + 2 + count(&head) + count(&tail), 0x00, kind];
    row.extend_from_slice(&head);
    row.extend(unhex("04cb41dac3785c15f626"));
    row.extend_from_slice(&tail);
    row.extend(unhex(body));
    row
}

/// An INSERT of a replica; `tail`: TSN and flags.
fn insert(replica: u8, lsn: u8, tail: &str) -> Vec<u8> {
    row(2, &format!("02{replica:02x} 03{lsn:02x}"), tail, &format!("82 10cd0200 21 92{lsn:02x}a16b"))
}

/// An INSERT into a local space.
fn local(lsn: u8, tail: &str) -> Vec<u8> {
    row(2, &format!("0701 03{lsn:02x}"), tail, &format!("82 10cd0201 21 91{lsn:02x}"))
}

fn nop(replica: u8, lsn: u8, tail: &str) -> Vec<u8> {
    row(12, &format!("02{replica:02x} 03{lsn:02x}"), tail, "")
}

fn block(rows: &[Vec<u8>]) -> Vec<u8> {
    build::plain(&rows.concat())
}

fn packed(rows: &[Vec<u8>]) -> Vec<u8> {
    build::zstd(&rows.concat())
}

/// A log without an end.
fn open_log(version: &str, vclock: &str, prev: &str, blocks: &[Vec<u8>]) -> Vec<u8> {
    let prev = if prev.is_empty() { String::new() } else { format!("PrevVClock: {prev}\n") };
    let header = format!("XLOG\n0.13\nVersion: {version}\nInstance: {A}\nVClock: {vclock}\n{prev}\n");
    [header.into_bytes(), blocks.concat()].concat()
}

fn log(version: &str, vclock: &str, prev: &str, blocks: &[Vec<u8>]) -> Vec<u8> {
    [open_log(version, vclock, prev, blocks), MAGIC_END.to_vec()].concat()
}

fn snap(vclock: &str) -> Vec<u8> {
    let header = format!("SNAP\n0.13\nVersion: {NOW}\nInstance: {A}\nVClock: {vclock}\n\n");
    [header.as_bytes(), &MAGIC_END].concat()
}

fn signature_of(vclock: &str) -> u64 {
    vclock.parse::<Vclock>().unwrap().signature()
}

/// Files by name; a number stands for a log of that number.
#[derive(Clone, Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn new(snapshot: &str, logs: &[(u64, Vec<u8>)]) -> Self {
        let mut files = Self::default();
        files.0.insert(format!("d/{:020}.snap", signature_of(snapshot)), snap(snapshot));
        logs.iter().for_each(|(number, bytes)| files.put(*number, bytes.clone()));
        files
    }

    fn put(&mut self, number: u64, bytes: Vec<u8>) {
        self.0.insert(format!("d/{number:020}.xlog"), bytes);
    }

    fn disk(&self) -> SimulatedDisk {
        let mut disk = SimulatedDisk::default();
        self.0.iter().for_each(|(name, bytes)| disk.add(name, bytes.clone()));
        disk
    }
}

fn bytes_of(transaction: &Transaction<'_>) -> Rows {
    transaction
        .rows()
        .map(|row| {
            let whole = row.whole().unwrap();
            assert_eq!((row.replica_id(), row.lsn()), (whole.head.replica_id, whole.head.lsn.unwrap()));
            assert_eq!(row.is_local(), whole.head.group_id == 1);
            let mut bytes = Vec::new();
            [row.key(), row.tuple(), row.ops()].into_iter().flatten().for_each(|part| bytes.extend(part));
            (row.replica_id(), row.lsn(), bytes)
        })
        .collect()
}

fn read_with(
    disk: &dyn Disk,
    stop: &Stop,
    threads: usize,
    bytes_max: usize,
    take: impl FnMut(&Transaction<'_>) -> Result<(), RowFault>,
) -> Result<LogEnd, Error> {
    let snapshot = newest_snapshot(disk, Path::new("d"))?;
    let logs = chain(disk, Path::new("d"), &snapshot.file, stop)?;
    let mut end = for_each_transaction(disk, &logs, threads, bytes_max, take)?;
    end.notices.splice(0..0, logs.notices);
    Ok(end)
}

/// All transactions, and how it ends.
fn read_until(files: &Files, stop: &Stop, threads: usize) -> (Vec<Rows>, Result<LogEnd, Error>) {
    let mut transactions = Vec::new();
    let end = read_with(&files.disk(), stop, threads, usize::MAX, |transaction| {
        transactions.push(bytes_of(transaction));
        Ok(())
    });
    (transactions, end)
}

fn read(files: &Files) -> (Vec<Rows>, Result<LogEnd, Error>) {
    let (transactions, end) = read_until(files, &Stop::default(), 1);
    let (by_three, end_by_three) = read_until(files, &Stop::default(), 3);
    assert_eq!(transactions, by_three);
    match (&end, end_by_three) {
        (Ok(one), Ok(three)) => assert_eq!(*one, three),
        (Err(one), Err(three)) => assert_eq!(one.to_string(), three.to_string()),
        (one, three) => panic!("{one:?} against {three:?}"),
    }
    (transactions, end)
}

/// Replicas and LSNs of each transaction, in words: `1:5 1:6`.
fn told(transactions: &[Rows]) -> Vec<String> {
    let of_row = |row: &(u32, u64, Vec<u8>)| format!("{}:{}", row.0, row.1);
    transactions.iter().map(|rows| rows.iter().map(of_row).collect::<Vec<_>>().join(" ")).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

fn good(files: &Files) -> (Vec<String>, LogEnd) {
    let (transactions, end) = read(files);
    (told(&transactions), end.unwrap_or_else(|error| panic!("{error}")))
}

fn bad(files: &Files) -> (Vec<String>, String) {
    let (transactions, end) = read(files);
    (told(&transactions), end.unwrap_err().to_string())
}

/// Three logs after a snapshot: transactions of one row and of several, two replicas, local rows, packed and plain.
fn folder(version: &str) -> Files {
    Files::new(
        "{1: 3}",
        &[
            (0, b"older than needed, never opened".to_vec()),
            (2, log(version, "{1: 2}", "{}", &[block(&[insert(1, 3, "")]), block(&[insert(1, 4, "")])])),
            (
                4,
                log(
                    version,
                    "{1: 4}",
                    "{1: 2}",
                    &[
                        block(&[insert(1, 5, "0800"), insert(1, 6, "0801"), nop(1, 7, "0802 0901")]),
                        packed(&[insert(1, 8, ""), insert(2, 1, "0800"), insert(2, 2, "0801 0901")]),
                    ],
                ),
            ),
            (
                10,
                open_log(
                    version,
                    "{1: 8, 2: 2}",
                    "{1: 4}",
                    &[
                        block(&[insert(1, 9, "0800"), local(1, "08cffffffffffffffff8 0901")]),
                        block(&[insert(2, 3, "")]),
                        block(&[insert(1, 10, "0800"), insert(1, 11, "0801 0901")]),
                    ],
                ),
            ),
        ],
    )
}

const FOLDER: [&str; 7] = ["1:4", "1:5 1:6 1:7", "1:8", "2:1 2:2", "1:9 0:1", "2:3", "1:10 1:11"];

#[test]
fn transactions_come_whole_and_in_the_order_of_the_logs() {
    for version in [NOW, OLD] {
        let files = folder(version);
        let snapshot = newest_snapshot(&files.disk(), Path::new("d")).unwrap();
        let logs = chain(&files.disk(), Path::new("d"), &snapshot.file, &Stop::default()).unwrap();
        let needed =
            files.0.iter().filter(|(name, _)| !name.ends_with("0000.xlog") && !name.ends_with("snap"));
        assert_eq!(logs.bytes() as usize, needed.map(|(_, bytes)| bytes.len()).sum::<usize>());
        let (transactions, end) = good(&folder(version));
        assert_eq!(transactions, FOLDER);
        assert_eq!(end.vclock.to_string(), "{0: 1, 1: 11, 2: 3}");
        assert_eq!((end.transactions, end.rows, end.covered_rows), (7, 12, 1));
        assert_eq!(end.first_timestamp, Some(f64::from_bits(0x41da_c378_5c15_f626)));
        assert_eq!((end.torn, end.is_stopped, end.notices), (None, false, vec![]));
    }
}

#[test]
fn a_row_knows_its_place_and_what_is_wrong_with_it_is_told_there() {
    let disk = folder(NOW).disk();
    let mut place = None;
    let error = read_with(&disk, &Stop::default(), 1, usize::MAX, |transaction| {
        assert!((1..=3).contains(&transaction.len()));
        if transaction.row(0).lsn() != 10 {
            return Ok(());
        }
        place = Some(transaction.place(1));
        Err((1, Error::new(ErrorKind::Schema, "space").expected("one that is defined")))
    })
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "d/00000000000000000010.xlog, block 2 at byte 255, row 1: space: expected one that is defined"
    );
    let place = place.unwrap();
    assert_eq!((place.log, place.block, place.byte, place.row), (2, 2, 255, 1));
}

/// One transaction, as one version or another writes it.
fn framed(version: &str, rows: &[Vec<u8>]) -> Files {
    Files::new("{1: 12, 2: 20}", &[(32, log(version, "{1: 12, 2: 20}", "", &[block(rows)]))])
}

#[test]
fn every_shape_of_a_transaction_is_framed() {
    /// A writer, the rows of a block, and the transactions.
    type Case<'a> = (&'a str, &'a [Vec<u8>], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (NOW, &[insert(1, 13, "")], &["1:13"]),
        (
            NOW,
            &[insert(1, 13, "0800"), insert(1, 14, "0801"), insert(1, 15, "0802 0901")],
            &["1:13 1:14 1:15"],
        ),
        // Global, then local; the NOP is of 2.5 to 2.11.
        (
            OLD,
            &[insert(1, 13, "0800"), local(1, "08cffffffffffffffff4"), nop(1, 14, "0801 0901")],
            &["1:13 0:1 1:14"],
        ),
        (NOW, &[insert(1, 13, "0800"), local(1, "08cffffffffffffffff4 0901")], &["1:13 0:1"]),
        // Local, then global: the closing row says no TSN.
        (OLD, &[local(1, "08cffffffffffffffff4"), insert(1, 13, "")], &["0:1 1:13"]),
        (NOW, &[local(1, "08cffffffffffffffff4"), insert(1, 13, "")], &["0:1 1:13"]),
        // Local rows alone.
        (NOW, &[local(1, "0800"), local(2, "0801 0901")], &["0:1 0:2"]),
        (NOW, &[local(1, ""), insert(1, 13, "")], &["0:1", "1:13"]),
        // Synchronous ones, with the rows that decide.
        (NOW, &[insert(1, 13, "0906"), row(40, "0201 030e", "", "82 0201 030d")], &["1:13", "1:14"]),
        (
            NOW,
            &[insert(1, 13, "0800"), insert(1, 14, "0801 0907"), row(40, "0201 030f", "", "82 0201 030e")],
            &["1:13 1:14", "1:15"],
        ),
        (NOW, &[row(30, "0701 0301", "", "81 0002"), insert(1, 13, "")], &["0:1", "1:13"]),
        // A replica adds a local row to what its master has committed: 2.6 and up to 2.11, and since.
        (
            OLD,
            &[insert(1, 13, "08cffffffffffffffff8 0901"), local(1, "08cfffffffffffffffec"), nop(2, 21, "")],
            &["1:13 0:1 2:21"],
        ),
        (
            NOW,
            &[insert(1, 13, "0800"), local(1, "08cffffffffffffffff4 0901"), nop(2, 21, "")],
            &["1:13 0:1", "2:21"],
        ),
        // Before 2.1.2 each row stands alone; local rows have their writer's id.
        (
            "1.10.2-1-gb1f9e4e",
            &[insert(1, 13, ""), row(2, "0201 030e 0701", "", "82 10cd0201 21 9101")],
            &["1:13", "1:14"],
        ),
    ];
    for (version, rows, expected) in cases {
        let (transactions, end) = good(&framed(version, rows));
        assert_eq!(transactions, *expected, "{version}");
        assert_eq!(end.notices, Vec::<String>::new());
    }
}

#[test]
fn what_is_not_framed_as_it_should_be_is_told_with_its_row() {
    /// A writer, the rows of a block, the transactions before the fault, and the fault.
    type Case<'a> = (&'a str, &'a [Vec<u8>], &'a [&'a str], &'a str);
    let cases: &[Case<'_>] = &[
        (
            NOW,
            &[insert(1, 13, "0800"), insert(1, 14, "")],
            &[],
            "row 1: transaction without its last row: expected a row with the TSN 13, found the TSN 14",
        ),
        (
            NOW,
            &[insert(1, 13, "0800")],
            &[],
            "row 0: transaction without its last row: expected a row with the TSN 13, \
             found the end of the log after 1 rows",
        ),
        (
            OLD,
            &[insert(1, 13, "0800 0901"), insert(1, 14, "0801 0901")],
            &["1:13"],
            "row 1: transaction without its first row: expected one whose LSN is the TSN 13, \
             found none among 1, up to LSN 14",
        ),
        (
            NOW,
            &[insert(1, 13, "08cffffffffffffffff8 0901"), local(1, "08cfffffffffffffffec"), nop(2, 21, "")],
            &[],
            "row 0: transaction without its first row: expected one whose LSN is the TSN 21, \
             found none among 1, up to LSN 13",
        ),
        (
            NOW,
            &[local(1, "08cffffffffffffffff0 0901")],
            &[],
            "row 0: transaction without its first row: expected one whose LSN is the TSN 17, \
             found none among 1, up to LSN 1",
        ),
        (
            NOW,
            &[insert(1, 13, "0800"), row(40, "0201 030e", "0801 0901", "82 0201 030d")],
            &[],
            "row 1: transaction: expected rows that change data, or nothing, \
             found RAFT_CONFIRM, which stands alone",
        ),
        (
            NOW,
            &[row(31, "0201 030d", "0800", "83 0200 0300 5302"), insert(1, 14, "0801 0901")],
            &[],
            "row 0: transaction: expected rows that change data, or nothing, \
             found RAFT_PROMOTE, which stands alone",
        ),
        (
            NOW,
            &[insert(1, 13, ""), insert(1, 15, "")],
            &["1:13"],
            "row 1: rows are missing: expected LSN 14 of replica 1, found 15",
        ),
        (
            NOW,
            &[insert(1, 13, ""), insert(1, 13, "")],
            &["1:13"],
            "row 1: a row is there twice, or too late: expected LSN 14 of replica 1, found 13",
        ),
        (NOW, &[local(2, "")], &[], "row 0: rows are missing: expected LSN 1 of local spaces, found 2"),
        (
            NOW,
            &[row(2, "0201", "", "82 10cd0200 21 9101")],
            &[],
            "row 0: row of a log: expected LSN 13 of replica 1, found none",
        ),
        (NOW, &[insert(32, 1, "")], &[], "row 0: replica id: expected less than 32, found 32"),
        (
            NOW,
            &[insert(1, 13, ""), vec![0x81, 0x00, 0x02]],
            &["1:13"],
            "row 1: row body: expected a whole MsgPack value, found the end of the block at byte 30 of the \
             unpacked block",
        ),
    ];
    for (version, rows, expected, error) in cases {
        let (transactions, found) = bad(&framed(version, rows));
        let byte = framed(version, &[]).0.values().last().unwrap().len() - 19 - 4;
        assert_eq!(found, format!("d/00000000000000000032.xlog, block 0 at byte {byte}, {error}"));
        assert_eq!(transactions, *expected);
    }
}

#[test]
fn old_writers_left_gaps_which_are_told_and_no_error() {
    let files = |version: &str| {
        let rows = |from: u8| block(&[insert(1, from, ""), insert(1, from + 2, "")]);
        let first = log(version, "{}", "", &[rows(1), rows(5), rows(10)]);
        Files::new("{}", &[(0, first), (14, log(version, "{1: 14}", "{}", &[rows(15)]))])
    };
    for version in ["1.7.5", "1.10.2-0-g123", "2.1.1-3-g123"] {
        let (transactions, end) = good(&files(version));
        assert_eq!(transactions.len(), 8);
        let [within, between, last] = &end.notices[..] else { panic!("{:?}", end.notices) };
        assert!(within.contains("row 1: LSN 2 of replica 1 is missing before LSN 3"), "{within}");
        assert!(within.ends_with("where a write failed; 4 more of the kind"), "{within}");
        assert!(between.contains("LSNs 13 to 14 of replica 1 are in no log"), "{between}");
        assert!(last.contains("LSN 16 of replica 1 is missing before LSN 17"), "{last}");
    }
    for version in ["1.10.3-0-g123", "1.10.15", "2.1.2-0-g123", OLD, NOW, "Lycosa"] {
        assert!(bad(&files(version)).1.contains("rows are missing: expected LSN 2 of replica 1"));
    }
}

#[test]
fn rows_that_the_snapshot_holds_are_skipped_in_whole_transactions_and_in_halves() {
    let blocks = [
        block(&[insert(1, 3, ""), insert(1, 4, "0800"), insert(1, 5, "0801 0901")]),
        block(&[insert(1, 6, "0800"), insert(1, 7, "0801"), insert(1, 8, "0802 0901")]),
        block(&[insert(1, 9, "")]),
    ];
    for (covered, expected, skipped) in [
        ("{1: 2}", &["1:3", "1:4 1:5", "1:6 1:7 1:8", "1:9"][..], 0),
        ("{1: 3}", &["1:4 1:5", "1:6 1:7 1:8", "1:9"], 1),
        ("{1: 4}", &["1:5", "1:6 1:7 1:8", "1:9"], 2),
        ("{1: 5}", &["1:6 1:7 1:8", "1:9"], 3),
        ("{1: 7}", &["1:8", "1:9"], 5),
        ("{1: 8}", &["1:9"], 6),
        ("{1: 9}", &[], 7),
        ("{1: 12}", &[], 7),
        ("{1: 12, 2: 3}", &[], 7),
    ] {
        let files = Files::new(covered, &[(2, log(NOW, "{1: 2}", "", &blocks))]);
        let (transactions, end) = good(&files);
        assert_eq!((transactions, end.covered_rows), (strings(expected), skipped), "{covered}");
        let joined = covered.parse::<Vclock>().unwrap().joined(&"{1: 9}".parse().unwrap());
        assert_eq!(end.vclock, joined);
        let told = end.notices.join("; ");
        match covered {
            "{1: 4}" => assert!(told.ends_with("row 1: transaction: 1 of its 2 rows are in the snapshot")),
            "{1: 7}" => assert!(told.ends_with("row 0: transaction: 2 of its 3 rows are in the snapshot")),
            "{1: 12}" => assert_eq!(told, "the logs end at {1: 9}, before the snapshot, {1: 12}"),
            "{1: 12, 2: 3}" => assert!(told.starts_with("the logs end at {1: 9}")),
            _ => assert_eq!(told, ""),
        }
    }
    // Rows that the snapshot holds may be missing, but not be there twice.
    let of = |blocks: &[Vec<u8>]| Files::new("{1: 8}", &[(2, log(NOW, "{1: 2}", "", blocks))]);
    let (transactions, end) = good(&of(&[blocks[0].clone(), blocks[2].clone()]));
    assert_eq!(transactions, ["1:9"]);
    assert!(end.notices[0].ends_with("LSN 6 of replica 1 is missing before LSN 9, which the snapshot holds"));
    let error = bad(&of(&[blocks[1].clone(), blocks[0].clone(), blocks[2].clone()])).1;
    assert!(error.contains("too late: expected LSN 9 of replica 1, found 3"), "{error}");
}

#[test]
fn a_transaction_of_many_blocks_is_put_together_within_a_limit() {
    let tails = ["0800", "0801", "0802", "0803", "0804 0901"];
    let rows: Vec<_> = (13..).zip(tails).map(|(lsn, tail)| insert(1, lsn, tail)).collect();
    let whole = read(&framed(NOW, &[&rows[..], &[insert(1, 18, "")]].concat())).0;
    // Every way to cut it into blocks.
    for cuts in 0..1 << 4 {
        let mut blocks = vec![vec![rows[0].clone()]];
        for (number, row) in rows[1..].iter().enumerate() {
            if cuts >> number & 1 == 1 {
                blocks.push(Vec::new());
            }
            blocks.last_mut().unwrap().push(row.clone());
        }
        blocks.last_mut().unwrap().push(insert(1, 18, ""));
        let count = blocks.len();
        let pack =
            |(number, rows): (usize, &Vec<Vec<u8>>)| if number % 2 == 0 { block(rows) } else { packed(rows) };
        let blocks: Vec<_> = blocks.iter().enumerate().map(pack).collect();
        let files = Files::new("{1: 12, 2: 20}", &[(32, log(NOW, "{1: 12, 2: 20}", "", &blocks))]);
        assert_eq!(read(&files).0, whole, "{cuts:b}");
        let disk = files.disk();
        let mut blocks_of_rows = Vec::new();
        read_with(&disk, &Stop::default(), 1, usize::MAX, |transaction| {
            blocks_of_rows.extend((0..transaction.len()).map(|number| {
                let place = transaction.place(number);
                (place.block, place.row)
            }));
            Ok(())
        })
        .unwrap();
        let mut expected = Vec::new();
        let (mut block, mut number) = (0, 0);
        for row in 0..6 {
            if (1..5).contains(&row) && cuts >> (row - 1) & 1 == 1 {
                (block, number) = (block + 1, 0);
            }
            expected.push((block, number));
            number += 1;
        }
        assert_eq!(blocks_of_rows, expected);
        // Enough for a block, and not for the transaction.
        let limited = read_with(&disk, &Stop::default(), 2, 300, |_| Ok(()));
        match count {
            1 => assert!(limited.is_ok()),
            _ => {
                let error = limited.unwrap_err();
                assert_eq!((error.kind(), error.place().row), (ErrorKind::Memory, Some(0)), "{error}");
            }
        }
    }
}

/// Two logs, the first one changed, after a snapshot at 0.
fn two(first: &[u8], second_vclock: &str, second: &[Vec<u8>]) -> Files {
    let number = signature_of(second_vclock);
    Files::new("{}", &[(0, first.to_vec()), (number, log(NOW, second_vclock, "{}", second))])
}

#[test]
fn a_log_goes_on_where_the_one_before_ends() {
    let three = block(&[insert(1, 1, ""), insert(1, 2, ""), insert(1, 3, "")]);
    let whole = log(NOW, "{}", "", std::slice::from_ref(&three));
    let next = [block(&[insert(1, 4, "")])];
    assert_eq!(good(&two(&whole, "{1: 3}", &next)).0, ["1:1", "1:2", "1:3", "1:4"]);
    assert_eq!(
        bad(&two(&whole, "{1: 5}", &[])).1,
        "d/00000000000000000005.xlog: rows are missing between logs: expected the vclock {1: 3}, with which \
         d/00000000000000000000.xlog ends, found {1: 5}, so that LSNs 4 to 5 of replica 1 are in no log"
    );
    assert_eq!(
        bad(&two(&whole, "{1: 2}", &[])).1,
        "d/00000000000000000002.xlog: the log begins before the end of another: expected the vclock {1: 3}, with \
         which d/00000000000000000000.xlog ends, found {1: 2}"
    );
    assert!(bad(&two(&whole, "{1: 3, 2: 4}", &[])).1.ends_with("LSNs 1 to 4 of replica 2 are in no log"));
    assert!(bad(&two(&whole, "{0: 1, 1: 3}", &[])).1.ends_with("LSN 1 of local spaces are in no log"));
    // Without an end marker, and with a part of a block, it depends on where the next begins.
    let open = open_log(NOW, "{}", "", std::slice::from_ref(&three));
    assert_eq!(good(&two(&open, "{1: 3}", &next)).1.notices, Vec::<String>::new());
    let torn = [&open[..], &next[0][..30]].concat();
    let (transactions, end) = good(&two(&torn, "{1: 3}", &next));
    assert_eq!((transactions.len(), end.torn), (4, None));
    let byte = open.len();
    assert_eq!(
        end.notices,
        [format!(
            "d/00000000000000000000.xlog, byte {byte}: the log ends in 30 bytes that are no whole block; they are left out"
        )]
    );
    assert_eq!(
        bad(&two(&torn, "{1: 4}", &[])).1,
        format!(
            "d/00000000000000000000.xlog, byte {byte}: log cut short before another: expected rows up to {{1: 4}}, \
             where d/00000000000000000004.xlog begins, found rows up to {{1: 3}}, then 30 bytes of a block"
        )
    );
    assert!(bad(&two(&open, "{1: 4}", &[])).1.ends_with("found rows up to {1: 3}"));
    // The same for a transaction without its last row.
    let half = [&open[..], &block(&[insert(1, 4, "0800"), insert(1, 5, "0801")])].concat();
    let (transactions, end) = good(&two(&half, "{1: 3}", &next));
    assert_eq!((transactions.len(), end.notices.len()), (4, 1));
    assert!(end.notices[0].contains("2 rows of a transaction without its last row"), "{:?}", end.notices);
    let error = bad(&two(&half, "{1: 5}", &[])).1;
    assert!(
        error.ends_with("found rows up to {1: 3}, then a transaction that was never finished"),
        "{error}"
    );
    // Unless the snapshot holds what is missing.
    let mut files = two(&torn, "{1: 7}", &[]);
    files.0.insert("d/00000000000000000006.snap".into(), snap("{1: 6}"));
    assert!(bad(&files).1.contains("log cut short before another"));
    files.0.insert("d/00000000000000000007.snap".into(), snap("{1: 7}"));
    assert_eq!(good(&files).0, [""; 0]);
}

#[test]
fn the_last_log_may_be_torn_anywhere_and_what_is_left_out_is_told() {
    let blocks = [
        block(&[insert(1, 1, "")]),
        block(&[insert(1, 2, "0800"), insert(1, 3, "0801")]),
        packed(&[insert(1, 4, "0802 0901"), insert(1, 5, "")]),
    ];
    let whole = log(NOW, "{}", "", &blocks);
    let header = whole.len() - blocks.concat().len() - 4;
    let ends =
        [header, header + blocks[0].len(), header + blocks[0].len() + blocks[1].len(), whole.len() - 4];
    for cut in 0..whole.len() {
        let (transactions, end) = good(&Files::new("{}", &[(0, whole[..cut].to_vec())]));
        let all = ["1:1", "1:2 1:3 1:4", "1:5"];
        if cut < header {
            assert_eq!(transactions.len(), 0);
            assert!(end.notices[0].contains("no whole text header"), "cut at {cut}: {:?}", end.notices);
            continue;
        }
        let blocks = ends.iter().filter(|&&end| end <= cut).count() - 1;
        let expected = [0, 1, 1, 3][blocks];
        assert_eq!(transactions, all[..expected], "cut at {cut}");
        assert_eq!(end.vclock.get(1), [0, 1, 1, 5][blocks]);
        let (rows, from) = if blocks == 2 { (2, ends[1]) } else { (0, ends[blocks]) };
        let bytes = (cut - ends[blocks]) as u64;
        let torn = Torn { file: "d/00000000000000000000.xlog".into(), byte: from as u64, bytes, rows };
        let is_torn = rows > 0 || bytes > 0;
        assert_eq!(end.torn, is_torn.then_some(torn), "cut at {cut}");
        assert_eq!(end.notices.len(), usize::from(is_torn));
        // Zeros in the place of the rest, and another log behind it.
        let mut zeros = whole[..cut].to_vec();
        zeros.resize(cut + 600, 0);
        let at_a_block = bytes == 0;
        let zeros = Files::new("{}", &[(0, zeros)]);
        match (read(&zeros), at_a_block) {
            ((transactions, Ok(end)), true) => {
                assert_eq!(transactions.len(), expected);
                assert_eq!(end.torn.unwrap().bytes, 600);
            }
            ((transactions, Err(error)), false) => {
                assert_eq!(transactions.len(), expected);
                assert!(error.place().byte.is_some(), "cut at {cut}: {error}");
            }
            ((_, end), _) => panic!("cut at {cut}: {end:?}"),
        }
        let mut files = Files::new("{}", &[(0, whole[..cut].to_vec())]);
        files.put(5, log(NOW, "{1: 5}", "{}", &[]));
        let (transactions, end) = read(&files);
        assert_eq!(transactions.len(), expected);
        match end {
            Ok(_) => assert_eq!(blocks, 3),
            Err(error) => assert_eq!((error.kind(), blocks < 3), (ErrorKind::Truncated, true), "{error}"),
        }
    }
}

#[test]
fn a_block_that_is_missing_doubled_or_swapped_stops_with_its_place() {
    let blocks: Vec<_> = (1..=6).map(|lsn| block(&[insert(1, lsn, "")])).collect();
    let of = |blocks: &[Vec<u8>]| Files::new("{}", &[(0, log(NOW, "{}", "", blocks))]);
    assert_eq!(good(&of(&blocks)).0.len(), 6);
    for at in 0..6 {
        let mut doubled = blocks.clone();
        doubled.insert(at, blocks[at].clone());
        let (transactions, error) = bad(&of(&doubled));
        assert_eq!(transactions.len(), at + 1);
        assert!(error.contains(&format!("block {}", at + 1)) && error.contains("twice"), "{error}");
        let mut cut = blocks.clone();
        cut.remove(at);
        // The last block alone is not missed, if no log follows.
        if at < 5 {
            let (transactions, error) = bad(&of(&cut));
            assert_eq!(transactions.len(), at);
            assert!(error.contains(&format!("LSN {} of replica 1, found {}", at + 1, at + 2)), "{error}");
            let mut swapped = blocks.clone();
            swapped.swap(at, at + 1);
            assert_eq!(bad(&of(&swapped)), (transactions, error));
        } else {
            let mut files = of(&cut);
            files.put(6, log(NOW, "{1: 6}", "{}", &[]));
            assert!(bad(&files).1.contains("LSN 6 of replica 1 are in no log"));
        }
    }
}

#[test]
fn a_length_past_the_end_of_the_file_is_no_torn_tail() {
    for end in [&MAGIC_END[..], &[]] {
        let mut bytes = open_log(NOW, "{}", "", &[block(&[insert(1, 1, "")])]);
        let at = bytes.len() + 4;
        bytes.extend(block(&[insert(1, 2, "")]));
        bytes.extend(end);
        assert_eq!(good(&Files::new("{}", &[(0, bytes.clone())])).0, ["1:1", "1:2"]);
        bytes[at] += 60;
        let error = bad(&Files::new("{}", &[(0, bytes)])).1;
        assert!(error.contains("block 1 at byte 141: block past the end of the file"), "{error}");
    }
}

#[test]
fn a_log_that_is_missing_is_named_by_the_one_that_shows_it() {
    let mut files = folder(NOW);
    files.0.remove("d/00000000000000000004.xlog");
    assert_eq!(
        bad(&files).1,
        "d/00000000000000000010.xlog: a log before this one: expected 00000000000000000004.xlog, which begins at \
         {1: 4}, found d/00000000000000000002.xlog, so that LSNs 5 to 8 of replica 1 and LSNs 1 to 2 of replica 2 \
         are in no log"
    );
    let mut files = folder(NOW);
    files.0.remove("d/00000000000000000002.xlog");
    files.0.remove("d/00000000000000000000.xlog");
    assert_eq!(
        bad(&files).1,
        "d/00000000000000000004.xlog: a log before this one: expected 00000000000000000002.xlog, which begins at \
         {1: 2}, found none after d/00000000000000000003.snap, so that LSN 4 of replica 1 are in no log"
    );
    files.0.remove("d/00000000000000000010.xlog");
    files.put(4, log(NOW, "{1: 4}", "", &[]));
    assert!(bad(&files).1.contains("expected one that begins at or before {1: 3}, found none after"));
    // Without any log there is nothing to miss.
    files.0.remove("d/00000000000000000004.xlog");
    let (transactions, end) = good(&files);
    assert_eq!((transactions.len(), end.vclock.to_string()), (0, "{1: 3}".into()));
}

#[test]
fn logs_that_do_not_belong_together_are_refused_with_both_names() {
    let mut files = folder(NOW);
    let name = "d/00000000000000000004.xlog";
    let text = String::from_utf8_lossy(&files.0[name]).replace(A, B);
    assert_eq!(text.len() - text.replace(B, "").len(), B.len());
    let at = files.0[name].windows(36).position(|bytes| bytes == A.as_bytes()).unwrap();
    files.0.get_mut(name).unwrap()[at..at + 36].copy_from_slice(B.as_bytes());
    assert_eq!(
        bad(&files).1,
        format!("{name}: instance: expected {A}, as in d/00000000000000000003.snap, found {B}")
    );
    let mut files = folder(NOW);
    files.put(7, log(NOW, "{3: 7}", "", &[]));
    assert_eq!(
        bad(&files).1,
        "d/00000000000000000004.xlog: order of vclocks: expected one before that of d/00000000000000000007.xlog, \
         {3: 7}, found {1: 4}"
    );
    let mut files = folder(NOW);
    files.put(11, log(NOW, "{1: 9}", "", &[]));
    assert!(bad(&files).1.contains("the sum of the vclock: expected 11, as the name says"));
}

#[test]
fn a_last_log_without_a_header_is_let_pass_where_nothing_is_missing() {
    for beginning in [&b""[..], b"XL", b"XLOG\n0.13\nVer", &[0; 5000], b"XLOG\n0.13\n\0\0\0"] {
        let mut files = folder(NOW);
        files.put(15, beginning.to_vec());
        let (transactions, end) = good(&files);
        assert_eq!((transactions.len(), end.notices.len()), (7, 1));
        assert!(end.notices[0].starts_with("d/00000000000000000015.xlog: the log has no whole text header"));
        let mut files = folder(NOW);
        files.put(16, beginning.to_vec());
        let error = bad(&files).1;
        assert!(error.starts_with("d/00000000000000000016.xlog: rows are missing between logs"), "{error}");
        // Not where another follows, nor with bytes that are no text.
        let mut files = folder(NOW);
        files.put(4, beginning.to_vec());
        assert!(bad(&files).1.starts_with("d/00000000000000000004.xlog, byte 0: "));
        let mut files = folder(NOW);
        files.put(15, [beginning, b"XLOG\n0.13\n\xd5"].concat());
        assert!(bad(&files).1.starts_with("d/00000000000000000015.xlog, byte 0: "));
    }
    // Alone, or older than the snapshot.
    for number in [2, 3] {
        assert_eq!(good(&Files::new("{1: 3}", &[(number, vec![])])).1.notices.len(), 1);
    }
    assert!(bad(&Files::new("{1: 3}", &[(4, vec![])])).1.contains("rows are missing between logs"));
}

fn to_lsn(replica_id: Option<u32>, lsn: u64) -> Stop {
    Stop { lsn: Some(StopLsn { replica_id, lsn }), ..Stop::default() }
}

fn to_vclock(text: &str) -> Stop {
    Stop { vclock: Some(text.parse().unwrap()), ..Stop::default() }
}

#[test]
fn replay_stops_before_the_first_transaction_beyond_a_point() {
    let cases: &[(Stop, usize, &str, &str)] = &[
        (Stop::default(), 7, "{0: 1, 1: 11, 2: 3}", ""),
        (to_lsn(Some(1), 3), 0, "{1: 3}", ""),
        (to_lsn(Some(1), 4), 1, "{1: 4}", ""),
        (
            to_lsn(Some(1), 6),
            1,
            "{1: 4}",
            "asked to stop at LSN 6, at which no transaction ends: stopped before it, at {1: 4}",
        ),
        (to_lsn(Some(1), 7), 2, "{1: 7}", ""),
        // Transactions of others go on until one of the replica's own lies beyond.
        (to_lsn(Some(1), 8), 4, "{1: 8, 2: 2}", ""),
        (to_lsn(Some(2), 0), 3, "{1: 8}", ""),
        (to_lsn(Some(2), 2), 5, "{0: 1, 1: 9, 2: 2}", ""),
        (to_lsn(Some(1), 11), 7, "{0: 1, 1: 11, 2: 3}", ""),
        (
            to_lsn(Some(1), 99),
            7,
            "{0: 1, 1: 11, 2: 3}",
            "asked to stop at LSN 99, before which the logs end, at {0: 1, 1: 11, 2: 3}",
        ),
        (to_vclock("{1: 3}"), 0, "{1: 3}", ""),
        (to_vclock("{1: 7}"), 2, "{1: 7}", ""),
        (to_vclock("{1: 8, 2: 2}"), 4, "{1: 8, 2: 2}", ""),
        (to_vclock("{1: 9, 2: 2}"), 5, "{0: 1, 1: 9, 2: 2}", ""),
        (to_vclock("{0: 1, 1: 9, 2: 3}"), 6, "{0: 1, 1: 9, 2: 3}", ""),
        (
            to_vclock("{1: 9, 2: 1}"),
            3,
            "{1: 8}",
            "asked to stop at vclock {1: 9, 2: 1}, at which no transaction ends: stopped before it, at {1: 8}",
        ),
        (to_vclock("{1: 11, 2: 3}"), 7, "{0: 1, 1: 11, 2: 3}", ""),
    ];
    for (stop, count, vclock, notice) in cases {
        for threads in [1, 3] {
            let (transactions, end) = read_until(&folder(NOW), stop, threads);
            let end = end.unwrap();
            assert_eq!(told(&transactions), FOLDER[..*count], "{stop:?}");
            assert_eq!(
                (end.vclock.to_string(), end.notices.join("; ")),
                (vclock.to_string(), notice.to_string())
            );
            assert_eq!(end.is_stopped, *count < 7, "{stop:?}");
        }
    }
    // The snapshot holds too much, or the replica is not said.
    for stop in [to_lsn(Some(1), 2), to_vclock("{1: 2}"), to_vclock("{2: 9}"), to_lsn(None, 2)] {
        let error = read_until(&folder(NOW), &stop, 1).1.unwrap_err();
        assert_eq!((error.kind(), error.what()), (ErrorKind::Usage, "the point to stop at"), "{error}");
    }
    assert_eq!(read_until(&folder(NOW), &to_lsn(None, 7), 1).0.len(), 2);
    let (transactions, end) = read_until(&folder(NOW), &to_lsn(None, 9), 1);
    assert_eq!((transactions.len(), end.unwrap_err().kind()), (3, ErrorKind::Usage));
}

#[test]
fn replay_stops_at_a_time() {
    let at = |lsn: u8, time: f64| {
        let mut row = insert(1, lsn, "");
        let place = row.windows(2).position(|pair| pair == [0x04, 0xcb]).unwrap() + 2;
        row[place..place + 8].copy_from_slice(&time.to_be_bytes());
        row
    };
    let rows = [at(1, 100.0), at(2, 101.5), at(3, 101.0), at(4, 102.0)];
    let files = Files::new("{}", &[(0, log(NOW, "{}", "", &[block(&rows)]))]);
    for (time, count) in
        [(99.0, 0), (100.0, 1), (101.0, 1), (101.5, 3), (101.9, 3), (102.0, 4), (f64::MAX, 4)]
    {
        let stop = Stop { time: Some(time), ..Stop::default() };
        let (transactions, end) = read_until(&files, &stop, 1);
        let end = end.unwrap();
        assert_eq!((transactions.len(), end.is_stopped), (count, count < 4), "{time}");
        assert_eq!(end.vclock.get(1), count as u64);
        assert_eq!(end.stopped_before.map(|place| place.row), (count < 4).then_some(count as u64));
    }
    // Where the log tells how late the snapshot is.
    let mut files = files;
    files.0.insert("d/00000000000000000002.snap".into(), snap("{1: 2}"));
    let error = read_until(&files, &Stop { time: Some(101.0), ..Stop::default() }, 1).1.unwrap_err();
    assert_eq!((error.kind(), error.place().row), (ErrorKind::Usage, Some(1)), "{error}");
}

#[test]
fn who_stops_before_damage_does_not_meet_it() {
    let damage: [&dyn Fn(&mut Files); 7] = [
        // The header of a later log, or the log.
        &|files| files.put(10, vec![]),
        &|files| drop(files.0.remove("d/00000000000000000010.xlog")),
        &|files| files.put(12, log(NOW, "{1: 9, 2: 3}", "{1: 7, 2: 1}", &[])),
        &|files| files.0.get_mut("d/00000000000000000010.xlog").unwrap()[60] = b'?',
        // The block behind.
        &|files| files.0.get_mut("d/00000000000000000010.xlog").unwrap()[200] ^= 1,
        // Rows are missing.
        &|files| files.put(10, log(NOW, "{1: 8, 2: 2}", "{1: 4}", &[block(&[insert(1, 10, "")])])),
        &|files| {
            files.put(10, log(NOW, "{1: 8, 2: 2}", "{1: 4}", &[]));
            files.put(12, log(NOW, "{1: 10, 2: 2}", "{1: 8, 2: 2}", &[]));
        },
    ];
    for (number, damage) in damage.iter().enumerate() {
        let mut files = folder(NOW);
        damage(&mut files);
        for stop in [to_lsn(Some(1), 8), to_vclock("{1: 8, 2: 2}"), to_lsn(Some(1), 7), to_vclock("{1: 4}")] {
            let (transactions, end) = read_until(&files, &stop, 1);
            let end = end.unwrap_or_else(|error| panic!("{number}, {stop:?}: {error}"));
            assert_eq!(told(&transactions), FOLDER[..transactions.len()]);
            assert!(stop.lsn.is_none_or(|lsn| end.vclock.get(1) == lsn.lsn), "{number}: {end:?}");
            assert!(stop.vclock.is_none_or(|vclock| end.vclock == vclock), "{number}: {end:?}");
            // What the first two have lost is the end of the last log, so nobody can see that it was there.
            assert_eq!(end.notices.len(), usize::from(number == 0), "{:?}", end.notices);
        }
        if number > 1 {
            let error = read_until(&files, &to_lsn(Some(1), 99), 1).1.map(|end| end.vclock);
            assert!(error.is_err(), "{number}: {error:?}");
        }
    }
}

#[test]
fn every_failing_call_is_an_error_and_all_before_it_is_right() {
    let files = folder(NOW);
    for threads in [1, 2] {
        let disk = files.disk();
        read_with(&disk, &Stop::default(), threads, usize::MAX, |_| Ok(())).unwrap();
        let calls = disk.faults().calls.load(Ordering::Relaxed);
        for call in 0..calls {
            let disk = files.disk();
            disk.faults().fail_at.store(call, Ordering::Relaxed);
            let mut transactions = Vec::new();
            let error = read_with(&disk, &Stop::default(), threads, usize::MAX, |transaction| {
                transactions.push(bytes_of(transaction));
                Ok(())
            });
            // One call alone looks whether the last log has a header at all, and leaves the saying to the next.
            match error {
                Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}"),
                Ok(_) => assert_eq!(transactions.len(), 7, "call {call}"),
            }
            assert_eq!(told(&transactions), FOLDER[..transactions.len()]);
        }
    }
}

/// What may come of a changed folder: an error, or transactions as they were up to some point, of which not being
/// all must have been told. `changed`: bytes of rows may differ. Gives whether it was noticed.
fn assert_right_or_noticed(files: &Files, expected: &[Rows], changed: bool, what: &str) -> bool {
    let (transactions, end) = read_until(files, &Stop::default(), 1);
    let rows: Rows = transactions.concat();
    let prefix = &expected.concat()[..rows.len()];
    assert_eq!(told(std::slice::from_ref(&rows)), told(&[prefix.to_vec()]), "{what}: {end:?}");
    if !changed {
        assert_eq!(rows, prefix, "{what}");
    }
    match end {
        Err(error) => {
            assert!(error.place().file.is_some(), "{what}: {error}");
            true
        }
        Ok(end) => {
            assert_eq!(told(&transactions), told(&expected[..transactions.len()]), "{what}: {end:?}");
            let is_all = transactions.len() == expected.len();
            assert!(is_all || !end.notices.is_empty(), "{what}: {end:?}");
            !is_all || !end.notices.is_empty()
        }
    }
}

/// Whether a byte of a log means nothing to a reader: a text header says much that nobody needs, and a block's head has
/// a number that is not used, and padding.
fn means_nothing(log: &[u8], at: usize) -> bool {
    let header_bytes = log.windows(2).position(|pair| pair == b"\n\n").unwrap() + 2;
    let heads = log.windows(3).enumerate().filter(|(_, bytes)| *bytes == [0xd5, 0xba, 0x0b]);
    let mut in_heads = heads.map(|(head, _)| at.wrapping_sub(head));
    at < header_bytes || in_heads.any(|at| at == 5 || (12..19).contains(&at))
}

#[test]
fn every_flipped_bit_of_a_folder_is_noticed_or_means_nothing() {
    for version in [NOW, OLD] {
        let whole = folder(version);
        let expected = read(&whole).0;
        let mut noticed = 0;
        for (name, bytes) in whole.0.iter().filter(|(name, _)| !name.ends_with("0000.xlog")) {
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut files = whole.clone();
                    files.0.get_mut(name).unwrap()[at] ^= 1 << bit;
                    let what = format!("bit {bit} of byte {at} of {name}");
                    match assert_right_or_noticed(&files, &expected, false, &what) {
                        true => noticed += 1,
                        // Blocks of the snapshot are not read here.
                        false => assert!(name.ends_with("snap") || means_nothing(bytes, at), "{what}"),
                    }
                }
            }
        }
        assert!(noticed > 6000, "{noticed}");
    }
}

#[test]
fn every_cut_of_a_file_of_a_folder_is_noticed_or_leaves_a_prefix() {
    for version in [NOW, OLD] {
        let whole = folder(version);
        let expected = read(&whole).0;
        for (name, bytes) in &whole.0 {
            for cut in 0..bytes.len() {
                let mut files = whole.clone();
                files.0.get_mut(name).unwrap().truncate(cut);
                if name.ends_with("10.xlog") {
                    // The last: at the end of a block nothing shows that there was more.
                    let transactions = read_until(&files, &Stop::default(), 1).0;
                    assert_eq!(transactions, expected[..transactions.len()]);
                } else {
                    assert_right_or_noticed(&files, &expected, false, &format!("{name} cut at {cut}"));
                }
            }
        }
    }
}

#[test]
fn no_flipped_bit_of_a_row_with_its_checksum_made_right_changes_which_rows_belong_together() {
    // Blocks of the second and the third log, as rows; what they are packed in is made anew.
    type Blocks = Vec<Vec<u8>>;
    let make = |version: &str, second: &Blocks, third: &Blocks| {
        let mut files = folder(version);
        let plain = |blocks: &Blocks| blocks.iter().map(|rows| build::plain(rows)).collect::<Vec<_>>();
        files.put(4, log(version, "{1: 4}", "{1: 2}", &plain(second)));
        files.put(10, log(version, "{1: 8, 2: 2}", "{1: 4}", &plain(third)));
        files
    };
    let second: Blocks = vec![
        [insert(1, 5, "0800"), insert(1, 6, "0801"), nop(1, 7, "0802 0901")].concat(),
        [insert(1, 8, ""), insert(2, 1, "0800"), insert(2, 2, "0801 0901")].concat(),
    ];
    let third: Blocks = vec![
        [insert(1, 9, "0800"), local(1, "08cffffffffffffffff8 0901")].concat(),
        insert(2, 3, ""),
        [insert(1, 10, "0800"), insert(1, 11, "0801 0901")].concat(),
    ];
    for version in [NOW, OLD] {
        let expected = read(&make(version, &second, &third)).0;
        let mut noticed = 0;
        for (number, rows) in second.iter().chain(&third).enumerate() {
            for at in 0..rows.len() {
                for bit in 0..8 {
                    let mut blocks = [second.clone(), third.clone()];
                    let (log, block) = if number < 2 { (0, number) } else { (1, number - 2) };
                    blocks[log][block][at] ^= 1 << bit;
                    let [second, third] = blocks;
                    let what = format!("{version}, bit {bit} of byte {at} of block {number}");
                    let files = make(version, &second, &third);
                    noticed += usize::from(assert_right_or_noticed(&files, &expected, true, &what));
                }
            }
        }
        assert!(noticed > 1000, "{noticed}");
    }
}

#[test]
fn random_logs_come_out_as_they_went_in_whatever_the_number_of_threads() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..30 {
        let (mut clock, mut expected) = ([0u64; 4], Vec::new());
        let (mut files, mut prev) = (Files::default(), String::new());
        // The snapshot stands after any transaction; the first log begins before it.
        let mut covered = None;
        for number in 0..random.usize(1..6) {
            let vclock = clock_text(&clock);
            let mut payloads = vec![Vec::new()];
            for _ in 0..random.usize(1..40) {
                let rows = random_transaction(&mut random, &mut clock, round % 10 == 0);
                for (row, ..) in &rows {
                    payloads.last_mut().unwrap().extend_from_slice(row);
                    if random.usize(0..8) == 0 {
                        payloads.push(Vec::new());
                    }
                }
                expected.push(rows.into_iter().map(|(_, id, lsn, bytes)| (id, lsn, bytes)).collect::<Rows>());
                if number == 0 && random.usize(0..15) == 0 {
                    covered = Some((clock, expected.len()));
                }
            }
            payloads.retain(|payload| !payload.is_empty());
            let mut pack = |payload: &Vec<u8>| {
                if random.bool() { build::plain(payload) } else { build::zstd(payload) }
            };
            let blocks: Vec<_> = payloads.iter().map(&mut pack).collect();
            files.put(signature_of(&vclock), log(NOW, &vclock, &prev, &blocks));
            prev = vclock;
        }
        let (covered, skipped) = covered.unwrap_or(([0; 4], 0));
        let vclock = clock_text(&covered);
        files.0.insert(format!("d/{:020}.snap", signature_of(&vclock)), snap(&vclock));
        for threads in [1, 2, 5] {
            let (transactions, end) = read_until(&files, &Stop::default(), threads);
            let end = end.unwrap_or_else(|error| panic!("round {round}: {error}"));
            assert!(transactions == expected[skipped..], "round {round}, {threads} threads");
            assert_eq!(end.vclock.to_string(), clock_text(&clock));
            assert_eq!(end.rows as usize, transactions.concat().len());
            assert_eq!(end.notices, [""; 0]);
        }
    }
}

fn clock_text(clock: &[u64; 4]) -> String {
    let parts =
        (0..).zip(clock).filter(|(_, lsn)| **lsn > 0).map(|(id, lsn): (u32, _)| format!("{id}: {lsn}"));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
}

/// Rows of one replica and of local spaces, as Tarantool 3 writes them: with the bytes of what is in them.
fn random_transaction(
    random: &mut fastrand::Rng,
    clock: &mut [u64; 4],
    are_large: bool,
) -> Vec<(Vec<u8>, u32, u64, Vec<u8>)> {
    let writer = random.u32(1..4);
    let ids: Vec<u32> =
        (0..random.usize(1..6)).map(|_| if random.usize(0..4) == 0 { 0 } else { writer }).collect();
    let lsns: Vec<u64> = ids
        .iter()
        .map(|&id| {
            clock[id as usize] += 1;
            clock[id as usize]
        })
        .collect();
    let tsn = lsns[ids.iter().position(|&id| id != 0).unwrap_or(0)];
    let rows = ids.iter().zip(&lsns).enumerate();
    rows.map(|(number, (&id, &lsn))| {
        let is_last = number + 1 == ids.len();
        let mut head = if id == 0 { vec![0x07, 1] } else { vec![0x02, id as u8] };
        head.push(0x03);
        rmp::encode::write_uint(&mut head, lsn).unwrap();
        let mut tail = Vec::new();
        if tsn != lsn || !is_last {
            tail.push(0x08);
            rmp::encode::write_uint(&mut tail, lsn.wrapping_sub(tsn)).unwrap();
            if is_last {
                tail.extend([0x09, 0x01]);
            }
        }
        let size = random.usize(0..if are_large { 20_000 } else { 30 });
        let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(size).collect();
        let mut tuple = vec![0x92];
        rmp::encode::write_uint(&mut tuple, lsn).unwrap();
        rmp::encode::write_str(&mut tuple, &text).unwrap();
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // As an INSERT, or as a DELETE by the same array.
        let (kind, key) = if random.bool() { (2, "21") } else { (5, "20") };
        let body = format!("82 10cd0200 {key} {}", hex(&tuple));
        (row(kind, &hex(&head), &hex(&tail), &body), id, lsn, tuple)
    })
    .collect()
}
