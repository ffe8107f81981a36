//! Where a scrub found blocks that it leaves without a right copy: the first ranges of them.
//!
//! They are kept in memory, for as long as the service runs: the members keep only counts.

use serde::{Deserialize, Serialize};

const RANGES_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RangeProblem {
    /// Mirrors differ, and it is left so.
    Differs,
    /// No mirror could read it or has it right.
    Unreadable,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BadRange {
    pub offset: u64,
    pub length: u64,
    pub problem: RangeProblem,
}

/// The first ranges that a scrub found.
#[derive(Default)]
pub(super) struct BadRanges {
    ranges: Vec<BadRange>,
    has_more: bool,
}

impl BadRanges {
    /// The ranges, in the order in which they were found, and whether there are more.
    pub(super) fn list(&self) -> (&[BadRange], bool) {
        (&self.ranges, self.has_more)
    }

    /// Adds a range; one that goes on from the last makes it longer, and one within it adds
    /// nothing.
    pub(super) fn add(&mut self, offset: u64, length: u64, problem: RangeProblem) {
        let end = offset + length;
        if let Some(last) = self.ranges.last_mut().filter(|last| last.problem == problem) {
            let last_end = last.offset + last.length;
            if (last.offset..=last_end).contains(&offset) && !self.has_more {
                last.length = end.max(last_end) - last.offset;
                return;
            }
        }
        match self.ranges.len() < RANGES_MAX {
            true => self.ranges.push(BadRange { offset, length, problem }),
            false => self.has_more = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_blocks_are_a_range_and_the_first_ranges_are_kept() {
        let mut bad = BadRanges::default();
        for offset in [0, 4096, 4096, 8192] {
            bad.add(offset, 4096, RangeProblem::Differs);
        }
        bad.add(12_288, 4096, RangeProblem::Unreadable);
        let first = BadRange { offset: 0, length: 12_288, problem: RangeProblem::Differs };
        let second = BadRange { offset: 12_288, length: 4096, problem: RangeProblem::Unreadable };
        assert_eq!(bad.list(), (&[first, second][..], false));
        for block in 0..RANGES_MAX as u64 {
            bad.add((10 + 2 * block) * 4096, 4096, RangeProblem::Differs);
        }
        let (ranges, has_more) = bad.list();
        assert_eq!((ranges.len(), has_more), (RANGES_MAX, true));
        assert_eq!(ranges[RANGES_MAX - 1].offset, (10 + 2 * 13) * 4096);
    }
}
