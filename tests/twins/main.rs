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

use std::collections::HashMap;
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
        let found = store.space(self.space.id).unwrap();
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
        let found = store.space(self.space.id).unwrap().index(&index.name).unwrap();
        let key = Key::new(self.space.search_key(random, index, entries));
        let parts = key.raw.len();
        let bytes = key_array(&key.raw);
        let is_odd = |(part, value): (&Part, &Vec<u8>)| {
            part.part_type == Type::Double && matches!(value[0], 0xc7..=0xc9 | 0xd4..=0xd8)
        };
        if index.parts.iter().zip(&key.raw).any(is_odd) {
            // A decimal may be in a field that a part of type double reads, but not in a key for it.
            let refused = found.select_raw(IteratorType::Eq, &bytes).err().unwrap();
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
        let found = store.space(self.space.id).unwrap().index(&index.name).unwrap();
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

/// Opens the twins' snapshot in these ways and checks all of it. `sorted`: the rows are in primary order.
fn check_arms(
    random: &mut Rng,
    twins: &[Twin],
    snapshot: &Snapshot,
    arms: &[Arm],
    sorted: bool,
    searches: usize,
) {
    for (number, &arm) in arms.iter().enumerate() {
        let only = &twins[random.usize(..twins.len())];
        let store = match snapshot.open(arm, &only.space) {
            Ok(store) => store,
            Err(error) => panic!("{arm:?}: {error}"),
        };
        for twin in twins {
            if arm.alone && twin.space.id != only.space.id {
                assert_eq!(
                    store.space(twin.space.id).err().map(|error| error.kind()),
                    Some(ErrorKind::Absent)
                );
                continue;
            }
            twin.check(&store, arm);
            if number < 3 {
                twin.check_searches(random, &store, searches);
            }
            let report = store.report().spaces.iter().find(|report| report.id == twin.space.id).unwrap();
            if sorted {
                assert!(!report.sorted, "{arm:?}: {:?}", twin.space.indexes[0]);
            }
            let name = &twin.space.name;
            let notices =
                store.report().notices.iter().filter(|notice| notice.contains(&format!("space {name}:")));
            assert_eq!(notices.count(), usize::from(report.sorted), "{:?}", store.report().notices);
        }
    }
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
        let sorted = random.u8(..4) != 0;
        if !sorted {
            random.shuffle(&mut rows);
        }
        let blocks = pick(random, &[1, 2, 5, 40, 300]);
        let spaces: Vec<&Space> = twins.iter().map(|twin| &twin.space).collect();
        let snapshot = Snapshot::write(random, &spaces, &rows, blocks);
        check_arms(random, &twins, &snapshot, &ARMS, sorted, 8);
    });
}
