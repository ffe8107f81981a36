//! # Idea
//! The mirror whose member has the lowest mean read wait since the start. A member that has not
//! been read yet counts as 0 and is tried at once.
//!
//! # State
//! None of its own: the members' books.
//!
//! # Cost
//! One division a mirror.
//!
//! # Good at
//! Members whose speeds differ much and stay as they are, at low depth.
//!
//! # Bad at
//! Change: the mean is over the whole lifetime, so a member that has become slow is noticed late,
//! and one that was passed over is never read again, so its mean never recovers.
//! Depth: the wait includes queueing, but it shows only when reads complete, so the choice herds.
//! Equal members: ties go to the lowest stripe.
//! Defects of the origin, not copied: it follows the block device of a missing member (a crash on
//! a degraded volume), and should no mean be below the maximum it answers stripe 0 of the chunk
//! rather than of the mirror group.
//!
//! # Origin
//! Anand Jain <anand.jain@oracle.com>, "raid1 balancing methods" v2 on linux-btrfs, October 2024;
//! not merged.

use super::Build;
use super::shared::averages::mean_wait_ns;
use super::shared::smallest::first_smallest;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy};
use crate::units::Nanos;

struct Latency;

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Latency))
}

impl ReadPolicy for Latency {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &members[mirror.member];
            mean_wait_ns(member.reads_completed, member.read_wait)
        }))
    }

    fn explain(
        &self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _now: Nanos,
    ) -> Vec<MirrorScore> {
        let reason = |mirror: &Mirror| {
            let member = &members[mirror.member];
            let mean_ns = mean_wait_ns(member.reads_completed, member.read_wait);
            MirrorScore::new("mean_wait_ns", mean_ns).with("reads", member.reads_completed)
        };
        mirrors.iter().map(reason).collect()
    }
}
