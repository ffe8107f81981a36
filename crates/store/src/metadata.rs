//! The member I/O of metadata: what it is for, where it goes, and which bytes it writes.
//!
//! A write is flushed before it counts, but for pages of checksums, which are flushed together.

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
}

/// A member I/O of metadata in flight.
#[derive(Clone, Copy, Debug)]
struct LiveMetadata {
    job: MetadataJob,
    member: MemberIndex,
    offset: u64,
}

impl MetadataQueue {
    pub(crate) fn has_io(&self) -> bool {
        !self.queued.is_empty()
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
        let token = self.metadata.in_flight.insert(LiveMetadata { job, member, offset }).slot();
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
        let LiveMetadata { job: MetadataJob::Checksums(number), member, offset } = self.job(token)
        else {
            panic!("only pages of checksums are read")
        };
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
        let LiveMetadata { job, member, .. } = ended.expect("an I/O of metadata ends once");
        assert_eq!(member, io.member, "{job:?} ends on its member");
        let is_page = matches!(job, MetadataJob::Checksums(_));
        if io.op == Op::Write && result.is_ok() && !is_page {
            return self.queue_metadata(vec![io.member], Op::Flush, job);
        }
        let is_good = result.is_ok();
        match job {
            MetadataJob::Label => {
                self.labels.on_written(io.member, is_good);
                self.advance_labels(array);
            }
            MetadataJob::Log | MetadataJob::StaleMap => {
                self.on_log_io(io.member, is_good, now, array);
            }
            MetadataJob::Scrub => self.on_scrub_record_io(array),
            MetadataJob::BadBlocks => self.on_bad_blocks_io(member, is_good, array),
            MetadataJob::Checksums(number) => self.on_page_io(number, io, is_good, array),
            MetadataJob::Stop => self.on_stop_flushed(is_good, array),
        }
    }
}
