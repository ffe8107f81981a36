//! # Idea
//! A member whose reads take more than twice (or the given percentage) as long as those of its
//! fastest peer is not read for ten seconds, then tried again. Peers are the members of its kind,
//! rotational or not, because an HDD may be slower than an SSD. With parity, what an excluded
//! member holds is recovered from others, as far as there are columns to spare.
//!
//! # State
//! Per member a moving mean of the wait of reads, the number of samples in it, and until when it is
//! excluded.
//!
//! # Cost
//! One comparison per mirror; each 100 ms a scan of the members.
//!
//! # Good at
//! A disk that fails by becoming slow, under a policy that does not consider latency.
//!
//! # Bad at
//! - Members of one kind that differ by design: a 5400 rpm disk mirrored with a 7200 rpm one is
//!   near the ratio, with a 15,000 rpm one beyond it.
//! - Policies that load members unequally: a long queue looks like a slow disk.
//!
//! # Origin
//! The latency-aware policy of the Cassandra drivers (DataStax Java driver, `LatencyAwarePolicy`):
//! a threshold of 2, a retry after 10 s, 50 measurements at least, an update each 100 ms. Added
//! here: kinds; a mean in which each read weighs an eighth, in place of one that decays with time;
//! and that the mean of a member that returns is reset.

use super::narrowed::{choose_among, leave_out_others};
use super::{Built, counters_with};
use crate::column_set::ColumnSet;
use crate::io::{MemberIo, Op, Outcome};
use crate::member::{MemberIndex, Members};
use crate::policies::Build;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy, StripeRead};
use crate::units::Nanos;

const UPDATE_EVERY: Nanos = Nanos::from_millis(100);
const EXCLUSION: Nanos = Nanos::from_secs(10);
const SAMPLES_MIN: u32 = 50;

struct FailSlow {
    inner: Box<dyn ReadPolicy>,
    threshold_percent: u64,
    next_update: Nanos,
    exclusions: i64,
    members: Vec<MemberLatency>,
}

#[derive(Clone, Copy, Default)]
struct MemberLatency {
    mean_ns: u64,
    samples: u32,
    excluded_until: Option<Nanos>,
}

/// Builds the modifier from the percentage of a peer's latency above which a member is excluded.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    let (next_update, exclusions, members) = (Nanos::ZERO, 0, Vec::new());
    Ok(Box::new(FailSlow {
        inner,
        threshold_percent: build.values[0],
        next_update,
        exclusions,
        members,
    }))
}

impl MemberLatency {
    fn has_enough_samples(&self) -> bool {
        self.samples >= SAMPLES_MIN
    }
}

impl FailSlow {
    fn update_if_due(&mut self, members: &Members, now: Nanos) {
        if now >= self.next_update {
            self.update(members, now);
            self.next_update = now + UPDATE_EVERY;
        }
    }

    fn update(&mut self, members: &Members, now: Nanos) {
        for latency in
            self.members.iter_mut().filter(|it| it.excluded_until.is_some_and(|t| t <= now))
        {
            *latency = MemberLatency::default();
        }
        for (index, member) in members.iter() {
            let is_peer = |(other, _): &(MemberIndex, &MemberLatency)| {
                members[*other].config.rotational == member.config.rotational
            };
            let indexes = (0..).map(MemberIndex);
            let peers = indexes
                .zip(&self.members)
                .filter(is_peer)
                .filter(|(_, it)| it.has_enough_samples());
            let fastest = peers.map(|(_, latency)| latency.mean_ns).min();
            let latency = self.members[index.get()];
            let too_slow = |fastest| {
                latency.mean_ns.saturating_mul(100) > self.threshold_percent.saturating_mul(fastest)
            };
            if latency.excluded_until.is_none()
                && latency.has_enough_samples()
                && fastest.is_some_and(too_slow)
            {
                self.members[index.get()].excluded_until = Some(now + EXCLUSION);
                self.exclusions += 1;
            }
        }
    }
}

impl ReadPolicy for FailSlow {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.update_if_due(ctx.members, ctx.now);
        choose_among(self.inner.as_mut(), read, mirrors, ctx, |mirror| {
            self.members[mirror.member.get()].excluded_until.is_none()
        })
    }

    fn reconstructs(&self) -> bool {
        true
    }

    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        self.update_if_due(ctx.members, ctx.now);
        leave_out_others(self.inner.as_mut(), read, columns, ctx, |column| {
            self.members[column.member.get()].excluded_until.is_none()
        })
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, ctx: &mut Ctx<'_>) {
        self.inner.on_complete(io, outcome, ctx);
        if io.op == Op::Read && outcome.result.is_ok() {
            let latency = &mut self.members[io.member.get()];
            let wait_ns = outcome.wait.0;
            latency.mean_ns = match latency.samples {
                0 => wait_ns,
                _ => (7 * latency.mean_ns + wait_ns) / 8,
            };
            latency.samples = latency.samples.saturating_add(1);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.inner.on_members_change(members);
        self.members.resize(members.len(), MemberLatency::default());
    }

    fn counters(&self) -> Vec<Counter> {
        counters_with(self.inner.as_ref(), "exclusions", self.exclusions)
    }
}
