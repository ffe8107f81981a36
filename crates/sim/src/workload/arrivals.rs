//! When requests may start, for jobs with a rate: one schedule for each direction.
//!
//! Like fio's, a schedule is absolute: what was late is caught up. Linear arrivals follow what was
//! issued, by a number of bytes or requests a second. Poisson arrivals are an open loop: their
//! times do not depend on completions, and a request that had to wait for a free place keeps the
//! time at which it was meant to start. (fio 3.33 also drains the queue whenever it is ahead of its
//! rate; an open loop must not, and ours does not.)

use crate::job::{Arrivals, Direction, Section};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;

#[derive(Clone, Debug)]
pub(super) struct ArrivalSchedule {
    rule: ArrivalRule,
    /// Time of the smallest request at a linear rate.
    operation: Option<Nanos>,
    start: Nanos,
    due: Nanos,
}

#[derive(Clone, Debug)]
enum ArrivalRule {
    Free,
    Bytes { per_s: u64, issued: u64 },
    Ios { per_s: u64, issued: u64 },
    Poisson { mean_ns: f64 },
}

impl ArrivalSchedule {
    pub(super) fn new(job: &Section, direction: Direction, start: Nanos) -> ArrivalSchedule {
        let (bytes, ios) = (job.rate_bytes_per_s[direction], job.rate_ios_per_s[direction]);
        let block_bytes = job.block_bytes(direction) as f64;
        let rule = match (bytes, ios, job.arrivals) {
            (None, None, _) => ArrivalRule::Free,
            (Some(per_s), _, Arrivals::Linear) => ArrivalRule::Bytes { per_s, issued: 0 },
            // fio turns a rate in requests into one in bytes of the smallest size.
            (None, Some(per_s), Arrivals::Linear) if job.sizes[direction].len() > 1 => {
                let per_s = per_s.saturating_mul(job.block_bytes(direction));
                ArrivalRule::Bytes { per_s, issued: 0 }
            }
            (None, Some(per_s), Arrivals::Linear) => ArrivalRule::Ios { per_s, issued: 0 },
            // fio turns a rate in bytes into one in requests of the smallest size.
            (Some(per_s), _, Arrivals::Poisson) => {
                ArrivalRule::Poisson { mean_ns: 1e9 * block_bytes / per_s as f64 }
            }
            (None, Some(per_s), Arrivals::Poisson) => {
                ArrivalRule::Poisson { mean_ns: 1e9 / per_s as f64 }
            }
        };
        let operation = match rule {
            ArrivalRule::Bytes { per_s, .. } => {
                Some(Nanos::transfer(job.block_bytes(direction), per_s))
            }
            ArrivalRule::Ios { per_s, .. } => Some(Nanos::transfer(1, per_s)),
            _ => None,
        };
        ArrivalSchedule { rule, operation, start, due: start }
    }

    /// Whether there is a rate to keep.
    pub(super) fn is_rated(&self) -> bool {
        !matches!(self.rule, ArrivalRule::Free)
    }

    /// Moves what is due later by a pause. As in fio, a request is due at its end.
    pub(super) fn skip(&mut self, pause: Nanos) {
        let early = self.operation.filter(|&operation| operation <= pause);
        let time = pause.saturating_sub(early.unwrap_or_default());
        self.start = self.start.saturating_add(time);
        self.due = self.due.saturating_add(time);
    }

    /// When the next request may start.
    pub(super) fn due(&self) -> Nanos {
        self.due
    }

    /// Counts a request of `bytes` that starts at `now`, and tells when it was meant to start:
    /// for an open loop when it was due, else now.
    pub(super) fn take(&mut self, now: Nanos, bytes: u64, rng: &mut Rng) -> Nanos {
        let due = self.due;
        match &mut self.rule {
            ArrivalRule::Free => {}
            ArrivalRule::Bytes { per_s, issued } => {
                *issued += bytes;
                self.due = self.start.saturating_add(Nanos::transfer(*issued, *per_s));
            }
            ArrivalRule::Ios { per_s, issued } => {
                *issued += 1;
                self.due = self.start.saturating_add(Nanos::transfer(*issued, *per_s));
            }
            ArrivalRule::Poisson { mean_ns } => {
                let gap = Nanos((*mean_ns * rng.exponential()).round() as u64);
                self.due = due.saturating_add(gap);
                return due;
            }
        }
        now
    }
}
