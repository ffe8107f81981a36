//! What flash costs: it works in parallel, so a read beside others costs little more than alone.
//!
//! Two numbers say it: the latency of a small read with nothing else in flight, and the time that
//! each I/O in flight adds to a wait. The first follows the lowest waits and, where nothing else
//! was in flight, the mean. The second is fitted to the waits by normalised least mean squares
//! (Widrow and Hoff), damped for small loads, from which nothing can be learned about large ones.
//! A third is what a read costs that goes on where the last one ended: flash reads ahead, too.

use super::learning::weight;
use super::work::IO;

/// Loads well below this much work teach little about what load costs.
const DAMPING: i64 = 8 * IO as i64;
/// Latency is learned from reads of at most so much work.
const SMALL: u64 = 5 * IO;

/// The numbers.
#[derive(Clone, Debug)]
pub(super) struct Flash {
    /// The wait of a small read alone.
    pub(super) latency_ns: u64,
    /// What an I/O in flight adds to a wait.
    pub(super) io_ns: u64,
    /// What an I/O takes that goes on where the last one ended, alone.
    pub(super) sequential_ns: u64,
}

/// A read that ended.
pub(super) struct Sample {
    /// Its work.
    pub(super) work: u64,
    /// The work that was in flight when it was submitted.
    pub(super) load: u64,
    /// How long it took.
    pub(super) wait_ns: u64,
    /// Whether nothing else was in flight all the while.
    pub(super) was_alone: bool,
    /// Whether it went on where the last one ended.
    pub(super) goes_on: bool,
    /// How many reads were learned from, this one included.
    pub(super) reads: u32,
}

impl Default for Flash {
    /// A guess; too little per I/O, so that the first reads learn how much more it is.
    fn default() -> Flash {
        Flash { latency_ns: 100_000, io_ns: 2_000, sequential_ns: 500 }
    }
}

impl Flash {
    /// Learns from a read.
    pub(super) fn learn(&mut self, sample: &Sample) {
        if sample.goes_on {
            let own_ns = sample.wait_ns.saturating_sub(sample.load * self.io_ns / IO);
            let step = (own_ns * IO / sample.work) as i64 - self.sequential_ns as i64;
            self.sequential_ns = (self.sequential_ns as i64 + (step >> 3)).max(1) as u64;
        }
        let load = (sample.load + sample.work - IO) as i64;
        let expected_ns = self.latency_ns as i64 + load * self.io_ns as i64 / IO as i64;
        // What takes far longer met a stall, which says little about load.
        let wait_ns = (sample.wait_ns as i64).min(2 * expected_ns);
        let error_ns = (wait_ns - expected_ns).saturating_mul(IO as i64);
        let per_io_ns = error_ns.saturating_mul(load) / (load * load + DAMPING * DAMPING);
        let io_ns = self.io_ns as i64 + (per_io_ns >> weight(sample.reads, 6));
        self.io_ns = io_ns.max((self.latency_ns as i64 >> 8).max(1)) as u64;
        if sample.work > SMALL {
            return;
        }
        let above_ns = wait_ns - self.latency_ns as i64;
        let power = match above_ns < 0 || sample.was_alone {
            true => weight(sample.reads, 3),
            false => 12,
        };
        self.latency_ns = (self.latency_ns as i64 + (above_ns >> power)).max(1) as u64;
    }
}
