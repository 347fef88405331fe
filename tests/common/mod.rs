//! What the tests of the whole store share. Everything here is written apart from the library, on purpose: a plain
//! reader of snapshots (`file`), MsgPack by hand (`mp`), and a slow order of index entries (`order`), so that the
//! library can be held against something that does not share its mistakes.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod expected;
pub mod file;
pub mod mp;
pub mod order;

use std::path::{Path, PathBuf};

/// The folder of the samples.
pub fn snapshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots")
}

/// The sub-folders of a folder, by name.
pub fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// The one snapshot of a folder.
pub fn snapshot_of(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "snap"));
    let file = files.next().unwrap_or_else(|| panic!("no snapshot in {}", folder.display()));
    assert!(files.next().is_none(), "more than one snapshot in {}", folder.display());
    file
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares text with a file that holds what it should be; `UPDATE=1` rewrites the file.
pub fn assert_text(file: &Path, text: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    let mut lines = (expected.lines(), text.lines());
    for number in 1.. {
        match (lines.0.next(), lines.1.next()) {
            (None, None) => return,
            (expected, found) if expected == found => {}
            (expected, found) => panic!(
                "{}, line {number}: expected {expected:?}, found {found:?}; UPDATE=1 rewrites the file",
                file.display()
            ),
        }
    }
}
