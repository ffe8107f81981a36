//! The interface of disk models: when does an I/O complete?
//!
//! A model holds no data and owns no clock. Its driver submits I/O at times that never decrease,
//! asks for the next event, and advances to it, on a virtual or a real clock. Times are integer
//! nanoseconds and ties are broken by the order of submission, so equal inputs and seeds give equal
//! completions.

pub(crate) use crate::byte_range::ByteRange;
use crate::cache_contents::CacheContents;
use crate::fault_kind::Fault;
use mirrorball_core::io::{IoError, Op};
use mirrorball_core::units::Nanos;
use std::fmt;
use std::ops::RangeInclusive;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskIo {
    /// Chosen by the submitter, returned on completion; unique among the I/Os in flight.
    pub tag: u64,
    pub op: Op,
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
}

/// The end of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The I/O that ended.
    pub tag: u64,
    pub at: Nanos,
    /// Whether it succeeded.
    pub result: Result<(), IoError>,
}

impl DiskIo {
    #[inline]
    pub(crate) fn range(&self) -> ByteRange {
        ByteRange { offset: self.offset, length: self.length }
    }
}

/// The timing behaviour of one disk, link or fault.
pub trait Model: Send {
    /// Accepts an I/O at `now`, which is never earlier than any time passed before.
    fn submit(&mut self, now: Nanos, io: DiskIo);

    /// When something happens next inside the model (not always a completion), or `None` when it
    /// is idle. Background work that cannot be observed until the next submission (a cache written
    /// back on an idle disk) need not be an event; a pending completion must be.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets time pass up to and including `now`, and appends what completed, in order of time, ties
    /// in order of submission.
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>);

    /// [`Model::submit`], then [`Model::next_event`]: one call for each I/O of a simulation.
    fn submit_and_look(&mut self, now: Nanos, io: DiskIo) -> Option<Nanos> {
        self.submit(now, io);
        self.next_event()
    }

    /// [`Model::advance`], then [`Model::next_event`].
    fn advance_and_look(&mut self, now: Nanos, completions: &mut Vec<Completion>) -> Option<Nanos> {
        self.advance(now, completions);
        self.next_event()
    }

    /// Cancels the I/O in flight under `tag` if the disk has not started it and can cancel it.
    /// Returns true if it is cancelled: it does not complete, and the I/Os behind it move up.
    /// Returns false if it is too late or the disk does not support it; then it completes as usual.
    /// The model must have been advanced to all events before `now`. Cancelling takes no time of a
    /// bus or a disk.
    ///
    /// No default: each model decides what its kind of disk can cancel.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool;

    /// When `io` would complete if it were submitted at `now` and nothing came after it, or
    /// [`Nanos::MAX`] if the disk is dead or dies first: so soon an end is worth nothing. Only the
    /// oracle asks; it sees the model's future draws of chance.
    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos;

    /// Contents of the cache in front of the disk, if it has one. A run that follows another one on
    /// the same array begins with it.
    fn cache_contents(&self) -> Option<CacheContents> {
        None
    }

    /// Replaces what is in the cache in front of the disk. Without one, nothing changes.
    fn set_cache_contents(&mut self, _contents: CacheContents) {}

    /// Adds a fault that begins now or later. Returns false if the model has no faults.
    fn add_fault(&mut self, _fault: Fault) -> bool {
        false
    }

    /// A copy in the same state, with the same draws of chance to come. Only the fair oracle asks.
    fn boxed_clone(&self) -> Box<dyn Model>;
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Box<dyn Model> {
        self.boxed_clone()
    }
}

/// The parameters of one kind of model: plain data that builds it.
pub trait ModelParameters: fmt::Debug + Send + Sync {
    /// Whether a disk can be built from these, of a size within [`ModelParameters::capacities`].
    ///
    /// # Errors
    /// What is wrong, naming the parameter between backticks.
    fn check(&self) -> Result<(), String>;

    /// Sizes in bytes that a disk of these parameters can have.
    fn capacities(&self) -> RangeInclusive<u64> {
        1..=u64::MAX
    }

    /// Number of commands that the disk accepts at once, as it reports it to the kernel; the rest
    /// wait in the host.
    fn queue_depth(&self) -> u32;

    /// Bytes of writes that fit into the caches of the disk. Writes up to this many bytes complete
    /// at the speed of the cache, whatever the medium does. Zero without a cache.
    fn write_cache_bytes(&self) -> u64;

    /// Builds the model. Equal seeds build equal models. Panics if [`ModelParameters::check`] would
    /// refuse, or the size is out of range.
    fn build(&self, capacity_bytes: u64, seed: u64) -> Box<dyn Model>;
}

/// Answers [`Model::completion_if_submitted`] by running a copy of the model to the end of `io`.
pub fn foresee<M: Model + Clone>(model: &M, now: Nanos, io: DiskIo) -> Nanos {
    let mut copy = model.clone();
    copy.submit(now, io);
    let mut completions = Vec::new();
    loop {
        let at = copy.next_event().expect("an I/O in flight is an event to come");
        copy.advance(at, &mut completions);
        if let Some(completion) = completions.drain(..).find(|completion| completion.tag == io.tag)
        {
            return completion.at;
        }
    }
}

#[cfg(test)]
mod tests;
