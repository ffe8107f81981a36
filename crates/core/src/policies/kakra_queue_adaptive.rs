//! # Idea
//! Takes the shortest queue, unless recent reads from its member were much slower than those from
//! the best one: then the shortest queue among the others, unless that is already much longer.
//!
//! # State
//! The member chosen last. Per member: the health (mean read wait of its last finished window), the
//! reads and wait at the start of the current window, and how often it was `vetoed` or taken as
//! `overflow`.
//!
//! # Cost
//! Three passes over the mirrors; one division per member and second.
//!
//! # Good at
//! Depth, like `kakra/queue`, while a member that is slow for a while is kept out of shallow
//! queues.
//!
//! # Bad at
//! - Sequential streams on rotational members: it ignores head positions.
//! - Members of very unequal speed at depth: eight more in flight on the fast member admit the slow
//!   one, however slow it is.
//! - The health includes the wait in the queue, so the busy member looks less healthy than it is.
//!
//! # Origin
//! kakra/linux PR #40 (6.18), by Kai Krakow: the two rules, the names of the counters, and that the
//! health is a mean over a recent window that a refresh may fail to renew. The code was not
//! available, and the text gives no figures, so these are ours: a window lasts a second or until it
//! has eight reads, whichever is later; after ten seconds without eight reads a new window begins
//! and the health is unknown; much worse is more than twice the lowest health among the mirrors;
//! sufficiently busier is eight more in flight; an unknown health is no reason for a veto. Ties as
//! in `kakra/queue`.

use super::shared::mean_wait::mean_wait_ns;
use super::shared::shortest_queue::shortest_queue;
use crate::member::{Member, MemberIndex, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

const WINDOW: Nanos = Nanos::from_secs(1);
const WINDOW_READS: u64 = 8;
const EXPIRES_AFTER: Nanos = Nanos::from_secs(10);
const WORSE_FACTOR: u64 = 2;
const BUSIER_BY: u32 = 8;

#[derive(Default)]
pub(super) struct QueueAdaptive {
    previous: Option<MemberIndex>,
    healths: Vec<Health>,
}

#[derive(Clone, Default)]
struct Health {
    /// Zero if unknown.
    mean_ns: u64,
    began_at: Nanos,
    began_reads: u64,
    began_wait: Nanos,
    vetoed: i64,
    overflow: i64,
}

impl Health {
    /// Ends the window if it is complete.
    #[inline]
    fn refresh(&mut self, member: &Member, now: Nanos) {
        let age = now.saturating_sub(self.began_at);
        if age < WINDOW {
            return;
        }
        let reads = member.reads_completed - self.began_reads;
        if reads >= WINDOW_READS {
            self.mean_ns = mean_wait_ns(reads, member.read_wait - self.began_wait);
        } else if age >= EXPIRES_AFTER {
            self.mean_ns = 0;
        } else {
            return;
        }
        self.began_at = now;
        self.began_reads = member.reads_completed;
        self.began_wait = member.read_wait;
    }
}

impl ReadPolicy for QueueAdaptive {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let mut best_ns = u64::MAX;
        for mirror in mirrors {
            let health = &mut self.healths[mirror.member.get()];
            health.refresh(&ctx.members[mirror.member], ctx.now);
            if health.mean_ns > 0 {
                best_ns = best_ns.min(health.mean_ns);
            }
        }
        let limit_ns = best_ns.saturating_mul(WORSE_FACTOR);
        let is_healthy = |mirror: &Mirror| self.healths[mirror.member.get()].mean_ns <= limit_ns;
        let previous = self.previous;
        let mut place = shortest_queue(read, mirrors, ctx.members, previous, |_| true);
        if !is_healthy(&mirrors[place]) {
            // At least the best mirror is healthy.
            let other = shortest_queue(read, mirrors, ctx.members, previous, is_healthy);
            let in_flight = |place: usize| ctx.members[mirrors[place].member].in_flight();
            let slow = &mut self.healths[mirrors[place].member.get()];
            if in_flight(other) >= in_flight(place) + BUSIER_BY {
                slow.overflow += 1;
            } else {
                slow.vetoed += 1;
                place = other;
            }
        }
        self.previous = Some(mirrors[place].member);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.healths.resize(members.len(), Health::default());
    }

    /// `health_avg_ns`, `vetoed` and `overflow` of each member.
    fn counters(&self) -> Vec<Counter> {
        let show = |(index, health): (usize, &Health)| {
            let member = Some(MemberIndex(index as u16));
            [
                ("health_avg_ns", health.mean_ns as i64),
                ("vetoed", health.vetoed),
                ("overflow", health.overflow),
            ]
            .map(|(name, value)| Counter { member, name, value })
        };
        self.healths.iter().enumerate().flat_map(show).collect()
    }
}
