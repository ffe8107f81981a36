//! Discards: where they may be passed on, and zeroes in the place of those that a member does not
//! support.
//!
//! Mirrors stay equal only if discarded ranges read as zeroes on all of them.

use super::member_slot::MemberSlot;
use super::request::ActiveIoKey;
use super::{Executor, Target};
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, EventOwner, Token};
use crate::member::Store;
use mirrorball_core::io::IoError;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::SlabKey;

const ZEROING_BYTES: usize = 1 << 20;

impl Executor {
    /// True if discarded ranges of a target read as zeroes. Becomes false when a discard ends that
    /// did not zero its range. Panics if there is no such target.
    pub fn discards_zero(&self, target: Target) -> bool {
        match target {
            Target::Volume => {
                !self.has_parity() && self.slots.iter().all(MemberSlot::discards_zero)
            }
            Target::Member(member) => self.slots[member.get()].discards_zero(),
        }
    }

    /// Returns true if a discard leaves the mirrors of the volume equal.
    pub(super) fn may_discard(&self) -> bool {
        let copies = self.volume.as_ref().map_or(1, |volume| volume.map().copies());
        copies == 1 || self.discards_zero(Target::Volume)
    }

    /// Returns true if the volume keeps parity, so that it discards nothing.
    fn has_parity(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| volume.map().parities() > 0)
    }

    /// Writes zeroes where a member does not discard and others did, so that mirrors stay equal;
    /// `done` bytes are written. Ends the I/O with its last bytes.
    pub(super) fn zero_instead(&mut self, key: ActiveIoKey, done: u64) {
        let io = self.active.get_mut(key);
        if done >= io.length {
            return self.end_part(key, Ok(()));
        }
        io.zeroed = Some(done);
        let (length, offset, member) = (zeroing_step(io.length, done), io.offset + done, io.member);
        let buffer = *io.own_buffer.get_or_insert_with(|| zeroes(&mut self.driver));
        let Store::Real(handle) = self.slots[member.get()].store else {
            return self.end_part(key, Err(IoError::Gone));
        };
        let token = Token::new(EventOwner::MemberFile, key.slot());
        let zeroes = Slice::data(buffer, 0, length as usize);
        self.driver.write(token, handle, offset, zeroes);
    }

    /// Marks a range of a member, which may differ from its mirrors.
    pub(super) fn mark_unsynced(&mut self, member: MemberIndex, offset: u64, length: u64) {
        if let Some(volume) = &mut self.volume
            && let Some(held) = volume.map().locate(member, offset)
        {
            let range = held.volume_offset..held.volume_offset + length;
            volume.change_gate(|store, _| store.add_unsynced(range));
        }
    }
}

/// A buffer of zeroes for [`zeroing_step`].
fn zeroes(driver: &mut Driver) -> BufferKey {
    let buffer = driver.acquire(ZEROING_BYTES);
    driver.bytes_mut(Slice::data(buffer, 0, ZEROING_BYTES)).fill(0);
    buffer
}

/// Number of bytes to zero next after `done`, for a discard of `length` bytes that its member does
/// not support.
pub(super) fn zeroing_step(length: u64, done: u64) -> u64 {
    (length - done).min(ZEROING_BYTES as u64)
}
