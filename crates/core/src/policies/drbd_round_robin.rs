//! # Idea
//! The local copy and a peer take turns, request by request, whatever their size.
//!
//! # State
//! One bit; the round-robin position among the peers.
//!
//! # Cost
//! Two comparisons per mirror.
//!
//! # Good at
//! Equal members with random reads.
//!
//! # Bad at
//! - Sequential streams, which it breaks up.
//! - Unequal members: throughput is bound by the slowest.
//! - More than two mirrors: the local copy gets half of all reads.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. An array has no local side, so
//! here the local copy is the eligible mirror on the member of lowest index, and the others are
//! peers that take turns. One bit is flipped at each read; the first read goes to the local copy.
//! The original is by Philipp Reisner, Lars Ellenberg.

use super::shared::drbd_peers::{PeerCursor, local};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct RoundRobin {
    next_is_remote: bool,
    peers: PeerCursor,
}

impl ReadPolicy for RoundRobin {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let place = if self.next_is_remote { self.peers.advance(mirrors) } else { local(mirrors) };
        self.next_is_remote = !self.next_is_remote;
        Choice::Mirror(place)
    }
}
