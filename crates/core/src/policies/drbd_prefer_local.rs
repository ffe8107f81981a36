//! # Idea
//! Always takes the local copy.
//!
//! # State
//! None.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! A fast local disk and a peer behind a network, which it was made for.
//!
//! # Bad at
//! Using more than one member.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`; DRBD's default. An array has no
//! local side, so here the local copy is the eligible mirror on the member of lowest index. The
//! original is by Philipp Reisner, Lars Ellenberg.

use super::shared::drbd_peers::local;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct PreferLocal;

impl ReadPolicy for PreferLocal {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(local(mirrors))
    }
}
