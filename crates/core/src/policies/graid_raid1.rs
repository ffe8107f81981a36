//! # Idea
//! Takes the disk with the lowest smoothed queue length, less a bonus for a head in position, as
//! `gmirror/load` does. A disk that is being rebuilt is used only where no other can serve.
//!
//! # State
//! Per member: I/O in flight and a load (256 is one request).
//!
//! # Cost
//! One score per mirror, and an update of every member's load at each I/O sent, writes included.
//!
//! # Good at
//! Several sequential streams on rotational members.
//!
//! # Bad at
//! - Unequal members: a queue of three on a slow disk counts as much as one of three on a fast
//!   disk.
//! - Pauses: loads change with I/O, not with time, so after a pause they are those from before it.
//! - Equal members at rest: ties go to the first.
//!
//! # Origin
//! FreeBSD graid, `g_raid_tr_raid1_select_read_disk` in `sys/geom/raid/tr_raid1.c`, and the loads
//! in `g_raid.c`. Unlike in gmirror, writes update the loads and move the heads too, and ties go to
//! the lowest index. A disk in a state other than active loses by at least 65536 there, by exactly
//! 65536 here. Left out: the 2^22 for each error recovery in progress, which a policy here cannot
//! see. The original is by Alexander Motin <mav@FreeBSD.org>.

use super::shared::head_bonus::{head_bonus, smoothed_load};
use super::shared::smallest::first_smallest;
use crate::io::{MemberIo, Outcome};
use crate::member::{MemberIndex, MemberState, Members};
use crate::policy::{Choice, Counter, Ctx, Mirror, Read, ReadPolicy};

/// Added to the load of a disk that is not active.
const LESSER_STATE: i64 = 1 << 16;

#[derive(Default)]
pub(super) struct Raid1 {
    disks: Vec<DiskLoad>,
}

#[derive(Clone, Default)]
struct DiskLoad {
    in_flight: i64,
    load: i64,
}

impl ReadPolicy for Raid1 {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &ctx.members[mirror.member];
            let bonus = head_bonus(member.submitted_end.abs_diff(mirror.offset));
            let state = if member.state == MemberState::InSync { 0 } else { LESSER_STATE };
            (self.disks[mirror.member.get()].load + state - bonus, mirror.member)
        }))
    }

    fn on_submit(&mut self, io: &MemberIo, _ctx: &mut Ctx<'_>) {
        self.disks[io.member.get()].in_flight += 1;
        for disk in &mut self.disks {
            disk.load = smoothed_load(disk.load, disk.in_flight);
        }
    }

    fn on_complete(&mut self, io: &MemberIo, _outcome: &Outcome, _ctx: &mut Ctx<'_>) {
        self.disks[io.member.get()].in_flight -= 1;
    }

    fn on_members_change(&mut self, members: &Members) {
        self.disks.resize(members.len(), DiskLoad::default());
    }

    fn counters(&self) -> Vec<Counter> {
        let show = |(index, disk): (usize, &DiskLoad)| {
            let member = Some(MemberIndex(index as u16));
            Counter { member, name: "load_256ths", value: disk.load }
        };
        self.disks.iter().enumerate().map(show).collect()
    }
}
