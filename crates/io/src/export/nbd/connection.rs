//! One connection: received bytes that are not parsed yet, and replies to send.
//!
//! Bytes are received into one buffer. If the data of a write are incomplete there, the rest is
//! received directly into the buffer of the request. Replies are queued and sent in batches.

use super::handshake::{Agreement, Handshake};
use super::keys::ClientRequestKey;
use crate::driver::buffers::{BufferKey, HEAD_BYTES, Slice};
use crate::driver::{Driver, Handle, SLICES_MAX, Token};
use std::collections::VecDeque;

/// Size of the receive buffer: a queue of small writes.
pub(super) const INPUT_BYTES: usize = 256 << 10;

/// Limit of requests of one connection that are in flight or whose replies are not sent.
const REQUESTS_MAX: usize = 256;
/// Limit of their bytes; one request may exceed it.
const BYTES_MAX: usize = 64 << 20;

/// The phase of a connection.
pub(super) enum Phase {
    /// The handshake.
    Negotiating(Handshake),
    /// Requests are accepted.
    Serving(Agreement),
    /// No more requests are accepted; those in flight are answered, then the connection closes.
    Draining,
    /// The socket is closed; driver operations in flight have yet to end.
    Closed,
}

/// What the next received bytes are.
pub(super) enum Expecting {
    /// The header of a request or an option.
    Header,
    /// Data of a write, into the buffer of this request.
    Data { pending: ClientRequestKey, slice: Slice },
    /// Data of a rejected request, to be skipped.
    Discard { bytes: usize },
}

pub(super) struct Connection {
    pub(super) socket: Handle,
    /// Its identity for policies.
    pub(super) stream: u64,
    pub(super) phase: Phase,
    pub(super) expecting: Expecting,
    input: BufferKey,
    /// The part of the input that is not parsed yet.
    begin: usize,
    end: usize,
    pub(super) receiving: bool,
    /// Replies to send, each in a buffer of its own, which is released when it is sent.
    outgoing: VecDeque<Slice>,
    outgoing_bytes: usize,
    /// Number of replies at the front whose send is in flight.
    sending: usize,
    /// Number of requests in flight, and their bytes.
    pub(super) pending: usize,
    pub(super) pending_bytes: usize,
}

impl Connection {
    pub(super) fn new(socket: Handle, stream: u64, driver: &mut Driver) -> Connection {
        Connection {
            socket,
            stream,
            phase: Phase::Negotiating(Handshake::default()),
            expecting: Expecting::Header,
            input: driver.acquire(INPUT_BYTES),
            begin: 0,
            end: 0,
            receiving: false,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            sending: 0,
            pending: 0,
            pending_bytes: 0,
        }
    }

    /// The received bytes that are not parsed yet.
    pub(super) fn unread<'a>(&self, driver: &'a Driver) -> &'a [u8] {
        driver.bytes(Slice::data(self.input, self.begin, self.end - self.begin))
    }

    pub(super) fn unread_bytes(&self) -> usize {
        self.end - self.begin
    }

    pub(super) fn take(&mut self, bytes: usize) {
        self.begin += bytes;
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
        }
    }

    /// Moves received bytes to `target` until it is full.
    pub(super) fn take_into(&mut self, target: Slice, driver: &mut Driver) {
        driver.copy(Slice::data(self.input, self.begin, target.length), target);
        self.take(target.length);
    }

    /// Starts a receive, unless one is in flight.
    pub(super) fn receive(&mut self, token: Token, driver: &mut Driver) {
        if self.receiving {
            return;
        }
        self.receiving = true;
        if let Expecting::Data { slice, .. } = self.expecting {
            return driver.receive(token, self.socket, slice);
        }
        if self.begin > 0 {
            let whole = Slice::data(self.input, 0, self.end);
            driver.bytes_mut(whole).copy_within(self.begin.., 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let room = Slice::data(self.input, self.end, INPUT_BYTES - self.end);
        driver.receive(token, self.socket, room);
    }

    /// Records that bytes were received.
    pub(super) fn on_input(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Queues bytes of a buffer, which is released when they are sent.
    pub(super) fn queue(&mut self, slice: Slice) {
        self.outgoing_bytes += slice.length;
        self.outgoing.push_back(slice);
    }

    /// Queues a copy of some bytes.
    pub(super) fn queue_copy(&mut self, bytes: &[u8], driver: &mut Driver) {
        let buffer = driver.acquire(bytes.len());
        let slice = Slice { buffer, start: HEAD_BYTES, length: bytes.len() };
        driver.bytes_mut(slice).copy_from_slice(bytes);
        self.queue(slice);
    }

    /// Sends queued replies, unless a send is in flight.
    pub(super) fn send(&mut self, token: Token, driver: &mut Driver) {
        if self.sending > 0 || self.outgoing.is_empty() {
            return;
        }
        self.sending = self.outgoing.len().min(SLICES_MAX);
        let first = self.outgoing[0];
        let mut slices = [first; SLICES_MAX];
        for (slice, outgoing) in slices.iter_mut().zip(&self.outgoing) {
            *slice = *outgoing;
        }
        driver.send(token, self.socket, &slices[..self.sending]);
    }

    /// Releases the replies whose send ended.
    pub(super) fn on_sent(&mut self, driver: &mut Driver) {
        for slice in self.outgoing.drain(..self.sending) {
            self.outgoing_bytes -= slice.length;
            driver.release(slice.buffer);
        }
        self.sending = 0;
    }

    /// Drops queued replies whose send has not begun.
    pub(super) fn drop_queue(&mut self, driver: &mut Driver) {
        for slice in self.outgoing.drain(self.sending..) {
            self.outgoing_bytes -= slice.length;
            driver.release(slice.buffer);
        }
    }

    /// Returns true if its next request must wait, because too much is in flight.
    pub(super) fn is_full(&self) -> bool {
        self.pending + self.outgoing.len() >= REQUESTS_MAX
            || self.pending_bytes + self.outgoing_bytes >= BYTES_MAX
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns true if every complete request is answered.
    pub(super) fn is_answered(&self) -> bool {
        let unfinished = usize::from(matches!(self.expecting, Expecting::Data { .. }));
        self.pending == unfinished && self.outgoing.is_empty()
    }

    /// Returns true if it is closed and no operation of it is in flight.
    pub(super) fn is_over(&self) -> bool {
        let quiet = !self.receiving && self.outgoing.is_empty() && self.pending == 0;
        matches!(self.phase, Phase::Closed) && quiet
    }

    /// Releases its memory.
    pub(super) fn free(self, driver: &mut Driver) {
        driver.release(self.input);
    }
}
