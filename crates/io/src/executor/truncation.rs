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
    /// The bytes from its first on that can be read of a member whose file was truncated, although
    /// the volume cannot do without it; `None` if it was not, or was rebuilt or failed since.
    pub fn left_bytes(&self, member: MemberIndex) -> Option<u64> {
        let volume = self.volume.as_ref().filter(|_| self.slots[member.get()].was_cut)?;
        match volume.members()[member].state {
            MemberState::Rebuilding { recovered_bytes } => {
                let has_data = recovered_bytes > volume.map().allocated(member).start;
                Some(if has_data { recovered_bytes } else { 0 })
            }
            MemberState::InSync | MemberState::Failed => None,
        }
    }

    /// Looks whether files of members were truncated since they were used.
    pub(crate) fn check_lengths(&mut self) {
        for member in (0..self.slots.len()).map(|index| MemberIndex(index as u16)) {
            if let Some(end) = self.slots[member.get()].check_length(self.now, &self.driver) {
                self.on_data_lost(member, end);
            }
        }
    }

    /// Takes that a member is shorter than it was, and ends there.
    pub(crate) fn on_found_short(&mut self, member: MemberIndex, end: u64) {
        self.on_data_lost(member, end);
    }

    /// Takes that the file of a member was truncated and ends there. Returns the bytes of its data
    /// that are left: none, if an I/O in flight may have made it longer since, so that it is not
    /// known where it was cut.
    pub(super) fn on_data_lost(&mut self, member: MemberIndex, end: u64) -> u64 {
        self.note_fault(member, MemberFault::Truncated);
        let reaches = |io: &ActiveIo| io.offset < end && end <= io.offset + io.length;
        let may_have_grown =
            |io: &ActiveIo| io.member == member && io.op != Op::Read && reaches(io);
        let is_doubtful = self.active.iter().any(|(_, io)| may_have_grown(io));
        let left_bytes = if is_doubtful { 0 } else { end };
        self.slots[member.get()].was_cut = true;
        if let Some(volume) = &mut self.volume {
            volume.on_data_lost(member, left_bytes);
        }
        left_bytes
    }

    /// Returns true if an I/O that succeeded is beyond what is left of the file of its member:
    /// these bytes, if it was found to be truncated just now.
    pub(super) fn is_lost(&self, io: &ActiveIo, left_bytes: Option<u64>) -> bool {
        let was_cut = io.op == Op::Read && self.slots[io.member.get()].was_cut;
        let is_in_sync = || {
            let member = self.volume.as_ref().map(|volume| &volume.members()[io.member]);
            member.is_none_or(|member| member.is_in_sync(io.offset, io.length))
        };
        left_bytes.is_some_and(|left| io.offset + io.length > left) || (was_cut && !is_in_sync())
    }
}
