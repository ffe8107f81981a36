//! Flushes of a member that share one sync of its file.
//!
//! One sync of a file is under way at a time. A flush that comes meanwhile waits for the next: what
//! it is to make durable may have been written after this one began. Those that wait share the
//! next, so that many clients who flush cost no more than one.
//!
//! Of two syncs at a time, the kernel reports lost writes to one, and the other succeeds, maybe
//! before. One after the other, a sync that failed is known before a later one succeeds.

use super::Executor;
use super::request::ActiveIoKey;
use crate::driver::{EventOwner, Token};
use crate::member::Store;
use mirrorball_core::io::IoError;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::SlabKey;

#[derive(Debug, Default)]
pub(super) struct SharedFlush {
    /// Those that share the sync under way. The token has the key of the first.
    running: Vec<ActiveIoKey>,
    /// Those that share the next one.
    waiting: Vec<ActiveIoKey>,
}

impl Executor {
    /// Starts the file operation of a flush, or has it wait.
    pub(super) fn start_flush(&mut self, key: ActiveIoKey, member: MemberIndex) {
        self.slots[member.get()].flush.waiting.push(key);
        self.start_waiting_flushes(member);
    }

    fn start_waiting_flushes(&mut self, member: MemberIndex) {
        let slot = &mut self.slots[member.get()];
        let flush = &mut slot.flush;
        if !flush.running.is_empty() || flush.waiting.is_empty() {
            return;
        }
        std::mem::swap(&mut flush.running, &mut flush.waiting);
        let Store::Real(handle) = slot.store else {
            unreachable!("flushes end when their storage is replaced")
        };
        let token = Token::new(EventOwner::MemberFile, flush.running[0].slot());
        self.driver.sync(token, handle);
    }

    /// Ends the flushes that shared the sync of this one.
    pub(super) fn end_flush(&mut self, key: ActiveIoKey, result: Result<(), IoError>) {
        let member = self.active.get(key).member;
        let flush = &mut self.slots[member.get()].flush;
        if flush.running.first() != Some(&key) {
            // Its storage was replaced, and it alone had to wait for that.
            return self.end_file_part(key, result);
        }
        let mut ended = std::mem::take(&mut flush.running);
        ended.drain(..).for_each(|key| self.end_file_part(key, result));
        let flush = &mut self.slots[member.get()].flush;
        if flush.running.capacity() == 0 {
            // Its memory is used again.
            flush.running = ended;
        }
        self.start_waiting_flushes(member);
    }

    /// Ends the flushes of storage that was replaced, but for the one whose sync is under way. They
    /// end in the next turn, when the volume knows of the new storage: before, they would seem to
    /// have made durable what is on the old one.
    pub(super) fn end_flushes_of_replaced(&mut self, member: MemberIndex) {
        let flush = std::mem::take(&mut self.slots[member.get()].flush);
        let others = flush.running.into_iter().skip(1).chain(flush.waiting);
        self.ended_parts.extend(others.map(|key| (key.slot(), Err(IoError::Gone))));
    }
}
