//! # Idea
//! Mirrors take turns, by the number of blocks read from the whole volume: after every 256 KiB (or
//! the given number of bytes) the mirror on the next higher devid serves.
//!
//! # State
//! One 32-bit count of 4 KiB blocks, moved by every read of any purpose when it is submitted.
//!
//! # Cost
//! Two divisions and a ranking of the devids. In the kernel, a sum over all CPUs as well.
//!
//! # Good at
//! Keeping equal members equally busy at depth; exercising every copy.
//!
//! # Bad at
//! Members of unequal speed: all run at the pace of the slowest.
//! Requests whose size is a multiple of a whole round: with two mirrors and 256 KiB, reads of
//! 512 KiB all go to one of them; with 192 KiB, reads of 128 KiB split 2 to 1.
//! Several streams: the count is common, so the contiguity holds for a single reader only.
//! Defects of the origin, not copied: a turn of 4 GiB or more does not fit its 32-bit variable and
//! can become a division by zero, as can a turn below one sector given at boot.
//!
//! # Origin
//! Linux btrfs 6.14, `btrfs_read_rr` in `fs/btrfs/volumes.c`. There the turn is taken among all
//! copies ordered by devid, and a dead one's turn falls to the lowest live stripe. A policy sees
//! eligible mirrors only, so a missing copy is taken to be the last by devid: the shares are those
//! of the kernel, the place of the missing turn in the round may not be.

use super::Build;
use super::shared::live_stripe::or_lowest_live;
use super::shared::rotation::{Rotation, nth_by_devid};
use super::spec::PolicyError;
use crate::io::MemberIo;
use crate::member::Members;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};

struct RoundRobin {
    rotation: Rotation,
}

/// Builds the policy from the bytes of a turn.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(RoundRobin { rotation: Rotation::new(build.values[0]) }))
}

impl ReadPolicy for RoundRobin {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let turn = self.rotation.turn(u32::from(read.copies));
        Choice::Mirror(or_lowest_live(nth_by_devid(mirrors, members, turn, |_| true)))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        self.rotation.count(io);
    }

    fn counters(&self) -> Vec<Counter> {
        let value = i64::from(self.rotation.blocks_read());
        vec![Counter { member: None, name: "blocks_read", value }]
    }
}
