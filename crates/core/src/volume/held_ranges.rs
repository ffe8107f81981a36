//! A set of disjoint ranges, indexed by address: tells whether a range overlaps one of them.
//!
//! A range is entered in the bucket of each 64 KiB granule that it touches, so a look-up compares
//! the few ranges of one bucket: with 32 writes of 4 KiB in flight, usually none. A range of many
//! granules, as of a rebuild, is in a list that every look-up reads; few such ranges are held at
//! once. A sorted list was measured too: it cost a simulated 4 KiB write at depth 32 twice as much.

use std::ops::Range;

/// Granules of 2^16 bytes.
const GRANULE_SHIFT: u32 = 16;
/// A range of more granules is in the list of long ones.
const GRANULES_MAX: u64 = 4;
const BUCKET_BITS: u32 = 6;

#[derive(Debug)]
pub(super) struct HeldRanges {
    buckets: [Vec<Range<u64>>; 1 << BUCKET_BITS],
    long: Vec<Range<u64>>,
}

impl Default for HeldRanges {
    fn default() -> HeldRanges {
        HeldRanges { buckets: std::array::from_fn(|_| Vec::new()), long: Vec::new() }
    }
}

impl HeldRanges {
    /// Returns true if `range` overlaps a range of the set.
    #[inline]
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        let any = |list: &Vec<Range<u64>>| list.iter().any(|held| overlap(held, range));
        let in_buckets = match granules(range) {
            Some(granules) => {
                granules.into_iter().any(|granule| any(&self.buckets[bucket(granule)]))
            }
            None => self.buckets.iter().any(any),
        };
        in_buckets || any(&self.long)
    }

    /// Adds a range that overlaps none of the set.
    #[inline]
    pub(super) fn insert(&mut self, range: Range<u64>) {
        debug_assert!(!self.overlaps(&range), "{range:?} is held already");
        match granules(&range) {
            Some(granules) => {
                for granule in granules {
                    self.buckets[bucket(granule)].push(range.clone());
                }
            }
            None => self.long.push(range),
        }
    }

    /// Removes a range. Panics if the set does not have exactly this range.
    #[inline]
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        match granules(range) {
            Some(granules) => {
                for granule in granules {
                    take(&mut self.buckets[bucket(granule)], range);
                }
            }
            None => take(&mut self.long, range),
        }
    }

    /// The range that begins before `offset` and ends after it.
    pub(super) fn around(&self, offset: u64) -> Option<Range<u64>> {
        let candidates = self.buckets[bucket(offset >> GRANULE_SHIFT)].iter().chain(&self.long);
        candidates.into_iter().find(|held| held.start < offset && offset < held.end).cloned()
    }
}

#[inline]
pub(super) fn overlap(left: &Range<u64>, right: &Range<u64>) -> bool {
    left.start < right.end && right.start < left.end
}

/// The granules that a range touches, or `None` if it is long.
#[inline]
fn granules(range: &Range<u64>) -> Option<std::ops::RangeInclusive<u64>> {
    debug_assert!(!range.is_empty(), "{range:?} has no granule");
    let (first, last) = (range.start >> GRANULE_SHIFT, (range.end - 1) >> GRANULE_SHIFT);
    (last - first < GRANULES_MAX).then_some(first..=last)
}

/// The bucket of a granule, by Fibonacci hashing: streams at a power of two apart spread as well.
#[inline]
fn bucket(granule: u64) -> usize {
    (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BUCKET_BITS)) as usize
}

#[inline]
fn take(list: &mut Vec<Range<u64>>, range: &Range<u64>) {
    let index = list.iter().position(|held| held == range);
    list.swap_remove(index.expect("a lock is held until its only release"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_and_short_ranges_see_each_other() {
        let mut held = HeldRanges::default();
        held.insert(0..1 << 30);
        held.insert(1 << 30..(1 << 30) + 4096);
        assert!(held.overlaps(&(4096..8192)), "a short one inside a long one");
        assert!(held.overlaps(&(1 << 30..2 << 30)), "a long one over a short one");
        assert!(!held.overlaps(&((1 << 30) + 4096..2 << 30)));
        assert_eq!(held.around(1 << 29), Some(0..1 << 30));
        assert_eq!(held.around(1 << 30), None, "an end is not inside");
        held.remove(&(0..1 << 30));
        assert!(!held.overlaps(&(4096..8192)));
    }

    proptest! {
        /// In units of 32 KiB, so that ranges share granules and some are long.
        #[test]
        fn overlaps_are_those_of_a_plain_list(
            steps in prop::collection::vec((0..100u64, 1..14u64, any::<bool>()), 1..200),
        ) {
            let mut held = HeldRanges::default();
            let mut list: Vec<Range<u64>> = Vec::new();
            for (start, length, removes) in steps {
                let range = start << 15..(start + length) << 15;
                let expected = list.iter().any(|other| overlap(other, &range));
                prop_assert_eq!(held.overlaps(&range), expected);
                let inside = range.start + 1;
                let around = list.iter().find(|held| held.start < inside && inside < held.end);
                prop_assert_eq!(held.around(inside), around.cloned());
                if removes && !list.is_empty() {
                    held.remove(&list.swap_remove(start as usize % list.len()));
                } else if !expected {
                    held.insert(range.clone());
                    list.push(range);
                }
            }
        }
    }
}
