//! The judgement: the disks of an array, against their own past and against each other.
//!
//! 1. An evaluation is of five seconds, or of as many as give three blocks of waits. It counts what
//!    I/O took in the median block, without the queue: a few long I/Os make no disk slow.
//! 2. While the load is *steady* (module `steady`), it is compared with what it took a moment ago.
//! 3. When the load has changed, counters do not say whether a large read belongs to a stream. So
//!    flash is compared with its history by small I/O, or where it takes longer than random I/O of
//!    a stream's size can; a hard disk only beyond what random I/O of the size can take. What that
//!    is, small reads of the disk, or of one of its model, show for larger ones.
//! 4. Peers of the same model that were sent as much, or small I/O in equal closed loops, are
//!    compared directly, so that a disk is found that was slow from the beginning: by parts of one
//!    flow, or on hard disks by random I/O. What other disks are slower by at the same time is
//!    taken off: then the load has changed.
//! 5. Writes of a hard disk end in its cache, until it is full, so they count only beyond what
//!    random I/O can take.
//! 6. Disks that were written much when it began, or shingled ones at all, may be tidying up
//!    ([`Cause::AfterWrites`]): no alarm, unless it lasts. Two things refute it: flash whose cached
//!    writes are slower, too, and a peer of its model that was written as much, all in all, and is
//!    as fast as before a minute later.
//! 7. Errors again and again say that the disk retries: then long I/Os count.
//!
//! What is not comparable is no evidence, neither for a disk nor against it.

mod comparison;
mod gathered_windows;
mod history;
mod judged_disk;
mod steady;

pub use history::DiskHistory;

use crate::counters::DiskCounters;
use crate::service::{DiskKind, DiskService, IoDirection, utilisation};
use comparison::{DiskComparison, Slowness};
use gathered_windows::GatheredWindows;
use history::LoadKind;
use judged_disk::JudgedDisk;
use mirrorball_core::units::Nanos;
use std::collections::BTreeMap;
use steady::Traffic;

/// Time between evaluations.
pub const EVALUATION: Nanos = Nanos::from_secs(5);
/// Least I/Os of a direction in an evaluation, and a second.
const COUNT_MIN: u64 = 10;
const RATE_MIN: f64 = 1.0;
/// Least sum of waits in a block: the kernel counts whole milliseconds.
const WAITS_MIN_MS: f64 = 3.0;
/// Least sum of waits in what peers are compared with.
const PEER_WAITS_MIN_MS: f64 = 1.0;
/// How many waits an evaluation has to be long.
const WAITS_IN_WINDOW: f64 = 4.0;
/// Share of the other direction from which a direction of a hard disk is not judged.
const OTHERS_MAX: f64 = 0.75;
/// Bytes of an I/O from which it may be of a stream: Linux reads files ahead in pieces of 128 KiB.
const STREAM_BYTES: f64 = 32_768.0;
/// Time between the first and the last disk behind a link of which it is the cause that they are
/// slow.
const LINK_APART_MAX: Nanos = Nanos::from_secs(60);
/// Least standard deviation of the logarithm of a service.
const DEVIATION_MIN: f64 = 0.12;
/// How long a window may be, in multiples of what was asked for, before it is left out: the machine
/// was suspended, or its clock was set.
const STRETCH_MAX: u64 = 4;

/// A disk of an array, as it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    pub name: String,
    pub class: DiskKind,
    /// Model name; disks of one model are compared directly.
    pub model: Option<String>,
    /// Name of a link that it shares with other disks.
    pub link: Option<String>,
    /// True for a disk whose tracks overlap, which it manages itself: it tidies up what it wrote.
    pub is_shingled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskWindow {
    pub time: Nanos,
    pub counters: DiskCounters,
    /// Errors that the system of the array, or the disk's driver, counted in it.
    pub errors: u64,
}

/// The cause of slowness, as far as counters show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The disk itself needs longer.
    Service,
    /// Errors were counted again and again at the same time: it retries.
    Errors,
    /// Every disk behind its link became slow with it.
    Link,
    /// The disk is or was written: garbage collection, or a shingled disk's tidying up.
    AfterWrites,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskState {
    /// Too little I/O to say anything.
    CannotTell,
    /// There is no history yet, and no peer of its model.
    Learning,
    Fine,
    /// Waits are longer than they used to be, and the load explains it.
    Busy {
        /// How many times longer.
        ratio: f64,
    },
    /// Slower than expected.
    Slow {
        /// How many times slower.
        ratio: f64,
        cause: Cause,
        /// When it began, on the clock of the windows.
        since: Nanos,
        direction: IoDirection,
    },
}

/// The judge of one array, or of one disk that belongs to none.
#[derive(Clone, Debug)]
pub struct Judge {
    disks: Vec<JudgedDisk>,
    next: Option<Nanos>,
}

/// The figures of the last evaluation, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskFigures {
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub read_wait_ms: f64,
    pub write_wait_ms: f64,
    /// Mean number in flight while any was.
    pub depth: f64,
    /// Share of the time with I/O in flight, from 0 to 1.
    pub utilisation: f64,
    /// How many times slower than expected reads were; none if there were too few, or nothing to
    /// compare them with.
    pub read_ratio: Option<f64>,
}

/// Logarithm of how many times slower than expected, and its standard deviation.
type Change = (f64, f64);

/// One evaluation of one direction of one disk.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    /// False if it is too little to judge the disk by, and enough to judge peers by.
    is_judged: bool,
    service: DiskService,
    load: LoadKind,
    traffic: Traffic,
    /// The service over what this load took a moment ago, and over the history of such loads.
    by_steady: Option<Change>,
    by_history: Option<Change>,
    /// Logarithm of the wait over its history.
    wait: Option<f64>,
}

impl DiskState {
    /// Returns true for a disk that a person should look at: slow, and not for tidying up.
    pub fn is_alarm(self) -> bool {
        matches!(self, DiskState::Slow { cause, .. } if cause != Cause::AfterWrites)
    }
}

impl Judge {
    /// A judge of disks that hold copies of the same data, or of one disk.
    pub fn new(disks: impl IntoIterator<Item = (DiskFacts, DiskHistory)>) -> Judge {
        let disks = disks.into_iter().map(|(facts, history)| JudgedDisk::new(facts, history));
        Judge { disks: disks.collect(), next: None }
    }

    /// Each disk with its state, the figures of its last evaluation and its history.
    pub fn disks(
        &self,
    ) -> impl Iterator<Item = (&DiskFacts, DiskState, Option<DiskFigures>, &DiskHistory)> {
        self.disks.iter().map(|disk| (&disk.facts, disk.state, disk.last, &disk.history))
    }

    /// Adds a window of each disk, asked for after `every`; `None` for a disk that was not there or
    /// whose counters were reset. Returns true if it led to an evaluation.
    pub fn observe(&mut self, now: Nanos, every: Nanos, windows: &[Option<DiskWindow>]) -> bool {
        assert_eq!(windows.len(), self.disks.len(), "a window for each disk");
        for (disk, window) in self.disks.iter_mut().zip(windows) {
            match window {
                Some(window) if window.time.0 <= every.0.saturating_mul(STRETCH_MAX) => {
                    disk.gathered.add(window);
                }
                _ => disk.gathered = GatheredWindows::default(),
            }
        }
        let due = *self.next.get_or_insert(now.saturating_add(EVALUATION - every.min(EVALUATION)));
        if now < due {
            return false;
        }
        self.next = Some(now.saturating_add(EVALUATION));
        self.evaluate(now);
        true
    }

    fn evaluate(&mut self, now: Nanos) {
        let directions = [IoDirection::Read, IoDirection::Write];
        let evaluated: Vec<[Option<Evaluated>; 2]> =
            (0..self.disks.len()).map(|it| directions.map(|way| self.evaluated(it, way))).collect();
        for direction in [0, 1] {
            for place in 0..self.disks.len() {
                if let Some(own) = evaluated[place][direction].as_ref().filter(|it| it.is_judged) {
                    let slowness =
                        DiskComparison::new(&self.disks, place, own, &evaluated).slowness();
                    self.disks[place].conclude(now, direction, own, slowness);
                }
            }
        }
        self.refute_tidying(now);
        for (disk, evaluated) in self.disks.iter_mut().zip(&evaluated) {
            disk.end_evaluation(now, evaluated);
        }
        self.name_links();
    }

    fn evaluated(&self, place: usize, direction: IoDirection) -> Option<Evaluated> {
        let disk = &self.disks[place];
        let (class, time) = (disk.facts.class, disk.gathered.time);
        let mut service = DiskService::of(&disk.gathered.counters, direction, class)?;
        let is_few = service.count < COUNT_MIN
            || (service.count as f64) < RATE_MIN * time.as_secs_f64()
            || service.waits_ms() < PEER_WAITS_MIN_MS;
        // The waits of what ended are those of the I/O in flight only if most of it came and went.
        let is_short = service.wait_ns * WAITS_IN_WINDOW > time.0 as f64;
        // A disk that serves one I/O after the other makes the rare ones of a direction wait for
        // the others, longer than the depth says.
        let is_rare = class == DiskKind::Hdd && service.other_share > OTHERS_MAX;
        if is_few || is_short || is_rare {
            return None;
        }
        let typical_ns = disk.gathered.typical_service_ns(direction, class);
        let has_errors = disk.has_errors();
        if !has_errors && let Some(typical_ns) = typical_ns {
            service.service_ns = typical_ns.min(service.service_ns);
        }
        let is_judged = service.waits_ms() >= WAITS_MIN_MS
            && disk.gathered.has_blocks()
            && (has_errors || typical_ns.is_some());
        let load = LoadKind::of(direction, &service, class, time);
        let traffic = Traffic::of(&service, time, utilisation(&disk.gathered.counters, time));
        let deviation = |variance: f64| {
            (variance.max(DEVIATION_MIN * DEVIATION_MIN) + service.variance()).sqrt()
        };
        let steady = disk.steady[direction as usize].as_ref();
        let steady = steady.filter(|it| it.continues(&traffic, service.count, class));
        let by_steady = steady.and_then(|it| it.change(&service));
        let known = disk.history.of(load);
        Some(Evaluated {
            is_judged,
            service,
            load,
            traffic,
            by_steady: by_steady.map(|(change, variance)| (change, deviation(variance))),
            by_history: known
                .map(|it| (service.service_ns.ln() - it.log_service, deviation(it.variance))),
            wait: known.map(|it| service.wait_ns.ln() - it.log_wait),
        })
    }

    /// Blames a disk itself where its writes, or peers, show that it is not tidying up.
    fn refute_tidying(&mut self, now: Nanos) {
        for place in 0..self.disks.len() {
            for way in [0, 1] {
                let disk = &self.disks[place];
                let refutes = |it: &JudgedDisk| it.refutes_tidying(now, disk, way);
                if disk.is_said_to_tidy(way)
                    && (disk.writes_refute_tidying(now) || self.disks.iter().any(refutes))
                {
                    self.disks[place].refute_tidying(way);
                }
            }
        }
    }

    /// Blames the link where every disk behind it is slow, and there are several.
    fn name_links(&mut self) {
        let mut links: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, disk) in self.disks.iter().enumerate() {
            if let Some(link) = &disk.facts.link {
                links.entry(link.clone()).or_default().push(place);
            }
        }
        for behind in links.values().filter(|behind| behind.len() > 1) {
            let slow = behind.iter().filter_map(|place| match self.disks[*place].state {
                DiskState::Slow { cause, since, .. } => Some((since, cause == Cause::AfterWrites)),
                _ => None,
            });
            let slow: Vec<(Nanos, bool)> = slow.collect();
            let [first, last] = [slow.iter().min(), slow.iter().max()];
            let apart = last.zip(first).map_or(Nanos::ZERO, |(last, first)| last.0 - first.0);
            // Disks that were written alike begin to tidy up, too, but one after the other.
            let tidies = apart > LINK_APART_MAX && slow.iter().any(|it| it.1);
            if slow.len() < behind.len() || tidies {
                continue;
            }
            for place in behind {
                if let DiskState::Slow { cause, .. } = &mut self.disks[*place].state {
                    *cause = Cause::Link;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
