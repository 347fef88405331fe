//! The command line as one table: what `clap` parses and what `--help` shows.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lycosa::{BytesForm, ExportFormat, ExportOptions, IteratorType, Options, SpaceSelector};

use crate::failure::Failure;

const EXIT_CODES: &str = "\
Exit codes:
  0  done, also when `get` finds nothing
  1  the file is damaged, or contents differ
  2  usage: unknown option, space or index, a key that does not fit
  3  cannot open: missing, not such a file, unsupported, over a limit, a log missing, index absent";

/// Looks at, loads, measures and compacts data folders that Tarantool's memtx engine wrote. No file that is there is ever
/// changed.
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

    /// Print the rows of snapshots and logs, one a line
    #[command(after_help = "\
Examples:
  lycosa cat app/00000000000000001004.xlog --space users --type UPDATE,DELETE
  lycosa cat app --since 2026-01-31T12:00:00Z --format lua
  lycosa cat app --space users --key '[17]'
  lycosa cat app --follow

A folder stands for its logs; a snapshot is named as a file. JSON is lossless: what it does not have is an
object with one `$` key. Names of spaces, and the parts of keys, are those of the folder's newest state.")]
    Cat(CatArguments),
    /// Find everything that is wrong with files or folders, and what it costs
    #[command(after_help = "\
Examples:
  lycosa verify /var/lib/tarantool/app --deep
  lycosa verify app/*.snap app/*.xlog

A fault loses something or stops the opening; a notice is unusual but harmless, or what a crash
leaves at the end of a log. Exit 1 if there is a fault.")]
    Verify(VerifyArguments),

    /// Save everything that can be saved of damaged files into a fresh snapshot
    #[command(after_help = "\
Examples:
  lycosa salvage /var/lib/tarantool/app saved
  lycosa salvage 00000000000000001004.snap saved --checked-only

TARGET is made, or is an empty folder; SOURCE stays as it is. Beside the snapshot, lost.jsonl has every
row that could be read and is not in it, and why. Exit 0 if nothing is lost and a checksum vouches for every
row, else 1.")]
    Salvage(SalvageArguments),

    /// Compare two folders or snapshots: definitions, and tuples by primary key
    #[command(after_help = "\
Examples:
  lycosa diff yesterday today
  lycosa diff app restored --space users --space orders
  lycosa diff app app --a-to-time 2026-01-31T12:00:00Z

`-` is in A alone, `+` in B alone, `~` has the same key and other fields. Exit 0 if nothing differs, 1
if something does.")]
    Diff(DiffArguments),

    /// Write a space's tuples as JSON lines, CSV, TSV or MsgPack
    #[command(after_help = "\
Examples:
  lycosa export app --space users > users.jsonl
  lycosa export app --space users --format csv -o users.csv
  lycosa export app --space users --format tsv --redact

Names are those of the space's format; fields without one are called field_N. OUT is a new file.")]
    Export(ExportArguments),

    /// Tell what tuples are like: types, distinct values, least and greatest, lengths, sizes
    #[command(after_help = "\
Examples:
  lycosa stats app
  lycosa stats app --space users --top 10
  lycosa stats app --json")]
    Stats(StatsArguments),

    /// Write snapshot and logs as one fresh snapshot into a new folder
    #[command(after_help = "\
Examples:
  lycosa compact /var/lib/tarantool/app fresh
  lycosa compact app before --to-time 2026-01-31T12:00:00Z
  lycosa compact app some --space users --space orders

TARGET is made, or is an empty folder; DIR stays as it is. The snapshot is named by the vclock of
the last transaction that is in it. Tarantool opens it as it opens its own.")]
    Compact(CompactArguments),

    /// Print a script that completes commands and options in a shell
    #[command(after_help = "\
Examples:
  lycosa completions bash > /etc/bash_completion.d/lycosa
  lycosa completions zsh > ~/.zfunc/_lycosa")]
    Completions(CompletionsArguments),

    /// Write manual pages, one for each command
    #[command(after_help = "\
Example:
  lycosa man /usr/local/share/man/man1")]
    Man(ManArguments),

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

#[derive(Debug, Clone, Default, Args)]
pub struct HowArguments {
    /// Open the snapshot alone, whatever logs hold
    #[arg(long)]
    pub snapshot_only: bool,

    /// Replay logs up to this LSN, whole transactions only; REPLICA:LSN where several replicas have written
    #[arg(long, value_name = "LSN", value_parser = parse_lsn, conflicts_with = "snapshot_only")]
    pub to_lsn: Option<(Option<u32>, u64)>,

    /// Replay logs up to this time: seconds since 1970, or RFC 3339 (2026-01-31T12:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "snapshot_only")]
    pub to_time: Option<f64>,

    /// Skip rows of logs whose request type is not known, instead of refusing them
    #[arg(long)]
    pub skip_unknown: bool,

    /// Leave out synchronous transactions that were never confirmed
    #[arg(long)]
    pub drop_unconfirmed: bool,

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
pub struct CatArguments {
    /// Files (.snap, .xlog), or data folders for their logs
    #[arg(value_name = "FILE|DIR", required = true)]
    pub paths: Vec<PathBuf>,

    /// Only rows of this space: name or id, system ones too; may be given again
    #[arg(long, value_name = "SPACE")]
    pub space: Vec<String>,

    /// Only rows from this LSN on
    #[arg(long, value_name = "LSN")]
    pub from: Option<u64>,

    /// Only rows up to this LSN, with it
    #[arg(long, value_name = "LSN")]
    pub to: Option<u64>,

    /// Only rows from this time on: seconds since 1970, or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<f64>,

    /// Only rows up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub until: Option<f64>,

    /// Only rows written by these replicas; 0: those of local spaces, and of snapshots
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub replica: Vec<u32>,

    /// Only rows of these request types, by name (INSERT) or number
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',')]
    pub request_type: Vec<String>,

    /// Only rows about the tuple with this primary key, a JSON array; fewer values than it has parts are a prefix
    #[arg(long, value_name = "JSON")]
    pub key: Option<String>,

    /// How a row is printed; json if not given
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Option<CatFormat>,

    /// Print rows of system spaces as well
    #[arg(long)]
    pub show_system: bool,

    /// Print types and lengths in the place of keys and values
    #[arg(long)]
    pub redact: bool,

    /// Go on as the file grows, and in a folder from log to log, until nobody reads any more
    #[arg(long)]
    pub follow: bool,

    /// Threads to read and format with; 0 means all cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub threads: u16,

    /// Most that one block of a file may unpack to
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = parse_size)]
    pub max_block: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CatFormat {
    /// Lossless JSON
    Json,
    /// YAML, a document a row
    Yaml,
    /// Calls that do the same in Tarantool
    Lua,
    /// The row's bytes, in lower-case hex
    Hex,
}

impl CatArguments {
    /// `--json` and `--format` say the same thing twice, and must not contradict each other.
    pub fn format(&self, json: bool) -> Result<CatFormat, Failure> {
        let format = self.format.unwrap_or(CatFormat::Json);
        if json && format != CatFormat::Json {
            return Err(Failure::usage("--json and another --format contradict each other"));
        }
        if self.redact && format == CatFormat::Hex {
            return Err(Failure::usage("--format hex prints all bytes: it cannot be redacted"));
        }
        Ok(format)
    }
}

#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// Data folders, or files: .snap, .xlog, and what else has the same container
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,

    /// Open folders and snapshots as well: definitions, formats, unique keys, every row of the logs
    #[arg(long)]
    pub deep: bool,

    /// Threads to read with; 0 means all cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub threads: u16,
}

#[derive(Debug, Args)]
pub struct SalvageArguments {
    /// A data folder, or a lone .snap or .xlog file
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// The folder for what is saved
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,

    /// Take logs from this folder
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,

    /// Leave out rows that no checksum vouches for; they are in lost.jsonl
    #[arg(long)]
    pub checked_only: bool,

    /// Keep rows of compressed blocks even where nothing but the checksum shows that they are damaged
    #[arg(long, conflicts_with = "checked_only")]
    pub keep_doubtful: bool,

    /// Level of zstd
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: i32,

    /// Threads; 0 means all cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub threads: u16,

    /// Most memory for tuples and indexes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: Option<u64>,
}

#[derive(Debug, Args)]
pub struct DiffArguments {
    /// A data folder, or a lone .snap file
    #[arg(value_name = "A")]
    pub a: PathBuf,

    /// The one to compare it with
    #[arg(value_name = "B")]
    pub b: PathBuf,

    /// Only this space: name or id; may be given again
    #[arg(long, value_name = "SPACE")]
    pub space: Vec<String>,

    /// Compare system spaces as well
    #[arg(long)]
    pub system: bool,

    /// Differences of tuples that are printed of each space; 0: counts alone
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: u64,

    /// Open the snapshots alone, whatever logs hold
    #[arg(long)]
    pub snapshot_only: bool,

    /// Replay the logs of A up to this LSN; REPLICA:LSN where several replicas have written
    #[arg(long, value_name = "LSN", value_parser = parse_lsn, conflicts_with = "snapshot_only")]
    pub a_to_lsn: Option<(Option<u32>, u64)>,

    /// Replay the logs of A up to this time: seconds since 1970, or RFC 3339
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "snapshot_only")]
    pub a_to_time: Option<f64>,

    /// Replay the logs of B up to this LSN
    #[arg(long, value_name = "LSN", value_parser = parse_lsn, conflicts_with = "snapshot_only")]
    pub b_to_lsn: Option<(Option<u32>, u64)>,

    /// Replay the logs of B up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "snapshot_only")]
    pub b_to_time: Option<f64>,

    /// Threads to load with; 0 means all cores
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=1024))]
    pub threads: u16,

    /// Most memory for each of both
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_memory: Option<u64>,
}

impl DiffArguments {
    /// How A is opened, and B.
    pub fn options(&self) -> [Options; 2] {
        [(self.a_to_lsn, self.a_to_time), (self.b_to_lsn, self.b_to_time)].map(|(to_lsn, to_time)| {
            let how = HowArguments {
                snapshot_only: self.snapshot_only,
                to_lsn,
                to_time,
                max_memory: self.max_memory,
                ..HowArguments::default()
            };
            how.options().threads(usize::from(self.threads)).fingerprint(false)
        })
    }
}

#[derive(Debug, Args)]
pub struct ExportArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    /// Name or id of the space; only digits are an id, `name:512` forces a name
    #[arg(long, value_name = "SPACE")]
    pub space: String,

    /// In the order of this index, with its tuples alone; a tuple once for each of its keys
    #[arg(long, value_name = "INDEX")]
    pub index: Option<String>,

    /// The format
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "json-each-row")]
    pub format: ExportAs,

    /// Into this file, which must not be there; standard output if not given
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// CSV and TSV without the line of names
    #[arg(long)]
    pub no_header: bool,

    /// How binary data is written, and in JSON strings that are no UTF-8
    #[arg(long, value_name = "FORM", value_enum, default_value = "hex")]
    pub binary: BinaryAs,

    /// JSON: integers beyond 2^53 as strings
    #[arg(long)]
    pub quote_wide_integers: bool,

    /// JSON: decimals as strings
    #[arg(long)]
    pub quote_decimals: bool,

    /// JSON: NaN and infinities as strings instead of null
    #[arg(long)]
    pub quote_nan: bool,

    /// Types and lengths in the place of values
    #[arg(long)]
    pub redact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportAs {
    /// An object a line
    JsonEachRow,
    /// An array a line
    JsonCompact,
    /// RFC 4180
    Csv,
    /// Tab-separated, with the escapes of ClickHouse
    Tsv,
    /// The tuples as they are
    Msgpack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BinaryAs {
    /// Hexadecimal digits
    Hex,
    /// Base64
    Base64,
}

impl ExportArguments {
    pub fn options(&self) -> ExportOptions {
        ExportOptions {
            format: match self.format {
                ExportAs::JsonEachRow => ExportFormat::JsonEachRow,
                ExportAs::JsonCompact => ExportFormat::JsonCompactEachRow,
                ExportAs::Csv => ExportFormat::Csv,
                ExportAs::Tsv => ExportFormat::Tsv,
                ExportAs::Msgpack => ExportFormat::MsgPack,
            },
            bytes: match self.binary {
                BinaryAs::Hex => BytesForm::Hex,
                BinaryAs::Base64 => BytesForm::Base64,
            },
            header: !self.no_header,
            quotes_wide_integers: self.quote_wide_integers,
            quotes_decimals: self.quote_decimals,
            quotes_nan: self.quote_nan,
            redact: self.redact,
        }
    }
}

#[derive(Debug, Args)]
pub struct StatsArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    /// Only this space: name or id; may be given again
    #[arg(long, value_name = "SPACE")]
    pub space: Vec<String>,

    /// Tell of system spaces as well
    #[arg(long)]
    pub system: bool,

    /// Print so many of the most frequent values of each field
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub top: usize,
}

#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct ManArguments {
    /// A folder that is there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

#[derive(Debug, Args)]
pub struct CompactArguments {
    #[command(flatten)]
    pub open: OpenArguments,

    /// The folder for the snapshot
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,

    /// Write only this space, and nothing that the system spaces say of others (repeatable)
    #[arg(long, value_name = "SPACE")]
    pub space: Vec<String>,

    /// Level of zstd: 1 is fast, and on most rows as small as 3
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=22))]
    pub level: i32,
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
        let mut options = Options::new()
            .snapshot_only(self.snapshot_only)
            .skip_unknown(self.skip_unknown)
            .drop_unconfirmed(self.drop_unconfirmed);
        match self.to_lsn {
            Some((Some(replica_id), lsn)) => options = options.to_lsn_of(replica_id, lsn),
            Some((None, lsn)) => options = options.to_lsn(lsn),
            None => {}
        }
        if let Some(seconds) = self.to_time {
            options = options.to_time(seconds);
        }
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

/// `LSN`, or `REPLICA:LSN`.
fn parse_lsn(text: &str) -> Result<(Option<u32>, u64), String> {
    let parsed = match text.split_once(':') {
        Some((replica, lsn)) => {
            replica.parse().ok().zip(lsn.parse().ok()).map(|(replica, lsn)| (Some(replica), lsn))
        }
        None => text.parse().ok().map(|lsn| (None, lsn)),
    };
    parsed.ok_or_else(|| "expected an LSN such as 1004, or a replica's id and its LSN, such as 2:1004".into())
}

/// Seconds since 1970, or a moment as RFC 3339 writes it.
pub fn parse_time(text: &str) -> Result<f64, String> {
    if let Ok(seconds) = text.parse::<f64>()
        && seconds.is_finite()
    {
        return Ok(seconds);
    }
    rfc_3339(text).ok_or_else(|| "expected seconds since 1970, or a time such as 2026-01-31T12:00:00Z".into())
}

fn rfc_3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(at);
    let numbers = |text: &str, separator, digits: [usize; 3]| -> Option<[i64; 3]> {
        let parts: Vec<&str> = text.split(separator).collect();
        let [first, second, third]: [&str; 3] = parts.try_into().ok()?;
        let number = |text: &str, digits| {
            let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { text.parse().ok() } else { None }
        };
        Some([number(first, digits[0])?, number(second, digits[1])?, number(third, digits[2])?])
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(whole, ':', [2, 2, 2])?;
    let fraction: f64 = format!("0.{fraction}").parse().ok()?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, 28 + i64::from(is_leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *days.get(usize::try_from(month - 1).ok()?)?;
    if !(1..=length).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let [hours, minutes, _] = numbers(&format!("{offset}:00"), ':', [2, 2, 2])?;
            (hours * 3600 + minutes * 60) * if sign == "-" { -1 } else { 1 }
        }
        _ => return None,
    };
    // Days since 1970, by the number of leap years before this one.
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let days = (year - 1970) * 365 + leaps + days[..month as usize - 1].iter().sum::<i64>() + day - 1;
    Some((days * 86_400 + hour * 3600 + minute * 60 + second - offset) as f64 + fraction)
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
    fn points_in_logs_are_read_in_every_form() {
        assert_eq!(parse_lsn("1004"), Ok((None, 1004)));
        assert_eq!(parse_lsn("2:1004"), Ok((Some(2), 1004)));
        assert!(parse_lsn("2:").is_err() && parse_lsn("-1").is_err());
        for (text, seconds) in [
            ("0", 0.0),
            ("1767225600.25", 1_767_225_600.25),
            ("1970-01-01T00:00:00Z", 0.0),
            ("2026-01-01T00:00:00Z", 1_767_225_600.0),
            ("2024-02-29T23:59:59.5+03:00", 1_709_240_399.5),
            ("2000-03-01 00:00:00-00:30", 951_870_600.0),
            ("1969-12-31T23:59:59Z", -1.0),
        ] {
            assert_eq!(parse_time(text), Ok(seconds), "{text}");
        }
        for text in
            ["", "nan", "2026-01-31", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-01T0:00:00Z"]
        {
            assert!(parse_time(text).is_err(), "{text}");
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
