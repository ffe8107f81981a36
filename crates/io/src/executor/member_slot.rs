//! A member of an executor, and the check that its file was not truncated.

use super::MemberStats;
use crate::driver::Driver;
use crate::member::Store;
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

/// Interval at which reads check the length of the file.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(1);

/// A member with its storage and statistics.
pub(super) struct MemberSlot {
    pub(super) config: MemberConfig,
    pub(super) store: Store,
    pub(super) stats: MemberStats,
    /// Number of I/Os in flight that are not reads.
    pub(super) changes_in_flight: u32,
    /// True until a discard fails or is not supported.
    pub(super) discards: bool,
    /// When the file was last found to have its full length.
    checked_at: Option<Nanos>,
}

impl MemberSlot {
    pub(super) fn new(config: MemberConfig, store: Store) -> MemberSlot {
        let stats = MemberStats::default();
        MemberSlot { config, store, stats, changes_in_flight: 0, discards: true, checked_at: None }
    }

    /// Returns false if the file is shorter than it was. I/Os that end at the same time share one
    /// check. Reads check only once per millisecond while nothing is written, because a read past
    /// the end of a truncated file is short until a write makes the file longer again.
    pub(super) fn has_full_length(&mut self, now: Nanos, driver: &Driver) -> bool {
        let age_max = if self.changes_in_flight > 0 { Nanos(0) } else { CHECK_INTERVAL };
        self.checked_at.is_some_and(|at| now - at <= age_max) || self.check_length(now, driver)
    }

    /// True if discarded ranges are known to read as zeroes, which they are not on other machines.
    pub(super) fn discards_zero(&self) -> bool {
        self.discards && !matches!(self.store, Store::Remote(_))
    }

    /// Compares the length of the file with the length that it must have.
    pub(super) fn check_length(&mut self, now: Nanos, driver: &Driver) -> bool {
        let has_full_length = match self.store {
            Store::Real { handle, least_bytes: Some(least_bytes), .. } => {
                driver.size_bytes(handle).is_ok_and(|bytes| bytes >= least_bytes)
            }
            _ => true,
        };
        self.checked_at = has_full_length.then_some(now);
        has_full_length
    }
}
