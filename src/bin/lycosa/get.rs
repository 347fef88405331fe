//! `lycosa get DIR --space S --key K`: the tuples that a key finds in an index.

use crate::args::GetArguments;
use crate::dump;
use crate::failure::Failure;
use crate::print;

pub fn run(arguments: &GetArguments, json: bool) -> Result<(), Failure> {
    let format = arguments.index.format(json)?;
    // A key that is no hex at all is said before minutes of loading.
    let raw = match &arguments.key_hex {
        Some(text) => {
            Some(print::unhex(text).map_err(|fault| Failure::usage(format!("--key-hex: {fault}")))?)
        }
        None => None,
    };
    dump::with_index(&arguments.open, &arguments.index, json, |index| {
        let key = match (raw, &arguments.key) {
            (Some(raw), _) => raw,
            (None, Some(text)) => index.key_from_json(text)?,
            (None, None) => return Err(Failure::usage("--key or --key-hex is needed")),
        };
        let found = index.select_raw(arguments.iterator, &key)?;
        dump::write(found.take(arguments.limit.unwrap_or(usize::MAX)), format)
    })
}
