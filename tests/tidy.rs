//! What the README and `src/lib.rs` say of the source, held against the source: which folder uses which, which files
//! hold `unsafe`, which start threads, and which one speaks to the file system.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders in the order in which data travels; each uses only those before it. Single files beside them are the
/// crate's own: anyone may use them.
const FOLDERS: &[&str] = &["msgpack", "file", "tuple", "index", "space", "store"];

/// Further absences that the order alone would allow.
const STRANGERS: &[(&str, &str, &str)] = &[
    ("tuple", "file", "tuples are known without files"),
    ("index", "file", "order is known without files"),
    ("space", "file", "spaces are known without files"),
];

/// Files with `unsafe`; the module line of each says why, and each block why it holds.
const UNSAFE: &[&str] = &[
    "src/index/pool.rs",
    "src/index/tree/bulk.rs",
    "src/index/tree/node.rs",
    "src/prefetch.rs",
    "src/store/usage.rs",
    "src/tuple/arena.rs",
    "src/tuple/field_map.rs",
    "src/tuple/slab.rs",
];

/// Files that start threads.
const THREADS: &[&str] = &["src/file/pipeline.rs", "src/parallel.rs"];

/// The one module of the library that reads and writes files.
const DISK: &str = "src/file/disk.rs";

struct Source {
    path: String,
    /// The text before the tests, without comments.
    code: String,
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Without comments, and without what comes after `#[cfg(test)]` on a module.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().map_or("", |line| line.trim_start());
        let opens_tests = next.starts_with("mod ") || next.starts_with("pub(crate) mod ");
        if line.trim() == "#[cfg(test)]" && opens_tests && next.ends_with('{') {
            break;
        }
        let line = line.find("//").map_or(line, |comment| &line[..comment]);
        code.extend([line, "\n"]);
    }
    code
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    walk(&root.join("src"), &mut files);
    files.sort();
    let sources: Vec<Source> = files
        .iter()
        .filter(|file| !file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests")))
        .map(|file| Source {
            path: file.strip_prefix(root).unwrap().to_string_lossy().into_owned(),
            code: code(&std::fs::read_to_string(file).unwrap()),
        })
        .collect();
    assert!(sources.len() > 20, "only {} files", sources.len());
    sources
}

fn library() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|source| !source.path.starts_with("src/bin/"))
}

/// The folder of a path below `src/`; single files have none.
fn folder(path: &str) -> Option<&str> {
    path.strip_prefix("src/")?.split_once('/').map(|(folder, _)| folder)
}

/// The folders whose modules the code names: `crate::folder::`, and `crate::{folder::, ...}`.
fn uses(code: &str) -> BTreeSet<&str> {
    FOLDERS
        .iter()
        .copied()
        .filter(|folder| {
            let direct =
                code.contains(&format!("crate::{folder}::")) || code.contains(&format!("crate::{folder};"));
            let grouped = code.split("crate::{").skip(1).any(|group| {
                let mut depth = 1;
                let end = group.find(|symbol| {
                    depth += match symbol {
                        '{' => 1,
                        '}' => -1,
                        _ => 0,
                    };
                    depth == 0
                });
                let group = &group[..end.unwrap_or(group.len())];
                group.split([',', '{']).any(|item| item.trim().starts_with(&format!("{folder}::")))
            });
            direct || grouped
        })
        .collect()
}

#[test]
fn a_folder_uses_only_those_before_it() {
    let mut seen = BTreeSet::new();
    for source in library() {
        let Some(own) = folder(&source.path) else { continue };
        let place = FOLDERS.iter().position(|folder| *folder == own);
        let place = place.unwrap_or_else(|| panic!("{}: a folder that the table does not have", source.path));
        seen.insert(own.to_owned());
        for used in uses(&source.code) {
            let used_place = FOLDERS.iter().position(|folder| *folder == used).unwrap();
            assert!(used_place <= place, "{} uses {used}, which comes after {own}", source.path);
            for (user, stranger, why) in STRANGERS {
                assert!(own != *user || used != *stranger, "{} uses {used}: {why}", source.path);
            }
        }
    }
    assert_eq!(seen.len(), FOLDERS.len(), "folders of the table that are not there");
}

fn files_with(marks: &[&str]) -> Vec<String> {
    let has = |source: &Source| marks.iter().any(|mark| source.code.contains(mark));
    sources().into_iter().filter(has).map(|source| source.path).collect()
}

#[test]
fn unsafe_is_in_the_files_that_the_table_names() {
    let mut files = files_with(&["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait"]);
    files.retain(|file| !file.ends_with("lib.rs"));
    assert_eq!(files, UNSAFE);
    for file in UNSAFE {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(text.contains("SAFETY:"), "{file} does not say why");
    }
}

#[test]
fn threads_are_started_in_the_files_that_the_table_names() {
    let files =
        files_with(&["thread::spawn", "thread::scope", "thread::Builder", "crossbeam::scope", ".spawn("]);
    assert_eq!(files, THREADS);
}

#[test]
fn one_module_of_the_library_speaks_to_the_file_system() {
    let mut files = files_with(&["std::fs", "fs::File", "OpenOptions"]);
    files.retain(|file| !file.starts_with("src/bin/"));
    assert_eq!(files, [DISK]);
}

#[test]
fn the_library_neither_prints_nor_exits_nor_reads_the_environment() {
    for source in library() {
        for mark in [
            "println!(",
            "eprintln!(",
            "print!(",
            "process::exit",
            "env::var",
            "env::args",
            "dbg!(",
            "todo!(",
        ] {
            assert!(!source.code.contains(mark), "{} has {mark}", source.path);
        }
    }
}

#[test]
fn the_tool_lives_on_the_public_interface() {
    for source in sources().iter().filter(|source| source.path.starts_with("src/bin/")) {
        for folder in FOLDERS {
            let private = format!("lycosa::{folder}::");
            assert!(!source.code.contains(&private), "{} reaches into {folder}", source.path);
        }
    }
}

#[test]
fn every_file_begins_with_what_it_is_for() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    ["src", "tests"].iter().for_each(|folder| walk(&root.join(folder), &mut files));
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("//! "), "{}: its head does not say what it is for", file.display());
    }
}
