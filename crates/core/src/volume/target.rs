//! Targets: the numbered member ranges of a plan.

use crate::geometry::MAX_COPIES;
use crate::policy::Mirror;

const _: () = assert!(MAX_COPIES <= u16::BITS as usize, "a bit for each target");

/// Number of a member range within its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanTarget(u8);

/// A set of targets of one plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetSet(u16);

impl PlanTarget {
    /// The target that a way of reading reads.
    #[inline]
    pub fn of(way: &Mirror) -> PlanTarget {
        PlanTarget(way.copy)
    }

    /// Number of the target.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl TargetSet {
    /// Adds a target.
    #[inline]
    pub fn insert(&mut self, target: PlanTarget) {
        debug_assert!(target.index() < MAX_COPIES, "{target:?}");
        self.0 |= 1 << target.0;
    }

    /// Removes a target.
    pub fn remove(&mut self, target: PlanTarget) {
        self.0 &= !(1 << target.0);
    }

    /// Returns true if the set has a target.
    #[inline]
    pub fn contains(self, target: PlanTarget) -> bool {
        self.0 & 1 << target.0 != 0
    }

    /// Returns true if the set has no target.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The targets in ascending order.
    pub fn iter(self) -> impl Iterator<Item = PlanTarget> {
        (0..MAX_COPIES as u8).map(PlanTarget).filter(move |&target| self.contains(target))
    }
}
