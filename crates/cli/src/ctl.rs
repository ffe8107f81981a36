//! `mirrorball ctl`: shows the state of a running volume and changes its policy.

mod requests;
mod scrub_text;
mod sockets;
mod text;
mod wait;

use crate::ending::{Ending, Failure};
use crate::{numbers, screen};
use anyhow::anyhow;
use clap::{Subcommand, ValueEnum};
use mirrorball_core::policies::short_policy_name;
use mirrorball_io::control::protocol::{
    self, AskError, Condition, ControlRequest, MemberReport, ScrubAction, ScrubReport,
    ServiceStats, ServiceStatus, Severity, StateChange,
};
use requests::{absolute, replace, set_policy, spare_name};
use scrub_text::{check_scrub, scrub_text};
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use sockets::with_control;
use std::path::{Path, PathBuf};
pub(crate) use text::{condition_text, refusal};
use text::{member, member_stats, requests, sentence, spare, status};
use wait::Begun;

/// Show the state and events of a running volume, change its policy or members, or scrub it
#[derive(Debug, clap::Args)]
#[command(override_usage = "mirrorball ctl --control <PATH> [OPTIONS] <COMMAND>")]
#[command(
    after_help = "PATH is the path given to `emulate` or `serve` as --control. It may be left
out if one volume is served by the units of the package: the socket in /run/mirrorball.

Examples:
  mirrorball ctl --control /tmp/volume.ctl status
  mirrorball ctl --control /tmp/volume.ctl policy round-robin:256K
  mirrorball ctl --control /tmp/volume.ctl members rebuild 2 --rate 50M
  mirrorball ctl --control /tmp/volume.ctl members replace 2 /dev/sdd --wait
  mirrorball ctl --control /tmp/volume.ctl members add --spare /dev/sde
  mirrorball ctl --control /tmp/volume.ctl scrub start
  mirrorball ctl --control /tmp/volume.ctl events --follow
  mirrorball ctl stats --format json --control /tmp/volume.ctl"
)]
pub(crate) struct Args {
    /// Control socket of the running `emulate` or `serve` [default: the only one in
    /// /run/mirrorball]
    #[arg(short, long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,

    /// Wait for the rebuild that begins, else until no rebuild, resync or scrub is left, and print
    /// rate and time left every 5 s; `status` is printed after that. Exits with code 1 if there is
    /// an error then, of the member or the volume, or the copy was ended
    #[arg(long, global = true)]
    wait: bool,

    #[command(subcommand)]
    action: CtlAction,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = StatusFormat::Text, global = true)]
    format: StatusFormat,
}

#[derive(Clone, Debug, Subcommand)]
enum CtlAction {
    /// Show what is served, the policy and the conditions: what is wrong, and what to do
    #[command(override_usage = "mirrorball ctl --control <PATH> status [OPTIONS]")]
    Status {
        /// Exit with code 1 if there is a condition of the severity `warning` or `error`. Whether a
        /// scrub was finished: see `scrub status --check`
        #[arg(long)]
        check: bool,
    },
    /// Show state, device and counters of each member; fail, remove, rebuild or replace one
    #[command(override_usage = "mirrorball ctl --control <PATH> members [OPTIONS] [COMMAND]")]
    Members {
        #[command(subcommand)]
        action: Option<MemberAction>,
    },
    /// Show how long reads and writes of each member took, and the lateness of emulated members
    ///
    /// Lateness is how much later than its model says an emulated member completed its requests.
    /// With `emulate --speed`, the times of reads and writes are those of the model, and lateness
    /// is real time.
    #[command(override_usage = "mirrorball ctl --control <PATH> stats [OPTIONS]")]
    Stats {
        /// Exit with code 1 if the measured times of a member are invalid, because its requests
        /// completed too late
        #[arg(long)]
        check: bool,
        /// Clear the measured times after printing them; request counters are not reset
        #[arg(long)]
        reset: bool,
    },
    /// Compare all mirrors while the volume is used, or show the progress
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub [OPTIONS] [COMMAND]")]
    Scrub {
        #[command(subcommand)]
        action: Option<ScrubCommand>,
    },
    /// Print the last events as lines of JSON, for example a member that failed
    ///
    /// Each line is an object with `number`, `time_unix_ms` and `event`; the chapter "Run a volume"
    /// of the documentation lists the events. The service keeps the last 256.
    #[command(override_usage = "mirrorball ctl --control <PATH> events [OPTIONS]")]
    Events {
        /// Go on with each event that happens, until the service is stopped. Exits with code 1 if
        /// the service ends in another way
        #[arg(long)]
        follow: bool,
    },
    /// Show the policy, or change it
    #[command(override_usage = "mirrorball ctl --control <PATH> policy [OPTIONS] [NAME]")]
    Policy {
        /// New policy, as `mirrorball policies` lists it, for example latency-rr or
        /// round-robin:256K, or a program: program:FILE
        name: Option<String>,
        /// Record the policy for later starts: in the labels of the members, or in the array file
        /// if they have no labels
        #[arg(long, requires = "name")]
        keep: bool,
    },
}

#[derive(Clone, Debug, Subcommand)]
enum MemberAction {
    /// Stop using a member, for example before its disk is replaced
    ///
    /// In a labelled volume, the labels of the other members record it, so it is not used at later
    /// starts either. `members rebuild` takes it back.
    #[command(override_usage = "mirrorball ctl --control <PATH> members fail <DEVID>")]
    Fail {
        /// devid of the member, as `ctl members` shows it
        #[arg(value_parser = numbers::devid)]
        devid: u64,
    },
    /// Remove the device of a member that failed, for good, or a spare
    ///
    /// The server closes the device, which can be taken out or used for something else. It is not a
    /// member any more: if it is found at a later start, it is left out. `members add` or `members
    /// replace` puts another device in its place. Works for labelled volumes.
    #[command(override_usage = "mirrorball ctl --control <PATH> members remove <DEVID>\n       \
                               mirrorball ctl --control <PATH> members remove --spare <DEVICE>")]
    Remove {
        /// devid of the member, as `ctl members` shows it
        #[arg(value_parser = numbers::devid, required_unless_present = "spare")]
        devid: Option<u64>,
        /// Spare that is not to take the place of a member any more, or device to which a member is
        /// being copied: its path, or its UUID if it is missing
        #[arg(long, value_name = "DEVICE", conflicts_with = "devid")]
        spare: Option<String>,
    },
    /// Rebuild a member that failed, or whose file was replaced, from the others
    ///
    /// The member's path is reopened, so that a replaced file or device is used. What it missed is
    /// overwritten, or everything if that is not known.
    #[command(override_usage = "mirrorball ctl --control <PATH> members rebuild [OPTIONS] <DEVID>")]
    Rebuild {
        /// devid of the member, as `ctl members` shows it
        #[arg(allow_hyphen_values = true, value_parser = numbers::devid)]
        devid: u64,
        /// The device of the member, if it has another path or URI now
        #[arg(long)]
        device: Option<String>,
        /// Rate limit in bytes per second, for example 50M [default: no limit]. Run the command
        /// again to change it
        #[arg(long, value_name = "BYTES", allow_hyphen_values = true,
              value_parser = numbers::rate_limit)]
        rate: Option<u64>,
    },
    /// Put another device in the place of a member, and rebuild it from the others
    ///
    /// What the device contains is overwritten. The volume starts with it from then on; the device
    /// before is not a member any more. The device of a failed member may replace itself, and all
    /// of it is copied; `members rebuild` copies only what it missed. Works for labelled volumes.
    #[command(override_usage = "mirrorball ctl --control <PATH> members replace [OPTIONS] \
                               <DEVID> <DEVICE>")]
    Replace {
        /// devid of the member, as `ctl members` shows it
        #[arg(value_parser = numbers::devid)]
        devid: u64,
        /// File, block device or, for a failed member, NBD URI, at least as large as the member
        device: String,
        #[command(flatten)]
        replacement: Replacement,
    },
    /// Put a device in the place of the member that has failed or is missing, and rebuild it; or
    /// add a spare
    ///
    /// A spare takes the place of a member as soon as one fails, is removed or is missing after a
    /// degraded start, if it is large enough. Its contents are lost. The labels of the members list
    /// up to 8 spares, and `serve` finds them like members. Works for labelled volumes.
    #[command(override_usage = "mirrorball ctl --control <PATH> members add [OPTIONS] <DEVICE>")]
    Add {
        /// File, block device or NBD URI, at least as large as the member; as a spare, at least as
        /// large as the smallest member
        device: String,
        /// Keep the device as a spare until a member fails
        #[arg(long, conflicts_with = "rate")]
        spare: bool,
        #[command(flatten)]
        replacement: Replacement,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Replacement {
    /// Use the device even if it contains a filesystem, a partition table, a member of another
    /// volume or data that the other members lack. What it contains is destroyed
    #[arg(long)]
    occupied: bool,
    /// Rate limit in bytes per second, for example 50M [default: no limit]. `members rebuild DEVID
    /// --rate` changes it
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true,
          value_parser = numbers::rate_limit)]
    rate: Option<u64>,
}

#[derive(Clone, Debug, Subcommand)]
enum ScrubCommand {
    /// Start to compare all mirrors, from the beginning of the volume
    ///
    /// Blocks that differ are counted. What a medium cannot read is rewritten from the other
    /// members. A scrub uses at most half of the time of the disks while clients use them, waits
    /// while a member is rebuilt, and goes on when a labelled volume is started again.
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub start [OPTIONS]")]
    Start {
        /// Make mirrors equal where they differ, by copying the data that more than half of them
        /// have. With two mirrors, --from has to say which one is right
        #[arg(long)]
        repair: bool,
        /// Member that is right where no data are on more than half of the mirrors
        #[arg(long, value_name = "DEVID", requires = "repair", value_parser = numbers::devid)]
        from: Option<u64>,
        /// Rate limit in bytes of the volume per second, for example 50M [default: no limit]
        #[arg(long, value_name = "BYTES", allow_hyphen_values = true,
              value_parser = numbers::rate_limit)]
        rate: Option<u64>,
    },
    /// Pause the scrub, also over a restart of the service
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub pause")]
    Pause,
    /// Go on with a scrub that was paused
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub resume")]
    Resume,
    /// Give up the scrub; the next one starts from the beginning
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub cancel")]
    Cancel,
    /// Show how far the scrub is, and what it found
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub status [OPTIONS]")]
    Status {
        /// Exit with code 1 if no scrub has finished yet, or the last one is paused, was cancelled,
        /// left blocks that differ or cannot be read, or could not compare everything. One that
        /// runs counts with what it has found so far
        #[arg(long)]
        check: bool,
    },
}

impl CtlAction {
    /// Returns true if the command changes nothing: with `--wait` it shows what there is then.
    fn only_shows(&self) -> bool {
        use CtlAction::{Members, Policy, Scrub, Stats, Status};
        let shows_scrub = |action: &ScrubCommand| matches!(action, ScrubCommand::Status { .. });
        match self {
            Status { .. } | Members { action: None } | Policy { name: None, .. } => true,
            Stats { reset, .. } => !reset,
            Scrub { action } => action.as_ref().is_none_or(shows_scrub),
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusFormat {
    /// Plain text
    Text,
    /// JSON for programs
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let control = match &args.control {
        Some(control) => control.clone(),
        None => sockets::only_control(Path::new(sockets::RUN_FOLDER))?,
    };
    let is_printed_last = args.wait && args.action.only_shows();
    let began = if is_printed_last { Ending::Done } else { act(args, &control)? };
    if !args.wait || began != Ending::Done {
        return Ok(began);
    }
    let begun = Begun::by(&args.action, &control)?;
    let errors = wait::wait(&control, begun.as_ref())?;
    let ending = match is_printed_last {
        true => act(args, &control)?,
        false => {
            wait::print_end(&errors, &control);
            began
        }
    };
    let is_of_it = |it: &Condition| begun.as_ref().is_none_or(|begun| begun.concerns(it));
    Ok(if errors.iter().any(is_of_it) { Ending::FoundFailure } else { ending })
}

/// Does what the command says, without waiting for what it began.
fn act(args: &Args, control: &Path) -> Result<Ending, Failure> {
    let format = args.format;
    match &args.action {
        CtlAction::Status { check } => {
            let answer: ServiceStatus = ask(control, &ControlRequest::Status)?;
            print(control, format, &answer, status)?;
            let is_bad = |condition: &Condition| condition.severity > Severity::Note;
            if *check && answer.conditions.iter().any(is_bad) {
                return Ok(Ending::FoundFailure);
            }
        }
        CtlAction::Members { action } => members(control, format, action.as_ref())?,
        CtlAction::Stats { check, reset } => {
            let stats: ServiceStats = ask(control, &ControlRequest::Stats { reset: *reset })?;
            print(control, format, &stats, |stats| {
                stats.members.iter().map(member_stats).collect()
            })?;
            if *check && stats.members.iter().all(|member| requests(member) == 0) {
                screen::say("note: no requests have completed, so there is no lateness to check");
            } else if *check && stats.members.iter().all(|member| member.lateness.is_none()) {
                screen::say("note: no member is emulated, so there is no lateness to check");
            }
            let mut lateness = stats.members.iter().filter_map(|member| member.lateness.as_ref());
            if *check && lateness.any(|lateness| !lateness.within_bound) {
                return Ok(Ending::FoundFailure);
            }
        }
        CtlAction::Events { follow } => return events(control, *follow),
        CtlAction::Scrub { action } => return scrub(control, format, action.as_ref()),
        CtlAction::Policy { name: None, .. } => {
            print(control, format, &ask(control, &ControlRequest::Policy)?, sentence)?;
        }
        CtlAction::Policy { name: Some(name), keep } => {
            let before: String = ask(control, &ControlRequest::Policy)?;
            let kept = match keep {
                true => ", which is recorded for later starts",
                false => "\nuntil the service stops; `--keep` keeps it for later starts",
            };
            let request = set_policy(name, *keep)?;
            let before = short_policy_name(&before);
            let changed = |now: &String| match short_policy_name(now) {
                now if now == before => format!("policy is already {now}{kept}\n"),
                now => format!("policy changed from {before} to {now}{kept}\n"),
            };
            print(control, format, &ask(control, &request)?, changed)?;
        }
    }
    Ok(Ending::Done)
}

/// Shows the members and spares, or does something with one.
fn members(
    control: &Path,
    format: StatusFormat,
    action: Option<&MemberAction>,
) -> Result<(), Failure> {
    let request = match action {
        None => {
            let members: Vec<MemberReport> = ask(control, &ControlRequest::Members)?;
            let spares = match format {
                StatusFormat::Text => {
                    ask::<ServiceStatus>(control, &ControlRequest::Status)?.spares
                }
                StatusFormat::Json => Vec::new(),
            };
            let text = |members: &Vec<MemberReport>| {
                members.iter().map(member).chain(spares.iter().map(spare)).collect()
            };
            return print(control, format, &members, text);
        }
        Some(MemberAction::Rebuild { devid, device, rate }) => ControlRequest::Rebuild {
            devid: *devid,
            device: device.as_deref().map(absolute).transpose()?,
            rate_bytes_per_s: *rate,
        },
        Some(MemberAction::Fail { devid }) => ControlRequest::Fail { devid: *devid },
        Some(MemberAction::Remove { spare: Some(device), .. }) => {
            ControlRequest::RemoveSpare { device: spare_name(device)? }
        }
        Some(MemberAction::Remove { devid, spare: None }) => {
            ControlRequest::Remove { devid: devid.expect("clap requires one of them") }
        }
        Some(MemberAction::Replace { devid, device, replacement }) => {
            replace(Some(*devid), device, replacement)?
        }
        Some(MemberAction::Add { device, spare: false, replacement }) => {
            replace(None, device, replacement)?
        }
        Some(MemberAction::Add { device, spare: true, replacement }) => {
            ControlRequest::AddSpare { device: absolute(device)?, occupied: replacement.occupied }
        }
    };
    print(control, format, &ask(control, &request)?, sentence)
}

/// Prints events, as the service sends them.
fn events(control: &Path, follows: bool) -> Result<Ending, Failure> {
    let (mut is_stopped, mut printed) = (false, Ok(true));
    let followed = protocol::follow_events(control, follows, |event, line| {
        is_stopped = event.change == StateChange::ServiceStopping;
        printed = screen::print_line(line);
        matches!(printed, Ok(true))
    });
    followed.map_err(|error| failure(&error, control))?;
    if printed? && follows && !is_stopped {
        let text = "the service closed the connection without the event that it stops\n  help: it \
                    may have been killed; `ctl status` shows whether it runs";
        return Err(Failure::Fault(anyhow!("{}", with_control(text, control))));
    }
    Ok(Ending::Done)
}

/// Does something with the scrub, and shows it.
fn scrub(
    control: &Path,
    format: StatusFormat,
    command: Option<&ScrubCommand>,
) -> Result<Ending, Failure> {
    let request = |action| ControlRequest::Scrub {
        action,
        repair: false,
        from: None,
        rate_bytes_per_s: None,
    };
    let request = match command {
        Some(ScrubCommand::Start { repair, from, rate }) => ControlRequest::Scrub {
            action: ScrubAction::Start,
            repair: *repair,
            from: *from,
            rate_bytes_per_s: *rate,
        },
        Some(ScrubCommand::Pause) => request(ScrubAction::Pause),
        Some(ScrubCommand::Resume) => request(ScrubAction::Resume),
        Some(ScrubCommand::Cancel) => request(ScrubAction::Cancel),
        Some(ScrubCommand::Status { .. }) | None => request(ScrubAction::Status),
    };
    let report: Option<ScrubReport> = ask(control, &request)?;
    let text = |report: &Option<ScrubReport>| match report {
        Some(report) => scrub_text(report),
        None => "no scrub yet\n".to_owned(),
    };
    print(control, format, &report, text)?;
    let is_checked = matches!(command, Some(ScrubCommand::Status { check: true }));
    Ok(match check_scrub(report.as_ref()) {
        Err(reason) if is_checked => {
            if let Some(reason) = reason {
                screen::say(format_args!("note: {}", with_control(reason, control)));
            }
            Ending::FoundFailure
        }
        _ => Ending::Done,
    })
}

/// Sends a request to the service with this control socket, and returns its answer.
pub(crate) fn ask<T: DeserializeOwned>(
    socket: &Path,
    request: &ControlRequest,
) -> Result<T, Failure> {
    protocol::ask(socket, request).map_err(|error| failure(&error, socket))
}

fn failure(error: &AskError, control: &Path) -> Failure {
    let cause = anyhow!("{}", with_control(&error.to_string(), control));
    match error {
        AskError::Refused(_) | AskError::NotControl { .. } | AskError::TooLong(_) => {
            Failure::WrongUse(cause)
        }
        _ => Failure::Fault(cause),
    }
}

fn print<T: Serialize>(
    control: &Path,
    format: StatusFormat,
    answer: &T,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    screen::print(&match format {
        StatusFormat::Text => {
            screen::broken(&screen::escaped(&with_control(&text(answer), control)))
        }
        StatusFormat::Json => screen::json(answer),
    })
}
