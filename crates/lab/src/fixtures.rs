//! Plans and runs made up for tests: no disk model, no clock.

use crate::experiment::build::BuildIdentity;
use crate::experiment::environment::Environment;
use crate::experiment::executor::Executor;
use crate::experiment::plan::{Cell, Choices, JobSource, Pace, Plan, Source};
use crate::experiment::record::CellRecord;
use crate::experiment::study::{CellSummary, Study};
use anyhow::{Result, bail};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::policy::Counter;
use mirrorball_core::units::Nanos;
use mirrorball_sim::record::{
    DirectionResult, Interval, MemberInterval, MemberResult, RunRecord, Sample, SectionResult,
};
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
    /// Reads that failed.
    pub(crate) errors: u64,
}

impl Achieved {
    /// Reads only, half of them from each member.
    pub(crate) fn reads(reads: u64) -> Achieved {
        let latency_us = 10_000_000 / reads.max(1);
        Achieved { reads, latency_us, first_percent: 50, writes: 0, errors: 0 }
    }
}

pub(crate) fn source(name: &str) -> Source {
    Source {
        name: name.to_owned(),
        text: format!("text of {name}\n"),
        fingerprint: format!("fingerprint of {name}"),
    }
}

pub(crate) fn plan(jobs: &[&str], policies: &[&str], repeats: u32) -> Plan {
    let choices = Choices {
        policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
        repeats,
        seed: 1,
        duration_ns: None,
    };
    let job = |name: &&str| JobSource { source: source(name), pace: Pace::Array };
    let jobs = jobs.iter().map(job).collect();
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

pub(crate) fn record(achieved: Achieved) -> RunRecord {
    let Achieved { reads, latency_us, first_percent, writes, errors } = achieved;
    let measured = Nanos::from_secs(10);
    let direction = |count, errors| DirectionResult {
        bytes: count * 4096,
        errors,
        latency: latencies(count, latency_us),
    };
    let member = |devid, reads| MemberResult {
        devid,
        foreground_reads: reads,
        reads,
        writes,
        read_bytes: reads * 4096,
        written_bytes: writes * 4096,
        errors: 0,
        wait: Nanos::ZERO,
        busy: Nanos::ZERO,
        extra_reads: 0,
        cancelled_reads: 0,
        read_wait: latencies(reads, latency_us),
    };
    let counter = |value| Counter { member: Some(MemberIndex(1)), name: "ignored", value };
    let first = reads * first_percent / 100;
    let interval = |from, value| Interval {
        from: Nanos::from_secs(from),
        width: Nanos::from_secs(5),
        read_bytes: reads * 2048,
        read_latency: latencies(reads / 2, latency_us),
        members: vec![MemberInterval { reads: first / 2, ..MemberInterval::default() }; 2],
        counters: vec![counter(value)],
    };
    let sample = |number: u64| Sample {
        at: Nanos::from_millis(number),
        member: MemberIndex((number % 2) as u16),
        offset: number * 4096,
        length: 4096,
        wait: Nanos::from_micros(latency_us),
    };
    let mut job = SectionResult { name: "reader".to_owned(), measured, ..SectionResult::default() };
    job.read = direction(reads, errors);
    job.write = direction(writes, 0);
    RunRecord {
        measured,
        sections: vec![job],
        members: vec![member(1, first), member(4, reads - first)],
        intervals: vec![interval(0, 3), interval(5, 7)],
        samples: (0..reads.min(2048)).map(sample).collect(),
        counters: vec![counter(7)],
        background_bytes: 0,
        member_ios: reads + 2 * writes,
    }
}

/// A study of what `achieve` makes up for each cell.
pub(crate) fn study(plan: &Plan, achieve: impl Fn(&Cell<'_>) -> Achieved) -> Study {
    let summary = |cell: &Cell<'_>| {
        let record = CellRecord::new(cell, &record(achieve(cell)));
        CellSummary::new(&record).expect("a made-up record is whole")
    };
    Study::new(plan.clone(), plan.cells().iter().map(summary).collect())
}

/// Makes records up and remembers what it was asked.
#[derive(Debug, Default)]
pub(crate) struct MockExecutor {
    /// File names of the cells that were run, in the order of their starts.
    pub(crate) runs: Mutex<Vec<String>>,
    /// The policy whose cells fail.
    pub(crate) failing_policy: Option<&'static str>,
}

impl MockExecutor {
    pub(crate) fn run_count(&self) -> usize {
        self.runs.lock().unwrap().len()
    }
}

impl Executor for MockExecutor {
    fn run(&self, cell: &Cell<'_>) -> Result<RunRecord> {
        self.runs.lock().unwrap().push(cell.file_name());
        if Some(cell.policy) == self.failing_policy {
            bail!("the mock fails as configured");
        }
        let reads = 400 + 100 * cell.policy.len() as u64 + cell.seed;
        Ok(record(Achieved::reads(reads)))
    }
}
