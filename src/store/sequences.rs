//! Counters of sequences while logs are replayed.
//!
//! A number that a space takes from its sequence is in the tuple, and nowhere else in the log: whoever replays an INSERT or
//! REPLACE raises the counter to it, or lowers it where the sequence goes down. Snapshots have the counters as they were,
//! in `_sequence_data`.
//!
//! Counters live here while tuples come, and go back to their space before anybody looks at it.

use std::collections::HashMap;

use crate::error::Result;
use crate::msgpack::{look, read, write};
use crate::space::alter::{Catalog, Found};
use crate::space::system::{SEQUENCE_DATA_ID, SEQUENCE_ID, SPACE_SEQUENCE_ID};
use crate::tuple::path::{Path, Token};

/// The counters, and who uses which.
#[derive(Default)]
pub(super) struct Sequences {
    /// By space.
    uses: HashMap<u32, Use>,
    /// By sequence.
    counters: HashMap<u32, Counter>,
    /// What is here is as the rows of the system spaces say.
    is_known: bool,
}

/// A space that takes numbers from a sequence.
struct Use {
    sequence: u32,
    descends: bool,
    field: u32,
    path: Option<Path>,
}

#[derive(Clone, Copy)]
struct Counter {
    value: i128,
    /// Its row says something else.
    is_ahead: bool,
}

/// Whether rows of this space say what this file keeps.
pub(super) fn is_about_sequences(space_id: u32) -> bool {
    matches!(space_id, SEQUENCE_ID | SEQUENCE_DATA_ID | SPACE_SEQUENCE_ID)
}

impl Sequences {
    /// Gets ready to follow tuples.
    #[inline]
    pub(super) fn prepare(&mut self, catalog: &Catalog<'_>) {
        if !self.is_known {
            self.learn(catalog);
        }
    }

    /// A tuple came into a space.
    #[inline]
    pub(super) fn follow(&mut self, space_id: u32, tuple: &[u8]) {
        let Some(used) = self.uses.get(&space_id) else { return };
        let Some(value) = used.value(tuple) else { return };
        let counter = Counter { value, is_ahead: true };
        let known = self.counters.entry(used.sequence).or_insert(counter);
        let is_beyond = if used.descends { value < known.value } else { value > known.value };
        if is_beyond {
            *known = counter;
        }
    }

    /// Gives counters back to `_sequence_data`; afterwards its rows, and those about sequences, may change.
    ///
    /// # Errors
    /// `Memory`.
    pub(super) fn give_back(&mut self, catalog: &mut Catalog<'_>) -> Result<()> {
        self.is_known = false;
        for (sequence, counter) in self.counters.drain().filter(|(_, counter)| counter.is_ahead) {
            let Found::Table(data) = catalog.find(SEQUENCE_DATA_ID)? else { return Ok(()) };
            let mut row = Vec::new();
            write::array(&mut row, 2);
            write::uint(&mut row, sequence.into());
            write::int(&mut row, counter.value);
            data.replace(&row)?;
        }
        Ok(())
    }

    #[cold]
    fn learn(&mut self, catalog: &Catalog<'_>) {
        let rows = |id| catalog.rows(id);
        let descends: HashMap<u32, bool> = rows(SEQUENCE_ID)
            .filter_map(|row| Some((look::id(row, 0)?, int(row, look::element(row, 0, 3)?)? < 0)))
            .collect();
        let counters = rows(SEQUENCE_DATA_ID).filter_map(|row| {
            let value = int(row, look::element(row, 0, 1)?)?;
            Some((look::id(row, 0)?, Counter { value, is_ahead: false }))
        });
        self.counters = counters.collect();
        let uses = rows(SPACE_SEQUENCE_ID).filter_map(|row| {
            let (space_id, sequence) = (look::id(row, 0)?, look::id(row, 1)?);
            // Rows of 2.2.0 and older do not say which field: it is the first of the key.
            let (field, path) = match look::id(row, 3) {
                Some(field) => {
                    let path = look::element(row, 0, 4).and_then(|at| read::str(row, at).ok());
                    (field, path.and_then(|(text, _)| Path::parse(text).ok().flatten()))
                }
                None => {
                    let part = catalog.schema.space_by_id(space_id)?.primary()?.parts.first()?;
                    (part.field, part.path.clone())
                }
            };
            let descends = descends.get(&sequence).copied().unwrap_or(false);
            Some((space_id, Use { sequence, descends, field, path }))
        });
        self.uses = uses.collect();
        self.is_known = true;
    }
}

impl Use {
    /// The number of a tuple, if it is one of 64 bits with a sign.
    fn value(&self, tuple: &[u8]) -> Option<i128> {
        let mut at = look::element(tuple, 0, self.field)?;
        for token in self.path.iter().flat_map(Path::tokens) {
            at = match token {
                Token::Index(number) => look::element(tuple, at, number - 1)?,
                Token::Key(key) => look::value_of(tuple, at, key)?,
                Token::Any => return None,
            };
        }
        int(tuple, at)
    }
}

fn int(bytes: &[u8], at: usize) -> Option<i128> {
    let (value, _) = read::int(bytes, at).ok()?;
    i64::try_from(value).ok().map(i128::from)
}
