//! The windows of a disk between two evaluations.

use super::{DiskWindow, WAITS_MIN_MS};
use crate::counters::DiskCounters;
use crate::service::{DiskKind, DiskService, IoDirection};
use mirrorball_core::units::Nanos;

/// Least blocks of an evaluation: one that is far off does not move the median of them.
pub(super) const BLOCKS_MIN: usize = 3;

#[derive(Clone, Debug, Default)]
pub(super) struct GatheredWindows {
    pub(super) counters: DiskCounters,
    pub(super) time: Nanos,
    pub(super) errors: u64,
    /// The longest window.
    pub(super) longest: Nanos,
    /// The parts of `counters`: windows, or several where one has too little I/O.
    blocks: Vec<DiskCounters>,
}

impl GatheredWindows {
    pub(super) fn add(&mut self, window: &DiskWindow) {
        self.counters = self.counters.plus(&window.counters);
        self.time = self.time.saturating_add(window.time);
        self.longest = self.longest.max(window.time);
        self.errors = self.errors.saturating_add(window.errors);
        match self.blocks.last_mut() {
            Some(last) if ((last.read_ms + last.write_ms) as f64) < WAITS_MIN_MS => {
                *last = last.plus(&window.counters);
            }
            _ => self.blocks.push(window.counters),
        }
    }

    /// Returns true if there are enough blocks for a median.
    pub(super) fn has_blocks(&self) -> bool {
        self.blocks.len() >= BLOCKS_MIN
    }

    /// The median of the mean services of the blocks, weighted by their I/Os: a few I/Os that take
    /// far longer do not move it. `None` if waits in a block are too short to say.
    pub(super) fn typical_service_ns(&self, way: IoDirection, class: DiskKind) -> Option<f64> {
        let services = self.blocks.iter().filter_map(|it| DiskService::of(it, way, class));
        let mut services: Vec<DiskService> = services.collect();
        services.sort_by(|a, b| a.service_ns.total_cmp(&b.service_ns));
        let half = services.iter().map(|it| it.count).sum::<u64>().div_ceil(2);
        if services.iter().any(|it| it.waits_ms() < 1.0 || it.count > half) {
            return None;
        }
        let mut seen = 0;
        let median = services.iter().find(|it| {
            seen += it.count;
            seen >= half
        });
        median.map(|it| it.service_ns)
    }
}
