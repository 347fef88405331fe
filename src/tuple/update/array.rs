//! An array under operations: ranges of elements, of each of which the first may be changed.

use super::tree::{Node, Step, Walk};
use super::{Action, Fault};
use crate::msgpack::{skip, write};
use crate::tuple::format::TypeNode;

/// The most elements that a gap is filled up to: a tuple of more would be over any limit of Tarantool.
const ELEMENTS_MAX: u64 = 1 << 24;

/// Nils for gaps.
const NILS: [u8; 1024] = [0xc0; 1024];

pub(super) struct Array<'a> {
    ranges: Vec<Range<'a>>,
    count: u64,
}

struct Range<'a> {
    first: Node<'a>,
    /// Elements with the first one, at least one, and those behind it.
    count: u64,
    rest: &'a [u8],
}

impl<'a> Range<'a> {
    /// A run of elements as they stand.
    fn new(elements: &'a [u8], count: u64) -> Self {
        let (first, rest) = elements.split_at(skip::skip(elements, 0).expect("whole"));
        Self { first: Node::Plain(first), count, rest }
    }
}

impl<'a> Array<'a> {
    pub(super) fn new(elements: &'a [u8], count: u64) -> Self {
        let ranges = (count > 0).then(|| Range::new(elements, count));
        Self { ranges: ranges.into_iter().collect(), count }
    }

    /// The number of the range that begins with an element, or the end.
    fn split(&mut self, number: u64) -> usize {
        let (mut before, mut at) = (0, 0);
        while let Some(range) = self.ranges.get_mut(at)
            && before < number
        {
            let offset = number - before;
            if offset < range.count {
                let (kept, rest) = range.rest.split_at(skip_many(range.rest, offset - 1));
                let behind = Range::new(rest, range.count - offset);
                (range.count, range.rest) = (offset, kept);
                self.ranges.insert(at + 1, behind);
                return at + 1;
            }
            before += range.count;
            at += 1;
        }
        at
    }

    /// An element on its own.
    pub(super) fn element(&mut self, number: u64) -> &mut Node<'a> {
        let at = self.split(number);
        &mut self.ranges[at].first
    }

    /// The number of an element among so many, from 0.
    fn number(step: Step<'_>, count: u64) -> Result<u64, Fault> {
        let Step::Number(number) = step else {
            return Err(Fault::new(29, "a number, to access an array", "a key"));
        };
        let number = if number < 0 { number.saturating_add_unsigned(count) } else { number };
        let found = u64::try_from(number).ok().filter(|&number| number < count);
        found.ok_or_else(|| Fault::new(37, format!("one of {count} fields"), number))
    }

    pub(super) fn apply(&mut self, walk: &mut Walk<'a>) -> Result<(), Fault> {
        let step = walk.step()?;
        if !walk.is_there() {
            let number = Self::number(step, self.count)?;
            return walk.enter(self.element(number));
        }
        let is_beyond =
            matches!(step, Step::Number(number) if u64::try_from(number).is_ok_and(|at| at >= self.count));
        match walk.action {
            Action::Insert(value) => self.insert(step, value, walk),
            Action::Set(value) if is_beyond => self.insert(step, value, walk),
            Action::Delete(_) if is_beyond && walk.rules.fills_gaps => Ok(()),
            Action::Delete(elements) => {
                let number = Self::number(step, self.count)?;
                let end = self.count.min(number.saturating_add(elements));
                let gone = self.split(number)..self.split(end);
                self.ranges.drain(gone);
                self.count -= end - number;
                Ok(())
            }
            _ => {
                let number = Self::number(step, self.count)?;
                walk.change(self.element(number))
            }
        }
    }

    fn insert(&mut self, step: Step<'_>, value: &'a [u8], walk: &Walk<'a>) -> Result<(), Fault> {
        if let Step::Number(number) = step
            && walk.is_for_root
            && walk.rules.fills_gaps
            && let Ok(number) = u64::try_from(number)
        {
            if number > ELEMENTS_MAX {
                return Err(Fault::new(37, format!("at most {ELEMENTS_MAX} fields"), number));
            }
            while self.count < number {
                let nils = (number - self.count).min(NILS.len() as u64);
                self.ranges.push(Range::new(&NILS[..nils as usize], nils));
                self.count += nils;
            }
        }
        let number = Self::number(step, self.count + 1)?;
        let at = self.split(number);
        self.ranges.insert(at, Range { first: Node::Plain(value), count: 1, rest: &[] });
        self.count += 1;
        Ok(())
    }

    /// `place`: what the format knows of an element by its number, from 1.
    pub(super) fn write<'p>(&self, out: &mut Vec<u8>, place: impl Fn(u32) -> Option<TypeNode<'p>>) {
        write::array(out, u32::try_from(self.count).expect("as many elements as bytes at most"));
        let mut number = 1;
        for range in &self.ranges {
            let known = u32::try_from(number).ok().and_then(&place);
            range.first.write(out, known);
            out.extend_from_slice(range.rest);
            number += range.count;
        }
    }
}

/// Where so many elements end.
pub(super) fn skip_many(bytes: &[u8], count: u64) -> usize {
    skip::skip_many(bytes, 0, count).expect("they are there")
}
