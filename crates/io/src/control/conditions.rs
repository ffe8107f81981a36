//! Conditions of a service that runs: found from the state of its parts.

use super::ServiceParts;
use super::protocol::{BadBlockRange, ReportedState, VolumeHealth};
use crate::Volume;
use crate::conditions::{
    Condition, ConditionSubject, FailedCounts, Problem, Recovery, Severity, Situation,
};
use crate::executor::{Executor, FailedRequests, MemberFault, SCRUB_BLOCK_BYTES};
use crate::rebuild::{MemberCopy, Rebuild};
use crate::scrub::Scrub;
use crate::spares::{SpareUse, Spares};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_store::StoreGate;
use mirrorball_store::label::{ScrubState, Uuid};
use std::ops::Range;

/// The parts of a service whose conditions are reported.
#[derive(Clone, Copy)]
pub(super) struct WatchedParts<'a> {
    pub(super) executor: &'a Executor,
    pub(super) rebuild: &'a Rebuild,
    pub(super) scrub: &'a Scrub,
    pub(super) spares: &'a Spares,
}

/// The member or spare of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum About {
    Volume,
    Member(MemberIndex),
    Spare(Uuid),
}

/// A problem that there is now. Finding one builds no text.
pub(super) type Finding<'a> = (About, Problem<'a>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reported {
    pub(super) about: About,
    pub(super) name: &'static str,
    pub(super) severity: Severity,
    ended: &'static str,
    /// Changes when another event is due.
    pub(super) step: u64,
}

impl Reported {
    /// True for the same condition, perhaps at another step.
    pub(super) fn is_same(&self, other: &Reported) -> bool {
        self.about == other.about && self.name == other.name
    }
}

impl<'a> WatchedParts<'a> {
    pub(super) fn of(parts: &'a ServiceParts<'_>) -> WatchedParts<'a> {
        let ServiceParts { executor, rebuild, scrub, spares, .. } = parts;
        WatchedParts { executor, rebuild, scrub, spares }
    }

    /// All problems that there are now.
    pub(super) fn findings(self) -> Vec<Finding<'a>> {
        let mut findings = Vec::new();
        let WatchedParts { executor, scrub, .. } = self;
        for (index, _) in (0..).map(MemberIndex).zip(executor.members()) {
            let problem = self.member_problem(index);
            findings.extend(problem.map(|problem| (About::Member(index), problem)));
            let stalled = executor.stalled(index);
            let stalled = stalled.map(|(waits, count)| Problem::MemberStalled(waits, count));
            findings.extend(stalled.map(|problem| (About::Member(index), problem)));
            let mismatched = scrub.faults_before().mismatched_since(index, executor);
            if mismatched > 0 {
                let problem = Problem::ChecksumMismatch(mismatched);
                findings.push((About::Member(index), problem));
            }
            let bad = bad_blocks(index, executor).iter().map(|range| range.length).sum::<u64>();
            let state = executor.volume().map(|volume| volume.members()[index].state);
            if bad > 0 && state != Some(MemberState::Failed) {
                let problem = Problem::RebuildLeftBlocks(bad.div_ceil(SCRUB_BLOCK_BYTES));
                findings.push((About::Member(index), problem));
            }
            if executor.is_failing(index) && !executor.needs_restart(index) {
                let fault = executor.last_error(index).map(|(fault, _)| fault);
                findings.push((About::Member(index), Problem::MemberFailing(fault)));
            }
        }
        for copy in self.rebuild.copies() {
            let problem = match copy.error {
                Some(_) => Problem::ReplaceFailed(copy),
                None => Problem::MemberReplacing(copied(copy, executor, self.rebuild), copy),
            };
            findings.push((About::Member(copy.member), problem));
            let stalled = executor.stalled_successor(copy.member);
            let stalled = stalled.map(|(waits, it)| Problem::ReplaceStalled(copy, waits, it));
            findings.extend(stalled.map(|problem| (About::Member(copy.member), problem)));
        }
        for stalled in self.rebuild.stalled() {
            let problem = Problem::RebuildStalled(stalled.error);
            findings.push((About::Member(stalled.member), problem));
        }
        findings.extend(self.volume_problems().map(|problem| (About::Volume, problem)));
        let listed = executor.records().map(StoreGate::spares).unwrap_or_default();
        let listed = listed.iter().filter(|spare| !self.rebuild.is_copied_to(spare.uuid));
        findings.extend(listed.filter_map(|spare| {
            let problem = match self.spares.find(spare.uuid) {
                None => Problem::SpareMissing(spare.replaces),
                Some((_, SpareUse::Failed(error))) => Problem::SpareFailed(error),
                Some((_, SpareUse::Ready | SpareUse::Opening(_))) => return None,
            };
            Some((About::Spare(spare.uuid), problem))
        }));
        findings
    }

    /// The problem that the state of a member is, or that of a disk that is served alone.
    fn member_problem(self, index: MemberIndex) -> Option<Problem<'static>> {
        match reported_state(self.executor, index) {
            ReportedState::InSync => None,
            ReportedState::Unreachable => {
                let needs_restart = self.executor.needs_restart(index);
                Some(Problem::MemberUnreachable { needs_restart })
            }
            ReportedState::Rebuilding => {
                let recovery = recovery(self.executor, self.rebuild, index);
                Some(Problem::MemberRebuilding(recovery))
            }
            ReportedState::Failed => {
                let is_kept_out = self.executor.is_kept_out(index);
                Some(Problem::MemberFailed { fault: self.executor.fault(index), is_kept_out })
            }
            ReportedState::Missing => Some(Problem::MemberMissing),
            ReportedState::Diverged => Some(Problem::MemberDiverged),
            ReportedState::Removed => Some(Problem::MemberRemoved),
        }
    }

    fn volume_problems(self) -> impl Iterator<Item = Problem<'a>> {
        let WatchedParts { executor, scrub, .. } = self;
        let volume = executor.volume();
        let unsynced_bytes = volume.map_or(0, |it| bytes_of_mirrors(it, StoreGate::unsynced_bytes));
        let fault = volume.and_then(Volume::policy_fault);
        let failed = scrub.faults_before().failed_since(executor);
        let FailedRequests { reads, writes } = failed;
        let counts = FailedCounts { reads, writes, last_error: None };
        let lost = scrub.faults_before().lost_since(executor);
        let (left, uncompared) = scrub_results(scrub);
        [
            (unsynced_bytes > 0).then_some(Problem::MirrorsUnsynced(unsynced_bytes)),
            (failed.all() > 0).then_some(Problem::RequestsFailed(counts)),
            (lost > 0).then_some(Problem::ChecksumsLost(lost)),
            (left > 0).then_some(Problem::ScrubLeftBlocks(left)),
            (uncompared > 0).then_some(Problem::ScrubIncomplete(uncompared)),
            fault.map(|fault| Problem::PolicyFault(&fault.summary)),
        ]
        .into_iter()
        .flatten()
    }

    /// The last error of a member in use, with its age: perhaps why a request failed.
    fn last_error(self) -> Option<(String, MemberFault, Nanos)> {
        let members = self.executor.volume()?.members().iter();
        let used = members.filter(|(_, member)| member.state != MemberState::Failed);
        let errors = used.filter_map(|(index, _)| {
            let (fault, age) = self.executor.last_error(index)?;
            Some((index, fault, age))
        });
        let (index, fault, age) = errors.min_by_key(|(_, _, age)| *age)?;
        Some((self.subject(About::Member(index)).to_string(), fault, age))
    }

    /// All conditions now, in words.
    pub(super) fn conditions(self) -> Vec<Condition> {
        self.findings().iter().map(|finding| self.describe(finding)).collect()
    }

    pub(super) fn describe(self, (about, problem): &Finding<'_>) -> Condition {
        let mut problem = problem.clone();
        if let Problem::RequestsFailed(FailedCounts { last_error, .. }) = &mut problem {
            *last_error = self.last_error();
        }
        problem.describe(&self.subject(*about), self.situation())
    }

    /// The condition of a member that has no device.
    pub(super) fn without_device(self, member: MemberIndex) -> Option<Condition> {
        use ReportedState::{Diverged, Missing, Removed};
        let has_none =
            matches!(reported_state(self.executor, member), Missing | Diverged | Removed);
        has_none.then(|| self.member_condition(member)).flatten()
    }

    /// The condition that keeps a member out of use.
    pub(super) fn member_condition(self, member: MemberIndex) -> Option<Condition> {
        let problem = self.member_problem(member)?;
        Some(self.describe(&(About::Member(member), problem)))
    }

    pub(super) fn is_in_sync(self, about: About) -> bool {
        matches!(about, About::Member(index)
            if reported_state(self.executor, index) == ReportedState::InSync)
    }

    /// A condition that was reported and is over.
    pub(super) fn end(self, reported: &Reported) -> Condition {
        let subject = self.subject(reported.about);
        let text = match reported.about {
            About::Volume => reported.ended.to_owned(),
            About::Spare(_) => format!("{subject}: {}", reported.ended),
            About::Member(index) => match reported_state(self.executor, index) {
                state @ (ReportedState::InSync | ReportedState::Rebuilding) => {
                    format!("{subject}: {}; it is {} now", reported.ended, state.name())
                }
                // What was over did not end well.
                state => format!("{subject}: it is {} now", state.name()),
            },
        };
        let (name, severity) = (reported.name.to_owned(), reported.severity);
        Condition { name, severity, devid: subject.devid, text, help: None }
    }

    pub(super) fn report(self, (about, problem): &Finding<'_>) -> Reported {
        let (name, severity, ended) = problem.row();
        // Another policy whose fallback decides is another fault.
        let step = match problem {
            Problem::PolicyFault(_) => {
                self.executor.volume().map_or(0, |volume| volume.policy_number().into())
            }
            problem => problem.step(),
        };
        Reported { about: *about, name, severity, ended, step }
    }

    fn subject(self, about: About) -> ConditionSubject {
        match about {
            About::Volume => ConditionSubject::default(),
            About::Member(index) => {
                let config = self.executor.members().nth(index.get()).map(|(config, _)| config);
                let device = self.rebuild.device(index, self.executor);
                let device = device.map(|device| device.absolute());
                ConditionSubject { devid: config.map(|config| config.devid), device }
            }
            About::Spare(uuid) => ConditionSubject::spare(match self.spares.find(uuid) {
                Some((found, _)) => found.address.absolute(),
                None => format!("UUID {uuid}"),
            }),
        }
    }

    fn situation(self) -> Situation {
        let Some(volume) = self.executor.volume() else { return Situation::Emulated };
        match volume.gate() {
            _ if volume.is_read_only() => Situation::ReadOnly,
            None => Situation::Emulated,
            Some(store) => Situation::Served {
                has_spares: !store.spares().is_empty(),
                has_left_blocks: scrub_results(self.scrub).0 > 0,
            },
        }
    }
}

/// Blocks that the last scrub and those before it left, and the bytes that it did not compare.
fn scrub_results(scrub: &Scrub) -> (u64, u64) {
    let Some(progress) = scrub.progress() else { return (0, 0) };
    let is_running = progress.state == ScrubState::Running;
    let differing = match is_running && progress.repairs {
        // They are repaired before the scrub ends.
        true => 0,
        false => progress.differing_blocks.saturating_sub(progress.repaired_blocks),
    };
    let earlier = match progress.state {
        ScrubState::Finished => 0,
        _ => progress.left_blocks,
    };
    (differing + progress.unreadable_blocks + earlier, progress.uncompared_bytes)
}

pub(super) fn recovery(executor: &Executor, rebuild: &Rebuild, index: MemberIndex) -> Recovery {
    let Some(volume) = executor.volume() else { return Recovery::default() };
    // Past the last chunk there is nothing to copy.
    let total_bytes = volume.map().allocated(index).end;
    let recovered_bytes = match volume.members()[index].state {
        MemberState::Rebuilding { recovered_bytes } => recovered_bytes.min(total_bytes),
        MemberState::InSync | MemberState::Failed => 0,
    };
    let only_missed = volume.gate().is_some_and(|store| store.is_catching_up(index));
    Recovery { recovered_bytes, total_bytes, only_missed, rate: rebuild.rate() }
}

/// How far a member is copied to the device that takes its place.
pub(super) fn copied(copy: &MemberCopy, executor: &Executor, rebuild: &Rebuild) -> Recovery {
    let allocated = executor.volume().map(|volume| volume.map().allocated(copy.member));
    let total_bytes = allocated.map_or(0, |range| range.end);
    let (recovered_bytes, rate) = (copy.copied_bytes.min(total_bytes), rebuild.rate());
    Recovery { recovered_bytes, total_bytes, only_missed: false, rate }
}

/// Bytes in which mirrors may differ, or would after a crash; none while a single member has data.
pub(super) fn bytes_of_mirrors(volume: &Volume, bytes: fn(&StoreGate) -> u64) -> u64 {
    let bytes = volume.gate().map_or(0, bytes);
    if bytes > 0 && volume.members().with_data() > 1 { bytes } else { 0 }
}

pub(super) fn health<'a>(findings: impl IntoIterator<Item = &'a Finding<'a>>) -> VolumeHealth {
    let mut health = VolumeHealth::InSync;
    for (_, problem) in findings {
        match problem {
            problem if problem.state().is_some() => return VolumeHealth::Degraded,
            Problem::MirrorsUnsynced(_) => health = VolumeHealth::Resyncing,
            _ => {}
        }
    }
    health
}

/// The state of a member, as clients see it, or of a disk that is served without a volume.
pub(super) fn reported_state(executor: &Executor, member: MemberIndex) -> ReportedState {
    let Some(volume) = executor.volume() else {
        let member = executor.members().nth(member.get());
        return member.map_or(ReportedState::InSync, |(config, _)| config.state.into());
    };
    match volume.members()[member].state {
        MemberState::Failed if !volume.gate().is_none_or(|store| store.has_device(member)) => {
            ReportedState::Removed
        }
        MemberState::Failed if executor.has_diverged(member) => ReportedState::Diverged,
        MemberState::Failed if executor.is_missing(member) => ReportedState::Missing,
        MemberState::InSync if executor.is_unreachable(member) => ReportedState::Unreachable,
        state => ReportedState::from(state),
    }
}

/// The ranges of the volume that a member lacks.
pub(super) fn bad_blocks(member: MemberIndex, executor: &Executor) -> Vec<BadBlockRange> {
    let ranges = executor.records().into_iter().flat_map(StoreGate::bad_blocks);
    let ranges = ranges.filter(|(other, _)| *other == member).map(|(_, range)| range);
    let report =
        |range: Range<u64>| BadBlockRange { offset: range.start, length: range.end - range.start };
    ranges.map(report).collect()
}
