//! # Idea
//! The mirror whose member was chosen longest ago.
//!
//! # State
//! The order in which members were last chosen.
//!
//! # Cost
//! One comparison a mirror.
//!
//! # Good at
//! Equal members with random reads.
//!
//! # Bad at
//! Sequential streams, which it tears apart. Unequal members: the slow one sets the pace.
//!
//! # Origin
//! Linux dm-multipath, `drivers/md/dm-ps-round-robin.c`. There, paths lead to one device; here,
//! each member is a path. The list begins in the order of the members. A path serves one I/O at a
//! time: the repeat count is 1 in present kernels (1000 by `rr_min_io` in old ones), and greater
//! ones are ignored. Path weights are left out.

use super::Build;
use super::shared::path_list::PathList;
use super::shared::smallest::first_smallest;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct RoundRobin {
    paths: PathList,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(RoundRobin { paths: PathList::default() }))
}

impl ReadPolicy for RoundRobin {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let place = first_smallest(mirrors, |mirror| self.paths.rank(mirror));
        self.paths.move_to_tail(&mirrors[place]);
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.paths.update(members);
    }
}
