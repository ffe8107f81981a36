//! A set of bytes, kept as the largest ranges that do not touch.

use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub(crate) struct ByteRanges {
    /// The end of each range, by its start.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl ByteRanges {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a range, which joins those that it overlaps or touches.
    pub(crate) fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&start, &end)) = self.ranges.range(..=range.end).next_back() {
            if end < range.start {
                break;
            }
            self.ranges.remove(&start);
            self.bytes -= end - start;
            range = range.start.min(start)..range.end.max(end);
        }
        self.bytes += range.end - range.start;
        self.ranges.insert(range.start, range.end);
    }

    /// Removes all bytes of `within`, and returns them as ranges in the order of addresses.
    pub(crate) fn take(&mut self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut taken = Vec::new();
        if within.is_empty() {
            return taken;
        }
        while let Some((&start, &end)) = self.ranges.range(..within.end).next_back() {
            if end <= within.start {
                break;
            }
            self.ranges.remove(&start);
            let part = start.max(within.start)..end.min(within.end);
            self.bytes -= part.end - part.start;
            if start < part.start {
                self.ranges.insert(start, part.start);
            }
            if part.end < end {
                self.ranges.insert(part.end, end);
            }
            taken.push(part);
        }
        taken.reverse();
        taken
    }

    /// The first byte of the set that is not below `offset`.
    pub(crate) fn first_byte_from(&self, offset: u64) -> Option<u64> {
        if self.end_of_range_at(offset).is_some() {
            return Some(offset);
        }
        self.ranges.range(offset..).next().map(|(&start, _)| start)
    }

    /// Returns true if the set has a byte of the `length` bytes from `offset` on.
    pub(crate) fn overlaps(&self, offset: u64, length: u64) -> bool {
        self.first_byte_from(offset).is_some_and(|first| first - offset < length)
    }

    /// The end of the range that holds the byte at `offset`; `None` if it is not in the set.
    pub(crate) fn end_of_range_at(&self, offset: u64) -> Option<u64> {
        let (_, &end) = self.ranges.range(..=offset).next_back()?;
        (offset < end).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::rng::Rng;

    #[test]
    fn ranges_are_those_of_a_bit_per_byte() {
        let (mut set, mut bits, mut rng) = (ByteRanges::default(), [false; 64], Rng::new(1));
        for _ in 0..20_000 {
            let start = rng.below(64);
            let range = start..start + rng.below(65 - start);
            let part = range.start as usize..range.end as usize;
            if rng.below(2) == 0 {
                set.insert(range);
                bits[part].fill(true);
            } else {
                let taken = set.take(range.clone());
                let held: Vec<u64> = range.filter(|&at| bits[at as usize]).collect();
                assert_eq!(taken.into_iter().flatten().collect::<Vec<u64>>(), held);
                bits[part].fill(false);
            }
            assert_eq!(set.bytes(), bits.iter().filter(|&&bit| bit).count() as u64);
            let touching = |(left, right): (&Range<u64>, &Range<u64>)| left.end >= right.start;
            let ranges: Vec<Range<u64>> = set.ranges.iter().map(|(&s, &e)| s..e).collect();
            assert!(!ranges.iter().zip(ranges.iter().skip(1)).any(touching), "{ranges:?}");
            for at in 0..64 {
                let next = (at..64).find(|&at| bits[at as usize]);
                assert_eq!(set.first_byte_from(at), next);
                assert_eq!(set.overlaps(at, 9), next.is_some_and(|next| next < at + 9));
                let end = (at..).find(|&at| !bits.get(at as usize).is_some_and(|&bit| bit));
                assert_eq!(set.end_of_range_at(at), end.filter(|&end| end > at));
            }
        }
    }
}
