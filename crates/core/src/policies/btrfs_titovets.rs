//! # Idea
//! Takes the mirror that the reader's process id selects, or the only non-rotational one, unless
//! its queue is longer than the shortest queue by more than a threshold: 2 if all mirrors are
//! non-rotational, else 8.
//!
//! # State
//! None of its own; it uses the statistics of the members.
//!
//! # Cost
//! Two scans of the mirrors.
//!
//! # Good at
//! One reader, which stays on its mirror. Many readers, of which some move to the other mirror.
//!
//! # Bad at
//! - A few readers on one mirror: up to eight wait there while the other mirror is idle.
//! - Defect of the original, not copied: on RAID10 it compared stripes 0 and 1 of the chunk,
//!   whichever group was read.
//!
//! # Origin
//! Timofey Titovets <timofey.titovets@synesis.ru>, patch V9 on linux-btrfs, May 2019; not merged.
//! It handles two mirrors, of which one may be non-rotational. Added here for more mirrors: the
//! process id selects one of all stripes, and a dead one is replaced by the lowest live one; if
//! some but not all are non-rotational, the first of those is selected; of equally short queues the
//! first is taken.

use super::shared::lowest_live::stripe_of;
use super::shared::smallest::first_smallest;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Titovets;

impl ReadPolicy for Titovets {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let non_rotational = |mirror: &Mirror| !ctx.members[mirror.member].config.rotational;
        let queue = |mirror: &Mirror| ctx.members[mirror.member].in_flight();
        let is_uniform = |kind| mirrors.iter().all(|mirror| non_rotational(mirror) == kind);
        let (threshold, preferred) = if is_uniform(true) || is_uniform(false) {
            (if is_uniform(true) { 2 } else { 8 }, stripe_of(read.stream, read, mirrors))
        } else {
            (8, first_smallest(mirrors, |mirror| !non_rotational(mirror)))
        };
        let shortest = first_smallest(mirrors, queue);
        let excess = queue(&mirrors[preferred]) - queue(&mirrors[shortest]);
        Choice::Mirror(if excess <= threshold { preferred } else { shortest })
    }
}
