//! A solid-state disk: dies, a write cache, garbage collection, and a link to the host.
//!
//! A read goes to the dies that hold its pages, then over the link; a write is done when it has
//! crossed the link and has room in the cache. The parts:
//!
//! - `die`: what a read finds in its way on a die, and how long it waits for it;
//! - `flash`: where an address lies and what reading it takes; page types;
//! - `read_ahead`: sequential readers;
//! - `writes`: the cache, the programs that drain it, collection;
//! - `slc_cache`: the part of the flash that takes writes at a higher rate until it is full;
//! - `outgoing`: controller and link, one command at a time in the order of readiness.
//!
//! Every step but the last is computed at submission from times until which things are busy; only
//! the order on the link is found as time goes on. So a read costs a few table look-ups, and
//! [`Model::completion_if_submitted`] walks the same steps without taking them.
//!
//! A command that finds the queue of the drive full waits in the host. On SATA a flush runs alone:
//! it begins when all before it have ended, and what comes meanwhile waits.
//!
//! The structure follows what ublk-disksim (docs/ARCHITECTURE.md, docs/VALIDATION.md) found
//! necessary to match real drives, and adds collection as a process, suspension that may be
//! refused, and read-ahead. Non-goals: full-duplex links, channels shared by dies, the mapping
//! table and its misses, fill level and wear, reads served from the write cache.

mod die;
mod flash;
mod outgoing;
mod parameters;
mod read_ahead;
mod slc_cache;
#[cfg(test)]
mod tests;
mod writes;

pub use parameters::SsdParameters;

use crate::model::{ByteRange, Completion, DiskIo, Model, ModelParameters, foresee};
use flash::FlashArray;
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use outgoing::LinkQueue;
use read_ahead::DriveReadAhead;
use std::collections::VecDeque;
use writes::{ByteTime, SsdWriteCache};

/// A solid-state disk.
#[derive(Clone, Debug)]
pub struct Ssd {
    costs: SsdCosts,
    flash: FlashArray,
    read_ahead: DriveReadAhead,
    writes: SsdWriteCache,
    line: LinkQueue,
    /// Commands that the drive has not fetched yet, with the instant of their submission.
    waiting: VecDeque<(u64, DiskIo)>,
    /// Whether a flush that runs alone is in flight.
    flushing_alone: bool,
    /// Whether anything was written since the last flush.
    dirty: bool,
}

/// Costs of commands other than flash and cache, in nanoseconds.
#[derive(Clone, Debug)]
struct SsdCosts {
    read_latency_ns: u64,
    write_latency_ns: u64,
    command_ns: u64,
    link: ByteTime,
    queue_depth: usize,
    flush_ns: u64,
    flush_alone: bool,
    power_loss_protection: bool,
}

impl Ssd {
    /// An idle, full drive. The seed draws where pages are fast, which dies come first, and when
    /// suspension is refused. Panics if [`SsdParameters::fault`] finds one.
    pub fn new(parameters: &SsdParameters, seed: u64) -> Ssd {
        if let Some(rule) = parameters.fault() {
            panic!("no such solid-state disk: {rule}");
        }
        let costs = SsdCosts {
            read_latency_ns: parameters.read_latency.0,
            write_latency_ns: parameters.write_latency.0,
            command_ns: parameters.command.0,
            link: ByteTime::new(1e9, parameters.link as f64),
            queue_depth: parameters.queue_depth as usize,
            flush_ns: parameters.flush.0,
            flush_alone: parameters.flush_alone,
            power_loss_protection: parameters.power_loss_protection,
        };
        Ssd {
            costs,
            flash: FlashArray::new(parameters, &mut Rng::stream(seed, "ssd flash")),
            read_ahead: DriveReadAhead::new(parameters),
            writes: SsdWriteCache::new(parameters, Rng::stream(seed, "ssd writes")),
            line: LinkQueue::default(),
            waiting: VecDeque::new(),
            flushing_alone: false,
            dirty: false,
        }
    }

    /// Whether the drive takes a command now; those that wait go first.
    #[inline]
    fn takes(&self, op: Op) -> bool {
        !self.flushing_alone
            && self.line.len() < self.costs.queue_depth
            && (op != Op::Flush || !self.costs.flush_alone || self.line.len() == 0)
    }

    /// Accepts a command at `at` and works out when it can use the link.
    #[inline(always)]
    fn take(&mut self, at: u64, io: DiskIo) {
        self.writes.note_command(at);
        let ready = match io.op {
            Op::Read => self.read(at, io.range()) + self.costs.read_latency_ns,
            Op::Write => self.write(at, io.range()) + self.costs.write_latency_ns,
            Op::Flush => self.flush(at),
            Op::Discard => at + self.costs.write_latency_ns,
        };
        self.line.push(ready, self.hold_ns(&io), io.tag);
    }

    /// Fetches waiting commands, as far as the drive has room for them.
    fn take_waiting(&mut self, at: u64) {
        while let Some(&(submitted_at, io)) = self.waiting.front() {
            if !self.takes(io.op) {
                break;
            }
            self.waiting.pop_front();
            self.take(at.max(submitted_at), io);
        }
    }

    #[inline(always)]
    fn read(&mut self, at: u64, range: ByteRange) -> u64 {
        let stream = self.read_ahead.follow(range);
        let in_memory = self.read_ahead.ready(stream, range);
        let end = match in_memory {
            Some(ready) => ready.max(at),
            None => self.read_flash(at, range),
        };
        if let Some((stream, ahead)) = self.read_ahead.note(stream, range) {
            let ready = self.read_flash(at, ahead);
            self.read_ahead.fetched(stream, ahead, ready);
        }
        end
    }

    #[inline(always)]
    fn read_flash(&mut self, at: u64, range: ByteRange) -> u64 {
        let read = self.flash.read(at, range);
        self.writes.compete(at, || self.flash.share(read.held_ns));
        read.end
    }

    fn write(&mut self, at: u64, range: ByteRange) -> u64 {
        self.dirty = true;
        self.writes.accept(at, range, &mut self.flash.dies, &self.flash.timing)
    }

    fn flush(&mut self, at: u64) -> u64 {
        self.flushing_alone = self.costs.flush_alone;
        if !std::mem::take(&mut self.dirty) {
            return at;
        }
        if self.costs.power_loss_protection {
            return at + self.costs.flush_ns;
        }
        self.writes.close_unit(at, &mut self.flash.dies, &self.flash.timing);
        let timing = &self.flash.timing;
        let programmed = self.flash.dies.iter().map(|die| die.programmed_at(at, timing));
        programmed.fold(at, u64::max) + self.costs.flush_ns
    }

    /// How long a command holds controller and link.
    #[inline]
    fn hold_ns(&self, io: &DiskIo) -> u64 {
        let bytes = match io.op {
            Op::Read | Op::Write => io.length,
            Op::Flush | Op::Discard => 0,
        };
        self.costs.command_ns + self.costs.link.of(bytes)
    }

    /// When `io` could take the link if it were submitted at `at`, or `None` if that is not to be
    /// had without doing it.
    #[inline]
    fn ready_if_taken(&self, at: u64, io: &DiskIo) -> Option<u64> {
        if !self.waiting.is_empty() || !self.takes(io.op) {
            return None;
        }
        let range = io.range();
        let (end, latency_ns) = match io.op {
            Op::Read => {
                let end = match self.read_ahead.ready(self.read_ahead.follow(range), range) {
                    Some(ready) => ready.max(at),
                    None => self.flash.read_end(at, range)?,
                };
                (end, self.costs.read_latency_ns)
            }
            Op::Write => (self.writes.accepted_at(at, range), self.costs.write_latency_ns),
            Op::Discard => (at, self.costs.write_latency_ns),
            Op::Flush => return None,
        };
        Some(end + latency_ns)
    }
}

impl ModelParameters for SsdParameters {
    /// The timing does not depend on the capacity.
    fn check(&self) -> Result<(), String> {
        match self.fault() {
            Some(rule) => Err(rule.to_owned()),
            None => Ok(()),
        }
    }

    fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    fn write_cache_bytes(&self) -> u64 {
        self.write_cache
    }

    fn build(&self, _capacity_bytes: u64, seed: u64) -> Box<dyn Model> {
        Box::new(Ssd::new(self, seed))
    }
}

impl Model for Ssd {
    #[inline(always)]
    fn submit(&mut self, now: Nanos, io: DiskIo) {
        if self.waiting.is_empty() && self.takes(io.op) {
            self.take(now.0, io);
        } else {
            self.waiting.push_back((now.0, io));
        }
    }

    #[inline]
    fn next_event(&self) -> Option<Nanos> {
        self.line.next_completion().map(Nanos)
    }

    #[inline(always)]
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        while let Some((at, tag)) = self.line.pop(now.0) {
            completions.push(Completion { tag, at: Nanos(at), result: Ok(()) });
            self.flushing_alone = false;
            if !self.waiting.is_empty() {
                self.take_waiting(at);
            }
        }
    }

    /// Only what waits in the host for room in the drive's queue. What the drive has taken it has
    /// given to its dies, and it completes as usual: NVMe's Abort is a best effort that a drive may
    /// ignore (NVM Express base specification), and of NCQ's queue few SATA drives let a single
    /// command go.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool {
        let Some(place) = self.waiting.iter().position(|(_, io)| io.tag == tag) else {
            return false;
        };
        self.waiting.remove(place);
        // It may have been a flush, which lets nothing pass.
        self.take_waiting(now.0);
        true
    }

    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos {
        match self.ready_if_taken(now.0, &io) {
            Some(ready) => Nanos(self.line.completion_of(ready, self.hold_ns(&io))),
            None => foresee(self, now, io),
        }
    }

    fn boxed_clone(&self) -> Box<dyn Model> {
        Box::new(self.clone())
    }
}
