//! A controller with a write-back cache that a battery protects, in front of an array.
//!
//! A write is acknowledged when it has been copied into the cache. The controller writes cached
//! data to the volume later, in the order of addresses, and joins what has become adjacent in the
//! meantime: random writes reach the disks sorted, and small ones as full stripes. While the cache
//! is full, writes wait.
//!
//! Write-back starts when the cached bytes reach the high mark, or a write waits for space, and
//! stops at the low mark. It goes through the volume upwards and starts again at the first byte (a
//! C-SCAN elevator). Its unit is the dirty data of one full stripe; without parity, of one range of
//! [`UNIT_BYTES`]. Data stay readable in the cache until they are on the disks, and then leave it.
//!
//! The cache is a state machine without a clock, as the volume is: the caller submits requests,
//! hands write-backs to the volume, and reports their end. It holds no data: the simulator has
//! none, and the executor of `io` keeps them.
//!
//! Non-goals: the time of the copy, read-ahead of the controller, and write-back by age (a
//! cache that stays below its high mark keeps its data).

use crate::byte_ranges::ByteRanges;
use mirrorball_core::geometry::ChunkMap;
use mirrorball_core::io::{Request, RequestId, RequestKind};
use mirrorball_core::units::MIB;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The unit of write-back on an array without full stripes.
pub const UNIT_BYTES: u64 = MIB;

/// A controller, as an array file describes it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ControllerSpec {
    pub cache_bytes: u64,
    /// Share of the cache at which write-back starts, 0 to 1.
    pub high_mark: f64,
    /// Share at which it stops; not above the high mark.
    pub low_mark: f64,
    /// Maximum number of units that are written back at once; at least 1.
    pub depth: u32,
}

/// The cache of a controller during a run.
#[derive(Debug)]
pub struct WriteBackCache {
    spec: ControllerSpec,
    /// Cached data that no write-back in flight carries.
    dirty: ByteRanges,
    /// The write-backs in flight, by number.
    in_flight: BTreeMap<u64, InFlight>,
    /// Number of parts in flight of each unit, by unit number.
    units: BTreeMap<u64, u32>,
    in_flight_bytes: u64,
    /// Write-backs of a unit that was started, not handed out so far.
    ready: VecDeque<WriteBack>,
    /// Writes that wait for space, in the order of submission.
    waiting: VecDeque<Request>,
    is_writing_back: bool,
    /// Where the elevator is.
    position: u64,
    numbers: u64,
    counts: ControllerCounts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteBack {
    /// Number of the request; returned with its end.
    pub number: u64,
    /// First byte, on the volume.
    pub offset: u64,
    pub length: u64,
}

/// Fate of a submitted request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The cache completes it.
    Done,
    /// A write that waits for space; [`WriteBackCache::poll_admitted`] returns it.
    Waits,
    PassedOn,
}

/// Counters of a controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ControllerCounts {
    /// Writes copied into the cache.
    pub writes: u64,
    /// Those of them that waited for space.
    pub delayed_writes: u64,
    /// Reads that the cache answered.
    pub read_hits: u64,
    /// Units written back as a whole: full stripes, with parity.
    pub whole_units: u64,
    /// Units of which a part was written back.
    pub partial_units: u64,
    /// Write-backs that failed: their data are lost.
    pub failed_write_backs: u64,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    offset: u64,
    end: u64,
    unit: u64,
}

impl ControllerSpec {
    /// The values of keys that an array file does not give.
    pub const HIGH_MARK_DEFAULT: f64 = 0.75;
    /// See [`ControllerSpec::HIGH_MARK_DEFAULT`].
    pub const LOW_MARK_DEFAULT: f64 = 0.25;
    /// See [`ControllerSpec::HIGH_MARK_DEFAULT`].
    pub const DEPTH_DEFAULT: u32 = 16;

    fn high_bytes(&self) -> u64 {
        (self.cache_bytes as f64 * self.high_mark) as u64
    }

    fn low_bytes(&self) -> u64 {
        (self.cache_bytes as f64 * self.low_mark) as u64
    }
}

impl WriteBackCache {
    pub fn new(spec: ControllerSpec) -> WriteBackCache {
        WriteBackCache {
            spec,
            dirty: ByteRanges::default(),
            in_flight: BTreeMap::new(),
            units: BTreeMap::new(),
            in_flight_bytes: 0,
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            is_writing_back: false,
            position: 0,
            numbers: 0,
            counts: ControllerCounts::default(),
        }
    }

    /// Counters so far.
    pub fn counts(&self) -> ControllerCounts {
        self.counts
    }

    /// Accepts a request. A flush is done at once, because the battery keeps the cache.
    pub fn submit(&mut self, request: Request) -> Admission {
        let range = request.offset..request.offset + request.length;
        match request.kind {
            RequestKind::Write if self.waiting.is_empty() && self.has_space(request.length) => {
                self.store(range);
                Admission::Done
            }
            RequestKind::Write => {
                self.waiting.push_back(request);
                self.counts.delayed_writes += 1;
                Admission::Waits
            }
            RequestKind::Flush => Admission::Done,
            RequestKind::Read if self.holds(range.clone()) => {
                self.counts.read_hits += 1;
                Admission::Done
            }
            RequestKind::Discard => {
                self.dirty.take(range);
                Admission::PassedOn
            }
            RequestKind::Read
            | RequestKind::Scrub
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => Admission::PassedOn,
        }
    }

    /// Returns the next write that waited and now is in the cache.
    pub fn poll_admitted(&mut self) -> Option<RequestId> {
        let first = self.waiting.front()?;
        if !self.has_space(first.length) {
            return None;
        }
        let request = self.waiting.pop_front()?;
        self.store(request.offset..request.offset + request.length);
        Some(request.id)
    }

    /// Returns the next write to the volume, if one is due. `map` is the layout of the volume.
    pub fn poll_write_back(&mut self, map: &ChunkMap) -> Option<WriteBack> {
        if self.ready.is_empty() {
            self.start_unit(map);
        }
        self.ready.pop_front()
    }

    /// Reports the end of a write-back. Panics if none of this number is in flight.
    pub fn end_write_back(&mut self, number: u64, is_ok: bool) {
        let ended = self.in_flight.remove(&number).expect("a write-back ends once");
        self.in_flight_bytes -= ended.end - ended.offset;
        self.counts.failed_write_backs += u64::from(!is_ok);
        let left = self.units.get_mut(&ended.unit).expect("a unit has its parts in flight");
        *left -= 1;
        if *left == 0 {
            self.units.remove(&ended.unit);
        }
    }

    /// Bytes that are not on the disks yet.
    fn cached_bytes(&self) -> u64 {
        self.dirty.bytes() + self.in_flight_bytes
    }

    /// Returns true if a write of `length` can be copied now. One that is larger than the cache can
    /// if the cache is empty.
    fn has_space(&self, length: u64) -> bool {
        let cached = self.cached_bytes();
        cached == 0 || cached + length <= self.spec.cache_bytes
    }

    fn store(&mut self, range: Range<u64>) {
        self.counts.writes += 1;
        self.dirty.insert(range);
    }

    /// Returns true if every byte of the range is in the cache.
    pub fn holds(&self, range: Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let in_flight = || {
                let holding = self.in_flight.values().filter(|it| it.offset <= at && at < it.end);
                holding.map(|it| it.end).max()
            };
            match self.dirty.end_of_range_at(at).or_else(in_flight) {
                Some(end) => at = end,
                None => return false,
            }
        }
        true
    }

    /// Starts to write back the next unit of the elevator, if one is due.
    fn start_unit(&mut self, map: &ChunkMap) {
        let is_full = !self.waiting.is_empty() || self.cached_bytes() >= self.spec.high_bytes();
        if is_full {
            self.is_writing_back = true;
        } else if self.dirty.bytes() <= self.spec.low_bytes() {
            self.is_writing_back = false;
        }
        if !self.is_writing_back || self.units.len() >= self.spec.depth as usize {
            return;
        }
        let next = self.dirty.first_byte_from(self.position);
        let Some(first) = next.or_else(|| self.dirty.first_byte_from(0)) else { return };
        let unit = unit_at(map, first);
        self.position = unit.end;
        let parts = self.dirty.take(unit.clone());
        match &parts[..] {
            [whole] if *whole == unit => self.counts.whole_units += 1,
            _ => self.counts.partial_units += 1,
        }
        self.numbers += 1;
        let unit = self.numbers;
        self.units.insert(unit, parts.len() as u32);
        for Range { start: offset, end } in parts {
            self.numbers += 1;
            let number = self.numbers;
            self.in_flight_bytes += end - offset;
            self.in_flight.insert(number, InFlight { offset, end, unit });
            self.ready.push_back(WriteBack { number, offset, length: end - offset });
        }
    }
}

/// The unit of write-back that holds a byte of the volume.
fn unit_at(map: &ChunkMap, offset: u64) -> Range<u64> {
    match map.full_stripe(offset) {
        Some(stripe) => stripe.volume_offset..stripe.volume_offset + stripe.length(),
        None => {
            let start = offset - offset % UNIT_BYTES;
            start..start + UNIT_BYTES
        }
    }
}

#[cfg(test)]
mod tests;
