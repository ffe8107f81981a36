//! Mean waits as the btrfs latency policies compute them from the block layer's statistics.
//!
//! Source: Anand Jain's patch "btrfs: use the path with the lowest latency for RAID1 reads".

use crate::units::Nanos;

/// Mean wait in nanoseconds. 0 means unknown: nothing was read, no wait was counted, or the mean is
/// below a nanosecond.
#[inline]
pub(crate) fn mean_wait_ns(reads: u64, wait: Nanos) -> u64 {
    if reads > 0 && wait.0 >= reads { wait.0 / reads } else { 0 }
}
