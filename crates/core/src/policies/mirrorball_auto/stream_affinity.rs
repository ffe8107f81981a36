//! Stream affinity of a disk: the sequential run to which it is dedicated, and the runs that share
//! it.
//!
//! A sequential reader alone on a disk reads at the rate of the medium. Two of them make the disk
//! seek between them and get a tenth together. So a disk is dedicated to one run, its owner, and
//! other reads avoid the disk while another mirror is left. [`super::placement`] decides which
//! run gets which disk.

use super::runs::SequentialRun;
use crate::policy::Read;
use crate::units::Nanos;

/// An owner that has not read for this long loses the disk.
const OWNER_TIMEOUT: Nanos = Nanos::from_millis(80);
/// A run that shares a disk may wait long for each read, so it is remembered longer.
const SHARER_TIMEOUT: Nanos = Nanos::from_millis(400);

/// Owner of a disk, and the last two other runs that read from it.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamAffinity {
    /// Identifies the owner's run; zero for none.
    owner: u64,
    stream: u64,
    /// Number of reads since the run became the owner.
    reads: u32,
    /// Time until which the owner keeps the disk; zero if there is none.
    owned_until: Nanos,
    /// Time until which a write keeps the disk from being dedicated.
    written_until: Nanos,
    sharers: [Sharer; 2],
}

/// A run that lately read from a disk that is not its own.
#[derive(Clone, Copy, Debug, Default)]
struct Sharer {
    run: u64,
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

    /// Number of reads since the owner got the disk.
    #[inline]
    pub(super) fn owner_reads(&self) -> u32 {
        self.reads
    }

    /// The oldest other run that recently shared the disk, or `u64::MAX` if there is none; only
    /// the last two sharers count.
    #[inline]
    pub(super) fn oldest_sharer(&self, run: &SequentialRun, now: Nanos) -> u64 {
        let is_other = |sharer: &Sharer| now < sharer.until && sharer.run != run.id;
        let [one, other] = &self.sharers;
        let one = if is_other(one) { one.run } else { u64::MAX };
        if is_other(other) { one.min(other.run) } else { one }
    }

    /// Records a read of the run as the disk's owner.
    #[inline]
    pub(super) fn read_as_owner(&mut self, run: &SequentialRun, read: &Read, now: Nanos) {
        self.reads = if self.owner == run.id { self.reads.saturating_add(1) } else { 0 };
        (self.owner, self.stream, self.owned_until) = (run.id, read.stream, now + OWNER_TIMEOUT);
        let own = self.sharers.iter_mut().filter(|sharer| sharer.run == run.id);
        own.for_each(|sharer| *sharer = Sharer::default());
    }

    /// Records a read of the run that shares the disk.
    #[inline]
    pub(super) fn read_as_sharer(&mut self, run: &SequentialRun, now: Nanos) {
        if self.sharers[0].run != run.id {
            self.sharers[1] = self.sharers[0];
        }
        self.sharers[0] = Sharer { run: run.id, until: now + SHARER_TIMEOUT };
    }

    /// Releases the disk if the run owns it.
    #[inline]
    pub(super) fn release(&mut self, run: &SequentialRun) {
        if self.owner == run.id {
            (self.owner, self.owned_until) = (0, Nanos::ZERO);
        }
    }

    /// Records the completion of a read of this stream; true if the stream is the owner's.
    #[inline]
    pub(super) fn complete(&mut self, stream: u64, now: Nanos) -> bool {
        let is_owner = self.stream == stream && self.owner != 0;
        if is_owner {
            self.owned_until = now + OWNER_TIMEOUT;
        }
        is_owner
    }
}
