//! # Idea
//! Mirrors take turns by the number of reads of the whole volume. After every read (or after as
//! many reads as the given bytes hold sectors) the mirror on the next higher devid serves.
//!
//! # State
//! One counter of decisions.
//!
//! # Cost
//! Two divisions and a ranking of the devids.
//!
//! # Good at
//! Equal load on equal members, whatever the size of the reads. Unlike the later
//! `btrfs/round-robin`, it cannot alias with the size of the requests.
//!
//! # Bad at
//! - Members of unequal speed.
//! - What it calls contiguous bytes is true for reads of one sector only: 256 KiB are 64 reads of
//!   any size.
//!
//! # Origin
//! linux-btrfs, patch v2 "btrfs: introduce RAID1 round-robin read balancing" of October 2024,
//! `btrfs_read_rotation`; not merged in this form. The first read counts as one. Its counter is a
//! signed integer that would overflow; here it is unsigned and wraps. The original is by Anand Jain
//! <anand.jain@oracle.com>.

use super::shared::block_rotation::nth_by_devid;
use super::shared::lowest_live::or_lowest_live;
use super::{Build, Built};
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::SECTOR_BYTES;

struct Rotation {
    reads_per_turn: u64,
    reads: u32,
}

/// Builds the policy from the bytes of a turn.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Rotation { reads_per_turn: build.values[0] / SECTOR_BYTES, reads: 0 }))
}

impl ReadPolicy for Rotation {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.reads = self.reads.wrapping_add(1);
        let slot = u64::from(self.reads) / self.reads_per_turn;
        let turn = (slot % u64::from(read.copies)) as u32;
        Choice::Mirror(or_lowest_live(nth_by_devid(mirrors, ctx.members, turn, |_| true)))
    }

    fn counters(&self) -> Vec<Counter> {
        vec![Counter { member: None, name: "reads", value: i64::from(self.reads) }]
    }
}
