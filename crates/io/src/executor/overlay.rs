//! Bytes that reads of a member get in place of what the member has: in a volume that is read-only,
//! the writes that its journal would repeat.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges of a member with their bytes; no two overlap.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// By the first byte on the member.
    ranges: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    /// True if it has no bytes.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns true if it has bytes in this range of the member.
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        !range.is_empty() && self.overlapping(range).next().is_some()
    }

    /// Puts bytes over those that the member or the overlay has there.
    pub(super) fn insert(&mut self, offset: u64, bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        if bytes.is_empty() {
            return;
        }
        let hidden: Vec<u64> = self.overlapping(&(offset..end)).map(|(at, _)| at).collect();
        for at in hidden {
            let old = self.ranges.remove(&at).expect("it was found");
            if at < offset {
                self.ranges.insert(at, old[..(offset - at) as usize].into());
            }
            if at + old.len() as u64 > end {
                self.ranges.insert(end, old[(end - at) as usize..].into());
            }
        }
        self.ranges.insert(offset, bytes.into());
    }

    /// Replaces the bytes that were read at this offset of the member, where it has others.
    pub(super) fn apply(&self, offset: u64, read: &mut [u8]) {
        let range = offset..offset + read.len() as u64;
        for (at, bytes) in self.overlapping(&range) {
            let start = at.max(range.start);
            let end = (at + bytes.len() as u64).min(range.end);
            let from = &bytes[(start - at) as usize..(end - at) as usize];
            read[(start - offset) as usize..(end - offset) as usize].copy_from_slice(from);
        }
    }

    /// What it has in a range, from the last on.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let start = range.start;
        let before_end = self.ranges.range(..range.end).rev();
        let found = before_end.map(|(&at, bytes)| (at, &bytes[..]));
        found.take_while(move |(at, bytes)| at + bytes.len() as u64 > start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_bytes_hide_earlier_ones_and_no_others() {
        let mut overlay = Overlay::default();
        let mut expected = [0u8; 64];
        let writes = [(10, 20), (30, 4), (12, 3), (5, 7), (28, 10), (40, 8), (41, 2), (39, 12)];
        for (fill, (offset, length)) in (1..).zip(writes) {
            overlay.insert(offset as u64, vec![fill; length]);
            expected[offset..offset + length].fill(fill);
            for start in 0..64 {
                for end in start..=64 {
                    let mut read = vec![0; end - start];
                    overlay.apply(start as u64, &mut read);
                    assert_eq!(read, expected[start..end], "{start}..{end} after {fill}");
                    let has_bytes = expected[start..end].iter().any(|&byte| byte != 0);
                    assert_eq!(overlay.overlaps(&(start as u64..end as u64)), has_bytes);
                }
            }
        }
        overlay.insert(60, Vec::new());
        assert!(!overlay.overlaps(&(55..64)) && !overlay.is_empty());
    }
}
