//! # Idea
//! Takes the lowest estimated wait: the mean read wait since the start, times one plus a tenth of
//! the number of I/O in flight, rounded down.
//!
//! # State
//! None of its own; it uses the statistics of the members.
//!
//! # Cost
//! One division per mirror.
//!
//! # Good at
//! Members of different speed at depths of ten or more, where it spreads reads before the mean
//! shows the load.
//!
//! # Bad at
//! - Depths below ten, where the queue does not count and it is the same as `btrfs/latency`.
//! - Merging: it switched mirrors so often that fewer requests were merged, so the term was
//!   dropped.
//! - Change: the mean is over the whole lifetime.
//! - Defects of the original, not copied: a best mean of 0 is replaced by the stripe that follows,
//!   so an unread first stripe may never be tried; and the best mean is a signed 32-bit number, so
//!   from 2.1 s on any other stripe is preferred.
//!
//! # Origin
//! Anand Jain <anand.jain@oracle.com>, RFC of October 2020 on linux-btrfs; not merged. Ties go to
//! the lowest stripe. Added here: a member that was never read counts as 0 and is tried at once, as
//! in his later `btrfs/latency`; both reads and writes count as in flight.

use super::shared::mean_wait::mean_wait_ns;
use super::shared::smallest::first_smallest;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Inflight;

impl ReadPolicy for Inflight {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            let mean_ns = mean_wait_ns(member.reads_completed, member.read_wait);
            mean_ns + mean_ns * u64::from(member.in_flight() / 10)
        }))
    }
}
