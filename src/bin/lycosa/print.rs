//! Standard output: a buffered handle, aligned tables, numbers for people, JSON documents, hex.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use serde_json::{Map, Value, json};

const BUFFER_BYTES: usize = 256 * 1024; // a dump is gigabytes: few system calls

/// Standard output with a large buffer. `std::io::stdout` looks for line ends in everything it is given; this does
/// not. Call [`Output::finish`]: what is left in the buffer can fail to be written as well.
pub struct Output(BufWriter<File>);

impl Output {
    pub fn new() -> io::Result<Self> {
        let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self(BufWriter::with_capacity(BUFFER_BYTES, file)))
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints one JSON document, indented.
pub fn document(value: &Value) -> io::Result<()> {
    let mut out = Output::new()?;
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")?;
    out.finish()
}

/// A vclock as Tarantool writes it, `{1: 1004, 2: 7}`, as an object: replica id to LSN.
pub fn vclock(text: &str) -> Value {
    let pairs = text.trim_matches(['{', '}']).split(',').filter_map(|pair| {
        let (replica, lsn) = pair.split_once(':')?;
        Some((replica.trim().to_owned(), json!(lsn.trim().parse::<u64>().ok()?)))
    });
    pairs.collect::<Map<_, _>>().into()
}

/// Appends `bytes` in lower-case hex.
pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const PAIRS: [[u8; 2]; 256] = {
        let digits = b"0123456789abcdef";
        let mut pairs = [[0; 2]; 256];
        let mut byte = 0;
        while byte < 256 {
            pairs[byte] = [digits[byte >> 4], digits[byte & 15]];
            byte += 1;
        }
        pairs
    };
    out.reserve(bytes.len() * 2);
    for &byte in bytes {
        out.extend_from_slice(&PAIRS[usize::from(byte)]);
    }
}

/// The same to a text.
pub fn hex_text(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let digit = |four: u8| char::from(b"0123456789abcdef"[usize::from(four)]);
        out.extend([digit(byte >> 4), digit(byte & 15)]);
    }
}

/// The bytes that an even number of hex digits, of either case, stands for.
pub fn unhex(text: &str) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("expected an even number of hex digits, found {}", text.len()));
    }
    let digit = |at: usize| {
        let digit = text.as_bytes()[at];
        match char::from(digit).to_digit(16) {
            Some(value) => Ok(value as u8),
            None => Err(format!("expected a hex digit at position {}", at + 1)),
        }
    };
    (0..text.len()).step_by(2).map(|at| Ok(digit(at)? << 4 | digit(at + 1)?)).collect()
}

/// `1234567` as `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes in the largest unit that leaves at least 1: `847.9 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { 1 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Whole things a second, rounded; nothing where the clock saw no time.
pub fn rate(things: u64, seconds: f64) -> Option<u64> {
    (seconds > 0.0).then(|| (things as f64 / seconds).round() as u64)
}

/// Seconds with microseconds, as JSON has them.
pub fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e6
}

/// Control characters as `\u{1b}`: text of foreign files must not command a terminal.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if character.is_control() {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// Least, median and greatest of some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// `values` must not be empty: a benchmark has at least one run.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (last, middle) = (values.len() - 1, values.len() / 2);
        let median = match values.len() % 2 {
            1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Self { min: values[0], median, max: values[last] }
    }

    pub fn json(&self) -> Value {
        // Seconds carry microseconds; a median of two must not print more digits than were measured.
        let number = |value: f64| match value.fract() {
            0.0 => json!(value as u64),
            _ => json!((value * 1e6).round() / 1e6),
        };
        json!({"min": number(self.min), "median": number(self.median), "max": number(self.max)})
    }

    pub fn seconds(&self) -> String {
        format!("{:.3} {:.3} {:.3}", self.min, self.median, self.max)
    }

    pub fn counts(&self) -> String {
        let all = [self.min, self.median, self.max].map(|value| count(value.round() as u64));
        if all[0] == all[2] { all[0].clone() } else { all.join(" ") }
    }
}

/// Columns aligned by their widest cell; numbers to the right.
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Titles; one that starts with `>` heads a column of numbers.
    pub fn new(titles: &[&str]) -> Self {
        Self {
            right: titles.iter().map(|title| title.starts_with('>')).collect(),
            rows: vec![titles.iter().map(|title| title.trim_start_matches('>').to_owned()).collect()],
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.right.len(), "a row has a cell for each title");
        self.rows.push(cells.into_iter().map(|cell| visible(&cell).into_owned()).collect());
    }

    pub fn write(&self, out: &mut impl Write, indent: &str) -> io::Result<()> {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        for row in &self.rows {
            let mut line = indent.to_owned();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&self.right) {
                // Writing into a String cannot fail.
                let _ =
                    if right { write!(line, "{cell:>width$}  ") } else { write!(line, "{cell:<width$}  ") };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_there_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        hex(&mut text, &all);
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"));
        assert_eq!(unhex(&text).unwrap(), all);
        assert_eq!(unhex("9Fa0").unwrap(), [0x9f, 0xa0]);
        assert!(unhex("9").is_err() && unhex("9g").is_err() && unhex("é").is_err());
    }

    #[test]
    fn a_vclock_is_an_object_of_replicas() {
        assert_eq!(vclock("{}"), json!({}));
        assert_eq!(vclock("{1: 1004}"), json!({"1": 1004}));
        assert_eq!(vclock("{0: 3, 1: 18446744073709551615}"), json!({"0": 3, "1": u64::MAX}));
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0, 999, 1000, 1_234_567].map(count).each_ref().map(|t| &t[..])
        );
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(889_000_000), "847.8 MiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(rate(10, 0.0), None);
        assert_eq!(rate(10, 4.0), Some(3));
    }

    #[test]
    fn a_spread_has_the_middle_of_an_even_number_of_runs_too() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0, 10.0]);
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.5, 10.0));
        assert_eq!(Spread::of(vec![7.0]).json(), json!({"min": 7, "median": 7, "max": 7}));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(visible("plain é"), "plain é");
        assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }

    #[test]
    fn a_table_aligns_names_left_and_numbers_right() {
        let mut table = Table::new(&["name", ">n"]);
        table.row(vec!["a".into(), "10".into()]);
        table.row(vec!["longer".into(), "5".into()]);
        let mut out = Vec::new();
        table.write(&mut out, " ").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), " name     n\n a       10\n longer   5\n");
    }
}
