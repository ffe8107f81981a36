//! # Idea
//! A member is hot if it has more I/O in flight than members usually have; otherwise it is cold. Of
//! the cold members the one with the lowest latency serves; if all are hot, the one with the fewest
//! I/O in flight. A member's latency is that of its recent reads submitted at the present depth.
//!
//! # State
//! The last 128 counts of I/O in flight, over all members. Per member, the median of the last nine
//! waits at each depth, and the depth at which each read in flight was submitted.
//!
//! # Cost
//! A few array look-ups per mirror; a sort of nine numbers per completion.
//!
//! # Good at
//! Tails under load: no member gets a long queue, however fast it recently was. Counts and
//! latencies are never added up, so neither needs a weight.
//!
//! # Bad at
//! - Two members: the larger count usually is the quantile, so a member is rarely hot.
//! - Latency reacts late to the number of I/O in flight.
//! - Sequential streams: it ignores head positions, and a stream makes its member look fast.
//!
//! # Origin
//! Wydrowski, Kleinberg, Rumble and Archer, "Load is Not What You Should Balance: Introducing
//! Prequal", NSDI 2024: the hot-cold lexicographic rule with the limit at the 0.84 quantile. Its
//! probes, their pool, removal and reuse are left out, because a volume has the number of I/O in
//! flight without a probe. Added here: each decision samples the counts of all eligible members;
//! the numbers 128 and 9; a depth without samples uses the nearest depth that has some, the lower
//! of two; depths from 63 on are one; all I/O counts as in flight, only successful reads as
//! latencies. A member without a sample for a second is unknown, as in `research/sed`: if cold, it
//! is tried first, and comes last while a read is in flight there. Ties go to the first mirror.

use super::shared::moving_mean::is_fresh;
use super::shared::rank::PolicyRank;
use super::shared::smallest::first_smallest;
use super::shared::submitted_depths::SubmittedDepths;
use super::{Build, Built};
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::sliding_window::{WindowMedian, WindowQuantile};
use crate::units::Nanos;

/// Q_RIF in thousandths: the limit between cold and hot.
const HOT_ABOVE_PERMILLE: usize = 840;
/// Number of depths with separate latencies.
const DEPTHS: usize = 64;

struct Prequal {
    usual: WindowQuantile,
    servers: Vec<SampledServer>,
}

#[derive(Clone)]
struct SampledServer {
    in_flight: u32,
    submitted: SubmittedDepths,
    /// By depth, in nanoseconds.
    latency: [WindowMedian; DEPTHS],
    sampled_at: Option<Nanos>,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Built {
    let usual = WindowQuantile::new(HOT_ABOVE_PERMILLE);
    Ok(Box::new(Prequal { usual, servers: Vec::new() }))
}

impl SampledServer {
    fn new() -> SampledServer {
        let latency = std::array::from_fn(|_| WindowMedian::default());
        SampledServer {
            in_flight: 0,
            submitted: SubmittedDepths::default(),
            latency,
            sampled_at: None,
        }
    }

    /// Latency of a read submitted at this depth.
    fn latency_ns(&self, in_flight: u32, now: Nanos) -> Option<u64> {
        if !is_fresh(self.sampled_at, now) {
            return None;
        }
        let depth = (in_flight as usize).min(DEPTHS - 1);
        let below = (0..=depth).rev().find_map(|at| Some((depth - at, self.latency[at].get()?)));
        let reach = below.map_or(DEPTHS, |(distance, _)| distance).min(DEPTHS - depth);
        let above = (1..reach).find_map(|distance| self.latency[depth + distance].get());
        above.or(below.map(|(_, latency_ns)| latency_ns))
    }

    fn add(&mut self, depth: u32, wait_ns: u64, now: Nanos) {
        if !is_fresh(self.sampled_at, now) {
            self.latency.fill(WindowMedian::default());
        }
        self.sampled_at = Some(now);
        self.latency[(depth as usize).min(DEPTHS - 1)].add(wait_ns);
    }
}

impl ReadPolicy for Prequal {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        for mirror in mirrors {
            self.usual.add(ctx.members[mirror.member].in_flight());
        }
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            let in_flight = member.in_flight();
            let is_hot = in_flight > self.usual.get();
            let rank = if is_hot {
                PolicyRank::Known(u64::from(in_flight))
            } else {
                let server = &self.servers[mirror.member.get()];
                PolicyRank::new(member, server.latency_ns(in_flight, ctx.now))
            };
            (is_hot, rank)
        }))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        let server = &mut self.servers[io.member.get()];
        if io.op == Op::Read {
            server.submitted.add(io.id, server.in_flight);
        }
        server.in_flight += 1;
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        let server = &mut self.servers[io.member.get()];
        server.in_flight -= 1;
        if let Some(depth) = server.submitted.remove(io.id)
            && outcome.result.is_ok()
        {
            server.add(depth, outcome.wait.0, outcome.completed_at);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.servers.resize_with(members.len(), SampledServer::new);
    }
}
