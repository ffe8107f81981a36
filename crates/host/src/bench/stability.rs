//! Whether a run was steady: no change of level within its measured window.
//!
//! Many benchmarks never reach a steady state (Barrett et al., "Virtual Machine Warmup Blows Hot
//! and Cold", 2017), so it is tested and not assumed. The rates of the members, twice a second, are
//! cut in two at every place. The cut with the greatest difference of means, measured in standard
//! errors, is where the level changed, if that difference is large in itself too.

use serde::{Deserialize, Serialize};

/// Fewest rates on either side of a cut.
const SIDE_MIN: usize = 5;
/// Least difference in standard errors. With forty rates, noise alone comes so far in about one
/// window of a thousand.
const ERRORS_MIN: f64 = 4.5;
/// Least difference as a fraction of the mean of all.
const CHANGE_MIN: f64 = 0.1;

/// Whether the rates kept their level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Steadiness {
    Steady,
    /// They did not.
    Unsteady,
    /// A window is too short to tell.
    NotTested,
}

/// Whether the rates kept their level within each of several windows.
pub(super) fn steadiness(windows: &[Vec<f64>]) -> Steadiness {
    if windows.iter().any(|rates| level_change(rates).is_some()) {
        return Steadiness::Unsteady;
    }
    match windows.iter().all(|rates| rates.len() >= 2 * SIDE_MIN) {
        true => Steadiness::Steady,
        false => Steadiness::NotTested,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LevelChange {
    /// Number of rates before it.
    pub(super) at: usize,
    /// The difference as a fraction of the mean of all.
    pub(super) change: f64,
}

/// Where the level of the rates changed, if it did.
pub(super) fn level_change(rates: &[f64]) -> Option<LevelChange> {
    let mean = mean(rates).filter(|mean| *mean > 0.0)?;
    let cuts = SIDE_MIN..=rates.len().checked_sub(SIDE_MIN)?;
    let score = |at: usize| {
        let (left, right) = rates.split_at(at);
        let (left_mean, right_mean) = (mean_of(left), mean_of(right));
        let squares =
            |side: &[f64], mean: f64| -> f64 { side.iter().map(|it| (it - mean).powi(2)).sum() };
        let all: f64 = squares(left, left_mean) + squares(right, right_mean);
        let variance: f64 = all / (rates.len() - 2) as f64;
        let error = (variance * (1.0 / left.len() as f64 + 1.0 / right.len() as f64)).sqrt();
        let difference = right_mean - left_mean;
        let errors = if error > 0.0 { difference.abs() / error } else { f64::INFINITY };
        (errors, LevelChange { at, change: difference / mean })
    };
    let best = cuts.map(score).max_by(|left, right| left.0.total_cmp(&right.0))?;
    let is_change = best.0 >= ERRORS_MIN && best.1.change.abs() >= CHANGE_MIN;
    is_change.then_some(best.1)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| mean_of(values))
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::{Steadiness, level_change, steadiness};
    use mirrorball_core::rng::Rng;

    /// Rates with noise of 5 %, of which those from `at` on are `factor` times as high.
    fn noisy(seed: u64, at: usize, factor: f64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let rate = |index: usize| {
            let level = if index < at { 100.0 } else { 100.0 * factor };
            level * (1.0 + 0.05 * rng.normal())
        };
        (0..40).map(rate).collect()
    }

    #[test]
    fn a_change_of_level_is_found_where_it_is() {
        for seed in 0..200 {
            let change = level_change(&noisy(seed, 25, 0.7)).expect("a change by a third is seen");
            assert!((23..=27).contains(&change.at), "{change:?}");
            assert!(change.change < -0.2, "{change:?}");
        }
    }

    /// The second group of a job has a rate of its own.
    #[test]
    fn each_window_is_tested_by_itself() {
        let (low, high) = (noisy(1, 0, 1.0), noisy(2, 0, 5.0));
        assert_eq!(steadiness(&[low.clone(), high]), Steadiness::Steady);
        assert_eq!(steadiness(&[low.clone(), noisy(1, 20, 0.5)]), Steadiness::Unsteady);
        assert_eq!(steadiness(&[low, vec![1.0; 9]]), Steadiness::NotTested);
    }

    #[test]
    fn noise_alone_is_seldom_taken_for_a_change() {
        let found = (0..1000).filter(|seed| level_change(&noisy(*seed, 0, 1.0)).is_some()).count();
        assert!(found <= 3, "{found} of 1000");
    }

    #[test]
    fn a_small_change_and_a_few_rates_say_nothing() {
        assert_eq!(level_change(&noisy(1, 20, 1.05)), None);
        assert_eq!(level_change(&[1.0, 9.0]), None);
        assert_eq!(level_change(&[]), None);
        assert_eq!(level_change(&[0.0; 40]), None, "nothing was read");
    }
}
