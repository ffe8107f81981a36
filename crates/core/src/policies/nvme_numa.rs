//! # Idea
//! Takes one member for as long as it can serve.
//!
//! # State
//! The member in use.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! One sequential stream. Paths of which one is nearer than the others, which is its purpose.
//!
//! # Bad at
//! Everything that more than one mirror could serve: the others are idle.
//!
//! # Origin
//! The default of Linux NVMe multipath, `nvme_numa_path` in `drivers/nvme/host/multipath.c`. It
//! keeps the path that is nearest to each NUMA node, of equals the first of the list. Members here
//! have no distance and there is one node, so the first member in the order of their indexes that
//! has an eligible mirror is kept. When a member comes back, the path is searched again, as there.
//! Added here: a read without a mirror on the member in use changes it, because not every member
//! holds every block. The original is by Christoph Hellwig.

use super::shared::smallest::first_smallest;
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Numa {
    current: Option<MemberIndex>,
}

impl ReadPolicy for Numa {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let is_other = |mirror: &Mirror| Some(mirror.member) != self.current;
        let place = first_smallest(mirrors, |mirror| (is_other(mirror), mirror.member));
        self.current = Some(mirrors[place].member);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, _members: &Members) {
        self.current = None;
    }
}
