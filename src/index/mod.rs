//! Order over tuples: key definitions, hints, and the indexes themselves. Knows no files.
//!
//! ```text
//! parts of an index -> key_def -> compare    in full
//!                              -> hint       64 bits that order like the key, as far as they go
//!                              -> hash_key   hash and equality, for HASH
//! tuples of a recovery -> build -> tree, hash
//! a search key -> key -> a place in a tree
//! a changed tuple -> change -> its entries put in, put over old ones, or taken out
//! ```

pub(crate) mod build;
pub(crate) mod change;
pub(crate) mod compare;
pub(crate) mod hash;
pub(crate) mod hash_key;
pub(crate) mod hint;
pub(crate) mod iterator;
pub(crate) mod key;
pub(crate) mod key_def;
pub(crate) mod merge;
pub(crate) mod multikey;
#[expect(unsafe_code, reason = "turns the number of a block into its address")]
pub(crate) mod pool;
pub(crate) mod sort;
pub(crate) mod tree;

#[cfg(test)]
pub(crate) mod twin_tests;
