//! The general way: a tree of what operations change, written out when all of them are in it.
//!
//! ```text
//! Plain    "..."                          as it stood, or as it was set
//! Scalar   42                             what arithmetic has made of a value
//! Single   .a[2].b  = 7                   one change at the end of a path; around it all is as it stood
//! Shared   .a  -> Array, Map              the path that several changes have in common, up to where they part
//! Array    [ x | 1 2 3 ] [ y | 4 ]        ranges: an element that may be changed, and those behind it as they stood
//! Map      { k: x | a: 1 b: 2 } { ... }   the same with pairs; what is asked for comes to the front
//! ```
//!
//! The tuple is an `Array`. An operation goes down from there by its path: into a `Plain` it puts a `Single`; where it
//! parts from the path of a `Single` or `Shared`, that one becomes `Shared`, and an `Array` or `Map` holds both ways.
//! This is how Tarantool does it, and it shows: in the order of a map's pairs, in which heads are written anew (those of
//! an `Array`, of a `Map`, and around an element that comes or goes), in what an operation that fails leaves behind for
//! the next one of an UPSERT.

use super::array::Array;
use super::map::Map;
use super::path::{Shared, Single};
use super::scalar::Scalar;
use super::{Action, Fault, Operation, Rules, Top};
use crate::error::Result;
use crate::msgpack::read;
use crate::tuple::format::{Format, TypeNode};
use crate::tuple::path::Token;

/// Nodes above each other: every operation may add one, and each of them costs stack.
const DEPTH_MAX: usize = 500;

pub(super) enum Node<'a> {
    Plain(&'a [u8]),
    /// Set, and not to be changed further: so it was before 3.0.
    Set(&'a [u8]),
    Scalar(Scalar<'a>),
    Single(Box<Single<'a>>),
    Shared(Box<Shared<'a>>),
    Array(Array<'a>),
    Map(Map<'a>),
}

/// An operation on its way down.
pub(super) struct Walk<'a> {
    pub(super) action: Action<'a>,
    /// The path below the field, what is wrong behind it, and how many tokens have been read.
    pub(super) path: &'a [Token],
    fault: Option<&'a Fault>,
    pub(super) next: usize,
    /// The element that the container which is reached is asked for; one that has been entered is used up.
    pub(super) step: Step<'a>,
    pub(super) is_used: bool,
    /// It is about a field of the tuple itself.
    pub(super) is_for_root: bool,
    pub(super) rules: &'a Rules,
    depth: usize,
}

/// An element of a container.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'a> {
    /// From 0; of the tuple itself also from -1 backwards.
    Number(i64),
    Key(&'a [u8]),
}

impl<'a> Walk<'a> {
    fn new(operation: &'a Operation<'a>, rules: &'a Rules) -> Self {
        let number = match operation.top {
            Top::FromStart(number) => i64::try_from(number).unwrap_or(i64::MAX),
            Top::FromEnd(number) => number,
        };
        Self {
            action: operation.action,
            path: &operation.path,
            fault: operation.fault.as_ref(),
            next: 0,
            step: Step::Number(number),
            is_used: false,
            is_for_root: operation.path.is_empty() && operation.fault.is_none(),
            rules,
            depth: 0,
        }
    }

    /// The same for a change that has been made in a path, which is to be made again in a container.
    pub(super) fn again(action: Action<'a>, step: Step<'a>, rules: &'a Rules) -> Self {
        let path = &[];
        Self { action, path, fault: None, next: 0, step, is_used: false, is_for_root: false, rules, depth: 0 }
    }

    /// Whether the element is what the operation is about, and no container on the way to it.
    pub(super) fn is_there(&self) -> bool {
        self.next == self.path.len() && self.fault.is_none()
    }

    /// The next token of the path; none at its end.
    pub(super) fn token(&mut self) -> Result<Option<&'a Token>, Fault> {
        match (self.path.get(self.next), self.fault) {
            (Some(token), _) => {
                self.next += 1;
                Ok(Some(token))
            }
            (None, Some(fault)) => Err(fault.clone()),
            (None, None) => Ok(None),
        }
    }

    /// The element of the container that is reached.
    pub(super) fn step(&mut self) -> Result<Step<'a>, Fault> {
        if self.is_used {
            let token = self.token()?.ok_or_else(|| Fault::new(37, "an element", "the end of the path"))?;
            self.go(token);
        }
        Ok(self.step)
    }

    /// Makes a token the element that is asked for next.
    pub(super) fn go(&mut self, token: &'a Token) {
        self.is_used = false;
        self.step = Step::of(token);
    }

    /// Into an element on the way.
    pub(super) fn enter(&mut self, node: &mut Node<'a>) -> Result<(), Fault> {
        self.is_used = true;
        node.apply(self)
    }

    /// Changes the element that the operation is about, which is there.
    pub(super) fn change(&self, node: &mut Node<'a>) -> Result<(), Fault> {
        if let Action::Set(value) = self.action {
            *node = if self.rules.repeats { Node::Plain(value) } else { Node::Set(value) };
            return Ok(());
        }
        let scalar = match node {
            Node::Plain(bytes) => Scalar::read(bytes),
            Node::Scalar(scalar) if self.rules.repeats => std::mem::take(scalar),
            _ if !self.rules.repeats => return Err(twice()),
            _ => Scalar::Other("a changed container"),
        };
        // One that fails leaves the value as it was, which after arithmetic is a copy of what it was.
        match scalar.changed(&self.action, self.rules) {
            Ok(changed) => *node = Node::Scalar(changed),
            Err((fault, scalar)) => {
                if let Node::Scalar(place) = node {
                    *place = scalar;
                }
                return Err(fault);
            }
        }
        Ok(())
    }
}

impl<'a> Step<'a> {
    pub(super) fn of(token: &'a Token) -> Self {
        match token {
            Token::Index(number) => Self::Number(i64::from(*number) - 1),
            Token::Key(key) => Self::Key(key),
            Token::Any => unreachable!("a path with [*] is wrong from there on"),
        }
    }
}

fn twice() -> Fault {
    Fault::new(29, "one operation on a field", "two on the same, or on one and what is inside")
}

impl<'a> Node<'a> {
    /// What an operation does that goes further down, or to one of this container's elements.
    pub(super) fn apply(&mut self, walk: &mut Walk<'a>) -> Result<(), Fault> {
        walk.depth += 1;
        if walk.depth > DEPTH_MAX {
            return Err(Fault::new(29, format!("at most {DEPTH_MAX} changes inside each other"), "more"));
        }
        match self {
            Self::Array(array) => array.apply(walk),
            Self::Map(map) => map.apply(walk),
            Self::Plain(bytes) => {
                *self = Self::Single(Box::new(Single::new(bytes, walk)?));
                Ok(())
            }
            Self::Single(_) => self.branch(walk)?.apply(walk),
            Self::Shared(shared) => match shared.follow(walk) {
                true => shared.next.apply(walk),
                false => self.branch(walk)?.apply(walk),
            },
            Self::Set(_) => Err(twice()),
            Self::Scalar(_) if !walk.rules.repeats => Err(twice()),
            Self::Scalar(_) => Err(Fault::new(37, "a container", "a scalar")),
        }
    }

    /// `node`: what the format knows of this place.
    pub(super) fn write(&self, out: &mut Vec<u8>, place: Option<TypeNode<'_>>) {
        match self {
            Self::Plain(bytes) | Self::Set(bytes) => out.extend_from_slice(bytes),
            Self::Scalar(scalar) => scalar.write(out, place),
            Self::Single(single) => single.write(out, place),
            Self::Shared(shared) => shared.write(out, place),
            Self::Array(array) => array.write(out, |number| place?.child(&Token::Index(number))),
            Self::Map(map) => map.write(out, place),
        }
    }
}

/// A tuple under operations.
pub(super) struct Updated<'a> {
    root: Array<'a>,
    rules: &'a Rules,
}

impl<'a> Updated<'a> {
    pub(super) fn new(tuple: &'a [u8], rules: &'a Rules) -> Self {
        let (count, first) = read::array(tuple, 0).expect("a stored tuple is an array");
        Self { root: Array::new(&tuple[first..], count.into()), rules }
    }

    /// All operations, or an error.
    pub(super) fn all(&mut self, operations: &'a [Operation<'a>]) -> Result<()> {
        for (number, operation) in (1..).zip(operations) {
            self.one(operation).map_err(|fault| fault.into_error(number))?;
        }
        Ok(())
    }

    /// Those that can be; gives how many cannot.
    pub(super) fn what_can_be(&mut self, operations: &'a [Operation<'a>]) -> u64 {
        operations.iter().map(|operation| u64::from(self.one(operation).is_err())).sum()
    }

    fn one(&mut self, operation: &'a Operation<'a>) -> Result<(), Fault> {
        self.root.apply(&mut Walk::new(operation, self.rules))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, format: &Format) {
        out.clear();
        self.root.write(out, |number| format.type_node(number - 1, self.rules.keeps_doubles));
    }
}
