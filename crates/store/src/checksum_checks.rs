//! Checks by checksums: writes get theirs, and the data that members return are compared with them.
//!
//! **Reads.** Data that do not match their checksums are like data that a medium lost: they are
//! read from another mirror, and the bad one is rewritten. A read without a lock may overlap a
//! write, so what does not match is first read again from the same mirror under the lock.
//!
//! **Scrubs and resyncs** read every mirror of a piece, and judge each block by all of them
//! ([`StoreGate::judge_piece`]): a block that one mirror has right is copied to those that do not.
//! Whether they hold the same does not follow from their checksums ([`crate::checksum`]).
//!
//! **Hints.** In a region that is unsynced since the start, members may have the data of a write
//! and not yet its checksum. There a checksum is a hint: a mirror that matches is right, because
//! data that were not written since match. If none does, the first mirror counts, as without
//! checksums, and the checksum is replaced. This holds for reads as well as for the resync, so a
//! block reads the same before and after. Where a mirror in sync lacks a bad block, its checksum is
//! no hint: no mirror had it right, and a write that was replied to took it off the list. There,
//! and in an unsynced region, no mismatch counts: a mirror may have a write that was cut.

use crate::StoreGate;
use crate::checksum::{BlockDigest, CHECKSUM_BLOCK_BYTES, UNKNOWN};
use crate::unsynced_regions::REGION_BYTES;
use mirrorball_core::io::{IoError, MemberIo, RequestKind};
use mirrorball_core::member::MemberIndex;
use mirrorball_core::volume::gate::{Judged, Judgement, PieceView};
use mirrorball_core::volume::{
    MemberStates, PieceKey, PiecePlan, PlanTarget, RequestKey, TargetSet,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// A block whose mirrors differ though none of them is known to be wrong: it has no checksum, or
/// they match it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DifferingBlock {
    pub offset: u64,
    /// The members, with the digests of what they have.
    pub mirrors: Vec<(MemberIndex, BlockDigest)>,
}

/// Digests of what scrubs and resyncs read, until they are judged, and the findings of scrubs.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    read: BTreeMap<PieceKey, Vec<TargetRead>>,
    differing: Vec<DifferingBlock>,
    mismatched: Vec<(MemberIndex, u64)>,
}

/// A target, with the digests of what was read from it.
type TargetRead = (PlanTarget, Box<[BlockDigest]>);

impl StoreGate {
    /// Keeps the checksums of the data of a write, in order, before its request is opened. Panics
    /// if the volume has none.
    pub(crate) fn begin_write(&mut self, request: RequestKey, checksums: Box<[u32]>) {
        self.checksums_mut().begin_write(request, checksums);
    }

    /// Keeps what a member returned that is compared with others: a read of a scrub or resync that
    /// succeeded.
    pub(crate) fn compare(
        &mut self,
        piece: PieceKey,
        target: PlanTarget,
        digests: Box<[BlockDigest]>,
    ) {
        let read = self.findings.read.entry(piece).or_default();
        assert!(read.iter().all(|(other, _)| *other != target), "{target:?} is read once");
        read.push((target, digests));
    }

    /// Checks what a member returned by the checksums of its blocks; for every other read that
    /// succeeded.
    ///
    /// # Errors
    /// With what the I/O is to be completed instead.
    ///
    /// # Panics
    /// If the volume has no checksums.
    pub(crate) fn check(
        &mut self,
        piece: &PieceView,
        io: &MemberIo,
        checksums: impl Iterator<Item = u32>,
    ) -> Result<(), IoError> {
        assert!(piece.marks.is_pinned, "the page of a piece that is read is in memory");
        let count = io.length.div_ceil(CHECKSUM_BLOCK_BYTES) as usize;
        let known = self.checksums().known_blocks(io.volume_offset, count).iter().zip(checksums);
        let bad = |(_, (known, found)): &(u64, (&u32, u32))| **known != UNKNOWN && *known != found;
        let bad: Vec<u64> =
            blocks(io.volume_offset).zip(known).filter(bad).map(|it| it.0).collect();
        if bad.is_empty() {
            return Ok(());
        }
        for offset in bad.into_iter().filter(|_| piece.has_lock) {
            let block = offset..offset + CHECKSUM_BLOCK_BYTES;
            if !self.may_be_cut(&piece.plan, &block) {
                self.checksums_mut().mismatched.on_mismatch(io.member, offset);
            }
        }
        Err(IoError::Checksum)
    }

    /// Returns and forgets the blocks that scrubs found to differ, of which none is known to be
    /// wrong.
    pub fn take_differing_blocks(&mut self) -> Vec<DifferingBlock> {
        std::mem::take(&mut self.findings.differing)
    }

    /// Returns and forgets the blocks that scrubs found with wrong data: the member, and the offset
    /// on the volume.
    pub fn take_mismatched_blocks(&mut self) -> Vec<(MemberIndex, u64)> {
        std::mem::take(&mut self.findings.mismatched)
    }

    /// Enters the checksums of a piece whose data are written or discarded now.
    pub(crate) fn enter_checksums(&mut self, piece: &PieceView) {
        let Some(store) = &mut self.checksums else { return };
        assert!(piece.marks.is_pinned, "the page of a write is in memory");
        let range = piece.plan.range();
        match piece.kind {
            RequestKind::Write => store.write(piece.request, piece.request_offset, &range),
            _ => store.clear(&range),
        }
    }

    /// Forgets the checksums of a write that failed: some mirrors may have it.
    pub(crate) fn forget_checksums(&mut self, range: &Range<u64>) {
        if let Some(store) = &mut self.checksums {
            store.clear(range);
        }
    }

    /// Records that targets of a piece are written with good data.
    pub(crate) fn on_mended(&mut self, piece: &PieceView, targets: TargetSet) {
        let Some(store) = &mut self.checksums else { return };
        for target in targets.iter() {
            store.mismatched.on_mended(piece.plan.location(target).0, &piece.plan.range());
        }
    }

    /// Forgets the blocks with wrong data of the device that a member had.
    pub(crate) fn forget_mismatched(&mut self, member: MemberIndex) {
        if let Some(store) = &mut self.checksums {
            store.mismatched.on_replaced(member);
        }
    }

    /// Returns true if the checksum of a block of a piece is a hint.
    pub(crate) fn is_hint(
        &self,
        plan: &PiecePlan,
        block: &Range<u64>,
        states: &MemberStates,
    ) -> bool {
        let (skip, length) = (block.start - plan.offset, block.end - block.start);
        let mut in_sync = plan
            .mirrors()
            .iter()
            .filter(|it| states.is_in_sync(it.member, it.offset + skip, length));
        self.has_checksums()
            && self.hinted.overlaps(block)
            && !in_sync.any(|mirror| self.bad.overlaps(mirror.member, block))
    }

    /// Returns true if a mirror may hold other data without damage: those of a write that a crash
    /// cut or that failed elsewhere.
    fn may_be_cut(&self, plan: &PiecePlan, block: &Range<u64>) -> bool {
        let mut mirrors = plan.mirrors().iter();
        self.may_differ(block) || mirrors.any(|it| self.bad.overlaps(it.member, block))
    }

    /// Forgets the checksum of a block, which is a hint that no mirror matches.
    pub(crate) fn drop_hint(&mut self, piece: &PieceView) {
        self.set_checksum(piece.plan.range().start, UNKNOWN);
    }

    /// Replaces the checksum of a block without a write. A member that is missing may have another.
    fn set_checksum(&mut self, offset: u64, checksum: u32) {
        if self.checksums_mut().set(offset, checksum) {
            self.log.stale.insert((offset / REGION_BYTES) as u32);
        }
    }

    /// Judges the blocks of a scrub or resync by what was read of all mirrors.
    pub(crate) fn judge_piece(
        &mut self,
        piece: &PieceView,
        to_copy: TargetSet,
        states: &MemberStates,
    ) -> Option<Judged> {
        let mut read = self.findings.read.remove(&piece.key).unwrap_or_default();
        // The first is the one that is read in an unsynced region.
        read.sort_by_key(|(target, _)| target.index());
        let first = read.first()?.0;
        let count = piece.plan.length.div_ceil(CHECKSUM_BLOCK_BYTES) as usize;
        assert!(piece.has_lock, "mirrors are compared under the lock");
        assert!(read.iter().all(|(_, it)| it.len() == count), "each mirror was read whole");
        let judge = |block| self.judge_block(piece, &read, block, (to_copy, states));
        Some(Judged { first, units: (0..count).map(judge).collect() })
    }

    fn judge_block(
        &mut self,
        piece: &PieceView,
        read: &[TargetRead],
        block: usize,
        (to_copy, states): (TargetSet, &MemberStates),
    ) -> Judgement {
        let PiecePlan { offset, length, .. } = piece.plan;
        let end = offset + length;
        let offset = offset + block as u64 * CHECKSUM_BLOCK_BYTES;
        let range = offset..end.min(offset + CHECKSUM_BLOCK_BYTES);
        let is_hint = self.is_hint(&piece.plan, &range, states);
        let is_unsynced = self.may_differ(&piece.plan.range());
        if is_unsynced && piece.kind == RequestKind::Scrub {
            return Judgement::Fine;
        }
        let known = self.checksums().known(offset);
        let (first, found) = (read[0].0, read[0].1[block]);
        let are_equal = read.iter().all(|(_, digests)| digests[block] == found);
        let is_good = |(_, it): &&TargetRead| known == UNKNOWN || it[block].checksum == known;
        if !self.may_be_cut(&piece.plan, &range) {
            for (target, _) in read.iter().filter(|it| !is_good(it)) {
                let member = piece.plan.location(*target).0;
                self.checksums_mut().mismatched.on_mismatch(member, offset);
                if piece.kind == RequestKind::Scrub {
                    self.findings.mismatched.push((member, offset));
                }
            }
        }
        let good: Vec<&TargetRead> = read.iter().filter(is_good).collect();
        if !is_unsynced && good.iter().any(|(_, it)| it[block] != good[0].1[block]) {
            let mirror = |(target, it): &&TargetRead| (piece.plan.location(*target).0, it[block]);
            let mirrors = good.iter().map(mirror).collect();
            assert!(good.len() > 1, "mirrors differ from each other");
            self.findings.differing.push(DifferingBlock { offset, mirrors });
            return Judgement::Fine;
        }
        let right = match good.first() {
            Some((target, _)) => *target,
            None if is_hint => first,
            None => return Judgement::Lost,
        };
        if known == UNKNOWN || good.is_empty() {
            self.set_checksum(offset, found.checksum);
        }
        match are_equal && to_copy.is_empty() || self.is_read_only {
            true => Judgement::Fine,
            false => Judgement::Copy(right),
        }
    }
}

fn blocks(offset: u64) -> impl Iterator<Item = u64> {
    (offset..).step_by(CHECKSUM_BLOCK_BYTES as usize)
}
