//! The judgement: the disks of an array, against their own past and against each other.
//!
//! 1. An evaluation is of five seconds, or of as many as give three blocks of waits. It counts what
//!    I/O took in the median block, without the queue: a few long I/Os make no disk slow.
//! 2. While the load is *steady* (module `steady`), it is compared with what it took a moment ago.
//! 3. When the load has changed, counters do not say whether a large read belongs to a stream. So
//!    flash is compared with its history by small I/O, or where it takes longer than random I/O of
//!    a stream's size can; a hard disk only beyond what random I/O of the size can take.
//! 4. Peers of the same model that were sent as much, or work on equal closed loops, are compared
//!    directly, so that a disk is found that was slow from the beginning: by small I/O, or on hard
//!    disks by random I/O. What other disks are slower by at the same time is taken off: then the
//!    load has changed.
//! 5. Writes of a hard disk end in its cache, until it is full, so they count only beyond what
//!    random I/O can take.
//! 6. Disks that were written much when it began, or shingled ones at all, may be tidying up
//!    ([`Cause::AfterWrites`]): no alarm, unless it lasts.
//! 7. Errors again and again say that the disk retries: then long I/Os count.
//!
//! What is not comparable is no evidence, neither for a disk nor against it.

mod gathered_windows;
mod history;
mod judged_disk;
mod steady;

pub use history::DiskHistory;

use crate::counters::DiskCounters;
use crate::evidence::RATIO_TOLERATED;
use crate::service::{DiskKind, DiskService, IoDirection, utilisation};
use gathered_windows::GatheredWindows;
use history::{DEVIATION_ASSUMED, LoadKind};
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
/// Peers say what a load takes if they were sent as much, and absolve a disk if they were sent
/// about as much: a policy that prefers one disk sends the others what comes at bad times.
const SAME_RATE: f64 = 1.25;
const LIKE_RATE: f64 = 2.0;
/// Bytes of an I/O from which it may be of a stream: Linux reads files ahead in pieces of 128 KiB.
const STREAM_BYTES: f64 = 32_768.0;
/// How many times longer random reads of flash take than those of a stream at most: what a drive
/// reads ahead of a stream comes from its memory.
const STREAM_GAIN: f64 = 4.0;
/// How much longer reads of flash take that meet writes: which do depends on where others go.
const BAD_TIMES: f64 = 2.0;
/// How well the growth of a hard disk's waits with the depth is known: its power.
const DEPTH_DOUBT: f64 = 0.1;
/// Share of the longest service of random I/O from which a load is of random I/O.
const RANDOM_SHARE: f64 = 0.3;
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

/// How much slower than expected a disk is.
#[derive(Clone, Copy, Debug, Default)]
struct Slowness {
    /// The best estimate.
    estimate: Option<Change>,
    /// The part that the sequential test counts.
    evidence: Option<Change>,
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
                    let slowness = self.slowness(place, own, &evaluated, direction);
                    self.disks[place].conclude(now, direction, own, slowness);
                }
            }
        }
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

    /// How much slower than expected a disk is, by the rules of this module.
    fn slowness(
        &self,
        place: usize,
        own: &Evaluated,
        all: &[[Option<Evaluated>; 2]],
        direction: usize,
    ) -> Slowness {
        let disk = &self.disks[place];
        let class = disk.facts.class;
        let others = (0..self.disks.len()).filter(|other| *other != place);
        let peers: Vec<(usize, &Evaluated)> =
            others.filter_map(|other| Some((other, all[other][direction].as_ref()?))).collect();
        let changes = peers.iter().filter_map(|(_, it)| Some(it.by_steady.or(it.by_history)?.0));
        let common = median(changes).unwrap_or(0.0).max(0.0);
        let less_common = |(change, deviation): Change| (change - common, deviation);
        let (by_steady, by_history) =
            (own.by_steady.map(less_common), own.by_history.map(less_common));
        let by_peers = |rate_ratio: f64| self.change_by_peers(place, own, &peers, rate_ratio);
        let random_ns = own.service.random_max_ns(class);
        let beyond_random = (own.service.service_ns / random_ns).ln();
        let is_small = own.service.bytes < STREAM_BYTES;
        let is_comparable = |by_peers: &Change| {
            let peers_ns = own.service.service_ns / by_peers.0.exp();
            is_small || class == DiskKind::Hdd && peers_ns >= RANDOM_SHARE * random_ns
        };
        let same = by_peers(SAME_RATE).filter(is_comparable);
        let estimate = same.or(by_steady).or(by_history);
        let has_writes = own.load.direction == IoDirection::Read && own.service.other_share > 0.0;
        let flash_gain =
            if is_small { 1.0 } else { STREAM_GAIN } * if has_writes { BAD_TIMES } else { 1.0 };
        let after_change = |(change, deviation): Change| {
            let is_slower = change > RATIO_TOLERATED.ln();
            let counted = match class {
                _ if !is_slower => change,
                DiskKind::Hdd => change.min(beyond_random),
                _ => change - flash_gain.ln(),
            };
            (!is_slower || counted > RATIO_TOLERATED.ln()).then_some((counted, deviation))
        };
        let absolved = |change: Change| match by_peers(LIKE_RATE) {
            Some(peers) if peers.0 < change.0 => peers,
            _ => change,
        };
        let evidence = same
            .or_else(|| by_steady.map(absolved))
            .or_else(|| by_history.and_then(after_change).map(absolved));
        let is_cached = class == DiskKind::Hdd
            && own.load.direction == IoDirection::Write
            && !disk.has_errors();
        let evidence = evidence.map(|(change, deviation)| match is_cached {
            true => (change.min(beyond_random), deviation),
            false => (change, deviation),
        });
        Slowness { estimate, evidence }
    }

    /// The service of a disk over that of peers of its model under such a load. None of these was
    /// sent more than this many times as much, or as little.
    fn change_by_peers(
        &self,
        place: usize,
        own: &Evaluated,
        peers: &[(usize, &Evaluated)],
        rate_ratio: f64,
    ) -> Option<Change> {
        let DiskFacts { class, model, .. } = &self.disks[place].facts;
        let model = model.as_ref()?;
        let is_alike = |(other, peer): &&(usize, &Evaluated)| {
            let rates = (own.traffic.rate / peer.traffic.rate).ln().abs();
            self.disks[*other].facts.model.as_ref() == Some(model)
                && peer.load == own.load
                && (rates <= rate_ratio.ln() || own.traffic.is_same_loop(&peer.traffic))
        };
        let alike = || peers.iter().filter(is_alike).map(|(_, peer)| &peer.service);
        let noise = alike().map(DiskService::variance).fold(0.0, f64::max);
        let deviation = (DEVIATION_ASSUMED.powi(2) + own.service.variance() + noise).sqrt();
        let growth = |peer: &DiskService| match class {
            DiskKind::Hdd => DEPTH_DOUBT * (own.service.depth / peer.depth).ln().max(0.0),
            DiskKind::Ssd | DiskKind::Nvme => 0.0,
        };
        let expected = median(alike().map(|peer| peer.service_ns.ln() + growth(peer)))?;
        Some((own.service.service_ns.ln() - expected, deviation))
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
            let is_slow =
                |place: &usize| matches!(self.disks[*place].state, DiskState::Slow { .. });
            if !behind.iter().all(is_slow) {
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

/// The upper median.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
