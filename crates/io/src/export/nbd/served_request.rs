//! A client's request in flight, and how it is split into I/O requests.
//!
//! Most requests need one I/O request. Write-zeroes and discard requests are split, and FUA
//! requests are followed by a flush.

use super::connection::{ClientRequestKey, ConnectionKey};
use super::memory_budget::Reservation;
use crate::block_status::StatusExtent;
use crate::driver::buffers::BufferKey;
use crate::executor::Target;
use crate::export::chunked_ops::{discard_step, zero_step};
use mirrorball_nbd::server::{Action, ExportRequest};

/// The memory of a reply without data: the smallest buffer.
pub(super) const REPLY_BYTES: usize = 4096;
/// The memory of the longest reply to a block status request.
const STATUS_BYTES: usize = 16 << 10;
/// Limit of write-zeroes and discards that need no turn.
const SHORT_BYTES_MAX: u32 = 64 << 10;

/// A client's request in flight.
pub(super) struct ServedRequest {
    pub(super) connection: ConnectionKey,
    pub(super) request: ExportRequest,
    pub(super) export: usize,
    /// The data of a read or write.
    pub(super) buffer: Option<BufferKey>,
    pub(super) reservation: Reservation,
    pub(super) done: u64,
    /// True if only the flush is left.
    pub(super) flushing: bool,
}

/// The extents of files that a worker found for a request.
pub(super) struct FoundExtents {
    pub(super) request: ClientRequestKey,
    pub(super) extents: Vec<StatusExtent>,
}

pub(super) fn memory_bytes(request: &ExportRequest) -> usize {
    match request.action {
        Action::Read | Action::Write => (request.length as usize).max(REPLY_BYTES),
        Action::BlockStatus => STATUS_BYTES,
        Action::Flush | Action::Trim | Action::WriteZeroes => REPLY_BYTES,
    }
}

impl ServedRequest {
    /// True if it is carried out in steps, in turn with those of other clients.
    pub(super) fn is_long(&self) -> bool {
        matches!(self.request.action, Action::WriteZeroes | Action::Trim)
            && self.request.length > SHORT_BYTES_MAX
    }

    /// Number of bytes of the next I/O request.
    pub(super) fn step(&self, target: Target) -> u64 {
        let left = u64::from(self.request.length) - self.done;
        match self.request.action {
            Action::WriteZeroes => zero_step(left),
            Action::Trim => discard_step(target, left),
            _ => left,
        }
    }

    /// Records that an I/O request succeeded; returns true if another must follow.
    pub(super) fn advance(&mut self, target: Target) -> bool {
        if self.flushing {
            return false;
        }
        self.done += self.step(target);
        if self.done < u64::from(self.request.length) {
            return true;
        }
        self.flushing = self.request.is_durable;
        self.flushing
    }
}
