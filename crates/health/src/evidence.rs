//! The sequential test: one-sided CUSUM (Page, 1954) of the logarithm of a ratio.
//!
//! A disk that is as fast as expected has ratios around 1, and the sum falls to 0 again and again.
//! A slow one drives it up by each evaluation. A fixed level decides, so the mean time between
//! false alarms follows from the level alone, at whatever moment one looks. It was preferred to an
//! e-process: that is valid for any stopping rule, but slower to find a change that comes late in a
//! long healthy history.

/// Ratios up to this count as healthy: the drift of the sum.
pub const RATIO_TOLERATED: f64 = 1.25;
/// Least ratio that is reported.
pub const RATIO_MIN: f64 = 1.6;
/// Ratio of about a minute below which a disk that was slow has recovered, and the weight of an
/// evaluation in it: one that stays a little slower than others is not called slow for ever.
const RATIO_RECOVERED: f64 = 1.4;
const RECENT: f64 = 1.0 / 12.0;
/// Sum at which a disk is called slow. With deviations that are normal and independent, a healthy
/// disk at a ratio of 1 (1.5 standard deviations below the drift) reaches it by chance once in
/// exp(2 * 1.5 * 6), or 6e7, evaluations; the deviations of real disks are neither, so the level
/// is confirmed by simulated histories.
const LEVEL: f64 = 6.0;
/// Most standard deviations that one evaluation counts for: a single one never decides.
const STEP_MAX: f64 = 3.0;
/// Sum to which it falls at most, so that a disk that was slow for long is soon called healthy.
const SUM_MAX: f64 = 2.0 * LEVEL;

/// The evidence that a disk is slower than expected.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    sum: f64,
    /// Sum of the estimated logarithms since the sum was last 0, and their number.
    log_ratios: f64,
    evaluations: u32,
    /// Mean of the estimates of about the last minute.
    recent: f64,
    is_slow: bool,
}

impl Evidence {
    /// Counts one evaluation: the logarithm of observed over the most that is expected, its
    /// standard deviation, and the best estimate of the logarithm.
    pub fn add(&mut self, log_ratio: f64, deviation: f64, estimate: f64) {
        assert!(deviation > 0.0 && log_ratio.is_finite(), "{log_ratio} with {deviation}");
        let step = (log_ratio - RATIO_TOLERATED.ln()) / deviation;
        self.sum = (self.sum + step.clamp(-STEP_MAX, STEP_MAX)).clamp(0.0, SUM_MAX);
        if self.sum == 0.0 {
            *self = Evidence::default();
            return;
        }
        self.log_ratios += estimate;
        self.evaluations += 1;
        self.recent += (estimate - self.recent) * (1.0 / f64::from(self.evaluations)).max(RECENT);
        if self.is_slow && self.recent < RATIO_RECOVERED.ln() {
            *self = Evidence::default();
            return;
        }
        if self.sum >= LEVEL && self.ratio() >= RATIO_MIN {
            self.is_slow = true;
        }
    }

    /// Returns true from the evaluation at which the level is reached to the one at which the sum
    /// is 0 again, or the last minute was well below what is reported.
    pub fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Returns true if what was observed lately is not to be learnt as normal.
    pub fn is_doubtful(&self) -> bool {
        self.sum >= LEVEL / 3.0
    }

    /// How many times slower than expected, by the mean since the change began; 1 without one.
    pub fn ratio(&self) -> f64 {
        match self.evaluations {
            0 => 1.0,
            count => (self.log_ratios / f64::from(count)).exp(),
        }
    }

    /// Number of evaluations since the change began; 0 without one.
    pub fn evaluations(&self) -> u32 {
        self.evaluations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_core::rng::Rng;

    fn add(evidence: &mut Evidence, log_ratio: f64) {
        evidence.add(log_ratio, 0.15, log_ratio);
    }

    #[test]
    fn twice_as_slow_takes_two_evaluations() {
        let mut evidence = Evidence::default();
        let mut found = None;
        for evaluation in 1..=10 {
            add(&mut evidence, 2.0_f64.ln());
            if evidence.is_slow() && found.is_none() {
                found = Some(evaluation);
            }
        }
        assert_eq!(found, Some(2), "two steps of three deviations");
        assert!((evidence.ratio() - 2.0).abs() < 1e-9);
        for _ in 0..13 {
            add(&mut evidence, 0.0);
        }
        assert!(!evidence.is_slow(), "a minute of evaluations later it is healthy again");
    }

    #[test]
    fn a_disk_that_recovers_in_part_is_slow_no_more() {
        let mut evidence = Evidence::default();
        (0..60).for_each(|_| add(&mut evidence, 4.0_f64.ln()));
        assert!(evidence.is_slow());
        (0..40).for_each(|_| add(&mut evidence, 1.3_f64.ln()));
        assert!(!evidence.is_slow());
    }

    #[test]
    fn a_small_change_is_never_reported_however_long_it_lasts() {
        let mut evidence = Evidence::default();
        for _ in 0..100_000 {
            add(&mut evidence, 1.4_f64.ln());
        }
        assert!(!evidence.is_slow(), "1.4 is less than what is reported");
    }

    #[test]
    fn noise_of_a_million_evaluations_is_no_slow_disk() {
        let mut rng = Rng::new(1);
        let mut evidence = Evidence::default();
        for _ in 0..1_000_000 {
            // The sum of twelve uniform values, less six: nearly normal.
            let normal: f64 = (0..12).map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20)).sum();
            add(&mut evidence, (normal - 6.0) * 0.15);
            assert!(!evidence.is_slow());
        }
    }
}
