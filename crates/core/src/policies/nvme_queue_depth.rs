//! # Idea
//! Takes the member with the fewest I/O in flight; of equals, the one of lowest index.
//!
//! # State
//! None of its own; it uses the statistics of the members.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Depth, on members of any speed: the queue of a slow member fills up, and reads go elsewhere.
//!
//! # Bad at
//! - One read at a time: queues are empty, so the first member serves, even if it is the slow one.
//! - Sequential streams on rotational members: it ignores head positions.
//!
//! # Origin
//! Linux NVMe multipath 6.11 and later, `drivers/nvme/host/multipath.c`. It counts commands on the
//! controller, here those of the member, and takes an idle path at once, which is the same choice.
//! All paths are optimized; their list is in the order of the members. The original is by Thomas
//! Song, John Meneghini.

use super::shared::smallest::first_smallest;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct QueueDepth;

impl ReadPolicy for QueueDepth {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            (ctx.members[mirror.member].in_flight(), mirror.member)
        }))
    }
}
