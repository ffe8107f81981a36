//! Repairs, rebuilds and resyncs, which write rows without an entry: they wait until no entry is
//! repeatable that has these rows.

use super::super::held_ranges::overlap;
use super::super::keys::StripeKey;
use super::super::torn_rows::TornRows;
use super::{Journal, Stage};
use crate::geometry::FullStripe;
use std::ops::Range;

/// Rows of a full stripe: the first byte of the stripe on the volume, and the rows in it.
pub(super) type StripeRows = (u64, Range<u64>);

pub(super) fn share_rows(one: &StripeRows, other: &StripeRows) -> bool {
    one.0 == other.0 && overlap(&one.1, &other.1)
}

/// What a repair waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::volume) enum RepairWait {
    Nothing,
    /// Entries have to leave, and a durable entry has to say so.
    Checkpoint,
    /// An entry that has other torn rows, too, or follows one that has.
    Forever,
}

impl Journal {
    /// Takes that entries before `oldest`, and void ones behind it, are repeatable no more.
    pub(super) fn forget_repeatable(&mut self, oldest: u64, void: u64) {
        let is_void = |sequence: u64| {
            sequence < oldest || sequence - oldest < 64 && void & 1 << (sequence - oldest) != 0
        };
        self.repeatable.retain(|&sequence, _| !is_void(sequence));
    }

    /// What a repair of some rows has to wait for, so that no start undoes it.
    pub(in crate::volume) fn repair_wait(
        &self,
        stripe: &FullStripe,
        rows: &Range<u64>,
        torn: &TornRows,
    ) -> RepairWait {
        let place = (stripe.volume_offset, rows.clone());
        // What was before the start has no rows here.
        let mut wait = match self.durable_oldest {
            0 => RepairWait::Checkpoint,
            _ => RepairWait::Nothing,
        };
        let (are_torn, staying) = (torn.are_torn(stripe, rows), self.staying(torn));
        for (sequence, _) in self.repeatable.iter().filter(|(_, other)| share_rows(&place, other)) {
            match staying.contains(sequence) {
                // The last entry there has all that is computed from it, and parities, and the
                // others are written again before it.
                true if are_torn => {}
                // Only a repair of its torn rows lets it leave, and that may wait for this one.
                true => return RepairWait::Forever,
                false => wait = RepairWait::Checkpoint,
            }
        }
        wait
    }

    /// Has an operation on some rows wait until no repeatable entry has them.
    pub(in crate::volume) fn hold_repair(
        &mut self,
        key: StripeKey,
        stripe: &FullStripe,
        rows: Range<u64>,
    ) {
        self.repairs.push((key, (stripe.volume_offset, rows)));
    }

    /// Returns true if repairs wait.
    pub(in crate::volume) fn has_repairs(&self) -> bool {
        !self.repairs.is_empty()
    }

    /// The repairs that wait, which do so no more.
    pub(in crate::volume) fn take_repairs(&mut self) -> impl Iterator<Item = StripeKey> + use<> {
        std::mem::take(&mut self.repairs).into_iter().map(|(key, _)| key)
    }

    /// Returns true if a repair waits for a checkpoint that can be written now.
    pub(in crate::volume) fn frees_repair(&self) -> bool {
        let is_done = |sequence: &u64| match self.live.get(sequence) {
            None | Some(Stage::Void) => true,
            Some(Stage::Open | Stage::Ended | Stage::Torn(..)) => false,
        };
        let is_freed = |place: &StripeRows| {
            let mut entries = self.repeatable.iter().filter(|(_, other)| share_rows(place, other));
            entries.any(|(sequence, _)| is_done(sequence))
        };
        self.durable_oldest == 0 && self.has_repairs()
            || self.repairs.iter().any(|(_, place)| is_freed(place))
    }
}
