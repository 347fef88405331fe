//! The tool `lycosa`: looks at, loads, measures and compacts data folders of Tarantool's memtx engine.
//!
//! It lives on the crate's public API alone: what it can do, any user of the library can do.
//!
//! ```text
//! main      parse, run one command, turn the outcome into an exit code
//! args      the command line as one table: parser and help
//! failure   what can go wrong, and the exit code of each kind
//! print     standard output: tables, numbers, JSON, hex
//! progress  bars on a terminal
//! machine   facts about the machine for the benchmark
//! load schema dump get info cat verify salvage diff stats compact export bench help    a command each
//! ```
//!
//! Results go to standard output, everything else (errors, notices, bars) to standard error.

mod args;
mod bench;
mod cat;
mod compact;
mod diff;
mod dump;
mod export;
mod failure;
mod get;
mod help;
mod info;
mod load;
mod machine;
mod print;
mod progress;
mod salvage;
mod schema;
mod stats;
mod verify;

use std::process::ExitCode;

use args::{Arguments, BenchCommand, Command};
use clap::Parser;
use failure::Failure;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let json = arguments.json;
    match &arguments.command {
        Command::Load(load) => load::run(load, json),
        Command::Schema(schema) => schema::run(schema, json),
        Command::Dump(dump) => dump::run(dump, json),
        Command::Get(get) => get::run(get, json),
        Command::Info(info) => info::run(info, json),
        Command::Cat(cat) => cat::run(cat, json),
        Command::Verify(verify) => verify::run(verify, json),
        Command::Salvage(salvage) => salvage::run(salvage, json),
        Command::Diff(diff) => diff::run(diff, json),
        Command::Export(export) => export::run(export, json),
        Command::Stats(stats) => stats::run(stats, json),
        Command::Completions(completions) => help::completions(completions),
        Command::Man(man) => help::man(man),
        Command::Compact(compact) => compact::run(compact, json),
        Command::Bench(bench) => match &bench.command {
            BenchCommand::Load(load) => bench::run(load, json),
        },
        Command::TouchMemory { bytes } => {
            machine::touch_memory(*bytes);
            Ok(())
        }
    }
}
