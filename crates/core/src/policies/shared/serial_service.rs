//! The service time of an I/O, told from completions alone.
//!
//! A device takes what it is given one after the other: its work on an I/O begins when that is
//! submitted or, if later, when the one before it completed. The time from then to its completion
//! counts waiting in the queue once only. On a device that works in parallel it is the time from
//! one completion to the next, the inverse of its throughput at this depth.
//!
//! Source: Linux `drivers/md/dm-ps-historical-service-time.c`.

use crate::io::{IoError, MemberIo, Outcome};
use crate::member::Members;
use crate::units::Nanos;

/// When each member last completed an I/O of any kind.
#[derive(Debug, Default)]
pub(crate) struct SerialService {
    completed_at: Vec<Nanos>,
}

impl SerialService {
    /// Makes room for every member.
    pub(crate) fn resize(&mut self, members: &Members) {
        self.completed_at.resize(members.len(), Nanos::ZERO);
    }

    /// Notes a completion and gives its service time; `None` for an I/O that was cancelled, which
    /// the device never began.
    #[inline]
    pub(crate) fn observe(&mut self, io: &MemberIo, outcome: &Outcome) -> Option<Nanos> {
        if outcome.result == Err(IoError::Cancelled) {
            return None;
        }
        let before = &mut self.completed_at[io.member.get()];
        let service = outcome.completed_at.saturating_sub(io.submitted_at.max(*before));
        *before = outcome.completed_at;
        Some(service)
    }
}
