//! Reading a second copy where that delays nothing else.
//!
//! A read on flash that comes behind a write, a collection of garbage or a stall takes far longer
//! than its queue says, and only the device knows which read that will be. Two copies are seldom
//! both late. So where reads are late by more than they take, a second mirror reads as well, and
//! the first answer counts. It must have room for that: what the copy delays there, twice, costs
//! less than reads are late. As queues grow, that fails first, so no member is filled with copies.

use super::components::Component;
use super::member_model::{MemberModels, ReadContext};
use crate::policy::{Choice, Mirror, MirrorSet};

/// A copy delays those in flight, and those that come while it is read.
const DELAYS: u64 = 2;

impl MemberModels {
    /// The choice of the mirror at `place`, with one that reads a copy if one should: the one to
    /// probe, or else one that is likely to be earlier. No client waits for a background read, so
    /// it is read once.
    #[inline]
    pub(super) fn read_twice(
        &mut self,
        place: usize,
        probe: Option<usize>,
        mirrors: &[Mirror],
        context: &ReadContext<'_>,
    ) -> Choice {
        if let Some(probed) = probe {
            self.record_probe(&mirrors[probed], context.now);
            return Choice::All(MirrorSet::pair(place, probed));
        }
        let both = self.with_second_copy(place, mirrors, context);
        both.filter(|_| !context.background).map_or(Choice::Mirror(place), |set| {
            self.record_set(set, mirrors, context.now);
            Choice::All(set)
        })
    }

    /// The mirror at `place` and one that should read a copy, if one should.
    #[inline]
    fn with_second_copy(
        &self,
        place: usize,
        mirrors: &[Mirror],
        context: &ReadContext<'_>,
    ) -> Option<MirrorSet> {
        if context.has_disk || !self.has(Component::Redundancy) {
            return None;
        }
        let first = &self.of(&mirrors[place]).cost;
        let first_ns = first.wait_ns(first.load, context.length);
        let late_ns = first.late_ns();
        if late_ns + late_ns / 2 <= first_ns {
            return None;
        }
        let cost = |&other: &usize| (self.cost_ns(&mirrors[other], context), other);
        let others = (0..mirrors.len()).filter(|&other| other != place);
        let second = others.min_by_key(cost)?;
        let model = &self.of(&mirrors[second]).cost;
        let delay_ns = DELAYS * (model.load.ios + 1) * model.own_ns(context.length);
        let behind_ns = model.wait_ns(model.load, context.length).saturating_sub(first_ns);
        (late_ns > delay_ns + behind_ns).then(|| MirrorSet::pair(place, second))
    }
}
