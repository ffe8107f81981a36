//! A range that one user of the executor changes in two steps, a read and a write.
//!
//! Other changes of the range wait meanwhile, so that none of them is lost between the two. The
//! first step waits for those that are in flight. At most one range is held at a time: FUSE changes
//! one part of a block after the other.

use super::{Executor, IoRequest, Target};
use crate::Volume;
use mirrorball_core::io::{Op, RequestKind};
use std::ops::Range;

/// See the page of this module.
pub(super) struct RangeHold {
    target: Target,
    range: Range<u64>,
    /// The first step, while changes of the range are in flight.
    first: Option<IoRequest>,
    /// Changes of others that wait for the end.
    delayed: Vec<IoRequest>,
}

impl RangeHold {
    fn covers(&self, target: Target, offset: u64, length: u64) -> bool {
        let overlaps = offset < self.range.end && self.range.start < offset.saturating_add(length);
        target == self.target && overlaps
    }
}

impl Executor {
    /// Starts a read, and keeps others from changing its range until [`Executor::change_held`] and
    /// [`Executor::end_hold`]. Panics if a range is held.
    pub(crate) fn read_and_hold(&mut self, read: IoRequest) {
        assert!(self.hold.is_none(), "one range is held at a time");
        let range = read.offset..read.offset + read.length;
        let hold = RangeHold { target: read.target, range, first: Some(read), delayed: Vec::new() };
        self.hold = Some(hold);
        self.start_held();
    }

    pub(crate) fn change_held(&mut self, write: IoRequest) {
        self.submit_now(write);
    }

    /// Lets the changes go on that waited for the range.
    pub(crate) fn end_hold(&mut self) {
        let hold = self.hold.take().expect("the range is held until now");
        hold.delayed.into_iter().for_each(|request| self.submit(request));
    }

    /// Delays a request that would change the range that is held; returns false if it would not.
    pub(super) fn delay_for_hold(&mut self, request: &IoRequest) -> bool {
        let Some(hold) = &mut self.hold else { return false };
        let IoRequest { target, kind, offset, length, .. } = *request;
        let is_change = matches!(kind, RequestKind::Write | RequestKind::Discard);
        let covers = is_change && hold.covers(target, offset, length);
        if covers {
            hold.delayed.push(*request);
        }
        covers
    }

    /// Starts the read of the range that is held, once no change of it is in flight.
    pub(super) fn start_held(&mut self) {
        let Some(hold) = &self.hold else { return };
        let is_of_volume = self.volume.iter().flat_map(Volume::requests).any(|it| {
            let is_change = matches!(it.kind, RequestKind::Write | RequestKind::Discard);
            is_change && hold.covers(Target::Volume, it.offset, it.length)
        });
        let is_of_member = self.active.iter().any(|(_, it)| {
            let is_change = it.is_direct() && matches!(it.op, Op::Write | Op::Discard);
            is_change && hold.covers(Target::Member(it.member), it.offset, it.length)
        });
        if is_of_volume || is_of_member {
            return;
        }
        let first = self.hold.as_mut().and_then(|hold| hold.first.take());
        first.into_iter().for_each(|read| self.submit_now(read));
    }
}
