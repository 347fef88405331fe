//! The nested walk: tuples of spaces whose indexes look into fields by JSON paths; the general twin of `plain.rs`.
//!
//! The format's tree is followed through the tuple, depth first and in the tuple's order. What the tree does not know
//! is skipped whole, so the stack is as deep as the deepest path, not as the tuple.
//!
//! ```text
//! frame: an array or a map that the tree knows, how many values it has left, which of its known children is next
//! array  skip to the next known element; behind the last one, skip the rest
//! map    read the key; is it known? visit the value: skip it
//! every  (an array under [*]) visit each element, with the required values of the element counted afresh
//! visit  class and look as in plain; note the offset; strike the value from the missing ones;
//!        is it a container with known children? open a frame: step over it
//! ```
//!
//! Where a key stands in a map more than once, each is visited, and of every value the last one found counts, as in
//! Tarantool. Nil where a path leads further ends the path: what is below is missing, which is fine where it is not
//! required. Only the ends of paths are ever required. A nil element of an array under `[*]` lacks what it should hold
//! (Tarantool takes it and fails later).

use super::fault::{TupleFault, TupleFaultKind};
use super::field_map::FieldMapBuf;
use super::format::{Format, Node, Rule};
use super::path::Token;
use crate::msgpack::{HEADS, class, read, skip};

/// Cells that the extents of one tuple may have: a gigabyte of offsets.
const EXTENT_CELLS_MAX: usize = 1 << 28;

/// The tree as the walk reads it: nodes with the numbers of `Format`'s, their known children side by side.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<TreeNode>,
    edges: Vec<Edge>,
    keys: Vec<u8>,
    /// The edges of the tuple's own array.
    root: (u32, u32),
    /// The required values as bits: those of the tuple, then those of each array under `[*]`, in words of their own.
    required: Vec<u64>,
    /// How many of the words are the tuple's.
    tuple_words: u32,
    /// The slots of values under `[*]`, those of one array side by side.
    element_slots: Vec<u16>,
}

#[derive(Debug, Clone)]
struct TreeNode {
    rule: Rule,
    shape: Shape,
    /// Its offset goes into an extent.
    in_elements: bool,
    /// Its bit among the missing values; no bit if it is not required.
    word: u32,
    mask: u64,
    edges: (u32, u32),
    /// Of an array under `[*]`: the words of an element's required values.
    words: (u32, u32),
    /// Of an array under `[*]`: its part of `element_slots`.
    element_slots: (u32, u32),
}

/// What is known of the inside of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Leaf,
    /// Some elements.
    Array,
    /// The values of some keys.
    Map,
    /// All elements alike.
    Every,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    node: u32,
    /// Of an array: number of the element, from 0. Of a map: where the key is.
    place: u32,
    length: u32,
}

/// What a walk needs besides the map; kept from tuple to tuple.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    missing: Vec<u64>,
    stack: Vec<Frame>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    shape: Shape,
    node: u32,
    /// The next known child.
    edge: u32,
    edges_end: u32,
    /// Number of the next element.
    element: u32,
    /// Elements or pairs that have not been seen.
    left: u32,
}

impl Tree {
    pub(super) fn new(nodes: &[Node], slots: u16) -> Self {
        let mut tree = Self {
            nodes: Vec::with_capacity(nodes.len()),
            edges: Vec::new(),
            keys: Vec::new(),
            root: (0, 0),
            required: Vec::new(),
            tuple_words: 0,
            element_slots: Vec::new(),
        };
        for node in nodes {
            let shape = match node.children.first().map(|&child| &nodes[child as usize].token) {
                None => Shape::Leaf,
                Some(Token::Index(_)) => Shape::Array,
                Some(Token::Key(_)) => Shape::Map,
                Some(Token::Any) => Shape::Every,
            };
            let edges = tree.add_edges(nodes, &node.children);
            tree.nodes.push(TreeNode {
                rule: node.rule(slots),
                shape,
                in_elements: node.in_elements,
                word: 0,
                mask: 0,
                edges,
                words: (0, 0),
                element_slots: (0, 0),
            });
        }
        let fields: Vec<u32> =
            (0..).zip(nodes).filter(|(_, node)| node.parent.is_none()).map(|(number, _)| number).collect();
        tree.root = tree.add_edges(nodes, &fields);

        // The scope of a node: the array under [*] that it is in, or the tuple. Parents come before their children.
        let mut scopes: Vec<Option<u32>> = Vec::with_capacity(nodes.len());
        let mut arrays = Vec::new();
        for node in nodes {
            let scope = match (node.parent, &node.token) {
                (Some(array), Token::Any) => {
                    arrays.push(array);
                    Some(array)
                }
                (Some(parent), _) => scopes[parent as usize],
                (None, _) => None,
            };
            scopes.push(scope);
        }
        let mut of_scope: Vec<(Option<u32>, u32)> = scopes.iter().copied().zip(0..).collect();
        of_scope.sort_unstable();
        let mut rest = of_scope.as_slice();
        while let Some(&(scope, _)) = rest.first() {
            let (members, others) = rest.split_at(rest.partition_point(|&(other, _)| other == scope));
            rest = others;
            tree.add_scope(nodes, scope, members);
        }
        if tree.required.is_empty() {
            // Values that are not required strike at word 0 as well, with an empty mask.
            tree.required.push(0);
            tree.tuple_words = 1;
        }
        tree
    }

    /// Edges to these nodes, side by side, in the order in which they are looked for.
    fn add_edges(&mut self, nodes: &[Node], children: &[u32]) -> (u32, u32) {
        let first = self.edges.len();
        for &node in children {
            let (place, length) = match &nodes[node as usize].token {
                Token::Index(number) => (number - 1, 0),
                Token::Any => (0, 0),
                Token::Key(key) => {
                    self.keys.extend_from_slice(key);
                    ((self.keys.len() - key.len()) as u32, key.len() as u32)
                }
            };
            self.edges.push(Edge { node, place, length });
        }
        let keys = &self.keys;
        self.edges[first..].sort_unstable_by(|a, b| {
            let key = |edge: &Edge| &keys[edge.place as usize..][..edge.length as usize];
            match (a.length, b.length) {
                (0, 0) => a.place.cmp(&b.place),
                _ => a.length.cmp(&b.length).then_with(|| key(a).cmp(key(b))),
            }
        });
        (first as u32, self.edges.len() as u32)
    }

    /// Bits for the required values of a scope, and its slots.
    fn add_scope(&mut self, nodes: &[Node], scope: Option<u32>, members: &[(Option<u32>, u32)]) {
        let first_word = self.required.len() as u32;
        let first_slot = self.element_slots.len() as u32;
        let mut bits = 0u32;
        for &(_, number) in members {
            let node = &nodes[number as usize];
            if let (Some(_), Some(slot)) = (scope, node.slot) {
                self.element_slots.push(slot);
            }
            if node.is_required() {
                if bits % 64 == 0 {
                    self.required.push(0);
                }
                let (word, mask) = (first_word + bits / 64, 1 << (bits % 64));
                self.required[word as usize] |= mask;
                self.nodes[number as usize].word = word;
                self.nodes[number as usize].mask = mask;
                bits += 1;
            }
        }
        match scope {
            None => self.tuple_words = self.required.len() as u32,
            Some(array) => {
                self.nodes[array as usize].words = (first_word, self.required.len() as u32);
                self.nodes[array as usize].element_slots = (first_slot, self.element_slots.len() as u32);
            }
        }
    }

    /// The node of a map's key.
    #[inline]
    fn child(&self, frame: &Frame, key: &[u8]) -> Option<u32> {
        let edges = &self.edges[frame.edge as usize..frame.edges_end as usize];
        let known = |edge: &Edge| &self.keys[edge.place as usize..][..edge.length as usize];
        if edges.len() <= 8 {
            let found = edges.iter().find(|edge| edge.length as usize == key.len() && known(edge) == key)?;
            return Some(found.node);
        }
        let order = |edge: &Edge| (edge.length as usize).cmp(&key.len()).then_with(|| known(edge).cmp(key));
        edges.binary_search_by(order).ok().map(|found| edges[found].node)
    }

    /// The first of the missing values among these words, if there is one.
    #[cold]
    fn first_missing(&self, missing: &[u64], words: (u32, u32)) -> u32 {
        let is_missing = |node: &TreeNode| {
            (words.0..words.1).contains(&node.word) && missing[node.word as usize] & node.mask != 0
        };
        self.nodes.iter().position(is_missing).expect("a bit belongs to a node") as u32
    }
}

/// See [`Format::walk`].
pub(super) fn walk(
    format: &Format,
    tree: &Tree,
    bytes: &[u8],
    at: usize,
    map: &mut FieldMapBuf,
) -> Result<usize, TupleFault> {
    let (count, first) = read::array(bytes, at).map_err(|fault| format.no_array(fault, bytes))?;
    if format.exact_field_count != 0 && count != format.exact_field_count {
        return Err(format.wrong_count(count));
    }
    let bad = || format.bad_msgpack(bytes, at);
    let (slots, extents, Scratch { missing, stack }) = map.parts(format.slots);
    missing.clear();
    missing.extend_from_slice(&tree.required);
    stack.clear();
    let mut here = first;
    // The element that is being visited of the array under [*], if there is one: paths have one [*] at most.
    let mut element = 0;
    let mut frame = Frame {
        shape: Shape::Array,
        node: 0,
        edge: tree.root.0,
        edges_end: tree.root.1,
        element: 0,
        left: count,
    };
    loop {
        // The next value that the tree knows, or the end of the frame.
        let known = match frame.shape {
            Shape::Array => {
                let gap = match tree.edges[..frame.edges_end as usize].get(frame.edge as usize) {
                    Some(edge) => (edge.place - frame.element).min(frame.left),
                    None => frame.left,
                };
                if gap != 0 {
                    here = skip::skip_many(bytes, here, u64::from(gap)).map_err(|_| bad())?;
                    frame.element += gap;
                    frame.left -= gap;
                }
                if frame.left == 0 {
                    None
                } else {
                    frame.element += 1;
                    frame.left -= 1;
                    frame.edge += 1;
                    Some(tree.edges[frame.edge as usize - 1].node)
                }
            }
            Shape::Map => {
                if frame.left == 0 {
                    None
                } else {
                    frame.left -= 1;
                    let key = here;
                    here = skip::skip(bytes, here).map_err(|_| bad())?;
                    let child = match read::str(bytes, key) {
                        Ok((key, _)) => tree.child(&frame, key),
                        Err(_) => None,
                    };
                    if child.is_none() {
                        here = skip::skip(bytes, here).map_err(|_| bad())?;
                        continue;
                    }
                    child
                }
            }
            Shape::Every => {
                let (first, end) = tree.nodes[frame.node as usize].words;
                let words = first as usize..end as usize;
                if frame.element != 0 && missing[words.clone()].iter().any(|&word| word != 0) {
                    return Err(format.missing(tree.first_missing(missing, (first, end))));
                }
                if frame.left == 0 {
                    // Nothing is missing between elements.
                    missing[words].fill(0);
                    None
                } else {
                    missing[words.clone()].copy_from_slice(&tree.required[words]);
                    element = frame.element as usize;
                    frame.element += 1;
                    frame.left -= 1;
                    Some(tree.edges[frame.edge as usize].node)
                }
            }
            Shape::Leaf => unreachable!("a leaf has no frame"),
        };
        let Some(number) = known else {
            match stack.pop() {
                Some(outer) => frame = outer,
                None => break,
            }
            continue;
        };

        let node = &tree.nodes[number as usize];
        let Some(&byte) = bytes.get(here) else { return Err(bad()) };
        let head = HEADS[usize::from(byte)];
        let offset = (here - at) as u32;
        if !node.in_elements {
            slots[usize::from(node.rule.slot)] = offset;
        } else if node.rule.slot != format.slots {
            // The slot is the place of the extent's count, plus 1.
            extents[slots[usize::from(node.rule.slot)] as usize + element] = offset;
        }
        missing[node.word as usize] &= !node.mask;
        if head.class & node.rule.outright == 0 {
            here = format.look(number, bytes, here)?;
        } else if head.bytes != 0 && head.children == 0 && node.shape == Shape::Leaf {
            here += usize::from(head.bytes);
        } else if node.shape == Shape::Leaf || head.class == class::NIL {
            here = skip::skip(bytes, here).map_err(|_| bad())?;
        } else {
            let opened = match node.shape {
                Shape::Map => read::map(bytes, here),
                _ => read::array(bytes, here),
            };
            let (left, inside) = opened.map_err(|_| bad())?;
            here = inside;
            if node.shape == Shape::Every {
                // Each element has a byte at least: doubt the count before it costs memory.
                if left as usize > bytes.len().saturating_sub(here) {
                    return Err(bad());
                }
                let (first, end) = node.element_slots;
                for &slot in &tree.element_slots[first as usize..end as usize] {
                    if extents.len() + left as usize >= EXTENT_CELLS_MAX {
                        return Err(too_many_elements());
                    }
                    extents.push(left);
                    slots[usize::from(slot)] = extents.len() as u32;
                    extents.resize(extents.len() + left as usize, 0);
                }
            }
            stack.push(frame);
            let (edge, edges_end) = node.edges;
            frame = Frame { shape: node.shape, node: number, edge, edges_end, element: 0, left };
        }
    }
    if here > bytes.len() {
        return Err(bad());
    }
    if missing[..tree.tuple_words as usize].iter().any(|&word| word != 0) {
        return Err(format.missing(tree.first_missing(missing, (0, tree.tuple_words))));
    }
    Ok(here)
}

#[cold]
fn too_many_elements() -> TupleFault {
    let expected = format!("at most {EXTENT_CELLS_MAX} offsets of values under [*]");
    TupleFault::new(TupleFaultKind::Limit, None, expected, "more")
}
