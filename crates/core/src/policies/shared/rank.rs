//! Rank of members that have not been measured among those that have.
//!
//! Such a member comes first while no read is in flight there, so that it is tried. While one is in
//! flight, the member comes last, so that a burst does not follow the first read before it
//! completes.
//!
//! Source: the penalty of Finagle's `PeakEwma.scala`, as an order instead of a large number.

use crate::member::Member;

/// Rank of a member; lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PolicyRank<K> {
    /// Not measured, and no read is in flight.
    Untried,
    /// Measured, with this cost.
    Known(K),
    /// Not measured, with this many I/O in flight, at least one of them a read.
    Awaited(u32),
}

impl<K> PolicyRank<K> {
    /// Rank of a member; `cost` is `None` if it was not measured.
    #[inline]
    pub(crate) fn new(member: &Member, cost: Option<K>) -> PolicyRank<K> {
        match cost {
            Some(cost) => PolicyRank::Known(cost),
            None if member.reads_in_flight == 0 => PolicyRank::Untried,
            None => PolicyRank::Awaited(member.in_flight()),
        }
    }
}
