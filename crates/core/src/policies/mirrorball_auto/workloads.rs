//! Workloads: streams that read alike.
//!
//! A program with sixteen threads is one user, who waits for all of them together. A kernel sees
//! sixteen streams. Streams of the same request size and depth, by powers of two, that read in the
//! same place, count as one workload, whose depth is that of its streams together. Depths of eight
//! and more are alike. Programs that happen to read alike count as one as well; that costs them no
//! more than their part. In the same place are streams that keep to one eighth of the volume, the
//! same one, and all that do not, or that read sequentially. Without the place, a lone reader at
//! the end of a disk counts as one more of the readers at its start, which it then waits for: a
//! disk serves the nearer ones first.

use crate::member::MemberIndex;

/// At most one for each stream.
pub(super) const WORKLOADS: usize = u64::BITS as usize;
/// Sizes from 4 KiB, and depths from one, have classes by their logarithms.
const SIZE_SHIFT_MIN: u32 = 12;
const SIZES: u32 = 16;
const DEPTHS: u32 = 4;
/// One for all of the volume, and eight for its eighths, are before it.
const PLACE_UNKNOWN: u32 = 9;
const CLASSES: u32 = SIZES * DEPTHS;
/// Kinds of streams by size, depth and place. Each stream that is like no other has one after them.
const KINDS: u32 = (PLACE_UNKNOWN + 1) * CLASSES;
/// Depths beyond this count as this.
pub(super) const DEPTH_MAX: u32 = 255;
/// Bits after the point of [`INVERSE`].
const INVERSE_BITS: u32 = u16::BITS;
/// One over a depth, without a division. A depth of zero is not asked for; one over one is as near
/// to one as the type allows.
const INVERSE: [u16; DEPTH_MAX as usize + 1] = {
    let mut table = [u16::MAX; DEPTH_MAX as usize + 1];
    let mut depth = 2;
    while depth <= DEPTH_MAX as usize {
        table[depth] = (1_u32 << INVERSE_BITS).div_ceil(depth as u32) as u16;
        depth += 1;
    }
    table
};
/// Bits after the point of [`Workloads::excess`].
pub(super) const EXCESS_BITS: u32 = 4;
/// More I/O of a workload on a member count as this many, so that no sum overflows.
const COUNT_MAX: u32 = 4095;

/// The part of the volume that a stream reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkloadPlace {
    /// Too little was read.
    Unknown,
    /// More than an eighth, or sequentially.
    All,
    /// One eighth, counted from zero.
    Eighth(u8),
}

/// Size, depth and place of a workload's streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkloadKind(u16);

impl WorkloadKind {
    /// Streams that read `length` bytes at a time, up to `depth` at once, here.
    #[inline]
    pub(super) fn of(length: u64, depth: u32, place: WorkloadPlace) -> WorkloadKind {
        let size = length.max(1).ilog2().saturating_sub(SIZE_SHIFT_MIN).min(SIZES - 1);
        let depth = depth.max(1).ilog2().min(DEPTHS - 1);
        let place = match place {
            WorkloadPlace::Unknown => PLACE_UNKNOWN,
            WorkloadPlace::All => 0,
            WorkloadPlace::Eighth(eighth) => u32::from(eighth) + 1,
        };
        WorkloadKind((place * CLASSES + size * DEPTHS + depth) as u16)
    }

    #[inline]
    fn is_of_unknown_place(self) -> bool {
        u32::from(self.0) / CLASSES == PLACE_UNKNOWN
    }

    /// The class of this kind, which it shares with those that differ by their place only.
    #[inline]
    fn class(self) -> usize {
        usize::from(self.0) % CLASSES as usize
    }

    /// The kind of a stream that is like no other, by its slot; one more is for those without.
    #[inline]
    pub(super) fn unlike(slot: usize) -> WorkloadKind {
        WorkloadKind(KINDS as u16 + slot as u16)
    }
}

/// Numbers of I/O in flight by member, and by stream or workload.
#[derive(Debug, Default)]
pub(super) struct MembersTable<const COLUMNS: usize> {
    rows: Vec<[u32; COLUMNS]>,
}

impl<const COLUMNS: usize> MembersTable<COLUMNS> {
    /// Adds members up to this number.
    pub(super) fn set_members(&mut self, count: usize) {
        self.rows.resize(count.max(self.rows.len()), [0; COLUMNS]);
    }

    #[inline]
    pub(super) fn of(&self, member: MemberIndex, column: usize) -> u32 {
        self.rows[member.get()][column]
    }

    #[inline]
    fn row(&self, member: MemberIndex) -> &[u32; COLUMNS] {
        &self.rows[member.get()]
    }

    #[inline]
    pub(super) fn of_mut(&mut self, member: MemberIndex, column: usize) -> &mut u32 {
        &mut self.rows[member.get()][column]
    }

    pub(super) fn members(&self) -> impl Iterator<Item = MemberIndex> + use<COLUMNS> {
        (0..self.rows.len() as u16).map(MemberIndex)
    }
}

/// Streams of one kind that have I/O in flight.
#[derive(Clone, Copy, Debug, Default)]
struct ReaderWorkload {
    kind: WorkloadKind,
    streams: u32,
    /// Sum of the depths of its streams.
    depth: u32,
}

/// No workload.
const NONE: u8 = u8::MAX;

/// The workloads that have I/O in flight.
#[derive(Debug)]
pub(super) struct Workloads {
    list: [ReaderWorkload; WORKLOADS],
    /// One bit for each workload in use.
    live: u64,
    /// The workload of each kind, or [`NONE`].
    of_kind: [u8; KINDS as usize + WORKLOADS + 1],
    /// The workloads of each class, one bit each.
    of_class: [u64; CLASSES as usize],
    /// One over the depth of each workload in use.
    inverse: [u16; WORKLOADS],
    on_member: MembersTable<WORKLOADS>,
}

impl Default for Workloads {
    fn default() -> Workloads {
        Workloads {
            list: [ReaderWorkload::default(); WORKLOADS],
            live: 0,
            of_kind: [NONE; KINDS as usize + WORKLOADS + 1],
            of_class: [0; CLASSES as usize],
            inverse: [INVERSE[1]; WORKLOADS],
            on_member: MembersTable::default(),
        }
    }
}

/// The places of the bits that are set, from the lowest.
#[inline]
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(lowest)
    })
}

impl Workloads {
    /// Adds members up to this number.
    pub(super) fn set_members(&mut self, count: usize) {
        self.on_member.set_members(count);
    }

    /// The workload of this kind, if it has I/O in flight. A stream whose place is not known yet
    /// most likely belongs to the largest workload that is like it but for that.
    #[inline]
    pub(super) fn find(&self, kind: WorkloadKind) -> Option<usize> {
        if kind.is_of_unknown_place() {
            return self.largest(self.of_class[kind.class()]);
        }
        let index = self.of_kind[usize::from(kind.0)];
        (index != NONE).then_some(usize::from(index))
    }

    /// The workload with the most streams; of equal ones the first.
    #[inline]
    fn largest(&self, set: u64) -> Option<usize> {
        let (mut most, mut largest) = (0, None);
        for index in bits(set) {
            let streams = self.streams(index);
            if streams > most {
                (most, largest) = (streams, Some(index));
            }
        }
        largest
    }

    /// Number of streams of a workload that have I/O in flight.
    #[inline]
    pub(super) fn streams(&self, index: usize) -> u32 {
        self.list[index].streams
    }

    /// Sum of the depths of the streams of a workload that have I/O in flight.
    #[inline]
    pub(super) fn depth(&self, index: usize) -> u32 {
        self.list[index].depth
    }

    /// Counts one more stream, with nothing in flight; returns its workload.
    #[inline]
    pub(super) fn join(&mut self, kind: WorkloadKind, depth: u32) -> usize {
        let index = self.find(kind).unwrap_or_else(|| {
            let free = self.live.trailing_ones() as usize;
            assert!(free < WORKLOADS, "more workloads than streams");
            self.live |= 1 << free;
            self.of_kind[usize::from(kind.0)] = free as u8;
            self.of_class[kind.class()] |= 1 << free;
            self.list[free] = ReaderWorkload { kind, ..ReaderWorkload::default() };
            free
        });
        self.list[index].streams += 1;
        self.deepen(index, 0, depth);
        index
    }

    /// Counts one stream less, which has nothing in flight.
    #[inline]
    pub(super) fn leave(&mut self, index: usize, depth: u32) {
        self.list[index].streams -= 1;
        self.deepen(index, depth, 0);
        if self.list[index].streams == 0 {
            let kind = self.list[index].kind;
            self.live &= !(1 << index);
            self.of_kind[usize::from(kind.0)] = NONE;
            self.of_class[kind.class()] &= !(1 << index);
        }
    }

    /// Changes the depth of one of the streams.
    #[inline]
    pub(super) fn deepen(&mut self, index: usize, old: u32, new: u32) {
        let depth = self.list[index].depth - old + new;
        self.list[index].depth = depth;
        self.inverse[index] = INVERSE[depth.min(DEPTH_MAX) as usize];
    }

    /// Counts `io` more I/O in flight on a member.
    #[inline]
    pub(super) fn add(&mut self, index: usize, member: MemberIndex, io: u32) {
        *self.on_member.of_mut(member, index) += io;
    }

    /// Counts `io` less I/O in flight on a member.
    #[inline]
    pub(super) fn remove(&mut self, index: usize, member: MemberIndex, io: u32) {
        *self.on_member.of_mut(member, index) -= io;
    }

    #[cfg(test)]
    pub(super) fn in_flight(&self, index: usize, member: MemberIndex) -> u32 {
        self.on_member.of(member, index)
    }

    /// The workloads in use, one bit each.
    #[inline]
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// Logarithm of the depth of the deepest of these workloads over this depth, if that is more.
    #[inline]
    pub(super) fn shallow_shift(&self, others: u64, depth: u32) -> u32 {
        let least = bits(others).fold(INVERSE[1], |least, index| least.min(self.inverse[index]));
        // Less one, so that one over a power of two counts as less than that.
        let shift = |inverse: u16| (inverse - 1).ilog2();
        shift(INVERSE[depth.clamp(1, DEPTH_MAX) as usize]).saturating_sub(shift(least))
    }

    /// How many I/O of its own a workload of this depth must count for each one of another, beyond
    /// once, in sixteenths. Workloads of equal depth count twice: where two of them have a member
    /// each, both read faster than where both share two.
    #[inline]
    fn beyond(&self, index: usize, depth: u32) -> u32 {
        // A little more than the depth, so that rounding down does not make equal ones unequal.
        let depth = ((2 * depth) << EXCESS_BITS) + 1;
        let ratio = (depth * u32::from(self.inverse[index])) >> INVERSE_BITS;
        ratio.saturating_sub(1 << EXCESS_BITS)
    }

    /// Those of these workloads that a workload of this depth must count more than once.
    #[inline]
    pub(super) fn counted(&self, others: u64, depth: u32) -> u64 {
        let is_counted = |&index: &usize| self.beyond(index, depth) > 0;
        bits(others).filter(is_counted).fold(0, |set, index| set | 1 << index)
    }

    /// How many I/O of its own a workload of this depth must count for those of these others on a
    /// member, beyond each once, in sixteenths.
    #[inline]
    pub(super) fn excess(&self, others: u64, depth: u32, member: MemberIndex) -> u64 {
        let row = self.on_member.row(member);
        let of_workload =
            |index: usize| u64::from(self.beyond(index, depth) * row[index].min(COUNT_MAX));
        bits(others).map(of_workload).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_like_size_depth_and_place_are_one_workload() {
        let of = |length, depth| WorkloadKind::of(length, depth, WorkloadPlace::All);
        assert_eq!(of(4096, 1), of(7168, 1));
        assert_eq!(of(65_536, 4), of(65_536, 7));
        assert_eq!(of(65_536, 8), of(65_536, 64), "the deepest count alike");
        assert_eq!(of(0, 0), of(512, 1));
        assert_ne!(of(4096, 1), of(8192, 1));
        assert_ne!(of(4096, 1), of(4096, 2));
        assert_eq!(
            WorkloadKind::of(4096, 1, WorkloadPlace::Eighth(3)),
            WorkloadKind::of(4096, 1, WorkloadPlace::Eighth(3))
        );
        assert_ne!(
            WorkloadKind::of(4096, 1, WorkloadPlace::Eighth(3)),
            WorkloadKind::of(4096, 1, WorkloadPlace::Eighth(4))
        );
        assert_ne!(WorkloadKind::of(4096, 1, WorkloadPlace::Eighth(0)), of(4096, 1));
        let greatest = WorkloadKind::of(u64::MAX, u32::MAX, WorkloadPlace::Unknown);
        assert!((0..WORKLOADS).all(|slot| WorkloadKind::unlike(slot).0 > greatest.0));
    }

    #[test]
    fn a_workload_is_as_deep_as_its_streams_together() {
        let mut workloads = Workloads::default();
        workloads.set_members(1);
        let [small, large] =
            [4096, 65_536].map(|length| WorkloadKind::of(length, 1, WorkloadPlace::All));
        let one = workloads.join(small, 1);
        assert_eq!(workloads.join(small, 1), one);
        let other = workloads.join(large, 2);
        assert_eq!([one, other].map(|index| workloads.depth(index)), [2, 2]);
        workloads.deepen(one, 1, 5);
        workloads.leave(one, 1);
        assert_eq!((workloads.depth(one), workloads.streams(one)), (5, 1));
        workloads.leave(one, 5);
        assert_eq!((workloads.live(), workloads.find(small)), (1 << other, None));
        assert_eq!(workloads.find(large), Some(other));
    }

    #[test]
    fn a_stream_whose_place_is_unknown_joins_the_most_that_read_alike() {
        let mut workloads = Workloads::default();
        workloads.set_members(1);
        let small = |place| WorkloadKind::of(4096, 1, place);
        assert_eq!(workloads.find(small(WorkloadPlace::Unknown)), None);
        let one = workloads.join(small(WorkloadPlace::Unknown), 1);
        workloads.join(WorkloadKind::of(65_536, 1, WorkloadPlace::All), 9);
        assert_eq!(workloads.find(small(WorkloadPlace::Unknown)), Some(one));
        let two = [1, 2].map(|_| workloads.join(small(WorkloadPlace::Eighth(2)), 1))[0];
        assert_eq!(workloads.find(small(WorkloadPlace::Unknown)), Some(two));
    }

    #[test]
    fn bits_are_found_in_order() {
        assert_eq!(bits(0b1_0110).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(bits(u64::MAX).count(), 64);
        assert_eq!(bits(0).count(), 0);
    }
}
