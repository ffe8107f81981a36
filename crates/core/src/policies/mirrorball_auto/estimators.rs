//! Running estimates of how long a member takes, updated when a read completes.
//!
//! **A disk** serves one I/O at a time, so the estimate is the time from one completion to the next
//! (as in dm's `historical-service-time`). Reads that begin where the last one ended have a mean of
//! their own. At depth the mean includes what the disk gains by reordering its queue.
//!
//! **Flash** works in parallel, so a read that shares the device costs little more than one alone.
//! Two numbers describe that: the latency of a small read with nothing else in flight, and the time
//! that each I/O in flight adds to a wait. The latency follows the lowest waits, where nothing else
//! was in flight the mean, and slowly what the load does not explain. The time per I/O is fitted to
//! the waits by normalised least mean squares (Widrow and Hoff), damped for small loads, which say
//! little about large ones. A third number is the cost of a read that begins where the last one
//! ended, because flash reads ahead. A fourth is the mean time by which reads take longer than
//! expected: behind writes, a collection of garbage, a stall.

use super::load::IO;

/// The first sample replaces an estimate; those after it, before this one, have a weight of one
/// half.
const FIRST_READS: u32 = 8;
/// Loads well below this much work say little about what load costs.
const DAMPING: i64 = 8 * IO as i64;
/// Latency is estimated from reads of at most this much work.
const SMALL: u64 = 5 * IO;

/// A wait of this many times the expected one counts as a longer one does.
const LATE_MAX: i64 = 16;

/// Estimates for a rotational member.
#[derive(Clone, Debug)]
pub(super) struct DiskEstimator {
    /// Mean time of an I/O of one unit of work, from its submission or the completion before it,
    /// whichever is later.
    pub(super) access_ns: u64,
    /// The same of a sequential I/O.
    pub(super) sequential_ns: u64,
}

/// Estimates for a non-rotational member.
#[derive(Clone, Debug)]
pub(super) struct FlashEstimator {
    /// Wait of a small read with nothing else in flight.
    pub(super) latency_ns: u64,
    /// Time that an I/O in flight adds to a wait.
    pub(super) io_ns: u64,
    /// Time of a sequential I/O with nothing else in flight.
    pub(super) sequential_ns: u64,
    /// Mean time by which a read takes longer than expected.
    pub(super) late_ns: u64,
}

/// A completed read on flash.
pub(super) struct FlashSample {
    pub(super) work: u64,
    /// Work that was in flight at the member's last decision before the completion; zero if the
    /// read was alone.
    pub(super) load: u64,
    pub(super) wait_ns: u64,
    /// True if, as far as the member's last decisions and completions show, nothing else was in
    /// flight from submission to completion.
    pub(super) was_alone: bool,
    /// True if it began where the last I/O ended.
    pub(super) is_sequential: bool,
    /// Number of reads so far, this one included.
    pub(super) reads: u32,
}

impl Default for DiskEstimator {
    /// Initial values; the first reads replace them.
    fn default() -> DiskEstimator {
        DiskEstimator { access_ns: 8_000_000, sequential_ns: 400_000 }
    }
}

impl DiskEstimator {
    /// Adds a read of `work` that kept the disk busy for `service_ns`; `reads` includes it.
    #[inline]
    pub(super) fn add(&mut self, work: u64, reads: u32, service_ns: u64, is_sequential: bool) {
        let sample_ns = (service_ns * IO / work) as i64;
        let mean_ns = if is_sequential { &mut self.sequential_ns } else { &mut self.access_ns };
        let step = (sample_ns - *mean_ns as i64) >> weight_shift(reads, 4);
        *mean_ns = (*mean_ns as i64 + step).max(1) as u64;
    }
}

impl Default for FlashEstimator {
    /// Initial values. The time per I/O is too low on purpose: the first reads correct it upwards.
    fn default() -> FlashEstimator {
        FlashEstimator { latency_ns: 100_000, io_ns: 2_000, sequential_ns: 500, late_ns: 0 }
    }
}

impl FlashEstimator {
    #[inline(always)]
    pub(super) fn add(&mut self, sample: &FlashSample) {
        if sample.is_sequential {
            let own_ns = sample.wait_ns.saturating_sub(sample.load * self.io_ns / IO);
            let step = (own_ns * IO / sample.work) as i64 - self.sequential_ns as i64;
            self.sequential_ns = (self.sequential_ns as i64 + (step >> 3)).max(1) as u64;
        }
        let load = (sample.load + sample.work - IO) as i64;
        let expected_ns = self.latency_ns as i64 + load * self.io_ns as i64 / IO as i64;
        let late_ns = (sample.wait_ns as i64).min(LATE_MAX * expected_ns) - expected_ns;
        let step = (late_ns.max(0) - self.late_ns as i64) >> 5;
        self.late_ns = (self.late_ns as i64 + step) as u64;
        // A far longer wait is a stall of the device and says little about load.
        let wait_ns = (sample.wait_ns as i64).min(2 * expected_ns);
        let error_ns = (wait_ns - expected_ns).saturating_mul(IO as i64);
        let per_io_ns = error_ns.saturating_mul(load) / (load * load + DAMPING * DAMPING);
        let io_ns = self.io_ns as i64 + (per_io_ns >> weight_shift(sample.reads, 6));
        self.io_ns = io_ns.max((self.latency_ns as i64 >> 8).max(1)) as u64;
        if sample.work > SMALL {
            return;
        }
        let above_ns = wait_ns - self.latency_ns as i64;
        let step_ns = match above_ns < 0 || sample.was_alone {
            true => above_ns >> weight_shift(sample.reads, 3),
            false => (wait_ns - expected_ns).max(0) >> 12,
        };
        self.latency_ns = (self.latency_ns as i64 + step_ns).max(1) as u64;
    }
}

/// The power of two by which the difference between a sample and the estimate is divided.
#[inline]
fn weight_shift(reads: u32, usual: u32) -> u32 {
    match reads {
        1 => 0,
        2..FIRST_READS => 1,
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_of_flash_that_is_never_idle_stays() {
        let mut flash = FlashEstimator::default();
        for reads in 1..100_000 {
            let load = (500 + u64::from(reads) % 500) * IO;
            let wait_ns = 100_000 + load * 10_000 / IO;
            flash.add(&FlashSample {
                work: IO,
                load,
                wait_ns,
                was_alone: false,
                is_sequential: false,
                reads,
            });
        }
        assert!(flash.latency_ns < 1_500_000, "{flash:?}");
        assert!((8_000..11_000).contains(&flash.io_ns), "{flash:?}");
    }
}
