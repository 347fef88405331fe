//! What the tuples of a space are like, field by field: types, nulls, how many different values, least and greatest,
//! lengths, and the values that are there most often.
//!
//! ```text
//! threads   each walks its share of the tuples, with counts of its own
//! integers  of 8 and 16 bits: a cell each (`counts`); so the number of different ones is exact
//! others    the first values are kept as they are; where there are too many, a sketch estimates how many there are
//! ```
//!
//! Two encodings of one integer are one value; a string and a binary of the same bytes are two.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::view::{ReadView, Space};
use crate::counts::SmallCounts;
use crate::msgpack::compare::compare;
use crate::msgpack::ext::{EXT_DATETIME, EXT_DECIMAL, EXT_UUID};
use crate::msgpack::{class, read, skip, write};
use crate::parallel;
use crate::space::definition::SpaceDef;
use crate::space::table::Table;
use crate::tuple::slab::Handle;

/// Fields of a tuple that are told apart; those behind are counted together as tuples that have more.
const FIELDS_MAX: usize = 1024;

/// Different values of a field that are kept as they are.
const VALUES_MAX: usize = 4096;

/// Bytes of a value that is kept; of a longer one only its length and hash count.
const VALUE_BYTES_MAX: usize = 256;

/// Sizes that are told apart: a tuple has less than 2^31 bytes.
const SIZES: usize = 32;

/// Tuples that a thread takes at a time.
const JOB_TUPLES: usize = 4096;

/// What a field's values are, in the order of [`FieldStats::types`].
const TYPES: [&str; 13] = [
    "nil",
    "boolean",
    "unsigned",
    "integer",
    "double",
    "string",
    "binary",
    "decimal",
    "uuid",
    "datetime",
    "array",
    "map",
    "extension",
];

/// What the values of a field are like.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldStats {
    /// Number of the field, from 0.
    pub field: u32,
    /// Its name in the space's format.
    pub name: Option<String>,
    /// Tuples that have the field.
    pub values: u64,
    /// Tuples that end before it.
    pub missing: u64,
    /// Types that were met, each with the number of its values.
    pub types: Vec<(&'static str, u64)>,
    /// Different values, nil not among them.
    pub distinct: u64,
    /// That number is exact; otherwise it is estimated, within about 2 %.
    pub is_distinct_exact: bool,
    /// The least value that is neither nil nor a container, as MsgPack, in the order of an index.
    pub min: Option<Vec<u8>>,
    /// The greatest.
    pub max: Option<Vec<u8>>,
    /// Bytes of strings and binaries, elements of arrays and maps: least, greatest and sum.
    pub lengths: Option<(u64, u64, u64)>,
    /// The values that are there most often, as MsgPack, each with its count, most often first.
    pub top: Vec<(Vec<u8>, u64)>,
    /// Each count of `top` may be less than it should be by up to so much.
    pub top_error: u64,
}

/// What the tuples of a space are like.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SpaceStats {
    /// Id of the space.
    pub id: u32,
    /// Name of the space.
    pub name: String,
    /// Tuples.
    pub tuples: u64,
    /// Bytes of their MsgPack.
    pub bytes: u64,
    /// Bytes in memory that tuples take beside that: heads, field maps, what is unused of slabs.
    pub overhead_bytes: u64,
    /// Bytes of each index, by name.
    pub index_bytes: Vec<(String, u64)>,
    /// Sizes of tuples: those of up to so many bytes, a power of 2, and more than half as many; and how many they are.
    pub sizes: Vec<(u64, u64)>,
    /// By field.
    pub fields: Vec<FieldStats>,
    /// Tuples with more fields than are told apart here.
    pub longer_tuples: u64,
}

impl ReadView {
    /// What the tuples of a space are like; `top`: how many of the most frequent values of each field are wanted;
    /// `threads`: 0 means all cores.
    ///
    /// ```
    /// let view = lycosa::Store::open("snapshots/2.6/02-one-space")?.read_view();
    /// let stats = view.stats(&view.space("users")?, 3, 1);
    /// let age = &stats.fields[2];
    /// assert_eq!((age.name.as_deref(), &age.types[..]), (Some("age"), &[("unsigned", 300)][..]));
    /// assert_eq!((age.distinct, age.is_distinct_exact), (112, true));
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    pub fn stats(&self, space: &Space<'_>, top: usize, threads: usize) -> SpaceStats {
        let Table { def, .. } = space.table;
        let handles = space.table.whole().map(|index| index.handles()).unwrap_or_default();
        let arena = &space.table.arena;
        let jobs = handles.len().div_ceil(JOB_TUPLES);
        let workers = (0..parallel::threads_for(threads, jobs)).map(|_| Counts::default()).collect();
        let hasher = RandomState::new();
        let counted = parallel::run(workers, jobs, |counts: &mut Counts, job| {
            let end = handles.len().min((job + 1) * JOB_TUPLES);
            handles[job * JOB_TUPLES..end]
                .iter()
                .for_each(|&handle: &Handle| counts.tuple(arena.get(handle).data(), &hasher));
            Ok(())
        });
        // No job fails.
        let mut parts = counted.unwrap_or_default().into_iter();
        let mut all = parts.next().unwrap_or_default();
        parts.for_each(|part| all.merge(part));
        let index_bytes: Vec<(String, u64)> = def
            .indexes
            .iter()
            .zip(&space.table.indexes)
            .filter_map(|(def, index)| Some((def.name.clone(), index.as_ref()?.bytes())))
            .collect();
        let of_indexes: u64 = index_bytes.iter().map(|(_, bytes)| bytes).sum();
        SpaceStats {
            id: def.id,
            name: def.name.clone(),
            tuples: all.tuples,
            bytes: all.bytes,
            overhead_bytes: space.table.memory_bytes().saturating_sub(all.bytes + of_indexes),
            index_bytes,
            sizes: all.sizes(),
            longer_tuples: all.longer_tuples,
            fields: (0..)
                .zip(all.fields)
                .map(|(field, counts)| counts.finish(field, def, all.tuples, top))
                .collect(),
        }
    }
}

/// What one thread has counted.
#[derive(Default)]
struct Counts {
    tuples: u64,
    bytes: u64,
    /// By the number of bits that a size needs.
    by_bits: [u64; SIZES],
    fields: Vec<FieldCounts>,
    longer_tuples: u64,
}

impl Counts {
    fn tuple(&mut self, tuple: &[u8], hasher: &RandomState) {
        self.tuples += 1;
        self.bytes += tuple.len() as u64;
        self.by_bits[bits_of(tuple.len() as u64).min(SIZES - 1)] += 1;
        let Ok((count, mut at)) = read::array(tuple, 0) else { return };
        let count = count as usize;
        self.longer_tuples += u64::from(count > FIELDS_MAX);
        while self.fields.len() < count.min(FIELDS_MAX) {
            self.fields.push(FieldCounts::default());
        }
        for field in &mut self.fields[..count.min(FIELDS_MAX)] {
            // A stored tuple has been checked.
            let Ok(end) = skip::skip(tuple, at) else { return };
            field.value(&tuple[at..end], hasher);
            at = end;
        }
    }

    fn merge(&mut self, other: Self) {
        self.tuples += other.tuples;
        self.bytes += other.bytes;
        self.longer_tuples += other.longer_tuples;
        self.by_bits.iter_mut().zip(other.by_bits).for_each(|(mine, theirs)| *mine += theirs);
        while self.fields.len() < other.fields.len() {
            self.fields.push(FieldCounts::default());
        }
        self.fields.iter_mut().zip(other.fields).for_each(|(mine, theirs)| mine.merge(theirs));
    }

    fn sizes(&self) -> Vec<(u64, u64)> {
        let sizes = (0..).zip(self.by_bits).filter(|&(_, count)| count > 0);
        sizes.map(|(bits, count)| (1u64.checked_shl(bits).unwrap_or(u64::MAX), count)).collect()
    }
}

/// The least power of 2 that is not less, as its exponent.
fn bits_of(size: u64) -> usize {
    (u64::BITS - size.saturating_sub(1).leading_zeros()) as usize
}

/// What was counted of one field.
#[derive(Default)]
struct FieldCounts {
    types: [u64; TYPES.len()],
    small: SmallCounts,
    /// By hash: how often, and the value.
    kept: HashMap<u64, (u64, Vec<u8>), Identity>,
    /// What was taken from every count when there was no room for more values.
    taken: u64,
    has_overflown: bool,
    sketch: Sketch,
    min: Vec<u8>,
    max: Vec<u8>,
    lengths: Option<(u64, u64, u64)>,
}

impl FieldCounts {
    fn value(&mut self, value: &[u8], hasher: &RandomState) {
        let kind = type_of(value);
        self.types[kind] += 1;
        let length = match TYPES[kind] {
            "nil" => return,
            "string" | "binary" => {
                Some(read::str(value, 0).or(read::bin(value, 0)).map_or(0, |(text, _)| text.len()))
            }
            "array" | "map" => {
                Some(read::array(value, 0).or(read::map(value, 0)).map_or(0, |(count, _)| count as usize))
            }
            _ => None,
        };
        if let Some(length) = length {
            self.length((length as u64, length as u64, length as u64));
        }
        if length.is_none() || matches!(TYPES[kind], "string" | "binary") {
            if self.min.is_empty() || compare(value, 0, &self.min, 0) == Ordering::Less {
                self.min = value.to_vec();
            }
            if self.max.is_empty() || compare(value, 0, &self.max, 0) == Ordering::Greater {
                self.max = value.to_vec();
            }
        }
        let mut shortest = Vec::new();
        let value = match read::int(value, 0) {
            Ok((int, _)) if i32::try_from(int).is_ok_and(|int| self.small.add(int)) => return,
            Ok((int, _)) => {
                write::int(&mut shortest, int);
                &shortest
            }
            Err(_) => value,
        };
        let hash = {
            let mut hasher = hasher.build_hasher();
            hasher.write(value);
            hasher.finish()
        };
        self.sketch.add(hash);
        self.keep(hash, 1, value);
    }

    fn length(&mut self, (least, greatest, sum): (u64, u64, u64)) {
        let (min, max, all) = self.lengths.unwrap_or((u64::MAX, 0, 0));
        self.lengths = Some((min.min(least), max.max(greatest), all.saturating_add(sum)));
    }

    /// Keeps a value, or takes as much from the counts of all that are kept.
    fn keep(&mut self, hash: u64, count: u64, value: &[u8]) {
        if let Some((kept, _)) = self.kept.get_mut(&hash) {
            *kept += count;
            return;
        }
        if self.kept.len() < VALUES_MAX {
            let value = if value.len() <= VALUE_BYTES_MAX { value.to_vec() } else { Vec::new() };
            self.kept.insert(hash, (count, value));
            return;
        }
        self.has_overflown = true;
        self.taken += count;
        self.kept.retain(|_, (kept, _)| {
            *kept = kept.saturating_sub(count);
            *kept > 0
        });
    }

    fn merge(&mut self, other: Self) {
        self.types.iter_mut().zip(other.types).for_each(|(mine, theirs)| *mine += theirs);
        self.small.merge(&other.small);
        self.sketch.merge(&other.sketch);
        self.has_overflown |= other.has_overflown;
        self.taken += other.taken;
        other.kept.into_iter().for_each(|(hash, (count, value))| self.keep(hash, count, &value));
        if !other.min.is_empty() && (self.min.is_empty() || compare(&other.min, 0, &self.min, 0).is_lt()) {
            self.min = other.min;
        }
        if !other.max.is_empty() && (self.max.is_empty() || compare(&other.max, 0, &self.max, 0).is_gt()) {
            self.max = other.max;
        }
        other.lengths.into_iter().for_each(|lengths| self.length(lengths));
    }

    fn finish(self, field: u32, def: &SpaceDef, tuples: u64, top: usize) -> FieldStats {
        let values = self.types.iter().sum();
        let small = self.small.iter().count() as u64;
        let others = if self.has_overflown { self.sketch.estimate() } else { self.kept.len() as u64 };
        let ints = self.small.iter().map(|(int, count)| {
            let mut value = Vec::new();
            write::int(&mut value, int.into());
            (value, count)
        });
        // Of a value that is too long to be kept only the count is known.
        let others_kept = self
            .kept
            .into_values()
            .map(|(count, value)| (value, count))
            .filter(|(value, _)| !value.is_empty());
        let mut counted: Vec<(Vec<u8>, u64)> = ints.chain(others_kept).collect();
        counted.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| compare(&a.0, 0, &b.0, 0)));
        counted.truncate(top);
        let some = |value: Vec<u8>| (!value.is_empty()).then_some(value);
        FieldStats {
            field,
            name: def.format.get(field as usize).map(|field| field.name.clone()),
            values,
            missing: tuples - values,
            types: TYPES.into_iter().zip(self.types).filter(|&(_, count)| count > 0).collect(),
            distinct: small + others,
            is_distinct_exact: !self.has_overflown,
            min: some(self.min),
            max: some(self.max),
            lengths: self.lengths,
            top: counted,
            top_error: self.taken,
        }
    }
}

/// Which of [`TYPES`] a value is.
fn type_of(value: &[u8]) -> usize {
    let name = match read::class_at(value, 0) {
        class::NIL => "nil",
        class::BOOL => "boolean",
        class::UINT => "unsigned",
        class::INT if read::uint(value, 0).is_ok() => "unsigned",
        class::INT => "integer",
        class::FLOAT32 | class::FLOAT64 => "double",
        class::STR => "string",
        class::BIN => "binary",
        class::ARRAY => "array",
        class::MAP => "map",
        _ => match read::ext(value, 0) {
            Ok(((EXT_DECIMAL, _), _)) => "decimal",
            Ok(((EXT_UUID, _), _)) => "uuid",
            Ok(((EXT_DATETIME, _), _)) => "datetime",
            _ => "extension",
        },
    };
    TYPES.iter().position(|&other| other == name).unwrap_or(TYPES.len() - 1)
}

/// The hashes of values are hashes already.
#[derive(Default, Clone, Copy)]
struct Identity;

impl BuildHasher for Identity {
    type Hasher = Same;

    fn build_hasher(&self) -> Same {
        Same(0)
    }
}

struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Estimates how many different hashes it was shown: HyperLogLog with 4096 registers, a standard error of 1.6 %.
#[derive(Clone, Default)]
struct Sketch {
    /// The most leading zeros of the hashes that fell into each register, and one.
    registers: Vec<u8>,
}

const REGISTER_BITS: u32 = 12;

impl Sketch {
    fn add(&mut self, hash: u64) {
        if self.registers.is_empty() {
            self.registers = vec![0; 1 << REGISTER_BITS];
        }
        let register = (hash >> (u64::BITS - REGISTER_BITS)) as usize;
        // The bit behind ends the run of zeros, however long it is.
        let zeros = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() as u8;
        self.registers[register] = self.registers[register].max(zeros + 1);
    }

    fn merge(&mut self, other: &Self) {
        if self.registers.is_empty() {
            self.registers.clone_from(&other.registers);
        }
        self.registers
            .iter_mut()
            .zip(&other.registers)
            .for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    fn estimate(&self) -> u64 {
        let registers = self.registers.len() as f64;
        if self.registers.is_empty() {
            return 0;
        }
        let sum: f64 = self.registers.iter().map(|&zeros| (-f64::from(zeros)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / sum;
        let empty = self.registers.iter().filter(|&&zeros| zeros == 0).count() as f64;
        // Few values leave registers empty, which tells more than what is in the others.
        let estimate = if estimate <= 2.5 * registers && empty > 0.0 {
            registers * (registers / empty).ln()
        } else {
            estimate
        };
        estimate.round() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::index::twin_tests::rounds::for_each_round;
    use crate::msgpack::parse::from_json;
    use crate::space::system;

    fn count(tuples: &[Vec<u8>], parts: usize) -> Counts {
        let hasher = RandomState::new();
        let mut counts: Vec<Counts> = (0..parts).map(|_| Counts::default()).collect();
        for (number, tuple) in tuples.iter().enumerate() {
            counts[number % parts].tuple(tuple, &hasher);
        }
        let mut counts = counts.into_iter();
        let mut all = counts.next().unwrap();
        counts.for_each(|part| all.merge(part));
        all
    }

    #[test]
    fn counts_are_those_of_a_map_however_many_threads_count() {
        for_each_round(60, |random| {
            let range = [3, 300, 70_000, 1 << 40][random.usize(..4)];
            let tuples: Vec<Vec<u8>> = (0..random.usize(1..1500))
                .map(|_| {
                    let value = match random.u8(..6) {
                        0 => "null".into(),
                        1 => format!("\"{}\"", random.u64(..range)),
                        2 => format!("{}.5", random.u64(..range)),
                        _ => random.i64(-(range as i64)..range as i64).to_string(),
                    };
                    from_json(&format!("[{value}]")).unwrap()
                })
                .collect();
            let mut twin: BTreeMap<&[u8], u64> = BTreeMap::new();
            tuples.iter().for_each(|tuple| *twin.entry(&tuple[1..]).or_default() += 1);
            twin.remove(&b"\xc0"[..]);
            let counts = count(&tuples, random.usize(1..4));
            let def = system::stub(system::SCHEMA_ID).unwrap();
            let [field] = counts.fields.try_into().unwrap_or_else(|_| panic!("one field"));
            let stats = field.finish(0, &def, counts.tuples, usize::MAX);
            assert_eq!((stats.distinct, stats.is_distinct_exact), (twin.len() as u64, true));
            let found: BTreeMap<&[u8], u64> =
                stats.top.iter().map(|(value, count)| (&value[..], *count)).collect();
            assert_eq!(found, twin);
            assert!(stats.top.is_sorted_by(|a, b| a.1 >= b.1));
            let least = twin.keys().min_by(|a, b| compare(a, 0, b, 0)).map(|value| value.to_vec());
            assert_eq!(stats.min, least);
        });
    }

    #[test]
    fn many_values_are_estimated_and_the_most_frequent_found() {
        let tuples: Vec<Vec<u8>> = (0..60_000u64)
            .map(|number| {
                let text = if number % 10 == 0 { "often".into() } else { format!("value {number}") };
                from_json(&format!("[\"{text}\"]")).unwrap()
            })
            .collect();
        for parts in [1, 3] {
            let mut counts = count(&tuples, parts);
            let field = counts.fields.remove(0);
            let stats = field.finish(0, &system::stub(system::SCHEMA_ID).unwrap(), counts.tuples, 1);
            assert!(!stats.is_distinct_exact);
            assert!((51_000..57_000).contains(&stats.distinct), "{}", stats.distinct);
            let (value, count) = &stats.top[0];
            assert_eq!(&value[1..], b"often");
            assert!(*count <= 6000 && count + stats.top_error >= 6000, "{count} {}", stats.top_error);
        }
    }

    #[test]
    fn sizes_are_told_by_powers_of_two() {
        for (size, power) in [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1024, 1024), (1025, 2048)] {
            assert_eq!(1u64 << bits_of(size), power, "{size}");
        }
    }
}
