//! Replacing the storage of a member that was opened again.
//!
//! The path of a member may name another file than the open one: a file that was removed and
//! created again, a device that was plugged in again, a server that was restarted. I/O of a member
//! that was detached and not attached again fails with [`mirrorball_core::io::IoError::Gone`].

use super::Executor;
use crate::driver::Driver;
use crate::driver::FileId;
use crate::member::remote::Remote;
use crate::member::{Source, Store};
use mirrorball_core::member::MemberIndex;
use std::io;

impl Executor {
    /// Closes the storage of a real member that failed, so that it can be opened again. Does
    /// nothing to an emulated member. Fails if it has I/Os in flight; the text says so.
    pub fn detach(&mut self, member: MemberIndex) -> Result<(), &'static str> {
        let slot = &mut self.slots[member.get()];
        if slot.stats.in_flight > 0 {
            return Err("I/O from before its failure is still in flight; try again later");
        }
        match &mut slot.store {
            Store::Real(handle) => {
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

    /// Closes the device of a real member that failed, which is used again only if one is attached.
    /// Fails if it has I/Os in flight; the text says so.
    pub fn remove(&mut self, member: MemberIndex) -> Result<(), &'static str> {
        self.detach(member)?;
        self.slots[member.get()].is_missing = true;
        Ok(())
    }

    /// True if the device of a member was not found at the start, and none has replaced it.
    pub fn is_missing(&self, member: MemberIndex) -> bool {
        self.slots[member.get()].is_missing
    }

    /// Records that the device of a member is left out, because it diverged.
    pub fn set_diverged(&mut self, member: MemberIndex) {
        let slot = &mut self.slots[member.get()];
        assert!(slot.is_missing, "a device that diverged is not used");
        slot.has_diverged = true;
    }

    /// True if the device of a member was left out at the start, and none has replaced it.
    pub fn has_diverged(&self, member: MemberIndex) -> bool {
        self.slots[member.get()].has_diverged
    }

    /// True if a member is on a server to which no connection is open now, or that is not asked
    /// again before a restart.
    pub fn is_unreachable(&self, member: MemberIndex) -> bool {
        let Store::Remote(remote) = &self.slots[member.get()].store else { return false };
        remote.connections() == 0 || remote.is_lost()
    }

    /// True if the server of a member may have lost writes, so that each I/O fails before a
    /// restart.
    pub fn needs_restart(&self, member: MemberIndex) -> bool {
        matches!(&self.slots[member.get()].store, Store::Remote(remote) if remote.is_lost())
    }

    /// Replaces the storage of a member, of which the volume must know before the next turn. I/Os
    /// in flight end on the old storage. Fails if the driver cannot adopt it.
    pub fn attach(&mut self, member: MemberIndex, source: Source) -> io::Result<()> {
        let slot = &mut self.slots[member.get()];
        match (&mut slot.store, source) {
            (Store::Remote(remote), Source::Remote(peer)) => {
                remote.detach(&mut self.driver);
                remote.attach(peer, &mut self.driver)?;
                slot.on_replaced();
                self.end_flushes_of_replaced(member);
            }
            (_, Source::Remote(peer)) if slot.retired.is_some() => {
                let mut remote = slot.retired.take().expect("it was there");
                let attached = remote.attach(peer, &mut self.driver);
                match attached {
                    Ok(()) => self.install(member, Store::Remote(remote)),
                    Err(_) => slot.retired = Some(remote),
                }
                return attached;
            }
            (_, source) => {
                let store = store(member, source, &mut self.driver)?;
                self.install(member, store);
            }
        }
        Ok(())
    }

    /// Replaces the storage of a member. Operations on the connections of a server end later.
    pub(super) fn install(&mut self, member: MemberIndex, store: Store) {
        let slot = &mut self.slots[member.get()];
        match std::mem::replace(&mut slot.store, store) {
            Store::Real(handle) => self.driver.close(handle),
            Store::Remote(mut remote) => {
                remote.detach(&mut self.driver);
                slot.retired = Some(remote);
            }
            _ => {}
        }
        slot.on_replaced();
        self.end_flushes_of_replaced(member);
    }

    /// Identity of the open file or device of a real member; `None` for other members.
    pub fn file_id(&self, member: MemberIndex) -> Option<FileId> {
        match &self.slots[member.get()].store {
            Store::Real(handle) => self.driver.file_id(*handle),
            _ => None,
        }
    }
}

pub(super) fn store(index: MemberIndex, source: Source, driver: &mut Driver) -> io::Result<Store> {
    Ok(match source {
        Source::Real(file) => Store::Real(driver.adopt_endpoint(file)?),
        Source::Remote(peer) => Store::Remote(Box::new(Remote::new(index, peer, driver)?)),
        Source::Absent => Store::Absent,
        Source::EmulatedFile(member) => Store::EmulatedFile(driver.adopt_endpoint(member.file)?),
        Source::EmulatedMemory => Store::EmulatedMemory(Default::default()),
        Source::EmulatedNothing => Store::EmulatedNothing,
    })
}
