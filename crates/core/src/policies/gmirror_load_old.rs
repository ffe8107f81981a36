//! # Idea
//! Takes a disk that was not used for two seconds, if there is one; otherwise the disk whose last
//! I/O had the shortest wait.
//!
//! # State
//! The order of the members. Per member, the second in which it was last given an I/O.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! A sequential stream, as a side effect: the disk that just answered quickly is taken again, so
//! runs are long (61.1 MB/s against 44.1 in the measurement of a 7.1 rebuild).
//!
//! # Bad at
//! - Depth: it uses one sample, writes included, without a mean and without the queue. All requests
//!   that arrive between two completions go to one disk. Random reads gained nothing from four
//!   disks.
//! - Equal members: ties go to the head of the list.
//!
//! # Origin
//! FreeBSD gmirror up to 8.0, `sys/geom/mirror/g_mirror.c`. Two seconds are a difference of whole
//! seconds of the clock, so they may be as short as just over one. Added here: a member that was
//! never used counts as unused for two seconds, as in a kernel that has been up for that long; and
//! any I/O given to a member counts as use. The original is by Pawel Jakub Dawidek
//! <pjd@FreeBSD.org>.

use super::shared::list_order::ListOrder;
use super::shared::smallest::first_smallest;
use crate::io::MemberIo;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

const UNUSED_SECONDS: u64 = 2;

#[derive(Default)]
pub(super) struct LoadOld {
    order: ListOrder,
    /// By member; `None` before its first use.
    used_at_second: Vec<Option<u64>>,
}

impl LoadOld {
    fn is_unused(&self, mirror: &Mirror, now_second: u64) -> bool {
        let used = self.used_at_second[mirror.member.get()];
        used.is_none_or(|second| now_second - second >= UNUSED_SECONDS)
    }
}

impl ReadPolicy for LoadOld {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let now_second = whole_seconds(ctx.now);
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let unused = self.is_unused(mirror, now_second);
            // Among unused members the wait does not matter: the first of the list wins.
            let wait = if unused { Nanos::ZERO } else { ctx.members[mirror.member].last_wait };
            (!unused, wait, self.order.rank(mirror))
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
