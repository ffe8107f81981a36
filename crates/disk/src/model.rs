//! What every model of a disk answers: when does this I/O finish?
//!
//! A model holds no data and owns no clock. Whoever drives it submits I/O at times that never go
//! back, asks for the next event, and advances to it; a virtual and a real clock look alike from
//! here. Times are integer nanoseconds and ties are broken by the order of submission, so equal
//! inputs and seeds give equal completions.

use mirrorball_core::io::{IoError, Op};
use mirrorball_core::units::Nanos;
use std::fmt;

/// One I/O to one disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskIo {
    /// Chosen by the submitter, given back on completion; unique among those in flight.
    pub tag: u64,
    /// What is asked.
    pub op: Op,
    /// First byte on the disk.
    pub offset: u64,
    /// Number of bytes; zero for a flush.
    pub length: u64,
}

/// A range of bytes on a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ByteRange {
    /// First byte on the disk.
    pub(crate) offset: u64,
    /// Number of bytes.
    pub(crate) length: u64,
}

/// The end of an I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The I/O that ended.
    pub tag: u64,
    /// When it ended.
    pub at: Nanos,
    /// Whether it succeeded.
    pub result: Result<(), IoError>,
}

impl DiskIo {
    /// The bytes that it reads or writes.
    #[inline]
    pub(crate) fn range(&self) -> ByteRange {
        ByteRange { offset: self.offset, length: self.length }
    }
}

/// The timing behaviour of one disk, link or fault.
pub trait Model: Send {
    /// Takes an I/O at `now`, which is never earlier than any time passed before.
    fn submit(&mut self, now: Nanos, io: DiskIo);

    /// When something happens next inside the model (not always a completion), or `None` when it
    /// is idle. Background work that cannot be observed until the next submission (a cache written
    /// back while nobody asks) need not show here; a pending completion must.
    fn next_event(&self) -> Option<Nanos>;

    /// Lets time pass up to and including `now`, and appends what completed, in order of time, ties
    /// in order of submission.
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>);

    /// Takes back the I/O in flight under `tag` if the disk has not begun it and can still let go
    /// of it. `true`: it is gone, no completion comes for it, and what waited behind it moves up as
    /// if it had not been in the queue. `false`: it is too late, or this disk has no means, and it
    /// completes as ever. No time before `now` may have an event that was not advanced to. Taking
    /// back costs no time, of a bus or of the disk.
    ///
    /// There is no default: each model says what its kind of disk can do.
    fn cancel(&mut self, now: Nanos, tag: u64) -> bool;

    /// When `io` would complete if it were submitted at `now` and nothing came after it, or
    /// [`Nanos::MAX`] if the disk is dead or dies first: so soon an end is worth nothing. Only the
    /// oracle asks; it sees the model's future draws of chance.
    fn completion_if_submitted(&self, now: Nanos, io: DiskIo) -> Nanos;
}

/// The parameters of one kind of model: plain data that builds it.
pub trait ModelParameters: fmt::Debug + Send + Sync {
    /// Whether a disk of `capacity_bytes` can be built from these.
    ///
    /// # Errors
    /// What is wrong, naming the parameter between backticks.
    fn check(&self, capacity_bytes: u64) -> Result<(), String>;

    /// How many commands the disk accepts at once, as it tells the kernel; the rest wait in the
    /// host.
    fn queue_depth(&self) -> u32;

    /// Builds the model. Equal seeds build equal models.
    ///
    /// # Panics
    /// If [`ModelParameters::check`] would refuse.
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
