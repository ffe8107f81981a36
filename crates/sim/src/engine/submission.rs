//! The way of a request of a client to the volume: directly, or through the caches in front of it.

use super::{Engine, PendingRequest};
use crate::client::ClientRequest;
use mirrorball_core::io::{Request, RequestId, RequestKind};
use mirrorball_core::slab::SlabKey;

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
        if self.caches.is_some() || self.checkers.is_some() {
            // A copy, so that the request of the usual case needs no place in memory.
            return self.submit_watched(Request { ..request });
        }
        self.volume.submit(request);
    }

    #[inline(never)]
    fn submit_watched(&mut self, request: Request) {
        match self.caches {
            None => self.submit_to_volume(request),
            Some(_) => self.submit_to_caches(request),
        }
    }

    pub(super) fn submit_to_volume(&mut self, request: Request) {
        if let Some(checkers) = &mut self.checkers {
            checkers.on_request(&request, self.now);
        }
        self.volume.submit(request);
    }
}
