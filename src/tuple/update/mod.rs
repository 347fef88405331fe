//! UPDATE and UPSERT: operations on the MsgPack of a tuple.
//!
//! ```text
//! operation   [op, field, argument]         op: = ! # + - & | ^        [":", field, offset, cut, paste]
//! field       n          field n - base     negative: from the end
//!             name       a field of the format, or a path that begins with a name or a [number]
//! ```
//!
//! Operations apply one after the other, each to what the ones before have made of the tuple ([`tree`]); results are those
//! of Tarantool to the byte. The usual ones, setting and adding to fields by number, take a way of their own that
//! goes over the tuple once ([`plain`]); a test marries the two.
//!
//! What has no effect on values has one on bytes: the tuple's own array head is always written in its shortest form; a
//! container inside it keeps its head as it was as long as just one of its elements is replaced.
//!
//! Versions differ ([`Rules`]), and a log is replayed by the rules of its writer.

mod arith;
mod array;
mod map;
mod path;
mod plain;
mod scalar;
mod tree;

use std::collections::HashMap;

use self::tree::Updated;
use super::format::Format;
use super::part::FieldDef;
use super::path::{Path, Token};
use crate::error::{Error, ErrorKind, Result};
use crate::msgpack::{class, read, skip};

/// Operations of one request (`BOX_UPDATE_OP_CNT_MAX`).
const OPERATIONS_MAX: u32 = 4000;

/// What differs between versions of Tarantool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Setting or inserting a field beyond the end fills the gap with nil, deleting one does nothing (2.8.1).
    fills_gaps: bool,
    /// Two operations may concern the same field (3.0).
    repeats: bool,
    /// An operation may go into an element that an earlier one has inserted by a path (2.10.3).
    enters_inserted: bool,
    /// A field is a double to sums although an index reads it as a number (up to 2.11.0).
    keeps_doubles: bool,
    /// Splice takes binary data too (3.2).
    splices_bin: bool,
    /// Digits to which sums of decimals are rounded.
    decimal_digits: u32,
    /// More digits than those before the point are an overflow.
    decimals_are_short: bool,
}

impl Rules {
    /// The rules of a version.
    pub(crate) fn of_version(version: [u32; 3]) -> Self {
        let is_long = version >= [3, 5, 0];
        Self {
            fills_gaps: version >= [2, 8, 1],
            repeats: version >= [3, 0, 0],
            enters_inserted: version >= [2, 10, 3],
            keeps_doubles: version < [2, 11, 1],
            splices_bin: version >= [3, 2, 0],
            decimal_digits: if is_long { 76 } else { 38 },
            decimals_are_short: !is_long,
        }
    }
}

/// The names of a space's fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    numbers: HashMap<Box<[u8]>, u32>,
}

impl Fields {
    pub(crate) fn new(fields: &[FieldDef]) -> Self {
        let numbers = (0..).zip(fields).map(|(number, field)| (field.name.as_bytes().into(), number));
        Self { numbers: numbers.collect() }
    }
}

/// Why an operation cannot be: Tarantool's number of the error, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Fault {
    code: u32,
    expected: String,
    found: String,
}

impl Fault {
    fn new(code: u32, expected: impl Into<String>, found: impl ToString) -> Self {
        Self { code, expected: expected.into(), found: found.to_string() }
    }

    /// `number`: of the operation, from 1.
    fn into_error(self, number: usize) -> Error {
        Error::new(ErrorKind::Update, format!("update operation {number} (error {})", self.code))
            .expected(self.expected)
            .found(self.found)
    }
}

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action<'a> {
    Set(&'a [u8]),
    Insert(&'a [u8]),
    Delete(u64),
    Add { argument: &'a [u8], subtracts: bool },
    Bits { operator: u8, argument: u64 },
    Splice { offset: i64, cut: i64, paste: &'a [u8] },
}

/// A field by its number, from the start or from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Top {
    FromStart(u64),
    /// -1: the last one.
    FromEnd(i64),
}

/// An operation that has been read and is well-formed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Operation<'a> {
    action: Action<'a>,
    top: Top,
    /// Below the field.
    path: Vec<Token>,
    /// What is wrong with the path's text behind that: a fault of the operation only when it gets there.
    fault: Option<Fault>,
}

/// Applies the operations of an UPDATE to `tuple`; `target` gets the result. `base`: what field numbers and offsets count
/// from. Whether the result fits the format is not looked at.
///
/// # Errors
/// `Update`: an operation that cannot be, or not on this tuple.
pub(crate) fn update(
    target: &mut Vec<u8>,
    tuple: &[u8],
    ops: &[u8],
    base: u32,
    (fields, format): (&Fields, &Format),
    rules: &Rules,
) -> Result<()> {
    if plain::update(target, tuple, ops, base).is_some() {
        return Ok(());
    }
    let operations = read_all(ops, base, fields, rules)?;
    let mut updated = Updated::new(tuple, rules);
    updated.all(&operations)?;
    updated.write(target, format);
    Ok(())
}

/// Applies the operations of an UPSERT to the tuple that is there; those that fail are left out. Gives how many did.
///
/// # Errors
/// `Update`: an operation that no tuple could take.
pub(crate) fn upsert(
    target: &mut Vec<u8>,
    tuple: &[u8],
    ops: &[u8],
    base: u32,
    (fields, format): (&Fields, &Format),
    rules: &Rules,
) -> Result<u64> {
    if plain::update(target, tuple, ops, base).is_some() {
        return Ok(0);
    }
    let operations = read_all(ops, base, fields, rules)?;
    let mut updated = Updated::new(tuple, rules);
    let failed = updated.what_can_be(&operations);
    updated.write(target, format);
    Ok(failed)
}

/// That operations are well-formed, where there is no tuple to apply them to.
///
/// # Errors
/// `Update`.
pub(crate) fn check(ops: &[u8], base: u32, fields: &Fields, rules: &Rules) -> Result<()> {
    read_all(ops, base, fields, rules).map(|_| ())
}

fn read_all<'a>(ops: &'a [u8], base: u32, fields: &Fields, rules: &Rules) -> Result<Vec<Operation<'a>>> {
    let malformed = |fault: crate::msgpack::Fault| {
        Error::new(ErrorKind::Update, "update operations").expected("an array").found(fault.found(ops))
    };
    let (count, mut at) = read::array(ops, 0).map_err(malformed)?;
    if count > OPERATIONS_MAX {
        return Err(Error::new(ErrorKind::Update, "update operations")
            .expected(format_args!("at most {OPERATIONS_MAX}"))
            .found(count));
    }
    let mut operations = Vec::new();
    for number in 1..=count as usize {
        let end = skip::skip(ops, at).map_err(malformed)?;
        operations
            .push(read_one(&ops[at..end], base, fields, rules).map_err(|fault| fault.into_error(number))?);
        at = end;
    }
    Ok(operations)
}

fn read_one<'a>(op: &'a [u8], base: u32, fields: &Fields, rules: &Rules) -> Result<Operation<'a>, Fault> {
    let unknown = |found: &str| Fault::new(28, "an operation [op, field, argument]", found);
    let (count, at) = read::array(op, 0).map_err(|_| unknown("no array"))?;
    let (name, field_at) = match count {
        0 => return Err(unknown("an empty array")),
        _ => read::str(op, at).map_err(|_| unknown("no string as its name"))?,
    };
    let &[name] = name else { return Err(unknown("a name that is not of one character")) };
    let wanted = match name {
        b':' => 5,
        b'=' | b'!' | b'#' | b'+' | b'-' | b'&' | b'|' | b'^' => 3,
        _ => return Err(unknown(&format!("the name {:?}", char::from(name)))),
    };
    if count != wanted {
        return Err(Fault::new(28, format!("{wanted} elements"), count));
    }
    let argument_at = skip::skip(op, field_at).expect("the array was skipped as a whole");
    let argument = &op[argument_at..];
    let kind = |expected: &str| Fault::new(26, expected, crate::msgpack::name(argument[0]));
    let action = match name {
        b'=' => Action::Set(argument),
        b'!' => Action::Insert(argument),
        b'#' => match read::int(argument, 0) {
            Ok((count @ 1.., _)) => Action::Delete(count as u64),
            Ok((count, _)) => return Err(Fault::new(29, "a positive number of fields to delete", count)),
            Err(_) => return Err(kind("a number of fields")),
        },
        b'+' | b'-' => match arith::number(argument, 0) {
            Some(_) => Action::Add { argument, subtracts: name == b'-' },
            None => return Err(kind("a number")),
        },
        b':' => {
            let offset = read::int(argument, 0).map_err(|_| kind("an integer"))?;
            let cut = read::int(argument, offset.1).map_err(|_| kind("an integer"))?;
            let number = |value: i128| {
                i64::try_from(value).map_err(|_| Fault::new(26, "an integer of 64 bits with a sign", value))
            };
            let paste = match read::str(argument, cut.1) {
                Ok((paste, _)) => paste,
                Err(_) => match read::bin(argument, cut.1) {
                    Ok((paste, _)) if rules.splices_bin => paste,
                    _ => return Err(kind("a string")),
                },
            };
            // From 0 on, whatever the base; from the end numbers count as they are.
            let offset = match number(offset.0)? {
                offset if offset < 0 => offset,
                offset if offset < i64::from(base) => {
                    return Err(Fault::new(25, "an offset inside the string", offset));
                }
                offset => offset - i64::from(base),
            };
            Action::Splice { offset, cut: number(cut.0)?, paste }
        }
        operator => match read::uint(argument, 0) {
            Ok((argument, _)) => Action::Bits { operator, argument },
            Err(_) => return Err(kind("a positive integer")),
        },
    };
    let (top, path, fault) = read_field(op, field_at, base, fields)?;
    Ok(Operation { action, top, path, fault })
}

fn read_field(
    op: &[u8],
    at: usize,
    base: u32,
    fields: &Fields,
) -> Result<(Top, Vec<Token>, Option<Fault>), Fault> {
    if let Ok((number, _)) = read::int(op, at) {
        let top = match number {
            ..0 => Top::FromEnd(i64::try_from(number).unwrap_or(i64::MIN)),
            _ => match u64::try_from(number).unwrap_or(u64::MAX).checked_sub(u64::from(base)) {
                Some(number) => Top::FromStart(number),
                None => return Err(Fault::new(37, format!("a field from {base} on"), number)),
            },
        };
        return Ok((top, Vec::new(), None));
    }
    if !read::is(op, at, class::STR) {
        return Err(Fault::new(26, "a number or a string for the field", crate::msgpack::name(op[at])));
    }
    let (text, _) = read::str(op, at).expect("its class was asked");
    if let Some(&number) = fields.numbers.get(text) {
        return Ok((Top::FromStart(number.into()), Vec::new(), None));
    }
    let shown = || String::from_utf8_lossy(text).into_owned();
    let (mut tokens, fault) = Path::tokens_before_fault(text);
    let fault =
        fault.map(|fault| Fault::new(29, format!("a path, wrong at symbol {}", fault.symbol), shown()));
    if tokens.is_empty() {
        return Err(fault.unwrap_or_else(|| Fault::new(201, "a field or a path", "an empty string")));
    }
    let first = tokens.remove(0);
    let top = match first {
        Token::Index(number) => Top::FromStart(u64::from(number) - 1),
        Token::Key(name) => match fields.numbers.get(&name[..]) {
            Some(&number) => Top::FromStart(number.into()),
            None => return Err(Fault::new(201, "a field of the format", String::from_utf8_lossy(&name))),
        },
        Token::Any => return Err(Fault::new(29, "a path without [*]", shown())),
    };
    if let Some(any) = tokens.iter().position(|token| *token == Token::Any) {
        tokens.truncate(any);
        return Ok((top, tokens, Some(Fault::new(29, "a path without [*]", shown()))));
    }
    Ok((top, tokens, fault))
}

#[cfg(test)]
mod tests;
