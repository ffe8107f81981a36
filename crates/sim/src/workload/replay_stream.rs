//! Requests of a trace, issued by one clone of a section.
//!
//! - Open: a request is due at its time in the trace. One that finds no place in the queue is
//!   issued late, and its latency counts from the time at which it was due.
//! - Closed: a request is issued as soon as there is a place in the queue.
//! - Think time: what followed a completion in the trace follows one in the replay. A request waits
//!   until no more are in flight than in the trace at that time, and then for the gap that it had
//!   in the trace: after the last completion, or after the request before it if none completed
//!   between the two.
//!
//! Requests are widened to whole sectors. The trace is read while the section runs; it was checked
//! with the job file, so an error ends the run.

use super::{CloneSpec, Issue, Next};
use crate::job::{Region, Replay, ReplayPace, Section};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::io::RequestKind;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
use mirrorball_trace::{TraceOp, TraceReader, TraceRecord};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of requests of a trace that are remembered as in flight.
const IN_FLIGHT_MAX: usize = 1 << 16;

/// One clone of a section that replays a trace.
pub(crate) struct ReplayStream {
    reader: TraceReader,
    replay: Replay,
    region: Region,
    start: Nanos,
    stop: Nanos,
    /// The next request, and when it may be issued.
    pending: Option<(TraceRecord, ThinkTime)>,
    /// Completions in the trace of the requests that were issued.
    completions: BinaryHeap<Reverse<Nanos>>,
    /// Arrival in the trace, and time of issue, of the last request.
    last_issue: (Nanos, Nanos),
    last_completion: Nanos,
    in_flight: usize,
    /// Why the trace could not be read to its end.
    error: Option<Diagnostic>,
}

/// Event that a request waits for if its pace is think time.
#[derive(Clone, Copy, Debug)]
struct ThinkTime {
    /// Requests in flight in the trace when it arrived.
    in_flight: usize,
    /// Whether one completed after the request before it.
    follows_completion: bool,
    gap: Nanos,
}

impl ReplayStream {
    /// The clone of `job` that `replay` belongs to.
    pub(crate) fn new(
        job: &Section,
        replay: &Replay,
        clone_spec: CloneSpec,
    ) -> Result<ReplayStream, Diagnostic> {
        let start = clone_spec.group_start.max(job.start_delay);
        let stop_after = |runtime| start.saturating_add(job.ramp).saturating_add(runtime);
        Ok(ReplayStream {
            reader: replay.file.open(clone_spec.seed)?,
            replay: replay.clone(),
            region: job.regions(clone_spec.clone, clone_spec.volume_bytes)[0].region,
            start,
            stop: job.runtime.map_or(Nanos::MAX, stop_after),
            pending: None,
            completions: BinaryHeap::new(),
            last_issue: (Nanos::ZERO, start),
            last_completion: start,
            in_flight: 0,
            error: None,
        })
    }

    /// The next action at `now`: see [`Workload::next`](super::Workload::next).
    pub(crate) fn next(&mut self, now: Nanos) -> Next {
        if now >= self.stop {
            return Next::Done;
        }
        if now < self.start {
            return Next::NotBefore(self.start.min(self.stop));
        }
        if self.pending.is_none() {
            self.pending = self.read();
        }
        let Some((record, think_time)) = self.pending else { return Next::Done };
        let due = match self.replay.pace {
            ReplayPace::Closed => now,
            ReplayPace::Open => self.start.saturating_add(self.replay.scaled(record.arrival)),
            ReplayPace::ThinkTime if self.in_flight > think_time.in_flight => return Next::Wait,
            ReplayPace::ThinkTime => {
                let after = match think_time.follows_completion {
                    true => self.last_completion,
                    false => self.last_issue.1,
                };
                after.saturating_add(self.replay.scaled(think_time.gap))
            }
        };
        if due > now {
            return Next::NotBefore(due.min(self.stop));
        }
        self.pending = None;
        self.in_flight += 1;
        self.last_issue = (record.arrival, now);
        if self.replay.pace == ReplayPace::ThinkTime {
            let response = record.response.unwrap_or_default();
            self.completions.push(Reverse(record.arrival.saturating_add(response)));
            if self.completions.len() > IN_FLIGHT_MAX {
                self.completions.pop();
            }
        }
        let intended = if self.replay.pace == ReplayPace::Open { due } else { now };
        Next::Issue(self.issue(&record, intended))
    }

    /// Why the trace could not be read to its end, if so: it was changed after the job was read.
    pub(crate) fn take_error(&mut self) -> Option<Diagnostic> {
        self.error.take()
    }

    pub(crate) fn complete(&mut self, now: Nanos) {
        self.in_flight -= 1;
        self.last_completion = now;
    }

    /// The next request that is not skipped, with what it waits for.
    fn read(&mut self) -> Option<(TraceRecord, ThinkTime)> {
        let record = loop {
            match self.reader.next_record() {
                Ok(Some(record)) if self.replay.skips[record.op as usize] => {}
                Ok(record) => break record?,
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            }
        };
        let mut latest = None;
        while let Some(&Reverse(at)) = self.completions.peek()
            && at <= record.arrival
        {
            latest = Some(at);
            self.completions.pop();
        }
        // A completion that an earlier request already followed is before that request.
        let latest = latest.filter(|&at| at >= self.last_issue.0);
        let gap = record.arrival - latest.unwrap_or(self.last_issue.0);
        let in_flight = self.completions.len();
        Some((record, ThinkTime { in_flight, follows_completion: latest.is_some(), gap }))
    }

    /// The request on the volume: scaled, aligned, widened to whole sectors, and within the region.
    fn issue(&self, record: &TraceRecord, intended: Nanos) -> Issue {
        let kind = match record.op {
            TraceOp::Read => RequestKind::Read,
            TraceOp::Write => RequestKind::Write,
            TraceOp::Trim => RequestKind::Discard,
            TraceOp::Flush => {
                let kind = RequestKind::Flush;
                return Issue { kind, offset: 0, length: 0, intended };
            }
        };
        let offset = record.offset / self.replay.offset_divisor;
        let offset = offset / self.replay.align_bytes * self.replay.align_bytes;
        let first = offset / SECTOR_BYTES * SECTOR_BYTES;
        let end = (offset + record.length).next_multiple_of(SECTOR_BYTES);
        let length = (end - first).min(self.region.bytes);
        let wrapped = match first.checked_add(length) {
            Some(end) if end <= self.region.bytes => first,
            _ => (first % self.region.bytes).min(self.region.bytes - length),
        };
        Issue { kind, offset: self.region.offset + wrapped, length, intended }
    }
}
