//! A map under operations: pieces, of each of which the first pair may be changed. A pair that is asked for begins a piece
//! of its own, in front of all others, with those behind it; written are first the pairs that were asked for, piece by
//! piece, and then what is behind them.

use std::collections::VecDeque;

use super::array::skip_many;
use super::tree::{Node, Step, Walk};
use super::{Action, Fault};
use crate::msgpack::{class, read, skip, write};
use crate::tuple::format::TypeNode;
use crate::tuple::path::Token;

pub(super) struct Map<'a> {
    pieces: VecDeque<Piece<'a>>,
    pairs: u64,
}

struct Piece<'a> {
    /// The first pair, unless it was deleted or nothing has asked for one.
    first: Option<(&'a [u8], Node<'a>)>,
    /// Those behind it.
    rest: &'a [u8],
}

impl<'a> Map<'a> {
    pub(super) fn new(contents: &'a [u8], pairs: u64) -> Self {
        let whole = (pairs > 0).then_some(Piece { first: None, rest: contents });
        Self { pieces: whole.into_iter().collect(), pairs }
    }

    /// A map one pair of which has been changed already.
    pub(super) fn with(contents: &'a [u8], pairs: u64, key: &'a [u8], child: Node<'a>) -> Option<Self> {
        let (key_at, value_at) = find(contents, key)?;
        let rest = &contents[value_at + skip_many(&contents[value_at..], 1)..];
        let changed = Piece { first: Some((key, child)), rest };
        let before = Piece { first: None, rest: &contents[..key_at] };
        Some(Self { pieces: [changed, before].into(), pairs })
    }

    /// The piece that a key begins, once it has been asked for; none if there is no such pair.
    fn piece(&mut self, key: &'a [u8]) -> Option<usize> {
        let has_key = |piece: &Piece<'_>| piece.first.as_ref().is_some_and(|(first, _)| *first == key);
        if let Some(at) = self.pieces.iter().position(has_key) {
            return Some(at);
        }
        let (at, (key_at, value_at)) =
            self.pieces.iter().enumerate().find_map(|(at, piece)| Some((at, find(piece.rest, key)?)))?;
        let piece = &mut self.pieces[at];
        let (value, rest) = piece.rest[value_at..].split_at(skip_many(&piece.rest[value_at..], 1));
        let first = Some((key, Node::Plain(value)));
        if key_at == 0 && piece.first.is_none() {
            (piece.first, piece.rest) = (first, rest);
            return Some(at);
        }
        piece.rest = &piece.rest[..key_at];
        self.pieces.push_front(Piece { first, rest });
        Some(0)
    }

    pub(super) fn apply(&mut self, walk: &mut Walk<'a>) -> Result<(), Fault> {
        let Step::Key(key) = walk.step()? else {
            return Err(Fault::new(29, "a key, to access a map", "a number"));
        };
        let found = self.piece(key);
        let missing = || Fault::new(37, format!("a key {}", String::from_utf8_lossy(key)), "none");
        if !walk.is_there() {
            let (_, node) = self.pair(found).ok_or_else(missing)?;
            return walk.enter(node);
        }
        match (walk.action, found) {
            (Action::Insert(_), Some(_)) => {
                Err(Fault::new(29, "a key that is not there yet", String::from_utf8_lossy(key)))
            }
            (Action::Insert(value) | Action::Set(value), None) => {
                self.pieces.push_front(Piece { first: Some((key, Node::Plain(value))), rest: &[] });
                self.pairs += 1;
                Ok(())
            }
            (Action::Delete(count), _) if count != 1 => Err(one_pair_at_a_time(count)),
            (Action::Delete(_), None) => Ok(()),
            (Action::Delete(_), Some(at)) => {
                self.pieces[at].first = None;
                self.pairs -= 1;
                Ok(())
            }
            _ => {
                let (_, node) = self.pair(found).ok_or_else(missing)?;
                walk.change(node)
            }
        }
    }

    fn pair(&mut self, piece: Option<usize>) -> Option<&mut (&'a [u8], Node<'a>)> {
        self.pieces[piece?].first.as_mut()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, place: Option<TypeNode<'_>>) {
        write::map(out, u32::try_from(self.pairs).expect("as many pairs as bytes at most"));
        for (key, node) in self.pieces.iter().filter_map(|piece| piece.first.as_ref()) {
            write::str(out, key);
            node.write(out, place.and_then(|place| place.child(&Token::Key(key.to_vec()))));
        }
        self.pieces.iter().for_each(|piece| out.extend_from_slice(piece.rest));
    }
}

pub(super) fn one_pair_at_a_time(count: u64) -> Fault {
    Fault::new(29, "to delete 1 field from a map at a time", count)
}

/// Where the first pair with a string for a key stands, and its value.
pub(super) fn find(pairs: &[u8], key: &[u8]) -> Option<(usize, usize)> {
    let mut at = 0;
    while at < pairs.len() {
        let value_at = skip::skip(pairs, at).expect("whole");
        if read::class_at(pairs, at) == class::STR
            && read::str(pairs, at).is_ok_and(|(found, _)| found == key)
        {
            return Some((at, value_at));
        }
        at = skip::skip(pairs, value_at).expect("whole");
    }
    None
}
