//! A vclock: how far each writer of a replica set has got, as the text headers of files spell it.
//!
//! ```text
//! {}    {1: 10}    {0: 7, 1: 47}       id: lsn; component 0 counts the rows of local spaces
//! ```

use crate::error::{Error, ErrorKind};
use crate::limits::VCLOCK_COMPONENTS;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The last log sequence number of each replica, by the replica's id; 0 where there is none.
///
/// ```
/// let vclock: lycosa::Vclock = "{0: 7, 1: 47}".parse()?;
/// assert_eq!(vclock.get(1), 47);
/// assert_eq!(vclock.signature(), 54);
/// assert_eq!(vclock.to_string(), "{0: 7, 1: 47}");
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Vclock([u64; VCLOCK_COMPONENTS]);

impl Vclock {
    /// The last number of a replica; 0 for an id that no replica can have.
    pub fn get(&self, replica_id: u32) -> u64 {
        self.0.get(replica_id as usize).copied().unwrap_or(0)
    }

    /// The components that are not 0, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.0.iter().enumerate().filter(|&(_, &lsn)| lsn != 0).map(|(id, &lsn)| (id as u32, lsn))
    }

    /// The sum of all components: the number in the name of a file.
    pub fn signature(&self) -> u64 {
        self.0.iter().fold(0, |sum, &lsn| sum.saturating_add(lsn))
    }

    /// Whether `other` is in no component behind this one: all that this one has seen, `other` has.
    pub(crate) fn is_covered_by(&self, other: &Self) -> bool {
        self <= other
    }

    /// Whether `other` has seen all that this one has, and more.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        self < other
    }

    /// Takes a component one step on, if `lsn` is its next number and there is such a component.
    #[inline]
    pub(crate) fn step(&mut self, replica_id: u32, lsn: u64) -> bool {
        match self.0.get_mut(replica_id as usize) {
            Some(component) if component.checked_add(1) == Some(lsn) => {
                *component = lsn;
                true
            }
            _ => false,
        }
    }

    /// The same with another number for one replica.
    pub(crate) fn with(mut self, replica_id: u32, lsn: u64) -> Self {
        if let Some(component) = self.0.get_mut(replica_id as usize) {
            *component = lsn;
        }
        self
    }

    /// The least vclock that has seen all that these two have.
    pub(crate) fn joined(&self, other: &Self) -> Self {
        let mut joined = *self;
        joined.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        joined
    }

    /// Raises a component to `lsn`; false if there is no such component.
    pub(crate) fn raise(&mut self, replica_id: u32, lsn: u64) -> bool {
        match self.0.get_mut(replica_id as usize) {
            Some(component) => {
                *component = lsn.max(*component);
                true
            }
            None => false,
        }
    }
}

/// One vclock is before another if it is in no component ahead of it; two may well be neither.
impl PartialOrd for Vclock {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let mut order = Ordering::Equal;
        for (mine, theirs) in self.0.iter().zip(&other.0) {
            match (order, mine.cmp(theirs)) {
                (_, Ordering::Equal) => {}
                (Ordering::Equal, component) => order = component,
                (order, component) if order == component => {}
                _ => return None,
            }
        }
        Some(order)
    }
}

impl fmt::Display for Vclock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, (id, lsn)) in self.iter().enumerate() {
            write!(f, "{}{id}: {lsn}", if place == 0 { "" } else { ", " })?;
        }
        f.write_str("}")
    }
}

/// Reads what Tarantool reads (`vclock_from_string`): blanks between all parts and a comma before the closing
/// brace are let pass; an id may come twice only if it was 0 before.
impl FromStr for Vclock {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|at| {
            Error::new(ErrorKind::Container, "vclock").expected("{id: lsn, ...}").found(format_args!(
                "{:?}, not to be understood from its character {} on",
                shorten(text),
                at + 1
            ))
        })
    }
}

/// The beginning of a text from outside, short enough for a message.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(80).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

fn parse(text: &str) -> Result<Vclock, usize> {
    let mut vclock = Vclock::default();
    let mut left = Cursor { bytes: text.as_bytes(), at: 0 };
    left.blanks();
    left.eat(b'{')?;
    loop {
        left.blanks();
        if left.eat(b'}').is_ok() {
            break;
        }
        let at = left.at;
        let id = left.number()?;
        let component = usize::try_from(id).ok().and_then(|id| vclock.0.get_mut(id)).ok_or(at)?;
        left.blanks();
        left.eat(b':')?;
        left.blanks();
        let at = left.at;
        let lsn = left.number()?;
        if *component != 0 {
            return Err(at);
        }
        *component = lsn;
        left.blanks();
        if left.eat(b',').is_err() {
            left.eat(b'}')?;
            break;
        }
    }
    left.blanks();
    if left.at != left.bytes.len() {
        return Err(left.at);
    }
    // The sum names the file, as a signed number of 64 bits.
    let sum: u128 = vclock.0.iter().map(|&lsn| u128::from(lsn)).sum();
    if sum > i64::MAX as u128 { Err(0) } else { Ok(vclock) }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn blanks(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Result<(), usize> {
        if self.bytes.get(self.at) == Some(&byte) {
            self.at += 1;
            Ok(())
        } else {
            Err(self.at)
        }
    }

    /// Digits, at least one, of a number that a signed 64-bit integer holds.
    fn number(&mut self) -> Result<u64, usize> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.bytes[start..self.at]).map_err(|_| start)?;
        digits.parse::<i64>().map(|number| number as u64).map_err(|_| start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vclock(text: &str) -> Vclock {
        text.parse().unwrap()
    }

    #[test]
    fn a_vclock_prints_as_it_was_written() {
        for text in ["{}", "{1: 10}", "{0: 7, 1: 47}", "{1: 10, 2: 5, 31: 9223372036854775000}"] {
            assert_eq!(vclock(text).to_string(), text);
        }
        assert_eq!(vclock(" {\t1 :10 ,2:5, } ").to_string(), "{1: 10, 2: 5}");
        assert_eq!(vclock("{3: 0, 1: 1}").to_string(), "{1: 1}");
    }

    #[test]
    fn text_that_is_no_vclock_is_refused() {
        let wrong = [
            "",
            "?",
            "{",
            "}",
            "?1: 10}",
            "{1}",
            "{1:}",
            "{1: 10",
            "{1: 10}x",
            "{32: 1}",
            "{1: -1}",
            "{-1: 1}",
            "{1: 1, 1: 2}",
            "{1: 9223372036854775808}",
            "{1: 9223372036854775807, 2: 1}",
            "{1: 99999999999999999999999999}",
            "{1: 10 2: 5}",
        ];
        for text in wrong {
            assert!(text.parse::<Vclock>().is_err(), "{text}");
        }
        let message = "{1: 10 2: 5}".parse::<Vclock>().unwrap_err().to_string();
        assert!(message.ends_with("from its character 8 on"), "{message}");
    }

    #[test]
    fn vclocks_are_ordered_as_far_as_they_can_be() {
        assert_eq!(vclock("{1: 2}").partial_cmp(&vclock("{1: 2}")), Some(Ordering::Equal));
        assert!(vclock("{1: 2}") < vclock("{1: 2, 2: 1}"));
        assert!(vclock("{1: 3}") > vclock("{1: 2}"));
        assert_eq!(vclock("{1: 3}").partial_cmp(&vclock("{1: 2, 2: 1}")), None);
        assert_eq!(vclock("{2: 3}").partial_cmp(&vclock("{1: 2}")), None);
    }

    #[test]
    fn raising_never_lowers() {
        let mut clock = vclock("{1: 5}");
        assert!(clock.raise(1, 3) && clock.raise(2, 4) && !clock.raise(32, 1));
        assert_eq!(clock, vclock("{1: 5, 2: 4}"));
        assert_eq!(clock.get(99), 0);
    }
}
