//! What a service prints while it runs: what an operator looks for in its log after the fact.

use crate::screen;
use mirrorball_io::control::protocol::StateChange;

/// Prints the line for an event, if it has one.
pub(super) fn print_news(change: &StateChange) {
    if let Some(line) = line(change) {
        screen::say(line);
    }
}

/// The line for an event; `None` if it is one that the user asked for, or that the start has said.
fn line(change: &StateChange) -> Option<String> {
    Some(match change {
        StateChange::MemberFailed { devid, reason: Some(reason) } => {
            format!("devid {devid} has failed: {reason}")
        }
        StateChange::MemberReplaced { devid, device } => {
            format!("devid {devid} is on {device} now")
        }
        StateChange::RebuildFinished { devid } => format!("devid {devid} is in sync again"),
        StateChange::ChecksumMismatch { devid, blocks } => {
            format!("devid {devid}: {blocks} blocks did not match their checksums since the start")
        }
        StateChange::ChecksumsLost { pages } => {
            format!("{pages} pages of checksums could not be read since the start")
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
