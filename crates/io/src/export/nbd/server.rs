//! The server: listeners, connections, and their messages.
//!
//! It runs in the executor's thread. All replies of one pass of the service loop are sent together.
//!
//! Clients are isolated from each other: each has its own buffers and a limit of requests and bytes
//! in flight, all together have a memory budget (`memory_budget.rs`), and a protocol error closes
//! only the connection it arrived on. An idle client costs a descriptor and 16 KiB.
//!
//! The methods of [`Server`] are in three files: connections here, requests in `requests.rs`, and
//! clients that wait in `waiting.rs`. The others use this one, and it uses none of them.

use super::acceptor::AcceptedConnections;
use super::connection::{
    ClientRequestKey, Connection, ConnectionKey, Expecting, Hangup, LARGE_BYTES, Phase,
};
pub use super::memory_budget::MemoryMax;
use super::memory_budget::{MemoryBudget, Reservation};
use super::served_request::{FoundExtents, REPLY_BYTES, ServedRequest, memory_bytes};
use crate::accept_backoff::AcceptBackoff;
use crate::blocking_worker::BlockingWorker;
use crate::driver::buffers::BufferKey;
use crate::driver::{Event, EventOwner, Handle, Output, PeerPlace, Token};
use crate::executor::Executor;
use crate::export::Export;
use crate::export::chunked_ops::zeroes;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_nbd::handshake::greeting;
use mirrorball_nbd::server::Received;
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
    listeners: Vec<Listener>,
    external_connections: Option<ExternalConnections>,
    pub(super) connections: Slab<ConnectionKey, Connection>,
    connections_max: usize,
    pub(super) memory: MemoryBudget,
    pub(super) waiting: WaitingClients,
    pub(super) requests: Slab<ClientRequestKey, ServedRequest>,
    /// Finds extents for block status; started by the first such request.
    pub(super) status_worker: Option<BlockingWorker<FoundExtents>>,
    pub(super) zeroes: BufferKey,
    /// Connections with replies to send, where no send is in flight.
    pub(super) dirty: Vec<ConnectionKey>,
    /// Connections to remove at the end of this pass.
    over: Vec<ConnectionKey>,
    next_stream: u64,
    /// Number of events of clients so far.
    events: u64,
    /// Delays the next `accept()` after a failed one.
    backoff: AcceptBackoff,
    stopping: bool,
}

/// The queue of connections that another thread accepted: those of the TLS acceptor.
struct ExternalConnections {
    receiver: Receiver<(UnixStream, IpAddr)>,
    waker: Handle,
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

struct Listener {
    socket: Handle,
    /// True while an `accept()` is in flight.
    accepting: bool,
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

    fn listen_again(&mut self, executor: &mut Executor) -> Option<Nanos> {
        if !self.backoff.is_running() {
            return None;
        }
        let now = executor.driver.now();
        if self.backoff.take_expired(now) {
            self.accept(executor);
        }
        self.backoff.remaining(now)
    }

    /// Accepts no more connections and requests; those in flight are finished and answered.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.stopping = true;
        for listener in &self.listeners {
            executor.driver.close(listener.socket);
        }
        if let Some(external) = &self.external_connections {
            executor.driver.close(external.waker);
        }
        let keys: Vec<ConnectionKey> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            let connection = self.connections.get(key);
            match connection.phase {
                Phase::Open if connection.is_negotiating() => self.close(key, executor),
                Phase::Open => self.drain(key, executor),
                Phase::Draining | Phase::Closed => {}
            }
        }
    }

    /// True when the last connection is closed.
    pub fn is_over(&self) -> bool {
        self.connections.is_empty()
    }

    fn accept(&mut self, executor: &mut Executor) {
        for (key, listener) in (0..).zip(&mut self.listeners) {
            if !listener.accepting && !self.stopping {
                listener.accepting = true;
                executor.driver.accept(Token::new(EventOwner::NbdAccept, key), listener.socket);
            }
        }
    }

    /// Serves the connections that another thread accepted since the last call.
    fn on_external_connections(&mut self, executor: &mut Executor) {
        while let Some(external) = &self.external_connections
            && let Ok((socket, address)) = external.receiver.try_recv()
        {
            // Without a free descriptor the connection is closed, as at a listener.
            if let Ok(socket) = executor.driver.adopt(socket.into()) {
                self.on_connection(socket, PeerPlace::machine(address), executor);
            }
        }
    }

    pub(super) fn on_connection(
        &mut self,
        socket: Handle,
        place: PeerPlace,
        executor: &mut Executor,
    ) {
        let is_full = self.connections.len() >= self.connections_max;
        if self.stopping || is_full && !self.make_room(place, executor) {
            return executor.driver.close(socket);
        }
        let driver = &mut executor.driver;
        let mut connection = Connection::new(socket, self.next_stream, place, driver);
        self.next_stream += 1;
        connection.queue_copy(&greeting(), Reservation::NONE, driver);
        let now = driver.now();
        let key = self.connections.insert(connection);
        self.start_handshake(key, now);
        self.go_on(key, executor);
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

    /// Accepts no more requests on a connection, and closes it after the last reply.
    fn drain(&mut self, key: ConnectionKey, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        connection.phase = Phase::Draining;
        self.leave_queues(key);
        // A write whose data are incomplete is not carried out.
        self.drop_unfinished(key, executor);
        let connection = self.connections.get_mut(key);
        if connection.is_answered() {
            return self.close(key, executor);
        }
        let token = Token::new(EventOwner::NbdHangup, key.slot());
        connection.watch_hangup(token, &mut executor.driver);
    }

    /// Closes a connection: nothing more is sent, and its requests in flight get no reply.
    pub(super) fn close(&mut self, key: ConnectionKey, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        if !connection.is_closed() {
            connection.phase = Phase::Closed;
            executor.driver.close(connection.socket);
            connection.drop_queue(&mut executor.driver, &mut self.memory);
            self.leave_queues(key);
            self.drop_long(key);
        }
        self.drop_unfinished(key, executor);
        self.remove_if_closed(key);
    }

    /// Drops a write whose data are incomplete.
    fn drop_unfinished(&mut self, key: ConnectionKey, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        let Expecting::Data { request, .. } = connection.expecting else { return };
        if connection.receiving {
            // The kernel may still write to its buffer; this is called again when that ends.
            return;
        }
        connection.expecting = Expecting::Header;
        let served = self.requests.remove(request);
        let served = served.expect("a write that waits for data is in flight");
        connection.in_flight -= 1;
        executor.driver.release(served.buffer.expect("a write has a buffer"));
        self.memory.release(&mut connection.held, served.reservation);
    }

    /// Marks a closed connection for removal at the end of this pass. It is not removed at once,
    /// because callers still use it.
    pub(super) fn remove_if_closed(&mut self, key: ConnectionKey) {
        if self.connections.get(key).is_over() && !self.over.contains(&key) {
            self.over.push(key);
        }
    }
}
