//! The installed Tarantool as a judge: it makes random folders (schemas, data, operations, by seed), says what it holds
//! after recovering them, and writes a snapshot of that; the snapshot is opened here and held against its words and
//! against the slow order.
//!
//! Where no `tarantool` is installed, this is left out, and says so; `LYCOSA_REQUIRE_TARANTOOL=1` makes its absence a
//! failure. `LYCOSA_SEEDS=100` tries more seeds, `LYCOSA_SEED=N` tries one again.
#![expect(clippy::print_stdout, reason = "seeds and what was left out are for the reader of the log")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use common::expected::{assert_order, assert_store, json_of};
use common::order;
use lycosa::{
    ErrorKind, FieldType, IndexSpec, Op, Options, PartSpec, SalvageOptions, SnapshotOptions, SpaceSpec,
    Store, salvage,
};

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
    let has_long_unsigned = store.read_view().spaces().any(|space| {
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
    assert_written(&case, &path.join("data"), &expected);
    true
}

/// Tarantool opens what we write of a folder, and it holds for it what the folder held.
fn assert_written(case: &str, data: &Path, expected: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(data).unwrap_or_else(|error| panic!("{case}: {error}"));
    if let Err(error) = store.write_snapshot(folder.path().join("data"), &SnapshotOptions::new()) {
        // Of a space without any index in memory nobody can list the tuples.
        assert_eq!(error.kind(), ErrorKind::Absent, "{case}: {error}");
        println!("{case}: not written: {error}");
        return;
    }
    assert_eq!(
        tarantool("random_dump.lua", &["."], folder.path()),
        Some(0),
        "{case}: Tarantool does not open it"
    );
    let written = folder.path().join("expected");
    let [schema, ours] = [expected, &written].map(|folder| {
        let mut schema = json_of(&folder.join("schema.json"));
        let spaces = schema["spaces"].as_array_mut().unwrap();
        // The samples tell more than the script does: of spaces with ids below 512, of checks and functions, how indexes are ordered.
        spaces.retain(|space| space["id"].as_u64() >= Some(512));
        for space in spaces {
            space.as_object_mut().unwrap().remove("check_constraints");
            for index in space["indexes"].as_array_mut().into_iter().flatten() {
                let index = index.as_object_mut().unwrap();
                index.retain(|key, _| key != "dump_order" && key != "func");
            }
        }
        schema["spaces"].take()
    });
    assert_eq!(schema, ours, "{case}");
    let indexes =
        schema["spaces"].as_array().into_iter().flatten().flat_map(|space| space["indexes"].as_array());
    for index in indexes.flatten() {
        let file = index["dump_file"].as_str().unwrap();
        let mut dumps = [expected, &written].map(|folder| {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        // The order of the others hangs on how the index came about.
        if index["type"] != "TREE" {
            dumps.iter_mut().for_each(|lines| lines.sort());
        }
        assert!(dumps[0] == dumps[1], "{case}: {file}");
    }
}

/// Tarantool opens what is saved of damaged folders, and holds as much as was saved.
#[test]
fn tarantool_opens_what_is_saved_of_damaged_folders() {
    let Some(version) = version() else { return };
    if !version.starts_with("Tarantool 2.6.") {
        println!("left out: the cases were made by 2.6, this is {version}");
        return;
    }
    for case in [
        "snap-bad-rows",
        "snap-bitflip-data",
        "snap-empty-file",
        "snap-first-block-removed",
        "snap-text-instance",
        "snap-trunc-mid-block",
        "xlog-bad-rows",
        "xlog-text-vclock-bad",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let source = common::snapshots().join(format!("damaged/damaged-{case}"));
        let target = folder.path().join("data");
        let report = salvage(source, &target, &SalvageOptions::new()).unwrap();
        assert_eq!(tarantool("random_dump.lua", &["."], folder.path()), Some(0), "{case}");
        let store = Store::open(&target).unwrap();
        assert_store(case, &store, &folder.path().join("expected"));
        assert!(report.spaces.iter().all(|space| space.tuples > 0), "{case}: {report:#?}");
    }
}

/// Cases whose folders are written each time; `LYCOSA_CASES=all` takes all.
const CASES: &[&str] =
    &["13-hash", "21-sequences", "22-sql-tables", "26-truncate", "36-xlog-ops", "50-users"];

/// What 2.6.0 does not open, whoever wrote it: its own snapshots of synchronous spaces neither, and none with spaces of vinyl
/// without vinyl's files.
const NOT_OPENED: &[&str] = &["30-vinyl", "48-sync-space", "61-sync-snapshot", "62-sync-rollback-txn"];

#[test]
fn tarantool_opens_what_we_write_and_finds_what_it_held() {
    let Some(version) = version() else { return };
    if !version.starts_with("Tarantool 2.6.") {
        println!("left out: the cases were made by 2.6, this is {version}");
        return;
    }
    let all = std::env::var_os("LYCOSA_CASES").is_some_and(|cases| cases == "all");
    let mut tried = 0;
    for folder in common::folders(&common::snapshots().join("2.6")) {
        let case = folder.file_name().unwrap().to_string_lossy().into_owned();
        let data = folder.join("data");
        if data.is_dir() && !NOT_OPENED.contains(&&*case) && (all || CASES.contains(&&*case)) {
            assert_written(&case, &data, &folder.join("expected"));
            tried += 1;
        }
    }
    assert!(tried >= CASES.len(), "only {tried} cases");
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

/// Tarantool boots from the snapshot of a store that began with nothing, and sees what a program made in it.
#[test]
fn tarantool_opens_a_store_that_a_program_made() {
    let Some(version) = version() else { return };
    println!("{version}");
    let folder = tempfile::tempdir().unwrap();
    let store = Store::in_memory();
    let spec = |name: &str| {
        SpaceSpec::new(name)
            .field("id", FieldType::Unsigned)
            .field("name", FieldType::String)
            .nullable_field("age", FieldType::Unsigned)
            .field("more", FieldType::Map)
            .index(IndexSpec::tree("pk").part("id"))
            .index(IndexSpec::tree("by_name").part("name").part("age").non_unique())
            .index(IndexSpec::hash("hashed").part("name").part("id"))
            .index(
                IndexSpec::tree("inside")
                    .part(PartSpec::new("more.x").field_type(FieldType::Scalar))
                    .non_unique(),
            )
    };
    let users = store.create_space(spec("users")).unwrap();
    let gone = store.create_space(spec("gone")).unwrap();
    let more = |x: u64| BTreeMap::from([("x", x)]);
    store
        .write(|tx| {
            for id in 0..1000u64 {
                let age = (id % 3 > 0).then_some(id % 90);
                tx.insert(users, (id, format!("n{}", id % 100), age, more(id * 7 % 13)))?;
                tx.insert(gone, (id, "x", age, more(id)))?;
            }
            tx.delete_range(users, "pk", (100,), (200,))?;
            tx.update(users, (7,), [Op::assign("name", "seven"), Op::assign("more.x", 70)])
        })
        .unwrap();
    store.drop_index(users, "by_name").unwrap();
    store.create_index(users, IndexSpec::tree("again").part("age").non_unique()).unwrap();
    store.truncate(gone).unwrap();
    store.write(|tx| tx.rename_space(gone, "empty")).unwrap();
    store.create_space(SpaceSpec::new("bare").field_count(2).local()).unwrap();
    store.drop_space("bare").unwrap();
    store.create_space(SpaceSpec::new("bare").id(600).field("id", FieldType::Integer)).unwrap();
    store.write_snapshot(folder.path().join("data"), &SnapshotOptions::new()).unwrap();
    assert_eq!(tarantool("random_dump.lua", &["."], folder.path()), Some(0));
    let again = Store::open(folder.path().join("data")).unwrap();
    for store in [&store, &again] {
        let seen = assert_store("made by a program", store, &folder.path().join("expected"));
        assert!(seen.reordered.is_empty());
        assert_order("made by a program", store, 10);
    }
    assert_eq!(again.read_view().space(users.id()).unwrap().len(), 900);
}
