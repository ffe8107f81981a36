//! `mirrorball compare`: which read policy serves an array and its jobs best.
//!
//! All arguments and files are read and checked before anything is written or run; an error up to
//! then is wrong use. Then the lab runs the plan. A first Ctrl-C lets the cells that are running
//! finish, a second one ends the program at once.

mod folder;

use crate::ending::{Ending, Failure, INTERRUPTED};
use crate::numbers::{self, THREADS, whole_number};
use crate::ranking::RankingArgs;
use crate::report;
use crate::screen;
use anyhow::{Context, Result, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser};
use indicatif::{ProgressBar, ProgressStyle};
use mirrorball_core::policies::parse_list;
use mirrorball_core::units::{Nanos, parse_duration};
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::inputs::{DEFAULT_JOBS, Inputs, builtin_job_names};
use mirrorball_lab::experiment::plan::{Choices, Plan};
use mirrorball_lab::experiment::results::Results;
use mirrorball_lab::experiment::run::{self, CellSource, RunOptions};
use mirrorball_lab::experiment::simulate::SimExecutor;
use mirrorball_lab::experiment::study::Study;
use mirrorball_lab::experiment::study::goal::RankedSection;
use mirrorball_lab::report::{FORMATS, Findings};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const REPEATS: u32 = 5;
const SEED: u64 = 1;
const ALL_POLICIES: &str = "all";

/// Compare read policies on a simulated array
///
/// Runs every job under every policy, several times with different seeds, and says which policy
/// serves the array best and by how much. Without arguments: six unequal hard disks in RAID1;
/// random 4 KiB reads with queue depth 1 and 32, and sequential reads, each without other load and
/// during a defragmentation; all policies.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Args {
    /// Array: a TOML file or a built-in array
    #[arg(default_value = ArrayFile::DEFAULT)]
    array: String,

    /// Jobs: fio job files or built-in jobs
    #[arg(value_name = "JOB", default_values = DEFAULT_JOBS, hide_default_value = true)]
    jobs: Vec<String>,

    /// Policies to compare, separated by commas; `btrfs/*` means all policies of btrfs
    #[arg(short, long, value_name = "LIST", default_value = ALL_POLICIES)]
    policy: String,

    #[command(flatten)]
    ranking: RankingArgs,

    /// Number of repeats of each job under each policy, from 1 to 1000, each with another seed
    #[arg(short = 'n', long, value_name = "N", default_value_t = REPEATS,
          value_parser = whole_number(1u32..=1000))]
    repeats: u32,

    /// Seed of the first repeat. The second repeat uses this number plus 1, and so on
    #[arg(short, long, default_value_t = SEED, value_parser = numbers::seed)]
    seed: u64,

    /// Simulated time of every job with its unit, for example 500ms, 10s or 2m [default: the
    /// `runtime` in the job]
    #[arg(short, long, value_name = "TIME", value_parser = positive_duration)]
    duration: Option<Nanos>,

    /// Output format
    #[arg(short, long, default_value = FORMATS[0].name, value_parser = format_names())]
    format: String,

    /// Results folder [default: mirrorball-results/ARRAY-JOBS]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Also write an HTML page with charts, `report.html` in the results folder
    #[arg(long)]
    report: bool,

    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,
}

fn after_help() -> String {
    let arrays: Vec<&str> = ArrayFile::builtin_names().collect();
    let jobs: Vec<&str> = builtin_job_names().collect();
    format!(
        "Built-in arrays: {}
Built-in jobs: {}
Policies: see `mirrorball policies`

Each cell (the run of one job under one policy with one seed) is saved when it ends. The same
command, run again, reuses the saved cells and runs the rest; another build of the program runs
every cell again. `plan.json` in the results folder holds the command and all inputs.

Examples:
  mirrorball compare
  mirrorball compare two-ssd-raid1 rand-4k-qd32 --policy 'pid,kakra/*' --format markdown
  mirrorball compare my-array.toml my-job.fio --repeats 5 --duration 30s -o results",
        arrays.join(", "),
        jobs.join(", ")
    )
}

fn format_names() -> PossibleValuesParser {
    FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.summary)).into()
}

fn positive_duration(text: &str) -> Result<Nanos> {
    let duration = parse_duration(text)?;
    if duration == Nanos::ZERO {
        return Err(anyhow!("must be greater than zero, for example 10s"));
    }
    Ok(duration)
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let inputs = Inputs::load(&args.array, &args.jobs).map_err(Failure::WrongUse)?;
    let build = BuildIdentity::current().map_err(Failure::Fault)?;
    let plan = plan(args, &inputs, build).map_err(Failure::WrongUse)?;
    args.ranking.check(&ranked_sections(&inputs), &[]).map_err(Failure::WrongUse)?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => folder::default_folder(&plan, is_default(args)),
    };
    Results::check(&folder, &plan).map_err(Failure::WrongUse)?;
    for note in &inputs.notes {
        screen::say(format_args!(
            "note: {}:{}: `{}`: {}",
            note.file, note.line, note.option, note.reason
        ));
    }
    let results = Results::open(&folder, &plan)
        .with_context(|| {
            format!("cannot write results into {}; choose another folder with -o", folder.display())
        })
        .map_err(Failure::WrongUse)?;
    let ending = run_cells(args, &plan, &inputs, &results).map_err(Failure::Fault)?;
    let shown = folder.display();
    let summaries = match ending {
        run::Ending::Complete(summaries) => summaries,
        run::Ending::Interrupted { done, all } => {
            screen::say(format_args!("interrupted: {done} of {all} cells are saved in {shown}"));
            screen::say("  run the same command again to continue");
            return Ok(Ending::Interrupted);
        }
    };
    let study = Study::new(plan, summaries, args.ranking.criteria());
    let format = FORMATS.iter().find(|format| format.name == args.format);
    let render = format.expect("clap lets known formats pass").render;
    screen::print(&render(&Findings::of_study(&study), screen::style()))?;
    screen::say(format_args!("results are in {shown}"));
    if args.report {
        let path = report::write_page(&folder, &study.criteria).map_err(Failure::Fault)?;
        screen::say(format_args!("the report is in {}", path.display()));
    }
    // The verdict says which; there is no result to go by.
    Ok(if study.has_dead_job() { Ending::FoundFailure } else { Ending::Done })
}

/// The sections of each job, by the name of the job.
fn ranked_sections(inputs: &Inputs) -> Vec<(String, Vec<RankedSection>)> {
    let jobs = inputs.job_sources.iter().zip(&inputs.jobs);
    jobs.map(|(source, job)| (source.name.clone(), RankedSection::of_job(job))).collect()
}

/// Returns true if the plan differs from the default one at most in its array and jobs.
fn is_default(args: &Args) -> bool {
    args.policy == ALL_POLICIES && (args.repeats, args.seed, args.duration) == (REPEATS, SEED, None)
}

fn plan(args: &Args, inputs: &Inputs, build: BuildIdentity) -> Result<Plan> {
    let specs = parse_list(&args.policy).map_err(|error| anyhow!("--policy: {error}"))?;
    let devids: Vec<u64> = inputs.array.members.iter().map(|member| member.devid).collect();
    for spec in &specs {
        spec.build(&devids).map_err(|error| anyhow!("--policy: {error}"))?;
    }
    let choices = Choices {
        policies: specs.iter().map(ToString::to_string).collect(),
        repeats: args.repeats,
        seed: args.seed,
        duration_ns: args.duration.map(|duration| duration.0),
    };
    let (array, jobs) = (inputs.array_source.clone(), inputs.job_sources.clone());
    Ok(Plan::new(build, array, jobs, choices, command(args)))
}

/// The command that makes the same plan, with every option written out. The results folder, the
/// output format and the number of threads are not part of a plan.
fn command(args: &Args) -> String {
    let mut words = vec!["mirrorball".to_owned(), "compare".to_owned(), quoted(&args.array)];
    words.extend(args.jobs.iter().map(|job| quoted(job)));
    words.push(format!("--policy {}", quoted(&args.policy)));
    words.push(format!("--repeats {} --seed {}", args.repeats, args.seed));
    if let Some(duration) = args.duration {
        words.push(format!("--duration {}ns", duration.0));
    }
    words.join(" ")
}

/// A word, quoted for a shell where necessary.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:+".contains(c);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn run_cells(args: &Args, plan: &Plan, inputs: &Inputs, results: &Results) -> Result<run::Ending> {
    static STOP: AtomicBool = AtomicBool::new(false);
    ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        screen::say("\nfinishing the running cells; press Ctrl-C again to stop at once");
    })
    .context("cannot listen for Ctrl-C")?;
    // indicatif hides the bar itself if stderr is not a terminal.
    let bar = ProgressBar::new(plan.cells().len() as u64);
    let template = "{bar:40} {pos}/{len} cells, {eta} to go {msg}";
    bar.set_style(ProgressStyle::with_template(template).expect("the template is well formed"));
    let [reused, fresh] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let on_cell = |_: &mirrorball_lab::experiment::plan::Cell<'_>, origin: CellSource| {
        match origin {
            CellSource::Saved => {
                let reused = reused.fetch_add(1, Ordering::Relaxed) + 1;
                bar.set_message(format!("({reused} reused from an earlier run)"));
            }
            CellSource::Run => _ = fresh.fetch_add(1, Ordering::Relaxed),
        }
        bar.inc(1);
    };
    let options = RunOptions { threads: args.threads, stop: &STOP, on_cell: &on_cell };
    let ending = run::run(plan, &SimExecutor { inputs, stop: &STOP }, results, &options);
    bar.finish_and_clear();
    let [reused, fresh] = [reused.into_inner(), fresh.into_inner()];
    screen::say(format_args!(
        "{} cells: {reused} reused from an earlier run, {fresh} simulated",
        reused + fresh
    ));
    ending
}
