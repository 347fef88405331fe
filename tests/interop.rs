//! The installed Tarantool as a judge: it makes random folders (schemas, data, operations, by seed), says what it holds
//! after recovering them, and writes a snapshot of that; the snapshot is opened here and held against its words and
//! against the slow order.
//!
//! Where no `tarantool` is installed, this is left out, and says so; `LYCOSA_REQUIRE_TARANTOOL=1` makes its absence a
//! failure. `LYCOSA_SEEDS=100` tries more seeds, `LYCOSA_SEED=N` tries one again.
#![expect(clippy::print_stdout, reason = "seeds and what was left out are for the reader of the log")]

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::expected::{assert_order, assert_store};
use common::order;
use lycosa::{Options, Store};

/// Of so many seeds one may be of no use: Tarantool itself stumbles over some.
const USELESS_IN: u64 = 4;

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The first line of `tarantool --version`, if there is one.
fn version() -> Option<String> {
    let output = Command::new("tarantool").arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

/// Runs a script beside this file; gives its exit code, or nothing where a signal ended it.
fn tarantool(script: &str, arguments: &[&str], folder: &Path) -> Option<i32> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tarantool").join(script);
    let mut command = Command::new("tarantool");
    command.arg(script).args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().expect("it has just told its version");
    if output.status.code().is_some_and(|code| code != 0) {
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.code()
}

/// A dump in another order than ours; the slow order judges ours, this one Tarantool's.
fn assert_excused(place: &str, store: &Store, version: &str) {
    let has_long_unsigned = store.spaces().any(|space| {
        let def = space.def();
        let Some(whole) = order::whole(def) else { return false };
        let tuples: Vec<&[u8]> =
            space.index_by_id(whole.id).unwrap().iter().map(|tuple| tuple.bytes()).collect();
        def.indexes
            .iter()
            .filter(|index| {
                index.absent.is_none() && place.ends_with(&format!(": {}.{}", def.name, index.name))
            })
            .any(|index| order::has_long_unsigned(&order::entries(def, index, &tuples)))
    });
    assert!(
        version.starts_with("Tarantool 2.6.") && has_long_unsigned,
        "{place}: another order than Tarantool's"
    );
    println!(
        "{place}: 2.6 compares the first byte of unsigned numbers before their values; otherwise the same"
    );
}

/// Makes the folder of a seed by a script and holds our view of it against Tarantool's. `false`: Tarantool could not make
/// it.
fn try_seed(script: &str, seed: u64, version: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (path, text) = (folder.path(), seed.to_string());
    // Some seeds end by a signal, as they should; whether the folder is of use, the dump tells.
    tarantool(script, &[&text, "."], path);
    if tarantool("random_dump.lua", &[".", "keep"], path) != Some(0) {
        println!("seed {seed}: Tarantool itself cannot make or recover it; left out");
        return false;
    }
    let case = format!("seed {seed}");
    let expected = path.join("expected");
    // The fresh snapshot that Tarantool made of it, and the folder as it was left, with its logs.
    let ways = [
        ("scratch", Options::new()),
        ("scratch", Options::new().threads(1).hints(false)),
        ("scratch", Options::new().nested(true)),
        ("data", Options::new()),
        ("data", Options::new().threads(1).hints(false)),
    ];
    for (folder, options) in ways {
        let store = Store::open_with(path.join(folder), &options)
            .unwrap_or_else(|error| panic!("{case}, {folder}: {error}"));
        let seen = assert_store(&case, &store, &expected);
        seen.absent.iter().for_each(|line| println!("not compared: {line}"));
        seen.reordered.iter().for_each(|place| assert_excused(place, &store, version));
        assert_order(&case, &store, 10);
    }
    true
}

/// Tries seeds of a script; where there is no Tarantool, says so.
fn try_seeds(script: &str, seeds: u64) {
    let Some(version) = version() else {
        assert!(std::env::var_os("LYCOSA_REQUIRE_TARANTOOL").is_none(), "no tarantool is installed");
        println!("left out: no tarantool is installed, so nothing was compared with one");
        return;
    };
    println!("{version}");
    if let Some(seed) = number_from_environment("LYCOSA_SEED") {
        assert!(try_seed(script, seed, &version), "Tarantool cannot make the folder of seed {seed}");
        return;
    }
    let seeds = number_from_environment("LYCOSA_SEEDS").unwrap_or(seeds);
    let mut useless = 0;
    for _ in 0..seeds {
        let seed = fastrand::u64(1..1_000_000_000);
        println!("{script}, seed {seed}: try it again with LYCOSA_SEED={seed}");
        useless += u64::from(!try_seed(script, seed, &version));
    }
    assert!(useless <= seeds.div_ceil(USELESS_IN), "{useless} of {seeds} seeds were of no use");
}

#[test]
fn random_folders_hold_for_us_what_they_hold_for_tarantool() {
    try_seeds("random_case.lua", 4);
}

/// Fifteen hundred lists of operations a seed, each as an UPDATE and as an UPSERT.
#[test]
fn update_operations_make_of_tuples_what_tarantool_makes_of_them() {
    try_seeds("random_updates.lua", 2);
}
