//! The caches in front of the volume: the cache tier of the host, and below it the cache of the
//! controller. An array has both, one, or none of them.
//!
//! A read, write, flush or discard of a client goes to the cache tier first. Its parts for the
//! array, and all requests of an array without a tier, go to the controller. The controller
//! completes writes that it has taken, and writes to the volume later.
//!
//! The requests of both caches carry a bit in their number, so that a reply of the volume or of the
//! controller shows whose it is. The host overhead of a request counts with caches as without. All
//! that follows at one instant is done at the end of its event, in one loop (`run_caches`).

use super::array_cache::ArrayCache;
use super::{Engine, PendingKey};
use crate::client::RequestEnd;
use mirrorball_core::io::{IoError, Op, Request, RequestId, RequestKind};
use mirrorball_core::slab::SlabKey;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_disk::cache_contents::CacheContents;
use mirrorball_disk::cache_tier::{CacheTierCounts, TierIo};
use mirrorball_disk::controller::{Admission, ControllerCounts, WriteBack, WriteBackCache};
use mirrorball_disk::model::Completion;

/// The bit in the number of a write of the controller; numbers of pending requests are smaller.
const WRITE_BACK: u64 = 1 << 63;
/// The bit in the number of a request of the cache tier.
const TIER_PART: u64 = 1 << 62;
/// The streams of what the controller and the tier write. Clones and background work have others.
const CONTROLLER_STREAM: u64 = 999;
const TIER_STREAM: u64 = 998;

/// The caches in front of a volume; at least one.
pub(super) struct FrontCaches {
    pub(super) array_cache: Option<ArrayCache>,
    controller: Option<WriteBackCache>,
    /// Requests of clients that ended with I/Os of the cache device.
    ended: Vec<Completion>,
}

#[inline]
pub(super) fn is_of_cache(request: RequestId) -> bool {
    request.0 & (WRITE_BACK | TIER_PART) != 0
}

impl FrontCaches {
    /// The caches of an array; none if it has none.
    pub(super) fn new(array: &ArraySpec, seed: u64) -> Option<FrontCaches> {
        let array_cache = array.cache.as_ref().map(|spec| ArrayCache::new(spec, seed));
        let controller = array.controller.map(WriteBackCache::new);
        let has_one = array_cache.is_some() || controller.is_some();
        has_one.then(|| FrontCaches { array_cache, controller, ended: Vec::new() })
    }

    /// When something happens next in a cache device; [`Nanos::MAX`] if nothing does.
    pub(super) fn next_event(&self) -> Nanos {
        self.array_cache.as_ref().and_then(ArrayCache::next_event).unwrap_or(Nanos::MAX)
    }

    pub(super) fn tier_counts(&self) -> Option<CacheTierCounts> {
        self.array_cache.as_ref().map(|cache| cache.tier.counts())
    }

    pub(super) fn controller_counts(&self) -> Option<ControllerCounts> {
        self.controller.as_ref().map(WriteBackCache::counts)
    }

    pub(super) fn contents(&self) -> Option<CacheContents> {
        self.array_cache.as_ref().map(|cache| cache.tier.contents().clone())
    }

    /// Replaces what is in the cache tier. Without one, nothing changes.
    pub(super) fn set_contents(&mut self, contents: CacheContents) {
        if let Some(cache) = &mut self.array_cache {
            cache.tier.set_contents(contents);
        }
    }
}

impl Engine {
    /// Gives a request of a client to the first cache that it is for, or to the volume.
    pub(super) fn submit_to_caches(&mut self, request: Request) {
        let tier = self.caches.as_mut().and_then(|caches| caches.array_cache.as_mut());
        if !tier.is_some_and(|tier| tier.submit(&request)) {
            self.submit_below_tier(request);
        }
    }

    /// Gives a request to the cache of the controller, or to the volume. Returns true if it went to
    /// the volume.
    fn submit_below_tier(&mut self, request: Request) -> bool {
        let controller = self.caches.as_mut().and_then(|caches| caches.controller.as_mut());
        match controller.map_or(Admission::PassedOn, |controller| controller.submit(request)) {
            Admission::Done => self.end_above_controller(request.id, true),
            Admission::Waits => {}
            Admission::PassedOn => {
                self.submit_to_volume(request);
                return true;
            }
        }
        false
    }

    /// Runs the caches until neither they nor the volume have anything to do at this instant.
    #[cold]
    pub(super) fn run_caches(&mut self) {
        self.end_cache_device_io();
        while self.poll_caches() {
            self.submit_member_io();
        }
    }

    fn end_cache_device_io(&mut self) {
        let Some(caches) = &mut self.caches else { return };
        let Some(tier) = &mut caches.array_cache else { return };
        let mut ended = std::mem::take(&mut caches.ended);
        tier.advance(self.now, &mut ended);
        for completion in ended.drain(..) {
            self.reply_to_client(completion.tag, completion.result.is_ok());
        }
        if let Some(caches) = &mut self.caches {
            caches.ended = ended;
        }
    }

    /// Starts the I/Os of the cache tier that are ready, completes writes that the controller has
    /// taken meanwhile, and submits its write-backs that are due. Returns true if any of it went to
    /// the volume.
    fn poll_caches(&mut self) -> bool {
        let mut has_submitted = false;
        while let Some(FrontCaches { array_cache, controller, .. }) = self.caches.as_deref_mut() {
            let now = self.now;
            if let Some(part) = array_cache.as_mut().and_then(|cache| cache.poll_io(now)) {
                has_submitted |= self.submit_part(part);
                continue;
            }
            let Some(controller) = controller else { break };
            if let Some(request) = controller.poll_admitted() {
                self.end_above_controller(request, true);
            } else if let Some(write_back) = controller.poll_write_back(self.volume.map()) {
                self.submit_to_volume(request_of(write_back));
                has_submitted = true;
            } else {
                break;
            }
        }
        has_submitted
    }

    /// Submits an I/O of the cache tier to the array. Returns true if it went to the volume.
    fn submit_part(&mut self, TierIo { io, request, .. }: TierIo) -> bool {
        let submitter = request.map(|tag| {
            let pending = self.pending.get(PendingKey::from_slot(tag as u32));
            &self.slots[pending.slot as usize]
        });
        // A dirty block at the end of the volume may reach beyond it.
        let length_max = self.volume.map().capacity_bytes().saturating_sub(io.offset);
        self.submit_below_tier(Request {
            id: RequestId(TIER_PART | io.tag),
            kind: match io.op {
                Op::Read => RequestKind::Read,
                Op::Write => RequestKind::Write,
                Op::Flush => RequestKind::Flush,
                Op::Discard => RequestKind::Discard,
            },
            offset: io.offset,
            length: io.length.min(length_max),
            stream: submitter.map_or(TIER_STREAM, |slot| slot.stream),
            cpu: submitter.map_or(0, |slot| slot.cpu),
            background: submitter.is_some_and(|slot| slot.section.is_none()),
        })
    }

    pub(super) fn end_for_cache(&mut self, request: RequestId, is_ok: bool) {
        if request.0 & WRITE_BACK == 0 {
            return self.end_above_controller(request, is_ok);
        }
        if let Some(controller) = self.caches.as_mut().and_then(|it| it.controller.as_mut()) {
            controller.end_write_back(request.0 & !WRITE_BACK, is_ok);
        }
    }

    /// Ends a request to the array: a part of the cache tier, or a request of a client.
    fn end_above_controller(&mut self, request: RequestId, is_ok: bool) {
        if request.0 & TIER_PART == 0 {
            return self.reply_to_client(request.0, is_ok);
        }
        let Some(tier) = self.caches.as_mut().and_then(|caches| caches.array_cache.as_mut()) else {
            return;
        };
        // Which error it was makes no difference to the tier.
        let result = if is_ok { Ok(()) } else { Err(IoError::Medium) };
        let part = Completion { tag: request.0 & !TIER_PART, at: self.now, result };
        if let Some(ended) = tier.tier.end(part) {
            self.reply_to_client(ended.tag, ended.result.is_ok());
        }
    }

    fn reply_to_client(&mut self, request: u64, is_ok: bool) {
        let end = if is_ok { RequestEnd::Done } else { RequestEnd::Failed };
        self.queue_reply(PendingKey::from_slot(request as u32), end);
    }
}

fn request_of(WriteBack { number, offset, length }: WriteBack) -> Request {
    Request {
        id: RequestId(WRITE_BACK | number),
        kind: RequestKind::Write,
        offset,
        length,
        stream: CONTROLLER_STREAM,
        cpu: 0,
        background: false,
    }
}
