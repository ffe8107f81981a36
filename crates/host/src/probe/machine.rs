//! The probe as a state machine: it asks for reads and is given their completions.
//!
//! It does no I/O and has no clock, so it measures a model in virtual time and a device in real
//! time by the same code. Its runner calls [`RunningProbe::poll`] until it answers something else
//! than a read, and [`RunningProbe::complete`] for each read that ended.
//!
//! A plan has two stages. A few random reads tell the class of the device, which decides the rest:
//! a device that takes more than [`SLOW_READ`] is read at the same addresses again, and rotates if
//! the gaps between these reads are whole turns of one period.

use super::patterns::{AgentState, Surface};
use super::plan::{
    Budget, DeviceClass, class_steps, identifying_steps, planned_time, revolution_step,
};
use super::recording::{ProbeRead, ReadSample, Recording, StepRecord};
use super::rotation;
use super::statistics::quantile;
use super::step::StepSpec;
use super::track_map::TrackMap;
use super::zones;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use std::collections::VecDeque;

/// Median above which a device may rotate: fast disks take 2 ms for a turn alone.
const SLOW_READ: f64 = 1.5e-3;
/// Share of reads answered by a cache above which more addresses are revisited.
const CACHED_SHARE_MAX: f64 = 0.1;
/// Failed reads after which a probe ends.
const ERRORS_MAX: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProbedDevice {
    pub(super) capacity_bytes: u64,
    /// The class, if the user named it.
    pub(super) class: Option<DeviceClass>,
    /// Whether the kernel knows it as a device behind a network.
    pub(super) is_remote: bool,
    /// Whether the kernel says of a disk with a model name that it rotates.
    pub(super) may_rotate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MachineAction {
    /// Submit a read, and pass its end to [`RunningProbe::complete`] with this slot.
    Read {
        slot: usize,
        read: ProbeRead,
    },
    /// Wait for a completion, and at most until this time.
    WaitUntil(Nanos),
    Wait,
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadEnd {
    pub(super) slot: usize,
    pub(super) at: Nanos,
    /// Whether it succeeded.
    pub(super) is_ok: bool,
    /// Whether all its bytes are equal; `None` if they were not compared.
    pub(super) is_blank: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeProgress {
    pub step: &'static str,
    /// Steps that it measures.
    pub measures: &'static str,
    /// The most that the rest of the plan takes, as far as it is known.
    pub remaining: Nanos,
}

/// See the page of this module.
pub(super) struct RunningProbe {
    subject: ProbedDevice,
    budget: Budget,
    seed: u64,
    steps: VecDeque<StepSpec>,
    running: Option<Running>,
    stage: ProbeStage,
    class: Option<DeviceClass>,
    recording: Recording,
    errors: u64,
    is_stopped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeStage {
    Identify,
    /// With the number of attempts so far.
    Revolution(usize),
    Measure,
}

struct Running {
    spec: StepSpec,
    agents: Vec<AgentState>,
    /// By slot, its agent and what it has in flight.
    slots: Vec<MachineSlot>,
    free: VecDeque<usize>,
    /// A read whose pause is not over.
    held: Option<(usize, ProbeRead, Nanos)>,
    started_at: Nanos,
    issued: u64,
    in_flight: usize,
    /// Samples with the order of their submission.
    samples: Vec<(u64, ReadSample)>,
    record: StepRecord,
}

struct MachineSlot {
    agent: usize,
    idle_since: Nanos,
    /// Order of submission, read, and time of submission.
    in_flight: Option<(u64, ProbeRead, Nanos)>,
}

impl RunningProbe {
    /// A probe that has not begun.
    pub(super) fn new(subject: ProbedDevice, budget: Budget, seed: u64) -> RunningProbe {
        RunningProbe {
            subject,
            budget,
            seed,
            steps: identifying_steps(budget).into(),
            running: None,
            stage: ProbeStage::Identify,
            class: subject.class,
            recording: Recording::default(),
            errors: 0,
            is_stopped: false,
        }
    }

    /// The next action at `now`.
    pub(super) fn poll(&mut self, now: Nanos) -> MachineAction {
        loop {
            if self.running.is_none() && !self.begin_next_step(now) {
                return MachineAction::Finished;
            }
            let Some(running) = &mut self.running else { return MachineAction::Finished };
            match running.next_read(now, self.is_stopped) {
                Some(action) => return action,
                None => self.end_step(),
            }
        }
    }

    pub(super) fn complete(&mut self, end: ReadEnd) {
        let Some(running) = &mut self.running else { return };
        running.complete(end);
        if !end.is_ok {
            self.errors += 1;
            self.is_stopped |= self.errors > ERRORS_MAX;
        }
    }

    /// Asks for no further reads. The probe ends when those in flight have.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Returns true if the runner looks into the blocks that were read.
    pub(super) fn looks_at_contents(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.spec.looks_at_contents)
    }

    pub(super) fn progress(&self, now: Nanos) -> ProbeProgress {
        let rest: u64 = self.steps.iter().map(|spec| spec.limit.time.0).sum();
        let (spec, left) = match &self.running {
            Some(running) => {
                let used = now.saturating_sub(running.started_at);
                (Some(running.spec), running.spec.limit.time.saturating_sub(used))
            }
            None => (None, Nanos::ZERO),
        };
        ProbeProgress {
            step: spec.map_or("", |spec| spec.name),
            measures: spec.map_or("", |spec| spec.measures),
            remaining: Nanos(rest) + left + self.not_planned(),
        }
    }

    /// The most that the steps take that are planned when the class of the device is known.
    fn not_planned(&self) -> Nanos {
        let known = match self.stage {
            ProbeStage::Measure => return Nanos::ZERO,
            ProbeStage::Identify => identifying_steps(self.budget),
            ProbeStage::Revolution(_) => {
                let revolution = revolution_step(self.budget, 0);
                identifying_steps(self.budget).into_iter().chain(revolution).collect()
            }
        };
        let known: u64 = known.iter().map(|spec| spec.limit.time.0).sum();
        let classes = [DeviceClass::Hdd, DeviceClass::Ssd, DeviceClass::Network];
        let of_class = |class: DeviceClass| planned_time(class, self.budget);
        let possible = classes.into_iter().filter(|it| self.class.is_none_or(|class| class == *it));
        possible.map(of_class).max().unwrap_or_default().saturating_sub(Nanos(known))
    }

    /// The class of the device; `None` if the probe ended before it was known.
    pub(super) fn class(&self) -> Option<DeviceClass> {
        self.class
    }

    /// Returns true if too many reads failed.
    pub(super) fn has_failed(&self) -> bool {
        self.errors > ERRORS_MAX
    }

    /// Recording so far.
    pub(super) fn into_recording(mut self) -> Recording {
        self.recording.missing.extend(self.steps.iter().map(|spec| spec.name));
        self.recording
    }

    fn begin_next_step(&mut self, now: Nanos) -> bool {
        if self.is_stopped {
            return false;
        }
        if self.steps.is_empty() {
            self.plan_next_stage();
        }
        let Some(spec) = self.steps.pop_front() else { return false };
        let surface =
            Surface { capacity_bytes: self.subject.capacity_bytes, tracks: self.tracks(&spec) };
        let runs = self.recording.steps.len() as u64;
        self.running = Some(Running::new(spec, surface, self.seed.wrapping_add(runs), now));
        true
    }

    /// Where bytes lie, once the rates are known.
    fn tracks(&self, spec: &StepSpec) -> TrackMap {
        let zones = self.recording.step("zones").filter(|_| spec.name == "seek");
        zones
            .and_then(|step| zones::fit(step, self.subject.capacity_bytes))
            .map_or(TrackMap::EVEN, |fit| fit.tracks)
    }

    /// Adds the steps that follow from what was seen so far.
    fn plan_next_stage(&mut self) {
        let stage = self.stage;
        let (stage, steps) = match stage {
            ProbeStage::Identify => match self.subject.class {
                Some(DeviceClass::Hdd) => self.revolution(0),
                None if self.is_slow() => self.revolution(0),
                class => self.measure(class.unwrap_or(self.fast_class())),
            },
            ProbeStage::Revolution(attempt) => {
                let step = self.recording.step("revolution");
                let found = step.map(rotation::fit);
                match found {
                    Some(found) if found.cached_share > CACHED_SHARE_MAX => {
                        self.revolution(attempt + 1)
                    }
                    Some(found) if found.is_rotating() => self.measure(DeviceClass::Hdd),
                    _ => self.measure(self.slow_class()),
                }
            }
            ProbeStage::Measure => (ProbeStage::Measure, Vec::new()),
        };
        self.stage = stage;
        self.steps = steps.into();
    }

    fn revolution(&mut self, attempt: usize) -> (ProbeStage, Vec<StepSpec>) {
        match revolution_step(self.budget, attempt) {
            Some(spec) => (ProbeStage::Revolution(attempt), vec![spec]),
            None => {
                let found = self.recording.step("revolution").map(rotation::fit);
                let rotates = found.is_some_and(|found| found.is_rotating());
                self.measure(if rotates { DeviceClass::Hdd } else { self.slow_class() })
            }
        }
    }

    fn measure(&mut self, class: DeviceClass) -> (ProbeStage, Vec<StepSpec>) {
        self.class = Some(class);
        (ProbeStage::Measure, class_steps(class, self.budget))
    }

    fn is_slow(&self) -> bool {
        let latencies = self.recording.step("glance").map(StepRecord::latencies);
        latencies.is_some_and(|latencies| quantile(&latencies, 0.5) > SLOW_READ)
    }

    fn fast_class(&self) -> DeviceClass {
        if self.subject.is_remote { DeviceClass::Network } else { DeviceClass::Ssd }
    }

    /// The class of a slow device whose reads do not show that it rotates, as where other programs
    /// use the disk.
    fn slow_class(&self) -> DeviceClass {
        let found = if self.subject.may_rotate { DeviceClass::Hdd } else { DeviceClass::Network };
        self.subject.class.unwrap_or(found)
    }

    fn end_step(&mut self) {
        let Some(running) = self.running.take() else { return };
        if self.is_stopped {
            self.recording.missing.push(running.spec.name);
        }
        let record = running.into_record();
        // What an empty device answers is not worth measuring.
        self.is_stopped |= record.blank.is_empty_device();
        self.recording.steps.push(record);
    }
}

impl Running {
    fn new(spec: StepSpec, surface: Surface, seed: u64, now: Nanos) -> Running {
        let mut slots = Vec::new();
        let mut agents = Vec::new();
        for (index, agent) in spec.agents.iter().enumerate() {
            let label = format!("{} {index}", spec.name);
            agents.push(AgentState::new(*agent, surface, Rng::stream(seed, &label)));
            let slot = || MachineSlot { agent: index, idle_since: now, in_flight: None };
            slots.extend((0..agent.depth).map(|_| slot()));
        }
        let record = StepRecord {
            name: spec.name,
            purpose: spec.purpose,
            is_stationary: spec.agents.iter().all(|agent| agent.pattern.is_stationary()),
            depths: spec.agents.iter().map(|agent| agent.depth).collect(),
            samples: Vec::new(),
            errors: 0,
            blank: Default::default(),
        };
        Running {
            free: (0..slots.len()).collect(),
            spec,
            agents,
            slots,
            held: None,
            started_at: now,
            issued: 0,
            in_flight: 0,
            samples: Vec::new(),
            record,
        }
    }

    /// The next action; `None` when the step has ended.
    fn next_read(&mut self, now: Nanos, is_stopped: bool) -> Option<MachineAction> {
        let limit = self.spec.limit;
        let is_over = is_stopped
            || self.issued >= limit.reads
            || now.saturating_sub(self.started_at) >= limit.time;
        if is_over {
            self.free.clear();
            self.held = None;
        }
        let next = self.held.take().or_else(|| self.next_free());
        match next {
            Some((slot, read, due)) if due > now => {
                self.held = Some((slot, read, due));
                Some(MachineAction::WaitUntil(due))
            }
            Some((slot, read, _)) => {
                self.slots[slot].in_flight = Some((self.issued, read, now));
                self.issued += 1;
                self.in_flight += 1;
                Some(MachineAction::Read { slot, read })
            }
            None => (self.in_flight > 0).then_some(MachineAction::Wait),
        }
    }

    /// A free slot with its next read and when that is due. Slots whose pattern has ended are
    /// dropped.
    fn next_free(&mut self) -> Option<(usize, ProbeRead, Nanos)> {
        while let Some(slot) = self.free.pop_front() {
            let MachineSlot { agent, idle_since, .. } = self.slots[slot];
            if let Some(read) = self.agents[agent].next_read() {
                return Some((slot, read, idle_since + read.pause));
            }
        }
        None
    }

    fn complete(&mut self, end: ReadEnd) {
        let slot = &mut self.slots[end.slot];
        let Some((order, read, submitted_at)) = slot.in_flight.take() else { return };
        slot.idle_since = end.at;
        self.in_flight -= 1;
        self.free.push_back(end.slot);
        if let Some(is_blank) = end.is_blank {
            self.record.blank.checked += 1;
            self.record.blank.blank += u64::from(is_blank);
        }
        if !end.is_ok {
            self.record.errors += 1;
            return;
        }
        let sample = ReadSample { agent: slot.agent, read, submitted_at, completed_at: end.at };
        self.samples.push((order, sample));
    }

    fn into_record(mut self) -> StepRecord {
        self.samples.sort_unstable_by_key(|(order, _)| *order);
        self.record.samples = self.samples.into_iter().map(|(_, sample)| sample).collect();
        self.record
    }
}
