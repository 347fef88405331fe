//! CPU time, page faults and peak memory of the process, from the operating system's own accounting.

use std::time::Duration;

use super::report::StageReport;

/// What the process had used at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    user: Duration,
    system: Duration,
    minor_faults: u64,
    major_faults: u64,
    /// The most bytes that were ever resident.
    pub(crate) peak_bytes: u64,
}

impl Usage {
    pub(crate) fn of_process() -> Self {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a whole `rusage`, which the call fills; all zeros are a valid one, should it fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let duration = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec.max(0) as u64)
        };
        // Linux counts in kibibytes.
        let peak_bytes = usage.ru_maxrss.max(0) as u64 * 1024;
        Self {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            minor_faults: usage.ru_minflt.max(0) as u64,
            major_faults: usage.ru_majflt.max(0) as u64,
            peak_bytes,
        }
    }

    /// What was used from this moment to `end`.
    pub(crate) fn report(
        self,
        name: &'static str,
        end: Self,
        wall: Duration,
        rows: u64,
        bytes: u64,
    ) -> StageReport {
        StageReport {
            name,
            rows,
            bytes,
            wall,
            user: end.user.saturating_sub(self.user),
            system: end.system.saturating_sub(self.system),
            minor_faults: end.minor_faults - self.minor_faults,
            major_faults: end.major_faults - self.major_faults,
        }
    }
}
