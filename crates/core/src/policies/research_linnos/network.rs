//! Inference in integers: one hidden layer of rectified sums.
//!
//! Logarithms are in 1/32, weights in 1/256, and sums and the result in the product of the two.

use super::weights::{FIRST, FIRST_BIAS, HIDDEN, SECOND, SECOND_BIAS};

/// Number of inputs that are known at a decision only.
pub(super) const NOW_INPUTS: usize = 3;
/// Number of inputs that change with a completion only.
pub(super) const PAST_INPUTS: usize = FIRST.len() - NOW_INPUTS;

/// Greatest magnitude of an input: a factor of 65,536.
const INPUT_MAX: i32 = 512;
const WEIGHT_BITS: u32 = 8;

/// Binary logarithm in 1/32, linear between powers of two.
#[inline]
pub(super) fn log2(value: u64) -> i32 {
    let value = value.max(1);
    let fraction = (value << value.leading_zeros() >> 58) & 31;
    (value.ilog2() << 5 | fraction as u32) as i32
}

/// A logarithm in the scale of the result.
#[inline]
pub(super) fn scaled(log: i32) -> i32 {
    log << WEIGHT_BITS
}

/// Moving mean of logarithms, with a weight of 1/16; in sixteenths.
#[derive(Clone, Copy, Default)]
pub(super) struct LogMean(i32);

impl LogMean {
    #[inline]
    pub(super) fn get(self) -> i32 {
        self.0 >> 4
    }

    #[inline]
    pub(super) fn add(&mut self, sample: i32, is_first: bool) {
        self.0 = if is_first { sample << 4 } else { self.0 + sample - self.get() };
    }
}

/// Sums of the hidden layer's neurons over some of the inputs.
#[derive(Clone, Copy)]
pub(super) struct LayerSums([i32; HIDDEN]);

impl Default for LayerSums {
    fn default() -> LayerSums {
        LayerSums(FIRST_BIAS)
    }
}

impl LayerSums {
    #[inline]
    pub(super) fn of_past(inputs: [i32; PAST_INPUTS]) -> LayerSums {
        let mut sums = LayerSums::default();
        sums.add(inputs, &FIRST[NOW_INPUTS..]);
        sums
    }

    #[inline]
    fn add<const N: usize>(&mut self, inputs: [i32; N], weights: &[[i16; HIDDEN]]) {
        for (input, row) in inputs.into_iter().zip(weights) {
            let input = input.clamp(-INPUT_MAX, INPUT_MAX) as i16;
            for (sum, &weight) in self.0.iter_mut().zip(row) {
                *sum += i32::from(input) * i32::from(weight);
            }
        }
    }
}

/// Logarithm of the wait over the member's mean.
#[inline]
pub(super) fn predict(past: &LayerSums, now: [i32; NOW_INPUTS]) -> i32 {
    let mut sums = *past;
    sums.add(now, &FIRST[..NOW_INPUTS]);
    let neurons = sums.0.iter().map(|sum| (sum >> WEIGHT_BITS).clamp(0, i32::from(i16::MAX)));
    SECOND_BIAS
        + neurons.zip(SECOND).map(|(neuron, weight)| neuron * i32::from(weight)).sum::<i32>()
}

#[cfg(test)]
mod tests {
    use super::super::weights::EXAMPLE;
    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_of_two_and_linear_between() {
        assert_eq!([0, 1, 2, 3, 4, 1 << 40].map(log2), [0, 0, 32, 48, 64, 1280]);
        assert_eq!(log2(u64::MAX), 64 * 32 - 1);
    }

    #[test]
    fn the_prediction_is_that_of_the_training() {
        let (inputs, expected) = EXAMPLE;
        let (now, past) = inputs.split_at(NOW_INPUTS);
        let past = LayerSums::of_past(past.try_into().unwrap());
        assert_eq!(predict(&past, now.try_into().unwrap()), expected);
    }
}
