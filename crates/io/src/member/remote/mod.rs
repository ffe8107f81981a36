//! A member on another machine: an NBD export, over several connections.
//!
//! Requests go to the connection with the fewest under way. A connection that breaks ends what is
//! under way on it with [`IoError::Transport`], and so does every request while none is left: then
//! the volume's rules apply. Broken connections are made anew with back-off, outside of the loop's
//! thread (see [`peer`]).
//!
//! **What a peer forgot.** A peer may lose writes that were replied to and not flushed. If a
//! connection breaks with such writes about, the member is [`IoError::Gone`] from then on, whatever
//! answers there later, until its owner has it rebuilt: it is never read stale.
//!
//! A request is not sent again over another connection: the first may still be at work on the other
//! side, and end after a newer write.
//!
//! **Anew.** When its owner has it rebuilt, all connections are given up and it is attached to once
//! more: what answers at its address may be another server by now. No connection is used again by another
//! attachment, so that a late end of an operation belongs to nobody else.
//!
//! **Silence.** A peer whose machine is gone is noticed by TCP within [`peer::SILENCE_MAX`]. One
//! that is connected and owes a reply for longer than its patience is hung up on, on every
//! connection, as if those had broken: what hangs in it may hang on all.

pub mod client;
mod connection;
pub mod peer;
#[cfg(test)]
mod tests;
pub(crate) mod tls;

use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Event, Handle, Output, Token};
use crate::nbd_protocol::wire::{request, transmission_flag};
use client::RemoteExport;
use connection::{PeerConnection, PendingRequest};
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use peer::{Connector, NewConnection, Peer};
use rustix::io::Errno;
use std::io;

/// The owners of the tokens of remote members.
pub const TOKEN_OWNERS: [u8; 3] = [RECEIVE, SEND, WAKE];
const RECEIVE: u8 = 16;
const SEND: u8 = 17;
const WAKE: u8 = 18;

/// How many connections to a server that allows several: fewer cost throughput at depth, more
/// bring none.
pub const CONNECTIONS: usize = 4;

/// How often a peer is looked at in the time that it may owe a reply.
const LOOKS: u64 = 8;

/// A request to a remote member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRequest {
    /// Names it in its end.
    pub(crate) key: u32,
    /// What is pending.
    pub(crate) op: Op,
    /// First byte.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
    /// Where its data is, or goes.
    pub(crate) data: Option<Slice>,
}

/// The end of a request to a remote member: the key it came with, and how it went.
pub(crate) type RemoteReply = (u32, Result<(), IoError>);

/// See the page of this module.
pub struct Remote {
    member: MemberIndex,
    attached: RemoteExport,
    /// Of this attachment, behind those of earlier ones, which are over or soon will be.
    connections: Vec<PeerConnection>,
    /// The first connection of this attachment.
    first: usize,
    /// Who makes connections anew, and how it is heard; `None` while nobody is attached to.
    connector: Option<(Connector, Handle)>,
    /// For the bytes that wake us, which say nothing, so that attachments may share it.
    wake_buffer: BufferKey,
    /// Writes that were replied to.
    written: u64,
    /// How many of those are durable.
    flushed: u64,
    /// Whether the peer may have forgotten some.
    forgot: bool,
    /// How long the peer may owe a reply.
    patience: Nanos,
    /// When it is next pending whether it owes one for too long.
    next_look: Nanos,
}

impl Remote {
    /// Takes a peer's connection over, and sets out to make the others.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn new(member: MemberIndex, peer: Peer, driver: &mut Driver) -> io::Result<Remote> {
        let wake_buffer = driver.buffers.acquire(1);
        let mut remote = Remote {
            member,
            attached: peer.attached,
            connections: Vec::new(),
            first: 0,
            connector: None,
            wake_buffer,
            written: 0,
            flushed: 0,
            forgot: false,
            patience: peer.patience,
            next_look: Nanos::ZERO,
        };
        remote.attach(peer, driver)?;
        Ok(remote)
    }

    /// Begins with a peer that was attached to, after [`Remote::detach`]: nothing is known of what
    /// it holds.
    ///
    /// # Errors
    /// If the system has no socket to spare.
    pub fn attach(&mut self, peer: Peer, driver: &mut Driver) -> io::Result<()> {
        let Peer { uri, socket, attached, patience } = peer;
        let (connector, ears) = Connector::new(uri, attached.size_bytes)?;
        let (handle, wake) = (driver.adopt(socket)?, driver.adopt(ears)?);
        let count = match attached.can(transmission_flag::CAN_MULTI_CONN) {
            true => CONNECTIONS,
            false => 1,
        };
        self.first = self.connections.len();
        self.connections.extend((0..count).map(|_| PeerConnection::default()));
        let token = self.token(RECEIVE, self.first);
        self.connections[self.first].connect(handle, token, driver);
        for connection in self.first + 1..self.connections.len() {
            connector.connect(connection as u32);
        }
        (self.attached, self.patience, self.forgot) = (attached, patience, false);
        (self.written, self.flushed) = (0, 0);
        self.connector = Some((connector, wake));
        self.listen(driver);
        Ok(())
    }

    /// Gives every connection up, and makes no more.
    pub fn detach(&mut self, driver: &mut Driver) {
        self.connections.iter_mut().for_each(|connection| connection.close(driver));
        self.first = self.connections.len();
        if let Some((_, wake)) = self.connector.take() {
            driver.close(wake);
        }
    }

    /// How many connections are up.
    pub fn connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.is_up()).count()
    }

    /// Whether the peer may have forgotten writes: whatever it is pending fails from then on.
    pub(crate) fn is_lost(&self) -> bool {
        self.forgot
    }

    /// Starts a request. What ends at once is appended to `ended`.
    pub(crate) fn start(
        &mut self,
        request: RemoteRequest,
        driver: &mut Driver,
        ended: &mut Vec<RemoteReply>,
    ) {
        if self.forgot {
            return ended.push((request.key, Err(IoError::Gone)));
        }
        let (kind, needs) = match request.op {
            Op::Read => (request::READ, 0),
            Op::Write => (request::WRITE, 0),
            Op::Flush => (request::FLUSH, transmission_flag::SEND_FLUSH),
            Op::Discard => (request::TRIM, transmission_flag::SEND_TRIM),
        };
        // A server that takes no flush keeps nothing back, and one that takes no trim loses nothing
        // by not hearing of it.
        if !self.attached.can(needs) {
            return ended.push((request.key, Ok(())));
        }
        let up = self.connections.iter_mut().filter(|connection| connection.is_up());
        match up.min_by_key(|connection| connection.under_way()) {
            Some(connection) => {
                connection.request(PendingRequest::new(request, kind, self.written), driver)
            }
            None => ended.push((request.key, Err(IoError::Transport))),
        }
    }

    /// Sends what was started since the last time.
    pub(crate) fn flush(&mut self, driver: &mut Driver) {
        for index in 0..self.connections.len() {
            let token = self.token(SEND, index);
            self.connections[index].send(token, driver);
        }
    }

    /// Hangs up on a peer that owes a reply for too long. To be called before each wait; returns
    /// how long that may be, if something is owed.
    pub(crate) fn watch(&mut self, now: Nanos, driver: &mut Driver) -> Option<Nanos> {
        if self.connections.iter().all(|connection| connection.under_way() == 0) {
            return None;
        }
        if now >= self.next_look {
            // A request is seen first at the look after it was made, so it may owe one step more.
            let step = Nanos(self.patience.0 / LOOKS);
            self.next_look = now + step;
            let patience = self.patience;
            let overdue =
                self.connections.iter_mut().map(|connection| connection.is_overdue(now, patience));
            if overdue.fold(false, |any, one| any | one) {
                self.connections.iter_mut().for_each(|connection| connection.close(driver));
            }
        }
        Some(self.next_look.saturating_sub(now))
    }

    /// The end of an operation of the driver whose token has one of [`TOKEN_OWNERS`] and belongs to
    /// this member. The requests that end with it are appended to `ended`.
    pub(crate) fn on_event(
        &mut self,
        done: &Event,
        driver: &mut Driver,
        ended: &mut Vec<RemoteReply>,
    ) {
        let index = done.token.key() as usize & 0xffff;
        match (done.token.owner(), done.result) {
            (WAKE, result) => return self.on_wake(index, received(result), driver),
            (RECEIVE, result) => self.connections[index].on_received(received(result), driver),
            (SEND, result) => self.connections[index].on_sent(result.is_ok(), driver),
            (owner, _) => unreachable!("no operation is started for owner {owner}"),
        }
        for (pending, result) in self.connections[index].take_ended() {
            self.note(&pending, result);
            ended.push((pending.key(), result));
        }
        let token = self.token(RECEIVE, index);
        let connection = &mut self.connections[index];
        connection.receive(token, driver);
        if connection.is_broken() {
            self.on_broken(index, driver, ended);
        }
    }

    /// Keeps the books of what is durable.
    fn note(&mut self, pending: &PendingRequest, result: Result<(), IoError>) {
        match (pending.op(), result) {
            (Op::Write | Op::Discard, Ok(())) => self.written += 1,
            (Op::Flush, Ok(())) => self.flushed = self.flushed.max(pending.written_before()),
            _ => {}
        }
    }

    /// Nothing of a broken connection is in flight any more: what was under way on it has failed.
    fn on_broken(&mut self, index: usize, driver: &mut Driver, ended: &mut Vec<RemoteReply>) {
        if index < self.first {
            // Nothing was under way on it when it was given up.
            self.connections[index].clear(driver);
            return self.connections[index].free(driver);
        }
        self.forgot |= self.flushed < self.written;
        let error = if self.forgot { IoError::Gone } else { IoError::Transport };
        for pending in self.connections[index].clear(driver) {
            ended.push((pending.key(), Err(error)));
        }
        if let Some((connector, _)) = &self.connector {
            connector.connect(index as u32);
        }
    }

    /// The connector of the attachment that begins with this connection woke us.
    fn on_wake(&mut self, first: usize, bytes: usize, driver: &mut Driver) {
        if first == self.first && bytes > 0 {
            self.on_connected(driver);
            self.listen(driver);
        }
    }

    fn on_connected(&mut self, driver: &mut Driver) {
        let Some((connector, _)) = &self.connector else { return };
        while let Some(NewConnection { connection, socket }) = connector.poll() {
            let index = connection as usize;
            match driver.adopt(socket) {
                Ok(handle) => {
                    let token = token(self.member, RECEIVE, index);
                    self.connections[index].connect(handle, token, driver);
                }
                Err(_) => connector.connect(connection),
            }
        }
    }

    fn listen(&mut self, driver: &mut Driver) {
        let Some((_, wake)) = self.connector else { return };
        driver.receive(self.token(WAKE, self.first), wake, Slice::data(self.wake_buffer, 0, 1));
    }

    fn token(&self, owner: u8, connection: usize) -> Token {
        token(self.member, owner, connection)
    }
}

fn token(member: MemberIndex, owner: u8, connection: usize) -> Token {
    let connection = u16::try_from(connection).expect("nobody attaches ten thousand times");
    Token::new(owner, u32::from(member.0) << 16 | u32::from(connection))
}

/// Which member a token of [`TOKEN_OWNERS`] belongs to.
pub(crate) fn member_of(token: Token) -> MemberIndex {
    MemberIndex((token.key() >> 16) as u16)
}

/// The bytes that came; none if the connection is no more.
fn received(result: Result<Output, Errno>) -> usize {
    match result {
        Ok(Output::Bytes(bytes)) => bytes,
        Ok(Output::Connection(_)) | Err(_) => 0,
    }
}
