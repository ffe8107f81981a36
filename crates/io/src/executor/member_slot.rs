//! A member as it is driven, and whether its file is what it was.

use super::MemberStats;
use crate::driver::Driver;
use crate::member::Store;
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

/// How often reads look whether a file is as long as it was.
const LOOK_INTERVAL: Nanos = Nanos::from_millis(1);

/// See the page of this module.
pub(super) struct MemberSlot {
    pub(super) config: MemberConfig,
    pub(super) store: Store,
    pub(super) stats: MemberStats,
    /// Writes in io, and whatever else is no read.
    pub(super) changes_in_flight: u32,
    /// Whether no discard failed, or was one that the file or device has no means for.
    pub(super) discards: bool,
    /// When its file was last found whole.
    whole_at: Option<Nanos>,
}

impl MemberSlot {
    pub(super) fn new(config: MemberConfig, store: Store) -> MemberSlot {
        let stats = MemberStats::default();
        MemberSlot { config, store, stats, changes_in_flight: 0, discards: true, whole_at: None }
    }

    /// Whether nobody cut its file short, as far as I/O that ended by `now` must know. What ended
    /// at the same time takes one look, and reads take fewer while nothing is written: what lies
    /// behind a cut comes short, until a write makes the file long again.
    pub(super) fn is_whole(&mut self, now: Nanos, driver: &Driver) -> bool {
        let age_max = if self.changes_in_flight > 0 { Nanos(0) } else { LOOK_INTERVAL };
        self.whole_at.is_some_and(|at| now - at <= age_max) || self.looks_whole(now, driver)
    }

    /// Whether what is discarded reads as zeroes, as far as is known. Of other machines it is not.
    pub(super) fn discards_zero(&self) -> bool {
        self.discards && !matches!(self.store, Store::Remote(_))
    }

    /// Whether its file is as long as it was.
    pub(super) fn looks_whole(&mut self, now: Nanos, driver: &Driver) -> bool {
        let is_whole = match self.store {
            Store::Real { handle, least_bytes: Some(least_bytes), .. } => {
                driver.size_bytes(handle).is_ok_and(|bytes| bytes >= least_bytes)
            }
            _ => true,
        };
        self.whole_at = is_whole.then_some(now);
        is_whole
    }
}
