//! Cutting a large read into parts, one for each mirror, where that is done sooner.
//!
//! On flash only: a disk would seek for each part. So of the strips into which a raid10 has cut a
//! request, those that lie one after the other on a disk are read from that one.

use super::Auto;
use super::cost::View;
use super::ingredients::Ingredient;
use crate::policy::Mirror;
use crate::units::KIB;

/// Shorter reads are not cut.
const BYTES_MIN: u64 = 64 * KIB;

impl Auto {
    /// The disk that has just been given the part of the same request that lies before this one.
    #[inline]
    pub(super) fn with_first_part(&self, mirrors: &[Mirror], view: &View<'_>) -> Option<usize> {
        if !view.run.is_part {
            return None;
        }
        mirrors.iter().position(|mirror| {
            let known = self.known(mirror);
            known.speed.is_disk && known.read_at == view.now && view.run.was_at(mirror.member)
        })
    }

    /// Whether the slowest part would cost a quarter less than the read of all at `place`.
    #[inline]
    pub(super) fn pays_to_split(&self, place: usize, mirrors: &[Mirror], view: &View<'_>) -> bool {
        let is_disk = |mirror: &Mirror| self.known(mirror).speed.is_disk;
        if view.length < BYTES_MIN || !self.has(Ingredient::Split) || mirrors.iter().any(is_disk) {
            return false;
        }
        let part = View { length: view.length / mirrors.len() as u64, ..*view };
        let split_ns = mirrors.iter().map(|mirror| self.cost_ns(mirror, &part)).max();
        split_ns.is_some_and(|split_ns| split_ns < self.cost_ns(&mirrors[place], view) / 4 * 3)
    }
}
