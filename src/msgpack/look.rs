//! Looking into arrays and maps that were checked when they were read: where an element or a value begins. For rows of
//! system spaces, a few at a time; tuples have their field maps.

use super::{class, read, skip};

/// Where an element of the array at `at` begins, counted from 0.
pub(crate) fn element(bytes: &[u8], at: usize, number: u32) -> Option<usize> {
    let (count, mut at) = read::array(bytes, at).ok()?;
    if number >= count {
        return None;
    }
    for _ in 0..number {
        at = skip::skip(bytes, at).ok()?;
    }
    Some(at)
}

/// A field of a row that is a number of 32 bits.
pub(crate) fn id(row: &[u8], field: u32) -> Option<u32> {
    let (value, _) = read::uint(row, element(row, 0, field)?).ok()?;
    u32::try_from(value).ok()
}

/// A field of a row that is a string of UTF-8.
pub(crate) fn text(row: &[u8], field: u32) -> Option<&str> {
    let (text, _) = read::str(row, element(row, 0, field)?).ok()?;
    std::str::from_utf8(text).ok()
}

/// Where the values of the map at `at` begin, each behind its key; none if there is no map.
pub(crate) fn pairs(bytes: &[u8], at: usize) -> impl Iterator<Item = (usize, usize)> {
    let map = read::is(bytes, at, class::MAP).then(|| read::map(bytes, at).ok()).flatten();
    let (count, mut next) = map.unwrap_or((0, at));
    (0..count).map_while(move |_| {
        let key = next;
        let value = skip::skip(bytes, key).ok()?;
        next = skip::skip(bytes, value).ok()?;
        Some((key, value))
    })
}

/// Where the value of a string key of the map at `at` begins.
pub(crate) fn value_of(bytes: &[u8], at: usize, key: &[u8]) -> Option<usize> {
    let is_key = |at| read::str(bytes, at).is_ok_and(|(text, _)| text == key);
    pairs(bytes, at).find(|&(at, _)| is_key(at)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::super::parse::from_json;
    use super::*;

    #[test]
    fn elements_and_values_are_found_and_what_is_not_there_is_not() {
        let row = from_json(r#"[7, {"a": 1, "b": [2, 3]}, "x"]"#).unwrap();
        assert_eq!((id(&row, 0), id(&row, 1), id(&row, 3)), (Some(7), None, None));
        let map = element(&row, 0, 1).unwrap();
        let b = value_of(&row, map, b"b").unwrap();
        assert_eq!(read::uint(&row, element(&row, b, 1).unwrap()).unwrap().0, 3);
        assert_eq!(
            (value_of(&row, map, b"c"), value_of(&row, b, b"a"), element(&row, map, 0)),
            (None, None, None)
        );
        assert_eq!(pairs(&row, map).count(), 2);
    }
}
