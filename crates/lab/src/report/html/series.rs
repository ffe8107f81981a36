//! One policy over time: the repeats of one job on one grid.
//!
//! Counts add up over repeats, so shares, seeks and percentiles are those of all repeats together;
//! rates are given per repeat as a mean with its range. Samples are those of all repeats, evenly
//! thinned to what a picture can show.

use super::grid::TimeGrid;
use crate::experiment::record::{CellRecord, CoarseLatency, IntervalsRecord, LatencyOverTime};
use crate::experiment::study::IoKind;
use crate::report::chart::scale::Scale;
use mirrorball_core::units::MIB;

/// Quantiles that the heat map shows, with their names; the last is the slowest request.
pub(super) const HEAT_ROWS: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];
/// Dots that the picture of offsets shows of one policy.
const DOTS_MAX: usize = 300;

/// What is drawn over time. Every list has one entry per column of the grid.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Series {
    /// Requests per second.
    pub(super) iops: Vec<Option<RateRange>>,
    pub(super) mib_per_s: Vec<Option<RateRange>>,
    /// Latencies in microseconds, one for each of [`HEAT_ROWS`].
    pub(super) percentiles: Vec<Option<[f64; 5]>>,
    /// Whether those are percentiles of means, as an imported log may have them.
    pub(super) is_of_means: bool,
    pub(super) members: Vec<MemberCurves>,
    pub(super) dots: Vec<Dot>,
}

/// The mean over repeats, and the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RateRange {
    pub(super) least: f64,
    pub(super) mean: f64,
    /// The most of any repeat.
    pub(super) most: f64,
}

#[derive(Debug, Default, PartialEq)]
pub(super) struct MemberCurves {
    pub(super) devid: u64,
    /// Its part of all members' reads, 0 to 1; none while there are no reads.
    pub(super) share: Vec<Option<f64>>,
    /// I/O in flight, on average.
    pub(super) queue: Vec<Option<f64>>,
    /// Seeks per second.
    pub(super) seeks: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dot {
    /// When it was submitted to its member.
    pub(super) at_us: u64,
    pub(super) devid: u64,
    /// First byte on the member, in KiB.
    pub(super) offset_kib: u64,
    /// Completion minus submission.
    pub(super) wait_us: u64,
}

impl Series {
    /// The repeats of one policy under one job.
    pub(super) fn new(repeats: &[&CellRecord], grid: &TimeGrid, judged_by: IoKind) -> Series {
        if repeats.is_empty() || grid.count == 0 {
            return Series::default();
        }
        let seconds: Vec<Vec<f64>> = repeats
            .iter()
            .map(|cell| {
                spread(cell, grid, |intervals, index| intervals.width_us[index] as f64 / 1e6)
            })
            .collect();
        let rate = |amount: fn(&CellRecord, usize, IoKind) -> f64| {
            let amounts: Vec<Vec<f64>> = repeats
                .iter()
                .map(|cell| spread(cell, grid, |_, index| amount(cell, index, judged_by)))
                .collect();
            let least = least_seconds(grid);
            let pairs = |column| {
                amounts.iter().zip(&seconds).map(move |(amount, time)| {
                    (time[column] >= least).then(|| amount[column] / time[column])
                })
            };
            (0..grid.count).map(|column| RateRange::of(pairs(column).flatten().collect())).collect()
        };
        Series {
            iops: rate(requests),
            mib_per_s: rate(mebibytes),
            percentiles: percentiles(repeats, grid),
            is_of_means: repeats.iter().any(|cell| is_of_means(cell)),
            members: members(repeats, grid, &seconds),
            dots: dots(repeats),
        }
    }
}

impl RateRange {
    /// The range of some rates; none if there are none.
    fn of(rates: Vec<f64>) -> Option<RateRange> {
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let least = rates.iter().copied().reduce(f64::min)?;
        let most = rates.iter().copied().reduce(f64::max)?;
        Some(RateRange { least, mean, most })
    }
}

/// The time of a column that has to be covered for a rate to mean anything: all of it but for
/// rounding, unless there is only one.
fn least_seconds(grid: &TimeGrid) -> f64 {
    if grid.count > 1 { 0.99 * grid.column_us as f64 / 1e6 } else { 1e-6 }
}

/// An amount per interval, spread over the columns of the grid.
fn spread(
    cell: &CellRecord,
    grid: &TimeGrid,
    amount: impl Fn(&IntervalsRecord, usize) -> f64,
) -> Vec<f64> {
    let mut columns = vec![0.0; grid.count];
    let intervals = &cell.run.intervals;
    for (index, (&from, &width)) in intervals.from_us.iter().zip(&intervals.width_us).enumerate() {
        let amount = amount(intervals, index);
        for (column, part) in grid.parts(from, width) {
            columns[column] += amount * part;
        }
    }
    columns
}

/// Requests that completed in an interval. Of writes only those to members are known over time; an
/// imported log may have a line per while and not per request, so its bytes are asked.
fn requests(cell: &CellRecord, index: usize, judged_by: IoKind) -> f64 {
    let intervals = &cell.run.intervals;
    if cell.imported.is_some() {
        let parts = || cell.run.sections.iter().map(|section| section.direction(judged_by));
        let ios: f64 = parts().map(|part| part.ios as f64).sum();
        let mean_bytes = parts().map(|part| part.bytes as f64).sum::<f64>() / ios.max(1.0);
        return bytes(cell, index, judged_by) as f64 / mean_bytes.max(1.0);
    }
    let count: u64 = match judged_by {
        IoKind::Read => {
            intervals.read_latency.get(index).map_or(0, |latency| latency.counts.iter().sum())
        }
        IoKind::Write | IoKind::Trim | IoKind::Fsync => {
            intervals.members.iter().map(|member| member.writes[index]).sum()
        }
    };
    count as f64
}

/// Bytes of an interval: of writes those to members, if the run was not imported.
fn bytes(cell: &CellRecord, index: usize, judged_by: IoKind) -> u64 {
    let intervals = &cell.run.intervals;
    let at = |bytes: &[u64]| bytes.get(index).copied().unwrap_or(0);
    match judged_by {
        IoKind::Read => at(&intervals.read_bytes),
        IoKind::Write if cell.imported.is_some() => at(&intervals.written_bytes),
        IoKind::Write | IoKind::Trim | IoKind::Fsync => {
            intervals.members.iter().map(|member| member.bytes[index]).sum()
        }
    }
}

fn mebibytes(cell: &CellRecord, index: usize, judged_by: IoKind) -> f64 {
    bytes(cell, index, judged_by) as f64 / MIB as f64
}

fn is_of_means(cell: &CellRecord) -> bool {
    let imported = cell.imported.as_ref();
    imported.and_then(|source| source.latency_over_time) == Some(LatencyOverTime::Means)
}

fn percentiles(repeats: &[&CellRecord], grid: &TimeGrid) -> Vec<Option<[f64; 5]>> {
    let mut columns: Vec<Vec<(u32, u64)>> = vec![Vec::new(); grid.count];
    for intervals in repeats.iter().map(|cell| &cell.run.intervals) {
        let starts = intervals.from_us.iter().zip(&intervals.width_us);
        for ((&from, &width), latency) in starts.zip(&intervals.read_latency) {
            let column = &mut columns[grid.column(from + width / 2)];
            column.extend(latency.bins.iter().copied().zip(latency.counts.iter().copied()));
        }
    }
    columns.into_iter().map(quantiles).collect()
}

/// The [`HEAT_ROWS`] of some bins in any order, in microseconds.
fn quantiles(mut bins: Vec<(u32, u64)>) -> Option<[f64; 5]> {
    bins.sort_unstable();
    let all: u64 = bins.iter().map(|(_, count)| count).sum();
    let micros = |fraction: f64| {
        let rank = ((all as f64 * fraction).ceil() as u64).max(1);
        let mut below = 0;
        let (bin, _) = bins.iter().find(|(_, count)| {
            below += count;
            below >= rank
        })?;
        Some(CoarseLatency::middle(*bin).0 as f64 / 1e3)
    };
    let [a, b, c, d, e] = HEAT_ROWS.map(|(_, fraction)| micros(fraction));
    Some([a?, b?, c?, d?, e?])
}

fn members(repeats: &[&CellRecord], grid: &TimeGrid, seconds: &[Vec<f64>]) -> Vec<MemberCurves> {
    let first = &repeats[0].run.intervals.members;
    let summed = |place: usize, pick: fn(&crate::experiment::record::MemberSeries) -> &Vec<u64>| {
        let mut sum = vec![0.0; grid.count];
        for cell in repeats {
            let of_cell = spread(cell, grid, |intervals, index| {
                intervals.members.get(place).map_or(0.0, |member| pick(member)[index] as f64)
            });
            sum.iter_mut().zip(of_cell).for_each(|(sum, value)| *sum += value);
        }
        sum
    };
    let reads: Vec<Vec<f64>> = (0..first.len()).map(|at| summed(at, |m| &m.reads)).collect();
    let all: Vec<f64> =
        (0..grid.count).map(|column| reads.iter().map(|member| member[column]).sum()).collect();
    let time: Vec<f64> =
        (0..grid.count).map(|column| seconds.iter().map(|cell| cell[column]).sum()).collect();
    let over = |amounts: &[f64], whole: &[f64], unit: f64| -> Vec<Option<f64>> {
        let known = |column: usize| time[column] >= least_seconds(grid) && whole[column] > 0.0;
        let part = |column: usize| known(column).then(|| amounts[column] * unit / whole[column]);
        (0..grid.count).map(part).collect()
    };
    first
        .iter()
        .enumerate()
        .map(|(place, member)| MemberCurves {
            devid: member.devid,
            share: over(&reads[place], &all, 1.0),
            queue: over(&summed(place, |m| &m.wait_us), &time, 1e-6),
            seeks: over(&summed(place, |m| &m.seeks), &time, 1.0),
        })
        .collect()
}

fn dots(repeats: &[&CellRecord]) -> Vec<Dot> {
    let all = repeats.iter().flat_map(|cell| {
        let samples = &cell.run.samples;
        (0..samples.at_us.len()).map(|index| Dot {
            at_us: samples.at_us[index],
            devid: samples.devid[index],
            offset_kib: samples.offset_kib[index],
            wait_us: samples.wait_us[index],
        })
    });
    let all: Vec<Dot> = all.collect();
    let stride = all.len().div_ceil(DOTS_MAX).max(1);
    all.into_iter().step_by(stride).collect()
}

/// From the least median to the slowest read of any policy.
pub(super) fn heat_scale<'a>(series: impl Iterator<Item = &'a Series>) -> Scale {
    let (mut least, mut most) = (f64::MAX, 0.0);
    for column in series.flat_map(|series| &series.percentiles).flatten() {
        least = column[0].min(least);
        most = column[4].max(most);
    }
    Scale::around(least.min(most), most)
}
