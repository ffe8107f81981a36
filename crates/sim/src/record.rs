//! What a run leaves behind: everything that a table or a picture is drawn from.
//!
//! Memory is constant in simulated time. Intervals start narrow; when their number reaches
//! [`INTERVALS_MAX`], neighbours are merged and the width doubles. Samples are every n-th read;
//! when they reach [`SAMPLES_MAX`], every other one is dropped and n doubles, so what remains is
//! spread evenly over the run and does not depend on its length.

use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::{IoError, MemberIo, Op, Outcome, RequestKind};
use mirrorball_core::member::{MemberIndex, Members};
use mirrorball_core::policy::Counter;
use mirrorball_core::units::Nanos;

/// Intervals in a record, at most.
pub const INTERVALS_MAX: usize = 96;
/// Width of an interval at the start of a run.
pub const INTERVAL_MIN: Nanos = Nanos::from_millis(250);
/// Samples in a record, at most.
pub const SAMPLES_MAX: usize = 2048;

/// The record of one run of one policy.
#[derive(Clone, Debug)]
pub struct Record {
    /// Length of the measured window: from the end of the ramp to the last foreground completion.
    pub measured: Nanos,
    /// One per job section, its clones together, in the order of the file.
    pub jobs: Vec<JobRecord>,
    /// One per member.
    pub members: Vec<MemberRecord>,
    /// The run in equal intervals, ramp included.
    pub intervals: Vec<Interval>,
    /// Reads by foreground jobs, evenly thinned.
    pub samples: Vec<Sample>,
    /// The policy's counters at the end.
    pub counters: Vec<Counter>,
    /// Bytes that background work moved, reads and writes together.
    pub background_bytes: u64,
    /// Member I/O of the whole run: the simulator's own measure of work done.
    pub member_ios: u64,
}

/// What one job achieved within the measured window.
#[derive(Clone, Debug, Default)]
pub struct JobRecord {
    /// Its section's name.
    pub name: String,
    /// When its measured window begins: the end of its ramp.
    pub from: Nanos,
    /// How long that is: to its last completion, or over the whole of its runtime if it ended
    /// early because a request failed, so that what it did not do counts.
    pub measured: Nanos,
    /// Reads.
    pub read: DirectionRecord,
    /// Writes.
    pub write: DirectionRecord,
    /// Trims.
    pub trim: DirectionRecord,
    /// Flushes (fsync and fdatasync).
    pub flush: DirectionRecord,
}

/// Requests of one kind within the measured window.
#[derive(Clone, Debug, Default)]
pub struct DirectionRecord {
    /// Bytes of the requests that succeeded.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Latency of those that succeeded, from the intended start to the completion.
    pub latency: Histogram,
}

/// One member over the measured window.
#[derive(Clone, Debug)]
pub struct MemberRecord {
    /// Its devid.
    pub devid: u64,
    /// Reads for foreground requests.
    pub foreground_reads: u64,
    /// All reads.
    pub reads: u64,
    /// All writes.
    pub writes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// I/O that failed.
    pub errors: u64,
    /// Reads of a policy that reads twice whose data was not wanted any more: what that costs.
    pub extra_reads: u64,
    /// Reads that were withdrawn before the member began them.
    pub cancelled_reads: u64,
    /// Waits of all reads.
    pub read_wait: Histogram,
    /// Sum of the waits of all reads and writes.
    pub wait: Nanos,
    /// How long it had I/O in flight.
    pub busy: Nanos,
}

/// One interval of a run.
#[derive(Clone, Debug)]
pub struct Interval {
    /// When it starts.
    pub from: Nanos,
    /// How long it is; the last one may be shorter than the others.
    pub width: Nanos,
    /// Bytes read by foreground jobs.
    pub read_bytes: u64,
    /// Latencies of reads by foreground jobs that completed in it.
    pub read_latency: Histogram,
    /// One per member.
    pub members: Vec<MemberInterval>,
    /// The policy's counters when it ended.
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
    /// I/O whose offset is not the end of the one submitted before.
    pub seeks: u64,
    /// Sum of the waits of what completed, reads and writes.
    pub wait: Nanos,
}

/// One read, for pictures of offset over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was submitted to the member.
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

impl JobRecord {
    /// The record of one kind of request; rebuilds and scrubs are no job's.
    pub fn direction_mut(&mut self, kind: RequestKind) -> &mut DirectionRecord {
        match kind {
            RequestKind::Read => &mut self.read,
            RequestKind::Write => &mut self.write,
            RequestKind::Discard => &mut self.trim,
            RequestKind::Flush => &mut self.flush,
            RequestKind::Scrub | RequestKind::Rebuild(_) => {
                unreachable!("jobs do not scrub or rebuild")
            }
        }
    }
}

/// Collects a [`Record`] while a run goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Measuring starts here; what completes earlier only shows in the intervals.
    measure_from: Nanos,
    members: Vec<MemberRecord>,
    intervals: Vec<Interval>,
    interval_width: Nanos,
    interval_end: Nanos,
    member_ends: Vec<u64>,
    /// Per member the I/O in flight, and since when there has been some.
    busy_since: Vec<(u32, Nanos)>,
    samples: Vec<Sample>,
    sample_stride: u64,
    reads_seen: u64,
    background_bytes: u64,
    member_ios: u64,
}

impl Recorder {
    pub(crate) fn new(members: &Members, measure_from: Nanos) -> Recorder {
        let member_record = |devid| MemberRecord {
            devid,
            foreground_reads: 0,
            reads: 0,
            writes: 0,
            read_bytes: 0,
            written_bytes: 0,
            errors: 0,
            extra_reads: 0,
            cancelled_reads: 0,
            read_wait: Histogram::default(),
            wait: Nanos::ZERO,
            busy: Nanos::ZERO,
        };
        let mut recorder = Recorder {
            measure_from,
            members: members.iter().map(|(_, m)| member_record(m.config.devid)).collect(),
            intervals: Vec::with_capacity(INTERVALS_MAX),
            interval_width: INTERVAL_MIN,
            interval_end: Nanos::ZERO,
            member_ends: vec![0; members.len()],
            busy_since: vec![(0, Nanos::ZERO); members.len()],
            samples: Vec::with_capacity(SAMPLES_MAX),
            sample_stride: 1,
            reads_seen: 0,
            background_bytes: 0,
            member_ios: 0,
        };
        recorder.open_interval();
        recorder
    }

    /// Whether `now` lies past the current interval, so that [`Recorder::turn`] is due.
    #[inline]
    pub(crate) fn is_turn_due(&self, now: Nanos) -> bool {
        now >= self.interval_end
    }

    /// Closes intervals up to `now`, with the policy's counters as they stand.
    pub(crate) fn turn(&mut self, now: Nanos, counters: &[Counter]) {
        while self.is_turn_due(now) {
            self.current().counters = counters.to_vec();
            if self.intervals.len() == INTERVALS_MAX {
                self.halve_intervals();
            }
            self.open_interval();
        }
    }

    #[inline]
    pub(crate) fn on_submit(&mut self, io: &MemberIo) {
        self.member_ios += 1;
        let index = io.member.get();
        let seek = io.offset != self.member_ends[index];
        if io.op != Op::Flush {
            self.member_ends[index] = io.offset + io.length;
        }
        let (in_flight, since) = &mut self.busy_since[index];
        *since = if *in_flight == 0 { io.submitted_at } else { *since };
        *in_flight += 1;
        let interval = &mut self.current().members[index];
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
        let index = io.member.get();
        let measured = outcome.completed_at >= self.measure_from;
        let (in_flight, since) = &mut self.busy_since[index];
        *in_flight -= 1;
        if *in_flight == 0 && measured {
            let since = self.measure_from.max(*since);
            self.members[index].busy += outcome.completed_at.saturating_sub(since);
        }
        if outcome.result == Err(IoError::Cancelled) {
            self.members[index].cancelled_reads += u64::from(measured);
            return;
        }
        self.current().members[index].wait += outcome.wait;
        if io.op == Op::Read && !io.background {
            self.sample(io, outcome);
        }
        if !measured {
            return;
        }
        let member = &mut self.members[index];
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

    /// A read request of a foreground job ended well.
    #[inline]
    pub(crate) fn on_read_reply(&mut self, bytes: u64, latency: Nanos) {
        let interval = self.current();
        interval.read_bytes += bytes;
        interval.read_latency.record(latency);
    }

    pub(crate) fn finish(
        mut self,
        until: Nanos,
        jobs: Vec<JobRecord>,
        counters: Vec<Counter>,
    ) -> Record {
        let last = self.current();
        last.width = until.saturating_sub(last.from);
        last.counters.clone_from(&counters);
        Record {
            measured: until.saturating_sub(self.measure_from),
            jobs,
            members: self.members,
            intervals: self.intervals,
            samples: self.samples,
            counters,
            background_bytes: self.background_bytes,
            member_ios: self.member_ios,
        }
    }

    #[inline]
    fn current(&mut self) -> &mut Interval {
        self.intervals.last_mut().expect("an interval is opened at the start")
    }

    fn open_interval(&mut self) {
        self.intervals.push(Interval {
            from: self.interval_end,
            width: self.interval_width,
            read_bytes: 0,
            read_latency: Histogram::default(),
            members: vec![MemberInterval::default(); self.member_ends.len()],
            counters: Vec::new(),
        });
        self.interval_end += self.interval_width;
    }

    fn halve_intervals(&mut self) {
        let mut halves = std::mem::take(&mut self.intervals).into_iter();
        while let (Some(mut first), Some(second)) = (halves.next(), halves.next()) {
            first.absorb(second);
            self.intervals.push(first);
        }
        self.interval_width = self.interval_width * 2;
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
    /// Takes in the interval that follows.
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
