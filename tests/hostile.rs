//! Small snapshots, changed in every way that one bit or one cut can change them; with the checksums left as they were,
//! and made right again, so that the change reaches zstd, rows and formats. What comes of each is an error that names the
//! file, or a store in which every check holds: the tuples are those of the file, and every index has them in order.
//! Never a panic, never something silently wrong.
#![expect(clippy::print_stdout, reason = "tells how many changes led to an error and how many to a store")]

mod common;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::expected::assert_order;
use common::file::{Block, INSTANCE, NAME, Parts, minimal, rows, text};
use common::order::whole;
use common::{mp, snapshot_of, snapshots};
use lycosa::{ErrorKind, Options, Store};
use sha2::{Digest, Sha256};

/// A small damaged file may not cost much memory.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Opens bytes as a snapshot in `folder`.
fn open(folder: &Path, file: &[u8]) -> Result<Store, lycosa::Error> {
    let path = folder.join(NAME);
    std::fs::write(&path, file).unwrap();
    let opened = Store::open_with(&path, &Options::new().threads(1).max_memory(MEMORY_BYTES_MAX));
    if let Err(error) = &opened {
        assert_eq!(error.place().file.as_deref(), Some(&*path), "an error without its file: {error}");
        assert!(error.to_string().len() < 4096, "a message of {} bytes", error.to_string().len());
    }
    opened
}

/// Runs `try_one` for each number below `count` on all cores, in a folder of its own for each thread; a panic in it is
/// told with its number.
fn for_each(count: usize, try_one: impl Fn(&Path, usize) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let folder = tempfile::tempdir().unwrap();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let tried = catch_unwind(AssertUnwindSafe(|| try_one(folder.path(), number)));
                    if tried.is_err() {
                        next.store(count, Ordering::Relaxed);
                        panic!("number {number} of {count} panicked; its message stands above");
                    }
                }
            });
        }
    });
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

fn by_space(rows: impl IntoIterator<Item = (u32, Vec<u8>)>) -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut spaces: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    rows.into_iter().for_each(|(space, tuple)| spaces.entry(space).or_default().push(tuple));
    spaces.values_mut().for_each(|tuples| tuples.sort());
    spaces
}

/// The tuples of the spaces in memory; those of spaces without any index that holds all are not to be seen.
fn tuples_of(store: &Store) -> BTreeMap<u32, Vec<Vec<u8>>> {
    by_space(store.read_view().spaces().flat_map(|space| {
        let tuples = whole(space.def()).map(|index| space.index_by_id(index.id).unwrap().iter());
        tuples.into_iter().flatten().map(move |tuple| (space.def().id, tuple.bytes().to_vec()))
    }))
}

/// Holds a load of a changed file against what a plain reader finds in it.
fn assert_holds(place: &str, store: &Store, file: &[u8]) {
    let view = store.read_view();
    let parts = Parts::of(file).unwrap_or_else(|| panic!("{place}: loads, but the plain reader refuses it"));
    let rows =
        parts.inserts().unwrap_or_else(|| panic!("{place}: loads, but the plain reader refuses its rows"));
    let mut spaces = by_space(rows);
    for (id, tuples) in &spaces {
        let space = view
            .space(*id)
            .unwrap_or_else(|error| panic!("{place}: rows of a space that is not there: {error}"));
        assert_eq!(space.len(), tuples.len() as u64, "{place}: tuples of space {id}");
    }
    spaces.retain(|id, _| whole(view.space(*id).unwrap().def()).is_some());
    assert_eq!(spaces, tuples_of(store), "{place}: other tuples than the file's");
    assert_order(place, store, 1);
}

/// A snapshot of a few spaces and tuples that Tarantool wrote: `case` without the rows of system spaces that its own
/// spaces do not need, and with a few tuples of each. Three blocks, the second one plain.
fn small(case: &str) -> Parts {
    const TUPLES_MAX: usize = 4;
    let file = std::fs::read(snapshot_of(&snapshots().join(case))).unwrap();
    let mut kept: BTreeMap<u32, usize> = BTreeMap::new();
    let mut chosen = Parts::of(&file).unwrap().inserts().unwrap();
    chosen.retain(|(space, tuple)| {
        let number = |field: usize| mp::int(mp::elements(tuple).unwrap()[field], 0).unwrap().0;
        match space {
            272 => tuple.windows(7).any(|seven| seven == b"version"),
            276 => number(0) <= 3,
            280 | 288 => number(0) >= 512,
            320 => true,
            0..=511 => false,
            _ => {
                let count = kept.entry(*space).or_default();
                *count += 1;
                *count <= TUPLES_MAX
            }
        }
    });
    // The text header is ours, and so is the instance that it names.
    for (_, tuple) in chosen.iter_mut().filter(|(space, _)| *space == 320) {
        *tuple = [b"\x92\x01\xd9\x24", INSTANCE.as_bytes()].concat();
    }
    let third = chosen.len() / 3;
    let mut blocks = Vec::new();
    for (first, packed) in [(0, true), (third, false), (2 * third, true)] {
        let end = if first == 2 * third { chosen.len() } else { first + third };
        blocks.push(Block::new(&rows(&chosen[first..end], first as u64), packed));
    }
    Parts { text: text(), blocks }
}

/// The small snapshots that are changed.
fn sources() -> Vec<(&'static str, Parts)> {
    vec![
        ("minimal", Parts::of(&minimal()).unwrap()),
        ("random/r26-004", small("random/r26-004")),
        ("3.9/22-random", small("3.9/22-random")),
    ]
}

#[test]
fn the_small_snapshots_are_sound() {
    let file = minimal();
    assert_eq!(
        common::hex(&Sha256::digest(&file)),
        "cf7b624eb94ea1d36953fad9038a70414567b505cc55ae6d23ded549fac748c5",
        "the smallest snapshot that Tarantool boots from"
    );
    for (name, parts) in sources() {
        let folder = tempfile::tempdir().unwrap();
        let file = parts.file();
        assert_eq!(Parts::of(&file).as_ref(), Some(&parts), "{name}");
        let store = open(folder.path(), &file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let numbered = name != "minimal";
        assert_eq!(store.report().notices.is_empty(), numbered, "{name}: {:?}", store.report().notices);
        assert_holds(name, &store, &file);
        assert!(store.read_view().spaces().any(|space| space.def().id >= 512 && !space.is_empty()), "{name}");
    }
}

#[test]
fn every_cut_is_an_error() {
    for (name, parts) in sources() {
        let file = parts.file();
        for_each(file.len(), |folder, end| {
            if open(folder, &file[..end]).is_ok() {
                panic!("{name}, cut at byte {end}: it loads");
            }
        });
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_changes_nothing() {
    for (name, parts) in sources() {
        let file = parts.file();
        let (whole, loaded) = (by_space(parts.inserts().unwrap()), AtomicUsize::new(0));
        for_each(file.len() * 8, |folder, bit| {
            let mut file = file.clone();
            flip(&mut file, bit);
            if let Ok(store) = open(folder, &file) {
                assert_eq!(tuples_of(&store), whole, "{name}, bit {} of byte {}", bit % 8, bit / 8);
                loaded.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Text that means nothing to a reader, paddings, the unused checksum, and the UUID.
        let harmless =
            file.len() * 8 - parts.blocks.iter().map(|block| block.stored.len() * 8).sum::<usize>();
        let loaded = loaded.into_inner();
        assert!(loaded < harmless, "{name}: {loaded} flips load, only {harmless} are outside payloads");
    }
}

/// Changes every bit of what the blocks hold, by a function that puts the changed bytes back in; then the checksums are
/// right.
fn reseal_every_flip(
    how: &str,
    sources: Vec<(&str, Parts)>,
    bytes_of: impl Fn(&Block) -> Vec<u8> + Sync,
    block_of: impl Fn(&Block, Vec<u8>) -> Block + Sync,
) {
    for (name, parts) in sources {
        let contents: Vec<Vec<u8>> = parts.blocks.iter().map(&bytes_of).collect();
        let bits: Vec<(usize, usize)> = contents
            .iter()
            .enumerate()
            .flat_map(|(block, content)| (0..content.len() * 8).map(move |bit| (block, bit)))
            .collect();
        let loaded = AtomicUsize::new(0);
        for_each(bits.len(), |folder, number| {
            let (block, bit) = bits[number];
            let mut content = contents[block].clone();
            flip(&mut content, bit);
            let mut parts = parts.clone();
            parts.blocks[block] = block_of(&parts.blocks[block], content);
            let file = parts.file();
            if let Ok(store) = open(folder, &file) {
                let place = format!("{name}, {how}: bit {} of byte {} of block {block}", bit % 8, bit / 8);
                assert_holds(&place, &store, &file);
                loaded.fetch_add(1, Ordering::Relaxed);
            }
        });
        println!("{name}, {how}: {} flips, {} load", bits.len(), loaded.into_inner());
    }
}

#[test]
fn every_flipped_bit_under_a_right_checksum_is_an_error_or_a_sound_store() {
    reseal_every_flip(
        "stored bytes",
        // Where a frame is broken, the rows in it matter little: one real snapshot is enough.
        sources().into_iter().filter(|(name, _)| !name.starts_with("random")).collect(),
        |block| block.stored.clone(),
        |block, stored| Block { packed: block.packed, stored },
    );
}

#[test]
fn every_flipped_bit_of_a_row_is_an_error_or_a_sound_store() {
    reseal_every_flip(
        "rows",
        sources(),
        |block| block.rows().unwrap(),
        |block, rows| Block::new(&rows, block.packed),
    );
}

/// The minimal snapshot with other rows in its user space, or other bytes in its block.
fn with_payload(change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut parts = Parts::of(&minimal()).unwrap();
    change(&mut parts.blocks[0].stored);
    parts.file()
}

#[test]
fn a_million_levels_of_nesting_are_carried_or_refused_but_exhaust_no_stack() {
    let folder = tempfile::tempdir().unwrap();
    let deep = [vec![0x91; 1_000_000], vec![0xc0]].concat();
    let row = |header: &[u8], body: &[u8]| [header, body].concat();
    let body = b"\x82\x10\xcd\x02\x00\x21".as_slice();

    // In a tuple: legal.
    let tuple = [b"\x92\x02", deep.as_slice()].concat();
    let file = with_payload(|payload| payload.extend(row(b"\x81\x00\x02", &[body, &tuple].concat())));
    let store = open(folder.path(), &file).unwrap();
    let view = store.read_view();
    let found = view.space(512u32).unwrap().primary().unwrap().get((2,)).unwrap().unwrap();
    assert!(found.bytes() == tuple);
    assert!(!found.to_json().is_empty());

    // As a key of the primary index: an array has no order.
    let tuple = [b"\x91".as_slice(), &deep].concat();
    let file = with_payload(|payload| payload.extend(row(b"\x81\x00\x02", &[body, &tuple].concat())));
    assert_eq!(open(folder.path(), &file).err().unwrap().kind(), ErrorKind::TupleFormat);

    // Under an unknown key of a row's header: skipped.
    let header = [b"\x82\x00\x02\x50".as_slice(), &deep].concat();
    let file = with_payload(|payload| payload.extend(row(&header, &[body, b"\x91\x07"].concat())));
    assert_eq!(open(folder.path(), &file).unwrap().read_view().space(512u32).unwrap().len(), 2);

    // Instead of a row's header.
    let file = with_payload(|payload| payload.extend(&deep));
    assert!(open(folder.path(), &file).is_err());

    // As the flags of a space, as the format of one.
    for tail in [[deep.as_slice(), b"\x90"].concat(), [b"\x80".as_slice(), &deep].concat()] {
        let space = [b"\x97\xcd\x02\x01\x01\xa1u\xa5memtx\x00".as_slice(), &tail].concat();
        let row = [b"\x81\x00\x02\x82\x10\xcd\x01\x18\x21".as_slice(), &space].concat();
        let file = with_payload(|payload| {
            payload.splice(0..0, row);
        });
        assert_eq!(open(folder.path(), &file).err().unwrap().kind(), ErrorKind::Schema);
    }
}

#[test]
fn promises_of_four_billion_elements_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for first in [0xc6u8, 0xc9, 0xdb, 0xdd, 0xdf] {
        let promise = [first, 0xff, 0xff, 0xff, 0xff];
        for before in [
            b"\x81\x00\x02\x82\x10\xcd\x02\x00\x21".as_slice(),
            b"\x81\x00\x02\x82\x10\xcd\x02\x00\x21\x92\x02",
            b"\x81\x00\x02\x82\x50",
            b"\x82\x00\x02\x50",
            b"",
        ] {
            let file = with_payload(|payload| payload.extend([before, &promise].concat()));
            assert!(open(folder.path(), &file).is_err(), "{first:#04x} after {}", common::hex(before));
        }
    }
}

#[test]
fn bytes_after_a_tuple_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = with_payload(|payload| payload.push(0xc0));
    let error = open(folder.path(), &file).expect_err("a nil is no row");
    assert_eq!(error.place().block, Some(0), "{error}");
    assert_eq!(error.place().row, Some(5), "{error}");
}

#[test]
fn rows_out_of_order_and_in_several_runs_are_sorted_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let base = Parts::of(&minimal()).unwrap().inserts().unwrap();
    let tuple = |id: u8| (512, vec![0x91, id]);
    let mut chosen = base[..4].to_vec();
    chosen.extend([5, 3, 9].map(tuple));
    chosen.push((320, b"\x92\x02\xa1x".to_vec()));
    chosen.extend([4, 1].map(tuple));
    let blocks = vec![Block::new(&rows(&chosen, 0), false)];
    let store = open(folder.path(), &Parts { text: text(), blocks }.file()).unwrap();
    let ids: Vec<u8> = store
        .read_view()
        .space("t")
        .unwrap()
        .primary()
        .unwrap()
        .iter()
        .map(|tuple| tuple.bytes()[1])
        .collect();
    assert_eq!(ids, [1, 3, 4, 5, 9]);
    let report = store.report().spaces.iter().find(|space| space.id == 512).unwrap();
    assert!(report.sorted);
}

#[test]
fn equal_keys_are_an_error_that_names_both_tuples() {
    let folder = tempfile::tempdir().unwrap();
    let base = Parts::of(&minimal()).unwrap().inserts().unwrap();
    // In a row, far apart in one block, and in two blocks.
    for between in [0u8, 50] {
        for cut in [false, true] {
            let mut chosen = base.clone();
            chosen.extend((2..2 + between).map(|id| (512, vec![0x91, id])));
            let cut_at = chosen.len();
            chosen.push((512, b"\x92\x01\xa5again".to_vec()));
            let blocks = match cut {
                false => vec![Block::new(&rows(&chosen, 0), false)],
                true => vec![
                    Block::new(&rows(&chosen[..cut_at], 0), true),
                    Block::new(&rows(&chosen[cut_at..], cut_at as u64), false),
                ],
            };
            let error =
                open(folder.path(), &Parts { text: text(), blocks }.file()).expect_err("1 is there twice");
            assert_eq!(error.kind(), ErrorKind::DuplicateKey, "{error}");
            assert_eq!(error.place().space.as_deref(), Some("t"), "{error}");
            let found = error.finding().unwrap();
            assert!(found.contains("one") && found.contains("again"), "{error}");
        }
    }
}

#[test]
fn a_file_that_is_no_snapshot_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let kind_of = |bytes: &[u8]| open(folder.path(), bytes).err().unwrap().kind();
    assert_eq!(kind_of(b"not a snapshot at all, but some text\n\nthat goes on"), ErrorKind::NotSuchFile);
    assert_eq!(kind_of(&std::fs::read(log_of("damaged-snap-bad-rows")).unwrap()), ErrorKind::NotSuchFile);
    assert_eq!(kind_of(&[0; 4096]), ErrorKind::NotSuchFile);
    let missing = Store::open(folder.path().join("missing")).err().unwrap();
    assert_eq!(missing.kind(), ErrorKind::Missing, "{missing}");
    let empty = tempfile::tempdir().unwrap();
    let error = Store::open(empty.path()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
}

fn log_of(case: &str) -> PathBuf {
    snapshots().join("damaged").join(case).join("00000000000000000487.xlog")
}
