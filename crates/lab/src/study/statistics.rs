//! The statistics of a study: intervals of confidence, ties and geometric means.
//!
//! Every policy is run with the same seeds and so meets the same requests. Two policies are
//! therefore compared by their *paired* differences, one per seed: what the seeds have in common
//! cancels, and the interval is far narrower than that of two independent means. (Jain, "The Art
//! of Computer Systems Performance Analysis", 1991, section 13.4.1.) With many policies some
//! differences will seem real by chance at 95 %; no correction is made for that.

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (NIST/SEMATECH
/// e-Handbook of Statistical Methods, section 1.3.6.7.2, column 0.975).
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same beyond the table, as (degrees of freedom from which it holds, quantile).
const T_95_FAR: [(usize, f64); 4] = [(120, 1.980), (100, 1.984), (60, 2.000), (40, 2.021)];

/// A mean and half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanInterval {
    /// The mean.
    pub mean: f64,
    /// The true mean lies within this of it in 95 of 100 experiments; none for a single value.
    pub half_width: Option<f64>,
}

/// The two-sided 95 % quantile of Student's t. Between the rows of the table the one below is
/// taken, so that an interval is never too narrow.
///
/// # Panics
/// If `degrees` is zero: one value has no spread.
pub fn t_quantile(degrees: usize) -> f64 {
    assert!(degrees > 0, "no degrees of freedom");
    let far = || T_95_FAR.iter().find(|&&(from, _)| degrees >= from).map(|&(_, t)| t);
    let last_row = T_95[T_95.len() - 1];
    T_95.get(degrees - 1).copied().or_else(far).unwrap_or(last_row)
}

/// Mean and interval of independent values.
///
/// # Panics
/// If there are none.
pub fn mean_interval(values: &[f64]) -> MeanInterval {
    assert!(!values.is_empty(), "the mean of nothing");
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let half_width = (values.len() > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        t_quantile(values.len() - 1) * deviation / count.sqrt()
    });
    MeanInterval { mean, half_width }
}

/// Whether two policies' values, paired by seed, cannot be told apart: the 95 % interval of their
/// mean difference holds zero. A single pair has no interval: it ties only if both are equal.
///
/// # Panics
/// If the numbers of values differ, or there are none.
pub fn is_tie(left: &[f64], right: &[f64]) -> bool {
    assert_eq!(left.len(), right.len(), "pairs need as many values on both sides");
    let differences: Vec<f64> = left.iter().zip(right).map(|(a, b)| a - b).collect();
    let interval = mean_interval(&differences);
    interval.mean.abs() <= interval.half_width.unwrap_or(0.0)
}

/// The geometric mean: right for ratios, because it does not depend on which side is the
/// denominator (Fleming and Wallace, "How not to lie with statistics", 1986). Zero if any value is.
///
/// # Panics
/// If there are none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "the mean of nothing");
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (logarithms / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 5e-4 * right.abs().max(1.0)
    }

    /// By hand: mean 12, deviation 2, 2 / sqrt(3) = 1.1547, times 4.303.
    #[test]
    fn the_interval_of_three_values() {
        let interval = mean_interval(&[10.0, 12.0, 14.0]);
        assert_eq!(interval.mean, 12.0);
        assert!(near(interval.half_width.unwrap(), 4.9687));
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(mean_interval(&[7.0]), MeanInterval { mean: 7.0, half_width: None });
    }

    #[test]
    fn quantiles_between_rows_are_never_too_small() {
        assert_eq!(t_quantile(1), 12.706);
        assert_eq!(t_quantile(30), 2.042);
        assert_eq!(t_quantile(35), 2.042);
        assert_eq!(t_quantile(45), 2.021);
        assert_eq!(t_quantile(1_000), 1.980);
        assert!((1..200).map(t_quantile).is_sorted_by(|a, b| a >= b));
    }

    /// The values overlap widely, but each seed favours the left by the same ten.
    #[test]
    fn pairing_sees_what_overlapping_intervals_hide() {
        let left = [110.0, 511.0, 909.0];
        let right = [100.0, 500.0, 900.0];
        assert!(!is_tie(&left, &right));
        assert!(is_tie(&[100.0, 500.0, 900.0], &[101.0, 499.0, 900.5]));
    }

    #[test]
    fn a_single_pair_ties_only_when_equal() {
        assert!(is_tie(&[5.0], &[5.0]));
        assert!(!is_tie(&[5.0], &[5.1]));
        assert!(is_tie(&[5.0, 6.0], &[5.0, 6.0]));
        assert!(!is_tie(&[5.0, 6.0], &[4.0, 5.0]), "a constant difference has no width");
    }

    #[test]
    fn geometric_means() {
        assert!(near(geometric_mean(&[1.0, 100.0]), 10.0));
        assert!(near(geometric_mean(&[2.0, 4.0, 8.0]), 4.0));
        assert_eq!(geometric_mean(&[0.0, 5.0]), 0.0);
    }
}
