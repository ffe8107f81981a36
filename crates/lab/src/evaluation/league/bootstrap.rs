//! Confidence intervals over pairings, by resampling.
//!
//! Pairings are drawn again with replacement, and the statistic is computed of each draw; the
//! interval is from the 2.5th to the 97.5th percentile of these values (Efron and Tibshirani, "An
//! Introduction to the Bootstrap", 1993, section 13.3). It covers the chance of which pairings were
//! drawn, and of the seed of each cell.

use mirrorball_core::rng::Rng;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

const RESAMPLES: usize = 1000;

/// A figure with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Bounded {
    /// The figure of the sample.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// A statistic of `values` with its interval. Equal inputs give equal intervals. Panics if there
/// are no values.
pub(super) fn bounded(values: &[f64], statistic: fn(&[f64]) -> f64) -> Bounded {
    let mut rng = Rng::stream(values.len() as u64, "bootstrap");
    let mut resample = Vec::with_capacity(values.len());
    let mut found: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            resample.clear();
            let draw = |_| values[rng.below(values.len() as u64) as usize];
            resample.extend((0..values.len()).map(draw));
            statistic(&resample)
        })
        .collect();
    found.sort_by(f64::total_cmp);
    Bounded {
        value: statistic(values),
        low: found[RESAMPLES / 40],
        high: found[RESAMPLES - 1 - RESAMPLES / 40],
    }
}

/// The exponential of the mean: the geometric mean of values given by their logarithms.
pub(super) fn exponential_mean(logarithms: &[f64]) -> f64 {
    (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
}

/// The value in the middle of the values, sorted; of an even number, the mean of the middle two.
pub(super) fn median(sorted: &[f64]) -> f64 {
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

/// The 5th percentile. Not by sorting all values: intervals take it of each resample.
pub(super) fn fifth_percentile(values: &[f64]) -> f64 {
    let place = (0.05 * (values.len() - 1) as f64).round() as usize;
    *values.to_vec().select_nth_unstable_by(place, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 400 values of mean 1 and deviation 0.5: the error of the mean is 0.025, and the interval
    /// 1.96 of it to both sides.
    #[test]
    fn the_interval_of_a_mean_is_that_of_the_normal_distribution() {
        let mut rng = Rng::new(1);
        let values: Vec<f64> = (0..400).map(|_| 1.0 + 0.5 * rng.normal()).collect();
        let mean: fn(&[f64]) -> f64 = |values| values.iter().sum::<f64>() / values.len() as f64;
        let bounded = bounded(&values, mean);
        assert_eq!(bounded.value, mean(&values));
        assert!((bounded.high - bounded.low - 2.0 * 1.96 * 0.025).abs() < 0.012, "{bounded:?}");
        assert!(bounded.low < bounded.value && bounded.value < bounded.high);
    }

    #[test]
    fn quantiles_and_means() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(fifth_percentile(&values), 5.0);
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert!((exponential_mean(&[1f64.ln(), 100f64.ln()]) - 10.0).abs() < 1e-9);
    }
}
