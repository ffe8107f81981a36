//! The receive buffer of a connection: received bytes that are not parsed yet.
//!
//! A connection starts with a small buffer, so that thousands of idle ones take little memory. A
//! client that fills it gets a large one, if the memory budget has one left, and keeps it while it
//! sends much at once.

use super::memory_budget::MemoryBudget;
use crate::driver::Driver;
use crate::driver::buffers::{BufferKey, Slice};

/// Size of the buffer of a new connection: the longest option and the header of the next.
const SMALL_BYTES: usize = 16 << 10;
/// Size of the buffer of a busy client: a queue of small writes.
pub(super) const LARGE_BYTES: usize = 256 << 10;
/// Number of receives in a row, each of less than half of a small buffer, after which a large one
/// is given back.
const SMALL_RECEIVES_MAX: u8 = 16;

pub(super) struct Input {
    buffer: BufferKey,
    /// Its size.
    bytes_max: usize,
    /// The part that is not parsed yet.
    begin: usize,
    end: usize,
    /// Number of small receives in a row.
    small_receives: u8,
    /// True if the last receive filled the buffer.
    was_filled: bool,
}

impl Input {
    pub(super) fn new(driver: &mut Driver) -> Input {
        let buffer = driver.acquire(SMALL_BYTES);
        let (bytes_max, small_receives, was_filled) = (SMALL_BYTES, 0, false);
        Input { buffer, bytes_max, begin: 0, end: 0, small_receives, was_filled }
    }

    /// The received bytes that are not parsed yet.
    pub(super) fn unread<'a>(&self, driver: &'a Driver) -> &'a [u8] {
        driver.bytes(Slice::data(self.buffer, self.begin, self.end - self.begin))
    }

    pub(super) fn unread_bytes(&self) -> usize {
        self.end - self.begin
    }

    /// Drops the first unread bytes.
    pub(super) fn take(&mut self, bytes: usize) {
        self.begin += bytes;
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Moves unread bytes to `target` until it is full.
    pub(super) fn take_into(&mut self, target: Slice, driver: &mut Driver) {
        driver.copy(Slice::data(self.buffer, self.begin, target.length), target);
        self.take(target.length);
    }

    /// Records that bytes were received.
    pub(super) fn on_received(&mut self, bytes: usize) {
        self.end += bytes;
        self.was_filled = self.end == self.bytes_max;
        self.small_receives = match bytes < SMALL_BYTES / 2 {
            true => self.small_receives.saturating_add(1),
            false => 0,
        };
    }

    /// The memory for the next receive, after the unread bytes.
    pub(super) fn free_space(&mut self, driver: &mut Driver, memory: &mut MemoryBudget) -> Slice {
        let is_large = self.bytes_max == LARGE_BYTES;
        if !is_large && self.was_filled && memory.reserve_input() {
            self.resize(LARGE_BYTES, driver);
        } else if is_large
            && self.small_receives >= SMALL_RECEIVES_MAX
            && self.unread_bytes() < SMALL_BYTES
        {
            memory.release_input();
            self.resize(SMALL_BYTES, driver);
        } else if self.begin > 0 {
            let whole = Slice::data(self.buffer, 0, self.end);
            driver.bytes_mut(whole).copy_within(self.begin.., 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        Slice::data(self.buffer, self.end, self.bytes_max - self.end)
    }

    fn resize(&mut self, bytes_max: usize, driver: &mut Driver) {
        let buffer = driver.acquire(bytes_max);
        let unread = self.unread_bytes();
        driver.copy(Slice::data(self.buffer, self.begin, unread), Slice::data(buffer, 0, unread));
        driver.release(self.buffer);
        *self = Input { buffer, bytes_max, begin: 0, end: unread, ..*self };
        (self.small_receives, self.was_filled) = (0, false);
    }

    /// Releases its memory.
    pub(super) fn free(self, driver: &mut Driver, memory: &mut MemoryBudget) {
        driver.release(self.buffer);
        if self.bytes_max == LARGE_BYTES {
            memory.release_input();
        }
    }
}
