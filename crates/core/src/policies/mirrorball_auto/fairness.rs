//! Fairness between streams: what a read costs the reads of streams that have less in flight.
//!
//! A stream with `d` I/O in flight loses `t / d` of its rate, in proportion, if one of them takes
//! `t` longer (`docs/auto.md` has the theory). So a delay of an I/O is worth one over the number
//! that its stream has in flight, and a read of a stream with `d` in flight counts an I/O of a
//! stream with `e` in flight `d / e` times. Once is in the cost of the load; what is beyond that,
//! `d / e - 1`, is added here. Streams with equal depth add nothing.
//!
//! The table has two places for each hash of a stream. A stream that finds none is not counted
//! until one is free.

use crate::io::MemberIo;
use crate::member::MemberIndex;
use crate::policy::Read;

/// A power of two, at most the bits of [`StreamTable::live`].
const SLOTS: usize = 32;
/// Bits after the point of a ratio of two depths.
const RATIO_BITS: u32 = 16;
/// Bits after the point of [`StreamTable::excess`].
pub(super) const EXCESS_BITS: u32 = 4;
/// Depths beyond this count as this.
const DEPTH_MAX: usize = 255;
/// Background I/O counts as that of a stream with this many in flight.
const BACKGROUND_DEPTH: u32 = 8;
/// One over a depth, without a division. A depth of zero is not asked for.
const INVERSE: [u32; DEPTH_MAX + 1] = {
    let mut table = [0; DEPTH_MAX + 1];
    let mut depth = 1;
    while depth <= DEPTH_MAX {
        table[depth] = (1_u32 << RATIO_BITS).div_ceil(depth as u32);
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
    /// I/O of the present window.
    submitted: u32,
    /// Most in flight in the present window, and in the one before.
    peaks: [u32; 2],
}

impl StreamSlot {
    /// The stream's depth: the most that it recently had in flight. What is in flight at one
    /// moment differs between streams of equal depth.
    #[inline]
    fn depth(self) -> u32 {
        self.peaks[0].max(self.peaks[1])
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
#[derive(Debug, Default)]
pub(super) struct StreamTable {
    slots: [StreamSlot; SLOTS],
    /// One bit for each slot in use.
    live: u32,
    /// I/O in flight by member and slot.
    on_member: Vec<[u16; SLOTS]>,
}

/// A stream that decides, with the read that is decided on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecidingStream {
    /// The other slots in use.
    others: u32,
    depth: u32,
    /// Logarithm of the depth of the deepest other stream over that of this one.
    pub(super) shallow_shift: u32,
}

impl DecidingStream {
    /// True if other streams have I/O in flight.
    #[inline]
    pub(super) fn has_others(self) -> bool {
        self.others != 0
    }
}

impl StreamTable {
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
        self.slots[slot].submit();
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
        let Some(decreased) = count.checked_sub(1) else { return };
        *count = decreased;
        let in_flight = &mut self.slots[slot].in_flight;
        *in_flight -= 1;
        if *in_flight == 0 {
            self.live &= !(1 << slot);
        }
    }

    /// The stream of a read that is decided on.
    #[inline]
    pub(super) fn deciding(&self, read: &Read) -> DecidingStream {
        let slot = if read.background { None } else { self.slot_of(read.stream) };
        let others = self.live & !slot.map_or(0, |slot| 1 << slot);
        if others == 0 {
            return DecidingStream::default();
        }
        self.deciding_among(others, slot, read.background)
    }

    /// The same where other streams have I/O in flight.
    fn deciding_among(&self, others: u32, slot: Option<usize>, background: bool) -> DecidingStream {
        let depth = match slot {
            _ if background => BACKGROUND_DEPTH,
            Some(slot) => self.slots[slot].depth().max(self.slots[slot].in_flight + 1),
            None => 1,
        };
        let (mut left, mut deepest) = (others, 1);
        while left != 0 {
            deepest = deepest.max(self.slots[left.trailing_zeros() as usize].depth());
            left &= left - 1;
        }
        let depth = depth.min(DEPTH_MAX as u32);
        let ratio = (deepest.min(DEPTH_MAX as u32) * INVERSE[depth as usize]) >> RATIO_BITS;
        DecidingStream { others, depth, shallow_shift: ratio.max(1).ilog2() }
    }

    /// How many I/O of its own the stream must count for those of other streams on a member,
    /// beyond each once, in sixteenths.
    #[inline]
    pub(super) fn excess(&self, own: DecidingStream, member: MemberIndex) -> u64 {
        let (mut others, mut excess) = (own.others, 0);
        let counts = &self.on_member[member.get()];
        while others != 0 {
            let slot = others.trailing_zeros() as usize;
            others &= others - 1;
            let depth = (self.slots[slot].depth() as usize).min(DEPTH_MAX);
            let ratio = own.depth * INVERSE[depth];
            excess += u64::from(counts[slot]) * u64::from(ratio.saturating_sub(1 << RATIO_BITS));
        }
        excess >> (RATIO_BITS - EXCESS_BITS)
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
        let mut table = StreamTable::default();
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
