//! `mirrorball tune`: applies the setting that `advise` would name, keeps it, and undoes it.

mod auto;
mod text;

use crate::ending::{Ending, Failure};
use crate::numbers;
use crate::screen;
use anyhow::{Context, anyhow};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::Nanos;
use mirrorball_host::bench::watch;
use mirrorball_host::detect::{DetectedArray, Sysroot, detect_at};
use mirrorball_host::tune::{TunePlan, status, undo};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use text::Prediction;

/// Apply the read setting that `advise` names to a running array, keep it, and undo it
///
/// Shows what would be set, where, and what it brings. Nothing is changed without --apply, which
/// keeps the old values, sets the new ones, reads them back, and checks that the array is as
/// before.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "--apply and --undo need root. An array that is degraded, being resynced or \
checked, or in use by bench is left alone.

The old values are in /var/lib/mirrorball/bench until --undo. If --apply is killed, a watchdog
process restores them. Settings that the system itself loses at a restart come back with --persist,
which writes files of systemd, udev or modprobe; each is shown first, starts with a line that says
who wrote it, and is removed by --undo. A file of that name that another program wrote stays, and
is an error.

--auto changes only what keeps reads away from members (write-mostly of md and LVM, devid of btrfs
on two devices, increments of ZFS), never from the last one, and at most 24 or 48 times a day. When
it ends, or is killed, the setting before is restored.

Exit code 1 if something could not be set or undone, and of --status if a setting is not in force;
2 if there is no array, it is left alone, or the running system does not offer the setting.

Examples:
  mirrorball tune /srv/data
  mirrorball tune /srv/data --apply --persist
  mirrorball tune /dev/md0 --policy md/raid1+write-mostly:1 --apply
  mirrorball tune --status
  mirrorball tune /dev/md0 --auto --apply --state /var/lib/mirrorball/md0.json
  mirrorball tune /srv/data --undo"
)]
pub(crate) struct Args {
    /// Mount point or path on it, block device, or name of an array, volume or pool. Required
    /// unless --status or --undo is given
    #[arg(value_name = "PATH|DEVICE", required_unless_present_any = ["status", "undo", "watch"])]
    target: Option<String>,

    /// Jobs that the setting is chosen for: fio job files or built-in jobs [default: those of
    /// advise]
    #[arg(value_name = "JOB", conflicts_with_all = ["status", "undo", "policy"])]
    jobs: Vec<String>,

    /// The setting, as `compare --policy` takes it [default: the best that advise finds, by
    /// simulation]
    #[arg(short, long, value_name = "POLICY", conflicts_with_all = ["status", "undo"])]
    policy: Option<String>,

    /// Simulated time of every job with its unit [default: that of advise]
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true,
          value_parser = numbers::positive_duration,
          conflicts_with_all = ["status", "undo", "policy"])]
    duration: Option<Nanos>,

    /// Set it
    #[arg(long, conflicts_with_all = ["status", "undo"])]
    apply: bool,

    /// Have it set again when the machine starts
    #[arg(long, conflicts_with_all = ["status", "undo"])]
    persist: bool,

    /// Restore what was in force before, and remove the files of --persist. Without PATH, on all
    /// arrays
    #[arg(long, conflicts_with = "status")]
    undo: bool,

    /// List what was applied, and whether it is in force
    #[arg(long)]
    status: bool,

    /// Run as a service: judge the disks as `watch` does, and keep reads away from a slow member
    /// while that pays. Without --apply it only says what it would do, as a line of JSON each
    #[arg(long, conflicts_with_all = ["jobs", "policy", "duration", "persist", "undo", "status"])]
    auto: bool,

    /// Leave the setting in force when --auto ends, in place of restoring the one before
    #[arg(long, requires_all = ["auto", "apply"])]
    keep: bool,

    /// Time between samples of --auto with its unit
    #[arg(long, value_name = "TIME", default_value = "1s", allow_hyphen_values = true,
          value_parser = numbers::positive_duration, requires = "auto")]
    every: Nanos,

    /// Keep what --auto knows of the disks and its changes in FILE, so that a restart does not
    /// forget it
    #[arg(long, value_name = "FILE", requires = "auto")]
    state: Option<PathBuf>,

    /// Write the figures of --auto to FILE, for the textfile collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE", requires = "auto")]
    metrics: Option<PathBuf>,

    /// Let --auto judge the samples of a FILE of `watch --record` instead of this machine
    #[arg(long, value_name = "FILE", requires = "auto")]
    replay: Option<PathBuf>,

    /// Print JSON
    #[arg(long, conflicts_with = "undo")]
    json: bool,

    /// Read and set a recorded copy of the files of a machine in DIR instead of this machine
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,

    /// Restore what this journal says when standard input ends: the watchdog of another tune
    #[arg(long, value_name = "JOURNAL", hide = true)]
    watch: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let sysroot = crate::detect::sysroot(args.sysroot.as_deref())?;
    if let Some(journal) = &args.watch {
        return watchdog(&sysroot, journal);
    }
    if args.status {
        return show_status(args, &sysroot);
    }
    if args.undo {
        return undone(args, &sysroot);
    }
    let Some(target) = &args.target else {
        return Err(Failure::WrongUse(anyhow!("missing PATH|DEVICE")));
    };
    if args.auto {
        return auto::run(args, &sysroot, target);
    }
    let array = detect_at(&sysroot, target)
        .map_err(|error| crate::detect::not_running("tune", target, error))?;
    let Some((plan, prediction)) = planned(args, &sysroot, target, array)? else {
        return Ok(Ending::Interrupted);
    };
    if args.apply && !plan.changes().is_empty() {
        let command = watchdog_command(args).context("the watchdog").map_err(Failure::Fault)?;
        plan.apply(&command).map_err(|error| Failure::Fault(error.into()))?;
    }
    let place = crate::detect::place_option(args.sysroot.as_deref(), None);
    let words = format!("{}{place}", quoted(target));
    let text = match args.json {
        true => json_text(&plan_json(args, &plan, prediction.as_ref())),
        false => text::plan(&plan, prediction.as_ref(), &words, args.apply, args.persist),
    };
    screen::print(&text)?;
    Ok(Ending::Done)
}

/// The plan of the policy that was given, or of the best that `advise` finds; `None` if Ctrl-C
/// ended that.
fn planned(
    args: &Args,
    sysroot: &Sysroot,
    target: &str,
    array: DetectedArray,
) -> Result<Option<(TunePlan, Option<Prediction>)>, Failure> {
    let wrong = |error: mirrorball_core::diagnostic::Diagnostic| Failure::WrongUse(error.into());
    // What cannot be changed is not simulated.
    let now = TunePlan::setting_in_force(sysroot, &array).map_err(wrong)?;
    let plan = |array, spec: &str| TunePlan::new(sysroot, target, array, spec, args.persist);
    if let Some(policy) = &args.policy {
        return Ok(Some((plan(array, policy).map_err(wrong)?, None)));
    }
    plan(array.clone(), &now).map_err(wrong)?;
    let Some(answer) = crate::advise::answer_of_defaults(&advise_words(args, target))? else {
        return Ok(None);
    };
    let offered = answer.advice.offered.as_ref();
    let spec = offered.map_or(now.as_str(), |offered| offered.spec.as_str());
    let prediction = offered.map(|offered| Prediction {
        factor: offered.factor.filter(|_| offered.spec != now),
        is_rough: offered.is_rough,
        only_if: offered.only_if,
        jobs: offered.jobs,
        slower: offered.slower.iter().map(|it| (it.job.clone(), it.factor)).collect(),
        note: offered.note.clone(),
        results: answer.results.clone(),
    });
    Ok(Some((plan(array, spec).map_err(wrong)?, prediction)))
}

/// The command line of the `advise` that is asked.
fn advise_words(args: &Args, target: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["advise".into()];
    if let Some(folder) = &args.sysroot {
        words.extend(["--sysroot".into(), folder.clone().into_os_string()]);
    }
    if let Some(duration) = args.duration {
        words.extend(["--duration".into(), format!("{}ns", duration.0).into()]);
    }
    words.extend(["--".into(), target.into()]);
    words.extend(args.jobs.iter().map(OsString::from));
    words
}

fn plan_json(args: &Args, plan: &TunePlan, prediction: Option<&Prediction>) -> serde_json::Value {
    json!({
        "array": plan.array.name,
        "system": plan.array.system,
        "in_force": plan.now,
        "setting": plan.spec,
        "changes": plan.changes(),
        "check": plan.check,
        "persist": plan.persist,
        "predicted_factor": prediction.and_then(|it| it.factor),
        "is_rough": prediction.map(|it| it.is_rough),
        "jobs": prediction.map(|it| it.jobs),
        "applied": args.apply,
    })
}

fn json_text(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

fn show_status(args: &Args, sysroot: &Sysroot) -> Result<Ending, Failure> {
    let mut ending = Ending::Done;
    let mut arrays = Vec::new();
    for array in status(sysroot) {
        match array {
            Ok(array) => arrays.push(array),
            Err(error) => {
                screen::say(format_args!("error: {error}"));
                ending = Ending::FoundFailure;
            }
        }
    }
    if let Some(target) = &args.target {
        arrays.retain(|array| array.array == *target);
    }
    let text = match args.json {
        true => json_text(&json!({ "arrays": arrays })),
        false => screen::broken(&text::status(&arrays)),
    };
    screen::print(&text)?;
    match arrays.iter().all(mirrorball_host::tune::TunedArray::is_applied) {
        true => Ok(ending),
        false => Ok(Ending::FoundFailure),
    }
}

/// Undoes what was applied, and says so.
fn undone(args: &Args, sysroot: &Sysroot) -> Result<Ending, Failure> {
    let reports = undo(sysroot, args.target.as_deref());
    let reports = reports.map_err(|error| Failure::WrongUse(error.into()))?;
    if reports.is_empty() {
        screen::print("nothing to undo: tune has applied nothing\n")?;
    }
    let mut ending = Ending::Done;
    for (array, report) in reports {
        match report {
            Ok(report) => {
                let is_restored = report.is_as_before();
                let lines = report.lines().into_iter();
                let lines = lines.map(|line| format!("{array}: {line}\n")).collect::<String>();
                let nothing = format!("{array}: everything was as before\n");
                screen::print(&screen::broken(if lines.is_empty() { &nothing } else { &lines }))?;
                if !is_restored {
                    ending = Ending::FoundFailure;
                }
            }
            Err(error) => {
                screen::say(format_args!("{array}: not undone: {error}"));
                ending = Ending::FoundFailure;
            }
        }
    }
    Ok(ending)
}

/// Waits for the end of the tune that started it, and restores if that did not.
fn watchdog(sysroot: &Sysroot, journal: &Path) -> Result<Ending, Failure> {
    let (input, ready) = (std::io::stdin().lock(), std::io::stdout());
    let report = watch(sysroot, journal, input, ready);
    let Some(report) = report.map_err(|error| Failure::Fault(error.into()))? else {
        return Ok(Ending::Done);
    };
    screen::say("tune has ended without restoring the settings: the watchdog does");
    report.lines().into_iter().for_each(screen::say);
    Ok(if report.is_as_before() { Ending::Done } else { Ending::FoundFailure })
}

/// The command of the watchdog, but for the journal.
fn watchdog_command(args: &Args) -> std::io::Result<Vec<OsString>> {
    let mut command = vec![std::env::current_exe()?.into_os_string(), "tune".into()];
    if let Some(folder) = &args.sysroot {
        command.extend(["--sysroot".into(), folder.clone().into_os_string()]);
    }
    command.push("--watch".into());
    Ok(command)
}
