//! Which entries a tuple has in an index: one for each distinct key among the elements of a multikey index, one
//! otherwise; none where a part that excludes nil has no value.

use super::key_def::{KeyDef, KeyPart};
use crate::tuple::field_map::StoredTuple;
use std::cmp::Ordering;

/// Whether the index leaves this element of the tuple out.
#[inline]
pub(crate) fn is_excluded(key_def: &KeyDef, tuple: &StoredTuple<'_>, element: u32) -> bool {
    key_def.own().iter().any(|part| part.exclude_null && part.find(tuple, element).is_none())
}

/// Calls `entry` with the element number of each entry that the tuple has in the index (0 where it is not multikey).
///
/// Of elements with equal keys by the index's own comparison the first one stands for all.
pub(crate) fn for_each_entry(key_def: &KeyDef, tuple: &StoredTuple<'_>, entry: impl FnMut(u32)) {
    let mut elements = Vec::new();
    list_entries(key_def, tuple, &mut elements);
    elements.into_iter().for_each(entry);
}

/// The same as a list, in a buffer that is used again.
pub(crate) fn list_entries(key_def: &KeyDef, tuple: &StoredTuple<'_>, elements: &mut Vec<u32>) {
    elements.clear();
    let Some(slot) = key_def.elements else {
        if !key_def.excludes || !is_excluded(key_def, tuple, 0) {
            elements.push(0);
        }
        return;
    };
    let count = tuple.elements(slot).unwrap_or(0);
    elements.extend((0..count).filter(|&element| !is_excluded(key_def, tuple, element)));
    if elements.len() > 1 {
        elements.sort_unstable_by(|&a, &b| compare_elements(key_def.own(), tuple, a, b).then(a.cmp(&b)));
        elements.dedup_by(|b, a| compare_elements(key_def.own(), tuple, *a, *b) == Ordering::Equal);
    }
}

fn compare_elements(parts: &[KeyPart], tuple: &StoredTuple<'_>, a: u32, b: u32) -> Ordering {
    let data = tuple.data();
    parts
        .iter()
        .map(|part| part.compare(data, part.find(tuple, a), data, part.find(tuple, b)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
