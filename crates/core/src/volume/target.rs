//! Targets: the numbered member ranges of a plan.

use crate::geometry::MAX_COPIES;
use crate::policy::Mirror;

/// Number of a member range within its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PlanTarget(u8);

/// A set of targets of one plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TargetSet(u8);

impl PlanTarget {
    /// The first target of a plan.
    pub(super) const FIRST: PlanTarget = PlanTarget(0);

    pub(super) fn new(number: u8) -> PlanTarget {
        PlanTarget(number)
    }

    /// The target that a way of reading reads.
    #[inline]
    pub(super) fn of(way: &Mirror) -> PlanTarget {
        PlanTarget(way.copy)
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl TargetSet {
    #[inline]
    pub(super) fn insert(&mut self, target: PlanTarget) {
        self.0 |= 1 << target.0;
    }

    pub(super) fn remove(&mut self, target: PlanTarget) {
        self.0 &= !(1 << target.0);
    }

    #[inline]
    pub(super) fn contains(self, target: PlanTarget) -> bool {
        self.0 & 1 << target.0 != 0
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The targets in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = PlanTarget> {
        (0..MAX_COPIES as u8).map(PlanTarget).filter(move |&target| self.contains(target))
    }
}
