//! # Idea
//! A member whose reads take more than twice (or the given percentage) as long as those of its
//! fastest peer sits out for ten seconds, then is tried again. Peers are the members of its kind,
//! rotational or not: that an HDD is slower than an SSD is no fault.
//!
//! # State
//! Per member a moving mean of the wait of reads, how many it rests on, and until when it sits out.
//!
//! # Cost
//! One comparison a mirror; each 100 ms a scan of the members.
//!
//! # Good at
//! A disk that fails by becoming slow, under a policy that does not look at latency.
//!
//! # Bad at
//! Members of one kind that differ by design: a 5400 rpm disk beside a 7200 rpm one is near the
//! ratio, and beside a 15,000 rpm one beyond it.
//! Policies that load members unequally: a long queue looks like a slow disk.
//!
//! # Origin
//! The latency-aware policy of the Cassandra drivers (DataStax Java driver,
//! `LatencyAwarePolicy`): a threshold of 2, a retry after 10 s, 50 measurements at least, an update
//! each 100 ms. Ours: kinds; the mean (each read weighs an eighth) in place of one that decays with
//! time; and a member that returns is measured anew.

use super::narrowed::choose_among;
use super::{Built, Modifier, around};
use crate::io::{MemberIo, Op, Outcome};
use crate::member::{MemberIndex, Members};
use crate::policies::Build;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

const UPDATE_EVERY: Nanos = Nanos::from_millis(100);
const SIT_OUT: Nanos = Nanos::from_secs(10);
const SAMPLES_MIN: u32 = 50;

struct FailSlow {
    threshold_percent: u64,
    next_update: Nanos,
    sit_outs: i64,
    members: Vec<Measured>,
}

#[derive(Clone, Copy, Default)]
struct Measured {
    mean_ns: u64,
    samples: u32,
    out_until: Option<Nanos>,
}

/// Builds the modifier from the percentage of a peer's latency that is too much.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    let (next_update, sit_outs, members) = (Nanos::ZERO, 0, Vec::new());
    around(inner, FailSlow { threshold_percent: build.values[0], next_update, sit_outs, members })
}

impl Measured {
    fn is_known(&self) -> bool {
        self.samples >= SAMPLES_MIN
    }
}

impl FailSlow {
    fn update(&mut self, members: &Members, now: Nanos) {
        for measured in self.members.iter_mut().filter(|it| it.out_until.is_some_and(|t| t <= now))
        {
            *measured = Measured::default();
        }
        for (index, member) in members.iter() {
            let is_peer = |(other, _): &(MemberIndex, &Measured)| {
                members[*other].config.rotational == member.config.rotational
            };
            let indexes = (0..).map(MemberIndex);
            let known = indexes.zip(&self.members).filter(is_peer).filter(|(_, it)| it.is_known());
            let fastest = known.map(|(_, measured)| measured.mean_ns).min();
            let measured = self.members[index.get()];
            let too_slow = |fastest| {
                measured.mean_ns.saturating_mul(100)
                    > self.threshold_percent.saturating_mul(fastest)
            };
            if measured.out_until.is_none() && measured.is_known() && fastest.is_some_and(too_slow)
            {
                self.members[index.get()].out_until = Some(now + SIT_OUT);
                self.sit_outs += 1;
            }
        }
    }
}

impl Modifier for FailSlow {
    fn choose(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        if ctx.now >= self.next_update {
            self.update(members, ctx.now);
            self.next_update = ctx.now + UPDATE_EVERY;
        }
        let is_well = |mirror: &Mirror| self.members[mirror.member.get()].out_until.is_none();
        choose_among(inner, read, mirrors, members, ctx, is_well)
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        if io.op == Op::Read && outcome.result.is_ok() {
            let measured = &mut self.members[io.member.get()];
            let wait_ns = outcome.wait.0;
            measured.mean_ns = match measured.samples {
                0 => wait_ns,
                _ => (7 * measured.mean_ns + wait_ns) / 8,
            };
            measured.samples = measured.samples.saturating_add(1);
        }
    }

    fn on_members_change(&mut self, members: &Members) {
        self.members.resize(members.len(), Measured::default());
    }

    fn counters(&self) -> Vec<Counter> {
        vec![Counter { member: None, name: "sit_outs", value: self.sit_outs }]
    }
}
