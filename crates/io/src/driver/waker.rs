//! Waker: makes a driver's wait return, from any thread.
//!
//! A waker is an eventfd with a flag. [`Waker::wake`] writes to the eventfd only if the flag was
//! not set, so many calls before the next wait cost one system call. The driver clears the flag
//! before it reports the wake-up; a queue that is filled before `wake` and emptied after the event
//! therefore loses nothing.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Handle that wakes one driver; clones wake the same driver.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    eventfd: Arc<OwnedFd>,
    is_set: AtomicBool,
}

impl Waker {
    /// A waker that is not set. [`super::Driver::add_waker`] connects it to a driver.
    pub fn new() -> Result<Waker, Errno> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker(Arc::new(Inner { eventfd: Arc::new(eventfd), is_set: AtomicBool::new(false) })))
    }

    /// Makes the driver report an event, now or at its next wait.
    pub fn wake(&self) {
        if !self.0.is_set.swap(true, Ordering::AcqRel) {
            // The counter is 0 or 1, so the write can neither block nor fail.
            let _ = rustix::io::write(&self.0.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// Empties the eventfd, and lets the next [`Waker::wake`] write to it again.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&self.0.eventfd, &mut [0; 8]);
        self.0.is_set.swap(false, Ordering::AcqRel);
    }

    /// True if [`Waker::wake`] was called since the last [`Waker::clear`].
    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// The descriptor that is readable while the waker is set.
    pub(crate) fn eventfd(&self) -> &Arc<OwnedFd> {
        &self.0.eventfd
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{drivers, token};
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn no_item_sent_before_a_wake_is_missed() {
        for mut driver in drivers() {
            let waker = Waker::new().unwrap();
            driver.add_waker(token(7), &waker).unwrap();
            let (sender, receiver) = channel();
            let thread = std::thread::spawn(move || {
                for number in 0..5000 {
                    sender.send(number).unwrap();
                    waker.wake();
                }
            });
            let (mut events, mut received) = (Vec::new(), 0);
            while received < 5000 {
                driver.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
                assert!(!events.is_empty(), "after {received}");
                for event in events.drain(..) {
                    assert_eq!(event.token, token(7));
                    received += receiver.try_iter().count();
                }
            }
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_waker_does_not_outlast_its_driver() {
        for mut driver in drivers() {
            let waker = Waker::new().unwrap();
            driver.add_waker(token(7), &waker).unwrap();
            assert!(driver.end_operations(), "its operation starts again and again");
        }
    }

    #[test]
    fn wakes_before_a_wait_are_one_event_and_none_after_close() {
        for mut driver in drivers() {
            let waker = Waker::new().unwrap();
            waker.wake();
            let handle = driver.add_waker(token(7), &waker).unwrap();
            waker.wake();
            let mut events = Vec::new();
            driver.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
            assert_eq!(events.len(), 1);
            driver.close(handle);
            waker.wake();
            events.clear();
            while driver.in_flight() > 0 {
                driver.wait(Some(Duration::from_secs(10)), &mut events).unwrap();
            }
            assert!(events.is_empty(), "{events:?}");
        }
    }
}
