//! The snapshot to begin with, if replay is to stop at a point that may lie before the newest one.
//!
//! By LSN and by vclock a snapshot's header says whether it holds more. Of a time it says nothing, and neither do its
//! rows (they all have the time at which the process that wrote it first wrote one). The logs do: if the first row
//! after the snapshot is not later than the point, what the snapshot holds is not either. Where that row is later, or
//! there is none, an older snapshot gives the same state for sure, by a longer way.

use super::directory::{Folder, Snapshot, header_notices, newest_snapshot, open_indexed};
use super::disk::Disk;
use super::header::FileType;
use super::log::chain;
use super::source::ContainerFile;
use super::stop::{Lookout, Stop};
use super::transaction::for_each_transaction;
use crate::error::{Error, ErrorKind};
use std::path::Path;

/// How a snapshot lies to the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    /// Nothing tells.
    Unknown,
    Beyond,
}

/// The newest snapshot that does not hold more than the state at `stop`; without such a one the oldest, which [`chain`]
/// then refuses, or of which a notice says that nobody knows. A lone file is that file. `log_folder`: where logs are,
/// if not with the snapshots.
pub(crate) fn snapshot_up_to(
    disk: &dyn Disk,
    path: &Path,
    log_folder: Option<&Path>,
    stop: &Stop,
) -> Result<Snapshot, Error> {
    let newest = newest_snapshot(disk, path)?;
    let Some(folder) = newest.folder.clone().filter(|_| !stop.is_nowhere()) else { return Ok(newest) };
    let log_folder = log_folder.unwrap_or(&folder);
    let mut best = (side(disk, log_folder, &newest.file, stop)?, newest.file);
    let mut notices = newest.notices;
    for named in Folder::list(disk, &folder)?.snapshots.iter().rev().skip(1) {
        if best.0 == Side::Before {
            break;
        }
        // That an older one cannot be read has been told with the newest.
        let Ok(file) = open_indexed(disk, named, FileType::Snap) else { continue };
        best = (side(disk, log_folder, &file, stop)?, file);
        notices.extend(header_notices(&best.1));
    }
    let (side, file) = best;
    if side == Side::Unknown {
        let path = file.path.display();
        notices.push(format!(
            "{path}: nothing tells whether the snapshot holds rows later than the time asked for"
        ));
    }
    Ok(Snapshot { file, folder: Some(folder), notices })
}

fn side(disk: &dyn Disk, log_folder: &Path, snapshot: &ContainerFile, stop: &Stop) -> Result<Side, Error> {
    let vclock = &snapshot.header.vclock;
    if Lookout::new(stop, vclock)?.is_before_vclock(vclock) {
        return Ok(Side::Beyond);
    }
    if stop.time.is_none() {
        return Ok(Side::Before);
    }
    let logs = chain(disk, log_folder, snapshot, stop)?;
    let mut is_before = false;
    // The first transaction is enough; what is wrong with the logs is told when they are replayed.
    let _end = for_each_transaction(disk, &logs, 1, usize::MAX, |_| {
        is_before = true;
        Err((0, Error::new(ErrorKind::Usage, "enough")))
    });
    Ok(if is_before { Side::Before } else { Side::Unknown })
}

#[cfg(test)]
mod tests {
    use super::super::block::{MAGIC_END, build};
    use super::super::disk::simulated::SimulatedDisk;
    use super::super::stop::StopLsn;
    use super::*;
    use crate::msgpack::unhex;

    /// Snapshots at 0, 2 and 4, a log from each; the row of each LSN has the time of ten times as many seconds.
    fn disk() -> SimulatedDisk {
        let header = |filetype: &str, lsn: u64| {
            let vclock = if lsn == 0 { "{}".into() } else { format!("{{1: {lsn}}}") };
            format!("{filetype}\n0.13\nVersion: 3.7.0\nVClock: {vclock}\n\n").into_bytes()
        };
        let mut disk = SimulatedDisk::default();
        for from in [0, 2, 4] {
            let rows = (from + 1..from + 3).map(|lsn| {
                let time = f64::to_bits(10.0 * lsn as f64);
                build::plain(&unhex(&format!("84 0002 0201 03{lsn:02x} 04cb{time:016x} 82 10cd0200 21 9101")))
            });
            let blocks: Vec<u8> = rows.flatten().collect();
            disk.add(
                &format!("d/{from:020}.xlog"),
                [header("XLOG", from), blocks, MAGIC_END.to_vec()].concat(),
            );
            disk.add(&format!("d/{from:020}.snap"), [header("SNAP", from), MAGIC_END.to_vec()].concat());
        }
        disk
    }

    /// The number of the snapshot, and how many notices there are.
    fn begin(stop: &Stop) -> (u64, usize) {
        let snapshot = snapshot_up_to(&disk(), Path::new("d"), None, stop).unwrap();
        (snapshot.file.header.vclock.signature(), snapshot.notices.len())
    }

    #[test]
    fn the_newest_snapshot_that_holds_no_more_is_found() {
        let to_lsn = |lsn| Stop { lsn: Some(StopLsn { replica_id: None, lsn }), ..Stop::default() };
        let to_vclock = |text: &str| Stop { vclock: Some(text.parse().unwrap()), ..Stop::default() };
        for (lsn, number) in [(0, 0), (1, 0), (2, 2), (3, 2), (4, 4), (9, 4)] {
            assert_eq!(begin(&to_lsn(lsn)), (number, 0), "{lsn}");
            assert_eq!(begin(&to_vclock(&format!("{{1: {lsn}}}"))), (number, 0), "{lsn}");
        }
        assert_eq!(begin(&Stop::default()), (4, 0));
        // Not even the oldest, then.
        let mut disk = SimulatedDisk::default();
        disk.add("d/00000000000000000002.snap", b"SNAP\n0.13\nVClock: {1: 2}\n\n\xd5\x10\xad\xed");
        let snapshot = snapshot_up_to(&disk, Path::new("d"), None, &to_lsn(1)).unwrap();
        let error = chain(&disk, Path::new("d"), &snapshot.file, &to_lsn(1)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }

    #[test]
    fn by_time_the_first_row_after_a_snapshot_tells() {
        let to_time = |time| Stop { time: Some(time), ..Stop::default() };
        // The state at 45 s is that after row 4; so says the snapshot at 2 as well, and for sure.
        for (time, number, notices) in
            [(5.0, 0, 1), (10.0, 0, 0), (29.0, 0, 0), (30.0, 2, 0), (45.0, 2, 0), (50.0, 4, 0), (99.0, 4, 0)]
        {
            assert_eq!(begin(&to_time(time)), (number, notices), "{time}");
        }
    }
}
