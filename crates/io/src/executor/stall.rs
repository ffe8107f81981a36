//! Local members that hang: the kernel gives up after minutes, and clients wait until then.

use super::Executor;
use crate::member::Store;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;

/// A member with I/O in flight of which none ends for this time is reported. The kernel lets a SCSI
/// or NVMe disk have as long for each try.
const STALL: Nanos = Nanos::from_secs(30);

/// I/O in flight on the storage that a member has now, other than that of its successor alone.
#[derive(Clone, Copy, Default)]
pub(super) struct OwnIo {
    pub(super) in_flight: u32,
    /// Since when some are in flight and none has ended.
    pub(super) since: Nanos,
}

impl OwnIo {
    pub(super) fn on_start(&mut self, now: Nanos) {
        if self.in_flight == 0 {
            self.since = now;
        }
        self.in_flight += 1;
    }

    pub(super) fn on_end(&mut self, now: Nanos) {
        *self = OwnIo { in_flight: self.in_flight - 1, since: now };
    }
}

impl Executor {
    /// Returns how long no I/O of a local member in use has ended though some are in flight, and
    /// how many are, if that is 30 s or more. While it is copied, the new device may be why.
    pub fn stalled(&self, member: MemberIndex) -> Option<(Nanos, u32)> {
        let slot = &self.slots[member.get()];
        let OwnIo { in_flight, since } = slot.own_io;
        let waits = self.now.saturating_sub(since);
        let is_alone = matches!(slot.store, Store::Real(_)) && slot.successor.is_none();
        let is_stalled = is_alone && in_flight > 0 && waits >= STALL && !self.has_failed(member);
        is_stalled.then_some((waits, in_flight))
    }

    /// The time until a member counts as stalled, if no I/O of it ends before.
    pub fn until_stalled(&self) -> Option<Nanos> {
        let busy = self.slots.iter().map(|slot| slot.own_io).filter(|own| own.in_flight > 0);
        let due = busy.map(|own| own.since + STALL).filter(|due| *due > self.now).min();
        due.map(|due| self.real_until(due))
    }
}
