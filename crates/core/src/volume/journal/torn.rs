//! Torn entries: those whose rows could not be written in place.

use super::super::held_ranges::overlap;
use super::super::torn_rows::TornRows;
use super::repairs::share_rows;
use super::{Journal, Stage};
use crate::geometry::FullStripe;
use std::collections::BTreeSet;
use std::ops::Range;

impl Journal {
    /// Returns true if the entry of some of these rows could not be written in place. It would be
    /// written after a restart, over what others wrote there.
    pub(in crate::volume) fn has_torn_rows(&self, stripe: &FullStripe, rows: &Range<u64>) -> bool {
        let overlaps = |(_, stage): (_, &Stage)| match stage {
            Stage::Torn(other, torn) => {
                other.volume_offset == stripe.volume_offset && overlap(torn, rows)
            }
            Stage::Open | Stage::Ended | Stage::Void => false,
        };
        self.has_torn && self.live.iter().any(overlaps)
    }

    /// Number of entries whose rows could not be written.
    pub(in crate::volume) fn torn_count(&self) -> usize {
        self.live.values().filter(|stage| matches!(stage, Stage::Torn(..))).count()
    }

    /// Returns true if rows could not be written and are torn.
    pub(in crate::volume) fn has_torn(&self) -> bool {
        self.has_torn
    }

    /// Returns true if the rows of a torn entry are torn no more.
    pub(in crate::volume) fn has_mended(&self, torn: &TornRows) -> bool {
        let is_mended = |stage: &Stage| match stage {
            Stage::Torn(stripe, rows) => !torn.are_torn(stripe, rows),
            Stage::Open | Stage::Ended | Stage::Void => false,
        };
        self.has_torn && self.live.values().any(is_mended)
    }

    /// Takes that the rows of an entry could not be written.
    pub(in crate::volume) fn tear(&mut self, sequence: u64, stripe: FullStripe, rows: Range<u64>) {
        self.live.insert(sequence, Stage::Torn(stripe, rows)).expect("an open entry is live");
        self.has_torn = true;
    }

    /// The live entries that stay until rows are mended: torn ones, and each that has rows of an
    /// older one that stays, which is written again before it.
    pub(super) fn staying(&self, torn: &TornRows) -> BTreeSet<u64> {
        let mut staying = BTreeSet::new();
        if !self.has_torn {
            return staying;
        }
        for (sequence, stage) in &self.live {
            let Some(rows) = self.repeatable.get(sequence) else { continue };
            let mut older = staying.iter().filter_map(|older| self.repeatable.get(older));
            let mut follows = || older.any(|older| share_rows(rows, older));
            let stays = match stage {
                Stage::Torn(stripe, all) => torn.are_torn(stripe, all) || follows(),
                Stage::Ended => follows(),
                Stage::Open | Stage::Void => false,
            };
            if stays {
                staying.insert(*sequence);
            }
        }
        staying
    }
}
