//! What is saved of damaged files: at least what Tarantool saves with `force_recovery`, nothing that was not there, and a
//! report that says "nothing is lost" only where nothing is.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::file::{Block, Parts, rows};
use common::{folders, snapshots};
use fastrand::Rng;
use lycosa::{ErrorKind, Options, SalvageOptions, SalvageReport, Store, Verdict, salvage};

/// Each damaged copy: what `force_recovery` of 2.6.0 saves of both spaces (nothing where it does not start), what is saved
/// here, and whether that is all.
#[rustfmt::skip]
#[expect(clippy::type_complexity, reason = "a table")]
const TABLE: &[(&str, (u64, u64), (u64, u64), bool)] = &[
    ("snap-bad-rows", (518, 115), (518, 115), false),
    ("snap-bad-zstd", (463, 115), (463, 115), false),
    ("snap-bad-zstd-frame", (0, 0), (403, 115), false),
    ("snap-bitflip-crc", (403, 115), (519, 115), true),
    ("snap-bitflip-data", (403, 115), (519, 115), true),
    ("snap-bitflip-magic", (403, 115), (519, 115), true),
    ("snap-bitflip-padding", (519, 115), (519, 115), true),
    ("snap-block-removed", (403, 115), (403, 115), false),
    ("snap-block-twice", (519, 115), (519, 115), true),
    ("snap-blocks-swapped", (519, 115), (519, 115), true),
    ("snap-empty-file", (0, 0), (140, 15), false),
    ("snap-eof-corrupt", (0, 0), (519, 115), true),
    ("snap-eof-half", (0, 0), (519, 115), true),
    ("snap-eof-missing", (0, 0), (519, 115), false),
    ("snap-first-block-removed", (0, 0), (439, 115), false),
    ("snap-garbage-after-eof", (0, 0), (519, 115), true),
    ("snap-garbage-between", (519, 115), (519, 115), true),
    ("snap-length-huge", (403, 115), (519, 115), true),
    ("snap-length-long", (403, 115), (519, 115), true),
    ("snap-length-short", (403, 115), (519, 115), true),
    ("snap-prev-crc", (519, 115), (519, 115), true),
    ("snap-text-filetype", (0, 0), (519, 115), true),
    ("snap-text-instance", (0, 0), (519, 115), true),
    ("snap-text-instance-bad", (0, 0), (519, 115), true),
    ("snap-text-software", (519, 115), (519, 115), true),
    ("snap-text-vclock-bad", (0, 0), (519, 115), true),
    ("snap-trunc-at-block", (0, 0), (336, 15), false),
    ("snap-trunc-mid-block", (0, 0), (336, 15), false),
    ("snap-trunc-mid-fixheader", (0, 0), (336, 15), false),
    ("snap-trunc-text-header", (0, 0), (140, 15), false),
    ("snap-version-line", (0, 0), (519, 115), true),
    ("snap-zeros-appended", (0, 0), (519, 115), true),
    ("snap-zeros-for-eof", (0, 0), (519, 115), false),
    ("xlog-bad-rows", (518, 115), (518, 115), false),
    ("xlog-bitflip-crc", (518, 115), (519, 115), true),
    ("xlog-bitflip-data", (518, 115), (519, 115), true),
    ("xlog-bitflip-magic", (518, 115), (519, 115), true),
    ("xlog-bitflip-padding", (519, 115), (519, 115), true),
    ("xlog-bitflip-zstd", (419, 115), (519, 115), true),
    ("xlog-block-removed", (518, 115), (518, 115), false),
    ("xlog-block-twice", (519, 115), (519, 115), true),
    ("xlog-blocks-swapped", (518, 115), (519, 115), true),
    ("xlog-empty-file", (380, 100), (380, 100), false),
    ("xlog-eof-corrupt", (519, 115), (519, 115), true),
    ("xlog-eof-half", (519, 115), (519, 115), true),
    ("xlog-eof-missing", (519, 115), (519, 115), true),
    ("xlog-garbage-after-eof", (519, 115), (519, 115), true),
    ("xlog-garbage-between", (519, 115), (519, 115), true),
    ("xlog-last-bitflip-data", (518, 115), (519, 115), true),
    ("xlog-last-eof-missing", (519, 115), (519, 115), true),
    ("xlog-last-trunc-mid-block", (393, 100), (393, 100), false),
    ("xlog-last-trunc-mid-fixheader", (393, 100), (393, 100), false),
    ("xlog-last-zeros-for-eof", (519, 115), (519, 115), true),
    ("xlog-length-huge", (518, 115), (519, 115), true),
    ("xlog-length-long", (518, 115), (519, 115), true),
    ("xlog-length-short", (518, 115), (519, 115), true),
    ("xlog-missing", (380, 100), (380, 100), false),
    ("xlog-prev-crc", (519, 115), (519, 115), true),
    ("xlog-text-filetype", (380, 100), (519, 115), true),
    ("xlog-text-instance", (380, 100), (519, 115), true),
    ("xlog-text-instance-bad", (380, 100), (519, 115), true),
    ("xlog-text-software", (519, 115), (519, 115), true),
    ("xlog-text-vclock-bad", (380, 100), (519, 115), true),
    ("xlog-trunc-at-block", (393, 100), (393, 100), false),
    ("xlog-trunc-mid-block", (393, 100), (393, 100), false),
    ("xlog-trunc-mid-fixheader", (393, 100), (393, 100), false),
    ("xlog-trunc-text-header", (380, 100), (380, 100), false),
    ("xlog-txn-no-commit", (518, 115), (518, 115), false),
    ("xlog-version-line", (380, 100), (519, 115), true),
    ("xlog-zeros-appended", (519, 115), (519, 115), true),
    ("xlog-zeros-for-eof", (519, 115), (519, 115), true),
];

fn save(source: &Path, options: &SalvageOptions) -> (tempfile::TempDir, SalvageReport) {
    let target = tempfile::tempdir().unwrap();
    let report = salvage(source, target.path(), options)
        .unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    (target, report)
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn open(path: &Path) -> Store {
    Store::open_with(path, &Options::new().threads(1))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_damaged_copy_gives_at_least_what_force_recovery_saves() {
    let cases = folders(&snapshots().join("damaged"));
    let mut cases: Vec<String> = cases
        .iter()
        .filter_map(|folder| Some(folder.file_name()?.to_str()?.strip_prefix("damaged-")?.to_owned()))
        .collect();
    cases.sort();
    assert_eq!(cases, TABLE.iter().map(|line| line.0).collect::<Vec<_>>());
    let base = open(&snapshots().join("2.6/59-damage-base/data"));
    for &(case, forced, expected, is_complete) in TABLE {
        let source = snapshots().join(format!("damaged/damaged-{case}"));
        let before = files(&source);
        let (target, report) = save(&source, &SalvageOptions::new());
        assert!(before == files(&source), "{case}: the source has changed");
        let saved = open(target.path());
        let count = |id: u32| saved.read_view().space(id).map_or(0, |space| space.len());
        let found = (count(512), count(513));
        assert_eq!(found, expected, "{case}: {report:#?}");
        assert!(found.0 >= forced.0 && found.1 >= forced.1, "{case}: {found:?} of {forced:?}");
        assert_eq!(report.is_complete(), is_complete, "{case}: {report:#?}");
        if is_complete {
            for id in [512, 513] {
                let fingerprint = |store: &Store| store.read_view().space(id).unwrap().fingerprint();
                assert_eq!(fingerprint(&saved), fingerprint(&base), "{case}: space {id}");
            }
        }
        assert_eq!(report.side_file.is_some(), report.dropped_rows > 0, "{case}");
        let verdict = Verdict::read(target.path());
        assert_eq!(verdict.faults(), 0, "{case}: {:?}", verdict.findings);
        // What was saved is not damaged any more.
        let (_, again) = save(target.path(), &SalvageOptions::new());
        assert!(again.is_complete() && again.losses.is_empty(), "{case}: {again:#?}");
    }
}

/// All tuples of a store, with the ids of their spaces.
fn tuples(store: &Store) -> BTreeSet<(u32, Vec<u8>)> {
    let view = store.read_view();
    let spaces = view.spaces().filter(|space| space.def().id >= 512);
    spaces
        .flat_map(|space| {
            let id = space.def().id;
            // A definition may be among what is damaged.
            let primary = space.primary().into_iter();
            primary
                .flat_map(|index| index.iter())
                .map(move |tuple| (id, tuple.bytes().to_vec()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Damages a file in some way that storage does.
fn damage(bytes: &mut Vec<u8>, random: &mut Rng) {
    let at = random.usize(..bytes.len());
    match random.u8(..6) {
        0 => bytes[at] ^= 1 << random.u8(..8),
        1 => bytes[at] = random.u8(..),
        2 => {
            let end = bytes.len().min(at + random.usize(1..600));
            bytes[at..end].fill(0);
        }
        3 => {
            let end = bytes.len().min(at + random.usize(1..100));
            random.fill(&mut bytes[at..end]);
        }
        4 => bytes.truncate(at),
        _ => {
            let end = bytes.len().min(at + random.usize(1..3000));
            bytes.drain(at..end);
        }
    }
}

#[test]
fn whatever_is_done_to_a_snapshot_nothing_is_saved_that_was_not_there() {
    let seed = fastrand::u64(..1 << 48);
    let random = &mut Rng::with_seed(seed);
    let (mut complete, mut repaired) = (0, 0);
    for case in ["2.6/02-one-space", "2.6/04-all-types", "2.6/17-multikey"] {
        let path = common::snapshot_of(&snapshots().join(case));
        let whole = fs::read(&path).unwrap();
        // Small blocks are not compressed; rows of those are read although a checksum is wrong.
        let parts = Parts::of(&whole).unwrap();
        let plain = Parts {
            text: parts.text.clone(),
            blocks: parts.blocks.iter().map(|block| Block::new(&block.rows().unwrap(), false)).collect(),
        };
        let all = tuples(&open(&path));
        for round in 0..60 {
            let mut bytes = if round % 2 == 0 { whole.clone() } else { plain.file() };
            for _ in 0..random.usize(1..3) {
                damage(&mut bytes, random);
            }
            let folder = tempfile::tempdir().unwrap();
            let damaged = folder.path().join(path.file_name().unwrap());
            fs::write(&damaged, &bytes).unwrap();
            let (target, report) = save(folder.path(), &SalvageOptions::new().threads(1));
            let place = format!("{case}, seed {seed}, round {round}: {report:#?}");
            let saved = tuples(&open(target.path()));
            if report.is_complete() {
                assert_eq!(saved.len(), all.len(), "{place}");
                complete += 1;
                repaired += usize::from(report.losses.iter().any(|loss| loss.repaired.is_some()));
            }
            if report.unchecked_rows == 0 {
                assert!(saved.is_subset(&all), "{place}");
            }
            let (target, report) = save(folder.path(), &SalvageOptions::new().threads(1).checked_only(true));
            assert!(tuples(&open(target.path())).is_subset(&all), "{place}");
            assert_eq!(report.unchecked_rows, 0, "{place}");
        }
    }
    assert!(complete > 5 && repaired > 0, "seed {seed}: {complete} complete, {repaired} repaired");
}

/// Where nothing is damaged, each row for itself gives what replay gives.
#[test]
fn of_good_folders_all_is_saved() {
    let mut folders_saved = 0;
    for version in ["2.6", "3.9", "random"] {
        for case in folders(&snapshots().join(version)) {
            let folder = [case.join("data"), case].into_iter().find(|folder| folder.is_dir()).unwrap();
            let Ok(store) = Store::open_with(&folder, &Options::new().threads(1)) else { continue };
            let target = tempfile::tempdir().unwrap();
            let place = folder.display();
            let report = salvage(&folder, target.path(), &SalvageOptions::new())
                .unwrap_or_else(|error| panic!("{place}: {error}"));
            let saved = open(target.path()).read_view();
            for space in store.read_view().spaces() {
                let def = space.def();
                let same = saved.space(def.id).unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(same.fingerprint(), space.fingerprint(), "{place}: {}: {report:#?}", def.name);
            }
            // Of a space without any index in memory nobody can list the tuples: its rows are in the side file.
            let has_absent = store.read_view().schema().spaces().iter().any(|space| {
                let is_absent = space.primary().is_some_and(|primary| primary.absent.is_some());
                space.id >= 512
                    && space.engine == "memtx"
                    && !space.is_view
                    && !space.is_temporary
                    && is_absent
                    && store.read_view().space(space.id).is_err()
            });
            assert_eq!(report.is_complete(), !has_absent, "{place}: {report:#?}");
            folders_saved += 1;
        }
    }
    assert!(folders_saved > 120, "only {folders_saved} folders");
}

#[test]
fn whatever_is_done_to_a_folder_what_is_called_complete_is() {
    let seed = fastrand::u64(..1 << 48);
    let random = &mut Rng::with_seed(seed);
    for case in
        ["2.6/36-xlog-ops", "2.6/38-transactions", "2.6/59-damage-base", "2.6/29-altered", "2.6/26-truncate"]
    {
        let source = snapshots().join(case).join("data");
        let originals = files(&source);
        let all = tuples(&open(&source));
        let mut complete = 0;
        for round in 0..40 {
            let folder = tempfile::tempdir().unwrap();
            let number = random.usize(..originals.len());
            for (at, (path, bytes)) in originals.iter().enumerate() {
                let mut bytes = bytes.clone();
                if at == number {
                    damage(&mut bytes, random);
                }
                fs::write(folder.path().join(path.file_name().unwrap()), bytes).unwrap();
            }
            let (target, report) = save(folder.path(), &SalvageOptions::new().threads(1));
            let saved = tuples(&open(target.path()));
            // Of the end of the last log nobody knows where it was.
            let is_last = number + 1 == originals.len();
            if report.is_complete() && !is_last {
                let damaged = originals[number].0.display();
                assert!(saved == all, "{case}, seed {seed}, round {round}, {damaged}: {report:#?}");
                complete += 1;
            }
        }
        assert!(complete > 0, "{case}, seed {seed}: nothing was complete");
    }
}

#[test]
fn a_wrong_digit_in_a_vclock_costs_nothing() {
    let source = snapshots().join("2.6/59-damage-base/data");
    let all = tuples(&open(&source));
    for name in ["00000000000000000487.snap", "00000000000000000487.xlog", "00000000000000000644.xlog"] {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files(&source) {
            let file = path.file_name().unwrap().to_str().unwrap();
            let mut bytes = bytes;
            if file == name {
                let key = b"VClock: {1: ";
                let at = bytes.windows(key.len()).position(|part| part == key).unwrap() + key.len();
                bytes[at] = b'9';
            }
            // Without the first snapshot, which with all logs would do as well.
            if !file.ends_with("0000.snap") {
                fs::write(folder.path().join(file), bytes).unwrap();
            }
        }
        let (target, report) = save(folder.path(), &SalvageOptions::new());
        assert!(tuples(&open(target.path())) == all, "{name}: {report:#?}");
    }
}

/// The samples' smallest space, with these rows behind its own.
fn with_rows(more: &[(u32, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let path = common::snapshot_of(&snapshots().join("2.6/02-one-space"));
    let mut parts = Parts::of(&fs::read(&path).unwrap()).unwrap();
    let first = parts.inserts().unwrap().len() as u64;
    let more: Vec<(u32, Vec<u8>)> = more.iter().map(|(id, tuple)| (*id, tuple.to_vec())).collect();
    parts.blocks.push(Block::new(&rows(&more, first), false));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(path.file_name().unwrap());
    fs::write(&file, parts.file()).unwrap();
    (folder, file)
}

#[test]
fn rows_that_do_not_fit_are_in_the_side_file_each_with_its_reason() {
    let base = tuples(&open(&common::snapshot_of(&snapshots().join("2.6/02-one-space"))));
    // Users are [id, name, age]: a key that is there, a name that is none, a space that nobody knows, and one that fits.
    let more: &[(u32, &[u8])] = &[
        (512, b"\x93\x0e\xa3new\x01"),
        (512, b"\x93\xcd\xff\xff\x05\x01"),
        (512, b"\x93\xcd\xff\xfe\xa3Zoe\x29"),
    ];
    let (_folder, path) = with_rows(more);
    assert_eq!(Store::open(&path).unwrap_err().kind(), ErrorKind::TupleFormat);
    let (target, report) = save(&path, &SalvageOptions::new());
    assert_eq!((report.dropped_rows, report.is_complete()), (2, false), "{report:#?}");
    let mut expected = base.clone();
    expected.insert((512, more[2].1.to_vec()));
    assert_eq!(tuples(&open(target.path())), expected);
    let side = fs::read_to_string(report.side_file.unwrap()).unwrap();
    let lines: Vec<serde_json::Value> =
        side.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reason = |line: usize| lines[line]["reason"].as_str().unwrap();
    assert_eq!(lines.len(), 2);
    assert!(reason(0).contains("users") && reason(0).contains("14"), "{}", reason(0));
    assert!(reason(1).contains("field 2"), "{}", reason(1));
    assert_eq!(lines[0]["content"]["BODY"]["tuple"], serde_json::json!([14, "new", 1]));
    assert_eq!((&lines[0]["row"], &lines[1]["row"]), (&0.into(), &1.into()));

    let mut verdict = Verdict::read(&path);
    assert_eq!(verdict.faults(), 0, "{:?}", verdict.findings);
    verdict.examine(&path, &SalvageOptions::new()).unwrap();
    assert_eq!(verdict.faults(), 2, "{:?}", verdict.findings);
}

#[test]
fn a_space_without_a_definition_gets_one_that_tells_its_tuples_apart() {
    // The first field alone is not unique.
    let more: &[(u32, &[u8])] = &[
        (600, b"\x93\x01\xa1a\x01"),
        (600, b"\x93\x01\xa1b\x02"),
        (600, b"\x93\x02\xa1a\x03"),
        (601, b"\x92\xa1x\x03"),
        (601, b"\x92\xa1y\x03"),
    ];
    let (_folder, path) = with_rows(more);
    assert_eq!(Store::open(&path).unwrap_err().kind(), ErrorKind::Schema);
    let (target, report) = save(&path, &SalvageOptions::new());
    assert_eq!(report.dropped_rows, 0, "{report:#?}");
    let saved = open(target.path()).read_view();
    let space = saved.space("space_600").unwrap();
    assert_eq!((space.len(), space.def().primary().unwrap().parts.len()), (3, 2));
    assert_eq!(saved.space("space_601").unwrap().len(), 2);
    assert!(report.spaces.iter().all(|space| space.is_guessed == (space.id >= 600)), "{:?}", report.spaces);
}

#[test]
fn an_older_snapshot_and_its_logs_stand_in_for_a_newer_one() {
    let source = snapshots().join("2.6/59-damage-base/data");
    let folder = tempfile::tempdir().unwrap();
    for (path, bytes) in files(&source) {
        fs::write(folder.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let newest = folder.path().join("00000000000000000487.snap");
    let mut bytes = fs::read(&newest).unwrap();
    let end = bytes.len();
    bytes[end / 2..end / 2 + 500].fill(0x55);
    fs::write(&newest, bytes).unwrap();
    let (target, report) = save(folder.path(), &SalvageOptions::new());
    assert!(report.is_complete() && report.notices.len() == 1, "{report:#?}");
    assert_ne!(report.snapshot, Some(newest));
    assert_eq!(tuples(&open(target.path())), tuples(&open(&source)));
}

#[test]
fn a_target_that_has_files_is_left_alone_and_nothing_to_save_is_an_error() {
    let source = snapshots().join("2.6/02-one-space");
    let target = tempfile::tempdir().unwrap();
    fs::write(target.path().join("mine"), b"x").unwrap();
    let error = salvage(&source, target.path(), &SalvageOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 1);
    let empty = tempfile::tempdir().unwrap();
    let error = salvage(empty.path(), empty.path().join("new"), &SalvageOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
    let error = salvage("no/such", empty.path().join("new"), &SalvageOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
}
