//! # Idea
//! Takes the local copy, unless it has more I/O in flight than the next peer.
//!
//! # State
//! The round-robin position among the peers.
//!
//! # Cost
//! Two comparisons per mirror.
//!
//! # Good at
//! Depth, on members of any speed: the queue of a slow member fills up, and reads go elsewhere.
//!
//! # Bad at
//! - One read at a time: the queues are empty, so the local copy serves, even if it is the slow
//!   one.
//! - Sequential streams on rotational members: it ignores head positions.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. An array has no local side, so
//! here the local copy is the eligible mirror on the member of lowest index, and the others are
//! peers that take turns. There, the peer's count is of requests awaiting its answer, resync
//! included; here it is all I/O in flight on its member. Added here: a peer uses up its turn only
//! when it is read. The original is by Philipp Reisner, Lars Ellenberg.

use super::shared::drbd_peers::{PeerCursor, local};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct LeastPending {
    peers: PeerCursor,
}

impl ReadPolicy for LeastPending {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let (local, peer) = (local(mirrors), self.peers.peek(mirrors));
        let in_flight = |place: usize| ctx.members[mirrors[place].member].in_flight();
        if in_flight(local) > in_flight(peer) {
            return Choice::Mirror(self.peers.advance(mirrors));
        }
        Choice::Mirror(local)
    }
}
