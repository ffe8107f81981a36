//! A moving mean that forgets: each sample weighs 1/8, and after a second without a sample nothing
//! is known.
//!
//! The balancers that need such a mean hear of their servers from others, or are given fixed
//! weights; a volume learns of a member only by reading from it. What it forgets it measures anew
//! with the next read ([`super::rank`]), at the price of one read a second and member.
//! Weight and span are ours.

use crate::units::Nanos;

/// How long a mean is worth something after its last sample.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(1);

/// The mean of a quantity in whole units; unknown at first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Smoothed {
    mean: u64,
    sampled_at: Option<Nanos>,
}

impl Smoothed {
    /// Takes in a sample. The first, or the first after the mean was forgotten, is the mean.
    #[inline]
    pub(crate) fn add(&mut self, sample: u64, now: Nanos) {
        self.mean = self.get(now).map_or(sample, |mean| (7 * mean + sample) / 8);
        self.sampled_at = Some(now);
    }

    /// The mean, or `None` if it is unknown.
    #[inline]
    pub(crate) fn get(&self, now: Nanos) -> Option<u64> {
        is_remembered(self.sampled_at, now).then_some(self.mean)
    }
}

/// Whether what was last sampled at this time, if ever, is still worth something.
#[inline]
pub(crate) fn is_remembered(sampled_at: Option<Nanos>, now: Nanos) -> bool {
    sampled_at.is_some_and(|at| now.saturating_sub(at) <= FORGOTTEN_AFTER)
}
