//! Summary of a trace, found in one pass and in memory of constant size.
//!
//! Two histograms adapt themselves: the requests over time, and over the addresses. Each has a
//! fixed number of bins; when a request lies behind the last, neighbours are joined and each bin
//! spans twice as much. The addresses of all devices are laid over each other.

use crate::reader::TraceReader;
use crate::record::{TraceOp, TraceRecord};
use crate::trace_file::TraceFile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Bins of a histogram. Even, so that neighbours can be joined.
const BINS: usize = 1024;
const FIRST_TIME_BIN_NS: u64 = 1_000_000;
const FIRST_SPACE_BIN_BYTES: u64 = 1 << 20;
/// Different sizes that are counted one by one; a further one counts as the next power of two.
const SIZES_MAX: usize = 1024;

/// Requests of one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeCount {
    /// Bytes of a request.
    pub bytes: u64,
    /// Number of requests.
    pub requests: u64,
}

/// The requests of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceSummary {
    /// Name in the trace.
    pub name: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Bytes read, written and discarded.
    pub bytes: u64,
    /// Where the request with the highest address ends.
    pub end_bytes: u64,
    /// End of the last request of each operation.
    ends: [u64; 4],
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

/// Summary of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceSummary {
    /// Hash of all requests, as 32 hexadecimal digits.
    pub content: String,
    /// Number of requests by operation: reads, writes, discards, flushes.
    pub requests: [u64; 4],
    /// Bytes by operation, in the same order.
    pub bytes: [u64; 4],
    /// Number of requests, in the same order, that begin where the last one of their operation and
    /// device ended.
    pub sequential: [u64; 4],
    /// Sizes of reads, by size.
    pub read_sizes: Vec<SizeCount>,
    /// Sizes of writes, by size.
    pub write_sizes: Vec<SizeCount>,
    /// Devices, in the order of appearance.
    pub devices: Vec<DeviceSummary>,
    /// Where the request with the highest address ends.
    pub end_bytes: u64,
    /// Arrival of the last request.
    pub duration: Nanos,
    /// Requests over time.
    pub timeline: Bins,
    /// Requests over the addresses, by their first byte.
    pub space: Bins,
    /// Coefficient of variation of the times between requests; 1 for random arrivals.
    pub gap_variation: f64,
    /// Mean number of requests in flight where the trace was taken, if it has response times.
    pub in_flight: Option<f64>,
    /// Number of requests that are not whole sectors of 4096 bytes.
    pub unaligned: u64,
    /// Number of requests that were too late to be sorted: see
    /// [`TraceReader::late`](crate::TraceReader::late).
    pub late: u64,
}

impl TraceSummary {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// If the trace cannot be read or understood, or has no request.
    pub fn of(file: &TraceFile) -> Result<TraceSummary, Diagnostic> {
        let mut reader = file.open(0)?;
        let mut count = Counting::new();
        while let Some(record) = reader.next_record()? {
            count.add(&record);
        }
        let mut summary = count.finish();
        for (number, device) in summary.devices.iter_mut().enumerate() {
            device.name = reader.device_name(number as u32);
        }
        summary.devices.retain(|device| device.requests > 0);
        summary.late = reader.late();
        if summary.devices.is_empty() {
            return Err(no_request(file, &reader));
        }
        Ok(summary)
    }

    /// Number of all requests.
    pub fn total(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Share of the requests that go to the busiest `share` of the addressed part.
    pub fn concentration(&self, share: f64) -> f64 {
        let mut counts: Vec<u64> = self.space.counts.iter().map(|bin| bin[0]).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let used = (counts.len() as f64 * share).ceil() as usize;
        let all: u64 = counts.iter().sum();
        counts.iter().take(used).sum::<u64>() as f64 / all.max(1) as f64
    }

    /// Number of requests of an operation, a read or a write, that arrive between two times in
    /// nanoseconds. Within a bin of the timeline they count as evenly spread.
    pub fn arrivals(&self, op: TraceOp, from: f64, until: f64) -> f64 {
        let width = self.timeline.width as f64;
        let bins = self.timeline.counts.iter().enumerate();
        let parts = bins.map(|(index, counts)| {
            let begin = index as f64 * width;
            // The last bin ends with the last request.
            let end = (begin + width).min(self.duration.0 as f64 + 1.0);
            let inside = (until.min(end) - from.max(begin)).max(0.0) / (end - begin);
            counts[1 + op as usize] as f64 * inside
        });
        parts.sum()
    }

    /// Share of the bins of [`TraceSummary::space`] with a request.
    pub fn touched(&self) -> f64 {
        let touched = self.space.counts.iter().filter(|bin| bin[0] > 0).count();
        touched as f64 / self.space.counts.len().max(1) as f64
    }
}

fn no_request(file: &TraceFile, reader: &TraceReader) -> Diagnostic {
    let Some(device) = &file.device else {
        let message = format!("the trace `{}` has no request", file.shown());
        return Diagnostic::new(message).with_help("check that it is complete");
    };
    let names = reader.device_names();
    let message = format!("the trace `{}` has no request of a device `{device}`", file.shown());
    let names: Vec<&str> = names.iter().map(String::as_str).take(20).collect();
    Diagnostic::new(message).with_suggestion(device, &names, "its devices are")
}

/// A summary while the trace is read.
struct Counting {
    hash: u128,
    summary: TraceSummary,
    sizes: [BTreeMap<u64, u64>; 2],
    previous: Nanos,
    gap_squares: f64,
    response_ns: f64,
    responses: u64,
}

const HASH_START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const HASH_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Counting {
    fn new() -> Counting {
        let summary = TraceSummary {
            content: String::new(),
            requests: [0; 4],
            bytes: [0; 4],
            sequential: [0; 4],
            read_sizes: Vec::new(),
            write_sizes: Vec::new(),
            devices: Vec::new(),
            end_bytes: 0,
            duration: Nanos::ZERO,
            timeline: Bins::new(FIRST_TIME_BIN_NS),
            space: Bins::new(FIRST_SPACE_BIN_BYTES),
            gap_variation: 0.0,
            in_flight: None,
            unaligned: 0,
            late: 0,
        };
        Counting {
            hash: HASH_START,
            summary,
            sizes: [BTreeMap::new(), BTreeMap::new()],
            previous: Nanos::ZERO,
            gap_squares: 0.0,
            response_ns: 0.0,
            responses: 0,
        }
    }

    fn add(&mut self, record: &TraceRecord) {
        let TraceRecord { arrival, op, offset, length, device, response } = *record;
        let response_ns = response.map_or(u64::MAX, |response| response.0);
        let kind = u64::from(device) << 2 | op as u64;
        for word in [arrival.0, offset, length, kind, response_ns] {
            self.hash = (self.hash ^ u128::from(word)).wrapping_mul(HASH_PRIME);
            self.hash ^= self.hash >> 64;
        }
        let (summary, op_index, end) = (&mut self.summary, op as usize, offset + length);
        summary.requests[op_index] += 1;
        summary.bytes[op_index] += length;
        summary.end_bytes = summary.end_bytes.max(end);
        summary.duration = arrival;
        summary.timeline.add(arrival.0, op);
        let device = device as usize;
        if device >= summary.devices.len() {
            summary.devices.resize_with(device + 1, DeviceSummary::default);
        }
        let device = &mut summary.devices[device];
        device.requests += 1;
        device.reads += u64::from(op == TraceOp::Read);
        device.bytes += length;
        device.end_bytes = device.end_bytes.max(end);
        if op != TraceOp::Flush {
            let follows = device.ends[op_index] == offset && offset > 0;
            summary.sequential[op_index] += u64::from(follows);
            device.ends[op_index] = end;
            summary.space.add(offset, op);
            let aligned = (offset | length).is_multiple_of(SECTOR_BYTES);
            summary.unaligned += u64::from(!aligned);
        }
        if let TraceOp::Read | TraceOp::Write = op {
            count_size(&mut self.sizes[op_index], length);
        }
        let gap = (arrival.0 - self.previous.0) as f64;
        self.gap_squares += gap * gap;
        self.previous = arrival;
        if let Some(response) = response {
            self.response_ns += response.0 as f64;
            self.responses += 1;
        }
    }

    fn finish(self) -> TraceSummary {
        let mut summary = self.summary;
        summary.content = format!("{:032x}", self.hash);
        let listed = |sizes: BTreeMap<u64, u64>| {
            let sizes = sizes.into_iter();
            sizes.map(|(bytes, requests)| SizeCount { bytes, requests }).collect()
        };
        [summary.read_sizes, summary.write_sizes] = self.sizes.map(listed);
        let gaps = summary.total().saturating_sub(1) as f64;
        let duration_ns = summary.duration.0 as f64;
        if gaps > 0.0 && duration_ns > 0.0 {
            let mean = duration_ns / gaps;
            let variance = (self.gap_squares / gaps - mean * mean).max(0.0);
            summary.gap_variation = variance.sqrt() / mean;
            summary.in_flight = (self.responses > 0).then(|| self.response_ns / duration_ns);
        }
        summary
    }
}

fn count_size(sizes: &mut BTreeMap<u64, u64>, length: u64) {
    let known = sizes.len() < SIZES_MAX || sizes.contains_key(&length);
    let size = if known { length } else { length.checked_next_power_of_two().unwrap_or(length) };
    *sizes.entry(size).or_default() += 1;
}

impl Bins {
    fn new(width: u64) -> Bins {
        Bins { width, counts: Vec::new() }
    }

    #[inline]
    fn add(&mut self, at: u64, op: TraceOp) {
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
