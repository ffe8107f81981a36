//! `mirrorball watch`: which disk of a running array is slow.

mod session;
mod text;

use crate::detect::{not_running, sysroot};
use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::output_file::{self, Existing};
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use crate::terminal::{self, Terminal, printable};
use mirrorball_core::units::Nanos;
use mirrorball_host::detect::{Sysroot, detect_at};
use mirrorball_host::watch::{WatchedGroup, all_groups, group_of};
use serde_json::json;
pub(crate) use session::SampleRecording;
use session::{Sampler, Watching, replayed};
use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a live view looks for keys and the end.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Find the slow disk of a running array
///
/// Reads the kernel's counters of disks, once a second, and judges each disk by what its waits say
/// of the disk itself, without the queue in front of it: against its own history, and against the
/// disks that hold the same data. Sends no I/O to the disks, writes nothing, and needs no root.
/// Without PATH, watches every array and every disk of this machine.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On a terminal it shows the disks until q is pressed. Elsewhere it prints a line \
whenever a disk becomes slow or is as expected again. A disk alone is judged after a minute of \
load; disks of one model in one array at once. Disks that are hardly used cannot be judged.

Exit code 1 with --once or --check if a disk is slow; with --check 3 (UNKNOWN) if no disk can be \
judged.

Examples:
  mirrorball watch
  mirrorball watch /srv/data --once
  mirrorball watch --check --duration 30s --history /var/lib/mirrorball/watch.json
  mirrorball watch --record slow.samples --once
  mirrorball watch --replay slow.samples"
)]
pub(crate) struct Args {
    /// Mount point or path on it, block device, or name of an array, volume or pool
    #[arg(value_name = "PATH|DEVICE")]
    paths: Vec<String>,

    /// Watch for the time of --duration, print the verdict, and end
    #[arg(long)]
    once: bool,

    /// As --once, but print one line, as Nagios and its kin read it
    #[arg(long, conflicts_with = "once")]
    check: bool,

    /// How long --once and --check watch, with its unit, for example 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "30s", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    duration: Nanos,

    /// Time between samples with its unit
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true,
          value_parser = numbers::positive_duration)]
    every: Nanos,

    /// Print JSON: the disks with --once and --check, else a line for each change
    #[arg(long)]
    json: bool,

    /// Keep what is known of the disks in FILE, so that a restart does not forget it
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,

    /// Write the figures of each evaluation to FILE, for the textfile collector of Prometheus'
    /// node exporter
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,

    /// Also write the samples to FILE, to be judged again elsewhere
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Judge the samples of a FILE of --record instead of this machine
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "duration", "every"])]
    replay: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    match watch(args) {
        Err(failure) if args.check => {
            // Other codes of failures would be read as a state of the disks.
            let error = format!("{:#}", failure.cause());
            screen::print(&match args.json {
                true => format!("{:#}\n", json!({ "error": error })),
                false => format!("UNKNOWN: {error}\n"),
            })?;
            Ok(Ending::CannotTell)
        }
        ended => ended,
    }
}

fn watch(args: &Args) -> Result<Ending, Failure> {
    output_file::check_metrics(args.metrics.as_deref())?;
    if let Some(file) = &args.replay {
        let watching = replayed(args, file)?;
        return conclude(args, &watching);
    }
    let sysroot = sysroot(None)?;
    let groups = groups(&sysroot, &args.paths)?;
    let mut sampler = Sampler::new(sysroot, args.every, &groups, args.record.as_deref())?;
    let mut watching = Watching::new(args, args.every, groups)?;
    // Before the first wait, so that a file that cannot be written is named at once.
    take(args, &mut watching, &mut sampler)?;
    let stop = stop_at_ctrl_c("ending").map_err(Failure::Fault)?;
    match () {
        () if args.once || args.check => {
            let ends_at = Instant::now() + Duration::from_nanos(args.duration.0);
            while Instant::now() < ends_at && wait(args.every, stop) {
                take(args, &mut watching, &mut sampler)?;
            }
            watching.save()?;
            conclude(args, &watching)
        }
        () if stdout().is_terminal() && stdin().is_terminal() && !args.json => {
            live(args, &mut watching, &mut sampler, stop)
        }
        () => follow(args, &mut watching, &mut sampler, stop),
    }
}

fn groups(sysroot: &Sysroot, paths: &[String]) -> Result<Vec<WatchedGroup>, Failure> {
    let groups = match paths {
        [] => all_groups(sysroot),
        paths => {
            paths.iter().map(|path| group(sysroot, path)).collect::<Result<Vec<_>, Failure>>()?
        }
    };
    if groups.iter().all(|group| group.disks.is_empty()) {
        let error = anyhow::anyhow!(
            "there is no disk to watch\n  help: a container shows /sys/block and /proc/diskstats \
             only if it is given them"
        );
        return Err(Failure::WrongUse(error));
    }
    Ok(groups)
}

/// The disks of an array, or a disk that belongs to none.
fn group(sysroot: &Sysroot, path: &str) -> Result<WatchedGroup, Failure> {
    let name = path.strip_prefix("/dev/").unwrap_or(path);
    let is_disk = |group: &WatchedGroup| group.array.is_none() && group.disks[0].name == name;
    match detect_at(sysroot, path) {
        Ok(array) => Ok(group_of(sysroot, &array)),
        Err(error) => {
            let disk = all_groups(sysroot).into_iter().find(is_disk);
            disk.ok_or_else(|| not_running("watch", path, error))
        }
    }
}

/// Waits until the next sample is due; returns false at Ctrl-C.
pub(crate) fn wait(every: Nanos, stop: &AtomicBool) -> bool {
    let due = Instant::now() + Duration::from_nanos(every.0);
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(CHECK_INTERVAL));
    }
    false
}

/// Reads and judges a sample, and writes the metrics.
fn take(args: &Args, watching: &mut Watching, sampler: &mut Sampler) -> Result<(), Failure> {
    if watching.observe(sampler.sample()?)? {
        write_metrics(args, watching)?;
    }
    Ok(())
}

fn write_metrics(args: &Args, watching: &Watching) -> Result<(), Failure> {
    let Some(path) = &args.metrics else { return Ok(()) };
    let written = output_file::write(path, &text::metrics(watching), Existing::Replace);
    written.map_err(Failure::Fault)
}

/// Prints the verdict, and ends by it.
fn conclude(args: &Args, watching: &Watching) -> Result<Ending, Failure> {
    write_metrics(args, watching)?;
    let text = match () {
        () if args.json => text::json(watching),
        () if args.check => text::check_line(watching),
        () => text::report(watching, screen::style().width_columns),
    };
    screen::print(&text)?;
    Ok(match watching.has_slow_disk() {
        true => Ending::FoundFailure,
        false if args.check && !watching.disks().any(|it| it.is_judged()) => Ending::CannotTell,
        false => Ending::Done,
    })
}

/// Prints a line for each disk that becomes slow, or is as expected again.
fn follow(
    args: &Args,
    watching: &mut Watching,
    sampler: &mut Sampler,
    stop: &AtomicBool,
) -> Result<Ending, Failure> {
    let disks: Vec<String> = watching.disks().map(|it| printable(&it.disk.name)).collect();
    let disks = disks.join(", ");
    screen::say(format_args!(
        "watching {disks} until Ctrl-C: a line follows when one becomes slow; --once ends by itself"
    ));
    let mut slow = Vec::new();
    while wait(args.every, stop) {
        take(args, watching, sampler)?;
        let now = watching.slow_disks();
        for line in text::changes(watching, &slow, &now, args.json) {
            if !screen::print_line(&line)? {
                return Ok(Ending::Done);
            }
        }
        slow = now;
    }
    watching.save()?;
    Ok(Ending::Interrupted)
}

/// Shows the disks until a key ends it.
fn live(
    args: &Args,
    watching: &mut Watching,
    sampler: &mut Sampler,
    stop: &AtomicBool,
) -> Result<Ending, Failure> {
    let fault = |error: std::io::Error| Failure::Fault(error.into());
    let terminal = Terminal::take().map_err(fault)?;
    let every = Duration::from_nanos(args.every.0);
    let mut due = Instant::now() + every;
    loop {
        let size = terminal.size();
        terminal.draw(&text::frame(watching, size)).map_err(fault)?;
        while Instant::now() < due && terminal.size() == size {
            let left = due.saturating_duration_since(Instant::now());
            let keys = terminal.read_keys(left.min(CHECK_INTERVAL)).map_err(fault)?;
            if terminal::quits(&keys) || stop.load(Ordering::Relaxed) {
                watching.save()?;
                return Ok(Ending::Done);
            }
        }
        if Instant::now() >= due {
            due += every;
            take(args, watching, sampler)?;
        }
    }
}
