//! Spaces made at random, tuples that fit them, and their indexes as plain sorted lists.
//!
//! An index is the list of its entries, sorted by key and, where equal keys stand side by side, by primary key. A
//! multikey index has an entry for each distinct key of a tuple.

#![allow(dead_code, reason = "the tests inside the crate and those of whole stores use a part each")]

use std::cmp::Ordering;
use std::collections::BTreeMap;

use fastrand::Rng;

use super::order::{Hashed, Slow, body, elements, hashed, slow};
use super::values::{Source, Type, Value, encode, pick};

/// What a field holds, and where in it the key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The value itself.
    Plain,
    /// A map with the value under `a`: path `a`.
    Map,
    /// An array whose second element is the value: path `[2]`.
    Second,
    /// An array of values: path `[*]`.
    Array,
    /// An array of maps with the value under `b`: path `[*].b`.
    Maps,
}

impl Shape {
    pub fn path(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Map => Some("a"),
            Self::Second => Some("[2]"),
            Self::Array => Some("[*]"),
            Self::Maps => Some("[*].b"),
        }
    }

    pub fn is_multikey(self) -> bool {
        matches!(self, Self::Array | Self::Maps)
    }
}

#[derive(Debug, Clone)]
pub struct Field {
    pub shape: Shape,
    /// The type of the values.
    pub field_type: Type,
    /// The type that the format says; seldom not the same.
    pub declared: Type,
    pub is_nullable: bool,
    /// The usual values, and others, maybe far from them.
    sources: [Source; 2],
}

impl Field {
    pub fn new(random: &mut Rng, shape: Shape, field_type: Type, is_nullable: bool) -> Self {
        let sources = [Source::new(random, field_type), Source::new(random, field_type)];
        Self { shape, field_type, declared: field_type, is_nullable, sources }
    }

    /// With values that seldom come twice.
    pub fn wide(random: &mut Rng, field_type: Type) -> Self {
        let sources = [Source::wide(random, field_type), Source::wide(random, field_type)];
        Self { shape: Shape::Plain, field_type, declared: field_type, is_nullable: false, sources }
    }

    /// The type's name in the format.
    pub fn format_type(&self, random: &mut Rng) -> &'static str {
        match self.shape {
            Shape::Plain => self.declared.name(),
            _ if random.bool() => "any",
            Shape::Map => "map",
            Shape::Second | Shape::Array | Shape::Maps => "array",
        }
    }

    fn value(&self, random: &mut Rng, far: bool, out: &mut Vec<u8>) {
        if self.is_nullable && random.u8(..5) == 0 {
            return out.push(0xc0);
        }
        let value = self.sources[usize::from(far)].draw(random);
        encode(random, self.field_type, &value, out);
    }

    fn write(&self, random: &mut Rng, far: bool, out: &mut Vec<u8>) {
        if self.shape != Shape::Plain && self.is_nullable && random.u8(..10) == 0 {
            return out.push(0xc0);
        }
        match self.shape {
            Shape::Plain => self.value(random, far, out),
            Shape::Map => self.map(random, far, b'a', out),
            Shape::Second => {
                if self.is_nullable && random.u8(..8) == 0 {
                    return out.extend([0x91, 0x05]);
                }
                out.extend([0x93, 0xa1, b'x']);
                self.value(random, far, out);
                out.extend([0x90]);
            }
            Shape::Array | Shape::Maps => {
                let most = if random.u8(..8) == 0 { 20 } else { 5 };
                let count = random.u8(..most);
                match count {
                    0..=15 => out.push(0x90 | count),
                    _ => out.extend([0xdc, 0, count]),
                }
                for _ in 0..count {
                    match self.shape {
                        Shape::Array => self.value(random, far, out),
                        _ => self.map(random, far, b'b', out),
                    }
                }
            }
        }
    }

    fn map(&self, random: &mut Rng, far: bool, key: u8, out: &mut Vec<u8>) {
        match random.u8(..6) {
            // Of a key that is there twice the last one counts.
            0 => {
                out.extend([0x82, 0xa1, key]);
                self.value(random, far, out);
                out.extend([0xd9, 1, key]);
                self.value(random, far, out);
            }
            1 if self.is_nullable => out.push(0x80),
            2 => {
                out.extend([0x83, 0xa1, b'z', 0x92, 1, 2, 0xa1, key]);
                self.value(random, far, out);
                out.extend([0x07, 0xa0]);
            }
            _ => {
                out.extend([0x81, 0xa1, key]);
                self.value(random, far, out);
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Part {
    pub field: usize,
    pub part_type: Type,
    pub is_nullable: bool,
    pub exclude_null: bool,
    pub descending: bool,
}

#[derive(Debug, Clone)]
pub struct Index {
    pub name: String,
    pub is_hash: bool,
    pub unique: bool,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub struct Space {
    pub id: u32,
    pub name: String,
    pub fields: Vec<Field>,
    /// The primary one first.
    pub indexes: Vec<Index>,
}

impl Space {
    /// A space of up to six fields and four indexes.
    pub fn random(random: &mut Rng, id: u32) -> Self {
        let count = random.usize(1..7);
        let mut fields: Vec<Field> = (0..count)
            .map(|_| {
                let field_type = pick(random, &Type::ALL);
                let shapes = [Shape::Map, Shape::Second, Shape::Array, Shape::Maps];
                let shape = if random.u8(..3) == 0 { pick(random, &shapes) } else { Shape::Plain };
                let is_nullable = random.u8(..3) == 0;
                Field::new(random, shape, field_type, is_nullable)
            })
            .collect();
        // The primary key needs a field that is always there and has many values.
        let at = random.usize(..=fields.len());
        let types = [Type::Unsigned, Type::Integer, Type::String, Type::Double, Type::Number, Type::Scalar];
        let field_type = pick(random, &types);
        fields.insert(at, Field::wide(random, field_type));
        let mut primary_fields: Vec<usize> = (0..fields.len())
            .filter(|&field| field != at && !fields[field].is_nullable && !fields[field].shape.is_multikey())
            .collect();
        random.shuffle(&mut primary_fields);
        primary_fields.truncate(random.usize(..3));
        let place = random.usize(..=primary_fields.len());
        primary_fields.insert(place, at);
        let primary = Index::over(random, &fields, &primary_fields, true);
        let mut space = Self { id, name: format!("space{id}"), fields, indexes: vec![primary] };
        space.indexes[0].is_hash = random.u8(..8) == 0;
        for _ in 0..random.usize(..4) {
            space.add_index(random);
        }
        if random.u8(..6) == 0 {
            space.add_odd_double(random);
        }
        space.name_indexes();
        space
    }

    /// A field of type double with a part of type number: Tarantool then takes decimals there, and parts of type double
    /// have to order them.
    fn add_odd_double(&mut self, random: &mut Rng) {
        let mut field = Field::new(random, Shape::Plain, Type::Number, false);
        field.declared = Type::Double;
        self.fields.push(field);
        let at = self.fields.len() - 1;
        for part_type in [Type::Double, Type::Number] {
            let others: Vec<usize> =
                (0..at).filter(|&field| !self.fields[field].shape.is_multikey()).collect();
            let chosen = [at, pick(random, &others)];
            let mut index = Index::over(random, &self.fields, &chosen, false);
            index.parts[0].part_type = part_type;
            // The last one decides, so that of type number comes last.
            let place = if part_type == Type::Double {
                random.usize(1..=self.indexes.len())
            } else {
                self.indexes.len()
            };
            self.indexes.insert(place, index);
        }
    }

    fn add_index(&mut self, random: &mut Rng) {
        let mut fields: Vec<usize> = (0..self.fields.len()).collect();
        random.shuffle(&mut fields);
        fields.truncate(random.usize(1..=3.min(fields.len())));
        // All multikey parts of an index share an array; here there is at most one such part.
        let mut seen = false;
        fields.retain(|&field| {
            let is_multikey = self.fields[field].shape.is_multikey();
            let keep = !(is_multikey && seen);
            seen |= is_multikey;
            keep
        });
        let unique = random.bool();
        let mut index = Index::over(random, &self.fields, &fields, unique);
        let can_hash =
            index.parts.iter().all(|part| !part.is_nullable && !self.fields[part.field].shape.is_multikey());
        if can_hash && random.u8(..4) == 0 {
            (index.is_hash, index.unique) = (true, true);
        }
        self.indexes.push(index);
    }

    /// Lets fields that count get so far.
    pub fn set_span(&mut self, span: u32) {
        self.fields.iter_mut().flat_map(|field| &mut field.sources).for_each(|source| source.span = span);
    }

    pub fn name_indexes(&mut self) {
        for (number, index) in self.indexes.iter_mut().enumerate() {
            index.name = format!("index{number}");
        }
    }

    /// A tuple of the usual values, or one of `far` values.
    pub fn tuple(&self, random: &mut Rng, far: bool) -> Vec<u8> {
        // Fields that may be missing at the end, and fields that no one knows.
        let required = self.fields.iter().rposition(|field| !field.is_nullable).map_or(0, |last| last + 1);
        let known =
            if random.u8(..5) == 0 { random.usize(required..=self.fields.len()) } else { self.fields.len() };
        let more = if known == self.fields.len() && random.u8(..5) == 0 { random.usize(..3) } else { 0 };
        let mut out = Vec::new();
        match (known + more, random.u8(..20)) {
            (count, 1..) => out.push(0x90 | count as u8),
            (count, 0) => out.extend([0xdc, 0, count as u8]),
        }
        self.fields[..known].iter().for_each(|field| field.write(random, far, &mut out));
        for _ in 0..more {
            let filler = if random.u8(..20) == 0 { random.usize(..70_000) } else { random.usize(..300) };
            encode(random, Type::String, &Value::Str(vec![b'.'; filler]), &mut out);
        }
        out
    }

    /// `count` tuples that do not contradict the unique indexes, in no order. There may be fewer where a key has not
    /// so many values.
    pub fn tuples(&self, random: &mut Rng, count: usize, far: bool) -> Vec<Vec<u8>> {
        let mut tuples: Vec<Vec<u8>> = (0..count)
            .map(|_| {
                let far = far && random.u8(..4) == 0;
                self.tuple(random, far)
            })
            .collect();
        for index in self.indexes.iter().filter(|index| index.unique) {
            let mut twins: Vec<usize> =
                self.duplicates(index, &tuples).into_iter().map(|pair| pair.1).collect();
            twins.sort_unstable();
            twins.dedup();
            for &twin in twins.iter().rev() {
                tuples.swap_remove(twin);
            }
        }
        tuples
    }

    /// Pairs of tuples with one key; the second of each of them gone, no such pair is left.
    pub fn duplicates(&self, index: &Index, tuples: &[Vec<u8>]) -> Vec<(usize, usize)> {
        if index.is_hash {
            let mut keys: BTreeMap<Vec<Hashed>, usize> = BTreeMap::new();
            let mut pairs = Vec::new();
            for (number, tuple) in tuples.iter().enumerate() {
                let first = *keys.entry(self.hashed_key(index, tuple)).or_insert(number);
                if first != number {
                    pairs.push((first, number));
                }
            }
            return pairs;
        }
        let entries = self.entries(index, tuples);
        let mut pairs = Vec::new();
        let mut first = 0;
        for number in 1..entries.len() {
            if index.conflict(&entries[first], &entries[number]) {
                pairs.push((entries[first].tuple, entries[number].tuple));
            } else {
                first = number;
            }
        }
        pairs
    }

    fn hashed_key(&self, index: &Index, tuple: &[u8]) -> Vec<Hashed> {
        let fields = elements(tuple);
        index
            .parts
            .iter()
            .map(|part| hashed(self.find(part, &fields)[0].expect("a HASH key has no nil")))
            .collect()
    }

    /// Whether the tuple has the key, in the sense of a HASH index.
    pub fn has_hashed_key(&self, index: &Index, tuple: &[u8], key: &[Vec<u8>]) -> bool {
        self.hashed_key(index, tuple).iter().zip(key).all(|(one, other)| *one == hashed(other))
    }

    /// The values of a part in a tuple: one, or one an element. Nothing where it is nil or missing.
    fn find<'a>(&self, part: &Part, fields: &[&'a [u8]]) -> Vec<Option<&'a [u8]>> {
        let shape = self.fields[part.field].shape;
        let field = fields.get(part.field).copied().unwrap_or(&[0xc0]);
        let present = |value: &'a [u8]| (value != [0xc0]).then_some(value);
        let under = |map: &'a [u8], key: &[u8]| {
            let map = elements(map);
            let pairs = map.as_chunks::<2>().0;
            let pair = pairs.iter().rev().find(|[name, _]| name[0] > 0x9f && body(name) == key);
            pair.and_then(|&[_, value]| present(value))
        };
        match shape {
            Shape::Plain => vec![present(field)],
            Shape::Map => vec![under(field, b"a")],
            Shape::Second => vec![elements(field).get(1).copied().and_then(present)],
            Shape::Array => elements(field).into_iter().map(present).collect(),
            Shape::Maps => elements(field).into_iter().map(|map| under(map, b"b")).collect(),
        }
    }

    /// The keys of a tuple: each with its element, of equal ones the first; without those that the index leaves out.
    pub fn keys(&self, index: &Index, tuple: &[u8]) -> Vec<(usize, Key)> {
        let fields = elements(tuple);
        let columns: Vec<_> = index.parts.iter().map(|part| self.find(part, &fields)).collect();
        let multikey = |part: &&Part| self.fields[part.field].shape.is_multikey();
        let count = match index.parts.iter().position(|part| multikey(&part)) {
            Some(part) => columns[part].len(),
            None => 1,
        };
        let mut keys: Vec<(usize, Key)> = (0..count)
            .map(|element| {
                let value = |(part, column): (&Part, &Vec<Option<&[u8]>>)| {
                    column[if multikey(&part) { element } else { 0 }].map_or(vec![0xc0], <[u8]>::to_vec)
                };
                (element, Key::new(index.parts.iter().zip(&columns).map(value).collect()))
            })
            .filter(|(_, key)| {
                !index
                    .parts
                    .iter()
                    .zip(&key.slow)
                    .any(|(part, value)| part.exclude_null && *value == Slow::Nil)
            })
            .collect();
        keys.sort_by(|one, other| index.compare(&one.1, &other.1));
        keys.dedup_by(|later, first| index.compare(&later.1, &first.1).is_eq());
        keys
    }

    /// All entries of a TREE index in its order.
    pub fn entries(&self, index: &Index, tuples: &[Vec<u8>]) -> Vec<Entry> {
        let primary = &self.indexes[0];
        let mut entries: Vec<Entry> = Vec::with_capacity(tuples.len());
        for (number, tuple) in tuples.iter().enumerate() {
            let tail = self.keys(primary, tuple).remove(0).1;
            let keys = self.keys(index, tuple).into_iter();
            entries.extend(keys.map(|(element, key)| Entry {
                key,
                tail: tail.clone(),
                tuple: number,
                element,
            }));
        }
        entries.sort_by(|one, other| index.order(primary, one, other));
        entries
    }

    /// A key to search with: of an entry that is there or not, and of all parts or fewer.
    pub fn search_key(&self, random: &mut Rng, index: &Index, entries: &[Entry]) -> Vec<Vec<u8>> {
        let count = random.usize(0..=index.parts.len());
        let entry = match entries.len() {
            0 => None,
            count => Some(&entries[random.usize(..count)]),
        };
        let made_up = random.u8(..4);
        (0..count)
            .map(|number| {
                let part = &index.parts[number];
                let field = &self.fields[part.field];
                let mut value = Vec::new();
                match entry {
                    Some(entry) if made_up != 0 && !(made_up == 1 && number + 1 == count) => {
                        value.extend(&entry.key.raw[number])
                    }
                    _ if !index.is_hash && random.u8(..10) == 0 => value.push(0xc0),
                    _ => {
                        let drawn = pick(random, &field.sources).draw(random);
                        encode(random, field.field_type, &drawn, &mut value);
                    }
                }
                value
            })
            .collect()
    }
}

impl Index {
    /// An index over these fields.
    pub fn over(random: &mut Rng, fields: &[Field], chosen: &[usize], unique: bool) -> Self {
        let part = |&field: &usize| {
            let Field { field_type, is_nullable, .. } = fields[field];
            Part {
                field,
                part_type: field_type.widened(random),
                is_nullable,
                exclude_null: is_nullable && random.u8(..3) == 0,
                descending: random.u8(..3) == 0,
            }
        };
        Self { name: String::new(), is_hash: false, unique, parts: chosen.iter().map(part).collect() }
    }

    /// The order of two keys.
    pub fn compare(&self, one: &Key, other: &Key) -> Ordering {
        self.compare_first(one, other, self.parts.len())
    }

    /// The order of the first parts of two keys.
    pub fn compare_first(&self, one: &Key, other: &Key, parts: usize) -> Ordering {
        let parts = self.parts.iter().zip(one.slow.iter().zip(&other.slow)).take(parts);
        parts.fold(Ordering::Equal, |order, (part, (one, other))| {
            order.then_with(|| if part.descending { other.cmp(one) } else { one.cmp(other) })
        })
    }

    /// Whether two entries cannot both be in the index.
    pub fn conflict(&self, one: &Entry, other: &Entry) -> bool {
        self.unique && !one.key.slow.contains(&Slow::Nil) && self.compare(&one.key, &other.key).is_eq()
    }

    /// The order of two entries.
    pub fn order(&self, primary: &Self, one: &Entry, other: &Entry) -> Ordering {
        let order = self.compare(&one.key, &other.key);
        match order {
            // HASH tells apart what has no order: in the end the bytes decide.
            Ordering::Equal if !self.conflict(one, other) => {
                primary.compare(&one.tail, &other.tail).then_with(|| {
                    if primary.is_hash { one.tail.raw.cmp(&other.tail.raw) } else { Ordering::Equal }
                })
            }
            order => order,
        }
    }
}

/// A key: of each part its MsgPack and its value.
#[derive(Debug, Clone)]
pub struct Key {
    pub raw: Vec<Vec<u8>>,
    pub slow: Vec<Slow>,
}

impl Key {
    pub fn new(raw: Vec<Vec<u8>>) -> Self {
        let slow = raw.iter().map(|value| slow(value)).collect();
        Self { raw, slow }
    }
}

/// The key as the MsgPack array that a search takes.
pub fn key_array(values: &[Vec<u8>]) -> Vec<u8> {
    let mut key = vec![0x90 | values.len() as u8];
    values.iter().for_each(|value| key.extend(value));
    key
}

/// An entry of an index.
#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Key,
    /// The primary key of the tuple.
    pub tail: Key,
    /// Number of the tuple in the list that the index was made of.
    pub tuple: usize,
    pub element: usize,
}
