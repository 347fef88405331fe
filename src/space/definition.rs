//! What a space and an index are. These are plain records: `system` fills them from rows, `catalog` decides what of
//! them is absent from memory and says why.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::index::key_def::kind_of;
use crate::msgpack::compare::compare;
use crate::msgpack::{parse, read, skip};
use crate::tuple::part::{FieldDef, PartDef};
use crate::tuple::path::{Path, Token};

/// The definition of a space, from its row in `_space` and those in `_index`.
///
/// ```no_run
/// let schema = lycosa::Schema::read("snapshots/2.6/02-one-space", &lycosa::Options::new())?;
/// let space = schema.space_by_id(512).expect("the sample has the space 512");
/// println!("{} has {} indexes", space.name, space.indexes.len());
/// # Ok::<(), lycosa::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SpaceDef {
    /// Number of the space; below 512 are the system spaces.
    pub id: u32,
    /// The user who made it.
    pub owner: u32,
    /// Its name.
    pub name: String,
    /// `memtx`, `vinyl`, `sysview`, `blackhole`, `service`, …
    pub engine: String,
    /// Fields that every tuple has; 0 where the number is free.
    pub field_count: u32,
    /// The named fields; tuples may have more.
    pub format: Vec<FieldDef>,
    /// Its indexes, in the order of their ids: the primary one, 0, first.
    pub indexes: Vec<IndexDef>,
    /// Not replicated (`group_id` 1).
    pub is_local: bool,
    /// The data, or even the definition, is not stored in files.
    pub is_temporary: bool,
    /// Replicated synchronously.
    pub is_sync: bool,
    /// An SQL view: a definition without data.
    pub is_view: bool,
    /// The flags as stored: MsgPack, a map (files of 1.6: a string).
    pub flags_raw: Vec<u8>,
    /// Why its tuples are not in memory; `None`: they are.
    pub absent: Option<String>,
}

/// The definition of an index, from its row in `_index`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct IndexDef {
    /// Number of the index in its space; 0 is the primary one.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: IndexKind,
    /// Whether two tuples may not have the same key.
    pub unique: bool,
    /// What its key is made of.
    pub parts: Vec<PartDef>,
    /// The options as stored: MsgPack, a map (files of 1.6: the number that said whether it is unique).
    pub options_raw: Vec<u8>,
    /// Why it is not in memory; `None`: it is.
    pub absent: Option<String>,
}

/// What an index is built as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IndexKind {
    /// An ordered tree.
    Tree,
    /// By hashes of keys: unique, found by whole keys only.
    Hash,
    /// Boxes in space.
    Rtree,
    /// Bits that are set.
    Bitset,
    /// A kind that no version known to this one has; such an index is absent.
    Unknown,
}

impl IndexKind {
    /// The kind by its name, in any case.
    pub(crate) fn from_name(name: &[u8]) -> Self {
        const KINDS: [IndexKind; 4] = [IndexKind::Tree, IndexKind::Hash, IndexKind::Rtree, IndexKind::Bitset];
        KINDS
            .into_iter()
            .find(|kind| kind.name().as_bytes().eq_ignore_ascii_case(name))
            .unwrap_or(Self::Unknown)
    }

    /// Its name in capitals, as Tarantool reports it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "TREE",
            Self::Hash => "HASH",
            Self::Rtree => "RTREE",
            Self::Bitset => "BITSET",
            Self::Unknown => "UNKNOWN",
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl SpaceDef {
    /// The primary index, if there is one.
    pub fn primary(&self) -> Option<&IndexDef> {
        self.indexes.first().filter(|index| index.id == 0)
    }

    /// The field, from 0, that a name or a path leads to, and the path inside it: `name`, `[2].street`, `tags[1]`.
    pub(crate) fn locate(&self, place: &str) -> Option<(u32, Option<Path>)> {
        let by_name = |name: &[u8]| {
            let field = self.format.iter().position(|field| field.name.as_bytes() == name);
            field.map(|field| field as u32)
        };
        if let Some(field) = by_name(place.as_bytes()) {
            return Some((field, None));
        }
        let path = Path::parse(place.as_bytes()).ok()??;
        let (first, below) = path.split_first()?;
        let field = match first {
            Token::Index(number) => number.checked_sub(1),
            Token::Key(name) => by_name(name),
            Token::Any => None,
        };
        Some((field?, below))
    }

    /// The index of this id.
    pub fn index_by_id(&self, id: u32) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// The index of this name.
    pub fn index_by_name(&self, name: &str) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.name == name)
    }
}

impl IndexDef {
    /// Whether a part of the key goes through all elements of an array, so that a tuple may have many keys.
    pub fn has_multikey(&self) -> bool {
        self.parts.iter().any(PartDef::has_multikey)
    }

    /// Whether a part of the key may be nil.
    pub fn is_nullable(&self) -> bool {
        self.parts.iter().any(|part| part.is_nullable)
    }

    /// A search key from a JSON array: values are converted by the types of the parts; fewer than there are parts are a
    /// prefix.
    ///
    /// # Errors
    /// `Key`: the text is no such array, or a value does not fit.
    pub fn key_from_json(&self, text: &str) -> Result<Vec<u8>> {
        let kinds: Vec<_> = self.parts.iter().map(|part| kind_of(part.field_type)).collect();
        parse::key_from_json(text, &kinds)
            .map_err(|fault| Error::new(ErrorKind::Key, format!("key from JSON: {fault}")))
    }

    /// Whether another key begins with the values of this one. Both are MsgPack arrays.
    pub fn is_key(&self, key: &[u8], other: &[u8]) -> bool {
        let places = |bytes: &[u8]| -> Vec<usize> {
            let (count, mut at) = read::array(bytes, 0).unwrap_or((0, 0));
            let mut places = Vec::new();
            for _ in 0..count {
                places.push(at);
                at = skip::skip(bytes, at).unwrap_or(bytes.len());
            }
            places
        };
        let (wanted, found) = (places(key), places(other));
        wanted.len() <= found.len()
            && wanted.iter().zip(&found).all(|(&a, &b)| compare(key, a, other, b).is_eq())
    }

    /// Whether a tuple has the values of a key in the parts of this index; not for multikey indexes.
    pub fn is_key_of(&self, key: &[u8], tuple: &[u8]) -> bool {
        let Ok((count, mut at)) = read::array(key, 0) else { return false };
        count as usize <= self.parts.len()
            && self.parts.iter().take(count as usize).all(|part| {
                let (start, found) = (at, part.place_in(tuple));
                at = skip::skip(key, at).unwrap_or(key.len());
                match found {
                    Some(found) => compare(key, start, tuple, found).is_eq(),
                    None => read::is_nil(key, start),
                }
            })
    }

    /// Whether entries with equal keys may stand side by side, and then follow the primary key.
    pub(crate) fn has_ties(&self) -> bool {
        !self.unique || self.is_nullable()
    }
}
