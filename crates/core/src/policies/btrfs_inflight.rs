//! # Idea
//! The lowest estimated wait: the mean read wait since the start, times one plus a tenth of the I/O
//! in flight, rounded down.
//!
//! # State
//! None of its own: the members' books.
//!
//! # Cost
//! One division a mirror.
//!
//! # Good at
//! Members whose speeds differ, at depths of ten and more, where it spreads before the mean shows
//! it.
//!
//! # Bad at
//! Depths below ten, where the queue counts for nothing and it is `btrfs/latency`.
//! Merging: it switched mirrors so often that requests merged less, and the term was dropped.
//! Change: the mean is over the whole lifetime.
//! Defects of the origin, not copied: a best of 0 gives way to whichever stripe follows, so an
//! unread first stripe is not tried and may never be; and the best is kept in 32 bits, with a sign,
//! so that from 2.1 s on any stripe is better.
//!
//! # Origin
//! Anand Jain <anand.jain@oracle.com>, RFC of October 2020 on linux-btrfs; not merged. Ties go to
//! the lowest stripe. Ours: a member that has not been read counts as 0 and is tried at once, as in
//! his later `btrfs/latency`; in flight are reads and writes.

use super::Build;
use super::shared::averages::mean_wait_ns;
use super::shared::smallest::first_smallest;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Inflight;

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Inflight))
}

impl ReadPolicy for Inflight {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &members[mirror.member];
            let mean_ns = mean_wait_ns(member.reads_completed, member.read_wait);
            mean_ns + mean_ns * u64::from(member.in_flight() / 10)
        }))
    }
}
