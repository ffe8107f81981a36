//! Precise sleep: wakes up in time for the completions of emulated disks.
//!
//! A sleeping thread wakes up late: by a few microseconds on an idle host, by a hundred if a
//! virtual machine lost its CPU meanwhile. An SSD completes a read in that time. So the executor
//! sleeps until shortly before the completion is due and polls the clock for the rest.
//!
//! How long before is learned from how late sleeps ended, such that 99 of 100 end in time: the p99
//! of lateness decides whether figures are accepted. The CPU time of polling is small compared with
//! the latency of a hard disk; with a busy SSD the executor polls all the time.

use super::Executor;
use crate::driver::Event;
use mirrorball_core::units::Nanos;
use std::io;
use std::time::Duration;

/// Longest time to poll. A sleep that ends later than this is an exception of a busy host.
const POLL_TIME_MAX: Nanos = Nanos::from_millis(1);
/// Change of the poll time after a sleep that ended in time, and after a late one. They balance if
/// one sleep of a hundred is late.
const SHORTER: Nanos = Nanos::from_micros(1);
const LONGER: Nanos = Nanos::from_micros(99);

/// How long before a due time to wake up.
#[derive(Debug)]
pub(super) struct PreciseSleep {
    poll_time: Nanos,
}

impl Default for PreciseSleep {
    fn default() -> PreciseSleep {
        PreciseSleep { poll_time: Nanos::from_micros(100) }
    }
}

impl PreciseSleep {
    /// How long to sleep if a completion is due in `left`; `None` if there is no time to sleep.
    #[inline]
    pub(super) fn sleep(&self, left: Nanos) -> Option<Nanos> {
        (left > self.poll_time).then(|| left - self.poll_time)
    }

    /// Learns from a sleep that was to end at `end`, was not interrupted, and ended at `now`.
    pub(super) fn on_wake(&mut self, end: Nanos, now: Nanos) {
        let was_late = now.saturating_sub(end) > self.poll_time;
        self.poll_time = match was_late {
            true => (self.poll_time + LONGER).min(POLL_TIME_MAX),
            false => self.poll_time.saturating_sub(SHORTER),
        };
    }
}

impl Executor {
    /// Waits for events of the driver, but no longer than until a model's next completion,
    /// which is `due`.
    pub(super) fn wait_for_driver_or_model(
        &mut self,
        patience: Option<Duration>,
        due: Nanos,
        done: &mut Vec<Event>,
    ) -> io::Result<()> {
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

    /// Poll time in microseconds after many sleeps with these latenesses, repeated.
    fn settled(late_us: &[u64]) -> u64 {
        let (mut precise_sleep, end) = (PreciseSleep::default(), Nanos::from_secs(1));
        for late in late_us.iter().cycle().take(10_000) {
            precise_sleep.on_wake(end, end + Nanos::from_micros(*late));
        }
        precise_sleep.poll_time.0 / 1000
    }

    #[test]
    fn poll_time_is_as_long_as_sleeps_are_late() {
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
    fn poll_time_is_bounded_on_a_host_that_is_always_late() {
        assert_eq!(Nanos::from_micros(settled(&[9000])), POLL_TIME_MAX);
        let precise_sleep = PreciseSleep { poll_time: POLL_TIME_MAX };
        assert_eq!(precise_sleep.sleep(POLL_TIME_MAX), None);
        assert_eq!(precise_sleep.sleep(POLL_TIME_MAX + SHORTER), Some(SHORTER));
    }
}
