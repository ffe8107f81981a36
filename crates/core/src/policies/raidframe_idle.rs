//! # Idea
//! Takes the shortest queue; of equals, the disk whose last submitted I/O is nearest to the read.
//!
//! # State
//! None of its own; it uses the statistics of the members.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Depth, on members of any speed; position helps where queues are equal.
//!
//! # Bad at
//! - One sequential stream at depth: the queue is considered before position, so the stream is
//!   broken up.
//! - Unequal members, one read at a time: queues are empty and only position decides.
//!
//! # Origin
//! NetBSD RAIDframe, `rf_SelectMirrorDiskIdle` in `rf_dagutils.c`, by Carnegie Mellon University.
//! The queue is waiting and in-flight requests, the position that of the last request taken from
//! it: here, the end of the last I/O submitted. It handles two disks and prefers the primary. Added
//! here: any number of disks, and as the primary the member of lowest index.

use super::shared::smallest::first_smallest;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Idle;

impl ReadPolicy for Idle {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            (member.in_flight(), member.submitted_end.abs_diff(mirror.offset), mirror.member)
        }))
    }
}
