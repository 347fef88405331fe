//! The tool `lycosa` from outside: what it prints, what it exits with, and that its JSON keys are the documented ones.
//!
//! The tests bring their own snapshot, built here row by row, so that every kind of space is in it: one with several
//! indexes, one whose name is a number, empty, temporary, vinyl, a view, one with a multikey index.
#![cfg(feature = "cli")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

// ---------------------------------------------------------------------------------------------------------------------
// A snapshot, as the container's drawing has it: text header, one block of rows, end marker.

const SNAPSHOT: &str = "00000000000000000000.snap";
const INSTANCE: &str = "78e0015e-511c-44a5-88b2-181e67295f91";

fn header(kind: &str) -> Vec<u8> {
    format!("{kind}\n0.13\nVersion: 2.6.0\nInstance: {INSTANCE}\nVClock: {{}}\n\n").into_bytes()
}

fn block(rows: &[u8]) -> Vec<u8> {
    let mut block = vec![0xd5, 0xba, 0x0b, 0xab, 0xce];
    block.extend((rows.len() as u32).to_be_bytes());
    block.push(0x00);
    block.push(0xce);
    block.extend((!crc32c::crc32c_append(u32::MAX, rows)).to_be_bytes());
    let padding = 19 - block.len() - 1;
    block.push(0xa0 | padding as u8);
    block.resize(19, 0);
    block.extend(rows);
    block
}

/// An INSERT of the tuple into the space as the row of that number in a snapshot.
fn snapshot_row(number: usize, space: u32, tuple: &Value) -> Vec<u8> {
    let mut row = vec![0x82, 0x00, 0x02, 0x03, 0xcd];
    row.extend((number as u16).to_be_bytes());
    row.extend(body(space, tuple));
    row
}

/// An INSERT of the tuple into the space, as logs hold it.
fn log_row(lsn: u8, space: u32, tuple: &Value) -> Vec<u8> {
    let mut row = vec![0x83, 0x00, 0x02, 0x02, 0x01, 0x03, lsn];
    row.extend(body(space, tuple));
    row
}

fn body(space: u32, tuple: &Value) -> Vec<u8> {
    let mut row = Vec::new();
    row.extend([0x82, 0x10, 0xce]);
    row.extend(space.to_be_bytes());
    row.push(0x21);
    row.extend(rmp_serde::to_vec(tuple).unwrap());
    row
}

fn space(id: u32, name: &str, engine: &str, flags: Value, format: Value) -> (u32, Value) {
    (280, json!([id, 1, name, engine, 0, flags, format]))
}

fn index(space: u32, id: u32, name: &str, kind: &str, unique: bool, parts: Value) -> (u32, Value) {
    (288, json!([space, id, name, kind, {"unique": unique}, parts]))
}

/// All rows but the people.
fn rows() -> Vec<(u32, Value)> {
    let unsigned = || json!([[0, "unsigned"]]);
    vec![
        (272, json!(["version", 2, 3, 1])),
        (276, json!([3, "binary", 1, "BINARY", "", {}])),
        space(272, "_schema", "memtx", json!({}), json!([{"name": "key", "type": "string"}])),
        space(276, "_collation", "memtx", json!({}), json!([])),
        space(280, "_space", "memtx", json!({}), json!([])),
        space(288, "_index", "memtx", json!({}), json!([])),
        space(320, "_cluster", "memtx", json!({}), json!([])),
        space(
            512,
            "people",
            "memtx",
            json!({}),
            json!([
                {"name": "id", "type": "unsigned"},
                {"name": "name", "type": "string", "is_nullable": true, "collation": 3},
            ]),
        ),
        space(513, "512", "memtx", json!({}), json!([])),
        space(514, "empty", "memtx", json!({}), json!([])),
        space(515, "disk", "vinyl", json!({}), json!([])),
        space(
            516,
            "seen",
            "memtx",
            json!({"view": true, "sql": "CREATE VIEW \"seen\" AS SELECT 1"}),
            json!([]),
        ),
        space(517, "scratch", "memtx", json!({"temporary": true}), json!([])),
        space(518, "tagged", "memtx", json!({}), json!([])),
        index(272, 0, "primary", "tree", true, json!([[0, "string"]])),
        index(276, 0, "primary", "tree", true, unsigned()),
        index(280, 0, "primary", "tree", true, unsigned()),
        index(288, 0, "primary", "tree", true, json!([[0, "unsigned"], [1, "unsigned"]])),
        index(320, 0, "primary", "tree", true, unsigned()),
        index(512, 0, "pk", "tree", true, unsigned()),
        index(512, 1, "name", "tree", false, json!([{"field": 1, "type": "string", "is_nullable": true}])),
        index(512, 2, "place", "rtree", false, json!([[3, "array"]])),
        index(513, 0, "pk", "tree", true, json!([[0, "string"]])),
        index(514, 0, "pk", "tree", true, unsigned()),
        index(515, 0, "pk", "tree", true, unsigned()),
        index(517, 0, "pk", "tree", true, unsigned()),
        index(518, 0, "pk", "tree", true, unsigned()),
        index(518, 1, "tag", "tree", false, json!([{"field": 1, "type": "string", "path": "[*]"}])),
        (320, json!([1, INSTANCE])),
        (513, json!(["x"])),
        (518, json!([1, ["b", "a", "b"]])),
        (518, json!([2, ["a"]])),
    ]
}

fn snapshot(people: impl Iterator<Item = Value>) -> Vec<u8> {
    let mut all = rows();
    let place = all.iter().position(|(space, _)| *space == 513).unwrap();
    all.splice(place..place, people.map(|person| (512, person)));
    let numbered = all.iter().enumerate();
    let payload: Vec<u8> =
        numbered.flat_map(|(number, (space, tuple))| snapshot_row(number, *space, tuple)).collect();
    [header("SNAP"), block(&payload), vec![0xd5, 0x10, 0xad, 0xed]].concat()
}

/// A folder with Ann and Bob, in the order of ids; by name Bob (nil) comes first.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let people = [json!([1, "Ann", 34, [1, 2]]), json!([2, null, 35, [3, 4]])];
    fs::write(folder.path().join(SNAPSHOT), snapshot(people.into_iter())).unwrap();
    folder
}

const ANN: &str = "9401a3416e6e22920102";
const BOB: &str = "9402c023920304";

// ---------------------------------------------------------------------------------------------------------------------
// Running the tool.

fn lycosa(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lycosa"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command on a folder: `{}` among the arguments stands for it.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let folder = folder.to_str().unwrap();
    let arguments: Vec<&str> =
        arguments.iter().map(|&argument| if argument == "{}" { folder } else { argument }).collect();
    lycosa(&arguments).output().unwrap()
}

/// Standard output of a run that must succeed and say nothing else.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    assert_eq!(error, "", "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&done(folder, arguments)).unwrap()
}

/// Standard error of a run that must fail with this code and print nothing else.
#[track_caller]
fn fails(code: i32, folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "", "{arguments:?}");
    assert!(!error.is_empty(), "{arguments:?}");
    error
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

// ---------------------------------------------------------------------------------------------------------------------
// JSON keys.

/// The keys that a document lists in the block after `<!-- keys: NAME -->`: the first word of each line.
fn documented(file: &str, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let (_, after) =
        text.split_once(&format!("<!-- keys: {name} -->")).unwrap_or_else(|| panic!("{file}: {name}"));
    let block = after.split("```").nth(1).unwrap();
    let lines = block.lines().skip(1); // the word after the fence
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// `a`, `a.b` and `a[].b` for everything in a document; objects whose keys are data (`maps`) count as leaves.
fn keys(value: &Value, maps: &[&str]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut open = vec![(String::new(), value)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(object) if !maps.contains(&path.as_str()) => {
                let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
                open.extend(object.iter().map(|(key, value)| (format!("{prefix}{key}"), value)));
                continue;
            }
            Value::Array(values) => {
                let path = format!("{path}[]");
                open.extend(values.iter().map(|value| (path.clone(), value)));
                keys.insert(path);
            }
            _ => _ = keys.insert(path),
        }
    }
    keys.remove("");
    // An array of objects is told by the keys inside.
    let inside: Vec<String> = keys.iter().filter(|key| key.ends_with("[]")).cloned().collect();
    for array in inside {
        if keys.iter().any(|key| key.starts_with(&format!("{array}."))) {
            keys.remove(&array);
        }
    }
    keys
}

#[test]
fn the_keys_of_load_json_are_those_of_the_readme() {
    let folder = folder();
    let report = json_of(folder.path(), &["load", "{}", "--json"]);
    assert_eq!(keys(&report, &["vclock"]), documented("README.md", "load"));
}

#[test]
fn the_keys_of_bench_json_are_those_of_the_readme() {
    let folder = folder();
    let report = json_of(folder.path(), &["bench", "load", "{}", "--runs", "1", "--json"]);
    assert_eq!(keys(&report, &[]), documented("README.md", "bench load"));
}

#[test]
fn the_keys_of_schema_json_are_the_documented_ones() {
    let folder = folder();
    let schema = json_of(folder.path(), &["schema", "{}", "--json"]);
    assert_eq!(keys(&schema, &[]), documented("docs/json.md", "schema"));
}

#[test]
fn the_keys_of_info_json_are_the_documented_ones() {
    let folder = folder();
    let info = json_of(&folder.path().join(SNAPSHOT), &["info", "{}", "--json"]);
    assert_eq!(keys(&info, &["vclock"]), documented("docs/json.md", "info"));
}

#[test]
fn export_writes_rows_for_other_software() {
    let folder = folder();
    let rows = done(folder.path(), &["export", "{}", "--space", "people"]);
    assert_eq!(
        rows,
        "{\"id\":1,\"name\":\"Ann\",\"field_3\":34,\"field_4\":[1,2]}\n{\"id\":2,\"name\":null,\"field_3\":35,\"field_4\":[3,4]}\n"
    );
    let by_name =
        done(folder.path(), &["export", "{}", "--space", "people", "--index", "name", "--format", "csv"]);
    assert_eq!(by_name, "id,name,field_3,field_4\r\n2,,35,\"[3,4]\"\r\n1,Ann,34,\"[1,2]\"\r\n");
    let out = folder.path().join("people.tsv");
    let arguments =
        ["export", "{}", "--space", "512", "--format", "tsv", "--no-header", "-o", out.to_str().unwrap()];
    assert_eq!(run(folder.path(), &arguments).status.code(), Some(0));
    assert_eq!(fs::read_to_string(&out).unwrap(), "1\tAnn\t34\t[1,2]\n2\t\\N\t35\t[3,4]\n");
    // A file that is there stays as it is.
    fails(3, folder.path(), &arguments);
    fails(2, folder.path(), &["export", "{}", "--space", "people", "--format", "csv", "--json"]);
}

#[test]
fn shells_and_man_know_every_command() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = done(folder.path(), &["completions", shell]);
        assert!(script.contains("salvage") && script.contains("keep-doubtful"), "{shell}");
    }
    let pages = folder.path().join("man");
    fs::create_dir(&pages).unwrap();
    done(folder.path(), &["man", pages.to_str().unwrap()]);
    let page = fs::read_to_string(pages.join("lycosa-salvage.1")).unwrap();
    assert!(page.contains("lost.jsonl"), "{page}");
}

#[test]
fn the_keys_of_stats_json_are_the_documented_ones() {
    let folder = folder();
    let stats = json_of(folder.path(), &["stats", "{}", "--json"]);
    let documented = documented("docs/json.md", "stats");
    let mut found = keys(&stats, &["spaces[].fields[].types"]);
    // Values have keys of their own.
    found.retain(|key| !key.starts_with("spaces[].fields[].top[].value["));
    assert_eq!(found, documented);
    let people = &stats["spaces"][0];
    assert_eq!((&people["name"], &people["tuples"]), (&json!("people"), &json!(2)));
    let field = &people["fields"][1];
    assert_eq!(field["types"], json!({"nil": 1, "string": 1}));
    assert_eq!(
        (&field["distinct"], &field["min"], &field["length_max"]),
        (&json!(1), &json!("Ann"), &json!(3))
    );
    let text = done(folder.path(), &["stats", "{}", "--space", "people"]);
    assert!(text.contains("\n  3: unsigned 2; 2 distinct; 34 to 35\n"), "{text}");
}

#[test]
fn the_keys_of_salvage_json_are_the_documented_ones() {
    let folder = folder();
    // A byte that is wrong, and one more that is: nobody can tell which.
    let file = folder.path().join(SNAPSHOT);
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.len();
    (bytes[end - 10], bytes[end - 30]) = (bytes[end - 10] ^ 1, bytes[end - 30] ^ 1);
    fs::write(&file, bytes).unwrap();
    let target = folder.path().join("saved");
    let arguments = ["salvage", file.to_str().unwrap(), target.to_str().unwrap(), "--json"];
    let output = lycosa(&arguments).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(i32::from(report["is_complete"] == false)), "{report:#}");
    let (mut found, mut documented) = (keys(&report, &[]), documented("docs/json.md", "salvage"));
    // No file was skipped, so there is no more to compare of those.
    documented.retain(|key| !key.starts_with("skipped_files[]"));
    found.remove("skipped_files[]");
    assert_eq!(found, documented);
    // The source is a file, so the target may stand beside it; a second time it is there already.
    assert_eq!(lycosa(&arguments).output().unwrap().status.code(), Some(3));
    let inside = folder.path().join("inside");
    let arguments = ["salvage", folder.path().to_str().unwrap(), inside.to_str().unwrap()];
    let output = lycosa(&arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(!inside.exists(), "{}", String::from_utf8_lossy(&output.stderr));
}

// ---------------------------------------------------------------------------------------------------------------------
// What the commands print.

#[test]
fn load_counts_tuples_entries_and_bytes() {
    let folder = folder();
    let report = json_of(folder.path(), &["load", "{}", "--json", "--threads", "1"]);
    assert_eq!(report["threads"], 1);
    assert_eq!(report["instance"], INSTANCE);
    let space =
        |id: u32| report["spaces"].as_array().unwrap().iter().find(|space| space["id"] == id).unwrap();
    let people = space(512);
    assert_eq!((&people["name"], &people["tuples"]), (&json!("people"), &json!(2)));
    assert_eq!(people["bytes"], (ANN.len() + BOB.len()) / 2);
    let both: Vec<u8> = [ANN, BOB].concat().into_bytes();
    let both: Vec<u8> =
        both.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
    assert_eq!(people["fingerprint"], format!("{:08x}", crc32fast::hash(&both)));
    assert_eq!(people["indexes"][1]["entries"], 2);
    assert_eq!(people["indexes"][0]["absent"], Value::Null);
    assert!(people["indexes"][2]["absent"].is_string());
    assert_eq!(space(518)["indexes"][1]["entries"], 3, "one entry for each distinct key of a tuple");
    assert_eq!(space(514)["tuples"], 0);
}

#[test]
fn load_of_a_lone_file_is_load_of_its_folder() {
    let folder = folder();
    let of_folder = json_of(folder.path(), &["load", "{}", "--json"]);
    let of_file = json_of(&folder.path().join(SNAPSHOT), &["load", "{}", "--json"]);
    assert_eq!(of_folder["spaces"], of_file["spaces"]);
}

#[test]
fn tables_name_user_spaces_and_system_ones_on_request() {
    let folder = folder();
    for command in ["load", "schema"] {
        let text = done(folder.path(), &[command, "{}"]);
        assert!(text.contains("people") && text.contains("absent: ") && !text.contains("_cluster"), "{text}");
        assert!(done(folder.path(), &[command, "{}", "--system"]).contains("_cluster"));
    }
}

#[test]
fn schema_shows_parts_as_tarantool_does() {
    let folder = folder();
    let schema = json_of(folder.path(), &["schema", "{}", "--json"]);
    let space =
        |id: u32| schema["spaces"].as_array().unwrap().iter().find(|space| space["id"] == id).unwrap();
    let people = space(512);
    assert_eq!(
        (&people["engine"], &people["field_count"], &people["absent"]),
        (&json!("memtx"), &json!(0), &Value::Null)
    );
    assert_eq!(people["format"][0]["type"], "unsigned");
    assert_eq!(people["format"][1]["is_nullable"], true);
    let name = &people["indexes"][1];
    assert_eq!((&name["id"], &name["type"], &name["unique"]), (&json!(1), &json!("TREE"), &json!(false)));
    let part = &name["parts"][0];
    assert_eq!(
        (&part["fieldno"], &part["type"], &part["is_nullable"]),
        (&json!(2), &json!("string"), &json!(true))
    );
    assert_eq!((&part["path"], &part["sort_order"]), (&Value::Null, &json!("asc")));
    assert_eq!(people["indexes"][2]["type"], "RTREE");
    assert!(people["indexes"][2]["absent"].is_string());
    assert_eq!(space(518)["indexes"][1]["parts"][0]["path"], "[*]");
    assert!(space(515)["absent"].is_string());
    assert!(space(516)["absent"].is_string());
    assert_eq!((&space(516)["is_view"], &space(517)["is_temporary"]), (&json!(true), &json!(true)));
}

#[test]
fn dump_prints_one_tuple_a_line_in_the_order_of_the_index() {
    let folder = folder();
    let dump = |rest: &[&str]| done(folder.path(), &[&["dump", "{}", "--format", "hex"], rest].concat());
    assert_eq!(lines(&dump(&["--space", "people"])), [ANN, BOB]);
    assert_eq!(lines(&dump(&["--space", "people", "--index", "name"])), [BOB, ANN]);
    assert_eq!(lines(&dump(&["--space", "people", "--index", "1"])), [BOB, ANN]);
    assert_eq!(dump(&["--space", "tagged", "--index", "tag"]).lines().count(), 3, "once for each key");
    assert_eq!(dump(&["--space", "_space"]).lines().count(), 12);
    assert_eq!(dump(&["--space", "280"]), dump(&["--space", "_space"]));
    let people = done(folder.path(), &["dump", "{}", "--space", "people", "--json"]);
    let people: Vec<Value> = people.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(people, [json!([1, "Ann", 34, [1, 2]]), json!([2, null, 35, [3, 4]])]);
}

#[test]
fn a_name_of_digits_is_an_id_unless_it_is_called_a_name() {
    let folder = folder();
    let dump = |space: &str| done(folder.path(), &["dump", "{}", "--format", "hex", "--space", space]);
    assert_eq!(lines(&dump("512")), [ANN, BOB]);
    assert_eq!(lines(&dump("name:512")), ["91a178"]);
    assert_eq!(lines(&dump("513")), ["91a178"]);
    assert_eq!(lines(&dump("name:people")), [ANN, BOB]);
    fails(2, folder.path(), &["dump", "{}", "--space", "name:513"]);
}

#[test]
fn no_tuples_is_no_line_and_no_failure() {
    let folder = folder();
    assert_eq!(done(folder.path(), &["dump", "{}", "--space", "empty"]), "");
    assert_eq!(done(folder.path(), &["dump", "{}", "--space", "scratch"]), "");
    assert_eq!(done(folder.path(), &["get", "{}", "--space", "people", "--key", "[99]"]), "");
}

#[test]
fn get_finds_by_json_and_by_hex_keys() {
    let folder = folder();
    let get = |rest: &[&str]| {
        done(folder.path(), &[&["get", "{}", "--format", "hex", "--space", "people"], rest].concat())
    };
    assert_eq!(lines(&get(&["--key", "[1]"])), [ANN]);
    assert_eq!(lines(&get(&["--key-hex", "9101"])), [ANN]);
    assert_eq!(lines(&get(&["--key-hex", "91cf0000000000000001"])), [ANN], "compared by value");
    assert_eq!(lines(&get(&["--key", "[1]", "--iterator", "ge"])), [ANN, BOB]);
    assert_eq!(lines(&get(&["--key", "[1]", "--iterator", "GT"])), [BOB]);
    assert_eq!(lines(&get(&["--key", "[9]", "--iterator", "LT"])), [BOB, ANN]);
    assert_eq!(lines(&get(&["--key", "[]", "--iterator", "ALL", "--limit", "1"])), [ANN]);
    assert_eq!(lines(&get(&["--key", "[]", "--iterator", "ALL", "--limit", "0"])), [""; 0]);
    assert_eq!(lines(&get(&["--index", "name", "--key", "[\"Ann\"]"])), [ANN]);
    assert_eq!(lines(&get(&["--index", "name", "--key", "[null]"])), [BOB]);
}

#[test]
fn info_tells_rows_of_a_snapshot_by_type_and_space() {
    let folder = folder();
    let info = json_of(&folder.path().join(SNAPSHOT), &["info", "{}", "--json"]);
    assert_eq!(info["filetype"], "SNAP");
    assert_eq!(info["rows"], rows().len() + 2);
    assert_eq!((&info["types"][0]["type"], &info["types"][0]["name"]), (&json!(2), &json!("INSERT")));
    assert_eq!(info["types"][0]["rows"], rows().len() + 2);
    let people = info["spaces"].as_array().unwrap().iter().find(|space| space["id"] == 512).unwrap();
    assert_eq!(people["rows"], 2);
    assert_eq!(info["end_marker"], true);
    assert_eq!((&info["plain_blocks"], &info["compressed_blocks"]), (&json!(1), &json!(0)));
    assert!(done(&folder.path().join(SNAPSHOT), &["info", "{}"]).contains("INSERT"));
}

#[test]
fn info_goes_on_after_a_bad_file_and_fails_at_the_end() {
    let folder = folder();
    fs::write(folder.path().join("bad.snap"), "no such thing").unwrap();
    let (bad, good) = (folder.path().join("bad.snap"), folder.path().join(SNAPSHOT));
    let output = lycosa(&["info", "--json", bad.to_str().unwrap(), good.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8(output.stderr).unwrap().contains("bad.snap"));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}

#[test]
fn bench_runs_every_arm_interleaved_and_compares_what_was_loaded() {
    let folder = folder();
    let bench = [
        "bench",
        "load",
        "{}",
        "--runs",
        "2",
        "--threads",
        "1,2",
        "--no-hints",
        "--nested",
        "--touch-memory",
    ];
    let report = json_of(folder.path(), &[&bench[..], &["--json"]].concat());
    let results = report["results"].as_array().unwrap();
    let cells: Vec<(u64, &str)> = results
        .iter()
        .map(|result| (result["threads"].as_u64().unwrap(), result["arm"].as_str().unwrap()))
        .collect();
    assert_eq!(
        cells,
        [(1, "usual"), (1, "no-hints"), (1, "nested"), (2, "usual"), (2, "no-hints"), (2, "nested")]
    );
    for result in results {
        let wall = &result["total"]["wall_seconds"];
        assert!(
            wall["min"].as_f64() <= wall["median"].as_f64()
                && wall["median"].as_f64() <= wall["max"].as_f64()
        );
        assert!(result["peak_memory_bytes"]["min"].as_u64() > Some(0));
    }
    assert!(report["machine"]["cores"].as_u64() >= Some(1));
    let table = done(folder.path(), &bench);
    assert!(table.contains("threads 2, nested") && table.contains("user ns/row"), "{table}");
}

#[test]
fn bench_passes_on_what_a_failing_run_says() {
    let folder = folder();
    let missing = folder.path().join("missing");
    let error = fails(3, &missing, &["bench", "load", "{}", "--runs", "1"]);
    assert!(error.contains("missing") && error.matches("lycosa:").count() == 1, "{error}");
}

#[test]
fn every_command_shows_an_example_in_its_help() {
    for command in [&["load"][..], &["schema"], &["dump"], &["get"], &["info"], &["bench", "load"]] {
        let output = lycosa(&[command, &["--help"]].concat()).output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("  lycosa {}", command.join(" "))), "{command:?}: {text}");
        assert!(text.contains("--json"), "{command:?}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Failures.

#[test]
fn what_cannot_be_opened_exits_with_3() {
    let folder = folder();
    let missing = folder.path().join("missing");
    for command in
        [&["load", "{}"][..], &["schema", "{}"], &["dump", "{}", "--space", "people"], &["info", "{}"]]
    {
        let error = fails(3, &missing, command);
        assert!(error.starts_with("lycosa: ") && error.contains("missing"), "{error}");
        fails(3, &missing, &[command, &["--json"]].concat());
    }
    let empty = TempDir::new().unwrap();
    fails(3, empty.path(), &["load", "{}"]);
    fails(3, folder.path(), &["load", "{}", "--max-memory", "1KiB"]);
}

#[test]
fn absent_data_answers_with_the_reason_and_exits_with_3() {
    let folder = folder();
    for (space, word) in [("disk", "vinyl"), ("seen", "view")] {
        assert!(fails(3, folder.path(), &["dump", "{}", "--space", space]).contains(word));
        assert!(fails(3, folder.path(), &["get", "{}", "--space", space, "--key", "[1]"]).contains(word));
    }
    let error = fails(3, folder.path(), &["dump", "{}", "--space", "people", "--index", "place"]);
    assert!(error.to_lowercase().contains("rtree"), "{error}");
}

#[test]
fn requests_that_make_no_sense_exit_with_2() {
    let folder = folder();
    let people = &["get", "{}", "--space", "people"][..];
    for request in [
        vec!["load", "{}", "--no-such-option"],
        vec!["load"],
        vec!["load", "{}", "--max-memory", "plenty"],
        vec!["load", "{}", "--threads", "-1"],
        vec!["info"],
        vec!["dump", "{}", "--space", "nobody"],
        vec!["dump", "{}", "--space", "99999"],
        vec!["dump", "{}", "--space", "people", "--index", "nothing"],
        vec!["dump", "{}", "--space", "people", "--index", "77"],
        vec!["dump", "{}", "--space", "people", "--format", "hex", "--json"],
        [people, &["--key", "[\"no number\"]"]].concat(),
        [people, &["--key", "not json"]].concat(),
        [people, &["--key", "[1, 2]"]].concat(),
        [people, &["--key", "[1]", "--key-hex", "9101"]].concat(),
        [people, &["--key-hex", "910"]].concat(),
        [people, &["--key-hex", "zz"]].concat(),
        [people, &["--key-hex", "01"]].concat(),
        [people, &["--key", "[1]", "--iterator", "ABOUT"]].concat(),
        people.to_vec(),
    ] {
        fails(2, folder.path(), &request);
    }
}

#[test]
fn damage_exits_with_1_and_says_where() {
    let folder = folder();
    let file = folder.path().join(SNAPSHOT);
    let good = fs::read(&file).unwrap();

    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    fs::write(&file, flipped).unwrap();
    let error = fails(1, folder.path(), &["load", "{}"]);
    assert!(
        error.contains(SNAPSHOT) && error.contains("block 0 at byte") && error.contains("checksum"),
        "{error}"
    );

    fs::write(&file, &good[..good.len() - 4]).unwrap();
    let error = fails(1, folder.path(), &["load", "{}", "--json"]);
    assert!(error.contains(SNAPSHOT), "{error}");
}

#[test]
fn logs_are_replayed_unless_the_snapshot_alone_is_wanted() {
    const EVE: &str = "9403a345766501920000";
    let (folder, logs) = (folder(), TempDir::new().unwrap());
    let log = [
        header("XLOG"),
        block(&log_row(1, 512, &json!([3, "Eve", 1, [0, 0]]))),
        vec![0xd5, 0x10, 0xad, 0xed],
    ];
    fs::write(logs.path().join("00000000000000000000.xlog"), log.concat()).unwrap();
    let wal_dir = logs.path().to_str().unwrap();
    let dump = ["dump", "{}", "--space", "people", "--format", "hex"];
    let with = |more: &[&str]| -> Vec<String> {
        let out = done(folder.path(), &[&dump[..], more].concat());
        lines(&out).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(with(&["--wal-dir", wal_dir]), [ANN, BOB, EVE]);
    assert_eq!(with(&["--wal-dir", wal_dir, "--snapshot-only"]), [ANN, BOB]);
    assert_eq!(with(&["--wal-dir", wal_dir, "--to-lsn", "0"]), [ANN, BOB]);
    assert_eq!(with(&["--wal-dir", wal_dir, "--to-lsn", "1"]), [ANN, BOB, EVE]);
    assert_eq!(with(&[]), [ANN, BOB]);
    let report = json_of(folder.path(), &["load", "{}", "--json", "--wal-dir", wal_dir]);
    assert_eq!(report["logs"]["rows"], 1);

    fs::write(folder.path().join("00000000000000000000.xlog"), log.concat()).unwrap();
    assert_eq!(with(&[]), [ANN, BOB, EVE]);
    assert_eq!(with(&["--snapshot-only"]), [ANN, BOB]);
}

#[test]
fn the_keys_of_compact_json_are_the_documented_ones() {
    let (folder, parent) = (folder(), TempDir::new().unwrap());
    let target = parent.path().join("fresh");
    let report =
        json_of(folder.path(), &["compact", "{}", target.to_str().unwrap(), "--space", "people", "--json"]);
    assert_eq!(keys(&report, &["vclock"]), documented("docs/json.md", "compact"));
}

#[test]
fn the_keys_of_verify_json_are_the_documented_ones() {
    let folder = folder();
    fs::write(folder.path().join("00000000000000000000.xlog"), [header("XLOG"), vec![1, 2, 3, 4]].concat())
        .unwrap();
    let output = run(folder.path(), &["verify", "{}", "--deep", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys(&report, &[]), documented("docs/json.md", "verify"));
    assert_eq!((&report["paths"][0]["opens"], &report["paths"][0]["faults"]), (&json!(false), &json!(1)));
}

#[test]
fn verify_finds_no_fault_in_a_good_folder_and_says_where_one_is() {
    let folder = folder();
    let out = done(folder.path(), &["verify", "{}", "--deep"]);
    assert!(out.contains("no fault; opens (1 files"), "{out}");
    let mut bytes = fs::read(folder.path().join(SNAPSHOT)).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    fs::write(folder.path().join(SNAPSHOT), bytes).unwrap();
    let output = run(folder.path(), &["verify", "{}", "--deep"]);
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(out.contains("fault   ") && out.contains(", block 0 at byte 84: checksum"), "{out}");
    assert!(out.contains("1 fault; does not open"), "{out}");
}

#[test]
fn compact_writes_a_snapshot_that_holds_what_the_logs_made_of_the_old_one() {
    let (folder, parent) = (folder(), TempDir::new().unwrap());
    let log = [
        header("XLOG"),
        block(&log_row(1, 512, &json!([3, "Eve", 36, [5, 6]]))),
        vec![0xd5, 0x10, 0xad, 0xed],
    ];
    fs::write(folder.path().join("00000000000000000000.xlog"), log.concat()).unwrap();
    let target = |name: &str| parent.path().join(name).to_str().unwrap().to_owned();
    let dump = |target: &str, space: &str| {
        done(Path::new(target), &["dump", "{}", "--space", space, "--format", "hex"])
    };

    // All that are not vinyl's.
    const MEMTX: [&str; 6] = ["--space", "people", "--space", "name:512", "--space", "tagged"];
    let all = target("all");
    let out = done(
        folder.path(),
        &[&["compact", "{}", &all, "--level", "3", "--threads", "2"], &MEMTX[..]].concat(),
    );
    assert!(out.contains("00000000000000000001.snap") && out.contains("rows/s"), "{out}");
    assert_eq!(dump(&all, "people"), dump(folder.path().to_str().unwrap(), "people"));
    assert_eq!(lines(&dump(&all, "people")).len(), 3);
    let names: Vec<_> = fs::read_dir(&all).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["00000000000000000001.snap"]);

    // Up to a point, and some spaces alone.
    let some = target("some");
    let report = json_of(
        folder.path(),
        &["compact", "{}", &some, "--to-lsn", "0", "--space", "people", "--space", "tagged", "--json"],
    );
    assert_eq!((&report["vclock"], &report["replayed_rows"]), (&json!({}), &json!(0)));
    assert_eq!(lines(&dump(&some, "people")).len(), 2);
    assert_eq!(lines(&dump(&some, "tagged")).len(), 2);
    fails(2, Path::new(&some), &["dump", "{}", "--space", "name:512"]);

    // What is there stays as it is, and what cannot be written is said.
    let message = fails(3, folder.path(), &["compact", "{}", &target("none")]);
    assert!(message.contains("space disk: its data is in vinyl's own files"), "{message}");
    let before = fs::read(Path::new(&all).join("00000000000000000001.snap")).unwrap();
    let message = fails(3, folder.path(), &["compact", "{}", &all]);
    assert!(message.contains("new or empty folder"), "{message}");
    assert_eq!(fs::read(Path::new(&all).join("00000000000000000001.snap")).unwrap(), before);
    // What makes no sense leaves nothing behind.
    let none = target("none");
    fails(2, folder.path(), &["compact", "{}", &none, "--space", "nobody"]);
    fails(2, folder.path(), &["compact", "{}", &none, "--level", "0"]);
    fails(3, folder.path(), &["compact", "{}", &none, "--space", "disk"]);
    assert!(!Path::new(&none).exists());
}

#[test]
fn a_reader_that_has_read_enough_is_no_failure() {
    let folder = TempDir::new().unwrap();
    // More than a pipe and the tool's own buffer hold.
    let people = (1..60_000).map(|id| json!([id, "a name of some length", 1, [0, 0]]));
    fs::write(folder.path().join(SNAPSHOT), snapshot(people)).unwrap();
    let folder = folder.path().to_str().unwrap();
    for arguments in [
        &["dump", folder, "--space", "people"][..],
        &["dump", folder, "--space", "people", "--format", "hex"],
        &["get", folder, "--space", "people", "--key", "[]", "--iterator", "ALL"],
        &["load", folder, "--json"],
        &["schema", folder],
    ] {
        let mut child = lycosa(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_a_failure() {
    let folder = folder();
    for command in [&["dump", "--space", "people"][..], &["load", "--json"], &["schema"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = lycosa(command).arg(folder.path()).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{command:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("standard output"), "{command:?}");
    }
}

#[test]
fn reading_changes_nothing_on_disk() {
    let folder = folder();
    let before = fs::read(folder.path().join(SNAPSHOT)).unwrap();
    done(folder.path(), &["load", "{}", "--json"]);
    done(folder.path(), &["bench", "load", "{}", "--runs", "1", "--cold"]);
    assert_eq!(fs::read(folder.path().join(SNAPSHOT)).unwrap(), before);
    let names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [SNAPSHOT]);
}
