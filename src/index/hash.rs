//! The HASH index: a tree in the order of the keys' hashes.
//!
//! The hint of an entry is the whole 64-bit hash, so a search never looks at a tuple until it stands before
//! the few entries (nearly always one) that have the hash it seeks. What a hash table would save over that
//! are the upper levels, which are in the cache anyway. What the tree gives: entries of 12 bytes without
//! empty slots between them, versions, copy-on-write and reclamation exactly as in other trees, growth
//! without a pause to rehash, building in parallel by the same buckets (splitters need no sampling: hashes
//! are spread evenly), and a shape that no choice of keys can spoil.
//!
//! Keys of one hash are told apart by the caller's `equal`, one by one: the hash must have a secret seed
//! wherever keys come from strangers, or they could choose a million keys of one hash.
//!
//! The order of iteration is that of the hashes, which is to say none.

use super::tree::Tree;
use super::tree::bulk::Leaves;
use super::tree::cursor::Place;
use super::tree::node::{Entry, NodeWriter};
use super::tree::search::Probe;
use crate::error::Result;
use crate::tuple::slab::Handle;

/// A version of a HASH index; `clone` is another name for the same version, at no cost.
#[derive(Clone)]
pub(crate) struct HashIndex {
    tree: Tree<false>,
}

/// The place before the first entry of a hash.
struct FirstOf(u64);

impl Probe for FirstOf {
    #[inline]
    fn hints(&self) -> (u64, u64) {
        (self.0, self.0)
    }

    #[inline]
    fn before(&self, _: Entry) -> bool {
        false
    }
}

/// Two tuples of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Twins(pub(crate) Handle, pub(crate) Handle);

/// Looks for two equal keys among `(hash, handle)` pairs that are sorted by hash.
pub(crate) fn find_twins(
    sorted: &[(u64, u32)],
    mut equal: impl FnMut(Handle, Handle) -> bool,
) -> Option<Twins> {
    for same_hash in sorted.chunk_by(|one, next| one.0 == next.0).filter(|run| run.len() > 1) {
        for (number, &(_, one)) in same_hash.iter().enumerate() {
            let (one, others) = (Handle(one), &same_hash[number + 1..]);
            if let Some(&(_, other)) = others.iter().find(|&&(_, other)| equal(one, Handle(other))) {
                return Some(Twins(one, Handle(other)));
            }
        }
    }
    None
}

impl HashIndex {
    /// An index of leaves that are in the order of their hashes, without equal keys (`find_twins`).
    pub(crate) fn from_leaves(leaves: Leaves<false>, writer: &mut NodeWriter, txn: u64) -> Result<Self> {
        Ok(Self { tree: Tree::from_leaves(leaves, writer, txn)? })
    }

    pub(crate) fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Gives all nodes back, which nobody else may know.
    pub(crate) fn free(self) {
        self.tree.free();
    }

    /// The tree below, in the order of hashes.
    pub(crate) fn tree(&self) -> &Tree<false> {
        &self.tree
    }

    /// The tuple whose key has this hash and which `equal` says is the one.
    #[inline]
    pub(crate) fn get(&self, hash: u64, equal: impl FnMut(Handle) -> bool) -> Option<Handle> {
        self.seek(hash, equal).1
    }

    /// The tuple that `get` gives and the place before it; without one the place where it would be.
    #[inline]
    pub(crate) fn seek(
        &self,
        hash: u64,
        mut equal: impl FnMut(Handle) -> bool,
    ) -> (Option<Place>, Option<Handle>) {
        let mut cursor = self.tree.lower_bound(&FirstOf(hash));
        let first = cursor.place();
        while let Some(entry) = cursor.entry().filter(|entry| entry.hint == hash) {
            if equal(entry.handle) {
                return (cursor.place(), Some(entry.handle));
            }
            cursor.next();
        }
        (first, None)
    }

    /// The tree below, to edit at what `seek` gives; the hint of an entry is its hash.
    pub(crate) fn tree_mut(&mut self) -> &mut Tree<false> {
        &mut self.tree
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;
    use std::collections::HashMap;

    use std::sync::Arc;

    use super::super::tree::bulk::LeafWriter;
    use super::super::tree::edit::Edit;
    use super::super::tree::node::NodePool;
    use super::*;

    /// A poor hash on purpose: four keys in a row share one, spread over all 64 bits.
    fn hash(key: u32) -> u64 {
        u64::from(key / 4).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// An index of all these `(hash, handle)` pairs, or two of them whose keys are equal.
    fn bulk(
        pool: &Arc<NodePool>,
        mut pairs: Vec<(u64, u32)>,
        equal: impl FnMut(Handle, Handle) -> bool,
    ) -> Result<HashIndex, Twins> {
        pairs.sort_unstable();
        if let Some(twins) = find_twins(&pairs, equal) {
            return Err(twins);
        }
        let mut leaves = LeafWriter::new(NodeWriter::new(pool.clone()), 1);
        pairs.into_iter().for_each(|(hash, handle)| leaves.push(hash, Handle(handle)).unwrap());
        let all = leaves.cut();
        Ok(HashIndex::from_leaves(all, &mut NodeWriter::new(pool.clone()), 1).unwrap())
    }

    fn check(index: &HashIndex) {
        index.tree().check(|_, _| Ordering::Less).unwrap();
    }

    #[test]
    fn an_index_built_at_once_finds_every_key_and_no_other() {
        for count in [0, 1, 62, 63, 5000] {
            let pool = NodePool::new(Arc::default());
            // The handle is the key, so equality is that of handles.
            let pairs = (0..count).map(|number| (hash(number * 2), number * 2)).collect();
            let index = bulk(&pool, pairs, |a, b| a == b).unwrap();
            check(&index);
            assert_eq!(index.len(), u64::from(count));
            for key in 0..2 * count + 8 {
                let expected = (key % 2 == 0 && key < 2 * count).then_some(Handle(key));
                assert_eq!(index.get(hash(key), |handle| handle.0 == key), expected, "{count}, {key}");
            }
            let mut all: Vec<u32> = index.tree().begin().map(|entry| entry.handle.0).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq((0..count).map(|number| number * 2)));
        }
    }

    #[test]
    fn two_tuples_of_one_key_are_named() {
        let pool = NodePool::new(Arc::default());
        // The key is the handle without its lowest bit: 40 and 41 are twins.
        let mut pairs: Vec<(u64, u32)> = (0..100).map(|number| (hash(number), number * 2)).collect();
        let same_key = |a: Handle, b: Handle| a.0 / 2 == b.0 / 2;
        assert!(bulk(&pool, pairs.clone(), same_key).is_ok());
        pairs.push((hash(20), 41));
        assert_eq!(bulk(&pool, pairs, same_key).err(), Some(Twins(Handle(40), Handle(41))));
    }

    #[test]
    fn random_edits_agree_with_a_hash_map_and_old_versions_stay() {
        for seed in 1..if cfg!(miri) { 2 } else { 5 } {
            println!("seed {seed}");
            let mut random = fastrand::Rng::with_seed(seed);
            let pool = NodePool::new(Arc::default());
            let mut index = HashIndex { tree: Tree::new(pool.clone()) };
            let mut writer = NodeWriter::new(pool.clone());
            let mut retired = Vec::new();
            // Keys to versions; the handle holds both.
            let mut model: HashMap<u32, u32> = HashMap::new();
            let mut held: Option<(HashIndex, HashMap<u32, u32>)> = None;
            for step in 0..if cfg!(miri) { 300 } else { 20_000u32 } {
                let txn = u64::from(step / 50);
                let mut edit = Edit { txn, writer: &mut writer, retired: &mut retired };
                if step % 1000 == 0 {
                    held = Some((index.clone(), model.clone()));
                }
                let key = random.u32(0..3000);
                let this = |handle: Handle| handle.0 & 0xffff == key;
                let old = model.get(&key).map(|version| Handle(version << 16 | key));
                assert_eq!(index.get(hash(key), this), old);
                let version = random.u32(0..60_000);
                let new = Handle(version << 16 | key);
                let (place, there) = index.seek(hash(key), this);
                assert_eq!(there, old);
                let tree = index.tree_mut();
                let entry = Entry { hint: hash(key), handle: new, element: 0 };
                match (random.u8(..) < 100, old) {
                    (true, None) => {}
                    (true, Some(_)) => {
                        assert_eq!(tree.remove_at(place, &mut edit).unwrap().map(|entry| entry.handle), old);
                        model.remove(&key);
                    }
                    (false, None) => {
                        tree.insert_at(place, entry, &mut edit).unwrap();
                        model.insert(key, version);
                    }
                    (false, Some(_)) => {
                        let gone = tree.replace_at(place, entry, &mut edit).unwrap();
                        assert_eq!(gone.map(|entry| entry.handle), old);
                        model.insert(key, version);
                    }
                }
                if step % 1000 == 999 {
                    let (old, content) = held.as_ref().unwrap();
                    for (version, content) in [(&index, &model), (old, content)] {
                        check(version);
                        assert_eq!(version.len(), content.len() as u64);
                        let as_map = |entry: Entry| (entry.handle.0 & 0xffff, entry.handle.0 >> 16);
                        assert_eq!(version.tree().begin().map(as_map).collect::<HashMap<_, _>>(), *content);
                    }
                }
            }
        }
    }
}
