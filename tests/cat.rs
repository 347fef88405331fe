//! `lycosa cat` from outside: what every option prints and leaves out, damage, and files that grow.
#![cfg(feature = "cli")]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

fn sample(case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(case).join("data")
}

fn logs(folder: &Path) -> Vec<PathBuf> {
    let mut logs: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "xlog"))
        .collect();
    logs.sort();
    logs
}

fn command(path: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lycosa"));
    command.arg("cat").arg(path).args(options).stdin(Stdio::null());
    command
}

fn run(path: &Path, options: &[&str]) -> Output {
    command(path, options).output().unwrap()
}

/// What it prints; it must succeed without a word on standard error.
fn text(path: &Path, options: &[&str]) -> String {
    let output = run(path, options);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{options:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn rows(path: &Path, options: &[&str]) -> Vec<Value> {
    text(path, options).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn number(row: &Value, part: &str, name: &str) -> Option<u64> {
    row[part][name].as_u64()
}

#[test]
fn every_filter_leaves_what_it_says() {
    let folder = sample("2.6/36-xlog-ops");
    let all = rows(&folder, &["--show-system"]);
    assert!(all.len() > 100, "{}", all.len());
    let lsns: Vec<u64> = all.iter().filter_map(|row| number(row, "HEADER", "lsn")).collect();
    assert!(lsns.is_sorted());
    let space = |row: &Value| number(row, "BODY", "space_id");
    let check = |options: &[&str], takes: &dyn Fn(&Value) -> bool| {
        let expected: Vec<&Value> = all.iter().filter(|row| takes(row)).collect();
        let found = rows(&folder, options);
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{options:?}");
        assert!(!found.is_empty() && found.len() < all.len(), "{options:?} tells nothing apart");
    };
    let is_user = |row: &Value| space(row).is_none_or(|id| id >= 512);
    check(&[], &is_user);
    check(&["--space", "512"], &|row| space(row) == Some(512));
    check(&["--space", "_index"], &|row| space(row) == Some(288));
    check(&["--space", "280", "--space", "_index"], &|row| matches!(space(row), Some(280 | 288)));
    let (from, to) = (lsns[10], lsns[20]);
    let (from_text, to_text) = (from.to_string(), to.to_string());
    check(&["--show-system", "--from", &from_text, "--to", &to_text], &|row| {
        (from..=to).contains(&number(row, "HEADER", "lsn").unwrap())
    });
    let time = |row: &Value| row["HEADER"]["timestamp"].as_f64().unwrap();
    let (since, until) = (time(&all[10]), time(&all[30]));
    check(&["--show-system", "--since", &since.to_string(), "--until", &until.to_string()], &|row| {
        (since..=until).contains(&time(row))
    });
    check(&["--type", "delete,UPSERT"], &|row| {
        is_user(row) && matches!(row["HEADER"]["type"].as_str(), Some("DELETE" | "UPSERT"))
    });
    check(&["--type", "4"], &|row| is_user(row) && row["HEADER"]["type"] == "UPDATE");
    assert_eq!(rows(&folder, &["--replica", "1", "--show-system"]), all);
    assert!(rows(&folder, &["--replica", "0,7"]).is_empty());
    // A key: of the tuples, and of the rows that name it.
    let key = all
        .iter()
        .find(|row| row["HEADER"]["type"] == "UPDATE" && space(row) == Some(512))
        .map(|row| row["BODY"]["key"].clone())
        .unwrap();
    check(&["--space", "512", "--key", &key.to_string()], &|row| {
        let parts = key.as_array().unwrap().len();
        let of_tuple = || Value::from(row["BODY"]["tuple"].as_array().unwrap()[..parts].to_vec());
        space(row) == Some(512)
            && match row["HEADER"]["type"].as_str().unwrap() {
                "UPDATE" | "DELETE" => row["BODY"]["key"] == key,
                _ => of_tuple() == key,
            }
    });
}

#[test]
fn threads_and_files_one_by_one_change_nothing() {
    let folder = sample("2.6/60-txn-blocks-interleave");
    let whole = text(&folder, &["--threads", "1", "--show-system"]);
    for threads in ["2", "7"] {
        assert_eq!(text(&folder, &["--threads", threads, "--show-system"]), whole);
    }
    let by_file: String = logs(&folder).iter().map(|log| text(log, &["--show-system"])).collect();
    assert_eq!(by_file, whole);
    let hex = text(&folder, &["--format", "hex", "--show-system"]);
    assert_eq!(hex.lines().count(), whole.lines().count());
    assert!(hex.bytes().all(|byte| byte == b'\n' || byte.is_ascii_hexdigit()));
}

#[test]
fn other_formats_say_the_same() {
    let folder = sample("2.6/36-xlog-ops");
    let json = rows(&folder, &["--space", "512"]);
    let yaml = text(&folder, &["--space", "512", "--format", "yaml"]);
    let documents: Vec<&str> = yaml.split("---\n").skip(1).collect();
    assert_eq!(documents.len(), json.len());
    for (document, row) in documents.iter().zip(&json) {
        let mut part = "";
        for line in document.lines() {
            match line.strip_prefix("  ").and_then(|line| line.split_once(": ")) {
                Some((name, value)) => {
                    assert_eq!(serde_json::from_str::<Value>(value).unwrap(), row[part][name], "{document}")
                }
                None => part = line.trim_end_matches(" {}").trim_end_matches(':'),
            }
        }
    }
    let lua = text(&folder, &["--space", "512", "--format", "lua"]);
    assert_eq!(lua.lines().count(), json.len());
    for (line, row) in lua.lines().zip(&json) {
        let kind = row["HEADER"]["type"].as_str().unwrap().to_lowercase();
        assert!(line.starts_with(&format!("box.space[512]:{kind}({{")) && line.ends_with(')'), "{line}");
    }
}

#[test]
fn what_is_redacted_shows_no_value() {
    let folder = sample("2.6/36-xlog-ops");
    let shown = text(&folder, &["--space", "512"]);
    assert!(shown.contains("\"name1\""));
    for format in ["json", "yaml", "lua"] {
        let redacted = text(&folder, &["--space", "512", "--redact", "--format", format]);
        assert!(!redacted.contains("name1") && redacted.contains("<string of 5 bytes>"), "{format}");
    }
    let output = run(&folder, &["--redact", "--format", "hex"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_snapshot_is_printed_as_well() {
    let snapshot = fs::read_dir(sample("2.6/36-xlog-ops"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "snap"))
        .unwrap();
    let rows = rows(&snapshot, &["--show-system"]);
    assert!(rows.iter().any(|row| row["BODY"]["space_id"] == 280));
    assert!(rows.iter().all(|row| row["HEADER"].get("replica_id").is_none()));
}

#[test]
fn what_cannot_be_is_said() {
    let folder = sample("2.6/36-xlog-ops");
    for (options, code) in [
        (&["--space", "nobody"][..], 2),
        (&["--type", "NOTHING"], 2),
        (&["--key", "[{}]", "--space", "512"], 2),
        (&["--json", "--format", "lua"], 2),
        (&["--since", "yesterday"], 2),
    ] {
        let output = run(&folder, options);
        assert_eq!(output.status.code(), Some(code), "{options:?}");
        assert!(!output.stderr.is_empty());
    }
    assert_eq!(run(Path::new("no/such/folder"), &[]).status.code(), Some(3));
    let empty = TempDir::new().unwrap();
    assert_eq!(run(empty.path(), &[]).status.code(), Some(3));
}

#[test]
fn rows_before_damage_are_printed_and_a_torn_end_is_a_notice() {
    let folder = TempDir::new().unwrap();
    let log = logs(&sample("2.6/36-xlog-ops")).remove(0);
    let whole = text(&log, &["--show-system"]);
    let bytes = fs::read(&log).unwrap();
    let path = folder.path().join(log.file_name().unwrap());
    // Without the end marker and a part of the last block.
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    let output = run(&path, &["--show-system"]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(whole.starts_with(&printed) && printed.len() < whole.len());
    assert!(String::from_utf8_lossy(&output.stderr).contains("are left out"));
    // The same before another log is damage.
    fs::write(folder.path().join("00000000000000999999.xlog"), &bytes).unwrap();
    let output = run(folder.path(), &["--show-system"]);
    assert_eq!(output.status.code(), Some(1));
    fs::remove_file(folder.path().join("00000000000000999999.xlog")).unwrap();
    // A flipped bit near the end.
    let mut damaged = bytes.clone();
    let at = damaged.len() - 40;
    damaged[at] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let output = run(&path, &["--show-system"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(whole.starts_with(&printed) && !printed.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("checksum"));
}

#[test]
fn a_reader_who_has_enough_is_no_error() {
    let mut child = command(&sample("2.6/36-xlog-ops"), &["--show-system"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(child.wait().unwrap().success() && error.is_empty(), "{error}");
}

/// A log that grows block by block, and then another one.
#[test]
fn a_folder_is_followed_from_log_to_log() {
    let folder = TempDir::new().unwrap();
    let [first, second, ..] = &logs(&sample("2.6/35-rotations"))[..] else { panic!("several logs") };
    let expected = [text(first, &["--show-system"]), text(second, &["--show-system"])].concat();
    let bytes = fs::read(first).unwrap();
    let path = folder.path().join(first.file_name().unwrap());
    let header = bytes.windows(2).position(|two| two == b"\n\n").unwrap() + 2;
    fs::write(&path, &bytes[..header]).unwrap();
    let mut child = command(folder.path(), &["--show-system", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        for line in stdout.lines().take(expected_lines()) {
            let _ = sender.send(line.unwrap());
        }
    });
    // In pieces that are no blocks.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    for piece in bytes[header..].chunks(bytes.len() / 5) {
        file.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::copy(second, folder.path().join(second.file_name().unwrap())).unwrap();
    let mut seen = String::new();
    let end = Instant::now() + Duration::from_secs(60);
    while seen.len() < expected.len() && Instant::now() < end {
        if let Ok(line) = lines.recv_timeout(Duration::from_secs(1)) {
            seen.push_str(&line);
            seen.push('\n');
        }
    }
    assert_eq!(seen, expected);
    // Nobody reads any more: it ends by itself.
    reader.join().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it goes on although nobody reads");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(child.wait().unwrap().success());

    fn expected_lines() -> usize {
        let [first, second, ..] = &logs(&sample("2.6/35-rotations"))[..] else { panic!("several logs") };
        [first, second].map(|log| text(log, &["--show-system"]).lines().count()).iter().sum()
    }
}
