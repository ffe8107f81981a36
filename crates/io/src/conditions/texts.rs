//! Texts of conditions that have figures, or depend on the state of the volume.

use super::{ConditionSubject, FailedCounts, MemberFault, Recovery, Situation};
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::units::{Nanos, counted, format_bytes};
use std::fmt;

/// How far the rebuild of a member is.
pub(super) fn recovery_text(
    recovery: &Recovery,
    subject: &ConditionSubject,
    situation: Situation,
) -> String {
    let Recovery { recovered_bytes, total_bytes, only_missed, rate } = *recovery;
    let progress = share_text(recovery);
    match situation {
        Situation::ReadOnly => format!(
            "{subject} is in sync in {progress}; it is not rebuilt while the volume is read-only"
        ),
        Situation::NotServed => format!("{subject} is in sync in {progress}"),
        Situation::Emulated | Situation::Served { .. } => {
            let what = if only_missed { ", only what it missed" } else { "" };
            let limit = limit_text(rate, total_bytes.saturating_sub(recovered_bytes));
            format!("{subject} is being rebuilt: {progress}{what}{limit}")
        }
    }
}

fn share_text(recovery: &Recovery) -> String {
    let Recovery { recovered_bytes, total_bytes, .. } = *recovery;
    let percent = 100.0 * recovered_bytes as f64 / total_bytes.max(1) as f64;
    format!("{percent:.1} %, {recovered_bytes} of {total_bytes} bytes")
}

pub(super) fn progress_text(recovery: &Recovery) -> String {
    let left_bytes = recovery.total_bytes.saturating_sub(recovery.recovered_bytes);
    share_text(recovery) + &limit_text(recovery.rate, left_bytes)
}

pub(super) fn failed_text(counts: &FailedCounts) -> String {
    let FailedCounts { reads, writes, last_error } = counts;
    let mut text = format!(
        "{} and {} of clients failed since the start or the last scrub that finished, because too \
         few members could serve them",
        counted(*reads, "read", "reads"),
        counted(*writes, "write", "writes")
    );
    if let Some((member, error, age)) = last_error {
        text += &format!(
            "; last error of {member}, {} ago: {error}",
            duration_text(age.0 / 1_000_000_000)
        );
    }
    text
}

pub(super) fn failed_member_text(
    subject: &ConditionSubject,
    fault: Option<MemberFault>,
    is_kept_out: bool,
) -> String {
    let why = fault.map_or(String::new(), |fault| format!(": {fault}"));
    let requested = MemberFault::Requested;
    let is_said = !is_kept_out || fault == Some(requested);
    let also = if is_said { String::new() } else { format!("; then {requested}") };
    format!("{subject} has failed{why}{also}")
}

/// Advice for a member that has failed. Only labels record that another device replaces it.
pub(super) fn failed_help(
    subject: &ConditionSubject,
    is_kept_out: bool,
    situation: Situation,
) -> Option<String> {
    let devid = subject.devid.unwrap_or(0);
    let rebuild = format!("`ctl members rebuild {devid}` takes it back");
    let Situation::Served { has_spares, has_left_blocks } = situation else {
        let is_shown = match situation {
            Situation::NotServed => is_kept_out,
            _ => situation == Situation::Emulated,
        };
        return is_shown.then_some(rebuild);
    };
    let mut help = String::new();
    if has_spares {
        help += "a spare that is large enough takes its place; without one, ";
    }
    help += &format!(
        "{rebuild}; `ctl members replace {devid} DEVICE` rebuilds it on another device; `ctl \
         members remove {devid}` closes the device, so that it can be taken out"
    );
    if !is_kept_out {
        help += &format!(
            "; the next start takes it back by itself, unless `ctl members fail {devid}` comes \
             first"
        );
    }
    if has_left_blocks && !has_spares {
        let device = subject.device.as_deref().map_or("DEVICE".to_owned(), quoted);
        help += &format!(
            "; the last scrub left blocks that differ: if the wrong data are on this member, \
             `ctl members replace {devid} {device}` copies all of it, and `ctl members rebuild \
             {devid}` only what it missed"
        );
    }
    Some(help)
}

/// Advice for the device of a member that may have data which the others lack.
pub(crate) fn diverged_help(devid: u64) -> String {
    format!(
        "`serve --read-only DEVICE --export ADDRESS` reads what it has; `ctl members replace \
         {devid} DEVICE --occupied` gives that up, and rebuilds it from the others"
    )
}

/// Advice for a member whose device was not found at the start.
pub(super) fn missing_help(devid: u64, situation: Situation) -> Option<String> {
    match situation {
        Situation::ReadOnly => None,
        Situation::NotServed => Some(
            "connect its device, or start without it (`serve --degraded`), and then `ctl members \
             replace`"
                .to_owned(),
        ),
        Situation::Emulated | Situation::Served { .. } => Some(format!(
            "connect its device, and `ctl members rebuild {devid} --device DEVICE` copies what it \
             missed; or `ctl members replace {devid} DEVICE` rebuilds it on another; `ctl members \
             remove {devid}` leaves it out for good"
        )),
    }
}

pub(super) fn unsynced_text(bytes: u64, situation: Situation) -> String {
    let how = match situation {
        Situation::ReadOnly => "are not synchronised while the volume is read-only",
        _ => "are being synchronised",
    };
    format!("mirrors may differ in {}, which {how}", format_bytes(bytes))
}

pub(super) fn unreachable_text(subject: &ConditionSubject, needs_restart: bool) -> String {
    match needs_restart {
        true => format!(
            "{subject} has the only copy of some data, and is not used before a restart: its \
             server may have lost writes"
        ),
        false => format!("{subject} cannot be reached: no connection with its server is open"),
    }
}

pub(super) fn unreachable_help(needs_restart: bool, situation: Situation) -> &'static str {
    match situation {
        _ if needs_restart => {
            "restart the service once that server answers; until then requests fail"
        }
        Situation::ReadOnly => "check the server and the network",
        _ => {
            "check the server and the network; the member is used again when its server answers, \
             unless a write fails it before"
        }
    }
}

pub(super) fn stalled_text(device: impl fmt::Display, waits: Nanos, in_flight: u32) -> String {
    let waits = duration_text(waits.0 / 1_000_000_000);
    format!("{device} does not answer: no I/O has ended for {waits}, with {in_flight} in flight")
}

/// Number of blocks that had wrong data.
pub fn mismatch_text(count: u64) -> String {
    let (one, several) = (
        "block of 4 KiB did not match its checksum",
        "blocks of 4 KiB did not match their checksums",
    );
    counted(count, one, several)
}

/// With the devid of the member that was being copied to the spare.
pub(super) fn missing_spare_text(subject: &ConditionSubject, copied: Option<u64>) -> String {
    let copied = copied.map(|devid| format!(", to which devid {devid} was being copied"));
    format!("{subject} is missing{}", copied.unwrap_or_default())
}

/// A time in the unit that fits.
pub fn duration_text(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A rate limit, and the time that the bytes which are left take under it.
pub fn limit_text(bytes_per_s: Option<u64>, left_bytes: u64) -> String {
    let Some(rate) = bytes_per_s else { return String::new() };
    let (least_s, rate_text) = (left_bytes / rate.max(1), format_bytes(rate));
    if least_s < 60 {
        return format!(", at most {rate_text}/s");
    }
    let time = duration_text(least_s);
    format!(", at most {rate_text}/s: at least {time} left")
}
