//! VOPR: whole services on simulated disks and networks, and an oracle that knows what may be read.
//!
//! A *history* is a list of operations drawn from a seed: requests of clients, faults and damage of
//! members, commands of a user, and restarts after an orderly stop, a kill or a power cut, with all
//! members or some of them. The code is that of the product, from `create` and the assembly by
//! labels to the NBD server and the control socket; the platform is simulated: time, files, sockets
//! and chance. So a seed always gives the same run. Checked are:
//!
//! - a read returns what the last acknowledged write or a later one wrote; after a power cut, what
//!   was flushed or a later write;
//! - a block reads the same, on every mirror, until it is written;
//! - no read fails while no member does;
//! - no power cut takes a label, members never seem to be in doubt, and a start without the newest
//!   data needs the user;
//! - in the end all mirrors are equal, and no scrub finds anything else before;
//! - a bit that is changed on one mirror is found by a scrub and repaired;
//! - clones and old copies of members are refused, and halves that were used without each other,
//!   unless one is a majority;
//! - after a stop in good order the labels say so, unless a member had a fault;
//! - a request ends within a minute, and a resync, a rebuild and a scrub of a volume without faults
//!   within 15, also while clients keep all their requests in flight.
//!
//! A history that fails is reduced to the operations that it needs. *Small workloads* ([`small`])
//! are cut at every turn of the service.
//!
//! The name is that of TigerBeetle's simulator, after which this one is made.

mod history;
mod machine;
mod nbd_client;
mod oracle;
mod server;
mod service;
mod shape;
mod small;
#[cfg(test)]
mod tests;

use clap::Parser;
use history::{HistoryStep, draw};
use machine::{Machine, Tally};
use shape::{HistoryShape, Promises};
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

/// Number of seeds between two reports of progress.
const PROGRESS: u64 = 100;

/// Simulate whole services with random faults, and check what they promise
#[derive(Debug, Parser)]
struct VoprArgs {
    /// Number of seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,

    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of operations of each seed
    #[arg(long, default_value_t = 200)]
    operations: usize,

    /// Run all workloads of this number of operations, each with a power cut at every turn, in
    /// place of random histories
    #[arg(long, value_name = "OPERATIONS")]
    small: Option<u32>,

    /// Simulate disks that confirm a flush and make nothing durable, to show what is printed when a
    /// rule is broken
    #[arg(long)]
    lying_flush: bool,
}

/// A history that broke a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
struct BrokenRule {
    volume: String,
    what: String,
    /// The operations that are needed for it, in words.
    history: Vec<String>,
    command: String,
}

fn main() -> ExitCode {
    let args = VoprArgs::parse();
    std::panic::set_hook(Box::new(keep_panic));
    let began = Instant::now();
    let run = match args.small {
        Some(length) => small::run_all(length),
        None => run_seeds(&args),
    };
    match run {
        Ok(tally) => println!("no rule broken in {} s: {tally:?}", began.elapsed().as_secs()),
        Err(failure) => {
            println!("after {} s, {failure}", began.elapsed().as_secs());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run_seeds(args: &VoprArgs) -> Result<Tally, Box<BrokenRule>> {
    let promises = if args.lying_flush { Promises::FlushLies } else { Promises::Kept };
    let mut tally = Tally::default();
    for number in 0..args.seeds {
        tally += run_seed(HistoryShape::of(args.seed + number, promises), args.operations)?;
        if (number + 1).is_multiple_of(PROGRESS) {
            eprintln!("{} of {} seeds, {} operations", number + 1, args.seeds, tally.operations);
        }
    }
    Ok(tally)
}

fn run_seed(shape: HistoryShape, operations: usize) -> Result<Tally, Box<BrokenRule>> {
    let history = draw(shape.seed, operations, shape.extra);
    run(shape, &history).map_err(|_| {
        let history = reduce(history, |fewer| run(shape, fewer).is_err());
        let lying = if shape.promises == Promises::FlushLies { " --lying-flush" } else { "" };
        let seed = shape.seed;
        Box::new(BrokenRule {
            volume: shape.in_words(),
            what: run(shape, &history).err().unwrap_or_default(),
            history: history.iter().map(|it| it.in_words(shape.members)).collect(),
            command: format!("--seeds 1 --seed {seed} --operations {operations}{lying}"),
        })
    })
}

/// Runs operations; a panic of the code under test counts as a broken rule.
fn run(shape: HistoryShape, operations: &[HistoryStep]) -> Result<Tally, String> {
    catch(|| Machine::new(shape)?.run(operations))
}

thread_local! {
    /// Place and message of the last panic.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps a panic, in place of printing it: a panic of the code under test is the failure of a
/// history.
fn keep_panic(panic: &PanicHookInfo<'_>) {
    let text = match std::env::var_os("RUST_BACKTRACE") {
        Some(_) => format!("{panic}\n{}", Backtrace::force_capture()),
        None => panic.to_string(),
    };
    PANIC.set(text);
}

/// Turns a panic into an error.
fn catch(run: impl FnOnce() -> Result<Tally, String>) -> Result<Tally, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(PANIC.take()))
}

/// Removes operations as long as a rule is still broken: first long parts, then single ones.
fn reduce(
    mut operations: Vec<HistoryStep>,
    fails: impl Fn(&[HistoryStep]) -> bool,
) -> Vec<HistoryStep> {
    let mut part = operations.len().div_ceil(2);
    while part > 0 {
        let mut start = 0;
        while start < operations.len() {
            let mut fewer = operations.clone();
            fewer.drain(start..(start + part).min(operations.len()));
            match fails(&fewer) {
                true => operations = fewer,
                false => start += part,
            }
        }
        part /= 2;
    }
    operations
}

impl fmt::Display for BrokenRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a rule is broken ({}): {}", self.volume, self.what)?;
        for operation in &self.history {
            writeln!(f, "  {operation}")?;
        }
        write!(f, "repeat it with: cargo run --release -p mirrorball-vopr -- {}", self.command)
    }
}
