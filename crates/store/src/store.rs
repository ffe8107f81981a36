//! The store: the gate of a volume that keeps data on members with labels.
//!
//! | part | says | file |
//! |---|---|---|
//! | labels | which members are in sync, the policy, the spares | `label_writer`, `label_updates` |
//! | dirty log | regions that may have writes in flight | `dirty_log`, `log_updates` |
//! | stale map | what members lack that are missing | `stale_regions` |
//! | bad blocks | what members in sync lack | `bad_blocks` |
//! | checksums | what the data are | `checksum_store`, `checksum_pages`, `checksum_checks` |
//! | scrub record | how far the last scrub is | `scrub_progress` |
//!
//! `admission` says what requests and pieces wait for. Every wait is in one list of its reason: for
//! labels to start or to end (`LabelWriter`), for a record (`DirtyLog`), for a page to be read or
//! written (`ChecksumStore`, `PageWrites`). What need not wait any more goes to `released`, and the
//! volume asks again.

use crate::bad_blocks::BadBlockList;
use crate::checksum_checks::Findings;
use crate::checksum_pages::PageWrites;
use crate::checksum_store::ChecksumStore;
use crate::dirty_log::DirtyLog;
use crate::label::{DIRTY_REGIONS_MAX, Label, PAGE_SLOTS_BYTES, PAGE_SPAN_BYTES};
use crate::label_writer::LabelWriter;
use crate::metadata::MetadataQueue;
use crate::scrub_progress::ScrubKeeper;
use crate::stale_regions::StaleRegions;
use crate::stop::Stop;
use crate::unsynced_regions::{REGION_BYTES, UnsyncedRegions, regions};
use crate::volume_labels::VolumeLabels;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::io::{IoError, MemberIo, Request, VolumeError};
use mirrorball_core::member::{Member, MemberIndex, MemberState, Members};
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::gate::{
    Array, Closing, Gate, GateAnswer, GateEvent, Judged, MetadataIo, PieceView, Released,
    Unreadable, UnreadableReason,
};
use mirrorball_core::volume::{MemberStates, PiecePlan, RequestKey, TargetSet};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// See the page of this module.
pub struct StoreGate {
    pub(crate) labels: LabelWriter,
    pub(crate) log: DirtyLog,
    /// Where mirrors may differ.
    pub(crate) unsynced: UnsyncedRegions,
    /// Those of them since the start, where data may be newer than their checksums.
    pub(crate) hinted: UnsyncedRegions,
    /// The ranges that members in sync lack.
    pub(crate) bad: BadBlockList,
    /// With checksums, those in memory.
    pub(crate) checksums: Option<Box<ChecksumStore>>,
    pub(crate) page_writes: PageWrites,
    pub(crate) findings: Findings,
    pub(crate) scrub: ScrubKeeper,
    pub(crate) stop: Stop,
    /// For each member that is rebuilt, true if it lacks only stale regions.
    pub(crate) catching_up: Vec<bool>,
    /// Flushes: where the part that is not synchronised begins once they succeeded.
    pub(crate) flushes: BTreeMap<RequestKey, Option<u64>>,
    /// Rebuilds whose member was flushed: the recovery offset that is durable then.
    pub(crate) flushed_rebuilds: BTreeMap<RequestKey, u64>,
    pub(crate) metadata: MetadataQueue,
    pub(crate) released: VecDeque<Released>,
    pub(crate) capacity_bytes: u64,
    pub(crate) is_read_only: bool,
}

impl StoreGate {
    /// The store of a volume that starts with these labels. A read-only one writes nothing. Panics
    /// if the label has other members than the volume, or the volume has parity.
    pub fn new(
        labels: VolumeLabels,
        map: &ChunkMap,
        states: &mut MemberStates,
        is_read_only: bool,
    ) -> StoreGate {
        let members = states.members();
        assert_eq!(labels.label.members.len(), members.len(), "a row for each member");
        assert_eq!(map.parities(), 0, "a volume with parity has no labels");
        assert_eq!(labels.slots.len(), members.len(), "a slot for each member");
        let capacity_bytes = map.capacity_bytes();
        let mut catching_up = vec![false; members.len()];
        labels.catching_up.iter().for_each(|member| catching_up[member.get()] = true);
        labels.announced.iter().for_each(|&member| states.set_unrecorded(member));
        let (sequence, least_sequence) = (labels.sequence, labels.least_sequence);
        let count = capacity_bytes.div_ceil(REGION_BYTES);
        let stale = StaleRegions::new(count, labels.stale.clone(), labels.map_generation);
        let (logged, tail) = split_unsynced(labels.unsynced.clone(), capacity_bytes);
        let bad = BadBlockList::new(&labels);
        let (scrub, is_joined) = (ScrubKeeper::new(labels.scrub), labels.is_joined);
        let mut writer = LabelWriter::new(labels);
        let begins = MemberState::Rebuilding { recovered_bytes: 0 };
        let joins = |member: &MemberIndex| is_joined && states.members()[*member].state == begins;
        states.active().filter(joins).for_each(|member| writer.forget_progress(member));
        writer.resync_from = writer.resync_from.into_iter().chain(tail).min();
        let resync_from = writer.resync_from;
        let mut store = StoreGate {
            log: DirtyLog::new(count as u32, sequence, least_sequence, logged.clone(), stale),
            checksums: checksum_store(writer.committed(), states.members(), capacity_bytes),
            labels: writer,
            unsynced: UnsyncedRegions::default(),
            hinted: UnsyncedRegions::default(),
            bad,
            page_writes: PageWrites::default(),
            findings: Findings::default(),
            scrub,
            stop: Stop::default(),
            catching_up,
            flushes: BTreeMap::new(),
            flushed_rebuilds: BTreeMap::new(),
            metadata: MetadataQueue::default(),
            released: VecDeque::new(),
            capacity_bytes,
            is_read_only,
        };
        if is_read_only && let Some(checksums) = &mut store.checksums {
            checksums.read_only();
        }
        if let Some(from) = resync_from {
            store.insert_unsynced(from..capacity_bytes);
        }
        for start in logged.into_iter().map(|region| u64::from(region) * REGION_BYTES) {
            store.insert_unsynced(start..start + REGION_BYTES);
        }
        store.hinted = store.unsynced.clone();
        for member in states.active().filter(|&it| store.is_empty(it, states)).collect::<Vec<_>>() {
            store.bad.forget(member);
        }
        store
    }

    /// The last label that is durable on all members that take writes.
    pub fn label(&self) -> &Label {
        self.labels.committed()
    }

    /// Returns true if every member is in sync.
    pub(crate) fn is_complete(states: &MemberStates) -> bool {
        let is_in_sync = |(_, member): (_, &Member)| member.state == MemberState::InSync;
        states.members().iter().all(is_in_sync)
    }
}

/// The checksums of a volume whose label says that it has them.
fn checksum_store(
    label: &Label,
    members: &Members,
    capacity_bytes: u64,
) -> Option<Box<ChecksumStore>> {
    let tables = label.array.checksum_tables(label.members.iter().map(|it| it.size_bytes))?;
    let pages = capacity_bytes.div_ceil(PAGE_SPAN_BYTES);
    for ((_, member), begin) in members.iter().zip(&tables) {
        let end = begin + pages * PAGE_SLOTS_BYTES;
        assert!(end <= member.config.size_bytes, "a table has room for all pages");
    }
    let checksummer = crate::checksum::Checksummer::new(label.array.uuid.0);
    Some(Box::new(ChecksumStore::new(checksummer, tables)))
}

impl Gate for StoreGate {
    fn open(
        &mut self,
        key: RequestKey,
        request: &Request,
        array: &mut Array<'_>,
    ) -> Result<GateAnswer, VolumeError> {
        Ok(self.open_request(key, request, array))
    }

    fn close(&mut self, key: RequestKey, request: &Request, array: &mut Array<'_>) -> Closing {
        self.close_request(key, request, array)
    }

    fn admit(&mut self, piece: &mut PieceView, array: &mut Array<'_>) -> GateAnswer {
        self.admit_piece(piece, array)
    }

    fn settle(&mut self, piece: &PieceView, array: &mut Array<'_>) -> GateAnswer {
        self.settle_piece(piece, array)
    }

    fn on_event(&mut self, event: GateEvent<'_>, array: &mut Array<'_>) {
        match event {
            GateEvent::MemberSet { member, had_failed } => {
                self.on_member_set(member, had_failed, array);
            }
            GateEvent::FlushFailed(member) => {
                self.log.on_failed_flush(member);
                self.labels.on_failed_flush(member);
                self.bad.on_failed_flush(member);
            }
            GateEvent::Rebuilt(member, request) => self.on_rebuilt(member, request, array),
            GateEvent::Divided(piece) if piece.marks.is_pinned => self.pin_page(piece),
            GateEvent::Divided(_) => {}
            GateEvent::Ended(piece) => self.on_piece_end(piece, array),
            GateEvent::Closed(request) => {
                self.flushes.remove(&request);
                self.flushed_rebuilds.remove(&request);
                if let Some(checksums) = &mut self.checksums {
                    checksums.end_write(request);
                }
            }
            GateEvent::WriteFailed(range) => {
                self.forget_checksums(range);
                self.add_unsynced(range.clone());
            }
            GateEvent::Differs(range) => self.add_unsynced(range.clone()),
            GateEvent::Rewriting(piece, targets) => self.on_mended(piece, targets),
        }
    }

    fn poll_released(&mut self) -> Option<Released> {
        self.released.pop_front()
    }

    #[inline]
    fn reads_first_only(&self, range: &Range<u64>) -> bool {
        !self.unsynced.is_empty() && self.unsynced.overlaps(range)
    }

    #[inline]
    fn lacking(&self, plan: &PiecePlan) -> TargetSet {
        match self.bad.is_empty() {
            true => TargetSet::default(),
            false => self.lacking_targets(plan),
        }
    }

    fn lacking_edge(&self, range: &Range<u64>) -> Option<u64> {
        self.bad.first_edge(range)
    }

    fn may_lack(&self, member: MemberIndex, range: &Range<u64>) -> bool {
        self.bad.overlaps(member, range)
            || regions(range).any(|region| self.may_lack_region(member, region as u32))
    }

    fn piece_end(&self, offset: u64) -> u64 {
        match self.checksums {
            None => u64::MAX,
            // Its span has one page.
            Some(_) => (offset / PAGE_SPAN_BYTES + 1) * PAGE_SPAN_BYTES,
        }
    }

    fn unit_bytes(&self) -> u64 {
        if self.checksums.is_some() { crate::checksum::CHECKSUM_BLOCK_BYTES } else { 0 }
    }

    fn judge(
        &mut self,
        piece: &PieceView,
        to_copy: TargetSet,
        array: &mut Array<'_>,
    ) -> Option<Judged> {
        self.judge_piece(piece, to_copy, array.states)
    }

    fn on_unreadable(
        &mut self,
        piece: &PieceView,
        reason: UnreadableReason,
        array: &mut Array<'_>,
    ) -> Unreadable {
        self.decide_unreadable(piece, reason, array.states)
    }

    fn has_io(&self) -> bool {
        self.metadata.has_io()
    }

    fn poll_io(&mut self, now: Nanos, array: &mut Array<'_>) -> Option<MetadataIo> {
        self.give_up_failed(now, array);
        self.next_metadata(array)
    }

    fn complete(
        &mut self,
        token: u32,
        io: &MemberIo,
        result: Result<(), IoError>,
        now: Nanos,
        array: &mut Array<'_>,
    ) {
        self.on_metadata_io(token, io, result, now, array);
    }

    fn poll_timeout(&self) -> Option<Nanos> {
        self.log.next_tick()
    }

    fn arm_timeout(&mut self, now: Nanos) {
        if self.has_dirty_pages() && !self.is_read_only {
            // Pages are written though no region is active.
            self.log.arm_anyway(now);
        }
        if self.log.repairs.may_be_lost() {
            self.log.arm(now);
        }
    }

    fn on_timeout(&mut self, now: Nanos, array: &mut Array<'_>) {
        self.tick_log(now, array);
    }
}

/// Divides the regions that are unsynced at the start, in order, into those that the log holds and
/// an offset from which everything is. That is where a long run begins that ends with the volume:
/// without it, writes would wait until the log has space.
fn split_unsynced(mut regions: Vec<u32>, capacity_bytes: u64) -> (Vec<u32>, Option<u64>) {
    assert!(regions.is_sorted(), "regions come in order");
    let count = capacity_bytes.div_ceil(REGION_BYTES) as u32;
    let run = regions.iter().rev().zip((0..count).rev()).take_while(|(it, end)| **it == *end);
    let run = run.count();
    let kept = match run > DIRTY_REGIONS_MAX / 2 {
        true => regions.len() - run,
        false => regions.len(),
    };
    let kept = kept.min(DIRTY_REGIONS_MAX);
    let tail = regions.get(kept).map(|&region| u64::from(region) * REGION_BYTES);
    assert!(kept <= DIRTY_REGIONS_MAX, "a record has room for {kept} regions");
    regions.truncate(kept);
    (regions, tail)
}

#[cfg(test)]
mod split_tests {
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
