//! # Idea
//! The mirror on one named member; where that member holds none, the first stripe.
//!
//! # State
//! The devid.
//!
//! # Cost
//! One comparison a mirror.
//!
//! # Good at
//! Reading around a member that is known to be slow or stale; finding out what one member can do.
//!
//! # Bad at
//! Anything else: one member works, the others wait. It does not react to anything.
//!
//! # Origin
//! Linux btrfs 6.14, `fs/btrfs/volumes.c`, by Anand Jain, for tests and control by hand.
//! Without a value the kernel takes the device of the highest generation; here, the array's
//! first, for in an array in sync all are of one generation.

use super::Build;
use super::shared::live_stripe::or_lowest_live;
use super::spec::PolicyError;
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Devid {
    named: MemberIndex,
}

/// Builds the policy from a devid of the array.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Devid { named: build.member(build.values[0])? }))
}

impl ReadPolicy for Devid {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let is_named = |mirror: &Mirror| mirror.member == self.named;
        // Without the named member the kernel prefers the first stripe; whether that is live or
        // not, the lowest live stripe is what it comes to.
        Choice::Mirror(or_lowest_live(mirrors.iter().position(is_named)))
    }
}
