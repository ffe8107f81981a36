//! What the control socket says of the states of members.

use mirrorball_core::member::MemberState;
use serde::{Deserialize, Serialize};

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReportedState {
    /// It has current data everywhere.
    #[serde(rename = "in sync")]
    InSync,
    /// Its data are current up to its recovery offset.
    #[serde(rename = "rebuilding")]
    Rebuilding,
    /// It is not used.
    #[serde(rename = "failed")]
    Failed,
    /// Its device was not found when the volume was started.
    #[serde(rename = "missing")]
    Missing,
}

impl ReportedState {
    /// The states of the metric `member_state`, in its order. There a missing member has failed.
    pub const ALL: [ReportedState; 3] =
        [ReportedState::InSync, ReportedState::Rebuilding, ReportedState::Failed];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            ReportedState::InSync => "in sync",
            ReportedState::Rebuilding => "rebuilding",
            ReportedState::Failed => "failed",
            ReportedState::Missing => "missing",
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
