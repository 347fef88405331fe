//! Values as JSON, on one line, so that nothing is lost: [`parse`](super::parse) reads it back.
//!
//! What JSON has is printed as it is. Everything else is an object whose first key begins with `$`:
//!
//! ```text
//! 1, -5, 18446744073709551615          integers, all digits, never with point or exponent
//! 1.0, -0.0, 1e300                     doubles, always with point or exponent, the shortest that reads back
//! {"$float":1.5}                       floats of four bytes
//! {"$double":"NaN"}                    "Infinity", "-Infinity", and "0x7ff0000000000001" for other NaNs; $float alike
//! {"$str":"ff00"}                      a string that is not UTF-8, in hex
//! {"$bin":"00ff"}                      binary, in hex
//! {"$decimal":"1.50"}                  with its digits and exponent as they are: "1E+3", "-0"
//! {"$uuid":"c8f0fa1f-…"}
//! {"$datetime":"2024-01-02T03:04:05+03:00","zone":947}     without a zone where that is 0
//! {"$interval":{"year":1,"adjust":"none"}}                 without what is 0; "excess" is the adjust of 0
//! {"$ext":[8,"0102"]}                  other extensions, and those above if their payload is not one of theirs
//! {"$map":[[1,"a"],[1,"b"]]}           a map with keys that are no UTF-8 strings, are there twice, or begin with $
//! {"$msgpack":"91c0"}                  a container below the 512th level, as its bytes
//! ```
//!
//! Values are kept, encodings are not: an integer, length, decimal, datetime or interval that is not in its shortest
//! form prints like the shortest one. The bytes themselves are what `hex` is for.
//!
//! No depth of nesting costs stack: open containers are a list, capped at `NESTING_MAX`. Whether a map is an
//! object has to be known before its first key is printed, so the first map of a value has the ends of all containers
//! noted down, in one pass; with them the keys of a map are found without walking through its values again.

use std::fmt::Write;

use super::decimal::Decimal;
use super::ext::{
    self, Datetime, EXT_DATETIME, EXT_DECIMAL, EXT_INTERVAL, EXT_UUID, INTERVAL_ADJUST, INTERVAL_ADJUSTS,
    INTERVAL_FIELDS, Interval,
};
use super::{Fault, FaultKind, HEADS, class, read, skip};
use crate::limits::NESTING_MAX;

/// Appends the value at `at` and gives the offset after it. A fault leaves what was printed so far.
pub(crate) fn json(out: &mut String, bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let printed = out.len();
    if let Some(end) = flat(out, bytes, at) {
        return Ok(end);
    }
    out.truncate(printed);
    Printer { out, bytes, start: at, containers: 0, extents: Vec::new() }.value(at)
}

/// The straight way for most tuples: an array of integers, strings of plain text, booleans and nil. Nothing if it is
/// something else.
fn flat(out: &mut String, bytes: &[u8], at: usize) -> Option<usize> {
    let (count, mut at) = read::array(bytes, at).ok()?;
    out.push('[');
    for number in 0..count {
        if number > 0 {
            out.push(',');
        }
        let class = read::class_at(bytes, at);
        at = match class {
            class::UINT => {
                let (value, end) = read::uint(bytes, at).ok()?;
                out.push_str(itoa::Buffer::new().format(value));
                end
            }
            class::STR => {
                let (text, end) = read::str(bytes, at).ok()?;
                let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7e) && *byte != b'"' && *byte != b'\\';
                if !text.iter().fold(true, |all, byte| all & is_plain(byte)) {
                    string(out, str::from_utf8(text).ok()?);
                } else {
                    out.push('"');
                    out.push_str(str::from_utf8(text).ok()?);
                    out.push('"');
                }
                end
            }
            class::NIL => {
                out.push_str("null");
                at + 1
            }
            class::BOOL => {
                out.push_str(if bytes[at] == 0xc3 { "true" } else { "false" });
                at + 1
            }
            class::ARRAY | class::MAP => return None,
            _ => Printer { out, bytes, start: at, containers: 0, extents: Vec::new() }.scalar(at).ok()?,
        };
    }
    out.push(']');
    Some(at)
}

/// Appends bytes as lower-case hex digits.
pub(crate) fn hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
}

/// The first bytes of a foreign value in hex, as messages show it.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 32;
    let mut out = String::new();
    hex(&mut out, &bytes[..bytes.len().min(SHOWN)]);
    if bytes.len() > SHOWN {
        out.push_str("...");
    }
    out
}

/// Appends a JSON string.
pub(crate) fn string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            byte => write!(out, "\\u{byte:04x}").expect("a string takes all text"),
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

struct Printer<'a> {
    out: &'a mut String,
    bytes: &'a [u8],
    /// Where the whole value begins.
    start: usize,
    /// Containers that have begun so far, in the order of the bytes.
    containers: usize,
    /// Of all containers in the same order; empty until the first map.
    extents: Vec<Extent>,
}

/// Where a container ends.
#[derive(Clone, Copy, Default)]
struct Extent {
    /// Offset after its last byte.
    end: usize,
    /// Number of the next container that is not inside it.
    next: usize,
}

/// A container that is being printed.
struct Frame {
    form: Form,
    /// Values of an array, pairs of an object, keys and values of a map, still to come.
    left: u64,
    printed: u64,
}

#[derive(Clone, Copy)]
enum Form {
    Array,
    Object,
    Map,
}

impl Printer<'_> {
    fn value(&mut self, mut at: usize) -> Result<usize, Fault> {
        let mut open: Vec<Frame> = Vec::new();
        loop {
            at = match read::class_at(self.bytes, at) {
                class::ARRAY | class::MAP if open.len() == NESTING_MAX => self.deep(at)?,
                class::ARRAY => {
                    let (values, inside) = read::array(self.bytes, at)?;
                    self.containers += 1;
                    self.out.push('[');
                    open.push(Frame { form: Form::Array, left: u64::from(values), printed: 0 });
                    inside
                }
                class::MAP => {
                    let (pairs, inside) = read::map(self.bytes, at)?;
                    let (form, left) = match self.is_object(pairs, inside)? {
                        true => (Form::Object, u64::from(pairs)),
                        false => (Form::Map, 2 * u64::from(pairs)),
                    };
                    self.containers += 1;
                    self.out.push_str(if let Form::Object = form { "{" } else { "{\"$map\":[" });
                    open.push(Frame { form, left, printed: 0 });
                    inside
                }
                _ => self.scalar(at)?,
            };
            // On to the next value; what ended with the last one is closed.
            loop {
                let Some(frame) = open.last_mut() else { return Ok(at) };
                if frame.left > 0 {
                    at = self.before(frame, at)?;
                    frame.left -= 1;
                    frame.printed += 1;
                    break;
                }
                self.out.push_str(match (frame.form, frame.printed) {
                    (Form::Array, _) => "]",
                    (Form::Object, _) => "}",
                    (Form::Map, 0) => "]}",
                    (Form::Map, _) => "]]}",
                });
                open.pop();
            }
        }
    }

    /// What stands before the next value: commas, brackets, an object's key. Gives the offset of the value.
    fn before(&mut self, frame: &Frame, at: usize) -> Result<usize, Fault> {
        let comma = if frame.printed > 0 { "," } else { "" };
        match frame.form {
            Form::Array => self.out.push_str(comma),
            Form::Object => {
                self.out.push_str(comma);
                let after = self.scalar(at)?;
                self.out.push(':');
                return Ok(after);
            }
            Form::Map => self.out.push_str(match (frame.printed % 2, frame.printed) {
                (1, _) => ",",
                (_, 0) => "[",
                _ => "],[",
            }),
        }
        Ok(at)
    }

    /// A container that is too deep to be looked into.
    fn deep(&mut self, at: usize) -> Result<usize, Fault> {
        let Extent { end, next } = self.extent(self.containers)?;
        self.containers = next;
        let bytes = self.bytes;
        self.tagged_hex("msgpack", &bytes[at..end]);
        Ok(end)
    }

    fn extent(&mut self, container: usize) -> Result<Extent, Fault> {
        if self.extents.is_empty() {
            self.extents = extents(self.bytes, self.start)?;
        }
        Ok(self.extents[container])
    }

    /// Whether the map that comes next can be a JSON object; its first key is at `at`.
    fn is_object(&mut self, pairs: u32, mut at: usize) -> Result<bool, Fault> {
        // With this the bytes are known to be whole, up to the map's end.
        let mut next = self.containers + 1;
        let end = self.extent(self.containers)?.end;
        let mut keys = Vec::with_capacity((pairs as usize).min(end - at));
        for _ in 0..pairs {
            match read::str(self.bytes, at) {
                Ok((key, after)) if !key.starts_with(b"$") && str::from_utf8(key).is_ok() => {
                    keys.push(key);
                    at = after;
                }
                _ => return Ok(false),
            }
            at = match read::class_at(self.bytes, at) {
                class::ARRAY | class::MAP => {
                    let extent = self.extents[next];
                    next = extent.next;
                    extent.end
                }
                _ => skip::skip(self.bytes, at)?,
            };
        }
        keys.sort_unstable();
        Ok(keys.windows(2).all(|two| two[0] != two[1]))
    }

    fn scalar(&mut self, at: usize) -> Result<usize, Fault> {
        let bytes = self.bytes;
        Ok(match read::class_at(bytes, at) {
            class::NIL => {
                self.out.push_str("null");
                at + 1
            }
            class::BOOL => {
                self.out.push_str(if bytes[at] == 0xc3 { "true" } else { "false" });
                at + 1
            }
            class::UINT | class::INT => {
                let (value, end) = read::int(bytes, at)?;
                let mut digits = itoa::Buffer::new();
                self.out.push_str(match u64::try_from(value) {
                    Ok(value) => digits.format(value),
                    Err(_) => digits.format(value as i64),
                });
                end
            }
            class::FLOAT32 => {
                let (_, end) = read::float(bytes, at)?;
                let bits = u32::from_be_bytes(bytes[at + 1..end].try_into().expect("a float has 4 bytes"));
                self.tagged("float", |out| float(out, bits));
                end
            }
            class::FLOAT64 => {
                let (value, end) = read::float(bytes, at)?;
                if value.is_finite() {
                    write!(self.out, "{value:?}").expect("a string takes all text");
                } else {
                    self.tagged("double", |out| special_double(out, value));
                }
                end
            }
            class::STR => {
                let (body, end) = read::str(bytes, at)?;
                match str::from_utf8(body) {
                    Ok(text) => string(self.out, text),
                    Err(_) => self.tagged_hex("str", body),
                }
                end
            }
            class::BIN => {
                let (body, end) = read::bin(bytes, at)?;
                self.tagged_hex("bin", body);
                end
            }
            class::EXT => {
                let ((kind, payload), end) = read::ext(bytes, at)?;
                self.ext(kind, payload);
                end
            }
            0 => return Err(Fault::new(at, FaultKind::Cut)),
            _ => return Err(Fault::new(at, FaultKind::Reserved)),
        })
    }

    fn ext(&mut self, kind: i8, payload: &[u8]) {
        // An extension that is not what its type demands is still printed, as one of no known type.
        let known = match kind {
            EXT_DECIMAL => Decimal::from_payload(payload)
                .map(|decimal| self.tagged("decimal", |out| quoted(out, format_args!("{decimal}")))),
            EXT_UUID => {
                ext::uuid(payload).map(|uuid| self.tagged("uuid", |out| string(out, &ext::uuid_text(&uuid))))
            }
            EXT_DATETIME => Datetime::from_payload(payload).map(|datetime| {
                self.tagged("datetime", |out| {
                    quoted(out, format_args!("{datetime}"));
                    if datetime.zone != 0 {
                        write!(out, ",\"zone\":{}", datetime.zone).expect("a string takes all text");
                    }
                });
            }),
            EXT_INTERVAL => Interval::from_payload(payload)
                .map(|value| self.tagged("interval", |out| interval(out, &value))),
            _ => Err(""),
        };
        if known.is_err() {
            self.tagged("ext", |out| {
                write!(out, "[{kind},\"").expect("a string takes all text");
                hex(out, payload);
                out.push_str("\"]");
            });
        }
    }

    /// `{"$tag":…}`.
    fn tagged(&mut self, tag: &str, print: impl FnOnce(&mut String)) {
        write!(self.out, "{{\"${tag}\":").expect("a string takes all text");
        print(self.out);
        self.out.push('}');
    }

    fn tagged_hex(&mut self, tag: &str, body: &[u8]) {
        self.tagged(tag, |out| {
            out.push('"');
            hex(out, body);
            out.push('"');
        });
    }
}

/// Text that needs no escapes.
fn quoted(out: &mut String, text: std::fmt::Arguments<'_>) {
    write!(out, "\"{text}\"").expect("a string takes all text");
}

fn float(out: &mut String, bits: u32) {
    let value = f32::from_bits(bits);
    if value.is_finite() {
        write!(out, "{value:?}").expect("a string takes all text");
    } else if value.is_nan() && bits != f32::NAN.to_bits() {
        quoted(out, format_args!("{bits:#010x}"));
    } else {
        special_double(out, f64::from(value));
    }
}

/// NaN or an infinity.
pub(crate) fn special_double(out: &mut String, value: f64) {
    let bits = value.to_bits();
    if value == f64::INFINITY {
        out.push_str("\"Infinity\"");
    } else if value == f64::NEG_INFINITY {
        out.push_str("\"-Infinity\"");
    } else if bits == f64::NAN.to_bits() {
        out.push_str("\"NaN\"");
    } else {
        quoted(out, format_args!("{bits:#018x}"));
    }
}

fn interval(out: &mut String, interval: &Interval) {
    let mut separator = '{';
    for (field, &value) in interval.values.iter().enumerate().filter(|&(_, &value)| value != 0) {
        let name = INTERVAL_FIELDS[field];
        match field {
            INTERVAL_ADJUST => write!(out, "{separator}\"{name}\":\"{}\"", INTERVAL_ADJUSTS[value as usize]),
            _ => write!(out, "{separator}\"{name}\":{value}"),
        }
        .expect("a string takes all text");
        separator = ',';
    }
    out.push_str(if separator == '{' { "{}" } else { "}" });
}

/// The extent of each container in the value at `at`.
fn extents(bytes: &[u8], mut at: usize) -> Result<Vec<Extent>, Fault> {
    let mut extents: Vec<Extent> = Vec::new();
    // Number of the container, values that it still owes.
    let mut open: Vec<(usize, u64)> = Vec::new();
    loop {
        let Some(&first) = bytes.get(at) else { return Err(Fault::new(at, FaultKind::Cut)) };
        let children = match HEADS[first as usize].class {
            class::ARRAY => Some(read::array(bytes, at).map(|(values, inside)| (u64::from(values), inside))?),
            class::MAP => Some(read::map(bytes, at).map(|(pairs, inside)| (2 * u64::from(pairs), inside))?),
            _ => None,
        };
        if let Some((children, inside)) = children {
            open.push((extents.len(), children));
            extents.push(Extent::default());
            at = inside;
        } else {
            at = skip::skip(bytes, at)?;
        }
        loop {
            let Some((container, owed)) = open.last_mut() else { return Ok(extents) };
            if *owed > 0 {
                *owed -= 1;
                break;
            }
            extents[*container] = Extent { end: at, next: extents.len() };
            open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::unhex as bytes;

    #[track_caller]
    fn prints(value: &str, expected: &str) {
        let value = bytes(value);
        let mut out = String::new();
        assert_eq!(json(&mut out, &value, 0), Ok(value.len()));
        assert_eq!(out, expected);
        serde_json::from_str::<serde_json::Value>(&out).unwrap();
    }

    #[test]
    fn what_json_has_prints_as_it_is() {
        prints("c0", "null");
        prints("93 c2 c3 90", "[false,true,[]]");
        prints(
            "94 05 ff cf ffffffffffffffff d3 8000000000000000",
            "[5,-1,18446744073709551615,-9223372036854775808]",
        );
        prints("cf 0020000000000001", "9007199254740993");
        prints("92 cb 3ff0000000000000 cb 8000000000000000", "[1.0,-0.0]");
        prints(
            "93 cb 7fefffffffffffff cb 0000000000000001 cb 3fb999999999999a",
            "[1.7976931348623157e308,5e-324,0.1]",
        );
        prints("a3 61 22 5c", r#""a\"\\""#);
        prints("a6 0a 0d 09 00 1f 7f", "\"\\n\\r\\t\\u0000\\u001f\u{7f}\"");
        prints("a4 f09f9880", "\"😀\"");
        prints("82 a1 61 81 a1 62 80 a1 63 91 c0", r#"{"a":{"b":{}},"c":[null]}"#);
    }

    #[test]
    fn what_json_lacks_prints_with_a_dollar() {
        prints("ca 3fc00000", r#"{"$float":1.5}"#);
        prints("ca 3dcccccd", r#"{"$float":0.1}"#);
        prints(
            "94 cb 7ff8000000000000 cb 7ff0000000000001 cb 7ff0000000000000 cb fff0000000000000",
            r#"[{"$double":"NaN"},{"$double":"0x7ff0000000000001"},{"$double":"Infinity"},{"$double":"-Infinity"}]"#,
        );
        prints(
            "93 ca 7fc00000 ca ffc00000 ca ff800000",
            r#"[{"$float":"NaN"},{"$float":"0xffc00000"},{"$float":"-Infinity"}]"#,
        );
        prints("a2 ff00", r#"{"$str":"ff00"}"#);
        prints("92 c4 02 00ff c4 00", r#"[{"$bin":"00ff"},{"$bin":""}]"#);
        prints("c7 03 01 02 150c", r#"{"$decimal":"1.50"}"#);
        prints("d5 01 fd 1c", r#"{"$decimal":"1E+3"}"#);
        prints(
            "d802 c8f0fa1fda29438ca040393f1126ad39",
            r#"{"$uuid":"c8f0fa1f-da29-438c-a040-393f1126ad39"}"#,
        );
        prints("d704 0000000000000000", r#"{"$datetime":"1970-01-01T00:00:00Z"}"#);
        prints(
            "d804 d027936500000000 00000000 b400 b303",
            r#"{"$datetime":"2024-01-02T00:00:00+03:00","zone":947}"#,
        );
        prints("c7 05 06 02 00 01 08 01", r#"{"$interval":{"year":1,"adjust":"none"}}"#);
        prints("d4 06 00", r#"{"$interval":{}}"#);
        prints("92 d4 7f 01 c7 00 ff", r#"[{"$ext":[127,"01"]},{"$ext":[-1,""]}]"#);
    }

    #[test]
    fn malformed_extensions_print_as_unknown_ones() {
        prints("d5 01 00 10", r#"{"$ext":[1,"0010"]}"#);
        prints("c7 00 01", r#"{"$ext":[1,""]}"#);
        prints("d4 02 00", r#"{"$ext":[2,"00"]}"#);
        prints("d7 04 ffffffffffffff7f", r#"{"$ext":[4,"ffffffffffffff7f"]}"#);
        prints("d5 06 01 00", r#"{"$ext":[6,"0100"]}"#);
    }

    #[test]
    fn a_map_is_an_object_only_if_that_loses_nothing() {
        prints("82 01 a1 61 01 a1 62", r#"{"$map":[[1,"a"],[1,"b"]]}"#);
        prints("82 a1 61 01 a1 61 02", r#"{"$map":[["a",1],["a",2]]}"#);
        prints("82 a1 61 01 d901 61 02", r#"{"$map":[["a",1],["a",2]]}"#);
        prints("81 a4 24626974 01", r#"{"$map":[["$bit",1]]}"#);
        prints("82 a1 61 01 a1 24 02", r#"{"$map":[["a",1],["$",2]]}"#);
        prints("81 a1 ff c0", r#"{"$map":[[{"$str":"ff"},null]]}"#);
        prints("81 80 81 90 80", r#"{"$map":[[{},{"$map":[[[],{}]]}]]}"#);
        prints(
            "82 a1 61 92 90 81 01 80 a1 62 81 a1 63 91 01",
            r#"{"a":[[],{"$map":[[1,{}]]}],"b":{"c":[1]}}"#,
        );
    }

    #[test]
    fn nesting_stops_at_its_limit_with_the_bytes_of_the_rest() {
        let nested = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
        let mut out = String::new();
        assert_eq!(json(&mut out, &nested(NESTING_MAX), 0), Ok(NESTING_MAX + 1));
        assert!(out.contains("[null]"));
        out.clear();
        assert_eq!(json(&mut out, &nested(NESTING_MAX + 2), 0), Ok(NESTING_MAX + 3));
        assert!(out.contains(r#"[{"$msgpack":"9191c0"}]"#));
        out.clear();
        let deep = [&[0x93][..], &nested(1_000_000), &[0x81, 0xa1, b'a', 0x90], &[7]].concat();
        assert_eq!(json(&mut out, &deep, 0), Ok(deep.len()));
        assert!(out.ends_with(r#"]],{"a":[]},7]"#));
        // Maps inside maps, each looked at before it is printed.
        let maps = [[0x81, 0xa1, b'a'].repeat(100_000), vec![0xc0]].concat();
        out.clear();
        assert_eq!(json(&mut out, &maps, 0), Ok(maps.len()));
    }

    #[test]
    fn broken_bytes_are_a_fault_and_cost_nothing() {
        for value in [
            "",
            "91",
            "c1",
            "a2 61",
            "df ffffffff",
            "dd ffffffff 01",
            "81 a1 61",
            "92 80 c1",
            "d9",
            "c7 05 01 00",
        ] {
            assert!(json(&mut String::new(), &bytes(value), 0).is_err(), "{value}");
        }
    }
}
