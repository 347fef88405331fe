//! Values as Lua expressions that Tarantool reads.
//!
//! ```text
//! 5, -5, 9007199254740993ULL, -9007199254740993LL      integers; beyond 2^53 as 64-bit ones
//! 1.5, 1e+300, 1/0, -1/0, 0/0                          floats and doubles
//! "a\0b"                                               strings and binary data, with escapes
//! {1, 2, box.NULL}, {["a"] = 1, [2] = "b"}             arrays and maps
//! require("decimal").new("1.50")                       decimals; uuid.fromstr likewise
//! require("msgpack").decode("\216\4...")               other extensions
//! ```
//!
//! No depth of nesting costs stack.

use std::fmt::Write;

use super::decimal::Decimal;
use super::ext::{self, EXT_DECIMAL, EXT_UUID};
use super::{class, read, skip};

/// Doubles hold integers up to this exactly.
const EXACT_MAX: i128 = 1 << 53;

/// Appends a value, which is known to be whole.
pub(crate) fn lua(out: &mut String, bytes: &[u8]) {
    // Of the open containers: whether it is a map, values still to come, whether one has been printed.
    let mut open: Vec<(bool, u64, bool)> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match read::class_at(bytes, at) {
            class::ARRAY => {
                let (count, inside) = read::array(bytes, at).expect("a whole value");
                out.push('{');
                open.push((false, count.into(), false));
                at = inside;
            }
            class::MAP => {
                let (pairs, inside) = read::map(bytes, at).expect("a whole value");
                out.push('{');
                open.push((true, 2 * u64::from(pairs), false));
                at = inside;
            }
            _ => {
                let end = skip::skip(bytes, at).expect("a whole value");
                scalar(out, &bytes[at..end]);
                at = end;
            }
        }
        loop {
            let Some((is_map, left, any)) = open.last_mut() else { return };
            let is_key = *is_map && left.is_multiple_of(2);
            if *left == 0 {
                // A map's last value has no bracket after it, its keys have.
                out.push('}');
                open.pop();
                close_key(out, &open);
                continue;
            }
            if *any && (!*is_map || is_key) {
                out.push_str(", ");
            }
            if is_key {
                out.push('[');
            }
            *left -= 1;
            *any = true;
            break;
        }
        if !matches!(bytes.get(at).map(|_| read::class_at(bytes, at)), Some(class::ARRAY | class::MAP))
            && let Some(&(true, left, _)) = open.last()
            && !left.is_multiple_of(2)
        {
            // A key that is no container: it, and what follows it, at once.
            let end = skip::skip(bytes, at).expect("a whole value");
            scalar(out, &bytes[at..end]);
            out.push_str("] = ");
            at = end;
            if let Some((_, left, _)) = open.last_mut() {
                *left -= 1;
            }
        }
    }
}

/// Closes the bracket of a key that was a container.
fn close_key(out: &mut String, open: &[(bool, u64, bool)]) {
    if let Some(&(true, left, _)) = open.last()
        && !left.is_multiple_of(2)
    {
        out.push_str("] = ");
    }
}

fn scalar(out: &mut String, bytes: &[u8]) {
    match read::class_at(bytes, 0) {
        class::NIL => out.push_str("box.NULL"),
        class::BOOL => out.push_str(if bytes[0] == 0xc3 { "true" } else { "false" }),
        class::UINT | class::INT => {
            let (value, _) = read::int(bytes, 0).expect("a whole value");
            let suffix = match value {
                _ if value.abs() <= EXACT_MAX => "",
                0.. => "ULL",
                _ => "LL",
            };
            write!(out, "{value}{suffix}").expect("a string takes all text");
        }
        class::FLOAT32 | class::FLOAT64 => {
            let (value, _) = read::float(bytes, 0).expect("a whole value");
            match value {
                _ if value.is_nan() => out.push_str("0/0"),
                f64::INFINITY => out.push_str("1/0"),
                f64::NEG_INFINITY => out.push_str("-1/0"),
                _ => write!(out, "{value:?}").expect("a string takes all text"),
            }
        }
        class::STR => string(out, read::str(bytes, 0).expect("a whole value").0),
        class::BIN => string(out, read::bin(bytes, 0).expect("a whole value").0),
        _ => extension(out, bytes),
    }
}

fn extension(out: &mut String, bytes: &[u8]) {
    let known = match read::ext(bytes, 0) {
        Ok(((EXT_DECIMAL, payload), _)) => {
            Decimal::from_payload(payload).ok().map(|value| format!("require(\"decimal\").new(\"{value}\")"))
        }
        Ok(((EXT_UUID, payload), _)) => ext::uuid(payload)
            .ok()
            .map(|value| format!("require(\"uuid\").fromstr(\"{}\")", ext::uuid_text(&value))),
        _ => None,
    };
    match known {
        Some(text) => out.push_str(&text),
        None => {
            out.push_str("(require(\"msgpack\").decode(");
            string(out, bytes);
            out.push_str("))");
        }
    }
}

fn string(out: &mut String, bytes: &[u8]) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for symbol in chunk.valid().chars() {
            match symbol {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                symbol if symbol.is_control() => {
                    let mut buffer = [0; 4];
                    symbol.encode_utf8(&mut buffer).bytes().for_each(|byte| escape(out, byte));
                }
                symbol => out.push(symbol),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(out, byte));
    }
    out.push('"');
}

fn escape(out: &mut String, byte: u8) {
    write!(out, "\\{byte:03}").expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::{parse, unhex};

    #[test]
    fn values_are_expressions() {
        for (json, expected) in [
            ("[1, -5, 1.5, null, true]", "{1, -5, 1.5, box.NULL, true}"),
            ("9007199254740993", "9007199254740993ULL"),
            ("-9007199254740993", "-9007199254740993LL"),
            (r#"{"a": [1, {}], "b": {"c": []}}"#, r#"{["a"] = {1, {}}, ["b"] = {["c"] = {}}}"#),
            (r#"{"$map": [[1, 2], [[3], [4]]]}"#, "{[1] = 2, [{3}] = {4}}"),
            (r#""a\"\\\n\u0000é""#, "\"a\\\"\\\\\\n\\000é\""),
            (r#"{"$bin": "00ff"}"#, "\"\\000\\255\""),
            (r#"{"$decimal": "1.50"}"#, "require(\"decimal\").new(\"1.50\")"),
            (r#"{"$double": "NaN"}"#, "0/0"),
            (r#"{"$ext": [9, "01"]}"#, "(require(\"msgpack\").decode(\"\u{d4}\\009\\001\"))"),
        ] {
            let mut out = String::new();
            lua(&mut out, &parse::from_json(json).unwrap());
            let expected = expected.replace('\u{d4}', "\\212");
            assert_eq!(out, expected, "{json}");
        }
        let mut out = String::new();
        lua(&mut out, &unhex("92 80 90"));
        assert_eq!(out, "{{}, {}}");
        let deep = [vec![0x91; 100_000], vec![0xc0]].concat();
        lua(&mut out, &deep);
    }
}
