//! Splitting a large read into parts, one for each mirror or for each of the two cheapest, where
//! that takes less time than it costs the others.
//!
//! On flash only: a disk would seek for each part.

use super::components::Component;
use super::load::MemberLoad;
use super::member_model::{MemberModels, ReadContext};
use crate::policy::{Mirror, MirrorSet};
use crate::units::KIB;

/// Shorter reads are not split.
const BYTES_MIN: u64 = 64 * KIB;

impl MemberModels {
    /// The mirrors to split the read over, if that pays. The read waits for its slowest part, and
    /// each part delays others: both together must cost less than the whole at `place`. While a
    /// sequential reader has the mirrors to itself, its own reads in flight do not count: they are
    /// split as well, and while a member looks up a part of one, it transfers a part of another.
    #[inline]
    pub(super) fn split(
        &self,
        place: usize,
        mirrors: &[Mirror],
        context: &ReadContext<'_>,
    ) -> Option<MirrorSet> {
        let may_split = context.length >= BYTES_MIN && self.has(Component::Split);
        if !may_split || context.has_disk {
            return None;
        }
        let all = MirrorSet::all(mirrors);
        let whole_ns = self.cost_ns(&mirrors[place], context);
        if context.run.is_reader() && self.has_one_read_at_most(mirrors, context) {
            let part = ReadContext { length: context.length / mirrors.len() as u64, ..*context };
            let cost_ns = |mirror: &Mirror, context: &ReadContext<'_>| {
                let load = MemberLoad { work: 0, ios: 0, ..self.of(mirror).cost.load };
                self.cost(mirror, load, context).total_ns()
            };
            let whole_ns = cost_ns(&mirrors[place], context);
            return mirrors.iter().all(|mirror| cost_ns(mirror, &part) < whole_ns).then_some(all);
        }
        let pair =
            if mirrors.len() > 2 { self.cheapest_pair(place, mirrors, context) } else { all };
        let cost_ns = |set: MirrorSet| self.split_ns(set, mirrors, context);
        let best = if cost_ns(pair) <= cost_ns(all) { pair } else { all };
        (cost_ns(best) < whole_ns).then_some(best)
    }

    /// The mirror at `place` and the cheapest other one.
    fn cheapest_pair(
        &self,
        place: usize,
        mirrors: &[Mirror],
        context: &ReadContext<'_>,
    ) -> MirrorSet {
        let cost = |&other: &usize| (self.cost_ns(&mirrors[other], context), other);
        let others = (0..mirrors.len()).filter(|&other| other != place);
        MirrorSet::pair(place, others.min_by_key(cost).expect("there are two mirrors or more"))
    }

    /// Cost of the read in parts over a set: the wait for the slowest part, and what all parts add
    /// to the waits of others.
    fn split_ns(&self, set: MirrorSet, mirrors: &[Mirror], context: &ReadContext<'_>) -> u64 {
        let count = set.iter().count() as u64;
        let part = ReadContext { length: context.length / count, ..*context };
        let costs = set.iter().map(|place| {
            let mirror = &mirrors[place];
            let cost = self.cost(mirror, self.of(mirror).cost.load, &part);
            (cost.own_ns(), cost.others_ns())
        });
        let (own_ns, others_ns) =
            costs.fold((0, 0), |(most, sum), (own, others)| (own.max(most), sum + others));
        own_ns + others_ns
    }

    /// True if the mirrors together have no more in flight than a part of this read each.
    #[inline]
    fn has_one_read_at_most(&self, mirrors: &[Mirror], context: &ReadContext<'_>) -> bool {
        let part_bytes = context.length / mirrors.len() as u64;
        let models = || mirrors.iter().map(|mirror| &self.of(mirror).cost);
        let in_flight: u64 = models().map(|model| model.load.work).sum();
        in_flight <= models().map(|model| model.work_of(part_bytes)).sum()
    }
}
