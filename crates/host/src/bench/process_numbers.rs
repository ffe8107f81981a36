//! Which number the next process gets.
//!
//! Linux gives numbers to processes and threads in ascending order, from one sequence. Between the
//! last number that this program has taken and that of fio's first job are those of fio's own
//! threads and helpers: a distance that is the same from start to start while no other program
//! starts processes. So threads that end at once are started until the number after that distance
//! has the wanted remainder. Whether it came out so is looked at afterwards; nothing relies on it.

use std::cell::Cell;
use std::thread;

/// Threads that are started at most: other programs may take numbers meanwhile.
const THREADS_MAX: u32 = 64;

/// Leads a process that is about to be started to a number with a wanted remainder.
#[derive(Debug)]
pub(super) struct ProcessNumbers {
    /// The number that this program has taken last.
    last: Cell<u32>,
    /// From that number to the one of the process, as it was seen last.
    distance: Cell<u32>,
}

impl ProcessNumbers {
    /// Nothing was seen: the process has the next number.
    pub(super) fn new() -> ProcessNumbers {
        ProcessNumbers { last: Cell::new(0), distance: Cell::new(1) }
    }

    /// Uses up numbers until the process has the remainder `wanted` of `divisor`, if it starts
    /// next.
    pub(super) fn take_until(&self, wanted: u32, divisor: u32) {
        for _ in 0..THREADS_MAX {
            let Some(number) = thread_number() else { return };
            self.last.set(number);
            if number.wrapping_add(self.distance.get()) % divisor == wanted {
                return;
            }
        }
    }

    /// Notes which number the process had.
    pub(super) fn seen(&self, number: u32) {
        // Numbers begin again at the lowest when the highest is taken.
        if let Some(distance) = number.checked_sub(self.last.get()) {
            self.distance.set(distance);
        }
    }
}

/// The number of a thread that ends at once.
fn thread_number() -> Option<u32> {
    let started = thread::Builder::new().spawn(rustix::thread::gettid).ok()?;
    u32::try_from(started.join().ok()?.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Other tests start processes meanwhile, so not every attempt comes out.
    #[test]
    fn a_process_is_led_to_each_remainder() {
        let numbers = ProcessNumbers::new();
        for wanted in [0, 1, 2, 2, 1, 0, 0] {
            let comes_out = |_| {
                numbers.take_until(wanted, 3);
                // Its first child is the one that counts, some numbers later.
                let mut shell = Command::new("sh");
                let printed = shell.args(["-c", "true & true & sh -c 'echo $$'"]).output().unwrap();
                let number = String::from_utf8(printed.stdout).unwrap().trim().parse().unwrap();
                numbers.seen(number);
                number % 3 == wanted
            };
            assert!((0..200).any(comes_out), "remainder {wanted}");
        }
    }

    #[test]
    fn numbers_that_begin_again_leave_the_distance() {
        let numbers = ProcessNumbers::new();
        numbers.last.set(32_000);
        numbers.seen(32_004);
        assert_eq!(numbers.distance.get(), 4);
        numbers.seen(301);
        assert_eq!(numbers.distance.get(), 4);
    }
}
