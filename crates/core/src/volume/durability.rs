//! What a request waits for before the labels of the members say what it relies on.
//!
//! A write, discard or rebuild starts only when the labels are current: they call the volume in use
//! and each member what it is. When a member fails, the writes, discards and flushes that are under
//! way end only when the labels of the other members say that it failed. So nothing that was
//! replied to is lost when the failed member comes back, in this run or a later one: its label is
//! older then.
//!
//! A volume without labels, simulated or of members without metadata, waits for nothing.

use super::keys::{PieceKey, RequestKey};
use super::label_writer::{LabelWriter, UpdateStep, VolumeLabels};
use super::target::{PlanTarget, TargetSet};
use super::unsynced_regions::{REGION_BYTES, regions};
use super::{InFlightIo, Volume, Work};
use crate::io::{IoError, IoId, MemberIo, Op, Purpose, ReadRole, RequestId, RequestKind};
use crate::label::{Label, METADATA_BYTES};
use crate::member::{MemberIndex, MemberState};
use crate::slab::SlabKey;
use crate::units::Nanos;
use std::ops::Range;

impl Volume {
    /// Keeps the labels of the members up to date.
    ///
    /// # Panics
    /// If the label has other members than the volume.
    pub fn with_labels(mut self, labels: VolumeLabels) -> Volume {
        assert_eq!(labels.label.members.len(), self.members().len(), "a row for each member");
        let unsynced = labels.label.resync_from.map(|from| from..self.capacity_bytes());
        self.labels = Some(Box::new(LabelWriter::new(labels)));
        if let Some(range) = unsynced {
            self.add_unsynced(range);
        }
        self
    }

    /// Refuses writes and repairs nothing.
    pub fn read_only(mut self) -> Volume {
        self.is_read_only = true;
        self
    }

    /// Returns true if writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The last label that is durable on all members that take writes; `None` without labels.
    pub fn label(&self) -> Option<&Label> {
        self.labels.as_deref().map(LabelWriter::committed)
    }

    /// Takes a range whose mirrors may differ: it is read from one mirror until it is resynced.
    pub fn add_unsynced(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.capacity_bytes());
        regions(&range).for_each(|region| self.unsynced.insert(region));
    }

    /// Bytes of the volume whose mirrors may differ.
    pub fn unsynced_bytes(&self) -> u64 {
        self.unsynced.count() * REGION_BYTES
    }

    /// The next range to resync at or behind `offset`, going round; `None` if all is in sync. It is
    /// a request of [`RequestKind::Resync`].
    pub fn next_unsynced(&self, offset: u64) -> Option<Range<u64>> {
        let start = self.unsynced.next(offset / REGION_BYTES)? * REGION_BYTES;
        Some(start..(start + REGION_BYTES).min(self.capacity_bytes()))
    }

    /// Records that the volume was stopped in good order. The volume must be idle, and flushed
    /// since the last write. Ends when [`Volume::is_recorded`].
    pub fn record_stop(&mut self) {
        assert!(self.is_idle(), "a volume stops when it is idle");
        let resync_from = self.unsynced.next(0).map(|region| region * REGION_BYTES);
        let Some(labels) = &mut self.labels else { return };
        if !labels.committed().is_clean && !self.has_lost_writes {
            (labels.is_clean, labels.resync_from) = (true, resync_from);
            self.update_labels();
        }
    }

    /// Returns true if no update of the labels is under way.
    pub fn is_recorded(&self) -> bool {
        self.labels.as_deref().is_none_or(|labels| !labels.has_io_in_flight())
    }

    /// The bytes to write for a member I/O of [`Purpose::Metadata`].
    ///
    /// # Panics
    /// If it is none.
    pub fn metadata_bytes(&self, io: &MemberIo) -> Box<[u8]> {
        assert!(io.purpose == Purpose::Metadata && io.op == Op::Write, "{io:?}");
        let (block, offset) = self.labels.as_ref().expect("it has labels").block(io.member);
        assert_eq!(offset, io.offset, "one update at a time");
        block
    }

    /// Fails a member that is gone, unless the volume cannot do without it.
    pub fn lose_member(&mut self, member: MemberIndex) {
        if !self.states.is_failed(member) && self.states.can_fail(member) {
            self.set_member_state(member, MemberState::Failed);
        }
    }

    /// Queues a piece whose start has to wait, and returns true.
    #[inline]
    pub(super) fn waits_for_labels(&mut self, key: PieceKey) -> bool {
        let Some(labels) = &mut self.labels else { return false };
        match self.pieces.get(key).kind {
            RequestKind::Write | RequestKind::Discard => labels.is_clean = false,
            RequestKind::Rebuild(_) | RequestKind::Resync => {}
            RequestKind::Read | RequestKind::Flush | RequestKind::Scrub => return false,
        }
        if labels.is_current(&self.states) {
            return false;
        }
        labels.waiting.push(key);
        self.update_labels();
        true
    }

    /// Queues a piece whose end has to wait, and returns true.
    #[inline]
    pub(super) fn is_held(&mut self, key: PieceKey) -> bool {
        let Some(labels) = &mut self.labels else { return false };
        if self.pieces.get(key).kind == RequestKind::Read
            || labels.is_clean && labels.committed().is_clean
            || labels.is_current(&self.states)
        {
            return false;
        }
        labels.held.push(key);
        self.update_labels();
        true
    }

    /// Starts an update of the labels if they are not current, unless one is under way.
    pub(super) fn update_labels(&mut self) {
        let Some(labels) = &mut self.labels else { return };
        if labels.has_io_in_flight() || labels.is_current(&self.states) {
            return;
        }
        let members = labels.start(&self.states);
        self.queue_label_writes(members);
        // With no member left to write, the update is over at once.
        self.advance_labels();
    }

    fn queue_label_writes(&mut self, members: Vec<MemberIndex>) {
        let writes = members.into_iter().map(|member| Work::Metadata { member, op: Op::Write });
        self.work.extend(writes);
    }

    /// Hands out an I/O of an update.
    pub(super) fn issue_metadata(&mut self, member: MemberIndex, op: Op, now: Nanos) -> MemberIo {
        let labels = self.labels.as_ref().expect("it has labels");
        let (offset, length) = match op {
            Op::Write => (labels.slot_offset(member), METADATA_BYTES as u64),
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
        });
        let io = in_flight.io;
        self.account_submission(&io, now);
        io
    }

    /// Takes the end of an I/O of an update.
    pub(super) fn on_metadata_io(&mut self, io: &MemberIo, result: Result<(), IoError>) {
        if io.op == Op::Write && result.is_ok() {
            return self.work.push_back(Work::Metadata { member: io.member, op: Op::Flush });
        }
        let labels = self.labels.as_mut().expect("it has labels");
        labels.on_written(io.member, result.is_ok());
        self.advance_labels();
    }

    /// Continues an update of which no I/O is in flight.
    fn advance_labels(&mut self) {
        let labels = self.labels.as_mut().expect("it has labels");
        match labels.advance(&self.states) {
            None => {}
            Some(UpdateStep::Write(members)) => self.queue_label_writes(members),
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
        for key in held.into_iter().chain(waiting) {
            self.pieces.get_mut(key).good = TargetSet::default();
            self.end_piece(key);
        }
    }

    /// Takes the end of a resync of a range.
    pub(super) fn on_resynced(&mut self, range: &Range<u64>) {
        let is_end = range.end == self.capacity_bytes();
        for region in regions(range) {
            let start = region * REGION_BYTES;
            let is_whole = range.start <= start && (start + REGION_BYTES <= range.end || is_end);
            if is_whole {
                self.unsynced.remove(region);
            }
        }
    }

    /// Flushes a member whose rebuild ends with this request, and returns true. What is not durable
    /// must not be called in sync.
    pub(super) fn flushes_before_end(
        &mut self,
        key: RequestKey,
        member: MemberIndex,
        range: &Range<u64>,
    ) -> bool {
        let pending = self.requests.get_mut(key);
        let needs_flush = self.labels.is_some()
            && !pending.is_flushing
            && pending.member_changes == self.states.changes(member)
            && self.states.ends_rebuild(member, range);
        if needs_flush {
            pending.is_flushing = true;
            let plan = self.layout.flush_plan(member);
            self.add_piece(key, RequestKind::Flush, plan);
        }
        needs_flush
    }

    /// Records that a rebuild ended.
    pub(super) fn update_labels_after_rebuild(&mut self, member: MemberIndex) {
        if self.members()[member].state == MemberState::InSync {
            self.update_labels();
        }
    }

    /// Takes the success of a flush of all members that began when `was_synced`.
    pub(super) fn on_flushed(&mut self, was_synced: bool) {
        let Some(labels) = &mut self.labels else { return };
        if was_synced && labels.resync_from.is_some() {
            labels.resync_from = None;
            self.update_labels();
        }
    }

    /// Returns true if the range is read from its source only.
    #[inline]
    pub(super) fn is_unsynced(&self, range: &Range<u64>) -> bool {
        !self.unsynced.is_empty() && self.unsynced.overlaps(range)
    }
}
