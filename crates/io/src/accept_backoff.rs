//! Accept backoff: retries a failed `accept()` after a delay.
//!
//! `accept()` fails with EMFILE when the process is out of file descriptors. Retrying at once would
//! spin, and waiting until a connection closes could take forever if there is none. So listeners
//! are disarmed for [`DELAY`] and then armed again.

use mirrorball_core::units::Nanos;

/// Delay before the next `accept()`.
pub(crate) const DELAY: Nanos = Nanos::from_millis(100);

/// The time of the next `accept()`, if the last one failed.
#[derive(Default)]
pub(crate) struct AcceptBackoff(Option<Nanos>);

impl AcceptBackoff {
    pub(crate) fn start(&mut self, now: Nanos) {
        self.0 = Some(now + DELAY);
    }

    /// True from [`AcceptBackoff::start`] until the delay was found to be over.
    pub(crate) fn is_running(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true, once, when the delay is over.
    pub(crate) fn take_expired(&mut self, now: Nanos) -> bool {
        self.0.take_if(|at| *at <= now).is_some()
    }

    pub(crate) fn remaining(&self, now: Nanos) -> Option<Nanos> {
        self.0.map(|at| at.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_expires_once() {
        let (mut backoff, start) = (AcceptBackoff::default(), Nanos::from_secs(5));
        assert!(!backoff.take_expired(start) && !backoff.is_running());
        backoff.start(start);
        assert!(!backoff.take_expired(start + DELAY - Nanos(1)));
        assert_eq!(backoff.remaining(start + Nanos(1)), Some(DELAY - Nanos(1)));
        assert!(backoff.take_expired(start + DELAY));
        assert!(!backoff.take_expired(start + DELAY) && !backoff.is_running());
    }
}
