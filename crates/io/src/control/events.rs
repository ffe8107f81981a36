//! The events of a service: what changed, found by comparing its state turn by turn.
//!
//! The last [`KEPT`] are kept for clients that ask later, or take their lines slowly. Changes that
//! a comparison cannot see, such as another device in the place of a member, are recorded by the
//! requests that make them.

use super::protocol::{ReportedScrubState, ReportedState, ServiceEvent, StateChange, VolumeHealth};
use crate::Volume;
use crate::executor::{Executor, FailedRequests, MemberFault};
use crate::rebuild::Rebuild;
use mirrorball_core::io::VolumeError;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_store::StoreGate;
use mirrorball_store::label::ScrubProgress;
use std::collections::{BTreeSet, VecDeque};

/// Number of events that are kept.
const KEPT: usize = 256;
/// A rebuild reports its progress in parts of this many percent.
const PROGRESS_PERCENT: u64 = 20;

/// The events so far, and the state that they lead to.
#[derive(Default)]
pub(super) struct EventLog {
    events: VecDeque<ServiceEvent>,
    /// Number of events so far.
    count: u64,
    /// True if an event was recorded since the last call of [`EventLog::take_news`].
    has_news: bool,
    seen: Option<SeenState>,
    reported: ReportedCounts,
    /// The devids of members that were rebuilt since the last scrub started.
    rebuilt_since_scrub: BTreeSet<u64>,
    /// Gets each event.
    observer: Option<EventObserver>,
}

/// Gets each event of a service, in its thread.
pub type EventObserver = Box<dyn FnMut(&StateChange) + Send>;

/// The state that clients know from the events.
struct SeenState {
    health: VolumeHealth,
    /// For each member of the volume, its state, and how much of its rebuild is done in percent.
    members: Vec<(ReportedState, u64)>,
    signals: Signals,
}

/// What shows, without much work, that there may be an event.
#[derive(PartialEq, Eq)]
struct Signals {
    members_version: u64,
    is_unsynced: bool,
    /// Blocks that did not match their checksums, on all members.
    mismatched_blocks: u64,
    lost_checksum_pages: u64,
    failed_requests: FailedRequests,
    /// The members whose servers cannot be reached.
    unreachable: Vec<MemberIndex>,
    /// The members whose rebuilds do not go on, and why.
    stalled: Vec<(MemberIndex, VolumeError)>,
    scrub: Option<ReportedScrubState>,
    /// Which of the policies that were set is in fault, so that a fallback decides.
    faulty_policy: Option<u32>,
}

/// Counts, as their last events have them.
#[derive(Default)]
struct ReportedCounts {
    /// Blocks of each member that did not match their checksums.
    mismatched_blocks: Vec<u64>,
    lost_checksum_pages: u64,
    failed_requests: u64,
}

impl Signals {
    fn now(executor: &Executor, scrub: Option<&ScrubProgress>, rebuild: &Rebuild) -> Signals {
        let volume = executor.volume();
        let fault = volume.and_then(Volume::policy_fault);
        Signals {
            members_version: volume.map_or(0, Volume::members_version),
            is_unsynced: volume.is_some_and(is_unsynced),
            mismatched_blocks: volume
                .and_then(Volume::gate)
                .map_or(0, StoreGate::all_mismatched_blocks),
            lost_checksum_pages: volume
                .and_then(Volume::gate)
                .map_or(0, StoreGate::lost_checksum_pages),
            failed_requests: executor.failed_requests(),
            unreachable: unreachable(executor).collect(),
            stalled: rebuild.stalled().iter().map(|it| (it.member, it.error)).collect(),
            scrub: scrub.map(|scrub| ReportedScrubState::from(scrub.state)),
            faulty_policy: fault.and(volume).map(Volume::policy_number),
        }
    }
}

impl EventLog {
    /// Has each event passed to this observer, too.
    pub(super) fn set_observer(&mut self, observer: EventObserver) {
        self.observer = Some(observer);
    }

    /// Records an event.
    pub(super) fn record(&mut self, change: StateChange, executor: &Executor) {
        self.count += 1;
        self.has_news = true;
        let time_unix_ms = executor.driver.unix_time().0 / 1_000_000;
        if let Some(observer) = &mut self.observer {
            observer(&change);
        }
        match change {
            StateChange::RebuildFinished { devid } => {
                self.rebuilt_since_scrub.insert(devid);
            }
            StateChange::ScrubStarted => self.rebuilt_since_scrub.clear(),
            _ => {}
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

    /// Number of events so far.
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
    pub(super) fn observe(
        &mut self,
        executor: &Executor,
        scrub: Option<&ScrubProgress>,
        rebuild: &Rebuild,
    ) {
        let signals = Signals::now(executor, scrub, rebuild);
        if self.seen.as_ref().is_some_and(|seen| seen.signals == signals) {
            return;
        }
        let (health, members) = (health(executor), members(executor));
        let mut changes = Vec::new();
        let before = self.seen.take();
        match &before {
            None => changes.push(StateChange::ServiceStarted { health }),
            Some(before) if before.health != health => {
                changes.push(StateChange::HealthChanged { health });
            }
            Some(_) => {}
        }
        for (at, &now) in members.iter().enumerate() {
            let was = before.as_ref().map(|before| before.members[at]);
            let index = MemberIndex(at as u16);
            let fault = executor.volume().and_then(|_| executor.fault(index));
            changes.extend(member_change((devid(executor, index), fault), was, now));
        }
        let was = before.as_ref().map(|before| &before.signals);
        changes.extend(resync_change(was.is_some_and(|was| was.is_unsynced), &signals, executor));
        changes.extend(stalled_changes(was.map_or(&[], |was| &was.stalled), &signals, executor));
        changes.extend(self.reported.changes(&signals, executor));
        let fault = executor.volume().and_then(Volume::policy_fault);
        let was_faulty = was.and_then(|was| was.faulty_policy);
        if let Some(fault) = fault.filter(|_| was_faulty != signals.faulty_policy) {
            changes.push(StateChange::PolicyFault { fault: fault.summary.clone() });
        }
        changes.extend(scrub_change(was.map(|was| was.scrub), scrub));
        self.seen = Some(SeenState { health, members, signals });
        changes.into_iter().for_each(|change| self.record(change, executor));
    }
}

impl ReportedCounts {
    /// The events of counts that have doubled since their last events.
    fn changes(&mut self, now: &Signals, executor: &Executor) -> Vec<StateChange> {
        let mut changes = mismatch_changes(executor, &mut self.mismatched_blocks);
        let failed = now.failed_requests;
        if has_doubled(self.failed_requests, failed.all()) {
            self.failed_requests = failed.all();
            let FailedRequests { reads, writes } = failed;
            let reason = last_error(executor);
            changes.push(StateChange::RequestsFailed { reads, writes, reason });
        }
        if has_doubled(self.lost_checksum_pages, now.lost_checksum_pages) {
            self.lost_checksum_pages = now.lost_checksum_pages;
            changes.push(StateChange::ChecksumsLost { pages: now.lost_checksum_pages });
        }
        changes
    }
}

/// The last error of the members that are used: perhaps why a request failed.
fn last_error(executor: &Executor) -> Option<String> {
    let members = executor.volume()?.members().iter();
    let used = members.filter(|(_, member)| member.state != MemberState::Failed);
    let errors = used.filter_map(|(index, member)| {
        let (fault, age) = executor.last_error(index)?;
        Some((age, format!("devid {}: {fault}", member.config.devid)))
    });
    errors.min_by_key(|(age, _)| *age).map(|(_, error)| error)
}

fn devid(executor: &Executor, member: MemberIndex) -> u64 {
    executor.volume().map_or(0, |volume| volume.members()[member].config.devid)
}

/// Returns true if mirrors may differ. A single member that is left has none.
fn is_unsynced(volume: &Volume) -> bool {
    let used = volume.members().iter().filter(|(_, member)| member.state != MemberState::Failed);
    volume.gate().map_or(0, StoreGate::unsynced_bytes) > 0 && used.count() > 1
}

/// The event of a resync that started or ended.
fn resync_change(was: bool, now: &Signals, executor: &Executor) -> Option<StateChange> {
    let unsynced_bytes = executor.records().map_or(0, StoreGate::unsynced_bytes);
    match (was, now.is_unsynced) {
        (false, true) => Some(StateChange::ResyncStarted { unsynced_bytes }),
        (true, false) if unsynced_bytes == 0 => Some(StateChange::ResyncFinished),
        _ => None,
    }
}

/// The events of rebuilds that do not go on any more.
fn stalled_changes(
    known: &[(MemberIndex, VolumeError)],
    now: &Signals,
    executor: &Executor,
) -> Vec<StateChange> {
    let new = now.stalled.iter().filter(|stalled| !known.contains(stalled));
    let change = |&(member, error): &(MemberIndex, VolumeError)| StateChange::RebuildStalled {
        devid: devid(executor, member),
        reason: error.to_string(),
    };
    new.map(change).collect()
}

/// Returns true if a count is to be reported again.
fn has_doubled(reported: u64, count: u64) -> bool {
    count > 0 && count >= 2 * reported
}

/// The events of members with twice as many bad blocks as their last event says.
fn mismatch_changes(executor: &Executor, reported: &mut Vec<u64>) -> Vec<StateChange> {
    let Some(volume) = executor.volume() else { return Vec::new() };
    reported.resize(volume.members().len(), 0);
    let rows = volume.members().iter().zip(reported);
    let changes = rows.filter_map(|((index, member), reported)| {
        let blocks = volume.gate().map_or(0, |store| store.mismatched_blocks(index));
        has_doubled(*reported, blocks).then(|| {
            *reported = blocks;
            StateChange::ChecksumMismatch { devid: member.config.devid, blocks }
        })
    });
    changes.collect()
}

/// The members in sync whose servers cannot be reached.
fn unreachable(executor: &Executor) -> impl Iterator<Item = MemberIndex> {
    let members = executor.volume().into_iter().flat_map(|volume| volume.members().iter());
    let in_sync = members.filter(|(_, member)| member.state == MemberState::InSync);
    in_sync.map(|(index, _)| index).filter(|&index| executor.is_unreachable(index))
}

/// Whether all members are in sync and can be reached, and their mirrors are equal.
pub(super) fn health(executor: &Executor) -> VolumeHealth {
    let is_in_sync = |state| state == MemberState::InSync;
    let all_in_sync = match executor.volume() {
        Some(volume) => {
            volume.members().iter().all(|(_, member)| is_in_sync(member.state))
                && unreachable(executor).next().is_none()
        }
        None => executor.members().all(|(config, _)| is_in_sync(config.state)),
    };
    let unsynced_bytes = executor.records().map_or(0, StoreGate::unsynced_bytes);
    match all_in_sync {
        true if unsynced_bytes == 0 => VolumeHealth::InSync,
        true => VolumeHealth::Resyncing,
        false => VolumeHealth::Degraded,
    }
}

/// The state of a member of the volume, as clients see it.
pub(super) fn reported_state(executor: &Executor, member: MemberIndex) -> ReportedState {
    let Some(volume) = executor.volume() else { return ReportedState::InSync };
    match volume.members()[member].state {
        MemberState::Failed if !volume.gate().is_none_or(|store| store.has_device(member)) => {
            ReportedState::Removed
        }
        MemberState::Failed if executor.is_missing(member) => ReportedState::Missing,
        MemberState::InSync if executor.is_unreachable(member) => ReportedState::Unreachable,
        state => ReportedState::from(state),
    }
}

fn members(executor: &Executor) -> Vec<(ReportedState, u64)> {
    let Some(volume) = executor.volume() else { return Vec::new() };
    let rows = volume.members().iter().map(|(index, member)| {
        let percent = match member.state {
            MemberState::Rebuilding { recovered_bytes } => {
                // Past the last chunk there is nothing to copy.
                let total_bytes = volume.map().allocated(index).end.max(1);
                100 * u128::from(recovered_bytes.min(total_bytes)) / u128::from(total_bytes)
            }
            MemberState::InSync | MemberState::Failed => 0,
        };
        (reported_state(executor, index), percent as u64)
    });
    rows.collect()
}

/// The event of a member, of which the devid and a fault are given, that `was` in a state, none at
/// the start, and is in one now.
fn member_change(
    (devid, fault): (u64, Option<MemberFault>),
    was: Option<(ReportedState, u64)>,
    (state, percent): (ReportedState, u64),
) -> Option<StateChange> {
    if let Some((before, percent_before)) = was
        && before == state
    {
        let part = percent / PROGRESS_PERCENT;
        let has_progress = state == ReportedState::Rebuilding
            && part > percent_before / PROGRESS_PERCENT
            && part < 100 / PROGRESS_PERCENT;
        let percent = part * PROGRESS_PERCENT;
        return has_progress.then_some(StateChange::RebuildProgress { devid, percent });
    }
    match state {
        ReportedState::InSync => was.map(|(was, _)| match was {
            ReportedState::Unreachable => StateChange::MemberReachable { devid },
            _ => StateChange::RebuildFinished { devid },
        }),
        ReportedState::Unreachable => Some(StateChange::MemberUnreachable { devid }),
        ReportedState::Rebuilding => Some(StateChange::RebuildStarted { devid }),
        ReportedState::Failed => {
            let reason = fault.map(|fault| fault.to_string());
            Some(StateChange::MemberFailed { devid, reason })
        }
        ReportedState::Missing => Some(StateChange::MemberMissing { devid }),
        ReportedState::Removed => Some(StateChange::MemberRemoved { devid }),
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
    fn a_member_has_an_event_for_each_change_and_each_fifth_of_its_rebuild() {
        let change = |was, now| member_change((2, Some(MemberFault::Ended)), was, now);
        let rebuilding = |percent| (ReportedState::Rebuilding, percent);
        let in_sync = (ReportedState::InSync, 0);
        assert_eq!(change(None, in_sync), None, "what is as it should be");
        let started = Some(StateChange::RebuildStarted { devid: 2 });
        assert_eq!(change(None, rebuilding(50)), started);
        assert_eq!(change(Some((ReportedState::Removed, 0)), rebuilding(0)), started);
        for (from, to, percent) in [(0, 19, None), (19, 20, Some(20)), (5, 65, Some(60))] {
            let expected =
                percent.map(|percent| StateChange::RebuildProgress { devid: 2, percent });
            assert_eq!(change(Some(rebuilding(from)), rebuilding(to)), expected);
        }
        assert_eq!(change(Some(rebuilding(90)), rebuilding(100)), None, "its end follows");
        let finished = Some(StateChange::RebuildFinished { devid: 2 });
        assert_eq!(change(Some(rebuilding(100)), in_sync), finished);
        let unreachable = (ReportedState::Unreachable, 0);
        let gone = Some(StateChange::MemberUnreachable { devid: 2 });
        assert_eq!(change(Some(in_sync), unreachable), gone);
        let back = Some(StateChange::MemberReachable { devid: 2 });
        assert_eq!(change(Some(unreachable), in_sync), back);
        let reason = Some("its file or device is smaller than it was".to_owned());
        let failed = Some(StateChange::MemberFailed { devid: 2, reason });
        assert_eq!(change(Some(in_sync), (ReportedState::Failed, 0)), failed);
    }

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
