//! # Idea
//! Takes the shortest estimated time: the number of I/O in flight plus one, times the mean service
//! time. A path that has completed nothing for long is tried once while idle, and otherwise gets no
//! more than an equal share.
//!
//! # State
//! The order in which members were last chosen. Per member: the time of its last completion, the
//! mean of its service times, and when that mean becomes stale.
//!
//! # Cost
//! One comparison per mirror, in the order of the list.
//!
//! # Good at
//! Unequal members at depth: queues grow in proportion to speed; a slow one is probed by one read.
//!
//! # Bad at
//! - One read at a time: all paths are idle, and of idle paths the stalest is taken, so the slow
//!   member gets a large share of the time however slow it is. A simulation of two serial disks of
//!   0.1 and 10 ms gave 6665 reads per second, where the fast disk alone serves 10,000.
//! - Sizes and head positions: a long read counts as a slow one, and streams are broken up.
//!
//! # Origin
//! Khazhismel Kumykov, Linux dm-multipath 5.8 and later, in its fixed-point arithmetic. A service
//! time lasts from the submission, or from the previous completion if that is later, to the
//! completion. The mean keeps 0.95 of itself for a sample below 16.8 ms, 0.95 to the power of n in
//! the n-th such span, and nothing from 63 spans on, so slow samples weigh more. It is fresh for as
//! long as all paths need for one I/O each. The comparisons are not transitive, so the list is
//! reduced from its head, as there. Failed members are no paths. The repeat count is left out.
//! Defined in drivers/md/dm-ps-historical-service-time.c.

use super::shared::path_list::PathList;
use super::shared::serial_service::SerialService;
use super::shared::time_weighted::{ONE, TimeWeights};
use super::{Build, Built};
use crate::io::{MemberIo, Outcome};
use crate::member::{Member, MemberState, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;
use std::cmp::Ordering;

struct HistoricalServiceTime {
    paths: PathList,
    services: SerialService,
    histories: Vec<History>,
    valid_paths: u64,
    weights: TimeWeights,
    threshold_multiplier: u64,
}

#[derive(Clone, Copy)]
struct History {
    /// Mean service time in nanoseconds, in fixed point.
    mean: u64,
    stale_after: Nanos,
}

/// State of a path at a decision.
#[derive(Clone, Copy)]
struct Path {
    history: History,
    in_flight: u64,
}

/// Builds the policy from the base of the weights and the multiplier.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(HistoricalServiceTime {
        paths: PathList::default(),
        services: SerialService::default(),
        histories: Vec::new(),
        valid_paths: 0,
        weights: TimeWeights::new(build.values[0]),
        threshold_multiplier: build.values[1],
    }))
}

impl Path {
    fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Time in which everything in flight and one more I/O would complete.
    fn estimate(&self) -> u64 {
        self.history.mean.saturating_mul(1 + self.in_flight)
    }

    /// `Less` if it is better than the best so far.
    fn compare(&self, best: &Path, now: Nanos, threshold_multiplier: u64) -> Ordering {
        let is_stale = |path: &Path| path.history.stale_after < now;
        let by_queue = self.in_flight.cmp(&best.in_flight);
        let (mean, best_mean) = (self.history.mean, best.history.mean);
        if mean.max(best_mean) <= mean.min(best_mean).saturating_mul(threshold_multiplier) {
            return by_queue;
        }
        let is_probe = |path: &Path| path.is_idle() && is_stale(path);
        if is_probe(self) || is_probe(best) || (self.is_idle() && best.is_idle()) {
            // The stalest idle path. A busy one comes last, or ties with a path never used.
            let order = |this: &Path, other: &Path| match other.is_idle() {
                true => this.history.stale_after,
                false => Nanos::ZERO,
            };
            return order(self, best).cmp(&order(best, self));
        }
        let (winner, order) = match self.estimate() > best.estimate() {
            true => (best, Ordering::Greater),
            false => (self, Ordering::Less),
        };
        if is_stale(winner) { by_queue } else { order }
    }
}

impl ReadPolicy for HistoricalServiceTime {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let path = |place: usize| {
            let member: &Member = &ctx.members[mirrors[place].member];
            let history = self.histories[mirrors[place].member.get()];
            Path { history, in_flight: u64::from(member.in_flight()) }
        };
        let better = |best: usize, place: usize| {
            let order = path(place).compare(&path(best), ctx.now, self.threshold_multiplier);
            if order.is_lt() { place } else { best }
        };
        let place = self.paths.head_first(mirrors).reduce(better).expect("mirrors are never empty");
        self.paths.move_to_tail(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        let Some(service) = self.services.observe(io, outcome) else {
            return;
        };
        let history = &mut self.histories[io.member.get()];
        history.mean = self.weights.mean(history.mean, service);
        let fresh = Nanos(self.valid_paths * (history.mean / ONE));
        history.stale_after = outcome.completed_at.saturating_add(fresh);
    }

    fn on_members_change(&mut self, members: &Members) {
        self.paths.update(members);
        self.services.resize(members);
        self.histories.resize(members.len(), History { mean: ONE, stale_after: Nanos::ZERO });
        let valid = members.iter().filter(|(_, member)| member.state != MemberState::Failed);
        self.valid_paths = valid.count() as u64;
    }
}
