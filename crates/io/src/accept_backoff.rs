//! When a listener that could let nobody in tries again.
//!
//! Most likely the system was out of descriptors. The end of a connection makes room, but whoever
//! has none open would wait for that for ever.

use std::time::{Duration, Instant};

/// How long a listener waits.
const PAUSE: Duration = Duration::from_millis(100);

/// See the page of this module.
#[derive(Default)]
pub(crate) struct AcceptBackoff(Option<Instant>);

impl AcceptBackoff {
    /// Nobody could be let in just now.
    pub(crate) fn later(&mut self) {
        self.0 = Some(Instant::now() + PAUSE);
    }

    /// Whether it is time to try again; it is so once.
    pub(crate) fn is_due(&mut self) -> bool {
        self.0.take_if(|at| *at <= Instant::now()).is_some()
    }

    /// How long to wait until it is.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}
