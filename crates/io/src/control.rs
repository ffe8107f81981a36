//! The control socket, and metrics for Prometheus.
//!
//! A client of the control socket sends one request and gets one response, each a line of JSON
//! ([`protocol`]). It is a unix socket, so the permissions of its file decide who can connect.
//!
//! Metrics are served over TCP by `GET /metrics` of HTTP/1.1, one request a connection. Nothing can
//! be changed there.
//!
//! A client that asks for events gets a line for each, and may follow them (`follow`).
//!
//! Each listener has a limit of clients of its own, so that clients of the metrics cannot lock out
//! the control socket. At the limit, a new client takes the place of the oldest one that has not
//! sent its request, or else of the oldest one that has not taken its response, or that follows
//! events.

#[cfg(test)]
mod condition_tests;
mod conditions;
mod events;
mod follow;
mod http;
mod member_commands;
mod metrics;
mod policy_change;
mod policy_loader;
#[cfg(test)]
mod policy_tests;
pub mod protocol;
mod respond;
mod scrub_state;
mod spare_commands;
mod status;
#[cfg(test)]
mod tests;

use crate::accept_backoff::AcceptBackoff;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, Event, EventOwner, Handle, Output, Token};
use crate::executor::Executor;
use crate::export::nbd::server::Server;
use crate::rebuild::{Rebuild, RebuildError, RebuildOpened};
use crate::scrub::Scrub;
use crate::spares::{SpareChange, Spares};
use events::EventLog;
pub use events::EventObserver;
use follow::Follower;
use mirrorball_core::policies::{OBJECT_BYTES_MAX, Registry};
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_store::{LabelsUnwritable, StoreGate};
use policy_loader::PolicyLoader;
use protocol::{RequestError, StateChange};
use std::io;

/// Length limit of a request over HTTP, and bytes that a client may send at first.
const LINE_BYTES: usize = 4096;
/// Length limit of a request on the control socket, which may have the digits of an object.
const REQUEST_BYTES_MAX: usize = 2 * OBJECT_BYTES_MAX + LINE_BYTES;
/// Number of clients of each listener that are served at once.
const CLIENTS_MAX: usize = 32;

mirrorball_core::slab_key! {
    /// Names a client of the control socket.
    struct ClientKey;
}

/// The control socket and the metrics of a service.
pub struct Control {
    name: String,
    /// Canonical string of the policy; `None` without a volume.
    policy: Option<String>,
    listeners: Vec<Listener>,
    clients: Slab<ClientKey, Client>,
    events: EventLog,
    /// Number of clients so far.
    accepted: u64,
    /// Clients whose commands are carried out, with their responses: they wait for the labels.
    unrecorded: Vec<(ClientKey, String)>,
    /// Delays the next `accept()` after a failed one.
    backoff: AcceptBackoff,
    /// Loads programs; `None` if the service was given no registry.
    loader: Option<PolicyLoader>,
    /// Number of requests so far that set a policy.
    policy_requests: u64,
    /// Number of the request that set the policy in force; 0 if none did.
    policy_set_by: u64,
    stopping: bool,
}

/// The other parts of a service, which requests are about.
pub struct ServiceParts<'a> {
    pub executor: &'a mut Executor,
    pub server: &'a Server,
    pub rebuild: &'a mut Rebuild,
    pub scrub: &'a mut Scrub,
    pub spares: &'a mut Spares,
}

/// A listening socket and its protocol.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    pub listener: Handle,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    JsonLines,
    Http,
}

struct Listener {
    endpoint: Endpoint,
    accepting: bool,
}

/// The phases of a client. Those that come first are closed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ClientPhase {
    /// It has to send its request.
    Receiving,
    /// It has to take its response.
    Sending,
    /// It gets events as they happen.
    Following,
    /// The service carries out the request.
    Working,
    /// The socket is closed, but the last operation on it has not ended.
    Closing,
}

struct Client {
    socket: Handle,
    listener: u32,
    phase: ClientPhase,
    /// Counts the clients; the oldest has the least.
    number: u64,
    /// The request, then the response; `None` while the request is carried out.
    buffer: Option<BufferKey>,
    received: usize,
    /// Size of the buffer of the request.
    capacity: usize,
    /// Number of operations on its socket that have not ended.
    in_flight: u32,
    /// The events that were sent, if the client asked for them.
    follower: Option<Follower>,
}

impl Control {
    /// Listens at `endpoints`. `name` is the array's, `policy` the one that its volume starts with.
    pub fn new(
        name: String,
        policy: Option<String>,
        endpoints: Vec<Endpoint>,
        executor: &mut Executor,
    ) -> Control {
        let listeners =
            endpoints.into_iter().map(|endpoint| Listener { endpoint, accepting: false });
        let mut control = Control {
            name,
            policy,
            listeners: listeners.collect(),
            clients: Slab::default(),
            events: EventLog::default(),
            accepted: 0,
            unrecorded: Vec::new(),
            backoff: AcceptBackoff::default(),
            loader: None,
            policy_requests: 0,
            policy_set_by: 0,
            stopping: false,
        };
        control.accept(executor);
        control
    }

    /// Lets clients change the policy to a program, which the registry loads.
    pub fn with_programs(self, registry: Registry, executor: &mut Executor) -> io::Result<Control> {
        let loader = Some(PolicyLoader::new(registry, &mut executor.driver)?);
        Ok(Control { loader, ..self })
    }

    /// Has each event passed to this observer, as it is recorded.
    pub fn with_observer(mut self, observer: EventObserver) -> Control {
        self.events.set_observer(observer);
        self
    }

    /// Handles an event of the control socket or of metrics.
    pub fn on_event(&mut self, done: Event, parts: ServiceParts<'_>) {
        let key = done.token.key();
        match (done.token.owner(), done.result) {
            (EventOwner::ControlAccept, result) => {
                let listener = &mut self.listeners[key as usize];
                listener.accepting = false;
                match result {
                    Ok(Output::Connection(socket)) => {
                        self.on_client(socket, key, parts.executor);
                        self.accept(parts.executor);
                    }
                    _ => self.backoff.start(parts.executor.driver.now()),
                }
            }
            (EventOwner::ControlProgram, _) => self.on_programs_loaded(parts),
            (owner, result) => {
                let key = ClientKey::from_slot(key);
                let client = self.clients.get_mut(key);
                client.in_flight -= 1;
                match (owner, result) {
                    _ if client.phase == ClientPhase::Closing => self.remove(key, parts.executor),
                    (EventOwner::ControlReceive, Ok(Output::Bytes(bytes))) if bytes > 0 => {
                        self.on_received(key, bytes, parts);
                    }
                    (EventOwner::ControlSend, Ok(_)) if client.follower.is_some() => {
                        self.on_events_sent(key, parts.executor);
                    }
                    // The client has only ended its half of the connection.
                    (EventOwner::ControlHangup, Ok(Output::Bytes(_))) => {}
                    _ => self.remove(key, parts.executor),
                }
            }
        }
    }

    /// Accepts again where that failed, once the backoff is over; returns the time left of it.
    pub fn listen_again(&mut self, executor: &mut Executor) -> Option<Nanos> {
        if !self.backoff.is_running() {
            return None;
        }
        let now = executor.driver.now();
        if self.backoff.take_expired(now) {
            self.accept(executor);
        }
        self.backoff.remaining(now)
    }

    /// Accepts no more clients.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.stopping = true;
        self.announce_stop(executor);
        for listener in &self.listeners {
            executor.driver.close(listener.endpoint.listener);
        }
    }

    fn accept(&mut self, executor: &mut Executor) {
        for (key, listener) in (0..).zip(&mut self.listeners) {
            if !listener.accepting && !self.stopping {
                listener.accepting = true;
                executor
                    .driver
                    .accept(Token::new(EventOwner::ControlAccept, key), listener.endpoint.listener);
            }
        }
    }

    fn on_client(&mut self, socket: Handle, listener: u32, executor: &mut Executor) {
        if !self.make_room(listener, executor) {
            return executor.driver.close(socket);
        }
        let buffer = executor.driver.acquire(LINE_BYTES);
        let (phase, number) = (ClientPhase::Receiving, self.accepted);
        self.accepted += 1;
        let client = Client {
            socket,
            listener,
            phase,
            number,
            buffer: Some(buffer),
            received: 0,
            capacity: LINE_BYTES,
            in_flight: 1,
            follower: None,
        };
        let key = self.clients.insert(client);
        executor.driver.receive(
            Token::new(EventOwner::ControlReceive, key.slot()),
            socket,
            Slice::data(buffer, 0, LINE_BYTES),
        );
    }

    /// Closes a client of a listener that is at its limit. Returns false if every client waits for
    /// the service, not the service for the client.
    fn make_room(&mut self, listener: u32, executor: &mut Executor) -> bool {
        let clients = self.clients.iter().filter(|(_, client)| {
            client.listener == listener && client.phase != ClientPhase::Closing
        });
        let clients: Vec<(ClientKey, &Client)> = clients.collect();
        if clients.len() < CLIENTS_MAX {
            return true;
        }
        let oldest = clients.iter().min_by_key(|(_, client)| (client.phase, client.number));
        let &(key, _) = oldest.expect("the limit is more than zero");
        let client = self.clients.get_mut(key);
        if client.phase == ClientPhase::Working {
            return false;
        }
        // The kernel may still use its buffer: the client is removed when its operation has ended.
        client.phase = ClientPhase::Closing;
        executor.driver.close(client.socket);
        true
    }

    fn on_received(&mut self, key: ClientKey, bytes: usize, mut parts: ServiceParts<'_>) {
        let client = self.clients.get_mut(key);
        client.received += bytes;
        let Client { socket, listener, received, capacity, .. } = *client;
        let protocol = self.listeners[listener as usize].endpoint.protocol;
        let buffer = client.buffer.expect("a client that sends has a buffer");
        let driver = &mut parts.executor.driver;
        let input = driver.bytes(Slice::data(buffer, 0, received));
        let end = match protocol {
            Protocol::JsonLines => input.iter().position(|&byte| byte == b'\n'),
            Protocol::Http => input.windows(4).position(|bytes| bytes == b"\r\n\r\n"),
        };
        let Some(end) = end else {
            let mut buffer = buffer;
            if received == capacity {
                if protocol == Protocol::Http || capacity == REQUEST_BYTES_MAX {
                    return self.remove(key, parts.executor);
                }
                client.capacity = (4 * capacity).min(REQUEST_BYTES_MAX);
                buffer = enlarge(buffer, received, client.capacity, driver);
                client.buffer = Some(buffer);
            }
            let room = Slice::data(buffer, received, client.capacity - received);
            client.in_flight += 1;
            return driver.receive(
                Token::new(EventOwner::ControlReceive, key.slot()),
                socket,
                room,
            );
        };
        let input = String::from_utf8_lossy(&input[..end]).into_owned();
        driver.release(buffer);
        client.buffer = None;
        client.phase = ClientPhase::Working;
        let text = match protocol {
            Protocol::JsonLines => match respond::respond(self, key, &input, &mut parts) {
                Some(response) => response,
                None => return,
            },
            Protocol::Http => http::reply(self, &input, &parts),
        };
        self.send(key, &text, parts.executor);
    }

    /// Records that another device took the place of a member, if it is so.
    pub fn on_replaced(
        &mut self,
        result: &Result<RebuildOpened, RebuildError>,
        executor: &Executor,
    ) {
        if let Ok(RebuildOpened { devid, place, is_copied: false, .. }) = result
            && let Some(device) = place.new_device()
        {
            let (devid, device) = (*devid, device.to_string());
            self.events.record(StateChange::MemberReplaced { devid, device }, executor);
        }
    }

    /// Records what happened to a spare.
    pub fn on_spare_change(&mut self, change: SpareChange, executor: &Executor) {
        let change = match change {
            SpareChange::Added(device) => StateChange::SpareAdded { device },
            SpareChange::Removed(device) => StateChange::SpareRemoved { device },
        };
        self.events.record(change, executor);
    }

    /// Sends the response to a rebuild whose member had to be opened first.
    pub fn reply_rebuilt(
        &mut self,
        client: u32,
        result: Result<RebuildOpened, RebuildError>,
        executor: &mut Executor,
    ) {
        let result = respond::rebuild_opened(result);
        self.reply_when_recorded(ClientKey::from_slot(client), result, executor);
    }

    /// Sends a response that came later.
    pub fn reply_text(
        &mut self,
        client: u32,
        result: Result<String, String>,
        executor: &mut Executor,
    ) {
        let result = result.map_err(RequestError::refused);
        self.reply_when_recorded(ClientKey::from_slot(client), result, executor);
    }

    /// Sends the response to a command that changed the volume, once the labels say so: what was
    /// acknowledged lasts over a crash. An error is sent at once.
    fn reply_when_recorded(
        &mut self,
        key: ClientKey,
        result: Result<String, RequestError>,
        executor: &mut Executor,
    ) {
        match result {
            Ok(text) => {
                if let Some(volume) = executor.volume_mut() {
                    volume.change_gate(StoreGate::record_changes);
                }
                self.unrecorded.push((key, text));
                self.reply_recorded(executor);
            }
            Err(_) => self.send(key, &respond::encode(result), executor),
        }
    }

    /// Sends the responses that waited for the labels, if these are not being written.
    pub fn reply_recorded(&mut self, executor: &mut Executor) {
        let Some(update) = executor.records().map_or(Some(Ok(())), StoreGate::last_update) else {
            return;
        };
        for (key, text) in std::mem::take(&mut self.unrecorded) {
            let result = update.map(|()| text.clone()).map_err(|LabelsUnwritable| {
                RequestError::refused(format!(
                    "{text}; but the labels cannot be written, so a restart may forget it\n  help: \
                     `ctl members` shows which members fail"
                ))
            });
            self.send(key, &respond::encode(result), executor);
        }
    }

    /// Uses the programs that were loaded, and responds to the clients that asked for them.
    fn on_programs_loaded(&mut self, parts: ServiceParts<'_>) {
        while let Some(loaded) = self.loader.as_mut().and_then(PolicyLoader::poll) {
            let client = ClientKey::from_slot(loaded.request.client);
            let is_kept = loaded.request.kept.is_some();
            let result = respond::policy_loaded(self, loaded, parts.executor);
            match is_kept {
                true => self.reply_when_recorded(client, result, parts.executor),
                false => self.send(client, &respond::encode(result), parts.executor),
            }
        }
    }

    fn send(&mut self, key: ClientKey, text: &str, executor: &mut Executor) {
        let driver = &mut executor.driver;
        let buffer = driver.acquire(text.len());
        let slice = Slice::data(buffer, 0, text.len());
        driver.bytes_mut(slice).copy_from_slice(text.as_bytes());
        let client = self.clients.get_mut(key);
        client.buffer = Some(buffer);
        client.in_flight += 1;
        client.phase = match client.follower {
            Some(_) => ClientPhase::Following,
            None => ClientPhase::Sending,
        };
        driver.send(Token::new(EventOwner::ControlSend, key.slot()), client.socket, &[slice]);
    }

    /// Closes the connection of a client. It is forgotten when no operation uses its memory.
    fn remove(&mut self, key: ClientKey, executor: &mut Executor) {
        let client = self.clients.get_mut(key);
        if client.phase != ClientPhase::Closing {
            client.phase = ClientPhase::Closing;
            executor.driver.close(client.socket);
        }
        if client.in_flight > 0 {
            return;
        }
        let client = self.clients.remove(key).expect("a client is removed once");
        if let Some(buffer) = client.buffer {
            executor.driver.release(buffer);
        }
    }
}

/// A larger buffer with the same first bytes, in the place of another.
fn enlarge(old: BufferKey, bytes: usize, capacity: usize, driver: &mut Driver) -> BufferKey {
    let received = driver.bytes(Slice::data(old, 0, bytes)).to_vec();
    let buffer = driver.acquire(capacity);
    driver.bytes_mut(Slice::data(buffer, 0, bytes)).copy_from_slice(&received);
    driver.release(old);
    buffer
}
