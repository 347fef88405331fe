//! What Tarantool held, as the `expected/` folder of a case tells it, against what a store holds.

use std::collections::BTreeMap;
use std::path::Path;

use lycosa::{FieldType, Index, IndexKind, IteratorType, Schema, SpaceDef, Store};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{hex, order};

pub fn json_of(file: &Path) -> Value {
    let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A line of a dump: hex, or of a tuple of more than 1024 bytes its size and digest.
fn line_of(bytes: &[u8]) -> String {
    if bytes.len() <= 1024 {
        return hex(bytes);
    }
    format!("{} bytes, sha256 {}", bytes.len(), hex(&Sha256::digest(bytes)))
}

fn dump_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines()
        .map(|line| match serde_json::from_str(line).unwrap() {
            Value::String(hex) => hex,
            object => format!("{} bytes, sha256 {}", object["size"], object["sha256"].as_str().unwrap()),
        })
        .collect()
}

pub fn lines(index: &Index<'_>) -> Vec<String> {
    index.iter().map(|tuple| line_of(tuple.bytes())).collect()
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[track_caller]
fn assert_lines(place: &str, expected: &[String], found: &[String]) {
    for number in 0..expected.len().max(found.len()) {
        let (expected, found) = (expected.get(number), found.get(number));
        assert_eq!(expected, found, "{place}, line {number}: expected left, found right");
    }
}

/// What was seen while a store was held against `expected/`.
#[derive(Debug, Default)]
pub struct Seen {
    /// A line for everything that is absent from memory and therefore was not compared.
    pub absent: Vec<String>,
    /// Dumps of trees that have the same tuples in another order.
    pub reordered: Vec<String>,
}

/// Holds everything in a store against `expected/`. The order of dumps is for the caller to judge.
pub fn assert_store(case: &str, store: &Store, expected: &Path) -> Seen {
    let view = store.read_view();
    let schema = json_of(&expected.join("schema.json"));
    let counts = json_of(&expected.join("counts.json"));
    let counts: BTreeMap<u64, &Value> =
        list(&counts["spaces"]).iter().map(|space| (space["id"].as_u64().unwrap(), space)).collect();
    let mut seen = Seen::default();
    for told in list(&schema["spaces"]) {
        let id = told["id"].as_u64().unwrap();
        let def = view.schema().space_by_id(id as u32).unwrap_or_else(|| panic!("{case}: no space {id}"));
        assert_def(case, view.schema(), told, def);
        if let Some(reason) = &def.absent {
            seen.absent.push(format!("{case} | {} | | {reason}", def.name));
            let error = view.space(def.id).err().unwrap_or_else(|| panic!("{case}: {} is there", def.name));
            assert_eq!(error.kind(), lycosa::ErrorKind::Absent, "{error}");
            continue;
        }
        let space = view.space(def.id).unwrap();
        let counted = counts.get(&id).unwrap_or_else(|| panic!("{case}: no count of {}", def.name));
        assert_eq!(Some(space.len()), counted["count"].as_u64(), "{case}: tuples of {}", def.name);
        for (told, counted) in list(&told["indexes"]).iter().zip(list(&counted["indexes"])) {
            let index = def.index_by_id(told["id"].as_u64().unwrap() as u32).unwrap();
            let place = format!("{case}: {}.{}", def.name, index.name);
            if let Some(reason) = &index.absent {
                seen.absent.push(format!("{case} | {} | {} | {reason}", def.name, index.name));
                let error = space.index_by_id(index.id).err().unwrap_or_else(|| panic!("{place} is there"));
                assert_eq!(error.kind(), lycosa::ErrorKind::Absent, "{error}");
                continue;
            }
            let index = space.index_by_id(index.id).unwrap();
            assert_eq!(Some(index.len()), counted["count"].as_u64(), "entries of {place}");
            let dump = dump_of(&expected.join(told["dump_file"].as_str().unwrap()));
            let ours = lines(&index);
            if index.def().kind == IndexKind::Tree && dump != ours {
                seen.reordered.push(place.clone());
            }
            assert_lines(&place, &sorted(dump), &sorted(ours));
        }
    }
    seen
}

/// The definition of a space against what Tarantool reported.
fn assert_def(case: &str, schema: &Schema, told: &Value, def: &SpaceDef) {
    let place = format!("{case}: space {}", told["name"]);
    assert_eq!(told["name"], json!(def.name), "{place}");
    assert_eq!(told["engine"], json!(def.engine), "{place}");
    assert_eq!(told["field_count"], json!(def.field_count), "{place}");
    let is = |key: &str| told[key].as_bool().unwrap_or(false);
    assert_eq!(is("is_local"), def.is_local, "{place}");
    assert_eq!(is("is_sync"), def.is_sync, "{place}");
    let is_temporary = is("temporary") || told["type"] == "data-temporary";
    assert_eq!(is_temporary, def.is_temporary, "{place}");

    assert_eq!(list(&told["format"]).len(), def.format.len(), "{place}");
    for (told, field) in list(&told["format"]).iter().zip(&def.format) {
        let place = format!("{place}, field {}", told["name"]);
        assert_eq!(told["name"], json!(field.name), "{place}");
        let told_type = told["type"].as_str().map(|name| FieldType::parse(name).unwrap());
        assert_eq!(told_type.unwrap_or(FieldType::Any), field.field_type, "{place}");
        assert_eq!(told["is_nullable"].as_bool().unwrap_or(false), field.is_nullable, "{place}");
    }

    let told_ids: Vec<_> = list(&told["indexes"]).iter().map(|index| index["id"].as_u64().unwrap()).collect();
    let ids: Vec<_> = def.indexes.iter().map(|index| u64::from(index.id)).collect();
    assert_eq!(told_ids, ids, "{place}");
    for (told, index) in list(&told["indexes"]).iter().zip(&def.indexes) {
        let place = format!("{place}, index {}", told["name"]);
        assert_eq!(told["name"], json!(index.name), "{place}");
        assert_eq!(told["type"], json!(index.kind.name()), "{place}");
        // RTREE is reported without.
        assert_eq!(told["unique"].as_bool().unwrap_or(false), index.unique, "{place}");
        assert_eq!(list(&told["parts"]).len(), index.parts.len(), "{place}");
        for (told, part) in list(&told["parts"]).iter().zip(&index.parts) {
            let is = |key: &str| told[key].as_bool().unwrap_or(false);
            assert_eq!(told["fieldno"], json!(part.field + 1), "{place}");
            assert_eq!(told["type"], json!(part.field_type.name()), "{place}");
            assert_eq!(is("is_nullable"), part.is_nullable, "{place}");
            assert_eq!(is("exclude_null"), part.exclude_null, "{place}");
            assert_eq!(told["sort_order"] == "desc", part.descending, "{place}");
            assert_eq!(told["path"].as_str(), part.path.as_ref().map(|path| path.text()), "{place}");
            let collation = part.collation.map(|id| schema.collation_name(id).unwrap());
            assert_eq!(told["collation"].as_str(), collation, "{place}");
            assert_eq!(told["scale"].as_i64(), part.scale.map(i64::from), "{place}");
        }
    }
}

/// The rows of system spaces that a case has beyond those of every fresh instance.
pub fn assert_system_rows(case: &str, store: &Store, expected: &Path) {
    let view = store.read_view();
    let file = expected.join("system.jsonl");
    let Ok(text) = std::fs::read_to_string(&file) else { return };
    for told in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let id = told["id"].as_u64().unwrap() as u32;
        // The counters of sequences are written from the running instance, not from the rows it shows.
        const SEQUENCE_DATA: u32 = 285;
        let Ok(space) = view.space(id) else { continue };
        if id == SEQUENCE_DATA {
            continue;
        }
        assert_eq!(Some(space.len()), told["count"].as_u64(), "{case}: rows of {}", space.def().name);
        let ours = lines(&space.primary().unwrap());
        for row in list(&told["tuples"]) {
            let row = row.as_str().unwrap();
            assert!(ours.iter().any(|ours| ours == row), "{case}: no row {row} in {}", space.def().name);
        }
    }
}

/// Holds a store against the slow order: every index has the entries that its tuples ask for, in their order, and every
/// look-up and iterator finds what a search from end to end finds.
pub fn assert_order(case: &str, store: &Store, keys_per_index: usize) {
    for space in store.read_view().spaces() {
        let def = space.def();
        let Some(whole) = order::whole(def) else { continue };
        let tuples: Vec<&[u8]> =
            space.index_by_id(whole.id).unwrap().iter().map(|tuple| tuple.bytes()).collect();
        assert_eq!(tuples.len() as u64, space.len(), "{case}: tuples of {}", def.name);
        let bytes: usize = tuples.iter().map(|tuple| tuple.len()).sum();
        assert_eq!(bytes as u64, space.bytes(), "{case}: bytes of {}", def.name);
        for index in def.indexes.iter().filter(|index| index.absent.is_none()) {
            let place = format!("{case}: {}.{}", def.name, index.name);
            let entries = order::entries(def, index, &tuples);
            if let Some((one, other)) = order::duplicates(index, &entries) {
                panic!("{place}: {} and {} have the same key", hex(one.tuple), hex(other.tuple));
            }
            let built = space.index_by_id(index.id).unwrap();
            assert_eq!(built.len(), entries.len() as u64, "{place}: entries");
            let found: Vec<String> = built.iter().map(|tuple| hex(tuple.bytes())).collect();
            let expected: Vec<String> = entries.iter().map(|entry| hex(entry.tuple)).collect();
            if index.kind == IndexKind::Tree {
                assert_lines(&place, &expected, &found);
            } else {
                assert_lines(&place, &sorted(expected), &sorted(found));
            }
            let step = entries.len() / keys_per_index.max(1) + 1;
            for entry in entries.iter().step_by(step) {
                assert_searches(&place, &built, &entries, entry);
            }
        }
    }
}

fn assert_searches(place: &str, index: &Index<'_>, entries: &[order::Entry<'_>], at: &order::Entry<'_>) {
    let parts = &index.def().parts;
    if index.def().unique && !at.key.has_nil() {
        let key = at.key.encode(parts.len());
        let found = index.get_raw(&key).unwrap_or_else(|error| panic!("{place}: {error}"));
        let found = found.unwrap_or_else(|| panic!("{place}: {} is not found", hex(&key)));
        assert_eq!(hex(found.bytes()), hex(at.tuple), "{place}: get {}", hex(&key));
    }
    if index.def().kind != IndexKind::Tree {
        return;
    }
    for count in 1..=parts.len() {
        let key = at.key.encode(count);
        for iterator in [
            IteratorType::Eq,
            IteratorType::Req,
            IteratorType::Ge,
            IteratorType::Gt,
            IteratorType::Le,
            IteratorType::Lt,
        ] {
            let mut expected: Vec<&[u8]> = entries
                .iter()
                .filter(|entry| {
                    let order = order::compare(parts, &entry.key, &at.key, count);
                    match iterator {
                        IteratorType::Eq | IteratorType::Req => order.is_eq(),
                        IteratorType::Ge => order.is_ge(),
                        IteratorType::Gt => order.is_gt(),
                        IteratorType::Le => order.is_le(),
                        _ => order.is_lt(),
                    }
                })
                .map(|entry| entry.tuple)
                .collect();
            if matches!(iterator, IteratorType::Req | IteratorType::Le | IteratorType::Lt) {
                expected.reverse();
            }
            let found = index
                .select_raw(iterator, &key)
                .unwrap_or_else(|error| panic!("{place}: {iterator} {}: {error}", hex(&key)));
            let found: Vec<&[u8]> = found.map(|tuple| tuple.bytes()).collect();
            assert_eq!(found.len(), expected.len(), "{place}: {iterator} {}", hex(&key));
            assert!(found == expected, "{place}: {iterator} {}: another order", hex(&key));
        }
    }
}
