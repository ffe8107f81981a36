//! # Idea
//! Scans the disks from the one used last, and takes the first disk that is idle, or whose head is
//! where the read begins, or any disk if the read continues the array's last read. If there is
//! none, the nearest head serves.
//!
//! # State
//! The member used last, and where the last read of the array ended.
//!
//! # Cost
//! One scan of the mirrors in slot order, from the disk used last.
//!
//! # Good at
//! One sequential stream, which stays on its disk. A few random readers: an idle disk is found.
//!
//! # Bad at
//! - Several streams: the array remembers one, so others are kept together by head position alone.
//! - One reader: the disk used last is idle again, so it always serves, however slow it is.
//! - Non-rotational members: the nearest head decides under load, although they have no head.
//!
//! # Origin
//! Linux md 2.6.36 to 3.5, `read_balance` in `drivers/md/raid1.c`, the last version that did not
//! distinguish kinds of disk. The stream is of array sectors, here of the volume's bytes. The slot
//! is the member's index; if the disk used last holds no copy here, the scan begins at the next
//! slot. Added here: before the first read there is no stream, and the scan begins at slot 0.
//! Write-mostly disks are the volume's last resort. The original is by Neil Brown.

use super::shared::slot_order::slot_order;
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Raid1 {
    last_used: MemberIndex,
    next_offset: Option<u64>,
}

impl Raid1 {
    fn best(&self, read: &Read, mirrors: &[Mirror], members: &Members) -> usize {
        let continues = self.next_offset == Some(read.offset);
        let mut nearest = (u64::MAX, 0);
        let is_early = |place: &usize| mirrors[*place].member < self.last_used;
        let from_last_used = slot_order(mirrors).filter(|place| !is_early(place));
        for place in from_last_used.chain(slot_order(mirrors).filter(is_early)) {
            let mirror = &mirrors[place];
            let member = &members[mirror.member];
            let distance = mirror.offset.abs_diff(member.completed_end);
            if continues || distance == 0 || member.in_flight() == 0 {
                return place;
            }
            if distance < nearest.0 {
                nearest = (distance, place);
            }
        }
        nearest.1
    }
}

impl ReadPolicy for Raid1 {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let place = self.best(read, mirrors, ctx.members);
        self.next_offset = Some(read.offset + read.length);
        self.last_used = mirrors[place].member;
        Choice::Mirror(place)
    }
}
