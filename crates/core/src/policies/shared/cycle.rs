//! Turns among mirrors whose members stand in a fixed order.

use super::smallest::first_smallest;
use crate::policy::Mirror;

/// Whose turn is next, when every member has its turn in the order of their indexes.
#[derive(Debug, Default)]
pub(crate) struct MemberTurn {
    next: u16,
}

impl MemberTurn {
    /// The place of the mirror that has its turn; the turn then is the next one's.
    #[inline]
    pub(crate) fn turn(&mut self, mirrors: &[Mirror]) -> usize {
        let place = next_in_cycle(mirrors, self.next, |mirror| mirror.member.0, |_| true);
        self.next = mirrors[place].member.0 + 1;
        place
    }
}

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
