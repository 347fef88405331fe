//! Whole stores against their slow twin: snapshots of random spaces, written here, opened in every way there is.
//!
//! The twin is a sorted list for each index ([`model`]), in an order that was written apart from the library's
//! ([`order`]). Each round has a seed of its own; a failure names it, and `LYCOSA_SEED=… LYCOSA_ROUNDS=1` repeats it.
//! `LYCOSA_ROUNDS=1000` looks further.

mod model;
mod order;
mod rounds;
mod values;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use lycosa::{ErrorKind, IteratorType, Options, Store};
use tempfile::TempDir;

use model::{Entry, Field, Index, Key, Part, Shape, Space, key_array};
use rounds::for_each_round;
use values::{Type, pick};

/// A way to open a store.
#[derive(Debug, Clone, Copy)]
struct Arm {
    hints: bool,
    nested: bool,
    threads: usize,
    /// Only one space.
    alone: bool,
}

const ARMS: [Arm; 8] = [
    Arm { hints: true, nested: false, threads: 1, alone: false },
    Arm { hints: false, nested: false, threads: 1, alone: false },
    Arm { hints: true, nested: true, threads: 2, alone: false },
    Arm { hints: true, nested: false, threads: 7, alone: false },
    Arm { hints: false, nested: true, threads: 7, alone: false },
    Arm { hints: true, nested: false, threads: 2, alone: true },
    Arm { hints: false, nested: true, threads: 2, alone: true },
    Arm { hints: true, nested: false, threads: 0, alone: false },
];

/// A space with its tuples and the slow twins of its indexes.
struct Twin {
    space: Space,
    tuples: Vec<Vec<u8>>,
    /// By index; empty for HASH.
    entries: Vec<Vec<Entry>>,
}

impl Twin {
    fn new(space: Space, tuples: Vec<Vec<u8>>) -> Self {
        let entries = space
            .indexes
            .iter()
            .map(|index| if index.is_hash { Vec::new() } else { space.entries(index, &tuples) })
            .collect();
        Self { space, tuples, entries }
    }

    fn random(random: &mut Rng, id: u32, count: usize) -> Self {
        let space = Space::random(random, id);
        let far = random.bool();
        let tuples = space.tuples(random, count, far);
        Self::new(space, tuples)
    }

    /// The tuples as a checkpoint writes them: in primary order; of a HASH in any.
    fn rows(&self) -> Vec<(u32, &[u8])> {
        let numbers: Vec<usize> = match self.space.indexes[0].is_hash {
            true => (0..self.tuples.len()).collect(),
            false => self.entries[0].iter().map(|entry| entry.tuple).collect(),
        };
        numbers.into_iter().map(|number| (self.space.id, &self.tuples[number][..])).collect()
    }

    fn fingerprint(&self) -> u32 {
        if self.space.indexes[0].is_hash {
            let sums = self.tuples.iter().map(|tuple| crc32fast::hash(tuple));
            return sums.fold(0, u32::wrapping_add);
        }
        let mut crc = crc32fast::Hasher::new();
        self.entries[0].iter().for_each(|entry| crc.update(&self.tuples[entry.tuple]));
        crc.finalize()
    }

    /// The store holds the space's tuples, and every index has them in order.
    fn check(&self, store: &Store, arm: Arm) {
        let view = store.read_view();
        let found = view.space(self.space.id).unwrap();
        assert_eq!(found.def().name, self.space.name);
        assert_eq!(found.len(), self.tuples.len() as u64, "{arm:?}");
        assert_eq!(found.bytes(), self.tuples.iter().map(|tuple| tuple.len() as u64).sum::<u64>());
        assert_eq!(found.fingerprint(), Some(self.fingerprint()), "{arm:?}");
        for (number, index) in self.space.indexes.iter().enumerate() {
            let found = found.index(&index.name).unwrap();
            let all: Vec<&[u8]> = found.iter().map(|tuple| tuple.bytes()).collect();
            assert_eq!(found.len(), all.len() as u64, "{arm:?} {index:?}");
            if index.is_hash {
                let mut all = all;
                all.sort_unstable();
                let mut expected: Vec<&[u8]> = self.tuples.iter().map(|tuple| &tuple[..]).collect();
                expected.sort_unstable();
                assert!(all == expected, "{arm:?} {index:?}");
                continue;
            }
            let expected: Vec<&[u8]> =
                self.entries[number].iter().map(|entry| &self.tuples[entry.tuple][..]).collect();
            if let Some(place) =
                (0..all.len().max(expected.len())).find(|&at| all.get(at) != expected.get(at))
            {
                panic!(
                    "{arm:?} {index:?} after {:?}, place {place} of {}: expected {:x?}, found {:x?}",
                    self.space.indexes[0],
                    expected.len(),
                    expected.get(place),
                    all.get(place),
                );
            }
        }
    }

    /// Every iterator from some keys on gives what filtering the slow list gives.
    fn check_searches(&self, random: &mut Rng, store: &Store, count: usize) {
        for (number, index) in self.space.indexes.iter().enumerate() {
            for _ in 0..count {
                match index.is_hash {
                    true => self.check_hash_search(random, store, index),
                    false => self.check_search(random, store, index, &self.entries[number]),
                }
            }
        }
    }

    fn check_search(&self, random: &mut Rng, store: &Store, index: &Index, entries: &[Entry]) {
        let view = store.read_view();
        let found = view.space(self.space.id).unwrap().index(&index.name).unwrap();
        let key = Key::new(self.space.search_key(random, index, entries));
        let parts = key.raw.len();
        let bytes = key_array(&key.raw);
        let is_odd = |(part, value): (&Part, &Vec<u8>)| {
            part.part_type == Type::Double && matches!(value[0], 0xc7..=0xc9 | 0xd4..=0xd8)
        };
        if index.parts.iter().zip(&key.raw).any(is_odd) {
            // A decimal may be in a field that a part of type double reads, but not in a key for it.
            let refused = found.select_raw(Eq, &bytes).err().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Key);
            return;
        }
        let order: Vec<_> =
            entries.iter().map(|entry| index.compare_first(&entry.key, &key, parts)).collect();
        use IteratorType::{All, Eq, Ge, Gt, Le, Lt, Req};
        for iterator in [Eq, Req, All, Lt, Le, Ge, Gt] {
            let is_met = |at: &usize| {
                let order = order[*at];
                match iterator {
                    _ if parts == 0 => true,
                    Eq | Req => order.is_eq(),
                    All | Ge => order.is_ge(),
                    Gt => order.is_gt(),
                    Le => order.is_le(),
                    Lt => order.is_lt(),
                }
            };
            let mut expected: Vec<&[u8]> =
                (0..entries.len()).filter(is_met).map(|at| &self.tuples[entries[at].tuple][..]).collect();
            if matches!(iterator, Req | Lt | Le) {
                expected.reverse();
            }
            let select = found.select_raw(iterator, &bytes).unwrap();
            let all: Vec<&[u8]> = select.map(|tuple| tuple.bytes()).collect();
            assert!(
                all == expected,
                "{iterator} {bytes:x?} in {index:?}: expected {} tuples, found {}\nexpected {:x?}\nfound {:x?}",
                expected.len(),
                all.len(),
                &expected[..expected.len().min(3)],
                &all[..all.len().min(3)],
            );
        }
        let got = found.get_raw(&bytes);
        if index.unique && parts == index.parts.len() && !key.raw.contains(&vec![0xc0]) {
            let expected =
                order.iter().position(|order| order.is_eq()).map(|at| &self.tuples[entries[at].tuple][..]);
            assert_eq!(got.unwrap().map(|tuple| tuple.bytes()), expected, "{bytes:x?} in {index:?}");
        } else {
            assert_eq!(got.err().map(|error| error.kind()), Some(ErrorKind::Key));
        }
    }

    fn check_hash_search(&self, random: &mut Rng, store: &Store, index: &Index) {
        let view = store.read_view();
        let found = view.space(self.space.id).unwrap().index(&index.name).unwrap();
        // The list of another order has the keys all the same.
        let entries = match self.tuples.is_empty() {
            true => Vec::new(),
            false => {
                let at = random.usize(..self.tuples.len());
                self.space.entries(index, &self.tuples[at..=at])
            }
        };
        let mut key = self.space.search_key(random, index, &entries);
        if key.iter().any(|value| *value == [0xc0]) {
            key.clear();
        }
        let bytes = key_array(&key);
        let is_whole = key.len() == index.parts.len();
        if !is_whole {
            assert_eq!(found.get_raw(&bytes).err().map(|error| error.kind()), Some(ErrorKind::Key));
            let partial = found.select_raw(IteratorType::Eq, &bytes).err().map(|error| error.kind());
            assert_eq!(partial, Some(ErrorKind::Key));
            return;
        }
        let expected: Vec<&[u8]> = self
            .tuples
            .iter()
            .filter(|tuple| self.space.has_hashed_key(index, tuple, &key))
            .map(|tuple| &tuple[..])
            .collect();
        assert!(expected.len() <= 1);
        let got = found.get_raw(&bytes).unwrap().map(|tuple| tuple.bytes());
        assert_eq!(got, expected.first().copied(), "{bytes:x?} in {index:?}");
        let equal: Vec<&[u8]> =
            found.select_raw(IteratorType::Eq, &bytes).unwrap().map(|tuple| tuple.bytes()).collect();
        assert_eq!(equal, expected);
    }
}

/// A snapshot in a folder of its own.
struct Snapshot {
    _folder: TempDir,
    path: PathBuf,
}

impl Snapshot {
    fn write(random: &mut Rng, spaces: &[&Space], rows: &[(u32, &[u8])], blocks: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(writer::NAME);
        std::fs::write(&path, writer::snapshot(random, spaces, rows, blocks)).unwrap();
        Self { _folder: folder, path }
    }

    fn open(&self, arm: Arm, only: &Space) -> lycosa::Result<Store> {
        open(&self.path, arm, only)
    }
}

fn open(path: &Path, arm: Arm, only: &Space) -> lycosa::Result<Store> {
    let options = Options::new().hints(arm.hints).nested(arm.nested).threads(arm.threads);
    Store::open_with(path, &if arm.alone { options.space(only.id) } else { options })
}

/// Mixes the rows of spaces, those of each in their order.
fn interleaved<'a>(random: &mut Rng, mut spaces: Vec<Vec<(u32, &'a [u8])>>) -> Vec<(u32, &'a [u8])> {
    spaces.iter_mut().for_each(|rows| rows.reverse());
    let mut all = Vec::new();
    while !spaces.is_empty() {
        let at = random.usize(..spaces.len());
        for _ in 0..random.usize(1..20) {
            all.extend(spaces[at].pop());
        }
        spaces.retain(|rows| !rows.is_empty());
    }
    all
}

/// Opens the twins' snapshot in these ways and checks all of it; the first three are searched too.
fn check_arms(
    random: &mut Rng,
    twins: &[Twin],
    rows: &[(u32, &[u8])],
    snapshot: &Snapshot,
    arms: &[Arm],
    searches: usize,
) {
    // A HASH has no order that rows could be out of.
    let is_sorted = |twin: &Twin| {
        twin.space.indexes[0].is_hash
            || rows
                .iter()
                .filter(|row| row.0 == twin.space.id)
                .map(|row| row.1)
                .eq(twin.rows().iter().map(|row| row.1))
    };
    let sorted: Vec<bool> = twins.iter().map(is_sorted).collect();
    for (number, &arm) in arms.iter().enumerate() {
        let only = &twins[random.usize(..twins.len())];
        let store = match snapshot.open(arm, &only.space) {
            Ok(store) => store,
            Err(error) => panic!("{arm:?}: {error}"),
        };
        for (twin, sorted) in twins.iter().zip(&sorted) {
            if arm.alone && twin.space.id != only.space.id {
                assert_eq!(
                    store.read_view().space(twin.space.id).err().map(|error| error.kind()),
                    Some(ErrorKind::Absent)
                );
                continue;
            }
            twin.check(&store, arm);
            if number < 3 {
                twin.check_searches(random, &store, searches);
            }
            let report = store.report().spaces.iter().find(|report| report.id == twin.space.id).unwrap();
            assert_eq!(report.sorted, !sorted, "{arm:?} {:?}", twin.space.indexes[0]);
            let label = format!("space {}:", twin.space.name);
            let notices = store.report().notices.iter().filter(|notice| notice.contains(&label));
            assert_eq!(notices.count(), usize::from(!sorted), "{:?}", store.report().notices);
        }
    }
}

fn spaces_of(twins: &[Twin]) -> Vec<&Space> {
    twins.iter().map(|twin| &twin.space).collect()
}

#[test]
fn small_snapshots_open_alike_in_every_way_and_as_the_slow_twin_says() {
    for_each_round(150, |random| {
        let spaces = random.usize(1..4);
        let twins: Vec<Twin> = (0..spaces)
            .map(|number| {
                let most = pick(random, &[1, 2, 10, 65, 200]);
                let count = random.usize(..=most);
                Twin::random(random, 512 + number as u32 * 7, count)
            })
            .collect();
        let rows = twins.iter().map(Twin::rows).collect();
        let mut rows: Vec<_> = if random.bool() { interleaved(random, rows) } else { rows.concat() };
        if random.u8(..4) == 0 {
            random.shuffle(&mut rows);
        }
        let blocks = pick(random, &[1, 2, 5, 40, 300]);
        let snapshot = Snapshot::write(random, &spaces_of(&twins), &rows, blocks);
        check_arms(random, &twins, &rows, &snapshot, &ARMS, 8);
    });
}

/// Ways to put the rows of a file out of order.
fn disturb(random: &mut Rng, rows: &mut [(u32, &[u8])]) {
    let count = rows.len().max(1);
    match random.u8(..6) {
        0 => random.shuffle(rows),
        1 => rows.reverse(),
        // Two rows change places, far apart or not.
        2 => {
            let (one, other) = (random.usize(..count), random.usize(..count));
            rows.swap(one, other);
        }
        // The end comes first.
        3 => rows.rotate_right(random.usize(..count)),
        _ => {}
    }
}

#[test]
fn snapshots_large_enough_to_be_sampled_open_alike_in_every_way() {
    for_each_round(6, |random| {
        let blocks = pick(random, &[95, 96, 97, 130, 400]);
        let mut twins = Vec::new();
        for number in 0..random.usize(1..3) {
            let mut space = Space::random(random, 600 + number as u32);
            space.set_span(1 << 24);
            let far = random.bool();
            let count = if number == 0 { random.usize(3000..9000) } else { random.usize(..3000) };
            let tuples = space.tuples(random, count, far);
            twins.push(Twin::new(space, tuples));
        }
        let rows = twins.iter().map(Twin::rows).collect();
        let mut rows: Vec<_> = if random.bool() { interleaved(random, rows) } else { rows.concat() };
        disturb(random, &mut rows);
        let snapshot = Snapshot::write(random, &spaces_of(&twins), &rows, blocks);
        check_arms(random, &twins, &rows, &snapshot, &ARMS, 3);
    });
}

/// A space of an id, a value with few of a kind, an array, and a string; the primary key is the id.
fn usual_space(random: &mut Rng) -> Space {
    let mut fields = vec![
        Field::wide(random, Type::Unsigned),
        Field::new(random, Shape::Plain, Type::Number, true),
        Field::new(random, Shape::Array, Type::Unsigned, false),
        Field::wide(random, Type::String),
    ];
    fields[0].declared = Type::Unsigned;
    let parts = |fields: &[usize], types: &[Type]| -> Vec<Part> {
        let part = |(&field, &part_type): (&usize, &Type)| Part {
            field,
            part_type,
            is_nullable: field == 1,
            exclude_null: false,
            descending: field == 3,
        };
        fields.iter().zip(types).map(part).collect()
    };
    let index = |is_hash, unique, parts| Index { name: String::new(), is_hash, unique, parts };
    let indexes = vec![
        index(false, true, parts(&[0], &[Type::Unsigned])),
        index(false, false, parts(&[1], &[Type::Number])),
        index(false, false, parts(&[2, 3], &[Type::Unsigned, Type::String])),
        index(true, true, parts(&[0], &[Type::Unsigned])),
        index(false, true, parts(&[3, 1, 0], &[Type::String, Type::Number, Type::Unsigned])),
    ];
    let mut space = Space { id: 512, name: "usual".into(), fields, indexes };
    space.name_indexes();
    space
}

/// A tuple of the usual space with this id.
fn usual_tuple(random: &mut Rng, space: &Space, id: u32) -> Vec<u8> {
    let mut tuple = vec![0x94, 0xce];
    tuple.extend(id.to_be_bytes());
    let whole = space.tuple(random, true);
    order::elements(&whole)[1..4].iter().for_each(|field| tuple.extend(*field));
    tuple
}

fn usual_twin(random: &mut Rng, count: usize) -> Twin {
    let mut space = usual_space(random);
    space.set_span(1 << 24);
    let mut tuples = Vec::with_capacity(count);
    for id in 0..count {
        tuples.push(usual_tuple(random, &space, id as u32 * 3));
    }
    Twin::new(space, tuples)
}

#[test]
fn every_size_around_a_threshold_opens_in_order() {
    for_each_round(1, |random| {
        // Of leaves and inner nodes of both kinds, and of the sample that a space is planned from.
        let edges = [1, 37, 47, 62, 37 * 37, 37 * 47, 47 * 47, 47 * 62, 2000, 4000];
        let sizes: BTreeSet<usize> = edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1]).collect();
        for size in sizes {
            let twin = usual_twin(random, size);
            let rows = twin.rows();
            let blocks = pick(random, &[1, 3, 8, 9]);
            let snapshot = Snapshot::write(random, &[&twin.space], &rows, blocks);
            check_arms(random, std::slice::from_ref(&twin), &rows, &snapshot, &ARMS[..4], 2);
        }
    });
}

#[test]
fn a_sample_of_almost_enough_or_just_enough_tuples_changes_nothing() {
    for_each_round(1, |random| {
        for blocks in [95, 96, 97] {
            // 48 of 96 blocks are sampled; 2000 tuples are enough.
            for count in (3960..=4080).step_by(20) {
                let twin = usual_twin(random, count);
                let mut rows = twin.rows();
                disturb(random, &mut rows);
                let snapshot = Snapshot::write(random, &[&twin.space], &rows, blocks);
                check_arms(random, std::slice::from_ref(&twin), &rows, &snapshot, &ARMS[..4], 0);
            }
        }
    });
}

#[test]
fn indexes_of_several_buckets_are_in_order() {
    for_each_round(1, |random| {
        let twin = usual_twin(random, 110_000);
        for blocks in [95, 300] {
            let mut rows = twin.rows();
            if random.bool() {
                disturb(random, &mut rows);
            }
            let snapshot = Snapshot::write(random, &[&twin.space], &rows, blocks);
            check_arms(random, std::slice::from_ref(&twin), &rows, &snapshot, &ARMS[..4], 1);
        }
    });
}

#[test]
fn a_snapshot_opens_if_and_only_if_the_slow_twin_finds_no_two_tuples_with_one_key() {
    let (mut refused, mut opened) = (0, 0);
    for_each_round(150, |random| {
        let space = Space::random(random, 512);
        // Only the primary key keeps tuples out here; sometimes not even that.
        let mut lax = space.clone();
        lax.indexes.truncate(1);
        let count = pick(random, &[3, 20, 150, 3000]);
        let mut tuples = lax.tuples(random, count, true);
        if random.u8(..4) == 0 && !tuples.is_empty() {
            let twice = tuples[random.usize(..tuples.len())].clone();
            tuples.push(twice);
        }
        let clashing: BTreeSet<&str> = space
            .indexes
            .iter()
            .filter(|index| index.unique && !space.duplicates(index, &tuples).is_empty())
            .map(|index| &index.name[..])
            .collect();
        let mut rows: Vec<(u32, &[u8])> = match space.indexes[0].is_hash || random.u8(..4) == 0 {
            true => tuples.iter().map(|tuple| (512, &tuple[..])).collect(),
            false => {
                let entries = space.entries(&space.indexes[0], &tuples);
                entries.iter().map(|entry| (512, &tuples[entry.tuple][..])).collect()
            }
        };
        disturb(random, &mut rows);
        let blocks = pick(random, &[1, 4, 96, 120]);
        let snapshot = Snapshot::write(random, &[&space], &rows, blocks);
        for arm in ARMS {
            match snapshot.open(arm, &space) {
                Ok(_) => assert!(clashing.is_empty(), "{arm:?} opened, but {clashing:?} clash"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{arm:?}: {error}");
                    let is_named =
                        clashing.iter().any(|name| error.what().ends_with(&format!("index {name}")));
                    assert!(is_named, "{arm:?}: {error}; {clashing:?} clash");
                    assert!(error.finding().is_some_and(|found| found.contains(" and ")), "{error}");
                }
            }
        }
        *if clashing.is_empty() { &mut opened } else { &mut refused } += 1;
    });
    println!("{refused} refused, {opened} opened");
}

/// A space of an unsigned id and a value, with these indexes; each is a name, HASH or not, unique or not, and fields.
fn plain_space(value_type: Type, nullable: bool, indexes: &[(&str, bool, bool, &[usize])]) -> Space {
    let random = &mut Rng::with_seed(0);
    let fields = vec![
        Field::new(random, Shape::Plain, Type::Unsigned, false),
        Field::new(random, Shape::Plain, value_type, nullable),
    ];
    let part = |field: usize| Part {
        field,
        part_type: [Type::Unsigned, value_type][field],
        is_nullable: field == 1 && nullable,
        exclude_null: false,
        descending: false,
    };
    let index = |&(name, is_hash, unique, fields): &(&str, bool, bool, &[usize])| Index {
        name: name.into(),
        is_hash,
        unique,
        parts: fields.iter().map(|&field| part(field)).collect(),
    };
    Space { id: 512, name: "pairs".into(), fields, indexes: indexes.iter().map(index).collect() }
}

/// An array of an id and an encoded value.
fn pair(id: u8, value: &[u8]) -> Vec<u8> {
    [&[0x92, id], value].concat()
}

#[test]
fn a_duplicate_is_told_with_its_index_and_both_tuples() {
    let random = &mut Rng::with_seed(0);
    type Tuples<'a> = &'a [Vec<u8>];
    let (one, two): (&[u8], &[u8]) = (b"\xa1a", b"\xd9\x01a");
    let long = [0xcc, 3];
    let cases: [(&str, &Space, Tuples<'_>); 6] = [
        (
            "index pk: expected one tuple, found [3,\"a\"] and [3,\"b\"]",
            &plain_space(Type::String, false, &[("pk", false, true, &[0])]),
            &[pair(1, one), pair(3, one), [&[0x92], &long[..], b"\xa1b"].concat(), pair(7, one)],
        ),
        (
            "index pk: expected one tuple, found [3,\"a\"] and [3,\"b\"]",
            &plain_space(Type::String, false, &[("pk", true, true, &[0])]),
            &[pair(1, one), pair(3, one), pair(7, one), [&[0x92], &long[..], b"\xa1b"].concat()],
        ),
        (
            "index name: expected one tuple, found [1,\"a\"] and [9,\"a\"]",
            &plain_space(Type::String, true, &[("pk", false, true, &[0]), ("name", false, true, &[1])]),
            &[pair(1, one), pair(2, b"\xc0"), pair(3, b"\xc0"), pair(9, two)],
        ),
        (
            "index name: expected one tuple, found [1,\"a\"] and [9,\"a\"]",
            &plain_space(Type::String, false, &[("pk", false, true, &[0]), ("name", true, true, &[1])]),
            &[pair(1, one), pair(2, b"\xa1b"), pair(9, two)],
        ),
        (
            "index v: expected one tuple, found [1,{\"$decimal\":\"1.0\"}] and [9,1]",
            &plain_space(Type::Number, false, &[("pk", false, true, &[0]), ("v", false, true, &[1])]),
            &[pair(1, DECIMAL_1_0), pair(9, b"\x01")],
        ),
        (
            "index v: expected one tuple, found [1,1] and [9,1]",
            &plain_space(Type::Number, false, &[("pk", false, true, &[0]), ("v", true, true, &[1])]),
            &[pair(1, b"\x01"), pair(2, b"\xd5\x01\x00\x1c"), pair(9, b"\xd3\0\0\0\0\0\0\0\x01")],
        ),
    ];
    for (expected, space, tuples) in cases {
        let mut rows: Vec<(u32, &[u8])> = tuples.iter().map(|tuple| (512, &tuple[..])).collect();
        for blocks in [1, rows.len()] {
            for _ in 0..2 {
                rows.reverse();
                let snapshot = Snapshot::write(random, &[space], &rows, blocks);
                for arm in ARMS {
                    let error = snapshot.open(arm, space).expect_err(expected);
                    assert_eq!(error.kind(), ErrorKind::DuplicateKey);
                    // Which of the two is called first is open.
                    let (head, tail) = expected.split_once("found ").unwrap();
                    let (first, second) = tail.split_once(" and ").unwrap();
                    let text = error.to_string();
                    assert!(
                        text.ends_with(expected)
                            || text.ends_with(&format!("{head}found {second} and {first}")),
                        "{arm:?}: expected {expected}, found {text}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_duplicate_among_many_keys_that_begin_alike_is_found() {
    let random = &mut Rng::with_seed(0);
    let space = plain_space(Type::String, false, &[("pk", false, true, &[0]), ("name", false, true, &[1])]);
    let named = |id: u8, name: &str| {
        let mut tuple = vec![0x92, 0xcc, id, 0xd9, name.len() as u8];
        tuple.extend(name.as_bytes());
        tuple
    };
    // One that begins otherwise, or what is alike would not be looked at.
    let mut tuples = vec![named(0, "z")];
    tuples.extend((1..200).map(|id| named(id, &format!("/a/beginning/of/some/length/{id:08}"))));
    for (twice, blocks) in [(1, 1), (70, 1), (70, 200), (199, 3)] {
        let mut tuples = tuples.clone();
        let twin = Twin::new(space.clone(), tuples.clone());
        let snapshot = Snapshot::write(random, &[&space], &twin.rows(), blocks);
        check_arms(random, std::slice::from_ref(&twin), &twin.rows(), &snapshot, &ARMS, 5);
        tuples.push(named(200, &format!("/a/beginning/of/some/length/{twice:08}")));
        let rows: Vec<(u32, &[u8])> = tuples.iter().map(|tuple| (512, &tuple[..])).collect();
        let snapshot = Snapshot::write(random, &[&space], &rows, blocks);
        for arm in ARMS {
            let error = snapshot.open(arm, &space).expect_err("a duplicate");
            assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{arm:?}: {error}");
            assert!(error.what().ends_with("index name"), "{arm:?}: {error}");
        }
    }
}

#[test]
fn keys_that_go_back_or_come_twice_between_any_two_blocks_are_noticed() {
    for_each_round(1, |random| {
        // Small, and large enough that threads follow the order while they read.
        for (blocks, rows_a_block) in [(40, 1), (100, 45)] {
            let twin = usual_twin(random, blocks * rows_a_block);
            let rows = twin.rows();
            let arms = [ARMS[0], ARMS[1], ARMS[3]];
            // No other index may find the duplicate.
            let mut primary = twin.space.clone();
            primary.indexes.truncate(1);
            // Somewhere here is the edge of what a thread takes at a time.
            for block in 1..=16 {
                let cut = block * rows_a_block;
                let mut turned = rows.clone();
                turned.rotate_right(cut);
                let snapshot = Snapshot::write(random, &[&twin.space], &turned, blocks);
                check_arms(random, std::slice::from_ref(&twin), &turned, &snapshot, &arms, 0);
                let mut twice = rows.clone();
                twice.insert(cut, rows[cut - 1]);
                let snapshot = Snapshot::write(random, &[&primary], &twice, blocks);
                for arm in arms {
                    let error = snapshot.open(arm, &twin.space).expect_err("a duplicate");
                    assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{arm:?}: {error}");
                }
            }
        }
    });
}

const INT_1: &[u8] = b"\x01";
const INT_1_LONG: &[u8] = b"\xcd\x00\x01";
const INT_1_SIGNED: &[u8] = b"\xd0\x01";
const DOUBLE_1: &[u8] = b"\xcb\x3f\xf0\0\0\0\0\0\0";
const FLOAT_1: &[u8] = b"\xca\x3f\x80\0\0";
const DECIMAL_1: &[u8] = b"\xd5\x01\x00\x1c";
const DECIMAL_1_0: &[u8] = b"\xc7\x03\x01\x01\x01\x0c";

#[test]
fn a_hash_index_tells_apart_what_a_tree_does_not() {
    let random = &mut Rng::with_seed(0);
    let space = plain_space(Type::Scalar, false, &[("pk", true, true, &[1]), ("tree", false, false, &[1])]);
    let tuples = [pair(1, DECIMAL_1_0), pair(2, INT_1), pair(3, DECIMAL_1), pair(4, b"\x02")];
    let twin = Twin::new(space, tuples.to_vec());
    for turn in 0..4 {
        let mut rows = twin.rows();
        rows.rotate_right(turn);
        for blocks in [1, 4] {
            let snapshot = Snapshot::write(random, &[&twin.space], &rows, blocks);
            for arm in ARMS {
                let store = snapshot.open(arm, &twin.space).unwrap();
                twin.check(&store, arm);
                let view = store.read_view();
                let space = view.space(512).unwrap();
                let get = |key: &[u8]| {
                    let found = space.index("pk").unwrap().get_raw(&[&[0x91], key].concat()).unwrap();
                    found.map(|tuple| tuple.bytes()[1])
                };
                for one in [INT_1, INT_1_LONG, INT_1_SIGNED, DOUBLE_1, FLOAT_1] {
                    assert_eq!(get(one), Some(2), "{one:x?}");
                }
                assert_eq!(get(DECIMAL_1), Some(3));
                assert_eq!(get(DECIMAL_1_0), Some(1));
                // In the tree all three are equal, so that the bytes of the primary key decide.
                let tree = space.index("tree").unwrap();
                let equal = tree.select_raw(IteratorType::Eq, &[&[0x91], DOUBLE_1].concat()).unwrap();
                let ids: Vec<u8> = equal.map(|tuple| tuple.bytes()[1]).collect();
                assert_eq!(ids, [2, 1, 3]);
            }
        }
    }
}
