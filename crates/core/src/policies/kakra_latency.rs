//! # Idea
//! Takes the lowest mean read wait, as `btrfs/latency` does, but gives a member that was passed
//! over 10,000 times in a row another chance: its mean is reset, and for 100 decisions it counts as
//! unknown, so it is taken.
//!
//! # State
//! Per member: decisions since it was last chosen (`age`), times passed over (`ignored`), resets
//! (`count`), and the reads and wait at the last reset (the checkpoint).
//!
//! # Cost
//! One division per mirror, and an update of its counters.
//!
//! # Good at
//! Members of different speed, and a member that was slow for a while.
//!
//! # Bad at
//! - Depth, like every rule that takes the lowest mean: many reads go to one member before the mean
//!   reacts.
//! - Time: the threshold is a number of decisions, so an idle array never resets a mean, and a busy
//!   NVMe array does so many times a second. A member that is always chosen keeps its lifetime
//!   mean, so it is slow to react when that member becomes slow.
//! - A probe sends up to 100 reads in a row to a member that may still be slow.
//!
//! # Origin
//! kakra/linux PR #36 (6.12), by Kai Krakow; dropped in PR #40 (6.18) for `queue`. The code was not
//! available: the rule follows the text of the pull request. Added here: the age of a reset member
//! stays below zero for its 100 decisions even when it is chosen; `:once` ends the probe at the
//! first read, the other reading of the text. Only eligible mirrors age, and only when there are
//! two. The original is by Kai Krakow, from a patch of Anand Jain <anand.jain@oracle.com>.

use super::shared::checkpointed_mean::{CheckpointedMeans, Probe};
use super::shared::smallest::first_smallest;
use super::{Build, Built};
use crate::member::Members;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};

struct KakraLatency {
    means: CheckpointedMeans,
}

/// Builds the policy from the length of a probe.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(KakraLatency { means: CheckpointedMeans::new(Probe::from_value(build.values[0])) }))
}

impl ReadPolicy for KakraLatency {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.means.begin_decision(mirrors, ctx.members);
        let place = first_smallest(mirrors, |mirror| self.means.mean_ns(mirror));
        self.means.end_decision(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.means.resize(members);
    }

    fn counters(&self) -> Vec<Counter> {
        self.means.counters()
    }
}
