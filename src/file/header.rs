//! The text header that begins every file of the container.
//!
//! ```text
//! SNAP\n                                                     the type
//! 0.13\n                                                     the format's version
//! Version: 2.6.0-0-g47aa4e01e\n                              the writer
//! Instance: 78e0015e-511c-44a5-88b2-181e67295f91\n           `Server:` in files of 0.12
//! VClock: {1: 10, 2: 5}\n                                    before a log's first row, of a snapshot's last
//! PrevVClock: {1: 3}\n                                       logs alone: of the log before
//! \n                                                         an empty line; blocks follow at once
//! ```
//!
//! Keys come in any order; one that is not known is kept and left to the caller as a notice. As in Tarantool,
//! the last of two lines with one key holds.

use super::block::{MAGIC_END, MAGIC_PLAIN, MAGIC_ZSTD};
use super::vclock::{Vclock, shorten};
use crate::error::{Error, ErrorKind};
use crate::limits::TEXT_HEADER_BYTES_MAX;
use std::fmt;

/// What a file of the container is, by its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A snapshot, `.snap`.
    Snap,
    /// A write-ahead log, `.xlog`.
    Xlog,
    /// The log of vinyl's metadata, `.vylog`.
    Vylog,
    /// A vinyl run, `.run`.
    Run,
    /// The page index of a vinyl run, `.index`.
    Index,
}

impl FileType {
    const ALL: [Self; 5] = [Self::Snap, Self::Xlog, Self::Vylog, Self::Run, Self::Index];

    /// The word of the first line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snap => "SNAP",
            Self::Xlog => "XLOG",
            Self::Vylog => "VYLOG",
            Self::Run => "RUN",
            Self::Index => "INDEX",
        }
    }

    /// What the names of such files end in, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Snap => "snap",
            Self::Xlog => "xlog",
            Self::Vylog => "vylog",
            Self::Run => "run",
            Self::Index => "index",
        }
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text header of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextHeader {
    /// What the file is.
    pub filetype: FileType,
    /// The version of the format, as written: `0.12` or `0.13`.
    pub version: String,
    /// The version of Tarantool that wrote the file.
    pub writer: Option<String>,
    /// The UUID of the instance that wrote it, in lower case.
    pub instance: Option<String>,
    /// The state the file stands for: of a snapshot its last row's, of a log that before its first row.
    pub vclock: Vclock,
    /// Of a log: the vclock of the log before it.
    pub prev_vclock: Option<Vclock>,
    /// Lines with keys that are not known, in their order.
    pub unknown: Vec<(String, String)>,
    /// Bytes of the header, its empty line included: where the first block begins.
    pub bytes: usize,
}

impl TextHeader {
    /// The header of a file of ours.
    pub(crate) fn new(filetype: FileType, instance: Option<String>, vclock: Vclock) -> Self {
        let mut header = Self {
            filetype,
            version: "0.13".into(),
            writer: Some(concat!("Lycosa ", env!("CARGO_PKG_VERSION")).into()),
            instance,
            vclock,
            prev_vclock: None,
            unknown: Vec::new(),
            bytes: 0,
        };
        header.bytes = header.to_text().len();
        header
    }

    /// The header as it stands at the beginning of its file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.filetype, self.version);
        let mut line = |key: &str, value: Option<&dyn fmt::Display>| {
            if let Some(value) = value {
                text += &format!("{key}: {value}\n");
            }
        };
        line("Version", self.writer.as_ref().map(|writer| writer as _));
        line("Instance", self.instance.as_ref().map(|instance| instance as _));
        line("VClock", Some(&self.vclock));
        line("PrevVClock", self.prev_vclock.as_ref().map(|vclock| vclock as _));
        text.push('\n');
        text
    }

    /// Reads a header from the first bytes of a file: all of it, or at least the longest header's.
    pub(crate) fn parse(file: &[u8]) -> Result<Self, Error> {
        let filetype = filetype(file)?;
        let window = &file[..file.len().min(TEXT_HEADER_BYTES_MAX)];
        let Some(end) = window.windows(2).position(|pair| pair == b"\n\n") else {
            let error = Error::new(
                if file.len() < TEXT_HEADER_BYTES_MAX { ErrorKind::Truncated } else { ErrorKind::Container },
                "text header",
            );
            return Err(error
                .expected(format_args!("an empty line within the first {TEXT_HEADER_BYTES_MAX} bytes"))
                .found(format_args!("none in {} bytes", window.len()))
                .byte(0));
        };
        let mut lines = Lines { bytes: &window[..end], at: 0 };
        lines.next();
        let (at, version) = lines.next().unwrap_or((end, b""));
        if version != b"0.12" && version != b"0.13" {
            return Err(Error::new(ErrorKind::Version, "format version")
                .expected("0.12 or 0.13")
                .found(format_args!("{:?}", lossy(version)))
                .byte(at as u64));
        }
        let mut header = Self {
            filetype,
            version: lossy(version),
            writer: None,
            instance: None,
            vclock: Vclock::default(),
            prev_vclock: None,
            unknown: Vec::new(),
            bytes: end + 2,
        };
        for (at, line) in lines {
            header.line(line).map_err(|error| error.byte(at as u64))?;
        }
        Ok(header)
    }

    /// What a damaged header of a file of this type still says, from the first bytes of the file.
    pub(crate) fn of_damaged(file: &[u8], filetype: FileType) -> Self {
        let window = &file[..file.len().min(TEXT_HEADER_BYTES_MAX)];
        // The empty line may be damaged, but the first block begins behind it.
        let is_block = |bytes: &[u8]| bytes == MAGIC_PLAIN || bytes == MAGIC_ZSTD || bytes == MAGIC_END;
        let end = window.windows(4).position(is_block).unwrap_or(window.len());
        let mut header = Self {
            filetype,
            version: String::new(),
            writer: None,
            instance: None,
            vclock: Vclock::default(),
            prev_vclock: None,
            unknown: Vec::new(),
            bytes: end,
        };
        for (_, line) in (Lines { bytes: &window[..end], at: 0 }) {
            // Whatever makes no sense is what is damaged.
            let _ = header.line(line);
        }
        header
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Error> {
        let fault = |what: &str| Error::new(ErrorKind::Container, format!("text header: {what}"));
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            return Err(fault("line")
                .expected("`Key: value`")
                .found(format_args!("{:?}", shorten(&lossy(line)))));
        };
        let value = lossy(line[colon + 1..].trim_ascii_start());
        match &line[..colon] {
            b"Version" => self.writer = Some(value),
            b"Instance" | b"Server" => {
                if !is_uuid(&value) {
                    return Err(fault("instance")
                        .expected("a UUID of 36 characters")
                        .found(format_args!("{:?}", shorten(&value))));
                }
                self.instance = Some(value.to_ascii_lowercase());
            }
            b"VClock" => self.vclock = value.parse()?,
            b"PrevVClock" => self.prev_vclock = Some(value.parse()?),
            key => self.unknown.push((lossy(key), value)),
        }
        Ok(())
    }
}

/// The type that the first line names; a file that is a mere beginning of such a line was cut.
fn filetype(file: &[u8]) -> Result<FileType, Error> {
    for filetype in FileType::ALL {
        let name = filetype.name().as_bytes();
        if file.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'\n')) {
            return Ok(filetype);
        }
        if name.starts_with(file) {
            return Err(Error::new(ErrorKind::Truncated, "text header")
                .expected("a file type and an empty line")
                .found(format_args!("{} bytes in all", file.len()))
                .byte(0));
        }
    }
    let line = file.split(|&byte| byte == b'\n').next().unwrap_or(b"");
    let error = Error::new(ErrorKind::NotSuchFile, "file type").byte(0);
    let expected = error.expected("SNAP, XLOG, VYLOG, RUN or INDEX in the first line");
    Err(match line {
        b"SORTDATA" => expected.found("SORTDATA, the order of indexes that goes with a snapshot"),
        _ => expected.found(format_args!("{:?}", shorten(&lossy(&line[..line.len().min(32)])))),
    })
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The lines of a text with the offset of each.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        self.at = at + length + 1;
        Some((at, &rest[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &[u8] =
        b"XLOG\n0.13\nVersion: 2.6.0-0-g47aa4e01e\nInstance: 78E0015e-511c-44a5-88b2-181e67295f91\n\
        VClock: {1: 10, 2: 5}\nPrevVClock: {1: 3}\n\nblocks";

    #[test]
    fn every_key_is_read() {
        let header = TextHeader::parse(LOG).unwrap();
        assert_eq!(header.filetype, FileType::Xlog);
        assert_eq!(header.version, "0.13");
        assert_eq!(header.writer.as_deref(), Some("2.6.0-0-g47aa4e01e"));
        assert_eq!(header.instance.as_deref(), Some("78e0015e-511c-44a5-88b2-181e67295f91"));
        assert_eq!(header.vclock.to_string(), "{1: 10, 2: 5}");
        assert_eq!(header.prev_vclock.unwrap().to_string(), "{1: 3}");
        assert_eq!(&LOG[header.bytes..], b"blocks");
        assert!(header.unknown.is_empty());
    }

    #[test]
    fn a_header_is_written_as_it_is_read() {
        let mut header = TextHeader::new(
            FileType::Snap,
            Some("78e0015e-511c-44a5-88b2-181e67295f91".into()),
            Vclock::default(),
        );
        assert_eq!(TextHeader::parse(header.to_text().as_bytes()).unwrap(), header);
        header.prev_vclock = Some("{0: 1, 2: 3}".parse().unwrap());
        header.bytes = header.to_text().len();
        assert_eq!(TextHeader::parse(header.to_text().as_bytes()).unwrap(), header);
    }

    #[test]
    fn the_spelling_of_0_12_is_read_and_unknown_keys_are_kept() {
        let header = TextHeader::parse(
            b"SNAP\n0.12\nServer: 78e0015e-511c-44a5-88b2-181e67295f91\nColour:  blue: dark\nVClock: {}\n\n",
        )
        .unwrap();
        assert_eq!(header.instance.as_deref(), Some("78e0015e-511c-44a5-88b2-181e67295f91"));
        assert_eq!(header.unknown, [("Colour".to_string(), "blue: dark".to_string())]);
        assert_eq!(header.writer, None);
    }

    #[test]
    fn every_cut_of_a_header_is_called_one() {
        for end in 0..LOG.len() - b"blocks".len() {
            let error = TextHeader::parse(&LOG[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated, "cut at {end}: {error}");
        }
    }

    #[test]
    fn of_a_damaged_header_the_lines_that_make_sense_are_taken() {
        let text = [LOG.strip_suffix(b"blocks").unwrap(), &MAGIC_PLAIN, b"\n\n"].concat();
        for at in 0..text.len() - 6 {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            let header = TextHeader::of_damaged(&damaged, FileType::Xlog);
            assert_eq!(header.bytes, text.len() - 6, "byte {at}");
            let whole = TextHeader::parse(&text).unwrap();
            let same = [
                header.writer == whole.writer,
                header.instance == whole.instance,
                header.vclock == whole.vclock,
                header.prev_vclock == whole.prev_vclock,
            ];
            // Where a line ends is part of the next one as well.
            assert!(same.iter().filter(|&&same| same).count() >= 2, "byte {at}: {same:?}");
        }
    }

    #[test]
    fn what_is_no_header_is_refused_for_its_own_reason() {
        let with = |from: &str, to: &str| String::from_utf8_lossy(LOG).replace(from, to).into_bytes();
        let cases = [
            (with("XLOG", "XXOG"), ErrorKind::NotSuchFile),
            (with("XLOG\n", "XLOGS\n"), ErrorKind::NotSuchFile),
            (b"SORTDATA\n1\n".to_vec(), ErrorKind::NotSuchFile),
            (vec![0xff; 4096], ErrorKind::NotSuchFile),
            (with("0.13", "0.14"), ErrorKind::Version),
            (with("0.13", "0.1"), ErrorKind::Version),
            (with("0.13\n", "\n"), ErrorKind::Version),
            (with("78E0015e", "z8E0015e"), ErrorKind::Container),
            (with("VClock: {", "VClock: ?"), ErrorKind::Container),
            (with("Version: ", "Version "), ErrorKind::Container),
            (with("\n\n", &"x".repeat(2000)), ErrorKind::Container),
        ];
        for (bytes, kind) in cases {
            let error = TextHeader::parse(&bytes).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.place().byte.is_some(), "{error}");
        }
    }
}
