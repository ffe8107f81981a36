//! The queue of calls from the threads that read from the kernel to the executor's thread.
//!
//! Only a call that is put into an empty queue wakes the executor, so a burst of calls costs one
//! wake-up. Buffers for the data of writes are reused.

use crate::driver::Waker;
use crate::export::Durability;
use fuser::{ReplyData, ReplyEmpty, ReplyWrite};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A call that needs I/O. Its offset and length are valid.
pub(super) struct Call {
    pub(super) file: usize,
    /// ID of the calling process.
    pub(super) stream: u64,
    pub(super) kind: CallKind,
}

/// An operation with its reply handle.
pub(super) enum CallKind {
    /// Reads any range of the file.
    Read { offset: u64, length: u64, reply: ReplyData },
    /// Writes any range of the file.
    Write { offset: u64, data: Vec<u8>, durability: Durability, reply: ReplyWrite },
    /// Makes all acknowledged writes durable.
    Flush { reply: ReplyEmpty },
    /// Zeroes whole blocks, and releases their space if possible.
    Punch { offset: u64, length: u64, reply: ReplyEmpty },
}

impl Call {
    /// The range that it reads or changes.
    pub(super) fn range(&self) -> Range<u64> {
        match &self.kind {
            CallKind::Read { offset, length, .. } | CallKind::Punch { offset, length, .. } => {
                *offset..offset + length
            }
            CallKind::Write { offset, data, .. } => *offset..offset + data.len() as u64,
            CallKind::Flush { .. } => 0..0,
        }
    }

    /// Returns true if it changes data.
    pub(super) fn changes(&self) -> bool {
        matches!(self.kind, CallKind::Write { .. } | CallKind::Punch { .. })
    }
}

/// See the module documentation.
pub(super) struct CallQueue {
    calls: Mutex<Vec<Call>>,
    spare: Mutex<Vec<Vec<u8>>>,
    waker: Waker,
}

impl CallQueue {
    /// Creates a queue that wakes its reader by `waker`.
    pub(super) fn new(waker: Waker) -> CallQueue {
        CallQueue { calls: Mutex::default(), spare: Mutex::default(), waker }
    }

    pub(super) fn put(&self, call: Call) {
        let mut calls = lock(&self.calls);
        calls.push(call);
        if calls.len() == 1 {
            drop(calls);
            self.waker.wake();
        }
    }

    /// Moves all calls to `taken`, which must be empty; its memory is used for the next calls.
    pub(super) fn take(&self, taken: &mut Vec<Call>) {
        debug_assert!(taken.is_empty(), "taken calls are begun before the next are taken");
        std::mem::swap(&mut *lock(&self.calls), taken);
    }

    /// Copies `data` into a reused buffer, if there is one.
    pub(super) fn copy_into_spare(&self, data: &[u8]) -> Vec<u8> {
        let mut copy = lock(&self.spare).pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(data);
        copy
    }

    /// Returns a buffer for reuse.
    pub(super) fn recycle(&self, copy: Vec<u8>) {
        lock(&self.spare).push(copy);
    }
}

/// Locks a mutex. A thread that panicked while it held the lock left the data valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
