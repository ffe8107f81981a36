//! Repeats the reads of a step on a model: the same addresses, depths and pauses.
//!
//! Each agent keeps its order and its number of reads in flight; only the times are the model's. A
//! model always has the same seed, so that two sets of parameters are compared on equal chance.

use super::machine::{MachineAction, ReadEnd};
use super::recording::{ProbeRead, ReadSample, StepRecord};
use super::virtual_time::{HostCost, ReadSource, run};
use mirrorball_core::units::Nanos;
use mirrorball_disk::model_array::ModelArray;
use std::collections::VecDeque;

pub(super) const MODEL_SEED: u64 = 1;

/// The reads of a step as a source, and what came of them.
struct RecordedReplay<'a> {
    /// By agent, the reads not yet submitted.
    waiting: Vec<VecDeque<&'a ReadSample>>,
    slots: Vec<ReplaySlot>,
    free: VecDeque<usize>,
    held: Option<(usize, ProbeRead, Nanos)>,
    issued: u64,
    in_flight: usize,
    samples: Vec<(u64, ReadSample)>,
    shift: AddressShift,
}

/// Moves all addresses by the same distance, around the end of the device. Seeks stay as long, but
/// the angles between zones change: another draw of chance for the same workload.
#[derive(Clone, Copy)]
pub(super) struct AddressShift {
    pub(super) bytes: u64,
    pub(super) capacity_bytes: u64,
}

struct ReplaySlot {
    agent: usize,
    idle_since: Nanos,
    in_flight: Option<(u64, ProbeRead, Nanos)>,
}

/// The record that `models` would have given for the first `reads_max` reads of `step`. `host` is
/// added to each read.
pub(super) fn replay(
    step: &StepRecord,
    reads_max: usize,
    shift: AddressShift,
    models: &mut ModelArray,
    host: HostCost,
) -> StepRecord {
    let mut source = RecordedReplay::new(step, reads_max, shift);
    run(&mut source, models, host, MODEL_SEED);
    source.samples.sort_unstable_by_key(|(order, _)| *order);
    let samples = source.samples.into_iter().map(|(_, sample)| sample).collect();
    StepRecord { samples, depths: step.depths.clone(), ..*step }
}

impl AddressShift {
    /// No shift.
    pub(super) const NONE: AddressShift = AddressShift { bytes: 0, capacity_bytes: u64::MAX };

    fn of(&self, read: ProbeRead) -> ProbeRead {
        let last = self.capacity_bytes - read.length;
        let moved = read.offset.saturating_add(self.bytes);
        let offset = if moved > last { (moved - last) / 4096 * 4096 } else { moved };
        ProbeRead { offset, ..read }
    }
}

impl RecordedReplay<'_> {
    fn new(step: &StepRecord, reads_max: usize, shift: AddressShift) -> RecordedReplay<'_> {
        let mut waiting = vec![VecDeque::new(); step.depths.len()];
        for sample in step.samples.iter().take(reads_max) {
            waiting[sample.agent].push_back(sample);
        }
        let slot = |agent| ReplaySlot { agent, idle_since: Nanos::ZERO, in_flight: None };
        let depths = step.depths.iter().enumerate();
        let slots: Vec<ReplaySlot> =
            depths.flat_map(|(agent, depth)| (0..*depth).map(move |_| slot(agent))).collect();
        RecordedReplay {
            waiting,
            free: (0..slots.len()).collect(),
            slots,
            held: None,
            issued: 0,
            in_flight: 0,
            samples: Vec::new(),
            shift,
        }
    }

    fn next_free(&mut self) -> Option<(usize, ProbeRead, Nanos)> {
        while let Some(slot) = self.free.pop_front() {
            let ReplaySlot { agent, idle_since, .. } = self.slots[slot];
            if let Some(sample) = self.waiting[agent].pop_front() {
                let read = self.shift.of(sample.read);
                return Some((slot, read, idle_since + read.pause));
            }
        }
        None
    }
}

impl ReadSource for RecordedReplay<'_> {
    fn poll(&mut self, now: Nanos) -> MachineAction {
        match self.held.take().or_else(|| self.next_free()) {
            Some((slot, read, due)) if due > now => {
                self.held = Some((slot, read, due));
                MachineAction::WaitUntil(due)
            }
            Some((slot, read, _)) => {
                self.slots[slot].in_flight = Some((self.issued, read, now));
                self.issued += 1;
                self.in_flight += 1;
                MachineAction::Read { slot, read }
            }
            None if self.in_flight > 0 => MachineAction::Wait,
            None => MachineAction::Finished,
        }
    }

    fn complete(&mut self, end: ReadEnd) {
        let slot = &mut self.slots[end.slot];
        let Some((order, read, submitted_at)) = slot.in_flight.take() else { return };
        slot.idle_since = end.at;
        let sample = ReadSample { agent: slot.agent, read, submitted_at, completed_at: end.at };
        self.samples.push((order, sample));
        self.in_flight -= 1;
        self.free.push_back(end.slot);
    }
}
