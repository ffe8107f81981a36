//! What a model does, measured as a drive would be: fixed workloads in closed loop on a virtual
//! clock.
//!
//! A figure is named `workload/statistic`, such as `randread-qd1/p99`: a row of
//! [`ModelWorkload::all`] and one of [`Statistic::all`]. Published figures of profiles are rows of
//! data in those words, and [`compare`] sets the model beside them. [`demerit`] is the figure of
//! Ruemmler and Wilkes ("An introduction to disk drive modeling", 1994): the root mean square
//! horizontal distance between two latency distributions, here over the published quantiles.
//!
//! Each workload is a set of agents: each keeps so many I/Os in flight over the whole disk. The
//! first agent is the one measured, and what happens before its warm-up has passed is not counted.
//! Non-goal: the host's own cost; the times are the device's.

use crate::model::{Completion, DiskIo, Model};
use crate::profile::{Expectation, ModelProfile};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{KIB, MIB, Nanos};

#[cfg(test)]
mod tests;

/// What a unit counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dimension {
    /// Latency, in seconds.
    Time,
    /// Completions per second.
    Frequency,
    /// Bytes per second.
    Rate,
}

/// A unit that published figures come in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FigureUnit {
    /// As written.
    pub name: &'static str,
    /// What it counts.
    pub dimension: Dimension,
    /// One of it in seconds, per second or bytes per second.
    pub scale: f64,
}

/// A figure read off a run.
#[derive(Clone, Copy, Debug)]
pub struct Statistic {
    /// As written after the slash.
    pub name: &'static str,
    /// What it counts.
    pub dimension: Dimension,
    /// How far a model may be off a published one unless the profile says otherwise: 10 %, for
    /// tails 25 %.
    pub tolerance: f64,
    read: fn(&Observation) -> f64,
}

/// A workload that models and drives are measured with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelWorkload {
    /// As written before the slash.
    pub name: &'static str,
    /// One line for a listing.
    pub summary: &'static str,
    /// I/Os of the measured kind that pass before counting starts: caches fill and empty.
    warm_up: u64,
    /// I/Os counted.
    count: u64,
    measured: Op,
    agents: &'static [Agent],
}

/// What was seen of one workload.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Waits of the I/Os counted.
    pub latencies: Histogram,
    /// Their bytes.
    pub bytes: u64,
    /// From the end of the warm-up to the last of them.
    pub elapsed: Nanos,
}

/// A published figure and the model's own.
#[derive(Clone, Debug)]
pub struct FigureCheck {
    /// The published figure.
    pub expected: Expectation,
    /// The model's, in the same unit.
    pub simulated: f64,
}

/// The distance of a model's latencies from a published distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demerit {
    /// Root mean square distance in seconds.
    pub root_mean_square: f64,
    /// The same as a fraction of the published mean.
    pub fraction_of_mean: f64,
}

/// Who issues I/O: so many in flight, each replaced as it completes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Agent {
    op: Op,
    pattern: Pattern,
    block_bytes: u64,
    depth: u64,
    /// After this many writes comes a flush; zero for never.
    flush_every: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Pattern {
    /// Anywhere on the disk, on a multiple of the block size.
    Random,
    /// From the first byte on: the outer tracks of a disk.
    Sequential,
    /// Sequential runs of 64 MiB at 16 places spread evenly over the disk, so that the rate is
    /// that of a file spread over it.
    Spread,
}

const SPREAD_PLACES: u64 = 16;
const SPREAD_RUN_BYTES: u64 = 64 * MIB;

const UNITS: [FigureUnit; 6] = [
    FigureUnit { name: "IOPS", dimension: Dimension::Frequency, scale: 1.0 },
    FigureUnit { name: "ns", dimension: Dimension::Time, scale: 1e-9 },
    FigureUnit { name: "us", dimension: Dimension::Time, scale: 1e-6 },
    FigureUnit { name: "ms", dimension: Dimension::Time, scale: 1e-3 },
    FigureUnit { name: "MB/s", dimension: Dimension::Rate, scale: 1e6 },
    FigureUnit { name: "GB/s", dimension: Dimension::Rate, scale: 1e9 },
];

const STATISTICS: [Statistic; 9] = [
    Statistic::new("iops", Dimension::Frequency, 0.1, |seen| seen.per_second(seen.count())),
    Statistic::new("rate", Dimension::Rate, 0.1, |seen| seen.per_second(seen.bytes as f64)),
    Statistic::new("mean", Dimension::Time, 0.1, |seen| seen.latencies.mean().as_secs_f64()),
    Statistic::new("p50", Dimension::Time, 0.1, |seen| seen.quantile(0.5)),
    Statistic::new("p90", Dimension::Time, 0.25, |seen| seen.quantile(0.9)),
    Statistic::new("p95", Dimension::Time, 0.25, |seen| seen.quantile(0.95)),
    Statistic::new("p99", Dimension::Time, 0.25, |seen| seen.quantile(0.99)),
    Statistic::new("p99.9", Dimension::Time, 0.25, |seen| seen.quantile(0.999)),
    Statistic::new("p99.99", Dimension::Time, 0.25, |seen| seen.quantile(0.9999)),
];

const WORKLOADS: [ModelWorkload; 20] = [
    ModelWorkload::new(
        "randread-qd1",
        "random 4 KiB reads, one at a time",
        &[Agent::random_reads(1)],
    ),
    ModelWorkload::new(
        "randread-qd4",
        "random 4 KiB reads, 4 in flight",
        &[Agent::random_reads(4)],
    ),
    ModelWorkload::new(
        "randread-qd16",
        "random 4 KiB reads, 16 in flight",
        &[Agent::random_reads(16)],
    ),
    ModelWorkload::new(
        "randread-qd32",
        "random 4 KiB reads, 32 in flight",
        &[Agent::random_reads(32)],
    ),
    ModelWorkload::new(
        "randread-qd128",
        "random 4 KiB reads, 128 in flight",
        &[Agent::random_reads(128)],
    ),
    ModelWorkload::new(
        "randread-qd512",
        "random 4 KiB reads, 512 deep",
        &[Agent::random_reads(512)],
    ),
    ModelWorkload::new(
        "randwrite-qd1",
        "random 4 KiB writes, one at a time",
        &[Agent::random_writes(1, 0)],
    )
    .lasting(24_000, 20_000),
    ModelWorkload::new(
        "randwrite-qd32",
        "random 4 KiB writes, 32 in flight",
        &[Agent::random_writes(32, 0)],
    )
    .lasting(24_000, 20_000),
    ModelWorkload::new(
        "randwrite-steady",
        "the same, caches long full",
        &[Agent::random_writes(32, 0)],
    )
    .lasting(60_000, 40_000),
    ModelWorkload::new(
        "randwrite-fsync",
        "a flush after each write",
        &[Agent::random_writes(1, 1)],
    ),
    ModelWorkload::new(
        "seqread-1m",
        "sequential 1 MiB reads from the start, 4 in flight",
        &[Agent::sequential(Op::Read, Pattern::Sequential, 4)],
    )
    .lasting(200, 2_000),
    ModelWorkload::new(
        "seqread-spread",
        "sequential 1 MiB reads at 16 places over the disk",
        &[Agent::sequential(Op::Read, Pattern::Spread, 4)],
    )
    .lasting(0, SPREAD_PLACES * SPREAD_RUN_BYTES / MIB),
    ModelWorkload::new(
        "seqread-128k",
        "sequential 128 KiB reads, 32 deep",
        &[Agent::deep(Op::Read)],
    ),
    ModelWorkload::new(
        "seqwrite-128k",
        "sequential 128 KiB writes, 32 deep",
        &[Agent::deep(Op::Write)],
    ),
    ModelWorkload::new(
        "seqwrite-1m",
        "sequential 1 MiB writes from the start, 4 in flight",
        &[Agent::sequential(Op::Write, Pattern::Sequential, 4)],
    )
    .lasting(1_000, 2_000),
    ModelWorkload::new(
        "seqwrite-spread",
        "sequential 1 MiB writes at 16 places over the disk",
        &[Agent::sequential(Op::Write, Pattern::Spread, 4)],
    )
    .lasting(0, SPREAD_PLACES * SPREAD_RUN_BYTES / MIB),
    ModelWorkload::new(
        "flush-after-1",
        "a flush after each random 4 KiB write",
        &[Agent::random_writes(1, 1)],
    )
    .measuring_flushes(1_000),
    ModelWorkload::new(
        "flush-after-8",
        "a flush after every 8 random 4 KiB writes",
        &[Agent::random_writes(1, 8)],
    )
    .measuring_flushes(300),
    ModelWorkload::new(
        "flush-after-64",
        "a flush after every 64 random 4 KiB writes",
        &[Agent::random_writes(1, 64)],
    )
    .measuring_flushes(100),
    ModelWorkload::new(
        "randread-beside-fsync",
        "random 4 KiB reads beside a write and flush loop",
        &[Agent::random_reads(1), Agent::random_writes(1, 1)],
    ),
];

impl FigureUnit {
    /// Every unit, in a fixed order.
    pub fn all() -> &'static [FigureUnit] {
        &UNITS
    }
}

impl Statistic {
    /// Every statistic, in a fixed order.
    pub fn all() -> &'static [Statistic] {
        &STATISTICS
    }

    /// Its value in seconds, per second or bytes per second.
    pub fn read(&self, seen: &Observation) -> f64 {
        (self.read)(seen)
    }

    const fn new(
        name: &'static str,
        dimension: Dimension,
        tolerance: f64,
        read: fn(&Observation) -> f64,
    ) -> Statistic {
        Statistic { name, dimension, tolerance, read }
    }
}

/// A statistic is its name.
impl PartialEq for Statistic {
    fn eq(&self, other: &Statistic) -> bool {
        self.name == other.name
    }
}

impl ModelWorkload {
    /// Every workload, in a fixed order.
    pub fn all() -> &'static [ModelWorkload] {
        &WORKLOADS
    }

    /// The workload called `name`.
    pub fn named(name: &str) -> Option<&'static ModelWorkload> {
        WORKLOADS.iter().find(|row| row.name == name)
    }

    const fn new(
        name: &'static str,
        summary: &'static str,
        agents: &'static [Agent],
    ) -> ModelWorkload {
        let measured = agents[0].op;
        ModelWorkload { name, summary, warm_up: 4_000, count: 20_000, measured, agents }
    }

    const fn lasting(mut self, warm_up: u64, count: u64) -> ModelWorkload {
        self.warm_up = warm_up;
        self.count = count;
        self
    }

    const fn measuring_flushes(mut self, count: u64) -> ModelWorkload {
        self.measured = Op::Flush;
        self.lasting(count / 10, count)
    }
}

impl Agent {
    const fn random_reads(depth: u64) -> Agent {
        let pattern = Pattern::Random;
        Agent { op: Op::Read, pattern, block_bytes: 4 * KIB, depth, flush_every: 0 }
    }

    const fn random_writes(depth: u64, flush_every: u64) -> Agent {
        let pattern = Pattern::Random;
        Agent { op: Op::Write, pattern, block_bytes: 4 * KIB, depth, flush_every }
    }

    const fn sequential(op: Op, pattern: Pattern, depth: u64) -> Agent {
        Agent { op, pattern, block_bytes: MIB, depth, flush_every: 0 }
    }

    /// As datasheets of solid-state disks measure sequential rates.
    const fn deep(op: Op) -> Agent {
        Agent { block_bytes: 128 * KIB, ..Agent::sequential(op, Pattern::Sequential, 32) }
    }
}

impl Observation {
    fn count(&self) -> f64 {
        self.latencies.count() as f64
    }

    fn per_second(&self, amount: f64) -> f64 {
        amount / self.elapsed.as_secs_f64()
    }

    fn quantile(&self, fraction: f64) -> f64 {
        self.latencies.quantile(fraction).as_secs_f64()
    }
}

impl FigureCheck {
    /// Simulated minus expected, as a fraction of expected.
    pub fn deviation(&self) -> f64 {
        self.simulated / self.expected.value - 1.0
    }

    /// Whether the model is within the tolerance.
    pub fn holds(&self) -> bool {
        self.deviation().abs() <= self.expected.tolerance
    }
}

/// Runs one workload on a fresh model of `profile`.
pub fn observe(profile: &ModelProfile, workload: &ModelWorkload, seed: u64) -> Observation {
    let mut model = profile.build(seed);
    WorkloadRun::new(workload, profile.capacity_bytes, seed).run(model.as_mut())
}

/// Sets the model beside every figure its profile is held to, running each workload once.
pub fn compare(profile: &ModelProfile, seed: u64) -> Vec<FigureCheck> {
    let mut runs: Vec<(&str, Observation)> = Vec::new();
    let expectations = profile.expectations.iter();
    let comparisons = expectations.map(|expected| {
        let workload = expected.workload;
        let known = runs.iter().position(|(name, _)| *name == workload.name);
        let run = known.unwrap_or_else(|| {
            runs.push((workload.name, observe(profile, workload, seed)));
            runs.len() - 1
        });
        let simulated = expected.statistic.read(&runs[run].1) / expected.unit.scale;
        FigureCheck { expected: expected.clone(), simulated }
    });
    comparisons.collect()
}

/// The demerit figure of `simulated` against published `quantiles`, (fraction, seconds) with both
/// rising. Each quantile stands for the share of I/Os nearer to it than to its neighbours, so that
/// a table dense in the tail does not make the tail heavier than it is.
///
/// # Panics
/// If `quantiles` is empty.
pub fn demerit(quantiles: &[(f64, f64)], simulated: &Histogram) -> Demerit {
    assert!(!quantiles.is_empty(), "a distribution has quantiles");
    let border = |left: f64, right: f64| (left + right) / 2.0;
    let (mut squares, mut mean, mut from) = (0.0, 0.0, 0.0);
    for (at, &(fraction, published)) in quantiles.iter().enumerate() {
        let to = quantiles.get(at + 1).map_or(1.0, |next| border(fraction, next.0));
        let distance = simulated.quantile(fraction).as_secs_f64() - published;
        squares += (to - from) * distance * distance;
        mean += (to - from) * published;
        from = to;
    }
    let root_mean_square = squares.sqrt();
    Demerit { root_mean_square, fraction_of_mean: root_mean_square / mean }
}

/// A run of one workload: the agents' progress and what is in flight.
struct WorkloadRun<'a> {
    workload: &'a ModelWorkload,
    capacity_bytes: u64,
    rng: Rng,
    /// By agent: I/Os issued.
    issued: Vec<u64>,
    /// By tag: the agent, what it asked, and when. Freed tags are used again.
    in_flight: Vec<AgentIo>,
    counted: Observation,
    ended: u64,
}

#[derive(Clone, Copy)]
struct AgentIo {
    agent: usize,
    op: Op,
    length: u64,
    submitted_at: Nanos,
}

impl WorkloadRun<'_> {
    fn new(workload: &ModelWorkload, capacity_bytes: u64, seed: u64) -> WorkloadRun<'_> {
        WorkloadRun {
            workload,
            capacity_bytes,
            rng: Rng::stream(seed, workload.name),
            issued: vec![0; workload.agents.len()],
            in_flight: Vec::new(),
            counted: Observation {
                latencies: Histogram::default(),
                bytes: 0,
                elapsed: Nanos::ZERO,
            },
            ended: 0,
        }
    }

    fn run(mut self, model: &mut dyn Model) -> Observation {
        for (agent, row) in self.workload.agents.iter().enumerate() {
            for _ in 0..row.depth {
                let tag = self.in_flight.len();
                let io = self.next_io(agent, tag as u64);
                self.in_flight.push(AgentIo::new(agent, &io, Nanos::ZERO));
                model.submit(Nanos::ZERO, io);
            }
        }
        let mut completions = Vec::new();
        let mut counting_since = Nanos::ZERO;
        while self.ended < self.workload.warm_up + self.workload.count {
            let now = model.next_event().expect("agents keep I/O in flight");
            model.advance(now, &mut completions);
            for completion in completions.drain(..) {
                self.note(&completion, &mut counting_since);
                let tag = completion.tag as usize;
                let agent = self.in_flight[tag].agent;
                let io = self.next_io(agent, completion.tag);
                self.in_flight[tag] = AgentIo::new(agent, &io, now);
                model.submit(now, io);
            }
        }
        self.counted
    }

    fn note(&mut self, completion: &Completion, counting_since: &mut Nanos) {
        let flight = self.in_flight[completion.tag as usize];
        if flight.agent != 0 || flight.op != self.workload.measured {
            return;
        }
        self.ended += 1;
        if self.ended <= self.workload.warm_up {
            *counting_since = completion.at;
            return;
        }
        self.counted.latencies.record(completion.at.saturating_sub(flight.submitted_at));
        self.counted.bytes += flight.length;
        self.counted.elapsed = completion.at.saturating_sub(*counting_since);
    }

    fn next_io(&mut self, agent: usize, tag: u64) -> DiskIo {
        let row = &self.workload.agents[agent];
        let sequence = self.issued[agent];
        self.issued[agent] += 1;
        if row.flush_every > 0 && sequence % (row.flush_every + 1) == row.flush_every {
            return DiskIo { tag, op: Op::Flush, offset: 0, length: 0 };
        }
        let blocks = self.capacity_bytes / row.block_bytes;
        let block = match row.pattern {
            Pattern::Random => self.rng.below(blocks),
            Pattern::Sequential => sequence % blocks,
            Pattern::Spread => {
                let run = SPREAD_RUN_BYTES / row.block_bytes;
                let place = sequence / run % SPREAD_PLACES;
                place * (blocks / SPREAD_PLACES) + sequence % run
            }
        };
        DiskIo { tag, op: row.op, offset: block * row.block_bytes, length: row.block_bytes }
    }
}

impl AgentIo {
    fn new(agent: usize, io: &DiskIo, submitted_at: Nanos) -> AgentIo {
        AgentIo { agent, op: io.op, length: io.length, submitted_at }
    }
}
