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
//! Defined in vxvol(1M), by Veritas.

use super::Built;
use super::narrowed::choose_among;
use crate::member::MemberIndex;
use crate::policies::Build;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct PreferMember {
    inner: Box<dyn ReadPolicy>,
    preferred: MemberIndex,
}

/// Builds the modifier from the devid of the member to prefer.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    Ok(Box::new(PreferMember { inner, preferred: build.member(build.values[0])? }))
}

impl ReadPolicy for PreferMember {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        choose_among(self.inner.as_mut(), read, mirrors, ctx, |mirror| {
            mirror.member == self.preferred
        })
    }
}
