//! Member I/O of the volume: its buffers, and what the mirrors do differently.

use super::active_io::{ActiveIo, Origin, place};
use super::request::IoRequestKey;
use super::{Executor, IoRequest, Target};
use crate::Volume;
use crate::driver::buffers::{BufferKey, Slice};
use mirrorball_core::io::{
    IoError, IoId, MemberIo, Op, Purpose, ReadRole, Request, RequestId, RequestKind,
};
use mirrorball_core::slab::SlabKey;
use mirrorball_store::StoreVolume;

impl Executor {
    /// Starts a request for the volume.
    pub(super) fn submit_to_volume(&mut self, key: IoRequestKey, request: &IoRequest) {
        let IoRequest { kind, offset, length, stream, buffer, .. } = *request;
        let id = RequestId(key.slot().into());
        if kind == RequestKind::Discard && !self.may_discard() {
            return self.end_request(key, Ok(()));
        }
        let volume = self.volume.as_mut().expect("there is a volume");
        let background = matches!(
            kind,
            RequestKind::Rebuild(_)
                | RequestKind::Resync
                | RequestKind::Repair(_)
                | RequestKind::Scrub
        );
        let cpu = request.cpu();
        let request = Request { id, kind, offset, length, stream, cpu, background };
        match buffer.filter(|_| kind == RequestKind::Write && volume.has_checksums()) {
            Some(buffer) => {
                let data = self.driver.bytes(Slice::data(buffer, 0, length as usize));
                volume.submit_write(request, data);
            }
            None => volume.submit(request),
        }
    }

    /// Returns true if a discard leaves the mirrors of the volume equal.
    pub(super) fn may_discard(&self) -> bool {
        let copies = self.volume.as_ref().map_or(1, |volume| volume.map().copies());
        copies == 1 || self.discards_zero(Target::Volume)
    }

    /// Returns true if the volume keeps parity, so that it discards nothing.
    pub(super) fn has_parity(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| volume.map().parities() > 0)
    }

    /// Returns true if the data of the volume have checksums.
    pub(super) fn has_checksums(&self) -> bool {
        self.volume.as_ref().is_some_and(Volume::has_checksums)
    }

    /// Marks the range of a member I/O, which may differ from its mirrors.
    pub(super) fn mark_unsynced(&mut self, io: &ActiveIo) {
        if let Some(volume) = &mut self.volume
            && let Some(held) = volume.map().locate(io.member, io.offset)
        {
            let range = held.volume_offset..held.volume_offset + io.length;
            volume.change_gate(|store, _| store.add_unsynced(range));
        }
    }

    pub(super) fn launch_for_volume(&mut self, io: &MemberIo) {
        let request = IoRequestKey::from_slot(io.request.0 as u32);
        let is_metadata = io.purpose == Purpose::Metadata;
        let stripe = (io.role == ReadRole::Stripe).then(|| self.stripe_place(io));
        let within = match (stripe, io.op) {
            (Some((_, within)), _) => within,
            (None, Op::Read | Op::Write) if !is_metadata => self.offset_in_buffer(io),
            _ => 0,
        };
        let is_one_of_many = match io.role {
            ReadRole::First | ReadRole::Extra => true,
            ReadRole::Only => matches!(io.purpose, Purpose::Scrub | Purpose::Repair),
            ReadRole::Stripe => false,
        };
        let races = io.op == Op::Read && is_one_of_many;
        let own_buffer = match races {
            true => Some(self.driver.acquire(io.length as usize)),
            false if is_metadata && io.op == Op::Write => Some(self.metadata_buffer(io)),
            false if is_metadata && io.op == Op::Read => {
                Some(self.driver.acquire(io.length as usize))
            }
            false => None,
        };
        self.launch(ActiveIo {
            origin: Origin::Volume(io.id),
            request,
            member: io.member,
            op: io.op,
            place: self.place_of(io),
            offset: io.offset,
            length: io.length,
            within,
            own_buffer,
            stripe_buffer: stripe.map(|(buffer, _)| buffer),
            submitted_at: self.now,
            due: None,
            parts_left: 0,
            attachment: 0,
            zeroed: None,
            result: Ok(()),
        });
    }

    /// The buffer of the stripe of a member I/O, and the offset of its data there.
    fn stripe_place(&self, io: &MemberIo) -> (BufferKey, usize) {
        let volume = self.volume.as_ref().expect("the volume asked for it");
        let place = volume.stripe_place(io);
        (self.stripes.buffer(place), place.offset as usize)
    }

    /// A buffer with the metadata that an I/O writes.
    pub(super) fn metadata_buffer(&mut self, io: &MemberIo) -> BufferKey {
        let volume = self.volume.as_ref().expect("the volume asked for it");
        let bytes = volume.metadata_bytes(io);
        let buffer = self.driver.acquire(bytes.len());
        let slice = Slice::data(buffer, 0, bytes.len());
        self.driver.bytes_mut(slice).copy_from_slice(&bytes);
        buffer
    }

    /// Has the volume check what a read of a member returned, and returns how the I/O ends.
    pub(super) fn check_read(&mut self, id: IoId, io: &ActiveIo) -> Result<(), IoError> {
        let data = self.driver.bytes_of_part(place(&self.requests, io));
        let volume = self.volume.as_mut().expect("the volume asked for it");
        volume.on_read(id, data)
    }

    /// Offset of the data of a member I/O in the data of its request.
    pub(super) fn offset_in_buffer(&self, io: &MemberIo) -> usize {
        let request = self.requests.get(IoRequestKey::from_slot(io.request.0 as u32));
        let begin = match request.kind {
            // The offset of a rebuild request is an offset of the member.
            RequestKind::Rebuild(member) => {
                let map = self.volume.as_ref().expect("the volume asked for it").map();
                let extent = map.map(io.volume_offset, io.length);
                let target = extent.mirrors.iter().find(|mirror| mirror.member == member);
                target.expect("a rebuild touches only what its member holds").offset
            }
            _ => io.volume_offset,
        };
        (begin - request.offset) as usize
    }
}
