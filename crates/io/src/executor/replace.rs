//! A member that was opened again takes the place of what it was.
//!
//! What a real member was opened as may be gone while its address holds something else: a file that
//! was removed and made anew, a device that was plugged in again, a server that was started anew.
//! What is asked of a member that was let go of, and not opened since, fails as if it were gone.

use super::Executor;
use crate::driver::Driver;
use crate::driver::FileId;
use crate::member::remote::Remote;
use crate::member::{MemberFile, Source, Store};
use mirrorball_core::member::MemberIndex;
use std::io;

impl Executor {
    /// Lets go of a real member that failed, so that it can be opened again; an emulated one stays
    /// as it is.
    ///
    /// # Errors
    /// If it is not done with what it was asked before; the text says so.
    pub fn detach(&mut self, member: MemberIndex) -> Result<(), &'static str> {
        let slot = &mut self.slots[member.get()];
        if slot.stats.in_flight > 0 {
            return Err("what it was asked before it failed has not ended");
        }
        match &mut slot.store {
            Store::Real { handle, .. } => {
                self.driver.close(*handle);
                slot.store = Store::Absent;
            }
            Store::Remote(remote) => remote.detach(&mut self.driver),
            Store::Absent
            | Store::EmulatedFile(_)
            | Store::EmulatedMemory(_)
            | Store::EmulatedNothing => {}
        }
        Ok(())
    }

    /// Makes the member what was opened. What is in io on what it was before ends there.
    ///
    /// # Errors
    /// If the driver cannot take it over.
    pub fn attach(&mut self, member: MemberIndex, source: Source) -> io::Result<()> {
        let slot = &mut self.slots[member.get()];
        match (&mut slot.store, source) {
            (Store::Remote(remote), Source::Remote(peer)) => {
                remote.detach(&mut self.driver);
                remote.attach(peer, &mut self.driver)
            }
            (_, source) => {
                let store = store(member, source, &mut self.driver)?;
                if let Store::Real { handle, .. } = std::mem::replace(&mut slot.store, store) {
                    self.driver.close(handle);
                }
                Ok(())
            }
        }
    }

    /// Which file or device node is open as a real member; `None` for any other.
    pub fn file_id(&self, member: MemberIndex) -> Option<FileId> {
        match &self.slots[member.get()].store {
            Store::Real { handle, .. } => self.driver.file_id(*handle),
            _ => None,
        }
    }
}

/// What keeps the data of a member, once the driver has what it needs.
pub(super) fn store(index: MemberIndex, source: Source, driver: &mut Driver) -> io::Result<Store> {
    Ok(match source {
        Source::Real(MemberFile { file, begin_bytes, least_bytes }) => {
            Store::Real { handle: driver.adopt_endpoint(file)?, begin_bytes, least_bytes }
        }
        Source::Remote(peer) => Store::Remote(Box::new(Remote::new(index, peer, driver)?)),
        Source::EmulatedFile(member) => Store::EmulatedFile(driver.adopt(member.fd)?),
        Source::EmulatedMemory => Store::EmulatedMemory(Default::default()),
        Source::EmulatedNothing => Store::EmulatedNothing,
    })
}
