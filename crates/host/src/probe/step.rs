//! Steps of a measurement plan: which addresses are read, how many at once, and for how long.

use super::recording::StepPurpose;
use mirrorball_core::units::Nanos;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepSpec {
    pub(super) name: &'static str,
    /// Subject of the step, for people.
    pub(super) measures: &'static str,
    pub(super) purpose: StepPurpose,
    /// Independent readers that run at the same time.
    pub(super) agents: &'static [AgentSpec],
    /// When it ends at the latest.
    pub(super) limit: StepLimit,
    /// Whether the runner looks into the blocks that were read.
    pub(super) looks_at_contents: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AgentSpec {
    /// Which addresses it reads.
    pub(super) pattern: Pattern,
    pub(super) length: u64,
    pub(super) depth: usize,
}

/// When a step ends at the latest; it also ends when its patterns are exhausted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepLimit {
    pub(super) reads: u64,
    /// Time since its first read.
    pub(super) time: Nanos,
}

/// Which addresses an agent reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pattern {
    /// Uniform over a share of the device, as fractions of its size.
    Random { from: f64, to: f64 },
    /// The same `places` in a new random order in each of `rounds`.
    Revisit { places: usize, rounds: usize },
    /// Each of `places` read `times` times in a row.
    Repeat { places: usize, times: usize },
    /// Sequential runs of `run_bytes` at `places` spread evenly over the device.
    Runs { places: usize, run_bytes: u64 },
    /// For each distance, a fraction of the tracks, a chain of `jumps` over it from a random place.
    Jumps { distances: &'static [f64], jumps: usize },
    /// For each number, that many interleaved sequential streams.
    Streams { groups: &'static [StreamGroup] },
    /// `repeats` times for each distance: a read at a random place, a pause, and a read that far
    /// behind its start.
    Ahead { distances: &'static [u64], repeats: usize, pause: Nanos },
    /// One sequential stream from a random place.
    Sequential,
    /// One random place, again and again.
    Same,
    /// Random reads, with a pause before each `burst` of them.
    Bursts { burst: u64, pause: Nanos },
}

impl Pattern {
    /// Whether its reads are alike from the beginning to the end.
    pub(super) fn is_stationary(&self) -> bool {
        matches!(self, Pattern::Random { .. } | Pattern::Same | Pattern::Sequential)
    }
}

/// Interleaved sequential streams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StreamGroup {
    pub(super) streams: usize,
    pub(super) rounds: usize,
}
