//! `mirrorball man`: the manual pages.

use crate::ending::{Ending, Failure};
use crate::{Cli, screen};
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::PathBuf;

/// Print the manual page, or write one for each command
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball man | man -l -
  mirrorball man -o ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write the pages of all commands into this folder
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let mut command = Cli::command();
    command.build();
    match &args.output {
        None => screen::print(&String::from_utf8_lossy(&page(command).map_err(Failure::Fault)?))?,
        Some(folder) => write_pages(command, folder).map_err(Failure::Fault)?,
    }
    Ok(Ending::Done)
}

fn write_pages(command: Command, folder: &PathBuf) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let children: Vec<Command> = command.get_subcommands().cloned().collect();
    for command in children.into_iter().chain([command]) {
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page(command.display_name(name))?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn page(command: Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
