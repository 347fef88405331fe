//! `lycosa completions SHELL` and `lycosa man DIR`: what shells and `man` want to know of the commands.

use clap::CommandFactory;

use crate::args::{Arguments, CompletionsArguments, ManArguments};
use crate::failure::Failure;
use crate::print::Output;

pub fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "lycosa", &mut script);
    let mut out = Output::new()?;
    std::io::Write::write_all(&mut out, &script)?;
    Ok(out.finish()?)
}

pub fn man(arguments: &ManArguments) -> Result<(), Failure> {
    clap_mangen::generate_to(Arguments::command(), &arguments.folder)
        .map_err(|error| Failure::cannot(format!("{}: {error}", arguments.folder.display())))
}
