//! The last error of each member; of one that failed, why it did.
//!
//! The volume decides about a member by what an error means, and does not know what the system
//! said. The user has to: a cable, a full disk and a lost server look alike otherwise.

use super::Executor;
use crate::member::Store;
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use rustix::io::Errno;
use std::fmt;

/// The last error of a member before it failed, or another reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberFault {
    /// The user had it failed.
    Requested,
    /// The file or device ended before an I/O did.
    Ended,
    /// The connection with its server ended, and writes were not flushed.
    LostServer,
    Io(FailedIo, FaultCause),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FailedIo {
    pub op: Op,
    /// First byte, on the member.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
    /// True for a read of what was written again, because it could not be read.
    pub is_read_back: bool,
}

/// The error of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultCause {
    System(Errno),
    /// The error of a server, or of the connection with it.
    Server(IoError),
    /// A fault of the model of an emulated disk.
    Model(IoError),
}

impl MemberFault {
    /// An I/O failed with an error of the system.
    pub(super) fn of_system(io: FailedIo, errno: Errno) -> MemberFault {
        MemberFault::Io(io, FaultCause::System(errno))
    }
}

impl fmt::Display for MemberFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberFault::Requested => f.write_str("requested by an operator"),
            MemberFault::Ended => f.write_str("its file or device is smaller than it was"),
            MemberFault::LostServer => FaultCause::Server(IoError::Gone).fmt(f),
            MemberFault::Io(FailedIo { offset, length, is_read_back: true, .. }, cause) => write!(
                f,
                "{length} bytes at byte {offset} were written again and still cannot be read: \
                 {cause}"
            ),
            MemberFault::Io(FailedIo { op, offset, length, .. }, cause) => {
                let op = match op {
                    Op::Flush => return write!(f, "flush: {cause}"),
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Discard => "discard",
                };
                write!(f, "{op} of {length} bytes at byte {offset}: {cause}")
            }
        }
    }
}

impl fmt::Display for FaultCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCause::System(errno) => std::io::Error::from(*errno).fmt(f),
            FaultCause::Server(error) => f.write_str(match error {
                IoError::Medium => "the server replied with an error",
                IoError::Gone => "the connection ended, and the server may have lost writes",
                _ => "there was no connection, or no reply in time",
            }),
            FaultCause::Model(_) => f.write_str("a fault of the emulated disk"),
        }
    }
}

impl Executor {
    /// The last error of a member before it failed, or why it was failed; `None` if it works, or
    /// an error failed it before the service started.
    pub fn fault(&self, member: MemberIndex) -> Option<MemberFault> {
        let fault = self.slots[member.get()].fault.filter(|_| self.has_failed(member));
        fault.or_else(|| self.is_kept_out(member).then_some(MemberFault::Requested))
    }

    /// True if the labels are to say that the user had a member failed, which stays out for that.
    pub fn is_kept_out(&self, member: MemberIndex) -> bool {
        let volume = self.volume.as_ref();
        volume.is_some_and(|volume| {
            volume.gate().is_some_and(|store| store.is_kept_out(member, volume.states()))
        })
    }

    /// The last error of a member, until it failed, and how long ago it was; `None` if it had none
    /// since the start, or since its storage was replaced.
    pub fn last_error(&self, member: MemberIndex) -> Option<(MemberFault, Nanos)> {
        let slot = &self.slots[member.get()];
        let fault = slot.fault.filter(|fault| *fault != MemberFault::Requested)?;
        Some((fault, self.driver.now().saturating_sub(slot.fault_at)))
    }

    /// True if a member returns errors, and the volume cannot do without it.
    pub fn is_failing(&self, member: MemberIndex) -> bool {
        let now = self.time();
        self.volume.as_ref().is_some_and(|volume| volume.states().is_failing(member, now))
    }

    /// Fails a member on request. Returns false if the volume cannot do without it. Panics if there
    /// is no volume.
    pub fn fail_on_request(&mut self, member: MemberIndex) -> bool {
        let before = self.slots[member.get()].fault;
        self.note_fault(member, MemberFault::Requested);
        let volume = self.volume.as_mut().expect("a volume has the member");
        volume.lose_member(member);
        volume.change_gate(|store, array| store.keep_out(member, array));
        let is_failed = volume.states().is_failed(member);
        if !is_failed {
            self.slots[member.get()].fault = before;
        }
        is_failed
    }

    /// Records an error of an I/O; one of the system was recorded before.
    pub(super) fn note_error(&mut self, member: MemberIndex, io: FailedIo, error: IoError) {
        let cause = match self.slots[member.get()].store {
            _ if error == IoError::Cancelled => return,
            Store::Real(_) | Store::Absent => return,
            Store::Remote(_) => FaultCause::Server(error),
            Store::EmulatedFile(_) | Store::EmulatedMemory(_) | Store::EmulatedNothing => {
                FaultCause::Model(error)
            }
        };
        self.note_fault(member, MemberFault::Io(io, cause));
    }

    /// Records that an operation on the file or device of a member failed; without an error of the
    /// system it moved less than it was to, because the file or device ends before.
    pub(super) fn note_file_error(
        &mut self,
        member: MemberIndex,
        io: FailedIo,
        errno: Option<Errno>,
    ) {
        let fault = errno.map_or(MemberFault::Ended, |errno| MemberFault::of_system(io, errno));
        self.note_fault(member, fault);
    }

    /// True if the last error of a member in use is that its filesystem is full.
    pub fn has_no_space(&self) -> bool {
        let members = (0..).map(MemberIndex).zip(&self.slots);
        members.filter(|(member, _)| !self.has_failed(*member)).any(|(_, slot)| {
            let cause = FaultCause::System(Errno::NOSPC);
            matches!(slot.fault, Some(MemberFault::Io(_, it)) if it == cause)
        })
    }

    /// Records an error of a member that has not failed.
    pub(super) fn note_fault(&mut self, member: MemberIndex, fault: MemberFault) {
        if !self.has_failed(member) {
            let now = self.driver.now();
            let slot = &mut self.slots[member.get()];
            (slot.fault, slot.fault_at) = (Some(fault), now);
        }
    }

    pub(super) fn has_failed(&self, member: MemberIndex) -> bool {
        let volume = self.volume.as_ref();
        volume.is_some_and(|volume| volume.members()[member].state == MemberState::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_what_failed_where_and_why() {
        let failed = |op| FailedIo { op, offset: 8192, length: 4096, is_read_back: false };
        let io = |op, cause| MemberFault::Io(failed(op), cause);
        let read_back = FailedIo { is_read_back: true, ..failed(Op::Read) };
        let system = FaultCause::System(Errno::IO);
        for (fault, text) in [
            (
                io(Op::Write, system),
                "write of 4096 bytes at byte 8192: Input/output error (os error 5)",
            ),
            (io(Op::Flush, system), "flush: Input/output error (os error 5)"),
            (
                io(Op::Read, FaultCause::Server(IoError::Transport)),
                "read of 4096 bytes at byte 8192: there was no connection, or no reply in time",
            ),
            (
                MemberFault::Io(read_back, system),
                "4096 bytes at byte 8192 were written again and still cannot be read: \
                 Input/output error (os error 5)",
            ),
            (MemberFault::Ended, "its file or device is smaller than it was"),
        ] {
            assert_eq!(fault.to_string(), text);
        }
    }
}
