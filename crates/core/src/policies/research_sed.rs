//! # Idea
//! The shortest expected delay: a read that joins q others on a member that serves µ a second is
//! done after (q + 1) / µ. The smallest wins.
//!
//! # State
//! Per member, a moving mean of the service time of its reads, which is 1 / µ, and when it last
//! completed anything.
//!
//! # Cost
//! One multiplication a mirror; one division a completion.
//!
//! # Good at
//! Members of unequal speed at any depth: each gets work in proportion to what it can do.
//!
//! # Bad at
//! Runs: it knows no head position, so one member's seeks are laid to all its reads.
//! Reads of mixed sizes: a long one counts as much as a short one, in the queue and in the mean.
//! Parallel members at low depth: their throughput is only seen once their queue is filled.
//!
//! # Origin
//! Linux IPVS, `net/netfilter/ipvs/ip_vs_sed.c`, where µ is a weight given by the administrator,
//! and q counts active connections. Ours: µ is measured. The time of service is told from
//! completions (from submission, or the member's previous completion if that is later, to
//! completion), so a wait in the queue is not counted twice; successful reads alone are averaged,
//! each with weight 1/8; q is all I/O in flight. After a second without a read a mean is forgotten,
//! and the next read measures the member anew. Ties go to the first mirror, as they do to the first
//! server there.

use super::Build;
use super::shared::expected_delay::ExpectedDelay;
use super::shared::smallest::first_smallest;
use super::spec::PolicyError;
use crate::io::{MemberIo, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
struct ShortestExpectedDelay {
    delay: ExpectedDelay,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(ShortestExpectedDelay::default()))
}

impl ReadPolicy for ShortestExpectedDelay {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        let rank = |mirror: &Mirror| self.delay.rank(mirror, members, ctx.now);
        Choice::Mirror(first_smallest(mirrors, rank))
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        self.delay.observe(io, outcome);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.delay.resize(members);
    }
}
