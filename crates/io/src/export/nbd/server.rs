//! The server: listeners, connections, and the requests of clients in flight.
//!
//! It runs in the executor's thread. A client's request becomes one or several I/O requests to the
//! executor: large write-zeroes and discard requests are split, and a durable write is followed by
//! a flush. All replies of one pass of the service loop are sent together.
//!
//! Clients are isolated from each other: each has its own buffers and a limit of requests and bytes
//! in flight, all together have a memory budget (`memory_budget.rs`), and a protocol error
//! closes only the connection it arrived on. An idle client costs a descriptor and 16 KiB.
//!
//! The handlers of [`Server`] are in several files: connections here, requests in `requests.rs`,
//! block status in `status_request.rs`, long requests in `long_requests.rs`, clients that wait for
//! memory in `memory_queue.rs`, connections that are closed for others in `reclaim.rs`, and
//! connections of another thread in `external_connections.rs`. The others use this one, and it uses
//! none of them.

use super::command::{REPLY_BYTES, Validated, validate};
use super::connection::{Connection, Expecting, Hangup, Phase};
use super::handshake::{Agreement, Step, greeting};
use super::input;
use super::keys::{ClientRequestKey, ConnectionKey};
pub use super::memory_budget::MemoryMax;
use super::memory_budget::{MemoryBudget, Reservation};
use super::pending_request::PendingRequest;
use super::queues::{HandshakeDeadlines, LongRequests, MemoryQueue};
use crate::accept_backoff::AcceptBackoff;
use crate::block_status::StatusExtent;
use crate::blocking_worker::BlockingWorker;
use crate::driver::buffers::BufferKey;
use crate::driver::{Event, EventOwner, Handle, Output, PeerPlace, Token};
use crate::executor::Executor;
use crate::export::Export;
use crate::export::chunked_ops::zeroes;
use crate::nbd_protocol::wire::{REQUEST_BYTES, RawRequest, error_chunk, request, simple_reply};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
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
    /// Connections that another thread accepted.
    pub(super) external_connections: Option<ExternalConnections>,
    pub(super) connections: Slab<ConnectionKey, Connection>,
    connections_max: usize,
    pub(super) memory: MemoryBudget,
    pub(super) memory_queue: MemoryQueue,
    pub(super) long: LongRequests,
    pub(super) handshakes: HandshakeDeadlines,
    pub(super) pending: Slab<ClientRequestKey, PendingRequest>,
    /// Finds extents for block status; started by the first such request.
    pub(super) status_worker: Option<StatusWorker>,
    pub(super) zeroes: BufferKey,
    /// Connections with something to send.
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

/// The server's end of the queue of connections that another thread accepted.
pub(super) struct ExternalConnections {
    pub(super) receiver: Receiver<(UnixStream, IpAddr)>,
    pub(super) waker: Handle,
}

/// The extents of files that a worker found for a request.
pub(super) struct FoundExtents {
    pub(super) pending: ClientRequestKey,
    pub(super) extents: Vec<StatusExtent>,
}

/// Worker that returns the key of a block status request and its extents.
pub(super) type StatusWorker = BlockingWorker<FoundExtents>;

struct Listener {
    socket: Handle,
    /// True while an `accept()` is in flight.
    accepting: bool,
}

impl Server {
    /// Creates a server of these exports at `listeners`.
    ///
    /// # Panics
    /// If there is no export.
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
            memory: MemoryBudget::new(MemoryMax::default(), input::LARGE_BYTES),
            memory_queue: MemoryQueue::default(),
            long: LongRequests::default(),
            handshakes: HandshakeDeadlines::default(),
            pending: Slab::default(),
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
        Server { memory: MemoryBudget::new(memory_max, input::LARGE_BYTES), ..self }
    }

    /// The exports.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Number of connected clients.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Handles an event of the driver.
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
                self.note_event(key).receiving = false;
                match result {
                    Ok(Output::Bytes(bytes)) if bytes > 0 => self.on_received(key, bytes, executor),
                    // The client has shut down its sending side, and may wait for replies.
                    Ok(_) if self.is_served(key) => self.drain(key, executor),
                    _ => self.close(key, executor),
                }
            }
            (EventOwner::NbdSend, result) => {
                let key = ConnectionKey::from_slot(slot);
                self.note_event(key);
                let connection = self.connections.get_mut(key);
                connection.on_sent(&mut executor.driver, &mut self.memory);
                if matches!(connection.phase, Phase::Closed) {
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
            self.connections
                .get_mut(key)
                .send(Token::new(EventOwner::NbdSend, key.slot()), &mut executor.driver);
        }
        if self.over.is_empty() {
            return;
        }
        for key in std::mem::take(&mut self.over) {
            let connection = self.connections.remove(key).expect("a connection is removed once");
            connection.free(&mut executor.driver, &mut self.memory);
        }
        // A connection below the limit may be accepted now.
        self.accept(executor);
    }

    /// Does what is due: closes connections that take too long, and accepts again where that
    /// failed. Returns how long until something is due.
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
            let connection = self.connections.get_mut(key);
            match connection.phase {
                Phase::Negotiating(_) => self.close(key, executor),
                Phase::Serving(_) => self.drain(key, executor),
                Phase::Draining | Phase::Closed => {}
            }
        }
    }

    /// Returns true when the last connection is closed.
    pub fn is_over(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns true if the connection has finished its handshake and is not closed.
    fn is_served(&self, key: ConnectionKey) -> bool {
        matches!(self.connections.get(key).phase, Phase::Serving(_) | Phase::Draining)
    }

    fn accept(&mut self, executor: &mut Executor) {
        for (key, listener) in (0..).zip(&mut self.listeners) {
            if !listener.accepting && !self.stopping {
                listener.accepting = true;
                executor.driver.accept(Token::new(EventOwner::NbdAccept, key), listener.socket);
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
        let mut connection = Connection::new(socket, self.next_stream, driver);
        self.next_stream += 1;
        connection.place = place;
        connection.queue_copy(&greeting(), Reservation::NONE, driver);
        let now = driver.now();
        let key = self.connections.insert(connection);
        self.start_handshake(key, now);
        self.dirty.push(key);
        self.go_on(key, executor);
    }

    fn on_received(&mut self, key: ConnectionKey, bytes: usize, executor: &mut Executor) {
        let connection = self.connections.get_mut(key);
        connection.progress += 1;
        match &mut connection.expecting {
            Expecting::Data { pending, slice } => {
                *slice = slice.after(bytes);
                if slice.length == 0 {
                    let pending = *pending;
                    connection.expecting = Expecting::Header;
                    self.submit(pending, executor);
                }
            }
            Expecting::Header | Expecting::Discard { .. } => connection.input.on_received(bytes),
        }
        self.go_on(key, executor);
    }

    /// Parses the received bytes as far as possible, and receives more.
    pub(super) fn go_on(&mut self, key: ConnectionKey, executor: &mut Executor) {
        while self.step(key, executor) {}
        let connection = self.connections.get_mut(key);
        if connection.has_outgoing() {
            self.dirty.push(key);
        }
        let driver = &mut executor.driver;
        match connection.phase {
            Phase::Negotiating(_) if connection.has_outgoing() => {}
            Phase::Serving(_) if connection.is_full() || connection.waits_for_memory => {
                connection.watch_hangup(Token::new(EventOwner::NbdHangup, key.slot()), driver);
            }
            Phase::Negotiating(_) | Phase::Serving(_) => {
                let token = Token::new(EventOwner::NbdReceive, key.slot());
                connection.receive(token, driver, &mut self.memory);
            }
            Phase::Draining if connection.is_answered() => self.close(key, executor),
            Phase::Draining => {
                connection.watch_hangup(Token::new(EventOwner::NbdHangup, key.slot()), driver);
            }
            Phase::Closed => {
                // These are data of a write that will not be carried out.
                self.drop_unfinished(key, executor);
                self.remove_if_closed(key);
            }
        }
    }

    /// Parses one request or option; returns true if there may be another.
    fn step(&mut self, key: ConnectionKey, executor: &mut Executor) -> bool {
        let connection = self.connections.get_mut(key);
        // A receive in flight may be writing to the input buffer.
        if connection.receiving || connection.unread_bytes() == 0 {
            return false;
        }
        if let Expecting::Discard { bytes } = connection.expecting {
            let taken = bytes.min(connection.unread_bytes());
            connection.input.take(taken);
            connection.expecting = match bytes - taken {
                0 => Expecting::Header,
                bytes => Expecting::Discard { bytes },
            };
            return true;
        }
        match &mut connection.phase {
            // Replies are taken before more options are parsed.
            Phase::Negotiating(_) => !connection.has_outgoing() && self.negotiate(key, executor),
            Phase::Serving(agreement) => {
                let agreement = *agreement;
                !connection.is_full() && self.take_request(key, agreement, executor)
            }
            Phase::Draining | Phase::Closed => false,
        }
    }

    fn negotiate(&mut self, key: ConnectionKey, executor: &mut Executor) -> bool {
        let connection = self.connections.get_mut(key);
        let Phase::Negotiating(handshake) = &mut connection.phase else { return false };
        let mut handshake = std::mem::take(handshake);
        let mut output = Vec::new();
        let input = connection.input.unread(&executor.driver);
        let (taken, step) = handshake.advance(input, &self.exports, &mut output);
        connection.input.take(taken);
        if !output.is_empty() {
            connection.queue_copy(&output, Reservation::NONE, &mut executor.driver);
        }
        connection.phase = match step {
            Step::More => Phase::Negotiating(handshake),
            Step::Agreed(agreement) => Phase::Serving(agreement),
            Step::End => Phase::Draining,
        };
        step != Step::More || taken > 0
    }

    fn take_request(
        &mut self,
        key: ConnectionKey,
        agreement: Agreement,
        executor: &mut Executor,
    ) -> bool {
        let connection = self.connections.get_mut(key);
        let unread = connection.input.unread(&executor.driver);
        let Some(header) = unread.first_chunk::<REQUEST_BYTES>() else { return false };
        let raw = RawRequest::parse(header);
        let verdict = raw.map_or(Validated::ProtocolError, |raw| {
            validate(&raw, &self.exports[agreement.export], agreement.status)
        });
        let memory_bytes = match &verdict {
            Validated::Accept(command) => command.memory_bytes(),
            Validated::Reject { .. } => REPLY_BYTES,
            Validated::Disconnect | Validated::ProtocolError => 0,
        };
        let Some(reservation) = self.reserve(key, memory_bytes) else { return false };
        let connection = self.connections.get_mut(key);
        connection.input.take(REQUEST_BYTES);
        match verdict {
            Validated::Accept(command) => {
                self.begin(key, agreement, command, reservation, executor);
            }
            Validated::Reject { error, data_bytes } => {
                if data_bytes > 0 {
                    connection.expecting = Expecting::Discard { bytes: data_bytes as usize };
                }
                let raw = raw.expect("a rejected request was parsed");
                let driver = &mut executor.driver;
                if agreement.structured && raw.kind == request::READ {
                    connection.queue_copy(&error_chunk(raw.cookie, error), reservation, driver);
                } else {
                    let reply = simple_reply(error as u32, raw.cookie);
                    connection.queue_copy(&reply, reservation, driver);
                }
            }
            Validated::Disconnect => self.drain(key, executor),
            Validated::ProtocolError => self.close(key, executor),
        }
        true
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
        if !matches!(connection.phase, Phase::Closed) {
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
        let Expecting::Data { pending, .. } = connection.expecting else { return };
        if connection.receiving {
            // The kernel may still write to its buffer; this is called again when that ends.
            return;
        }
        connection.expecting = Expecting::Header;
        let pending = self.pending.remove(pending).expect("a write that waits for data is pending");
        connection.pending -= 1;
        connection.pending_bytes -= pending.command.length as usize;
        executor.driver.release(pending.buffer.expect("a write has a buffer"));
        self.memory.release(&mut connection.held, pending.reservation);
    }

    /// Marks a closed connection for removal at the end of this pass. It is not removed at once,
    /// because callers still use it.
    pub(super) fn remove_if_closed(&mut self, key: ConnectionKey) {
        if self.connections.get(key).is_over() && !self.over.contains(&key) {
            self.over.push(key);
        }
    }
}
