//! DRBD's local copy and peers. Reads that do not go to the local copy take turns among the peers.
//!
//! An array has no local side. So the local copy is the eligible mirror on the member of lowest
//! index, and the others are peers. With two mirrors there is one peer.
//!
//! Source: `drbd_req.c` of DRBD 8.4 and 9.

use super::round_robin::next_in_cycle;
use super::smallest::first_smallest;
use crate::policy::Mirror;

/// Round-robin position among the peers.
#[derive(Debug, Default)]
pub(crate) struct PeerCursor {
    next: u16,
}

#[inline]
pub(crate) fn local(mirrors: &[Mirror]) -> usize {
    first_smallest(mirrors, |mirror| mirror.member)
}

impl PeerCursor {
    /// Position of the next peer.
    #[inline]
    pub(crate) fn peek(&self, mirrors: &[Mirror]) -> usize {
        let local = mirrors[local(mirrors)].member;
        let is_peer = |mirror: &Mirror| mirror.member != local;
        next_in_cycle(mirrors, self.next, |mirror| mirror.member.0, is_peer)
    }

    /// Position of the next peer; moves the cursor past it.
    #[inline]
    pub(crate) fn advance(&mut self, mirrors: &[Mirror]) -> usize {
        let place = self.peek(mirrors);
        self.next = mirrors[place].member.0 + 1;
        place
    }
}
