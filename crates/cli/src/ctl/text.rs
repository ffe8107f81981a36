//! Text output of `ctl`.

use super::problems_text::{
    checksums_text, last_error_text, member_problems, rebuild_text, request_problems,
};
use super::scrub_text::scrub_text;
use crate::compare::quoted;
use crate::redundancy::{Redundancy, redundancy_text};
use mirrorball_core::units::{Nanos, counted, format_bytes};
use mirrorball_io::control::protocol::{
    MemberReport, MemberStatsReport, Quantiles, ReportedSpareState, ServiceStatus, SpareReport,
    VolumeHealth,
};

pub(super) fn sentence(text: &String) -> String {
    format!("{text}\n")
}

pub(super) fn status(status: &ServiceStatus) -> String {
    let health = match status.health {
        VolumeHealth::InSync => "in sync",
        VolumeHealth::Resyncing => "resyncing",
        VolumeHealth::Degraded => "degraded",
    };
    let health = match status.health {
        VolumeHealth::Resyncing if status.read_only => "mirrors may differ",
        _ => health,
    };
    let mut text = format!("{}: {health}\n", status.name);
    text += &member_problems(status);
    text += &redundancy(status);
    for it in &status.spares {
        text += &format!("  {}", spare(it));
    }
    if let (Some(profile), Some(policy)) = (&status.profile, &status.policy) {
        text += &format!("  profile {profile}, policy {policy}\n");
    }
    text += &checksums_text(status);
    if let Some(fault) = &status.policy_fault {
        text += &format!("  the fallback decides in place of the program: {fault}\n");
    }
    if status.unsynced_bytes > 0 {
        let size = format_bytes(status.unsynced_bytes);
        let when = match status.read_only {
            true => "synchronised when the volume is served without --read-only",
            false => "being synchronised",
        };
        text += &format!("  mirrors may differ in {size}, which are {when}\n");
    }
    text += &request_problems(status);
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
    text.extend(status.rebuilds.iter().map(|it| rebuild_text(it, status)));
    let connections = counted(status.connections, "connection", "connections");
    text + &format!("  {connections}, I/O backend {}\n", status.backend)
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
    let last_error = member.last_error.as_ref();
    let last_error = last_error.map(|last| format!(", {}", last_error_text(last)));
    let last_error = last_error.unwrap_or_default();
    let mismatched = member.mismatched_blocks.map(|count| format!(", {count} bad checksums"));
    format!(
        "devid {devid}: {}{}{device}, {in_flight} in flight, {reads} reads ({read_bytes} bytes), \
         {writes} writes ({written_bytes} bytes), {errors} errors{}{last_error}\n",
        member.state.name(),
        progress.unwrap_or_default(),
        mismatched.unwrap_or_default(),
    )
}

/// A spare, and what to do about one that cannot be used.
pub(super) fn spare(spare: &SpareReport) -> String {
    let (size, uuid) = (format_bytes(spare.size_bytes), &spare.uuid);
    let name = spare.device.as_deref().map_or(format!("UUID {uuid}"), |device| device.to_owned());
    let remove = format!("`ctl members remove --spare {}`", quoted(&spare.name()));
    match (spare.state, &spare.error) {
        (ReportedSpareState::Ready, _) => format!("spare {name}: ready, {size}\n"),
        (ReportedSpareState::Missing, _) => {
            format!("spare {name}: missing, {size} ({remove} gives it up)\n")
        }
        (ReportedSpareState::Failed, error) => {
            let error = error.as_deref().unwrap_or_default();
            format!("spare {name}: failed, {size}: {error} ({remove} gives it up)\n")
        }
    }
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
    use crate::ctl::scrub_text::tests::paused_scrub;

    use mirrorball_io::control::protocol::{
        MemberError, MemberFailure, MemberSummary, RebuildProgress, ReportedState,
    };

    #[test]
    fn a_spare_is_shown_with_what_to_do_about_it() {
        let report = |device: Option<&str>, state, error: Option<&str>| SpareReport {
            uuid: "3-4".to_owned(),
            device: device.map(str::to_owned),
            size_bytes: 8 << 30,
            state,
            error: error.map(str::to_owned),
        };
        let ready = report(Some("/dev/sdd"), ReportedSpareState::Ready, None);
        assert_eq!(spare(&ready), "spare /dev/sdd: ready, 8 GiB\n");
        assert_eq!(
            spare(&report(None, ReportedSpareState::Missing, None)),
            "spare UUID 3-4: missing, 8 GiB (`ctl members remove --spare 3-4` gives it up)\n"
        );
        assert_eq!(
            spare(&report(Some("a b"), ReportedSpareState::Failed, Some("cannot be read"))),
            "spare a b: failed, 8 GiB: cannot be read (`ctl members remove --spare 'a b'` gives it \
             up)\n"
        );
    }

    fn failed_flush(devid: u64) -> Vec<MemberFailure> {
        vec![MemberFailure { devid, reason: "flush: no".to_owned() }]
    }

    fn placed(devid: u64) -> MemberSummary {
        let device = (devid != 4).then(|| format!("/dev/sd{devid}"));
        let error = "write of 4096 bytes at byte 8192: no space".to_owned();
        let last_error = Some(MemberError { error, age_ns: 150_000_000_000 });
        MemberSummary { devid, state: ReportedState::InSync, device, last_error }
    }

    fn troubled_status() -> ServiceStatus {
        ServiceStatus {
            name: "pair".to_owned(),
            policy: Some("pid".to_owned()),
            policy_fault: None,
            profile: Some("raid1".to_owned()),
            health: VolumeHealth::Degraded,
            copies: Some(2),
            parities: Some(0),
            may_fail: Some(0),
            members: (1..=6).map(placed).collect(),
            failed: vec![3, 4],
            failures: failed_flush(3),
            missing: vec![4],
            removed: Vec::new(),
            unreachable: vec![6],
            spares: Vec::new(),
            failed_reads: 7,
            failed_writes: 2,
            mismatched_blocks: 9,
            lost_checksum_pages: 0,
            rebuilds: vec![RebuildProgress {
                devid: 2,
                recovered_bytes: 1,
                total_bytes: 8,
                only_missed: true,
                stalled: Some("too few".to_owned()),
            }],
            unsynced_bytes: 4 << 20,
            active_bytes: 8 << 20,
            labelled: true,
            checksums: true,
            read_only: false,
            scrub: Some(paused_scrub()),
            rebuild_bytes_per_s: Some(50),
            connections: 1,
            exports: Vec::new(),
            backend: "io_uring".to_owned(),
            uptime_s: 1.0,
        }
    }

    #[test]
    fn status_names_what_needs_attention() {
        let text = status(&troubled_status());
        for part in [
            "  no other member may fail now\n  profile raid1, policy pid\n",
            "  checksums: every read is verified\n",
            "mirrors may differ in 4 MiB, which are being synchronised\n",
            "after a crash now, 8 MiB would be synchronised\n",
            "pair: degraded\n",
            "devid 3 (/dev/sd3) has failed: flush: no (`ctl members rebuild 3` takes it back, ",
            "devid 4 is missing (`ctl members replace 4 DEVICE` rebuilds it on a device; its own",
            "  scrub paused: 2 of 8 bytes (25.0 %)\n    it waits until members are rebuilt and \
             synchronised\n    mirrors differed in 3 blocks of 4 KiB\n",
            "    1 block of 4 KiB repaired\n    2 blocks of 4 KiB left as they were\n",
            "    devid 2 differed from most mirrors in 1 block of 4 KiB\n",
            "    4 MiB were not compared: fewer than two mirrors were in sync\n",
            "    no mirror could read 1 block of 4 KiB\n",
            "    an earlier scrub left 2 blocks of 4 KiB as they were\n",
            "  the rebuild of devid 2 (/dev/sd2) does not go on: 1 of 8 bytes (12.5 %), only what \
             it missed: too few (it is tried again every 10 s)\n",
            "devid 6 (/dev/sd6): no connection with its server is open (it is tried again",
            "  7 reads and 2 writes of clients failed: no mirror had the right data, or too few",
            "  devid 1 (/dev/sd1): last error 2 min ago: write of 4096 bytes at byte 8192: no",
            "  9 blocks of 4 KiB did not match their checksums (",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
    }

    /// Of a read-only volume nothing is rebuilt or synchronised, and no member takes part again.
    #[test]
    fn status_of_a_read_only_volume_names_no_command_that_is_refused() {
        let text = status(&ServiceStatus { read_only: true, ..troubled_status() });
        for part in [
            "mirrors may differ in 4 MiB, which are synchronised when the volume is served \
             without --read-only\n",
            "  devid 4 is missing\n",
            "  devid 3 (/dev/sd3) has failed: flush: no\n",
            "  devid 2 (/dev/sd2) is in sync in 1 of 8 bytes (12.5 %), and is not rebuilt while \
             the volume is read-only\n",
            "  read-only\n",
        ] {
            assert!(text.contains(part), "no `{part}` in {text}");
        }
        for command in ["`ctl members re", "rebuilding devid", "tried again"] {
            assert!(!text.contains(command), "`{command}` in {text}");
        }
    }

    #[test]
    fn a_rebuild_that_goes_on_is_shown_with_its_limit() {
        let mut running = troubled_status();
        running.rebuilds[0].stalled = None;
        let expected = "  rebuilding devid 2 (/dev/sd2): 1 of 8 bytes (12.5 %), only what it \
                        missed, at most 50 bytes/s\n";
        assert!(status(&running).contains(expected), "{}", status(&running));
    }

    #[test]
    fn status_says_how_a_member_is_taken_back() {
        let status_of = |pages| ServiceStatus { lost_checksum_pages: pages, ..troubled_status() };
        let text = status(&status_of(0));
        let doubt =
            "devid 3, `ctl members replace 3 /dev/sd3` copies all of it, and `ctl members reb";
        assert!(text.contains(doubt), "{text}");
        let back =
            "devid 3 (/dev/sd3) has failed: flush: no (`ctl members rebuild 3` takes it back, ";
        assert!(text.contains(back) && text.contains("every read is verified"), "{text}");
        let text = status(&status_of(2));
        assert!(text.contains("  checksums: reads are verified, but for 2 pages of 512"), "{text}");
    }
}
