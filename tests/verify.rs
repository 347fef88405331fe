//! `Verdict`: no fault on any good file, and on every damaged one a fault at the right place.

mod common;

use std::path::Path;

use common::{folders, snapshots};
use lycosa::{Severity, Store, Verdict};

fn texts(verdict: &Verdict) -> Vec<String> {
    verdict.findings.iter().map(|finding| format!("{:?} {finding}", finding.severity)).collect()
}

#[test]
fn good_files_have_no_fault() {
    let mut files = 0;
    for version in ["2.6", "3.9", "random"] {
        for case in folders(&snapshots().join(version)) {
            for folder in [case.join("data"), case] {
                if !folder.is_dir() || Store::open(&folder).is_err() {
                    continue;
                }
                let mut verdict = Verdict::read(&folder);
                verdict.add_opening(Ok(&Store::open(&folder).unwrap().report().notices));
                assert_eq!(verdict.faults(), 0, "{}: {:#?}", folder.display(), texts(&verdict));
                for file in &verdict.files {
                    let alone = Verdict::read(&file.path);
                    assert_eq!(alone.faults(), 0, "{}: {:#?}", file.path.display(), texts(&alone));
                    files += 1;
                }
            }
        }
    }
    assert!(files > 400, "only {files} files");
}

/// Copies in which nothing is lost, and what is odd is told at most.
const HARMLESS: &[&str] = &[
    "snap-bitflip-padding",
    "snap-prev-crc",
    "snap-text-software",
    "xlog-bitflip-padding",
    "xlog-prev-crc",
    "xlog-text-software",
    // Without another log behind it: what a crash leaves.
    "xlog-last-eof-missing",
    "xlog-last-trunc-mid-block",
    "xlog-last-trunc-mid-fixheader",
    "xlog-last-zeros-for-eof",
    // A log without its end marker is whole if the next one goes on where it ends.
    "xlog-eof-missing",
    "xlog-eof-half",
    "xlog-zeros-for-eof",
];

#[test]
fn damaged_files_have_a_fault_where_opening_fails() {
    for folder in folders(&snapshots().join("damaged")) {
        let case = folder.file_name().unwrap().to_string_lossy().into_owned();
        let verdict = Verdict::read(&folder);
        let Some(name) = case.strip_prefix("damaged-") else {
            assert_eq!(verdict.faults(), 0, "{case}: {:#?}", texts(&verdict));
            continue;
        };
        if HARMLESS.contains(&name) {
            assert_eq!(verdict.faults(), 0, "{case}: {:#?}", texts(&verdict));
            let is_odd = name.ends_with("padding") || name.ends_with("prev-crc");
            assert!(!is_odd || !verdict.findings.is_empty(), "{case}");
            continue;
        }
        assert!(verdict.faults() > 0, "{case}: {:#?}", texts(&verdict));
        let Err(error) = Store::open(&folder) else { continue };
        let place = error.place();
        let is_there = verdict.findings.iter().any(|finding| {
            finding.severity == Severity::Fault
                && finding.place.file == place.file
                && (finding.place.block, finding.place.byte) == (place.block, place.byte)
        });
        let is_told = is_there || error.kind() == lycosa::ErrorKind::NoSystemRows;
        assert!(is_told, "{case}: no fault at the place of {error}: {:#?}", texts(&verdict));
    }
}

#[test]
fn what_damage_costs_is_told_in_rows_and_the_rest_is_read() {
    let file =
        |case: &str| snapshots().join(format!("damaged/damaged-snap-{case}/00000000000000000487.snap"));
    let whole = Verdict::read(snapshots().join("damaged/base"));
    for case in [
        "bitflip-crc",
        "bitflip-data",
        "bitflip-magic",
        "length-huge",
        "length-long",
        "length-short",
        "bad-zstd-frame",
        "block-removed",
    ] {
        let verdict = Verdict::read(file(case));
        assert_eq!(verdict.faults(), 1, "{case}: {:#?}", texts(&verdict));
        let cost = verdict.findings[0].cost.as_deref().unwrap_or_default();
        assert!(cost.starts_with("rows 599 to 714 (116) of space"), "{case}: {:#?}", texts(&verdict));
        assert_eq!(verdict.files[0].rows, whole.files[0].rows - 116, "{case}");
        for threads in [1, 3] {
            assert_eq!(Verdict::read_with(file(case), threads), verdict, "{case}");
        }
    }
}

#[test]
fn every_cut_and_every_flipped_byte_of_a_snapshot_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("1.snap.copy");
    let whole = std::fs::read(snapshots().join("damaged/base/00000000000000000487.snap")).unwrap();
    let faults = |bytes: &[u8], path: &Path| {
        std::fs::write(path, bytes).unwrap();
        Verdict::read_with(path, 1).faults()
    };
    assert_eq!(faults(&whole, &path), 0);
    for end in (0..whole.len()).step_by(97) {
        assert!(faults(&whole[..end], &path) > 0, "cut at {end}");
    }
    // Behind the text header: that may say what it likes.
    let mut unnoticed = 0;
    for at in (103..whole.len()).step_by(41) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        unnoticed += usize::from(faults(&bytes, &path) == 0);
    }
    assert!(unnoticed <= 2, "{unnoticed} bytes flipped and nothing found");
}
