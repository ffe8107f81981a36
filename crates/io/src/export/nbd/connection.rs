//! One connection: received bytes that are not parsed yet, and replies to send.
//!
//! Bytes are received into one buffer ([`super::input`]). If the data of a write are incomplete
//! there, the rest is received directly into the buffer of the request. Replies are queued and sent
//! in batches.

use super::handshake::{Agreement, Handshake};
use super::input::Input;
use super::keys::ClientRequestKey;
use super::memory_budget::{Held, MemoryBudget, Reservation};
use super::queues::Progress;
use crate::driver::buffers::{HEAD_BYTES, Slice};
use crate::driver::{Driver, Handle, PeerPlace, SLICES_MAX, Token};
use std::collections::VecDeque;
use std::ops::Range;

/// Limit of the bytes of one send, so that a client that takes its replies slowly makes progress
/// that is seen.
const SEND_BYTES_MAX: usize = 4 << 20;

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
    /// Where the client is.
    pub(super) place: PeerPlace,
    pub(super) phase: Phase,
    pub(super) expecting: Expecting,
    pub(super) input: Input,
    pub(super) receiving: bool,
    /// What is known of the end of the connection.
    pub(super) hangup: Hangup,
    /// Replies to send, each in a buffer of its own, which is released when it is sent.
    outgoing: VecDeque<Reply>,
    outgoing_bytes: usize,
    /// The send in flight.
    sending: Sending,
    /// Number of requests in flight, and their bytes.
    pub(super) pending: usize,
    pub(super) pending_bytes: usize,
    /// Long requests that wait for their next step.
    pub(super) long: VecDeque<ClientRequestKey>,
    /// Memory that the requests and replies hold.
    pub(super) held: Held,
    /// True if the next request has to wait for memory.
    pub(super) waits_for_memory: bool,
    /// Counts the ends of transfers.
    pub(super) progress: u64,
    /// The progress when it was last checked.
    pub(super) checked: Progress,
    /// Number of the server's last event of this client.
    pub(super) active_at: u64,
}

/// A reply to send, and the memory that it holds.
struct Reply {
    slice: Slice,
    reservation: Reservation,
}

/// The send in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Nothing,
    /// A number of replies at the front.
    Replies(usize),
    /// A part of the first reply.
    Part(usize),
}

/// What is known of the end of a connection while nothing is received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Hangup {
    /// It is not watched.
    Unwatched,
    /// An operation that ends with the connection is in flight.
    Watched,
    /// The client has ended its half of the connection.
    HalfClosed,
}

impl Connection {
    pub(super) fn new(socket: Handle, stream: u64, driver: &mut Driver) -> Connection {
        Connection {
            socket,
            stream,
            place: PeerPlace::Unknown,
            phase: Phase::Negotiating(Handshake::default()),
            expecting: Expecting::Header,
            input: Input::new(driver),
            receiving: false,
            hangup: Hangup::Unwatched,
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            sending: Sending::Nothing,
            pending: 0,
            pending_bytes: 0,
            long: VecDeque::new(),
            held: Held::default(),
            waits_for_memory: false,
            progress: 0,
            checked: Progress::default(),
            active_at: stream,
        }
    }

    pub(super) fn unread_bytes(&self) -> usize {
        self.input.unread_bytes()
    }

    /// Starts a receive, unless one is in flight.
    pub(super) fn receive(&mut self, token: Token, driver: &mut Driver, memory: &mut MemoryBudget) {
        if self.receiving {
            return;
        }
        self.receiving = true;
        let slice = match self.expecting {
            Expecting::Data { slice, .. } => slice,
            Expecting::Header | Expecting::Discard { .. } => self.input.free_space(driver, memory),
        };
        driver.receive(token, self.socket, slice);
    }

    /// Watches for the end of the connection while nothing is received from it.
    pub(super) fn watch_hangup(&mut self, token: Token, driver: &mut Driver) {
        if self.hangup == Hangup::Unwatched && !self.receiving && self.pending > 0 {
            self.hangup = Hangup::Watched;
            driver.watch_hangup(token, self.socket);
        }
    }

    /// Queues bytes of a buffer, which is released when they are sent.
    pub(super) fn queue(&mut self, slice: Slice, reservation: Reservation) {
        self.outgoing_bytes += slice.length;
        self.outgoing.push_back(Reply { slice, reservation });
    }

    /// Queues a copy of some bytes.
    pub(super) fn queue_copy(
        &mut self,
        bytes: &[u8],
        reservation: Reservation,
        driver: &mut Driver,
    ) {
        let buffer = driver.acquire(bytes.len());
        let slice = Slice { buffer, start: HEAD_BYTES, length: bytes.len() };
        driver.bytes_mut(slice).copy_from_slice(bytes);
        self.queue(slice, reservation);
    }

    /// Sends queued replies, unless a send is in flight.
    pub(super) fn send(&mut self, token: Token, driver: &mut Driver) {
        let (Sending::Nothing, Some(first)) = (self.sending, self.outgoing.front()) else { return };
        let first = first.slice;
        if first.length > SEND_BYTES_MAX {
            self.sending = Sending::Part(SEND_BYTES_MAX);
            return driver.send(token, self.socket, &[Slice { length: SEND_BYTES_MAX, ..first }]);
        }
        let mut slices = [first; SLICES_MAX];
        let (mut count, mut bytes) = (0, 0);
        for (slice, reply) in slices.iter_mut().zip(&self.outgoing) {
            bytes += reply.slice.length;
            if bytes > SEND_BYTES_MAX {
                break;
            }
            *slice = reply.slice;
            count += 1;
        }
        self.sending = Sending::Replies(count);
        driver.send(token, self.socket, &slices[..count]);
    }

    /// Releases the replies whose send ended.
    pub(super) fn on_sent(&mut self, driver: &mut Driver, memory: &mut MemoryBudget) {
        self.progress += 1;
        match std::mem::replace(&mut self.sending, Sending::Nothing) {
            Sending::Part(bytes) => {
                self.outgoing_bytes -= bytes;
                let first = self.outgoing.front_mut().expect("a reply that is sent is queued");
                first.slice = first.slice.after(bytes);
            }
            Sending::Replies(count) => self.release_replies(0..count, driver, memory),
            Sending::Nothing => {}
        }
    }

    /// Drops queued replies whose send has not begun.
    pub(super) fn drop_queue(&mut self, driver: &mut Driver, memory: &mut MemoryBudget) {
        let begun = match self.sending {
            Sending::Nothing => 0,
            Sending::Replies(count) => count,
            Sending::Part(_) => 1,
        };
        self.release_replies(begun..self.outgoing.len(), driver, memory);
    }

    fn release_replies(
        &mut self,
        range: Range<usize>,
        driver: &mut Driver,
        memory: &mut MemoryBudget,
    ) {
        for Reply { slice, reservation } in self.outgoing.drain(range) {
            self.outgoing_bytes -= slice.length;
            driver.release(slice.buffer);
            memory.release(&mut self.held, reservation);
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

    /// Returns true if the client has to take replies or to send data.
    pub(super) fn waits_for_client(&self) -> bool {
        self.sending != Sending::Nothing || matches!(self.expecting, Expecting::Data { .. })
    }

    /// Returns true if it is closed and no operation of it is in flight.
    pub(super) fn is_over(&self) -> bool {
        let quiet = !self.receiving && self.outgoing.is_empty() && self.pending == 0;
        matches!(self.phase, Phase::Closed) && quiet && self.hangup != Hangup::Watched
    }

    /// Releases its memory.
    pub(super) fn free(self, driver: &mut Driver, memory: &mut MemoryBudget) {
        self.input.free(driver, memory);
    }
}
