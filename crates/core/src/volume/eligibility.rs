//! Which mirrors may serve a read, in tiers.
//!
//! A mirror that is not in sync for the range, or that failed in this request, cannot serve. Then
//! two preferences, each of which is dropped if no mirror would be left: not in back-off after
//! errors, and not write-mostly.

use super::member_states::MemberStates;
use super::target::{PlanTarget, TargetSet};
use crate::geometry::MAX_COPIES;
use crate::policy::Mirror;

/// The eligible mirrors of one piece, in the order of its chunk's stripes.
#[derive(Clone, Copy, Debug)]
pub struct EligibleMirrors {
    list: [Mirror; MAX_COPIES],
    count: usize,
}

impl EligibleMirrors {
    /// The mirrors; at least two where a policy is asked.
    #[inline]
    pub fn as_slice(&self) -> &[Mirror] {
        &self.list[..self.count]
    }

    /// All mirrors of a piece.
    #[inline]
    pub(super) fn all(mirrors: &[Mirror]) -> EligibleMirrors {
        debug_assert!(mirrors.len() <= MAX_COPIES, "{} mirrors", mirrors.len());
        let mut list = [mirrors[0]; MAX_COPIES];
        list[..mirrors.len()].copy_from_slice(mirrors);
        EligibleMirrors { list, count: mirrors.len() }
    }

    /// The first mirror that can serve.
    pub(super) fn first(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::able(mirrors, length, states, failed);
        eligible.count = eligible.count.min(1);
        eligible
    }

    /// The mirrors that pass the tiers.
    pub(super) fn among(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::able(mirrors, length, states, failed);
        eligible.prefer(|mirror| !states.is_in_backoff(mirror.member));
        eligible.prefer(|mirror| !states.members()[mirror.member].config.write_mostly);
        eligible
    }

    /// Those in a set, if there are any.
    pub(super) fn preferring(mut self, targets: TargetSet) -> EligibleMirrors {
        let before = self.count;
        self.prefer(|mirror| targets.contains(PlanTarget::of(mirror)));
        assert_eq!(self.count == 0, before == 0, "a preference leaves a mirror");
        self
    }

    /// The mirrors that can serve.
    fn able(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::all(mirrors);
        eligible.retain(|mirror| {
            let is_in_sync = states.is_in_sync(mirror.member, mirror.offset, length);
            is_in_sync && !failed.contains(PlanTarget::of(mirror))
        });
        eligible
    }

    /// Keeps the mirrors for which `is_preferred` returns true, unless it does for none.
    fn prefer(&mut self, is_preferred: impl Fn(&Mirror) -> bool) {
        if self.as_slice().iter().any(&is_preferred) {
            self.retain(is_preferred);
        }
    }

    fn retain(&mut self, is_wanted: impl Fn(&Mirror) -> bool) {
        let mut kept = 0;
        for index in 0..self.count {
            if is_wanted(&self.list[index]) {
                self.list[kept] = self.list[index];
                kept += 1;
            }
        }
        debug_assert!(kept <= self.count, "mirrors are only removed");
        self.count = kept;
    }
}
