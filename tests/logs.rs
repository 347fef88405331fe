//! Folders as Tarantool left them, with their logs: opened, they hold what Tarantool held after its own recovery.

mod common;

use std::path::PathBuf;

use common::expected::{assert_order, assert_store, assert_system_rows, lines};
use common::{folders, snapshots};
use lycosa::{ErrorKind, IndexKind, Options, Store};

/// Its primary key holds numbers twice, in two encodings; 2.6.0 took them for two keys, and so its log.
const TWO_ENCODINGS: &str = "2.6/10-noncanonical";

/// Dumps in another order than Tarantool's, as `tests/corpus.rs` explains.
const OTHER_ORDER: &[&str] = &[
    "2.6/06-doubles-nan: dec_inf.x",
    "2.6/06-doubles-nan: nan_dbl.x",
    "2.6/06-doubles-nan: nan_idx.x",
    "3.9/01-ext-types: dt_pk.pk",
    "3.9/01-ext-types: dt_sec.at",
    "3.9/02-scalar-number-any: num.v",
    "3.9/17-noncanonical-maps: exts.at",
    "3.9/17-noncanonical-maps: exts.sc",
    "3.9/17-noncanonical-maps: exts.u",
    "random/r26-008: i7.ren13",
];

fn cases() -> Vec<(String, PathBuf)> {
    let mut cases = Vec::new();
    for version in ["2.6", "3.9", "random"] {
        for folder in folders(&snapshots().join(version)) {
            if folder.join("data").is_dir() {
                cases.push((format!("{version}/{}", folder.file_name().unwrap().to_string_lossy()), folder));
            }
        }
    }
    assert!(cases.len() > 120, "only {} cases", cases.len());
    cases
}

fn open(case: &str, folder: &std::path::Path, options: &Options) -> Store {
    Store::open_with(folder.join("data"), options).unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn every_folder_holds_what_tarantool_held() {
    let (mut absent, mut reordered) = (Vec::new(), Vec::new());
    for (case, folder) in cases().iter().filter(|(case, _)| case != TWO_ENCODINGS) {
        let store = open(case, folder, &Options::new());
        let expected = folder.join("expected");
        let seen = assert_store(case, &store, &expected);
        absent.extend(seen.absent);
        reordered.extend(seen.reordered);
        assert_system_rows(case, &store, &expected);
    }
    reordered.sort_unstable();
    assert_eq!(reordered, OTHER_ORDER);
    // Nothing is left out silently: what could not be compared stands in a file, with its reason.
    let mut text =
        String::from("# case | space | index | why it was not compared; written by tests/logs.rs\n");
    absent.iter().for_each(|line| text.extend([line, "\n"]));
    common::assert_text(&snapshots().join("absent_with_logs.txt"), &text);
}

#[test]
fn every_index_is_in_the_slow_order_and_finds_what_a_scan_finds() {
    for (case, folder) in cases() {
        assert_order(&case, &open(&case, &folder, &Options::new()), 5);
    }
}

#[test]
fn threads_hints_and_the_nested_path_change_nothing() {
    for (case, folder) in cases() {
        let plain = open(&case, &folder, &Options::new().threads(1));
        for options in [
            Options::new().threads(3),
            Options::new().threads(1).hints(false),
            Options::new().threads(1).nested(true),
        ] {
            let other = open(&case, &folder, &options);
            assert_eq!(plain.report().vclock, other.report().vclock, "{case}");
            assert_eq!(plain.report().logs, other.report().logs, "{case}");
            for (one, other) in plain.read_view().spaces().zip(other.read_view().spaces()) {
                let place = format!("{case}: {}, {options:?}", one.def().name);
                assert_eq!(one.def(), other.def(), "{place}");
                assert_eq!(one.fingerprint(), other.fingerprint(), "{place}");
                for index in one.def().indexes.iter().filter(|index| index.absent.is_none()) {
                    let indexes = [one.index_by_id(index.id).unwrap(), other.index_by_id(index.id).unwrap()];
                    let mut lines = indexes.map(|index| lines(&index));
                    if index.kind == IndexKind::Hash {
                        lines.iter_mut().for_each(|lines| lines.sort());
                    }
                    assert!(lines[0] == lines[1], "{place}, index {}", index.name);
                }
            }
        }
    }
}

#[test]
fn a_snapshot_made_after_the_logs_holds_the_same() {
    for (case, folder) in cases().iter().filter(|(case, _)| case != TWO_ENCODINGS) {
        let Ok(snapshot) = Store::open(folder).map(|store| store.read_view()) else { continue };
        let replayed = open(case, folder, &Options::new());
        for space in replayed.read_view().spaces().filter(|space| space.def().id >= 512) {
            let Ok(other) = snapshot.space(space.def().id) else { continue };
            assert_eq!(space.fingerprint(), other.fingerprint(), "{case}: {}", space.def().name);
            assert_eq!(space.len(), other.len(), "{case}: {}", space.def().name);
        }
    }
}

#[test]
fn replay_stops_at_every_lsn() {
    let folder = snapshots().join("2.6/38-transactions/data");
    let whole = Store::open(&folder).unwrap();
    let snapshot = Store::open_with(&folder, &Options::new().snapshot_only(true)).unwrap();
    let lsn = |store: &Store| -> u64 {
        let vclock = store.report().vclock.parse::<lycosa::Vclock>().unwrap();
        vclock.get(1)
    };
    let (first, last) = (lsn(&snapshot), lsn(&whole));
    assert!(last > first);
    let mut before = first;
    for stop in first..=last {
        let store = Store::open_with(&folder, &Options::new().to_lsn(stop)).unwrap();
        // Whole transactions only: as far as there is one that ends there.
        assert!((before..=stop).contains(&lsn(&store)), "{stop}: {}", store.report().vclock);
        before = lsn(&store);
    }
    assert_eq!(before, last);
    // Where the newest snapshot holds more than is asked for, an older one is taken.
    let early =
        Store::open_with(snapshots().join("2.6/35-rotations/data"), &Options::new().to_lsn(1)).unwrap();
    assert_eq!(lsn(&early), 1);
    // So is a time.
    let logs = whole.report().logs.clone().unwrap();
    let (first_time, last_time) = (logs.first_timestamp.unwrap(), logs.last_timestamp.unwrap());
    let store = Store::open_with(&folder, &Options::new().to_time(last_time)).unwrap();
    assert_eq!(lsn(&store), last);
    let store = Store::open_with(&folder, &Options::new().to_time((first_time + last_time) / 2.0)).unwrap();
    assert!((first..=last).contains(&lsn(&store)));
}

#[test]
fn a_space_that_the_log_makes_is_loaded_by_its_name() {
    let folder = snapshots().join("2.6/49-ddl-heavy/data");
    let whole = Store::open(&folder).unwrap();
    for space in whole.read_view().spaces().filter(|space| space.def().id >= 512) {
        let store = Store::open_with(&folder, &Options::new().space(space.def().id)).unwrap();
        assert_eq!(store.read_view().spaces().count(), 1);
        assert_eq!(store.read_view().space(space.def().id).unwrap().fingerprint(), space.fingerprint());
    }
    let error = Store::open_with(&folder, &Options::new().space("no such space")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchSpace);
    assert_eq!(
        lycosa::Schema::read(&folder, &Options::new()).unwrap().spaces(),
        whole.read_view().schema().spaces()
    );
}
