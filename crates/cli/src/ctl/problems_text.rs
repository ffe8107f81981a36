//! Problems of a volume and its members, with what to do about each, in words.

use super::scrub_text::limit_text;
use crate::compare::quoted;
use mirrorball_core::units::counted;
use mirrorball_io::control::protocol::{
    MemberError, MemberSummary, RebuildProgress, ScrubReport, ServiceStatus,
};

/// Members that failed, or that cannot be reached.
pub(super) fn member_problems(status: &ServiceStatus) -> String {
    let failed = status.failed.iter().map(|&devid| failed_text(devid, status));
    let unreachable = status.unreachable.iter();
    let unreachable = unreachable.map(|&devid| unreachable_text(devid, status));
    failed.chain(unreachable).collect()
}

/// A member in a sentence: its devid, and its device if it has one.
fn member_name(devid: u64, status: &ServiceStatus) -> String {
    match device_of(devid, status) {
        Some(device) => format!("devid {devid} ({device})"),
        None => format!("devid {devid}"),
    }
}

/// The device of a member.
fn device_of(devid: u64, status: &ServiceStatus) -> Option<&str> {
    status.members.iter().find(|member| member.devid == devid)?.device.as_deref()
}

/// The last error of a member.
pub(super) fn last_error_text(MemberError { error, age_ns }: &MemberError) -> String {
    let seconds = age_ns / 1_000_000_000;
    let age = match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    };
    format!("last error {age} ago: {error}")
}

/// The last errors of the members that are used, which may be why requests failed.
fn last_errors(status: &ServiceStatus) -> String {
    let explains = |member: &&MemberSummary| {
        let MemberSummary { devid, .. } = member;
        !status.failed.contains(devid)
    };
    let text = |member: &MemberSummary| {
        let error = last_error_text(member.last_error.as_ref()?);
        Some(format!("  {}: {error}\n", member_name(member.devid, status)))
    };
    status.members.iter().filter(explains).filter_map(text).collect()
}

/// Requests of clients that failed, and what they found wrong.
pub(super) fn request_problems(status: &ServiceStatus) -> String {
    let mut text = String::new();
    let (reads, writes) = (status.failed_reads, status.failed_writes);
    if reads + writes > 0 {
        let why = match status.mismatched_blocks {
            0 => "too few members could serve them",
            _ => "no mirror had the right data, or too few members could serve them",
        };
        text += &format!(
            "  {} and {} of clients failed: {why} (counted until a scrub has finished, or a \
             restart)\n",
            counted(reads, "read", "reads"),
            counted(writes, "write", "writes"),
        );
        text += &last_errors(status);
    }
    if status.mismatched_blocks > 0 {
        text += &format!(
            "  {} did not match their checksums (`ctl members` shows on which members; those that \
             another mirror has are repaired, and `ctl scrub start` checks all; what no mirror has \
             right can be read again once it is written, for example from a backup)\n",
            counted(status.mismatched_blocks, "block of 4 KiB", "blocks of 4 KiB")
        );
    }
    text
}

/// Which reads are verified.
pub(super) fn checksums_text(status: &ServiceStatus) -> String {
    match status.lost_checksum_pages {
        _ if !status.checksums => String::new(),
        0 => "  checksums: every read is verified\n".to_owned(),
        pages => format!(
            "  checksums: reads are verified, but for {} of 512 blocks whose checksums are lost \
             (`ctl scrub start` gives new ones to blocks whose mirrors are equal)\n",
            counted(pages, "page", "pages")
        ),
    }
}

/// How far the rebuild of a member is, and whether it goes on.
pub(super) fn rebuild_text(rebuild: &RebuildProgress, status: &ServiceStatus) -> String {
    let RebuildProgress { devid, recovered_bytes, total_bytes, only_missed, stalled } = rebuild;
    let name = member_name(*devid, status);
    let percent = 100.0 * *recovered_bytes as f64 / (*total_bytes).max(1) as f64;
    let progress = format!("{recovered_bytes} of {total_bytes} bytes ({percent:.1} %)");
    let what = if *only_missed { ", only what it missed" } else { "" };
    match stalled {
        _ if status.read_only => format!(
            "  {name} is in sync in {progress}, and is not rebuilt while the volume is \
             read-only\n"
        ),
        Some(reason) => format!(
            "  the rebuild of {name} does not go on: {progress}{what}: {reason} (it is \
             tried again every 10 s)\n"
        ),
        None => {
            let left_bytes = total_bytes.saturating_sub(*recovered_bytes);
            let limit = limit_text(status.rebuild_bytes_per_s, left_bytes);
            format!("  rebuilding {name}: {progress}{what}{limit}\n")
        }
    }
}

/// Consequence for a member whose server does not answer.
fn unreachable_text(devid: u64, status: &ServiceStatus) -> String {
    let name = member_name(devid, status);
    let help = match status.read_only {
        true => "its server is asked again from time to time",
        false => {
            "it is tried again, and used as before if no write was missed; the first write fails it"
        }
    };
    format!("  {name}: no connection with its server is open ({help})\n")
}

/// Advice for a member that has failed or is missing.
fn failed_text(devid: u64, status: &ServiceStatus) -> String {
    if status.removed.contains(&devid) {
        return format!(
            "  devid {devid} was removed (`ctl members replace {devid} DEVICE` rebuilds it on \
             another device)\n"
        );
    }
    if status.missing.contains(&devid) && status.read_only {
        return format!("  devid {devid} is missing\n");
    }
    if status.missing.contains(&devid) {
        return format!(
            "  devid {devid} is missing (`ctl members replace {devid} DEVICE` rebuilds it on a \
             device; its own device is found at the next start)\n"
        );
    }
    let name = member_name(devid, status);
    let other = match status.labelled {
        true => format!(
            ", `ctl members replace {devid} DEVICE` uses another device, `ctl members remove \
             {devid}` lets you take out the old one"
        ),
        false => String::new(),
    };
    let failure = status.failures.iter().find(|it| it.devid == devid);
    let reason = failure.map(|it| format!(": {}", it.reason)).unwrap_or_default();
    if status.read_only {
        return format!("  {name} has failed{reason}\n");
    }
    let doubt = scrub_doubt(devid, status);
    format!(
        "  {name} has failed{reason} (`ctl members rebuild {devid}` takes it back{other}){doubt}\n"
    )
}

/// Damage that a rebuild of a failed member does not repair.
fn scrub_doubt(devid: u64, status: &ServiceStatus) -> String {
    let is_in_doubt = status.scrub.as_ref().is_some_and(ScrubReport::has_left_blocks);
    if !is_in_doubt || !status.labelled {
        return String::new();
    }
    let device = device_of(devid, status).map_or("DEVICE".to_owned(), quoted);
    format!(
        "\n  (a scrub left blocks that do not match: if their wrong data are on devid {devid}, \
         `ctl members replace {devid} {device}` copies all of it, and `ctl members rebuild \
         {devid}` only what it missed)"
    )
}
