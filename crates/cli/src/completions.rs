//! `mirrorball completions`: what a shell needs to complete commands and options.

use crate::ending::{Ending, Failure};
use crate::{Cli, screen};
use clap::CommandFactory;
use clap_complete::{Shell, generate};

/// Print the completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball completions bash > ~/.local/share/bash-completion/completions/mirrorball
  mirrorball completions zsh > ~/.zfunc/_mirrorball
  mirrorball completions fish > ~/.config/fish/completions/mirrorball.fish")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "mirrorball", &mut script);
    screen::print(&String::from_utf8_lossy(&script))?;
    Ok(Ending::Done)
}
