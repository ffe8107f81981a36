//! # Idea
//! Reads from one named member. If that member holds no mirror of the block, reads from the first
//! stripe.
//!
//! # State
//! The devid.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Avoiding a member that is known to be slow or stale. Measuring what one member can do.
//!
//! # Bad at
//! Anything else: one member works while the others are idle, whatever happens.
//!
//! # Origin
//! Linux btrfs 6.14, `fs/btrfs/volumes.c`, by Anand Jain, for tests and manual control. Without a
//! value the kernel takes the device of the highest generation. Here it is the array's first
//! device, because all devices of an array in sync have the same generation.

use super::shared::lowest_live::or_lowest_live;
use super::{Build, Built};
use crate::member::MemberIndex;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Devid {
    named: MemberIndex,
}

pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Devid { named: build.member(build.values[0])? }))
}

impl ReadPolicy for Devid {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let is_named = |mirror: &Mirror| mirror.member == self.named;
        // Without the named member the kernel prefers the first stripe. Whether that is live or
        // not, the result is the lowest live stripe.
        Choice::Mirror(or_lowest_live(mirrors.iter().position(is_named)))
    }
}
