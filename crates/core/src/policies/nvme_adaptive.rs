//! # Idea
//! Members take turns whose lengths are inverse to their read latencies: 64 reads are shared out by
//! weight, at least one to each.
//!
//! # State
//! Per member: the sum and number of the latencies of a batch of 15 s, their smoothed mean, and the
//! weight computed from it. Per CPU: the current member, and the reads that are left to each.
//!
//! # Cost
//! One comparison per mirror; more when a turn ends. One division per member every 15 s.
//!
//! # Good at
//! Paths of unequal latency: with two paths, one slower by 30 ms, it read 350 MiB/s, queue depth
//! 230 and round-robin 105 (cover letter of the series).
//!
//! # Bad at
//! - Equal members: no gain.
//! - Change: a new mean weighs one eighth, every 15 s.
//! - Depth: the queue does not count, only the latency that results from it.
//! - Mixed sizes: a member that is sent long reads looks slow (from its review).
//! - Very unequal members: at depth one, the slowest gets a 64th of the reads, most of the time.
//!
//! # Origin
//! Nilay Shroff <nilay@linux.ibm.com>, RFC v5 of an `adaptive` iopolicy on linux-nvme, November
//! 2025; not merged. v6 of May 2026 calls it `latency`, with the same weights. There, reads and
//! writes have separate statistics; only reads are chosen here. Reads of more than a second do not
//! count. A member without a mean keeps its turn until its first read completes, which is a batch
//! of its own; a failed member loses its mean. Added here: a member not yet measured has no score,
//! so its weight is 1; all CPUs share the means, because a completion does not name its CPU.

use super::shared::per_cpu::PerCpu;
use super::shared::round_robin::next_in_cycle;
use crate::io::{IoError, MemberIo, Op, Outcome};
use crate::member::{MemberIndex, MemberState, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

const BATCH: Nanos = Nanos::from_secs(15);
const LATENCY_MAX: Nanos = Nanos::from_secs(1);
const ROUND_READS: u64 = 64;

#[derive(Default)]
pub(super) struct Adaptive {
    paths: Vec<Path>,
    turns: PerCpu<Turns>,
}

#[derive(Clone, Default)]
struct Path {
    batch_ns: u64,
    batch_reads: u64,
    began_at: Option<Nanos>,
    mean_ns: u64,
    weight: u32,
}

/// Reads that are left in the round of a CPU.
#[derive(Default)]
struct Turns {
    current: u16,
    credits: Vec<u32>,
}

impl Adaptive {
    /// Adds the mean of a finished batch to the member's, and recomputes all weights.
    fn end_batch(&mut self, member: MemberIndex) {
        let path = &mut self.paths[member.get()];
        let batch_mean_ns = path.batch_ns / path.batch_reads;
        (path.batch_ns, path.batch_reads) = (0, 0);
        path.mean_ns = match path.mean_ns {
            0 => batch_mean_ns,
            mean_ns => (7 * mean_ns + batch_mean_ns) / 8,
        };
        let score = |path: &Path| LATENCY_MAX.0.checked_div(path.mean_ns).unwrap_or(0);
        let total: u64 = self.paths.iter().map(score).sum();
        for path in &mut self.paths {
            path.weight = (ROUND_READS * score(path) / total).max(1) as u32;
        }
    }
}

impl ReadPolicy for Adaptive {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let turns = self.turns.get(read.cpu);
        turns.credits.resize(self.paths.len(), 0);
        loop {
            let index = |mirror: &Mirror| mirror.member.0;
            let place = next_in_cycle(mirrors, turns.current, index, |_| true);
            turns.current = mirrors[place].member.0;
            let weight = self.paths[turns.current as usize].weight;
            let credit = &mut turns.credits[turns.current as usize];
            if weight == 0 {
                return Choice::Mirror(place);
            }
            if *credit > 0 {
                *credit -= 1;
                return Choice::Mirror(place);
            }
            // Its turn is over: its credit for the next round.
            *credit = weight;
            turns.current += 1;
        }
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        let is_read = io.op == Op::Read && outcome.result != Err(IoError::Cancelled);
        if !is_read || outcome.wait > LATENCY_MAX || outcome.wait == Nanos::ZERO {
            return;
        }
        let path = &mut self.paths[io.member.get()];
        path.batch_ns += outcome.wait.0;
        path.batch_reads += 1;
        if path.began_at.is_none_or(|at| ctx.now.saturating_sub(at) >= BATCH) {
            path.began_at = Some(ctx.now);
            self.end_batch(io.member);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.paths.resize(members.len(), Path::default());
        for (index, member) in members.iter() {
            if member.state == MemberState::Failed {
                self.paths[index.get()] = Path::default();
            }
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let show = |(index, path): (usize, &Path)| Counter {
            member: Some(MemberIndex(index as u16)),
            name: "weight",
            value: i64::from(path.weight),
        };
        self.paths.iter().enumerate().map(show).collect()
    }
}
