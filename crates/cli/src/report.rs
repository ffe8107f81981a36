//! `mirrorball report`: writes saved results in any format. Nothing runs again.
//!
//! The default is an HTML page. `--format`, or the ending of the output file, selects a text
//! format.
//!
//! A file that cannot be used is named and the rest is reported, with exit code 1. Without any
//! usable file the exit code is 2.

use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::ranking::RankingArgs;
use crate::screen;
use anyhow::anyhow;
use clap::builder::{PossibleValue, PossibleValuesParser};
use mirrorball_lab::experiment::results::{self, Loaded, ResultSet, Skipped};
use mirrorball_lab::experiment::study::{Criteria, Study};
use mirrorball_lab::report::{FORMATS, Findings, Format, Style, html, is_page};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Report saved results, or compare several sets of them
///
/// Each folder is one set of results; all files together are one more set. With several sets, each
/// is compared with the first. Reads saved results only and simulates nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A file that cannot be used is named and skipped; the exit code is then 1, \
or 2 if no result is left.

Examples:
  mirrorball report mirrorball-results/two-ssd-raid1-rand-4k-qd32
  mirrorball report results --format table
  mirrorball report results -o results.md
  mirrorball report results --rank p99 --baseline latency-rr -o tail.html
  mirrorball report before after -o comparison.html"
)]
pub(crate) struct Args {
    /// Results folders, or files from the `cells` folder of a results folder
    #[arg(required = true, value_name = "DIR|FILE")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    ranking: RankingArgs,

    /// Output format [default: that of the file name extension of FILE, else html]
    #[arg(short, long, value_parser = form_names())]
    format: Option<String>,

    /// Output file, or `-` for standard output [default: report.html for html, which replaces an
    /// older page of this program, else standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace the output file if it exists
    #[arg(long)]
    force: bool,
}

enum Form {
    Html,
    Text(&'static Format),
}

const HTML: &str = "html";
/// Default output file of the page.
const PAGE_FILE: &str = "report.html";
/// Endings of files, and their formats.
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
    let mut existing = Existing::from_force(args.force, output.as_deref(), "-o FILE")?;
    if args.output.is_none() && output.is_some() && is_page(Path::new(PAGE_FILE)) {
        existing = Existing::Replace;
    }
    let ranking = args.ranking.loaded(&mut None).map_err(Failure::WrongUse)?;
    let Loaded { mut sets, refused } = results::load(&args.paths, &ranking.criteria());
    for set in &mut sets {
        let study = &set.study;
        let criteria = ranking.or_of(&study.plan).criteria();
        if criteria != study.criteria {
            set.study = Study::new(study.plan.clone(), study.cells.clone(), criteria);
        }
    }
    if sets.is_empty() {
        let lines: Vec<String> = refused.iter().map(shown).collect();
        let mut text = lines.join("\n  ");
        if text.contains("Permission denied") {
            text += "\n  help: give results that you may read";
        } else if !text.contains("\n  help: ") {
            text += "\n  help: give a results folder, or files from its `cells` folder";
        }
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    check_ranking(&ranking, &sets).map_err(Failure::WrongUse)?;
    if let Some(path) = &output {
        output_file::check(path, existing).map_err(Failure::WrongUse)?;
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
            output_file::write(path, &text, existing).map_err(Failure::Fault)?;
            if !output_file::is_stdout(path) {
                screen::say(format_args!("the report is in {}", path.display()));
            }
        }
    }
    Ok(if skipped.is_empty() { Ending::Done } else { Ending::FoundFailure })
}

/// The value of --report without a file: the page goes into the results folder.
pub(crate) const IN_RESULTS: &str = "";

/// The file of --report. An array or a job that follows --report is no page.
pub(crate) fn page_file(text: &str) -> Result<PathBuf, String> {
    match text == IN_RESULTS || text.to_ascii_lowercase().ends_with(".html") {
        true => Ok(PathBuf::from(text)),
        false => {
            Err("the name of a page ends in .html; --report without a file may come last".into())
        }
    }
}

/// The page of --report, its file or one in the results folder, and the treatment of an older one.
pub(crate) fn page_of(file: &Path, folder: &Path) -> (PathBuf, Existing) {
    let path = if file == Path::new(IN_RESULTS) { folder.join(PAGE_FILE) } else { file.to_owned() };
    let existing = if is_page(&path) { Existing::Replace } else { Existing::Stays };
    (path, existing)
}

/// Checks a file that --report names before long work. Fails if it cannot be written.
pub(crate) fn check_page(file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file.filter(|file| *file != Path::new(IN_RESULTS)) else { return Ok(()) };
    let (path, existing) = page_of(file, Path::new("."));
    output_file::check(&path, existing)
}

/// Writes the page of a results folder to the file of --report, replacing an older page; returns
/// its path.
pub(crate) fn write_page(
    folder: &Path,
    file: &Path,
    criteria: &Criteria,
) -> anyhow::Result<PathBuf> {
    let Loaded { sets, refused } = results::load(&[folder.to_owned()], criteria);
    if let Some(reason) = refused.first() {
        return Err(anyhow!("{}", shown(reason)));
    }
    let (path, existing) = page_of(file, folder);
    output_file::write(&path, &html::render(&sets), existing)?;
    Ok(path)
}

/// Checks the reference policy against what the sets hold.
fn check_ranking(ranking: &RankingArgs, sets: &[ResultSet]) -> anyhow::Result<()> {
    let cells = || sets.iter().flat_map(|set| &set.study.cells);
    let policies: BTreeSet<&str> = cells().map(|cell| cell.identity.policy.as_str()).collect();
    let policies: Vec<&str> = policies.into_iter().collect();
    ranking.check(&policies, || format!("they are {}", policies.join(", ")))
}

fn form_names() -> PossibleValuesParser {
    let html = PossibleValue::new(HTML).help("an HTML page with charts, in one file");
    let text = FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.summary));
    [html].into_iter().chain(text).collect::<Vec<PossibleValue>>().into()
}

/// The format, from its name or the ending of the file.
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
            "--output: no format has the file name extension .{ending}\n  help: use one of \
             {known}, or give the format with --format"
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
