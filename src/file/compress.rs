//! Compressed payloads: zstd frames, one after another, in practice always one.
//!
//! Tarantool writes its frames without their content's size, so the reader cannot know how large a buffer it
//! needs. A block is 128 KiB of rows and at most one row more, though, and the buffer is kept from block to
//! block: nearly every frame is unpacked by one call straight into its place. (The streaming call would first
//! unpack into a window of 2 MiB a thread and copy from there.) A frame that does not fit is unpacked again
//! into a buffer four times as large: a third of the work may be wasted, and memory grows with what really
//! comes out, never with what the frame says of itself.

use crate::error::{Error, ErrorKind};
use crate::limits::{BLOCK_UNPACKED_BYTES_MAX, BLOCK_USUAL_BYTES};
use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, DCtx, InBuffer, OutBuffer, get_error_name, is_error_kind};

/// What the buffer begins with: a usual block whose last row is as long as the rest.
const BUFFER_BYTES_MIN: usize = 2 * BLOCK_USUAL_BYTES;

/// A buffer beyond this size is given back after the block that needed it.
pub(crate) const BUFFER_BYTES_KEPT: usize = 32 * BLOCK_USUAL_BYTES;

/// Unpacks payloads one after another into a buffer of its own.
pub(crate) struct Unpacker {
    context: DCtx<'static>,
    buffer: Vec<u8>,
    bytes_max: usize,
}

impl Unpacker {
    /// `bytes_max`: the most that one payload may unpack to, cut to the format's own limit.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(BLOCK_UNPACKED_BYTES_MAX);
        Self { context: DCtx::create(), buffer: Vec::new(), bytes_max }
    }

    /// The rows of a compressed payload. The error lacks its place.
    pub(crate) fn unpack(&mut self, payload: &[u8]) -> Result<&[u8], Error> {
        if self.buffer.capacity() > BUFFER_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        let mut bytes = self.buffer.capacity().max(BUFFER_BYTES_MIN);
        loop {
            // One byte over the limit tells a payload that fits exactly from one that does not.
            bytes = bytes.min(self.bytes_max.saturating_add(1));
            self.buffer.clear();
            if self.buffer.try_reserve_exact(bytes).is_err() {
                return Err(no_memory(bytes));
            }
            match self.context.decompress(&mut self.buffer, payload) {
                Ok(_) if self.buffer.len() <= self.bytes_max => return Ok(&self.buffer),
                Ok(_) => {}
                Err(code) if !is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => {
                    return Err(Error::new(ErrorKind::Compression, "zstd")
                        .expected(format_args!("{} bytes of whole frames", payload.len()))
                        .found(get_error_name(code).to_lowercase()));
                }
                Err(_) if bytes <= self.bytes_max => {
                    bytes = bytes.saturating_mul(4);
                    continue;
                }
                Err(_) => {}
            }
            self.buffer = Vec::new();
            // Under a limit of the caller's own the file is not to blame.
            let (kind, what) = if self.bytes_max < BLOCK_UNPACKED_BYTES_MAX {
                (ErrorKind::Memory, "memory limit for an unpacked block")
            } else {
                (ErrorKind::Limit, "unpacked block")
            };
            return Err(Error::new(kind, what)
                .expected(format_args!("at most {} bytes", self.bytes_max))
                .found(format_args!("more, from {} stored ones", payload.len())));
        }
    }
}

impl Unpacker {
    /// The rows that a damaged payload begins with: those of the blocks of its frame before the one that zstd cannot
    /// unpack, within the limit.
    pub(crate) fn unpack_head(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut context = DCtx::create();
        let mut rows = Vec::new();
        // A call that finds a fault forgets what it unpacked before, so each gets no more than a byte, or few.
        let step = 1 + (payload.len() >> 20);
        'all: for part in payload.chunks(step) {
            let mut input = InBuffer::around(part);
            loop {
                let filled = rows.len();
                if filled >= self.bytes_max || rows.try_reserve(BUFFER_BYTES_MIN.min(self.bytes_max)).is_err()
                {
                    break 'all;
                }
                let mut output = OutBuffer::around_pos(&mut rows, filled);
                if context.decompress_stream(&mut output, &mut input).is_err() {
                    break 'all;
                }
                let is_full = output.pos() == output.capacity();
                if !is_full && input.pos() == part.len() {
                    break;
                }
            }
        }
        rows.truncate(self.bytes_max);
        rows
    }
}

/// Packs payloads one after another.
pub(crate) struct Packer {
    context: CCtx<'static>,
    level: i32,
}

impl Packer {
    pub(crate) fn new(level: i32) -> Self {
        Self { context: CCtx::create(), level }
    }

    /// Appends a frame of `rows` to `out`.
    ///
    /// # Errors
    /// `Compression`, of which no reason is known but a machine without memory.
    pub(crate) fn pack(&mut self, rows: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let at = out.len();
        out.resize(at + zstd_safe::compress_bound(rows.len()), 0);
        let bytes = self.context.compress(&mut out[at..], rows, self.level).map_err(|code| {
            Error::new(ErrorKind::Compression, "zstd")
                .expected(format_args!("a frame of {} bytes", rows.len()))
                .found(get_error_name(code).to_lowercase())
        })?;
        out.truncate(at + bytes);
        Ok(())
    }
}

/// A buffer for a block that the machine does not give.
pub(super) fn no_memory(bytes: usize) -> Error {
    Error::new(ErrorKind::Memory, "memory for a block").expected(format_args!("{bytes} bytes")).found("less")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        zstd_safe::compress(&mut frame, bytes, 3).unwrap();
        frame
    }

    #[test]
    fn what_was_packed_comes_out_again_whatever_its_size() {
        let mut unpacker = Unpacker::new(usize::MAX);
        for size in [0, 1, 2048, BUFFER_BYTES_MIN - 1, BUFFER_BYTES_MIN, BUFFER_BYTES_MIN + 1, 9_000_000, 5] {
            let bytes: Vec<u8> = (0..size).map(|at| (at / 7) as u8).collect();
            assert!(unpacker.unpack(&pack(&bytes)).unwrap() == bytes, "{size} bytes");
        }
        assert!(unpacker.buffer.capacity() <= BUFFER_BYTES_KEPT);
    }

    #[test]
    fn several_frames_in_one_payload_are_joined() {
        let payload = [pack(b"one"), pack(&[7; 3000]), pack(b"two")].concat();
        assert_eq!(
            Unpacker::new(usize::MAX).unpack(&payload).unwrap(),
            [&b"one"[..], &[7; 3000], b"two"].concat()
        );
    }

    #[test]
    fn a_frame_without_the_size_of_its_content_is_unpacked() {
        // As Tarantool writes it: facts of a real file.
        let frame = [
            0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0xe1, 0x00, 0x00, 0x84, 0x00, 0x02, 0x02, 0x01, 0x03, 0x04,
            0x04, 0xcb, 0x41, 0xda, 0xc3, 0x78, 0x5c, 0x15, 0xf6, 0x26, 0x82, 0x10, 0xcd, 0x02, 0x00, 0x21,
            0x92, 0x01, 0xa2, 0x61, 0x31,
        ];
        assert_eq!(Unpacker::new(usize::MAX).unpack(&frame).unwrap(), &frame[9..]);
    }

    #[test]
    fn cut_frames_and_bytes_behind_them_are_errors() {
        let mut unpacker = Unpacker::new(usize::MAX);
        let frame = pack(b"some bytes, some bytes, some bytes, some bytes");
        for end in 1..frame.len() {
            let kind = unpacker.unpack(&frame[..end]).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::Compression, "cut at {end}");
        }
        let error = unpacker.unpack(&[&frame[..], b"xyzzy"].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Compression, "{error}");
    }

    #[test]
    fn of_a_damaged_frame_the_blocks_before_the_damage_are_unpacked() {
        let rows: Vec<u8> = (0..500_000u32).flat_map(|number| (number / 3).to_be_bytes()).collect();
        let frame = pack(&rows);
        let mut unpacker = Unpacker::new(usize::MAX);
        assert_eq!(unpacker.unpack_head(&frame), rows);
        let mut longest = 0;
        for end in (0..frame.len()).step_by(997) {
            let head = unpacker.unpack_head(&frame[..end]);
            assert!(rows.starts_with(&head) && head.len() >= longest, "cut at {end}");
            longest = head.len();
        }
        assert!(longest > rows.len() / 2, "{longest}");
        assert_eq!(Unpacker::new(1000).unpack_head(&frame), rows[..1000]);
        assert_eq!(unpacker.unpack_head(b"no frame"), b"");
    }

    #[test]
    fn a_bomb_ends_at_the_limit_and_a_promise_of_gigabytes_allocates_nothing() {
        let mut unpacker = Unpacker::new(1_000_000);
        let error = unpacker.unpack(&pack(&vec![0; 1_000_001])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
        assert_eq!(unpacker.unpack(&pack(&vec![0; 1_000_000])).unwrap().len(), 1_000_000);
        // A frame that says of itself that it holds 2^40 bytes, and holds an empty block.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        frame.extend_from_slice(&(1u64 << 40).to_le_bytes());
        frame.extend_from_slice(&[0x01, 0x00, 0x00]);
        let mut unpacker = Unpacker::new(usize::MAX);
        assert!(unpacker.unpack(&frame).is_err());
        assert!(unpacker.buffer.capacity() <= BUFFER_BYTES_MIN);
    }
}
