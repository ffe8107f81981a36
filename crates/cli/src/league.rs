//! `mirrorball league`: compares a policy with all others over a matrix of arrays and jobs.

mod sample;
mod sweep;

use crate::compare::quoted;
use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use crate::output_file::{self, Existing};
use crate::{progress, screen};
use anyhow::{Result, anyhow, bail, ensure};
use mirrorball_core::policies::{parse_list, rounding_notes};
use mirrorball_lab::evaluation::league::ablation::variants;
use mirrorball_lab::evaluation::league::matrix::{Half, Matrix};
use mirrorball_lab::evaluation::league::standings::Standings;
use mirrorball_lab::evaluation::league::text::{Detail, markdown, text};
use mirrorball_lab::evaluation::league::{
    self, LeagueOutcome, LeagueRequest, QUICK_RIVALS, all_rivals, csv, page,
};
use mirrorball_lab::experiment::record::ORACLE;
use mirrorball_lab::experiment::run::RunOptions;
use std::num::NonZeroUsize;
use std::path::Path;

/// Base of the seeds of the design half; `--final` uses another.
const SEED: u64 = 1;
const FINAL_SEED: u64 = 1001;
const DEFAULT_SUBJECT: &str = "mirrorball/auto";
/// Where `--report` writes.
const PAGE: &str = "league.html";

/// Compare a policy with all others over many arrays and jobs
///
/// Simulates pairings, each of one built-in array and one built-in job of the league, under the
/// policies being evaluated (--subject), their rivals (--policy) and the oracle (a reference that
/// asks the disk models which mirror would complete a read first). A hash of its names puts each
/// pairing into one of two halves: the design half, for the development of policies, and the
/// held-out half, which shows whether a policy was tuned to the design half. Only the design half
/// is run, unless --final is given.
///
/// With --sample, arrays and jobs are drawn at random instead, so that no policy can be tuned to
/// them.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Policies to evaluate, separated by commas
    #[arg(long, value_name = "LIST", default_value = DEFAULT_SUBJECT)]
    subject: String,

    /// Also evaluate the --subject policy with one component left out at a time
    #[arg(long)]
    ablation: bool,

    /// Rivals, separated by commas [default: all policies except mirrorball/*]
    #[arg(short, long, value_name = "LIST")]
    policy: Option<String>,

    /// Compare with twelve rivals instead of all, in shorter runs
    #[arg(long)]
    quick: bool,

    /// Run both halves of the pairings, with other seeds, and show each half in tables of its own
    #[arg(long = "final")]
    is_final: bool,

    /// Arrays of the league, separated by commas; globs such as `equal-*` are allowed [default:
    /// all]
    #[arg(long, value_name = "LIST")]
    arrays: Option<String>,

    /// Jobs of the league, separated by commas; globs such as `seq-*` are allowed [default: all]
    #[arg(long, value_name = "LIST")]
    jobs: Option<String>,

    /// Number of repeats of each pairing under each policy, from 1 to 100, each with another seed
    #[arg(short = 'n', long, visible_alias = "seeds", value_name = "N", default_value_t = 1,
          allow_hyphen_values = true, value_parser = whole_number(1u32..=100))]
    repeats: u32,

    /// Number from which all seeds are derived [default: 1, or 1001 with --final]
    #[arg(short, long, allow_hyphen_values = true, value_parser = numbers::seed)]
    seed: Option<u64>,

    /// Show all rivals and all pairings in tables and pages, not only the best rivals and the worst
    /// pairings
    #[arg(long)]
    all: bool,

    /// Also write an HTML page with heat maps of all pairings, `league.html` in the current folder
    #[arg(long)]
    report: bool,

    /// Replace the page, or the files of --pairing, if they exist
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    sample: sample::SampleArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value = "table")]
    format: Format,

    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables for a terminal.
    Table,
    /// Tables in Markdown.
    Markdown,
    /// One line for each pairing and policy.
    Csv,
    /// Everything as JSON.
    Json,
}

fn after_help() -> String {
    let matrix = Matrix::builtin();
    let pairings = matrix
        .arrays
        .iter()
        .flat_map(|array| matrix.jobs.iter().map(|job| Half::of(&array.name, &job.name)));
    let halves: Vec<Half> = pairings.collect();
    format!(
        "The league has {} arrays and {} jobs, which make {} pairings, {} of them in the design \
half. With all rivals, `--sample 100` takes about 5 minutes on one CPU; the whole league takes \
longer, so begin with --quick.

Examples:
  mirrorball league --quick
  mirrorball league --quick --subject research/sed,zfs/mirror
  mirrorball league --quick --arrays 'equal-*' --jobs 'seq-*' --all --report
  mirrorball league --final --repeats 3 --format markdown
  mirrorball league --sample 100
  mirrorball league --sample 100 --list
  mirrorball league --sample 100 --pairing 37",
        matrix.arrays.len(),
        matrix.jobs.len(),
        halves.len(),
        halves.iter().filter(|&&half| half == Half::Design).count()
    )
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    if let Some(size) = args.sample.size {
        return sample::run(args, size);
    }
    args.sample.check_without_sample().map_err(Failure::WrongUse)?;
    let asked = asked(args).map_err(Failure::WrongUse)?;
    let output = args.report.then_some(Path::new(PAGE));
    let existing = Existing::from_force(args.force, output, "--report")?;
    if args.report {
        // Before minutes of work rather than after.
        output_file::check(Path::new(PAGE), existing).map_err(Failure::WrongUse)?;
    }
    match play(args, &asked).map_err(Failure::Fault)? {
        LeagueOutcome::Interrupted => Ok(Ending::Interrupted),
        LeagueOutcome::Complete(standings) => {
            screen::print(&rendered(args, &standings))?;
            if args.report {
                output_file::write(Path::new(PAGE), &page::render(&standings), existing)
                    .map_err(Failure::Fault)?;
                screen::say(format_args!("the report is in {PAGE}"));
            }
            Ok(Ending::Done)
        }
    }
}

fn asked(args: &Args) -> Result<LeagueRequest> {
    let matrix = Matrix::builtin().only(args.arrays.as_deref(), args.jobs.as_deref())?;
    let Policies { subjects, rivals } = Policies::new(args)?;
    let asked = LeagueRequest {
        matrix,
        subjects,
        rivals,
        halves: if args.is_final { Half::ALL.to_vec() } else { vec![Half::Design] },
        repeats: args.repeats,
        seed: args.seed.unwrap_or(if args.is_final { FINAL_SEED } else { SEED }),
        quick: args.quick,
        command: command(),
    };
    ensure!(
        asked.cell_count() > 0,
        "none of these pairings is in the design half\n  help: --final runs both halves"
    );
    Ok(asked)
}

/// Canonical strings of the policies of a league.
struct Policies {
    subjects: Vec<String>,
    rivals: Vec<String>,
}

impl Policies {
    fn new(args: &Args) -> Result<Policies> {
        let subjects = listed("--subject", &args.subject)?;
        let subjects = match &subjects[..] {
            [subject] if args.ablation => variants(subject)?,
            _ if args.ablation => bail!("--ablation needs exactly one --subject policy"),
            _ => subjects,
        };
        let rivals = match &args.policy {
            Some(list) => listed("--policy", list)?,
            None if args.quick => QUICK_RIVALS.map(str::to_owned).to_vec(),
            None => all_rivals(),
        };
        let rivals: Vec<String> =
            rivals.into_iter().filter(|rival| !subjects.contains(rival)).collect();
        ensure!(
            !rivals.is_empty(),
            "no rival is left, because all are --subject policies\n  help: give others with \
             --policy"
        );
        Ok(Policies { subjects, rivals })
    }
}

/// The command as it was given, apart from the program's path.
fn command() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once("mirrorball".to_owned()).chain(words).collect::<Vec<String>>().join(" ")
}

fn listed(option: &str, list: &str) -> Result<Vec<String>> {
    let specs = parse_list(list).map_err(|error| match list.split(',').any(|it| it == ORACLE) {
        true => anyhow!(
            "{option}: `{ORACLE}` is not a policy\n  help: the league adds it to every table"
        ),
        false => anyhow!("{option}: {error}"),
    })?;
    for note in rounding_notes(list) {
        screen::say(format_args!("note: {note}"));
    }
    Ok(specs.iter().map(ToString::to_string).collect())
}

fn play(args: &Args, asked: &LeagueRequest) -> Result<LeagueOutcome> {
    let stop = progress::stop_at_ctrl_c("finishing the running cells")?;
    let bar = progress::bar(asked.cell_count() as u64, "cells");
    let on_cell = |_: &mirrorball_lab::experiment::plan::Cell<'_>, _| bar.inc(1);
    let options = RunOptions { threads: args.threads, stop, on_cell: &on_cell };
    let outcome = league::run(asked, &options);
    bar.finish_and_clear();
    outcome
}

fn rendered(args: &Args, standings: &Standings) -> String {
    let detail = if args.all { Detail::All } else { Detail::Screen };
    match args.format {
        Format::Table => text(standings, detail, screen::style()),
        Format::Markdown => markdown(standings, detail),
        Format::Csv => csv::render(standings),
        Format::Json => {
            let text = serde_json::to_string_pretty(standings).expect("standings are plain data");
            text + "\n"
        }
    }
}
