//! Order and hints against their slow twin, on random spaces and tuples.
//!
//! The values, the spaces and the slow order are those of `tests/twins`, which know nothing of this crate. Each round
//! has a seed of its own; a failure names it, and `LYCOSA_SEED=… LYCOSA_ROUNDS=1` repeats it.

#[path = "../../tests/twins/model.rs"]
pub(crate) mod model;
#[path = "../../tests/twins/order.rs"]
pub(crate) mod order;
#[path = "../../tests/twins/rounds.rs"]
pub(crate) mod rounds;
#[path = "../../tests/twins/values.rs"]
pub(crate) mod values;

use std::cmp::Ordering;
use std::sync::Arc;

use fastrand::Rng;

use self::model::{Index, Space, key_array};
use self::rounds::for_each_round;
use self::values::{Value, pick};
use super::hint::Hints;
use super::key::Key;
use super::key_def::{Entry, KeyDef};
use super::multikey;
use crate::tuple::arena::{Arena, ArenaWriter};
use crate::tuple::field_map::{FieldMapBuf, StoredTuple};
use crate::tuple::field_type::FieldType;
use crate::tuple::format::Format;
use crate::tuple::part::{FieldDef, PartDef};
use crate::tuple::path::Path;
use crate::tuple::slab::{Budget, Handle};

pub(crate) fn part_defs(space: &Space, index: &Index) -> Vec<PartDef> {
    let part = |part: &model::Part| {
        let mut def = PartDef::new(part.field as u32, FieldType::parse(part.part_type.name()).unwrap());
        if part.is_nullable {
            def = def.nullable();
        }
        if let Some(path) = space.fields[part.field].shape.path() {
            def = def.at(Path::parse(path.as_bytes()).unwrap().unwrap());
        }
        def.exclude_null = part.exclude_null;
        def.descending = part.descending;
        def
    };
    index.parts.iter().map(part).collect()
}

/// A space of the model, compiled, with some tuples in an arena.
struct Compiled {
    space: Space,
    format: Format,
    key_defs: Vec<KeyDef>,
    arena: Arc<Arena>,
    writer: ArenaWriter,
}

impl Compiled {
    fn new(random: &mut Rng) -> Self {
        let space = Space::random(random, 512);
        Self::of(random, space)
    }

    fn of(random: &mut Rng, space: Space) -> Self {
        let mut fields = Vec::new();
        for (number, field) in space.fields.iter().enumerate() {
            let field_type = FieldType::parse(field.format_type(random)).unwrap();
            let def = FieldDef::new(&format!("f{number}"), field_type);
            fields.push(if field.is_nullable { def.nullable() } else { def });
        }
        let parts: Vec<Vec<PartDef>> = space.indexes.iter().map(|index| part_defs(&space, index)).collect();
        let keys: Vec<&[PartDef]> = parts.iter().map(|parts| &parts[..]).collect();
        let format = Format::new(&fields, 0, &keys, random.bool()).unwrap();
        let primary = |number| if number == 0 { &[][..] } else { keys[0] };
        let key_defs = (0..keys.len())
            .map(|number| {
                let unique = space.indexes[number].unique;
                KeyDef::new(&format, keys[number], unique, primary(number), space.indexes[0].is_hash)
            })
            .collect();
        let arena = Arc::new(Arena::new(Arc::new(Budget::new(None))));
        let writer = ArenaWriter::new(arena.clone());
        Self { space, format, key_defs, arena, writer }
    }

    fn store(&mut self, tuple: &[u8]) -> Handle {
        let mut map = FieldMapBuf::new();
        match self.format.walk(tuple, 0, &mut map) {
            Ok(end) => assert_eq!(end, tuple.len()),
            Err(fault) => panic!("{}: {tuple:x?}", fault.into_error()),
        }
        self.writer.push(tuple, &map).unwrap()
    }

    /// The tuples stored.
    fn store_all(&mut self, tuples: &[Vec<u8>]) -> Vec<Handle> {
        tuples.iter().map(|tuple| self.store(tuple)).collect()
    }
}

/// A sample to learn hints from: empty, tiny or larger, and of the usual values only.
fn sample(random: &mut Rng, compiled: &mut Compiled) -> Vec<Handle> {
    let count = pick(random, &[0, 1, 2, 3, 10, 60]);
    (0..count)
        .map(|_| {
            let tuple = compiled.space.tuple(random, false);
            compiled.store(&tuple)
        })
        .collect()
}

#[test]
fn orders_and_hints_never_contradict_the_slow_twin() {
    for_each_round(400, |random| {
        let mut compiled = Compiled::new(random);
        let sample = sample(random, &mut compiled);
        let tuples: Vec<Vec<u8>> = (0..30)
            .map(|_| {
                let far = random.bool();
                compiled.space.tuple(random, far)
            })
            .collect();
        let stored = compiled.store_all(&tuples);
        let sample: Vec<StoredTuple<'_>> = sample.iter().map(|&handle| compiled.arena.get(handle)).collect();
        let indexes = compiled.space.indexes.iter().zip(&compiled.key_defs);
        for (index, key_def) in indexes {
            let hints = Hints::sample(key_def, &sample);
            check_index(random, &compiled, index, key_def, &hints, &tuples, &stored);
            check_index(random, &compiled, index, key_def, &Hints::none(), &tuples, &stored);
        }
    });
}

fn check_index(
    random: &mut Rng,
    compiled: &Compiled,
    index: &Index,
    key_def: &KeyDef,
    hints: &Hints,
    tuples: &[Vec<u8>],
    stored: &[Handle],
) {
    let Compiled { space, arena, .. } = compiled;
    let slow = space.entries(index, tuples);
    let primary = &space.indexes[0];
    let entries: Vec<Entry<'_>> = slow
        .iter()
        .map(|entry| Entry { tuple: arena.get(stored[entry.tuple]), element: entry.element as u32 })
        .collect();

    // The entries of a tuple are the slow twin's.
    for (number, handle) in stored.iter().enumerate() {
        let mut expected: Vec<u32> =
            slow.iter().filter(|entry| entry.tuple == number).map(|entry| entry.element as u32).collect();
        expected.sort_unstable();
        assert_eq!(elements(key_def, &arena.get(*handle)), expected, "{index:?} {:x?}", tuples[number]);
    }

    let hint_of = |entry: &Entry<'_>| hints.of(key_def, &entry.tuple, entry.element);
    let all_hints: Vec<u64> = entries.iter().map(hint_of).collect();
    for (entry, hint) in entries.iter().zip(&all_hints) {
        assert_eq!(*hint, hints.of_any(key_def, &entry.tuple, entry.element));
    }

    for (i, one) in entries.iter().enumerate() {
        for (j, other) in entries.iter().enumerate() {
            let told = || {
                let (one, other) = (&slow[i], &slow[j]);
                let keys = (&one.key.raw, &one.tail.raw, &other.key.raw, &other.tail.raw);
                format!("{index:?}\n{hints:x?}\n{:#x} {:#x} {keys:x?}", all_hints[i], all_hints[j])
            };
            let order = index.order(primary, &slow[i], &slow[j]);
            assert_eq!(key_def.compare(*one, *other), order, "{}", told());
            let conflict = index.conflict(&slow[i], &slow[j]);
            assert_eq!(key_def.conflict(*one, *other), conflict, "{}", told());
            match all_hints[i].cmp(&all_hints[j]) {
                Ordering::Equal => {}
                by_hint => assert_eq!(by_hint, order, "a hint lies: {}", told()),
            }
        }
    }

    for _ in 0..20 {
        let values = space.search_key(random, index, &slow);
        let Ok(key) = Key::new(key_def, &key_array(&values)) else {
            // A decimal may be in a field that a part of type double reads, but not in a key for it.
            let is_odd = |(part, value): (&model::Part, &Vec<u8>)| {
                part.part_type == values::Type::Double && matches!(value[0], 0xc7..=0xc9 | 0xd4..=0xd8)
            };
            assert!(index.parts.iter().zip(&values).any(is_odd), "{index:?} {values:x?}");
            continue;
        };
        let searched = model::Key::new(values);
        let (low, high) = hints.range(key.bytes(), &key.values);
        assert!(low <= high);
        for (number, entry) in entries.iter().enumerate() {
            let order = index.compare_first(&slow[number].key, &searched, searched.raw.len());
            let told = || {
                let key = (&slow[number].key.raw, &searched.raw);
                format!("{index:?}\n{hints:x?}\n{:#x} {low:#x} {high:#x} {key:x?}", all_hints[number])
            };
            assert_eq!(key.compare(key_def, *entry), order, "{}", told());
            let hint = all_hints[number];
            assert!(hint >= low || order.is_lt(), "a range lies: {}", told());
            assert!(hint <= high || order.is_gt(), "a range lies: {}", told());
        }
    }
}

/// Checks an index over field 1 of a type, then field 2, unsigned, in either direction. The sample is all of the
/// tuples, or the first half, or those of the first value. Each value comes with 0 and 9 behind it.
fn check_values(random: &mut Rng, declared: values::Type, part_types: &[values::Type], found: &[Value]) {
    for descending in [false, true] {
        let field =
            |random: &mut Rng, field_type| model::Field::new(random, model::Shape::Plain, field_type, false);
        let mut fields = vec![field(random, values::Type::Unsigned), field(random, part_types[0])];
        fields.push(field(random, values::Type::Unsigned));
        fields[1].declared = declared;
        let part = |field, part_type, descending| model::Part {
            field,
            part_type,
            is_nullable: false,
            exclude_null: false,
            descending,
        };
        let unsigned = values::Type::Unsigned;
        let mut indexes = vec![vec![part(0, unsigned, false)]];
        indexes.extend(
            part_types.iter().map(|&found| vec![part(1, found, descending), part(2, unsigned, false)]),
        );
        let index = |parts| Index { name: "".into(), is_hash: false, unique: true, parts };
        let indexes = indexes.into_iter().map(index).collect();
        let space = Space { id: 512, name: "".into(), fields, indexes };
        let mut compiled = Compiled::of(random, space);
        let tuples: Vec<Vec<u8>> = found
            .iter()
            .enumerate()
            .flat_map(|(number, value)| {
                let mut tuple = |last| {
                    let mut tuple = vec![0x93, 0xcc, 2 * number as u8 + last / 9];
                    values::encode(random, declared, value, &mut tuple);
                    tuple.push(last);
                    tuple
                };
                [tuple(0), tuple(9)]
            })
            .collect();
        let stored = compiled.store_all(&tuples);
        let sample: Vec<StoredTuple<'_>> = stored.iter().map(|&handle| compiled.arena.get(handle)).collect();
        for (index, key_def) in compiled.space.indexes.iter().zip(&compiled.key_defs) {
            for sampled in [sample.len(), sample.len() / 2, 2] {
                let hints = Hints::sample(key_def, &sample[..sampled]);
                check_index(random, &compiled, index, key_def, &hints, &tuples, &stored);
            }
        }
    }
}

#[test]
fn strings_longer_than_any_of_the_sample_stand_in_order() {
    let random = &mut Rng::with_seed(0);
    let short: [&[u8]; 8] = [
        b"aaaaaaa",
        b"",
        b"a",
        b"a\0",
        b"a\0\0\0\0\0\0",
        b"aaaaaa",
        b"aaaaaa\xff",
        b"\xff\xff\xff\xff\xff\xff\xff",
    ];
    let long: [&[u8]; 8] = [
        b"a\0\0\0\0\0\0\0",
        b"a\0\0\0\0\0\0\0\0",
        b"aaaaaaa\0",
        b"aaaaaaaa",
        b"aaaaaaaa\0",
        b"aaaaaaaaa",
        b"aaaaaaab",
        b"\xff\xff\xff\xff\xff\xff\xff\0",
    ];
    // So near to each other that the part after them has a place in the hint.
    let near = [&b"b"[..], b"c", b"ba", b"baaaaaa", b"baaaaaaa", b"baaaaaaa\0", b"baaaaaaaa", b"baaaaaab"];
    // And others that go on in the same way after another beginning.
    let near: Vec<Value> = [&b"/prefix/"[..], b"/prefiy/", b"/pre"]
        .iter()
        .flat_map(|prefix| near.map(|rest| Value::Str([prefix, rest].concat())))
        .collect();
    for found in [&near[..8], &near[..16], &near] {
        check_values(random, values::Type::String, &[values::Type::String], found);
    }
    for prefix in [&b""[..], b"/a/prefix/of/more/than/eight/bytes"] {
        let all = || short.iter().chain(&long).map(|rest| [prefix, rest].concat());
        let strings: Vec<Value> = all().map(Value::Str).collect();
        let binaries: Vec<Value> = all().map(Value::Bin).collect();
        check_values(random, values::Type::String, &[values::Type::String], &strings);
        check_values(random, values::Type::Varbinary, &[values::Type::Varbinary], &binaries);
        check_values(random, values::Type::Scalar, &[values::Type::Scalar], &[strings, binaries].concat());
    }
}

#[test]
fn integers_that_doubles_do_not_tell_apart_stand_in_order() {
    let random = &mut Rng::with_seed(0);
    for edge in [1i128 << 53, -(1 << 53), 1 << 54, 1 << 62, (1 << 63) - 5, -(1 << 63) + 5, (1 << 64) - 6] {
        let near = -5..=5;
        let mut found: Vec<Value> = near.clone().map(|off| Value::Int(edge + off)).collect();
        let integers = found.clone();
        found.extend(near.map(|off| Value::Double(((edge + off) as f64).to_bits())));
        found.push(Value::Double((edge as f64).next_down().to_bits()));
        found.push(Value::Double((edge as f64).next_up().to_bits()));
        found.push(Value::Float((edge as f32).to_bits()));
        for field_type in [values::Type::Double, values::Type::Number, values::Type::Scalar] {
            check_values(random, field_type, &[field_type], &found);
        }
        for field_type in [values::Type::Unsigned, values::Type::Integer] {
            if field_type.takes(&integers[0]) {
                check_values(random, field_type, &[field_type, values::Type::Number], &integers);
            }
        }
    }
}

#[test]
fn a_scalar_is_told_from_what_is_a_little_more() {
    let random = &mut Rng::with_seed(0);
    let moment = |nanoseconds| Value::Datetime { seconds: 1_700_000_000, nanoseconds, offset: 0, zone: 0 };
    let mut found: Vec<Value> = [0, 1, 2, 15, 16, 17, 31, 32, 33].map(moment).to_vec();
    for bits in 0..33 {
        found.push(Value::Double(1f64.to_bits() + bits));
        found.push(Value::Double((-1f64).to_bits() + bits));
    }
    check_values(random, values::Type::Scalar, &[values::Type::Scalar], &found);
}

#[test]
fn the_edges_of_what_a_datetime_hint_tells_stand_in_order() {
    let random = &mut Rng::with_seed(0);
    let moment = |(seconds, nanoseconds)| Value::Datetime { seconds, nanoseconds, offset: 0, zone: 0 };
    let edge = 1 << 33;
    let mut found = Vec::new();
    for seconds in [-edge - 1, -edge, 1 - edge, -1, 0, edge - 1, edge, edge + 1] {
        found.extend([(seconds, 0), (seconds, 1), (seconds, 999_999_999)].map(moment));
    }
    for field_type in [values::Type::Datetime, values::Type::Scalar] {
        check_values(random, field_type, &[field_type], &found);
    }
}

#[test]
fn a_part_of_type_double_orders_the_decimals_that_a_part_of_type_number_let_in() {
    let random = &mut Rng::with_seed(0);
    let decimal = |digits: &[u8], scale| Value::Decimal { negative: false, digits: digits.to_vec(), scale };
    let found = [
        Value::Double(1f64.to_bits()),
        decimal(&[1, 0], 1),
        decimal(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 19),
        Value::Double(1f64.next_up().to_bits()),
        decimal(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3], 16),
        Value::Int(9_007_199_254_740_993),
        decimal(&[9, 0, 0, 7, 1, 9, 9, 2, 5, 4, 7, 4, 0, 9, 9, 2, 5], 1),
        decimal(&[1], -400),
    ];
    // Decimals and doubles that are equal would be one key twice.
    for found in [&found[1..], &found[2..4]] {
        check_values(random, values::Type::Double, &[values::Type::Double, values::Type::Number], found);
    }
}

fn elements(key_def: &KeyDef, tuple: &StoredTuple<'_>) -> Vec<u32> {
    let mut elements = Vec::new();
    multikey::for_each_entry(key_def, tuple, |element| elements.push(element));
    elements.sort_unstable();
    elements
}
