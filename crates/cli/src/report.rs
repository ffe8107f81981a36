//! `mirrorball report`: what saved results say, in any format, without measuring again.
//!
//! A file that cannot be used is named and the rest is reported; the exit code then says that not
//! all was well. If nothing is left, that is wrong use.

use crate::compare::format_names;
use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, anyhow};
use mirrorball_lab::report::{FORMATS, Findings, Style};
use mirrorball_lab::results::{self, Loaded, ResultSet, Skipped};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Report saved results, or compare several sets of them
///
/// Each folder is one set of results; all single files together are one more. Every further set is
/// compared with the first. Nothing is measured again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code 1 if a file could not be used; the rest is reported all the same.

Examples:
  mirrorball report mirrorball-results/two-ssd-raid1-rand-4k-qd32
  mirrorball report results --format markdown -o results.md
  mirrorball report before after"
)]
pub(crate) struct Args {
    /// Results folders, or files from the `cells` folder of one
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,

    /// What to write
    #[arg(short, long, default_value = FORMATS[0].name, value_parser = format_names())]
    format: String,

    /// Write into this file instead of printing
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    check_output(args).map_err(Failure::WrongUse)?;
    let Loaded { sets, refused } = results::load(&args.paths);
    if sets.is_empty() {
        let lines: Vec<String> = refused.iter().map(shown).collect();
        return Err(Failure::WrongUse(anyhow!("{}", lines.join("\n  "))));
    }
    let skipped: Vec<&Skipped> = sets.iter().flat_map(|set| &set.skipped).chain(&refused).collect();
    for one in &skipped {
        eprintln!("skipped: {}", shown(one));
    }
    for set in &sets {
        for note in &set.notes {
            eprintln!("note: {}: {note}", set.label);
        }
    }
    match &args.output {
        None => screen::print(&render(args, &sets, screen::style()))?,
        Some(path) => {
            let text = render(args, &sets, Style::FILE);
            write(path, &text, args).map_err(Failure::Fault)?;
        }
    }
    Ok(if skipped.is_empty() { Ending::Done } else { Ending::FoundFailure })
}

fn render(args: &Args, sets: &[ResultSet], style: Style) -> String {
    let format = FORMATS.iter().find(|format| format.name == args.format);
    (format.expect("clap lets known formats pass").render)(&Findings::of_sets(sets), style)
}

fn shown(skipped: &Skipped) -> String {
    format!("{} {}", skipped.path.display(), skipped.reason)
}

/// Refuses before anything is read what would be refused after it.
fn check_output(args: &Args) -> anyhow::Result<()> {
    match &args.output {
        Some(path) if path.exists() && !args.force => Err(exists(path)),
        _ => Ok(()),
    }
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists\n  hint: name another file, or replace it with --force", path.display())
}

fn write(path: &Path, text: &str, args: &Args) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(args.force).create_new(!args.force).truncate(args.force);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
        other => other.with_context(|| format!("cannot write {}", path.display())),
    }
}
