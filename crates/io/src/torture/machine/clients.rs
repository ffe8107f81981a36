//! The clients of a tortured volume: their requests, and what the replies say.

use super::super::history::{BLOCKS, has_service};
use super::super::model::{BLOCK_BYTES, contents};
use super::front::Front;
use super::{Machine, Pending, TURNS_MAX, offset_of};
use crate::driver::buffers::Slice;
use crate::driver::{EventOwner, Token};
use crate::executor::{IoReply, IoRequest, Target};
use mirrorball_core::io::{RequestKind, VolumeError};
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_nbd::wire::{RawRequest, request};

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClientRequest {
    Read,
    Write,
    /// A write that is durable when it is replied to.
    DurableWrite,
    WriteZeroes,
    Trim,
    Flush,
}

impl ClientRequest {
    /// Returns true if it changes data.
    fn changes(self) -> bool {
        !matches!(self, ClientRequest::Read | ClientRequest::Flush)
    }

    fn sends_data(self) -> bool {
        matches!(self, ClientRequest::Write | ClientRequest::DurableWrite)
    }

    /// The request to an executor.
    fn kind(self) -> RequestKind {
        match self {
            ClientRequest::Read => RequestKind::Read,
            ClientRequest::Write => RequestKind::Write,
            ClientRequest::Flush => RequestKind::Flush,
            ClientRequest::DurableWrite | ClientRequest::WriteZeroes | ClientRequest::Trim => {
                unreachable!("only clients of a service ask for it: {self:?}")
            }
        }
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

impl Machine {
    /// Writes all blocks, so that each has a checksum.
    pub(super) fn write_all(&mut self) -> Result<(), String> {
        for block in 0..BLOCKS {
            self.submit(ClientRequest::Write, block);
        }
        self.settle()?;
        self.submit(ClientRequest::Flush, 0);
        self.settle()
    }

    /// A client of a whole service writes a block in one of several ways; of parts, in one.
    pub(super) fn write(&mut self, block: u64) {
        let way = if has_service(self.seed) { self.rng.below(8) } else { 0 };
        let request = match way {
            0..5 => ClientRequest::Write,
            5 => ClientRequest::DurableWrite,
            6 => ClientRequest::WriteZeroes,
            _ => ClientRequest::Trim,
        };
        self.submit(request, block);
    }

    pub(super) fn submit(&mut self, request: ClientRequest, block: u64) {
        let Some(served) = &mut self.served else { return };
        let acknowledged = self.model.acknowledged();
        let read_start = self.model.begin_read(block);
        let mut value = 0;
        if request.changes() {
            self.changes += 1;
            if self.rotten.remove(&block) {
                // A crash may leave the damaged mirror as it is, and a checksum that none matches.
                self.model.damage(block);
            }
            value = self.model.begin_write(block, request.sends_data());
        }
        let capacity_bytes = served.front.executor().size_bytes(Target::Volume);
        let offset = offset_of(capacity_bytes, block);
        let (offset, length) =
            if request == ClientRequest::Flush { (0, 0) } else { (offset, BLOCK_BYTES) };
        let data = if request.sends_data() { contents(block, value) } else { Vec::new() };
        let key = served.next_key;
        served.next_key += 1;
        // Only requests of one connection have an order.
        let overlapping =
            served.pending.values().find(|it| it.request.changes() && it.block == block);
        let client = overlapping.map_or(key, |pending| pending.client);
        let mut buffer = None;
        match &mut served.front {
            Front::Service(front) => {
                let (kind, flags) = request.on_the_wire();
                let raw =
                    RawRequest { flags, kind, cookie: key.into(), offset, length: length as u32 };
                let read_bytes = if request == ClientRequest::Read { length } else { 0 };
                front.client(client).send(raw, &data, read_bytes);
            }
            Front::Parts(parts) => {
                let executor = &mut parts.executor;
                buffer = (length > 0).then(|| executor.driver.acquire(BLOCK_BYTES));
                if let Some(buffer) = buffer.filter(|_| !data.is_empty()) {
                    let slice = Slice::data(buffer, 0, BLOCK_BYTES);
                    executor.driver.bytes_mut(slice).copy_from_slice(&data);
                }
                executor.submit(IoRequest {
                    token: Token::new(EventOwner::NbdRequest, key),
                    target: Target::Volume,
                    kind: request.kind(),
                    offset,
                    length: length as u64,
                    buffer,
                    stream: 7,
                });
            }
        }
        let changes = self.changes;
        let pending =
            Pending { request, client, block, value, buffer, acknowledged, read_start, changes };
        served.pending.insert(key, pending);
    }

    /// Takes a reply of the executor.
    pub(super) fn on_executor_reply(&mut self, reply: IoReply) -> Result<(), String> {
        let served = self.served.as_mut().expect("a reply comes from a served volume");
        let pending = served.pending.get(&reply.token.key()).expect("one reply to a request");
        let Front::Parts(parts) = &mut served.front else {
            unreachable!("a service keeps the replies of its executor")
        };
        let bytes = pending.buffer.map(|buffer| {
            let driver = &mut parts.executor.driver;
            let bytes = driver.bytes(Slice::data(buffer, 0, BLOCK_BYTES)).to_vec();
            driver.release(buffer);
            bytes
        });
        self.on_reply(reply.token.key(), reply.result, &bytes.unwrap_or_default())
    }

    /// Takes the reply to a request; `bytes` are the data of a read.
    pub(super) fn on_reply(
        &mut self,
        key: u32,
        result: Result<(), VolumeError>,
        bytes: &[u8],
    ) -> Result<(), String> {
        self.tally.replies += 1;
        let served = self.served.as_mut().expect("a reply comes from a served volume");
        let pending = served.pending.remove(&key).expect("one reply to a request");
        let Pending { request, block, value, acknowledged, read_start, changes, .. } = pending;
        let is_well = !self.disks.iter().any(|disk| disk.is_bad && self.rows.contains(&disk.file));
        let states = served.front.volume().into_iter().flat_map(|it| it.members().iter());
        let all_in_sync = states.into_iter().all(|(_, it)| it.state == MemberState::InSync);
        match (request, result) {
            (ClientRequest::Flush, Ok(())) => self.model.end_flush(&acknowledged),
            (ClientRequest::Flush, Err(_)) => {}
            (ClientRequest::Read, Ok(())) => {
                if self.has_lost_good && self.rotten.remove(&block) {
                    // Where a checksum is a hint, a damaged mirror counts that is the only one.
                    self.model.damage(block);
                }
                self.tally.unpromised += u64::from(self.model.is_damaged(block));
                let may_change = changes != self.changes || !is_well || !all_in_sync;
                self.model.end_read(block, &read_start, bytes, may_change)?;
            }
            (ClientRequest::Read, Err(_)) => {}
            (_, result) => {
                self.changes += 1;
                // After a trim, the block has the old data or zeroes.
                let is_certain = result.is_ok() && request != ClientRequest::Trim;
                self.model.end_write(block, value, is_certain);
                if result.is_ok() && request == ClientRequest::DurableWrite {
                    self.model.on_durable(block, value);
                }
                if is_certain && is_well {
                    self.on_written();
                }
            }
        }
        match result {
            // The good mirror may have been lost, or a record of the dirty log.
            Err(VolumeError::Unreadable)
                if self.has_checksums && (self.has_bad_metadata || !self.is_promised(block)) =>
            {
                Ok(())
            }
            Err(VolumeError::Unreadable) if is_well && all_in_sync && changes == self.changes => {
                Err(format!("{request:?} of block {block} failed, though all members are well"))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if no mirror of a block is damaged.
    pub(super) fn is_promised(&self, block: u64) -> bool {
        !self.rotten.contains(&block) && !self.model.is_damaged(block)
    }

    /// Lets the requests in flight end.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if self.served.as_ref().is_none_or(|served| served.pending.is_empty()) {
                return Ok(());
            }
            self.turn(Nanos::from_millis(100))?;
        }
        Err("requests do not end".to_owned())
    }
}
