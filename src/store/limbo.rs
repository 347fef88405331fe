//! Synchronous transactions on their way: in the log, but not final yet.
//!
//! ```text
//! log     s1   a   s2   b    CONFIRM s1    ROLLBACK s2         s: synchronous, a, b: asynchronous, written while
//! queue   s1   s1  s1   s1                                        others waited
//!              a   a    a
//!                  s2   s2   s2
//!                       b    b
//! final                      s1  a                             s2 and b never were
//! ```
//!
//! A transaction waits if it is synchronous, or if it was written while others waited; the row that decides comes later,
//! perhaps in another file. Transactions are given to the store when they become final, so that nothing has to be undone,
//! and in the order of the log. What still waits at the end of the logs is up to the caller.
//!
//! Only rows about the present owner of the queue count: the replica whose transactions wait.

use std::collections::VecDeque;

use super::synchro::Promote;
use crate::file::vclock::Vclock;

/// What a log says about a transaction's waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waits {
    /// It needs a quorum of its own.
    pub(super) for_quorum: bool,
    /// It needs those before it to be final.
    pub(super) for_others: bool,
}

/// The queue. `T` is a transaction.
#[derive(Debug)]
pub(super) struct Limbo<T> {
    /// The replica whose transactions wait; 0: nobody's.
    owner: u32,
    /// The term of the last PROMOTE or DEMOTE.
    term: u64,
    /// How far the queue of each owner is confirmed.
    confirmed: Vclock,
    queue: VecDeque<Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    /// Of the last row.
    lsn: u64,
    is_sync: bool,
    transaction: T,
}

/// What becomes of transactions by a row that decides.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decided<T> {
    /// To be applied, in this order.
    pub(super) confirmed: Vec<T>,
    /// Never to be applied.
    pub(super) rolled_back: Vec<T>,
}

impl<T> Decided<T> {
    fn nothing() -> Self {
        Self { confirmed: Vec::new(), rolled_back: Vec::new() }
    }
}

impl<T> Limbo<T> {
    /// As a snapshot's row of RAFT_PROMOTE says; all 0 where there is none.
    pub(super) fn new(promote: Promote) -> Self {
        let Promote { owner, term, confirmed, .. } = promote;
        Self { owner, term, confirmed, queue: VecDeque::new() }
    }

    /// What a snapshot of the present state says; `before` is what the last one said. Nothing, if neither it nor the logs
    /// have said anything.
    pub(super) fn promote_row(&self, before: Option<Promote>) -> Option<Promote> {
        let Self { owner, term, confirmed, .. } = *self;
        let has_vclock = before.is_some_and(|before| before.has_vclock);
        (before.is_some() || term > 0).then_some(Promote { owner, term, confirmed, has_vclock })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a transaction has to wait.
    pub(super) fn holds(&self, waits: Waits) -> bool {
        waits.for_quorum || (waits.for_others && !self.is_empty())
    }

    /// Takes in a transaction that has to wait; `replica_id` and `lsn` are those of its last row.
    pub(super) fn push(&mut self, replica_id: u32, lsn: u64, is_sync: bool, transaction: T) {
        if self.queue.is_empty() {
            // Before there were PROMOTE rows, the first to wait owned the queue.
            self.owner = replica_id;
        }
        self.queue.push_back(Waiting { lsn, is_sync, transaction });
    }

    /// CONFIRM: final is all up to the last synchronous transaction with an LSN of at most `lsn`, and the asynchronous
    /// ones right behind it.
    pub(super) fn confirm(&mut self, owner: u32, lsn: u64) -> Vec<T> {
        if owner != self.owner {
            return Vec::new();
        }
        self.confirmed.raise(owner, lsn);
        let Some(last) = self.queue.iter().rposition(|waiting| waiting.is_sync && waiting.lsn <= lsn) else {
            return Vec::new();
        };
        let behind = self.queue.iter().skip(last + 1).take_while(|waiting| !waiting.is_sync).count();
        self.queue.drain(..last + 1 + behind).map(|waiting| waiting.transaction).collect()
    }

    /// ROLLBACK: gone is all from the first synchronous transaction with an LSN of at least `lsn` on.
    pub(super) fn roll_back(&mut self, owner: u32, lsn: u64) -> Vec<T> {
        if owner != self.owner {
            return Vec::new();
        }
        match self.queue.iter().position(|waiting| waiting.is_sync && waiting.lsn >= lsn) {
            Some(first) => self.queue.drain(first..).map(|waiting| waiting.transaction).collect(),
            None => Vec::new(),
        }
    }

    /// PROMOTE, or DEMOTE with a `new_owner` of 0: what waits is decided, and the queue changes hands. A row of a term
    /// that is over changes nothing.
    pub(super) fn promote(&mut self, owner: u32, lsn: u64, term: u64, new_owner: u32) -> Decided<T> {
        if term <= self.term {
            return Decided::nothing();
        }
        self.term = term;
        let confirmed = self.confirm(owner, lsn);
        let rolled_back = self.roll_back(owner, lsn.saturating_add(1));
        self.owner = new_owner;
        Decided { confirmed, rolled_back }
    }

    /// All that still wait, in order.
    pub(super) fn finish(self) -> impl Iterator<Item = T> {
        self.queue.into_iter().map(|waiting| waiting.transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of replica 1; upper case is synchronous, the LSN is the place from 1 on.
    fn queue(transactions: &str) -> Limbo<char> {
        let mut limbo = Limbo::new(Promote::default());
        for (lsn, name) in (1..).zip(transactions.chars()) {
            limbo.push(1, lsn, name.is_uppercase(), name);
        }
        limbo
    }

    fn text(transactions: Vec<char>) -> String {
        transactions.into_iter().collect()
    }

    fn left(limbo: Limbo<char>) -> String {
        limbo.finish().collect()
    }

    #[test]
    fn a_transaction_waits_for_its_quorum_or_behind_others() {
        let sync = Waits { for_quorum: true, for_others: true };
        let behind = Waits { for_quorum: false, for_others: true };
        let never = Waits { for_quorum: false, for_others: false };
        let empty: Limbo<char> = Limbo::new(Promote::default());
        assert_eq!([sync, behind, never].map(|waits| empty.holds(waits)), [true, false, false]);
        assert_eq!([sync, behind, never].map(|waits| queue("A").holds(waits)), [true, true, false]);
    }

    #[test]
    fn a_confirmation_takes_the_asynchronous_ones_behind_along() {
        for (lsn, confirmed, waiting) in
            [(0, "", "AbCdE"), (1, "Ab", "CdE"), (2, "Ab", "CdE"), (3, "AbCd", "E"), (9, "AbCdE", "")]
        {
            let mut limbo = queue("AbCdE");
            assert_eq!(text(limbo.confirm(1, lsn)), confirmed);
            assert_eq!(left(limbo), waiting);
        }
    }

    #[test]
    fn a_rollback_takes_all_behind_along() {
        for (lsn, gone, waiting) in
            [(0, "AbCdE", ""), (1, "AbCdE", ""), (2, "CdE", "Ab"), (4, "E", "AbCd"), (6, "", "AbCdE")]
        {
            let mut limbo = queue("AbCdE");
            assert_eq!(text(limbo.roll_back(1, lsn)), gone);
            assert_eq!(left(limbo), waiting);
        }
    }

    #[test]
    fn rows_about_another_owner_change_nothing() {
        let mut limbo = queue("Ab");
        assert!(limbo.confirm(2, 9).is_empty() && limbo.roll_back(2, 0).is_empty());
        assert_eq!(left(limbo), "Ab");
    }

    #[test]
    fn a_promotion_decides_all_and_the_queue_changes_hands() {
        let mut limbo = queue("AbCd");
        let decided = limbo.promote(1, 1, 2, 2);
        assert_eq!((text(decided.confirmed), text(decided.rolled_back)), ("Ab".into(), "Cd".into()));
        // A promotion of the same term, and rows about the owner before, come too late.
        let row = limbo.promote_row(None).unwrap();
        assert_eq!((row.owner, row.term, row.confirmed.to_string()), (2, 2, "{1: 1}".into()));
        limbo.push(2, 7, true, 'X');
        assert_eq!(limbo.promote(2, 7, 2, 3), Decided::nothing());
        assert!(limbo.confirm(1, 9).is_empty());
        assert_eq!(text(limbo.confirm(2, 7)), "X");
        assert!(limbo.is_empty());
        assert_eq!(limbo.promote_row(None).unwrap().confirmed.to_string(), "{1: 1, 2: 7}");
        assert_eq!(queue("Ab").promote_row(None), None);
    }
}
