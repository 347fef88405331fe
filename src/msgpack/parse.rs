//! JSON into values: the reverse of [`print`](super::print), and keys that a person types.
//!
//! The parser reads all that `print` writes, and JSON from elsewhere: integers become integers, numbers with a point or
//! exponent doubles. Whatever it makes is in its shortest form.
//!
//! In a key the type of the part decides what a JSON value stands for, so that the usual keys need no `$`:
//!
//! ```text
//! unsigned, integer            5
//! double, number               5, 0.5, 1e10; an integer stays one and is found by its value; number takes more
//!                              digits or a greater exponent than they hold as a decimal
//! decimal                      "1.50", 1.50
//! string, boolean              "text", true
//! uuid, datetime               "c8f0fa1f-…", "2024-01-02T03:04:05Z"
//! varbinary                    {"hex":"00ff"}
//! scalar                       any of these, strings being strings
//! all                          null, and the forms with $ if they fit the type
//! ```
//!
//! The parser keeps open containers in a list of at most `NESTING_MAX`; it never recurses.

use super::ext::{
    self, Datetime, EXT_DATETIME, EXT_DECIMAL, EXT_UUID, INTERVAL_ADJUST, INTERVAL_ADJUSTS, INTERVAL_FIELDS,
    Interval,
};
use super::{class, read, skip, write};
use crate::limits::NESTING_MAX;

/// The value that `text` stands for. An error names the byte, what was expected and what was found. Outside keys nobody
/// asks for it but the tests of `print`, whose reverse it is.
#[cfg(test)]
pub(crate) fn from_json(text: &str) -> Result<Vec<u8>, String> {
    let mut parser = Parser { text, at: 0 };
    let mut out = Vec::new();
    parser.value(&mut out)?;
    parser.end()?;
    Ok(out)
}

/// What kind of value a part of a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Unsigned,
    Integer,
    Double,
    Number,
    String,
    Varbinary,
    Boolean,
    Decimal,
    Uuid,
    Datetime,
    Scalar,
}

impl KeyKind {
    pub(crate) fn expected(self) -> &'static str {
        match self {
            KeyKind::Unsigned => "an integer between 0 and 18446744073709551615",
            KeyKind::Integer => "an integer between -9223372036854775808 and 18446744073709551615",
            KeyKind::Double => "a number that a double holds",
            KeyKind::Number => "a number",
            KeyKind::String => "a string",
            KeyKind::Varbinary => "{\"hex\":\"...\"}",
            KeyKind::Boolean => "true or false",
            KeyKind::Decimal => "a decimal",
            KeyKind::Uuid => "a string with a uuid",
            KeyKind::Datetime => "a string with a datetime",
            KeyKind::Scalar => "a scalar",
        }
    }

    /// Whether the value that `bytes` begin with is nil or of the kind.
    pub(crate) fn fits(self, bytes: &[u8]) -> bool {
        let (mask, exts): (u16, &[i8]) = match self {
            KeyKind::Unsigned => (class::UINT, &[]),
            KeyKind::Integer => (class::INTEGERS, &[]),
            KeyKind::Double => (class::NUMBERS, &[]),
            KeyKind::Number => (class::NUMBERS, &[EXT_DECIMAL]),
            KeyKind::String => (class::STR, &[]),
            KeyKind::Varbinary => (class::BIN, &[]),
            KeyKind::Boolean => (class::BOOL, &[]),
            KeyKind::Decimal => (0, &[EXT_DECIMAL]),
            KeyKind::Uuid => (0, &[EXT_UUID]),
            KeyKind::Datetime => (0, &[EXT_DATETIME]),
            KeyKind::Scalar => (
                class::NUMBERS | class::STR | class::BIN | class::BOOL,
                &[EXT_DECIMAL, EXT_UUID, EXT_DATETIME],
            ),
        };
        match read::ext(bytes, 0) {
            Ok(((kind, payload), _)) => exts.contains(&kind) && ext::check(kind, payload).is_ok(),
            Err(_) => read::is(bytes, 0, mask | class::NIL),
        }
    }
}

/// A key as a MsgPack array, from a JSON array of at most as many values as there are kinds. An error names
/// the part, counted from 1.
pub(crate) fn key_from_json(text: &str, kinds: &[KeyKind]) -> Result<Vec<u8>, String> {
    let mut parser = Parser { text, at: 0 };
    let mut parts = Vec::new();
    let mut count = 0;
    parser.blank();
    parser.take(b'[', "a JSON array")?;
    if !parser.eat(b']') {
        loop {
            let kind = *kinds.get(count).ok_or_else(|| {
                format!(
                    "expected at most {} {}, found more",
                    kinds.len(),
                    if kinds.len() == 1 { "part" } else { "parts" }
                )
            })?;
            count += 1;
            parser.part(kind, &mut parts).map_err(|error| format!("part {count}: {error}"))?;
            if !parser.eat(b',') {
                break parser.take(b']', "`,` or `]`")?;
            }
        }
    }
    parser.end()?;
    let mut key = Vec::with_capacity(5 + parts.len());
    write::array(&mut key, count as u32);
    key.extend_from_slice(&parts);
    Ok(key)
}

/// Bytes from an even count of hex digits.
pub(crate) fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| (byte as char).to_digit(16);
    let bytes = pairs.iter().map(|&[high, low]| Some((digit(high)? << 4 | digit(low)?) as u8)).collect();
    if rest.is_empty() { bytes } else { None }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

/// A container whose values are being read.
struct Frame {
    form: Form,
    /// Where its head is in the output.
    head: usize,
    /// Values or pairs so far.
    count: u32,
}

enum Form {
    Array,
    Object,
    /// `{"$map":[[key,value],…]}`; whether a key is being read.
    Map {
        key: bool,
    },
}

/// A number as it is written: checked against JSON's grammar.
#[derive(Clone, Copy)]
struct Number<'a>(&'a str);

impl Number<'_> {
    fn is_integer(self) -> bool {
        !self.0.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
    }

    /// An integer that MsgPack holds.
    fn integer(self) -> Option<i128> {
        let integer = if self.is_integer() { self.0.parse::<i128>().ok()? } else { return None };
        (-(1 << 63)..1 << 64).contains(&integer).then_some(integer)
    }

    /// The nearest double, if one is near.
    fn double(self) -> Option<f64> {
        self.0.parse::<f64>().ok().filter(|double| double.is_finite())
    }
}

impl<'a> Parser<'a> {
    fn value(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut open: Vec<Frame> = Vec::new();
        loop {
            if self.begin(&mut open, out)? {
                continue;
            }
            // A value is complete, and with it perhaps those that it is in.
            loop {
                let Some(frame) = open.last_mut() else { return Ok(()) };
                if self.next(frame, out)? {
                    break;
                }
                let frame = open.pop().expect("the frame was there before");
                let mut head = Vec::with_capacity(5);
                match frame.form {
                    Form::Array => write::array(&mut head, frame.count),
                    Form::Object | Form::Map { .. } => write::map(&mut head, frame.count),
                }
                out.splice(frame.head..frame.head + 1, head);
            }
        }
    }

    /// Reads a scalar, or the beginning of a container up to its first value: then there is a value to come.
    fn begin(&mut self, open: &mut Vec<Frame>, out: &mut Vec<u8>) -> Result<bool, String> {
        self.blank();
        let start = self.at;
        let form = match self.peek() {
            Some(b'[') => {
                self.at += 1;
                if self.eat(b']') {
                    write::array(out, 0);
                    return Ok(false);
                }
                Form::Array
            }
            Some(b'{') => {
                self.at += 1;
                if self.eat(b'}') {
                    write::map(out, 0);
                    return Ok(false);
                }
                let key = self.key()?;
                match key.strip_prefix('$') {
                    None => {
                        self.push(Form::Object, start, open, out)?;
                        write::str(out, key.as_bytes());
                        return Ok(true);
                    }
                    Some("map") => {
                        self.take(b'[', "an array of pairs")?;
                        if self.eat(b']') {
                            self.take(b'}', "`}`")?;
                            write::map(out, 0);
                            return Ok(false);
                        }
                        self.take(b'[', "a pair")?;
                        Form::Map { key: true }
                    }
                    Some(tag) => {
                        self.tagged(tag, start, out)?;
                        self.take(b'}', "`}`")?;
                        return Ok(false);
                    }
                }
            }
            _ => {
                self.scalar(out)?;
                return Ok(false);
            }
        };
        self.push(form, start, open, out)?;
        Ok(true)
    }

    fn push(
        &mut self,
        form: Form,
        start: usize,
        open: &mut Vec<Frame>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if open.len() == NESTING_MAX {
            return Err(format!("byte {start}: expected at most {NESTING_MAX} levels, found more"));
        }
        open.push(Frame { form, head: out.len(), count: 0 });
        // The head's first byte; the count is known at the end only.
        out.push(0xc1);
        Ok(())
    }

    /// Reads on after a value of the container: whether another one follows.
    fn next(&mut self, frame: &mut Frame, out: &mut Vec<u8>) -> Result<bool, String> {
        if let Form::Map { key } = &mut frame.form {
            if *key {
                *key = false;
                self.take(b',', "`,` and the pair's value")?;
                return Ok(true);
            }
            self.take(b']', "`]` after a pair")?;
        }
        frame.count = frame.count.checked_add(1).ok_or("expected fewer values")?;
        let more = self.eat(b',');
        match &mut frame.form {
            Form::Array if !more => self.take(b']', "`,` or `]`")?,
            Form::Array => {}
            Form::Object if !more => self.take(b'}', "`,` or `}`")?,
            Form::Object => {
                let start = self.at;
                let key = self.key()?;
                if key.starts_with('$') {
                    return Err(self.found(start, "a key that does not begin with $"));
                }
                write::str(out, key.as_bytes());
            }
            Form::Map { .. } if !more => {
                self.take(b']', "`,` or `]`")?;
                self.take(b'}', "`}`")?;
            }
            Form::Map { key } => {
                self.take(b'[', "a pair")?;
                *key = true;
            }
        }
        Ok(more)
    }

    fn scalar(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let start = self.at;
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                write::str(out, text.as_bytes());
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.number()?;
                if number.is_integer() {
                    let integer =
                        number.integer().ok_or_else(|| self.found(start, KeyKind::Integer.expected()))?;
                    write::int(out, integer);
                } else {
                    let double =
                        number.double().ok_or_else(|| self.found(start, KeyKind::Double.expected()))?;
                    write::double(out, double);
                }
            }
            _ => match self.word() {
                Some(None) => write::nil(out),
                Some(Some(boolean)) => write::boolean(out, boolean),
                None => return Err(self.found(start, "a JSON value")),
            },
        }
        Ok(())
    }

    /// The rest of `{"$tag":…` up to the last brace, which is left.
    fn tagged(&mut self, tag: &str, object: usize, out: &mut Vec<u8>) -> Result<(), String> {
        self.blank();
        let start = self.at;
        match tag {
            "str" => write::str(out, &self.hex_string()?),
            "bin" => write::bin(out, &self.hex_string()?),
            "decimal" => write::decimal(out, &self.string_of(str::parse)?),
            "uuid" => write::uuid(out, &self.string_of(ext::uuid_from_text)?),
            "datetime" => {
                let mut datetime: Datetime = self.string_of(str::parse)?;
                if self.eat(b',') {
                    let start = self.at;
                    if self.key()? != "zone" {
                        return Err(self.found(start, "\"zone\""));
                    }
                    let start = self.at;
                    let zone = self.integer()?;
                    datetime = i16::try_from(zone)
                        .map_err(|_| "a zone between 0 and 1024")
                        .and_then(|zone| datetime.with_zone(zone))
                        .map_err(|expected| self.found(start, expected))?;
                }
                write::datetime(out, &datetime);
            }
            "interval" => write::interval(out, &self.interval()?),
            "float" if self.peek() == Some(b'"') => {
                let value = self.string_of(|text| match (special(text), hex_bits(text, 8)) {
                    // Not by a cast, which may choose among the NaNs.
                    (Some(value), _) if value.is_nan() => Ok(f32::NAN),
                    (Some(value), _) => Ok(value as f32),
                    (_, Some(bits)) => Ok(f32::from_bits(bits as u32)),
                    _ => Err("\"NaN\", \"Infinity\", \"-Infinity\" or 0x and 8 hex digits"),
                })?;
                write::float(out, value);
            }
            "float" => {
                let number = self.number()?;
                let value = number.0.parse::<f32>().ok().filter(|value| value.is_finite());
                write::float(out, value.ok_or_else(|| self.found(start, "a number that a float holds"))?);
            }
            "double" if self.peek() == Some(b'"') => {
                let value = self.string_of(|text| match (special(text), hex_bits(text, 16)) {
                    (Some(value), _) => Ok(value),
                    (_, Some(bits)) => Ok(f64::from_bits(bits)),
                    _ => Err("\"NaN\", \"Infinity\", \"-Infinity\" or 0x and 16 hex digits"),
                })?;
                write::double(out, value);
            }
            "double" => {
                let number = self.number()?;
                write::double(
                    out,
                    number.double().ok_or_else(|| self.found(start, KeyKind::Double.expected()))?,
                );
            }
            "ext" => {
                self.take(b'[', "an array of type and hex digits")?;
                self.blank();
                let start = self.at;
                let kind = i8::try_from(self.integer()?)
                    .map_err(|_| self.found(start, "a type between -128 and 127"))?;
                self.take(b',', "`,`")?;
                let payload = self.hex_string()?;
                self.take(b']', "`]`")?;
                write::ext(out, kind, &payload);
            }
            "msgpack" => {
                let value = self.hex_string()?;
                if skip::skip(&value, 0) != Ok(value.len()) {
                    return Err(self.found(start, "hex digits of one MsgPack value"));
                }
                out.extend_from_slice(&value);
            }
            _ => {
                let expected = "$str, $bin, $float, $double, $decimal, $uuid, $datetime, $interval, $ext, \
                                $map or $msgpack";
                return Err(self.found(object, expected));
            }
        }
        Ok(())
    }

    fn interval(&mut self) -> Result<Interval, String> {
        let mut interval = Interval::default();
        self.take(b'{', "an object of an interval's fields")?;
        if self.eat(b'}') {
            return Ok(interval);
        }
        loop {
            self.blank();
            let start = self.at;
            let key = self.key()?;
            let field = INTERVAL_FIELDS.iter().position(|&name| name == key);
            let field = field.ok_or_else(|| self.found(start, "the name of an interval's field"))?;
            self.blank();
            let start = self.at;
            let value = match field {
                INTERVAL_ADJUST => self.string_of(|text| {
                    let adjust = INTERVAL_ADJUSTS.iter().position(|&name| name == text);
                    adjust.map(|adjust| adjust as i128).ok_or("\"excess\", \"none\" or \"last\"")
                })?,
                _ => self.integer()?,
            };
            interval.set(field, value).map_err(|expected| self.found(start, expected))?;
            if !self.eat(b',') {
                self.take(b'}', "`,` or `}`")?;
                return Ok(interval);
            }
        }
    }

    /// A part of a key, as its kind demands.
    fn part(&mut self, kind: KeyKind, out: &mut Vec<u8>) -> Result<(), String> {
        self.blank();
        let start = self.at;
        let wrong = |parser: &Self| parser.found(start, kind.expected());
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                let error = |expected| self.found(start, expected);
                match kind {
                    KeyKind::String | KeyKind::Scalar => write::str(out, text.as_bytes()),
                    KeyKind::Decimal => write::decimal(out, &text.parse().map_err(error)?),
                    KeyKind::Uuid => write::uuid(out, &ext::uuid_from_text(&text).map_err(error)?),
                    KeyKind::Datetime => write::datetime(out, &text.parse().map_err(error)?),
                    _ => return Err(wrong(self)),
                }
            }
            Some(b'-' | b'0'..=b'9') => {
                let number = self.number()?;
                let error = |expected| self.found(start, expected);
                match (kind, number.integer()) {
                    (KeyKind::Unsigned, Some(integer)) if integer >= 0 => write::int(out, integer),
                    (
                        KeyKind::Integer | KeyKind::Double | KeyKind::Number | KeyKind::Scalar,
                        Some(integer),
                    ) => {
                        write::int(out, integer);
                    }
                    (KeyKind::Double, None) => {
                        write::double(out, number.double().ok_or_else(|| wrong(self))?)
                    }
                    // What neither an integer nor a double holds is a decimal.
                    (KeyKind::Number | KeyKind::Scalar, None) => match number.double() {
                        Some(double) if !number.is_integer() => write::double(out, double),
                        _ => write::decimal(out, &number.0.parse().map_err(error)?),
                    },
                    (KeyKind::Decimal, _) => write::decimal(out, &number.0.parse().map_err(error)?),
                    _ => return Err(wrong(self)),
                }
            }
            Some(b'{') => {
                if let Some(bytes) = self.hex_object()? {
                    if !matches!(kind, KeyKind::Varbinary | KeyKind::Scalar) {
                        return Err(wrong(self));
                    }
                    write::bin(out, &bytes);
                } else {
                    let mut value = Vec::new();
                    self.value(&mut value)?;
                    if !kind.fits(&value) {
                        return Err(wrong(self));
                    }
                    out.extend_from_slice(&value);
                }
            }
            _ => match self.word() {
                Some(None) => write::nil(out),
                Some(Some(boolean)) if matches!(kind, KeyKind::Boolean | KeyKind::Scalar) => {
                    write::boolean(out, boolean);
                }
                _ => return Err(wrong(self)),
            },
        }
        Ok(())
    }

    /// `{"hex":"…"}`; none, and nothing read, if the object has another first key.
    fn hex_object(&mut self) -> Result<Option<Vec<u8>>, String> {
        let start = self.at;
        self.take(b'{', "an object")?;
        if self.eat(b'}') || self.key()? != "hex" {
            self.at = start;
            return Ok(None);
        }
        let bytes = self.hex_string()?;
        self.take(b'}', "`}`")?;
        Ok(Some(bytes))
    }

    // What follows reads single tokens.

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Takes a punctuation mark if it comes next.
    fn eat(&mut self, mark: u8) -> bool {
        self.blank();
        let there = self.peek() == Some(mark);
        self.at += usize::from(there);
        there
    }

    fn take(&mut self, mark: u8, expected: &str) -> Result<(), String> {
        if self.eat(mark) { Ok(()) } else { Err(self.found(self.at, expected)) }
    }

    fn end(&mut self) -> Result<(), String> {
        self.blank();
        if self.at == self.text.len() { Ok(()) } else { Err(self.found(self.at, "the end")) }
    }

    /// The message that something else is at `at`.
    fn found(&self, at: usize, expected: &str) -> String {
        /// Characters of the text that are shown.
        const SHOWN: usize = 40;
        // What has been read of it, or else all that is left.
        let rest = self.text.get(at..self.at).filter(|read| !read.is_empty()).unwrap_or(&self.text[at..]);
        let cut = rest.char_indices().nth(SHOWN).map_or(rest.len(), |(cut, _)| cut);
        match (rest.is_empty(), cut < rest.len()) {
            (true, _) => format!("byte {at}: expected {expected}, found the end"),
            (_, true) => format!("byte {at}: expected {expected}, found `{}…`", &rest[..cut]),
            (_, false) => format!("byte {at}: expected {expected}, found `{rest}`"),
        }
    }

    /// `null` (none), `true`, `false`.
    fn word(&mut self) -> Option<Option<bool>> {
        for (word, value) in [("null", None), ("true", Some(true)), ("false", Some(false))] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Some(value);
            }
        }
        None
    }

    /// A number by JSON's grammar: no leading zeros, digits on both sides of a point.
    fn number(&mut self) -> Result<Number<'a>, String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut at = start + usize::from(self.peek() == Some(b'-'));
        let digits = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let whole = digits(at);
        let mut valid = whole > 0 && (whole == 1 || bytes[at] != b'0');
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            valid &= fraction > 0;
            at += 1 + fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at);
            valid &= exponent > 0;
            at += exponent;
        }
        if !valid {
            return Err(self.found(start, "a JSON number"));
        }
        self.at = at;
        Ok(Number(&self.text[start..at]))
    }

    fn integer(&mut self) -> Result<i128, String> {
        self.blank();
        let start = self.at;
        self.number()?.integer().ok_or_else(|| self.found(start, KeyKind::Integer.expected()))
    }

    /// A key of an object with its colon.
    fn key(&mut self) -> Result<String, String> {
        self.blank();
        let key = self.string()?;
        self.take(b':', "`:`")?;
        Ok(key)
    }

    fn string(&mut self) -> Result<String, String> {
        let start = self.at;
        if !self.eat(b'"') {
            return Err(self.found(start, "a string"));
        }
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let end = rest.bytes().position(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\'));
            let end = end.ok_or_else(|| self.found(start, "a string with an end"))?;
            out.push_str(&rest[..end]);
            self.at += end;
            match rest.as_bytes()[end] {
                b'"' => {
                    self.at += 1;
                    return Ok(out);
                }
                b'\\' => out.push(self.escape()?),
                _ => return Err(self.found(self.at, "a control character as an escape")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 2;
        Ok(match bytes.get(start + 1) {
            Some(&mark @ (b'"' | b'\\' | b'/')) => mark as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let unit = |at: usize| -> Option<u32> {
                    let digits = bytes.get(at..at + 4)?;
                    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | (digit as char).to_digit(16)?))
                };
                let second =
                    |at: usize| if bytes.get(at..at + 2) == Some(b"\\u") { unit(at + 2) } else { None };
                let (symbol, length) = match (unit(start + 2), second(start + 6)) {
                    (Some(high @ 0xd800..0xdc00), Some(low @ 0xdc00..0xe000)) => {
                        (char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), 12)
                    }
                    (Some(unit), _) => (char::from_u32(unit), 6),
                    (None, _) => (None, 6),
                };
                self.at = start + length;
                symbol.ok_or_else(|| self.found(start, "the escape of a Unicode character"))?
            }
            _ => return Err(self.found(start, "an escape of JSON")),
        })
    }

    /// A string that stands for something else.
    fn string_of<T>(&mut self, read: impl FnOnce(&str) -> Result<T, &'static str>) -> Result<T, String> {
        self.blank();
        let start = self.at;
        let text = self.string()?;
        read(&text).map_err(|expected| self.found(start, expected))
    }

    fn hex_string(&mut self) -> Result<Vec<u8>, String> {
        self.string_of(|text| hex(text).ok_or("a string of an even count of hex digits"))
    }
}

/// The doubles that JSON has no numbers for.
fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// `0x` and just as many hex digits.
fn hex_bits(text: &str, digits: usize) -> Option<u64> {
    let text = text.strip_prefix("0x")?;
    let valid = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if valid { u64::from_str_radix(text, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::{print, unhex};

    fn json(bytes: &[u8]) -> String {
        let mut out = String::new();
        assert_eq!(print::json(&mut out, bytes, 0), Ok(bytes.len()));
        out
    }

    /// A value in its shortest form.
    fn random_value(random: &mut fastrand::Rng, depth: usize, out: &mut Vec<u8>) {
        let bytes = |random: &mut fastrand::Rng| -> Vec<u8> {
            let length = if random.u8(..9) == 0 { random.usize(..400) } else { random.usize(..20) };
            (0..length).map(|_| random.u8(..)).collect()
        };
        match random.u8(..if depth > 0 { 16 } else { 13 }) {
            0 => write::nil(out),
            1 => write::boolean(out, random.bool()),
            2 => write::uint(out, random.u64(..) >> random.u32(..64)),
            3 => write::int(out, -i128::from(random.u64(..1 << 63) >> random.u32(..63))),
            4 => write::double(out, f64::from_bits(random.u64(..))),
            5 => write::double(out, f64::from(random.i8(..)) / 8.0),
            6 => write::float(out, f32::from_bits(random.u32(..))),
            7 => write::str(out, &bytes(random)),
            8 => write::str(
                out,
                (0..random.usize(..40)).map(|_| random.char(..)).collect::<String>().as_bytes(),
            ),
            9 => write::bin(out, &bytes(random)),
            10 => write::ext(out, random.i8(7..), &bytes(random)),
            11 => {
                let seconds = random.i64(-185_604_722_870_400..185_480_451_417_600);
                let datetime = Datetime {
                    seconds,
                    nanoseconds: random.u32(..1_000_000_000),
                    offset_minutes: random.i16(-720..=840),
                    zone: random.i16(0..=1024) * i16::from(random.bool()),
                };
                write::datetime(out, &datetime);
            }
            12 => {
                let digits: String = (0..random.usize(1..76)).map(|_| random.digit(10)).collect();
                let text = format!("-{digits}e{}", random.i32(-90..90));
                write::decimal(out, &text.parse().unwrap());
            }
            13 => {
                let count = if random.u8(..9) == 0 { random.u32(..40) } else { random.u32(..5) };
                write::array(out, count);
                (0..count).for_each(|_| random_value(random, depth - 1, out));
            }
            _ => {
                let count = if random.u8(..9) == 0 { random.u32(..40) } else { random.u32(..5) };
                let named = random.bool();
                write::map(out, count);
                for _ in 0..count {
                    if named {
                        write::str(
                            out,
                            format!("{}{}", ["", "k", "$"][random.usize(..3)], random.u8(..)).as_bytes(),
                        );
                    } else {
                        random_value(random, depth - 1, out);
                    }
                    random_value(random, depth - 1, out);
                }
            }
        }
    }

    #[test]
    fn what_is_printed_is_read_back_as_it_was() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..3_000 {
            let mut value = Vec::new();
            random_value(&mut random, 6, &mut value);
            let text = json(&value);
            assert_eq!(from_json(&text).as_ref(), Ok(&value), "{text}");
            serde_json::from_str::<serde_json::Value>(&text).unwrap();
        }
    }

    #[test]
    fn random_bytes_that_are_a_value_are_read_back_as_the_same_text() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut values = 0;
        for _ in 0..200_000 {
            let mut bytes: Vec<u8> = (0..random.usize(1..24)).map(|_| random.u8(..)).collect();
            bytes.iter_mut().for_each(|byte| {
                if random.bool() {
                    *byte = random.u8(0x80..0xe0)
                }
            });
            let mut text = String::new();
            if print::json(&mut text, &bytes, 0).is_ok() {
                let again = from_json(&text).unwrap();
                assert_eq!(json(&again), text);
                values += 1;
            }
        }
        assert!(values > 10_000);
    }

    #[test]
    fn the_deepest_nesting_is_read_back() {
        for (levels, head) in [(512, 0x91), (700, 0x91), (100_000, 0x91), (512, 0x81), (5_000, 0x81)] {
            let mut value = vec![head; levels];
            let inside = if head == 0x81 { levels + 1 } else { 1 };
            value.extend(vec![0xc0; inside]);
            assert_eq!(from_json(&json(&value)).as_ref(), Ok(&value));
        }
        assert!(from_json(&"[".repeat(1_000_000)).unwrap_err().contains("512 levels"));
        assert!(from_json(&"{\"$map\":[[".repeat(1_000_000)).unwrap_err().contains("512 levels"));
    }

    #[test]
    fn json_from_elsewhere_is_read() {
        for (text, bytes) in [
            (" [ 1 , -0 , 1.0 , 1e2 ] ", "94 01 00 cb3ff0000000000000 cb4059000000000000"),
            (r#""\u00e9\ud83d\ude00\/\b\f""#, "a9 c3a9 f09f9880 2f 08 0c"),
            (r#"{ "a" : { } , "a" : [ ] }"#, "82 a161 80 a161 90"),
            (r#"{"hex":"00"}"#, "81 a3686578 a23030"),
            (r#"{"$map":[]}"#, "80"),
            (r#"{"$bin":"AbcD"}"#, "c4 02 abcd"),
            (r#"{"$decimal":"1.5e3"}"#, "c7 03 01 fe 015c"),
            (r#"{"$double":1}"#, "cb3ff0000000000000"),
            (r#"{"$float":"Infinity"}"#, "ca7f800000"),
            (r#"{ "$datetime" : "1970-01-01T00:00:00Z" , "zone" : 0 }"#, "d704 0000000000000000"),
            (r#"{"$interval":{"adjust":"last","year":-1}}"#, "c7 05 06 02 00ff 0802"),
            (r#"{"$msgpack":"92cd0001c0"}"#, "92cd0001c0"),
        ] {
            assert_eq!(from_json(text), Ok(unhex(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        for text in [
            "",
            " ",
            "nul",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[1 2]",
            "]",
            "{",
            "{1:2}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\é\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\n\"",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "1e999",
            "18446744073709551616",
            "-9223372036854775809",
            "NaN",
            "'a'",
            "1 1",
            "null null",
            "é",
            "[é",
            r#"{"$foo":1}"#,
            r#"{"a":1,"$bin":"00"}"#,
            r#"{"$bin":"0"}"#,
            r#"{"$bin":"0g"}"#,
            r#"{"$bin":1}"#,
            r#"{"$bin":"00","a":1}"#,
            r#"{"$decimal":"x"}"#,
            r#"{"$decimal":1}"#,
            r#"{"$uuid":"x"}"#,
            r#"{"$datetime":"x"}"#,
            r#"{"$datetime":"1970-01-01T00:00:00Z","zone":1025}"#,
            r#"{"$datetime":"1970-01-01T00:00:00Z","zone":1.5}"#,
            r#"{"$datetime":"1970-01-01T00:00:00Z","zome":1}"#,
            r#"{"$interval":{"yeer":1}}"#,
            r#"{"$interval":{"year":4294967296}}"#,
            r#"{"$interval":{"adjust":1}}"#,
            r#"{"$interval":1}"#,
            r#"{"$float":1e99}"#,
            r#"{"$float":"x"}"#,
            r#"{"$double":"0x7ff"}"#,
            r#"{"$ext":[1]}"#,
            r#"{"$ext":[128,"00"]}"#,
            r#"{"$map":[[1]]}"#,
            r#"{"$map":[1]}"#,
            r#"{"$map":[[1,2,3]]}"#,
            r#"{"$map":{}}"#,
            r#"{"$msgpack":""}"#,
            r#"{"$msgpack":"c1"}"#,
            r#"{"$msgpack":"0101"}"#,
            r#"{"$msgpack":"91"}"#,
        ] {
            let error = from_json(text).unwrap_err();
            assert!(error.starts_with("byte ") && error.contains(": expected "), "{text}: {error}");
        }
        assert_eq!(from_json("[1,x").unwrap_err(), "byte 3: expected a JSON value, found `x`");
        assert_eq!(from_json("[1").unwrap_err(), "byte 2: expected `,` or `]`, found the end");
    }

    #[test]
    fn random_text_is_read_without_a_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let pieces = [
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "\"",
            "\\",
            "u0041",
            "é",
            "1",
            "-",
            ".",
            "e",
            "null",
            " ",
            "$map",
            "{\"$",
            "\"hex\":",
            "$ext",
            "$bin",
            "$datetime",
            "zone",
            "$float",
        ];
        let kinds = [KeyKind::Scalar, KeyKind::Decimal, KeyKind::Varbinary, KeyKind::Datetime];
        for _ in 0..100_000 {
            let text: String =
                (0..random.usize(..16)).map(|_| pieces[random.usize(..pieces.len())]).collect();
            let _ = from_json(&text);
            let _ = key_from_json(&format!("[{text}"), &kinds);
        }
    }

    #[track_caller]
    fn key(text: &str, kinds: &[KeyKind], expected: &str) {
        assert_eq!(key_from_json(text, kinds), Ok(unhex(expected)));
    }

    #[test]
    fn a_key_is_read_by_the_types_of_its_parts() {
        use KeyKind::*;
        key("[]", &[Unsigned], "90");
        key("[5, null]", &[Unsigned, String], "92 05 c0");
        key("[-5]", &[Integer], "91 fb");
        key("[5, 0.5, 1e300]", &[Double; 3], "93 05 cb3fe0000000000000 cb7e37e43c8800759c");
        key("[18446744073709551616]", &[Double], "91 cb43f0000000000000");
        key("[18446744073709551616]", &[Number], "91 c70c01 00 018446744073709551616c");
        key("[1e999]", &[Scalar], "91 d601 d1fc19 1c");
        key(r#"["a"]"#, &[String], "91 a161");
        key(r#"[{"hex":"00ff"}, {"$bin":""}]"#, &[Varbinary, Scalar], "92 c40200ff c400");
        key("[true]", &[Boolean], "91 c3");
        key(
            r#"["1.50", 1.50, 5, {"$decimal":"-1"}]"#,
            &[Decimal; 4],
            "94 c70301 02150c c70301 02150c d501 005c d501 001d",
        );
        key(
            r#"["c8f0fa1f-da29-438c-a040-393f1126ad39"]"#,
            &[Uuid],
            "91 d802 c8f0fa1fda29438ca040393f1126ad39",
        );
        key(r#"["1970-01-01T00:00:01Z"]"#, &[Datetime], "91 d704 0100000000000000");
        key(
            r#"["x", 1, false, {"hex":"01"}, {"$uuid":"c8f0fa1f-da29-438c-a040-393f1126ad39"}]"#,
            &[Scalar; 5],
            "95 a178 01 c2 c40101 d802 c8f0fa1fda29438ca040393f1126ad39",
        );
        key(r#"[{"$str":"ff"}, {"$float":1.5}]"#, &[String, Number], "92 a1ff ca3fc00000");
        key(
            "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]",
            &[Unsigned; 16],
            "dc0010 0102030405060708090a0b0c0d0e0f10",
        );
    }

    #[test]
    fn a_key_that_does_not_fit_names_the_part_and_what_was_expected() {
        use KeyKind::*;
        for (text, kinds, error) in [
            ("5", &[Unsigned][..], "byte 0: expected a JSON array, found `5`"),
            ("[1, 2]", &[Unsigned], "expected at most 1 part, found more"),
            (
                "[1, -2]",
                &[Unsigned; 2],
                "part 2: byte 4: expected an integer between 0 and 18446744073709551615, found `-2`",
            ),
            (
                "[1.0]",
                &[Integer],
                "part 1: byte 1: expected an integer between -9223372036854775808 and 18446744073709551615, \
                 found `1.0`",
            ),
            (r#"["5"]"#, &[Number], "part 1: byte 1: expected a number, found `\"5\"`"),
            ("[5]", &[String], "part 1: byte 1: expected a string, found `5`"),
            (r#"["00"]"#, &[Varbinary], "part 1: byte 1: expected {\"hex\":\"...\"}, found `\"00\"`"),
            (
                r#"[{"hex":"0"}]"#,
                &[Varbinary],
                "part 1: byte 8: expected a string of an even count of hex digits, found `\"0\"`",
            ),
            (r#"[{"hex":"00"}]"#, &[String], "part 1: byte 1: expected a string, found `{\"hex\":\"00\"}`"),
            ("[1]", &[Boolean], "part 1: byte 1: expected true or false, found `1`"),
            (
                r#"["x"]"#,
                &[Uuid],
                "part 1: byte 1: expected a uuid such as c8f0fa1f-da29-438c-a040-393f1126ad39, found `\"x\"`",
            ),
            ("[[]]", &[Scalar], "part 1: byte 1: expected a scalar, found `[]]`"),
            ("[{}]", &[Scalar], "part 1: byte 1: expected a scalar, found `{}`"),
            (
                r#"[{"$interval":{}}]"#,
                &[Scalar],
                "part 1: byte 1: expected a scalar, found `{\"$interval\":{}}`",
            ),
            ("[1e999]", &[Double], "part 1: byte 1: expected a number that a double holds, found `1e999`"),
            ("[1", &[Unsigned], "byte 2: expected `,` or `]`, found the end"),
            ("[1] x", &[Unsigned], "byte 4: expected the end, found `x`"),
        ] {
            assert_eq!(key_from_json(text, kinds).unwrap_err(), error, "{text}");
        }
    }
}
