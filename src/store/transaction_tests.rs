//! Transactions, savepoints, definitions and views against maps, at random; and with memory refused at every place.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::super::Store;
use super::super::define::{IndexSpec, SpaceSpec};
use super::super::op::Op;
use super::super::options::{Options, SpaceHandle};
use super::super::view::ReadView;
use crate::error::ErrorKind;
use crate::index::iterator::IteratorType;
use crate::index::twin_tests::rounds::for_each_round;
use crate::tuple::field_type::FieldType;

/// What a space holds: by its primary key the other two fields.
type Rows = BTreeMap<u64, (u64, String)>;

#[derive(Clone)]
struct Space {
    handle: SpaceHandle,
    has_secondary: bool,
    rows: Rows,
}

/// By name.
type Model = BTreeMap<String, Space>;

fn spec(name: &str, is_hash: bool) -> SpaceSpec {
    let pk = if is_hash { IndexSpec::hash("pk") } else { IndexSpec::tree("pk") };
    SpaceSpec::new(name)
        .field("id", FieldType::Unsigned)
        .field("group", FieldType::Unsigned)
        .field("text", FieldType::String)
        .index(pk.part("id"))
}

fn by_group() -> IndexSpec {
    IndexSpec::tree("by_group").part("group").non_unique()
}

fn assert_sees(view: &ReadView, model: &Model) {
    let names: Vec<&str> =
        view.spaces().filter(|space| space.def().id >= 512).map(|space| space.def().name.as_str()).collect();
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, model.keys().collect::<Vec<_>>());
    for (name, expected) in model {
        let space = view.space(expected.handle).unwrap();
        assert_eq!((space.def().name.as_str(), space.len()), (name.as_str(), expected.rows.len() as u64));
        let mut rows = Rows::new();
        for tuple in space.primary().unwrap().iter() {
            let (id, group, text): (u64, u64, String) = tuple.decode().unwrap();
            assert!(rows.insert(id, (group, text)).is_none());
        }
        assert_eq!(rows, expected.rows, "{name}");
        let index = space.index("by_group");
        assert_eq!(index.is_ok(), expected.has_secondary);
        if let Ok(index) = index {
            let found: Vec<(u64, u64)> = index
                .iter()
                .map(|tuple| tuple.decode::<(u64, u64, String)>().unwrap())
                .map(|(id, group, _)| (group, id))
                .collect();
            let mut wanted: Vec<(u64, u64)> = rows.iter().map(|(&id, row)| (row.0, id)).collect();
            wanted.sort_unstable();
            match space.primary().unwrap().def().kind {
                crate::IndexKind::Hash => {
                    let mut sorted = found.clone();
                    sorted.sort_unstable();
                    assert_eq!(sorted, wanted, "{name}");
                    assert!(found.is_sorted_by_key(|pair| pair.0));
                }
                _ => assert_eq!(found, wanted, "{name}"),
            }
        }
    }
}

fn text(random: &mut Rng) -> String {
    let len = random.usize(..40);
    "x".repeat(len)
}

/// One statement or definition, in the store and in the model.
fn step(tx: &mut super::Transaction<'_>, model: &mut Model, random: &mut Rng) {
    let kinds = if model.is_empty() { 1 } else { 100 };
    let kind = random.u64(..kinds);
    if kind < 2 && model.len() < 6 {
        let name = format!("s{}", random.u64(..8));
        let is_hash = random.u64(..3) == 0;
        let has_secondary = random.u64(..2) == 0;
        let mut spec = spec(&name, is_hash);
        if has_secondary {
            spec = spec.index(by_group());
        }
        let made = tx.create_space(spec);
        match model.contains_key(&name) {
            true => assert_eq!(made.unwrap_err().kind(), ErrorKind::DuplicateKey),
            false => {
                let handle = made.unwrap();
                model.insert(name, Space { handle, has_secondary, rows: Rows::new() });
            }
        }
        return;
    }
    let number = random.usize(..model.len());
    let Some((name, space)) = model.iter_mut().nth(number) else { return };
    let handle = space.handle;
    let (id, group, value) = (random.u64(..300), random.u64(..10), text(random));
    match kind {
        0..4 => {
            let name = name.clone();
            tx.drop_space(handle).unwrap();
            assert_eq!(tx.get(handle, (1,)).unwrap_err().kind(), ErrorKind::NoSuchSpace);
            model.remove(&name);
        }
        4..7 => {
            tx.truncate(handle).unwrap();
            space.rows.clear();
        }
        7..11 => {
            match space.has_secondary {
                true => tx.drop_index(handle, "by_group").unwrap(),
                false => tx.create_index(handle, by_group()).unwrap(),
            }
            space.has_secondary = !space.has_secondary;
        }
        11..14 => {
            let other = IndexSpec::tree("other").part("group");
            let is_unique = {
                let mut groups: Vec<u64> = space.rows.values().map(|row| row.0).collect();
                groups.sort_unstable();
                groups.windows(2).all(|pair| pair[0] != pair[1])
            };
            let made = tx.create_index(handle, other);
            assert_eq!(made.is_ok(), is_unique, "{made:?}");
            if made.is_ok() {
                tx.drop_index(handle, "other").unwrap();
            }
        }
        14..40 => {
            let done = tx.insert(handle, (id, group, &value));
            match space.rows.contains_key(&id) {
                true => assert_eq!(done.unwrap_err().kind(), ErrorKind::DuplicateKey),
                false => {
                    done.unwrap();
                    space.rows.insert(id, (group, value));
                }
            }
        }
        40..65 => {
            tx.replace(handle, (id, group, &value)).unwrap();
            space.rows.insert(id, (group, value));
        }
        65..75 => {
            let done = tx.update(handle, (id,), [Op::add("group", group), Op::assign(2, &value)]).unwrap();
            assert_eq!(done, space.rows.contains_key(&id));
            if let Some(row) = space.rows.get_mut(&id) {
                *row = (row.0 + group, value);
            }
        }
        75..80 => {
            tx.upsert(handle, (id, group, &value), [Op::add("group", 1)]).unwrap();
            space.rows.entry(id).and_modify(|row| row.0 += 1).or_insert((group, value));
        }
        80..82 if space.has_secondary => {
            let count = tx.delete_range(handle, "by_group", (group,), (group + 2,)).unwrap();
            let before = space.rows.len();
            space.rows.retain(|_, row| row.0 < group || row.0 >= group + 2);
            assert_eq!(count, (before - space.rows.len()) as u64);
        }
        _ => {
            assert_eq!(tx.delete(handle, (id,)).unwrap(), space.rows.remove(&id).is_some());
        }
    }
}

fn run(random: &mut Rng) {
    let store = Store::in_memory();
    let mut model = Model::new();
    let mut views: Vec<(ReadView, Model)> = Vec::new();
    for _ in 0..120 {
        match random.u64(..6) {
            0 => views.push((store.read_view(), model.clone())),
            1 if !views.is_empty() => {
                let at = random.usize(..views.len());
                views.swap_remove(at);
            }
            2 => {
                if let Some((view, seen)) = views.last() {
                    views.push((view.clone(), seen.clone()));
                }
            }
            _ => {}
        }
        let mut tx = store.begin().unwrap();
        let mut own = model.clone();
        let mut marks = Vec::new();
        for _ in 0..random.u64(..60) {
            match random.u64(..20) {
                0 => marks.push((tx.savepoint(), own.clone())),
                1 if !marks.is_empty() => {
                    let at = random.usize(..marks.len());
                    marks.truncate(at + 1);
                    let (mark, then) = &marks[at];
                    tx.rollback_to(*mark).unwrap();
                    own = then.clone();
                }
                _ => step(&mut tx, &mut own, random),
            }
        }
        match random.u64(..4) {
            0 => drop(tx),
            _ => {
                tx.commit();
                model = own;
            }
        }
        if random.u64(..4) == 0 {
            for (view, seen) in &views {
                assert_sees(view, seen);
            }
        }
        assert_sees(&store.read_view(), &model);
    }
    for (view, seen) in &views {
        assert_sees(view, seen);
    }
    views.clear();
    store.collect_garbage();
    let metrics = store.metrics();
    assert_eq!((metrics.garbage_bytes, metrics.garbage_nodes, metrics.views), (0, 0, 0));
}

#[test]
fn transactions_and_views_are_those_of_maps() {
    for_each_round(40, run);
}

#[test]
fn memory_that_stays_is_that_of_what_is_there() {
    let store = Store::in_memory();
    let space = store.create_space(spec("s", false).index(by_group())).unwrap();
    let mut random = Rng::with_seed(7);
    let mut used = Vec::new();
    for round in 0..40 {
        let view = (round % 3 == 0).then(|| store.read_view());
        for _ in 0..20 {
            store
                .write(|tx| {
                    for _ in 0..100 {
                        tx.replace(space, (random.u64(..5000), random.u64(..100), text(&mut random)))?;
                    }
                    Ok(())
                })
                .unwrap();
        }
        drop(view);
        used.push(store.metrics().memory_bytes);
    }
    assert_eq!(used[39], used[20], "{used:?}");
}

#[test]
fn what_follows_a_transaction_that_changed_nothing_is_seen() {
    let store = Store::in_memory();
    let space = store.create_space(spec("s", false)).unwrap();
    assert!(!store.write(|tx| tx.delete(space, (1,))).unwrap());
    store.write(|tx| tx.insert(space, (1, 1, "a"))).unwrap();
    assert_eq!(store.read_view().space(space).unwrap().len(), 1);
}

#[test]
fn a_panic_rolls_back_and_the_store_goes_on() {
    let store = Store::in_memory();
    let space = store.create_space(spec("s", false)).unwrap();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.write(|tx| {
            tx.insert(space, (1, 1, "a"))?;
            assert_eq!(store.begin().unwrap_err().kind(), ErrorKind::Usage);
            if tx.get(space, (1,))?.is_some() {
                panic!("on purpose");
            }
            Ok(())
        })
    }));
    assert!(outcome.is_err());
    assert!(store.read_view().space(space).unwrap().is_empty());
    store.write(|tx| tx.insert(space, (1, 2, "b"))).unwrap();
    assert_eq!(store.read_view().space(space).unwrap().len(), 1);
}

#[test]
fn memory_refused_anywhere_leaves_the_store_whole() {
    let mut failures = 0;
    for refused in 0.. {
        let store = Store::in_memory_with(&Options::new().threads(1)).unwrap();
        let space = store.create_space(spec("s", false).index(by_group())).unwrap();
        let long = "abcdefghij".repeat(40);
        let fill = |from: u64| {
            store.write(|tx| (from..from + 500).try_for_each(|id| tx.insert(space, (id, id % 7, &long))))
        };
        fill(0).unwrap();
        let view = store.read_view();
        store.settings.budget.refuse_after(refused);
        let outcomes = [
            fill(500),
            store.create_index(space, IndexSpec::tree("third").part("text").part("id")),
            store.write(|tx| tx.delete_range(space, "by_group", (2,), (4,)).map(drop)),
            store.create_space(spec("t", true)).map(drop),
            store.truncate(space),
        ];
        let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
        failed.iter().for_each(|error| assert_eq!(error.kind(), ErrorKind::Memory, "{error}"));
        assert_eq!(view.space(space).unwrap().len(), 500);
        let select = view.select(space, "by_group", IteratorType::Eq, (3,)).unwrap();
        assert_eq!(select.count(), 71);
        let now = store.read_view();
        let tuples = now.space(space).unwrap().len();
        assert!([0, 357, 500, 714, 715, 1000].contains(&tuples), "{tuples}");
        for index in ["pk", "by_group"] {
            assert_eq!(now.space(space).unwrap().index(index).unwrap().iter().count() as u64, tuples);
        }
        if store.settings.budget.still_refuses() {
            break;
        }
        failures += failed.len();
    }
    assert!(failures > 3, "{failures}");
}
