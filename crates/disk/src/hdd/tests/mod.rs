//! The hard disk against closed forms, against itself, and against its contract.

mod caches;
mod cancel;
mod contract;
mod mechanics;
mod shingled;
mod writes;

use super::{Hdd, HddParameters};
use crate::model::{Completion, DiskIo, Model};
use mirrorball_core::io::Op;
use mirrorball_core::units::{GIB, KIB, Nanos};

const CAPACITY: u64 = 100 * GIB;
/// Of the plain disk, in nanoseconds.
const REVOLUTION: u64 = 10_000_000;
/// Of the plain disk: 1 MiB per revolution, switches included.
const RATE: u64 = 100_000_000;

/// A disk with round numbers: 6000 rpm, 100 MB/s everywhere, no caches, no overhead.
fn plain() -> HddParameters {
    HddParameters {
        rpm: 6000,
        surfaces: 4,
        zones: 1,
        outer_rate: RATE,
        inner_rate: RATE,
        seek_track: Nanos::from_millis(1),
        seek_average: Some(Nanos::from_millis(9)),
        seek_full: None,
        seek_points: Vec::new(),
        head_switch: Nanos::from_millis(1),
        write_settle: Nanos::ZERO,
        command_overhead: Nanos::ZERO,
        interface_rate: 1_000_000_000,
        queue_depth: 32,
        age_limit: Nanos::from_secs(1000),
        segments: 0,
        segment_size: 1024 * KIB,
        read_ahead: 0,
        write_cache: 0,
        media_cache: 0,
        band: 0,
        media_record: 0,
        clean_idle: Nanos::ZERO,
        write_window: 16,
        idle_delay: Nanos::ZERO,
        flush_overhead: Nanos::ZERO,
        queued_flush: false,
        abort_queued: false,
        recovery_probability: 0.0,
        recovery_min: Nanos::ZERO,
        recovery_max: Nanos::ZERO,
    }
}

/// A disk and the clock that drives it.
struct Bench {
    disk: Hdd,
    now: Nanos,
    tags: u64,
}

impl Bench {
    fn new(parameters: &HddParameters) -> Bench {
        Bench { disk: Hdd::new(parameters, CAPACITY, 1), now: Nanos::ZERO, tags: 0 }
    }

    /// Submits at the present time; returns the tag.
    fn submit(&mut self, op: Op, offset: u64, length: u64) -> u64 {
        self.tags += 1;
        self.disk.submit(self.now, DiskIo { tag: self.tags, op, offset, length });
        self.tags
    }

    fn next(&mut self) -> Completion {
        let mut completions = Vec::new();
        while completions.is_empty() {
            self.now = self.disk.next_event().expect("something is in flight");
            self.disk.advance(self.now, &mut completions);
        }
        assert_eq!(completions.len(), 1, "use `drain` where completions may coincide");
        completions[0]
    }

    /// Runs one I/O alone; returns how long it took.
    fn run(&mut self, op: Op, offset: u64, length: u64) -> Nanos {
        let start = self.now;
        self.submit(op, offset, length);
        self.next().at - start
    }

    fn read(&mut self, offset: u64, length: u64) -> Nanos {
        self.run(Op::Read, offset, length)
    }

    fn write(&mut self, offset: u64, length: u64) -> Nanos {
        self.run(Op::Write, offset, length)
    }

    /// Runs until nothing is in flight; returns the completions.
    fn drain(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        while let Some(at) = self.disk.next_event() {
            self.now = at;
            self.disk.advance(at, &mut completions);
        }
        completions
    }

    /// Lets time pass with nothing in flight.
    fn rest(&mut self, duration: Nanos) {
        assert_eq!(self.disk.next_event(), None);
        self.now += duration;
        self.disk.advance(self.now, &mut Vec::new());
    }

    /// Keeps `depth` I/Os in flight, each drawn from `draw`, until `count` have completed; returns
    /// how many complete per second.
    fn saturate(&mut self, depth: u64, count: u64, mut draw: impl FnMut(u64) -> DiskIo) -> f64 {
        let start = self.now;
        for number in 0..depth {
            self.disk.submit(self.now, draw(number));
        }
        let (mut done, mut completions) = (0, Vec::new());
        let mut number = depth;
        while done < count {
            self.now = self.disk.next_event().expect("I/O is kept in flight");
            self.disk.advance(self.now, &mut completions);
            for _ in completions.drain(..) {
                done += 1;
                self.disk.submit(self.now, draw(number));
                number += 1;
            }
        }
        done as f64 / (self.now - start).as_secs_f64()
    }
}

/// A drawing of scattered reads or writes.
fn scattered(op: Op, seed: u64) -> impl FnMut(u64) -> DiskIo {
    let mut rng = mirrorball_core::rng::Rng::new(seed);
    move |tag| DiskIo { tag, op, offset: rng.below(CAPACITY / 4096) * 4096, length: 4096 }
}

/// Whether two figures agree to a fraction.
fn close(left: f64, right: f64, fraction: f64) -> bool {
    (left / right - 1.0).abs() <= fraction
}
