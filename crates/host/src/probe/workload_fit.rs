//! How far a model is from what was measured, workload by workload.
//!
//! The distance of two distributions is their demerit figure. No model can be asked to fall below
//! its floor, which is the greater of two: the demerit between parts of the measured reads, and
//! that between runs of the model itself with all addresses moved by a little.

use super::recording::{StepPurpose, StepRecord};
use super::replay::{AddressShift, replay};
use super::statistics::{demerit, mean, sorted, sorted_quantile};
use super::virtual_time::HostCost;
use mirrorball_disk::model_array::ModelArray;
use serde::Serialize;

/// Points of the distributions that are kept for a picture.
const CURVE_POINTS: usize = 100;
/// Reads that a trial of parameters repeats, and bytes that it reads, at most.
const TRIAL_READS: usize = 3000;
const TRIAL_BYTES: u64 = 512 << 20;
/// Reads that a comparison repeats at most.
const COMPARED_READS: usize = 30_000;
/// Shares of the capacity by which addresses are moved to see what chance does.
const SHIFTS: [f64; 2] = [0.0017, 0.0041];
/// Least relative noise of a figure: drives of one model differ by more.
const NOISE_MIN: f64 = 0.01;

/// Noise of the figures of a workload, in units of its relative noise: of the demerit, the rate,
/// the median, p90 and p99.
const FIGURE_WEIGHTS: [f64; 5] = [1.5, 1.0, 2.0, 2.0, 4.0];

/// How much the misfit of a workload grows if all its figures move by their noise together, as they
/// do when latencies get longer as a whole.
pub(super) fn growth_together() -> f64 {
    FIGURE_WEIGHTS.iter().map(|weight| 1.0 / (weight * weight)).sum()
}

/// Measurements of a workload, summarised.
pub(super) struct RecordedWorkload<'a> {
    pub(super) step: &'a StepRecord,
    measured: LatencySummary,
    /// Demerit between parts of the reads, in seconds.
    floor: f64,
    mean_length: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkloadFit {
    pub name: &'static str,
    /// Whether no parameter was fitted to it.
    pub is_held_out: bool,
    pub reads: usize,
    /// Mean latency measured, in seconds.
    pub mean_seconds: f64,
    pub model_mean_seconds: f64,
    /// Reads per second measured.
    pub iops: f64,
    /// Reads per second of the model.
    pub model_iops: f64,
    /// Distance of the distributions in seconds.
    pub demerit_seconds: f64,
    /// The same between parts of the measured reads, or between runs of the model.
    pub floor_seconds: f64,
    /// Latencies in seconds at equal steps of the distribution: measured, and of the model.
    pub distributions: (Vec<f64>, Vec<f64>),
}

/// Latencies and rate of a record.
struct LatencySummary {
    sorted: Vec<f64>,
    mean: f64,
    iops: f64,
}

impl LatencySummary {
    fn of(step: &StepRecord) -> LatencySummary {
        let latencies = step.latencies();
        LatencySummary {
            mean: mean(&latencies),
            sorted: sorted(&latencies),
            iops: step.reads_per_second(),
        }
    }
}

impl<'a> RecordedWorkload<'a> {
    pub(super) fn of(step: &'a StepRecord) -> RecordedWorkload<'a> {
        let bytes: u64 = step.samples.iter().map(|sample| sample.read.length).sum();
        let mean_length = (bytes / step.samples.len().max(1) as u64).max(1);
        RecordedWorkload {
            step,
            measured: LatencySummary::of(step),
            floor: floor(step),
            mean_length,
        }
    }

    /// The squared distance of a model, in units of the noise: about one for each figure of a
    /// perfect model.
    pub(super) fn misfit(&self, models: &mut ModelArray, host: HostCost) -> f64 {
        let reads_max = TRIAL_READS.min((TRIAL_BYTES / self.mean_length) as usize);
        let record = replay(self.step, reads_max, AddressShift::NONE, models, host);
        let simulated = LatencySummary::of(&record);
        let measured = &self.measured;
        let noise = (self.floor / measured.mean).max(NOISE_MIN);
        let off = demerit(&measured.sorted, &simulated.sorted) / measured.mean;
        let log = |left: f64, right: f64| (left.max(1e-12) / right.max(1e-12)).ln();
        let quantile = |fraction: f64| {
            log(
                sorted_quantile(&simulated.sorted, fraction),
                sorted_quantile(&measured.sorted, fraction),
            )
        };
        let [of_demerit, of_iops, of_median, of_p90, of_p99] = FIGURE_WEIGHTS;
        let figures = [
            (off, of_demerit),
            (log(simulated.iops, measured.iops), of_iops),
            (quantile(0.5), of_median),
            (quantile(0.9), of_p90),
            (quantile(0.99), of_p99),
        ];
        figures.iter().map(|(figure, weight)| (figure / (weight * noise)).powi(2)).sum()
    }

    /// The comparison with the model that `build` gives.
    pub(super) fn compare(
        &self,
        build: impl Fn() -> ModelArray,
        capacity_bytes: u64,
        host: HostCost,
    ) -> WorkloadFit {
        let simulate = |shift| {
            let record = replay(self.step, COMPARED_READS, shift, &mut build(), host);
            LatencySummary::of(&record)
        };
        let simulated = simulate(AddressShift::NONE);
        let chance = SHIFTS.map(|share| {
            let bytes = (share * capacity_bytes as f64) as u64 / 4096 * 4096;
            let shifted = simulate(AddressShift { bytes, capacity_bytes });
            demerit(&simulated.sorted, &shifted.sorted)
        });
        let measured = &self.measured;
        let curve = |sorted: &[f64]| -> Vec<f64> {
            (0..CURVE_POINTS)
                .map(|point| sorted_quantile(sorted, (point as f64 + 0.5) / CURVE_POINTS as f64))
                .collect()
        };
        WorkloadFit {
            name: self.step.name,
            is_held_out: self.step.purpose == StepPurpose::HeldOut,
            reads: self.step.samples.len(),
            mean_seconds: measured.mean,
            model_mean_seconds: simulated.mean,
            iops: measured.iops,
            model_iops: simulated.iops,
            demerit_seconds: demerit(&measured.sorted, &simulated.sorted),
            floor_seconds: self.floor.max(mean(&chance)),
            distributions: (curve(&measured.sorted), curve(&simulated.sorted)),
        }
    }
}

/// The demerit that chance alone gives between two sets of as many reads: that of the two halves,
/// and of quarters, each brought to the size of the whole by the root of their number. The reads of
/// a step that changes as it goes are dealt out in turn instead of cut.
fn floor(step: &StepRecord) -> f64 {
    let latencies = step.latencies();
    let parts = |count: usize| -> Vec<Vec<f64>> {
        let part = |index: usize| -> Vec<f64> {
            let size = latencies.len().div_ceil(count);
            let is_in = |at: usize| match step.is_stationary {
                true => at / size == index,
                false => at % count == index,
            };
            let mine = latencies.iter().enumerate().filter(|(at, _)| is_in(*at));
            sorted(&mine.map(|(_, latency)| *latency).collect::<Vec<f64>>())
        };
        (0..count).map(part).collect()
    };
    let (halves, quarters) = (parts(2), parts(4));
    let mut squares = vec![demerit(&halves[0], &halves[1]).powi(2) / 2.0];
    for left in 0..quarters.len() {
        for right in left + 1..quarters.len() {
            squares.push(demerit(&quarters[left], &quarters[right]).powi(2) / 4.0);
        }
    }
    mean(&squares).sqrt()
}

impl WorkloadFit {
    /// The demerit as a fraction of the measured mean.
    pub fn demerit_of_mean(&self) -> f64 {
        self.demerit_seconds / self.mean_seconds
    }

    /// The floor as a fraction of the measured mean.
    pub fn floor_of_mean(&self) -> f64 {
        self.floor_seconds / self.mean_seconds
    }

    /// Modelled over measured reads per second, less one.
    pub fn iops_error(&self) -> f64 {
        self.model_iops / self.iops - 1.0
    }
}
