//! Rows of full stripes whose parities may not match the data, and what that means for them.
//!
//! Rows are *torn* where a write failed midway. Nothing is recovered from their parities. Data that
//! were on a missing member are *lost* there: the member is rebuilt without them, and they stay
//! unreadable until they are written again. Rows are torn no longer once their parities are
//! computed from all data.
//!
//! Rows are *unsynced* until the first synchronisation of the volume has come to them. Their
//! parities match the data unless nothing was written there since the volume was made, and nobody
//! relies on such data: so what a missing member has is recovered from the parities all the same.
//! A write there computes the parities from the data, and protects what it writes at once.

use super::Volume;
use super::range_set::RangeSet;
use super::row_plan::Parity;
use crate::geometry::FullStripe;
use crate::member::{Member, MemberState};
use std::ops::Range;

/// Limit of the ranges of unsynced rows: scattered writes divide them, and each takes 29 bytes of
/// memory. Beyond that, rows that a write in the midst of a range synchronised stay unsynced.
const UNSYNCED_RANGES_MAX: usize = 1 << 16;

/// The torn and the unsynced rows of a volume.
#[derive(Debug, Default)]
pub(super) struct TornRows {
    /// Rows, counted from the first byte of their stripe on the volume.
    torn: RangeSet,
    /// Rows that were never synchronised, counted likewise.
    unsynced: RangeSet,
    /// Bytes of the volume that are lost although their member is in sync. They are in torn rows.
    lost: RangeSet,
}

/// Rows of a stripe in a space where those of other stripes are elsewhere: a strip is no longer
/// than the data of its stripe.
pub(super) fn spread(stripe: &FullStripe, rows: &Range<u64>) -> Range<u64> {
    stripe.volume_offset + rows.start..stripe.volume_offset + rows.end
}

/// The data of a column.
fn data_of(stripe: &FullStripe, column: u8, rows: &Range<u64>) -> Range<u64> {
    let start = stripe.volume_offset + u64::from(column) * stripe.strip_bytes;
    start + rows.start..start + rows.end
}

impl TornRows {
    /// Marks rows whose parities could not be written with their data.
    pub(super) fn tear(&mut self, stripe: &FullStripe, rows: &Range<u64>) {
        self.torn.insert(spread(stripe, rows));
    }

    /// Marks all rows from a stripe on to the end of the volume as unsynced.
    pub(super) fn unsync_from(&mut self, stripe: &FullStripe, end: u64) {
        self.unsynced.insert(stripe.volume_offset..end);
    }

    /// Takes the marks from rows whose parities were computed from all data.
    pub(super) fn mend(&mut self, stripe: &FullStripe, rows: &Range<u64>) {
        if self.torn.is_empty() && self.unsynced.is_empty() {
            return;
        }
        let spread_rows = spread(stripe, rows);
        self.torn.remove(&spread_rows);
        let is_full = self.unsynced.count() >= UNSYNCED_RANGES_MAX;
        if !(is_full && self.unsynced.surrounds(&spread_rows)) {
            self.unsynced.remove(&spread_rows);
        }
        if !self.unsynced.overlaps(&spread(stripe, &(0..stripe.strip_bytes))) {
            // A mark of many stripes has what is between their rows, too.
            self.unsynced.remove(&(stripe.volume_offset..stripe.volume_offset + stripe.length()));
        }
        for column in 0..stripe.data {
            self.on_written(stripe, column, rows);
        }
    }

    /// Marks data that a rebuild could not recover.
    pub(super) fn lose(&mut self, stripe: &FullStripe, column: u8, rows: &Range<u64>) {
        debug_assert!(self.are_torn(stripe, rows), "data are lost in torn rows only");
        self.lost.insert(data_of(stripe, column, rows));
    }

    /// Takes the mark from data that were written again.
    pub(super) fn on_written(&mut self, stripe: &FullStripe, column: u8, rows: &Range<u64>) {
        if !self.lost.is_empty() {
            self.lost.remove(&data_of(stripe, column, rows));
        }
    }

    /// Returns true if some of the rows are torn.
    pub(super) fn are_torn(&self, stripe: &FullStripe, rows: &Range<u64>) -> bool {
        self.torn.overlaps(&spread(stripe, rows))
    }

    /// What the parities of some rows are worth.
    pub(super) fn parity(&self, stripe: &FullStripe, rows: &Range<u64>) -> Parity {
        let rows = spread(stripe, rows);
        match (self.torn.overlaps(&rows), self.unsynced.overlaps(&rows)) {
            (true, _) => Parity::Torn,
            (false, true) => Parity::Unsynced,
            (false, false) => Parity::Right,
        }
    }

    /// Returns true if data of a column are lost in some of the rows.
    pub(super) fn are_lost(&self, stripe: &FullStripe, column: u8, rows: &Range<u64>) -> bool {
        column < stripe.data && self.lost.overlaps(&data_of(stripe, column, rows))
    }

    /// Returns true if a part of this range of the volume is lost.
    #[inline]
    pub(super) fn is_lost(&self, range: &Range<u64>) -> bool {
        !self.lost.is_empty() && self.lost.overlaps(range)
    }

    /// Cuts rows into ranges whose parities are worth the same.
    pub(super) fn cut(
        &self,
        stripe: &FullStripe,
        rows: &Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> {
        let first = stripe.volume_offset;
        let parts = self.torn.cut(spread(stripe, rows));
        let parts = parts.flat_map(|part| self.unsynced.cut(part));
        parts.map(move |part| part.start - first..part.end - first)
    }
}

impl Volume {
    /// Returns true if data in torn rows are in sync on no member.
    pub(super) fn lacks_torn_data(&self) -> bool {
        let Some(stripes) = &self.stripes else { return false };
        let TornRows { torn, lost, .. } = &stripes.torn;
        !lost.is_empty() || torn.iter().any(|range| self.lacks_data_of(range))
    }

    /// Returns true if data in a range of torn rows are in sync on no member.
    fn lacks_data_of(&self, mut range: Range<u64>) -> bool {
        /// In more stripes, each member of their chunks has data.
        const STRIPES_MAX: usize = 4096;
        let is_in_sync = |(_, member): (_, &Member)| member.state == MemberState::InSync;
        if self.members().iter().all(is_in_sync) {
            return false;
        }
        for _ in 0..STRIPES_MAX {
            if range.is_empty() {
                return false;
            }
            let stripe = self.full_stripe(range.start);
            if range.start >= stripe.volume_offset + stripe.strip_bytes {
                range.start = stripe.volume_offset + stripe.length();
                continue;
            }
            // Only where a stripe has one strip of data do the rows of the next one follow.
            let end = range.end.min(stripe.volume_offset + stripe.strip_bytes);
            let row = range.start - stripe.volume_offset;
            let is_missing = |column| {
                let (member, start) = self.layout.map().column(&stripe, column);
                !self.states.is_in_sync(member, start + row, end - range.start)
            };
            if (0..stripe.data).any(is_missing) {
                return true;
            }
            range.start = end;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::{ChunkMap, Profile};
    use crate::member::MemberConfig;

    /// During the first synchronisation each small write far from the others takes a part out of
    /// what is unsynced.
    #[test]
    fn scattered_writes_take_bounded_memory() {
        let members = [1, 2, 3].map(|devid| MemberConfig::new(devid, 64 << 30));
        let map = ChunkMap::allocate(Profile::Raid5, None, &members).unwrap();
        let stripe = |number: u64| map.full_stripe(number * (128 << 10)).unwrap();
        let mut rows = TornRows::default();
        rows.unsync_from(&stripe(0), map.capacity_bytes());
        for number in 0..1 << 16 {
            for row in [4096, 16384] {
                rows.mend(&stripe(number), &(row..row + 4096));
            }
        }
        assert_eq!(rows.unsynced.count(), UNSYNCED_RANGES_MAX);
        // The synchronisation comes to all of them, one after the other.
        for number in 0..map.capacity_bytes() / (128 << 10) {
            let stripe = stripe(number);
            rows.mend(&stripe, &(0..stripe.strip_bytes));
        }
        assert!(rows.unsynced.is_empty());
    }
}
