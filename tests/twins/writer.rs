//! A small writer of snapshots: text header, blocks, rows, end marker, from the format's description alone.

use fastrand::Rng;

use super::model::Space;
use super::values::{Type, Value, encode};

const ROW: [u8; 4] = *b"\xd5\xba\x0b\xab";
const PACKED: [u8; 4] = *b"\xd5\xba\x0b\xba";
const END: [u8; 4] = *b"\xd5\x10\xad\xed";

pub const NAME: &str = "00000000000000000007.snap";

const SCHEMA: u32 = 272;
const SPACE: u32 = 280;
const INDEX: u32 = 288;

/// The spaces' definitions in a block of their own, then rows of user spaces in `blocks` blocks of about equal
/// numbers of rows (fewer where there are not so many rows).
pub fn snapshot(random: &mut Rng, spaces: &[&Space], rows: &[(u32, &[u8])], blocks: usize) -> Vec<u8> {
    let mut file =
        b"SNAP\n0.13\nVersion: 2.6.0\nInstance: 78e0015e-511c-44a5-88b2-181e67295f91\nVClock: {1: 7}\n\n"
            .to_vec();
    let mut number = 0;
    let mut payload = Vec::new();
    for (space, tuple) in definitions(random, spaces) {
        row(random, &mut payload, &mut number, space, &tuple);
    }
    block(random, &mut file, &payload);
    let blocks = blocks.min(rows.len());
    for at in 0..blocks {
        payload.clear();
        for (space, tuple) in &rows[at * rows.len() / blocks..(at + 1) * rows.len() / blocks] {
            row(random, &mut payload, &mut number, *space, tuple);
        }
        block(random, &mut file, &payload);
    }
    file.extend(END);
    file
}

/// A block, packed or not.
fn block(random: &mut Rng, file: &mut Vec<u8>, payload: &[u8]) {
    let packed = random.bool();
    let stored = match packed {
        true => {
            let mut stored = Vec::with_capacity(zstd_safe::compress_bound(payload.len()));
            zstd_safe::compress(&mut stored, payload, 1).expect("zstd packs everything");
            stored
        }
        false => payload.to_vec(),
    };
    let start = file.len();
    file.extend(if packed { PACKED } else { ROW });
    file.push(0xce);
    file.extend((stored.len() as u32).to_be_bytes());
    file.extend([0x00, 0xce]);
    // From 0, without inversion at the ends.
    file.extend((!crc32c::crc32c_append(!0, &stored)).to_be_bytes());
    let padding = 19 - (file.len() - start);
    file.push(0xa0 | (padding - 1) as u8);
    file.resize(start + 19, 0);
    file.extend(stored);
}

/// An INSERT, mostly as Tarantool writes it.
fn row(random: &mut Rng, payload: &mut Vec<u8>, number: &mut u64, space: u32, tuple: &[u8]) {
    payload.push(if *number == 0 { 0x82 } else { 0x83 });
    payload.extend([0x00, 0x02]);
    if *number != 0 {
        payload.push(0x03);
        encode(random, Type::Unsigned, &Value::Int((*number).into()), payload);
    }
    payload.extend([0x04, 0xcb, 0x41, 0xda, 0xc3, 0x78, 0x5c, 0x15, 0xf6, 0x26, 0x82]);
    *number += 1;
    if random.u8(..50) == 0 {
        payload.push(0x21);
        payload.extend(tuple);
        payload.push(0x10);
        encode(random, Type::Unsigned, &Value::Int(space.into()), payload);
    } else {
        payload.extend([0x10, 0xce]);
        payload.extend(space.to_be_bytes());
        payload.push(0x21);
        payload.extend(tuple);
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend([0xd9, text.len() as u8]);
    out.extend(text.as_bytes());
}

/// Rows of the system spaces, in the order of their keys.
fn definitions(random: &mut Rng, spaces: &[&Space]) -> Vec<(u32, Vec<u8>)> {
    let mut version = vec![0x94];
    string(&mut version, "version");
    version.extend([2, 3, 1]);
    let mut rows = vec![(SCHEMA, version)];
    for space in spaces {
        rows.push((SPACE, space_row(random, space)));
    }
    for space in spaces {
        for number in 0..space.indexes.len() {
            rows.push((INDEX, index_row(space, number)));
        }
    }
    rows
}

fn space_row(random: &mut Rng, space: &Space) -> Vec<u8> {
    let mut out = vec![0x97, 0xcd];
    out.extend((space.id as u16).to_be_bytes());
    out.push(1);
    string(&mut out, &space.name);
    string(&mut out, "memtx");
    out.extend([0, 0x80]);
    out.push(0x90 | space.fields.len() as u8);
    for (number, field) in space.fields.iter().enumerate() {
        out.push(0x83);
        string(&mut out, "name");
        string(&mut out, &format!("field{number}"));
        string(&mut out, "type");
        string(&mut out, field.format_type(random));
        string(&mut out, "is_nullable");
        out.push(0xc2 + u8::from(field.is_nullable));
    }
    out
}

fn index_row(space: &Space, number: usize) -> Vec<u8> {
    let index = &space.indexes[number];
    let mut out = vec![0x96, 0xcd];
    out.extend((space.id as u16).to_be_bytes());
    // Ids have holes.
    out.push(id(number) as u8);
    string(&mut out, &index.name);
    string(&mut out, if index.is_hash { "hash" } else { "tree" });
    out.push(0x81);
    string(&mut out, "unique");
    out.push(0xc2 + u8::from(index.unique));
    out.push(0x90 | index.parts.len() as u8);
    for part in &index.parts {
        let path = space.fields[part.field].shape.path();
        let pairs = 2 + [path.is_some(), part.is_nullable, part.exclude_null, part.descending]
            .into_iter()
            .map(u8::from)
            .sum::<u8>();
        out.push(0x80 | pairs);
        string(&mut out, "field");
        out.push(part.field as u8);
        string(&mut out, "type");
        string(&mut out, part.part_type.name());
        if let Some(path) = path {
            string(&mut out, "path");
            string(&mut out, path);
        }
        if part.is_nullable {
            string(&mut out, "is_nullable");
            out.push(0xc3);
        }
        if part.exclude_null {
            string(&mut out, "exclude_null");
            out.push(0xc3);
        }
        if part.descending {
            string(&mut out, "sort_order");
            string(&mut out, "desc");
        }
    }
    out
}

/// The id of a space's index.
pub fn id(number: usize) -> u32 {
    number as u32 * 2
}
