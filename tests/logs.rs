//! Folders as Tarantool left them, snapshots and logs: opened, they hold what Tarantool held after its own recovery.

mod common;

use std::path::{Path, PathBuf};

use common::expected::{assert_order, assert_store, assert_system_rows};
use common::{folders, snapshots};
use lycosa::{Options, Store};

/// Folders that cannot be opened, and words of the error.
const REFUSED: &[(&str, &[&str])] = &[];

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

#[test]
fn probe() {
    let mut bad = 0;
    for (case, folder) in cases() {
        let outcome = std::panic::catch_unwind(|| {
            let store =
                Store::open_with(folder.join("data"), &Options::new()).map_err(|error| error.to_string())?;
            let expected = folder.join("expected");
            let seen = assert_store(&case, &store, &expected);
            assert_system_rows(&case, &store, &expected);
            Ok::<_, String>(seen.reordered)
        });
        match outcome {
            Ok(Ok(reordered)) => {
                if !reordered.is_empty() {
                    println!("{case}: reordered {reordered:?}");
                }
            }
            Ok(Err(error)) => {
                bad += 1;
                println!("{case}: ERROR {error}")
            }
            Err(panic) => {
                bad += 1;
                println!("{case}: PANIC {:?}", panic.downcast_ref::<String>())
            }
        }
    }
    println!("{bad} bad");
}
