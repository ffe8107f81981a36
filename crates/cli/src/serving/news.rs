//! Messages of a service while it runs, which an operator looks for in its log after the fact.

use crate::ctl::with_control;
use crate::screen;
use mirrorball_io::control::EventObserver;
use mirrorball_io::control::protocol::StateChange;
use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::thread;

/// Lines that wait to be printed; more are dropped.
const LINES_MAX: usize = 256;

/// Prints the events that have a line. In a thread of its own, because a terminal or a pipe that
/// takes nothing must not stop the service. Commands in them name the control socket.
pub(super) fn news_printer(control: Option<PathBuf>) -> EventObserver {
    let (sender, lines) = sync_channel::<String>(LINES_MAX);
    let thread = thread::Builder::new().name("news".to_owned());
    // Without a thread the lines are dropped, and the volume is served.
    let _ = thread.spawn(move || lines.iter().for_each(screen::say));
    Box::new(move |change| {
        if let Some(line) = line(change) {
            let line = control.iter().fold(line, |line, path| with_control(&line, path));
            let _ = sender.try_send(line);
        }
    })
}

/// The line for an event; `None` if it is one that the user asked for.
fn line(change: &StateChange) -> Option<String> {
    match change {
        StateChange::Began(condition) | StateChange::Changed(condition) => {
            Some(format!("{}: {condition}", condition.severity.name()))
        }
        StateChange::Ended(condition) => Some(condition.text.clone()),
        StateChange::MemberReplaced { devid, device } => {
            Some(format!("devid {devid} is on {device} now"))
        }
        _ => None,
    }
}
