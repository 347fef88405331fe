//! JSON paths of index parts: where inside a field the value is.
//!
//! ```text
//! path    := [ ident ] { item }            the empty path is no path: the field itself
//! item    := '[' digits ']'                array element, from 1
//!          | '[' '*' ']'                   every element: the index is a multikey one
//!          | '[' quote bytes quote ']'     map key; quote is " or ', there are no escapes
//!          | '.' ident                     map key
//! ident   := first { rest }                first: a letter or '_'; rest: a letter, a digit or '_'
//! ```
//!
//! Paths are equal if their tokens are: `a.b` is `["a"]["b"]`. Blanks are errors, except inside quotes.

use crate::msgpack::{read, skip};
use std::fmt;

/// A path inside a field, with at least one token.
#[derive(Debug, Clone)]
pub struct Path {
    text: String,
    tokens: Vec<Token>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Token {
    /// An element of an array, from 1.
    Index(u32),
    /// The value of a key in a map.
    Key(Vec<u8>),
    /// Every element of an array.
    Any,
}

/// A path that is none: the number, from 1, of the first symbol that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("symbol {symbol} of the path does not fit")]
pub(crate) struct PathFault {
    pub(crate) symbol: usize,
}

impl Path {
    /// The path that `text` spells; nothing for the empty text.
    pub(crate) fn parse(text: &[u8]) -> Result<Option<Self>, PathFault> {
        match Self::tokens_before_fault(text) {
            (_, Some(fault)) => Err(fault),
            (tokens, None) if tokens.is_empty() => Ok(None),
            (tokens, None) => Ok(Some(Self { text: String::from_utf8_lossy(text).into_owned(), tokens })),
        }
    }

    /// The tokens up to the first fault, and that.
    pub(crate) fn tokens_before_fault(text: &[u8]) -> (Vec<Token>, Option<PathFault>) {
        let (text, end_symbol) = match std::str::from_utf8(text) {
            Ok(text) => (text, None),
            // What is before the malformed bytes is read first: its faults come first.
            Err(fault) => {
                let valid = std::str::from_utf8(&text[..fault.valid_up_to()]).expect("checked just now");
                (valid, Some(valid.chars().count() + 1))
            }
        };
        let mut lexer = Lexer { rest: text, symbol: 1 };
        let mut tokens = Vec::new();
        while let Some(first) = lexer.peek() {
            match lexer.token(first, tokens.is_empty()) {
                Ok(token) => tokens.push(token),
                Err(fault) => return (tokens, Some(fault)),
            }
        }
        (tokens, end_symbol.map(|symbol| PathFault { symbol }))
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The path as it is spelled in the definition.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it goes over all elements of an array: whether there is a `[*]`.
    pub fn has_multikey(&self) -> bool {
        self.tokens.contains(&Token::Any)
    }

    /// Offset of what it leads to from the value at `at`; nothing under `[*]`. Of the pairs of a key the last counts, as
    /// for an index.
    pub(crate) fn place_in(&self, bytes: &[u8], at: usize) -> Option<usize> {
        self.tokens.iter().try_fold(at, |at, token| match token {
            Token::Index(number) => {
                let (count, first) = read::array(bytes, at).ok()?;
                (*number <= count).then(|| skip::skip_many(bytes, first, u64::from(number - 1)).ok())?
            }
            Token::Key(key) => {
                let (pairs, mut at) = read::map(bytes, at).ok()?;
                let mut found = None;
                for _ in 0..pairs {
                    let value_at = skip::skip(bytes, at).ok()?;
                    if read::str(bytes, at).is_ok_and(|(other, _)| other == key) {
                        found = Some(value_at);
                    }
                    at = skip::skip(bytes, value_at).ok()?;
                }
                found
            }
            Token::Any => None,
        })
    }

    /// The first token, and the path below it if it goes on, spelled as here.
    pub(crate) fn split_first(&self) -> Option<(&Token, Option<Self>)> {
        let (first, rest) = self.tokens.split_first()?;
        let mut lexer = Lexer { rest: &self.text, symbol: 1 };
        lexer.token(lexer.peek()?, true).ok()?;
        let below = (!rest.is_empty()).then(|| Self { text: lexer.rest.into(), tokens: rest.to_vec() });
        Some((first, below))
    }

    /// The tokens before the first `[*]`; all of them where there is none.
    pub(crate) fn prefix(&self) -> &[Token] {
        let end = self.tokens.iter().position(|token| *token == Token::Any).unwrap_or(self.tokens.len());
        &self.tokens[..end]
    }
}

/// By tokens, whatever the spelling.
impl PartialEq for Path {
    fn eq(&self, other: &Self) -> bool {
        self.tokens == other.tokens
    }
}

impl Eq for Path {}

/// In Tarantool's form: `["a"][1][*]`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens.iter().try_for_each(|token| token.fmt(f))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(number) => write!(f, "[{number}]"),
            Self::Key(key) => write!(f, "[\"{}\"]", String::from_utf8_lossy(key)),
            Self::Any => f.write_str("[*]"),
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    /// Number of the next symbol, from 1.
    symbol: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn step(&mut self) {
        let mut symbols = self.rest.chars();
        self.symbol += usize::from(symbols.next().is_some());
        self.rest = symbols.as_str();
    }

    fn fault(&self) -> PathFault {
        PathFault { symbol: self.symbol }
    }

    /// The token that begins with the symbol `first`.
    fn token(&mut self, first: char, is_first: bool) -> Result<Token, PathFault> {
        match first {
            '[' => self.bracket(),
            '.' => {
                self.step();
                self.ident()
            }
            _ if is_first => self.ident(),
            _ => Err(self.fault()),
        }
    }

    /// The bytes of the symbols that fit.
    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &str {
        let text = self.rest;
        let end = text.find(|symbol| !fits(symbol)).unwrap_or(text.len());
        self.symbol += text[..end].chars().count();
        self.rest = &text[end..];
        &text[..end]
    }

    /// Letters and digits are what Unicode calls so; a few that ICU does not count as letters are let through.
    fn ident(&mut self) -> Result<Token, PathFault> {
        match self.peek() {
            Some(first) if first.is_alphabetic() || first == '_' => {
                let ident = self.take_while(|symbol| symbol.is_alphanumeric() || symbol == '_');
                Ok(Token::Key(ident.as_bytes().to_vec()))
            }
            _ => Err(self.fault()),
        }
    }

    fn bracket(&mut self) -> Result<Token, PathFault> {
        self.step();
        let token = match self.peek() {
            Some('*') => {
                self.step();
                Token::Any
            }
            Some(quote @ ('"' | '\'')) => {
                self.step();
                let key = self.take_while(|symbol| symbol != quote).as_bytes().to_vec();
                if key.is_empty() || self.peek().is_none() {
                    return Err(self.fault());
                }
                self.step();
                Token::Key(key)
            }
            Some('0'..='9') => {
                let symbol = self.symbol;
                let digits = self.take_while(|symbol| symbol.is_ascii_digit());
                // Tarantool does not check for overflow: a number wraps at 32 bits there, and so it does here.
                let number = digits.bytes().fold(0i32, |number, digit| {
                    number.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'))
                });
                if number < 1 {
                    return Err(PathFault { symbol });
                }
                Token::Index(number as u32)
            }
            _ => return Err(self.fault()),
        };
        if self.peek() != Some(']') {
            return Err(self.fault());
        }
        self.step();
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        Path::parse(text.as_bytes()).unwrap().map_or(String::new(), |path| path.to_string())
    }

    #[test]
    fn what_is_below_the_first_token_is_spelled_as_it_was() {
        for (text, first, below) in [
            ("a", r#"["a"]"#, None),
            (".a.b", r#"["a"]"#, Some(".b")),
            ("tags[*]", r#"["tags"]"#, Some("[*]")),
            (r#"["a]b"].c[1]"#, r#"["a]b"]"#, Some(".c[1]")),
            ("[2]['x']", "[2]", Some("['x']")),
        ] {
            let path = Path::parse(text.as_bytes()).unwrap().unwrap();
            let (token, rest) = path.split_first().unwrap();
            assert_eq!((token.to_string().as_str(), rest.as_ref().map(Path::text)), (first, below), "{text}");
            if let Some(rest) = rest {
                assert_eq!(Path::parse(rest.text().as_bytes()), Ok(Some(rest)), "{text}");
            }
        }
    }

    #[test]
    fn paths_that_tarantool_takes_are_paths() {
        let cases = [
            ("a", r#"["a"]"#),
            (".a", r#"["a"]"#),
            ("a.b", r#"["a"]["b"]"#),
            (r#"["a"]"#, r#"["a"]"#),
            ("['a']", r#"["a"]"#),
            (r#"["a.b"]"#, r#"["a.b"]"#),
            ("[1]", "[1]"),
            ("[1].a", r#"[1]["a"]"#),
            ("a[1]", r#"["a"][1]"#),
            ("a[*]", r#"["a"][*]"#),
            ("", ""),
            ("_a", r#"["_a"]"#),
            ("a1", r#"["a1"]"#),
            ("ключ", r#"["ключ"]"#),
            ("日本", r#"["日本"]"#),
            (r#"["\u0041"]"#, r#"["\u0041"]"#),
            ("[*]", "[*]"),
            ("[*][1]", "[*][1]"),
            ("[1][*]", "[1][*]"),
            (r#"a["b"].c"#, r#"["a"]["b"]["c"]"#),
            ("[01]", "[1]"),
            ("[4294967297]", "[1]"),
            (r#"["a'b"]"#, r#"["a'b"]"#),
        ];
        for (text, tokens) in cases {
            assert_eq!(printed(text), tokens, "{text}");
        }
    }

    #[test]
    fn the_first_symbol_that_does_not_fit_is_named() {
        let cases = [
            ("a..b", 3),
            ("a.", 3),
            ("[", 2),
            ("[]", 2),
            (r#"[""]"#, 3),
            ("a b", 2),
            ("1a", 1),
            ("a.[1]", 3),
            (" a", 1),
            ("[ 1]", 2),
            ("a'b", 2),
            (r#"["a\"b"]"#, 6),
            ("-a", 1),
            ("a-b", 2),
            ("[-1]", 2),
            ("[0]", 2),
            ("[1", 3),
            ("[1]a", 4),
            ("[\"a", 4),
            ("ключ!", 5),
            ("[*", 3),
        ];
        for (text, symbol) in cases {
            assert_eq!(Path::parse(text.as_bytes()), Err(PathFault { symbol }), "{text}");
        }
        assert_eq!(Path::parse(b"ab.\xff"), Err(PathFault { symbol: 4 }));
        assert_eq!(Path::parse(b"[\"a\xff\"]"), Err(PathFault { symbol: 4 }));
        assert_eq!(Path::parse(b"a.b\xff"), Err(PathFault { symbol: 4 }));
    }

    #[test]
    fn paths_are_equal_by_their_tokens() {
        let path = |text: &str| Path::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(path("a.b"), path("['a'][\"b\"]"));
        assert_ne!(path("a.b"), path("a"));
        assert_ne!(path("[1]"), path("['1']"));
        assert!(path("a[*].b").has_multikey() && !path("a.b").has_multikey());
        assert_eq!(path("a.b[*].c").prefix(), path("a.b").tokens());
        assert_eq!(path("a.b").text(), "a.b");
    }
}
