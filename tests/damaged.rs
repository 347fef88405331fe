//! Copies of one folder, each damaged in one place, and what becomes of them: an error that says where and why, a load
//! that says what is odd, or a load like any other because nothing in the format holds what was changed.
//!
//! The snapshot has four blocks, at bytes 103, 7917, 10183 and 12524, and its end marker at byte 14495. The log after it
//! has 54 blocks and goes from LSN 488 to 644, where an empty one begins.

mod common;

use std::path::PathBuf;

use ErrorKind::*;
use Fate::*;
use common::{folders, snapshots};
use lycosa::{ErrorKind, Options, Store};

/// What becomes of a damaged copy.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// An error of this kind; its block and byte; words of the message.
    Error(ErrorKind, Option<u64>, Option<u64>, &'static [&'static str]),
    /// It loads as if whole, with a notice of these words.
    Notice(&'static [&'static str]),
    /// It loads as if whole: why nothing can be noticed.
    Undetectable(&'static str),
}

const TABLE: &[(&str, Fate)] = &[
    ("bad-rows", Error(MsgPack, Some(1), Some(7917), &["row 115, space items", "the end of the bytes"])),
    ("bad-zstd", Error(Row, Some(1), Some(7917), &["row 60: row header: expected map"])),
    ("bad-zstd-frame", Error(Compression, Some(1), Some(7917), &["zstd", "unknown frame descriptor"])),
    ("bitflip-crc", Error(Checksum, Some(1), Some(7917), &["expected 0xa76f3e83, found 0xa76b3e83"])),
    ("bitflip-data", Error(Checksum, Some(1), Some(7917), &["expected 0xa76b3e83, found 0xf1b03d3f"])),
    ("bitflip-magic", Error(Container, Some(1), Some(7917), &["magic", "d5 ba 0b be"])),
    ("bitflip-padding", Undetectable("the content of the padding means nothing")),
    (
        "block-removed",
        Error(RowNumber, Some(1), Some(7917), &["rows are missing", "expected row number 599"]),
    ),
    ("block-twice", Error(RowNumber, Some(2), Some(10183), &["twice", "expected row number 715, found 599"])),
    ("blocks-swapped", Notice(&["not in the order of their rows", "have been sorted"])),
    ("empty-file", Error(Truncated, None, Some(0), &["text header", "0 bytes"])),
    ("eof-corrupt", Error(Container, Some(4), Some(14495), &["magic", "d5 00 ad ed"])),
    ("eof-half", Error(Truncated, Some(4), Some(14495), &["end marker", "2 bytes: d5 10"])),
    ("eof-missing", Error(Truncated, Some(4), Some(14495), &["end marker", "the end of the file"])),
    ("first-block-removed", Error(NoSystemRows, None, None, &["system spaces"])),
    ("garbage-after-eof", Error(Container, Some(4), Some(14495), &["nothing behind it", "64 bytes"])),
    ("garbage-between", Error(Container, Some(2), Some(10183), &["magic", "40 3c df 60"])),
    ("length-huge", Error(Limit, Some(1), Some(7917), &["payload length", "4294967280"])),
    // The block behind does not begin where the length says, so this block's checksum is asked first.
    ("length-long", Error(Checksum, Some(1), Some(7917), &["expected 0xa76b3e83"])),
    ("length-short", Error(Checksum, Some(1), Some(7917), &["expected 0xa76b3e83"])),
    ("prev-crc", Undetectable("no reader looks at this field, and writers always put 0")),
    ("text-filetype", Error(NotSuchFile, None, Some(0), &["file type", "SOAP"])),
    (
        "text-instance",
        Notice(&["f2019688-0083-4062-ba1d-401f3a527f05 of the text header is not in _cluster"]),
    ),
    ("text-instance-bad", Error(Container, None, Some(38), &["instance", "0z83"])),
    ("text-software", Undetectable("the writer's version is free text")),
    ("text-vclock-bad", Error(Container, None, Some(85), &["vclock", "{?: 487}"])),
    ("trunc-at-block", Error(Truncated, Some(2), Some(10183), &["end marker", "the end of the file"])),
    (
        "trunc-mid-block",
        Error(Truncated, Some(2), Some(10183), &["payload", "expected 2322 bytes, found 1161"]),
    ),
    ("trunc-mid-fixheader", Error(Truncated, Some(2), Some(10183), &["block head", "found 11"])),
    ("trunc-text-header", Error(Truncated, None, Some(0), &["text header", "none in 60 bytes"])),
    ("version-line", Error(Version, None, Some(5), &["0.99"])),
    ("zeros-appended", Error(Container, Some(4), Some(14495), &["nothing behind it", "4096 bytes"])),
    ("zeros-for-eof", Error(Container, Some(4), Some(14495), &["magic", "00 00 00 00"])),
];

const FILE: &str = "00000000000000000487.snap";

fn folder(case: &str) -> PathBuf {
    snapshots().join("damaged").join(format!("damaged-snap-{case}"))
}

fn tuples(store: &Store) -> (u64, u64) {
    (store.read_view().space(512u32).unwrap().len(), store.read_view().space(513u32).unwrap().len())
}

fn fingerprints(store: &Store) -> Vec<(u32, u64, Option<u32>)> {
    store.read_view().spaces().map(|space| (space.def().id, space.len(), space.fingerprint())).collect()
}

#[test]
fn the_table_has_a_line_for_every_damaged_copy() {
    let mut cases: Vec<String> = folders(&snapshots().join("damaged"))
        .iter()
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.strip_prefix("damaged-snap-")?.to_owned()))
        .collect();
    cases.sort();
    let mut lines: Vec<_> = TABLE.iter().map(|(case, _)| case.to_string()).collect();
    lines.sort();
    assert_eq!(cases, lines);
}

#[test]
fn every_damaged_copy_fares_as_the_table_says() {
    let base = Store::open(snapshots().join("damaged/base")).unwrap();
    assert_eq!(
        base.read_view().space(512u32).unwrap().len() + base.read_view().space(513u32).unwrap().len(),
        480
    );
    for (case, fate) in TABLE {
        let folder = folder(case);
        // A fault of the snapshot comes before what its logs have to say.
        let alone = Options::new().snapshot_only(true);
        let opened = [
            ("the folder", Store::open(&folder)),
            ("the folder, snapshot only", Store::open_with(&folder, &alone)),
            ("the file", Store::open(folder.join(FILE))),
            ("the file, one thread", Store::open_with(folder.join(FILE), &Options::new().threads(1))),
        ];
        for (number, (how, opened)) in opened.into_iter().enumerate() {
            let place = format!("{case}, {how}");
            match (fate, opened) {
                (Error(kind, block, byte, words), Err(error)) => {
                    assert_eq!(error.kind(), *kind, "{place}: {error}");
                    assert_eq!(error.place().file.as_deref(), Some(&*folder.join(FILE)), "{place}: {error}");
                    assert_eq!(error.place().block, *block, "{place}: {error}");
                    assert_eq!(error.place().byte, *byte, "{place}: {error}");
                    let text = error.to_string();
                    words
                        .iter()
                        .for_each(|word| assert!(text.contains(word), "{place}: no {word:?} in {text}"));
                }
                (Error(..), Ok(_)) => panic!("{place}: it loads"),
                // The logs belong to another instance.
                (_, Err(error)) if number == 0 && *case == "text-instance" => {
                    assert_eq!(error.kind(), Container, "{place}: {error}");
                    let text = error.to_string();
                    for uuid in
                        ["f2019688-0583-4062-ba1d-401f3a527f05", "f2019688-0083-4062-ba1d-401f3a527f05"]
                    {
                        assert!(text.contains(uuid), "{place}: no {uuid} in {text}");
                    }
                }
                (_, Err(error)) => panic!("{place}: {error}"),
                // With the logs there is more than the snapshot.
                (_, Ok(store)) if number == 0 => assert_eq!(tuples(&store), (519, 115), "{place}"),
                (Notice(words), Ok(store)) => {
                    assert_eq!(fingerprints(&store), fingerprints(&base), "{place}");
                    let notices = store.report().notices.join("\n");
                    words
                        .iter()
                        .for_each(|word| assert!(notices.contains(word), "{place}: {word:?} in {notices:?}"));
                }
                (Undetectable(why), Ok(store)) => {
                    assert_eq!(fingerprints(&store), fingerprints(&base), "{place}");
                    assert_eq!(store.report().notices, [""; 0], "{place}: {why}");
                }
            }
        }
    }
}

/// What becomes of a folder with a damaged log.
#[derive(Debug, Clone, Copy)]
enum LogFate {
    /// An error of this kind; the signature of the log it names; its block and byte; words of the message.
    Fails(ErrorKind, u64, Option<u64>, Option<u64>, &'static [&'static str]),
    /// It loads up to an LSN, with the tuples that Tarantool recovers, and a notice of these words (if any).
    Loads(u64, (u64, u64), &'static [&'static str]),
}

use LogFate::{Fails, Loads};

const LOG: u64 = 487;
const NEXT_LOG: u64 = 644;
const WHOLE: (u64, u64) = (519, 115);
const PREFIX: (u64, u64) = (393, 100);
const TAIL: &[&str] = &["bytes that are no whole block", "left out"];

const LOG_TABLE: &[(&str, LogFate)] = &[
    ("bad-rows", Fails(MsgPack, LOG, Some(12), Some(1018), &["row 0", "whole MsgPack value"])),
    ("bitflip-crc", Fails(Checksum, LOG, Some(12), Some(1018), &[])),
    ("bitflip-data", Fails(Checksum, LOG, Some(12), Some(1018), &[])),
    ("bitflip-magic", Fails(Container, LOG, Some(12), Some(1018), &["magic"])),
    ("bitflip-padding", Loads(644, WHOLE, &[])),
    ("bitflip-zstd", Fails(Checksum, LOG, Some(30), None, &[])),
    // Tarantool loses a row, or rows, of these three without a word.
    (
        "block-removed",
        Fails(RowNumber, LOG, Some(12), Some(1018), &["expected LSN 500 of replica 1, found 501"]),
    ),
    ("block-twice", Fails(RowNumber, LOG, Some(13), None, &["expected LSN 501 of replica 1, found 500"])),
    (
        "blocks-swapped",
        Fails(RowNumber, LOG, Some(12), Some(1018), &["expected LSN 500 of replica 1, found 501"]),
    ),
    ("empty-file", Fails(Truncated, LOG, None, Some(0), &["text header"])),
    ("eof-corrupt", Fails(Container, LOG, Some(54), None, &["magic"])),
    ("eof-half", Loads(644, WHOLE, TAIL)),
    ("eof-missing", Loads(644, WHOLE, &[])),
    ("garbage-after-eof", Fails(Container, LOG, Some(54), None, &["nothing behind it"])),
    ("garbage-between", Fails(Container, LOG, Some(13), None, &["magic"])),
    ("last-bitflip-data", Fails(Checksum, LOG, Some(53), None, &[])),
    ("last-eof-missing", Loads(644, WHOLE, &[])),
    ("last-trunc-mid-block", Loads(500, PREFIX, TAIL)),
    ("last-trunc-mid-fixheader", Loads(500, PREFIX, TAIL)),
    ("last-zeros-for-eof", Loads(644, WHOLE, TAIL)),
    ("length-huge", Fails(Limit, LOG, Some(12), Some(1018), &["payload length"])),
    ("length-long", Fails(Checksum, LOG, Some(12), Some(1018), &[])),
    ("length-short", Fails(Checksum, LOG, Some(12), Some(1018), &[])),
    (
        "missing",
        Fails(Missing, NEXT_LOG, None, None, &["00000000000000000487.xlog", "LSNs 488 to 644 of replica 1"]),
    ),
    ("prev-crc", Loads(644, WHOLE, &[])),
    ("text-filetype", Fails(NotSuchFile, LOG, None, Some(0), &["XMOG"])),
    ("text-instance", Fails(Container, LOG, None, None, &["instance", "00000000000000000487.snap"])),
    ("text-instance-bad", Fails(Container, LOG, None, Some(38), &["instance"])),
    ("text-software", Loads(644, WHOLE, &[])),
    ("text-vclock-bad", Fails(Container, LOG, None, Some(85), &["vclock"])),
    // Tarantool silently loses what the log held behind the cut, though another log follows.
    ("trunc-at-block", Fails(Truncated, LOG, None, Some(1093), &["{1: 644}", "00000000000000000644.xlog"])),
    ("trunc-mid-block", Fails(Truncated, LOG, None, Some(1093), &["{1: 644}", "00000000000000000644.xlog"])),
    (
        "trunc-mid-fixheader",
        Fails(Truncated, LOG, None, Some(1093), &["{1: 644}", "00000000000000000644.xlog"]),
    ),
    ("trunc-text-header", Fails(Truncated, LOG, None, Some(0), &["text header"])),
    // Tarantool applies half a transaction.
    ("txn-no-commit", Fails(RowNumber, LOG, Some(31), None, &["expected LSN 617 of replica 1, found 618"])),
    ("version-line", Fails(Version, LOG, None, Some(5), &["0.99"])),
    ("zeros-appended", Fails(Container, LOG, Some(54), None, &["nothing behind it"])),
    ("zeros-for-eof", Loads(644, WHOLE, TAIL)),
];

#[test]
fn every_damaged_log_fares_as_the_table_says() {
    let mut cases: Vec<String> = folders(&snapshots().join("damaged"))
        .iter()
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.strip_prefix("damaged-xlog-")?.to_owned()))
        .collect();
    cases.sort();
    assert_eq!(cases, LOG_TABLE.iter().map(|(case, _)| case.to_string()).collect::<Vec<_>>());
    for (case, fate) in LOG_TABLE {
        let folder = snapshots().join("damaged").join(format!("damaged-xlog-{case}"));
        for threads in [1, 2] {
            let opened = Store::open_with(&folder, &Options::new().threads(threads));
            match (fate, opened) {
                (Fails(kind, log, block, byte, words), Err(error)) => {
                    assert_eq!(error.kind(), *kind, "{case}: {error}");
                    let file = folder.join(format!("{log:020}.xlog"));
                    assert_eq!(error.place().file.as_deref(), Some(&*file), "{case}: {error}");
                    assert_eq!(error.place().block, *block, "{case}: {error}");
                    assert!(byte.is_none() || error.place().byte == *byte, "{case}: {error}");
                    let text = error.to_string();
                    words
                        .iter()
                        .for_each(|word| assert!(text.contains(word), "{case}: no {word:?} in {text}"));
                }
                (Loads(lsn, expected, words), Ok(store)) => {
                    assert_eq!(store.report().vclock, format!("{{1: {lsn}}}"), "{case}");
                    assert_eq!(tuples(&store), *expected, "{case}");
                    let notices = store.report().notices.join("\n");
                    words
                        .iter()
                        .for_each(|word| assert!(notices.contains(word), "{case}: {word:?} in {notices:?}"));
                    assert!(!words.is_empty() || notices.is_empty(), "{case}: {notices}");
                }
                (fate, opened) => {
                    panic!("{case}: {fate:?}, but {:?}", opened.map(|store| store.report().vclock.clone()))
                }
            }
            // Nothing of the folder's logs matters to who wants the snapshot alone.
            let alone = Store::open_with(&folder, &Options::new().snapshot_only(true)).unwrap();
            assert_eq!(
                alone.read_view().space(512u32).unwrap().len()
                    + alone.read_view().space(513u32).unwrap().len(),
                480,
                "{case}"
            );
        }
    }
}
