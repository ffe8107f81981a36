//! Updates of the labels: the member I/O that they take, and what follows from its ends.

use super::dirty_log::DirtyLog;
use super::durability::{MetadataJob, OwnIo};
use super::keys::{IoKey, PieceKey};
use super::label_writer::{LabelWriter, UpdateStep};
use super::target::{PlanTarget, TargetSet};
use super::{InFlightIo, Volume, Work};
use crate::io::{IoError, IoId, MemberIo, Op, Purpose, ReadRole, RequestId};
use crate::label::METADATA_BYTES;
use crate::member::{MemberIndex, MemberState};
use crate::slab::SlabKey;
use crate::units::Nanos;

impl Volume {
    /// The bytes to write for a member I/O of [`Purpose::Metadata`].
    ///
    /// # Panics
    /// If it is none.
    pub fn metadata_bytes(&self, io: &MemberIo) -> Box<[u8]> {
        assert!(io.purpose == Purpose::Metadata && io.op == Op::Write, "{io:?}");
        let labels = self.labels.as_ref().expect("it has labels");
        match self.metadata_job(io) {
            MetadataJob::Label => labels.block(io.member),
            MetadataJob::Log => {
                let log = self.log.as_ref().expect("a volume with labels has a log");
                log.record().encode(labels.committed().array.uuid, labels.uuid(io.member))
            }
            MetadataJob::StaleMap => {
                let map = self.log.as_ref().and_then(|log| log.stale.map());
                let map = map.expect("it is not dropped while it is written");
                map.encode(labels.committed().array.uuid, labels.uuid(io.member))
            }
            MetadataJob::Scrub => {
                let volume = labels.committed().array.uuid;
                self.scrub.record().encode(volume, labels.uuid(io.member))
            }
            MetadataJob::Checksums(number) => self.page_bytes(number, io.member),
            MetadataJob::Stop => unreachable!("it is a flush"),
        }
    }

    /// What a member I/O of metadata is for.
    pub(super) fn metadata_job(&self, io: &MemberIo) -> MetadataJob {
        match self.in_flight.get(IoKey::of(io.id)).job {
            Some(OwnIo::Metadata(job)) => job,
            _ => panic!("{io:?} is metadata"),
        }
    }

    /// Starts an update of the labels if they are not current, unless one is under way.
    pub(super) fn update_labels(&mut self) {
        let Some(labels) = &mut self.labels else { return };
        if labels.has_io_in_flight() || labels.is_current(&self.states) {
            return;
        }
        assert!(!self.is_read_only, "a read-only volume writes nothing");
        let sequence = self.log.as_deref().and_then(DirtyLog::departure_sequence);
        let members = labels.start(&self.states, sequence);
        self.queue_metadata(members, Op::Write, MetadataJob::Label);
        // With no member left to write, the update is over at once.
        self.advance_labels();
    }

    /// Commits at the start what the newest label announced, unless it may have been committed.
    /// Until then, members cannot be failed that may not have it.
    pub fn commit_announcement(&mut self) {
        let mut members = (0..).map(MemberIndex).take(self.members().len());
        if !self.is_read_only && members.any(|member| self.states.is_unrecorded(member)) {
            self.update_labels();
        }
    }

    /// Returns true if a member was rebuilt, and a label is being written that says so.
    pub fn is_being_recorded(&self, member: MemberIndex) -> bool {
        let has_io = self.labels.as_deref().is_some_and(LabelWriter::has_io_in_flight);
        has_io && self.states.is_unrecorded(member)
    }

    /// The members that take metadata about data: not those that joined and whose own label does
    /// not say so yet. By that they may be in sync, with older data.
    pub(super) fn takers_of_metadata(&self) -> impl Iterator<Item = MemberIndex> {
        self.states.active().filter(|&member| {
            self.members()[member].state == MemberState::InSync
                || self.labels.as_deref().is_none_or(|labels| labels.has_own(member))
        })
    }

    /// Records that a rebuild ended.
    pub(super) fn update_labels_after_rebuild(&mut self, member: MemberIndex) {
        if self.members()[member].state == MemberState::InSync {
            self.update_labels();
        }
    }

    /// Takes the success of a flush of all members, after which the part that is not synchronised
    /// begins there.
    pub(super) fn on_flushed(&mut self, resync_from: Option<u64>) {
        let Some(labels) = self.labels.as_mut().filter(|_| !self.is_read_only) else { return };
        let is_progress = match (labels.resync_from, resync_from) {
            (Some(before), Some(now)) => now > before,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_progress {
            labels.resync_from = resync_from;
            self.update_labels();
        }
    }

    /// Returns true if every byte of the volume is in sync on some member.
    pub fn is_complete(&self) -> bool {
        self.layout.is_in_sync(&self.states)
    }

    pub(super) fn queue_metadata(&mut self, members: Vec<MemberIndex>, op: Op, job: MetadataJob) {
        let work = members.into_iter().map(|member| Work::Metadata { member, op, job });
        self.work.extend(work);
    }

    /// Hands out a member I/O of metadata.
    pub(super) fn issue_metadata(
        &mut self,
        member: MemberIndex,
        op: Op,
        job: MetadataJob,
        now: Nanos,
    ) -> MemberIo {
        let labels = self.labels.as_ref().expect("it has labels");
        let log = self.log.as_ref().expect("a volume with labels has a log");
        let (offset, length) = match (op, job) {
            (Op::Write, MetadataJob::Label) => (labels.slot_offset(member), METADATA_BYTES as u64),
            (Op::Write, MetadataJob::Log) => (log.record().offset(), METADATA_BYTES as u64),
            (Op::Write, MetadataJob::StaleMap) => {
                let map = log.stale.map().expect("it is not dropped while it is written");
                (map.offset(), METADATA_BYTES as u64)
            }
            (Op::Write, MetadataJob::Scrub) => {
                (self.scrub.record().offset(), METADATA_BYTES as u64)
            }
            (Op::Read | Op::Write, MetadataJob::Checksums(number)) => {
                self.page_range(number, member, op)
            }
            _ => (0, 0),
        };
        self.ios_issued = self.ios_issued.wrapping_add(1);
        let count = u64::from(self.ios_issued) << 32;
        let policy_number = self.policy_number;
        let in_flight = self.in_flight.insert_with(|slot| InFlightIo {
            io: MemberIo {
                id: IoId(count | u64::from(slot.slot())),
                request: RequestId(u64::MAX),
                member,
                op,
                purpose: Purpose::Metadata,
                offset,
                length,
                volume_offset: 0,
                stream: 0,
                background: true,
                role: ReadRole::Only,
                submitted_at: now,
            },
            piece: PieceKey::from_slot(u32::MAX),
            target: PlanTarget::FIRST,
            superseded: false,
            policy_number,
            job: Some(OwnIo::Metadata(job)),
        });
        let io = in_flight.io;
        self.account_submission(&io, now);
        io
    }

    /// Takes the end of a member I/O of metadata. A write is flushed before it counts.
    pub(super) fn on_metadata_io(
        &mut self,
        job: MetadataJob,
        io: &MemberIo,
        result: Result<(), IoError>,
        now: Nanos,
    ) {
        let is_page = matches!(job, MetadataJob::Checksums(_));
        if io.op == Op::Write && result.is_ok() && !is_page {
            return self.queue_metadata(vec![io.member], Op::Flush, job);
        }
        match job {
            MetadataJob::Label => {
                let labels = self.labels.as_mut().expect("it has labels");
                labels.on_written(io.member, result.is_ok());
                self.advance_labels();
            }
            MetadataJob::Log | MetadataJob::StaleMap => {
                self.on_log_io(io.member, result.is_ok(), now);
            }
            MetadataJob::Scrub => self.on_scrub_record_io(),
            MetadataJob::Checksums(number) => self.on_page_io(number, io, result.is_ok()),
            MetadataJob::Stop => self.on_stop_flushed(result.is_ok()),
        }
    }

    /// Continues an update of which no I/O is in flight.
    fn advance_labels(&mut self) {
        let labels = self.labels.as_mut().expect("it has labels");
        match labels.advance(&mut self.states) {
            None => {}
            Some(UpdateStep::Write(members)) => {
                self.queue_metadata(members, Op::Write, MetadataJob::Label);
            }
            Some(UpdateStep::Committed) if labels.is_current(&self.states) => self.release(),
            Some(UpdateStep::Committed) => self.update_labels(),
            Some(UpdateStep::Unwritable(members)) => {
                members.iter().for_each(|&member| self.lose_member(member));
                match members.iter().all(|&member| self.states.is_failed(member)) {
                    true => self.advance_labels(),
                    false => self.fail_waiting(),
                }
            }
        }
    }

    /// Starts and ends the pieces that waited for the labels.
    fn release(&mut self) {
        let labels = self.labels.as_mut().expect("it has labels");
        let waiting = std::mem::take(&mut labels.waiting);
        let held = std::mem::take(&mut labels.held);
        held.into_iter().for_each(|key| self.finish(key));
        waiting.into_iter().for_each(|key| self.issue_first(key));
    }

    /// Fails the pieces that waited for labels which cannot be written.
    fn fail_waiting(&mut self) {
        let labels = self.labels.as_mut().expect("it has labels");
        let waiting = std::mem::take(&mut labels.waiting);
        let held = std::mem::take(&mut labels.held);
        held.into_iter().chain(waiting).for_each(|key| self.fail_piece(key));
    }

    /// Ends a piece without success.
    pub(super) fn fail_piece(&mut self, key: PieceKey) {
        self.pieces.get_mut(key).good = TargetSet::default();
        self.end_piece(key);
    }
}
