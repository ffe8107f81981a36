//! Faults laid over a disk: slow times, stalls, errors, bad ranges, death and return.
//!
//! [`Faulty`] wraps any model and is a model itself. Slow times and stalls bend the disk's clock
//! (the private module `clock`), so they compose with queueing by themselves. The other faults
//! decide how an I/O ends:
//!
//! - *Errors*: each I/O submitted in the window fails with the given probability, as
//!   [`IoError::Transport`], after the time it would have taken: a bad cable.
//! - *Bad range*: a read that touches it fails with [`IoError::Medium`] after its usual time. Bytes
//!   become good when a write of them completes.
//! - *Death*: what is in flight at the first instant of the window fails with [`IoError::Gone`]
//!   then, and what is submitted in the window fails at once. What the disk had begun it finishes
//!   in silence, so a disk that returns very soon is found busy.
//!
//! Non-goals: the seconds that a real drive spends retrying a bad sector (add a stall),
//! and wrong data, which a model has none of.

mod clock;

use crate::byte_ranges::ByteRanges;
use crate::cache_contents::CacheContents;
pub use crate::fault_kind::{Fault, FaultWindow};
use crate::model::{Completion, DiskIo, Model};
use clock::{ClockRate, DiskClock, SlowPeriod};
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::rng::Rng;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;

#[derive(Clone)]
pub struct Faulty {
    inner: Box<dyn Model>,
    clock: DiskClock,
    periods: Vec<SlowPeriod>,
    errors: Vec<(f64, FaultWindow)>,
    bad_ranges: ByteRanges,
    /// In order of their start; those before index `deaths_struck` have been handled.
    deaths: Vec<FaultWindow>,
    deaths_struck: usize,
    rng: Rng,
    in_flight: Slab<FaultyIoKey, FaultyIo>,
    /// How many of them have not been answered yet.
    unanswered: usize,
    sequence: u64,
    /// The last instant at which something was submitted or happened.
    now: Nanos,
    /// Completions that were not handed out yet.
    ready: VecDeque<Completion>,
    inner_completions: Vec<Completion>,
}

mirrorball_core::slab_key! {
    /// Names an I/O in flight; its slot is the tag that the inner model sees.
    struct FaultyIoKey;
}

#[derive(Clone, Copy)]
struct FaultyIo {
    io: DiskIo,
    sequence: u64,
    result: Result<(), IoError>,
    /// Whether death has answered it already.
    answered: bool,
}

impl Faulty {
    /// `inner` with `faults` over it. Equal seeds give equal errors. Panics if a factor is below 1.
    pub fn new(inner: Box<dyn Model>, faults: &[Fault], seed: u64) -> Faulty {
        let mut faulty = Faulty {
            inner,
            clock: DiskClock::new(&[]),
            periods: Vec::new(),
            errors: Vec::new(),
            bad_ranges: ByteRanges::default(),
            deaths: Vec::new(),
            deaths_struck: 0,
            rng: Rng::stream(seed, "fault"),
            in_flight: Slab::default(),
            unanswered: 0,
            sequence: 0,
            now: Nanos::ZERO,
            ready: VecDeque::new(),
            inner_completions: Vec::new(),
        };
        faults.iter().for_each(|fault| faulty.add(*fault));
        faulty
    }

    fn add(&mut self, fault: Fault) {
        match fault {
            Fault::Slow { factor_milli, during: FaultWindow { from, until } } => {
                assert!(factor_milli >= clock::MILLI, "a slow disk is not faster than itself");
                let rate = ClockRate::Slow { factor_milli };
                self.periods.push(SlowPeriod { from, until, rate });
            }
            Fault::Stall { at, length } => {
                let until = at.saturating_add(length);
                self.periods.push(SlowPeriod { from: at, until, rate: ClockRate::Stalled });
            }
            Fault::Errors { rate, during } => self.errors.push((rate, during)),
            Fault::Bad { offset, length } => {
                self.bad_ranges.insert(offset..offset.saturating_add(length));
            }
            Fault::Dead { during } => self.deaths.push(during),
        }
        self.deaths.sort_by_key(|death| death.from);
        self.clock = DiskClock::new(&self.periods);
    }

    fn is_dead(&self, at: Nanos) -> bool {
        self.deaths.iter().any(|death| death.contains(at))
    }

    /// When the inner model has its next event.
    fn inner_due(&self) -> Option<Nanos> {
        self.inner.next_event().map(|at| self.clock.real_time(at).max(self.now))
    }

    /// When the disk dies with something in flight.
    fn death_due(&self) -> Option<Nanos> {
        match self.unanswered {
            0 => None,
            _ => self.deaths.get(self.deaths_struck).map(|death| death.from.max(self.now)),
        }
    }

    /// Lets everything happen that is due at `now` or before, into `ready`.
    fn run_until(&mut self, now: Nanos) {
        loop {
            let inner_due = self.inner_due().unwrap_or(Nanos::MAX);
            let death_due = self.death_due().unwrap_or(Nanos::MAX);
            let due = inner_due.min(death_due);
            if due > now || due == Nanos::MAX {
                return;
            }
            self.now = due;
            // What completes at the instant of death has just made it.
            match inner_due <= death_due {
                true => self.run_inner(),
                false => self.die(),
            }
        }
    }

    /// Lets the inner model take its next event, which is due at `self.now`.
    fn run_inner(&mut self) {
        let at = self.inner.next_event().expect("the event that is due");
        self.inner.advance(at, &mut self.inner_completions);
        for completion in self.inner_completions.drain(..) {
            let entry = self.in_flight.remove(FaultyIoKey::from_slot(completion.tag as u32));
            let FaultyIo { io, result, answered, .. } = entry.expect("an I/O completes once");
            if answered {
                continue;
            }
            self.unanswered -= 1;
            let result = result.and(completion.result).and_then(|()| match io.op {
                Op::Read if self.bad_ranges.overlaps(io.offset, io.length) => Err(IoError::Medium),
                _ => Ok(()),
            });
            if io.op == Op::Write && result.is_ok() {
                self.bad_ranges.take(io.offset..io.offset.saturating_add(io.length));
            }
            self.ready.push_back(Completion { tag: io.tag, at: self.now, result });
        }
    }

    /// Fails all that is in flight, in order of submission.
    fn die(&mut self) {
        self.deaths_struck += 1;
        self.unanswered = 0;
        let unanswered = self.in_flight.iter().filter(|(_, entry)| !entry.answered);
        let mut victims: Vec<(u64, FaultyIoKey)> =
            unanswered.map(|(key, entry)| (entry.sequence, key)).collect();
        victims.sort_unstable();
        for (_, key) in victims {
            let entry = self.in_flight.get_mut(key);
            entry.answered = true;
            let completion =
                Completion { tag: entry.io.tag, at: self.now, result: Err(IoError::Gone) };
            self.ready.push_back(completion);
        }
    }

    /// Whether chance lets an I/O submitted at `now` succeed.
    fn draw_result(&mut self, now: Nanos) -> Result<(), IoError> {
        let mut result = Ok(());
        for (rate, during) in &self.errors {
            if during.contains(now) && self.rng.unit() < *rate {
                result = Err(IoError::Transport);
            }
        }
        result
    }
}

impl Model for Faulty {
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        self.run_until(now);
        self.now = now;
        // A death with nothing in flight fails no I/O.
        while self.deaths.get(self.deaths_struck).is_some_and(|death| death.from <= now) {
            self.deaths_struck += 1;
        }
        if self.is_dead(now) {
            let result = Err(IoError::Gone);
            self.ready.push_back(Completion { tag: io.tag, at: now, result });
            return;
        }
        let result = self.draw_result(now);
        let entry = FaultyIo { io, sequence: self.sequence, result, answered: false };
        self.sequence += 1;
        self.unanswered += 1;
        let tag = u64::from(self.in_flight.insert(entry).slot());
        self.inner.submit(self.clock.disk_time(now), DiskIo { tag, ..io });
    }

    fn next_event(&self) -> Option<Nanos> {
        if let Some(completion) = self.ready.front() {
            return Some(completion.at);
        }
        let due = [self.inner_due(), self.death_due()].into_iter().flatten().min();
        due.filter(|&at| at < Nanos::MAX)
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.run_until(now);
        completions.extend(self.ready.drain(..));
    }

    /// The disk beneath decides, by its own clock: a stalled or slow one has begun what it had
    /// begun. Nothing waits in the overlay itself. What has failed already is answered.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        self.run_until(now);
        self.now = now;
        // A disk that died may still be at an earlier I/O of the same tag.
        let wanted = |(_, entry): &(FaultyIoKey, &FaultyIo)| entry.io.tag == tag && !entry.answered;
        let Some(key) = self.in_flight.iter().find(wanted).map(|(key, _)| key) else {
            return false;
        };
        if !self.inner.cancel(self.clock.disk_time(now), u64::from(key.slot())) {
            return false;
        }
        self.in_flight.remove(key);
        self.unanswered -= 1;
        true
    }

    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        if self.is_dead(now) {
            return Nanos::MAX;
        }
        let disk_end = self.inner.completion_if_submitted(self.clock.disk_time(now), io);
        let end = self.clock.real_time(disk_end).max(now);
        // What completes at the instant of death has just made it.
        let dies_first = self.deaths.iter().any(|death| now < death.from && death.from < end);
        if dies_first { Nanos::MAX } else { end }
    }

    fn cache_contents(&self) -> Option<CacheContents> {
        self.inner.cache_contents()
    }

    fn set_cache_contents(&mut self, contents: CacheContents) {
        self.inner.set_cache_contents(contents);
    }

    fn add_fault(&mut self, fault: Fault) -> bool {
        self.add(fault);
        true
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
