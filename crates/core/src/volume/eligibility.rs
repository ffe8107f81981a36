//! Which mirrors may serve a read, in tiers.
//!
//! A mirror that is not in sync for the range, or that failed in this request, cannot serve. Then
//! two preferences, each of which is dropped if no mirror would be left: not in back-off after
//! errors, and not write-mostly.

use super::member_states::MemberStates;
use super::target::{PlanTarget, TargetSet};
use crate::geometry::Mirrors;
use crate::policy::Mirror;

/// The eligible mirrors of one piece, in the order of its chunk's stripes.
#[derive(Clone, Debug)]
pub struct EligibleMirrors(Mirrors);

impl EligibleMirrors {
    /// The mirrors; at least two where a policy is asked.
    #[inline]
    pub fn as_slice(&self) -> &[Mirror] {
        &self.0
    }

    /// All mirrors of a piece.
    #[inline]
    pub(super) fn all(mirrors: &[Mirror]) -> EligibleMirrors {
        EligibleMirrors(Mirrors::from_slice(mirrors))
    }

    /// The first mirror that can serve.
    pub(super) fn first(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::able(mirrors, length, states, failed);
        eligible.0.truncate(1);
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
        let before = self.0.len();
        self.prefer(|mirror| targets.contains(PlanTarget::of(mirror)));
        assert_eq!(self.0.is_empty(), before == 0, "a preference leaves a mirror");
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
        eligible.0.retain(|mirror| {
            let is_in_sync = states.is_in_sync(mirror.member, mirror.offset, length);
            is_in_sync && !failed.contains(PlanTarget::of(mirror))
        });
        eligible
    }

    /// Keeps the mirrors for which `is_preferred` returns true, unless it does for none.
    fn prefer(&mut self, is_preferred: impl Fn(&Mirror) -> bool) {
        if self.as_slice().iter().any(&is_preferred) {
            self.0.retain(|mirror| is_preferred(mirror));
        }
    }
}
