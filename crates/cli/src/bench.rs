//! `mirrorball bench`: measures an array with fio under the settings that its system offers.

mod output;
mod restoring;

use crate::ending::{Ending, Failure};
use crate::folders;
use crate::numbers::{self, whole_number};
use crate::screen;
use anyhow::{Context, anyhow, bail};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::{MIB, Nanos, counted, format_bytes};
use mirrorball_host::bench::{
    Bench, BenchControl, BenchEvent, BenchOutcome, BenchRequest, RunTimes, watch,
};
use mirrorball_host::detect::{Sysroot, detect_at};
use mirrorball_lab::experiment::build::BuildIdentity;
use output::{
    about, outline, print_results, say_what_is_not_compared, say_what_was_interrupted,
    say_what_was_not_read,
};
use restoring::{restore, said};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Measure an array under the settings that its storage system offers
///
/// Runs fio under each read policy that the running kernel offers for the array, in an order that
/// cancels drift, and restores the policy that was in force. Reads a file that it creates on the
/// array and removes at the end. Results are saved as those of `compare` are.
#[derive(Debug, clap::Args)]
#[command(after_help = "Needs root, and fio 3. Without jobs, runs rand-4k-qd1, rand-4k-qd32 and \
seq-read. Refuses an array that is degraded or being resynced.

What the files of the kernel held is written to /var/lib/mirrorball/bench before the first \
change. It is restored at the end, after Ctrl-C or an error; by a watchdog process if bench is \
killed; and by `mirrorball bench --restore` after a crash of the machine.

Exit code 1 if a run failed or was refused because this host is too busy, if another program \
changed the array, or if something is not restored; 2 if the array or an argument does not permit \
a run.

Examples:
  mirrorball bench /srv/data
  mirrorball bench /srv/data rand-4k-qd1 my-job.fio --budget 2h
  mirrorball bench /srv/data --policy btrfs/pid,btrfs/round-robin --rounds 8
  mirrorball bench /srv/data --plan
  mirrorball bench --restore")]
pub(crate) struct Args {
    /// Mount point or path on it, block device, or name of an array. Required unless --restore is
    /// given: bench writes on the array, so unlike detect it does not choose one by itself
    #[arg(value_name = "PATH|DEVICE", required_unless_present_any = ["restore", "watch"])]
    target: Option<String>,

    /// Jobs: fio job files or built-in jobs
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,

    /// Policies to measure, separated by commas [default: the one in force, each policy of the
    /// kernel with its default parameters, and devid of each member; --plan lists them]
    #[arg(short, long, value_name = "LIST")]
    policy: Option<String>,

    /// Time for all runs with its unit; it decides the number of rounds
    #[arg(long, value_name = "TIME", default_value = "40m", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    budget: Nanos,

    /// Number of rounds, from 1 to 1000, in place of --budget. Each round runs every job under
    /// every policy once [default: as many as fit into --budget, at most 24]
    #[arg(long, value_name = "N", conflicts_with = "budget", allow_hyphen_values = true,
          value_parser = whole_number(1usize..=1000))]
    rounds: Option<usize>,

    /// Time at the start of each run that is not measured
    #[arg(long, value_name = "TIME", default_value = "4s", allow_hyphen_values = true,
          value_parser = numbers::duration)]
    settle: Nanos,

    /// Time of each run that is measured
    // Three jobs, five settings and the ten rounds of their square take the 40 minutes of --budget.
    #[arg(long, value_name = "TIME", default_value = "11s", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    measure: Nanos,

    /// Size of the file that is read. Use at least four times the memory of this host, and on btrfs
    /// at least 16 GiB
    #[arg(long, value_name = "SIZE", default_value = "16GiB", allow_hyphen_values = true,
          value_parser = file_size)]
    size: u64,

    /// Seed of the first round. The second round uses this number plus 1, and so on
    #[arg(short, long, default_value_t = 1, allow_hyphen_values = true,
          value_parser = numbers::seed)]
    seed: u64,

    /// Read the device itself, which must be given as /dev/…, in place of a file. Jobs that write
    /// are refused
    #[arg(long)]
    read_device: bool,

    /// Refuse a run if 1 of 100 wake-ups of this host is later than this [default: 500us if all
    /// members rotate, else 150us]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    lateness_max: Option<Nanos>,

    /// Results folder [default: mirrorball-results/bench-ARRAY, with a number if it exists]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Print the plan and its duration, and run nothing
    #[arg(long, conflicts_with = "restore")]
    plan: bool,

    /// Restore what an earlier bench left changed, on all arrays, and run nothing
    #[arg(long, conflicts_with_all = RUN_OPTIONS)]
    restore: bool,

    /// Read and set a recorded copy of the files of a machine in DIR instead of this machine
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,

    /// Restore what this journal says when standard input ends: the watchdog of another bench
    #[arg(long, value_name = "JOURNAL", hide = true)]
    watch: Option<PathBuf>,
}

/// Arguments of runs, which --restore does not do.
const RUN_OPTIONS: [&str; 12] = [
    "target", "jobs", "policy", "budget", "rounds", "settle", "measure", "size", "seed",
    "read_device", "lateness_max", "output",
];

/// The jobs if none is named.
const STANDARD_JOBS: [&str; 3] = ["rand-4k-qd1", "rand-4k-qd32", "seq-read"];

/// Time between two reports about the file.
const SAID_EVERY: Duration = Duration::from_secs(10);
const LATE_HELP: &str =
    "  help: stop other programs on this host, or allow more with --lateness-max";

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let sysroot = crate::detect::sysroot(args.sysroot.as_deref())?;
    if let Some(journal) = &args.watch {
        let (input, ready) = (std::io::stdin().lock(), std::io::stdout());
        let report = watch(&sysroot, journal, input, ready).map_err(fault)?;
        return Ok(report.map_or(Ending::Done, |report| {
            screen::say("bench has ended without restoring the settings: the watchdog does");
            said(&report)
        }));
    }
    if args.restore {
        return restore(&sysroot);
    }
    let Some(target) = &args.target else {
        return Err(Failure::WrongUse(anyhow!("missing PATH|DEVICE")));
    };
    check_output(args).map_err(Failure::WrongUse)?;
    let bench = bench(args, &sysroot, target)?;
    let folder = args.output.clone().unwrap_or_else(|| free_folder(&bench.array.name));
    let saved = bench.saved_runs(&folder);
    let saved = saved.map_err(|error| Failure::WrongUse(error.into()))?;
    screen::print(&outline(&bench))?;
    say_what_is_saved(&bench, saved, &folder);
    if args.plan {
        return Ok(Ending::Done);
    }
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))
        .context("cannot listen for Ctrl-C")
        .map_err(Failure::Fault)?;
    let outcome = measured(args, &bench, &folder)?;
    ending(&bench, &outcome, &folder)
}

/// Checks the folder of -o before anything else.
fn check_output(args: &Args) -> anyhow::Result<()> {
    let Some(output) = args.output.as_deref().filter(|path| path.exists() && !path.is_dir()) else {
        return Ok(());
    };
    let output = output.display();
    bail!("cannot use {output} as results folder: it is a file\n  help: give another with -o");
}

/// Says which runs an earlier bench has saved in the folder.
fn say_what_is_saved(bench: &Bench, saved: usize, folder: &Path) {
    let (all, shown) = (bench.plan.cells().len(), folder.display());
    match saved {
        0 => {}
        saved if saved == all => screen::say(format_args!(
            "note: all {all} runs are saved in {shown}, so nothing is measured; give another \
             folder with -o to measure again"
        )),
        saved => screen::say(format_args!(
            "note: {saved} of {all} runs are saved in {shown}, and are not run again"
        )),
    }
}

fn file_size(text: &str) -> Result<u64, String> {
    match numbers::size(text)? {
        bytes if bytes >= MIB => Ok(bytes),
        _ => Err("must be at least 1 MiB".to_owned()),
    }
}

fn bench(args: &Args, sysroot: &Sysroot, target: &str) -> Result<Bench, Failure> {
    let array = detect_at(sysroot, target)
        .map_err(|error| crate::detect::not_running("bench", target, error))?;
    let jobs: Vec<String> = match &args.jobs[..] {
        [] => STANDARD_JOBS.map(str::to_owned).to_vec(),
        jobs => jobs.to_vec(),
    };
    let words = std::env::args().map(|word| quoted(&word)).collect::<Vec<_>>();
    let request = BenchRequest {
        sysroot,
        target,
        jobs: &jobs,
        policies: args.policy.as_deref(),
        times: RunTimes { settle: args.settle, measure: args.measure },
        budget: args.budget,
        rounds: args.rounds,
        size_bytes: args.size,
        seed: args.seed,
        reads_device: args.read_device,
        lateness_max: args.lateness_max,
        only_plans: args.plan,
        command: &words.join(" "),
        build: BuildIdentity::current(),
    };
    Bench::new(request, array).map_err(|error| Failure::WrongUse(error.into()))
}

/// Runs it, with progress on standard error.
fn measured(args: &Args, bench: &Bench, folder: &Path) -> Result<BenchOutcome, Failure> {
    let mut progress = BenchProgress { bench, began: Instant::now(), last: None, was_late: false };
    let mut on_event = |event: BenchEvent<'_>| progress.say(event);
    let control = BenchControl {
        results: folder,
        watchdog: watchdog(args).context("the watchdog").map_err(Failure::Fault)?,
        is_stopped: &|| STOP.load(Ordering::Relaxed),
        on_event: &mut on_event,
    };
    bench.run(control).map_err(fault)
}

/// Progress of the runs on standard error.
struct BenchProgress<'a> {
    bench: &'a Bench,
    began: Instant,
    /// When the progress of the file was said last.
    last: Option<Instant>,
    was_late: bool,
}

impl BenchProgress<'_> {
    fn say(&mut self, event: BenchEvent<'_>) {
        match event {
            BenchEvent::WritesData { bytes, written: 0 } => {
                (self.began, self.last) = (Instant::now(), Some(Instant::now()));
                screen::say(format_args!("writing a file of {}", format_bytes(bytes)));
            }
            BenchEvent::WritesData { bytes, written } => {
                if self.last.is_some_and(|last| last.elapsed() < SAID_EVERY) {
                    return;
                }
                self.last = Some(Instant::now());
                let rest = (bytes - written) as f64 / written as f64;
                let left = Nanos::from_secs_f64(self.began.elapsed().as_secs_f64() * rest);
                let written = format_bytes(written);
                screen::say(format_args!("  {written} written, {} left", about(left)));
            }
            BenchEvent::Run { number, of, job, policy } => {
                let rest = (of + 1 - number) as f64 / of as f64;
                let left = Nanos::from_secs_f64(self.bench.duration().as_secs_f64() * rest);
                let left = about(left);
                screen::say(format_args!(
                    "run {number} of {of}: {job} under {policy}, {left} left"
                ));
            }
            BenchEvent::Late { lateness, is_repeated } => {
                screen::say(format_args!(
                    "this host was {lateness} late, more than {}: the run is {}",
                    self.bench.lateness_max(),
                    if is_repeated { "repeated" } else { "refused" }
                ));
                if !std::mem::replace(&mut self.was_late, true) {
                    screen::say(LATE_HELP);
                }
            }
        }
    }
}

/// The command of the watchdog, but for the journal.
fn watchdog(args: &Args) -> std::io::Result<Vec<OsString>> {
    let mut command = vec![std::env::current_exe()?.into_os_string(), "bench".into()];
    if let Some(folder) = &args.sysroot {
        command.extend(["--sysroot".into(), folder.clone().into_os_string()]);
    }
    command.push("--watch".into());
    Ok(command)
}

/// Prints the results, and says how it ended.
fn ending(bench: &Bench, outcome: &BenchOutcome, folder: &Path) -> Result<Ending, Failure> {
    let is_restored = said(&outcome.restored) == Ending::Done;
    if let Some(error) = &outcome.failure {
        if !outcome.runs.is_empty() {
            let runs = counted(outcome.runs.len(), "finished run", "finished runs");
            screen::say(format_args!(
                "{runs} can be shown: mirrorball report {}",
                folder.display()
            ));
        }
        return Err(fault(error.clone()));
    }
    if !outcome.runs.is_empty() {
        print_results(bench, outcome, folder)?;
        say_what_is_not_compared(&outcome.runs);
        say_what_was_not_read(bench, &outcome.runs);
        screen::say(format_args!("results are in {}", folder.display()));
    }
    if outcome.is_interrupted {
        say_what_was_interrupted(bench, outcome, folder, is_restored);
    }
    for refused in &outcome.refused {
        screen::say(format_args!("refused: {refused}: this host is too busy to measure"));
    }
    Ok(match outcome {
        _ if !is_restored => Ending::FoundFailure,
        outcome if outcome.is_interrupted => Ending::Interrupted,
        outcome if !outcome.refused.is_empty() => Ending::FoundFailure,
        _ => Ending::Done,
    })
}

fn fault(error: mirrorball_core::diagnostic::Diagnostic) -> Failure {
    Failure::Fault(error.into())
}

/// The first folder for the array's results that does not exist.
fn free_folder(array: &str) -> PathBuf {
    let stem = mirrorball_host::detect::file_stem(array);
    let names = (1..).map(|number: u32| match number {
        1 => format!("bench-{stem}"),
        number => format!("bench-{stem}-{number}"),
    });
    let mut paths = names.map(|name| folders::results().join(name));
    paths.find(|path| !path.exists()).expect("some number is free")
}
