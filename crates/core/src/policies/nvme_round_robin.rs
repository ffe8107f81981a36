//! # Idea
//! The next mirror for each request, in the order of the members.
//!
//! # State
//! Whose turn it is.
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
//! Linux NVMe multipath, `nvme_round_robin_path` in `drivers/nvme/host/multipath.c`. It keeps a
//! turn for each NUMA node; here there is one node. All paths are optimized.

use super::Build;
use super::shared::cycle::MemberTurn;
use super::spec::PolicyError;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct RoundRobin {
    turn: MemberTurn,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(RoundRobin { turn: MemberTurn::default() }))
}

impl ReadPolicy for RoundRobin {
    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        _members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::Mirror(self.turn.turn(mirrors))
    }
}
