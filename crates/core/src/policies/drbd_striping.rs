//! # Idea
//! The volume is divided into stripes. Even stripes are read from the local copy, odd ones from a
//! peer.
//!
//! # State
//! The round-robin position among the peers.
//!
//! # Cost
//! Two comparisons per mirror.
//!
//! # Good at
//! Sequential streams at depth on non-rotational members: each half of the stripes is read from one
//! member. Caches in the members: with two mirrors, a block is always read from the same member.
//!
//! # Bad at
//! - Rotational members: on both, a stream seeks over the stripes of the other.
//! - Hot spots within a stripe.
//! - Unequal members: throughput is bound by the slowest.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. An array has no local side, so
//! here the local copy is the eligible mirror on the member of lowest index, and the others are
//! peers that take turns. DRBD's names are `32K-striping`, `64K-striping` and so on to
//! `1M-striping`, powers of two; here `drbd/striping:32K`. Added here: 256K without a value, and
//! any multiple of 32K up to 1M. A read that crosses stripes goes where its first byte lies. The
//! original is by Philipp Reisner, Lars Ellenberg.

use super::shared::drbd_peers::{PeerCursor, local};
use super::{Build, Built};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Striping {
    stripe_bytes: u64,
    peers: PeerCursor,
}

pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Striping { stripe_bytes: build.values[0], peers: PeerCursor::default() }))
}

impl ReadPolicy for Striping {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let is_odd = !(read.offset / self.stripe_bytes).is_multiple_of(2);
        Choice::Mirror(if is_odd { self.peers.advance(mirrors) } else { local(mirrors) })
    }
}
