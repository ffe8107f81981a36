//! What a request waits for before the metadata of the members says what it relies on.
//!
//! A write, discard or rebuild starts only when the labels are current: they call the volume in use
//! and each member what it is. A write or discard starts only when its regions are in the dirty log
//! of every member that takes writes, and a step of a rebuild when its member has the log, too.
//! When a member fails, the writes, discards and flushes that are under way end only when the
//! labels of the other members say that it failed. So nothing that was replied to is lost when the
//! failed member comes back, in this run or a later one: its label is older then.
//!
//! `label_updates` and `log_updates` write the metadata. A volume without labels, simulated or of
//! members without metadata, waits for nothing.

use super::Volume;
use super::dirty_log::DirtyLog;
use super::keys::{PieceKey, RequestKey};
use super::label_writer::{LabelWriter, VolumeLabels};
use super::scrub_keeper::ScrubKeeper;
use super::stale_regions::StaleRegions;
use super::unsynced_regions::{REGION_BYTES, regions};
use crate::io::RequestKind;
use crate::label::assembly::FoundMember;
use crate::label::{DIRTY_REGIONS_MAX, KeptProgram, Label, LabelledSpare, SPARES_MAX, Uuid};
use crate::member::{MemberIndex, MemberState};
use std::ops::Range;

/// A rebuild is recorded in this many steps, so at most one is repeated after a restart.
const PROGRESS_STEPS: u64 = 64;

/// What a member I/O of metadata is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MetadataJob {
    /// An update of the labels.
    Label,
    /// The dirty log: a record, or a flush before regions leave it.
    Log,
    /// The stale map.
    StaleMap,
    /// The progress of a scrub.
    Scrub,
    /// The page of checksums with this number.
    Checksums(u32),
    /// The flush of the pages of checksums, before the labels say that the volume was stopped.
    Stop,
}

/// A member I/O that is not of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OwnIo {
    /// Metadata.
    Metadata(MetadataJob),
    /// An operation on a full stripe; its key is in the place of that of a piece, its column in
    /// that of a target.
    Stripe,
}

impl Volume {
    /// Keeps the labels and the dirty log of the members up to date.
    ///
    /// # Panics
    /// If the label has other members than the volume, or the volume has parity.
    pub fn with_labels(mut self, labels: VolumeLabels) -> Volume {
        self.has_one_buffer = true;
        assert_eq!(labels.label.members.len(), self.members().len(), "a row for each member");
        assert!(self.stripes.is_none(), "a volume with parity has no labels");
        let (sequence, least_sequence) = (labels.sequence, labels.least_sequence);
        let unsynced = labels.unsynced.clone();
        let regions = self.capacity_bytes().div_ceil(REGION_BYTES);
        let stale = StaleRegions::new(regions, labels.stale.clone(), labels.map_generation);
        for &member in &labels.catching_up {
            self.states.set_catching_up(member, true);
        }
        labels.announced.iter().for_each(|&member| self.states.set_unrecorded(member));
        self.scrub = ScrubKeeper::new(labels.scrub);
        let is_joined = labels.is_joined;
        let mut writer = LabelWriter::new(labels);
        let begins = MemberState::Rebuilding { recovered_bytes: 0 };
        let joined =
            self.states.active().filter(|&it| is_joined && self.members()[it].state == begins);
        joined.for_each(|member| writer.forget_progress(member));
        let (logged, tail) = split_unsynced(unsynced, self.capacity_bytes());
        writer.resync_from = writer.resync_from.into_iter().chain(tail).min();
        let resync_from = writer.resync_from;
        let log = DirtyLog::new(regions as u32, sequence, least_sequence, logged.clone(), stale);
        (self.labels, self.log) = (Some(Box::new(writer)), Some(Box::new(log)));
        if let Some(from) = resync_from {
            self.insert_unsynced(from..self.capacity_bytes());
        }
        for start in logged.into_iter().map(|region| u64::from(region) * REGION_BYTES) {
            self.insert_unsynced(start..start + REGION_BYTES);
        }
        self
    }

    /// Refuses writes and repairs nothing.
    pub fn read_only(mut self) -> Volume {
        self.is_read_only = true;
        if let Some(checksums) = &mut self.checksums {
            checksums.read_only();
        }
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

    /// Bytes of the volume whose mirrors may differ.
    pub fn unsynced_bytes(&self) -> u64 {
        // The last region may be shorter.
        (self.unsynced.count() * REGION_BYTES).min(self.capacity_bytes())
    }

    /// The next range to resync at or behind `offset`, going round; `None` if all is in sync. It is
    /// a request of [`RequestKind::Resync`].
    pub fn next_unsynced(&self, offset: u64) -> Option<Range<u64>> {
        let start = self.unsynced.next(offset / REGION_BYTES)? * REGION_BYTES;
        Some(start..(start + REGION_BYTES).min(self.capacity_bytes()))
    }

    /// Takes that a member that is to be rebuilt has another storage, or the same one opened again.
    /// `found` is what that holds of this member, if its UUID is [`Volume::own_uuid`]; a storage
    /// without it must have no valid label in either slot, and becomes a member with a new UUID.
    pub fn on_storage_replaced(&mut self, member: MemberIndex, found: Option<&FoundMember>) {
        let own = self.own_uuid(member);
        let found = found.filter(|found| Some(found.newest.found.member) == own);
        let (Some(labels), Some(log)) = (&mut self.labels, &mut self.log) else { return };
        labels.on_replaced(member, found.map(|found| found.newest.slot));
        let record = found.and_then(|found| found.record.as_ref());
        log.on_joined(member, record.map_or(0, |record| record.sequence));
        let catches_up = found.is_some_and(|found| labels.can_catch_up(member, found));
        self.states.set_catching_up(member, catches_up);
        if catches_up {
            log.stale.set_base(labels.committed().lineage.complete_id());
            // A young copy of it may lack what was written in its last regions.
            let regions = record.iter().flat_map(|record| &record.regions);
            regions.for_each(|&region| log.stale.insert(region));
        }
    }

    /// Takes that a member that is to be rebuilt has the storage of a spare, which is no spare any
    /// more and keeps its UUID.
    pub fn on_spare_used(&mut self, member: MemberIndex, spare: Uuid) {
        self.on_storage_replaced(member, None);
        if let Some(labels) = &mut self.labels {
            labels.on_spare_used(member, spare);
        }
    }

    /// The spares of the volume, which the labels list or are to list.
    pub fn spares(&self) -> &[LabelledSpare] {
        self.labels.as_deref().map_or(&[], |labels| &labels.spares)
    }

    /// Returns true if a spare may take the place of a member: the labels list it, or call it this
    /// member though it never got a label, because of a crash.
    pub fn is_spare_for(&self, member: MemberIndex, spare: Uuid) -> bool {
        let is_listed = self.spares().iter().any(|other| other.uuid == spare);
        is_listed || self.own_uuid(member) == Some(spare)
    }

    /// Records a spare, whose block is durable on it. Returns false without labels, or if they are
    /// full.
    pub fn add_spare(&mut self, spare: LabelledSpare) -> bool {
        let is_full = self.spares().len() >= SPARES_MAX;
        let labels = self.labels.as_mut().filter(|_| !self.is_read_only && !is_full);
        let Some(labels) = labels else { return false };
        labels.spares.push(spare);
        self.update_labels();
        true
    }

    /// Records that a device is no spare any more. Returns false if it was none.
    pub fn remove_spare(&mut self, spare: Uuid) -> bool {
        let is_known = self.spares().iter().any(|other| other.uuid == spare);
        let labels = self.labels.as_mut().filter(|_| !self.is_read_only && is_known);
        let Some(labels) = labels else { return false };
        labels.spares.retain(|other| other.uuid != spare);
        self.update_labels();
        true
    }

    /// Returns true if a member that is rebuilt may lack a write to this region.
    pub(super) fn may_lack(&self, member: MemberIndex, region: u32) -> bool {
        let log = self.log.as_ref().filter(|_| self.states.is_catching_up(member));
        log.is_none_or(|log| log.stale.contains(region) || log.is_active(region))
    }

    /// Returns true if a member that is rebuilt gets only the regions that it may lack.
    pub fn is_catching_up(&self, member: MemberIndex) -> bool {
        self.states.is_catching_up(member)
    }

    /// The UUID by which the storage of a failed member is known when it returns; `None` without
    /// labels, or if the member works: then another storage is not the same one.
    pub fn own_uuid(&self, member: MemberIndex) -> Option<Uuid> {
        let labels = self.labels.as_deref().filter(|_| self.states.is_failed(member));
        labels.map(|labels| labels.uuid(member)).filter(|&uuid| uuid != Uuid::NIL)
    }

    /// The UUID of a member, which the labels have or are to have; `None` without labels.
    pub fn uuid(&self, member: MemberIndex) -> Option<Uuid> {
        self.labels.as_deref().map(|labels| labels.uuid(member))
    }

    /// Records that the device of a failed member was removed: should it be found again, it is not
    /// a member. Returns false without labels, or if the member has not failed.
    pub fn remove_device(&mut self, member: MemberIndex) -> bool {
        let is_failed = self.states.is_failed(member) && !self.is_read_only;
        let Some(labels) = self.labels.as_mut().filter(|_| is_failed) else { return false };
        labels.on_removed(member);
        self.set_member_state(member, MemberState::Failed);
        self.update_labels();
        true
    }

    /// Returns false if the device of a member was removed, and none has replaced it.
    pub fn has_device(&self, member: MemberIndex) -> bool {
        self.labels.as_deref().is_none_or(|labels| labels.uuid(member) != Uuid::NIL)
    }

    /// A number that grows when the state, the back-off or the rebuild of a member changes.
    #[inline]
    pub fn members_version(&self) -> u64 {
        self.states.version()
    }

    /// Fails a member that is gone, unless the volume cannot do without it.
    pub fn lose_member(&mut self, member: MemberIndex) {
        if !self.states.is_failed(member) && self.states.can_fail(member) {
            self.set_member_state(member, MemberState::Failed);
        }
    }

    /// Fails a member on request, and records it. Returns false if the volume cannot do without it.
    pub fn fail_on_request(&mut self, member: MemberIndex) -> bool {
        self.lose_member(member);
        if !self.is_read_only {
            self.update_labels();
        }
        self.states.is_failed(member)
    }

    /// Records a policy with which the volume starts from now on, and a program that chooses in its
    /// place. Returns false without labels.
    pub fn keep_policy(&mut self, policy: &str, program: Option<KeptProgram>) -> bool {
        let Some(labels) = self.labels.as_mut().filter(|_| !self.is_read_only) else {
            return false;
        };
        policy.clone_into(&mut labels.policy);
        labels.program = program;
        self.update_labels();
        true
    }

    /// Records that a fault ended the program that the labels name, if that is so, so that the
    /// volume does not start with it again.
    pub fn record_policy_fault(&mut self) {
        let Some(fault) = self.policy.fault().filter(|_| !self.is_read_only) else { return };
        let program = self.labels.as_mut().and_then(|labels| labels.program.as_mut());
        let ended = fault.ended_program.as_ref();
        if let Some(program) = program.filter(|it| !it.has_faulted && Some(&it.name) == ended) {
            program.has_faulted = true;
            self.update_labels();
        }
    }

    /// Queues a piece whose start has to wait, and returns true. A write that need not wait is
    /// counted in the dirty log.
    pub(super) fn must_wait(&mut self, key: PieceKey) -> bool {
        let piece = self.pieces.get(key);
        let request = self.requests.get(piece.request).request;
        let writes = match piece.kind {
            RequestKind::Write | RequestKind::Discard => true,
            RequestKind::Rebuild(_) | RequestKind::Resync | RequestKind::Repair(_) => false,
            // After this flush a member may be in sync, though nothing had to be copied to it.
            RequestKind::Flush if matches!(request.kind, RequestKind::Rebuild(_)) => false,
            RequestKind::Read
            | RequestKind::Flush
            | RequestKind::Scrub
            | RequestKind::RepairStripes => return false,
        };
        let is_repair = matches!(piece.kind, RequestKind::Repair(_));
        let range = piece.plan.range();
        let (Some(labels), Some(log)) = (&mut self.labels, &mut self.log) else { return false };
        labels.is_clean &= !writes && !is_repair;
        if !labels.is_current(&self.states) {
            labels.waiting.push(key);
            self.update_labels();
            return true;
        }
        let numbers = || region_numbers(&range).filter(|_| writes);
        // A repair that a crash interrupts leaves mirrors that differ where they differed before.
        // In the log, the resync after a crash could copy the wrong one. A member that is missing
        // gets the repaired data.
        let is_recorded = match piece.kind {
            // What is resynchronised is in the log, and leaves it through the stale map.
            _ if request.kind == RequestKind::Resync => true,
            RequestKind::Repair(_) => self.records_as_stale(&range),
            _ => log.covers(numbers(), self.states.active()),
        };
        let log = self.log.as_mut().expect("a volume with labels has a log");
        if !is_recorded {
            log.waiting.push(key);
            self.start_record();
            return true;
        }
        let piece = self.pieces.get_mut(key);
        match is_repair && request.kind != RequestKind::Resync {
            true if piece.is_logged => {}
            true => {
                log.repairs.begin();
                piece.is_logged = true;
            }
            false => {
                log.begin_write(numbers());
                piece.is_logged = writes;
            }
        }
        let runs_out = log.runs_out();
        if runs_out {
            self.write_record(&[]);
        }
        false
    }

    /// Queues a piece whose end has to wait, and returns true.
    #[inline]
    pub(super) fn is_held(&mut self, key: PieceKey) -> bool {
        let Some(labels) = &mut self.labels else { return false };
        if self.pieces.get(key).kind == RequestKind::Read
            || self.is_read_only
            || labels.is_clean && labels.committed().is_clean
            || labels.is_current(&self.states)
        {
            return false;
        }
        labels.held.push(key);
        self.update_labels();
        true
    }

    /// Takes the end of a resync of a range.
    pub(super) fn on_resynced(&mut self, range: &Range<u64>) {
        let is_end = range.end == self.capacity_bytes();
        for region in regions(range) {
            let start = region * REGION_BYTES;
            let is_whole = range.start <= start && (start + REGION_BYTES <= range.end || is_end);
            if is_whole && !self.unsynced.take_renewed(region) {
                self.unsynced.remove(region);
                if let Some(log) = &mut self.log {
                    log.on_synced(region as u32);
                }
            }
        }
        // Writes may wait for the space of a region that can leave now.
        self.start_record();
    }

    /// Returns true if writes wait until regions are resynced, because the dirty log is full of
    /// them.
    pub fn waits_for_resync(&self) -> bool {
        self.log.as_deref().is_some_and(DirtyLog::is_blocked)
    }

    /// Flushes a member whose rebuild ends with this request, or is to be recorded, and returns
    /// true. What is not durable must not be called in sync.
    pub(super) fn flushes_before_end(
        &mut self,
        key: RequestKey,
        member: MemberIndex,
        range: &Range<u64>,
    ) -> bool {
        let pending = self.requests.get_mut(key);
        let Some(labels) = &self.labels else { return false };
        if pending.member_changes != self.states.changes(member) {
            return false;
        }
        let Some(offset) = self.states.offset_after(member, range) else { return false };
        let size_bytes = self.states.members()[member].config.size_bytes;
        let recorded_bytes = labels.recorded_bytes(member);
        let is_due = offset.saturating_sub(recorded_bytes) >= size_bytes / PROGRESS_STEPS;
        let is_end = offset >= size_bytes;
        // What other requests rebuilt until the flush ended is not durable after it.
        let is_flushed = pending.flushed_to.is_some_and(|to| !is_end || to >= size_bytes);
        if is_flushed || !is_end && !is_due {
            return false;
        }
        pending.flushed_to = Some(offset);
        let plan = self.layout.flush_plan(member);
        self.add_piece(key, RequestKind::Flush, plan);
        true
    }

    /// Records how far the rebuild of a member is, if it was flushed.
    pub(super) fn record_progress(&mut self, member: MemberIndex, flushed_to: Option<u64>) {
        let is_rebuilt = matches!(self.members()[member].state, MemberState::Rebuilding { .. });
        if let (Some(offset), Some(labels), true) = (flushed_to, &mut self.labels, is_rebuilt) {
            labels.on_progress(member, offset);
            self.update_labels();
        }
    }

    /// Returns true if the range is read from its source only.
    #[inline]
    pub(super) fn is_unsynced(&self, range: &Range<u64>) -> bool {
        !self.unsynced.is_empty() && self.unsynced.overlaps(range)
    }
}

/// Divides the regions that are unsynced at the start, in order, into those that the log holds and
/// an offset from which everything is. That is where a long run begins that ends with the volume:
/// without it, writes would wait until the log has space.
fn split_unsynced(mut regions: Vec<u32>, capacity_bytes: u64) -> (Vec<u32>, Option<u64>) {
    let count = capacity_bytes.div_ceil(REGION_BYTES) as u32;
    let run = regions.iter().rev().zip((0..count).rev()).take_while(|(it, end)| **it == *end);
    let run = run.count();
    let kept = match run > DIRTY_REGIONS_MAX / 2 {
        true => regions.len() - run,
        false => regions.len(),
    };
    let kept = kept.min(DIRTY_REGIONS_MAX);
    let tail = regions.get(kept).map(|&region| u64::from(region) * REGION_BYTES);
    regions.truncate(kept);
    (regions, tail)
}

/// The numbers of the regions that a range overlaps, as the dirty log has them.
pub(super) fn region_numbers(range: &Range<u64>) -> impl Iterator<Item = u32> + use<> {
    regions(range).map(|region| region as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsynced_regions_are_logged_but_for_a_long_run_at_the_end() {
        let split = |regions: Vec<u32>| split_unsynced(regions, 3000 * REGION_BYTES);
        let at = |region: u64| Some(region * REGION_BYTES);
        assert_eq!(split(vec![1, 3, 2999]), (vec![1, 3, 2999], None));
        assert_eq!(split((0..700).collect()), ((0..700).collect(), None));
        assert_eq!(split((0..1200).collect()), ((0..1000).collect(), at(1000)));
        assert_eq!(split((0..3000).collect()), (vec![], at(0)));
        assert_eq!(split([5].into_iter().chain(2000..3000).collect()), (vec![5], at(2000)));
        assert_eq!(split(vec![]), (vec![], None));
    }
}
