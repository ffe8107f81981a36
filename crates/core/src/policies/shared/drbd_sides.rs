//! DRBD's two sides: the local copy and the peers, among whom reads that go away take turns.
//!
//! Ours, for an array has no sides: the local copy is the eligible mirror on the member of lowest
//! index, the others are peers. With two mirrors there is one peer and no turn.
//!
//! Source: `drbd_req.c` of DRBD 8.4 and 9.

use super::cycle::next_in_cycle;
use super::smallest::first_smallest;
use crate::policy::Mirror;

/// Whose turn it is among the peers.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    next: u16,
}

/// The place of the local copy.
#[inline]
pub(crate) fn local(mirrors: &[Mirror]) -> usize {
    first_smallest(mirrors, |mirror| mirror.member)
}

impl Peers {
    /// The place of the peer that has its turn.
    #[inline]
    pub(crate) fn next(&self, mirrors: &[Mirror]) -> usize {
        let local = mirrors[local(mirrors)].member;
        let is_peer = |mirror: &Mirror| mirror.member != local;
        next_in_cycle(mirrors, self.next, |mirror| mirror.member.0, is_peer)
    }

    /// The same; the turn then is the next one's.
    #[inline]
    pub(crate) fn turn(&mut self, mirrors: &[Mirror]) -> usize {
        let place = self.next(mirrors);
        self.next = mirrors[place].member.0 + 1;
        place
    }
}
