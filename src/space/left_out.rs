//! A snapshot of some spaces: which rows of system spaces go when the spaces that they are about are left out.
//!
//! ```text
//! _space           (280)  id
//! _index           (288)  space id
//! _truncate        (330)  space id
//! _trigger         (328)  2nd field: space id
//! _ck_constraint   (364)  space id
//! _func_index      (372)  space id
//! _space_sequence  (340)  space id; if the sequence was made for the space alone, it goes as well:
//!   _sequence      (284)    id
//!   _sequence_data (285)    id
//! _fk_constraint   (356)  2nd field: the space that refers; 3rd: the one it refers to, which must stay if the other does
//! _priv            (312)  3rd and 4th field: 'space' or 'sequence', and an id that goes
//! ```

use std::collections::BTreeSet;

use super::system;
use crate::msgpack::look::{element, id, pairs, value_of};
use crate::msgpack::{read, skip};

const PRIV_ID: u32 = 312;
const TRIGGER_ID: u32 = 328;
pub(crate) const FK_CONSTRAINT_ID: u32 = 356;
const CK_CONSTRAINT_ID: u32 = 364;
const FUNC_INDEX_ID: u32 = 372;

/// The system spaces whose rows are about other spaces, in the order in which those go when a space is dropped.
pub(crate) fn about_spaces() -> impl Iterator<Item = u32> {
    [
        TRIGGER_ID,
        CK_CONSTRAINT_ID,
        FK_CONSTRAINT_ID,
        FUNC_INDEX_ID,
        PRIV_ID,
        system::SPACE_SEQUENCE_ID,
        system::SEQUENCE_DATA_ID,
        system::SEQUENCE_ID,
        system::INDEX_ID,
        system::TRUNCATE_ID,
        system::SPACE_ID,
    ]
    .into_iter()
}

/// Spaces that are left out, and the sequences that go with them.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    spaces: BTreeSet<u32>,
    sequences: BTreeSet<u32>,
}

impl LeftOut {
    /// `space_sequences` are the rows of `_space_sequence`.
    pub(crate) fn new<'a>(spaces: BTreeSet<u32>, space_sequences: impl Iterator<Item = &'a [u8]>) -> Self {
        let own = |row: &[u8]| {
            let is_generated =
                element(row, 0, 2).is_some_and(|at| read::boolean(row, at).is_ok_and(|(value, _)| value));
            id(row, 0).filter(|space| is_generated && spaces.contains(space)).and_then(|_| id(row, 1))
        };
        let sequences = space_sequences.filter_map(own).collect();
        Self { spaces, sequences }
    }

    /// Whether this space is left out.
    pub(crate) fn has(&self, space_id: u32) -> bool {
        self.spaces.contains(&space_id)
    }

    /// Whether a row of a system space goes.
    pub(crate) fn takes(&self, space_id: u32, row: &[u8]) -> bool {
        if self.spaces.is_empty() {
            return false;
        }
        let is_space = |number| id(row, number).is_some_and(|id| self.spaces.contains(&id));
        let is_sequence = |number| id(row, number).is_some_and(|id| self.sequences.contains(&id));
        match space_id {
            system::SPACE_ID
            | system::INDEX_ID
            | system::TRUNCATE_ID
            | system::SPACE_SEQUENCE_ID
            | CK_CONSTRAINT_ID
            | FUNC_INDEX_ID => is_space(0),
            TRIGGER_ID | FK_CONSTRAINT_ID => is_space(1),
            system::SEQUENCE_ID | system::SEQUENCE_DATA_ID => is_sequence(0),
            PRIV_ID => match element(row, 0, 2).and_then(|at| read::str(row, at).ok()) {
                Some((b"space", _)) => is_space(3),
                Some((b"sequence", _)) => is_sequence(3),
                _ => false,
            },
            _ => false,
        }
    }

    /// A space that goes although a row that stays, of `_space` or `_fk_constraint`, refers to it by a foreign key.
    pub(crate) fn missed_by(&self, space_id: u32, row: &[u8]) -> Option<u32> {
        let parents = match space_id {
            _ if self.takes(space_id, row) => return None,
            system::SPACE_ID => foreign_spaces(row),
            FK_CONSTRAINT_ID => id(row, 2).into_iter().collect(),
            _ => return None,
        };
        parents.into_iter().find(|parent| self.spaces.contains(parent))
    }
}

/// The spaces that a row of `_space` refers to by foreign keys: of the space as a whole, in its flags, and of single
/// fields, in its format.
fn foreign_spaces(row: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut of_map = |at| -> Option<()> {
        for (_, key) in pairs(row, value_of(row, at, b"foreign_key")?) {
            let space = value_of(row, key, b"space").and_then(|at| read::uint(row, at).ok());
            found.extend(space.and_then(|(id, _)| u32::try_from(id).ok()));
        }
        Some(())
    };
    if let Some(flags) = element(row, 0, 5) {
        of_map(flags);
    }
    if let Some((count, mut at)) = element(row, 0, 6).and_then(|at| read::array(row, at).ok()) {
        for _ in 0..count {
            of_map(at);
            let Ok(end) = skip::skip(row, at) else { break };
            at = end;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::parse::from_json;

    fn unjson(text: &str) -> Vec<u8> {
        from_json(text).unwrap()
    }

    fn left_out() -> LeftOut {
        // 512 has a sequence of its own, 513 uses one that stands for itself.
        let rows =
            ["[512, 1, true, 0, \"\"]", "[513, 2, false, 0, \"\"]", "[514, 3, true, 0, \"\"]"].map(unjson);
        LeftOut::new([512, 513].into(), rows.iter().map(Vec::as_slice))
    }

    #[test]
    fn rows_about_spaces_that_are_left_out_go_and_others_stay() {
        let left_out = left_out();
        for (space_id, goes, stays) in [
            (280, "[512, 1, \"a\", \"memtx\", 0, {}, []]", "[514, 1, \"c\", \"memtx\", 0, {}, []]"),
            (288, "[513, 0, \"pk\", \"tree\", {}, []]", "[514, 0, \"pk\", \"tree\", {}, []]"),
            (330, "[512, 3]", "[514, 3]"),
            (328, "[\"t\", 512, {}]", "[\"t\", 514, {}]"),
            (364, "[512, \"ck\"]", "[514, \"ck\"]"),
            (372, "[512, 1, 68]", "[514, 512, 512]"),
            (340, "[513, 2, false]", "[514, 3, true]"),
            (284, "[1, 1, \"a_seq\"]", "[2, 1, \"shared\"]"),
            (285, "[1, 100]", "[3, 512]"),
            (356, "[\"fk\", 512, 514]", "[\"fk\", 514, 515]"),
            (312, "[1, 2, \"space\", 512, 7]", "[1, 2, \"space\", 514, 7]"),
            (312, "[1, 2, \"sequence\", 1, 7]", "[1, 2, \"sequence\", 2, 7]"),
            (312, "[1, 2, \"space\", 513, 7]", "[1, 2, \"function\", 512, 7]"),
            (312, "[1, 2, \"space\", 513, 7]", "[1, 2, \"universe\", \"\", 7]"),
            (312, "[1, 2, \"space\", 513, 7]", "[1, 2, \"space\", \"\", 7]"),
        ] {
            assert!(left_out.takes(space_id, &unjson(goes)), "{space_id} {goes}");
            assert!(!left_out.takes(space_id, &unjson(stays)), "{space_id} {stays}");
            assert!(!LeftOut::default().takes(space_id, &unjson(goes)), "{space_id} {goes}");
        }
    }

    #[test]
    fn a_foreign_key_to_a_space_that_is_left_out_is_noticed() {
        let left_out = left_out();
        for (space_id, row, missed) in [
            (356, "[\"fk\", 514, 512]", Some(512)),
            (356, "[\"fk\", 513, 512]", None),
            (
                280,
                "[514, 1, \"c\", \"memtx\", 0, {\"foreign_key\": {\"k\": {\"space\": 513, \"field\": {}}}}, []]",
                Some(513),
            ),
            (280, "[514, 1, \"c\", \"memtx\", 0, {\"foreign_key\": {\"k\": {\"field\": {}}}}, []]", None),
            (
                280,
                "[514, 1, \"c\", \"memtx\", 0, {}, [{\"name\": \"a\"}, {\"name\": \"b\", \"foreign_key\": {\"k\": {\"space\": 512}}}]]",
                Some(512),
            ),
            (280, "[512, 1, \"a\", \"memtx\", 0, {\"foreign_key\": {\"k\": {\"space\": 513}}}, []]", None),
            (280, "[514, 1, \"c\", \"memtx\", 0]", None),
        ] {
            assert_eq!(left_out.missed_by(space_id, &unjson(row)), missed, "{row}");
        }
    }
}
