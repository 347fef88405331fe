//! What is wrong with a tuple: its bytes, or its fields against the format. The layer that knows the file, the row
//! and the space adds them.

use crate::error::{Error, ErrorKind};
use crate::msgpack::Fault;
use std::fmt;

/// A fault of a tuple. One word wide, so that it costs the happy path nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TupleFault(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: TupleFaultKind,
    /// As Tarantool spells it: `2`, `2 (name)`, `[2]["a"]["b"]`.
    field: Option<String>,
    expected: String,
    found: String,
}

/// What kind of fault it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TupleFaultKind {
    /// The bytes are no MsgPack, or end too early.
    MsgPack(Fault),
    /// The tuple is no array.
    NotArray,
    /// The space demands another number of fields.
    FieldCount,
    /// A field that is required is not there.
    Missing,
    /// A value of another type.
    FieldType,
    /// A value that the sized type cannot hold.
    OutOfRange,
    /// An extension whose payload is not what its kind demands.
    Payload,
    /// More than this implementation can hold.
    Limit,
}

impl TupleFault {
    #[cold]
    pub(crate) fn new(
        kind: TupleFaultKind,
        field: Option<String>,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self(Box::new(Inner { kind, field, expected: expected.to_string(), found: found.to_string() }))
    }

    /// A fault of the bytes themselves.
    #[cold]
    pub(crate) fn msgpack(fault: Fault, bytes: &[u8]) -> Self {
        Self::new(TupleFaultKind::MsgPack(fault), None, fault.expected(), fault.found(bytes))
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> TupleFaultKind {
        self.0.kind
    }

    /// The error, without the place but for the field.
    pub(crate) fn into_error(self) -> Error {
        let Inner { kind, field, expected, found } = *self.0;
        let (kind, what) = match kind {
            TupleFaultKind::MsgPack(_) => (ErrorKind::MsgPack, "tuple's MsgPack"),
            TupleFaultKind::NotArray => (ErrorKind::MsgPack, "tuple"),
            TupleFaultKind::FieldCount => (ErrorKind::TupleFormat, "number of fields"),
            TupleFaultKind::Missing => (ErrorKind::TupleFormat, "required field"),
            TupleFaultKind::FieldType => (ErrorKind::TupleFormat, "type of the field"),
            TupleFaultKind::OutOfRange => (ErrorKind::TupleFormat, "value of the field"),
            TupleFaultKind::Payload => (ErrorKind::TupleFormat, "content of the field"),
            TupleFaultKind::Limit => (ErrorKind::Limit, "tuple"),
        };
        let error = Error::new(kind, what).expected(expected).found(found);
        match field {
            Some(field) => error.field(field),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::FaultKind;

    #[test]
    fn a_fault_reads_as_field_what_expected_found() {
        let fault = TupleFault::new(
            TupleFaultKind::FieldType,
            Some("2 (name)".into()),
            "unsigned",
            "string (byte 0xa1)",
        );
        assert_eq!(
            fault.into_error().to_string(),
            "field 2 (name): type of the field: expected unsigned, found string (byte 0xa1)"
        );
        let fault = TupleFault::msgpack(Fault::new(1, FaultKind::Reserved), &[0x91, 0xc1]);
        assert_eq!(fault.clone().into_error().kind(), ErrorKind::MsgPack);
        assert_eq!(size_of_val(&fault), size_of::<usize>());
    }
}
