//! The way of a request to the volume: directly, or through the cache of a controller.
//!
//! The cache completes a write when it has taken it, and writes to the volume later, by requests of
//! its own. Their numbers have the bit [`WRITE_BACK`], so that a reply of the volume shows whose it
//! is. The host overhead of a request counts with a cache as without.

use super::{Engine, PendingKey, PendingRequest};
use crate::client::{ClientRequest, RequestEnd};
use mirrorball_core::io::{Reply, Request, RequestId, RequestKind};
use mirrorball_core::slab::SlabKey;
use mirrorball_disk::controller::{Admission, WriteBack};

/// The bit in the number of a request of the cache; numbers of pending requests are smaller.
const WRITE_BACK: u64 = 1 << 63;
/// The stream of the cache's writes. Clones and background work have others.
const CONTROLLER_STREAM: u64 = 999;

impl Engine {
    #[inline]
    pub(super) fn submit(&mut self, slot: u32, request: ClientRequest) {
        let submitter = &mut self.slots[slot as usize];
        let overhead = self.host_overhead.draw(&mut submitter.overhead_rng);
        let key = self.pending.insert(PendingRequest { slot, overhead, request });
        submitter.in_flight += 1;
        let base = match request.kind {
            RequestKind::Rebuild(_) => 0,
            _ => submitter.base,
        };
        let request = Request {
            id: RequestId(u64::from(key.slot())),
            kind: request.kind,
            offset: base + request.offset,
            length: request.length,
            stream: submitter.stream,
            cpu: submitter.cpu,
            background: submitter.section.is_none(),
        };
        match &mut self.cache {
            None => self.submit_to_volume(request),
            Some(cache) => match cache.submit(request) {
                Admission::Done => self.queue_reply(key, RequestEnd::Done),
                Admission::Waits => {}
                Admission::PassedOn => self.submit_to_volume(request),
            },
        }
    }

    #[inline]
    fn submit_to_volume(&mut self, request: Request) {
        if let Some(checkers) = &mut self.checkers {
            checkers.on_request(&request, self.now);
        }
        self.volume.submit(request);
    }

    /// Runs the cache until neither it nor the volume has anything to do at this instant.
    #[cold]
    pub(super) fn run_cache(&mut self) {
        while self.poll_cache() {
            self.submit_member_io();
        }
    }

    /// Completes writes that the cache has taken meanwhile, and submits its write-backs that are
    /// due. Returns true if there were write-backs.
    fn poll_cache(&mut self) -> bool {
        let mut has_submitted = false;
        while let Some(cache) = &mut self.cache {
            if let Some(request) = cache.poll_admitted() {
                self.queue_reply(PendingKey::from_slot(request.0 as u32), RequestEnd::Done);
            } else if let Some(write_back) = cache.poll_write_back(self.volume.map()) {
                self.submit_to_volume(request_of(write_back));
                has_submitted = true;
            } else {
                break;
            }
        }
        has_submitted
    }

    /// Takes a reply of the volume if it is to a request of the cache.
    #[inline]
    pub(super) fn take_write_back(&mut self, reply: &Reply) -> bool {
        let is_write_back = reply.request.0 & WRITE_BACK != 0;
        if let Some(cache) = self.cache.as_mut().filter(|_| is_write_back) {
            cache.end_write_back(reply.request.0 & !WRITE_BACK, reply.result.is_ok());
        }
        is_write_back
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
