//! `tune --auto`: keeps reads away from a member while it is slow.
//!
//! Samples are judged as `watch` judges them, and the controller of `health` decides; this module
//! makes its changes, with the journal and the watchdog of `bench`: when the service ends, however
//! it ends, what was in force when it started is restored, unless the setting is to be kept.

use super::alternatives::{AlternativeSet, alternatives};
use super::plan::{PlannedKnob, TunePlan};
use crate::bench::array_lock::ArrayLock;
use crate::bench::changed_array::ChangedArray;
use crate::bench::journal;
use crate::bench::knob::Knob;
use crate::bench::request::check_condition;
use crate::bench::restore::RestoreReport;
use crate::detect::{DetectedArray, Sysroot, array_identifiers};
use crate::watch::{DiskSample, WatchedDisk, WatchedGroup, group_of};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::Nanos;
use mirrorball_health::control::{
    ArrayReading, ControlDecision, ControlMemory, Controller, MemberReading, ReadSetting,
};
use mirrorball_health::judge::{DiskHistory, DiskState, Judge};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Limit of the state of a service.
const STATE_BYTES_MAX: u64 = 256 << 10;

/// Facts that outlive a restart of the service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoState {
    memory: ControlMemory,
    /// Histories of the disks, in the order of the members.
    histories: Vec<DiskHistory>,
    /// Keys of these disks, in the same order; states of earlier versions do not say it.
    #[serde(default)]
    disks: Vec<String>,
    array: String,
}

impl AutoState {
    /// The state in a text. Fails if the text is too long or no state.
    pub fn parse(text: &str) -> Result<AutoState, String> {
        if text.len() as u64 > STATE_BYTES_MAX {
            return Err(format!("it is longer than {STATE_BYTES_MAX} bytes"));
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

#[derive(Clone, Debug)]
pub struct AutoOptions {
    /// False to say only what would be done.
    pub applies: bool,
    /// True to leave the setting in force when the service ends.
    pub keeps: bool,
    /// The command of the watchdog, but for the journal.
    pub watchdog: Vec<OsString>,
    /// Time between samples.
    pub every: Nanos,
}

#[derive(Clone, Debug, Serialize)]
pub struct AutoEvent {
    /// Time of the sample, in seconds on the clock of the caller.
    pub at_s: f64,
    pub array: String,
    /// `change`, `would-change` or `stay`.
    pub decision: &'static str,
    pub reason: serde_json::Value,
    /// The setting that is in force after it, or would be.
    pub setting: String,
    /// Part of the mean wait of reads that the change is predicted to save.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_gain: Option<f64>,
    /// Part that the setting before has saved, as measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_gain: Option<f64>,
    /// Slow members, by the name of the disk.
    pub slow: Vec<String>,
    /// Why the change could not be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

pub struct AutoTune {
    plan: TunePlan,
    set: AlternativeSet,
    group: WatchedGroup,
    judge: Judge,
    controller: Controller,
    options: AutoOptions,
    /// Held from the start on, so that no other program of ours changes the array.
    lock: Option<ArrayLock>,
    changed: Option<ChangedArray>,
    last: Option<DiskSample>,
    last_said: String,
}

impl AutoTune {
    /// A service for the array that was detected at `target`. Fails if the array is not complete
    /// and idle, or has no setting to choose.
    pub fn new(
        sysroot: &Sysroot,
        target: &str,
        array: DetectedArray,
        state: AutoState,
        options: AutoOptions,
    ) -> Result<AutoTune, Diagnostic> {
        let now = TunePlan::setting_in_force(sysroot, &array)?;
        let set = alternatives(sysroot, &array, &now)?;
        let group = group_of(sysroot, &array);
        let devids = group.disks.iter().map(|disk| disk.devid);
        if !devids.eq(array.members.iter().map(|member| Some(member.devid))) {
            let what = format!("members of {} are missing, or share a disk", array.name);
            let help = "--auto needs a disk of its own for each member";
            return Err(Diagnostic::new(what).with_help(help));
        }
        let identity = array_identifiers(sysroot, &array);
        let is_same = state.array == identity.to_string();
        let state = if is_same { state } else { AutoState::default() };
        let mut known: BTreeMap<_, _> = state.disks.into_iter().zip(state.histories).collect();
        let disks = group
            .disks
            .iter()
            .map(|disk| (disk.facts(), known.remove(&disk.history_key()).unwrap_or_default()));
        let judge = Judge::new(disks);
        let all: Vec<ReadSetting> = set.all.iter().map(|(it, _)| it.clone()).collect();
        let controller = Controller::new(all, set.cost.limits(), state.memory);
        let plan = TunePlan::of_knobs(sysroot, target, array, &now, planned(&set, 0));
        check_condition(&plan.array, "changed")?;
        let lock = options.applies.then(|| plan.lock(journal::OF_AUTO)).transpose()?;
        let lock = lock.map(|(lock, _)| lock);
        let (changed, last) = (None, None);
        Ok(AutoTune {
            plan,
            lock,
            set,
            group,
            judge,
            controller,
            options,
            changed,
            last,
            last_said: String::new(),
        })
    }

    /// The disks whose counters the service reads.
    pub fn group(&self) -> &WatchedGroup {
        &self.group
    }

    /// The settings among which it chooses, the usual one first.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.controller.settings().iter().map(|it| it.spec.as_str())
    }

    pub fn setting(&self) -> &str {
        &self.controller.settings()[self.controller.current()].spec
    }

    /// The names of disks that are not read while another can be.
    pub fn avoided(&self) -> Vec<&str> {
        let avoids = &self.controller.settings()[self.controller.current()].avoids;
        let disks = self.group.disks.iter().zip(avoids).filter(|(_, avoided)| **avoided);
        disks.map(|(disk, _)| disk.name.as_str()).collect()
    }

    /// Facts that outlive a restart of the service.
    pub fn state(&self) -> AutoState {
        AutoState {
            memory: self.controller.memory().clone(),
            histories: self.judge.disks().map(|(.., history)| history.clone()).collect(),
            disks: self.group.disks.iter().map(WatchedDisk::history_key).collect(),
            array: self.plan.identity.to_string(),
        }
    }

    /// Judges a sample by its difference to the one before, taken at `now` on a clock that goes on
    /// over restarts of the service. Makes the change that the controller decides. Returns what
    /// happened, if it is something else than in the evaluation before.
    pub fn observe(
        &mut self,
        sample: DiskSample,
        now: Nanos,
    ) -> Result<Option<AutoEvent>, Diagnostic> {
        let Some(last) = self.last.replace(sample.clone()) else { return Ok(None) };
        let windows = sample.windows(&last, &self.group);
        if !self.judge.observe(Nanos(sample.at_ns), self.options.every, &windows) {
            return Ok(None);
        }
        if let Some(changed) = &self.changed {
            changed.check_watchdog()?;
        }
        let members: Vec<MemberReading> = self
            .judge
            .disks()
            .map(|(facts, state, figures, _)| MemberReading::of(facts, state, figures))
            .collect();
        let is_quiet = self.controller.current() == 0 && members.iter().all(|it| !it.is_slow);
        let obstacle = if is_quiet { None } else { self.obstacle() };
        let seen = ArrayReading { now, is_at_rest: obstacle.is_none(), members };
        let decision = match self.options.applies {
            true => self.controller.decide(&seen),
            // Nothing is changed, so nothing is to be judged.
            false => self.controller.clone().decide(&seen),
        };
        self.event(now, decision, obstacle)
    }

    /// Ends the service; returns what was restored. Fails if the setting is to be kept, and that
    /// cannot be recorded.
    pub fn end(mut self) -> Result<Option<RestoreReport>, Diagnostic> {
        let is_usual = self.controller.current() == 0;
        match self.changed.take() {
            Some(changed) if self.options.keeps && !is_usual => changed.leave().map(|()| None),
            Some(mut changed) => Ok(Some(changed.restore())),
            None => Ok(None),
        }
    }

    /// Why the array is not to be touched now.
    fn obstacle(&self) -> Option<String> {
        if let Err(error) = self.plan.check_array() {
            return Some(error.message);
        }
        let values = &self.set.all[self.controller.current()].1;
        let is_foreign = |(knob, value): &(&Knob, &String)| {
            knob.value(&self.plan.sysroot).map_or(true, |shown| shown != **value)
        };
        let mut knobs = self.set.knobs.iter().zip(values);
        let foreign = knobs.find(is_foreign);
        foreign.map(|(knob, _)| format!("another program has changed {}", knob.path))
    }

    fn event(
        &mut self,
        now: Nanos,
        decision: ControlDecision,
        obstacle: Option<String>,
    ) -> Result<Option<AutoEvent>, Diagnostic> {
        let is_slow = |state: DiskState| matches!(state, DiskState::Slow { .. });
        let slow = self.judge.disks().filter(|(_, state, ..)| is_slow(*state));
        let slow = slow.map(|(facts, ..)| facts.name.clone()).collect();
        let mut event = AutoEvent {
            at_s: now.as_secs_f64(),
            array: self.plan.array.name.clone(),
            decision: "stay",
            reason: serde_json::Value::Null,
            setting: self.setting().to_owned(),
            predicted_gain: None,
            measured_gain: None,
            slow,
            error: obstacle,
        };
        match decision {
            ControlDecision::Stay(reason) => event.reason = serde_json::json!(reason),
            ControlDecision::Change { to, reason, predicted_gain, measured_gain } => {
                event.reason = serde_json::json!(reason);
                event.setting = self.controller.settings()[to].spec.clone();
                (event.predicted_gain, event.measured_gain) = (predicted_gain, measured_gain);
                event.decision = if self.options.applies { "change" } else { "would-change" };
                if self.options.applies
                    && let Err(error) = self.change(to)
                {
                    return Err(self.give_up(&error));
                }
            }
        }
        let said = format!("{} {} {:?}", event.decision, event.reason, event.error);
        let is_new = said != self.last_said;
        self.last_said = said;
        Ok(is_new.then_some(event))
    }

    /// Puts an alternative into force.
    fn change(&mut self, to: usize) -> Result<(), Diagnostic> {
        if self.changed.is_none() {
            let changed = self.begin()?;
            self.changed = Some(changed);
        }
        let mut changes: Vec<(&Knob, &String)> =
            self.set.knobs.iter().zip(&self.set.all[to].1).collect();
        if let Some(changed) = &mut self.changed {
            changed.note_setting(&self.set.all[to].0.spec, &changes)?;
        }
        // Marks are cleared first, so that never all members have one.
        changes.sort_by_key(|(knob, value)| knob.kind.is_mark(value));
        for (knob, value) in changes {
            let io = |error: std::io::Error| Diagnostic::new(error.to_string());
            if knob.value(&self.plan.sysroot).map_err(io)? != *value {
                knob.set(&self.plan.sysroot, value).map_err(io)?;
            }
        }
        self.plan.check_array().map(|_| ())
    }

    /// The journal of all that the service may change, and the watchdog.
    fn begin(&mut self) -> Result<ChangedArray, Diagnostic> {
        let lock = self.lock.take();
        let lock = lock.ok_or_else(|| Diagnostic::new("the lock of the array is gone"))?;
        let mut journal = self.plan.journal(None, &self.plan.now)?;
        for (place, planned) in self.plan.knobs.iter().enumerate() {
            let ours = self.set.all.iter().map(|(_, values)| values[place].clone());
            self.plan.add_values(&mut journal, planned, ours)?;
        }
        if let Some(tuned) = &mut journal.tuned {
            tuned.stays = self.options.keeps;
        }
        ChangedArray::new(&self.plan.sysroot, lock, journal, &self.options.watchdog)
    }

    /// Restores what was in force at the start, after a change that could not be made; returns the
    /// error with what was restored.
    fn give_up(&mut self, error: &Diagnostic) -> Diagnostic {
        self.controller.on_failed_change();
        let report = self.changed.take().map(|mut changed| changed.restore().lines());
        let report = report.unwrap_or_default().join("; ");
        let help = if report.is_empty() { "nothing was changed".to_owned() } else { report };
        Diagnostic::new(error.to_string()).with_help(help)
    }
}

fn planned(set: &AlternativeSet, place: usize) -> Vec<PlannedKnob> {
    let values = set.knobs.iter().zip(&set.shown).zip(&set.all[place].1);
    let planned = |((knob, shown), value): ((&Knob, &String), &String)| PlannedKnob {
        knob: knob.clone(),
        shown: shown.clone(),
        value: value.clone(),
    };
    values.map(planned).collect()
}
