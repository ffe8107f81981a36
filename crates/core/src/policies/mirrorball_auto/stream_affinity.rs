//! Stream affinity of a disk: the sequential run to which it is dedicated, and the runs that share
//! it.
//!
//! A sequential reader alone on a disk reads at the rate of the medium. Two of them make the disk
//! seek between them and get a tenth together. So a disk is dedicated to one run, its owner, and
//! other reads avoid the disk while another mirror is left. [`super::placement`] decides which
//! run gets which disk.

use super::runs::SequentialRun;
use crate::policy::Read;
use crate::units::{MIB, Nanos};

/// An owner that has not read for this long loses the disk.
const OWNER_TIMEOUT: Nanos = Nanos::from_millis(80);
/// A run that shares a disk may wait long for each read, so it is remembered longer.
const SHARER_TIMEOUT: Nanos = Nanos::from_millis(400);
/// An owner that skips no more than this still reads in sequence, as in md's offset layout.
const SKIP_BYTES: u64 = 64 * MIB;

/// Owner of a disk, and the last two other runs that read from it.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamAffinity {
    /// Identifies the owner's run; zero for none.
    owner: u64,
    claim: DiskClaim,
    stream: u64,
    /// Number of reads since the run became the owner.
    reads: u32,
    /// Number of these that are in flight. Other reads of the owner's stream do not keep the disk
    /// for it.
    in_flight: u32,
    /// Offset on the disk where the owner's last read ends.
    next: u64,
    /// Time until which the owner keeps the disk; zero if there is none.
    owned_until: Nanos,
    /// Time until which a write keeps the disk from being dedicated.
    written_until: Nanos,
    sharers: [Sharer; 2],
}

/// Rank among the readers that want a disk: the one with the fewest I/O in flight is served first,
/// and of readers of like depth the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DiskClaim {
    /// Logarithm of the number of I/O that the reader's stream, and those alike, have in flight.
    depth_log: u32,
    run: u64,
}

impl DiskClaim {
    pub(super) const NONE: DiskClaim = DiskClaim { depth_log: u32::MAX, run: u64::MAX };

    pub(super) fn new(run: &SequentialRun, depth: u32) -> DiskClaim {
        DiskClaim { depth_log: depth.max(1).ilog2(), run: run.id }
    }
}

/// A run that lately read from a disk that is not its own.
#[derive(Clone, Copy, Debug, Default)]
struct Sharer {
    run: u64,
    claim: DiskClaim,
    /// Time until which it is remembered.
    until: Nanos,
}

impl StreamAffinity {
    /// True if the disk is dedicated to a run.
    #[inline]
    pub(super) fn is_dedicated(&self, now: Nanos) -> bool {
        now < self.owned_until && !self.was_written(now)
    }

    /// True if the disk was lately written. Writes go to all mirrors, so none can be alone with a
    /// run.
    #[inline]
    pub(super) fn was_written(&self, now: Nanos) -> bool {
        now < self.written_until
    }

    #[inline]
    pub(super) fn write(&mut self, now: Nanos) {
        self.written_until = now + OWNER_TIMEOUT;
    }

    /// True if the disk is dedicated to a run other than this one.
    #[inline]
    pub(super) fn is_dedicated_to_other(&self, run: &SequentialRun, now: Nanos) -> bool {
        self.is_dedicated(now) && self.owner != run.id
    }

    #[inline]
    pub(super) fn is_owner(&self, run: &SequentialRun) -> bool {
        self.owner == run.id
    }

    /// True if this offset is where the owner's last read ended, or near.
    #[inline]
    pub(super) fn goes_on_at(&self, offset: u64) -> bool {
        self.next.abs_diff(offset) <= SKIP_BYTES
    }

    /// Number of reads since the owner got the disk.
    #[inline]
    pub(super) fn owner_reads(&self) -> u32 {
        self.reads
    }

    /// The first of the other runs that recently shared the disk; only the last two sharers count.
    #[inline]
    pub(super) fn first_sharer(&self, run: &SequentialRun, now: Nanos) -> DiskClaim {
        let is_other = |sharer: &&Sharer| now < sharer.until && sharer.run != run.id;
        let claims = self.sharers.iter().filter(is_other).map(|sharer| sharer.claim);
        claims.min().unwrap_or(DiskClaim::NONE)
    }

    /// True if the disk is dedicated to no other run, or to one that is several times as deep.
    #[inline]
    pub(super) fn is_free_for(&self, claim: DiskClaim, now: Nanos) -> bool {
        !self.is_dedicated(now)
            || self.owner == claim.run
            || self.claim.depth_log > claim.depth_log + 1
    }

    /// Records a read of the run as the disk's owner.
    #[inline]
    pub(super) fn read_as_owner(
        &mut self,
        run: &SequentialRun,
        claim: DiskClaim,
        read: &Read,
        offset: u64,
        now: Nanos,
    ) {
        self.claim = claim;
        let (reads, in_flight) = match self.owner == run.id {
            true => (self.reads.saturating_add(1), self.in_flight + 1),
            false => (0, 1),
        };
        (self.reads, self.in_flight, self.next) = (reads, in_flight, offset + read.length);
        (self.owner, self.stream, self.owned_until) = (run.id, read.stream, now + OWNER_TIMEOUT);
        let own = self.sharers.iter_mut().filter(|sharer| sharer.run == run.id);
        own.for_each(|sharer| *sharer = Sharer::default());
    }

    /// Records a read of the run that shares the disk.
    #[inline]
    pub(super) fn read_as_sharer(&mut self, run: &SequentialRun, claim: DiskClaim, now: Nanos) {
        if self.sharers[0].run != run.id {
            self.sharers[1] = self.sharers[0];
        }
        self.sharers[0] = Sharer { run: run.id, claim, until: now + SHARER_TIMEOUT };
    }

    /// Releases the disk if the run owns it.
    #[inline]
    pub(super) fn release(&mut self, run: &SequentialRun) {
        if self.owner == run.id {
            (self.owner, self.owned_until) = (0, Nanos::ZERO);
        }
    }

    /// Records the completion of a read of this stream; true if it is one of the owner's.
    #[inline]
    pub(super) fn complete(&mut self, stream: u64, now: Nanos) -> bool {
        let is_owner = self.stream == stream && self.owner != 0 && self.in_flight > 0;
        if is_owner {
            self.in_flight -= 1;
            self.owned_until = now + OWNER_TIMEOUT;
        }
        is_owner
    }
}
