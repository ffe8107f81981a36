//! # Idea
//! Always takes a peer.
//!
//! # State
//! The round-robin position among the peers.
//!
//! # Cost
//! Two comparisons per mirror.
//!
//! # Good at
//! Keeping reads off the local disk where it is the slower one.
//!
//! # Bad at
//! Using the local copy.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. An array has no local side, so
//! here the local copy is the eligible mirror on the member of lowest index, and the others are
//! peers that take turns. The original is by Philipp Reisner, Lars Ellenberg.

use super::shared::drbd_peers::PeerCursor;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct PreferRemote {
    peers: PeerCursor,
}

impl ReadPolicy for PreferRemote {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(self.peers.advance(mirrors))
    }
}
