//! Targets: the numbered member ranges of a plan.

use crate::geometry::MAX_COPIES;
use crate::policy::Mirror;

/// Number of a member range within its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target(u8);

/// A set of targets of one plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TargetSet(u8);

impl Target {
    /// The target that a way of reading reads.
    #[inline]
    pub(super) fn of(way: &Mirror) -> Target {
        Target(way.copy)
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl TargetSet {
    #[inline]
    pub(super) fn insert(&mut self, target: Target) {
        self.0 |= 1 << target.0;
    }

    #[inline]
    pub(super) fn contains(self, target: Target) -> bool {
        self.0 & 1 << target.0 != 0
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The targets in ascending order.
    pub(super) fn iter(self) -> impl Iterator<Item = Target> {
        (0..MAX_COPIES as u8).map(Target).filter(move |&target| self.contains(target))
    }
}
