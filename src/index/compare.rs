//! The order of two values of a part. The kind is known when the key definition is made, so the common kinds skip the
//! general comparison of `msgpack`, which is their slow twin.

use std::cmp::Ordering;

use crate::msgpack::compare::compare;
use crate::msgpack::parse::KeyKind as Kind;
use crate::msgpack::read;

/// Compares the value at `a_at` in `a` with the one at `b_at` in `b`; `None` is nil, before everything.
#[inline]
pub(crate) fn compare_values(
    kind: Kind,
    a: &[u8],
    a_at: Option<usize>,
    b: &[u8],
    b_at: Option<usize>,
) -> Ordering {
    let (a_at, b_at) = match (a_at, b_at) {
        (Some(a_at), Some(b_at)) => (a_at, b_at),
        (None, None) => return Ordering::Equal,
        (None, Some(_)) => return Ordering::Less,
        (Some(_), None) => return Ordering::Greater,
    };
    match kind {
        Kind::Unsigned => {
            if let (Ok((x, _)), Ok((y, _))) = (read::uint(a, a_at), read::uint(b, b_at)) {
                return x.cmp(&y);
            }
        }
        Kind::String => {
            if let (Ok((x, _)), Ok((y, _))) = (read::str(a, a_at), read::str(b, b_at)) {
                return x.cmp(y);
            }
        }
        _ => {}
    }
    compare(a, a_at, b, b_at)
}
