//! # Idea
//! Hot or cold: a member is hot if it has more in flight than members mostly have. Of the cold ones
//! the one with the lowest latency serves; if all are hot, the one with the fewest in flight. A
//! member's latency is what reads lately took that found as many before them as there are now.
//!
//! # State
//! The last 128 counts of what is in flight, over all members; per member, the median of the last
//! nine waits at each depth, and how many its reads in flight found before them.
//!
//! # Cost
//! A few array look-ups a mirror; a sort of nine numbers a completion.
//!
//! # Good at
//! Tails under load: no member is buried, however fast it was a moment ago. Counts and latencies
//! are never added up, so neither needs a weight.
//!
//! # Bad at
//! Few members: of two, the larger count is mostly the quantile, so hardly one is ever hot and the
//! lower latency decides. Latency follows what is in flight late. Runs: it knows no head position,
//! and a stream's short waits make its member look fast to all.
//!
//! # Origin
//! Wydrowski, Kleinberg, Rumble and Archer, "Load is Not What You Should Balance: Introducing
//! Prequal", NSDI 2024: the hot-cold lexicographic rule with the limit at the 0.84 quantile. Its
//! probes, their pool, removal and reuse are left out: a volume knows what is in flight without
//! asking. Ours: each decision samples the counts of all eligible members; the numbers 128 and 9;
//! the nearest depth that has samples stands for one that has none, the lower of two; depths from
//! 63 on are one; all I/O counts as in flight, successful reads alone as latencies. A member of
//! which nothing was heard for a second is unknown, as in `research/sed`: cold, it is tried first,
//! and comes last while a read is on its way to it. Ties go to the first mirror.

use super::Build;
use super::shared::rank::Rank;
use super::shared::smallest::first_smallest;
use super::shared::smoothed::is_remembered;
use super::spec::PolicyError;
use crate::io::{IoId, MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::sliding_window::{WindowMedian, WindowQuantile};
use crate::units::Nanos;
use std::collections::VecDeque;

/// Q_RIF, in thousandths: the limit between cold and hot.
const HOT_ABOVE_PERMILLE: usize = 840;
/// Depths at which latencies are kept apart.
const DEPTHS: usize = 64;
/// Reads in flight of one member that are remembered with the depth they found.
const FOUND_MAX: usize = 1024;

struct Prequal {
    usual: WindowQuantile,
    servers: Vec<Server>,
}

#[derive(Clone)]
struct Server {
    in_flight: usize,
    /// Reads in flight, oldest first, with what was in flight before each.
    found: VecDeque<(IoId, usize)>,
    /// By depth, in nanoseconds.
    latency: [WindowMedian; DEPTHS],
    sampled_at: Option<Nanos>,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    let usual = WindowQuantile::new(HOT_ABOVE_PERMILLE);
    Ok(Box::new(Prequal { usual, servers: Vec::new() }))
}

impl Server {
    fn new() -> Server {
        let latency = std::array::from_fn(|_| WindowMedian::default());
        Server { in_flight: 0, found: VecDeque::new(), latency, sampled_at: None }
    }

    /// What a read would take that finds so many before it.
    fn latency_ns(&self, in_flight: u32, now: Nanos) -> Option<u64> {
        if !is_remembered(self.sampled_at, now) {
            return None;
        }
        let depth = (in_flight as usize).min(DEPTHS - 1);
        let below = (0..=depth).rev().find_map(|at| Some((depth - at, self.latency[at].get()?)));
        let reach = below.map_or(DEPTHS, |(distance, _)| distance).min(DEPTHS - depth);
        let above = (1..reach).find_map(|distance| self.latency[depth + distance].get());
        above.or(below.map(|(_, latency_ns)| latency_ns))
    }

    fn learn(&mut self, depth: usize, wait_ns: u64, now: Nanos) {
        if !is_remembered(self.sampled_at, now) {
            self.latency.fill(WindowMedian::default());
        }
        self.sampled_at = Some(now);
        self.latency[depth.min(DEPTHS - 1)].add(wait_ns);
    }
}

impl ReadPolicy for Prequal {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        for mirror in mirrors {
            self.usual.add(members[mirror.member].in_flight());
        }
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &members[mirror.member];
            let in_flight = member.in_flight();
            let is_hot = in_flight > self.usual.get();
            let rank = if is_hot {
                Rank::Known(u64::from(in_flight))
            } else {
                let server = &self.servers[mirror.member.get()];
                Rank::new(member, server.latency_ns(in_flight, ctx.now))
            };
            (is_hot, rank)
        }))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        let server = &mut self.servers[io.member.get()];
        if io.op == Op::Read {
            if server.found.len() == FOUND_MAX {
                server.found.pop_front();
            }
            server.found.push_back((io.id, server.in_flight));
        }
        server.in_flight += 1;
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        let server = &mut self.servers[io.member.get()];
        server.in_flight -= 1;
        // Completions come nearly in order, so the search is short.
        if let Some(place) = server.found.iter().position(|&(id, _)| id == io.id) {
            let (_, depth) = server.found.remove(place).expect("its place was found");
            if outcome.result.is_ok() {
                server.learn(depth, outcome.wait.0, outcome.completed_at);
            }
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.servers.resize_with(members.len(), Server::new);
    }
}
