//! # Idea
//! Takes the disk with the lowest smoothed queue length. A head exactly where the read begins is
//! worth two requests, a head within 1 MiB is worth one.
//!
//! # State
//! The order of the members. Per member: a load (256 is one request), and the end of the last read
//! that was sent there.
//!
//! # Cost
//! One comparison per mirror, and an update of every member's load at each decision.
//!
//! # Good at
//! Several sequential streams on rotational members: each keeps its disk, and beyond a short
//! distance the queue decides, so no disk is idle.
//!
//! # Bad at
//! - Unequal members: a queue of three on a slow disk counts as much as one of three on a fast
//!   disk.
//! - Pauses: loads change with decisions, not with time (half-life 5.2 reads), so after a pause
//!   they are those from before it.
//! - Two streams that alternate on a disk: one stream per disk is remembered, so both lose the
//!   bonus.
//!
//! # Origin
//! FreeBSD gmirror after 8.0, `sys/geom/mirror/g_mirror.c` (PR kern/113885, December 2009). Ties go
//! to the last of the list. There, every disk belongs to the one mirror; here every member of the
//! array is updated at each decision, whichever chunk it was for. The original is by Alexander
//! Motin <mav@FreeBSD.org>.

use super::shared::head_bonus::{head_bonus, smoothed_load};
use super::shared::list_order::ListOrder;
use super::shared::smallest::first_smallest;
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, MirrorScore, Read, ReadPolicy};
use std::cmp::Reverse;

#[derive(Default)]
pub(super) struct GmirrorLoad {
    order: ListOrder,
    disks: Vec<DiskLoad>,
}

#[derive(Clone, Default)]
struct DiskLoad {
    load: i64,
    last_end: u64,
}

impl ReadPolicy for GmirrorLoad {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let place = first_smallest(mirrors, |mirror| {
            let disk = &self.disks[mirror.member.get()];
            let bonus = head_bonus(disk.last_end.abs_diff(mirror.offset));
            (disk.load - bonus, Reverse(self.order.rank(mirror)))
        });
        let chosen = &mirrors[place];
        self.disks[chosen.member.get()].last_end = chosen.offset + read.length;
        for ((index, member), disk) in ctx.members.iter().zip(&mut self.disks) {
            // The read that is about to be sent counts as well.
            let queue = i64::from(member.in_flight()) + i64::from(index == chosen.member);
            disk.load = smoothed_load(disk.load, queue);
        }
        Choice::Mirror(place)
    }

    fn on_members_change(&mut self, members: &Members) {
        self.order.update(members);
        self.disks.resize(members.len(), DiskLoad::default());
    }

    fn counters(&self) -> Vec<Counter> {
        let show = |(index, disk): (usize, &DiskLoad)| {
            let member = Some(MemberIndex(index as u16));
            Counter { member, name: "load_256ths", value: disk.load }
        };
        self.disks.iter().enumerate().map(show).collect()
    }

    fn explain(&self, _read: &Read, mirrors: &[Mirror], _ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        let reason = |mirror: &Mirror| {
            let disk = &self.disks[mirror.member.get()];
            let bonus = head_bonus(disk.last_end.abs_diff(mirror.offset));
            MirrorScore::new("score_256ths", disk.load - bonus)
                .with("load_256ths", disk.load)
                .with("head_bonus_256ths", -bonus)
        };
        mirrors.iter().map(reason).collect()
    }
}
