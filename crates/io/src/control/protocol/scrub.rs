//! Reports about scrubs.

use crate::scrub::BadRange;
use mirrorball_store::label::ScrubState;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScrubAction {
    Start,
    Pause,
    Resume,
    Cancel,
    /// Nothing: shows it.
    Status,
}

/// How far a scrub is, and what it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    pub state: ReportedScrubState,
    /// True if blocks that differ are made equal, where it is known which mirror is right.
    pub repair: bool,
    /// The devid of the member that is right where no data are on most mirrors.
    #[serde(default)]
    pub from: Option<u64>,
    pub checked_bytes: u64,
    pub total_bytes: u64,
    /// Bytes of those that were not compared, because fewer than two mirrors were in sync.
    #[serde(default)]
    pub uncompared_bytes: u64,
    /// Number of blocks of 4 KiB that differed between mirrors.
    pub differing_blocks: u64,
    /// Number of blocks of those that were made equal.
    #[serde(default)]
    pub repaired_blocks: u64,
    /// Members that differed from most mirrors.
    #[serde(default)]
    pub odd_members: Vec<OddMember>,
    /// Number of blocks of 4 KiB, on any member, that did not match their checksums.
    #[serde(default)]
    pub mismatched_blocks: u64,
    /// Number of blocks of 4 KiB that no mirror could read, or that no mirror has right.
    pub unreadable_blocks: u64,
    /// Number of blocks that earlier scrubs left as they were; zero once this one has finished.
    #[serde(default)]
    pub left_blocks: u64,
    /// True if this one or one before it has finished, and the last of these compared everything.
    #[serde(default)]
    pub has_finished: bool,
    /// True if it waits for a rebuild or a resync.
    #[serde(default)]
    pub waits: bool,
    /// The first ranges that were found to be without a right copy, and are left so. The service
    /// that found them knows them until it ends.
    #[serde(default)]
    pub bad_ranges: Vec<BadRange>,
    /// True if there are more of them.
    #[serde(default)]
    pub has_more_bad_ranges: bool,
    /// True if the volume keeps a single copy of each block, so that only checksums are compared.
    #[serde(default)]
    pub single_copy: bool,
    /// Number of copies that the volume keeps of each byte; 0 if the service does not say it.
    #[serde(default)]
    pub copies: usize,
    /// True if the volume cannot be written, so that nothing can be repaired.
    #[serde(default)]
    pub read_only: bool,
    /// The devids of members that were rebuilt since it started, while the service ran: what it
    /// found may be gone.
    #[serde(default)]
    pub rebuilt_since: Vec<u64>,
    pub rate_bytes_per_s: Option<u64>,
}

impl ScrubReport {
    /// Returns true if all was compared that was checked, and no block is left that differs or
    /// cannot be read, also of those that an earlier scrub found and this one did not come to.
    pub fn is_well(&self) -> bool {
        self.differing_blocks == self.repaired_blocks
            && self.unreadable_blocks == 0
            && self.left_blocks == 0
            && self.uncompared_bytes == 0
    }
}

/// A member that differed from most mirrors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OddMember {
    pub devid: u64,
    /// Number of blocks of 4 KiB.
    pub blocks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportedScrubState {
    Running,
    /// It waits until it is resumed.
    Paused,
    Finished,
    Cancelled,
}

impl From<ScrubState> for ReportedScrubState {
    fn from(state: ScrubState) -> ReportedScrubState {
        match state {
            ScrubState::Running => ReportedScrubState::Running,
            ScrubState::Paused => ReportedScrubState::Paused,
            ScrubState::Finished => ReportedScrubState::Finished,
            ScrubState::Cancelled => ReportedScrubState::Cancelled,
        }
    }
}
