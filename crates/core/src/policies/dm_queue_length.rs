//! # Idea
//! Takes the member with the fewest I/O in flight; of equals, the one chosen longest ago.
//!
//! # State
//! The order in which members were last chosen.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Depth, on members of any speed: the queue of a slow member fills up, and reads go elsewhere.
//!
//! # Bad at
//! - One read at a time: queues are empty, so members take turns, however slow one is.
//! - Sequential streams on rotational members: it ignores head positions.
//!
//! # Origin
//! Linux dm-multipath, `drivers/md/dm-ps-queue-length.c`. There, paths lead to one device; here,
//! each member is a path. The list begins in the order of the members. Reads and writes count
//! alike. The original is by Stefan Bader, IBM; Kiyoshi Ueda, NEC.

use super::shared::path_list::PathList;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct QueueLength {
    paths: PathList,
}

impl ReadPolicy for QueueLength {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let queue = |mirror: &Mirror| ctx.members[mirror.member].in_flight();
        Choice::Mirror(self.paths.take_smallest(mirrors, queue))
    }

    fn on_members_change(&mut self, members: &Members) {
        self.paths.update(members);
    }
}
