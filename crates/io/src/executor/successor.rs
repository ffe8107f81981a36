//! The successor of a member: a device that takes its place once all of it is copied.
//!
//! The member stays in use until then. What is written to it is written to the successor, too, and
//! a step of a rebuild of the member, which is in sync, writes a range to the successor alone. An
//! error of the successor ends the copy, and says nothing of the member.

use super::Executor;
use super::member_fault::MemberFault;
use super::member_io::ActiveIo;
use super::member_slot::Successor;
use super::request::{ActiveIoKey, IoPlace};
use super::stall::FileIo;
use crate::driver::{Event, EventOwner, Handle, Output, Token};
use crate::member::{Source, Store, io_error};
use mirrorball_core::io::IoError;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::SlabKey;
use std::io;

impl Executor {
    /// Gives a member a successor, to which nothing is copied yet. Fails if the driver cannot adopt
    /// it. Panics if it is no file or device of this machine.
    pub fn add_successor(&mut self, member: MemberIndex, source: Source) -> io::Result<()> {
        let Source::Real(file) = source else { unreachable!("a successor is a file or device") };
        let handle = self.driver.adopt_endpoint(file)?;
        let successor = Successor { handle, file_io: FileIo::default(), fault: None };
        let before = self.slots[member.get()].successor.replace(successor);
        assert!(before.is_none(), "{member:?} has one successor");
        Ok(())
    }

    /// The error of a successor, which gets no more writes.
    pub fn successor_fault(&self, member: MemberIndex) -> Option<MemberFault> {
        self.slots[member.get()].successor.as_ref()?.fault
    }

    pub fn drop_successor(&mut self, member: MemberIndex) {
        if let Some(successor) = self.slots[member.get()].successor.take() {
            self.driver.close(successor.handle);
        }
    }

    /// Puts the successor of a member in its place; the volume must know before the next turn. I/Os
    /// in flight end on the old storage. Panics if it has none.
    pub fn use_successor(&mut self, member: MemberIndex) {
        let successor = self.slots[member.get()].successor.take();
        let Successor { handle, file_io, .. } = successor.expect("it has a successor");
        self.install(member, Store::Real(handle));
        self.slots[member.get()].file_io = file_io;
    }

    pub(super) fn start_successor_part(&mut self, key: ActiveIoKey, io: &ActiveIo, handle: Handle) {
        let successor = self.slots[io.member.get()].successor.as_mut();
        successor.expect("the I/O goes to it").file_io.on_start(self.now);
        self.active.get_mut(key).parts_left += 1;
        let token = Token::new(EventOwner::SuccessorFile, key.slot());
        self.driver.write(token, handle, io.offset, io.memory());
    }

    /// Handles the end of the write of a successor.
    pub(crate) fn on_successor_event(&mut self, done: &Event) {
        let key = ActiveIoKey::from_slot(done.token.key());
        let io = *self.active.get(key);
        let (IoPlace::Both(written) | IoPlace::Successor(written)) = io.place else {
            unreachable!("{io:?} has no such part")
        };
        let failed = match done.result {
            Ok(Output::Bytes(bytes)) if bytes as u64 == io.length => None,
            Ok(_) => Some((MemberFault::Ended, IoError::Gone)),
            Err(errno) => Some((MemberFault::of_system(io.failed(), errno), io_error(errno))),
        };
        let slot = &mut self.slots[io.member.get()];
        if let Some(successor) = slot.successor.as_mut().filter(|it| it.handle == written) {
            successor.file_io.on_end(self.now);
            successor.fault = successor.fault.or(failed.map(|(fault, _)| fault));
        } else if matches!(slot.store, Store::Real(handle) if handle == written) {
            slot.file_io.on_end(self.now);
            if let Some((fault, error)) = failed {
                // It is the storage of the member by now, which lacks the write.
                self.active.get_mut(key).attachment = slot.attachment;
                self.note_fault(io.member, fault);
                return self.end_part(key, Err(error));
            }
        }
        self.end_part(key, Ok(()));
    }
}
