//! Definitions of fields and of index parts, as rows of `_space` and `_index` give them.

use super::field_type::FieldType;
use super::path::Path;
use crate::msgpack::{read, skip};

/// A field of a space's format.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldDef {
    /// Its name, unique in the space.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
    /// Whether nil is allowed, and the field may be missing at the end of a tuple.
    pub is_nullable: bool,
    /// What is to be done about nil; says the same as `is_nullable` unless it was given in words.
    pub nullable_action: NullableAction,
    /// Id of the collation by which its strings compare.
    pub collation: Option<u32>,
    /// Digits after the point of a fixed-point decimal.
    pub scale: Option<i32>,
    /// Whether it has a default, so that nil and absence are no errors.
    pub has_default: bool,
}

impl FieldDef {
    /// A field that is not nullable.
    pub(crate) fn new(name: &str, field_type: FieldType) -> Self {
        Self {
            name: name.into(),
            field_type,
            is_nullable: false,
            nullable_action: NullableAction::Default,
            collation: None,
            scale: None,
            has_default: false,
        }
    }

    /// The same, nullable.
    #[cfg(test)]
    pub(crate) fn nullable(mut self) -> Self {
        self.is_nullable = true;
        self.nullable_action = NullableAction::None;
        self
    }
}

/// A part of an index's key.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartDef {
    /// Number of the field, from 0.
    pub field: u32,
    /// Type of the value.
    pub field_type: FieldType,
    /// Where inside the field the value is; nothing: the field itself.
    pub path: Option<Path>,
    /// Whether the value may be nil or missing.
    pub is_nullable: bool,
    /// What is to be done about nil. A part of a row in array form over a nullable field is called nullable, but its
    /// action is the default one: the field is required.
    pub nullable_action: NullableAction,
    /// Whether tuples whose value is nil or missing are left out of the index.
    pub exclude_null: bool,
    /// Whether the order of this part is reversed.
    pub descending: bool,
    /// Id of the collation by which strings compare.
    pub collation: Option<u32>,
    /// Digits after the point of a fixed-point decimal.
    pub scale: Option<i32>,
}

impl PartDef {
    /// A part that is neither nullable nor descending, without a path.
    pub(crate) fn new(field: u32, field_type: FieldType) -> Self {
        Self {
            field,
            field_type,
            path: None,
            is_nullable: false,
            nullable_action: NullableAction::Default,
            exclude_null: false,
            descending: false,
            collation: None,
            scale: None,
        }
    }

    /// The same, nullable.
    #[cfg(test)]
    pub(crate) fn nullable(mut self) -> Self {
        self.is_nullable = true;
        self.nullable_action = NullableAction::None;
        self
    }

    /// The same, at a path inside the field.
    #[cfg(test)]
    pub(crate) fn at(mut self, path: Path) -> Self {
        self.path = Some(path);
        self
    }

    /// Offset of the part's value in a tuple's MsgPack, found step by step; nothing under `[*]`.
    pub(crate) fn place_in(&self, tuple: &[u8]) -> Option<usize> {
        let (count, first) = read::array(tuple, 0).ok()?;
        if self.field >= count {
            return None;
        }
        let at = skip::skip_many(tuple, first, self.field.into()).ok()?;
        self.path.as_ref().map_or(Some(at), |path| path.place_in(tuple, at))
    }

    /// Whether both stand for the same value of a tuple.
    pub(crate) fn has_place_of(&self, other: &Self) -> bool {
        self.field == other.field && self.path == other.path
    }

    /// Whether the path goes over all elements of an array.
    pub(crate) fn has_multikey(&self) -> bool {
        self.path.as_ref().is_some_and(Path::has_multikey)
    }
}

/// What is to be done when a value is nil. Everything but `None` refuses it; the words are SQL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NullableAction {
    /// Nothing: nil is fine.
    None,
    /// What the word says in SQL; nil is refused.
    Rollback,
    /// What the word says in SQL; nil is refused.
    Abort,
    /// What the word says in SQL; nil is refused.
    Fail,
    /// What the word says in SQL; nil is refused.
    Ignore,
    /// What the word says in SQL; nil is refused.
    Replace,
    /// Nil is refused, unless another definition says otherwise.
    Default,
}

impl NullableAction {
    const ALL: [Self; 7] =
        [Self::None, Self::Rollback, Self::Abort, Self::Fail, Self::Ignore, Self::Replace, Self::Default];

    /// The action of that name, in any case.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name().eq_ignore_ascii_case(name))
    }

    /// The name, as Tarantool spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rollback => "rollback",
            Self::Abort => "abort",
            Self::Fail => "fail",
            Self::Ignore => "ignore",
            Self::Replace => "replace",
            Self::Default => "default",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_known_by_name_in_any_case() {
        for action in NullableAction::ALL {
            assert_eq!(NullableAction::parse(&action.name().to_uppercase()), Some(action));
        }
        assert_eq!(NullableAction::parse("panic"), None);
    }
}
