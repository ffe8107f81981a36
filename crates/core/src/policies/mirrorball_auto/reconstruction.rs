//! Recovering what a slow member holds from the other columns of its full stripe.
//!
//! That takes n reads in place of one, so it can only pay where the member itself is slow: half as
//! slow again as each of the others would be with the same in flight, or stalled. Members that are
//! equally fast and unequally busy are left as they are; else each would send reads to the others,
//! and all would get slow. A slow member gives up a read if all that the read takes elsewhere costs
//! less: the wait for the last of its parts, and what each part delays.

use super::components::Component;
use super::load::MemberLoad;
use super::member_model::MemberModels;
use crate::column_set::ColumnSet;
use crate::member::{Member, MemberIndex, Members};
use crate::policy::{Mirror, StripeRead};
use crate::units::Nanos;

/// A member is stalled if it has completed nothing for this many times the wait for all that it has
/// in flight.
const STALL_WAITS: u64 = 4;

/// Observed progress of a member.
#[derive(Clone, Copy, Debug, Default)]
struct StripeProgress {
    /// I/O that ended, at the last look.
    ended: u64,
    /// The first look that found no more ended, and something in flight.
    since: Nanos,
}

/// For how long each member has completed nothing, as seen when stripes are read.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgressWatch {
    members: Vec<StripeProgress>,
}

impl ProgressWatch {
    pub(super) fn set_members(&mut self, count: usize) {
        self.members.resize(count, StripeProgress::default());
    }

    pub(super) fn leave_out(
        &mut self,
        models: &mut MemberModels,
        read: &StripeRead,
        columns: &[Mirror],
        members: &Members,
        now: Nanos,
    ) -> ColumnSet {
        let place = |column: u8| &columns[usize::from(column)];
        for mirror in read.eligible.iter().map(place) {
            self.look(mirror.member, &members[mirror.member], now);
            models.update_load(mirror.member, members, now);
        }
        let decision = RecoveryDecision { models, watch: self, columns, length: read.length, now };
        let (left_out, probed) = decision.decide(read);
        let reads = match left_out.is_empty() {
            true => read.wanted.and(read.eligible),
            false => read.eligible.without(left_out),
        };
        reads.iter().for_each(|column| models.record_read(place(column), now));
        if let Some(column) = probed {
            models.record_probe(place(column), now);
        }
        left_out
    }

    fn look(&mut self, index: MemberIndex, member: &Member, now: Nanos) {
        let progress = &mut self.members[index.get()];
        let ended = member.reads_completed + member.writes_completed + member.errors;
        if ended != progress.ended || member.in_flight() == 0 {
            *progress = StripeProgress { ended, since: now };
        }
    }

    fn silent_ns(&self, member: MemberIndex, now: Nanos) -> u64 {
        now.saturating_sub(self.members[member.get()].since).0
    }
}

/// A read of a stripe that is decided on.
struct RecoveryDecision<'a> {
    models: &'a MemberModels,
    watch: &'a ProgressWatch,
    columns: &'a [Mirror],
    length: u64,
    now: Nanos,
}

impl RecoveryDecision<'_> {
    /// The columns to leave out, and one that is read to find out how slow it is.
    fn decide(&self, read: &StripeRead) -> (ColumnSet, Option<u8>) {
        let needed = read.eligible.count() - read.spare;
        let direct = read.wanted.and(read.eligible);
        let is_degraded = direct != read.wanted;
        let mut best = match is_degraded {
            true => self.with_cheapest(direct, read.eligible, needed),
            false => direct,
        };
        let (mut kept, mut others) = (direct, read.eligible);
        for _ in 0..read.spare {
            let Some(slowest) = kept.iter().max_by_key(|it| (self.wait_ns(*it), *it)) else {
                break;
            };
            kept = kept.without(ColumnSet::one(slowest));
            others = others.without(ColumnSet::one(slowest));
            let reads = self.with_cheapest(kept, others, needed);
            let pays = 5 * self.cost_ns(reads) < 4 * self.cost_ns(best);
            if !pays || !self.is_slow(slowest, reads) {
                break;
            }
            let may_probe = !read.background && self.models.has(Component::Probes);
            if may_probe && self.models.of(self.place(slowest)).is_unread_for_long(self.now) {
                return (ColumnSet::default(), Some(slowest));
            }
            best = reads;
        }
        let is_recovered = is_degraded || best != direct;
        (if is_recovered { read.eligible.without(best) } else { ColumnSet::default() }, None)
    }

    /// Some columns, and as many of `others` as it takes to have `needed`: the cheapest.
    fn with_cheapest(&self, columns: ColumnSet, others: ColumnSet, needed: usize) -> ColumnSet {
        let mut chosen = columns;
        while chosen.count() < needed {
            let rest = others.without(chosen);
            let cost = |it: &u8| (self.wait_ns(*it).saturating_add(self.delay_ns(*it)), *it);
            chosen.insert(rest.iter().min_by_key(cost).expect("enough columns are eligible"));
        }
        chosen
    }

    /// True if a column's member is slower than others, whatever it has in flight, or stalled.
    fn is_slow(&self, column: u8, others: ColumnSet) -> bool {
        let load = self.load(column);
        let with_load = |it: u8| self.behind_ns(it, load);
        let slowest_other = others.iter().map(with_load).max().unwrap_or(u64::MAX);
        self.stall_ns(column) > 0 || 2 * with_load(column) >= 3 * slowest_other
    }

    /// Cost of a read of some columns: the wait for the last, and what all delay. Of several reads
    /// that take as long in the mean, the last takes longer: of k times that are spread evenly from
    /// zero on, the longest is 2 k / (k + 1) means. On flash each may be late.
    fn cost_ns(&self, columns: ColumnSet) -> u64 {
        let count = columns.count() as u64;
        let (mut wait_ns, mut spread_ns, mut sum_ns) = (0, 0, 0u64);
        for column in columns.iter() {
            let model = &self.models.of(self.place(column)).cost;
            wait_ns = self.wait_ns(column).max(wait_ns);
            if model.is_disk {
                spread_ns = model.own_ns(self.length).max(spread_ns);
            }
            sum_ns = sum_ns.saturating_add(model.late_ns() + self.delay_ns(column));
        }
        wait_ns + spread_ns * count.saturating_sub(1) / (count + 1) + sum_ns
    }

    /// Time by which a read of the column delays the I/O in flight on its member. Unlike among
    /// mirrors, disks count too: what is saved on one is spent on n.
    fn delay_ns(&self, column: u8) -> u64 {
        let own_ns = self.models.of(self.place(column)).cost.own_ns(self.length);
        self.load(column).ios.saturating_mul(own_ns)
    }

    /// Time to the data of the column.
    fn wait_ns(&self, column: u8) -> u64 {
        self.behind_ns(column, self.load(column)) + self.stall_ns(column)
    }

    /// Time of a read of the column behind `load`.
    fn behind_ns(&self, column: u8, load: MemberLoad) -> u64 {
        let model = &self.models.of(self.place(column)).cost;
        let seek_ns = if model.is_disk { model.io_ns() } else { 0 };
        model.wait_ns(load, self.length) + seek_ns
    }

    /// How much longer a stall of the column's member most likely lasts: as long as it has lasted.
    fn stall_ns(&self, column: u8) -> u64 {
        let load = self.load(column);
        let silent_ns = self.watch.silent_ns(self.place(column).member, self.now);
        let is_stalled = load.ios > 0 && silent_ns > STALL_WAITS * self.behind_ns(column, load);
        u64::from(is_stalled) * silent_ns
    }

    fn load(&self, column: u8) -> MemberLoad {
        self.models.of(self.place(column)).cost.load
    }

    fn place(&self, column: u8) -> &Mirror {
        &self.columns[usize::from(column)]
    }
}
