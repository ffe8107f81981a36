//! Cutting a large read into parts, one for each mirror, where that is done sooner.
//!
//! On flash only: a disk would seek for each part. So of the strips into which a raid10 has cut a
//! request, those that lie one after the other on a disk are read from that one.

use super::Auto;
use super::cost::View;
use super::ingredients::Ingredient;
use super::speed::Speed;
use super::work::Busy;
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

    /// Whether it pays to cut a read. As a rule the slowest part must cost a quarter less than the
    /// whole at `place`. A sequential reader that has the mirrors to itself gains from less: while
    /// a member looks up a part of one of its reads, it transfers that of another.
    #[inline]
    pub(super) fn pays_to_split(&self, place: usize, mirrors: &[Mirror], view: &View<'_>) -> bool {
        let is_disk = |mirror: &Mirror| self.known(mirror).speed.is_disk;
        if view.length < BYTES_MIN || !self.has(Ingredient::Split) || mirrors.iter().any(is_disk) {
            return false;
        }
        let part = View { length: view.length / mirrors.len() as u64, ..*view };
        let is_only_own = view.run.is_reader() && self.has_one_read_at_most(mirrors, &part);
        let cost_ns = |mirror: &Mirror, view: &View<'_>| match is_only_own {
            // What is in flight was cut as well, and so is no reason against it.
            true => self.cost(mirror, Busy::default(), view).total_ns(),
            false => self.cost_ns(mirror, view),
        };
        let whole_ns = cost_ns(&mirrors[place], view);
        let most_ns = if is_only_own { whole_ns } else { whole_ns / 4 * 3 };
        mirrors.iter().all(|mirror| cost_ns(mirror, &part) < most_ns)
    }

    /// Whether the mirrors have no more in flight than a part of this length each.
    #[inline]
    fn has_one_read_at_most(&self, mirrors: &[Mirror], part: &View<'_>) -> bool {
        let sum = |of: fn(&Speed, u64) -> u64| -> u64 {
            mirrors.iter().map(|mirror| of(&self.known(mirror).speed, part.length)).sum()
        };
        sum(|speed, _| speed.seen.load) <= sum(Speed::work_of)
    }
}
