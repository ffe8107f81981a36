//! Compares models with the published figures of their profiles.
//!
//! [`compare`] runs the workload of each figure and reads the statistic off it. [`demerit`] is the
//! figure of Ruemmler and Wilkes ("An introduction to disk drive modeling", 1994): the root mean
//! square horizontal distance between two latency distributions, here over the published quantiles.

use crate::array_file::HostOverhead;
use crate::figure::{Expectation, MeasuredAt};
use crate::profile::ModelProfile;
use crate::workload::{ModelWorkload, Observation, WorkloadRun};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::Nanos;

#[cfg(test)]
mod tests;

/// A published figure and the value of the model.
#[derive(Clone, Debug)]
pub struct FigureCheck {
    /// The published figure.
    pub expected: Expectation,
    /// The value of the model, in the same unit.
    pub simulated: f64,
}

/// The distance of a model's latencies from a published distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demerit {
    pub root_mean_square: f64,
    /// Root mean square distance as a fraction of the published mean.
    pub fraction_of_mean: f64,
}

impl FigureCheck {
    /// Simulated minus expected, as a fraction of expected.
    pub fn deviation(&self) -> f64 {
        self.simulated / self.expected.value - 1.0
    }

    /// Returns true if the model is within the tolerance.
    pub fn holds(&self) -> bool {
        self.deviation().abs() <= self.expected.tolerance
    }
}

/// Runs one workload on a fresh model of `profile`. A figure measured at the host includes the
/// default host overhead, so that an array of this one disk with the default `[host]` gives it.
pub fn observe(
    profile: &ModelProfile,
    workload: &ModelWorkload,
    measured_at: MeasuredAt,
    seed: u64,
) -> Observation {
    let host_overhead = match measured_at {
        MeasuredAt::Host => HostOverhead::MEAN_DEFAULT,
        MeasuredAt::Device => Nanos::ZERO,
    };
    let mut model = profile.build(seed);
    let run = WorkloadRun::new(workload, profile.capacity_bytes, host_overhead, seed);
    run.run(model.as_mut())
}

/// Compares the model with every figure of its profile. Runs each workload once for each place of
/// measurement.
pub fn compare(profile: &ModelProfile, seed: u64) -> Vec<FigureCheck> {
    let mut runs: Vec<(&str, MeasuredAt, Observation)> = Vec::new();
    let expectations = profile.expectations.iter();
    let comparisons = expectations.map(|expected| {
        let Expectation { workload, measured_at, .. } = *expected;
        let is_same = |(name, at, _): &(&str, MeasuredAt, Observation)| {
            *name == workload.name && *at == measured_at
        };
        let run = runs.iter().position(is_same).unwrap_or_else(|| {
            let seen = observe(profile, workload, measured_at, seed);
            runs.push((workload.name, measured_at, seen));
            runs.len() - 1
        });
        let simulated = expected.statistic.read(&runs[run].2) / expected.unit.scale;
        FigureCheck { expected: expected.clone(), simulated }
    });
    comparisons.collect()
}

/// The demerit figure of `simulated` against published `quantiles`: pairs of fraction and seconds,
/// both rising. Each quantile has the weight of the I/Os that are closer to it than to its
/// neighbours, so that a table with many quantiles in the tail does not overweight the tail. Panics
/// if `quantiles` is empty.
pub fn demerit(quantiles: &[(f64, f64)], simulated: &Histogram) -> Demerit {
    assert!(!quantiles.is_empty(), "a distribution has quantiles");
    let border = |left: f64, right: f64| (left + right) / 2.0;
    let (mut squares, mut mean, mut from) = (0.0, 0.0, 0.0);
    for (at, &(fraction, published)) in quantiles.iter().enumerate() {
        let to = quantiles.get(at + 1).map_or(1.0, |next| border(fraction, next.0));
        let distance = simulated.quantile(fraction).as_secs_f64() - published;
        squares += (to - from) * distance * distance;
        mean += (to - from) * published;
        from = to;
    }
    let root_mean_square = squares.sqrt();
    Demerit { root_mean_square, fraction_of_mean: root_mean_square / mean }
}
