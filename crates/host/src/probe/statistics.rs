//! Statistics of samples: quantiles, the distance of two distributions, block bootstrap.

use mirrorball_core::rng::Rng;

/// Points at which two distributions are compared.
const POINTS: usize = 500;
/// Resamples of a bootstrap.
const RESAMPLES: usize = 200;

/// The value that a fraction of the samples does not exceed; zero without samples.
pub(crate) fn quantile(samples: &[f64], fraction: f64) -> f64 {
    sorted_quantile(&sorted(samples), fraction)
}

/// The same of sorted samples.
pub(super) fn sorted_quantile(sorted: &[f64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = (fraction * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (below, rest) = (place.floor() as usize, place.fract());
    sorted[below] + (sorted[(below + 1).min(last)] - sorted[below]) * rest
}

/// The samples in ascending order.
pub(super) fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// The mean; zero without samples.
pub(super) fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() { 0.0 } else { samples.iter().sum::<f64>() / samples.len() as f64 }
}

/// Root mean square horizontal distance between the distributions of two sets of sorted samples:
/// the demerit figure of Ruemmler and Wilkes ("An introduction to disk drive modeling", 1994).
pub(super) fn demerit(left: &[f64], right: &[f64]) -> f64 {
    let distance = |point: usize| {
        let at = (point as f64 + 0.5) / POINTS as f64;
        sorted_quantile(left, at) - sorted_quantile(right, at)
    };
    let squares: f64 = (0..POINTS).map(|point| distance(point).powi(2)).sum();
    (squares / POINTS as f64).sqrt()
}

/// The interval that holds `estimate` of the blocks with 95 %: a percentile bootstrap over whole
/// blocks, because neighbouring samples are not independent. `None` with fewer than four blocks, or
/// if the estimate is not defined for most of the resamples.
pub(super) fn bootstrap<T: Clone>(
    blocks: &[Vec<T>],
    seed: u64,
    estimate: impl Fn(&[T]) -> Option<f64>,
) -> Option<(f64, f64)> {
    if blocks.len() < 4 {
        return None;
    }
    let mut rng = Rng::stream(seed, "bootstrap");
    let mut estimates = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let mut drawn = Vec::new();
        for _ in 0..blocks.len() {
            drawn.extend_from_slice(&blocks[rng.below(blocks.len() as u64) as usize]);
        }
        estimates.extend(estimate(&drawn));
    }
    if estimates.len() < RESAMPLES / 2 {
        return None;
    }
    Some((quantile(&estimates, 0.025), quantile(&estimates, 0.975)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_and_the_demerit_is_the_shift() {
        let samples: Vec<f64> = (0..1000).map(f64::from).rev().collect();
        assert!((quantile(&samples, 0.5) - 499.5).abs() < 1e-9);
        assert_eq!((quantile(&samples, 0.0), quantile(&samples, 1.0)), (0.0, 999.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
        let left = sorted(&samples);
        let right: Vec<f64> = left.iter().map(|value| value + 7.0).collect();
        assert!((demerit(&left, &right) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn the_bootstrap_of_a_mean_covers_it_and_needs_blocks() {
        let mut rng = Rng::new(3);
        let blocks: Vec<Vec<f64>> =
            (0..40).map(|_| (0..25).map(|_| 5.0 + rng.normal()).collect()).collect();
        let (low, high) = bootstrap(&blocks, 1, |drawn| Some(mean(drawn))).unwrap();
        assert!(low < 5.0 && 5.0 < high, "{low} {high}");
        // The deviation of a mean of 1,000 draws is 0.032.
        assert!((0.08..0.18).contains(&(high - low)), "{low} {high}");
        assert_eq!(bootstrap(&blocks[..3], 1, |drawn| Some(mean(drawn))), None);
    }
}
