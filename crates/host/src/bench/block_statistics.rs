//! Whether one setting is better than another: statistics over rounds, never over requests.
//!
//! The unit is a round: both settings, with the same draws, one shortly after the other. With two
//! settings it is two rounds, A B B A, in which a drift that is linear in time cancels exactly. The
//! effect is the mean of the logarithms of the ratios, as a ratio, with the interval of Student's
//! t.

use mirrorball_lab::experiment::study::statistics::mean_interval;

/// An effect within which settings count as equal.
const EQUAL: f64 = 0.03;

/// How a setting compares with another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    pub(super) units: usize,
    /// Rate over that of the other.
    pub(super) ratio: f64,
    /// The interval of the ratio; none for a single unit.
    pub(super) interval: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EffectVerdict {
    Faster,
    Slower,
    Equal,
    Undecided,
}

impl Effect {
    /// The effect of `rates` against `others`, by round; none where a run is missing or void.
    /// `None` if no round has both.
    pub(super) fn new(
        rates: &[Option<f64>],
        others: &[Option<f64>],
        rounds_per_unit: usize,
    ) -> Option<Effect> {
        let units = units(rates, others, rounds_per_unit);
        if units.is_empty() {
            return None;
        }
        let estimate = mean_interval(&units);
        let around = |half: f64| ((estimate.mean - half).exp(), (estimate.mean + half).exp());
        Some(Effect {
            units: units.len(),
            ratio: estimate.mean.exp(),
            interval: estimate.half_width.map(around),
        })
    }

    /// Verdict of the interval of a fixed number of units.
    pub(super) fn verdict(&self) -> EffectVerdict {
        match self.interval {
            Some((low, _)) if low > 1.0 => EffectVerdict::Faster,
            Some((_, high)) if high < 1.0 => EffectVerdict::Slower,
            Some(interval) if is_within(interval, EQUAL) => EffectVerdict::Equal,
            _ => EffectVerdict::Undecided,
        }
    }
}

impl EffectVerdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            EffectVerdict::Faster => "faster",
            EffectVerdict::Slower => "slower",
            EffectVerdict::Equal => "equal within 3 %",
            EffectVerdict::Undecided => "undecided",
        }
    }
}

fn is_within((low, high): (f64, f64), part: f64) -> bool {
    low > 1.0 - part && high < 1.0 + part
}

/// Logarithms of ratios, one per unit whose rounds are all there.
fn units(rates: &[Option<f64>], others: &[Option<f64>], rounds_per_unit: usize) -> Vec<f64> {
    let log = |(rate, other): (&Option<f64>, &Option<f64>)| {
        let both = (*rate)? / (*other)?;
        (both.is_finite() && both > 0.0).then(|| both.ln())
    };
    let logs: Vec<Option<f64>> = rates.iter().zip(others).map(log).collect();
    let unit = |rounds: &[Option<f64>]| {
        let sum: Option<f64> = rounds.iter().copied().sum();
        sum.map(|sum| sum / rounds.len() as f64)
    };
    logs.chunks_exact(rounds_per_unit).filter_map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    fn rates(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    #[test]
    fn a_linear_drift_cancels_in_abba() {
        // A B B A, ever slower by the same factor.
        let at = |place: f64, speed: f64| Some(speed * (-0.1 * place).exp());
        let first = [at(0.0, 100.0), at(3.0, 100.0)];
        let second = [at(1.0, 120.0), at(2.0, 120.0)];
        let effect = Effect::new(&second, &first, 2).unwrap();
        assert!((effect.ratio - 1.2).abs() < 1e-12, "{effect:?}");
        assert_eq!((effect.units, effect.interval), (1, None));
        assert_eq!(effect.verdict(), EffectVerdict::Undecided);
    }

    #[test]
    fn rounds_that_are_void_take_their_unit_with_them() {
        let first = [Some(1.0), None, Some(1.0), Some(1.0)];
        let second = rates(&[2.0, 2.0, 3.0, 3.0]);
        assert_eq!(Effect::new(&second, &first, 2).unwrap().units, 1);
        assert_eq!(Effect::new(&second, &first, 1).unwrap().units, 3);
        assert_eq!(Effect::new(&[None], &[Some(1.0)], 1), None);
        assert_eq!(Effect::new(&rates(&[1.0]), &rates(&[0.0]), 1), None);
    }

    #[test]
    fn verdicts_follow_from_the_intervals() {
        let effect = |ratio: f64, noise: f64| {
            let sign = |it: u32| if it.is_multiple_of(2) { 1.0 } else { -1.0 };
            let second: Vec<Option<f64>> =
                (0..12).map(|it| Some(100.0 * ratio * (1.0 + noise * sign(it)))).collect();
            Effect::new(&second, &rates(&[100.0; 12]), 1).unwrap()
        };
        for (ratio, noise, verdict) in [
            (1.5, 0.01, EffectVerdict::Faster),
            (0.7, 0.01, EffectVerdict::Slower),
            (1.0, 0.01, EffectVerdict::Equal),
            (1.0, 0.5, EffectVerdict::Undecided),
            (1.01, 0.001, EffectVerdict::Faster),
        ] {
            assert_eq!(effect(ratio, noise).verdict(), verdict, "{ratio} {noise}");
        }
    }

    proptest! {
        #[test]
        fn exchanging_the_settings_inverts_the_ratio(
            pairs in proptest::collection::vec((0.1f64..9.0, 0.1f64..9.0), 1..20),
        ) {
            let (first, second): (Vec<_>, Vec<_>) =
                pairs.into_iter().map(|(a, b)| (Some(a), Some(b))).unzip();
            let there = Effect::new(&first, &second, 1).unwrap();
            let back = Effect::new(&second, &first, 1).unwrap();
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            if let (Some((low, high)), Some((other, _))) = (there.interval, back.interval) {
                prop_assert!(low <= there.ratio && there.ratio <= high);
                prop_assert!((high * other - 1.0).abs() < 1e-9);
            }
        }
    }
}
