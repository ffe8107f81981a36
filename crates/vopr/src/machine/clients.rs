//! The clients of a volume: their requests, and what the replies say.

use super::{Machine, REQUEST_TIME_MAX, TURNS_MAX};
use crate::history::{BLOCKS, ExtraFaults};
use crate::oracle::{BLOCK_BYTES, ReadStart, contents};
use crate::service::CLIENTS;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::io::VolumeError;
use mirrorball_core::units::Nanos;
use mirrorball_nbd::wire::{RawRequest, request};
use std::collections::{BTreeMap, BTreeSet};

/// Number of requests of clients in flight under load.
const LOAD: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientRequest {
    Read,
    Write,
    /// A write that is durable when it is replied to.
    DurableWrite,
    WriteZeroes,
    Trim,
    Flush,
}

struct SentRequest {
    request: ClientRequest,
    client: u32,
    block: u64,
    value: u64,
    /// The acknowledged value of each block when it began.
    acknowledged: Vec<u64>,
    /// Values that the block could hold when it began.
    read_start: ReadStart,
    /// Changes of anything that a read may depend on, when it began.
    changes: u64,
    /// True if no mirror of the block could be read when it began.
    was_lost: bool,
    /// Members in sync that certainly had the block when a read began, or were there for a write.
    had: Vec<usize>,
}

#[derive(Default)]
pub(crate) struct Requests {
    pending: BTreeMap<u32, SentRequest>,
    next_key: u32,
    /// Blocks of writes whose connection broke. The writes may take effect at any time, so the
    /// blocks are not written by others.
    abandoned: BTreeSet<u64>,
}

impl ClientRequest {
    /// Returns true if it changes data.
    fn changes(self) -> bool {
        !matches!(self, ClientRequest::Read | ClientRequest::Flush)
    }

    fn sends_data(self) -> bool {
        matches!(self, ClientRequest::Write | ClientRequest::DurableWrite)
    }

    /// Kind and flags of the request to an NBD server.
    fn on_the_wire(self) -> (u16, u16) {
        match self {
            ClientRequest::Read => (request::READ, 0),
            ClientRequest::Write => (request::WRITE, 0),
            ClientRequest::DurableWrite => (request::WRITE, request::FLAG_FUA),
            ClientRequest::WriteZeroes => (request::WRITE_ZEROES, 0),
            ClientRequest::Trim => (request::TRIM, 0),
            ClientRequest::Flush => (request::FLUSH, 0),
        }
    }
}

impl Requests {
    /// The blocks of the writes in flight.
    pub(super) fn written_blocks(&self) -> Vec<u64> {
        let pending = self.pending.values();
        pending.filter(|it| it.request.changes()).map(|it| it.block).collect()
    }

    /// Notes that a member may not have a block after the requests in flight.
    pub(super) fn forget_member(&mut self, row: usize, block: u64) {
        let pending = self.pending.values_mut().filter(|it| it.block == block);
        pending.for_each(|it| it.had.retain(|other| *other != row));
    }
}

impl Machine {
    /// Writes all blocks, so that each has a checksum.
    pub(crate) fn write_all(&mut self) -> Result<(), String> {
        for block in 0..BLOCKS {
            self.submit(ClientRequest::Write, block);
        }
        self.settle()?;
        self.submit(ClientRequest::Flush, 0);
        self.settle()
    }

    /// A client writes a block in one of several ways.
    pub(crate) fn write(&mut self, block: u64) {
        let request = match self.rng.below(8) {
            0..4 if self.shape.extra == ExtraFaults::Losses => ClientRequest::DurableWrite,
            0..5 => ClientRequest::Write,
            5 => ClientRequest::DurableWrite,
            6 => ClientRequest::WriteZeroes,
            _ => ClientRequest::Trim,
        };
        self.submit(request, block);
    }

    pub(crate) fn submit(&mut self, request: ClientRequest, block: u64) {
        let was_lost = self.is_lost(block);
        let had = self.kept_on(block, request.changes());
        let Some(served) = &mut self.served else { return };
        if request.changes() && self.requests.abandoned.contains(&block) {
            return;
        }
        let acknowledged = self.oracle.acknowledged();
        let read_start = self.oracle.begin_read(block);
        let mut value = 0;
        if request.changes() {
            self.changes += 1;
            if self.damage.rotten.remove(&block) {
                // A crash may leave the damaged mirror as it is, and a checksum that none matches.
                self.oracle.damage(block);
            }
            value = self.oracle.begin_write(block, request.sends_data());
        }
        let is_flush = request == ClientRequest::Flush;
        let offset = if is_flush { 0 } else { block_offset(&self.map, block) };
        let length = if is_flush { 0 } else { BLOCK_BYTES };
        let data = if request.sends_data() { contents(block, value) } else { Vec::new() };
        let Requests { pending, next_key, .. } = &mut self.requests;
        let key = *next_key;
        *next_key += 1;
        // Only requests of one connection have an order.
        let overlapping = pending.values().find(|it| it.request.changes() && it.block == block);
        let client = overlapping.map_or(key, |pending| pending.client) % CLIENTS as u32;
        let (kind, flags) = request.on_the_wire();
        let raw = RawRequest { flags, kind, cookie: key.into(), offset, length: length as u32 };
        let read_bytes = if request == ClientRequest::Read { length } else { 0 };
        served.client(client).send(raw, &data, read_bytes);
        let changes = self.changes;
        let sent = SentRequest {
            request,
            client,
            block,
            value,
            acknowledged,
            read_start,
            changes,
            was_lost,
            had,
        };
        pending.insert(key, sent);
        self.note_kept();
    }

    /// Has a client break its connection.
    pub(crate) fn reconnect(&mut self, client: u32) {
        let Some(served) = &mut self.served else { return };
        served.reconnect(client);
        let Requests { pending, abandoned, .. } = &mut self.requests;
        pending.retain(|_, it| {
            if it.client == client && it.request.changes() {
                abandoned.insert(it.block);
            }
            it.client != client
        });
    }

    pub(crate) fn forget_requests(&mut self) {
        self.requests = Requests::default();
    }

    /// Handles the reply to a request; `bytes` are the data of a read.
    pub(crate) fn on_reply(
        &mut self,
        key: u32,
        result: Result<(), VolumeError>,
        bytes: &[u8],
    ) -> Result<(), String> {
        self.tally.replies += 1;
        let pending = self.requests.pending.remove(&key).expect("one reply to a request");
        let SentRequest {
            request,
            block,
            value,
            acknowledged,
            read_start,
            changes,
            was_lost,
            had,
            ..
        } = pending;
        let is_well = self.is_well();
        match (request, result) {
            (ClientRequest::Flush, Ok(())) => self.oracle.end_flush(&acknowledged),
            (ClientRequest::Flush | ClientRequest::Read, Err(_)) => {}
            (ClientRequest::Read, Ok(())) => {
                if self.damage.has_lost_good && self.damage.rotten.remove(&block) {
                    // Where a checksum is a hint, a damaged mirror counts that is the only one.
                    self.oracle.damage(block);
                }
                let may_change = changes != self.changes || !is_well;
                self.oracle.end_read(block, &read_start, bytes, may_change)?;
            }
            (_, result) => {
                self.changes += 1;
                // After a trim, the block has the old data or zeroes.
                let is_certain = result.is_ok() && request != ClientRequest::Trim;
                self.oracle.end_write(block, value, is_certain);
                if result.is_ok() && request == ClientRequest::DurableWrite {
                    self.oracle.on_durable(block, value);
                    self.keep(block, &had);
                }
                if is_certain && self.has_no_fault() {
                    self.on_written();
                }
                if is_certain && is_well && changes + 1 == self.changes && self.is_listed(block) {
                    return Err(format!("block {block} was written, and is listed as bad"));
                }
            }
        }
        let kept = self.kept_on(block, false).into_iter().find(|row| had.contains(row));
        if let (ClientRequest::Read, Err(error), Some(row)) = (request, result, kept) {
            return Err(format!("{error} of block {block}, which devid {} has", row + 1));
        }
        // The good mirror may have been lost, or a record of the dirty log.
        let is_excused =
            self.shape.has_checksums && (self.damage.has_bad_metadata || !self.is_promised(block));
        // It was a bad block, and a crash cut a write of it.
        let is_cut = self.is_listed(block) && self.oracle.possible(block).len() > 1;
        let is_excused = is_excused || was_lost || is_cut || self.is_lost(block);
        match result {
            Err(VolumeError::Unreadable) if !is_excused && is_well && changes == self.changes => {
                Err(format!("{request:?} of block {block} failed, though all members are well"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if no mirror of a block is damaged.
    pub(crate) fn is_promised(&self, block: u64) -> bool {
        !self.damage.rotten.contains(&block) && !self.oracle.is_damaged(block)
    }

    /// Returns true if no request and no command is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.requests.pending.is_empty()
            && self.served.as_ref().is_none_or(|served| !served.has_commands())
    }

    /// Lets the requests in flight end.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let limits = (Nanos::from_millis(100), REQUEST_TIME_MAX);
        self.turn_until("requests do not end", limits, |machine| {
            machine.served.is_none() || machine.requests.pending.is_empty()
        })
    }

    /// Runs turns of at most `timeout` until something holds, which it does within `longest`.
    pub(crate) fn turn_until(
        &mut self,
        otherwise: &str,
        (timeout, longest): (Nanos, Nanos),
        holds: impl Fn(&Machine) -> bool,
    ) -> Result<(), String> {
        let deadline = self.world.now() + longest;
        for _ in 0..TURNS_MAX {
            if holds(self) {
                return Ok(());
            }
            if self.world.now() >= deadline {
                break;
            }
            if self.is_loaded {
                self.load();
            }
            self.turn(timeout)?;
        }
        Err(otherwise.to_owned())
    }

    /// Has the clients send as many requests as they may have in flight. Ten seconds after an error
    /// are ten million requests, in which nothing is to be shown.
    pub(crate) fn load(&mut self) {
        let now = self.world.now();
        let rebuild = self.served.as_ref().map(|served| served.service.rebuild());
        if rebuild.is_some_and(|rebuild| rebuild.waits_after_error(now)) {
            return;
        }
        while self.served.is_some() && self.requests.pending.len() < LOAD {
            let block = self.rng.below(BLOCKS);
            let request = [ClientRequest::Read, ClientRequest::Write][self.rng.below(2) as usize];
            let before = self.requests.pending.len();
            self.submit(request, block);
            if self.requests.pending.len() == before {
                break;
            }
        }
    }
}

pub(crate) fn block_offset(map: &ChunkMap, block: u64) -> u64 {
    let block_bytes = BLOCK_BYTES as u64;
    map.capacity_bytes() / BLOCKS / block_bytes * block_bytes * block
}
