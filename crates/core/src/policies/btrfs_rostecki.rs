//! # Idea
//! Takes the mirror that this CPU used last while its device's queue is not full, else the next
//! mirror whose queue is not full. It was called round-robin, but it fills one queue before it uses
//! the next.
//!
//! # State
//! Per CPU: the stripe used last. Per member: the number of I/O in flight, and where the last I/O
//! ended.
//!
//! # Cost
//! One comparison per mirror, and a look-up in the table of CPUs.
//!
//! # Good at
//! Deep sequential reads on one CPU: more than one mirror serves them, and queues stay full.
//!
//! # Bad at
//! - Any load that fits into one queue: all of it goes to one mirror, however slow that is.
//! - Queues that are all full: the mirror used last gets all reads (its reviewers proposed the
//!   shortest queue instead).
//! - A queue as deep as the device reports, up to a thousand on NVMe, is never full in practice.
//! - Defects of the original, not copied: the end of the last I/O was a 32-bit number, so above 2
//!   GiB every read counted as a seek; the mirror used last was an index into all stripes of the
//!   chunk, so on RAID10 the scan left the group that holds the data; the queue of a missing device
//!   was read.
//!
//! # Origin
//! Michal Rostecki <mrostecki@suse.com>, RFC `roundrobin` on linux-btrfs, February 2021; not
//! merged. The load is the number of reads and writes in flight, plus 1 on a rotational device if
//! the read does not begin where its last I/O ended and the array mixes rotational and other
//! devices. Its settings have their default values. The depth is what the kernel knows of the
//! device's queue. Added here: the stripe is counted within the read's mirrors; a dead one is
//! replaced by the next.

use super::shared::per_cpu::PerCpu;
use super::shared::round_robin::next_in_cycle;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Rostecki {
    is_mixed: bool,
    last_stripe: PerCpu<u16>,
}

impl ReadPolicy for Rostecki {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let is_not_full = |mirror: &Mirror| {
            let member = &ctx.members[mirror.member];
            let is_seek = member.submitted_end != mirror.offset;
            let penalty = u32::from(self.is_mixed && member.config.rotational && is_seek);
            member.in_flight() + penalty < member.config.queue_depth
        };
        let last_stripe = self.last_stripe.get(read.cpu);
        let stripe = |mirror: &Mirror| u16::from(mirror.copy);
        let place = next_in_cycle(mirrors, *last_stripe, stripe, is_not_full);
        *last_stripe = stripe(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        let has_kind = |kind| members.iter().any(|(_, member)| member.config.rotational == kind);
        self.is_mixed = has_kind(true) && has_kind(false);
    }
}
