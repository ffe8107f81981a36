//! Sitting out after errors: a member that fails is left alone for a while, then tried again.
//!
//! This comes before balancing and apart from it, as the btrfs maintainers ask (David Sterba,
//! linux-btrfs, January 2021 and October 2024): a policy never sees why a member is missing from
//! its choices. The first error costs [`FIRST`]; each further one without a success in between
//! doubles that, up to [`LONGEST`]. A sitting-out member still serves what no other can, and is
//! written as ever. The two figures are ours: short enough that one bad sector hardly moves the
//! balance, long enough that a dying disk is asked about once a minute.

use crate::units::Nanos;

/// How long a member sits out after its first error.
pub(super) const FIRST: Nanos = Nanos::from_millis(100);
/// How long it sits out at most.
pub(super) const LONGEST: Nanos = Nanos::from_secs(60);

/// The back-off of one member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    consecutive_errors: u32,
    until: Option<Nanos>,
}

impl Backoff {
    /// The end of its sitting out, if it sits out.
    pub(super) fn until(&self) -> Option<Nanos> {
        self.until
    }

    pub(super) fn on_error(&mut self, now: Nanos) {
        // What was in flight when the trouble began fails with it, and is no new trouble.
        if self.until.is_some_and(|until| now < until) {
            return;
        }
        let doublings = self.consecutive_errors.min(16);
        let wait = Nanos(FIRST.0 << doublings).min(LONGEST);
        self.consecutive_errors += 1;
        self.until = Some(now + wait);
    }

    #[inline]
    pub(super) fn on_success(&mut self) {
        self.consecutive_errors = 0;
    }

    /// Ends the sitting out if it is over; says whether it did.
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
    fn doubles_to_the_longest_and_starts_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let sat_out = |backoff: &mut Backoff| {
            backoff.on_error(Nanos::ZERO);
            let until = backoff.until().unwrap();
            backoff.on_error(until - Nanos(1));
            assert_eq!(backoff.until(), Some(until), "one step a sitting out");
            backoff.end_if_over(until);
            until
        };
        assert_eq!(sat_out(&mut backoff), FIRST);
        assert_eq!(sat_out(&mut backoff), FIRST * 2);
        for _ in 0..40 {
            sat_out(&mut backoff);
        }
        assert_eq!(sat_out(&mut backoff), LONGEST);
        backoff.on_success();
        backoff.on_error(Nanos::ZERO);
        assert!(!backoff.end_if_over(FIRST - Nanos(1)));
        assert!(backoff.end_if_over(FIRST));
        assert_eq!(backoff.until(), None);
    }
}
