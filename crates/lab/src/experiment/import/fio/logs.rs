//! fio's logs (`write_bw_log`, `write_iops_log`, `write_lat_log`) as intervals.
//!
//! A line is `time in ms, value, direction, block size, …` (fio's HOWTO, "Log File Formats"). With
//! `log_avg_msec` a line is the window since the line before, its value is a mean and its
//! block size is zero; otherwise it is one request. A line of a histogram log has the counts of its
//! bins for a value. Reads and writes are drawn, latencies are those of reads.
//! Times of a job's log count from the start of that job.
//!
//! Bandwidth comes from the bandwidth logs, else from single requests in latency logs, else from
//! IOPS times the mean size. Latency comes from the total latency's logs, else the completion's.

use super::NS_PER_MS;
use super::sections::Sections;
use crate::experiment::record::{CoarseLatency, IntervalsRecord, LatencyOverTime};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::histogram::{Histogram, bin_middle};
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_sim::record::{INTERVAL_MIN, INTERVALS_MAX};

/// Bins of fio's histograms.
const FIO_BINS: usize = 1_856;
/// Times of the clock: from 1990 to 2100.
const CLOCK_MS: std::ops::Range<u64> = 631_152_000_000..4_102_444_800_000;
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
    /// The same in bins.
    CompletionHistogram,
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

const KINDS: [(&str, LogKind); 5] = [
    ("hist", LogKind::CompletionHistogram),
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
            (None, _) if kind == "slat" => Err(anyhow!(
                "{name}: a log of submission latencies, which are a part of each latency\n  help: \
                 give the log of the whole: NAME_lat.1.log, or NAME_clat.1.log"
            )),
            _ => Err(anyhow!(
                "{name}: the file name does not show the kind of log\n  help: keep the name that \
                 fio gives: NAME_bw.1.log, NAME_iops.1.log, NAME_lat.1.log, NAME_clat.1.log \
                 or NAME_clat_hist.1.log"
            )),
        }
    }

    /// Checks that every line can be read.
    ///
    /// # Errors
    /// Names the first that cannot.
    pub fn check(&self) -> Result<()> {
        self.entries(0).map(drop)
    }

    /// The reads and writes of a log: from when to when, on the clock of the run, and the value.
    fn entries(&self, from_ns: u64) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut window_from_ms = [0; 2];
        // With `log_unix_epoch` times are those of the clock.
        let mut epoch_ms = None;
        let is_histogram = self.kind == LogKind::CompletionHistogram;
        let columns = if is_histogram { 3 + FIO_BINS } else { 4 };
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
            let fields = (1..).zip(line.split(',')).take(columns).map(number);
            let fields: Vec<u64> = fields.collect::<Result<_>>()?;
            let (time_ms, value, direction, rest) = match &fields[..] {
                [time_ms, direction, size, bins @ ..] if is_histogram => {
                    (*time_ms, *size, *direction, bins)
                }
                [time_ms, value, direction, rest @ ..] => (*time_ms, *value, *direction, rest),
                _ => bail!(
                    "{}:{}: not a line of a fio log: fewer than three columns",
                    self.name,
                    index + 1
                ),
            };
            let is_clock = CLOCK_MS.contains(&time_ms);
            let epoch = *epoch_ms.get_or_insert(if is_clock { time_ms } else { 0 });
            let time_ms = time_ms.saturating_sub(epoch);
            if time_ms > TIME_MS_MAX {
                bail!("{}:{}: the time {time_ms} ms is too large", self.name, index + 1);
            }
            let Some(window_from_ms) = window_from_ms.get_mut(direction as usize) else { continue };
            let on_clock = |ms: u64| from_ns.saturating_add(ms * NS_PER_MS);
            let (from, until) = (on_clock((*window_from_ms).min(time_ms)), on_clock(time_ms));
            let size = rest.first().copied().filter(|&bytes| bytes > 0 && !is_histogram);
            entries.push(Entry {
                is_write: direction == 1,
                from_ns: from,
                until_ns: until,
                value,
                size_bytes: size,
                bins: if is_histogram { bins(rest) } else { Vec::new() },
            });
            *window_from_ms = time_ms;
        }
        Ok(entries)
    }
}

/// Bins and counts of the columns of a histogram log. `log_hist_coarseness` makes one column of
/// several bins: the middle one stands for them.
fn bins(counts: &[u64]) -> Vec<(usize, u64)> {
    let coarse = [32, 16, 8, 4, 2].into_iter().find(|by| counts.len() == FIO_BINS / by);
    let by = coarse.unwrap_or(1);
    let all = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    all.map(|(at, count)| (at * by + by / 2, (*count).min(1 << 40))).collect()
}

/// One line.
struct Entry {
    is_write: bool,
    from_ns: u64,
    until_ns: u64,
    value: u64,
    /// None if the line is a window.
    size_bytes: Option<u64>,
    /// Of a histogram, whose value is the size of a request.
    bins: Vec<(usize, u64)>,
}

/// The run in intervals, and what its latencies are; nothing if there are no logs.
pub(super) fn intervals(
    logs: &[Log],
    sections: &Sections,
) -> Result<(IntervalsRecord, Option<LatencyOverTime>)> {
    let entries_of = |kind: LogKind| -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for log in logs.iter().filter(|log| log.kind == kind) {
            entries.extend(log.entries(sections.clone_from_ns(log.number))?);
        }
        Ok(entries)
    };
    let bandwidth = entries_of(LogKind::Bandwidth)?;
    let iops = entries_of(LogKind::Iops)?;
    let mut latency = entries_of(LogKind::CompletionHistogram)?;
    for kind in [LogKind::TotalLatency, LogKind::CompletionLatency] {
        if latency.is_empty() {
            latency = entries_of(kind)?;
        }
    }
    let all = [&bandwidth, &iops, &latency].into_iter().flatten();
    let Some(end_ns) = all.map(|entry| entry.until_ns).max() else {
        return Ok((IntervalsRecord::default(), None));
    };
    let mut grid = Grid::new(end_ns);
    if !bandwidth.is_empty() {
        bandwidth.iter().for_each(|entry| grid.add_bytes(entry, KIB as f64));
    } else if latency.iter().any(|it| it.size_bytes.is_some() || !it.bins.is_empty()) {
        latency.iter().for_each(|entry| grid.add_bytes(entry, 0.0));
    } else if let Some(mean_bytes) = sections.mean_read_bytes() {
        iops.iter().for_each(|entry| grid.add_bytes(entry, mean_bytes));
    }
    latency.iter().for_each(|entry| grid.add_latency(entry));
    let over_time = match &latency[..] {
        [] => None,
        entries if entries.iter().all(|it| it.size_bytes.is_some() || !it.bins.is_empty()) => {
            Some(LatencyOverTime::Requests)
        }
        _ => Some(LatencyOverTime::Means),
    };
    Ok((grid.record(), over_time))
}

/// Equal intervals over the run.
struct Grid {
    width_ns: u64,
    /// Of reads and of writes.
    bytes: [Vec<f64>; 2],
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
        let bytes = [vec![0.0; count], vec![0.0; count]];
        Grid { width_ns, bytes, latency: vec![Histogram::default(); count] }
    }

    fn place(&self, at_ns: u64) -> usize {
        (at_ns / self.width_ns) as usize
    }

    /// The bytes of a request, or of a window with `value` times `unit_bytes` per second, spread
    /// over the intervals that it covers.
    fn add_bytes(&mut self, entry: &Entry, unit_bytes: f64) {
        let &Entry { from_ns, until_ns, value, size_bytes, .. } = entry;
        let requests: u64 = entry.bins.iter().map(|(_, count)| count).sum();
        let of_requests = (requests > 0).then(|| requests.saturating_mul(value));
        let at_end = self.place(until_ns);
        let places = self.place(from_ns)..=at_end;
        let bytes = &mut self.bytes[usize::from(entry.is_write)];
        if let Some(size_bytes) = size_bytes.or(of_requests) {
            bytes[at_end] += size_bytes as f64;
            return;
        }
        for place in places {
            let start_ns = place as u64 * self.width_ns;
            let overlap_ns =
                until_ns.min(start_ns + self.width_ns).saturating_sub(from_ns.max(start_ns));
            bytes[place] += value as f64 * unit_bytes * Nanos(overlap_ns).as_secs_f64();
        }
    }

    fn add_latency(&mut self, entry: &Entry) {
        if entry.is_write {
            return;
        }
        let place = self.place(entry.until_ns);
        if entry.bins.is_empty() {
            self.latency[place].record(Nanos(entry.value));
            return;
        }
        let middles = || entry.bins.iter().map(|(bin, count)| (bin_middle(*bin), *count));
        let sum = middles().map(|(middle, count)| u128::from(middle.0) * u128::from(count)).sum();
        let [min, max] = [middles().min(), middles().max()].map(|it| it.unwrap_or_default().0);
        let bins = entry.bins.iter().copied();
        let window =
            Histogram::from_parts(bins, sum, min, max).expect("`bins` gives some that exist");
        self.latency[place].merge(&window);
    }

    fn record(&self) -> IntervalsRecord {
        let width_us = self.width_ns / 1_000;
        let count = self.latency.len();
        let rounded = |bytes: &[f64]| bytes.iter().map(|bytes| bytes.round() as u64).collect();
        let [read, written] = &self.bytes;
        let has_writes = written.iter().any(|bytes| *bytes > 0.0);
        IntervalsRecord {
            from_us: (0..count as u64).map(|place| place * width_us).collect(),
            width_us: vec![width_us; count],
            read_bytes: rounded(read),
            written_bytes: if has_writes { rounded(written) } else { Vec::new() },
            read_latency: self.latency.iter().map(CoarseLatency::from).collect(),
            members: Vec::new(),
            counters: Vec::new(),
        }
    }
}
