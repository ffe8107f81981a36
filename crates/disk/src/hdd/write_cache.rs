//! The write-back cache: what was acknowledged and is not on the medium yet.
//!
//! Cached writes wait in order of arrival. The disk chooses the next to write back among a window
//! of the oldest, which is how few of them real firmware seems to consider: a large window makes
//! flushes faster than measured ones. A write that goes on where the last one ended joins it, so
//! that a stream is written back in long runs.
//!
//! Non-goals: reads of cached writes are not served from here, and a block written twice is written
//! back twice; both matter to few workloads and would cost a search for each I/O.

use mirrorball_core::units::{KIB, Nanos};
use std::collections::VecDeque;

/// Joined writes grow no longer than this, so that a write-back holds the head a few milliseconds.
const LONGEST_RUN_BYTES: u64 = 512 * KIB;
/// Nor longer than this part of the cache, so that one run comes in while others go out.
const RUNS_PER_CACHE: u64 = 4;

#[derive(Clone, Debug)]
pub(super) struct HddWriteCache {
    size_bytes: u64,
    used_bytes: u64,
    longest_run_bytes: u64,
    waiting: VecDeque<DirtyWrite>,
    accepted: u64,
    /// Whether anything was accepted since the last flush.
    unflushed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DirtyWrite {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// When it is in the cache and may be written back.
    pub(super) ready_at: Nanos,
    /// Counts accepted writes, the oldest of those joined; a flush waits for those up to its own.
    pub(super) number: u64,
}

impl HddWriteCache {
    pub(super) fn new(size_bytes: u64) -> HddWriteCache {
        let longest_run_bytes = (size_bytes / RUNS_PER_CACHE).clamp(1, LONGEST_RUN_BYTES);
        HddWriteCache {
            size_bytes,
            used_bytes: 0,
            longest_run_bytes,
            waiting: VecDeque::new(),
            accepted: 0,
            unflushed: false,
        }
    }

    /// Whether there is a cache at all.
    pub(super) fn is_enabled(&self) -> bool {
        self.size_bytes > 0
    }

    /// How much of a write with `length` bytes to come can be taken now: a run of it, its rest, or
    /// nothing until there is room.
    pub(super) fn room_for(&self, length: u64) -> Option<u64> {
        let part = length.min(self.longest_run_bytes);
        (self.used_bytes == 0 || self.used_bytes + part <= self.size_bytes).then_some(part)
    }

    /// Adds a write, or part of one, that arrives at `ready_at`.
    pub(super) fn accept(&mut self, offset: u64, length: u64, ready_at: Nanos) {
        self.used_bytes += length;
        self.accepted += 1;
        self.unflushed = true;
        let number = self.accepted;
        match self.waiting.back_mut() {
            Some(last)
                if last.offset + last.length == offset
                    && last.length + length <= self.longest_run_bytes =>
            {
                last.length += length;
                last.ready_at = ready_at;
            }
            _ => self.waiting.push_back(DirtyWrite { offset, length, ready_at, number }),
        }
    }

    /// The next write to enter the window of those considered for writing back.
    pub(super) fn pop_oldest(&mut self) -> Option<DirtyWrite> {
        self.waiting.pop_front()
    }

    /// The number of the oldest write not yet in the window.
    pub(super) fn oldest_number(&self) -> Option<u64> {
        self.waiting.front().map(|dirty| dirty.number)
    }

    /// Frees what has reached the medium.
    pub(super) fn release(&mut self, length: u64) {
        self.used_bytes -= length;
    }

    /// Bytes cached, those being written back included.
    pub(super) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// How many writes were accepted so far: what a flush now has to cover.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether a flush has anything to do, and that it has been asked for.
    pub(super) fn take_unflushed(&mut self) -> bool {
        std::mem::replace(&mut self.unflushed, false)
    }
}
