//! Vectors observed with Tarantool 2.6.0 and 3.x, and the two ways married.

use super::super::field_type::FieldType;
use super::super::part::PartDef;
use super::*;
use crate::msgpack::{parse, print, unhex, write};

const OLD: [u32; 3] = [2, 6, 0];
const NEW: [u32; 3] = [3, 7, 0];

fn json(bytes: &[u8]) -> String {
    let mut text = String::new();
    print::json(&mut text, bytes, 0).unwrap();
    text
}

fn fields() -> Vec<FieldDef> {
    [("id", FieldType::Unsigned), ("a", FieldType::Any), ("d", FieldType::Double), ("b", FieldType::Any)]
        .map(|(name, field_type)| FieldDef::new(name, field_type))
        .to_vec()
}

/// What an UPDATE by a version with base 1 makes of a tuple, as MsgPack; or the number of the error.
fn updated(tuple: &[u8], ops: &str, version: [u32; 3]) -> Result<Vec<u8>, String> {
    let (defs, mut target) = (fields(), Vec::new());
    let format = Format::new(&defs, 0, &[], false).unwrap();
    let ops = parse::from_json(ops).unwrap();
    let known = (&Fields::new(&defs), &format);
    update(&mut target, tuple, &ops, 1, known, &Rules::of_version(version))
        .map(|()| target)
        .map_err(|error| error.what().rsplit(' ').next().unwrap().trim_end_matches(')').to_owned())
}

fn of_json(tuple: &str, ops: &str, version: [u32; 3]) -> String {
    match updated(&parse::from_json(tuple).unwrap(), ops, version) {
        Ok(bytes) => json(&bytes),
        Err(code) => code,
    }
}

#[test]
fn fields_are_set_inserted_and_deleted() {
    for (ops, old, new) in [
        (r#"[["=", 2, 7]]"#, "[1,7,3]", "[1,7,3]"),
        (r#"[["=", -1, 7]]"#, "[1,2,7]", "[1,2,7]"),
        (r#"[["=", 4, 7]]"#, "[1,2,3,7]", "[1,2,3,7]"),
        (r#"[["=", 5, 7]]"#, "37", "[1,2,3,null,7]"),
        (r#"[["!", 4, 7]]"#, "[1,2,3,7]", "[1,2,3,7]"),
        (r#"[["!", 6, 7]]"#, "37", "[1,2,3,null,null,7]"),
        (r#"[["!", -1, 7]]"#, "[1,2,3,7]", "[1,2,3,7]"),
        (r#"[["!", -2, 7]]"#, "[1,2,7,3]", "[1,2,7,3]"),
        (r##"[["#", 5, 1]]"##, "37", "[1,2,3]"),
        (r##"[["#", 2, 9]]"##, "[1]", "[1]"),
        (r##"[["#", -1, 1]]"##, "[1,2]", "[1,2]"),
        (r##"[["#", 2, 0]]"##, "29", "29"),
        (r##"[["#", -4, 1]]"##, "37", "37"),
        (r#"[["=", 0, 7]]"#, "37", "37"),
        (r#"[["=", "nobody", 7]]"#, "201", "201"),
        (r#"[["=", "a", 7]]"#, "[1,7,3]", "[1,7,3]"),
        (r#"[["!", 2, 9], ["=", 3, 7]]"#, "[1,9,7,3]", "[1,9,7,3]"),
        (r#"[["+", 2, 1], ["+", 2, 1]]"#, "29", "[1,4,3]"),
        (r#"[["=", 2, 10], ["!", 1, 0], ["+", 3, 1]]"#, "29", "[0,1,11,3]"),
        (r##"[["=", 2, 10], ["#", 2, 1]]"##, "[1,3]", "[1,3]"),
        (r#"[["=", 2]]"#, "28", "28"),
        (r#"[["?", 2, 1]]"#, "28", "28"),
        (r#"[["=", true, 1]]"#, "26", "26"),
        ("[]", "[1,2,3]", "[1,2,3]"),
    ] {
        assert_eq!(of_json("[1, 2, 3]", ops, OLD), old, "{ops}");
        assert_eq!(of_json("[1, 2, 3]", ops, NEW), new, "{ops}");
    }
}

#[test]
fn sums_and_bits_are_stored_as_tarantool_stores_them() {
    for (value, op, expected) in [
        ("05", r#"["+", 2, 3]"#, "08"),
        ("cf0000000000000005", r#"["+", 2, 0]"#, "05"),
        ("05", r#"["-", 2, 6]"#, "ff"),
        ("cfffffffffffffffff", r#"["+", 2, 1]"#, "95"),
        ("d38000000000000000", r#"["-", 2, 1]"#, "95"),
        ("cb3ff8000000000000", r#"["+", 2, 0.5]"#, "ca40000000"),
        ("05", r#"["+", 2, 0.1]"#, "cb4014666666666666"),
        ("cf0020000000000001", r#"["+", 2, 0.5]"#, "ca5a000000"),
        ("c0", r#"["+", 2, 1]"#, "26"),
        ("cb7ff8000000000000", r#"["+", 2, 0.5]"#, "cb7ff8000000000000"),
        ("01", r#"["-", 2, {"$double": "NaN"}]"#, "cb7ff8000000000000"),
        ("cb7ff0000000000000", r#"["-", 2, {"$double": "Infinity"}]"#, "cbfff8000000000000"),
        ("0c", r#"["&", 2, 10]"#, "08"),
        ("0c", r#"["|", 2, 3]"#, "0f"),
        ("0c", r#"["^", 2, 10]"#, "06"),
        ("ff", r#"["|", 2, 3]"#, "26"),
        ("0c", r#"["|", 2, -3]"#, "26"),
    ] {
        let tuple = unhex(&format!("9201{value}"));
        let found = match updated(&tuple, &format!("[{op}]"), OLD) {
            Ok(bytes) => bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect(),
            Err(code) => code,
        };
        assert_eq!(found, expected, "{value} {op}");
    }
    // A field of type double keeps doubles, also where a float would do.
    let tuple = unhex("930102cb3ff8000000000000");
    let in_index = [PartDef::new(2, FieldType::Number)];
    let format = Format::new(&fields(), 0, &[&in_index], false).unwrap();
    for (version, expected) in [(OLD, "cb4000000000000000"), (NEW, "ca40000000")] {
        let (ops, mut target) = (parse::from_json(r#"[["+", 3, 0.5]]"#).unwrap(), Vec::new());
        let known = (&Fields::new(&fields()), &format);
        update(&mut target, &tuple, &ops, 1, known, &Rules::of_version(version)).unwrap();
        assert_eq!(target, unhex(&format!("930102{expected}")), "{version:?}");
    }
    assert_eq!(updated(&tuple, r#"[["+", 3, 0.5]]"#, OLD).unwrap(), unhex("930102cb4000000000000000"));
}

#[test]
fn strings_are_spliced() {
    for (offset, cut, paste, expected) in [
        (2, 3, "XY", "aXYef"),
        (-2, 1, "XY", "abcdeXY"),
        (-1, 0, "XY", "abcdefXY"),
        (100, 1, "XY", "abcdefXY"),
        (-7, 1, "XY", "XYbcdef"),
        (2, -2, "XY", "aXYef"),
        (2, -9, "XY", "aXYbcdef"),
    ] {
        let ops = format!(r#"[[":", 2, {offset}, {cut}, "{paste}"]]"#);
        assert_eq!(of_json(r#"[1, "abcdef"]"#, &ops, OLD), format!("[1,\"{expected}\"]"), "{ops}");
    }
    assert_eq!(of_json(r#"[1, "abc"]"#, r#"[[":", 2, 0, 1, "x"]]"#, OLD), "25");
    assert_eq!(of_json(r#"[1, "abc"]"#, r#"[[":", 2, -5, 1, "x"]]"#, OLD), "25");
    assert_eq!(of_json("[1, 2]", r#"[[":", 2, 1, 1, "x"]]"#, OLD), "26");
}

#[test]
fn paths_lead_into_maps_and_arrays() {
    for (tuple, ops, expected) in [
        (r#"[1, {"a": 1}]"#, r#"[["=", "[2].z", 5]]"#, r#"[1,{"z":5,"a":1}]"#),
        (r#"[1, {"a": 1}]"#, r#"[["=", "[2].z", 5], ["=", "[2].y", 6]]"#, r#"[1,{"y":6,"z":5,"a":1}]"#),
        (r#"[1, {"a": 1}]"#, r#"[["!", "[2].a", 5]]"#, "29"),
        (r#"[1, {"a": 1}]"#, r##"[["#", "[2].a", 1]]"##, "[1,{}]"),
        (r#"[1, {"a": 1}]"#, r##"[["#", "a.a", 2]]"##, "29"),
        (r#"[1, {"a": 1}]"#, r##"[["#", "a.b", 1]]"##, "37"),
        (r#"[1, {"a": 1}]"#, r#"[["+", "a.a", 4]]"#, r#"[1,{"a":5}]"#),
        (r#"[1, {"a": 1}]"#, r#"[["=", "a.q.z", 4]]"#, "37"),
        (r#"[1, {"a": 1}]"#, r#"[["=", "a.a.z", 4]]"#, "29"),
        (r#"[1, [5, 6]]"#, r#"[["=", "[2][1]", 4]]"#, "[1,[4,6]]"),
        (r#"[1, [5, 6]]"#, r#"[["=", "[2][3]", 4]]"#, "[1,[5,6,4]]"),
        (r#"[1, [5, 6]]"#, r#"[["=", "[2][4]", 4]]"#, "37"),
        (r#"[1, [5, 6]]"#, r#"[["!", "[2][1]", 4]]"#, "[1,[4,5,6]]"),
        (r#"[1, [5, 6]]"#, r##"[["#", "[2][1]", 9]]"##, "[1,[]]"),
        (r#"[1, [5, 6]]"#, r#"[["=", "[2].a", 4]]"#, "29"),
        (r#"[1, [5, 6]]"#, r#"[["=", "[2][*]", 4]]"#, "29"),
        (r#"[1, [5, 6]]"#, r#"[["=", "[2][", 4]]"#, "29"),
    ] {
        assert_eq!(of_json(tuple, ops, OLD), expected, "{tuple} {ops}");
    }
    // Number tokens find integer keys of maps.
    assert_eq!(updated(&unhex("9201810101"), r#"[["=", "[2][1]", 9]]"#, OLD).unwrap(), unhex("9201810109"));
}

#[test]
fn heads_are_kept_where_an_element_is_replaced_and_shortest_where_elements_come_or_ways_part() {
    let tuple = unhex("dc0002 01 dd00000002 05 06");
    for (ops, expected) in [
        (r#"[["=", "[2][1]", 9]]"#, "92 01 dd00000002 09 06"),
        (r#"[["=", "[2][3]", 9]]"#, "92 01 93 05 06 09"),
        (r#"[["=", "[2][1]", 9], ["=", "[2][2]", 8]]"#, "92 01 92 09 08"),
        (r#"[["=", 1, 2]]"#, "92 02 dd00000002 05 06"),
    ] {
        assert_eq!(updated(&tuple, ops, OLD).unwrap(), unhex(expected), "{ops}");
    }
}

/// Two or three operations on a map a..e, and the order of its keys afterwards, as Tarantool 2.6.0 writes it.
#[test]
fn maps_in_which_ways_part_are_written_in_tarantool_s_order() {
    for (ops, expected) in [
        ("=b =d", "d b e c a"),
        ("=d =b", "b d c e a"),
        ("=b #d", "b e c a"),
        ("#b #d", "e c a"),
        ("#d #b", "c e a"),
        ("#b =d", "d e c a"),
        ("!z #c", "z d e a b"),
        ("!z =c", "c z d e a b"),
        ("!z =a", "z a b c d e"),
        ("=c !z", "z c d e a b"),
        ("=a =c =e", "e c a d b"),
        ("=c =e =d", "d e c a b"),
        ("=c #e =d", "d c a b"),
        ("=c #d =e", "e c a b"),
        ("=c #a =b", "c b d e"),
        ("#a #b #c", "d e"),
        ("#a =c", "c d e b"),
        ("#e =c", "c d a b"),
        ("=b #c", "b d e a"),
        ("=b #a", "b c d e"),
        ("=b =z #z", "b c d e a"),
    ] {
        let list: Vec<String> = ops
            .split(' ')
            .map(|op| {
                format!(
                    r#"["{}", "[2].{}", {}]"#,
                    &op[..1],
                    &op[1..],
                    if op.starts_with('#') { 1 } else { 9 }
                )
            })
            .collect();
        let tuple = parse::from_json(r#"[1, {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}]"#).unwrap();
        let updated = updated(&tuple, &format!("[{}]", list.join(", ")), OLD)
            .unwrap_or_else(|code| panic!("{ops}: {code}"));
        let (pairs, mut at) = read::map(&updated, 2).unwrap();
        let mut keys = Vec::new();
        for _ in 0..pairs {
            let (key, value_at) = read::str(&updated, at).unwrap();
            keys.push(str::from_utf8(key).unwrap().to_owned());
            at = skip::skip(&updated, value_at).unwrap();
        }
        assert_eq!(keys.join(" "), expected, "{ops}");
    }
}

#[test]
fn an_upsert_leaves_out_what_fails() {
    let (defs, mut target) = (fields(), Vec::new());
    let format = Format::new(&defs, 0, &[], false).unwrap();
    let known = (&Fields::new(&defs), &format);
    let tuple = parse::from_json(r#"[1, "x", 2]"#).unwrap();
    let mut run = |ops: &str| {
        let ops = parse::from_json(ops).unwrap();
        upsert(&mut target, &tuple, &ops, 1, known, &Rules::of_version(OLD))
            .map(|failed| (failed, json(&target)))
            .map_err(|error| error.to_string())
    };
    assert_eq!(run(r#"[["+", 2, 1], ["=", 3, 9]]"#), Ok((1, r#"[1,"x",9]"#.into())));
    assert_eq!(run(r#"[["!", "a[-1]", 5], ["+", 3, 1]]"#), Ok((1, r#"[1,"x",3]"#.into())));
    assert_eq!(run(r#"[["+", 3, 1]]"#), Ok((0, r#"[1,"x",3]"#.into())));
    assert!(run(r#"[["?", 3, 1]]"#).is_err());
}

#[test]
fn the_two_ways_agree() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let format = Format::new(&[], 0, &[], false).unwrap();
    let (fields, rules) = (Fields::default(), Rules::of_version(OLD));
    let value = |random: &mut fastrand::Rng, out: &mut Vec<u8>| match random.u8(..6) {
        0 => write::int(out, i128::from(random.i64(..))),
        1 => write::uint(out, random.u64(..300)),
        2 => write::str(out, &vec![b'x'; random.usize(..40)]),
        3 => out.extend([0xdc, 0, 2, 1, 0xc0]),
        4 => out.extend([0xcf, 0, 0, 0, 0, 0, 0, 0, 5]),
        _ => write::double(out, 1.5),
    };
    let mut plain_ones = 0;
    for _ in 0..20_000 {
        let count = random.u32(1..6);
        let mut tuple = Vec::new();
        if random.bool() {
            write::array(&mut tuple, count)
        } else {
            tuple.extend([0xdc, 0, count as u8])
        }
        (0..count).for_each(|_| value(&mut random, &mut tuple));
        let operations = random.u32(..4);
        let base = random.u32(..2);
        let mut ops = Vec::new();
        write::array(&mut ops, operations);
        for _ in 0..operations {
            write::array(&mut ops, 3);
            write::str(&mut ops, &[b"=+-"[random.usize(..3)]]);
            write::uint(&mut ops, random.u64(..7));
            value(&mut random, &mut ops);
        }
        let mut fast = Vec::new();
        if plain::update(&mut fast, &tuple, &ops, base).is_none() {
            continue;
        }
        plain_ones += 1;
        let mut slow = Vec::new();
        let read = read_all(&ops, base, &fields, &rules).unwrap();
        let mut updated = Updated::new(&tuple, &rules);
        updated.all(&read).unwrap();
        updated.write(&mut slow, &format);
        assert_eq!(fast, slow, "{tuple:x?} {ops:x?} {base}");
    }
    assert!(plain_ones > 2000, "{plain_ones}");
}

#[test]
fn hostile_operations_cost_neither_the_stack_nor_memory() {
    // Each operation parts from the one before a level deeper.
    let deep = |levels: usize| {
        let tuple = [&[0x92, 0x01][..], &[0x92, 0x07].repeat(levels), &[0xc0]].concat();
        let operations: Vec<String> =
            (0..levels).rev().map(|level| format!(r#"["=", "[2]{}[1]", 9]"#, "[2]".repeat(level))).collect();
        updated(&tuple, &format!("[{}]", operations.join(", ")), NEW)
    };
    let expected = [&[0x92, 0x01][..], &[0x92, 0x09].repeat(100), &[0xc0]].concat();
    assert_eq!(deep(100), Ok(expected));
    assert!(deep(3900).is_ok());
    for (ops, expected) in [
        (r#"[["=", 4294967295, 7]]"#, "37"),
        (r#"[["!", 18446744073709551615, 7]]"#, "37"),
        (r#"[["=", -9223372036854775808, 7]]"#, "37"),
        (r##"[["#", 2, 18446744073709551615]]"##, "[1]"),
        (r#"[["=", "[2][4294967295]", 7]]"#, "29"),
        (r#"[[":", 2, -9223372036854775808, 9223372036854775807, ""]]"#, "26"),
    ] {
        assert_eq!(of_json("[1, 2, 3]", ops, NEW), expected, "{ops}");
    }
}
