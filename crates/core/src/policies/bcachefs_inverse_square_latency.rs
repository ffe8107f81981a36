//! # Idea
//! A draw, biased in favour of the faster member by the square of its latency: copy after copy, the
//! next wins over the one held so far with P = L_old² / (L_old² + L_new²).
//!
//! # State
//! Per member, a moving mean of the latency of its reads: a sample weighs 1/32, and one that
//! differs from the mean by less than half of it is let go 31 times in 32, to save an atomic
//! operation.
//!
//! # Cost
//! One random number for each mirror but the first.
//!
//! # Good at
//! Members that change: the slow one goes on being read, seldom, so its latency stays known.
//!
//! # Bad at
//! Three copies or more: drawing one by one favours the last. Three equal ones get 25, 25 and 50 %,
//! where weights of 1/L² would give a third each. Depth: the latency includes the wait in the
//! queue, so it follows the load late, and nothing is known of the queue now. Runs: it knows no
//! head position and tears a stream apart. Very unequal members: at ten times the latency the slow
//! one still gets a read in a hundred, which takes ten times as long.
//!
//! # Origin
//! bcachefs in Linux 6.14 and later (before, latencies were not squared): `ptr_better` and
//! `bch2_bkey_pick_read_device` in `fs/bcachefs/extents.c` (later `data/extents.c`), the mean in
//! `bch2_latency_acct`. The bias for the last copy is kept. So is the start: a mean begins at 0 and
//! takes up 1/32 of its first sample; a member at 0 wins over any other, and of two such the later.
//! Its other ranks (evacuating devices, erasure coding, checksum retries) are eligibility here.
//! Ours: pointers come in the order of the chunk's stripes; a die of 32 stands for the low five
//! bits of the clock, which are not random on a simulated one; successful reads alone count; a
//! latency counts as no more than two seconds, where the square would overflow there.

use super::Build;
use super::spec::PolicyError;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

/// A sample weighs one in this many, and a sample near the mean is taken in once in this many.
const WEIGHT: u64 = 32;
/// The sum of the squares of two of these fits 64 bits.
const LATENCY_MAX: Nanos = Nanos::from_secs(2);

#[derive(Default)]
struct InverseSquareLatency {
    /// By member, in nanoseconds; 0 before the first read.
    latency_ns: Vec<u64>,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(InverseSquareLatency::default()))
}

impl ReadPolicy for InverseSquareLatency {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        let squared = |mirror: &Mirror| self.latency_ns[mirror.member.get()].pow(2);
        let mut picked = (0, squared(&mirrors[0]));
        for (place, mirror) in mirrors.iter().enumerate().skip(1) {
            let this = squared(mirror);
            let sum = this + picked.1;
            // A draw below 0 is any number there.
            if sum == 0 || ctx.rng.below(sum) > this {
                picked = (place, this);
            }
        }
        Choice::Mirror(picked.0)
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        if io.op != Op::Read || outcome.result.is_err() {
            return;
        }
        let sample = outcome.wait.min(LATENCY_MAX).0;
        let mean = &mut self.latency_ns[io.member.get()];
        let is_near = mean.abs_diff(sample) < *mean / 2;
        if !is_near || ctx.rng.below(WEIGHT) == 0 {
            *mean = ((WEIGHT - 1) * *mean + sample) / WEIGHT;
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.latency_ns.resize(members.len(), 0);
    }

    fn counters(&self) -> Vec<Counter> {
        let show = |(index, &latency_ns): (usize, &u64)| Counter {
            member: Some(MemberIndex(index as u16)),
            name: "latency_ns",
            value: latency_ns as i64,
        };
        self.latency_ns.iter().enumerate().map(show).collect()
    }
}
