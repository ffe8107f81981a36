//! What a member costs, by what was learned of it.

use super::disk::Disk;
use super::flash::Flash;
use super::work::{Busy, IO, Scale};
use crate::member::Member;
use crate::units::Nanos;

/// More than this counts as this much, so that no product of the policy can overflow.
pub(super) const WAIT_MAX: Nanos = Nanos::from_secs(60);

/// What a member costs.
#[derive(Clone, Debug)]
pub(super) struct Speed {
    pub(super) is_disk: bool,
    scale: Scale,
    pub(super) flash: Flash,
    pub(super) disk: Disk,
    /// What was in flight when the last decision looked.
    pub(super) seen: Busy,
    /// The work that the last read given to it met.
    pub(super) load_met: u64,
    /// When it last had nothing to do, or did something.
    pub(super) progress_at: Nanos,
    /// How many reads were learned from.
    pub(super) reads: u32,
    pub(super) completed_at: Nanos,
    pub(super) completed_end: u64,
}

impl Speed {
    /// Guesses, good enough to be put right by the first reads.
    pub(super) fn new(rotational: bool) -> Speed {
        Speed {
            is_disk: rotational,
            scale: if rotational { Scale::DISK } else { Scale::FLASH },
            flash: Flash::default(),
            disk: Disk::default(),
            seen: Busy::default(),
            load_met: 0,
            progress_at: Nanos::ZERO,
            reads: 0,
            completed_at: Nanos::ZERO,
            completed_end: 0,
        }
    }

    /// What an I/O in flight costs one behind it.
    #[inline]
    pub(super) fn io_ns(&self) -> u64 {
        if self.is_disk { self.disk.access_ns } else { self.flash.io_ns }
    }

    /// About what a read takes when nothing else is in flight.
    #[inline]
    pub(super) fn alone_ns(&self) -> u64 {
        if self.is_disk { self.disk.access_ns } else { self.flash.latency_ns }
    }

    /// What a read of a sequential run takes of the member when it has it to itself.
    #[inline]
    pub(super) fn sequential_ns(&self, length: u64) -> u64 {
        if self.is_disk {
            self.work_of(length) * self.disk.sequential_ns / IO
        } else {
            self.wait_ns(0, length, true)
        }
    }

    /// How much work a read of this length is.
    #[inline]
    pub(super) fn work_of(&self, length: u64) -> u64 {
        IO + self.scale.of_bytes(length)
    }

    /// What is in flight.
    #[inline]
    pub(super) fn busy(&self, member: &Member) -> Busy {
        self.scale.busy(member)
    }

    /// What a read costs beside so much work, seeks apart: its own wait and, with `foresight`, what
    /// it adds to the waits of those behind it.
    #[inline]
    pub(super) fn wait_ns(&self, load: u64, length: u64, foresight: bool) -> u64 {
        let work = load + self.scale.of_bytes(length);
        if self.is_disk {
            work * self.disk.access_ns / IO
        } else {
            let work = work + if foresight { load } else { 0 };
            self.flash.latency_ns + work * self.flash.io_ns / IO
        }
    }

    /// Looks at what a read would now meet.
    #[inline]
    pub(super) fn see(&mut self, member: &Member, now: Nanos) -> Busy {
        self.seen = self.busy(member);
        if self.seen.load == 0 {
            self.progress_at = now;
        }
        self.seen
    }

    /// For how long flash that has something to do has done nothing, beyond what is usual: a stall,
    /// which most likely lasts as long again as it has lasted.
    #[inline]
    pub(super) fn overdue_ns(&self, load: u64, now: Nanos) -> u64 {
        if self.is_disk || load == 0 {
            return 0;
        }
        let silent_ns = now.saturating_sub(self.progress_at).0.min(WAIT_MAX.0);
        silent_ns.saturating_sub(2 * self.flash.latency_ns)
    }

    /// What a read saves by going on where the last one of its run ended.
    #[inline]
    pub(super) fn saved_ns(&self, length: u64) -> u64 {
        if self.is_disk {
            return 0;
        }
        let alone_ns = self.wait_ns(0, length, true);
        alone_ns.saturating_sub(self.work_of(length) * self.flash.sequential_ns / IO)
    }
}
