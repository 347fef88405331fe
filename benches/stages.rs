//! The stages of recovery, each on its own and then all of them together. How to run it and how to read it:
//! `benches/README.md`.
//!
//! ```text
//! blocks -> rows -> skip | plain | nested -> field      from bytes to tuples whose fields are known
//!                   primary, secondary                  from tuples to trees
//! recover                                               from a file to a store
//! ```
//!
//! Without `--bench`, which `cargo bench` gives and `cargo test` does not, every group runs once over a little data
//! and only its results matter.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports to its user")]

mod data;
mod harness;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use data::{Data, Distribution, PRIMARY, SECONDARY};
use harness::{Group, Outcome, timed};
use lycosa::bench::{self, Blocks, Build, Map, Ref, Shape, Tuples};
use lycosa::{Error, Options, Store};

const USAGE: &str = "\
usage: cargo bench --bench stages -- [GROUP...] [OPTION...]

groups: blocks rows skip plain nested field primary secondary recover; all where none is named

  --rows N          tuples of the generated data (1000000)
  --dist A,B        distributions: wide, tens, mixed, same (all)
  --rounds N        times that every arm runs (5)
  --threads N       threads of `recover`, besides one (all cores)
  --seed N          of the generated data (42)
  --snapshot FILE   a .snap file for blocks, rows and recover instead of generated data
";

const GROUPS: [&str; 9] =
    ["blocks", "rows", "skip", "plain", "nested", "field", "primary", "secondary", "recover"];

/// Rows where only results matter: just enough for two thousand of them in the sample of a small file, so that
/// recovery takes the same ways as with many.
const SMALL_ROWS: u64 = 6_000;

/// Up to here the order of the secondary index is also found by other means, which take time and memory.
const MODEL_ROWS_MAX: u64 = 2_000_000;

/// Tuples that `field` looks at again and again: with their field maps some fifty kilobytes, in the second-level cache
/// at worst.
const HOT_TUPLES: usize = 1_000;

/// Of a snapshot's rows, as many are held in memory for the group `rows`.
const PAYLOAD_BYTES_MAX: usize = 512 << 20;

/// The nested path can be left out of the build, to see what its presence costs the plain one.
const HAS_NESTED: bool = cfg!(not(lycosa_plain_only));

struct Arguments {
    groups: Vec<String>,
    rows: u64,
    distributions: Vec<Distribution>,
    rounds: usize,
    threads: usize,
    seed: u64,
    snapshot: Option<PathBuf>,
    /// To measure, not only to see that results are right.
    measure: bool,
}

enum Command {
    Run(Arguments),
    /// What test runners ask first.
    List,
    Help,
}

impl Arguments {
    fn parse(given: impl Iterator<Item = String>) -> Result<Command, String> {
        let given: Vec<String> = given.collect();
        let measure = given.iter().any(|word| word == "--bench");
        let mut arguments = Self {
            groups: Vec::new(),
            rows: if measure { 1_000_000 } else { SMALL_ROWS },
            distributions: Distribution::ALL.to_vec(),
            rounds: if measure { 5 } else { 1 },
            threads: 0,
            seed: 42,
            snapshot: None,
            measure,
        };
        let mut words = given.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            let number =
                |text: String| text.parse::<u64>().map_err(|error| format!("{word}: {text}: {error}"));
            match word.as_str() {
                "--bench" => {}
                "--list" => return Ok(Command::List),
                "--help" | "-h" => return Ok(Command::Help),
                "--rows" => arguments.rows = number(value()?)?.max(1),
                "--rounds" => arguments.rounds = number(value()?)?.max(1) as usize,
                "--threads" => arguments.threads = number(value()?)? as usize,
                "--seed" => arguments.seed = number(value()?)?,
                "--snapshot" => arguments.snapshot = Some(value()?.into()),
                "--dist" => {
                    let find = |name: &str| {
                        let found = Distribution::ALL.into_iter().find(|known| known.name() == name);
                        found.ok_or_else(|| format!("--dist: no distribution {name}"))
                    };
                    arguments.distributions = value()?.split(',').map(find).collect::<Result<_, _>>()?;
                }
                // What `cargo test -- ...` gives to all tests alike.
                "--test-threads" | "--format" | "--color" | "--skip" | "--logfile" | "-Z" if !measure => {
                    value()?;
                }
                option if option.starts_with('-') && !measure => {}
                group if GROUPS.contains(&group) || !measure => arguments.groups.push(word),
                _ => return Err(format!("{word}: no such group or option")),
            }
        }
        Ok(Command::Run(arguments))
    }

    /// Whether a group is to run. Without `--bench` a word is a part of a name, as with all tests.
    fn wants(&self, group: &str) -> bool {
        let is = |word: &String| if self.measure { word == group } else { group.contains(word.as_str()) };
        self.groups.is_empty() || self.groups.iter().any(is)
    }

    fn wants_any(&self, groups: &[&str]) -> bool {
        groups.iter().any(|group| self.wants(group))
    }

    fn finish(&self, group: Group<'_>) -> Done {
        let title = group.title().to_owned();
        let table = group.run(self.rounds, self.measure)?;
        if self.measure {
            println!("{table}");
        } else {
            println!("{title}: right");
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse(std::env::args().skip(1)) {
        Ok(Command::Run(arguments)) => run(&arguments),
        Ok(Command::List) => {
            GROUPS.iter().for_each(|group| println!("{group}: benchmark"));
            Ok(())
        }
        Ok(Command::Help) => {
            print!("{USAGE}");
            Ok(())
        }
        Err(what) => {
            eprint!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Done {
    if !harness::notices_wrong_results() {
        return Err("the harness lets wrong results pass".into());
    }
    if arguments.wants_any(&["nested", "recover"]) && !HAS_NESTED {
        println!("built without the nested path: its arms are left out\n");
    }
    if let Some(path) = &arguments.snapshot {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        return snapshot_groups(arguments, &name, path);
    }
    for &distribution in &arguments.distributions {
        let data = Data::generate(distribution, arguments.rows, arguments.seed);
        let name = distribution.name();
        file_groups(arguments, name, &data)?;
        walk_group(arguments, name, &data)?;
        field_group(arguments, name, &data)?;
        index_groups(arguments, name, &data)?;
    }
    Ok(())
}

/// An error of the library, or what a group found wrong.
type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

// blocks, rows, recover: from files.

/// A snapshot in a folder of its own that goes when this does.
struct Written {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn write(data: &Data, compressed: bool) -> Done<Written> {
    let folder = tempfile::tempdir()?;
    let path = data.write_snapshot(folder.path(), compressed)?;
    Ok(Written { _folder: folder, path })
}

fn file_groups(arguments: &Arguments, name: &str, data: &Data) -> Done {
    if arguments.wants("rows") {
        let (usual, starts) = data.snapshot_rows(true);
        let other = data.snapshot_rows(false);
        let mut group = row_group(name, &usual, &starts, Some(&other.0));
        let numbers = data.rows * (data.rows + 1) / 2;
        group.expect("sum of row numbers", numbers);
        group.expect("sum of space ids", 512 * data.rows);
        arguments.finish(group)?;
    }
    if !arguments.wants_any(&["blocks", "recover"]) {
        return Ok(());
    }
    let (stored, zstd) = (write(data, false)?, write(data, true)?);
    if arguments.wants("blocks") {
        let (stored, zstd) = (Blocks::open(&stored.path)?, Blocks::open(&zstd.path)?);
        let bytes = payload_bytes(&zstd)?;
        let title = format!(
            "blocks ({name}; files of {:.1} and {:.1} MB)",
            stored.file_bytes() as f64 / 1e6,
            zstd.file_bytes() as f64 / 1e6
        );
        let mut group = Group::new(title, data.rows, bytes);
        group.arm("stored", || load_blocks(&stored));
        group.arm("zstd", || load_blocks(&zstd));
        group.ratio("zstd", "stored");
        arguments.finish(group)?;
    }
    if arguments.wants("recover") {
        let mut group = Group::new(format!("recover ({name})"), data.rows, data.bytes.len() as u64);
        group.expect("tuples", data.rows);
        group.expect("fingerprint", u64::from(data.fingerprint()));
        let threads = arguments.threads;
        recover_arm(&mut group, "1 thread", &zstd.path, Options::new().threads(1));
        recover_arm(&mut group, "threads", &zstd.path, Options::new().threads(threads));
        recover_arm(&mut group, "threads, stored", &stored.path, Options::new().threads(threads));
        if HAS_NESTED {
            recover_arm(
                &mut group,
                "threads, nested",
                &zstd.path,
                Options::new().threads(threads).nested(true),
            );
        }
        recover_ratios(&mut group);
        return arguments.finish(group);
    }
    Ok(())
}

fn snapshot_groups(arguments: &Arguments, name: &str, path: &Path) -> Done {
    let blocks = Blocks::open(path)?;
    let (mut rows, mut bytes) = (0, 0);
    // The rows as far as they go into memory, and where each begins.
    let (mut kept, mut starts) = (Vec::new(), Vec::new());
    let mut fault = None;
    blocks.for_each(|payload| {
        bytes += payload.len() as u64;
        let keep = kept.len() + payload.len() <= PAYLOAD_BYTES_MAX;
        let mut at = 0;
        while at < payload.len() && fault.is_none() {
            rows += 1;
            if keep {
                starts.push(kept.len() + at);
            }
            match row_end(payload, at) {
                Ok(end) => at = end,
                Err(error) => fault = Some(error),
            }
        }
        if keep {
            kept.extend_from_slice(payload);
        }
    })?;
    if let Some(error) = fault {
        return Err(error.into());
    }
    if arguments.wants("blocks") {
        let title = format!("blocks ({name}, file of {:.1} MB)", blocks.file_bytes() as f64 / 1e6);
        let mut group = Group::new(title, rows, bytes);
        group.arm("blocks", || load_blocks(&blocks));
        arguments.finish(group)?;
    }
    if arguments.wants("rows") {
        if starts.len() < rows as usize {
            println!(
                "rows: the first {} of {rows} rows, which fit the memory that is set aside\n",
                starts.len()
            );
        }
        arguments.finish(row_group(name, &kept, &starts, None))?;
    }
    drop((kept, starts));
    if arguments.wants("recover") {
        let mut group = Group::new(format!("recover ({name})"), rows, bytes);
        let options = || Options::new().snapshot_only(true);
        recover_arm(&mut group, "1 thread", path, options().threads(1));
        recover_arm(&mut group, "threads", path, options().threads(arguments.threads));
        if HAS_NESTED {
            let nested = options().threads(arguments.threads).nested(true);
            recover_arm(&mut group, "threads, nested", path, nested);
        }
        recover_ratios(&mut group);
        return arguments.finish(group);
    }
    Ok(())
}

fn payload_bytes(blocks: &Blocks) -> Result<u64, Error> {
    let mut bytes = 0;
    blocks.for_each(|payload| bytes += payload.len() as u64)?;
    Ok(bytes)
}

fn load_blocks(blocks: &Blocks) -> Result<Outcome, Error> {
    let (mut bytes, mut sum) = (0u64, 0u64);
    let (time, done) = timed(|| {
        blocks.for_each(|payload| {
            // A sum of all would cost as much as the work; that it is right is the checksum's business.
            let edges = payload.iter().take(16).chain(payload.iter().rev().take(16));
            sum = edges.fold(sum, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            bytes += payload.len() as u64;
        })
    });
    done?;
    Ok(Outcome::new(time, vec![("bytes", bytes), ("sum over blocks", sum)]))
}

/// Where the row at `at` ends.
fn row_end(bytes: &[u8], at: usize) -> Result<usize, Error> {
    let row = bench::row(bytes, at)?;
    match row.end {
        Some(end) => Ok(end),
        None => bench::skip(bytes, row.tuple_at),
    }
}

/// `head`: up to the tuple, from row starts that are known. `head, skip`: the tuple as well. `other form`: the same as
/// that, over rows that Tarantool would have written otherwise, and which go through the general decoder.
fn row_group<'a>(name: &str, usual: &'a [u8], starts: &'a [usize], other: Option<&'a [u8]>) -> Group<'a> {
    let mut group = Group::new(format!("rows ({name})"), starts.len() as u64, usual.len() as u64);
    let add = |numbers: &mut u64, spaces: &mut u64, row: bench::Row| {
        *numbers = numbers.wrapping_add(row.number);
        *spaces = spaces.wrapping_add(u64::from(row.space_id.unwrap_or(0)));
    };
    group.arm("head", move || {
        let (mut numbers, mut spaces) = (0, 0);
        let (time, done) = timed(|| {
            starts.iter().try_for_each(|&at| {
                add(&mut numbers, &mut spaces, bench::row(usual, at)?);
                Ok::<_, Error>(())
            })
        });
        done?;
        Ok(Outcome::new(time, vec![("sum of row numbers", numbers), ("sum of space ids", spaces)]))
    });
    let whole = move |bytes: &[u8]| {
        let (mut numbers, mut spaces, mut rows) = (0, 0, 0);
        let (time, done) = timed(|| {
            let mut at = 0;
            while at < bytes.len() {
                let row = bench::row(bytes, at)?;
                add(&mut numbers, &mut spaces, row);
                rows += 1;
                at = match row.end {
                    Some(end) => end,
                    None => bench::skip(bytes, row.tuple_at)?,
                };
            }
            Ok::<_, Error>(())
        });
        done?;
        let found = vec![("sum of row numbers", numbers), ("sum of space ids", spaces), ("rows", rows)];
        Ok(Outcome::new(time, found))
    };
    group.arm("head, skip", move || whole(usual));
    group.ratio("head, skip", "head");
    if let Some(other) = other {
        group.arm("other form", move || whole(other));
        group.ratio("other form", "head, skip");
    }
    group
}

fn recover_arm(group: &mut Group<'_>, name: &str, path: &Path, options: Options) {
    let path = path.to_path_buf();
    group.arm_of(name, &["wall", "user CPU"], move || {
        let (wall, store) = timed(|| Store::open_with(&path, &options));
        let store = store?;
        let view = store.read_view();
        let user_spaces = || view.spaces().filter(|space| space.def().id >= 512);
        let tuples = user_spaces().map(|space| space.len()).sum();
        let prints = user_spaces().filter_map(|space| space.fingerprint()).map(u64::from).sum();
        let entries = &store.report().spaces;
        let entries = entries.iter().flat_map(|space| &space.indexes).map(|index| index.entries).sum();
        let found = vec![("tuples", tuples), ("fingerprint", prints), ("entries of all indexes", entries)];
        Ok(Outcome { times: vec![wall, store.report().total.user], found })
    });
}

fn recover_ratios(group: &mut Group<'_>) {
    for (over, under) in [
        ("1 thread: wall", "threads: wall"),
        ("threads: user CPU", "1 thread: user CPU"),
        ("threads, nested: user CPU", "threads: user CPU"),
        ("threads, nested: wall", "threads: wall"),
    ] {
        group.ratio(over, under);
    }
}

// skip, plain, nested: over the same tuples.

fn walk_group(arguments: &Arguments, name: &str, data: &Data) -> Done {
    if !arguments.wants_any(&["skip", "plain", "nested"]) {
        return Ok(());
    }
    let bytes = &data.bytes[..];
    let keys = [PRIMARY, SECONDARY];
    let plain = Shape::new(&keys, false)?;
    assert!(plain.is_plain() && plain.slots() == 5, "five slots of seven fields, without paths");
    let nested = if HAS_NESTED && arguments.wants("nested") { Some(Shape::new(&keys, true)?) } else { None };
    let arms = match (&nested, arguments.wants("plain")) {
        (Some(_), _) => "skip, plain, nested",
        (None, true) => "skip, plain",
        (None, false) => "skip",
    };
    let title = format!("{arms} ({name})");
    let mut group = Group::new(title, data.rows, bytes.len() as u64);
    group.expect("tuples", data.rows);
    group.arm("skip", || {
        let (mut tuples, mut ends) = (0, 0);
        let (time, done) = timed(|| {
            let mut at = 0;
            while at < bytes.len() {
                at = bench::skip(bytes, at)?;
                tuples += 1;
                ends ^= at as u64;
            }
            Ok::<_, Error>(())
        });
        done?;
        Ok(Outcome::new(time, vec![("tuples", tuples), ("sum of ends", ends)]))
    });
    if nested.is_some() || arguments.wants("plain") {
        group.arm("plain", || walk(&plain, bytes));
        group.ratio("plain", "skip");
    }
    if let Some(nested) = &nested {
        assert!(!nested.is_plain() && nested.slots() == 5, "the same slots the other way");
        same_maps(&plain, nested, data)?;
        group.arm("nested", || walk(nested, bytes));
        group.ratio("nested", "plain");
    }
    arguments.finish(group)
}

fn walk(shape: &Shape, bytes: &[u8]) -> Result<Outcome, Error> {
    let (mut tuples, mut ends, mut offsets) = (0, 0, 0u64);
    let mut map = Map::default();
    let (time, done) = timed(|| {
        let mut at = 0;
        while at < bytes.len() {
            at = bench::walk(shape, bytes, at, &mut map)?;
            // All slots are wanted; one of them, the string's, is also summed up.
            black_box(map.slots());
            tuples += 1;
            ends ^= at as u64;
            offsets += u64::from(map.slots()[4]);
        }
        Ok::<_, Error>(())
    });
    done?;
    Ok(Outcome::new(time, vec![("tuples", tuples), ("sum of ends", ends), ("sum of offsets", offsets)]))
}

/// Both ways give the same field map for every tuple.
fn same_maps(plain: &Shape, nested: &Shape, data: &Data) -> Done {
    let (mut one, mut other) = (Map::default(), Map::default());
    for (number, tuple) in data.tuples().enumerate() {
        let ends = (bench::walk(plain, tuple, 0, &mut one)?, bench::walk(nested, tuple, 0, &mut other)?);
        if ends != (tuple.len(), tuple.len()) || one.slots() != other.slots() {
            let maps = format!("{:?} and {:?}", one.slots(), other.slots());
            return Err(format!("tuple {number}: plain and nested differ: {ends:?}, {maps}").into());
        }
    }
    Ok(())
}

// field: by its number, hot.

fn field_group(arguments: &Arguments, name: &str, data: &Data) -> Done {
    if !arguments.wants("field") {
        return Ok(());
    }
    let count = HOT_TUPLES.min(data.rows as usize);
    let bytes: Vec<u8> = (0..count).flat_map(|number| data.tuple(number)).copied().collect();
    let (slotted, bare) = (Shape::new(&[PRIMARY, SECONDARY], false)?, Shape::new(&[PRIMARY], false)?);
    let with_slots = Tuples::store(&slotted, &bytes)?;
    let without_slots = Tuples::store(&bare, &bytes)?;
    let (refs, bare_refs) = (with_slots.refs(), without_slots.refs());
    let passes = (data.rows as usize).div_ceil(count);
    let accesses = (count * passes) as u64;

    let mut group = Group::new(format!("field ({name}; {count} tuples, hot)"), accesses, 0);
    // The string, field 5 from 0, has a slot; the field behind it has none. What is found is checked by its first byte.
    let expected = |field: u32| -> Result<u64, Error> {
        let mut sum = 0;
        for number in 0..count {
            let tuple = data.tuple(number);
            let mut at = 1;
            for _ in 0..field {
                at = bench::skip(tuple, at)?;
            }
            sum += u64::from(tuple[at]);
        }
        Ok(sum * passes as u64)
    };
    group.expect("field 5", expected(5)?);
    group.expect("field 6", expected(6)?);
    let arms: [(&str, &str, &[Ref<'_>], &Shape, u32); 4] = [
        ("slot", "field 5", &refs, &slotted, 5),
        ("behind a slot", "field 6", &refs, &slotted, 6),
        ("no slot, field 6", "field 5", &bare_refs, &bare, 5),
        ("no slot, field 7", "field 6", &bare_refs, &bare, 6),
    ];
    for (arm, what, tuples, shape, field) in arms {
        group.arm(arm, move || {
            // The number is not known when the loop is compiled.
            let field = black_box(field);
            fields(passes, what, || tuples.iter().map(|&tuple| first_byte(tuple, shape, field)).sum())
        });
    }
    group.arm("handle, slot", || {
        let field = black_box(5);
        fields(passes, "field 5", || {
            (0..count).map(|number| first_byte(with_slots.get(number), &slotted, field)).sum()
        })
    });
    group.ratio("behind a slot", "slot");
    group.ratio("no slot, field 6", "slot");
    group.ratio("handle, slot", "slot");
    arguments.finish(group)
}

#[inline(always)]
fn first_byte(tuple: Ref<'_>, shape: &Shape, field: u32) -> u64 {
    tuple.field(shape, field).map_or(0, |at| u64::from(tuple.data()[at]))
}

#[inline(always)]
fn fields(passes: usize, what: &'static str, mut pass: impl FnMut() -> u64) -> Result<Outcome, Error> {
    let (time, sum) = timed(|| (0..passes).fold(0, |sum, _| sum + black_box(pass())));
    Ok(Outcome::new(time, vec![(what, sum)]))
}

// primary, secondary: from tuples in an arena to trees.

fn index_groups(arguments: &Arguments, name: &str, data: &Data) -> Done {
    if !arguments.wants_any(&["primary", "secondary"]) {
        return Ok(());
    }
    let shape = Shape::new(&[PRIMARY, SECONDARY], false)?;
    let tuples = Tuples::store(&shape, &data.bytes)?;
    let names: Vec<u32> = tuples.names().collect();
    if arguments.wants("primary") {
        let build = |hints| Build::primary(&tuples, &shape, PRIMARY, hints);
        let (hinted, unhinted) = (build(true), build(false));
        let mut group = index_group("primary", name, data, &hinted, &unhinted);
        group.expect("order", order_sum(&names));
        arguments.finish(group)?;
    }
    if arguments.wants("secondary") {
        let build = |hints| Build::secondary(&tuples, &shape, SECONDARY, PRIMARY, hints);
        let (hinted, unhinted) = (build(true), build(false));
        let mut group = index_group("secondary", name, data, &hinted, &unhinted);
        if data.rows <= MODEL_ROWS_MAX {
            let order = data.in_secondary_order();
            let order: Vec<u32> = order.into_iter().map(|number| names[number as usize]).collect();
            group.expect("order", order_sum(&order));
        }
        return arguments.finish(group);
    }
    Ok(())
}

fn index_group<'a>(
    title: &str,
    name: &str,
    data: &Data,
    hinted: &'a Build<'a>,
    unhinted: &'a Build<'a>,
) -> Group<'a> {
    let mut group = Group::new(format!("{title} ({name})"), data.rows, 0);
    group.expect("entries", data.rows);
    for (arm, build) in [("hinted", hinted), ("unhinted", unhinted)] {
        group.arm_of(arm, &["feed", "finish", "both"], move || {
            let (feed, fed) = timed(|| build.feed());
            let fed = fed?;
            let (finish, finished) = timed(|| fed.finish());
            let order = finished?.order();
            let times: Vec<Duration> = vec![feed, finish, feed + finish];
            Ok(Outcome { times, found: vec![("entries", order.len() as u64), ("order", order_sum(&order))] })
        });
    }
    group.ratio("unhinted: both", "hinted: both");
    group
}

/// A sum that another order changes.
fn order_sum(names: &[u32]) -> u64 {
    names
        .iter()
        .fold(0, |sum: u64, &name| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(name)))
}
