//! Collects the record of a run while it goes on.
//!
//! Memory is constant in simulated time. Intervals start narrow; when their number reaches
//! [`INTERVALS_MAX`], neighbours are merged and the width doubles. Samples are every n-th read;
//! when their number reaches [`SAMPLES_MAX`], every other sample is dropped and n doubles, so
//! samples are spread evenly over a run of any length.

use crate::record::{
    CoarseLatency, CounterRecord, INTERVAL_MIN, INTERVALS_MAX, IntervalsRecord, MemberRecord,
    MemberSeries, RunRecord, SAMPLES_MAX, SamplesRecord, SectionRecord,
};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::{IoError, MemberIo, Op, Outcome};
use mirrorball_core::member::{MemberIndex, Members};
use mirrorball_core::policy::Counter;
use mirrorball_core::units::{KIB, Nanos};

/// Collects a [`RunRecord`] while a run goes on.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Start of the measured window: the end of the ramp, or the start of the run until then.
    measure_from: Nanos,
    ramp_end: Nanos,
    members: Vec<MemberTally>,
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
#[derive(Debug, Default)]
struct MemberTally {
    /// The measured window so far.
    record: MemberRecord,
    interval: MemberInterval,
    /// End of the I/O submitted last.
    end: u64,
    in_flight: u32,
    /// Since when I/O has been in flight.
    busy_since: Nanos,
    read_wait: Histogram,
    /// Bytes of all writes since the start of the run.
    run_written_bytes: u64,
}

#[derive(Debug)]
struct Interval {
    from: Nanos,
    /// The last one may be shorter than the others.
    width: Nanos,
    read_bytes: u64,
    /// Latencies of the sections' reads that completed in the interval.
    read_latency: Histogram,
    members: Vec<MemberInterval>,
}

/// One member in one interval; see [`MemberSeries`].
#[derive(Clone, Copy, Debug, Default)]
struct MemberInterval {
    reads: u64,
    writes: u64,
    bytes: u64,
    seeks: u64,
    wait: Nanos,
}

/// One read, for charts of offset over time; see [`SamplesRecord`].
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Nanos,
    member: MemberIndex,
    offset: u64,
    length: u64,
    wait: Nanos,
}

impl Recorder {
    /// The recorder of a run that is measured from `ramp_end` on, or in full if it ends before.
    pub(crate) fn new(members: &Members, ramp_end: Nanos) -> Recorder {
        let tally = |devid| MemberTally {
            record: MemberRecord { devid, ..MemberRecord::default() },
            ..MemberTally::default()
        };
        Recorder {
            measure_from: Nanos::ZERO,
            ramp_end,
            members: members.iter().map(|(_, m)| tally(m.config.devid)).collect(),
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

    /// Closes all intervals that end at or before `now`.
    pub(crate) fn close_intervals(&mut self, now: Nanos) {
        while self.is_interval_over(now) {
            self.end_interval();
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
        self.end_ramp(outcome.completed_at);
        let tally = &mut self.members[io.member.get()];
        let member = &mut tally.record;
        tally.in_flight -= 1;
        if tally.in_flight == 0 {
            let since = self.measure_from.max(tally.busy_since);
            member.busy += outcome.completed_at.saturating_sub(since);
        }
        if outcome.result == Err(IoError::Cancelled) {
            member.cancelled_reads += 1;
            return;
        }
        tally.interval.wait += outcome.wait;
        if io.op == Op::Write && outcome.result.is_ok() {
            tally.run_written_bytes += io.length;
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
                tally.read_wait.record(outcome.wait);
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

    /// Bytes that were written to each member since the start of the run.
    pub(crate) fn run_written_bytes(&self) -> impl Iterator<Item = u64> {
        self.members.iter().map(|member| member.run_written_bytes)
    }

    /// The record of the run, without what only the engine knows: choices and caches.
    pub(crate) fn finish(
        mut self,
        until: Nanos,
        sections: Vec<SectionRecord>,
        counters: &[Counter],
    ) -> RunRecord {
        self.end_ramp(until);
        self.interval.width = until.saturating_sub(self.interval.from);
        self.end_interval();
        for member in self.members.iter_mut().filter(|member| member.in_flight > 0) {
            let since = self.measure_from.max(member.busy_since);
            member.record.busy += until.saturating_sub(since);
        }
        let devids: Vec<u64> = self.members.iter().map(|member| member.record.devid).collect();
        let reads = self.members.iter().map(|member| member.record.foreground_reads).sum();
        RunRecord {
            measured: until.saturating_sub(self.measure_from),
            sections,
            members: self.members.into_iter().map(|member| member.finish(reads)).collect(),
            intervals: intervals_record(&self.intervals, &devids),
            samples: samples_record(&self.samples, &devids),
            counters: counters.iter().map(|counter| counter_record(counter, &devids)).collect(),
            background_bytes: self.background_bytes,
            member_ios: self.member_ios,
            ..RunRecord::default()
        }
    }

    /// Forgets what was counted of the members in the ramp, if that is over.
    #[inline]
    fn end_ramp(&mut self, now: Nanos) {
        if self.measure_from < self.ramp_end && now >= self.ramp_end {
            self.measure_from = self.ramp_end;
            for member in &mut self.members {
                let devid = member.record.devid;
                member.record = MemberRecord { devid, ..MemberRecord::default() };
                member.read_wait = Histogram::default();
            }
        }
    }

    /// Moves the current interval to those that are over.
    fn end_interval(&mut self) {
        let next = Interval::new(self.interval_end, self.interval.width);
        let mut ended = std::mem::replace(&mut self.interval, next);
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
        }
    }

    /// Merges the interval that follows into this one.
    fn absorb(&mut self, next: Interval) {
        self.width += next.width;
        self.read_bytes += next.read_bytes;
        self.read_latency.merge(&next.read_latency);
        for (mine, theirs) in self.members.iter_mut().zip(&next.members) {
            mine.reads += theirs.reads;
            mine.writes += theirs.writes;
            mine.bytes += theirs.bytes;
            mine.seeks += theirs.seeks;
            mine.wait += theirs.wait;
        }
    }
}

impl MemberTally {
    /// The record of the member, if all members served `reads` foreground reads.
    fn finish(self, reads: u64) -> MemberRecord {
        let MemberTally { record, read_wait, .. } = self;
        MemberRecord {
            share: record.foreground_reads as f64 / reads.max(1) as f64,
            read_wait_mean_ns: read_wait.mean().0,
            read_wait: CoarseLatency::from(&read_wait),
            ..record
        }
    }
}

fn intervals_record(intervals: &[Interval], devids: &[u64]) -> IntervalsRecord {
    let members = devids.iter().enumerate().map(|(index, &devid)| {
        let mut series = MemberSeries { devid, ..MemberSeries::default() };
        for member in intervals.iter().map(|interval| &interval.members[index]) {
            series.reads.push(member.reads);
            series.writes.push(member.writes);
            series.bytes.push(member.bytes);
            series.seeks.push(member.seeks);
            series.wait_us.push(micros(member.wait));
        }
        series
    });
    let read_latency = intervals.iter().map(|it| CoarseLatency::from(&it.read_latency));
    IntervalsRecord {
        from_us: intervals.iter().map(|interval| micros(interval.from)).collect(),
        width_us: intervals.iter().map(|interval| micros(interval.width)).collect(),
        read_bytes: intervals.iter().map(|interval| interval.read_bytes).collect(),
        written_bytes: Vec::new(),
        read_latency: read_latency.collect(),
        members: members.collect(),
    }
}

fn counter_record(counter: &Counter, devids: &[u64]) -> CounterRecord {
    CounterRecord {
        devid: counter.member.map(|member| devids[member.get()]),
        name: counter.name.to_owned(),
        value: counter.value,
    }
}

fn samples_record(samples: &[Sample], devids: &[u64]) -> SamplesRecord {
    SamplesRecord {
        at_us: samples.iter().map(|sample| micros(sample.at)).collect(),
        devid: samples.iter().map(|sample| devids[sample.member.get()]).collect(),
        offset_kib: samples.iter().map(|sample| sample.offset / KIB).collect(),
        length_kib: samples.iter().map(|sample| sample.length / KIB).collect(),
        wait_us: samples.iter().map(|sample| micros(sample.wait)).collect(),
    }
}

fn micros(time: Nanos) -> u64 {
    (time.0 + 500) / 1_000
}
