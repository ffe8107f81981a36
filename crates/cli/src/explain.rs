//! `mirrorball explain`: explains the choices of a read policy. It writes no file.

use crate::ending::{Ending, Failure};
use crate::numbers::{self, whole_number};
use crate::programs;
use crate::screen;
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use mirrorball_core::policies::rounding_notes;
use mirrorball_core::units::Nanos;
use mirrorball_lab::experiment::explain::{
    ExplainRequest, READS_MAX, TraceLimit, WINDOW_START, explain,
};
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::record::{FAIR_ORACLE, ORACLE};
use mirrorball_lab::report::explain::render;

/// Explain the choices of a read policy
///
/// Simulates one job under one policy. For each read within a window of simulated time, shows every
/// mirror with its score and the terms of the score, the mirror that was chosen, the time that the
/// read took, and the mirror that the oracle would have chosen. The oracle is a reference that only
/// a simulation can have: it asks the disk models which mirror would complete the read first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  mirrorball explain two-ssd-raid1 rand-4k-qd32
  mirrorball explain hetero-hdd-raid1 seq-read-defrag --policy btrfs/pid --at 10s --reads 50
  mirrorball explain my-array.toml my-job.fio --at 20s --for 500ms --format json")]
pub(crate) struct Args {
    /// Array: a TOML file or the name of a built-in array
    array: String,

    /// Job: a fio job file or the name of a built-in job
    job: String,

    /// Policy to explain, or `oracle` or `oracle-fair` for a reference itself
    #[arg(short, long, default_value = "mirrorball/auto")]
    policy: String,

    /// Start of the window in simulated time with its unit, for example 500ms, 10s or 2m [default:
    /// 1s, or half of a --duration that ends before]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = numbers::duration)]
    at: Option<Nanos>,

    /// Number of reads to explain, from 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 20, allow_hyphen_values = true,
          value_parser = whole_number(1..=READS_MAX as u32))]
    reads: u32,

    /// Length of the window with its unit, for example 500ms, instead of a number of reads
    #[arg(long = "for", value_name = "TIME", conflicts_with = "reads",
          allow_hyphen_values = true, value_parser = numbers::positive_duration)]
    time: Option<Nanos>,

    /// Seed of the run. With the seed of a repeat of `compare`, explains that repeat
    #[arg(short, long, default_value_t = 1, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,

    /// Simulated time of the job with its unit, for example 10s [default: the `runtime` in the job]
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    duration: Option<Nanos>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = ExplainFormat::Table)]
    format: ExplainFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExplainFormat {
    /// A table for a terminal and a summary
    Table,
    /// All results as JSON
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let inputs = Inputs::load(&args.array, std::slice::from_ref(&args.job));
    let (policy, registry) = programs::load(&args.policy)?;
    let inputs = inputs.map_err(Failure::WrongUse)?.with_registry(registry);
    let policy = canonical(&policy, &inputs).map_err(Failure::WrongUse)?;
    let request = ExplainRequest {
        policy: &policy,
        seed: args.seed,
        duration: args.duration,
        from: args.at.unwrap_or_else(|| match args.duration {
            Some(duration) if duration <= WINDOW_START => Nanos(duration.0 / 2),
            _ => WINDOW_START,
        }),
        limit: args.time.map_or(TraceLimit::Reads(args.reads as usize), TraceLimit::Time),
    };
    for note in rounding_notes(&args.policy) {
        screen::say(format_args!("note: {note}"));
    }
    let explained = explain(&inputs, &request).map_err(Failure::WrongUse)?;
    let (shown, reads) = (explained.choices.len(), args.reads as usize);
    if args.time.is_none() && shown < reads {
        screen::say(format_args!(
            "note: the job ended before {reads} reads: {shown} had a choice of mirrors"
        ));
    }
    screen::print(&match args.format {
        ExplainFormat::Table => render(&explained, screen::style()),
        ExplainFormat::Json => screen::json(&explained),
    })?;
    Ok(Ending::Done)
}

fn canonical(policy: &str, inputs: &Inputs) -> Result<String> {
    if [ORACLE, FAIR_ORACLE].contains(&policy) {
        return Ok(policy.to_owned());
    }
    let spec = inputs.registry.parse(policy).map_err(|error| anyhow!("--policy: {error}"))?;
    let devids: Vec<u64> = inputs.array.members.iter().map(|member| member.devid).collect();
    spec.build(&devids).map_err(|error| anyhow!("--policy: {error}"))?;
    Ok(spec.to_string())
}
