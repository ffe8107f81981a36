//! A client's request in flight, and how it is split into I/O requests.
//!
//! Most requests need one I/O request. Write-zeroes and discard requests are split, and FUA
//! requests are followed by a flush.

use super::command::{Action, NbdCommand};
use super::handshake::Agreement;
use super::keys::ConnectionKey;
use crate::driver::buffers::BufferKey;
use crate::executor::Target;
use crate::export::Durability;
use crate::export::chunked_ops::{discard_step, zero_step};

/// A client's request in flight.
pub(super) struct PendingRequest {
    /// Key of its connection.
    pub(super) connection: ConnectionKey,
    pub(super) command: NbdCommand,
    pub(super) agreement: Agreement,
    /// Its data.
    pub(super) buffer: Option<BufferKey>,
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
    ) -> PendingRequest {
        PendingRequest { connection, command, agreement, buffer, done: 0, flushing: false }
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
