//! # Idea
//! Takes the shortest expected delay: a read that joins q others on a member that serves µ per
//! second completes after (q + 1) / µ. The smallest wins.
//!
//! # State
//! Per member, a moving mean of the service time of its reads, which is 1 / µ, and the time of its
//! last completion.
//!
//! # Cost
//! One multiplication per mirror; one division per completion.
//!
//! # Good at
//! Members of unequal speed at any depth: each gets reads in proportion to its speed.
//!
//! # Bad at
//! - Sequential streams: it ignores head positions, so the seeks of some reads raise the mean for
//!   all.
//! - Reads of mixed sizes: a long one counts as much as a short one, in the queue and in the mean.
//! - Members that work in parallel, at low depth: their throughput shows only once their queue is
//!   filled.
//!
//! # Origin
//! Linux IPVS, `net/netfilter/ipvs/ip_vs_sed.c`, where µ is a weight given by the administrator,
//! and q counts active connections. Added here: µ is measured. The service time lasts from
//! submission, or the member's previous completion if that is later, to completion, so a wait in
//! the queue is not counted twice; only successful reads are averaged, each with weight 1/8; q is
//! all I/O in flight. A mean expires after a second without a read, and the next read replaces it.
//! Ties go to the first mirror, as they do to the first server there. The original is by Wensong
//! Zhang <wensong@linuxvirtualserver.org>.

use super::shared::expected_delay::ExpectedDelay;
use super::shared::smallest::first_smallest;
use crate::io::{MemberIo, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct ShortestExpectedDelay {
    delay: ExpectedDelay,
}

impl ReadPolicy for ShortestExpectedDelay {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let rank = |mirror: &Mirror| self.delay.rank(mirror, ctx.members, ctx.now);
        Choice::Mirror(first_smallest(mirrors, rank))
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        self.delay.observe(io, outcome);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.delay.resize(members);
    }
}
