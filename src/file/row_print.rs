//! Rows as JSON, one a line, so that nothing is lost.
//!
//! ```text
//! {"HEADER":{"type":"INSERT","replica_id":1,"lsn":5,"timestamp":1.5},"BODY":{"space_id":512,"tuple":[1,"Ann"]}}
//! ```
//!
//! Rows of the usual form are printed from what is known of them; others pair by pair. A test marries the two.

use super::log_row::LogRow;
use super::row::{self, Part, kind};
use super::row_file::{FileRow, RowPair};
use crate::msgpack::print;
use crate::msgpack::value::Value;
use std::fmt::Write;

/// Prints rows as JSON. What rows have in common with the one before is made once.
///
/// ```
/// use std::ops::ControlFlow;
/// use lycosa::{RowFile, RowPrinter};
///
/// let log = RowFile::logs_of("snapshots/2.6/36-xlog-ops/data")?.remove(0);
/// RowFile::open(log)?.for_each_run(None, 1, None, |run| {
///     let (mut printer, mut text) = (RowPrinter::new(), String::new());
///     run.rows().for_each(|row| printer.write_json(&mut text, &row));
///     text
/// }, |text| {
///     print!("{text}");
///     ControlFlow::Continue(())
/// })?;
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct RowPrinter {
    redacts: bool,
    /// The bits of a time, and their text.
    time: (u64, String),
}

impl RowPrinter {
    /// Values are printed.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with types and lengths in the place of keys and values.
    pub fn redacting() -> Self {
        Self { redacts: true, ..Self::default() }
    }

    /// Appends a row as a JSON object and a line feed. Keys that are not known are strings of their JSON; the TSN is the
    /// transaction's number, not its distance.
    pub fn write_json(&mut self, out: &mut String, row: &FileRow<'_>) {
        if row.row.is_usual() {
            self.write_usual(out, row.row);
        } else {
            self.write_any(out, row);
        }
    }

    fn write_usual(&mut self, out: &mut String, row: LogRow<'_>) {
        out.push_str("{\"HEADER\":{\"type\":");
        self.kind(out, row.kind());
        let number = |out: &mut String, name: &str, value: u64| {
            out.push_str(name);
            write_number(out, value);
        };
        if row.replica_id() != 0 {
            number(out, ",\"replica_id\":", row.replica_id().into());
        }
        if row.is_local() {
            out.push_str(",\"group_id\":1");
        }
        if row.lsn() != 0 {
            number(out, ",\"lsn\":", row.lsn());
        }
        if let Some(time) = row.timestamp() {
            out.push_str(",\"timestamp\":");
            self.time(out, time);
        }
        if row.says_tsn() {
            number(out, ",\"tsn\":", row.tsn());
        }
        if row.flags() != 0 {
            number(out, ",\"flags\":", row.flags().into());
        }
        out.push_str("},\"BODY\":{");
        if let Some(id) = row.space_id() {
            number(out, "\"space_id\":", id.into());
            if row.index_id() != 0 {
                number(out, ",\"index_id\":", row.index_id().into());
            }
            if row.index_base() != 0 {
                number(out, ",\"index_base\":", row.index_base().into());
            }
            for (name, value) in
                [(",\"key\":", row.key()), (",\"operations\":", row.ops()), (",\"tuple\":", row.tuple())]
            {
                if let Some(value) = value {
                    out.push_str(name);
                    self.value(out, Value::of_checked(value));
                }
            }
        }
        out.push_str("}}\n");
    }

    /// The slow twin, for rows of any form.
    fn write_any(&mut self, out: &mut String, row: &FileRow<'_>) {
        out.push_str("{\"HEADER\":{");
        for (at, pair) in row.header().enumerate() {
            write_key(out, at, &pair);
            self.header_value(out, row, &pair);
        }
        out.push_str("},\"BODY\":{");
        for (at, pair) in row.body().enumerate() {
            write_key(out, at, &pair);
            self.body_value(out, &pair);
        }
        out.push_str("}}\n");
    }

    /// Appends the value of a pair of a row's header: the type by its name, the TSN as the transaction's number.
    pub fn header_value(&mut self, out: &mut String, row: &FileRow<'_>, pair: &RowPair<'_>) {
        match (pair.name, pair.value.as_u64()) {
            (Some("type"), Some(value)) => self.kind(out, value),
            (Some("tsn"), _) => write_number(out, row.tsn()),
            (Some("timestamp"), _) => match row.timestamp() {
                Some(time) => self.time(out, time),
                None => pair.value.write_json(out),
            },
            _ => pair.value.write_json(out),
        }
    }

    /// Appends the value of a pair of a row's body.
    pub fn body_value(&mut self, out: &mut String, pair: &RowPair<'_>) {
        match (pair.name, pair.value.as_u64()) {
            (Some(_), Some(value)) => write_number(out, value),
            _ => self.value(out, pair.value),
        }
    }

    fn value(&self, out: &mut String, value: Value<'_>) {
        match self.redacts {
            false => value.write_json(out),
            true => Value::of_checked(&value.redacted()).write_json(out),
        }
    }

    fn kind(&self, out: &mut String, kind: u64) {
        match kind::name(kind) {
            Some(name) => {
                out.push('"');
                out.push_str(name);
                out.push('"');
            }
            None => write_number(out, kind),
        }
    }

    fn time(&mut self, out: &mut String, time: f64) {
        let (bits, text) = &mut self.time;
        if *bits != time.to_bits() || text.is_empty() {
            *bits = time.to_bits();
            text.clear();
            match time.is_finite() {
                true => write!(text, "{time:?}").expect("a string takes all text"),
                false => print::special_double(text, time),
            }
        }
        out.push_str(text);
    }
}

fn write_number(out: &mut String, value: u64) {
    out.push_str(itoa::Buffer::new().format(value));
}

fn write_key(out: &mut String, at: usize, pair: &RowPair<'_>) {
    if at > 0 {
        out.push(',');
    }
    match pair.name {
        Some(name) => out.extend(["\"", name, "\":"]),
        None => {
            write_unknown_key(out, pair.key);
            out.push(':');
        }
    }
}

/// A key that has no name, as a JSON string: a string as it is, of anything else its JSON.
pub(crate) fn write_unknown_key(out: &mut String, key: Value<'_>) {
    let mut text = String::new();
    key.write_json(&mut text);
    if text.starts_with('"') {
        out.push_str(&text);
    } else {
        print::string(out, &text);
    }
}

impl RowPair<'_> {
    /// The key's name; of one that is not known its JSON, as a JSON string with its quotes.
    pub fn key_text(&self) -> String {
        match self.name {
            Some(name) => name.to_owned(),
            None => {
                let mut text = String::new();
                write_unknown_key(&mut text, self.key);
                text
            }
        }
    }
}

/// All pairs of a half of a row.
pub(super) fn pairs<'a>(map: Value<'a>, part: Part, kind: u64) -> impl Iterator<Item = RowPair<'a>> {
    map.pairs().map(move |(key, value)| {
        let name = key.as_u64().and_then(|key| row::key_name(part, kind, key));
        RowPair { name, key, value }
    })
}

#[cfg(test)]
mod tests {
    use super::super::log_row::Record;
    use super::*;
    use crate::msgpack::unhex;

    const TIME: &str = "04cb41dac3785c15f626";

    fn both(text: &str) -> (bool, String, String) {
        let bytes = unhex(&text.replace("TIME", TIME));
        let record = Record::decode(&bytes, 0, 0).unwrap();
        let row = FileRow { row: LogRow::new(&record, &bytes) };
        let (mut usual, mut any) = (String::new(), String::new());
        RowPrinter::new().write_json(&mut usual, &row);
        RowPrinter::new().write_any(&mut any, &row);
        (row.row.is_usual(), usual, any)
    }

    #[test]
    fn usual_rows_print_as_pair_by_pair() {
        for (text, is_usual, expected) in [
            (
                "84 0002 0201 030d TIME 82 10cd0200 21 9201a3416e6e",
                true,
                r#"{"HEADER":{"type":"INSERT","replica_id":1,"lsn":13,"timestamp":1796071792.3431487},"BODY":{"space_id":512,"tuple":[1,"Ann"]}}"#,
            ),
            (
                "86 0004 0201 030f TIME 0802 0907 85 10cd0200 1102 1501 20 9101 21 9193a12b0201",
                true,
                r#"{"HEADER":{"type":"UPDATE","replica_id":1,"lsn":15,"timestamp":1796071792.3431487,"tsn":13,"flags":7},"BODY":{"space_id":512,"index_id":2,"index_base":1,"key":[1],"tuple":[["+",2,1]]}}"#,
            ),
            (
                "85 0009 0701 0303 TIME 0800 84 10cd0200 1501 28 90 21 9101",
                true,
                r#"{"HEADER":{"type":"UPSERT","group_id":1,"lsn":3,"timestamp":1796071792.3431487,"tsn":3},"BODY":{"space_id":512,"index_base":1,"operations":[],"tuple":[1]}}"#,
            ),
            ("82 000c 0305", true, r#"{"HEADER":{"type":"NOP","lsn":5},"BODY":{}}"#),
            (
                "84 0002 0200 0300 TIME 83 1005 1100 21 90",
                false,
                r#"{"HEADER":{"type":"INSERT","replica_id":0,"lsn":0,"timestamp":1796071792.3431487},"BODY":{"space_id":5,"index_id":0,"tuple":[]}}"#,
            ),
            (
                "83 00cc4d 0305 a16101 82 a178 c0 10 01",
                false,
                r#"{"HEADER":{"type":77,"lsn":5,"a":1},"BODY":{"x":null,"16":1}}"#,
            ),
            (
                "83 0028 0201 0316 83 0201 0315 2681 0105",
                false,
                r#"{"HEADER":{"type":"RAFT_CONFIRM","replica_id":1,"lsn":22},"BODY":{"replica_id":1,"lsn":21,"vclock":{"$map":[[1,5]]}}}"#,
            ),
        ] {
            let (found_usual, usual, any) = both(text);
            assert_eq!((&usual[..], found_usual), (&format!("{expected}\n")[..], is_usual), "{text}");
            assert_eq!(any, usual, "{text}");
        }
    }
}
