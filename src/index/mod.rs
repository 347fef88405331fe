//! Order over tuples: trees, and hash tables.

pub(crate) mod hash;
#[expect(unsafe_code, reason = "turns the number of a block into its address")]
pub(crate) mod pool;
pub(crate) mod tree;
