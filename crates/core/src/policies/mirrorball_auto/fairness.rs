//! Fairness between streams: what a read costs the reads of streams that have less in flight.
//!
//! A stream with `d` I/O in flight loses `t / d` of its rate, in proportion, if one of them takes
//! `t` longer (`docs/auto.md` has the theory). So a delay of an I/O is worth one over the number
//! that its stream has in flight, and a read of a stream with `d` in flight counts an I/O of a
//! stream with `e` in flight `d / e` times. Once is in the cost of the load; what is beyond that,
//! `d / e - 1`, is added here. Streams with equal depth add nothing. Streams that read alike count
//! as one, with the depth of all together ([`super::workloads`]).
//!
//! The table has two places for each hash of a stream. A stream that finds none is not counted
//! until one is free.

use super::workloads::{Workload, Workloads};
use crate::io::MemberIo;
use crate::member::MemberIndex;
use crate::policy::Read;

/// A power of two, at most the bits of [`StreamTable::live`].
const SLOTS: usize = 32;
/// Bits after the point of [`StreamTable::excess`].
pub(super) const EXCESS_BITS: u32 = 4;
/// Bits after the point of [`INVERSE`].
const INVERSE_BITS: u32 = u16::BITS;
/// Depths beyond this count as this.
const DEPTH_MAX: usize = 255;
/// More I/O of a stream on a member count as this many, so that no sum overflows.
const COUNT_MAX: i16 = 4095;
/// Background I/O counts as that of a stream with this many in flight.
const BACKGROUND_DEPTH: u32 = 8;
/// One over a depth, without a division. A depth of zero is not asked for; one over one is as near
/// to one as the type allows.
const INVERSE: [u16; DEPTH_MAX + 1] = {
    let mut table = [u16::MAX; DEPTH_MAX + 1];
    let mut depth = 2;
    while depth <= DEPTH_MAX {
        table[depth] = (1_u32 << INVERSE_BITS).div_ceil(depth as u32) as u16;
        depth += 1;
    }
    table
};

/// I/O of a stream after which a new measurement of the most that it has in flight begins.
const WINDOW: u32 = 16;

/// A stream and how much it has in flight. Another stream may take it if that is nothing.
#[derive(Clone, Copy, Debug, Default)]
struct StreamSlot {
    stream: u64,
    in_flight: u32,
    /// I/O in the present window.
    submitted: u32,
    /// Most in flight in the present window, and in the one before.
    peaks: [u32; 2],
    /// Counted in [`StreamTable::workloads`] while the stream has I/O in flight; none until its
    /// depth is known.
    workload: Option<Workload>,
}

impl StreamSlot {
    /// The stream's depth: the most that it recently had in flight. What is in flight at one
    /// moment differs between streams of equal depth.
    #[inline]
    fn depth(self) -> u32 {
        self.peaks[0].max(self.peaks[1])
    }

    /// True if the next I/O is the only one in flight, or one of a few in its window: at first a
    /// depth is known only from below.
    #[inline]
    fn is_to_be_classed(self) -> bool {
        self.in_flight == 0 || self.submitted.is_power_of_two()
    }

    /// Records an I/O that is submitted.
    #[inline]
    fn submit(&mut self) {
        self.in_flight += 1;
        if self.submitted == WINDOW {
            self.submitted = 0;
            self.peaks = [0, self.peaks[0]];
        }
        self.submitted += 1;
        self.peaks[0] = self.peaks[0].max(self.in_flight);
    }
}

/// The streams that have I/O in flight.
#[derive(Debug)]
pub(super) struct StreamTable {
    /// Whether streams that read alike count as one.
    has_workloads: bool,
    workloads: Workloads,
    slots: [StreamSlot; SLOTS],
    /// One bit for each slot in use.
    live: u32,
    /// One over the depth of each slot's stream and of the streams that read alike, as of its last
    /// I/O; one if it has nothing in flight.
    inverse: [u16; SLOTS],
    /// I/O in flight by member and slot.
    on_member: Vec<[i16; SLOTS]>,
}

/// A stream that decides, with the read that is decided on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecidingStream {
    slot: Option<usize>,
    has_others: bool,
    /// Its depth, with that of the streams that read alike.
    depth: u32,
    /// Logarithm of the depth of the deepest other stream over that of this one.
    pub(super) shallow_shift: u32,
}

impl DecidingStream {
    /// True if other streams have I/O in flight.
    #[inline]
    pub(super) fn has_others(self) -> bool {
        self.has_others
    }

    /// How often an I/O of a stream with one in flight counts.
    #[inline]
    pub(super) fn weight(self) -> u64 {
        u64::from(self.depth.max(1))
    }
}

impl StreamTable {
    /// An empty table.
    pub(super) fn new(has_workloads: bool) -> StreamTable {
        StreamTable {
            has_workloads,
            workloads: Workloads::default(),
            slots: [StreamSlot::default(); SLOTS],
            live: 0,
            inverse: [INVERSE[1]; SLOTS],
            on_member: Vec::new(),
        }
    }

    /// Adds members up to this number.
    pub(super) fn set_members(&mut self, count: usize) {
        self.on_member.resize(count.max(self.on_member.len()), [0; SLOTS]);
    }

    /// The slot of a stream that has I/O in flight, or had some when the slot was last used.
    #[inline]
    fn slot_of(&self, stream: u64) -> Option<usize> {
        let first = first_slot(stream);
        match [self.slots[first].stream, self.slots[first | 1].stream] {
            [own, _] if own == stream => Some(first),
            [_, own] if own == stream => Some(first | 1),
            _ => None,
        }
    }

    /// The slot for an I/O of a stream: its own, or one that nothing in flight uses.
    #[inline]
    fn slot_for(&mut self, stream: u64) -> Option<usize> {
        let slot = self.slot_of(stream);
        if slot.is_some() {
            return slot;
        }
        let first = first_slot(stream);
        let free = [first, first | 1].into_iter().find(|&slot| self.slots[slot].in_flight == 0)?;
        self.slots[free] = StreamSlot { stream, ..StreamSlot::default() };
        Some(free)
    }

    /// Depth of a slot's stream, with that of the streams that read alike.
    #[inline]
    fn depth(&self, slot: usize) -> u32 {
        let StreamSlot { in_flight, workload, .. } = self.slots[slot];
        let alike = match workload {
            Some(workload) => self.workloads.streams(workload) + u32::from(in_flight == 0),
            None => 1,
        };
        self.slots[slot].depth() * alike
    }

    /// Counts a slot's stream to the workload of an I/O that is submitted.
    fn class(&mut self, slot: usize, length: u64) {
        let stream = &mut self.slots[slot];
        if stream.in_flight != 0 {
            stream.workload.iter().for_each(|&workload| self.workloads.remove(workload));
        }
        let is_known = self.has_workloads && stream.depth() > 0;
        stream.workload = is_known.then(|| Workload::of(length, stream.depth()));
        stream.workload.iter().for_each(|&workload| self.workloads.add(workload));
    }

    /// Records an I/O that is handed to a member.
    #[inline]
    pub(super) fn submit(&mut self, io: &MemberIo) {
        if io.background {
            return;
        }
        let Some(slot) = self.slot_for(io.stream) else { return };
        let count = &mut self.on_member[io.member.get()][slot];
        let Some(increased) = count.checked_add(1) else { return };
        *count = increased;
        if self.slots[slot].is_to_be_classed() {
            self.class(slot, io.length);
        }
        self.slots[slot].submit();
        self.inverse[slot] = INVERSE[(self.depth(slot) as usize).min(DEPTH_MAX)];
        self.live |= 1 << slot;
    }

    /// Records the end of an I/O.
    #[inline]
    pub(super) fn complete(&mut self, io: &MemberIo) {
        if io.background {
            return;
        }
        let Some(slot) = self.slot_of(io.stream) else { return };
        // Zero if it was submitted before the stream had a slot, or when the count was full.
        let count = &mut self.on_member[io.member.get()][slot];
        if *count == 0 {
            return;
        }
        *count -= 1;
        let stream = &mut self.slots[slot];
        stream.in_flight -= 1;
        if stream.in_flight == 0 {
            stream.workload.iter().for_each(|&workload| self.workloads.remove(workload));
            self.inverse[slot] = INVERSE[1];
            self.live &= !(1 << slot);
        }
    }

    /// The stream of a read that is decided on.
    #[inline]
    pub(super) fn deciding(&self, read: &Read) -> DecidingStream {
        let slot = if read.background { None } else { self.slot_of(read.stream) };
        if self.live & !slot.map_or(0, |slot| 1 << slot) == 0 {
            let depth = slot.map_or(1, |slot| self.slots[slot].depth());
            return DecidingStream { depth, ..DecidingStream::default() };
        }
        let depth = match slot {
            _ if read.background => BACKGROUND_DEPTH,
            Some(slot) => self.depth(slot).max(self.slots[slot].in_flight + 1),
            None => 1,
        };
        let depth = depth.min(DEPTH_MAX as u32);
        let least = self.inverse.iter().fold(INVERSE[1], |least, &inverse| least.min(inverse));
        // Less one, so that one over a power of two counts as less than that.
        let shift = |inverse: u16| (inverse - 1).ilog2();
        let shallow_shift = shift(INVERSE[depth as usize]).saturating_sub(shift(least));
        DecidingStream { slot, has_others: true, depth, shallow_shift }
    }

    /// How many I/O of its own the stream must count for those of other streams on a member,
    /// beyond each once, in sixteenths. The loop has no branch, for the sake of vector registers.
    #[inline]
    pub(super) fn excess(&self, own: DecidingStream, member: MemberIndex) -> u64 {
        let counts = &self.on_member[member.get()];
        // A little more than the depth, so that rounding down does not make equal ones unequal.
        let depth = (own.depth << EXCESS_BITS) + 1;
        let of_slot = |slot: usize| {
            let ratio = ((depth * u32::from(self.inverse[slot])) >> INVERSE_BITS) as u16;
            let beyond = ratio.saturating_sub(1 << EXCESS_BITS) as i16;
            i32::from(beyond) * i32::from(counts[slot].min(COUNT_MAX))
        };
        let all: i32 = (0..SLOTS).map(of_slot).sum();
        (all - own.slot.map_or(0, of_slot)) as u64
    }
}

/// Fibonacci hashing to the first slot of a set.
#[inline]
fn first_slot(stream: u64) -> usize {
    let hash = stream.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SLOTS.ilog2());
    hash as usize & (SLOTS - 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{IoId, Op, Purpose, ReadRole, RequestId};
    use crate::units::Nanos;

    fn io(stream: u64, member: u16) -> MemberIo {
        MemberIo {
            id: IoId(0),
            request: RequestId(0),
            member: MemberIndex(member),
            op: Op::Read,
            purpose: Purpose::User,
            offset: 0,
            length: 4096,
            volume_offset: 0,
            stream,
            background: false,
            role: ReadRole::Only,
            submitted_at: Nanos::ZERO,
        }
    }

    fn read(stream: u64) -> Read {
        Read { offset: 0, length: 4096, stream, cpu: 0, background: false, copies: 2 }
    }

    fn table(in_flight: &[(u64, u16, u32)]) -> StreamTable {
        let mut table = StreamTable::new(true);
        table.set_members(2);
        for &(stream, member, count) in in_flight {
            (0..count).for_each(|_| table.submit(&io(stream, member)));
        }
        table
    }

    #[test]
    fn a_deep_stream_counts_a_lone_read_as_often_as_it_has_reads() {
        let table = table(&[(1, 0, 1), (2, 0, 3), (2, 1, 4)]);
        let [deep, lone, new] = [2, 1, 3].map(|stream| table.deciding(&read(stream)));
        let excess = |own| [0, 1].map(|member| table.excess(own, MemberIndex(member)));
        // Eight with the read that is decided on, against one: seven more than once.
        assert_eq!(excess(deep), [7 << EXCESS_BITS, 0]);
        assert_eq!(excess(lone), [0, 0], "seven in flight count for less than one each");
        assert_eq!(excess(new), [0, 0]);
        assert_eq!([deep, lone, new].map(|own| own.shallow_shift), [0, 1, 2]);
        let background = Read { background: true, ..read(2) };
        assert!(table.excess(table.deciding(&background), MemberIndex(0)) >= 7 << EXCESS_BITS);
    }

    #[test]
    fn streams_of_equal_depth_add_nothing() {
        let table = table(&[(1, 0, 3), (2, 0, 4)]);
        assert_eq!(table.excess(table.deciding(&read(1)), MemberIndex(0)), 0);
    }

    /// Stream 1, on member 0, and `clones`, on member 1, have one I/O in flight each. A depth is
    /// that of the last I/O, so each has had some.
    fn with_clones(has_workloads: bool, clones: std::ops::Range<u64>) -> StreamTable {
        let mut table = StreamTable::new(has_workloads);
        table.set_members(2);
        for round in 0..3 {
            for stream in std::iter::once(1).chain(clones.clone()) {
                let length = if stream == 1 { 65_536 } else { 4096 };
                let io = MemberIo { length, ..io(stream, u16::from(stream != 1)) };
                if round > 0 {
                    table.complete(&io);
                }
                table.submit(&io);
            }
        }
        table
    }

    #[test]
    fn streams_that_read_alike_count_as_one_of_their_depth_together() {
        // Five streams of 4 KiB have one in flight each, as a single stream of depth five would.
        let table = with_clones(true, 10..15);
        let excess = |stream, member| {
            table.excess(table.deciding(&read(stream)), MemberIndex(member)) >> EXCESS_BITS
        };
        assert_eq!([excess(10, 0), excess(10, 1)], [4, 0], "the lone stream; the others alike");
        assert_eq!([excess(1, 0), excess(1, 1)], [0, 0]);
        let without = with_clones(false, 10..15);
        assert_eq!(without.excess(without.deciding(&read(10)), MemberIndex(0)) >> EXCESS_BITS, 1);
    }

    #[test]
    fn workloads_hold_the_streams_in_flight() {
        let mut rng = crate::rng::Rng::new(1);
        let mut table = table(&[]);
        let mut in_flight: Vec<MemberIo> = Vec::new();
        for _ in 0..20_000 {
            if in_flight.len() < 40 && rng.below(2) == 0 {
                let io = MemberIo { length: 4096 << rng.below(4), ..io(rng.below(60), 0) };
                table.submit(&io);
                in_flight.push(io);
            } else if !in_flight.is_empty() {
                let at = rng.below(in_flight.len() as u64) as usize;
                table.complete(&in_flight.swap_remove(at));
            }
            let live = (0..SLOTS).filter(|slot| table.live & 1 << slot != 0);
            let classed = live.filter(|&slot| table.slots[slot].workload.is_some()).count();
            assert_eq!(table.workloads.total() as usize, classed);
        }
    }

    #[test]
    fn a_depth_is_the_most_in_flight_of_the_last_two_windows() {
        let mut table = table(&[(1, 0, 1), (2, 0, 6)]);
        (0..5).for_each(|_| table.complete(&io(2, 0)));
        // Six with one left in flight: the lone read of stream 1 still counts six times.
        assert_eq!(table.excess(table.deciding(&read(2)), MemberIndex(0)), 5 << EXCESS_BITS);
        for _ in 0..2 * WINDOW {
            table.submit(&io(2, 1));
            table.complete(&io(2, 1));
        }
        let depth = table.slots[table.slot_of(2).unwrap()].depth();
        assert_eq!(depth, 2, "the six are forgotten");
    }

    #[test]
    fn what_completes_is_forgotten_and_its_slot_is_free() {
        let mut table = table(&[(1, 0, 1), (2, 1, 2)]);
        table.complete(&io(1, 0));
        assert_eq!(table.excess(table.deciding(&read(2)), MemberIndex(0)), 0);
        (0..2).for_each(|_| table.complete(&io(2, 1)));
        assert_eq!(table.live, 0);
        // Far more streams than slots: the counts stay right.
        (0..1000).for_each(|stream| table.submit(&io(stream, 0)));
        assert_eq!(table.live, u32::MAX);
        (0..1000).for_each(|stream| table.complete(&io(stream, 0)));
        assert_eq!((table.live, table.on_member[0]), (0, [0; SLOTS]));
    }
}
