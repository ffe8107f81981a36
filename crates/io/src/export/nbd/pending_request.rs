//! A client's request in flight, and how it is split into I/O requests.
//!
//! Most requests need one I/O request. Write-zeroes and discard requests are split, and FUA
//! requests are followed by a flush.

use super::command::{Action, NbdCommand};
use super::handshake::Agreement;
use super::keys::ConnectionKey;
use super::memory_budget::Reservation;
use crate::driver::buffers::BufferKey;
use crate::executor::Target;
use crate::export::Durability;
use crate::export::chunked_ops::{discard_step, zero_step};

/// Limit of write-zeroes and discards that need no turn.
const SHORT_BYTES_MAX: u32 = 64 << 10;

/// A client's request in flight.
pub(super) struct PendingRequest {
    /// Key of its connection.
    pub(super) connection: ConnectionKey,
    pub(super) command: NbdCommand,
    pub(super) agreement: Agreement,
    /// Its data.
    pub(super) buffer: Option<BufferKey>,
    /// The memory that it holds.
    pub(super) reservation: Reservation,
    /// Number of its bytes that are done.
    pub(super) done: u64,
    /// True if only the flush is left.
    pub(super) flushing: bool,
}

impl PendingRequest {
    pub(super) fn new(
        connection: ConnectionKey,
        command: NbdCommand,
        agreement: Agreement,
        buffer: Option<BufferKey>,
        reservation: Reservation,
    ) -> PendingRequest {
        let (done, flushing) = (0, false);
        PendingRequest { connection, command, agreement, buffer, reservation, done, flushing }
    }

    /// Returns true if it is carried out in steps, in turn with those of other clients.
    pub(super) fn is_long(&self) -> bool {
        matches!(self.command.action, Action::WriteZeroes | Action::Trim)
            && self.command.length > SHORT_BYTES_MAX
    }

    /// Number of bytes of the next I/O request.
    pub(super) fn step(&self, target: Target) -> u64 {
        let left = u64::from(self.command.length) - self.done;
        match self.command.action {
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
        if self.done < u64::from(self.command.length) {
            return true;
        }
        self.flushing = self.command.durability == Durability::AtReply;
        self.flushing
    }
}
