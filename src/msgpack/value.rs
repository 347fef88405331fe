//! A MsgPack value at hand: whole and checked, to be printed or taken apart.

use super::{Fault, FaultKind, class, print, print_lua, read, skip, write};
use crate::error::Result;

/// A whole MsgPack value.
///
/// ```
/// let value = lycosa::Value::new(b"\x92\x01\xa3Ann")?;
/// let mut text = String::new();
/// value.write_json(&mut text);
/// assert_eq!(text, r#"[1,"Ann"]"#);
/// assert_eq!(value.elements().next().and_then(|id| id.as_u64()), Some(1));
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a>(&'a [u8]);

impl<'a> Value<'a> {
    /// The value that the bytes are.
    ///
    /// # Errors
    /// `MsgPack`: they are not one whole value, and no more.
    pub fn new(bytes: &'a [u8]) -> Result<Self> {
        let fault = match skip::skip(bytes, 0) {
            Ok(end) if end == bytes.len() => return Ok(Self(bytes)),
            Ok(end) => Fault::new(end, FaultKind::Trailing),
            Err(fault) => fault,
        };
        Err(fault.error(bytes))
    }

    pub(crate) const EMPTY_MAP: Value<'static> = Value(&[0x80]);

    /// The bytes are known to be one whole value.
    pub(crate) fn of_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes of the first value of several that are known to be whole.
    pub(crate) fn first_bytes(bytes: &[u8]) -> usize {
        skip::skip(bytes, 0).unwrap_or(bytes.len())
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// An unsigned integer.
    #[inline]
    pub fn as_u64(self) -> Option<u64> {
        read::uint_or_none(self.0, 0)
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> impl Iterator<Item = Value<'a>> {
        let (count, at) = read::array(self.0, 0).unwrap_or((0, 0));
        Values { bytes: self.0, at, left: count.into() }
    }

    /// The pairs of a map; none of anything else.
    pub fn pairs(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let (count, at) = read::map(self.0, 0).unwrap_or((0, 0));
        let mut values = Values { bytes: self.0, at, left: 2 * u64::from(count) };
        std::iter::from_fn(move || Some((values.next()?, values.next()?)))
    }

    /// Appends it as JSON on one line, from which it can be made again: the forms of what JSON does not have are those
    /// of [`Tuple::to_json`](crate::Tuple::to_json).
    #[inline]
    pub fn write_json(self, out: &mut String) {
        print::json(out, self.0, 0).expect("a whole value");
    }

    /// Appends it as a Lua expression that Tarantool reads.
    pub fn write_lua(self, out: &mut String) {
        print_lua::lua(out, self.0);
    }

    /// Its shape without what is in it, as MsgPack: arrays and maps as they are, and every other value, keys too, as a
    /// string that says its type and length.
    pub fn redacted(self) -> Vec<u8> {
        let bytes = self.0;
        let (mut out, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let length = |count: usize, what: &str| format!("<{what} of {count} bytes>");
            let class = read::class_at(bytes, at);
            let end = match class {
                class::ARRAY => read::array(bytes, at).map(|(_, end)| end),
                class::MAP => read::map(bytes, at).map(|(_, end)| end),
                _ => skip::skip(bytes, at),
            };
            let end = end.unwrap_or(bytes.len());
            let text = match class {
                class::ARRAY | class::MAP => {
                    out.extend_from_slice(&bytes[at..end]);
                    at = end;
                    continue;
                }
                class::NIL => "<nil>".into(),
                class::BOOL => "<boolean>".into(),
                class::UINT => "<unsigned>".into(),
                class::INT => "<integer>".into(),
                class::FLOAT32 => "<float>".into(),
                class::FLOAT64 => "<double>".into(),
                class::STR => length(read::str(bytes, at).map_or(0, |(text, _)| text.len()), "string"),
                class::BIN => length(read::bin(bytes, at).map_or(0, |(text, _)| text.len()), "binary"),
                _ => match read::ext(bytes, at) {
                    Ok(((kind, payload), _)) => length(payload.len(), &format!("extension {kind}")),
                    Err(_) => "<reserved>".into(),
                },
            };
            write::str(&mut out, text.as_bytes());
            at = end;
        }
        out
    }
}

struct Values<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u64,
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let start = self.at;
        self.at = skip::skip(self.bytes, start).ok()?;
        Some(Value(&self.bytes[start..self.at]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::parse;

    fn of(text: &str) -> Vec<u8> {
        parse::from_json(text).unwrap()
    }

    #[test]
    fn what_is_redacted_keeps_its_shape_alone() {
        let bytes =
            of(r#"[1, -1, 1.5, null, true, "secret", {"key": {"$bin": "0011"}}, {"$decimal": "1.5"}, []]"#);
        let mut json = String::new();
        let redacted = Value::of_checked(&bytes).redacted();
        Value::of_checked(&redacted).write_json(&mut json);
        assert_eq!(
            json,
            concat!(
                r#"["<unsigned>","<integer>","<double>","<nil>","<boolean>","<string of 6 bytes>","#,
                r#"{"<string of 3 bytes>":"<binary of 2 bytes>"},"<extension 1 of 3 bytes>",[]]"#
            )
        );
    }

    #[test]
    fn elements_and_pairs_are_those_of_the_value() {
        let bytes = of(r#"[[1, 2], {"a": 3, "b": []}]"#);
        let elements: Vec<_> = Value::of_checked(&bytes).elements().collect();
        assert_eq!(elements.len(), 2);
        assert_eq!(elements[0].elements().filter_map(Value::as_u64).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(elements[1].pairs().filter_map(|(_, value)| value.as_u64()).collect::<Vec<_>>(), [3]);
        assert_eq!(elements[1].elements().count() + elements[0].pairs().count(), 0);
    }
}
