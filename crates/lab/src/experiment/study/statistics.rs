//! The statistics of a study: intervals of confidence, ties and geometric means.
//!
//! Every policy is run with the same seeds and so meets the same requests. Two policies are
//! therefore compared by their *paired* differences, one per seed: what the seeds have in common
//! cancels, and the interval is far narrower than that of two independent means. (Jain, "The Art
//! of Computer Systems Performance Analysis", 1991, section 13.4.1.) Runs that share no seeds, such
//! as a simulation and a live run, are compared as independent samples of unequal variance
//! (Welch's test: NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.5.3). With many
//! policies some differences will seem real by chance at 95 %; no correction is made for that.
//!
//! Repeats that go on until they decide are looked at several times, and each look is a chance to
//! be wrong: with five of them at 95 %, one of seven equal pairs is taken for unequal. Each such
//! look therefore decides at a level of 5 % over [`LOOKS_MAX`], so that all together are wrong in
//! at most 5 % of the cases (Bonferroni's inequality). Intervals that are shown are of 95 %.

/// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom (NIST/SEMATECH
/// e-Handbook of Statistical Methods, section 1.3.6.7.2, column 0.975).
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same of 99 % (column 0.995).
const T_99: [f64; 30] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012,
    2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779,
    2.771, 2.763, 2.756, 2.750,
];

/// Both beyond the tables, as (degrees of freedom from which they hold, quantiles).
const T_FAR: [(usize, f64, f64); 4] =
    [(120, 1.980, 2.617), (100, 1.984, 2.626), (60, 2.000, 2.660), (40, 2.021, 2.704)];

/// The most looks at results that go on until they decide: a fifth of 5 % is what `T_99` has.
pub const LOOKS_MAX: u32 = 5;

/// A mean and half the width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanInterval {
    pub mean: f64,
    /// The true mean lies within this of it in 95 of 100 experiments; none for a single value.
    pub half_width: Option<f64>,
}

/// What one repeat achieved: the higher, the better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Seed of the repeat, by which it is paired with those of other policies.
    pub seed: u64,
    pub score: f64,
}

/// Mean and interval of what repeats achieved. Panics if there are none.
pub fn mean_score(repeats: &[Scored]) -> MeanInterval {
    mean_interval(&repeats.iter().map(|repeat| repeat.score).collect::<Vec<f64>>())
}

/// The two-sided quantile of Student's t, of 95 % over all `looks` at results. Between the rows of
/// the table the one below is taken, so that an interval is never too narrow. Panics if `degrees`
/// is zero: one value has no spread. If there are more than [`LOOKS_MAX`] looks.
pub fn t_quantile(degrees: usize, looks: u32) -> f64 {
    assert!(degrees > 0, "no degrees of freedom");
    assert!((1..=LOOKS_MAX).contains(&looks), "{looks} looks");
    let row = degrees.min(T_95.len()) - 1;
    let far = T_FAR.iter().find(|(from, ..)| degrees >= *from);
    let (once, several) = far.map_or((T_95[row], T_99[row]), |&(_, once, several)| (once, several));
    if looks == 1 { once } else { several }
}

/// Mean and interval of independent values. Panics if there are none.
pub fn mean_interval(values: &[f64]) -> MeanInterval {
    interval_over_looks(values, 1)
}

fn interval_over_looks(values: &[f64], looks: u32) -> MeanInterval {
    let half_width = (values.len() > 1)
        .then(|| t_quantile(values.len() - 1, looks) * squared_error(values).sqrt());
    MeanInterval { mean: mean_of(values), half_width }
}

/// The values of two sides that are compared with each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched {
    left: Vec<f64>,
    right: Vec<f64>,
    is_paired: bool,
}

impl Matched {
    /// Pairs by seed if both sides share two seeds or more, or have one value each with the same
    /// seed; what has no partner does not count then. Else both sides as they are. Panics if a side
    /// is empty.
    pub fn new(left: &[Scored], right: &[Scored]) -> Matched {
        let partner = |one: &Scored| right.iter().find(|other| other.seed == one.seed);
        let pairs: Vec<(f64, f64)> =
            left.iter().filter_map(|one| Some((one.score, partner(one)?.score))).collect();
        let is_single = left.len() == 1 && right.len() == 1;
        if pairs.len() > 1 || (is_single && !pairs.is_empty()) {
            let (left, right) = pairs.into_iter().unzip();
            return Matched { left, right, is_paired: true };
        }
        let scores = |side: &[Scored]| side.iter().map(|one| one.score).collect::<Vec<f64>>();
        Matched { left: scores(left), right: scores(right), is_paired: false }
    }

    /// The mean of the left minus that of the right, with its interval of 95 % over all `looks`. No
    /// interval if a side has one value only.
    pub fn difference(&self, looks: u32) -> MeanInterval {
        if !self.is_paired {
            return independent_difference(&self.left, &self.right, looks);
        }
        let differences = self.left.iter().zip(&self.right).map(|(left, right)| left - right);
        interval_over_looks(&differences.collect::<Vec<f64>>(), looks)
    }

    pub fn right_mean(&self) -> f64 {
        mean_of(&self.right)
    }
}

/// Welch's interval, its degrees of freedom rounded down so that it is never too narrow.
fn independent_difference(left: &[f64], right: &[f64], looks: u32) -> MeanInterval {
    let mean = mean_of(left) - mean_of(right);
    let half_width = (left.len() > 1 && right.len() > 1).then(|| {
        let [left_error, right_error] = [left, right].map(squared_error);
        let both = left_error + right_error;
        if both == 0.0 {
            return 0.0;
        }
        let part = |error: f64, count: usize| error.powi(2) / (count - 1) as f64;
        let degrees =
            both.powi(2) / (part(left_error, left.len()) + part(right_error, right.len()));
        t_quantile((degrees as usize).max(1), looks) * both.sqrt()
    });
    MeanInterval { mean, half_width }
}

fn mean_of(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "the mean of nothing");
    values.iter().sum::<f64>() / values.len() as f64
}

/// The squared standard error of the mean of two values or more.
fn squared_error(values: &[f64]) -> f64 {
    let (mean, count) = (mean_of(values), values.len() as f64);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (count - 1.0) / count
}

/// The geometric mean: right for ratios, because it does not depend on which side is the
/// denominator (Fleming and Wallace, "How not to lie with statistics", 1986). Zero if any value is.
/// Panics if there are none.
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
        let of = |degrees: usize| (t_quantile(degrees, 1), t_quantile(degrees, LOOKS_MAX));
        assert_eq!((of(1), of(30)), ((12.706, 63.657), (2.042, 2.750)));
        assert_eq!((of(35), of(45)), ((2.042, 2.750), (2.021, 2.704)));
        assert_eq!(of(1_000), (1.980, 2.617));
        assert!((1..200).map(of).is_sorted_by(|a, b| a.0 >= b.0 && a.1 >= b.1));
    }

    /// Seeds from one on.
    fn scored(values: &[f64]) -> Vec<Scored> {
        (1..).zip(values).map(|(seed, &score)| Scored { seed, score }).collect()
    }

    /// By hand: the values overlap widely, but each seed favours the left by ten; differences 10,
    /// 11 and 9 have a deviation of 1, half the interval is 4.303 / sqrt(3) = 2.484.
    #[test]
    fn pairing_sees_what_overlapping_intervals_hide() {
        let left = scored(&[110.0, 511.0, 909.0]);
        let difference = Matched::new(&left, &scored(&[100.0, 500.0, 900.0])).difference(1);
        assert_eq!(difference.mean, 10.0);
        assert!(near(difference.half_width.unwrap(), 2.4843));
    }

    #[test]
    fn pairs_are_found_by_seed_and_what_has_no_partner_does_not_count() {
        let left = scored(&[110.0, 511.0, 909.0]);
        let mut right = scored(&[100.0, 500.0, 900.0]);
        right.reverse();
        right.push(Scored { seed: 77, score: 1e6 });
        assert_eq!(Matched::new(&left, &right).difference(1).mean, 10.0);
    }

    /// By hand: means 12 and 22; squared errors 4 / 3 and 16 / 3, their root 2.582; degrees of
    /// freedom 44.44 / (0.8889 + 14.22) = 2.94, rounded down to 2.
    #[test]
    fn samples_without_common_seeds_are_independent() {
        let right: Vec<Scored> = scored(&[18.0, 22.0, 26.0])
            .into_iter()
            .map(|repeat| Scored { seed: repeat.seed + 50, ..repeat })
            .collect();
        let interval = Matched::new(&scored(&[10.0, 12.0, 14.0]), &right).difference(1);
        assert_eq!(interval.mean, -10.0);
        assert!(near(interval.half_width.unwrap(), 4.303 * 2.58199));
        assert_eq!(Matched::new(&scored(&[10.0]), &right).difference(1).half_width, None);
    }

    #[test]
    fn geometric_means() {
        assert!(near(geometric_mean(&[1.0, 100.0]), 10.0));
        assert!(near(geometric_mean(&[2.0, 4.0, 8.0]), 4.0));
        assert_eq!(geometric_mean(&[0.0, 5.0]), 0.0);
    }
}
