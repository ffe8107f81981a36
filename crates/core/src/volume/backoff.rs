//! Back-off after errors: a member whose I/O failed is not read for a while.
//!
//! This comes before balancing and apart from it, as the btrfs maintainers ask (David Sterba,
//! linux-btrfs, January 2021 and October 2024): a policy never sees why a member is missing from
//! its choices. The first error costs [`FIRST`]; each further one without a success in between
//! doubles that, up to [`LONGEST`]. During its back-off a member still serves reads that no other
//! member can serve, and takes writes. The two figures are ours: short enough that one bad sector
//! hardly moves the balance, long enough that a dying disk is tried about once a minute.
//!
//! Errors of reads are counted, too, by the rule of md: a member with more than
//! [`READ_ERRORS_MAX`] of them is failing, and the count is halved each hour.

use crate::units::Nanos;

/// Back-off after the first error.
pub(super) const FIRST: Nanos = Nanos::from_millis(100);
/// The longest back-off.
pub(super) const LONGEST: Nanos = Nanos::from_secs(60);

/// Read errors that a member may have: `max_read_errors` of md.
const READ_ERRORS_MAX: u32 = 20;
/// After so long the count of read errors is halved.
const HALVED_AFTER: Nanos = Nanos::from_secs(3600);

/// The back-off of one member, and its read errors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    consecutive_errors: u32,
    until: Option<Nanos>,
    read_errors: u32,
    last_read_error: Nanos,
}

impl Backoff {
    /// End of the back-off, or `None` if the member is in none.
    pub(super) fn until(&self) -> Option<Nanos> {
        self.until
    }

    /// Counts an error, of a read that can be repaired if `is_counted`.
    pub(super) fn on_error(&mut self, is_counted: bool, now: Nanos) {
        // I/O that was in flight at the first error fails with it: it counts as the same error.
        if self.until.is_some_and(|until| now < until) {
            return;
        }
        if is_counted {
            self.read_errors = self.read_errors_at(now).saturating_add(1);
            self.last_read_error = now;
        }
        let doublings = self.consecutive_errors.min(16);
        let wait = Nanos(FIRST.0 << doublings).min(LONGEST);
        assert!((FIRST..=LONGEST).contains(&wait), "a back-off of {wait}");
        self.consecutive_errors = self.consecutive_errors.saturating_add(1);
        self.until = Some(now + wait);
    }

    fn read_errors_at(&self, now: Nanos) -> u32 {
        let halvings = now.saturating_sub(self.last_read_error).0 / HALVED_AFTER.0;
        self.read_errors >> halvings.min(31)
    }

    /// Returns true if reads failed so often that the member should not be used.
    pub(super) fn is_failing(&self, now: Nanos) -> bool {
        self.read_errors_at(now) > READ_ERRORS_MAX
    }

    #[inline]
    pub(super) fn on_success(&mut self) {
        self.consecutive_errors = 0;
    }

    /// Ends the back-off if it is over, and returns true if it was.
    pub(super) fn end_if_over(&mut self, now: Nanos) -> bool {
        let over = self.until.is_some_and(|until| until <= now);
        if over {
            self.until = None;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_is_reset_by_a_success() {
        let mut backoff = Backoff::default();
        let next = |backoff: &mut Backoff| {
            backoff.on_error(false, Nanos::ZERO);
            let until = backoff.until().unwrap();
            backoff.on_error(false, until - Nanos(1));
            assert_eq!(backoff.until(), Some(until), "errors during a back-off do not extend it");
            backoff.end_if_over(until);
            until
        };
        assert_eq!(next(&mut backoff), FIRST);
        assert_eq!(next(&mut backoff), FIRST * 2);
        for _ in 0..40 {
            next(&mut backoff);
        }
        assert_eq!(next(&mut backoff), LONGEST);
        backoff.on_success();
        backoff.on_error(false, Nanos::ZERO);
        assert!(!backoff.end_if_over(FIRST - Nanos(1)));
        assert!(backoff.end_if_over(FIRST));
        assert_eq!(backoff.until(), None);
    }

    #[test]
    fn more_than_twenty_read_errors_are_too_many_and_half_are_forgotten_each_hour() {
        let mut backoff = Backoff::default();
        let mut now = Nanos::ZERO;
        for error in 1..=41 {
            backoff.on_error(true, now);
            backoff.on_error(true, now);
            backoff.on_success();
            assert_eq!(backoff.is_failing(now), error > 20, "{error}");
            now = backoff.until().unwrap();
        }
        let last = now - FIRST;
        assert!(backoff.is_failing(last + HALVED_AFTER - Nanos(1)));
        assert!(!backoff.is_failing(last + HALVED_AFTER), "20 are left");
        backoff.on_error(false, now);
        assert!(!backoff.is_failing(last + HALVED_AFTER), "other errors are not counted");
    }
}
