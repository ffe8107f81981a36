//! The record of one cell: what is saved, and everything that a report is drawn from.
//!
//! One JSON file holds one [`CellRecord`]: the record of a run, as an executor returned it, and
//! which cell it is of. It is versioned ([`SCHEMA_VERSION`]), its schema is published as
//! `docs/result-schema.json`, and it needs no other file: the array and the job that were run, the
//! machine and the seed are inside. `soundness` finds damaged records.

mod soundness;

pub use crate::experiment::build::PROGRAM_VERSION;
pub use mirrorball_sim::record::{
    CoarseLatency, CounterRecord, DirectionRecord, IntervalsRecord, IoKind, MemberRecord,
    MemberSeries, Percentiles, QUANTILES, RunRecord, SamplesRecord, SectionRecord, per_second,
};

use crate::experiment::build::BuildIdentity;
use crate::experiment::environment::Environment;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of every structure that is saved. It rises when a field changes its meaning or goes;
/// cells of another version are run again.
pub const SCHEMA_VERSION: u32 = 4;

/// Name under which the oracle's cells are saved and shown.
pub const ORACLE: &str = "oracle";

/// Name of the oracle that is fair to every stream.
pub const FAIR_ORACLE: &str = "oracle-fair";

/// One cell: an array, a job, a policy and a seed, and what came of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CellRecord {
    /// [`SCHEMA_VERSION`] when it was saved.
    pub schema_version: u32,
    /// Build of the program that ran it. An imported cell has no hash of a build.
    pub build: BuildIdentity,
    /// Hash of everything that decides the result: texts, policy, seed, duration and build.
    pub key: String,
    /// Which cell it is.
    pub cell: CellIdentity,
    /// The machine it was run on.
    pub environment: Environment,
    /// The array file.
    pub array_text: String,
    /// The job file.
    pub job_text: String,
    /// What was measured.
    #[serde(flatten)]
    pub run: RunRecord,
    /// Where the cell comes from if another program measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportRecord>,
}

/// What another program measured, and how far it says so. What it does not say is absent from the
/// record of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ImportRecord {
    /// The program and its version, `fio-3.33`.
    pub program: String,
    /// When it ended, in seconds of Unix time.
    pub timestamp_s: Option<u64>,
    /// What the latencies of the sections are.
    pub latency: LatencySource,
    /// What the latencies of the intervals are; none if there are none.
    pub latency_over_time: Option<LatencyOverTime>,
    /// Sections in which the program reports several jobs, with options that are not those of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_several: Vec<String>,
    /// What the members are called there, in the order of their devids. Their devids are counted
    /// from one, and others may have used them too.
    pub disks: Vec<String>,
}

/// What imported latencies are, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LatencySource {
    /// From the intended submission on, in bins.
    TotalBins,
    /// From the submission to the kernel on, in bins.
    CompletionBins,
    /// From the intended submission on, known at a few percentiles only.
    TotalPercentiles,
    /// From the submission to the kernel on, known at a few percentiles only.
    CompletionPercentiles,
    /// None, or a mean only.
    Absent,
}

impl LatencySource {
    /// What is measured, in words; none if nothing is.
    pub fn in_words(self) -> Option<&'static str> {
        match self {
            LatencySource::TotalBins | LatencySource::TotalPercentiles => {
                Some("total latencies (lat)")
            }
            LatencySource::CompletionBins | LatencySource::CompletionPercentiles => {
                Some("completion latencies (clat), without the wait before the submission")
            }
            LatencySource::Absent => None,
        }
    }
}

/// What the imported latencies of an interval are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LatencyOverTime {
    /// One of each request.
    Requests,
    /// Means over a while each: their percentiles are not those of requests.
    Means,
}

/// What names a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CellIdentity {
    /// Name of the array.
    pub array: String,
    /// Name of the job.
    pub job: String,
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// Which repeat, from zero.
    pub repeat: u32,
    /// Its seed; every policy meets the same seeds, hence the same requests.
    pub seed: u64,
    /// The duration that replaced every section's `runtime`, if one was given.
    pub duration_ns: Option<u64>,
}

impl CellIdentity {
    /// The name of a cell's file, without a folder: readable, and unique by the start of its key.
    pub fn file_name(&self, key: &str) -> String {
        let readable = format!("{}.{}.seed-{}", self.job, self.policy, self.seed);
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
        let readable: String = readable.chars().map(safe).take(120).collect();
        let unique: String = key.chars().take(8).collect();
        format!("{readable}.{unique}.json")
    }
}
