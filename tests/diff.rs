//! `ReadView::diff` against a slow twin: maps from the values of the primary key to tuples.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use common::{folders, snapshots};
use lycosa::{Change, Options, ReadView, Space, Store};

/// The tuples of a space by the values of its primary key, printed.
fn map(space: &Space<'_>) -> BTreeMap<Vec<Option<Vec<u8>>>, Vec<u8>> {
    let parts = &space.def().primary().unwrap().parts;
    let key = |tuple: &lycosa::Tuple<'_>| {
        parts.iter().map(|part| tuple.field(part.field).map(<[u8]>::to_vec)).collect()
    };
    space.primary().unwrap().iter().map(|tuple| (key(&tuple), tuple.bytes().to_vec())).collect()
}

fn open(path: &Path, options: &Options) -> ReadView {
    Store::open_with(path, &options.clone().threads(1))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .read_view()
}

#[test]
fn every_difference_is_told_and_no_other() {
    let (mut compared, mut differences) = (0, 0);
    for version in ["2.6", "3.9"] {
        for case in folders(&snapshots().join(version)) {
            let data = case.join("data");
            // Its keys are the same numbers in other bytes, and the slow twin knows bytes alone.
            let has_other_bytes = case.to_str().unwrap().contains("-noncanonical");
            if has_other_bytes || !data.is_dir() || Store::open(&data).is_err() {
                continue;
            }
            let before = open(&data, &Options::new().snapshot_only(true));
            let now = open(&data, &Options::new());
            let mut told: BTreeMap<String, Vec<(char, Vec<u8>)>> = BTreeMap::new();
            let diffs = before
                .diff(&now, true, |space, change| {
                    let line = match change {
                        Change::Added(new) => ('+', new.bytes()),
                        Change::Removed(old) => ('-', old.bytes()),
                        Change::Changed(old, new) => {
                            assert_ne!(old.bytes(), new.bytes());
                            ('~', new.bytes())
                        }
                    };
                    told.entry(space.name.clone()).or_default().push((line.0, line.1.to_vec()));
                    Ok::<(), lycosa::Error>(())
                })
                .unwrap();
            for diff in &diffs {
                let place = format!("{}: {}", data.display(), diff.name);
                let sides = [(&before, diff.id), (&now, diff.other_id)];
                let [old, new] = sides.map(|(view, id)| id.and_then(|id| view.space(id).ok()));
                // Where keys are paths, or of another definition, the slow twin would have to know more.
                let parts = |space: &Option<Space<'_>>| {
                    space.map(|space| space.def().primary().map(|key| key.parts.clone()))
                };
                let has_paths = [old, new].iter().flatten().any(|space| {
                    let primary = space.def().primary();
                    primary.is_none_or(|key| {
                        key.absent.is_some() || key.parts.iter().any(|part| part.path.is_some())
                    })
                });
                if diff.not_compared.is_some()
                    || has_paths
                    || (old.is_some() && new.is_some() && parts(&old) != parts(&new))
                {
                    continue;
                }
                let [old, new] = [old, new].map(|space| space.as_ref().map(map).unwrap_or_default());
                let mut expected: Vec<(char, Vec<u8>)> = Vec::new();
                expected.extend(
                    old.iter()
                        .filter(|(key, _)| !new.contains_key(*key))
                        .map(|(_, tuple)| ('-', tuple.clone())),
                );
                for (key, tuple) in &new {
                    match old.get(key) {
                        None => expected.push(('+', tuple.clone())),
                        Some(before) if before != tuple => expected.push(('~', tuple.clone())),
                        Some(_) => {}
                    }
                }
                let mut found = told.remove(&diff.name).unwrap_or_default();
                let count = |sign| found.iter().filter(|line| line.0 == sign).count() as u64;
                assert_eq!(
                    (count('+'), count('-'), count('~')),
                    (diff.added, diff.removed, diff.changed),
                    "{place}"
                );
                let same = new.len() as u64 - diff.added - diff.changed;
                assert_eq!(diff.same, same, "{place}");
                found.sort();
                expected.sort();
                assert!(found == expected, "{place}");
                compared += 1;
                differences += found.len();
            }
            let mirrored = now.diff(&before, true, |_, _| Ok::<(), lycosa::Error>(())).unwrap();
            let sums = |diffs: &[lycosa::SpaceDiff]| {
                let mut sums: Vec<_> =
                    diffs.iter().map(|diff| (diff.added, diff.removed, diff.changed, diff.same)).collect();
                sums.sort_unstable();
                sums
            };
            let turned: Vec<_> = mirrored
                .iter()
                .map(|diff| {
                    let mut turned = diff.clone();
                    (turned.added, turned.removed) = (diff.removed, diff.added);
                    turned
                })
                .collect();
            assert_eq!(sums(&diffs), sums(&turned), "{}", data.display());
        }
    }
    assert!(compared > 1000 && differences > 5000, "{compared} spaces, {differences} differences");
}

fn lycosa(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_lycosa")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_tool_prints_fields_that_differ_and_exits_with_1() {
    let folder = snapshots().join("2.6/36-xlog-ops/data");
    let folder = folder.to_str().unwrap();
    let (code, text) = lycosa(&["diff", folder, folder]);
    assert_eq!((code, text.as_str()), (Some(0), "ops: 0 added, 0 removed, 0 changed, 81 the same\n"));
    let (code, text) = lycosa(&["diff", folder, folder, "--a-to-lsn", "100", "--limit", "1"]);
    assert_eq!(code, Some(1));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            r#"~ ops [14]  3 (num): 14 -> {"$decimal":"13.75"}"#,
            "ops: 2 added, 3 removed, 45 changed, 34 the same"
        ]
    );
    let (code, text) = lycosa(&["diff", folder, folder, "--a-to-lsn", "100", "--json", "--limit", "0"]);
    let sum: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &sum["changed"], &sum["is_same"]), (Some(1), &45.into(), &false.into()));
    let altered = snapshots().join("2.6/28-renamed/data");
    let (code, text) = lycosa(&["diff", folder, altered.to_str().unwrap(), "--space", "512"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("! uno: name: ops -> uno\n"), "{text}");
    assert_eq!(lycosa(&["diff", folder, folder, "--space", "nobody"]).0, Some(2));
    assert_eq!(lycosa(&["diff", folder, "no/such"]).0, Some(3));
}
