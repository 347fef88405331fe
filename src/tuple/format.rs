//! A space's format: what its tuples must look like, and where in them the fields begin that indexes need.
//!
//! Made once per space from the field definitions and the key parts of its indexes, which are merged into a tree of
//! fields: the fields of the tuple, below them what JSON paths name. From then on nothing about a space is decided per
//! tuple. Where no part has a path the tree is one level deep, and tuples take the plain way (`plain.rs`): a loop over
//! their fields. Otherwise they take the nested one (`nested.rs`), which follows the tree.
//!
//! **Slots.** Given out in the order of the keys and their parts, each to what has none yet: to the value of every part,
//! but not to field 0, which needs none, nor for a key over the fields 0, 1, ..., n - 1, which is reached by walking. An
//! array under `[*]` has a slot as well, before that of its values. So a key added at the end adds slots at the end.

use super::fault::{TupleFault, TupleFaultKind};
use super::field_map::{FieldMapBuf, NO_SLOT};
use super::field_type::{FieldType, Refusal};
use super::part::{FieldDef, NullableAction, PartDef};
use super::path::{Path, Token};
use super::plain;
use crate::error::{Error, ErrorKind};
use crate::msgpack::{self, class, print, read, skip};
use std::collections::{BTreeMap, HashMap};

/// Slots that a format may have: Tarantool's field maps are at most 32,767 bytes, 4 a slot.
pub(crate) const SLOTS_MAX: usize = 32_767 / 4;

/// Fields beyond the definitions that are known one by one up to an index's part; the few parts that lie farther are
/// reached by the nested way. So a definition of a few bytes cannot ask for a table of 32,767 fields.
const FIELDS_BEYOND_MAX: usize = 64;

/// The compiled format of a space.
#[derive(Debug)]
pub(crate) struct Format {
    /// What the plain walk reads: a rule a field, as far as fields are known.
    pub(super) rules: Vec<Rule>,
    /// Exactly so many fields are demanded; 0: any number.
    pub(super) exact_field_count: u32,
    /// Fewer fields lack a required one. For the plain walk alone: the nested one counts the required values.
    pub(super) min_field_count: u32,
    pub(super) slots: u16,
    way: Way,
    /// The fields of the tuple up to `rules.len()`, then what paths name and the far fields, as they came.
    nodes: Vec<Node>,
    /// Far fields and their nodes.
    far: BTreeMap<u32, u32>,
    names: Vec<String>,
    /// The fields with a slot, by number.
    slotted: Vec<(u32, u16)>,
}

/// What a format knows of a value.
#[derive(Clone, Copy)]
pub(crate) struct TypeNode<'a> {
    format: &'a Format,
    node: &'a Node,
    keeps_doubles: bool,
}

impl<'a> TypeNode<'a> {
    pub(crate) fn field_type(self) -> FieldType {
        if self.keeps_doubles && self.node.says_double { FieldType::Double } else { self.node.field_type }
    }

    /// The same of an element. An element of an array over which indexes go has the type of all.
    pub(crate) fn child(self, token: &Token) -> Option<Self> {
        let children = self.node.children.iter().map(|&child| &self.format.nodes[child as usize]);
        let is_it = |child: &&'a Node| {
            child.token == *token || child.token == Token::Any && matches!(token, Token::Index(_))
        };
        Some(Self { node: children.into_iter().find(is_it)?, ..self })
    }

    /// The same by a token of a path's text: Tarantool looks elements of arrays up by their numbers in the text, which
    /// are from 1, as if they were from 0, so that an element has the type of the next one.
    pub(crate) fn child_of_text(self, token: &Token) -> Option<Self> {
        match token {
            Token::Index(number) => self.child(&Token::Index(number.saturating_add(1))),
            _ => self.child(token),
        }
    }
}

#[derive(Debug)]
enum Way {
    Plain,
    #[cfg(not(lycosa_plain_only))]
    Nested(super::nested::Tree),
}

/// What the first byte of a value has to be, and where its offset goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// Classes that fit whatever the value.
    pub(super) outright: u16,
    /// The slot; without one the spare cell behind the last slot, so that the walk need not ask.
    pub(super) slot: u16,
    /// The node that it is the rule of.
    pub(super) node: u32,
}

/// A field, or what a path names below one.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Option<u32>,
    pub(super) token: Token,
    pub(super) field_type: FieldType,
    pub(super) scale: Option<i32>,
    /// A definition or an index says that it is a double.
    says_double: bool,
    action: NullableAction,
    /// Nil and absence are fine for the sake of its default.
    has_default: bool,
    is_key_part: bool,
    /// A part of a key that refuses nil reads it.
    is_required_by_part: bool,
    pub(super) slot: Option<u16>,
    pub(super) children: Vec<u32>,
    /// It is, or is below, an element of an array under `[*]`.
    pub(super) in_elements: bool,
}

impl Node {
    fn new(parent: Option<u32>, token: Token, in_elements: bool) -> Self {
        Self {
            parent,
            token,
            field_type: FieldType::Any,
            says_double: false,
            scale: None,
            action: NullableAction::None,
            has_default: false,
            is_key_part: false,
            is_required_by_part: false,
            slot: None,
            children: Vec::new(),
            in_elements,
        }
    }

    /// Number of the field, from 0, of a node that is one.
    pub(super) fn field(&self) -> Option<u32> {
        match (self.parent, &self.token) {
            (None, Token::Index(number)) => Some(number - 1),
            _ => None,
        }
    }

    pub(super) fn takes_nil(&self) -> bool {
        self.action == NullableAction::None || self.has_default && !self.is_required_by_part
    }

    /// Only leaves are ever required, as in Tarantool: absence of what only leads to nullable ones is fine.
    pub(super) fn is_required(&self) -> bool {
        self.children.is_empty() && !self.takes_nil()
    }

    pub(super) fn rule(&self, node: u32, slots: u16) -> Rule {
        let nil = if self.takes_nil() { class::NIL } else { 0 };
        Rule { outright: self.field_type.outright() | nil, slot: self.slot.unwrap_or(slots), node }
    }

    /// Whether `[*]` is what is below.
    pub(super) fn is_multikey(&self, nodes: &[Node]) -> bool {
        self.children.first().is_some_and(|&child| nodes[child as usize].token == Token::Any)
    }
}

impl Format {
    /// The format of a space with these fields and keys. `keys` are those of the indexes that are kept, the primary
    /// one first. With `nested_always` even a format without paths takes the nested way.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Schema`] where definitions contradict each other; [`ErrorKind::Limit`] for too many key parts;
    /// [`ErrorKind::Unsupported`] if the nested way is needed and not compiled in.
    pub(crate) fn new(
        fields: &[FieldDef],
        exact_field_count: u32,
        keys: &[&[PartDef]],
        nested_always: bool,
    ) -> Result<Self, Error> {
        let mut builder = Builder::new(fields, keys);
        for key in keys {
            let is_sequential =
                key.iter().zip(0..).all(|(part, field)| part.field == field && part.path.is_none());
            check_multikey(key)?;
            for part in *key {
                builder.use_part(part, is_sequential)?;
            }
        }
        let Builder { nodes, slots, names, top, far, .. } = builder;
        let slots = match u16::try_from(slots) {
            Ok(slots) if usize::from(slots) <= SLOTS_MAX => slots,
            _ => {
                return Err(Error::new(ErrorKind::Limit, "key parts with a place in the field map")
                    .expected(format_args!("at most {SLOTS_MAX}"))
                    .found(slots));
            }
        };
        let is_plain = nodes.len() == top;
        let way = if is_plain && !nested_always { Way::Plain } else { nested_way(&nodes, slots)? };
        let required = nodes[..top].iter().rposition(Node::is_required);
        let fields = (0..).take(top).chain(far.iter().map(|(_, &node)| node));
        let slotted =
            fields.filter_map(|node| Some((nodes[node as usize].field()?, nodes[node as usize].slot?)));
        Ok(Self {
            rules: (0..).zip(&nodes[..top]).map(|(number, node)| node.rule(number, slots)).collect(),
            exact_field_count,
            min_field_count: required.map_or(0, |last| last as u32 + 1),
            slots,
            way,
            slotted: slotted.collect(),
            nodes,
            far,
            names,
        })
    }

    /// Whether tuples take the plain way.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.way, Way::Plain)
    }

    /// Slots of a tuple that is made now.
    pub(crate) fn slots(&self) -> u16 {
        self.slots
    }

    /// The slot of a key part's value; nothing where it is reached without one, or is not known here.
    pub(crate) fn slot(&self, field: u32, path: Option<&Path>) -> Option<u16> {
        self.find(field, path.map_or(&[], Path::tokens))?.slot
    }

    /// The type that values of a key part have; nothing where it is not known here.
    pub(crate) fn type_of(&self, field: u32, path: Option<&Path>) -> Option<FieldType> {
        Some(self.find(field, path.map_or(&[], Path::tokens))?.field_type)
    }

    /// What is known of a field, as Tarantool's updates go about it. `keeps_doubles`: as before 2.11.1, when a double that
    /// an index reads as a number stayed a double.
    pub(crate) fn type_node(&self, field: u32, keeps_doubles: bool) -> Option<TypeNode<'_>> {
        Some(TypeNode { format: self, node: self.find(field, &[])?, keeps_doubles })
    }

    fn find(&self, field: u32, tokens: &[Token]) -> Option<&Node> {
        let top = if (field as usize) < self.rules.len() { field } else { *self.far.get(&field)? };
        let mut node = &self.nodes[top as usize];
        for token in tokens {
            let child = node.children.iter().find(|&&child| self.nodes[child as usize].token == *token)?;
            node = &self.nodes[*child as usize];
        }
        Some(node)
    }

    /// The slot of a field of the tuple; `NO_SLOT` where it has none.
    #[inline]
    pub(super) fn slot_of_field(&self, field: u32) -> u16 {
        match self.rules.get(field as usize) {
            Some(rule) if rule.slot != self.slots => rule.slot,
            None if !self.far.is_empty() => {
                self.find(field, &[]).and_then(|node| node.slot).unwrap_or(NO_SLOT)
            }
            _ => NO_SLOT,
        }
    }

    /// The fields with a slot at or before `field`, nearest first.
    pub(super) fn slots_before(&self, field: u32) -> impl Iterator<Item = (u32, u16)> + '_ {
        let end = self.slotted.partition_point(|&(slotted, _)| slotted <= field);
        self.slotted[..end].iter().rev().copied()
    }

    /// Validates the tuple at `at`, its MsgPack and its fields, and fills its field map: the offset after the tuple.
    #[inline]
    pub(crate) fn walk(&self, bytes: &[u8], at: usize, map: &mut FieldMapBuf) -> Result<usize, TupleFault> {
        let end = match &self.way {
            Way::Plain => plain::walk(self, bytes, at, map)?,
            #[cfg(not(lycosa_plain_only))]
            Way::Nested(tree) => super::nested::walk(self, tree, bytes, at, map)?,
        };
        if end - at > u32::MAX as usize {
            return Err(self.too_long(end - at));
        }
        Ok(end)
    }

    // Everything below is off the happy path: faults, and the look at values whose first byte does not decide.

    #[cold]
    fn too_long(&self, length: usize) -> TupleFault {
        let expected = format!("at most {} bytes", u32::MAX);
        TupleFault::new(TupleFaultKind::Limit, None, expected, format_args!("{length} bytes"))
    }

    /// What the array's head says of the number of fields is no fault by itself.
    #[cold]
    #[inline(never)]
    pub(super) fn wrong_count(&self, count: u32) -> TupleFault {
        let exact = self.exact_field_count;
        if exact != 0 && count != exact {
            let expected = format!("exactly {exact}");
            return TupleFault::new(TupleFaultKind::FieldCount, None, expected, count);
        }
        let missing = self.nodes[..self.rules.len()].iter().skip(count as usize).position(Node::is_required);
        let missing = count + missing.expect("a required field is beyond the count") as u32;
        self.missing(missing)
    }

    /// The required value of that node is not there.
    #[cold]
    pub(super) fn missing(&self, node: u32) -> TupleFault {
        let field_type = self.nodes[node as usize].field_type;
        TupleFault::new(TupleFaultKind::Missing, Some(self.place(node)), field_type, "nothing")
    }

    /// The tuple is no array.
    #[cold]
    pub(super) fn no_array(&self, fault: msgpack::Fault, bytes: &[u8]) -> TupleFault {
        match fault.kind {
            msgpack::FaultKind::Class(_) => {
                TupleFault::new(TupleFaultKind::NotArray, None, "array", fault.found(bytes))
            }
            _ => TupleFault::msgpack(fault, bytes),
        }
    }

    /// The values of the tuple at `at` run past the end of the bytes, or one is none: which.
    #[cold]
    pub(super) fn bad_msgpack(&self, bytes: &[u8], at: usize) -> TupleFault {
        let fault = skip::skip(bytes, at).err();
        debug_assert!(fault.is_some(), "a walk and a skip agree on what is whole");
        TupleFault::msgpack(fault.unwrap_or(msgpack::Fault::new(at, msgpack::FaultKind::Cut)), bytes)
    }

    /// Whether the value at `at`, whose class is not accepted outright, fits the node; the offset after it.
    #[inline(never)]
    pub(super) fn look(&self, node: u32, bytes: &[u8], at: usize) -> Result<usize, TupleFault> {
        let end = skip::skip(bytes, at).map_err(|fault| TupleFault::msgpack(fault, bytes))?;
        let Node { field_type, scale, .. } = &self.nodes[node as usize];
        let refusal = if read::is(bytes, at, field_type.sometimes()) {
            match field_type.look(*scale, bytes, at) {
                Ok(()) => return Ok(end),
                Err(refusal) => refusal,
            }
        } else {
            Refusal::Type
        };
        Err(self.refused(node, refusal, &bytes[at..end]))
    }

    #[cold]
    fn refused(&self, node: u32, refusal: Refusal, value: &[u8]) -> TupleFault {
        let Node { field_type, scale, .. } = &self.nodes[node as usize];
        let place = Some(self.place(node));
        match refusal {
            Refusal::Type => {
                let found = match read::ext(value, 0) {
                    Ok(((kind, _), _)) => format!("extension {kind}"),
                    Err(_) => format!("{} (byte {:#04x})", msgpack::name(value[0]), value[0]),
                };
                TupleFault::new(TupleFaultKind::FieldType, place, field_type, found)
            }
            Refusal::Range => {
                let expected = match (field_type.range(), field_type.precision()) {
                    (Some((least, greatest)), _) => format!("{field_type}: {least} to {greatest}"),
                    (_, Some(digits)) => {
                        format!(
                            "{field_type}: at most {digits} digits, {} of them after the point",
                            scale.unwrap_or(0)
                        )
                    }
                    _ => field_type.to_string(),
                };
                let found = match read::int(value, 0) {
                    Ok((number, _)) => number.to_string(),
                    Err(_) => format!("the bytes {}", print::short_hex(value)),
                };
                TupleFault::new(TupleFaultKind::OutOfRange, place, expected, found)
            }
            Refusal::Payload(expected) => {
                let found = format!("the bytes {}", print::short_hex(value));
                TupleFault::new(TupleFaultKind::Payload, place, expected, found)
            }
        }
    }

    /// A node as Tarantool spells it in messages: `2`, `2 (name)`, `[2]["a"]["b"]`.
    fn place(&self, node: u32) -> String {
        place(&self.nodes, &self.names, node)
    }
}

#[cfg(not(lycosa_plain_only))]
fn nested_way(nodes: &[Node], slots: u16) -> Result<Way, Error> {
    Ok(Way::Nested(super::nested::Tree::new(nodes, slots)))
}

#[cfg(lycosa_plain_only)]
fn nested_way(_: &[Node], _: u16) -> Result<Way, Error> {
    Err(Error::new(ErrorKind::Unsupported, "JSON paths: not compiled in"))
}

fn place(nodes: &[Node], names: &[String], node: u32) -> String {
    if let Some(field) = nodes[node as usize].field() {
        return match names.get(field as usize) {
            Some(name) => format!("{} ({name})", field + 1),
            None => (field + 1).to_string(),
        };
    }
    let mut tokens = Vec::new();
    let mut next = Some(node);
    while let Some(node) = next {
        tokens.push(&nodes[node as usize].token);
        next = nodes[node as usize].parent;
    }
    tokens.iter().rev().map(|token| token.to_string()).collect()
}

/// A path has at most one `[*]`, and the paths of a key that have one agree up to it.
fn check_multikey(key: &[PartDef]) -> Result<(), Error> {
    let mut first: Option<&PartDef> = None;
    for part in key {
        let Some(path) = part.path.as_ref().filter(|path| path.has_multikey()) else { continue };
        let stars = path.tokens().iter().filter(|token| **token == Token::Any).count();
        let place = |path: &Path| format!("[{}]{path}", part.field + 1);
        if stars > 1 {
            let error = Error::new(ErrorKind::Schema, "path of an index part");
            return Err(error.expected("at most one [*]").found(place(path)));
        }
        let agrees = |other: &PartDef| {
            other.field == part.field
                && other.path.as_ref().is_some_and(|other| other.prefix() == path.prefix())
        };
        match first {
            Some(other) if !agrees(other) => {
                let error = Error::new(ErrorKind::Schema, "paths with [*] in one index");
                let other = other.path.as_ref().map_or(String::new(), place);
                return Err(error.expected(format_args!("one array, that of {other}")).found(place(path)));
            }
            _ => first = Some(part),
        }
    }
    Ok(())
}

/// The tree of fields while keys are added; the rules are Tarantool's (`tuple_format_create`).
struct Builder {
    nodes: Vec<Node>,
    /// Fields of the tuple that stand at their number.
    top: usize,
    /// Those farther away, with their nodes.
    far: BTreeMap<u32, u32>,
    /// Fields of the format; those beyond are known from keys alone.
    defined: usize,
    /// Children by their parent and token: an attacker's schema may have many.
    children: HashMap<(u32, Token), u32>,
    slots: usize,
    names: Vec<String>,
}

impl Builder {
    fn new(fields: &[FieldDef], keys: &[&[PartDef]]) -> Self {
        let used = keys.iter().copied().flatten().map(|part| part.field as usize + 1);
        let near = used.filter(|&used| used <= fields.len() + FIELDS_BEYOND_MAX).max();
        let top = fields.len().max(near.unwrap_or(0));
        let mut nodes: Vec<Node> =
            (1..).take(top).map(|number| Node::new(None, Token::Index(number), false)).collect();
        for (node, field) in nodes.iter_mut().zip(fields) {
            node.field_type = field.field_type;
            node.says_double = field.field_type == FieldType::Double;
            node.scale = field.scale;
            node.action = field.nullable_action;
            node.has_default = field.has_default;
        }
        let names = fields.iter().map(|field| field.name.clone()).collect();
        Self {
            nodes,
            top,
            far: BTreeMap::new(),
            defined: fields.len(),
            children: HashMap::new(),
            slots: 0,
            names,
        }
    }

    fn use_part(&mut self, part: &PartDef, is_sequential: bool) -> Result<(), Error> {
        let leaf = self.add_path(part.field, part.path.as_ref().map_or(&[], Path::tokens))?;
        let has_path = part.path.is_some();
        if self.nodes[leaf as usize].slot.is_none() && !is_sequential && (part.field > 0 || has_path) {
            self.give_slot(leaf);
        }
        let place = || place(&self.nodes, &self.names, leaf);
        let node = &self.nodes[leaf as usize];
        let inherits = part.field as usize >= self.defined && !node.is_key_part;
        let before = if inherits { part.nullable_action } else { node.action };
        let action = match (before, part.nullable_action) {
            // A nullable part without a path does not loosen what the format or another index demands.
            (NullableAction::Default, NullableAction::None) if !has_path => NullableAction::Default,
            (NullableAction::Default, action) => action,
            // The strictest wins: a part that is not nullable makes the field required.
            (NullableAction::None, NullableAction::Default) => NullableAction::Default,
            (action, NullableAction::Default) => action,
            (before, action) if before == action => action,
            (before, action) => {
                return Err(Error::new(ErrorKind::Schema, "nullable action of a field")
                    .expected(before.name())
                    .found(format_args!("{} in an index", action.name()))
                    .field(place()));
            }
        };
        let Some(field_type) = node.field_type.narrowed_by(part.field_type) else {
            let there = if node.is_key_part { "another index" } else { "the space format" };
            return Err(Error::new(ErrorKind::Schema, "type of a field")
                .expected(format_args!("{} as in {there}", node.field_type))
                .found(format_args!("{} in an index", part.field_type))
                .field(place()));
        };
        let is_required = part.nullable_action != NullableAction::None;
        let node = &mut self.nodes[leaf as usize];
        if field_type == part.field_type {
            node.scale = part.scale.or(node.scale);
        }
        node.field_type = field_type;
        node.says_double |= part.field_type == FieldType::Double;
        node.action = action;
        node.is_key_part = true;
        node.is_required_by_part |= is_required;
        Ok(())
    }

    fn give_slot(&mut self, node: u32) {
        // Past the limit, which `Format::new` checks, the numbers only have to stay numbers.
        self.nodes[node as usize].slot = Some(self.slots.min(usize::from(NO_SLOT)) as u16);
        self.slots += 1;
    }

    /// The node of the path's last token, with those that lead to it.
    fn add_path(&mut self, field: u32, tokens: &[Token]) -> Result<u32, Error> {
        let mut parent = field;
        if field as usize >= self.top {
            let nodes = &mut self.nodes;
            parent = *self.far.entry(field).or_insert_with(|| {
                nodes.push(Node::new(None, Token::Index(field.saturating_add(1)), false));
                nodes.len() as u32 - 1
            });
        }
        for token in tokens {
            self.check_child(parent, token)?;
            let next = match self.children.get(&(parent, token.clone())) {
                Some(&child) => child,
                None => {
                    let child = self.nodes.len() as u32;
                    let in_elements = self.nodes[parent as usize].in_elements || *token == Token::Any;
                    self.nodes.push(Node::new(Some(parent), token.clone(), in_elements));
                    self.nodes[parent as usize].children.push(child);
                    self.children.insert((parent, token.clone()), child);
                    child
                }
            };
            if *token == Token::Any && self.nodes[parent as usize].slot.is_none() {
                self.give_slot(parent);
            }
            self.nodes[parent as usize].is_key_part = true;
            parent = next;
        }
        Ok(parent)
    }

    /// Whether something named by `token` can be inside the node; what is any becomes a container.
    fn check_child(&mut self, parent: u32, token: &Token) -> Result<(), Error> {
        let container = if let Token::Key(_) = token { FieldType::Map } else { FieldType::Array };
        let node = &self.nodes[parent as usize];
        if !node.field_type.contains(container) {
            return Err(Error::new(ErrorKind::Schema, "type of a field")
                .expected(format_args!("{}", node.field_type))
                .found(format_args!("{container} in the path of an index"))
                .field(place(&self.nodes, &self.names, parent)));
        }
        let is_multikey = node.is_multikey(&self.nodes);
        if !node.children.is_empty() && is_multikey != (*token == Token::Any) {
            return Err(Error::new(ErrorKind::Schema, "array in the paths of indexes")
                .expected("either all elements, [*], or single ones")
                .found("both")
                .field(place(&self.nodes, &self.names, parent)));
        }
        self.nodes[parent as usize].field_type = container;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text.as_bytes()).unwrap().unwrap()
    }

    fn part(field: u32, field_type: FieldType) -> PartDef {
        PartDef::new(field, field_type)
    }

    fn fields(types: &[FieldType]) -> Vec<FieldDef> {
        types
            .iter()
            .zip('a'..)
            .map(|(&field_type, name)| FieldDef::new(&name.to_string(), field_type))
            .collect()
    }

    fn message(result: Result<Format, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn slots_go_to_parts_in_order_and_not_to_fields_that_are_walked_to() {
        use FieldType::*;
        let (pk, sequential) = ([part(0, Unsigned)], [part(0, Unsigned), part(1, Unsigned), part(2, String)]);
        let (sk, other) = ([part(3, Unsigned), part(1, Unsigned)], [part(1, Unsigned), part(0, Unsigned)]);
        let format = Format::new(&[], 0, &[&pk, &sequential, &sk, &other], false).unwrap();
        let slots: Vec<_> = (0..5).map(|field| format.slot(field, None)).collect();
        assert_eq!(slots, [None, Some(1), None, Some(0), None]);
        assert_eq!(format.slots(), 2);
        assert!(format.is_plain());
        assert_eq!(format.slots_before(2).collect::<Vec<_>>(), [(1, 1)]);
        assert_eq!(format.slots_before(9).collect::<Vec<_>>(), [(3, 0), (1, 1)]);
        assert_eq!(format.slots_before(0).count(), 0);
    }

    #[cfg(not(lycosa_plain_only))]
    #[test]
    fn slots_of_paths_are_found_by_tokens_and_shared_between_indexes() {
        use FieldType::*;
        let pk = [part(0, Unsigned)];
        let first = [part(1, Unsigned).at(path("a.b")), part(1, Unsigned).at(path("a.c"))];
        let second = [part(2, String).at(path("[*].x")), part(2, String).at(path("[*].y"))];
        let third = [part(1, Unsigned).at(path("['a'][\"b\"]")), part(3, Unsigned)];
        let format = Format::new(&[], 0, &[&pk, &first, &second, &third], false).unwrap();
        assert!(!format.is_plain());
        assert_eq!(format.slot(1, Some(&path("a.b"))), Some(0));
        assert_eq!(format.slot(1, Some(&path("a.c"))), Some(1));
        assert_eq!(format.slot(2, None), Some(2));
        assert_eq!(format.slot(2, Some(&path("[*].y"))), Some(4));
        assert_eq!(format.slot(3, None), Some(5));
        assert_eq!(format.slot(1, None), None);
        assert_eq!(format.slot(1, Some(&path("a.d"))), None);
        assert_eq!(format.slot(7, None), None);
        assert_eq!(format.slots(), 6);
    }

    #[cfg(not(lycosa_plain_only))]
    #[test]
    fn a_far_field_costs_no_table() {
        let far = [part(0, FieldType::Unsigned), part(32_767, FieldType::String)];
        let format = Format::new(&[], 0, &[&far], false).unwrap();
        assert_eq!(format.rules.len(), 1);
        assert!(!format.is_plain());
        assert_eq!(format.slot(32_767, None), Some(0));
        assert_eq!(format.slot_of_field(32_767), 0);
        assert_eq!(format.slot_of_field(32_766), NO_SLOT);
        assert_eq!(format.place(format.far[&32_767]), "32768");
        let near = [part(FIELDS_BEYOND_MAX as u32 - 1, FieldType::String)];
        assert!(Format::new(&[], 0, &[&near], false).unwrap().is_plain());
    }

    #[test]
    fn a_part_that_is_not_nullable_makes_its_field_required() {
        use FieldType::*;
        let defined = [FieldDef::new("a", Unsigned), FieldDef::new("b", Unsigned).nullable()];
        let (pk, strict, loose) = ([part(0, Unsigned)], [part(1, Unsigned)], [part(1, Unsigned).nullable()]);
        let required = |keys: &[&[PartDef]]| Format::new(&defined, 0, keys, false).unwrap().min_field_count;
        assert_eq!(required(&[&pk]), 1);
        assert_eq!(required(&[&pk, &loose]), 1);
        assert_eq!(required(&[&pk, &strict]), 2);
        assert_eq!(required(&[&pk, &loose, &strict]), 2);
        assert_eq!(required(&[&pk, &strict, &loose]), 2);
        let strict_field = fields(&[Unsigned, Unsigned]);
        assert_eq!(Format::new(&strict_field, 0, &[&pk, &loose], false).unwrap().min_field_count, 2);
        assert_eq!(Format::new(&[], 0, &[&pk, &loose], false).unwrap().min_field_count, 1);
    }

    #[test]
    fn a_default_excuses_nil_and_absence_unless_a_key_needs_the_field() {
        use FieldType::*;
        let mut defined = fields(&[Unsigned, Unsigned]);
        defined[1].has_default = true;
        let (pk, strict) = ([part(0, Unsigned)], [part(1, Unsigned)]);
        let format = Format::new(&defined, 0, &[&pk], false).unwrap();
        assert_eq!(format.min_field_count, 1);
        assert_eq!(format.rules[1].outright, class::UINT | class::NIL);
        assert_eq!(Format::new(&defined, 0, &[&pk, &strict], false).unwrap().min_field_count, 2);
    }

    #[test]
    fn the_narrower_type_wins() {
        use FieldType::*;
        let key = [part(0, Unsigned), part(1, Scalar), part(2, Number)];
        let format = Format::new(&fields(&[Scalar, Unsigned, Any]), 0, &[&key], false).unwrap();
        let types: Vec<_> = format.nodes.iter().map(|node| node.field_type).collect();
        assert_eq!(types, [Unsigned, Unsigned, Number]);
    }

    #[test]
    fn definitions_that_contradict_each_other_are_refused() {
        use FieldType::*;
        let case = |defined: &[FieldType], keys: &[&[PartDef]]| {
            message(Format::new(&fields(defined), 0, keys, false))
        };
        assert_eq!(
            case(&[String], &[&[part(0, Unsigned)]]),
            "field 1 (a): type of a field: expected string as in the space format, found unsigned in an index"
        );
        assert_eq!(
            case(&[], &[&[part(1, String)], &[part(1, Unsigned)]]),
            "field 2: type of a field: expected string as in another index, found unsigned in an index"
        );
        assert_eq!(
            case(&[], &[&[part(1, String).at(path("a"))], &[part(1, String).at(path("[1]"))]]),
            "field 2: type of a field: expected map, found array in the path of an index"
        );
        assert_eq!(
            case(&[], &[&[part(1, String).at(path("a[1]"))], &[part(1, String).at(path("a[*]"))]]),
            "field [2][\"a\"]: array in the paths of indexes: expected either all elements, [*], or single ones, found both"
        );
        assert_eq!(
            case(&[], &[&[part(1, String).at(path("[*][*]"))]]),
            "path of an index part: expected at most one [*], found [2][*][*]"
        );
        assert_eq!(
            case(&[], &[&[part(1, String).at(path("[*].a")), part(1, String).at(path("a[*]"))]]),
            "paths with [*] in one index: expected one array, that of [2][*][\"a\"], found [2][\"a\"][*]"
        );
        let mut abort = part(0, Unsigned);
        abort.nullable_action = NullableAction::Abort;
        assert_eq!(
            case(&[], &[&[abort], &[part(0, Unsigned).nullable()]]),
            "field 1: nullable action of a field: expected abort, found none in an index"
        );
    }

    #[test]
    fn more_slots_than_a_field_map_holds_are_refused() {
        let key: Vec<PartDef> = (1..=SLOTS_MAX as u32).map(|field| part(field, FieldType::Any)).collect();
        let defined = fields(&vec![FieldType::Any; SLOTS_MAX + 2]);
        assert_eq!(usize::from(Format::new(&defined, 0, &[&key], false).unwrap().slots()), SLOTS_MAX);
        let more = [part(SLOTS_MAX as u32 + 1, FieldType::Any)];
        let error = Format::new(&defined, 0, &[&key, &more], false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
