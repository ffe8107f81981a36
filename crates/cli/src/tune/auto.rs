//! The service of `tune --auto`: samples in, lines of JSON out.

use super::{Args, watchdog_command};
use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::progress::stop_at_ctrl_c;
use crate::screen;
use crate::watch::{SampleRecording, wait};
use anyhow::{Context, anyhow};
use mirrorball_core::units::Nanos;
use mirrorball_host::detect::{Sysroot, detect_at};
use mirrorball_host::tune::{AutoEvent, AutoOptions, AutoState, AutoTune, undo_service};
use mirrorball_host::watch::DiskSampler;
use serde_json::json;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How often the state is saved without a change.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

enum Samples {
    Machine(DiskSampler),
    Recorded(SampleRecording),
}

/// Files that the service writes, and what they say.
struct Outputs<'a> {
    args: &'a Args,
    changes: u64,
    saved_at: Instant,
}

pub(super) fn run(args: &Args, sysroot: &Sysroot, target: &str) -> Result<Ending, Failure> {
    output_file::check_metrics(args.metrics.as_deref())?;
    if args.apply && args.replay.is_some() && args.sysroot.is_none() {
        let help = "help: leave out --apply, or give the copy of a machine with --sysroot";
        let what = "--replay judges the past, and --apply would set this machine by it";
        return Err(Failure::WrongUse(anyhow!("{what}\n  {help}")));
    }
    if args.apply {
        for (array, report) in undo_service(sysroot, target) {
            let report = report.map_err(|error| Failure::Fault(error.into()))?;
            line(&json!({ "event": "recovered", "array": array, "restored": report.lines() }))?;
        }
    }
    let array = detect_at(sysroot, target)
        .map_err(|error| crate::detect::not_running("tune", target, error))?;
    let state = args.state.as_deref().map_or_else(|| Ok(AutoState::default()), read_state);
    let recording = args.replay.as_deref().map(SampleRecording::open).transpose()?;
    let options = AutoOptions {
        applies: args.apply,
        keeps: args.keep,
        watchdog: watchdog_command(args).context("the watchdog").map_err(Failure::Fault)?,
        every: recording.as_ref().map_or(args.every, |it| it.every),
    };
    let state = state.map_err(Failure::WrongUse)?;
    let auto = AutoTune::new(sysroot, target, array, state, options);
    let mut auto = auto.map_err(|error| Failure::WrongUse(error.into()))?;
    let mut samples = match recording {
        Some(recording) => Samples::Recorded(recording),
        None => {
            let group = std::slice::from_ref(auto.group());
            Samples::Machine(DiskSampler::new(sysroot.clone(), group))
        }
    };
    let settings: Vec<&str> = auto.settings().collect();
    line(&json!({ "event": "start", "applies": args.apply, "settings": settings }))?;
    let stop = stop_at_ctrl_c("restoring the setting").map_err(Failure::Fault)?;
    let mut outputs = Outputs { args, changes: 0, saved_at: Instant::now() };
    outputs.write(&auto)?;
    let served = serve(args, &mut auto, &mut samples, &mut outputs, stop);
    outputs.write(&auto)?;
    // Whatever happened: the setting before is restored.
    let restored = auto.end().map_err(|error| Failure::Fault(error.into()))?;
    let is_as_before = restored.as_ref().is_none_or(|report| report.is_as_before());
    let lines = restored.map(|report| report.lines());
    line(&json!({ "event": "end", "restored": lines }))?;
    match (served?, is_as_before) {
        (_, false) => Ok(Ending::FoundFailure),
        (ending, true) => Ok(ending),
    }
}

/// Judges samples until Ctrl-C, or the end of the recording.
fn serve(
    args: &Args,
    auto: &mut AutoTune,
    samples: &mut Samples,
    outputs: &mut Outputs<'_>,
    stop: &AtomicBool,
) -> Result<Ending, Failure> {
    loop {
        let (sample, now) = match samples {
            Samples::Recorded(recording) => match recording.next_sample()? {
                Some(sample) => (sample.clone(), Nanos(sample.at_ns)),
                None => return Ok(Ending::Done),
            },
            Samples::Machine(sampler) => {
                if !wait(args.every, stop) {
                    return Ok(Ending::Interrupted);
                }
                (sampler.sample(), wall_clock())
            }
        };
        if stop.load(Ordering::Relaxed) {
            return Ok(Ending::Interrupted);
        }
        let event = auto.observe(sample, now).map_err(|error| Failure::Fault(error.into()))?;
        outputs.after(auto, event.as_ref())?;
    }
}

impl Outputs<'_> {
    /// Prints an event, and writes the files after a change, or once a minute.
    fn after(&mut self, auto: &AutoTune, event: Option<&AutoEvent>) -> Result<(), Failure> {
        if let Some(event) = event {
            line(&json!(event))?;
        }
        let is_change = event.is_some_and(|event| event.decision == "change");
        self.changes += u64::from(is_change);
        if is_change || self.saved_at.elapsed() >= SAVE_INTERVAL {
            self.write(auto)?;
        }
        Ok(())
    }

    fn write(&mut self, auto: &AutoTune) -> Result<(), Failure> {
        self.saved_at = Instant::now();
        let write = |path: &Path, text: &str| {
            output_file::write(path, text, Existing::Replace).map_err(Failure::Fault)
        };
        if let Some(path) = &self.args.state {
            let text = serde_json::to_string(&auto.state()).context("the state has no JSON");
            write(path, &(text.map_err(Failure::Fault)? + "\n"))?;
        }
        if let Some(path) = &self.args.metrics {
            let mut text = format!(
                "# HELP mirrorball_tune_changes_total Settings changed since the service started.\n\
                 # TYPE mirrorball_tune_changes_total counter\n\
                 mirrorball_tune_changes_total {}\n\
                 # HELP mirrorball_tune_avoided Disks that are not read while another can be.\n\
                 # TYPE mirrorball_tune_avoided gauge\n",
                self.changes
            );
            let avoided = auto.avoided();
            for disk in &auto.group().disks {
                let value = u8::from(avoided.contains(&disk.name.as_str()));
                text += &format!("mirrorball_tune_avoided{{disk=\"{}\"}} {value}\n", disk.name);
            }
            write(path, &text)?;
        }
        Ok(())
    }
}

fn line(value: &serde_json::Value) -> Result<(), Failure> {
    screen::print_line(&value.to_string()).map(|_| ())
}

/// Time since 1970, which goes on over restarts.
fn wall_clock() -> Nanos {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

fn read_state(path: &Path) -> anyhow::Result<AutoState> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(AutoState::default()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    AutoState::parse(&text).map_err(|error| {
        let help = "help: name another file, or remove this one";
        anyhow!("{} is no state of tune --auto: {error}\n  {help}", path.display())
    })
}
