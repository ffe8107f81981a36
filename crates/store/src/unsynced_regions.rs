//! Regions of the volume whose mirrors may differ: after a crash, or because they were never
//! synchronised.
//!
//! Reads of an unsynced region go to one mirror, its *source*, so that a block reads the same until
//! it is written. A resync copies the source to the other mirrors, and the region is synced.

use crate::StoreGate;
use std::collections::BTreeSet;
use std::ops::Range;

/// Progress of the first synchronisation is recorded in this many steps, so at most one is repeated
/// after a crash.
const PROGRESS_STEPS: u64 = 256;

pub const REGION_BYTES: u64 = 4 << 20;

#[derive(Clone, Debug, Default)]
pub(crate) struct UnsyncedRegions {
    words: Vec<u64>,
    count: u64,
    /// Those in which mirrors came to differ once more. A resync that is under way may be past the
    /// place, so its end does not count.
    renewed: BTreeSet<u64>,
}

impl UnsyncedRegions {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn insert(&mut self, region: u64) {
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
    pub(crate) fn take_renewed(&mut self, region: u64) -> bool {
        self.renewed.remove(&region)
    }

    pub(crate) fn remove(&mut self, region: u64) {
        if self.contains(region) {
            assert!(self.count > 0, "region {region} is counted");
            self.words[(region / 64) as usize] &= !(1 << (region % 64));
            self.count -= 1;
        }
    }

    fn contains(&self, region: u64) -> bool {
        let word = self.words.get((region / 64) as usize).copied().unwrap_or(0);
        word & 1 << (region % 64) != 0
    }

    /// Returns true if a region that overlaps the range is in the set.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        regions(range).any(|region| self.contains(region))
    }

    /// The first region at or behind `region`, or else the first of all.
    pub(crate) fn next(&self, region: u64) -> Option<u64> {
        let first = (region / 64) as usize;
        let rest = |index: usize| match index == first {
            true => self.words[index] & (u64::MAX << (region % 64)),
            false => self.words[index],
        };
        let found = (first..self.words.len()).map(|index| (index, rest(index)));
        let found = found.chain(self.words.iter().copied().enumerate());
        let (index, word) = found.into_iter().find(|(_, word)| *word != 0)?;
        let found = index as u64 * 64 + u64::from(word.trailing_zeros());
        assert!(self.contains(found), "region {found} is in the set");
        Some(found)
    }
}

impl StoreGate {
    /// Bytes of the volume whose mirrors may differ.
    pub fn unsynced_bytes(&self) -> u64 {
        // The last region may be shorter.
        (self.unsynced.count() * REGION_BYTES).min(self.capacity_bytes)
    }

    /// The next range to resync at or behind `offset`, going round; `None` if all is in sync. It is
    /// a request of [`RequestKind::Resync`](mirrorball_core::io::RequestKind::Resync).
    pub fn next_unsynced(&self, offset: u64) -> Option<Range<u64>> {
        let start = self.unsynced.next(offset / REGION_BYTES)? * REGION_BYTES;
        assert!(start < self.capacity_bytes, "a region at {start} is of the volume");
        Some(start..(start + REGION_BYTES).min(self.capacity_bytes))
    }

    /// Records a range whose mirrors differ from now on, or may: it is read from one mirror until
    /// it is resynced.
    pub fn add_unsynced(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.capacity_bytes);
        regions(&range).for_each(|region| self.unsynced.renew(region));
        self.insert_unsynced(range);
    }

    /// Records a range whose mirrors may differ since before the start.
    pub(crate) fn insert_unsynced(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.capacity_bytes);
        for region in regions(&range) {
            self.unsynced.insert(region);
            self.log.keep(region as u32);
        }
    }

    /// Where the labels are to say that the part begins which is not synchronised, after a flush of
    /// all members that begins now: as before, if there is little progress.
    pub(crate) fn resync_from_after_flush(&self) -> Option<u64> {
        let from = self.labels.resync_from?;
        let region = self.unsynced.next(from / REGION_BYTES)?;
        let next = region * REGION_BYTES;
        // Regions before it are in the dirty log.
        let is_due = next >= from + (self.capacity_bytes / PROGRESS_STEPS).max(REGION_BYTES);
        Some(if is_due { next } else { from })
    }

    /// Returns true if a flush would record progress of the first synchronisation.
    pub fn wants_resync_flush(&self) -> bool {
        let recorded = self.labels.resync_from;
        recorded.is_some() && recorded != self.resync_from_after_flush()
    }

    /// Returns true if the mirrors of a range may differ because they were not synchronised.
    pub fn may_differ(&self, range: &Range<u64>) -> bool {
        !self.unsynced.is_empty() && self.unsynced.overlaps(range)
    }

    /// Returns true if writes wait until regions are resynced, because the dirty log is full of
    /// them.
    pub fn waits_for_resync(&self) -> bool {
        self.log.is_blocked()
    }
}

pub(crate) fn regions(range: &Range<u64>) -> Range<u64> {
    range.start / REGION_BYTES..range.end.div_ceil(REGION_BYTES)
}

/// The numbers of the regions that a range overlaps, as the dirty log has them.
pub(crate) fn region_numbers(range: &Range<u64>) -> impl Iterator<Item = u32> + use<> {
    regions(range).map(|region| region as u32)
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
