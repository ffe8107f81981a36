//! Cost model of a member: how long a read would take there, estimated from completed I/O.

use super::estimators::{DiskEstimator, FlashEstimator, FlashSample};
use super::load::{IO, MemberLoad, WORK_MAX, WorkScale};
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Member;
use crate::units::Nanos;

/// Upper bound of waits, so that no product in the policy can overflow.
const WAIT_MAX: Nanos = Nanos::from_secs(60);

/// Estimates and observations of one member.
#[derive(Clone, Debug)]
pub(super) struct CostModel {
    pub(super) is_disk: bool,
    scale: WorkScale,
    flash: FlashEstimator,
    disk: DiskEstimator,
    /// Load at the last decision.
    pub(super) load: MemberLoad,
    /// Work that was in flight when the last read was given to the member.
    load_before_read: u64,
    /// Time of the last completion, or of the last decision that found the member idle.
    progress_at: Nanos,
    reads: u32,
    completed_at: Nanos,
    completed_end: u64,
}

impl CostModel {
    /// A model with initial estimates; the first reads replace them.
    pub(super) fn new(rotational: bool) -> CostModel {
        CostModel {
            is_disk: rotational,
            scale: if rotational { WorkScale::DISK } else { WorkScale::FLASH },
            flash: FlashEstimator::default(),
            disk: DiskEstimator::default(),
            load: MemberLoad::default(),
            load_before_read: 0,
            progress_at: Nanos::ZERO,
            reads: 0,
            completed_at: Nanos::ZERO,
            completed_end: 0,
        }
    }

    /// Time by which an I/O in flight delays one behind it.
    #[inline]
    pub(super) fn io_ns(&self) -> u64 {
        if self.is_disk { self.disk.access_ns } else { self.flash.io_ns }
    }

    /// The same of a disk.
    #[inline]
    pub(super) fn disk_io_ns(&self) -> u64 {
        self.disk.access_ns
    }

    /// The same of flash.
    #[inline]
    pub(super) fn flash_io_ns(&self) -> u64 {
        self.flash.io_ns
    }

    /// Approximate time of a read with nothing else in flight.
    #[inline]
    pub(super) fn alone_ns(&self) -> u64 {
        if self.is_disk { self.disk.access_ns } else { self.flash.latency_ns }
    }

    /// Time of a read of a sequential run that shares the member with nothing else.
    #[inline]
    pub(super) fn sequential_ns(&self, length: u64) -> u64 {
        if self.is_disk {
            self.work_of(length) * self.disk.sequential_ns / IO
        } else {
            self.wait_ns(MemberLoad::default(), length)
        }
    }

    #[inline]
    pub(super) fn work_of(&self, length: u64) -> u64 {
        IO + self.scale.of_bytes(length)
    }

    #[inline]
    pub(super) fn load_of(&self, member: &Member) -> MemberLoad {
        self.scale.load(member)
    }

    /// Wait of a read behind `load`, without its seek.
    #[inline]
    pub(super) fn wait_ns(&self, load: MemberLoad, length: u64) -> u64 {
        match self.is_disk {
            true => self.disk_wait_ns(load, length),
            false => self.flash_wait_ns(load, length),
        }
    }

    /// The same on a disk.
    #[inline]
    pub(super) fn disk_wait_ns(&self, load: MemberLoad, length: u64) -> u64 {
        (load.work + WorkScale::DISK.of_bytes(length)) * self.disk.access_ns / IO
    }

    /// The same on flash.
    #[inline]
    pub(super) fn flash_wait_ns(&self, load: MemberLoad, length: u64) -> u64 {
        let work = load.work + WorkScale::FLASH.of_bytes(length);
        self.flash.latency_ns + work * self.flash.io_ns / IO
    }

    /// Time that a read on flash adds to the waits of other I/O: its work, for as many as are in
    /// flight. A disk reorders its queue, and the cost of the queue is in the wait alone. To be
    /// compared with that, flash next to a disk counts the load as it is.
    #[inline]
    pub(super) fn delay_ns(&self, load: MemberLoad, length: u64, is_next_to_disk: bool) -> u64 {
        if self.is_disk {
            return 0;
        }
        let ios = load.ios * self.work_of(length);
        let delayed = if is_next_to_disk { load.work } else { ios.min(WORK_MAX) };
        delayed * self.flash.io_ns / IO
    }

    /// Time for which a read keeps the member from other I/O.
    #[inline]
    pub(super) fn own_ns(&self, length: u64) -> u64 {
        self.work_of(length) * self.io_ns() / IO
    }

    /// Mean time by which reads on flash take longer than expected.
    #[inline]
    pub(super) fn late_ns(&self) -> u64 {
        if self.is_disk { 0 } else { self.flash.late_ns }
    }

    /// For how long a flash member with I/O in flight has completed nothing, beyond twice its
    /// latency. Such a stall most likely lasts as long again as it has lasted.
    #[inline]
    pub(super) fn overdue_ns(&self, load: u64, now: Nanos) -> u64 {
        if self.is_disk || load == 0 {
            return 0;
        }
        let silent_ns = now.saturating_sub(self.progress_at).0.min(WAIT_MAX.0);
        silent_ns.saturating_sub(2 * self.flash.latency_ns)
    }

    /// Time that a read saves by beginning where the last one of its run ended.
    #[inline]
    pub(super) fn saved_ns(&self, length: u64) -> u64 {
        if self.is_disk {
            return 0;
        }
        let alone_ns = self.wait_ns(MemberLoad::default(), length);
        alone_ns.saturating_sub(self.work_of(length) * self.flash.sequential_ns / IO)
    }

    /// Records the member's load at a decision.
    #[inline]
    pub(super) fn update_load(&mut self, member: &Member, now: Nanos) -> MemberLoad {
        self.load = self.load_of(member);
        if self.load.work == 0 {
            self.progress_at = now;
        }
        self.load
    }

    #[inline]
    pub(super) fn begin_read(&mut self) {
        self.load_before_read = self.load.work;
    }

    /// Marks the estimates as stale: the next read replaces them.
    pub(super) fn expire(&mut self) {
        self.reads = 0;
    }

    /// Updates the estimates from a read that succeeded, and from any other I/O until when the
    /// member was busy. A read by the stream to which a disk is dedicated counts as sequential even
    /// if another I/O came in between.
    #[inline]
    pub(super) fn complete(&mut self, io: &MemberIo, outcome: &Outcome, is_owner: bool) {
        let began_at = io.submitted_at.max(self.completed_at);
        let service_ns = outcome.completed_at.saturating_sub(began_at).0.min(WAIT_MAX.0);
        let is_sequential = self.completed_end == io.offset;
        self.completed_at = outcome.completed_at;
        self.progress_at = outcome.completed_at;
        self.completed_end = io.offset + io.length;
        if io.op != Op::Read {
            return;
        }
        self.reads = self.reads.saturating_add(1);
        let work = self.work_of(io.length);
        let wait_ns = outcome.wait.0.min(WAIT_MAX.0);
        if self.is_disk {
            // The first read counts with its whole wait. A write that the disk's cache took in the
            // meantime would leave almost nothing of it, and the disk would look as fast as its
            // cache.
            let service_ns = if self.reads == 1 { wait_ns } else { service_ns };
            self.disk.add(work, self.reads, service_ns, is_sequential || is_owner);
        } else {
            let was_alone = self.load_before_read == 0 && service_ns == wait_ns;
            let load = if was_alone { 0 } else { self.load.work };
            let reads = self.reads;
            self.flash.add(&FlashSample { work, load, wait_ns, was_alone, is_sequential, reads });
        }
    }
}
