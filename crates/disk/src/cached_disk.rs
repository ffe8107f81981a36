//! A disk behind a cache tier: a model over the models of the disk and of the cache device.
//!
//! The rules are those of [`cache_tier`](crate::cache_tier); this is one of their two users. What
//! they ask for is submitted to the two models at the time of what led to it.

use crate::cache_contents::CacheContents;
use crate::cache_tier::{CacheSpec, CacheTier, TierDevice, TierIo};
use crate::model::{Completion, DiskIo, Model};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;

#[derive(Clone)]
pub(crate) struct CachedDisk {
    disk: Box<dyn Model>,
    cache: Box<dyn Model>,
    tier: CacheTier,
    part_completions: Vec<Completion>,
}

impl CachedDisk {
    /// `disk` behind an idle cache. Equal seeds give equal caches.
    pub(crate) fn new(disk: Box<dyn Model>, spec: &CacheSpec, seed: u64) -> CachedDisk {
        let mut rng = Rng::new(seed);
        CachedDisk {
            disk,
            cache: spec.device.build(rng.next_u64()),
            tier: CacheTier::new(spec, rng.next_u64()),
            part_completions: Vec::new(),
        }
    }

    /// Submits what the tier has ready.
    fn start_parts(&mut self, now: Nanos) {
        while let Some(TierIo { device, io, .. }) = self.tier.poll_io() {
            match device {
                TierDevice::Backing => self.disk.submit(now, io),
                TierDevice::Cache => self.cache.submit(now, io),
            }
        }
    }

    /// When a device would complete these I/Os if they were submitted together.
    fn completion_of_parts(device: &dyn Model, now: Nanos, parts: &[DiskIo]) -> Nanos {
        if let [io] = *parts {
            return device.completion_if_submitted(now, io);
        }
        let mut copy = device.boxed_clone();
        parts.iter().for_each(|&io| copy.submit(now, io));
        let (mut ended, mut left, mut last) = (Vec::new(), parts.len(), now);
        while left > 0 {
            copy.advance(copy.next_event().expect("an I/O in flight is an event"), &mut ended);
            for completion in ended.drain(..) {
                if parts.iter().any(|io| io.tag == completion.tag) {
                    (left, last) = (left - 1, last.max(completion.at));
                }
            }
        }
        last
    }
}

impl Model for CachedDisk {
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        self.tier.submit(io);
        self.start_parts(now);
    }

    fn next_event(&self) -> Option<Nanos> {
        [self.disk.next_event(), self.cache.next_event()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            let mut ended = std::mem::take(&mut self.part_completions);
            // The disk first: what it has read may be inserted at this instant.
            match self.disk.next_event() == Some(at) {
                true => self.disk.advance(at, &mut ended),
                false => self.cache.advance(at, &mut ended),
            }
            for part in ended.drain(..) {
                completions.extend(self.tier.end(part));
                self.start_parts(part.at);
            }
            self.part_completions = ended;
        }
    }

    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        let Some((device, part)) = self.tier.cancellable_part(tag) else { return false };
        let is_cancelled = match device {
            TierDevice::Backing => self.disk.cancel(now, part),
            TierDevice::Cache => self.cache.cancel(now, part),
        };
        if is_cancelled {
            self.tier.cancel_part(part);
        }
        is_cancelled
    }

    /// Exact but for what the insertions and write-backs to come delay.
    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        let completion = |device: TierDevice, model: &dyn Model| {
            Self::completion_of_parts(model, now, &self.tier.parts_if_submitted(io, device))
        };
        let on_disk = completion(TierDevice::Backing, self.disk.as_ref());
        let on_cache = completion(TierDevice::Cache, self.cache.as_ref());
        on_disk.max(on_cache)
    }

    fn cache_contents(&self) -> Option<CacheContents> {
        Some(self.tier.contents().clone())
    }

    fn set_cache_contents(&mut self, contents: CacheContents) {
        self.tier.set_contents(contents);
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
