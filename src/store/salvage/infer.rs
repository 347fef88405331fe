//! A guess at the definition of a space whose rows are there, but not what `_space` and `_index` said of it.
//!
//! The space gets the name `space_ID`, no format, and a primary key of its first fields: as few as tell the first tuples
//! apart. If later ones prove that they are too few, the guess is made again with one more.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};

use crate::msgpack::{class, look, read, skip, write};
use crate::tuple::field_type::FieldType;

/// Tuples that a guess is made from.
const TUPLES_MAX: usize = 10_000;

/// Fields that a primary key may be made of.
const FIELDS_MAX: usize = 8;

/// Some tuples of each space that no row defines.
#[derive(Default)]
pub(super) struct Samples {
    by_space: BTreeMap<u32, Sample>,
    defined: BTreeSet<u32>,
}

impl Samples {
    pub(super) fn add(&mut self, space_id: u32, tuple: &[u8], is_local: bool) {
        if !self.defined.contains(&space_id) {
            self.by_space.entry(space_id).or_default().add(tuple, is_local);
        }
    }

    /// A definition that is to come is better than any guess.
    pub(super) fn define(&mut self, space_id: u32) {
        self.by_space.remove(&space_id);
        self.defined.insert(space_id);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Sample)> {
        self.by_space.iter().map(|(&id, sample)| (id, sample))
    }

    pub(super) fn has(&self, space_id: u32) -> bool {
        self.by_space.contains_key(&space_id)
    }
}

/// Some tuples of a space.
#[derive(Default)]
pub(super) struct Sample {
    tuples: usize,
    is_local: bool,
    /// Hashes of the values of the first field, of the first two, and so on, as they stand.
    seen: Vec<HashSet<u64>>,
    hasher: RandomState,
    /// Of each of the first fields what all its values are; `None`: nothing that a key may be made of.
    types: Vec<Option<FieldType>>,
}

impl Sample {
    pub(super) fn add(&mut self, tuple: &[u8], is_local: bool) {
        self.is_local |= is_local;
        if self.tuples == TUPLES_MAX {
            return;
        }
        let Ok((count, start)) = read::array(tuple, 0) else { return };
        let fields = (count as usize).min(FIELDS_MAX);
        if self.tuples == 0 {
            self.types = vec![Some(FieldType::Unsigned); fields];
            self.seen = vec![HashSet::new(); fields];
            (0..fields).for_each(|field| {
                let at = look::element(tuple, 0, field as u32);
                self.types[field] = at.and_then(|at| type_of(tuple, at));
            });
        }
        self.tuples += 1;
        // A field that some tuple does not have is no part of a key.
        let fields = fields.min(self.types.len());
        self.types.truncate(fields);
        self.seen.truncate(fields);
        let mut at = start;
        for field in 0..fields {
            let Ok(end) = skip::skip(tuple, at) else { return };
            self.types[field] = join(self.types[field], type_of(tuple, at));
            self.seen[field].insert(self.hasher.hash_one(&tuple[start..end]));
            at = end;
        }
    }

    /// How many first fields tell the tuples apart.
    pub(super) fn parts(&self) -> usize {
        let usable = self.usable();
        (1..=usable).find(|&parts| self.seen[parts - 1].len() == self.tuples).unwrap_or(usable.max(1))
    }

    fn usable(&self) -> usize {
        self.types.iter().take_while(|of| of.is_some()).count()
    }

    /// The rows of `_space` and `_index`.
    pub(super) fn rows(&self, id: u32, parts: usize) -> (Vec<u8>, Vec<u8>) {
        let mut space = Vec::new();
        write::array(&mut space, 7);
        write::uint(&mut space, id.into());
        write::uint(&mut space, 1);
        write::str(&mut space, format!("space_{id}").as_bytes());
        write::str(&mut space, b"memtx");
        write::uint(&mut space, 0);
        if self.is_local {
            write::map(&mut space, 1);
            write::str(&mut space, b"group_id");
            write::uint(&mut space, 1);
        } else {
            write::map(&mut space, 0);
        }
        write::array(&mut space, 0);
        let mut index = Vec::new();
        write::array(&mut index, 6);
        write::uint(&mut index, id.into());
        write::uint(&mut index, 0);
        write::str(&mut index, b"primary");
        write::str(&mut index, b"tree");
        write::map(&mut index, 1);
        write::str(&mut index, b"unique");
        write::boolean(&mut index, true);
        let parts = parts.clamp(1, self.usable().max(1));
        write::array(&mut index, parts as u32);
        for field in 0..parts {
            let field_type = self.types.get(field).copied().flatten().unwrap_or(FieldType::Scalar);
            write::array(&mut index, 2);
            write::uint(&mut index, field as u64);
            write::str(&mut index, field_type.name().as_bytes());
        }
        (space, index)
    }
}

/// The narrowest type of a key part that has this value.
fn type_of(bytes: &[u8], at: usize) -> Option<FieldType> {
    let is = |class| read::is(bytes, at, class);
    if is(class::UINT) {
        Some(FieldType::Unsigned)
    } else if read::int(bytes, at).is_ok() {
        Some(FieldType::Integer)
    } else if is(class::NUMBERS) {
        Some(FieldType::Number)
    } else if is(class::STR) {
        Some(FieldType::String)
    } else if is(class::BOOL) {
        Some(FieldType::Boolean)
    } else if is(class::BIN) {
        Some(FieldType::Varbinary)
    } else if is(class::EXT) {
        Some(FieldType::Scalar)
    } else {
        None
    }
}

/// The narrowest type that has the values of both.
fn join(one: Option<FieldType>, other: Option<FieldType>) -> Option<FieldType> {
    use FieldType::{Integer, Number, Scalar, Unsigned};
    let (one, other) = (one?, other?);
    Some(match (one, other) {
        _ if one == other => one,
        (Unsigned, Integer) | (Integer, Unsigned) => Integer,
        (Unsigned | Integer | Number, Unsigned | Integer | Number) => Number,
        _ => Scalar,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::parse::from_json;

    fn sample(tuples: &[&str]) -> Sample {
        let mut sample = Sample::default();
        tuples.iter().for_each(|tuple| sample.add(&from_json(tuple).unwrap(), false));
        sample
    }

    #[test]
    fn a_key_is_as_few_fields_as_tell_tuples_apart() {
        for (tuples, parts, types) in [
            (&["[1,\"a\"]", "[2,\"a\"]"][..], 1, &["unsigned"][..]),
            (&["[1,\"a\"]", "[1,\"b\"]"], 2, &["unsigned", "string"]),
            (&["[1,\"a\"]", "[-1,\"b\"]"], 1, &["integer"]),
            (&["[1.5]", "[2]"], 1, &["number"]),
            (&["[1]", "[\"x\"]"], 1, &["scalar"]),
            // Of different lengths, longer ones first and last.
            (&["[1,2,3]", "[1,3]", "[1,4,5,6]"], 2, &["unsigned", "unsigned"]),
            (&["[1]", "[1,2]", "[1,3]"], 1, &["unsigned"]),
            // Nothing tells these apart, nor may a container be part of a key.
            (&["[1,[2]]", "[1,[3]]"], 1, &["unsigned"]),
            (&["[[1]]"], 1, &["scalar"]),
            (&["[]"], 1, &["scalar"]),
        ] {
            let sample = sample(tuples);
            assert_eq!(sample.parts(), parts, "{tuples:?}");
            let (_, index) = sample.rows(512, parts);
            let at = look::element(&index, 0, 5).unwrap();
            let found: Vec<&[u8]> = (0..parts as u32)
                .map(|part| {
                    let part = look::element(&index, at, part).unwrap();
                    read::str(&index, look::element(&index, part, 1).unwrap()).unwrap().0
                })
                .collect();
            assert_eq!(found, types.iter().map(|name| name.as_bytes()).collect::<Vec<_>>(), "{tuples:?}");
        }
    }
}
