//! Facts about the machine, and two things that make runs of a benchmark comparable: a file out of the page cache,
//! and memory that was touched and freed before.
//!
//! The facts come from Linux's `/proc` and `/sys`; elsewhere they are unknown.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::print;

pub struct Machine {
    pub cores: usize,
    pub cpu: Option<String>,
    pub kernel: Option<String>,
    /// `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    pub memory_bytes: Option<u64>,
}

impl Machine {
    pub fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: read("/proc/cpuinfo").and_then(|text| value(&text, "model name")),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())),
            memory_bytes: read("/proc/meminfo").and_then(|text| kibibytes(&text, "MemTotal")),
        }
    }

    pub fn json(&self) -> Value {
        json!({
            "cores": self.cores,
            "cpu": self.cpu,
            "kernel": self.kernel,
            "transparent_huge_pages": self.transparent_huge_pages,
            "memory_bytes": self.memory_bytes,
        })
    }

    pub fn text(&self) -> String {
        let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        format!(
            "{} cores, {}, kernel {}, transparent huge pages {}, {} of memory",
            self.cores,
            known(&self.cpu),
            known(&self.kernel),
            known(&self.transparent_huge_pages),
            self.memory_bytes.map_or_else(|| "unknown".to_owned(), print::bytes)
        )
    }
}

/// Memory of this process that is in RAM now.
pub fn resident_bytes() -> Option<u64> {
    kibibytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// The text after the first `name : `.
fn value(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start().strip_prefix(':')?.trim().to_owned())
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let number: u64 = value(text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

/// Writes into every page of so much memory and ends. What the system did to give this memory, it need not do for the
/// next process.
pub fn touch_memory(bytes: u64) {
    let mut memory = vec![1u8; usize::try_from(bytes).unwrap_or(0)];
    std::hint::black_box(memory.as_mut_slice());
}

/// Asks the system to drop the snapshots of a folder, or a lone file, from the page cache.
pub fn drop_from_cache(path: &Path) -> io::Result<()> {
    for file in snapshots(path)? {
        let file = File::open(file)?;
        // Pages that are not on disk yet are not dropped.
        file.sync_all()?;
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        #[cfg(not(target_os = "linux"))]
        return Err(io::Error::new(io::ErrorKind::Unsupported, "no way is known on this system"));
    }
    Ok(())
}

fn snapshots(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_proc_as_linux_prints_it() {
        let cpu = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: Other\n";
        assert_eq!(value(cpu, "model name").as_deref(), Some("Some CPU @ 2.00GHz"));
        assert_eq!(
            kibibytes("MemTotal:       24689736 kB\nMemFree: 1 kB\n", "MemTotal"),
            Some(24_689_736 * 1024)
        );
        assert_eq!(kibibytes("MemTotal: lots\n", "MemTotal"), None);
        assert_eq!(kibibytes("", "MemTotal"), None);
    }
}
