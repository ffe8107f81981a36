//! # Idea
//! The reader's process id modulo the number of copies selects the stripe. One process stays on one
//! mirror of a chunk; several processes spread over the mirrors.
//!
//! # State
//! None.
//!
//! # Cost
//! One division.
//!
//! # Good at
//! Many processes of equal demand. A single sequential reader stays on one member, where the
//! read-ahead of drive and system helps it.
//!
//! # Bad at
//! - One process: which member it gets is random, and the other copies are idle.
//! - Members of unequal speed or load: neither is considered.
//! - Defect of the original, kept: the share of a missing device goes to the lowest live stripe
//!   alone, which skews three and four copies.
//!
//! # Origin
//! Linux btrfs, `find_live_mirror` in `fs/btrfs/volumes.c`; the default of every version. The
//! preferred stripe is counted over all copies. If it cannot be read, the lowest live stripe
//! serves.

use super::shared::lowest_live::stripe_of;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Pid;

impl ReadPolicy for Pid {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(stripe_of(read.stream, read, mirrors))
    }
}
