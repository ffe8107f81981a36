//! Remote member: an NBD export of another machine, over several connections.
//!
//! A request goes to the connection with the fewest requests in flight. When a connection breaks,
//! its requests end with [`IoError::Transport`]; so does every request while no connection is up.
//! The volume then retries or fails the member. Broken connections are opened again with backoff
//! ([`peer`]).
//!
//! **Lost writes.** A server may lose writes that it replied to and has not flushed. If a
//! connection breaks while there are any, the member is [`IoError::Gone`] until it is rebuilt, even
//! if the server answers again: stale data is never read.
//!
//! A request is not repeated on another connection: the server may still be executing the first
//! one, and could complete it after a newer write.
//!
//! **Attaching again.** Before a rebuild every connection is closed and the export is attached to
//! again: the server at its address may be another one. The number of a connection is reused only
//! when no operation of it is left, so that an event of an old connection cannot be mistaken for
//! one of a new connection.
//!
//! **Discards** are sent as write-zeroes, where the server has that: the range then reads as zeroes
//! on every mirror, which a trim does not promise.
//!
//! **Late writes.** A server that hung may carry out writes of a closed connection after the member
//! was rebuilt. NBD has no request that fences them; the documentation asks to restart the server.
//!
//! **Timeouts.** TCP notices a machine that is gone within [`peer::SILENCE_MAX`]. If a connected
//! server owes a reply for longer than the timeout, all connections are closed, as if they had
//! broken.

mod connection;
pub mod lock;
pub mod peer;
#[cfg(test)]
mod tests;

use crate::driver::buffers::Slice;
use crate::driver::{Driver, Event, EventOwner, Output, Token};
use connection::{EndedRequest, PeerConnection};
use lock::PeerLock;
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use mirrorball_nbd::client::RemoteExport;
use mirrorball_nbd::wire::{request, transmission_flag};
use peer::{Backoff, Connector, NewConnection, Peer};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;

/// Number of connections to a server that allows several. Fewer reduce throughput at high queue
/// depths; more do not increase it.
pub const CONNECTIONS: usize = 4;

/// Number of times per timeout that pending requests are checked.
const CHECKS_PER_TIMEOUT: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRequest {
    /// Returned with the reply.
    pub(crate) key: u32,
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The memory of a read or write.
    pub(crate) data: Option<Slice>,
}

/// The reply to a request: its key, and its result.
pub(crate) type RemoteReply = (u32, Result<(), IoError>);

/// A connection that is down, and when to open it again.
#[derive(Clone, Copy, Debug)]
struct Reconnect {
    index: usize,
    at: Nanos,
    backoff: Backoff,
}

/// Number of writes that a server replied to, and of those that are durable.
#[derive(Clone, Copy, Debug, Default)]
struct WriteCounts {
    replied: u64,
    durable: u64,
}

impl WriteCounts {
    fn count(&mut self, (ended, result): &EndedRequest) {
        match (ended.request.op, result) {
            (Op::Write | Op::Discard, Ok(())) => self.replied += 1,
            (Op::Flush, Ok(())) => self.durable = self.durable.max(ended.written_before),
            _ => {}
        }
    }
}

/// A member that is an NBD export of another machine.
pub struct Remote {
    member: MemberIndex,
    export: RemoteExport,
    /// Connections of this attachment, and old ones.
    connections: Vec<PeerConnection>,
    /// Opens connections; `None` while detached.
    connector: Option<Connector>,
    reconnects: Vec<Reconnect>,
    writes: WriteCounts,
    /// True if the server may have lost writes.
    is_lost: bool,
    /// How long the server may owe a reply.
    timeout: Nanos,
    /// Keeps other services of this machine from the export.
    _lock: Option<PeerLock>,
    /// When pending requests are checked next.
    next_check: Nanos,
}

impl Remote {
    /// Uses the connection of a peer, and starts to open the others.
    pub fn new(member: MemberIndex, peer: Peer, driver: &mut Driver) -> io::Result<Remote> {
        let mut remote = Remote {
            member,
            export: peer.export,
            connections: Vec::new(),
            connector: None,
            reconnects: Vec::new(),
            writes: WriteCounts::default(),
            is_lost: false,
            timeout: peer.timeout,
            _lock: None,
            next_check: Nanos::ZERO,
        };
        remote.attach(peer, driver)?;
        Ok(remote)
    }

    /// Uses the connection of another peer after [`Remote::detach`]. The contents of its export are
    /// unknown.
    pub fn attach(&mut self, peer: Peer, driver: &mut Driver) -> io::Result<()> {
        let Peer { connect, socket, export, timeout, lock } = peer;
        self._lock = lock;
        let token = self.token(EventOwner::RemoteConnect, self.connections.len());
        let connector = Connector::new(token, connect, export.size_bytes, driver)?;
        let handle = driver.adopt_endpoint(socket)?;
        let count = match export.can(transmission_flag::CAN_MULTI_CONN) {
            true => CONNECTIONS,
            false => 1,
        };
        let indices = self.places(count);
        let first = indices[0];
        let token = self.token(EventOwner::RemoteReceive, first);
        self.connections[first].connect(handle, token, driver);
        (self.export, self.timeout, self.is_lost) = (export, timeout, false);
        self.writes = WriteCounts::default();
        self.connector = Some(connector);
        for &index in &indices[1..] {
            self.connect(index, Backoff::default(), driver.now());
        }
        Ok(())
    }

    /// Finds places for the connections of an attachment: those of old connections that are over,
    /// then new ones.
    fn places(&mut self, count: usize) -> Vec<usize> {
        let is_free = |index: &usize| self.connections[*index].is_free();
        let mut places: Vec<usize> =
            (0..self.connections.len()).filter(is_free).take(count).collect();
        while places.len() < count {
            places.push(self.connections.len());
            self.connections.push(PeerConnection::default());
        }
        for &index in &places {
            self.connections[index].set_attached(true);
        }
        places
    }

    /// True if a discarded range reads as zeroes.
    pub(crate) fn discards_zero(&self) -> bool {
        self.export.can(transmission_flag::SEND_WRITE_ZEROES)
    }

    /// Closes every connection once its requests have ended, and opens no more.
    pub fn detach(&mut self, driver: &mut Driver) {
        for connection in &mut self.connections {
            connection.set_attached(false);
            connection.close_if_unused(driver);
            // One that was down has no operation that would end.
            connection.free_if_down(driver);
        }
        self.reconnects.clear();
        if let Some(connector) = self.connector.take() {
            connector.close(driver);
        }
    }

    pub fn connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.is_up()).count()
    }

    /// True if the server may have lost writes. Every request fails from then on.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Starts a request. Requests that end at once are appended to `replies`.
    pub(crate) fn start(
        &mut self,
        request: RemoteRequest,
        driver: &mut Driver,
        replies: &mut VecDeque<RemoteReply>,
    ) {
        if self.is_lost {
            return replies.push_back((request.key, Err(IoError::Gone)));
        }
        let (kind, needs) = match request.op {
            Op::Read => (request::READ, 0),
            Op::Write => (request::WRITE, 0),
            Op::Flush => (request::FLUSH, transmission_flag::SEND_FLUSH),
            Op::Discard if self.discards_zero() => (request::WRITE_ZEROES, 0),
            Op::Discard => (request::TRIM, transmission_flag::SEND_TRIM),
        };
        // A server without flush has no volatile cache, and a trim is only a hint.
        if !self.export.can(needs) {
            return replies.push_back((request.key, Ok(())));
        }
        let can_take = |it: &&mut PeerConnection| it.is_up() && it.is_attached();
        match self
            .connections
            .iter_mut()
            .filter(can_take)
            .min_by_key(|connection| connection.in_flight())
        {
            Some(connection) => {
                connection.queue(request, kind, self.writes.replied, driver);
            }
            None => replies.push_back((request.key, Err(IoError::Transport))),
        }
    }

    /// Sends the requests that were started since the last call.
    pub(crate) fn flush(&mut self, driver: &mut Driver) {
        for index in 0..self.connections.len() {
            let token = self.token(EventOwner::RemoteSend, index);
            self.connections[index].send(token, driver);
        }
    }

    /// Opens connections whose backoff is over, and closes all if the server owes a reply for too
    /// long. To be called before each wait; returns how long that may take.
    pub(crate) fn on_time(&mut self, now: Nanos, driver: &mut Driver) -> Option<Nanos> {
        if self.reconnects.iter().any(|reconnect| reconnect.at <= now) {
            for reconnect in std::mem::take(&mut self.reconnects) {
                match reconnect.at <= now {
                    true => self.connect(reconnect.index, reconnect.backoff, now),
                    false => self.reconnects.push(reconnect),
                }
            }
        }
        let reconnect = self.reconnects.iter().map(|reconnect| reconnect.at - now).min();
        let check = self.check_pending(now, driver);
        reconnect.into_iter().chain(check).min()
    }

    fn check_pending(&mut self, now: Nanos, driver: &mut Driver) -> Option<Nanos> {
        if self.connections.iter().all(|connection| connection.in_flight() == 0) {
            return None;
        }
        if now >= self.next_check {
            // A request is first seen by the check after its start, so it may take one step more.
            self.next_check = now + Nanos(self.timeout.0 / CHECKS_PER_TIMEOUT);
            let mut has_overdue = false;
            for connection in &mut self.connections {
                has_overdue |= connection.check_overdue(now, self.timeout);
            }
            if has_overdue {
                self.connections.iter_mut().for_each(|connection| connection.close(driver));
            }
        }
        Some(self.next_check.saturating_sub(now))
    }

    /// Handles an event of this member. Replies to requests are appended to `replies`.
    pub(crate) fn on_event(
        &mut self,
        event: &Event,
        driver: &mut Driver,
        replies: &mut VecDeque<RemoteReply>,
    ) {
        let index = event.token.key() as usize & 0xffff;
        let connection = &mut self.connections;
        match event.token.owner() {
            EventOwner::RemoteReceive => {
                connection[index].on_received(received(event.result), driver);
            }
            EventOwner::RemoteSend => connection[index].on_sent(event.result.is_ok(), driver),
            _ => return self.on_connect_results(driver),
        }
        let writes = &mut self.writes;
        let is_attached = self.connections[index].is_attached();
        for ended in self.connections[index].take_ended() {
            if is_attached {
                writes.count(&ended);
            }
            replies.push_back((ended.0.request.key, ended.1));
        }
        let token = self.token(EventOwner::RemoteReceive, index);
        let connection = &mut self.connections[index];
        connection.receive(token, driver);
        if !is_attached {
            connection.close_if_unused(driver);
        }
        if connection.is_broken() {
            self.on_broken(index, driver, replies);
        }
    }

    /// Fails the requests of a broken connection, once no operation of it is in flight.
    fn on_broken(
        &mut self,
        index: usize,
        driver: &mut Driver,
        replies: &mut VecDeque<RemoteReply>,
    ) {
        if !self.connections[index].is_attached() {
            for pending in self.connections[index].clear(driver) {
                replies.push_back((pending.request.key, Err(IoError::Gone)));
            }
            return self.connections[index].free_if_down(driver);
        }
        self.is_lost |= self.writes.durable < self.writes.replied;
        let error = if self.is_lost { IoError::Gone } else { IoError::Transport };
        for pending in self.connections[index].clear(driver) {
            replies.push_back((pending.request.key, Err(error)));
        }
        self.connect(index, Backoff::default(), driver.now());
    }

    /// Starts to open a connection.
    fn connect(&mut self, index: usize, backoff: Backoff, now: Nanos) {
        let Some(connector) = &mut self.connector else { return };
        if !connector.connect(index as u32, backoff) {
            self.connect_later(index, backoff, now);
        }
    }

    fn connect_later(&mut self, index: usize, mut backoff: Backoff, now: Nanos) {
        let at = now + backoff.next();
        self.reconnects.push(Reconnect { index, at, backoff });
    }

    fn on_connect_results(&mut self, driver: &mut Driver) {
        while let Some(result) = self.connector.as_ref().and_then(Connector::poll) {
            let NewConnection { index, backoff, socket } = result;
            let index = index as usize;
            match socket.and_then(|socket| driver.adopt_endpoint(socket).ok()) {
                Some(handle) => {
                    let token = self.token(EventOwner::RemoteReceive, index);
                    self.connections[index].connect(handle, token, driver);
                }
                None => self.connect_later(index, backoff, driver.now()),
            }
        }
    }

    fn token(&self, owner: EventOwner, index: usize) -> Token {
        let index = u16::try_from(index).expect("few connections are open at once");
        Token::new(owner, u32::from(self.member.0) << 16 | u32::from(index))
    }
}

pub(crate) fn member_of(token: Token) -> MemberIndex {
    MemberIndex((token.key() >> 16) as u16)
}

/// Number of bytes received; zero if the connection broke.
fn received(result: Result<Output, Errno>) -> usize {
    match result {
        Ok(Output::Bytes(bytes)) => bytes,
        Ok(Output::Connection(_) | Output::Woken | Output::HungUp) | Err(_) => 0,
    }
}
