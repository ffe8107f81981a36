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
use crate::experiment::hash::StableHasher;
use crate::experiment::record::{CoarseLatency, IntervalsRecord, LatencyOverTime};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::histogram::{Histogram, bin_middle};
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_sim::record::{INTERVAL_MIN, INTERVALS_MAX};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const FIO_BINS: usize = 1_856;
/// A line of a histogram is the longest.
const LINE_BYTES_MAX: u64 = 128 << 10;
/// Times of the clock: from 1990 to 2100.
const CLOCK_MS: std::ops::Range<u64> = 631_152_000_000..4_102_444_800_000;
/// A log may end later than its job: in the requests of its ramp, and by the window of its lines.
const SLACK: Nanos = Nanos::from_secs(2);
/// No run takes longer than this: 34 years.
const TIME_MS_MAX: u64 = 1 << 40;

/// What a log's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogKind {
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

/// One log, which is read again where its lines are needed: it may be larger than the memory.
#[derive(Clone, Debug)]
pub struct Log {
    kind: LogKind,
    /// Which clone wrote it, from one on; zero if all wrote one together.
    number: u64,
    path: PathBuf,
    name: String,
    pub(super) content: String,
    /// Number of its reads and writes, and of those that are single requests or have bins.
    entries: u64,
    requests: u64,
    /// End of the last, counted from the start of its clone.
    end_ns: u64,
}

const KINDS: [(&str, LogKind); 5] = [
    ("hist", LogKind::CompletionHistogram),
    ("bw", LogKind::Bandwidth),
    ("iops", LogKind::Iops),
    ("lat", LogKind::TotalLatency),
    ("clat", LogKind::CompletionLatency),
];

impl Log {
    /// The log at a path, whose name is `PREFIX_KIND.NUMBER.log` or `PREFIX_KIND.log`. Fails if the
    /// name does not contain the kind of log, or a line cannot be read.
    pub fn open(path: &Path) -> Result<Log> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".log").unwrap_or(&name);
        let (stem, number) = match stem.rsplit_once('.') {
            Some((stem, number)) => (stem, number.parse().ok()),
            None => (stem, Some(0)),
        };
        let kind = stem.rsplit_once('_').map_or(stem, |(_, kind)| kind);
        let row = KINDS.iter().find(|(name, _)| *name == kind);
        let (kind, number) = match (row, number) {
            (Some(&(_, kind)), Some(number)) => (kind, number),
            (None, _) if kind == "slat" => bail!(
                "{name}: a log of submission latencies, which are a part of each latency\n  help: \
                 give the log of the whole: NAME_lat.1.log, or NAME_clat.1.log"
            ),
            _ => bail!(
                "{name}: the file name does not show the kind of log\n  help: keep the name that \
                 fio gives: NAME_bw.1.log, NAME_iops.1.log, NAME_lat.1.log, NAME_clat.1.log \
                 or NAME_clat_hist.1.log"
            ),
        };
        let (path, content) = (path.to_owned(), String::new());
        let mut log = Log { kind, number, path, name, content, entries: 0, requests: 0, end_ns: 0 };
        let (mut entries, mut requests, mut end_ns) = (0, 0, 0);
        log.content = log.read(0, |entry| {
            entries += 1;
            requests += u64::from(entry.is_requests());
            end_ns = entry.until_ns.max(end_ns);
        })?;
        (log.entries, log.requests, log.end_ns) = (entries, requests, end_ns);
        Ok(log)
    }

    /// Checks that no job of these sections is too short for it, or made too few requests.
    fn check_run(&self, sections: &Sections) -> Result<()> {
        let (ran, ios) = sections.longest();
        let end = Nanos(self.end_ns);
        let why = if end > ran.saturating_add(SLACK).saturating_add(ran / 10) {
            format!("ends at {end}, but no job ran for longer than {ran}")
        } else if self.requests > ios && self.kind != LogKind::CompletionHistogram {
            format!("has {} requests, but the run made {ios}", self.requests)
        } else {
            return Ok(());
        };
        bail!("{}: {why}\n  help: give the logs that fio wrote with this result", self.name)
    }

    /// Hands out the reads and writes of the log: from when to when, on the clock of the run, and
    /// the value. Returns the hash of its bytes.
    fn read(&self, from_ns: u64, mut each: impl FnMut(&Entry)) -> Result<String> {
        let unreadable = |error: io::Error| {
            let help = "give the path of a log that fio wrote with this result";
            anyhow!("cannot read {}: {error}\n  help: {help}", self.path.display())
        };
        let mut reader = BufReader::new(File::open(&self.path).map_err(unreadable)?);
        let (mut hasher, mut line) = (StableHasher::default(), Vec::new());
        let mut clock = LogClock { from_ns, epoch_ms: None, window_from_ms: [0; 2] };
        for number in 1.. {
            line.clear();
            let end = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if end.map_err(unreadable)? == 0 {
                break;
            }
            if line.len() as u64 == LINE_BYTES_MAX {
                bail!("{}:{number}: the line is longer than any of a fio log", self.name);
            }
            hasher.absorb(&line);
            let text = String::from_utf8_lossy(&line);
            let entry = self.entry(text.trim(), &mut clock);
            if let Some(entry) = entry.map_err(|e| anyhow!("{}:{number}: {e}", self.name))? {
                each(&entry);
            }
        }
        Ok(hasher.finish())
    }

    /// Hands out the same again. Fails if the log has changed.
    fn read_again(&self, from_ns: u64, each: impl FnMut(&Entry)) -> Result<()> {
        if self.read(from_ns, each)? != self.content {
            bail!("{}: changed while it was read\n  help: wait until fio has ended", self.name);
        }
        Ok(())
    }

    /// A line; `None` if it is empty, or of neither a read nor a write.
    fn entry(&self, line: &str, clock: &mut LogClock) -> Result<Option<Entry>> {
        if line.is_empty() {
            return Ok(None);
        }
        let is_histogram = self.kind == LogKind::CompletionHistogram;
        let columns = if is_histogram { 3 + FIO_BINS } else { 4 };
        let number = |(column, field): (usize, &str)| {
            let value = field.trim().parse::<f64>().map_err(|_| {
                anyhow!(
                    "column {column}, `{}`, is not a number\n  help: give the log as fio wrote it",
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
            _ => bail!("not a line of a fio log: fewer than three columns"),
        };
        let Some((from_ns, until_ns)) = clock.window(time_ms, direction)? else { return Ok(None) };
        let size = rest.first().copied().filter(|&bytes| bytes > 0 && !is_histogram);
        let bins = if is_histogram { bins(rest) } else { Vec::new() };
        let is_write = direction == 1;
        Ok(Some(Entry { is_write, from_ns, until_ns, value, size_bytes: size, bins }))
    }
}

struct LogClock {
    from_ns: u64,
    /// With `log_unix_epoch` times are those of the clock.
    epoch_ms: Option<u64>,
    /// Ends of the last windows of reads and of writes.
    window_from_ms: [u64; 2],
}

impl LogClock {
    /// The window of a line, on the clock of the run; `None` for other directions.
    fn window(&mut self, time_ms: u64, direction: u64) -> Result<Option<(u64, u64)>> {
        let is_clock = CLOCK_MS.contains(&time_ms);
        let epoch = *self.epoch_ms.get_or_insert(if is_clock { time_ms } else { 0 });
        let time_ms = time_ms.saturating_sub(epoch);
        if time_ms > TIME_MS_MAX {
            bail!("the time {time_ms} ms is too large");
        }
        let Some(before_ms) = self.window_from_ms.get_mut(direction as usize) else {
            return Ok(None);
        };
        let on_clock = |ms: u64| self.from_ns.saturating_add(ms * NS_PER_MS);
        let window = (on_clock((*before_ms).min(time_ms)), on_clock(time_ms));
        *before_ms = time_ms;
        Ok(Some(window))
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

impl Entry {
    /// Returns false for a window.
    fn is_requests(&self) -> bool {
        self.size_bytes.is_some() || !self.bins.is_empty()
    }
}

/// The run in intervals, and what its latencies are; nothing if there are no logs.
pub(super) fn intervals(
    logs: &[Log],
    sections: &Sections,
) -> Result<(IntervalsRecord, Option<LatencyOverTime>)> {
    let of = |kind: LogKind| logs.iter().filter(move |log| log.kind == kind && log.entries > 0);
    let all = |kind: LogKind| of(kind).collect::<Vec<&Log>>();
    let (bandwidth, iops) = (all(LogKind::Bandwidth), all(LogKind::Iops));
    let kinds = [LogKind::CompletionHistogram, LogKind::TotalLatency, LogKind::CompletionLatency];
    let latency = kinds.map(all).into_iter().find(|logs| !logs.is_empty()).unwrap_or_default();
    logs.iter().try_for_each(|log| log.check_run(sections))?;
    let from_ns = |log: &Log| sections.clone_from_ns(log.number);
    let used = [&bandwidth, &iops, &latency].into_iter().flatten();
    let Some(end_ns) = used.map(|log| from_ns(log).saturating_add(log.end_ns)).max() else {
        return Ok((IntervalsRecord::default(), None));
    };
    let mut grid = Grid::new(end_ns);
    let has_requests = latency.iter().any(|log| log.requests > 0);
    let (sources, unit_bytes) = match sections.mean_read_bytes() {
        _ if !bandwidth.is_empty() => (&bandwidth, KIB as f64),
        _ if has_requests => (&latency, 0.0),
        Some(mean_bytes) => (&iops, mean_bytes),
        None => (&Vec::new(), 0.0),
    };
    for log in sources {
        log.read_again(from_ns(log), |entry| grid.add_bytes(entry, unit_bytes))?;
    }
    for log in &latency {
        log.read_again(from_ns(log), |entry| grid.add_latency(entry))?;
    }
    let over_time = match latency.iter().all(|log| log.requests == log.entries) {
        _ if latency.is_empty() => None,
        true => Some(LatencyOverTime::Requests),
        false => Some(LatencyOverTime::Means),
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

    /// The interval of a time; the last if it is behind the end, as in a log that has grown.
    fn place(&self, at_ns: u64) -> usize {
        ((at_ns / self.width_ns) as usize).min(self.latency.len() - 1)
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
        }
    }
}
