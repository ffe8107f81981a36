//! # Idea
//! Each request goes to the next mirror, in the order of the members.
//!
//! # State
//! The round-robin position.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Equal members with random reads.
//!
//! # Bad at
//! - Sequential streams, which it breaks up.
//! - Unequal members: throughput is bound by the slowest.
//!
//! # Origin
//! Linux NVMe multipath, `nvme_round_robin_path` in `drivers/nvme/host/multipath.c`. It keeps a
//! position for each NUMA node; here there is one node. All paths are optimized. The original is by
//! Hannes Reinecke <hare@suse.de>.

use super::shared::round_robin::MemberCursor;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct RoundRobin {
    cursor: MemberCursor,
}

impl ReadPolicy for RoundRobin {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(self.cursor.advance(mirrors))
    }
}
