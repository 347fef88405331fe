//! Types of fields: what each accepts, as masks of classes, and which type is narrower than which.
//!
//! Most values are judged by their first byte alone: its class is one that the type accepts outright, or one that it
//! refuses, or one that needs a look at the value (the range of a sized integer, the kind of an extension). Where
//! Tarantool's versions differ, a type accepts what any of them accepts.

use crate::msgpack::class::{self, INTEGERS, NUMBERS};
use crate::msgpack::decimal;
use crate::msgpack::ext::{self, EXT_DATETIME, EXT_DECIMAL, EXT_INTERVAL, EXT_UUID};
use crate::msgpack::read;
use std::fmt;

/// The type of a field or of an index part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldType {
    /// Any value.
    Any,
    /// A non-negative integer.
    Unsigned,
    /// An integer.
    Integer,
    /// An integer, a float or a decimal.
    Number,
    /// A float, or an integer.
    Double,
    /// A string; its bytes need not be UTF-8.
    String,
    /// Binary data.
    Varbinary,
    /// True or false.
    Boolean,
    /// Any value that has an order: booleans, numbers, strings, binary data, UUIDs, datetimes.
    Scalar,
    /// A decimal.
    Decimal,
    /// A UUID.
    Uuid,
    /// A moment.
    Datetime,
    /// A span of calendar time.
    Interval,
    /// An array.
    Array,
    /// A map.
    Map,
    /// An integer of 8 bits.
    Int8,
    /// An integer of 16 bits.
    Int16,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A non-negative integer of 8 bits.
    Uint8,
    /// A non-negative integer of 16 bits.
    Uint16,
    /// A non-negative integer of 32 bits.
    Uint32,
    /// A non-negative integer of 64 bits.
    Uint64,
    /// A float of single precision.
    Float32,
    /// A float of double precision.
    Float64,
    /// A decimal of 9 digits, some of them after the point.
    Decimal32,
    /// A decimal of 18 digits, some of them after the point.
    Decimal64,
    /// A decimal of 38 digits, some of them after the point.
    Decimal128,
    /// A decimal of 76 digits, some of them after the point.
    Decimal256,
}

use FieldType::*;

/// Every type with its name.
const NAMES: [(FieldType, &str); 29] = [
    (Any, "any"),
    (Unsigned, "unsigned"),
    (Integer, "integer"),
    (Number, "number"),
    (Double, "double"),
    (String, "string"),
    (Varbinary, "varbinary"),
    (Boolean, "boolean"),
    (Scalar, "scalar"),
    (Decimal, "decimal"),
    (Uuid, "uuid"),
    (Datetime, "datetime"),
    (Interval, "interval"),
    (Array, "array"),
    (Map, "map"),
    (Int8, "int8"),
    (Int16, "int16"),
    (Int32, "int32"),
    (Int64, "int64"),
    (Uint8, "uint8"),
    (Uint16, "uint16"),
    (Uint32, "uint32"),
    (Uint64, "uint64"),
    (Float32, "float32"),
    (Float64, "float64"),
    (Decimal32, "decimal32"),
    (Decimal64, "decimal64"),
    (Decimal128, "decimal128"),
    (Decimal256, "decimal256"),
];

/// Names that old files use.
const ALIASES: [(FieldType, &str); 3] = [(Unsigned, "num"), (String, "str"), (Any, "*")];

/// Why a value that was looked at does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is of another type.
    Type,
    /// It is of the right type, but outside what the type can hold.
    Range,
    /// It is an extension whose payload is not what its kind demands: what was expected.
    Payload(&'static str),
}

impl FieldType {
    /// The type of that name, in any case; `num`, `str` and `*` are the old names of three of them.
    pub fn parse(name: &str) -> Option<Self> {
        let known = |(_, known): &&(Self, &str)| known.eq_ignore_ascii_case(name);
        NAMES.iter().find(known).or_else(|| ALIASES.iter().find(known)).map(|&(field_type, _)| field_type)
    }

    /// The name, as Tarantool spells it.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// Classes that fit whatever the value. Nil is among them for `any` alone.
    pub(crate) fn outright(self) -> u16 {
        match self {
            Any => NUMBERS | class::NIL | class::BOOL | class::STR | class::BIN | class::ARRAY | class::MAP,
            Unsigned | Uint64 => class::UINT,
            Integer => INTEGERS,
            Number | Double => NUMBERS,
            String => class::STR,
            Varbinary => class::BIN,
            Boolean => class::BOOL,
            Scalar => NUMBERS | class::BOOL | class::STR | class::BIN,
            Array => class::ARRAY,
            Map => class::MAP,
            // What is encoded with a sign is at most 2^63 - 1.
            Int64 => class::INT,
            Float32 => class::FLOAT32,
            Float64 => class::FLOAT64,
            Decimal | Uuid | Datetime | Interval | Decimal32 | Decimal64 | Decimal128 | Decimal256 => 0,
            Int8 | Int16 | Int32 | Uint8 | Uint16 | Uint32 => 0,
        }
    }

    /// Classes of which some values fit: [`FieldType::look`] tells which.
    pub(crate) fn sometimes(self) -> u16 {
        match self {
            Any | Number | Scalar | Decimal | Uuid | Datetime | Interval => class::EXT,
            Decimal32 | Decimal64 | Decimal128 | Decimal256 => class::EXT,
            Int8 | Int16 | Int32 => INTEGERS,
            Int64 | Uint8 | Uint16 | Uint32 => class::UINT,
            Unsigned | Integer | Double | String | Varbinary | Boolean | Array | Map | Uint64 => 0,
            Float32 | Float64 => 0,
        }
    }

    /// Whether the whole value at `at`, of a class among [`FieldType::sometimes`], fits. `scale` is the number of
    /// digits after the point of the fixed-point decimals.
    pub(crate) fn look(self, scale: Option<i32>, bytes: &[u8], at: usize) -> Result<(), Refusal> {
        if let Some((least, greatest)) = self.range() {
            let (value, _) = read::int(bytes, at).map_err(|_| Refusal::Type)?;
            return if (least..=greatest).contains(&value) { Ok(()) } else { Err(Refusal::Range) };
        }
        let ((kind, payload), _) = read::ext(bytes, at).map_err(|_| Refusal::Type)?;
        if !self.takes_ext(kind) {
            return Err(Refusal::Type);
        }
        if self == Any {
            // Nobody compares it: what is inside is the owner's affair.
            return Ok(());
        }
        let Some(precision) = self.precision() else {
            return ext::check(kind, payload).map_err(Refusal::Payload);
        };
        let decimal = decimal::Decimal::from_payload(payload).map_err(Refusal::Payload)?;
        if decimal.fits(precision, scale.unwrap_or(0)) { Ok(()) } else { Err(Refusal::Range) }
    }

    fn takes_ext(self, kind: i8) -> bool {
        match self {
            Any => kind >= 1,
            Number | Decimal | Decimal32 | Decimal64 | Decimal128 | Decimal256 => kind == EXT_DECIMAL,
            Scalar => matches!(kind, EXT_DECIMAL | EXT_UUID | EXT_DATETIME),
            Uuid => kind == EXT_UUID,
            Datetime => kind == EXT_DATETIME,
            Interval => kind == EXT_INTERVAL,
            _ => false,
        }
    }

    /// The least and the greatest value of a sized integer.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        Some(match self {
            Int8 => (i8::MIN.into(), i8::MAX.into()),
            Int16 => (i16::MIN.into(), i16::MAX.into()),
            Int32 => (i32::MIN.into(), i32::MAX.into()),
            Int64 => (i64::MIN.into(), i64::MAX.into()),
            Uint8 => (0, u8::MAX.into()),
            Uint16 => (0, u16::MAX.into()),
            Uint32 => (0, u32::MAX.into()),
            Uint64 => (0, u64::MAX.into()),
            _ => return None,
        })
    }

    /// Digits of a fixed-point decimal.
    pub(crate) fn precision(self) -> Option<u32> {
        Some(match self {
            Decimal32 => 9,
            Decimal64 => 18,
            Decimal128 => 38,
            Decimal256 => 76,
            _ => return None,
        })
    }

    /// Whether the bytes of every value of `other` are values of this type too. One answer is odd, and Tarantool's
    /// since 2.11.1: a double takes every number, decimals or not.
    pub(crate) fn contains(self, other: Self) -> bool {
        if self == other {
            return true;
        }
        if let (Some(wide), Some(narrow)) = (self.range(), other.range()) {
            let encodings = (other.outright() | other.sometimes()) & !(self.outright() | self.sometimes());
            return encodings == 0 && wide.0 <= narrow.0 && narrow.1 <= wide.1;
        }
        let fixed = other.precision().is_some();
        let sized = other.range().is_some();
        let unsigned = matches!(other, Unsigned | Uint8 | Uint16 | Uint32 | Uint64);
        match self {
            Any => true,
            Unsigned => unsigned,
            Integer => unsigned || sized,
            Number | Double => {
                let decimal = self == Number && (fixed || other == Decimal);
                unsigned || sized || decimal || matches!(other, Number | Integer | Double | Float32 | Float64)
            }
            Scalar => !matches!(other, Any | Interval | Array | Map),
            Decimal => fixed,
            Uint64 => unsigned,
            _ => false,
        }
    }

    /// What a field of this type becomes when an index part of type `part` reads it: the narrower of the two. Nothing
    /// where they exclude each other.
    pub(crate) fn narrowed_by(self, part: Self) -> Option<Self> {
        let classes = |field_type: Self| field_type.outright() | field_type.sometimes();
        if self.contains(part) {
            Some(part)
        } else if part.contains(self) {
            Some(self)
        } else if self.range().is_some() && part.range().is_some()
            || self.precision().is_some() && part.precision().is_some()
        {
            // Sized types that overlap: Tarantool looks at the classes alone.
            if classes(part) & !classes(self) == 0 { Some(part) } else { Some(self) }
        } else {
            None
        }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(field_type: FieldType, scale: Option<i32>, value: &[u8]) -> bool {
        let class = read::class_at(value, 0);
        class & field_type.outright() != 0
            || class & field_type.sometimes() != 0 && field_type.look(scale, value, 0).is_ok()
    }

    #[test]
    fn names_stand_in_the_order_of_the_types() {
        for (place, (field_type, name)) in NAMES.iter().enumerate() {
            assert_eq!(*field_type as usize, place);
            assert_eq!(field_type.name(), *name);
            assert_eq!(FieldType::parse(&name.to_uppercase()), Some(*field_type));
        }
        assert_eq!(FieldType::parse("NUM"), Some(Unsigned));
        assert_eq!(FieldType::parse("str"), Some(String));
        assert_eq!(FieldType::parse("*"), Some(Any));
        assert_eq!(FieldType::parse("int"), None);
        assert_eq!(FieldType::parse(""), None);
    }

    #[test]
    fn every_type_accepts_what_any_version_accepts() {
        // One value a column; the letters tell which types take it.
        let values: [(&str, &[u8]); 16] = [
            ("nil", &[0xc0]),
            ("true", &[0xc3]),
            ("5", &[5]),
            ("5 with a sign", &[0xd0, 5]),
            ("-1", &[0xff]),
            ("2^63", &[0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0]),
            ("1.5f", &[0xca, 0x3f, 0xc0, 0, 0]),
            ("1.5", &[0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]),
            ("'a'", &[0xa1, b'a']),
            ("bin", &[0xc4, 1, 0]),
            ("decimal 1", &[0xd5, 1, 0, 0x1c]),
            ("uuid", &[0xd8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("datetime", &[0xd7, 4, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("interval", &[0xc7, 3, 6, 1, 8, 1]),
            ("[]", &[0x90]),
            ("{}", &[0x80]),
        ];
        let table = [
            (Any, "################"),
            (Unsigned, "..#..#.........."),
            (Integer, "..####.........."),
            (Number, "..######..#....."),
            (Double, "..######........"),
            (String, "........#......."),
            (Varbinary, ".........#......"),
            (Boolean, ".#.............."),
            (Scalar, ".############..."),
            (Decimal, "..........#....."),
            (Uuid, "...........#...."),
            (Datetime, "............#..."),
            (Interval, ".............#.."),
            (Array, "..............#."),
            (Map, "...............#"),
            (Int8, "..###..........."),
            (Int64, "..###..........."),
            (Uint8, "..#............."),
            (Uint64, "..#..#.........."),
            (Float32, "......#........."),
            (Float64, ".......#........"),
            (Decimal32, "..........#....."),
        ];
        for (field_type, marks) in table {
            for ((name, value), mark) in values.iter().zip(marks.chars()) {
                assert_eq!(accepts(field_type, Some(0), value), mark == '#', "{field_type} and {name}");
            }
        }
    }

    #[test]
    fn an_unknown_extension_is_any_alone() {
        for kind in [-128i8, -1, 0, 1, 5, 7, 9, 127] {
            assert_eq!(accepts(Any, None, &[0xd4, kind as u8, 0]), kind >= 1);
        }
        assert!(!accepts(Scalar, None, &[0xd4, 9, 0]));
    }

    #[test]
    fn sized_integers_end_at_their_bounds() {
        let cases: [(FieldType, &[u8], bool); 10] = [
            (Int8, &[0xcc, 0x7f], true),
            (Int8, &[0xcc, 0x80], false),
            (Int8, &[0xd0, 0x80], true),
            (Int8, &[0xd1, 0xff, 0x7f], false),
            (Uint8, &[0xcd, 0, 0xff], true),
            (Uint8, &[0xcd, 1, 0], false),
            (Int64, &[0xcf, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], true),
            (Int64, &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0], true),
            (Uint32, &[0xce, 0xff, 0xff, 0xff, 0xff], true),
            (Uint32, &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0], false),
        ];
        for (field_type, value, fits) in cases {
            assert_eq!(accepts(field_type, None, value), fits, "{field_type} and {value:x?}");
        }
        assert_eq!(Int8.look(None, &[0xcc, 0x80], 0), Err(Refusal::Range));
    }

    #[test]
    fn fixed_point_decimals_hold_so_many_digits_before_and_after_the_point() {
        // 1.50, 12, 0, and 123456789 with 0 and 2 digits after the point.
        let (d150, d12, zero) = ([0xc7, 3, 1, 2, 0x15, 0x0c], [0xc7, 3, 1, 0, 1, 0x2c], [0xd5, 1, 0, 0x0c]);
        let nine = [0xc7, 6, 1, 0, 0x12, 0x34, 0x56, 0x78, 0x9c];
        let cases: [(&[u8], i32, bool); 8] = [
            (&d150, 1, true),
            (&d150, 0, false),
            (&d12, 7, true),
            (&d12, 8, false),
            (&zero, 9, true),
            (&nine, 0, true),
            (&nine, 1, false),
            (&nine, -1, false),
        ];
        for (value, scale, fits) in cases {
            assert_eq!(accepts(Decimal32, Some(scale), value), fits, "{value:x?} with scale {scale}");
        }
        assert!(accepts(Decimal64, Some(1), &nine) && !accepts(Decimal32, Some(1), &[1]));
        assert!(matches!(Decimal.look(None, &[0xd5, 1, 0, 0x10], 0), Err(Refusal::Payload(_))));
    }

    #[test]
    fn a_wider_type_takes_every_value_of_a_narrower_one() {
        for (wide, _) in NAMES {
            for (narrow, _) in NAMES {
                let classes = |field_type: FieldType| field_type.outright() | field_type.sometimes();
                if wide.contains(narrow) && (wide, narrow) != (Double, Number) {
                    let nil = if narrow == Any { class::NIL } else { 0 };
                    assert_eq!(classes(narrow) & !classes(wide) & !nil, 0, "{wide} and {narrow}");
                }
            }
        }
        assert!(Scalar.contains(Uuid) && !Scalar.contains(Interval) && !Integer.contains(Number));
        assert_eq!(Double.narrowed_by(Number), Some(Number));
        assert_eq!(Scalar.narrowed_by(Unsigned), Some(Unsigned));
        assert_eq!(Unsigned.narrowed_by(Scalar), Some(Unsigned));
        assert_eq!(Int8.narrowed_by(Integer), Some(Int8));
        assert_eq!(String.narrowed_by(Unsigned), None);
        assert_eq!(Map.narrowed_by(Array), None);
    }
}
