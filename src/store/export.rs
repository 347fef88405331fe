//! Tuples as rows of other people's formats.
//!
//! ```text
//! JsonEachRow          {"id":1,"name":"Ann"}      an object a line, as ClickHouse, DuckDB, jq and others read it
//! JsonCompactEachRow   [1,"Ann"]                  an array a line
//! Csv                  1,Ann                      RFC 4180, with a line of names
//! Tsv                  1 <TAB> Ann                escapes of ClickHouse's TabSeparated, with a line of names
//! MsgPack              92 01 a3 41 6e 6e          the tuples as they are, one after another
//! ```
//!
//! What is the same for every value of a column is made once: of JSON the escaped `"name":` with the comma before it.
//! [`Tuple::to_json`](crate::Tuple::to_json) is lossless and has forms of its own; here values look as other software
//! expects them, and options choose where there is more than one way.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::view::{Index, Tuple};
use crate::file::pipeline::in_order;
use crate::msgpack::decimal::Decimal;
use crate::msgpack::ext::{self, Datetime, EXT_DATETIME, EXT_DECIMAL, EXT_UUID};
use crate::msgpack::value::Value;
use crate::msgpack::{class, print, read, skip};
use crate::parallel;
use crate::tuple::field_map::StoredTuple;

/// Tuples that a thread formats at a time.
const BATCH_TUPLES: usize = 1024;

/// Containers inside each other that are written as such; what is deeper is written as its bytes.
const NESTING_MAX: usize = 128;

/// The greatest integer that a double has exactly, and all below it.
const DOUBLE_EXACT_MAX: i128 = (1 << 53) - 1;

/// A format for [`Exporter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ExportFormat {
    /// An object a line.
    #[default]
    JsonEachRow,
    /// An array a line.
    JsonCompactEachRow,
    /// RFC 4180, with a line of names; nil is nothing, an empty string `""`.
    Csv,
    /// Tab-separated with the escapes of ClickHouse, with a line of names; nil is `\N`.
    Tsv,
    /// The tuples' MsgPack, one after another.
    MsgPack,
}

/// How binary data, and strings that are no UTF-8, are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BytesForm {
    /// Lower-case hex digits.
    #[default]
    Hex,
    /// Base64 with padding.
    Base64,
}

/// How tuples are written.
///
/// ```
/// use lycosa::{ExportFormat, ExportOptions};
///
/// let options = ExportOptions { format: ExportFormat::Csv, ..ExportOptions::default() };
/// assert!(options.header && !options.quotes_wide_integers);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    /// The format.
    pub format: ExportFormat,
    /// Of CSV and TSV: a first line with the names.
    pub header: bool,
    /// Binary data.
    pub bytes: BytesForm,
    /// JSON: integers beyond 2^53 are strings, for readers that take all numbers for doubles.
    pub quotes_wide_integers: bool,
    /// JSON: decimals are strings, for the same readers.
    pub quotes_decimals: bool,
    /// JSON: NaN and infinities are strings; otherwise null.
    pub quotes_nan: bool,
    /// Types and lengths in the place of values.
    pub redact: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: ExportFormat::default(),
            header: true,
            bytes: BytesForm::default(),
            quotes_wide_integers: false,
            quotes_decimals: false,
            quotes_nan: false,
            redact: false,
        }
    }
}

/// Writes the tuples of a space; made once for all of them.
///
/// ```
/// use lycosa::{ExportOptions, Exporter, Store};
///
/// let view = Store::open("snapshots/2.6/02-one-space")?.read_view();
/// let users = view.space("users")?.primary()?;
/// let exporter = Exporter::new(&users, ExportOptions::default());
/// let mut line = Vec::new();
/// exporter.write(&mut line, &users.get(&(14,))?.unwrap());
/// assert_eq!(line, b"{\"id\":14,\"name\":\"dqsxi\",\"age\":34}\n");
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    options: ExportOptions,
    names: Vec<String>,
    /// Of JSON: what stands before each value.
    runs: Vec<Vec<u8>>,
}

impl Exporter {
    /// Columns are the fields of the space's format, and as many more as its longest tuple has: those are called
    /// `field_N`, counted from 1, with `_` behind it where the format has such a name.
    pub fn new(index: &Index<'_>, options: ExportOptions) -> Self {
        let def = &index.table.def;
        let widest =
            index.data.all().map(|tuple| read::array(tuple.data(), 0).map_or(0, |(count, _)| count)).max();
        let columns = def.format.len().max(widest.unwrap_or(0) as usize).max(def.field_count as usize);
        let mut names: Vec<String> = def.format.iter().map(|field| field.name.clone()).collect();
        let mut taken: HashSet<String> = names.iter().cloned().collect();
        for number in names.len()..columns {
            let mut name = format!("field_{}", number + 1);
            while !taken.insert(name.clone()) {
                name.push('_');
            }
            names.push(name);
        }
        let runs = names.iter().enumerate().map(|(number, name)| {
            let mut run = String::from(if number == 0 { "{" } else { "," });
            print::string(&mut run, name);
            run.push(':');
            run.into_bytes()
        });
        Self { options, runs: runs.collect(), names }
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Appends what comes before the first tuple, if there is anything.
    pub fn write_header(&self, out: &mut Vec<u8>) {
        if !self.options.header {
            return;
        }
        for (number, name) in self.names.iter().enumerate() {
            match self.options.format {
                ExportFormat::Csv => {
                    out.extend_from_slice(if number > 0 { b"," } else { b"" });
                    csv_text(out, name.as_bytes());
                }
                ExportFormat::Tsv => {
                    out.extend_from_slice(if number > 0 { b"\t" } else { b"" });
                    tsv_text(out, name.as_bytes());
                }
                _ => return,
            }
        }
        if !self.names.is_empty() {
            out.extend_from_slice(if self.options.format == ExportFormat::Csv { b"\r\n" } else { b"\n" });
        }
    }

    /// Appends a tuple.
    pub fn write(&self, out: &mut Vec<u8>, tuple: &Tuple<'_>) {
        self.row(out, tuple.bytes());
    }

    fn row(&self, out: &mut Vec<u8>, tuple: &[u8]) {
        if self.options.redact {
            return self.bytes(out, &Value::of_checked(tuple).redacted());
        }
        self.bytes(out, tuple);
    }

    fn bytes(&self, out: &mut Vec<u8>, tuple: &[u8]) {
        if self.options.format == ExportFormat::MsgPack {
            return out.extend_from_slice(tuple);
        }
        // A stored tuple has been checked.
        let Ok((count, mut at)) = read::array(tuple, 0) else { return };
        let options = &self.options;
        match options.format {
            ExportFormat::JsonEachRow => {
                for (number, run) in self.runs.iter().enumerate() {
                    out.extend_from_slice(run);
                    if number < count as usize {
                        at = json(out, tuple, at, options, 0);
                    } else {
                        out.extend_from_slice(b"null");
                    }
                }
                out.extend_from_slice(if self.runs.is_empty() { b"{}\n" } else { b"}\n" });
            }
            ExportFormat::JsonCompactEachRow => {
                out.push(b'[');
                for number in 0..self.names.len() {
                    out.extend_from_slice(if number > 0 { b"," } else { b"" });
                    if number < count as usize {
                        at = json(out, tuple, at, options, 0);
                    } else {
                        out.extend_from_slice(b"null");
                    }
                }
                out.extend_from_slice(b"]\n");
            }
            _ => {
                let is_csv = options.format == ExportFormat::Csv;
                for number in 0..self.names.len() {
                    out.extend_from_slice(match (number, is_csv) {
                        (0, _) => b"",
                        (_, true) => b",",
                        (_, false) => b"\t",
                    });
                    if number < count as usize {
                        at = cell(out, tuple, at, options);
                    } else if !is_csv {
                        out.extend_from_slice(b"\\N");
                    }
                }
                out.extend_from_slice(if is_csv { b"\r\n" } else { b"\n" });
            }
        }
    }
}

impl Index<'_> {
    /// Writes all tuples in the order of the index; `write` gets them piece by piece, in order. Gives how many there are.
    /// `threads`: that format; 0 means all cores.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn export<E: Send>(
        &self,
        exporter: &Exporter,
        threads: usize,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut header = Vec::new();
        exporter.write_header(&mut header);
        write(&header)?;
        let mut tuples = self.data.all();
        let (mut count, mut failed) = (0, None);
        let threads = parallel::threads_for(threads, usize::MAX);
        let outcome = in_order(
            if threads == 1 { 0 } else { threads },
            || {
                let batch: Vec<StoredTuple<'_>> = tuples.by_ref().take(BATCH_TUPLES).collect();
                (!batch.is_empty()).then_some(batch)
            },
            || (),
            |(), batch: Vec<StoredTuple<'_>>| {
                let bytes = batch.iter().map(|tuple| tuple.data().len()).sum::<usize>();
                let mut text = Vec::with_capacity(2 * bytes);
                batch.iter().for_each(|tuple| exporter.row(&mut text, tuple.data()));
                (batch.len() as u64, text)
            },
            |(tuples, text)| {
                count += tuples;
                Ok(match write(&text) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                })
            },
        );
        // Where no thread can be started, one after the other will do.
        if outcome.is_err() && failed.is_none() {
            for tuple in tuples {
                let mut text = Vec::new();
                exporter.row(&mut text, tuple.data());
                write(&text)?;
                count += 1;
            }
        }
        failed.map_or(Ok(count), Err)
    }
}

/// Appends the value at `at` as JSON; gives where it ends.
fn json(out: &mut Vec<u8>, bytes: &[u8], at: usize, options: &ExportOptions, depth: usize) -> usize {
    match read::class_at(bytes, at) {
        class::STR => {
            let Ok((text, end)) = read::str(bytes, at) else { return bytes.len() };
            match std::str::from_utf8(text) {
                Ok(text) => json_string(out, text),
                Err(_) => quoted_bytes(out, text, options),
            }
            end
        }
        class::ARRAY if depth < NESTING_MAX => {
            let Ok((count, mut at)) = read::array(bytes, at) else { return bytes.len() };
            out.push(b'[');
            for number in 0..count {
                out.extend_from_slice(if number > 0 { b"," } else { b"" });
                at = json(out, bytes, at, options, depth + 1);
            }
            out.push(b']');
            at
        }
        class::MAP if depth < NESTING_MAX => {
            let Ok((count, mut at)) = read::map(bytes, at) else { return bytes.len() };
            out.push(b'{');
            for number in 0..count {
                out.extend_from_slice(if number > 0 { b"," } else { b"" });
                at = json_key(out, bytes, at, options, depth + 1);
                out.push(b':');
                at = json(out, bytes, at, options, depth + 1);
            }
            out.push(b'}');
            at
        }
        class::ARRAY | class::MAP => {
            let end = skip::skip(bytes, at).unwrap_or(bytes.len());
            quoted_bytes(out, &bytes[at..end], options);
            end
        }
        class::BIN => {
            let Ok((binary, end)) = read::bin(bytes, at) else { return bytes.len() };
            quoted_bytes(out, binary, options);
            end
        }
        _ => {
            let start = out.len();
            let (scalar, end) = scalar(out, bytes, at, options);
            let is_quoted = match scalar {
                Scalar::Bare => false,
                Scalar::Wide => options.quotes_wide_integers,
                Scalar::Decimal => options.quotes_decimals,
                Scalar::Text => true,
                Scalar::NotFinite => {
                    if !options.quotes_nan {
                        out.truncate(start);
                        out.extend_from_slice(b"null");
                    }
                    options.quotes_nan
                }
            };
            if is_quoted {
                out.insert(start, b'"');
                out.push(b'"');
            }
            end
        }
    }
}

/// Appends a key of a map: a string; of another value its JSON as a string.
fn json_key(out: &mut Vec<u8>, bytes: &[u8], at: usize, options: &ExportOptions, depth: usize) -> usize {
    if read::is(bytes, at, class::STR | class::BIN) {
        return json(out, bytes, at, options, depth);
    }
    let mut text = Vec::new();
    let end = json(&mut text, bytes, at, options, depth);
    match std::str::from_utf8(&text) {
        // What is a string already stays one.
        Ok(text) if text.starts_with('"') => out.extend_from_slice(text.as_bytes()),
        Ok(text) => json_string(out, text),
        Err(_) => quoted_bytes(out, &text, options),
    }
    end
}

/// How a scalar's text is to be taken.
enum Scalar {
    /// As it is: numbers, `true`, `null`.
    Bare,
    /// An integer that a double may not have.
    Wide,
    Decimal,
    /// NaN or an infinity.
    NotFinite,
    /// A text without anything that would have to be escaped.
    Text,
}

/// Appends a value that is neither a string, binary nor container.
fn scalar(out: &mut Vec<u8>, bytes: &[u8], at: usize, options: &ExportOptions) -> (Scalar, usize) {
    let end = || skip::skip(bytes, at).unwrap_or(bytes.len());
    match read::class_at(bytes, at) {
        class::NIL => {
            out.extend_from_slice(b"null");
            (Scalar::Bare, at + 1)
        }
        class::BOOL => {
            let is_true = read::boolean(bytes, at).is_ok_and(|(value, _)| value);
            out.extend_from_slice(if is_true { b"true" } else { b"false" });
            (Scalar::Bare, at + 1)
        }
        class::UINT | class::INT => {
            let Ok((value, end)) = read::int(bytes, at) else { return (Scalar::Bare, bytes.len()) };
            let mut buffer = itoa::Buffer::new();
            out.extend_from_slice(
                match u64::try_from(value) {
                    Ok(value) => buffer.format(value),
                    Err(_) => buffer.format(value as i64),
                }
                .as_bytes(),
            );
            let is_wide = !(-DOUBLE_EXACT_MAX..=DOUBLE_EXACT_MAX).contains(&value);
            (if is_wide { Scalar::Wide } else { Scalar::Bare }, end)
        }
        class::FLOAT32 | class::FLOAT64 => {
            let Ok((value, end)) = read::float(bytes, at) else { return (Scalar::Bare, bytes.len()) };
            let is_single = read::is(bytes, at, class::FLOAT32);
            let text = match value {
                _ if value.is_nan() => "NaN".to_owned(),
                _ if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
                // The shortest digits that are this number and no other of its width.
                _ if is_single => format!("{:?}", value as f32),
                _ => format!("{value:?}"),
            };
            out.extend_from_slice(text.as_bytes());
            (if value.is_finite() { Scalar::Bare } else { Scalar::NotFinite }, end)
        }
        _ => {
            let Ok(((kind, payload), end)) = read::ext(bytes, at) else { return (Scalar::Bare, end()) };
            let (text, scalar) = match kind {
                EXT_DECIMAL => {
                    (Decimal::from_payload(payload).map(|decimal| decimal.to_string()), Scalar::Decimal)
                }
                EXT_UUID => (ext::uuid(payload).map(|uuid| ext::uuid_text(&uuid)), Scalar::Text),
                EXT_DATETIME => (Datetime::from_payload(payload).map(|time| time.to_string()), Scalar::Text),
                // Nobody has agreed on a form for intervals.
                _ => (Err(""), Scalar::Text),
            };
            match text {
                Ok(text) => {
                    out.extend_from_slice(text.as_bytes());
                    (scalar, end)
                }
                Err(_) => {
                    binary(out, payload, options);
                    (Scalar::Text, end)
                }
            }
        }
    }
}

/// Appends the value at `at` as a cell of CSV or TSV; gives where it ends.
fn cell(out: &mut Vec<u8>, bytes: &[u8], at: usize, options: &ExportOptions) -> usize {
    let is_csv = options.format == ExportFormat::Csv;
    let text =
        |out: &mut Vec<u8>, text: &[u8]| if is_csv { csv_text(out, text) } else { tsv_text(out, text) };
    match read::class_at(bytes, at) {
        class::NIL => {
            out.extend_from_slice(if is_csv { b"" } else { b"\\N" });
            at + 1
        }
        // The bytes as they are, UTF-8 or not.
        class::STR => {
            let Ok((value, end)) = read::str(bytes, at) else { return bytes.len() };
            text(out, value);
            end
        }
        class::BIN => {
            let Ok((value, end)) = read::bin(bytes, at) else { return bytes.len() };
            binary(out, value, options);
            end
        }
        class::ARRAY | class::MAP => {
            let mut value = Vec::new();
            let end = json(&mut value, bytes, at, options, 0);
            text(out, &value);
            end
        }
        _ => scalar(out, bytes, at, options).1,
    }
}

/// Appends a field of CSV, in quotes where it needs them; an empty one as well, for nothing is nil.
fn csv_text(out: &mut Vec<u8>, text: &[u8]) {
    let needs_quotes = |byte: &u8| matches!(byte, b'"' | b',' | b'\r' | b'\n');
    if !text.is_empty() && !text.iter().any(needs_quotes) {
        return out.extend_from_slice(text);
    }
    out.push(b'"');
    for part in text.split_inclusive(|&byte| byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

/// Appends a field of TSV.
fn tsv_text(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        let escape = match byte {
            b'\t' => b't',
            b'\n' => b'n',
            b'\r' => b'r',
            0x08 => b'b',
            0x0c => b'f',
            0 => b'0',
            b'\\' => b'\\',
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
}

/// Appends a string of JSON.
fn json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    // All bytes are looked at without a branch, for nearly no string has one to be escaped.
    let is_special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if !rest.iter().fold(false, |any, &byte| any | is_special(byte)) {
        out.extend_from_slice(rest);
        return out.push(b'"');
    }
    while let Some(at) = rest.iter().position(|&byte| is_special(byte)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn quoted_bytes(out: &mut Vec<u8>, bytes: &[u8], options: &ExportOptions) {
    out.push(b'"');
    binary(out, bytes, options);
    out.push(b'"');
}

fn binary(out: &mut Vec<u8>, bytes: &[u8], options: &ExportOptions) {
    match options.bytes {
        BytesForm::Hex => {
            let mut text = String::new();
            print::hex(&mut text, bytes);
            out.extend_from_slice(text.as_bytes());
        }
        BytesForm::Base64 => base64(out, bytes),
    }
}

/// RFC 4648, with padding.
fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let bits =
            three.iter().enumerate().fold(0u32, |bits, (at, &byte)| bits | u32::from(byte) << (16 - 8 * at));
        for digit in 0..4 {
            out.push(match digit <= three.len() {
                true => DIGITS[(bits >> (18 - 6 * digit)) as usize & 63],
                false => b'=',
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::parse::from_json;

    fn exporter(format: ExportFormat, names: &[&str], options: ExportOptions) -> Exporter {
        let runs = names.iter().enumerate().map(|(number, name)| {
            let mut run = String::from(if number == 0 { "{" } else { "," });
            print::string(&mut run, name);
            (run + ":").into_bytes()
        });
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Exporter { runs: runs.collect(), names, options: ExportOptions { format, ..options } }
    }

    fn row(format: ExportFormat, names: &[&str], tuple: &str, options: ExportOptions) -> String {
        let mut out = Vec::new();
        exporter(format, names, options).row(&mut out, &from_json(tuple).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_of_value_in_every_format() {
        use ExportFormat::{Csv, JsonCompactEachRow, JsonEachRow, Tsv};
        let names = ["a", "b\"c", ""];
        let usual = ExportOptions::default;
        for (tuple, json, compact, csv, tsv) in [
            ("[1,\"x\",null]", r#"{"a":1,"b\"c":"x","":null}"#, r#"[1,"x",null]"#, "1,x,", "1\tx\t\\N"),
            (
                "[true,\"\",-5]",
                r#"{"a":true,"b\"c":"","":-5}"#,
                r#"[true,"",-5]"#,
                "true,\"\",-5",
                "true\t\t-5",
            ),
            ("[1]", r#"{"a":1,"b\"c":null,"":null}"#, "[1,null,null]", "1,,", "1\t\\N\t\\N"),
            (
                "[\"a,\\\"b\\n\",[1,\"q\"],{\"k\":1.5}]",
                r#"{"a":"a,\"b\n","b\"c":[1,"q"],"":{"k":1.5}}"#,
                r#"["a,\"b\n",[1,"q"],{"k":1.5}]"#,
                "\"a,\"\"b\n\",\"[1,\"\"q\"\"]\",\"{\"\"k\"\":1.5}\"",
                "a,\"b\\n\t[1,\"q\"]\t{\"k\":1.5}",
            ),
            (
                r#"[{"$bin":"00ff"},{"$str":"ff"},{"$decimal":"1.50"}]"#,
                r#"{"a":"00ff","b\"c":"ff","":1.50}"#,
                r#"["00ff","ff",1.50]"#,
                "",
                "",
            ),
            (
                r#"[{"$uuid":"c8f0fa1f-da29-438c-a040-393f1126ad39"},{"$double":"NaN"},18446744073709551615]"#,
                r#"{"a":"c8f0fa1f-da29-438c-a040-393f1126ad39","b\"c":null,"":18446744073709551615}"#,
                r#"["c8f0fa1f-da29-438c-a040-393f1126ad39",null,18446744073709551615]"#,
                "c8f0fa1f-da29-438c-a040-393f1126ad39,NaN,18446744073709551615",
                "c8f0fa1f-da29-438c-a040-393f1126ad39\tNaN\t18446744073709551615",
            ),
            (
                r#"[{"$map":[[1,2],[null,[true]]]},{"$datetime":"2024-01-02T03:04:05Z"},{"$float":0.1}]"#,
                r#"{"a":{"1":2,"null":[true]},"b\"c":"2024-01-02T03:04:05Z","":0.1}"#,
                r#"[{"1":2,"null":[true]},"2024-01-02T03:04:05Z",0.1]"#,
                "\"{\"\"1\"\":2,\"\"null\"\":[true]}\",2024-01-02T03:04:05Z,0.1",
                "{\"1\":2,\"null\":[true]}\t2024-01-02T03:04:05Z\t0.1",
            ),
        ] {
            for (format, expected, end) in [
                (JsonEachRow, json, "\n"),
                (JsonCompactEachRow, compact, "\n"),
                (Csv, csv, "\r\n"),
                (Tsv, tsv, "\n"),
            ] {
                // Strings that are no UTF-8 stay as they are in CSV and TSV, which a test as text cannot hold.
                if !(expected.is_empty() && matches!(format, Csv | Tsv)) {
                    assert_eq!(row(format, &names, tuple, usual()), format!("{expected}{end}"), "{tuple}");
                }
            }
        }
        let quoting = ExportOptions {
            bytes: BytesForm::Base64,
            quotes_wide_integers: true,
            quotes_decimals: true,
            quotes_nan: true,
            ..usual()
        };
        let tuple = r#"[{"$decimal":"1.50"},9007199254740992,9007199254740991,{"$double":"-Infinity"},{"$bin":"00ff10ff"}]"#;
        assert_eq!(
            row(JsonCompactEachRow, &["a"; 5], tuple, quoting),
            "[\"1.50\",\"9007199254740992\",9007199254740991,\"-Infinity\",\"AP8Q/w==\"]\n"
        );
        let redacting = ExportOptions { redact: true, ..usual() };
        assert_eq!(row(Csv, &["a", "b"], "[1,\"secret\"]", redacting), "<unsigned>,<string of 6 bytes>\r\n");
    }

    #[test]
    fn names_are_escaped_once_and_deep_values_cost_no_stack() {
        let mut header = Vec::new();
        exporter(ExportFormat::Csv, &["a,b", "", "c\"d"], ExportOptions::default()).write_header(&mut header);
        assert_eq!(header, b"\"a,b\",\"\",\"c\"\"d\"\r\n");
        let deep = [&[0x91; 100_000][..], &[0xc0]].concat();
        let mut out = Vec::new();
        exporter(ExportFormat::JsonEachRow, &["a"], ExportOptions::default()).row(&mut out, &deep);
        assert!(out.starts_with(b"{\"a\":[[[") && out.ends_with(b"]]}\n"), "{}", out.len());
    }
}
