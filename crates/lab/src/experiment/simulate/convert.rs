//! From what the simulator hands out to what is saved.

use super::declared::Declared;
use crate::experiment::record::{
    CoarseLatency, CounterRecord, CounterSeries, DirectionRecord, IntervalsRecord, Measurement,
    MemberRecord, MemberSeries, SamplesRecord, SectionRecord,
};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::Counter;
use mirrorball_core::units::{KIB, Nanos};
use mirrorball_sim::job::{JobFile, Section};
use mirrorball_sim::record as simulated;

/// Samples that are kept of each cell: enough for a picture, a quarter of the file.
const SAMPLES_KEPT: usize = 384;

/// What a simulated run of `jobs` measured.
pub fn measurement(jobs: &JobFile, run: &simulated::RunRecord) -> Measurement {
    let devids: Vec<u64> = run.members.iter().map(|member| member.devid).collect();
    Measurement {
        measured_ns: run.measured.0,
        sections: jobs.sections.iter().zip(&run.sections).map(section).collect(),
        members: members(&run.members),
        intervals: intervals(&run.intervals, &devids),
        samples: samples(&run.samples, &devids),
        counters: run.counters.iter().map(|counter| counter_record(counter, &devids)).collect(),
        background_bytes: run.background_bytes,
        member_ios: run.member_ios,
        choices: Some(run.choices),
    }
}

fn section((declared, measured): (&Section, &simulated::SectionResult)) -> SectionRecord {
    let Declared { is_background, has_rate, asked_iops } = Declared::of(declared);
    let direction = |record: &simulated::DirectionResult| {
        DirectionRecord::new(&record.latency, record.bytes, record.errors, measured.measured.0)
    };
    SectionRecord {
        name: measured.name.clone(),
        from_ns: measured.from.0,
        measured_ns: measured.measured.0,
        is_background,
        has_rate,
        asked_iops,
        write_rate_change: measured.write_rate_change(),
        read: direction(&measured.read),
        write: direction(&measured.write),
        trim: direction(&measured.trim),
        flush: direction(&measured.flush),
    }
}

fn members(members: &[simulated::MemberResult]) -> Vec<MemberRecord> {
    let all: u64 = members.iter().map(|member| member.foreground_reads).sum();
    members
        .iter()
        .map(|member| MemberRecord {
            devid: member.devid,
            foreground_reads: member.foreground_reads,
            share: member.foreground_reads as f64 / all.max(1) as f64,
            reads: member.reads,
            writes: member.writes,
            read_bytes: member.read_bytes,
            written_bytes: member.written_bytes,
            errors: member.errors,
            extra_reads: member.extra_reads,
            cancelled_reads: member.cancelled_reads,
            read_wait_mean_ns: member.read_wait.mean().0,
            read_wait: CoarseLatency::from(&member.read_wait),
        })
        .collect()
}

fn intervals(intervals: &[simulated::Interval], devids: &[u64]) -> IntervalsRecord {
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
    IntervalsRecord {
        from_us: intervals.iter().map(|interval| micros(interval.from)).collect(),
        width_us: intervals.iter().map(|interval| micros(interval.width)).collect(),
        read_bytes: intervals.iter().map(|interval| interval.read_bytes).collect(),
        read_latency: intervals
            .iter()
            .map(|interval| CoarseLatency::from(&interval.read_latency))
            .collect(),
        members: members.collect(),
        counters: counter_series(intervals, devids),
    }
}

/// The counters that the last interval shows, followed back through the run.
fn counter_series(intervals: &[simulated::Interval], devids: &[u64]) -> Vec<CounterSeries> {
    let Some(last) = intervals.last() else { return Vec::new() };
    let value_in = |interval: &simulated::Interval, wanted: &Counter| {
        let same = |c: &&Counter| c.member == wanted.member && c.name == wanted.name;
        interval.counters.iter().find(same).map(|counter| counter.value)
    };
    last.counters
        .iter()
        .map(|counter| CounterSeries {
            devid: counter.member.map(|member| devid_of(member, devids)),
            name: counter.name.to_owned(),
            values: intervals.iter().map(|interval| value_in(interval, counter)).collect(),
        })
        .collect()
}

fn counter_record(counter: &Counter, devids: &[u64]) -> CounterRecord {
    CounterRecord {
        devid: counter.member.map(|member| devid_of(member, devids)),
        name: counter.name.to_owned(),
        value: counter.value,
    }
}

/// Every n-th sample, so that at most [`SAMPLES_KEPT`] remain, spread over the run.
fn samples(samples: &[simulated::Sample], devids: &[u64]) -> SamplesRecord {
    let stride = samples.len().div_ceil(SAMPLES_KEPT).max(1);
    let mut columns = SamplesRecord::default();
    for sample in samples.iter().step_by(stride) {
        columns.at_us.push(micros(sample.at));
        columns.devid.push(devid_of(sample.member, devids));
        columns.offset_kib.push(sample.offset / KIB);
        columns.length_kib.push(sample.length / KIB);
        columns.wait_us.push(micros(sample.wait));
    }
    columns
}

fn devid_of(member: MemberIndex, devids: &[u64]) -> u64 {
    devids[member.get()]
}

fn micros(time: Nanos) -> u64 {
    (time.0 + 500) / 1_000
}
