//! # Idea
//! As `md/raid1`, but where the array has a non-rotational disk, each four writes in a queue count
//! as five, because they take longer there than reads do.
//!
//! # State
//! That of `md/raid1`.
//!
//! # Cost
//! That of `md/raid1`.
//!
//! # Good at
//! Random reads mixed with many writes on non-rotational disks, where the shortest queue may be the
//! one that holds the most writes.
//!
//! # Bad at
//! What `md/raid1` is bad at. Up to three writes in a queue change nothing. Nor does any number
//! that all disks have alike, which is the usual case for writes to a mirror.
//!
//! # Origin
//! Paul Luse, patch "md: raid1 mixed RW performance improvement" on linux-raid, October 2024; not
//! merged. The factor is from his tests of NVMe and SATA drives, in which the shortest queue rarely
//! gave the disks equal shares. Writes are all I/O but reads: flushes and discards too.

use super::shared::md_streams::Streams;
use crate::member::{Member, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct WeightedWrites {
    streams: Streams,
}

impl ReadPolicy for WeightedWrites {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let is_weighted = self.streams.any_non_rotational();
        let pending = |member: &Member| {
            let excess = if is_weighted { member.writes_in_flight / 4 } else { 0 };
            member.in_flight() + excess
        };
        Choice::Mirror(self.streams.take_best(read, mirrors, ctx.members, pending))
    }

    fn on_members_change(&mut self, members: &Members) {
        self.streams.update(members);
    }
}
