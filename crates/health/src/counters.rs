//! The kernel's counters of disks, as `/proc/diskstats` shows them.
//!
//! Fields are those of the kernel's `Documentation/admin-guide/iostats.rst`. Times are in
//! milliseconds and wrap at 32 bits.

use mirrorball_core::units::Nanos;
use serde::{Deserialize, Serialize};

/// Bytes in a sector, as the kernel counts them.
const SECTOR_BYTES: u64 = 512;
/// Where times wrap.
const TIME_WRAP_MS: u64 = 1 << 32;

/// The counters of one disk, or their differences over a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    pub reads: u64,
    /// Reads that were merged with one that was waiting.
    pub merged_reads: u64,
    /// Sectors of 512 bytes read.
    pub read_sectors: u64,
    pub read_ms: u64,
    pub writes: u64,
    /// Writes that were merged.
    pub merged_writes: u64,
    pub written_sectors: u64,
    pub write_ms: u64,
    /// Time with I/O in flight.
    pub busy_ms: u64,
    /// Sum of the waits of all I/O, counted while it is in flight.
    pub weighted_ms: u64,
}

impl DiskCounters {
    /// The counters of the disk `name` in the text of `/proc/diskstats`.
    pub fn of(text: &str, name: &str) -> Option<DiskCounters> {
        DiskCounters::all(text).find(|(other, _)| *other == name).map(|(_, counters)| counters)
    }

    /// Each disk and partition in the text of `/proc/diskstats`, by name. Lines that are cut off
    /// are left out.
    pub fn all(text: &str) -> impl Iterator<Item = (&str, DiskCounters)> {
        text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(2);
            let name = words.next()?;
            let mut fields = [0; 11];
            for field in &mut fields {
                *field = words.next()?.parse().unwrap_or(0);
            }
            let [reads, merged_reads, read_sectors, read_ms, ..] = fields;
            let [.., writes, merged_writes, written_sectors, write_ms, _, busy_ms, weighted_ms] =
                fields;
            let counters = DiskCounters {
                reads,
                merged_reads,
                read_sectors,
                read_ms,
                writes,
                merged_writes,
                written_sectors,
                write_ms,
                busy_ms,
                weighted_ms,
            };
            Some((name, counters))
        })
    }

    /// Difference to `before`.
    pub fn since(&self, before: &DiskCounters) -> DiskCounters {
        let count = |now: u64, then: u64| now.saturating_sub(then);
        let time = |now: u64, then: u64| match now >= then {
            true => now - then,
            false => (now + TIME_WRAP_MS).saturating_sub(then),
        };
        DiskCounters {
            reads: count(self.reads, before.reads),
            merged_reads: count(self.merged_reads, before.merged_reads),
            read_sectors: count(self.read_sectors, before.read_sectors),
            read_ms: time(self.read_ms, before.read_ms),
            writes: count(self.writes, before.writes),
            merged_writes: count(self.merged_writes, before.merged_writes),
            written_sectors: count(self.written_sectors, before.written_sectors),
            write_ms: time(self.write_ms, before.write_ms),
            busy_ms: time(self.busy_ms, before.busy_ms),
            weighted_ms: time(self.weighted_ms, before.weighted_ms),
        }
    }

    /// The sum of two differences.
    pub fn plus(&self, other: &DiskCounters) -> DiskCounters {
        DiskCounters {
            reads: self.reads + other.reads,
            merged_reads: self.merged_reads + other.merged_reads,
            read_sectors: self.read_sectors + other.read_sectors,
            read_ms: self.read_ms + other.read_ms,
            writes: self.writes + other.writes,
            merged_writes: self.merged_writes + other.merged_writes,
            written_sectors: self.written_sectors + other.written_sectors,
            write_ms: self.write_ms + other.write_ms,
            busy_ms: self.busy_ms + other.busy_ms,
            weighted_ms: self.weighted_ms + other.weighted_ms,
        }
    }

    pub fn read_bytes(&self) -> u64 {
        self.read_sectors.saturating_mul(SECTOR_BYTES)
    }

    pub fn written_bytes(&self) -> u64 {
        self.written_sectors.saturating_mul(SECTOR_BYTES)
    }

    /// The figures of `iostat -x` over `time`.
    pub fn iostat(&self, time: Nanos) -> IostatRow {
        let seconds = time.as_secs_f64();
        let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let each = |sum: u64, count: u64| if count > 0 { sum as f64 / count as f64 } else { 0.0 };
        IostatRow {
            reads_per_s: per_second(self.reads),
            read_kib_per_s: per_second(self.read_bytes()) / 1024.0,
            read_wait_ms: each(self.read_ms, self.reads),
            read_size_kib: each(self.read_bytes(), self.reads) / 1024.0,
            writes_per_s: per_second(self.writes),
            write_kib_per_s: per_second(self.written_bytes()) / 1024.0,
            write_wait_ms: each(self.write_ms, self.writes),
            queue: per_second(self.weighted_ms) / 1000.0,
            utilisation_percent: (per_second(self.busy_ms) / 10.0).min(100.0),
        }
    }
}

/// A row of `iostat -x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IostatRow {
    /// `r/s`
    pub reads_per_s: f64,
    /// `rkB/s`
    pub read_kib_per_s: f64,
    /// `r_await`
    pub read_wait_ms: f64,
    /// `rareq-sz`
    pub read_size_kib: f64,
    /// `w/s`
    pub writes_per_s: f64,
    /// `wkB/s`
    pub write_kib_per_s: f64,
    /// `w_await`
    pub write_wait_ms: f64,
    /// `aqu-sz`
    pub queue: f64,
    /// `%util`
    pub utilisation_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "   8       0 sda 100 1 2000 300 40 2 800 50 0 250 360 0 0 0 0\n\
        \u{20}  8       1 sda1 90 0 1 2 3 4 5 6 7 8 9\n";

    #[test]
    fn a_disk_is_found_by_its_whole_name() {
        let counters = DiskCounters::of(TEXT, "sda").unwrap();
        assert_eq!((counters.reads, counters.read_sectors, counters.read_ms), (100, 2000, 300));
        assert_eq!((counters.writes, counters.write_ms), (40, 50));
        assert_eq!((counters.busy_ms, counters.weighted_ms), (250, 360));
        assert_eq!(DiskCounters::of(TEXT, "sda1").unwrap().weighted_ms, 9);
        assert_eq!(DiskCounters::of(TEXT, "sd"), None);
        assert_eq!(DiskCounters::of("8 0 sda 1 2", "sda"), None, "cut off");
    }

    #[test]
    fn times_wrap_and_counts_do_not() {
        let before = DiskCounters { read_ms: TIME_WRAP_MS - 10, reads: 5, ..Default::default() };
        let after = DiskCounters { read_ms: 20, reads: 8, ..Default::default() };
        let since = after.since(&before);
        assert_eq!((since.read_ms, since.reads), (30, 3));
    }

    #[test]
    fn figures_are_those_of_iostat() {
        let counters = DiskCounters::of(TEXT, "sda").unwrap();
        let row = counters.iostat(Nanos::from_millis(500));
        assert_eq!((row.reads_per_s, row.read_wait_ms, row.read_size_kib), (200.0, 3.0, 10.0));
        assert_eq!((row.read_kib_per_s, row.writes_per_s), (2000.0, 80.0));
        assert!((row.queue - 0.72).abs() < 1e-9, "{}", row.queue);
        assert!((row.utilisation_percent - 50.0).abs() < 1e-9);
    }
}
