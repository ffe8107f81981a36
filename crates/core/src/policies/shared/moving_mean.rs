//! Moving mean that expires: each sample weighs 1/8, and the mean expires after a second without a
//! sample.
//!
//! The load balancers that use such a mean get reports from their servers, or have fixed weights. A
//! volume measures a member only by reading from it. After the mean has expired, the next read
//! replaces it ([`super::rank`]), which costs one read per second and member. Weight and time are
//! ours.

use crate::units::Nanos;

/// Time after the last sample at which a mean expires.
const EXPIRES_AFTER: Nanos = Nanos::from_secs(1);

/// Mean of a quantity in whole units; initially unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MovingMean {
    mean: u64,
    sampled_at: Option<Nanos>,
}

impl MovingMean {
    /// Adds a sample. The first one, and the first after the mean expired, replaces the mean.
    #[inline]
    pub(crate) fn add(&mut self, sample: u64, now: Nanos) {
        self.mean = self.get(now).map_or(sample, |mean| (7 * mean + sample) / 8);
        self.sampled_at = Some(now);
    }

    /// The mean, or `None` if there is none or it has expired.
    #[inline]
    pub(crate) fn get(&self, now: Nanos) -> Option<u64> {
        is_fresh(self.sampled_at, now).then_some(self.mean)
    }
}

/// True if something sampled at this time has not expired.
#[inline]
pub(crate) fn is_fresh(sampled_at: Option<Nanos>, now: Nanos) -> bool {
    sampled_at.is_some_and(|at| now.saturating_sub(at) <= EXPIRES_AFTER)
}
