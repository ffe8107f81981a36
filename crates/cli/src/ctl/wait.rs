//! `ctl --wait`: waits for rebuilds, copies of members, resyncs and a scrub.

use super::requests::absolute;
use super::{CtlAction, MemberAction, ask, condition_text, with_control};
use crate::ending::Failure;
use crate::{devices, screen};
use anyhow::anyhow;
use mirrorball_core::units::format_bytes;
use mirrorball_io::conditions::duration_text;
use mirrorball_io::control::protocol::{
    Condition, ControlRequest, MemberSummary, ReportedScrubState, ServiceStatus, Severity,
};
use mirrorball_io::device_address::DeviceAddress;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the service is asked.
const POLL: Duration = Duration::from_millis(200);
const PRINT: Duration = Duration::from_secs(5);

/// Work of a service and its bytes that are left.
type Work = Vec<(String, u64)>;

/// A rebuild that a command began, of a member that is to have the device if one was named.
pub(super) struct Begun {
    devid: u64,
    device: Option<DeviceAddress>,
}

impl Begun {
    /// The rebuild that a command began, if it does that.
    pub(super) fn by(action: &CtlAction, control: &Path) -> Result<Option<Begun>, Failure> {
        use MemberAction::{Add, Rebuild, Replace};
        let CtlAction::Members { action: Some(action) } = action else { return Ok(None) };
        let (devid, device) = match action {
            Rebuild { devid, .. } => return Ok(Some(Begun { devid: *devid, device: None })),
            Replace { devid, device, .. } => (Some(*devid), device),
            Add { device, spare: false, .. } => (None, device),
            _ => return Ok(None),
        };
        let device = devices::parse(&[absolute(device)?])?.remove(0);
        let devid = match devid {
            Some(devid) => devid,
            None => {
                let status: ServiceStatus = ask(control, &ControlRequest::Status)?;
                let member = status.members.iter().find(|it| is_on(it, &device));
                let fault = || Failure::Fault(anyhow!("`{device}` is not a member any more"));
                member.ok_or_else(fault)?.devid
            }
        };
        Ok(Some(Begun { devid, device: Some(device) }))
    }

    /// Returns true if a condition is of the member or the volume.
    pub(super) fn concerns(&self, condition: &Condition) -> bool {
        [None, Some(self.devid)].contains(&condition.devid)
    }

    /// Fails if the member does not have its device once nothing is copied to that any more.
    fn check_device(&self, status: &ServiceStatus, control: &Path) -> Result<(), Failure> {
        let Some(device) = &self.device else { return Ok(()) };
        let devid = self.devid;
        if status.members.iter().any(|it| it.devid == devid && is_on(it, device)) {
            return Ok(());
        }
        let text = format!(
            "`{device}` did not take the place of devid {devid}: the copy was ended, or another \
             device named\n  help: `ctl members` shows the device of the member"
        );
        Err(Failure::Fault(anyhow!("{}", with_control(&text, control))))
    }
}

fn is_on(member: &MemberSummary, device: &DeviceAddress) -> bool {
    let own = member.device.as_deref().and_then(|own| DeviceAddress::parse(own).ok());
    own.is_some_and(|own| own.is_same(device))
}

/// Waits for a rebuild that began or, without one, until nothing is rebuilt, synchronised or
/// scrubbed, and prints every 5 s what is left. The wait is over, too, where a step of such a
/// rebuild failed. Returns the errors that there are then. Fails if the member has another device
/// than the one named, and no error.
pub(super) fn wait(control: &Path, begun: Option<&Begun>) -> Result<Vec<Condition>, Failure> {
    let rebuilt = begun.map(|begun| begun.devid);
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
            let is_error = |it: &&Condition| it.severity == Severity::Error;
            let errors: Vec<Condition> =
                status.conditions.iter().filter(is_error).cloned().collect();
            if let Some(begun) = begun.filter(|it| !errors.iter().any(|error| it.concerns(error))) {
                begun.check_device(&status, control)?;
            }
            return Ok(errors);
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
