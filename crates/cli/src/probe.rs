//! `mirrorball probe`: measures a device by reading it, and writes a model profile.

use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, format_bytes};
use mirrorball_disk::profile::ModelProfile;
use mirrorball_host::detect::Sysroot;
use mirrorball_host::probe::{
    Budget, DeviceClass, ProbeControl, ProbeOptions, ProbeOutcome, ProbeProgress, ProbeTarget,
    ProbeVerdict, planned_time, probe_device, probe_model,
};
use mirrorball_lab::report::draw;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Measure a disk by reading it, and write a model profile
///
/// Only reads, and opens the device for reading only. Fits a model of a hard disk, a solid-state
/// disk or a device behind a network, and compares it with what was measured. The profile is for
/// `model = "disk.toml"` in an array file.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Probe an idle device; most devices need root. On Ctrl-C the profile is made \
from what was measured so far, if that suffices. Exit code 1 if the device cannot be read, or no \
model fits: the line that begins with `doubtful` says why.

Examples:
  mirrorball probe /dev/sda -o sda.toml
  mirrorball probe /dev/nvme0n1 --full -o disk.toml
  mirrorball probe --model hdd-7k2-desktop"
)]
pub(crate) struct Args {
    /// Block device, or a file on it that was written long ago (recent data may be in a fast cache
    /// of the disk); required unless --model is given
    #[arg(value_name = "DEVICE|FILE", required_unless_present = "model")]
    target: Option<PathBuf>,

    /// Measure for at most a minute (default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Measure for at most ten minutes
    #[arg(long)]
    full: bool,

    /// Kind of device [default: found by timing]
    #[arg(long, value_enum)]
    class: Option<DeviceClassArg>,

    /// Probe a disk model in virtual time instead of a device: a built-in model, or a profile
    #[arg(long, value_name = "MODEL|FILE", conflicts_with = "target")]
    model: Option<String>,

    /// Write the profile to FILE; `-` is standard output, and the tables go to standard error then
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Replace a file that exists
    #[arg(long)]
    force: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t = ProbeFormat::Text)]
    format: ProbeFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DeviceClassArg {
    /// A hard disk
    Hdd,
    /// A solid-state disk
    Ssd,
    /// A device behind a network
    Network,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProbeFormat {
    /// Tables for a terminal
    Text,
    /// Everything as JSON
    Json,
}

impl From<DeviceClassArg> for DeviceClass {
    fn from(class: DeviceClassArg) -> DeviceClass {
        match class {
            DeviceClassArg::Hdd => DeviceClass::Hdd,
            DeviceClassArg::Ssd => DeviceClass::Ssd,
            DeviceClassArg::Network => DeviceClass::Network,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let existing = check_output(args)?;
    let budget = if args.full { Budget::Full } else { Budget::Quick };
    let options = ProbeOptions { budget, class: args.class.map(DeviceClass::from) };
    let stop = stop_at_ctrl_c("ending the measurement, and fitting a model to what was measured");
    let stop = stop.map_err(Failure::Fault)?;
    let outcome = match (&args.model, &args.target) {
        (Some(model), _) => {
            let profile = model_profile(model)?;
            let probed = probe_model(&profile, None, options);
            probed.map_err(|error| Failure::Fault(without_class(error, args.class).into()))?
        }
        (None, Some(path)) => match from_device(path, options, stop)? {
            Some(outcome) => outcome,
            None => return Ok(Ending::Interrupted),
        },
        (None, None) => return Err(Failure::WrongUse(anyhow!("missing DEVICE|FILE or --model"))),
    };
    match is_stdout(args) {
        false => print(args, &outcome)?,
        true => screen::say(text(&outcome).trim_end()),
    }
    if let Some(path) = &args.output {
        output_file::write(path, &outcome.profile_text(), existing).map_err(Failure::Fault)?;
        if !output_file::is_stdout(path) {
            screen::say(format_args!("wrote {}", path.display()));
        }
    }
    Ok(match outcome.verdict {
        _ if stop.load(Ordering::Relaxed) => Ending::Interrupted,
        ProbeVerdict::Doubtful(_) => Ending::FoundFailure,
        ProbeVerdict::Good | ProbeVerdict::UsableForRanking(_) | ProbeVerdict::Late(_) => {
            Ending::Done
        }
    })
}

/// Treatment of an existing file. Fails if the file cannot be written, or standard output is asked
/// for twice.
fn check_output(args: &Args) -> Result<Existing, Failure> {
    let existing = Existing::from_force(args.force, args.output.as_deref(), "-o FILE")?;
    if let Some(path) = &args.output {
        output_file::check(path, existing).map_err(Failure::WrongUse)?;
    }
    match args.format {
        ProbeFormat::Json if is_stdout(args) => Err(Failure::WrongUse(anyhow!(
            "--format json and -o - both write to standard output\n  help: give -o a file, or \
             leave out --format"
        ))),
        _ => Ok(existing),
    }
}

/// Returns true if standard output has the profile.
fn is_stdout(args: &Args) -> bool {
    args.output.as_deref().is_some_and(output_file::is_stdout)
}

/// Adds to an error without a help what to do where the class was named.
fn without_class(error: Diagnostic, class: Option<DeviceClassArg>) -> Diagnostic {
    match (class, &error.help) {
        (Some(_), None) => error.with_help("leave out --class"),
        _ => error,
    }
}

fn model_profile(model: &str) -> Result<ModelProfile, Failure> {
    let profile = match model.contains('/') || model.ends_with(".toml") {
        true => {
            let text = std::fs::read_to_string(model)
                .with_context(|| format!("cannot read the model file {model}"))
                .map_err(Failure::WrongUse)?;
            ModelProfile::parse(&text, model)
        }
        false => ModelProfile::builtin(model).map_err(|error| match Path::new(model).is_file() {
            true => error.with_help(format!("write ./{model} for the file of that name")),
            false => error,
        }),
    };
    profile.map_err(|error| Failure::WrongUse(error.into()))
}

/// Probes a device; `None` if Ctrl-C left too little for a model. Fails if it cannot be read, or no
/// model can be made of what was measured.
fn from_device(
    path: &Path,
    options: ProbeOptions,
    stop: &AtomicBool,
) -> Result<Option<ProbeOutcome>, Failure> {
    let target = ProbeTarget::open(path, &Sysroot::live());
    let target = target.map_err(|error| Failure::WrongUse(error.into()))?;
    screen::say(format_args!(
        "{}: {}, at most {}, reads only",
        path.display(),
        format_bytes(target.size_bytes),
        whole_seconds(most_time(options.budget))
    ));
    for facts in &target.facts.uses {
        screen::say(format_args!("warning: {} is in use: {facts}", path.display()));
    }
    match measure(&target, options, stop, Nanos::ZERO) {
        Ok(outcome) => Ok(Some(outcome)),
        Err(error) if stop.load(Ordering::Relaxed) => {
            let help = "let the probe run for longer";
            let error = if error.help.is_none() { error.with_help(help) } else { error };
            screen::say(format_args!("no profile was written: {error}"));
            Ok(None)
        }
        Err(error) => Err(Failure::Fault(error.into())),
    }
}

/// The most time that probing a device of any class takes.
pub(crate) fn most_time(budget: Budget) -> Nanos {
    let classes = [DeviceClass::Hdd, DeviceClass::Ssd, DeviceClass::Network];
    classes.map(|class| planned_time(class, budget)).into_iter().max().unwrap_or_default()
}

/// Probes a device, and says each step with the time that is left; `later` is that of the devices
/// after it. Fails if it cannot be read, or too little was measured for a model.
pub(crate) fn measure(
    target: &ProbeTarget,
    options: ProbeOptions,
    stop: &AtomicBool,
    later: Nanos,
) -> Result<ProbeOutcome, Diagnostic> {
    let mut last = "";
    let mut on_progress = |progress: ProbeProgress| {
        if progress.step != last {
            last = progress.step;
            let left = whole_seconds(progress.remaining + later);
            screen::say(format_args!("  {:16} {:40} {left} left", last, progress.measures));
        }
    };
    let control = ProbeControl { stop, on_progress: &mut on_progress };
    probe_device(target, options, control)
}

/// A time in seconds, rounded up.
pub(crate) fn whole_seconds(time: Nanos) -> String {
    format!("{:.0} s", time.as_secs_f64().ceil())
}

fn print(args: &Args, outcome: &ProbeOutcome) -> Result<(), Failure> {
    screen::print(&match args.format {
        ProbeFormat::Text => text(outcome),
        ProbeFormat::Json => screen::json(outcome),
    })
}

fn text(outcome: &ProbeOutcome) -> String {
    let style = screen::style();
    let mut text = format!("{}\n\n", outcome.verdict);
    text += &draw(&outcome.parameter_grid(), style);
    text += "\n";
    text += &draw(&outcome.workload_grid(), style);
    for note in &outcome.notes {
        text += &format!("note: {note}\n");
    }
    text
}
