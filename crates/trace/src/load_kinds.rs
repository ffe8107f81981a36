//! The four kinds of load in a trace: reads and writes, sequential and random.
//!
//! A request is sequential if it begins where one of the last [`STREAMS_MAX`] streams of its
//! operation and device ended. A kind keeps what a section of a job is made of.

use crate::bins::{Bins, SizeCount};
use crate::record::TraceRecord;
use mirrorball_core::units::Nanos;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// StreamEnds of an operation that are followed.
const STREAMS_MAX: usize = 32;
/// Different sizes that are counted one by one; a further one counts as the next power of two.
const SIZES_MAX: usize = 1024;
/// Most requests in flight that are counted; more count as this many.
const DEPTH_MAX: usize = 1024;
/// Most processes that are counted one by one.
const PROCESSES_MAX: usize = 4096;

#[derive(Clone, PartialEq, Debug)]
pub struct LoadClass {
    pub(crate) requests: u64,
    pub(crate) sizes: Vec<SizeCount>,
    /// Requests over the addresses, by their first byte.
    pub(crate) space: Bins,
    /// First byte of the lowest request, and end of the highest.
    pub(crate) range: [u64; 2],
    /// Coefficient of variation of the times between requests; 1 for random arrivals.
    pub(crate) gap_variation: f64,
    /// Requests in flight, if the trace has response times.
    pub(crate) depth: Option<KindDepth>,
    pub(crate) streams: u64,
    /// Number of processes with equal shares that would be as diverse as those of the trace.
    pub(crate) processes: u64,
}

/// Requests in flight of one kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct KindDepth {
    pub(crate) mean: f64,
    /// Not exceeded in nine tenths of the time in which there is any.
    pub(crate) high: u64,
    /// Never exceeded.
    pub(crate) most: u64,
    pub(crate) response: Nanos,
}

/// The ends of streams of one operation, the latest first: device, end, and whether a request has
/// followed another there.
#[derive(Default)]
pub(crate) struct StreamEnds(Vec<(u32, u64, bool)>);

impl StreamEnds {
    /// Continues a stream, and returns the number of streams that went on since its last request;
    /// `None` if the request begins one.
    pub(crate) fn follow(&mut self, record: &TraceRecord) -> Option<usize> {
        let begins = (record.device, record.offset);
        let at = self.0.iter().position(|end| (end.0, end.1) == begins && record.offset > 0);
        let others = self.0.iter().take(at.unwrap_or(0)).filter(|end| end.2).count();
        match at {
            Some(at) => _ = self.0.remove(at),
            None => self.0.truncate(STREAMS_MAX - 1),
        }
        self.0.insert(0, (record.device, record.offset + record.length, at.is_some()));
        at.map(|_| others)
    }
}

/// A kind while the trace is read.
pub(crate) struct KindCounting {
    kind: LoadClass,
    sizes: BTreeMap<u64, u64>,
    first: Option<Nanos>,
    previous: Nanos,
    gap_squares: f64,
    /// Ends of the requests in flight.
    ends: BinaryHeap<Reverse<u64>>,
    /// Time until which `at_depth` counts.
    counted_until: u64,
    /// Nanoseconds by the number in flight.
    at_depth: Vec<u64>,
    response_ns: f64,
    responses: u64,
    processes: HashMap<u32, u64>,
    others: [u64; STREAMS_MAX],
}

impl KindCounting {
    pub(crate) fn new() -> KindCounting {
        KindCounting {
            kind: LoadClass {
                requests: 0,
                sizes: Vec::new(),
                space: Bins::of_space(),
                range: [u64::MAX, 0],
                gap_variation: 0.0,
                depth: None,
                streams: 1,
                processes: 1,
            },
            sizes: BTreeMap::new(),
            first: None,
            previous: Nanos::ZERO,
            gap_squares: 0.0,
            ends: BinaryHeap::new(),
            counted_until: 0,
            at_depth: vec![0; DEPTH_MAX + 1],
            response_ns: 0.0,
            responses: 0,
            processes: HashMap::new(),
            others: [0; STREAMS_MAX],
        }
    }

    /// Counts a request that continued a stream after so many `others` did.
    pub(crate) fn add(&mut self, record: &TraceRecord, others: Option<usize>) {
        let TraceRecord { arrival, op, offset, length, response, process, .. } = *record;
        let kind = &mut self.kind;
        kind.requests += 1;
        kind.space.add(offset, op);
        kind.range = [kind.range[0].min(offset), kind.range[1].max(offset + length)];
        count_size(&mut self.sizes, length);
        if let Some(others) = others {
            self.others[others] += 1;
        }
        if self.processes.len() < PROCESSES_MAX || self.processes.contains_key(&process) {
            *self.processes.entry(process).or_default() += 1;
        }
        if self.first.is_none() {
            (self.first, self.previous, self.counted_until) = (Some(arrival), arrival, arrival.0);
        }
        let gap = (arrival.0 - self.previous.0) as f64;
        self.gap_squares += gap * gap;
        self.previous = arrival;
        while let Some(&Reverse(end)) = self.ends.peek()
            && (end <= arrival.0 || self.ends.len() > DEPTH_MAX)
        {
            self.pass_until(end.min(arrival.0));
            self.ends.pop();
        }
        self.pass_until(arrival.0);
        if let Some(response) = response {
            self.ends.push(Reverse(arrival.0.saturating_add(response.0)));
            self.response_ns += response.0 as f64;
            self.responses += 1;
        }
    }

    fn pass_until(&mut self, time: u64) {
        let depth = self.ends.len().min(DEPTH_MAX);
        self.at_depth[depth] += time.saturating_sub(self.counted_until);
        self.counted_until = time.max(self.counted_until);
    }

    pub(crate) fn finish(mut self, duration: Nanos) -> LoadClass {
        let counted: u64 = self.at_depth.iter().sum();
        self.at_depth[0] += duration.0.saturating_sub(counted);
        let sizes = self.sizes.iter();
        self.kind.sizes = sizes.map(|(&bytes, &requests)| SizeCount { bytes, requests }).collect();
        let span_ns = (self.previous - self.first.unwrap_or_default()).0 as f64;
        let gaps = self.kind.requests.saturating_sub(1) as f64;
        if span_ns > 0.0 {
            let mean = span_ns / gaps;
            let variance = (self.gap_squares / gaps - mean * mean).max(0.0);
            self.kind.gap_variation = variance.sqrt() / mean;
        }
        if self.responses > 0 {
            let response = Nanos((self.response_ns / self.responses as f64) as u64);
            self.kind.depth = KindDepth::new(&self.at_depth, response);
        }
        self.kind.streams = quantile(&self.others, 0.9) as u64 + 1;
        let (mut sum, mut squares) = (0.0, 0.0);
        for &count in self.processes.values() {
            sum += count as f64;
            squares += (count as f64).powi(2);
        }
        self.kind.processes = if sum > 0.0 { (sum * sum / squares).round() as u64 } else { 1 };
        self.kind
    }
}

impl KindDepth {
    /// The depths of requests with this mean response time, from the time spent at each depth.
    pub(crate) fn new(at_depth: &[u64], response: Nanos) -> Option<KindDepth> {
        let all: u64 = at_depth.iter().sum();
        let above = at_depth.get(1..).filter(|_| all > 0)?;
        let weighted = at_depth.iter().enumerate();
        let sum: f64 = weighted.map(|(depth, &time)| depth as f64 * time as f64).sum();
        let high = quantile(above, 0.9) as u64 + 1;
        let most = at_depth.iter().rposition(|&time| time > 0).unwrap_or(0).max(1) as u64;
        Some(KindDepth { mean: sum / all as f64, high, most, response })
    }
}

/// The first index up to which there is this part of the sum.
fn quantile(counts: &[u64], part: f64) -> usize {
    let wanted = counts.iter().sum::<u64>() as f64 * part;
    let mut sum = 0;
    let reached = |count: &u64| {
        sum += count;
        sum as f64 >= wanted
    };
    counts.iter().position(reached).unwrap_or(0)
}

fn count_size(sizes: &mut BTreeMap<u64, u64>, length: u64) {
    let known = sizes.len() < SIZES_MAX || sizes.contains_key(&length);
    let size = if known { length } else { length.checked_next_power_of_two().unwrap_or(length) };
    *sizes.entry(size).or_default() += 1;
}
