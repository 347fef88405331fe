//! What a snapshot and logs say of elections (RAFT) and of the queue of synchronous transactions (RAFT_PROMOTE): kept, so
//! that it can be written again.
//!
//! ```text
//! RAFT           81 00 term  or  82 00 term 01 vote          2.6.1 and newer
//! RAFT_PROMOTE   83 02 owner 03 lsn 53 term                  2.8.2 and newer
//!                84 02 owner 03 lsn 53 term 26 vclock        3.0 and newer
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::file::row::{Body, RowOut, body_key, kind};
use crate::file::vclock::Vclock;
use crate::msgpack::{read, write};

/// Both rows, as far as there are any: what has none is written without.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Synchro {
    pub(super) raft: Option<Raft>,
    pub(super) promote: Option<Promote>,
}

/// The election that an instance has got to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Raft {
    term: u64,
    vote: u64,
}

/// Who owns the queue, since which term, and how far it is confirmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Promote {
    pub(super) owner: u32,
    pub(super) term: u64,
    /// By the owners' ids.
    pub(super) confirmed: Vclock,
    /// The row says so of all owners, not of the present one alone.
    pub(super) has_vclock: bool,
}

impl Synchro {
    /// Takes a row of a snapshot, or a RAFT row of a log.
    ///
    /// # Errors
    /// `Row`: a vclock that is none.
    pub(super) fn take(&mut self, kind: u64, body: &Body<'_>) -> Result<()> {
        if kind == kind::RAFT {
            let raft = self.raft.get_or_insert_default();
            // What a row does not say has not changed.
            raft.term = body.term.filter(|&term| term != 0).unwrap_or(raft.term);
            raft.vote = body.vote.filter(|&vote| vote != 0).unwrap_or(raft.vote);
            return Ok(());
        }
        let owner = body.replica_id.unwrap_or(0);
        let mut confirmed = body.vclock.map_or_else(|| Ok(Vclock::default()), vclock)?;
        confirmed.raise(owner, body.lsn.unwrap_or(0));
        let (term, has_vclock) = (body.term.unwrap_or(0), body.vclock.is_some());
        self.promote = Some(Promote { owner, term, confirmed, has_vclock });
        Ok(())
    }

    /// The rows of a snapshot: types and bodies.
    pub(super) fn bodies(&self) -> Vec<(u64, Vec<u8>)> {
        let raft = self.raft.map(|raft| (kind::RAFT, raft.body()));
        raft.into_iter().chain(self.promote.map(|promote| (kind::RAFT_PROMOTE, promote.body()))).collect()
    }

    /// A row of [`Synchro::bodies`], to be written.
    pub(super) fn row_out((kind, body): &(u64, Vec<u8>)) -> RowOut<'_> {
        RowOut::other(*kind, *kind == kind::RAFT, body)
    }
}

impl Raft {
    fn body(self) -> Vec<u8> {
        body(
            [(body_key::RAFT_TERM, self.term), (body_key::RAFT_VOTE, self.vote)]
                .iter()
                .filter(|pair| pair.1 != 0),
        )
    }
}

impl Promote {
    fn body(self) -> Vec<u8> {
        let lsn = self.confirmed.get(self.owner);
        let pairs = [
            (body_key::SYNCHRO_REPLICA_ID, u64::from(self.owner)),
            (body_key::SYNCHRO_LSN, lsn),
            (body_key::SYNCHRO_TERM, self.term),
        ];
        let mut out = body(pairs.iter());
        if self.has_vclock {
            // One more pair, whose value is itself a map; local rows wait for nobody.
            let components = || self.confirmed.iter().filter(|&(id, _)| id != 0);
            out[0] += 1;
            write::uint(&mut out, body_key::SYNCHRO_VCLOCK);
            write::map(&mut out, components().count() as u32);
            components().for_each(|(id, lsn)| {
                write::uint(&mut out, u64::from(id));
                write::uint(&mut out, lsn);
            });
        }
        out
    }
}

/// A map of at most 15 numbers.
fn body<'a>(pairs: impl Iterator<Item = &'a (u64, u64)>) -> Vec<u8> {
    let mut out = vec![0x80];
    for &(key, value) in pairs {
        out[0] += 1;
        write::uint(&mut out, key);
        write::uint(&mut out, value);
    }
    out
}

fn vclock(map: &[u8]) -> Result<Vclock> {
    let components = || -> Option<Vclock> {
        let (count, mut at) = read::map(map, 0).ok()?;
        let mut vclock = Vclock::default();
        for _ in 0..count {
            let (id, value_at) = read::uint(map, at).ok()?;
            let (lsn, end) = read::uint(map, value_at).ok()?;
            at = end;
            vclock.raise(u32::try_from(id).ok()?, lsn).then_some(())?;
        }
        Some(vclock)
    };
    components().ok_or_else(|| {
        Error::new(ErrorKind::Row, "vclock of RAFT_PROMOTE")
            .expected("a map of the ids of replicas and their LSNs")
            .found("something else")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::row::Row;
    use crate::msgpack::unhex;

    fn take(synchro: &mut Synchro, row: &str) -> Result<()> {
        let bytes = unhex(row);
        let row = Row::decode(&bytes, 0).unwrap();
        synchro.take(row.head.kind, &row.body.unwrap())
    }

    #[test]
    fn rows_are_written_as_they_were_read() {
        for (kind, head, body) in [
            (30, "82 00 1e 07 01", "81 00 01"),
            (30, "82 00 1e 07 01", "82 00 05 01 02"),
            (31, "81 00 1f", "83 02 01 03 cd 0400 53 02"),
            (31, "81 00 1f", "84 02 00 03 00 53 00 26 80"),
            (31, "81 00 1f", "84 02 02 03 07 53 04 26 82 01 05 02 07"),
        ] {
            let mut synchro = Synchro::default();
            take(&mut synchro, &format!("{head} {body}")).unwrap();
            assert_eq!(synchro.bodies(), [(kind, unhex(body))], "{body}");
        }
        assert!(Synchro::default().bodies().is_empty());
        assert!(take(&mut Synchro::default(), "81 00 1f 81 26 81 01 a0").is_err());
    }

    #[test]
    fn what_a_log_does_not_say_of_an_election_stays() {
        let mut synchro = Synchro::default();
        take(&mut synchro, "82 00 1e 07 01 82 00 05 01 02").unwrap();
        take(&mut synchro, "82 00 1e 07 01 81 00 06").unwrap();
        assert_eq!(synchro.raft, Some(Raft { term: 6, vote: 2 }));
    }
}
