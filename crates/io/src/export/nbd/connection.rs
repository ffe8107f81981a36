//! One connection: received bytes that are not parsed yet, requests in flight, and replies to send.
//!
//! Bytes are received into one buffer. It is small at first, so that thousands of idle connections
//! use little memory. A client that fills it gets a large one, if the memory budget has one left,
//! and keeps it while it sends much at once. If the data of a write are incomplete there, the rest
//! is received directly into the buffer of the request. Replies are queued and sent in batches.

use super::memory_budget::{Held, MemoryBudget, Reservation};
use crate::block_status::StatusExtent;
use crate::driver::buffers::{BufferKey, HEAD_BYTES, Slice};
use crate::driver::{Driver, Handle, PeerPlace, SLICES_MAX, Token};
use crate::executor::Target;
use crate::export::chunked_ops::{discard_step, zero_step};
use mirrorball_core::units::Nanos;
use mirrorball_nbd::server::{Action, ExportRequest, ServerConnection};
use std::collections::VecDeque;
use std::ops::Range;

/// Limit of the bytes of one send, so that the progress of a slow client is seen.
const SEND_BYTES_MAX: usize = 4 << 20;
/// Limit of requests of one connection that are in flight or whose replies are not sent.
const REQUESTS_MAX: usize = 256;
/// Limit of their memory; one request may exceed it.
const BYTES_MAX: usize = 64 << 20;
/// Size of the input buffer of a new connection: the longest option and the header of the next.
const SMALL_BYTES: usize = 16 << 10;
/// Size of the input buffer of a busy client: a queue of small writes.
pub(super) const LARGE_BYTES: usize = 256 << 10;
/// Number of receives in a row, each of less than half of a small buffer, after which a large one
/// is given back.
const SMALL_RECEIVES_MAX: u8 = 16;

/// Time without progress after which a client that keeps memory from others is disconnected.
pub(super) const STALL_TIMEOUT: Nanos = Nanos::from_secs(10);

/// The memory of a reply without data: the smallest buffer.
pub(super) const REPLY_BYTES: usize = 4096;
/// The memory of the longest reply to a block status request.
const STATUS_BYTES: usize = 16 << 10;
/// Limit of write-zeroes and discards that need no turn.
const SHORT_BYTES_MAX: u32 = 64 << 10;

mirrorball_core::slab_key! {
    /// Names a connection; its slot is in the tokens of its driver operations.
    pub(super) struct ConnectionKey;
}

mirrorball_core::slab_key! {
    /// Names a client's request in flight; its slot is in the tokens of its I/O requests.
    pub(super) struct ClientRequestKey;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// Options, then requests are accepted.
    Open,
    /// No more requests are accepted; those in flight are answered, then the connection closes.
    Draining,
    /// The socket is closed; driver operations in flight have yet to end.
    Closed,
}

/// The meaning of the next received bytes.
pub(super) enum Expecting {
    Header,
    /// Data of a write, into the buffer of this request.
    Data {
        request: ClientRequestKey,
        slice: Slice,
    },
    /// Data of a rejected request, to be skipped.
    Discard {
        bytes: usize,
    },
}

impl Expecting {
    /// Expects `bytes` to be skipped, and then a header.
    pub(super) fn discard(bytes: usize) -> Expecting {
        if bytes == 0 { Expecting::Header } else { Expecting::Discard { bytes } }
    }
}

pub(super) struct Connection {
    pub(super) socket: Handle,
    /// The identity for policies.
    pub(super) stream: u64,
    pub(super) place: PeerPlace,
    pub(super) protocol: ServerConnection,
    pub(super) phase: Phase,
    pub(super) expecting: Expecting,
    pub(super) input: Input,
    pub(super) receiving: bool,
    pub(super) hangup: Hangup,
    /// Replies to send, each in a buffer of its own, which is released when it is sent.
    outgoing: VecDeque<Reply>,
    sending: Sending,
    /// Number of requests without a reply.
    pub(super) in_flight: usize,
    /// Long requests that wait for their next step.
    pub(super) long: VecDeque<ClientRequestKey>,
    /// Memory that the requests and replies hold.
    pub(super) held: Held,
    /// True if the next request has to wait for memory.
    pub(super) waits_for_memory: bool,
    pub(super) transfers: u64,
    /// The progress when it was last checked.
    checked: Progress,
    /// Number of the server's last event of this client.
    pub(super) active_at: u64,
}

/// Number of transfers of a client, and the time since which it has been that.
#[derive(Clone, Copy, Default)]
struct Progress {
    transfers: u64,
    since: Option<Nanos>,
}

/// A reply to send, and the memory that it holds.
struct Reply {
    slice: Slice,
    reservation: Reservation,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    Nothing,
    Replies(usize),
    /// A part of the first reply.
    Part(usize),
}

/// Knowledge of the end of a connection while nothing is received.
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
    pub(super) fn new(
        socket: Handle,
        stream: u64,
        place: PeerPlace,
        driver: &mut Driver,
    ) -> Connection {
        Connection {
            socket,
            stream,
            place,
            protocol: ServerConnection::default(),
            phase: Phase::Open,
            expecting: Expecting::Header,
            input: Input::new(driver),
            receiving: false,
            hangup: Hangup::Unwatched,
            outgoing: VecDeque::new(),
            sending: Sending::Nothing,
            in_flight: 0,
            long: VecDeque::new(),
            held: Held::default(),
            waits_for_memory: false,
            transfers: 0,
            checked: Progress::default(),
            active_at: stream,
        }
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
        if self.hangup == Hangup::Unwatched && !self.receiving && self.in_flight > 0 {
            self.hangup = Hangup::Watched;
            driver.watch_hangup(token, self.socket);
        }
    }

    /// Queues bytes of a buffer, which is released when they are sent.
    pub(super) fn queue(&mut self, slice: Slice, reservation: Reservation) {
        self.outgoing.push_back(Reply { slice, reservation });
    }

    pub(super) fn queue_copy(
        &mut self,
        bytes: &[u8],
        reservation: Reservation,
        driver: &mut Driver,
    ) {
        let slice = Slice::data(driver.acquire(bytes.len()), 0, bytes.len());
        driver.bytes_mut(slice).copy_from_slice(bytes);
        self.queue(slice, reservation);
    }

    /// Queues the reply to a request: `head`, and the data behind it in the buffer of a read.
    pub(super) fn queue_reply(
        &mut self,
        head: &[u8],
        data: Option<(BufferKey, usize)>,
        reservation: Reservation,
        driver: &mut Driver,
    ) {
        let Some((buffer, data_bytes)) = data else {
            return self.queue_copy(head, reservation, driver);
        };
        let start = HEAD_BYTES - head.len();
        driver.bytes_mut(Slice { buffer, start, length: head.len() }).copy_from_slice(head);
        self.queue(Slice { buffer, start, length: head.len() + data_bytes }, reservation);
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
        self.transfers += 1;
        match std::mem::replace(&mut self.sending, Sending::Nothing) {
            Sending::Part(bytes) => {
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
            driver.release(slice.buffer);
            memory.release(&mut self.held, reservation);
        }
    }

    /// True if the next request must wait, because too much is in flight.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight + self.outgoing.len() >= REQUESTS_MAX || self.held.bytes() >= BYTES_MAX
    }

    pub(super) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// True if replies are queued, and none is being sent.
    pub(super) fn can_send(&self) -> bool {
        self.sending == Sending::Nothing && self.has_outgoing()
    }

    /// True if every complete request is answered.
    pub(super) fn is_answered(&self) -> bool {
        let unfinished = usize::from(matches!(self.expecting, Expecting::Data { .. }));
        self.in_flight == unfinished && self.outgoing.is_empty()
    }

    /// True if the client has to receive replies or to send data.
    fn waits_for_client(&self) -> bool {
        self.sending != Sending::Nothing || matches!(self.expecting, Expecting::Data { .. })
    }

    /// Records the progress of a client that holds memory; returns true if it has made none for too
    /// long.
    pub(super) fn check_progress(&mut self, now: Nanos) -> bool {
        if self.held.bytes() == 0 || !self.waits_for_client() {
            self.checked.since = None;
            return false;
        }
        if self.checked.since.is_none() || self.checked.transfers != self.transfers {
            self.checked = Progress { transfers: self.transfers, since: Some(now) };
        }
        self.checked.since.is_some_and(|since| now - since >= STALL_TIMEOUT)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    pub(super) fn is_negotiating(&self) -> bool {
        self.phase == Phase::Open && self.protocol.is_negotiating()
    }

    /// True if the client waits for nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.has_outgoing() && self.input.unread_bytes() == 0
    }

    /// True if it is closed and no operation of it is in flight.
    pub(super) fn is_over(&self) -> bool {
        let quiet = !self.receiving && self.outgoing.is_empty() && self.in_flight == 0;
        self.is_closed() && quiet && self.hangup != Hangup::Watched
    }
}

/// The receive buffer of a connection: received bytes that are not parsed yet.
pub(super) struct Input {
    buffer: BufferKey,
    bytes_max: usize,
    /// The part that is not parsed yet.
    begin: usize,
    end: usize,
    small_receives: u8,
    /// True if the last receive filled the buffer.
    was_filled: bool,
}

impl Input {
    fn new(driver: &mut Driver) -> Input {
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

    pub(super) fn on_received(&mut self, bytes: usize) {
        self.end += bytes;
        self.was_filled = self.end == self.bytes_max;
        self.small_receives = match bytes < SMALL_BYTES / 2 {
            true => self.small_receives.saturating_add(1),
            false => 0,
        };
    }

    /// The memory for the next receive, after the unread bytes.
    fn free_space(&mut self, driver: &mut Driver, memory: &mut MemoryBudget) -> Slice {
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

    pub(super) fn free(self, driver: &mut Driver, memory: &mut MemoryBudget) {
        driver.release(self.buffer);
        if self.bytes_max == LARGE_BYTES {
            memory.release_input();
        }
    }
}

/// A client's request in flight. Most need one I/O request. Write-zeroes and discard requests are
/// split, and FUA requests are followed by a flush.
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
