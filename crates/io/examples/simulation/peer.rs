//! The machine of a remote member in the simulation: an NBD server with a volatile cache.

use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_io::driver::Endpoint;
use mirrorball_io::driver::sim::{ObjectId, SimulatedWorld};
use mirrorball_io::member::remote::peer::{ConnectPeer, Peer};
use mirrorball_nbd::client::{ClientError, RemoteExport};
use mirrorball_nbd::wire::{REQUEST_BYTES, RawRequest, request, simple_reply, transmission_flag};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// How long the machine may owe a reply.
const TIMEOUT: Nanos = Nanos::from_secs(5);

/// Handle to a machine; clones share it.
#[derive(Clone)]
pub(crate) struct Machine {
    simulation: SimulatedWorld,
    state: Arc<Mutex<State>>,
}

struct State {
    is_up: bool,
    /// True while it takes requests and sends no replies.
    is_silent: bool,
    /// Connections, with what arrived on them.
    sockets: Vec<(ObjectId, Vec<u8>)>,
    contents: Vec<u8>,
    durable: Vec<u8>,
    /// Writes since the last flush.
    unflushed: Vec<(usize, Vec<u8>)>,
    rng: Rng,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Machine")
    }
}

impl Machine {
    pub(crate) fn new(simulation: &SimulatedWorld, size_bytes: u64, rng: Rng) -> Machine {
        let contents = vec![0; size_bytes as usize];
        let state = State {
            is_up: true,
            is_silent: false,
            sockets: Vec::new(),
            durable: contents.clone(),
            contents,
            unflushed: Vec::new(),
            rng,
        };
        Machine { simulation: simulation.clone(), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Connects to the machine as a member.
    pub(crate) fn peer(&self) -> Result<Peer, ClientError> {
        let peer = Peer::open(Arc::new(self.clone()))?;
        Ok(Peer { timeout: TIMEOUT, ..peer })
    }

    /// Loses power: every connection ends, and some unflushed writes are lost.
    pub(crate) fn lose_power(&self) {
        let state = &mut *self.state();
        for (socket, _) in state.sockets.drain(..) {
            self.simulation.close(socket);
        }
        for (offset, bytes) in state.unflushed.drain(..) {
            if state.rng.below(2) == 0 {
                state.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
        }
        state.contents.clone_from(&state.durable);
        (state.is_up, state.is_silent) = (false, false);
    }

    pub(crate) fn start(&self) {
        self.state().is_up = true;
    }

    /// Stops to reply until the connections end.
    pub(crate) fn hang(&self) {
        self.state().is_silent = true;
    }

    /// Breaks one connection, and loses nothing.
    pub(crate) fn break_connection(&self) {
        let mut state = self.state();
        if let Some((socket, _)) = state.sockets.pop() {
            self.simulation.close(socket);
        }
    }

    pub(crate) fn contents(&self, offset: u64, length: usize) -> Vec<u8> {
        self.state().contents[offset as usize..][..length].to_vec()
    }

    /// Handles the requests that arrived.
    pub(crate) fn act(&self) {
        let state = &mut *self.state();
        let mut index = 0;
        while index < state.sockets.len() {
            let socket = state.sockets[index].0;
            let mut input = std::mem::take(&mut state.sockets[index].1);
            input.extend(self.simulation.receive(socket));
            let mut replies = Vec::new();
            while let Some(reply) = state.take_request(&mut input) {
                replies.extend(reply);
            }
            if !replies.is_empty() && !state.is_silent {
                self.simulation.send(socket, &replies);
            }
            if self.simulation.is_closed(socket) {
                state.sockets.remove(index);
                // Who hung hangs no more, once the member gave up.
                state.is_silent &= !state.sockets.is_empty();
            } else {
                state.sockets[index].1 = input;
                index += 1;
            }
        }
    }
}

impl ConnectPeer for Machine {
    fn connect(&self) -> Result<(Endpoint, RemoteExport), ClientError> {
        let mut state = self.state();
        if !state.is_up || state.is_silent {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
        }
        let (inside, outside) = self.simulation.socket_pair();
        state.sockets.push((outside, Vec::new()));
        use transmission_flag::{CAN_MULTI_CONN, HAS_FLAGS, SEND_FLUSH, SEND_TRIM};
        let export = RemoteExport {
            size_bytes: state.contents.len() as u64,
            flags: HAS_FLAGS | SEND_FLUSH | SEND_TRIM | CAN_MULTI_CONN,
            block_bytes: 512,
        };
        Ok((self.simulation.endpoint(inside), export))
    }
}

impl State {
    /// Does the first request in the input; returns the reply, or `None` if there is no whole one.
    fn take_request(&mut self, input: &mut Vec<u8>) -> Option<Vec<u8>> {
        let raw = RawRequest::parse(input.first_chunk::<REQUEST_BYTES>()?).expect("a request");
        let (offset, length) = (raw.offset as usize, raw.length as usize);
        let data_bytes = if raw.kind == request::WRITE { length } else { 0 };
        if input.len() < REQUEST_BYTES + data_bytes {
            return None;
        }
        let message: Vec<u8> = input.drain(..REQUEST_BYTES + data_bytes).collect();
        let mut reply = simple_reply(0, raw.cookie).to_vec();
        match raw.kind {
            request::READ => reply.extend(&self.contents[offset..offset + length]),
            request::WRITE => {
                let bytes = message[REQUEST_BYTES..].to_vec();
                self.contents[offset..offset + length].copy_from_slice(&bytes);
                self.unflushed.push((offset, bytes));
            }
            request::FLUSH => {
                for (offset, bytes) in self.unflushed.drain(..) {
                    self.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
                }
            }
            kind => assert_eq!(kind, request::TRIM, "a request that members send"),
        }
        Some(reply)
    }
}
