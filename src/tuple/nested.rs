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
use super::plain::{STEPS, STR_8};
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
    /// Classes that settle the value at once: what fits outright, of a leaf that is not in an extent.
    settled: u16,
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
            // The first word is the tuple's; values that are not required strike at it as well, with an empty mask.
            required: vec![0],
            tuple_words: 1,
            element_slots: Vec::new(),
        };
        for (number, node) in (0..).zip(nodes) {
            let shape = match node.children.first().map(|&child| &nodes[child as usize].token) {
                None => Shape::Leaf,
                Some(Token::Index(_)) => Shape::Array,
                Some(Token::Key(_)) => Shape::Map,
                Some(Token::Any) => Shape::Every,
            };
            let edges = tree.add_edges(nodes, &node.children);
            let rule = node.rule(number, slots);
            let is_simple = shape == Shape::Leaf && !node.in_elements;
            tree.nodes.push(TreeNode {
                rule,
                settled: if is_simple { rule.outright } else { 0 },
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
        let first_word = if scope.is_none() { 0 } else { self.required.len() as u32 };
        let first_slot = self.element_slots.len() as u32;
        let mut bits = 0u32;
        for &(_, number) in members {
            let node = &nodes[number as usize];
            if let (Some(_), Some(slot)) = (scope, node.slot) {
                self.element_slots.push(slot);
            }
            if node.is_required() {
                let (word, mask) = (first_word + bits / 64, 1 << (bits % 64));
                if word as usize == self.required.len() {
                    self.required.push(0);
                }
                self.required[word as usize] |= mask;
                self.nodes[number as usize].word = word;
                self.nodes[number as usize].mask = mask;
                bits += 1;
            }
        }
        let words = (first_word, self.required.len() as u32);
        match scope {
            None => self.tuple_words = words.1,
            Some(array) => {
                let array = &mut self.nodes[array as usize];
                array.words = if bits == 0 { (0, 0) } else { words };
                array.element_slots = (first_slot, self.element_slots.len() as u32);
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

/// See [`Format::walk`]. Never inlined there: its registers are not for the plain walk to save.
#[inline(never)]
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
    // The first word of the missing values is all there is as a rule: it is kept in a register.
    let mut missing_first = tree.required[0];
    missing.clear();
    if tree.required.len() > 1 {
        missing.extend_from_slice(&tree.required);
    }
    stack.clear();
    // Places are offsets from the tuple's first byte: what the slots hold.
    let tuple = &bytes[at..];
    let mut here = first - at;
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
                let mut known = None;
                for edge in &tree.edges[frame.edge as usize..frame.edges_end as usize] {
                    let gap = edge.place - frame.element;
                    if gap >= frame.left {
                        break;
                    }
                    if gap != 0 {
                        here = skip::skip_many(tuple, here, u64::from(gap)).map_err(|_| bad())?;
                    }
                    frame.element = edge.place + 1;
                    frame.left -= gap + 1;
                    frame.edge += 1;
                    // The usual value is settled on the spot, as in plain; the rest goes the general way below.
                    let node = &tree.nodes[edge.node as usize];
                    let Some(&byte) = tuple.get(here) else { return Err(bad()) };
                    let step = STEPS[usize::from(byte)];
                    let length = if step.class & node.settled != 0 {
                        usize::from(step.bytes)
                    } else if byte == STR_8 && node.settled & class::STR != 0 {
                        let Some(&length) = tuple.get(here + 1) else { return Err(bad()) };
                        2 + usize::from(length)
                    } else {
                        known = Some(edge.node);
                        break;
                    };
                    slots[usize::from(node.rule.slot)] = here as u32;
                    match node.word {
                        0 => missing_first &= !node.mask,
                        word => missing[word as usize] &= !node.mask,
                    }
                    here += length;
                }
                if known.is_none() && frame.left != 0 {
                    here = skip::skip_many(tuple, here, u64::from(frame.left)).map_err(|_| bad())?;
                }
                known
            }
            Shape::Map => {
                if frame.left == 0 {
                    None
                } else {
                    frame.left -= 1;
                    let key = here;
                    here = skip::skip(tuple, here).map_err(|_| bad())?;
                    let child = match read::str(tuple, key) {
                        Ok((key, _)) => tree.child(&frame, key),
                        Err(_) => None,
                    };
                    if child.is_none() {
                        here = skip::skip(tuple, here).map_err(|_| bad())?;
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
        let Some(&byte) = tuple.get(here) else { return Err(bad()) };
        let head = HEADS[usize::from(byte)];
        let offset = here as u32;
        if !node.in_elements {
            slots[usize::from(node.rule.slot)] = offset;
        } else if node.rule.slot != format.slots {
            // The slot is the place of the extent's count, plus 1.
            extents[slots[usize::from(node.rule.slot)] as usize + element] = offset;
        }
        match node.word {
            0 => missing_first &= !node.mask,
            word => missing[word as usize] &= !node.mask,
        }
        if head.class & node.rule.outright == 0 {
            here = format.look(number, bytes, at + here)? - at;
        } else if head.bytes != 0 && head.children == 0 && node.shape == Shape::Leaf {
            here += usize::from(head.bytes);
        } else if node.shape == Shape::Leaf || head.class == class::NIL {
            here = skip::skip(tuple, here).map_err(|_| bad())?;
        } else {
            let opened = match node.shape {
                Shape::Map => read::map(tuple, here),
                _ => read::array(tuple, here),
            };
            let (left, inside) = opened.map_err(|_| bad())?;
            here = inside;
            if node.shape == Shape::Every {
                // Each element has a byte at least: doubt the count before it costs memory.
                if left as usize > tuple.len().saturating_sub(here) {
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
    if here > tuple.len() {
        return Err(bad());
    }
    let more = missing.iter().take(tree.tuple_words as usize).skip(1).any(|&word| word != 0);
    if missing_first != 0 || more {
        missing.resize(tree.required.len(), 0);
        missing[0] = missing_first;
        return Err(format.missing(tree.first_missing(missing, (0, tree.tuple_words))));
    }
    Ok(at + here)
}

#[cold]
fn too_many_elements() -> TupleFault {
    let expected = format!("at most {EXTENT_CELLS_MAX} offsets of values under [*]");
    TupleFault::new(TupleFaultKind::Limit, None, expected, "more")
}

#[cfg(test)]
mod tests {
    use super::super::field_map::{StoredTuple, encode, encoded_bytes};
    use super::super::field_type::FieldType::{self, *};
    use super::super::part::{FieldDef, PartDef};
    use super::super::path::Path;
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text.as_bytes()).unwrap().unwrap()
    }

    fn part(field: u32, field_type: FieldType, text: &str) -> PartDef {
        PartDef::new(field, field_type).at(path(text))
    }

    fn format(defined: &[FieldDef], secondary: &[&[PartDef]]) -> Format {
        let primary = [PartDef::new(0, Unsigned)];
        let keys: Vec<&[PartDef]> = std::iter::once(&primary[..]).chain(secondary.iter().copied()).collect();
        Format::new(defined, 0, &keys, false).unwrap()
    }

    /// Slots and extents, or the message.
    fn walked(format: &Format, tuple: &[u8]) -> Result<(Vec<u32>, Vec<u32>), std::string::String> {
        let mut map = FieldMapBuf::new();
        let end = format.walk(tuple, 0, &mut map).map_err(|fault| fault.into_error().to_string())?;
        assert_eq!(end, tuple.len());
        Ok((map.slots().to_vec(), map.extents().to_vec()))
    }

    /// MsgPack of a text like `[1, {a: nil}]`: numbers below 128, strings of one letter, nil, arrays and maps.
    fn pack(text: &str) -> Vec<u8> {
        let (mut bytes, mut open) = (Vec::new(), Vec::new());
        let mut rest = text;
        while let Some(symbol) = rest.chars().next() {
            let size = match symbol {
                '[' | '{' => {
                    open.push((bytes.len(), symbol));
                    bytes.push(if symbol == '[' { 0x90 } else { 0x80 });
                    rest = &rest[1..];
                    continue;
                }
                ']' | '}' => {
                    open.pop();
                    1
                }
                ',' | ':' | ' ' => {
                    rest = &rest[1..];
                    continue;
                }
                _ => rest.find([',', ']', '}', ':']).unwrap(),
            };
            let word = &rest[..size];
            rest = &rest[size..];
            let is_key = rest.starts_with(':');
            match word {
                "]" | "}" => {}
                "nil" => bytes.push(0xc0),
                _ => match word.parse::<u8>() {
                    Ok(number) => bytes.push(number),
                    Err(_) => {
                        bytes.push(0xa0 | word.len() as u8);
                        bytes.extend(word.bytes());
                    }
                },
            }
            if let Some(&(head, kind)) = open.last() {
                bytes[head] += u8::from(kind == '[' || is_key);
            }
        }
        bytes
    }

    #[test]
    fn the_short_hand_of_these_tests_packs_what_it_says() {
        assert_eq!(
            pack("[1, {a: [5, nil], 7: x}, []]"),
            [0x93, 1, 0x82, 0xa1, b'a', 0x92, 5, 0xc0, 7, 0xa1, b'x', 0x90]
        );
    }

    #[test]
    fn missing_and_nil_parents_are_taken_as_the_newest_tarantool_takes_them() {
        let strict = format(&[], &[&[part(1, Unsigned, "a.b")]]);
        let loose = format(&[], &[&[part(1, Unsigned, "a.b").nullable()]]);
        let missing = r#"field [2]["a"]["b"]: required field: expected unsigned, found nothing"#;
        let ok = "";
        let cases = [
            ("[1]", missing, ok),
            ("[1, nil]", missing, ok),
            ("[1, {}]", missing, ok),
            ("[1, {a: nil}]", missing, ok),
            ("[1, {a: {}}]", missing, ok),
            (
                "[1, {a: {b: nil}}]",
                r#"field [2]["a"]["b"]: type of the field: expected unsigned, found nil (byte 0xc0)"#,
                ok,
            ),
            (
                "[1, {a: 5}]",
                r#"field [2]["a"]: type of the field: expected map, found unsigned (byte 0x05)"#,
                r#"field [2]["a"]: type of the field: expected map, found unsigned (byte 0x05)"#,
            ),
            (
                "[1, {a: [1]}]",
                r#"field [2]["a"]: type of the field: expected map, found array (byte 0x91)"#,
                r#"field [2]["a"]: type of the field: expected map, found array (byte 0x91)"#,
            ),
            (
                "[1, [1]]",
                "field 2: type of the field: expected map, found array (byte 0x91)",
                "field 2: type of the field: expected map, found array (byte 0x91)",
            ),
            (
                "[1, {a: {b: x}}]",
                r#"field [2]["a"]["b"]: type of the field: expected unsigned, found string (byte 0xa1)"#,
                r#"field [2]["a"]["b"]: type of the field: expected unsigned, found string (byte 0xa1)"#,
            ),
            ("[1, {c: 3, a: {d: [1], b: 7}, e: x}, 8]", ok, ok),
        ];
        for (text, of_strict, of_loose) in cases {
            let tuple = pack(text);
            assert_eq!(walked(&strict, &tuple).err().unwrap_or_default(), of_strict, "{text}");
            assert_eq!(walked(&loose, &tuple).err().unwrap_or_default(), of_loose, "{text}");
        }
        assert_eq!(walked(&strict, &pack("[1, {c: 3, a: {b: 7}}]")), Ok((vec![11], vec![])));
        assert_eq!(walked(&loose, &pack("[1, {a: {b: nil}}]")), Ok((vec![8], vec![])));
        assert_eq!(walked(&loose, &pack("[1, {a: {}}]")), Ok((vec![0], vec![])));
    }

    #[test]
    fn only_the_ends_of_paths_are_required() {
        let map = FieldDef::new("m", Map);
        let format = format(&[FieldDef::new("id", Unsigned), map], &[&[part(1, Unsigned, "a").nullable()]]);
        assert!(walked(&format, &pack("[1]")).is_ok());
        assert_eq!(
            walked(&format, &pack("[1, nil]")).unwrap_err(),
            "field 2 (m): type of the field: expected map, found nil (byte 0xc0)"
        );
    }

    #[test]
    fn elements_of_a_multikey_index_have_an_extent() {
        let strict = format(&[], &[&[part(1, Unsigned, "[*]")]]);
        assert_eq!(walked(&strict, &pack("[1]")), Ok((vec![0, 0], vec![])));
        assert_eq!(walked(&strict, &pack("[1, []]")), Ok((vec![2, 1], vec![0])));
        assert_eq!(walked(&strict, &pack("[1, nil]")), Ok((vec![2, 0], vec![])));
        assert_eq!(walked(&strict, &pack("[1, [7, 8]]")), Ok((vec![2, 1], vec![2, 3, 4])));
        for (text, message) in [
            ("[1, 5]", "field 2: type of the field: expected array, found unsigned (byte 0x05)"),
            ("[1, {a: 1}]", "field 2: type of the field: expected array, found map (byte 0x81)"),
            ("[1, [7, nil]]", "field [2][*]: type of the field: expected unsigned, found nil (byte 0xc0)"),
        ] {
            assert_eq!(walked(&strict, &pack(text)).unwrap_err(), message, "{text}");
        }
    }

    #[test]
    fn every_element_has_its_required_values() {
        let strict = format(&[], &[&[part(1, Unsigned, "[*].b")]]);
        let loose = format(&[], &[&[part(1, Unsigned, "[*].b").nullable()]]);
        let missing = r#"field [2][*]["b"]: required field: expected unsigned, found nothing"#;
        for text in
            ["[1, [{}]]", "[1, [{b: 1}, {}]]", "[1, [{}, {b: 1}]]", "[1, [nil]]", "[1, [{b: 1}, nil]]"]
        {
            assert_eq!(walked(&strict, &pack(text)).unwrap_err(), missing, "{text}");
            assert!(walked(&loose, &pack(text)).is_ok(), "{text}");
        }
        assert_eq!(
            walked(&loose, &pack("[1, [7]]")).unwrap_err(),
            "field [2][*]: type of the field: expected map, found unsigned (byte 0x07)"
        );
        assert_eq!(
            walked(&loose, &pack("[1, [{b: 1}, nil, {b: nil}]]")),
            Ok((vec![2, 1], vec![3, 6, 0, 11]))
        );
        // What the elements lack is not what the tuple lacks, and the other way round.
        let both = format(&[], &[&[part(1, Unsigned, "[*].b")], &[PartDef::new(2, Unsigned)]]);
        assert_eq!(walked(&both, &pack("[1, [], 3]")), Ok((vec![2, 1, 3], vec![0])));
        assert_eq!(walked(&both, &pack("[1, nil, 3]")), Ok((vec![2, 0, 3], vec![])));
        assert_eq!(
            walked(&both, &pack("[1, []]")).unwrap_err(),
            "field 3: required field: expected unsigned, found nothing"
        );
    }

    #[test]
    fn more_than_64_required_values_are_all_required() {
        let parts: Vec<PartDef> = (1..=150).map(|n| part(1, Unsigned, &format!("[*][{n}]"))).collect();
        let format = format(&[], &[&parts]);
        for missing in [None, Some(1), Some(64), Some(65), Some(128), Some(129), Some(150)] {
            // One whole element, and one that ends before the missing value.
            let mut tuple = vec![0x92, 1, 0x92];
            for count in [150, missing.map_or(150, |missing| missing - 1)] {
                tuple.extend([0xdc, 0, count]);
                tuple.resize(tuple.len() + usize::from(count), 7);
            }
            let result = walked(&format, &tuple).map(drop);
            let message = |n| format!("field [2][*][{n}]: required field: expected unsigned, found nothing");
            assert_eq!(result.err(), missing.map(message));
        }
    }

    #[test]
    fn of_a_key_that_stands_twice_the_last_one_counts() {
        let plain = format(&[], &[&[part(1, Unsigned, "a")]]);
        assert_eq!(walked(&plain, &pack("[1, {a: 1, b: 2, a: 3}]")), Ok((vec![11], vec![])));
        // d9 01 61 is the same key.
        let longer = [0x92, 1, 0x82, 0xa1, b'a', 1, 0xd9, 1, b'a', 3];
        assert_eq!(walked(&plain, &longer), Ok((vec![9], vec![])));
        let multi = format(&[], &[&[part(1, Unsigned, "a[*]")]]);
        let (slots, extents) = walked(&multi, &pack("[1, {a: [1, 2, 3], a: [4]}]")).unwrap();
        assert_eq!((slots, extents), (vec![11, 5], vec![3, 6, 7, 8, 1, 12]));
    }

    #[test]
    fn keys_that_are_no_strings_and_unknown_ones_are_skipped() {
        let format = format(&[], &[&[part(1, Unsigned, "a"), part(1, Unsigned, "[\"1\"]")]]);
        assert_eq!(
            walked(&format, &pack("[1, {1: {a: 2}, b: [1, {}], a: 5, 1: 6}]")).unwrap_err(),
            r#"field [2]["1"]: required field: expected unsigned, found nothing"#
        );
        let tuple = [0x92, 1, 0x84, 0xc0, 0x91, 1, 0x91, 0xa1, b'a', 2, 0xa1, b'1', 3, 0xa1, b'a', 4];
        assert_eq!(walked(&format, &tuple), Ok((vec![15, 12], vec![])));
    }

    #[test]
    fn many_keys_of_one_map_are_all_found() {
        let names: Vec<std::string::String> = (0..300).map(|n| format!("k{}", n * 7919 % 1000)).collect();
        let parts: Vec<PartDef> = names.iter().map(|name| part(1, Unsigned, name)).collect();
        let format = format(&[], &[&parts]);
        let mut tuple = vec![0x92, 1, 0xde, 2, 88];
        let mut offsets = vec![0; 300];
        for (n, name) in names.iter().enumerate().rev() {
            for key in [name, &format!("x{name}")] {
                tuple.push(0xa0 | key.len() as u8);
                tuple.extend(key.bytes());
                offsets[n] = if key == name { tuple.len() as u32 } else { offsets[n] };
                tuple.push(1);
            }
        }
        assert_eq!(walked(&format, &tuple), Ok((offsets, vec![])));
    }

    #[test]
    fn fields_far_beyond_the_definitions_are_reached() {
        let format = format(&[], &[&[PartDef::new(200, Unsigned), PartDef::new(300, String).nullable()]]);
        let mut tuple = vec![0xdc, 0, 201];
        tuple.resize(3 + 201, 5);
        assert_eq!(walked(&format, &tuple), Ok((vec![203, 0], vec![])));
        tuple[2] = 200;
        tuple.pop();
        assert_eq!(
            walked(&format, &tuple).unwrap_err(),
            "field 201: required field: expected unsigned, found nothing"
        );
    }

    #[test]
    fn no_count_and_no_depth_costs_more_than_the_bytes_that_are_there() {
        let format = format(&[], &[&[part(1, Any, "[*]").nullable()], &[part(2, Any, "a.b").nullable()]]);
        let promise = [0x92, 1, 0xdd, 0xff, 0xff, 0xff, 0xff, 1];
        let mut map = FieldMapBuf::new();
        assert!(format.walk(&promise, 0, &mut map).is_err());
        assert!(map.extents.capacity() < 1000);
        let mut deep = vec![0x93, 1, 0x90];
        for _ in 0..100_000 {
            deep.extend([0x81, 0xa1, b'a']);
        }
        deep.push(0xc0);
        // The first "a" leads to a map that has no "b"; what is below is skipped.
        assert_eq!(format.walk(&deep, 0, &mut map), Ok(deep.len()));
    }

    /// A value as a tree, made by a reader of its own, to find paths in slowly.
    struct Value {
        at: usize,
        elements: Vec<Value>,
        pairs: Vec<(Option<Vec<u8>>, Value)>,
    }

    fn parse(bytes: &[u8], at: usize) -> (Value, usize) {
        let mut value = Value { at, elements: Vec::new(), pairs: Vec::new() };
        let (count, mut here) = match bytes[at] {
            head @ 0x90..=0x9f => (head & 15, at + 1),
            head @ 0x80..=0x8f => (head & 15, at + 1),
            _ => return (value, skip::skip(bytes, at).unwrap()),
        };
        for _ in 0..count {
            if bytes[at] >= 0x90 {
                let (element, end) = parse(bytes, here);
                value.elements.push(element);
                here = end;
            } else {
                let key = read::str(bytes, here).ok().map(|(key, _)| key.to_vec());
                let (inner, end) = parse(bytes, skip::skip(bytes, here).unwrap());
                value.pairs.push((key, inner));
                here = end;
            }
        }
        (value, here)
    }

    /// All values at the end of a path without [*], in the order of the bytes.
    fn find<'a>(value: &'a Value, tokens: &[Token], found: &mut Vec<&'a Value>) {
        match tokens.split_first() {
            None => found.push(value),
            Some((Token::Index(number), rest)) => {
                if let Some(element) = value.elements.get(*number as usize - 1) {
                    find(element, rest, found);
                }
            }
            Some((Token::Key(key), rest)) => {
                let known = value.pairs.iter().filter(|(other, _)| other.as_ref() == Some(key));
                known.for_each(|(_, inner)| find(inner, rest, found));
            }
            Some((Token::Any, _)) => panic!("the caller splits at [*]"),
        }
    }

    fn random_value(rng: &mut fastrand::Rng, depth: u32, out: &mut Vec<u8>) {
        match rng.u32(0..if depth == 0 { 6 } else { 16 }) {
            0 => out.push(0xc0),
            1 => out.extend([0xa1, rng.u8(b'a'..=b'c')]),
            2..6 => out.push(rng.u8(0..128)),
            6..11 => {
                let count = rng.u8(0..4);
                out.push(0x90 | count);
                (0..count).for_each(|_| random_value(rng, depth - 1, out));
            }
            _ => {
                let count = rng.u8(0..4);
                out.push(0x80 | count);
                for _ in 0..count {
                    match rng.u8(0..8) {
                        0 => out.push(1),
                        1 => out.extend([0xd9, 1, rng.u8(b'a'..=b'c')]),
                        _ => out.extend([0xa1, rng.u8(b'a'..=b'c')]),
                    }
                    random_value(rng, depth - 1, out);
                }
            }
        }
    }

    #[test]
    fn the_walk_finds_what_a_slow_search_finds() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let tokens = ["a", "b", "c", "[1]", "[2]", "[*]"];
        let (mut accepted, mut multikeys) = (0, 0);
        for _ in 0..2000 {
            // Indexes of one part each, nullable and of any type, so that tuples are refused for containers alone.
            let mut keys: Vec<[PartDef; 1]> = Vec::new();
            for _ in 0..rng.usize(1..4) {
                let mut text = std::string::String::new();
                for _ in 0..rng.u32(1..4) {
                    let stars = if text.contains('*') { 5 } else { 6 };
                    let token = tokens[rng.usize(0..stars)];
                    text += if token.starts_with('[') || text.is_empty() { "" } else { "." };
                    text += token;
                }
                keys.push([part(rng.u32(0..3), Any, &text).nullable()]);
            }
            let slices: Vec<&[PartDef]> = keys.iter().map(|key| &key[..]).collect();
            let Ok(format) = Format::new(&[], 0, &slices, false) else { continue };
            for _ in 0..20 {
                let mut tuple = vec![0x93];
                (0..3).for_each(|_| random_value(&mut rng, 4, &mut tuple));
                let mut map = FieldMapBuf::new();
                let mut damaged = tuple.clone();
                damaged[rng.usize(..tuple.len())] ^= 1 << rng.u8(0..8);
                damaged.truncate(rng.usize(tuple.len() / 2..=tuple.len()));
                if let Ok(end) = format.walk(&damaged, 0, &mut map) {
                    assert_eq!(skip::skip(&damaged, 0), Ok(end), "seed {seed}, {damaged:x?}");
                }
                let Ok(end) = format.walk(&tuple, 0, &mut map) else { continue };
                assert_eq!(end, tuple.len(), "seed {seed}");
                accepted += 1;
                let mut stored = vec![0; encoded_bytes(tuple.len(), &map)];
                encode(&mut stored, &tuple, &map);
                let stored = StoredTuple::new(&stored);
                let (value, _) = parse(&tuple, 0);
                for [part] in &keys {
                    let part_path = part.path.as_ref().unwrap();
                    let slot = format.slot(part.field, Some(part_path)).unwrap();
                    let top = &value.elements[part.field as usize];
                    let mut found = Vec::new();
                    find(top, part_path.prefix(), &mut found);
                    if !part_path.has_multikey() {
                        let last = found.last().map(|value| value.at as u32);
                        assert_eq!(stored.slot(slot), last, "seed {seed}, {part_path} in {tuple:x?}");
                        continue;
                    }
                    let array = found.iter().rev().find(|value| tuple[value.at] != 0xc0);
                    let count = array.map(|array| array.elements.len() as u32);
                    assert_eq!(stored.elements(slot), count, "seed {seed}, {part_path} in {tuple:x?}");
                    let rest = &part_path.tokens()[part_path.prefix().len() + 1..];
                    for (number, element) in
                        array.into_iter().flat_map(|array| array.elements.iter().enumerate())
                    {
                        let mut found = Vec::new();
                        find(element, rest, &mut found);
                        let last = found.last().map(|value| value.at as u32);
                        assert_eq!(
                            stored.extent(slot, number as u32),
                            last,
                            "seed {seed}, {part_path} in {tuple:x?}"
                        );
                        multikeys += 1;
                    }
                }
            }
        }
        assert!(accepted > 1000 && multikeys > 100, "seed {seed}: {accepted} tuples, {multikeys} elements");
    }

    /// A value that the type takes as a rule.
    fn fitting(rng: &mut fastrand::Rng, field_type: FieldType, out: &mut Vec<u8>) {
        let filled = |out: &mut Vec<u8>, head: &[u8], body: usize| {
            out.extend(head);
            out.resize(out.len() + body, b'x');
        };
        match rng.u8(0..40) {
            0 => return out.push(0xc0),
            1 => return random_value(rng, 3, out),
            _ => {}
        }
        match field_type {
            String if rng.u8(0..50) == 0 => filled(out, &[0xda, 0xff, 0xf0], 0xfff0),
            String if rng.bool() => filled(out, &[0xd9, 40], 40),
            String => filled(out, &[0xa3], 3),
            Varbinary => filled(out, &[0xc4, 200], 200),
            Boolean => out.push(0xc3),
            Decimal => out.extend([0xd5, 1, rng.u8(0..4), 0x1c]),
            Uuid => filled(out, &[0xd8, 2], 16),
            Array => out.extend([0x92, 1, 0x91, 2]),
            Map => out.extend([0x81, 1, 0xcd, 1, 2]),
            Integer if rng.bool() => out.extend([0xd1, 0xff, rng.u8(..)]),
            Double => out.extend([0xcb, 1, 2, 3, 4, 5, 6, 7, 8]),
            Int8 => out.extend([0xcc, rng.u8(0..140)]),
            _ if rng.bool() => out.extend([0xce, 1, 2, 3, 4]),
            _ => out.push(rng.u8(0..128)),
        }
    }

    #[test]
    fn the_plain_and_the_nested_way_agree() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let types = [
            Any, Unsigned, Integer, Number, Double, String, Varbinary, Boolean, Scalar, Decimal, Uuid, Array,
            Map, Int8,
        ];
        let (mut plain_map, mut nested_map) = (FieldMapBuf::new(), FieldMapBuf::new());
        let mut accepted = [0; 3];
        for _ in 0..1500 {
            // Few as a rule, none at times.
            let some = |rng: &mut fastrand::Rng, most: u32| {
                let most = rng.u32(0..=most);
                rng.u32(0..=most)
            };
            let defined: Vec<FieldDef> = (0..some(&mut rng, 12))
                .map(|number| {
                    let field = FieldDef::new(&number.to_string(), types[rng.usize(..types.len())]);
                    let mut field = if rng.u8(0..3) == 0 { field.nullable() } else { field };
                    field.has_default = rng.u8(0..10) == 0;
                    field
                })
                .collect();
            let keys: Vec<Vec<PartDef>> = (0..some(&mut rng, 4))
                .map(|_| {
                    let parts = (0..rng.u32(1..5)).map(|_| {
                        let number = rng.u32(0..14);
                        let field_type = defined.get(number as usize).map_or(Any, |field| field.field_type);
                        let part = PartDef::new(number, field_type);
                        if rng.bool() { part.nullable() } else { part }
                    });
                    parts.collect()
                })
                .collect();
            let keys: Vec<&[PartDef]> = keys.iter().map(|key| &key[..]).collect();
            let exact = if rng.u8(0..4) == 0 { rng.u32(1..14) } else { 0 };
            let plain = Format::new(&defined, exact, &keys, false).unwrap();
            let nested = Format::new(&defined, exact, &keys, true).unwrap();
            assert!(plain.is_plain() && !nested.is_plain());
            for _ in 0..20 {
                let known = plain.rules.len() as u32;
                let count = if exact != 0 && rng.u8(0..8) != 0 { exact } else { rng.u32(0..3) + known };
                let count = if rng.u8(0..4) == 0 { rng.u32(0..count + 1) } else { count };
                let start = rng.usize(0..3);
                let mut tuple = vec![0xee; start];
                match rng.u8(0..4) {
                    0 => tuple.extend([0xdc, 0, count as u8]),
                    _ if count < 16 => tuple.push(0x90 | count as u8),
                    _ => tuple.extend([0xdd, 0, 0, 0, count as u8]),
                }
                for number in 0..count {
                    let field_type = defined.get(number as usize).map_or(Any, |field| field.field_type);
                    fitting(&mut rng, field_type, &mut tuple);
                }
                match rng.u8(0..8) {
                    0 => tuple.truncate(rng.usize(start..tuple.len() + 1)),
                    1 => {
                        let at = rng.usize(start..tuple.len());
                        tuple[at] ^= 1 << rng.u8(0..8);
                    }
                    _ => {}
                }
                let of_plain = plain.walk(&tuple, start, &mut plain_map);
                let of_nested = nested.walk(&tuple, start, &mut nested_map);
                assert_eq!(of_plain.is_ok(), of_nested.is_ok(), "seed {seed}: {of_plain:?}, {of_nested:?}");
                let Ok(end) = of_plain else { continue };
                assert_eq!(skip::skip(&tuple, start), Ok(end), "seed {seed}");
                assert_eq!(of_nested, Ok(end), "seed {seed}");
                assert_eq!(plain_map.slots(), nested_map.slots(), "seed {seed}");
                let data = &tuple[start..end];
                let mut stored = vec![0; encoded_bytes(data.len(), &plain_map)];
                encode(&mut stored, data, &plain_map);
                accepted[usize::from(stored[0] >> 1)] += 1;
                let stored = StoredTuple::new(&stored);
                let (count, first) = read::array(data, 0).unwrap();
                for field in 0..count + 2 {
                    let slow = (field < count).then(|| skip::skip_many(data, first, field.into()).unwrap());
                    assert_eq!(stored.field(&plain, field), slow, "seed {seed}");
                    assert_eq!(stored.field(&nested, field), slow, "seed {seed}");
                }
            }
        }
        assert!(accepted.iter().all(|&accepted| accepted > 10), "seed {seed}: {accepted:?} by width");
    }
}
