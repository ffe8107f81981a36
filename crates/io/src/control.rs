//! The control socket: asks a running volume how it is, and changes its policy.
//!
//! A client connects, sends one line and reads one line of JSON until the connection ends:
//! `{"answer": …}` or `{"error": "…"}`. The lines are `status`, `members`, `stats`, `policy`,
//! `rebuild DEVID` and `policy NAME`, where the name is written as everywhere: `latency-rr`, or
//! `round-robin:256K` in the kernel's own syntax. A new policy reads from its next decision on;
//! what is in flight is not touched.
//!
//! It is a unix socket, so the rights of its file say who may ask.

mod answer;
#[cfg(test)]
mod tests;

use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Answer, Done, Handle, Token};
use crate::executor::Executor;
use crate::nbd::server::Server;
use mirrorball_core::slab::Slab;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The owners of the control socket's tokens.
pub const TOKEN_OWNERS: [u8; 3] = [LISTENER, RECEIVE, SEND];
const LISTENER: u8 = 5;
const RECEIVE: u8 = 6;
const SEND: u8 = 7;

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
    listener: Handle,
    accepting: bool,
    clients: Slab<Client>,
    stopping: bool,
}

struct Client {
    socket: Handle,
    /// The line, then the answer.
    buffer: BufferKey,
    received: usize,
}

impl Control {
    /// Answers on this listening unix socket, for the array called `name`; `policy` is what its
    /// volume starts with.
    pub fn new(
        name: String,
        policy: Option<String>,
        listener: Handle,
        executor: &mut Executor,
    ) -> Control {
        let mut control = Control {
            name,
            policy,
            listener,
            accepting: false,
            clients: Slab::default(),
            stopping: false,
        };
        control.accept(executor);
        control
    }

    /// The end of an operation whose token has one of [`TOKEN_OWNERS`].
    pub fn on_done(&mut self, done: Done, executor: &mut Executor, server: &Server) {
        let key = done.token.key();
        match (done.token.owner(), done.result) {
            (LISTENER, result) => {
                self.accepting = false;
                if let Ok(Answer::Connection(socket)) = result {
                    self.on_client(socket, executor);
                    self.accept(executor);
                }
            }
            (RECEIVE, Ok(Answer::Bytes(bytes))) if bytes > 0 => {
                self.on_received(key, bytes, executor, server);
            }
            _ => self.forget(key, executor),
        }
    }

    /// Takes no more questions.
    pub fn stop(&mut self, executor: &mut Executor) {
        self.stopping = true;
        executor.driver.close(self.listener);
    }

    fn accept(&mut self, executor: &mut Executor) {
        if !self.accepting && !self.stopping && self.clients.len() < CLIENTS_MAX {
            self.accepting = true;
            executor.driver.accept(Token::new(LISTENER, 0), self.listener);
        }
    }

    fn on_client(&mut self, socket: Handle, executor: &mut Executor) {
        let buffer = executor.driver.buffers.acquire(LINE_BYTES);
        let key = self.clients.insert(Client { socket, buffer, received: 0 });
        executor.driver.receive(
            Token::new(RECEIVE, key),
            socket,
            Slice::data(buffer, 0, LINE_BYTES),
        );
    }

    fn on_received(&mut self, key: u32, bytes: usize, executor: &mut Executor, server: &Server) {
        let client = self.clients.get_mut(key);
        let Client { socket, buffer, .. } = *client;
        client.received += bytes;
        let received = client.received;
        let line = executor.driver.buffers.bytes(Slice::data(buffer, 0, received));
        let Some(end) = line.iter().position(|&byte| byte == b'\n') else {
            if received == LINE_BYTES {
                return self.forget(key, executor);
            }
            let room = Slice::data(buffer, received, LINE_BYTES - received);
            return executor.driver.receive(Token::new(RECEIVE, key), socket, room);
        };
        let line = String::from_utf8_lossy(&line[..end]).into_owned();
        let text = answer::answer(self, &line, executor, server).to_string() + "\n";
        let driver = &mut executor.driver;
        driver.buffers.release(buffer);
        let buffer = driver.buffers.acquire(text.len());
        let slice = Slice::data(buffer, 0, text.len());
        driver.buffers.bytes_mut(slice).copy_from_slice(text.as_bytes());
        self.clients.get_mut(key).buffer = buffer;
        driver.send(Token::new(SEND, key), socket, &[slice]);
    }

    fn forget(&mut self, key: u32, executor: &mut Executor) {
        let client = self.clients.remove(key).expect("a client is forgotten once");
        executor.driver.close(client.socket);
        executor.driver.buffers.release(client.buffer);
        self.accept(executor);
    }
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
