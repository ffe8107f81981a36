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
    read_at: Nanos,
    written_at: Option<Nanos>,
    sharers: [(u64, Nanos); 2],
}

impl StreamAffinity {
    /// True if the disk is dedicated to a run.
    pub(super) fn is_dedicated(&self, now: Nanos) -> bool {
        self.owner != 0
            && now.saturating_sub(self.read_at) < OWNER_TIMEOUT
            && !self.was_written(now)
    }

    /// True if the disk was lately written. Writes go to all mirrors, so none can be alone with a
    /// run.
    #[inline]
    pub(super) fn was_written(&self, now: Nanos) -> bool {
        self.written_at.is_some_and(|at| now.saturating_sub(at) < OWNER_TIMEOUT)
    }

    /// Records a write.
    #[inline]
    pub(super) fn write(&mut self, now: Nanos) {
        self.written_at = Some(now);
    }

    /// True if the disk is dedicated to a run other than this one.
    #[inline]
    pub(super) fn is_dedicated_to_other(&self, run: &SequentialRun, now: Nanos) -> bool {
        self.owner != run.id && self.is_dedicated(now)
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

    /// The oldest other run that recently shared the disk; only the last two sharers count.
    #[inline]
    pub(super) fn oldest_sharer(&self, run: &SequentialRun, now: Nanos) -> Option<u64> {
        let is_other = |&(id, at): &(u64, Nanos)| {
            id != 0 && id != run.id && now.saturating_sub(at) < SHARER_TIMEOUT
        };
        let [one, other] = self.sharers.map(|sharer| is_other(&sharer).then_some(sharer.0));
        one.into_iter().chain(other).min()
    }

    /// Records a read of the run as the disk's owner.
    pub(super) fn read_as_owner(&mut self, run: &SequentialRun, read: &Read, now: Nanos) {
        self.reads = if self.owner == run.id { self.reads.saturating_add(1) } else { 0 };
        (self.owner, self.stream, self.read_at) = (run.id, read.stream, now);
        self.sharers.iter_mut().filter(|sharer| sharer.0 == run.id).for_each(|it| it.0 = 0);
    }

    /// Records a read of the run that shares the disk.
    #[inline]
    pub(super) fn read_as_sharer(&mut self, run: &SequentialRun, now: Nanos) {
        if self.sharers[0].0 != run.id {
            self.sharers[1] = self.sharers[0];
        }
        self.sharers[0] = (run.id, now);
    }

    /// Releases the disk if the run owns it.
    #[inline]
    pub(super) fn release(&mut self, run: &SequentialRun) {
        if self.owner == run.id {
            self.owner = 0;
        }
    }

    /// Records the completion of a read of this stream; true if the stream is the owner's.
    #[inline]
    pub(super) fn complete(&mut self, stream: u64, now: Nanos) -> bool {
        let is_owner = self.owner != 0 && self.stream == stream;
        if is_owner {
            self.read_at = now;
        }
        is_owner
    }
}
