//! # Idea
//! Draws two mirrors at random and takes the lower load: a member's latency, times the number of
//! I/O in flight plus one. A read slower than the stored latency replaces it at once. Faster reads
//! lower it slowly, and it decays while no read completes.
//!
//! # State
//! Per member, the latency in nanoseconds and when it was last updated.
//!
//! # Cost
//! Two random numbers and two exponentials.
//!
//! # Good at
//! Members that stall: one slow read turns the next reads away, and the decay brings the member
//! back.
//!
//! # Bad at
//! - Members whose latency varies by nature: on a disk the peak is the longest seek of the last ten
//!   seconds, not a typical one.
//! - The latency includes the wait in the queue, which is then counted twice.
//! - Sequential streams: it ignores head positions.
//! - A member that is not read decays to zero and is read again, however slow it was. A member that
//!   is often compared hardly learns from fast reads, because each comparison counts as an instant
//!   answer.
//!
//! # Origin
//! Twitter Finagle, `finagle-core/src/main/scala/com/twitter/finagle/loadbalancer/PeakEwma.scala`,
//! with the two random choices of its `P2C`; decay time 10 s, its default. That a comparison decays
//! the latency is kept. Added here: only successful reads are observed, all I/O in flight counts as
//! pending, and an unknown member counts as tried while a *read* is in flight there.

use super::shared::rank::PolicyRank;
use super::shared::two_choices::better_of_two;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

/// The latency falls to 1/e in this time.
const DECAY_TIME: Nanos = Nanos::from_secs(10);

#[derive(Default)]
pub(super) struct PeakEwma {
    peaks: Vec<Peak>,
}

/// A float, because a decay every few microseconds is far less than a nanosecond.
#[derive(Clone, Default)]
struct Peak {
    /// `None` before the first read.
    cost_ns: Option<f64>,
    updated_at: Nanos,
}

impl Peak {
    fn observe(&mut self, wait_ns: f64, now: Nanos) {
        let kept = decay(now.saturating_sub(self.updated_at));
        self.cost_ns = Some(match self.cost_ns {
            Some(cost_ns) if wait_ns <= cost_ns => cost_ns * kept + wait_ns * (1.0 - kept),
            _ => wait_ns,
        });
        self.updated_at = now;
    }

    /// Decays the latency to this instant, as an answer without delay would, and returns the load.
    /// Whole nanoseconds are precise enough for a comparison, and have a total order.
    fn decayed_load(&mut self, in_flight: u32, now: Nanos) -> Option<u64> {
        self.cost_ns?;
        self.observe(0.0, now);
        self.cost_ns.map(|cost_ns| (cost_ns * (f64::from(in_flight) + 1.0)) as u64)
    }
}

/// e to the power of -`elapsed` / [`DECAY_TIME`], by halving, a short series and squaring. Unlike
/// the platform's exponential function, it gives the same bits everywhere.
fn decay(elapsed: Nanos) -> f64 {
    let mut x = elapsed.0 as f64 / DECAY_TIME.0 as f64;
    let mut squarings = 0;
    while x > 1.0 / 64.0 {
        x /= 2.0;
        squarings += 1;
    }
    // The omitted terms are below 1e-11.
    let series = 1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0)));
    (0..squarings).fold(series, |power, _| power * power)
}

impl ReadPolicy for PeakEwma {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let now = ctx.now;
        Choice::Mirror(better_of_two(mirrors, ctx.rng, |mirror| {
            let member = &ctx.members[mirror.member];
            let load = self.peaks[mirror.member.get()].decayed_load(member.in_flight(), now);
            PolicyRank::new(member, load)
        }))
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        if io.op == Op::Read && outcome.result.is_ok() {
            let peak = &mut self.peaks[io.member.get()];
            peak.observe(outcome.wait.0 as f64, outcome.completed_at);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.peaks.resize(members.len(), Peak::default());
    }
}
