//! # Idea
//! The volume is cut into stripes; even ones are read from the local copy, odd ones from a peer.
//!
//! # State
//! Whose turn it is among the peers.
//!
//! # Cost
//! Two comparisons a mirror.
//!
//! # Good at
//! Sequential streams at depth on non-rotational members: each half of the stripes is one member's.
//! Caches in the members: a block is always asked of the same one, with two mirrors.
//!
//! # Bad at
//! Rotational members: a stream seeks over the other half's stripes on both. Hot spots within a
//! stripe. Unequal members: the slow one sets the pace.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. Local is, ours, the eligible
//! mirror on the member of lowest index, the others are peers that take turns: an array has no
//! sides. DRBD's names are `32K-striping`, `64K-striping` and so on to `1M-striping`, powers of
//! two; here `drbd/striping:32K`. Ours: 256K without a value, and any multiple of 32K up to 1M. A
//! read that crosses stripes goes where its first byte lies.

use super::Build;
use super::shared::drbd_sides::{Peers, local};
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Striping {
    stripe_bytes: u64,
    peers: Peers,
}

/// Builds the policy from the bytes of a stripe.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Striping { stripe_bytes: build.values[0], peers: Peers::default() }))
}

impl ReadPolicy for Striping {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let is_odd = !(read.offset / self.stripe_bytes).is_multiple_of(2);
        Choice::Mirror(if is_odd { self.peers.turn(mirrors) } else { local(mirrors) })
    }
}
