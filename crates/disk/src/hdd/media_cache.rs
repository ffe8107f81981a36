//! The media cache of a disk with shingled recording that the drive manages itself.
//!
//! Tracks of such a disk overlap within bands, so a block cannot be changed without writing the
//! rest of its band again. The disk therefore appends writes to a part of the medium that is not
//! shingled, and cleans later: it reads a band, writes it with the new blocks, and so frees what
//! the cache held of it. When the cache is full, writes wait for cleaning, about a second for each
//! band; that is the stall that such disks are known for. A stream that has run through a whole
//! band is written in place.
//!
//! Source of the structure: Aghayev, Shafaei and Desnoyers, "Skylight: a window on shingled disk
//! operation", FAST 2015. Non-goals: reads of cached blocks go to their band, not to the cache, and
//! the map of the cache costs nothing.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Debug)]
pub(super) struct MediaCache {
    size_bytes: u64,
    band_bytes: u64,
    /// Least share of the cache that a write occupies.
    record_bytes: u64,
    used_bytes: u64,
    bands: BTreeMap<u64, u64>,
    /// The same bands, in the order in which they came in.
    oldest: VecDeque<u64>,
    next_byte: u64,
    /// Where the last write ended, and the length of the stream that it ended.
    stream_end: u64,
    stream_bytes: u64,
}

/// Where a write goes, and the number of bands cleaned to make space for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Placement {
    pub(super) offset: u64,
    pub(super) bands_cleaned: u64,
}

impl MediaCache {
    /// An empty cache at the start of the disk, or `None` if `size_bytes` is zero.
    pub(super) fn new(size_bytes: u64, band_bytes: u64, record_bytes: u64) -> Option<MediaCache> {
        (size_bytes > 0).then(|| MediaCache {
            size_bytes,
            band_bytes,
            record_bytes,
            used_bytes: 0,
            bands: BTreeMap::new(),
            oldest: VecDeque::new(),
            next_byte: 0,
            stream_end: u64::MAX,
            stream_bytes: 0,
        })
    }

    /// Finds a place for a write, after cleaning as many bands as that takes.
    pub(super) fn place(&mut self, offset: u64, length: u64) -> Placement {
        let continues = offset == self.stream_end;
        self.stream_bytes = if continues { self.stream_bytes + length } else { length };
        self.stream_end = offset + length;
        if self.stream_bytes > self.band_bytes {
            return Placement { offset, bands_cleaned: 0 };
        }
        let length = length.max(self.record_bytes);
        let mut bands_cleaned = 0;
        while self.used_bytes + length > self.size_bytes && self.clean_oldest() {
            bands_cleaned += 1;
        }
        if self.next_byte + length > self.size_bytes {
            self.next_byte = 0;
        }
        let placed = self.next_byte;
        self.next_byte += length;
        self.used_bytes += length;
        let band = offset / self.band_bytes;
        let cached = self.bands.entry(band).or_insert_with(|| {
            self.oldest.push_back(band);
            0
        });
        *cached += length;
        Placement { offset: placed, bands_cleaned }
    }

    /// Cleans the band that has been in the cache for longest. Returns false if there is none.
    pub(super) fn clean_oldest(&mut self) -> bool {
        let Some(band) = self.oldest.pop_front() else { return false };
        self.used_bytes -= self.bands.remove(&band).expect("both lists hold the same bands");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_appended_until_the_cache_is_full_and_then_bands_are_cleaned() {
        let mut cache = MediaCache::new(100, 50, 0).unwrap();
        let placed = |offset, bands_cleaned| Placement { offset, bands_cleaned };
        // Bands 10, 20 and 10 again.
        assert_eq!(cache.place(500, 40), placed(0, 0));
        assert_eq!(cache.place(1_000, 30), placed(40, 0));
        assert_eq!(cache.place(510, 20), placed(70, 0));
        // Ten bytes are left; cleaning band 10 frees 60 of them.
        assert_eq!(cache.place(2_000, 20), placed(0, 1));
        assert_eq!(cache.place(3_000, 50), placed(20, 0));
        assert_eq!(cache.place(4_000, 10), placed(70, 1));
        assert_eq!((cache.used_bytes, cache.bands.len()), (80, 3));
    }

    #[test]
    fn a_stream_longer_than_a_band_is_written_in_place() {
        let mut cache = MediaCache::new(100, 50, 0).unwrap();
        let mut offsets = Vec::new();
        for n in 0..5 {
            offsets.push(cache.place(1_000 + n * 25, 25).offset);
        }
        assert_eq!(offsets, [0, 25, 1_050, 1_075, 1_100]);
        assert_eq!(cache.place(1_000, 25).offset, 50, "no stream any more");
    }

    #[test]
    fn a_short_write_takes_a_whole_record() {
        let mut cache = MediaCache::new(100, 50, 30).unwrap();
        let offsets = [700, 800, 900].map(|offset| cache.place(offset, 4).offset);
        assert_eq!((offsets, cache.used_bytes), ([0, 30, 60], 90));
        assert_eq!(cache.place(600, 4), Placement { offset: 0, bands_cleaned: 1 });
    }
}
