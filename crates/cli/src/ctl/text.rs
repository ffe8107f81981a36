//! Text output of `ctl`.

use super::scrub_text::scrub_text;
use crate::redundancy::{Redundancy, redundancy_text};
use mirrorball_core::units::{Nanos, counted, format_bytes};
use mirrorball_io::conditions::duration_text;
use mirrorball_io::control::protocol::{
    BadBlockRange, Condition, MemberReport, MemberStatsReport, Quantiles, ServiceStatus,
    SpareReport, VolumeHealth,
};

pub(super) fn sentence(text: &String) -> String {
    format!("{text}\n")
}

pub(super) fn status(status: &ServiceStatus) -> String {
    let health = match status.health {
        VolumeHealth::InSync => "in sync",
        VolumeHealth::Resyncing if status.read_only => "mirrors may differ",
        VolumeHealth::Resyncing => "resyncing",
        VolumeHealth::Degraded => "degraded",
    };
    let mut text = format!("{}: {health}\n", status.name);
    text.extend(status.conditions.iter().map(condition_text));
    text += &redundancy(status);
    for it in &status.spares {
        text += &format!("  {}", spare(it));
    }
    if let (Some(profile), Some(policy)) = (&status.profile, &status.policy) {
        text += &format!("  profile {profile}, policy {policy}\n");
    }
    if status.checksums {
        text += "  checksums: reads are verified\n";
    }
    if status.active_bytes > 0 {
        let size = format_bytes(status.active_bytes);
        text += &format!("  after a crash now, {size} would be synchronised\n");
    }
    if status.read_only {
        text += "  read-only\n";
    }
    for export in &status.exports {
        text += &format!("  export {}: {}\n", export.name, exact_size(export.size_bytes));
    }
    if let Some(scrub) = &status.scrub {
        text.extend(scrub_text(scrub).lines().map(|line| format!("  {line}\n")));
    }
    let connections = counted(status.connections, "connection", "connections");
    text + &format!("  {connections}, I/O backend {}\n", status.backend)
}

pub(crate) fn condition_text(condition: &Condition) -> String {
    let lines = format!("{}: {condition}", condition.severity.name());
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// Copies that the volume keeps, and how many members may fail; of a degraded one, how many more.
fn redundancy(status: &ServiceStatus) -> String {
    let (Some(copies), Some(parities)) = (status.copies, status.parities) else {
        return String::new();
    };
    let Some(may_fail) = status.may_fail else { return String::new() };
    let text = match (status.health, may_fail) {
        (VolumeHealth::Degraded, 0) => "no other member may fail now".to_owned(),
        (VolumeHealth::Degraded, 1) => "one more member may fail".to_owned(),
        (VolumeHealth::Degraded, count) => format!("{count} more members may fail"),
        _ => redundancy_text(Redundancy { copies, parities }, may_fail),
    };
    format!("  {text}\n")
}

/// A size in the unit that fits, and in bytes.
fn exact_size(bytes: u64) -> String {
    match format_bytes(bytes) {
        shown if shown.ends_with(" bytes") => shown,
        shown => format!("{shown} ({bytes} bytes)"),
    }
}

/// Number of reads and writes whose times were measured.
pub(super) fn requests(stats: &MemberStatsReport) -> u64 {
    stats.read_wait.count + stats.write_wait.count
}

pub(super) fn member(member: &MemberReport) -> String {
    let progress = member.recovered_bytes.map(|recovered| {
        format!(" ({:.0} %)", 100.0 * recovered as f64 / member.size_bytes.max(1) as f64)
    });
    let MemberReport { devid, in_flight, reads, read_bytes, writes, written_bytes, errors, .. } =
        member;
    let device = member.device.as_ref().map(|device| format!(", {device}")).unwrap_or_default();
    let last_error = member.last_error.as_ref().map(|last| {
        let age = duration_text(last.age_ns / 1_000_000_000);
        format!(", last error {age} ago: {}", last.error)
    });
    let last_error = last_error.unwrap_or_default();
    let mismatched = member.mismatched_blocks.map(|count| format!(", {count} bad checksums"));
    let text = format!(
        "devid {devid}: {}{}{device}, {in_flight} in flight, {reads} reads ({read_bytes} bytes), \
         {writes} writes ({written_bytes} bytes), {errors} errors{}{last_error}\n",
        member.state.name(),
        progress.unwrap_or_default(),
        mismatched.unwrap_or_default(),
    );
    let ranges = member.bad_blocks.iter().map(|BadBlockRange { offset, length }| {
        format!("  bytes {offset} to {} of the volume: bad blocks\n", offset + length - 1)
    });
    text + &ranges.collect::<String>()
}

pub(super) fn spare(spare: &SpareReport) -> String {
    let (size, uuid) = (format_bytes(spare.size_bytes), &spare.uuid);
    let name = spare.device.as_deref().map_or(format!("UUID {uuid}"), |device| device.to_owned());
    let copied = spare.replaces.map(|devid| format!(", devid {devid} is to be copied to it"));
    format!("spare {name}: {}, {size}{}\n", spare.state.name(), copied.unwrap_or_default())
}

pub(super) fn member_stats(stats: &MemberStatsReport) -> String {
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
    use mirrorball_io::control::protocol::{ReportedSpareState, Severity};

    fn status_of(read_only: bool) -> ServiceStatus {
        let failed = Condition {
            name: "member-failed".to_owned(),
            severity: Severity::Error,
            devid: Some(3),
            text: "devid 3 (/dev/sdc) has failed: flush: no".to_owned(),
            help: Some("`ctl members rebuild 3` takes it back".to_owned()),
        };
        let rebuilding = Condition {
            name: "member-rebuilding".to_owned(),
            severity: Severity::Warning,
            devid: Some(2),
            text: "devid 2 is being rebuilt: 12.5 %, 1 of 8 bytes".to_owned(),
            help: None,
        };
        ServiceStatus {
            name: "pair".to_owned(),
            policy: Some("pid".to_owned()),
            profile: Some("raid1".to_owned()),
            health: VolumeHealth::Degraded,
            copies: Some(2),
            parities: Some(0),
            may_fail: Some(0),
            members: Vec::new(),
            conditions: vec![failed, rebuilding],
            spares: vec![SpareReport {
                uuid: "3-4".to_owned(),
                device: None,
                size_bytes: 8 << 30,
                state: ReportedSpareState::Missing,
                replaces: Some(2),
            }],
            rebuilds: Vec::new(),
            unsynced_bytes: 4 << 20,
            active_bytes: 8 << 20,
            checksums: true,
            read_only,
            scrub: None,
            connections: 1,
            exports: Vec::new(),
            backend: "io_uring".to_owned(),
            uptime_s: 1.0,
        }
    }

    #[test]
    fn status_shows_conditions_first() {
        assert_eq!(
            status(&status_of(false)),
            "pair: degraded
  error: devid 3 (/dev/sdc) has failed: flush: no
    help: `ctl members rebuild 3` takes it back
  warning: devid 2 is being rebuilt: 12.5 %, 1 of 8 bytes
  no other member may fail now
  spare UUID 3-4: missing, 8 GiB, devid 2 is to be copied to it
  profile raid1, policy pid
  checksums: reads are verified
  after a crash now, 8 MiB would be synchronised
  1 connection, I/O backend io_uring
"
        );
        let resyncing = ServiceStatus { health: VolumeHealth::Resyncing, ..status_of(true) };
        assert!(status(&resyncing).starts_with("pair: mirrors may differ\n"));
    }
}
