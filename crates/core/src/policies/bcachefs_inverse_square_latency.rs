//! # Idea
//! Draws a mirror at random, in favour of low latency. The first mirror is compared with the
//! second, the winner with the third, and so on. The next one wins with probability P = L_old² /
//! (L_old² + L_new²).
//!
//! # State
//! Per member, a moving mean of the latency of its reads. A sample weighs 1/32. A sample that
//! differs from the mean by less than half of the mean is dropped 31 times in 32, to save an atomic
//! operation.
//!
//! # Cost
//! One random number for each mirror except the first.
//!
//! # Good at
//! Members whose speed changes: the slow member is still read now and then, so its latency stays up
//! to date.
//!
//! # Bad at
//! - Three copies or more: drawing one by one favours the last. Three equal members get 25, 25 and
//!   50 % of the reads, where weights of 1/L² would give a third each.
//! - Depth: latency includes the wait in the queue, so it follows the load late. The current queue
//!   is not considered.
//! - Sequential streams: it ignores head positions and breaks up a stream.
//! - Very unequal members: at ten times the latency, the slow member still gets one read in a
//!   hundred, which takes ten times as long.
//!
//! # Origin
//! bcachefs since November 2024 (before that, latencies were not squared): `ptr_better` and
//! `bch2_bkey_pick_read_device` in `fs/bcachefs/extents.c` (later `data/extents.c`), the mean in
//! `bch2_latency_acct`. Since January 2026 evacuating devices are not avoided. The preference for
//! the last copy is kept. The start is kept too: a mean begins at 0 and takes 1/32 of its first
//! sample; a member at 0 wins against any other, and of two such members the later wins. Its other
//! criteria (erasure coding, checksum retries) are part of eligibility here. Added here: pointers
//! are in the order of the chunk's stripes; a random number below 32 replaces the low five bits of
//! the clock, which are not random on a simulated clock; only successful reads count; latencies
//! above two seconds count as two seconds, because the square would overflow. The original is by
//! Kent Overstreet <kent.overstreet@gmail.com>.

use crate::io::{MemberIo, Op, Outcome};
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

/// A sample weighs 1/32, and one in 32 of the samples near the mean is used.
const WEIGHT: u64 = 32;
/// The sum of the squares of two such latencies fits 64 bits.
const LATENCY_MAX: Nanos = Nanos::from_secs(2);

#[derive(Default)]
pub(super) struct InverseSquareLatency {
    /// By member, in nanoseconds; 0 before the first read.
    latency_ns: Vec<u64>,
}

impl ReadPolicy for InverseSquareLatency {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let squared = |mirror: &Mirror| self.latency_ns[mirror.member.get()].pow(2);
        let mut picked = (0, squared(&mirrors[0]));
        for (place, mirror) in mirrors.iter().enumerate().skip(1) {
            let this = squared(mirror);
            let sum = this + picked.1;
            // With a sum of 0 any draw is allowed.
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
