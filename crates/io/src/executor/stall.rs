//! Local devices that hang: the kernel gives up after minutes, and clients wait until then.

use super::Executor;
use super::request::ActiveIoKey;
use crate::member::Store;
use mirrorball_core::io::IoError;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;

/// A device with operations in flight of which none ends for this time is reported. The kernel lets
/// a SCSI or NVMe disk have as long for each try.
const STALL: Nanos = Nanos::from_secs(30);

/// Operations in flight on the file or device of a member or its successor.
#[derive(Clone, Copy, Default)]
pub(super) struct FileIo {
    in_flight: u32,
    /// Since when some are in flight and none has ended.
    since: Nanos,
}

impl FileIo {
    pub(super) fn on_start(&mut self, now: Nanos) {
        if self.in_flight == 0 {
            self.since = now;
        }
        self.in_flight += 1;
    }

    pub(super) fn on_end(&mut self, now: Nanos) {
        *self = FileIo { in_flight: self.in_flight - 1, since: now };
    }

    fn stalled(&self, now: Nanos) -> Option<(Nanos, u32)> {
        let waits = now.saturating_sub(self.since);
        (self.in_flight > 0 && waits >= STALL).then_some((waits, self.in_flight))
    }
}

impl Executor {
    /// Returns how long no operation on the device of a local member in use has ended though some
    /// are in flight, and how many are, if that is 30 s or more.
    pub fn stalled(&self, member: MemberIndex) -> Option<(Nanos, u32)> {
        self.watched(member)[0]?.stalled(self.now)
    }

    /// The same of the device that takes the place of a member once all of it is copied.
    pub fn stalled_successor(&self, member: MemberIndex) -> Option<(Nanos, u32)> {
        self.watched(member)[1]?.stalled(self.now)
    }

    /// The time until a device counts as stalled, if no operation on it ends before.
    pub fn until_stalled(&self) -> Option<Nanos> {
        let members = (0..).map(MemberIndex).take(self.slots.len());
        let busy = members.flat_map(|member| self.watched(member)).flatten();
        let busy = busy.filter(|io| io.in_flight > 0);
        let due = busy.map(|io| io.since + STALL).filter(|due| *due > self.now).min();
        due.map(|due| self.real_until(due))
    }

    /// The operations in flight on the device of a local member in use, and on its successor.
    fn watched(&self, member: MemberIndex) -> [Option<&FileIo>; 2] {
        let slot = &self.slots[member.get()];
        let is_watched = matches!(slot.store, Store::Real(_)) && !self.has_failed(member);
        let successor = slot.successor.as_ref().map(|successor| &successor.file_io);
        [is_watched.then_some(&slot.file_io), successor]
    }

    /// Ends the part of an I/O that was an operation on the file or device of its member.
    pub(super) fn end_file_part(&mut self, key: ActiveIoKey, result: Result<(), IoError>) {
        let io = self.active.get(key);
        let slot = &mut self.slots[io.member.get()];
        if io.began_on == slot.attachment {
            slot.file_io.on_end(self.now);
        }
        self.end_part(key, result);
    }
}
