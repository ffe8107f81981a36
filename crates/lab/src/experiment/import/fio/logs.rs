//! fio's logs (`write_bw_log`, `write_iops_log`, `write_lat_log`) as intervals.
//!
//! A line is `time in ms, value, direction, block size, …` (fio's HOWTO, "Log File Formats"). With
//! `log_avg_msec` a line is the window since the line before, its value is a mean and its
//! block size is zero; otherwise it is one request. Only reads (direction 0) are drawn.
//! Times of a job's log count from the start of that job.
//!
//! Bandwidth comes from the bandwidth logs, else from single requests in latency logs, else from
//! IOPS times the mean size. Latency comes from the total latency's logs, else the completion's.

use super::NS_PER_MS;
use super::sections::Sections;
use crate::experiment::record::{CoarseLatency, IntervalsRecord, LatencyOverTime};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_sim::record::{INTERVAL_MIN, INTERVALS_MAX};

/// No run takes longer than this: 34 years.
const TIME_MS_MAX: u64 = 1 << 40;

/// What a log's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// KiB/s, or bytes of a request.
    Bandwidth,
    /// Requests per second, or one for a request.
    Iops,
    /// Nanoseconds from the intended submission on.
    TotalLatency,
    /// Nanoseconds from the submission to the kernel on.
    CompletionLatency,
}

/// One log.
#[derive(Clone, Debug)]
pub struct Log {
    kind: LogKind,
    /// Which clone wrote it, from one on; zero if all wrote one together.
    number: u64,
    name: String,
    /// The log itself.
    pub(super) text: String,
}

const KINDS: [(&str, LogKind); 4] = [
    ("bw", LogKind::Bandwidth),
    ("iops", LogKind::Iops),
    ("lat", LogKind::TotalLatency),
    ("clat", LogKind::CompletionLatency),
];

impl Log {
    /// A log by its file's name, `PREFIX_KIND.NUMBER.log` or `PREFIX_KIND.log`, and its text.
    ///
    /// # Errors
    /// If the name does not contain the kind of log.
    pub fn new(name: &str, text: String) -> Result<Log> {
        let stem = name.strip_suffix(".log").unwrap_or(name);
        let (stem, number) = match stem.rsplit_once('.') {
            Some((stem, number)) => (stem, number.parse().ok()),
            None => (stem, Some(0)),
        };
        let kind = stem.rsplit_once('_').map_or(stem, |(_, kind)| kind);
        let row = KINDS.iter().find(|(name, _)| *name == kind);
        match (row, number) {
            (Some(&(_, kind)), Some(number)) => {
                Ok(Log { kind, number, name: name.to_owned(), text })
            }
            _ => Err(anyhow!(
                "{name}: the file name does not show the kind of log\n  help: keep the name that \
                 fio gives: NAME_bw.1.log, NAME_iops.1.log, NAME_lat.1.log or NAME_clat.1.log"
            )),
        }
    }

    /// Checks that every line can be read.
    ///
    /// # Errors
    /// Names the first that cannot.
    pub fn check(&self) -> Result<()> {
        self.reads(0).map(drop)
    }

    /// The reads of a log: from when to when, on the clock of the run, and the value.
    fn reads(&self, from_ns: u64) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut window_from_ms = 0;
        for (index, line) in self.text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let number = |(column, field): (usize, &str)| {
                let value = field.trim().parse::<f64>().map_err(|_| {
                    anyhow!(
                        "{}:{}: column {column}, `{}`, is not a number\n  help: give the log as \
                         fio wrote it",
                        self.name,
                        index + 1,
                        field.trim()
                    )
                })?;
                Ok(value.max(0.0) as u64)
            };
            let fields = (1..).zip(line.split(',')).take(4).map(number);
            let fields: Vec<u64> = fields.collect::<Result<_>>()?;
            let &[time_ms, value, direction, ref rest @ ..] = &fields[..] else {
                bail!(
                    "{}:{}: not a line of a fio log: fewer than three columns",
                    self.name,
                    index + 1
                );
            };
            if time_ms > TIME_MS_MAX {
                bail!("{}:{}: the time {time_ms} ms is too large", self.name, index + 1);
            }
            if direction == 0 {
                let on_clock = |ms: u64| from_ns.saturating_add(ms * NS_PER_MS);
                let (from, until) = (on_clock(window_from_ms.min(time_ms)), on_clock(time_ms));
                let size = rest.first().copied().filter(|&bytes| bytes > 0);
                entries.push(Entry { from_ns: from, until_ns: until, value, size_bytes: size });
                window_from_ms = time_ms;
            }
        }
        Ok(entries)
    }
}

/// One line.
struct Entry {
    from_ns: u64,
    until_ns: u64,
    value: u64,
    /// None if the line is a window.
    size_bytes: Option<u64>,
}

/// The run in intervals, and what its latencies are; nothing if there are no logs.
pub(super) fn intervals(
    logs: &[Log],
    sections: &Sections,
) -> Result<(IntervalsRecord, Option<LatencyOverTime>)> {
    let entries_of = |kind: LogKind| -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for log in logs.iter().filter(|log| log.kind == kind) {
            entries.extend(log.reads(sections.clone_from_ns(log.number))?);
        }
        Ok(entries)
    };
    let bandwidth = entries_of(LogKind::Bandwidth)?;
    let iops = entries_of(LogKind::Iops)?;
    let mut latency = entries_of(LogKind::TotalLatency)?;
    if latency.is_empty() {
        latency = entries_of(LogKind::CompletionLatency)?;
    }
    let all = [&bandwidth, &iops, &latency].into_iter().flatten();
    let Some(end_ns) = all.map(|entry| entry.until_ns).max() else {
        return Ok((IntervalsRecord::default(), None));
    };
    let mut grid = Grid::new(end_ns);
    if !bandwidth.is_empty() {
        bandwidth.iter().for_each(|entry| grid.add_bytes(entry, KIB as f64));
    } else if latency.iter().any(|entry| entry.size_bytes.is_some()) {
        latency.iter().for_each(|entry| grid.add_bytes(entry, 0.0));
    } else if let Some(mean_bytes) = sections.mean_read_bytes() {
        iops.iter().for_each(|entry| grid.add_bytes(entry, mean_bytes));
    }
    latency.iter().for_each(|entry| grid.add_latency(entry));
    let over_time = match &latency[..] {
        [] => None,
        entries if entries.iter().all(|entry| entry.size_bytes.is_some()) => {
            Some(LatencyOverTime::Requests)
        }
        _ => Some(LatencyOverTime::Means),
    };
    Ok((grid.record(), over_time))
}

/// Equal intervals over the run.
struct Grid {
    width_ns: u64,
    bytes: Vec<f64>,
    latency: Vec<Histogram>,
}

impl Grid {
    /// As the simulator has them: the least width that needs no more than its number.
    fn new(end_ns: u64) -> Grid {
        let mut width_ns = INTERVAL_MIN.0;
        while end_ns / width_ns >= INTERVALS_MAX as u64 {
            width_ns *= 2;
        }
        let count = (end_ns / width_ns) as usize + 1;
        Grid { width_ns, bytes: vec![0.0; count], latency: vec![Histogram::default(); count] }
    }

    fn place(&self, at_ns: u64) -> usize {
        (at_ns / self.width_ns) as usize
    }

    /// The bytes of a request, or of a window with `value` times `unit_bytes` per second, spread
    /// over the intervals that it covers.
    fn add_bytes(&mut self, entry: &Entry, unit_bytes: f64) {
        let &Entry { from_ns, until_ns, value, size_bytes } = entry;
        if let Some(size_bytes) = size_bytes {
            let place = self.place(until_ns);
            self.bytes[place] += size_bytes as f64;
            return;
        }
        for place in self.place(from_ns)..=self.place(until_ns) {
            let start_ns = place as u64 * self.width_ns;
            let overlap_ns =
                until_ns.min(start_ns + self.width_ns).saturating_sub(from_ns.max(start_ns));
            self.bytes[place] += value as f64 * unit_bytes * Nanos(overlap_ns).as_secs_f64();
        }
    }

    fn add_latency(&mut self, entry: &Entry) {
        let place = self.place(entry.until_ns);
        self.latency[place].record(Nanos(entry.value));
    }

    fn record(&self) -> IntervalsRecord {
        let width_us = self.width_ns / 1_000;
        let count = self.bytes.len();
        IntervalsRecord {
            from_us: (0..count as u64).map(|place| place * width_us).collect(),
            width_us: vec![width_us; count],
            read_bytes: self.bytes.iter().map(|bytes| bytes.round() as u64).collect(),
            read_latency: self.latency.iter().map(CoarseLatency::from).collect(),
            members: Vec::new(),
            counters: Vec::new(),
        }
    }
}
