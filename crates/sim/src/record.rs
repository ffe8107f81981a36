//! The record of a run: what was measured, and the data of every table and chart.
//!
//! A simulation, a benchmark and an import make the same record, and it is saved as it is (`lab`
//! adds which cell it is). Series over time are stored by column, one list per quantity, which is a
//! third of the size of one object per point.
//!
//! Derived figures (rates, percentiles) stand with the counts and bins that they are derived from,
//! for people who read a saved record.

mod latency;
mod nanoseconds;

pub use latency::{CoarseLatency, Percentiles, QUANTILES};

use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::{MIB, Nanos};
use mirrorball_disk::cache_tier::CacheTierCounts;
use mirrorball_disk::controller::ControllerCounts;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of intervals of a simulated run.
pub const INTERVALS_MAX: usize = 96;
/// Width of an interval at the start of a run.
pub const INTERVAL_MIN: Nanos = Nanos::from_millis(250);
/// Maximum number of samples of a simulated run.
pub const SAMPLES_MAX: usize = 2048;

/// The results of one run of one policy. What another program does not measure is absent: members,
/// intervals, samples and counters may be empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct RunRecord {
    /// Length of the measured window: end of the ramp to the last foreground completion.
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub measured: Nanos,
    /// One per job section, its clones together, in the order of the file.
    pub sections: Vec<SectionRecord>,
    /// One per member, over the measured window.
    pub members: Vec<MemberRecord>,
    /// The whole run over time, ramp included.
    #[serde(default, skip_serializing_if = "IntervalsRecord::is_empty")]
    pub intervals: IntervalsRecord,
    /// Reads of foreground jobs, evenly thinned.
    #[serde(default, skip_serializing_if = "SamplesRecord::is_empty")]
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
    /// Counters of the cache tier in front of the array; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_cache: Option<CacheTierCounts>,
    /// Counters of the controller in front of the array; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerCounts>,
}

/// Figures of one job section within its measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SectionRecord {
    /// The section's name.
    pub name: String,
    /// When its measured window begins: the end of its ramp, on the clock of the run.
    #[serde(rename = "from_ns", with = "nanoseconds")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub from: Nanos,
    /// Length of its measured window: to its last completion, or its whole runtime if it ended
    /// early because a request failed.
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub measured: Nanos,
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
    #[serde(default, skip_serializing_if = "DirectionRecord::is_idle")]
    pub read: DirectionRecord,
    /// Writes, if there were any.
    #[serde(default, skip_serializing_if = "DirectionRecord::is_idle")]
    pub write: DirectionRecord,
    /// Trims, if there were any.
    #[serde(default, skip_serializing_if = "DirectionRecord::is_idle")]
    pub trim: DirectionRecord,
    /// Flushes, if there were any.
    #[serde(default, skip_serializing_if = "DirectionRecord::is_idle")]
    pub flush: DirectionRecord,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IoKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Trims (discards).
    Trim,
    /// Flushes (fsync and fdatasync).
    Fsync,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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
    #[serde(with = "latency")]
    #[cfg_attr(feature = "schema", schemars(with = "latency::SavedBins"))]
    pub latency: Histogram,
    /// Read off those bins. Where there are none, zeros but for a mean that another program stated.
    pub percentiles: Percentiles,
}

/// One member over the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MemberRecord {
    /// Devid of the member.
    pub devid: u64,
    /// Reads for foreground requests.
    pub foreground_reads: u64,
    /// Part of all members' foreground reads, 0 to 1.
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
    /// Sum of the waits of all reads and writes; zero if it was not measured.
    #[serde(rename = "wait_ns", default, with = "nanoseconds")]
    #[serde(skip_serializing_if = "nanoseconds::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub wait: Nanos,
    /// Time with I/O in flight; zero if it was not measured.
    #[serde(rename = "busy_ns", default, with = "nanoseconds")]
    #[serde(skip_serializing_if = "nanoseconds::is_zero")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub busy: Nanos,
}

/// The run in consecutive intervals, by column: every array has one entry per interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct IntervalsRecord {
    /// When each starts.
    pub from_us: Vec<u64>,
    /// How long each is.
    pub width_us: Vec<u64>,
    /// Bytes read by foreground jobs.
    pub read_bytes: Vec<u64>,
    /// Bytes written by foreground jobs, if an imported log has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written_bytes: Vec<u64>,
    /// Latencies of foreground reads that completed in it, 8 bins to the octave.
    pub read_latency: Vec<CoarseLatency>,
    /// One per member.
    pub members: Vec<MemberSeries>,
}

/// One member over time. Mean I/O in flight is `wait_us / width_us` (Little's law).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct MemberSeries {
    /// Devid of the member.
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

/// One counter of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct CounterRecord {
    /// The devid of the member it belongs to, or none for the policy as a whole.
    pub devid: Option<u64>,
    /// Name of the counter.
    pub name: String,
    /// Value of the counter.
    pub value: i64,
}

/// Sampled reads by column, for pictures of offset over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
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

impl IoKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [IoKind; 4] = [IoKind::Read, IoKind::Write, IoKind::Trim, IoKind::Fsync];
    /// Kinds that a score counts. A flush is part of the write stream that waits for it.
    pub const SCORED: [IoKind; 3] = [IoKind::Read, IoKind::Write, IoKind::Trim];

    /// Name in tables, CSV and goals.
    pub fn name(self) -> &'static str {
        match self {
            IoKind::Read => "read",
            IoKind::Write => "write",
            IoKind::Trim => "trim",
            IoKind::Fsync => "fsync",
        }
    }
}

impl RunRecord {
    pub fn sum_of_members(&self, of: fn(&MemberRecord) -> u64) -> u64 {
        self.members.iter().map(of).sum()
    }
}

impl SectionRecord {
    /// End of the measured window.
    pub fn until(&self) -> Nanos {
        self.from.saturating_add(self.measured)
    }

    /// The requests of every kind, in the order of [`IoKind::ALL`].
    pub fn directions(&self) -> [&DirectionRecord; 4] {
        IoKind::ALL.map(|kind| self.direction(kind))
    }

    pub fn direction(&self, kind: IoKind) -> &DirectionRecord {
        match kind {
            IoKind::Read => &self.read,
            IoKind::Write => &self.write,
            IoKind::Trim => &self.trim,
            IoKind::Fsync => &self.flush,
        }
    }

    /// The kind by which the section is shown: reads if it makes any, else writes, else trims.
    pub fn main_kind(&self) -> Option<IoKind> {
        IoKind::SCORED.into_iter().find(|&kind| !self.direction(kind).is_idle())
    }
}

impl DirectionRecord {
    /// The record of requests that moved `bytes`, of which `errors` failed and the others took
    /// `latency`, over a window of the length `measured`.
    pub fn new(latency: Histogram, bytes: u64, errors: u64, measured: Nanos) -> DirectionRecord {
        let ios = latency.count();
        DirectionRecord {
            ios,
            bytes,
            errors,
            iops: per_second(ios as f64, measured),
            mib_per_s: per_second(bytes as f64 / MIB as f64, measured),
            percentiles: Percentiles::from(&latency),
            latency,
        }
    }

    /// Returns true if requests succeeded whose latencies are not known one by one: results of
    /// other programs may lack them.
    pub fn lacks_percentiles(&self) -> bool {
        self.ios > 0 && self.latency.count() == 0
    }

    /// Returns true if requests succeeded and not even their mean latency is known.
    pub fn lacks_mean(&self) -> bool {
        self.lacks_percentiles() && self.percentiles.mean_ns == 0
    }

    /// Returns true if there was no request of the kind.
    pub fn is_idle(&self) -> bool {
        self.ios == 0 && self.errors == 0
    }
}

impl IntervalsRecord {
    /// Returns true if there is no interval.
    pub fn is_empty(&self) -> bool {
        self.from_us.is_empty()
    }
}

impl SamplesRecord {
    /// Returns true if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.at_us.is_empty()
    }

    /// Keeps every n-th sample, so that at most `most` remain, spread over the run.
    pub fn thin(&mut self, most: usize) {
        let stride = self.at_us.len().div_ceil(most).max(1);
        let SamplesRecord { at_us, devid, offset_kib, length_kib, wait_us } = self;
        for column in [at_us, devid, offset_kib, length_kib, wait_us] {
            *column = column.iter().copied().step_by(stride).collect();
        }
    }
}

/// `amount` per second of `measured`; zero if nothing was measured.
pub fn per_second(amount: f64, measured: Nanos) -> f64 {
    if measured == Nanos::ZERO { 0.0 } else { amount / measured.as_secs_f64() }
}
