//! The server: messages and requests of its clients, and their replies.
//!
//! It runs in the executor's thread. All replies of one pass of the service loop are sent together.
//!
//! Clients are isolated from each other: each has its own buffers and a limit of requests and bytes
//! in flight, all together have a memory budget (`memory_budget.rs`), and a protocol error closes
//! only the connection it arrived on. An idle client costs a descriptor and 16 KiB.
//!
//! The methods of [`Server`] for messages and requests are here. Those by which connections begin
//! and end are in `lifecycle.rs`, those for clients that wait in `waiting.rs`, and those of block
//! status in `block_status.rs`. The others use this file, and it uses none of them.

use super::acceptor::AcceptedConnections;
use super::connection::{
    ClientRequestKey, Connection, ConnectionKey, Expecting, FoundExtents, Hangup, LARGE_BYTES,
    Phase, REPLY_BYTES, ServedRequest, memory_bytes,
};
pub use super::memory_budget::MemoryMax;
use super::memory_budget::{MemoryBudget, Reservation};
use crate::accept_backoff::AcceptBackoff;
use crate::blocking_worker::BlockingWorker;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Event, EventOwner, Handle, Output, Token};
use crate::executor::{Executor, IoReply, IoRequest};
use crate::export::Export;
use crate::export::chunked_ops::zeroes;
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_nbd::server::{Action, ExportRequest, Received, ReplyHead};
use mirrorball_nbd::wire::WireError;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;

/// Stream number of the first connection; far from zero, so that it is not mistaken for an index.
const FIRST_STREAM: u64 = 1000;

/// Limit of open connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionsMax(pub usize);

/// An NBD server; see the module documentation.
pub struct Server {
    pub(super) exports: Vec<Export>,
    pub(super) listeners: Vec<Listener>,
    pub(super) external_connections: Option<ExternalConnections>,
    pub(super) connections: Slab<ConnectionKey, Connection>,
    pub(super) connections_max: usize,
    pub(super) memory: MemoryBudget,
    pub(super) waiting: WaitingClients,
    pub(super) requests: Slab<ClientRequestKey, ServedRequest>,
    /// Finds extents for block status; started by the first such request.
    pub(super) status_worker: Option<BlockingWorker<FoundExtents>>,
    pub(super) zeroes: BufferKey,
    /// Connections with replies to send, where no send is in flight.
    pub(super) dirty: Vec<ConnectionKey>,
    /// Connections to remove at the end of this pass.
    pub(super) over: Vec<ConnectionKey>,
    pub(super) next_stream: u64,
    /// Number of events of clients so far.
    events: u64,
    /// Delays the next `accept()` after a failed one.
    pub(super) backoff: AcceptBackoff,
    pub(super) stopping: bool,
}

/// The queue of connections that another thread accepted: those of the TLS acceptor.
pub(super) struct ExternalConnections {
    pub(super) receiver: Receiver<(UnixStream, IpAddr)>,
    pub(super) waker: Handle,
}

/// The queues of a server's clients.
#[derive(Default)]
pub(super) struct WaitingClients {
    /// Clients that wait for memory of the large pool.
    pub(super) large: VecDeque<ConnectionKey>,
    /// Clients that wait for memory of the small pool.
    pub(super) small: VecDeque<ConnectionKey>,
    /// Time of the next check for progress, while a client waits for memory.
    pub(super) next_check: Option<Nanos>,
    /// Clients with long requests that wait for their next step, the next first.
    pub(super) long: VecDeque<ConnectionKey>,
    pub(super) steps: usize,
    /// Deadlines of handshakes, with the streams of their connections.
    pub(super) handshakes: VecDeque<(Nanos, ConnectionKey, u64)>,
}

pub(super) struct Listener {
    pub(super) socket: Handle,
    /// True while an `accept()` is in flight.
    pub(super) accepting: bool,
}

impl Server {
    /// Creates a server of these exports at `listeners`. Panics if there is no export.
    pub fn new(
        exports: Vec<Export>,
        listeners: Vec<Handle>,
        connections_max: ConnectionsMax,
        executor: &mut Executor,
    ) -> Server {
        assert!(!exports.is_empty(), "a server has an export");
        let listeners = listeners.into_iter();
        let mut server = Server {
            exports,
            listeners: listeners.map(|socket| Listener { socket, accepting: false }).collect(),
            external_connections: None,
            connections: Slab::default(),
            connections_max: connections_max.0,
            memory: MemoryBudget::new(MemoryMax::default(), LARGE_BYTES),
            waiting: WaitingClients::default(),
            requests: Slab::default(),
            status_worker: None,
            zeroes: zeroes(&mut executor.driver),
            dirty: Vec::new(),
            over: Vec::new(),
            next_stream: FIRST_STREAM,
            events: FIRST_STREAM,
            backoff: AcceptBackoff::default(),
            stopping: false,
        };
        server.accept(executor);
        server
    }

    /// Limits the memory of requests and replies; to be called before the first client connects.
    pub fn with_memory(self, memory_max: MemoryMax) -> Server {
        Server { memory: MemoryBudget::new(memory_max, LARGE_BYTES), ..self }
    }

    /// Also serves connections that an acceptor hands over.
    pub fn with_accepted(
        mut self,
        accepted: AcceptedConnections,
        executor: &mut Executor,
    ) -> io::Result<Server> {
        let AcceptedConnections { receiver, waker } = accepted;
        let waker = executor.driver.add_waker(Token::new(EventOwner::NbdExternal, 0), &waker)?;
        self.external_connections = Some(ExternalConnections { receiver, waker });
        Ok(self)
    }

    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    pub fn on_event(&mut self, done: Event, executor: &mut Executor) {
        let slot = done.token.key();
        match (done.token.owner(), done.result) {
            (EventOwner::NbdAccept, Ok(Output::Connection(socket))) => {
                self.listeners[slot as usize].accepting = false;
                self.on_connection(socket, executor.driver.peer_place(socket), executor);
                self.accept(executor);
            }
            (EventOwner::NbdAccept, _) => {
                // The process is probably out of descriptors.
                self.listeners[slot as usize].accepting = false;
                self.backoff.start(executor.driver.now());
            }
            (EventOwner::NbdExternal, _) => self.on_external_connections(executor),
            (EventOwner::NbdBlockStatus, _) => self.on_block_status(executor),
            (EventOwner::NbdReceive, result) => {
                let key = ConnectionKey::from_slot(slot);
                let connection = self.note_event(key);
                connection.receiving = false;
                match result {
                    Ok(Output::Bytes(bytes)) if bytes > 0 => self.on_received(key, bytes, executor),
                    // The client has shut down its sending side, and may wait for replies.
                    Ok(_) if !connection.is_negotiating() && !connection.is_closed() => {
                        self.drain(key, executor);
                    }
                    _ => self.close(key, executor),
                }
            }
            (EventOwner::NbdSend, result) => {
                let key = ConnectionKey::from_slot(slot);
                self.note_event(key);
                let connection = self.connections.get_mut(key);
                connection.on_sent(&mut executor.driver, &mut self.memory);
                if connection.is_closed() {
                    // The rest of a reply that was being sent.
                    connection.drop_queue(&mut executor.driver, &mut self.memory);
                }
                match result {
                    Ok(_) => self.go_on(key, executor),
                    Err(_) => self.close(key, executor),
                }
            }
            (EventOwner::NbdHangup, result) => {
                let key = ConnectionKey::from_slot(slot);
                let connection = self.connections.get_mut(key);
                let has_left = !matches!(result, Ok(Output::Bytes(_)));
                connection.hangup = if has_left { Hangup::Unwatched } else { Hangup::HalfClosed };
                if has_left {
                    self.close(key, executor);
                }
            }
            (owner, _) => unreachable!("not an event of the server: {owner:?}"),
        }
    }

    /// Counts an event of a client.
    fn note_event(&mut self, key: ConnectionKey) -> &mut Connection {
        self.events += 1;
        let connection = self.connections.get_mut(key);
        connection.active_at = self.events;
        connection
    }

    /// Sends the replies of this pass. Called once at its end.
    pub fn flush(&mut self, executor: &mut Executor) {
        self.serve_queues(executor);
        while let Some(key) = self.dirty.pop() {
            let token = Token::new(EventOwner::NbdSend, key.slot());
            self.connections.get_mut(key).send(token, &mut executor.driver);
        }
        if self.over.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.over) {
            let connection = self.connections.remove(key).expect("a connection is removed once");
            connection.input.free(&mut executor.driver, &mut self.memory);
        }
        // A connection below the limit may be accepted now.
        self.accept(executor);
    }

    /// Does what is due: closes connections that take too long, and accepts again after a failure.
    /// Returns how long until something is due.
    pub fn on_time(&mut self, executor: &mut Executor) -> Option<Nanos> {
        let handshakes = self.check_handshakes(executor);
        let stalled = self.check_stalled(executor);
        let listeners = self.listen_again(executor);
        [handshakes, stalled, listeners].into_iter().flatten().min()
    }

    /// True when the last connection is closed.
    pub fn is_over(&self) -> bool {
        self.connections.is_empty()
    }

    fn on_received(&mut self, key: ConnectionKey, bytes: usize, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        connection.transfers += 1;
        match &mut connection.expecting {
            Expecting::Data { request, slice } => {
                *slice = slice.after(bytes);
                if slice.length == 0 {
                    let request = *request;
                    connection.expecting = Expecting::Header;
                    self.submit(request, executor);
                }
            }
            Expecting::Header | Expecting::Discard { .. } => connection.input.on_received(bytes),
        }
        self.go_on(key, executor);
    }

    /// Parses the received bytes as far as possible, and receives more.
    pub(super) fn go_on(&mut self, key: ConnectionKey, executor: &mut Executor) {
        while self.take_message(key, executor) {}
        let connection = self.connections.get_mut(key);
        if connection.can_send() {
            self.dirty.push(key);
        }
        let driver = &mut executor.driver;
        let hangup = Token::new(EventOwner::NbdHangup, key.slot());
        match connection.phase {
            Phase::Open if connection.protocol.is_negotiating() && connection.has_outgoing() => {}
            Phase::Open if connection.is_full() || connection.waits_for_memory => {
                connection.watch_hangup(hangup, driver);
            }
            Phase::Open => {
                let token = Token::new(EventOwner::NbdReceive, key.slot());
                connection.receive(token, driver, &mut self.memory);
            }
            Phase::Draining if connection.is_answered() => self.close(key, executor),
            Phase::Draining => connection.watch_hangup(hangup, driver),
            Phase::Closed => {
                // These are data of a write that will not be carried out.
                self.drop_unfinished(key, executor);
                self.remove_if_closed(key);
            }
        }
    }

    /// Parses and handles one message; returns true if there may be another.
    fn take_message(&mut self, key: ConnectionKey, executor: &mut Executor) -> bool {
        let connection = self.connections.get_mut(key);
        let unread_bytes = connection.input.unread_bytes();
        // A receive in flight may be writing to the input buffer.
        if connection.receiving || unread_bytes == 0 {
            return false;
        }
        if let Expecting::Discard { bytes } = connection.expecting {
            let taken = bytes.min(unread_bytes);
            connection.input.take(taken);
            connection.expecting = Expecting::discard(bytes - taken);
            return true;
        }
        // Replies to options are received by the client before more are parsed.
        let must_wait = match connection.protocol.is_negotiating() {
            true => connection.has_outgoing(),
            false => connection.is_full(),
        };
        if must_wait || connection.phase != Phase::Open {
            return false;
        }
        let input = connection.input.unread(&executor.driver);
        let (taken, received) = connection.protocol.receive(input, &self.exports);
        let memory_bytes = match &received {
            Received::Incomplete => return false,
            Received::Request(request, _) => memory_bytes(request),
            Received::Rejected { .. } => REPLY_BYTES,
            Received::Options { .. } | Received::Disconnect | Received::ProtocolError => 0,
        };
        let reservation = match memory_bytes {
            0 => Reservation::NONE,
            bytes => match self.reserve(key, bytes) {
                Some(reservation) => reservation,
                None => return false,
            },
        };
        self.connections.get_mut(key).input.take(taken);
        self.on_message(key, received, reservation, executor);
        true
    }

    fn on_message(
        &mut self,
        key: ConnectionKey,
        message: Received,
        reservation: Reservation,
        executor: &mut Executor,
    ) {
        let connection = self.connections.get_mut(key);
        let driver = &mut executor.driver;
        match message {
            Received::Request(request, export) => {
                self.begin(key, request, export, reservation, executor);
            }
            Received::Rejected { reply, data_bytes } => {
                connection.expecting = Expecting::discard(data_bytes);
                connection.queue_copy(reply.bytes(), reservation, driver);
            }
            Received::Options { replies, is_last } => {
                if !replies.is_empty() {
                    connection.queue_copy(&replies, reservation, driver);
                }
                if is_last {
                    connection.phase = Phase::Draining;
                }
            }
            Received::Disconnect => self.drain(key, executor),
            Received::ProtocolError => self.close(key, executor),
            Received::Incomplete => {}
        }
    }

    /// Keeps a request, and submits it once its data are there.
    fn begin(
        &mut self,
        key: ConnectionKey,
        request: ExportRequest,
        export: usize,
        reservation: Reservation,
        executor: &mut Executor,
    ) {
        if request.action == Action::BlockStatus {
            return self.begin_status(key, request, export, reservation, executor);
        }
        let connection = self.connections.get_mut(key);
        let driver = &mut executor.driver;
        let length = request.length as usize;
        let buffer = request.has_data().then(|| driver.acquire(length));
        connection.in_flight += 1;
        let (done, flushing) = (0, false);
        let served =
            ServedRequest { connection: key, request, export, buffer, reservation, done, flushing };
        let is_long = served.is_long();
        let pending = self.requests.insert(served);
        if let (Action::Write, Some(buffer)) = (request.action, buffer) {
            let here = connection.input.unread_bytes().min(length);
            let data = Slice::data(buffer, 0, length);
            connection.input.take_into(Slice { length: here, ..data }, driver);
            if here < length {
                let slice = data.after(here);
                connection.expecting = Expecting::Data { request: pending, slice };
                return;
            }
        }
        match is_long {
            true => self.begin_long(pending, executor),
            false => self.submit(pending, executor),
        }
    }

    /// Submits the next I/O request of a request to the executor.
    pub(super) fn submit(&mut self, key: ClientRequestKey, executor: &mut Executor) {
        let served = self.requests.get(key);
        let target = self.exports[served.export].target;
        let offset = served.request.offset + served.done;
        let next = (offset, served.step(target), served.buffer);
        let (kind, (offset, length, buffer)) = match served.request.action {
            _ if served.flushing => (RequestKind::Flush, (0, 0, None)),
            Action::Read => (RequestKind::Read, next),
            Action::Write => (RequestKind::Write, next),
            Action::Trim => (RequestKind::Discard, next),
            Action::Flush => (RequestKind::Flush, (0, 0, None)),
            Action::WriteZeroes => (RequestKind::Write, (next.0, next.1, Some(self.zeroes))),
            Action::BlockStatus => unreachable!("block status is not an I/O request"),
        };
        executor.submit(IoRequest {
            token: Token::new(EventOwner::NbdRequest, key.slot()),
            target,
            kind,
            offset,
            length,
            buffer,
            stream: self.connections.get(served.connection).stream,
        });
    }

    /// Handles the end of an I/O request of the server.
    pub fn on_reply(&mut self, ended: IoReply, executor: &mut Executor) {
        let key = ClientRequestKey::from_slot(ended.token.key());
        let served = self.requests.get_mut(key);
        let mut has_more =
            ended.result.is_ok() && served.advance(self.exports[served.export].target);
        if served.is_long() {
            // The request of a client that has left ends after its step.
            has_more &= !self.connections.get(served.connection).is_closed();
            self.end_step(key, has_more, executor);
        } else if has_more {
            self.submit(key, executor);
        }
        if has_more {
            return;
        }
        let result = ended.result.map_err(|error| match error {
            VolumeError::OutOfRange => WireError::Invalid,
            VolumeError::ReadOnly => WireError::NotPermitted,
            VolumeError::Unwritable if executor.has_no_space() => WireError::NoSpace,
            _ => WireError::Io,
        });
        let head = ReplyHead::new(&self.requests.get(key).request, result);
        self.end_request(key, head.bytes(), head.data_bytes(), executor);
    }

    /// Replies to a request, and removes it.
    pub(super) fn end_request(
        &mut self,
        key: ClientRequestKey,
        head: &[u8],
        data_bytes: usize,
        executor: &mut Executor,
    ) {
        let served = self.requests.remove(key).expect("a request ends once");
        let ServedRequest { connection: key, buffer, reservation, .. } = served;
        let connection = self.connections.get_mut(key);
        let was_full = connection.is_full();
        connection.in_flight -= 1;
        let driver = &mut executor.driver;
        if connection.is_closed() {
            if let Some(buffer) = buffer {
                driver.release(buffer);
            }
            self.memory.release(&mut connection.held, reservation);
            return self.remove_if_closed(key);
        }
        let data = buffer.map(|buffer| (buffer, data_bytes));
        connection.queue_reply(head, data, reservation, driver);
        if connection.can_send() {
            self.dirty.push(key);
        }
        if was_full {
            self.go_on(key, executor);
        }
    }
}
