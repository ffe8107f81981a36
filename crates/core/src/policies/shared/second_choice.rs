//! The mirror that serves a second read of the same block.

use super::smallest::first_smallest;
use crate::member::Members;
use crate::policy::Mirror;

/// Position of the mirror with the fewest I/O in flight, other than `first`. There are at least two
/// mirrors.
#[inline]
pub(crate) fn shortest_of_others(mirrors: &[Mirror], members: &Members, first: usize) -> usize {
    let taken = mirrors[first].member;
    first_smallest(mirrors, |mirror| (mirror.member == taken, members[mirror.member].in_flight()))
}
