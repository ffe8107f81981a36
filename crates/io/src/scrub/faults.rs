//! Faults while clients used a volume, counted until a scrub has checked everything.

use crate::executor::{Executor, FailedRequests};
use mirrorball_core::member::MemberIndex;
use mirrorball_store::StoreGate;

/// Counts of what went wrong when clients read and wrote.
#[derive(Clone, Debug, Default)]
pub struct ServiceFaults {
    /// Blocks of each member that did not match their checksums, on whichever device.
    pub(super) mismatched_blocks: Vec<u64>,
    /// Pages of checksums that could not be read on any member that may have them.
    lost_checksum_pages: u64,
    failed: FailedRequests,
}

impl ServiceFaults {
    /// The counts since the start of the service.
    pub(super) fn now(executor: &Executor) -> ServiceFaults {
        let members = (0..).map(MemberIndex).zip(executor.members());
        ServiceFaults {
            mismatched_blocks: members.map(|(index, _)| all_mismatched(index, executor)).collect(),
            lost_checksum_pages: executor.records().map_or(0, StoreGate::lost_checksum_pages),
            failed: executor.failed_requests(),
        }
    }

    /// Has the wrong blocks of each member count on that were found since a scrub started or by it.
    pub(super) fn keep_mismatched(&mut self, at_start: &[u64], found: &[u64]) {
        let before = at_start.iter().chain(std::iter::repeat(&0));
        for ((count, &before), &found) in self.mismatched_blocks.iter_mut().zip(before).zip(found) {
            *count = before.min(count.saturating_sub(found));
        }
    }

    /// Blocks of the device of a member that did not match their checksums after these counts.
    pub fn mismatched_since(&self, member: MemberIndex, executor: &Executor) -> u64 {
        let before = self.mismatched_blocks.get(member.get()).copied().unwrap_or(0);
        let on_device = executor.records().map_or(0, |store| store.mismatched_blocks(member));
        on_device.min(all_mismatched(member, executor) - before)
    }

    /// Pages of checksums that were lost after these counts.
    pub fn lost_since(&self, executor: &Executor) -> u64 {
        let lost = executor.records().map_or(0, StoreGate::lost_checksum_pages);
        lost - self.lost_checksum_pages
    }

    /// Requests that failed after these counts.
    pub fn failed_since(&self, executor: &Executor) -> FailedRequests {
        let FailedRequests { reads, writes } = executor.failed_requests();
        FailedRequests { reads: reads - self.failed.reads, writes: writes - self.failed.writes }
    }
}

fn all_mismatched(member: MemberIndex, executor: &Executor) -> u64 {
    executor.records().map_or(0, |store| store.all_mismatched_blocks(member))
}
