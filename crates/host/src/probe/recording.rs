//! Recording of a probe: every read with its times, by step.

use super::statistics::{bootstrap, mean};
use mirrorball_core::units::Nanos;

/// Share of blank blocks above which a device is taken to be empty.
const BLANK_MAX: f64 = 0.2;
/// Blocks of consecutive reads that the interval of a rate is made from.
const RATE_BLOCKS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeRead {
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Idle time of its slot before it is submitted.
    pub(super) pause: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadSample {
    /// Index of the agent that asked for it.
    pub(super) agent: usize,
    pub(super) read: ProbeRead,
    pub(super) submitted_at: Nanos,
    pub(super) completed_at: Nanos,
}

/// Use of the samples of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepPurpose {
    /// Nothing: the device wakes up.
    Dropped,
    /// A closed form.
    Measured,
    /// A closed form, and the simulator is fitted to it.
    Fitted,
    /// Comparison only: no parameter depends on it.
    HeldOut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepRecord {
    pub(super) name: &'static str,
    pub(super) purpose: StepPurpose,
    /// Whether its reads are alike from the beginning to the end.
    pub(super) is_stationary: bool,
    /// Reads in flight, by agent.
    pub(super) depths: Vec<usize>,
    /// The reads in the order of submission, failed ones left out.
    pub(super) samples: Vec<ReadSample>,
    pub(super) errors: u64,
    /// Number of blocks that were looked into, and of those that held only one byte value.
    pub(super) blank: BlankBlocks,
}

/// Blocks whose contents were looked into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlankBlocks {
    /// Number of blocks looked into.
    pub(super) checked: u64,
    /// Number of those whose bytes are all equal.
    pub(super) blank: u64,
}

/// Everything that a probe saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recording {
    /// The steps in the order in which they ran.
    pub(super) steps: Vec<StepRecord>,
    /// Names of the steps that were not run or not finished, because the probe was stopped.
    pub(super) missing: Vec<&'static str>,
}

impl BlankBlocks {
    /// Returns true if the share of blank blocks shows that the device was probably never written.
    pub(super) fn is_empty_device(&self) -> bool {
        self.blank as f64 > BLANK_MAX * self.checked as f64
    }
}

impl ReadSample {
    /// The time from submission to completion, in seconds.
    pub(super) fn latency(&self) -> f64 {
        self.completed_at.saturating_sub(self.submitted_at).as_secs_f64()
    }
}

impl StepRecord {
    /// The latencies in seconds, in the order of submission.
    pub(super) fn latencies(&self) -> Vec<f64> {
        self.samples.iter().map(ReadSample::latency).collect()
    }

    /// Reads per second while all slots were in use: the first reads of every slot and the end,
    /// where slots run empty, do not count. With one slot the time does not count by which the host
    /// was late to submit the next read.
    pub(super) fn reads_per_second(&self) -> f64 {
        let depth: usize = self.depths.iter().sum();
        if depth == 1 && self.is_stationary {
            return 1.0 / mean(&self.latencies()).max(1e-9);
        }
        let counted = self.samples.len().saturating_sub(depth);
        let first = self.samples.first().map_or(Nanos::ZERO, |sample| sample.submitted_at);
        let last = self.samples.last().map_or(Nanos::ZERO, |sample| sample.submitted_at);
        let elapsed = last.saturating_sub(first).as_secs_f64();
        if elapsed > 0.0 { counted as f64 / elapsed } else { 0.0 }
    }

    /// The interval of the rate, by drawing blocks of consecutive reads again.
    pub(super) fn reads_per_second_interval(&self) -> Option<(f64, f64)> {
        let size = self.samples.len().div_ceil(RATE_BLOCKS).max(1);
        let firsts: Vec<Nanos> =
            self.samples.chunks(size).map(|block| block[0].submitted_at).collect();
        let block = |pair: &[Nanos]| vec![pair[1].saturating_sub(pair[0]).as_secs_f64()];
        let blocks: Vec<Vec<f64>> = firsts.windows(2).map(block).collect();
        bootstrap(&blocks, 7, |drawn| Some((size * drawn.len()) as f64 / drawn.iter().sum::<f64>()))
    }
}

impl Recording {
    /// The last record of the step called `name`, if it has samples.
    pub(super) fn step(&self, name: &str) -> Option<&StepRecord> {
        self.steps.iter().rev().find(|step| step.name == name && !step.samples.is_empty())
    }
}
