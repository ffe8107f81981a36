//! The write-back cache of an emulated controller, in front of the volume.
//!
//! When data are written back is decided by [`WriteBackCache`], as in a simulation; here are the
//! data. They are in memory until they are on the members. A write-back is a write of the
//! executor's own, with a copy of its data.
//!
//! A read that the cache cannot answer as a whole goes to the volume. What the cache had of its
//! range when it began is newer, and is copied over what the members had. What is written meanwhile
//! may be left out: such writes are concurrent with the read.
//!
//! Discards are ignored: data that were discarded while they are written back must not return where
//! a client relies on zeroes. So discards do not zero here, and zeroes are written.

use super::cached_data::{CachedData, CachedPiece};
use super::request::IoRequestKey;
use super::{Executor, IoRequest, Target};
use crate::driver::buffers::{BufferKey, Slice};
use crate::driver::{EventOwner, Token};
use mirrorball_core::io::{Request, RequestId, RequestKind, VolumeError};
use mirrorball_core::slab::SlabKey;
use mirrorball_disk::controller::{Admission, ControllerSpec, WriteBack, WriteBackCache};
use std::collections::BTreeMap;

/// The stream of write-backs; clients have small numbers.
const STREAM: u64 = u64::MAX;

pub(super) struct ControllerCache {
    cache: WriteBackCache,
    data: CachedData,
    /// The write-backs in flight, by the slot of their request.
    write_backs: BTreeMap<u32, StartedWriteBack>,
    /// Cached pieces of the range of a read that the volume serves, by the slot of its
    /// request.
    newer: BTreeMap<u32, Vec<(u64, CachedPiece)>>,
    /// Whether data were lost because a write-back failed.
    has_failed: bool,
}

struct StartedWriteBack {
    write_back: WriteBack,
    /// The latest write whose data it may have.
    last_write: u64,
}

impl ControllerCache {
    fn new(spec: ControllerSpec) -> ControllerCache {
        ControllerCache {
            cache: WriteBackCache::new(spec),
            data: CachedData::default(),
            write_backs: BTreeMap::new(),
            newer: BTreeMap::new(),
            has_failed: false,
        }
    }
}

impl Executor {
    /// Puts a controller with a write-back cache in front of the volume.
    pub fn with_controller(self, spec: ControllerSpec) -> Executor {
        Executor { controller: Some(ControllerCache::new(spec)), ..self }
    }

    /// Bytes in the cache of the controller that are not on the members yet.
    pub fn cached_bytes(&self) -> u64 {
        self.controller.as_ref().map_or(0, |controller| controller.cache.cached_bytes())
    }

    /// True if data are lost because the cache of the controller could not write them.
    pub fn has_lost_cached_data(&self) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.has_failed)
    }

    /// Has the controller write back all that it has, whatever its marks say.
    pub fn drain_controller(&mut self) {
        if let Some(controller) = &mut self.controller {
            controller.cache.drain();
            self.turn();
        }
    }

    /// Gives a request of a client to the cache of the controller, if there is one. Returns false
    /// if the volume is to serve it.
    pub(super) fn controller_takes(&mut self, key: IoRequestKey, request: &IoRequest) -> bool {
        let IoRequest { kind, offset, length, buffer, stream, .. } = *request;
        if self.controller.is_none() {
            return false;
        }
        let size_bytes = self.size_bytes(Target::Volume);
        if offset.checked_add(length).is_none_or(|end| end > size_bytes) {
            return false;
        }
        if kind == RequestKind::Discard {
            self.end_request(key, Ok(()));
            return true;
        }
        let controller = self.controller.as_mut().expect("it was there");
        let id = RequestId(key.slot().into());
        let cpu = request.cpu();
        let asked = Request { id, kind, offset, length, stream, cpu, background: false };
        match controller.cache.submit(asked) {
            Admission::Done => {}
            Admission::Waits => return true,
            Admission::PassedOn => {
                if kind == RequestKind::Read {
                    let newer = controller.data.get(offset..offset + length);
                    if !newer.is_empty() {
                        controller.newer.insert(key.slot(), newer);
                    }
                }
                return false;
            }
        }
        let lost = controller.has_failed;
        match (kind, buffer) {
            (RequestKind::Write, Some(buffer)) => self.store(offset, length, buffer),
            (RequestKind::Read, Some(buffer)) => {
                let found = controller.data.get(offset..offset + length);
                self.copy_pieces(offset, &found, buffer);
            }
            _ => {}
        }
        let is_flush_of_lost = kind == RequestKind::Flush && lost;
        self.end_request(key, if is_flush_of_lost { Err(VolumeError::Unwritable) } else { Ok(()) });
        true
    }

    /// Lets the cache take writes that waited, and submits its write-backs that are due. Returns
    /// true if there were write-backs.
    pub(super) fn run_controller(&mut self) -> bool {
        let mut has_submitted = false;
        while let (Some(controller), Some(volume)) = (&mut self.controller, &self.volume) {
            if let Some(id) = controller.cache.poll_admitted() {
                let key = IoRequestKey::from_slot(id.0 as u32);
                let IoRequest { offset, length, buffer, .. } = *self.requests.get(key);
                self.store(offset, length, buffer.expect("a write has a buffer"));
                self.end_request(key, Ok(()));
            } else if let Some(write_back) = controller.cache.poll_write_back(volume.map()) {
                self.write_back(write_back);
                has_submitted = true;
            } else {
                break;
            }
        }
        has_submitted
    }

    /// Ends a request. Returns true if it was a write-back, which has no client.
    pub(super) fn end_for_controller(
        &mut self,
        key: IoRequestKey,
        result: Result<(), VolumeError>,
    ) -> bool {
        let Some(controller) = &mut self.controller else { return false };
        if let Some(started) = controller.write_backs.remove(&key.slot()) {
            let WriteBack { number, offset, length } = started.write_back;
            controller.has_failed |= result.is_err();
            controller.cache.end_write_back(number, result.is_ok());
            controller.data.remove(offset..offset + length, started.last_write);
            let buffer = self.requests.get(key).buffer.expect("a write has a buffer");
            self.driver.release(buffer);
            return true;
        }
        if let Some(newer) = controller.newer.remove(&key.slot()) {
            let IoRequest { offset, buffer, .. } = *self.requests.get(key);
            self.copy_pieces(offset, &newer, buffer.expect("a read has a buffer"));
        }
        false
    }

    fn store(&mut self, offset: u64, length: u64, buffer: BufferKey) {
        let data = self.driver.bytes(Slice::data(buffer, 0, length as usize));
        let controller = self.controller.as_mut().expect("it took the write");
        controller.data.insert(offset, data);
    }

    /// Copies data of the cache into the buffer of a request that begins at `offset`.
    fn copy_pieces(&mut self, offset: u64, found: &[(u64, CachedPiece)], buffer: BufferKey) {
        for (start, piece) in found {
            let bytes = piece.bytes();
            let place = Slice::data(buffer, (start - offset) as usize, bytes.len());
            self.driver.bytes_mut(place).copy_from_slice(bytes);
        }
    }

    fn write_back(&mut self, write_back: WriteBack) {
        let WriteBack { offset, length, .. } = write_back;
        let buffer = self.driver.acquire(length as usize);
        let controller = self.controller.as_mut().expect("it has a write-back");
        let found = controller.data.get(offset..offset + length);
        let request = IoRequest {
            token: Token::new(EventOwner::MemberFile, 0),
            target: Target::Volume,
            kind: RequestKind::Write,
            offset,
            length,
            buffer: Some(buffer),
            stream: STREAM,
        };
        let key = self.requests.insert(request);
        let last_write = controller.data.last_write();
        controller.write_backs.insert(key.slot(), StartedWriteBack { write_back, last_write });
        self.copy_pieces(offset, &found, buffer);
        self.submit_to_volume(key, &request);
    }
}
