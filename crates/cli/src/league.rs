//! `mirrorball league`: one policy against all others, over the matrix on which they are judged.

use crate::compare::quoted;
use crate::ending::{Ending, Failure, INTERRUPTED};
use crate::screen;
use anyhow::{Context, Result, anyhow, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use mirrorball_core::policies::parse_list;
use mirrorball_lab::evaluation::league::ablation::variants;
use mirrorball_lab::evaluation::league::matrix::{Half, Matrix};
use mirrorball_lab::evaluation::league::standings::Standings;
use mirrorball_lab::evaluation::league::text::{Detail, markdown, text};
use mirrorball_lab::evaluation::league::{
    self, LeagueOutcome, LeagueRequest, QUICK_RIVALS, all_rivals, csv, page,
};
use mirrorball_lab::experiment::run::RunOptions;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the seeds of a league for design are made from; the final one has others.
const SEED: u64 = 1;
const FINAL_SEED: u64 = 1001;
const DEFAULT_SUBJECT: &str = "mirrorball/auto";
/// Where `--report` writes.
const PAGE: &str = "league.html";

/// Judge a policy against all others over many arrays and jobs
///
/// Runs every job of the league on every array of the league under the policy that is judged, its
/// rivals and the oracle. While a policy is being made only one half of the pairings is shown, the
/// design half; `--final` shows both, apart, with seeds that no design saw.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball league --quick
  mirrorball league --quick --subject research/sed,zfs/mirror
  mirrorball league --quick --arrays 'equal-*' --jobs 'seq-*' --all --report
  mirrorball league --final --seeds 3 --format markdown")]
pub(crate) struct Args {
    /// The policies to be judged, separated by commas
    #[arg(short, long, value_name = "LIST", default_value = DEFAULT_SUBJECT)]
    subject: String,

    /// Judge the first of them without each of its ingredients too
    #[arg(long)]
    ablation: bool,

    /// Their rivals, separated by commas [default: every policy but our own]
    #[arg(short, long, value_name = "LIST")]
    policy: Option<String>,

    /// A dozen rivals and short runs
    #[arg(long)]
    quick: bool,

    /// Both halves, with seeds of their own
    #[arg(long = "final")]
    is_final: bool,

    /// Arrays of the league, separated by commas; `seq-*` is all that begin so
    #[arg(long, value_name = "LIST")]
    arrays: Option<String>,

    /// Jobs of the league, likewise
    #[arg(long, value_name = "LIST")]
    jobs: Option<String>,

    /// How often each cell is run, each time with another seed
    #[arg(short = 'n', long, default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,

    /// What all seeds are made from [default: 1, or with --final 1001]
    #[arg(long)]
    seed: Option<u64>,

    /// Show every rival and every pairing
    #[arg(long)]
    all: bool,

    /// Also write a page with maps of all pairings, `league.html` in this folder
    #[arg(long)]
    report: bool,

    /// What to print
    #[arg(short, long, value_enum, default_value = "table")]
    format: Format,

    /// Threads to run on; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// What to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Tables for a terminal.
    Table,
    /// Tables for a web page.
    Markdown,
    /// One line for each policy under each pairing.
    Csv,
    /// Everything, for programs.
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let asked = asked(args).map_err(Failure::WrongUse)?;
    match play(args, &asked).map_err(Failure::Fault)? {
        LeagueOutcome::Interrupted => Ok(Ending::Interrupted),
        LeagueOutcome::Complete(standings) => {
            screen::print(&rendered(args, &standings))?;
            if args.report {
                // Every league overwrites it, as every run of `compare --report` does its own.
                let written = std::fs::write(PAGE, page::render(&standings));
                written.with_context(|| format!("cannot write {PAGE}")).map_err(Failure::Fault)?;
                screen::say(format_args!("the report is in {PAGE}"));
            }
            Ok(Ending::Done)
        }
    }
}

fn asked(args: &Args) -> Result<LeagueRequest> {
    let matrix = Matrix::builtin().only(args.arrays.as_deref(), args.jobs.as_deref())?;
    let subjects = listed("--subject", &args.subject)?;
    let subjects = if args.ablation { variants(&subjects[0])? } else { subjects };
    let rivals = match &args.policy {
        Some(list) => listed("--policy", list)?,
        None if args.quick => QUICK_RIVALS.map(str::to_owned).to_vec(),
        None => all_rivals(),
    };
    let rivals: Vec<String> =
        rivals.into_iter().filter(|rival| !subjects.contains(rival)).collect();
    ensure!(!rivals.is_empty(), "no rival is left (name some with --policy)");
    let asked = LeagueRequest {
        matrix,
        subjects,
        rivals,
        halves: if args.is_final { Half::ALL.to_vec() } else { vec![Half::Design] },
        repeats: args.seeds,
        seed: args.seed.unwrap_or(if args.is_final { FINAL_SEED } else { SEED }),
        quick: args.quick,
        command: command(),
    };
    ensure!(
        asked.cell_count() > 0,
        "none of these jobs on these arrays belongs to the design half (--final has both)"
    );
    Ok(asked)
}

/// The command as it was given, apart from the program's path.
fn command() -> String {
    let words = std::env::args().skip(1).map(|word| quoted(&word));
    std::iter::once("mirrorball".to_owned()).chain(words).collect::<Vec<String>>().join(" ")
}

fn listed(option: &str, list: &str) -> Result<Vec<String>> {
    let specs = parse_list(list).map_err(|error| anyhow!("{option}: {error}"))?;
    Ok(specs.iter().map(ToString::to_string).collect())
}

fn play(args: &Args, asked: &LeagueRequest) -> Result<LeagueOutcome> {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        screen::say("\nfinishing the cells under way; Ctrl-C again to stop at once");
    })
    .context("cannot listen for Ctrl-C")?;
    let bar = ProgressBar::new(asked.cell_count() as u64);
    let template = "{bar:40} {pos}/{len} cells, {eta} to go";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    let on_cell = |_: &mirrorball_lab::experiment::plan::Cell<'_>, _| bar.inc(1);
    let options = RunOptions { threads: args.threads, stop: &STOP, on_cell: &on_cell };
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
