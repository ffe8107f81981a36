//! An NBD client in the simulation: writes known contents, and checks every read.

use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_io::driver::sim::{ObjectId, SimulatedWorld};
use mirrorball_nbd::client::{ClientHandshake, ClientStep};
use mirrorball_nbd::wire::{RawReply, RawRequest, SIMPLE_REPLY_BYTES, request};
use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) const BLOCK_BYTES: usize = 4096;
/// Most requests of a client in flight.
const DEPTH: usize = 4;
/// Most blocks of a request.
const BLOCKS_MAX: u64 = 8;

/// What a client knows of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contents {
    /// It holds this version; 0 is zeroes.
    Version(u64),
    /// A write of it was abandoned with its connection, and may take effect at any time.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Read,
    Write { version: u64 },
    Flush,
}

struct InFlight {
    kind: Kind,
    blocks: Range<usize>,
}

pub(crate) struct Client {
    simulation: SimulatedWorld,
    rng: Rng,
    listener: ObjectId,
    socket: ObjectId,
    /// The handshake, until it is over.
    handshake: Option<ClientHandshake>,
    input: Vec<u8>,
    /// First block of the client's part of the volume.
    first_block: u64,
    pub(crate) contents: Vec<Contents>,
    in_flight: BTreeMap<u64, InFlight>,
    last_number: u64,
    requests_left: u32,
    next_request: Nanos,
    pub(crate) replies: u64,
}

/// The bytes of a block with this version.
pub(crate) fn block(number: u64, version: u64) -> Vec<u8> {
    let word = match version {
        0 => 0,
        version => version << 32 ^ number,
    };
    word.to_le_bytes().repeat(BLOCK_BYTES / 8)
}

impl Client {
    pub(crate) fn new(
        simulation: &SimulatedWorld,
        listener: ObjectId,
        blocks: Range<u64>,
        requests: u32,
        rng: Rng,
    ) -> Client {
        let count = (blocks.end - blocks.start) as usize;
        Client {
            simulation: simulation.clone(),
            rng,
            listener,
            socket: simulation.connect(listener),
            handshake: Some(ClientHandshake::new("")),
            input: Vec::new(),
            first_block: blocks.start,
            contents: vec![Contents::Version(0); count],
            in_flight: BTreeMap::new(),
            last_number: 0,
            requests_left: requests,
            next_request: Nanos::ZERO,
            replies: 0,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.requests_left == 0 && self.in_flight.is_empty()
    }

    /// Ends the connection in good order.
    pub(crate) fn disconnect(&self) {
        self.simulation.close(self.socket);
    }

    /// Numbers of the client's blocks, with what is known of them.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, Contents)> {
        (self.first_block..).zip(self.contents.iter().copied())
    }

    /// When the client wants to act next.
    pub(crate) fn next_request(&self) -> Option<Nanos> {
        (self.requests_left > 0 && self.in_flight.len() < DEPTH).then_some(self.next_request)
    }

    /// Handles what arrived, and sends what is due.
    pub(crate) fn act(&mut self, now: Nanos) {
        self.input.extend(self.simulation.receive(self.socket));
        while self.take_message() {}
        let is_due = self.next_request().is_some_and(|at| at <= now);
        if is_due && self.handshake.is_none() {
            self.next_request = now + Nanos(self.rng.below(5_000_000));
            match self.rng.below(100) {
                0 => self.reconnect(),
                _ => self.send_request(),
            }
        }
    }

    /// Breaks the connection in the middle of whatever is in flight, and makes another.
    fn reconnect(&mut self) {
        self.simulation.close(self.socket);
        for (_, InFlight { kind, blocks }) in std::mem::take(&mut self.in_flight) {
            if let Kind::Write { .. } = kind {
                self.contents[blocks].fill(Contents::Unknown);
            }
        }
        self.input.clear();
        self.socket = self.simulation.connect(self.listener);
        self.handshake = Some(ClientHandshake::new(""));
    }

    fn send_request(&mut self) {
        let blocks = self.contents.len() as u64;
        let first = self.rng.below(blocks);
        let end = (first + 1 + self.rng.below(BLOCKS_MAX)).min(blocks);
        let blocks = first as usize..end as usize;
        let is_busy =
            |other: &InFlight| other.blocks.start < blocks.end && blocks.start < other.blocks.end;
        let is_unknown = self.contents[blocks.clone()].contains(&Contents::Unknown);
        if is_unknown || self.in_flight.values().any(is_busy) {
            return;
        }
        self.requests_left -= 1;
        self.last_number += 1;
        let number = self.last_number;
        let (kind, number_kind, flags) = match self.rng.below(100) {
            0..45 => (Kind::Read, request::READ, 0),
            45..85 => (Kind::Write { version: number }, request::WRITE, 0),
            85..90 => (Kind::Write { version: number }, request::WRITE, request::FLAG_FUA),
            90..95 => (Kind::Write { version: 0 }, request::WRITE_ZEROES, 0),
            _ => (Kind::Flush, request::FLUSH, 0),
        };
        let (offset, length) = match kind {
            Kind::Flush => (0, 0),
            _ => (
                (self.first_block + first) * BLOCK_BYTES as u64,
                (blocks.len() * BLOCK_BYTES) as u32,
            ),
        };
        let raw = RawRequest { flags, kind: number_kind, cookie: number, offset, length };
        let mut message = raw.bytes().to_vec();
        if number_kind == request::WRITE {
            message
                .extend(blocks.clone().flat_map(|at| block(self.first_block + at as u64, number)));
        }
        self.simulation.send(self.socket, &message);
        let blocks = if kind == Kind::Flush { 0..0 } else { blocks };
        self.in_flight.insert(number, InFlight { kind, blocks });
    }

    /// Takes one message from the input; returns false if there is no whole one.
    fn take_message(&mut self) -> bool {
        let Some(handshake) = &mut self.handshake else { return self.take_reply() };
        let mut output = Vec::new();
        let (taken, step) = handshake.advance(&self.input, &mut output).unwrap();
        self.input.drain(..taken);
        self.simulation.send(self.socket, &output);
        if matches!(step, ClientStep::Attached(_)) {
            self.handshake = None;
        }
        taken > 0
    }

    fn take_reply(&mut self) -> bool {
        let Some(head) = self.input.first_chunk::<SIMPLE_REPLY_BYTES>() else { return false };
        let RawReply { error, cookie } = RawReply::parse(head).expect("a simple reply");
        let InFlight { kind, blocks } = self.in_flight.get(&cookie).expect("a known cookie");
        assert_eq!(error, 0, "{kind:?} of {blocks:?} fails though a mirror is in sync");
        let (kind, blocks) = (*kind, blocks.clone());
        let data_bytes = if kind == Kind::Read { blocks.len() * BLOCK_BYTES } else { 0 };
        if self.input.len() < SIMPLE_REPLY_BYTES + data_bytes {
            return false;
        }
        self.in_flight.remove(&cookie);
        self.replies += 1;
        let message: Vec<u8> = self.input.drain(..SIMPLE_REPLY_BYTES + data_bytes).collect();
        match kind {
            Kind::Write { version } => self.contents[blocks].fill(Contents::Version(version)),
            Kind::Read => {
                let found = message[SIMPLE_REPLY_BYTES..].chunks(BLOCK_BYTES);
                for (at, found) in blocks.zip(found) {
                    let Contents::Version(version) = self.contents[at] else { continue };
                    let number = self.first_block + at as u64;
                    assert!(
                        found == block(number, version),
                        "block {number} should hold version {version}, and begins with {:x?}",
                        &found[..8]
                    );
                }
            }
            Kind::Flush => {}
        }
        true
    }
}
