//! One connection to a peer: requests that go out, replies that come in.
//!
//! The head of a reply is received by itself, so that the data behind it can be received straight
//! into the buffer where they belong. A request ends when its reply is here *and* it is sent: only
//! then is its buffer nobody's. For the same reason a connection that breaks ends its requests when
//! the driver has let go of it.

use super::Ask;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Handle, SLICES_MAX, Token};
use crate::nbd::wire::{REQUEST_BYTES, RawReply, RawRequest, SIMPLE_REPLY_BYTES};
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::slab::Slab;
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    ask: Ask,
    kind: u16,
    /// Writes of the member that were replied to when it was asked.
    written_before: u64,
    cookie: u64,
    sent: bool,
    /// When it was first seen to be under way.
    seen_at: Option<Nanos>,
    /// What the reply said, once it is here with its data.
    reply: Option<Result<(), IoError>>,
}

/// What waits to be sent, or is on its way.
struct Outgoing {
    /// The request.
    head: BufferKey,
    /// Its data, if it is a write.
    data: Option<Slice>,
    /// Which request it is, by its place.
    slot: u32,
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug)]
enum Expecting {
    /// The head of a reply, of which so many bytes are here.
    Head { here: usize },
    /// The data of the read in this place.
    Data { slot: u32, rest: Slice },
}

/// See the page of this module.
pub(super) struct Line {
    socket: Option<Handle>,
    /// Whether the connection is no more, but the driver may still be at work on it.
    closing: bool,
    receiving: bool,
    expecting: Expecting,
    input: Option<BufferKey>,
    asked: Slab<Asked>,
    cookies: u32,
    outgoing: VecDeque<Outgoing>,
    /// How many of those are on their way.
    sending: usize,
    ended: Vec<(Asked, Result<(), IoError>)>,
}

impl Asked {
    pub(super) fn new(ask: Ask, kind: u16, written_before: u64) -> Asked {
        Asked { ask, kind, written_before, cookie: 0, sent: false, seen_at: None, reply: None }
    }

    pub(super) fn key(&self) -> u32 {
        self.ask.key
    }

    pub(super) fn op(&self) -> Op {
        self.ask.op
    }

    pub(super) fn written_before(&self) -> u64 {
        self.written_before
    }
}

impl Default for Line {
    fn default() -> Line {
        Line {
            socket: None,
            closing: false,
            receiving: false,
            expecting: Expecting::Head { here: 0 },
            input: None,
            asked: Slab::default(),
            cookies: 0,
            outgoing: VecDeque::new(),
            sending: 0,
            ended: Vec::new(),
        }
    }
}

impl Line {
    pub(super) fn is_up(&self) -> bool {
        self.socket.is_some() && !self.closing
    }

    /// Whether the connection is no more, and the driver has let go of it.
    pub(super) fn is_broken(&self) -> bool {
        self.closing && !self.receiving && self.sending == 0
    }

    pub(super) fn under_way(&self) -> usize {
        self.asked.len()
    }

    /// Begins with a fresh connection.
    pub(super) fn connect(&mut self, socket: Handle, token: Token, driver: &mut Driver) {
        self.socket = Some(socket);
        self.expecting = Expecting::Head { here: 0 };
        self.receive(token, driver);
    }

    /// Whether the peer owes something that was seen to be under way so long ago.
    pub(super) fn is_overdue(&mut self, now: Nanos, patience: Nanos) -> bool {
        let mut overdue = false;
        for asked in self.asked.iter_mut() {
            overdue |= now >= *asked.seen_at.get_or_insert(now) + patience;
        }
        overdue
    }

    /// Queues a request.
    pub(super) fn ask(&mut self, mut asked: Asked, driver: &mut Driver) {
        self.cookies = self.cookies.wrapping_add(1);
        let count = u64::from(self.cookies) << 32;
        let Ask { op, offset, length, data, .. } = asked.ask;
        let kind = asked.kind;
        let slot = self.asked.insert(asked);
        // The count tells a reply to an earlier tenant of the place from one to this.
        asked.cookie = count | u64::from(slot);
        *self.asked.get_mut(slot) = asked;
        let length = u32::try_from(length).expect("a chunk is no longer than 1 GiB");
        let raw = RawRequest { flags: 0, kind, cookie: asked.cookie, offset, length };
        let head = driver.buffers.acquire(REQUEST_BYTES);
        driver.buffers.bytes_mut(Slice::data(head, 0, REQUEST_BYTES)).copy_from_slice(&raw.bytes());
        let data = data.filter(|_| op == Op::Write);
        self.outgoing.push_back(Outgoing { head, data, slot });
    }

    /// Sends what is queued, unless a send is under way.
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

    /// What was on its way is sent, or never will be.
    pub(super) fn on_sent(&mut self, whole: bool, driver: &mut Driver) {
        for Outgoing { head, slot, .. } in self.outgoing.drain(..std::mem::take(&mut self.sending))
        {
            driver.buffers.release(head);
            // A server may have replied to a read before all of it was asked.
            if whole && self.asked.find(slot).is_some() {
                self.asked.get_mut(slot).sent = true;
                end_if_over(&mut self.asked, slot, &mut self.ended);
            }
        }
        if !whole {
            self.close(driver);
        }
    }

    /// Waits for what is expected, unless that is under way.
    pub(super) fn receive(&mut self, token: Token, driver: &mut Driver) {
        let Some(socket) = self.socket.filter(|_| !self.closing && !self.receiving) else {
            return;
        };
        self.receiving = true;
        let slice = match self.expecting {
            Expecting::Head { here } => {
                let buffers = &mut driver.buffers;
                let input = *self.input.get_or_insert_with(|| buffers.acquire(SIMPLE_REPLY_BYTES));
                Slice::data(input, here, SIMPLE_REPLY_BYTES - here)
            }
            Expecting::Data { rest, .. } => rest,
        };
        driver.receive(token, socket, slice);
    }

    /// So many bytes came; none means that the connection is no more.
    pub(super) fn on_received(&mut self, bytes: usize, driver: &mut Driver) {
        self.receiving = false;
        if bytes == 0 || self.closing {
            return self.close(driver);
        }
        match self.expecting {
            Expecting::Head { here } if here + bytes < SIMPLE_REPLY_BYTES => {
                self.expecting = Expecting::Head { here: here + bytes };
            }
            Expecting::Head { .. } => {
                let input = self.input.expect("it was received into");
                let head = driver.buffers.bytes(Slice::data(input, 0, SIMPLE_REPLY_BYTES));
                let head = head.try_into().expect("a slice of that length");
                if !self.on_head(RawReply::parse(head)) {
                    self.close(driver);
                }
            }
            Expecting::Data { slot, rest } if bytes < rest.length => {
                self.expecting = Expecting::Data { slot, rest: rest.after(bytes) };
            }
            Expecting::Data { slot, .. } => {
                self.expecting = Expecting::Head { here: 0 };
                self.reply(slot, Ok(()));
            }
        }
    }

    /// What ended since the last time.
    pub(super) fn take_ended(&mut self) -> Vec<(Asked, Result<(), IoError>)> {
        std::mem::take(&mut self.ended)
    }

    /// Empties a connection that is broken, and returns what was under way on it.
    pub(super) fn clear(&mut self, driver: &mut Driver) -> Vec<Asked> {
        for outgoing in self.outgoing.drain(..) {
            driver.buffers.release(outgoing.head);
        }
        (self.socket, self.closing) = (None, false);
        let slots: Vec<u32> = self.asked.iter().map(|(slot, _)| slot).collect();
        slots.into_iter().filter_map(|slot| self.asked.remove(slot)).collect()
    }

    /// Takes the head of a reply; whether it makes sense.
    fn on_head(&mut self, head: Option<RawReply>) -> bool {
        self.expecting = Expecting::Head { here: 0 };
        let Some(RawReply { error, cookie }) = head else { return false };
        let slot = cookie as u32;
        let Some(asked) = self.asked.find(slot) else { return false };
        if asked.cookie != cookie || asked.reply.is_some() {
            return false;
        }
        match asked.ask.data {
            Some(rest) if error == 0 && asked.ask.op == Op::Read => {
                self.expecting = Expecting::Data { slot, rest };
            }
            _ => self.reply(slot, if error == 0 { Ok(()) } else { Err(IoError::Medium) }),
        }
        true
    }

    fn reply(&mut self, slot: u32, result: Result<(), IoError>) {
        self.asked.get_mut(slot).reply = Some(result);
        end_if_over(&mut self.asked, slot, &mut self.ended);
    }

    /// Gives the connection up, if it is up.
    pub(super) fn close(&mut self, driver: &mut Driver) {
        if let Some(socket) = self.socket.filter(|_| !self.closing) {
            self.closing = true;
            driver.close(socket);
        }
    }
}

/// Ends a request that is sent and replied to.
fn end_if_over(asked: &mut Slab<Asked>, slot: u32, ended: &mut Vec<(Asked, Result<(), IoError>)>) {
    let Asked { sent: true, reply: Some(result), .. } = *asked.get(slot) else { return };
    let asked = asked.remove(slot).expect("it was there");
    ended.push((asked, result));
}
