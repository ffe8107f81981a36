//! What the control socket says of spares.

use serde::{Deserialize, Serialize};

/// A spare of the volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpareReport {
    /// Its UUID.
    pub uuid: String,
    /// Path or URI of its device, if that was found.
    #[serde(default)]
    pub device: Option<String>,
    /// Its size.
    pub size_bytes: u64,
    /// Its state.
    pub state: ReportedSpareState,
}

/// The state of a spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedSpareState {
    /// It takes the place of a member that fails, if it is large enough.
    Ready,
    /// Its device was not found when the volume was started.
    Missing,
    /// It could not take the place of a member.
    Failed,
}

impl ReportedSpareState {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            ReportedSpareState::Ready => "ready",
            ReportedSpareState::Missing => "missing",
            ReportedSpareState::Failed => "failed",
        }
    }
}

impl SpareReport {
    /// Its device, or else its UUID.
    pub fn name(&self) -> String {
        self.device.clone().unwrap_or_else(|| self.uuid.clone())
    }
}
