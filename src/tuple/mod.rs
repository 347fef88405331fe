//! A row's array as a record of a known shape.

#[expect(unsafe_code, reason = "the memory that tuples and nodes live in, shared by threads")]
pub(crate) mod slab;
