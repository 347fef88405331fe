//! A snapshot of many blocks, loaded by several threads and then read by several threads: the way of large files
//! (sampled before it is loaded), small enough for a sanitizer. What the sanitizers are run on; see `docs/testing.md`.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};

use common::file::{Block, NAME, Parts, minimal, rows, text};
use common::mp;
use lycosa::{FieldType, IndexSpec, IteratorType, Op, Options, SpaceSpec, Store};

/// Tuples; enough for more than 96 blocks, from which on a file is sampled.
const TUPLES: u64 = 24_000;

const TUPLES_A_BLOCK: usize = 200;

/// A tuple `[id, [number, ...], text, filling]`; its sizes cross those of a field map's cells.
fn tuple(id: u64) -> Vec<u8> {
    let mut tuple = vec![0x94];
    mp::uint(&mut tuple, id);
    let numbers = (id % 4) as u8;
    tuple.push(0x90 | numbers);
    (0..numbers).for_each(|number| mp::uint(&mut tuple, id / 3 + u64::from(number)));
    // Every key of the index over it is there once, in an order far from that of ids.
    let text = format!("{:08x}", (id as u32).wrapping_mul(2_654_435_761));
    tuple.push(0xa0 | text.len() as u8);
    tuple.extend(text.as_bytes());
    let filling = match id % 1000 {
        7 => 300,
        77 => 70_000,
        _ => id % 40,
    };
    tuple.push(0xdb);
    tuple.extend((filling as u32).to_be_bytes());
    tuple.resize(tuple.len() + filling as usize, b'x');
    tuple
}

/// The text that `tuple` holds.
fn text_of(id: u64) -> String {
    format!("{:08x}", (id as u32).wrapping_mul(2_654_435_761))
}

/// A space with a tree by id, a tree by text, a hash by text and a tree over the numbers of the array; ids that ascend,
/// or that come in a wild order.
fn snapshot(ascending: bool) -> Vec<u8> {
    let mut all = Parts::of(&minimal()).unwrap().inserts().unwrap();
    let one = all.pop().unwrap();
    assert_eq!(one.0, 512);
    // space, index, name, kind, options, parts
    let mut index = |id: u8, name: &str, kind: &str, unique: bool, part: &[u8]| {
        let mut row = b"\x96\xcd\x02\x00".to_vec();
        row.push(id);
        for word in [name, kind] {
            row.push(0xa0 | word.len() as u8);
            row.extend(word.as_bytes());
        }
        row.extend(b"\x81\xa6unique");
        row.push(if unique { 0xc3 } else { 0xc2 });
        row.push(0x91);
        row.extend(part);
        all.push((288, row));
    };
    index(1, "text", "tree", true, b"\x92\x02\xa6string");
    index(2, "hash", "hash", true, b"\x92\x02\xa6string");
    let part = b"\x83\xa5field\x01\xa4type\xa8unsigned\xa4path\xa3[*]";
    index(3, "many", "tree", false, part);

    let ids = (0..TUPLES).map(|number| if ascending { number } else { number * 10_007 % TUPLES });
    all.extend(ids.map(|id| (512, tuple(id))));
    let mut first = 0;
    let mut blocks = Vec::new();
    for (number, some) in all.chunks(TUPLES_A_BLOCK).enumerate() {
        blocks.push(Block::new(&rows(some, first), number % 2 == 0));
        first += some.len() as u64;
    }
    assert!(blocks.len() > 96);
    Parts { text: text(), blocks }.file()
}

/// Reads the store in every way, beginning somewhere else in each thread.
fn read(store: &Store, thread: u64) {
    let view = store.read_view();
    let space = view.space("t").unwrap();
    let [primary, text, hash, many] = ["pk", "text", "hash", "many"].map(|name| space.index(name).unwrap());
    for step in 0..2_000 {
        let id = (thread * 7_919 + step * 13) % TUPLES;
        let expected = tuple(id);
        assert_eq!(primary.get((id,)).unwrap().unwrap().bytes(), expected);
        assert_eq!(text.get(&(text_of(id),)).unwrap().unwrap().bytes(), expected);
        assert_eq!(hash.get(&(text_of(id),)).unwrap().unwrap().bytes(), expected);
        for iterator in [IteratorType::Eq, IteratorType::Ge, IteratorType::Le, IteratorType::Req] {
            many.select(iterator, (id / 3,)).unwrap().take(3).for_each(drop);
            let found = primary.select(iterator, (id,)).unwrap().next().unwrap();
            assert_eq!(found.field(0), Some(&expected[1..expected.len()][..found.field(0).unwrap().len()]));
        }
        assert!(primary.get((TUPLES + id,)).unwrap().is_none());
    }
    assert!(
        primary
            .iter()
            .map(|tuple| tuple.decode::<(u64, Vec<u64>, String, String)>().unwrap().0)
            .eq(0..TUPLES)
    );
    assert_eq!(text.iter().count() as u64, TUPLES);
    assert_eq!(hash.iter().count() as u64, TUPLES);
    assert_eq!(many.iter().count() as u64, (0..TUPLES).map(|id| id % 4).sum::<u64>());
}

#[test]
fn four_threads_load_and_six_read_what_one_thread_loads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(NAME);
    for ascending in [true, false] {
        std::fs::write(&path, snapshot(ascending)).unwrap();
        let alone = Store::open_with(&path, &Options::new().threads(1)).unwrap();
        let store = Store::open_with(&path, &Options::new().threads(4)).unwrap();
        assert_eq!(
            store.read_view().space("t").unwrap().fingerprint(),
            alone.read_view().space("t").unwrap().fingerprint()
        );
        std::thread::scope(|scope| {
            // Joined one by one: that the scope itself waits for them is hidden from a sanitizer.
            let (store, readers) = (&store, 0..6);
            let readers: Vec<_> = readers.map(|thread| scope.spawn(move || read(store, thread))).collect();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}

/// Accounts, and what they hold together.
const ACCOUNTS: u64 = 500;
const SUM: u64 = ACCOUNTS * 1_000;

#[test]
fn views_see_whole_transactions_while_another_thread_writes_and_defines() {
    let store = Store::in_memory();
    let spec = |name: &str| {
        SpaceSpec::new(name)
            .field("id", FieldType::Unsigned)
            .field("amount", FieldType::Unsigned)
            .index(IndexSpec::tree("pk").part("id"))
            .index(IndexSpec::tree("by_amount").part("amount").non_unique())
    };
    let accounts = store.create_space(spec("accounts")).unwrap();
    let other = store.create_space(spec("other")).unwrap();
    store.write(|tx| (0..ACCOUNTS).try_for_each(|id| tx.insert(accounts, (id, 1_000)))).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut older = None;
                    while !is_over.load(Ordering::Relaxed) {
                        let view = store.read_view();
                        let amounts = |index: &str| -> u64 {
                            let all = view.select(accounts, index, IteratorType::All, ()).unwrap();
                            all.map(|tuple| tuple.decode::<(u64, u64)>().unwrap().1).sum()
                        };
                        assert_eq!((amounts("pk"), amounts("by_amount")), (SUM, SUM));
                        let count = view.space(other).unwrap().len();
                        assert_eq!(
                            view.space(other).unwrap().primary().unwrap().iter().count() as u64,
                            count
                        );
                        // The one before is closed while this one is open.
                        older = Some(view);
                    }
                    drop(older);
                })
            })
            .collect();
        for step in 0..2_000u64 {
            let (from, to) = (step * 7 % ACCOUNTS, (step * 13 + 1) % ACCOUNTS);
            store
                .write(|tx| {
                    tx.update(accounts, (from,), [Op::sub("amount", 1)])?;
                    tx.update(accounts, (to,), [Op::add("amount", 1)])?;
                    tx.replace(other, (step % 300, step))
                })
                .unwrap();
            match step % 200 {
                50 => store.truncate(other).unwrap(),
                100 => store
                    .write(|tx| {
                        tx.drop_index(accounts, "by_amount")?;
                        tx.create_index(accounts, IndexSpec::tree("by_amount").part("amount").non_unique())
                    })
                    .unwrap(),
                _ => {}
            }
        }
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    store.collect_garbage();
    assert_eq!(store.metrics().garbage_bytes, 0);
}
