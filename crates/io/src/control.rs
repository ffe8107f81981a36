//! The control socket: asks a running volume how it is, and changes its policy. And
//! the metrics, for Prometheus to fetch.
//!
//! A client connects, sends one line and reads one line of JSON until the connection ends:
//! `{"answer": …}` or `{"error": "…"}`. The lines are `status`, `members`, `stats`, `stats reset`,
//! after which times are measured anew, `policy`, `rebuild DEVID`, which may end in a rate in bytes
//! a second, and `policy NAME`, where the name is written as everywhere: `latency-rr`, or
//! `round-robin:256K` in the kernel's own syntax. A new policy reads from its next decision on;
//! what is in flight is not touched.
//!
//! It is a unix socket, so the rights of its file say who may ask.
//!
//! Metrics are fetched over TCP with `GET /metrics` of HTTP/1.1, a connection for each; nothing can
//! be changed there.

mod answer;
mod http;
mod metrics;
#[cfg(test)]
mod tests;

use crate::accept_backoff::AcceptBackoff;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Event, EventOwner, Handle, Output, Token};
use crate::executor::Executor;
use crate::export::nbd::server::Server;
use crate::rebuild::{Rebuild, RebuildError};
use mirrorball_core::slab::Slab;
use mirrorball_core::units::Nanos;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The longest line that a client may send.
const LINE_BYTES: usize = 4096;
/// So many ask at once at most.
const CLIENTS_MAX: usize = 32;

/// The control socket of a service.
pub struct Control {
    /// What the array is called.
    name: String,
    /// The policy of the volume, as it was written; `None` without a volume.
    policy: Option<String>,
    listeners: Vec<Listener>,
    clients: Slab<u32, Client>,
    /// Listeners that could let nobody in.
    backoff: AcceptBackoff,
    stopping: bool,
}

/// The rest of a service, which questions are about.
pub struct ServiceParts<'a> {
    /// The volume and its members.
    pub executor: &'a mut Executor,
    /// Who is connected to it.
    pub server: &'a Server,
    /// The rebuild of its members.
    pub rebuild: &'a mut Rebuild,
}

/// A listening socket, and what is spoken there.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// The socket.
    pub listener: Handle,
    /// What is spoken.
    pub protocol: Protocol,
}

/// What is spoken with a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// A line, and a line of JSON in answer.
    JsonLines,
    /// HTTP, to fetch metrics.
    Http,
}

struct Listener {
    endpoint: Endpoint,
    accepting: bool,
}

struct Client {
    socket: Handle,
    protocol: Protocol,
    /// The line, then the answer; nothing while that takes time.
    buffer: Option<BufferKey>,
    received: usize,
}

impl Control {
    /// Answers at these endpoints, for the array called `name`; `policy` is what its
    /// volume starts with.
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
            backoff: AcceptBackoff::default(),
            stopping: false,
        };
        control.accept(executor);
        control
    }

    /// Handles an event of the control socket.
    pub fn on_event(&mut self, done: Event, parts: ServiceParts<'_>) {
        let key = done.token.key();
        match (done.token.owner(), done.result) {
            (EventOwner::ControlAccept, result) => {
                let listener = &mut self.listeners[key as usize];
                listener.accepting = false;
                match result {
                    Ok(Output::Connection(socket)) => {
                        let protocol = listener.endpoint.protocol;
                        self.on_client(socket, protocol, parts.executor);
                        self.accept(parts.executor);
                    }
                    _ => self.backoff.start(parts.executor.driver.now()),
                }
            }
            (EventOwner::ControlReceive, Ok(Output::Bytes(bytes))) if bytes > 0 => {
                self.on_received(key, bytes, parts);
            }
            _ => self.forget(key, parts.executor),
        }
    }

    /// Has listeners that could let nobody in try again, and returns how long to wait if it is only
    /// not time yet.
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

    /// Takes no more questions.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.stopping = true;
        for listener in &self.listeners {
            executor.driver.close(listener.endpoint.listener);
        }
    }

    fn accept(&mut self, executor: &mut Executor) {
        for (key, listener) in (0..).zip(&mut self.listeners) {
            if !listener.accepting && !self.stopping && self.clients.len() < CLIENTS_MAX {
                listener.accepting = true;
                executor
                    .driver
                    .accept(Token::new(EventOwner::ControlAccept, key), listener.endpoint.listener);
            }
        }
    }

    fn on_client(&mut self, socket: Handle, protocol: Protocol, executor: &mut Executor) {
        let buffer = executor.driver.buffers.acquire(LINE_BYTES);
        let key =
            self.clients.insert(Client { socket, protocol, buffer: Some(buffer), received: 0 });
        executor.driver.receive(
            Token::new(EventOwner::ControlReceive, key),
            socket,
            Slice::data(buffer, 0, LINE_BYTES),
        );
    }

    fn on_received(&mut self, key: u32, bytes: usize, mut parts: ServiceParts<'_>) {
        let client = self.clients.get_mut(key);
        client.received += bytes;
        let Client { socket, protocol, received, .. } = *client;
        let buffer = client.buffer.expect("it was received into");
        let driver = &mut parts.executor.driver;
        let input = driver.buffers.bytes(Slice::data(buffer, 0, received));
        let end = match protocol {
            Protocol::JsonLines => input.iter().position(|&byte| byte == b'\n'),
            Protocol::Http => input.windows(4).position(|bytes| bytes == b"\r\n\r\n"),
        };
        let Some(end) = end else {
            if received == LINE_BYTES {
                return self.forget(key, parts.executor);
            }
            let room = Slice::data(buffer, received, LINE_BYTES - received);
            return driver.receive(Token::new(EventOwner::ControlReceive, key), socket, room);
        };
        let input = String::from_utf8_lossy(&input[..end]).into_owned();
        driver.buffers.release(buffer);
        client.buffer = None;
        let text = match protocol {
            Protocol::JsonLines => match answer::answer(self, key, &input, &mut parts) {
                Some(answer) => line(&answer),
                None => return,
            },
            Protocol::Http => http::reply(self, &input, &parts),
        };
        self.send(key, &text, parts.executor);
    }

    /// Answers a client whose question took time.
    pub fn reply_later(
        &mut self,
        client: u32,
        result: Result<Vec<String>, RebuildError>,
        executor: &mut Executor,
    ) {
        self.send(client, &line(&answer::late(result)), executor);
    }

    fn send(&mut self, key: u32, text: &str, executor: &mut Executor) {
        let driver = &mut executor.driver;
        let buffer = driver.buffers.acquire(text.len());
        let slice = Slice::data(buffer, 0, text.len());
        driver.buffers.bytes_mut(slice).copy_from_slice(text.as_bytes());
        let client = self.clients.get_mut(key);
        client.buffer = Some(buffer);
        driver.send(Token::new(EventOwner::ControlSend, key), client.socket, &[slice]);
    }

    fn forget(&mut self, key: u32, executor: &mut Executor) {
        let client = self.clients.remove(key).expect("a client is forgotten once");
        executor.driver.close(client.socket);
        if let Some(buffer) = client.buffer {
            executor.driver.buffers.release(buffer);
        }
        self.accept(executor);
    }
}

fn line(answer: &Value) -> String {
    format!("{answer}\n")
}

/// Asks the service whose control socket is at `path`, and returns its line of JSON.
///
/// # Errors
/// If nobody answers there.
pub fn ask(path: &Path, line: &str) -> io::Result<String> {
    let mut socket = UnixStream::connect(path)?;
    socket.write_all(format!("{line}\n").as_bytes())?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up without an answer"));
    }
    Ok(text)
}
