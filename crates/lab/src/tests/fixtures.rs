//! Plans and runs made up for tests: no disk model, no clock.

use crate::experiment::build::BuildIdentity;
use crate::experiment::environment::Environment;
use crate::experiment::executor::CellExecutor;
use crate::experiment::plan::{Cell, Choices, InputText, Plan};
use crate::experiment::record::{
    CoarseLatency, CounterRecord, DirectionRecord, IntervalsRecord, MemberRecord, MemberSeries,
    RunRecord, SamplesRecord, SectionRecord,
};
use crate::experiment::study::{CellSummary, Criteria, Study};
use anyhow::{Result, bail};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::Nanos;
use std::sync::Mutex;

/// What a made-up run of 10 s achieves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Achieved {
    /// Reads of 4 KiB; a tenth of them take ten times the latency.
    pub(crate) reads: u64,
    /// Latency of most reads.
    pub(crate) latency_us: u64,
    /// Of 100 foreground reads, those that the first of two members served.
    pub(crate) first_percent: u64,
    /// Writes of 4 KiB.
    pub(crate) writes: u64,
    pub(crate) errors: u64,
}

impl Achieved {
    /// Reads only, half of them from each member.
    pub(crate) fn reads(reads: u64) -> Achieved {
        let latency_us = 10_000_000 / reads.max(1);
        Achieved { reads, latency_us, first_percent: 50, writes: 0, errors: 0 }
    }
}

pub(crate) fn source(name: &str) -> InputText {
    InputText {
        name: name.to_owned(),
        text: format!("text of {name}\n"),
        fingerprint: format!("fingerprint of {name}"),
    }
}

pub(crate) fn plan(jobs: &[&str], policies: &[&str], repeats: u32) -> Plan {
    let choices = Choices {
        policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        seeds: (1..=repeats.into()).collect(),
        duration_ns: None,
    };
    let jobs = jobs.iter().map(|name| source(name)).collect();
    let build = BuildIdentity::with_hash("tests");
    let command = "mirrorball compare".to_owned();
    let mut plan = Plan::new(build, source("pair"), jobs, choices, command);
    plan.environment = Environment {
        host: "host".to_owned(),
        system: "linux x86_64".to_owned(),
        kernel: "6.18".to_owned(),
        cpu: "a CPU".to_owned(),
        cpus: 2,
    };
    plan
}

fn latencies(count: u64, latency_us: u64) -> Histogram {
    let mut histogram = Histogram::default();
    for read in 0..count {
        let factor = if read % 10 == 9 { 10 } else { 1 };
        histogram.record(Nanos::from_micros(latency_us * factor));
    }
    histogram
}

/// A section that reads and writes for 10 s.
pub(crate) fn section(name: &str, achieved: Achieved) -> SectionRecord {
    let measured = Nanos::from_secs(10);
    let direction = |count, errors| {
        let latency = latencies(count, achieved.latency_us);
        DirectionRecord::new(latency, count * 4096, errors, measured)
    };
    SectionRecord {
        name: name.to_owned(),
        measured,
        read: direction(achieved.reads, achieved.errors),
        write: direction(achieved.writes, 0),
        ..SectionRecord::default()
    }
}

pub(crate) fn measurement(achieved: Achieved) -> RunRecord {
    let Achieved { reads, latency_us, first_percent, writes, .. } = achieved;
    let first = reads * first_percent / 100;
    let member = |devid, member_reads: u64| {
        let read_wait = latencies(member_reads, latency_us);
        MemberRecord {
            devid,
            foreground_reads: member_reads,
            share: member_reads as f64 / reads.max(1) as f64,
            reads: member_reads,
            writes,
            read_bytes: member_reads * 4096,
            written_bytes: writes * 4096,
            read_wait_mean_ns: read_wait.mean().0,
            read_wait: CoarseLatency::from(&read_wait),
            ..MemberRecord::default()
        }
    };
    let series = |devid| MemberSeries {
        devid,
        reads: vec![first / 2; 2],
        writes: vec![0; 2],
        bytes: vec![0; 2],
        seeks: vec![0; 2],
        wait_us: vec![0; 2],
    };
    let intervals = IntervalsRecord {
        from_us: vec![0, 5_000_000],
        width_us: vec![5_000_000; 2],
        read_bytes: vec![reads * 2048; 2],
        written_bytes: Vec::new(),
        read_latency: vec![CoarseLatency::from(&latencies(reads / 2, latency_us)); 2],
        members: vec![series(1), series(4)],
    };
    // Evenly thinned as by the simulator: every sixth of 2,048, every read of a few.
    let stride = reads.min(2048).div_ceil(384).max(1);
    let sampled: Vec<u64> = (0..reads.min(2048)).step_by(stride as usize).collect();
    let samples = SamplesRecord {
        at_us: sampled.iter().map(|number| 1_000 * number).collect(),
        devid: sampled.iter().map(|number| if number % 2 == 0 { 1 } else { 4 }).collect(),
        offset_kib: sampled.iter().map(|number| 4 * number).collect(),
        length_kib: vec![4; sampled.len()],
        wait_us: vec![latency_us; sampled.len()],
    };
    RunRecord {
        measured: Nanos::from_secs(10),
        sections: vec![section("reader", achieved)],
        members: vec![member(1, first), member(4, reads - first)],
        intervals,
        samples,
        counters: vec![CounterRecord { devid: Some(4), name: "ignored".to_owned(), value: 7 }],
        member_ios: reads + 2 * writes,
        choices: Some(reads),
        ..RunRecord::default()
    }
}

/// Criteria with the baseline that most of the made-up studies have.
pub(crate) fn criteria() -> Criteria {
    Criteria { baseline: Some("btrfs/pid".to_owned()), ..Criteria::default() }
}

/// A study of what `achieve` makes up for each cell.
pub(crate) fn study(plan: &Plan, achieve: impl Fn(&Cell<'_>) -> Achieved) -> Study {
    study_of(plan, criteria(), |cell| measurement(achieve(cell)))
}

/// A study of the records that `measure` makes up for each cell.
pub(crate) fn study_of(
    plan: &Plan,
    criteria: Criteria,
    measure: impl Fn(&Cell<'_>) -> RunRecord,
) -> Study {
    let summary = |cell: &Cell<'_>| CellSummary::new(cell.record(measure(cell)));
    Study::new(plan.clone(), plan.cells().iter().map(summary).collect(), criteria)
}

/// Makes records up and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct MockExecutor {
    /// File names of the cells that were run, in the order of their starts.
    pub(crate) runs: Mutex<Vec<String>>,
    pub(crate) failing_policy: Option<&'static str>,
}

impl MockExecutor {
    pub(crate) fn run_count(&self) -> usize {
        self.runs.lock().unwrap().len()
    }
}

impl CellExecutor for MockExecutor {
    fn run(&self, cell: &Cell<'_>) -> Result<RunRecord> {
        self.runs.lock().unwrap().push(cell.file_name());
        if Some(cell.policy) == self.failing_policy {
            bail!("the mock fails as configured");
        }
        let reads = 400 + 100 * cell.policy.len() as u64 + cell.seed;
        Ok(measurement(Achieved::reads(reads)))
    }
}
