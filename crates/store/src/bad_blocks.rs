//! Bad blocks of a running volume: ranges that a member in sync lacks, because no mirror could give
//! them when the member was rebuilt or mirrors were synchronised.
//!
//! - A bad block is not read. A read of it fails if no other mirror has it.
//! - A step of a rebuild or resync that leaves out a range ends when the list with it is durable on
//!   all members that take writes, and the labels say so.
//! - What writes a bad block with success (a client, a repair, a rebuild) ends when the members
//!   were flushed and the list without it is durable. So neither a crash nor a kill brings back an
//!   error where a write was acknowledged, or data that were never written. On a last copy that
//!   failed a flush, none leaves the list.
//! - What would divide a range, if the list has no room for that, fails, and leaves it listed.
//! - A member that joins gets the list before a step of its rebuild, and before any write. Its list
//!   from before may be of a later generation; then this one gets a later one still.
//! - A failed member keeps its bad blocks: it may come back and get only what it missed.

use crate::StoreGate;
use crate::VolumeLabels;
use crate::checksum::CHECKSUM_BLOCK_BYTES;
use crate::label::{BadBlockRecord, BadBlocks, bad_blocks_offset};
use crate::metadata::MetadataJob;
use mirrorball_core::io::{Op, RequestKind};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::volume::gate::{
    Array, Gate, GateAnswer, PieceView, Released, Unreadable, UnreadableReason,
};
use mirrorball_core::volume::{MemberStates, PiecePlan, PlanTarget, TargetSet};
use std::ops::Range;

/// The row of a resync, which has no member.
const RESYNC: usize = usize::MAX;

/// Ranges that are remembered because they could not be read once.
const DOUBTFUL_MAX: usize = 4096;

/// The I/O of the list that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Resting,
    /// Members are flushed, before blocks leave the list that were written.
    Flushing,
    Writing,
}

/// The list has no room for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ListFull;

/// See the page of this module.
#[derive(Debug, Default)]
pub(crate) struct BadBlockList {
    /// The list that members are to have.
    wanted: BadBlocks,
    /// The last one that all members got, and what some got since.
    recorded: BadBlocks,
    /// Ranges that could not be read once, for each member that was to get them, or [`RESYNC`].
    doubtful: BadBlocks,
    /// True if some members may have another list than the last one that all got: the next piece
    /// waits for a new one.
    is_uncertain: bool,
    /// The record under way.
    record: BadBlockRecord,
    /// The newest generation that any member may have.
    generation: u64,
    /// For each member, the slot of the newest record on it.
    slots: Vec<usize>,
    /// Members that have the last list.
    durable_on: Vec<MemberIndex>,
    phase: Phase,
    /// Members whose I/O is in flight.
    in_flight: usize,
    /// Members on which that succeeded.
    done: Vec<MemberIndex>,
    /// Members on which it failed, or was followed by a flush that failed.
    unwritable: Vec<MemberIndex>,
    /// Members whose storage was replaced meanwhile.
    replaced: Vec<MemberIndex>,
    /// Pieces that wait for the list, to start or to end.
    waiting: Vec<Released>,
}

impl BadBlockList {
    pub(crate) fn new(labels: &VolumeLabels) -> BadBlockList {
        BadBlockList {
            wanted: labels.bad_blocks.clone(),
            recorded: labels.bad_blocks.clone(),
            generation: labels.bad_blocks_generation,
            slots: labels.bad_blocks_slots.clone(),
            ..BadBlockList::default()
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.recorded.is_empty()
    }

    /// Returns true if a member lacks a part of a range.
    pub(crate) fn overlaps(&self, member: MemberIndex, range: &Range<u64>) -> bool {
        let lists = [&self.wanted, &self.recorded];
        lists.iter().any(|list| list.overlaps(member.get(), range))
    }

    /// The first offset inside a range at which a bad block begins or ends.
    pub(crate) fn first_edge(&self, range: &Range<u64>) -> Option<u64> {
        let parts = [&self.wanted, &self.recorded].map(|list| list.within(range));
        let edges = parts.iter().flat_map(BadBlocks::iter).flat_map(|(_, it)| [it.start, it.end]);
        edges.filter(|&edge| range.start < edge && edge < range.end).min()
    }

    /// Returns true if no list was ever written, or members have the last one.
    fn is_on(&self, members: impl Iterator<Item = MemberIndex>) -> bool {
        let lacking = members.filter(|member| !self.durable_on.contains(member));
        !self.is_uncertain && (self.generation == 0 || lacking.count() == 0)
    }

    /// Returns true if the members have what is known of a range.
    pub(crate) fn is_recorded(&self, range: &Range<u64>) -> bool {
        let lists = [&self.wanted, &self.recorded];
        if self.is_uncertain {
            return lists.iter().all(|list| list.within(range).is_empty());
        }
        self.wanted == self.recorded || self.wanted.within(range) == self.recorded.within(range)
    }

    /// Handles that a member starts to take writes, maybe on another storage with this list in this
    /// slot.
    pub(crate) fn on_joined(
        &mut self,
        member: MemberIndex,
        found: Option<&(BadBlockRecord, usize)>,
    ) {
        if let Some((record, slot)) = found {
            self.generation = self.generation.max(record.generation);
            self.slots[member.get()] = *slot;
        }
        self.durable_on.retain(|&other| other != member);
        self.forget_doubts(member);
        if self.phase != Phase::Resting {
            self.replaced.push(member);
        }
    }

    /// Forgets what a rebuild of a member could not read once.
    pub(crate) fn forget_doubts(&mut self, member: MemberIndex) {
        self.doubtful.remove(member.get(), &(0..u64::MAX));
    }

    /// Forgets what a resync could not read once in a range that is synchronised.
    pub(crate) fn on_resynced(&mut self, range: &Range<u64>) {
        self.doubtful.remove(RESYNC, range);
    }

    /// Forgets what a member lacks: its device was removed, or is empty.
    pub(crate) fn forget(&mut self, member: MemberIndex) {
        self.wanted.remove(member.get(), &(0..u64::MAX));
    }

    /// The list with what was written to members and is not known to be durable there.
    fn with_unsafe(&self, members: &[MemberIndex]) -> BadBlocks {
        let mut all = self.wanted.clone();
        all.extend(&self.recorded, |row| members.contains(&MemberIndex(row as u16)));
        all
    }

    /// Returns true if bad blocks of a member were written that the last list still has.
    pub(crate) fn may_lose_blocks(&self, member: MemberIndex) -> bool {
        self.with_unsafe(&[member]) != self.wanted
    }

    /// Puts back into the list what may be lost of a member that failed. If there is no room, it is
    /// not needed: all is copied to that member when it comes back.
    pub(crate) fn on_failed(&mut self, member: MemberIndex) {
        let all = self.with_unsafe(&[member]);
        if all.fits() {
            self.wanted = all;
        }
    }

    /// Records that a flush failed on a member that stays: what it was to make durable may be lost.
    pub(crate) fn on_failed_flush(&mut self, member: MemberIndex) {
        if self.phase != Phase::Resting {
            self.unwritable.push(member);
        }
    }

    /// The record to write.
    pub(crate) fn record(&self) -> &BadBlockRecord {
        assert_eq!(self.phase, Phase::Writing, "a record is written");
        &self.record
    }

    /// The slot of a member that the record goes to.
    pub(crate) fn next_slot(&self, member: MemberIndex) -> usize {
        1 - self.slots[member.get()]
    }

    pub(crate) fn slot_offset(&self, member: MemberIndex) -> u64 {
        bad_blocks_offset(self.next_slot(member))
    }

    fn begin(&mut self, phase: Phase, members: usize) {
        assert!(members > 0 && self.in_flight == 0, "one phase at a time, on some member");
        (self.phase, self.in_flight) = (phase, members);
        for members in [&mut self.done, &mut self.unwritable, &mut self.replaced] {
            members.clear();
        }
    }
}

impl StoreGate {
    /// The ranges of the volume that members lack, because no mirror could give them.
    pub fn bad_blocks(&self) -> Vec<(MemberIndex, Range<u64>)> {
        let mut all = self.bad.wanted.clone();
        all.extend(&self.bad.recorded, |_| true);
        all.iter().map(|(row, range)| (MemberIndex(row as u16), range)).collect()
    }

    /// Has the resync copy to a member what is listed though its device may have got it, before it
    /// took the place of another one.
    pub fn resync_bad_blocks(&mut self, member: MemberIndex) {
        let rows = self.bad.wanted.iter().filter(|(row, _)| *row == member.get());
        let ranges: Vec<Range<u64>> = rows.map(|(_, range)| range).collect();
        ranges.into_iter().for_each(|range| self.add_unsynced(range));
    }

    /// The targets that lack a part of a piece.
    pub(crate) fn lacking_targets(&self, plan: &PiecePlan) -> TargetSet {
        let mut lacking = TargetSet::default();
        let range = plan.range();
        for mirror in plan.mirrors().iter().filter(|it| self.bad.overlaps(it.member, &range)) {
            lacking.insert(PlanTarget::of(mirror));
        }
        lacking
    }

    /// Decides how a piece goes on that no mirror could give. Where the checksum of a block is a
    /// hint, the block is read without it. A rebuild goes on behind a range that is
    /// lost, and so does a resync, after which the mirrors lack it that could be read by then and
    /// differ. A single mirror keeps what it may give later.
    pub(crate) fn decide_unreadable(
        &mut self,
        piece: &PieceView,
        reason: UnreadableReason,
        states: &MemberStates,
    ) -> Unreadable {
        let PiecePlan { length, .. } = piece.plan;
        let range = piece.plan.range();
        let is_block = length <= CHECKSUM_BLOCK_BYTES;
        if reason.is_mismatch && is_block && self.is_hint(&piece.plan, &range, states) {
            self.drop_hint(piece);
            return Unreadable::ReadUnchecked;
        }
        let mirrors = piece.plan.mirrors().iter();
        let in_sync = mirrors.filter(|it| states.is_in_sync(it.member, it.offset, length));
        let sources: Vec<MemberIndex> = in_sync.map(|mirror| mirror.member).collect();
        let is_bad = |member: &MemberIndex| self.bad.overlaps(*member, &range);
        let is_known = sources.iter().all(is_bad);
        let lacking = match piece.kind {
            _ if !reason.is_lost || self.is_read_only => return Unreadable::Fail,
            // One that catches up has what was not written since it left.
            RequestKind::Rebuild(member) if !self.may_lack(member, &range) => Vec::new(),
            RequestKind::Rebuild(member) => vec![member],
            RequestKind::Resync => {
                let sources: Vec<MemberIndex> =
                    sources.into_iter().filter(|it| !is_bad(it)).collect();
                if sources.len() > 1 { sources } else { Vec::new() }
            }
            _ => return Unreadable::Fail,
        };
        let row = match piece.kind {
            RequestKind::Rebuild(member) => member.get(),
            _ => RESYNC,
        };
        if !is_known && !self.bad.doubtful.overlaps(row, &range) {
            // A controller that is reset fails all mirrors for a while: the step is tried again.
            if self.bad.doubtful.len() >= DOUBTFUL_MAX {
                self.bad.doubtful = BadBlocks::default();
            }
            self.bad.doubtful.insert(row, range);
            return Unreadable::Fail;
        }
        let mut wanted = self.bad.wanted.clone();
        lacking.iter().for_each(|member| wanted.insert(member.get(), range.clone()));
        if !wanted.fits() {
            return Unreadable::Fail;
        }
        self.bad.wanted = wanted;
        Unreadable::LeaveOut
    }

    /// Removes from the list what a piece has written. Fails, and removes nothing, if the list has
    /// no room for the rests of a range.
    pub(crate) fn forget_bad_blocks(
        &mut self,
        piece: &PieceView,
        states: &MemberStates,
    ) -> Result<(), ListFull> {
        if self.bad.wanted.is_empty() {
            return Ok(());
        }
        let range = piece.plan.range();
        let has_got = |member: &MemberIndex| {
            // A member in sync is copied to another device, which is all that is written.
            let is_copied = piece.kind == RequestKind::Rebuild(*member)
                && states.members()[*member].state == MemberState::InSync;
            !is_copied && !states.is_failed(*member)
        };
        let members = piece.written.iter().map(|target| piece.plan.location(target).0);
        let lacked = |member: &MemberIndex| self.bad.wanted.overlaps(member.get(), &range);
        let mended: Vec<MemberIndex> = members.filter(has_got).filter(lacked).collect();
        if mended.is_empty() {
            return Ok(());
        }
        let mut rest = self.bad.wanted.clone();
        mended.iter().for_each(|member| rest.remove(member.get(), &range));
        if !rest.fits() && self.bad.wanted.fits() {
            return Err(ListFull);
        }
        self.bad.wanted = rest;
        Ok(())
    }

    /// Decides whether a piece may start: all members that take writes have the list.
    pub(crate) fn admit_bad_blocks(
        &mut self,
        piece: &PieceView,
        array: &mut Array<'_>,
    ) -> GateAnswer {
        match self.bad.is_on(array.states.active()) {
            true => GateAnswer::Go,
            false => self.wait_for_bad_blocks(Released::Start(piece.key), array),
        }
    }

    /// Has a piece wait until members have the list. The labels are current.
    pub(crate) fn wait_for_bad_blocks(
        &mut self,
        piece: Released,
        array: &mut Array<'_>,
    ) -> GateAnswer {
        self.bad.waiting.push(piece);
        self.start_bad_blocks(array);
        GateAnswer::Wait
    }

    /// Starts to write the list, unless that is under way. The labels are current then: a member
    /// that they call in sync has each list before this one.
    fn start_bad_blocks(&mut self, array: &mut Array<'_>) {
        if self.bad.phase != Phase::Resting {
            return;
        }
        if !self.labels.is_current(array.states) {
            self.update_labels(array);
            return self.retry_bad_blocks();
        }
        let bad = &mut self.bad;
        let kept = bad.with_unsafe(&array.states.unflushed());
        if kept != bad.wanted {
            bad.wanted = kept;
            return self.fail_ends();
        }
        if !bad.wanted.fits() {
            return self.fail_bad_blocks();
        }
        bad.record.blocks = bad.wanted.clone();
        let mut all = bad.wanted.clone();
        all.extend(&bad.recorded, |_| true);
        let phase = if all == bad.wanted { Phase::Writing } else { Phase::Flushing };
        self.begin_bad_blocks(phase, array);
    }

    fn begin_bad_blocks(&mut self, phase: Phase, array: &Array<'_>) {
        assert!(!self.is_read_only, "a read-only volume records nothing");
        let members: Vec<MemberIndex> = array.states.active().collect();
        if members.is_empty() {
            self.bad.phase = Phase::Resting;
            return self.fail_bad_blocks();
        }
        self.bad.begin(phase, members.len());
        if phase == Phase::Writing {
            // Whether it gets to all members or not, the next one has another.
            self.bad.generation += 1;
            self.bad.record.generation = self.bad.generation;
        }
        let op = if phase == Phase::Writing { Op::Write } else { Op::Flush };
        self.queue_metadata(members, op, MetadataJob::BadBlocks);
    }

    /// Handles the end of the list's I/O on a member.
    pub(crate) fn on_bad_blocks_io(
        &mut self,
        member: MemberIndex,
        is_good: bool,
        array: &mut Array<'_>,
    ) {
        let bad = &mut self.bad;
        assert!(bad.in_flight > 0, "an I/O of the list ends once");
        bad.in_flight -= 1;
        let is_good = is_good && !bad.unwritable.contains(&member);
        match is_good {
            true => bad.done.push(member),
            // Of its former storage.
            false if bad.replaced.contains(&member) => {}
            false => bad.unwritable.push(member),
        }
        if is_good && bad.phase == Phase::Writing && !bad.replaced.contains(&member) {
            bad.slots[member.get()] = bad.next_slot(member);
        }
        if bad.in_flight > 0 {
            return;
        }
        let unwritable = std::mem::take(&mut bad.unwritable);
        let phase = std::mem::take(&mut bad.phase);
        if !unwritable.is_empty() {
            if phase == Phase::Writing {
                // Some members may have it.
                bad.is_uncertain = true;
                let record = bad.record.blocks.clone();
                bad.recorded.extend(&record, |_| true);
            }
            unwritable.iter().for_each(|&member| self.lose_member(member, array));
            return match unwritable.iter().all(|&member| array.states.is_failed(member)) {
                true => self.retry_bad_blocks(),
                false => {
                    self.bad.wanted = self.bad.with_unsafe(&unwritable);
                    self.fail_bad_blocks();
                }
            };
        }
        if phase == Phase::Flushing {
            return self.begin_bad_blocks(Phase::Writing, array);
        }
        let replaced = std::mem::take(&mut bad.replaced);
        bad.durable_on = std::mem::take(&mut bad.done);
        bad.durable_on.retain(|member| !replaced.contains(member));
        (bad.recorded, bad.is_uncertain) = (bad.record.blocks.clone(), false);
        self.labels.bad_blocks_generation = match bad.recorded.is_empty() {
            true => 0,
            false => bad.record.generation,
        };
        self.update_labels(array);
        self.retry_bad_blocks();
    }

    /// Has the pieces that wait for the list ask again.
    fn retry_bad_blocks(&mut self) {
        self.released.extend(std::mem::take(&mut self.bad.waiting));
    }

    /// Fails the pieces that wait to end, and has the others ask again.
    fn fail_ends(&mut self) {
        let waiting = std::mem::take(&mut self.bad.waiting).into_iter();
        self.released.extend(waiting.map(|piece| match piece {
            Released::End(key) => Released::Fail(key),
            other => other,
        }));
    }

    /// Fails the pieces that wait for the list.
    fn fail_bad_blocks(&mut self) {
        let waiting = std::mem::take(&mut self.bad.waiting).into_iter();
        self.released.extend(waiting.filter_map(|piece| match piece {
            Released::Start(key) | Released::End(key) => Some(Released::Fail(key)),
            _ => None,
        }));
    }
}
