//! # Idea
//! Takes the mirror whose member was chosen longest ago, for a number of reads; then the next.
//!
//! # State
//! The order in which members were last chosen, the current member, and the number of reads left of
//! its turn.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Equal members with random reads. With turns of a thousand reads, one sequential stream, which
//! stays on a member for long.
//!
//! # Bad at
//! - Sequential streams in short turns, which break them up.
//! - Long turns at depth: one member works while the others are idle.
//! - Unequal members: throughput is bound by the slowest.
//!
//! # Origin
//! Linux dm-multipath, `drivers/md/dm-ps-round-robin.c`. There, paths lead to one device; here,
//! each member is a path. The list begins in the order of the members. The count is the repeat
//! count of a path: 1 is the current default and the `rr_min_io_rq` of multipath-tools; 1000 is
//! their `rr_min_io` for multipath of bios; some vendors' dm-raid1 used 128. Current kernels warn
//! about more than 1 and use 1. A turn ends early if its member has no mirror of what is read. Path
//! weights are left out. The original is by Heinz Mauelshagen, Sistina Software.

use super::shared::path_list::PathList;
use super::{Build, Built};
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct RoundRobin {
    paths: PathList,
    reads_per_turn: u64,
    current: MemberIndex,
    reads_left: u64,
}

/// Builds the policy from the number of reads in a turn.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(RoundRobin {
        paths: PathList::default(),
        reads_per_turn: build.values[0],
        current: MemberIndex(0),
        reads_left: 0,
    }))
}

impl ReadPolicy for RoundRobin {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        let current = mirrors.iter().position(|mirror| mirror.member == self.current);
        let place = match current {
            Some(place) if self.reads_left > 0 => place,
            _ => {
                self.reads_left = self.reads_per_turn;
                self.paths.take_smallest(mirrors, |_| ())
            }
        };
        self.reads_left -= 1;
        self.current = mirrors[place].member;
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.paths.update(members);
    }
}
