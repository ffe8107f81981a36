//! Fairness between streams: what a read costs the reads of streams that have less in flight.
//!
//! A stream with `d` I/O in flight loses `t / d` of its rate, in proportion, if one of them takes
//! `t` longer (`docs/paper.md` has the theory). So a delay of an I/O is worth one over the number
//! that its stream has in flight, and a read of a stream with `d` in flight counts an I/O of a
//! stream with `e` in flight `d / e` times; twice that, so that workloads of equal depth keep apart
//! where they can. Once is in the cost of the load; what is beyond that, `2 d / e - 1`, is added
//! here. Streams that read alike count as one, with the depth of all together
//! ([`super::workloads`]), and add nothing.
//!
//! The table has four places for each hash of a stream. If all have I/O in flight, a stream of the
//! workload with the most streams gives up its place, and its I/O in flight are forgotten. I/O of
//! background work are not counted: a delay of them costs nobody.

use super::streams::{SLOTS, Streams};
use super::workloads::{DEPTH_MAX, MembersTable, WorkloadKind, WorkloadPlace, Workloads};
use crate::io::MemberIo;
use crate::member::MemberIndex;
use crate::policy::Read;

/// A background read is decided on as one of a stream with this many in flight.
const BACKGROUND_DEPTH: u32 = 64;

/// The streams that have I/O in flight.
#[derive(Debug)]
pub(super) struct StreamTable {
    /// Whether streams that read alike count as one.
    has_workloads: bool,
    streams: Streams,
    workloads: Workloads,
    /// I/O in flight of each stream.
    on_member: MembersTable<SLOTS>,
}

/// A stream that decides, with the read that is decided on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecidingStream {
    /// The other workloads of which an I/O counts more than once, one bit each.
    counted: u64,
    /// Depth, with that of the streams that read alike.
    depth: u32,
    /// Logarithm of the depth of the deepest other workload over that of this one.
    pub(super) shallow_shift: u32,
}

impl DecidingStream {
    /// The stream as one that spares no other.
    #[inline]
    pub(super) fn without_fairness(self) -> DecidingStream {
        DecidingStream { counted: 0, shallow_shift: 0, ..self }
    }

    /// True if I/O of other workloads count more than once.
    #[inline]
    pub(super) fn counts_others(self) -> bool {
        self.counted != 0
    }

    /// Number of I/O in flight, with those of streams that read alike.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// How often an I/O of a stream with one in flight counts.
    #[inline]
    pub(super) fn weight(self) -> u64 {
        u64::from(self.depth.max(1))
    }
}

impl StreamTable {
    pub(super) fn new(has_workloads: bool) -> StreamTable {
        StreamTable {
            has_workloads,
            streams: Streams::default(),
            workloads: Workloads::default(),
            on_member: MembersTable::default(),
        }
    }

    /// Adds members up to this number.
    pub(super) fn set_members(&mut self, count: usize) {
        self.on_member.set_members(count);
        self.workloads.set_members(count);
    }

    /// Kind of a stream that reads this many bytes at a time, by its slot if it has one.
    #[inline]
    fn kind(&self, slot: Option<usize>, length: u64) -> WorkloadKind {
        match slot.map(|slot| self.streams.at(slot)) {
            _ if !self.has_workloads => WorkloadKind::unlike(slot.unwrap_or(SLOTS)),
            Some(stream) => WorkloadKind::of(length, stream.depth(), stream.place()),
            None => WorkloadKind::of(length, 1, WorkloadPlace::Unknown),
        }
    }

    /// The slot for an I/O of a stream.
    #[inline]
    fn slot_for(&mut self, id: u64) -> usize {
        self.streams.find(id).unwrap_or_else(|| {
            let slot = self.streams.worst(id, |workload| self.workloads.streams(workload));
            if self.streams.at(slot).in_flight > 0 {
                self.take_out(slot);
                for member in self.on_member.members() {
                    *self.on_member.of_mut(member, slot) = 0;
                }
            }
            self.streams.replace(slot, id);
            slot
        })
    }

    /// Removes a stream and its I/O in flight from its workload.
    fn take_out(&mut self, slot: usize) {
        let stream = self.streams.at(slot);
        for member in self.on_member.members() {
            self.workloads.remove(stream.workload, member, self.on_member.of(member, slot));
        }
        self.workloads.leave(stream.workload, stream.depth());
    }

    /// Counts a slot's stream to the workload of an I/O that is submitted.
    fn class(&mut self, slot: usize, length: u64) {
        let kind = self.kind(Some(slot), length);
        let stream = self.streams.at(slot);
        let (depth, is_busy) = (stream.depth(), stream.in_flight > 0);
        if is_busy {
            if self.workloads.find(kind) == Some(stream.workload) {
                return;
            }
            self.take_out(slot);
        }
        let workload = self.workloads.join(kind, depth);
        self.streams.at_mut(slot).workload = workload;
        if is_busy {
            for member in self.on_member.members() {
                self.workloads.add(workload, member, self.on_member.of(member, slot));
            }
        }
    }

    /// Records an I/O that is handed to a member.
    #[inline]
    pub(super) fn submit(&mut self, io: &MemberIo) {
        if io.background {
            return;
        }
        let slot = self.slot_for(io.stream);
        if self.streams.at(slot).is_to_be_classed() {
            self.class(slot, io.length);
        }
        let before = self.streams.at(slot).depth();
        self.streams.submit(slot, io.volume_offset, io.length);
        let stream = self.streams.at(slot);
        if stream.depth() != before {
            self.workloads.deepen(stream.workload, before, stream.depth());
        }
        *self.on_member.of_mut(io.member, slot) += 1;
        self.workloads.add(stream.workload, io.member, 1);
    }

    /// Records the end of an I/O.
    #[inline]
    pub(super) fn complete(&mut self, io: &MemberIo) {
        if io.background {
            return;
        }
        let Some(slot) = self.streams.find(io.stream) else { return };
        // Zero if the stream gave up its slot while the I/O was in flight.
        let count = self.on_member.of_mut(io.member, slot);
        if *count == 0 {
            return;
        }
        *count -= 1;
        let stream = self.streams.at_mut(slot);
        stream.in_flight -= 1;
        self.workloads.remove(stream.workload, io.member, 1);
        if stream.in_flight == 0 {
            self.workloads.leave(stream.workload, stream.depth());
        }
    }

    #[inline]
    pub(super) fn deciding(&self, read: &Read) -> DecidingStream {
        let live = self.workloads.live();
        let slot = if read.background { None } else { self.streams.find(read.stream) };
        let (own, depth) = match slot.map(|slot| self.streams.at(slot)) {
            _ if read.background => (None, BACKGROUND_DEPTH),
            Some(stream) if stream.in_flight > 0 => {
                let depth = self.workloads.depth(stream.workload);
                (Some(stream.workload), depth.max(stream.in_flight + 1))
            }
            idle => {
                let own = self.workloads.find(self.kind(slot, read.length));
                let alike = own.map_or(0, |own| self.workloads.depth(own));
                (own, alike + idle.map_or(1, |stream| stream.depth().max(1)))
            }
        };
        let others = live & !own.map_or(0, |own| 1 << own);
        let depth = depth.min(DEPTH_MAX);
        if others == 0 {
            return DecidingStream { counted: 0, depth, shallow_shift: 0 };
        }
        let shallow_shift = self.workloads.shallow_shift(others, depth);
        DecidingStream { counted: self.workloads.counted(others, depth), depth, shallow_shift }
    }

    /// How many I/O of its own the stream must count for those of other workloads on a member,
    /// beyond each once, in sixteenths.
    #[inline]
    pub(super) fn excess(&self, own: DecidingStream, member: MemberIndex) -> u64 {
        self.workloads.excess(own.counted, own.depth, member)
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams::WINDOW;
    use super::super::workloads::{EXCESS_BITS, WORKLOADS};
    use super::*;
    use crate::policy::Mirror;
    use crate::units::Nanos;

    fn io(stream: u64, member: u16) -> MemberIo {
        let mirror = Mirror { member: MemberIndex(member), offset: 0, copy: 0 };
        read(stream).io(&mirror, Nanos::ZERO)
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

    /// The workloads have what the streams have, and nothing else.
    fn check(table: &StreamTable) {
        let busy: Vec<usize> =
            (0..SLOTS).filter(|&slot| table.streams.at(slot).in_flight > 0).collect();
        for index in 0..WORKLOADS {
            let of = || busy.iter().filter(|&&slot| table.streams.at(slot).workload == index);
            let is_live = table.workloads.live() & 1 << index != 0;
            assert_eq!(is_live, of().count() > 0);
            if is_live {
                assert_eq!(table.workloads.streams(index) as usize, of().count());
                let depth: u32 = of().map(|&slot| table.streams.at(slot).depth()).sum();
                assert_eq!(table.workloads.depth(index), depth);
            }
            for member in table.on_member.members() {
                let in_flight: u32 = of().map(|&slot| table.on_member.of(member, slot)).sum();
                assert_eq!(table.workloads.in_flight(index, member), in_flight);
            }
        }
    }

    #[test]
    fn a_deep_stream_counts_a_lone_read_as_often_as_it_has_reads() {
        let table = table(&[(1, 0, 1), (2, 0, 3), (2, 1, 4)]);
        let [deep, lone, new] = [2, 1, 3].map(|stream| table.deciding(&read(stream)));
        let excess = |own| [0, 1].map(|member| table.excess(own, MemberIndex(member)));
        // Eight with the read that is decided on, against one: sixteen, once of which is the load.
        assert_eq!(excess(deep), [15 << EXCESS_BITS, 0]);
        assert_eq!(excess(lone), [0, 0], "seven in flight count for less than one each");
        assert_eq!(excess(new), [0, 0]);
        assert_eq!([deep, lone, new].map(|own| own.shallow_shift), [0, 1, 1]);
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
        assert_eq!([excess(10, 0), excess(10, 1)], [9, 0], "the lone stream; the others alike");
        assert_eq!([excess(1, 0), excess(1, 1)], [0, 0]);
        let without = with_clones(false, 10..15);
        assert_eq!(without.excess(without.deciding(&read(10)), MemberIndex(0)) >> EXCESS_BITS, 3);
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
            check(&table);
        }
    }

    #[test]
    fn a_depth_is_the_most_in_flight_of_the_last_two_windows() {
        let mut table = table(&[(1, 0, 1), (2, 0, 6)]);
        (0..5).for_each(|_| table.complete(&io(2, 0)));
        // Six with one left in flight: the lone read of stream 1 still counts six times.
        assert_eq!(table.excess(table.deciding(&read(2)), MemberIndex(0)), 11 << EXCESS_BITS);
        for _ in 0..2 * WINDOW {
            table.submit(&io(2, 1));
            table.complete(&io(2, 1));
        }
        let depth = table.streams.at(table.streams.find(2).unwrap()).depth();
        assert_eq!(depth, 2, "the six are forgotten");
    }

    #[test]
    fn what_completes_is_forgotten_and_its_slot_is_free() {
        let mut table = table(&[(1, 0, 1), (2, 1, 2)]);
        table.complete(&io(1, 0));
        assert_eq!(table.excess(table.deciding(&read(2)), MemberIndex(0)), 0);
        (0..2).for_each(|_| table.complete(&io(2, 1)));
        assert_eq!(table.workloads.live(), 0);
        // Far more streams than slots: the counts stay right.
        (1..1001).for_each(|stream| table.submit(&io(stream, 0)));
        check(&table);
        (1..1001).for_each(|stream| table.complete(&io(stream, 0)));
        assert_eq!(table.workloads.live(), 0);
    }

    #[test]
    fn among_many_streams_one_of_another_kind_is_counted() {
        for lone in 5000..5050 {
            let mut table = table(&[(lone, 0, 1)]);
            (1..1001)
                .for_each(|stream| table.submit(&MemberIo { length: 65_536, ..io(stream, 1) }));
            let deciding = table.deciding(&Read { length: 65_536, ..read(2000) });
            assert!(table.excess(deciding, MemberIndex(0)) > 40 << EXCESS_BITS, "{lone}");
        }
    }

    #[test]
    fn readers_of_different_places_are_different_workloads() {
        let mut table = table(&[]);
        // Stream 1 reads the end of the volume from member 0, the others its start from member 1.
        let io_of = |stream: u64, round: u64| {
            let begin = if stream == 1 { 58 } else { 0 };
            let offset = (begin + (round + stream) * 5 % 6) << 30;
            MemberIo { volume_offset: offset, ..io(stream, u16::from(stream != 1)) }
        };
        for round in 0..20 {
            (1..18).for_each(|stream| table.submit(&io_of(stream, round)));
            if round < 19 {
                (1..18).for_each(|stream| table.complete(&io_of(stream, round)));
            }
        }
        let deciding = table.deciding(&read(2));
        let excess = [0, 1].map(|member| table.excess(deciding, MemberIndex(member)));
        assert_eq!(excess, [31 << EXCESS_BITS, 0], "sixteen alike, against one");
        let lone = table.deciding(&read(1));
        assert_eq!(table.excess(lone, MemberIndex(1)), 0);
    }
}
