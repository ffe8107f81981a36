//! # Idea
//! A disk that has rested for two seconds is tried; otherwise the disk whose last I/O waited least.
//!
//! # State
//! The members' order; per member, the second in which it was last given an I/O.
//!
//! # Cost
//! One comparison a mirror.
//!
//! # Good at
//! A sequential stream, by accident: the disk that just answered quickly is taken again, so runs
//! are long (61.1 MB/s against 44.1 in the measurement of a 7.1 rebuild).
//!
//! # Bad at
//! Depth: one sample, writes included, neither averaged nor aware of the queue; all requests that
//! arrive between two completions go to one disk. Random reads gained nothing from four disks.
//! Ties go to the head of the list.
//!
//! # Origin
//! FreeBSD gmirror up to 8.0, `sys/geom/mirror/g_mirror.c`. Two seconds are a difference of whole
//! seconds of the clock, so they may be as short as just over one. Ours: a member never used counts
//! as rested, as it would be in a kernel that has been up for two seconds; and any I/O given to a
//! member counts as use.

use super::Build;
use super::shared::list_order::ListOrder;
use super::shared::smallest::first_smallest;
use super::spec::PolicyError;
use crate::io::MemberIo;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

const REST_SECONDS: u64 = 2;

struct LoadOld {
    order: ListOrder,
    /// By member; `None` before its first use.
    used_at_second: Vec<Option<u64>>,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(LoadOld { order: ListOrder::default(), used_at_second: Vec::new() }))
}

impl LoadOld {
    fn has_rested(&self, mirror: &Mirror, now_second: u64) -> bool {
        let used = self.used_at_second[mirror.member.get()];
        used.is_none_or(|second| now_second - second >= REST_SECONDS)
    }
}

impl ReadPolicy for LoadOld {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        let now_second = whole_seconds(ctx.now);
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let rested = self.has_rested(mirror, now_second);
            // Among rested members the wait does not matter: the first of the list wins.
            let wait = if rested { Nanos::ZERO } else { members[mirror.member].last_wait };
            (!rested, wait, self.order.rank(mirror))
        }))
    }

    fn on_submit(&mut self, io: &MemberIo, ctx: &mut Ctx<'_>) {
        self.used_at_second[io.member.get()] = Some(whole_seconds(ctx.now));
    }

    fn on_members_change(&mut self, members: &Members) {
        self.order.update(members);
        self.used_at_second.resize(members.len(), None);
    }
}

fn whole_seconds(now: Nanos) -> u64 {
    now.0 / Nanos::from_secs(1).0
}
