//! # Idea
//! The local copy, unless it has more in flight than the peer whose turn it is.
//!
//! # State
//! Whose turn it is among the peers.
//!
//! # Cost
//! Two comparisons a mirror.
//!
//! # Good at
//! Depth, on members of any speed: a slow one fills up and is passed over.
//!
//! # Bad at
//! One read at a time: the queues are empty, so the local copy serves, even if it is the slow one.
//! Sequential streams on rotational members: it knows no head position.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. Local is, ours, the eligible
//! mirror on the member of lowest index, the others are peers that take turns: an array has no
//! sides. There, the peer's count is of requests awaiting its answer, resync included; here it is
//! all that is in flight on its member. Ours: a peer uses up its turn only when it is read.

use super::Build;
use super::shared::drbd_sides::{Peers, local};
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct LeastPending {
    peers: Peers,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(LeastPending { peers: Peers::default() }))
}

impl ReadPolicy for LeastPending {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let (local, peer) = (local(mirrors), self.peers.next(mirrors));
        let in_flight = |place: usize| members[mirrors[place].member].in_flight();
        if in_flight(local) > in_flight(peer) {
            return Choice::Mirror(self.peers.turn(mirrors));
        }
        Choice::Mirror(local)
    }
}
