//! The record of one cell: what is saved, and everything that a report is drawn from.
//!
//! One JSON file holds one [`CellRecord`]. It is versioned ([`SCHEMA_VERSION`]), its schema is
//! published as `docs/result-schema.json`, and it needs no other file: the array and the job that
//! were run, the machine and the seed are inside. Series over time are stored by column, one array
//! per quantity, which is a third of the size of one object per point. `latency` holds the
//! histograms; `soundness` finds damaged records. An executor makes a [`Measurement`] of what it
//! ran.
//!
//! Derived figures (rates, percentiles) are saved with the counts and bins that they are derived
//! from, for people who read the file; [`crate::experiment::study`] computes from the counts and
//! bins alone.

mod latency;
mod soundness;

pub use latency::{CoarseLatency, LatencyRecord, Percentiles, QUANTILES};

pub use crate::experiment::build::PROGRAM_VERSION;

use crate::experiment::build::BuildIdentity;
use crate::experiment::environment::Environment;
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::{MIB, Nanos};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of every structure that is saved. It rises when a field changes its meaning or goes;
/// cells of another version are run again.
pub const SCHEMA_VERSION: u32 = 2;

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
    /// Length of the measured window: end of the ramp to the last foreground completion.
    pub measured_ns: u64,
    /// One per job section, its clones together, in the order of the file.
    pub sections: Vec<SectionRecord>,
    /// One per member, over the measured window.
    pub members: Vec<MemberRecord>,
    /// The whole run over time, ramp included.
    pub intervals: IntervalsRecord,
    /// Reads of foreground jobs, evenly thinned.
    pub samples: SamplesRecord,
    /// The policy's own counters at the end.
    pub counters: Vec<CounterRecord>,
    /// Bytes that background work (defrag, rebuild, scrub) moved.
    pub background_bytes: u64,
    /// I/O to members during the whole run.
    pub member_ios: u64,
    /// Reads for which the policy had more than one mirror to choose from; none if they were not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<u64>,
    /// What the cache tier in front of the array did; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_cache: Option<ArrayCacheRecord>,
    /// What the controller in front of the array did; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerRecord>,
    /// Where the cell comes from if another program measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportRecord>,
}

/// What an executor measured in one cell. [`Cell::record`] adds which cell it is.
///
/// [`Cell::record`]: crate::experiment::plan::Cell::record
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// See [`CellRecord::measured_ns`].
    pub measured_ns: u64,
    /// See [`CellRecord::sections`].
    pub sections: Vec<SectionRecord>,
    /// See [`CellRecord::members`].
    pub members: Vec<MemberRecord>,
    /// See [`CellRecord::intervals`].
    pub intervals: IntervalsRecord,
    /// See [`CellRecord::samples`].
    pub samples: SamplesRecord,
    /// See [`CellRecord::counters`].
    pub counters: Vec<CounterRecord>,
    /// See [`CellRecord::background_bytes`].
    pub background_bytes: u64,
    /// See [`CellRecord::member_ios`].
    pub member_ios: u64,
    /// See [`CellRecord::choices`].
    pub choices: Option<u64>,
    /// See [`CellRecord::array_cache`].
    pub array_cache: Option<ArrayCacheRecord>,
    /// See [`CellRecord::controller`].
    pub controller: Option<ControllerRecord>,
}

/// What another program measured, and how far it says so. What it does not say is absent from the
/// cell: members, intervals, samples and counters may be empty.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// What one job section achieved within its measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SectionRecord {
    /// The section's name.
    pub name: String,
    /// When its measured window begins: the end of its ramp, on the clock of the run.
    pub from_ns: u64,
    /// Length of its measured window: to its last completion, or its whole runtime if it ended
    /// early because a request failed.
    pub measured_ns: u64,
    /// True for background load, which takes no part in the score of the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_background: bool,
    /// True if each kind of request that it makes comes at a rate of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_rate: bool,
    /// Requests per second that it asks for, if it has a rate: reads if it reads, else writes, else
    /// trims. None if the rate is one of bytes and its requests differ in size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_iops: Option<f64>,
    /// How much the write rate changed from the first half of the measured window to the second, as
    /// a fraction of the first; none if it wrote too little to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_rate_change: Option<f64>,
    /// True if it wrote, and the write caches of the disks, of a controller or of the array can
    /// hold all writes of the run, so that its write rate is that of the caches.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes_fit_cache: bool,
    /// Reads, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<DirectionRecord>,
    /// Writes, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<DirectionRecord>,
    /// Trims, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<DirectionRecord>,
    /// Flushes, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<DirectionRecord>,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct DirectionRecord {
    /// Requests that succeeded.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Successful requests per second of the section's measured time.
    pub iops: f64,
    /// MiB per second of the section's measured time.
    pub mib_per_s: f64,
    /// Latency from the intended start to the completion, in fio's bins.
    pub latency: LatencyRecord,
    /// Read off those bins.
    pub percentiles: Percentiles,
}

/// One member over the measured window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MemberRecord {
    /// Its devid.
    pub devid: u64,
    /// Reads for foreground requests.
    pub foreground_reads: u64,
    /// Its part of all members' foreground reads, 0 to 1.
    pub share: f64,
    /// All reads.
    pub reads: u64,
    /// All writes.
    pub writes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// I/O that failed.
    pub errors: u64,
    /// Reads whose data was not wanted because another mirror had answered for the same: what a
    /// policy that reads twice costs.
    #[serde(default)]
    pub extra_reads: u64,
    /// Reads that were withdrawn before the member began them.
    #[serde(default)]
    pub cancelled_reads: u64,
    /// Mean wait of all reads.
    pub read_wait_mean_ns: u64,
    /// Waits of all reads, 8 bins to the octave.
    pub read_wait: CoarseLatency,
}

/// What a cache tier in front of an array did during the whole run, ramp included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ArrayCacheRecord {
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Those that were read from the cache device.
    pub read_hit_bytes: u64,
    /// Bytes of reads, hits excepted, and of writes that bypassed the cache: those of long
    /// sequential streams, and requests larger than the cache.
    pub bypassed_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Those that only the cache device had when the write was complete.
    pub written_to_cache_only_bytes: u64,
    /// Bytes that were written to the cache after they were missed.
    pub inserted_bytes: u64,
    /// Bytes that were copied from the cache to the array.
    pub written_back_bytes: u64,
    /// Copies to the array that failed, so that their data were lost.
    pub failed_write_backs: u64,
}

/// What a controller with a write-back cache did during the whole run, ramp included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ControllerRecord {
    /// Writes copied into its cache.
    pub writes: u64,
    /// Those of them that waited for space in it.
    pub delayed_writes: u64,
    /// Reads that the cache answered.
    pub read_hits: u64,
    /// Full stripes written back; without parity, whole ranges of 1 MiB.
    pub whole_units: u64,
    /// Full stripes, or ranges, of which only a part was written back.
    pub partial_units: u64,
    /// Writes to the volume that failed, so that their data were lost.
    pub failed_write_backs: u64,
}

/// The run in consecutive intervals, by column: every array has one entry per interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct IntervalsRecord {
    /// When each starts.
    pub from_us: Vec<u64>,
    /// How long each is.
    pub width_us: Vec<u64>,
    /// Bytes read by foreground jobs.
    pub read_bytes: Vec<u64>,
    /// Latencies of foreground reads that completed in it, 8 bins to the octave.
    pub read_latency: Vec<CoarseLatency>,
    /// One per member.
    pub members: Vec<MemberSeries>,
    /// One per counter of the policy, as it stood when each interval ended.
    pub counters: Vec<CounterSeries>,
}

/// One member over time. Mean I/O in flight is `wait_us / width_us` (Little's law).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MemberSeries {
    /// Its devid.
    pub devid: u64,
    /// Reads submitted.
    pub reads: Vec<u64>,
    /// Writes submitted.
    pub writes: Vec<u64>,
    /// Bytes of both.
    pub bytes: Vec<u64>,
    /// I/O whose offset is not the end of the one before.
    pub seeks: Vec<u64>,
    /// Sum of the waits of what completed.
    pub wait_us: Vec<u64>,
}

/// One counter of a policy over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CounterSeries {
    /// The devid of the member it belongs to, or none for the policy as a whole.
    pub devid: Option<u64>,
    /// What it counts.
    pub name: String,
    /// Its value at the end of each interval; none where the policy did not show it.
    pub values: Vec<Option<i64>>,
}

/// One counter of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CounterRecord {
    /// The devid of the member it belongs to, or none for the policy as a whole.
    pub devid: Option<u64>,
    /// What it counts.
    pub name: String,
    /// Its value.
    pub value: i64,
}

/// Sampled reads by column, for pictures of offset over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SamplesRecord {
    /// When each was submitted to its member.
    pub at_us: Vec<u64>,
    /// The member's devid.
    pub devid: Vec<u64>,
    /// First byte on the member, in KiB (I/O is in whole sectors of 4 KiB).
    pub offset_kib: Vec<u64>,
    /// Length in KiB.
    pub length_kib: Vec<u64>,
    /// Completion minus submission.
    pub wait_us: Vec<u64>,
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

impl CellRecord {
    /// The sections that read, each with its reads.
    pub fn reads(&self) -> impl Iterator<Item = (&SectionRecord, &DirectionRecord)> + Clone {
        self.sections.iter().filter_map(|section| Some((section, section.read.as_ref()?)))
    }
}

impl DirectionRecord {
    /// The record of requests that moved `bytes`, of which `errors` failed and the others took
    /// `latency`, over a window of `measured_ns`; none if there were no requests.
    pub fn new(
        latency: &Histogram,
        bytes: u64,
        errors: u64,
        measured_ns: u64,
    ) -> Option<DirectionRecord> {
        let ios = latency.count();
        (ios > 0 || errors > 0).then(|| DirectionRecord {
            ios,
            bytes,
            errors,
            iops: per_second(ios as f64, measured_ns),
            mib_per_s: per_second(bytes as f64 / MIB as f64, measured_ns),
            latency: LatencyRecord::from(latency),
            percentiles: Percentiles::from(latency),
        })
    }
}

/// `amount` per second of `measured_ns`; zero if nothing was measured.
pub(crate) fn per_second(amount: f64, measured_ns: u64) -> f64 {
    if measured_ns == 0 { 0.0 } else { amount / Nanos(measured_ns).as_secs_f64() }
}
