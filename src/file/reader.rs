//! A file from front to back, block by block, in one thread: for logs, and for the first blocks of a
//! snapshot.
//!
//! Strict: an error ends the reading. What an end without a marker means is up to the caller ([`End::Open`],
//! which only logs can have).

use super::block::BlockHead;
use super::header::FileType;
use super::heads::{End, HeadReader, Next};
use super::pipeline::BlockLoader;
use super::row::Rows;
use super::source::ContainerFile;
use crate::error::Error;

pub(crate) struct BlockReader<'a> {
    heads: HeadReader<&'a ContainerFile>,
    loader: BlockLoader<'a>,
    filetype: FileType,
    end: Option<End>,
}

impl<'a> BlockReader<'a> {
    /// `unpacked_bytes_max`: as for [`BlockLoader::new`].
    pub(crate) fn new(file: &'a ContainerFile, unpacked_bytes_max: usize) -> Self {
        Self {
            heads: HeadReader::new(file),
            loader: BlockLoader::new(file, unpacked_bytes_max),
            filetype: file.header.filetype,
            end: None,
        }
    }

    /// The next block and its rows; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(BlockHead, Rows<'_>)>, Error> {
        match self.heads.next()? {
            Next::Block(head) => Ok(Some((head, Rows::new(self.loader.load(&head)?, self.filetype)))),
            Next::End(end) => {
                self.end = Some(end);
                Ok(None)
            }
        }
    }

    /// How the file ends, once `next` has said that it does.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::simulated::SimulatedDisk;
    use super::*;
    use crate::error::ErrorKind;
    use std::path::Path;

    /// The smallest snapshot that Tarantool 2.6 and 3.7 both start from, 274 bytes: five rows in one block.
    pub(crate) const SMALLEST: &[u8] = b"SNAP\n0.13\nVersion: 2.6.0-0-g47aa4e01e\n\
        Instance: 78e0015e-511c-44a5-88b2-181e67295f91\nVClock: {}\n\n\
        \xd5\xba\x0b\xab\xcc\x9a\x00\xce\x90\x6d\x58\x5a\xa6\0\0\0\0\0\0\
        \x81\x00\x02\x82\x10\xcd\x01\x10\x21\x94\xa7version\x02\x03\x01\
        \x81\x00\x02\x82\x10\xcd\x01\x18\x21\x97\xcd\x02\x00\x01\xa1t\xa5memtx\x00\x80\x90\
        \x81\x00\x02\x82\x10\xcd\x01\x20\x21\x96\xcd\x02\x00\x00\xa2pk\xa4tree\x81\xa6unique\xc3\
        \x91\x92\x00\xa8unsigned\
        \x81\x00\x02\x82\x10\xcd\x01\x40\x21\x92\x01\xda\x00\x2478e0015e-511c-44a5-88b2-181e67295f91\
        \x81\x00\x02\x82\x10\xcd\x02\x00\x21\x92\x01\xa3one\
        \xd5\x10\xad\xed";

    fn spaces(bytes: &[u8]) -> Result<(Vec<u32>, Option<End>), Error> {
        let disk = SimulatedDisk::with("0.snap", bytes);
        let file = ContainerFile::open(&disk, Path::new("0.snap"))?;
        let mut reader = BlockReader::new(&file, 1 << 20);
        let mut spaces = Vec::new();
        while let Some((head, rows)) = reader.next()? {
            for row in rows {
                let row = row.map_err(|error| file.place(error.block(head.index, head.byte)))?;
                spaces.extend(row.body.and_then(|body| body.space_id));
            }
        }
        Ok((spaces, reader.end()))
    }

    #[test]
    fn the_smallest_snapshot_is_read_from_front_to_back() {
        assert_eq!(SMALLEST.len(), 274);
        assert_eq!(spaces(SMALLEST).unwrap(), (vec![272, 280, 288, 320, 512], Some(End::Marker)));
    }

    #[test]
    fn every_cut_of_the_smallest_snapshot_is_noticed() {
        for end in 0..SMALLEST.len() {
            let error = spaces(&SMALLEST[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated, "cut at {end}: {error}");
        }
    }

    #[test]
    fn every_flipped_bit_of_the_smallest_snapshot_is_noticed_or_means_nothing() {
        for at in 0..SMALLEST.len() {
            for bit in 0..8 {
                let mut bytes = SMALLEST.to_vec();
                bytes[at] ^= 1 << bit;
                match spaces(&bytes) {
                    Ok((spaces, _)) => {
                        assert_eq!(spaces, [272, 280, 288, 320, 512]);
                        // The text header's values and unknown keys; the unused number; the padding's
                        // content.
                        assert!(
                            at < 97 || at == 97 + 6 || (110..116).contains(&at),
                            "bit {bit} of byte {at}"
                        );
                    }
                    Err(error) => {
                        assert!(error.place().file.is_some() && error.place().byte.is_some(), "{error}")
                    }
                }
            }
        }
    }

    #[test]
    fn random_bytes_in_a_right_block_are_an_error_or_rows_but_never_a_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let mut rows = SMALLEST[116..270].to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..rows.len());
                rows[at] = random.u8(..);
            }
            if random.bool() {
                rows = (0..random.usize(1..40)).map(|_| random.u8(..)).collect();
            }
            let block = super::super::block::build::plain(&rows);
            let _ = spaces(&[&SMALLEST[..97], &block, &SMALLEST[270..]].concat());
        }
    }
}
