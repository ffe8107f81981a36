//! # Idea
//! The reader's process id modulo the number of copies picks the stripe, so one process keeps to
//! one mirror of a chunk and several processes spread.
//!
//! # State
//! None.
//!
//! # Cost
//! One division.
//!
//! # Good at
//! Many processes of equal demand. A single sequential reader stays on one member, where drive and
//! system read-ahead help it.
//!
//! # Bad at
//! One process: it is a coin toss which member it gets, and the other copies idle. Members of
//! unequal speed, or one that is busy: nothing about them is heeded.
//! Defect of the origin, kept: the share of a missing device falls on the lowest live stripe alone,
//! which skews three and four copies.
//!
//! # Origin
//! Linux btrfs, `find_live_mirror` in `fs/btrfs/volumes.c`; the default of every version. The
//! preferred stripe is counted over all copies; if it cannot be read, the lowest live one serves.

use super::Build;
use super::shared::live_stripe::stripe_of;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Pid;

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Pid))
}

impl ReadPolicy for Pid {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::Mirror(stripe_of(read.stream, read, mirrors))
    }
}
