//! # Idea
//! Always takes the mirror on the member of highest priority.
//!
//! # State
//! The order of the members: by descending priority, of equals the later first.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! A fast local member mirrored with a slow or distant one. A single sequential stream: in the
//! measurement of a 7.1 rebuild it read 60.5 MB/s, where spreading read 44.
//!
//! # Bad at
//! Using more than one member.
//!
//! # Origin
//! FreeBSD gmirror, `sys/geom/mirror/g_mirror.c`. `gmirror label` gives the i-th provider priority
//! i - 1, so the last-named disk serves by default. The original is by Pawel Jakub Dawidek
//! <pjd@FreeBSD.org>.

use super::shared::list_order::ListOrder;
use super::shared::smallest::first_smallest;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Prefer {
    order: ListOrder,
}

impl ReadPolicy for Prefer {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| self.order.rank(mirror)))
    }

    fn on_members_change(&mut self, members: &Members) {
        self.order.update(members);
    }
}
