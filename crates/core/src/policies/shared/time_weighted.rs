//! Mean of times in which long samples weigh more, in the kernel's fixed point of ten binary
//! places: 1024 is one.
//!
//! For a sample that lasts n spans of 2^24 ns, rounded up, the mean is multiplied by a base, below
//! one, to the power of n. A sample of 63 whole spans or more replaces it.
//!
//! Source: `fixed_power`, `fixed_ema` and `hst_set_weights` of Linux
//! `drivers/md/dm-ps-historical-service-time.c`.

use crate::units::Nanos;

pub(crate) const ONE: u64 = 1024;
/// The largest number whose product with [`ONE`] fits 64 bits.
const NUMBER_MAX: u64 = u64::MAX / ONE;
/// A span is two to the power of this, in nanoseconds.
const SPAN_SHIFT: u32 = 24;
const SPANS: usize = 64;

/// Weight of the old mean, by the number of spans of the sample.
#[derive(Debug)]
pub(crate) struct TimeWeights {
    list: [u64; SPANS],
}

impl TimeWeights {
    /// Weights of a base, in fixed point and below one.
    pub(crate) fn new(base: u64) -> TimeWeights {
        let mut list = [0; SPANS];
        for (span, weight) in list[..SPANS - 1].iter_mut().enumerate() {
            *weight = power(base, span as u32 + 1);
        }
        TimeWeights { list }
    }

    /// The mean after a sample, in nanoseconds and fixed point.
    #[inline]
    pub(crate) fn mean(&self, mean: u64, sample: Nanos) -> u64 {
        let span = (sample.0 >> SPAN_SHIFT).min(SPANS as u64 - 1) as usize;
        let weight = self.list[span];
        let sample = sample.0.saturating_mul(ONE).min(NUMBER_MAX);
        (mean * weight + sample * (ONE - weight) + ONE / 2) / ONE
    }
}

/// Power of a base by repeated squaring. Every product is rounded to the nearest.
fn power(mut base: u64, mut exponent: u32) -> u64 {
    let product = |a: u64, b: u64| (a * b + ONE / 2) / ONE;
    let mut result = ONE;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, base);
        }
        base = product(base, base);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_powers_rounded_to_the_nearest() {
        let weights = TimeWeights::new(972).list;
        // 972 * 972 / 1024 = 922.64; 923 * 972 / 1024 = 876.13; 923 * 923 / 1024 = 831.96.
        assert_eq!(weights[..4], [972, 923, 876, 832]);
        assert_eq!(weights[63], 0, "the last span keeps nothing");
        assert_eq!(TimeWeights::new(0).list, [0; SPANS], "no history at all");
    }

    #[test]
    fn long_samples_weigh_more() {
        let weights = TimeWeights::new(972);
        let mean = |sample| weights.mean(8 * ONE, Nanos(sample)) / ONE;
        // 8 * 0.949 + 2^23 * 0.051, then spans of their own.
        assert_eq!(mean(1 << 23), (8 * 972 + (1 << 23) * 52) / 1024);
        assert_eq!(mean(1 << 24), (8 * 923 + (1 << 24) * 101) / 1024);
        assert_eq!(mean((1 << 24) - 1), (8 * 972 + ((1 << 24) - 1) * 52) / 1024);
        assert_eq!(mean(63 << 24), 63 << 24, "63 spans are the mean");
        assert_eq!(weights.mean(8 * ONE, Nanos(u64::MAX)), NUMBER_MAX, "and never overflow");
    }
}
