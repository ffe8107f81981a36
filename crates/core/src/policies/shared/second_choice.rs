//! Where a second read of the same block goes.

use super::smallest::first_smallest;
use crate::member::Members;
use crate::policy::Mirror;

/// The place of the mirror with the fewest in flight, other than `first`. There are two at least.
#[inline]
pub(crate) fn shortest_of_others(mirrors: &[Mirror], members: &Members, first: usize) -> usize {
    let taken = mirrors[first].member;
    first_smallest(mirrors, |mirror| (mirror.member == taken, members[mirror.member].in_flight()))
}
