//! Writes the progress of a scrub to the members.
//!
//! No data depend on the record, so no request waits for it. A member that cannot be written has no
//! record, or an older one.

use super::Volume;
use super::durability::MetadataJob;
use crate::io::Op;
use crate::label::ScrubProgress;
use crate::member::{MemberIndex, MemberState};
use crate::policy::Mirror;
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

    /// Writes the progress again once a member is in sync that may not have it, or an older one.
    pub(super) fn renew_scrub_record(&mut self, member: MemberIndex) {
        let progress = self.kept_scrub();
        if let (MemberState::InSync, Some(progress)) = (self.members()[member].state, progress) {
            self.keep_scrub(progress);
        }
    }

    /// Returns true if the members have the progress that was last kept, as far as they can be
    /// written.
    pub fn is_scrub_recorded(&self) -> bool {
        self.scrub.is_written()
    }

    /// Returns true if the mirrors of a range may differ because they were not synchronised.
    pub fn may_differ(&self, range: &Range<u64>) -> bool {
        self.is_unsynced(range)
    }

    /// Number of bytes of a range that can be compared: two mirrors or more hold them in sync, or
    /// their full stripe has more columns in sync than data.
    pub fn comparable_bytes(&self, range: Range<u64>) -> u64 {
        if self.stripes.is_some() {
            return self.comparable_stripe_bytes(range);
        }
        let (mut offset, mut bytes) = (range.start, 0);
        while offset < range.end {
            let mapped = self.map().map(offset, range.end - offset);
            let is_in_sync = |mirror: &&Mirror| {
                self.states.is_in_sync(mirror.member, mirror.offset, mapped.length)
            };
            let in_sync = mapped.mirrors().iter().filter(is_in_sync).count();
            bytes += if in_sync > 1 { mapped.length } else { 0 };
            offset += mapped.length;
        }
        bytes
    }

    /// Returns true if something of the volume can be compared.
    pub fn has_comparable(&self) -> bool {
        match self.stripes {
            // All stripes of a chunk have the same members.
            Some(_) => {
                let mut chunks = self.map().chunks();
                chunks.any(|it| self.has_spare_column(&self.full_stripe(it.volume_offset)))
            }
            None => self.comparable_bytes(0..self.capacity_bytes()) > 0,
        }
    }

    /// Returns true if the mirror of a range on this member is in sync.
    pub fn holds(&self, member: MemberIndex, range: &Range<u64>) -> bool {
        let mapped = self.map().map(range.start, range.end - range.start);
        let mut mirrors = mapped.mirrors().iter().filter(|mirror| mirror.member == member);
        mirrors.any(|mirror| self.states.is_in_sync(member, mirror.offset, mapped.length))
    }

    /// Takes the end of a record on a member.
    pub(super) fn on_scrub_record_io(&mut self) {
        self.scrub.in_flight -= 1;
        self.start_scrub_record();
    }

    fn start_scrub_record(&mut self) {
        if self.scrub.start_record() {
            let members: Vec<MemberIndex> = self.takers_of_metadata().collect();
            self.scrub.in_flight = members.len();
            self.queue_metadata(members, Op::Write, MetadataJob::Scrub);
        }
    }
}
