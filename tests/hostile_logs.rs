//! Whole folders, snapshots and logs, changed in every way that a bit, a cut, a lost file or a moved block can change
//! them; with the checksums left as they were, and made right again.
//!
//! What comes of each is an error that names its file, or a state that the folder once was in, as `--to-lsn` gives it;
//! one that is not the last is told, unless what is missing is the end of the last log, of which nobody else knows.
//! Never a panic, never a state that was not.
#![expect(clippy::print_stdout, reason = "tells how many changes led to an error and how many to a state")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::expected::assert_order;
use common::file::crc;
use common::snapshots;
use lycosa::{Options, Store};

/// Folders with few and small files.
const CASES: &[&str] = &["2.6/36-xlog-ops", "2.6/38-transactions", "2.6/62-sync-rollback-txn"];

/// Blocks of a log whose rows are changed.
const BLOCKS_TRIED: usize = 40;

/// A small damaged file may not cost much memory.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// What a folder holds: id, name, tuples and fingerprint of each space.
type State = Vec<(u32, String, u64, Option<u32>)>;

type Files = BTreeMap<String, Vec<u8>>;

fn options() -> Options {
    Options::new().threads(1).max_memory(MEMORY_BYTES_MAX)
}

fn state(store: &Store) -> State {
    store
        .read_view()
        .spaces()
        .map(|space| (space.def().id, space.def().name.clone(), space.len(), space.fingerprint()))
        .collect()
}

/// A folder as it was left, and all states that it was in.
struct Case {
    name: &'static str,
    files: Files,
    states: BTreeSet<State>,
    last: State,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let folder = snapshots().join(name).join("data");
        let files: Files = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(path).unwrap()))
            .collect();
        let store = Store::open_with(&folder, &options()).unwrap();
        let last = state(&store);
        let end = store.report().vclock.trim_matches(['{', '}']).split(',').next().unwrap().to_owned();
        let end: u64 = end.split(':').nth(1).unwrap().trim().parse().unwrap();
        let mut states: BTreeSet<State> = (0..=end)
            .filter_map(|lsn| Store::open_with(&folder, &options().to_lsn(lsn)).ok())
            .map(|store| state(&store))
            .collect();
        states.insert(last.clone());
        assert!(states.len() > 3, "{name}: only {} states", states.len());
        Self { name, files, states, last }
    }

    fn newest(&self, extension: &str) -> &str {
        self.files.keys().rfind(|name| name.ends_with(extension)).unwrap()
    }

    /// The logs that hold rows after the newest snapshot.
    fn logs(&self) -> Vec<&str> {
        let newest = self.newest(".snap").trim_end_matches(".snap");
        let logs = self.files.keys().filter(|name| name.ends_with(".xlog"));
        logs.map(String::as_str).filter(|name| name.trim_end_matches(".xlog") >= newest).collect()
    }

    /// Opens the files in a folder where those `written` are. `may_shorten`: the end of the last log may be missing without
    /// a word.
    fn hold(
        &self,
        (folder, written): (&Path, &mut Files),
        what: &str,
        files: &Files,
        may_shorten: bool,
    ) -> bool {
        let place = format!("{}: {what}", self.name);
        written.retain(|name, _| {
            let is_kept = files.contains_key(name);
            if !is_kept {
                fs::remove_file(folder.join(name)).unwrap();
            }
            is_kept
        });
        for (name, bytes) in files {
            if written.get(name) != Some(bytes) {
                fs::write(folder.join(name), bytes).unwrap();
                written.insert(name.clone(), bytes.clone());
            }
        }
        match Store::open_with(folder, &options()) {
            Err(error) => {
                let file = error.place().file.as_deref();
                let is_named = file.is_some_and(|file| file == folder || file.parent() == Some(folder));
                assert!(is_named, "{place}: an error without its file: {error}");
                assert!(
                    error.to_string().len() < 4096,
                    "{place}: a message of {} bytes",
                    error.to_string().len()
                );
                false
            }
            Ok(store) => {
                let found = state(&store);
                assert!(self.states.contains(&found), "{place}: a state that never was");
                let report = store.report();
                let is_told = !report.notices.is_empty()
                    || report.logs.as_ref().is_some_and(|logs| logs.torn_bytes > 0 || logs.torn_rows > 0);
                assert!(
                    found == self.last || is_told || may_shorten,
                    "{place}: an earlier state, and not a word about it"
                );
                true
            }
        }
    }
}

/// Tries changes, each a name and the files after it, on all cores.
fn try_all(case: &Case, changes: &[(String, Files, bool)]) {
    let (next, errors, opened) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (folder, mut written) = (tempfile::tempdir().unwrap(), Files::new());
                while let Some((what, files, may_shorten)) = changes.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let tried = catch_unwind(AssertUnwindSafe(|| {
                        case.hold((folder.path(), &mut written), what, files, *may_shorten)
                    }));
                    match tried {
                        Ok(true) => opened.fetch_add(1, Ordering::Relaxed),
                        Ok(false) => errors.fetch_add(1, Ordering::Relaxed),
                        Err(_) => {
                            next.store(changes.len(), Ordering::Relaxed);
                            panic!("{}, {what}: panicked; its message stands above", case.name);
                        }
                    };
                }
            });
        }
    });
    println!("{}: {} errors, {} states", case.name, errors.into_inner(), opened.into_inner());
}

fn with(files: &Files, name: &str, bytes: Vec<u8>) -> Files {
    let mut files = files.clone();
    files.insert(name.to_owned(), bytes);
    files
}

fn header_bytes(file: &[u8]) -> usize {
    file.windows(2).position(|two| two == b"\n\n").unwrap() + 2
}

/// Whether a byte is of the text of the line `Version:`, which nothing protects: rules that depend on it may then be those
/// of another version.
fn is_of_version(file: &[u8], at: usize) -> bool {
    const KEY: &[u8] = b"\nVersion:";
    let header = &file[..header_bytes(file)];
    header.windows(KEY.len()).position(|window| window == KEY).is_some_and(|found| {
        let start = found + KEY.len();
        let length = header[start..].iter().position(|&byte| byte == b'\n').unwrap();
        (start..start + length).contains(&at)
    })
}

/// The blocks of a file: where each begins and ends.
fn blocks(file: &[u8]) -> Vec<(usize, usize)> {
    let mut at = header_bytes(file);
    let mut blocks = Vec::new();
    while file.len() - at >= 19 && file[at..at + 3] == [0xd5, 0xba, 0x0b] {
        let length = match file[at + 4] {
            0xce => u32::from_be_bytes(file[at + 5..at + 9].try_into().unwrap()) as usize,
            0xcd => usize::from(u16::from_be_bytes([file[at + 5], file[at + 6]])),
            0xcc => usize::from(file[at + 5]),
            short => usize::from(short),
        };
        blocks.push((at, at + 19 + length));
        at += 19 + length;
    }
    assert!(!blocks.is_empty());
    blocks
}

/// Makes the checksum of a plain block right; `false`: it is compressed.
fn reseal(file: &mut [u8], (start, end): (usize, usize)) -> bool {
    if file[start + 3] != 0xab {
        return false;
    }
    // Behind the length and the checksum of the block before: where it stands depends on their widths.
    let width = |first: u8| match first {
        0xce => 5,
        0xcd => 3,
        0xcc => 2,
        _ => 1,
    };
    let mut at = start + 4;
    at += width(file[at]);
    at += width(file[at]);
    if file[at] != 0xce {
        return false;
    }
    let sum = crc(&file[start + 19..end]);
    file[at + 1..at + 5].copy_from_slice(&sum.to_be_bytes());
    true
}

#[test]
fn flipped_bits_and_cuts_of_logs_are_errors_or_earlier_states() {
    for name in CASES {
        let case = Case::new(name);
        let mut random = fastrand::Rng::with_seed(7);
        let mut changes = Vec::new();
        let logs = case.logs();
        for log in &logs {
            let bytes = &case.files[*log];
            let is_last = Some(log) == logs.last();
            for at in 0..bytes.len() {
                if !is_of_version(bytes, at) {
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 1 << random.u32(..8);
                    changes.push((
                        format!("{log}, a bit of byte {at}"),
                        with(&case.files, log, flipped),
                        false,
                    ));
                }
                if random.u8(..4) == 0 || at < header_bytes(bytes) {
                    let cut = bytes[..at].to_vec();
                    changes.push((format!("{log}, cut at byte {at}"), with(&case.files, log, cut), is_last));
                }
                if random.u8(..8) == 0 {
                    let mut zeroed = bytes.clone();
                    zeroed[at..].fill(0);
                    changes.push((
                        format!("{log}, zeros from byte {at}"),
                        with(&case.files, log, zeroed),
                        false,
                    ));
                }
            }
        }
        try_all(&case, &changes);
    }
}

#[test]
fn text_headers_of_whole_folders_are_doubted() {
    for name in CASES {
        let case = Case::new(name);
        let mut changes = Vec::new();
        for (file, bytes) in &case.files {
            for at in 0..header_bytes(bytes) {
                for bit in (at % 3..8).step_by(3).filter(|_| !is_of_version(bytes, at)) {
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 1 << bit;
                    changes.push((
                        format!("{file}, bit {bit} of byte {at}"),
                        with(&case.files, file, flipped),
                        false,
                    ));
                }
                let cut = bytes[..at].to_vec();
                let is_last = file == case.newest(".xlog");
                changes.push((format!("{file}, cut at byte {at}"), with(&case.files, file, cut), is_last));
                if !is_of_version(bytes, at) {
                    let mut gap = bytes.clone();
                    gap.remove(at);
                    changes.push((format!("{file}, without byte {at}"), with(&case.files, file, gap), false));
                }
            }
        }
        try_all(&case, &changes);
    }
}

#[test]
fn lost_swapped_and_doubled_files_and_blocks_are_noticed() {
    for name in CASES.iter().chain(&["2.6/35-rotations", "2.6/44-restarts"]) {
        let case = Case::new(name);
        let mut changes = Vec::new();
        let logs = case.logs();
        for file in case.files.keys() {
            let mut files = case.files.clone();
            let bytes = files.remove(file).unwrap();
            // With the newest snapshot the rows of the logs before it are needed again; with the last logs go rows.
            let may_shorten = logs.contains(&&**file);
            changes.push((format!("{file} is lost"), files.clone(), may_shorten));
            changes.push((format!("{file} is empty"), with(&case.files, file, Vec::new()), may_shorten));
            let (stem, extension) = file.split_once('.').unwrap();
            let number: u64 = stem.parse().unwrap();
            for other in [number + 1, number.saturating_sub(1), number + 1000] {
                let renamed = with(&files, &format!("{other:020}.{extension}"), bytes.clone());
                changes.push((format!("{file} is called {other}"), renamed, may_shorten));
            }
            let tailed = [&bytes[..], &[0; 100]].concat();
            changes.push((format!("{file} with zeros behind it"), with(&case.files, file, tailed), false));
            for (other, other_bytes) in &case.files {
                if other > file && other.ends_with(extension) {
                    let swapped = with(&with(&case.files, file, other_bytes.clone()), other, bytes.clone());
                    changes.push((format!("{file} and {other} are swapped"), swapped, false));
                }
            }
        }
        for log in &logs {
            let bytes = &case.files[*log];
            if bytes.len() - header_bytes(bytes) < 19 {
                continue;
            }
            let blocks = blocks(bytes);
            let is_last = logs.iter().rfind(|log| case.files[**log].len() > 200) == Some(log);
            for (number, &(start, end)) in blocks.iter().enumerate() {
                let lost = [&bytes[..start], &bytes[end..]].concat();
                let may_shorten = is_last && number + 1 == blocks.len();
                changes.push((
                    format!("{log}, block {number} is lost"),
                    with(&case.files, log, lost),
                    may_shorten,
                ));
                let doubled = [&bytes[..end], &bytes[start..]].concat();
                changes.push((
                    format!("{log}, block {number} is doubled"),
                    with(&case.files, log, doubled),
                    false,
                ));
                if let Some(&(next_start, next_end)) = blocks.get(number + 1) {
                    let swapped = [
                        &bytes[..start],
                        &bytes[next_start..next_end],
                        &bytes[start..end],
                        &bytes[next_end..],
                    ];
                    let files = with(&case.files, log, swapped.concat());
                    changes.push((format!("{log}, blocks {number} and the next are swapped"), files, false));
                }
                for length in [0u32, 1, u32::MAX, (end - start - 19) as u32 + 1, 1 << 30] {
                    let mut other = bytes.clone();
                    if other[start + 4] == 0xce {
                        other[start + 5..start + 9].copy_from_slice(&length.to_be_bytes());
                        let files = with(&case.files, log, other);
                        changes.push((format!("{log}, block {number} of {length} bytes"), files, false));
                    }
                }
            }
        }
        try_all(&case, &changes);
    }
}

/// Rows may say anything then; what loads must still be whole: every index in order, and finding what a scan finds.
#[test]
fn rows_of_any_content_are_an_error_or_a_sound_store() {
    let (mut errors, mut sound) = (0, 0);
    for name in CASES.iter().chain(&["3.9/07-ops-log", "3.9/16-paths-multikey"]) {
        let folder = snapshots().join(name).join("data");
        let case: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let copy = tempfile::tempdir().unwrap();
        for path in &case {
            fs::copy(path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        let mut random = fastrand::Rng::with_seed(11);
        for path in case.iter().filter(|path| path.extension().is_some_and(|end| end == "xlog")) {
            let bytes = fs::read(path).unwrap();
            if bytes.len() - header_bytes(&bytes) < 19 {
                continue;
            }
            let target = copy.path().join(path.file_name().unwrap());
            let blocks = blocks(&bytes);
            for &(start, end) in blocks.iter().step_by(blocks.len().div_ceil(BLOCKS_TRIED)) {
                for _ in 0..3 {
                    let mut changed = bytes.clone();
                    let at = random.usize(start + 19..end);
                    match random.u8(..3) {
                        0 => changed[at] ^= 1 << random.u32(..8),
                        1 => changed[at] = random.u8(..),
                        _ => {
                            changed[at] = [0xc0, 0x90, 0x80, 0xdd, 0xdf, 0xc1, 0xff, 0x00][random.usize(..8)]
                        }
                    }
                    if !reseal(&mut changed, (start, end)) {
                        break;
                    }
                    fs::write(&target, &changed).unwrap();
                    match Store::open_with(copy.path(), &options()) {
                        Err(error) => {
                            assert!(error.place().file.is_some(), "{name}, byte {at}: no file: {error}");
                            errors += 1;
                        }
                        Ok(store) => {
                            assert_order(&format!("{name}, {}, byte {at}", path.display()), &store, 1);
                            sound += 1;
                        }
                    }
                }
            }
            fs::write(&target, &bytes).unwrap();
        }
    }
    println!("{errors} errors, {sound} sound stores");
    assert!(errors > 100 && sound > 100, "{errors} errors, {sound} sound stores");
}
