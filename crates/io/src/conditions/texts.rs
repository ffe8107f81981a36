//! Texts of conditions that have figures.

use super::{ConditionSubject, FailedCounts, Recovery, Situation};
use mirrorball_core::units::{Nanos, counted, format_bytes};

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

pub(super) fn stalled_text(subject: &ConditionSubject, waits: Nanos, in_flight: u32) -> String {
    let waits = duration_text(waits.0 / 1_000_000_000);
    format!("{subject} does not answer: no I/O has ended for {waits}, with {in_flight} in flight")
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
