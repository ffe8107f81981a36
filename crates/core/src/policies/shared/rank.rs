//! Where a member of which nothing is known stands among those that have been measured.
//!
//! First, while no read is on its way to it: it has to be tried. Once one is, behind all others
//! until that one tells what the member is worth: a burst must not follow the first read.
//!
//! Source: the penalty of Finagle's `PeakEwma.scala`, as an order instead of a large number.

use crate::member::Member;

/// Lower is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank<K> {
    /// Unknown, and no read is on its way.
    Untried,
    /// Known, and this is what it costs.
    Known(K),
    /// Unknown, with so many I/Os in flight, a read among them.
    Awaited(u32),
}

impl<K> Rank<K> {
    /// The rank of a member whose cost is `cost`, if it is known.
    #[inline]
    pub(crate) fn new(member: &Member, cost: Option<K>) -> Rank<K> {
        match cost {
            Some(cost) => Rank::Known(cost),
            None if member.reads_in_flight == 0 => Rank::Untried,
            None => Rank::Awaited(member.in_flight()),
        }
    }
}
