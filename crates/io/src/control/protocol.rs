//! Requests and responses of the control socket, as the server and its clients share them.
//!
//! A client connects, sends a [`ControlRequest`] as one line of JSON, and reads one line of JSON: a
//! [`ControlResponse`]. Then the server closes the connection.
//!
//! ```text
//! {"request":"rebuild","devid":2,"rate_bytes_per_s":50000000}
//! {"answer":"devid 2 is being rebuilt"}
//! {"error":"there is no member with devid 9","kind":"refused"}
//! ```
//!
//! The answer to [`ControlRequest::Events`] is a line for each event instead, without end if the
//! client follows them.
//!
//! Both sides ignore fields that they do not know, so fields may be added. Times are nanoseconds
//! and sizes bytes, as the names of the fields say.

mod client;
mod event;
mod member;
mod scrub;
mod spare;

pub use crate::conditions::{Condition, ReportedState, Severity};
#[cfg(test)]
pub(super) use client::exchange;
pub use client::{AskError, ask, follow_events};
pub use event::{ServiceEvent, StateChange};
pub use member::{BadBlockRange, MemberError, MemberReport, MemberSummary};
pub use scrub::{OddMember, ReportedScrubState, ScrubAction, ScrubReport};
use serde::{Deserialize, Serialize};
pub use spare::{ReportedSpareState, SpareReport};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Asks what is served, and its conditions; answered with [`ServiceStatus`].
    Status,
    /// The state and counters of all members; answered with a list of [`MemberReport`].
    Members,
    /// Counters, times and policy counters; answered with [`ServiceStats`].
    Stats {
        /// Clears all times after they were read. Counters go on.
        #[serde(default)]
        reset: bool,
    },
    /// The name of the policy; answered with a string.
    Policy,
    /// Uses another policy from the next read on; answered with its name.
    SetPolicy {
        /// Name as `mirrorball policies` lists it, with parameters; or `program:` and the path of
        /// an object, which the service does not open.
        name: String,
        /// The object, two hexadecimal digits for each byte: the client reads it, so that its
        /// permissions count and not those of the service.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        object: Option<String>,
        /// Records it in the labels, too, so that the volume starts with it from now on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep: bool,
    },
    /// Fails a member; answered with a string that says so.
    Fail { devid: u64 },
    /// Removes the device of a member that has failed, for good; answered with a string that says
    /// so.
    Remove { devid: u64 },
    /// The last events; answered with a [`ServiceEvent`] on each line.
    Events {
        /// Goes on with each event that happens, until the client or the service ends.
        #[serde(default)]
        follow: bool,
    },
    /// Rebuilds a member from the others; answered with a string that says what was done.
    Rebuild {
        devid: u64,
        /// Path or URI of the device of a member that failed, if that has another name by now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<String>,
        /// Rate limit; none if missing. It applies to rebuilds that already run, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_bytes_per_s: Option<u64>,
    },
    /// Puts a device in the place of a member and rebuilds it; answered with a string that says
    /// what was done.
    Replace {
        /// The member; the one that has failed if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        devid: Option<u64>,
        /// Path or URI of the device. A path is relative to the working directory of the service.
        device: String,
        /// Uses the device even if it contains data, which are destroyed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        occupied: bool,
        /// Rate limit, as of [`ControlRequest::Rebuild`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_bytes_per_s: Option<u64>,
    },
    /// Makes a spare of a device; answered with a string that says so.
    AddSpare {
        /// Path or URI of the device. A path is relative to the working directory of the service.
        device: String,
        /// Uses the device even if it contains data, which are destroyed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        occupied: bool,
    },
    /// Gives up a spare; answered with a string that says so.
    RemoveSpare {
        /// Path or URI of the device, or its UUID.
        device: String,
    },
    /// Does something with the scrub of the volume; answered with [`ScrubReport`], or with nothing
    /// if there was no scrub yet.
    Scrub {
        action: ScrubAction,
        /// Of a start: makes blocks equal that differ, where it is known which mirror is right.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repair: bool,
        /// Of a start: the devid of the member that is right where no data are on most mirrors.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// Of a start: rate limit in bytes of the volume; none if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate_bytes_per_s: Option<u64>,
    },
}

/// The response to a request: `{"answer": …}` or `{"error": "…", "kind": "…"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ControlResponse<T> {
    /// The request was carried out.
    Done {
        answer: T,
    },
    Failed(RequestError),
}

impl<T> From<Result<T, RequestError>> for ControlResponse<T> {
    fn from(result: Result<T, RequestError>) -> ControlResponse<T> {
        match result {
            Ok(answer) => ControlResponse::Done { answer },
            Err(error) => ControlResponse::Failed(error),
        }
    }
}

/// Why a service did not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
pub struct RequestError {
    pub error: String,
    /// Kind of the error, for programs.
    #[serde(default)]
    pub kind: RequestErrorKind,
}

impl RequestError {
    pub(crate) fn refused(error: String) -> RequestError {
        RequestError { error, kind: RequestErrorKind::Refused }
    }
}

/// The kinds of [`RequestError`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestErrorKind {
    /// The line is not a request that this version supports.
    Malformed,
    /// The members are served without a volume, so there is no policy.
    NoVolume,
    /// The name or the parameters of a policy are wrong.
    Policy,
    /// The service cannot do it in its present state.
    Refused,
    /// A kind that this version does not list.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Whether all members of a volume are in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VolumeHealth {
    #[serde(rename = "in sync")]
    InSync,
    /// All are, and some mirrors may differ: they are being synchronised, after a crash or for the
    /// first time.
    #[serde(rename = "resyncing")]
    Resyncing,
    /// At least one is rebuilding or failed.
    #[serde(rename = "degraded")]
    Degraded,
}

/// Status of a service: what is served, and what is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    pub name: String,
    /// Policy of the volume; `None` if each member is served as a disk.
    pub policy: Option<String>,
    pub profile: Option<String>,
    /// Whether all members are in sync.
    pub health: VolumeHealth,
    /// Number of copies that the volume keeps of each byte; `None` without a volume.
    #[serde(default)]
    pub copies: Option<usize>,
    /// Number of parities that it keeps; `None` without a volume.
    #[serde(default)]
    pub parities: Option<usize>,
    /// Number of members, whichever they are, that may fail now without loss of data; `None`
    /// without a volume.
    #[serde(default)]
    pub may_fail: Option<usize>,
    #[serde(default)]
    pub members: Vec<MemberSummary>,
    /// Conditions: what is wrong now.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    #[serde(default)]
    pub spares: Vec<SpareReport>,
    /// Members that are being rebuilt, or copied to another device.
    #[serde(default)]
    pub rebuilds: Vec<RebuildProgress>,
    /// Bytes of the volume whose mirrors may differ.
    #[serde(default)]
    pub unsynced_bytes: u64,
    /// Bytes of the volume that a crash now would have synchronised.
    #[serde(default)]
    pub active_bytes: u64,
    /// True if data have checksums, which every read verifies.
    #[serde(default)]
    pub checksums: bool,
    /// True if the volume cannot be written.
    #[serde(default)]
    pub read_only: bool,
    /// The last scrub, which may be under way.
    #[serde(default)]
    pub scrub: Option<ScrubReport>,
    /// Number of NBD clients that are connected.
    pub connections: usize,
    /// Volumes and members that clients can attach to.
    pub exports: Vec<ExportSummary>,
    pub backend: String,
    /// Seconds since the service started.
    pub uptime_s: f64,
}

/// How far the rebuild of a member is, or its copy to another device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildProgress {
    pub devid: u64,
    pub recovered_bytes: u64,
    pub total_bytes: u64,
    /// True if the member gets only the regions to which it missed writes.
    #[serde(default)]
    pub only_missed: bool,
}

/// A volume or member that clients can attach to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSummary {
    pub name: String,
    pub size_bytes: u64,
    /// Whether it is the volume or a member.
    pub is: ExportKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportKind {
    Volume,
    Member,
}

/// Counters and times of all members, and the counters of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStats {
    pub members: Vec<MemberStatsReport>,
    /// Counters of the policy; `None` without a volume.
    pub policy_counters: Option<Vec<PolicyCounter>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatsReport {
    #[serde(flatten)]
    pub member: MemberReport,
    /// Completion minus submission of reads.
    pub read_wait: Quantiles,
    /// Completion minus submission of writes.
    pub write_wait: Quantiles,
    /// How much later than the model said I/Os completed; for emulated members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<LatenessReport>,
}

/// Mean, quantiles and maximum of times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    pub count: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub p99_9_ns: u64,
    /// `None` if nothing was measured.
    pub max_ns: Option<u64>,
}

/// Lateness of an emulated member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessReport {
    #[serde(flatten)]
    pub times: Quantiles,
    /// The largest p99 at which figures are accepted.
    pub bound_p99_ns: u64,
    /// Whether the p99 is within the bound.
    pub within_bound: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyCounter {
    /// The member that it is about; `None` if it is about the volume.
    pub devid: Option<u64>,
    /// Name, as the policy defines it.
    pub name: String,
    pub value: i64,
}

#[cfg(test)]
mod tests;
