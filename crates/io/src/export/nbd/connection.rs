//! One connection: what came in and is not understood yet, and what is to go out.
//!
//! Bytes come into one buffer. The data of a write that are not whole there are received straight
//! into the buffer of the request. Replies wait in a queue and leave many at a time.

use super::handshake::{Agreement, Handshake};
use crate::driver::buffers::{BufferKey, HEAD_BYTES, Slice};
use crate::driver::{Driver, Handle, SLICES_MAX, Token};
use std::collections::VecDeque;

/// Bytes that are received at once: a queue of small writes.
pub(super) const INPUT_BYTES: usize = 256 << 10;

/// Requests of one connection that are not answered, or whose replies are not sent.
const REQUESTS_MAX: usize = 256;
/// Their bytes; one request may exceed it.
const BYTES_MAX: usize = 64 << 20;

/// Whether requests may come.
pub(super) enum Phase {
    /// Not yet.
    Negotiating(Handshake),
    /// They come.
    Serving(Agreement),
    /// No more: what is under way is answered, then the connection closes.
    Draining,
    /// The connection is closed as far as we are concerned; operations in flight still end.
    Closed,
}

/// What the next bytes are.
pub(super) enum Expecting {
    /// A request, or an option.
    Header,
    /// Data of a write, into the buffer of this request.
    Data { pending: u32, slice: Slice },
    /// Data of a request that was refused.
    Discard { bytes: usize },
}

pub(super) struct Connection {
    pub(super) socket: Handle,
    /// Who it is, to policies.
    pub(super) stream: u64,
    pub(super) phase: Phase,
    pub(super) expecting: Expecting,
    input: BufferKey,
    /// What of the input is not understood yet.
    begin: usize,
    end: usize,
    pub(super) receiving: bool,
    /// Each in a buffer of its own, which is freed once it is sent.
    outgoing: VecDeque<Slice>,
    outgoing_bytes: usize,
    /// How many of those at the front are on their way.
    sending: usize,
    /// Requests under way, and their bytes.
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
            input: driver.buffers.acquire(INPUT_BYTES),
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

    /// What of the input is not understood yet.
    pub(super) fn unread<'a>(&self, driver: &'a Driver) -> &'a [u8] {
        driver.buffers.bytes(Slice::data(self.input, self.begin, self.end - self.begin))
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

    /// Takes as many bytes as `target` has room for, and puts them there.
    pub(super) fn take_into(&mut self, target: Slice, driver: &mut Driver) {
        driver.buffers.copy(Slice::data(self.input, self.begin, target.length), target);
        self.take(target.length);
    }

    /// Starts to receive what is expected, unless that is under way.
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
            driver.buffers.bytes_mut(whole).copy_within(self.begin.., 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let room = Slice::data(self.input, self.end, INPUT_BYTES - self.end);
        driver.receive(token, self.socket, room);
    }

    /// Bytes came into the input.
    pub(super) fn on_input(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Queues bytes in a buffer, which is freed once they are sent.
    pub(super) fn queue(&mut self, slice: Slice) {
        self.outgoing_bytes += slice.length;
        self.outgoing.push_back(slice);
    }

    /// Queues a copy of some bytes.
    pub(super) fn queue_copy(&mut self, bytes: &[u8], driver: &mut Driver) {
        let buffer = driver.buffers.acquire(bytes.len());
        let slice = Slice { buffer, start: HEAD_BYTES, length: bytes.len() };
        driver.buffers.bytes_mut(slice).copy_from_slice(bytes);
        self.queue(slice);
    }

    /// Sends what is queued, unless a send is under way.
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

    /// What was on its way is sent, or never will be.
    pub(super) fn on_sent(&mut self, driver: &mut Driver) {
        for slice in self.outgoing.drain(..self.sending) {
            self.outgoing_bytes -= slice.length;
            driver.buffers.release(slice.buffer);
        }
        self.sending = 0;
    }

    /// Throws away what is queued and not on its way.
    pub(super) fn drop_queue(&mut self, driver: &mut Driver) {
        for slice in self.outgoing.drain(self.sending..) {
            self.outgoing_bytes -= slice.length;
            driver.buffers.release(slice.buffer);
        }
    }

    /// Whether so much of it is under way that its next request must wait.
    pub(super) fn is_full(&self) -> bool {
        self.pending + self.outgoing.len() >= REQUESTS_MAX
            || self.pending_bytes + self.outgoing_bytes >= BYTES_MAX
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether every request that came whole is answered.
    pub(super) fn is_answered(&self) -> bool {
        let unfinished = usize::from(matches!(self.expecting, Expecting::Data { .. }));
        self.pending == unfinished && self.outgoing.is_empty()
    }

    /// Whether nothing of it is in flight any more.
    pub(super) fn is_over(&self) -> bool {
        let quiet = !self.receiving && self.outgoing.is_empty() && self.pending == 0;
        matches!(self.phase, Phase::Closed) && quiet
    }

    /// Gives its memory back.
    pub(super) fn free(self, driver: &mut Driver) {
        driver.buffers.release(self.input);
    }
}
