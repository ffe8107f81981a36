//! The record of a run: the data of every table and chart.
//!
//! Memory is constant in simulated time. Intervals start narrow; when their number reaches
//! [`INTERVALS_MAX`], neighbours are merged and the width doubles. Samples are every n-th read;
//! when their number reaches [`SAMPLES_MAX`], every other sample is dropped and n doubles, so
//! samples are spread evenly over a run of any length.

use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::{IoError, MemberIo, Op, Outcome, RequestKind};
use mirrorball_core::member::{MemberIndex, Members};
use mirrorball_core::policy::Counter;
use mirrorball_core::units::Nanos;
use mirrorball_disk::cache_tier::CacheTierCounts;
use mirrorball_disk::controller::ControllerCounts;

/// Maximum number of intervals in a record.
pub const INTERVALS_MAX: usize = 96;
/// Width of an interval at the start of a run.
pub const INTERVAL_MIN: Nanos = Nanos::from_millis(250);
/// Maximum number of samples in a record.
pub const SAMPLES_MAX: usize = 2048;

/// Writes in a section below which two halves are not compared.
const WRITES_TO_COMPARE: u64 = 100;

/// The results of one run of one policy.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// Length of the measured window: from the end of the ramp to the last foreground completion.
    pub measured: Nanos,
    /// One per section, its clones joined, in the order of the file.
    pub sections: Vec<SectionResult>,
    /// One per member.
    pub members: Vec<MemberResult>,
    /// The run in equal intervals, including the ramp.
    pub intervals: Vec<Interval>,
    /// Every n-th read of the sections.
    pub samples: Vec<Sample>,
    /// The policy's counters at the end.
    pub counters: Vec<Counter>,
    /// Bytes that background work moved, reads and writes together.
    pub background_bytes: u64,
    /// Number of member I/Os of the whole run: a measure of the simulator's work.
    pub member_ios: u64,
    /// Reads of the whole run for which the policy had more than one mirror to choose from.
    pub choices: u64,
    /// Counters of the cache in front of the array over the whole run, if the array has one.
    pub array_cache: Option<CacheTierCounts>,
    /// Counters of the controller over the whole run, if the array has one.
    pub controller: Option<ControllerCounts>,
}

/// The results of one section within its measured window.
#[derive(Clone, Debug)]
pub struct SectionResult {
    /// Name of the section.
    pub name: String,
    /// Whether the section counts for the score of a policy: see [`Section::counts`].
    ///
    /// [`Section::counts`]: crate::job::Section::counts
    pub counts: bool,
    /// Whether the section has a rate: see [`Section::has_rate`].
    ///
    /// [`Section::has_rate`]: crate::job::Section::has_rate
    pub has_rate: bool,
    /// Start of the measured window: the end of the ramp.
    pub from: Nanos,
    /// Length of the measured window, to the end of the last clone. A clone ends after its last
    /// completion, or at the end of its runtime if it pauses until then. If the section ended early
    /// because a request failed, the whole runtime is measured, so that the requests it did not
    /// make lower its rate.
    pub measured: Nanos,
    /// Reads.
    pub read: DirectionResult,
    /// Writes.
    pub write: DirectionResult,
    /// Trims.
    pub trim: DirectionResult,
    /// Flushes (fsync and fdatasync).
    pub flush: DirectionResult,
}

/// Requests of one kind within the measured window.
#[derive(Clone, Debug, Default)]
pub struct DirectionResult {
    /// Bytes of the requests that succeeded.
    pub bytes: u64,
    /// Those of `bytes` that completed in the first half of the planned window. Without a runtime
    /// there is no planned window, and all bytes count.
    pub first_half_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latencies of the requests that succeeded, from intended start to completion.
    pub latency: Histogram,
}

/// The results of one member within the measured window.
#[derive(Clone, Debug, Default)]
pub struct MemberResult {
    /// Devid of the member.
    pub devid: u64,
    /// Reads for requests of sections, not of background work.
    pub foreground_reads: u64,
    /// All reads.
    pub reads: u64,
    /// All writes.
    pub writes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// The same since the start of the run, so with those before the measured window.
    pub run_written_bytes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// Second reads (of a race) whose data was not used: the cost of reading twice.
    pub extra_reads: u64,
    /// Reads cancelled before the member began them.
    pub cancelled_reads: u64,
    /// Waits of all reads.
    pub read_wait: Histogram,
    /// Sum of the waits of all reads and writes.
    pub wait: Nanos,
    /// Time with I/O in flight.
    pub busy: Nanos,
}

/// One interval of a run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Start of the interval.
    pub from: Nanos,
    /// Length of the interval; the last one may be shorter than the others.
    pub width: Nanos,
    /// Bytes read by sections.
    pub read_bytes: u64,
    /// Latencies of the sections' reads that completed in the interval.
    pub read_latency: Histogram,
    /// One per member.
    pub members: Vec<MemberInterval>,
    /// The policy's counters at the end of the interval.
    pub counters: Vec<Counter>,
}

/// One member in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberInterval {
    /// Reads submitted.
    pub reads: u64,
    /// Writes submitted.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// I/Os that do not start where the previously submitted one ends.
    pub seeks: u64,
    /// Sum of the waits of completed reads and writes.
    pub wait: Nanos,
}

/// One read, for charts of offset over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of submission to the member.
    pub at: Nanos,
    /// The member.
    pub member: MemberIndex,
    /// First byte on the member.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Completion minus submission.
    pub wait: Nanos,
}

impl Default for SectionResult {
    fn default() -> SectionResult {
        SectionResult {
            name: String::new(),
            counts: true,
            has_rate: false,
            from: Nanos::ZERO,
            measured: Nanos::ZERO,
            read: DirectionResult::default(),
            write: DirectionResult::default(),
            trim: DirectionResult::default(),
            flush: DirectionResult::default(),
        }
    }
}

impl SectionResult {
    /// How much the write rate changed from the first half of the planned window to the second, as
    /// a fraction of the first: -0.5 if it halved. `None` if the section wrote too little to tell
    /// or has no runtime. A disk whose cache fills up, or whose garbage collection begins, slows
    /// down.
    pub fn write_rate_change(&self) -> Option<f64> {
        let DirectionResult { bytes, first_half_bytes, latency, .. } = &self.write;
        let second_half_bytes = bytes - first_half_bytes;
        let is_enough = latency.count() >= WRITES_TO_COMPARE;
        (is_enough && second_half_bytes > 0 && *first_half_bytes > 0)
            .then(|| second_half_bytes as f64 / *first_half_bytes as f64 - 1.0)
    }

    /// The results of one kind of request. Sections never scrub or rebuild.
    pub fn direction_mut(&mut self, kind: RequestKind) -> &mut DirectionResult {
        match kind {
            RequestKind::Read => &mut self.read,
            RequestKind::Write => &mut self.write,
            RequestKind::Discard => &mut self.trim,
            RequestKind::Flush => &mut self.flush,
            RequestKind::Scrub
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => {
                unreachable!("sections do not scrub or rebuild")
            }
        }
    }
}

/// Collects a [`RunRecord`] while a run goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Start of the measured window; earlier completions count in the intervals only.
    measure_from: Nanos,
    members: Vec<MemberProgress>,
    /// Intervals that are over.
    intervals: Vec<Interval>,
    /// The current interval, but for its members.
    interval: Interval,
    interval_end: Nanos,
    samples: Vec<Sample>,
    sample_stride: u64,
    reads_seen: u64,
    background_bytes: u64,
    member_ios: u64,
}

/// One member while a run goes on.
#[derive(Debug)]
struct MemberProgress {
    result: MemberResult,
    /// The member in the current interval.
    interval: MemberInterval,
    /// End of the I/O submitted last.
    end: u64,
    in_flight: u32,
    /// Since when I/O has been in flight.
    busy_since: Nanos,
}

impl Recorder {
    pub(crate) fn new(members: &Members, measure_from: Nanos) -> Recorder {
        let member = |devid| MemberProgress {
            result: MemberResult { devid, ..MemberResult::default() },
            interval: MemberInterval::default(),
            end: 0,
            in_flight: 0,
            busy_since: Nanos::ZERO,
        };
        Recorder {
            measure_from,
            members: members.iter().map(|(_, it)| member(it.config.devid)).collect(),
            intervals: Vec::with_capacity(INTERVALS_MAX),
            interval: Interval::new(Nanos::ZERO, INTERVAL_MIN),
            interval_end: INTERVAL_MIN,
            samples: Vec::with_capacity(SAMPLES_MAX),
            sample_stride: 1,
            reads_seen: 0,
            background_bytes: 0,
            member_ios: 0,
        }
    }

    /// Whether `now` is past the current interval: then [`Recorder::close_intervals`] is due.
    #[inline]
    pub(crate) fn is_interval_over(&self, now: Nanos) -> bool {
        now >= self.interval_end
    }

    /// Closes all intervals that end at or before `now`, with the policy's current counters.
    pub(crate) fn close_intervals(&mut self, now: Nanos, counters: &[Counter]) {
        while self.is_interval_over(now) {
            self.end_interval(counters);
            if self.intervals.len() == INTERVALS_MAX {
                self.halve_intervals();
            }
            self.interval_end += self.interval.width;
        }
    }

    #[inline]
    pub(crate) fn on_submit(&mut self, io: &MemberIo) {
        self.member_ios += 1;
        let member = &mut self.members[io.member.get()];
        let seek = io.offset != member.end;
        if io.op != Op::Flush {
            member.end = io.offset + io.length;
        }
        if member.in_flight == 0 {
            member.busy_since = io.submitted_at;
        }
        member.in_flight += 1;
        let interval = &mut member.interval;
        match io.op {
            Op::Read => interval.reads += 1,
            Op::Write => interval.writes += 1,
            Op::Flush | Op::Discard => return,
        }
        interval.bytes += io.length;
        interval.seeks += u64::from(seek);
        if io.background {
            self.background_bytes += io.length;
        }
    }

    #[inline]
    pub(crate) fn on_complete(&mut self, io: &MemberIo, outcome: &Outcome) {
        if io.op == Op::Read && !io.background && outcome.result != Err(IoError::Cancelled) {
            self.sample(io, outcome);
        }
        let measured = outcome.completed_at >= self.measure_from;
        let MemberProgress { result: member, interval, in_flight, busy_since, .. } =
            &mut self.members[io.member.get()];
        *in_flight -= 1;
        if *in_flight == 0 && measured {
            let since = self.measure_from.max(*busy_since);
            member.busy += outcome.completed_at.saturating_sub(since);
        }
        if outcome.result == Err(IoError::Cancelled) {
            member.cancelled_reads += u64::from(measured);
            return;
        }
        interval.wait += outcome.wait;
        if io.op == Op::Write && outcome.result.is_ok() {
            member.run_written_bytes += io.length;
        }
        if !measured {
            return;
        }
        if outcome.result.is_err() {
            member.errors += 1;
            return;
        }
        match io.op {
            Op::Read => {
                member.reads += 1;
                member.foreground_reads += u64::from(!io.background);
                member.read_bytes += io.length;
                member.extra_reads += u64::from(outcome.superseded);
                member.read_wait.record(outcome.wait);
                member.wait += outcome.wait;
            }
            Op::Write => {
                member.writes += 1;
                member.written_bytes += io.length;
                member.wait += outcome.wait;
            }
            Op::Flush | Op::Discard => {}
        }
    }

    /// Counts a section's read request that succeeded, with a latency of this bin.
    #[inline]
    pub(crate) fn on_read_reply(&mut self, bytes: u64, latency: Nanos, bin: usize) {
        self.interval.read_bytes += bytes;
        self.interval.read_latency.record_in(bin, latency);
    }

    pub(crate) fn finish(
        mut self,
        until: Nanos,
        sections: Vec<SectionResult>,
        counters: Vec<Counter>,
        choices: u64,
    ) -> RunRecord {
        self.interval.width = until.saturating_sub(self.interval.from);
        self.end_interval(&counters);
        RunRecord {
            measured: until.saturating_sub(self.measure_from),
            sections,
            members: self.members.into_iter().map(|member| member.result).collect(),
            intervals: self.intervals,
            samples: self.samples,
            counters,
            background_bytes: self.background_bytes,
            member_ios: self.member_ios,
            choices,
            array_cache: None,
            controller: None,
        }
    }

    /// Moves the current interval to those that are over.
    fn end_interval(&mut self, counters: &[Counter]) {
        let next = Interval::new(self.interval_end, self.interval.width);
        let mut ended = std::mem::replace(&mut self.interval, next);
        ended.counters = counters.to_vec();
        let members = self.members.iter_mut();
        ended.members = members.map(|member| std::mem::take(&mut member.interval)).collect();
        self.intervals.push(ended);
    }

    fn halve_intervals(&mut self) {
        let mut halves = std::mem::take(&mut self.intervals).into_iter();
        while let (Some(mut first), Some(second)) = (halves.next(), halves.next()) {
            first.absorb(second);
            self.intervals.push(first);
        }
        self.interval.width = self.interval.width * 2;
    }

    #[inline]
    fn sample(&mut self, io: &MemberIo, outcome: &Outcome) {
        self.reads_seen += 1;
        // The stride is a power of two.
        if self.reads_seen & (self.sample_stride - 1) != 0 {
            return;
        }
        if self.samples.len() == SAMPLES_MAX {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.sample_stride *= 2;
            if self.reads_seen & (self.sample_stride - 1) != 0 {
                return;
            }
        }
        self.samples.push(Sample {
            at: io.submitted_at,
            member: io.member,
            offset: io.offset,
            length: io.length,
            wait: outcome.wait,
        });
    }
}

impl Interval {
    /// An interval in which nothing has happened.
    fn new(from: Nanos, width: Nanos) -> Interval {
        Interval {
            from,
            width,
            read_bytes: 0,
            read_latency: Histogram::default(),
            members: Vec::new(),
            counters: Vec::new(),
        }
    }

    /// Merges the interval that follows into this one.
    fn absorb(&mut self, next: Interval) {
        self.width += next.width;
        self.read_bytes += next.read_bytes;
        self.read_latency.merge(&next.read_latency);
        self.counters = next.counters;
        for (mine, theirs) in self.members.iter_mut().zip(&next.members) {
            mine.reads += theirs.reads;
            mine.writes += theirs.writes;
            mine.bytes += theirs.bytes;
            mine.seeks += theirs.seeks;
            mine.wait += theirs.wait;
        }
    }
}
