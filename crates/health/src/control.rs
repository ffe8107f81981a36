//! The control law of `tune --auto`: which members serve reads, decided from judged samples.
//!
//! A pure function of samples and time. An *alternative* is a setting that keeps reads away from
//! some members; the first is the *usual* one, which the user has. Rules that cannot be broken:
//!
//! - Some member that is in service serves reads under every alternative.
//! - Two changes are at least an interval apart, and a day has a bounded number of them. One of
//!   these is always left for the way back.
//! - A change is predicted to bring [`GAIN_MIN`], and taken back unless what is measured after it
//!   shows that it brought something; after [`TAKEN_BACK_MAX`] of these, none is tried for a day.
//! - While the array is not at rest (degraded, resyncing, administered), nothing is changed.
//!
//! **Recovery.** A member without reads gives no samples. So the usual setting is tried again after
//! a while, and the while doubles each time that the member is still slow.
//!
//! **Measure.** The mean wait of reads over all members, compared by its logarithm before and after
//! a change as `bench` compares two settings: it holds if the difference is known to be one.

mod reading;

pub use reading::{ArrayReading, MemberReading};

use crate::service::DiskKind;
use mirrorball_core::units::Nanos;
use reading::{BUSY_MAX, compared, mean_wait_ms, predicted_gain};
use serde::{Deserialize, Serialize};

/// Least part of the mean wait that a change is predicted to save.
pub const GAIN_MIN: f64 = 0.2;
/// Least further part that avoiding one more member is predicted to save.
const GAIN_MORE: f64 = 0.1;
/// Least part that it must have saved.
pub const GAIN_KEPT: f64 = 0.05;
/// Changes in a row that did not hold after which no more is tried.
pub const TAKEN_BACK_MAX: u32 = 3;
/// How many times slower than expected a member is that reads are kept away from.
const RATIO_MIN: f64 = 1.5;
/// How many times slower one may be that is read again.
const RATIO_RECOVERED: f64 = 1.25;
/// Evaluations before a change that it is compared with.
const BEFORE_MAX: usize = 6;
/// Evaluations after a change that are left out, and the most that it is judged by.
const SETTLE: u32 = 1;
const AFTER_MAX: usize = 12;
/// Least evaluations of a trial, and the most without a read.
const TRIAL_MIN: usize = 2;
const TRIAL_IDLE_MAX: u32 = 12;
const DAY: Nanos = Nanos::from_secs(86_400);

/// Cost of a change of the setting, which decides how often it may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeCost {
    /// A write to a file of the kernel: btrfs, NVMe.
    Free,
    /// The array is suspended until its I/O is done, and metadata is written: md, LVM, dm.
    Suspends,
}

/// How often settings may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeLimits {
    /// Least time between two changes.
    pub interval: Nanos,
    /// Most changes in a day.
    pub a_day: usize,
    /// Time until the usual setting is tried again first, and the longest.
    pub trial_first: Nanos,
    /// The longest time until it is tried again.
    pub trial_last: Nanos,
}

impl ChangeCost {
    pub fn limits(self) -> ChangeLimits {
        let (interval, a_day, trial_last) = match self {
            ChangeCost::Free => (10, 48, 4 * 3600),
            ChangeCost::Suspends => (10, 24, 8 * 3600),
        };
        ChangeLimits {
            interval: Nanos::from_secs(interval),
            a_day,
            trial_first: Nanos::from_secs(15 * 60),
            trial_last: Nanos::from_secs(trial_last),
        }
    }
}

/// A setting that keeps reads away from members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSetting {
    /// Canonical policy string.
    pub spec: String,
    /// For each member, whether it is not read while another can be.
    pub avoids: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeReason {
    SlowMembers,
    /// The waits after the change show no gain.
    DoesNotHold,
    /// The members that serve cannot carry the load alone.
    Overload,
    /// The usual setting is tried again.
    Trial,
    /// The member was still slow in the trial.
    StillSlow,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StayReason {
    /// No member is slow.
    NothingSlow,
    /// No alternative keeps reads away from the slow members.
    NoAlternative,
    SmallGain,
    /// The last change was a moment ago.
    TooSoon,
    DayUsedUp,
    Judging,
    Holds,
    NotAtRest,
    /// Too many changes of the last day were taken back.
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControlDecision {
    Stay(StayReason),
    /// Put an alternative into force.
    Change {
        /// Place in the list of alternatives.
        to: usize,
        reason: ChangeReason,
        /// Part of the mean wait that it is predicted to save.
        predicted_gain: Option<f64>,
        /// Part that the alternative in force has saved, as measured.
        measured_gain: Option<f64>,
    },
}

/// Facts that outlive a restart of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlMemory {
    /// Times of the changes of the last day, in nanoseconds since the epoch of the caller's clock.
    changes_ns: Vec<u64>,
    /// Changes in a row that were taken back.
    taken_back: u32,
    /// Time until the next trial, in nanoseconds; 0 for the first.
    trial_after_ns: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The usual setting is in force, and no change is judged.
    Usual,
    /// An alternative is being judged: evaluations left out, logarithms of waits before and after.
    Judged { settle: u32, before: Vec<f64>, after: Vec<f64> },
    /// An alternative has shown its gain.
    Held { gain: f64, overloaded: u32 },
    /// The usual setting is tried again in the place of an alternative: logarithms of the ratios of
    /// its members, and evaluations without any.
    Trial { from: usize, settle: u32, ratios: Vec<f64>, idle: u32 },
}

#[derive(Clone, Debug)]
pub struct Controller {
    settings: Vec<ReadSetting>,
    limits: ChangeLimits,
    memory: ControlMemory,
    current: usize,
    changed_at: Nanos,
    phase: Phase,
    /// Logarithms of the last mean waits under the usual setting.
    waits: Vec<f64>,
}

impl Controller {
    /// A controller under the first of the alternatives, the usual setting. Those that would leave
    /// no member to read are left out. Panics if there is no alternative, or they are not for the
    /// same members.
    pub fn new(
        settings: Vec<ReadSetting>,
        limits: ChangeLimits,
        memory: ControlMemory,
    ) -> Controller {
        let members = settings.first().map(|usual| usual.avoids.len());
        let is_alike = |it: &ReadSetting| Some(it.avoids.len()) == members;
        assert!(members.is_some() && settings.iter().all(is_alike), "{settings:?}");
        let mut settings = settings;
        settings.retain(|it| it.avoids.contains(&false));
        Controller {
            settings,
            limits,
            memory,
            current: 0,
            changed_at: Nanos::ZERO,
            phase: Phase::Usual,
            waits: Vec::new(),
        }
    }

    /// The alternatives, the usual one first.
    pub fn settings(&self) -> &[ReadSetting] {
        &self.settings
    }

    /// The place of the alternative in force.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Facts that outlive a restart of the service.
    pub fn memory(&self) -> &ControlMemory {
        &self.memory
    }

    /// Decides after an evaluation. A change counts as made: the caller puts it into force, or
    /// calls [`Controller::on_failed_change`].
    pub fn decide(&mut self, seen: &ArrayReading) -> ControlDecision {
        let day_ago = seen.now.saturating_sub(DAY).0;
        // Where the clock was set back, what it was ahead at counts as now.
        let changes = self.memory.changes_ns.iter().map(|at| (*at).min(seen.now.0));
        self.memory.changes_ns = changes.filter(|at| *at > day_ago).collect();
        self.changed_at = self.changed_at.min(seen.now);
        if self.memory.changes_ns.is_empty() {
            self.memory.taken_back = 0;
        }
        if !seen.is_at_rest {
            self.waits.clear();
            if let Phase::Judged { before, .. } = &self.phase {
                // What was measured is of another array.
                let before = before.clone();
                self.phase = Phase::Judged { settle: SETTLE, before, after: Vec::new() };
            }
            return ControlDecision::Stay(StayReason::NotAtRest);
        }
        let decision = match self.phase.clone() {
            Phase::Usual => self.in_usual(seen),
            Phase::Judged { settle, before, after } => self.in_judged(seen, settle, before, after),
            Phase::Held { gain, overloaded } => self.in_held(seen, gain, overloaded),
            Phase::Trial { from, settle, ratios, idle } => {
                self.in_trial(seen, from, settle, ratios, idle)
            }
        };
        if let ControlDecision::Change { to, .. } = decision {
            assert!(self.settings[to].avoids.contains(&false), "some member serves reads");
            self.current = to;
            self.changed_at = seen.now;
            self.memory.changes_ns.push(seen.now.0);
        }
        decision
    }

    /// Reports that the last change could not be made: the usual setting is in force, and no more
    /// is tried for a day.
    pub fn on_failed_change(&mut self) {
        self.current = 0;
        self.phase = Phase::Usual;
        self.memory.taken_back = TAKEN_BACK_MAX;
    }

    /// The reason why no change is possible now, with `left` changes of the day kept back.
    fn obstacle(&self, now: Nanos, left: usize) -> Option<StayReason> {
        let last = self.memory.changes_ns.last().copied().map(Nanos);
        let is_soon = last.is_some_and(|last| now.saturating_sub(last) < self.limits.interval);
        match () {
            () if is_soon => Some(StayReason::TooSoon),
            () if self.memory.changes_ns.len() + left >= self.limits.a_day => {
                Some(StayReason::DayUsedUp)
            }
            () => None,
        }
    }

    fn in_usual(&mut self, seen: &ArrayReading) -> ControlDecision {
        if let Some(wait) = mean_wait_ms(&seen.members) {
            self.waits.push(wait.ln());
            let surplus = self.waits.len().saturating_sub(BEFORE_MAX);
            self.waits.drain(..surplus);
        }
        let is_slow =
            |it: &MemberReading| it.is_slow && it.read_ratio.is_none_or(|r| r >= RATIO_MIN);
        let slow: Vec<bool> = seen.members.iter().map(is_slow).collect();
        if !slow.contains(&true) {
            return ControlDecision::Stay(StayReason::NothingSlow);
        }
        if self.memory.taken_back >= TAKEN_BACK_MAX {
            return ControlDecision::Stay(StayReason::GivenUp);
        }
        let Some((to, gain)) = self.best_without(&slow, &seen.members) else {
            return ControlDecision::Stay(StayReason::NoAlternative);
        };
        let is_enough = gain >= GAIN_MIN;
        if to == 0 || !is_enough {
            return ControlDecision::Stay(StayReason::SmallGain);
        }
        if let Some(obstacle) = self.obstacle(seen.now, 1) {
            return ControlDecision::Stay(obstacle);
        }
        // Only what was measured while the member was slow is what the change is compared with.
        let before: Vec<f64> = self.waits.iter().rev().take(2).copied().collect();
        self.phase = Phase::Judged { settle: SETTLE, before, after: Vec::new() };
        let reason = ChangeReason::SlowMembers;
        ControlDecision::Change { to, reason, predicted_gain: Some(gain), measured_gain: None }
    }

    /// The alternative that keeps reads away from the slow members and few others, and its
    /// predicted gain. Another member is avoided too only if that saves a good part more, as where
    /// it was the slower kind all along.
    fn best_without(&self, slow: &[bool], members: &[MemberReading]) -> Option<(usize, f64)> {
        let usual = &self.settings[0].avoids;
        let wanted = slow.iter().zip(usual).map(|(slow, usual)| *slow || *usual);
        let wanted: Vec<bool> = wanted.collect();
        let fits =
            |it: &ReadSetting| it.avoids.iter().zip(&wanted).all(|(own, other)| own >= other);
        let count = |it: &ReadSetting| it.avoids.iter().filter(|avoided| **avoided).count();
        let mut fitting: Vec<(usize, &ReadSetting)> =
            self.settings.iter().enumerate().filter(|(_, it)| fits(it)).collect();
        fitting.sort_by_key(|(place, it)| (count(it), *place));
        let gains = fitting.iter().map(|(to, it)| (*to, predicted_gain(members, &it.avoids)));
        gains.reduce(|best, next| {
            let is_better = 1.0 - next.1 < (1.0 - best.1) * (1.0 - GAIN_MORE);
            if is_better { next } else { best }
        })
    }

    fn in_judged(
        &mut self,
        seen: &ArrayReading,
        settle: u32,
        before: Vec<f64>,
        mut after: Vec<f64>,
    ) -> ControlDecision {
        let wait = mean_wait_ms(&seen.members);
        if settle == 0 {
            after.extend(wait.map(f64::ln));
        }
        let (difference, error) = compared(&before, &after);
        let gain = 1.0 - difference.exp();
        let bound = (1.0 - GAIN_KEPT).ln();
        let holds = !after.is_empty() && difference + 1.645 * error < bound;
        let fails = after.len() >= 2 && difference - 1.645 * error > bound;
        let is_over = after.len() >= AFTER_MAX;
        if holds || is_over && difference < bound {
            self.memory.taken_back = 0;
            self.phase = Phase::Held { gain, overloaded: 0 };
            return ControlDecision::Stay(StayReason::Holds);
        }
        if (fails || is_over) && self.obstacle(seen.now, 0).is_none() {
            self.memory.taken_back += 1;
            return self.take_back(ChangeReason::DoesNotHold, Some(gain));
        }
        self.phase = Phase::Judged { settle: settle.saturating_sub(1), before, after };
        ControlDecision::Stay(StayReason::Judging)
    }

    fn in_held(&mut self, seen: &ArrayReading, gain: f64, overloaded: u32) -> ControlDecision {
        let avoids = &self.settings[self.current].avoids;
        let serving = || seen.members.iter().zip(avoids).filter(|(_, avoided)| !**avoided);
        let is_saturated = serving().any(|(it, _)| {
            let is_disk_busy = it.class == DiskKind::Hdd && it.utilisation > BUSY_MAX;
            is_disk_busy && it.read_ratio.is_some_and(|ratio| ratio >= RATIO_MIN)
        });
        let overloaded = if is_saturated { overloaded + 1 } else { 0 };
        self.phase = Phase::Held { gain, overloaded };
        if let Some(obstacle) = self.obstacle(seen.now, 0) {
            return ControlDecision::Stay(obstacle);
        }
        if overloaded >= BEFORE_MAX as u32 {
            return self.take_back(ChangeReason::Overload, Some(gain));
        }
        let first = self.limits.trial_first;
        let after = Nanos(self.memory.trial_after_ns.max(first.0));
        // A trial may need the way back.
        if seen.now < self.changed_at.saturating_add(after) || self.obstacle(seen.now, 1).is_some()
        {
            return ControlDecision::Stay(StayReason::Holds);
        }
        let from = self.current;
        self.phase = Phase::Trial { from, settle: SETTLE, ratios: Vec::new(), idle: 0 };
        let (reason, measured_gain) = (ChangeReason::Trial, Some(gain));
        ControlDecision::Change { to: 0, reason, predicted_gain: None, measured_gain }
    }

    fn in_trial(
        &mut self,
        seen: &ArrayReading,
        from: usize,
        settle: u32,
        mut ratios: Vec<f64>,
        mut idle: u32,
    ) -> ControlDecision {
        let avoids = self.settings[from].avoids.iter().zip(&self.settings[0].avoids);
        let avoided =
            avoids.zip(&seen.members).filter(|((avoided, usual), _)| **avoided && !**usual);
        let ratio = avoided.filter_map(|(_, it)| it.read_ratio).reduce(f64::max);
        match ratio {
            Some(ratio) if settle == 0 => ratios.push(ratio.ln()),
            Some(_) => {}
            None => idle += 1,
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        let is_slow = mean >= RATIO_RECOVERED.ln();
        if ratios.len() >= TRIAL_MIN && is_slow && self.obstacle(seen.now, 0).is_none() {
            let next = self.memory.trial_after_ns.max(self.limits.trial_first.0).saturating_mul(2);
            self.memory.trial_after_ns = next.min(self.limits.trial_last.0);
            self.phase = Phase::Held { gain: 0.0, overloaded: 0 };
            let (reason, predicted_gain) = (ChangeReason::StillSlow, None);
            return ControlDecision::Change {
                to: from,
                reason,
                predicted_gain,
                measured_gain: None,
            };
        }
        if ratios.len() > TRIAL_MIN && !is_slow || idle >= TRIAL_IDLE_MAX {
            self.memory.trial_after_ns = 0;
            self.phase = Phase::Usual;
            self.waits.clear();
            return ControlDecision::Stay(StayReason::NothingSlow);
        }
        self.phase = Phase::Trial { from, settle: settle.saturating_sub(1), ratios, idle };
        ControlDecision::Stay(StayReason::Judging)
    }

    fn take_back(&mut self, reason: ChangeReason, measured_gain: Option<f64>) -> ControlDecision {
        self.phase = Phase::Usual;
        self.waits.clear();
        ControlDecision::Change { to: 0, reason, predicted_gain: None, measured_gain }
    }
}

#[cfg(test)]
mod tests;
