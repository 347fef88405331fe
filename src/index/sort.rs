//! Sorting the entries of a bucket by their hints.
//!
//! A bucket lies between two splitters of a sample, so its hints are spread over their range about evenly. One pass
//! counts how many fall into each of many equal slices of the range, one puts every entry into its slice, and what is
//! left to do is to sort slices of a handful of entries:
//!
//! ```text
//! range     = greatest - least hint
//! slices    = a power of two, about one for every 4 entries
//! slice     = (hint - least) >> shift
//! place     = entries in slices before it + those of its own slice that are already there
//! then        each slice by insertion, a crowded one by the standard library's sort
//! ```
//!
//! Cost: two passes over a buffer in the second-level cache and little more, about a third of a sort by comparisons.
//! Bad at: hints that crowd into few slices; those are sorted by comparisons as all would have been.

/// Fewer entries than this are sorted at once.
const ENTRIES_MIN: usize = 64;

/// Entries a slice should have.
const SLICE_ENTRIES: usize = 4;

/// A slice of more entries than this is sorted by the standard library.
const INSERTION_MAX: usize = 24;

/// Buffers that are reused from bucket to bucket.
#[derive(Default)]
pub(crate) struct Buffers<E> {
    spread: Vec<E>,
    ends: Vec<u32>,
}

/// Sorts by `hint`. Entries of equal hints come in any order.
pub(crate) fn by_hint<E: Copy>(entries: &mut [E], buffers: &mut Buffers<E>, hint: impl Fn(&E) -> u64) {
    if entries.len() < ENTRIES_MIN || u32::try_from(entries.len()).is_err() {
        entries.sort_unstable_by_key(hint);
        return;
    }
    let (least, greatest) = entries
        .iter()
        .map(&hint)
        .fold((u64::MAX, 0), |(least, greatest), hint| (least.min(hint), greatest.max(hint)));
    let range_bits = u64::BITS - (greatest - least).leading_zeros();
    let slice_bits = (entries.len() / SLICE_ENTRIES).ilog2();
    let shift = range_bits.saturating_sub(slice_bits);
    let slice = |entry: &E| ((hint(entry) - least) >> shift) as usize;

    let Buffers { spread, ends } = buffers;
    ends.clear();
    ends.resize((1 << slice_bits) + 1, 0);
    entries.iter().for_each(|entry| ends[slice(entry)] += 1);
    // From counts to where each slice begins; putting its entries there moves that to where it ends.
    let mut begin = 0;
    for end in ends.iter_mut() {
        (*end, begin) = (begin, begin + *end);
    }
    spread.clear();
    spread.extend_from_slice(entries);
    for entry in entries.iter() {
        let end = &mut ends[slice(entry)];
        spread[*end as usize] = *entry;
        *end += 1;
    }
    entries.copy_from_slice(spread);
    let mut begin = 0;
    for &end in ends.iter() {
        let crowd = &mut entries[begin..end as usize];
        if crowd.len() > INSERTION_MAX {
            crowd.sort_unstable_by_key(&hint);
        } else {
            insert(crowd, &hint);
        }
        begin = end as usize;
    }
}

/// Sorts a few entries.
#[inline]
fn insert<E: Copy>(entries: &mut [E], hint: impl Fn(&E) -> u64) {
    for next in 1..entries.len() {
        let entry = entries[next];
        let mut at = next;
        while at > 0 && hint(&entries[at - 1]) > hint(&entry) {
            entries[at] = entries[at - 1];
            at -= 1;
        }
        entries[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slow twin is the standard library's sort.
    fn marry(hints: impl Iterator<Item = u64>) {
        let mut entries: Vec<(u64, u32)> = hints.zip(0..).collect();
        let mut expected = entries.clone();
        expected.sort_unstable();
        let mut buffers = Buffers { spread: vec![(9, 9); 3], ends: vec![7; 5] };
        by_hint(&mut entries, &mut buffers, |entry| entry.0);
        assert!(entries.is_sorted_by_key(|entry| entry.0));
        entries.sort_unstable();
        assert_eq!(entries, expected);
    }

    #[test]
    fn every_spread_of_hints_is_sorted() {
        let seed = std::env::var("LYCOSA_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| fastrand::u64(..));
        println!("LYCOSA_SEED={seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        for count in [0, 1, 2, ENTRIES_MIN - 1, ENTRIES_MIN, ENTRIES_MIN + 1, 1000, 60_000] {
            marry((0..count).map(|_| rng.u64(..)));
            marry((0..count).map(|_| rng.u64(..10)));
            marry((0..count).map(|_| 7));
            marry((0..count).map(|_| if rng.bool() { 0 } else { u64::MAX }));
            marry((0..count).map(|_| 1 << rng.u32(..64)));
            marry((0..count as u64).rev());
            marry((0..count as u64).map(|hint| u64::MAX - hint));
        }
    }
}
