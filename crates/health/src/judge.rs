//! The judgement: the disks of an array, against their own history and against each other.
//!
//! Each evaluation compares the service of a disk with what its history says of I/O of this
//! direction, size and mix. What its peers, which were sent the same requests, are slower by at the
//! same time is taken off: then the load has changed, not the disk. Peers of the same model are
//! also compared directly, so that a disk that was slow from the beginning is found. A hard disk is
//! never called slow while random I/O of its size explains the wait: counters do not say whether
//! reads are sequential.

mod gathered_windows;
mod history;

pub use history::DiskHistory;

use crate::counters::DiskCounters;
use crate::evidence::Evidence;
use crate::service::{DiskKind, DiskService, IoDirection, utilisation};
use gathered_windows::GatheredWindows;
use history::{DEVIATION_ASSUMED, LoadHistory, LoadKind};
use mirrorball_core::units::Nanos;
use std::collections::BTreeMap;

/// Time between evaluations.
pub const EVALUATION: Nanos = Nanos::from_secs(5);
/// Least I/Os of a direction in an evaluation.
const COUNT_MIN: u64 = 10;
/// Least sum of waits in an evaluation: the kernel counts whole milliseconds.
const WAITS_MIN_MS: f64 = 5.0;
/// How many waits an evaluation has to be long.
const WAITS_IN_WINDOW: f64 = 4.0;
/// How long counters are gathered, if there is some I/O, until they tell something.
const GATHERING_MAX: Nanos = Nanos::from_secs(60);
/// Share of the other direction from which a direction of a hard disk is not judged.
const OTHERS_MAX: f64 = 0.75;
/// Peers are compared directly if none was sent this many times as much: a policy that prefers one
/// disk sends the others what comes at bad times.
const RATE_RATIO_MAX: f64 = 2.0;
/// How much longer reads of flash take that come at bad times: a balancing policy sends a disk that
/// is not its first choice the reads that meet writes there.
const BAD_TIMES: f64 = 2.0;
/// Share of the longest service of random I/O from which a history is that of random I/O.
const RANDOM_SHARE: f64 = 0.3;
/// How much longer a load of another kind than those known may take.
const BOUND_SLACK: f64 = 1.5;
/// Least standard deviation of the logarithm of a service.
const DEVIATION_MIN: f64 = 0.12;
/// Standard deviation of what another disk of the model needed, at another time.
const DEVIATION_OF_MODEL: f64 = 0.5;
/// How long a window may be, in multiples of what was asked for, before it is left out: the machine
/// was suspended, or its clock was set.
const STRETCH_MAX: u64 = 4;
/// Bytes written in the minute before from which slow flash or shingled disks may be tidying up.
const WRITTEN_BEFORE_MIN: f64 = 1e9;

/// A disk of an array, as it is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    pub name: String,
    pub class: DiskKind,
    /// Model name; disks of one model are compared directly.
    pub model: Option<String>,
    /// Name of a link that it shares with other disks.
    pub link: Option<String>,
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
    /// Errors were counted at the same time: it retries.
    Errors,
    /// Every disk behind its link became slow with it.
    Link,
    /// Much was written in the minute before: garbage collection, or a shingled disk's tidying up.
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

/// A disk, its history and the evidence.
#[derive(Clone, Debug)]
struct JudgedDisk {
    facts: DiskFacts,
    history: DiskHistory,
    gathered: GatheredWindows,
    /// Evaluations until errors are forgotten.
    errors_left: u32,
    written_before: f64,
    evidence: [(Evidence, Nanos); 2],
    /// Bytes written in about a minute before each change began.
    written_at_onset: [f64; 2],
    /// How many times slower than expected reads were in the last evaluation.
    read_ratio: Option<f64>,
    state: DiskState,
    last: Option<DiskFigures>,
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

/// One evaluation of one direction of one disk.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    service: DiskService,
    load: LoadKind,
    /// Logarithm of the service over what the history expects, with its standard deviation.
    own: Option<(f64, f64)>,
    /// Logarithm of the wait over its history.
    wait: Option<f64>,
}

impl Judge {
    /// A judge of disks that hold copies of the same data, or of one disk.
    pub fn new(disks: impl IntoIterator<Item = (DiskFacts, DiskHistory)>) -> Judge {
        let disks = disks.into_iter().map(|(facts, history)| JudgedDisk {
            facts,
            history,
            gathered: GatheredWindows::default(),
            errors_left: 0,
            written_before: 0.0,
            evidence: Default::default(),
            written_at_onset: [0.0; 2],
            read_ratio: None,
            state: DiskState::CannotTell,
            last: None,
        });
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
        self.disks.iter_mut().for_each(|disk| disk.read_ratio = None);
        for direction in [0, 1] {
            for place in 0..self.disks.len() {
                if let Some(own) = &evaluated[place][direction] {
                    let change = self.change(place, own, &evaluated, direction);
                    self.disks[place].conclude(now, direction, own, change);
                }
            }
        }
        for (disk, evaluated) in self.disks.iter_mut().zip(&evaluated) {
            disk.end_evaluation(evaluated);
        }
        self.name_links();
    }

    fn evaluated(&self, place: usize, direction: IoDirection) -> Option<Evaluated> {
        let disk = &self.disks[place];
        let (class, time) = (disk.facts.class, disk.gathered.time);
        let mut service = DiskService::of(&disk.gathered.counters, direction, class)?;
        // Some I/Os that take far longer do not make a disk slow, unless they were tried again.
        if !disk.has_errors()
            && let Some(typical_ns) = disk.gathered.typical_service_ns(direction, class)
        {
            service.service_ns = typical_ns.min(service.service_ns);
        }
        let is_few = service.count < COUNT_MIN || service.waits_ms() < WAITS_MIN_MS;
        // The waits of what ended are those of the I/O in flight only if most of it came and went.
        let is_short = service.wait_ns * WAITS_IN_WINDOW > time.0 as f64;
        // A disk that serves one I/O after the other makes the rare ones of a direction wait for
        // the others, longer than the depth says.
        let is_rare = class == DiskKind::Hdd && service.other_share > OTHERS_MAX;
        if is_few || is_short || is_rare {
            return None;
        }
        let load = LoadKind::of(direction, &service, class, time);
        let (expected, variance) = match disk.history.of(load) {
            Some(known) => {
                (Some(known.log_service), known.variance.max(DEVIATION_MIN * DEVIATION_MIN))
            }
            None => {
                let of_model = self.history_of_model(place, load).map(|known| known.log_service);
                let most = service.random_max_ns(class);
                let bound = disk.history.bound_ns(load, service.bytes, class);
                let bound = bound.map_or(most, |bound| bound.max(most));
                let bound = (bound > 0.0).then(|| (bound * BOUND_SLACK).ln());
                let deviation =
                    if of_model.is_some() { DEVIATION_OF_MODEL } else { DEVIATION_ASSUMED };
                (of_model.or(bound), deviation * deviation)
            }
        };
        let deviation = (variance + service.variance()).sqrt();
        let own = expected.map(|expected| (service.service_ns.ln() - expected, deviation));
        let wait = disk.history.of(load).map(|known| service.wait_ns.ln() - known.log_wait);
        Some(Evaluated { service, load, own, wait })
    }

    /// The longest history of a load that another disk of the same model has.
    fn history_of_model(&self, place: usize, load: LoadKind) -> Option<&LoadHistory> {
        let model = self.disks[place].facts.model.as_ref()?;
        let others = self.disks.iter().enumerate().filter(|(other, _)| *other != place);
        let alike = others.filter(|(_, disk)| disk.facts.model.as_ref() == Some(model));
        alike
            .filter_map(|(_, disk)| disk.history.of(load))
            .max_by(|a, b| a.evaluations.total_cmp(&b.evaluations))
    }

    /// How much slower a disk is than expected: the logarithm of the ratio, and its deviation.
    fn change(
        &self,
        place: usize,
        own: &Evaluated,
        all: &[[Option<Evaluated>; 2]],
        direction: usize,
    ) -> Option<(f64, f64)> {
        let facts = &self.disks[place].facts;
        let others = (0..self.disks.len()).filter(|other| *other != place);
        let peers: Vec<(usize, &Evaluated)> =
            others.filter_map(|other| Some((other, all[other][direction].as_ref()?))).collect();
        let changes = peers.iter().filter_map(|(_, peer)| Some(peer.own?.0));
        let common = median(changes).unwrap_or(0.0).max(0.0);
        let by_history = own.own.map(|(change, deviation)| (change - common, deviation));
        let is_alike = |(other, peer): &&(usize, &Evaluated)| {
            let model = &self.disks[*other].facts.model;
            let rates = own.service.count as f64 / peer.service.count as f64;
            let are_rates_alike = (1.0 / RATE_RATIO_MAX..=RATE_RATIO_MAX).contains(&rates);
            let is_model = model.is_some() && *model == facts.model;
            is_model && peer.load == own.load && are_rates_alike
        };
        let alike = || peers.iter().filter(is_alike).map(|(_, peer)| &peer.service);
        let noise = alike().map(DiskService::variance).fold(0.0, f64::max);
        let deviation = (DEVIATION_ASSUMED.powi(2) + own.service.variance() + noise).sqrt();
        let by_peers = median(alike().map(|peer| peer.service_ns.ln()))
            .map(|expected| (own.service.service_ns.ln() - expected, deviation));
        let change = match (by_history, by_peers) {
            (Some(history), Some(peers)) if peers.0 > history.0 => Some(peers),
            (Some(history), _) => Some(history),
            (None, peers) => peers,
        };
        // Errors say that the disk tries again, and peers what random I/O takes.
        if self.disks[place].has_errors() {
            return change;
        }
        let random_ns = own.service.random_max_ns(facts.class) * RANDOM_SHARE;
        if median(alike().map(|peer| peer.service_ns)).is_some_and(|ns| ns >= random_ns) {
            let less =
                by_history.filter(|it| own.wait.is_some() && Some(it.0) < by_peers.map(|p| p.0));
            return less.or(by_peers);
        }
        change.map(|(change, deviation)| (unexplained(facts.class, own, &peers, change), deviation))
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

impl JudgedDisk {
    /// Returns true if errors were counted in the last minute.
    fn has_errors(&self) -> bool {
        self.gathered.errors > 0 || self.errors_left > 0
    }

    /// Counts the evidence of one direction, and learns from it unless it is doubtful.
    fn conclude(
        &mut self,
        now: Nanos,
        direction: usize,
        own: &Evaluated,
        change: Option<(f64, f64)>,
    ) {
        let (evidence, since) = &mut self.evidence[direction];
        if let Some((ratio, deviation)) = change {
            evidence.add(ratio, deviation);
            if direction == 0 {
                self.read_ratio = Some(ratio.exp());
            }
            if evidence.evaluations() <= 1 {
                *since = now;
                self.written_at_onset[direction] =
                    self.written_before + self.gathered.counters.written_bytes() as f64;
            }
        }
        if !evidence.is_doubtful() {
            self.history.learn(own.load, &own.service);
        }
    }

    /// Sets the state, and begins the next evaluation.
    fn end_evaluation(&mut self, evaluated: &[Option<Evaluated>; 2]) {
        let seconds = self.gathered.time.as_secs_f64();
        let row = self.gathered.counters.iostat(self.gathered.time);
        let depth = evaluated.iter().flatten().map(|it| it.service.depth).fold(1.0, f64::max);
        self.last = (seconds > 0.0).then(|| DiskFigures {
            reads_per_s: row.reads_per_s,
            writes_per_s: row.writes_per_s,
            read_wait_ms: row.read_wait_ms,
            write_wait_ms: row.write_wait_ms,
            depth,
            utilisation: utilisation(&self.gathered.counters, self.gathered.time),
            read_ratio: self.read_ratio,
        });
        let has_io = self.gathered.counters.reads + self.gathered.counters.writes > 0;
        let is_evaluated = evaluated.iter().any(Option::is_some);
        if has_io && !is_evaluated && self.gathered.time < GATHERING_MAX {
            return;
        }
        if self.gathered.errors > 0 {
            self.errors_left = 12;
        }
        self.state = self.state_after(evaluated);
        self.errors_left = self.errors_left.saturating_sub(1);
        // A minute, as an exponential mean of twelve evaluations.
        self.written_before =
            self.written_before * 11.0 / 12.0 + self.gathered.counters.written_bytes() as f64;
        self.gathered = GatheredWindows::default();
    }

    fn state_after(&self, evaluated: &[Option<Evaluated>; 2]) -> DiskState {
        let worst = (0..2)
            .filter(|&it| self.evidence[it].0.is_slow())
            .max_by(|&a, &b| self.evidence[a].0.ratio().total_cmp(&self.evidence[b].0.ratio()));
        if let Some(worst) = worst {
            let (evidence, since) = self.evidence[worst];
            let cause = match () {
                () if self.errors_left > 0 => Cause::Errors,
                () if self.written_at_onset[worst] >= WRITTEN_BEFORE_MIN => Cause::AfterWrites,
                () => Cause::Service,
            };
            let direction = [IoDirection::Read, IoDirection::Write][worst];
            return DiskState::Slow { ratio: evidence.ratio(), cause, since, direction };
        }
        let seen = evaluated.iter().flatten();
        let waits = seen.clone().filter_map(|it| it.wait).fold(f64::MIN, f64::max);
        match () {
            () if seen.clone().next().is_none() => DiskState::CannotTell,
            () if seen.clone().all(|it| it.own.is_none()) => DiskState::Learning,
            () if waits > 1.5_f64.ln() => DiskState::Busy { ratio: waits.exp() },
            () => DiskState::Fine,
        }
    }
}

/// The part of a change of a disk, as the logarithm of a ratio, that its load does not explain.
fn unexplained(
    class: DiskKind,
    own: &Evaluated,
    peers: &[(usize, &Evaluated)],
    change: f64,
) -> f64 {
    // What random I/O explains is no slowness, and streams may become random I/O.
    let service_ns = own.service.service_ns;
    let random_ns = own.service.random_max_ns(class);
    let expected_ns = service_ns / change.exp();
    if service_ns <= random_ns {
        return change.min(0.0);
    }
    if expected_ns < random_ns * RANDOM_SHARE {
        return change.min((service_ns / random_ns).ln());
    }
    let most_read = peers.iter().map(|(_, peer)| peer.service.count).max().unwrap_or(0) as f64;
    let rates = (most_read / own.service.count as f64).clamp(1.0, BAD_TIMES);
    let has_writes = own.load.direction == IoDirection::Read && own.service.other_share > 0.0;
    match class {
        DiskKind::Ssd | DiskKind::Nvme if has_writes => change - rates.ln(),
        _ => change,
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests;
