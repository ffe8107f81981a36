//! Regions of the volume whose mirrors may differ: after a crash, or because they were never
//! synchronised.
//!
//! Reads of an unsynced region go to one mirror, its *source*, so that a block reads the same until
//! it is written. A resync copies the source to the other mirrors, and the region is synced.

use super::Volume;
use std::collections::BTreeSet;
use std::ops::Range;

/// Progress of the first synchronisation is recorded in this many steps, so at most one is repeated
/// after a crash.
const PROGRESS_STEPS: u64 = 256;

/// Size of a region.
pub const REGION_BYTES: u64 = 4 << 20;

/// A set of regions.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedRegions {
    words: Vec<u64>,
    count: u64,
    /// Those in which mirrors came to differ once more. A resync that is under way may be past the
    /// place, so its end does not count.
    renewed: BTreeSet<u64>,
}

impl UnsyncedRegions {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of regions.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn insert(&mut self, region: u64) {
        let word = (region / 64) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.count += u64::from(!self.contains(region));
        self.words[word] |= 1 << (region % 64);
    }

    /// Inserts a region because its mirrors differ from now on.
    fn renew(&mut self, region: u64) {
        if self.contains(region) {
            self.renewed.insert(region);
        }
        self.insert(region);
    }

    /// Returns true if the mirrors of a region came to differ since it was inserted, or since the
    /// last call.
    pub(super) fn take_renewed(&mut self, region: u64) -> bool {
        self.renewed.remove(&region)
    }

    pub(super) fn remove(&mut self, region: u64) {
        if self.contains(region) {
            self.words[(region / 64) as usize] &= !(1 << (region % 64));
            self.count -= 1;
        }
    }

    fn contains(&self, region: u64) -> bool {
        let word = self.words.get((region / 64) as usize).copied().unwrap_or(0);
        word & 1 << (region % 64) != 0
    }

    /// Returns true if a region that overlaps the range is in the set.
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        regions(range).any(|region| self.contains(region))
    }

    /// The first region at or behind `region`, or else the first of all.
    pub(super) fn next(&self, region: u64) -> Option<u64> {
        let first = (region / 64) as usize;
        let rest = |index: usize| match index == first {
            true => self.words[index] & (u64::MAX << (region % 64)),
            false => self.words[index],
        };
        let found = (first..self.words.len()).map(|index| (index, rest(index)));
        let found = found.chain(self.words.iter().copied().enumerate());
        let (index, word) = found.into_iter().find(|(_, word)| *word != 0)?;
        Some(index as u64 * 64 + u64::from(word.trailing_zeros()))
    }
}

impl Volume {
    /// Takes a range whose mirrors differ from now on, or may: it is read from one mirror until it
    /// is resynced.
    pub fn add_unsynced(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.capacity_bytes());
        regions(&range).for_each(|region| self.unsynced.renew(region));
        self.insert_unsynced(range);
    }

    /// Takes a range whose mirrors may differ since before the start.
    pub(super) fn insert_unsynced(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.capacity_bytes());
        for region in regions(&range) {
            self.unsynced.insert(region);
            if let Some(log) = &mut self.log {
                log.keep(region as u32);
            }
        }
    }

    /// Where the labels are to say that the part begins which is not synchronised, after a flush of
    /// all members that begins now: as before, if there is little progress.
    pub(super) fn resync_from_after_flush(&self) -> Option<u64> {
        let from = self.labels.as_ref()?.resync_from?;
        let region = self.unsynced.next(from / REGION_BYTES)?;
        let next = region * REGION_BYTES;
        // Regions before it are in the dirty log.
        let is_due = next >= from + (self.capacity_bytes() / PROGRESS_STEPS).max(REGION_BYTES);
        Some(if is_due { next } else { from })
    }

    /// Returns true if a flush would record progress of the first synchronisation.
    pub fn wants_resync_flush(&self) -> bool {
        let recorded = self.labels.as_ref().and_then(|labels| labels.resync_from);
        recorded.is_some() && recorded != self.resync_from_after_flush()
    }
}

/// The regions that a range overlaps.
pub(super) fn regions(range: &Range<u64>) -> Range<u64> {
    range.start / REGION_BYTES..range.end.div_ceil(REGION_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_found_until_they_are_removed() {
        let mut unsynced = UnsyncedRegions::default();
        for region in [3, 64, 200, 200] {
            unsynced.insert(region);
        }
        assert_eq!(unsynced.count(), 3);
        assert!(unsynced.overlaps(&(3 * REGION_BYTES..3 * REGION_BYTES + 1)));
        assert!(unsynced.overlaps(&(0..3 * REGION_BYTES + 1)));
        assert!(!unsynced.overlaps(&(0..3 * REGION_BYTES)));
        assert!(!unsynced.overlaps(&(4 * REGION_BYTES..64 * REGION_BYTES)));
        assert_eq!(unsynced.next(4), Some(64));
        assert_eq!(unsynced.next(201), Some(3), "it goes round");
        for region in [3, 3, 64, 200] {
            unsynced.remove(region);
        }
        assert!(unsynced.is_empty());
        assert_eq!(unsynced.next(0), None);
    }
}
