//! The progress of a scrub, as the members of a running volume keep it.

use crate::label::{ScrubProgress, ScrubRecord};

/// The last record of a scrub, and the progress since then.
#[derive(Default)]
pub(super) struct ScrubKeeper {
    /// The last record, which may be under way.
    record: Option<ScrubRecord>,
    /// Number of members that it is being written to.
    pub(super) in_flight: usize,
    /// Progress since then.
    next: Option<ScrubProgress>,
}

impl ScrubKeeper {
    pub(super) fn new(record: Option<ScrubRecord>) -> ScrubKeeper {
        ScrubKeeper { record, in_flight: 0, next: None }
    }

    /// The record to write.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn record(&self) -> &ScrubRecord {
        self.record.as_ref().expect("a record is written after it was made")
    }

    /// The last progress.
    pub(super) fn progress(&self) -> Option<ScrubProgress> {
        self.next.or(self.record.map(|record| record.progress))
    }

    /// Returns true if all progress was written.
    pub(super) fn is_written(&self) -> bool {
        self.in_flight == 0 && self.next.is_none()
    }

    /// Takes progress to be written.
    pub(super) fn keep(&mut self, progress: ScrubProgress) {
        self.next = Some(progress);
    }

    /// Makes the next record, unless one is under way or nothing changed. Returns true if it did.
    pub(super) fn start_record(&mut self) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let Some(progress) = self.next.take() else { return false };
        let sequence = self.record.map_or(0, |record| record.sequence) + 1;
        self.record = Some(ScrubRecord { sequence, progress });
        true
    }
}
