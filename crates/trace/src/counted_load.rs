//! A load as far as the kernel's counters of block devices show it: rates, sizes, and depths.
//!
//! They do not show addresses or the order of requests. A kind with large requests counts as
//! sequential, any other as random over the whole device.

use crate::bins::SizeCount;
use crate::load_kinds::KindDepth;
use crate::record::TraceOp;
use crate::summary::TraceSummary;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{KIB, Nanos, SECTOR_BYTES, format_bytes};

/// Least mean size of requests that count as sequential.
const SEQUENTIAL_BYTES: u64 = 128 * KIB;

/// Differences of counters over a while.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountedLoad {
    pub time: Nanos,
    pub operations: [CountedOperations; 2],
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountedOperations {
    pub requests: u64,
    pub bytes: u64,
    pub waits: Nanos,
    /// Number of looks at which so many were in flight.
    pub in_flight: Vec<u64>,
}

impl CountedOperations {
    fn mean_bytes(&self) -> u64 {
        self.bytes / self.requests.max(1)
    }

    /// Two neighbouring sizes of whole sectors, with as many bytes together.
    fn sizes(&self) -> Vec<SizeCount> {
        let small = (self.mean_bytes() / SECTOR_BYTES * SECTOR_BYTES).max(SECTOR_BYTES);
        let rest = self.bytes.saturating_sub(small * self.requests);
        let larger = rest.div_ceil(SECTOR_BYTES).min(self.requests);
        let sizes = [(small, self.requests - larger), (small + SECTOR_BYTES, larger)];
        let sizes = sizes.into_iter().filter(|(_, requests)| *requests > 0);
        sizes.map(|(bytes, requests)| SizeCount { bytes, requests }).collect()
    }

    fn response(&self) -> Nanos {
        Nanos(self.waits.0 / self.requests.max(1))
    }
}

impl CountedLoad {
    /// Returns true if nothing was read or written.
    pub fn is_idle(&self) -> bool {
        self.operations.iter().all(|counted| counted.requests == 0)
    }

    /// The text of a job file that resembles the load: see [`TraceSummary::fit`]. Fails if nothing
    /// was read or written.
    pub fn fit(&self, origin: &str) -> Result<String, Diagnostic> {
        let mut summary = TraceSummary::empty();
        summary.duration = self.time;
        for (op, counted) in [TraceOp::Read, TraceOp::Write].into_iter().zip(&self.operations) {
            if counted.requests == 0 {
                continue;
            }
            let is_random = counted.mean_bytes() < SEQUENTIAL_BYTES;
            let kind = 2 * op as usize + usize::from(is_random);
            let kind = &mut summary.kinds[kind];
            kind.requests = counted.requests;
            kind.sizes = counted.sizes();
            kind.gap_variation = 1.0;
            kind.depth = KindDepth::new(&counted.in_flight, counted.response());
            summary.requests[op as usize] = counted.requests;
        }
        summary.fit(origin, u64::MAX)
    }

    /// The load, with a line end behind each line.
    pub fn describe(&self) -> String {
        let lines = ["reads", "writes"].iter().zip(&self.operations).map(|(name, counted)| {
            let rate = counted.requests as f64 / self.time.as_secs_f64();
            let mean = counted.waits.0 as f64 / self.time.0 as f64;
            format!(
                "{name:<9} {rate:.1}/s of {} on average, {mean:.2} in flight, {} each\n",
                format_bytes(counted.mean_bytes()),
                counted.response()
            )
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_a_job() {
        let reads = CountedOperations {
            requests: 4000,
            bytes: 4000 * 8192,
            waits: Nanos::from_secs(40),
            in_flight: vec![0, 1, 1, 2, 96],
        };
        let writes = CountedOperations {
            requests: 10,
            bytes: 10 << 20,
            waits: Nanos::from_millis(100),
            in_flight: vec![99, 1],
        };
        let load = CountedLoad { time: Nanos::from_secs(10), operations: [reads, writes] };
        let job = load.fit("the counters").unwrap();
        for line in [
            "[random-reads]", "bssplit=8192/100", "iodepth=4", "size=100%", "[sequential-writes]",
            "bssplit=1048576/100", "thinktime=990000",
        ] {
            assert!(job.lines().any(|known| known == line), "{line} is not in:\n{job}");
        }
        let mixed = CountedOperations { requests: 100, bytes: 100 * 4608, ..Default::default() };
        let sizes =
            mixed.sizes().iter().map(|size| (size.bytes, size.requests)).collect::<Vec<_>>();
        assert_eq!(sizes, [(4096, 87), (8192, 13)]);
        let text = load.describe();
        assert!(
            text.starts_with("reads     400.0/s of 8 KiB on average, 4.00 in flight"),
            "{text}"
        );
        assert!(!load.is_idle() && CountedLoad::default().is_idle());
    }
}
