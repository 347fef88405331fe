//! Changes at the end of a path, inside of a value that is otherwise as it stood.
//!
//! ```text
//! data      [ 1, { a: [ 5, 6, 7 ] } ]
//!                     |    point, size: the element that is changed, or before which one comes
//!                     parent: the container whose head is written anew when an element comes or goes
//! ```

use super::array::{Array, skip_many};
use super::map::{Map, one_pair_at_a_time};
use super::scalar::Scalar;
use super::tree::{Node, Step, Walk};
use super::{Action, Fault, map};
use crate::msgpack::{class, name, read, skip, write};
use crate::tuple::format::TypeNode;
use crate::tuple::path::Token;

/// One change.
pub(super) struct Single<'a> {
    data: &'a [u8],
    path: &'a [Token],
    parent: usize,
    point: usize,
    size: usize,
    what: What<'a>,
}

enum What<'a> {
    Set(&'a [u8]),
    /// In a map: with this key.
    Insert(&'a [u8], Option<&'a [u8]>),
    /// So many elements, or a pair.
    Delete(u64),
    Scalar(Scalar<'a>),
}

/// Several changes behind a path that they have in common.
pub(super) struct Shared<'a> {
    data: &'a [u8],
    path: &'a [Token],
    /// Where it leads to.
    point: usize,
    size: usize,
    pub(super) next: Node<'a>,
}

impl<'a> Single<'a> {
    /// The change of an operation inside of a value.
    pub(super) fn new(data: &'a [u8], walk: &mut Walk<'a>) -> Result<Self, Fault> {
        let path = &walk.path[walk.next..];
        let (mut parent, mut point) = (0, 0);
        let mut found = None;
        while let Some(token) = walk.token()? {
            parent = point;
            found = element(data, parent, token);
            match found {
                Some((_, value_at)) => point = value_at,
                None if walk.is_there() => break,
                None => {
                    // What is wrong with the path's text is wrong first.
                    walk.token()?;
                    return Err(not_found(token));
                }
            }
        }
        let last = path.last().ok_or_else(|| Fault::new(37, "an element", "the end of the path"))?;
        let Some((element_at, _)) = found else {
            return match walk.action {
                Action::Set(value) | Action::Insert(value) => {
                    let (point, key) = end_of(data, parent, last)?;
                    let what = What::Insert(value, key);
                    Ok(Self { data, path, parent, point, size: 0, what })
                }
                _ => Err(not_found(last)),
            };
        };
        let is_map = read::class_at(data, parent) == class::MAP;
        let end = |elements| point + skip_many(&data[point..], elements);
        let single = |what, point, end| Self { data, path, parent, point, size: end - point, what };
        match walk.action {
            Action::Set(value) => Ok(single(What::Set(value), point, end(1))),
            Action::Insert(_) if is_map => Err(Fault::new(29, "a key that is not there yet", last)),
            Action::Insert(value) => Ok(single(What::Insert(value, None), point, point)),
            Action::Delete(count) if is_map => match count {
                1 => Ok(single(What::Delete(1), element_at, end(1))),
                _ => Err(one_pair_at_a_time(count)),
            },
            Action::Delete(count) => {
                let (length, _) = read::array(data, parent).expect("no map, so an array");
                let Step::Number(number) = Step::of(last) else { return Err(not_found(last)) };
                let count = count.min(u64::from(length) - number as u64);
                Ok(single(What::Delete(count), point, end(count)))
            }
            _ => match Scalar::read(&data[point..end(1)]).changed(&walk.action, walk.rules) {
                Ok(scalar) => Ok(single(What::Scalar(scalar), point, end(1))),
                Err((fault, _)) => Err(fault),
            },
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, place: Option<TypeNode<'_>>) {
        let Self { data, parent, point, size, .. } = *self;
        match &self.what {
            What::Set(value) => {
                out.extend_from_slice(&data[..point]);
                out.extend_from_slice(value);
            }
            What::Scalar(scalar) => {
                out.extend_from_slice(&data[..point]);
                scalar.write(out, place_of_text(place, self.path));
            }
            What::Insert(value, key) => {
                self.write_to_point(out, |count| count + 1);
                key.iter().for_each(|key| write::str(out, key));
                out.extend_from_slice(value);
            }
            What::Delete(gone) => self.write_to_point(out, |count| count - gone),
        }
        debug_assert!(parent <= point);
        out.extend_from_slice(&data[point + size..]);
    }

    /// What is before the point, the parent's head for another number of elements.
    fn write_to_point(&self, out: &mut Vec<u8>, count: impl Fn(u64) -> u64) {
        let Self { data, parent, point, .. } = *self;
        out.extend_from_slice(&data[..parent]);
        let as_count = |count| u32::try_from(count).expect("as many elements as bytes at most");
        let contents_at = match read::class_at(data, parent) {
            class::ARRAY => {
                let (length, at) = read::array(data, parent).expect("its class was asked");
                write::array(out, as_count(count(length.into())));
                at
            }
            _ => {
                let (pairs, at) = read::map(data, parent).expect("an array or a map");
                write::map(out, as_count(count(pairs.into())));
                at
            }
        };
        out.extend_from_slice(&data[contents_at..point]);
    }

    /// The same behind the first tokens of the path, inside of the element from `start` to `end`.
    fn inside(mut self, tokens: usize, (start, end): (usize, usize)) -> Self {
        (self.path, self.data) = (&self.path[tokens..], &self.data[start..end]);
        (self.parent, self.point) = (self.parent - start, self.point - start);
        self
    }
}

impl<'a> Shared<'a> {
    /// Follows the path, if the operation's begins with it.
    pub(super) fn follow(&self, walk: &mut Walk<'a>) -> bool {
        let does = walk.path[walk.next..].starts_with(self.path);
        if does {
            walk.next += self.path.len();
        }
        does
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, place: Option<TypeNode<'_>>) {
        out.extend_from_slice(&self.data[..self.point]);
        self.next.write(out, place_of_text(place, self.path));
        out.extend_from_slice(&self.data[self.point + self.size..]);
    }

    fn inside(mut self, tokens: usize, (start, end): (usize, usize)) -> Node<'a> {
        if self.path.len() == tokens {
            return self.next;
        }
        (self.path, self.data) = (&self.path[tokens..], &self.data[start..end]);
        self.point -= start;
        Node::Shared(Box::new(self))
    }
}

impl<'a> Node<'a> {
    /// Where an operation's path parts from that of a `Single` or `Shared`: this becomes a container that both go
    /// through, perhaps behind a `Shared`. Gives the container, and makes the operation's element the one asked for.
    pub(super) fn branch(&mut self, walk: &mut Walk<'a>) -> Result<&mut Self, Fault> {
        let (data, path) = match self {
            Self::Single(single) => (single.data, single.path),
            Self::Shared(shared) => (shared.data, shared.path),
            _ => unreachable!("only paths part"),
        };
        let (mut parent, mut taken) = (0, 0);
        let (old, new) = loop {
            let (old, new) = (path.get(taken), walk.token()?);
            let (Some(old), Some(new)) = (old, new) else {
                return Err(Fault::new(29, "a path that goes another way", "the same, or a part of it"));
            };
            taken += 1;
            let ends = walk.rules.repeats && (taken == path.len() || walk.is_there());
            if old != new || ends {
                break (old, new);
            }
            match element(data, parent, new) {
                Some((_, value_at)) => parent = value_at,
                // It is the element that was inserted.
                None if walk.rules.enters_inserted => break (old, new),
                None => {
                    return Err(Fault::new(29, "an element that was there before", "one that was inserted"));
                }
            }
        };
        let parent_end = parent + skip_many(&data[parent..], 1);
        let (is_array, count, contents_at) = match read::class_at(data, parent) {
            class::ARRAY => read::array(data, parent).map(|(count, at)| (true, count, at)),
            class::MAP => read::map(data, parent).map(|(count, at)| (false, count, at)),
            _ => return Err(not_found(new)),
        }
        .expect("its class was asked");
        let fits = |token: &Token| matches!(token, Token::Index(_)) == is_array;
        if !fits(new) || !fits(old) {
            return Err(not_a_container(new, data[parent]));
        }
        let (contents, count) = (&data[contents_at..parent_end], u64::from(count));
        let next = match self.change_at_end(taken) {
            // What comes or goes concerns the container, so it is done again there.
            Some(action) => {
                let mut again = Walk::again(action, Step::of(old), walk.rules);
                let mut next = match is_array {
                    true => Self::Array(Array::new(contents, count)),
                    false => Self::Map(Map::new(contents, count)),
                };
                next.apply(&mut again)?;
                next
            }
            None => {
                let (_, start) = element(data, parent, old).ok_or_else(|| not_found(old))?;
                let child = std::mem::replace(self, Self::Plain(data))
                    .inside(taken, (start, start + skip_many(&data[start..], 1)));
                match Step::of(old) {
                    Step::Number(number) => {
                        let mut array = Array::new(contents, count);
                        *array.element(number as u64) = child;
                        Self::Array(array)
                    }
                    Step::Key(key) => {
                        Self::Map(Map::with(contents, count, key, child).expect("found just now"))
                    }
                }
            }
        };
        walk.go(new);
        if taken == 1 {
            *self = next;
            return Ok(self);
        }
        let (path, size) = (&path[..taken - 1], parent_end - parent);
        *self = Self::Shared(Box::new(Shared { data, path, point: parent, size, next }));
        match self {
            Self::Shared(shared) => Ok(&mut shared.next),
            _ => unreachable!("made just now"),
        }
    }

    /// The change of a `Single`, if that is at the end of its first tokens and not one of a value by itself.
    fn change_at_end(&self, tokens: usize) -> Option<Action<'a>> {
        match self {
            Self::Single(single) if single.path.len() == tokens => match single.what {
                What::Set(value) => Some(Action::Set(value)),
                What::Insert(value, _) => Some(Action::Insert(value)),
                What::Delete(count) => Some(Action::Delete(count)),
                What::Scalar(_) => None,
            },
            _ => None,
        }
    }

    fn inside(self, tokens: usize, element: (usize, usize)) -> Self {
        match self {
            Self::Shared(shared) => shared.inside(tokens, element),
            Self::Single(single) if single.path.len() > tokens => {
                Self::Single(Box::new(single.inside(tokens, element)))
            }
            Self::Single(single) => match single.what {
                What::Scalar(scalar) => Self::Scalar(scalar),
                _ => unreachable!("done again in the container"),
            },
            _ => unreachable!("only paths part"),
        }
    }
}

/// Where an element of the container at `parent` stands, with its key, and its value.
fn element(data: &[u8], parent: usize, token: &Token) -> Option<(usize, usize)> {
    match (read::class_at(data, parent), token) {
        (class::ARRAY, Token::Index(number)) => {
            let (count, first) = read::array(data, parent).expect("its class was asked");
            let at = first + skip_many(&data[first..], u64::from(number - 1).min(count.into()));
            (*number <= count).then_some((at, at))
        }
        (class::MAP, Token::Key(key)) => {
            let end = parent + skip_many(&data[parent..], 1);
            let (_, first) = read::map(data, parent).expect("its class was asked");
            map::find(&data[first..end], key).map(|(key_at, value_at)| (first + key_at, first + value_at))
        }
        // A number is an integer key of a map.
        (class::MAP, Token::Index(number)) => {
            let (pairs, mut at) = read::map(data, parent).expect("its class was asked");
            for _ in 0..pairs {
                let value_at = skip::skip(data, at).expect("whole");
                if read::is(data, at, class::INTEGERS)
                    && read::int(data, at).is_ok_and(|(key, _)| key == i128::from(*number))
                {
                    return Some((at, value_at));
                }
                at = skip::skip(data, value_at).expect("whole");
            }
            None
        }
        _ => None,
    }
}

/// Where a new element goes that the last token of a path names, and its key.
fn end_of<'a>(data: &[u8], parent: usize, last: &'a Token) -> Result<(usize, Option<&'a [u8]>), Fault> {
    match (read::class_at(data, parent), last) {
        (class::ARRAY, Token::Index(number)) => {
            let (count, _) = read::array(data, parent).expect("its class was asked");
            match *number - 1 == count {
                true => Ok((parent + skip_many(&data[parent..], 1), None)),
                false => Err(not_found(last)),
            }
        }
        (class::MAP, Token::Key(key)) => {
            let (_, first) = read::map(data, parent).expect("its class was asked");
            Ok((first, Some(key)))
        }
        _ => Err(not_a_container(last, data[parent])),
    }
}

/// What the format says of the value that a path's text leads to.
fn place_of_text<'p>(place: Option<TypeNode<'p>>, path: &[Token]) -> Option<TypeNode<'p>> {
    path.iter().try_fold(place?, |place, token| place.child_of_text(token))
}

fn not_found(token: &Token) -> Fault {
    Fault::new(37, format!("an element {token}"), "no such element")
}

fn not_a_container(token: &Token, first: u8) -> Fault {
    let expected = match token {
        Token::Key(_) => "a map, to be accessed by key",
        _ => "an array, to be accessed by number",
    };
    Fault::new(29, expected, name(first))
}
