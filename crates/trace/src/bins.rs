//! Counts of requests by size, over time and over addresses.
//!
//! A histogram adapts itself: it has a fixed number of bins, and when a request lies behind the
//! last, neighbours are joined and each bin spans twice as much.

use crate::record::TraceOp;

/// Bins of a histogram. Even, so that neighbours can be joined.
const BINS: usize = 1024;
const FIRST_SPACE_BIN_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeCount {
    pub bytes: u64,
    pub requests: u64,
}

/// A histogram whose bins widen as it grows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bins {
    /// Span of a bin: nanoseconds or bytes.
    pub width: u64,
    /// Number of requests, and of reads and of writes among them, in each bin. Ends with the last
    /// that has one.
    pub counts: Vec<[u64; 3]>,
}

impl Bins {
    pub(crate) fn new(width: u64) -> Bins {
        Bins { width, counts: Vec::new() }
    }

    /// An empty histogram over addresses.
    pub(crate) fn of_space() -> Bins {
        Bins::new(FIRST_SPACE_BIN_BYTES)
    }

    #[inline]
    pub(crate) fn add(&mut self, at: u64, op: TraceOp) {
        while at / self.width >= BINS as u64 {
            self.join();
        }
        let bin = (at / self.width) as usize;
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, [0; 3]);
        }
        self.counts[bin][0] += 1;
        if let TraceOp::Read | TraceOp::Write = op {
            self.counts[bin][1 + op as usize] += 1;
        }
    }

    /// Joins each two neighbours.
    #[cold]
    fn join(&mut self) {
        let joined = self.counts.chunks(2).map(|pair| {
            let sum = |index: usize| pair.iter().map(|bin| bin[index]).sum();
            [sum(0), sum(1), sum(2)]
        });
        self.counts = joined.collect();
        self.width *= 2;
    }
}
