//! # Idea
//! As `md/raid1`, but the disks are scanned in slot order, and the first that is idle or has the
//! stream serves. An idle disk of a lower slot therefore goes before the disk of the stream.
//!
//! # State
//! That of `md/raid1`.
//!
//! # Cost
//! One scan of the mirrors in slot order, which ends at the first idle one.
//!
//! # Good at
//! Random reads of a few readers: an idle disk is found. One stream, which stays on the first disk.
//!
//! # Bad at
//! - Several streams: one of a higher slot moves to each lower disk that is idle for a moment, and
//!   rotational disks seek between the streams.
//! - One reader: the first disk is idle again at each read, so it always serves, however slow it
//!   is.
//! - What else `md/raid1` is bad at.
//!
//! # Origin
//! Linux md 3.6 to 4.9, `read_balance` in `drivers/md/raid1.c`, read in Linux 3.10.33 and in a 4.4.
//! Linux 3.6 brought the stream of each disk, the shortest queue of non-rotational disks and the
//! end of a long run at an idle disk; 4.10 moved the check for idle disks behind that of the
//! streams (see `md/raid1-2016`). A long run that finds no idle disk behind it in the scan stays;
//! of several, on the one of the highest slot. These versions do not count write-mostly disks when
//! they look for a non-rotational one; here those count, as in 6.9. The original is by Shaohua Li,
//! Neil Brown.

use super::md_raid1::Raid1;
use super::shared::md_streams::Streams;
use super::{Build, Built};

/// Builds the policy from the devid of the first slot.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Raid1 { streams: Streams::taking_first_idle().in_order(build)? }))
}
