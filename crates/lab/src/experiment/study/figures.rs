//! DirectionRecord of one policy in one section, all repeats together, with their intervals.

use super::{CellSummary, Estimate, Figure, IoKind, SectionStudy, Term};
use crate::experiment::record::{DirectionRecord, Percentiles, SectionRecord};
use mirrorball_core::histogram::Histogram;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Change of the write rate between the halves of a window, as a fraction, up to which the rate is
/// called steady. The SNIA performance test specification allows 20 % around the mean.
const STEADY_CHANGE_MAX: f64 = 0.2;

/// Part of the requests of a section with a rate that may be missing before the rate is called
/// missed.
const RATE_MARGIN: f64 = 0.05;

/// One policy in one section of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SectionRow {
    /// Name of the section.
    pub name: String,
    /// Requests of the section's main kind.
    pub figures: RowFigures,
    /// Writes of a section that reads too.
    pub writes: Option<RowFigures>,
    /// Trims of a section that reads or writes too.
    pub trims: Option<RowFigures>,
    /// Flushes (fsync and fdatasync).
    pub fsyncs: Option<RowFigures>,
    /// How much the write rate changed from the first half of the measured window to the second, as
    /// a fraction of the first: the mean of the repeats. None if they wrote too little to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_rate_change: Option<f64>,
    /// True if it wrote, and the disks' write caches can hold all writes of each repeat.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub writes_fit_cache: bool,
    /// True if the section asks for a rate and fewer requests were completed: less than 95 % of
    /// them, or of few requests less than chance explains.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub missed_rate: bool,
    /// The least number of requests of the main kind that a repeat completed, if it is too few for
    /// percentiles, or for the one that policies are ranked by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub few_requests: Option<u64>,
}

/// Rates and latencies with their 95 % confidence intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RowFigures {
    /// Requests per second.
    pub iops: Estimate,
    /// MiB per second.
    pub mib_per_s: Estimate,
    /// Mean latency.
    pub mean_us: Estimate,
    /// Median latency.
    pub p50_us: Estimate,
    /// 99th percentile of the latency.
    pub p99_us: Estimate,
    /// 99.9th percentile of the latency.
    pub p99_9_us: Estimate,
    /// 99.99th percentile of the latency.
    pub p99_99_us: Estimate,
    /// Requests that failed, in all repeats.
    pub errors: u64,
}

/// Fewer requests than this in a repeat are remarked on: percentiles of them mean little.
const FEW_REQUESTS: u64 = 30;

impl SectionRow {
    pub(super) fn new(
        section: &SectionStudy,
        cells: &[CellSummary],
        ranking: &[(Term, f64)],
    ) -> SectionRow {
        let terms = ranking.iter().filter(|(term, _)| term.section == section.name);
        let few = terms.map(|(term, _)| term.figure.least_requests()).max().unwrap_or(0);
        let few = few.max(FEW_REQUESTS);
        // A section that a cell lacks made no requests.
        let idle = DirectionRecord::default();
        let of_kind = |kind| {
            let repeats = cells.iter().map(|cell| {
                cell.section(&section.name).map_or(&idle, |section| section.direction(kind))
            });
            RowFigures::new(&repeats.collect::<Vec<&DirectionRecord>>())
        };
        let is_made = |kind| {
            let mut of_cells = cells.iter().filter_map(|cell| cell.section(&section.name));
            kind != section.main_kind && of_cells.any(|it| !it.direction(kind).is_idle())
        };
        let sections = || cells.iter().filter_map(|cell| cell.section(&section.name));
        let secondary = |kind| is_made(kind).then(|| of_kind(kind));
        SectionRow {
            name: section.name.clone(),
            figures: of_kind(section.main_kind),
            writes: secondary(IoKind::Write),
            trims: secondary(IoKind::Trim),
            fsyncs: secondary(IoKind::Fsync),
            writes_fit_cache: sections().count() > 0 && sections().all(|it| it.writes_fit_cache),
            write_rate_change: mean(sections().filter_map(|it| it.write_rate_change)),
            missed_rate: missed_rate(section, sections()),
            few_requests: sections()
                .map(|it| it.direction(section.main_kind).ios)
                .min()
                .filter(|ios| (1..few).contains(ios)),
        }
    }

    /// The same with the figures that rank policies, of a section with requests of one kind: a
    /// percentile of all repeats together would be in another order.
    pub(super) fn ranked_by(mut self, ranking: &[(Term, f64)]) -> SectionRow {
        let is_mixed = self.writes.is_some() || self.trims.is_some() || self.fsyncs.is_some();
        for (term, value) in ranking {
            if is_mixed || term.section != self.name || *value == 0.0 {
                continue;
            }
            let figures = &mut self.figures;
            let shown = match term.figure {
                Figure::Mean => &mut figures.mean_us,
                Figure::P50 => &mut figures.p50_us,
                Figure::P99 => &mut figures.p99_us,
                Figure::P999 => &mut figures.p99_9_us,
                Figure::P9999 => &mut figures.p99_99_us,
                Figure::Iops | Figure::Mib | Figure::P90 | Figure::P95 => continue,
            };
            shown.value = *value;
        }
        self
    }

    /// True if the write rate changed by more than 20 % within the run: a longer run would give
    /// another rate.
    pub fn is_write_rate_unsteady(&self) -> bool {
        self.write_rate_change.is_some_and(|change| change.abs() > STEADY_CHANGE_MAX)
    }

    /// Requests that failed, of all kinds, in all repeats.
    pub fn errors(&self) -> u64 {
        let SectionRow { figures, writes, trims, fsyncs, .. } = self;
        let others = [writes, trims, fsyncs].into_iter().flatten();
        figures.errors + others.map(|figures| figures.errors).sum::<u64>()
    }
}

impl RowFigures {
    /// The figures of several repeats. There is at least one.
    fn new(repeats: &[&DirectionRecord]) -> RowFigures {
        let mut merged = Histogram::default();
        repeats.iter().for_each(|repeat| merged.merge(&repeat.latency));
        let together = Percentiles::from(&merged);
        let estimate = |value: f64, pick: &dyn Fn(&DirectionRecord) -> f64| {
            let picked: Vec<f64> = repeats.iter().map(|repeat| pick(repeat)).collect();
            Estimate::new(value, &picked)
        };
        let mean = |pick: &dyn Fn(&DirectionRecord) -> f64| {
            estimate(repeats.iter().map(|it| pick(it)).sum::<f64>() / repeats.len() as f64, pick)
        };
        // An imported run may have requests without latencies.
        let micros = |ns: f64, lacks: fn(&DirectionRecord) -> bool| {
            if repeats.iter().any(|repeat| lacks(repeat)) { f64::NAN } else { ns / 1e3 }
        };
        let percentile = |pick: &dyn Fn(&Percentiles) -> u64| {
            let micros =
                |it: &Percentiles| micros(pick(it) as f64, DirectionRecord::lacks_percentiles);
            estimate(micros(&together), &|repeat| micros(&repeat.percentiles))
        };
        let mean_ns = match repeats.iter().any(|repeat| repeat.lacks_percentiles()) {
            true => weighted_mean_ns(repeats),
            false => together.mean_ns as f64,
        };
        RowFigures {
            iops: mean(&|repeat| repeat.iops),
            mib_per_s: mean(&|repeat| repeat.mib_per_s),
            mean_us: estimate(micros(mean_ns, DirectionRecord::lacks_mean), &|repeat| {
                micros(repeat.percentiles.mean_ns as f64, DirectionRecord::lacks_mean)
            }),
            p50_us: percentile(&|p| p.p50_ns),
            p99_us: percentile(&|p| p.p99_ns),
            p99_9_us: percentile(&|p| p.p99_9_ns),
            p99_99_us: percentile(&|p| p.p99_99_ns),
            errors: repeats.iter().map(|repeat| repeat.errors).sum(),
        }
    }
}

/// The mean latency of all requests of the repeats.
fn weighted_mean_ns(repeats: &[&DirectionRecord]) -> f64 {
    let ios: f64 = repeats.iter().map(|repeat| repeat.ios as f64).sum();
    let sum_ns = repeats.iter().map(|it| it.ios as f64 * it.percentiles.mean_ns as f64);
    sum_ns.sum::<f64>() / ios
}

/// True if fewer requests than asked for were completed, by more than [`RATE_MARGIN`] and by more
/// than three standard deviations of a Poisson process: arrivals may be random.
fn missed_rate<'a>(
    section: &SectionStudy,
    repeats: impl Iterator<Item = &'a SectionRecord>,
) -> bool {
    let Some(asked_iops) = section.least_asked_iops else { return false };
    let (mut asked, mut served) = (0.0, 0.0);
    for repeat in repeats {
        asked += asked_iops * repeat.measured.as_secs_f64();
        served += repeat.direction(section.main_kind).ios as f64;
    }
    asked - served > (RATE_MARGIN * asked).max(3.0 * asked.sqrt())
}

/// The mean of `values`; none if there is none.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
