//! # Idea
//! The mirror used last by this CPU while its device's queue has room, else the next that has.
//! It was called round-robin, but fills one queue before it begins the next.
//!
//! # State
//! Per CPU: the stripe it used last. Per member: what is in flight, and where the last I/O ended.
//!
//! # Cost
//! A comparison a mirror, and the table of the CPUs.
//!
//! # Good at
//! Deep sequential reads through one CPU: more than one mirror works for them, and no queue
//! starves.
//!
//! # Bad at
//! Any load that one queue can hold: it is all on one mirror, however slow that is.
//! Queues that are all full: the mirror used last has it all (in review the shortest queue was
//! proposed instead).
//! A queue as deep as the device reports, up to a thousand on NVMe, is never full in practice.
//! Defects of the origin, not copied: the end of the last I/O was kept in 32 bits, so that above 2
//! GiB every read counted as a seek; the mirror used last was an index into all stripes of the
//! chunk, so that on RAID10 the scan left the group that holds the data; and a missing device was
//! asked for its queue.
//!
//! # Origin
//! Michal Rostecki <mrostecki@suse.com>, RFC `roundrobin` on linux-btrfs, February 2021; not
//! merged. The load is reads and writes in flight, plus 1 on a rotational device if the read does
//! not begin where its last I/O ended and the array mixes rotational and other devices; its
//! settings stand at their defaults. The depth is what the kernel knows of the device's queue.
//! Ours: the stripe is counted within the read's mirrors; a dead one gives way to the next.

use super::Build;
use super::shared::cycle::next_in_cycle;
use super::shared::per_cpu::PerCpu;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
struct Rostecki {
    is_mixed: bool,
    last_stripe: PerCpu<u16>,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Rostecki::default()))
}

impl ReadPolicy for Rostecki {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let has_room = |mirror: &Mirror| {
            let member = &members[mirror.member];
            let is_seek = member.submitted_end != mirror.offset;
            let penalty = u32::from(self.is_mixed && member.config.rotational && is_seek);
            member.in_flight() + penalty < member.config.queue_depth
        };
        let last_stripe = self.last_stripe.get(read.cpu);
        let stripe = |mirror: &Mirror| u16::from(mirror.copy);
        let place = next_in_cycle(mirrors, *last_stripe, stripe, has_room);
        *last_stripe = stripe(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        let has_kind = |kind| members.iter().any(|(_, member)| member.config.rotational == kind);
        self.is_mixed = has_kind(true) && has_kind(false);
    }
}
