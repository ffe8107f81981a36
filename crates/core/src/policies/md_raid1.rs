//! # Idea
//! A read that continues a stream stays on its disk. Otherwise an idle disk serves. If none is
//! idle, the shortest queue serves where the array has a non-rotational disk, else the nearest
//! head. A non-rotational disk loses its stream to an idle one once the run reaches its optimal I/O
//! size.
//!
//! # State
//! Per member: where the last read given to it ended, and where that stream began. The head
//! position is the end of the last I/O completed.
//!
//! # Cost
//! One scan of the mirrors in slot order.
//!
//! # Good at
//! A few sequential streams on rotational disks; random reads on non-rotational ones.
//!
//! # Bad at
//! - A busy or slow disk keeps its stream: position is considered before load. A device that
//!   reports no optimal I/O size never gives a stream up. One stream per disk is remembered.
//! - On rotational disks at depth the nearest head wins even where its queue is long.
//! - Unequal disks: an idle slow disk is taken before a fast one with one request.
//!
//! # Origin
//! Linux md since 6.8.2 (mainline: 6.9), `choose_best_rdev` in `drivers/md/raid1.c`. Its other
//! stages are part of the volume's eligibility here: the first usable disk until a resync has
//! passed, disks with bad blocks, and write-mostly disks as the last resort. The slot is the
//! member's index, unless the value names the member that the array was created with as the first.
//! Sectors are bytes of the member here; in md all disks of an array share one address. A read
//! that had no other mirror is not seen. The original is by Yu Kuai <yukuai3@huawei.com>, Paul
//! Luse <paul.e.luse@linux.intel.com>.

use super::shared::md_streams::Streams;
use super::{Build, Built};
use crate::member::{Member, Members};
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy};

/// The policy, and that of the Linux versions before it.
pub(super) struct Raid1 {
    pub(super) streams: Streams,
}

/// Builds the policy from the devid of the first slot.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Raid1 { streams: Streams::default().in_order(build)? }))
}

impl ReadPolicy for Raid1 {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(self.streams.take_best(read, mirrors, ctx.members, Member::in_flight))
    }

    fn on_members_change(&mut self, members: &Members) {
        self.streams.update(members);
    }

    fn explain(&self, _read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        self.streams.reasons(mirrors, ctx.members, Member::in_flight)
    }
}
