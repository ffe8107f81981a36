//! The cache tier in front of the whole array: its rules, and a model of its device.

use mirrorball_core::io::{Op, Request, RequestKind};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::cache_tier::{CacheSpec, CacheTier, TierDevice, TierIo};
use mirrorball_disk::model::{Completion, DiskIo, Model};

/// A cache on a device of its own.
pub(super) struct ArrayCache {
    pub(super) tier: CacheTier,
    device: Box<dyn Model>,
    completions: Vec<Completion>,
}

impl ArrayCache {
    /// An idle cache. Equal seeds give equal caches.
    pub(super) fn new(spec: &CacheSpec, seed: u64) -> ArrayCache {
        // A stream of its own, so that a cache does not change the draws of members.
        let mut rng = Rng::stream(seed, "cache of the array");
        ArrayCache {
            device: spec.device.build(rng.next_u64()),
            tier: CacheTier::new(spec, rng.next_u64()),
            completions: Vec::new(),
        }
    }

    /// When something happens next in the cache device.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }

    /// Handles a request of a client. Returns false if it is not for the cache: rebuilds and scrubs
    /// are done below it.
    pub(super) fn submit(&mut self, request: &Request) -> bool {
        let op = match request.kind {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => Op::Flush,
            RequestKind::Discard => Op::Discard,
            RequestKind::Scrub
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => return false,
        };
        let Request { id, offset, length, .. } = *request;
        self.tier.submit(DiskIo { tag: id.0, op, offset, length });
        true
    }

    /// Starts the I/Os of the cache device that are ready. Returns the next one of the array.
    pub(super) fn poll_io(&mut self, now: Nanos) -> Option<TierIo> {
        while let Some(part) = self.tier.poll_io() {
            match part.device {
                TierDevice::Cache => self.device.submit(now, part.io),
                TierDevice::Backing => return Some(part),
            }
        }
        None
    }

    /// Ends the I/Os of the cache device that are complete, and appends the requests that ended
    /// with them.
    pub(super) fn advance(&mut self, now: Nanos, ended: &mut Vec<Completion>) {
        self.device.advance(now, &mut self.completions);
        for completion in self.completions.drain(..) {
            ended.extend(self.tier.end(completion));
        }
    }
}
