//! The command line as one table: what `clap` parses and what `--help` shows.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lycosa::{IteratorType, Options, SpaceSelector};

use crate::failure::Failure;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, also when `get` finds nothing
  1  the file is damaged, or contents differ
  2  usage: unknown option, space or index, a key that does not fit
  3  cannot open: missing, not such a file, unsupported, over a limit, newer logs, index absent";

/// Looks at, loads and measures data folders that Tarantool's memtx engine wrote. Nothing on disk is ever changed.
#[derive(Debug, Parser)]
#[command(name = "lycosa", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub struct Arguments {
    /// Print JSON instead of tables; errors stay text, on standard error
    #[arg(long, global = true)]
    pub json: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a folder into memory and tell what it took, stage by stage
    #[command(after_help = "Example:\n  lycosa load /var/lib/tarantool/app --snapshot-only --threads 2")]
    Load(LoadArguments),

    /// Show spaces, formats and indexes; reads the system rows only
    #[command(after_help = "Example:\n  lycosa schema /var/lib/tarantool/app --json")]
    Schema(SchemaArguments),

    /// Print the tuples of a space, one a line, in the order of an index
    #[command(
        after_help = "Example:\n  lycosa dump app/00000000000000001004.snap --space users --index by_name"
    )]
    Dump(DumpArguments),

    /// Print the tuples that a key finds in an index
    #[command(after_help = "\
Examples:
  lycosa get app --space users --key '[17]'
  lycosa get app --space users --index by_name --key '[\"Ann\"]' --iterator GE --limit 10
  lycosa get app --space 512 --key-hex 9111

JSON values are converted by the type of the key's part: numbers as they are; strings for
string, decimal, uuid and datetime (RFC 3339); {\"hex\": \"...\"} for varbinary; null.
Fewer values than the index has parts search by that prefix.")]
    Get(GetArguments),

    /// Show what is in files: header, vclock, blocks, rows by type and space, end marker
    #[command(after_help = "Example:\n  lycosa info app/*.snap app/*.xlog")]
    Info(InfoArguments),

    /// Measure
    Bench(BenchArguments),

    /// Touches and frees memory (between the runs of `bench load --touch-memory`)
    #[command(hide = true)]
    TouchMemory { bytes: u64 },
}

/// What every command that opens a folder takes.
#[derive(Debug, Args)]
pub struct OpenArguments {
    /// A data folder, or a lone .snap file
    #[arg(value_name = "DIR")]
    pub path: PathBuf,

    #[command(flatten)]
    pub how: HowArguments,

    /// Threads to load with; 0 means all cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub threads: u16,
}

#[derive(Debug, Clone, Args)]
pub struct HowArguments {
    /// Open the snapshot alone, even where logs hold newer transactions
    #[arg(long)]
    pub snapshot_only: bool,

    /// Folder of the logs, where they live apart from the snapshots
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,

    /// Most memory to load into: bytes, or with a unit (512MiB, 2GiB, 4GB; K, M, G, T mean KiB, MiB, ...)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: Option<u64>,
}

#[derive(Debug, Args)]
pub struct LoadArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    /// List the system spaces in the table as well (JSON always has them)
    #[arg(long)]
    pub system: bool,

    /// Build indexes without hints (what `bench load --no-hints` measures)
    #[arg(long, hide = true)]
    pub no_hints: bool,

    /// Send every format through the nested path (what `bench load --nested` measures)
    #[arg(long, hide = true)]
    pub nested: bool,
}

#[derive(Debug, Args)]
pub struct SchemaArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    /// List the system spaces as well (JSON always has them)
    #[arg(long)]
    pub system: bool,
}

/// A space and one of its indexes.
#[derive(Debug, Args)]
pub struct IndexArguments {
    /// Name or id of the space; only digits are an id, `name:512` forces a name
    #[arg(long, value_name = "SPACE")]
    pub space: String,

    /// Name or id of the index, by the same rule; the primary one if not given
    #[arg(long, value_name = "INDEX")]
    pub index: Option<String>,

    /// How a tuple is printed: its bytes as stored, or lossless JSON
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<TupleFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TupleFormat {
    /// The MsgPack bytes as stored, in lower-case hex
    Hex,
    /// JSON; what JSON does not have is an object with one `$` key, such as {"$decimal":"1.50"}
    Json,
}

#[derive(Debug, Args)]
pub struct DumpArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    #[command(flatten)]
    pub index: IndexArguments,
}

#[derive(Debug, Args)]
pub struct GetArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    #[command(flatten)]
    pub index: IndexArguments,

    /// The key as a JSON array; [] is the empty key
    #[arg(long, value_name = "JSON", required_unless_present = "key_hex", conflicts_with = "key_hex")]
    pub key: Option<String>,

    /// The key as the hex of a MsgPack array
    #[arg(long, value_name = "HEX")]
    pub key_hex: Option<String>,

    /// EQ, REQ, GE, GT, LE, LT or ALL
    #[arg(long, value_name = "ITERATOR", default_value = "EQ")]
    pub iterator: IteratorType,

    /// Print at most so many tuples
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Debug, Args)]
pub struct InfoArguments {
    /// Files: .snap, .xlog, and what else has the same container
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct BenchArguments {
    #[command(subcommand)]
    pub command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Load folders again and again, interleaved, each time in a process of its own
    #[command(after_help = "\
Example:
  lycosa bench load mixed tens --runs 5 --threads 1,2 --touch-memory

Every round runs each folder with each number of threads in each arm once, every second round backwards.
Counts and fingerprints of all runs of a folder must agree, or the bench fails with exit 1.")]
    Load(BenchLoadArguments),
}

#[derive(Debug, Args)]
pub struct BenchLoadArguments {
    /// Data folders, or lone .snap files
    #[arg(value_name = "DIR", required = true)]
    pub paths: Vec<PathBuf>,

    #[command(flatten)]
    pub how: HowArguments,

    /// Loads of each folder, number of threads and arm
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,

    /// Numbers of threads to compare; 0 means all cores
    #[arg(long, value_name = "N,M", value_delimiter = ',', default_values_t = [0],
          value_parser = clap::value_parser!(u16).range(..=1024))]
    pub threads: Vec<u16>,

    /// One more arm: indexes built without hints
    #[arg(long)]
    pub no_hints: bool,

    /// One more arm: every format through the nested path, as if it had JSON paths
    #[arg(long)]
    pub nested: bool,

    /// Drop the snapshot from the page cache before each run
    #[arg(long)]
    pub cold: bool,

    /// Before each run let another process touch and free as much memory, so that no run pays for another's
    #[arg(long)]
    pub touch_memory: bool,
}

impl HowArguments {
    pub fn options(&self) -> Options {
        let mut options = Options::new().snapshot_only(self.snapshot_only);
        if let Some(bytes) = self.max_memory {
            options = options.max_memory(bytes);
        }
        if let Some(folder) = &self.wal_dir {
            options = options.wal_dir(folder);
        }
        options
    }
}

impl OpenArguments {
    pub fn options(&self) -> Options {
        self.how.options().threads(usize::from(self.threads))
    }
}

impl IndexArguments {
    pub fn space(&self) -> SpaceSelector {
        SpaceSelector::from(self.space.as_str())
    }

    /// The same rule names indexes.
    pub fn index(&self) -> Option<SpaceSelector> {
        self.index.as_deref().map(SpaceSelector::from)
    }

    /// `--json` and `--format` say the same thing twice, and must not contradict each other.
    pub fn format(&self, json: bool) -> Result<TupleFormat, Failure> {
        match (self.format, json) {
            (Some(TupleFormat::Hex), true) => {
                Err(Failure::usage("--json and --format hex contradict each other"))
            }
            (Some(format), _) => Ok(format),
            (None, _) => Ok(TupleFormat::Json),
        }
    }
}

/// Bytes with an optional unit, upper or lower case: `KB`, `MB`, ... are powers of 1000, `KiB`, ... and the bare
/// letters powers of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    const EXPECTED: &str = "expected a whole number of bytes, or one with a unit such as 512MiB, 2GiB or 4GB";
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| EXPECTED.to_owned())?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let mut letters = unit.chars();
    let power = match letters.next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some(_) => return Err(EXPECTED.to_owned()),
    };
    let base: u64 = match (power, letters.as_str()) {
        (0, "") | (1.., "" | "ib") => 1024,
        (1.., "b") => 1000,
        _ => return Err(EXPECTED.to_owned()),
    };
    number.checked_mul(base.pow(power)).ok_or_else(|| "more than 2^64 bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_table_of_arguments_holds_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("2GiB", 2 << 30),
            ("2 gib", 2 << 30),
            ("2G", 2 << 30),
            ("512MiB", 512 << 20),
            ("4GB", 4_000_000_000),
            ("3kb", 3_000),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "2X", "2Gb b", "2iB", "99999999999TiB", "2GiBs"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn json_and_hex_contradict_each_other() {
        let index = |format| IndexArguments { space: "s".into(), index: None, format };
        assert!(index(Some(TupleFormat::Hex)).format(true).is_err());
        assert_eq!(index(Some(TupleFormat::Hex)).format(false).unwrap(), TupleFormat::Hex);
        assert_eq!(index(None).format(true).unwrap(), TupleFormat::Json);
        assert_eq!(index(None).format(false).unwrap(), TupleFormat::Json);
    }
}
