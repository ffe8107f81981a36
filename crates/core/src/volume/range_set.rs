//! A set of ranges of bytes, of which there are few: usually none.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch, each start with its end.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The ranges in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// Number of ranges.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if a range of the set begins before `range` and ends behind it.
    pub(super) fn surrounds(&self, range: &Range<u64>) -> bool {
        let around = self.ends.range(..range.start).next_back();
        around.is_some_and(|(_, &end)| end > range.end)
    }

    /// Returns true if a byte of `range` is in the set.
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        let last = self.ends.range(..range.end).next_back();
        !range.is_empty() && last.is_some_and(|(_, &end)| end > range.start)
    }

    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&before, &its_end)) = self.ends.range(..=end).next_back()
            && its_end >= start
        {
            self.ends.remove(&before);
            (start, end) = (start.min(before), end.max(its_end));
        }
        self.ends.insert(start, end);
    }

    pub(super) fn remove(&mut self, range: &Range<u64>) {
        while let Some((&start, &end)) = self.ends.range(..range.end).next_back()
            && end > range.start
            && !range.is_empty()
        {
            self.ends.remove(&start);
            if end > range.end {
                self.ends.insert(range.end, end);
            }
            if start < range.start {
                self.ends.insert(start, range.start);
            }
        }
    }

    /// Cuts `range` into parts, in order, that each are in the set or are not.
    pub(super) fn cut(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut rest = range;
        std::iter::from_fn(move || {
            let (start, last) = (rest.start, rest.end);
            let around = self.ends.range(..=start).next_back().filter(|(_, end)| **end > start);
            let end = match around {
                _ if rest.is_empty() => return None,
                Some((_, &end)) => end,
                None => self.ends.range(start..).next().map_or(last, |(&next, _)| next),
            };
            rest.start = end.min(last);
            Some(start..rest.start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Against a set of bytes.
        #[test]
        fn ranges_are_those_of_their_bytes(
            steps in prop::collection::vec((any::<bool>(), 0..40u64, 0..12u64), 1..40),
        ) {
            let (mut set, mut bytes) = (RangeSet::default(), BTreeSet::new());
            for (inserts, start, length) in steps {
                let range = start..start + length;
                match inserts {
                    true => {
                        set.insert(range.clone());
                        bytes.extend(range.clone());
                    }
                    false => {
                        set.remove(&range);
                        bytes.retain(|byte| !range.contains(byte));
                    }
                }
                prop_assert!(set.iter().flatten().eq(bytes.iter().copied()));
                let ends: Vec<Range<u64>> = set.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start), "{ends:?}");
                let (count, mut less) = (set.count(), set.clone());
                less.remove(&range);
                prop_assert_eq!(less.count() > count, !range.is_empty() && set.surrounds(&range));
                prop_assert_eq!(set.overlaps(&range), range.clone().any(|it| bytes.contains(&it)));
                let parts: Vec<Range<u64>> = set.cut(range.clone()).collect();
                prop_assert!(parts.iter().cloned().flatten().eq(range));
                let is_in = |part: &Range<u64>| set.overlaps(part);
                prop_assert!(parts.windows(2).all(|pair| is_in(&pair[0]) != is_in(&pair[1])));
                for mut part in parts {
                    let is_in = is_in(&part);
                    prop_assert!(part.all(|byte| bytes.contains(&byte) == is_in));
                }
            }
        }
    }
}
