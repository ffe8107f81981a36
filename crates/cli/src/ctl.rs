//! `mirrorball ctl`: shows the state of a running volume and changes its policy.

use crate::ending::{Ending, Failure};
use crate::{numbers, screen};
use anyhow::anyhow;
use clap::{Subcommand, ValueEnum};
use mirrorball_core::units::{Nanos, format_bytes};
use mirrorball_io::control::protocol::{
    self, AskError, ControlRequest, MemberReport, MemberStatsReport, Quantiles, ReportedScrubState,
    ScrubAction, ScrubReport, ServiceStats, ServiceStatus, VolumeHealth,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Show the state of a running volume, or change its policy
#[derive(Debug, clap::Args)]
#[command(override_usage = "mirrorball ctl --control <PATH> [OPTIONS] <COMMAND>")]
#[command(after_help = "PATH is the path given to `emulate` or `serve` as --control.

Examples:
  mirrorball ctl --control /tmp/volume.ctl status
  mirrorball ctl --control /tmp/volume.ctl policy round-robin:256K
  mirrorball ctl --control /tmp/volume.ctl members rebuild 2 --rate 50M
  mirrorball ctl --control /tmp/volume.ctl scrub start
  mirrorball ctl stats --format json --control /tmp/volume.ctl")]
pub(crate) struct Args {
    /// Control socket of the running `emulate` or `serve`; required
    // Required, but clap does not allow that of a global option.
    #[arg(short, long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,

    #[command(subcommand)]
    action: Action,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Text, global = true)]
    format: Format,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Show what is served, the policy, health and rebuild progress
    #[command(override_usage = "mirrorball ctl --control <PATH> status [OPTIONS]")]
    Status {
        /// Exit with code 1 if a member is not in sync, or mirrors may differ
        #[arg(long)]
        check: bool,
    },
    /// Show state and counters of each member, or rebuild one
    #[command(override_usage = "mirrorball ctl --control <PATH> members [OPTIONS] [COMMAND]")]
    Members {
        #[command(subcommand)]
        action: Option<MemberAction>,
    },
    /// Show how long reads and writes of each member took, and the lateness of emulated members
    ///
    /// Lateness is how much later than its model says an emulated member completed its requests.
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
    /// Compare all mirrors while the volume is used, or show how far that is
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub [OPTIONS] [COMMAND]")]
    Scrub {
        #[command(subcommand)]
        action: Option<ScrubCommand>,
    },
    /// Show the policy, or change it
    #[command(override_usage = "mirrorball ctl --control <PATH> policy [OPTIONS] [NAME]")]
    Policy {
        /// New policy, as `mirrorball policies` lists it, for example latency-rr or
        /// round-robin:256K
        name: Option<String>,
        /// Record the policy in the labels, so that the volume starts with it from now on
        #[arg(long, requires = "name")]
        keep: bool,
    },
}

#[derive(Clone, Debug, Subcommand)]
enum MemberAction {
    /// Stop using a member, for example before its disk is replaced
    ///
    /// It is recorded as failed in the labels of the others, and rebuilt when it is taken back.
    #[command(override_usage = "mirrorball ctl --control <PATH> members fail <DEVID>")]
    Fail {
        /// devid of the member
        #[arg(value_parser = numbers::devid)]
        devid: u64,
    },
    /// Rebuild a member that failed, or whose file was replaced, from its mirrors
    ///
    /// The member's path is reopened, so that a replaced file or device is used.
    #[command(override_usage = "mirrorball ctl --control <PATH> members rebuild [OPTIONS] <DEVID>")]
    Rebuild {
        /// devid of the member: its number in the array file, from 1
        #[arg(allow_hyphen_values = true, value_parser = numbers::devid)]
        devid: u64,
        /// Rate limit in bytes per second, for example 50M [default: no limit]. Run the command
        /// again to change it
        #[arg(long, value_name = "BYTES", allow_hyphen_values = true,
              value_parser = numbers::rate_limit)]
        rate: Option<u64>,
    },
}

#[derive(Clone, Debug, Subcommand)]
enum ScrubCommand {
    /// Start to compare all mirrors, from the beginning of the volume
    ///
    /// Blocks that differ are counted. Mirrors whose medium cannot be read are rewritten from the
    /// others. A scrub leaves clients half of the time of the disks, waits while a member is
    /// rebuilt, and goes on when a labelled volume is started again.
    #[command(override_usage = "mirrorball ctl --control <PATH> scrub start [OPTIONS]")]
    Start {
        /// Make mirrors equal where they differ, by copying the first one to the others. Nothing
        /// tells which of them is right
        #[arg(long)]
        repair: bool,
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
        /// Exit with code 1 if the last scrub found blocks that differ or cannot be read
        #[arg(long)]
        check: bool,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Plain text
    Text,
    /// JSON for programs
    Json,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let control = args.control.as_deref().ok_or_else(|| {
        let text = "missing --control PATH\n  help: give the path that `emulate` or `serve` has as \
                    --control";
        Failure::WrongUse(anyhow!("{text}"))
    })?;
    let format = args.format;
    match &args.action {
        Action::Status { check } => {
            let answer: ServiceStatus = ask(control, &ControlRequest::Status)?;
            print(format, &answer, status)?;
            if *check && answer.health != VolumeHealth::InSync {
                return Ok(Ending::FoundFailure);
            }
        }
        Action::Members { action: None } => {
            let text = |members: &Vec<MemberReport>| members.iter().map(member).collect();
            print(format, &ask(control, &ControlRequest::Members)?, text)?;
        }
        Action::Members { action: Some(MemberAction::Rebuild { devid, rate }) } => {
            let request = ControlRequest::Rebuild { devid: *devid, rate_bytes_per_s: *rate };
            print(format, &ask(control, &request)?, sentence)?;
        }
        Action::Members { action: Some(MemberAction::Fail { devid }) } => {
            print(format, &ask(control, &ControlRequest::Fail { devid: *devid })?, sentence)?;
        }
        Action::Stats { check, reset } => {
            let stats: ServiceStats = ask(control, &ControlRequest::Stats { reset: *reset })?;
            print(format, &stats, |stats| stats.members.iter().map(member_stats).collect())?;
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
        Action::Scrub { action } => return scrub(control, format, action.as_ref()),
        Action::Policy { name: None, .. } => {
            print(format, &ask(control, &ControlRequest::Policy)?, sentence)?;
        }
        Action::Policy { name: Some(name), keep } => {
            let before: String = ask(control, &ControlRequest::Policy)?;
            let request = ControlRequest::SetPolicy { name: name.clone(), keep: *keep };
            let changed = |now: &String| match *now == before {
                true => format!("policy is already {now}\n"),
                false => format!("policy changed from {before} to {now}\n"),
            };
            print(format, &ask(control, &request)?, changed)?;
        }
    }
    Ok(Ending::Done)
}

/// Does something with the scrub, and shows it.
fn scrub(
    control: &Path,
    format: Format,
    command: Option<&ScrubCommand>,
) -> Result<Ending, Failure> {
    let request = |action| ControlRequest::Scrub { action, repair: false, rate_bytes_per_s: None };
    let request = match command {
        Some(ScrubCommand::Start { repair, rate }) => ControlRequest::Scrub {
            action: ScrubAction::Start,
            repair: *repair,
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
    print(format, &report, text)?;
    let is_checked = matches!(command, Some(ScrubCommand::Status { check: true }));
    let is_bad = |report: ScrubReport| report.differing_blocks + report.unreadable_blocks > 0;
    Ok(match report.is_some_and(is_bad) && is_checked {
        true => Ending::FoundFailure,
        false => Ending::Done,
    })
}

fn scrub_text(scrub: &ScrubReport) -> String {
    let state = match scrub.state {
        ReportedScrubState::Running => "running",
        ReportedScrubState::Paused => "paused",
        ReportedScrubState::Finished => "finished",
        ReportedScrubState::Cancelled => "cancelled",
    };
    let (checked, total) = (scrub.checked_bytes, scrub.total_bytes);
    let percent = 100.0 * checked as f64 / total.max(1) as f64;
    let limit = scrub.rate_bytes_per_s;
    let limit = limit.map(|rate| format!(", at most {rate} bytes/s")).unwrap_or_default();
    let mut text = format!("scrub {state}: {checked} of {total} bytes ({percent:.1} %){limit}\n");
    match scrub.differing_blocks {
        0 => text += "  no mirrors differ\n",
        blocks => {
            let repair = match scrub.repair {
                true => "; they are copied from the first mirror to the others",
                false => " and were left as they are",
            };
            text += &format!("  mirrors differ in {blocks} blocks of 4 KiB{repair}\n");
        }
    }
    if scrub.unreadable_blocks > 0 {
        let blocks = scrub.unreadable_blocks;
        text += &format!("  no mirror could read {blocks} blocks of 4 KiB\n");
    }
    text
}

/// Sends a request to the service with this control socket, and returns its answer.
pub(crate) fn ask<T: DeserializeOwned>(
    socket: &Path,
    request: &ControlRequest,
) -> Result<T, Failure> {
    protocol::ask(socket, request).map_err(|error| match error {
        error @ (AskError::Refused(_) | AskError::NotControl { .. } | AskError::TooLong(_)) => {
            Failure::WrongUse(error.into())
        }
        error => Failure::Fault(error.into()),
    })
}

fn print<T: Serialize>(
    format: Format,
    answer: &T,
    text: impl Fn(&T) -> String,
) -> Result<(), Failure> {
    screen::print(&match format {
        Format::Text => screen::broken(&text(answer)),
        Format::Json => {
            let json = serde_json::to_string_pretty(answer);
            json.map_err(|error| Failure::Fault(error.into()))? + "\n"
        }
    })
}

fn sentence(text: &String) -> String {
    format!("{text}\n")
}

fn status(status: &ServiceStatus) -> String {
    let health = match status.health {
        VolumeHealth::InSync => "in sync",
        VolumeHealth::Resyncing => "resyncing",
        VolumeHealth::Degraded => "degraded",
    };
    let mut text = format!("{}: {health}\n", status.name);
    if let (Some(profile), Some(policy)) = (&status.profile, &status.policy) {
        text += &format!("  profile {profile}, policy {policy}\n");
    }
    if status.unsynced_bytes > 0 {
        let size = format_bytes(status.unsynced_bytes);
        let when = match status.read_only {
            true => "synchronised when the volume is served without --read-only",
            false => "being synchronised",
        };
        text += &format!("  mirrors may differ in {size}, which are {when}\n");
    }
    if status.active_bytes > 0 {
        let size = format_bytes(status.active_bytes);
        text += &format!("  a crash now would have {size} synchronised\n");
    }
    if status.read_only {
        text += "  read-only\n";
    }
    for export in &status.exports {
        text += &format!("  export {}: {}\n", export.name, exact_size(export.size_bytes));
    }
    for member in &status.misplaced {
        let (devid, at_path) = (member.devid, &member.at_path);
        text += &format!(
            "  devid {devid}: its file is no longer at its path, where {at_path} is; data written \
             to it are lost when the service ends\n"
        );
        text += &format!("  (`members rebuild {devid}` uses the file at the path)\n");
    }
    if let Some(scrub) = &status.scrub {
        text.extend(scrub_text(scrub).lines().map(|line| format!("  {line}\n")));
    }
    for rebuild in &status.rebuilds {
        let (recovered, total) = (rebuild.recovered_bytes, rebuild.total_bytes);
        let percent = 100.0 * recovered as f64 / total.max(1) as f64;
        let limit = status.rebuild_bytes_per_s;
        let limit = limit.map(|rate| format!(", at most {rate} bytes/s")).unwrap_or_default();
        let devid = rebuild.devid;
        text += &format!("  rebuilding devid {devid}: {recovered} of {total} bytes ");
        text += &format!("({percent:.1} %){limit}\n");
    }
    text + &format!("  {} connections, I/O backend {}\n", status.connections, status.backend)
}

/// A size in the unit that fits, and in bytes.
pub(crate) fn exact_size(bytes: u64) -> String {
    match format_bytes(bytes) {
        shown if shown.ends_with(" bytes") => shown,
        shown => format!("{shown} ({bytes} bytes)"),
    }
}

/// Number of reads and writes whose times were measured.
fn requests(stats: &MemberStatsReport) -> u64 {
    stats.read_wait.count + stats.write_wait.count
}

fn member(member: &MemberReport) -> String {
    let progress = member.recovered_bytes.map(|recovered| {
        format!(" ({:.0} %)", 100.0 * recovered as f64 / member.size_bytes.max(1) as f64)
    });
    let MemberReport { devid, in_flight, reads, read_bytes, writes, written_bytes, errors, .. } =
        member;
    format!(
        "devid {devid}: {}{}, {in_flight} in flight, {reads} reads ({read_bytes} bytes), {writes} \
         writes ({written_bytes} bytes), {errors} errors\n",
        member.state.name(),
        progress.unwrap_or_default(),
    )
}

fn member_stats(stats: &MemberStatsReport) -> String {
    let mut text = member(&stats.member);
    if requests(stats) == 0 {
        text += "  no reads or writes measured yet\n";
    }
    let mut add = |what, times: &Quantiles| {
        if times.count > 0 {
            text += &format!(
                "  {what}: mean {}, p50 {}, p99 {}, p99.9 {}, max {}\n",
                Nanos(times.mean_ns),
                Nanos(times.p50_ns),
                Nanos(times.p99_ns),
                Nanos(times.p99_9_ns),
                Nanos(times.max_ns.unwrap_or(0)),
            );
        }
    };
    add("read time", &stats.read_wait);
    add("write time", &stats.write_wait);
    if let Some(lateness) = &stats.lateness {
        add("lateness", &lateness.times);
        if !lateness.within_bound {
            let (p99, bound) = (Nanos(lateness.times.p99_ns), Nanos(lateness.bound_p99_ns));
            text += &format!("  {}\n", refusal(p99, bound));
        }
    }
    text
}

/// The message that measured times are invalid, and what to do.
pub(crate) fn refusal(p99: Nanos, bound: Nanos) -> String {
    format!(
        "measured times are invalid: lateness p99 {p99} is above the limit of {bound}, so the load \
         of this machine distorts them\n  help: run the server with `chrt -f 10`, or on a machine \
         with less other load"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_io::control::protocol::{Misplaced, RebuildProgress};

    #[test]
    fn status_names_what_needs_attention() {
        let text = status(&ServiceStatus {
            name: "pair".to_owned(),
            policy: Some("pid".to_owned()),
            profile: Some("raid1".to_owned()),
            health: VolumeHealth::Degraded,
            misplaced: vec![Misplaced { devid: 1, at_path: "nothing".to_owned() }],
            rebuilds: vec![RebuildProgress { devid: 2, recovered_bytes: 1, total_bytes: 8 }],
            unsynced_bytes: 4 << 20,
            active_bytes: 8 << 20,
            labelled: true,
            read_only: true,
            scrub: Some(ScrubReport {
                state: ReportedScrubState::Paused,
                repair: false,
                checked_bytes: 2,
                total_bytes: 8,
                differing_blocks: 3,
                unreadable_blocks: 1,
                rate_bytes_per_s: None,
            }),
            rebuild_bytes_per_s: Some(50),
            connections: 1,
            exports: Vec::new(),
            backend: "io_uring".to_owned(),
            uptime_s: 1.0,
        });
        for part in [
            "pair: degraded\n  profile raid1, policy pid\n",
            "mirrors may differ in 4 MiB, which are synchronised when the volume is served \
             without --read-only\n",
            "a crash now would have 8 MiB synchronised\n  read-only\n",
            "devid 1: its file is no longer at its path, where nothing is",
            "  scrub paused: 2 of 8 bytes (25.0 %)\n    mirrors differ in 3 blocks of 4 KiB and \
             were left as they are\n    no mirror could read 1 blocks of 4 KiB\n",
            "rebuilding devid 2: 1 of 8 bytes (12.5 %), at most 50 bytes/s\n",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    }
}
