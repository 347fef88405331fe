//! The general way: operations one after the other, each on the bytes that the ones before have left.
//!
//! What Tarantool makes in one go from a tree of changes comes out the same as long as three things are kept in mind:
//!
//! - a container in which two operations go different ways, or whose elements come or go, gets the shortest head;
//! - a map in which operations go different ways is written in another order ([`Pieces`]);
//! - before 3.0 a field, or one inside or around it, is changed once only;
//! - fields that are inserted or deleted move those behind them, also in what was noted of earlier operations.
//!
//! An operation looks at everything that may refuse it before it writes anything: UPSERT goes on after a refusal.

use std::collections::VecDeque;

use super::{Action, Fault, Operation, Rules, Top, arith};
use crate::error::Result;
use crate::msgpack::{class, name, read, skip, write};
use crate::tuple::format::Format;
use crate::tuple::path::Token;

/// The most fields that a gap is filled up to: a tuple of more would be over any limit of Tarantool.
const FIELDS_MAX: u64 = 1 << 24;

/// What an earlier operation has changed.
struct Touched {
    top: u64,
    path: Vec<Token>,
    did: Did,
}

/// What an operation did to the element at the end of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Change,
    Insert,
    /// Deleted it; in a map, it was the pair of this number.
    Delete(u64),
}

/// A map in which operations have gone different ways. Tarantool holds such a map as pieces: a pair that operations have
/// asked for, and those behind it that nobody has; asking for one of these makes it begin a piece of its own, in front of
/// all others. Written are in the end first the pairs that were changed, and then what is left of each piece.
struct Pieces {
    top: u64,
    path: Vec<Token>,
    pieces: VecDeque<Piece>,
}

#[derive(Clone, Copy)]
struct Piece {
    /// The first pair is there: it was not deleted.
    has_first: bool,
    /// Something of the first pair was changed.
    is_changed: bool,
    /// Pairs behind the first.
    behind: u64,
}

impl Piece {
    /// Pairs that nobody has changed; where the first pair of a piece was deleted, the next one takes its place.
    fn unchanged(pairs: u64) -> Self {
        Self { has_first: pairs > 0, is_changed: false, behind: pairs.saturating_sub(1) }
    }

    fn pairs(self) -> u64 {
        u64::from(self.has_first) + self.behind
    }
}

pub(super) struct Updater<'a> {
    target: &'a mut Vec<u8>,
    format: &'a Format,
    rules: &'a Rules,
    touched: Vec<Touched>,
    pieces: Vec<Pieces>,
    value: Vec<u8>,
}

/// An element of a container: its number, and the offsets of its key (in an array, its own) and of its value.
struct Child {
    number: u64,
    key_at: usize,
    value_at: usize,
}

impl<'a> Updater<'a> {
    pub(super) fn new(target: &'a mut Vec<u8>, tuple: &[u8], format: &'a Format, rules: &'a Rules) -> Self {
        let (count, at) = read::array(tuple, 0).expect("a stored tuple is an array");
        target.clear();
        write::array(target, count);
        target.extend_from_slice(&tuple[at..]);
        Self { target, format, rules, touched: Vec::new(), pieces: Vec::new(), value: Vec::new() }
    }

    /// All operations, or an error.
    pub(super) fn all(mut self, operations: &[Operation<'_>]) -> Result<()> {
        for (number, operation) in (1..).zip(operations) {
            self.one(operation).map_err(|fault| fault.into_error(number))?;
        }
        self.order_pieces();
        Ok(())
    }

    /// Those that can be; gives how many cannot.
    pub(super) fn what_can_be(mut self, operations: &[Operation<'_>]) -> u64 {
        let failed = operations.iter().map(|operation| u64::from(self.one(operation).is_err())).sum();
        self.order_pieces();
        failed
    }

    fn one(&mut self, operation: &Operation<'_>) -> Result<(), Fault> {
        let count = u64::from(read::array(self.target, 0).expect("an array").0);
        let top = self.resolve(operation, count)?;
        let path = operation.path.as_ref().map_err(Fault::clone)?;
        let Some((last, container)) = path.split_last() else { return self.at_top(operation, top, count) };
        if top >= count {
            return Err(no_field(top));
        }
        self.check_untouched(top, path)?;
        self.branch(top, path);
        self.bring_to_front(top, path);
        let at = self.find(top, container)?;
        let did = match read::class_at(self.target, at) {
            class::ARRAY => self.in_array(operation, at, last, top)?,
            class::MAP => self.in_map(operation, at, path, top)?,
            other => return Err(not_a_container(last, other, self.target[at])),
        };
        for depth in 0..path.len() {
            self.mark(top, &path[..depth], &path[depth]);
        }
        // In a container that is apart already, an element that comes or goes leaves nothing to take note of.
        let is_apart = self.touched.iter().any(|touched| {
            touched.top == top && touched.path.len() > container.len() && touched.path.starts_with(container)
        });
        if did == Did::Change || !is_apart {
            self.touched.push(Touched { top, path: path.clone(), did });
        }
        Ok(())
    }

    /// The number of the field, from 0.
    fn resolve(&self, operation: &Operation<'_>, count: u64) -> Result<u64, Fault> {
        match operation.top {
            Top::FromStart(number) => Ok(number),
            Top::FromEnd(number) => {
                let is_insert = matches!(operation.action, Action::Insert(_))
                    && operation.path.as_ref().is_ok_and(Vec::is_empty);
                let count = count + u64::from(is_insert);
                let field = count.checked_sub(number.unsigned_abs());
                field.ok_or_else(|| {
                    Fault::new(37, format!("at least {} fields", number.unsigned_abs()), count)
                })
            }
        }
    }

    fn at_top(&mut self, operation: &Operation<'_>, top: u64, count: u64) -> Result<(), Fault> {
        match operation.action {
            Action::Insert(value) => return self.insert_at_top(top, count, value),
            Action::Set(value) if top >= count => return self.insert_at_top(top, count, value),
            Action::Delete(_) if top >= count && self.rules.fills_gaps => return Ok(()),
            _ if top >= count => return Err(no_field(top)),
            Action::Delete(fields) => {
                let gone = fields.min(count - top);
                let at = self.place(top);
                let end = skip::skip_many(self.target, at, gone).expect("they are there");
                self.splice(at, end, &[]);
                self.set_count(0, count - gone);
                self.touched.retain(|touched| touched.top < top || touched.top >= top + gone);
                self.pieces.retain(|pieces| pieces.top < top || pieces.top >= top + gone);
                self.noted_tops().filter(|noted| **noted >= top).for_each(|noted| *noted -= gone);
                return Ok(());
            }
            _ => {}
        }
        self.check_untouched(top, &[])?;
        let at = self.place(top);
        self.change(operation, at, top)?;
        self.touched.push(Touched { top, path: Vec::new(), did: Did::Change });
        self.pieces.retain(|pieces| pieces.top != top);
        Ok(())
    }

    fn insert_at_top(&mut self, top: u64, count: u64, value: &[u8]) -> Result<(), Fault> {
        if top > count && !(self.rules.fills_gaps && top < FIELDS_MAX) {
            return Err(no_field(top));
        }
        let at = self.place(top.min(count));
        let gap = top.saturating_sub(count);
        self.value.clear();
        self.value.resize(gap as usize, 0xc0);
        self.value.extend_from_slice(value);
        let value = std::mem::take(&mut self.value);
        self.splice(at, at, &value);
        self.value = value;
        self.set_count(0, count + gap + 1);
        self.noted_tops().filter(|noted| **noted >= top).for_each(|noted| *noted += 1);
        Ok(())
    }

    /// The fields of all that was noted of earlier operations.
    fn noted_tops(&mut self) -> impl Iterator<Item = &mut u64> {
        let touched = self.touched.iter_mut().map(|touched| &mut touched.top);
        touched.chain(self.pieces.iter_mut().map(|pieces| &mut pieces.top))
    }

    /// Offset of a field that is there, or of the end.
    fn place(&self, top: u64) -> usize {
        let (_, first) = read::array(self.target, 0).expect("an array");
        skip::skip_many(self.target, first, top).expect("there are as many fields")
    }

    /// Offset of what a path leads to.
    fn find(&self, top: u64, path: &[Token]) -> Result<usize, Fault> {
        let mut at = self.place(top);
        for token in path {
            at = match self.child(at, token)? {
                Some(found) => found.value_at,
                None => return Err(not_found(token)),
            };
        }
        Ok(at)
    }

    /// The element that a token names in the container at `at`.
    fn child(&self, at: usize, token: &Token) -> Result<Option<Child>, Fault> {
        let bytes = &self.target[..];
        match (read::class_at(bytes, at), token) {
            (class::ARRAY, Token::Index(number)) => {
                let (count, first) = read::array(bytes, at).expect("its class was asked");
                if *number > count {
                    return Ok(None);
                }
                let at = skip::skip_many(bytes, first, u64::from(number - 1)).expect("they are there");
                Ok(Some(Child { number: u64::from(number - 1), key_at: at, value_at: at }))
            }
            (class::MAP, _) => {
                let (pairs, mut at) = read::map(bytes, at).expect("its class was asked");
                for number in 0..u64::from(pairs) {
                    let value_at = skip::skip(bytes, at).expect("whole");
                    let is_it = match token {
                        Token::Key(key) => {
                            read::is(bytes, at, class::STR)
                                && read::str(bytes, at).is_ok_and(|(text, _)| text == &key[..])
                        }
                        Token::Index(number) => {
                            read::is(bytes, at, class::INTEGERS)
                                && read::int(bytes, at).is_ok_and(|(key, _)| key == i128::from(*number))
                        }
                        Token::Any => false,
                    };
                    if is_it {
                        return Ok(Some(Child { number, key_at: at, value_at }));
                    }
                    at = skip::skip(bytes, value_at).expect("whole");
                }
                Ok(None)
            }
            (other, _) => Err(not_a_container(token, other, bytes[at])),
        }
    }

    /// `at`: of the array's head.
    fn in_array(
        &mut self,
        operation: &Operation<'_>,
        at: usize,
        token: &Token,
        top: u64,
    ) -> Result<Did, Fault> {
        let &Token::Index(number) = token else {
            return Err(not_a_container(token, class::ARRAY, self.target[at]));
        };
        let (count, first) = read::array(self.target, at).expect("its class was asked");
        let index = u64::from(number) - 1;
        let count = u64::from(count);
        let place =
            |updater: &Self, index| skip::skip_many(updater.target, first, index).expect("they are there");
        match operation.action {
            Action::Insert(value) | Action::Set(value)
                if index == count || (index < count && matches!(operation.action, Action::Insert(_))) =>
            {
                let place = place(self, index);
                self.splice(place, place, value);
                self.set_count(at, count + 1);
                Ok(Did::Insert)
            }
            _ if index >= count => Err(not_found(token)),
            Action::Delete(elements) => {
                let gone = elements.min(count - index);
                let place = place(self, index);
                let end = skip::skip_many(self.target, place, gone).expect("they are there");
                self.splice(place, end, &[]);
                self.set_count(at, count - gone);
                Ok(Did::Delete(index))
            }
            _ => {
                let place = place(self, index);
                self.change(operation, place, top)?;
                Ok(Did::Change)
            }
        }
    }

    /// `at`: of the map's head.
    fn in_map(
        &mut self,
        operation: &Operation<'_>,
        at: usize,
        path: &[Token],
        top: u64,
    ) -> Result<Did, Fault> {
        let (token, container) = path.split_last().expect("a path inside a field");
        let found = self.child(at, token)?;
        let (pairs, first) = read::map(self.target, at).expect("its class was asked");
        let pairs = u64::from(pairs);
        match (operation.action, found) {
            (Action::Insert(_), Some(_)) => Err(Fault::new(29, "a key that is not there yet", token)),
            (Action::Insert(value) | Action::Set(value), None) => {
                let mut pair = Vec::new();
                match token {
                    Token::Key(key) => write::str(&mut pair, key),
                    Token::Index(number) => write::uint(&mut pair, u64::from(*number)),
                    Token::Any => unreachable!("refused when the path was read"),
                }
                pair.extend_from_slice(value);
                self.splice(first, first, &pair);
                self.set_count(at, pairs + 1);
                if let Some(pieces) = self.pieces_of(top, container) {
                    pieces.push_front(Piece { has_first: true, is_changed: true, behind: 0 });
                }
                Ok(Did::Insert)
            }
            (Action::Delete(count), _) if count != 1 => {
                Err(Fault::new(29, "to delete 1 field from a map at a time", count))
            }
            (Action::Delete(_), Some(found)) => {
                let end = skip::skip(self.target, found.value_at).expect("whole");
                self.splice(found.key_at, end, &[]);
                self.set_count(at, pairs - 1);
                if let Some(pieces) = self.pieces_of(top, container) {
                    // It begins a piece since it was brought to the front, or is the very first.
                    let mut before = 0;
                    for piece in pieces {
                        if before == found.number {
                            *piece = Piece::unchanged(piece.behind);
                            break;
                        }
                        before += piece.pairs();
                    }
                }
                Ok(Did::Delete(found.number))
            }
            (Action::Delete(_), None) => {
                // From a map that an earlier operation has changed, nothing is as good as gone.
                let is_changed = |touched: &Touched| {
                    touched.top == top
                        && touched.path.len() > container.len()
                        && touched.path.starts_with(container)
                };
                if self.touched.iter().any(is_changed) { Ok(Did::Change) } else { Err(not_found(token)) }
            }
            (_, Some(found)) => self.change(operation, found.value_at, top).map(|()| Did::Change),
            (_, None) => Err(not_found(token)),
        }
    }

    /// Changes the value at `at`.
    fn change(&mut self, operation: &Operation<'_>, at: usize, top: u64) -> Result<(), Fault> {
        let end = skip::skip(self.target, at).expect("whole");
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        let outcome = self.changed(&mut value, operation, at, top);
        if outcome.is_ok() {
            self.splice(at, end, &value);
        }
        self.value = value;
        outcome
    }

    /// Writes what becomes of the value at `at`.
    fn changed(
        &self,
        out: &mut Vec<u8>,
        operation: &Operation<'_>,
        at: usize,
        top: u64,
    ) -> Result<(), Fault> {
        let bytes = &self.target[..];
        let kind = |expected: &str| Fault::new(26, expected, name(bytes[at]));
        match operation.action {
            Action::Set(value) => out.extend_from_slice(value),
            Action::Add { argument, subtracts } => {
                let old = arith::number(bytes, at).ok_or_else(|| kind("a number"))?;
                let by = arith::number(argument, 0).expect("asked when the operation was read");
                let path = operation.path.as_deref().unwrap_or_default();
                let field_type = u32::try_from(top).ok().and_then(|field| self.format.type_at(field, path));
                arith::add(out, (old, by), subtracts, field_type, self.rules)?;
            }
            Action::Bits { operator, argument } => {
                let (old, _) = read::uint(bytes, at).map_err(|_| kind("a positive integer"))?;
                write::uint(
                    out,
                    match operator {
                        b'&' => old & argument,
                        b'|' => old | argument,
                        _ => old ^ argument,
                    },
                );
            }
            Action::Splice { offset, cut, paste } => {
                let is_bin = self.rules.splices_bin && read::is(bytes, at, class::BIN);
                let (text, _) = match is_bin {
                    false => read::str(bytes, at).map_err(|_| kind("a string"))?,
                    true => read::bin(bytes, at).map_err(|_| kind("binary data"))?,
                };
                let (start, end) = splice_range(text.len(), offset, cut)?;
                let spliced = [&text[..start], paste, &text[end..]].concat();
                if is_bin { write::bin(out, &spliced) } else { write::str(out, &spliced) }
            }
            Action::Insert(_) | Action::Delete(_) => unreachable!("these change what is around the value"),
        }
        Ok(())
    }

    /// Before 3.0: that no operation has changed the field, what is around it or what is in it.
    fn check_untouched(&self, top: u64, path: &[Token]) -> Result<(), Fault> {
        let overlaps = |touched: &Touched| {
            touched.top == top && (touched.path.starts_with(path) || path.starts_with(&touched.path))
        };
        if !self.rules.repeats && self.touched.iter().any(overlaps) {
            return Err(Fault::new(29, "one operation for a field", "a double update of the same field"));
        }
        Ok(())
    }

    /// Containers in which this operation's way leaves that of an earlier one get the shortest head, and maps among them
    /// fall into pieces.
    fn branch(&mut self, top: u64, path: &[Token]) {
        let mut branches: Vec<(usize, Token, Did)> = Vec::new();
        self.touched.retain(|touched| {
            // From 3.0 on a way may be taken again, or a part of it: then the ways part at its last step.
            let shorter = touched.path.len().min(path.len());
            if touched.top != top || shorter == 0 {
                return true;
            }
            let common = touched.path.iter().zip(path).take_while(|(a, b)| a == b).count().min(shorter - 1);
            let is_last = common + 1 == touched.path.len();
            let did = if is_last { touched.did } else { Did::Change };
            branches.push((common, touched.path[common].clone(), did));
            // An element that came or went is like one that was or was not there, once its container is apart.
            did == Did::Change
        });
        for (depth, earlier, did) in branches {
            let container = &path[..depth];
            let Ok(at) = self.find(top, container) else { continue };
            if read::class_at(self.target, at) == class::ARRAY {
                let (count, _) = read::array(self.target, at).expect("its class was asked");
                self.set_count(at, count.into());
                continue;
            }
            let Ok((pairs, _)) = read::map(self.target, at) else { continue };
            self.set_count(at, pairs.into());
            if self.pieces_of(top, container).is_some() {
                continue;
            }
            let (pairs, mut pieces) = (u64::from(pairs), VecDeque::new());
            let whole = |pairs: u64| (pairs > 0).then(|| Piece::unchanged(pairs));
            match did {
                Did::Delete(0) => pieces.push_back(Piece::unchanged(pairs)),
                Did::Delete(number) => {
                    // Those behind the deleted pair come to the front with it.
                    pieces.push_back(Piece::unchanged(pairs - number));
                    pieces.extend(whole(number));
                    self.rotate(at, number);
                }
                Did::Insert => {
                    pieces.push_back(Piece { has_first: true, is_changed: true, behind: 0 });
                    pieces.extend(whole(pairs - 1));
                }
                Did::Change => pieces.extend(whole(pairs)),
            }
            self.pieces.push(Pieces { top, path: container.to_vec(), pieces });
            if did == Did::Change {
                self.bring_pair_to_front(top, container, &earlier);
                self.mark(top, container, &earlier);
            }
        }
    }

    fn pieces_of(&mut self, top: u64, path: &[Token]) -> Option<&mut VecDeque<Piece>> {
        let of_it = self.pieces.iter_mut().find(|pieces| pieces.top == top && pieces.path == path);
        of_it.map(|pieces| &mut pieces.pieces)
    }

    /// In every map in pieces on the way, the pair that the way goes through begins the first piece.
    fn bring_to_front(&mut self, top: u64, path: &[Token]) {
        for depth in 0..path.len() {
            if self.pieces_of(top, &path[..depth]).is_some() {
                self.bring_pair_to_front(top, &path[..depth], &path[depth]);
            }
        }
    }

    fn bring_pair_to_front(&mut self, top: u64, container: &[Token], token: &Token) {
        let Ok(at) = self.find(top, container) else { return };
        let Ok(Some(Child { number, .. })) = self.child(at, token) else { return };
        let pieces = self.pieces_of(top, container).expect("the map is in pieces");
        let (mut before, mut which) = (0, 0);
        while before + pieces[which].pairs() <= number {
            before += pieces[which].pairs();
            which += 1;
        }
        let piece = &mut pieces[which];
        if piece.has_first && number == before {
            return;
        }
        // The pair and what is behind it in its piece.
        let kept = number - before;
        let moved = piece.pairs() - kept;
        piece.behind = kept - u64::from(piece.has_first);
        pieces.push_front(Piece { has_first: true, is_changed: false, behind: moved - 1 });
        let (_, first) = read::map(self.target, at).expect("a map");
        let start = skip::skip_many(self.target, first, 2 * number).expect("they are there");
        let end = skip::skip_many(self.target, start, 2 * moved).expect("they are there");
        self.target[first..end].rotate_right(end - start);
    }

    /// In a map in pieces, notes that a pair was changed, which begins a piece since it was asked for.
    fn mark(&mut self, top: u64, container: &[Token], token: &Token) {
        if self.pieces_of(top, container).is_none() {
            return;
        }
        let Ok(at) = self.find(top, container) else { return };
        let Ok(Some(Child { number, .. })) = self.child(at, token) else { return };
        let mut before = 0;
        for piece in self.pieces_of(top, container).into_iter().flatten() {
            if before == number && piece.has_first {
                piece.is_changed = true;
                return;
            }
            before += piece.pairs();
        }
    }

    /// Brings the pairs of maps in pieces into the order in which they are written.
    fn order_pieces(&mut self) {
        for Pieces { top, path, pieces } in std::mem::take(&mut self.pieces) {
            let Ok(at) = self.find(top, &path) else { continue };
            let Ok((_, first)) = read::map(self.target, at) else { continue };
            let (mut changed, mut rest) = (Vec::new(), Vec::new());
            let mut at = first;
            for piece in pieces {
                let behind =
                    skip::skip_many(self.target, at, 2 * u64::from(piece.has_first)).expect("it is there");
                let end = skip::skip_many(self.target, behind, 2 * piece.behind).expect("they are there");
                let of_first = if piece.is_changed && piece.has_first { &mut changed } else { &mut rest };
                of_first.extend_from_slice(&self.target[at..behind]);
                rest.extend_from_slice(&self.target[behind..end]);
                at = end;
            }
            changed.append(&mut rest);
            self.target[first..at].copy_from_slice(&changed);
        }
    }

    /// Brings all pairs from a number on to the front of the map at `at`.
    fn rotate(&mut self, at: usize, number: u64) {
        let (pairs, first) = read::map(self.target, at).expect("a map");
        let start = skip::skip_many(self.target, first, 2 * number).expect("they are there");
        let end =
            skip::skip_many(self.target, start, 2 * (u64::from(pairs) - number)).expect("they are there");
        self.target[first..end].rotate_right(end - start);
    }

    fn splice(&mut self, at: usize, end: usize, with: &[u8]) {
        self.target.splice(at..end, with.iter().copied());
    }

    /// Writes the head of the array or map at `at` anew, in its shortest form.
    fn set_count(&mut self, at: usize, count: u64) {
        let count = u32::try_from(count).expect("as many elements as bytes at most");
        let mut head = Vec::with_capacity(5);
        let end = match read::class_at(self.target, at) {
            class::ARRAY => {
                write::array(&mut head, count);
                read::array(self.target, at).expect("its class was asked").1
            }
            _ => {
                write::map(&mut head, count);
                read::map(self.target, at).expect("an array or a map").1
            }
        };
        self.splice(at, end, &head);
    }
}

/// From where to where a string of `length` bytes is cut out.
fn splice_range(length: usize, offset: i64, cut: i64) -> Result<(usize, usize), Fault> {
    let length = length as i64;
    let start = if offset < 0 { length + 1 + offset } else { offset.min(length) };
    if start < 0 {
        return Err(Fault::new(25, format!("an offset inside {length} bytes"), offset));
    }
    let rest = length - start;
    let cut = if cut < 0 { (rest + cut).max(0) } else { cut.min(rest) };
    Ok((start as usize, (start + cut) as usize))
}

fn no_field(top: u64) -> Fault {
    Fault::new(37, format!("a field {}", top.saturating_add(1)), "no such field in the tuple")
}

fn not_found(token: &Token) -> Fault {
    Fault::new(37, format!("an element {token}"), "no such element")
}

fn not_a_container(token: &Token, class: u16, first: u8) -> Fault {
    let expected = match token {
        Token::Key(_) => "a map, to be accessed by key",
        _ if class == class::MAP => "a key",
        _ => "an array, to be accessed by number",
    };
    Fault::new(29, expected, name(first))
}
