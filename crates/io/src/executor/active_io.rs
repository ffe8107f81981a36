//! Member I/O in flight: how it starts, and how it ends.
//!
//! An I/O of a real member has one part: the file operation, or the request to the other machine.
//! An I/O of an emulated member has two: the model's, and the transfer of its data if that takes
//! time. Data in memory are copied at the start of the I/O, because copying a megabyte when the I/O
//! is due would make it late.

use super::member_fault::FailedIo;
use super::member_slot::MemberSlot;
use super::request::{ActiveIoKey, IoPlace, IoRequestKey};
use super::{Executor, IoRequest, MemberStats, Target};
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{Driver, EventOwner, Handle, Token};
use crate::member::Store;
use crate::member::remote::RemoteRequest;
use mirrorball_core::io::{IoError, IoId, Op, Purpose, RequestKind, VolumeError};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_disk::model::DiskIo;

const ZEROING_BYTES: usize = 1 << 20;

/// The source of a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// The volume, which calls it by this ID.
    Volume(IoId),
    /// A request for a single member.
    Direct,
}

/// A member I/O in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveIo {
    pub(super) origin: Origin,
    /// The request whose buffer it uses.
    pub(super) request: IoRequestKey,
    pub(super) member: MemberIndex,
    pub(super) op: Op,
    pub(super) place: IoPlace,
    /// First byte, on the member.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Offset of its data in the data of the request.
    pub(super) within: usize,
    /// A buffer of its own, for one of several reads of the same data.
    pub(super) own_buffer: Option<BufferKey>,
    /// The buffer of a full stripe, in which its data are instead.
    pub(super) stripe_buffer: Option<BufferKey>,
    pub(super) submitted_at: Nanos,
    /// When it ended by the model.
    pub(super) due: Option<Nanos>,
    pub(super) parts_left: u8,
    /// The attachment of the member when it was started.
    pub(super) attachment: u32,
    /// Number of bytes written with zeroes, for a discard that its member does not support.
    pub(super) zeroed: Option<u64>,
    pub(super) result: Result<(), IoError>,
}

impl ActiveIo {
    /// Description of an I/O that failed.
    pub(super) fn failed(&self) -> FailedIo {
        match self.zeroed {
            Some(done) => FailedIo {
                op: Op::Write,
                offset: self.offset + done,
                length: zeroing_step(self, done),
            },
            None => FailedIo { op: self.op, offset: self.offset, length: self.length },
        }
    }
}

/// Data of a request in a buffer of their own, until the request ends: the first good read of a
/// race, or what was recovered from a full stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateData {
    pub(super) buffer: BufferKey,
    pub(super) request: IoRequestKey,
    /// Offset in the data of the request.
    pub(super) within: usize,
    pub(super) length: usize,
}

impl Executor {
    /// Starts a request for a single member.
    pub(super) fn submit_to_member(
        &mut self,
        key: IoRequestKey,
        member: MemberIndex,
        request: &IoRequest,
    ) {
        let size_bytes = self.slots[member.get()].config.size_bytes;
        let op = match request.kind {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Discard => Op::Discard,
            RequestKind::Scrub
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => {
                return self.end_request(key, Err(VolumeError::NotRebuilding));
            }
        };
        if request.offset.checked_add(request.length).is_none_or(|end| end > size_bytes) {
            return self.end_request(key, Err(VolumeError::OutOfRange));
        }
        self.now = self.time();
        self.advance_models();
        self.launch(ActiveIo {
            origin: Origin::Direct,
            request: key,
            member,
            op,
            place: IoPlace::Member,
            offset: request.offset,
            length: request.length,
            within: 0,
            own_buffer: None,
            stripe_buffer: None,
            submitted_at: self.now,
            due: None,
            parts_left: 0,
            attachment: 0,
            zeroed: None,
            result: Ok(()),
        });
    }

    /// Starts a member I/O.
    pub(super) fn launch(&mut self, io: ActiveIo) {
        let key = self.active.insert(io);
        let slot = &mut self.slots[io.member.get()];
        slot.stats.in_flight += 1;
        self.active.get_mut(key).attachment = slot.attachment;
        if io.place != IoPlace::Member {
            self.start_successor_part(key, &io, place(&self.requests, &io));
        }
        if io.place == IoPlace::Successor {
            return;
        }
        let slot = &mut self.slots[io.member.get()];
        let handle = match &mut slot.store {
            Store::Real(handle) => {
                let handle = *handle;
                return self.start_file_part(key, &io, handle);
            }
            Store::Remote(remote) => {
                let moves = matches!(io.op, Op::Read | Op::Write);
                let data = moves.then(|| place(&self.requests, &io));
                let ActiveIo { op, offset, length, .. } = io;
                let request = RemoteRequest { key: key.slot(), op, offset, length, data };
                self.active.get_mut(key).parts_left += 1;
                remote.start(request, &mut self.driver, &mut self.ended_parts);
                return self.end_parts();
            }
            Store::Absent => {
                self.active.get_mut(key).parts_left += 1;
                self.ended_parts.push_back((key.slot(), Err(IoError::Gone)));
                return self.end_parts();
            }
            Store::EmulatedFile(handle) => Some(*handle),
            Store::EmulatedMemory(memory) => {
                let (requests, driver) = (&self.requests, &mut self.driver);
                match io.op {
                    Op::Read => memory.read(io.offset, driver.bytes_mut(place(requests, &io))),
                    Op::Write => memory.write(io.offset, driver.bytes(place(requests, &io))),
                    Op::Discard => memory.discard(io.offset, io.length),
                    Op::Flush => {}
                }
                None
            }
            Store::EmulatedNothing => {
                if io.op == Op::Read {
                    self.driver.bytes_mut(place(&self.requests, &io)).fill(0);
                }
                None
            }
        };
        // A flush of the backing file would cost what the host's disk does, and say nothing about
        // the emulated one.
        if let Some(handle) = handle.filter(|_| io.op != Op::Flush) {
            self.start_file_part(key, &io, handle);
        }
        let ActiveIo { op, offset, length, submitted_at, .. } = io;
        self.active.get_mut(key).parts_left += 1;
        let model_array = self.model_array.as_mut().expect("an emulated member has a model");
        model_array.submit(
            submitted_at,
            io.member,
            DiskIo { tag: key.slot().into(), op, offset, length },
        );
    }

    /// Ends a part of a member I/O. The I/O ends with its last part.
    pub(super) fn end_part(&mut self, key: ActiveIoKey, result: Result<(), IoError>) {
        let io = self.active.get_mut(key);
        io.result = io.result.and(result);
        io.parts_left -= 1;
        if io.parts_left > 0 {
            return;
        }
        let mut io = self.active.remove(key).expect("a member I/O ends once");
        let now = self.now;
        let slot = &mut self.slots[io.member.get()];
        if io.attachment != slot.attachment && io.result.is_err() {
            // It failed on storage that was replaced meanwhile. The new storage is being rebuilt
            // from its beginning, which covers what this I/O wrote.
            io.result = if io.op == Op::Read { Err(IoError::Cancelled) } else { Ok(()) };
        }
        slot.discards &= io.op != Op::Discard || io.result.is_ok();
        count(&mut slot.stats, &io, now);
        if let Some(due) = io.due {
            // By the clock, not `self.now`: I/Os that ended earlier in this turn delayed it, too.
            let late = self.clock.model(self.driver.now()).saturating_sub(due);
            slot.stats.lateness.record(self.clock.real(late));
        }
        if let Err(error) = io.result {
            self.note_error(io.member, io.failed(), error);
        }
        match io.origin {
            Origin::Volume(id) => {
                if io.op == Op::Read && io.result.is_ok() && self.has_checksums() {
                    io.result = self.check_read(id, &io);
                }
                let volume = self.volume.as_mut().expect("the volume asked for it");
                let (member_io, outcome) = volume.complete(id, io.result, now);
                let wanted = io.op == Op::Read && outcome.result.is_ok() && !outcome.superseded;
                match io.own_buffer {
                    None => {}
                    // The volume has taken it, or has compared it.
                    Some(buffer) if wanted && member_io.purpose == Purpose::Metadata => {
                        self.driver.release(buffer);
                    }
                    Some(buffer) if member_io.purpose == Purpose::Scrub && self.has_checksums() => {
                        self.driver.release(buffer);
                    }
                    // It was read back only to see whether it can be read.
                    Some(buffer) if member_io.purpose == Purpose::Repair => {
                        self.driver.release(buffer);
                    }
                    Some(buffer) if wanted && member_io.purpose == Purpose::Scrub => {
                        self.keep_mirror(buffer, &io);
                    }
                    // Other member I/Os of the request may still write to its buffer.
                    Some(buffer) if wanted => {
                        let ActiveIo { request, within, length, .. } = io;
                        let length = length as usize;
                        self.late_data.push(LateData { buffer, request, within, length });
                    }
                    Some(buffer) => self.driver.release(buffer),
                }
            }
            Origin::Direct => {
                let error = match io.op {
                    Op::Read => VolumeError::Unreadable,
                    Op::Write | Op::Flush | Op::Discard => VolumeError::Unwritable,
                };
                self.end_request(io.request, io.result.map_err(|_| error));
            }
        }
    }

    /// True if discarded ranges of a target read as zeroes. Becomes false when a discard ends that
    /// did not zero its range. Panics if there is no such target.
    pub fn discards_zero(&self, target: Target) -> bool {
        match target {
            Target::Volume => {
                !self.has_parity() && self.slots.iter().all(MemberSlot::discards_zero)
            }
            Target::Member(member) => self.slots[member.get()].discards_zero(),
        }
    }

    /// Writes zeroes where a member does not discard and others did, so that mirrors stay equal;
    /// `done` bytes are written. Ends the I/O with its last bytes.
    pub(super) fn zero_instead(&mut self, key: ActiveIoKey, done: u64) {
        let io = self.active.get_mut(key);
        if done >= io.length {
            return self.end_part(key, Ok(()));
        }
        io.zeroed = Some(done);
        let (length, offset, member) = (zeroing_step(io, done), io.offset + done, io.member);
        let buffer = *io.own_buffer.get_or_insert_with(|| zeroes(&mut self.driver));
        let Store::Real(handle) = self.slots[member.get()].store else {
            return self.end_part(key, Err(IoError::Gone));
        };
        let token = Token::new(EventOwner::MemberFile, key.slot());
        let zeroes = Slice::data(buffer, 0, length as usize);
        self.driver.write(token, handle, offset, zeroes);
    }

    /// Copies the late data of a request into its buffer.
    pub(super) fn copy_late_data(&mut self, key: IoRequestKey) {
        let (driver, requests) = (&mut self.driver, &self.requests);
        self.late_data.retain(|&LateData { buffer, request, within, length }| {
            if request != key {
                return true;
            }
            let target = requests.get(key).buffer.expect("a read has a buffer");
            let from = Slice::data(buffer, 0, length);
            driver.copy(from, Slice::data(target, within, length));
            driver.release(buffer);
            false
        });
    }

    /// Ends the parts that ended outside of a turn, in their order.
    pub(super) fn end_parts(&mut self) {
        while let Some((key, result)) = self.ended_parts.pop_front() {
            self.end_part(ActiveIoKey::from_slot(key), result);
        }
    }

    fn start_file_part(&mut self, key: ActiveIoKey, io: &ActiveIo, file: Handle) {
        let token = Token::new(EventOwner::MemberFile, key.slot());
        self.active.get_mut(key).parts_left += 1;
        match io.op {
            Op::Read => {
                self.driver.read(token, file, io.offset, place(&self.requests, io));
            }
            Op::Write => {
                self.driver.write(token, file, io.offset, place(&self.requests, io));
            }
            Op::Flush => self.start_flush(key, io.member),
            Op::Discard => self.driver.discard(token, file, io.offset, io.length),
        }
    }
}

/// A buffer of zeroes for [`zeroing_step`].
fn zeroes(driver: &mut Driver) -> BufferKey {
    let buffer = driver.acquire(ZEROING_BYTES);
    driver.bytes_mut(Slice::data(buffer, 0, ZEROING_BYTES)).fill(0);
    buffer
}

/// Number of bytes to zero next after `done`, for a discard that its member does not support.
pub(super) fn zeroing_step(io: &ActiveIo, done: u64) -> u64 {
    (io.length - done).min(ZEROING_BYTES as u64)
}

/// The memory that a member I/O reads from or writes to.
pub(super) fn place(requests: &Slab<IoRequestKey, IoRequest>, io: &ActiveIo) -> Slice {
    let length = io.length as usize;
    match (io.own_buffer, io.stripe_buffer) {
        (Some(buffer), _) => Slice::data(buffer, 0, length),
        (None, Some(buffer)) => Slice::data(buffer, io.within, length),
        (None, None) => {
            let buffer = requests.get(io.request).buffer.expect("data has a buffer");
            Slice::data(buffer, io.within, length)
        }
    }
}

fn count(stats: &mut MemberStats, io: &ActiveIo, now: Nanos) {
    stats.in_flight -= 1;
    let wait = now - io.submitted_at;
    match (io.result, io.op) {
        _ if io.place == IoPlace::Successor => {}
        (Err(IoError::Cancelled), _) => {}
        (Err(_), _) => stats.errors += 1,
        (Ok(()), Op::Read) => {
            stats.reads += 1;
            stats.read_bytes += io.length;
            stats.read_wait.record(wait);
        }
        (Ok(()), Op::Write) => {
            stats.writes += 1;
            stats.written_bytes += io.length;
            stats.write_wait.record(wait);
        }
        (Ok(()), Op::Flush) => stats.flushes += 1,
        (Ok(()), Op::Discard) => {}
    }
}
