//! kakra's mean read wait per member, which is reset when the member was passed over for long.
//!
//! At each decision every candidate ages by one and counts one more time ignored; for the chosen
//! one both are set back. When the age of a member exceeds [`CHECKPOINT_AGE`], its statistics so
//! far become the baseline of its mean, and for [`PROBE_DECISIONS`] decisions its mean counts as
//! unknown, so the member is a candidate whatever its mean was.
//!
//! The original is unclear on two points. It says both that a probe lasts 100 decisions and that
//! being chosen sets the age to 0, which would end a probe after one read; [`Probe`] offers both.
//! And it does not say whether the decision that exceeds the threshold is the first of the 100:
//! here it is. The kernel also ages copies on dead devices; a policy here sees eligible mirrors
//! only.
//!
//! Source: kakra/linux PR #36 (text of 2025-04-25).

use super::mean_wait::mean_wait_ns;
use crate::member::{MemberIndex, Members};
use crate::policy::{Counter, Mirror};
use crate::units::Nanos;

/// The mean of a member that was passed over more often than this in a row is reset.
pub(crate) const CHECKPOINT_AGE: i64 = 10_000;
/// Number of decisions for which a mean counts as unknown after a reset.
pub(crate) const PROBE_DECISIONS: i64 = 100;

/// When a mean stops counting as unknown after a reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Probe {
    /// After 100 decisions, chosen or not.
    Window,
    /// When the member is first chosen, or after 100 decisions.
    Once,
}

#[derive(Clone, Debug)]
pub(crate) struct CheckpointedMeans {
    list: Vec<MemberMean>,
    probe: Probe,
}

#[derive(Clone, Debug, Default)]
struct MemberMean {
    age: i64,
    ignored: i64,
    count: i64,
    checkpoint_reads: u64,
    checkpoint_wait: Nanos,
    mean_ns: u64,
}

impl Probe {
    /// Reads the index of the word in the policy's parameter.
    pub(crate) fn from_value(value: u64) -> Probe {
        if value == 0 { Probe::Window } else { Probe::Once }
    }
}

impl CheckpointedMeans {
    pub(crate) fn new(probe: Probe) -> CheckpointedMeans {
        CheckpointedMeans { list: Vec::new(), probe }
    }

    /// Adds new members; existing means do not change.
    pub(crate) fn resize(&mut self, members: &Members) {
        self.list.resize(members.len(), MemberMean::default());
    }

    /// Ages the candidates of a decision and updates their means.
    #[inline]
    pub(crate) fn begin_decision(&mut self, mirrors: &[Mirror], members: &Members) {
        for mirror in mirrors {
            let mean = &mut self.list[mirror.member.get()];
            let member = &members[mirror.member];
            mean.age += 1;
            mean.ignored += 1;
            if mean.age > CHECKPOINT_AGE {
                mean.checkpoint_reads = member.reads_completed;
                mean.checkpoint_wait = member.read_wait;
                mean.age = -PROBE_DECISIONS;
                mean.count += 1;
            }
            mean.mean_ns = if mean.age < 0 {
                0
            } else {
                mean_wait_ns(
                    member.reads_completed - mean.checkpoint_reads,
                    member.read_wait - mean.checkpoint_wait,
                )
            };
        }
    }

    /// Mean wait of a candidate since its checkpoint, or 0 while unknown.
    #[inline]
    pub(crate) fn mean_ns(&self, mirror: &Mirror) -> u64 {
        self.list[mirror.member.get()].mean_ns
    }

    /// Sets back the age of the mirror that was chosen.
    #[inline]
    pub(crate) fn end_decision(&mut self, chosen: &Mirror) {
        let mean = &mut self.list[chosen.member.get()];
        mean.ignored -= 1;
        if mean.age >= 0 || self.probe == Probe::Once {
            mean.age = 0;
        }
    }

    /// `age`, `ignored`, `count`; reads and wait at the checkpoint (zero before the first reset);
    /// and the mean since then, as of the last decision.
    pub(crate) fn counters(&self) -> Vec<Counter> {
        let show = |(index, mean): (usize, &MemberMean)| {
            let member = Some(MemberIndex(index as u16));
            [
                ("age", mean.age),
                ("ignored", mean.ignored),
                ("count", mean.count),
                ("checkpoint_ios", mean.checkpoint_reads as i64),
                ("checkpoint_wait_ns", mean.checkpoint_wait.0 as i64),
                ("checkpoint_avg_ns", mean.mean_ns as i64),
            ]
            .map(|(name, value)| Counter { member, name, value })
        };
        self.list.iter().enumerate().flat_map(show).collect()
    }
}
