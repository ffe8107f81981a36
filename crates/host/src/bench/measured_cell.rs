//! A run as a saved cell: what fio measured, with the members as the kernel counted them.
//!
//! fio's own output is read by the code of `import fio`. The window of the members is that of fio:
//! from the end of the settling time to the end of the run, and of a job with several groups of
//! sections, which run one after the other, those parts of each.

use super::fio_run::{CounterSample, FioRun};
use mirrorball_core::units::Nanos;
use mirrorball_health::counters::DiskCounters;
use mirrorball_lab::experiment::import::{ImportLabels, fio};
use mirrorball_lab::experiment::plan::Cell;
use mirrorball_lab::experiment::record::{
    CellRecord, CoarseLatency, CounterRecord, IntervalsRecord, MemberRecord, MemberSeries,
};
use serde::{Deserialize, Serialize};

/// Counters of the members in the measured window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberWindow {
    pub time_ns: u64,
    /// One per member that has counters: its devid, and what was counted.
    pub members: Vec<(u64, DiskCounters)>,
}

/// How a run is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    /// Time at the start of each group that is not measured.
    pub(super) settle: Nanos,
    /// Groups of sections, which run one after the other for equal times.
    pub(super) groups: usize,
}

impl Windows {
    /// Places of the first and the last sample of each measured window. A group that is shorter
    /// than its settling counts as a whole.
    fn places(self, samples: &[CounterSample]) -> Vec<(usize, usize)> {
        let all = samples[samples.len() - 1].at.0;
        let groups = self.groups.max(1) as u64;
        let of_group = |group: u64| {
            let (begin, end) = (all / groups * group, all / groups * (group + 1));
            let end = if group + 1 == groups { all } else { end };
            let last = samples.iter().rposition(|sample| sample.at.0 <= end).unwrap_or(0);
            let from = |time: u64| samples.iter().position(|sample| sample.at.0 >= time);
            let settled = from(begin + self.settle.0).filter(|first| *first < last);
            (settled.or(from(begin)).unwrap_or(0).min(last), last)
        };
        (0..groups).map(of_group).collect()
    }
}

/// The members within the measured windows of a run.
pub(super) fn window(devids: &[u64], windows: Windows, samples: &[CounterSample]) -> MemberWindow {
    let mut time_ns = 0;
    let mut members: Vec<(u64, DiskCounters)> = Vec::new();
    for (first, last) in windows.places(samples) {
        let (from, until) = (&samples[first], &samples[last]);
        time_ns += until.at.saturating_sub(from.at).0;
        for (index, devid) in devids.iter().enumerate() {
            let pair = (from.members[index].as_ref(), until.members[index].as_ref());
            let (Some(before), Some(after)) = pair else { continue };
            let counted = after.since(before);
            match members.iter_mut().find(|member| member.0 == *devid) {
                Some(member) => member.1 = member.1.plus(&counted),
                None => members.push((*devid, counted)),
            }
        }
    }
    MemberWindow { time_ns, members }
}

/// Bytes that all members moved, by interval of the samples of each measured window, as rates.
pub(super) fn rates(windows: Windows, samples: &[CounterSample]) -> Vec<Vec<f64>> {
    let bytes = |sample: &CounterSample| {
        let counted = sample.members.iter().flatten();
        counted.map(|it| it.read_bytes() + it.written_bytes()).sum::<u64>()
    };
    let rate = |pair: &[CounterSample]| {
        let seconds = pair[1].at.saturating_sub(pair[0].at).as_secs_f64();
        // The last interval may be a fraction of the others, and says little.
        (seconds > 0.1).then(|| bytes(&pair[1]).saturating_sub(bytes(&pair[0])) as f64 / seconds)
    };
    let of_window =
        |(first, last): (usize, usize)| samples[first..=last].windows(2).filter_map(rate).collect();
    windows.places(samples).into_iter().map(of_window).collect()
}

/// The record of `cell`. Fails if the output is none of fio 3, or has no latencies; the message
/// follows the name of the file.
pub(super) fn record(
    cell: &Cell<'_>,
    run: &FioRun,
    devids: &[u64],
    windows: Windows,
) -> Result<CellRecord, String> {
    let labels = ImportLabels {
        array: cell.plan.array.name.clone(),
        array_text: cell.plan.array.text.clone(),
        policy: cell.policy.to_owned(),
        job: Some(cell.job().name.clone()),
    };
    let mut record = fio::cell(&run.output, &[], &labels).map_err(|error| format!("{error:#}"))?;
    record.build = cell.plan.build.clone();
    record.key = cell.key();
    record.cell = cell.identity();
    record.environment = cell.plan.environment.clone();
    record.job_text.clone_from(&cell.job().text);
    let window = window(devids, windows, &run.samples);
    // Without counters, what fio itself saw of the disks stays.
    if !window.members.is_empty() {
        let members = members(&window);
        record.run.member_ios = members.iter().map(|member| member.reads + member.writes).sum();
        record.run.members = members;
        record.run.intervals = intervals(devids, &run.samples);
        record.run.counters = counters(&window);
    }
    match record.damage() {
        Some(what) => Err(format!("cannot be right: {what}")),
        None => Ok(record),
    }
}

fn members(window: &MemberWindow) -> Vec<MemberRecord> {
    let all: u64 = window.members.iter().map(|(_, counted)| counted.reads).sum();
    let member = |(devid, counted): &(u64, DiskCounters)| MemberRecord {
        devid: *devid,
        foreground_reads: counted.reads,
        share: counted.reads as f64 / all.max(1) as f64,
        reads: counted.reads,
        writes: counted.writes,
        read_bytes: counted.read_bytes(),
        written_bytes: counted.written_bytes(),
        read_wait_mean_ns: counted.read_ms.saturating_mul(1_000_000) / counted.reads.max(1),
        ..MemberRecord::default()
    };
    window.members.iter().map(member).collect()
}

/// Counters without a field in the record, so that the figures of `iostat -x` can be had from it.
fn counters(window: &MemberWindow) -> Vec<CounterRecord> {
    let of_member = |(devid, counted): &(u64, DiskCounters)| {
        let counter = |name: &str, value: u64| CounterRecord {
            devid: Some(*devid),
            name: name.to_owned(),
            value: i64::try_from(value).unwrap_or(i64::MAX),
        };
        [
            counter("busy ms", counted.busy_ms),
            counter("weighted ms", counted.weighted_ms),
            counter("merged reads", counted.merged_reads),
            counter("write ms", counted.write_ms),
        ]
    };
    window.members.iter().flat_map(of_member).collect()
}

fn intervals(devids: &[u64], samples: &[CounterSample]) -> IntervalsRecord {
    let mut intervals = IntervalsRecord::default();
    let series = |devid: &u64| MemberSeries { devid: *devid, ..MemberSeries::default() };
    intervals.members = devids.iter().map(series).collect();
    for pair in samples.windows(2) {
        let (from, until) = (&pair[0], &pair[1]);
        intervals.from_us.push(from.at.0 / 1_000);
        intervals.width_us.push(until.at.saturating_sub(from.at).0 / 1_000);
        intervals.read_latency.push(CoarseLatency::default());
        let mut read_bytes = 0;
        for (index, series) in intervals.members.iter_mut().enumerate() {
            let counted = match (&from.members[index], &until.members[index]) {
                (Some(before), Some(after)) => after.since(before),
                _ => DiskCounters::default(),
            };
            read_bytes += counted.read_bytes();
            series.reads.push(counted.reads);
            series.writes.push(counted.writes);
            series.bytes.push(counted.read_bytes() + counted.written_bytes());
            series.seeks.push(0);
            series.wait_us.push((counted.read_ms + counted.write_ms) * 1_000);
        }
        intervals.read_bytes.push(read_bytes);
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, reads: [u64; 2]) -> CounterSample {
        let member = |reads: u64| {
            Some(DiskCounters {
                reads,
                read_sectors: 8 * reads,
                read_ms: 2 * reads,
                ..Default::default()
            })
        };
        CounterSample { at: Nanos::from_millis(at_ms), members: reads.map(member).to_vec() }
    }

    fn samples() -> Vec<CounterSample> {
        vec![
            sample(0, [10, 10]),
            sample(500, [10, 10]),
            sample(1000, [100, 20]),
            sample(1500, [200, 30]),
            sample(2000, [300, 40]),
            sample(2010, [300, 40]),
        ]
    }

    const fn settling(settle: Nanos) -> Windows {
        Windows { settle, groups: 1 }
    }

    #[test]
    fn the_window_begins_when_the_run_has_settled() {
        let window = window(&[1, 2], settling(Nanos::from_secs(1)), &samples());
        assert_eq!(window.time_ns, 1_010_000_000);
        let reads: Vec<(u64, u64)> = window.members.iter().map(|it| (it.0, it.1.reads)).collect();
        assert_eq!(reads, [(1, 200), (2, 20)]);
        let records = members(&window);
        assert_eq!(records[0].read_wait_mean_ns, 2_000_000);
        assert!((records[0].share - 200.0 / 220.0).abs() < 1e-12);
    }

    #[test]
    fn a_run_that_is_shorter_than_its_settling_counts_as_a_whole() {
        let window = window(&[1, 2], settling(Nanos::from_secs(60)), &samples());
        assert_eq!(window.time_ns, 2_010_000_000);
    }

    #[test]
    fn rates_leave_out_the_rest_at_the_end() {
        let rates = rates(settling(Nanos::from_secs(1)), &samples());
        assert_eq!(rates, [[110.0 * 4096.0 / 0.5; 2]]);
    }

    /// The first group reads 10 times in an interval, the second 100 times; each settles for one.
    #[test]
    fn each_group_has_a_window_without_its_settling() {
        let reads = [0, 9, 19, 29, 70, 170, 270];
        let at = |(place, reads): (usize, u64)| sample(500 * place as u64, [reads, 0]);
        let samples: Vec<CounterSample> = reads.into_iter().enumerate().map(at).collect();
        let windows = Windows { settle: Nanos::from_millis(500), groups: 2 };
        let counted = window(&[1, 2], windows, &samples);
        assert_eq!(counted.time_ns, 2_000_000_000);
        assert_eq!((counted.members[0].1.reads, counted.members[1].1.reads), (220, 0));
        let rates = rates(windows, &samples);
        assert_eq!(rates, [[10.0 * 8192.0; 2], [100.0 * 8192.0; 2]]);
    }
}
