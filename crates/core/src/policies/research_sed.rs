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
use super::shared::rank::Rank;
use super::shared::serial_service::SerialService;
use super::shared::smallest::first_smallest;
use super::shared::smoothed::Smoothed;
use super::spec::PolicyError;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
struct ShortestExpectedDelay {
    serial: SerialService,
    /// By member, in nanoseconds.
    service: Vec<Smoothed>,
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
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &members[mirror.member];
            let service_ns = self.service[mirror.member.get()].get(ctx.now);
            Rank::new(member, service_ns.map(|ns| ns * (u64::from(member.in_flight()) + 1)))
        }))
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        let service = self.serial.observe(io, outcome);
        if io.op == Op::Read && outcome.result.is_ok() {
            self.service[io.member.get()].add(service.0, outcome.completed_at);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.serial.resize(members);
        self.service.resize(members.len(), Smoothed::default());
    }
}
