//! Sliding windows over samples: a quantile and a median of the most recent ones.
//!
//! Both hold a fixed number of samples, replace the oldest by the newest, and do not allocate.

/// Number of samples of a [`WindowQuantile`].
const QUANTILE_SAMPLES: usize = 128;
/// Samples are counted by value; a larger one counts as the largest.
const VALUES: usize = 256;
/// Number of samples of a [`WindowMedian`]: odd.
const MEDIAN_SAMPLES: usize = 9;

/// A quantile of the last 128 samples, each from 0 to 255.
#[derive(Clone, Debug)]
pub struct WindowQuantile {
    permille: usize,
    ring: [u8; QUANTILE_SAMPLES],
    counts: [u8; VALUES],
    added: usize,
    /// The quantile, and the number of samples below it.
    value: usize,
    below: usize,
}

/// The median of the last nine samples.
#[derive(Clone, Debug, Default)]
pub struct WindowMedian {
    ring: [u64; MEDIAN_SAMPLES],
    added: usize,
    median: u64,
}

impl WindowQuantile {
    /// A window whose quantile is the smallest value that `permille` thousandths of its samples do
    /// not exceed. Panics if `permille` is not from 1 to 1000.
    pub fn new(permille: usize) -> WindowQuantile {
        assert!((1..=1000).contains(&permille), "{permille} is not a quantile in thousandths");
        WindowQuantile {
            permille,
            ring: [0; QUANTILE_SAMPLES],
            counts: [0; VALUES],
            added: 0,
            value: 0,
            below: 0,
        }
    }

    #[inline]
    pub fn add(&mut self, sample: u32) {
        let sample = sample.min(VALUES as u32 - 1) as u8;
        let slot = self.added % QUANTILE_SAMPLES;
        if self.added >= QUANTILE_SAMPLES {
            let oldest = usize::from(self.ring[slot]);
            self.counts[oldest] -= 1;
            self.below -= usize::from(oldest < self.value);
        }
        self.ring[slot] = sample;
        self.counts[usize::from(sample)] += 1;
        self.below += usize::from(usize::from(sample) < self.value);
        self.added += 1;
        self.settle();
    }

    /// The quantile; 0 before the first sample.
    #[inline]
    pub fn get(&self) -> u32 {
        self.value as u32
    }

    /// Moves the quantile to its new value: usually by one step or none.
    fn settle(&mut self) {
        let needed = (self.added.min(QUANTILE_SAMPLES) * self.permille).div_ceil(1000);
        while self.below >= needed {
            self.value -= 1;
            self.below -= usize::from(self.counts[self.value]);
        }
        while self.below + usize::from(self.counts[self.value]) < needed {
            self.below += usize::from(self.counts[self.value]);
            self.value += 1;
        }
    }
}

impl WindowMedian {
    pub fn add(&mut self, sample: u64) {
        self.ring[self.added % MEDIAN_SAMPLES] = sample;
        self.added += 1;
        let number = self.added.min(MEDIAN_SAMPLES);
        let mut sorted = self.ring;
        sorted[..number].sort_unstable();
        self.median = sorted[(number - 1) / 2];
    }

    /// The median, of an even number the lower of the middle two; `None` before the first sample.
    #[inline]
    pub fn get(&self) -> Option<u64> {
        (self.added > 0).then_some(self.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_windows() {
        assert_eq!(WindowQuantile::new(840).get(), 0);
        assert_eq!(WindowMedian::default().get(), None);
    }

    #[test]
    fn the_median_of_a_window_that_is_not_full() {
        let mut median = WindowMedian::default();
        for (sample, expected) in [(5, 5), (9, 5), (7, 7), (1, 5), (8, 7)] {
            median.add(sample);
            assert_eq!(median.get(), Some(expected), "after {sample}");
        }
    }

    #[test]
    fn large_samples_count_as_the_largest() {
        let mut quantile = WindowQuantile::new(1000);
        quantile.add(1_000_000);
        assert_eq!(quantile.get(), 255);
    }

    proptest! {
        #[test]
        fn quantile_and_median_are_those_of_a_sorted_window(
            samples in prop::collection::vec(0u32..300, 1..400),
            permille in 1usize..=1000,
        ) {
            let mut quantile = WindowQuantile::new(permille);
            let mut median = WindowMedian::default();
            for (index, &sample) in samples.iter().enumerate() {
                quantile.add(sample);
                median.add(u64::from(sample));
                let last = |number: usize| {
                    let mut sorted = samples[(index + 1).saturating_sub(number)..=index].to_vec();
                    sorted.sort_unstable();
                    sorted
                };
                let sorted = last(QUANTILE_SAMPLES);
                let rank = (sorted.len() * permille).div_ceil(1000);
                prop_assert_eq!(quantile.get(), sorted[rank - 1].min(255));
                let sorted = last(MEDIAN_SAMPLES);
                prop_assert_eq!(median.get(), Some(u64::from(sorted[(sorted.len() - 1) / 2])));
            }
        }
    }
}
