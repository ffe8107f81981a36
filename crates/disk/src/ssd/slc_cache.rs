//! The SLC cache: a part of the flash that is programmed with one bit per cell, and so faster.
//!
//! Writes go there while there is space; then they go to the rest of the flash at its own rate. A
//! drive that has been idle for a while folds the cache: it copies the data to the rest with all
//! its dies, which makes space again. Folding stops when a command comes, and no command meets it.
//!
//! Source of the behaviour: the write tests of TechPowerUp and AnandTech, where the rate falls to a
//! lower one after a fixed number of bytes and recovers after a pause. Non-goals: a size that
//! shrinks as the drive fills, folding while commands come, faster reads of cached data.

use super::parameters::SsdParameters;

#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    size_bytes: u64,
    used_bytes: u64,
    /// How long the drive must have been idle before it folds.
    idle_ns: u64,
    /// Time to fold 2^20 bytes.
    fold_ns_per_mib: u64,
    /// When the last command came.
    last_command: u64,
}

impl SlcCache {
    /// An empty cache, or `None` if the drive has none.
    pub(super) fn new(parameters: &SsdParameters) -> Option<SlcCache> {
        let unit_ns = (parameters.copy_read + parameters.program).0;
        let bytes = parameters.program_unit_bytes() * u64::from(parameters.dies);
        (parameters.slc_cache > 0).then(|| SlcCache {
            size_bytes: parameters.slc_cache,
            used_bytes: 0,
            idle_ns: parameters.slc_idle.0,
            fold_ns_per_mib: ((unit_ns << 20) / bytes).max(1),
            last_command: 0,
        })
    }

    /// Whether a write of `length` bytes at `at` finds space. `drained_at` is when all that was
    /// written before is programmed.
    #[inline]
    pub(super) fn has_space(&self, at: u64, drained_at: u64, length: u64) -> bool {
        self.used_at(at, drained_at) + length <= self.size_bytes
    }

    /// Records a command at `at`: folding stops.
    #[inline]
    pub(super) fn note_command(&mut self, at: u64, drained_at: u64) {
        self.used_bytes = self.used_at(at, drained_at);
        self.last_command = at;
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.used_bytes += bytes;
    }

    /// Space left in the cache at `at`, after folding in the idle time before.
    #[inline]
    fn used_at(&self, at: u64, drained_at: u64) -> u64 {
        let since = self.last_command.max(drained_at);
        let Some(folding_ns) = at.checked_sub(since + self.idle_ns).filter(|&ns| ns > 0) else {
            return self.used_bytes;
        };
        let folded = (u128::from(folding_ns) << 20) / u128::from(self.fold_ns_per_mib);
        self.used_bytes.saturating_sub(u64::try_from(folded).unwrap_or(u64::MAX))
    }
}
