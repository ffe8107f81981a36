//! States of members, as users see them.

use mirrorball_core::member::MemberState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedState {
    /// It has current data everywhere.
    #[serde(rename = "in sync")]
    InSync,
    /// It has current data everywhere, and its server cannot be reached now.
    #[serde(rename = "unreachable")]
    Unreachable,
    /// The data are current up to its recovery offset.
    #[serde(rename = "rebuilding")]
    Rebuilding,
    /// It is not used.
    #[serde(rename = "failed")]
    Failed,
    /// The device was not found when the volume was started.
    #[serde(rename = "missing")]
    Missing,
    /// The device was used without the others, and is left out.
    #[serde(rename = "diverged")]
    Diverged,
    #[serde(rename = "removed")]
    Removed,
}

impl ReportedState {
    pub fn name(self) -> &'static str {
        match self {
            ReportedState::InSync => "in sync",
            ReportedState::Unreachable => "unreachable",
            ReportedState::Rebuilding => "rebuilding",
            ReportedState::Failed => "failed",
            ReportedState::Missing => "missing",
            ReportedState::Diverged => "diverged",
            ReportedState::Removed => "removed",
        }
    }
}

impl From<MemberState> for ReportedState {
    fn from(state: MemberState) -> ReportedState {
        match state {
            MemberState::InSync => ReportedState::InSync,
            MemberState::Rebuilding { .. } => ReportedState::Rebuilding,
            MemberState::Failed => ReportedState::Failed,
        }
    }
}
