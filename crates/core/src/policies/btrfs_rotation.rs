//! # Idea
//! Mirrors take turns, by the number of reads of the whole volume: after every read (or after as
//! many as the given bytes hold sectors) the mirror on the next higher devid serves.
//!
//! # State
//! One count of decisions.
//!
//! # Cost
//! Two divisions and a ranking of the devids.
//!
//! # Good at
//! Keeping equal members equally busy, whatever the size of the reads: unlike the later
//! `btrfs/round-robin` it cannot fall into step with them.
//!
//! # Bad at
//! Members of unequal speed. What it calls contiguous bytes holds for reads of one sector only:
//! 256 KiB are 64 reads, of whatever size.
//!
//! # Origin
//! linux-btrfs, patch v2 "btrfs: introduce RAID1 round-robin read balancing" of October 2024, its
//! `btrfs_read_rotation`; not merged in this form. The first read counts as one. Its count is a
//! signed integer that would overflow; ours wraps without a sign.

use super::Build;
use super::shared::live_stripe::or_lowest_live;
use super::shared::rotation::nth_by_devid;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::SECTOR_BYTES;

struct Rotation {
    reads_per_turn: u64,
    reads: u32,
}

/// Builds the policy from the bytes of a turn.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Rotation { reads_per_turn: build.values[0] / SECTOR_BYTES, reads: 0 }))
}

impl ReadPolicy for Rotation {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        self.reads = self.reads.wrapping_add(1);
        let slot = u64::from(self.reads) / self.reads_per_turn;
        let turn = (slot % u64::from(read.copies)) as u32;
        Choice::Mirror(or_lowest_live(nth_by_devid(mirrors, members, turn, |_| true)))
    }

    fn counters(&self) -> Vec<Counter> {
        vec![Counter { member: None, name: "reads", value: i64::from(self.reads) }]
    }
}
