//! Turns the kernel's tracepoints of the requests of an array, as its file `trace_pipe` shows them,
//! into a trace: when each request was queued, and how long it took.
//!
//! The trace is of the format `msr`, with a header. Processes get numbers; names and ids are
//! left out. The members of a btrfs are read together: a [`ChunkTable`] says which address of the
//! file system each of their bytes is a copy of, and of a write the first copy alone is kept
//! that has a device.

use crate::formats::lost_events;
use crate::formats::tracepoints::{TraceLine, Tracepoint};
use crate::record::TraceOp;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt::Write;

/// First lines of the trace.
pub const HEADER: &str = "\
# Block requests, recorded by `mirrorball capture`: when each was queued, from the first one on.
# ResponseTime is empty where no end was seen. Process numbers the processes, and is no pid.
Timestamp_ns,Type,Offset_bytes,Size_bytes,ResponseTime_ns,Process
";
/// Requests that wait for the end of an earlier one.
const PENDING_MAX: usize = 1 << 16;
const STRIPE_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug)]
pub struct CapturedDevice {
    /// Numbers in tracepoints: of the device, and of the disk that it is a partition of.
    pub numbers: Vec<String>,
    /// Where it begins on its disk.
    pub start_bytes: u64,
    pub bytes: u64,
    /// Number within a btrfs.
    pub devid: u64,
}

impl CapturedDevice {
    /// Where a range of its disk begins within it; `None` if it is not within.
    fn inside(&self, offset: u64, length: u64) -> Option<u64> {
        let last = self.bytes.checked_sub(length);
        offset.checked_sub(self.start_bytes).filter(|it| Some(*it) <= last)
    }
}

#[derive(Clone, Debug)]
pub struct BtrfsChunk {
    /// First address.
    pub logical: u64,
    pub bytes: u64,
    /// Number of stripes that hold the same data.
    pub copies: u64,
    /// Device and offset of each stripe.
    pub stripes: Vec<(u64, u64)>,
}

/// The chunks of a btrfs, by the places of their stripes.
#[derive(Clone, Debug, Default)]
pub struct ChunkTable {
    /// Device, offset, number of the chunk, and of the stripe within it; whether it is the first
    /// copy of its data.
    stripes: Vec<(u64, u64, usize, u64, bool)>,
    chunks: Vec<BtrfsChunk>,
}

impl ChunkTable {
    /// The table of these chunks, of which only these devices are there.
    pub fn new(chunks: Vec<BtrfsChunk>, devices: &[CapturedDevice]) -> ChunkTable {
        let is_there = |stripe: &(u64, u64)| devices.iter().any(|it| it.devid == stripe.0);
        let mut stripes = Vec::new();
        for (number, chunk) in chunks.iter().enumerate() {
            for (at, &(devid, offset)) in chunk.stripes.iter().enumerate() {
                let before = at - at % chunk.copies as usize;
                let is_first = !chunk.stripes[before..at].iter().any(is_there);
                stripes.push((devid, offset, number, at as u64, is_first));
            }
        }
        stripes.sort_unstable();
        ChunkTable { stripes, chunks }
    }

    /// The address of a byte of a device, and whether it is of the first copy.
    fn logical(&self, devid: u64, offset: u64) -> Option<(u64, bool)> {
        let after = self.stripes.partition_point(|it| (it.0, it.1) <= (devid, offset));
        let before = self.stripes.get(after.checked_sub(1)?).filter(|stripe| stripe.0 == devid);
        let &(_, start, number, stripe, is_first) = before?;
        let chunk = &self.chunks[number];
        let columns = (chunk.stripes.len() as u64 / chunk.copies).max(1);
        let inside = offset - start;
        if inside >= chunk.bytes / columns {
            return None;
        }
        let row = inside / STRIPE_BYTES * columns + stripe / chunk.copies;
        let place = if columns == 1 { inside } else { row * STRIPE_BYTES + inside % STRIPE_BYTES };
        Some((chunk.logical + place, is_first))
    }
}

/// Numbers of requests that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    pub written: u64,
    /// Without an end when the recording ended.
    pub unfinished: u64,
    /// Outside of what was recorded: other partitions, superblocks, chunks that are not known.
    pub outside: u64,
    /// Lines that could not be parsed.
    pub malformed: u64,
}

struct QueuedRequest {
    time: u64,
    op: TraceOp,
    offset: u64,
    length: u64,
    process: usize,
    response: Option<u64>,
    end: (usize, u64),
}

#[derive(Default)]
pub struct CaptureWriter {
    devices: Vec<CapturedDevice>,
    /// Where a btrfs has its data.
    pub chunks: Option<ChunkTable>,
    /// Requests in the order of their arrival, from number `first` on.
    pending: VecDeque<QueuedRequest>,
    first: u64,
    /// Requests without an end, by their device and the byte behind them.
    open: BTreeMap<(usize, u64), VecDeque<u64>>,
    processes: HashMap<u32, usize>,
    origin: Option<u64>,
    pub counts: CaptureCounts,
}

impl CaptureWriter {
    pub fn new(devices: Vec<CapturedDevice>, chunks: Option<ChunkTable>) -> CaptureWriter {
        CaptureWriter { devices, chunks, ..CaptureWriter::default() }
    }

    /// Adds a line of `trace_pipe`, and appends the requests that are complete to `trace`.
    pub fn add(&mut self, line: &[u8], trace: &mut String) {
        if lost_events(line).is_some() {
            // Ends of requests may be among them.
            self.open.clear();
            return;
        }
        let line = match TraceLine::parse(line) {
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(_) => {
                self.counts.malformed += 1;
                return;
            }
        };
        let is_device =
            |it: &CapturedDevice| it.numbers.iter().any(|it| it.as_bytes() == line.device);
        let Some(device) = self.devices.iter().position(is_device) else {
            self.counts.outside += 1;
            return;
        };
        match line.event {
            Tracepoint::Queue => self.begin(device, &line),
            Tracepoint::Complete => self.end(device, &line),
            Tracepoint::Issue | Tracepoint::Remap => {}
        }
        self.write(trace, PENDING_MAX);
    }

    /// Appends the requests that have no end.
    pub fn finish(&mut self, trace: &mut String) {
        self.write(trace, 0);
    }

    fn begin(&mut self, device: usize, line: &TraceLine<'_>) {
        let Some(op) = line.op else { return };
        let place = self.place(device, op, line.offset, line.length);
        // The flush before a write ends with it, and may be of another partition.
        let is_inside = self.devices[device].inside(line.offset, line.length).is_some();
        if line.has_preflush && is_inside && self.place(device, TraceOp::Flush, 0, 0).is_some() {
            self.queue(line, TraceOp::Flush, (0, 0), None);
        }
        let Some(offset) = place else { return };
        let end = (device, line.offset.wrapping_add(line.length));
        let number = self.first + self.pending.len() as u64;
        self.open.entry(end).or_default().push_back(number);
        self.queue(line, op, (offset, line.length), Some(end));
    }

    /// Adds a request at an offset with a length; without an `end` to wait for it has ended.
    fn queue(
        &mut self,
        line: &TraceLine<'_>,
        op: TraceOp,
        (offset, length): (u64, u64),
        end: Option<(usize, u64)>,
    ) {
        let known = self.processes.len() + 1;
        let process = *self.processes.entry(line.process).or_insert(known);
        let (time, response) = (line.time, if end.is_some() { None } else { Some(0) });
        let end = end.unwrap_or_default();
        self.pending.push_back(QueuedRequest { time, op, offset, length, process, response, end });
    }

    /// Where a request goes in the array; `None` if it is no request to the array.
    fn place(&mut self, device: usize, op: TraceOp, offset: u64, length: u64) -> Option<u64> {
        let device = &self.devices[device];
        if op == TraceOp::Flush {
            // Each member of a btrfs is flushed.
            return (self.chunks.is_none() || device.devid == self.devices[0].devid).then_some(0);
        }
        if length == 0 {
            return None;
        }
        let placed = device.inside(offset, length).and_then(|inside| match &self.chunks {
            None => Some((inside, true)),
            Some(chunks) => chunks.logical(device.devid, inside),
        });
        match placed {
            None => {
                self.counts.outside += 1;
                None
            }
            Some((logical, is_first)) => (op == TraceOp::Read || is_first).then_some(logical),
        }
    }

    /// Ends the requests that a completed one was merged of: one for each end within it. One that a
    /// driver counted down has its end left, and no length.
    fn end(&mut self, device: usize, line: &TraceLine<'_>) {
        let end = line.offset.wrapping_add(line.length);
        let first = line.offset.min(end).saturating_add(u64::from(line.length > 0));
        let merged = self.open.range_mut((device, first)..=(device, end));
        let mut emptied = Vec::new();
        for (&key, numbers) in merged {
            let at = numbers.pop_front().and_then(|number| number.checked_sub(self.first));
            if let Some(pending) = at.and_then(|at| self.pending.get_mut(at as usize)) {
                pending.response = Some(line.time.saturating_sub(pending.time));
            }
            if numbers.is_empty() {
                emptied.push(key);
            }
        }
        for key in emptied {
            self.open.remove(&key);
        }
    }

    /// Writes from the first request on, as far as they have ended or there are more than `most`.
    fn write(&mut self, trace: &mut String, most: usize) {
        while let Some(request) = self.pending.front()
            && (request.response.is_some() || self.pending.len() > most)
        {
            let origin = *self.origin.get_or_insert(request.time);
            let time = request.time.saturating_sub(origin);
            let QueuedRequest { op, offset, length, process, .. } = *request;
            let kind = ["Read", "Write", "Discard", "Flush"][op as usize];
            let response = request.response.map(|ns| ns.to_string()).unwrap_or_default();
            let line = writeln!(trace, "{time},{kind},{offset},{length},{response},{process}");
            line.expect("a string takes all");
            self.counts.written += 1;
            if request.response.is_none() {
                self.counts.unfinished += 1;
                if let Some(numbers) = self.open.get_mut(&request.end) {
                    numbers.retain(|number| *number > self.first);
                    if numbers.is_empty() {
                        self.open.remove(&request.end);
                    }
                }
            }
            self.pending.pop_front();
            self.first += 1;
        }
    }
}
