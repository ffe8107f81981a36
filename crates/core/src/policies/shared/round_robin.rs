//! Round robin over mirrors whose members have a fixed order.

use super::smallest::first_smallest;
use crate::policy::Mirror;

/// Round-robin position: members take turns in the order of their indexes.
#[derive(Debug, Default)]
pub(crate) struct MemberCursor {
    next: u16,
}

impl MemberCursor {
    /// Position of the next mirror; moves the cursor past its member.
    #[inline]
    pub(crate) fn advance(&mut self, mirrors: &[Mirror]) -> usize {
        let place = next_in_cycle(mirrors, self.next, |mirror| mirror.member.0, |_| true);
        self.next = mirrors[place].member.0 + 1;
        place
    }
}

/// Position of the first candidate at or after `next` in the order of `rank`, from the start again
/// if there is none. A mirror that is no candidate is taken only if no mirror is one.
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
