//! Where a policy stands against the best one, and how much it varies from seed to seed.
//!
//! Two policies are compared by the differences of their scores, paired by seed (see
//! [`super::statistics`]). With `d` the mean difference and `h` half its 95 % interval:
//!
//! - `|d| > h`: the other policy is behind.
//! - `|d| + h` within [`TIE_MARGIN`] of the best's mean: they tie. The whole interval lies where a
//!   difference does not matter, so more repeats would not change that. This is a test of
//!   equivalence (Schuirmann, "A comparison of the two one-sided tests procedure and the power
//!   approach", J. Pharmacokinetics and Biopharmaceutics 15, 1987).
//! - Else it is undecided: the interval holds zero, and also differences that matter. That is no
//!   tie. A policy whose result depends on chance, such as the parity of a process id, has a wide
//!   interval against any other.
//!
//! A single repeat has no interval and decides nothing. Where results are looked at several times,
//! the intervals are wider: see [`super::statistics`].

use super::statistics::{Matched, Scored, mean_score};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Difference of scores, as a fraction of the best's, that does not matter.
pub const TIE_MARGIN: f64 = 0.05;
/// Standard deviation over seeds, as a fraction of the mean, from which a policy counts as
/// unsteady: five values have a range of about a quarter then. Those of steady policies vary by a
/// few percent.
const UNSTEADY_DEVIATION: f64 = 0.11;

/// Where a policy stands against the best of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The highest mean score.
    Best,
    /// As good as the best: the interval of the difference lies within the margin that does not
    /// matter.
    Tied,
    /// Not decided by this number of repeats.
    Undecided,
    /// Slower than the best.
    Behind,
    /// The oracle, which takes no part.
    Reference,
}

/// Scores of one policy over the seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Spread {
    /// The lowest score, as a fraction of the mean.
    pub low: f64,
    /// The highest score, as a fraction of the mean.
    pub high: f64,
    /// The seed of the lowest.
    pub worst_seed: u64,
    /// The standard deviation, as a fraction of the mean.
    pub deviation: f64,
}

/// Compares a policy with the best one, in one of `looks` looks at the results. Panics if a side
/// has no repeat.
pub fn standing(best: &[Scored], other: &[Scored], looks: u32) -> Standing {
    let matched = Matched::new(best, other);
    let difference = matched.difference(looks);
    let Some(half_width) = difference.half_width else { return Standing::Undecided };
    let best_mean = matched.right_mean() + difference.mean;
    if difference.mean.abs() > half_width {
        Standing::Behind
    } else if difference.mean.abs() + half_width <= TIE_MARGIN * best_mean {
        Standing::Tied
    } else {
        Standing::Undecided
    }
}

impl Spread {
    /// The spread of a policy's repeats; none for a single one, or if all scores are zero.
    pub fn new(repeats: &[Scored]) -> Option<Spread> {
        let mean = mean_score(repeats).mean;
        if repeats.len() < 2 || mean <= 0.0 {
            return None;
        }
        let by_score = |left: &&Scored, right: &&Scored| left.score.total_cmp(&right.score);
        let worst = repeats.iter().min_by(by_score)?;
        let best = repeats.iter().max_by(by_score)?;
        let square = |it: &Scored| (it.score / mean - 1.0).powi(2);
        let variance = repeats.iter().map(square).sum::<f64>() / (repeats.len() - 1) as f64;
        Some(Spread {
            low: worst.score / mean,
            high: best.score / mean,
            worst_seed: worst.seed,
            deviation: variance.sqrt(),
        })
    }

    /// True if the score depends on the seed far more than by noise.
    pub fn is_unsteady(&self) -> bool {
        self.deviation > UNSTEADY_DEVIATION
    }

    /// The range in words: `20 to 180 % of its mean, lowest with seed 3`.
    pub fn in_words(&self) -> String {
        let [low, high] = [self.low, self.high].map(|part| 100.0 * part);
        format!("{low:.0} to {high:.0} % of its mean, lowest with seed {}", self.worst_seed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::statistics::LOOKS_MAX;
    use super::*;
    use mirrorball_core::rng::Rng;

    /// Seeds from one on.
    fn scored(values: &[f64]) -> Vec<Scored> {
        (1..).zip(values).map(|(seed, &score)| Scored { seed, score }).collect()
    }

    fn stands(best: &[f64], other: &[f64]) -> Standing {
        standing(&scored(best), &scored(other), 1)
    }

    /// Pairs of equal policies, whose repeats go on, five at a time, until one is decidedly behind:
    /// at most 5 % end so, although there are five looks.
    #[test]
    fn many_looks_are_as_often_wrong_as_one() {
        let mut rng = Rng::stream(1, "looks");
        let mut noise = || 100.0 + (0..12).map(|_| rng.below(1000) as f64).sum::<f64>() / 100.0;
        let ends = |scores: &[[f64; 2]], looks: u32| {
            let side = |side: usize, count: usize| {
                scored(&scores[..count].iter().map(|pair| pair[side]).collect::<Vec<_>>())
            };
            let at = |count| standing(&side(0, count), &side(1, count), looks);
            (1..=LOOKS_MAX as usize).any(|look| at(5 * look) == Standing::Behind)
        };
        let pairs: Vec<Vec<[f64; 2]>> =
            (0..2000).map(|_| (0..25).map(|_| [noise(), noise()]).collect()).collect();
        let wrong = |looks| pairs.iter().filter(|scores| ends(scores, looks)).count();
        let (uncorrected, corrected) = (wrong(1), wrong(LOOKS_MAX));
        assert!(uncorrected > 200 && corrected <= 100, "{uncorrected}, {corrected} of 2000");
    }

    /// Two states, 100 and 10: the differences to a steady 90 are -10, 80, -10, 80, -10. Their mean
    /// is 26, their deviation 49.3, half the interval 2.776 * 49.3 / sqrt(5) = 61.2. It holds zero
    /// because it is wide, which is no tie.
    #[test]
    fn a_bimodal_policy_does_not_tie_by_its_wide_interval() {
        let steady = [90.0; 5];
        assert_eq!(stands(&steady, &[100.0, 10.0, 100.0, 10.0, 100.0]), Standing::Undecided);
        // Nor where its mean happens to be the same.
        assert_eq!(stands(&steady, &[170.0, 10.0, 170.0, 10.0, 90.0]), Standing::Undecided);
        // And enough repeats decide it: mean difference 35, interval 35 +- 2.093 * 46.2 / sqrt(20).
        let many: Vec<f64> = (0..20).map(|n| if n % 2 == 0 { 100.0 } else { 10.0 }).collect();
        assert_eq!(stands(&[90.0; 20], &many), Standing::Behind);
    }

    /// Differences 1, -1, 1, -1, 1: mean 0.2, deviation 1.095, half-width 2.776 * 0.490 = 1.36; the
    /// interval reaches 1.56 of 100.
    #[test]
    fn equal_noise_ties() {
        let noisy = [101.0, 99.0, 101.0, 99.0, 101.0];
        assert_eq!(stands(&[100.2; 5], &noisy), Standing::Tied);
    }

    /// Differences of 10, -10, ... have ten times the interval, beyond the margin of 5.
    #[test]
    fn more_noise_is_undecided() {
        let noisy = [110.0, 90.0, 110.0, 90.0, 110.0];
        assert_eq!(stands(&[102.0; 5], &noisy), Standing::Undecided);
    }

    /// Every seed favours the best by 1 %, with hardly any noise.
    #[test]
    fn a_small_difference_that_is_certain_is_behind() {
        let best = [100.0, 120.0, 90.0, 110.0, 105.0];
        let other = best.map(|score| 0.99 * score);
        assert_eq!(stands(&best, &other), Standing::Behind);
        assert_eq!(stands(&best, &best), Standing::Tied, "the same in every seed");
    }

    #[test]
    fn a_single_repeat_decides_nothing() {
        assert_eq!(stands(&[5.0], &[5.0]), Standing::Undecided);
        assert_eq!(stands(&[5.0], &[1.0]), Standing::Undecided);
    }

    #[test]
    fn the_spread_has_its_range_and_the_worst_seed() {
        let spread = Spread::new(&scored(&[150.0, 50.0, 150.0, 50.0])).unwrap();
        assert_eq!((spread.low, spread.high, spread.worst_seed), (0.5, 1.5, 2));
        assert!((spread.deviation - (1.0f64 / 3.0).sqrt()).abs() < 1e-12, "{spread:?}");
        assert!(spread.is_unsteady());
        assert_eq!(spread.in_words(), "50 to 150 % of its mean, lowest with seed 2");
        assert!(!Spread::new(&scored(&[100.0, 104.0, 97.0])).unwrap().is_unsteady());
        assert_eq!(Spread::new(&scored(&[5.0])), None);
        assert_eq!(Spread::new(&scored(&[0.0, 0.0])), None);
    }
}
