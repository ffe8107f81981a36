//! A figure with its interval of confidence.

use super::statistics::{Scored, mean_interval};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// A figure and its 95 % confidence interval over repeats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Estimate {
    /// A mean for rates; for latencies read off the merged bins, or a harmonic mean if it ranks.
    pub value: f64,
    /// Lower end of the interval; none with a single repeat.
    pub low: Option<f64>,
    /// Upper end of the interval; none with a single repeat.
    pub high: Option<f64>,
}

impl Estimate {
    /// `value` with the interval of `repeats`, which is centred on *their* mean: a percentile of
    /// the merged bins may lie off its middle.
    pub fn new(value: f64, repeats: &[f64]) -> Estimate {
        let interval = mean_interval(repeats);
        let end = |side: f64| interval.half_width.map(|width| interval.mean + side * width);
        // No rate and no latency is negative.
        Estimate { value, low: end(-1.0).map(|low| low.max(0.0)), high: end(1.0) }
    }

    pub fn of_scores(repeats: &[Scored]) -> Estimate {
        let scores: Vec<f64> = repeats.iter().map(|repeat| repeat.score).collect();
        Estimate::new(mean_interval(&scores).mean, &scores)
    }

    /// Half the width of the interval as a fraction of the figure.
    pub fn relative(&self) -> Option<f64> {
        let high = self.high.filter(|_| self.value > 0.0)?;
        Some((high - self.low?) / 2.0 / self.value)
    }
}
