//! Background work that fio cannot express: defrag, rebuild and scrub.
//!
//! Each keeps a fixed number of requests in flight and may have a rate limit. Sizes and depths are
//! those of the systems named at each constant. None adapts to foreground load: kernels throttle
//! such work by a rate, and the job file can give one.

mod scrub;

pub(crate) use scrub::ScrubClient;

use crate::client::{Action, Client, ClientRequest, EndedRequest, RequestEnd, RequestOrigin};
use crate::job::Rebuilder;
use crate::read_ahead::IoRange;
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{KIB, Nanos};

/// Simulates `btrfs filesystem defragment` of a fragmented file: reads extents at random places of
/// `source`, and writes them sequentially to `target`.
pub(crate) struct Defrag {
    source: IoRange,
    target: IoRange,
    rng: Rng,
    rate_limit: RateLimit,
    reads_in_flight: u32,
    /// Bytes read and not yet written.
    dirty_bytes: u64,
    /// Whether write-back is active.
    writing_back: bool,
    writes_in_flight: u32,
    written_bytes: u64,
}

/// Rebuilds a member from its recovery offset to its end.
pub(crate) struct RebuildClient {
    member: MemberIndex,
    next: IoRange,
    rate_limit: RateLimit,
    in_flight: u32,
    depth: u32,
}

/// Limits the bytes per second of a stream of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    bytes_per_second: Option<u64>,
    not_before: Nanos,
    /// How long a stream pauses that is too fast, and how far it may be ahead before it does. It
    /// begins without a pause.
    pause: Nanos,
}

/// Bytes of an extent: by default defrag merges extents smaller than 256 KiB.
const EXTENT_BYTES: u64 = 256 * KIB;
/// Extents that defrag reads at once: btrfs sets its read-ahead to 4 MiB.
const DEFRAG_READS_MAX: u32 = (4096 * KIB / EXTENT_BYTES) as u32;
/// Dirty bytes at which write-back starts; it continues until none are left. The kernel's flusher
/// writes in such bursts, by an interval and a threshold. The amount is our estimate for a desktop.
const DEFRAG_WRITE_BACK_BYTES: u64 = 64 * 1024 * KIB;
/// Dirty bytes at which reading pauses.
const DEFRAG_DIRTY_BYTES_MAX: u64 = 2 * DEFRAG_WRITE_BACK_BYTES;
/// Writes that defrag has in flight: half of the 64 requests of a SATA disk's queue.
const DEFRAG_WRITES_MAX: u32 = 32;
/// A rebuild copies blocks of this size.
const REBUILD_BYTES: u64 = 128 * KIB;

impl RateLimit {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> RateLimit {
        RateLimit { bytes_per_second, not_before: Nanos::ZERO, pause: Nanos::ZERO }
    }

    /// Accounts for `bytes` at `now`, or returns the time at which they may be submitted.
    fn take(&mut self, now: Nanos, bytes: u64) -> Result<(), Nanos> {
        let Some(rate) = self.bytes_per_second else {
            return Ok(());
        };
        if now + self.pause < self.not_before {
            return Err(self.not_before);
        }
        self.not_before = self.not_before.max(now) + Nanos::transfer(bytes, rate);
        Ok(())
    }
}

impl Defrag {
    /// Reads extents of `source` and writes them sequentially to `target`, repeatedly.
    pub(crate) fn new(
        source: IoRange,
        target: IoRange,
        rate_limit: RateLimit,
        seed: u64,
    ) -> Defrag {
        Defrag {
            source,
            target,
            rng: Rng::stream(seed, "defrag"),
            rate_limit,
            reads_in_flight: 0,
            dirty_bytes: 0,
            writing_back: false,
            writes_in_flight: 0,
            written_bytes: 0,
        }
    }

    fn write(&mut self) -> ClientRequest {
        self.dirty_bytes -= EXTENT_BYTES;
        self.writes_in_flight += 1;
        let offset = self.target.offset + self.written_bytes % whole_extents(self.target);
        self.written_bytes += EXTENT_BYTES;
        request(RequestKind::Write, offset, EXTENT_BYTES)
    }

    fn read(&mut self) -> ClientRequest {
        let extents = whole_extents(self.source) / EXTENT_BYTES;
        let offset = self.source.offset + self.rng.below(extents) * EXTENT_BYTES;
        self.reads_in_flight += 1;
        request(RequestKind::Read, offset, EXTENT_BYTES)
    }
}

impl Client for Defrag {
    fn next_action(&mut self, now: Nanos) -> Action {
        self.writing_back &= self.dirty_bytes > 0;
        self.writing_back |= self.dirty_bytes >= DEFRAG_WRITE_BACK_BYTES;
        if self.writing_back && self.writes_in_flight < DEFRAG_WRITES_MAX {
            return Action::Submit(self.write());
        }
        let busy = self.reads_in_flight >= DEFRAG_READS_MAX;
        if busy || self.dirty_bytes >= DEFRAG_DIRTY_BYTES_MAX {
            return Action::Wait;
        }
        match self.rate_limit.take(now, EXTENT_BYTES) {
            Ok(()) => Action::Submit(self.read()),
            Err(later) => Action::Sleep(later),
        }
    }

    fn on_reply(&mut self, request: &ClientRequest, end: RequestEnd, _now: Nanos) -> EndedRequest {
        if request.kind == RequestKind::Write {
            self.writes_in_flight -= 1;
        } else {
            self.reads_in_flight -= 1;
            self.dirty_bytes += if end == RequestEnd::Failed { 0 } else { request.length };
        }
        EndedRequest::None
    }
}

impl RebuildClient {
    /// Rebuilds the range `stale` of a member as `rebuilder` does, at no more than this rate.
    pub(crate) fn new(
        member: MemberIndex,
        stale: IoRange,
        rebuilder: Rebuilder,
        bytes_per_second: Option<u64>,
    ) -> RebuildClient {
        let (depth, pause) = match rebuilder {
            Rebuilder::Gmirror => (2, Nanos::ZERO),
            Rebuilder::Md => (16, Nanos::from_millis(500)),
        };
        let rate_limit = RateLimit { pause, ..RateLimit::new(bytes_per_second) };
        RebuildClient { member, next: stale, rate_limit, in_flight: 0, depth }
    }
}

impl Client for RebuildClient {
    fn next_action(&mut self, now: Nanos) -> Action {
        if self.next.length == 0 {
            return Action::End;
        }
        if self.in_flight >= self.depth {
            return Action::Wait;
        }
        let length = REBUILD_BYTES.min(self.next.length);
        if let Err(later) = self.rate_limit.take(now, length) {
            return Action::Sleep(later);
        }
        let offset = self.next.offset;
        self.next = IoRange { offset: offset + length, length: self.next.length - length };
        self.in_flight += 1;
        Action::Submit(request(RequestKind::Rebuild(self.member), offset, length))
    }

    fn on_reply(&mut self, _order: &ClientRequest, end: RequestEnd, _now: Nanos) -> EndedRequest {
        self.in_flight -= 1;
        if end == RequestEnd::Failed {
            // The member failed again, or its last source is lost.
            self.next.length = 0;
        }
        EndedRequest::None
    }
}

/// A request of background work. Its latency is not measured, so the intended start is zero.
fn request(kind: RequestKind, offset: u64, length: u64) -> ClientRequest {
    ClientRequest {
        kind,
        origin: RequestOrigin::Application,
        offset,
        length,
        intended: Nanos::ZERO,
    }
}

/// Bytes of `range` in whole extents.
fn whole_extents(range: IoRange) -> u64 {
    range.length / EXTENT_BYTES * EXTENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: u64) -> IoRange {
        IoRange { offset, length: 1024 * EXTENT_BYTES }
    }

    /// Performs actions until the client waits, then replies to all its requests.
    fn drive(client: &mut dyn Client, now: Nanos) -> Vec<ClientRequest> {
        let mut requests = Vec::new();
        while let Action::Submit(request) = client.next_action(now) {
            requests.push(request);
        }
        requests.iter().for_each(|request| {
            let ended = client.on_reply(request, RequestEnd::Done, now);
            assert_eq!(ended, EndedRequest::None);
        });
        requests
    }

    #[test]
    fn defrag_reads_random_extents_and_writes_sequentially() {
        let target = region(1 << 40);
        let mut defrag = Defrag::new(region(0), target, RateLimit::new(None), 1);
        let requests: Vec<ClientRequest> =
            (0..200).flat_map(|_| drive(&mut defrag, Nanos::ZERO)).collect();
        let of = |kind| requests.iter().filter(move |request| request.kind == kind);
        assert!(of(RequestKind::Read).all(|read| read.offset % EXTENT_BYTES == 0));
        let first_write = requests.iter().position(|request| request.kind == RequestKind::Write);
        let before = DEFRAG_WRITE_BACK_BYTES / EXTENT_BYTES;
        assert!(first_write.is_some_and(|at| at as u64 >= before), "{first_write:?}");
        let (reads, writes) = (of(RequestKind::Read).count(), of(RequestKind::Write).count());
        assert!(writes + 2 * before as usize >= reads, "{writes} of {reads} written");
        for (index, write) in of(RequestKind::Write).enumerate() {
            let extent = index as u64 % 1024;
            assert_eq!(write.offset, target.offset + extent * EXTENT_BYTES);
        }
    }

    /// A pause is as long as md's, and what was not used in it may be used after it.
    #[test]
    fn a_limit_with_pauses_is_kept_in_the_mean() {
        let pause = Nanos::from_millis(500);
        let mut limit = RateLimit { pause, ..RateLimit::new(Some(1_000_000)) };
        let (mut now, mut sent, mut pauses) = (Nanos::ZERO, 0, 0);
        while now < Nanos::from_secs(60) {
            match limit.take(now, 10_000) {
                Ok(()) => sent += 10_000,
                Err(later) => {
                    assert!(later >= now + pause, "{later:?} after {now:?}");
                    (now, pauses) = (later, pauses + 1);
                }
            }
        }
        assert!((60_000_000..=61_000_000).contains(&sent) && pauses > 100, "{sent} in {pauses}");
    }

    #[test]
    fn rebuild_covers_its_range_and_ends() {
        let stale = IoRange { offset: 4096, length: 5 * REBUILD_BYTES + 512 };
        let mut rebuild = RebuildClient::new(MemberIndex(1), stale, Rebuilder::Gmirror, None);
        let requests: Vec<ClientRequest> =
            (0..9).flat_map(|_| drive(&mut rebuild, Nanos::ZERO)).collect();
        assert_eq!(requests.iter().map(|request| request.length).sum::<u64>(), stale.length);
        assert!(requests.windows(2).all(|pair| pair[1].offset == pair[0].offset + pair[0].length));
        assert_eq!(rebuild.next_action(Nanos::ZERO), Action::End);
    }
}
