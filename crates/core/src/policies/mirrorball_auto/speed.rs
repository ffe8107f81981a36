//! What a member costs, learned from when its reads end.
//!
//! Work is counted in sixteenths of an I/O. Each I/O is one whole and its bytes add to that: on a
//! disk 1 MiB costs about as much as one access, on flash 8 KiB as much as one command. The books
//! give the work in flight without a look at each I/O.
//!
//! A disk does one thing at a time, so what counts is the time from one completion to the next
//! (dm's `historical-service-time`), of reads that go on where the last one ended apart from all
//! others. Their mean at the present depth includes what the disk gains by sorting its queue.

use super::flash::{Flash, Sample};
use crate::io::{MemberIo, Op, Outcome};
use crate::member::Member;
use crate::units::Nanos;

/// The work of an I/O without its bytes.
pub(super) const IO: u64 = 16;
const DISK_IO_BYTES_SHIFT: u32 = 20;
const FLASH_IO_BYTES_SHIFT: u32 = 13;
/// More than this counts as this much, so that no product of the policy can overflow.
const WAIT_MAX: Nanos = Nanos::from_secs(60);
const LOAD_MAX: u64 = 1 << 20;
const BYTES_MAX: u64 = 1 << 50;
/// Until so many reads have ended each counts for half.
const FIRST_READS: u32 = 8;

/// What a member costs.
#[derive(Clone, Debug)]
pub(super) struct Speed {
    is_disk: bool,
    flash: Flash,
    /// Disk: one I/O, from completion to completion.
    access_ns: u64,
    /// The same of a read that goes on where the last one ended, alone.
    sequential_ns: u64,
    load_seen: u64,
    progress_at: Nanos,
    reads: u32,
    completed_at: Nanos,
    completed_end: u64,
}

impl Speed {
    /// Guesses, good enough to be put right by the first reads.
    pub(super) fn new(rotational: bool) -> Speed {
        Speed {
            is_disk: rotational,
            flash: Flash::default(),
            access_ns: 8_000_000,
            sequential_ns: if rotational { 400_000 } else { 500 },
            load_seen: 0,
            progress_at: Nanos::ZERO,
            reads: 0,
            completed_at: Nanos::ZERO,
            completed_end: 0,
        }
    }

    #[inline]
    pub(super) fn is_disk(&self) -> bool {
        self.is_disk
    }

    /// What an I/O in flight costs one behind it.
    #[inline]
    pub(super) fn io_ns(&self) -> u64 {
        if self.is_disk { self.access_ns } else { self.flash.io_ns }
    }

    /// About what a read takes when nothing else is in flight.
    #[inline]
    pub(super) fn alone_ns(&self) -> u64 {
        if self.is_disk { self.access_ns } else { self.flash.latency_ns }
    }

    /// What a read of a sequential run takes of the member when it has it to itself.
    #[inline]
    pub(super) fn sequential_ns(&self, length: u64) -> u64 {
        if self.is_disk {
            ((IO + self.byte_work(length)) * self.sequential_ns) / IO
        } else {
            self.wait_ns(0, length, true)
        }
    }

    /// The work in flight.
    #[inline]
    pub(super) fn load(&self, member: &Member) -> u64 {
        let bytes = member.bytes_in_flight.min(BYTES_MAX);
        (u64::from(member.in_flight()) * IO + self.byte_work(bytes)).min(LOAD_MAX)
    }

    /// What a read costs beside so much work, seeks apart: its own wait and, with `foresight`, what
    /// it adds to the waits of those behind it.
    #[inline]
    pub(super) fn wait_ns(&self, load: u64, length: u64, foresight: bool) -> u64 {
        let work = load + self.byte_work(length);
        if self.is_disk {
            work * self.access_ns / IO
        } else {
            let work = work + if foresight { load } else { 0 };
            self.flash.latency_ns + work * self.flash.io_ns / IO
        }
    }

    /// Remembers the work that a read now meets, to set its wait against.
    #[inline]
    pub(super) fn see(&mut self, member: &Member, now: Nanos) {
        self.load_seen = self.load(member);
        if self.load_seen == 0 {
            self.progress_at = now;
        }
    }

    /// For how long flash that has something to do has done nothing, beyond what is usual: a stall,
    /// which most likely lasts as long again as it has lasted.
    #[inline]
    pub(super) fn overdue_ns(&self, member: &Member, now: Nanos) -> u64 {
        if self.is_disk || member.in_flight() == 0 {
            return 0;
        }
        let silent_ns = now.saturating_sub(self.progress_at).0.min(WAIT_MAX.0);
        silent_ns.saturating_sub(2 * self.flash.latency_ns)
    }

    /// The cost of a read that goes on where the last one of its run ended, if any other costs
    /// `wait_ns`: flash reads ahead, too.
    #[inline]
    pub(super) fn going_on_ns(&self, wait_ns: u64, length: u64) -> u64 {
        if self.is_disk {
            return wait_ns;
        }
        let work = IO + self.byte_work(length);
        let saved_ns = self.wait_ns(0, length, true).saturating_sub(work * self.sequential_ns / IO);
        wait_ns.saturating_sub(saved_ns)
    }

    /// What a read costs beside the work that was last seen.
    pub(super) fn wait_now_ns(&self, length: u64) -> u64 {
        self.wait_ns(self.load_seen, length, true)
    }

    /// What was known is old: the next read counts in full.
    pub(super) fn forget(&mut self) {
        self.reads = 0;
    }

    /// Learns from a read that ended well, and from any other I/O until when the member was busy.
    /// A read of a disk's tenant counts as one that goes on, whoever came between.
    #[inline]
    pub(super) fn learn(&mut self, io: &MemberIo, outcome: &Outcome, is_tenant: bool) {
        let began_at = io.submitted_at.max(self.completed_at);
        let service_ns = outcome.completed_at.saturating_sub(began_at).0.min(WAIT_MAX.0);
        let goes_on = self.completed_end == io.offset;
        self.completed_at = outcome.completed_at;
        self.progress_at = outcome.completed_at;
        self.completed_end = io.offset + io.length;
        if io.op != Op::Read {
            return;
        }
        self.reads = self.reads.saturating_add(1);
        let work = IO + self.byte_work(io.length);
        if self.is_disk {
            let sample_ns = (service_ns * IO / work) as i64;
            let known_ns =
                if goes_on || is_tenant { &mut self.sequential_ns } else { &mut self.access_ns };
            let step = (sample_ns - *known_ns as i64) >> weight(self.reads, 4);
            *known_ns = (*known_ns as i64 + step).max(1) as u64;
        } else {
            let wait_ns = outcome.wait.0.min(WAIT_MAX.0);
            let load = self.load_seen;
            let was_alone = load == 0 && service_ns == wait_ns;
            if goes_on {
                let of_load_ns = load * self.flash.io_ns / IO;
                let step = (wait_ns.saturating_sub(of_load_ns) * IO / work) as i64
                    - self.sequential_ns as i64;
                self.sequential_ns = (self.sequential_ns as i64 + (step >> 3)).max(1) as u64;
            }
            self.flash.learn(&Sample { work, load, wait_ns, was_alone, reads: self.reads });
        }
    }

    #[inline]
    fn byte_work(&self, bytes: u64) -> u64 {
        let shift = if self.is_disk { DISK_IO_BYTES_SHIFT } else { FLASH_IO_BYTES_SHIFT };
        (bytes * IO) >> shift
    }
}

/// By what power of two a sample's difference is divided.
#[inline]
pub(super) fn weight(reads: u32, usual: u32) -> u32 {
    match reads {
        1 => 0,
        2..FIRST_READS => 1,
        _ => usual,
    }
}
