//! What a disk costs: it does one thing at a time.
//!
//! So what counts is the time from one completion to the next (dm's `historical-service-time`), of
//! reads that go on where the last one ended apart from all others. Their mean at the present depth
//! includes what the disk gains by sorting its queue.

use super::learning::weight;
use super::work::IO;

/// The two means.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    /// One I/O, from completion to completion.
    pub(super) access_ns: u64,
    /// The same of a read that goes on where the last one ended, alone.
    pub(super) sequential_ns: u64,
}

impl Default for Disk {
    /// A guess, good enough to be put right by the first reads.
    fn default() -> Disk {
        Disk { access_ns: 8_000_000, sequential_ns: 400_000 }
    }
}

impl Disk {
    /// Learns from a read of so much work, the disk's `reads`th, that kept it so long.
    #[inline]
    pub(super) fn learn(&mut self, work: u64, reads: u32, service_ns: u64, goes_on: bool) {
        let sample_ns = (service_ns * IO / work) as i64;
        let known_ns = if goes_on { &mut self.sequential_ns } else { &mut self.access_ns };
        let step = (sample_ns - *known_ns as i64) >> weight(reads, 4);
        *known_ns = (*known_ns as i64 + step).max(1) as u64;
    }
}
