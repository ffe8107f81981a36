//! Writes the progress of a scrub to the members.
//!
//! Nothing depends on the record, so nothing waits for it. A member that cannot be written has no
//! record, or an older one.

use super::Volume;
use super::durability::MetadataJob;
use crate::io::Op;
use crate::label::ScrubProgress;
use crate::member::MemberIndex;
use std::ops::Range;

impl Volume {
    /// The progress of the last scrub that the members kept; `None` without labels.
    pub fn kept_scrub(&self) -> Option<ScrubProgress> {
        self.scrub.progress()
    }

    /// Keeps the progress of a scrub on the members, if they have labels.
    pub fn keep_scrub(&mut self, progress: ScrubProgress) {
        if self.labels.is_some() && !self.is_read_only {
            self.scrub.keep(progress);
            self.start_scrub_record();
        }
    }

    /// Returns true if the mirrors of a range may differ because they were not synchronised.
    pub fn may_differ(&self, range: &Range<u64>) -> bool {
        self.is_unsynced(range)
    }

    /// Takes the end of a record on a member.
    pub(super) fn on_scrub_record_io(&mut self) {
        self.scrub.in_flight -= 1;
        self.start_scrub_record();
    }

    fn start_scrub_record(&mut self) {
        if self.scrub.start_record() {
            let members: Vec<MemberIndex> = self.states.active().collect();
            self.scrub.in_flight = members.len();
            self.queue_metadata(members, Op::Write, MetadataJob::Scrub);
        }
    }
}
