//! # Idea
//! Takes the shortest queue. Of equals, the clock selects one, a different one every 10 ms, so that
//! requests that arrive together go to the same disk and can be merged there.
//!
//! # State
//! None of its own; it uses the members' queues and the time.
//!
//! # Cost
//! One comparison per mirror and one division.
//!
//! # Good at
//! Depth, on members of any speed: the queues stay balanced.
//!
//! # Bad at
//! - Streams: the queue is considered before position. With two HDDs and an SSD, three `dd` read 51
//!   MB/s, where static striping read 95 and load with locality 284 (OpenZFS commit text).
//! - One read at a time: all are idle, so the clock decides, and a stream changes disks every 10
//!   ms.
//!
//! # Origin
//! ZFS on Linux 0.6.x, `module/zfs/vdev_mirror.c`, by Brian Behlendorf (openzfs/zfs pull request
//! 1487, 2013): `zfs_vdev_mirror_switch_us`, 10000 by default, until load and locality were
//! weighed. There, I/O that a child's queue has issued is pending, of every class. The number of
//! the interval, modulo the number of equals, is an index among them in the order of the children:
//! here the members' index. Added here: the intervals begin with the volume, not at boot.

use super::shared::ties::smallest_with_tie_break;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

/// `zfs_vdev_mirror_switch_us`: the choice among equals changes this often.
const SWITCH: Nanos = Nanos::from_millis(10);

#[derive(Default)]
pub(super) struct PendingLoad;

impl ReadPolicy for PendingLoad {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(smallest_with_tie_break(
            mirrors,
            |mirror| ctx.members[mirror.member].in_flight(),
            |equals| ctx.now.0 / SWITCH.0 % equals,
        ))
    }
}
