//! Order and hints against their slow twin, on random spaces and tuples.
//!
//! The values, the spaces and the slow order are those of `tests/twins`, which know nothing of this crate. Each round
//! has a seed of its own; a failure names it, and `LYCOSA_SEED=… LYCOSA_ROUNDS=1` repeats it.

#[path = "../../tests/twins/model.rs"]
mod model;
#[path = "../../tests/twins/order.rs"]
mod order;
#[path = "../../tests/twins/rounds.rs"]
mod rounds;
#[path = "../../tests/twins/values.rs"]
mod values;

use std::cmp::Ordering;
use std::sync::Arc;

use fastrand::Rng;

use self::model::{Index, Space, key_array};
use self::rounds::for_each_round;
use self::values::pick;
use super::hint::Hints;
use super::key::Key;
use super::key_def::{Entry, Fields, KeyDef, Walked};
use super::multikey;
use crate::tuple::arena::{Arena, ArenaWriter};
use crate::tuple::field_map::{FieldMapBuf, StoredTuple};
use crate::tuple::field_type::FieldType;
use crate::tuple::format::Format;
use crate::tuple::part::{FieldDef, PartDef};
use crate::tuple::path::Path;
use crate::tuple::slab::{Budget, Handle};

fn part_defs(space: &Space, index: &Index) -> Vec<PartDef> {
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
            .map(|number| KeyDef::new(&format, keys[number], space.indexes[number].unique, primary(number)))
            .collect();
        let arena = Arc::new(Arena::new(Arc::new(Budget::new(None))));
        let writer = ArenaWriter::new(arena.clone());
        Self { space, format, key_defs, arena, writer }
    }

    fn store(&mut self, tuple: &[u8]) -> (Handle, FieldMapBuf) {
        let mut map = FieldMapBuf::new();
        match self.format.walk(tuple, 0, &mut map) {
            Ok(end) => assert_eq!(end, tuple.len()),
            Err(fault) => panic!("{}: {tuple:x?}", fault.into_error()),
        }
        (self.writer.push(tuple, &map).unwrap(), map)
    }

    /// The tuples stored, and what walking over them gave.
    fn store_all(&mut self, tuples: &[Vec<u8>]) -> Vec<(Handle, FieldMapBuf)> {
        tuples.iter().map(|tuple| self.store(tuple)).collect()
    }
}

/// A sample to learn hints from: empty, tiny or larger, and of the usual values only.
fn sample(random: &mut Rng, compiled: &mut Compiled) -> Vec<Handle> {
    let count = pick(random, &[0, 1, 2, 3, 10, 60]);
    (0..count)
        .map(|_| {
            let tuple = compiled.space.tuple(random, false);
            compiled.store(&tuple).0
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
    stored: &[(Handle, FieldMapBuf)],
) {
    let Compiled { space, arena, .. } = compiled;
    let slow = space.entries(index, tuples);
    let primary = &space.indexes[0];
    let entries: Vec<Entry<'_>> = slow
        .iter()
        .map(|entry| Entry { tuple: arena.get(stored[entry.tuple].0), element: entry.element as u32 })
        .collect();

    // The entries of a tuple are the slow twin's, whether the tuple is stored or just walked over.
    for (number, (handle, map)) in stored.iter().enumerate() {
        let mut expected: Vec<u32> =
            slow.iter().filter(|entry| entry.tuple == number).map(|entry| entry.element as u32).collect();
        expected.sort_unstable();
        let walked = Walked { data: &tuples[number], map };
        assert_eq!(elements(key_def, &arena.get(*handle)), expected, "{index:?} {:x?}", tuples[number]);
        assert_eq!(elements(key_def, &walked), expected);
    }

    let hint_of = |entry: &Entry<'_>| hints.of(key_def, &entry.tuple, entry.element);
    let all_hints: Vec<u64> = entries.iter().map(hint_of).collect();
    for (number, entry) in slow.iter().enumerate() {
        let walked = Walked { data: &tuples[entry.tuple], map: &stored[entry.tuple].1 };
        assert_eq!(hints.of(key_def, &walked, entry.element as u32), all_hints[number]);
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
        let key = Key::new(key_def, &key_array(&values)).unwrap();
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

fn elements<T: Fields>(key_def: &KeyDef, tuple: &T) -> Vec<u32> {
    let mut elements = Vec::new();
    multikey::for_each_entry(key_def, tuple, |element| elements.push(element));
    elements.sort_unstable();
    elements
}
