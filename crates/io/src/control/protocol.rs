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
//! Both sides ignore fields that they do not know, so fields may be added. Times are nanoseconds
//! and sizes bytes, as the names of the fields say.

mod scrub;
mod state;

use crate::address::PathTooLong;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
pub use scrub::{OddMember, ReportedScrubState, ScrubAction, ScrubReport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
pub use state::ReportedState;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a service may take to answer. Opening a member on another machine is the slowest part
/// of a request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A request to a running service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum ControlRequest {
    /// What is served, and its health; answered with [`ServiceStatus`].
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
        /// Its name, as `mirrorball policies` lists it, with parameters; or `program:` and the path
        /// of an object, which is relative to the working directory of the service.
        name: String,
        /// Records it in the labels, too, so that the volume starts with it from now on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        keep: bool,
    },
    /// Fails a member; answered with a string that says so.
    Fail {
        /// The member.
        devid: u64,
    },
    /// Rebuilds a member from its mirrors; answered with a string that says what was done.
    Rebuild {
        /// The member.
        devid: u64,
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
    /// Does something with the scrub of the volume; answered with [`ScrubReport`], or with nothing
    /// if there was no scrub yet.
    Scrub {
        /// What to do.
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
        /// Its result.
        answer: T,
    },
    /// The request failed.
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
    /// The message for the user.
    pub error: String,
    /// What kind of error it is, for programs.
    #[serde(default)]
    pub kind: RequestErrorKind,
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
    /// All are.
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

/// What is served, and its health.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Name of the array.
    pub name: String,
    /// Policy of the volume; `None` if each member is served as a disk.
    pub policy: Option<String>,
    /// The fault since which the fallback of a program decides in place of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_fault: Option<String>,
    /// Profile of the volume.
    pub profile: Option<String>,
    /// Whether all members are in sync.
    pub health: VolumeHealth,
    /// The devids of members that have failed or are missing.
    #[serde(default)]
    pub failed: Vec<u64>,
    /// The devids of those members whose device was not found when the volume was started.
    #[serde(default)]
    pub missing: Vec<u64>,
    /// Members whose file or device is no longer at their path.
    #[serde(default)]
    pub misplaced: Vec<Misplaced>,
    /// Members that are being rebuilt.
    #[serde(default)]
    pub rebuilds: Vec<RebuildProgress>,
    /// Bytes of the volume whose mirrors may differ.
    #[serde(default)]
    pub unsynced_bytes: u64,
    /// Bytes of the volume that a crash now would have synchronised.
    #[serde(default)]
    pub active_bytes: u64,
    /// True if the members have labels.
    #[serde(default)]
    pub labelled: bool,
    /// True if the volume cannot be written.
    #[serde(default)]
    pub read_only: bool,
    /// The last scrub, which may be under way.
    #[serde(default)]
    pub scrub: Option<ScrubReport>,
    /// Rate limit of rebuilds.
    pub rebuild_bytes_per_s: Option<u64>,
    /// Number of NBD clients that are connected.
    pub connections: usize,
    /// What clients can attach to.
    pub exports: Vec<ExportSummary>,
    /// I/O backend.
    pub backend: String,
    /// Seconds since the service started.
    pub uptime_s: f64,
}

/// A member that works although its file or device is no longer at its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misplaced {
    /// The member.
    pub devid: u64,
    /// What is at its path: "another file" or "nothing".
    pub at_path: String,
}

/// How far the rebuild of a member is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildProgress {
    /// The member.
    pub devid: u64,
    /// Bytes that are in sync again.
    pub recovered_bytes: u64,
    /// Bytes to rebuild in all.
    pub total_bytes: u64,
}

/// A volume or member that clients can attach to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSummary {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// Whether it is the volume or a member.
    pub is: ExportKind,
}

/// What an export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportKind {
    /// The volume.
    Volume,
    /// One member.
    Member,
}

/// State and counters of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its devid.
    pub devid: u64,
    /// Its state.
    pub state: ReportedState,
    /// Bytes that are in sync, while it is being rebuilt.
    pub recovered_bytes: Option<u64>,
    /// Its size.
    pub size_bytes: u64,
    /// I/Os submitted and not completed.
    pub in_flight: u32,
    /// Reads that succeeded.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Flushes that succeeded.
    pub flushes: u64,
    /// I/Os that failed.
    pub errors: u64,
}

/// Counters and times of all members, and the counters of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStats {
    /// The members.
    pub members: Vec<MemberStatsReport>,
    /// Counters of the policy; `None` without a volume.
    pub policy_counters: Option<Vec<PolicyCounter>>,
}

/// Counters and times of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatsReport {
    /// Its state and counters.
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
#[expect(missing_docs, reason = "the names say it")]
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
    /// The times.
    #[serde(flatten)]
    pub times: Quantiles,
    /// The largest p99 at which figures are accepted.
    pub bound_p99_ns: u64,
    /// Whether the p99 is within the bound.
    pub within_bound: bool,
}

/// A counter of the policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyCounter {
    /// The member that it is about; `None` if it is about the volume.
    pub devid: Option<u64>,
    /// Its name, as the policy defines it.
    pub name: String,
    /// Its value.
    pub value: i64,
}

/// Why a service gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no connection, or it broke.
    #[error(
        "cannot connect to control socket `{}`: {error}\n  help: give the path given to \
         `emulate` or `serve` as --control",
        path.display()
    )]
    Connection {
        /// The control socket.
        path: PathBuf,
        /// What the system reported.
        error: io::Error,
    },
    /// The service did not answer in time.
    #[error(
        "no answer from control socket `{}` within {} s: the service is stopped or its machine \
         too busy, and may still carry out the request\n  help: try `ctl status` later",
        path.display(), ANSWER_TIMEOUT.as_secs()
    )]
    Silent {
        /// The control socket.
        path: PathBuf,
    },
    /// The path is longer than that of a socket may be.
    #[error("{0}\n  help: give the path given to `emulate` or `serve` as --control")]
    TooLong(PathTooLong),
    /// Something else than a control socket is at the path.
    #[error(
        "`{}` is {what}, not a control socket\n  help: give the path given to `emulate` or \
         `serve` as --control",
        path.display()
    )]
    NotControl {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// The response is not one of this protocol.
    #[error(
        "the response of `{}` is not one of a control socket of this version: {error}\n  help: \
         give the path given to `emulate` or `serve` as --control, and use the same version of \
         mirrorball",
        path.display()
    )]
    Malformed {
        /// The control socket.
        path: PathBuf,
        /// What is wrong with the response.
        error: serde_json::Error,
    },
    /// The service did not carry out the request.
    #[error(transparent)]
    Refused(#[from] RequestError),
}

/// Sends a request to the service whose control socket is at `path`, and returns its answer.
///
/// # Errors
/// If there is no service, or it does not carry out the request.
pub fn ask<T: DeserializeOwned>(path: &Path, request: &ControlRequest) -> Result<T, AskError> {
    let malformed = |error| AskError::Malformed { path: path.to_owned(), error };
    let line = serde_json::to_string(request).map_err(malformed)?;
    PathTooLong::check(path).map_err(AskError::TooLong)?;
    let not_control = |what| AskError::NotControl { path: path.to_owned(), what };
    match std::fs::metadata(path).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_dir() => return Err(not_control("a folder")),
        Ok(kind) if !kind.is_socket() => return Err(not_control("a file")),
        _ => {}
    }
    let text = exchange(path, &line, ANSWER_TIMEOUT).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => AskError::Silent { path: path.to_owned() },
        _ => AskError::Connection { path: path.to_owned(), error },
    })?;
    if text.starts_with("NBDMAGIC") {
        return Err(not_control("the socket of an NBD export"));
    }
    // The answer in a second step: its errors then say which field is wrong.
    match serde_json::from_str::<ControlResponse<Value>>(&text).map_err(malformed)? {
        ControlResponse::Done { answer } => serde_json::from_value(answer).map_err(malformed),
        ControlResponse::Failed(error) => Err(error.into()),
    }
}

/// Sends a line and returns the line that comes back. Each step fails with `WouldBlock` if the
/// service does nothing for `timeout`.
pub(super) fn exchange(path: &Path, line: &str, timeout: Duration) -> io::Result<String> {
    let mut socket = connect(path, timeout)?;
    socket.write_all(format!("{line}\n").as_bytes())?;
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the service closed the connection without a response",
        ));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Connects. A service that is stopped accepts no connection, so this may take a while, too.
fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    for direction in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, direction, Some(timeout))?;
    }
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests;
