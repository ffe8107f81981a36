//! # Idea
//! As `md/raid1`, but a read that continues a stream always stays on its disk: on a non-rotational
//! disk, too, however long the run is and however many others are idle.
//!
//! # State
//! That of `md/raid1`.
//!
//! # Cost
//! That of `md/raid1`.
//!
//! # Good at
//! What `md/raid1` is good at.
//!
//! # Bad at
//! What `md/raid1` is bad at. One stream never uses a second SSD, even if the disks report an
//! optimal I/O size. Disks that report none, as most do, are read as by `md/raid1`.
//!
//! # Origin
//! Linux md 4.10 to 6.8.1, `read_balance` in `drivers/md/raid1.c`. Linux 4.10 removed the check for
//! an idle disk that ended a long run (commit 2e52d449bcec, "md/raid1: add failfast handling for
//! reads"), and 6.9 and 6.8.2 brought it back (257ac239ffcf, "md/raid1: fix choose next idle in
//! read_balance()"). If several long runs end at a read, the one of the highest slot continues.
//! These versions do not count write-mostly disks when they look for a non-rotational one; here
//! those count, as in 6.9. The original is by Shaohua Li, Neil Brown.

use super::md_raid1::Raid1;
use super::shared::md_streams::Streams;
use super::{Build, Built};

/// Builds the policy from the devid of the first slot.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Raid1 { streams: Streams::keeping_long_streams().in_order(build)? }))
}
