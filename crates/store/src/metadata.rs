//! The member I/O of metadata: what it is for, where it goes, and which bytes it writes.
//!
//! A write is flushed before it counts, but for pages of checksums, which are flushed together.
//!
//! What is in flight on a member that fails counts as failed at once: its device may never answer,
//! and what waits for the metadata goes on without it. Its end changes nothing any more.

use crate::StoreGate;
use crate::label::{METADATA_BYTES, PAGE_SLOTS_BYTES};
use mirrorball_core::geometry::RESERVED_BYTES;
use mirrorball_core::io::{IoError, MemberIo, Op};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::slab::{Slab, SlabKey};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::MemberStates;
use mirrorball_core::volume::gate::{Array, MetadataIo};
use std::collections::VecDeque;

/// Purpose of a member I/O of metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetadataJob {
    Label,
    /// The dirty log: a record, or a flush before regions leave it.
    Log,
    StaleMap,
    Scrub,
    /// The list of bad blocks, or a flush before blocks leave it.
    BadBlocks,
    Checksums(u32),
    /// The flush of the pages of checksums, before the labels say that the volume was stopped.
    Stop,
}

mirrorball_core::slab_key! {
    /// Names a member I/O of metadata: its token.
    struct JobKey;
}

/// Member I/O of metadata to be handed out, and in flight.
#[derive(Debug, Default)]
pub(crate) struct MetadataQueue {
    queued: VecDeque<(MemberIndex, Op, MetadataJob)>,
    in_flight: Slab<JobKey, LiveMetadata>,
    /// Members that failed since then, whose I/O in flight is to be given up.
    pub(crate) failed: Vec<MemberIndex>,
}

/// A member I/O of metadata in flight.
#[derive(Clone, Copy, Debug)]
struct LiveMetadata {
    job: MetadataJob,
    member: MemberIndex,
    op: Op,
    offset: u64,
    /// True if its member has failed, and nothing waits for its end.
    is_given_up: bool,
}

impl MetadataQueue {
    pub(crate) fn has_io(&self) -> bool {
        !self.queued.is_empty() || !self.failed.is_empty()
    }
}

impl StoreGate {
    pub(crate) fn queue_metadata(&mut self, members: Vec<MemberIndex>, op: Op, job: MetadataJob) {
        assert!(!self.is_read_only || op == Op::Read, "a read-only volume writes nothing");
        let ios = members.into_iter().map(|member| (member, op, job));
        self.metadata.queued.extend(ios);
    }

    /// The next member I/O to hand out.
    pub(crate) fn next_metadata(&mut self, array: &mut Array<'_>) -> Option<MetadataIo> {
        let (member, op, job) = self.metadata.queued.pop_front()?;
        let block = |offset: u64| (offset, METADATA_BYTES as u64);
        let (offset, length) = match (op, job) {
            (Op::Write, MetadataJob::Label) => block(self.labels.slot_offset(member)),
            (Op::Write, MetadataJob::Log) => block(self.log.record().offset()),
            (Op::Write, MetadataJob::StaleMap) => block(self.log.stale.written_map().offset()),
            (Op::Write, MetadataJob::Scrub) => block(self.scrub.record().offset()),
            (Op::Write, MetadataJob::BadBlocks) => block(self.bad.slot_offset(member)),
            (Op::Read | Op::Write, MetadataJob::Checksums(number)) => {
                self.page_range(number, member, op, array.states)
            }
            _ => (0, 0),
        };
        assert!(op == Op::Flush || length > 0, "{job:?} has bytes");
        let is_whole = (offset | length).is_multiple_of(METADATA_BYTES as u64);
        assert!(is_whole, "{job:?} has whole blocks");
        let is_before_data = offset + length <= RESERVED_BYTES;
        let is_page = matches!(job, MetadataJob::Checksums(_));
        assert!(is_page != is_before_data || op == Op::Flush, "{job:?} at {offset} is not in data");
        let live = LiveMetadata { job, member, op, offset, is_given_up: false };
        let token = self.metadata.in_flight.insert(live).slot();
        Some(MetadataIo { token, member, op, offset, length })
    }

    fn job(&self, token: u32) -> LiveMetadata {
        *self.metadata.in_flight.get(JobKey::from_slot(token))
    }

    /// The bytes that the I/O with this token writes to a member. Panics if it writes nothing, or
    /// is not in flight.
    pub(crate) fn metadata_bytes(
        &self,
        token: u32,
        io: &MemberIo,
        states: &MemberStates,
    ) -> Box<[u8]> {
        assert_eq!(io.op, Op::Write, "{io:?}");
        let member = io.member;
        let (volume, uuid) = (self.label().array.uuid, self.labels.uuid(member));
        let bytes = match self.job(token).job {
            MetadataJob::Label => self.labels.block(member),
            MetadataJob::Log => self.log.record().encode(volume, uuid),
            MetadataJob::StaleMap => self.log.stale.written_map().encode(volume, uuid),
            MetadataJob::Scrub => self.scrub.record().encode(volume, uuid),
            MetadataJob::BadBlocks => {
                self.bad.record().encode(volume, uuid, self.bad.next_slot(member))
            }
            MetadataJob::Checksums(number) => self.page_bytes(number, member, states),
            MetadataJob::Stop => unreachable!("it is a flush"),
        };
        assert_eq!(bytes.len() as u64, io.length, "{io:?} writes what was encoded");
        bytes
    }

    /// Handles the bytes of a read of metadata that succeeded, before the volume handles its end.
    /// Panics if the I/O with this token reads no page of checksums.
    pub(crate) fn on_metadata_read(&mut self, token: u32, bytes: &[u8]) {
        let LiveMetadata { job, member, offset, is_given_up, .. } = self.job(token);
        let MetadataJob::Checksums(number) = job else {
            panic!("only pages of checksums are read")
        };
        if is_given_up {
            return;
        }
        assert_eq!(bytes.len() as u64, PAGE_SLOTS_BYTES, "both slots of a page are read");
        self.on_page_read(number, member, offset, bytes);
    }

    /// Handles the end of a member I/O of metadata.
    pub(crate) fn on_metadata_io(
        &mut self,
        token: u32,
        io: &MemberIo,
        result: Result<(), IoError>,
        now: Nanos,
        array: &mut Array<'_>,
    ) {
        let ended = self.metadata.in_flight.remove(JobKey::from_slot(token));
        let ended = ended.expect("an I/O of metadata ends once");
        assert_eq!(ended.member, io.member, "{:?} ends on its member", ended.job);
        let is_page = matches!(ended.job, MetadataJob::Checksums(_));
        if ended.is_given_up {
            return;
        }
        if io.op == Op::Write && result.is_ok() && !is_page {
            return self.queue_metadata(vec![io.member], Op::Flush, ended.job);
        }
        self.end_metadata(ended, result.is_ok(), now, array);
    }

    /// Ends the I/O in flight of members that failed as if it had failed.
    pub(crate) fn give_up_failed(&mut self, now: Nanos, array: &mut Array<'_>) {
        while let Some(member) = self.metadata.failed.pop() {
            let mut given_up = Vec::new();
            let is_failed = array.states.is_failed(member);
            let in_flight = self.metadata.in_flight.iter_mut();
            for live in in_flight.filter(|it| is_failed && it.member == member && !it.is_given_up) {
                live.is_given_up = true;
                given_up.push(*live);
            }
            given_up.into_iter().for_each(|live| self.end_metadata(live, false, now, array));
        }
    }

    fn end_metadata(
        &mut self,
        ended: LiveMetadata,
        is_good: bool,
        now: Nanos,
        array: &mut Array<'_>,
    ) {
        let LiveMetadata { job, member, op, .. } = ended;
        match job {
            MetadataJob::Label => {
                self.labels.on_written(member, is_good);
                self.advance_labels(array);
            }
            MetadataJob::Log | MetadataJob::StaleMap => {
                self.on_log_io(member, is_good, now, array);
            }
            MetadataJob::Scrub => self.on_scrub_record_io(array),
            MetadataJob::BadBlocks => self.on_bad_blocks_io(member, is_good, array),
            MetadataJob::Checksums(number) => {
                self.on_page_io(number, (member, op), is_good, array);
            }
            MetadataJob::Stop => self.on_stop_flushed(is_good, array),
        }
    }
}
