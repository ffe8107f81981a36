//! The progress of a scrub, as the members of a running volume keep it.
//!
//! No data depend on the record, so no request waits for it. A member that cannot be written has no
//! record, or an older one.

use crate::StoreGate;
use crate::label::{ScrubProgress, ScrubRecord};
use crate::metadata::MetadataJob;
use mirrorball_core::io::Op;
use mirrorball_core::volume::gate::Array;

/// The last record of a scrub, and the progress since then.
#[derive(Default)]
pub(crate) struct ScrubKeeper {
    /// The last record, which may be under way.
    record: Option<ScrubRecord>,
    /// Number of members that it is being written to.
    pub(crate) in_flight: usize,
    /// Progress since then.
    next: Option<ScrubProgress>,
}

impl ScrubKeeper {
    pub(crate) fn new(record: Option<ScrubRecord>) -> ScrubKeeper {
        ScrubKeeper { record, in_flight: 0, next: None }
    }

    /// The record to write. Panics if there is none.
    pub(crate) fn record(&self) -> &ScrubRecord {
        self.record.as_ref().expect("a record is written after it was made")
    }

    pub(crate) fn progress(&self) -> Option<ScrubProgress> {
        self.next.or(self.record.map(|record| record.progress))
    }

    /// Returns true if all progress was written.
    pub(crate) fn is_written(&self) -> bool {
        self.in_flight == 0 && self.next.is_none()
    }

    /// Queues progress to be written.
    pub(crate) fn keep(&mut self, progress: ScrubProgress) {
        self.next = Some(progress);
    }

    /// Makes the next record, unless one is under way or nothing changed. Returns true if it did.
    pub(crate) fn start_record(&mut self) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        let Some(progress) = self.next.take() else { return false };
        let sequence = self.record.map_or(0, |record| record.sequence) + 1;
        self.record = Some(ScrubRecord { sequence, progress });
        true
    }
}

impl StoreGate {
    /// The progress of the last scrub that the members kept.
    pub fn kept_scrub(&self) -> Option<ScrubProgress> {
        self.scrub.progress()
    }

    pub fn keep_scrub(&mut self, progress: ScrubProgress, array: &mut Array<'_>) {
        if !self.is_read_only {
            self.scrub.keep(progress);
            self.start_scrub_record(array);
        }
    }

    /// Writes the progress again because a member is in sync that may not have it, or an older one.
    pub(crate) fn renew_scrub_record(&mut self, array: &mut Array<'_>) {
        if let Some(progress) = self.kept_scrub() {
            self.keep_scrub(progress, array);
        }
    }

    /// Returns true if the members have the progress that was last kept, as far as they can be
    /// written.
    pub fn is_scrub_recorded(&self) -> bool {
        self.scrub.is_written()
    }

    /// Handles the end of a record on a member.
    pub(crate) fn on_scrub_record_io(&mut self, array: &mut Array<'_>) {
        assert!(self.scrub.in_flight > 0, "a record ends once on each member");
        self.scrub.in_flight -= 1;
        self.start_scrub_record(array);
    }

    fn start_scrub_record(&mut self, array: &Array<'_>) {
        if self.scrub.start_record() {
            assert!(!self.is_read_only, "a read-only volume keeps nothing");
            let members = self.takers_of_metadata(array.states);
            self.scrub.in_flight = members.len();
            self.queue_metadata(members, Op::Write, MetadataJob::Scrub);
        }
    }
}
