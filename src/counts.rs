//! Counts of small integers: an array with a cell for each, of which only the part that is in use is ever walked.
//!
//! ```text
//! cells   [ 0 0 0 0 0 3 1 0 7 2 0 0 0 0 0 ... ]     98,304 of them
//!                     |       |
//!                   least   greatest seen: walking and merging stay between them
//! ```
//!
//! An array that is walked whole costs the same for two values as for all; bounded, it costs what is in use, and where
//! all is in use the bounds cost nothing.

/// What counts without hashing: every 8- and 16-bit integer, signed or not.
pub(crate) const LEAST: i32 = i16::MIN as i32;
pub(crate) const GREATEST: i32 = u16::MAX as i32;

const CELLS: usize = (GREATEST - LEAST) as usize + 1;

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct SmallCounts {
    /// Made when there is something to count.
    cells: Vec<u64>,
    /// First and last cell that may have a count; the first is greater where there is none.
    first: usize,
    last: usize,
}

impl Default for SmallCounts {
    fn default() -> Self {
        Self { cells: Vec::new(), first: CELLS, last: 0 }
    }
}

impl SmallCounts {
    /// Counts a value; `false`: it is none that is counted here.
    #[inline]
    pub(crate) fn add(&mut self, value: i32) -> bool {
        if !(LEAST..=GREATEST).contains(&value) {
            return false;
        }
        if self.cells.is_empty() {
            self.cells = vec![0; CELLS];
        }
        let at = (value - LEAST) as usize;
        self.cells[at] += 1;
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        true
    }

    /// Adds the counts of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.first > other.last {
            return;
        }
        if self.cells.is_empty() {
            self.cells = vec![0; CELLS];
        }
        let range = other.first..=other.last;
        let cells = self.cells[range.clone()].iter_mut().zip(&other.cells[range]);
        cells.for_each(|(mine, theirs)| *mine += theirs);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    /// Values that were counted, ascending, each with its count.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i32, u64)> {
        let used = self.cells.get(self.first..=self.last.max(self.first)).unwrap_or_default();
        let counts = (self.first..).zip(used).filter(|&(_, &count)| count > 0);
        counts.map(|(at, &count)| (at as i32 + LEAST, count))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::index::twin_tests::rounds::for_each_round;

    #[test]
    fn counts_are_those_of_a_map_however_they_are_split() {
        for_each_round(100, |random| {
            let mut twin: BTreeMap<i32, u64> = BTreeMap::new();
            let mut parts = vec![SmallCounts::default(); random.usize(1..5)];
            let (low, width) = (random.i32(LEAST - 10..GREATEST), random.i32(1..3000));
            for _ in 0..random.usize(0..2000) {
                let value = if random.u8(..50) == 0 { random.i32(..) } else { random.i32(low..=low + width) };
                let part = random.usize(..parts.len());
                let is_small = parts[part].add(value);
                assert_eq!(is_small, (LEAST..=GREATEST).contains(&value));
                if is_small {
                    *twin.entry(value).or_default() += 1;
                }
            }
            let mut all = SmallCounts::default();
            parts.iter().for_each(|part| all.merge(part));
            assert!(all.iter().eq(twin.into_iter()));
            let mut ends = SmallCounts::default();
            assert_eq!(ends.iter().count(), 0);
            ends.add(GREATEST);
            ends.add(LEAST);
            assert!(ends.iter().eq([(LEAST, 1), (GREATEST, 1)]));
        });
    }
}
