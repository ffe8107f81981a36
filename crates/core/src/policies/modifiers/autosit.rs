//! # Idea
//! Compares the mean read latencies of all members once a second. A member far beyond the quartiles
//! of the others collects points; with more than 20 points it is not read for ten minutes (or the
//! given time). With parity, what it holds is recovered from the other columns.
//!
//! # State
//! Per member the reads and waits at the last comparison, its points, and until when it is
//! excluded.
//!
//! # Cost
//! One comparison per mirror; each second a sort of the members' means.
//!
//! # Good at
//! One disk of many that has become far slower than the rest, without excluding one that is merely
//! a little slow.
//!
//! # Bad at
//! - Fewer than six members: nothing happens. Below five, nothing is compared, as in the original.
//!   With five, the slowest is half of the third quartile, and so never far beyond it.
//! - Members that differ by design, which raise the limit until no member is beyond it.
//! - A second in which some member read nothing is not evaluated, so a policy that leaves one
//!   member unread disables the modifier.
//!
//! # Origin
//! OpenZFS, `module/zfs/vdev_raidz.c`, August 2025, for raidz and dRAID: 1000 ms, a limit at the
//! third quartile plus 50 times the interquartile range (at least a quarter of the first quartile),
//! 1 to 5 points by how far beyond, 2 points off for all each time as many outliers were found as
//! there are members, excluded at more than 20, never more members at once than parity allows (with
//! mirrors: copies less one). Added here: mirrors at all; quartiles as medians of the lower and the
//! upper half; what is counted until points are taken off, which its descriptions leave open.
//! Scrubs, which ignore it there, are not a policy's to choose here.

use super::narrowed::{choose_among, leave_out_others};
use super::{Built, counters_with};
use crate::column_set::ColumnSet;
use crate::member::Members;
use crate::policies::Build;
use crate::policies::shared::mean_wait::mean_wait_ns;
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy, StripeRead};
use crate::units::Nanos;

const COMPARE_EVERY: Nanos = Nanos::from_millis(1000);
const MEMBERS_MIN: usize = 5;
const LIMIT_SPREADS: u64 = 50;
const POINTS_MAX: u64 = 20;

struct Autosit {
    inner: Box<dyn ReadPolicy>,
    exclusion: Nanos,
    next_comparison: Nanos,
    exclusions: i64,
    /// Number of outliers found since points were last taken off.
    outliers: usize,
    members: Vec<MemberScore>,
    /// Means of the last comparison, in the order of the members; the allocation is reused.
    means_ns: Vec<u64>,
    sorted_ns: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct MemberScore {
    reads: u64,
    wait: Nanos,
    points: u64,
    excluded_until: Option<Nanos>,
}

/// Builds the modifier from the milliseconds for which a slow member is not read.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    let autosit = Autosit {
        inner,
        exclusion: Nanos::from_millis(build.values[0]),
        next_comparison: COMPARE_EVERY,
        exclusions: 0,
        outliers: 0,
        members: Vec::new(),
        means_ns: Vec::new(),
        sorted_ns: Vec::new(),
    };
    Ok(Box::new(autosit))
}

fn median(sorted: &[u64]) -> u64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        sorted[middle - 1].midpoint(sorted[middle])
    } else {
        sorted[middle]
    }
}

impl Autosit {
    fn compare_if_due(&mut self, members: &Members, excluded_max: usize, now: Nanos) {
        if now >= self.next_comparison {
            self.compare(members, excluded_max, now);
            self.next_comparison = now + COMPARE_EVERY;
        }
    }

    fn compare(&mut self, members: &Members, excluded_max: usize, now: Nanos) {
        self.means_ns.clear();
        for ((_, member), score) in members.iter().zip(&mut self.members) {
            let reads = member.reads_completed - score.reads;
            self.means_ns.push(mean_wait_ns(reads, member.read_wait - score.wait));
            (score.reads, score.wait) = (member.reads_completed, member.read_wait);
            if score.excluded_until.is_some_and(|until| until <= now) {
                (score.excluded_until, score.points) = (None, 0);
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
        self.add_points(third + LIMIT_SPREADS * spread, spread);
        self.exclude(excluded_max, now);
    }

    /// Adds points to the slowest member if it is beyond the limit; sometimes takes points off all.
    fn add_points(&mut self, limit_ns: u64, spread_ns: u64) {
        let slowest = self.means_ns.iter().max().copied().expect("there are members");
        if slowest <= limit_ns {
            return;
        }
        let place = self.means_ns.iter().position(|&mean_ns| mean_ns == slowest);
        let points = ((slowest - limit_ns) / spread_ns).clamp(1, 5);
        self.members[place.expect("the slowest is one of them")].points += points;
        self.outliers += 1;
        if self.outliers >= self.members.len() {
            self.outliers = 0;
            self.members.iter_mut().for_each(|it| it.points = it.points.saturating_sub(2));
        }
    }

    fn exclude(&mut self, excluded_max: usize, now: Nanos) {
        let mut excluded = self.members.iter().filter(|it| it.excluded_until.is_some()).count();
        for score in &mut self.members {
            if score.points > POINTS_MAX
                && score.excluded_until.is_none()
                && excluded < excluded_max
            {
                score.excluded_until = Some(now + self.exclusion);
                self.exclusions += 1;
                excluded += 1;
            }
        }
    }
}

impl ReadPolicy for Autosit {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        self.compare_if_due(ctx.members, usize::from(read.copies) - 1, ctx.now);
        choose_among(self.inner.as_mut(), read, mirrors, ctx, |mirror| {
            self.members[mirror.member.get()].excluded_until.is_none()
        })
    }

    fn reconstructs(&self) -> bool {
        true
    }

    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        self.compare_if_due(ctx.members, read.spare, ctx.now);
        leave_out_others(self.inner.as_mut(), read, columns, ctx, |column| {
            self.members[column.member.get()].excluded_until.is_none()
        })
    }

    fn on_members_change(&mut self, members: &Members) {
        self.inner.on_members_change(members);
        self.members.resize(members.len(), MemberScore::default());
    }

    fn counters(&self) -> Vec<Counter> {
        counters_with(self.inner.as_ref(), "exclusions", self.exclusions)
    }
}
