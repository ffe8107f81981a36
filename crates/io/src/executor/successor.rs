//! The successor of a member: a device that takes its place once all of it is copied.
//!
//! The member stays in use until then. What is written to it is written to the successor, too, and
//! a step of a rebuild of the member, which is in sync, writes a range to the successor alone. An
//! error of the successor ends the copy, and says nothing of the member.

use super::Executor;
use super::member_fault::MemberFault;
use super::member_io::ActiveIo;
use super::member_slot::Successor;
use super::request::ActiveIoKey;
use crate::driver::buffers::Slice;
use crate::driver::{Event, EventOwner, Output, Token};
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
        let before = self.slots[member.get()].successor.replace(Successor { handle, fault: None });
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
        let handle = successor.expect("it has a successor").handle;
        self.install(member, Store::Real(handle));
    }

    pub(super) fn start_successor_part(&mut self, key: ActiveIoKey, io: &ActiveIo, data: Slice) {
        let successor = self.slots[io.member.get()].successor.as_ref();
        let handle = successor.expect("the I/O goes to it").handle;
        self.active.get_mut(key).parts_left += 1;
        let token = Token::new(EventOwner::SuccessorFile, key.slot());
        self.driver.write(token, handle, io.offset, data);
    }

    /// Handles the end of the write of a successor.
    pub(crate) fn on_successor_event(&mut self, done: &Event) {
        let key = ActiveIoKey::from_slot(done.token.key());
        let io = *self.active.get(key);
        let (fault, error) = match done.result {
            Ok(Output::Bytes(bytes)) if bytes as u64 == io.length => {
                return self.end_part(key, Ok(()));
            }
            Ok(_) => (MemberFault::Ended, IoError::Gone),
            Err(errno) => (MemberFault::of_system(io.failed(), errno), io_error(errno)),
        };
        let slot = &mut self.slots[io.member.get()];
        if io.attachment == slot.attachment {
            if let Some(successor) = &mut slot.successor {
                successor.fault.get_or_insert(fault);
            }
            return self.end_part(key, Ok(()));
        }
        // It is the storage of the member by now, which lacks the write.
        self.active.get_mut(key).attachment = slot.attachment;
        self.note_fault(io.member, fault);
        self.end_part(key, Err(error));
    }
}
