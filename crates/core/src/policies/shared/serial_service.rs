//! Service time of an I/O, derived from completions alone.
//!
//! A device is assumed to serve one I/O after the other: its work on an I/O begins when that is
//! submitted or, if later, when the previous one completes. The time from then to the completion
//! counts waiting in the queue only once. On a device that works in parallel it is the time from
//! one completion to the next, the inverse of its throughput at this depth.
//!
//! Source: Linux `drivers/md/dm-ps-historical-service-time.c`.

use crate::io::{IoError, MemberIo, Outcome};
use crate::member::Members;
use crate::units::Nanos;

/// Time at which each member last completed an I/O of any kind.
#[derive(Debug, Default)]
pub(crate) struct SerialService {
    completed_at: Vec<Nanos>,
}

impl SerialService {
    pub(crate) fn resize(&mut self, members: &Members) {
        self.completed_at.resize(members.len(), Nanos::ZERO);
    }

    /// Records a completion and returns its service time; `None` for a cancelled I/O, which the
    /// device never began.
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
