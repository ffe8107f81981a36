//! Members whose files are truncated while they are used.
//!
//! One that the volume cannot do without stays, and keeps what is left of it: nothing behind that
//! is read any more, also when the file is as long again.

use super::Executor;
use super::active_io::ActiveIo;
use super::member_fault::MemberFault;
use mirrorball_core::io::Op;
use mirrorball_core::member::{MemberIndex, MemberState};

impl Executor {
    /// The bytes that are left of the data of a member whose file was truncated although the volume
    /// cannot do without it; `None` if it was not, or was rebuilt or failed since.
    pub fn left_bytes(&self, member: MemberIndex) -> Option<u64> {
        let left_bytes = self.slots[member.get()].left_bytes?;
        let state = self.volume.as_ref()?.members()[member].state;
        matches!(state, MemberState::Rebuilding { .. }).then_some(left_bytes)
    }

    /// Takes that the file of a member was truncated and ends there. Returns the bytes of its data
    /// that are left: none, if an I/O in flight may have made it longer since, so that it is not
    /// known where it was cut.
    pub(super) fn on_data_lost(&mut self, member: MemberIndex, end: u64) -> u64 {
        self.note_fault(member, MemberFault::Truncated);
        let is_known = self.slots[member.get()].left_bytes.is_some();
        let ends_there = |io: &ActiveIo| {
            io.member == member && io.op != Op::Read && io.offset + io.length == end
        };
        let is_doubtful = !is_known && self.active.iter().any(|(_, io)| ends_there(io));
        let left_bytes = if is_doubtful { 0 } else { end };
        let Some(volume) = &mut self.volume else { return left_bytes };
        volume.on_data_lost(member, left_bytes);
        let slot = &mut self.slots[member.get()];
        if volume.members()[member].state != MemberState::Failed {
            let left_bytes = slot.left_bytes.map_or(left_bytes, |before| before.min(left_bytes));
            slot.left_bytes = Some(left_bytes);
        }
        left_bytes
    }

    /// Returns true if an I/O that succeeded is beyond what is left of the file of its member:
    /// these bytes, if it was found to be truncated just now.
    pub(super) fn is_lost(&self, io: &ActiveIo, left_bytes: Option<u64>) -> bool {
        let volume = self.volume.as_ref();
        let is_in_sync = || {
            let member = volume.map(|volume| &volume.members()[io.member]);
            member.is_none_or(|member| member.is_in_sync(io.offset, io.length))
        };
        let was_cut = io.op == Op::Read && self.slots[io.member.get()].left_bytes.is_some();
        left_bytes.is_some_and(|left| io.offset + io.length > left) || (was_cut && !is_in_sync())
    }
}
