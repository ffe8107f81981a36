//! # Idea
//! Never queue: the first idle member serves, whatever its speed. If none is idle, the member of
//! the shortest expected delay serves.
//!
//! # State
//! As `research/sed`: per member, a moving mean of the service time of its reads, and the time of
//! its last completion.
//!
//! # Cost
//! One comparison per mirror, and one multiplication if it is busy; one division per completion.
//!
//! # Good at
//! Members of similar speed at a depth near their number: none is idle while another has a queue.
//!
//! # Bad at
//! - One read at a time: all are idle, so the first mirror serves all.
//! - Very unequal members: an idle slow one is taken before a fast one that would complete sooner
//!   despite its queue.
//! - Sequential streams: it ignores head positions.
//!
//! # Origin
//! Linux IPVS, `net/netfilter/ipvs/ip_vs_nq.c`, by Wensong Zhang, who thanks Marko Buuri for the
//! idea; after Weinrib and Shenker, "Greed is not enough: adaptive load sharing in large
//! heterogeneous systems", INFOCOM 1988. There a weight represents the speed, and q counts active
//! connections. Here, as in `research/sed`, the service time is measured, and q is all I/O in
//! flight. Among busy members, one without a mean comes first while no read is in flight there, and
//! last while one is.

use super::shared::expected_delay::ExpectedDelay;
use super::shared::smallest::first_smallest;
use crate::io::{MemberIo, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct NeverQueue {
    delay: ExpectedDelay,
}

impl ReadPolicy for NeverQueue {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        // All idle members have the key `None`, which is less than that of every busy one.
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let is_busy = ctx.members[mirror.member].in_flight() > 0;
            is_busy.then(|| self.delay.rank(mirror, ctx.members, ctx.now))
        }))
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        self.delay.observe(io, outcome);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.delay.resize(members);
    }
}
