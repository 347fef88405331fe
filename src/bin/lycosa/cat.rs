//! `lycosa cat FILE|DIR...`: the rows of snapshots and logs, one a line, as they stand.
//!
//! ```text
//! RowFile --> [ thread: filter, format ] --> in order --> standard output
//! ```
//!
//! A folder stands for its logs. Names of spaces, and what keys are made of, come from the newest state of the folder.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use lycosa::{
    EndInfo, FileRow, Options, RowFile, RowPosition, RowPrinter, RowRun, Schema, SpaceSelector, Value,
};

use crate::args::{CatArguments, CatFormat};
use crate::failure::{self, Failure};
use crate::print::{self, Output};

/// Spaces below are system ones.
const USER_SPACES: u32 = 512;

/// How often a file that is followed is looked at.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

pub fn run(arguments: &CatArguments, json: bool) -> Result<(), Failure> {
    let format = arguments.format(json)?;
    let mut cat = Cat {
        arguments,
        format,
        filter: Filter::new(arguments)?,
        threads: match arguments.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => usize::from(threads),
        },
        out: Output::new()?,
        spare: Mutex::new(Vec::new()),
    };
    let outcome = if arguments.follow { cat.follow() } else { cat.all() };
    // What was printed before a fault is to be seen.
    cat.out.flush()?;
    outcome
}

struct Cat<'a> {
    arguments: &'a CatArguments,
    format: CatFormat,
    filter: Filter<'a>,
    threads: usize,
    out: Output,
    /// Texts that were written, to be used again.
    spare: Mutex<Vec<String>>,
}

/// The files that a path stands for.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let logs = RowFile::logs_of(path)?;
    if logs.is_empty() {
        return Err(Failure::cannot(format!("{}: no logs in the folder", path.display())));
    }
    Ok(logs)
}

impl Cat<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        for path in &self.arguments.paths {
            let files = files_of(path)?;
            for (number, file) in files.iter().enumerate() {
                let end = self.file(file, None)?.1;
                tell_torn(file, end, number + 1 == files.len())?;
            }
        }
        Ok(())
    }

    /// Prints the rows of a file from a position on. Gives from where to go on, and how the file ends.
    fn file(
        &mut self,
        path: &Path,
        from: Option<RowPosition>,
    ) -> Result<(RowPosition, Option<EndInfo>), Failure> {
        let file = RowFile::open(path)?;
        let (filter, format, spare) = (&self.filter, self.format, &self.spare);
        let redacts = self.arguments.redact;
        let print = |run: &RowRun<'_>| {
            let mut text = spare.lock().expect("nobody panics").pop().unwrap_or_default();
            let mut printer = if redacts { RowPrinter::redacting() } else { RowPrinter::new() };
            for row in run.rows().filter(|row| filter.takes(row)) {
                match format {
                    CatFormat::Json => printer.write_json(&mut text, &row),
                    CatFormat::Yaml => write_yaml(&mut text, &row, &mut printer),
                    CatFormat::Lua => write_lua(&mut text, &row, &mut printer, redacts),
                    CatFormat::Hex => {
                        print::hex_text(&mut text, row.bytes());
                        text.push('\n');
                    }
                }
            }
            text
        };
        let (out, mut failed) = (&mut self.out, None);
        let limit = Some(self.arguments.max_block);
        let end = file.for_each_run(from, self.threads, limit, print, |mut text: String| {
            if let Err(error) = out.write_all(text.as_bytes()) {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            text.clear();
            spare.lock().expect("nobody panics").push(text);
            ControlFlow::Continue(())
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let end = end?;
        Ok((end.position, end.end))
    }

    /// Prints what there is and what comes, until nobody reads any more. A folder is followed from log to log.
    fn follow(&mut self) -> Result<(), Failure> {
        let [path] = &self.arguments.paths[..] else {
            return Err(Failure::usage("--follow takes one file or folder"));
        };
        let is_folder = path.is_dir();
        let mut files = files_of(path)?;
        let (mut number, mut from) = (0, None);
        loop {
            let (position, end) = self.file(&files[number], from)?;
            self.out.flush()?;
            let is_closed = end == Some(EndInfo::Marker);
            if is_folder && number + 1 == files.len() {
                files = files_of(path)?;
            }
            if number + 1 < files.len() {
                // A log that another follows gets no more rows; what came between the two looks is read first.
                if !is_closed && from != Some(position) {
                    from = Some(position);
                    continue;
                }
                tell_torn(&files[number], end, false)?;
                (number, from) = (number + 1, None);
                continue;
            }
            if is_closed && !is_folder {
                return Ok(());
            }
            from = Some(position);
            if !wait() {
                return Ok(());
            }
        }
    }
}

/// Waits a moment; `false`: nobody reads standard output any more.
fn wait() -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let timeout = FOLLOW_EVERY.try_into().expect("a moment is a short time");
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => !fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL),
        Err(_) => true,
    }
}

/// At the open end of the last log a torn block is what a crash leaves; before another log it is damage.
fn tell_torn(path: &Path, end: Option<EndInfo>, is_last: bool) -> Result<(), Failure> {
    let Some(EndInfo::Open { byte, torn_bytes: torn_bytes @ 1.. }) = end else { return Ok(()) };
    let text = format!(
        "{}, byte {byte}: the log ends in {torn_bytes} bytes that are no whole block; they are left out",
        path.display()
    );
    if !is_last {
        return Err(Failure::damaged(text));
    }
    failure::say(&text);
    Ok(())
}

/// Which rows are printed.
struct Filter<'a> {
    arguments: &'a CatArguments,
    /// Ids of the spaces; empty: all of them.
    spaces: Vec<u32>,
    types: Vec<u64>,
    /// Of each space that the key fits, its id and the key.
    keys: Vec<(u32, Vec<u8>)>,
    schema: Option<Schema>,
}

impl<'a> Filter<'a> {
    fn new(arguments: &'a CatArguments) -> Result<Self, Failure> {
        let selectors: Vec<SpaceSelector> =
            arguments.space.iter().map(|text| SpaceSelector::from(text.as_str())).collect();
        let has_names = selectors.iter().any(|selector| matches!(selector, SpaceSelector::Name(_)));
        let schema = match arguments.key.is_some() || has_names {
            true => Some(schema_of(&arguments.paths)?),
            false => None,
        };
        let mut spaces = Vec::new();
        for selector in selectors {
            spaces.push(match (selector, &schema) {
                (SpaceSelector::Id(id), _) => id,
                (SpaceSelector::Name(name), Some(schema)) => match schema.space_by_name(&name) {
                    Some(space) => space.id,
                    None => return Err(Failure::usage(format!("no space is called {name}"))),
                },
                (selector, _) => return Err(Failure::usage(format!("no space {selector}"))),
            });
        }
        let types = arguments.request_type.iter().map(|text| request_type(text)).collect::<Result<_, _>>()?;
        let mut keys = Vec::new();
        if let (Some(text), Some(schema)) = (&arguments.key, &schema) {
            let mut refused = None;
            for space in
                schema.spaces().iter().filter(|space| spaces.is_empty() || spaces.contains(&space.id))
            {
                let Some(primary) = space.primary() else { continue };
                match primary.key_from_json(text) {
                    Ok(key) => keys.push((space.id, key)),
                    Err(error) => refused = Some(error),
                }
            }
            if keys.is_empty() {
                return Err(refused.map_or_else(|| Failure::usage("no space has a key"), Failure::from));
            }
        }
        Ok(Self { arguments, spaces, types, keys, schema })
    }

    fn takes(&self, row: &FileRow<'_>) -> bool {
        let arguments = self.arguments;
        let is_in = |least: Option<u64>, greatest: Option<u64>, value| {
            least.is_none_or(|least| value >= least) && greatest.is_none_or(|greatest| value <= greatest)
        };
        if !is_in(arguments.from, arguments.to, row.lsn()) {
            return false;
        }
        let is_shown = match row.space_id() {
            Some(id) if self.spaces.is_empty() => id >= USER_SPACES || arguments.show_system,
            Some(id) => self.spaces.contains(&id),
            None => self.spaces.is_empty(),
        };
        if !is_shown {
            return false;
        }
        if arguments.since.is_some() || arguments.until.is_some() {
            let Some(time) = row.timestamp() else { return false };
            if arguments.since.is_some_and(|since| time < since)
                || arguments.until.is_some_and(|until| time > until)
            {
                return false;
            }
        }
        (arguments.replica.is_empty() || arguments.replica.contains(&row.replica_id()))
            && (self.types.is_empty() || self.types.contains(&row.request_type()))
            && (arguments.key.is_none() || self.has_key(row))
    }

    fn has_key(&self, row: &FileRow<'_>) -> bool {
        let (Some(id), Some(schema)) = (row.space_id(), &self.schema) else { return false };
        let key = self.keys.iter().find(|(space, _)| *space == id);
        let primary = schema.space_by_id(id).and_then(|space| space.primary());
        let (Some((_, key)), Some(primary)) = (key, primary) else { return false };
        match (row.key(), row.tuple()) {
            (Some(found), _) if row.index_id() == 0 => primary.is_key(key, found.bytes()),
            (None, Some(tuple)) => primary.is_key_of(key, tuple.bytes()),
            _ => false,
        }
    }
}

/// The definitions that files speak of: those of the first folder that has some.
fn schema_of(paths: &[PathBuf]) -> Result<Schema, Failure> {
    let mut first = None;
    for path in paths {
        let folder = match path.is_dir() || path.extension().is_some_and(|end| end == "snap") {
            true => path.as_path(),
            false => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            },
        };
        match Schema::read(folder, &Options::new()) {
            Ok(schema) => return Ok(schema),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    let why = first.map_or_else(String::new, |error| format!(": {error}"));
    Err(Failure::cannot(format!(
        "names of spaces and keys need the definitions beside the files, a snapshot above all{why}"
    )))
}

/// A request type by its name, in any case, or its number.
fn request_type(text: &str) -> Result<u64, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    FileRow::type_by_name(text).ok_or_else(|| Failure::usage(format!("no request type is called {text}")))
}

fn write_yaml(out: &mut String, row: &FileRow<'_>, printer: &mut RowPrinter) {
    out.push_str("---\nHEADER:");
    for pair in row.header() {
        out.extend(["\n  ", &pair.key_text(), ": "]);
        printer.header_value(out, row, &pair);
    }
    out.push_str("\nBODY:");
    if row.body().next().is_none() {
        out.push_str(" {}");
    }
    for pair in row.body() {
        out.extend(["\n  ", &pair.key_text(), ": "]);
        printer.body_value(out, &pair);
    }
    out.push('\n');
}

/// The call that does the same in Tarantool; what is no change of data is a comment.
fn write_lua(out: &mut String, row: &FileRow<'_>, printer: &mut RowPrinter, redacts: bool) {
    let call = match row.type_name() {
        Some("INSERT") => Some(("insert", row.tuple(), None)),
        Some("REPLACE") => Some(("replace", row.tuple(), None)),
        Some("DELETE") => Some(("delete", row.key(), None)),
        Some("UPDATE") => Some(("update", row.key(), row.tuple())),
        Some("UPSERT") => Some(("upsert", row.tuple(), row.operations())),
        _ => None,
    };
    let (Some((name, Some(first), operations)), Some(space)) = (call, row.space_id()) else {
        out.push_str("-- ");
        return printer.write_json(out, row);
    };
    let value = |out: &mut String, value: Value<'_>| match redacts {
        false => value.write_lua(out),
        true => with_redacted(value, |value| value.write_lua(out)),
    };
    out.push_str("box.space[");
    write_number(out, space.into());
    out.push(']');
    if row.index_id() != 0 {
        out.push_str(".index[");
        write_number(out, row.index_id().into());
        out.push(']');
    }
    out.extend([":", name, "("]);
    value(out, first);
    if let Some(operations) = operations {
        out.push_str(", ");
        match row.index_base() {
            // Lua counts from 1.
            0 => write_shifted(out, operations, value),
            _ => value(out, operations),
        }
    }
    out.push_str(")\n");
}

/// Update operations whose fields and offsets count from 0, counted from 1.
fn write_shifted(out: &mut String, operations: Value<'_>, value: impl Fn(&mut String, Value<'_>)) {
    out.push('{');
    for (number, operation) in operations.elements().enumerate() {
        out.push_str(if number == 0 { "{" } else { ", {" });
        let is_splice = operation.elements().next().is_some_and(|name| name.bytes() == b"\xa1:");
        for (at, element) in operation.elements().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            match element.as_u64() {
                Some(place) if at == 1 || at == 2 && is_splice => write_number(out, place.saturating_add(1)),
                _ => value(out, element),
            }
        }
        out.push('}');
    }
    out.push('}');
}

fn write_number(out: &mut String, value: u64) {
    out.push_str(&value.to_string());
}

fn with_redacted(value: Value<'_>, act: impl FnOnce(Value<'_>)) {
    act(Value::new(&value.redacted()).expect("what is redacted is a value"));
}
