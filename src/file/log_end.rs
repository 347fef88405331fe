//! How a log ends, and whether the next one goes on from there.
//!
//! | end | last log | another follows |
//! |---|---|---|
//! | with the marker | good | the next begins at the last row's vclock, or rows are missing |
//! | without it | a crash: a transaction or block that was never finished is left out, and told | the same where the next begins before what is left out: whoever began that one has left it out as well; else rows are lost |
//!
//! Rows that the snapshot holds are not missed, nor those behind the point where replay is to stop.

use super::framing::{Flow, Framer, GO_ON};
use super::heads::End;
use super::log::{LogFile, lsns_between};
use super::transaction::{LogEnd, Torn};
use crate::error::{Error, ErrorKind};

impl Framer<'_> {
    /// A log ends.
    pub(super) fn end_of(&mut self, number: usize, end: End) -> Flow {
        let files = &self.chain.files;
        let (file, next) = (&files[number], files.get(number + 1));
        self.gaps.tell(&mut self.end.notices);
        self.halves.tell(&mut self.end.notices);
        if let (Some(open), End::Marker) = (&self.open, end) {
            // A crash leaves no end marker.
            let error = Error::new(ErrorKind::Row, "transaction without its last row")
                .expected(format_args!("a row with the TSN {}", open.tsn))
                .found(format_args!("the end of the log after {} rows", open.rows));
            let error = self.at(open.place, error);
            return self.fault(&error);
        }
        if let Some(next) = next {
            match self.goes_on(file, end, next) {
                Ok(true) => {}
                Ok(false) => return self.stop(None),
                Err(error) => return self.fault(&error),
            }
        }
        if let End::Open { byte, torn_bytes: bytes } = end {
            let mut torn = Torn { file: file.path.clone(), byte, bytes, rows: 0 };
            // If another log goes on from before the transaction, whoever began that one has left it out as well.
            if let Some(open) = self.open.take() {
                (torn.byte, torn.rows) = (open.place.byte, open.rows);
                self.clock = open.clock;
                self.kept.clear();
            }
            if torn.bytes > 0 || torn.rows > 0 {
                self.end.notices.push(torn.to_string());
                self.end.torn = Some(torn).filter(|_| next.is_none());
            }
        }
        if let Some(next) = next {
            self.clock = next.header.vclock;
        }
        GO_ON
    }

    /// Whether the log `next` begins where `file` has ended, but for rows that the snapshot holds. False: rows are missing
    /// between them, behind the point to stop at.
    fn goes_on(&mut self, file: &LogFile, end: End, next: &LogFile) -> Result<bool, Error> {
        let clock = self.open.as_ref().map_or(self.clock, |open| open.clock);
        let (begin, reached) = (next.header.vclock, self.chain.covered.joined(&clock));
        if !clock.is_covered_by(&begin) {
            return Err(Error::new(ErrorKind::RowNumber, "the log begins before the end of another")
                .expected(format_args!("the vclock {clock}, with which {} ends", file.path.display()))
                .found(begin)
                .file(&next.path));
        }
        if begin.is_covered_by(&reached) {
            return Ok(true);
        }
        let missing = lsns_between(&reached, &begin);
        let mut missing_ids = begin.iter().filter(|&(id, lsn)| lsn > reached.get(id));
        if missing_ids.all(|(id, _)| self.lookout.is_before(id, reached.get(id) + 1)) {
            return Ok(false);
        }
        match end {
            End::Marker if self.habits.gaps && next.header.prev_vclock == Some(file.header.vclock) => {
                let path = next.path.display();
                let why = "as the writer of the log before left them where a write failed";
                self.end.notices.push(format!("{path}: {missing} are in no log, {why}"));
                Ok(true)
            }
            End::Marker => Err(Error::new(ErrorKind::RowNumber, "rows are missing between logs")
                .expected(format_args!("the vclock {clock}, with which {} ends", file.path.display()))
                .found(format_args!("{begin}, so that {missing} are in no log"))
                .file(&next.path)),
            End::Open { byte, torn_bytes } => {
                let torn = match (&self.open, torn_bytes) {
                    (Some(_), _) => ", then a transaction that was never finished".into(),
                    (None, 0) => String::new(),
                    (None, bytes) => format!(", then {bytes} bytes of a block"),
                };
                Err(Error::new(ErrorKind::Truncated, "log cut short before another")
                    .expected(format_args!("rows up to {begin}, where {} begins", next.path.display()))
                    .found(format_args!("rows up to {clock}{torn}"))
                    .file(&file.path)
                    .byte(byte))
            }
        }
    }

    /// The logs have ended, or were not read further than to the point asked for.
    pub(super) fn finish(mut self) -> Result<LogEnd, Error> {
        let reached = self.reached();
        self.gaps.tell(&mut self.end.notices);
        self.halves.tell(&mut self.end.notices);
        let unfinished = self.chain.unfinished.as_ref().filter(|log| log.signature > reached.signature());
        let fault = self.chain.fault.clone().or_else(|| {
            let log = unfinished?;
            Some(
                Error::new(ErrorKind::RowNumber, "rows are missing between logs")
                    .expected(format_args!("a number of {} in the name, from {reached}", reached.signature()))
                    .found(format_args!("{}, and no text header that says more", log.signature))
                    .file(&log.path),
            )
        });
        if let Some(error) = fault.filter(|_| !self.end.is_stopped) {
            let _stopped = self.fault(&error)?;
        }
        if !self.end.is_stopped && !self.chain.covered.is_covered_by(&self.clock) {
            let (clock, covered) = (&self.clock, &self.chain.covered);
            self.end.notices.push(format!("the logs end at {clock}, before the snapshot, {covered}"));
        }
        if let Some(missed) = self.lookout.missed(&reached) {
            let what = if self.end.is_stopped {
                "at which no transaction ends: stopped before it,"
            } else {
                "before which the logs end,"
            };
            self.end.notices.push(format!("asked to stop at {missed}, {what} at {reached}"));
        }
        self.end.vclock = reached;
        Ok(self.end)
    }
}
