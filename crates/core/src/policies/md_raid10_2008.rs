//! # Idea
//! As `md/raid10`, but non-rotational disks follow the same rule as others, and in `near` the first
//! idle disk ends the scan: it serves even if the head of an earlier one is there.
//!
//! # State
//! None of its own; it uses the queues, and the end of the last I/O completed on each member.
//!
//! # Cost
//! One scan of the mirrors, which ends at the first idle one in `near`.
//!
//! # Good at
//! `near`: random reads of a few readers, because an idle disk is found.
//!
//! # Bad at
//! - Many requests on SSDs: no disk is idle, and the nearest head says nothing about a queue. Two
//!   disks get equal shares, so the slower one decides: an NVMe disk and a SATA SSD served 208 k
//!   random reads/s, where the rule of 2019 and raid1 serve 602 k.
//! - What `md/raid10` is bad at with rotational disks.
//!
//! # Origin
//! Linux md from 2.6.26 to 5.2, `read_balance` in `drivers/md/raid10.c`; the rule for `far` came in
//! March 2008. Linux 5.3 ("read balance chooses idlest disk for SSD", in the pull request of the
//! block layer for 5.3) replaced it. See `md/raid10` for layouts and what is left out. The original
//! is by Neil Brown, Keld Simonsen.

use super::md_raid10::{Raid10, Release};
use super::{Build, Built};

/// Builds the policy from the index of the layout's word.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Raid10::new(build, Release::Before2019)))
}
