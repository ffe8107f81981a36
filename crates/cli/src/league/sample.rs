//! `mirrorball league --sample`: the league on arrays and jobs that are drawn at random.

use super::{Args, Format, PAGE, Policies, command};
use crate::compare::quoted;
use crate::ending::{Ending, Failure};
use crate::numbers::whole_number;
use crate::output_file::{self, Existing};
use crate::{progress, screen};
use anyhow::{Result, anyhow};
use mirrorball_lab::evaluation::league::text::Detail;
use mirrorball_lab::evaluation::sample::record::Folder;
use mirrorball_lab::evaluation::sample::standings::SampleStandings;
use mirrorball_lab::evaluation::sample::{
    self, PairingFiles, SIZE_MAX, SampleOptions, SampleOutcome, SampleRequest, csv, page, text,
};
use std::path::{Path, PathBuf};

/// Seed of the design sample. A judged sample gets another one.
const DESIGN_SEED: u64 = 1;

/// The options of a random league.
#[derive(Debug, clap::Args)]
pub(super) struct SampleArgs {
    /// Number of pairings of an array and a job to draw at random, in place of the built-in ones.
    /// The results are saved; run the same command again to continue after Ctrl-C. --seed 1 (the
    /// default) is for the development of policies; judge them on another seed. Not with --final,
    /// --arrays, --jobs and --repeats
    #[arg(long = "sample", value_name = "N", allow_hyphen_values = true,
          value_parser = whole_number(1..=SIZE_MAX),
          conflicts_with_all = ["is_final", "arrays", "jobs", "repeats"])]
    pub(super) size: Option<u32>,

    /// With --sample: number of pairings that share an array, each with a job of its own.
    /// Confidence intervals are then over arrays
    #[arg(long, value_name = "N", default_value_t = 1, allow_hyphen_values = true,
          value_parser = whole_number(1u32..=1000))]
    jobs_per_array: u32,

    /// With --sample: list the pairings that are drawn, and run nothing
    #[arg(long, conflicts_with_all = ["report", "pairing"])]
    list: bool,

    /// With --sample: write the array and the job of pairing K as files in the current folder, and
    /// run nothing
    #[arg(long, value_name = "K", allow_hyphen_values = true,
          value_parser = whole_number(1..=SIZE_MAX))]
    pairing: Option<u32>,

    /// With --sample: folder for the results, which is created if it is missing [default:
    /// mirrorball-results/sample-SEED]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// With --sample: reuse saved results of rivals and oracles that another build of the program
    /// made. Only the --subject policies are simulated again
    #[arg(long)]
    keep_rivals: bool,

    /// With --sample: use a sweep. The first run writes the plan of all cells to a folder, for
    /// `mirrorball sweep run`; once they are done, the same command prints the tables
    #[arg(long, value_name = "DIR",
          conflicts_with_all = ["list", "pairing", "output", "keep_rivals", "report"])]
    sweep: Option<PathBuf>,
}

impl SampleArgs {
    /// Refuses options of a random league without --sample. clap does not: where an option is given
    /// that --sample cannot be combined with, it no longer requires --sample.
    pub(super) fn check_without_sample(&self) -> Result<()> {
        let given = [
            ("--jobs-per-array", self.jobs_per_array != 1),
            ("--list", self.list),
            ("--pairing", self.pairing.is_some()),
            ("--output", self.output.is_some()),
            ("--keep-rivals", self.keep_rivals),
            ("--sweep", self.sweep.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(anyhow!(
                "{option} has no effect without --sample\n  help: give --sample N, the number of \
                 pairings to draw"
            )),
        }
    }
}

pub(super) fn run(args: &Args, size: u32) -> Result<Ending, Failure> {
    if args.sample.list && args.format != Format::Table {
        let text = "--format has no effect with --list\n  help: leave one of them out";
        return Err(Failure::WrongUse(anyhow!(text)));
    }
    let request = request(args, size).map_err(Failure::WrongUse)?;
    if let Some(folder) = &args.sample.sweep {
        let standings = super::sweep::standings(&request, folder)?;
        return Ok(match standings {
            Some(standings) => {
                screen::print(&rendered(args, &standings))?;
                Ending::Done
            }
            None => Ending::Done,
        });
    }
    let writes = args.report || args.sample.pairing.is_some();
    let output = writes.then_some(Path::new(PAGE));
    let existing = Existing::from_force(args.force, output, "--report or --pairing")?;
    if args.sample.list {
        let pairings = sample::list(&request);
        screen::print(&text::listed(&pairings, screen::style()))?;
        return Ok(Ending::Done);
    }
    if let Some(number) = args.sample.pairing {
        return write_pairing(args, &request, number, existing);
    }
    if args.report {
        output_file::check(Path::new(PAGE), existing).map_err(Failure::WrongUse)?;
    }
    let path = folder(args, &request);
    let folder = Folder::open(&path, &request).map_err(Failure::WrongUse)?;
    match play(args, &request, &folder).map_err(Failure::Fault)? {
        SampleOutcome::Interrupted { done } => {
            let shown = path.display();
            screen::say(format_args!(
                "interrupted: {done} of {size} pairings are saved in {shown}"
            ));
            screen::say("  run the same command again to continue");
            Ok(Ending::Interrupted)
        }
        SampleOutcome::Complete(standings) => {
            screen::print(&rendered(args, &standings))?;
            screen::say(format_args!("results are in {}", path.display()));
            if args.report {
                output_file::write(Path::new(PAGE), &page::render(&standings), existing)
                    .map_err(Failure::Fault)?;
                screen::say(format_args!("the report is in {PAGE}"));
            }
            Ok(Ending::Done)
        }
    }
}

fn request(args: &Args, size: u32) -> Result<SampleRequest> {
    let Policies { subjects, rivals } = Policies::new(args)?;
    if let Some(number) = args.sample.pairing.filter(|number| *number > size) {
        return Err(anyhow!(
            "--pairing {number}: the sample has {size} pairings\n  help: give a number from 1 to \
             {size}"
        ));
    }
    let jobs_per_array = args.sample.jobs_per_array;
    if !size.is_multiple_of(jobs_per_array) {
        return Err(anyhow!(
            "--jobs-per-array {jobs_per_array}: {size} pairings are not divisible by it\n  help: \
             give --sample {}",
            size.next_multiple_of(jobs_per_array)
        ));
    }
    Ok(SampleRequest {
        size,
        jobs_per_array,
        seed: args.seed.unwrap_or(DESIGN_SEED),
        subjects,
        rivals,
        quick: args.quick,
        keeps_rivals: args.sample.keep_rivals,
        command: command(),
    })
}

/// Short and full runs are different cells, so they have folders of their own.
fn folder(args: &Args, request: &SampleRequest) -> PathBuf {
    let jobs = match request.jobs_per_array {
        1 => String::new(),
        jobs => format!("-jobs{jobs}"),
    };
    let length = if request.quick { "-quick" } else { "" };
    let name = format!("mirrorball-results/sample-{}{jobs}{length}", request.seed);
    args.sample.output.clone().unwrap_or_else(|| PathBuf::from(name))
}

/// Writes the files of a pairing, and prints the command that runs its cells.
fn write_pairing(
    args: &Args,
    request: &SampleRequest,
    number: u32,
    existing: Existing,
) -> Result<Ending, Failure> {
    let PairingFiles { name, array, job, seed } =
        sample::files(request, number).map_err(Failure::Fault)?;
    let (array_file, job_file) = (format!("{name}.toml"), format!("{name}.fio"));
    for file in [&array_file, &job_file] {
        output_file::check(Path::new(file), existing).map_err(Failure::WrongUse)?;
    }
    for (file, text) in [(&array_file, &array), (&job_file, &job)] {
        output_file::write(Path::new(file), text, existing).map_err(Failure::Fault)?;
    }
    let mut words = format!("mirrorball compare {array_file} {job_file} --repeats 1 --seed {seed}");
    let runs_others = request.subjects != [super::DEFAULT_SUBJECT];
    if args.policy.is_some() || args.quick || runs_others {
        let policies: Vec<&str> =
            request.subjects.iter().chain(&request.rivals).map(String::as_str).collect();
        words += &format!(" --policy {}", quoted(&policies.join(",")));
    }
    screen::say(format_args!("wrote {array_file} and {job_file}; run the pairing with"));
    screen::print(&format!("{words}\n"))?;
    Ok(Ending::Done)
}

fn play(args: &Args, request: &SampleRequest, folder: &Folder) -> Result<SampleOutcome> {
    let stop = progress::stop_at_ctrl_c("saving what is done")?;
    let cells = u64::from(request.size) * request.cells_per_pairing() as u64;
    let bar = progress::bar(cells, "cells");
    let on_saved = |cells: usize| {
        if cells > 0 {
            bar.set_message("(some are reused)");
            bar.inc(cells as u64);
            // The rate is that of cells which are run.
            bar.reset_eta();
        }
    };
    let options =
        SampleOptions { threads: args.threads, stop, on_saved: &on_saved, on_cell: &|| bar.inc(1) };
    let outcome = sample::run(request, folder, &options);
    bar.finish_and_clear();
    outcome
}

fn rendered(args: &Args, standings: &SampleStandings) -> String {
    let detail = if args.all { Detail::All } else { Detail::Screen };
    match args.format {
        Format::Table => text::text(standings, detail, screen::style()),
        Format::Markdown => text::markdown(standings, detail),
        Format::Csv => csv::render(standings),
        Format::Json => {
            let text = serde_json::to_string_pretty(standings).expect("standings are plain data");
            text + "\n"
        }
    }
}
