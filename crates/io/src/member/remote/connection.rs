//! One connection of a remote member.
//!
//! Replies are received into an input buffer; the rest of a read's data is received directly into
//! the memory of the read. A request ends when its reply has arrived *and* the request was sent,
//! because the driver uses its memory until then. For the same reason the requests of a broken
//! connection end after the driver's last operation on it.

use super::RemoteRequest;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Handle, SLICES_MAX, Token};
use crate::nbd_protocol::wire::{REQUEST_BYTES, RawReply, RawRequest};
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;

/// Size of the input buffer: a few small replies. Larger data are received without a copy.
const INPUT_BYTES: usize = 16 << 10;

mirrorball_core::slab_key! {
    /// Names a request of a connection; its slot is in the cookie of the request.
    struct SentRequestKey;
}

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRequest {
    request: RemoteRequest,
    kind: u16,
    /// Number of writes of the member that were replied to when it was queued.
    written_before: u64,
    cookie: u64,
    sent: bool,
    /// Time of the first check that found it pending.
    seen_at: Option<Nanos>,
    /// The reply, once it has arrived with its data.
    reply: Option<Result<(), IoError>>,
}

/// A request that is queued or being sent.
struct Outgoing {
    /// Its header.
    head: BufferKey,
    /// Its data, if it is a write.
    data: Option<Slice>,
    /// Its key among the pending requests.
    key: SentRequestKey,
}

/// What the next bytes from the server are.
#[derive(Clone, Copy, Debug)]
enum Expecting {
    /// The header of a reply.
    Head,
    /// The rest of the data of this read.
    Data { key: SentRequestKey, rest: Slice },
}

/// A connection of a remote member, or the place for one.
pub(super) struct PeerConnection {
    socket: Option<Handle>,
    /// True from the close until the driver's operations on it have ended.
    closing: bool,
    receiving: bool,
    expecting: Expecting,
    input: Option<BufferKey>,
    /// Bytes of an incomplete header at the start of the input.
    head_bytes: usize,
    pending: Slab<SentRequestKey, PendingRequest>,
    cookies: u32,
    outgoing: VecDeque<Outgoing>,
    /// Number of those that are being sent.
    sending: usize,
    ended: Vec<(PendingRequest, Result<(), IoError>)>,
    /// False for the connection of an attachment that is over.
    is_attached: bool,
}

impl PendingRequest {
    pub(super) fn new(request: RemoteRequest, kind: u16, written_before: u64) -> PendingRequest {
        PendingRequest {
            request,
            kind,
            written_before,
            cookie: 0,
            sent: false,
            seen_at: None,
            reply: None,
        }
    }

    pub(super) fn key(&self) -> u32 {
        self.request.key
    }

    pub(super) fn op(&self) -> Op {
        self.request.op
    }

    pub(super) fn written_before(&self) -> u64 {
        self.written_before
    }
}

impl Default for PeerConnection {
    fn default() -> PeerConnection {
        PeerConnection {
            socket: None,
            closing: false,
            receiving: false,
            expecting: Expecting::Head,
            input: None,
            head_bytes: 0,
            pending: Slab::default(),
            cookies: 0,
            outgoing: VecDeque::new(),
            sending: 0,
            ended: Vec::new(),
            is_attached: false,
        }
    }
}

impl PeerConnection {
    pub(super) fn is_up(&self) -> bool {
        self.socket.is_some() && !self.closing
    }

    /// True if the connection is closed, and no operation of the driver is left.
    pub(super) fn is_broken(&self) -> bool {
        self.closing && !self.receiving && self.sending == 0
    }

    pub(super) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Starts to use a new connection.
    pub(super) fn connect(&mut self, socket: Handle, token: Token, driver: &mut Driver) {
        self.socket = Some(socket);
        (self.expecting, self.head_bytes) = (Expecting::Head, 0);
        self.receive(token, driver);
    }

    /// Returns true if a request has been pending for longer than `timeout`.
    pub(super) fn is_overdue(&mut self, now: Nanos, timeout: Nanos) -> bool {
        let mut overdue = false;
        for pending in self.pending.iter_mut() {
            overdue |= now >= *pending.seen_at.get_or_insert(now) + timeout;
        }
        overdue
    }

    /// Queues a request.
    pub(super) fn queue(&mut self, mut pending: PendingRequest, driver: &mut Driver) {
        self.cookies = self.cookies.wrapping_add(1);
        let count = u64::from(self.cookies) << 32;
        let RemoteRequest { op, offset, length, data, .. } = pending.request;
        let kind = pending.kind;
        let key = self.pending.insert(pending);
        // The count tells a reply to an earlier tenant of the place from one to this.
        pending.cookie = count | u64::from(key.slot());
        *self.pending.get_mut(key) = pending;
        let length = u32::try_from(length).expect("a chunk is no longer than 1 GiB");
        let raw = RawRequest { flags: 0, kind, cookie: pending.cookie, offset, length };
        let head = driver.acquire(REQUEST_BYTES);
        driver.bytes_mut(Slice::data(head, 0, REQUEST_BYTES)).copy_from_slice(&raw.bytes());
        let data = data.filter(|_| op == Op::Write);
        self.outgoing.push_back(Outgoing { head, data, key });
    }

    /// Sends queued requests, unless a send is in flight.
    pub(super) fn send(&mut self, token: Token, driver: &mut Driver) {
        let Some(socket) = self.socket.filter(|_| !self.closing && self.sending == 0) else {
            return;
        };
        let Some(first) = self.outgoing.front() else { return };
        let mut slices = [Slice::data(first.head, 0, REQUEST_BYTES); SLICES_MAX];
        let mut count = 0;
        for outgoing in self.outgoing.iter().take(SLICES_MAX / 2) {
            slices[count] = Slice::data(outgoing.head, 0, REQUEST_BYTES);
            count += 1;
            if let Some(data) = outgoing.data {
                slices[count] = data;
                count += 1;
            }
            self.sending += 1;
        }
        driver.send(token, socket, &slices[..count]);
    }

    /// Handles the end of a send; `whole` is false if it failed.
    pub(super) fn on_sent(&mut self, whole: bool, driver: &mut Driver) {
        for Outgoing { head, key, .. } in self.outgoing.drain(..std::mem::take(&mut self.sending)) {
            driver.release(head);
            // A server may reply to a read before the send of several requests ends.
            if whole && self.pending.find(key).is_some() {
                self.pending.get_mut(key).sent = true;
                end_if_over(&mut self.pending, key, &mut self.ended);
            }
        }
        if !whole {
            self.close(driver);
        }
    }

    /// Receives what is expected next, unless a receive is in flight.
    pub(super) fn receive(&mut self, token: Token, driver: &mut Driver) {
        let Some(socket) = self.socket.filter(|_| !self.closing && !self.receiving) else {
            return;
        };
        self.receiving = true;
        let slice = match self.expecting {
            Expecting::Head => {
                let input = *self.input.get_or_insert_with(|| driver.acquire(INPUT_BYTES));
                Slice::data(input, self.head_bytes, INPUT_BYTES - self.head_bytes)
            }
            Expecting::Data { rest, .. } => rest,
        };
        driver.receive(token, socket, slice);
    }

    /// Handles received bytes; zero means that the connection broke.
    pub(super) fn on_received(&mut self, bytes: usize, driver: &mut Driver) {
        self.receiving = false;
        if bytes == 0 || self.closing {
            return self.close(driver);
        }
        match self.expecting {
            Expecting::Head => {
                let input = self.input.expect("it was received into");
                let whole = Slice::data(input, 0, self.head_bytes + bytes);
                match self.parse_replies(whole, driver) {
                    Some(rest) => {
                        driver.bytes_mut(whole).copy_within(whole.length - rest.., 0);
                        self.head_bytes = rest;
                    }
                    None => self.close(driver),
                }
            }
            Expecting::Data { key, rest } => self.on_data(key, rest.after(bytes)),
        }
    }

    /// Requests that ended since the last call.
    pub(super) fn take_ended(&mut self) -> Vec<(PendingRequest, Result<(), IoError>)> {
        std::mem::take(&mut self.ended)
    }

    /// Makes room for a new connection; returns the requests of the broken one.
    pub(super) fn clear(&mut self, driver: &mut Driver) -> Vec<PendingRequest> {
        for outgoing in self.outgoing.drain(..) {
            driver.release(outgoing.head);
        }
        (self.socket, self.closing) = (None, false);
        let keys: Vec<SentRequestKey> = self.pending.iter().map(|(key, _)| key).collect();
        keys.into_iter().filter_map(|key| self.pending.remove(key)).collect()
    }

    pub(super) fn is_attached(&self) -> bool {
        self.is_attached
    }

    pub(super) fn set_attached(&mut self, is_attached: bool) {
        self.is_attached = is_attached;
    }

    /// True if the place can be used for another connection.
    pub(super) fn is_free(&self) -> bool {
        !self.is_attached && self.is_down() && self.input.is_none()
    }

    /// True if there is no connection, and no operation of the driver is left.
    fn is_down(&self) -> bool {
        self.socket.is_none() && !self.receiving && self.sending == 0
    }

    /// Frees the memory of a connection that is down.
    pub(super) fn free_if_down(&mut self, driver: &mut Driver) {
        if self.is_down()
            && let Some(input) = self.input.take()
        {
            driver.release(input);
        }
    }

    /// Parses the replies in the input; returns the number of bytes of an incomplete header at its
    /// end, or `None` if the server violates the protocol.
    fn parse_replies(&mut self, mut input: Slice, driver: &mut Driver) -> Option<usize> {
        while let Some(head) = driver.bytes(input).first_chunk() {
            input = input.after(head.len());
            self.on_head(RawReply::parse(head)?)?;
            if let Expecting::Data { key, rest } = self.expecting {
                let length = rest.length.min(input.length);
                driver.deliver(Slice { length, ..input }, Slice { length, ..rest });
                input = input.after(length);
                self.on_data(key, rest.after(length));
            }
        }
        Some(input.length)
    }

    /// Handles the header of a reply; returns `None` if the server violates the protocol.
    fn on_head(&mut self, RawReply { error, cookie }: RawReply) -> Option<()> {
        let key = SentRequestKey::from_slot(cookie as u32);
        let pending = self.pending.find(key)?;
        if pending.cookie != cookie || pending.reply.is_some() {
            return None;
        }
        match pending.request.data {
            Some(rest) if error == 0 && pending.request.op == Op::Read => {
                self.expecting = Expecting::Data { key, rest };
            }
            _ => self.reply(key, if error == 0 { Ok(()) } else { Err(IoError::Medium) }),
        }
        Some(())
    }

    /// Handles data of a read, of which `rest` has not arrived.
    fn on_data(&mut self, key: SentRequestKey, rest: Slice) {
        if rest.length > 0 {
            self.expecting = Expecting::Data { key, rest };
        } else {
            self.expecting = Expecting::Head;
            self.reply(key, Ok(()));
        }
    }

    fn reply(&mut self, key: SentRequestKey, result: Result<(), IoError>) {
        self.pending.get_mut(key).reply = Some(result);
        end_if_over(&mut self.pending, key, &mut self.ended);
    }

    /// Closes the connection, if it is up.
    pub(super) fn close(&mut self, driver: &mut Driver) {
        if let Some(socket) = self.socket.filter(|_| !self.closing) {
            self.closing = true;
            driver.close(socket);
        }
    }
}

/// Ends a request if it was sent and replied to.
fn end_if_over(
    pending: &mut Slab<SentRequestKey, PendingRequest>,
    key: SentRequestKey,
    ended: &mut Vec<(PendingRequest, Result<(), IoError>)>,
) {
    let PendingRequest { sent: true, reply: Some(result), .. } = *pending.get(key) else { return };
    let pending = pending.remove(key).expect("it was there");
    ended.push((pending, result));
}
