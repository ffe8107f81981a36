//! One connection of a remote member.
//!
//! Replies are received into an input buffer; the rest of a read's data is received directly into
//! the memory of the read. A request ends when its reply has arrived *and* the request was sent,
//! because the driver uses its memory until then. For the same reason the requests of a broken
//! connection end after the driver's last operation on it.

use super::RemoteRequest;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Handle, SLICES_MAX, Token};
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::units::Nanos;
use mirrorball_nbd::client::{ClientConnection, CookieKey};
use mirrorball_nbd::wire::{REQUEST_BYTES, RawRequest};
use std::collections::VecDeque;

/// Size of the input buffer: a few small replies. Larger data are received without a copy.
const INPUT_BYTES: usize = 16 << 10;

/// A request that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerRequest {
    pub(super) request: RemoteRequest,
    /// Number of writes of the member that were replied to when it was queued.
    pub(super) written_before: u64,
    is_sent: bool,
    /// The reply, once it has arrived with its data.
    reply: Option<Result<(), IoError>>,
}

/// A request that has ended, and its result.
pub(super) type EndedRequest = (PeerRequest, Result<(), IoError>);

/// A request that is queued or being sent.
struct Outgoing {
    head: BufferKey,
    data: Option<Slice>,
    key: CookieKey,
}

/// The meaning of the next bytes from the server.
#[derive(Clone, Copy, Debug)]
enum Expecting {
    /// The header of a reply.
    Head,
    Data {
        key: CookieKey,
        rest: Slice,
    },
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
    protocol: ClientConnection<PeerRequest>,
    outgoing: VecDeque<Outgoing>,
    /// Number of those that are being sent.
    sending: usize,
    ended: Vec<EndedRequest>,
    /// False for the connection of an attachment that is over.
    is_attached: bool,
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
            protocol: ClientConnection::default(),
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
        self.protocol.in_flight()
    }

    /// Starts to use a new connection.
    pub(super) fn connect(&mut self, socket: Handle, token: Token, driver: &mut Driver) {
        self.socket = Some(socket);
        (self.expecting, self.head_bytes) = (Expecting::Head, 0);
        self.receive(token, driver);
    }

    /// Looks for requests that have been in flight for longer than `timeout`.
    pub(super) fn check_overdue(&mut self, now: Nanos, timeout: Nanos) -> bool {
        self.protocol.check_overdue(now, timeout)
    }

    /// Queues a request of the protocol's `kind`.
    pub(super) fn queue(
        &mut self,
        request: RemoteRequest,
        kind: u16,
        written_before: u64,
        driver: &mut Driver,
    ) {
        let RemoteRequest { op, offset, length, data, .. } = request;
        let length = u32::try_from(length).expect("a chunk is no longer than 1 GiB");
        let raw = RawRequest { flags: 0, kind, cookie: 0, offset, length };
        let request = PeerRequest { request, written_before, is_sent: false, reply: None };
        let (key, raw) = self.protocol.start(raw, request);
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
        for _ in 0..std::mem::take(&mut self.sending) {
            let sent = self.outgoing.pop_front();
            let Outgoing { head, key, .. } = sent.expect("a request that is sent is queued");
            driver.release(head);
            // A server may reply to a read before the send of several requests ends.
            if let Some(request) = self.protocol.find_mut(key).filter(|_| whole) {
                request.is_sent = true;
                self.end_if_over(key);
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

    /// Requests that ended since the last call, in the order of their ends.
    pub(super) fn take_ended(&mut self) -> impl Iterator<Item = EndedRequest> + use<'_> {
        self.ended.drain(..)
    }

    /// Makes room for a new connection; returns the requests of the broken one.
    pub(super) fn clear(
        &mut self,
        driver: &mut Driver,
    ) -> impl Iterator<Item = PeerRequest> + use<'_> {
        for outgoing in self.outgoing.drain(..) {
            driver.release(outgoing.head);
        }
        (self.socket, self.closing) = (None, false);
        self.protocol.end_all()
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
            let (key, result) = self.protocol.receive(head).ok()?;
            self.on_head(key, result.is_ok());
            if let Expecting::Data { key, rest } = self.expecting {
                let length = rest.length.min(input.length);
                driver.deliver(Slice { length, ..input }, Slice { length, ..rest });
                input = input.after(length);
                self.on_data(key, rest.after(length));
            }
        }
        Some(input.length)
    }

    /// Handles the header of a reply.
    fn on_head(&mut self, key: CookieKey, is_success: bool) {
        let request = self.protocol.find_mut(key).expect("the reply is to a request in flight");
        match request.request.data {
            Some(rest) if is_success && request.request.op == Op::Read => {
                self.expecting = Expecting::Data { key, rest };
            }
            _ => self.reply(key, if is_success { Ok(()) } else { Err(IoError::Medium) }),
        }
    }

    /// Handles data of a read, of which `rest` has not arrived.
    fn on_data(&mut self, key: CookieKey, rest: Slice) {
        if rest.length > 0 {
            self.expecting = Expecting::Data { key, rest };
        } else {
            self.expecting = Expecting::Head;
            self.reply(key, Ok(()));
        }
    }

    fn reply(&mut self, key: CookieKey, result: Result<(), IoError>) {
        let request = self.protocol.find_mut(key).expect("a request ends after its reply");
        request.reply = Some(result);
        self.end_if_over(key);
    }

    /// Ends a request if it was sent and replied to.
    fn end_if_over(&mut self, key: CookieKey) {
        if let Some(&mut PeerRequest { is_sent: true, reply: Some(result), .. }) =
            self.protocol.find_mut(key)
        {
            self.ended.push((self.protocol.end(key), result));
        }
    }

    /// Closes the connection, if it is up and has no requests.
    pub(super) fn close_if_unused(&mut self, driver: &mut Driver) {
        if self.in_flight() == 0 {
            self.close(driver);
        }
    }

    pub(super) fn close(&mut self, driver: &mut Driver) {
        if let Some(socket) = self.socket.filter(|_| !self.closing) {
            self.closing = true;
            driver.close(socket);
        }
    }
}
