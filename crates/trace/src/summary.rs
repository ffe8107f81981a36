//! Summary of a trace, found in one pass and in memory of constant size.
//!
//! The addresses of all devices are laid over each other.

use crate::bins::{Bins, SizeCount};
use crate::load_kinds::{KindCounting, LoadClass, StreamEnds};
use crate::reader::TraceReader;
use crate::record::{TraceOp, TraceRecord};
use crate::trace_file::TraceFile;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
use std::collections::BTreeMap;

const FIRST_TIME_BIN_NS: u64 = 1_000_000;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceSummary {
    pub name: String,
    pub requests: u64,
    pub reads: u64,
    /// Bytes read, written and discarded.
    pub bytes: u64,
    /// Where the request with the highest address ends.
    pub end_bytes: u64,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TraceSummary {
    /// Hash of all requests, as 32 hexadecimal digits.
    pub content: String,
    /// Number of requests by operation: reads, writes, discards, flushes.
    pub requests: [u64; 4],
    /// Bytes by operation, in the same order.
    pub bytes: [u64; 4],
    /// Sequential reads, random reads, sequential writes, random writes.
    pub kinds: [LoadClass; 4],
    pub read_sizes: Vec<SizeCount>,
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
    /// Number of events that were lost where the trace was recorded, as far as it says so.
    pub lost: u64,
}

impl TraceSummary {
    /// Reads a whole trace. Fails if the trace cannot be read or understood, or has no request.
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
        (summary.late, summary.lost) = (reader.late(), reader.lost());
        if summary.devices.is_empty() {
            return Err(no_request(file, &reader));
        }
        summary.check_devices(file, &reader.remaps())?;
        Ok(summary)
    }

    /// Checks that no device of which requests are counted lies on another one. `remaps` has the
    /// lower device first.
    fn check_devices(&self, file: &TraceFile, remaps: &[[String; 2]]) -> Result<(), Diagnostic> {
        let counts = |name: &String| self.devices.iter().any(|device| device.name == *name);
        let mut stacked = remaps.iter().filter(|[lower, upper]| counts(lower) && counts(upper));
        let is_lower = |name: &String| remaps.iter().any(|[lower, _]| lower == name);
        let Some([lower, upper]) = stacked.clone().find(|it| !is_lower(&it[1])).or(stacked.next())
        else {
            return Ok(());
        };
        let message = format!(
            "the trace `{}` has the requests of device {upper} again as those of device {lower}, \
             on which it lies",
            file.shown()
        );
        let help = format!("read one of them: --device {upper}, or device={upper} in a pragma");
        Err(Diagnostic::new(message).with_help(help))
    }

    /// Reasons to doubt the figures.
    pub fn doubts(&self) -> Vec<String> {
        /// Requests per second above which a unit is probably wrong, if there are some.
        const RATE_MAX: f64 = 1e6;
        const REQUESTS_LEAST: u64 = 100;
        let mut doubts = Vec::new();
        if self.lost > 0 {
            doubts.push(format!(
                "{} events were lost where it was recorded: requests are missing",
                self.lost
            ));
        }
        if self.mean_iops() > RATE_MAX && self.total() >= REQUESTS_LEAST {
            doubts.push(format!(
                "{:.0} requests/s are more than arrays serve: is the unit of its times another?",
                self.mean_iops()
            ));
        }
        doubts
    }

    /// A summary of no request.
    pub(crate) fn empty() -> TraceSummary {
        TraceSummary {
            content: String::new(),
            requests: [0; 4],
            bytes: [0; 4],
            kinds: std::array::from_fn(|_| KindCounting::new().finish(Nanos::ZERO)),
            read_sizes: Vec::new(),
            write_sizes: Vec::new(),
            devices: Vec::new(),
            end_bytes: 0,
            duration: Nanos::ZERO,
            timeline: Bins::new(FIRST_TIME_BIN_NS),
            space: Bins::of_space(),
            gap_variation: 0.0,
            in_flight: None,
            unaligned: 0,
            late: 0,
            lost: 0,
        }
    }

    pub fn total(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// Number of processes with equal shares that would be as diverse as those of the trace, of the
    /// kind of load with the most.
    pub fn processes(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.processes).max().unwrap_or(1)
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
    kinds: [KindCounting; 4],
    streams: [StreamEnds; 2],
    previous: Nanos,
    gap_squares: f64,
    response_ns: f64,
    responses: u64,
}

const HASH_START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const HASH_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Counting {
    fn new() -> Counting {
        Counting {
            hash: HASH_START,
            summary: TraceSummary::empty(),
            kinds: std::array::from_fn(|_| KindCounting::new()),
            streams: Default::default(),
            previous: Nanos::ZERO,
            gap_squares: 0.0,
            response_ns: 0.0,
            responses: 0,
        }
    }

    fn add(&mut self, record: &TraceRecord) {
        let TraceRecord { arrival, op, offset, length, device, response, .. } = *record;
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
            summary.space.add(offset, op);
            let aligned = (offset | length).is_multiple_of(SECTOR_BYTES);
            summary.unaligned += u64::from(!aligned);
        }
        if let TraceOp::Read | TraceOp::Write = op {
            let place = self.streams[op_index].follow(record);
            self.kinds[2 * op_index + usize::from(place.is_none())].add(record, place);
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
        summary.kinds = self.kinds.map(|kind| kind.finish(summary.duration));
        summary.read_sizes = all_sizes(&summary.kinds[..2]);
        summary.write_sizes = all_sizes(&summary.kinds[2..]);
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

/// Sizes of several kinds together.
fn all_sizes(kinds: &[LoadClass]) -> Vec<SizeCount> {
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for size in kinds.iter().flat_map(|kind| &kind.sizes) {
        *sizes.entry(size.bytes).or_default() += size.requests;
    }
    sizes.into_iter().map(|(bytes, requests)| SizeCount { bytes, requests }).collect()
}
