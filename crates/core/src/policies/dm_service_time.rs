//! # Idea
//! Takes the member with the fewest bytes in flight; of equals, the one chosen longest ago.
//!
//! # State
//! The order in which members were last chosen.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Depth with requests of mixed sizes, on members that are bound by their transfer rate.
//!
//! # Bad at
//! - One read at a time: queues are empty, so members take turns, however slow one is.
//! - Rotational members: a small random read costs them as much as a long one, but counts less.
//!
//! # Origin
//! Linux dm-multipath, `drivers/md/dm-ps-service-time.c`. There, paths lead to one device; here,
//! each member is a path. The list begins in the order of the members. The default of dm-multipath.
//! It compares bytes in flight plus the request's bytes, divided by a relative throughput that the
//! administrator assigns to each path. With the default, 1 for all, the request's own bytes cancel
//! out. Other throughputs are left out, because members have none. The original is by Kiyoshi Ueda,
//! Jun'ichi Nomura, NEC.

use super::shared::path_list::PathList;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct ServiceTime {
    paths: PathList,
}

impl ReadPolicy for ServiceTime {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let queue = |mirror: &Mirror| ctx.members[mirror.member].bytes_in_flight;
        Choice::Mirror(self.paths.take_smallest(mirrors, queue))
    }

    fn on_members_change(&mut self, members: &Members) {
        self.paths.update(members);
    }

    fn explain(&self, _read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        let reason = |mirror: &Mirror| {
            let member = &ctx.members[mirror.member];
            MirrorScore::new("bytes_in_flight", member.bytes_in_flight)
                .with("in_flight", member.in_flight())
        };
        mirrors.iter().map(reason).collect()
    }
}
