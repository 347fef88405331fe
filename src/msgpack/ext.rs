//! Tarantool's extension types: uuid, datetime and interval (decimals have a file of their own).
//!
//! ```text
//! ext 2, uuid       16 bytes in the order of the text
//!
//! ext 4, datetime   0          8             12            14          16
//!                   +----------+-------------+-------------+-----------+
//!                   | seconds  | nanoseconds | offset, min | zone      |   little-endian; only the seconds
//!                   | i64      | i32         | i16         | i16       |   where all the rest is zero
//!                   +----------+-------------+-------------+-----------+
//!
//! ext 6, interval   0        1
//!                   +--------+-------------------------------+
//!                   | count  | count times: field u8, integer |
//!                   +--------+-------------------------------+
//! ```
//!
//! A datetime's seconds are those since 1970 in UTC. Offset and zone (a number in Tarantool's own table of zones)
//! only tell how it was written: they take no part in the order.
//!
//! Payloads are foreign bytes. What a field of a type demands is [`check`]ed when a tuple comes in; in untyped data
//! an extension may hold anything, and whoever decodes it must be ready for that.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use super::decimal::Decimal;
use super::read;

pub(crate) const EXT_DECIMAL: i8 = 1;
pub(crate) const EXT_UUID: i8 = 2;
pub(crate) const EXT_DATETIME: i8 = 4;
pub(crate) const EXT_INTERVAL: i8 = 6;

/// Whether an extension of the type holds what that type demands; if not, what was expected. Types that have no
/// rules here hold anything.
pub(crate) fn check(kind: i8, payload: &[u8]) -> Result<(), &'static str> {
    match kind {
        EXT_DECIMAL => Decimal::from_payload(payload).map(drop),
        EXT_UUID => uuid(payload).map(drop),
        EXT_DATETIME => Datetime::from_payload(payload).map(drop),
        EXT_INTERVAL => Interval::from_payload(payload).map(drop),
        _ => Ok(()),
    }
}

/// The bytes of a uuid.
#[inline]
pub(crate) fn uuid(payload: &[u8]) -> Result<[u8; 16], &'static str> {
    payload.try_into().map_err(|_| "a uuid of 16 bytes")
}

/// A uuid as text.
pub(crate) fn uuid_text(uuid: &[u8; 16]) -> String {
    use fmt::Write;
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        write!(text, "{byte:02x}").expect("a string takes all text");
    }
    text
}

/// Reads `c8f0fa1f-da29-438c-a040-393f1126ad39`, in either case.
pub(crate) fn uuid_from_text(text: &str) -> Result<[u8; 16], &'static str> {
    const FORM: &str = "a uuid such as c8f0fa1f-da29-438c-a040-393f1126ad39";
    let text = text.as_bytes();
    if text.len() != 36 {
        return Err(FORM);
    }
    let mut uuid = [0; 16];
    let mut at = 0;
    for byte in &mut uuid {
        if matches!(at, 8 | 13 | 18 | 23) {
            if text[at] != b'-' {
                return Err(FORM);
            }
            at += 1;
        }
        let digit = |at: usize| (text[at] as char).to_digit(16).ok_or(FORM);
        *byte = (digit(at)? << 4 | digit(at + 1)?) as u8;
        at += 2;
    }
    Ok(uuid)
}

const DAY_SECONDS: i64 = 86_400;

/// Days of the calendar are counted in 32 bits from the year 1 in Tarantool's library, so its moments reach from
/// -5879610-06-22 to 5879611-07-11.
const SECONDS_MIN: i64 = -185_604_722_870_400;
const SECONDS_MAX: i64 = 185_480_451_417_600;

const OFFSET_MINUTES: std::ops::RangeInclusive<i16> = -720..=840;
const ZONES: std::ops::RangeInclusive<i16> = 0..=1024;
const NANOSECONDS_END: u32 = 1_000_000_000;

/// A moment, with the offset and zone it was written in. Equality and order are those of the moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datetime {
    /// Since 1970-01-01T00:00:00Z.
    pub(crate) seconds: i64,
    /// After the second, also before 1970: below 1,000,000,000.
    pub(crate) nanoseconds: u32,
    /// East of Greenwich.
    pub(crate) offset_minutes: i16,
    /// Tarantool's number of the zone; 0 is none.
    pub(crate) zone: i16,
}

impl Datetime {
    /// The datetime in an extension's payload, or what was expected there.
    #[inline]
    pub(crate) fn from_payload(payload: &[u8]) -> Result<Self, &'static str> {
        let (seconds, tail) = match payload.len() {
            8 => (payload, [0; 8]),
            16 => (&payload[..8], payload[8..].try_into().expect("the slice has 8 bytes")),
            _ => return Err("a datetime of 8 or 16 bytes"),
        };
        let seconds = i64::from_le_bytes(seconds.try_into().expect("the slice has 8 bytes"));
        let tail = u64::from_le_bytes(tail);
        Self {
            seconds,
            nanoseconds: tail as u32,
            offset_minutes: (tail >> 32) as i16,
            zone: (tail >> 48) as i16,
        }
        .checked()
    }

    fn checked(self) -> Result<Self, &'static str> {
        if !(SECONDS_MIN..=SECONDS_MAX).contains(&self.seconds) {
            return Err("a datetime between the years -5879610 and 5879611");
        }
        if self.nanoseconds >= NANOSECONDS_END {
            return Err("a datetime with 0 to 999999999 nanoseconds");
        }
        if !OFFSET_MINUTES.contains(&self.offset_minutes) {
            return Err("a datetime with an offset between -12:00 and +14:00");
        }
        if !ZONES.contains(&self.zone) {
            return Err("a datetime with a zone between 0 and 1024");
        }
        Ok(self)
    }

    /// Appends the payload, the short form where it says all.
    pub(crate) fn write_payload(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seconds.to_le_bytes());
        if self.nanoseconds != 0 || self.offset_minutes != 0 || self.zone != 0 {
            out.extend_from_slice(&self.nanoseconds.to_le_bytes());
            out.extend_from_slice(&self.offset_minutes.to_le_bytes());
            out.extend_from_slice(&self.zone.to_le_bytes());
        }
    }

    /// The same moment in a zone of Tarantool's table.
    pub(crate) fn with_zone(self, zone: i16) -> Result<Self, &'static str> {
        Self { zone, ..self }.checked()
    }
}

impl Ord for Datetime {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanoseconds).cmp(&(other.seconds, other.nanoseconds))
    }
}

impl PartialOrd for Datetime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Datetime {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Datetime {}

/// Days since 1970-01-01 of a day in the Gregorian calendar, which is taken to have always been in force. Years are
/// counted from March, in eras of 400 years, so that the leap day ends a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day: the reverse of [`days`].
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// RFC 3339 in the datetime's offset: `2024-01-02T03:04:05.000000006+03:00`. Years outside 0 to 9999 carry a sign, as
/// in ISO 8601: `+5879611-07-11T00:00:00Z`, `-0001-12-31T00:00:00Z`. The zone's number is not part of it.
impl fmt::Display for Datetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.seconds + 60 * i64::from(self.offset_minutes);
        let (year, month, day) = date(local.div_euclid(DAY_SECONDS));
        let second = local.rem_euclid(DAY_SECONDS);
        match year {
            0..=9999 => write!(f, "{year:04}")?,
            _ => write!(f, "{year:+05}")?,
        }
        write!(f, "-{month:02}-{day:02}T")?;
        write!(f, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        if self.nanoseconds != 0 {
            let fraction = format!("{:09}", self.nanoseconds);
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        match self.offset_minutes {
            0 => f.write_str("Z"),
            offset => {
                let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
                write!(f, "{sign}{:02}:{:02}", offset / 60, offset % 60)
            }
        }
    }
}

/// Reads RFC 3339, and the years that [`Display`](fmt::Display) gives a sign. `T` and `Z` may be lower case, `T` a
/// blank; up to nine digits after the second.
impl FromStr for Datetime {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a datetime such as 2024-01-02T03:04:05.5Z or 2024-01-02T03:04:05+03:00";
        let mut rest = text.as_bytes();
        let sign = match rest {
            [sign @ (b'-' | b'+'), tail @ ..] => {
                rest = tail;
                Some(*sign)
            }
            _ => None,
        };
        let year = number(&mut rest, if sign.is_some() { 4..=7 } else { 4..=4 }).ok_or(FORM)?;
        let year = if sign == Some(b'-') { -year } else { year };
        let mut part = |before: &[u8]| {
            let (first, tail) = rest.split_first()?;
            rest = tail;
            if before.contains(first) { number(&mut rest, 2..=2) } else { None }
        };
        let month = part(b"-").ok_or(FORM)?;
        let day = part(b"-").ok_or(FORM)?;
        let hour = part(b"Tt ").ok_or(FORM)?;
        let minute = part(b":").ok_or(FORM)?;
        let second = part(b":").ok_or(FORM)?;
        let in_calendar = (1..=12).contains(&month) && (1..=days_of_month(year, month)).contains(&day);
        if !in_calendar || hour > 23 || minute > 59 || second > 59 {
            return Err("a datetime of the calendar");
        }
        let mut nanoseconds = 0;
        if let [b'.', tail @ ..] = rest {
            rest = tail;
            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&count) {
                return Err("a datetime with one to nine digits after the second's point");
            }
            let fraction = number(&mut rest, count..=count).ok_or(FORM)?;
            nanoseconds = fraction * 10i64.pow(9 - count as u32);
        }
        let offset = match rest {
            [b'Z' | b'z'] => 0,
            [sign @ (b'+' | b'-'), tail @ ..] => {
                let mut tail = tail;
                let hours = number(&mut tail, 2..=2).ok_or(FORM)?;
                let [b':', tail @ ..] = tail else { return Err(FORM) };
                let mut tail = tail;
                let minutes = number(&mut tail, 2..=2).ok_or(FORM)?;
                if minutes > 59 || !tail.is_empty() {
                    return Err(FORM);
                }
                (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
            }
            _ => return Err(FORM),
        };
        let local = days(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
        Self {
            seconds: local - 60 * offset,
            nanoseconds: nanoseconds as u32,
            offset_minutes: offset as i16,
            zone: 0,
        }
        .checked()
    }
}

/// Takes a number of as many digits as there are, if their count is allowed.
fn number(rest: &mut &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let count = rest.iter().take(*digits.end()).take_while(|byte| byte.is_ascii_digit()).count();
    if count < *digits.start() {
        return None;
    }
    let (number, tail) = rest.split_at(count);
    *rest = tail;
    Some(number.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// What an interval counts, by field number; the last one tells how months of unlike length are met.
pub(crate) const INTERVAL_FIELDS: [&str; 9] =
    ["year", "month", "week", "day", "hour", "minute", "second", "nanosecond", "adjust"];

/// The field number of `adjust`.
pub(crate) const INTERVAL_ADJUST: usize = 8;

/// The values of `adjust`.
pub(crate) const INTERVAL_ADJUSTS: [&str; 3] = ["excess", "none", "last"];

/// A span of time by its calendar parts. Intervals have no order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    /// By number of [`INTERVAL_FIELDS`].
    pub(crate) values: [i64; 9],
}

impl Interval {
    /// The interval in an extension's payload, or what was expected there. Of a field that is there twice the last
    /// one counts, as in Tarantool.
    pub(crate) fn from_payload(payload: &[u8]) -> Result<Self, &'static str> {
        let (&count, _) = payload.split_first().ok_or("an interval with a count of fields")?;
        let mut interval = Self::default();
        let mut at = 1;
        for _ in 0..count {
            let field = *payload.get(at).ok_or("an interval with as many fields as it counts")?;
            let (value, end) =
                read::int(payload, at + 1).map_err(|_| "an interval with an integer for each field")?;
            interval.set(usize::from(field), value)?;
            at = end;
        }
        if at == payload.len() { Ok(interval) } else { Err("an interval that ends with its last field") }
    }

    /// Sets one field, or says what it should be.
    pub(crate) fn set(&mut self, field: usize, value: i128) -> Result<(), &'static str> {
        let (valid, expected) = match field {
            0..=2 | 7 => (i32::try_from(value).is_ok(), "an interval's number of 32 bits"),
            3..=6 => (i64::try_from(value).is_ok(), "an interval's number of 64 bits"),
            INTERVAL_ADJUST => ((0..=2).contains(&value), "an interval's adjust of 0, 1 or 2"),
            _ => (false, "an interval's field between 0 and 8"),
        };
        if !valid {
            return Err(expected);
        }
        self.values[field] = value as i64;
        Ok(())
    }

    /// Appends the payload; fields that are 0 are left out.
    pub(crate) fn write_payload(&self, out: &mut Vec<u8>) {
        out.push(self.values.iter().filter(|&&value| value != 0).count() as u8);
        for (field, &value) in self.values.iter().enumerate().filter(|&(_, &value)| value != 0) {
            out.push(field as u8);
            super::write::int(out, i128::from(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::msgpack::unhex as hex;

    #[test]
    fn datetimes_that_tarantool_writes_are_read_and_written() {
        let vectors = [
            ("0000000000000000", "1970-01-01T00:00:00Z", 0),
            ("0100000000000000", "1970-01-01T00:00:01Z", 0),
            ("0100000000000000 0065cd1d 0000 0000", "1970-01-01T00:00:01.5Z", 0),
            ("f552936500000000 06000000 b400 0000", "2024-01-02T03:04:05.000000006+03:00", 0),
            ("d027936500000000 00000000 b400 b303", "2024-01-02T00:00:00+03:00", 947),
            ("0000000000000000 00000000 0000 2801", "1970-01-01T00:00:00Z", 296),
            ("ffffffffffffffff 01000000 0000 0000", "1969-12-31T23:59:59.000000001Z", 0),
            ("0000000000000000 00000000 30fd 0000", "1969-12-31T12:00:00-12:00", 0),
        ];
        for (payload, text, zone) in vectors {
            let payload = hex(payload);
            let read = Datetime::from_payload(&payload).unwrap();
            assert_eq!((read.to_string().as_str(), read.zone), (text, zone));
            let parsed = text.parse::<Datetime>().unwrap().with_zone(zone).unwrap();
            for datetime in [read, parsed] {
                let mut written = Vec::new();
                datetime.write_payload(&mut written);
                assert_eq!(written, payload, "{text}");
            }
        }
    }

    #[test]
    fn the_ends_of_time_are_read_and_printed() {
        for (seconds, text) in [
            (SECONDS_MIN, "-5879610-06-22T00:00:00Z"),
            (SECONDS_MAX, "+5879611-07-11T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (253_402_300_800, "+10000-01-01T00:00:00Z"),
            (-62_167_219_200, "0000-01-01T00:00:00Z"),
            (-62_167_219_201, "-0001-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
        ] {
            let payload = seconds.to_le_bytes();
            assert_eq!(Datetime::from_payload(&payload).unwrap().to_string(), text);
            assert_eq!(text.parse::<Datetime>().unwrap().seconds, seconds);
        }
        // An offset may carry the local time past the end.
        let edge = Datetime { seconds: SECONDS_MAX, nanoseconds: 0, offset_minutes: 840, zone: 0 };
        assert_eq!(edge.to_string(), "+5879611-07-11T14:00:00+14:00");
        assert_eq!(edge.to_string().parse::<Datetime>().unwrap(), edge);
    }

    #[test]
    fn the_calendar_goes_there_and_back_day_by_day() {
        let mut day = days(-801, 1, 1);
        for year in -801..2801 {
            for month in 1..=12 {
                for day_of_month in 1..=days_of_month(year, month) {
                    assert_eq!(days(year, month, day_of_month), day);
                    assert_eq!(date(day), (year, month, day_of_month));
                    day += 1;
                }
            }
        }
    }

    #[test]
    fn datetimes_out_of_range_are_refused() {
        for payload in [
            "",
            "00",
            "00000000000000",
            "000000000000000000",
            "0000000000000000 00000000 0000 00",
            "0000000000000000 00000000 0000 0000 00",
            "0000000000000000 00ca9a3b 0000 0000",
            "0000000000000000 ffffffff 0000 0000",
            "0000000000000000 00000000 2ffd 0000",
            "0000000000000000 00000000 4903 0000",
            "0000000000000000 00000000 0000 ffff",
            "0000000000000000 00000000 0000 0104",
            "ffffffffffffff7f",
            "0000000000000080",
        ] {
            assert!(Datetime::from_payload(&hex(payload)).is_err(), "{payload}");
        }
        assert!(Datetime::from_payload(&(SECONDS_MIN - 1).to_le_bytes()).is_err());
        assert!(Datetime::from_payload(&(SECONDS_MAX + 1).to_le_bytes()).is_err());
        for text in [
            "",
            "2024",
            "2024-01-02",
            "2024-01-02T03:04:05",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-00-01T00:00:00Z",
            "2024-01-00T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T00:00:60Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00.0000000001Z",
            "2024-01-01T00:00:00+3:00",
            "2024-01-01T00:00:00+15:00",
            "2024-01-01T00:00:00+00:60",
            "2024-01-01T00:00:00Zx",
            "12024-01-01T00:00:00Z",
            "-123-01-01T00:00:00Z",
            "+99999999-01-01T00:00:00Z",
            "+5879611-07-11T00:00:01Z",
            "2024-01-01T00:00:00+03:00x",
            "é024-01-01T00:00:00Z",
        ] {
            assert!(text.parse::<Datetime>().is_err(), "{text:?}");
        }
        assert!("2024-01-02 03:04:05z".parse::<Datetime>().is_ok());
    }

    #[test]
    fn a_datetime_before_1970_is_in_order_within_its_second() {
        let at =
            |seconds, nanoseconds, offset_minutes| Datetime { seconds, nanoseconds, offset_minutes, zone: 0 };
        assert!(at(-1, 999_999_999, 0) < at(0, 0, 0));
        assert!(at(-1, 0, 0) < at(-1, 1, 0));
        assert_eq!(at(5, 6, 0), at(5, 6, 180));
    }

    #[test]
    fn intervals_are_read_and_written() {
        for (payload, values) in [
            ("01 08 01", [0, 0, 0, 0, 0, 0, 0, 0, 1]),
            ("02 00 01 08 01", [1, 0, 0, 0, 0, 0, 0, 0, 1]),
            ("00", [0; 9]),
            ("07 02 03 03 fc 04 05 05 fa 06 07 07 f8 08 01", [0, 0, 3, -4, 5, -6, 7, -8, 1]),
            ("01 00 cd 2710", [10_000, 0, 0, 0, 0, 0, 0, 0, 0]),
            ("01 06 cf 7fffffffffffffff", [0, 0, 0, 0, 0, 0, i64::MAX, 0, 0]),
            ("01 03 d3 8000000000000000", [0, 0, 0, i64::MIN, 0, 0, 0, 0, 0]),
        ] {
            let interval = Interval::from_payload(&hex(payload)).unwrap();
            assert_eq!(interval.values, values);
            let mut written = Vec::new();
            interval.write_payload(&mut written);
            assert_eq!(written, hex(payload));
        }
        assert_eq!(Interval::from_payload(&hex("02 00 01 00 02")).unwrap().values[0], 2);
        for payload in [
            "",
            "01",
            "01 00",
            "01 09 01",
            "01 00 01 02",
            "00 00",
            "01 00 c0",
            "01 00 cd 00",
            "01 00 ce ffffffff",
            "01 06 cf ffffffffffffffff",
            "01 08 03",
            "01 08 ff",
            "01 07 d3 8000000000000000",
            "ff 00 01",
        ] {
            assert!(Interval::from_payload(&hex(payload)).is_err(), "{payload}");
        }
    }

    #[test]
    fn uuids_are_read_and_printed() {
        let text = "c8f0fa1f-da29-438c-a040-393f1126ad39";
        let uuid = uuid_from_text(text).unwrap();
        assert_eq!(uuid[..5], [0xc8, 0xf0, 0xfa, 0x1f, 0xda]);
        assert_eq!(uuid_text(&uuid), text);
        assert_eq!(uuid_from_text(&text.to_uppercase()), Ok(uuid));
        for text in [
            "",
            "c8f0fa1f",
            "c8f0fa1fda29438ca040393f1126ad39",
            "c8f0fa1f-da29-438c-a040-393f1126ad3g",
            "c8f0fa1f-da29-438c-a040-393f1126ad390",
            "c8f0fa1f+da29-438c-a040-393f1126ad39",
            "éééééééééééééééééé",
        ] {
            assert!(uuid_from_text(text).is_err(), "{text}");
        }
        assert!(check(EXT_UUID, &[0; 15]).is_err() && check(EXT_UUID, &[0; 16]).is_ok());
    }

    #[test]
    fn any_payload_is_checked_without_a_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100_000 {
            let length = random.usize(..20);
            let payload: Vec<u8> =
                (0..length).map(|_| if random.bool() { random.u8(..) } else { random.u8(..9) }).collect();
            for kind in i8::MIN..=8 {
                let _ = check(kind, &payload);
            }
            if let Ok(datetime) = Datetime::from_payload(&payload) {
                let again: Datetime = datetime.to_string().parse().unwrap();
                assert_eq!((again, again.offset_minutes), (datetime, datetime.offset_minutes));
            }
        }
    }
}
