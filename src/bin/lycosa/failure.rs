//! What can stop a command, and the exit code that says so.

use std::io::{self, Write};
use std::process::ExitCode;

use lycosa::ErrorKind;

use crate::print;

/// The file is damaged, or contents differ that should be equal.
pub const DAMAGED: u8 = 1;
/// The request makes no sense: unknown option, space or index, a key that does not fit.
pub const USAGE: u8 = 2;
/// What was asked for cannot be opened or is not there.
pub const CANNOT_OPEN: u8 = 3;

#[derive(Debug)]
pub enum Failure {
    /// An error of the library.
    Store(lycosa::Error),
    /// Standard output went away or is full.
    Output(io::Error),
    /// Said by the tool itself.
    Said { code: u8, text: String },
    /// Everything was said already; only the exit code is left.
    Reported { code: u8 },
}

impl From<lycosa::Error> for Failure {
    fn from(error: lycosa::Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<serde_json::Error> for Failure {
    /// Writing JSON fails only where the output does.
    fn from(error: serde_json::Error) -> Self {
        Self::Output(error.into())
    }
}

impl Failure {
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Said { code: USAGE, text: text.into() }
    }

    pub fn cannot(text: impl Into<String>) -> Self {
        Self::Said { code: CANNOT_OPEN, text: text.into() }
    }

    pub fn damaged(text: impl Into<String>) -> Self {
        Self::Said { code: DAMAGED, text: text.into() }
    }

    pub fn code(&self) -> u8 {
        match self {
            Self::Store(error) => exit_code(error.kind()),
            // Whoever reads has read enough, as `head` does: that is no error.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::Output(_) => CANNOT_OPEN,
            Self::Said { code, .. } | Self::Reported { code } => *code,
        }
    }

    /// Says on standard error what is wrong, if there is anything left to say.
    pub fn report(&self) -> ExitCode {
        match self {
            Self::Store(error) => say(&error.to_string()),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Self::Output(error) => say(&format!("cannot write to standard output: {error}")),
            Self::Said { text, .. } => say(text),
            Self::Reported { .. } => {}
        }
        ExitCode::from(self.code())
    }
}

/// A line on standard error. Names come from foreign files, so control characters are made visible: a space's name
/// must not be able to command a terminal.
pub fn say(text: &str) {
    // There is nobody to tell when standard error itself is closed.
    let _ = writeln!(io::stderr().lock(), "lycosa: {}", print::visible(text));
}

fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Usage
        | ErrorKind::NoSuchSpace
        | ErrorKind::StaleSpace
        | ErrorKind::NoSuchIndex
        | ErrorKind::Key => USAGE,
        ErrorKind::Io
        | ErrorKind::Missing
        | ErrorKind::Exists
        | ErrorKind::NotSuchFile
        | ErrorKind::Version
        | ErrorKind::Unsupported
        | ErrorKind::Memory
        | ErrorKind::Absent => CANNOT_OPEN,
        // Truncated, Checksum, Container, Compression, Limit, MsgPack, Row, RowNumber, Schema, NoSystemRows,
        // TupleFormat, DuplicateKey, and whatever a later library adds: the content is not what it should be.
        _ => DAMAGED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_the_help_text() {
        assert_eq!(exit_code(ErrorKind::Checksum), 1);
        assert_eq!(exit_code(ErrorKind::DuplicateKey), 1);
        assert_eq!(exit_code(ErrorKind::NoSuchSpace), 2);
        assert_eq!(exit_code(ErrorKind::Key), 2);
        assert_eq!(exit_code(ErrorKind::Absent), 3);
        assert_eq!(exit_code(ErrorKind::Memory), 3);
        assert_eq!(Failure::Output(io::ErrorKind::BrokenPipe.into()).code(), 0);
        assert_eq!(Failure::Output(io::ErrorKind::StorageFull.into()).code(), 3);
    }
}
