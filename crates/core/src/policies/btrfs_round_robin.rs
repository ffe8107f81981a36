//! # Idea
//! Mirrors take turns by the number of blocks read from the whole volume. After every 256 KiB (or
//! the given number of bytes) the mirror on the next higher devid serves.
//!
//! # State
//! One 32-bit counter of 4 KiB blocks, increased when a read of any purpose is submitted.
//!
//! # Cost
//! Two divisions and a ranking of the devids. In the kernel also a sum over all CPUs.
//!
//! # Good at
//! Equal load on equal members at depth. Exercising every copy.
//!
//! # Bad at
//! - Members of unequal speed: throughput is bound by the slowest.
//! - Requests whose size is a multiple of a whole round: with two mirrors and 256 KiB, reads of 512
//!   KiB all go to one of them; with 192 KiB, reads of 128 KiB split 2 to 1.
//! - Several streams: they share the counter, so only a single reader gets contiguous turns.
//! - Defects of the original, not copied: a turn of 4 GiB or more does not fit its 32-bit variable
//!   and can become a division by zero, and so can a turn below one sector given at boot.
//!
//! # Origin
//! Linux btrfs 6.14, `btrfs_read_rr` in `fs/btrfs/volumes.c`. There all copies take turns in the
//! order of their devids, and the turn of a dead copy goes to the lowest live stripe. A policy here
//! sees only eligible mirrors, so a missing copy is assumed to be the last by devid. The shares are
//! those of the kernel; the position of the missing turn in the round may differ. The original is
//! by Anand Jain <anand.jain@oracle.com>.

use super::shared::block_rotation::{BlockRotation, nth_by_devid};
use super::shared::lowest_live::or_lowest_live;
use super::{Build, Built};
use crate::io::MemberIo;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};

struct RoundRobin {
    rotation: BlockRotation,
}

/// Builds the policy from the bytes of a turn.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(RoundRobin { rotation: BlockRotation::new(build.values[0]) }))
}

impl ReadPolicy for RoundRobin {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let turn = self.rotation.turn(u32::from(read.copies));
        Choice::Mirror(or_lowest_live(nth_by_devid(mirrors, ctx.members, turn, |_| true)))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        self.rotation.count(io);
    }

    fn counters(&self) -> Vec<Counter> {
        let value = i64::from(self.rotation.blocks_read());
        vec![Counter { member: None, name: "blocks_read", value }]
    }
}
