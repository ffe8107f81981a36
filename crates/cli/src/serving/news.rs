//! Messages of a service while it runs, which an operator looks for in its log after the fact.

use crate::screen;
use mirrorball_core::units::counted;
use mirrorball_io::control::EventObserver;
use mirrorball_io::control::protocol::StateChange;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Lines that wait to be printed; more are dropped.
const LINES_MAX: usize = 256;

/// Prints the events that have a line. In a thread of its own, because a terminal or a pipe that
/// takes nothing must not stop the service.
pub(super) fn news_printer() -> EventObserver {
    let (sender, lines) = sync_channel::<String>(LINES_MAX);
    let thread = thread::Builder::new().name("news".to_owned());
    // Without a thread the lines are dropped, and the volume is served.
    let _ = thread.spawn(move || lines.iter().for_each(screen::say));
    Box::new(move |change| {
        if let Some(line) = line(change) {
            let _ = sender.try_send(line);
        }
    })
}

/// The line for an event; `None` if it is one that the user asked for, or that the start has said.
fn line(change: &StateChange) -> Option<String> {
    Some(match change {
        StateChange::MemberFailed { devid, reason: Some(reason) } => {
            format!("devid {devid} has failed: {reason}")
        }
        StateChange::MemberUnreachable { devid } => {
            format!("devid {devid} cannot be reached: no connection with its server is open")
        }
        StateChange::MemberReachable { devid } => format!("devid {devid} can be reached again"),
        StateChange::RebuildStalled { devid, reason } => {
            format!("the rebuild of devid {devid} does not go on: {reason}")
        }
        StateChange::RequestsFailed { reads, writes, reason } => format!(
            "{} and {} of clients failed since the start, because too few members could serve \
             them{}",
            counted(*reads, "read", "reads"),
            counted(*writes, "write", "writes"),
            reason.as_ref().map(|it| format!("; last error of {it}")).unwrap_or_default(),
        ),
        StateChange::MemberReplaced { devid, device } => {
            format!("devid {devid} is on {device} now")
        }
        StateChange::RebuildFinished { devid } => format!("devid {devid} is in sync again"),
        StateChange::ChecksumMismatch { devid, blocks } => {
            let blocks = counted(*blocks, "block", "blocks");
            format!("devid {devid}: {blocks} did not match their checksums since the start")
        }
        StateChange::ChecksumsLost { pages } => {
            let pages = counted(*pages, "page", "pages");
            format!("{pages} of checksums could not be read since the start")
        }
        StateChange::SpareFailed { device, error } => {
            format!("the spare {device} cannot take the place of a member: {error}")
        }
        StateChange::PolicyFault { fault } => {
            format!("the fallback decides in place of the program: {fault}")
        }
        _ => return None,
    })
}
