//! Rows of logs, each for itself, by its LSN.

use std::collections::VecDeque;
use std::ops::Range;

use super::super::lenient::Lenient;
use super::Sources;
use super::infer::Samples;
use super::loss::Loss;
use super::run::{At, Run, is_misnamed};
use crate::error::{Place, Result};
use crate::file::directory::NamedFile;
use crate::file::habits::version_of;
use crate::file::header::FileType;
use crate::file::log_row::LogRow;
use crate::file::rescue::{Rescued, Stretch, Trust, for_each_row, rescue};
use crate::file::row::kind;
use crate::file::vclock::Vclock;
use crate::limits::SYSTEM_SPACE_ID_END;
use crate::msgpack::look;
use crate::space::system;
use crate::tuple::update::Rules;

/// Transactions of which it is remembered where they begin; more do not wait for a quorum at a time.
const TRANSACTIONS_MAX: usize = 10_000;

impl Run<'_> {
    /// All logs, row by row.
    pub(super) fn logs(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        sources: &Sources,
        instance: Option<&str>,
        vclock: &mut Vclock,
    ) -> Result<()> {
        let covered = *vclock;
        // The last one that begins at or before the snapshot, by the names; where vclocks of several replicas are in no
        // order, one before it may have rows as well.
        let behind = sources.logs.partition_point(|log| log.signature <= covered.signature());
        let mut first = behind;
        while first > 0 {
            first -= 1;
            if self.header(&sources.logs[first]).is_some_and(|header| header.vclock.is_covered_by(&covered)) {
                break;
            }
        }
        let knows_rollbacks = self.known.has_rollbacks || lenient.catalog.has_sync_spaces();
        let rolled_back =
            if knows_rollbacks { self.rolled_back(&sources.logs[first..])? } else { Vec::new() };
        if !sources.logs.is_empty() && !self.examines {
            self.guess_from_logs(lenient, &sources.logs[first..])?;
        }
        for named in &sources.logs[first..] {
            let (file, rescued) = match self.rescue(&named.path, FileType::Xlog) {
                Ok(found) => found,
                Err(error) => {
                    self.skip(&named.path, error.to_string());
                    continue;
                }
            };
            let header = &rescued.file.header;
            if let (Some(ours), Some(theirs)) = (instance, &header.instance)
                && !is_nearly(ours, theirs)
            {
                self.skip(&named.path, format!("it was written by another instance, {theirs}"));
                continue;
            }
            // Where the name and the vclock are not of one another, one of them is damaged.
            let is_known = rescued.header_fault.is_none() && !is_misnamed(named, &header.vclock);
            if is_known && !header.vclock.is_covered_by(vclock) {
                let text = format!(
                    "{}: it begins at {}, and what is before it ends at {vclock}: rows are missing between them",
                    named.path.display(),
                    header.vclock
                );
                let bytes = 0..0;
                self.lose(Loss {
                    place: Place { file: Some(named.path.clone()), ..Place::default() },
                    lsns: missing(vclock, &header.vclock),
                    ..Loss::new(bytes, text)
                });
                *vclock = vclock.joined(&header.vclock);
            }
            self.report.logs.push(named.path.clone());
            self.tell(lenient, &rescued)?;
            let rules = Rules::of_version(version_of(header.writer.as_deref()));
            self.log(lenient, (file, &rescued), &rules, (knows_rollbacks, &rolled_back), vclock)?;
        }
        Ok(())
    }

    /// Where there is no snapshot that says what spaces there are, nor does any log: definitions are guessed from rows.
    fn guess_from_logs(&mut self, lenient: &mut Lenient<'_, At>, logs: &[NamedFile]) -> Result<()> {
        if lenient
            .catalog
            .rows(system::SPACE_ID)
            .any(|row| look::id(row, 0).is_some_and(|id| id >= SYSTEM_SPACE_ID_END))
        {
            return Ok(());
        }
        let mut samples = Samples::default();
        for named in logs {
            let Ok(rescued) =
                rescue(self.disk, &named.path, FileType::Xlog, self.threads, self.unpacked_bytes_max)
            else {
                continue;
            };
            self.samples(lenient, &rescued, &mut samples)?;
        }
        self.guess(lenient, &samples, &Rules::of_version([0; 3]))
    }

    fn log(
        &mut self,
        lenient: &mut Lenient<'_, At>,
        (file, rescued): (usize, &Rescued),
        rules: &Rules,
        (knows_rollbacks, rolled_back): (bool, &[(u32, Range<u64>)]),
        vclock: &mut Vclock,
    ) -> Result<()> {
        let mut stretches = rescued.stretches();
        let whole = self.put_in_order(rescued, &mut stretches)?;
        for stretch in &stretches {
            let (payload, fault) = rescued.payload(stretch, &mut self.unpacker)?;
            let trust = stretch.trust();
            let broken = for_each_row(&payload, |row, number| {
                let at = At { file, block: stretch.index(), byte: stretch.byte(), row: number };
                let (replica, lsn) = (writer(row), row.lsn());
                if lsn != 0 && lsn <= vclock.get(replica) {
                    return Ok(());
                }
                if trust != Trust::Whole && !may_be(replica, lsn, &whole, vclock) {
                    return Ok(());
                }
                if lsn != 0 && self.unwanted(trust).is_none() {
                    let missing = vclock.get(replica) + 1..lsn;
                    vclock.raise(replica, lsn);
                    self.tell_gap(rescued, at, replica, missing);
                }
                let is_rolled_back = is_in(rolled_back, replica, lsn);
                if matches!(row.kind(), kind::RAFT_ROLLBACK | kind::RAFT_PROMOTE) && !knows_rollbacks {
                    (self.known.has_rollbacks, self.learns) = (true, true);
                }
                match row.kind() {
                    kind::RAFT_CONFIRM | kind::RAFT_ROLLBACK | kind::RAFT_PROMOTE | kind::RAFT_DEMOTE => {
                        Ok(())
                    }
                    _ if is_rolled_back => Ok(()),
                    _ => self.row(lenient, row, at, trust, rules),
                }
            })?;
            lenient.end_transaction()?;
            self.taken_back(lenient)?;
            self.tell_broken(lenient, rescued, stretch, &payload, fault.or(broken))?;
        }
        Ok(())
    }

    /// Blocks of a log that stand in another order than they were written in: by their LSNs. Gives the rows of whole blocks
    /// by replica and LSN, ascending, if there are other rows as well.
    fn put_in_order(&mut self, rescued: &Rescued, stretches: &mut [Stretch<'_>]) -> Result<Vec<(u32, u64)>> {
        let is_whole = |stretch: &Stretch<'_>| stretch.trust() == Trust::Whole;
        let is_all_whole = stretches.iter().all(is_whole);
        let mut firsts = Vec::with_capacity(stretches.len());
        let (mut replicas, mut whole) = (Vec::new(), Vec::new());
        for stretch in stretches.iter() {
            let mut first = None;
            if is_whole(stretch) {
                let (payload, _) = rescued.payload(stretch, &mut self.unpacker)?;
                for_each_row(&payload, |row, _| {
                    first.get_or_insert(row.lsn());
                    let replica = writer(row);
                    if !replicas.contains(&replica) {
                        replicas.push(replica);
                    }
                    if !is_all_whole {
                        whole.push((replica, row.lsn()));
                    }
                    Ok(())
                })?;
            }
            // What cannot be read, or not be believed, is taken to be where it belongs.
            firsts.push(first.or(firsts.last().copied()).unwrap_or(0));
        }
        whole.sort_unstable();
        // LSNs of several replicas have no order among themselves.
        if replicas.len() == 1 && !firsts.is_sorted() {
            let mut order: Vec<usize> = (0..stretches.len()).collect();
            order.sort_by_key(|&at| firsts[at]);
            let sorted: Vec<Stretch<'_>> = order.iter().map(|&at| stretches[at]).collect();
            for (place, stretch) in stretches.iter_mut().zip(sorted) {
                *place = stretch;
            }
            let path = rescued.file.path.display();
            self.report.notices.push(format!(
                "{path}: its blocks are not in the order of their LSNs: they are taken in that order"
            ));
        }
        Ok(whole)
    }

    /// LSNs of synchronous transactions that the logs say were rolled back, by the replica that wrote them.
    fn rolled_back(&mut self, logs: &[NamedFile]) -> Result<Vec<(u32, Range<u64>)>> {
        let mut found = Vec::new();
        let mut seen = Vclock::default();
        // Transactions of several rows, which are known by the LSN of their last: replica, that, and the first.
        let mut open: VecDeque<(u32, u64, u64)> = VecDeque::new();
        for named in logs {
            let Ok(rescued) =
                rescue(self.disk, &named.path, FileType::Xlog, self.threads, self.unpacked_bytes_max)
            else {
                continue;
            };
            for stretch in &rescued.stretches() {
                let (payload, _) = rescued.payload(stretch, &mut self.unpacker)?;
                for_each_row(&payload, |row, _| {
                    let decision =
                        matches!(row.kind(), kind::RAFT_ROLLBACK | kind::RAFT_PROMOTE | kind::RAFT_CONFIRM);
                    if decision && let Some(body) = row.whole()?.body {
                        let (owner, lsn) = (body.replica_id.unwrap_or(0), body.lsn.unwrap_or(0));
                        let end = seen.get(owner).saturating_add(1);
                        match row.kind() {
                            kind::RAFT_ROLLBACK => {
                                let is_it =
                                    |&&(replica, last, _): &&(u32, u64, u64)| (replica, last) == (owner, lsn);
                                found.push((owner, open.iter().find(is_it).map_or(lsn, |it| it.2)..end));
                            }
                            // What its owner had confirmed stays, what waited beyond is gone.
                            kind::RAFT_PROMOTE => found.push((owner, lsn.saturating_add(1)..end)),
                            _ => open.retain(|&(replica, last, _)| replica != owner || last > lsn),
                        }
                    }
                    if row.tsn() != row.lsn() {
                        open.truncate(TRANSACTIONS_MAX - 1);
                        open.push_front((row.replica_id(), row.lsn(), row.tsn()));
                    }
                    seen.raise(row.replica_id(), row.lsn());
                    Ok(())
                })?;
            }
        }
        Ok(joined(found))
    }
}

/// The replica whose LSNs count a row.
fn writer(row: &LogRow<'_>) -> u32 {
    if row.is_local() { 0 } else { row.replica_id() }
}

/// The same ranges, sorted, and those that overlap as one.
fn joined(mut ranges: Vec<(u32, Range<u64>)>) -> Vec<(u32, Range<u64>)> {
    ranges.sort_by_key(|(replica, lsns)| (*replica, lsns.start));
    let mut joined: Vec<(u32, Range<u64>)> = Vec::new();
    for (replica, lsns) in ranges {
        match joined.last_mut() {
            Some((other, last)) if *other == replica && lsns.start <= last.end => {
                last.end = last.end.max(lsns.end)
            }
            _ => joined.push((replica, lsns)),
        }
    }
    joined
}

/// Whether an LSN is in one of these ranges, as `joined` gives them.
fn is_in(ranges: &[(u32, Range<u64>)], replica: u32, lsn: u64) -> bool {
    let behind = ranges.partition_point(|(other, lsns)| (*other, lsns.start) <= (replica, lsn));
    let last = behind.checked_sub(1).map(|at| &ranges[at]);
    last.is_some_and(|(other, lsns)| *other == replica && lsns.contains(&lsn))
}

/// Whether a row that no checksum vouches for can be one that is missing here: no whole block has it, and its LSN lies
/// before the next one that a whole block has, or is the very next where there is none.
fn may_be(replica: u32, lsn: u64, whole: &[(u32, u64)], vclock: &Vclock) -> bool {
    let now = vclock.get(replica);
    let next = whole.get(whole.partition_point(|&row| row <= (replica, now)));
    match next.filter(|(other, _)| *other == replica) {
        Some(&(_, next)) => lsn < next,
        None => lsn == now.saturating_add(1),
    }
}

/// Whether one of two UUIDs is the other with one wrong character.
pub(super) fn is_nearly(one: &str, other: &str) -> bool {
    one.len() == other.len() && one.bytes().zip(other.bytes()).filter(|(a, b)| a != b).count() <= 1
}

/// The LSNs of a replica that lead from one vclock to another.
fn missing(from: &Vclock, to: &Vclock) -> Option<(u32, Range<u64>)> {
    let (id, last) = to.iter().find(|&(id, last)| last > from.get(id))?;
    Some((id, from.get(id) + 1..last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_found() {
        let ranges = joined(vec![(1, 20..30), (2, 1..2), (1, 5..8), (1, 8..10), (1, 22..25), (2, 5..5)]);
        assert_eq!(ranges, [(1, 5..10), (1, 20..30), (2, 1..2), (2, 5..5)]);
        for replica in 0..4 {
            for lsn in 0..40 {
                let expected = ranges.iter().any(|(other, lsns)| *other == replica && lsns.contains(&lsn));
                assert_eq!(is_in(&ranges, replica, lsn), expected, "{lsn} of {replica}");
            }
        }
    }

    #[test]
    fn a_row_that_nobody_vouches_for_fills_a_gap_and_nothing_else() {
        let vclock = Vclock::default().with(1, 10);
        let whole = [(1, 5), (1, 10), (1, 13), (2, 12)];
        for (lsn, may) in [(11, true), (12, true), (13, false), (14, false)] {
            assert_eq!(may_be(1, lsn, &whole, &vclock), may, "{lsn}");
        }
        // Behind the last one: the very next.
        let vclock = vclock.with(1, 13);
        assert!(may_be(1, 14, &whole, &vclock) && !may_be(1, 15, &whole, &vclock));
    }
}
