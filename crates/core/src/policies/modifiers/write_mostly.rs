//! # Idea
//! Reads from this member only where no other mirror can serve: for a copy that is slow, far away
//! or expensive to read. May be given once for each such member.
//!
//! # State
//! The member.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! An SSD mirrored on an HDD; a copy behind a slow link.
//!
//! # Bad at
//! Load: the other mirrors serve all of it, even where this one would have helped. Chunks of which
//! every mirror is on such a member are read as if there were no modifier.
//!
//! # Origin
//! Linux md, `mdadm --write-mostly` and the WriteMostly flag in `drivers/md/raid1.c`; in LVM
//! `lvchange --writemostly`. There it is a property of the member, as in the array file here
//! (`write_mostly`); the modifier tries it without changing the array. The original is by Neil
//! Brown, Keld Simonsen, Guoqing Jiang.

use super::Built;
use super::narrowed::{choose_among, leave_out_others};
use crate::column_set::ColumnSet;
use crate::member::MemberIndex;
use crate::policies::Build;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy, StripeRead};

struct WriteMostly {
    inner: Box<dyn ReadPolicy>,
    avoided: MemberIndex,
}

/// Builds the modifier from the devid of the member to avoid.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    Ok(Box::new(WriteMostly { inner, avoided: build.member(build.values[0])? }))
}

impl ReadPolicy for WriteMostly {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        choose_among(self.inner.as_mut(), read, mirrors, ctx, |mirror| {
            mirror.member != self.avoided
        })
    }

    fn reconstructs(&self) -> bool {
        true
    }

    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        leave_out_others(self.inner.as_mut(), read, columns, ctx, |it| it.member != self.avoided)
    }
}
