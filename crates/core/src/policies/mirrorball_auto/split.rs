//! Splitting a large read into parts, one for each mirror, where that takes less time.
//!
//! On flash only: a disk would seek for each part.

use super::components::Component;
use super::load::Load;
use super::member_model::{MemberModels, ReadContext};
use crate::policy::Mirror;
use crate::units::KIB;

/// Shorter reads are not split.
const BYTES_MIN: u64 = 64 * KIB;

impl MemberModels {
    /// True if a split pays. In general the slowest part must cost a quarter less than the whole at
    /// `place`. For a sequential reader that has the mirrors to itself any gain is enough: while a
    /// member looks up a part of one of its reads, it transfers a part of another.
    #[inline]
    pub(super) fn pays_to_split(
        &self,
        place: usize,
        mirrors: &[Mirror],
        context: &ReadContext<'_>,
    ) -> bool {
        let is_disk = |mirror: &Mirror| self.of(mirror).cost.is_disk;
        let may_split = context.length >= BYTES_MIN && self.has(Component::Split);
        if !may_split || mirrors.iter().any(is_disk) {
            return false;
        }
        let part = ReadContext { length: context.length / mirrors.len() as u64, ..*context };
        let is_only_reader = context.run.is_reader() && self.has_one_read_at_most(mirrors, &part);
        let cost_ns = |mirror: &Mirror, context: &ReadContext<'_>| match is_only_reader {
            // The reads in flight are split as well, so they do not count.
            true => {
                let load = self.of(mirror).cost.load;
                self.cost(mirror, Load { work: 0, ..load }, context).total_ns()
            }
            false => self.cost_ns(mirror, context),
        };
        let whole_ns = cost_ns(&mirrors[place], context);
        let most_ns = if is_only_reader { whole_ns } else { whole_ns / 4 * 3 };
        mirrors.iter().all(|mirror| cost_ns(mirror, &part) < most_ns)
    }

    /// True if the mirrors together have no more in flight than a part of this length each.
    #[inline]
    fn has_one_read_at_most(&self, mirrors: &[Mirror], part: &ReadContext<'_>) -> bool {
        let models = || mirrors.iter().map(|mirror| &self.of(mirror).cost);
        let in_flight: u64 = models().map(|model| model.load.work).sum();
        in_flight <= models().map(|model| model.work_of(part.length)).sum()
    }
}
