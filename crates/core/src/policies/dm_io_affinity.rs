//! # Idea
//! The CPU that submits the read selects the mirror.
//!
//! # State
//! None.
//!
//! # Cost
//! One division.
//!
//! # Good at
//! Equal members and readers spread over the CPUs: no counters are shared, and a CPU that reads a
//! stream keeps it on one mirror.
//!
//! # Bad at
//! - One reader, or readers on few CPUs: some mirrors are never read.
//! - Unequal members: a CPU mapped to the slow member always gets it.
//! - A missing mirror: all of its share goes to one of the others.
//!
//! # Origin
//! Mike Christie, Linux dm-multipath 5.11 and later, `drivers/md/dm-ps-io-affinity.c`. There the
//! administrator assigns each path a set of CPUs, for paths whose interrupts a CPU handles. Members
//! here have no CPUs, so CPU c gets the chunk's stripe c modulo the number of copies. There, if
//! that path is dead, the first CPU of the same NUMA node with a live path decides, then one of any
//! node. Here there is one node, so the lowest live stripe serves.

use super::shared::lowest_live::stripe_of;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct IoAffinity;

impl ReadPolicy for IoAffinity {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(stripe_of(u64::from(read.cpu), read, mirrors))
    }
}
