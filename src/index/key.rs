//! Search keys: a MsgPack array of the values of the first parts, flat, whatever paths the parts have.

use std::cmp::Ordering;

use super::key_def::{Entry, KeyDef};
use crate::error::{Error, ErrorKind, Result};
use crate::msgpack::{self, Fault, FaultKind, read, skip};

/// A checked search key for one index.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    bytes: Box<[u8]>,
    /// Offset of each value; `None` is nil.
    pub(crate) values: Box<[Option<usize>]>,
}

impl Key {
    /// Checks that `bytes` are an array of at most as many values as the index has parts, each of its part's type.
    ///
    /// # Errors
    /// `Key`, with the part, counted from 1.
    pub(crate) fn new(key_def: &KeyDef, bytes: &[u8]) -> Result<Self> {
        let mut values = Vec::with_capacity(key_def.own);
        Self::check(key_def, bytes, &mut values)?;
        Ok(Self { bytes: bytes.into(), values: values.into() })
    }

    /// The same check; what it finds goes to a buffer that is used again.
    pub(crate) fn check(key_def: &KeyDef, bytes: &[u8], values: &mut Vec<Option<usize>>) -> Result<()> {
        let fault = |fault: Fault| {
            Error::new(ErrorKind::Key, "search key").expected(fault.expected()).found(fault.found(bytes))
        };
        let (count, mut at) = read::array(bytes, 0).map_err(fault)?;
        if count as usize > key_def.own {
            return Err(Error::new(ErrorKind::Key, "number of key parts")
                .expected(format!("at most {}", key_def.own))
                .found(count));
        }
        values.clear();
        for (number, part) in key_def.own()[..count as usize].iter().enumerate() {
            let end = skip::skip(bytes, at).map_err(fault)?;
            if read::is_nil(bytes, at) {
                values.push(None);
            } else {
                if !part.kind.fits(&bytes[at..]) {
                    return Err(Error::new(ErrorKind::Key, format!("key part {}", number + 1))
                        .expected(part.kind.expected())
                        .found(msgpack::name(bytes[at])));
                }
                values.push(Some(at));
            }
            at = end;
        }
        if at != bytes.len() {
            return Err(fault(Fault::new(at, FaultKind::Trailing)));
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The order of an entry's first parts against the key.
    pub(crate) fn compare(&self, key_def: &KeyDef, entry: Entry<'_>) -> Ordering {
        compare(key_def, entry, &self.bytes, &self.values)
    }
}

/// Goes through the values of a checked key.
pub(crate) struct Values<'a> {
    key: &'a [u8],
    at: usize,
}

impl<'a> Values<'a> {
    pub(crate) fn new(key: &'a [u8]) -> Self {
        Self { key, at: read::array(key, 0).map_or(key.len(), |(_, at)| at) }
    }

    /// Offset of the next value, which is that of a part; `None` is nil.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        let at = self.at;
        self.at = skip::skip(self.key, at).unwrap_or(self.key.len());
        (!read::is_nil(self.key, at)).then_some(at)
    }
}

/// The order of an entry's first parts against the values of a checked key.
pub(crate) fn compare(key_def: &KeyDef, entry: Entry<'_>, key: &[u8], values: &[Option<usize>]) -> Ordering {
    let data = entry.tuple.data();
    let parts = key_def.own().iter().zip(values);
    parts
        .map(|(part, &value)| part.compare(data, part.find(&entry.tuple, entry.element), key, value))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
