//! An NBD client: sends requests, and parses replies.

use mirrorball_core::io::VolumeError;
use mirrorball_io::driver::sim::{ObjectId, SimulatedWorld};
use mirrorball_nbd::client::{ClientConnection, ClientHandshake, ClientStep, CookieKey};
use mirrorball_nbd::wire::{RawRequest, SIMPLE_REPLY_BYTES, WireError};

/// A reply: the cookie of the request, its result, and the data of a read.
pub(crate) type ClientReply = (u64, Result<(), VolumeError>, Vec<u8>);

pub(crate) struct NbdClient {
    world: SimulatedWorld,
    socket: ObjectId,
    /// The handshake, until it is over.
    handshake: Option<ClientHandshake>,
    /// Requests, each with the cookie of the caller and the length of the data of its reply.
    connection: ClientConnection<(u64, usize)>,
    input: Vec<u8>,
    /// Requests that wait for the end of the handshake.
    queue: Vec<u8>,
    /// The reply whose data are awaited.
    reply: Option<(CookieKey, Result<(), u32>)>,
}

impl NbdClient {
    pub(crate) fn new(world: &SimulatedWorld, listener: ObjectId) -> NbdClient {
        NbdClient {
            socket: world.connect(listener),
            world: world.clone(),
            handshake: Some(ClientHandshake::new("")),
            connection: ClientConnection::default(),
            input: Vec::new(),
            queue: Vec::new(),
            reply: None,
        }
    }

    pub(crate) fn disconnect(self) {
        self.world.close(self.socket);
    }

    /// Sends a request, with the data of a write; `read_bytes` are the data of its reply.
    pub(crate) fn send(&mut self, request: RawRequest, data: &[u8], read_bytes: usize) {
        let (_, raw) = self.connection.start(request, (request.cookie, read_bytes));
        self.queue.extend(raw.bytes());
        self.queue.extend(data);
        self.send_queue();
    }

    /// The replies that have come. Fails if the server does not keep to the protocol, or closed the
    /// connection.
    pub(crate) fn take_replies(&mut self) -> Result<Vec<ClientReply>, String> {
        self.input.extend(self.world.receive(self.socket));
        let mut replies = Vec::new();
        while self.take_message(&mut replies)? {}
        if self.world.is_closed(self.socket) && self.connection.in_flight() > 0 {
            return Err("the NBD server closed a connection with requests in flight".to_owned());
        }
        Ok(replies)
    }

    fn send_queue(&mut self) {
        if self.handshake.is_none() && !self.queue.is_empty() {
            self.world.send(self.socket, &std::mem::take(&mut self.queue));
        }
    }

    /// Parses a message of the input; returns false if there is no whole one.
    fn take_message(&mut self, replies: &mut Vec<ClientReply>) -> Result<bool, String> {
        let Some(handshake) = &mut self.handshake else { return self.take_reply(replies) };
        let mut output = Vec::new();
        let advanced = handshake.advance(&self.input, &mut output);
        let (taken, step) = advanced.map_err(|error| error.to_string())?;
        self.input.drain(..taken);
        self.world.send(self.socket, &output);
        if matches!(step, ClientStep::Attached(_)) {
            self.handshake = None;
            self.send_queue();
        }
        Ok(taken > 0)
    }

    fn take_reply(&mut self, replies: &mut Vec<ClientReply>) -> Result<bool, String> {
        let (key, result) = match self.reply {
            Some(reply) => reply,
            None => {
                let Some(header) = self.input.first_chunk() else { return Ok(false) };
                let reply = self.connection.receive(header).map_err(|error| error.to_string())?;
                self.input.drain(..SIMPLE_REPLY_BYTES);
                *self.reply.insert(reply)
            }
        };
        let request = self.connection.find_mut(key);
        let &mut (cookie, expected) = request.expect("a request ends after its reply");
        let data_bytes = if result.is_ok() { expected } else { 0 };
        if self.input.len() < data_bytes {
            return Ok(false);
        }
        self.reply = None;
        self.connection.end(key);
        let data: Vec<u8> = self.input.drain(..data_bytes).collect();
        let result = match result {
            Ok(()) => Ok(()),
            Err(error) if error != WireError::Io as u32 => {
                return Err(format!("the NBD server replies with error {error}"));
            }
            Err(_) if expected > 0 => Err(VolumeError::Unreadable),
            Err(_) => Err(VolumeError::Unwritable),
        };
        replies.push((cookie, result, data));
        Ok(true)
    }
}
