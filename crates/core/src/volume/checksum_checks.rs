//! What the volume does with checksums: it gives writes theirs, and checks what members return.
//!
//! **Reads.** Data that do not match their checksums are like data that a medium lost: they are
//! read from another mirror, and the bad one is rewritten. A read without a lock may overlap a
//! write, so what does not match is first read again from the same mirror under the lock.
//!
//! **Scrubs and resyncs** read every mirror of a piece, and judge each block by all of them
//! ([`Volume::judge`]): a block that one mirror has right is copied to those that do not. Whether
//! they hold the same does not follow from their checksums ([`crate::checksum`]).
//!
//! **Hints.** In an unsynced region the members may have the data of a write and not yet its
//! checksum. There a checksum is a hint: a mirror that matches is right, because data that nobody
//! wrote since match. If none does, the first mirror counts, as without checksums, and the checksum
//! is replaced. This holds for reads as well as for the resync, so a block reads the same before
//! and after.

use super::Volume;
use super::keys::{IoKey, PieceKey};
use super::piece::Piece;
use super::target::{PlanTarget, TargetSet};
use super::unsynced_regions::REGION_BYTES;
use crate::checksum::{BlockDigest, CHECKSUM_BLOCK_BYTES, UNKNOWN};
use crate::io::{IoError, IoId, Request, RequestKind};
use crate::member::MemberIndex;
use std::collections::BTreeMap;
use std::ops::Range;

/// A block whose mirrors differ though none of them is known to be wrong: it has no checksum, or
/// they match it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DifferingBlock {
    /// Its offset on the volume.
    pub offset: u64,
    /// The members, with the digests of what they have.
    pub mirrors: Vec<(MemberIndex, BlockDigest)>,
}

/// What scrubs and resyncs read, until it is judged, and what scrubs found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What the mirrors of a piece hold.
    read: BTreeMap<PieceKey, Vec<TargetRead>>,
    differing: Vec<DifferingBlock>,
    mismatched: Vec<(MemberIndex, u64)>,
}

/// A target, with the digests of what was read from it.
type TargetRead = (PlanTarget, Box<[BlockDigest]>);

/// The judgement of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judgement {
    /// Nothing is to be done.
    Fine,
    /// It is to be copied from this target to others.
    Copy(PlanTarget),
    /// No mirror has it.
    Lost,
}

impl Volume {
    /// Accepts a write to a volume with checksums, with those of its data in order.
    ///
    /// # Panics
    /// If the volume has none, or the data have another number of blocks.
    pub fn submit_write(&mut self, request: Request, checksums: Box<[u32]>) {
        let blocks = request.length.div_ceil(CHECKSUM_BLOCK_BYTES);
        assert!(self.checksums.is_some(), "the volume has no checksums");
        assert!(request.kind == RequestKind::Write && checksums.len() as u64 == blocks);
        self.accept(request, Some(checksums));
    }

    /// The offset on the volume of what a member I/O reads, if it is to be checked.
    pub fn volume_offset(&self, id: IoId) -> Option<u64> {
        let in_flight = self.in_flight.get(IoKey::of(id));
        let is_checked = !in_flight.superseded && in_flight.job.is_none();
        is_checked.then_some(in_flight.io.volume_offset)
    }

    /// Returns true if a member I/O reads a mirror that is compared with others.
    pub fn is_compared(&self, id: IoId) -> bool {
        let piece = self.pieces.get(self.in_flight.get(IoKey::of(id)).piece);
        matches!(piece.kind, RequestKind::Scrub | RequestKind::Resync)
    }

    /// Takes what a member returned that is compared with others; to be called before
    /// [`Volume::complete`] for each read that succeeded and has a [`Volume::volume_offset`].
    pub fn compare(&mut self, id: IoId, digests: Box<[BlockDigest]>) {
        let in_flight = self.in_flight.get(IoKey::of(id));
        self.findings.read.entry(in_flight.piece).or_default().push((in_flight.target, digests));
    }

    /// Checks what a member returned by the checksums of its blocks; to be called before
    /// [`Volume::complete`] for each other read that succeeded and has a [`Volume::volume_offset`].
    ///
    /// # Errors
    /// With what the I/O is to be completed instead.
    ///
    /// # Panics
    /// If the volume has no checksums.
    pub fn check(&mut self, id: IoId, checksums: &[u32]) -> Result<(), IoError> {
        let in_flight = *self.in_flight.get(IoKey::of(id));
        assert!(in_flight.job.is_none() && !in_flight.superseded, "no read to be checked");
        let (key, io) = (in_flight.piece, in_flight.io);
        let piece = self.pieces.get(key);
        let store = self.checksums.as_ref().expect("the volume has checksums");
        let known = store.known_blocks(io.volume_offset, checksums.len());
        let mut pairs = known.iter().zip(checksums);
        if pairs.all(|(&known, &found)| known == UNKNOWN || known == found) {
            return Ok(());
        }
        if piece.has_lock && !self.is_unsynced(&piece.plan.range()) {
            self.count_mismatches(io.member, io.volume_offset, checksums);
        }
        Err(IoError::Checksum)
    }

    /// Counts the blocks of what a member returned that do not match.
    fn count_mismatches(&mut self, member: MemberIndex, offset: u64, checksums: &[u32]) {
        let store = self.checksums.as_mut().expect("the volume has checksums");
        for (offset, &found) in blocks(offset).zip(checksums) {
            let known = store.known(offset);
            if known != UNKNOWN && known != found {
                store.on_mismatch(member, offset);
            }
        }
    }

    /// Takes the blocks that scrubs found to differ, of which none is known to be wrong.
    pub fn take_differing_blocks(&mut self) -> Vec<DifferingBlock> {
        std::mem::take(&mut self.findings.differing)
    }

    /// Takes the blocks that scrubs found with wrong data: the member, and the offset on the
    /// volume.
    pub fn take_mismatched_blocks(&mut self) -> Vec<(MemberIndex, u64)> {
        std::mem::take(&mut self.findings.mismatched)
    }

    /// Takes that the data of a piece are written or discarded now.
    pub(super) fn change_checksums(&mut self, key: PieceKey) {
        let Some(store) = &mut self.checksums else { return };
        let piece = self.pieces.get(key);
        let range = piece.plan.range();
        match piece.kind {
            RequestKind::Write => {
                let begin = self.requests.get(piece.request).request.offset;
                store.write(piece.request, begin, &range);
            }
            RequestKind::Discard => store.clear(&range),
            _ => {}
        }
    }

    /// Forgets the checksums of a write that failed: some mirrors may have it.
    pub(super) fn forget_checksums(&mut self, range: &Range<u64>) {
        if let Some(store) = &mut self.checksums {
            store.clear(range);
        }
    }

    /// Takes that targets of a piece are written with good data.
    pub(super) fn on_mended(&mut self, key: PieceKey, targets: TargetSet) {
        let Some(store) = &mut self.checksums else { return };
        let piece = self.pieces.get(key);
        for target in targets.iter() {
            store.on_mended(piece.plan.location(target).0, &piece.plan.range());
        }
    }

    /// Returns true if a piece that no mirror has by its checksum is to be read without it: a block
    /// of an unsynced region, where the checksum is a hint.
    pub(super) fn gives_up_hint(&mut self, key: PieceKey) -> bool {
        let piece = *self.pieces.get(key);
        let range = piece.plan.range();
        let is_hint = !piece.mismatched.is_empty()
            && piece.plan.length <= CHECKSUM_BLOCK_BYTES
            && self.is_unsynced(&range);
        if is_hint {
            self.set_checksum(range.start, UNKNOWN);
            let piece = self.pieces.get_mut(key);
            for target in std::mem::take(&mut piece.mismatched).iter() {
                piece.failed.remove(target);
                piece.spoiled.remove(target);
            }
        }
        is_hint
    }

    /// Ends a piece that could not be read. A rebuild goes on behind a block that no mirror has: as
    /// it does not match its checksum on the rebuilt member either, nothing reads it.
    pub(super) fn leave_lost(&mut self, key: PieceKey) {
        let piece = self.pieces.get_mut(key);
        let is_rebuilt = matches!(piece.kind, RequestKind::Rebuild(_));
        piece.has_answer |= is_rebuilt && !piece.mismatched.is_empty();
        self.finish(key);
    }

    /// Replaces the checksum of a block without a write. A member that is missing may have another.
    fn set_checksum(&mut self, offset: u64, checksum: u32) {
        let store = self.checksums.as_mut().expect("the volume has checksums");
        if store.set(offset, checksum)
            && let Some(log) = &mut self.log
        {
            log.stale.insert((offset / REGION_BYTES) as u32);
        }
    }

    /// Judges the blocks of a scrub or resync by what was read of all mirrors, and has those
    /// copied that a mirror lacks.
    pub(super) fn judge(&mut self, key: PieceKey) {
        let mut read = self.findings.read.remove(&key).unwrap_or_default();
        // The first is the one that is read in an unsynced region.
        read.sort_by_key(|(target, _)| target.index());
        let piece = *self.pieces.get(key);
        if read.is_empty() {
            return self.give_up(key);
        }
        let to_copy = self.to_copy_whole(&piece);
        let can_halve = !piece.spoiled.is_empty() && piece.plan.halves().is_some();
        let count = piece.plan.length.div_ceil(CHECKSUM_BLOCK_BYTES) as usize;
        let judgements: Vec<Judgement> =
            (0..count).map(|block| self.judge_block(&piece, &read, block, to_copy)).collect();
        if can_halve && judgements.contains(&Judgement::Lost) {
            // Another mirror may have it, where its medium can be read.
            self.pieces.get_mut(key).good = TargetSet::default();
            return self.give_up(key);
        }
        self.act_on(key, &judgements, read[0].0);
    }

    /// The targets that are to be written whatever the others hold.
    fn to_copy_whole(&self, piece: &Piece) -> TargetSet {
        match piece.kind {
            // A target that is in sync in a part only was not read.
            RequestKind::Resync => piece.plan.resync_targets(&self.states, piece.good),
            _ => piece.spoiled,
        }
    }

    fn judge_block(
        &mut self,
        piece: &Piece,
        read: &[TargetRead],
        block: usize,
        to_copy: TargetSet,
    ) -> Judgement {
        let offset = piece.plan.offset + block as u64 * CHECKSUM_BLOCK_BYTES;
        let is_unsynced = self.is_unsynced(&piece.plan.range());
        if is_unsynced && piece.kind == RequestKind::Scrub {
            return Judgement::Fine;
        }
        let store = self.checksums.as_mut().expect("the volume has checksums");
        let known = store.known(offset);
        let (first, found) = (read[0].0, read[0].1[block]);
        let are_equal = read.iter().all(|(_, digests)| digests[block] == found);
        let is_good = |(_, it): &&TargetRead| known == UNKNOWN || it[block].checksum == known;
        if !is_unsynced {
            for (target, _) in read.iter().filter(|it| !is_good(it)) {
                let member = piece.plan.location(*target).0;
                store.on_mismatch(member, offset);
                if piece.kind == RequestKind::Scrub {
                    self.findings.mismatched.push((member, offset));
                }
            }
        }
        let good: Vec<&TargetRead> = read.iter().filter(is_good).collect();
        if !is_unsynced && good.iter().any(|(_, it)| it[block] != good[0].1[block]) {
            let mirror = |(target, it): &&TargetRead| (piece.plan.location(*target).0, it[block]);
            let mirrors = good.iter().map(mirror).collect();
            self.findings.differing.push(DifferingBlock { offset, mirrors });
            return Judgement::Fine;
        }
        let right = match good.first() {
            Some((target, _)) => *target,
            None if is_unsynced => first,
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

    /// Cuts a piece into runs of blocks with one judgement each, and acts on them.
    fn act_on(&mut self, key: PieceKey, judgements: &[Judgement], good: PlanTarget) {
        let whole = *self.pieces.get(key);
        let mut starts: Vec<usize> =
            (1..judgements.len()).filter(|&at| judgements[at] != judgements[at - 1]).collect();
        starts.insert(0, 0);
        let mut end = whole.plan.length;
        let mut runs = Vec::new();
        for start in starts.into_iter().rev() {
            let skip = start as u64 * CHECKSUM_BLOCK_BYTES;
            let plan = whole.plan.part(skip, end - skip);
            let run = match start {
                0 => {
                    self.pieces.get_mut(key).plan = plan;
                    key
                }
                _ => self.add_part(Piece { plan, ..whole }),
            };
            runs.push((run, judgements[start]));
            end = skip;
        }
        for (run, judgement) in runs {
            let piece = self.pieces.get_mut(run);
            (piece.good, piece.failed) = (TargetSet::default(), TargetSet::default());
            piece.spoiled = TargetSet::default();
            match judgement {
                Judgement::Fine => {
                    piece.good.insert(good);
                    self.finish(run);
                }
                Judgement::Lost => self.finish(run),
                Judgement::Copy(target) => {
                    let source = piece.plan.location(target).0;
                    piece.kind = RequestKind::Repair(source);
                    piece.failed = piece.plan.targets_elsewhere(source);
                    self.issue_first(run);
                }
            }
        }
    }
}

/// The offsets of blocks from one on.
fn blocks(offset: u64) -> impl Iterator<Item = u64> {
    (offset..).step_by(CHECKSUM_BLOCK_BYTES as usize)
}
