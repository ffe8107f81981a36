//! Depth of a member's queue at the submission of each read in flight there.

use crate::io::IoId;
use std::collections::VecDeque;

/// Maximum number of reads in flight on one member whose depth is kept.
const SUBMITTED_MAX: usize = 1024;

/// Reads in flight on a member, oldest first, with the depth at which each was submitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct SubmittedDepths(VecDeque<(IoId, u32)>);

impl SubmittedDepths {
    #[inline]
    pub(crate) fn add(&mut self, id: IoId, depth: u32) {
        if self.0.len() == SUBMITTED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((id, depth));
    }

    /// Removes a read that completed, and returns its depth if it was kept.
    #[inline]
    pub(crate) fn remove(&mut self, id: IoId) -> Option<u32> {
        // Completions are nearly in order, so the search is short.
        let place = self.0.iter().position(|&(kept, _)| kept == id)?;
        self.0.remove(place).map(|(_, depth)| depth)
    }
}
