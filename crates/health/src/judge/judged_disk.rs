//! A disk between evaluations: its history, the evidence against it, and its state.

use super::gathered_windows::{BLOCKS_MIN, GatheredWindows};
use super::history::DiskHistory;
use super::steady::SteadyLoad;
use super::{Cause, DiskFacts, DiskFigures, DiskState, EVALUATION, Evaluated, Slowness};
use crate::evidence::{Evidence, RATIO_MIN};
use crate::service::{DiskKind, IoDirection, utilisation};
use mirrorball_core::units::Nanos;

/// How long counters are gathered, if there is some I/O, until they tell something.
const GATHERING_MAX: Nanos = Nanos::from_secs(60);
/// How long a disk is called slow without any I/O that could confirm it.
const UNCONFIRMED_MAX: Nanos = Nanos::from_secs(600);
/// Evaluations with errors, of those of the last minute, from which a disk is one that retries.
const ERRORS_MIN: u32 = 5;
const EVALUATIONS_A_MINUTE: u64 = 12;
/// Bytes written in about a minute from which a disk may be tidying up, and for how long after it
/// was last written so much: a hard disk empties its cache, flash collects garbage, and a shingled
/// disk rewrites the tracks under a few random writes.
const HDD_TIDIES: (f64, Nanos) = (1e9, Nanos::from_secs(120));
const FLASH_TIDIES: (f64, Nanos) = (6e7, Nanos::from_secs(300));
const SHINGLED_TIDIES: (f64, Nanos) = (1e6, TIDYING_MAX);
/// How long that may last if it is written all the time.
const TIDYING_MAX: Nanos = Nanos::from_secs(3600);
/// Stream whose transfer takes a hard disk as long as the position of a scattered write.
const POSITION_BYTES: f64 = 1e6;
/// Least share of a disk's latest writes, and of all, that a peer was sent which would tidy up as
/// well: flash that was rebuilt has to sooner.
const RECENT_SHARE: f64 = 0.5;
const WRITTEN_SHARE: f64 = 0.95;
/// How much later the peer would begin to.
const TIDYING_APART_MAX: Nanos = Nanos::from_secs(60);

#[derive(Clone, Debug)]
pub(super) struct JudgedDisk {
    pub(super) facts: DiskFacts,
    pub(super) history: DiskHistory,
    pub(super) gathered: GatheredWindows,
    /// By direction, as all arrays here.
    pub(super) steady: [Option<SteadyLoad>; 2],
    pub(super) state: DiskState,
    pub(super) last: Option<DiskFigures>,
    evidence: [DirectionEvidence; 2],
    /// Evaluations of the last minute with errors, as bits.
    error_marks: u16,
    /// Bytes written in about a minute, and when they last were enough to tidy up.
    written: f64,
    written_at: Option<Nanos>,
    /// How many times slower than expected reads were in this evaluation.
    read_ratio: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DirectionEvidence {
    evidence: Evidence,
    since: Nanos,
    /// When anything was last counted, and whether this evaluation spoke against the disk.
    counted_at: Nanos,
    is_accused: bool,
    /// When it was last slower than before, however slow others were.
    changed_at: Option<Nanos>,
    /// True if its writes or peers showed that it is not tidying up.
    is_refuted: bool,
    /// Bytes written in about a minute until it began.
    written_before: f64,
    /// While the disk is called slow: by the last I/O that was.
    cause: Option<Cause>,
}

impl JudgedDisk {
    pub(super) fn new(facts: DiskFacts, history: DiskHistory) -> JudgedDisk {
        JudgedDisk {
            facts,
            history,
            gathered: GatheredWindows::default(),
            steady: [None; 2],
            state: DiskState::CannotTell,
            last: None,
            evidence: Default::default(),
            error_marks: 0,
            written: 0.0,
            written_at: None,
            read_ratio: None,
        }
    }

    /// Returns true if errors were counted again and again in the last minute: a stray one does
    /// not make a disk slow.
    pub(super) fn has_errors(&self) -> bool {
        self.error_marks.count_ones() + u32::from(self.gathered.errors > 0) >= ERRORS_MIN
    }

    /// Counts the evidence of one direction, and learns from it unless it is doubtful.
    pub(super) fn conclude(
        &mut self,
        now: Nanos,
        direction: usize,
        own: &Evaluated,
        slowness: Slowness,
    ) {
        if direction == IoDirection::Read as usize {
            self.read_ratio = slowness.estimate.map(|it| it.0.exp());
        }
        let written_until_now = self.written_until_now();
        let known = &mut self.evidence[direction];
        if let Some((change, deviation)) = slowness.evidence {
            let estimate = slowness.estimate.map_or(change, |it| it.0.max(change));
            known.evidence.add(change, deviation, estimate);
            known.counted_at = now;
            known.is_accused = estimate > RATIO_MIN.ln();
            if known.evidence.evaluations() <= 1 {
                known.since = now;
                known.written_before = written_until_now;
                known.is_refuted = false;
            }
        }
        let is_healthy = !known.evidence.is_doubtful();
        if slowness.is_changed || !is_healthy {
            known.changed_at = Some(now);
        }
        let (service, traffic) = (&own.service, own.traffic);
        match &mut self.steady[direction] {
            Some(it) if it.continues(&traffic, service.count, self.facts.class) => {
                if is_healthy {
                    it.learn(&traffic, service);
                }
            }
            it => *it = Some(SteadyLoad::new(traffic, service, is_healthy)),
        }
        if is_healthy {
            self.history.learn(own.load, service);
        }
    }

    /// Bytes written in this evaluation, and what the positions of a hard disk cost.
    fn gathered_writes(&self) -> f64 {
        let counters = &self.gathered.counters;
        let is_scattered = self.facts.class == DiskKind::Hdd && !self.facts.is_shingled;
        let positions = if is_scattered { counters.writes as f64 * POSITION_BYTES } else { 0.0 };
        counters.written_bytes() as f64 + positions
    }

    fn written_in_a_minute(&self) -> f64 {
        let fade = (-self.gathered.time.as_secs_f64() / 60.0).exp();
        self.written * fade + self.gathered_writes()
    }

    /// Bytes written in about a minute, or at the rate of this evaluation in a minute.
    fn written_until_now(&self) -> f64 {
        let rate = self.gathered_writes() / self.gathered.time.as_secs_f64();
        self.written_in_a_minute().max(60.0 * rate)
    }

    /// Sets the state, and begins the next evaluation.
    pub(super) fn end_evaluation(&mut self, now: Nanos, evaluated: &[Option<Evaluated>; 2]) {
        let time = self.gathered.time;
        let seconds = time.as_secs_f64();
        let counters = &self.gathered.counters;
        let row = counters.iostat(time);
        let depth = evaluated
            .iter()
            .flatten()
            .filter(|it| it.is_judged)
            .map(|it| it.service.depth)
            .fold(1.0, f64::max);
        self.last = (seconds > 0.0).then(|| DiskFigures {
            reads_per_s: row.reads_per_s,
            writes_per_s: row.writes_per_s,
            read_wait_ms: row.read_wait_ms,
            write_wait_ms: row.write_wait_ms,
            depth,
            utilisation: utilisation(counters, time),
            read_ratio: self.read_ratio.take(),
        });
        let has_io = counters.reads + counters.writes > 0;
        let is_evaluated = evaluated.iter().flatten().any(|it| it.is_judged);
        // Seldom samples give a block each.
        let enough_blocks = Nanos(self.gathered.longest.0.saturating_mul(BLOCKS_MIN as u64 + 1));
        if has_io && !is_evaluated && time < GATHERING_MAX.max(enough_blocks) {
            return;
        }
        if self.is_written_much() {
            self.written_at = Some(now);
        }
        self.written = self.written_in_a_minute();
        self.history.written += self.gathered.counters.written_bytes() as f64;
        let evaluations = time.0.div_ceil(EVALUATION.0).min(EVALUATIONS_A_MINUTE);
        let marks = self.error_marks << evaluations | u16::from(self.gathered.errors > 0);
        self.error_marks = marks & ((1 << EVALUATIONS_A_MINUTE) - 1);
        self.gathered = GatheredWindows::default();
        for known in &mut self.evidence {
            if now.saturating_sub(known.counted_at) > UNCONFIRMED_MAX {
                known.evidence = Evidence::default();
            }
        }
        for direction in 0..2 {
            let known = &self.evidence[direction];
            let cause = known.cause.filter(|_| !known.is_accused);
            let is_slow = known.evidence.is_slow();
            let cause = is_slow.then(|| cause.unwrap_or_else(|| self.cause(now, direction)));
            self.evidence[direction].cause = cause;
        }
        self.state = self.state_after(evaluated);
        self.evidence.iter_mut().for_each(|it| it.is_accused = false);
    }

    fn state_after(&self, evaluated: &[Option<Evaluated>; 2]) -> DiskState {
        let ratio = |direction: &usize| self.evidence[*direction].evidence.ratio();
        let slow = (0..2).filter_map(|it| Some((it, self.evidence[it].cause?)));
        // An alarm comes before a direction that tidies up.
        let is_alarm = |it: &(usize, Cause)| it.1 != Cause::AfterWrites;
        let rank = |a: &(usize, Cause), b: &(usize, Cause)| {
            is_alarm(a).cmp(&is_alarm(b)).then(ratio(&a.0).total_cmp(&ratio(&b.0)))
        };
        if let Some((worst, cause)) = slow.max_by(rank) {
            let direction = [IoDirection::Read, IoDirection::Write][worst];
            let since = self.evidence[worst].since;
            return DiskState::Slow { ratio: ratio(&worst), cause, since, direction };
        }
        let seen = evaluated.iter().flatten().filter(|it| it.is_judged);
        let waits = seen.clone().filter_map(|it| it.wait).fold(f64::MIN, f64::max);
        let is_unknown = |it: &Evaluated| it.by_history.is_none() && it.by_steady.is_none();
        match () {
            () if seen.clone().next().is_none() => DiskState::CannotTell,
            () if seen.clone().all(is_unknown) => DiskState::Learning,
            () if waits > 1.5_f64.ln() => DiskState::Busy { ratio: waits.exp() },
            () => DiskState::Fine,
        }
    }

    pub(super) fn is_like(&self, other: &JudgedDisk) -> bool {
        self.facts.model.is_some() && self.facts.model == other.facts.model
    }

    /// Returns true if a direction is slow in this evaluation, and writes are blamed for it.
    pub(super) fn is_said_to_tidy(&self, way: usize) -> bool {
        self.evidence[way].cause == Some(Cause::AfterWrites) && self.evidence[way].is_accused
    }

    /// Blames the disk for as long as a direction is slow.
    pub(super) fn refute_tidying(&mut self, way: usize) {
        self.evidence[way].is_refuted = true;
    }

    /// Returns true if writes became slower, too: flash that collects garbage still caches them.
    pub(super) fn writes_refute_tidying(&self, now: Nanos) -> bool {
        self.facts.class != DiskKind::Hdd && self.has_slow_writes(now)
    }

    fn has_slow_writes(&self, now: Nanos) -> bool {
        let changed_at = self.evidence[IoDirection::Write as usize].changed_at;
        changed_at.is_some_and(|at| now.saturating_sub(at) < TIDYING_APART_MAX)
    }

    /// Returns true if this is a disk like a slow one that was written as much, and is not slow.
    pub(super) fn refutes_tidying(&self, now: Nanos, slow: &JudgedDisk, way: usize) -> bool {
        let since = slow.evidence[way].since;
        let is_calm = |it: &DirectionEvidence| {
            it.changed_at.is_none_or(|at| at.saturating_add(FLASH_TIDIES.1) < since)
        };
        self.is_like(slow)
            && self.evidence[way].counted_at >= since
            && now.saturating_sub(since) >= TIDYING_APART_MAX
            && self.evidence.iter().all(is_calm)
            && (slow.has_slow_writes(now) || !slow.is_written_much())
            && self.written >= RECENT_SHARE * slow.written
            && self.history.written >= WRITTEN_SHARE * slow.history.written
    }

    /// Returns true if as much is written in this evaluation as may make it tidy up.
    fn is_written_much(&self) -> bool {
        60.0 * self.gathered_writes() / self.gathered.time.as_secs_f64() >= self.tidies().0
    }

    /// The writes after which it may be tidying up, and for how long.
    fn tidies(&self) -> (f64, Nanos) {
        match self.facts.class {
            DiskKind::Hdd if self.facts.is_shingled => SHINGLED_TIDIES,
            DiskKind::Hdd => HDD_TIDIES,
            DiskKind::Ssd | DiskKind::Nvme => FLASH_TIDIES,
        }
    }

    fn cause(&self, now: Nanos, direction: usize) -> Cause {
        let it = &self.evidence[direction];
        let (least, longest) = self.tidies();
        let is_tidying = !it.is_refuted
            && it.written_before >= least
            && now.saturating_sub(it.since) < TIDYING_MAX
            && self.written_at.is_some_and(|at| now.saturating_sub(at) < longest);
        match () {
            () if self.has_errors() => Cause::Errors,
            () if is_tidying => Cause::AfterWrites,
            () => Cause::Service,
        }
    }
}
