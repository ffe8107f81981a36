//! `mirrorball report`: what saved results say, in any format, without measuring again.
//!
//! A page (HTML) is a file by nature and is what people get unless they ask for a text form, by
//! name or by the ending of the file they want.
//!
//! A file that cannot be used is named and the rest is reported; the exit code then says that not
//! all was well. If nothing is left, that is wrong use.

use crate::compare::BASELINE;
use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mirrorball_lab::experiment::results::{self, Loaded, ResultSet, Skipped};
use mirrorball_lab::experiment::study::Criteria;
use mirrorball_lab::report::{FORMATS, Findings, Format, Style, html};
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
  mirrorball report results --format table
  mirrorball report results -o results.md
  mirrorball report before after -o comparison.html"
)]
pub(crate) struct Args {
    /// Results folders, or files from the `cells` folder of one
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,

    /// What to write [default: what the ending of FILE says, else html]
    #[arg(short, long, value_parser = form_names())]
    format: Option<String>,

    /// Write into this file; a text form is printed otherwise [default for html: report.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// What is written.
enum Form {
    /// The page.
    Html,
    /// A text form.
    Text(&'static Format),
}

/// What becomes of a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is replaced.
    Replace,
}

const HTML: &str = "html";
/// Where the page goes unless somebody says otherwise.
const PAGE_FILE: &str = "report.html";
/// Endings of files, and what belongs into them.
const ENDINGS: [(&str, &str); 6] = [
    ("html", HTML),
    ("htm", HTML),
    ("md", "markdown"),
    ("csv", "csv"),
    ("json", "json"),
    ("txt", "table"),
];

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let form = form(args).map_err(Failure::WrongUse)?;
    let output = match form {
        Form::Html => Some(args.output.clone().unwrap_or(PathBuf::from(PAGE_FILE))),
        Form::Text(_) => args.output.clone(),
    };
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let Loaded { sets, refused } = results::load(&args.paths, &criteria());
    if sets.is_empty() {
        let lines: Vec<String> = refused.iter().map(shown).collect();
        return Err(Failure::WrongUse(anyhow!("{}", lines.join("\n  "))));
    }
    if let Some(path) = &output {
        check_output(path, existing).map_err(Failure::WrongUse)?;
    }
    let skipped: Vec<&Skipped> = sets.iter().flat_map(|set| &set.skipped).chain(&refused).collect();
    for one in &skipped {
        screen::say(format_args!("skipped: {}", shown(one)));
    }
    for set in &sets {
        for note in &set.notes {
            screen::say(format_args!("note: {}: {note}", set.label));
        }
    }
    match &output {
        None => screen::print(&render(&form, &sets, screen::style()))?,
        Some(path) => {
            let text = render(&form, &sets, Style::FILE);
            write(path, &text, existing).map_err(Failure::Fault)?;
            screen::say(format_args!("the report is in {}", path.display()));
        }
    }
    Ok(if skipped.is_empty() { Ending::Done } else { Ending::FoundFailure })
}

/// Writes the page of a results folder into it, in place of an older one, and says where it is.
pub(crate) fn write_page(folder: &Path, criteria: &Criteria) -> anyhow::Result<PathBuf> {
    let Loaded { sets, refused } = results::load(&[folder.to_owned()], criteria);
    if let Some(reason) = refused.first() {
        return Err(anyhow!("{}", shown(reason)));
    }
    let path = folder.join(PAGE_FILE);
    let written = std::fs::write(&path, html::render(&sets));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The default score, with gains against the usual baseline.
fn criteria() -> Criteria {
    Criteria { baseline: Some(BASELINE.to_owned()), ..Criteria::default() }
}

fn form_names() -> PossibleValuesParser {
    let html = PossibleValue::new(HTML).help("a page with charts, one file, for a browser");
    let text = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.summary));
    [html].into_iter().chain(text).collect::<Vec<PossibleValue>>().into()
}

/// What was asked for, by name or by the ending of the file.
fn form(args: &Args) -> anyhow::Result<Form> {
    let ending = args.output.as_deref().and_then(Path::extension);
    let name = match (&args.format, ending) {
        (Some(name), _) => name,
        (None, None) => HTML,
        (None, Some(ending)) => of_ending(&ending.to_string_lossy())?,
    };
    Ok(FORMATS.iter().find(|format| format.name == name).map_or(Form::Html, Form::Text))
}

fn of_ending(ending: &str) -> anyhow::Result<&'static str> {
    let known = ENDINGS.iter().find(|(known, _)| ending.eq_ignore_ascii_case(known));
    known.map(|(_, name)| *name).ok_or_else(|| {
        let known = ENDINGS.map(|(known, _)| format!(".{known}")).join(", ");
        anyhow!(
            "--output: nothing is known to go into files that end in .{ending}\n  hint: {known} \
             are known; else say what to write with --format"
        )
    })
}

fn render(form: &Form, sets: &[ResultSet], style: Style) -> String {
    match form {
        Form::Html => html::render(sets),
        Form::Text(format) => (format.render)(&Findings::of_sets(sets), style),
    }
}

fn shown(skipped: &Skipped) -> String {
    format!("{} {}", skipped.path.display(), skipped.reason)
}

/// Refuses before anything is read what would be refused after it.
pub(crate) fn check_output(path: &Path, existing: Existing) -> anyhow::Result<()> {
    if path.exists() && existing == Existing::Keep { Err(exists(path)) } else { Ok(()) }
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("{} exists\n  hint: name another file, or replace it with --force", path.display())
}

/// Writes a file.
pub(crate) fn write(path: &Path, text: &str, existing: Existing) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let replace = existing == Existing::Replace;
    options.write(true).create(replace).create_new(!replace).truncate(replace);
    let written = options.open(path).and_then(|mut file| file.write_all(text.as_bytes()));
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
        other => other.with_context(|| format!("cannot write {}", path.display())),
    }
}
