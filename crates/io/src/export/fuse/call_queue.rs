//! Where the threads that read from the kernel leave calls for the thread that answers them.
//!
//! The waker is set when the queue was empty: a burst of calls costs one wake-up. Memory for the
//! data of writes goes back and forth, so none is allocated once the busiest moment was seen.

use crate::driver::Waker;
use crate::export::Durability;
use fuser::{ReplyData, ReplyEmpty, ReplyWrite};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A call that the volume or a member answers. Offsets and lengths are checked.
pub(super) struct Call {
    /// Which file, by its place among the exports.
    pub(super) file: usize,
    /// The process that asks.
    pub(super) stream: u64,
    /// What it asks.
    pub(super) kind: CallKind,
}

/// What is asked, and who hears the answer.
pub(super) enum CallKind {
    /// Bytes; they may begin and end anywhere in the file.
    Read { offset: u64, length: u64, reply: ReplyData },
    /// Data for anywhere in the file.
    Write { offset: u64, data: Vec<u8>, durability: Durability, reply: ReplyWrite },
    /// That what was written be durable.
    Flush { reply: ReplyEmpty },
    /// That whole blocks be zeroes, and take no room where they need not.
    Punch { offset: u64, length: u64, reply: ReplyEmpty },
}

impl Call {
    /// The bytes that it is about.
    pub(super) fn range(&self) -> Range<u64> {
        match &self.kind {
            CallKind::Read { offset, length, .. } | CallKind::Punch { offset, length, .. } => {
                *offset..offset + length
            }
            CallKind::Write { offset, data, .. } => *offset..offset + data.len() as u64,
            CallKind::Flush { .. } => 0..0,
        }
    }

    /// Whether it changes them.
    pub(super) fn changes(&self) -> bool {
        matches!(self.kind, CallKind::Write { .. } | CallKind::Punch { .. })
    }
}

/// See the page of this module.
pub(super) struct CallQueue {
    calls: Mutex<Vec<Call>>,
    spare: Mutex<Vec<Vec<u8>>>,
    waker: Waker,
}

impl CallQueue {
    /// A queue that sets this waker.
    pub(super) fn new(waker: Waker) -> CallQueue {
        CallQueue { calls: Mutex::default(), spare: Mutex::default(), waker }
    }

    /// Leaves a call.
    pub(super) fn put(&self, call: Call) {
        let mut calls = lock(&self.calls);
        calls.push(call);
        if calls.len() == 1 {
            drop(calls);
            self.waker.wake();
        }
    }

    /// Takes every call; `taken` must be empty, and its memory is used for the next ones.
    pub(super) fn take(&self, taken: &mut Vec<Call>) {
        debug_assert!(taken.is_empty(), "calls are answered before the next are taken");
        std::mem::swap(&mut *lock(&self.calls), taken);
    }

    /// A copy of `data` in memory that was used before, where there is some.
    pub(super) fn copy_into_spare(&self, data: &[u8]) -> Vec<u8> {
        let mut copy = lock(&self.spare).pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(data);
        copy
    }

    /// Gives the memory of a copy back.
    pub(super) fn recycle(&self, copy: Vec<u8>) {
        lock(&self.spare).push(copy);
    }
}

/// What is behind a lock: whoever panicked with it left nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
