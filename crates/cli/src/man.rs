//! `mirrorball man`: the manual pages.

use crate::ending::{Ending, Failure};
use crate::{Cli, folders, screen};
use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Print the manual page, or write the pages of all commands into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball man | man -l -
  mirrorball man ctl status | man -l -
  mirrorball man -o ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write a page for each command into this folder, which is created if it is missing; existing
    /// pages are overwritten
    #[arg(short, long, value_name = "DIR", conflicts_with = "names")]
    output: Option<PathBuf>,

    /// Command whose page is printed, for example `ctl status` [default: mirrorball itself]
    #[arg(value_name = "COMMAND")]
    names: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let command = command();
    match &args.output {
        None => {
            let command = descendant(&command, &args.names).map_err(Failure::WrongUse)?;
            screen::print(&String::from_utf8_lossy(&page(command).map_err(Failure::Fault)?))?;
        }
        Some(folder) => {
            folders::create(folder).map_err(Failure::WrongUse)?;
            write_pages(&command, folder).map_err(Failure::Fault)?;
        }
    }
    Ok(Ending::Done)
}

/// The command with its sub-commands, but for `help`: a page says what `help` would print.
fn command() -> Command {
    let mut command = without_help(Cli::command());
    command.build();
    command
}

fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// The command that these names lead to, a sub-command each.
fn descendant<'a>(command: &'a Command, names: &[String]) -> anyhow::Result<&'a Command> {
    names.iter().try_fold(command, |command, name| {
        command.find_subcommand(name).with_context(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let help = match &known[..] {
                [] => "leave it out".to_owned(),
                known => format!("give one of {}", known.join(", ")),
            };
            let parent = command.get_bin_name().unwrap_or(command.get_name());
            format!("`{parent}` has no command `{name}`\n  help: {help}")
        })
    })
}

/// Writes the page of a command and those of its sub-commands, which its own page refers to.
fn write_pages(command: &Command, folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(format!("{}.1", name(command)));
    std::fs::write(&path, page(command)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    command.get_subcommands().try_for_each(|child| write_pages(child, folder))
}

/// `mirrorball-ctl-status` for the command that users type as `mirrorball ctl status`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

fn page(command: &Command) -> anyhow::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone().display_name(name(command))).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_page_of_a_command_is_found_by_the_words_that_users_type() {
        let command = command();
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        for (words, expected) in [
            (&[][..], "mirrorball"),
            (&["serve"], "mirrorball-serve"),
            (&["ctl", "members", "rebuild"], "mirrorball-ctl-members-rebuild"),
        ] {
            assert_eq!(name(descendant(&command, &names(words)).unwrap()), expected);
        }
        let refused = |words: &[&str]| descendant(&command, &names(words)).unwrap_err().to_string();
        let unknown = refused(&["ctl", "member"]);
        assert!(unknown.starts_with("`mirrorball ctl` has no command `member`\n"), "{unknown}");
        assert!(unknown.contains("help: give one of status, members, "), "{unknown}");
        assert!(refused(&["serve", "x"]).ends_with("help: leave it out"));
    }

    #[test]
    fn every_page_that_a_page_names_is_written() {
        let folder = tempfile::tempdir().unwrap();
        write_pages(&command(), folder.path()).unwrap();
        let (mut written, mut named) = (BTreeSet::new(), BTreeSet::new());
        for entry in folder.path().read_dir().unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap().replace("\\-", "-");
            let names = page.lines().filter_map(|line| line.strip_suffix("(1)"));
            named.extend(names.filter(|name| !name.contains(' ')).map(str::to_owned));
            written.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
        assert!(named.contains("mirrorball-ctl-members-rebuild"), "{named:?}");
        let missing: Vec<_> = named.difference(&written).collect();
        assert_eq!(missing, Vec::<&String>::new());
    }
}
