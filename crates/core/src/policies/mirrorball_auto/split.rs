//! Cutting a large read into parts, one for each mirror, where that is done sooner.
//!
//! On flash only: a disk would seek for each part.

use super::Auto;
use super::cost::View;
use super::ingredients::Ingredient;
use super::work::Busy;
use crate::policy::Mirror;
use crate::units::KIB;

/// Shorter reads are not cut.
const BYTES_MIN: u64 = 64 * KIB;

impl Auto {
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
            // The reads in flight were cut as well, and so are no reason against it.
            true => {
                let seen = self.known(mirror).speed.seen;
                self.cost(mirror, Busy { load: 0, ..seen }, view).total_ns()
            }
            false => self.cost_ns(mirror, view),
        };
        let whole_ns = cost_ns(&mirrors[place], view);
        let most_ns = if is_only_own { whole_ns } else { whole_ns / 4 * 3 };
        mirrors.iter().all(|mirror| cost_ns(mirror, &part) < most_ns)
    }

    /// Whether the mirrors have no more in flight than a part of this length each.
    #[inline]
    fn has_one_read_at_most(&self, mirrors: &[Mirror], part: &View<'_>) -> bool {
        let speeds = || mirrors.iter().map(|mirror| &self.known(mirror).speed);
        let in_flight: u64 = speeds().map(|speed| speed.seen.load).sum();
        in_flight <= speeds().map(|speed| speed.work_of(part.length)).sum()
    }
}
