//! Fixed workloads in closed loop on a virtual clock: a model is measured with them as a drive is.
//!
//! A workload is a set of agents. Each agent keeps a number of I/Os in flight over the whole disk.
//! The first agent is the measured one, and its I/Os during the warm-up are not counted.
//!
//! A run has a host overhead: a constant time after each completion, part of the latency, before
//! the agent issues its next I/O. Zero measures at the device.

use crate::model::{DiskIo, Model};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{KIB, MIB, Nanos};
use std::collections::VecDeque;

/// A workload with which models and drives are measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ModelWorkload {
    /// Name in a figure: the part before the slash.
    pub name: &'static str,
    pub summary: &'static str,
    /// Number of I/Os of the measured kind before counting starts, so that caches are full.
    warm_up: u64,
    count: u64,
    measured: Op,
    agents: &'static [Agent],
}

#[derive(Clone, Debug)]
pub struct Observation {
    /// Waits of the counted I/Os.
    pub latencies: Histogram,
    /// Bytes of the counted I/Os.
    pub bytes: u64,
    /// Time from the end of the warm-up to the last counted I/O.
    pub elapsed: Nanos,
}

/// A source of I/O in closed loop: it keeps `depth` I/Os in flight and replaces each one that
/// completes.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Agent {
    op: Op,
    pattern: AddressPattern,
    block_bytes: u64,
    depth: u64,
    /// Number of writes after which it flushes; zero for never.
    flush_every: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum AddressPattern {
    /// Anywhere on the disk, on a multiple of the block size.
    Random,
    /// From the first byte on: the outer tracks of a disk.
    Sequential,
    /// Sequential ranges of 64 MiB at 16 places spread evenly over the disk, so that the rate is
    /// that of a file spread over it.
    Spread,
}

use AddressPattern::{Random, Sequential, Spread};

const SPREAD_PLACES: u64 = 16;

const SPREAD_RUN_BYTES: u64 = 64 * MIB;

const WORKLOADS: [ModelWorkload; 22] = [
    row("randread-qd1", "random 4 KiB reads, one at a time", &[reads(1)]),
    row("randread-qd4", "random 4 KiB reads, 4 in flight", &[reads(4)]),
    row("randread-qd16", "random 4 KiB reads, 16 in flight", &[reads(16)]),
    row("randread-qd32", "random 4 KiB reads, 32 in flight", &[reads(32)]),
    row("randread-qd128", "random 4 KiB reads, 128 in flight", &[reads(128)]),
    row("randread-qd512", "random 4 KiB reads, 512 deep", &[reads(512)]),
    row("randwrite-qd1", "random 4 KiB writes, one at a time", &[writes(1, 0)])
        .lasting(24_000, 20_000),
    row("randwrite-qd4", "random 4 KiB writes, 4 in flight", &[writes(4, 0)])
        .lasting(24_000, 20_000),
    row("randwrite-qd32", "random 4 KiB writes, 32 in flight", &[writes(32, 0)])
        .lasting(24_000, 20_000),
    row(
        "randwrite-steady",
        "random 4 KiB writes, 32 in flight, after the caches are full",
        &[writes(32, 0)],
    )
    .lasting(60_000, 40_000),
    row("randwrite-fsync", "a flush after each write", &[writes(1, 1)]),
    row(
        "seqread-1m",
        "sequential 1 MiB reads from the start, 4 in flight",
        &[sequential(Op::Read, Sequential, 4)],
    )
    .lasting(200, 2_000),
    row(
        "seqread-spread",
        "sequential 1 MiB reads at 16 places over the disk",
        &[sequential(Op::Read, Spread, 4)],
    )
    .lasting(0, SPREAD_PLACES * SPREAD_RUN_BYTES / MIB),
    row("seqread-128k", "sequential 128 KiB reads, 32 deep", &[deep(Op::Read)]),
    row("seqwrite-128k", "sequential 128 KiB writes, 32 deep", &[deep(Op::Write)]),
    row(
        "seqwrite-1m",
        "sequential 1 MiB writes from the start, 4 in flight",
        &[sequential(Op::Write, Sequential, 4)],
    )
    .lasting(1_000, 2_000),
    row(
        "seqwrite-full",
        "sequential 1 MiB writes from the start, 4 in flight, after 180 GB of them",
        &[sequential(Op::Write, Sequential, 4)],
    )
    .lasting(172_000, 2_000),
    row(
        "seqwrite-spread",
        "sequential 1 MiB writes at 16 places over the disk",
        &[sequential(Op::Write, Spread, 4)],
    )
    .lasting(0, SPREAD_PLACES * SPREAD_RUN_BYTES / MIB),
    row("flush-after-1", "a flush after each random 4 KiB write", &[writes(1, 1)])
        .measuring_flushes(1_000),
    row("flush-after-8", "a flush after every 8 random 4 KiB writes", &[writes(1, 8)])
        .measuring_flushes(300),
    row("flush-after-64", "a flush after every 64 random 4 KiB writes", &[writes(1, 64)])
        .measuring_flushes(100),
    row(
        "randread-with-fsync",
        "random 4 KiB reads during a write and flush loop",
        &[reads(1), writes(1, 1)],
    ),
];

/// A workload of 20,000 I/Os after a warm-up of 4,000.
const fn row(name: &'static str, summary: &'static str, agents: &'static [Agent]) -> ModelWorkload {
    let measured = agents[0].op;
    ModelWorkload { name, summary, warm_up: 4_000, count: 20_000, measured, agents }
}

const fn reads(depth: u64) -> Agent {
    Agent { op: Op::Read, pattern: Random, block_bytes: 4 * KIB, depth, flush_every: 0 }
}

const fn writes(depth: u64, flush_every: u64) -> Agent {
    Agent { op: Op::Write, pattern: Random, block_bytes: 4 * KIB, depth, flush_every }
}

const fn sequential(op: Op, pattern: AddressPattern, depth: u64) -> Agent {
    Agent { op, pattern, block_bytes: MIB, depth, flush_every: 0 }
}

/// 128 KiB at depth 32: how data sheets of solid-state disks measure sequential rates.
const fn deep(op: Op) -> Agent {
    Agent { block_bytes: 128 * KIB, ..sequential(op, Sequential, 32) }
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

impl Observation {
    pub(crate) fn count(&self) -> f64 {
        self.latencies.count() as f64
    }

    pub(crate) fn per_second(&self, amount: f64) -> f64 {
        amount / self.elapsed.as_secs_f64()
    }

    pub(crate) fn quantile(&self, fraction: f64) -> f64 {
        self.latencies.quantile(fraction).as_secs_f64()
    }
}

/// A run of one workload: the progress of its agents and the I/Os in flight.
pub(crate) struct WorkloadRun<'a> {
    workload: &'a ModelWorkload,
    capacity_bytes: u64,
    host_overhead: Nanos,
    rng: Rng,
    /// Number of I/Os issued, by agent.
    issued: Vec<u64>,
    /// The I/Os in flight, by tag. A tag is used again after its I/O has completed.
    in_flight: Vec<AgentIo>,
    /// Tags whose I/O the host still handles, with the time at which it is done, in that order.
    returning: VecDeque<(Nanos, u64)>,
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
    /// A run on a disk of `capacity_bytes`, with `host_overhead` for each I/O.
    pub(crate) fn new(
        workload: &ModelWorkload,
        capacity_bytes: u64,
        host_overhead: Nanos,
        seed: u64,
    ) -> WorkloadRun<'_> {
        WorkloadRun {
            workload,
            capacity_bytes,
            host_overhead,
            rng: Rng::stream(seed, workload.name),
            issued: vec![0; workload.agents.len()],
            in_flight: Vec::new(),
            returning: VecDeque::new(),
            counted: Observation {
                latencies: Histogram::default(),
                bytes: 0,
                elapsed: Nanos::ZERO,
            },
            ended: 0,
        }
    }

    pub(crate) fn run(mut self, model: &mut dyn Model) -> Observation {
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
            let returning = self.returning.front().map(|&(at, _)| at);
            let now = match (model.next_event(), returning) {
                (Some(device), Some(host)) => device.min(host),
                (device, host) => device.or(host).expect("agents keep I/O in flight"),
            };
            model.advance(now, &mut completions);
            for completion in completions.drain(..) {
                self.returning.push_back((completion.at + self.host_overhead, completion.tag));
            }
            while let Some(&(at, tag)) = self.returning.front()
                && at <= now
            {
                self.returning.pop_front();
                self.note(at, tag, &mut counting_since);
                let agent = self.in_flight[tag as usize].agent;
                let io = self.next_io(agent, tag);
                self.in_flight[tag as usize] = AgentIo::new(agent, &io, now);
                model.submit(now, io);
            }
        }
        self.counted
    }

    fn note(&mut self, at: Nanos, tag: u64, counting_since: &mut Nanos) {
        let flight = self.in_flight[tag as usize];
        if flight.agent != 0 || flight.op != self.workload.measured {
            return;
        }
        self.ended += 1;
        if self.ended <= self.workload.warm_up {
            *counting_since = at;
            return;
        }
        self.counted.latencies.record(at.saturating_sub(flight.submitted_at));
        self.counted.bytes += flight.length;
        self.counted.elapsed = at.saturating_sub(*counting_since);
    }

    pub(crate) fn next_io(&mut self, agent: usize, tag: u64) -> DiskIo {
        let row = &self.workload.agents[agent];
        let sequence = self.issued[agent];
        self.issued[agent] += 1;
        if row.flush_every > 0 && sequence % (row.flush_every + 1) == row.flush_every {
            return DiskIo { tag, op: Op::Flush, offset: 0, length: 0 };
        }
        let blocks = self.capacity_bytes / row.block_bytes;
        let block = match row.pattern {
            Random => self.rng.below(blocks),
            Sequential => sequence % blocks,
            Spread => {
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
