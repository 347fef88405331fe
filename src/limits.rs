//! The numbers of the file format and of this implementation, each with its unit and reason.

/// Bytes of a block's head: magic, length, unused CRC, CRC, padding.
pub(crate) const BLOCK_HEAD_BYTES: usize = 19;

/// The longest text header that Tarantool looks for (`XLOG_META_LEN_MAX`): 1024 bytes and room for two vclocks.
pub(crate) const TEXT_HEADER_BYTES_MAX: usize = 1024 + 834;

/// The longest stored payload of a block (`IPROTO_BODY_LEN_MAX`).
pub(crate) const BLOCK_STORED_BYTES_MAX: u64 = 2_147_483_648;

/// The most that one zstd block may unpack to. Nothing in the format bounds it; Tarantool's blocks are 128 KiB plus
/// one row, a row is at most 2 GiB by the length field of a plain block, so a larger one was never a row.
pub(crate) const BLOCK_UNPACKED_BYTES_MAX: usize = 2_147_483_648;

/// What is written before a block is closed (`XLOG_TX_AUTOCOMMIT_THRESHOLD`), hence the usual size of a block.
pub(crate) const BLOCK_USUAL_BYTES: usize = 131_072;

/// Blocks of so many bytes, head included, are compressed (`XLOG_TX_COMPRESS_THRESHOLD`): smaller ones gain nothing.
pub(crate) const BLOCK_COMPRESSED_BYTES_MIN: usize = 2048;

/// Components of a vclock: 31 replicas and component 0, the local rows.
pub(crate) const VCLOCK_COMPONENTS: usize = 32;

/// Ids below this one belong to the system spaces (`BOX_SYSTEM_ID_MAX` is 511).
pub(crate) const SYSTEM_SPACE_ID_END: u32 = 512;

/// The greatest id of a space (`BOX_SPACE_MAX`).
pub(crate) const SPACE_ID_MAX: u32 = 2_147_483_647;

/// Indexes a space (`BOX_INDEX_MAX`).
pub(crate) const INDEXES_MAX: u32 = 128;

/// Bytes of a tuple that is written, unless the caller says otherwise (`memtx_max_tuple_size`).
pub(crate) const TUPLE_BYTES_MAX: usize = 1 << 20;

/// Parts an index (`BOX_INDEX_PART_MAX`).
pub(crate) const INDEX_PARTS_MAX: usize = 255;

/// The greatest field number of an index part (`BOX_INDEX_FIELD_MAX`).
pub(crate) const INDEX_FIELD_MAX: u32 = 32_767;

/// Levels of nesting that are printed as JSON and read from it; what lies deeper is printed as its bytes.
pub(crate) const NESTING_MAX: usize = 512;

/// Log2 of the bytes that a slab may have: 32 MiB, 16 huge pages, so that little is left over at its end.
pub(crate) const SLAB_BITS: u32 = 25;

/// Handles name units of 8 bytes: the alignment of a tuple's head.
pub(crate) const HANDLE_UNIT_BITS: u32 = 3;

/// Slabs that a 4-byte handle can name: 32 GiB a space in all.
pub(crate) const SLABS_MAX: u32 = 1 << (32 - (SLAB_BITS - HANDLE_UNIT_BITS));

const _: () = assert!(SLABS_MAX == 1024);
const _: () = assert!(BLOCK_STORED_BYTES_MAX <= BLOCK_UNPACKED_BYTES_MAX as u64);
