//! The events of a service: conditions that begin, change and end, found by comparing them turn by
//! turn, and what happened to scrubs.
//!
//! The last [`KEPT`] are kept for clients that ask later, or take their lines slowly. Changes that
//! a comparison cannot see, such as another device in the place of a member, are recorded by the
//! requests that make them.

use super::conditions::{Reported, WatchedParts};
use super::protocol::{ReportedScrubState, ServiceEvent, StateChange};
use crate::conditions::Severity;
use crate::executor::Executor;
use mirrorball_store::label::ScrubProgress;
use std::collections::{BTreeSet, VecDeque};

const KEPT: usize = 256;
/// Name of the condition of a member that is being rebuilt.
const REBUILDING: &str = "member-rebuilding";

/// The events so far, and the state that they lead to.
#[derive(Default)]
pub(super) struct EventLog {
    events: VecDeque<ServiceEvent>,
    count: u64,
    /// True if an event was recorded since the last call of [`EventLog::take_news`].
    has_news: bool,
    seen: Option<SeenState>,
    /// The devids of members whose rebuild ended since the last scrub started.
    rebuilt_since_scrub: BTreeSet<u64>,
    observer: Option<EventObserver>,
}

/// Gets each event of a service, in its thread; of the conditions at the start the errors only.
pub type EventObserver = Box<dyn FnMut(&StateChange) + Send>;

/// The state that clients know from the events.
struct SeenState {
    conditions: Vec<Reported>,
    scrub: Option<ReportedScrubState>,
}

impl EventLog {
    /// Passes each event to this observer, too.
    pub(super) fn set_observer(&mut self, observer: EventObserver) {
        self.observer = Some(observer);
    }

    pub(super) fn record(&mut self, change: StateChange, executor: &Executor) {
        if let Some(observer) = &mut self.observer {
            observer(&change);
        }
        self.keep(change, executor);
    }

    fn keep(&mut self, change: StateChange, executor: &Executor) {
        self.count += 1;
        self.has_news = true;
        let time_unix_ms = executor.driver.unix_time().0 / 1_000_000;
        if change == StateChange::ScrubStarted {
            self.rebuilt_since_scrub.clear();
        }
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(ServiceEvent { number: self.count, time_unix_ms, change });
    }

    /// The devids of members that were rebuilt since the last scrub started.
    pub(super) fn rebuilt_since_scrub(&self) -> Vec<u64> {
        self.rebuilt_since_scrub.iter().copied().collect()
    }

    /// Returns true if an event was recorded since the last call.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The lines for a client that has the events up to this number.
    pub(super) fn lines_after(&self, number: u64) -> String {
        let first = self.events.front().map_or(self.count + 1, |event| event.number);
        let lost = first.saturating_sub(number + 1);
        let lost = Some(lost).filter(|_| number > 0 && lost > 0).map(|count| {
            let time_unix_ms = self.events.front().map_or(0, |event| event.time_unix_ms);
            let change = StateChange::EventsLost { count };
            ServiceEvent { number: first - 1, time_unix_ms, change }
        });
        let kept = self.events.iter().filter(|event| event.number > number);
        let line = |event: &ServiceEvent| {
            serde_json::to_string(event).expect("events have keys that are strings") + "\n"
        };
        lost.iter().chain(kept).map(line).collect()
    }

    /// Records what changed since the last call.
    pub(super) fn observe(&mut self, parts: WatchedParts<'_>) {
        let findings = parts.findings();
        let progress = parts.scrub.progress();
        let scrub = progress.map(|scrub| ReportedScrubState::from(scrub.state));
        let is_at = |seen: &SeenState| {
            let mut rows = seen.conditions.iter().zip(&findings);
            seen.scrub == scrub
                && seen.conditions.len() == findings.len()
                && rows.all(|(seen, finding)| *seen == parts.report(finding))
        };
        if self.seen.as_ref().is_some_and(is_at) {
            return;
        }
        let executor = parts.executor;
        let before = self.seen.take();
        let known = before.as_ref().map_or(&[][..], |before| &before.conditions);
        let conditions: Vec<Reported> = findings.iter().map(|it| parts.report(it)).collect();
        let mut changes = Vec::new();
        for was in known.iter().filter(|was| !conditions.iter().any(|now| now.is_same(was))) {
            let ended = parts.end(was);
            let is_rebuilt = was.name == REBUILDING && parts.is_in_sync(was.about);
            self.rebuilt_since_scrub.extend(ended.devid.filter(|_| is_rebuilt));
            changes.push(StateChange::Ended(ended));
        }
        for (now, finding) in conditions.iter().zip(&findings) {
            match known.iter().find(|was| was.is_same(now)) {
                None => changes.push(StateChange::Began(parts.describe(finding))),
                Some(was) if was != now => {
                    changes.push(StateChange::Changed(parts.describe(finding)));
                }
                Some(_) => {}
            }
        }
        changes.extend(scrub_change(before.as_ref().map(|was| was.scrub), progress));
        self.seen = Some(SeenState { conditions, scrub });
        match before {
            Some(_) => changes.into_iter().for_each(|change| self.record(change, executor)),
            None => {
                self.keep(StateChange::ServiceStarted, executor);
                for change in changes {
                    match &change {
                        StateChange::Began(condition) if condition.severity == Severity::Error => {
                            self.record(change, executor);
                        }
                        // The notes of the start tell the others.
                        _ => self.keep(change, executor),
                    }
                }
            }
        }
    }
}

/// The event of a scrub that `was` in a state, and is as `now` says. At the start of the service,
/// only a scrub that goes on is one.
fn scrub_change(
    was: Option<Option<ReportedScrubState>>,
    now: Option<&ScrubProgress>,
) -> Option<StateChange> {
    let now = now?;
    let state = ReportedScrubState::from(now.state);
    let Some(was) = was else {
        return (state == ReportedScrubState::Running).then_some(StateChange::ScrubStarted);
    };
    if was == Some(state) {
        return None;
    }
    Some(match state {
        ReportedScrubState::Running if was == Some(ReportedScrubState::Paused) => {
            StateChange::ScrubResumed
        }
        ReportedScrubState::Running => StateChange::ScrubStarted,
        ReportedScrubState::Paused => StateChange::ScrubPaused,
        ReportedScrubState::Cancelled => StateChange::ScrubCancelled,
        ReportedScrubState::Finished => StateChange::ScrubFinished {
            differing_blocks: now.differing_blocks,
            repaired_blocks: now.repaired_blocks,
            mismatched_blocks: now.mismatched_blocks,
            unreadable_blocks: now.unreadable_blocks,
            uncompared_bytes: now.uncompared_bytes,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_is_late_gets_the_number_of_events_that_it_missed() {
        let change = StateChange::ServiceStopping;
        let event = |number| ServiceEvent { number, time_unix_ms: 5, change: change.clone() };
        let events = (4..=6).map(event).collect();
        let log = EventLog { events, count: 6, ..EventLog::default() };
        assert_eq!(log.lines_after(0).lines().count(), 3, "a new client misses nothing");
        assert_eq!(log.lines_after(3).lines().count(), 3);
        assert_eq!(
            log.lines_after(1).lines().next(),
            Some(r#"{"number":3,"time_unix_ms":5,"event":"events-lost","count":2}"#)
        );
        assert_eq!(log.lines_after(6), "");
    }
}
