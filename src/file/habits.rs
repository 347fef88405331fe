//! What writers of logs did that looks like damage and is none, by the version that the text header tells.
//!
//! | writer | |
//! |---|---|
//! | before 2.1.2 | there is no TSN, so every row is a transaction |
//! | before 2.1.2 (1.10.3 and later 1.10 apart) | a write that failed used up its LSNs: a gap is told as a notice |
//! | before 3.0 | rows that a replica adds for its local spaces to a transaction of its master stand behind the master's COMMIT, and all have the TSN of the NOP that closes them: together they are one transaction |

/// What the writer of a log was in the habit of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Habits {
    /// LSNs may be missing.
    pub(super) gaps: bool,
    /// Any row of a transaction may be the one whose LSN is the TSN, even one behind a COMMIT.
    pub(super) late_tsn: bool,
}

impl Habits {
    /// `writer`: what the text header says of it.
    pub(super) fn of(writer: Option<&str>) -> Self {
        let version = version_of(writer);
        Self {
            gaps: version < [2, 1, 2] && !([1, 10, 3]..[2, 0, 0]).contains(&version),
            late_tsn: version < [3, 0, 0],
        }
    }
}

/// The version of a writer, by what the text header says of it.
pub(crate) fn version_of(writer: Option<&str>) -> [u32; 3] {
    match writer {
        // Nobody before 1.7.4 said who it was.
        None => [0; 3],
        // A writer that is not Tarantool does as it does now.
        Some(text) => version(text).unwrap_or([u32::MAX; 3]),
    }
}

/// The three numbers that a version begins with.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.split(['.', '-']).map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_known_by_its_version() {
        for (text, gaps, late_tsn) in [
            (None, true, true),
            (Some("1.7.5-0-g1234567"), true, true),
            (Some("1.10.2-0-g1234567"), true, true),
            (Some("1.10.3-0-g1234567"), false, true),
            (Some("1.10.15"), false, true),
            (Some("2.0.5-0-g1234567"), true, true),
            (Some("2.1.1-400-g1234567"), true, true),
            (Some("2.1.2-0-g1234567"), false, true),
            (Some("2.11.8-0-g1234567"), false, true),
            (Some("3.0.0-alpha1"), false, false),
            (Some("3.9.0-entrypoint-12-g1234567"), false, false),
            (Some("3.9"), false, false),
            (Some("Lycosa 0.1.0"), false, false),
            (Some(""), false, false),
        ] {
            assert_eq!(Habits::of(text), Habits { gaps, late_tsn }, "{text:?}");
        }
    }
}
