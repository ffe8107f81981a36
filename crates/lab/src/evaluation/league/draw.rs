//! Seeded draws from the distributions that arrays and jobs are made of.

use mirrorball_core::rng::Rng;
use mirrorball_core::units::{parse_duration, parse_rate};
use std::ops::RangeInclusive;

/// A generator for one part of one pairing. Parts with other labels draw from other streams, so a
/// change in one part leaves the others as they were.
#[derive(Debug)]
pub(super) struct Draw(Rng);

impl Draw {
    /// The generator for the part `label` of pairing `number` of the sample `seed`.
    pub(super) fn new(seed: u64, number: u32, label: &str) -> Draw {
        Draw(Rng::stream(seed, &format!("pairing {number}: {label}")))
    }

    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.0.unit() < probability
    }

    /// One of the items, each as likely as its weight in the sum of all weights.
    pub(super) fn weighted<T: Copy>(&mut self, items: &[(u32, T)]) -> T {
        let total: u32 = items.iter().map(|(weight, _)| weight).sum();
        let mut left = self.0.below(total.into()) as u32;
        for &(weight, item) in items {
            if left < weight {
                return item;
            }
            left -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// One of the items, all equally likely.
    pub(super) fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.0.below(items.len() as u64) as usize]
    }

    /// A whole number, all equally likely.
    pub(super) fn whole(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.0.below(range.end() - range.start() + 1)
    }

    /// A number, uniform in the range.
    pub(super) fn uniform(&mut self, range: RangeInclusive<f64>) -> f64 {
        range.start() + self.0.unit() * (range.end() - range.start())
    }

    /// A number whose logarithm is uniform in the range: factors are equally likely everywhere.
    pub(super) fn log_uniform(&mut self, range: RangeInclusive<f64>) -> f64 {
        self.uniform(range.start().ln()..=range.end().ln()).exp()
    }

    /// A whole number whose logarithm is uniform in the range.
    pub(super) fn log_whole(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start() as f64, *range.end() as f64);
        (self.log_uniform(low..=high + 0.999) as u64).clamp(*range.start(), *range.end())
    }
}

/// A duration as array and job files write it, times a factor, in whole microseconds or more.
pub(super) fn scaled_duration(text: &str, factor: f64) -> String {
    let duration = parse_duration(text).expect("a built-in profile has a valid duration");
    microseconds(duration.as_secs_f64() * factor)
}

/// A rate as array files write it, times a factor.
pub(super) fn scaled_rate(text: &str, factor: f64) -> String {
    let rate = parse_rate(text).expect("a built-in profile has a valid rate") as f64;
    format!("{}KB/s", (rate * factor / 1000.0).round().max(1.0))
}

/// A number of seconds as files write it, in tenths of a microsecond.
pub(super) fn microseconds(seconds: f64) -> String {
    format!("{:.1}us", seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept_and_streams_differ_by_seed_number_and_label() {
        let mut draw = Draw::new(1, 1, "test");
        let ones = (0..10_000).filter(|_| draw.weighted(&[(1, 1), (3, 2)]) == 1).count();
        assert!((2_350..2_650).contains(&ones), "{ones}");
        let first = |seed, number, label| Draw::new(seed, number, label).whole(0..=u64::MAX - 1);
        let firsts = [first(1, 1, "a"), first(2, 1, "a"), first(1, 2, "a"), first(1, 1, "b")];
        let distinct: std::collections::BTreeSet<u64> = firsts.into();
        assert_eq!(distinct.len(), 4);
        assert_eq!(first(1, 1, "a"), firsts[0]);
    }

    #[test]
    fn ends_of_ranges_are_drawn_and_nothing_beyond() {
        let mut draw = Draw::new(1, 1, "test");
        let whole: Vec<u64> = (0..1000).map(|_| draw.whole(3..=5)).collect();
        let log: Vec<u64> = (0..1000).map(|_| draw.log_whole(1..=4)).collect();
        assert_eq!((whole.iter().min(), whole.iter().max()), (Some(&3), Some(&5)));
        assert_eq!((log.iter().min(), log.iter().max()), (Some(&1), Some(&4)));
        assert!(log.iter().filter(|n| **n == 1).count() > log.iter().filter(|n| **n == 4).count());
    }

    #[test]
    fn quantities_are_scaled_in_their_units() {
        assert_eq!(scaled_duration("1.6ms", 1.25), "2000.0us");
        assert_eq!(scaled_duration("3us", 0.5), "1.5us");
        assert_eq!(scaled_rate("205MB/s", 1.2), "246000KB/s");
    }
}
