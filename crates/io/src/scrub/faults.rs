//! What went wrong while clients used a volume: counted until a scrub has checked everything.

use crate::executor::{Executor, FailedRequests};
use mirrorball_store::StoreGate;

/// What went wrong when clients read and wrote.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceFaults {
    /// Blocks that did not match their checksums, on any member.
    pub mismatched_blocks: u64,
    /// Pages of checksums that could not be read on any member that may have them.
    pub lost_checksum_pages: u64,
    /// Requests that failed.
    pub failed: FailedRequests,
}

impl ServiceFaults {
    /// What went wrong since the start of the service.
    pub(super) fn now(executor: &Executor) -> ServiceFaults {
        ServiceFaults {
            mismatched_blocks: executor.records().map_or(0, StoreGate::all_mismatched_blocks),
            lost_checksum_pages: executor.records().map_or(0, StoreGate::lost_checksum_pages),
            failed: executor.failed_requests(),
        }
    }

    /// What went wrong since then.
    pub(super) fn since(self, before: ServiceFaults) -> ServiceFaults {
        ServiceFaults {
            mismatched_blocks: self.mismatched_blocks.saturating_sub(before.mismatched_blocks),
            lost_checksum_pages: self.lost_checksum_pages - before.lost_checksum_pages,
            failed: FailedRequests {
                reads: self.failed.reads - before.failed.reads,
                writes: self.failed.writes - before.failed.writes,
            },
        }
    }
}
