//! Trees against `BTreeSet`s: built at once, one by one, edited at random, with old versions held.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::Tree;
use super::bulk::{BulkEntry, LeafWriter};
use super::edit::Edit;
use super::node::{Entry, NodeId, NodePool, NodeWriter};
use super::search::Probe;
use crate::tuple::slab::{Budget, Handle};

/// Keys are made of handle and element; hints are coarse, so that eight keys tie.
fn entry<const MULTI: bool>(key: u32) -> Entry {
    let (handle, element) = if MULTI { (key / 3, key % 3) } else { (key, 0) };
    Entry { hint: u64::from(key / 8), handle: Handle(handle), element }
}

fn key<const MULTI: bool>(entry: Entry) -> u32 {
    if MULTI { entry.handle.0 * 3 + entry.element } else { entry.handle.0 }
}

fn order<const MULTI: bool>(a: Entry, b: Entry) -> Ordering {
    key::<MULTI>(a).cmp(&key::<MULTI>(b))
}

/// The place before the first key that is not less than this one.
struct From<const MULTI: bool> {
    key: u32,
    hinted: bool,
}

impl<const MULTI: bool> Probe for From<MULTI> {
    fn hints(&self) -> (u64, u64) {
        let hint = u64::from(self.key / 8);
        if self.hinted { (hint, hint) } else { (0, u64::MAX) }
    }

    fn before(&self, entry: Entry) -> bool {
        key::<MULTI>(entry) < self.key
    }
}

fn from<const MULTI: bool>(key: u32) -> From<MULTI> {
    From { key, hinted: key.is_multiple_of(2) }
}

fn new_pool() -> Arc<NodePool> {
    NodePool::new(Arc::default())
}

fn bulk<const MULTI: bool>(pool: &Arc<NodePool>, keys: impl Iterator<Item = u32>) -> Tree<MULTI> {
    let mut leaves = LeafWriter::<MULTI>::new(NodeWriter::new(pool.clone()), 1);
    keys.for_each(|key| leaves.push_entry(entry::<MULTI>(key)).unwrap());
    let all = leaves.cut();
    Tree::from_leaves(all, &mut NodeWriter::new(pool.clone()), 1).unwrap()
}

fn keys<const MULTI: bool>(tree: &Tree<MULTI>) -> Vec<u32> {
    tree.begin().map(key::<MULTI>).collect()
}

/// Edits trees and keeps what they retire.
struct Hand {
    writer: NodeWriter,
    retired: Vec<NodeId>,
    txn: u64,
}

impl Hand {
    fn new(pool: &Arc<NodePool>) -> Self {
        Self { writer: NodeWriter::new(pool.clone()), retired: Vec::new(), txn: 2 }
    }

    fn edit(&mut self) -> Edit<'_> {
        Edit { txn: self.txn, writer: &mut self.writer, retired: &mut self.retired }
    }

    fn insert<const MULTI: bool>(&mut self, tree: &mut Tree<MULTI>, key: u32) {
        tree.insert(entry::<MULTI>(key), &from::<MULTI>(key), &mut self.edit()).unwrap();
    }

    fn remove<const MULTI: bool>(&mut self, tree: &mut Tree<MULTI>, key: u32) {
        let place = tree.lower_bound(&from::<MULTI>(key)).place();
        assert_eq!(tree.remove_at(place, &mut self.edit()).unwrap(), Some(entry::<MULTI>(key)));
    }
}

fn sizes<const MULTI: bool>() -> Vec<u32> {
    let (leaf, inner) = if MULTI { (47, 37) } else { (62, 47) };
    let mut sizes: Vec<u32> = (0..4).collect();
    for full in [leaf, leaf * inner, 2 * leaf * inner] {
        sizes.extend([full - 1, full, full + 1]);
    }
    if !cfg!(miri) {
        let full = leaf * inner * inner;
        sizes.extend([full - 1, full, full + 1]);
    }
    sizes
}

fn one_by_one_equals_bulk<const MULTI: bool>() {
    for count in sizes::<MULTI>() {
        let pool = new_pool();
        let at_once = bulk::<MULTI>(&pool, 0..count);
        at_once.check(order::<MULTI>).unwrap();
        let mut hand = Hand::new(&pool);
        let mut ascending = Tree::<MULTI>::new(pool.clone());
        (0..count).for_each(|key| hand.insert(&mut ascending, key));
        let mut descending = Tree::<MULTI>::new(pool.clone());
        (0..count).rev().for_each(|key| hand.insert(&mut descending, key));
        for tree in [&ascending, &descending] {
            tree.check(order::<MULTI>).unwrap();
            assert_eq!(tree.len(), u64::from(count));
            assert!(tree.begin().eq(at_once.begin()));
        }
        assert!(at_once.begin().map(key::<MULTI>).eq(0..count));
        // Entries in order fill their nodes as well as the bulk path does.
        assert_eq!(ascending.levels, at_once.levels);
        assert_eq!(hand.retired, []);
    }
}

#[test]
fn inserting_one_by_one_equals_building_at_once_at_every_threshold() {
    one_by_one_equals_bulk::<false>();
    one_by_one_equals_bulk::<true>();
}

#[test]
fn partly_filled_leaves_make_a_tree_that_can_be_edited() {
    let pool = new_pool();
    let mut leaves = LeafWriter::<false>::new(NodeWriter::new(pool.clone()), 1);
    let mut all = super::bulk::Leaves::default();
    for number in 0..1000 {
        leaves.push_entry((u64::from(number) * 2 / 8, number * 2).entry()).unwrap();
        if number % 7 == 0 || number % 60 == 3 {
            all.append(leaves.cut());
        }
    }
    all.append(leaves.cut());
    let mut tree = Tree::from_leaves(all, &mut NodeWriter::new(pool.clone()), 1).unwrap();
    tree.check(order::<false>).unwrap();
    let mut hand = Hand::new(&pool);
    for number in 0..1000 {
        hand.insert(&mut tree, number * 2 + 1);
    }
    tree.check(order::<false>).unwrap();
    assert_eq!(keys(&tree), (0..2000).collect::<Vec<u32>>());
    for number in (0..2000).filter(|number| number % 5 != 0) {
        hand.remove(&mut tree, number);
    }
    tree.check(order::<false>).unwrap();
    assert_eq!(keys(&tree), (0..2000).step_by(5).collect::<Vec<u32>>());
}

fn cursors_go_both_ways<const MULTI: bool>() {
    for count in sizes::<MULTI>().into_iter().filter(|&count| count < 7000) {
        let pool = new_pool();
        // Every other key is there, so that each place has keys in and between.
        let tree = bulk::<MULTI>(&pool, (0..count).map(|number| number * 2));
        let mut end = tree.end();
        assert!(end.entry().is_none() && end.next().is_none());
        assert!(
            std::iter::from_fn(|| end.prev()).map(key::<MULTI>).eq((0..count).map(|number| number * 2).rev())
        );
        assert_eq!(end.prev(), None);
        assert!(end.map(key::<MULTI>).eq((0..count).map(|number| number * 2)));

        for sought in (0..2 * count + 2).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let hinted = sought % 3 != 0;
            let mut cursor = tree.lower_bound(&From::<MULTI> { key: sought, hinted });
            let behind = Some(sought.next_multiple_of(2)).filter(|&key| key < 2 * count);
            let before = (sought.div_ceil(2)).checked_sub(1).map(|number| number * 2).filter(|_| count > 0);
            let before = before.map(|key| key.min(2 * (count.max(1) - 1)));
            assert_eq!(cursor.clone().prev().map(key::<MULTI>), before, "{count}, {sought}");
            assert_eq!(cursor.entry().map(key::<MULTI>), behind, "{count}, {sought}");
            if before.is_some() {
                assert_eq!(cursor.prev().map(key::<MULTI>), before);
                assert_eq!(cursor.next().map(key::<MULTI>), before);
            }
            assert_eq!(cursor.next().map(key::<MULTI>), behind);
            let rest = cursor.map(key::<MULTI>).count() as u32;
            assert_eq!(rest, behind.map_or(0, |key| count - 1 - key / 2));
        }

        let mut cursor = tree.lower_bound(&from::<MULTI>(count));
        let mut handles = Vec::new();
        while let Some(run) = cursor.next_handles() {
            assert!(!run.is_empty());
            handles.extend_from_slice(run);
        }
        let expected = tree.lower_bound(&from::<MULTI>(count)).map(|entry| entry.handle);
        assert_eq!(handles, expected.collect::<Vec<Handle>>());
    }
}

#[test]
fn a_cursor_gives_its_neighbours_and_walks_in_both_directions() {
    cursors_go_both_ways::<false>();
    cursors_go_both_ways::<true>();
}

/// Random edits in transactions of random length, with every version since some time held and compared.
fn versions_stay<const MULTI: bool>(seed: u64, transactions: usize, range: u32) {
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let pool = new_pool();
    let mut model: BTreeSet<u32> = (0..range / 2).map(|number| number * 2).collect();
    let mut tree = bulk::<MULTI>(&pool, model.iter().copied());
    let mut hand = Hand::new(&pool);
    let mut held: Vec<(Tree<MULTI>, BTreeSet<u32>, HashSet<NodeId>)> = Vec::new();
    let mut all_retired = Vec::new();
    for transaction in 0..transactions {
        let nodes: HashSet<NodeId> = tree.check(order::<MULTI>).unwrap().into_iter().collect();
        held.push((tree.clone(), model.clone(), nodes));
        // Mostly growing, then mostly shrinking, now and then to nothing.
        let growing = transaction / 6 % 3 != 2;
        let edits_max = if random.u8(..) < 200 { 20 } else { range as usize };
        for _ in 0..random.usize(1..edits_max) {
            let key = random.u32(0..range);
            if model.contains(&key) {
                if random.u8(..) < if growing { 40 } else { 250 } {
                    model.remove(&key);
                    hand.remove(&mut tree, key);
                } else {
                    let place = tree.lower_bound(&from::<MULTI>(key)).place();
                    let old = tree.replace_at(place, entry::<MULTI>(key), &mut hand.edit()).unwrap();
                    assert_eq!(old, Some(entry::<MULTI>(key)));
                }
            } else if growing {
                model.insert(key);
                hand.insert(&mut tree, key);
            }
        }
        if transaction % 10 == 9 {
            for key in std::mem::take(&mut model) {
                hand.remove(&mut tree, key);
            }
        }
        let nodes: HashSet<NodeId> = tree.check(order::<MULTI>).unwrap().into_iter().collect();
        assert!(tree.begin().map(key::<MULTI>).eq(model.iter().copied()), "transaction {transaction}");
        // What a transaction retires is exactly what the old version alone still uses.
        let retired: HashSet<NodeId> = hand.retired.iter().copied().collect();
        assert_eq!(retired.len(), hand.retired.len());
        let (_, _, before) = &held[held.len() - 1];
        assert_eq!(retired, before - &nodes, "transaction {transaction}");
        all_retired.append(&mut hand.retired);
        hand.txn += 1;
        if held.len() > 5 {
            held.remove(random.usize(0..5));
        }
        for (old, content, _) in &held {
            assert!(old.begin().map(key::<MULTI>).eq(content.iter().copied()), "transaction {transaction}");
        }
    }
    // No node is lost: in use, retired or free.
    drop(hand);
    let (all, free) = pool.census();
    assert_eq!(all, free + all_retired.len() + tree.check(order::<MULTI>).unwrap().len());
}

#[test]
fn old_versions_stay_as_they_were_and_no_node_is_lost() {
    let transactions = if cfg!(miri) { 6 } else { 120 };
    for seed in 1..if cfg!(miri) { 2 } else { 6 } {
        versions_stay::<false>(seed, transactions, 400 << seed);
        versions_stay::<true>(seed, transactions, 400 << seed);
    }
}

#[test]
fn an_entry_that_is_replaced_everywhere_it_stands_for_a_child_leaves_no_trace() {
    let pool = new_pool();
    let mut tree = bulk::<false>(&pool, 0..10_000);
    let mut hand = Hand::new(&pool);
    // From the end, so that the probe still finds its way by the entries before.
    for key in (0..10_000).rev() {
        let place = tree.lower_bound(&from::<false>(key)).place();
        let newer = Entry { handle: Handle(key + 100_000), ..entry::<false>(key) };
        tree.replace_at(place, newer, &mut hand.edit()).unwrap();
    }
    tree.check(|a, b| (a.handle.0 % 100_000).cmp(&(b.handle.0 % 100_000))).unwrap();
    assert!(tree.begin().all(|entry| entry.handle.0 >= 100_000));
    let end = tree.end().place();
    assert_eq!(tree.replace_at(end, entry::<false>(1), &mut hand.edit()).unwrap(), None);
    assert_eq!(tree.remove_at(end, &mut hand.edit()).unwrap(), None);
}

#[test]
fn an_edit_that_finds_no_memory_is_an_error_and_changes_nothing() {
    let pool = NodePool::new(Arc::new(Budget::new(Some(32768))));
    let mut tree = Tree::<false>::new(pool.clone());
    let mut hand = Hand::new(&pool);
    let mut count = 0;
    let error = loop {
        let place = tree.end().place();
        match tree.insert_at(place, entry::<false>(count), &mut hand.edit()) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), crate::error::ErrorKind::Memory);
    assert!(count > 1000);
    tree.check(order::<false>).unwrap();
    assert_eq!(keys(&tree), (0..count).collect::<Vec<u32>>());
    let held = tree.clone();
    hand.txn += 1;
    // In the new transaction every edit copies, until no node is left for it.
    let refused = (0..count).find(|&key| {
        let place = tree.lower_bound(&from::<false>(key)).place();
        tree.remove_at(place, &mut hand.edit()).is_err()
    });
    tree.check(order::<false>).unwrap();
    assert_eq!(keys(&tree), (refused.unwrap()..count).collect::<Vec<u32>>());
    assert_eq!(keys(&held), (0..count).collect::<Vec<u32>>());
}

#[test]
fn readers_walk_an_old_version_while_the_next_is_made() {
    let pool = new_pool();
    let mut tree = bulk::<false>(&pool, (0..if cfg!(miri) { 300 } else { 20_000 }).map(|number| number * 2));
    let old = tree.clone();
    let expected = keys(&old);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..20).for_each(|_| assert_eq!(keys(&old), expected)));
        }
        let mut hand = Hand::new(&pool);
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..expected.len() {
            let key = random.u32(0..2 * expected.len() as u32);
            let found = tree.lower_bound(&from::<false>(key)).entry();
            if found == Some(entry::<false>(key)) {
                hand.remove(&mut tree, key);
            } else {
                hand.insert(&mut tree, key);
            }
            hand.txn += u64::from(key.is_multiple_of(10));
        }
        tree.check(order::<false>).unwrap();
    });
}
