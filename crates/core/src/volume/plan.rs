//! The plan of a range: which member I/O a read, a write, a scrub or a rebuild of it takes.
//!
//! This is where the volume depends on how data lies on its members. A [`Layout`] cuts a range of
//! the volume into pieces and gives a [`PiecePlan`] for each. A plan numbers the member ranges that
//! hold the piece, its *targets*, and answers:
//!
//! - which ways of reading the piece there are now ([`PiecePlan::ways`]), among which the policy
//!   chooses;
//! - which targets a write, a scrub or a repair goes to;
//! - whether the I/O that succeeded stored or read the piece.
//!
//! Request scheduling (`pieces`, `reads`, `race`) issues the I/O of targets, counts what is in
//! flight and retries. It does not ask how targets relate to each other.
//!
//! Each target is a whole copy of the piece, and each way of reading is one target. Layouts with
//! parity have another plan (see `stripe`).

use super::member_states::MemberStates;
use crate::geometry::{ChunkMap, MAX_COPIES, MappedRange, Mirrors};
use crate::member::MemberIndex;
use crate::policy::Mirror;
use crate::units::SECTOR_BYTES;
use smallvec::smallvec;
use std::ops::Range;

const _: () = assert!(MAX_COPIES <= u16::BITS as usize, "a bit for each target");

/// The eligible mirrors of one piece, in the order of its chunk's stripes.
#[derive(Clone, Debug)]
pub struct EligibleMirrors(Mirrors);

/// Number of a member range within its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlanTarget(u8);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetSet(u16);

/// The layout of a volume: mirrors by the rules of its chunk map.
pub(super) struct Layout {
    map: ChunkMap,
}

/// The member I/O that one piece of the volume takes.
#[derive(Clone, Debug)]
pub struct PiecePlan {
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes, on the volume and on each target.
    pub length: u64,
    /// The copies, in the order of the chunk's stripes.
    mirrors: Mirrors,
    /// The copy on the member being rebuilt, which is to be written.
    pub(super) rebuilt: Option<PlanTarget>,
}

impl Layout {
    pub(super) fn new(map: ChunkMap) -> Layout {
        Layout { map }
    }

    pub(super) fn map(&self) -> &ChunkMap {
        &self.map
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.map.capacity_bytes()
    }

    /// Number of members that may fail without loss of data, whichever they are.
    pub(super) fn tolerated_failures(&self) -> usize {
        self.map.tolerated_failures()
    }

    /// Returns true if every byte of the volume is in sync on some member.
    pub(super) fn is_in_sync(&self, states: &MemberStates) -> bool {
        self.map.is_held(|member, end| states.is_in_sync(member, 0, end))
    }

    /// The plan of the longest beginning of a range that is one piece.
    #[inline]
    pub(super) fn plan(&self, offset: u64, length: u64) -> PiecePlan {
        PiecePlan::new(offset, self.map.map(offset, length))
    }

    pub(super) fn flush_plan(&self, member: MemberIndex) -> PiecePlan {
        let mirror = Mirror { member, offset: 0, copy: 0 };
        PiecePlan::new(0, MappedRange { length: 0, mirrors: smallvec![mirror] })
    }

    /// The part of a range of a member that holds data.
    pub(super) fn allocated(&self, member: MemberIndex, range: Range<u64>) -> Range<u64> {
        let allocated = self.map.allocated(member);
        assert!(allocated.start <= allocated.end, "{allocated:?} of {member:?}");
        range.start.max(allocated.start)..range.end.min(allocated.end)
    }

    /// The plan that rebuilds the longest beginning of a range of a member that is one piece.
    /// Panics if the range is not allocated.
    pub(super) fn rebuild_plan(&self, member: MemberIndex, range: Range<u64>) -> PiecePlan {
        let held = self.map.locate(member, range.start);
        let held = held.expect("a member is allocated without holes");
        let length = held.length.min(range.end - range.start);
        let mut plan = self.plan(held.volume_offset, length);
        let copy = plan.mirrors().iter().find(|mirror| mirror.member == member);
        let copy = copy.expect("the map is its own inverse");
        assert_eq!(copy.offset, range.start, "the map is its own inverse");
        plan.rebuilt = Some(PlanTarget::of(copy));
        plan
    }
}

impl PiecePlan {
    #[inline]
    pub(super) fn new(offset: u64, mapped: MappedRange) -> PiecePlan {
        let MappedRange { length, mirrors } = mapped;
        debug_assert!((1..=MAX_COPIES).contains(&mirrors.len()), "{mirrors:?}");
        PiecePlan { offset, length, mirrors, rebuilt: None }
    }

    #[inline]
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }

    /// All copies, eligible or not.
    #[inline]
    pub fn mirrors(&self) -> &[Mirror] {
        &self.mirrors
    }

    /// Number of copies, eligible or not.
    #[inline]
    pub(super) fn copies(&self) -> u8 {
        self.mirrors.len() as u8
    }

    #[inline]
    pub fn location(&self, target: PlanTarget) -> (MemberIndex, u64) {
        let mirror = &self.mirrors()[target.index()];
        (mirror.member, mirror.offset)
    }

    /// The ways of reading the piece now, without the targets that `failed`.
    #[inline]
    pub(super) fn ways(&self, states: &MemberStates, failed: TargetSet) -> EligibleMirrors {
        if states.all_eligible() && failed.is_empty() {
            return EligibleMirrors::all(self.mirrors());
        }
        EligibleMirrors::among(self.mirrors(), self.length, states, failed)
    }

    /// The one way of reading a piece whose copies may differ: the first that can serve, whatever a
    /// policy prefers.
    pub(super) fn source(&self, states: &MemberStates, failed: TargetSet) -> EligibleMirrors {
        EligibleMirrors::first(self.mirrors(), self.length, states, failed)
    }

    /// The targets of a write, flush or discard.
    pub(super) fn write_targets(&self, states: &MemberStates) -> TargetSet {
        debug_assert!(self.rebuilt.is_none(), "a rebuild reads first: {self:?}");
        self.targets_where(|mirror| !states.is_failed(mirror.member))
    }

    pub(super) fn scrub_targets(&self, states: &MemberStates) -> TargetSet {
        self.targets_where(|mirror| states.is_in_sync(mirror.member, mirror.offset, self.length))
    }

    /// The targets to write once the piece was read: those in `spoiled` and the one being rebuilt.
    pub(super) fn rewrite_targets(&self, states: &MemberStates, spoiled: TargetSet) -> TargetSet {
        self.targets_where(|mirror| {
            let target = PlanTarget::of(mirror);
            let is_wanted = spoiled.contains(target) || self.rebuilt == Some(target);
            is_wanted && !states.is_failed(mirror.member)
        })
    }

    /// The targets to write once the piece was read from those in `good`: all others that hold
    /// current data, if only in a part of it.
    pub(super) fn resync_targets(&self, states: &MemberStates, good: TargetSet) -> TargetSet {
        self.targets_where(|mirror| {
            let holds_some = states.is_in_sync(mirror.member, mirror.offset, 1);
            holds_some && !good.contains(PlanTarget::of(mirror))
        })
    }

    /// The targets that are on other members than this one.
    pub(super) fn targets_elsewhere(&self, member: MemberIndex) -> TargetSet {
        self.targets_where(|mirror| mirror.member != member)
    }

    /// Returns true if the piece is to be written after a read.
    #[inline]
    pub(super) fn is_rebuild(&self) -> bool {
        self.rebuilt.is_some()
    }

    /// Returns true if a write that reached the targets in `good` can be read back.
    pub(super) fn is_stored(&self, states: &MemberStates, good: TargetSet) -> bool {
        let stored = self.scrub_targets(states);
        good.iter().any(|target| stored.contains(target))
    }

    /// The plan of `length` bytes that begin `skip` bytes into this one.
    pub(super) fn part(&self, skip: u64, length: u64) -> PiecePlan {
        assert!(length > 0 && skip + length <= self.length, "{skip} and {length} of {self:?}");
        let mut part = self.clone();
        part.offset += skip;
        part.length = length;
        for mirror in &mut part.mirrors {
            mirror.offset += skip;
        }
        part
    }

    /// The plans of the two halves, if the piece is longer than a sector: the least that a medium
    /// loses.
    pub(super) fn halves(&self) -> Option<[PiecePlan; 2]> {
        // The sector boundary before the middle, or the one after it if the piece begins there.
        let half = self.offset + self.length / 2;
        let before = half / SECTOR_BYTES * SECTOR_BYTES;
        let after = half.next_multiple_of(SECTOR_BYTES);
        let middle = if before > self.offset { before } else { after };
        if middle >= self.offset + self.length {
            return None;
        }
        Some(self.cut_at(middle))
    }

    /// The plans of the parts before and behind an offset inside the piece.
    pub(super) fn cut_at(&self, offset: u64) -> [PiecePlan; 2] {
        assert!(self.offset < offset, "both parts have bytes: {self:?} at {offset}");
        let skip = offset - self.offset;
        [self.part(0, skip), self.part(skip, self.length - skip)]
    }

    fn targets_where(&self, is_wanted: impl Fn(&Mirror) -> bool) -> TargetSet {
        let mut targets = TargetSet::default();
        for mirror in self.mirrors().iter().filter(|mirror| is_wanted(mirror)) {
            targets.insert(PlanTarget::of(mirror));
        }
        targets
    }
}

impl PlanTarget {
    #[inline]
    pub fn of(way: &Mirror) -> PlanTarget {
        PlanTarget(way.copy)
    }

    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl TargetSet {
    #[inline]
    pub fn insert(&mut self, target: PlanTarget) {
        debug_assert!(target.index() < MAX_COPIES, "{target:?}");
        self.0 |= 1 << target.0;
    }

    pub fn remove(&mut self, target: PlanTarget) {
        self.0 &= !(1 << target.0);
    }

    #[inline]
    pub fn contains(self, target: PlanTarget) -> bool {
        self.0 & 1 << target.0 != 0
    }

    pub(super) fn and(self, other: TargetSet) -> TargetSet {
        TargetSet(self.0 & other.0)
    }

    pub(super) fn or(self, other: TargetSet) -> TargetSet {
        TargetSet(self.0 | other.0)
    }

    pub(super) fn without(self, other: TargetSet) -> TargetSet {
        TargetSet(self.0 & !other.0)
    }

    /// Returns true if the set has no target.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The targets in ascending order.
    pub fn iter(self) -> impl Iterator<Item = PlanTarget> {
        (0..MAX_COPIES as u8).map(PlanTarget).filter(move |&target| self.contains(target))
    }
}

impl EligibleMirrors {
    /// The mirrors; at least two where a policy is asked.
    #[inline]
    pub fn as_slice(&self) -> &[Mirror] {
        &self.0
    }

    #[inline]
    pub(super) fn all(mirrors: &[Mirror]) -> EligibleMirrors {
        EligibleMirrors(Mirrors::from_slice(mirrors))
    }

    /// The first mirror that can serve.
    pub(super) fn first(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::able(mirrors, length, states, failed);
        eligible.0.truncate(1);
        eligible
    }

    /// The mirrors that pass the tiers.
    pub(super) fn among(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::able(mirrors, length, states, failed);
        eligible.prefer(|mirror| !states.is_in_backoff(mirror.member));
        eligible.prefer(|mirror| !states.members()[mirror.member].config.write_mostly);
        eligible
    }

    /// Those in a set, if there are any.
    pub(super) fn preferring(mut self, targets: TargetSet) -> EligibleMirrors {
        let before = self.0.len();
        self.prefer(|mirror| targets.contains(PlanTarget::of(mirror)));
        assert_eq!(self.0.is_empty(), before == 0, "a preference leaves a mirror");
        self
    }

    fn able(
        mirrors: &[Mirror],
        length: u64,
        states: &MemberStates,
        failed: TargetSet,
    ) -> EligibleMirrors {
        let mut eligible = EligibleMirrors::all(mirrors);
        eligible.0.retain(|mirror| {
            let is_in_sync = states.is_in_sync(mirror.member, mirror.offset, length);
            is_in_sync && !failed.contains(PlanTarget::of(mirror))
        });
        eligible
    }

    /// Keeps the mirrors for which `is_preferred` returns true, unless it does for none.
    fn prefer(&mut self, is_preferred: impl Fn(&Mirror) -> bool) {
        if self.as_slice().iter().any(&is_preferred) {
            self.0.retain(|mirror| is_preferred(mirror));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_meet_at_a_sector_boundary_inside_the_piece() {
        let mirror = Mirror { member: MemberIndex(0), offset: 0, copy: 0 };
        let halves = |offset, length| {
            let mapped = MappedRange { length, mirrors: smallvec![mirror] };
            let halves = PiecePlan::new(offset, mapped).halves();
            halves.map(|halves| halves.map(|half| (half.offset, half.length)))
        };
        assert_eq!(halves(0, 4096), None, "a sector is not cut");
        assert_eq!(halves(512, 1024), None, "nor is a part of one");
        assert_eq!(halves(0, 16384), Some([(0, 8192), (8192, 8192)]));
        assert_eq!(halves(512, 7680), Some([(512, 3584), (4096, 4096)]), "the only boundary");
        assert_eq!(halves(3584, 8192), Some([(3584, 512), (4096, 7680)]), "the boundary before");
        assert_eq!(halves(3584, 1024), Some([(3584, 512), (4096, 512)]), "the boundary after");
    }
}
