//! # Idea
//! Local and remote take turns, request by request, whatever their size.
//!
//! # State
//! One bit; whose turn it is among the peers.
//!
//! # Cost
//! Two comparisons a mirror.
//!
//! # Good at
//! Equal members with random reads.
//!
//! # Bad at
//! Sequential streams, which it tears apart. Unequal members: the slow one sets the pace.
//! More than two mirrors: the local copy has half of all reads.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. Local is, ours, the eligible
//! mirror on the member of lowest index, the others are peers that take turns: an array has no
//! sides. One bit is flipped at each read; the first goes to the local copy.

use super::Build;
use super::shared::drbd_sides::{Peers, local};
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct RoundRobin {
    next_is_remote: bool,
    peers: Peers,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(RoundRobin { next_is_remote: false, peers: Peers::default() }))
}

impl ReadPolicy for RoundRobin {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let place = if self.next_is_remote { self.peers.turn(mirrors) } else { local(mirrors) };
        self.next_is_remote = !self.next_is_remote;
        Choice::Mirror(place)
    }
}
