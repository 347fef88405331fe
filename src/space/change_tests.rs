//! Statements against a model: after each of them the table is what a list of tuples says, and every few statements
//! all its indexes are, entry by entry, what a bulk load makes of that list.

use std::cmp::Ordering;
use std::sync::Arc;

use fastrand::Rng;

use super::change::TableWriter;
use super::definition::{IndexDef, IndexKind, SpaceDef};
use super::loader::{Gathered, LoadOptions, SpaceLoader, SpaceWorker};
use super::request::{Operations, Request, Told};
use super::room::New;
use super::table::{IndexData, Table};
use crate::error::{ErrorKind, Result};
use crate::index::build::{Built, Scratch};
use crate::index::key_def::Entry as Position;
use crate::index::tree::Tree;
use crate::index::tree::node::Entry;
use crate::index::twin_tests::model::key_array;
use crate::index::twin_tests::rounds::for_each_round;
use crate::index::twin_tests::values::pick;
use crate::index::twin_tests::{model, order, part_defs, values};
use crate::msgpack::write;
use crate::tuple::field_type::FieldType;
use crate::tuple::part::FieldDef;
use crate::tuple::slab::{Budget, Handle};
use crate::tuple::update::{Fields, Rules};

fn put_and(
    writer: &mut TableWriter,
    table: &mut Table,
    tuple: &[u8],
    request: impl Fn(New) -> Request<'static>,
) -> Result<()> {
    let new = writer.put(table, tuple)?;
    writer.execute(table, &request(new), (&[], new.hint), &mut Told::default())
}

/// The tuple with its head as update operations write it.
fn shortest(tuple: &[u8]) -> Vec<u8> {
    let fields = order::elements(tuple);
    let mut shortest = Vec::new();
    write::array(&mut shortest, fields.len() as u32);
    fields.iter().for_each(|field| shortest.extend(*field));
    shortest
}

fn space_def(random: &mut Rng, space: &model::Space) -> Arc<SpaceDef> {
    let field = |(number, field): (usize, &model::Field)| {
        let field_type = FieldType::parse(field.format_type(random)).unwrap();
        let def = FieldDef::new(&format!("f{number}"), field_type);
        if field.is_nullable { def.nullable() } else { def }
    };
    let format = space.fields.iter().enumerate().map(field).collect();
    let index = |(id, index): (u32, &model::Index)| IndexDef {
        id,
        name: index.name.clone(),
        kind: if index.is_hash { IndexKind::Hash } else { IndexKind::Tree },
        unique: index.unique,
        parts: part_defs(space, index),
        options_raw: Vec::new(),
        absent: None,
    };
    Arc::new(SpaceDef {
        id: space.id,
        owner: 1,
        name: space.name.clone(),
        engine: "memtx".into(),
        field_count: 0,
        format,
        indexes: (0..).zip(&space.indexes).map(index).collect(),
        is_local: false,
        is_temporary: false,
        is_sync: false,
        is_view: false,
        flags_raw: Vec::new(),
        absent: None,
    })
}

/// A table loaded from these tuples.
fn load(def: &Arc<SpaceDef>, budget: &Arc<Budget>, tuples: &[Vec<u8>], options: LoadOptions) -> Table {
    let loader = SpaceLoader::new(def.clone(), budget, options).unwrap();
    let mut worker = SpaceWorker::new(&loader);
    for tuple in tuples {
        assert_eq!(worker.add(&loader, tuple, 0).unwrap(), tuple.len());
    }
    worker.end_run(0);
    let gathered = Gathered::new(loader, vec![worker]).unwrap();
    let mut scratch = Scratch::default();
    let jobs: Vec<usize> = gathered.jobs().collect();
    let parts = jobs
        .into_iter()
        .enumerate()
        .map(|(index, jobs)| (0..jobs).map(|job| gathered.job(index, job, &mut scratch).unwrap()).collect());
    let parts = parts.collect();
    gathered.finish(parts).unwrap()
}

/// The entries of an index: each one's tuple and element.
type Listed = Vec<(Vec<u8>, u32)>;

fn list<const MULTI: bool>(index: &IndexData, tree: &Tree<MULTI>) -> Listed {
    tree.begin().map(|entry| (index.arena.get(entry.handle).data().to_vec(), entry.element)).collect()
}

fn entries(index: &IndexData) -> Listed {
    match &index.built {
        Built::Tree(tree) => list(index, tree),
        Built::MultikeyTree(tree) => list(index, tree),
        Built::Hash(hash, _) => {
            let mut listed = list(index, hash.tree());
            listed.sort();
            listed
        }
    }
}

fn check(index: &IndexData) {
    let position = |entry: Entry| Position { tuple: index.arena.get(entry.handle), element: entry.element };
    let order = |a: Entry, b: Entry| index.key_def.compare(position(a), position(b));
    match &index.built {
        Built::Tree(tree) => tree.check(order),
        Built::MultikeyTree(tree) => tree.check(order),
        Built::Hash(hash, _) => hash.tree().check(|_, _| Ordering::Less),
    }
    .unwrap();
}

/// A version of an index that somebody holds, and what was in it.
enum Held {
    Tree(Tree<false>, Listed),
    Multikey(Tree<true>, Listed),
}

struct Twin {
    space: model::Space,
    def: Arc<SpaceDef>,
    options: LoadOptions,
    table: Table,
    writer: TableWriter,
    budget: Arc<Budget>,
    live: Vec<Vec<u8>>,
    held: Vec<(usize, Held)>,
}

impl Twin {
    fn new(random: &mut Rng) -> Self {
        let mut space = model::Space::random(random, 512);
        space.set_span(pick(random, &[20, 200, 5000]));
        let def = space_def(random, &space);
        let options = LoadOptions { hints: random.u8(..4) > 0, nested: random.bool(), fingerprint: true };
        let most = pick(random, &[0, 3, 40, 400]);
        let live = space.tuples(random, most, true);
        let budget = Arc::new(Budget::new(None));
        let table = load(&def, &budget, &live, options);
        let mut writer = TableWriter::new(&table);
        if random.bool() {
            (writer.txn, writer.free_at_once) = (1, false);
        }
        Self { space, def, options, table, writer, budget, live, held: Vec::new() }
    }

    fn collide(&self, index: usize, one: &[u8], other: &[u8]) -> bool {
        let index = &self.space.indexes[index];
        index.unique && !self.space.duplicates(index, &[one.to_vec(), other.to_vec()]).is_empty()
    }

    /// The place in the list of the tuple with the primary key of this one.
    fn find(&self, tuple: &[u8]) -> Option<usize> {
        self.live.iter().position(|live| self.collide(0, live, tuple))
    }

    /// Whether a secondary index has the tuple's key, but for one tuple.
    fn is_refused(&self, tuple: &[u8], but: Option<usize>) -> bool {
        let others = self.live.iter().enumerate().filter(|(number, _)| Some(*number) != but);
        others
            .into_iter()
            .any(|(_, live)| (1..self.space.indexes.len()).any(|i| self.collide(i, live, tuple)))
    }

    fn any(&self, random: &mut Rng) -> Option<usize> {
        (!self.live.is_empty()).then(|| random.usize(..self.live.len()))
    }

    /// A tuple made anew, often with the primary key of a live one.
    fn tuple(&self, random: &mut Rng) -> Vec<u8> {
        let far = random.u8(..4) == 0;
        let new = self.space.tuple(random, far);
        let Some(old) = self.any(random).filter(|_| random.u8(..3) > 0) else { return new };
        let mut fields = order::elements(&new);
        let old = order::elements(&self.live[old]);
        let is_kept = |random: &mut Rng, field| {
            self.space.indexes[0].parts.iter().any(|part| part.field == field) || random.u8(..3) == 0
        };
        for field in 0..fields.len().min(old.len()) {
            if is_kept(random, field) {
                fields[field] = old[field];
            }
        }
        let mut tuple = vec![0xdc, 0, fields.len() as u8];
        fields.iter().for_each(|field| tuple.extend(*field));
        tuple
    }

    fn put(&mut self, old: Option<usize>, tuple: Vec<u8>) {
        match old {
            Some(old) => self.live[old] = tuple,
            None => self.live.push(tuple),
        }
    }

    fn put_and(&mut self, tuple: &[u8], request: impl Fn(New) -> Request<'static>) -> Result<bool> {
        put_and(&mut self.writer, &mut self.table, tuple, request).map(|()| true)
    }

    /// The tuple with a key; the key has the hint that its tuple has.
    fn lookup(&mut self, key: &[u8]) -> Result<Option<Handle>> {
        let hint = self.writer.key_hint(&self.table, key)?;
        let found = self.writer.find(&self.table, key, hint)?;
        if let Some(handle) = found {
            let new = self.writer.put(&self.table, self.table.arena.get(handle).data())?;
            assert_eq!(new.hint, hint, "{key:x?}");
            assert_eq!(self.writer.find_twin(&self.table, new)?, found);
        }
        Ok(found)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let (hint, before) = (self.writer.key_hint(&self.table, key)?, self.table.tuples);
        self.writer.execute(&mut self.table, &Request::Delete, (key, hint), &mut Told::default())?;
        Ok(self.table.tuples < before)
    }

    /// Makes a tuple of the one with a key, by update operations: false if it would have another key.
    fn become_tuple(&mut self, key: &[u8], count: usize, tuple: &[u8]) -> Result<bool> {
        let hint = self.writer.key_hint(&self.table, key)?;
        let mut ops = vec![0xdc, 0, 0];
        ops.extend([0x93, 0xa1, b'#', 0, 0xcc, count as u8]);
        let fields = order::elements(tuple);
        for field in &fields {
            ops.extend([0x93, 0xa1, b'!', 0xff]);
            ops.extend(*field);
        }
        ops[2] = fields.len() as u8 + 1;
        let (fields, rules) = (Fields::default(), Rules::of_version([u32::MAX; 3]));
        let operations = Operations { ops: &ops, base: 0, fields: &fields, rules: &rules };
        let request = Request::Update(operations);
        let outcome = self.writer.execute(&mut self.table, &request, (key, hint), &mut Told::default());
        match outcome {
            Err(error) if error.kind() == ErrorKind::Update => {
                assert!(error.to_string().contains("(error 94)"), "{error}");
                Ok(false)
            }
            outcome => outcome.map(|()| true),
        }
    }

    /// Does a statement on both sides, unless the table reports that memory is refused: then on neither.
    fn statement(&mut self, random: &mut Rng) -> Result<()> {
        let refused = |outcome: Result<bool>| match outcome {
            Err(error) if error.kind() == ErrorKind::DuplicateKey => Ok(None),
            outcome => outcome.map(Some),
        };
        if !self.writer.free_at_once && random.u8(..4) == 0 {
            self.writer.txn += 1;
            if random.u8(..8) == 0 {
                self.hold();
            }
        }
        match random.u8(..100) {
            0..25 => {
                let tuple = self.tuple(random);
                let expected = self.find(&tuple).is_none() && !self.is_refused(&tuple, None);
                let done = refused(self.put_and(&tuple, Request::Insert))?;
                assert_eq!(done.is_some(), expected, "insert {tuple:x?}");
                if expected {
                    self.live.push(tuple);
                }
            }
            25..55 => {
                let tuple = self.tuple(random);
                let old = self.find(&tuple);
                let expected = !self.is_refused(&tuple, old);
                let done = refused(self.put_and(&tuple, Request::Replace))?;
                assert_eq!(done.is_some(), expected, "replace {tuple:x?}");
                if expected {
                    self.put(old, tuple);
                }
            }
            55..75 => {
                let Some(old) = self.any(random) else { return Ok(()) };
                let key = key_array(&self.space.keys(&self.space.indexes[0], &self.live[old])[0].1.raw);
                let tuple = shortest(&self.tuple(random));
                let handle = self.lookup(&key)?.expect("a live tuple is found");
                assert_eq!(self.table.arena.get(handle).data(), self.live[old]);
                let expected = match self.collide(0, &self.live[old], &tuple) {
                    false => Some(false),
                    true => (!self.is_refused(&tuple, Some(old))).then_some(true),
                };
                let count = order::elements(&self.live[old]).len();
                let done = refused(self.become_tuple(&key, count, &tuple))?;
                assert_eq!(done, expected, "update {tuple:x?}");
                if expected == Some(true) {
                    self.put(Some(old), tuple);
                }
            }
            75..85 => {
                let tuple = self.tuple(random);
                let found = {
                    let new = self.writer.put(&self.table, &tuple)?;
                    self.writer.find_twin(&self.table, new)?
                };
                let found = found.map(|handle| self.table.arena.get(handle).data().to_vec());
                assert_eq!(found.as_ref(), self.find(&tuple).map(|old| &self.live[old]));
                let key = key_array(&self.space.keys(&self.space.indexes[0], &tuple)[0].1.raw);
                let deleted = self.delete(&key)?;
                assert_eq!(deleted, found.is_some(), "delete {key:x?}");
                if deleted {
                    let old = self.find(&tuple).unwrap();
                    self.live.swap_remove(old);
                }
            }
            85..97 => {
                let Some(old) = self.any(random) else { return Ok(()) };
                let key = key_array(&self.space.keys(&self.space.indexes[0], &self.live[old])[0].1.raw);
                assert!(self.delete(&key)?);
                self.live.swap_remove(old);
            }
            _ => self.delete_range(random)?,
        }
        Ok(())
    }

    fn delete_range(&mut self, random: &mut Rng) -> Result<()> {
        let number = random.usize(..self.space.indexes.len());
        let index = &self.space.indexes[number];
        let entries = self.space.entries(index, &self.live);
        let begin = self.space.search_key(random, index, &entries);
        let end = self.space.search_key(random, index, &entries);
        let (begin_key, end_key) = (key_array(&begin), key_array(&end));
        let deleted = self.writer.delete_range(&mut self.table, number as u32, &begin_key, &end_key);
        if index.is_hash {
            assert_eq!(deleted.unwrap_err().kind(), ErrorKind::Key);
            return Ok(());
        }
        let deleted = match deleted {
            // A decimal may be in a field that a part of type double reads, but not in a key for it.
            Err(error) if error.kind() == ErrorKind::Key => return Ok(()),
            deleted => deleted?,
        };
        let (begin, end) = (model::Key::new(begin), model::Key::new(end));
        let is_in = |entry: &&model::Entry| {
            index.compare_first(&entry.key, &begin, begin.raw.len()).is_ge()
                && (end.raw.is_empty() || index.compare_first(&entry.key, &end, end.raw.len()).is_lt())
        };
        let mut gone: Vec<usize> = entries.iter().filter(is_in).map(|entry| entry.tuple).collect();
        gone.sort_unstable();
        gone.dedup();
        assert_eq!(deleted, gone.len() as u64, "{begin_key:x?} {end_key:x?}");
        gone.into_iter().rev().for_each(|number| drop(self.live.swap_remove(number)));
        Ok(())
    }

    /// Keeps a version of an index.
    fn hold(&mut self) {
        for (number, index) in self.table.indexes.iter().flatten().enumerate() {
            let held = match &index.built {
                Built::Tree(tree) => Held::Tree(tree.clone(), list(index, tree)),
                Built::MultikeyTree(tree) => Held::Multikey(tree.clone(), list(index, tree)),
                Built::Hash(hash, _) => Held::Tree(hash.tree().clone(), list(index, hash.tree())),
            };
            self.held.push((number, held));
        }
    }

    /// The table is what a load makes of the live tuples; what is held is as it was.
    fn check(&self) {
        assert_eq!(self.table.tuples, self.live.len() as u64);
        assert_eq!(self.table.bytes, self.live.iter().map(|tuple| tuple.len() as u64).sum::<u64>());
        let twin = load(&self.def, &Arc::default(), &self.live, self.options);
        for (index, twin) in self.table.indexes.iter().zip(&twin.indexes) {
            let (index, twin) = (index.as_ref().unwrap(), twin.as_ref().unwrap());
            check(index);
            assert_eq!(index.len(), twin.len());
            assert!(entries(index) == entries(twin), "{:?}", index.key_def);
        }
        assert_eq!(Some(self.table.scan_fingerprint()), twin.fingerprint);
        for (number, held) in &self.held {
            let index = self.table.indexes[*number].as_ref().unwrap();
            match held {
                Held::Tree(tree, content) => assert!(list(index, tree) == *content),
                Held::Multikey(tree, content) => assert!(list(index, tree) == *content),
            }
        }
    }
}

#[test]
fn statements_do_to_every_index_what_they_do_to_a_list_of_tuples() {
    for_each_round(150, |random| {
        let mut twin = Twin::new(random);
        for statement in 0..random.usize(1..300) {
            twin.statement(random).unwrap();
            if statement % 20 == 0 {
                twin.check();
            }
        }
        twin.check();
    });
}

#[test]
fn a_statement_that_is_refused_memory_changes_nothing() {
    // Some rounds take no memory beyond what the first slabs have.
    let mut refusals = 0;
    for_each_round(15, |random| {
        let (seed, mut refused) = (random.u64(..), true);
        let mut takes = 0;
        while refused {
            let random = &mut Rng::with_seed(seed);
            let mut twin = Twin::new(random);
            twin.budget.refuse_after(takes);
            refused = false;
            for _ in 0..80 {
                match twin.statement(random) {
                    Ok(()) => {}
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Memory);
                        assert!(!refused, "refused once, and again");
                        refused = true;
                        twin.check();
                    }
                }
            }
            twin.check();
            takes += 1;
        }
        refusals += takes - 1;
    });
    assert!(refusals > 0, "nothing took memory");
}

#[test]
fn both_tuples_of_a_duplicate_are_named() {
    let random = &mut Rng::with_seed(1);
    let field =
        |random: &mut Rng| model::Field::new(random, model::Shape::Plain, values::Type::Unsigned, false);
    let fields = vec![field(random), field(random)];
    let index = |field| model::Index {
        name: format!("i{field}"),
        is_hash: false,
        unique: true,
        parts: vec![model::Part {
            field,
            part_type: values::Type::Unsigned,
            is_nullable: false,
            exclude_null: false,
            descending: false,
        }],
    };
    let space = model::Space { id: 512, name: "s".into(), fields, indexes: vec![index(0), index(1)] };
    let def = space_def(random, &space);
    let options = LoadOptions { hints: true, nested: false, fingerprint: true };
    let mut table = load(&def, &Arc::default(), &[], options);
    let mut writer = TableWriter::new(&table);
    for id in 0..10 {
        put_and(&mut writer, &mut table, &[0x92, id, 10 + id], Request::Insert).unwrap();
    }
    let told = |outcome: Result<()>| outcome.unwrap_err().to_string();
    assert_eq!(
        told(put_and(&mut writer, &mut table, &[0x92, 3, 99], Request::Insert)),
        "space s: duplicate key in unique index i0: expected one tuple, found [3,13] and [3,99]"
    );
    assert_eq!(
        told(put_and(&mut writer, &mut table, &[0x92, 3, 17], Request::Replace)),
        "space s: duplicate key in unique index i1: expected one tuple, found [7,17] and [3,17]"
    );
    assert_eq!(told(writer.put(&table, &[0x92, 3, 17, 1]).map(drop)).matches("tuple's MsgPack").count(), 1);
    assert_eq!(writer.key_hint(&table, &[0x90]).unwrap_err().kind(), ErrorKind::Key);
    assert_eq!((table.tuples, table.fingerprint), (10, None));
}

#[test]
fn replacing_over_and_over_takes_no_memory() {
    for_each_round(5, |random| {
        let mut twin = Twin::new(random);
        (twin.writer.txn, twin.writer.free_at_once) = (0, true);
        let mut settled_bytes = 0;
        for turn in 0..40_000 {
            let Some(number) = twin.any(random) else { return };
            let tuple = twin.live[number].clone();
            match turn % 2 {
                0 => {
                    twin.put_and(&tuple, Request::Replace).unwrap();
                }
                _ => {
                    let key = key_array(&twin.space.keys(&twin.space.indexes[0], &tuple)[0].1.raw);
                    assert!(twin.delete(&key).unwrap());
                    twin.put_and(&tuple, Request::Insert).unwrap();
                }
            }
            if turn == 5000 {
                settled_bytes = twin.table.memory_bytes();
            }
        }
        twin.check();
        // Rooms of many sizes come together by chance, so one more slab may be needed, and the next one is as large as all
        // before it. If nothing were used again there would be eight times as much.
        assert!(twin.table.memory_bytes() <= settled_bytes * 2 + (settled_bytes >> 2));
    });
}
