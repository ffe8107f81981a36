//! Being awake when something is due.
//!
//! A thread that sleeps until a moment wakes up after it: by some microseconds where the timer
//! interrupts the CPU that runs it, by a hundred where a virtual machine's CPU was given away
//! meanwhile. To an emulated SSD that is as much as its own read takes. So whoever waits for a
//! model sleeps until a little before, and looks at the clock without pause for the rest.
//!
//! How much before is learned from how late the sleeps ended: ninety-nine of a hundred end in
//! time, for it is the p99 of lateness that decides whether figures are believed. So long is looked
//! at the clock for each end on an emulated disk: little beside a hard disk, and always beside a
//! busy SSD.

use super::Executor;
use crate::driver::Event;
use mirrorball_core::units::Nanos;
use mirrorball_disk::model_array::ModelArray;
use std::io;
use std::time::Duration;

/// Sleeps that end later than this are not waited for: the host was busy, and will not be for long.
const EARLY_MAX: Nanos = Nanos::from_millis(1);
/// What a sleep that ended in time takes off, and one that did not puts on: in balance if that is
/// one of a hundred.
const DOWN: Nanos = Nanos::from_micros(1);
const UP: Nanos = Nanos::from_micros(99);

/// See the page of this module.
#[derive(Debug)]
pub(super) struct PreciseSleep {
    early: Nanos,
}

impl Default for PreciseSleep {
    fn default() -> PreciseSleep {
        PreciseSleep { early: Nanos::from_micros(100) }
    }
}

impl PreciseSleep {
    /// How long to sleep if something is due in so long; `None` if there is no time for sleep.
    #[inline]
    pub(super) fn sleep(&self, left: Nanos) -> Option<Nanos> {
        (left > self.early).then(|| left - self.early)
    }

    /// A sleep that nothing disturbed was to end at `end` and ended now.
    pub(super) fn on_wake(&mut self, end: Nanos, now: Nanos) {
        let was_late = now.saturating_sub(end) > self.early;
        self.early = match was_late {
            true => (self.early + UP).min(EARLY_MAX),
            false => self.early.saturating_sub(DOWN),
        };
    }
}

impl Executor {
    /// Waits for what is not due to a model, but is awake in time for what is.
    pub(super) fn wait_beside_models(
        &mut self,
        patience: Option<Duration>,
        done: &mut Vec<Event>,
    ) -> io::Result<()> {
        let Some(due) = self.model_array.as_ref().and_then(ModelArray::next_event) else {
            return self.driver.wait(patience, done);
        };
        let left = self.real_until(due);
        if patience.is_some_and(|patience| patience < Duration::from_nanos(left.0)) {
            return self.driver.wait(patience, done);
        }
        if let Some(sleep) = self.precise_sleep.sleep(left) {
            let end = self.driver.now() + sleep;
            self.driver.wait(Some(Duration::from_nanos(sleep.0)), done)?;
            let now = self.driver.now();
            if now < end {
                return Ok(());
            }
            self.precise_sleep.on_wake(end, now);
        }
        while done.is_empty() && self.time() < due {
            self.driver.wait(Some(Duration::ZERO), done)?;
            std::hint::spin_loop();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After many sleeps whose lateness goes through these in turn.
    fn settled(late_us: &[u64]) -> u64 {
        let (mut precise_sleep, end) = (PreciseSleep::default(), Nanos::from_secs(1));
        for late in late_us.iter().cycle().take(10_000) {
            precise_sleep.on_wake(end, end + Nanos::from_micros(*late));
        }
        precise_sleep.early.0 / 1000
    }

    #[test]
    fn it_is_as_early_as_sleeps_are_late() {
        assert!((3..=105).contains(&settled(&[3])), "{}", settled(&[3]));
        assert!((115..=220).contains(&settled(&[110, 115, 120])));
    }

    #[test]
    fn one_late_sleep_in_five_hundred_does_not_count_and_one_in_fifty_does() {
        let mut late = [5; 500];
        late[7] = 600;
        assert!(settled(&late) < 110, "{}", settled(&late));
        for chunk in late.chunks_mut(50) {
            chunk[0] = 600;
        }
        assert!(settled(&late) > 500, "{}", settled(&late));
    }

    #[test]
    fn a_host_that_is_always_late_is_not_waited_for_longer_and_longer() {
        assert_eq!(Nanos::from_micros(settled(&[9000])), EARLY_MAX);
        let precise_sleep = PreciseSleep { early: EARLY_MAX };
        assert_eq!(precise_sleep.sleep(EARLY_MAX), None);
        assert_eq!(precise_sleep.sleep(EARLY_MAX + DOWN), Some(DOWN));
    }
}
