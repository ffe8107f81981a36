//! The streams that lately had I/O in flight: how much, and in what part of the volume.

use super::workloads::WorkloadPlace;

/// A power of two.
const WAYS: usize = 4;
const SETS: usize = 16;
/// Streams in the table.
pub(super) const SLOTS: usize = WAYS * SETS;
/// I/O of a stream after which a new measurement of its depth and its place begins.
pub(super) const WINDOW: u32 = 16;
/// Offsets are counted in 2^6 parts of the volume, as far as it was seen.
const PARTS_BITS: u32 = 6;
/// A stream that stays within this many parts keeps to an eighth of the volume.
const NARROW_PARTS: u8 = 1 << (PARTS_BITS - 3);

/// A stream has a place after this many I/O. One that reads all of the volume seems to keep to an
/// eighth of it then in one case of a thousand, until it reads elsewhere.
const PLACE_READS: u32 = 5;

/// The parts of the volume that a stream touched; all of them if it reads sequentially.
#[derive(Clone, Copy, Debug)]
struct Span {
    low: u8,
    high: u8,
}

impl Span {
    const EMPTY: Span = Span { low: u8::MAX, high: 0 };
    const ALL: Span = Span { low: 0, high: u8::MAX };

    #[inline]
    fn with(self, other: Span) -> Span {
        Span { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

/// A stream: how much it has in flight, and where it reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReaderStream {
    pub(super) in_flight: u32,
    /// Workload while it has I/O in flight.
    pub(super) workload: usize,
    /// I/O in the present window.
    submitted: u32,
    /// Most in flight in the present window, and in the one before.
    peaks: [u32; 2],
    /// Parts touched in the same windows.
    spans: [Span; 2],
    /// End of its last I/O.
    end: u64,
    /// Number of I/O that the table had seen at its last one.
    used_at: u64,
}

impl ReaderStream {
    const NEW: ReaderStream = ReaderStream {
        in_flight: 0,
        workload: 0,
        submitted: 0,
        peaks: [0; 2],
        spans: [Span::EMPTY; 2],
        end: u64::MAX,
        used_at: 0,
    };

    /// The most that the stream recently had in flight. What is in flight at one moment differs
    /// between streams of equal depth.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.peaks[0].max(self.peaks[1])
    }

    /// The part of the volume that the stream reads.
    #[inline]
    pub(super) fn place(&self) -> WorkloadPlace {
        if self.peaks[1] == 0 && self.submitted < PLACE_READS {
            return WorkloadPlace::Unknown;
        }
        let Span { low, high } = self.spans[0].with(self.spans[1]);
        match high.saturating_sub(low) <= NARROW_PARTS {
            true => WorkloadPlace::Eighth(low.midpoint(high) / NARROW_PARTS),
            false => WorkloadPlace::All,
        }
    }

    /// True if the next I/O is the only one in flight, or one of a few in its window: at first a
    /// depth is known only from below.
    #[inline]
    pub(super) fn is_to_be_classed(&self) -> bool {
        self.in_flight == 0 || self.submitted.is_power_of_two()
    }
}

/// The streams, in sets by a hash, and how far the volume was seen.
#[derive(Debug)]
pub(super) struct Streams {
    ids: [[u64; WAYS]; SETS],
    list: [ReaderStream; SLOTS],
    submitted: u64,
    volume_end: u64,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            ids: [[0; WAYS]; SETS],
            list: [ReaderStream::NEW; SLOTS],
            submitted: 0,
            volume_end: 1 << PARTS_BITS,
        }
    }
}

impl Streams {
    #[inline]
    pub(super) fn at(&self, slot: usize) -> &ReaderStream {
        &self.list[slot]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, slot: usize) -> &mut ReaderStream {
        &mut self.list[slot]
    }

    #[inline]
    pub(super) fn find(&self, id: u64) -> Option<usize> {
        // A slot that was never used belongs to stream 0, which has nothing in flight there.
        let set = set_of(id);
        let ids = &self.ids[set];
        // All are compared, so that the branch does not depend on which one it is.
        let found = (0..WAYS).fold(0_u32, |found, way| found | u32::from(ids[way] == id) << way);
        (found != 0).then(|| set * WAYS + found.trailing_zeros() as usize)
    }

    /// The slot that a stream without one is to have: one without I/O in flight, of these the one
    /// used least recently; else one of the workload with the most streams, which misses it least,
    /// of these the one used most recently: a slow stream keeps what is known of it.
    #[inline]
    pub(super) fn worst(&self, id: u64, alike: impl Fn(usize) -> u32) -> usize {
        let first = set_of(id) * WAYS;
        let slots = first..first + WAYS;
        let idle = slots.clone().filter(|&slot| self.list[slot].in_flight == 0);
        idle.min_by_key(|&slot| self.list[slot].used_at).unwrap_or_else(|| {
            let worth = |&slot: &usize| {
                let stream = &self.list[slot];
                (u32::MAX - alike(stream.workload), u64::MAX - stream.used_at)
            };
            slots.min_by_key(worth).expect("a set has slots")
        })
    }

    pub(super) fn replace(&mut self, slot: usize, id: u64) {
        self.ids[slot / WAYS][slot % WAYS] = id;
        self.list[slot] = ReaderStream::NEW;
    }

    /// Records an I/O that is submitted.
    #[inline]
    pub(super) fn submit(&mut self, slot: usize, offset: u64, length: u64) {
        self.submitted += 1;
        self.volume_end = self.volume_end.max(offset.saturating_add(length));
        let part = (offset >> (self.volume_end.ilog2() + 1 - PARTS_BITS)) as u8;
        let stream = &mut self.list[slot];
        stream.used_at = self.submitted;
        stream.in_flight += 1;
        if stream.submitted == WINDOW {
            stream.submitted = 0;
            stream.peaks = [0, stream.peaks[0]];
            stream.spans = [Span::EMPTY, stream.spans[0]];
        }
        stream.submitted += 1;
        stream.peaks[0] = stream.peaks[0].max(stream.in_flight);
        let is_sequential = offset == stream.end;
        let touched = if is_sequential { Span::ALL } else { Span { low: part, high: part } };
        stream.spans[0] = stream.spans[0].with(touched);
        stream.end = offset.saturating_add(length);
    }
}

/// The set of a stream, by Fibonacci hashing.
#[inline]
fn set_of(id: u64) -> usize {
    (id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn read(offsets: impl Iterator<Item = u64>) -> ReaderStream {
        let mut streams = Streams::default();
        streams.submit(1, 63 * GIB, 4096);
        for offset in offsets {
            streams.submit(0, offset, 4096);
            streams.at_mut(0).in_flight -= 1;
        }
        *streams.at(0)
    }

    #[test]
    fn a_stream_has_a_place_if_it_keeps_to_an_eighth_of_the_volume() {
        let near = |begin: u64| move |number: u64| begin + number % 7 * GIB;
        let numbers = |count: u64| (0..count).map(|number| number * 5);
        assert_eq!(read(numbers(5).map(near(0))).place(), WorkloadPlace::Eighth(0));
        assert_eq!(read(numbers(17).map(near(57 * GIB))).place(), WorkloadPlace::Eighth(7));
        assert_eq!(read(numbers(4).map(near(0))).place(), WorkloadPlace::Unknown);
        assert_eq!(read((0..40).map(|number| number * 29 % 64 * GIB)).place(), WorkloadPlace::All);
        let moved = (0..20).map(|number| number % 3 * GIB).chain((0..40).map(near(40 * GIB)));
        assert_eq!(read(moved).place(), WorkloadPlace::Eighth(5), "where it was is forgotten");
        assert_eq!(
            read((0..40).map(|number| number * 4096)).place(),
            WorkloadPlace::All,
            "sequential"
        );
    }

    #[test]
    fn of_busy_streams_one_with_many_alike_gives_up_its_slot() {
        let mut streams = Streams::default();
        let ids: Vec<u64> = (1..).filter(|&id| set_of(id) == set_of(1)).take(5).collect();
        for (workload, &id) in ids[..4].iter().enumerate() {
            let slot = streams.worst(id, |_| 1);
            streams.replace(slot, id);
            streams.submit(slot, 0, 4096);
            streams.at_mut(slot).workload = workload;
        }
        let given_up = |streams: &Streams, alike: [u32; 4]| {
            let slot = streams.worst(ids[4], |workload| alike[workload]);
            streams.ids[slot / WAYS][slot % WAYS]
        };
        assert_eq!(given_up(&streams, [1, 1, 5, 1]), ids[2]);
        assert_eq!(given_up(&streams, [1, 1, 1, 1]), ids[3], "the one used most recently");
        for id in &ids[1..3] {
            let idle = streams.find(*id).unwrap();
            streams.at_mut(idle).in_flight = 0;
        }
        assert_eq!(given_up(&streams, [9, 1, 1, 9]), ids[1], "nothing in flight for long");
    }
}
