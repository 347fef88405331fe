//! A row's array as a record of a known shape.
//!
//! A [`format::Format`] is compiled once per space from its field definitions and the key parts of its indexes. Its
//! walk over a row's MsgPack array validates the bytes and the fields in one pass and notes where the fields begin
//! that indexes need to reach: the field map, which is stored in front of the tuple.
//!
//! ```text
//! field definitions, key parts -> format -> walk (plain | nested) -> field map -> [head][field map][MsgPack]
//! ```

#[expect(
    unsafe_code,
    reason = "handles are looked up in raw slabs, whose bytes are written once, then shared"
)]
pub(crate) mod arena;
pub(crate) mod fault;
#[expect(unsafe_code, reason = "a stored tuple is found by the address of its head")]
pub(crate) mod field_map;
pub(crate) mod field_type;
pub(crate) mod format;
#[cfg(not(lycosa_plain_only))]
mod nested;
pub(crate) mod part;
pub(crate) mod path;
mod plain;
#[expect(
    unsafe_code,
    reason = "raw memory: slabs from maps and the allocator, and a table of their addresses"
)]
pub(crate) mod slab;
pub(crate) mod update;
