//! # Idea
//! A read that takes longer than 95 % of the reads of similar length is read again from another
//! mirror, and the first answer completes it. The wait that 95 % of the reads stay below is
//! estimated for each length. At most 5 % of the reads are hedged. Both figures are parameters.
//!
//! # State
//! An estimate of the quantile for each power of two of the length; the budget; the number of
//! hedges.
//!
//! # Cost
//! A scan for the other mirror; an extra member read for each hedge.
//!
//! # Good at
//! Short stalls that no queue shows (garbage collection, error recovery of the disk): p99.9 from
//! 1800 to 74 ms for 2 % more requests in a cluster (Dean and Barroso).
//!
//! # Bad at
//! - Overload: when everything is slow there is nothing to gain, and only the budget limits the
//!   extra reads.
//! - Members that cannot withdraw a queued read: they serve the losing read as well.
//! - A member that is permanently slow: that is for the policy, or for `fail-slow`.
//!
//! # Origin
//! Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013, "hedged requests". Added here: classes
//! by length; the estimate (a step of a 64th towards each sample, weighted by the quantile); no
//! hedge before 64 reads of a class; a budget that saves up ten hedges at most, and that a stall
//! may overdraw by the reads in flight, to be paid back before the next; the other mirror is the
//! one with the fewest I/O in flight; and the hedge is sent a 32nd later than the estimate, which
//! is more than its error, so that a member whose reads all take the same time is not hedged. CACM
//! 56(2), 2013, pages 74 to 80.

use super::{Built, counters_with};
use crate::io::{IoError, MemberIo, Op, Outcome, Purpose, ReadRole};
use crate::policies::Build;
use crate::policies::shared::second_choice::shortest_of_others;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

/// Number of reads of a class before its quantile is used.
const SAMPLES_MIN: u32 = 64;
/// Cost of a hedge in the budget's hundredths of a read.
const HEDGE_COST: i64 = 100;
/// Upper bound of the saved budget.
const SAVED_MAX: i64 = 10 * HEDGE_COST;

struct Hedge {
    inner: Box<dyn ReadPolicy>,
    quantile_percent: u64,
    budget_percent: i64,
    saved: i64,
    hedges: i64,
    /// By the power of two of the length.
    classes: [LengthClass; 64],
}

/// Estimate for reads of similar length.
#[derive(Clone, Copy, Default)]
struct LengthClass {
    wait_ns: u64,
    samples: u32,
}

/// Builds the modifier from the quantile and the budget, both in percent.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    let (quantile_percent, budget_percent) = (build.values[0], build.values[1] as i64);
    let (saved, hedges, classes) = (0, 0, [LengthClass::default(); 64]);
    Ok(Box::new(Hedge { inner, quantile_percent, budget_percent, saved, hedges, classes }))
}

fn class_of(length: u64) -> usize {
    63 - length.max(1).leading_zeros() as usize
}

impl LengthClass {
    /// Moves the estimate towards a sample. In equilibrium, `quantile_percent` of the samples lie
    /// below it. The steps are relative, so the scale of waits does not matter.
    fn add(&mut self, wait_ns: u64, quantile_percent: u64) {
        if self.samples == 0 {
            self.wait_ns = wait_ns;
        }
        self.samples = self.samples.saturating_add(1);
        let step = self.wait_ns / 64 + 1;
        if wait_ns > self.wait_ns {
            self.wait_ns += (step * quantile_percent).div_ceil(100);
        } else {
            self.wait_ns -= (step * (100 - quantile_percent) / 100).min(self.wait_ns);
        }
    }
}

impl ReadPolicy for Hedge {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.saved = (self.saved + self.budget_percent).min(SAVED_MAX);
        let class = self.classes[class_of(read.length)];
        match self.inner.choose(read, mirrors, ctx) {
            Choice::Mirror(first) if self.saved >= HEDGE_COST && class.samples >= SAMPLES_MIN => {
                let backup = shortest_of_others(mirrors, ctx.members, first);
                Choice::Hedge { first, backup, after: Nanos(class.wait_ns + class.wait_ns / 32) }
            }
            other => other,
        }
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.inner.on_submit(io, ctx);
        if io.role == ReadRole::Extra {
            self.saved -= HEDGE_COST;
            self.hedges += 1;
        }
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.inner.on_complete(io, outcome, ctx);
        let class = &mut self.classes[class_of(io.length)];
        let is_sample =
            io.op == Op::Read && io.purpose == Purpose::User && io.role != ReadRole::Extra;
        match outcome.result {
            Ok(()) if is_sample => class.add(outcome.wait.0, self.quantile_percent),
            // Its hedge was faster: the read would have waited longer than this.
            Err(IoError::Cancelled) if is_sample => {
                class.add(outcome.wait.0, self.quantile_percent);
            }
            _ => {}
        }
    }

    fn counters(&self) -> Vec<Counter> {
        counters_with(self.inner.as_ref(), "hedges", self.hedges)
    }
}
