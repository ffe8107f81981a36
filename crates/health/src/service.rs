//! DiskService: what a wait says of the disk itself.
//!
//! The kernel's wait of an I/O includes the queue in front of it, so that a busy disk looks slow.
//! By Little's law the mean number in flight is the sum of waits over the time; over the *busy*
//! time it is the depth that the disk worked at. A disk that serves one I/O after the other makes
//! each wait for those before it, one that serves some at once makes none wait up to that number.
//! A wait divided by the growth that the depth explains is the *service*, which two windows, or two
//! disks, can be compared by.

use crate::counters::DiskCounters;
use mirrorball_core::units::Nanos;
use serde::{Deserialize, Serialize};

/// The kind of a disk, as far as its waits depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    Hdd,
    /// A solid-state disk behind SATA, SAS or USB.
    Ssd,
    /// A solid-state disk on PCIe, or a device of a hypervisor or a network.
    Nvme,
}

/// An operation whose waits the kernel sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoDirection {
    Read,
    Write,
}

/// Waits of one direction in one window, without the growth that the depth explains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskService {
    /// Mean service in nanoseconds.
    pub service_ns: f64,
    /// Mean wait in nanoseconds.
    pub wait_ns: f64,
    /// Mean number in flight while any was.
    pub depth: f64,
    /// Mean size in bytes.
    pub bytes: f64,
    /// Number of I/Os.
    pub count: u64,
    /// Share of the other direction among all I/Os.
    pub other_share: f64,
    /// Bytes of the other direction.
    pub other_bytes: f64,
    /// Mean wait of the other direction without what the depth explains.
    pub other_service_ns: f64,
}

impl DiskKind {
    /// The factor by which a wait grows from depth 1 to `depth`.
    ///
    /// Hard disks reorder what waits: at depth 32 they do about twice as many random reads as at
    /// depth 1, so the wait grows by the power 0.8 of the depth. Solid-state disks serve several at
    /// once: 8 over SATA, 32 on PCIe, as our models of them do.
    pub(crate) fn growth(self, depth: f64) -> f64 {
        match self {
            DiskKind::Hdd => depth.max(1.0).powf(0.8),
            DiskKind::Ssd => (depth / 8.0).max(1.0),
            DiskKind::Nvme => (depth / 32.0).max(1.0),
        }
    }

    /// The longest transfer of a byte in nanoseconds: 50 MB/s at the inner end of an old hard disk,
    /// SATA behind USB or slow flash, one lane of PCIe or a fast network.
    pub fn transfer_max_ns(self) -> f64 {
        match self {
            DiskKind::Hdd => 20.0,
            DiskKind::Ssd => 4.0,
            DiskKind::Nvme => 1.0,
        }
    }

    /// The longest service of random I/O of this size that a healthy disk of the class has.
    ///
    /// Of a hard disk it is the arm over most of a disk of 5,400 revolutions a minute, half a
    /// revolution, and 50 MB/s at the inner end; others are bounded by nothing of the kind, so they
    /// are judged by history and peers alone.
    pub fn service_max_ns(self, bytes: f64) -> f64 {
        match self {
            DiskKind::Hdd => 18e6 + bytes * self.transfer_max_ns(),
            DiskKind::Ssd | DiskKind::Nvme => 0.0,
        }
    }
}

impl DiskService {
    /// Variance of the logarithm of the service that follows from the number of I/Os and from
    /// counting whole milliseconds. Waits are about as far apart as they are long; twice as far
    /// where some wait for I/O of the other direction, as reads of flash for what it programs.
    pub fn variance(&self) -> f64 {
        let spread = if self.other_share > 0.0 { 4.0 } else { 1.0 };
        spread / self.count as f64 + (0.5 / self.waits_ms()).powi(2)
    }

    /// The longest service of random I/O that a healthy disk of the class has; each I/O may wait
    /// for one of the other direction, such as data from the disk's cache.
    pub fn random_max_ns(&self, class: DiskKind) -> f64 {
        let others = (self.other_share / (1.0 - self.other_share)).min(1.0);
        let most = class.service_max_ns(self.bytes);
        most + others * most.max(self.other_service_ns)
    }

    pub fn waits_ms(&self) -> f64 {
        self.wait_ns * self.count as f64 / 1e6
    }

    /// The service of one direction in a window of these counters; `None` without any I/O of it.
    pub fn of(
        counters: &DiskCounters,
        direction: IoDirection,
        class: DiskKind,
    ) -> Option<DiskService> {
        let reads = (counters.reads, counters.read_ms, counters.read_bytes());
        let writes = (counters.writes, counters.write_ms, counters.written_bytes());
        let ((count, wait_ms, bytes), (other, other_ms, other_bytes)) = match direction {
            IoDirection::Read => (reads, writes),
            IoDirection::Write => (writes, reads),
        };
        if count == 0 {
            return None;
        }
        // A kernel counts whole milliseconds: less than one is half of one.
        let wait_ns = (wait_ms as f64).max(0.5) * 1e6 / count as f64;
        let depth = (counters.read_ms + counters.write_ms) as f64 / counters.busy_ms.max(1) as f64;
        let depth = depth.max(1.0);
        Some(DiskService {
            service_ns: wait_ns / class.growth(depth),
            wait_ns,
            depth,
            bytes: bytes as f64 / count as f64,
            count,
            other_share: other as f64 / (count + other) as f64,
            other_bytes: other_bytes as f64,
            other_service_ns: other_ms as f64 * 1e6 / other.max(1) as f64 / class.growth(depth),
        })
    }
}

/// Mean share of a window with I/O in flight, from 0 to 1.
pub fn utilisation(counters: &DiskCounters, time: Nanos) -> f64 {
    let time_ms = time.as_secs_f64() * 1e3;
    if time_ms > 0.0 { (counters.busy_ms as f64 / time_ms).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(reads: u64, read_ms: u64, busy_ms: u64) -> DiskCounters {
        DiskCounters { reads, read_sectors: 8 * reads, read_ms, busy_ms, ..Default::default() }
    }

    #[test]
    fn a_queue_explains_a_long_wait() {
        let read = |class, counters| DiskService::of(&counters, IoDirection::Read, class).unwrap();
        // 100 reads of 10 ms each, one by one; and 150 a second with 16 in flight: 107 ms each.
        let alone = read(DiskKind::Hdd, counters(100, 1000, 1000));
        let queued = read(DiskKind::Hdd, counters(150, 16_000, 1000));
        assert!((alone.service_ns - 10e6).abs() < 1.0);
        assert!((queued.wait_ns / alone.wait_ns - 10.67).abs() < 0.01);
        assert!((1.0..1.2).contains(&(queued.service_ns / alone.service_ns)), "{queued:?}");
        // An SSD serves eight at once without making any wait.
        let one = read(DiskKind::Ssd, counters(5_000, 500, 500));
        let eight = read(DiskKind::Ssd, counters(40_000, 4_000, 500));
        assert!((eight.service_ns / one.service_ns - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_io_there_is_no_service() {
        let counters = counters(10, 20, 20);
        assert_eq!(DiskService::of(&counters, IoDirection::Write, DiskKind::Ssd), None);
        assert!((utilisation(&counters, Nanos::from_secs(1)) - 0.02).abs() < 1e-12);
        assert_eq!(utilisation(&counters, Nanos::ZERO), 0.0);
    }
}
