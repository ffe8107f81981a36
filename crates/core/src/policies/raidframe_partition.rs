//! # Idea
//! The primary serves the lower half of the addresses, the other disk the upper half.
//!
//! # State
//! None.
//!
//! # Cost
//! One division.
//!
//! # Good at
//! Random reads over a whole pair of equal rotational members: each head seeks half as far.
//!
//! # Bad at
//! - Data in one half, and one sequential stream: one member does all the work.
//! - Unequal members.
//! - More than two copies: the third is not read.
//!
//! # Origin
//! NetBSD RAIDframe, `rf_SelectMirrorDiskPartition` in `rf_dagutils.c`, by Carnegie Mellon
//! University; compiled in for its declustered layouts only. If one disk is dead the other serves,
//! and while the parity is dirty the primary does: here, that is eligibility. It handles two disks
//! and uses the address on the primary. Added here: any number of disks, as the primary the member
//! of lowest index, and the next one as its mirror.

use super::shared::address_partition::mirror_of_partition;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct RaidframePartition;

impl ReadPolicy for RaidframePartition {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(mirror_of_partition(mirrors, ctx.members, 2))
    }
}
