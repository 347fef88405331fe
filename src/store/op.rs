//! Update operations, as a program writes them.

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::msgpack::write;

/// What an operation is about: a field by its number, counted from 0 (below 0: from the end, the last one is -1), or by
/// its name or a path to something inside: `name`, `address.street`, `[3].tags[1]`. Numbers in paths count from 1, as in
/// Tarantool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// By number.
    Number(i32),
    /// By name or path.
    Path(String),
}

impl From<i32> for Target {
    fn from(number: i32) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Target {
    fn from(path: &str) -> Self {
        Self::Path(path.into())
    }
}

impl From<String> for Target {
    fn from(path: String) -> Self {
        Self::Path(path)
    }
}

/// An operation of UPDATE or UPSERT.
///
/// ```
/// use lycosa::{Op, Store};
///
/// let store = Store::open("snapshots/2.6/02-one-space")?;
/// store.write(|tx| tx.update("users", (14,), [Op::assign("name", "Eve"), Op::add(2, 1)]))?;
/// let view = store.read_view();
/// let tuple = view.get("users", (14,))?.expect("it was there");
/// assert_eq!(tuple.decode::<(u64, &str, u32)>()?, (14, "Eve", 35));
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Op {
    code: u8,
    target: Target,
    /// MsgPack, one value after the other; or why there is none.
    values: Result<(u32, Vec<u8>)>,
}

impl Op {
    fn new(code: u8, target: impl Into<Target>, value: impl Serialize) -> Self {
        let values = rmp_serde::to_vec(&value).map(|value| (1, value)).map_err(|error| {
            Error::new(ErrorKind::Update, format!("a value of an operation cannot be serialised: {error}"))
        });
        Self { code, target: target.into(), values }
    }

    /// Puts a value in the place of the field, or behind the last one (`=`).
    pub fn assign(target: impl Into<Target>, value: impl Serialize) -> Self {
        Self::new(b'=', target, value)
    }

    /// Adds a number (`+`).
    pub fn add(target: impl Into<Target>, value: impl Serialize) -> Self {
        Self::new(b'+', target, value)
    }

    /// Subtracts a number (`-`).
    pub fn sub(target: impl Into<Target>, value: impl Serialize) -> Self {
        Self::new(b'-', target, value)
    }

    /// Bits that both have (`&`).
    pub fn and(target: impl Into<Target>, value: u64) -> Self {
        Self::new(b'&', target, value)
    }

    /// Bits that either has (`|`).
    pub fn or(target: impl Into<Target>, value: u64) -> Self {
        Self::new(b'|', target, value)
    }

    /// Bits that one of the two has (`^`).
    pub fn xor(target: impl Into<Target>, value: u64) -> Self {
        Self::new(b'^', target, value)
    }

    /// Inserts a field before this one, or behind the last one (`!`).
    pub fn insert(target: impl Into<Target>, value: impl Serialize) -> Self {
        Self::new(b'!', target, value)
    }

    /// Deletes so many fields, this one the first (`#`).
    pub fn delete(target: impl Into<Target>, count: u32) -> Self {
        Self::new(b'#', target, count)
    }

    /// Takes `cut` bytes of a string out from `position` on and puts another string there (`:`). Positions count from 0, as
    /// in rows of logs; those below 0 from the end, -1 is behind the last byte.
    pub fn splice(target: impl Into<Target>, position: i32, cut: i32, string: &str) -> Self {
        let mut values = Vec::new();
        write::int(&mut values, position.into());
        write::int(&mut values, cut.into());
        write::str(&mut values, string.as_bytes());
        Self { code: b':', target: target.into(), values: Ok((3, values)) }
    }
}

/// Operations as MsgPack: an array of arrays.
pub(super) fn encode(ops: impl IntoIterator<Item = Op>) -> Result<Vec<u8>> {
    let ops: Vec<Op> = ops.into_iter().collect();
    let mut out = Vec::new();
    write::array(&mut out, ops.len() as u32);
    for Op { code, target, values } in ops {
        let (count, values) = values?;
        write::array(&mut out, 2 + count);
        write::str(&mut out, &[code]);
        match target {
            Target::Number(number) => write::int(&mut out, number.into()),
            Target::Path(path) => write::str(&mut out, path.as_bytes()),
        }
        out.extend_from_slice(&values);
    }
    Ok(out)
}
