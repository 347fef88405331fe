//! Every sample against what Tarantool itself held: schemas, counts, every tuple of every index in its order; and
//! against the slow order of `common/order.rs`, which also judges where Tarantool's own order is none.

mod common;

use std::path::Path;

use common::expected::{assert_order, assert_store, assert_system_rows};
use common::{folders, snapshot_of, snapshots};
use lycosa::{ErrorKind, Options, Schema, Store};

/// Dumps whose order follows Tarantool's hints, its rounding of doubles to 15 digits, or chance: the same tuples,
/// in another order than ours.
const OTHER_ORDER: &[(&str, &str)] = &[
    ("3.9/01-ext-types: dt_pk.pk", "the last second before 1970 comes after everything by its hint"),
    ("3.9/01-ext-types: dt_sec.at", "the last second before 1970 comes after everything by its hint"),
    ("3.9/02-scalar-number-any: num.v", "decimals against doubles by 15 digits"),
    ("3.9/17-noncanonical-maps: exts.at", "the last second before 1970 comes after everything by its hint"),
    ("3.9/17-noncanonical-maps: exts.u", "the width of an ext header has a say"),
    ("3.9/17-noncanonical-maps: exts.sc", "the width of an ext header has a say"),
    (
        "2.6/06-doubles-nan: nan_idx.x",
        "Tarantool puts signalling NaN before quiet ones; here all NaN are equal",
    ),
    ("2.6/06-doubles-nan: nan_dbl.x", "2.6.0 takes NaN for equal to everything"),
    ("2.6/06-doubles-nan: dec_inf.x", "2.6.0 has no order for decimals beside infinities"),
    (
        "random/r26-008: i7.ren13",
        "2.6.0 compares the first byte of unsigned numbers before their values, here in ties",
    ),
];

/// Its primary key holds one number twice, in two encodings; 2.6.0 took them for two keys.
const DUPLICATE: &str = "2.6/10-noncanonical";

fn cases() -> Vec<(String, std::path::PathBuf)> {
    let mut cases = Vec::new();
    for version in ["2.6", "3.9", "random"] {
        for folder in folders(&snapshots().join(version)) {
            // Two cases Tarantool itself cannot put into a snapshot: tests/logs.rs has them.
            let has_snapshot = std::fs::read_dir(&folder)
                .unwrap()
                .any(|entry| entry.unwrap().path().extension().is_some_and(|extension| extension == "snap"));
            if has_snapshot {
                cases.push((format!("{version}/{}", folder.file_name().unwrap().to_string_lossy()), folder));
            }
        }
    }
    assert!(cases.len() > 100, "only {} cases", cases.len());
    cases
}

fn open(case: &str, folder: &Path, options: &Options) -> Store {
    Store::open_with(folder, options).unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn every_sample_holds_what_tarantool_held() {
    let (mut absent, mut reordered) = (Vec::new(), Vec::new());
    for (case, folder) in cases() {
        if case == DUPLICATE {
            continue;
        }
        let store = open(&case, &folder, &Options::new());
        let expected = folder.join("expected");
        let seen = assert_store(&case, &store, &expected);
        absent.extend(seen.absent);
        reordered.extend(seen.reordered);
        assert_system_rows(&case, &store, &expected);
    }
    let mut exceptions: Vec<&str> = OTHER_ORDER.iter().map(|(place, _)| *place).collect();
    exceptions.sort_unstable();
    reordered.sort_unstable();
    assert_eq!(reordered, exceptions, "dumps in another order than Tarantool's, and those that should be");
    // Nothing is left out silently: what could not be compared stands in a file, with its reason.
    let mut text =
        String::from("# case | space | index | why it was not compared; written by tests/corpus.rs\n");
    absent.iter().for_each(|line| text.extend([line, "\n"]));
    common::assert_text(&snapshots().join("absent.txt"), &text);
}

#[test]
fn every_index_of_every_sample_is_in_the_slow_order_and_finds_what_a_scan_finds() {
    for (case, folder) in cases().iter().filter(|(case, _)| case != DUPLICATE) {
        assert_order(case, &open(case, folder, &Options::new()), 5);
    }
}

#[test]
fn hints_threads_and_the_nested_path_change_nothing() {
    for (case, folder) in cases().iter().filter(|(case, _)| case != DUPLICATE) {
        let plain = open(case, folder, &Options::new().threads(1));
        for (how, options) in [
            ("no hints", Options::new().threads(1).hints(false)),
            ("nested", Options::new().threads(1).nested(true)),
            ("three threads", Options::new().threads(3)),
        ] {
            let other = open(case, folder, &options);
            for (one, other) in plain.read_view().spaces().zip(other.read_view().spaces()) {
                let place = format!("{case}: {}, {how}", one.def().name);
                assert_eq!(one.def(), other.def(), "{place}");
                assert_eq!(one.fingerprint(), other.fingerprint(), "{place}");
                for index in one.def().indexes.iter().filter(|index| index.absent.is_none()) {
                    let (one, other) =
                        (one.index_by_id(index.id).unwrap(), other.index_by_id(index.id).unwrap());
                    let mut lines = [common::expected::lines(&one), common::expected::lines(&other)];
                    if index.kind == lycosa::IndexKind::Hash {
                        lines.iter_mut().for_each(|lines| lines.sort());
                    }
                    assert!(lines[0] == lines[1], "{place}, index {}", index.name);
                }
            }
        }
    }
}

#[test]
fn one_number_in_two_encodings_is_a_duplicate_key_that_names_both_tuples() {
    let folder = snapshots().join(DUPLICATE);
    let error = Store::open(&folder).expect_err("the primary key holds 1 twice");
    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
    assert_eq!(error.place().file.as_deref(), Some(&*snapshot_of(&folder)), "{error}");
    assert_eq!(error.place().space.as_deref(), Some("nc"), "{error}");
    assert!(error.what().contains("pk"), "{error}");
    // `01` with 77 and "replaced", `cf 00 … 01` with -1 and "b".
    let found = error.finding().unwrap();
    assert!(found.contains("\"replaced\"") && found.contains("\"b\""), "{error}");
}

#[test]
fn a_lone_snapshot_opens_like_its_folder() {
    let folder = snapshots().join("2.6/02-one-space");
    let (by_folder, by_file) = (Store::open(&folder).unwrap(), Store::open(snapshot_of(&folder)).unwrap());
    let fingerprints =
        |store: &Store| store.read_view().spaces().map(|space| space.fingerprint()).collect::<Vec<_>>();
    assert_eq!(fingerprints(&by_folder), fingerprints(&by_file));
}

#[test]
fn the_schema_alone_is_that_of_the_store() {
    for (case, folder) in cases().iter().filter(|(case, _)| case != DUPLICATE) {
        let schema = Schema::read(folder, &Options::new()).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(
            schema.spaces(),
            open(case, folder, &Options::new()).read_view().schema().spaces(),
            "{case}"
        );
    }
}

#[test]
fn a_space_is_loaded_alone() {
    let folder = snapshots().join("2.6/13-hash");
    let whole = Store::open(&folder).unwrap();
    for space in whole.read_view().spaces() {
        let def = space.def();
        let store = Store::open_with(&folder, &Options::new().space(def.id)).unwrap();
        assert_eq!(store.read_view().spaces().count(), 1);
        assert_eq!(
            store.read_view().space(def.id).unwrap().fingerprint(),
            space.fingerprint(),
            "{}",
            def.name
        );
    }
}
