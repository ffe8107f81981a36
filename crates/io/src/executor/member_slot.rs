//! A member of an executor.

use super::MemberStats;
use super::member_fault::MemberFault;
use super::shared_flush::SharedFlush;
use super::stall::FileIo;
use crate::driver::Handle;
use crate::member::Store;
use crate::member::remote::Remote;
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

pub(super) struct MemberSlot {
    pub(super) config: MemberConfig,
    pub(super) store: Store,
    pub(super) stats: MemberStats,
    pub(super) file_io: FileIo,
    /// The last error, before it failed.
    pub(super) fault: Option<MemberFault>,
    pub(super) fault_at: Nanos,
    /// True if it has had no storage.
    pub(super) is_missing: bool,
    /// True if its device was left out at the start, because it diverged.
    pub(super) has_diverged: bool,
    pub(super) flush: SharedFlush,
    /// How often its storage was replaced.
    pub(super) attachment: u32,
    /// True until a discard fails or is not supported.
    pub(super) discards: bool,
    /// The device that takes its place when it is copied.
    pub(super) successor: Option<Successor>,
    /// The server that it was on before, with I/Os that have not ended.
    pub(super) retired: Option<Box<Remote>>,
}

/// The device that takes the place of a member.
pub(super) struct Successor {
    pub(super) handle: Handle,
    pub(super) file_io: FileIo,
    /// The first error, after which it gets no more writes.
    pub(super) fault: Option<MemberFault>,
}

impl MemberSlot {
    pub(super) fn new(config: MemberConfig, store: Store) -> MemberSlot {
        MemberSlot {
            is_missing: matches!(store, Store::Absent),
            has_diverged: false,
            config,
            store,
            stats: MemberStats::default(),
            file_io: FileIo::default(),
            fault: None,
            fault_at: Nanos::ZERO,
            flush: SharedFlush::default(),
            attachment: 0,
            discards: true,
            successor: None,
            retired: None,
        }
    }

    /// The server that it is on, or was on before.
    pub(super) fn remotes(&mut self) -> impl Iterator<Item = &mut Box<Remote>> {
        let current = match &mut self.store {
            Store::Remote(remote) => Some(remote),
            _ => None,
        };
        current.into_iter().chain(&mut self.retired)
    }

    /// Forgets what is known and counted of the storage, because it was replaced.
    pub(super) fn on_replaced(&mut self) {
        self.file_io = FileIo::default();
        self.stats = MemberStats { in_flight: self.stats.in_flight, ..MemberStats::default() };
        self.attachment = self.attachment.wrapping_add(1);
        (self.is_missing, self.has_diverged) = (false, false);
        (self.discards, self.fault) = (true, None);
    }

    /// True if discarded ranges are known to read as zeroes.
    pub(super) fn discards_zero(&self) -> bool {
        self.discards
            && self.successor.is_none()
            && match &self.store {
                Store::Remote(remote) => remote.discards_zero(),
                _ => true,
            }
    }
}
