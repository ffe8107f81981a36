//! # Idea
//! A block that has a mirror on this member is read from it; the policy chooses for all other
//! blocks.
//!
//! # State
//! The member.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! A copy that is near (the same site, the same NUMA node) or new and fast, on an array where not
//! every chunk has a mirror there.
//!
//! # Bad at
//! Load: the member serves every read that it can, however long its queue.
//!
//! # Origin
//! VxVM's `rdpol=siteread` and `prefer`, and the preferred mirror of most volume managers. As a
//! modifier it is ours; `btrfs/devid` is the same with a fixed policy for all other blocks.

use super::narrowed::choose_among;
use super::{Built, Modifier, wrap};
use crate::member::{MemberIndex, Members};
use crate::policies::Build;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct PreferMember {
    preferred: MemberIndex,
}

/// Builds the modifier from the devid of the member to prefer.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    wrap(inner, PreferMember { preferred: build.member(build.values[0])? })
}

impl Modifier for PreferMember {
    fn choose(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        choose_among(inner, read, mirrors, members, ctx, |mirror| mirror.member == self.preferred)
    }
}
