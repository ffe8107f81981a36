//! Reports about members.

use super::ReportedState;
use serde::{Deserialize, Serialize};

/// A member, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberSummary {
    pub devid: u64,
    pub state: ReportedState,
    /// Path or URI of its device; `None` if it has none, or is emulated.
    #[serde(default)]
    pub device: Option<String>,
    /// The last error; `None` if there was none since the start, or since it got this device.
    #[serde(default)]
    pub last_error: Option<MemberError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberError {
    /// The operation that failed, where on the member, and why.
    pub error: String,
    /// How long ago it was.
    pub age_ns: u64,
}

/// A range of the volume that a member lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadBlockRange {
    pub offset: u64,
    pub length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    pub devid: u64,
    pub state: ReportedState,
    /// Path or URI of its device; `None` if it has none, or is emulated.
    #[serde(default)]
    pub device: Option<String>,
    /// Bytes that are in sync, while it is being rebuilt.
    pub recovered_bytes: Option<u64>,
    pub size_bytes: u64,
    /// I/Os submitted and not completed.
    pub in_flight: u32,
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    pub flushes: u64,
    /// I/Os that failed.
    pub errors: u64,
    /// The last error; `None` if it had none since the start, or since it got this device.
    #[serde(default)]
    pub last_error: Option<MemberError>,
    /// Blocks of 4 KiB that did not match their checksums; `None` without checksums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatched_blocks: Option<u64>,
    /// Ranges of the volume that it lacks, because no mirror could give them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bad_blocks: Vec<BadBlockRange>,
}
