//! A member of an executor.

use super::MemberStats;
use super::member_fault::MemberFault;
use super::shared_flush::SharedFlush;
use crate::member::Store;
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

/// A member with its storage and statistics.
pub(super) struct MemberSlot {
    pub(super) config: MemberConfig,
    pub(super) store: Store,
    pub(super) stats: MemberStats,
    /// The last error, before it failed.
    pub(super) fault: Option<MemberFault>,
    /// When that was.
    pub(super) fault_at: Nanos,
    /// True if it has had no storage.
    pub(super) is_missing: bool,
    /// The flushes in flight.
    pub(super) flush: SharedFlush,
    /// How often its storage was replaced.
    pub(super) attachment: u32,
    /// True until a discard fails or is not supported.
    pub(super) discards: bool,
}

impl MemberSlot {
    pub(super) fn new(config: MemberConfig, store: Store) -> MemberSlot {
        MemberSlot {
            is_missing: matches!(store, Store::Absent),
            config,
            store,
            stats: MemberStats::default(),
            fault: None,
            fault_at: Nanos::ZERO,
            flush: SharedFlush::default(),
            attachment: 0,
            discards: true,
        }
    }

    /// Forgets what is known of the storage, because it was replaced.
    pub(super) fn on_replaced(&mut self) {
        self.attachment = self.attachment.wrapping_add(1);
        (self.is_missing, self.discards, self.fault) = (false, true, None);
    }

    /// True if discarded ranges are known to read as zeroes.
    pub(super) fn discards_zero(&self) -> bool {
        self.discards
            && match &self.store {
                Store::Remote(remote) => remote.discards_zero(),
                _ => true,
            }
    }
}
