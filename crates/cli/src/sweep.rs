//! `mirrorball sweep`: experiments of many thousand cells, planned, run in shards, and packed.

#[cfg(feature = "sweeps")]
mod commands;

use crate::ending::{Ending, Failure};
use crate::numbers::{self, THREADS, whole_number};
use clap::Subcommand;
use mirrorball_core::units::Nanos;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

/// Run experiments of many thousand cells, on one machine or many
///
/// A sweep is a grid of arrays, jobs, policies and seeds with parameters that vary, or a random
/// sample of one. Its cells are run in shards, by any number of processes, into Parquet files in
/// one folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  mirrorball sweep plan sweep.toml -o out
  mirrorball sweep run out
  mirrorball sweep run out --shard 3/100
  mirrorball sweep status out
  mirrorball sweep pack out -o cells.parquet
  mirrorball sweep verify out --sample 0.001")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: SweepAction,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SweepAction {
    /// Check a sweep and write its plan to a folder
    Plan {
        /// File that describes the sweep, in TOML; `-` for standard input
        spec: PathBuf,
        /// Folder of the sweep, which is created if it is missing
        #[arg(short, long, value_name = "DIR")]
        output: PathBuf,
    },
    /// Run the cells that are not done, and write their rows
    ///
    /// Any number of processes may run cells of one folder at the same time, on machines that share
    /// it. Run the same command again after an interruption: cells that are done are not run again.
    Run(RunArgs),
    /// Print how many cells are done
    Status {
        /// Folder of the sweep
        folder: PathBuf,
        /// Print the figures as JSON
        #[arg(long)]
        json: bool,
    },
    /// Merge all rows into one file, in the order of the plan
    ///
    /// The bytes of the file depend on the plan alone, not on how cells were distributed.
    Pack {
        /// Folder of the sweep
        folder: PathBuf,
        /// File to write: its ending is .parquet, .csv or .ndjson [default: DIR/packed.parquet]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Pack although cells are missing
        #[arg(long)]
        partial: bool,
        /// Overwrite an existing file
        #[arg(long)]
        force: bool,
    },
    /// Run some cells again and compare their rows with those saved
    ///
    /// Exits with code 1 if a figure differs.
    Verify {
        /// Folder of the sweep
        folder: PathBuf,
        /// Fraction of the cells to run again, from 0 to 1; one cell at least
        #[arg(long, value_name = "FRACTION", default_value_t = 0.001, value_parser = fraction)]
        sample: f64,
        /// Seed of the choice of cells
        #[arg(short, long, default_value_t = 1, value_parser = numbers::seed)]
        seed: u64,
        /// Also where another build of the program made the sweep: every figure is compared
        #[arg(long)]
        other_build: bool,
    },
}

/// The options of `sweep run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Folder of the sweep
    folder: PathBuf,
    /// Run shard I of N: each cell is in one shard. 0/N is N/N, for indexes that begin with zero
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Write a part when so many cells are done
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = whole_number(1u32..=1_000_000))]
    part_cells: u32,
    /// Write a part after this time, even if fewer cells are done. A process that is killed loses
    /// the cells since its last part
    #[arg(long, value_name = "TIME", default_value = "60s",
          value_parser = numbers::positive_duration)]
    part_time: Nanos,
    /// Number of threads, from 1 to 1024; results do not depend on it [default: one per CPU]
    #[arg(short, long, value_name = "N", value_parser = whole_number(THREADS))]
    threads: Option<NonZeroUsize>,
}

/// One of several shards: `3/100`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard {
    number: u32,
    count: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(number, count)| {
            Some(Shard { number: number.parse().ok()?, count: count.parse().ok()? })
        });
        let parts = parts.filter(|shard| shard.count > 0 && shard.number <= shard.count);
        // Indexes of Kubernetes begin with zero.
        let counted = parts.map(|shard| match shard.number {
            0 => Shard { number: shard.count, ..shard },
            _ => shard,
        });
        counted.ok_or_else(|| "give the number of the shard and of all, from 1/N to N/N".to_owned())
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "give a number from 0 to 1".to_owned())
}

#[cfg(feature = "sweeps")]
pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    commands::run(&args.action)
}

#[cfg(not(feature = "sweeps"))]
pub(crate) fn run(_args: &Args) -> Result<Ending, Failure> {
    Err(no_sweeps())
}

/// Note of this build about sweeps.
#[cfg(not(feature = "sweeps"))]
pub(crate) fn no_sweeps() -> Failure {
    Failure::WrongUse(anyhow::anyhow!(
        "this build of Mirrorball cannot run sweeps\n  help: build it with `cargo build --release \
         --features sweeps`"
    ))
}
