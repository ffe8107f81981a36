//! The measurement plans: which steps, for which class of device, with how many reads.
//!
//! Each row has two columns, for a quick and for a full probe. Times are bounds: a step ends when
//! its reads are done. Every step reads other addresses, so that no step finds in a cache what an
//! earlier one read.

use super::recording::StepPurpose::{self, Dropped, Fitted, HeldOut, Measured};
use super::step::{AgentSpec, Pattern, StepLimit, StepSpec, StreamGroup};
use mirrorball_core::units::{KIB, MIB, Nanos};
use serde::Serialize;

/// How much time a probe takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Budget {
    /// At most a minute.
    Quick,
    /// At most ten minutes.
    Full,
}

/// The kind of device, which decides what is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceClass {
    /// A disk that rotates.
    Hdd,
    /// A solid-state disk.
    Ssd,
    /// A device behind a network.
    Network,
}

struct PlanRow {
    name: &'static str,
    measures: &'static str,
    purpose: StepPurpose,
    quick: (&'static [AgentSpec], u64, f64),
    full: (&'static [AgentSpec], u64, f64),
}

const RANDOM: Pattern = Pattern::Random { from: 0.0, to: 1.0 };

const fn agent(pattern: Pattern, length: u64, depth: usize) -> AgentSpec {
    AgentSpec { pattern, length, depth }
}

const fn random_4k(depth: usize) -> AgentSpec {
    agent(RANDOM, 4 * KIB, depth)
}

const fn row(
    name: &'static str,
    measures: &'static str,
    purpose: StepPurpose,
    agents: &'static [AgentSpec],
    quick: (u64, f64),
    full: (u64, f64),
) -> PlanRow {
    PlanRow {
        name,
        measures,
        purpose,
        quick: (agents, quick.0, quick.1),
        full: (agents, full.0, full.1),
    }
}

/// Whatever the device is.
const IDENTIFY: [PlanRow; 2] = [
    row("wake", "nothing: wakes the device up", Dropped, &[random_4k(1)], (20, 0.5), (20, 0.5)),
    row("glance", "what kind of device it is", Measured, &[random_4k(1)], (64, 1.2), (64, 1.2)),
];

/// Addresses that are read again and again; a disk whose cache holds them all is read with more.
const REVOLUTIONS: [PlanRow; 4] = [
    revolution(&[revisit(64, 6)], &[revisit(64, 16)]),
    revolution(&[revisit(128, 4)], &[revisit(128, 8)]),
    revolution(&[revisit(256, 3)], &[revisit(256, 6)]),
    revolution(&[revisit(512, 3)], &[revisit(512, 5)]),
];

const fn revisit(places: usize, rounds: usize) -> AgentSpec {
    agent(Pattern::Revisit { places, rounds }, 4 * KIB, 1)
}

const fn revolution(quick: &'static [AgentSpec], full: &'static [AgentSpec]) -> PlanRow {
    PlanRow {
        name: "revolution",
        measures: "time of a revolution",
        purpose: Measured,
        quick: (quick, u64::MAX, 6.0),
        full: (full, u64::MAX, 20.0),
    }
}

/// Fractions of the tracks, denser where random reads are; zero stands for the shortest jump.
const DISTANCES_QUICK: [f64; 13] =
    [0.0, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.08, 0.15, 0.25, 0.38, 0.52, 0.7, 0.95];
const DISTANCES_FULL: [f64; 25] = [
    0.0, 0.0002, 0.0004, 0.0008, 0.0015, 0.003, 0.006, 0.01, 0.02, 0.035, 0.055, 0.08, 0.11, 0.15,
    0.2, 0.25, 0.31, 0.37, 0.43, 0.5, 0.58, 0.67, 0.77, 0.87, 0.97,
];
const STREAMS_QUICK: [StreamGroup; 6] = [
    StreamGroup { streams: 2, rounds: 16 },
    StreamGroup { streams: 4, rounds: 12 },
    StreamGroup { streams: 8, rounds: 4 },
    StreamGroup { streams: 16, rounds: 4 },
    StreamGroup { streams: 32, rounds: 4 },
    StreamGroup { streams: 64, rounds: 4 },
];
const STREAMS_FULL: [StreamGroup; 7] = [
    StreamGroup { streams: 2, rounds: 100 },
    StreamGroup { streams: 4, rounds: 80 },
    StreamGroup { streams: 8, rounds: 40 },
    StreamGroup { streams: 16, rounds: 20 },
    StreamGroup { streams: 32, rounds: 12 },
    StreamGroup { streams: 64, rounds: 8 },
    StreamGroup { streams: 128, rounds: 4 },
];
const QUICK_STREAMS: Pattern = Pattern::Streams { groups: &STREAMS_QUICK };
const FULL_STREAMS: Pattern = Pattern::Streams { groups: &STREAMS_FULL };

const HDD: [PlanRow; 18] = [
    PlanRow {
        name: "zones",
        measures: "rates from the outer to the inner edge",
        purpose: Measured,
        quick: (&[agent(Pattern::Runs { places: 16, run_bytes: 12 * MIB }, MIB, 2)], u64::MAX, 4.0),
        full: (&[agent(Pattern::Runs { places: 64, run_bytes: 64 * MIB }, MIB, 2)], u64::MAX, 80.0),
    },
    row("random-qd1", "access time", Fitted, &[random_4k(1)], (600, 6.5), (8_000, 105.0)),
    PlanRow {
        name: "seek",
        measures: "seek time by distance",
        purpose: Measured,
        quick: (
            &[agent(Pattern::Jumps { distances: &DISTANCES_QUICK, jumps: 32 }, 4 * KIB, 1)],
            u64::MAX,
            5.2,
        ),
        full: (
            &[agent(Pattern::Jumps { distances: &DISTANCES_FULL, jumps: 128 }, 4 * KIB, 1)],
            u64::MAX,
            50.0,
        ),
    },
    row("random-qd2", "queueing", Fitted, &[random_4k(2)], (u64::MAX, 2.6), (u64::MAX, 30.0)),
    row("random-qd4", "queueing", Fitted, &[random_4k(4)], (u64::MAX, 2.8), (u64::MAX, 30.0)),
    row("random-qd8", "queueing", Fitted, &[random_4k(8)], (u64::MAX, 2.8), (u64::MAX, 30.0)),
    row("random-qd16", "queueing", Fitted, &[random_4k(16)], (u64::MAX, 2.8), (u64::MAX, 30.0)),
    row("random-qd32", "queueing", Fitted, &[random_4k(32)], (u64::MAX, 2.8), (u64::MAX, 30.0)),
    row("size-64k", "transfer", Fitted, &[agent(RANDOM, 64 * KIB, 1)], (60, 1.2), (500, 9.0)),
    row("size-256k", "transfer", Fitted, &[agent(RANDOM, 256 * KIB, 1)], (60, 1.2), (500, 9.0)),
    row("size-1m", "transfer", Fitted, &[agent(RANDOM, MIB, 1)], (60, 1.5), (500, 12.0)),
    row("cached-4k", "command overhead", Measured, &[repeat(4)], (u64::MAX, 0.5), (u64::MAX, 0.5)),
    row("cached-256k", "interface", Measured, &[repeat(256)], (u64::MAX, 0.5), (u64::MAX, 0.5)),
    PlanRow {
        name: "streams",
        measures: "read-ahead and cache segments",
        purpose: Fitted,
        quick: (&[agent(QUICK_STREAMS, 64 * KIB, 1)], u64::MAX, 5.0),
        full: (&[agent(FULL_STREAMS, 64 * KIB, 1)], u64::MAX, 45.0),
    },
    row(
        "segment",
        "size of a cache segment",
        Measured,
        &[ahead(2)],
        (u64::MAX, 3.0),
        (u64::MAX, 4.0),
    ),
    row(
        "streams+random",
        "two streams and random reads",
        HeldOut,
        &[
            agent(Pattern::Sequential, 64 * KIB, 1),
            agent(Pattern::Sequential, 64 * KIB, 1),
            random_4k(1),
        ],
        (u64::MAX, 3.0),
        (u64::MAX, 30.0),
    ),
    row(
        "random-16k-qd6",
        "larger reads queued",
        HeldOut,
        &[agent(RANDOM, 16 * KIB, 6)],
        (u64::MAX, 3.0),
        (u64::MAX, 30.0),
    ),
    row(
        "random-tenth",
        "random reads in a tenth",
        HeldOut,
        &[agent(Pattern::Random { from: 0.3, to: 0.4 }, 4 * KIB, 1)],
        (u64::MAX, 3.0),
        (8_000, 30.0),
    ),
];

/// How much before the end of a segment reads end that look for it.
pub(super) const SEGMENT_SHORT: u64 = 32 * KIB;
/// Distances whose reads end shortly before a segment of a usual size does.
const AHEAD: [u64; 12] = [
    near(128),
    near(192),
    near(256),
    near(384),
    near(512),
    near(768),
    near(1024),
    near(1536),
    near(2048),
    near(3072),
    near(4096),
    near(8192),
];

/// The distance whose read ends [`SEGMENT_SHORT`] before `kib`.
const fn near(kib: u64) -> u64 {
    kib * KIB - 64 * KIB - SEGMENT_SHORT
}

/// The pause is long enough to read the longest distance.
const fn ahead(repeats: usize) -> AgentSpec {
    let pause = Nanos::from_millis(90);
    agent(Pattern::Ahead { distances: &AHEAD, repeats, pause }, 64 * KIB, 1)
}

const fn large(kib: u64, depth: usize) -> AgentSpec {
    agent(RANDOM, kib * KIB, depth)
}

const fn sequential(kib: u64, depth: usize) -> AgentSpec {
    agent(Pattern::Sequential, kib * KIB, depth)
}

const IDLE: Pattern = Pattern::Bursts { burst: 100, pause: Nanos::from_secs(2) };

const QUICK: (u64, f64) = (30_000, 2.0);
const FULL: (u64, f64) = (200_000, 20.0);

const SSD: [PlanRow; 19] = [
    row("contents", "whether it holds data", Measured, &[random_4k(8)], (256, 1.0), (1024, 2.0)),
    row("random-qd1", "read time", Fitted, &[random_4k(1)], (60_000, 8.0), (500_000, 60.0)),
    row("random-qd2", "collisions on dies", Fitted, &[random_4k(2)], QUICK, FULL),
    row("random-qd4", "collisions on dies", Fitted, &[random_4k(4)], QUICK, FULL),
    row("random-qd8", "collisions on dies", Fitted, &[random_4k(8)], QUICK, FULL),
    row("random-qd16", "dies", Fitted, &[random_4k(16)], QUICK, FULL),
    row("random-qd32", "dies", Fitted, &[random_4k(32)], QUICK, FULL),
    row("random-qd64", "greatest rate", Fitted, &[random_4k(64)], QUICK, FULL),
    row("random-qd128", "greatest rate", Fitted, &[random_4k(128)], QUICK, FULL),
    row("random-qd256", "greatest rate", Fitted, &[random_4k(256)], QUICK, FULL),
    row("size-16k", "channel", Fitted, &[large(16, 1)], QUICK, FULL),
    row("size-64k", "channel and link", Fitted, &[large(64, 1)], QUICK, FULL),
    row("size-128k", "link", Fitted, &[large(128, 1)], QUICK, FULL),
    row("size-1m", "link", Fitted, &[large(1024, 1)], QUICK, FULL),
    row("sequential-1m", "link", Measured, &[sequential(1024, 16)], QUICK, FULL),
    row("sequential-4k", "read-ahead", Measured, &[sequential(4, 1)], QUICK, FULL),
    row("idle", "waking up", Measured, &[agent(IDLE, 4 * KIB, 1)], (500, 10.5), (2_500, 55.0)),
    row("random-16k-qd8", "larger reads queued", HeldOut, &[large(16, 8)], QUICK, FULL),
    row("mixed", "small and large reads", HeldOut, &[random_4k(6), large(128, 2)], QUICK, FULL),
];

const NETWORK: [PlanRow; 13] = [
    row("same", "round trip", Measured, &[agent(Pattern::Same, 4 * KIB, 1)], QUICK, FULL),
    row("random-qd1", "latency", Fitted, &[random_4k(1)], (60_000, 8.0), (500_000, 60.0)),
    row("random-qd2", "servers", Fitted, &[random_4k(2)], QUICK, FULL),
    row("random-qd4", "servers", Fitted, &[random_4k(4)], QUICK, FULL),
    row("random-qd8", "servers", Fitted, &[random_4k(8)], QUICK, FULL),
    row("random-qd16", "servers", Fitted, &[random_4k(16)], QUICK, FULL),
    row("random-qd32", "servers", Fitted, &[random_4k(32)], QUICK, FULL),
    row("random-qd64", "servers", Fitted, &[random_4k(64)], QUICK, FULL),
    row("size-64k", "rate", Fitted, &[large(64, 1)], QUICK, FULL),
    row("size-256k", "rate", Fitted, &[large(256, 1)], QUICK, FULL),
    row("size-1m", "rate", Fitted, &[large(1024, 1)], QUICK, FULL),
    row("random-16k-qd8", "larger reads queued", HeldOut, &[large(16, 8)], QUICK, FULL),
    row("mixed", "small and large reads", HeldOut, &[random_4k(4), large(64, 2)], QUICK, FULL),
];

const fn repeat(kib: u64) -> AgentSpec {
    agent(Pattern::Repeat { places: 6, times: 8 }, kib * KIB, 1)
}

impl Budget {
    fn spec(self, row: &PlanRow) -> StepSpec {
        let (agents, reads, seconds) = match self {
            Budget::Quick => row.quick,
            Budget::Full => row.full,
        };
        StepSpec {
            name: row.name,
            measures: row.measures,
            purpose: row.purpose,
            agents,
            limit: StepLimit { reads, time: Nanos::from_secs_f64(seconds) },
            looks_at_contents: row.name == "contents",
        }
    }

    fn specs(self, rows: &[PlanRow]) -> Vec<StepSpec> {
        rows.iter().map(|row| self.spec(row)).collect()
    }
}

/// The first steps, from which the class of the device follows.
pub(super) fn identifying_steps(budget: Budget) -> Vec<StepSpec> {
    budget.specs(&IDENTIFY)
}

/// The step that measures a revolution, with more addresses after each attempt; `None` when there
/// is no further attempt.
pub(super) fn revolution_step(budget: Budget, attempt: usize) -> Option<StepSpec> {
    REVOLUTIONS.get(attempt).map(|row| budget.spec(row))
}

pub(super) fn class_steps(class: DeviceClass, budget: Budget) -> Vec<StepSpec> {
    match class {
        DeviceClass::Hdd => budget.specs(&HDD),
        DeviceClass::Ssd => budget.specs(&SSD),
        DeviceClass::Network => budget.specs(&NETWORK),
    }
}

/// The most time that probing a device of this class takes, apart from further attempts at the
/// revolution.
pub fn planned_time(class: DeviceClass, budget: Budget) -> Nanos {
    let mut steps = identifying_steps(budget);
    if class == DeviceClass::Hdd {
        steps.extend(revolution_step(budget, 0));
    }
    steps.extend(class_steps(class, budget));
    Nanos(steps.iter().map(|spec| spec.limit.time.0).sum())
}
