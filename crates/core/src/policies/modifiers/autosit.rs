//! # Idea
//! Each second the mean read latencies of all members are compared. One far beyond the others'
//! quartiles collects points; with more than 20 it is not read for ten minutes (or the given time).
//!
//! # State
//! Per member the reads and waits at the last comparison, its points, and until when it sits out.
//!
//! # Cost
//! One comparison a mirror; each second a sort of the members' means.
//!
//! # Good at
//! One disk of many that has become slower than the rest by far, without sending away one that is
//! merely a little slow.
//!
//! # Bad at
//! Fewer than six members: nothing happens. Below five nothing is compared, as in its origin; of
//! five, the slowest is half of the third quartile, and so never far beyond it.
//! Members that differ by design, which widen the fence until nothing lies beyond it.
//! A second in which some member read nothing is not judged, so a policy that leaves one unread
//! switches it off.
//!
//! # Origin
//! OpenZFS, `module/zfs/vdev_raidz.c`, August 2025, for raidz and dRAID: 1000 ms, a fence at the
//! third quartile plus 50 times the spread between the quartiles (a quarter of the first at least),
//! 1 to 5 points by how far beyond, 2 off for all each time as many outliers were found as there
//! are members, out at more than 20, never more members at once than parity allows (here: copies
//! less one). Ours: on mirrors at all; quartiles as medians of the lower and the upper half; what
//! is counted until all are forgiven, which its descriptions leave open. Scrubs, which ignore it
//! there, are not a policy's to choose here.

use super::narrowed::choose_among;
use super::{Built, Modifier, around};
use crate::member::Members;
use crate::policies::Build;
use crate::policies::shared::averages::mean_wait_ns;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

const COMPARE_EVERY: Nanos = Nanos::from_millis(1000);
const MEMBERS_MIN: usize = 5;
const FENCE_SPREADS: u64 = 50;
const POINTS_MAX: u64 = 20;

struct Autosit {
    sit_out: Nanos,
    next_comparison: Nanos,
    sit_outs: i64,
    /// Outliers found since all were forgiven.
    outliers: usize,
    members: Vec<Account>,
    /// Means of the last comparison, in the order of the members; room kept for the next.
    means_ns: Vec<u64>,
    sorted_ns: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Account {
    reads: u64,
    wait: Nanos,
    points: u64,
    out_until: Option<Nanos>,
}

/// Builds the modifier from the milliseconds that a slow member sits out.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    let autosit = Autosit {
        sit_out: Nanos::from_millis(build.values[0]),
        next_comparison: COMPARE_EVERY,
        sit_outs: 0,
        outliers: 0,
        members: Vec::new(),
        means_ns: Vec::new(),
        sorted_ns: Vec::new(),
    };
    around(inner, autosit)
}

/// The middle of sorted values, the mean of two where there are two.
fn median(sorted: &[u64]) -> u64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        sorted[middle - 1].midpoint(sorted[middle])
    } else {
        sorted[middle]
    }
}

impl Autosit {
    fn compare(&mut self, members: &Members, copies: u8, now: Nanos) {
        self.means_ns.clear();
        for ((_, member), account) in members.iter().zip(&mut self.members) {
            let reads = member.reads_completed - account.reads;
            self.means_ns.push(mean_wait_ns(reads, member.read_wait - account.wait));
            (account.reads, account.wait) = (member.reads_completed, member.read_wait);
            if account.out_until.is_some_and(|until| until <= now) {
                (account.out_until, account.points) = (None, 0);
            }
        }
        self.sorted_ns.clone_from(&self.means_ns);
        self.sorted_ns.sort_unstable();
        let number = self.sorted_ns.len();
        if number < MEMBERS_MIN || self.sorted_ns[0] == 0 {
            return;
        }
        let first = median(&self.sorted_ns[..number / 2]);
        let third = median(&self.sorted_ns[number.div_ceil(2)..]);
        let spread = (third - first).max(first / 4).max(1);
        self.judge(third + FENCE_SPREADS * spread, spread);
        self.send_out(usize::from(copies) - 1, now);
    }

    /// Gives the slowest its points if it lies beyond the fence; forgives all from time to time.
    fn judge(&mut self, fence_ns: u64, spread_ns: u64) {
        let slowest = self.means_ns.iter().max().copied().expect("there are members");
        if slowest <= fence_ns {
            return;
        }
        let place = self.means_ns.iter().position(|&mean_ns| mean_ns == slowest);
        let points = ((slowest - fence_ns) / spread_ns).clamp(1, 5);
        self.members[place.expect("the slowest is one of them")].points += points;
        self.outliers += 1;
        if self.outliers >= self.members.len() {
            self.outliers = 0;
            self.members.iter_mut().for_each(|it| it.points = it.points.saturating_sub(2));
        }
    }

    fn send_out(&mut self, out_max: usize, now: Nanos) {
        let mut out = self.members.iter().filter(|it| it.out_until.is_some()).count();
        for account in &mut self.members {
            if account.points > POINTS_MAX && account.out_until.is_none() && out < out_max {
                account.out_until = Some(now + self.sit_out);
                self.sit_outs += 1;
                out += 1;
            }
        }
    }
}

impl Modifier for Autosit {
    fn choose(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        if ctx.now >= self.next_comparison {
            self.compare(members, read.copies, ctx.now);
            self.next_comparison = ctx.now + COMPARE_EVERY;
        }
        let is_in = |mirror: &Mirror| self.members[mirror.member.get()].out_until.is_none();
        choose_among(inner, read, mirrors, members, ctx, is_in)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.members.resize(members.len(), Account::default());
    }

    fn counters(&self) -> Vec<Counter> {
        vec![Counter { member: None, name: "sit_outs", value: self.sit_outs }]
    }
}
