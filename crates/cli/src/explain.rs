//! `mirrorball explain`: why a policy read from where it did, choice by choice.
//!
//! Nothing is saved but the page that is asked for.

use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::screen;
use anyhow::{Result, anyhow};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::{Nanos, parse_duration};
use mirrorball_lab::experiment::explain::{Extent, Question, READS_MAX, explain};
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::record::ORACLE;
use mirrorball_lab::report::explain::FORMATS;
use mirrorball_lab::report::html::decisions;
use std::path::PathBuf;

/// Explain the choices of a read policy, one by one
///
/// Simulates one job under one policy and shows, for each read within a stretch of simulated time,
/// every mirror with its score and what that is made of, the choice, what the read then took, and
/// in hindsight which mirror the oracle would have read and what that would have taken.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mirrorball explain two-ssd-raid1 rand-4k-qd32
  mirrorball explain hetero-hdd-raid1 seq-read-defrag --policy btrfs/pid --at 10s --reads 50
  mirrorball explain my-array.toml my-job.fio --at 20s --for 500ms --report why.html")]
pub(crate) struct Args {
    /// The array: a TOML file or a built-in array
    array: String,

    /// The job: a fio job file or a built-in job
    job: String,

    /// The policy whose choices are explained, or `oracle`
    #[arg(short, long, default_value = "mirrorball/auto")]
    policy: String,

    /// From when on, in simulated time: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    at: Nanos,

    /// How many reads
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=READS_MAX as i64))]
    reads: u32,

    /// For how long, in place of a number of reads
    #[arg(long = "for", value_name = "TIME", conflicts_with = "reads",
          value_parser = parse_duration)]
    time: Option<Nanos>,

    /// Seed of the run: that of a repeat of `compare`
    #[arg(short, long, default_value_t = 1)]
    seed: u64,

    /// Simulated time of the job, in place of its `runtime`
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Nanos>,

    /// What to print
    #[arg(short, long, default_value = FORMATS[0].name, value_parser = format_names())]
    format: String,

    /// Also draw a page with a picture of the reads into this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Replace the page if it exists
    #[arg(long, requires = "report")]
    force: bool,
}

fn format_names() -> PossibleValuesParser {
    FORMATS.iter().map(|format| PossibleValue::new(format.name).help(format.summary)).into()
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let existing = Existing::from_force(args.force);
    if let Some(path) = &args.report {
        output_file::check(path, existing).map_err(Failure::WrongUse)?;
    }
    let inputs = Inputs::load(&args.array, std::slice::from_ref(&args.job));
    let inputs = inputs.map_err(Failure::WrongUse)?;
    let policy = policy(args, &inputs).map_err(Failure::WrongUse)?;
    let question = Question {
        policy: &policy,
        seed: args.seed,
        duration: args.duration,
        from: args.at,
        extent: args.time.map_or(Extent::Reads(args.reads as usize), Extent::Time),
    };
    let explained = explain(&inputs, &question).map_err(Failure::WrongUse)?;
    if let Some(path) = &args.report {
        output_file::write(path, &decisions::render(&explained), existing)
            .map_err(Failure::Fault)?;
    }
    let format = FORMATS.iter().find(|format| format.name == args.format);
    let render = format.expect("clap lets known formats pass").render;
    screen::print(&render(&explained, screen::style()))?;
    if let Some(path) = &args.report {
        screen::say(format_args!("the picture is in {}", path.display()));
    }
    Ok(Ending::Done)
}

/// The policy in its canonical form.
fn policy(args: &Args, inputs: &Inputs) -> Result<String> {
    if args.policy == ORACLE {
        return Ok(ORACLE.to_owned());
    }
    let spec = Spec::parse(&args.policy).map_err(|error| anyhow!("--policy: {error}"))?;
    let devids: Vec<u64> = inputs.array.members.iter().map(|member| member.devid).collect();
    spec.build(&devids).map_err(|error| anyhow!("--policy: {error}"))?;
    Ok(spec.to_string())
}
