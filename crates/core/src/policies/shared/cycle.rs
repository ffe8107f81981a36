//! Turns among mirrors whose members stand in a fixed order.

use super::smallest::first_smallest;
use crate::policy::Mirror;

/// The first mirror at or after `next` in the order of `rank`, from the start again if there is
/// none. Mirrors that are no candidates are taken only if all are none.
#[inline]
pub(crate) fn next_in_cycle(
    mirrors: &[Mirror],
    next: u16,
    rank: impl Fn(&Mirror) -> u16,
    is_candidate: impl Fn(&Mirror) -> bool,
) -> usize {
    first_smallest(mirrors, |mirror| {
        let rank = rank(mirror);
        (!is_candidate(mirror), rank < next, rank)
    })
}
