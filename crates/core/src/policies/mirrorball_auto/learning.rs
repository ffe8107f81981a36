//! How a member's costs are learned from when its I/O ends.

use super::flash::Sample;
use super::speed::{Speed, WAIT_MAX};
use crate::io::{MemberIo, Op, Outcome};

/// Until so many reads have ended each counts for half.
const FIRST_READS: u32 = 8;

impl Speed {
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
        let work = self.work_of(io.length);
        let wait_ns = outcome.wait.0.min(WAIT_MAX.0);
        if self.is_disk {
            // The first read counts in full. A write that the disk's cache took meanwhile would
            // leave next to nothing of it, and the disk would look as fast as its cache.
            let service_ns = if self.reads == 1 { wait_ns } else { service_ns };
            self.disk.learn(work, self.reads, service_ns, goes_on || is_tenant);
        } else {
            let was_alone = self.load_met == 0 && service_ns == wait_ns;
            let load = if was_alone { 0 } else { self.seen.load };
            let reads = self.reads;
            self.flash.learn(&Sample { work, load, wait_ns, was_alone, goes_on, reads });
        }
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
