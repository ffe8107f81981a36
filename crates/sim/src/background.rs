//! Background work: defrag, rebuild and scrub beside the jobs, for which fio has no word.
//!
//! Each keeps a fixed number of requests in flight and may be held to a rate. The sizes and depths
//! are those of the systems named; none adapts to foreground load, because a kernel that throttles
//! does it by the rate that a job file can state.

use crate::client::{Client, Ending, Order, Role, Turn};
use crate::readahead::Run;
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{KIB, Nanos};

/// What `btrfs filesystem defragment` does to a fragmented file: reads its extents, which lie
/// anywhere in the older data, and writes them in one run elsewhere.
pub(crate) struct Defrag {
    source: Run,
    target: Run,
    rng: Rng,
    pace: Pace,
    reads_in_flight: u32,
    /// Bytes read and not yet written.
    dirty_bytes: u64,
    /// Whether dirty data is on its way to the disks.
    writing_back: bool,
    writes_in_flight: u32,
    written_bytes: u64,
}

/// Copies a member that is being rebuilt, from its recovery offset to its end.
pub(crate) struct Rebuild {
    member: MemberIndex,
    next: Run,
    pace: Pace,
    in_flight: u32,
}

/// Reads every copy of the volume, from its start, over and over.
pub(crate) struct Scrub {
    volume_bytes: u64,
    next: u64,
    pace: Pace,
    in_flight: u32,
}

/// Holds a stream of requests to a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    bytes_per_second: Option<u64>,
    not_before: Nanos,
}

/// Bytes of an extent: the threshold below which defrag merges by default is 256 KiB.
const EXTENT_BYTES: u64 = 256 * KIB;
/// btrfs sets its read-ahead to 4 MiB: so many extents are on their way to a reader at once.
const DEFRAG_READS_MAX: u32 = (4096 * KIB / EXTENT_BYTES) as u32;
/// Write-back comes in bursts: it starts at so much dirty data, as the flusher's interval and
/// threshold have it, and goes on until none is left. The amount is ours, for a busy desktop.
const DEFRAG_WRITE_BACK_BYTES: u64 = 64 * 1024 * KIB;
/// Reading waits while so much is dirty.
const DEFRAG_DIRTY_BYTES_MAX: u64 = 2 * DEFRAG_WRITE_BACK_BYTES;
/// Half of the 64 requests that a SATA disk's queue takes; the other half is kept for reads.
const DEFRAG_WRITES_MAX: u32 = 32;
/// gmirror's rebuild copies blocks of 128 KiB, two at a time (`kern.geom.mirror.sync_requests`).
const REBUILD_BYTES: u64 = 128 * KIB;
const REBUILD_DEPTH: u32 = 2;
/// btrfs scrubs stripes of 64 KiB, eight to a group, two groups at a time.
const SCRUB_BYTES: u64 = 512 * KIB;
const SCRUB_DEPTH: u32 = 2;

impl Pace {
    pub(crate) fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, not_before: Nanos::ZERO }
    }

    /// Lets `bytes` go at `now`, or says when they may.
    fn take(&mut self, now: Nanos, bytes: u64) -> Result<(), Nanos> {
        let Some(rate) = self.bytes_per_second else {
            return Ok(());
        };
        if now < self.not_before {
            return Err(self.not_before);
        }
        self.not_before = self.not_before.max(now) + Nanos::transfer(bytes, rate);
        Ok(())
    }
}

impl Defrag {
    /// Reads extents of `source` and writes them to `target` in one run, over and over.
    pub(crate) fn new(source: Run, target: Run, pace: Pace, seed: u64) -> Defrag {
        Defrag {
            source,
            target,
            rng: Rng::stream(seed, "defrag"),
            pace,
            reads_in_flight: 0,
            dirty_bytes: 0,
            writing_back: false,
            writes_in_flight: 0,
            written_bytes: 0,
        }
    }

    fn write(&mut self) -> Order {
        self.dirty_bytes -= EXTENT_BYTES;
        self.writes_in_flight += 1;
        let offset = self.target.offset + self.written_bytes % whole_extents(self.target);
        self.written_bytes += EXTENT_BYTES;
        order(RequestKind::Write, offset, EXTENT_BYTES)
    }

    fn read(&mut self) -> Order {
        let extents = whole_extents(self.source) / EXTENT_BYTES;
        let offset = self.source.offset + self.rng.below(extents) * EXTENT_BYTES;
        self.reads_in_flight += 1;
        order(RequestKind::Read, offset, EXTENT_BYTES)
    }
}

impl Client for Defrag {
    fn turn(&mut self, now: Nanos) -> Turn {
        self.writing_back &= self.dirty_bytes > 0;
        self.writing_back |= self.dirty_bytes >= DEFRAG_WRITE_BACK_BYTES;
        if self.writing_back && self.writes_in_flight < DEFRAG_WRITES_MAX {
            return Turn::Submit(self.write());
        }
        let busy = self.reads_in_flight >= DEFRAG_READS_MAX;
        if busy || self.dirty_bytes >= DEFRAG_DIRTY_BYTES_MAX {
            return Turn::Wait;
        }
        match self.pace.take(now, EXTENT_BYTES) {
            Ok(()) => Turn::Submit(self.read()),
            Err(later) => Turn::Sleep(later),
        }
    }

    fn on_reply(&mut self, order: &Order, ending: Ending, _now: Nanos) -> Option<Order> {
        if order.kind == RequestKind::Write {
            self.writes_in_flight -= 1;
        } else {
            self.reads_in_flight -= 1;
            self.dirty_bytes += if ending == Ending::Failed { 0 } else { order.length };
        }
        None
    }
}

impl Rebuild {
    /// Copies `stale`, a run of `member`.
    pub(crate) fn new(member: MemberIndex, stale: Run, pace: Pace) -> Rebuild {
        Rebuild { member, next: stale, pace, in_flight: 0 }
    }
}

impl Client for Rebuild {
    fn turn(&mut self, now: Nanos) -> Turn {
        if self.next.length == 0 {
            return Turn::End;
        }
        if self.in_flight >= REBUILD_DEPTH {
            return Turn::Wait;
        }
        let length = REBUILD_BYTES.min(self.next.length);
        if let Err(later) = self.pace.take(now, length) {
            return Turn::Sleep(later);
        }
        let offset = self.next.offset;
        self.next = Run { offset: offset + length, length: self.next.length - length };
        self.in_flight += 1;
        Turn::Submit(order(RequestKind::Rebuild(self.member), offset, length))
    }

    fn on_reply(&mut self, _order: &Order, ending: Ending, _now: Nanos) -> Option<Order> {
        self.in_flight -= 1;
        if ending == Ending::Failed {
            // The member failed again, or its source is lost: there is nothing to go on with.
            self.next.length = 0;
        }
        None
    }
}

impl Scrub {
    /// Scrubs a volume of `volume_bytes`.
    pub(crate) fn new(volume_bytes: u64, pace: Pace) -> Scrub {
        Scrub { volume_bytes, next: 0, pace, in_flight: 0 }
    }
}

impl Client for Scrub {
    fn turn(&mut self, now: Nanos) -> Turn {
        if self.in_flight >= SCRUB_DEPTH {
            return Turn::Wait;
        }
        let (offset, length) = (self.next, SCRUB_BYTES.min(self.volume_bytes - self.next));
        if let Err(later) = self.pace.take(now, length) {
            return Turn::Sleep(later);
        }
        self.next = (offset + length) % self.volume_bytes;
        self.in_flight += 1;
        Turn::Submit(order(RequestKind::Scrub, offset, length))
    }

    fn on_reply(&mut self, _order: &Order, _ending: Ending, _now: Nanos) -> Option<Order> {
        self.in_flight -= 1;
        None
    }
}

/// Nobody measures the latency of a worker's order, so its intended start does not matter.
fn order(kind: RequestKind, offset: u64, length: u64) -> Order {
    Order { kind, role: Role::Request, offset, length, intended: Nanos::ZERO }
}

/// The bytes of `run` that whole extents fill.
fn whole_extents(run: Run) -> u64 {
    run.length / EXTENT_BYTES * EXTENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: u64) -> Run {
        Run { offset, length: 1024 * EXTENT_BYTES }
    }

    /// Takes turns until the client waits; replies at once to what it submitted.
    fn drive(client: &mut dyn Client, now: Nanos) -> Vec<Order> {
        let mut orders = Vec::new();
        while let Turn::Submit(order) = client.turn(now) {
            orders.push(order);
        }
        orders
            .iter()
            .for_each(|order| assert!(client.on_reply(order, Ending::Done, now).is_none()));
        orders
    }

    #[test]
    fn defrag_reads_scattered_extents_and_writes_them_in_runs() {
        let target = region(1 << 40);
        let mut defrag = Defrag::new(region(0), target, Pace::new(None), 1);
        let orders: Vec<Order> = (0..200).flat_map(|_| drive(&mut defrag, Nanos::ZERO)).collect();
        let of = |kind| orders.iter().filter(move |order| order.kind == kind);
        assert!(of(RequestKind::Read).all(|read| read.offset % EXTENT_BYTES == 0));
        let first_write = orders.iter().position(|order| order.kind == RequestKind::Write);
        let before = DEFRAG_WRITE_BACK_BYTES / EXTENT_BYTES;
        assert!(first_write.is_some_and(|at| at as u64 >= before), "{first_write:?}");
        let (reads, writes) = (of(RequestKind::Read).count(), of(RequestKind::Write).count());
        assert!(writes + 2 * before as usize >= reads, "{writes} of {reads} written");
        for (index, write) in of(RequestKind::Write).enumerate() {
            let place = index as u64 % 1024;
            assert_eq!(write.offset, target.offset + place * EXTENT_BYTES);
        }
    }

    #[test]
    fn a_rate_is_kept() {
        let rate = 10 * 1024 * KIB;
        let mut scrub = Scrub::new(1 << 40, Pace::new(Some(rate)));
        let (mut now, mut bytes) = (Nanos::ZERO, 0);
        while now < Nanos::from_secs(10) {
            match scrub.turn(now) {
                Turn::Submit(order) => {
                    bytes += order.length;
                    scrub.on_reply(&order, Ending::Done, now);
                }
                Turn::Sleep(until) => now = until,
                other => panic!("{other:?}"),
            }
        }
        assert!(bytes.abs_diff(10 * rate) <= SCRUB_BYTES, "{bytes}");
    }

    #[test]
    fn a_rebuild_covers_its_run_and_ends() {
        let stale = Run { offset: 4096, length: 5 * REBUILD_BYTES + 512 };
        let mut rebuild = Rebuild::new(MemberIndex(1), stale, Pace::new(None));
        let orders: Vec<Order> = (0..9).flat_map(|_| drive(&mut rebuild, Nanos::ZERO)).collect();
        assert_eq!(orders.iter().map(|order| order.length).sum::<u64>(), stale.length);
        assert!(orders.windows(2).all(|pair| pair[1].offset == pair[0].offset + pair[0].length));
        assert_eq!(rebuild.turn(Nanos::ZERO), Turn::End);
    }
}
