//! `ctl --wait`: waits for rebuilds, copies of members, resyncs and a scrub.

use super::{ask, condition_text, with_control};
use crate::ending::Failure;
use crate::screen;
use mirrorball_core::units::format_bytes;
use mirrorball_io::conditions::duration_text;
use mirrorball_io::control::protocol::{
    Condition, ControlRequest, ReportedScrubState, ServiceStatus, Severity,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the service is asked.
const POLL: Duration = Duration::from_millis(200);
const PRINT: Duration = Duration::from_secs(5);

/// Work of a service and its bytes that are left.
type Work = Vec<(String, u64)>;

/// Waits until a member is rebuilt or, without one, nothing is rebuilt, synchronised or scrubbed,
/// and prints every 5 s what is left. The wait is over, too, where a step of such a rebuild failed.
/// Returns the errors that there are then.
pub(super) fn wait(control: &Path, rebuilt: Option<u64>) -> Result<Vec<Condition>, Failure> {
    let mut printed: Option<(Instant, Work)> = None;
    loop {
        std::thread::sleep(POLL);
        let status: ServiceStatus = ask(control, &ControlRequest::Status)?;
        let left = work(&status, rebuilt);
        let is_stalled = status
            .conditions
            .iter()
            .any(|it| it.name == "rebuild-stalled" && (rebuilt.is_none() || it.devid == rebuilt));
        if left.is_empty() || is_stalled {
            let conditions = status.conditions.into_iter();
            return Ok(conditions.filter(|it| it.severity == Severity::Error).collect());
        }
        let due = printed.as_ref().is_none_or(|(at, _)| at.elapsed() >= PRINT);
        if due {
            let before = printed.take();
            for (name, bytes) in &left {
                let pace = before.as_ref().and_then(|(at, work)| {
                    let (_, earlier) = work.iter().find(|(other, _)| other == name)?;
                    Some((earlier.saturating_sub(*bytes), at.elapsed()))
                });
                screen::say(line(name, *bytes, pace));
            }
            printed = Some((Instant::now(), left));
        }
    }
}

/// Work of the service, or the rebuild of a member, with the bytes that are left.
fn work(status: &ServiceStatus, rebuilt: Option<u64>) -> Work {
    let has_resync = status.unsynced_bytes > 0 && !status.read_only;
    let after = if has_resync { ", after the resync" } else { "" };
    let rebuilds = status.rebuilds.iter();
    let rebuilds = rebuilds.filter(|it| rebuilt.is_none_or(|devid| devid == it.devid)).map(|it| {
        let left = it.total_bytes.saturating_sub(it.recovered_bytes);
        (format!("rebuild of devid {}{after}", it.devid), left)
    });
    let resync = has_resync.then(|| ("resync".to_owned(), status.unsynced_bytes));
    let scrub = status.scrub.iter().filter(|it| it.state == ReportedScrubState::Running);
    let scrub =
        scrub.map(|it| ("scrub".to_owned(), it.total_bytes.saturating_sub(it.checked_bytes)));
    let others = resync.into_iter().chain(scrub).filter(|_| rebuilt.is_none());
    rebuilds.chain(others).collect()
}

/// A line of progress, with the bytes that were done since the last one and in which time.
fn line(name: &str, left: u64, pace: Option<(u64, Duration)>) -> String {
    let text = format!("{name}: {} left", format_bytes(left));
    match pace {
        None => text,
        Some((0, _)) => text + ", no progress",
        Some((done, time)) => {
            let rate = (done as f64 / time.as_secs_f64()).max(1.0);
            let left_s = (left as f64 / rate).ceil() as u64;
            format!("{text}, {}/s, {} to go", format_bytes(rate as u64), duration_text(left_s))
        }
    }
}

/// Prints the errors that there are at the end, or that there are none.
pub(super) fn print_end(errors: &[Condition], control: &Path) {
    for condition in errors {
        screen::say(with_control(condition_text(condition).trim(), control));
    }
    if errors.is_empty() {
        screen::say("done");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_and_the_time_left() {
        let pace = |done| Some((done, Duration::from_secs(5)));
        assert_eq!(line("resync", 4 << 20, None), "resync: 4 MiB left");
        assert_eq!(line("scrub", 4 << 20, pace(0)), "scrub: 4 MiB left, no progress");
        assert_eq!(
            line("rebuild of devid 2", 60 << 20, pace(10 << 20)),
            "rebuild of devid 2: 60 MiB left, 2 MiB/s, 30 s to go"
        );
    }
}
