//! Reports about spares.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpareReport {
    pub uuid: String,
    /// Path or URI of its device, if that was found.
    #[serde(default)]
    pub device: Option<String>,
    pub size_bytes: u64,
    pub state: ReportedSpareState,
    /// The member that is to be copied to it; `None` if it waits for one that fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedSpareState {
    /// It takes the place of a member that fails, if it is large enough.
    Ready,
    /// The device was not found when the volume was started.
    Missing,
    /// It could not take the place of a member.
    Failed,
}

impl ReportedSpareState {
    pub fn name(self) -> &'static str {
        match self {
            ReportedSpareState::Ready => "ready",
            ReportedSpareState::Missing => "missing",
            ReportedSpareState::Failed => "failed",
        }
    }
}

impl SpareReport {
    /// The device, or else the UUID.
    pub fn name(&self) -> String {
        self.device.clone().unwrap_or_else(|| self.uuid.clone())
    }
}
