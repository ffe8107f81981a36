//! The write cache, the programs that drain it, and garbage collection.
//!
//! A write completes when its data has room in the cache. How full the cache is follows from one
//! number, the instant at which all dies together would have programmed what they were given: every
//! write moves it by its bytes' share of program time (with collection, for random writes), every
//! read that competes with programs by its share of die time, and a write waits until that instant
//! is no further away than the cache is deep. So a sustained stream of random writes runs at
//! `dies × unit / cost`, where a unit costs `tP + (WAF - 1) × (copy read + tP + erase / burst)`,
//! and all of it is known at submission.
//!
//! In addition, units are dealt to the dies one after another, and collection to one die after
//! another in bursts of copies and an erase: that is what a read may find in its way.
//!
//! A write that continues one of the last eight streams is sequential, any other random, as
//! ublk-disksim (docs/ARCHITECTURE.md) has it: it is how drives are specified.
//!
//! A write that the SLC cache has space for costs a faster program and no collection (`slc_cache`).
//!
//! Non-goals: the fill level of the drive; the amplification is that of a full drive in steady
//! state.

use super::die::{Die, DieTiming};
use super::parameters::SsdParameters;
use super::slc_cache::SlcCache;
use crate::model::ByteRange;
use mirrorball_core::rng::Rng;

/// Fractions of a nanosecond per byte are counted in 2^-20.
const FRACTION_BITS: u32 = 20;
/// Write streams that are remembered.
const STREAMS: usize = 8;

/// Nanoseconds per byte, in fixed point.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteTime(u64);

impl ByteTime {
    /// A time in nanoseconds for a number of bytes.
    pub(super) fn new(time_ns: f64, bytes: f64) -> ByteTime {
        ByteTime((time_ns / bytes * f64::from(1 << FRACTION_BITS)).round() as u64)
    }

    /// Time of `bytes` in nanoseconds.
    #[inline]
    pub(super) fn of(self, bytes: u64) -> u64 {
        (bytes * self.0) >> FRACTION_BITS
    }
}

#[derive(Clone, Copy, Debug)]
struct WriteCost {
    /// Time of all dies together.
    drain: ByteTime,
    /// How long the whole cache takes to drain, in nanoseconds.
    cache_ns: u64,
    /// Bytes that collection must copy for each byte written, in 2^-20.
    copied: u64,
}

#[derive(Clone, Debug)]
pub(super) struct SsdWriteCache {
    sequential: WriteCost,
    random: WriteCost,
    slc: Option<(SlcCache, WriteCost)>,
    unit_bytes: u64,
    burst_mean: u64,
    /// When everything cached would be programmed, in nanoseconds.
    pub(super) drained_at: u64,
    /// Bytes of the unit that is being filled.
    open_bytes: u64,
    /// Where the next unit is programmed.
    next_die: usize,
    /// Bytes that collection owes, and those of the next burst.
    owed_bytes: u64,
    burst_units: u64,
    next_collected: usize,
    streams: [u64; STREAMS],
    oldest_stream: usize,
    rng: Rng,
}

impl SsdWriteCache {
    /// An empty cache before `dies` dies.
    pub(super) fn new(parameters: &SsdParameters, mut rng: Rng) -> SsdWriteCache {
        let unit = parameters.program_unit_bytes() as f64;
        let burst_mean = u64::from(parameters.collection_burst);
        let dies = f64::from(parameters.dies);
        let program = parameters.program.0 as f64;
        let erase = parameters.erase.0 as f64 / burst_mean as f64;
        let copies = parameters.write_amplification - 1.0;
        let cost = |program: f64, copies: f64| {
            let unit_ns = program + copies * (program + parameters.copy_read.0 as f64 + erase);
            let drain = ByteTime::new(unit_ns, unit * dies);
            let copied = (copies * f64::from(1 << FRACTION_BITS)).round() as u64;
            WriteCost { drain, cache_ns: drain.of(parameters.write_cache), copied }
        };
        SsdWriteCache {
            sequential: cost(program, 0.0),
            random: cost(program, copies),
            slc: SlcCache::new(parameters).map(|cache| {
                let program = parameters.slc_program.unwrap_or(parameters.program).0 as f64;
                (cache, cost(program, 0.0))
            }),
            unit_bytes: parameters.program_unit_bytes(),
            burst_mean,
            drained_at: 0,
            open_bytes: 0,
            next_die: rng.below(u64::from(parameters.dies)) as usize,
            owed_bytes: 0,
            burst_units: burst_mean,
            next_collected: rng.below(u64::from(parameters.dies)) as usize,
            streams: [u64::MAX; STREAMS],
            oldest_stream: 0,
            rng,
        }
    }

    /// Accepts a write at `at`; returns when its data is in the cache.
    pub(super) fn accept(
        &mut self,
        at: u64,
        range: ByteRange,
        dies: &mut [Die],
        timing: &DieTiming,
    ) -> u64 {
        let accepted = self.accepted_at(at, range);
        let in_slc = self.slc_cost(at, range);
        let stream = self.stream_of(range.offset);
        let place = stream.unwrap_or(self.oldest_stream);
        self.streams[place] = range.offset + range.length;
        if stream.is_none() {
            self.oldest_stream = (self.oldest_stream + 1) % STREAMS;
        }
        let usual = if stream.is_some() { self.sequential } else { self.random };
        let cost = in_slc.unwrap_or(usual);
        if let (Some((cache, _)), Some(_)) = (&mut self.slc, in_slc) {
            cache.add(range.length);
        }
        self.drained_at = self.drained_at.max(at) + cost.drain.of(range.length);
        self.open_bytes += range.length;
        while self.open_bytes >= self.unit_bytes {
            self.open_bytes -= self.unit_bytes;
            match in_slc {
                Some(_) => dies[self.next_die].add_slc_program(at, timing),
                None => dies[self.next_die].add_program(at, timing),
            }
            self.next_die = following(self.next_die, dies.len());
        }
        self.owed_bytes += (range.length * cost.copied) >> FRACTION_BITS;
        self.collect(at, dies, timing);
        accepted
    }

    /// When the data of a write submitted at `at` would be in the cache.
    pub(super) fn accepted_at(&self, at: u64, range: ByteRange) -> u64 {
        let cost = match (self.slc_cost(at, range), self.stream_of(range.offset)) {
            (Some(cost), _) => cost,
            (None, Some(_)) => self.sequential,
            (None, None) => self.random,
        };
        let drained_at = self.drained_at.max(at) + cost.drain.of(range.length);
        at.max(drained_at.saturating_sub(cost.cache_ns))
    }

    /// Records a command of any kind at `at`, before it is carried out.
    #[inline]
    pub(super) fn note_command(&mut self, at: u64) {
        if let Some((cache, _)) = &mut self.slc {
            cache.note_command(at, self.drained_at);
        }
    }

    /// Cost of a write if the SLC cache has space for it.
    #[inline]
    fn slc_cost(&self, at: u64, range: ByteRange) -> Option<WriteCost> {
        let (cache, cost) = self.slc.as_ref()?;
        cache.has_space(at, self.drained_at, range.length).then_some(*cost)
    }

    /// Programs the unit that is partly filled, as a flush without power-loss protection must.
    pub(super) fn close_unit(&mut self, at: u64, dies: &mut [Die], timing: &DieTiming) {
        if self.open_bytes > 0 {
            let padding = self.unit_bytes - self.open_bytes;
            self.drained_at = self.drained_at.max(at) + self.sequential.drain.of(padding);
            self.open_bytes = 0;
            dies[self.next_die].add_program(at, timing);
            self.next_die = following(self.next_die, dies.len());
        }
    }

    /// Notes that a read takes `share_ns` of the time of all dies from the programs at `at`.
    #[inline]
    pub(super) fn compete(&mut self, at: u64, share_ns: impl FnOnce() -> u64) {
        if self.drained_at > at {
            self.drained_at += share_ns();
        }
    }

    fn stream_of(&self, offset: u64) -> Option<usize> {
        self.streams.iter().position(|&end| end == offset)
    }

    /// Hands out bursts of collection for the bytes owed. Their size is drawn around the mean, so
    /// that they do not fall into step with the programs.
    fn collect(&mut self, at: u64, dies: &mut [Die], timing: &DieTiming) {
        while self.owed_bytes >= self.burst_units * self.unit_bytes {
            self.owed_bytes -= self.burst_units * self.unit_bytes;
            dies[self.next_collected].add_collection(at, self.burst_units as u32, timing);
            self.next_collected = following(self.next_collected, dies.len());
            let half = self.burst_mean / 2;
            self.burst_units = self.burst_mean - half + self.rng.below(2 * half + 1);
        }
    }
}

fn following(index: usize, count: usize) -> usize {
    if index + 1 == count { 0 } else { index + 1 }
}
