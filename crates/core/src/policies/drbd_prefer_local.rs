//! # Idea
//! The local copy, always.
//!
//! # State
//! None.
//!
//! # Cost
//! One comparison a mirror.
//!
//! # Good at
//! A fast local disk and a peer behind a network, for which it was made.
//!
//! # Bad at
//! Using more than one member.
//!
//! # Origin
//! DRBD 8.4 and 9, `remote_due_to_read_balancing` in `drbd_req.c`. Local is, ours, the eligible
//! mirror on the member of lowest index, the others are peers that take turns: an array has no
//! sides. DRBD's default.

use super::Build;
use super::shared::drbd_sides::local;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct PreferLocal;

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(PreferLocal))
}

impl ReadPolicy for PreferLocal {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::Mirror(local(mirrors))
    }
}
