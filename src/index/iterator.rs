//! How an index is walked from a key on.

use std::fmt;
use std::str::FromStr;

/// The direction of a walk over an index and where it begins; names and meanings are Tarantool's.
///
/// A key may have fewer parts than the index; then only those are compared. With an empty key all but `Req`, `Lt` and
/// `Le` walk over everything ascending, those three descending.
///
/// ```
/// use lycosa::IteratorType;
/// assert_eq!("ge".parse(), Ok(IteratorType::Ge));
/// assert_eq!(IteratorType::Req.to_string(), "REQ");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IteratorType {
    /// Equal to the key, ascending.
    Eq,
    /// Equal to the key, descending.
    Req,
    /// Everything; with a key like `Ge`.
    All,
    /// Less than the key, descending.
    Lt,
    /// Less or equal, descending.
    Le,
    /// Greater or equal, ascending.
    Ge,
    /// Greater than the key, ascending.
    Gt,
}

impl IteratorType {
    const NAMES: [(Self, &str); 7] = [
        (Self::Eq, "EQ"),
        (Self::Req, "REQ"),
        (Self::All, "ALL"),
        (Self::Lt, "LT"),
        (Self::Le, "LE"),
        (Self::Ge, "GE"),
        (Self::Gt, "GT"),
    ];
}

impl fmt::Display for IteratorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(iterator, _)| iterator == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for IteratorType {
    type Err = String;

    /// Reads a name in either case.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        found
            .map(|(iterator, _)| *iterator)
            .ok_or_else(|| format!("iterator: expected EQ, REQ, ALL, LT, LE, GE or GT, found {text}"))
    }
}
