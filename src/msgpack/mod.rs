//! MsgPack values as bytes. Knows nothing of rows, tuples or files.
//!
//! What is on the hot path (skipping with validation, typed reads, comparison) is here; general encoding and
//! decoding is left to `rmp` and `rmp-serde`.
//!
//! One table, [`HEADS`], tells of every first byte its class, its size where that is fixed, and how many values it
//! announces. Everything else that asks "what does this byte begin" reads it.

pub(crate) mod compare;
pub(crate) mod decimal;
mod decimal_sum;
pub(crate) mod ext;
pub(crate) mod look;
pub(crate) mod parse;
pub(crate) mod print;
pub(crate) mod print_lua;
pub(crate) mod read;
pub(crate) mod skip;
pub(crate) mod value;
pub(crate) mod write;

use std::fmt;

use crate::error::{Error, ErrorKind};

/// Class of a value by its first byte: one bit each, so that a field type is a mask of classes.
pub(crate) mod class {
    pub(crate) const NIL: u16 = 1 << 0;
    pub(crate) const BOOL: u16 = 1 << 1;
    /// Encodings without a sign: positive fixint, `cc`-`cf`.
    pub(crate) const UINT: u16 = 1 << 2;
    /// Encodings with a sign: negative fixint, `d0`-`d3`, whatever the value.
    pub(crate) const INT: u16 = 1 << 3;
    pub(crate) const FLOAT32: u16 = 1 << 4;
    pub(crate) const FLOAT64: u16 = 1 << 5;
    pub(crate) const STR: u16 = 1 << 6;
    pub(crate) const BIN: u16 = 1 << 7;
    pub(crate) const EXT: u16 = 1 << 8;
    pub(crate) const ARRAY: u16 = 1 << 9;
    pub(crate) const MAP: u16 = 1 << 10;
    /// `c1`, which MsgPack leaves unused.
    pub(crate) const RESERVED: u16 = 1 << 11;

    pub(crate) const INTEGERS: u16 = UINT | INT;
    pub(crate) const NUMBERS: u16 = INTEGERS | FLOAT32 | FLOAT64;
}

/// What a value's first byte tells.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// One bit of [`class`].
    pub(crate) class: u16,
    /// Bytes of the value with its head, of containers the head alone; 0: a length or count follows the first byte.
    pub(crate) bytes: u8,
    /// Values that follow inside a fixarray or fixmap.
    pub(crate) children: u8,
}

/// [`Head`] of each first byte.
pub(crate) static HEADS: [Head; 256] = heads();

const fn heads() -> [Head; 256] {
    let mut table = [Head { class: 0, bytes: 0, children: 0 }; 256];
    let mut byte = 0;
    while byte < 256 {
        let (class, bytes, children) = match byte as u8 {
            0x00..=0x7f => (class::UINT, 1, 0),
            fixmap @ 0x80..=0x8f => (class::MAP, 1, 2 * (fixmap & 0x0f)),
            fixarray @ 0x90..=0x9f => (class::ARRAY, 1, fixarray & 0x0f),
            fixstr @ 0xa0..=0xbf => (class::STR, 1 + (fixstr & 0x1f), 0),
            0xc0 => (class::NIL, 1, 0),
            0xc1 => (class::RESERVED, 0, 0),
            0xc2..=0xc3 => (class::BOOL, 1, 0),
            0xc4..=0xc6 => (class::BIN, 0, 0),
            0xc7..=0xc9 => (class::EXT, 0, 0),
            0xca => (class::FLOAT32, 5, 0),
            0xcb => (class::FLOAT64, 9, 0),
            0xcc => (class::UINT, 2, 0),
            0xcd => (class::UINT, 3, 0),
            0xce => (class::UINT, 5, 0),
            0xcf => (class::UINT, 9, 0),
            0xd0 => (class::INT, 2, 0),
            0xd1 => (class::INT, 3, 0),
            0xd2 => (class::INT, 5, 0),
            0xd3 => (class::INT, 9, 0),
            0xd4 => (class::EXT, 3, 0),
            0xd5 => (class::EXT, 4, 0),
            0xd6 => (class::EXT, 6, 0),
            0xd7 => (class::EXT, 10, 0),
            0xd8 => (class::EXT, 18, 0),
            0xd9..=0xdb => (class::STR, 0, 0),
            0xdc..=0xdd => (class::ARRAY, 0, 0),
            0xde..=0xdf => (class::MAP, 0, 0),
            0xe0..=0xff => (class::INT, 1, 0),
        };
        table[byte] = Head { class, bytes, children };
        byte += 1;
    }
    table
}

/// Bytes that are not the MsgPack they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Offset of the value with the fault, from the start of the slice that was read.
    pub(crate) at: usize,
    pub(crate) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The value runs past the end of the bytes.
    Cut,
    /// The byte `c1`, which begins no value.
    Reserved,
    /// Bytes follow the value that should be the last.
    Trailing,
    /// A value of another class: what was expected.
    Class(&'static str),
}

impl Fault {
    pub(crate) fn new(at: usize, kind: FaultKind) -> Self {
        Self { at, kind }
    }

    /// The fault as an error that knows no place yet; `bytes` is the slice that was read.
    pub(crate) fn error(&self, bytes: &[u8]) -> Error {
        Error::new(ErrorKind::MsgPack, format!("MsgPack at byte {}", self.at))
            .expected(self.expected())
            .found(self.found(bytes))
    }

    /// What should have been there.
    pub(crate) fn expected(&self) -> &'static str {
        match self.kind {
            FaultKind::Cut => "a whole MsgPack value",
            FaultKind::Reserved => "the first byte of a MsgPack value",
            FaultKind::Trailing => "the end",
            FaultKind::Class(expected) => expected,
        }
    }

    /// What is there: `bytes` is the slice that was read.
    pub(crate) fn found(&self, bytes: &[u8]) -> String {
        match (self.kind, bytes.get(self.at)) {
            (FaultKind::Cut, _) => {
                format!("the end of the bytes ({} left)", bytes.len().saturating_sub(self.at))
            }
            (FaultKind::Trailing, _) => format!("{} more bytes", bytes.len().saturating_sub(self.at)),
            (_, Some(&byte)) => format!("{} (byte {byte:#04x})", name(byte)),
            (_, None) => "the end of the bytes".into(),
        }
    }
}

/// The name of the class of the value that `first` begins, as Tarantool names it in messages.
pub(crate) fn name(first: u8) -> &'static str {
    match HEADS[first as usize].class {
        class::NIL => "nil",
        class::BOOL => "boolean",
        class::UINT => "unsigned",
        class::INT => "integer",
        class::FLOAT32 => "float",
        class::FLOAT64 => "double",
        class::STR => "string",
        class::BIN => "varbinary",
        class::EXT => "extension",
        class::ARRAY => "array",
        class::MAP => "map",
        _ => "no MsgPack value",
    }
}

/// Bytes of hex digits; blanks do not count.
#[cfg(test)]
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    parse::hex(&text.split_whitespace().collect::<String>()).expect("a test's hex digits come in pairs")
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: expected {}", self.at, self.expected())
    }
}
