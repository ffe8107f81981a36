//! A client of the NBD server of a tortured service: sends requests, and takes replies apart.

use crate::driver::sim::{ObjectId, SimulatedWorld};
use crate::nbd_protocol::wire::{
    RawReply, RawRequest, SIMPLE_REPLY_BYTES, WireError, attach_request, option_reply,
};
use mirrorball_core::io::VolumeError;
use std::collections::BTreeMap;

/// A reply: the cookie of the request, its result, and the data of a read.
pub(super) type ClientReply = (u64, Result<(), VolumeError>, Vec<u8>);

/// Bytes of the greeting of a server.
const GREETING_BYTES: usize = 18;
/// Bytes of the header of a reply to an option.
const OPTION_REPLY_BYTES: usize = 20;

enum Phase {
    Greeting,
    Negotiating,
    Serving,
}

pub(super) struct NbdClient {
    simulation: SimulatedWorld,
    socket: ObjectId,
    phase: Phase,
    input: Vec<u8>,
    /// Requests that wait for the end of the handshake.
    queue: Vec<u8>,
    /// The length of the data of each reply to come.
    expected: BTreeMap<u64, usize>,
}

impl NbdClient {
    pub(super) fn new(simulation: &SimulatedWorld, listener: ObjectId) -> NbdClient {
        NbdClient {
            socket: simulation.connect(listener),
            simulation: simulation.clone(),
            phase: Phase::Greeting,
            input: Vec::new(),
            queue: Vec::new(),
            expected: BTreeMap::new(),
        }
    }

    /// Sends a request, with the data of a write; `read_bytes` are the data of its reply.
    pub(super) fn send(&mut self, request: RawRequest, data: &[u8], read_bytes: usize) {
        self.expected.insert(request.cookie, read_bytes);
        self.queue.extend(request.bytes());
        self.queue.extend(data);
        self.send_queue();
    }

    /// The replies that have come.
    ///
    /// # Errors
    /// If the server does not keep to the protocol, or closed the connection.
    pub(super) fn take_replies(&mut self) -> Result<Vec<ClientReply>, String> {
        self.input.extend(self.simulation.receive(self.socket));
        let mut replies = Vec::new();
        while self.take_message(&mut replies)? {}
        if self.simulation.is_closed(self.socket) && !self.expected.is_empty() {
            return Err("the NBD server closed a connection with requests in flight".to_owned());
        }
        Ok(replies)
    }

    fn send_queue(&mut self) {
        if matches!(self.phase, Phase::Serving) && !self.queue.is_empty() {
            self.simulation.send(self.socket, &std::mem::take(&mut self.queue));
        }
    }

    /// Takes a message from the input; returns false if there is no whole one.
    fn take_message(&mut self, replies: &mut Vec<ClientReply>) -> Result<bool, String> {
        let has = |bytes: usize| self.input.len() >= bytes;
        let word = |at: usize| {
            let bytes = self.input[at..].first_chunk();
            u32::from_be_bytes(*bytes.expect("the message is there"))
        };
        match self.phase {
            Phase::Greeting if has(GREETING_BYTES) => {
                self.input.drain(..GREETING_BYTES);
                self.simulation.send(self.socket, &attach_request());
                self.phase = Phase::Negotiating;
            }
            Phase::Negotiating if has(OPTION_REPLY_BYTES) => {
                let (kind, length) = (word(12), word(16) as usize);
                if !has(OPTION_REPLY_BYTES + length) {
                    return Ok(false);
                }
                self.input.drain(..OPTION_REPLY_BYTES + length);
                match kind {
                    _ if kind & option_reply::ERR != 0 => {
                        return Err(format!("the NBD server refuses its export: {kind:x}"));
                    }
                    option_reply::ACK => {
                        self.phase = Phase::Serving;
                        self.send_queue();
                    }
                    _ => {}
                }
            }
            Phase::Serving => return self.take_reply(replies),
            Phase::Greeting | Phase::Negotiating => return Ok(false),
        }
        Ok(true)
    }

    fn take_reply(&mut self, replies: &mut Vec<ClientReply>) -> Result<bool, String> {
        let Some(head) = self.input.first_chunk::<SIMPLE_REPLY_BYTES>() else { return Ok(false) };
        let reply = RawReply::parse(head).ok_or("the NBD server sends no reply")?;
        let RawReply { error, cookie } = reply;
        let expected = self.expected.get(&cookie);
        let expected = *expected.ok_or("the NBD server replies to no request")?;
        let data_bytes = if error == 0 { expected } else { 0 };
        if self.input.len() < SIMPLE_REPLY_BYTES + data_bytes {
            return Ok(false);
        }
        self.expected.remove(&cookie);
        let message: Vec<u8> = self.input.drain(..SIMPLE_REPLY_BYTES + data_bytes).collect();
        let result = match error {
            0 => Ok(()),
            _ if error != WireError::Io as u32 => {
                return Err(format!("the NBD server replies with error {error}"));
            }
            _ if expected > 0 => Err(VolumeError::Unreadable),
            _ => Err(VolumeError::Unwritable),
        };
        replies.push((cookie, result, message[SIMPLE_REPLY_BYTES..].to_vec()));
        Ok(true)
    }
}
