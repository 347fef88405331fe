//! A point in the logs up to which they are replayed: by LSN, by vclock or by time.
//!
//! Logs are one order of transactions, and a point cuts it in two: what is replayed is always a prefix of whole
//! transactions, up to the first one that lies beyond the point in *any* of the ways asked for. So every point
//! names a state that this instance really had.

use super::vclock::Vclock;
use crate::error::{Error, ErrorKind};

/// Where replay stops; with nothing in it: nowhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    pub(crate) lsn: Option<StopLsn>,
    /// The last LSN of each replica, as `box.info.vclock` tells it; one that is not named has none. Rows of local
    /// spaces count only if component 0 is named.
    pub(crate) vclock: Option<Vclock>,
    /// Seconds since 1970. Rows of other replicas have the time of their own clocks, so times may go back a little in
    /// a log: the first later one stops.
    pub(crate) time: Option<f64>,
}

/// The last LSN of a replica: the first transaction with a later row of that replica stops.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StopLsn {
    /// None: the one that writes. That is what a person means who has read an LSN in a log or in `box.info.lsn`.
    /// Where rows of several replicas are about it could be any of them, and is refused rather than guessed.
    /// Local spaces do not count, their rows have LSNs of their own.
    pub(crate) replica_id: Option<u32>,
    pub(crate) lsn: u64,
}

impl Stop {
    pub(crate) fn is_nowhere(&self) -> bool {
        self.lsn.is_none() && self.vclock.is_none() && self.time.is_none()
    }
}

/// Looks out for the point, row after row.
#[derive(Debug, Clone)]
pub(super) struct Lookout {
    stop: Stop,
    /// Whose LSN it is, once that is known.
    writer: Option<u32>,
    /// Whether there is anything to look out for.
    is_on: bool,
}

impl Lookout {
    /// `covered`: the vclock of the snapshot that the logs follow.
    pub(super) fn new(stop: &Stop, covered: &Vclock) -> Result<Self, Error> {
        let writer = stop.lsn.and_then(|lsn| lsn.replica_id);
        let mut lookout = Self { stop: stop.clone(), writer, is_on: !stop.is_nowhere() };
        covered.iter().try_for_each(|(replica_id, _)| lookout.meet(replica_id))?;
        Ok(lookout)
    }

    /// Takes notice of a replica that has written something.
    fn meet(&mut self, replica_id: u32) -> Result<(), Error> {
        let is_plain = self.stop.lsn.is_some_and(|lsn| lsn.replica_id.is_none());
        if !is_plain || replica_id == 0 {
            return Ok(());
        }
        let writer = *self.writer.get_or_insert(replica_id);
        if writer == replica_id {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Usage, "the LSN to stop at")
            .expected("a replica's id with it, where several have written")
            .found(format_args!("none, but rows of replicas {writer} and {replica_id}")))
    }

    /// Whether a row is beyond the point.
    #[inline]
    pub(super) fn is_passed_by(
        &mut self,
        replica_id: u32,
        lsn: u64,
        timestamp: Option<f64>,
    ) -> Result<bool, Error> {
        if !self.is_on {
            return Ok(false);
        }
        self.meet(replica_id)?;
        let is_later = |(time, last): (f64, f64)| time > last;
        Ok(self.is_before(replica_id, lsn) || timestamp.zip(self.stop.time).is_some_and(is_later))
    }

    /// Whether an LSN is beyond the point.
    pub(super) fn is_before(&self, replica_id: u32, lsn: u64) -> bool {
        let by_lsn = self.stop.lsn.is_some_and(|last| self.writer == Some(replica_id) && lsn > last.lsn);
        let by_vclock = self.stop.vclock.is_some_and(|vclock| {
            let last = vclock.get(replica_id);
            lsn > last && (replica_id != 0 || last != 0)
        });
        by_lsn || by_vclock
    }

    /// Whether a vclock is beyond the point in any component.
    pub(super) fn is_before_vclock(&self, vclock: &Vclock) -> bool {
        vclock.iter().any(|(replica_id, lsn)| self.is_before(replica_id, lsn))
    }

    /// Whether all up to the point is there at a vclock, so that what comes next does not matter. Of a time nobody knows
    /// before a later row has come.
    pub(super) fn is_met(&self, reached: &Vclock) -> bool {
        (self.stop.lsn.is_some() || self.stop.vclock.is_some()) && self.missed(reached).is_none()
    }

    /// What of the point lies beyond a vclock, which is where replay has stopped or the logs have ended; none if it
    /// was met.
    pub(super) fn missed(&self, reached: &Vclock) -> Option<String> {
        let by_lsn = self.stop.lsn.and_then(|last| {
            let found = self.writer.map_or(0, |writer| reached.get(writer));
            (found < last.lsn).then(|| format!("LSN {}", last.lsn))
        });
        let by_vclock = || {
            let vclock = self.stop.vclock.filter(|vclock| !vclock.is_covered_by(reached))?;
            Some(format!("vclock {vclock}"))
        };
        by_lsn.or_else(by_vclock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vclock(text: &str) -> Vclock {
        text.parse().unwrap()
    }

    fn lookout(stop: &Stop, covered: &str) -> Lookout {
        Lookout::new(stop, &vclock(covered)).unwrap()
    }

    #[test]
    fn a_plain_lsn_means_the_one_replica_that_writes() {
        let stop = Stop { lsn: Some(StopLsn { replica_id: None, lsn: 7 }), ..Stop::default() };
        let mut of_two = lookout(&stop, "{0: 50, 2: 5}");
        assert!(!of_two.is_passed_by(2, 7, None).unwrap());
        assert!(!of_two.is_passed_by(0, 99, None).unwrap());
        assert!(of_two.is_passed_by(2, 8, None).unwrap());
        let error = of_two.is_passed_by(3, 1, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the LSN to stop at: expected a replica's id with it, where several have written, \
             found none, but rows of replicas 2 and 3"
        );
        assert_eq!(Lookout::new(&stop, &vclock("{1: 1, 2: 5}")).unwrap_err().kind(), ErrorKind::Usage);
        let mut of_first = lookout(&stop, "{}");
        assert!(!of_first.is_before(4, 8));
        assert!(of_first.is_passed_by(4, 8, None).unwrap());
        // With the replica said, others may write as they like.
        let stop = Stop { lsn: Some(StopLsn { replica_id: Some(1), lsn: 7 }), ..Stop::default() };
        let mut of_one = lookout(&stop, "{1: 1, 2: 50}");
        assert!(!of_one.is_passed_by(2, 51, None).unwrap());
        assert!(of_one.is_passed_by(1, 8, None).unwrap());
    }

    #[test]
    fn a_vclock_counts_local_rows_only_if_it_names_them() {
        let at = |text: &str| lookout(&Stop { vclock: Some(vclock(text)), ..Stop::default() }, "{}");
        assert!(!at("{1: 5}").is_before(0, 99));
        assert!(at("{0: 98, 1: 5}").is_before(0, 99));
        assert!(at("{1: 5}").is_before(2, 1));
        assert!(!at("{1: 5}").is_before(1, 5));
        assert!(at("{1: 5}").is_before_vclock(&vclock("{1: 6}")));
        assert!(!at("{1: 5}").is_before_vclock(&vclock("{0: 7, 1: 5}")));
    }

    #[test]
    fn a_time_is_passed_by_what_is_later() {
        let mut at = lookout(&Stop { time: Some(100.5), ..Stop::default() }, "{}");
        assert!(!at.is_passed_by(1, 1, Some(100.5)).unwrap());
        assert!(!at.is_passed_by(1, 1, None).unwrap());
        assert!(at.is_passed_by(1, 1, Some(100.6)).unwrap());
        assert_eq!(at.missed(&vclock("{}")), None);
        assert!(!lookout(&Stop::default(), "{}").is_passed_by(1, 1, Some(f64::MAX)).unwrap());
    }

    #[test]
    fn what_was_not_met_is_told() {
        let stop = Stop { vclock: Some(vclock("{1: 5, 2: 3}")), ..Stop::default() };
        assert_eq!(lookout(&stop, "{}").missed(&vclock("{1: 5, 2: 2}")).unwrap(), "vclock {1: 5, 2: 3}");
        assert_eq!(lookout(&stop, "{}").missed(&vclock("{1: 5, 2: 3}")), None);
        let stop = Stop { lsn: Some(StopLsn { replica_id: Some(1), lsn: 7 }), ..Stop::default() };
        assert_eq!(lookout(&stop, "{}").missed(&vclock("{1: 6}")).unwrap(), "LSN 7");
        assert_eq!(lookout(&stop, "{}").missed(&vclock("{1: 7}")), None);
    }
}
