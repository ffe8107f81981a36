//! # Idea
//! Takes the mirror whose member has the lowest mean read wait since the start. A member that was
//! never read counts as 0 and is tried at once.
//!
//! # State
//! None of its own; it uses the statistics of the members.
//!
//! # Cost
//! One division per mirror.
//!
//! # Good at
//! Members whose speeds differ much and do not change, at low depth.
//!
//! # Bad at
//! - Change: the mean is over the whole lifetime. A member that becomes slow is noticed late, and a
//!   member that is not read keeps its mean, so it never recovers.
//! - Depth: the wait includes queueing, but only reads that complete change the mean, so many reads
//!   go to one member before the mean reacts.
//! - Equal members: ties go to the lowest stripe.
//! - Defects of the original, not copied: it dereferences the block device of a missing member (a
//!   crash on a degraded volume), and if no mean is below the maximum it returns stripe 0 of the
//!   chunk instead of stripe 0 of the mirror group.
//!
//! # Origin
//! Anand Jain <anand.jain@oracle.com>, "raid1 balancing methods" v2 on linux-btrfs, October 2024;
//! not merged.

use super::shared::mean_wait::mean_wait_ns;
use super::shared::smallest::first_smallest;
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct BtrfsLatency;

impl ReadPolicy for BtrfsLatency {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            mean_wait_ns(member.reads_completed, member.read_wait)
        }))
    }

    fn explain(&self, _read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        let reason = |mirror: &Mirror| {
            let member = &ctx.members[mirror.member];
            let mean_ns = mean_wait_ns(member.reads_completed, member.read_wait);
            MirrorScore::new("mean_wait_ns", mean_ns).with("reads", member.reads_completed)
        };
        mirrors.iter().map(reason).collect()
    }
}
