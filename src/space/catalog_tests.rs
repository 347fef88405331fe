//! The catalog on rows made by hand and on those of real snapshots.

use serde_json::{Value, json};

use super::*;
use crate::msgpack::{read, skip};

/// A row as MsgPack, written as JSON.
fn row(value: Value) -> Vec<u8> {
    rmp_serde::to_vec(&value).unwrap()
}

fn build(rows: &[(u32, Value)]) -> Result<Schema> {
    let mut builder = SchemaBuilder::new();
    for (space_id, value) in rows {
        builder.row(*space_id, &row(value.clone()))?;
    }
    builder.finish()
}

fn space_row(id: u32, name: &str, format: Value) -> (u32, Value) {
    (280, json!([id, 1, name, "memtx", 0, {}, format]))
}

fn plain_index(space: u32, id: u32, name: &str) -> (u32, Value) {
    (288, json!([space, id, name, "tree", {"unique": true}, [[id, "unsigned"]]]))
}

fn message(rows: &[(u32, Value)]) -> String {
    build(rows).unwrap_err().to_string()
}

#[test]
fn the_rows_of_a_space_and_its_indexes_make_its_definition() {
    let schema = build(&[
        (272, json!(["version", 2, 3, 1])),
        (272, json!(["cluster", "d47acdf9-695d-4462-b77d-c7d0b1ac67e7"])),
        (276, json!([1, "unicode", 1, "ICU", "", {"strength": "tertiary"}])),
        (320, json!([1, "50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9"])),
        space_row(512, "t", json!([{"name": "id", "type": "NUM"}, {"name": "s", "type": "string", "is_nullable": true}])),
        // The order of rows does not matter.
        (288, json!([512, 1, "sk", "TREE", {"unique": false, "hint": true}, [
            {"field": 1, "type": "string", "is_nullable": true, "sort_order": "desc", "exclude_null": true},
            {"field": 2, "type": "unsigned", "path": "[*].a"},
        ]])),
        plain_index(512, 0, "pk"),
    ])
    .unwrap();
    assert_eq!(schema.version(), Some((2, 3, 1)));
    assert_eq!(schema.replicaset_uuid(), Some("d47acdf9-695d-4462-b77d-c7d0b1ac67e7"));
    assert_eq!(schema.replicas().collect::<Vec<_>>(), [(1, "50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9")]);
    assert_eq!(schema.notices(), &[] as &[String]);
    assert_eq!(schema.instance_notice("50DC0F6E-d2c3-40bb-9b23-d5b2a30535c9"), None);
    assert_eq!(
        schema.instance_notice("50dc0f6e-d2c3-40bb-9b23-d5b2a30535c8").unwrap(),
        "instance 50dc0f6e-d2c3-40bb-9b23-d5b2a30535c8 of the text header is not in _cluster, which has \
         50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9"
    );
    assert_eq!(
        [0, 1, 2, 3].map(|id| schema.collation_name(id)),
        [Some("none"), Some("unicode"), None, Some("binary")]
    );
    let space = schema.space_by_name("t").unwrap();
    assert_eq!(space.id, 512);
    assert_eq!(space.absent, None);
    assert_eq!(space.format[0].field_type, FieldType::Unsigned);
    assert!(space.format[1].is_nullable && !space.format[0].is_nullable);
    assert_eq!(space.indexes.iter().map(|index| index.id).collect::<Vec<_>>(), [0, 1]);
    let secondary = &space.indexes[1];
    assert_eq!(
        (secondary.kind, secondary.unique, secondary.absent.as_deref()),
        (IndexKind::Tree, false, None)
    );
    assert!(secondary.parts[0].descending && secondary.parts[0].exclude_null);
    assert!(secondary.has_multikey() && secondary.is_nullable());
    // Built-in definitions stand for the system spaces that the file uses and does not define.
    assert_eq!(
        schema.spaces().iter().map(|space| space.name.as_str()).collect::<Vec<_>>(),
        ["_schema", "_collation", "_space", "_index", "_cluster", "t"]
    );
}

#[test]
fn rows_of_old_versions_are_read() {
    let schema = build(&[
        (272, json!(["version", 1, 6])),
        (280, json!([512, 1, "five", "memtx", 0])),
        (280, json!([513, 1, "six", "memtx", 0, "temporary"])),
        (280, json!([514, 1, "pairs", "memtx", 0, "", [["a", "num"], ["b", "str"], ["c"]]])),
        (288, json!([512, 0, "pk", "tree", 1, 2, 0, "num", 2, "str"])),
        (288, json!([512, 1, "sk", "tree", 0, 1, 1, "STR"])),
        (288, json!([513, 0, "pk", "hash", 1, 1, 0, "num"])),
        (288, json!([514, 0, "pk", "tree", {}, [[0, "num", "ignored", 7]]])),
    ])
    .unwrap();
    assert_eq!(schema.version(), Some((1, 6, 0)));
    let five = schema.space_by_id(512).unwrap();
    assert!(five.indexes[0].unique && !five.indexes[1].unique);
    assert_eq!((five.indexes[0].parts[1].field, five.indexes[0].parts[1].field_type), (2, FieldType::String));
    assert_eq!(
        schema.space_by_id(513).unwrap().absent.as_deref(),
        Some("temporary: its tuples are not in files")
    );
    let pairs = schema.space_by_id(514).unwrap();
    assert_eq!(
        pairs.format.iter().map(|field| field.field_type).collect::<Vec<_>>(),
        [FieldType::Unsigned, FieldType::String, FieldType::Any]
    );
}

#[test]
fn what_a_newer_version_may_have_added_is_a_notice() {
    let schema = build(&[
        (
            280,
            json!([512, 1, "t", "memtx", 0, {"shiny": 1}, [{"name": "a", "type": "int128", "hue": "red"}]]),
        ),
        (
            288,
            json!([512, 0, "pk", "tree", {"unique": true, "fast": true}, [
            {"field": 0, "type": "unsigned", "weight": 3},
        ], "more"]),
        ),
        (288, json!([512, 1, "sk", "tree", {}, [{"field": 0, "type": "int128"}]])),
        (288, json!([512, 2, "lsm", "lsm", {}, [[0, "unsigned"]]])),
        (288, json!([512, 3, "up", "tree", {}, [{"field": 0, "type": "unsigned", "sort_order": "up"}]])),
    ])
    .unwrap();
    let space = schema.space_by_id(512).unwrap();
    assert_eq!(space.flags_raw, row(json!({"shiny": 1})));
    assert_eq!(space.indexes[0].options_raw, row(json!({"unique": true, "fast": true})));
    assert_eq!(space.indexes[0].absent, None);
    assert_eq!(space.indexes[1].absent.as_deref(), Some("part 1: unknown type \"int128\""));
    assert_eq!(space.indexes[2].absent.as_deref(), Some("unknown kind of index \"lsm\""));
    assert_eq!(space.indexes[3].absent.as_deref(), Some("part 1: unknown sort order \"up\""));
    assert_eq!(
        schema.notices(),
        [
            "space t (512): unknown flag \"shiny\" is kept and has no effect",
            "space t (512), field 1 (a): type \"int128\" is unknown, nothing is checked",
            "space 512, index pk (0): unknown option \"fast\" is kept and has no effect",
            "space 512, index pk (0): part 1: unknown key \"weight\" is kept and has no effect",
            "space 512, index pk (0): 1 unknown fields at the end of its row are kept and have no effect",
        ]
    );
}

#[test]
fn notices_of_a_hostile_row_are_counted_not_kept() {
    let flags: serde_json::Map<String, Value> = (0..1000).map(|n| (format!("x{n}"), json!(0))).collect();
    let schema = build(&[(280, json!([512, 1, "t", "memtx", 0, flags, []]))]).unwrap();
    assert_eq!(schema.notices().len(), NOTICES_MAX + 1);
    assert_eq!(schema.notices().last().unwrap(), "and 744 more such notices");
}

#[test]
fn spaces_whose_tuples_are_not_in_memory_say_why() {
    let space =
        |id, name: &str, engine: &str, flags: Value| (280, json!([id, 1, name, engine, 0, flags, []]));
    let schema = build(&[
        space(512, "view", "memtx", json!({"view": true, "sql": "SELECT 1"})),
        space(513, "vinyl", "vinyl", json!({})),
        space(514, "sysview", "sysview", json!({})),
        space(515, "temporary", "memtx", json!({"temporary": true})),
        space(516, "data", "memtx", json!({"type": "data-temporary"})),
        space(517, "bare", "memtx", json!({"type": "normal"})),
        space(518, "new", "memtx", json!({"type": "ethereal"})),
        space(519, "local", "memtx", json!({"group_id": 1, "is_sync": true})),
        plain_index(513, 0, "pk"),
        plain_index(518, 0, "pk"),
        plain_index(519, 0, "pk"),
    ])
    .unwrap();
    let absent: Vec<_> = schema.spaces()[2..].iter().map(|space| space.absent.as_deref()).collect();
    assert_eq!(
        absent,
        [
            Some("view: it has no tuples of its own"),
            Some("engine vinyl: its tuples are not in the snapshot"),
            Some("engine sysview: it keeps no tuples"),
            Some("temporary: its tuples are not in files"),
            Some("temporary: its tuples are not in files"),
            Some("no primary index: it cannot hold tuples"),
            Some("unknown type of space \"ethereal\""),
            None,
        ]
    );
    let vinyl = schema.space_by_id(513).unwrap();
    assert_eq!(vinyl.indexes[0].absent, vinyl.absent);
    let local = schema.space_by_id(519).unwrap();
    assert!(local.is_local && local.is_sync);
}

#[test]
fn indexes_that_are_not_built_say_why_and_the_others_stay() {
    let ci = |field: u32| json!({"field": field, "type": "string", "collation": 2});
    let (ci, ci_in_key) = (ci(1), ci(1));
    let schema = build(&[
        (276, json!([2, "unicode_ci", 1, "ICU", "", {"strength": "primary"}])),
        (276, json!([3, "binary", 1, "BINARY", "", {}])),
        space_row(512, "t", json!([])),
        plain_index(512, 0, "pk"),
        (288, json!([512, 1, "rtree", "rtree", {"unique": false}, [[1, "array"]]])),
        (288, json!([512, 2, "bitset", "BITSET", {"unique": false}, [[1, "unsigned"]]])),
        (288, json!([512, 3, "func", "tree", {"func": 68}, [[0, "string"]]])),
        (288, json!([512, 4, "ci", "tree", {}, [ci]])),
        (288, json!([512, 5, "binary", "tree", {}, [{"field": 1, "type": "string", "collation": 3}]])),
        (288, json!([512, 6, "lost", "tree", {}, [{"field": 1, "type": "string", "collation": 77}]])),
        space_row(513, "u", json!([])),
        (288, json!([513, 0, "pk", "tree", {}, [{"field": 0, "type": "unsigned"}, ci_in_key]])),
        (288, json!([513, 1, "unique", "tree", {}, [[2, "unsigned"]]])),
        (288, json!([513, 2, "ties", "tree", {"unique": false}, [[2, "unsigned"]]])),
        (
            288,
            json!([513, 3, "nullable", "tree", {}, [{"field": 2, "type": "unsigned", "is_nullable": true}]]),
        ),
        // Holds the primary key's text field itself, compared as bytes: the order needs no collation.
        (288, json!([513, 4, "own", "tree", {"unique": false}, [[2, "unsigned"], [1, "string"]]])),
    ])
    .unwrap();
    let absent = |id| -> Vec<_> {
        let space = schema.space_by_id(id).unwrap();
        assert_eq!(space.absent, None);
        space.indexes.iter().map(|index| index.absent.as_deref()).collect()
    };
    assert_eq!(
        absent(512),
        [
            None,
            Some("RTREE is not built yet"),
            Some("BITSET is not built yet"),
            Some("functional index: its Lua function cannot be run"),
            Some("collation unicode_ci is not built yet"),
            None,
            Some("collation 77 is not defined"),
        ]
    );
    let ties = "its equal keys follow the primary key: collation unicode_ci is not built yet";
    assert_eq!(
        absent(513),
        [Some("collation unicode_ci is not built yet"), None, Some(ties), Some(ties), None]
    );
}

#[test]
fn impossible_definitions_are_errors_that_name_the_space() {
    let in_space = |more: Value| vec![space_row(512, "t", json!([])), plain_index(512, 0, "pk"), (288, more)];
    let tree = |options: Value, parts: Value| in_space(json!([512, 1, "i", "tree", options, parts]));
    let primary = |kind: &str, options: Value, parts: Value| {
        vec![space_row(512, "t", json!([])), (288, json!([512, 0, "pk", kind, options, parts]))]
    };
    let cases: Vec<(Vec<(u32, Value)>, &str)> = vec![
        (vec![(280, json!({"a": 1}))], "space _space: row: expected array, found map (byte 0x81)"),
        (
            vec![(280, json!([512, 1, "t"]))],
            "space t, field 4 (engine) of the row in _space: row: expected a value, found the end of the row",
        ),
        (
            vec![(280, json!([512, 1, "", "memtx", 0]))],
            "space 512, field 3 (name) of the row in _space: name: expected 1 to 65000 bytes, found 0 bytes",
        ),
        (
            vec![(280, json!([4294967295u32, 1, "t", "memtx", 0]))],
            "space _space, field 1 (id) of the row in _space: number: expected at most 2147483647, found 4294967295",
        ),
        (
            vec![(280, json!([512, 1, "t", "memtx", 0, {"view": 1}, []]))],
            "space t, field 6 (flags) of the row in _space: key \"view\": expected boolean, found unsigned (byte 0x01)",
        ),
        (
            vec![(280, json!([512, 1, "t", "memtx", 1, {}, [{"name": "a"}, {"name": "b"}]]))],
            "space t: field_count: expected 0 or at least the format's 2 fields, found 1",
        ),
        (
            vec![space_row(512, "t", json!([{"type": "any"}]))],
            "space t, field 1 of the format: field: expected a name, found none",
        ),
        (
            vec![space_row(512, "t", json!([{"name": "a"}, {"name": "a"}]))],
            "space t, field 2 of the format: field name: expected a name used once, found \"a\" twice",
        ),
        (
            vec![space_row(512, "t", json!([{"name": "a", "type": "decimal64"}]))],
            "space t, field 1 of the format: scale: expected one for decimal64, found none",
        ),
        (
            vec![space_row(
                512,
                "t",
                json!([{"name": "a", "is_nullable": true, "nullable_action": "abort"}]),
            )],
            "space t, field 1 of the format: nullable_action: expected none, as is_nullable is true, found abort",
        ),
        (
            vec![plain_index(512, 0, "pk")],
            "space 512: index pk (0): expected a row in _space for its space, found none",
        ),
        (vec![(400, json!([1]))], "space 400: rows: expected a row in _space for their space, found none"),
        (
            in_space(json!([512, 128, "i", "tree", {}, [[0, "unsigned"]]])),
            "space 512, field 2 (index_id) of the row in _index: number: expected at most 127, found 128",
        ),
        (tree(json!({}), json!([])), "space 512, field of index i (1): parts: expected 1 to 255, found 0"),
        (
            tree(json!({}), json!([[0, "unsigned"], {"field": 1, "type": "unsigned"}])),
            "space 512, field part 2 of index i: row: expected array, found map (byte 0x82)",
        ),
        (
            tree(json!({}), json!([{"field": 0}])),
            "space 512, field part 1 of index i: part: expected a type, found none",
        ),
        (
            tree(json!({}), json!([[40000, "unsigned"]])),
            "space 512, field part 1 of index i: field number: expected at most 32767, found 40000",
        ),
        (
            tree(json!({}), json!([{"field": 0, "type": "unsigned", "path": "a..b"}])),
            "space 512, field part 1 of index i: path: expected a JSON path, found \"a..b\", wrong at symbol 3",
        ),
        (
            tree(json!({}), json!([{"field": 0, "type": "unsigned", "exclude_null": true}])),
            "space 512, field part 1 of index i: exclude_null: expected a nullable part, found one that is not",
        ),
        (
            tree(json!({}), json!([[1, "map"]])),
            "space t, field of index i (1): index: expected parts of types that have an order, found part 1 of type map",
        ),
        (
            tree(json!({}), json!([[1, "unsigned"], [1, "unsigned"]])),
            "space t, field of index i (1): index: expected each field once, found part 2 again",
        ),
        (
            tree(
                json!({}),
                json!([
                    {"field": 1, "type": "unsigned", "path": "[*].a"},
                    {"field": 1, "type": "unsigned", "path": "a[*]"},
                ]),
            ),
            "space t, field of index i (1): index: expected one array under all its paths with [*], found another in part 2",
        ),
        (
            tree(json!({}), json!([{"field": 1, "type": "unsigned", "collation": 1}])),
            "space t, field of index i (1): index: expected collations on parts of type string or scalar alone, \
             found one on part 1 of type unsigned",
        ),
        (
            primary("tree", json!({"unique": false}), json!([[0, "unsigned"]])),
            "space t, field of index pk (0): primary index: expected a unique one, found one that is not",
        ),
        (
            primary("rtree", json!({}), json!([[0, "array"]])),
            "space t, field of index pk (0): primary index: expected TREE or HASH, found RTREE",
        ),
        (
            primary("tree", json!({"func": 1}), json!([[0, "unsigned"]])),
            "space t, field of index pk (0): primary index: expected one over the tuple's fields, found a functional one",
        ),
        (
            primary("tree", json!({}), json!([{"field": 0, "type": "unsigned", "is_nullable": true}])),
            "space t, field of index pk (0): primary index: expected parts that are not nullable, found a nullable part 1",
        ),
        (
            primary("hash", json!({}), json!([{"field": 0, "type": "unsigned", "path": "[*]"}])),
            "space t, field of index pk (0): index: expected no path with [*], found one in part 1",
        ),
    ];
    for (rows, expected) in cases {
        assert_eq!(message(&rows), expected);
    }
}

#[test]
fn what_is_defined_twice_is_a_duplicate() {
    let two = |row: (u32, Value), other: (u32, Value)| {
        let error = build(&[row, other]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateKey);
        error.to_string()
    };
    assert_eq!(
        two(space_row(512, "a", json!([])), space_row(512, "b", json!([]))),
        "space _space: duplicate key in index primary: expected one row for [512], found two: a and b"
    );
    assert_eq!(
        two(space_row(512, "a", json!([])), space_row(513, "a", json!([]))),
        "space _space: duplicate key in index name: expected one row for [a], found two: 512 and 513"
    );
    let error =
        build(&[space_row(512, "a", json!([])), plain_index(512, 0, "pk"), plain_index(512, 1, "pk")])
            .unwrap_err();
    assert_eq!(
        error.to_string(),
        "space _index: duplicate key in index name: expected one row for [512, pk], found two: 0 and 1"
    );
}

#[test]
fn no_system_rows_is_an_error_of_its_own() {
    assert_eq!(build(&[]).unwrap_err().kind(), ErrorKind::NoSystemRows);
    assert_eq!(build(&[(512, json!([1]))]).unwrap_err().kind(), ErrorKind::NoSystemRows);
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_row_is_an_error_or_a_definition() {
    let rows = [
        (
            280,
            row(json!([512, 1, "t", "memtx", 2, {"group_id": 1, "temporary": false}, [
                {"name": "a", "type": "unsigned"}, {"name": "b", "type": "string", "is_nullable": true},
            ]])),
        ),
        (
            288,
            row(json!([512, 1, "sk", "tree", {"unique": false}, [
                {"field": 1, "type": "string", "is_nullable": true, "path": "a[*]", "nullable_action": "none"},
            ]])),
        ),
        (288, row(json!([512, 2, "old", "tree", 0, 2, 0, "num", 2, "str"]))),
        (276, row(json!([1, "unicode", 1, "ICU", "", {}]))),
        (272, row(json!(["version", 2, 3, 1]))),
        (320, row(json!([1, "50dc0f6e-d2c3-40bb-9b23-d5b2a30535c9"]))),
    ];
    for (space_id, row) in rows {
        for end in 0..row.len() {
            assert!(SchemaBuilder::new().row(space_id, &row[..end]).is_err());
        }
        for bit in 0..row.len() * 8 {
            let mut row = row.clone();
            row[bit / 8] ^= 1 << (bit % 8);
            let mut builder = SchemaBuilder::new();
            if builder.row(space_id, &row).is_ok() {
                let _ = builder.finish();
            }
        }
    }
}

#[test]
fn promises_of_four_billion_fields_cost_nothing() {
    let mut row = row(json!([512, 1, "t", "memtx", 0, {}]));
    row[0] = 0x97;
    row.extend([0xdd, 0xff, 0xff, 0xff, 0xff]);
    let error = SchemaBuilder::new().row(280, &row).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MsgPack);
}

/// The rows `(space id, tuple)` of a snapshot: a plain reader for whole and sound files.
fn rows_of(file: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut at = 2 + file.windows(2).position(|two| two == b"\n\n").unwrap();
    let mut rows = Vec::new();
    while file[at..] != *b"\xd5\x10\xad\xed" {
        let is_packed = file[at + 3] == 0xba;
        let length = read::uint(file, at + 4).unwrap().0 as usize;
        let stored = &file[at + 19..at + 19 + length];
        at += 19 + length;
        let mut block = stored.to_vec();
        if is_packed {
            block = Vec::with_capacity(1 << 22);
            zstd_safe::decompress(&mut block, stored).unwrap();
        }
        let mut at = 0;
        while at < block.len() {
            let body = skip::skip(&block, at).unwrap();
            if block[at + 2] != 2 {
                // RAFT and PROMOTE rows are no INSERT.
                at = skip::skip(&block, body).unwrap();
                continue;
            }
            // The fixed template of snapshot rows: `82 10 ce <space id> 21 <tuple>`.
            assert_eq!(block[body + 1], 0x10);
            let (space_id, after) = read::uint(&block, body + 2).unwrap();
            at = skip::skip(&block, body).unwrap();
            if block[after] == 0x21 {
                rows.push((space_id as u32, block[after + 1..at].to_vec()));
            }
        }
    }
    rows
}

/// Space, index and part of `expected/schema.json` that are the same in every version, as text.
fn told_by_tarantool(expected: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for space in expected["spaces"].as_array().unwrap() {
        lines.push(format!("{} {} {} {}", space["id"], space["name"], space["engine"], space["field_count"]));
        for index in space["indexes"].as_array().unwrap() {
            // RTREE is reported without.
            let unique = index["unique"].as_bool().unwrap_or(false);
            lines.push(format!("  {} {} {} {unique}", index["id"], index["name"], index["type"]));
            for part in index["parts"].as_array().unwrap() {
                lines.push(format!(
                    "    {} {} nullable {} exclude {} desc {} {} {} {}",
                    part["fieldno"],
                    part["type"],
                    part["is_nullable"].as_bool().unwrap_or(false),
                    part["exclude_null"].as_bool().unwrap_or(false),
                    part["sort_order"] == "desc",
                    part["path"].as_str().unwrap_or(""),
                    part["collation"].as_str().unwrap_or(""),
                    part["scale"]
                ));
            }
        }
    }
    lines
}

/// One case has a user's space with an id of the system's range.
fn is_a_users(space: &&SpaceDef) -> bool {
    space.id >= limits::SYSTEM_SPACE_ID_END || space.name == "id_400"
}

fn told_by_us(schema: &Schema) -> Vec<String> {
    let mut lines = Vec::new();
    for space in schema.spaces().iter().filter(is_a_users) {
        let text = |text: &str| json!(text).to_string();
        let (name, engine) = (text(&space.name), text(&space.engine));
        lines.push(format!("{} {name} {engine} {}", space.id, space.field_count));
        for index in &space.indexes {
            let (name, kind) = (text(&index.name), text(index.kind.name()));
            lines.push(format!("  {} {name} {kind} {}", index.id, index.unique));
            for part in &index.parts {
                lines.push(format!(
                    "    {} {} nullable {} exclude {} desc {} {} {} {}",
                    part.field + 1,
                    text(part.field_type.name()),
                    part.is_nullable,
                    part.exclude_null,
                    part.descending,
                    part.path.as_ref().map_or("", |path| path.text()),
                    part.collation.map_or("", |id| schema.collation_name(id).unwrap()),
                    json!(part.scale)
                ));
            }
        }
    }
    lines
}

#[test]
fn system_rows_of_real_snapshots_give_the_schema_that_tarantool_reports() {
    let mut cases = 0;
    for version in ["2.6", "3.9", "random"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(version);
        for case in std::fs::read_dir(folder).unwrap() {
            let case = case.unwrap().path();
            let is_snapshot = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "snap");
            let mut files = std::fs::read_dir(&case).unwrap().map(|file| file.unwrap().path());
            // Two cases Tarantool itself cannot put into a snapshot.
            let Some(file) = files.find(is_snapshot) else { continue };
            let file = std::fs::read(file).unwrap();
            let mut builder = SchemaBuilder::new();
            for (space_id, tuple) in rows_of(&file) {
                builder.row(space_id, &tuple).unwrap();
            }
            let schema = builder.finish().unwrap();
            assert_eq!(schema.notices(), &[] as &[String], "{case:?}");
            assert_eq!(schema.collation_name(0), Some("none"), "{case:?}");
            let expected = std::fs::read(case.join("expected/schema.json")).unwrap();
            let expected: Value = serde_json::from_slice(&expected).unwrap();
            let told = told_by_us(&schema);
            for (ours, theirs) in told.iter().zip(told_by_tarantool(&expected)) {
                assert_eq!(*ours, theirs, "{case:?}");
            }
            assert_eq!(told.len(), told_by_tarantool(&expected).len(), "{case:?}");
            cases += 1;
        }
    }
    assert!(cases > 100, "{cases}");
}
