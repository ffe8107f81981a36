//! From what the simulator hands out to what is saved.

use super::{
    CellRecord, CoarseLatency, CounterRecord, CounterSeries, DirectionRecord, IntervalsRecord,
    LatencyRecord, MemberRecord, MemberSeries, Percentiles, SCHEMA_VERSION, SamplesRecord,
    SectionRecord,
};
use crate::experiment::plan::Cell;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::Counter;
use mirrorball_core::units::{KIB, MIB, Nanos};
use mirrorball_sim::record as simulated;

/// Samples that are kept of each cell: enough for a picture, a quarter of the file.
const SAMPLES_KEPT: usize = 384;

impl CellRecord {
    /// The record of `cell`.
    pub fn new(cell: &Cell<'_>, run: &simulated::RunRecord) -> CellRecord {
        let devids: Vec<u64> = run.members.iter().map(|member| member.devid).collect();
        CellRecord {
            schema_version: SCHEMA_VERSION,
            build: cell.plan.build.clone(),
            key: cell.key(),
            cell: cell.identity(),
            environment: cell.plan.environment.clone(),
            array_text: cell.plan.array.text.clone(),
            job_text: cell.job().text.clone(),
            measured_ns: run.measured.0,
            sections: run.sections.iter().map(section).collect(),
            members: members(&run.members),
            intervals: intervals(&run.intervals, &devids),
            samples: samples(&run.samples, &devids),
            counters: run.counters.iter().map(|counter| counter_record(counter, &devids)).collect(),
            background_bytes: run.background_bytes,
            member_ios: run.member_ios,
            imported: None,
        }
    }
}

fn section(job: &simulated::SectionResult) -> SectionRecord {
    let direction = |record| direction(record, job.measured);
    SectionRecord {
        name: job.name.clone(),
        from_ns: job.from.0,
        measured_ns: job.measured.0,
        read: direction(&job.read),
        write: direction(&job.write),
        trim: direction(&job.trim),
        flush: direction(&job.flush),
    }
}

/// `None` if nothing of the kind was asked.
fn direction(record: &simulated::DirectionResult, measured: Nanos) -> Option<DirectionRecord> {
    let ios = record.latency.count();
    if ios == 0 && record.errors == 0 {
        return None;
    }
    Some(DirectionRecord {
        ios,
        bytes: record.bytes,
        errors: record.errors,
        iops: per_second(ios as f64, measured.0),
        mib_per_s: per_second(record.bytes as f64 / MIB as f64, measured.0),
        latency: LatencyRecord::from(&record.latency),
        percentiles: Percentiles::from(&record.latency),
    })
}

/// `amount` per second of `measured_ns`; zero if nothing was measured.
pub(crate) fn per_second(amount: f64, measured_ns: u64) -> f64 {
    if measured_ns == 0 { 0.0 } else { amount / Nanos(measured_ns).as_secs_f64() }
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
