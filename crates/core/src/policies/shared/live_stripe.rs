//! What btrfs does when the stripe it prefers cannot be read: the lowest live one serves.
//!
//! The share of a missing device thus falls on one survivor instead of all.
//!
//! Source: `find_live_mirror` in Linux `fs/btrfs/volumes.c`.

use crate::policy::{Mirror, Read};

/// The preferred place in the slice if it is live, else that of the lowest live stripe: the slice
/// holds eligible mirrors in stripe order, so it is the first.
#[inline]
pub(crate) fn or_lowest_live(preferred: Option<usize>) -> usize {
    preferred.unwrap_or(0)
}

/// The place of the stripe that a number picks out of all, live or not, or of the lowest live one.
/// The number is the reader's process id in btrfs, the CPU where that decides.
#[inline]
pub(crate) fn stripe_of(number: u64, read: &Read, mirrors: &[Mirror]) -> usize {
    let preferred = (number % u64::from(read.copies)) as u8;
    or_lowest_live(mirrors.iter().position(|mirror| mirror.copy == preferred))
}
