//! What one store has that another has not: definitions and tuples, space by space, by primary key.
//!
//! Both are in the order of the key, so one walk over both finds all: tuples that are the same byte for byte, which nearly
//! all are, are not even looked into. Where the primary keys differ, or have no order, tuples are sorted first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::view::{ReadView, Tuple};
use crate::error::Result;
use crate::index::key_def::KeyPart;
use crate::limits::SYSTEM_SPACE_ID_END;
use crate::space::definition::{IndexDef, IndexKind, SpaceDef};
use crate::space::table::{IndexData, Table};
use crate::tuple::field_map::StoredTuple;
use crate::tuple::part::{FieldDef, PartDef};

/// A tuple that is not the same in both stores.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// The other store alone has the key.
    Added(Tuple<'a>),
    /// The first store alone has the key.
    Removed(Tuple<'a>),
    /// Both have the key, with different tuples: that of the first store, and that of the other.
    Changed(Tuple<'a>, Tuple<'a>),
}

/// How a space differs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SpaceDiff {
    /// Its name in the other store, or in the first if that alone has it.
    pub name: String,
    /// Its id in the first store.
    pub id: Option<u32>,
    /// Its id in the other store.
    pub other_id: Option<u32>,
    /// How its definitions differ, a line each.
    pub schema: Vec<String>,
    /// Keys that the other store alone has.
    pub added: u64,
    /// Keys that the first store alone has.
    pub removed: u64,
    /// Keys with different tuples.
    pub changed: u64,
    /// Keys with the same tuple.
    pub same: u64,
    /// Why tuples were not compared, if they were not.
    pub not_compared: Option<String>,
}

impl SpaceDiff {
    /// Whether nothing differs, as far as it was compared.
    pub fn is_same(&self) -> bool {
        self.schema.is_empty() && (self.added, self.removed, self.changed) == (0, 0, 0)
    }
}

impl ReadView {
    /// Compares with another store: user spaces, or system spaces as well, that have the same name, or else the same id.
    /// `each` hears of every tuple that differs, in the order of the primary key, space by space.
    ///
    /// ```
    /// use lycosa::{Options, Store};
    ///
    /// let folder = "snapshots/2.6/36-xlog-ops/data";
    /// let before = Store::open_with(folder, &Options::new().snapshot_only(true))?.read_view();
    /// let now = Store::open(folder)?.read_view();
    /// let mut lines = 0;
    /// let spaces = before.diff(&now, false, |_space, _change| {
    ///     lines += 1;
    ///     Ok(())
    /// })?;
    /// let ops = &spaces[0];
    /// assert_eq!(lines, ops.added + ops.removed + ops.changed);
    /// assert!(!ops.is_same() && ops.schema.is_empty());
    /// # Ok::<(), lycosa::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `each`.
    pub fn diff<E>(
        &self,
        other: &Self,
        system: bool,
        mut each: impl FnMut(&SpaceDef, Change<'_>) -> Result<(), E>,
    ) -> Result<Vec<SpaceDiff>, E> {
        let mut diffs = Vec::new();
        for (one, two) in self.pairs(other, system) {
            let def = two.or(one).expect("a pair has at least one");
            let mut diff = SpaceDiff {
                name: def.name.clone(),
                id: one.map(|def| def.id),
                other_id: two.map(|def| def.id),
                ..SpaceDiff::default()
            };
            diff.schema = schema_lines(one, two);
            let tables = [(self, one), (other, two)].map(|(store, def)| store.side(def));
            match tables {
                [Ok(one), Ok(two)] => walk(one, two, &mut diff, |change| each(def, change))?,
                [Err(why), _] | [_, Err(why)] => diff.not_compared = Some(why),
            }
            diffs.push(diff);
        }
        Ok(diffs)
    }

    /// Spaces that belong together.
    fn pairs<'a>(
        &'a self,
        other: &'a Self,
        system: bool,
    ) -> Vec<(Option<&'a SpaceDef>, Option<&'a SpaceDef>)> {
        let is_wanted = |def: &&SpaceDef| system || def.id >= SYSTEM_SPACE_ID_END;
        let list = |store: &'a Self| -> BTreeMap<u32, &'a SpaceDef> {
            store.state.schema.spaces().iter().filter(is_wanted).map(|def| (def.id, def)).collect()
        };
        let (mut ones, mut twos) = (list(self), list(other));
        let mut pairs = Vec::new();
        let names: BTreeMap<&str, u32> = twos.values().map(|def| (def.name.as_str(), def.id)).collect();
        for one in list(self).into_values() {
            if let Some(two) = names.get(one.name.as_str()).and_then(|id| twos.remove(id)) {
                ones.remove(&one.id);
                pairs.push((Some(one), Some(two)));
            }
        }
        for (id, one) in ones {
            pairs.push((Some(one), twos.remove(&id)));
        }
        pairs.extend(twos.into_values().map(|two| (None, Some(two))));
        pairs.sort_by_key(|&(one, two)| two.or(one).map(|def| def.id));
        pairs
    }

    /// The tuples of a space, if they are to be compared: none of one that is not there, or keeps none.
    fn side(&self, def: Option<&SpaceDef>) -> Result<Option<&Table>, String> {
        let Some(def) = def else { return Ok(None) };
        if def.primary().is_none() || def.is_view || def.is_temporary {
            return Ok(None);
        }
        if let Some(why) = &def.absent {
            return Err(why.clone());
        }
        let table = self.state.tables.get(def.id).ok_or_else(|| "it was not loaded".to_owned())?;
        match table.whole() {
            Some(_) => Ok(Some(table)),
            None => Err(def.primary().and_then(|primary| primary.absent.clone()).unwrap_or_default()),
        }
    }
}

/// What both sides have, key by key.
fn walk<E>(
    one: Option<&Table>,
    two: Option<&Table>,
    diff: &mut SpaceDiff,
    mut each: impl FnMut(Change<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let pair = one.zip(two);
    let tell = |x: Option<StoredTuple<'_>>, y: Option<StoredTuple<'_>>| {
        let old = x.zip(one).map(|(stored, table)| Tuple { table, stored });
        let new = y.zip(two).map(|(stored, table)| Tuple { table, stored });
        let (count, change) = match (old, new) {
            (None, None) => return Ok(()),
            (None, Some(new)) => (&mut diff.added, Change::Added(new)),
            (Some(old), None) => (&mut diff.removed, Change::Removed(old)),
            (Some(old), Some(new)) if old.bytes() == new.bytes() => {
                diff.same += 1;
                return Ok(());
            }
            (Some(old), Some(new)) => (&mut diff.changed, Change::Changed(old, new)),
        };
        *count += 1;
        each(change)
    };
    match pair.and_then(|(one, two)| Keys::of(one, two)) {
        Some(keys) if keys.is_ordered => {
            merge(keys.one.all(), keys.two.all(), |a, b| keys.compare(a, b), tell)
        }
        Some(keys) => {
            let [mut ones, mut twos] = [keys.one, keys.two].map(|index| index.all().collect::<Vec<_>>());
            ones.sort_by(|a, b| compare(keys.one.key_def.own(), a, keys.one.key_def.own(), b));
            twos.sort_by(|a, b| compare(keys.two.key_def.own(), a, keys.two.key_def.own(), b));
            merge(ones.into_iter(), twos.into_iter(), |a, b| keys.compare(a, b), tell)
        }
        None => {
            let [mut ones, mut twos] = [one, two].map(|table| {
                table.and_then(Table::whole).into_iter().flat_map(IndexData::all).collect::<Vec<_>>()
            });
            // One side alone is told as it is; without a common key a tuple is its own.
            if pair.is_some() {
                ones.sort_by_key(|tuple| tuple.data());
                twos.sort_by_key(|tuple| tuple.data());
            }
            merge(ones.into_iter(), twos.into_iter(), |a, b| a.data().cmp(b.data()), tell)
        }
    }
}

/// Walks over two lists in the order of `compare`; what is equal goes to `tell` together.
fn merge<'a, E>(
    mut ones: impl Iterator<Item = StoredTuple<'a>>,
    mut twos: impl Iterator<Item = StoredTuple<'a>>,
    compare: impl Fn(&StoredTuple<'_>, &StoredTuple<'_>) -> Ordering,
    mut tell: impl FnMut(Option<StoredTuple<'a>>, Option<StoredTuple<'a>>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut one, mut two) = (ones.next(), twos.next());
    loop {
        let order = match (&one, &two) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            // The same bytes have the same key.
            (Some(a), Some(b)) if a.data() == b.data() => Ordering::Equal,
            (Some(a), Some(b)) => compare(a, b),
        };
        let old = if order.is_le() { std::mem::replace(&mut one, ones.next()) } else { None };
        let new = if order.is_ge() { std::mem::replace(&mut two, twos.next()) } else { None };
        tell(old, new)?;
    }
}

/// Primary keys that are alike.
struct Keys<'a> {
    one: &'a IndexData,
    two: &'a IndexData,
    /// Both list their tuples in the order of the key.
    is_ordered: bool,
}

impl<'a> Keys<'a> {
    fn of(one: &'a Table, two: &'a Table) -> Option<Self> {
        let (this, that) = (one.def.primary()?, two.def.primary()?);
        let is_ordered = this.kind == IndexKind::Tree && that.kind == IndexKind::Tree;
        let same = this.parts == that.parts;
        let (one, two) = (one.primary()?, two.primary()?);
        same.then_some(Self { one, two, is_ordered })
    }

    fn compare(&self, one: &StoredTuple<'_>, two: &StoredTuple<'_>) -> Ordering {
        compare(self.one.key_def.own(), one, self.two.key_def.own(), two)
    }
}

/// The order of tuples of two spaces, each with the parts as they are found in its tuples.
fn compare(
    parts: &[KeyPart],
    one: &StoredTuple<'_>,
    other_parts: &[KeyPart],
    two: &StoredTuple<'_>,
) -> Ordering {
    let parts = parts.iter().zip(other_parts);
    let orders = parts
        .map(|(part, other)| part.compare(one.data(), part.find(one, 0), two.data(), other.find(two, 0)));
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// How definitions differ.
fn schema_lines(one: Option<&SpaceDef>, two: Option<&SpaceDef>) -> Vec<String> {
    let (one, two) = match (one, two) {
        (Some(one), Some(two)) => (one, two),
        (None, Some(_)) => return vec!["the space is new".into()],
        (Some(_), None) => return vec!["the space is gone".into()],
        (None, None) => return Vec::new(),
    };
    let mut lines = Lines(Vec::new());
    lines.add("name", &one.name, &two.name);
    lines.add("id", one.id, two.id);
    lines.add("owner", one.owner, two.owner);
    lines.add("engine", &one.engine, &two.engine);
    lines.add("field_count", one.field_count, two.field_count);
    lines.add("local", one.is_local, two.is_local);
    lines.add("temporary", one.is_temporary, two.is_temporary);
    lines.add("synchronous", one.is_sync, two.is_sync);
    lines.add("view", one.is_view, two.is_view);
    for number in 0..one.format.len().max(two.format.len()) {
        let [old, new] = [one, two].map(|def| def.format.get(number).map_or("none".into(), field_text));
        lines.add(&format!("field {}", number + 1), old, new);
    }
    let ids: BTreeSet<u32> = one.indexes.iter().chain(&two.indexes).map(|index| index.id).collect();
    for id in ids {
        let [old, new] = [one, two].map(|def| def.index_by_id(id).map_or("none".into(), index_text));
        lines.add(&format!("index {id}"), old, new);
    }
    lines.0
}

struct Lines(Vec<String>);

impl Lines {
    fn add<T: PartialEq + Display>(&mut self, what: &str, old: T, new: T) {
        if old != new {
            self.0.push(format!("{what}: {old} -> {new}"));
        }
    }
}

fn field_text(field: &FieldDef) -> String {
    let nullable = if field.is_nullable { ", nullable" } else { "" };
    let collation = field.collation.map_or_else(String::new, |id| format!(", collation {id}"));
    format!("{} {}{nullable}{collation}", field.name, field.field_type.name())
}

fn index_text(index: &IndexDef) -> String {
    let unique = if index.unique { "unique" } else { "not unique" };
    let parts: Vec<String> = index.parts.iter().map(part_text).collect();
    format!("{} {} {unique} [{}]", index.name, index.kind.name(), parts.join("; "))
}

fn part_text(part: &PartDef) -> String {
    let mut text = (part.field + 1).to_string();
    if let Some(path) = &part.path {
        text += &format!("{path}");
    }
    text += &format!(" {}", part.field_type.name());
    for (is_so, word) in
        [(part.is_nullable, ", nullable"), (part.exclude_null, ", exclude_null"), (part.descending, ", desc")]
    {
        text += if is_so { word } else { "" };
    }
    text + &part.collation.map_or_else(String::new, |id| format!(", collation {id}"))
}
