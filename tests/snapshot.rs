//! Snapshots that we write: read again they hold the same, whatever the way they were written; they have the rows of those
//! that Tarantool wrote of the same state, system rows and rows without tuples among them.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use common::expected::lines;
use common::{folders, snapshot_of, snapshots};
use lycosa::{ErrorKind, FileInfo, IndexKind, Options, SnapshotOptions, SnapshotReport, Store};
use tempfile::TempDir;

/// Spaces whose tuples cannot be written yet, because no index of theirs is in memory.
const UNWRITTEN: &[&str] = &["3.9/19-sql/data: keys2", "3.9/19-sql: keys2"];

/// Its primary key holds numbers twice, in two encodings.
const TWO_ENCODINGS: &str = "2.6/10-noncanonical";

/// Every folder of the samples that opens: those with a fresh snapshot, and those with logs.
fn cases() -> Vec<(String, PathBuf)> {
    let mut cases = Vec::new();
    for version in ["2.6", "3.9", "random"] {
        for folder in folders(&snapshots().join(version)) {
            let name = format!("{version}/{}", folder.file_name().unwrap().to_string_lossy());
            if name != TWO_ENCODINGS {
                cases.push((format!("{name}/data"), folder.join("data")));
                cases.push((name, folder));
            }
        }
    }
    cases.retain(|(_, folder)| folder.is_dir() && Store::open(folder).is_ok());
    assert!(cases.len() > 240, "only {} cases", cases.len());
    cases
}

fn write(store: &Store, options: &SnapshotOptions) -> lycosa::Result<(TempDir, SnapshotReport)> {
    let folder = TempDir::new().unwrap();
    let report = store.write_snapshot(folder.path(), options)?;
    assert_eq!(std::fs::metadata(&report.path).unwrap().len(), report.bytes);
    Ok((folder, report))
}

/// Definitions, tuples and orders.
fn assert_same(place: &str, one: &Store, other: &Store) {
    assert_eq!(one.report().vclock, other.report().vclock, "{place}");
    assert_eq!(one.report().instance, other.report().instance, "{place}");
    assert_eq!(one.read_view().schema().spaces(), other.read_view().schema().spaces(), "{place}");
    for (one, other) in one.read_view().spaces().zip(other.read_view().spaces()) {
        let place = format!("{place}: {}", one.def().name);
        assert_eq!((one.def(), one.len()), (other.def(), other.len()), "{place}");
        for index in one.def().indexes.iter().filter(|index| index.absent.is_none()) {
            let mut lines = [one, other].map(|space| lines(&space.index_by_id(index.id).unwrap()));
            if index.kind == IndexKind::Hash {
                lines.iter_mut().for_each(|lines| lines.sort());
            }
            assert!(lines[0] == lines[1], "{place}, index {}", index.name);
        }
    }
}

/// Rows by type and by space.
fn counts(file: &Path) -> (BTreeMap<String, u64>, BTreeMap<u32, u64>) {
    let info = FileInfo::read(file).unwrap();
    let kinds = info.kinds.iter().map(|kind| (kind.name.unwrap_or("?").to_owned(), kind.rows)).collect();
    (kinds, info.spaces.iter().map(|space| (space.space_id, space.rows)).collect())
}

#[test]
fn what_is_written_holds_the_same_when_it_is_read_again() {
    let mut unwritten = Vec::new();
    for (case, folder) in cases() {
        let store = Store::open(&folder).unwrap();
        match write(&store, &SnapshotOptions::new()) {
            Ok((target, report)) => {
                assert_same(&case, &store, &Store::open(target.path()).unwrap());
                let rows: u64 = store.read_view().spaces().map(|space| space.len()).sum();
                let (kinds, spaces) = counts(&report.path);
                assert_eq!(kinds["INSERT"], rows, "{case}");
                assert_eq!(kinds.values().sum::<u64>(), report.rows, "{case}");
                if !case.ends_with("/data") {
                    assert_eq!((kinds, spaces), counts(&snapshot_of(&folder)), "{case}");
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Absent, "{case}: {error}");
                unwritten.push(format!("{case}: {}", error.place().space.as_deref().unwrap()));
            }
        }
    }
    assert_eq!(unwritten, UNWRITTEN);
}

#[test]
fn a_folder_with_logs_is_written_as_tarantool_writes_it() {
    let mut compared = 0;
    for (case, folder) in cases() {
        let Some(data) = Some(folder.join("data")).filter(|data| data.is_dir()) else { continue };
        let Ok(replayed) = Store::open(&data) else { continue };
        let Ok((target, _)) = write(&replayed, &SnapshotOptions::new()) else { continue };
        let (ours, theirs) = (Store::open(target.path()).unwrap(), Store::open(&folder).unwrap());
        for (ours, theirs) in ours.read_view().spaces().zip(theirs.read_view().spaces()) {
            assert_eq!(ours.def(), theirs.def(), "{case}");
            let Ok(index) = theirs.primary() else { continue };
            let mut lines = [lines(&ours.primary().unwrap()), lines(&index)];
            lines.iter_mut().for_each(|lines| lines.sort());
            assert_eq!(lines[0], lines[1], "{case}: {}", ours.def().name);
        }
        compared += 1;
    }
    assert!(compared > 100, "only {compared} cases");
}

#[test]
fn the_number_of_threads_changes_no_byte_and_the_level_no_row() {
    let store = Store::open(snapshots().join("3.9/15-big-offsets")).unwrap();
    let write = |options: SnapshotOptions| {
        let (folder, report) = write(&store, &options.time(1e9)).unwrap();
        (std::fs::read(&report.path).unwrap(), report.rows, folder)
    };
    let (one, rows, _folder) = write(SnapshotOptions::new().threads(1));
    for threads in [2, 3, 8] {
        assert!(write(SnapshotOptions::new().threads(threads)).0 == one, "{threads} threads");
    }
    for level in [3, 9] {
        let (bytes, same_rows, folder) = write(SnapshotOptions::new().level(level));
        assert!(bytes != one && same_rows == rows, "level {level}");
        assert_same("level", &store, &Store::open(folder.path()).unwrap());
    }
    let error = store.write_snapshot("nowhere", &SnapshotOptions::new().level(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

#[test]
fn a_snapshot_that_is_there_is_never_replaced() {
    let store = Store::open(snapshots().join("2.6/02-one-space")).unwrap();
    let (folder, report) = write(&store, &SnapshotOptions::new()).unwrap();
    let before = std::fs::read(&report.path).unwrap();
    let error = store.write_snapshot(folder.path(), &SnapshotOptions::new().level(3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
    assert!(std::fs::read(&report.path).unwrap() == before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_is_not_in_memory_or_not_final_is_not_written() {
    let folder = snapshots().join("2.6/03-int4-string");
    let some = Store::open_with(&folder, &Options::new().space("bench")).unwrap();
    let error = some.write_snapshot("nowhere", &SnapshotOptions::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Absent, "{error}");
    let some = Store::open_with(&folder, &Options::new().space("bench").system_spaces(true)).unwrap();
    let (target, _) = write(&some, &SnapshotOptions::new().space("bench")).unwrap();
    assert_same("bench", &some, &Store::open(target.path()).unwrap());
    assert!(!Path::new("nowhere").exists());
}

#[test]
fn some_spaces_are_written_as_if_there_had_never_been_others() {
    // No index of its own is in memory, or a foreign key to another one.
    let refused = [ErrorKind::Absent, ErrorKind::Usage];
    for case in
        ["2.6/02-one-space", "2.6/21-sequences/data", "2.6/50-users", "2.6/26-truncate", "3.9/09-upgraded"]
    {
        let folder = snapshots().join(case);
        let whole = Store::open(&folder).unwrap();
        let whole_view = whole.read_view();
        let user: Vec<_> = whole_view.spaces().filter(|space| space.def().id >= 512).collect();
        for chosen in &user {
            let place = format!("{case}: {}", chosen.def().name);
            let (target, report) = match write(&whole, &SnapshotOptions::new().space(chosen.def().id)) {
                Ok(written) => written,
                Err(error) => {
                    assert!(refused.contains(&error.kind()), "{place}: {error}");
                    continue;
                }
            };
            let some = Store::open(target.path()).unwrap();
            let view = some.read_view();
            let left: Vec<_> = view.schema().spaces().iter().filter(|space| space.id >= 512).collect();
            assert_eq!(left, [chosen.def()], "{place}");
            assert_eq!(
                some.read_view().space(chosen.def().id).unwrap().fingerprint(),
                chosen.fingerprint(),
                "{place}"
            );
            assert!(some.report().notices.is_empty(), "{place}: {:?}", some.report().notices);
            // No row of a system space that begins with the id of a space names one that is gone.
            for id in [280, 288, 330, 340, 364, 372] {
                let Ok(space) = view.space(id) else { continue };
                for tuple in space.primary().unwrap().iter() {
                    let id = rmp_serde::from_slice::<u32>(tuple.field(0).unwrap()).unwrap();
                    assert!(id < 512 || id == chosen.def().id, "{place}: {}", tuple.to_json());
                }
            }
            assert!(
                report.rows < whole.read_view().spaces().map(|space| space.len()).sum::<u64>() + 2
                    || user.len() == 1
            );
        }
        let error = write(&whole, &SnapshotOptions::new().space("no such space")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSuchSpace, "{error}");
    }
}
