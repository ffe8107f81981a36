//! A hard disk: one arm, one spindle, a queue, and caches in front of them.
//!
//! Model. A command costs its overhead, then waits with up to `queue_depth` others for the
//! mechanism, which always takes the one whose access starts soonest (seek, settling and rotation
//! together), unless one has waited beyond the age limit or a stream has held the head for two
//! revolutions while others wait. Commands beyond the depth wait in order of arrival. Reads go
//! through a segmented read-ahead cache (`read_cache`) and writes, if the disk has one, through a
//! write-back cache (`write_cache`) that empties itself when the disk is idle, and competes with
//! the reads when it is full or being flushed. Rarely a command meets a recovery of many
//! revolutions: without it no model has the tail of a real disk.
//!
//! What happens without anyone waiting for it (reading ahead, writing back on an idle disk) has no
//! events: it is worked out, exactly, when the next command arrives.
//!
//! Sources: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3),
//! 1994; Worthington, Ganger and Patt, "Scheduling algorithms for modern disk drives", SIGMETRICS
//! 1994, for shortest access time first with an age limit; the DiskSim 4.0 manual.
//!
//! A disk with shingled recording writes back to its media cache (`media_cache`).
//!
//! Non-goals: shingled recording that the host manages, defects, power management, read hits on
//! cached writes.

mod geometry;
mod mechanism;
mod media_cache;
mod parameters;
mod read_cache;
mod seek;
mod service;
#[cfg(test)]
mod tests;
mod write_cache;

pub use parameters::{HddParameters, SeekPoint};

use crate::model::{Completion, DiskIo, Model, ModelParameters, foresee};
use geometry::Geometry;
use mechanism::{AccessCandidate, AccessTarget, Head, HeadAccess, Mechanics};
use media_cache::MediaCache;
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{MIB, Nanos};
use read_cache::{CacheLookup, ReadCache};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use write_cache::{DirtyWrite, HddWriteCache};

/// Smallest capacity: less than one track would leave nothing to seek to, and the MiB in front of
/// the data of an array must fit too.
const CAPACITY_MIN: u64 = 2 * MIB;

/// A hard disk with its commands in flight.
#[derive(Clone, Debug)]
pub struct Hdd {
    fixed: Arc<HddConstants>,
    rng: Rng,
    head: Head,
    /// When the mechanism is done with what it does now.
    free_at: Nanos,
    /// Current work, or the last.
    serving: HeadAccess,
    last_read_at: Nanos,
    interface_free_at: Nanos,
    read_cache: ReadCache,
    write_cache: HddWriteCache,
    media_cache: Option<MediaCache>,
    /// Until when it cleaned the media cache without being asked, if it did nothing since.
    cleaned_until: Nanos,
    /// Commands that the mechanism chooses among, and what the choice looks at, side by side.
    commands: Vec<DiskCommand>,
    candidates: Vec<AccessCandidate>,
    /// Where the last of them to be queued ends.
    queued_end_byte: u64,
    /// The same for cached writes.
    window: Vec<WriteBack>,
    window_candidates: Vec<AccessCandidate>,
    writing_back: Option<DirtyWrite>,
    /// Commands beyond the depth, and those behind a flush that lets nothing pass.
    waiting: VecDeque<(DiskIo, u64)>,
    /// Writes that found the cache full.
    stalled: VecDeque<CachedWrite>,
    flushes: VecDeque<Flush>,
    /// Ends that are settled: time, order of submission, tag.
    ending: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    /// Commands inside the disk.
    occupied: usize,
    /// Whether the only command inside is a flush that nothing may join.
    flushing_alone: bool,
    submitted: u64,
}

#[derive(Debug)]
struct HddConstants {
    parameters: HddParameters,
    mechanics: Mechanics,
    /// Revolutions that cleaning a band of a shingled disk takes.
    clean_revolutions: u64,
    /// Of all 2^64 draws, those that mean a recovery.
    recovery_threshold: u64,
}

#[derive(Clone, Copy, Debug)]
struct Submitted {
    io: DiskIo,
    number: u64,
    /// When it reached the disk and was through its overhead.
    ready_at: Nanos,
}

/// A write on its way into the cache.
#[derive(Clone, Copy, Debug)]
struct CachedWrite {
    submitted: Submitted,
    taken_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct DiskCommand {
    tag: u64,
    number: u64,
    access: HeadAccess,
    /// Whether it starts where the command queued before it ended.
    continues: bool,
    /// Part of it that the read cache held on arrival.
    cached: CacheLookup,
    target: AccessTarget,
}

#[derive(Clone, Copy, Debug)]
struct WriteBack {
    dirty: DirtyWrite,
    target: AccessTarget,
    /// Bands of a shingled disk that are cleaned after it.
    bands_cleaned: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    tag: u64,
    number: u64,
    ready_at: Nanos,
    /// The last cached write that it waits for.
    covers: u64,
}

impl Hdd {
    /// A disk at rest, its caches empty. The seed decides where the spindle stands and which
    /// commands meet a recovery. Panics if the parameters make no disk (see [`HddParameters`]).
    pub fn new(parameters: &HddParameters, capacity_bytes: u64, seed: u64) -> Hdd {
        parameters.check().expect("parameters are checked before a disk is built");
        assert!(parameters.capacities().contains(&capacity_bytes), "so is its size");
        let mut rng = Rng::stream(seed, "hdd");
        let mechanics = Mechanics::new(parameters, capacity_bytes, rng.next_u64());
        Hdd {
            head: mechanics.head(),
            rng,
            free_at: Nanos::ZERO,
            serving: HeadAccess::Read,
            last_read_at: Nanos::ZERO,
            interface_free_at: Nanos::ZERO,
            read_cache: ReadCache::new(parameters.segments, mechanics.geometry.widest_gap()),
            write_cache: HddWriteCache::new(parameters.write_cache),
            media_cache: MediaCache::new(
                parameters.media_cache, parameters.band, parameters.media_record,
            ),
            cleaned_until: Nanos::MAX,
            commands: Vec::with_capacity(parameters.queue_depth),
            candidates: Vec::with_capacity(parameters.queue_depth),
            queued_end_byte: u64::MAX,
            window: Vec::with_capacity(parameters.write_window),
            window_candidates: Vec::with_capacity(parameters.write_window),
            writing_back: None,
            waiting: VecDeque::new(),
            stalled: VecDeque::new(),
            flushes: VecDeque::new(),
            ending: BinaryHeap::new(),
            occupied: 0,
            flushing_alone: false,
            submitted: 0,
            fixed: Arc::new(HddConstants {
                parameters: parameters.clone(),
                clean_revolutions: parameters.clean_time().0.div_ceil(mechanics.revolution_ns()),
                mechanics,
                recovery_threshold: (parameters.recovery_probability * u64::MAX as f64) as u64,
            }),
        }
    }

    /// Whether a command may enter now.
    fn may_enter(&self, op: Op) -> bool {
        let parameters = &self.fixed.parameters;
        if op == Op::Flush && !parameters.queued_flush {
            return self.occupied == 0;
        }
        self.occupied < parameters.queue_depth && !self.flushing_alone
    }

    fn enter(&mut self, now: Nanos, io: DiskIo, number: u64) {
        self.occupied += 1;
        let ready_at = now + self.fixed.parameters.command_overhead;
        let submitted = Submitted { io, number, ready_at };
        match io.op {
            Op::Read => self.enter_read(now, submitted),
            Op::Write if self.write_cache.is_enabled() => {
                self.stalled.push_back(CachedWrite { submitted, taken_bytes: 0 });
                self.take_in_writes(ready_at);
            }
            Op::Write => {
                let bytes = io.range();
                let target = self.fixed.mechanics.target(HeadAccess::Write, bytes, ready_at);
                self.push_command(submitted, HeadAccess::Write, target, CacheLookup::Nothing);
            }
            Op::Discard => self.end(ready_at, number, io.tag),
            Op::Flush => {
                self.flushing_alone = !self.fixed.parameters.queued_flush;
                if self.write_cache.take_unflushed() {
                    let covers = self.write_cache.accepted();
                    self.flushes.push_back(Flush { tag: io.tag, number, ready_at, covers });
                } else {
                    self.end(ready_at, number, io.tag);
                }
            }
        }
    }

    /// A read that the cache holds, or that the head reads ahead anyway before it turns to anything
    /// else, needs no turn.
    fn enter_read(&mut self, now: Nanos, submitted: Submitted) {
        let mechanics = &self.fixed.mechanics;
        let Submitted { io, number, ready_at } = submitted;
        let bytes = io.range();
        let mut target = mechanics.target(HeadAccess::Read, bytes, ready_at);
        let range = target.positions();
        let cached = self.read_cache.look_up(range, mechanics, &self.head, now);
        let passed_at = mechanics.time_of(&self.head, range.end);
        let served_by = match cached {
            CacheLookup::Whole(segment) => Some(segment),
            CacheLookup::Beginning(segment) => {
                target.skip_to(self.read_cache.end_of(segment));
                let comes = self.read_cache.will_fill_to(segment, range.end);
                (comes && passed_at <= self.free_at).then_some(segment)
            }
            CacheLookup::Nothing => None,
        };
        if let Some(segment) = served_by {
            // What the head has yet to pass cannot be served before it does.
            let filling = self.read_cache.will_fill_to(segment, range.end);
            let held_at = if filling { passed_at } else { now };
            self.read_cache.consume(segment, range.end, mechanics, &mut self.head, now);
            let at = self.transfer(ready_at.max(held_at), io.length);
            self.end(at, number, io.tag);
        } else {
            self.push_command(submitted, HeadAccess::Read, target, cached);
        }
    }

    fn push_command(
        &mut self,
        submitted: Submitted,
        access: HeadAccess,
        target: AccessTarget,
        cached: CacheLookup,
    ) {
        let Submitted { io, number, .. } = submitted;
        let continues = io.offset == self.queued_end_byte;
        self.queued_end_byte = io.offset + io.length;
        self.commands.push(DiskCommand { tag: io.tag, number, access, continues, cached, target });
        self.candidates.push(target.candidate);
    }

    /// Moves writes into the cache from `now` on, in order, as far as there is room. A write is
    /// acknowledged when all of it is in.
    fn take_in_writes(&mut self, now: Nanos) {
        while let Some(&CachedWrite { submitted, taken_bytes }) = self.stalled.front() {
            let Submitted { io, number, ready_at } = submitted;
            let Some(part) = self.write_cache.room_for(io.length - taken_bytes) else { return };
            let at = self.transfer(now.max(ready_at), part);
            let offset = io.offset + taken_bytes;
            let stale = self.fixed.mechanics.geometry.extent(offset, part).positions();
            self.read_cache.invalidate(stale);
            self.write_cache.accept(offset, part, at);
            if taken_bytes + part < io.length {
                self.stalled[0].taken_bytes += part;
            } else {
                self.stalled.pop_front();
                self.end(at, number, io.tag);
            }
        }
    }

    /// When `length` bytes have crossed the interface, which carries one command's data at a time.
    fn transfer(&mut self, from: Nanos, length: u64) -> Nanos {
        let took = Nanos::transfer(length, self.fixed.parameters.interface_rate);
        self.interface_free_at = from.max(self.interface_free_at) + took;
        self.interface_free_at
    }

    fn end(&mut self, at: Nanos, number: u64, tag: u64) {
        self.ending.push(Reverse((at, number, tag)));
    }
}

impl Hdd {
    /// Lets commands that wait in the host enter, as far as there is room for them.
    fn admit(&mut self, now: Nanos) {
        while let Some(&(io, number)) = self.waiting.front()
            && self.may_enter(io.op)
        {
            self.waiting.pop_front();
            self.enter(now, io, number);
        }
    }

    /// Removes a command that waits in the host, or in the disk if that has a command for it.
    fn withdraw(&mut self, tag: u64) -> bool {
        if let Some(place) = self.waiting.iter().position(|(io, _)| io.tag == tag) {
            self.waiting.remove(place);
            return true;
        }
        if !self.fixed.parameters.abort_queued {
            return false;
        }
        let Some(index) = self.commands.iter().position(|command| command.tag == tag) else {
            return false;
        };
        self.commands.swap_remove(index);
        self.candidates.swap_remove(index);
        self.occupied -= 1;
        true
    }
}

impl ModelParameters for HddParameters {
    fn check(&self) -> Result<(), String> {
        match self.conditions().iter().find(|(holds, _)| !holds) {
            Some((_, message)) => Err((*message).to_owned()),
            None => Ok(()),
        }
    }

    fn capacities(&self) -> RangeInclusive<u64> {
        CAPACITY_MIN..=Geometry::capacity_max(self)
    }

    fn queue_depth(&self) -> u32 {
        self.queue_depth as u32
    }

    fn write_cache_bytes(&self) -> u64 {
        self.write_cache
    }

    fn build(&self, capacity_bytes: u64, seed: u64) -> Box<dyn Model> {
        Box::new(Hdd::new(self, capacity_bytes, seed))
    }
}

impl Model for Hdd {
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        self.catch_up(now);
        self.submitted += 1;
        if self.waiting.is_empty() && self.may_enter(io.op) {
            self.enter(now, io, self.submitted);
            self.dispatch(now);
        } else {
            self.waiting.push_back((io, self.submitted));
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let end = self.ending.peek().map(|Reverse((at, _, _))| *at);
        let free = self.is_wanted().then_some(self.free_at);
        end.into_iter().chain(free).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            self.catch_up(at);
            while let Some(&Reverse((end, _, tag))) = self.ending.peek()
                && end <= at
            {
                self.ending.pop();
                self.occupied -= 1;
                self.flushing_alone &= self.occupied > 0;
                completions.push(Completion { tag, at: end, result: Ok(()) });
            }
            self.admit(at);
            self.dispatch(at);
        }
    }

    /// The host forgets a command that waits beyond the disk's queue. The disk drops a queued one
    /// if it can abort a single command (`abort_queued`), but no command in service, no flush, and
    /// no write that is in the write cache or waits for room in it.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        self.catch_up(now);
        if !self.withdraw(tag) {
            return false;
        }
        self.admit(now);
        self.dispatch(now);
        true
    }

    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        foresee(self, now, io)
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
