//! Member I/O in flight: how it starts, for the volume or a request for a single member, and how it
//! ends.
//!
//! An I/O of a real member has one part: the file operation, or the request to the other machine.
//! An I/O of an emulated member has two: the model's, and the transfer of its data if that takes
//! time. Data in memory are copied at the start of the I/O, because copying a megabyte when the I/O
//! is due would make it late.

use super::member_fault::FailedIo;
use super::member_slot::MemberSlot;
use super::request::{ActiveIoKey, IoPlace, RequestName};
use super::{Executor, IoRequest, MemberStats, Target};
use crate::Volume;
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{EventOwner, Handle, Token};
use crate::member::Store;
use crate::member::remote::RemoteRequest;
use mirrorball_core::io::{
    IoError, IoId, MemberIo, Op, Purpose, ReadRole, Request, RequestId, RequestKind, VolumeError,
};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::SlabKey;
use mirrorball_core::units::Nanos;
use mirrorball_disk::model::DiskIo;
use mirrorball_store::StoreVolume;

/// The source of a member I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// The volume, which calls it by this ID.
    Volume(IoId),
    /// A request for a single member, with this token.
    Direct(Token),
}

/// A member I/O in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveIo {
    pub(super) origin: Origin,
    pub(super) member: MemberIndex,
    pub(super) op: Op,
    pub(super) place: IoPlace,
    /// First byte, on the member.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The place of its data in the buffer of the request or of a full stripe.
    data: Option<Slice>,
    /// A buffer of its own, for one of several reads of the same data.
    pub(super) own_buffer: Option<BufferKey>,
    /// True for a read of what was repaired.
    is_read_back: bool,
    pub(super) submitted_at: Nanos,
    /// When it ended by the model.
    pub(super) due: Option<Nanos>,
    pub(super) parts_left: u8,
    /// The attachment of the member when it was started, or of the successor that has it now.
    pub(super) attachment: u32,
    pub(super) began_on: u32,
    pub(super) result: Result<(), IoError>,
}

impl ActiveIo {
    /// An I/O that was not started.
    fn new(
        origin: Origin,
        (member, place, op): (MemberIndex, IoPlace, Op),
        (offset, length): (u64, u64),
        data: Option<Slice>,
        now: Nanos,
    ) -> ActiveIo {
        ActiveIo {
            origin,
            member,
            op,
            place,
            offset,
            length,
            data,
            own_buffer: None,
            is_read_back: false,
            submitted_at: now,
            due: None,
            parts_left: 0,
            attachment: 0,
            began_on: 0,
            result: Ok(()),
        }
    }

    /// Returns true if it is of a request for a single member.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self.origin, Origin::Direct(_))
    }

    /// The memory that it reads from or writes to.
    pub(super) fn memory(&self) -> Slice {
        match self.own_buffer {
            Some(buffer) => Slice::data(buffer, 0, self.length as usize),
            None => self.data.expect("data has a buffer"),
        }
    }

    /// Description of an I/O that failed.
    pub(super) fn failed(&self) -> FailedIo {
        let ActiveIo { op, offset, length, is_read_back, .. } = *self;
        FailedIo { op, offset, length, is_read_back }
    }
}

/// Data of a request in a buffer of their own, until the request ends: the first good read of a
/// race, or what was recovered from a full stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct LateData {
    pub(super) buffer: BufferKey,
    pub(super) request: RequestId,
    /// Their place in the buffer of the request.
    pub(super) to: Slice,
}

impl Executor {
    /// Starts a request for the volume.
    pub(super) fn submit_to_volume(&mut self, request: &IoRequest) {
        let IoRequest { kind, offset, length, stream, buffer, .. } = *request;
        if kind == RequestKind::Discard && !self.may_discard() {
            return self.reply(request.token, Ok(()));
        }
        let volume = self.volume.as_mut().expect("there is a volume");
        let background = matches!(
            kind,
            RequestKind::Rebuild(_)
                | RequestKind::Resync
                | RequestKind::Repair(_)
                | RequestKind::Scrub
        );
        let (id, cpu) = (request.id(), request.cpu());
        let request = Request { id, kind, offset, length, stream, cpu, background };
        match buffer.filter(|_| kind == RequestKind::Write && volume.has_checksums()) {
            Some(buffer) => {
                let data = self.driver.bytes(Slice::data(buffer, 0, length as usize));
                volume.submit_write(request, data);
            }
            None => volume.submit(request),
        }
    }

    /// Starts a request for a single member.
    pub(super) fn submit_to_member(&mut self, member: MemberIndex, request: &IoRequest) {
        let IoRequest { token, kind, offset, length, buffer, .. } = *request;
        let size_bytes = self.slots[member.get()].config.size_bytes;
        let op = match kind {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Discard => Op::Discard,
            RequestKind::Scrub
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => return self.reply(token, Err(VolumeError::NotRebuilding)),
        };
        if offset.checked_add(length).is_none_or(|end| end > size_bytes) {
            return self.reply(token, Err(VolumeError::OutOfRange));
        }
        self.now = self.time();
        self.advance_models();
        let data = buffer.map(|buffer| Slice::data(buffer, 0, length as usize));
        let target = (member, IoPlace::Member, op);
        let origin = Origin::Direct(token);
        self.launch(ActiveIo::new(origin, target, (offset, length), data, self.now));
    }

    /// Starts a member I/O of the volume.
    pub(super) fn launch_for_volume(&mut self, io: &MemberIo) {
        let is_metadata = io.purpose == Purpose::Metadata;
        let data = match (io.role, io.op) {
            (ReadRole::Stripe, _) => Some(self.place_in_stripe(io)),
            (_, Op::Read | Op::Write) if !is_metadata => Some(self.place_in_request(io)),
            _ => None,
        };
        let is_one_of_many = match io.role {
            ReadRole::First | ReadRole::Extra => true,
            ReadRole::Only => matches!(io.purpose, Purpose::Scrub | Purpose::Repair),
            ReadRole::Stripe => false,
        };
        let target = (io.member, self.place_of(io), io.op);
        let range = (io.offset, io.length);
        let mut active = ActiveIo::new(Origin::Volume(io.id), target, range, data, self.now);
        active.is_read_back = io.purpose == Purpose::Repair && io.op == Op::Read;
        active.own_buffer = match io.op {
            Op::Read if is_metadata || is_one_of_many => {
                Some(self.driver.acquire(io.length as usize))
            }
            Op::Write if is_metadata => Some(self.metadata_buffer(io)),
            _ => None,
        };
        self.launch(active);
    }

    /// Where an I/O of the volume goes.
    fn place_of(&self, io: &MemberIo) -> IoPlace {
        let successor = self.slots[io.member.get()].successor.as_ref();
        let is_written = io.op == Op::Write && io.purpose != Purpose::Metadata;
        let Some(successor) = successor.filter(|it| is_written && it.fault.is_none()) else {
            return IoPlace::Member;
        };
        let is_copy = || {
            let request = self.wanted_by().request_of(io);
            request.kind == RequestKind::Rebuild(io.member)
        };
        match io.purpose == Purpose::Rebuild && is_copy() {
            true => IoPlace::Successor(successor.handle),
            false => IoPlace::Both(successor.handle),
        }
    }

    /// The place of the data of a member I/O in the buffer of its request.
    fn place_in_request(&self, io: &MemberIo) -> Slice {
        let volume = self.wanted_by();
        let request = volume.request_of(io);
        let begin = match request.kind {
            // The offset of a rebuild request is an offset of the member.
            RequestKind::Rebuild(member) => {
                let extent = volume.map().map(io.volume_offset, io.length);
                let target = extent.mirrors.iter().find(|mirror| mirror.member == member);
                target.expect("a rebuild touches only what its member holds").offset
            }
            _ => io.volume_offset,
        };
        let buffer = RequestName::of(io.request).buffer.expect("data has a buffer");
        Slice::data(buffer, (begin - request.offset) as usize, io.length as usize)
    }

    /// The place of the data of a member I/O in the buffer of its stripe.
    fn place_in_stripe(&self, io: &MemberIo) -> Slice {
        let place = self.wanted_by().stripe_place(io);
        Slice::data(self.stripes.buffer(place), place.offset as usize, io.length as usize)
    }

    /// The volume of a member I/O.
    fn wanted_by(&self) -> &Volume {
        self.volume.as_ref().expect("the volume asked for it")
    }

    /// A buffer with the metadata that an I/O writes.
    fn metadata_buffer(&mut self, io: &MemberIo) -> BufferKey {
        let bytes = self.wanted_by().metadata_bytes(io);
        let buffer = self.driver.acquire(bytes.len());
        let slice = Slice::data(buffer, 0, bytes.len());
        self.driver.bytes_mut(slice).copy_from_slice(&bytes);
        buffer
    }

    /// Starts a member I/O.
    pub(super) fn launch(&mut self, io: ActiveIo) {
        let key = self.active.insert(io);
        let slot = &mut self.slots[io.member.get()];
        slot.stats.in_flight += 1;
        let active = self.active.get_mut(key);
        (active.attachment, active.began_on) = (slot.attachment, slot.attachment);
        match io.place {
            IoPlace::Member => {}
            IoPlace::Both(successor) => self.start_successor_part(key, &io, successor),
            IoPlace::Successor(it) => return self.start_successor_part(key, &io, it),
        }
        let slot = &mut self.slots[io.member.get()];
        let handle = match &mut slot.store {
            Store::Real(handle) => {
                let handle = *handle;
                return self.start_file_part(key, &io, handle);
            }
            Store::Remote(remote) => {
                let moves = matches!(io.op, Op::Read | Op::Write);
                let data = moves.then(|| io.memory());
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
                match io.op {
                    Op::Read => memory.read(io.offset, self.driver.bytes_mut(io.memory())),
                    Op::Write => memory.write(io.offset, self.driver.bytes(io.memory())),
                    Op::Discard => memory.discard(io.offset, io.length),
                    Op::Flush => {}
                }
                None
            }
            Store::EmulatedNothing => {
                if io.op == Op::Read {
                    self.driver.bytes_mut(io.memory()).fill(0);
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
                    let data = self.driver.bytes_of_part(io.memory());
                    let volume = self.volume.as_mut().expect("the volume asked for it");
                    io.result = volume.on_read(id, data);
                }
                let volume = self.volume.as_mut().expect("the volume asked for it");
                let (member_io, outcome) = volume.complete(id, io.result, now);
                if let Some(buffer) = io.own_buffer {
                    let is_wanted = outcome.result.is_ok() && !outcome.superseded;
                    self.end_own_buffer(buffer, &io, &member_io, is_wanted);
                }
            }
            Origin::Direct(token) => {
                let error = match io.op {
                    Op::Read => VolumeError::Unreadable,
                    Op::Write | Op::Flush | Op::Discard => VolumeError::Unwritable,
                };
                self.reply(token, io.result.map_err(|_| error));
            }
        }
    }

    /// Keeps the data of a read in a buffer of its own if they are wanted, or releases the buffer.
    fn end_own_buffer(
        &mut self,
        buffer: BufferKey,
        io: &ActiveIo,
        member_io: &MemberIo,
        is_wanted: bool,
    ) {
        let to = io.data.filter(|_| is_wanted && io.op == Op::Read);
        match (member_io.purpose, to) {
            // Other member I/Os of the request may still write to its buffer.
            (Purpose::User | Purpose::Rebuild, Some(to)) => {
                self.late_data.push(LateData { buffer, request: member_io.request, to });
            }
            (Purpose::Scrub, Some(to)) if !self.has_checksums() => {
                self.keep_mirror(buffer, to, member_io);
            }
            // The volume has taken or compared the data, or they were read back only to see whether
            // they can be read.
            _ => self.driver.release(buffer),
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

    /// Returns true if members may get discards: mirrors on which all are carried out stay equal.
    pub(super) fn may_discard(&self) -> bool {
        let copies = self.volume.as_ref().map_or(1, |volume| volume.map().copies());
        copies == 1 || self.discards_zero(Target::Volume)
    }

    /// Returns true if the volume keeps parity, so that it discards nothing.
    fn has_parity(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| volume.map().parities() > 0)
    }

    /// Handles that the file or device of a member supports no discards. A discard is a hint; but
    /// other members may have discarded the range, so the mirrors may differ there.
    pub(super) fn on_refused_discard(&mut self, io: &ActiveIo) {
        let slot = &mut self.slots[io.member.get()];
        if io.attachment == slot.attachment {
            slot.discards = false;
        }
        if let Some(volume) = self.volume.as_mut().filter(|_| !io.is_direct())
            && let Some(held) = volume.map().locate(io.member, io.offset)
        {
            let range = held.volume_offset..held.volume_offset + io.length;
            volume.change_gate(|store, _| store.add_unsynced(range));
        }
    }

    /// Copies the late data of a request into its buffer.
    pub(super) fn copy_late_data(&mut self, ended: RequestId) {
        let driver = &mut self.driver;
        self.late_data.retain(|&LateData { buffer, request, to }| {
            if request == ended {
                driver.copy(Slice::data(buffer, 0, to.length), to);
                driver.release(buffer);
            }
            request != ended
        });
    }

    /// Returns true if the data of the volume have checksums.
    pub(super) fn has_checksums(&self) -> bool {
        self.volume.as_ref().is_some_and(Volume::has_checksums)
    }

    /// Ends the parts that ended outside of a turn, in their order.
    pub(super) fn end_parts(&mut self) {
        while let Some((key, result)) = self.ended_parts.pop_front() {
            self.end_part(ActiveIoKey::from_slot(key), result);
        }
    }

    fn start_file_part(&mut self, key: ActiveIoKey, io: &ActiveIo, file: Handle) {
        let token = Token::new(EventOwner::MemberFile, key.slot());
        self.slots[io.member.get()].file_io.on_start(self.now);
        self.active.get_mut(key).parts_left += 1;
        match io.op {
            Op::Read => {
                self.driver.read(token, file, io.offset, io.memory());
            }
            Op::Write => {
                self.driver.write(token, file, io.offset, io.memory());
            }
            Op::Flush => self.start_flush(key, io.member),
            Op::Discard => self.driver.discard(token, file, io.offset, io.length),
        }
    }
}

fn count(stats: &mut MemberStats, io: &ActiveIo, now: Nanos) {
    stats.in_flight -= 1;
    let wait = now - io.submitted_at;
    match (io.result, io.op) {
        _ if matches!(io.place, IoPlace::Successor(_)) => {}
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
